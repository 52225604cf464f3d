"""Ablations: how far each method is from the first one, run by run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from proptrain.experiments.grid import MISSING, NO_RUNS, Table, plus_minus, signed
from proptrain.experiments.protocol import Run
from proptrain.experiments.samples import margins, percentages, select
from proptrain.experiments.specs import Experiment
from proptrain.experiments.statistics import bootstrap_clusters, bootstrap_mean
from proptrain.experiments.tables.accuracy import runs_done

WITH_FIXED_MASS = ("PTA, mass^0.5", "PTA, balance")
"""Methods whose names, which recorded runs have, do not say all that they switch on."""


def differences_table(experiment: Experiment, runs: Sequence[Run]) -> Table:
    """Return mean accuracies, and the differences to the first method with their intervals."""
    baseline = experiment.methods[0]
    rows = tuple(
        (dataset, method, *_cells(experiment, dataset, method, baseline, runs))
        for dataset in experiment.datasets
        for method in experiment.methods
    )
    header = ("data set", "method", "ours, %", f"difference to {baseline}", "runs")
    also = [name for name in WITH_FIXED_MASS if name in experiment.methods]
    notes = (
        "Mean accuracy in per cent ± half the width of its 95 % bootstrap interval over the runs.",
        "The difference is taken run by run, on the same split with the same initialisation; its "
        "interval is over the splits.",
        "On the validation seeds and nodes, which are for settling choices.",
        *([f"With a fixed mass as well: {'; '.join(also)}."] if also else []),
    )
    return Table(experiment.heading, header, rows, notes, n_labels=2)


def _cells(
    experiment: Experiment, dataset: str, method: str, baseline: str, runs: Sequence[Run]
) -> tuple[str, ...]:
    own, other = (select(runs, dataset, name) for name in (method, baseline))
    done = runs_done(experiment, dataset, method, len(own))
    if not own:
        return NO_RUNS, MISSING, done
    ours = bootstrap_mean(percentages(own))
    told = plus_minus(ours.mean, ours.half_width)
    differences = margins(own, other)
    if method == baseline or not differences:
        return told, MISSING, done
    ahead = bootstrap_clusters(differences.values())
    interval = "" if math.isnan(ahead.half_width) else f" ± {ahead.half_width:.2f}"
    return told, f"{signed(ahead.mean)}{interval}", done
