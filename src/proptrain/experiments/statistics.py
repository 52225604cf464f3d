"""Means and how far to trust them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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
