"""The engine for graphs that do not fit into memory: from disk, a block of rows at a time.

What a step looks up here and there is the state, so that is what lies in memory: for as many of the
signal's columns as the limit allows, which go through all steps before the next ones. The graph is
read from its files in order, once a step, and no more of it is at hand than a part; signals and
results may lie in files as well. The fewer columns fit, the more often the graph is read.

The sums are those of `LocalEngine`, in the same order, so that both give the same bits; but for
graphs that were renumbered, whose rows have another order, and large weighted ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from proptrain.data.disk import Block, DiskGraph, inverse
from proptrain.data.mapped import SMALL, forget, parts_of, put_rows, room_for, take_rows
from proptrain.errors import InvalidInputError
from proptrain.kernels import OnStep, PlainOperator, mix_numbered, mix_plain
from proptrain.kernels.columns import WIDTHS, aligned_zeros
from proptrain.kernels.top import keep_top, mix_top
from proptrain.propagate.engine import check_signal, held_rows, is_large
from proptrain.propagate.normalisation import (
    Normalisation,
    check_normalisation,
    common_scale,
    extremes_of,
    factors_of,
    numbered_rows,
)
from proptrain.propagate.schemes import Scheme
from proptrain.system.memory import enough_in_words, give_back, in_words, left_of, parse_memory

PART_ENTRIES = 1 << 23
"""Entries of the graph that are at hand at a time."""
PART_ROWS = 1 << 21
"""Rows of the graph that are at hand at a time, however few entries they have."""
_NUMBERED = 1 << 18
"""Entries, and rows, that get their numbers at a time: in float64 they take more than they keep."""
_BESIDE = 200_000_000
"""Bytes for what is at hand of the graph, the signal and the result: parts, whatever their size."""
_STATES = 3
"""The signal's columns, the state before a step and the one after it."""


class BlockedEngine:
    """Propagates over a graph on disk, within a limit of memory for the whole process.

    The recursion is that of every `Engine`: Z_k = c_k Â Z_(k-1) + (1 - c_k) S.

    ``memory`` is what the process may have at its peak, Python and its libraries included. A result
    that is not small lies in a file without a name in ``scratch`` (by default where temporary files
    do, TMPDIR) and is gone with the array.

    ``top``: of each node's row keep only so many of the largest numbers between steps. With many
    columns that takes less memory and time. ``error_bound`` then says how far the last result can
    be from the exact one: what was left out after each step, times the weights of the steps that
    followed, in the Frobenius norm (for "row" the largest number), since no step makes an error
    larger.

    >>> import tempfile
    >>> import scipy.sparse as sp
    >>> from proptrain.data.disk_writer import save_graph
    >>> from proptrain.data.graph import Graph
    >>> from proptrain.propagate.schemes import PPR
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_graph(Graph(sp.csr_array([[0, 1], [1, 0]])), f"{folder}/edge")
    ...     engine = BlockedEngine(f"{folder}/edge", "row", memory="64GB")
    ...     engine.propagate(np.array([[1.0], [0.0]]), PPR(alpha=0.5, steps=1))
    ...     engine.room((2, 1), np.float32).tolist()
    array([[0.5],
           [0.5]])
    [[0.0], [0.0]]
    """

    _part = (PART_ENTRIES, PART_ROWS)
    _widths = WIDTHS

    def __init__(
        self,
        graph: DiskGraph | str | Path,
        normalisation: Normalisation = "symmetric",
        *,
        memory: str | int = "2GB",
        top: int | None = None,
        scratch: str | Path | None = None,
    ) -> None:
        check_normalisation(normalisation)
        if top is not None and not (isinstance(top, int) and top >= 1):
            raise InvalidInputError(f"top must be None or a whole number from 1 on, got {top!r}.")
        self.graph = graph if isinstance(graph, DiskGraph) else DiskGraph(graph)
        self.n_nodes = self.graph.n_nodes
        self.memory = parse_memory(memory)
        self.top = top
        self.scratch = scratch
        self.error_bound = 0.0
        self._normalisation = normalisation

    def room(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return zeros of a shape, such as (n, C), to be written to; in a file unless few."""
        return room_for(shape, dtype, self.scratch)

    def propagate(
        self,
        signal: NDArray[Any],
        scheme: Scheme,
        *,
        fixed: NDArray[Any] | None = None,
        on_step: OnStep | None = None,
    ) -> NDArray[Any]:
        """Return Ā S = Σ_k beta_k Â^k S of a signal S (n, c), in its floating-point type."""
        signal = check_signal(signal, self.n_nodes)
        result = self.room(signal.shape, signal.dtype)
        self.error_bound = 0.0
        if not scheme.mixing:
            for rows in parts_of(self.n_nodes, signal.shape[1] * signal.itemsize):
                result[rows] = signal[rows]
                forget(signal, result)
            return result
        n_columns = signal.shape[1]
        top = self.top if self.top is not None and self.top < n_columns else None
        is_numbered = self._is_small and top is None
        work = _Work(
            self.graph,
            signal,
            result,
            scheme.mixing,
            *(self._ones(signal.dtype) if is_numbered else self._factors(signal.dtype)),
            None,
            self._normalisation == "symmetric",
            None if self.graph.order is None else inverse(self.graph.order),
            held_rows(fixed, self.n_nodes, self.graph.order),
            self._part,
            on_step,
        )
        if top is not None:
            room = self._room_for_states()
            self._check_fits(2 * top * (4 + signal.itemsize), "top", room)
            self.error_bound = _propagate_top(work, top, in_rows=self._normalisation == "row")
            return result
        width = self._width(n_columns, signal.dtype)
        if is_numbered:  # of what is kept for the graph at hand, when the states have theirs
            work = replace(work, numbered=self._numbered(signal.dtype))
        for first in range(0, n_columns, width):
            _propagate_columns(work, slice(first, min(n_columns, first + width)), width)
        return result

    @property
    def _is_small(self) -> bool:
        return not is_large(self.n_nodes, self.graph.manifest.n_entries)

    def _factors(self, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the factors of rows and columns (n,); one array if they are the same."""
        degrees, kind = self.graph.degrees, self._normalisation
        scale = common_scale(extremes_of(degrees), kind, dtype)
        out = np.empty(self.n_nodes, dtype)
        for rows in parts_of(self.n_nodes, degrees.itemsize):
            out[rows] = factors_of(degrees[rows], kind, scale)[0]
            forget(degrees)
        return out, np.full_like(out, scale) if kind == "row" else out

    def _ones(self, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return factors that change nothing (n,), where numbers of entries have them all."""
        ones = np.ones(self.n_nodes, dtype)
        return ones, ones

    def _numbered(self, dtype: np.dtype[Any]) -> list[tuple[slice, sp.csr_array]]:
        """Return the rows of Â with a number for each entry: a small graph has few."""
        kind = self._normalisation
        out, into = factors_of(np.array(self.graph.degrees), kind)
        rows = [
            (
                block.rows,
                numbered_rows(
                    block.indptr, block.indices, block.weights, out[block.rows], into,
                    loops=kind == "symmetric", top=block.rows.start,
                ).astype(dtype, copy=False),
            )
            for block in self.graph.parts(*[min(_NUMBERED, most) for most in self._part])
        ]  # fmt: skip
        forget(self.graph.degrees)
        give_back()
        return rows

    def _width(self, n_columns: int, dtype: np.dtype[Any]) -> int:
        """Return how many columns go through the steps together, as wide as a kernel."""
        ready: set[int] = set()
        while True:
            room, state = self._room_for_states(), _STATES * dtype.itemsize * self.n_nodes
            if self._widths[0] * state > room and not ready:  # or too little would be asked for
                self._compile(self._widths[0], dtype)
                room = min(room, self._room_for_states())
            self._check_fits(_STATES * self._widths[0] * dtype.itemsize, "columns", room)
            fitting = [width for width in self._widths if width * state <= room]
            n_rounds = -(-n_columns // fitting[-1])
            width = next(width for width in fitting if width * n_rounds >= n_columns)
            if width in ready:
                return width
            # Compiling takes memory, and keeps some: before there are states, and then look again.
            self._compile(width, dtype)
            ready.add(width)

    def _compile(self, width: int, dtype: np.dtype[Any]) -> None:
        """Have the kernel of this width compiled or loaded, by a step over a node alone."""
        one, state = np.ones(1, dtype), np.zeros((1, width), dtype)
        if self._is_small:
            operator = sp.csr_array((1, 1), dtype=dtype)
            mix_numbered(operator, state, state, 0.5, state.copy())
            return
        indptr, indices = np.zeros(2, np.int32), np.zeros(0, np.int32)
        weights = np.zeros(0, np.float32) if self.graph.manifest.is_weighted else None
        for array in (indptr, indices, weights):
            if array is not None:
                array.flags.writeable = False  # as those that are mapped
        plain = PlainOperator(indptr, indices, one, one, False, weights)
        mix_plain(plain, state, state, one, one, 0.5, state.copy())

    def _room_for_states(self) -> int:
        return left_of(self.memory) - _BESIDE

    def _check_fits(self, node_bytes: int, what: str, room: int) -> None:
        needed = node_bytes * self.n_nodes
        if needed > room:
            raise InvalidInputError(
                f"memory must hold the states of the fewest {what} at a time: "
                f"{in_words(needed)}, beside the {in_words(self.memory - room)} that the process "
                f"needs for all else; got {in_words(self.memory)}. Give at least "
                f"{enough_in_words(self.memory - room + needed)}."
            )


@dataclass(frozen=True, eq=False)
class _Work:
    """A propagation: what it reads, where the result goes, and its numbers."""

    graph: DiskGraph
    signal: NDArray[Any]
    result: NDArray[Any]
    mixing: tuple[float, ...]
    out: NDArray[Any]
    into: NDArray[Any]
    numbered: list[tuple[slice, sp.csr_array]] | None
    """Rows of Â, if entries have numbers of their own; the factors are then 1."""
    loops: bool
    place: NDArray[Any] | None
    """The row of each node (n,), if that is another than its number."""
    held: NDArray[np.int64]
    part: tuple[int, int]
    """Entries and rows of the graph that are at hand at a time."""
    on_step: OnStep | None

    def rows(self, nodes: slice) -> Any:
        """Return the rows of some nodes: who walks through nodes reads files in their order."""
        return nodes if self.place is None else self.place[nodes]

    def own_signal(self, rows: slice) -> NDArray[Any]:
        """Return the signal of the nodes whose rows these are."""
        order = self.graph.order
        return np.asarray(
            self.signal[rows] if order is None else take_rows(self.signal, order[rows])
        )

    def put_result(self, rows: slice, told: NDArray[Any]) -> None:
        """Write the result of the nodes whose rows these are."""
        if self.graph.order is None:
            self.result[rows] = told
        else:
            put_rows(self.result, self.graph.order[rows], told)

    def operator(self, block: Block) -> PlainOperator:
        """Return the part of Â that a block of rows is."""
        factors = (self.out[block.rows], self.into)
        parts = (block.indptr, block.indices, *factors, self.loops, block.weights)
        return PlainOperator(*parts, block.rows.start)

    def take_step(
        self,
        scaled: NDArray[Any],
        start: NDArray[Any],
        neighbours: float,
        following: NDArray[Any],
        *,
        is_last: bool,
    ) -> None:
        """Write what follows a state; both with the factors of columns, but for the last one."""
        for rows, numbers in self.numbered or ():
            mix_numbered(numbers, scaled, start[rows], neighbours, following[rows])
        for block in self.graph.parts(*self.part) if self.numbered is None else ():
            rows = block.rows
            beyond = np.ones_like(self.into[rows]) if is_last else self.into[rows]
            parts = (start[rows], self.out[rows], beyond, neighbours, following[rows])
            mix_plain(self.operator(block), scaled, *parts)

    def tell(self, share: float) -> None:
        """Tell the share of the work that is done."""
        if self.on_step is not None:
            self.on_step(share / len(self.mixing))


def _propagate_columns(work: _Work, columns: slice, width: int) -> None:
    """Carry out all steps for some columns and write them to the result."""
    n_nodes, n_columns = len(work.signal), columns.stop - columns.start
    start, scaled, spare = (
        aligned_zeros((n_nodes, width), work.signal.dtype) for _ in range(_STATES)
    )
    for nodes in parts_of(n_nodes, work.signal.shape[1] * work.signal.itemsize):
        start[work.rows(nodes), :n_columns] = work.signal[nodes, columns]
        forget(work.signal)
    np.multiply(start, work.into[:, None], out=scaled)
    for step, neighbours in enumerate(work.mixing, start=1):
        is_last = step == len(work.mixing)
        work.take_step(scaled, start, neighbours, spare, is_last=is_last)
        for some in parts_of(len(work.held), width * start.itemsize):
            held = work.held[some]
            spare[held] = start[held] if is_last else start[held] * work.into[held, None]
        scaled, spare = spare, scaled
        work.tell(n_columns / work.signal.shape[1])
    for nodes in parts_of(n_nodes, work.signal.shape[1] * work.signal.itemsize):
        work.result[nodes, columns] = scaled[work.rows(nodes), :n_columns]
        forget(work.result)


def _propagate_top(work: _Work, top: int, *, in_rows: bool) -> float:
    """Carry out all steps with so many numbers a row between them; returns the error's bound."""
    n_nodes, dtype = len(work.signal), work.signal.dtype
    state, spare = (
        (np.zeros((n_nodes, top), np.int32), np.zeros((n_nodes, top), dtype)) for _ in range(2)
    )
    bound = _cut(work, None, 0.0, state, in_rows=in_rows)
    for step, neighbours in enumerate(work.mixing, start=1):
        is_last = step == len(work.mixing)
        lost = _cut(work, state, neighbours, None if is_last else spare, in_rows=in_rows)
        bound = neighbours * bound + lost
        state, spare = spare, state
        work.tell(1.0)
    return bound


def _cut(
    work: _Work,
    state: tuple[NDArray[np.int32], NDArray[Any]] | None,
    neighbours: float,
    kept: tuple[NDArray[np.int32], NDArray[Any]] | None,
    *,
    in_rows: bool,
) -> float:
    """Take a step and keep the largest numbers of it, or all in the result; returns what is lost.

    Without a state there is no step: what is kept is the signal's own.
    """
    squares = largest = 0.0
    is_held = np.zeros(len(work.signal), dtype=bool)
    is_held[work.held] = True
    max_rows = max(1, SMALL // (work.signal.shape[1] * work.signal.itemsize))
    for block in work.graph.parts(work.part[0], max_rows):
        rows = block.rows
        dense = start = work.own_signal(rows)
        if state is not None:
            dense = mix_top(work.operator(block), *state, start, work.out[rows], neighbours)
            dense[is_held[rows]] = start[is_held[rows]]
        if kept is None:
            work.put_result(rows, dense)
        else:
            lost = keep_top(dense, kept[0][rows], kept[1][rows])
            squares, largest = squares + lost[0], max(largest, lost[1])
            kept[1][rows] *= work.into[rows, None]
        forget(work.signal, work.result)
    return largest if in_rows else float(np.sqrt(squares))
