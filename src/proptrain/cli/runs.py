"""The runs of a folder: those that it has, and those that it lacks, which are made in sight."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from proptrain.cli.console import notes, say
from proptrain.cli.workload import tell_runs
from proptrain.experiments.grid import counted

if TYPE_CHECKING:
    from proptrain.data.dataset import Dataset
    from proptrain.experiments.protocol import Run
    from proptrain.experiments.runner import Failure
    from proptrain.experiments.store import RunStore
    from proptrain.experiments.tasks import Task


@dataclass(frozen=True)
class FolderRuns:
    """What a folder holds, and what was done for it this time."""

    found: Mapping[Task, Run]
    n_new: int = 0
    failures: Sequence[Failure] = ()


def read_folder(out: Path) -> FolderRuns:
    """Read the folder, even while another process adds to it."""
    from proptrain.experiments.store import FILE_NAME, read_runs
    from proptrain.experiments.tasks import task_of

    return FolderRuns({task_of(run): run for run in read_runs(out / FILE_NAME)})


def complete_folder(
    out: Path,
    tasks: list[Task],
    workers: int | None,
    datasets: Mapping[str, Dataset],
    data_dir: Path | None,
    *,
    quiet: bool,
    force: bool,
) -> FolderRuns:
    """Do the runs that the folder lacks, having said how long they take."""
    from proptrain.experiments.store import open_store
    from proptrain.experiments.versions import count_cores
    from proptrain.workload import time_in_words

    n_workers = workers or count_cores()
    with open_store(out) as store:
        left = [task for task in tasks if task not in store.runs]
        if not quiet:
            n_done = len(tasks) - len(left)
            say(f"{counted(len(tasks), 'run')}: {n_done:,} done, {len(left):,} left")
            _tell_other_code([store.runs[task] for task in tasks if task in store.runs])
        done = store.runs.values()
        guess = tell_runs(left, done, datasets, n_workers, quiet=quiet, force=force)
        start = time.monotonic()
        try:
            with _Progress(store, left, n_workers, guess, quiet=quiet) as progress:
                failures = _add_runs(store, left, n_workers, data_dir, progress)
        except KeyboardInterrupt:
            n_left = sum(task not in store.runs for task in tasks)
            say(f"Stopped with {counted(n_left, 'run')} left. The same command goes on from here.")
            raise SystemExit(130) from None  # what shells say of a program that Ctrl-C ended
        if left and not quiet:
            took = time_in_words(time.monotonic() - start)
            say(f"{counted(len(left), 'run')} took {took} with {counted(n_workers, 'worker')}")
    return FolderRuns(store.runs, len(left) - len(failures), failures)


def _tell_other_code(kept: list[Run]) -> None:
    """Say so if the runs of before and those to come do not belong together."""
    from proptrain.experiments.versions import code_digest

    if n_other := sum(run.code != code_digest() for run in kept):
        say(
            f"Kept, though made by another state of the code or other packages: "
            f"{counted(n_other, 'run')}. Name another folder to start afresh."
        )


def _add_runs(
    store: RunStore, left: list[Task], n_workers: int, data_dir: Path | None, progress: _Progress
) -> list[Failure]:
    """Do the runs and write each as it is done; returns those that failed."""
    from proptrain.experiments.runner import Failure, run_tasks
    from proptrain.experiments.tasks import task_of

    failures = []
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

    def __init__(
        self,
        store: RunStore,
        left: list[Task],
        n_workers: int,
        guess: Callable[[Task], float],
        *,
        quiet: bool,
    ) -> None:
        from proptrain.experiments.versions import count_cores

        self._store, self._n_workers, self._guess = store, min(n_workers, count_cores()), guess
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
        seconds = remaining_seconds(self._left, done, n_workers=self._n_workers, guess=self._guess)
        told = f"about {timedelta(seconds=round(seconds))} left"
        self._bar.update(self._shown, remaining=told)
