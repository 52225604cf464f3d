"""Features of ordinary size, for settings that were found on features whose rows sum to 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.dataset import Features

ROUNDING = 1e-3
"""By which rows that were made to sum to 1 may miss it."""


def column_sizes(features: Features) -> NDArray[np.float64]:
    """Return what each column is to be divided by (f,); all 1 where features are not large.

    Adam moves every weight by the learning rate, so a step moves a hidden unit by that times the
    sum of a row's absolute features. Where that sum is large, training jumps about, and what it
    ends in is luck. So a column whose root mean square is above 1 is brought to 1, and then all
    are divided by the root of the rows' mean sum. (By the sum itself, weight decay would leave the
    network too little to learn with.)

    >>> column_sizes(np.array([[0.5, 0.5], [0.9, 0.1]], dtype=np.float32))
    array([1., 1.])
    >>> column_sizes(np.array([[300, 1], [-300, 1]], dtype=np.float32)).round(1)
    array([424.3,   1.4])
    """
    magnitudes = abs(features).astype(np.float64)
    sizes = np.maximum(1, np.sqrt(column_means(magnitudes**2)))
    row_sum = float((column_means(magnitudes) / sizes).sum())
    return sizes * np.sqrt(row_sum) if row_sum > 1 + ROUNDING else sizes


def column_means(matrix: Any) -> NDArray[np.float64]:
    """Return the mean of each column of a dense or sparse matrix, shape (f,)."""
    return np.asarray(matrix.mean(axis=0), dtype=np.float64).ravel()


def divide_columns(features: Features, sizes: NDArray[np.float64]) -> Features:
    """Return the features with each column divided by its size; themselves if all are 1.

    >>> divide_columns(np.array([[4, 1]], dtype=np.float32), np.array([2.0, 1.0]))
    array([[2., 1.]], dtype=float32)
    """
    if (sizes == 1).all():
        return features
    if isinstance(features, sp.csr_array):
        values = features.data / sizes[features.indices]
        parts = (values.astype(np.float32), features.indices, features.indptr)
        return sp.csr_array(parts, shape=features.shape)
    return np.asarray(features / sizes, dtype=np.float32)
