"""The contract that every engine keeps, whatever it is made of.

An engine joins by an entry in ENGINES; block sizes are entries of their own. With an address in
PROPTRAIN_RAY the contract is kept by a real Ray cluster on this machine instead, or by one that is
started for it:

    PROPTRAIN_RAY=local python -m pytest tests/contract
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reference
from engine_laws import (
    AWKWARD,
    MANY_STEPS,
    SCHEMES,
    TOLERANCES,
    bears_an_awkward_graph,
    close,
    equals_the_oracle,
    holds_rows_fixed,
    oracle,
)
from one_process import OneProcess
from proptrain.data.disk_writer import save_graph
from proptrain.data.graph import Graph
from proptrain.data.mapped import room_for
from proptrain.errors import InvalidInputError, LabelError
from proptrain.propagate import engine
from proptrain.propagate.blocked import BlockedEngine
from proptrain.propagate.cluster import ClusterEngine
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.labels import equal_labels, propagate_labels
from proptrain.propagate.schemes import PPR, Exact, Heat, Mean, Power
from proptrain.propagate.torch_engine import TorchEngine
from strategies import SEEDS, adjacencies, adjacencies_with_signals, labellings, node_sets


@dataclass(frozen=True)
class EngineCase:
    """How to make an engine, and how many random graphs it can take in a test."""

    name: str
    make: Callable[[Graph, str], Any]
    max_examples: int = 12

    def on(self, adjacency, kind):
        return self.make(Graph(sp.csr_array(np.asarray(adjacency))), kind)

    def for_all(self, *strategies):
        """Run a check on random examples, the same ones every time."""

        def run(check):
            settings(
                max_examples=self.max_examples,
                derandomize=True,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            )(given(*strategies)(check))()

        return run


def without_stored_numbers(graph, kind):
    """The local engine as it is for large unweighted graphs."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "MANY_ENTRIES", 0)
        return LocalEngine(graph, kind)


class Cramped(BlockedEngine):
    """The engine from disk as it is for the largest graphs: all in files, little at a time."""

    _is_small = False
    _part = (2, 3)
    _widths = (4,)

    def room(self, shape, dtype):
        return room_for(shape, dtype, self.scratch, small=0)


class Roomy(BlockedEngine):
    """The engine from disk, with no kernel that takes long to compile."""

    _widths = (4, 8, 16)


class OfOneProcess(ClusterEngine):
    """The engine of a cluster, with a crew that is no cluster."""

    _widths = (4, 8, 16)

    def __init__(self, graph, normalisation, *, memory, scratch):
        super().__init__(graph, OneProcess(), normalisation, scratch=scratch)


class OfOneProcessLarge(OfOneProcess):
    """The engine of a cluster as it is for large graphs, which have no numbers of entries."""

    _is_small = False


RAY = os.environ.get("PROPTRAIN_RAY")


def on_ray():
    """Return the engine of Ray, and as it is for large graphs; the first connects for all."""
    from proptrain.large.on_ray import RayEngine

    class OfRay(RayEngine):
        def __init__(self, graph, normalisation, *, memory, scratch):
            address = None if RAY == "local" else RAY
            super().__init__(graph, normalisation, address=address, scratch=scratch)

    class OfRayLarge(OfRay):
        _is_small = False

    return OfRay, OfRayLarge


CLUSTER, LARGE_CLUSTER = on_ray() if RAY else (OfOneProcess, OfOneProcessLarge)


def from_disk(kind, n_blocks, *, is_renumbered=False):
    """Write each graph to a folder, in memory where there is such a place: tests are many."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None

    def make(graph, normalisation):
        folder = tempfile.mkdtemp(dir=place)
        try:
            order = np.random.RandomState(3).permutation(graph.n_nodes) if is_renumbered else None
            save_graph(graph, f"{folder}/graph", n_blocks=n_blocks, order=order)
            made = kind(f"{folder}/graph", normalisation, memory="64GB", scratch=place)
        except InvalidInputError:
            shutil.rmtree(folder)
            raise
        weakref.finalize(made, shutil.rmtree, folder)  # as long as there is the engine
        return made

    return make


IN_ONE_PROCESS = [
    EngineCase("local", LocalEngine),
    EngineCase("local, large and unweighted", without_stored_numbers),
    EngineCase("torch", lambda *graph: TorchEngine(*graph, device=torch.device("cpu"))),
    EngineCase("blocked", from_disk(Roomy, 1), max_examples=3),
    EngineCase(
        "blocked, large, more blocks than nodes, renumbered",
        from_disk(Cramped, 9, is_renumbered=True),
        max_examples=1,
    ),
]


def of_cluster(name, max_examples):
    """Return the engine of a cluster on graphs in few blocks and in many."""
    cut_small = from_disk(CLUSTER, 9, is_renumbered=True)
    return [
        EngineCase(f"{name}, whole", from_disk(CLUSTER, 1), max_examples=1),
        EngineCase(f"{name}, halves", from_disk(CLUSTER, 2), max_examples),
        EngineCase(f"{name}, large, halves", from_disk(LARGE_CLUSTER, 2), max_examples),
        EngineCase(f"{name}, more blocks than nodes, renumbered", cut_small, max_examples=1),
    ]


ENGINES = of_cluster("ray", 1) if RAY else [*IN_ONE_PROCESS, *of_cluster("cluster", 3)]

engines = pytest.mark.parametrize("case", ENGINES, ids=lambda case: case.name)
kinds = pytest.mark.parametrize("kind", reference.KINDS)
symmetric_kinds = pytest.mark.parametrize("kind", ["symmetric", "symmetric-no-loops"])
schemes = pytest.mark.parametrize("name", [name for name in SCHEMES if name != MANY_STEPS])
dtypes = pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES)


# --- the values -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", reference.KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
# Of large weighted graphs memory has numbers of entries, and disks have none.
@pytest.mark.parametrize(
    ("is_large", "is_weighted"), [(False, False), (False, True), (True, False)]
)
def test_memory_disk_and_cluster_give_the_same_bits(
    kind, dtype, is_large, is_weighted, monkeypatch
):
    if is_large:
        monkeypatch.setattr(engine, "MANY_ENTRIES", 0)
    random = np.random.RandomState(0)
    upper = np.triu(random.rand(90, 90) < 0.1, 1) * random.rand(90, 90).astype(np.float32)
    adjacency = upper + upper.T if is_weighted else (upper + upper.T > 0).astype(float)
    adjacency[7] = adjacency[:, 7] = 0
    graph, fixed = Graph(sp.csr_array(adjacency)), np.array([3, 70])
    for n_columns in (3, 11):
        signal = random.rand(90, n_columns).astype(dtype)
        wanted = LocalEngine(graph, kind).propagate(signal, PPR(), fixed=fixed)
        for kind_of_engine, n_blocks in ((Roomy, 3), (Roomy, 99), (CLUSTER, 4)):
            made = from_disk(kind_of_engine, n_blocks)(graph, kind)
            np.testing.assert_array_equal(made.propagate(signal, PPR(), fixed=fixed), wanted)


@engines
@kinds
@schemes
@dtypes
def test_equals_the_oracle_and_keeps_the_type(case, kind, name, dtype, tolerance):
    @case.for_all(adjacencies_with_signals(dtype=dtype))
    def check(drawn):
        adjacency, signal = drawn
        assert signal.dtype == dtype
        equals_the_oracle(case.on(adjacency, kind), adjacency, kind, name, signal, tolerance)


@engines
@kinds
@schemes
@pytest.mark.parametrize("graph", AWKWARD)
def test_awkward_graphs_are_no_exception(case, kind, name, graph):
    adjacency = AWKWARD[graph]
    bears_an_awkward_graph(case.on(adjacency, kind), adjacency, kind, name)


@engines
@kinds
@schemes
def test_whole_numbers_are_taken_as_float64(case, kind, name):
    path = np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]])
    signal = np.array([[1], [0], [-2]])
    got = case.on(path, kind).propagate(signal, SCHEMES[name][0])
    assert got.dtype == np.float64
    close(got, oracle(path, kind, name) @ signal)


@engines
@kinds
def test_float64_stays_exact_after_a_float32_call(case, kind):
    random = np.random.RandomState(0)
    adjacency = np.triu(random.rand(6, 6).astype(np.float32), 1)
    adjacency = adjacency + adjacency.T
    signal = random.rand(6, 2)
    engine = case.on(adjacency, kind)
    before = engine.propagate(signal, PPR())
    engine.propagate(signal.astype(np.float32), PPR())
    np.testing.assert_array_equal(engine.propagate(signal, PPR()), before)


@engines
@kinds
def test_exact_is_the_closed_form_within_its_tolerance(case, kind):
    @case.for_all(adjacencies_with_signals(), st.sampled_from([0.05, 0.3, 1.0]))
    def check(drawn, alpha):
        adjacency, signal = drawn
        wanted = reference.exact(reference.operator(adjacency, kind), alpha) @ signal
        engine = case.on(adjacency, kind)
        norm = np.linalg.norm if kind != "row" else lambda matrix: np.abs(matrix).max()
        for tol in (1e-2, 1e-9):
            error = norm(engine.propagate(signal, Exact(alpha, tol)) - wanted)
            assert error <= tol * norm(signal) + 1e-13


@engines
@kinds
def test_ppr_comes_to_the_closed_form_in_the_limit(case, kind):
    @case.for_all(adjacencies_with_signals())
    def check(drawn):
        adjacency, signal = drawn
        wanted = reference.exact(reference.operator(adjacency, kind), 0.3) @ signal
        close(case.on(adjacency, kind).propagate(signal, PPR(0.3, 90)), wanted)


@engines
@kinds
@pytest.mark.parametrize(
    "scheme", [PPR(0.1, 0), Power(0), Mean(0), Heat(2.0, 0), PPR(1.0, 3), Exact(1.0)], ids=repr
)
def test_no_step_or_only_restarts_is_the_identity(case, kind, scheme):
    @case.for_all(adjacencies_with_signals())
    def check(drawn):
        adjacency, signal = drawn
        got = case.on(adjacency, kind).propagate(signal, scheme)
        np.testing.assert_array_equal(got, signal)
        assert not np.shares_memory(got, signal)


# --- the laws ---------------------------------------------------------------------------------


@engines
@kinds
@schemes
def test_is_linear(case, kind, name):
    factors = [-2.5, 1.75, 0.0, 4.0]

    @case.for_all(
        adjacencies_with_signals(n_signals=2),
        st.sampled_from(factors),
        st.sampled_from(factors[::-1]),
    )
    def check(drawn, a, b):
        adjacency, x, y = drawn
        engine, scheme = case.on(adjacency, kind), SCHEMES[name][0]
        together = engine.propagate(a * x + b * y, scheme)
        apart = a * engine.propagate(x, scheme) + b * engine.propagate(y, scheme)
        close(together, apart)


@engines
@symmetric_kinds
@schemes
def test_is_self_adjoint(case, kind, name):
    @case.for_all(adjacencies_with_signals(n_signals=2))
    def check(drawn):
        adjacency, x, y = drawn
        engine, scheme = case.on(adjacency, kind), SCHEMES[name][0]
        close(x.T @ engine.propagate(y, scheme), engine.propagate(x, scheme).T @ y)


@engines
@kinds
@schemes
def test_is_contracting(case, kind, name):
    order = np.inf if kind == "row" else 2  # the norm in which Â itself contracts

    @case.for_all(adjacencies_with_signals())
    def check(drawn):
        adjacency, signal = drawn
        got = case.on(adjacency, kind).propagate(signal, SCHEMES[name][0])
        before = np.linalg.norm(signal, ord=order, axis=0)
        assert (np.linalg.norm(got, ord=order, axis=0) <= before * (1 + 1e-12)).all()


@engines
@kinds
@schemes
def test_is_equivariant_under_renumbering(case, kind, name):
    @case.for_all(adjacencies_with_signals(), SEEDS)
    def check(drawn, seed):
        adjacency, signal = drawn
        order = np.random.RandomState(seed).permutation(len(adjacency))
        scheme = SCHEMES[name][0]
        renumbered = case.on(adjacency[np.ix_(order, order)], kind)
        got = renumbered.propagate(signal[order], scheme)
        close(got, case.on(adjacency, kind).propagate(signal, scheme)[order])


@engines
@kinds
@schemes
def test_nothing_crosses_components(case, kind, name):
    @case.for_all(adjacencies_with_signals(n_signals=2))
    def check(drawn):
        adjacency, signal, other = drawn
        _, component = sp.csgraph.connected_components(sp.csr_array(adjacency))
        here = component == component[0]
        changed = np.where(here[:, None], signal, other)
        engine, scheme = case.on(adjacency, kind), SCHEMES[name][0]
        np.testing.assert_array_equal(
            engine.propagate(changed, scheme)[here], engine.propagate(signal, scheme)[here]
        )


@engines
@kinds
@schemes
def test_columns_do_not_mix(case, kind, name):
    @case.for_all(adjacencies_with_signals(n_signals=2))
    def check(drawn):
        adjacency, left, right = drawn
        engine, scheme = case.on(adjacency, kind), SCHEMES[name][0]
        wide = engine.propagate(np.hstack([left] + [right] * 12), scheme)
        one_by_one = [engine.propagate(column[:, None], scheme) for column in left.T]
        close(wide[:, : left.shape[1]], np.hstack(one_by_one), 1e-13)


@engines
@kinds
@schemes
def test_the_same_call_gives_the_same_bits(case, kind, name):
    @case.for_all(adjacencies_with_signals(n_signals=2))
    def check(drawn):
        adjacency, signal, other = drawn
        engine, scheme = case.on(adjacency, kind), SCHEMES[name][0]
        first = engine.propagate(signal, scheme)
        engine.propagate(other, Power(2), fixed=np.array([0]))  # leaves no trace
        np.testing.assert_array_equal(engine.propagate(signal, scheme), first)


# --- rows held fixed --------------------------------------------------------------------------


def with_fixed_rows(dtype):
    return adjacencies_with_signals(dtype=dtype).flatmap(
        lambda drawn: st.tuples(st.just(drawn), node_sets(len(drawn[0])))
    )


@engines
@kinds
@schemes
@dtypes
def test_fixed_rows_stay_and_the_others_follow_the_oracle(case, kind, name, dtype, tolerance):
    @case.for_all(with_fixed_rows(dtype))
    def check(drawn):
        (adjacency, signal), fixed = drawn
        assert signal.dtype == dtype
        engine = case.on(adjacency, kind)
        holds_rows_fixed(engine, adjacency, kind, name, signal, fixed, tolerance)


@kinds
@dtypes
def test_many_steps_are_taken_to_the_last(kind, dtype, tolerance):
    case = EngineCase("local", LocalEngine)

    @case.for_all(with_fixed_rows(dtype))
    def check(drawn):
        (adjacency, signal), fixed = drawn
        engine = case.on(adjacency, kind)
        equals_the_oracle(engine, adjacency, kind, MANY_STEPS, signal, tolerance)
        holds_rows_fixed(engine, adjacency, kind, MANY_STEPS, signal, fixed, tolerance)


@engines
def test_fixed_rows_of_any_whole_numbers_are_rows(case):
    @case.for_all(adjacencies_with_signals())
    def check(drawn):
        adjacency, signal = drawn
        engine, rows = case.on(adjacency, "symmetric"), np.arange(len(adjacency))[::2]
        wanted = engine.propagate(signal, PPR(), fixed=rows)
        for kind in (np.uint8, np.int16, np.uint64):  # bytes are a mask to torch
            got = engine.propagate(signal, PPR(), fixed=rows.astype(kind))
            np.testing.assert_array_equal(got, wanted)


@engines
@kinds
@schemes
def test_no_fixed_row_is_plain_propagation(case, kind, name):
    @case.for_all(adjacencies_with_signals())
    def check(drawn):
        adjacency, signal = drawn
        engine, scheme = case.on(adjacency, kind), SCHEMES[name][0]
        nothing = np.zeros(len(adjacency), dtype=bool)
        np.testing.assert_array_equal(
            engine.propagate(signal, scheme, fixed=nothing), engine.propagate(signal, scheme)
        )


@engines
@kinds
@pytest.mark.parametrize("clamp", [True, False])
def test_label_propagation_is_the_papers(case, kind, clamp):
    examples = adjacencies().flatmap(lambda a: st.tuples(st.just(a), labellings(len(a))))

    @case.for_all(examples)
    def check(drawn):
        adjacency, (labels, known, n_classes) = drawn
        step = reference.operator(adjacency, kind)
        wanted = reference.propagate_labels(step, labels, known, n_classes, 0.1, 10, clamp)
        engine = case.on(adjacency, kind)
        got = propagate_labels(labels, known, n_classes, engine, PPR(0.1, 10), clamp=clamp)
        close(got, wanted, 1e-6)
        mask = np.isin(np.arange(len(adjacency)), known)
        by_mask = propagate_labels(labels, mask, n_classes, engine, PPR(0.1, 10), clamp=clamp)
        np.testing.assert_array_equal(by_mask, got)


@engines
@kinds
def test_equal_labels_count_the_known_nodes_within_so_many_hops(case, kind):
    examples = adjacencies().flatmap(lambda a: st.tuples(st.just(a), labellings(len(a))))

    @case.for_all(examples, st.sampled_from([2, 0, 1, 3, 4]))
    def check(drawn, hops):
        adjacency, (labels, known, n_classes) = drawn
        wanted = reference.equal_labels(adjacency, labels, known, n_classes, hops)
        engine = case.on(adjacency, kind)
        got = equal_labels(labels, known, n_classes, engine, hops)
        np.testing.assert_array_equal(got, wanted)
        mask = np.isin(np.arange(len(adjacency)), known)
        np.testing.assert_array_equal(equal_labels(labels, mask, n_classes, engine, hops), got)


@pytest.fixture(scope="module")
def many_labels():
    """More labels on a ring than are counted at a time, and what they come to within 7 hops."""
    ring = np.roll(np.eye(150), 1, axis=1)
    known, labels = np.arange(0, 150, 2)[::-1], np.arange(150) % 3
    return ring + ring.T, labels, known, reference.equal_labels(ring + ring.T, labels, known, 3, 7)


@engines
def test_more_equal_labels_than_are_counted_at_a_time(case, many_labels):
    ring, labels, known, wanted = many_labels
    got = equal_labels(labels, known, 3, case.on(ring, "symmetric"), 7)
    np.testing.assert_array_equal(got, wanted)
    assert got.sum() == 75 * 15  # each counts for those up to seven steps away, both ways


# --- manners ----------------------------------------------------------------------------------


@engines
@kinds
@schemes
@pytest.mark.parametrize("order", ["C", "F"])
def test_inputs_are_not_written_to_and_may_be_read_only(case, kind, name, order):
    adjacency = np.array([[0, 1, 0.5, 0], [1, 0, 0, 0], [0.5, 0, 0, 0], [0, 0, 0, 0]])
    graph = Graph(sp.csr_array(adjacency))
    signal = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], order=order)
    fixed, mask = np.array([2, 0]), np.array([True, False, True, False])
    for array in (signal, fixed, mask):
        array.flags.writeable = False
    copies = signal.copy(), fixed.copy(), mask.copy(), graph.adjacency.toarray()
    engine, scheme = case.make(graph, kind), SCHEMES[name][0]
    results = [engine.propagate(signal, scheme, fixed=held) for held in (None, fixed, mask)]
    for array, copy in zip((signal, fixed, mask, graph.adjacency.toarray()), copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    close(results[0], oracle(adjacency, kind, name) @ signal)
    assert all(result.flags.writeable for result in results)


@engines
@pytest.mark.parametrize("shape", [(3,), (2, 2), (4, 1), (3, 1, 1), ()])
def test_a_signal_of_the_wrong_shape_is_refused(case, shape):
    engine = case.on(np.zeros((3, 3)), "symmetric")
    with pytest.raises(InvalidInputError, match="one row for each of the graph's 3 nodes") as info:
        engine.propagate(np.ones(shape), PPR())
    assert f"got shape {shape}" in str(info.value)


@engines
def test_an_unknown_normalisation_is_refused(case):
    with pytest.raises(
        InvalidInputError, match="one of symmetric, symmetric-no-loops, row; got 'sym'"
    ):
        case.on(np.zeros((3, 3)), "sym")


@engines
@pytest.mark.parametrize("codes", [[0, -1], [0, 2]])
def test_known_nodes_without_a_class_are_refused(case, codes):
    engine = case.on(np.zeros((2, 2)), "symmetric")
    with pytest.raises(LabelError, match=r"class codes from 0 to 1, got values from (-1|0) to"):
        propagate_labels(np.array(codes), np.array([0, 1]), 2, engine, PPR())


@kinds
def test_a_large_unweighted_graph_has_no_number_for_each_edge(kind):
    ring = sp.diags_array([1.0, 1.0, 1.0, 1.0], offsets=[1, -1, 9, -9], shape=(10, 10)).tocsr()
    plain, weighted = (without_stored_numbers(Graph(ring * w), kind) for w in (1.0, 2.0))
    assert plain._plain.indices is plain._graph.adjacency.indices  # the graph's own
    assert weighted._plain is None
    signal = np.random.default_rng(0).random((10, 3))
    usual = LocalEngine(Graph(ring), kind)
    for made, expected in ((plain, usual), (plain.transposed, usual.transposed)):
        close(made.propagate(signal, PPR()), expected.propagate(signal, PPR()))
        assert (
            made.operator_in(np.dtype(np.float32)) != expected.operator_in(np.dtype(np.float32))
        ).nnz == 0
    assert LocalEngine(Graph(ring), kind)._plain is None  # a small one


@engines
@pytest.mark.parametrize("n_columns", [1, 70])
def test_each_step_is_told_by_its_share_of_the_work(case, n_columns):
    shares = []
    edge = np.array([[0, 1], [1, 0]])
    signal = np.ones((2, n_columns))
    case.on(edge, "symmetric").propagate(signal, PPR(0.1, 5), on_step=shares.append)
    assert len(shares) >= 5
    assert min(shares) > 0
    assert sum(shares) == pytest.approx(1)
