"""The ids of all nodes that edges name, found on disk, and the number that each gets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.disk_notes import Kept, read_note, write_note
from proptrain.data.disk_sort import PairBatch
from proptrain.data.disk_writer import append_numbers, distinct, write_array
from proptrain.data.edge_files import EdgeFile
from proptrain.data.mapped import SMALL, forget, parts_of
from proptrain.errors import TableError
from proptrain.system.files import file_of
from proptrain.system.memory import give_back

NUMBER_AS_TEXT = "S20"
"""Text that holds any number of 64 bits."""
_SAMPLES = 1 << 10
"""Ids of each run that are looked at to cut all runs into parts of about equal size."""


@dataclass(frozen=True, eq=False)
class IdMap:
    """The sorted ids of all nodes, and each one's number; None: ids are numbers, or sorted alike.

    Ids are int64 or bytes; those that an edge list has otherwise are compared as text.
    """

    n_nodes: int
    ids: NDArray[Any] | None = None
    numbers: NDArray[np.integer] | None = None

    def look_up(self, values: NDArray[Any], where: str) -> NDArray[np.int64]:
        """Return the numbers of some ids (m,), or say which of them are unknown."""
        if self.ids is None:
            return self._checked_numbers(values, where)
        if self.ids.dtype.kind == "S" and values.dtype.kind == "i":
            values = values.astype(NUMBER_AS_TEXT)
        # In their order, so that the ids are walked through once.
        distinct, back = np.unique(values, return_inverse=True)
        if distinct.dtype.kind == "S" and self.ids.dtype.kind == "i":
            # Not all of them are numbers, or they would be given as such; but some may be.
            self._refuse(distinct[[not is_number(one) for one in distinct.tolist()]], where)
        elif distinct.dtype.itemsize > self.ids.dtype.itemsize:
            self._refuse(distinct[np.char.str_len(distinct) > self.ids.dtype.itemsize], where)
        distinct = distinct.astype(self.ids.dtype)
        found, is_known = np.zeros(len(distinct), np.int64), np.zeros(len(distinct), bool)
        for part, some in self._parts(distinct):
            ids, wanted = self.ids[part], distinct[some]
            places = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
            is_known[some] = ids[places] == wanted
            found[some] = (
                places + part.start if self.numbers is None else self.numbers[part][places]
            )
            forget(self.ids, self.numbers)
        self._refuse(distinct[~is_known], where)
        return np.asarray(found[back])

    def has_texts(self, texts: Sequence[str]) -> bool:
        """Tell whether ids are texts and all of these are among them.

        >>> known = IdMap(2, np.array([b"ada", b"bob"]))
        >>> known.has_texts(["bob", "ada"]), known.has_texts(["bob", "eve"])
        (True, False)
        """
        if self.ids is None or self.ids.dtype.kind != "S":
            return False
        encoded = [text.encode() for text in texts]
        if max(map(len, encoded)) > self.ids.itemsize:
            return False
        # In the ids' own type: for another one all of them would be copied.
        wanted = np.array(encoded, self.ids.dtype)
        places = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        return bool((self.ids[places] == wanted).all())

    def _parts(self, values: NDArray[Any]) -> Iterator[tuple[slice, slice]]:
        """Yield parts of the ids, and which of some values, in their order, would lie in each.

        Looked up among all at once, values from everywhere would bring the whole file to hand.
        """
        parts, firsts = self._parts_and_firsts
        cuts = np.searchsorted(values, firsts).tolist()
        for part, start, stop in zip(parts, [0, *cuts[1:]], [*cuts[1:], len(values)], strict=True):
            if start < stop:
                yield part, slice(start, stop)

    @cached_property
    def _parts_and_firsts(self) -> tuple[list[slice], NDArray[Any]]:
        """The ids cut into parts, and the first id of each."""
        ids = np.asarray(self.ids)
        parts = list(parts_of(len(ids), ids.itemsize))
        firsts = np.array([ids[part.start] for part in parts], ids.dtype)
        forget(ids)
        return parts, firsts

    def _checked_numbers(self, values: NDArray[Any], where: str) -> NDArray[np.int64]:
        if values.dtype.kind != "i":
            raise TableError(f"Ids of {where} must be numbers from 0 to {self.n_nodes - 1:,}.")
        self._refuse(values[(values < 0) | (values >= self.n_nodes)], where)
        return values

    def _refuse(self, unknown: NDArray[Any], where: str) -> None:
        if len(unknown):
            first = unknown[0]
            shown = first.decode("utf-8", "replace") if isinstance(first, bytes) else int(first)
            raise TableError(
                f"Every id of an edge must be that of a node, but {where} has {shown!r}, which is "
                "none. Add it to the nodes, or drop those edges."
            )


def is_number(text: bytes) -> bool:
    """Tell whether text is written as the whole numbers are that ids can be.

    >>> is_number(b"-7"), is_number(b"007"), is_number(b"9" * 30)
    (True, False, False)
    """
    return bool(re.fullmatch(rb"0|-?[1-9]\d{0,18}", text)) and -(2**63) <= int(text) < 2**63


@dataclass(frozen=True, eq=False)
class NumberedEdges:
    """The edges of a file as pairs of node numbers."""

    file: EdgeFile
    ids: IdMap
    budget: int
    """Bytes of memory that a batch may take."""

    def batches(self) -> Iterator[PairBatch]:
        """Yield all edges, a part at a time."""
        name = self.file.path.name
        for batch in self.file.batches(self.budget):
            rows = self.ids.look_up(batch.sources, name)
            columns = self.ids.look_up(batch.targets, name)
            yield PairBatch(rows, columns, batch.weights, batch.share, name)


def find_ids(
    files: Sequence[EdgeFile],
    work: Path,
    budget: int,
    on_part: Callable[[float], None] = lambda _: None,
) -> NDArray[Any]:
    """Return the sorted ids of all nodes, mapped; what is found is kept in the folder as it goes.

    They are numbers if all of them are written as such, else text.
    """
    work.mkdir(exist_ok=True)
    path, done = work / "ids.npy", work / "ids.json"
    if not done.exists():
        runs: list[Path] = []
        for number, file in enumerate(files):
            runs += _runs_of(file, number, work, budget, lambda s: on_part(s / len(files)))
            give_back()  # what reading took: merging shall have it
        stored = write_array(path, *_merge(runs, work, budget))
        write_note(done, len(files), [Kept(path, stored.sha256)])
        for run in runs:
            run.unlink()
    else:
        on_part(1.0)
    ids: NDArray[Any] = np.load(path, mmap_mode="r")
    return ids


def _runs_of(
    file: EdgeFile, number: int, work: Path, budget: int, on_part: Callable[[float], None]
) -> list[Path]:
    """Write the ids of a file to some files, sorted and none twice in each."""
    folder, done = work / f"runs-{number:05}", work / f"runs-{number:05}.json"
    if done.exists():
        on_part(1.0)
        return [file_of(folder, name) for name in read_note(done)]
    folder.mkdir(exist_ok=True)
    runs: list[Kept] = []
    waiting: list[NDArray[Any]] = []

    def write_run() -> None:
        if waiting:
            path = folder / f"run-{len(runs):05}.npy"
            stored = write_array(path, distinct(alike(waiting)))
            runs.append(Kept(path, stored.sha256, until=work / "ids.json"))
            waiting.clear()

    for batch in file.batches(budget):
        waiting.append(distinct(alike([batch.sources, batch.targets])))
        if sum(one.nbytes for one in waiting) > budget // 16:
            merged = distinct(alike(waiting))
            waiting[:] = [merged]
            if merged.nbytes > budget // 32:
                write_run()
        on_part(batch.share)
    write_run()
    write_note(done, [run.path.name for run in runs], runs)
    return [run.path for run in runs]


def alike(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Put ids together: numbers if all are, else text."""
    if len({part.dtype.kind for part in parts}) > 1:
        parts = [part.astype(NUMBER_AS_TEXT) if part.dtype.kind == "i" else part for part in parts]
    return np.concatenate(parts)


def _merge(paths: list[Path], work: Path, budget: int) -> list[NDArray[Any]]:
    """Return the ids of sorted runs, in the order of all; the parts lie in a file."""
    runs = [np.load(path, mmap_mode="r") for path in paths]
    if not runs:
        return [np.empty(0, np.int64)]
    if len({run.dtype.kind for run in runs}) > 1:
        runs = [
            _as_text(run, work / f"text-{place:05}.npy") if run.dtype.kind == "i" else run
            for place, run in enumerate(runs)
        ]
    dtype = np.result_type(*runs)
    total = sum(len(run) for run in runs) * dtype.itemsize
    n_parts = 1 + total // max(1, budget // 16)
    samples = np.sort(np.concatenate([_samples_of(run) for run in runs]))
    splitters = samples[np.linspace(0, len(samples), n_parts + 1)[1:-1].astype(np.int64)]
    cuts = [[0, *_places_of(splitters, run), len(run)] for run in runs]
    merged_path, n_bytes, before = work / "merged.bin", 0, np.empty(0, dtype)
    with merged_path.open("wb") as file:
        for part in range(n_parts):
            pieces = [run[c[part] : c[part + 1]] for run, c in zip(runs, cuts, strict=True)]
            merged = distinct(np.concatenate([piece.astype(dtype) for piece in pieces]))
            check_written_alike(merged, before)
            before = merged[-1:]
            append_numbers(file, merged)
            n_bytes += merged.nbytes
            forget(*runs)
    for path in work.glob("text-*.npy"):
        path.unlink()
    if n_bytes <= SMALL:
        return [np.fromfile(merged_path, dtype)]
    return [np.memmap(merged_path, dtype, mode="r")]


def _as_text(run: NDArray[np.int64], path: Path) -> NDArray[np.bytes_]:
    """Return a run of numbers as text, sorted, in a file: one fits into memory, all may not."""
    write_array(path, np.sort(run.astype(NUMBER_AS_TEXT)))
    text: NDArray[np.bytes_] = np.load(path, mmap_mode="r")
    forget(run, text)
    return text


def check_written_alike(ids: NDArray[Any], before: NDArray[Any]) -> None:
    """Raise if sorted ids have one node twice, as 7 and as 7.0: programs write both for one number.

    ``before`` is the last id of the part before them, since 7.0 may be the first of the next.

    >>> check_written_alike(np.array([b"7.0", b"8.0"]), np.array([b"7"]))
    Traceback (most recent call last):
    ...
    proptrain.errors.TableError: Ids must be written alike, but 1 is there as a whole number and ...
    """
    if ids.dtype.kind != "S":
        return
    decimals = ids[np.char.endswith(ids, b".0")]
    whole = np.char.rpartition(decimals, b".")[:, 0] if len(decimals) else decimals
    is_number = np.char.isdigit(np.char.lstrip(whole, b"-"))
    twice = whole[is_number & np.isin(whole, np.concatenate([before, ids]))]
    if len(twice):
        first = twice[0].decode()
        raise TableError(
            f"Ids must be written alike, but {len(twice):,} {'is' if len(twice) == 1 else 'are'} "
            f"there as a whole number and as a decimal, such as {first} and {first}.0. Programs "
            "write the second for the first where a column has empty cells: drop those rows and "
            "write whole numbers. If they are two nodes, give them names that differ in more."
        )


def _samples_of(run: NDArray[Any]) -> NDArray[Any]:
    samples = np.array(run[:: max(1, len(run) // _SAMPLES)])
    forget(run)
    return samples


def _places_of(splitters: NDArray[Any], run: NDArray[Any]) -> NDArray[np.int64]:
    """Return how many ids of a sorted run come before each splitter.

    >>> _places_of(np.array([b"ab", b"abc"]), np.array([b"aa", b"ab"])).tolist()
    [1, 2]
    """
    # In the run's own width, so that it is not copied. An id that equals what is left of a longer
    # splitter comes before it, where one that equals the whole does not.
    short = splitters.astype(run.dtype)
    before, up_to = (np.searchsorted(run, short, side) for side in ("left", "right"))
    forget(run)
    return np.where(short == splitters, before, up_to)
