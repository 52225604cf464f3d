"""What of an experiment has been run, whatever was asked for this time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from proptrain.data.catalog import CATALOG
from proptrain.data.splits import TEST_SEEDS, VALIDATION_SEEDS, seeds_for
from proptrain.experiments.protocol import Run
from proptrain.experiments.specs import EXPERIMENTS, Experiment
from proptrain.experiments.tasks import MAX_RUNS, runs_of

_Cell = tuple[str, str]
"""A data set and a method."""


def covered(experiment: Experiment, runs: Sequence[Run]) -> Experiment:
    """Return the experiment as far as there are runs of it: data sets, methods, their number."""
    cells = _cells_run(experiment, runs)
    return _spanned(experiment, cells, n_runs=_n_runs(experiment, runs) if cells else 0)


def widened(experiment: Experiment, runs: Sequence[Run]) -> Experiment:
    """Return the experiment with what has been run of it beside what it asks for."""
    if not experiment.has_runs:
        return experiment
    done = covered(EXPERIMENTS[experiment.name], runs)
    cells = [*_cells_of(experiment), *_cells_of(done)]
    return _spanned(experiment, cells, n_runs=max(experiment.n_runs, done.n_runs))


def in_parts(
    shown: Experiment, chosen: Iterable[Experiment], runs: Sequence[Run]
) -> list[Experiment]:
    """Return an experiment in parts that are together just what was chosen, or run, of it.

    A part is all its methods on all its data sets, since that is what a command can ask for.
    """
    if not shown.has_runs:
        return [shown]
    cells = {cell for one in chosen if one.name == shown.name for cell in _cells_of(one)}
    cells |= {(run.dataset, run.method) for run in _made_for(shown, runs)}
    cells |= _cells_at_every_point(shown, runs)
    parts: dict[tuple[str, ...], list[str]] = {}
    for dataset in shown.datasets:
        methods = tuple(name for name in shown.methods if (dataset, name) in cells)
        parts.setdefault(methods, []).append(dataset)
    return [
        replace(shown, datasets=tuple(datasets), methods=methods)
        for methods, datasets in parts.items()
    ]


def _cells_at_every_point(experiment: Experiment, runs: Sequence[Run]) -> set[_Cell]:
    """Return what has been run for whichever experiment, at all points of this one's curves."""
    points = {(run.dataset, run.method, run.point) for run in runs_of(experiment, runs)}
    n_points = Counter((dataset, method) for dataset, method, _ in points)
    return {cell for cell, number in n_points.items() if number == experiment.n_points}


def _cells_of(experiment: Experiment) -> Iterable[_Cell]:
    return product(experiment.datasets, experiment.methods)


def _cells_run(experiment: Experiment, runs: Sequence[Run]) -> list[_Cell]:
    """Return what has been run of an experiment.

    Experiments share runs, so some runs of a method may be there that nobody wanted here: those
    count that were made for this experiment, and those that are complete.
    """
    made = [(run.dataset, run.method) for run in _made_for(experiment, runs)]
    methods = dict.fromkeys([*experiment.methods, *(method for _, method in made)])
    everything = replace(experiment, datasets=tuple(CATALOG), methods=tuple(methods))
    counts = Counter((run.dataset, run.method) for run in runs_of(everything, runs))
    n_complete = experiment.n_runs * experiment.n_points
    complete = [cell for cell, count in counts.items() if count == n_complete]
    return list(dict.fromkeys([*made, *complete]))


def _n_runs(experiment: Experiment, runs: Sequence[Run]) -> int:
    """Return how many runs were made for an experiment; its own number if others' complete it."""
    seeds = seeds_for(MAX_RUNS, VALIDATION_SEEDS if experiment.validation else TEST_SEEDS)
    place = {pair: number for number, pair in enumerate(seeds, start=1)}
    made = _made_for(experiment, runs)
    numbers = [place.get((run.split_seed, run.init_seed), 1) for run in made]
    return max(numbers, default=experiment.n_runs)


def _made_for(experiment: Experiment, runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.experiment == experiment.name and run.dataset in CATALOG]


def _spanned(experiment: Experiment, cells: Sequence[_Cell], *, n_runs: int) -> Experiment:
    """Return the experiment with every data set and every method that the cells name."""
    datasets, methods = {dataset for dataset, _ in cells}, [method for _, method in cells]
    order = dict.fromkeys([*EXPERIMENTS[experiment.name].methods, *methods])
    return replace(
        experiment,
        datasets=tuple(name for name in CATALOG if name in datasets),
        methods=tuple(name for name in order if name in methods),
        n_runs=n_runs,
    )
