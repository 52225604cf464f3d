"""A sparse matrix transposed, part by part of its rows, for products that are made many times.

matrixᵀ @ dense adds up rows of ``dense`` that lie all over it. In parts of so few rows that the
nearest cache has room for them, each number of the product is read and written once a part and not
once an entry, and all in the same order: the bits are those of adding row after row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

ROWS_OF_A_PART = 1 << 11
"""Of 64 columns in single precision so many rows have 512 KB: a core's second cache has them. It is
a multiple of `rows_of_a_sum`, so that no group of a sum is in two parts."""
_FEWEST_AT_A_TIME = 2
"""Entries of a part that are added to a row of the product, on the mean: with fewer, nothing is won
that pays for reading rows from the cache."""


@dataclass(frozen=True, eq=False)
class RowPart:
    """Some rows of a matrix, transposed: for each column with an entry there, its entries."""

    rows: slice
    targets: NDArray[np.integer]
    """The columns that have an entry in these rows, ascending: (k,)."""
    starts: NDArray[np.integer]
    """Where each one's entries begin, and the end of the last one's: (k + 1,)."""
    sources: NDArray[np.integer]
    """The row of each entry, counted from the part's first: (e,)."""
    data: NDArray[Any]
    """The number of each entry: (e,)."""


TransposedParts: TypeAlias = tuple[RowPart, ...]
"""All rows of a matrix, in their order."""


def transposed_parts(matrix: sp.csr_array) -> TransposedParts | None:
    """Return a matrix (n, m) transposed part by part; None if that would win nothing.

    >>> parts = transposed_parts(sp.csr_array(np.array([[0.0, 2.0], [0.0, 3.0]])))
    >>> [(part.targets.tolist(), part.sources.tolist(), part.data.tolist()) for part in parts]
    [([1], [0, 1], [2.0, 3.0])]
    """
    parts = tuple(_parts(matrix))
    n_targets = sum(len(part.targets) for part in parts)
    return parts if matrix.nnz >= _FEWEST_AT_A_TIME * n_targets else None


def _parts(matrix: sp.csr_array) -> Iterator[RowPart]:
    short = matrix.indices.dtype
    for start in range(0, matrix.shape[0], ROWS_OF_A_PART):
        rows = slice(start, min(start + ROWS_OF_A_PART, matrix.shape[0]))
        columns = sp.csc_array(matrix[rows])  # the entries of a column in the order of the rows
        n_entries = np.diff(columns.indptr)
        targets = np.flatnonzero(n_entries)
        starts = np.append(columns.indptr[targets], columns.nnz)
        yield RowPart(
            rows,
            targets.astype(short),
            starts.astype(matrix.indptr.dtype),
            columns.indices.astype(short),
            columns.data,
        )
