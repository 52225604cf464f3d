"""The ids that a table of nodes gives: read a part at a time, kept on disk, and looked up there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.disk_ids import NUMBER_AS_TEXT, IdMap, alike
from proptrain.data.disk_notes import Kept, write_note
from proptrain.data.disk_writer import write_array, write_parts
from proptrain.data.edge_files import check_longest, ids_of, largest_group
from proptrain.data.manifest import StoredArray
from proptrain.data.mapped import forget, parts_of
from proptrain.data.table_files import column_parts, is_separated, no_rows, told_in_our_words
from proptrain.data.tables import check_not_empty, id_column_of, repeated_ids
from proptrain.errors import TableError
from proptrain.system.memory import give_back

_CELL_BYTES = 256
"""Memory that a cell of a part of the table may take: text, and copies of it."""
_TO_SORT = 16
"""Bytes that sorting takes for each id, beside the id itself."""

CheckFits = Callable[[int, str], None]
"""Raises unless so many bytes may be taken; is told what for."""


def given_ids(
    table: Path, id_column: str | None, work: Path, budget: int, check_fits: CheckFits
) -> tuple[NDArray[Any], IdMap]:
    """Return the ids of a table of nodes, in its order and mapped, and what looks them up.

    What was found is kept in the folder. Ids that ascend are looked up as they are; others are
    sorted in memory, once.
    """
    work.mkdir(exist_ok=True)
    if not (work / "own.json").exists():
        _keep_ids(table, id_column, work, budget)
        give_back()
    own = np.load(work / "own.npy", mmap_mode="r")
    if _ascend(own):
        return own, IdMap(len(own), own)
    if not (work / "sorted.json").exists():
        needed = (own.itemsize + _TO_SORT) * len(own)
        check_fits(needed, f"to sort the {len(own):,} ids of {table.name}")
        _sort(own, work, table.name)
    ids, numbers = (np.load(work / name, mmap_mode="r") for name in ("sorted.npy", "numbers.npy"))
    return own, IdMap(len(own), ids, numbers)


def kept_by(table: Path, id_column: str | None) -> int:
    """Return the bytes that reading ids keeps in memory: of Parquet a row group of them."""
    if is_separated(table, "A table", "Save it in one of these formats."):
        return 0
    return largest_group(table, lambda names: [id_column_of(names, id_column, table.name)])


def _keep_ids(table: Path, id_column: str | None, work: Path, budget: int) -> None:
    """Write the ids of a table to a file: numbers if all of them are written as such, else text."""
    kept: list[StoredArray] = []
    waiting: list[NDArray[Any]] = []

    def write_waiting() -> None:
        if waiting:
            kept.append(write_array(work / f"part-{len(kept):05}.npy", alike(waiting)))
            waiting.clear()

    for part in _id_parts(table, id_column, budget):
        waiting.append(part)
        if sum(one.nbytes for one in waiting) > budget // 16:
            write_waiting()
    write_waiting()
    if not kept:
        raise no_rows(table.name)
    types = {np.dtype(one.dtype) for one in kept}
    if len({dtype.kind for dtype in types}) > 1:
        types.add(np.dtype(NUMBER_AS_TEXT))
    widest = max(types, key=lambda dtype: (dtype.kind == "S", dtype.itemsize))
    parts = (np.load(work / one.name, mmap_mode="r") for one in kept)
    own = write_parts(work / "own.npy", widest, sum(one.length for one in kept), parts)
    write_note(work / "own.json", own.length, [Kept(work / own.name, own.sha256)])
    for one in kept:
        (work / one.name).unlink()


def _id_parts(table: Path, id_column: str | None, budget: int) -> Iterator[NDArray[Any]]:
    """Yield the ids of a table, looked at, some rows at a time."""
    name, before = table.name, 0

    def choose(names: list[str]) -> str:
        return id_column_of(names, id_column, name)

    for column, values in column_parts(table, choose, budget // _CELL_BYTES):
        with _told_of(column, name):
            check_longest(values)  # before any text is unpacked
        with told_in_our_words(table):  # such as a time zone that nobody knows
            check_not_empty(values.to_pandas().rename(column), name, before)
        with _told_of(column, name):
            ids = ids_of(values)
        yield ids
        before += len(values)


@contextmanager
def _told_of(column: str, name: str) -> Iterator[None]:
    """Say which column of which table cannot be used."""
    try:
        yield
    except TableError as error:
        raise TableError(f"Column {column!r} of {name}: {error}") from error


def _ascend(ids: NDArray[Any]) -> bool:
    """Tell whether each id is above the one before it."""
    for part in parts_of(len(ids) - 1, ids.itemsize):
        here = ids[part.start : part.stop + 1]
        ascend = bool((here[1:] > here[:-1]).all())
        forget(ids)
        if not ascend:
            return False
    return True


def _sort(own: NDArray[Any], work: Path, name: str) -> None:
    """Write the ids in their order, and the number of each."""
    order = np.argsort(np.asarray(own), kind="stable")
    parts = (own[order[part]] for part in parts_of(len(own), 8 * own.itemsize))
    ids = write_parts(work / "sorted.npy", own.dtype, len(own), parts)
    forget(own)
    _check_distinct(np.load(work / "sorted.npy", mmap_mode="r"), order, name)
    numbers = write_parts(work / "numbers.npy", np.int32, len(order), [order])
    kept = [Kept(work / one.name, one.sha256) for one in (ids, numbers)]
    write_note(work / "sorted.json", len(own), kept)


def _check_distinct(ids: NDArray[Any], order: NDArray[np.intp], name: str) -> None:
    """Raise if an id is there twice; they are sorted, and ``order`` has the row of each."""
    repeated: list[NDArray[np.intp]] = []
    for part in parts_of(len(ids) - 1, ids.itemsize):
        here = ids[part.start : part.stop + 1]
        repeated.append(np.flatnonzero(here[1:] == here[:-1]) + part.start + 1)
        forget(ids)
    places = np.concatenate(repeated)
    if len(places):
        places = places[np.argsort(order[places])]
        raise repeated_ids(ids[places], order[places], name)
