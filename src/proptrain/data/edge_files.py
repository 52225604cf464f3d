"""Edge lists in files, CSV or Parquet, read a batch of rows at a time."""

from __future__ import annotations

import csv
import importlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.names import LONGEST
from proptrain.data.table_files import (
    check_names,
    check_row_count,
    empty_table,
    find_separator,
    is_arrow_text,
    is_separated,
    parquet_batches,
    told_in_our_words,
)
from proptrain.data.tables import edge_columns, require_column
from proptrain.data.unpacking import unpacking
from proptrain.errors import TableError

_FEWEST_ROWS, _MOST_ROWS = 1 << 10, 1 << 18
"""Of a batch."""
_NUMBER = re.compile(rb'\s*"?(0|-?[1-9][0-9]*)"?\s*')
"""An id that is a number in a line of text; 007 is none."""
_ROW_BYTES = 4096
"""Memory that a row of a batch may take: two ids, as long as they may be, and copies of them."""
_READERS_KEEP = 24_000_000
"""Bytes that Arrow has in memory once it has read something, and does not give back."""
_SMALL_BLOCK, _CSV_BLOCK = 1 << 20, 1 << 22
"""Bytes of a CSV file that are read at a time with little memory and with enough; no line can be
longer."""


@dataclass(frozen=True, eq=False)
class EdgeBatch:
    """Some rows: the ids of both ends (m,), int64 or bytes; weights (m,) or None."""

    sources: NDArray[Any]
    targets: NDArray[Any]
    weights: NDArray[np.float64] | None
    share: float
    """Of the file, for a progress bar."""


@dataclass(frozen=True)
class EdgeFile:
    """A file with a row for each edge, and its columns."""

    path: Path
    source: str
    target: str
    weight: str | None
    names: tuple[str, ...]
    separator: str
    """Between cells; empty for Parquet."""

    def batches(self, budget: int) -> Iterator[EdgeBatch]:
        """Yield all rows, a batch at a time, each of which takes at most so much memory."""
        n_rows = min(max(budget // _ROW_BYTES, _FEWEST_ROWS), _MOST_ROWS)
        with told_in_our_words(self.path):
            read = self._separated(budget) if self.separator else self._parquet(n_rows)
            for table, share in read:
                for first in range(0, table.num_rows, n_rows):
                    part = table.slice(first, n_rows)
                    sources, targets = self._ids(part, self.source), self._ids(part, self.target)
                    weights = None if self.weight is None else self._weights(part)
                    yield EdgeBatch(sources, targets, weights, share * len(part) / len(table))

    @property
    def kept(self) -> int:
        """Bytes that reading keeps in memory beside a batch: of Parquet also a whole row group."""
        return _READERS_KEEP + (
            0 if self.separator else largest_group(self.path, lambda _: self._columns())
        )

    def look(self) -> tuple[float, bool]:
        """Return about how many rows there are, and whether their ids seem to be numbers.

        Of Parquet by what it says of itself, else by the first lines. Not by a batch: Arrow reads
        ahead in a thread of its own, and one that is left alone keeps the process from ending.
        """
        with told_in_our_words(self.path):
            if not self.separator:
                return _parquet_rows(self.path, [self.source, self.target])
            with self.path.open("rb") as raw, unpacking(raw, self.path.name) as text:
                _, *lines = text.read(_SMALL_BLOCK).split(b"\n")[:-1] or [b""]
                share = raw.tell() / max(1, self.path.stat().st_size)
        rows = [line.split(self.separator.encode()) for line in lines[:_FEWEST_ROWS]]
        places = [self.names.index(end) for end in (self.source, self.target)]
        ids = (row[place] for row in rows for place in places if place < len(row))
        return len(lines) / share, all(map(_NUMBER.fullmatch, ids))

    def _columns(self) -> list[str]:
        return [self.source, self.target, *([] if self.weight is None else [self.weight])]

    def _parquet(self, n_rows: int) -> Iterator[tuple[Any, float]]:
        import pyarrow.parquet as pq

        # A text that is said once is then in memory once, however many rows it is in.
        ends = [self.source, self.target]
        with pq.ParquetFile(self.path, read_dictionary=ends) as file:
            all_rows = max(1, file.metadata.num_rows)
            for batch in parquet_batches(file, n_rows, self._columns(), use_threads=False):
                batch.validate(full=True)
                yield batch, batch.num_rows / all_rows

    def _separated(self, budget: int) -> Iterator[tuple[Any, float]]:
        import pyarrow as pa
        from pyarrow import csv as pa_csv

        # As text first: what looks like a number may be none, such as 007.
        ends = {self.source: pa.string(), self.target: pa.string()}
        weight = {} if self.weight is None else {self.weight: pa.float64()}
        size, before = max(1, self.path.stat().st_size), 0
        with (
            self._weights_told(),
            self.path.open("rb") as raw,
            unpacking(raw, self.path.name) as text,
            pa_csv.open_csv(
                pa.input_stream(text, compression=None),
                pa_csv.ReadOptions(
                    column_names=list(self.names),
                    skip_rows=1,
                    block_size=min(max(budget // 256, _SMALL_BLOCK), _CSV_BLOCK),
                    use_threads=False,  # each would keep memory of its own
                ),
                # Else a block may end within a cell that has line breaks, whose rest becomes rows.
                pa_csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                pa_csv.ConvertOptions(
                    include_columns=self._columns(), column_types={**ends, **weight}, null_values=[]
                ),
            ) as reader,
        ):
            for batch in reader:
                here = raw.tell()
                yield batch, (here - before) / size
                before = here

    @contextmanager
    def _weights_told(self) -> Iterator[None]:
        """Say in our words which weight is no number."""
        import pyarrow as pa

        try:
            yield
        except pa.ArrowInvalid as error:
            _, is_told, cell = str(error).partition("error to double: invalid value ")
            if not is_told:
                raise
            raise TableError(
                f"Weights must be numbers, but column {self.weight!r} of {self.path.name} holds "
                f"{cell}. Correct it, or leave the weights out."
            ) from error

    def _ids(self, table: Any, column: str) -> NDArray[Any]:
        try:
            return ids_of(table.column(table.schema.get_field_index(column)))
        except TableError as error:
            raise TableError(f"Column {column!r} of {self.path.name}: {error}") from error

    def _weights(self, table: Any) -> NDArray[np.float64]:
        import pyarrow as pa

        try:
            numbers = table.column(table.schema.get_field_index(self.weight)).cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise TableError(f"Weights must be numbers in {self.path.name}: {error}") from error
        if numbers.null_count:
            raise TableError(
                f"Weights must be numbers, but column {self.weight!r} of {self.path.name} has "
                "empty cells. Fill them in, or leave the weights out."
            )
        return np.asarray(numbers.to_numpy(zero_copy_only=False))


def largest_group(path: Path, choose: Callable[[list[str]], list[str]]) -> int:
    """Return the bytes of some columns of a Parquet file in its largest row group."""
    import pyarrow.parquet as pq

    with told_in_our_words(path), pq.ParquetFile(path, buffer_size=_SMALL_BLOCK) as file:
        names = choose(file.schema_arrow.names)
        places = [n for n in range(len(file.schema)) if file.schema.column(n).path in names]
        sizes = [_size_of(file, number, names, places) for number in range(file.num_row_groups)]
    return max([0, *sizes])


def _size_of(file: Any, number: int, names: list[str], places: list[int]) -> int:
    """Return the bytes of the columns with these names, at these places, in a row group."""
    group = file.metadata.row_group(number)
    if group.num_rows == 0:
        return 0
    # A column whose description is damaged is an error to whoever reads from it; asked for it
    # alone, pyarrow ends the process.
    next(file.iter_batches(1, [number], names, use_threads=False), None)
    return sum(int(group.column(place).total_uncompressed_size) for place in places)


def _parquet_rows(path: Path, columns: list[str]) -> tuple[int, bool]:
    """Return how many rows a Parquet file has, and whether these columns are of whole numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    schema = metadata.schema.to_arrow_schema()
    are_numbers = all(pa.types.is_integer(schema.field(column).type) for column in columns)
    return int(metadata.num_rows), are_numbers


def load_readers() -> None:
    """Load what reading needs, for who wants to know how much memory there is beside it."""
    for name in ("pyarrow.csv", "pyarrow.parquet", "pyarrow.compute", "pandas"):
        importlib.import_module(name)  # Arrow loads the last two when it makes arrays


def open_edges(
    path: Path, source: str | None = None, target: str | None = None, weight: str | None = None
) -> EdgeFile:
    """Look at the beginning of a file and settle which of its columns are the ends of an edge."""
    nested: dict[str, Any] = {}
    with told_in_our_words(path):
        if is_separated(path, "An edge list", "Save it in one of these formats."):
            separator, names = _header(path)
        else:
            separator, (names, nested) = "", _parquet_names(path)
    check_names(names, path.name)
    ends = edge_columns(names, source, target, path.name)
    if weight is not None:
        require_column(weight, names, path.name)
    for name, kind in nested.items():
        if name in (*ends, weight):
            raise TableError(
                f"Ids must be whole numbers or text, and weights numbers, but column {name!r} of "
                f"{path.name} holds {kind}."
            )
    return EdgeFile(path, *ends, weight, tuple(names), separator)


def _parquet_names(path: Path) -> tuple[list[str], dict[str, Any]]:
    """Return the names of all columns, and the types of those with lists or the like in a cell."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    check_row_count(path, metadata.num_rows)
    schema = metadata.schema.to_arrow_schema()
    nested = {field.name: field.type for field in schema if pa.types.is_nested(field.type)}
    return list(schema.names), nested


def _header(path: Path) -> tuple[str, list[str]]:
    with path.open("rb") as raw, unpacking(raw, path.name) as text:
        line = text.readline(_CSV_BLOCK).decode("utf-8-sig")
    if not line.strip():
        raise empty_table(path)

    def names_by(separator: str) -> list[str]:
        (names,) = csv.reader([line.rstrip("\r\n")], delimiter=separator)
        return [name.strip() for name in names]

    return find_separator(path, names_by)


def ids_of(column: Any) -> NDArray[Any]:
    r"""Return the ids of an Arrow column: int64 if all are whole numbers, else bytes in UTF-8.

    Text is a number only if it is written as one: "7" is, "007" is not.

    >>> import pyarrow as pa
    >>> ids_of(pa.array(["7", "12"])), ids_of(pa.array(["007", "é"])).tolist()
    (array([ 7, 12]), [b'007', b'\xc3\xa9'])
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    check_longest(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        raise TableError(f"Every edge must have two ids, but {column.null_count:,} are missing.")
    if pa.types.is_integer(column.type):
        try:
            return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid as error:
            raise TableError(f"Ids must be below 2^63: {error}") from error
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise TableError(
            f"Ids must be whole numbers or text, got {column.type}. Turn them into one of these."
        )
    column = pc.utf8_trim_whitespace(column.cast(pa.string()))
    try:
        numbers = column.cast(pa.int64())
        if pc.all(pc.equal(numbers.cast(pa.string()), column)).as_py() is not False:
            return np.asarray(numbers.to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:  # text, then
        pass
    return _as_bytes(column)


def check_longest(column: Any) -> None:
    """Raise if a text of an Arrow column is too long for an id; it may be in a dictionary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = column.dictionary if pa.types.is_dictionary(column.type) else column
    if not is_arrow_text(texts.type):
        return
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest > LONGEST:
        raise TableError(
            f"Ids must be of at most {LONGEST} bytes, got one of {longest:,}. Number the nodes."
        )


def _as_bytes(column: Any) -> NDArray[np.bytes_]:
    import pyarrow.compute as pc

    lengths = pc.binary_length(column)
    shortest, longest = (int(pc.min_max(lengths)[end].as_py()) for end in ("min", "max"))
    if shortest == 0:
        raise TableError("Every edge must have two ids, but some are empty.")
    if pc.any(pc.match_substring(column, "\0")).as_py():
        raise TableError("Ids must be text without the character 0.")
    # Bytes, each id with zeros up to the longest: they sort and compare as the text does.
    _, starts, content = column.buffers()
    ends = np.frombuffer(starts, np.int32)[column.offset : column.offset + len(column) + 1]
    ids = np.zeros((len(column), longest), dtype=np.uint8)
    is_filled = np.arange(longest) < np.diff(ends)[:, None]
    ids[is_filled] = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
    return ids.view(f"S{longest}").ravel()
