"""A sparse matrix transposed, part by part of its rows, for products that are made many times.

matrixᵀ @ dense adds up rows of ``dense`` that lie all over it. In parts of so few rows that a near
cache has room for them, each number of the product is read and written once a part and not once an
entry, and all in the same order: the bits are those of adding row after row.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.kernels.threads import count_threads

_SIZES = (1 << 8, 1 << 9, 1 << 10, 1 << 11)
"""Rows that a part may have. Of 64 columns in single precision the most are 512 KB: a core's second
cache has them. All are multiples of `rows_of_a_sum`, for up to 2^35 rows, so that no group of a sum
is in two parts."""
_ENOUGH_AT_A_TIME = 16
"""Entries of a part that are added to a row of the product, on the mean: with as many, reading and
writing that row counts little, and fewer rows are nearer."""
_FEWEST_AT_A_TIME = 2
"""With fewer, nothing is won that pays for reading rows from the cache."""


@dataclass(frozen=True, eq=False)
class Share:
    """Some columns of the matrix, for a thread of its own, and where their entries are."""

    begins: NDArray[np.int64]
    """Which of the `targets` is the first one of these columns in each part: (parts,)."""
    ends: NDArray[np.int64]
    """And behind the last one: (parts,)."""


@dataclass(frozen=True, eq=False)
class TransposedParts:
    """All rows of a matrix in their order, some at a time, with the entries of each column."""

    size: int
    """How many rows a part has; the last one may have fewer."""
    targets: NDArray[np.integer]
    """The columns that have an entry in a part, ascending, part after part: (k,)."""
    starts: NDArray[np.integer]
    """Where each one's entries begin, and the end of the last one's: (k + 1,)."""
    sources: NDArray[np.uint16]
    """The row of each entry, counted from the part's first: (e,)."""
    data: NDArray[Any]
    """The number of each entry: (e,)."""
    whole: Share
    """All columns."""
    shares: tuple[Share, ...]
    """The same ones, with about equal work for each thread."""


def transposed_parts(matrix: sp.csr_array) -> TransposedParts | None:
    """Return a matrix (n, m) transposed part by part; None if that would win nothing.

    >>> parts = transposed_parts(sp.csr_array(np.array([[0.0, 2.0], [0.0, 3.0]])))
    >>> parts.targets, parts.starts, parts.sources
    (array([1], dtype=int32), array([0, 2], dtype=int32), array([0, 1], dtype=uint16))
    """
    n_rows, n_columns = matrix.shape
    size = _rows_of_a_part(matrix)
    sources, data = np.empty(matrix.nnz, np.uint16), np.empty_like(matrix.data)
    targets, counts = [], []
    for top in range(0, n_rows, size):
        rows = slice(top, min(top + size, n_rows))
        columns = sp.csc_array(matrix[rows])  # the entries of a column in the order of the rows
        entries = slice(matrix.indptr[rows.start], matrix.indptr[rows.stop])
        sources[entries], data[entries] = columns.indices, columns.data
        counts_of_all = np.diff(columns.indptr)
        targets.append(np.flatnonzero(counts_of_all))
        counts.append(counts_of_all[targets[-1]])
    n_targets = sum(map(len, targets))
    if matrix.nnz < _FEWEST_AT_A_TIME * n_targets or not n_targets:
        return None
    n_entries = np.concatenate(counts)
    (whole,) = _shares(targets, n_entries, n_columns, 1)
    return TransposedParts(
        size,
        np.concatenate(targets).astype(matrix.indices.dtype),
        np.append(0, np.cumsum(n_entries)).astype(matrix.indptr.dtype),
        sources,
        data,
        whole,
        _shares(targets, n_entries, n_columns, count_threads()),
    )


def _rows_of_a_part(matrix: sp.csr_array) -> int:
    """Return the least size of a part that has enough entries of a column, or the largest.

    >>> _rows_of_a_part(sp.csr_array(np.eye(100))), _rows_of_a_part(sp.csr_array(np.ones((2, 2))))
    (2048, 256)
    """
    for_each_row = matrix.nnz / max(1, matrix.shape[0] * matrix.shape[1])
    enough = (size for size in _SIZES if size * for_each_row >= _ENOUGH_AT_A_TIME)
    return next(enough, _SIZES[-1])


def _shares(
    targets: list[NDArray[np.int64]], n_entries: NDArray[np.int64], n_columns: int, n_shares: int
) -> tuple[Share, ...]:
    """Cut the columns into so many shares; ``n_entries`` has those of each target."""
    all_targets = np.concatenate(targets)
    # Reading and writing a row of the product is about as much as adding an entry to it.
    work = np.cumsum(np.bincount(all_targets, n_entries + 1, minlength=n_columns))
    inner = np.searchsorted(work, np.linspace(0, work[-1], n_shares + 1)[1:-1])
    cuts = [0, *inner.tolist(), n_columns]
    firsts = np.cumsum([0, *map(len, targets)])[:-1]
    places = [firsts + [np.searchsorted(own, cut) for own in targets] for cut in cuts]
    return tuple(Share(begins, ends) for begins, ends in pairwise(places))
