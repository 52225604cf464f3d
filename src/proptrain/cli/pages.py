"""The pages that proptrain reproduce writes: which of a folder's runs they show."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from proptrain.errors import ProptrainError

if TYPE_CHECKING:
    from proptrain.data.dataset import Dataset
    from proptrain.experiments.protocol import Run
    from proptrain.experiments.specs import Experiment
    from proptrain.experiments.tasks import Task


def write_pages(
    chosen: list[Experiment],
    found: Mapping[Task, Run],
    datasets: Mapping[str, Dataset],
    out: Path,
    data_dir: Path | None,
) -> list[Path]:
    """Write the pages: the chosen experiments, and all else that the folder has runs of."""
    from proptrain.experiments.coverage import widened
    from proptrain.experiments.tasks import list_tasks
    from proptrain.experiments.versions import made_with, software
    from proptrain.report.reproduction import write_reproduction

    runs = list(found.values())
    shown = _in_their_order([*(widened(one, runs) for one in chosen), *_others(chosen, found)])
    done = [found[task] for task in list_tasks(shown) if task in found]
    return write_reproduction(
        shown,
        done,
        out,
        versions={**software(), **made_with(done)},
        command=_commands(shown, chosen, runs),
        datasets={**datasets, **_graphs_of(shown, done, datasets, data_dir)},
    )


def _commands(shown: list[Experiment], chosen: list[Experiment], runs: list[Run]) -> str:
    """Return the commands that give the same numbers elsewhere: without folders and workers."""
    from proptrain.experiments.coverage import in_parts
    from proptrain.experiments.specs import GROUPS

    parts = [part for experiment in shown for part in in_parts(experiment, chosen, runs)]
    for name, experiments in GROUPS.items():
        if parts == list(experiments):
            return f"proptrain reproduce {name}"
    return "\n".join(map(_command, parts))


def _command(experiment: Experiment) -> str:
    """Return the command for an experiment, with what it has otherwise than usual."""
    from proptrain.experiments.specs import EXPERIMENTS

    usual, words = EXPERIMENTS[experiment.name], ["proptrain", "reproduce", experiment.name]
    if experiment.datasets != usual.datasets:
        words += [word for one in experiment.datasets for word in ("--dataset", one)]
    if experiment.methods != usual.methods:
        words += [word for one in experiment.methods for word in ("--method", one)]
    if experiment.n_runs != usual.n_runs:
        words += ["--runs", str(experiment.n_runs)]
    return shlex.join(words)


def _others(chosen: list[Experiment], found: Mapping[Task, Run]) -> list[Experiment]:
    """Return what has been run of the experiments that runs of the folder were made for.

    Those that are complete count too. Some runs alone are not enough: most experiments share
    some, and nobody asked for them. Nor are runs on data sets that we do not know.
    """
    from proptrain.experiments.coverage import covered
    from proptrain.experiments.specs import EXPERIMENTS
    from proptrain.experiments.tasks import list_tasks

    names = {experiment.name for experiment in chosen}
    asked_for = {run.experiment for run in found.values()}
    others = [
        covered(experiment, list(found.values()))
        for name, experiment in EXPERIMENTS.items()
        if name not in names and experiment.has_runs
        if name in asked_for or found.keys() >= set(list_tasks([experiment]))
    ]
    return [experiment for experiment in others if experiment.datasets]


def _in_their_order(experiments: list[Experiment]) -> list[Experiment]:
    from proptrain.experiments.specs import EXPERIMENTS

    names = list(EXPERIMENTS)
    return sorted(experiments, key=lambda experiment: names.index(experiment.name))


def _graphs_of(
    experiments: list[Experiment],
    done: list[Run],
    loaded: Mapping[str, Dataset],
    data_dir: Path | None,
) -> dict[str, Dataset]:
    """Load the other data sets whose own rate of noise the experiments' figures show."""
    from proptrain.data.catalog import load_dataset

    noisy = [experiment for experiment in experiments if experiment.noise == "structure"]
    shown = {name for experiment in noisy for name in experiment.datasets}
    graphs = {}
    for name in sorted((shown & {run.dataset for run in done}) - loaded.keys()):
        with suppress(ProptrainError):  # nobody asked for it: a page without it will do
            graphs[name] = load_dataset(name, data_dir, download=False)
    return graphs
