"""The process that does the runs. Until it has one to do, it imports next to nothing."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from dataclasses import replace
from functools import cache
from multiprocessing import connection, parent_process
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from proptrain.data.dataset import Dataset
    from proptrain.experiments.protocol import Run
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
        except Exception:
            tasks.send(traceback.format_exc())


def run_task(task: Task, data_dir: str | None) -> Run:
    """Do one run by the paper's protocol for its data set."""
    from proptrain.data.catalog import find_entry
    from proptrain.experiments.methods import METHODS
    from proptrain.experiments.protocol import Protocol, run_once

    if task.timed:
        _warm_up(task.method)
    entry = find_entry(task.dataset)
    per_class = 20 if task.labels_per_class is None else task.labels_per_class
    run, _ = run_once(
        _load(task.dataset, data_dir),
        METHODS[task.method],
        Protocol(n_known=entry.n_known, alpha=entry.alpha, per_class=per_class),
        task.split_seed,
        task.init_seed,
        steps=task.steps,
        noise_kind=task.noise_kind,
        noise=task.noise,
    )
    return replace(
        run,
        experiment=task.experiment,
        labels_per_class=task.labels_per_class,
        timed=task.timed,
    )


@cache
def _load(name: str, data_dir: str | None) -> Dataset:
    from proptrain.data.catalog import load_dataset

    return load_dataset(name, data_dir)


@cache
def _warm_up(method: str) -> None:
    """Run a method once, so that loading compiled code counts in nobody's time."""
    from proptrain.data.splits import TEST_SEEDS
    from proptrain.experiments.tasks import Task

    run_task(Task("cora", method, TEST_SEEDS[0], init_seed=0), None)


def _die_with_parent() -> None:
    """Leave at once when the parent is gone: nobody would read the result."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
