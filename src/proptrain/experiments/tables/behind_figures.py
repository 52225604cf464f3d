"""The numbers behind the figures: curves against noise, and boxes of accuracies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from proptrain.data.dataset import Dataset
from proptrain.experiments.grid import MISSING, NO_RUNS, Table, counted, listed, plus_minus
from proptrain.experiments.protocol import Run
from proptrain.experiments.samples import percentages, select, spreads
from proptrain.experiments.specs import Experiment
from proptrain.experiments.statistics import bootstrap_mean


def curve_table(
    experiment: Experiment, runs: Sequence[Run], datasets: Mapping[str, Dataset]
) -> Table:
    """Return mean accuracies at each point of the curves."""
    points = experiment.points
    rows = [
        (dataset, method, *(_mean_cell(select(runs, dataset, method, point)) for point in points))
        for dataset in experiment.datasets
        for method in experiment.methods
    ]
    header = ("data set", "method", *map(experiment.tell, points))
    counts = [
        len(select(runs, dataset, method, point))
        for dataset in experiment.datasets
        for method in experiment.methods
        for point in points
    ]
    by = experiment.axis if experiment.noise is None else f"the share of {experiment.axis}"
    notes = (
        f"Mean accuracy in per cent ± half the width of its 95 % interval, by {by}.",
        f"Runs behind each number: {_range(counts)} of {experiment.n_runs}.",
        *_learnt_nothing_note(experiment, runs, datasets),
    )
    return Table(experiment.heading, header, tuple(rows), notes, n_labels=2)


def _learnt_nothing_note(
    experiment: Experiment, runs: Sequence[Run], datasets: Mapping[str, Dataset]
) -> tuple[str, ...]:
    """Name the runs that stopped before they had learnt anything; a few of them move a mean far."""
    shares = {name: _commonest_share(dataset.labels) for name, dataset in datasets.items()}
    told = [
        f"{counted(n_lost, 'run')} of {method} on {dataset} at {experiment.tell(point)}"
        for method in experiment.methods
        for dataset in shares
        for point in experiment.points
        if (
            n_lost := sum(
                run.accuracy <= shares[dataset] for run in select(runs, dataset, method, point)
            )
        )
    ]
    if not told:
        return ()
    return (
        f"In the means, though they told no more than the commonest class would: {listed(told)}.",
    )


def _commonest_share(labels: NDArray[np.int64]) -> float:
    return float(np.bincount(labels[labels >= 0]).max() / np.count_nonzero(labels >= 0))


def _range(counts: Sequence[int]) -> str:
    """Write the smallest and the largest of some numbers; zero if there are none.

    >>> _range([3, 10, 7]), _range([10, 10]), _range([])
    ('3 to 10', '10', '0')
    """
    return " to ".join(map(str, sorted({min(counts, default=0), max(counts, default=0)})))


def _mean_cell(runs: Sequence[Run]) -> str:
    if not runs:
        return MISSING
    ours = bootstrap_mean(percentages(runs))
    return plus_minus(ours.mean, ours.half_width, digits=1)


def box_table(experiment: Experiment, runs: Sequence[Run]) -> Table:
    """Return medians, quartiles and the spread over initialisations."""
    rows = [
        (dataset, method, *_box_cells(select(runs, dataset, method), experiment.n_runs))
        for dataset in experiment.datasets
        for method in experiment.methods
    ]
    header = ("data set", "method", "median, %", "middle half, %", "spread", "runs")
    notes = (
        "The middle half reaches from the first quartile to the third.",
        "Spread: standard deviation over the initialisations of a split, in points, averaged over "
        "the splits.",
    )
    return Table(experiment.heading, header, tuple(rows), notes, n_labels=2)


def _box_cells(runs: Sequence[Run], n_runs: int) -> tuple[str, ...]:
    if not runs:
        return NO_RUNS, MISSING, MISSING, f"0 of {n_runs}"
    low, middle, high = np.percentile(percentages(runs), [25, 50, 75])
    by_split = spreads(runs)
    spread = f"{np.mean(list(by_split.values())):.2f}" if by_split else MISSING
    return f"{middle:.2f}", f"{low:.2f} to {high:.2f}", spread, f"{len(runs)} of {n_runs}"
