"""proptrain reproduce: the paper's tables and figures, run after run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proptrain.cli.console import ForceOption, JsonOption, print_json, print_table, say
from proptrain.cli.data import DataDirOption
from proptrain.cli.pages import write_pages
from proptrain.cli.runs import FolderRuns, complete_folder, read_folder
from proptrain.errors import InvalidInputError
from proptrain.experiments.grid import counted

if TYPE_CHECKING:
    from proptrain.data.dataset import Dataset
    from proptrain.experiments.protocol import Run
    from proptrain.experiments.runner import Failure
    from proptrain.experiments.specs import Experiment

NameArgument = Annotated[
    str,
    typer.Argument(
        help="table2 … table8, structure-noise, structure-noise-pta, label-noise, initialisation, "
        "systems (that the paper's tables leave out), readings and noe-stopping (of what the paper "
        "leaves open), or all of these; plus, few-labels, labels-alone, wrong-labels, "
        "wrong-labels-pair, wrong-stopping, wrong-stopping-pair, ablation, ablation-few, "
        "ablation-wrong, or beyond for all of these."
    ),
]
DatasetsOption = Annotated[
    list[str] | None,
    typer.Option("--dataset", help="Repeatable. \\[default: the paper's four]"),
]
MethodsOption = Annotated[
    list[str] | None,
    typer.Option("--method", help="Repeatable. \\[default: those of the experiment]"),
]
RunsOption = Annotated[
    int | None,
    typer.Option(
        help="Runs of each method on each data set, 1 to 100; with `all` and `beyond`, no more "
        "than each experiment has by itself. \\[default: the experiment's number]"
    ),
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Processes side by side. \\[default: one for each core]")
]
AsIsOption = Annotated[
    bool, typer.Option("--as-is", help="Run nothing: write tables and figures of what is there.")
]
OutOption = Annotated[
    Path, typer.Option(help="Folder for the raw results, tables and figures; made if need be.")
]


def reproduce(
    name: NameArgument,
    dataset: DatasetsOption = None,
    method: MethodsOption = None,
    runs: RunsOption = None,
    workers: WorkersOption = None,
    as_is: AsIsOption = False,
    out: OutOption = Path("reproduction"),
    data_dir: DataDirOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Run an experiment of the paper and set its numbers beside the paper's.

    Each run is written to OUT/runs.jsonl as soon as it is done. Stop it whenever you like: the
    same command goes on where it stopped, and experiments in one folder share their runs.

    Three experiments are not the paper's: systems has those that its tables leave out; readings and
    noe-stopping compare, on validation nodes only, what its text leaves open. Those of `beyond`
    measure PTA+.

    Examples: proptrain reproduce table5 --runs 20;
    proptrain reproduce label-noise --dataset cora_ml --method PTA --method PTS
    """
    # Now, not when the pages are due: an edit may have broken them after a day of runs.
    import proptrain.experiments.coverage
    import proptrain.report.reproduction  # noqa: F401
    from proptrain.experiments.store import FILE_NAME
    from proptrain.experiments.tasks import list_tasks

    experiments = _choose(name, dataset or [], method or [], runs)
    # What is missing is fetched, and what is broken is told, before any run.
    datasets = _load(experiments, data_dir)
    tasks = list_tasks(experiments)
    if as_is:
        work = read_folder(out)
    else:
        work = complete_folder(out, tasks, workers, datasets, data_dir, quiet=json, force=force)
    pages = write_pages(experiments, work.found, datasets, out, data_dir)
    done = [work.found[task] for task in tasks if task in work.found]
    files = [str(path) for path in [out / FILE_NAME, *pages]]
    if json:
        _print_results(experiments, done, datasets, work, files)
    else:
        _show(experiments, done, datasets)
        say(f"written: {', '.join(files)}")
        _show_failures(work.failures)
    if work.failures:
        raise SystemExit(1)


def _choose(
    name: str, datasets: list[str], methods: list[str], n_runs: int | None
) -> list[Experiment]:
    """Return the experiments with the user's choices in them, all of which can be run."""
    from proptrain.data.catalog import CATALOG, find_entry
    from proptrain.experiments.methods import find_methods
    from proptrain.experiments.specs import GROUPS, find_experiments
    from proptrain.experiments.tasks import MAX_RUNS, N_INITIALISATIONS

    found = find_experiments(name)
    if n_runs is not None and not 1 <= n_runs <= MAX_RUNS:
        raise InvalidInputError(
            f"--runs must be from 1 to {MAX_RUNS} ({MAX_RUNS // N_INITIALISATIONS} splits with "
            f"{N_INITIALISATIONS} initialisations each); got {n_runs}."
        )
    for one in datasets:
        find_entry(one)
    if name not in GROUPS:
        _check_used(found[0], datasets, methods, n_runs)
    return [
        experiment.narrowed(
            datasets=[one for one in CATALOG if one in datasets],
            methods=[one.name for one in find_methods(methods)],
            n_runs=min(n_runs, experiment.n_runs) if n_runs and name in GROUPS else n_runs,
        )
        for experiment in found
    ]


def _check_used(
    experiment: Experiment, datasets: list[str], methods: list[str], n_runs: int | None
) -> None:
    """Raise where a choice would change nothing, rather than leave the user in the dark."""
    unused = []
    if not experiment.has_runs:
        unused += ["--method"] * bool(methods) + ["--runs"] * (n_runs is not None)
    if experiment.kind == "characteristics" and datasets:
        unused.append("--dataset")
    if unused:
        raise InvalidInputError(
            f"{' and '.join(unused)} would change nothing: {experiment.name} tells "
            f"{experiment.title[0].lower()}{experiment.title[1:]}, and trains nothing for it. "
            "Leave that out, or name another experiment."
        )


def _load(experiments: list[Experiment], data_dir: Path | None) -> dict[str, Dataset]:
    from proptrain.data.catalog import load_dataset

    names = dict.fromkeys(name for experiment in experiments for name in experiment.datasets)
    return {name: load_dataset(name, data_dir) for name in names}


def _show(experiments: list[Experiment], done: list[Run], datasets: Mapping[str, Dataset]) -> None:
    from proptrain.experiments.tables import make_table

    for experiment in experiments:
        table = make_table(experiment, done, datasets)
        rows = [list(row) for row in table.rows]
        print_table(table.title, list(table.header), rows, n_labels=table.n_labels)
        for note in table.notes:
            say(note)


def _show_failures(failures: Sequence[Failure]) -> None:
    if failures:
        say(f"Failed: {counted(len(failures), 'run')}. The same command tries again.")
    for failure in failures:
        say(f"- {failure.task}: {failure.reason}")


def _print_results(
    experiments: list[Experiment],
    done: list[Run],
    datasets: Mapping[str, Dataset],
    work: FolderRuns,
    files: list[str],
) -> None:
    failed = [{"run": str(one.task), "reason": one.reason} for one in work.failures]
    counts = {"runs": len(done), "new": work.n_new, "failed": failed}
    print_json({**counts, **_results(experiments, done, datasets), "files": files})


def _results(
    experiments: list[Experiment], done: list[Run], datasets: Mapping[str, Dataset]
) -> dict[str, Any]:
    """Return for machines what is shown: tables as they are, and accuracies as numbers."""
    from proptrain.experiments.summary import summarise
    from proptrain.experiments.tables import make_table
    from proptrain.experiments.tasks import runs_of

    tables, accuracies = [], []
    for experiment in experiments:
        tables.append(
            {"experiment": experiment.name, **asdict(make_table(experiment, done, datasets))}
        )
        own = runs_of(experiment, done) if experiment.has_runs else []
        for dataset, point in product(experiment.datasets, experiment.points or (None,)):
            cell = [run for run in own if run.dataset == dataset and point in (None, run.point)]
            axis = "labels_per_class" if experiment.labels != (None,) else "noise"
            named = {"experiment": experiment.name, "dataset": dataset, axis: point}
            accuracies += [
                {**named, "method": summary.method, **summary.to_json()}
                for summary in summarise(cell)
            ]
    names = [experiment.name for experiment in experiments]
    return {"experiments": names, "accuracies": accuracies, "tables": tables}
