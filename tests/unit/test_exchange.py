"""What workers send each other: only what is needed, and the result is that of one machine."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from one_process import OneProcess
from proptrain.data.disk_writer import save_graph
from proptrain.data.graph import Graph
from proptrain.data.shared_graph import SharedGraph
from proptrain.errors import ClusterError, GraphError
from proptrain.propagate.blocked import BlockedEngine
from proptrain.propagate.cluster import ClusterEngine
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.exchange import sends_of, share_of
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


@pytest.mark.parametrize("n_blocks", [1, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_the_engine_of_one_machine_to_the_bit(tmp_path, dtype, n_blocks):
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


def test_weights_too_far_apart_are_refused_as_on_one_machine(tmp_path):
    edges = sp.coo_array(([1e-30, 1e30], ([0, 2], [1, 3])), shape=(4, 4))
    save_graph(Graph(sp.csr_array(edges + edges.T)), tmp_path / "g", n_blocks=2)
    blocked = BlockedEngine(tmp_path / "g", "row", memory="64GB")
    for engine in (blocked, ClusterEngine(tmp_path / "g", OneProcess(), "row")):
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
