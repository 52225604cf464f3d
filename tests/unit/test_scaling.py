"""Features of ordinary size: what is large is divided, and nothing else is touched."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from proptrain import load_dataset
from proptrain.train.scaling import column_sizes, divide_columns

MATRICES = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-1e6, 1e6, width=32),
)


def test_rows_that_sum_to_one_stay_as_they_are():
    features = load_dataset("cora").features
    assert (column_sizes(features) == 1).all()
    assert divide_columns(features, column_sizes(features)) is features


@given(MATRICES)
def test_divided_columns_are_at_most_of_size_1_and_rows_not_larger(features):
    sizes = column_sizes(features)
    assert (sizes >= 1).all()
    divided = divide_columns(features, sizes)
    assert (np.sqrt((divided.astype(np.float64) ** 2).mean(axis=0)) <= 1.0001).all()
    # What the columns' own sizes leave of a row's sum, its root takes away.
    own = np.maximum(1, np.sqrt((features.astype(np.float64) ** 2).mean(axis=0)))
    left = np.abs(features / own).sum(axis=1).mean()
    wanted = np.sqrt(left) if left > 1.001 else left
    assert np.abs(divided).sum(axis=1).mean() == pytest.approx(wanted, rel=1e-4, abs=1e-6)


@given(MATRICES)
def test_sparse_features_are_divided_as_dense_ones_are(features):
    sparse = sp.csr_array(features)
    sizes = column_sizes(sparse)
    np.testing.assert_allclose(sizes, column_sizes(features), rtol=1e-12)
    divided = divide_columns(sparse, sizes)
    np.testing.assert_allclose(np.asarray(divided.todense()), divide_columns(features, sizes))
    assert divided.dtype == np.float32
