"""The few loops that run hot on a CPU, compiled once by Numba.

Each output element is summed in the order in which the entries are stored, with fused
multiply-add wherever the CPU has it. Library products choose another order on each make of CPU,
and in Adam's first step a gradient of 1e-8 turns their rounding into a visible part of the weight
(see docs/deviations.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.errors import InvalidInputError


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    options: dict[str, Any] = {"fastmath": {"contract"}, "nogil": True}
    try:
        return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder where compiled code can be kept: compile in each process
        return numba.njit(**options)(function)  # type: ignore[no-any-return]


def sparse_product(matrix: sp.csr_array, dense: NDArray[Any]) -> NDArray[Any]:
    """Return matrix @ dense, shape (n, c), in the floating-point type of ``dense``.

    >>> sparse_product(sp.csr_array(np.eye(2)), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 2.],
           [3., 4.]])
    """
    _check_fit(matrix.shape[1], dense.shape[0], matrix.shape, dense.shape)
    product = np.empty((matrix.shape[0], dense.shape[1]), dtype=dense.dtype)
    _sparse_product(matrix.indptr, matrix.indices, matrix.data, _contiguous(dense), product)
    return product


def dense_product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return left @ right for a tall matrix (n, h) and a small one (h, c): shape (n, c).

    >>> dense_product(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    _check_fit(left.shape[1], right.shape[0], left.shape, right.shape)
    product = np.zeros((left.shape[0], right.shape[1]), dtype=left.dtype)
    _dense_product(_contiguous(left), _contiguous(right), product)
    return product


def transposed_product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return leftᵀ @ right for two tall matrices (n, h) and (n, c): shape (h, c).

    >>> transposed_product(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    _check_fit(left.shape[0], right.shape[0], left.shape, right.shape)
    product = np.zeros((left.shape[1], right.shape[1]), dtype=left.dtype)
    _transposed_product(_contiguous(left), _contiguous(right), product)
    return product


def _check_fit(inner: int, other: int, *shapes: tuple[int, ...]) -> None:
    # Compiled loops do not look: beyond the end of an array they would read on.
    if inner != other:
        raise InvalidInputError(
            f"Two matrices can only be multiplied if their inner sizes are equal, got {shapes[0]} "
            f"and {shapes[1]}. Give as many features as the weights were trained on."
        )


def _contiguous(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array)


@_compiled
def _sparse_product(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    data: NDArray[Any],
    dense: NDArray[Any],
    product: NDArray[Any],
) -> None:
    n_columns = dense.shape[1]
    for row in range(indptr.shape[0] - 1):
        for column in range(n_columns):
            product[row, column] = 0
        for entry in range(indptr[row], indptr[row + 1]):
            value, source = data[entry], indices[entry]
            for column in range(n_columns):
                product[row, column] += value * dense[source, column]


@_compiled
def _dense_product(left: NDArray[Any], right: NDArray[Any], product: NDArray[Any]) -> None:
    for row in range(left.shape[0]):
        for i in range(left.shape[1]):
            for j in range(right.shape[1]):
                product[row, j] += left[row, i] * right[i, j]


@_compiled
def _transposed_product(left: NDArray[Any], right: NDArray[Any], product: NDArray[Any]) -> None:
    for row in range(left.shape[0]):
        for i in range(left.shape[1]):
            for j in range(right.shape[1]):
                product[i, j] += left[row, i] * right[row, j]
