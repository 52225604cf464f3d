"""What speaks for a label: each view against what it is said to be."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from proptrain.data.graph import Graph
from proptrain.data.splits import cross_fit, deal_folds
from proptrain.insight import evidence
from proptrain.insight.evidence import (
    accumulated_weights,
    leave_fold_out,
    leave_one_out,
)
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.labels import propagate_labels
from proptrain.propagate.schemes import PPR, Heat, Mean, Power
from strategies import adjacencies, labellings, signals

modest = settings(max_examples=100, derandomize=True, deadline=None)
SCHEMES = st.sampled_from([PPR(0.1, 10), PPR(0.5, 1), Power(2), Mean(4), Heat(2.0, 6)])
NORMALISATIONS = st.sampled_from(["symmetric", "symmetric-no-loops", "row"])


@st.composite
def labelled_engines(draw):
    """An engine, a scheme, and labels of its nodes."""
    adjacency = draw(adjacencies())
    engine = LocalEngine(Graph(sp.csr_array(adjacency)), draw(NORMALISATIONS))
    return engine, draw(SCHEMES), *draw(labellings(len(adjacency)))


@modest
@given(labelled_engines(), st.sampled_from([1, 2, 64]))
def test_leaving_one_label_out_is_propagating_without_it(drawn, block):
    engine, scheme, labels, known, n_classes = drawn
    before, evidence.MOST_COLUMNS = evidence.MOST_COLUMNS, block
    try:
        told = leave_one_out(labels, known, n_classes, engine, scheme)
    finally:
        evidence.MOST_COLUMNS = before
    assert told.shape == (len(known), n_classes)
    for row, node in zip(told, known, strict=True):
        others = known[known != node]
        again = propagate_labels(labels, others, n_classes, engine, scheme, clamp=False)
        np.testing.assert_allclose(row, again[node], atol=2e-6)  # labels are spread in float32


@modest
@given(labelled_engines(), st.data())
def test_a_label_has_no_say_about_itself(drawn, data):
    engine, scheme, labels, known, n_classes = drawn
    place = data.draw(st.integers(0, len(known) - 1))
    other = labels.copy()
    other[known[place]] = (other[known[place]] + 1) % n_classes
    rows = [leave_one_out(y, known, n_classes, engine, scheme)[place] for y in (labels, other)]
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-12)


@modest
@given(labelled_engines(), st.integers(2, 4), st.integers(0, 100))
def test_leaving_a_fold_out_is_propagating_without_it(drawn, n_folds, seed):
    engine, scheme, labels, known, n_classes = drawn
    folds = deal_folds(labels[known], n_folds, np.random.RandomState(seed))
    told = leave_fold_out(labels, known, folds, n_classes, engine, scheme)
    for fold in range(n_folds):
        others = known[folds != fold]
        again = propagate_labels(labels, others, n_classes, engine, scheme, clamp=False)
        np.testing.assert_allclose(told[folds == fold], again[known[folds == fold]], atol=2e-6)
    assert not told[folds < 0].any()


@modest
@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(2, 6), st.integers(0, 99))
def test_folds_have_of_every_class_about_as_many(codes, n_folds, seed):
    codes = np.array(codes)
    folds = deal_folds(codes, n_folds, np.random.RandomState(seed))
    for code in np.unique(codes):
        mine = folds[codes == code]
        if len(mine) == 1:
            assert mine.tolist() == [-1]
            continue
        counts = np.bincount(mine, minlength=n_folds)
        assert len(counts) == n_folds
        assert counts.max() - counts.min() <= 1
    again = deal_folds(codes, n_folds, np.random.RandomState(seed))
    np.testing.assert_array_equal(folds, again)


def test_folds_are_drawn():
    codes = np.zeros(30, dtype=np.int64)
    drawn = [deal_folds(codes, 3, np.random.RandomState(seed)) for seed in range(300)]
    assert np.array(drawn).mean(axis=0) == pytest.approx(np.ones(30), abs=0.2)


def test_nobody_is_told_by_one_who_learnt_from_him():
    known, folds = np.array([3, 5, 6, 8]), np.array([1, 0, -1, 1])
    asked = []

    codes = np.array([-1, -1, -1, 0, -1, 1, 1, -1, 0, -1])

    def tell(learnt, nodes):
        asked.append(({int(j): int(learnt[j]) for j in np.flatnonzero(learnt >= 0)}, [*nodes]))
        return np.tile(nodes[:, None], 2)

    told = cross_fit(codes, known, folds, 2, tell)
    assert asked == [({3: 0, 6: 1, 8: 0}, [5]), ({5: 1, 6: 1}, [3, 8])]
    assert told.tolist() == [[3, 3], [5, 5], [0, 0], [8, 8]]
    assert cross_fit(codes, known, np.full(4, -1), 2, tell).tolist() == [[0, 0]] * 4


@modest
@given(adjacencies(), st.data(), NORMALISATIONS, SCHEMES)
def test_a_labels_weight_is_the_sum_over_its_pseudo_labels(adjacency, data, normalisation, scheme):
    n_nodes = len(adjacency)
    f = np.exp(data.draw(signals(n_nodes, 3)))
    f /= f.sum(axis=1, keepdims=True)
    labels = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n_nodes, max_size=n_nodes)))
    engine = LocalEngine(Graph(sp.csr_array(adjacency)), normalisation)
    told = accumulated_weights(f, np.arange(n_nodes), engine, scheme)
    influence = engine.propagate(np.eye(n_nodes), scheme)  # a_ji: row j, column i
    for j, label in enumerate(labels):
        weights = [influence[j, i] * f[i, label] for i in range(n_nodes)]
        assert told[j, label] == pytest.approx(sum(weights), abs=1e-9)
