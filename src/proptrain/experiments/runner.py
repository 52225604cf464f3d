"""Many runs at once, each in a process with one thread."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from proptrain.experiments.protocol import Run
from proptrain.experiments.tasks import Task
from proptrain.experiments.worker import ONE_THREAD, serve

OnStart = Callable[[Task], None]


@dataclass(frozen=True, eq=False)
class _Worker:
    """A process and our end of the pipe to it."""

    process: BaseProcess
    pipe: Connection


@dataclass(frozen=True)
class Failure:
    """A run that was not to be had, and why."""

    task: Task
    reason: str


def run_tasks(
    tasks: Iterable[Task],
    *,
    n_workers: int,
    data_dir: str | Path | None = None,
    on_start: OnStart = lambda _: None,
) -> Generator[Run | Failure, None, None]:
    """Yield each run as it is done, in the order in which they get done.

    Timed runs come last and one at a time. ``on_start`` is called with a task when it is handed
    out. A run that fails, or takes its process with it, is yielded as a failure; the others go on.
    """
    tasks = list(tasks)
    shared, timed = ([task for task in tasks if task.timed is kind] for kind in (False, True))
    yield from _run_together(shared, n_workers, data_dir, on_start)
    yield from _run_together(timed, 1, data_dir, on_start)


def _run_together(
    tasks: list[Task], n_workers: int, data_dir: str | Path | None, on_start: OnStart
) -> Iterator[Run | Failure]:
    waiting = deque(tasks)
    busy: dict[_Worker, Task] = {}

    def hand_out(worker: _Worker) -> None:
        task = busy[worker] = waiting.popleft()
        on_start(task)
        with suppress(ConnectionError):  # it is dead, which receiving will tell
            worker.pipe.send(task)

    with _started_workers(min(n_workers, len(tasks)), data_dir) as workers:
        for worker in workers:
            hand_out(worker)
        while busy:
            ready = connection.wait([worker.pipe for worker in busy])
            for worker in [worker for worker in busy if worker.pipe in ready]:
                result = _receive(worker, busy.pop(worker))
                if waiting:  # and before the result goes on, so that none waits for that
                    alive = worker.process.is_alive()
                    hand_out(worker if alive else _replace(workers, worker, data_dir))
                yield result


def _receive(worker: _Worker, task: Task) -> Run | Failure:
    """Return the run that a worker sends, or what kept it from doing so."""
    try:
        told = worker.pipe.recv()
    except (EOFError, ConnectionError):
        worker.process.join()
        return Failure(
            task,
            f"its process died with exit code {worker.process.exitcode} (-9 is often the lack of "
            "memory: fewer workers need less)",
        )
    if isinstance(told, str):
        return Failure(task, told)
    assert isinstance(told, Run)
    return told


@contextmanager
def _started_workers(number: int, data_dir: str | Path | None) -> Iterator[list[_Worker]]:
    """Start that many workers; they are gone when the block is left, however it is left."""
    workers: list[_Worker] = []
    try:
        for _ in range(number):
            workers.append(_start_worker(data_dir))
        yield workers
    finally:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join()
            worker.pipe.close()


def _replace(workers: list[_Worker], dead: _Worker, data_dir: str | Path | None) -> _Worker:
    """Start a worker in the place of one that died."""
    dead.pipe.close()
    new = workers[workers.index(dead)] = _start_worker(data_dir)
    return new


def _start_worker(data_dir: str | Path | None) -> _Worker:
    # Not forked: torch and Numba may have threads already, and those do not survive a fork.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    folder = None if data_dir is None else str(data_dir)
    process = context.Process(target=serve, args=(theirs, folder), daemon=True)
    with _environment(ONE_THREAD):
        process.start()
    theirs.close()  # or we would never see the end of a worker that dies
    return _Worker(process, ours)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
