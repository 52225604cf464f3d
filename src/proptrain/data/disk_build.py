"""From edge lists of any size to a graph in a folder, within a limit of memory.

Everything that is not finished lies in ``graph/building/``: ids, pairs, blocks' entries, and what
was done already. The same call goes on from there. The manifest comes last, and then that folder
goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.disk import DiskGraph, OnPart, cut_rows, inverse
from proptrain.data.disk_ids import IdMap, NumberedEdges, find_ids
from proptrain.data.disk_sort import PairBatch, PairSort, sort_pairs
from proptrain.data.disk_writer import (
    check_graph_output,
    check_node_count,
    write_array,
    write_rest,
    write_whole,
)
from proptrain.data.edge_files import EdgeFile, ids_of, load_readers, open_edges
from proptrain.data.manifest import MANIFEST, WORK, check_blocks
from proptrain.data.mapped import forget
from proptrain.data.order import community_order
from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    OutputExistsError,
    TableError,
    UnreadableFileError,
)
from proptrain.files import check_output, only_writer, remove_whole, unwritable_is_ours
from proptrain.memory import enough_in_words, in_words, left_of, parse_memory

LEAST = 100_000_000
"""Bytes that a build must have left beside Python and its libraries."""
_FOR_COMMUNITIES = 40
"""Bytes for each node, beside the graph itself, that finding communities takes."""
_PART = 1 << 20
"""Entries that are renumbered at a time."""


@dataclass(frozen=True)
class Nodes:
    """Which nodes there are, if the edges are not to tell: a count, or a file with their ids."""

    n_nodes: int | None = None
    file: Path | None = None
    id_column: str | None = None


def build_graph(
    edges: Sequence[str | Path],
    out: str | Path,
    *,
    memory: str | int = "2GB",
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    nodes: Nodes | None = None,
    renumber: bool = False,
    n_blocks: int | None = None,
    overwrite: bool = False,
    on_part: OnPart = lambda _: None,
) -> DiskGraph:
    r"""Make a graph in a folder from edge lists (.csv, .csv.gz, .tsv, .parquet), however large.

    Edges become what `Graph` makes of them: missing directions are added, duplicates merged (the
    largest weight stays), self-loops and zeros dropped, and counted. Ids are whole numbers or text;
    nodes are numbered in the order of their ids, or in that of the file in ``nodes``. The process
    stays below ``memory``. If it is interrupted, the same call goes on where it was.
    ``renumber`` has rows whose nodes are near each other lie together, see `renumbered_rows`.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "edges.csv").write_text("source,target\na,b\nb,c\n")
    ...     build_graph([f"{folder}/edges.csv"], f"{folder}/graph", memory="4GB").to_graph()
    Graph(3 nodes, 2 edges)
    """
    files = [open_edges(Path(path), source, target, weight) for path in edges]
    if not files:
        raise InvalidInputError("A graph is built from at least one edge list.")
    if n_blocks is not None:
        check_blocks(n_blocks)
        n_blocks = int(n_blocks)  # NumPy's would not go into the note of what it is made from
    wanted, out = nodes or Nodes(), Path(out)
    told = {
        "files": [_fingerprint(file.path) for file in files],
        "columns": [source, target, weight],
        "nodes": [wanted.n_nodes, wanted.file and _fingerprint(wanted.file), wanted.id_column],
        "renumber": renumber,
        "n_blocks": n_blocks,
    }
    load_readers()  # which takes memory
    budget = budget_of(memory, max(file.kept for file in files))
    with building(out, told, overwrite=overwrite) as work:
        first, share = (work / "first", 0.6) if renumber else (out, 1.0)
        if not (first / MANIFEST).exists():
            first.mkdir(exist_ok=True)
            _build(files, first, wanted, work, budget, n_blocks, _scaled(on_part, share))
        if renumber and not (out / MANIFEST).exists():
            _renumber(DiskGraph(first), out, work, budget, n_blocks, _scaled(on_part, 1 - share))
    return DiskGraph(out)


def _scaled(on_part: OnPart, factor: float) -> OnPart:
    return lambda share: on_part(factor * share)


def _build(
    files: list[EdgeFile],
    out: Path,
    wanted: Nodes,
    work: Path,
    budget: int,
    n_blocks: int | None,
    on_part: OnPart,
) -> None:
    share = 0.3 if wanted == Nodes() else 0.0
    if wanted.file is not None:
        ids, id_map = _given_ids(wanted.file, wanted.id_column)
    elif wanted.n_nodes is not None:
        ids, id_map = None, IdMap(wanted.n_nodes)
    else:
        ids = find_ids(files, work, budget, _scaled(on_part, share))
        is_plain = ids.dtype.kind == "i" and (len(ids) == 0 or 0 == ids[0] <= ids[-1] < len(ids))
        id_map = IdMap(len(ids), None if is_plain else ids)
    if id_map.n_nodes == 0:
        raise TableError(
            f"Edge lists must have at least one row, but {files[0].path.name} has none."
        )
    check_node_count(id_map.n_nodes)
    sources = [NumberedEdges(file, id_map, budget) for file in files]
    is_weighted = files[0].weight is not None
    sort = PairSort(work / "sort", id_map.n_nodes, is_weighted, budget, n_blocks)
    write_rest(out, *sort_pairs(sources, out, sort, _scaled(on_part, 1 - share)), ids)


def _given_ids(path: Path, id_column: str | None) -> tuple[NDArray[Any], IdMap]:
    """Return the ids that a table of nodes has, in its order."""
    import pyarrow as pa

    from proptrain.data.tables import read_nodes

    _, _, ids = read_nodes(path, id=id_column)
    own = ids_of(pa.array(ids.tolist() if ids.dtype.kind == "U" else ids))
    order = np.argsort(own, kind="stable")
    return own, IdMap(len(own), own[order], order)


# --- renumbering ------------------------------------------------------------------------------


def renumbered_rows(graph: DiskGraph, budget: int) -> tuple[NDArray[np.int64], str]:
    """Return an order of the rows in which neighbours lie near each other, and what it is by.

    Communities are found if the graph itself and some numbers for each node fit into the memory
    that is left. Larger graphs have their hubs together: what is looked up most often then lies
    in the least memory.
    """
    needed = 4 * graph.manifest.n_entries + _FOR_COMMUNITIES * graph.n_nodes
    if needed > budget:
        return np.argsort(-graph.degrees, kind="stable"), "degrees"
    blocks = [graph.block(number) for number in range(graph.n_blocks)]
    lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(b.indptr) for b in blocks)])
    indices = np.concatenate([np.zeros(0, np.int32), *(b.indices for b in blocks)])
    forget(*(block.indices for block in blocks))
    return community_order(np.cumsum(lengths), indices), "communities"


@dataclass(frozen=True, eq=False)
class _RenumberedBlock:
    """The edges of a block, each once, under other numbers."""

    graph: DiskGraph
    number: int
    place: NDArray[np.int64]

    def batches(self) -> Iterator[PairBatch]:
        """Yield all edges from a smaller to a larger number, a part at a time."""
        block = self.graph.block(self.number)
        for rows in cut_rows(block.indptr, _PART):
            indptr = block.indptr[rows.start : rows.stop + 1]
            entries = slice(int(indptr[0]), int(indptr[-1]))
            sources = np.repeat(np.arange(rows.start, rows.stop), np.diff(indptr))
            sources, targets = sources + block.rows.start, block.indices[entries]
            once = sources < targets
            weights = None if block.weights is None else block.weights[entries][once]
            ends = self.place[sources[once]], self.place[targets[once]]
            yield PairBatch(*ends, weights, len(targets) / max(1, len(block.indices)))
            forget(block.indices, block.weights)


def _renumber(
    graph: DiskGraph, out: Path, work: Path, budget: int, n_blocks: int | None, on_part: OnPart
) -> None:
    """Write a graph with its rows in another order."""
    kept = work / "order.json"
    if not kept.exists():
        order, name = renumbered_rows(graph, budget)
        write_array(work / "order.npy", order)
        write_whole(kept, [json.dumps(name).encode()])
    order, name = np.load(work / "order.npy"), json.loads(kept.read_bytes())
    place, manifest = inverse(order), graph.manifest
    sources = [_RenumberedBlock(graph, number, place) for number in range(graph.n_blocks)]
    sort = PairSort(work / "again", graph.n_nodes, manifest.is_weighted, budget, n_blocks)
    blocks, _, degrees = sort_pairs(sources, out, sort, on_part)
    ids = None if manifest.ids is None else np.load(graph.folder / "ids.npy", mmap_mode="r")
    write_rest(out, blocks, manifest.counts, degrees, ids, order, name)


# --- the folder -------------------------------------------------------------------------------


def budget_of(memory: str | int, kept: int = 0) -> int:
    """Return the bytes that a build may take beside what the process has already, and will keep."""
    limit = parse_memory(memory)
    budget = left_of(limit) - kept
    if budget < LEAST:
        raise InvalidInputError(
            f"memory must leave {in_words(LEAST)} for the build: Python, its libraries and reading "
            f"take {in_words(limit - budget)}, so give at least "
            f"{enough_in_words(limit - budget + LEAST)}; got {memory}."
        )
    return budget


@contextmanager
def building(out: Path, told: dict[str, Any], *, overwrite: bool) -> Iterator[Path]:
    """Yield the folder for what is not finished, with what an earlier call has left there.

    ``told`` is what the build is made from: of another one nothing is taken over.
    """
    check_output(out, overwrite=True, folder=True)
    out = out.resolve()  # a link stays, its target is replaced
    work, note = out / WORK, json.dumps(told, sort_keys=True).encode()
    with unwritable_is_ours(out), only_writer(out):
        _make_ready(out, work, note, overwrite=overwrite)
        try:
            yield work
        except (InvalidInputError, FileFormatError):  # of what cannot be used nothing is kept
            remove_whole(out, out)
            raise
        remove_whole(work, out)


def _make_ready(out: Path, work: Path, note: bytes, *, overwrite: bool) -> None:
    is_begun = (work / "inputs.json").exists()
    if is_begun and (work / "inputs.json").read_bytes() == note:
        return
    if is_begun and not overwrite:
        raise OutputExistsError(
            f"{out} holds the beginning of another build and is left alone. Call that one again to "
            "finish it, remove the folder, or ask for overwriting (--overwrite)."
        )
    if not is_begun:
        check_graph_output(out, overwrite=overwrite or not (out / MANIFEST).exists())
    if out.exists():
        remove_whole(out, out)
    work.mkdir(parents=True)
    write_whole(work / "inputs.json", [note])


def _fingerprint(path: Path) -> list[Any]:
    try:
        state = path.stat()
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    return [str(path.resolve()), state.st_size, state.st_mtime_ns]
