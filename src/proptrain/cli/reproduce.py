"""proptrain reproduce: the paper's tables and figures, run after run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from proptrain.cli.console import JsonOption, notes, print_json, print_table, say
from proptrain.cli.data import DataDirOption
from proptrain.cli.pages import write_pages
from proptrain.errors import InvalidInputError
from proptrain.experiments.grid import counted

if TYPE_CHECKING:
    from proptrain.data.dataset import Dataset
    from proptrain.experiments.protocol import Run
    from proptrain.experiments.runner import Failure
    from proptrain.experiments.specs import Experiment
    from proptrain.experiments.store import RunStore
    from proptrain.experiments.tasks import Task

NameArgument = Annotated[
    str,
    typer.Argument(
        help="table2 … table8, structure-noise, structure-noise-pta, label-noise, initialisation, "
        "systems (that the paper's tables leave out), readings (of what the paper leaves open), or "
        "all."
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
        help="Runs of each method on each data set, 1 to 100; with `all`, no more than each "
        "experiment has by itself. \\[default: the experiment's number]"
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
    json: JsonOption = False,
) -> None:
    """Run an experiment of the paper and set its numbers beside the paper's.

    Each run is written to OUT/runs.jsonl as soon as it is done. Stop it whenever you like: the
    same command goes on where it stopped, and experiments in one folder share their runs.

    Two experiments are not the paper's: systems has those that its tables leave out, and readings
    compares, on validation nodes only, what its text leaves open.

    Examples: proptrain reproduce table5 --runs 20;
    proptrain reproduce label-noise --dataset cora_ml --method PTA --method PTS
    """
    # Now, not when the pages are due: an edit may have broken it after a day of runs.
    import proptrain.report.reproduction  # noqa: F401
    from proptrain.data.catalog import load_dataset
    from proptrain.experiments.store import FILE_NAME, read_runs
    from proptrain.experiments.tasks import list_tasks, task_of
    from proptrain.experiments.versions import count_cores

    experiments = _choose(name, dataset or [], method or [], runs)
    # What is missing is fetched, and what is broken is told, before any run.
    names = dict.fromkeys(one for experiment in experiments for one in experiment.datasets)
    datasets = {one: load_dataset(one, data_dir) for one in names}
    tasks = list_tasks(experiments)
    failures: list[Failure] = []
    if as_is:  # even while another process adds to it
        found = {task_of(run): run for run in read_runs(out / FILE_NAME)}
        n_new = 0
    else:
        n_workers = workers or count_cores()
        found, n_new, failures = _complete(out, tasks, n_workers, data_dir, quiet=json)
    pages = write_pages(experiments, found, datasets, out, data_dir)
    done = [found[task] for task in tasks if task in found]
    files = [str(path) for path in [out / FILE_NAME, *pages]]
    if json:
        failed = [{"run": str(one.task), "reason": one.reason} for one in failures]
        counts = {"runs": len(done), "new": n_new, "failed": failed}
        print_json({**counts, **_results(experiments, done, datasets), "files": files})
    else:
        _show(experiments, done, datasets)
        say(f"written: {', '.join(files)}")
        _show_failures(failures)
    if failures:
        raise SystemExit(1)


def _choose(
    name: str, datasets: list[str], methods: list[str], n_runs: int | None
) -> list[Experiment]:
    """Return the experiments with the user's choices in them, all of which can be run."""
    from proptrain.data.catalog import CATALOG, find_entry
    from proptrain.experiments.methods import find_methods
    from proptrain.experiments.specs import find_experiments
    from proptrain.experiments.tasks import MAX_RUNS, N_INITIALISATIONS

    found = find_experiments(name)
    if n_runs is not None and not 1 <= n_runs <= MAX_RUNS:
        raise InvalidInputError(
            f"--runs must be from 1 to {MAX_RUNS} ({MAX_RUNS // N_INITIALISATIONS} splits with "
            f"{N_INITIALISATIONS} initialisations each); got {n_runs}."
        )
    for one in datasets:
        find_entry(one)
    if name != "all":
        _check_used(found[0], datasets, methods, n_runs)
    return [
        experiment.narrowed(
            datasets=[one for one in CATALOG if one in datasets],
            methods=[one.name for one in find_methods(methods)],
            n_runs=min(n_runs, experiment.n_runs) if n_runs and name == "all" else n_runs,
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


def _complete(
    out: Path, tasks: list[Task], n_workers: int, data_dir: Path | None, *, quiet: bool
) -> tuple[dict[Task, Run], int, list[Failure]]:
    """Do the runs that the folder lacks; returns all its runs, how many are new, what failed."""
    from proptrain.experiments.store import open_store

    with open_store(out) as store:
        left = [task for task in tasks if task not in store.runs]
        if not quiet:
            n_done = len(tasks) - len(left)
            say(f"{counted(len(tasks), 'run')}: {n_done:,} done, {len(left):,} left")
            _tell_other_code([store.runs[task] for task in tasks if task in store.runs])
        try:
            failures = _add_runs(store, left, n_workers, data_dir, quiet=quiet)
        except KeyboardInterrupt:
            n_left = sum(task not in store.runs for task in tasks)
            say(f"Stopped with {counted(n_left, 'run')} left. The same command goes on from here.")
            raise SystemExit(130) from None  # what shells say of a program that Ctrl-C ended
    return store.runs, len(left) - len(failures), failures


def _tell_other_code(kept: list[Run]) -> None:
    """Say so if the runs of before and those to come do not belong together."""
    from proptrain.experiments.versions import code_digest

    if n_other := sum(run.code != code_digest() for run in kept):
        say(
            f"Kept, though made by another state of the code or other packages: "
            f"{counted(n_other, 'run')}. Name another folder to start afresh."
        )


def _add_runs(
    store: RunStore, left: list[Task], n_workers: int, data_dir: Path | None, *, quiet: bool
) -> list[Failure]:
    """Do the runs and write each as it is done; returns those that failed."""
    from proptrain.experiments.runner import Failure, run_tasks
    from proptrain.experiments.tasks import task_of

    failures = []
    with _Progress(store, left, n_workers, quiet=quiet) as progress:
        new = run_tasks(left, n_workers=n_workers, data_dir=data_dir, on_start=progress.on_start)
        with closing(new):
            for result in new:
                if isinstance(result, Failure):
                    failures.append(result)
                    progress.on_end(result.task)
                else:
                    store.add(result)
                    progress.on_end(task_of(result))
    return failures


class _Progress:
    """A bar on standard error: what is running, how much is done, how long the rest will take."""

    def __init__(self, store: RunStore, left: list[Task], n_workers: int, *, quiet: bool) -> None:
        self._store, self._n_workers = store, n_workers
        self._left = dict.fromkeys(left)
        self._running: list[Task] = []
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[remaining]}", markup=False),
            console=notes,
            transient=True,
            disable=quiet,
        )
        self._shown = self._bar.add_task("starting", total=len(left), remaining="")

    def __enter__(self) -> Self:
        self._bar.start()
        self._show_remaining()  # from runs of before, if there are any
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def on_start(self, task: Task) -> None:
        self._running.append(task)
        self._show_running()

    def on_end(self, task: Task) -> None:
        self._running.remove(task)
        del self._left[task]
        self._bar.advance(self._shown)
        self._show_running()
        self._show_remaining()

    def _show_running(self) -> None:
        names = ", ".join(f"{task.method} on {task.dataset}" for task in self._running)
        self._bar.update(self._shown, description=names)

    def _show_remaining(self) -> None:
        from proptrain.experiments.remaining import remaining_seconds

        done = self._store.runs.values()
        seconds = remaining_seconds(self._left, done, n_workers=self._n_workers)
        if seconds is not None:
            told = f"about {timedelta(seconds=round(seconds))} left"
            self._bar.update(self._shown, remaining=told)


def _show_failures(failures: list[Failure]) -> None:
    if failures:
        say(f"Failed: {counted(len(failures), 'run')}. The same command tries again.")
    for failure in failures:
        say(f"- {failure.task}: {failure.reason}")


def _show(experiments: list[Experiment], done: list[Run], datasets: Mapping[str, Dataset]) -> None:
    from proptrain.experiments.tables import make_table

    for experiment in experiments:
        table = make_table(experiment, done, datasets)
        rows = [list(row) for row in table.rows]
        print_table(table.title, list(table.header), rows, n_labels=table.n_labels)
        for note in table.notes:
            say(note)


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
        for dataset, rate in product(experiment.datasets, experiment.rates):
            cell = [run for run in own if run.dataset == dataset and rate in (None, run.noise)]
            named = {"experiment": experiment.name, "dataset": dataset, "noise": rate}
            accuracies += [
                {**named, "method": summary.method, **summary.to_json()}
                for summary in summarise(cell)
            ]
    names = [experiment.name for experiment in experiments]
    return {"experiments": names, "accuracies": accuracies, "tables": tables}
