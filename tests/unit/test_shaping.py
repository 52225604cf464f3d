"""Soft labels take shape: what a row says, how much it counts, how much all of them do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from proptrain.propagate.shaping import (
    balance_classes,
    evenness,
    known_mass,
    next_soft_labels,
    sharpen,
    size_keeping,
    temper_mass,
    to_rows,
    with_total,
)

MASSES = st.floats(0.0, 100, width=32).map(lambda number: 0.0 if number < 1e-3 else number)
SOFT_LABELS = hnp.arrays(
    np.float32, st.tuples(st.integers(1, 6), st.integers(2, 4)), elements=MASSES
)


@given(SOFT_LABELS)
def test_rows_and_masses_make_up_the_soft_labels(soft_labels):
    rows, mass = to_rows(soft_labels)
    np.testing.assert_allclose(rows * mass, soft_labels, rtol=1e-5)
    np.testing.assert_allclose(rows.sum(axis=1), soft_labels.any(axis=1), rtol=1e-5)


@given(SOFT_LABELS, st.floats(0, 2))
def test_tempering_changes_masses_and_nothing_that_a_row_says(soft_labels, power):
    rows, mass = to_rows(soft_labels)
    tempered = temper_mass(soft_labels, power)
    known = soft_labels.any(axis=1)
    np.testing.assert_allclose(to_rows(tempered)[0], rows, atol=1e-5)
    np.testing.assert_allclose(tempered.sum(axis=1)[known], mass[known, 0] ** power, rtol=1e-4)
    assert not tempered[~known].any()


@given(SOFT_LABELS.filter(np.any))
def test_balanced_classes_have_the_same_mass_and_together_what_they_had(soft_labels):
    balanced = balance_classes(soft_labels)
    there = soft_labels.any(axis=0)
    masses = balanced.sum(axis=0)[there]
    np.testing.assert_allclose(masses, masses.mean(), rtol=1e-4)
    np.testing.assert_allclose(balanced.sum(), soft_labels.sum(), rtol=1e-4)
    np.testing.assert_array_equal(balance_classes(soft_labels, 0.0), soft_labels)


def test_half_a_balance_lies_half_way_between():
    soft_labels = np.array([[4, 0], [0, 1]], dtype=np.float32)
    masses = balance_classes(soft_labels, 0.5).sum(axis=0)
    assert masses[0] / masses[1] == pytest.approx(2)


@given(SOFT_LABELS.filter(np.any), st.floats(0.1, 1e4))
def test_a_total_scales_all_alike(soft_labels, total):
    scaled = with_total(soft_labels, total)
    assert scaled.sum(dtype=np.float64) == pytest.approx(total, rel=1e-4)
    np.testing.assert_allclose(to_rows(scaled)[0], to_rows(soft_labels)[0], atol=1e-5)


def test_without_any_mass_nothing_is_balanced_or_scaled():
    nothing = np.zeros((3, 2), dtype=np.float32)
    np.testing.assert_array_equal(balance_classes(nothing), nothing)
    np.testing.assert_array_equal(with_total(nothing, 70.0), nothing)


@given(SOFT_LABELS, st.floats(1, 4))
def test_sharpened_rows_are_distributions_that_lean_the_same_way_more(predictions, power):
    rows, sharp = to_rows(predictions)[0], sharpen(predictions, power)
    np.testing.assert_allclose(sharp.sum(axis=1), predictions.any(axis=1), rtol=1e-5)
    assert (sharp.max(axis=1) >= rows.max(axis=1) - 1e-5).all()
    by_hand = rows.astype(np.float64) ** power
    mass = by_hand.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(sharp, by_hand / np.where(mass > 0, mass, 1), atol=1e-5)


@given(st.floats(0.01, 1e4), st.floats(0.01, 1e4))
def test_balance_fades_with_the_square_of_the_labels(per_class, balance):
    assert evenness(balance, balance) == pytest.approx(0.5)
    assert 0 <= evenness(per_class, balance) <= 1
    by_hand = 1 / (1 + (per_class / balance) ** 2)
    assert evenness(per_class, balance) == pytest.approx(by_hand)
    assert evenness(per_class, 0.0) == 0


@pytest.mark.parametrize(
    ("total", "known", "others"),
    [
        (40.0, 1, 40 / 60),  # of few labels each has what it has in label propagation,
        (6.0, 6 / 12, 6 / 60),  # of many no more than together the total,
        (600.0, 10, 10),  # and never less than what is guessed
    ],
)
def test_known_labels_never_outgrow_the_total_nor_fall_below_a_guess(total, known, others):
    assert known_mass(total, 60, 12) == known
    scores = np.random.RandomState(0).rand(60, 3).astype(np.float32)
    codes, nodes, trust = np.arange(60) % 3, np.arange(12), np.ones(12, dtype=np.float32)
    targets = next_soft_labels(
        scores, codes, nodes, trust, total=total, sharpness=2.0, evenness=1.0
    )
    np.testing.assert_array_equal(targets[:12], known * np.eye(3)[codes[:12]])
    assert targets[12:].sum(axis=1).mean() == pytest.approx(others, rel=0.1)


@given(SOFT_LABELS.filter(lambda scores: scores.any(axis=1).all()), st.floats(1, 4), st.data())
def test_next_soft_labels_are_sharpened_predictions_and_labels_as_far_as_trusted(
    scores, sharpness, data
):
    n, n_classes = scores.shape
    codes = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, n_classes - 1)))
    known = np.flatnonzero(data.draw(hnp.arrays(bool, n).filter(np.any)))
    trust = data.draw(hnp.arrays(np.float32, len(known), elements=st.floats(0, 1, width=32)))
    given_scores = scores.copy()
    targets = next_soft_labels(
        scores, codes, known, trust, total=3.0, sharpness=sharpness, evenness=0.0
    )
    np.testing.assert_array_equal(scores, given_scores)
    by_hand = (scores / scores.max(axis=1, keepdims=True)).astype(np.float64) ** sharpness
    by_hand *= 3 / n / by_hand.sum(axis=1, keepdims=True)
    for trusted, node in zip(trust, known, strict=True):
        label = max(3 / n, min(1, 3 / len(known))) * np.eye(n_classes)[codes[node]]
        by_hand[node] = trusted * label + (1 - trusted) * by_hand[node]
    np.testing.assert_allclose(targets, by_hand, atol=1e-4)


def test_factors_bring_the_classes_back_to_their_sizes():
    random = np.random.RandomState(0)
    told = random.dirichlet([8, 1, 1], 500).astype(np.float32)
    swallowed = 0.5 * told + 0.5 * told.mean(axis=0)
    sizes = np.bincount(told.argmax(axis=1), minlength=3)
    assert np.bincount(swallowed.argmax(axis=1), minlength=3)[1:].sum() < 0.5 * sizes[1:].sum()
    kept = (swallowed * size_keeping(swallowed, told)).argmax(axis=1)
    np.testing.assert_allclose(np.bincount(kept, minlength=3), sizes, atol=5)


@given(SOFT_LABELS)
def test_factors_are_above_0_and_1_where_nothing_is_swallowed(soft_labels):
    factors = size_keeping(soft_labels, soft_labels)
    np.testing.assert_array_equal(factors, 1)
    others = size_keeping(soft_labels, soft_labels[::-1])
    assert others.min() > 0
    assert others.max() == 1
