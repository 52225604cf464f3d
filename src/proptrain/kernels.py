"""The few loops that run hot on a CPU, compiled once by Numba.

Each output element is summed in the order in which the entries are stored, with fused
multiply-add wherever the CPU has it. Library products choose another order on each make of CPU,
and in Adam's first step a gradient of 1e-8 turns their rounding into a visible part of the weight
(see docs/deviations.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.column_kernels import (
    aligned_empty,
    aligned_zeros,
    compiled,
    kernels_for,
    padded_to_widths,
    without_padding,
)
from proptrain.errors import InvalidInputError
from proptrain.threads import for_each, row_blocks


def sparse_product(matrix: sp.csr_array, dense: NDArray[Any]) -> NDArray[Any]:
    """Return matrix @ dense, shape (n, c), in the floating-point type of ``dense``.

    >>> sparse_product(sp.csr_array(np.eye(2)), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 2.],
           [3., 4.]])
    """
    _check_fit(matrix.shape[1], dense.shape[0], matrix.shape, dense.shape)
    padded = padded_to_widths(dense)
    product = aligned_empty((matrix.shape[0], padded.shape[1]), dense.dtype)

    kernels = kernels_for("gather", padded)

    def gather_rows(rows: slice) -> None:
        indptr = matrix.indptr[rows.start : rows.stop + 1]
        for gather, first in kernels:
            gather(indptr, matrix.indices, matrix.data, padded, first, product[rows])

    for_each(row_blocks(matrix.indptr, padded.shape[1]), gather_rows)
    return without_padding(product, dense)


def transposed_sparse_product(matrix: sp.csr_array, dense: NDArray[Any]) -> NDArray[Any]:
    """Return matrixᵀ @ dense without a transposed copy of the matrix: shape (m, c).

    >>> transposed_sparse_product(sp.csr_array([[0.0, 2.0]]), np.array([[3.0]]))
    array([[0.],
           [6.]])
    """
    _check_fit(matrix.shape[0], dense.shape[0], matrix.shape[::-1], dense.shape)
    padded = padded_to_widths(dense)
    product = aligned_zeros((matrix.shape[1], padded.shape[1]), dense.dtype)
    # In one thread: two rows may add to the same place, and two threads, each with columns of its
    # own, were slower than one.
    for scatter, first in kernels_for("scatter", padded):
        scatter(matrix.indptr, matrix.indices, matrix.data, padded, first, product)
    return without_padding(product, dense)


def propagate_signal(
    operator: sp.csr_array,
    signal: NDArray[Any],
    mixing: tuple[float, ...],
    fixed: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return H after all steps H <- c_k operator H + (1 - c_k) signal, started at the signal.

    Rows in ``fixed`` are put back to the signal's after every step.
    """
    if not mixing:
        return signal.copy()
    state = start = padded_to_widths(signal)
    buffers = [aligned_empty(start.shape, start.dtype) for _ in mixing[:2]]  # used in turn
    for step, neighbours in enumerate(mixing):
        following = buffers[step % 2]
        _mix(operator, state, start, neighbours, following)
        if fixed is not None:
            following[fixed] = start[fixed]
        state = following
    return without_padding(state, signal)


@dataclass(frozen=True, eq=False)
class PlainOperator:
    """diag(out) (A + loops · I) diag(into) for an A of ones: no number is stored for an edge."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    out: NDArray[np.float64]
    """(n,) factor of each row."""
    into: NDArray[np.float64]
    """(n,) factor of each column."""
    loops: bool

    @property
    def transposed(self) -> PlainOperator:
        """The transpose; A is symmetric."""
        return replace(self, out=self.into, into=self.out)


def propagate_plain(
    operator: PlainOperator,
    signal: NDArray[Any],
    mixing: tuple[float, ...],
    fixed: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return what `propagate_signal` does, for an operator without stored numbers.

    States are kept with their column factors multiplied in, so that a step only adds.
    """
    if not mixing:
        return signal.copy()
    number = signal.dtype.type
    start = padded_to_widths(signal)
    out, into = operator.out.astype(number), operator.into.astype(number)
    buffers = [aligned_empty(start.shape, start.dtype) for _ in range(2)]
    scaled = np.multiply(start, into[:, None], out=buffers[1])
    for step, neighbours in enumerate(mixing):
        is_last = step == len(mixing) - 1
        beyond = np.ones_like(into) if is_last else into
        following = buffers[step % 2]
        _mix_plain(operator, scaled, start, out, beyond, neighbours, following)
        if fixed is not None:
            following[fixed] = start[fixed] * beyond[fixed][:, None]
        scaled = following
    return without_padding(scaled, signal)


def _mix_plain(
    operator: PlainOperator,
    scaled: NDArray[Any],
    start: NDArray[Any],
    out: NDArray[Any],
    beyond: NDArray[Any],
    neighbours: float,
    following: NDArray[Any],
) -> None:
    """Write one step, times the factors ``beyond``; all are padded."""
    number = start.dtype.type
    shares = (number(operator.loops), number(neighbours), number(1 - neighbours))
    kernels = kernels_for("plain", start)

    def mix_rows(rows: slice) -> None:
        indptr = operator.indptr[rows.start : rows.stop + 1]
        parts = (indptr, operator.indices, scaled, start[rows], out[rows], beyond[rows])
        for plain, first in kernels:
            plain(*parts, *shares, rows.start, first, following[rows])

    for_each(row_blocks(operator.indptr, start.shape[1]), mix_rows)


def propagation_step(
    operator: sp.csr_array, state: NDArray[Any], signal: NDArray[Any], neighbours: float
) -> NDArray[Any]:
    """Return neighbours · operator @ state + (1 - neighbours) · signal: one step, (n, c).

    >>> propagation_step(sp.csr_array([[2.0]]), np.array([[3.0]]), np.array([[1.0]]), 0.5)
    array([[3.5]])
    """
    _check_fit(operator.shape[1], state.shape[0], operator.shape, state.shape)
    start = padded_to_widths(signal)
    following = aligned_empty(start.shape, start.dtype)
    _mix(operator, padded_to_widths(state), start, neighbours, following)
    return without_padding(following, signal)


def _mix(
    operator: sp.csr_array,
    state: NDArray[Any],
    start: NDArray[Any],
    neighbours: float,
    following: NDArray[Any],
) -> None:
    """Write one step from a state to what follows it; all are padded."""
    number = start.dtype.type
    shares = (number(neighbours), number(1 - neighbours))
    kernels = kernels_for("mix", start)

    def mix_rows(rows: slice) -> None:
        indptr = operator.indptr[rows.start : rows.stop + 1]
        for mix, first in kernels:
            parts = (indptr, operator.indices, operator.data, state, start[rows])
            mix(*parts, *shares, first, following[rows])

    for_each(row_blocks(operator.indptr, start.shape[1]), mix_rows)


def dense_product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return left @ right for a tall matrix (n, h) and a small one (h, c): shape (n, c).

    >>> dense_product(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    _check_fit(left.shape[1], right.shape[0], left.shape, right.shape)
    left, padded = np.ascontiguousarray(left), padded_to_widths(right)
    product = aligned_empty((left.shape[0], padded.shape[1]), left.dtype)
    for dense, first in kernels_for("dense", padded):
        dense(left, padded, first, product)
    return without_padding(product, right)


def transposed_product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return leftᵀ @ right for two tall matrices (n, h) and (n, c): shape (h, c).

    >>> transposed_product(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    _check_fit(left.shape[0], right.shape[0], left.shape, right.shape)
    left, padded = np.ascontiguousarray(left), padded_to_widths(right)
    product = aligned_zeros((left.shape[1], padded.shape[1]), left.dtype)
    for transposed, first in kernels_for("transposed", padded):
        transposed(left, padded, first, product)
    return without_padding(product, right)


def log_softmax(scores: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return log softmax and softmax of each row of the scores (n, C), in one pass.

    >>> log_f, f = log_softmax(np.array([[0.0, np.log(3.0)]]))
    >>> f
    array([[0.25, 0.75]])
    """
    scores = np.ascontiguousarray(scores)
    log_f, f = np.empty_like(scores), np.empty_like(scores)
    _log_softmax(scores, log_f, f)
    return log_f, f


def drop_entries(matrix: sp.csr_array, rate: float, random: np.random.Generator) -> sp.csr_array:
    """Return the matrix with a share of its stored entries left out and the rest scaled up.

    >>> drop_entries(sp.csr_array(np.eye(3)), 0.0, np.random.default_rng(0)).diagonal()
    array([1., 1., 1.])
    """
    draws = _draws(matrix.nnz, random)
    # One place more than entries: an entry is written before it is known whether it stays.
    indices = np.empty(matrix.nnz + 1, dtype=matrix.indices.dtype)
    data = np.empty(matrix.nnz + 1, dtype=matrix.data.dtype)
    indptr = np.empty_like(matrix.indptr)
    scale = matrix.data.dtype.type(dropout_scale(rate))
    parts = (matrix.indptr, matrix.indices, matrix.data)
    n_kept = _drop_entries(*parts, draws, _threshold(rate), scale, indptr, indices, data)
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
        draws = _draws(hidden.size, random).reshape(hidden.shape)
        _rectify_some(hidden, bias, draws, _threshold(rate), kind(dropout_scale(rate)), active)
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
    return (1 << 16) / ((1 << 16) - int(_threshold(rate)))


def _draws(size: int, random: np.random.Generator) -> NDArray[np.uint16]:
    """Return uniform 16-bit numbers, four to each number of the generator."""
    return random.bit_generator.random_raw(-(-size // 4)).view(np.uint16)[:size]


def _threshold(rate: float) -> np.uint16:
    return np.uint16(min(round(rate * (1 << 16)), (1 << 16) - 1))


def _check_fit(inner: int, other: int, *shapes: tuple[int, ...]) -> None:
    # Compiled loops do not look: beyond the end of an array they would read on.
    if inner != other:
        raise InvalidInputError(
            f"Two matrices can only be multiplied if their inner sizes are equal, got {shapes[0]} "
            f"and {shapes[1]}. Give as many features as the weights were trained on."
        )


@compiled
def _log_softmax(scores: NDArray[Any], log_f: NDArray[Any], f: NDArray[Any]) -> None:
    for row in range(scores.shape[0]):
        own, top = scores[row], scores[row].max()
        total = top - top
        for i in range(own.shape[0]):
            f[row, i] = np.exp(own[i] - top)
            total += f[row, i]
        log_total = np.log(total)
        for i in range(own.shape[0]):
            log_f[row, i] = own[i] - top - log_total
            f[row, i] /= total


@compiled
def _drop_entries(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    data: NDArray[Any],
    draws: NDArray[np.uint16],
    threshold: int,
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
            n_kept += draws[entry] >= threshold  # no branch: a coin cannot be predicted
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
    threshold: int,
    scale: float,
    active: NDArray[Any],
) -> None:
    for row in range(hidden.shape[0]):
        for i in range(hidden.shape[1]):
            value = max(hidden[row, i] + bias[i], 0) * scale
            active[row, i] = value if draws[row, i] >= threshold else 0


@compiled
def _pass_active(
    gradient: NDArray[Any], active: NDArray[Any], scale: float, passed: NDArray[Any]
) -> None:
    for row in range(gradient.shape[0]):
        for i in range(gradient.shape[1]):
            passed[row, i] = gradient[row, i] * scale if active[row, i] > 0 else 0
