"""The engine for graphs that fit no machine: a block of rows for each worker of a crew.

The crew does what it is told wherever it likes, and keeps what comes of it: here only references
go around. A propagation is a task a block and step; nobody has a state but the crew. Tasks and not
actors, because a task that is lost can be done again from what it was given: all that a worker
knows is in its arguments, and the crew, that knows who made them, makes them again where needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from proptrain.data.mapped import forget, room_for
from proptrain.data.shared_graph import SharedGraph
from proptrain.errors import ClusterError
from proptrain.kernels import OnStep
from proptrain.kernels.columns import WIDTHS
from proptrain.propagate.engine import check_signal, held_rows, is_large
from proptrain.propagate.exchange import (
    Step,
    first_pieces,
    read_share,
    sends_of,
    side_by_side,
    take_step,
    task_bytes,
)
from proptrain.propagate.normalisation import (
    Normalisation,
    check_normalisation,
    common_scale,
    extremes_of,
)
from proptrain.propagate.schemes import Scheme
from proptrain.system.memory import in_words

Reference = Any
"""To something that the crew keeps."""
_HALF = 2
"""Of a machine's store, what a task is given and what it returns; others run beside it."""


class Crew(Protocol):
    """Workers, who do tasks and keep what comes of them."""

    @property
    def task_memory(self) -> int:
        """Bytes that a task may need, with all that it is given and returns."""
        ...

    def put(self, value: Any) -> Reference:
        """Have something kept."""
        ...

    def call(
        self, function: Callable[..., Any], *arguments: Any, n_results: int = 1, apart: bool = False
    ) -> list[Reference]:
        """Have a function called with references or values; returns one for each of its results.

        One result is whatever the function returns, and several are a tuple of so many.
        ``apart``: somewhere that has little to do, and not where its arguments are.
        """
        ...

    def get(self, references: Sequence[Reference]) -> list[Any]:
        """Wait for things and bring them here; raises what was raised in the making."""
        ...


def task_room(memory: float, n_cpus: float, store: float) -> int:
    """Return the bytes that a task may need on a machine, of which each CPU does a task at a time.

    ``memory`` is what processes may have there, ``store`` what keeps what they are given.

    >>> task_room(40e9, 4, 30e9), task_room(40e9, 1, 30e9)
    (10000000000, 15000000000)
    """
    return min(int(memory / max(1, n_cpus)), int(store) // _HALF)


class ClusterEngine:
    """Propagates over a graph in a shared folder, by a crew of which each reads its own blocks.

    ``propagate`` takes and gives arrays as every engine does, a block of them at a time; large
    results lie in files. ``spread`` takes and gives references: who made them has their content,
    and nobody here.
    """

    _widths = WIDTHS

    def __init__(
        self,
        graph: SharedGraph | str | Path,
        crew: Crew,
        normalisation: Normalisation = "symmetric",
        *,
        scratch: str | Path | None = None,
    ) -> None:
        check_normalisation(normalisation)
        self.graph = graph if isinstance(graph, SharedGraph) else SharedGraph(graph)
        self.n_nodes, self.crew, self.scratch = self.graph.n_nodes, crew, scratch
        self._kind = normalisation
        self._shares: list[tuple[Reference, Reference]] = []

    def room(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return zeros of a shape, as (n, c), to be written to; in a file unless they are few."""
        return room_for(shape, dtype, self.scratch)

    @property
    def rows(self) -> list[slice]:
        """The rows of each block."""
        return [block.rows for block in self.graph.manifest.blocks]

    def propagate(
        self,
        signal: NDArray[Any],
        scheme: Scheme,
        *,
        fixed: NDArray[Any] | None = None,
        on_step: OnStep | None = None,
    ) -> NDArray[Any]:
        """Return Ā signal, shape (n, c), in the signal's floating-point type."""
        signal = check_signal(signal, self.n_nodes)
        sources = []
        for rows in self.rows:
            sources.append(self.crew.put(np.array(signal[self.graph.nodes(rows)], order="C")))
            forget(signal)
        told = self.spread(sources, signal.shape[1], signal.dtype, scheme, fixed, on_step)
        del sources
        result = self.room(signal.shape, signal.dtype)
        for rows in self.rows:
            result[self.graph.nodes(rows)] = self.crew.get([told.pop(0)])[0]
            forget(result)
        return result

    def spread(
        self,
        sources: Sequence[Reference],
        n_columns: int,
        dtype: DTypeLike,
        scheme: Scheme,
        fixed: NDArray[Any] | None = None,
        on_step: OnStep | None = None,
    ) -> list[Reference]:
        """Return Ā signal, one reference for each block, from the blocks (rows, c) of a signal."""
        mixing = scheme.mixing
        if not mixing or not n_columns:
            return list(sources)
        width = self._width(n_columns, np.dtype(dtype).itemsize)
        own = self._own_shares(np.dtype(dtype))
        held = [self.crew.put(rows) for rows in self._held(fixed)]
        results: list[list[Reference]] = [[] for _ in sources]
        for first in range(0, n_columns, width):
            columns = slice(first, min(n_columns, first + width))
            share = (columns.stop - first) / n_columns / len(mixing)
            for told, part in zip(
                self._spread_columns(own, sources, held, columns, width, mixing, share, on_step),
                results,
                strict=True,
            ):
                part.append(told)
        if len(results[0]) == 1:
            return [only for (only,) in results]
        return [self.crew.call(side_by_side, *parts)[0] for parts in results]

    def _spread_columns(
        self,
        own: list[tuple[Reference, Reference]],
        sources: Sequence[Reference],
        held: Sequence[Reference],
        columns: slice,
        width: int,
        mixing: tuple[float, ...],
        share: float,
        on_step: OnStep | None,
    ) -> list[Reference]:
        """Have all steps taken for some columns."""
        crew, n_blocks, before = self.crew, len(own), list[Reference]()
        told = [
            crew.call(first_pieces, *parts, source, columns, n_results=1 + n_blocks)
            for parts, source in zip(own, sources, strict=True)
        ]
        pieces = [sent for _, *sent in told]
        del told
        for number, neighbours in enumerate(mixing, start=1):
            is_last = number == len(mixing)
            step = Step(columns, width, neighbours, is_last)
            told = [
                crew.call(
                    take_step, *own[b], sources[b], held[b], step, *(sent[b] for sent in pieces),
                    n_results=2 if is_last else 1 + n_blocks,
                )
                for b in range(n_blocks)
            ]  # fmt: skip
            pieces = [sent for _, *sent in told]
            # While a step is being taken the next one is told already: nobody waits for us.
            if before:
                self._wait(before, share, on_step)
            before = [done for done, *_ in told]
            del told
        self._wait(before, share, on_step)
        return [result for (result,) in pieces]

    def _wait(self, done: Sequence[Reference], share: float, on_step: OnStep | None) -> None:
        self.crew.get(done)
        if on_step is not None:
            on_step(share)

    @cached_property
    def _extreme_degrees(self) -> NDArray[np.float64]:
        """What a scale depends on; for all but "row" that is none at all, so none are read."""
        return extremes_of(self.graph.degrees) if self._kind == "row" else np.zeros(0)

    @property
    def _is_small(self) -> bool:
        return not is_large(self.n_nodes, self.graph.manifest.n_entries)

    def _own_shares(self, dtype: np.dtype[Any]) -> list[tuple[Reference, Reference]]:
        """Return each block and what it sends, read on first use."""
        scaled_in = np.dtype(np.float64) if self._is_small else dtype
        scale = common_scale(self._extreme_degrees, self._kind, scaled_in)
        if not self._shares:
            graph, n_blocks = self.crew.put(self.graph), self.graph.n_blocks
            how = (self._kind, scale, self._is_small)
            read = [
                self.crew.call(read_share, graph, number, *how, n_results=1 + n_blocks, apart=True)
                for number in range(n_blocks)
            ]
            sends = [
                self.crew.call(sends_of, *(needs[1 + number] for needs in read))[0]
                for number in range(n_blocks)
            ]
            self._shares = [(share, sent) for (share, *_), sent in zip(read, sends, strict=True)]
        return self._shares

    def _held(self, fixed: NDArray[Any] | None) -> list[NDArray[np.int64]]:
        """Return for each block the rows that are put back, counted from its first."""
        held, bounds = held_rows(fixed, self.n_nodes, self.graph.order), self.graph.bounds
        cuts = np.searchsorted(held, bounds)
        return [held[cuts[b] : cuts[b + 1]] - bounds[b] for b in range(len(bounds) - 1)]

    def check_room(self, n_columns: int) -> None:
        """Raise unless every machine has room for a task over a signal with so many columns."""
        self._width(n_columns, np.dtype(np.float32).itemsize)

    def _width(self, n_columns: int, itemsize: int) -> int:
        """Return how many columns go through the steps together, as wide as a kernel."""
        needed = {width: self._task_bytes(width, itemsize) for width in self._widths}
        room = self.crew.task_memory
        fitting = [width for width, n_bytes in needed.items() if n_bytes <= room]
        if not fitting:
            fewest = self._widths[0]
            raise ClusterError(
                f"Every machine of the cluster must have {in_words(needed[fewest])} of memory for "
                f"a task, which is what the largest block needs for {fewest} columns; the smallest "
                f"has {in_words(room)}. Take larger machines (or fewer CPUs on each: ray start "
                "--num-cpus), or build the graph with more --blocks."
            )
        n_rounds = -(-n_columns // fitting[-1])
        return next(width for width in fitting if width * n_rounds >= n_columns)

    def _task_bytes(self, width: int, itemsize: int) -> int:
        """Return what a task over the largest block may need; of neighbours no two are the same."""
        return max(
            task_bytes(
                self.n_nodes, min(self.n_nodes, one.n_rows + one.n_entries), one.n_rows,
                one.n_entries, width, itemsize, is_numbered=self._is_small,
            )
            for one in self.graph.manifest.blocks
        )  # fmt: skip
