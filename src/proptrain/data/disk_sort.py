"""Pairs of node numbers, more than fit into memory, to sorted blocks of rows on disk.

Three stages, each kept as it goes, so that a process that was killed goes on where it was:

1. every source's pairs are written down, with how many there are for each range of rows;
2. the rows are cut into blocks of about equal work, and each pair is dealt out to the blocks of
   its two ends, as one number: row, column, and whether this is the direction that was given;
3. block by block these numbers are sorted in memory, and what occurs twice is merged.

Memory is taken for entries alone. Rows, of which a block may have far more than entries, are
walked through in parts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from proptrain.data.degrees import degrees_of
from proptrain.data.disk import checksum_of
from proptrain.data.disk_notes import Kept, read_note, write_note
from proptrain.data.disk_writer import (
    BLOCK_ENTRIES,
    append_numbers,
    distinct,
    write_array,
    write_block,
    write_parts,
)
from proptrain.data.graph import EdgeCounts
from proptrain.data.manifest import StoredArray, StoredBlock
from proptrain.data.mapped import parts_of
from proptrain.errors import GraphError, NotEnoughMemoryError
from proptrain.system.memory import give_back, in_words

_RANGES = 1 << 20
"""Ranges of rows that pairs are counted for; a block ends where a range does."""
_PAIR_BYTES = 128
"""Memory that dealing out takes for each pair."""
_ENTRY_BYTES = 64
"""Memory that sorting takes for each entry: its number, its weight, their order, copies."""
_ROW_BYTES = 48
"""Memory that a row of a part takes: where it begins, its degree, copies."""
_FULL = 0.8
"""Share of the memory for entries that a block is meant to take."""
_FEWEST = 1 << 12
_WORTH_IT = 0.05
"""Share of the memory for entries that must be free for reading on in a block."""
_DEALT = "dealt.json"
"""Note that all pairs have been dealt out."""
_ROUNDS = 16
"""Pairs are dealt out in this many batches before the place is noted down."""


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Some edges: both ends as node numbers (m,), weights (m,) or None for all 1."""

    rows: NDArray[Any]
    columns: NDArray[Any]
    weights: NDArray[Any] | None
    share: float
    """Of the source, for a progress bar."""
    where: str = "the graph"
    """What they are from, by a name for people."""


class PairSource(Protocol):
    """Where edges come from; asked again after an interruption, it gives the same ones."""

    def batches(self) -> Iterator[PairBatch]:
        """Yield all edges, a part at a time."""
        ...


@dataclass(frozen=True)
class PairSort:
    """What a sort is about, and where its unfinished parts lie."""

    work: Path
    n_nodes: int
    is_weighted: bool
    budget: int
    """Bytes of memory that it may take."""
    n_blocks: int | None = None

    @property
    def shift(self) -> int:
        """Rows of a range, as a power of 2."""
        return max(0, (self.n_nodes - 1).bit_length() - (_RANGES - 1).bit_length())

    @property
    def bits(self) -> int:
        """Bits of a node's number."""
        return max(1, (self.n_nodes - 1).bit_length())

    @property
    def most(self) -> int:
        """Entries that can be sorted at a time."""
        return max(self.budget // _ENTRY_BYTES, _FEWEST)

    @property
    def batch(self) -> int:
        """Pairs that are dealt out at a time."""
        return min(max(self.budget // _PAIR_BYTES, _FEWEST), BLOCK_ENTRIES // 8)


def sort_pairs(
    sources: Sequence[PairSource],
    out: Path,
    sort: PairSort,
    on_part: Callable[[float], None] = lambda _: None,
) -> tuple[list[StoredBlock], EdgeCounts, Iterator[NDArray[np.float64]]]:
    """Write the sorted blocks of all pairs to a folder; returns them, counts and degrees.

    Degrees come block by block, from files in the folder for unfinished parts.
    """
    sort.work.mkdir(exist_ok=True)
    for number, source in enumerate(sources):
        _write_pairs(source, number, sort, lambda share: on_part(share / len(sources) / 3))
        give_back()  # what reading took: dealing out and sorting shall have it
    bounds = _bounds(len(sources), sort)
    _deal_out(len(sources), bounds, sort, lambda share: on_part(share / 3))
    records = []
    for number, (first, last) in enumerate(pairwise(bounds)):
        records.append(_sort_block(number, first, last, out, sort))
        on_part(1 / 3 / (len(bounds) - 1))
    return _put_together(records, len(sources), out, sort)


# --- 1. pairs ---------------------------------------------------------------------------------


def _write_pairs(
    source: PairSource, number: int, sort: PairSort, on_part: Callable[[float], None]
) -> None:
    done = sort.work / f"pairs-{number:05}.json"
    if done.exists():
        on_part(1.0)
        return
    counts = {"given": 0, "self_loops": 0, "kept": 0}
    crc = weight_crc = 0
    ranges = np.zeros((sort.n_nodes >> sort.shift) + 1, dtype=np.int64)
    with (
        (sort.work / f"pairs-{number:05}.bin").open("wb") as file,
        (sort.work / f"pairs-{number:05}.weights").open("wb") as weight_file,
    ):
        for batch in source.batches():
            weights = _checked_weights(batch)
            off_diagonal = batch.rows != batch.columns
            kept = off_diagonal if weights is None else off_diagonal & (weights != 0)
            pairs = np.stack([batch.rows[kept], batch.columns[kept]], axis=1).astype(np.int32)
            crc = crc32(append_numbers(file, pairs), crc)
            if sort.is_weighted:
                own = np.ones(len(pairs), np.float32) if weights is None else weights[kept]
                weight_crc = crc32(append_numbers(weight_file, own), weight_crc)
            ranges += np.bincount(pairs.ravel() >> sort.shift, minlength=len(ranges))
            counts["given"] += len(batch.rows)
            counts["self_loops"] += len(batch.rows) - int(np.count_nonzero(off_diagonal))
            counts["kept"] += len(pairs)
            on_part(batch.share)
        for one in (file, weight_file):
            one.flush()
            os.fsync(one.fileno())
    stored, n_kept = write_array(sort.work / f"ranges-{number:05}.npy", ranges), counts["kept"]
    n_weights, dealt = n_kept if sort.is_weighted else 0, sort.work / _DEALT
    kept = [
        Kept(sort.work / stored.name, stored.sha256),
        Kept(done.with_suffix(".bin"), crc, 8 * n_kept, until=dealt),
        Kept(done.with_suffix(".weights"), weight_crc, 4 * n_weights, until=dealt),
    ]
    write_note(done, counts, kept)


def _checked_weights(batch: PairBatch) -> NDArray[np.float32] | None:
    if batch.weights is None:
        return None
    with np.errstate(over="ignore"):  # what is too large becomes infinite and is refused below
        weights: NDArray[np.float32] = batch.weights.astype(np.float32)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        raise GraphError(
            "Edge weights must be finite (below 3.4e38) and not negative, got "
            f"{batch.weights[bad][0]} in {batch.where}. Drop those edges, or turn the weights into "
            "similarities (larger = closer, never below 0)."
        )
    return weights


# --- 2. blocks --------------------------------------------------------------------------------


def _bounds(n_sources: int, sort: PairSort) -> list[int]:
    """Cut the rows where blocks of about equal work end; once, whatever memory there is later."""
    kept = sort.work / "bounds.json"
    if kept.exists():
        return [int(bound) for bound in read_note(kept)]
    ranges = sum(np.load(sort.work / f"ranges-{k:05}.npy") for k in range(n_sources))
    ranges = np.asarray(ranges) if n_sources else np.zeros(1, np.int64)
    total = int(ranges.sum())
    n_blocks = sort.n_blocks
    if n_blocks is None:
        # A block ends after the row with which it is full, so there must be room for that.
        n_blocks = max(1, -(-total // min(BLOCK_ENTRIES, int(_FULL * sort.most))))
    ends = np.arange(1, n_blocks) * (total / n_blocks)
    cuts = np.searchsorted(np.cumsum(ranges), ends, side="left") + 1 << sort.shift
    bounds = [0, *np.minimum(cuts, sort.n_nodes).tolist(), sort.n_nodes]
    write_note(kept, bounds)
    return bounds


def _deal_out(
    n_sources: int, bounds: list[int], sort: PairSort, on_part: Callable[[float], None]
) -> None:
    """Append each pair, as two numbers, to the files of the blocks that its ends lie in."""
    journal, crcs = sort.work / "dealing.json", [[0, 0] for _ in bounds[1:]]
    dealt: dict[str, Any] = {"source": 0, "offset": 0, "sizes": [0] * (len(bounds) - 1)}
    if (sort.work / _DEALT).exists():
        dealt["source"] = n_sources
    elif journal.exists():
        dealt = read_note(journal)
        crcs = dealt["crcs"]
    if dealt["source"] < n_sources:
        for number, size in enumerate(dealt["sizes"]):  # what was not noted down is dealt again
            for path, width in zip(_bucket(sort, number), (8, 4), strict=False):
                path.touch()
                os.truncate(path, size * width)
    on_part(dealt["source"] / max(n_sources, 1))
    for source in range(dealt["source"], n_sources):
        n_pairs = (sort.work / f"pairs-{source:05}.bin").stat().st_size // 8
        offset = dealt["offset"] if source == dealt["source"] else 0
        while offset < n_pairs:
            end = min(n_pairs, offset + sort.batch * _ROUNDS)
            for first in range(offset, end, sort.batch):
                _deal(source, first, min(end, first + sort.batch), bounds, sort, crcs)
            _note(journal, source, end, crcs, sort)
            on_part((end - offset) / n_pairs / n_sources)
            offset = end
        _note(journal, source + 1, 0, crcs, sort)
    if not (sort.work / _DEALT).exists():
        _note(sort.work / _DEALT, n_sources, 0, crcs, sort)
    for source in range(n_sources):
        for ending in ("bin", "weights"):
            (sort.work / f"pairs-{source:05}.{ending}").unlink(missing_ok=True)


def _deal(
    source: int, first: int, last: int, bounds: list[int], sort: PairSort, crcs: list[list[int]]
) -> None:
    """Deal some pairs out; ``crcs`` are those of each block's files, and are kept up to date."""
    path, shift = sort.work / f"pairs-{source:05}.bin", np.uint64(sort.bits + 1)
    pairs = np.fromfile(path, np.int32, 2 * (last - first), offset=8 * first).astype(np.uint64)
    rows, columns = pairs[::2], pairs[1::2]
    one = np.uint64(1)
    keys = np.concatenate([rows << shift | columns << one, columns << shift | rows << one | one])
    own: list[NDArray[Any]] = []
    if sort.is_weighted:
        path = sort.work / f"pairs-{source:05}.weights"
        weights = np.tile(np.fromfile(path, np.float32, last - first, offset=4 * first), 2)
        order = np.argsort(keys)
        keys, own = keys[order], [weights[order]]
    else:
        keys.sort()
    cuts = np.searchsorted(keys, np.array(bounds[1:-1], np.uint64) << shift)
    edges = [0, *cuts.tolist(), len(keys)]
    for number, (a, b) in enumerate(pairwise(edges)):
        if a < b:
            for k, (path, numbers) in enumerate(
                zip(_bucket(sort, number), [keys, *own], strict=True)
            ):
                with path.open("ab") as file:
                    content = append_numbers(file, numbers[a:b])
                crcs[number][k] = crc32(content, crcs[number][k])


def _bucket(sort: PairSort, number: int) -> list[Path]:
    """Return the files of a block's entries: their keys, and their weights if they have any."""
    endings = ("bin", "weights") if sort.is_weighted else ("bin",)
    return [sort.work / f"bucket-{number:05}.{ending}" for ending in endings]


def _note(journal: Path, source: int, offset: int, crcs: list[list[int]], sort: PairSort) -> None:
    """Note down how far pairs have been dealt out; what comes after is not counted on."""
    sizes, bounds = [], sort.work / "bounds.json"
    kept = [Kept(bounds, checksum_of(bounds))]  # other blocks would have other entries
    for number, own in enumerate(crcs):
        for path, crc in zip(_bucket(sort, number), own, strict=False):
            with path.open("rb") as file:
                os.fsync(file.fileno())
            size, until = path.stat().st_size, _block_note(sort, number)
            kept.append(Kept(path, crc, size, may_grow=journal.name != _DEALT, until=until))
        sizes.append(_bucket(sort, number)[0].stat().st_size // 8)
    told = {"source": source, "offset": offset, "sizes": sizes, "crcs": crcs}
    write_note(journal, told, kept)


# --- 3. rows ----------------------------------------------------------------------------------


def _sort_block(number: int, first: int, last: int, out: Path, sort: PairSort) -> dict[str, Any]:
    """Sort the entries of a block and write its files; returns what is to be known of it."""
    done = _block_note(sort, number)
    if not done.exists():
        keys, weights, n_given = _merged(number, sort)
        pairs = keys >> np.uint64(1)
        # Of the two directions, the given one has the smaller number and comes first.
        starts = np.flatnonzero(np.r_[True, pairs[1:] != pairs[:-1]]) if len(pairs) else pairs
        n_directed = int(np.count_nonzero(keys[starts] & np.uint64(1) == 0))
        if weights is not None:
            weights = np.maximum.reduceat(weights, starts) if len(starts) else weights
        pairs = pairs[starts]
        rows, columns = pairs >> np.uint64(sort.bits), pairs & np.uint64((1 << sort.bits) - 1)
        parts, here = _start_parts(rows, first, last), slice(first, last)
        block = write_block(out, number, here, parts, columns.astype(np.int32), weights)
        degrees = _degree_parts(rows, weights, first, last)
        path = sort.work / f"degrees-{number:05}.npy"
        kept = [Kept(path, write_parts(path, np.float64, last - first, degrees).sha256)]
        told = {
            "block": asdict(block),
            "given": n_given,
            "directed": n_directed,
            "all_ones": weights is None or bool((weights == 1).all()),
        }
        # Weights of a graph whose weights are all 1 may go, see `_put_together`.
        may_go = {block.weights: _no_weights_note(sort) if told["all_ones"] else None}
        kept += [Kept(out / one.name, one.sha256, until=may_go.get(one)) for one in block.arrays]
        write_note(done, told, kept)
    for path in _bucket(sort, number):
        path.unlink(missing_ok=True)
    return dict(read_note(done))


def _no_weights_note(sort: PairSort) -> Path:
    """Return the note that no weight of the graph is other than 1."""
    return sort.work / "no-weights.json"


def _block_note(sort: PairSort, number: int) -> Path:
    return sort.work / f"block-{number:05}.json"


def _starts(rows: NDArray[np.uint64], first: int, last: int) -> NDArray[np.intp]:
    """Return where each row from first to before last begins among the sorted rows of entries.

    >>> _starts(np.array([5, 5, 7], np.uint64), 4, 9)
    array([0, 0, 2, 2, 3])
    """
    return np.searchsorted(rows, np.arange(first, last, dtype=np.uint64))


def _start_parts(rows: NDArray[np.uint64], first: int, last: int) -> Iterator[NDArray[np.intp]]:
    """Yield where these rows begin, and where the last one ends."""
    for part in parts_of(last + 1 - first, _ROW_BYTES):
        yield _starts(rows, first + part.start, first + part.stop)


def _degree_parts(
    rows: NDArray[np.uint64], weights: NDArray[np.float32] | None, first: int, last: int
) -> Iterator[NDArray[np.float64]]:
    """Yield the degrees of these rows."""
    for part in parts_of(last - first, _ROW_BYTES):
        starts = _starts(rows, first + part.start, first + part.stop + 1)
        own = None if weights is None else weights[starts[0] : starts[-1]]
        yield degrees_of(starts - starts[0], own)


def _merged(
    number: int, sort: PairSort
) -> tuple[NDArray[np.uint64], NDArray[np.float32] | None, int]:
    """Return a block's entries, sorted and none twice, and how many of them were given.

    A block that is larger than the memory allows, because an edge was given very often, is read
    in parts.
    """
    key_path, *weight_path = _bucket(sort, number)
    n_keys, n_given, first = key_path.stat().st_size // 8, 0, 0
    keys: NDArray[np.uint64] = np.empty(0, np.uint64)
    weights = np.empty(0, np.float32) if sort.is_weighted else None
    while first < n_keys:
        # Not more than there is: NumPy takes the memory for all that is asked for.
        here = min(sort.most - len(keys), n_keys - first)
        if here < min(_WORTH_IT * sort.most, n_keys - first):
            raise _too_large(number, sort)
        more = np.fromfile(key_path, np.uint64, here, offset=8 * first)
        n_given += int(np.count_nonzero(more & np.uint64(1) == 0))
        keys = np.concatenate([keys, more]) if len(keys) else more
        if weights is None:
            keys = distinct(keys)
        else:
            own = np.fromfile(weight_path[0], np.float32, here, offset=4 * first)
            order = np.argsort(keys)
            keys, weights = keys[order], np.concatenate([weights, own])[order]
            starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
            keys, weights = keys[starts], np.maximum.reduceat(weights, starts)
        first += here
    return keys, weights, n_given


def _too_large(number: int, sort: PairSort) -> NotEnoughMemoryError:
    return NotEnoughMemoryError(
        f"Block {number} of the graph has too many entries to be sorted within the memory that is "
        f"left for that, {in_words(sort.budget)}. Give more memory, and the same call goes on "
        "where it was; or build the graph anew in more blocks."
    )


def _put_together(
    records: list[dict[str, Any]], n_sources: int, out: Path, sort: PairSort
) -> tuple[list[StoredBlock], EdgeCounts, Iterator[NDArray[np.float64]]]:
    blocks = [_stored_block(record["block"]) for record in records]
    if all(record["all_ones"] for record in records):
        write_note(_no_weights_note(sort), len(blocks))
        for number in range(len(blocks)):
            (out / f"weights-{number:05}.npy").unlink(missing_ok=True)
        blocks = [StoredBlock(b.first, b.n_rows, b.n_entries, b.indptr, b.indices, None)
                  for b in blocks]  # fmt: skip
    told = [read_note(sort.work / f"pairs-{k:05}.json") for k in range(n_sources)]
    n_directed = sum(record["directed"] for record in records)
    counts = EdgeCounts(
        given=sum(one["given"] for one in told),
        self_loops=sum(one["self_loops"] for one in told),
        duplicates=sum(record["given"] for record in records) - n_directed,
        one_way=sum(block.n_entries for block in blocks) - n_directed,
    )
    paths = [sort.work / f"degrees-{number:05}.npy" for number in range(len(blocks))]
    return blocks, counts, (np.load(path, mmap_mode="r") for path in paths)


def _stored_block(told: dict[str, Any]) -> StoredBlock:
    arrays = {name: told[name] and StoredArray(**told[name])
              for name in ("indptr", "indices", "weights")}  # fmt: skip
    return StoredBlock(**{**told, **arrays})
