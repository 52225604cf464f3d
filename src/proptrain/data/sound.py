"""Matrices that are what they say: every entry lies within them, and none is masked."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.errors import InvalidInputError


def sound_matrix(matrix: Any, what: str, error: type[InvalidInputError] = InvalidInputError) -> Any:
    """Return a matrix that can be computed with, or say what is wrong with it.

    SciPy trusts the numbers of rows and columns that it is given, by `load_npz` for instance: wrong
    ones have its products, and ours, read and write memory that is not theirs. What is no SciPy
    sparse matrix is returned as it is, for others to judge, unless some of it is masked.

    >>> damaged = sp.csr_array([[1, 0], [0, 1]])
    >>> damaged.indices[1] = 7
    >>> try:
    ...     sound_matrix(damaged, "Features")
    ... except InvalidInputError as error:
    ...     print(str(error)[:73])
    Features must be a sound sparse matrix, but this one, CSR of shape (2, 2)
    """
    check_unmasked(matrix, what, error)
    if not sp.issparse(matrix) or matrix.ndim != 2:
        return matrix
    if matrix.format in ("lil", "dok"):  # lists and dictionaries, at which SciPy does look
        try:
            return matrix.tocoo().tocsr()
        except (ValueError, TypeError, IndexError, OverflowError) as told:
            fault = f"has rows and columns that SciPy cannot use: {str(told).rstrip('.')}"
    else:
        fault = _FAULTS[matrix.format](matrix)
    if fault:
        raise error(
            f"{what} must be a sound sparse matrix, but this one, {matrix.format.upper()} of shape "
            f"{matrix.shape}, {fault}. It was damaged in a file or in memory: make it anew from "
            "what it was made of."
        )
    return matrix


def check_unmasked(
    values: Any, what: str, error: type[InvalidInputError] = InvalidInputError
) -> None:
    """Raise if entries of an array are masked: NumPy would compute with what lies behind the mask.

    >>> try:
    ...     check_unmasked(np.ma.masked_equal([1, 2], 2), "Edges")
    ... except InvalidInputError as error:
    ...     print(str(error)[:56])
    Edges must have no masked entries, but 1 of 2 is masked.
    """
    n_masked = int(np.sum(mask_of(values)))
    if n_masked:
        raise error(
            f"{what} must have no masked entries, but {n_masked:,} of {values.size:,} "
            f"{'is' if n_masked == 1 else 'are'} masked. Fill them with what is right there, by "
            "values.filled(...), or leave them out."
        )


def mask_of(values: Any) -> Any:
    """Return the mask of NumPy's masked arrays, and for whatever else one that masks nothing.

    `np.ma.getmask` takes any ``_mask`` for one: pandas' arrays have it, and a column may.

    >>> mask_of(np.ma.masked_equal([1, 2], 2)), bool(mask_of([1, 2]))
    (array([False,  True]), False)
    """
    return np.ma.getmask(values) if isinstance(values, np.ma.MaskedArray) else np.ma.nomask


def _fault_of_compressed(matrix: Any) -> str:
    """Say what is wrong with a matrix by rows, columns or blocks; nothing if all is well."""
    height, width = getattr(matrix, "blocksize", (1, 1))
    sizes = (matrix.shape[0] // height, matrix.shape[1] // width)
    n_lines, n_places = sizes[::-1] if matrix.format == "csc" else sizes
    indptr, indices, n_values = matrix.indptr, matrix.indices, len(matrix.data)
    if not (_are_whole(indptr) and _are_whole(indices)):
        return f"has indptr of {indptr.dtype} and indices of {indices.dtype}, not whole numbers"
    if len(indptr) != n_lines + 1:
        return f"has {len(indptr):,} numbers in indptr where {n_lines + 1:,} must be"
    falls = bool((indptr[1:] < indptr[:-1]).any())
    if falls or indptr[0] != 0 or indptr[-1] > min(len(indices), n_values):
        return (
            f"has an indptr that goes from {indptr[0]} to {indptr[-1]}"
            f"{' and falls in between' if falls else ''}, where it must rise from 0 to at most the "
            f"number of values, with {len(indices):,} indices and {n_values:,} values"
        )
    return _fault_of_range("indices", indices[: indptr[-1]], n_places)


def _fault_of_coordinates(matrix: Any) -> str:
    row, col, n_values = matrix.row, matrix.col, len(matrix.data)
    if not (_are_whole(row) and _are_whole(col) and len(row) == len(col) == n_values):
        return (
            f"has {len(row):,} rows of {row.dtype} and {len(col):,} columns of {col.dtype} for "
            f"{n_values:,} values, where each must have a whole number for either"
        )
    sizes = matrix.shape
    return _fault_of_range("rows", row, sizes[0]) or _fault_of_range("columns", col, sizes[1])


def _fault_of_diagonals(matrix: Any) -> str:
    data, offsets = matrix.data, matrix.offsets
    if data.ndim == 2 and _are_whole(offsets) and len(offsets) == len(data):
        return ""
    return (
        f"has {len(offsets):,} offsets of {offsets.dtype} for values of shape {data.shape}, where "
        "each row of values must have one, a whole number"
    )


def _are_whole(numbers: NDArray[Any]) -> bool:
    return numbers.ndim == 1 and numbers.dtype.kind in "iu"


def _fault_of_range(name: str, numbers: NDArray[Any], size: int) -> str:
    if not len(numbers) or 0 <= numbers.min() <= numbers.max() < size:
        return ""
    return f"has {name} from {numbers.min()} to {numbers.max()}, where 0 to {size - 1} are possible"


_FAULTS = {
    "csr": _fault_of_compressed,
    "csc": _fault_of_compressed,
    "bsr": _fault_of_compressed,
    "coo": _fault_of_coordinates,
    "dia": _fault_of_diagonals,
}
