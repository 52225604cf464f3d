"""A label is trusted by what the other labels say of its node, never by itself."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from proptrain import PPR, Graph, LocalEngine, propagate_labels
from proptrain.propagate.trust import told_by_others, trust_labels

SCHEME = PPR(0.2, 5)


def cliques(n_cliques=2, size=6):
    """A graph of separate groups in which everybody knows everybody, and who is in which."""
    block = np.ones((size, size)) - np.eye(size)
    return Graph(sp.csr_array(np.kron(np.eye(n_cliques), block))), np.repeat(range(n_cliques), size)


def test_what_others_say_is_propagation_without_the_fold():
    graph, codes = cliques()
    engine, known = LocalEngine(graph), np.array([0, 1, 2, 6, 7, 8])
    told = told_by_others(codes, known, 2, engine, SCHEME, n_folds=len(known), seed=0)
    for place, node in enumerate(known):  # as many folds as labels: one is left out at a time
        others = known[known != node]
        alone = propagate_labels(codes, others, 2, engine, SCHEME)[node]
        np.testing.assert_allclose(told[place], alone, rtol=1e-6)


def test_no_label_speaks_for_itself():
    graph, codes = cliques()
    engine, known = LocalEngine(graph), np.array([0, 1, 2, 6, 7, 8])
    told = told_by_others(codes, known, 2, engine, SCHEME, n_folds=6)
    changed = codes.copy()
    changed[0] = 1
    assert np.array_equal(told_by_others(changed, known, 2, engine, SCHEME, n_folds=6)[0], told[0])


def test_one_label_alone_is_told_nothing_and_trusted():
    graph, codes = cliques(1)
    told = told_by_others(codes, np.array([3]), 1, LocalEngine(graph), SCHEME)
    np.testing.assert_array_equal(told, [[0]])
    np.testing.assert_array_equal(trust_labels(told, codes[:1]), [1])


def test_a_wrong_label_among_right_ones_is_trusted_least():
    graph, codes = cliques(2, 10)
    known = np.array([0, 1, 2, 3, 4, 10, 11, 12, 13, 14])
    given = codes.copy()
    given[2] = 1
    told = told_by_others(given, known, 2, LocalEngine(graph), SCHEME)
    trust = trust_labels(told, given[known])
    assert trust.argmin() == 2
    assert trust[2] < 0.5
    assert np.delete(trust, 2) == pytest.approx(1)


def test_a_class_with_one_label_cannot_be_outvoted():
    told = np.array([[0, 5.0], [0, 5.0], [0, 5.0]], dtype=np.float32)
    trust = trust_labels(told, np.array([0, 1, 1]))
    assert trust[0] == 1  # no other label of its class could have spoken for it
    trust = trust_labels(told, np.array([0, 0, 1]))
    assert 0 < trust[0] < 1


def test_next_to_no_mass_says_next_to_nothing():
    told = np.array([[0, 1e-6], [5, 0], [5, 0], [0, 5]], dtype=np.float32)
    trust = trust_labels(told, np.array([0, 0, 0, 0]))
    assert trust[0] == pytest.approx(1, abs=1e-4)
    assert trust[3] < 0.6


def test_next_to_no_mass_says_next_to_nothing_where_most_labels_are_told_nothing():
    told = np.zeros((9, 2), dtype=np.float32)
    told[0], told[1:4, 0], told[4] = (0, 1e-6), 5, (0, 5)
    trust = trust_labels(told, np.zeros(9, dtype=np.int64))
    assert trust[0] == pytest.approx(1, abs=1e-2)
    assert trust[4] < 0.6
    assert np.delete(trust, [0, 4]) == pytest.approx(1)


@pytest.mark.parametrize("clamp", [True, False])
def test_others_are_asked_as_labels_are_propagated(clamp):
    graph, codes = cliques()
    engine, known = LocalEngine(graph), np.array([0, 1, 2, 6, 7, 8])
    told = told_by_others(codes, known, 2, engine, SCHEME, n_folds=6, clamp=clamp)
    alone = propagate_labels(codes, known[1:], 2, engine, SCHEME, clamp=clamp)[known[0]]
    np.testing.assert_allclose(told[0], alone, rtol=1e-6)
