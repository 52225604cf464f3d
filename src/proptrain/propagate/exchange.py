"""Propagation by several workers, each with a block of rows: what one of them does.

A worker has the rows of its block and needs, in every step, those rows of the state that they have
neighbours in. Which these are is found out once. In each step a worker puts together what the
others sent, takes the step for its own rows, and cuts from the result a piece for each of the
others: one exchange a step, of what is needed and no more. Since rows are summed up in the order
in which the other engines do it, results are the same to the bit however many workers there are,
and those of `BlockedEngine`.

Nothing here knows who brings the pieces from one worker to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from proptrain.data.degrees import degrees_of
from proptrain.data.disk import Block
from proptrain.data.mapped import parts_of
from proptrain.data.shared_graph import SharedGraph
from proptrain.kernels import PlainOperator, mix_numbered, mix_plain
from proptrain.kernels.columns import aligned_zeros
from proptrain.propagate.normalisation import Normalisation, factors_of, numbered_rows


@dataclass(frozen=True, eq=False)
class Share:
    """A block of rows; its neighbours are numbered among the rows of the state that it needs."""

    n_rows: int
    n_needed: int
    top: int
    """Number of its own first row among those needed."""
    indptr: NDArray[Any]
    indices: NDArray[np.int32]
    weights: NDArray[Any] | None
    """Of the entries of A, if they are not all 1; if it is numbered, the numbers of Â's."""
    out: NDArray[np.float64]
    """(rows,) factor of each row."""
    into: NDArray[np.float64]
    """(rows,) factor with which its row of the state is multiplied for others."""
    loops: bool
    is_numbered: bool = False
    """Whether entries are those of Â, loops too, each with its number; no factor is used then."""


@dataclass(frozen=True, eq=False)
class Sends:
    """Which of a block's rows go to which worker: those of worker i from starts[i] on."""

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]

    def cut(self, state: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the piece for each worker."""
        ends = zip(self.starts[:-1], self.starts[1:], strict=True)
        return [state[self.rows[first:last]] for first, last in ends]


@dataclass(frozen=True)
class Step:
    """What all workers do alike in a step, for some columns that are padded to a kernel's width."""

    columns: slice
    width: int
    neighbours: float
    is_last: bool


def read_share(
    graph: SharedGraph, number: int, kind: Normalisation, scale: float, is_numbered: bool
) -> tuple[Any, ...]:
    """Read a block from where all see it; returns also, for each block, the rows needed of it."""
    degrees = graph.degrees if is_numbered else None
    share, needs = share_of(graph.block(number), graph.bounds, kind, scale, degrees)
    return share, *needs


def share_of(
    block: Block,
    bounds: NDArray[np.int64],
    kind: Normalisation,
    scale: float = 1.0,
    degrees: NDArray[np.float64] | None = None,
) -> tuple[Share, list[NDArray[np.int32]]]:
    """Return a block whose neighbours are numbered among the rows that it needs, its own too.

    Returns also these rows, for each of the blocks that begin at ``bounds``, counted from where it
    begins. ``scale`` is the one for the degrees of all blocks, see `common_scale`. With the
    ``degrees`` (n,) of all nodes its entries get numbers.
    """
    rows, n_nodes = block.rows, int(bounds[-1])
    is_needed = np.zeros(n_nodes, dtype=bool)
    for part in parts_of(len(block.indices), 8):  # NumPy looks up by copies of 64 bits
        is_needed[block.indices[part]] = True
    is_needed[rows] = True
    needed = np.flatnonzero(is_needed)
    place = np.empty(n_nodes, np.int32)  # of the others nothing is known, or asked for
    place[needed] = np.arange(len(needed), dtype=np.int32)
    needed = needed.astype(np.int32)
    cuts = np.searchsorted(needed, bounds.astype(np.int32))
    needs = [
        needed[first:last] - np.int32(bound)
        for first, last, bound in zip(cuts[:-1], cuts[1:], bounds[:-1], strict=True)
    ]
    out, into = factors_of(degrees_of(block.indptr, block.weights), kind, scale)
    top = int(np.searchsorted(needed, np.int32(rows.start)))
    numbered = np.empty(len(block.indices), np.int32)
    for part in parts_of(len(numbered), 8):
        numbered[part] = place[block.indices[part]]
    entries, loops = (block.indptr, numbered, block.weights), kind == "symmetric"
    if degrees is not None:
        columns = factors_of(degrees[needed], kind, scale)[1]
        operator = numbered_rows(*entries, out, columns, loops=loops, top=top)
        entries, into = (operator.indptr, operator.indices, operator.data), np.ones_like(out)
    for array in entries:
        if array is not None:
            array.flags.writeable = False  # as those that others sent: one kernel for both
    sizes = (rows.stop - rows.start, len(needed), top)
    return Share(*sizes, *entries, out, into, loops, degrees is not None), needs


def sends_of(*needs: NDArray[np.int32]) -> Sends:
    """Return what a block sends, from the rows that each worker needs of it."""
    lengths = [0, *(len(rows) for rows in needs)]
    return Sends(np.concatenate(needs), np.cumsum(lengths, dtype=np.int64))


def first_pieces(
    share: Share, sends: Sends, signal: NDArray[Any], columns: slice
) -> tuple[Any, ...]:
    """Return a sign that it is done, and a piece of the signal, times its factors, for each worker.

    The sign is there as in `take_step`: a single result would come as a tuple, several come apart.
    """
    scaled = signal[:, columns] * share.into.astype(signal.dtype)[:, None]
    return True, *sends.cut(scaled)


def take_step(
    share: Share,
    sends: Sends,
    signal: NDArray[Any],
    held: NDArray[np.int64],
    step: Step,
    *pieces: NDArray[Any],
) -> tuple[Any, ...]:
    """Take a step for the rows of a block, from the pieces of all workers.

    Returns a sign that it is done and a piece for each worker; after the last step the block's
    part of the result instead.
    """
    number, n_columns = signal.dtype.type, step.columns.stop - step.columns.start
    scaled, at = aligned_zeros((share.n_needed, step.width), signal.dtype), 0
    for piece in pieces:
        scaled[at : at + len(piece), :n_columns] = piece
        at += len(piece)
    start, following = (aligned_zeros((share.n_rows, step.width), signal.dtype) for _ in range(2))
    start[:, :n_columns] = signal[:, step.columns]
    out, into = share.out.astype(number), share.into.astype(number)
    beyond = np.ones_like(into) if step.is_last else into
    if share.is_numbered:
        mix_numbered(_numbers_of(share, number), scaled, start, step.neighbours, following)
    else:
        operator = PlainOperator(
            share.indptr, share.indices, out, into, share.loops, share.weights, share.top
        )
        mix_plain(operator, scaled, start, out, beyond, step.neighbours, following)
    following[held] = start[held] * beyond[held, None]
    told = following[:, :n_columns]
    return True, *([np.ascontiguousarray(told)] if step.is_last else sends.cut(told))


def _numbers_of(share: Share, dtype: DTypeLike) -> sp.csr_array:
    """Return the rows of Â with numbers of this type."""
    numbers = np.asarray(share.weights, dtype)
    shape = (share.n_rows, share.n_needed)
    return sp.csr_array((numbers, share.indices, share.indptr), shape=shape)


def side_by_side(*parts: NDArray[Any]) -> NDArray[Any]:
    """Return the columns of several matrices as one."""
    return np.hstack(parts)


def task_bytes(
    n_nodes: int,
    n_needed: int,
    n_rows: int,
    n_entries: int,
    width: int,
    itemsize: int,
    *,
    is_numbered: bool = False,
) -> int:
    """Return what a task over a block needs at most: a step, or to read the block before all steps.

    A step has all that is sent, gathered, computed and sent on. Who reads a block finds out which
    rows it needs, by a flag and a number for every node of the graph. If entries get numbers, the
    degrees of all nodes are read, and rows are copied with their loops and numbers.
    """
    states = 2 * n_needed + 4 * n_rows
    step = states * width * itemsize + 8 * n_entries + 24 * n_rows
    reading = 5 * n_nodes + 16 * n_needed + 12 * n_entries + 48 * n_rows
    if is_numbered:
        step += (12 + itemsize) * (n_entries + n_rows)
        reading += 8 * n_nodes + 24 * n_needed + 40 * (n_entries + n_rows)
    return max(step, reading)
