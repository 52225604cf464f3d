"""What belongs to the nodes of a graph on disk: features and labels in files, or a node table."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.columns import as_text
from proptrain.data.disk import DiskGraph, decoded
from proptrain.data.indices import in_native_order
from proptrain.data.mapped import forget, parts_of, room_for
from proptrain.data.names import has_letters
from proptrain.data.npy import map_array
from proptrain.data.sound import sound_matrix
from proptrain.data.table_files import check_parquet, parquet_batches
from proptrain.data.tables import node_data, read_nodes
from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    ProptrainError,
    TableError,
    UnreadableFileError,
)
from proptrain.system.files import NAMED, check_ordinary

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer

    from proptrain.data.dataset import Features
    from proptrain.data.shared_graph import SharedGraph

_EXACT = 2.0**53
"""Below it every whole number is a floating-point number of its own."""


@dataclass(frozen=True, eq=False)
class NodeTable:
    """A node table in the order of a graph's nodes."""

    features: Features
    codes: NDArray[np.int64]
    class_names: tuple[Hashable, ...]
    encoder: ColumnTransformer
    notes: tuple[str, ...]
    id_column: str
    feature_columns: tuple[str, ...]


def read_node_table(
    graph: DiskGraph | SharedGraph,
    nodes: Path,
    *,
    label: str,
    id: str | None = None,
    kinds: Any = None,
    unlabelled: Hashable = -1,
) -> NodeTable:
    """Read a node table, into memory, and put its rows into the order of a graph's nodes."""
    table, id_column, node_ids = read_nodes(nodes, id=id, label=label)
    table = table.iloc[_rows_of(graph, node_ids, nodes.name)].reset_index(drop=True)
    how: dict[str, Any] = {"label": label, "kinds": kinds, "encoder": None}
    how["unlabelled"] = unlabelled
    codes, class_names, encoded, notes = node_data(table, nodes, id_column, **how)
    columns = tuple(c for c in table.columns if encoded.kinds.get(c, "drop") != "drop")
    return NodeTable(
        encoded.features, codes, class_names, encoded.encoder, notes, id_column, columns
    )


def _rows_of(
    graph: DiskGraph | SharedGraph, node_ids: NDArray[Any], name: str
) -> NDArray[np.int64]:
    """Return the row of a table that each node of a graph has."""
    import pandas as pd

    own, given = pd.Series(graph.ids()), pd.Series(node_ids)
    if not (own.dtype.kind == given.dtype.kind == "i"):
        own, given = as_text(own), as_text(given)
    rows = pd.Index(given).get_indexer(pd.Index(own))
    missing = rows < 0
    if missing.any():
        raise TableError(
            f"Every node of the graph must be in {name}, but {int(missing.sum()):,} are not, the "
            f"first is {own[missing].iloc[0]!r}. Add them to the table."
        )
    if len(given) > len(own):
        others = given[~given.isin(own)]
        raise TableError(
            f"{name} has {len(others):,} nodes that the graph does not have, the first is "
            f"{others.iloc[0]!r}. Build the graph with --nodes {name} to have nodes without edges."
        )
    return np.asarray(rows, dtype=np.int64)


def open_features(path: Path, n_nodes: int) -> NDArray[Any]:
    """Return features (n, f) that lie in a file: .npy, mapped; or .parquet, all columns.

    Row i is that of the graph's node i. Parquet is read a row group at a time into a file without
    a name. Whoever uses them checks the numbers: `check_numbers`.
    """
    if path.suffix not in (".npy", ".parquet"):
        raise FileFormatError(f"Features must be a .npy or .parquet file, got {path.name}.")
    features = _from_parquet(path) if path.suffix == ".parquet" else map_array(path)
    if features.ndim != 2 or len(features) != n_nodes or features.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"Features must be real numbers, with a row for each of the graph's {n_nodes:,} nodes; "
            f"{path.name} has {features.dtype} of shape {features.shape}."
        )
    return features


def usable_features(features: Any, n_nodes: int) -> Any:
    """Return a matrix of features (n, f) that can be computed with, or say what it is instead."""
    if not (isinstance(features, np.ndarray) or sp.issparse(features)):
        raise InvalidInputError(
            "Features must be a NumPy array, mapped or not, or a SciPy sparse matrix, got "
            f"{type(features).__name__} of shape {np.shape(features)}."
        )
    if features.ndim != 2 or features.shape[0] != n_nodes:
        raise InvalidInputError(
            f"Features must have a row for each of the graph's {n_nodes:,} nodes, got shape "
            f"{features.shape}."
        )
    if features.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"Features must be real numbers; {_name_of(features)} has {features.dtype}."
        )
    features = sound_matrix(features, "Features")
    if not sp.issparse(features):
        return features
    return sp.csr_array(in_native_order(features))  # rows are taken


def check_numbers(features: Any) -> None:
    """Raise unless all features (n, f), in a file or not, are finite numbers in float32."""
    for _ in checked_parts(features, _name_of(features)):
        pass


def checked_parts(features: Any, name: str) -> Iterator[Any]:
    """Yield features some rows at a time, once they were looked at, and let go of them."""
    for rows in parts_of(features.shape[0], features.shape[1] * max(4, features.dtype.itemsize)):
        part = features[rows]
        check_rows(part, name, rows)
        yield part
        forget(features)


def _name_of(features: Any) -> str:
    """Return the name of the file that a matrix lies in, or the one that a user knows it by."""
    return Path(str(getattr(features, "filename", None) or "X")).name


def check_rows(part: Any, name: str, rows: slice) -> None:
    """Raise unless some rows of a file's features are finite numbers in float32."""
    with np.errstate(over="ignore"):
        numbers = np.asarray(part.data if sp.issparse(part) else part)
        fine = np.isfinite(numbers.astype(np.float32, copy=False))
    if fine.all():
        return
    place = tuple(np.argwhere(~fine)[0])
    where = f"between rows {rows.start:,} and {rows.stop:,}"
    if len(place) == 2:
        where = f"in row {rows.start + place[0]:,}, column {place[1]:,} (both counted from 0)"
    raise InvalidInputError(
        f"Features must be finite numbers that fit float32; {name} has {numbers[place]} {where}. "
        "Fill or drop such numbers first."
    )


def open_labels(path: Path, n_nodes: int, unlabelled: float | str = -1) -> NDArray[Any]:
    """Return labels (n,) from a file, .npy of whole numbers or text; NaN, "", a marker: none."""
    # Copied once they are known to be no more than there are nodes.
    return np.array(checked_labels(map_array(path), path.name, n_nodes, unlabelled))


def checked_labels(
    labels: NDArray[Any], name: str, n_nodes: int, unlabelled: float | str = -1
) -> NDArray[Any]:
    """Return labels (n,) of a file as numbers or text, or say what is wrong with them."""
    if labels.shape != (n_nodes,) or labels.dtype.kind not in "biufUS":
        raise InvalidInputError(
            f"Labels must be whole numbers or text, one for each of the graph's {n_nodes:,} nodes; "
            f"{name} has {labels.dtype} of shape {labels.shape}."
        )
    if labels.dtype.kind == "U" and not has_letters(labels):
        raise FileFormatError(f"{name} holds numbers that are no letters. Write it again.")
    return _whole(labels, unlabelled) if labels.dtype.kind == "f" else decoded(labels, name)


def _whole(labels: NDArray[Any], unlabelled: float | str) -> NDArray[Any]:
    """Return floating-point labels as whole numbers, with the marker for NaN, if they are such."""
    if isinstance(unlabelled, str):  # which no number is, so NaN alone can be unlabelled
        return labels
    whole = np.where(np.isnan(labels), unlabelled, labels)
    is_whole = bool((abs(whole) < _EXACT).all() and (whole == np.round(whole)).all())
    return whole.astype(np.int64) if is_whole else labels


def _from_parquet(path: Path) -> NDArray[np.float32]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_ordinary(path, NAMED)
    try:
        with pq.ParquetFile(path) as file:
            check_parquet(path, file.schema_arrow, file.metadata.num_rows)
            shape = (file.metadata.num_rows, file.metadata.num_columns)
            features = room_for(shape, np.float32)
            first = 0
            for batch in parquet_batches(file, 1 << 16):
                last = first + batch.num_rows
                for place, column in enumerate(batch.columns):
                    numbers = column.cast(pa.float32(), safe=False)
                    features[first:last, place] = numbers.to_numpy(zero_copy_only=False)
                check_rows(features[first:last], path.name, slice(first, last))
                forget(features)
                first = last
    except ProptrainError:  # such as a full disk where the numbers go: not the table's fault
        raise
    except OSError as error:
        if error.errno is None:  # of a decoder's making
            raise FileFormatError(f"{path.name} is cut short or damaged: {error}.") from error
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror}.") from error
    except (pa.ArrowException, UnicodeError) as error:
        raise FileFormatError(
            f"{path.name} must be a Parquet file whose columns are all numbers: {error}."
        ) from error
    return features
