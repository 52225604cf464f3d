"""Products of matrices, each number summed in the order in which the entries are stored."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.errors import InvalidInputError
from proptrain.kernels.columns import (
    WIDEST,
    Columns,
    aligned_empty,
    aligned_zeros,
    columns_of,
    kernel,
    padded_to_widths,
    without_padding,
)
from proptrain.kernels.dropout import coins, dropout_scale, threshold
from proptrain.kernels.sums import rows_of_a_sum, sum_of_sums
from proptrain.kernels.threads import are_worth_it, for_each, row_blocks
from proptrain.kernels.transposed import Share, TransposedParts

Kernel: TypeAlias = Callable[..., Any]

_NARROW = 16
"""Up to so many columns the sums of a row are one register or less, and wait for each other."""
_NEAR = 1 << 20
"""Bytes that a core's second cache holds: if it has all rows of half the columns but not of all,
taking these in two halves is faster, though the entries are read twice."""
_FOR_A_THREAD = 32
"""Columns that a thread takes where threads share by columns: the network has 64 hidden units."""


def sparse_product(matrix: sp.csr_array, dense: NDArray[Any]) -> NDArray[Any]:
    """Return matrix @ dense, shape (n, c), in the floating-point type of ``dense``.

    >>> sparse_product(sp.csr_array(np.eye(2)), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 2.],
           [3., 4.]])
    """
    return _gather("gather", matrix, dense)


def active_product(
    matrix: sp.csr_array,
    dense: NDArray[Any],
    bias: NDArray[Any] | None,
    rate: float = 0.0,
    random: np.random.Generator | None = None,
) -> NDArray[Any]:
    """Return ReLU(matrix @ dense + bias) in one pass, (n, c); with a generator, dropped out too.

    >>> active_product(sp.csr_array(np.eye(2)), np.array([[1.0], [3.0]]), np.array([-2.0]))
    array([[0.],
           [1.]])
    """
    number, (n_rows, n_columns) = dense.dtype.type, (matrix.shape[0], dense.shape[1])
    bias = np.zeros(n_columns, dtype=number) if bias is None else bias
    check_same(bias.shape, (n_columns,))
    (bias,) = padded_to_widths(bias[None])
    if random is None or rate == 0:
        return _gather("gather_active", matrix, dense, lambda _: (bias,))
    draws = padded_to_widths(coins(n_rows * n_columns, random).reshape(n_rows, n_columns))
    chance = (threshold(rate), number(dropout_scale(rate)))
    return _gather("gather_some", matrix, dense, lambda rows: (bias, draws[rows], *chance))


def _gather(
    name: str,
    matrix: sp.csr_array,
    dense: NDArray[Any],
    more: Callable[[slice], tuple[Any, ...]] = lambda _: (),
) -> NDArray[Any]:
    """Have each row of the product collect from rows of ``dense``."""
    check_fit(matrix.shape[1], dense.shape[0], matrix.shape, dense.shape)
    padded = padded_to_widths(dense)
    product = aligned_empty((matrix.shape[0], padded.shape[1]), dense.dtype)
    by_halves = _is_nearer_by_halves(padded)
    groups = columns_of(padded, WIDEST // 2 if by_halves else WIDEST)
    # A core that has one half has it in its cache for good; so the halves are taken side by side.
    side_by_side = by_halves and are_worth_it(matrix.nnz * padded.shape[1])
    at_once = len(groups) if side_by_side else 1
    blocks = row_blocks(matrix.indptr, padded.shape[1], at_once)

    def gather(task: tuple[tuple[Kernel, NDArray[Any], np.uint64], slice]) -> None:
        (collect, panel, first), rows = task
        indptr = matrix.indptr[rows.start : rows.stop + 1]
        parts = (indptr, matrix.indices, matrix.data, panel, first, product[rows])
        collect(*parts, *more(rows))

    for start in range(0, len(groups), at_once):
        panels = [
            (kernel(name, one.width), one.panel_of(padded), one.first)
            for one in groups[start : start + at_once]
        ]
        for_each(list(itertools.product(panels, blocks)), gather)
    return without_padding(product, dense)


def _is_nearer_by_halves(looked_up: NDArray[Any]) -> bool:
    """Tell whether to take a matrix whose rows are looked up by half as many columns at once.

    >>> [_is_nearer_by_halves(np.zeros((n, 64), np.float32)) for n in (3000, 6000, 20_000)]
    [False, True, False]
    """
    half: int = WIDEST // 2 * looked_up.shape[0] * looked_up.itemsize
    return looked_up.shape[1] > WIDEST // 2 and half <= _NEAR < 2 * half


def transposed_sparse_product(matrix: sp.csr_array, dense: NDArray[Any]) -> NDArray[Any]:
    """Return matrixᵀ @ dense without a transposed copy of the matrix: shape (m, c).

    >>> transposed_sparse_product(sp.csr_array([[0.0, 2.0]]), np.array([[3.0]]))
    array([[0.],
           [6.]])
    """
    return _scatter("scatter", matrix, dense)


def active_gradients(
    matrix: sp.csr_array,
    gradient: NDArray[Any],
    active: NDArray[Any],
    scale: float = 1.0,
    parts: TransposedParts | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the gradients for dense (m, c) and bias (c,) from that for `active_product` (n, c).

    It passes where something is active, times ``scale``, by which dropout has scaled it up. Who
    multiplies by the same matrix again and again gives it in `TransposedParts` as well, which is
    faster and comes to the same bits.

    >>> identity, active = sp.csr_array(np.eye(2)), np.array([[0.0], [1.0]])
    >>> active_gradients(identity, np.array([[5.0], [7.0]]), active)
    (array([[0.],
           [7.]]), array([7.]))
    """
    check_same(active.shape, gradient.shape)
    number, padded = gradient.dtype.type, padded_to_widths(active)
    step = rows_of_a_sum(len(active))
    sums = np.zeros((max(1, -(-len(active) // step)), padded.shape[1]), dtype=number)
    rest = (padded, number(scale), step, sums)
    if parts is None:
        product = _scatter("scatter_active", matrix, gradient, *rest)
    else:
        product = _collect(parts, matrix, gradient, *rest)
    return product, sum_of_sums(sums, step, len(active))[: gradient.shape[1]]


def _scatter(name: str, matrix: sp.csr_array, dense: NDArray[Any], *more: Any) -> NDArray[Any]:
    """Have each row of ``dense`` add to rows of the product."""
    padded = _padded_to_fit(matrix, dense)
    # Two rows may add to the same place, so threads share by columns.
    shared = are_worth_it(matrix.nnz * padded.shape[1])
    groups = columns_of(padded, _FOR_A_THREAD if shared else WIDEST)
    panels = [aligned_zeros((matrix.shape[1], one.width), dense.dtype) for one in groups]
    found = [kernel(name, one.width) for one in groups]  # not in the threads: each once

    def add(task: tuple[Kernel, Columns, NDArray[Any]]) -> None:
        scatter, columns, panel = task
        scatter(matrix.indptr, matrix.indices, matrix.data, padded, columns.first, panel, *more)

    for_each(list(zip(found, groups, panels, strict=True)), add)
    return without_padding(_side_by_side(panels, matrix.shape[1], dense.dtype), dense)


def _collect(
    parts: TransposedParts,
    matrix: sp.csr_array,
    dense: NDArray[Any],
    active: NDArray[Any],
    scale: Any,
    step: int,
    sums: NDArray[Any],
) -> NDArray[Any]:
    """Have each row of the product collect from rows of ``dense``, those of one part at a time."""
    padded, panels = _padded_to_fit(matrix, dense), []
    in_threads = are_worth_it(matrix.nnz * padded.shape[1])
    shares = parts.shares if in_threads else (parts.whole,)
    for columns in columns_of(padded):
        add = kernel("collect", columns.width)
        panels.append(aligned_zeros((matrix.shape[1], columns.width), dense.dtype))
        chosen = (padded, active, columns.first, scale, np.uint64(step))

        def collect(
            share: Share,
            add: Kernel = add,
            chosen: tuple[Any, ...] = chosen,
            panel: NDArray[Any] = panels[-1],
        ) -> None:
            # Every thread passes all rows for itself: that is faster than to wait for the others.
            passed = aligned_empty((parts.size, panel.shape[1]), dense.dtype)
            own_sums = sums if share is shares[0] else np.empty_like(sums)
            entries = (parts.targets, parts.starts, parts.sources, parts.data)
            add(*chosen, share.begins, share.ends, *entries, passed, panel, own_sums)

        for_each(shares, collect)
    return without_padding(_side_by_side(panels, matrix.shape[1], dense.dtype), dense)


def _padded_to_fit(matrix: sp.csr_array, dense: NDArray[Any]) -> NDArray[Any]:
    """Return ``dense`` as wide as kernels, if it has as many rows as the matrix."""
    check_fit(matrix.shape[0], dense.shape[0], matrix.shape[::-1], dense.shape)
    return padded_to_widths(dense)


def dense_product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return left @ right for a tall matrix (n, h) and a small one (h, c): shape (n, c).

    >>> dense_product(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    check_fit(left.shape[1], right.shape[0], left.shape, right.shape)
    left, padded = np.ascontiguousarray(left), padded_to_widths(right)
    product = aligned_empty((left.shape[0], padded.shape[1]), left.dtype)
    for columns in columns_of(padded):
        # Where sums wait for each other, several rows at a time give the CPU something to do.
        name = "dense_four" if columns.width <= _NARROW and len(left) else "dense"
        kernel(name, columns.width)(left, columns.panel_of(padded), columns.first, product)
    return without_padding(product, right)


def transposed_product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Return leftᵀ @ right for two tall matrices (n, h) and (n, c): shape (h, c).

    >>> transposed_product(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    check_fit(left.shape[0], right.shape[0], left.shape[::-1], right.shape)
    if right.shape[1] < left.shape[1]:  # the wider one in registers; the sums are the same
        return np.ascontiguousarray(transposed_product(right, left).T)
    left, padded = np.ascontiguousarray(left), padded_to_widths(right)
    panels = []
    for columns in columns_of(padded):
        panels.append(aligned_zeros((left.shape[1], columns.width), left.dtype))
        kernel("transposed", columns.width)(left, padded, columns.first, panels[-1])
    return without_padding(_side_by_side(panels, left.shape[1], left.dtype), right)


def _side_by_side(panels: list[NDArray[Any]], n_rows: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    if len(panels) == 1:
        return panels[0]
    return np.hstack(panels) if panels else np.zeros((n_rows, 0), dtype=dtype)


def check_fit(inner: int, other: int, *shapes: tuple[int, ...]) -> None:
    """Raise unless the inner sizes of two matrices of these shapes are equal."""
    # Compiled loops do not look: beyond the end of an array they would read on.
    if inner != other:
        raise InvalidInputError(
            f"Two matrices can only be multiplied if their inner sizes are equal, got {shapes[0]} "
            f"and {shapes[1]}."
        )


def check_same(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Raise unless an array has the shape that the compiled loops will take it to have."""
    if shape != wanted:
        raise InvalidInputError(f"An array must have the shape {wanted} here, got {shape}.")
