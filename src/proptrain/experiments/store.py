"""The raw results of a folder: one JSON line a run, safe at every moment."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from proptrain.errors import FileFormatError, UnreadableFileError, UnwritableOutputError
from proptrain.experiments.protocol import Run
from proptrain.experiments.tasks import Task, task_of
from proptrain.files import unwritable_is_ours

if sys.platform != "win32":
    import fcntl

FILE_NAME = "runs.jsonl"


class RunStore:
    """The runs of a folder by what they did, and the open file that new ones are added to."""

    def __init__(self, path: Path, file: BinaryIO, runs: dict[Task, Run]) -> None:
        self.path = path
        self.runs = runs
        self._file = file

    def add(self, run: Run) -> None:
        """Write a run; when this returns, it is on the disk."""
        with unwritable_is_ours(self.path):
            self._file.write(json.dumps(run.to_json()).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        self.runs.setdefault(task_of(run), run)


@contextmanager
def open_store(folder: str | Path) -> Iterator[RunStore]:
    """Open the results of a folder for this process alone; the folder is made if need be.

    A last line that was cut off, because a process was killed while writing it, is dropped.
    """
    path = Path(folder) / FILE_NAME
    _check_ordinary(path)
    with unwritable_is_ours(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    with file:
        _lock(file, path)
        file.seek(0)
        content = _whole_lines(file.read())
        runs = _read_lines(content, path)
        with unwritable_is_ours(path):
            file.truncate(len(content))
        yield RunStore(path, file, runs)


def read_runs(path: str | Path) -> list[Run]:
    """Read a file of raw results, each run once, in the order in which they were made."""
    path = Path(path)
    _check_ordinary(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnreadableFileError(
            f"Cannot read {path}: {error.strerror or error}. It must be a file of raw results, as "
            "`proptrain reproduce` writes it."
        ) from error
    return list(_read_lines(_whole_lines(content), path).values())


def _check_ordinary(path: Path) -> None:
    """Raise for a device or pipe, which may never end."""
    if path.exists() and not path.is_file():
        raise UnreadableFileError(f"{path} must be an ordinary file. Name another folder.")


def _lock(file: BinaryIO, path: Path) -> None:
    if sys.platform == "win32":  # nothing there keeps a second process away
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, however it ends
    except BlockingIOError as error:
        raise UnwritableOutputError(
            f"{path} is being written by another process. Wait for it, or name another folder."
        ) from error
    except OSError as error:
        raise UnwritableOutputError(
            f"{path} cannot be kept from other processes: {error.strerror or error}. Some network "
            "disks cannot do that: name a folder on a disk of this machine."
        ) from error


def _whole_lines(content: bytes) -> bytes:
    """Return the content without a last line that was cut off."""
    return content[: content.rfind(b"\n") + 1]


def _read_lines(content: bytes, path: Path) -> dict[Task, Run]:
    """Read whole lines; of two runs of one task the first counts."""
    runs: dict[Task, Run] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            run = Run.from_json(json.loads(line))
        except ValueError as error:
            raise FileFormatError(
                f"Line {number} of {path} is not a run: {str(error).rstrip('.')}. Remove the "
                "line, or name another folder."
            ) from error
        runs.setdefault(task_of(run), run)
    return runs
