"""What is left out by chance, and what passes the rectifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.kernels.columns import aligned_empty
from proptrain.kernels.compiling import compiled


def drop_entries(matrix: sp.csr_array, rate: float, random: np.random.Generator) -> sp.csr_array:
    """Return the matrix with a share of its stored entries left out and the rest scaled up.

    >>> drop_entries(sp.csr_array(np.eye(3)), 0.0, np.random.default_rng(0)).diagonal()
    array([1., 1., 1.])
    """
    draws = coins(matrix.nnz, random)
    # One place more than entries: an entry is written before it is known whether it stays.
    indices = np.empty(matrix.nnz + 1, dtype=matrix.indices.dtype)
    data = np.empty(matrix.nnz + 1, dtype=matrix.data.dtype)
    indptr = np.empty_like(matrix.indptr)
    scale = matrix.data.dtype.type(dropout_scale(rate))
    parts = (matrix.indptr, matrix.indices, matrix.data)
    n_kept = _drop_entries(*parts, draws, threshold(rate), scale, indptr, indices, data)
    return sp.csr_array((data[:n_kept], indices[:n_kept], indptr), shape=matrix.shape)


def rectify(
    hidden: NDArray[Any],
    bias: NDArray[Any] | None,
    rate: float = 0.0,
    random: np.random.Generator | None = None,
) -> NDArray[Any]:
    """Return ReLU(hidden + bias), a share of it left out and the rest scaled up: (n, h).

    >>> rectify(np.array([[-1.0, 2.0]]), np.array([0.5, 0.5]))
    array([[0. , 2.5]])
    """
    kind = hidden.dtype.type
    bias = np.zeros(hidden.shape[1], dtype=kind) if bias is None else bias
    hidden = np.ascontiguousarray(hidden)
    active = aligned_empty(hidden.shape, hidden.dtype)
    if random is None or rate == 0:
        _rectify(hidden, bias, active)
    else:
        draws = coins(hidden.size, random).reshape(hidden.shape)
        _rectify_some(hidden, bias, draws, threshold(rate), kind(dropout_scale(rate)), active)
    return active


def pass_active(gradient: NDArray[Any], active: NDArray[Any], scale: float) -> NDArray[Any]:
    """Return the gradient times the scale where something is active, else 0: shape (n, h).

    >>> pass_active(np.array([[3.0, 4.0]]), np.array([[0.0, 0.1]]), 2.0)
    array([[0., 8.]])
    """
    gradient = np.ascontiguousarray(gradient)
    passed = aligned_empty(gradient.shape, gradient.dtype)
    _pass_active(gradient, active, gradient.dtype.type(scale), passed)
    return passed


def dropout_scale(rate: float) -> float:
    """Return what entries that stay are multiplied by, so that the expected sum stays the same.

    >>> dropout_scale(0.5)
    2.0
    """
    return (1 << 16) / ((1 << 16) - int(threshold(rate)))


def coins(size: int, random: np.random.Generator) -> NDArray[np.uint16]:
    """Return uniform 16-bit numbers, four to each number of the generator."""
    return random.bit_generator.random_raw(-(-size // 4)).view(np.uint16)[:size]


def threshold(rate: float) -> np.uint16:
    """Return the coin from which on an entry stays."""
    return np.uint16(min(round(rate * (1 << 16)), (1 << 16) - 1))


@compiled
def _drop_entries(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    data: NDArray[Any],
    draws: NDArray[np.uint16],
    lowest: int,
    scale: float,
    kept_indptr: NDArray[Any],
    kept_indices: NDArray[Any],
    kept_data: NDArray[Any],
) -> int:
    n_kept = 0
    kept_indptr[0] = 0
    for row in range(indptr.shape[0] - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            kept_indices[n_kept] = indices[entry]
            kept_data[n_kept] = data[entry] * scale
            n_kept += draws[entry] >= lowest  # no branch: a coin cannot be predicted
        kept_indptr[row + 1] = n_kept
    return n_kept


@compiled
def _rectify(hidden: NDArray[Any], bias: NDArray[Any], active: NDArray[Any]) -> None:
    for row in range(hidden.shape[0]):
        for i in range(hidden.shape[1]):
            active[row, i] = max(hidden[row, i] + bias[i], 0)


@compiled
def _rectify_some(
    hidden: NDArray[Any],
    bias: NDArray[Any],
    draws: NDArray[np.uint16],
    lowest: int,
    scale: float,
    active: NDArray[Any],
) -> None:
    for row in range(hidden.shape[0]):
        for i in range(hidden.shape[1]):
            value = max(hidden[row, i] + bias[i], 0) * scale
            active[row, i] = value if draws[row, i] >= lowest else 0


@compiled
def _pass_active(
    gradient: NDArray[Any], active: NDArray[Any], scale: float, passed: NDArray[Any]
) -> None:
    for row in range(gradient.shape[0]):
        for i in range(gradient.shape[1]):
            passed[row, i] = gradient[row, i] * scale if active[row, i] > 0 else 0
