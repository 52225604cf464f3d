"""Tables 6 and 7: how long an epoch and the whole training take."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations

from proptrain.experiments import paper
from proptrain.experiments.grid import MISSING, NO_RUNS, Table, signed
from proptrain.experiments.protocol import Run
from proptrain.experiments.samples import (
    log_speed_ups,
    median_of,
    seconds_per_epoch,
    select,
    speed_up,
)
from proptrain.experiments.specs import Experiment
from proptrain.experiments.statistics import FEWEST, bootstrap_clusters
from proptrain.experiments.tables.accuracy import TOO_FEW

_NOT_COMPARED = (MISSING, MISSING)


def epoch_time_table(experiment: Experiment, runs: Sequence[Run]) -> Table:
    """Return the time of an epoch, with the ratios between methods."""
    return _time_table(
        experiment,
        runs,
        paper.MS_PER_EPOCH,
        lambda run: 1000 * seconds_per_epoch(run),
        "ms",
        "Ours is the median over the runs of the time of the whole fit divided by its epochs, the "
        "evaluation of the stopping nodes after each epoch included. The paper's seems to leave "
        "evaluation out: its total times for PTA divided by its times per epoch exceed the 2,000 "
        "epochs that it allows. So not even the ratios are quite like for like.",
    )


def total_time_table(experiment: Experiment, runs: Sequence[Run]) -> Table:
    """Return the time of a whole fit, with the ratios between methods."""
    return _time_table(
        experiment,
        runs,
        paper.TOTAL_SECONDS,
        lambda run: run.seconds,
        "s",
        "Ours is the median over the runs of the time of the whole fit.",
    )


def _time_table(
    experiment: Experiment,
    runs: Sequence[Run],
    published: Mapping[str, Mapping[str, float]],
    measure: Callable[[Run], float],
    unit: str,
    what: str,
) -> Table:
    rows: list[tuple[str, ...]] = []
    for dataset in experiment.datasets:
        own = {method: select(runs, dataset, method) for method in experiment.methods}
        theirs = {method: published.get(method, {}).get(dataset, math.nan) for method in own}
        for method, timed in own.items():
            ours = _time(median_of(measure, timed), unit) if timed else NO_RUNS
            done = f"{len(timed)} of {experiment.n_runs}"
            rows.append((dataset, method, _time(theirs[method], unit), ours, *_NOT_COMPARED, done))
        for slow, fast in combinations(experiment.methods, 2):
            logs = log_speed_ups(own[slow], own[fast], measure).values()
            cells = _ratio_cells(speed_up(theirs[slow], theirs[fast]), logs)
            rows.append((dataset, f"{slow} / {fast}", *cells, ""))
    header = ("data set", "method", "paper, on a GPU", "ours", "difference", "verdict", "runs")
    notes = (
        what,
        "Our runs were made one at a time, in one thread each; that other programs ran on the "
        "machine cannot be excluded.",
        "Times on different machines cannot be compared, only their ratios. Ours are geometric "
        "means over the pairs of runs on one split, with their 95 % intervals over the splits: "
        "“inside” if the paper's lies in it.",
    )
    return Table(experiment.heading, header, tuple(rows), notes, n_labels=2)


def _ratio_cells(theirs: float, logs: Collection[Sequence[float]]) -> tuple[str, ...]:
    """Return the paper's ratio and ours, by how much ours is more, and whether that is chance."""
    told = MISSING if math.isnan(theirs) else f"{theirs:.1f} ×"
    if not logs:
        return told, MISSING, *_NOT_COMPARED
    estimate = bootstrap_clusters(logs)
    ours, low, high = map(math.exp, (estimate.mean, estimate.low, estimate.high))
    interval = "" if math.isnan(low) else f" [{low:.1f}, {high:.1f}]"
    if math.isnan(theirs):
        return told, f"{ours:.1f} ×{interval}", *_NOT_COMPARED
    if len(logs) < FEWEST:
        verdict = TOO_FEW
    elif low <= theirs <= high:
        verdict = "inside"
    else:
        verdict = "smaller" if high < theirs else "larger"
    return told, f"{ours:.1f} ×{interval}", f"{signed(ours - theirs, 1)} ×", verdict


def _time(value: float, unit: str) -> str:
    return MISSING if math.isnan(value) else f"{value:.2f} {unit}"
