"""Steps over states that keep only the largest numbers of each row, with their columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.kernels.compiling import compiled
from proptrain.kernels.propagation import PlainOperator
from proptrain.kernels.threads import for_each, row_blocks

_NO_WEIGHTS = np.ones(1, dtype=np.float32)


def mix_top(
    operator: PlainOperator,
    columns: NDArray[np.int32],
    values: NDArray[Any],
    start: NDArray[Any],
    out: NDArray[Any],
    neighbours: float,
) -> NDArray[Any]:
    """Return one step for the rows of an operator, with all columns: (rows, c).

    The state's row i is values[i, k] in column columns[i, k], for all k; column factors are
    multiplied in.
    """
    number = start.dtype.type
    shares = (number(operator.loops), number(neighbours), number(1 - neighbours))
    weights = _NO_WEIGHTS if operator.weights is None else operator.weights
    following = np.empty_like(start, order="C")

    def mix_rows(rows: slice) -> None:
        indptr = operator.indptr[rows.start : rows.stop + 1]
        parts = (weights, operator.weights is not None, columns, values, start[rows], out[rows])
        top = operator.top + rows.start
        _mix_top(indptr, operator.indices, *parts, *shares, top, following[rows])

    for_each(row_blocks(operator.indptr, values.shape[1]), mix_rows)
    return following


def keep_top(
    dense: NDArray[Any], columns: NDArray[np.int32], values: NDArray[Any]
) -> tuple[float, float]:
    """Write the largest numbers of each row of a matrix (n, c) to a state (n, m), largest first.

    Returns the sum of the squares of what was left out, and the largest of it.

    >>> columns, values = np.zeros((1, 2), np.int32), np.zeros((1, 2))
    >>> keep_top(np.array([[0.5, -3.0, 0.0, 2.0]]), columns, values), columns, values
    ((0.25, 0.5), array([[1, 3]], dtype=int32), array([[-3.,  2.]]))
    """
    squares, largest = _keep_top(np.ascontiguousarray(dense), columns, values)
    return float(squares), float(largest)


@compiled
def _mix_top(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    weights: NDArray[Any],
    is_weighted: bool,
    columns: NDArray[Any],
    values: NDArray[Any],
    start: NDArray[Any],
    out: NDArray[Any],
    loops: Any,
    neighbours: Any,
    rest: Any,
    top: int,
    following: NDArray[Any],
) -> None:
    n_columns, n_kept = start.shape[1], values.shape[1]
    sums = np.empty(n_columns, dtype=values.dtype)
    for row in range(indptr.shape[0] - 1):
        sums[:] = 0
        for k in range(n_kept):
            sums[columns[top + row, k]] += loops * values[top + row, k]
        for entry in range(indptr[row], indptr[row + 1]):
            source = indices[entry]
            for k in range(n_kept):
                value = values[source, k]
                if value == 0:  # the largest come first
                    break
                sums[columns[source, k]] += value * weights[entry] if is_weighted else value
        share = neighbours * out[row]
        for column in range(n_columns):
            following[row, column] = share * sums[column] + rest * start[row, column]


@compiled
def _keep_top(
    dense: NDArray[Any], columns: NDArray[Any], values: NDArray[Any]
) -> tuple[float, float]:
    squares, largest, n_kept = 0.0, 0.0, values.shape[1]
    for row in range(dense.shape[0]):
        values[row] = 0
        columns[row] = 0
        for column in range(dense.shape[1]):
            value = dense[row, column]
            last = values[row, n_kept - 1]
            left = value if abs(value) <= abs(last) else last
            squares += left * left
            largest = max(largest, abs(left))
            if abs(value) <= abs(last):
                continue
            place = n_kept - 1
            while place > 0 and abs(values[row, place - 1]) < abs(value):
                values[row, place] = values[row, place - 1]
                columns[row, place] = columns[row, place - 1]
                place -= 1
            values[row, place] = value
            columns[row, place] = column
    return squares, largest
