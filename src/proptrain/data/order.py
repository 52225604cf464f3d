"""Renumbering a graph so that neighbours lie near each other in memory.

A step of propagation reads the rows of a node's neighbours. In a large graph numbered at random,
each of them comes from the far end of memory; numbered by communities, most are still in the cache.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proptrain.data.graph import Graph
from proptrain.kernels.compiling import compiled

_SWEEPS = 3
_LARGEST = 1 << 16
"""Nodes of a community at most: their signals should fit a cache."""
_MANY = 1024
"""A hub with more communities around it is judged by its first ones."""


def locality_order(graph: Graph, seed: int = 0) -> NDArray[np.int64]:
    """Return the nodes (n,), community by community: an order for `Graph.renumbered`.

    Communities are found by letting every node join the one that most of its neighbours are in,
    a few times: each sweep takes about as long as a step of propagation.

    >>> import scipy.sparse as sp
    >>> pairs = sp.coo_array(([1, 1], ([0, 1], [2, 3])), shape=(4, 4))
    >>> locality_order(Graph(pairs)).tolist() in ([0, 2, 1, 3], [1, 3, 0, 2])
    True
    """
    return community_order(graph.adjacency.indptr, graph.adjacency.indices, seed)


def community_order(
    indptr: NDArray[np.integer], indices: NDArray[np.integer], seed: int = 0
) -> NDArray[np.int64]:
    """Return the same for the rows of a symmetric CSR matrix."""
    n = len(indptr) - 1
    # Numbers of nodes: of 32 bits, if they fit, which is half the memory.
    dtype = np.int32 if n <= np.iinfo(np.int32).max else np.int64
    community, size = np.arange(n, dtype=dtype), np.ones(n, dtype)
    order = np.random.RandomState(seed).permutation(np.arange(n, dtype=dtype))
    for _ in range(_SWEEPS):
        if not _sweep(indptr, indices, order, community, size):
            break
    del order, size
    return np.argsort(community, kind="stable")


@compiled
def _sweep(
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    order: NDArray[np.integer],
    community: NDArray[np.integer],
    size: NDArray[np.integer],
) -> int:
    """Let every node join the community of most neighbours with room; returns how many moved."""
    n_moved = 0
    count, around = np.zeros_like(community), np.empty(_MANY, community.dtype)
    for node in order:
        own = community[node]
        n_around = 0
        for entry in range(indptr[node], indptr[node + 1]):
            other = community[indices[entry]]
            if count[other] == 0:
                if n_around == _MANY:
                    break
                around[n_around] = other
                n_around += 1
            count[other] += 1
        best, most = own, 0
        for other in around[:n_around]:
            if count[other] > most and (other == own or size[other] < _LARGEST):
                best, most = other, count[other]
            count[other] = 0
        if best != own:
            size[own] -= 1
            size[best] += 1
            community[node] = best
            n_moved += 1
    return n_moved
