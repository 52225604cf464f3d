"""Picking from many runs what a table, a figure or a claim compares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median

import numpy as np

from proptrain.experiments.protocol import Run

BySplit = dict[int, list[float]]
"""Numbers by the split that they were measured on, because those of one split go together."""


def select(
    runs: Iterable[Run], dataset: str, method: str, point: float | None = None
) -> tuple[Run, ...]:
    """Return the runs of one method on one data set, at one point of its curve if it is given."""
    return tuple(
        run
        for run in runs
        if run.dataset == dataset and run.method == method and point in (None, run.point)
    )


def percentages(runs: Iterable[Run]) -> list[float]:
    """Return the accuracies in per cent."""
    return [100 * run.accuracy for run in runs]


def median_of(measure: Callable[[Run], float], runs: Sequence[Run]) -> float:
    """Return the median of what is measured of the runs; NaN without runs."""
    return median(map(measure, runs)) if runs else math.nan


def seconds_per_epoch(run: Run) -> float:
    """Return the time of a whole run for each of its epochs."""
    return run.seconds / max(run.epochs, 1)


def speed_up(slow: float, fast: float) -> float:
    """Return how many times as long the slow one takes; NaN if the fast one is too fast to time."""
    return slow / fast if fast else math.nan


# --- two methods side by side -------------------------------------------------------------------


def paired(first: Sequence[Run], second: Sequence[Run]) -> tuple[list[float], list[float]]:
    """Return the percentages of both where they share split, initialisation and rate of noise."""
    pairs = list(_pairs(first, second))
    return percentages(ours for ours, _ in pairs), percentages(theirs for _, theirs in pairs)


def epoch_ratio(first: Sequence[Run], second: Sequence[Run]) -> float:
    """Return the epochs of the first method by those of the second, where both have run, or NaN."""
    pairs = [(ours.epochs, theirs.epochs) for ours, theirs in _pairs(first, second)]
    ours, theirs = map(sum, zip(*pairs, strict=True)) if pairs else (0, 0)
    return ours / theirs if theirs else math.nan


def accuracies(runs: Iterable[Run]) -> BySplit:
    """Return the accuracies of runs, in points."""
    return _by_split((run.split_seed, 100 * run.accuracy) for run in runs)


def margins(first: Sequence[Run], second: Sequence[Run]) -> BySplit:
    """Return by how many points the first method is ahead, for each pair of runs."""
    return _by_split(
        (ours.split_seed, 100 * (ours.accuracy - theirs.accuracy))
        for ours, theirs in _pairs(first, second)
    )


def log_speed_ups(
    slow: Sequence[Run],
    fast: Sequence[Run],
    measure: Callable[[Run], float] = lambda run: run.seconds,
) -> BySplit:
    """Return the logarithm of how many times as long the slow one takes, for each pair of runs.

    Pairs with a run too fast to time are left out.
    """
    return _by_split(
        (longer.split_seed, math.log(measure(longer) / measure(shorter)))
        for longer, shorter in _pairs(slow, fast)
        if longer.seconds > 0 and shorter.seconds > 0
    )


def slopes(first: Sequence[Run], second: Sequence[Run]) -> BySplit:
    """Return how many points the first method gains on the second per 10 points of noise.

    One least-squares slope over the rates for each split and initialisation that has two rates.
    """
    curves: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for ours, theirs in _pairs(first, second):
        if ours.noise is not None:
            margin = 100 * (ours.accuracy - theirs.accuracy)
            curves.setdefault((ours.split_seed, ours.init_seed), []).append((ours.noise, margin))
    return _by_split(
        (split, 0.1 * _slope(points)) for (split, _), points in curves.items() if len(points) > 1
    )


def spreads(runs: Iterable[Run]) -> dict[int, float]:
    """Return the standard deviation over the initialisations, in points, for each split.

    A split with one initialisation has none.
    """
    return {
        split: float(np.std(values, ddof=1))
        for split, values in accuracies(runs).items()
        if len(values) > 1
    }


def _pairs(first: Iterable[Run], second: Iterable[Run]) -> Iterator[tuple[Run, Run]]:
    ours, theirs = ({_seeds(run): run for run in runs} for runs in (first, second))
    return ((ours[seeds], theirs[seeds]) for seeds in sorted(ours.keys() & theirs.keys()))


def _seeds(run: Run) -> tuple[int, int, float]:
    return run.split_seed, run.init_seed, -1.0 if run.point is None else run.point


def _by_split(values: Iterable[tuple[int, float]]) -> BySplit:
    grouped: BySplit = {}
    for split, value in values:
        grouped.setdefault(split, []).append(value)
    return grouped


def _slope(points: list[tuple[float, float]]) -> float:
    rates, values = np.array(points).T
    centred = rates - rates.mean()
    return float(centred @ values / (centred @ centred))
