"""Files of JSON lines that grow line by line, and are whole at every moment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

from proptrain.errors import FileFormatError, UnreadableFileError, UnwritableOutputError
from proptrain.system.files import keep_others_away, kind_at, unwritable_is_ours
from proptrain.system.reading import read_rest, read_whole

Parsed = TypeVar("Parsed")


class LineFile:
    """An open file that lines are added to."""

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path = path
        self._file = file

    def add(self, content: Any) -> None:
        """Write a line; when this returns, it is on the disk."""
        with unwritable_is_ours(self.path):
            size = os.fstat(self._file.fileno()).st_size
            try:
                _write_all(self._file, json.dumps(content).encode() + b"\n")
                os.fsync(self._file.fileno())
            except OSError:  # a full disk: no half of a line shall stay
                self._file.truncate(size)
                raise


@contextmanager
def open_lines(
    path: Path, parse: Callable[[bytes], Parsed], beginning: bytes
) -> Iterator[tuple[LineFile, Parsed]]:
    """Open a file for this process alone, and yield it with what ``parse`` makes of its lines.

    Each line begins with ``beginning``. A last one that was cut off, because a process was killed
    while writing it, is dropped.
    """
    _check_ordinary(path)
    with unwritable_is_ours(path):
        # Without a buffer, whose rest would be written once more when the file is closed.
        file = path.open("a+b", buffering=0)
    with file:
        _lock(file, path)
        file.seek(0)
        parsed, n_whole = _parse_whole(read_rest(file, path), path, parse, beginning)
        with unwritable_is_ours(path):
            file.truncate(n_whole)
        yield LineFile(path, file), parsed


def read_lines(path: Path, parse: Callable[[bytes], Parsed], beginning: bytes, what: str) -> Parsed:
    """Return what ``parse`` makes of the lines of a file, which ought to be what it is called."""
    _check_ordinary(path)
    try:
        content = read_whole(path)
    except OSError as error:
        raise UnreadableFileError(
            f"Cannot read {path}: {error.strerror or error}. It must be {what}."
        ) from error
    return _parse_whole(content, path, parse, beginning)[0]


def _write_all(file: FileIO, content: bytes) -> None:
    while content:
        content = content[file.write(content) :]


def _parse_whole(
    content: bytes, path: Path, parse: Callable[[bytes], Parsed], beginning: bytes
) -> tuple[Parsed, int]:
    """Parse all but a last line that was cut off, if it is one of ours; tell how long that is."""
    whole = content[: content.rfind(b"\n") + 1]
    parsed, cut_off = parse(whole), content[len(whole) :]
    if not cut_off.startswith(beginning[: len(cut_off)]):
        raise FileFormatError(
            f"The last line of {path} is not of proptrain's making and would be lost. Name another."
        )
    return parsed, len(whole)


def _check_ordinary(path: Path) -> None:
    """Raise for a device or pipe, which may never end."""
    if kind_at(path) in ("folder", "other"):
        raise UnreadableFileError(f"{path} must be an ordinary file. Name another.")


def _lock(file: FileIO, path: Path) -> None:
    try:
        keep_others_away(file, path)
    except UnwritableOutputError:
        raise
    except OSError as error:
        raise UnwritableOutputError(
            f"{path} cannot be kept from other processes: {error.strerror or error}. Some network "
            "disks cannot do that: name one on a disk of this machine."
        ) from error
