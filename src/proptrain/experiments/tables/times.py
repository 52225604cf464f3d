"""Tables 6 and 7: how long an epoch and the whole training take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from proptrain.experiments import paper
from proptrain.experiments.grid import MISSING, NO_RUNS, Table
from proptrain.experiments.protocol import Run
from proptrain.experiments.samples import median_of, seconds_per_epoch, select, speed_up
from proptrain.experiments.specs import Experiment


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
        ours = {method: median_of(measure, timed) for method, timed in own.items()}
        for method, timed in own.items():
            told = _time(ours[method], unit) if timed else NO_RUNS
            done = f"{len(timed)} of {experiment.n_runs}"
            rows.append((dataset, method, _time(theirs[method], unit), told, done))
        for slow, fast in combinations(experiment.methods, 2):
            ratios = (_ratio(speed_up(times[slow], times[fast])) for times in (theirs, ours))
            rows.append((dataset, f"{slow} / {fast}", *ratios, ""))
    header = ("data set", "method", "paper, on a GPU", "ours", "runs")
    notes = (
        what,
        "Our runs were made one at a time; that other programs ran on the machine cannot be "
        "excluded.",
        "Times on different machines cannot be compared, only their ratios: hence no verdict.",
    )
    return Table(experiment.heading, header, tuple(rows), notes, n_labels=2)


def _time(value: float, unit: str) -> str:
    return MISSING if math.isnan(value) else f"{value:.2f} {unit}"


def _ratio(value: float) -> str:
    return MISSING if math.isnan(value) else f"{value:.1f} ×"
