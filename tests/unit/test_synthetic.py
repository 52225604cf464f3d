"""Graphs made up to a size: as many nodes, edges and classes as asked for, with hubs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proptrain.data.noise import noise_rate
from proptrain.data.synthetic import power_law_graph
from proptrain.errors import InvalidInputError


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(70, 300), st.integers(0, 100), st.integers(1, 5), st.integers(0, 10))
def test_sizes_are_those_asked_for(n_nodes, n_edges, n_classes, seed):
    graph, labels = power_law_graph(n_nodes, n_edges, n_classes, seed=seed)
    assert (graph.n_nodes, graph.n_edges) == (n_nodes, n_edges)
    assert graph.counts.duplicates == graph.counts.self_loops == 0
    assert np.ptp(np.bincount(labels, minlength=n_classes)) <= 1
    again, same_labels = power_law_graph(n_nodes, n_edges, n_classes, seed=seed)
    assert (again.adjacency != graph.adjacency).nnz == 0
    np.testing.assert_array_equal(same_labels, labels)


def test_noise_is_the_share_of_edges_that_may_lead_anywhere():
    for noise in (0.0, 0.3, 1.0):
        graph, labels = power_law_graph(20_000, 100_000, 10, noise=noise)
        assert noise_rate(graph, labels) == pytest.approx(0.9 * noise, abs=0.03)


def test_degrees_follow_a_power_law():
    graph, _ = power_law_graph(50_000, 500_000, 5)
    degrees = np.sort(graph.degrees)[::-1]
    # The share of nodes with at least d neighbours falls as d^-1.5 where hubs are.
    top, more = degrees[500], degrees[5000]
    slope = np.log(10) / np.log(top / more)
    assert 1.2 < slope < 1.8
    assert degrees[0] > 20 * degrees.mean()


def test_numbers_of_nodes_say_nothing_about_them():
    graph, labels = power_law_graph(10_000, 50_000, 4)
    halves = [graph.degrees[:5000].mean(), graph.degrees[5000:].mean()]
    assert halves[0] == pytest.approx(halves[1], rel=0.1)
    assert abs(np.corrcoef(np.arange(10_000), labels)[0, 1]) < 0.05


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((10, 5, 6), "at least two nodes, got 6 classes for 10 nodes"),
        ((10, 5, 0), "at least two nodes, got 0 classes"),
        ((100, 10_000, 2), "room for at most 612 edges, got 10,000"),
        ((100, -1, 2), "got -1"),
    ],
)
def test_sizes_that_cannot_be(sizes, message):
    with pytest.raises(InvalidInputError, match=message):
        power_law_graph(*sizes)
    with pytest.raises(InvalidInputError, match=r"noise is a share between 0 and 1, got 1\.5"):
        power_law_graph(100, 10, 2, noise=1.5)
