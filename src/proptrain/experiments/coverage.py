"""What of an experiment has been run, whatever was asked for this time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from proptrain.data.catalog import CATALOG
from proptrain.data.splits import TEST_SEEDS, VALIDATION_SEEDS, seeds_for
from proptrain.experiments.protocol import Run
from proptrain.experiments.specs import EXPERIMENTS, Experiment
from proptrain.experiments.tasks import MAX_RUNS, runs_of


def covered(experiment: Experiment, runs: Sequence[Run]) -> Experiment:
    """Return the experiment as far as there are runs of it: data sets, methods, their number.

    Experiments share runs, so some runs of a method may be there that nobody wanted here: those
    count that were made for this experiment, and those that are complete.
    """
    asked_for = [run for run in runs if run.experiment == experiment.name]
    methods = tuple(dict.fromkeys([*experiment.methods, *(run.method for run in asked_for)]))
    everything = replace(experiment, datasets=tuple(CATALOG), methods=methods)
    counts = Counter((run.dataset, run.method) for run in runs_of(everything, runs))
    n_complete = experiment.n_runs * len(experiment.rates)
    cells = {cell for cell, count in counts.items() if count == n_complete}
    cells |= {(run.dataset, run.method) for run in asked_for}
    seeds = seeds_for(MAX_RUNS, VALIDATION_SEEDS if experiment.validation else TEST_SEEDS)
    place = {pair: number for number, pair in enumerate(seeds, start=1)}
    numbers = [place.get((run.split_seed, run.init_seed), 1) for run in asked_for]
    return replace(
        experiment,
        datasets=tuple(name for name in CATALOG if name in {dataset for dataset, _ in cells}),
        methods=tuple(name for name in methods if name in {method for _, method in cells}),
        n_runs=max(numbers, default=experiment.n_runs),
    )


def widened(experiment: Experiment, runs: Sequence[Run]) -> Experiment:
    """Return the experiment with what has been run of it beside what it asks for."""
    if not experiment.has_runs:
        return experiment
    whole = EXPERIMENTS[experiment.name]
    done = covered(whole, runs)
    datasets = {*experiment.datasets, *done.datasets}
    methods = {*experiment.methods, *done.methods}
    order = dict.fromkeys([*whole.methods, *experiment.methods, *done.methods])
    return replace(
        experiment,
        datasets=tuple(name for name in CATALOG if name in datasets),
        methods=tuple(name for name in order if name in methods),
        n_runs=max(experiment.n_runs, done.n_runs),
    )
