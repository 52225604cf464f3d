"""The process that does the runs. Until it has one to do, it imports next to nothing."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from dataclasses import replace
from functools import cache
from multiprocessing import connection, parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from proptrain.data.dataset import Dataset
    from proptrain.experiments.methods import Make
    from proptrain.experiments.protocol import Protocol, Run
    from proptrain.experiments.tasks import Task

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
"""Environment of a worker: as many workers as cores would otherwise fight over them."""


def serve(tasks: Connection, data_dir: str | None) -> None:
    """Do task after task as they come in, and send back a run or what went wrong, as text."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_die_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            task = tasks.recv()
        except EOFError:  # the parent has no more of them
            return
        try:
            tasks.send(run_task(task, data_dir))
        except Exception as error:
            tasks.send(_told(error))


def _told(error: Exception) -> str:
    """Say what went wrong and where, in one line."""
    what = " ".join("".join(traceback.format_exception_only(error)).split())
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{what} ({Path(where.filename).name}, line {where.lineno})"


def run_task(task: Task, data_dir: str | None) -> Run:
    """Do one run by the paper's protocol for its data set."""
    from proptrain.experiments.methods import METHODS
    from proptrain.experiments.protocol import run_once

    if task.timed:
        _warm_up(task.method, task.dataset, data_dir)
    run, _ = run_once(
        _load(task.dataset, data_dir),
        METHODS[task.method],
        _protocol(task),
        task.split_seed,
        task.init_seed,
        steps=task.steps,
        noise_kind=task.noise_kind,
        noise=task.noise,
        labels_alone=task.labels_alone,
    )
    return replace(run, experiment=task.experiment, timed=task.timed)


def _protocol(task: Task) -> Protocol:
    from proptrain.data.catalog import find_entry
    from proptrain.experiments.protocol import Protocol
    from proptrain.experiments.tasks import LABELS_PER_CLASS

    entry = find_entry(task.dataset)
    return Protocol(
        n_known=entry.n_known,
        alpha=entry.alpha if task.alpha is None else task.alpha,
        per_class=task.labels_per_class or LABELS_PER_CLASS,
        for_tuning=task.validation,
    )


@cache
def _load(name: str, data_dir: str | None) -> Dataset:
    from proptrain.data.catalog import load_dataset

    return load_dataset(name, data_dir)


@cache
def _warm_up(method: str, dataset: str, data_dir: str | None) -> None:
    """Train a method for two epochs, so that getting compiled code ready counts in nobody's time.

    On the data set itself: some code is compiled for a number of classes.
    """
    from proptrain.data.splits import TEST_SEEDS
    from proptrain.experiments.methods import METHODS
    from proptrain.experiments.protocol import run_once
    from proptrain.experiments.tasks import Task

    brief = replace(METHODS[method], make=_briefly(METHODS[method].make))
    task = Task(dataset, method, TEST_SEEDS[0], init_seed=0)
    run_once(_load(dataset, data_dir), brief, _protocol(task), task.split_seed, task.init_seed)


def _briefly(make: Make) -> Make:
    """Make the same classifier, but for two epochs; one without epochs stays as it is."""

    def make_brief(*, alpha: float, steps: int, seed: int) -> Any:
        classifier = make(alpha=alpha, steps=steps, seed=seed)
        if "max_epochs" in classifier.get_params():
            classifier.set_params(max_epochs=2)
        return classifier

    return make_brief


def _die_with_parent() -> None:
    """Leave at once when the parent is gone: nobody would read the result."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
