"""Means and how far to trust them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy import stats

from proptrain.errors import InvalidInputError

SIGNIFICANT = 0.05
FEWEST = 5
"""From fewer runs, pairs of runs or splits than these nothing is concluded."""


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


def bootstrap_clusters(clusters: Iterable[Sequence[float]]) -> Estimate:
    """Return the mean of the clusters' means, with the interval from resampling whole clusters.

    Values of one cluster, such as runs on one split, have something in common. Resampled one by
    one they would pass for independent, and the interval would come out too narrow.

    >>> bootstrap_clusters([[0.4, 0.4, 0.7], [0.5]]).mean
    0.5
    """
    return bootstrap_mean([fmean(cluster) for cluster in clusters])


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
