"""The recursion H <- c_k Â H + (1 - c_k) signal, each step in one pass over what it writes.

Columns do not mix, so those of a wide signal go through all steps in parts: what is being worked on
stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.kernels.columns import (
    WIDEST,
    aligned_empty,
    kernel,
    padded_to_widths,
    padded_width,
    without_padding,
)
from proptrain.kernels.products import check_fit, check_same
from proptrain.kernels.threads import for_each, row_blocks

OnStep: TypeAlias = Callable[[float], None]
"""Is told the share of a propagation that has just been done, for a progress bar."""

_ROWS = 1 << 14
"""Rows whose factors are made ready at a time: of a thread's whole block they took memory."""


def propagate_signal(
    operator: sp.csr_array,
    signal: NDArray[Any],
    mixing: tuple[float, ...],
    fixed: NDArray[Any] | None = None,
    on_step: OnStep | None = None,
) -> NDArray[Any]:
    """Return H after all steps H <- c_k operator H + (1 - c_k) signal, started at the signal.

    Rows in ``fixed`` are put back to the signal's after every step. ``on_step`` is told the share
    of the work that each step was.
    """
    if not mixing:
        return signal.copy()

    def propagate(part: NDArray[Any]) -> NDArray[Any]:
        state = start = padded_to_widths(part)
        buffers = [aligned_empty(start.shape, start.dtype) for _ in mixing[:2]]  # used in turn
        for step, neighbours in enumerate(mixing):
            following = buffers[step % 2]
            mix_numbered(operator, state, start, neighbours, following)
            if fixed is not None:
                following[fixed] = start[fixed]
            state = following
            _tell(on_step, part, signal, mixing)
        return without_padding(state, part)

    return _in_parts(propagate, signal)


def propagation_step(
    operator: sp.csr_array, state: NDArray[Any], signal: NDArray[Any], neighbours: float
) -> NDArray[Any]:
    """Return neighbours · operator @ state + (1 - neighbours) · signal: one step, (n, c).

    >>> propagation_step(sp.csr_array([[2.0]]), np.array([[3.0]]), np.array([[1.0]]), 0.5)
    array([[3.5]])
    """
    check_fit(operator.shape[1], state.shape[0], operator.shape, state.shape)
    check_same(signal.shape, (operator.shape[0], state.shape[1]))

    def step(state: NDArray[Any], signal: NDArray[Any]) -> NDArray[Any]:
        start = padded_to_widths(signal)
        following = aligned_empty(start.shape, start.dtype)
        mix_numbered(operator, padded_to_widths(state), start, neighbours, following)
        return without_padding(following, signal)

    return _in_parts(step, state, signal)


def mix_numbered(
    operator: sp.csr_array,
    state: NDArray[Any],
    start: NDArray[Any],
    neighbours: float,
    following: NDArray[Any],
) -> None:
    """Write one step from a state to what follows it; all are as wide as a kernel.

    The operator may be some rows of Â: ``start`` and ``following`` are then of those, the state is
    of all.
    """
    number = start.dtype.type
    shares = (number(neighbours), number(1 - neighbours))
    mix = kernel("mix", start.shape[1])

    def mix_rows(rows: slice) -> None:
        indptr = operator.indptr[rows.start : rows.stop + 1]
        parts = (indptr, operator.indices, operator.data, state, start[rows])
        mix(*parts, *shares, following[rows])

    for_each(row_blocks(operator.indptr, start.shape[1]), mix_rows)


class Factors(Protocol):
    """A number for each row: an array (n,), or what gives those of some rows as one does."""

    def __getitem__(self, rows: Any, /) -> NDArray[Any]:
        """Return those of some rows."""
        ...


@dataclass(frozen=True, eq=False)
class ByDegree:
    """Factors that depend on how many entries a row has: one for each number of entries.

    >>> ByDegree(np.array([0, 2, 2, 3]), np.array([0.0, 1.0, 0.5]))[:]
    array([0.5, 0. , 1. ])
    """

    indptr: NDArray[Any]
    of_degree: NDArray[np.float64]

    def __getitem__(self, rows: Any, /) -> NDArray[np.float64]:
        """Return those of some rows, a slice, numbers or a mask."""
        degrees = self.indptr[1:][rows] - self.indptr[:-1][rows]
        return np.asarray(self.of_degree[degrees])


@dataclass(frozen=True, eq=False)
class PlainOperator:
    """diag(out) (A + loops · I) diag(into): for an A of ones no number is stored for an edge.

    It may be some rows of a larger one, the first of them row ``top``; factors of rows are then
    those of its own rows.
    """

    indptr: NDArray[Any]
    indices: NDArray[Any]
    out: Factors
    """(n,) factor of each row."""
    into: Factors
    """(n,) factor of each column."""
    loops: bool
    weights: NDArray[np.float32] | None = None
    """Of the entries, if they are not all 1."""
    top: int = 0

    @property
    def transposed(self) -> PlainOperator:
        """The transpose; A is symmetric."""
        return replace(self, out=self.into, into=self.out)


def propagate_plain(
    operator: PlainOperator,
    signal: NDArray[Any],
    mixing: tuple[float, ...],
    fixed: NDArray[Any] | None = None,
    on_step: OnStep | None = None,
) -> NDArray[Any]:
    """Return what `propagate_signal` does, for an operator without stored numbers.

    States are kept with their column factors multiplied in, so that a step only adds. Such graphs
    are large, so beside the signal and the result there is one state in memory, or two before the
    last step; they have at most 64 columns, but as many as the next kernel takes.
    """
    if not mixing:
        return signal.copy()
    number, into = signal.dtype, operator.into
    ones = np.broadcast_to(1.0, len(signal))

    def propagate(part: NDArray[Any]) -> NDArray[Any]:
        start, (n_nodes, n_columns) = np.ascontiguousarray(part), part.shape
        scaled = _unfilled(n_nodes, n_columns, part.dtype)
        spare = _unfilled(n_nodes if len(mixing) > 1 else 0, n_columns, part.dtype)

        def scale_rows(block: slice) -> None:
            for rows in _few_of(block):
                factors = into[rows].astype(number)[:, None]
                np.multiply(start[rows], factors, out=scaled[rows, :n_columns])

        for_each(row_blocks(operator.indptr, scaled.shape[1]), scale_rows)
        for step, neighbours in enumerate(mixing, start=1):
            if is_last := step == len(mixing):
                del spare  # before there is another
                spare = aligned_empty(start.shape, start.dtype)
            beyond = ones if is_last else into
            mix_plain(operator, scaled, start, operator.out, beyond, neighbours, spare)
            if fixed is not None:
                spare[fixed, :n_columns] = start[fixed] * beyond[fixed].astype(number)[:, None]
            scaled, spare = spare, scaled
            _tell(on_step, part, signal, mixing)
        return scaled

    return _in_parts(propagate, signal)


def mix_plain(
    operator: PlainOperator,
    scaled: NDArray[Any],
    start: NDArray[Any],
    out: Factors,
    beyond: Factors,
    neighbours: float,
    following: NDArray[Any],
) -> None:
    """Write one step, times the factors ``beyond``, to the columns that are no padding.

    ``scaled`` has all rows, as wide as a kernel; the others those of the operator. Factors may be
    of another type than the states: those of the rows at hand are converted.
    """
    number = start.dtype.type
    shares = (number(operator.loops), number(neighbours), number(1 - neighbours))
    numbers = () if operator.weights is None else (operator.weights,)
    name = "plain" if operator.weights is None else "weighted"
    mix = kernel(name, scaled.shape[1], start.shape[1])

    def mix_rows(block: slice) -> None:
        for rows in _few_of(block):
            indptr = operator.indptr[rows.start : rows.stop + 1]
            factors = (np.ascontiguousarray(own[rows], start.dtype) for own in (out, beyond))
            parts = (*numbers, scaled, start[rows], *factors, *shares, operator.top + rows.start)
            mix(indptr, operator.indices, *parts, following[rows])

    for_each(row_blocks(operator.indptr, scaled.shape[1]), mix_rows)


def _few_of(block: slice) -> Iterator[slice]:
    """Yield the rows of a block, few at a time."""
    for first in range(block.start, block.stop, _ROWS):
        yield slice(first, min(block.stop, first + _ROWS))


def _unfilled(n_nodes: int, n_columns: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array as wide as a kernel, in which only the padding is filled, with zeros."""
    padded = aligned_empty((n_nodes, padded_width(n_columns)), dtype)
    padded[:, n_columns:] = 0
    return padded


def _tell(
    on_step: OnStep | None, part: NDArray[Any], signal: NDArray[Any], mixing: tuple[float, ...]
) -> None:
    if on_step is not None:
        on_step(part.shape[1] / signal.shape[1] / len(mixing))


def _in_parts(do: Callable[..., NDArray[Any]], *signals: NDArray[Any]) -> NDArray[Any]:
    """Do something with as many columns at a time as a kernel takes; returns all results."""
    n_columns = signals[0].shape[1]
    if 0 < n_columns <= WIDEST:
        return do(*signals)
    result = np.empty_like(signals[-1], order="C")
    for first in range(0, n_columns, WIDEST):
        part = np.s_[:, first : first + WIDEST]
        result[part] = do(*(signal[part] for signal in signals))
    return result
