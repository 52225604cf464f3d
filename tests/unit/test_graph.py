"""Graph: what is cleaned, what is counted, what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from proptrain.data.graph import EdgeCounts, Graph
from proptrain.errors import GraphError, InvalidInputError
from strategies import adjacencies

TRIANGLE_AND_LONER = np.array(
    [[0, 1, 0.5, 0], [1, 0, 2, 0], [0.5, 2, 0, 0], [0, 0, 0, 0]], dtype=np.float32
)
FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]


def coo(entries, n, dtype=np.float64):
    """A matrix from (row, column, weight) triples, stored as they are."""
    rows, columns, weights = zip(*entries, strict=True) if entries else ((), (), ())
    return sp.coo_array((np.array(weights, dtype), (rows, columns)), shape=(n, n))


def parts(matrix):
    """The NumPy arrays that a sparse matrix is made of."""
    found = [getattr(matrix, name, None) for name in ("data", "indices", "indptr", "row", "col")]
    return [array for array in found if isinstance(array, np.ndarray)]


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", FORMATS)
def test_takes_every_scipy_format(form, kind):
    given_matrix = getattr(sp, f"{form}_{kind}")(TRIANGLE_AND_LONER)
    graph = Graph(given_matrix)
    np.testing.assert_array_equal(graph.adjacency.toarray(), TRIANGLE_AND_LONER)
    assert isinstance(graph.adjacency, sp.csr_array)
    assert graph.adjacency.dtype == np.float32
    assert (graph.n_nodes, graph.n_edges) == (4, 3)
    assert (graph.counts.self_loops, graph.counts.duplicates, graph.counts.one_way) == (0, 0, 0)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float32, np.float64])
def test_takes_every_real_type(dtype):
    graph = Graph(coo([(0, 1, 1), (1, 0, 1), (2, 1, 1)], 3, dtype))
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_a_missing_direction_is_added():
    graph = Graph(coo([(0, 1, 2), (2, 1, 3)], 3))
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 2, 0], [2, 0, 3], [0, 3, 0]])
    assert graph.counts == EdgeCounts(given=2, self_loops=0, duplicates=0, one_way=2)


def test_the_larger_of_two_directions_stays():
    graph = Graph(coo([(0, 1, 2), (1, 0, 5)], 2))
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 5], [5, 0]])
    assert graph.counts == EdgeCounts(given=2, self_loops=0, duplicates=0, one_way=0)


def test_duplicates_keep_the_largest_weight_not_their_sum():
    graph = Graph(coo([(2, 1, 1), (0, 1, 2), (0, 1, 7), (0, 1, 3), (1, 0, 4)], 3))
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 7, 0], [7, 0, 1], [0, 1, 0]])
    assert graph.counts == EdgeCounts(given=5, self_loops=0, duplicates=2, one_way=1)


def test_duplicates_inside_a_csr_matrix_are_merged_too():
    repeated = sp.csr_array((np.array([1.0, 4.0]), np.array([1, 1]), np.array([0, 2, 2])), (2, 2))
    graph = Graph(repeated)
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 4], [4, 0]])
    assert graph.counts == EdgeCounts(given=2, self_loops=0, duplicates=1, one_way=1)
    assert repeated.nnz == 2  # not merged in place


def test_self_loops_are_dropped():
    graph = Graph(coo([(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 9), (1, 1, 9)], 2))
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 1], [1, 0]])
    assert graph.counts == EdgeCounts(given=5, self_loops=3, duplicates=0, one_way=0)


def test_explicit_zeros_are_no_edges():
    graph = Graph(coo([(0, 1, 0), (1, 0, 0), (1, 2, 1), (2, 1, 0)], 3))
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 0, 0], [0, 0, 1], [0, 1, 0]])
    assert (graph.adjacency.nnz, graph.n_edges) == (2, 1)
    assert graph.counts == EdgeCounts(given=4, self_loops=0, duplicates=0, one_way=1)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_nodes_without_an_edge_stay(n):
    graph = Graph(coo([], n))
    assert (graph.n_nodes, graph.n_edges, graph.adjacency.shape) == (n, 0, (n, n))
    np.testing.assert_array_equal(graph.degrees, np.zeros(n))
    assert graph.counts == EdgeCounts(0, 0, 0, 0)


def test_degrees_are_sums_of_weights():
    degrees = Graph(sp.csr_array(TRIANGLE_AND_LONER)).degrees
    np.testing.assert_array_equal(degrees, [1.5, 3, 2.5, 0])
    assert degrees.dtype == np.float64


def test_counts_and_size_are_told():
    graph = Graph(coo([(0, 0, 1), (0, 1, 1), (0, 1, 1), (1, 0, 1), (1, 2, 1)], 1200))
    assert str(graph.counts) == (
        "5 entries given: 1 one-way made two-way, 1 duplicates merged, 1 self-loops dropped"
    )
    assert repr(graph) == "Graph(1,200 nodes, 2 edges)"


@settings(max_examples=80, derandomize=True, deadline=None)
@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(
                st.tuples(
                    st.integers(0, n - 1), st.integers(0, n - 1), st.sampled_from([0, 0.5, 1, 2])
                ),
                max_size=25,
            ),
        )
    )
)
def test_cleaning_any_entries_entry_by_entry(drawn):
    n, entries = drawn
    heaviest: dict[tuple[int, int], float] = {}
    for i, j, weight in entries:
        if i != j and weight > 0:
            heaviest[i, j] = max(weight, heaviest.get((i, j), 0))
    wanted = np.zeros((n, n))
    for (i, j), weight in heaviest.items():
        wanted[i, j] = max(weight, wanted[i, j])
        wanted[j, i] = max(weight, wanted[j, i])

    graph = Graph(coo(entries, n))
    np.testing.assert_array_equal(graph.adjacency.toarray(), wanted)
    assert graph.adjacency.nnz == np.count_nonzero(wanted)
    assert graph.adjacency.has_sorted_indices
    assert graph.counts == EdgeCounts(
        given=len(entries),
        self_loops=sum(i == j for i, j, _ in entries),
        duplicates=sum(i != j and w > 0 for i, j, w in entries) - len(heaviest),
        one_way=sum((j, i) not in heaviest for i, j in heaviest),
    )


@settings(max_examples=30, derandomize=True, deadline=None)
@given(adjacencies())
def test_cleaning_twice_changes_nothing(adjacency):
    once = Graph(sp.csr_array(adjacency))
    twice = Graph(once.adjacency)
    np.testing.assert_array_equal(twice.adjacency.toarray(), adjacency)
    assert twice.counts == EdgeCounts(once.adjacency.nnz, 0, 0, 0)


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_indices_are_small_whatever_was_given(index_type):
    entries = np.array([[0, 1], [1, 0]], dtype=index_type)
    adjacency = Graph(sp.coo_array((np.ones(2), tuple(entries)), shape=(2, 2))).adjacency
    assert adjacency.indices.dtype == adjacency.indptr.dtype == np.int32
    np.testing.assert_array_equal(adjacency.toarray(), [[0, 1], [1, 0]])


def test_everything_is_read_only():
    graph = Graph(sp.csr_array(TRIANGLE_AND_LONER))
    for array in (graph.adjacency.data, graph.adjacency.indices, graph.adjacency.indptr):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.adjacency = sp.csr_array(TRIANGLE_AND_LONER)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_input_is_neither_changed_nor_frozen_nor_shared(form, dtype):
    matrix = sp.csr_array(TRIANGLE_AND_LONER.astype(dtype)).asformat(form)
    before = matrix.toarray()
    graph = Graph(matrix)
    np.testing.assert_array_equal(matrix.toarray(), before)
    for array in parts(matrix):
        assert array.flags.writeable
        assert not any(np.shares_memory(array, own) for own in parts(graph.adjacency))


def test_a_read_only_input_will_do():
    matrix = sp.csr_array(TRIANGLE_AND_LONER)
    for array in parts(matrix):
        array.flags.writeable = False
    np.testing.assert_array_equal(Graph(matrix).adjacency.toarray(), TRIANGLE_AND_LONER)


@pytest.mark.parametrize(
    "matrix", [np.zeros((2, 2)), [[0, 1], [1, 0]], None, "graph"], ids=lambda m: type(m).__name__
)
def test_what_is_not_sparse_is_refused(matrix):
    with pytest.raises(GraphError, match=f"SciPy sparse matrix, got {type(matrix).__name__}"):
        Graph(matrix)


def test_a_matrix_that_is_not_square_is_refused():
    with pytest.raises(GraphError, match=r"must be square.*got shape \(2, 3\)"):
        Graph(sp.csr_array((2, 3)))


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, -np.inf])
def test_impossible_weights_are_refused_and_shown(weight):
    matrix = coo([(0, 1, 1), (1, 2, weight), (2, 1, weight)], 3)
    with pytest.raises(GraphError, match="finite and not negative") as info:
        Graph(matrix)
    assert f"2 of 3 are not, the first is {weight} between nodes 1 and 2" in str(info.value)


def test_an_impossible_weight_on_the_diagonal_is_refused_as_well():
    with pytest.raises(GraphError, match="between nodes 1 and 1"):
        Graph(coo([(1, 1, np.nan)], 2))


def test_weights_beyond_float32_are_refused_without_a_warning():
    with pytest.raises(GraphError, match=r"first is 1e\+300 between nodes 0 and 1"):
        Graph(coo([(0, 1, 1e300)], 2))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_weights_are_refused(dtype):
    with pytest.raises(GraphError, match=f"real numbers, got dtype {np.dtype(dtype)}"):
        Graph(coo([(0, 1, 1)], 2, dtype))


def test_graph_errors_can_be_caught_as_value_errors():
    assert issubclass(GraphError, InvalidInputError)
    assert issubclass(GraphError, ValueError)
