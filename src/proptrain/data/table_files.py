"""Tables from files: CSV, TSV and Parquet, or as pandas and pyarrow hold them."""

from __future__ import annotations

import gzip
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from proptrain.data.unpacking import check_growth, check_unpacked, unpacking
from proptrain.errors import FileFormatError, ProptrainError, TableError, UnreadableFileError
from proptrain.system.files import kind_at

if TYPE_CHECKING:
    import pandas as pd

_SEPARATED = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
# What an empty cell may hold in a text file; never in a column of ids.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "None", "null", "NULL")
_MOST_COLUMNS = 100_000
"""Of a table: so many take most of a minute, and millions would take half an hour."""
_FIRST_LINE = 1 << 22
"""Bytes of a first line that are looked at before it is read."""
_FEWEST_ROWS, _MOST_ROWS = 1 << 8, 1 << 16
"""Of a part of a table."""
_ROWS_PER_BYTE = 100
"""More rows than that in a byte of a Parquet file are no table of nodes or edges."""

_ADVICE = "save it without compression, or as .csv."

TextColumns: TypeAlias = "Sequence[str] | Callable[[list[str]], Sequence[str]]"


def read_table(source: Any, *, text_columns: TextColumns = ()) -> pd.DataFrame:
    """Read a table from a path, or take one from pandas or pyarrow, with columns named by text.

    ``text_columns`` of text files are read as they stand, "001" and "NA" included; it may be
    a function that chooses them among the columns there are.
    """
    import pandas as pd

    if isinstance(source, str | Path):
        table = _read_file(Path(source), text_columns)
    elif isinstance(source, pd.DataFrame):
        table = source
    elif hasattr(source, "to_pandas"):
        table = source.to_pandas()
    else:
        raise TableError(
            "A table must be a path, a pandas DataFrame or a pyarrow Table, got "
            f"{type(source).__name__}."
        )
    if not len(table.columns):
        raise TableError(f"A table must have columns, but {table_name(source)} has none.")
    if isinstance(table.columns, pd.MultiIndex):
        raise TableError(
            f"A column must have one name, but those of {table_name(source)} have "
            f"{table.columns.nlevels} levels of names, such as {table.columns.tolist()[0]}. Join "
            'them first: table.columns = [" ".join(map(str, names)) for names in table.columns].'
        )
    table = table.rename(columns=str).reset_index(drop=True)
    check_names(list(table.columns), table_name(source))
    if len(table) == 0:
        raise no_rows(table_name(source))
    return table


def check_names(names: list[str], source: str) -> None:
    """Raise if several columns have the same name: nobody could say which of them is meant."""
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise TableError(
            f"Column names must differ, but {source} has several named "
            f"{', '.join(map(repr, repeated))}. Rename or drop all but one."
        )


def _check_width(n_columns: int, path: Path) -> None:
    """Raise for more columns than can be read in good time."""
    if n_columns > _MOST_COLUMNS:
        raise TableError(
            f"A table may have at most {_MOST_COLUMNS:,} columns, but {path.name} has more. Give "
            "so many features as a matrix: X in Python, or --features beside a graph folder."
        )


def _count_cells(path: Path) -> int:
    """Count the cells in the first line of a text file, or those in its first megabytes."""
    with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
        first = file.readline(_FIRST_LINE)
    return 1 + max(map(first.count, (b",", b";", b"\t")))


def no_rows(source: str) -> TableError:
    """Return our error for a table that has column names alone."""
    return TableError(f"A table must have at least one row, but {source} has none.")


def column_parts(
    path: Path, choose: Callable[[list[str]], str], n_cells: int
) -> Iterator[tuple[str, Any]]:
    """Yield the name of a column, and some rows of it at a time, as an Arrow array.

    ``choose`` names it among the columns there are. Of the whole table no more than about so many
    cells are in memory, or a row group of this column in Parquet. Text files are read as
    `read_table` does, and cells of this column as they stand.
    """
    with told_in_our_words(path):
        if is_separated(path, "A table", "Save it in one of these formats."):
            yield from _separated_parts(path, choose, n_cells)
        else:
            yield from _parquet_parts(path, choose)


def is_text_file(source: Any) -> bool:
    """Return whether a table comes from a file that knows no types."""
    return isinstance(source, str | Path) and str(source).lower().endswith(_SEPARATED)


def table_name(source: Any) -> str:
    """Return what to call a table in a message."""
    if isinstance(source, str | Path):
        return Path(source).name
    return f"the given {type(source).__name__}"


def _read_file(path: Path, text_columns: TextColumns) -> pd.DataFrame:
    advice = "Save it in one of these formats, or pass a pandas DataFrame."
    with told_in_our_words(path):
        if is_separated(path, "A table", advice):
            return _read_separated(path, text_columns)
        return _read_parquet(path)


def is_separated(path: Path, what: str, advice: str) -> bool:
    """Tell whether a file is CSV or TSV, or else Parquet; raise if it is neither, or no file."""
    separated = is_text_file(path)
    if not separated and path.suffix.lower() != ".parquet":
        raise FileFormatError(
            f"{what} must be one of {', '.join(_SEPARATED)}, .parquet; got {path.name}. {advice}"
        )
    if kind_at(path) != "file":
        raise UnreadableFileError(f"{what} must be a file, but {path} {_found_at(path)}.")
    return separated


def _found_at(path: Path) -> str:
    """Say what is in the place of a file."""
    kind = kind_at(path)
    if kind == "folder":
        return "is a directory"
    if kind == "other":
        # It is looked at more than once, and what a pipe has told it does not tell again.
        return "is no ordinary file, but a pipe or the like. Write what it tells to a file first"
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # such as a name that is too long, or a folder of others
        return f"cannot be looked at: {error.strerror}"
    return "does not exist"


def find_separator(path: Path, names_by: Callable[[str], list[str]]) -> tuple[str, list[str]]:
    """Return what stands between cells, and the column names, which a separator leads to.

    >>> find_separator(Path("edges.csv"), lambda separator: "from;to".split(separator))
    (';', ['from', 'to'])
    """
    separator = "\t" if ".tsv" in path.name.lower() else ","
    names = names_by(separator)
    if separator == "," and len(names) == 1 and ";" in names[0]:  # a spreadsheet of many countries
        return ";", names_by(";")
    return separator, names


@contextmanager
def told_in_our_words(path: Path) -> Iterator[None]:
    """Say why a file could not be read."""
    try:
        yield
    except ProptrainError:
        raise
    except Exception as error:
        raise _explain(error, path) from error


def _explain(error: Exception, path: Path) -> Exception:
    """Say in our words why a file could not be read."""
    import pandas as pd

    # With an errno the system refused; without one a decoder did.
    if isinstance(error, OSError) and error.errno is not None:
        return UnreadableFileError(f"{path} cannot be read: {error.strerror}.")
    if isinstance(error, pd.errors.EmptyDataError):
        return empty_table(path)
    if isinstance(error, UnicodeError):
        return FileFormatError(
            f"{path.name} must be text in UTF-8, but is not ({error}). Save it again as UTF-8."
        )
    if isinstance(error, MemoryError):
        return error
    told = " ".join(str(error).split()).rstrip(".")  # parsers have many ways to fail on garbage
    if "invalid UTF8" in told:
        advice = "Save it again as UTF-8."
    elif is_text_file(path):
        advice = (
            "Check that it is whole, and that every row has as many cells as there are column "
            "names."
        )
    else:
        advice = "Check that it is whole, and that it is what its name says."
    return FileFormatError(f"{path.name} cannot be read as {path.suffix}: {told}. {advice}")


def empty_table(path: Path) -> FileFormatError:
    """Return our error for a file that does not even have column names."""
    return FileFormatError(
        f"{path.name} is empty. It must have a line of column names and a line for each row."
    )


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    check_parquet(path, schema, pq.read_metadata(path).num_rows)
    _check_width(len(schema.names), path)
    check_names(schema.names, path.name)
    text = [field.name for field in schema if is_arrow_text(field.type)]
    # Text as numbers of what is said once: decoded, a long one in every row would fill the memory.
    table = pq.read_table(path, read_dictionary=text)
    table.validate(full=True)  # pandas trusts it: text that is no text would fail much later
    check_growth(path.name, path.stat().st_size, _decoded_size(table), _ADVICE)
    types = [pa.field(f.name, schema.field(f.name).type if f.name in text else f.type)
             for f in table.schema]  # fmt: skip
    return table.cast(pa.schema(types, metadata=table.schema.metadata)).to_pandas()


def _parquet_parts(path: Path, choose: Callable[[list[str]], str]) -> Iterator[tuple[str, Any]]:
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    check_parquet(path, schema, pq.read_metadata(path).num_rows)
    check_names(schema.names, path.name)
    column = choose(schema.names)
    # Text that is said once is then in memory once, however many rows it is in.
    text = [column] if is_arrow_text(schema.field(column).type) else None
    with pq.ParquetFile(path, read_dictionary=text) as file:
        for batch in parquet_batches(file, _MOST_ROWS, [column], use_threads=False):
            batch.validate(full=True)
            yield column, batch.column(0)


def is_arrow_text(kind: Any) -> bool:
    """Return whether an Arrow type is text or bytes."""
    import pyarrow as pa

    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return bool(is_bytes or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _decoded_size(table: Any) -> int:
    """Return the bytes of all text of a table that has it in dictionaries."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = 0
    for column in table.columns:
        if pa.types.is_dictionary(column.type) and is_arrow_text(column.type.value_type):
            for chunk in column.chunks:
                lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
                size += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return size


def check_parquet(path: Path, schema: Any, n_rows: int) -> None:
    """Raise for a file that claims more rows, or more numbers, than its size can hold."""
    check_row_count(path, n_rows)
    widths = [field.type.bit_width for field in schema if _has_width(field.type)]
    check_growth(path.name, path.stat().st_size, n_rows * sum(widths) // 8, _ADVICE)


def _has_width(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind))


def parquet_batches(
    file: Any, n_rows: int, columns: list[str] | None = None, *, use_threads: bool = True
) -> Iterator[Any]:
    """Yield the rows of an open Parquet file, some at a time, with one row group in memory.

    Asked for all row groups at once, pyarrow would take memory for the whole file.
    """
    for group in range(file.num_row_groups):
        yield from file.iter_batches(
            n_rows, row_groups=[group], columns=columns, use_threads=use_threads
        )


def check_row_count(path: Path, n_rows: int) -> None:
    """Raise for a file that claims far more rows than its size can hold.

    A column of one value takes next to nothing, but each row of a node or edge table has an id.
    """
    size = path.stat().st_size
    if n_rows > _ROWS_PER_BYTE * size:
        raise FileFormatError(
            f"{path.name} claims {n_rows:,} rows in {size:,} bytes, which would fill the memory "
            "and tell next to nothing. It is damaged, or was made to do that, and is not read."
        )


def _read_csv(path: Path, **how: Any) -> pd.DataFrame:
    import pandas as pd

    with path.open("rb") as raw, unpacking(raw, path.name) as text:
        return pd.read_csv(text, encoding="utf-8-sig", **how)


def _read_separated(path: Path, text_columns: TextColumns) -> pd.DataFrame:
    check_unpacked(path)  # here, and not while it is read: a parser keeps all that it came to
    text, _, how = _how_to_read(path, text_columns)
    with _no_cell_dropped():
        table = _read_csv(path, **how)
    for column in set(text) & set(table.columns):
        table[column] = table[column].str.strip()
    return table


def _how_to_read(
    path: Path, text_columns: TextColumns
) -> tuple[Sequence[str], int, dict[str, Any]]:
    """Return the columns of a text file that are text, how many there are, and pandas' options."""
    how: dict[str, Any] = {"skipinitialspace": True, "index_col": False}

    def names_by(separator: str) -> list[str]:
        return list(_read_csv(path, sep=separator, nrows=0, **how).columns)

    _check_width(_count_cells(path), path)
    separator, names = find_separator(path, names_by)
    check_names(_written_names(path, separator, how), path.name)
    text = text_columns(names) if callable(text_columns) else text_columns
    how |= {"sep": separator, "dtype": dict.fromkeys(text, str), "keep_default_na": False}
    how |= {"na_values": {c: MISSING for c in names if c not in text}, "low_memory": False}
    return text, len(names), how


def _written_names(path: Path, separator: str, how: dict[str, Any]) -> list[str]:
    """Return the names in the first line of a text file; pandas would call a second x x.1.

    Columns without a name are left out: many programs write one for the numbers of rows.
    """
    first = _read_csv(
        path, sep=separator, nrows=1, header=None, dtype=str, keep_default_na=False, **how
    )
    return [name for name in first.iloc[0] if name]


@contextmanager
def _no_cell_dropped() -> Iterator[None]:
    """Raise for cells beyond the last column name, which pandas drops with no more than a warning.

    Whoever yields from within would change what others are warned of.
    """
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        yield


def _separated_parts(
    path: Path, choose: Callable[[list[str]], str], n_cells: int
) -> Iterator[tuple[str, Any]]:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    (column,), n_columns, how = _how_to_read(path, lambda names: [choose(names)])
    n_rows = min(max(n_cells // n_columns, _FEWEST_ROWS), _MOST_ROWS)
    with path.open("rb") as raw, unpacking(raw, path.name) as text:
        reader = pd.read_csv(text, encoding="utf-8-sig", chunksize=n_rows, **how)
        while True:
            with _no_cell_dropped():
                part = next(reader, None)
            if part is None:
                return
            if len(part):
                # Not by pandas' .str: before pandas 3 it ties a column to itself, so that one part
                # after another stays in memory until Python looks for circles.
                cells = pa.array(part[column], pa.string(), from_pandas=True)
                yield column, pc.utf8_trim_whitespace(cells)
