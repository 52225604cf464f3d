"""Nearest-neighbour graphs: exact when small, nearly exact and repeatable when large."""

import numpy as np
import pytest
import scipy.sparse as sp

from proptrain.data.knn import knn_graph
from proptrain.errors import InvalidInputError


def brute_force(features, n_neighbors, metric):
    """Sort all distances, loop by loop."""
    points = np.asarray(features, dtype=np.float64)
    chosen = np.zeros((len(points), len(points)), dtype=bool)
    for i, point in enumerate(points):
        if metric == "cosine":
            distance = -(points @ point) / np.linalg.norm(points, axis=1) / np.linalg.norm(point)
        else:
            distance = np.linalg.norm(points - point, axis=1)
        distance[i] = np.inf
        chosen[i, np.argsort(distance)[:n_neighbors]] = True
    return chosen | chosen.T


@pytest.fixture
def features():  # of more nodes than are compared at a time
    return np.random.RandomState(1).normal(size=(150, 5)).astype(np.float32)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_exact_graph_equals_brute_force(features, form, metric):
    graph = knn_graph(form(features), 4, metric=metric)
    np.testing.assert_array_equal(graph.adjacency.toarray(), brute_force(features, 4, metric))


# Only the cosine metric: each metric and form is compiled anew in every process, for many seconds.
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_approximate_graph_agrees_and_repeats(form):
    random = np.random.RandomState(0)
    centres = random.normal(size=(30, 12))
    points = (centres[random.randint(30, size=3000)] + 0.5 * random.normal(size=(3000, 12))).astype(
        np.float32
    )
    if form == "sparse":
        points = sp.csr_array(np.where(points > 0.5, points, 0))
    state = np.random.get_state()[1].copy()
    first, second = (knn_graph(points, 10, exact_below=100) for _ in range(2))
    assert (np.random.get_state()[1] == state).all()
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(
            getattr(first.adjacency, part), getattr(second.adjacency, part)
        )
    exact = knn_graph(points, 10)
    found = first.adjacency.multiply(exact.adjacency).nnz
    assert found / exact.adjacency.nnz >= 0.9
    assert first.adjacency.diagonal().sum() == 0
    assert set(first.adjacency.data) == {1.0}


@pytest.mark.parametrize("exact_below", [20_000, 10], ids=["exact", "approximate"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_rows_of_zeros_have_no_direction(features, form, exact_below):
    features[[3, 50]] = 0
    graph = knn_graph(form(features), 3, exact_below=exact_below)
    degrees = graph.degrees
    assert degrees[[3, 50]].tolist() == [0, 0]
    assert (np.delete(degrees, [3, 50]) >= 3).all()


def test_equal_rows_do_not_choose_themselves():
    graph = knn_graph(np.ones((40, 3)), 2)
    assert (graph.degrees >= 2).all()
    approximate = knn_graph(np.ones((40, 3)), 2, exact_below=5)
    assert approximate.counts.self_loops == 0


@pytest.mark.parametrize(("n", "n_edges"), [(4, 6), (2, 1), (1, 0)])
def test_more_neighbours_than_nodes(n, n_edges):
    assert knn_graph(np.eye(n) + 1, 10).n_edges == n_edges


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_nothing_is_alike_where_there_is_no_feature(metric):
    assert knn_graph(np.empty((5, 0)), metric=metric).n_edges == 0


def test_input_stays_unchanged(features):
    before = features.copy()
    knn_graph(features, 3)
    knn_graph(features, 3, exact_below=10)
    np.testing.assert_array_equal(features, before)


def test_refusals(features):
    for n_neighbors in (0, "two", 2.5, True, None):
        with pytest.raises(InvalidInputError, match="whole number, at least 1, got"):
            knn_graph(features, n_neighbors)
    with pytest.raises(InvalidInputError, match=r"metric must be one of .*got 'nearest'"):
        knn_graph(features, metric="nearest")
    features[2, 1] = np.nan
    with pytest.raises(InvalidInputError, match="finite"):
        knn_graph(features)
