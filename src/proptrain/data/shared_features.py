"""Features that every machine of a cluster can read some rows of: one float32 .npy file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.disk_nodes import check_rows, checked_parts, open_features, usable_features
from proptrain.data.mapped import parts_of
from proptrain.data.shared import SharedFile, SharedFolder
from proptrain.data.table_files import told_in_our_words
from proptrain.errors import InvalidInputError, UnreadableFileError
from proptrain.system.files import kind_at

FeatureSource: TypeAlias = str | Path | NDArray[Any] | sp.csr_array
"""Features as a file, or as a matrix in memory."""


def check_feature_source(features: FeatureSource, n_nodes: int) -> None:
    """Raise if features cannot be used, as far as one can tell without reading them."""
    if not isinstance(features, str | Path):
        usable_features(features, n_nodes)
        return
    source = SharedFile.at(features)
    if source.folder.local is not None:
        path = source.folder.local / source.name
        if path.suffix != ".parquet":  # which would be read whole
            open_features(path, n_nodes)
        elif kind_at(path) != "file":
            raise UnreadableFileError(f"{path} is no file.")
    elif source.name.endswith(".npy"):
        count_features(source, n_nodes)
    else:
        raise InvalidInputError(
            f"Features that lie in a store must be a float32 .npy file, got {source.name}. "
            "From a disk of this machine Parquet is taken as well."
        )


def shared_features(features: FeatureSource, n_nodes: int, work: SharedFolder) -> SharedFile:
    """Return features that processes can read some rows of: a float32 .npy file.

    Others, Parquet, numbers of another kind or a matrix in memory, sparse or not, are written to
    the work folder as one, a part at a time, if they lie on a disk of this machine.
    """
    if not isinstance(features, str | Path):
        return _written(usable_features(features, n_nodes), "X", work)
    source = SharedFile.at(features)
    if source.folder.local is None:
        return source
    given = open_features(source.folder.local / source.name, n_nodes)
    if _is_ready(given) and source.name.endswith(".npy"):
        return source
    return _written(given, source.name, work)


def _is_ready(given: Any) -> bool:
    return bool(given.dtype == np.float32 and given.flags.c_contiguous)


def _written(given: Any, name: str, work: SharedFolder) -> SharedFile:
    """Write features to the work folder, each number stored; they are looked at before."""
    parts = (part.toarray() if sp.issparse(part) else part for part in checked_parts(given, name))
    work.write_rows("features.npy", given.shape, np.dtype(np.float32), parts)
    return SharedFile(work, "features.npy")


def count_features(features: SharedFile, n_nodes: int) -> int:
    """Return how many columns features have, or say what is wrong with the file."""
    shape, dtype = features.folder.look(features.name)
    if len(shape) != 2 or shape[0] != n_nodes or dtype != np.float32:
        raise InvalidInputError(
            f"Features must be float32, with a row for each of the graph's {n_nodes:,} nodes; "
            f"{features.name} has {dtype} of shape {shape}."
        )
    return shape[1]


def feature_columns(features: FeatureSource) -> int:
    """Return how many columns features have, wherever they lie, without reading them."""
    if not isinstance(features, str | Path):
        return int(features.shape[1])
    source = SharedFile.at(features)
    if source.name.endswith(".npy"):
        return source.folder.look(source.name)[0][1]
    import pyarrow.parquet as pq

    with told_in_our_words(Path(features)):
        return int(pq.read_metadata(features).num_columns)


def check_feature_rows(features: SharedFile, rows: slice) -> int:
    """Raise unless the features of some rows can be computed with; returns how many rows."""
    shape, dtype = features.folder.look(features.name)
    for part in parts_of(rows.stop - rows.start, shape[1] * dtype.itemsize):
        some = slice(rows.start + part.start, rows.start + part.stop)
        check_rows(features.folder.read_rows(features.name, some), features.name, some)
    return int(rows.stop - rows.start)
