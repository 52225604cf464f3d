"""Picking from many runs what a table, a figure or a claim compares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from proptrain.experiments.protocol import Run


def select(
    runs: Iterable[Run], dataset: str, method: str, rate: float | None = None
) -> tuple[Run, ...]:
    """Return the runs of one method on one data set, at one rate of noise if it is given."""
    return tuple(
        run
        for run in runs
        if run.dataset == dataset and run.method == method and rate in (None, run.noise)
    )


def percentages(runs: Iterable[Run]) -> list[float]:
    """Return the accuracies in per cent."""
    return [100 * run.accuracy for run in runs]


def paired(first: Sequence[Run], second: Sequence[Run]) -> tuple[list[float], list[float]]:
    """Return the percentages of both where they share split, initialisation and rate of noise."""
    ours, theirs = ({_seeds(run): 100 * run.accuracy for run in runs} for runs in (first, second))
    common = sorted(ours.keys() & theirs.keys())
    return [ours[seeds] for seeds in common], [theirs[seeds] for seeds in common]


def margins(first: Sequence[Run], second: Sequence[Run]) -> list[float]:
    """Return by how many points the first method is ahead, for each pair of runs."""
    return [ours - theirs for ours, theirs in zip(*paired(first, second), strict=True)]


def slopes(first: Sequence[Run], second: Sequence[Run]) -> list[float]:
    """Return how many points the first method gains on the second per 10 points of noise.

    One least-squares slope over the rates for each split and initialisation that has two rates.
    """
    theirs = {_seeds(run): run for run in second}
    curves: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for run in first:
        if (other := theirs.get(_seeds(run))) and run.noise is not None:
            margin = 100 * (run.accuracy - other.accuracy)
            curves.setdefault((run.split_seed, run.init_seed), []).append((run.noise, margin))
    return [0.1 * _slope(points) for points in curves.values() if len(points) > 1]


def spreads(runs: Iterable[Run]) -> dict[int, float]:
    """Return the standard deviation over the initialisations, in points, for each split.

    A split with one initialisation has none.
    """
    by_split: dict[int, list[float]] = {}
    for run in runs:
        by_split.setdefault(run.split_seed, []).append(100 * run.accuracy)
    return {
        split: float(np.std(values, ddof=1))
        for split, values in by_split.items()
        if len(values) > 1
    }


def _seeds(run: Run) -> tuple[int, int, float]:
    return run.split_seed, run.init_seed, -1.0 if run.noise is None else run.noise


def _slope(points: list[tuple[float, float]]) -> float:
    rates, values = np.array(points).T
    centred = rates - rates.mean()
    return float(centred @ values / (centred @ centred))
