"""Renumbering: the same graph under other numbers, with neighbours near each other."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from proptrain.data import order as order_module
from proptrain.data.graph import Graph
from proptrain.data.order import locality_order
from proptrain.data.synthetic import power_law_graph
from proptrain.errors import GraphError
from strategies import adjacencies


@settings(max_examples=40, deadline=None, derandomize=True)
@given(adjacencies(), st.integers(0, 5))
def test_it_is_the_same_graph_under_other_numbers(adjacency, seed):
    graph = Graph(sp.csr_array(adjacency))
    order = locality_order(graph, seed)
    assert sorted(order) == list(range(graph.n_nodes))
    np.testing.assert_array_equal(locality_order(graph, seed), order)
    again = graph.renumbered(order)
    wanted = graph.adjacency.toarray()[np.ix_(order, order)]
    np.testing.assert_array_equal(again.adjacency.toarray(), wanted)
    assert again.adjacency.has_sorted_indices


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [1, 2, 3], [0, 1, 2, 3]])
def test_an_order_names_each_node_once(order):
    graph = Graph.without_edges(3)
    with pytest.raises(GraphError, match=f"each of the graph's 3 nodes once.*got {len(order)}"):
        graph.renumbered(np.array(order))


def distances(graph):
    """How far apart the numbers of neighbours are, as a share of all numbers."""
    edges = sp.coo_array(graph.adjacency)
    return np.abs(edges.row.astype(np.int64) - edges.col) / graph.n_nodes


def test_communities_are_found_and_lie_together():
    graph, labels = power_law_graph(20_000, 300_000, 20, noise=0.2)
    order = locality_order(graph)
    n_changes = np.count_nonzero(np.diff(labels[order]))
    assert n_changes < 30  # 19 where the communities are those of the making
    assert np.median(distances(graph)) > 0.25
    assert np.median(distances(graph.renumbered(order))) < 0.03


def test_no_community_outgrows_a_cache(monkeypatch):
    graph, _ = power_law_graph(2000, 30_000, 2, noise=0.0)
    community, size = np.arange(2000), np.ones(2000, dtype=np.int64)
    parts = (graph.adjacency.indptr, graph.adjacency.indices)
    monkeypatch.setattr(order_module, "_LARGEST", 100)
    sweep = order_module._sweep.py_func  # where the compiled one has the number built in
    assert sweep(*parts, np.arange(2000), community, size) > 0
    np.testing.assert_array_equal(np.bincount(community, minlength=2000), size)
    assert size.max() == 100
