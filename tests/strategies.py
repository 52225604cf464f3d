"""Hypothesis strategies: graphs, signals and labellings, with the awkward ones on purpose."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

SEEDS = st.integers(0, 10_000)
"""Of what NumPy draws: Hypothesis likes its numbers small, and the first example, the only one of a
slow engine, would be of zeros."""


@st.composite
def adjacencies(draw, max_nodes=8):
    """A symmetric (n, n) float64 matrix without a diagonal, weighted or not.

    Nodes are dealt out to up to four components, and edges are kept within each: n = 1, isolated
    nodes, graphs without an edge and several components all come up often.
    """
    n = draw(st.sampled_from([*range(max_nodes, 0, -1), *range(3, max_nodes)]))
    component = np.arange(n) % draw(st.sampled_from([2, 1, 1, 2, 3, 1, 4]))
    random = np.random.RandomState(draw(SEEDS))
    linked = random.rand(n, n) < draw(st.sampled_from([0.6, 0.9, 0.4, 0.6, 0.9, 0.7, 0.0]))
    weights = np.float32(random.choice([0.0625, 0.3, 1, 2.5, 16], (n, n)))  # as a graph holds them
    adjacency = np.where(
        linked, weights if draw(st.sampled_from([True, False, True])) else 1.0, 0.0
    )
    adjacency[component[:, None] != component] = 0
    lower = np.tril(adjacency, -1)
    return lower + lower.T


@st.composite
def signals(draw, n_nodes, n_columns=None, dtype=np.float64, number=0):
    """An (n, c) signal of numbers from -8 to 8, some of them 0; c = 1 … 3 unless given.

    One with another number is another, even where Hypothesis draws the same seed for both.
    """
    c = draw(st.sampled_from([3, 2, 1])) if n_columns is None else n_columns
    random = np.random.RandomState([draw(SEEDS), number])
    values = np.float32(random.uniform(-8, 8, (n_nodes, c)))
    values[random.rand(n_nodes, c) < draw(st.sampled_from([0.2, 0.0, 0.8]))] = 0
    return values.astype(dtype)


@st.composite
def adjacencies_with_signals(draw, n_signals=1, dtype=np.float64, max_nodes=8):
    """(adjacency, signal, …): the signals have the same shape."""
    adjacency = draw(adjacencies(max_nodes))
    first = draw(signals(len(adjacency), dtype=dtype))
    others = [draw(signals(*first.shape, dtype, number)) for number in range(1, n_signals)]
    return adjacency, first, *others


@st.composite
def node_sets(draw, n_nodes, min_size=0):
    """Distinct node indices, in any order: all but one at first, and down to as few as allowed."""
    n_left_out = min(draw(st.integers(1, n_nodes)), n_nodes - min_size)
    order = np.random.RandomState(draw(SEEDS)).permutation(n_nodes)
    return order[: n_nodes - n_left_out].astype(np.int64)


@st.composite
def labellings(draw, n_nodes):
    """(labels, known, n_classes): codes for all nodes, the nodes whose codes may be used."""
    n_classes = draw(st.sampled_from([3, 2, 4, 1]))
    codes = np.random.RandomState(draw(SEEDS)).randint(n_classes, size=n_nodes)
    return codes, draw(node_sets(n_nodes, min_size=1)), n_classes


def stopping_curves():
    """(accuracies, losses) of up to 40 epochs, few different values each: many ties."""
    values = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
    return st.lists(st.tuples(values, values), min_size=1, max_size=40).map(
        lambda pairs: ([a for a, _ in pairs], [b for _, b in pairs])
    )
