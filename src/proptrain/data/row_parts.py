"""A matrix whose rows lie in several files of a shared folder, looked at as if it were one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.disk import inverse
from proptrain.data.mapped import forget, parts_of, room_for, take_rows
from proptrain.data.shared import SharedFolder
from proptrain.data.shared_graph import SharedGraph


@dataclass(frozen=True, eq=False)
class RowParts:
    """Rows in the order of a graph's nodes, from files with those of a block each.

    It has what is asked of a matrix in batches: shape, type, and some rows of it at a time. Where
    the folder is mounted the files are mapped, else read anew each time, and none of them is kept;
    but of a renumbered graph, any of whose nodes come from all files, they are copied once.
    """

    graph: SharedGraph
    folder: SharedFolder
    name: str
    n_columns: int

    ndim = 2
    dtype = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, columns)."""
        return self.graph.n_nodes, self.n_columns

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return self.dtype.itemsize

    def __len__(self) -> int:
        return self.graph.n_nodes

    def __getitem__(self, nodes: slice | NDArray[Any]) -> NDArray[Any]:
        """Return the rows of some nodes."""
        wanted = np.arange(*nodes.indices(len(self))) if isinstance(nodes, slice) else nodes
        rows = wanted if self._place is None else self._place[wanted]
        picked = np.empty((len(rows), self.n_columns), self.dtype)
        bounds, order = self.graph.bounds, np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], bounds)
        if cuts[-1] - cuts[0] != len(rows):
            raise IndexError(f"Rows must be from 0 to {len(self) - 1:,}, got {rows.tolist()}.")
        for number, (start, stop) in enumerate(pairwise(cuts)):
            if start < stop:
                here = order[start:stop]
                picked[here] = self._rows_of(number, rows[here] - bounds[number])
        return picked

    def only(self, nodes: slice) -> RowParts | RowRange | NDArray[Any]:
        """Return the same for a range of nodes; where nothing is mapped, their rows are copied."""
        if self.folder.local is not None:
            return self
        copy = room_for((nodes.stop - nodes.start, self.n_columns), self.dtype)
        for number, block in enumerate(self.graph.manifest.blocks):
            whose = self.graph.nodes(block.rows)
            if isinstance(whose, slice):
                whose = np.arange(whose.start, whose.stop)
            rows = np.flatnonzero((whose >= nodes.start) & (whose < nodes.stop))
            for part in parts_of(len(rows), self.n_columns * self.itemsize):
                some = self.folder.read_rows(part_name(self.name, number), rows[part])
                copy[whose[rows[part]] - nodes.start] = some
                forget(copy)
        return numbered_from(nodes.start, copy, len(self))

    @cached_property
    def _place(self) -> NDArray[np.int64] | None:
        return None if self.graph.order is None else inverse(self.graph.order)

    @cached_property
    def _parts(self) -> dict[int, NDArray[Any]]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """Travel without what is mapped here."""
        names = ("graph", "folder", "name", "n_columns")
        return {name: self.__dict__[name] for name in names}

    def _rows_of(self, number: int, rows: NDArray[Any]) -> NDArray[Any]:
        """Return some rows of a block's file."""
        name = part_name(self.name, number)
        if self.folder.local is None and self._place is None:  # some of few files
            return self.folder.read_rows(name, rows)
        if number not in self._parts:
            self._parts[number] = self.folder.map(name)
        picked: NDArray[Any] = self._parts[number][rows]
        forget(self._parts[number])
        return picked


@dataclass(frozen=True, eq=False)
class RowRange:
    """Some rows of a matrix, by their numbers in it; others are not at hand.

    >>> RowRange(np.array([[5.0], [6.0]]), first=3, n_rows=9)[np.array([4, 3])]
    array([[6.],
           [5.]])
    """

    held: NDArray[Any]
    first: int
    n_rows: int

    @property
    def shape(self) -> tuple[int, int]:
        """That of the whole matrix."""
        return self.n_rows, self.held.shape[1]

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return some of the rows that are at hand."""
        picked: NDArray[Any] = take_rows(self.held, rows - self.first)
        forget(self.held)
        return picked


def numbered_from(first: int, held: NDArray[Any], n_rows: int) -> NDArray[Any] | RowRange:
    """Return rows by their numbers in a matrix; as they are, if they are all that it has."""
    return held if len(held) == n_rows else RowRange(held, first, n_rows)


def part_name(name: str, number: int) -> str:
    """Return the name of the file with a block's rows.

    >>> part_name("soft", 3)
    'soft-00003.npy'
    """
    return f"{name}-{number:05}.npy"
