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
    asked_for = [run.method for run in runs if run.experiment == experiment.name]
    methods = tuple(dict.fromkeys([*experiment.methods, *asked_for]))
    everything = replace(experiment, datasets=tuple(CATALOG), methods=methods, n_runs=MAX_RUNS)
    found = runs_of(everything, runs)
    counts = Counter((run.dataset, run.method) for run in found)
    n_complete = experiment.n_runs * len(experiment.rates)
    done = [
        run
        for run in found
        if run.experiment == experiment.name or counts[run.dataset, run.method] >= n_complete
    ]
    seeds = seeds_for(MAX_RUNS, VALIDATION_SEEDS if experiment.validation else TEST_SEEDS)
    last = max((seeds.index((run.split_seed, run.init_seed)) for run in done), default=-1)
    return replace(
        experiment,
        datasets=tuple(name for name in CATALOG if name in {run.dataset for run in done}),
        methods=tuple(name for name in methods if name in {run.method for run in done}),
        n_runs=last + 1,
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
