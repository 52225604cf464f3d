"""A graph in a folder that several machines see; each reads the blocks that it works on."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.disk import Block, check_block, checked_degrees, decoded, is_order
from proptrain.data.manifest import MANIFEST, Manifest, StoredGraph, parse_manifest
from proptrain.data.shared import SharedFolder
from proptrain.errors import FileFormatError, UnreadableFileError
from proptrain.system.files import DESCRIPTION


class SharedGraph(StoredGraph):
    """What `DiskGraph` is, read whole blocks at a time and not mapped; travels as its manifest.

    >>> import tempfile
    >>> import scipy.sparse as sp
    >>> from proptrain.data.disk_writer import save_graph
    >>> from proptrain.data.graph import Graph
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_graph(Graph(sp.csr_array([[0, 1], [1, 0]])), f"{folder}/edge")
    ...     SharedGraph(f"file://{folder}/edge").block(0).indices.tolist()
    [1, 0]
    """

    def __init__(self, place: str | Path) -> None:
        self.folder = SharedFolder(place)
        self.manifest = _manifest_of(self.folder)

    def __getstate__(self) -> dict[str, Any]:
        """Travel without the arrays that were read."""
        return {"folder": self.folder, "manifest": self.manifest}

    @property
    def bounds(self) -> NDArray[np.int64]:
        """Where each block begins, and the last one ends (blocks + 1,)."""
        starts = [block.first for block in self.manifest.blocks]
        return np.array([*starts, self.n_nodes], dtype=np.int64)

    @property
    def degrees(self) -> NDArray[np.float64]:
        """Sum of each row's weights (n,), in the order of the rows; read each time."""
        degrees: NDArray[np.float64] = self.folder.read("degrees.npy", self.manifest.degrees)
        return checked_degrees(degrees, self.folder.address)

    @cached_property
    def order(self) -> NDArray[Any] | None:
        """Whose row each one is (n,); None if they are in the order of the nodes."""
        if self.manifest.order is None:
            return None
        order = self.folder.read("order.npy", self.manifest.order)
        if not is_order(order, self.n_nodes):
            raise FileFormatError(
                f"Cannot use the graph {self.folder.address}: order.npy must name each node once. "
                "Build it again."
            )
        return order

    def stored_ids(self) -> NDArray[Any] | None:
        """Return the nodes' ids as they are stored; None if they are 0 … n-1."""
        ids = self.manifest.ids
        return None if ids is None else self.folder.read("ids.npy", ids)

    def ids(self) -> NDArray[Any]:
        """Return the nodes' ids (n,), whole numbers or text."""
        stored = self.stored_ids()
        return np.arange(self.n_nodes) if stored is None else decoded(stored, "ids.npy")

    def nodes(self, rows: slice) -> slice | NDArray[Any]:
        """Return whose rows these are."""
        return rows if self.order is None else self.order[rows]

    def block(self, number: int) -> Block:
        """Read a block, with its checksums and every number that a loop would follow."""
        stored = self.manifest.blocks[number]
        indptr, indices, *weights = (self.folder.read(one.name, one) for one in stored.arrays)
        block = Block(stored.rows, indptr, indices, weights[0] if weights else None)
        check_block(block, self.n_nodes, self.folder.address)
        return block


def _manifest_of(folder: SharedFolder) -> Manifest:
    try:
        content = folder.read_bytes(MANIFEST, DESCRIPTION)
    except UnreadableFileError as error:
        raise UnreadableFileError(
            f"{folder.address} is no graph folder that can be read: {error} Give the folder that "
            "`proptrain graph build --out` wrote."
        ) from error
    return parse_manifest(bytes(content), folder.address)
