"""The part of a graph that a prediction comes from, laid out around its node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.graph import Graph
from proptrain.insight.explanation import Explanation

MOST = 30
"""A picture of more nodes cannot be read."""
_INNERMOST = 0.45
"""Radius of the first ring when there are many; the last one has 1."""


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """A node and those that matter most to it, each on the ring of its distance."""

    nodes: NDArray[np.int64]
    """(m,) the node itself first."""
    places: NDArray[np.float64]
    """(m, 2) within the unit circle, the node itself in the middle."""
    distances: NDArray[np.int64]
    """(m,) hops from the node itself."""
    edges: NDArray[np.int64]
    """(e, 2) which of them are joined, by their places in `nodes`."""
    label_shares: NDArray[np.float64]
    """(m,) what each one's label adds to the soft label, of the whole; around a node that holds
    its own label, to the one it would have without."""
    weights: NDArray[np.float64]
    """(m,) the weight of each one's prediction in the ensemble, of the whole."""


def neighbourhood_of(graph: Graph, explanation: Explanation, most: int = MOST) -> Neighbourhood:
    """Choose the nodes that matter most, with those between, and give each a place.

    A node matters by its label or by its prediction, whichever share is larger. The same
    explanation always gets the same picture.
    """
    n = graph.n_nodes
    shares, weights = np.zeros(n), np.zeros(n)
    shares[explanation.sources.nodes] = explanation.sources.shares.sum(axis=1)
    if explanation.neighbours is not None:
        weights[explanation.neighbours.nodes] = explanation.neighbours.weight_shares
    importance = np.maximum(shares, weights)
    distances = _distances(graph.adjacency, explanation.node, explanation.labels.by_steps.shape[1])
    parents = _chosen(graph.adjacency, explanation.node, importance, shares > 0, distances, most)
    nodes = np.array(list(parents), dtype=np.int64)
    inner = sp.coo_array(sp.triu(graph.adjacency[nodes][:, nodes], 1))
    return Neighbourhood(
        nodes=nodes,
        places=_places(parents, distances),
        distances=distances[nodes],
        edges=np.column_stack([inner.row, inner.col]).astype(np.int64),
        label_shares=shares[nodes],
        weights=weights[nodes],
    )


def _distances(adjacency: sp.csr_array, start: int, farthest: int) -> NDArray[np.int64]:
    """Return the hops from a node to every other, (n,); -1 beyond the farthest."""
    distances = np.full(adjacency.shape[0], -1)
    front = np.array([start])
    for distance in range(farthest):
        distances[front] = distance
        near = np.unique(adjacency[front].indices)
        front = near[distances[near] < 0]
    return distances


def _chosen(
    adjacency: sp.csr_array,
    start: int,
    importance: NDArray[np.float64],
    is_source: NDArray[np.bool_],
    distances: NDArray[np.int64],
    most: int,
) -> dict[int, int]:
    """Return the nodes to show and, for each, the one it hangs on; the first hangs on itself."""
    parents = {start: start}
    for node in np.argsort(-importance, kind="stable").tolist():
        if importance[node] == 0 or len(parents) == most:
            break
        way = []  # from the node to one that is chosen already
        here = node
        while here not in parents:
            near = adjacency.indices[adjacency.indptr[here] : adjacency.indptr[here + 1]]
            near = near[distances[near] == distances[here] - 1]
            # Labels stop each other, so the way leads over nodes that are none where it can.
            best = np.lexsort((near, -importance[near], is_source[near]))[0]
            way.append((here, int(near[best])))
            here = int(near[best])
        if len(parents) + len(way) <= most:
            parents |= dict(reversed(way))
    return parents


def _places(parents: dict[int, int], distances: NDArray[np.int64]) -> NDArray[np.float64]:
    """Give every node a sector inside that of the one it hangs on, as wide as its own need."""
    children: dict[int, list[int]] = {node: [] for node in parents}
    for node, parent in parents.items():
        if node != parent:
            children[parent].append(node)
    need: dict[int, float] = {}
    for node in reversed(parents):  # every node comes after its parent
        own = 1 / max(int(distances[node]), 1)  # the nearer the ring, the shorter it is
        need[node] = max(own, sum(need[child] for child in children[node]))
    start = next(iter(parents))
    sectors = {start: (0.0, 2 * np.pi)}
    for node in parents:
        low, high = sectors[node]
        width = (high - low) / (sum(need[child] for child in children[node]) or 1.0)
        for child in children[node]:
            sectors[child] = (low, low + width * need[child])
            low = sectors[child][1]
    angles = np.array([sum(sectors[node]) / 2 for node in parents])
    rings = distances[list(parents)]
    radii = _radii(np.bincount(rings))[rings]
    return np.column_stack([radii * np.sin(angles), radii * np.cos(angles)])


def _radii(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the radius of each ring, the outermost 1; a ring of few nodes gets less room.

    >>> _radii(np.array([1, 5, 8])), _radii(np.array([1, 5, 8, 1])).round(2)
    (array([0.  , 0.45, 1.  ]), array([0.  , 0.45, 0.84, 1.  ]))
    """
    if len(counts) <= 2:
        return np.array([0.0, 1.0])
    room = np.cumsum(np.clip(counts[2:] / 4, 0.4, 1))
    return np.concatenate([[0, _INNERMOST], _INNERMOST + (1 - _INNERMOST) * room / room[-1]])
