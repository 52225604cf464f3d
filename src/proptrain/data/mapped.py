"""Matrices that lie in files and are looked at a part at a time.

Pages of a mapped file count as memory of the process as long as it has them at hand, whether or not
the system could take them back. So whoever walks through a large matrix here reads a part, and has
the pages forgotten before the next: the file's content stays, in the system's cache or on disk.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from proptrain.system.files import unwritable_is_ours

SMALL = 1 << 24
"""Bytes up to which a matrix need not lie in a file, and of a part that is looked at."""

Room: TypeAlias = Callable[[tuple[int, ...], DTypeLike], NDArray[Any]]
"""Makes a matrix of zeros, in memory or in a file."""


def room_for(
    shape: tuple[int, ...],
    dtype: DTypeLike,
    folder: str | Path | None = None,
    *,
    small: int | None = None,
) -> NDArray[Any]:
    """Return zeros to be written to: in memory if they are few, else in a file without a name.

    The file lies in ``folder``, by default where temporary files do (TMPDIR), and is gone with the
    array, however the process ends. Its space is taken at once: a full disk is an error here, where
    later it would be the end of the process.
    """
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size <= (SMALL if small is None else small):
        return np.zeros(shape, dtype)
    place = Path(folder or tempfile.gettempdir())
    with unwritable_is_ours(place), tempfile.TemporaryFile(dir=place) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        return np.memmap(file, dtype, mode="r+", shape=shape)


def write_rows(
    path: Path, shape: tuple[int, ...], dtype: DTypeLike, parts: Iterable[NDArray[Any]]
) -> None:
    """Write an array to a .npy file, some rows at a time.

    Not by mapping the file: a full disk would then end the process instead of being an error.
    """
    dtype = np.dtype(dtype)
    header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for rows in parts:
            file.write(np.ascontiguousarray(rows, dtype=dtype).tobytes())
            forget(rows)


def forget(*arrays: Any) -> None:
    """Let go of the pages of arrays that lie in files; others are left alone."""
    for array in arrays:
        owner = _mapped_one(array)
        # A copy of a mapped array is of its type but has no file; and what was written to
        # a private one ("c") is in no file either.
        pages = getattr(owner, "_mmap", None)
        if pages is not None and owner.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
            pages.madvise(mmap.MADV_DONTNEED)


def _mapped_one(array: Any) -> Any:
    """Return the mapped array that another is a view of, or None."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array


def parts_of(n_rows: int, row_bytes: int, part: int | None = None) -> Iterator[slice]:
    """Cut rows into parts of about so many bytes.

    >>> list(parts_of(5, row_bytes=10, part=20))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, (part or SMALL) // max(1, row_bytes))
    for first in range(0, n_rows, step):
        yield slice(first, min(n_rows, first + step))


def take_rows(matrix: Any, rows: NDArray[np.integer]) -> Any:
    """Return some rows of a matrix, in any order; of one in a file no more is at hand than a part.

    Taken at once, rows from everywhere would have the system bring nearly the whole file to hand.
    """
    if _mapped_one(matrix) is None:
        return matrix[rows]
    picked = np.empty((len(rows), *matrix.shape[1:]), matrix.dtype)
    for some in _in_parts(matrix, rows):
        picked[some] = matrix[rows[some]]
    return picked


def put_rows(matrix: Any, rows: NDArray[np.integer], values: NDArray[Any]) -> None:
    """Write some rows of a matrix, in any order; of one in a file no more is at hand than a part.

    >>> matrix = np.zeros((3, 1))
    >>> put_rows(matrix, np.array([2, 0]), np.array([[5.0], [7.0]]))
    >>> matrix.ravel().tolist()
    [7.0, 0.0, 5.0]
    """
    for some in _in_parts(matrix, rows):
        matrix[rows[some]] = values[some]


def largest_of_rows(matrix: Any, rows: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the column of the largest number (m,) of some rows, in any order.

    Of a matrix in a file no more is at hand than a part of these rows.

    >>> largest_of_rows(np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 0]))
    array([0, 1])
    """
    largest = np.empty(len(rows), dtype=np.intp)
    for some in _in_parts(matrix, rows):
        largest[some] = matrix[rows[some]].argmax(axis=1)
    return largest


def _in_parts(matrix: Any, rows: NDArray[np.integer]) -> Iterator[NDArray[np.intp]]:
    """Yield which of some rows lie in each part of a matrix, and let go of the part afterwards."""
    if not len(rows):
        return
    order = np.argsort(rows, kind="stable")
    part = rows[order] // max(1, SMALL // max(1, matrix.shape[1] * matrix.itemsize))
    for some in np.split(order, np.flatnonzero(np.diff(part)) + 1):
        yield some
        forget(matrix)


def row_sums(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of each row (n,), without having all of the matrix in memory.

    >>> row_sums(np.array([[3.0, 1.0], [0.0, 2.0]]))
    array([4., 2.])
    """
    sums = np.empty(len(matrix), matrix.dtype)
    for rows in parts_of(len(matrix), matrix.shape[1] * matrix.itemsize):
        # NumPy's own sum takes five times as long over rows as short as these.
        sums[rows] = np.einsum("ij->i", matrix[rows])
        forget(matrix)
    return sums
