"""From edge lists of any size to a graph in a folder, within a limit of memory.

Everything that is not finished lies in ``graph/building/``: ids, pairs, blocks' entries, what was
done already, and the graph that is being made. The same call goes on from there. The manifest comes
last, and then the new graph takes the place of the folder, with whatever was in it: a graph that is
to be overwritten is there until then.
"""

from __future__ import annotations

import json
import reprlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.disk import DiskGraph, OnPart, cut_rows
from proptrain.data.disk_given import given_ids, kept_by
from proptrain.data.disk_ids import IdMap, NumberedEdges, find_ids
from proptrain.data.disk_notes import Kept, check_notes, read_note, write_note
from proptrain.data.disk_sort import PairBatch, PairSort, sort_pairs
from proptrain.data.disk_writer import (
    check_graph_output,
    check_node_count,
    write_parts,
    write_rest,
    write_whole,
)
from proptrain.data.edge_files import EdgeFile, load_readers, open_edges
from proptrain.data.manifest import MANIFEST, WORK, check_blocks
from proptrain.data.mapped import forget, parts_of
from proptrain.data.order import community_order
from proptrain.data.tables import warn_if_nameless
from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    NotEnoughMemoryError,
    OutputExistsError,
    ProptrainError,
    TableError,
    UnreadableFileError,
    WrongTypeError,
)
from proptrain.system.files import (
    check_output,
    kind_at,
    only_writer,
    put_in_place,
    read_description,
    remove_whole,
    unwritable_is_ours,
)
from proptrain.system.memory import enough_in_words, give_back, in_words, left_of, parse_memory

LEAST = 100_000_000
"""Bytes that a build must have left beside Python and its libraries."""
_FOR_ORDER = 24
"""Bytes for each node that it takes to find an order of them."""
_TO_COMPILE = 80_000_000
"""Bytes that it takes to have what finds communities compiled, or loaded."""
_NUMBERS, _TEXTS, _GIVEN, _TO_RENUMBER = 1.2e-6, 5e-6, 0.6e-6, 1.1e-6
"""Seconds of a core for a row whose ids are numbers or text, for one whose ids are numbers below
n_nodes, and besides to renumber it: of 5 and 20 million rows, 0.7 to 1.2 times what they took."""
_PART = 1 << 20
"""Entries, and rows, that are renumbered at a time."""


@dataclass(frozen=True)
class Nodes:
    """Which nodes there are, if the edges are not to tell: a count, or a file with their ids."""

    n_nodes: int | None = None
    file: Path | None = None
    id_column: str | None = None


@dataclass(frozen=True)
class _Plan:
    """How a graph is built: from which nodes, where, and within what memory."""

    wanted: Nodes
    work: Path
    limit: int
    """Bytes that the process may have."""
    budget: int
    """Bytes that the build may take."""
    n_blocks: int | None
    renumber: bool

    def check_fits(self, needed: int, what: str) -> None:
        """Raise unless the build may take so many bytes, and say how many more would do."""
        if needed > self.budget:
            raise NotEnoughMemoryError(
                f"memory must leave {in_words(needed)} {what}, but leaves "
                f"{in_words(self.budget)}. Give at least "
                f"{enough_in_words(self.limit - self.budget + needed)}, and the same call goes on "
                "where it was."
            )


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
    stays below ``memory``. If it is interrupted, the same call goes on where it was. A graph that
    it overwrites stays until the new one is whole.
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
    for file in files:
        if file.separator:
            warn_if_nameless((file.source, file.target), file.path.name)
    if n_blocks is not None:
        check_blocks(n_blocks)
        n_blocks = int(n_blocks)  # NumPy's would not go into the note of what it is made from
    if not isinstance(nodes, Nodes | None):
        raise WrongTypeError(
            "nodes must be a proptrain.data.disk_build.Nodes, such as Nodes(n_nodes=1000) or "
            f"Nodes(file=Path('nodes.csv'), id_column='id'); got {reprlib.repr(nodes)}."
        )
    wanted, out = nodes or Nodes(), Path(out)
    told = {
        "files": [_fingerprint(file.path) for file in files],
        "columns": [source, target, weight],
        "nodes": [wanted.n_nodes, wanted.file and _fingerprint(wanted.file), wanted.id_column],
        "renumber": renumber,
        "n_blocks": n_blocks,
    }
    load_readers()  # which takes memory
    kept = [file.kept for file in files]
    if wanted.file is not None:
        kept.append(kept_by(wanted.file, wanted.id_column))
    budget = budget_of(memory, max(kept))
    with building(out, told, overwrite=overwrite) as (work, new):
        plan = _Plan(wanted, work, parse_memory(memory), budget, n_blocks, renumber)
        first, share = (work / "first", 0.6) if renumber else (new, 1.0)
        if not (first / MANIFEST).exists():
            first.mkdir(exist_ok=True)
            _build(files, first, plan, _scaled(on_part, share))
        if renumber and not (new / MANIFEST).exists():
            _renumber(DiskGraph(first), new, plan, _scaled(on_part, 1 - share))
    return DiskGraph(out)


def build_seconds(files: Sequence[EdgeFile], nodes: Nodes, *, renumber: bool = False) -> float:
    """Estimate how long a build takes on one ordinary core, from the beginning of each file.

    The memory it may have is no part of it: sorting on disk takes little longer than in memory.
    """
    seconds, known = 0.0, nodes.n_nodes is not None
    for file in files:
        n_rows, has_numbers = file.look()
        price = _GIVEN if known else _NUMBERS if has_numbers else _TEXTS
        seconds += n_rows * (price + _TO_RENUMBER * renumber)
    return seconds


def _scaled(on_part: OnPart, factor: float) -> OnPart:
    return lambda share: on_part(factor * share)


def _build(files: list[EdgeFile], out: Path, plan: _Plan, on_part: OnPart) -> None:
    wanted, budget = plan.wanted, plan.budget
    share = 0.3 if wanted == Nodes() else 0.0
    if wanted.file is not None:
        folder, check_fits = plan.work / "given", plan.check_fits
        ids, id_map = given_ids(wanted.file, wanted.id_column, folder, budget, check_fits)
    elif wanted.n_nodes is not None:
        ids, id_map = None, IdMap(wanted.n_nodes)
    else:
        ids = find_ids(files, plan.work, budget, _scaled(on_part, share))
        is_plain = ids.dtype.kind == "i" and (len(ids) == 0 or 0 == ids[0] <= ids[-1] < len(ids))
        id_map = IdMap(len(ids), None if is_plain else ids)
    if id_map.n_nodes == 0:
        raise TableError(
            f"Edge lists must have at least one row, but {files[0].path.name} has none."
        )
    check_node_count(id_map.n_nodes)
    for file in files:
        ends = (file.source, file.target)
        if file.separator and id_map.has_texts(ends):
            warn_if_nameless(ends, file.path.name, are_ids=True)
    if plan.renumber:
        _check_order_fits(id_map.n_nodes, plan)  # before all the work
    sources = [NumberedEdges(file, id_map, budget) for file in files]
    is_weighted = files[0].weight is not None
    sort = PairSort(plan.work / "sort", id_map.n_nodes, is_weighted, budget, plan.n_blocks)
    write_rest(out, *sort_pairs(sources, out, sort, _scaled(on_part, 1 - share)), ids)


# --- renumbering ------------------------------------------------------------------------------


def renumbered_rows(graph: DiskGraph, budget: int) -> tuple[NDArray[np.int64], str]:
    """Return an order of the rows in which neighbours lie near each other, and what it is by.

    Communities are found if the graph itself and some numbers for each node fit into the memory
    that is left. Larger graphs have their hubs together: what is looked up most often then lies
    in the least memory.
    """
    n_nodes, n_entries = graph.n_nodes, graph.manifest.n_entries
    if 4 * n_entries + _FOR_ORDER * n_nodes + _TO_COMPILE > budget:
        return _hubs_first(graph), "degrees"
    is_short = n_entries <= np.iinfo(np.int32).max
    indptr: NDArray[np.integer]
    indptr = np.zeros(n_nodes + 1, np.int32 if is_short else np.int64)
    indices = np.empty(n_entries, np.int32)
    for block in graph.parts(_PART, _PART):
        at = indptr[block.rows.start]
        ends = block.indptr[1:] - block.indptr[0]
        indptr[block.rows.start + 1 : block.rows.stop + 1] = at + ends
        entries = slice(int(block.indptr[0]), int(block.indptr[-1]))
        indices[at : at + ends[-1]] = block.indices[entries]
    return community_order(indptr, indices), "communities"


def _hubs_first(graph: DiskGraph) -> NDArray[np.int64]:
    """Return the rows by their degrees, the largest first."""
    degrees, keys = graph.degrees, np.empty(graph.n_nodes)
    for rows in parts_of(graph.n_nodes, degrees.itemsize):
        np.negative(degrees[rows], out=keys[rows])
        forget(degrees)
    return np.argsort(keys, kind="stable")


def _check_order_fits(n_nodes: int, plan: _Plan) -> None:
    plan.check_fits(_FOR_ORDER * n_nodes, f"to renumber {n_nodes:,} nodes")


@dataclass(frozen=True, eq=False)
class _RenumberedBlock:
    """The edges of a block, each once, under other numbers."""

    graph: DiskGraph
    number: int
    place: NDArray[np.int32]

    def batches(self) -> Iterator[PairBatch]:
        """Yield all edges from a smaller to a larger number, a part at a time."""
        block = self.graph.block(self.number)
        for rows in cut_rows(block.indptr, _PART, _PART):
            indptr = block.indptr[rows.start : rows.stop + 1]
            entries = slice(int(indptr[0]), int(indptr[-1]))
            sources = np.repeat(np.arange(rows.start, rows.stop), np.diff(indptr))
            sources, targets = sources + block.rows.start, block.indices[entries]
            once = sources < targets
            weights = None if block.weights is None else block.weights[entries][once]
            ends = self.place[sources[once]], self.place[targets[once]]
            yield PairBatch(*ends, weights, len(targets) / max(1, len(block.indices)))
            forget(block.indptr, block.indices, block.weights)


def _renumber(graph: DiskGraph, out: Path, plan: _Plan, on_part: OnPart) -> None:
    """Write a graph with its rows in another order."""
    order, name = _order_of(graph, plan)
    place, manifest = _places_in(order), graph.manifest
    # Of what there was to begin with, finding the order may have kept some.
    budget = min(plan.budget, left_of(plan.limit) + place.nbytes) - place.nbytes
    sources = [_RenumberedBlock(graph, number, place) for number in range(graph.n_blocks)]
    again, is_weighted = plan.work / "again", manifest.is_weighted
    sort = PairSort(again, graph.n_nodes, is_weighted, budget, plan.n_blocks)
    blocks, _, degrees = sort_pairs(sources, out, sort, on_part)
    write_rest(out, blocks, manifest.counts, degrees, graph.stored_ids(), order, name)


def _order_of(graph: DiskGraph, plan: _Plan) -> tuple[NDArray[np.int32], str]:
    """Return the order of the rows, mapped, and what it is by; found once."""
    kept, path = plan.work / "order.json", plan.work / "order.npy"
    if not kept.exists():
        _check_order_fits(graph.n_nodes, plan)  # again: there may be less memory now
        found, name = renumbered_rows(graph, plan.budget)
        stored = write_parts(path, np.int32, len(found), [found])
        write_note(kept, name, [Kept(path, stored.sha256)])
        del found
        give_back()
    return np.load(path, mmap_mode="r"), read_note(kept)


def _places_in(order: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the place of each node in an order that lies in a file."""
    place = np.empty(len(order), np.int32)
    for part in parts_of(len(order), 8):
        place[order[part]] = np.arange(part.start, part.stop, dtype=np.int32)
        forget(order)
    return place


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
def building(out: Path, told: dict[str, Any], *, overwrite: bool) -> Iterator[tuple[Path, Path]]:
    """Yield the folder for what is not finished, and that for the graph, with what is there.

    ``told`` is what the build is made from: of another one nothing is taken over. At the end the
    graph takes the place of ``out``; what was there stays till then, and if this fails.
    """
    check_output(out, overwrite=True, folder=True)
    out = out.resolve()  # a link stays, its target is replaced
    work, note = out / WORK, json.dumps(told, sort_keys=True).encode()
    new = work / "graph"
    with unwritable_is_ours(out), only_writer(out):
        _make_ready(out, work, note, overwrite=overwrite)
        new.mkdir(exist_ok=True)
        try:
            yield work, new
        except (InvalidInputError, FileFormatError):  # of what cannot be used nothing is kept
            remove_whole(work, out)
            with suppress(OSError):  # there is a graph in it
                out.rmdir()
            raise
        put_in_place(new, out)


def _make_ready(out: Path, work: Path, note: bytes, *, overwrite: bool) -> None:
    check_graph_output(out, overwrite=overwrite or not kind_at(out / MANIFEST))
    begun = work / "inputs.json"
    if begun.exists() and read_description(work, begun.name) == note:
        if _is_whole(work):
            return
    elif begun.exists() and not overwrite:
        raise OutputExistsError(
            f"{out} holds the beginning of another build, or of this one with files that have "
            "changed since, and is left alone. Call the other again to finish it, remove the "
            "folder, or ask for overwriting (--overwrite)."
        )
    if work.exists():
        remove_whole(work, out)
    work.mkdir(parents=True)
    write_whole(begun, [note])


def _is_whole(work: Path) -> bool:
    """Tell whether what an earlier call has left can be counted on; if not, the user is told."""
    try:
        check_notes(work)
    except (ProptrainError, OSError, ValueError, TypeError) as fault:
        warnings.warn(
            f"What an earlier call has left in {work} is damaged and not used, the build begins "
            f"anew: {fault} Have a look at the disk.",
            UserWarning,
            stacklevel=5,
        )
        return False
    return True


def _fingerprint(path: Path) -> list[Any]:
    try:
        state = path.stat()
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    return [str(path.resolve()), state.st_size, state.st_mtime_ns]
