"""What workers send each other: only what is needed, and the result is that of one machine."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from one_process import OneProcess
from proptrain.data.disk import Block
from proptrain.data.disk_writer import save_graph
from proptrain.data.graph import Graph
from proptrain.data.shared_graph import SharedGraph
from proptrain.errors import ClusterError, GraphError
from proptrain.propagate import engine as engine_module
from proptrain.propagate.blocked import BlockedEngine
from proptrain.propagate.cluster import ClusterEngine
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.exchange import sends_of, share_of, task_bytes
from proptrain.propagate.schemes import PPR


@pytest.fixture
def ring(tmp_path):
    """A ring of 12 nodes in three blocks: each needs its neighbours' outermost rows alone."""
    forward = np.roll(np.eye(12), 1, axis=1)
    save_graph(Graph(sp.csr_array(forward + forward.T)), tmp_path / "ring", n_blocks=3)
    return tmp_path / "ring"


def test_only_rows_with_a_neighbour_there_are_sent(ring):
    graph = SharedGraph(ring)
    told = [share_of(graph.block(number), graph.bounds, "symmetric") for number in range(3)]
    assert [share.n_needed for share, _ in told] == [6, 6, 6]
    assert [needs.tolist() for needs in told[0][1]] == [[0, 1, 2, 3], [0], [3]]
    sends = sends_of(*(needs[0] for _, needs in told))
    state = np.arange(8.0).reshape(4, 2)
    assert [piece[:, 0].tolist() for piece in sends.cut(state)] == [[0, 2, 4, 6], [6], [0]]


@pytest.mark.parametrize("is_numbered", [False, True])
@pytest.mark.parametrize(
    ("n_nodes", "n_rows", "n_entries", "is_weighted"),
    [(4_000_000, 100, 300, False), (400_000, 300_000, 4_000_000, True), (900_000,) * 3 + (False,)],
)
def test_reading_a_block_takes_no_more_memory_than_is_reckoned(
    monkeypatch, n_nodes, n_rows, n_entries, is_weighted, is_numbered
):
    monkeypatch.setattr("proptrain.data.mapped.SMALL", 1 << 16)
    monkeypatch.setattr("proptrain.data.degrees._PART_ENTRIES", 1 << 13)
    random = np.random.default_rng(0)
    indices = random.integers(n_nodes, size=n_entries, dtype=np.int32)
    indptr = np.linspace(0, n_entries, n_rows + 1).astype(np.int32)
    weights = random.random(n_entries, np.float32) if is_weighted else None
    block, bounds = Block(slice(0, n_rows), indptr, indices, weights), np.array([0, n_nodes])
    given = sum(one.nbytes for one in (indptr, indices, weights) if one is not None)
    tracemalloc.start()
    try:
        degrees = np.ones(n_nodes) if is_numbered else None
        share, _ = share_of(block, bounds, "symmetric", 1.0, degrees)
        taken = given + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    sizes = (n_nodes, share.n_needed, n_rows, n_entries, 1, 1)  # reading, for so few columns
    reckoned = task_bytes(*sizes, is_numbered=is_numbered)
    assert 0.5 * reckoned < taken <= reckoned + 300_000


@pytest.mark.parametrize("n_blocks", [1, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("many", [0, 1 << 22], ids=["large", "small"])
def test_it_is_the_engine_of_one_machine_to_the_bit(tmp_path, dtype, n_blocks, many, monkeypatch):
    monkeypatch.setattr(engine_module, "MANY_ENTRIES", many)
    random = np.random.RandomState(0)
    upper = np.triu(random.rand(80, 80) < 0.1, 1) * random.rand(80, 80)
    save_graph(
        Graph(sp.csr_array(upper + upper.T)), tmp_path / "g", n_blocks=n_blocks,
        order=random.permutation(80),
    )  # fmt: skip
    signal, fixed = random.rand(80, 11).astype(dtype), np.array([3, 70, 9])
    wanted = BlockedEngine(tmp_path / "g", memory="64GB").propagate(signal, PPR(), fixed=fixed)
    got = ClusterEngine(tmp_path / "g", OneProcess()).propagate(signal, PPR(), fixed=fixed)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("size", [1e-42, 1e-30, 1.0, 1e30])
def test_weights_of_any_size_are_those_of_one_machine(tmp_path, size):
    upper = np.triu(np.random.RandomState(0).rand(40, 40) < 0.2, 1) * np.float32(size)
    graph = Graph(sp.csr_array(upper + upper.T))
    save_graph(graph, tmp_path / "g", n_blocks=3)
    signal = np.random.RandomState(1).rand(40, 3).astype(np.float32)
    cluster = ClusterEngine(tmp_path / "g", OneProcess(), "row")
    got = cluster.propagate(signal, PPR())
    blocked = BlockedEngine(tmp_path / "g", "row", memory="64GB").propagate(signal, PPR())
    np.testing.assert_array_equal(got, blocked)
    np.testing.assert_allclose(got, LocalEngine(graph, "row").propagate(signal, PPR()), rtol=1e-5)


def test_weights_too_far_apart_are_refused_as_on_one_machine(tmp_path, monkeypatch):
    edges = sp.coo_array(([1e-30, 1e30], ([0, 2], [1, 3])), shape=(4, 4))
    save_graph(Graph(sp.csr_array(edges + edges.T)), tmp_path / "g", n_blocks=2)
    blocked = BlockedEngine(tmp_path / "g", "row", memory="64GB")
    cluster = ClusterEngine(tmp_path / "g", OneProcess(), "row")
    assert blocked.propagate(np.ones((4, 1), np.float32), PPR()) == pytest.approx(1.0)
    monkeypatch.setattr(engine_module, "MANY_ENTRIES", 0)  # as if it were large
    for engine in (blocked, cluster):
        with pytest.raises(GraphError, match=r"comparable for float32.* between 1e-30 and 1e\+30"):
            engine.propagate(np.ones((4, 1), np.float32), PPR())
        assert engine.propagate(np.ones((4, 1)), PPR()) == pytest.approx(1.0)


def test_blocks_are_read_once_and_each_step_is_a_task_a_block(ring):
    crew = OneProcess()
    engine = ClusterEngine(ring, crew)
    for _ in range(2):
        engine.propagate(np.ones((12, 2)), PPR(steps=4))
    assert crew.calls.count("read_share") == 3
    assert crew.calls.count("take_step") == 2 * 4 * 3


def test_with_little_memory_columns_take_turns_and_with_less_it_is_said(ring):
    crew = OneProcess()
    engine = ClusterEngine(ring, crew)
    signal = np.random.RandomState(0).rand(12, 20)
    wanted = engine.propagate(signal, PPR(steps=2))
    crew.task_memory = engine._task_bytes(8, 8)
    crew.calls.clear()
    np.testing.assert_array_equal(engine.propagate(signal, PPR(steps=2)), wanted)
    assert crew.calls.count("take_step") == 3 * 2 * 3  # 20 columns, 8 at a time
    assert crew.calls.count("side_by_side") == 3
    crew.task_memory = 100
    with pytest.raises(ClusterError, match=r"must have .* of memory for a task.* more --blocks"):
        engine.propagate(signal, PPR())
