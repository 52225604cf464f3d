"""Graphs made up to a size: hubs and communities as in real ones, as large as memory allows."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.graph import Graph
from proptrain.errors import InvalidInputError

_DEGREE_EXPONENT = 2.5
"""The number of nodes with d neighbours falls as d^-2.5; real networks lie between 2 and 3."""
_HEAD = 10.0
"""Ranks are counted from here, so that no hub is joined to everything."""


def power_law_graph(
    n_nodes: int, n_edges: int, n_classes: int, *, noise: float = 0.2, seed: int = 0
) -> tuple[Graph, NDArray[np.int64]]:
    """Draw a graph whose degrees follow a power law, and a class for each of its nodes.

    An edge's first end is any node, well-connected ones more often; its second end is of the same
    class, but for a share ``noise`` of the edges of any class. Nodes are numbered at random.

    >>> graph, labels = power_law_graph(1000, 5000, n_classes=4)
    >>> graph, labels.shape
    (Graph(1,000 nodes, 5,000 edges), (1000,))
    """
    check_sizes(n_nodes, n_edges, n_classes, noise)
    random = np.random.Generator(np.random.SFC64(seed))
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < n_edges:  # self-loops and repetitions are drawn again
        n_drawn = math.ceil(1.05 * (n_edges - len(keys))) + 10
        drawn = draw_keys(n_drawn, n_nodes, n_classes, noise, random)
        keys = np.unique(np.concatenate([keys, drawn]))
    if len(keys) > n_edges:
        keys = np.delete(keys, random.choice(len(keys), len(keys) - n_edges, replace=False))
    number = random.permutation(n_nodes)
    ends = number[keys // n_nodes], number[keys % n_nodes]
    weights = np.ones(n_edges, dtype=np.float32)
    labels = np.empty(n_nodes, dtype=np.int64)
    labels[number] = np.arange(n_nodes) % n_classes
    return Graph(sp.coo_array((weights, ends), shape=(n_nodes, n_nodes))), labels


def draw_keys(
    n_drawn: int, n_nodes: int, n_classes: int, noise: float, random: np.random.Generator
) -> NDArray[np.int64]:
    """Draw edges, each as one number, between nodes i of class i mod C and rank i div C."""
    first = _draw_ranks(n_drawn, n_nodes, n_classes, random) * n_classes
    second = _draw_ranks(n_drawn, n_nodes, n_classes, random) * n_classes
    code = random.integers(n_classes, size=n_drawn)
    first += code
    stray = random.random(n_drawn) < noise
    second += np.where(stray, random.integers(n_classes, size=n_drawn), code)
    proper = (first != second) & (first < n_nodes) & (second < n_nodes)
    low, high = np.minimum(first, second)[proper], np.maximum(first, second)[proper]
    keys: NDArray[np.int64] = low * n_nodes + high
    return keys


def _draw_ranks(
    n_drawn: int, n_nodes: int, n_classes: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Draw ranks within a class, rank r in proportion to (r + head)^-1/(exponent - 1)."""
    power = 1 - 1 / (_DEGREE_EXPONENT - 1)
    low, high = _HEAD**power, (_HEAD + -(-n_nodes // n_classes)) ** power
    drawn = (low + (high - low) * random.random(n_drawn)) ** (1 / power) - _HEAD
    ranks: NDArray[np.int64] = drawn.astype(np.int64)
    return ranks


def check_sizes(n_nodes: int, n_edges: int, n_classes: int, noise: float) -> None:
    """Raise unless there can be such a graph."""
    if not 1 <= n_classes <= n_nodes // 2:
        raise InvalidInputError(
            f"Each class needs at least two nodes, got {n_classes:,} classes for {n_nodes:,} nodes."
        )
    if not 0 <= noise <= 1:
        raise InvalidInputError(f"noise is a share between 0 and 1, got {noise}.")
    # Drawing again and again ends soon only as long as most pairs are free.
    largest = n_nodes // n_classes * (n_nodes - n_classes) // 8
    if not 0 <= n_edges <= largest:
        raise InvalidInputError(
            f"{n_nodes:,} nodes in {n_classes:,} classes leave room for at most {largest:,} edges, "
            f"got {n_edges:,}."
        )
