"""Calibration: the error against its definition, the temperature against a search, abstention."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proptrain import (
    GNNClassifier,
    LabelPropagationClassifier,
    PTAClassifier,
    encode_labels,
    load_dataset,
)
from proptrain.errors import InvalidInputError, LabelError
from proptrain.insight.calibration import (
    calibration_error,
    fit_temperature,
    reliability,
    with_temperature,
)

modest = settings(max_examples=100, derandomize=True, deadline=None)


@st.composite
def predictions(draw):
    """Distributions (m, C) and classes (m,); some rows are certain, some uniform."""
    random = np.random.RandomState(draw(st.integers(0, 10_000)))
    n, n_classes = draw(st.integers(1, 40)), draw(st.integers(2, 5))
    sharpness = draw(st.sampled_from([0.0, 0.5, 3.0, 30.0]))
    scores = np.exp(sharpness * random.standard_normal((n, n_classes)))
    return scores / scores.sum(axis=1, keepdims=True), random.randint(n_classes, size=n)


def error_by_loops(told, codes, n_bins):
    """The definition: the mean gap over bins (lower, upper], each counting as its nodes."""
    total = 0.0
    for b in range(n_bins):
        mine = [
            (max(row), int(np.argmax(row)) == code)
            for row, code in zip(told, codes, strict=True)
            if b / n_bins < max(row) <= (b + 1) / n_bins
        ]
        if mine:
            sure, right = (sum(values) / len(mine) for values in zip(*mine, strict=True))
            total += len(mine) / len(codes) * abs(right - sure)
    return total


@modest
@given(predictions(), st.sampled_from([1, 2, 15]))
def test_the_error_is_its_definition(drawn, n_bins):
    told, codes = drawn
    told = np.round(told, 3)  # so that no number lies a rounding beside an edge
    expected = error_by_loops(told.tolist(), codes.tolist(), n_bins)
    assert calibration_error(told, codes, n_bins) == pytest.approx(expected, abs=1e-9)


@modest
@given(predictions())
def test_bins_hold_every_node_once_and_their_own_numbers(drawn):
    told, codes = drawn
    bins = reliability(told, codes)
    assert bins.counts.sum() == len(codes)
    filled = bins.counts > 0
    assert (bins.confidence[filled] >= bins.edges[:-1][filled] - 1e-12).all()
    assert (bins.confidence[filled] <= bins.edges[1:][filled] + 1e-12).all()
    assert np.isnan(bins.accuracy[~filled]).all()
    right = (told.argmax(axis=1) == codes).mean()
    assert np.nansum(bins.accuracy * bins.counts) / len(codes) == pytest.approx(right)


def test_numbers_that_keep_their_promise_have_no_error_and_temperature_one():
    # Of four nodes told with 75 %, three are right; of two told with a half, one is.
    told = np.array([[0.75, 0.25]] * 4 + [[0.5, 0.5]] * 2)
    codes = np.array([0, 0, 0, 1, 0, 1])
    assert calibration_error(told, codes) == pytest.approx(0, abs=1e-12)
    # One, but for the hundredth of the labels that is taken for wrong: q is what the others say.
    q = (0.75 - 0.01 / 2) / 0.99
    assert fit_temperature(told, codes) == pytest.approx(np.log(3) / np.log(q / (1 - q)), abs=1e-4)


@modest
@given(predictions())
def test_the_temperature_is_the_likeliest_of_many(drawn):
    told, codes = drawn

    def loss(temperature):
        rows = np.maximum(told, 1e-12) ** (1 / temperature)
        of_label = rows[np.arange(len(codes)), codes] / rows.sum(axis=1)
        return -np.log(0.99 * of_label + 0.01 / told.shape[1]).mean()

    found = fit_temperature(told, codes)
    assert 0.05 <= found <= 20
    others = np.exp(np.linspace(np.log(0.05), np.log(20), 60))
    assert loss(found) <= min(loss(other) for other in others) + 1e-6


@modest
@given(predictions(), st.sampled_from([0.05, 0.3, 1.0, 4.0, 20.0]))
def test_a_temperature_makes_distributions_and_changes_no_prediction(drawn, temperature):
    told, _ = drawn
    heated = with_temperature(told, temperature)
    np.testing.assert_allclose(heated.sum(axis=1), 1)
    rows, likeliest = np.arange(len(told)), told.argmax(axis=1)
    np.testing.assert_array_equal(heated[rows, likeliest], heated.max(axis=1))
    back = with_temperature(heated, 1 / temperature)
    kept = heated > 1e-250  # what vanished cannot come back
    np.testing.assert_allclose(back[kept], told[kept], rtol=1e-6, atol=1e-12)
    sure = heated.max(axis=1) - told.max(axis=1)
    assert (sure >= -1e-12).all() if temperature <= 1 else (sure <= 1e-12).all()


def test_planted_overconfidence_is_found():
    random = np.random.RandomState(0)
    scores = random.standard_normal((4000, 4))
    true = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    codes = np.array([random.choice(4, p=row) for row in true])
    boasting = with_temperature(true, 1 / 3)
    assert fit_temperature(boasting, codes) == pytest.approx(3, rel=0.08)
    better = with_temperature(boasting, fit_temperature(boasting, codes))
    assert calibration_error(better, codes) < calibration_error(boasting, codes) / 4


def test_one_label_held_for_impossible_does_not_decide():
    told = np.array([[0.6, 0.3, 0.1]] * 17 + [[0.001, 0.998, 0.001]])
    codes = np.zeros(18, dtype=int)
    without = fit_temperature(told[:17], codes[:17])
    assert without < 0.2
    assert fit_temperature(told, codes) < 0.5  # else 3.0: rows would be as good as uniform


@pytest.mark.parametrize(
    ("told", "codes", "message"),
    [
        ([[0.5, 0.5]], [0, 1], r"got \(1, 2\) and \(2,\)"),
        (np.empty((0, 2)), [], r"for at least one node; got \(0, 2\)"),
        ([0.5, 0.5], [0, 1], r"shape \(m, C\)"),
        ([[0.5, 0.5]], [2], "class codes from 0 to 1, .* from 2 to 2"),
        ([[0.5, 0.5]], [-1], "from -1 to -1. Leave unlabelled nodes out"),
        ([[0.5, 0.5]], [0.0], "got float64"),
    ],
)
def test_what_cannot_be_compared_is_refused(told, codes, message):
    for function in (calibration_error, fit_temperature, reliability):
        with pytest.raises((InvalidInputError, LabelError), match=message):
            function(told, codes)


# --- on a classifier ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cora():
    return load_dataset("cora")


@pytest.fixture(scope="module")
def fitted(cora):
    known = np.random.default_rng(0).random(cora.n_nodes) < 0.15
    y = np.where(known, cora.labels, -1)
    return PTAClassifier(random_state=0, max_epochs=60).fit(cora.features, y, graph=cora.graph)


def test_calibrated_probabilities_are_nearer_to_what_happens(cora, fitted):
    hidden = fitted.given_ < 0
    plain, better = fitted.predict_proba(), fitted.predict_proba(calibrated=True)
    before, after = (calibration_error(p[hidden], cora.labels[hidden]) for p in (plain, better))
    assert after < before / 2
    np.testing.assert_array_equal(plain.argmax(axis=1), better.argmax(axis=1))
    expected = with_temperature(plain, fitted.find_temperature())
    np.testing.assert_array_equal(better, expected)
    np.testing.assert_array_equal(fitted.predict(), fitted.transduction_)


def test_only_stopping_labels_decide_the_temperature(cora, fitted):
    stop = fitted.stopping_
    told = fitted.label_distributions_[stop]
    assert fitted.find_temperature() == fit_temperature(told, cora.labels[stop])
    alone = fit_temperature(fitted.probabilities_[stop], cora.labels[stop])
    assert fitted.find_temperature(alone=True) == alone


def test_new_nodes_are_calibrated_with_and_without_edges(cora, fitted):
    X = cora.features[:5]
    edges = cora.graph.adjacency[:5]
    plain = fitted.predict_proba(X, edges)
    expected = with_temperature(plain, fitted.find_temperature())
    np.testing.assert_array_equal(fitted.predict_proba(X, edges, calibrated=True), expected)
    alone = with_temperature(fitted.predict_proba(X), fitted.find_temperature(alone=True))
    np.testing.assert_array_equal(fitted.predict_proba(X, calibrated=True), alone)


def test_a_loaded_model_is_calibrated_alike(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = PTAClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(
        loaded.predict_proba(calibrated=True), fitted.predict_proba(calibrated=True)
    )


def test_without_held_out_labels_there_is_no_calibration():
    y, graph = [0, 1, -1], [(0, 1), (1, 2), (0, 2)]
    clf = LabelPropagationClassifier().fit(None, y, graph=graph)
    with pytest.raises(InvalidInputError, match=r"needs stopping nodes, .* has none\. Fit it with"):
        clf.predict_proba(calibrated=True)
    X = np.eye(5)
    net = GNNClassifier(max_epochs=2, random_state=0).fit(
        X, [0, 1, 0, 1, -1], graph=[(0, 1), (3, 4), (1, 2)], stopping=[2, 3]
    )
    with pytest.warns(UserWarning, match="by 2 held-out labels is mostly chance: at least 20"):
        assert net.predict_proba(calibrated=True).shape == (5, 2)
    with pytest.raises(InvalidInputError, match="cannot be calibrated from features alone"):
        net.predict_proba(2 * X, calibrated=True)


# --- abstention ---------------------------------------------------------------------------------


def test_who_is_not_sure_enough_says_nothing(fitted):
    for calibrated in (False, True):
        highest = fitted.predict_proba(calibrated=calibrated).max(axis=1)
        told = fitted.predict(min_probability=0.6, calibrated=calibrated)
        np.testing.assert_array_equal(told == -1, highest < 0.6)
        np.testing.assert_array_equal(told[told != -1], fitted.transduction_[highest >= 0.6])
    np.testing.assert_array_equal(fitted.predict(min_probability=0), fitted.transduction_)
    assert (fitted.predict(min_probability=1.0) == -1).any()


@pytest.mark.parametrize(
    ("labels", "marker", "left"),
    [
        ([7, 9], -1, -1),
        (np.array([7, 9], dtype=np.uint8), -1, -1),
        ([-1, 9], -5, -5),
        ([-1, 9], None, np.nan),
        (["left", "right"], -1, ""),
        (["left", "right"], "nobody knows", "nobody knows"),
        ([True, False], -1, None),
    ],
)
def test_what_is_left_out_is_unlabelled_for_fit_as_well(labels, marker, left):
    gap = None if left is None else marker  # NumPy would make numbers of booleans beside -1
    y = [*labels, gap, gap]
    clf = LabelPropagationClassifier(unlabelled=marker)
    clf.fit(None, y, graph=[(0, 2), (1, 2), (1, 3)])  # node 2 lies between the two
    told = clf.predict(min_probability=0.7)
    is_left = [value is left or value == left or value != value for value in told.tolist()]
    assert is_left == [False, False, True, False]
    codes, names = encode_labels(told, unlabelled=marker)
    assert [c >= 0 for c in codes] == [True, True, False, True]
    assert [names[codes[node]] for node in (0, 1, 3)] == [labels[0], labels[1], labels[1]]


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan")])
def test_a_least_probability_is_one(fitted, wrong):
    with pytest.raises(InvalidInputError, match=f"between 0 and 1, got {wrong!r}"):
        fitted.predict(min_probability=wrong)
