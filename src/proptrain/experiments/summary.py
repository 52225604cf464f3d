"""What many runs come to, for each method."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from proptrain.experiments.protocol import Run
from proptrain.experiments.statistics import Estimate, bootstrap_mean


@dataclass(frozen=True)
class Summary:
    """How one method did over its runs; accuracies are shares between 0 and 1."""

    method: str
    accuracies: tuple[float, ...]
    """One for each run."""
    estimate: Estimate
    """Their mean."""
    median_seconds: float
    median_epochs: float

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a dictionary, None for a bound that there is not."""
        low, high = self.estimate.low, self.estimate.high
        return {
            "mean": self.estimate.mean,
            "low": None if math.isnan(low) else low,
            "high": None if math.isnan(high) else high,
            "runs": len(self.accuracies),
            "median_seconds": self.median_seconds,
            "median_epochs": self.median_epochs,
        }


def summarise(runs: Iterable[Run]) -> tuple[Summary, ...]:
    """Return one summary for each method, in the order in which they first ran."""
    by_method: dict[str, list[Run]] = {}
    for run in runs:
        by_method.setdefault(run.method, []).append(run)
    return tuple(_summary(method, own) for method, own in by_method.items())


def _summary(method: str, runs: list[Run]) -> Summary:
    accuracies = tuple(run.accuracy for run in runs)
    return Summary(
        method=method,
        accuracies=accuracies,
        estimate=bootstrap_mean(accuracies),
        median_seconds=median(run.seconds for run in runs),
        median_epochs=median(run.epochs for run in runs),
    )
