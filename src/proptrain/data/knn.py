"""A graph from features alone: each node is joined to those most like it."""

from __future__ import annotations

import warnings
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.dataset import check_features
from proptrain.data.graph import Graph
from proptrain.data.indices import with_short_indices
from proptrain.errors import InvalidInputError, check_count
from proptrain.kernels import sparse_product

Metric = Literal["cosine", "euclidean", "manhattan"]

_AT_A_TIME = 64
"""Nodes that are compared with all others at once: as many as a product takes columns."""


def knn_graph(
    features: Any,
    n_neighbors: int = 10,
    *,
    metric: Metric = "cosine",
    exact_below: int = 20_000,
    seed: int = 0,
) -> Graph:
    """Join each node to its nearest neighbours in feature space, with unweighted edges.

    ``features`` has shape (n, f), dense or sparse, a row x_i for each node. The nearest of a node
    have the largest cosine similarity s to it, or the smallest distance d::

        s_ij = x_i · x_j / (|x_i| |x_j|)      "cosine"
        d_ij = (Σ_k (x_ik - x_jk)²)^1/2       "euclidean"
        d_ij = Σ_k |x_ik - x_jk|              "manhattan"
        A_ij = 1 if j is one of the n_neighbors nearest to i, or i to j; else 0

    Up to ``exact_below`` nodes all are compared; above that it is nearest-neighbour descent, which
    finds most of them, and the same ones for the same ``seed``. Its first call in a process
    compiles, for about a minute on a small and busy machine.

    Features count in single precision, of some seven digits. Scale columns of large numbers that
    hardly differ, such as years, first: their rows all point the same way.

    An edge stands if either end chose it, so a node may have more than ``n_neighbors`` edges.
    Under the cosine metric a row of zeros points nowhere: its node gets no edge.

    >>> knn_graph(np.array([[0.0], [1.0], [5.0], [6.0]]), 1, metric="euclidean")
    Graph(4 nodes, 2 edges)
    """
    if metric not in get_args(Metric):
        raise InvalidInputError(f"metric must be one of {get_args(Metric)}, got {metric!r}.")
    check_count("n_neighbors", n_neighbors)
    matrix = check_features(features)
    n_nodes = int(matrix.shape[0])
    comparable = np.arange(n_nodes)
    if metric == "cosine":
        comparable = np.flatnonzero(has_direction(matrix))
    n_wanted = min(n_neighbors, len(comparable) - 1)
    if n_wanted < 1 or matrix.shape[1] == 0:
        return Graph.without_edges(n_nodes)
    rows = in_range(matrix[comparable], metric)
    if len(comparable) <= exact_below:
        starts, ends = _exact_neighbours(rows, n_wanted, metric)
    else:
        starts, ends = _approximate_neighbours(rows, n_wanted, metric, seed)
    edges = (comparable[starts], comparable[ends])
    ones = np.ones(len(starts), dtype=np.float32)
    return Graph(sp.coo_array((ones, edges), shape=(n_nodes, n_nodes)))


def has_direction(rows: Any) -> NDArray[np.bool_]:
    """Tell which rows of features (n, f) the cosine metric can compare: those that are not zero.

    >>> has_direction(np.array([[0.0, 2.0], [0.0, 0.0]]))
    array([ True, False])
    """
    return np.ravel((rows != 0).sum(axis=1)) > 0


def in_range(rows: Any, metric: Metric = "cosine") -> Any:
    """Return features (n, f) whose squares are numbers: others are brought near 1 by powers of 2.

    Each row alone under the cosine metric, which sees directions only; else all of them alike. Rows
    of ordinary size stay what they are.
    """
    tops = abs(rows).max(axis=1)
    largest = np.ravel(tops.toarray() if sp.issparse(tops) else tops).astype(np.float64)  # (n,)
    if metric != "cosine":
        largest = np.full_like(largest, largest.max(initial=0))
    unusual = (largest > 0) & ((largest < 1e-15) | (largest > 1e15))
    if not unusual.any():
        return rows
    exponents = np.log2(largest, out=np.zeros_like(largest), where=unusual).round()
    factors = np.exp2(-exponents)[:, None]
    if sp.issparse(rows):
        return sp.csr_array(rows.astype(np.float64).multiply(factors), dtype=np.float32)
    return (rows * factors).astype(np.float32)


def _exact_neighbours(
    rows: Any, n_neighbors: int, metric: Metric
) -> tuple[NDArray[Any], NDArray[Any]]:
    if metric == "cosine":
        return _same_direction(rows, n_neighbors)
    from sklearn.neighbors import kneighbors_graph

    chosen = sp.coo_array(kneighbors_graph(rows, n_neighbors, metric=metric, include_self=False))
    return chosen.row, chosen.col


def _same_direction(rows: Any, n_neighbors: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Find the largest cosines; some nodes with all others at a time, so no n x n is in memory."""
    import torch  # chooses the largest of a row ten times as fast as NumPy
    from sklearn.preprocessing import normalize

    unit = normalize(rows)
    if sp.issparse(unit):
        unit = with_short_indices(sp.csr_array(unit))
    chosen = np.empty((unit.shape[0], n_neighbors), dtype=np.int64)
    for start in range(0, len(chosen), _AT_A_TIME):
        likeness = torch.from_numpy(_likeness(unit, slice(start, start + _AT_A_TIME)))
        likeness.diagonal(start).fill_(-torch.inf)  # nobody is their own neighbour
        nearest = likeness.topk(n_neighbors, dim=1, sorted=False).indices
        chosen[start : start + _AT_A_TIME] = nearest.numpy()
    return np.repeat(np.arange(len(chosen)), n_neighbors), chosen.ravel()


def _likeness(unit: Any, some: slice) -> NDArray[np.float32]:
    """Return the cosines of some rows with all: shape (m, n)."""
    if not sp.issparse(unit):
        return np.asarray(unit[some] @ unit.T)
    # Rows with few entries look up those of the others: far fewer products than of two dense
    # matrices, and far faster ones than of two sparse matrices.
    return np.ascontiguousarray(sparse_product(unit, unit[some].toarray().T).T)


def _approximate_neighbours(
    rows: Any, n_neighbors: int, metric: Metric, seed: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    from pynndescent import NNDescent

    if sp.issparse(rows):
        rows = sp.csr_matrix(rows)  # before 0.6 it takes no sparse arrays
    with warnings.catch_warnings():
        # It says so when a node has too few neighbours within reach; those are left out below.
        warnings.filterwarnings("ignore", message="Failed to correctly find n_neighbors")
        # One more than wanted, as a node finds itself too. One thread, since the result depends
        # on their number: the same seed must give the same graph on every machine.
        found = NNDescent(
            rows, metric=metric, n_neighbors=n_neighbors + 1, random_state=seed, n_jobs=1
        ).neighbor_graph[0]
    starts = np.broadcast_to(np.arange(len(found))[:, None], found.shape)
    others = (found >= 0) & (found != starts)
    kept = others & (others.cumsum(axis=1) <= n_neighbors)  # nearest come first
    return starts[kept], found[kept]
