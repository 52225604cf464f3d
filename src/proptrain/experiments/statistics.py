"""Means and how far to trust them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from proptrain.errors import InvalidInputError


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval; the bounds are NaN where there is none."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's length, for "mean ± half-width"."""
        return (self.high - self.low) / 2


def bootstrap_mean(values: Sequence[float], *, n_resamples: int = 1000, seed: int = 0) -> Estimate:
    """Return the mean with its percentile-bootstrap interval, as the paper's protocol does.

    >>> bootstrap_mean([0.5, 0.5, 0.5])
    Estimate(mean=0.5, low=0.5, high=0.5)

    One value says nothing of how far another would lie:

    >>> bootstrap_mean([0.5])
    Estimate(mean=0.5, low=nan, high=nan)
    """
    sample = np.asarray(values, dtype=np.float64)
    if len(sample) < 2:
        return Estimate(float(sample.mean()), math.nan, math.nan)
    drawn = np.random.default_rng(seed).choice(sample, size=(n_resamples, len(sample)))
    low, high = np.percentile(drawn.mean(axis=1), [2.5, 97.5])
    return Estimate(float(sample.mean()), float(low), float(high))


def paired_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided p-value of a paired t-test, as below Table 5; NaN where there is none.

    The values of one position must belong together: the same split and initialisation.

    >>> round(paired_p_value([0.8, 0.9, 0.7], [0.7, 0.8, 0.5]), 3)
    0.057
    >>> paired_p_value([0.8], [0.7])
    nan
    """
    if len(first) != len(second):
        raise InvalidInputError(
            "A paired test needs as many values on one side as on the other, got "
            f"{len(first)} and {len(second)}. Keep the runs that both have."
        )
    differences = np.subtract(first, second)
    if len(differences) < 2 or np.ptp(differences) == 0:  # no spread to compare the mean with
        return math.nan
    return float(stats.ttest_rel(first, second).pvalue)
