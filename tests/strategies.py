"""Hypothesis strategies: graphs, signals and labellings, with the awkward ones on purpose."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

VALUES = st.floats(-8, 8, width=32, allow_subnormal=False)


@st.composite
def adjacencies(draw, max_nodes=8):
    """A symmetric (n, n) float64 matrix without a diagonal, weighted or not.

    Nodes are dealt out to up to four components, and edges are kept within each: n = 1, isolated
    nodes, graphs without an edge and several components all come up often. Edges and weights come
    from a drawn seed, since Hypothesis likes its numbers small and its graphs would be empty.
    """
    n = draw(st.sampled_from([*range(max_nodes, 0, -1), *range(3, max_nodes)]))
    component = np.arange(n) % draw(st.sampled_from([1, 2, 1, 2, 3, 1, 4]))
    random = np.random.RandomState(draw(st.integers(0, 10_000)))
    linked = random.rand(n, n) < draw(st.sampled_from([0.6, 0.9, 0.4, 0.6, 0.9, 0.7, 0.0]))
    weights = np.float32(random.choice([0.0625, 0.3, 1, 2.5, 16], (n, n)))  # as a graph holds them
    adjacency = np.where(
        linked, weights if draw(st.sampled_from([True, False, True])) else 1.0, 0.0
    )
    adjacency[component[:, None] != component] = 0
    lower = np.tril(adjacency, -1)
    return lower + lower.T


def signals(n_nodes, n_columns=None, dtype=np.float64):
    """An (n, c) signal; c = 1 … 3 unless given."""
    columns = st.integers(1, 3) if n_columns is None else st.just(n_columns)
    return columns.flatmap(
        lambda c: hnp.arrays(np.float32, (n_nodes, c), elements=VALUES, fill=st.nothing()).map(
            lambda values: values.astype(dtype)
        )
    )


@st.composite
def adjacencies_with_signals(draw, n_signals=1, dtype=np.float64, max_nodes=8):
    """(adjacency, signal, …): the signals have the same shape."""
    adjacency = draw(adjacencies(max_nodes))
    first = draw(signals(len(adjacency), dtype=dtype))
    others = [draw(signals(*first.shape, dtype=dtype)) for _ in range(n_signals - 1)]
    return adjacency, first, *others


def node_sets(n_nodes, min_size=0):
    """Distinct node indices, in any order."""
    return st.lists(
        st.integers(0, n_nodes - 1), min_size=min_size, max_size=n_nodes, unique=True
    ).map(lambda nodes: np.array(nodes, dtype=np.int64))


@st.composite
def labellings(draw, n_nodes):
    """(labels, known, n_classes): codes for all nodes, the nodes whose codes may be used."""
    n_classes = draw(st.integers(1, 4))
    codes = st.lists(st.integers(0, n_classes - 1), min_size=n_nodes, max_size=n_nodes)
    return np.array(draw(codes)), draw(node_sets(n_nodes, min_size=1)), n_classes


def stopping_curves():
    """(accuracies, losses) of up to 40 epochs, few different values each: many ties."""
    values = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
    return st.lists(st.tuples(values, values), min_size=1, max_size=40).map(
        lambda pairs: ([a for a, _ in pairs], [b for _, b in pairs])
    )
