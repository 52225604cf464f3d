"""A data set from two tables: one row for each edge, one row for each node."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.columns import EncodedColumns, Kind, as_text, encode_columns
from proptrain.data.convert import graph_from_edges
from proptrain.data.dataset import Dataset
from proptrain.data.labels import encode_labels
from proptrain.data.names import check_lengths
from proptrain.data.table_files import MISSING, is_text_file, read_table, table_name
from proptrain.errors import TableError

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.compose import ColumnTransformer

_ID_NAMES = ("id", "node_id", "node")
_END_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"))
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Tables:
    """What two tables became, and which of their columns was taken for what."""

    dataset: Dataset
    encoder: ColumnTransformer | None
    kinds: dict[str, Kind]
    notes: tuple[str, ...]
    id_column: str
    label_column: str | None
    feature_columns: tuple[str, ...]


def read_tables(
    edges: Any,
    nodes: Any,
    *,
    label: str | None = None,
    id: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    kinds: Mapping[str, Kind] | None = None,
    encoder: ColumnTransformer | None = None,
    unlabelled: Hashable = -1,
    needs_features: bool = True,
    name: str | None = None,
) -> Tables:
    """Make a data set from an edge table and a node table.

    Each is a path (.csv, .csv.gz, .tsv, .parquet), a pandas DataFrame or a pyarrow Table. Ids may
    be anything; those in text files are read as text, so that "001" stays what it is, and those of
    several types become text. ``id`` is by default a column of that name or the first, ``source``
    and ``target`` those named source/target, src/dst or from/to, or the first two. Columns of the
    node table other than id and ``label`` become features; without ``label`` every label is
    unknown. Who looks at nothing but the graph gives ``needs_features`` as False: then there
    need not be any.

    >>> import pandas as pd
    >>> nodes = pd.DataFrame({"id": ["a", "b", "c"], "size": [1, 5, 2], "kind": ["x", None, "y"]})
    >>> edges = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})
    >>> data = read_tables(edges, nodes, label="kind").dataset
    >>> data.graph, data.labels, data.class_names
    (Graph(3 nodes, 2 edges), array([ 0, -1,  1]), ('x', 'y'))
    """
    node_table, id_column, node_ids = read_nodes(nodes, id=id, label=label)
    pairs, weights = read_edges(edges, node_ids, source=source, target=target, weight=weight)
    how: dict[str, Any] = {"kinds": kinds, "encoder": encoder, "unlabelled": unlabelled}
    how |= {"label": label, "needs_features": needs_features}
    codes, class_names, encoded, notes = node_data(node_table, nodes, id_column, **how)
    dataset = Dataset(
        graph=graph_from_edges(pairs, len(node_table), weights),
        features=encoded.features,
        labels=codes,
        node_ids=node_ids,
        class_names=class_names,
        name=name or _dataset_name(nodes),
    )
    features = tuple(c for c in node_table.columns if encoded.kinds.get(c, "drop") != "drop")
    return Tables(dataset, encoded.encoder, encoded.kinds, notes, id_column, label, features)


def node_data(
    table: pd.DataFrame,
    source: Any,
    id_column: str,
    *,
    label: str | None,
    kinds: Mapping[str, Kind] | None,
    encoder: ColumnTransformer | None,
    unlabelled: Hashable,
    needs_features: bool = True,
) -> tuple[NDArray[np.int64], tuple[Hashable, ...], EncodedColumns, tuple[str, ...]]:
    """Return the class codes, class names and features of a node table, and notes on them."""
    labels, label_notes = _labels(table, label, source)
    codes, class_names = encode_labels(labels, unlabelled=unlabelled)
    used = [c for c in table.columns if c not in (id_column, label)]
    how: dict[str, Any] = {"kinds": kinds, "encoder": encoder, "may_be_none": not needs_features}
    encoded = encode_columns(table[used], **how)
    return codes, class_names, encoded, (*label_notes, *encoded.notes)


def read_nodes(
    nodes: Any, *, id: str | None = None, label: str | None = None
) -> tuple[pd.DataFrame, str, NDArray[Any]]:
    """Read a node table; returns it, the name of its id column, and the ids, shape (n,).

    Ids and labels of a text file are read as they stand.
    """
    name = table_name(nodes)
    verbatim = [] if label is None else [label]
    table = read_table(
        nodes, text_columns=lambda columns: [id_column_of(columns, id, name), *verbatim]
    )
    id_column = id_column_of(list(table.columns), id, name)
    _check_node_ids(table[id_column], name)
    return table, id_column, _own_type(table[id_column])


def read_edges(
    edges: Any,
    node_ids: NDArray[Any],
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """Read an edge table and look up its ids: see `edge_pairs`."""
    name = table_name(edges)
    table = read_table(
        edges, text_columns=lambda columns: edge_columns(columns, source, target, name)
    )
    start, end = edge_columns(list(table.columns), source, target, name)
    if is_text_file(edges):
        are_text = node_ids.dtype.kind == "U"
        are_ids = are_text and all((node_ids == one).any() for one in (start, end))
        warn_if_nameless((start, end), name, are_ids=are_ids)
    return edge_pairs(table, node_ids, source=start, target=end, weight=weight, name=name)


def edge_pairs(
    edges: pd.DataFrame,
    node_ids: NDArray[Any],
    *,
    source: str,
    target: str,
    weight: str | None = None,
    name: str = "the edge table",
) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """Look up the ids of an edge table: positions of shape (m, 2), weights of shape (m,) or None.

    Whole numbers are compared as such; if either side is of another type, both are compared as
    text.
    """
    import pandas as pd

    for column in (source, target, *([] if weight is None else [weight])):
        require_column(column, list(edges.columns), name)
    nodes = pd.Series(node_ids)
    ends = [edges[column].reset_index(drop=True) for column in (source, target)]
    for end in ends:
        check_not_empty(end, name)
    if all(ids.dtype.kind == "i" for ids in (nodes, *ends)):
        ends = [end.astype(np.int64) for end in ends]  # none is missing, so nothing is rounded
    else:
        nodes, ends = as_text(nodes), [as_text(end) for end in ends]
    index = unique_index(nodes)
    positions = np.stack([index.get_indexer(pd.Index(end)) for end in ends], axis=1)
    _check_all_known(positions, ends, name)
    weights = None if weight is None else _weights(edges[weight], name)
    return positions.astype(np.int64), weights


def unique_index(ids: Any) -> pd.Index:
    """Return an index to look ids up in; raise if two have become one, as 7 and "7" do as text."""
    import pandas as pd

    index = pd.Index(ids)
    if not index.is_unique:
        raise TableError(
            "Node ids must differ as text too, since they are looked up by it, but several are "
            f"{str(index[index.duplicated()][0])!r}. Give each node another."
        )
    return index


def _dataset_name(nodes: Any) -> str:
    return table_name(nodes).partition(".")[0] if isinstance(nodes, str | Path) else "unnamed"


def require_column(wanted: str, names: list[str], table: str) -> str:
    """Return the name of a column that must be there, or say which it may have meant."""
    if wanted in names:
        return wanted
    by_lower = {n.lower(): n for n in names}
    close = difflib.get_close_matches(wanted.lower(), by_lower, n=1)
    raise TableError(
        f"There must be a column {wanted!r} in {table}; its columns are {', '.join(names)}."
        + (f" Did you mean {by_lower[close[0]]!r}?" if close else "")
    )


def id_column_of(names: list[str], wanted: str | None, table: str) -> str:
    """Choose the column of a node table's ids."""
    if wanted is not None:
        return require_column(wanted, names, table)
    by_lower = {n.lower(): n for n in reversed(names)}
    return next((by_lower[n] for n in _ID_NAMES if n in by_lower), names[0])


def edge_columns(
    names: list[str], source: str | None, target: str | None, table: str
) -> tuple[str, str]:
    """Choose the columns of an edge's two ends."""
    if len(names) < 2:
        raise TableError(
            f"An edge table must have two columns of node ids, but {table} has only "
            f"{', '.join(names)}. Check the separator: a comma in .csv, a tab in .tsv."
        )
    by_lower = {n.lower(): n for n in reversed(names)}
    found = [(by_lower[s], by_lower[t]) for s, t in _END_NAMES if {s, t} <= by_lower.keys()]
    start, end = found[0] if found else (names[0], names[1])
    if source is not None:
        start = require_column(source, names, table)
    if target is not None:
        end = require_column(target, names, table)
    if start == end:
        raise TableError(
            f"An edge's two ends must be two columns, got {start!r} for both. "
            "Name the other one as source or target."
        )
    return start, end


def warn_if_nameless(ends: tuple[str, str], table: str, *, are_ids: bool = False) -> None:
    """Warn if the names of both columns are or look like ids: without names an edge would be lost.

    Text does not look like an id, but it can be found among them.
    """
    if are_ids or all(re.fullmatch(r"-?\d+", name) for name in ends):
        warnings.warn(
            f"The first line of {table} was taken for the names of its columns, "
            f"{' and '.join(ends)}. If it is an edge, put a line with names before it, such as "
            "source,target.",
            UserWarning,
            stacklevel=3,
        )


def _own_type(ids: pd.Series) -> NDArray[Any]:
    """Make an array of ids that keeps their type; text as NumPy text, which needs no pickle.

    Ids of several types become text.
    """
    from pandas.api import types

    if isinstance(ids.dtype, types.CategoricalDtype):
        ids = ids.astype(ids.cat.categories.dtype)
    if types.is_integer_dtype(ids.dtype):
        return np.asarray(ids, dtype=np.uint64 if ids.dtype.kind == "u" else np.int64)
    kind = types.infer_dtype(ids)
    if kind == "string":
        return np.asarray(ids, dtype=str)
    if kind in ("mixed", "mixed-integer"):  # as edges are looked up, and as a model can be saved
        return np.asarray(as_text(ids), dtype=str)
    return np.asarray(ids)


def _rows(bad: NDArray[np.bool_], values: pd.Series) -> str:
    """Name a few of the rows, counted from 1 below the column names, and what they hold."""
    places = np.flatnonzero(bad)
    return _shown(values.iloc[places[:_SHOWN]].tolist(), places)


def _shown(values: list[Any], places: NDArray[Any]) -> str:
    """Show a few values and their rows, counted from 1."""
    held = zip(values, places.tolist(), strict=False)
    shown = ", ".join(f"{value!r} in row {place + 1:,}" for value, place in held)
    return shown + (", …" if len(places) > _SHOWN else "")


def repeated_ids(ids: NDArray[Any], places: NDArray[Any], name: str) -> TableError:
    """Return our error for ids of a node table that were there before, at these places."""
    values = [one.decode() if isinstance(one, bytes) else one for one in ids[:_SHOWN].tolist()]
    return TableError(
        f"Node ids must differ, but {name} repeats {len(places):,}: {_shown(values, places)}. Keep "
        "one row for each node, or name the column of ids with id= (--id)."
    )


def check_not_empty(ids: pd.Series, name: str, before: int | None = None) -> None:
    """Raise if an id is missing or no single value; of a part of a table, so many rows before."""
    from pandas.api import types

    _check_single(ids, name, before or 0)
    empty = ids.isna().to_numpy()
    if not types.is_numeric_dtype(ids.dtype):
        # Not by .str, or before pandas 3 every part of a table stays until circles are looked for.
        empty = (as_text(ids).map(str.strip) == "").to_numpy()
    if empty.any():
        places = (before or 0) + np.flatnonzero(empty)
        rows = ", ".join(f"{place + 1:,}" for place in places[:_SHOWN])
        raise TableError(
            f"Every row must have an id in column {ids.name!r}, but {name} has "
            f"{'' if before is None else 'at least '}{len(places):,} without one (row {rows}). "
            "Fill them in or drop those rows."
        )


def _check_single(ids: pd.Series, name: str, before: int) -> None:
    """Raise for lists, structs, maps and bytes, which Parquet can hold and are no ids."""
    import pandas as pd
    from pandas.api import types

    if isinstance(ids.dtype, pd.ArrowDtype):
        ids = ids.astype(object)
    # Few columns can hold any, and to look at each value of the others would take long.
    if ids.dtype != object or not types.infer_dtype(ids).startswith(("mixed", "bytes")):
        return
    for row, held in enumerate(ids, start=before + 1):
        if isinstance(held, bytes) or not types.is_hashable(held):
            kinds: dict[type, str] = {dict: "structs", bytes: "bytes"}
            raise TableError(
                f"An id must be one value, text or a number; column {ids.name!r} of {name} holds "
                f"{kinds.get(type(held), 'lists')}, as in row {row:,}. Name another column, or "
                "make text of it first."
            )


def _check_node_ids(ids: pd.Series, name: str) -> None:
    check_not_empty(ids, name)
    text = ids if ids.dtype.kind in "iu" else as_text(ids)
    if ids.dtype.kind not in "iu" and bool(text.str.contains("\0", regex=False).any()):
        # NumPy drops it at the end of a text, and two ids would become one.
        raise TableError(
            f"Ids must be text without the character 0, but column {ids.name!r} of {name} has it. "
            "Check that the file is whole."
        )
    if ids.dtype.kind not in "iu":
        check_lengths(text, f"Ids in column {ids.name!r} of {name}", TableError)
    repeated = np.flatnonzero(text.duplicated().to_numpy())
    if len(repeated):
        where = f"column {ids.name!r} of {name}"
        raise repeated_ids(text.iloc[repeated].to_numpy(), repeated, where)


def _check_all_known(positions: NDArray[Any], ends: list[pd.Series], name: str) -> None:
    import pandas as pd

    unknown = positions < 0
    if not unknown.any():
        return
    missing = pd.concat([end[bad] for end, bad in zip(ends, unknown.T, strict=True)])
    distinct = missing.sort_index(kind="stable").drop_duplicates()
    first = distinct.head(_SHOWN)
    shown = ", ".join(f"{value!r} in row {row + 1:,}" for row, value in first.items())
    # As programs write whole numbers where a column has empty cells.
    are_decimals = first.astype(str).str.fullmatch(r"-?\d+\.0").all()
    raise TableError(
        f"Every id of an edge must be in the node table, but {len(distinct):,} of {name} "
        f"{'is' if len(distinct) == 1 else 'are'} not: {shown}"
        f"{', …' if len(distinct) > _SHOWN else ''}. "
        + (
            "They look like whole numbers written as decimals: write them as in the node table."
            if are_decimals
            else "Add them to the node table, or drop those edges."
        )
    )


def _labels(nodes: pd.DataFrame, label: str | None, source: Any) -> tuple[Any, tuple[str, ...]]:
    """Return the labels, shape (n,), and what a reader should know about them."""
    import pandas as pd

    if label is None:
        return np.full(len(nodes), -1), ()
    require_column(label, list(nodes.columns), table_name(source))
    labels = nodes[label]
    if not is_text_file(source):
        return labels, ()
    codes, words = pd.factorize(labels)
    # Before they are read as numbers: Python makes none of thousands of digits.
    check_lengths(words, f"Labels in column {label!r} of {table_name(source)}", TableError)
    notes = tuple(
        f"{int((labels == word).sum()):,} cells {word!r} in column {label!r} read as unlabelled"
        for word in words
        if word and word in MISSING
    )
    kind = _kind_of([word for word in words if word not in MISSING])
    meaning = np.array([None if word in MISSING else kind(word) for word in words], dtype=object)
    return meaning[codes], notes


def _kind_of(words: list[str]) -> type[int | float | str]:
    """Tell numbers from text: "007" is no number, and large whole numbers keep every digit."""
    if all(re.fullmatch(r"0|-?[1-9]\d*", word) for word in words):
        return int
    is_measured = all(re.fullmatch(r"[-+]?(\d+|\d*\.\d+)([eE][-+]?\d+)?", word) for word in words)
    return float if is_measured and any("." in word for word in words) else str


def _weights(column: pd.Series, name: str) -> NDArray[np.float32]:
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~(np.abs(numbers) <= np.finfo(np.float32).max)  # nor NaN; before they are made float32
    if bad.any():
        raise TableError(
            f"Weights must be numbers of at most 3.4e38 in size, but column {column.name!r} of "
            f"{name} holds {_rows(bad, column)}. Correct them, or leave weight= (--weight) out."
        )
    return np.asarray(numbers, dtype=np.float32)
