"""A graph in a folder, read a block of rows at a time.

::

    graph/
      manifest.json        what there is: counts, and the size and SHA-256 of every other file
      indptr-00000.npy     block 0: where each of its rows begins, counted from 0 in each block
      indices-00000.npy    … and the neighbours of its nodes, row after row
      weights-00000.npy    … and the weights of these edges; only if they are not all 1
      indptr-00001.npy     block 1, and so on
      degrees.npy          the sum of each node's weights
      ids.npy              the nodes' ids, if they are not 0 … n-1; text as UTF-8
      order.npy            if the graph was renumbered: whose place each row is

The matrix is symmetric, with an empty diagonal, sorted rows and no entry twice, as `Graph` has it.
Blocks are of about equal numbers of entries, and whoever has the manifest can read any of them
alone. The manifest is written last: a folder without one is no graph. Nothing in the folder is
believed: names cannot lead out of it, sizes are compared with the files before anything is read,
and a block's checksum and numbers are looked at before it is first used, since compiled loops would
follow a wrong one anywhere.

A renumbered graph has its rows in another order than its nodes. Whoever reads blocks sees rows;
ids, and whatever an engine takes and gives, are in the order of the nodes.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.graph import Graph

# Whoever reads blocks finds both here as well.
from proptrain.data.indices import inverse as inverse  # noqa: PLC0414
from proptrain.data.indices import is_order as is_order  # noqa: PLC0414
from proptrain.data.indices import with_short_indices
from proptrain.data.manifest import StoredArray, StoredGraph, read_manifest
from proptrain.data.mapped import forget, parts_of
from proptrain.data.npy import map_array
from proptrain.errors import FileFormatError, ProptrainError, UnreadableFileError
from proptrain.system.files import file_of

OnPart: TypeAlias = Callable[[float], None]
"""Is told the share of the work that has just been done."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of the adjacency matrix; numbers in ``indptr`` count the entries of ``indices``."""

    rows: slice
    indptr: NDArray[Any]
    indices: NDArray[Any]
    weights: NDArray[np.float32] | None


class DiskGraph(StoredGraph):
    """A graph in a folder, opened in no time and next to no memory.

    >>> import tempfile
    >>> from proptrain.data.disk_writer import save_graph
    >>> path = Graph(sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_graph(path, f"{folder}/graph")
    ...     graph = DiskGraph(f"{folder}/graph")
    ...     graph.verify()  # all files, checksums too
    ...     graph.ids(slice(0, 2)).tolist(), graph.stored_ids()
    ...     [part.rows for part in graph.parts(max_entries=3)], graph.block(0).indices.tolist()
    ...     graph.n_nodes, graph.n_edges, graph.n_blocks, graph.degrees.tolist()
    ...     graph, graph.to_graph()
    ([0, 1], None)
    ([slice(0, 2, None), slice(2, 3, None)], [1, 0, 2, 1])
    (3, 2, 1, [1.0, 2.0, 1.0])
    (DiskGraph(3 nodes, 2 edges, 1 block), Graph(3 nodes, 2 edges))
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder)
        self._maps: dict[str, NDArray[Any]] = {}
        self._looked_at: set[int] = set()
        for stored in self.manifest.arrays:
            self._check_size(stored)

    @property
    def degrees(self) -> NDArray[np.float64]:
        """Sum of each row's weights (n,), in the order of the rows."""
        return checked_degrees(self._array(self.manifest.degrees), self.folder)

    @cached_property
    def order(self) -> NDArray[Any] | None:
        """Whose row each one is (n,); None if they are in the order of the nodes."""
        if self.manifest.order is None:
            return None
        stored = self._array(self.manifest.order)
        order = np.array(stored)
        forget(stored)
        if not is_order(order, self.n_nodes):
            raise self._broken("order.npy must name each node once.")
        return order

    def ids(self, nodes: slice = slice(None)) -> NDArray[Any]:
        """Return the ids of some nodes, shape (m,), whole numbers or text; all by default."""
        if self.manifest.ids is None:
            return np.arange(*nodes.indices(self.n_nodes))
        stored = self._array(self.manifest.ids)
        ids = np.array(stored[nodes])
        forget(stored)
        return decoded(ids, "ids.npy")

    def stored_ids(self) -> NDArray[Any] | None:
        """Return the nodes' ids (n,) as they are stored, mapped; None if they are 0 … n-1."""
        return None if self.manifest.ids is None else self._array(self.manifest.ids)

    def block(self, number: int) -> Block:
        """Return a block, mapped; on first use all of it is looked at."""
        stored = self.manifest.blocks[number]
        indptr, indices, *weights = (self._array(one) for one in stored.arrays)
        block = Block(stored.rows, indptr, indices, weights[0] if weights else None)
        if number not in self._looked_at:
            check_block(block, self.n_nodes, self.folder)
            self._looked_at.add(number)
        return block

    def parts(self, max_entries: int, max_rows: int | None = None) -> Iterator[Block]:
        """Yield all rows in their order, at most about so many entries at a time.

        The pages of a part are let go of when the next is asked for.
        """
        for number in range(self.n_blocks):
            block = self.block(number)
            self._read_ahead(number + 1)
            for rows in cut_rows(block.indptr, max_entries, max_rows):
                top = block.rows.start
                here = slice(top + rows.start, top + rows.stop)
                indptr = block.indptr[rows.start : rows.stop + 1]
                yield Block(here, indptr, block.indices, block.weights)
                forget(block.indptr, block.indices, block.weights)

    def verify(self, on_part: OnPart | None = None) -> None:
        """Look at all files: checksums, and every number that a loop would follow."""
        total = sum(stored.n_bytes for stored in self.manifest.arrays)
        left = total
        for number, stored in enumerate(self.manifest.blocks):
            self.block(number)
            n_bytes = sum(one.n_bytes for one in stored.arrays)
            left -= n_bytes
            if on_part is not None:
                on_part(n_bytes / total)
        _ = self.degrees, self.order, self.ids(slice(0, 1))
        if on_part is not None:
            on_part(left / total)

    def to_graph(self) -> Graph:
        """Return the graph in memory, its nodes in their own order."""
        blocks = [self.block(number) for number in range(self.n_blocks)]
        lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(b.indptr) for b in blocks)])
        indices = np.concatenate([np.zeros(0, np.int32), *(b.indices for b in blocks)])
        weights = np.ones(len(indices), dtype=np.float32)
        if self.manifest.is_weighted:
            np.concatenate([np.asarray(b.weights) for b in blocks], out=weights)
        parts, shape = (weights, indices, np.cumsum(lengths)), (self.n_nodes, self.n_nodes)
        rows = with_short_indices(sp.csr_array(parts, shape=shape))
        graph = Graph.from_clean(rows, self.manifest.counts)
        return graph if self.order is None else graph.renumbered(inverse(self.order))

    def __repr__(self) -> str:
        """Show the size."""
        blocks = f"{self.n_blocks} block{'' if self.n_blocks == 1 else 's'}"
        return f"DiskGraph({self.n_nodes:,} nodes, {self.n_edges:,} edges, {blocks})"

    def __getstate__(self) -> dict[str, Any]:
        """Travel as a path and a manifest; who receives it looks for itself."""
        return {"folder": self.folder, "manifest": self.manifest, "_maps": {}, "_looked_at": set()}

    def _broken(self, what: str) -> FileFormatError:
        return _broken(self.folder, what)

    def _check_size(self, stored: StoredArray) -> None:
        path = file_of(self.folder, stored.name)
        try:
            found = path.stat().st_size
        except OSError as error:
            raise UnreadableFileError(
                f"{path} belongs to the graph but cannot be read: {error.strerror or error}. Take "
                "the whole folder, or build the graph again."
            ) from error
        if found != stored.n_bytes:
            raise self._broken(f"{stored.name} must have {stored.n_bytes:,} bytes, got {found:,}.")

    def _array(self, stored: StoredArray) -> NDArray[Any]:
        """Return a file as an array, mapped the first time, when its checksum is compared too."""
        if stored.name in self._maps:
            return self._maps[stored.name]
        self._check_size(stored)  # again: to read beyond the end of a file would end the process
        path = self.folder / stored.name
        try:
            # A plain view of it: the loops are compiled for plain arrays.
            array: NDArray[Any] = np.asarray(map_array(path))
            found = checksum_of(path)
        except FileFormatError as error:
            raise self._broken(str(error)) from error
        except OSError as error:
            why = error.strerror or error
            raise UnreadableFileError(f"{path} cannot be read: {why}.") from error
        if found != stored.sha256:
            raise self._broken(
                f"{stored.name} was changed after it was written: SHA-256 {found}, expected "
                f"{stored.sha256}."
            )
        if (array.dtype.str, array.shape) != (stored.dtype, (stored.length,)):
            raise self._broken(f"{stored.name} holds {array.dtype} of shape {array.shape}.")
        self._maps[stored.name] = array
        return array

    def _read_ahead(self, number: int) -> None:
        """Have the system fetch a block's neighbours while another block is worked on."""
        if number < self.n_blocks and hasattr(mmap, "MADV_WILLNEED"):
            stored = self.manifest.blocks[number].indices
            if stored.name in self._maps:
                mapped: Any = self._maps[stored.name].base
                mapped._mmap.madvise(mmap.MADV_WILLNEED)


def check_block(block: Block, n_nodes: int, folder: object) -> None:
    """Raise unless a block's numbers lead nowhere but into the graph of that folder."""
    indptr, indices, weights = block.indptr, block.indices, block.weights
    if indptr[0] != 0 or indptr[-1] != len(indices) or not _rises(indptr):
        raise _broken(folder, "an indptr must rise from 0 to the number of its block's entries.")
    for part in parts_of(len(indices), indices.itemsize):
        if not 0 <= indices[part].min() <= indices[part].max() < n_nodes:
            raise _broken(folder, "neighbours must be numbers of nodes.")
        if weights is not None and not 0 < weights[part].min() <= weights[part].max() < np.inf:
            raise _broken(folder, "weights must be finite and above 0.")
        forget(indices, weights)


def _rises(numbers: NDArray[Any]) -> bool:
    """Tell whether no number, in a file or not, is below the one before it."""
    for rows in parts_of(len(numbers) - 1, numbers.itemsize):
        here = numbers[rows.start : rows.stop + 1]
        rises = bool((here[1:] >= here[:-1]).all())
        forget(numbers)
        if not rises:
            return False
    return True


def checked_degrees(degrees: NDArray[np.float64], folder: object) -> NDArray[np.float64]:
    """Return the degrees of the graph in that folder, or say that they are none."""
    for rows in parts_of(len(degrees), degrees.itemsize):
        if not (np.isfinite(degrees[rows]).all() and (degrees[rows] >= 0).all()):
            raise _broken(folder, "degrees.npy must hold finite numbers, none below 0.")
        forget(degrees)
    return degrees


def _broken(folder: object, what: str) -> FileFormatError:
    return FileFormatError(f"Cannot use the graph {folder}: {what} Build it again.")


def cut_rows(
    indptr: NDArray[Any], max_entries: int, max_rows: int | None = None
) -> Iterator[slice]:
    """Cut rows into runs of at most so many entries; a row that has more is one by itself.

    >>> list(cut_rows(np.array([0, 2, 4, 9, 9]), 4))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    first, n_rows = 0, len(indptr) - 1
    while first < n_rows:
        last = min(n_rows, first + (max_rows or n_rows))
        ends = indptr[first + 1 : last + 1]
        # A number of its own type: NumPy would make a copy of all for another.
        most = indptr.dtype.type(min(int(indptr[first]) + max_entries, int(ends[-1])))
        n_fitting = max(1, int(np.searchsorted(ends, most, side="right")))
        yield slice(first, first + n_fitting)
        first += n_fitting


def decoded(
    values: NDArray[Any], name: str, error: type[ProptrainError] = FileFormatError
) -> NDArray[Any]:
    """Return text for bytes in UTF-8, and whatever else as it is."""
    try:
        return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values
    except UnicodeDecodeError as told:
        raise error(f"{name} must hold text in UTF-8, but does not ({told}).") from told


def checksum_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
