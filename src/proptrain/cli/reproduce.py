"""proptrain reproduce: the paper's tables and figures, run after run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from proptrain.cli.console import JsonOption, notes, print_json, print_table, say
from proptrain.cli.data import DataDirOption
from proptrain.errors import InvalidInputError, ProptrainError

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
    command = _command(name, dataset or [], method or [], runs)
    files = _write_pages(experiments, found, datasets, command, out, data_dir)
    done = [found[task] for task in tasks if task in found]
    if json:
        counts = {"runs": len(done), "new": n_new}
        chosen = [experiment.name for experiment in experiments]
        failed = [{"run": str(one.task), "reason": one.reason} for one in failures]
        paths = [str(path) for path in files]
        print_json({"experiments": chosen, **counts, "failed": failed, "files": paths})
    else:
        _show(experiments, done, datasets)
        say("written: " + ", ".join(str(path) for path in [out / FILE_NAME, *files]))
        _show_failures(failures)
    if failures:
        raise SystemExit(1)


def _command(name: str, datasets: list[str], methods: list[str], n_runs: int | None) -> str:
    """Return the command that gives the same numbers elsewhere: without folders and workers."""
    words = ["proptrain", "reproduce", name]
    words += [word for one in datasets for word in ("--dataset", one)]
    words += [word for one in methods for word in ("--method", one)]
    words += [] if n_runs is None else ["--runs", str(n_runs)]
    return shlex.join(words)


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
            say(f"{len(tasks):,} runs: {n_done:,} are done, {len(left):,} are left")
            _tell_other_code([store.runs[task] for task in tasks if task in store.runs])
        try:
            failures = _add_runs(store, left, n_workers, data_dir, quiet=quiet)
        except KeyboardInterrupt:
            n_left = sum(task not in store.runs for task in tasks)
            say(f"Stopped with {n_left:,} runs left. The same command goes on from here.")
            raise SystemExit(130) from None  # what shells say of a program that Ctrl-C ended
    return store.runs, len(left) - len(failures), failures


def _tell_other_code(kept: list[Run]) -> None:
    """Say so if the runs of before and those to come do not belong together."""
    from proptrain.experiments.versions import code_digest

    if n_other := sum(run.code != code_digest() for run in kept):
        say(
            f"{n_other:,} runs were made by another state of the code or other packages; they are "
            "kept. Name another folder to start afresh."
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


def _write_pages(
    chosen: list[Experiment],
    found: Mapping[Task, Run],
    datasets: Mapping[str, Dataset],
    command: str,
    out: Path,
    data_dir: Path | None,
) -> list[Path]:
    """Write the pages: the chosen experiments, and the others that the folder has runs of."""
    from proptrain.experiments.tasks import list_tasks
    from proptrain.experiments.versions import count_codes, versions
    from proptrain.report.reproduction import write_reproduction

    others = _others(chosen, found)
    done = [found[task] for task in list_tasks([*chosen, *others]) if task in found]
    codes = {"code of the runs": count_codes(done)} if done else {}
    return write_reproduction(
        _in_their_order([*chosen, *others]),
        done,
        out,
        versions={**versions(), **codes},
        command="\n".join([command, *(_command(one.name, [], [], None) for one in others)]),
        datasets={**_graphs_of(others, done, data_dir), **datasets},
    )


def _others(chosen: list[Experiment], found: Mapping[Task, Run]) -> list[Experiment]:
    """Return the experiments that runs of the folder were made for, or that are complete in it.

    Some runs alone are not enough: most experiments share some, and nobody asked for them.
    """
    from proptrain.experiments.specs import EXPERIMENTS
    from proptrain.experiments.tasks import list_tasks

    names = {experiment.name for experiment in chosen}
    asked_for = {run.experiment for run in found.values()}
    return [
        experiment
        for name, experiment in EXPERIMENTS.items()
        if name not in names and experiment.has_runs
        if name in asked_for or found.keys() >= set(list_tasks([experiment]))
    ]


def _in_their_order(experiments: list[Experiment]) -> list[Experiment]:
    from proptrain.experiments.specs import EXPERIMENTS

    names = list(EXPERIMENTS)
    return sorted(experiments, key=lambda experiment: names.index(experiment.name))


def _graphs_of(
    experiments: list[Experiment], done: list[Run], data_dir: Path | None
) -> dict[str, Dataset]:
    """Load the data sets whose own rate of noise the experiments' figures show."""
    from proptrain.data.catalog import load_dataset

    noisy = [experiment for experiment in experiments if experiment.noise == "structure"]
    wanted = {name for experiment in noisy for name in experiment.datasets}
    datasets = {}
    for name in sorted(wanted & {run.dataset for run in done}):
        with suppress(ProptrainError):  # nobody asked for it: a page without it will do
            datasets[name] = load_dataset(name, data_dir, download=False)
    return datasets


def _show_failures(failures: list[Failure]) -> None:
    if failures:
        say(f"{len(failures):,} runs failed; the same command tries them again:")
    for failure in failures:
        say(f"- {failure.task}: {failure.reason}")


def _show(experiments: list[Experiment], done: list[Run], datasets: Mapping[str, Dataset]) -> None:
    from proptrain.experiments.tables import make_table

    for experiment in experiments:
        table = make_table(experiment, done, datasets)
        print_table(table.title, list(table.header), [list(row) for row in table.rows])
        for note in table.notes:
            say(note)
