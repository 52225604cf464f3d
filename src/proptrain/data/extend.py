"""New nodes: the fitted graph with nodes that were not there when the model was made."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from proptrain.data.graph import Graph, check_n_nodes
from proptrain.data.indices import off_torch
from proptrain.data.sound import check_unmasked, sound_matrix
from proptrain.errors import GraphError


def extend_graph(graph: Graph, edges: Any, n_new: int) -> Graph:
    """Return the graph with ``n_new`` more nodes, numbered after the old ones, and their edges.

    ``edges`` is either a sparse matrix with one row for each new node, and one column for each
    old node (n_new, n) or for all nodes (n_new, n + n_new), or an array of pairs (k, 2) of node
    numbers, where the old nodes are 0 … n-1 and the new ones n … n + n_new - 1.

    >>> path = Graph(sp.csr_array([[0, 1], [1, 0]]))
    >>> extend_graph(path, [(2, 0)], n_new=1).adjacency.toarray()
    array([[0., 1., 1.],
           [1., 0., 0.],
           [1., 0., 0.]], dtype=float32)
    """
    n_old, n_all = graph.n_nodes, graph.n_nodes + n_new
    if sp.issparse(edges):
        block = _checked_block(edges, n_old, n_new)
        rows, columns, weights = block.row + n_old, block.col, block.data
    else:
        pairs = _checked_pairs(edges, n_old, n_all)
        rows, columns, weights = pairs[:, 0], pairs[:, 1], np.ones(len(pairs), dtype=np.float32)
    old = sp.coo_array(graph.adjacency)
    return Graph(
        sp.coo_array(
            (
                np.concatenate([old.data, weights]),
                (np.concatenate([old.row, rows]), np.concatenate([old.col, columns])),
            ),
            shape=(n_all, n_all),
        )
    )


def count_new_nodes(edges: Any, n_old: int) -> int:
    """Return how many new nodes a set of edges speaks of, for models that need no features."""
    if sp.issparse(edges):
        return int(edges.shape[0])
    n_all = max(n_old, int(_whole_pairs(edges).max(initial=-1)) + 1)
    check_n_nodes(n_all)
    return n_all - n_old


def _checked_block(edges: Any, n_old: int, n_new: int) -> Any:
    if edges.shape not in ((n_new, n_old), (n_new, n_old + n_new)):
        raise GraphError(
            f"A sparse matrix of edges must have one row for each of the {n_new:,} new nodes and "
            f"one column for each of the {n_old:,} fitted nodes (or {n_old + n_new:,} with the new "
            f"ones), got shape {edges.shape}."
        )
    return sp.coo_array(sound_matrix(edges, "Edges of new nodes", GraphError))


def _checked_pairs(edges: Any, n_old: int, n_all: int) -> Any:
    pairs = _whole_pairs(edges)
    if pairs.size == 0:
        return pairs
    if pairs.min() < 0 or pairs.max() >= n_all:
        raise GraphError(
            f"Node numbers must lie between 0 and {n_all - 1}: the fitted nodes come first, the "
            f"new nodes are {n_old} to {n_all - 1}; got {pairs.min()} to {pairs.max()}."
        )
    both_old = (pairs < n_old).all(axis=1)
    if both_old.any():
        first, second = pairs[both_old][0]
        raise GraphError(
            f"Each edge must touch a new node, but ({first}, {second}) joins two fitted nodes. "
            f"New nodes are numbered from {n_old} on."
        )
    return pairs


def _whole_pairs(edges: Any) -> Any:
    check_unmasked(edges, "Edges of new nodes", GraphError)
    try:
        pairs = np.asarray(off_torch(edges))
    except (ValueError, TypeError):  # rows of different lengths, sparse tensors
        pairs = np.array(None)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise GraphError(
            "Edges of new nodes must be pairs of whole node numbers, shape (k, 2), or a sparse "
            f"matrix with one row for each new node; got shape {pairs.shape}, dtype {pairs.dtype}."
        )
    return pairs
