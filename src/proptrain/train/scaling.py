"""Features of ordinary size, for settings that were found on features whose rows sum to 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.dataset import Features

ROUNDING = 1e-3
"""By which rows that were made to sum to 1 may miss it."""
FAR_OFF = 2.0
"""Spreads by which a column's middle must be off zero to be taken away."""
SMALLEST = 1e-30
"""Sum of a row that is still brought to 1: weights that undo more are beyond float32."""
AT_A_TIME = 64
"""Columns of dense features that are looked at together: there may be no room for all once more."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is taken from each column, and what the rest is divided by: (f,) each."""

    middles: NDArray[np.float64]
    sizes: NDArray[np.float64]

    def __call__(self, features: Features) -> Features:
        """Return the features so changed; themselves if nothing is to change.

        >>> Scaling(np.array([3.0, 0.0]), np.array([2.0, 1.0]))(np.array([[5, 1]], np.float32))
        array([[1., 1.]], dtype=float32)
        """
        if self._is_none():
            return features
        if isinstance(features, sp.csr_array):
            values = (features.data / self.sizes[features.indices]).astype(np.float32)
            return sp.csr_array((values, features.indices, features.indptr), shape=features.shape)
        scaled = np.empty(features.shape, dtype=np.float32)
        for part in _parts(features):
            scaled[:, part] = self.columns_of(features, part)
        return scaled

    def columns_of(self, features: NDArray[np.float32], part: slice) -> NDArray[np.float64]:
        """Return some columns of dense features, so changed."""
        return np.asarray((features[:, part] - self.middles[part]) / self.sizes[part])

    def unscaled(self, weights: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return weights that tell of features as they are given what these tell of scaled ones.

        ``weight1`` is (…, f, h) and ``bias1`` (…, h).
        """
        if self._is_none():
            return weights
        weight1 = weights["weight1"] / self.sizes[:, np.newaxis]
        bias1 = weights["bias1"] - self.middles @ weight1
        changed = {"weight1": weight1.astype(np.float32), "bias1": bias1.astype(np.float32)}
        return {**weights, **changed}

    def _is_none(self) -> bool:
        return not self.middles.any() and bool((self.sizes == 1).all())


def no_scaling(n_features: int) -> Scaling:
    """Return what leaves features as they are."""
    return Scaling(np.zeros(n_features), np.ones(n_features))


def to_ordinary_size(features: Features) -> Scaling:
    """Return what brings features to ordinary size; rows that sum to 1 have it.

    Adam moves every weight by the learning rate, so a step moves a hidden unit by that times the
    sum of a row's absolute features. Where that is large, training jumps about, and what it ends
    in is luck; where it is tiny, nothing is learnt. So a large column is divided by its size, and
    then all by the root of what rows sum to. (By the sum itself, weight decay would leave the
    network too little to learn with.) If rows sum to less than 1, they are brought to it, unless it
    is so little that weights could not be as large.

    A size is the square of a mean of roots: a few values far out, which would decide a mean or a
    standard deviation, count little. A dense column that is far off zero is brought there first.

    >>> to_ordinary_size(np.array([[0.5, 0.5], [0.9, 0.1]], dtype=np.float32)).sizes
    array([1., 1.])
    >>> scaling = to_ordinary_size(np.array([[2010, 1], [2020, 0], [2021, 0]], dtype=np.float32))
    >>> scaling.middles
    array([2020.,    0.])
    """
    none = no_scaling(features.shape[1])
    if abs(_row_sum(features, none) - 1) <= ROUNDING:
        return none
    middles = np.zeros(features.shape[1])
    if isinstance(features, sp.csr_array):
        roots = np.sqrt(np.abs(features.data.astype(np.float64)))
        column_roots = np.bincount(features.indices, weights=roots, minlength=features.shape[1])
        spreads = np.square(column_roots / features.shape[0])
    else:
        spreads = np.zeros(features.shape[1])
        for part in _parts(features):
            middles[part], spreads[part] = _middles_and_spreads(features[:, part])
    sizes = np.maximum(1, spreads)
    row_sum = _row_sum(features, Scaling(middles, sizes))
    if row_sum > SMALLEST:
        sizes = sizes * (np.sqrt(row_sum) if row_sum > 1 else row_sum)
    return Scaling(middles, sizes)


def _row_sum(features: Features, scaling: Scaling) -> float:
    """Return what the absolute scaled features of a row sum to, few of them far out or not."""
    sums = np.zeros(features.shape[0])
    if isinstance(features, sp.csr_array):
        sums += np.abs(scaling(features)).sum(axis=1, dtype=np.float64)
    else:
        for part in _parts(features):
            sums += np.abs(scaling.columns_of(features, part)).sum(axis=1)
    return float(np.square(np.sqrt(sums).mean()))


def _parts(features: NDArray[np.float32]) -> list[slice]:
    """Return the columns of dense features, some at a time."""
    starts = range(0, features.shape[1], AT_A_TIME)
    return [slice(start, start + AT_A_TIME) for start in starts]


def _middles_and_spreads(
    columns: NDArray[np.float32],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return where some columns have their middle, 0 unless far from it, and how far they reach."""
    values = columns.astype(np.float64)
    middles = np.median(values, axis=0)
    spreads = _spreads(values - middles)
    is_far = np.abs(middles) > FAR_OFF * spreads
    middles = np.where(is_far, middles, 0)
    return middles, np.where(is_far, spreads, _spreads(values))


def _spreads(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.square(np.sqrt(np.abs(values)).mean(axis=0)))
