"""Writing a graph to a folder: arrays with their checksums, and the manifest last."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from proptrain.data.degrees import degrees_of
from proptrain.data.disk import decoded, is_order
from proptrain.data.graph import MAX_NODES, EdgeCounts, Graph
from proptrain.data.manifest import (
    MANIFEST,
    WORK,
    Manifest,
    StoredArray,
    StoredBlock,
    check_blocks,
    manifest_bytes,
)
from proptrain.data.mapped import forget, parts_of
from proptrain.errors import InvalidInputError, OutputExistsError, WrongTypeError
from proptrain.system.files import check_output, whole_folder

BLOCK_ENTRIES = 1 << 24
"""Entries of a block: 64 MB of neighbours, read in a fraction of a second."""


def save_graph(
    graph: Graph,
    folder: str | Path,
    *,
    ids: Any = None,
    order: NDArray[Any] | None = None,
    n_blocks: int | None = None,
    overwrite: bool = False,
) -> None:
    """Write a graph that is in memory to a folder, whole or not at all; see `DiskGraph`.

    ``ids`` (n,) are whole numbers or text, none twice. ``order`` is that of the rows, as
    `locality_order` returns it: the nodes keep their numbers. There are as many blocks as asked
    for, or so many that each has about 16 million entries.

    >>> from tempfile import TemporaryDirectory
    >>> from proptrain import DiskGraph, graph_from_edges
    >>> with TemporaryDirectory() as folder:
    ...     save_graph(graph_from_edges([(0, 1), (1, 2)]), f"{folder}/graph")
    ...     DiskGraph(f"{folder}/graph").to_graph()
    Graph(3 nodes, 2 edges)
    """
    if not isinstance(graph, Graph):
        raise WrongTypeError(
            f"save_graph takes a proptrain.Graph, got {type(graph).__name__}. Make one first: "
            "Graph(matrix) or graph_from_edges(pairs)."
        )
    check_graph_output(Path(folder), overwrite=overwrite)
    if n_blocks is not None:
        check_blocks(n_blocks)
    if order is not None and not is_order(order, graph.n_nodes):
        raise InvalidInputError(f"An order must name each of the {graph.n_nodes:,} nodes once.")
    own_ids = None if ids is None else storable_ids(ids, graph.n_nodes)
    if own_ids is not None:
        _check_distinct(own_ids)
    rows = (graph if order is None else graph.renumbered(order)).adjacency
    is_weighted = bool((rows.data != 1).any())
    if n_blocks is None:
        n_blocks = max(1, -(-int(rows.nnz) // BLOCK_ENTRIES))
    ends = np.linspace(0, rows.nnz, n_blocks + 1)[1:-1]
    bounds = [0, *np.searchsorted(rows.indptr, ends).tolist(), graph.n_nodes]
    with whole_folder(folder, overwrite=overwrite) as place:
        blocks, degrees = [], []
        for number, (first, last) in enumerate(pairwise(bounds)):
            indptr = rows.indptr[first : last + 1]
            entries = slice(int(indptr[0]), int(indptr[-1]))
            weights = rows.data[entries] if is_weighted else None
            starts = indptr - indptr[0]
            blocks.append(
                write_block(
                    place, number, slice(first, last), [starts], rows.indices[entries], weights
                )
            )
            degrees.append(degrees_of(starts, weights))
        write_rest(place, blocks, graph.counts, degrees, own_ids, order)


def check_graph_output(folder: Path, *, overwrite: bool) -> None:
    """Raise early, before long work, if no graph could be written to this folder."""
    check_output(folder, overwrite=overwrite, folder=True)
    others = [path for path in folder.iterdir() if path.name != WORK] if folder.exists() else []
    if others and not (folder / MANIFEST).exists():
        raise OutputExistsError(
            f"Only a graph may be overwritten, but {folder} holds other files and is left alone. "
            "Choose another output."
        )


def write_block(
    folder: Path,
    number: int,
    rows: slice,
    starts: Iterable[NDArray[Any]],
    indices: NDArray[Any],
    weights: NDArray[np.float32] | None,
) -> StoredBlock:
    """Write the files of one block of rows; where they begin may come in parts."""
    is_short = len(indices) <= np.iinfo(np.int32).max
    n_rows, dtype = rows.stop - rows.start, np.int32 if is_short else np.int64
    return StoredBlock(
        rows.start,
        n_rows,
        len(indices),
        write_parts(folder / f"indptr-{number:05}.npy", dtype, n_rows + 1, starts),
        write_array(folder / f"indices-{number:05}.npy", indices.astype(np.int32, copy=False)),
        None if weights is None else write_array(folder / f"weights-{number:05}.npy", weights),
    )


def write_rest(
    folder: Path,
    blocks: list[StoredBlock],
    counts: EdgeCounts,
    degrees: Iterable[NDArray[np.float64]],
    ids: Any = None,
    order: NDArray[Any] | None = None,
    renumbered: str = "given",
) -> None:
    """Write degrees, ids and order, and then the manifest: with it the graph is there.

    Degrees come block by block; these and the others may lie in files.
    """
    n_nodes = sum(block.n_rows for block in blocks)
    stored_ids = None if ids is None else storable_ids(ids, n_nodes)
    manifest = Manifest(
        n_nodes,
        sum(block.n_entries for block in blocks),
        counts,
        tuple(blocks),
        write_parts(folder / "degrees.npy", np.float64, n_nodes, degrees),
        None if stored_ids is None else write_array(folder / "ids.npy", stored_ids),
        None if order is None else write_parts(folder / "order.npy", np.int32, n_nodes, [order]),
        None if order is None else renumbered,
    )
    write_whole(folder / MANIFEST, [manifest_bytes(manifest)])


def storable_ids(ids: Any, n_nodes: int) -> NDArray[Any] | None:
    """Return ids as they are stored; None if they are 0 … n-1, which is what none would mean."""
    # As objects first: NumPy would make text of a number that stands among text.
    array = np.asarray(ids, None if hasattr(ids, "dtype") else object)
    if array.dtype.kind == "O":
        array = _of_one_type(array)
    if array.dtype.kind == "U":
        array = np.char.encode(array, "utf-8")
    if array.dtype.kind == "u" and array.max(initial=0) > np.iinfo(np.int64).max:
        raise _too_large(array.max())
    if array.dtype.kind in "iu":
        array = array.astype("<i8", copy=False)  # it may lie in a file
    if array.shape != (n_nodes,) or array.dtype.kind not in "iS":
        raise InvalidInputError(
            f"There must be an id for each of the {n_nodes:,} nodes, whole numbers or text; got "
            f"{array.dtype} of shape {array.shape}."
        )
    return None if array.dtype.kind == "i" and _counts_up(array) else array


def _counts_up(array: NDArray[np.int64]) -> bool:
    """Tell whether an array, in a file or not, counts up from 0."""
    for rows in parts_of(len(array), array.itemsize):
        counts = bool((array[rows] == np.arange(rows.start, rows.stop)).all())
        forget(array)
        if not counts:
            return False
    return True


def _of_one_type(values: NDArray[Any]) -> NDArray[Any]:
    """Return objects as an array of text or of whole numbers, whichever all of them are."""
    types = {type(one) for one in values.flat}
    for text in (str, bytes):
        if all(issubclass(one, text) for one in types):
            return values.astype(text)
    if all(issubclass(one, int | np.integer) and one is not bool for one in types):
        try:
            return values.astype(np.int64)
        except OverflowError as error:
            raise _too_large(max(values.flat, key=abs)) from error
    names = " and ".join(sorted(one.__name__ for one in types))
    raise InvalidInputError(
        f"Ids must be whole numbers, or text, all of them; got {names}. Turn them into text."
    )


def _too_large(number: Any) -> InvalidInputError:
    return InvalidInputError(
        f"Ids that are numbers must be from -2^63 to 2^63 - 1, got {number}. Give them as text."
    )


def _check_distinct(ids: NDArray[Any]) -> None:
    """Raise if two nodes have the same id."""
    in_order = np.sort(ids)
    repeated = in_order[1:][in_order[1:] == in_order[:-1]]
    if len(repeated):
        (first,) = decoded(repeated[:1], "ids").tolist()
        raise InvalidInputError(
            f"Every node must have an id of its own, but {first!r} is that of several. Give each "
            "another, or none to have them numbered."
        )


def write_array(path: Path, *parts: NDArray[Any]) -> StoredArray:
    """Write an array, or several one behind the other, to a file that is there once it is whole."""
    return write_parts(path, np.result_type(*parts), sum(len(part) for part in parts), parts)


def write_parts(
    path: Path, dtype: DTypeLike, length: int, parts: Iterable[NDArray[Any]]
) -> StoredArray:
    """Write the same from parts of which no two need be there at a time."""
    dtype = np.dtype(dtype).newbyteorder("<")
    header = io.BytesIO()
    described = {"descr": dtype.str, "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(header, described)

    def contents() -> Iterable[bytes]:
        yield header.getvalue()
        for part in parts:
            for rows in parts_of(len(part), dtype.itemsize):
                yield np.ascontiguousarray(part[rows], dtype=dtype).tobytes()
                forget(part)

    return StoredArray(path.name, dtype.str, length, write_whole(path, contents()))


def write_whole(path: Path, contents: Iterable[bytes]) -> str:
    """Write a file that takes its name when it is whole and on the disk; returns its SHA-256."""
    digest = hashlib.sha256()
    temporary = path.with_name(f"{path.name}.part")
    with temporary.open("wb") as file:
        for content in contents:
            file.write(content)
            digest.update(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return digest.hexdigest()


def append_numbers(file: BinaryIO, numbers: NDArray[Any]) -> bytes:
    """Write the bytes of an array to an open file; returns them, for a checksum."""
    content = np.ascontiguousarray(numbers).tobytes()
    file.write(content)  # tofile does not say that a disk is full
    return content


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values (m,) in their order, each once.

    >>> distinct(np.array([3, 1, 3]))
    array([1, 3])
    """
    # By sorting: where most values differ, that is many times faster than NumPy's hash table.
    values = np.sort(values)
    return values[np.r_[True, values[1:] != values[:-1]]] if len(values) else values


def check_node_count(n_nodes: int) -> None:
    """Raise if there are more nodes than numbers of 32 bits."""
    if n_nodes > MAX_NODES:
        raise InvalidInputError(f"A graph has at most {MAX_NODES:,} nodes, got {n_nodes:,}.")
