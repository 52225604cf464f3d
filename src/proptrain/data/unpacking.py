"""Packed files from strangers: unpacked as far as a file of such a size can be meant to grow."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from proptrain.errors import FileFormatError

LARGE, MOST_TIMES = 1 << 26, 100
"""What is larger than 64 MB may have been compressed to a hundredth, not to less."""
LARGE_TEXT, MOST_TIMES_TEXT = 1 << 24, 50
"""Text of more than 16 MB to a fiftieth: a parser makes more than ten times as much in memory."""
_AT_ONCE = 1 << 17
"""Bytes that are unpacked at a time."""


def check_growth(
    name: str,
    n_packed: int,
    n_unpacked: int,
    advice: str,
    *,
    large: int = LARGE,
    times: int = MOST_TIMES,
) -> None:
    """Raise for what is small and would fill the memory, or the disk, when unpacked.

    >>> check_growth("features.npy", 10**6, 90 * 10**6, "Save it sparse.")
    """
    if n_unpacked > max(large, times * n_packed):
        raise FileFormatError(
            f"{name} would grow from {n_packed:,} bytes to {n_unpacked:,} or more, as in an "
            "archive that was made to fill the memory, and is not unpacked. If it is your own: "
            f"{advice}"
        )


@contextmanager
def unpacking(packed: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """Give what a file holds, unpacked as one reads if its name ends in .gz.

    A parser that meets the limit may say anything; who uses this is told of the limit.
    """
    if not name.lower().endswith(".gz"):
        yield packed
        return
    growing = _Growing(packed, name)
    try:
        yield io.BufferedReader(growing, _AT_ONCE)
    except Exception:
        if growing.refusal is not None:
            raise growing.refusal from None
        raise


def check_unpacked(path: Path) -> None:
    """Raise for a file that would grow too much when unpacked; nothing of it is kept."""
    if path.name.lower().endswith(".gz"):
        with path.open("rb") as packed, unpacking(packed, path.name) as unpacked:
            while unpacked.read(_AT_ONCE):
                pass


class _Growing(io.RawIOBase):
    """Unpacks gzip and counts; reading fails once there is far more than a file can hold."""

    def __init__(self, packed: BinaryIO, name: str) -> None:
        super().__init__()
        self._name, self._n_packed, self._n_unpacked = name, packed.seek(0, io.SEEK_END), 0
        packed.seek(0)
        self._unpacked = gzip.GzipFile(fileobj=packed)
        self.refusal: FileFormatError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        n_read = self._unpacked.readinto(buffer)
        self._n_unpacked += n_read
        sizes = (self._n_packed, self._n_unpacked)
        limits = {"large": LARGE_TEXT, "times": MOST_TIMES_TEXT}
        try:
            check_growth(self._name, *sizes, "unpack it yourself, with gunzip.", **limits)
        except FileFormatError as error:
            self.refusal = error
            raise
        return n_read
