"""Features of ordinary size: what is not of it is brought there, and nothing else is touched."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from proptrain import load_dataset
from proptrain.train.scaling import Scaling, to_ordinary_size

MATRICES = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-1e6, 1e6, width=32),
)
ORDINARY = np.random.RandomState(0).randn(400, 20)


def scaled(features):
    features = np.asarray(features, dtype=np.float32)
    return to_ordinary_size(features)(features)


@pytest.mark.parametrize("as_given", [True, False], ids=["sparse", "dense"])
def test_rows_that_sum_to_one_stay_as_they_are(as_given):
    features = load_dataset("cora").features
    features = features if as_given else features.toarray()
    assert to_ordinary_size(features)(features) is features


@pytest.mark.parametrize(
    "change",
    [
        lambda x: 1000 * x,
        lambda x: 1e-4 * x,
        lambda x: x + 100,
        lambda x: x * np.geomspace(1, 1e6, 20),
        lambda x: 1e30 * x,
    ],
    ids=["large", "tiny", "far off", "unequal", "huge"],
)
def test_whatever_the_units_features_end_up_alike(change):
    ours, usual = scaled(change(ORDINARY)), scaled(ORDINARY)
    size = np.abs(ours).sum(axis=1).mean() / np.abs(usual).sum(axis=1).mean()
    assert 0.2 < size < 5
    alike = [np.corrcoef(one, other)[0, 1] for one, other in zip(ours.T, usual.T, strict=True)]
    assert min(alike) > 0.999


def test_few_values_far_out_do_not_hide_the_others():
    features = ORDINARY.copy()
    features[np.arange(20), np.arange(20)] = 1e4
    others = scaled(features)[20:]
    assert np.abs(others).sum(axis=1).mean() > 0.3 * np.abs(scaled(ORDINARY)).sum(axis=1).mean()


def test_dense_features_are_scaled_within_the_room_of_one_copy():
    features = np.random.RandomState(0).randn(2000, 1280).astype(np.float32) + 40
    tracemalloc.start()
    try:
        scaled(features)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.4 * features.nbytes


@given(MATRICES)
def test_sizes_are_finite_and_nothing_becomes_of_nothing(features):
    scaling = to_ordinary_size(features)
    assert np.isfinite(scaling.sizes).all()
    assert (scaling.sizes > 0).all()
    ours = scaling(features)
    assert ours.dtype == np.float32
    for column in np.flatnonzero((features == features[0]).all(axis=0)):
        assert (ours[:, column] == ours[0, column]).all()


@given(arrays(np.float32, (5, 4), elements=st.sampled_from([0, 0, 0, 1, 3, -200])))
def test_sparse_features_are_scaled_as_dense_ones_around_zero(features):
    sparse = sp.csr_array(features)
    ours, dense = to_ordinary_size(sparse), to_ordinary_size(features)
    assert not ours.middles.any()
    if not dense.middles.any():
        np.testing.assert_allclose(ours.sizes, dense.sizes, rtol=1e-6)
    np.testing.assert_allclose(
        ours(sparse).toarray(), Scaling(ours.middles, ours.sizes)(features), rtol=1e-6
    )


def test_weights_of_scaled_features_are_made_weights_of_the_given_ones():
    random = np.random.RandomState(1)
    features = (ORDINARY * 7 + 50).astype(np.float32)
    weights = {"weight1": random.randn(2, 20, 3), "bias1": random.randn(2, 3)}
    scaling = to_ordinary_size(features)
    assert scaling.middles.all()
    given = scaling.unscaled(weights)
    for place in range(2):
        wanted = scaling(features) @ weights["weight1"][place] + weights["bias1"][place]
        ours = features @ given["weight1"][place] + given["bias1"][place]
        np.testing.assert_allclose(ours, wanted, atol=1e-3)
