"""Data sets in ``.npz`` files, in the layout of the paper's data; nothing is ever unpickled."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.dataset import Dataset, Features, most_unnamed_classes
from proptrain.data.graph import Graph
from proptrain.data.names import LONGEST, check_lengths, has_letters
from proptrain.data.npy import Header, read_header
from proptrain.data.unpacking import check_growth
from proptrain.errors import FileFormatError, InvalidInputError, UnreadableFileError
from proptrain.system.files import NAMED, check_ordinary, whole_file

CSR_PARTS = ("data", "indices", "indptr", "shape")
MAX_COLUMNS = np.iinfo(np.int32).max

# All that zipfile raises on bytes that are no archive, or one that was damaged.
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, UnicodeError)
_ADVICE = "save it sparse, or without compression."


def read_npz(path: str | os.PathLike[str]) -> Dataset:
    """Read a data set from an ``.npz`` file; its name is the file's.

    Members: ``adj_matrix.data``, ``.indices``, ``.indptr``, ``.shape`` (CSR), the same four for
    ``attr_matrix`` or one dense ``attr_matrix``, and ``labels``. The older spelling ``adj_data``,
    ``attr_data``, … will do. ``class_names`` and ``node_ids`` (or ``node_names``) are used where
    they fit and are not pickled. No other member is touched.

    >>> from proptrain import load_dataset
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_npz(load_dataset("cora"), f"{folder}/papers.npz")
    ...     read_npz(f"{folder}/papers.npz").graph
    Graph(2,708 nodes, 5,278 edges)
    """
    path = Path(path)
    with _open(path) as file:
        try:
            return _read_archive(file, path.stem)
        except (FileFormatError, InvalidInputError) as fault:
            raise FileFormatError(f"Cannot use {path}: {fault}") from fault
        except _DAMAGED as fault:
            raise FileFormatError(
                f"Cannot use {path}: it must be an .npz archive, but it is of another kind, cut "
                f"short or damaged ({fault}). Copy or download it again."
            ) from fault


def write_npz(dataset: Dataset, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a data set to a compressed ``.npz`` file that `read_npz` reads back as it was.

    >>> from proptrain import Graph
    >>> from tempfile import TemporaryDirectory
    >>> pair = Dataset(Graph(sp.csr_array([[0, 1], [1, 0]])), np.ones((2, 3)), np.array([1, -1]))
    >>> with TemporaryDirectory() as folder:
    ...     write_npz(pair, f"{folder}/pair.npz")
    ...     read_npz(f"{folder}/pair.npz").labels
    array([ 1, -1])
    """
    members: dict[str, Any] = _members_of(dataset)  # plain arrays: nothing is pickled
    with whole_file(Path(path), overwrite=overwrite) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **members)


def _open(path: Path) -> BinaryIO:
    check_ordinary(path, NAMED)
    try:
        return path.open("rb")
    except OSError as fault:
        raise UnreadableFileError(
            f"Cannot read {path}: {fault.strerror}. It must be an .npz file that you may read; "
            "check the path and its permissions."
        ) from fault


def _read_archive(file: BinaryIO, name: str) -> Dataset:
    if not file.read(1):
        raise FileFormatError("it is empty (0 bytes). Copy or download it again.")
    with zipfile.ZipFile(file) as archive:
        _check_whole(archive)
        adjacency = _read_csr(archive, "adj")
        if adjacency.shape[0] != adjacency.shape[1]:
            raise FileFormatError(f"the adjacency matrix must be square, got {adjacency.shape}.")
        labels = _read_labels(archive, adjacency.shape[0])
        class_names = _read_class_names(archive, int(labels.max(initial=-1)) + 1)
        if class_names is None:
            _check_unnamed(labels)
        return Dataset(
            graph=Graph(adjacency),
            features=_read_features(archive),
            labels=labels,
            node_ids=_read_node_ids(archive, len(labels)),
            class_names=class_names,
            name=name,
        )


def _read_member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read one array, after checking that its header claims no more than the file holds."""
    if not _holds(archive, name):
        held = ", ".join(sorted(entry.removesuffix(".npy") for entry in archive.namelist()))
        raise FileFormatError(
            f"it must hold the member {name!r}, but it holds {held[:300] or 'nothing'}. "
            "proptrain.write_npz writes the right layout."
        )
    content = _unpacked(archive, archive.getinfo(f"{name}.npy"))
    return _header_of(content, name).array_in(content).copy(order="K")  # aligned, and writeable


def _header_of(content: bytes, name: str) -> Header:
    return read_header(io.BytesIO(content), f"the member {name!r}", len(content))


def check_archive(content: bytes) -> None:
    """Raise for an archive with a member that would fill the memory, unpacked or as an array."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        _check_whole(archive)
        for member in archive.infolist():
            unpacked = _unpacked(archive, member)
            if member.filename.endswith(".npy"):
                _header_of(unpacked, member.filename)


def _check_whole(archive: zipfile.ZipFile) -> None:
    """Raise for an archive whose members together would fill the memory, though none does alone."""
    n_unpacked = sum(member.file_size for member in archive.infolist())
    check_growth("the archive", archive.start_dir, n_unpacked, _ADVICE)


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return a member of an archive, unless it is tiny and would fill the memory when unpacked."""
    if member.compress_size > archive.start_dir:  # where what is packed ends
        raise FileFormatError(
            f"{member.filename} must lie in the archive, but would take {member.compress_size:,} "
            "bytes of it, more than there are. Copy or download the file again."
        )
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # Python unpacks the others without a limit, whatever size the archive claims for them.
        raise FileFormatError(
            f"{member.filename} must be stored or deflated, as NumPy does it, but is packed in "
            f"another way (number {member.compress_type}). Save it with NumPy."
        )
    check_growth(member.filename, member.compress_size, member.file_size, _ADVICE)
    return archive.read(member)


def _holds(archive: zipfile.ZipFile, name: str) -> bool:
    return f"{name}.npy" in archive.NameToInfo


def _read_optional(archive: zipfile.ZipFile, name: str) -> NDArray[Any] | None:
    try:
        return _read_member(archive, name)
    except FileFormatError:
        return None


def _read_numbers(
    archive: zipfile.ZipFile, name: str, kinds: str, n_dimensions: int = 1
) -> NDArray[Any]:
    array = _read_member(archive, name)
    _check_numbers(name, array, kinds, n_dimensions)
    return array


def _read_features(archive: zipfile.ZipFile) -> Features:
    if _holds(archive, "attr_matrix"):
        features = _read_numbers(archive, "attr_matrix", "biuf", n_dimensions=2)
        # As they are used: what is stored in one byte takes four from here on.
        check_growth("attr_matrix", archive.start_dir, 4 * features.size, _ADVICE)
        return features
    return _read_csr(archive, "attr")


def _read_csr(archive: zipfile.ZipFile, matrix: str) -> sp.csr_array:
    prefix = f"{matrix}_" if _holds(archive, f"{matrix}_indptr") else f"{matrix}_matrix."
    parts = [_read_member(archive, prefix + part) for part in CSR_PARTS]
    # As `checked_csr` makes them: what is stored in one byte takes eight from here on.
    n_widened = sum(8 * part.size for part in parts)
    check_growth(f"the matrix {prefix}…", archive.start_dir, n_widened, _ADVICE)
    return checked_csr(prefix, parts)


def csr_parts(prefix: str, matrix: sp.csr_array) -> dict[str, NDArray[Any]]:
    """Return the `CSR_PARTS` of a matrix by name."""
    return {prefix + part: np.asarray(getattr(matrix, part)) for part in CSR_PARTS}


def checked_csr(prefix: str, parts: Sequence[NDArray[Any]]) -> sp.csr_array:
    """Make a CSR matrix of its `CSR_PARTS`; they are checked first because SciPy trusts them."""
    names = [prefix + part for part in CSR_PARTS]
    for name, part, kinds in zip(names, parts, ("biuf", "iu", "iu", "iu"), strict=True):
        _check_numbers(name, part, kinds)
    data, indices, indptr, shape = parts
    n_rows = len(indptr) - 1
    sizes = tuple(int(size) for size in shape[:3])
    if n_rows < 0 or len(sizes) != 2 or sizes[0] != n_rows or not 0 <= sizes[1] <= MAX_COLUMNS:
        raise FileFormatError(
            f"{names[3]} must be (rows, columns) with one row for each step in {names[2]}, "
            f"{n_rows:,}, and at most {MAX_COLUMNS:,} columns; got {shape}."
        )
    _check_pointers(names[2], indptr, len(indices), len(data))
    check_range(names[1], indices, 0, sizes[1] - 1)
    # Plain types, because SciPy takes no half-precision numbers and no other machine's byte order.
    plain = (data.astype(np.float64), indices.astype(np.int64), indptr.astype(np.int64))
    return sp.csr_array(plain, shape=sizes)


def _check_numbers(name: str, array: NDArray[Any], kinds: str, n_dimensions: int = 1) -> None:
    if array.dtype.kind not in kinds or array.ndim != n_dimensions:
        sort = "real numbers" if "f" in kinds else "integers"
        raise FileFormatError(
            f"the member {name!r} must be a {n_dimensions}-dimensional array of {sort}, got shape "
            f"{array.shape} and type {array.dtype}."
        )


def _check_pointers(name: str, indptr: NDArray[Any], n_indices: int, n_values: int) -> None:
    falls = bool((indptr[1:] < indptr[:-1]).any())
    if falls or indptr[0] != 0 or not int(indptr[-1]) == n_indices == n_values:
        raise FileFormatError(
            f"{name} must rise from 0 to the number of stored values; it goes from {indptr[0]} to "
            f"{indptr[-1]}{' and falls in between' if falls else ''}, with {n_indices:,} indices "
            f"and {n_values:,} values."
        )


def check_range(name: str, numbers: NDArray[Any], low: int, high: int) -> None:
    """Raise unless all numbers of an integer array lie between two bounds, both included."""
    if numbers.size and not low <= int(numbers.min()) <= int(numbers.max()) <= high:
        raise FileFormatError(
            f"{name} must be whole numbers from {low} to {high}, got values from {numbers.min()} "
            f"to {numbers.max()}."
        )


def _read_labels(archive: zipfile.ZipFile, n_nodes: int) -> NDArray[np.int64]:
    labels = _read_numbers(archive, "labels", "iu").astype(np.int64)
    if len(labels) != n_nodes:
        raise FileFormatError(
            f"labels must have one entry for each of the {n_nodes:,} nodes (-1 for unknown), got "
            f"{len(labels):,}."
        )
    return labels


def _check_unnamed(labels: NDArray[np.int64]) -> None:
    limit = most_unnamed_classes(len(labels))
    if labels.max(initial=0) >= limit:
        raise FileFormatError(
            f"labels must be class codes counted from 0, below {limit:,} where the file has no "
            f"class_names for them; got {labels.max()}. Number the classes 0, 1, 2, …"
        )


def _read_class_names(archive: zipfile.ZipFile, n_classes: int) -> tuple[Any, ...] | None:
    names = _read_optional(archive, "class_names")
    if names is None or names.ndim != 1 or len(names) < n_classes:
        return None
    _check_names(names, "class_names")
    return tuple(names.tolist()) if _identifies(names) else None


def _read_node_ids(archive: zipfile.ZipFile, n_nodes: int) -> NDArray[Any] | None:
    for member in ("node_ids", "node_names"):
        ids = _read_optional(archive, member)
        if ids is not None and ids.shape == (n_nodes,) and _identifies(ids):
            _check_names(ids, member)
            return ids.astype(np.int64) if np.can_cast(ids.dtype, np.int64) else ids
    return None


def _check_names(names: NDArray[Any], member: str) -> None:
    """Raise for ids or names that a saved model could not keep."""
    if names.dtype.kind == "U" and names.dtype.itemsize > 4 * LONGEST:  # some may be too long
        check_lengths(names.tolist(), f"the member {member!r}: names")


def _identifies(values: NDArray[Any]) -> bool:
    """Tell whether values are numbers or valid text, and no two of them are the same."""
    if values.dtype.kind == "U" and not has_letters(values):
        return False
    return values.dtype.kind in "biufUS" and len(np.unique(values)) == len(values)


def _members_of(dataset: Dataset) -> dict[str, NDArray[Any]]:
    """List the arrays of a file, each in the smallest type that holds its values."""
    assert dataset.node_ids is not None
    assert dataset.class_names is not None
    members = csr_parts("adj_matrix.", dataset.graph.adjacency)
    if sp.issparse(dataset.features):
        members |= csr_parts("attr_matrix.", dataset.features)
    else:
        members["attr_matrix"] = dataset.features
    members["labels"] = dataset.labels
    members["class_names"] = _storable(dataset.class_names, "class_names")
    if not np.array_equal(dataset.node_ids, np.arange(dataset.n_nodes)):
        members["node_ids"] = _storable(list(dataset.node_ids), "node_ids")
    return {name: _smallest(array) for name, array in members.items()}


def _storable(values: Sequence[Any], name: str) -> NDArray[Any]:
    """Make a plain array of names or ids, and make sure that it says the same as they do."""
    try:
        array = np.array(values if len(values) else [], dtype=None if len(values) else np.int64)
    except ValueError:  # sequences of unequal length
        array = np.array(None)
    if array.ndim != 1 or not _identifies(array) or array.tolist() != list(values):
        raise InvalidInputError(
            f"To be written to a file, {name} must be all numbers or all text, without "
            f"repetition; got {', '.join(map(str, values[:5]))}, … "
            "Turn them into text first."
        )
    return array


def _smallest(array: NDArray[Any]) -> NDArray[Any]:
    """Convert whole numbers to the smallest integer type that holds them all."""
    if array.dtype.kind not in "iuf" or array.size == 0:
        return array
    low, high = array.min(), array.max()
    if array.dtype.kind == "f" and (
        max(abs(low), abs(high)) >= 2**24 or not np.array_equal(array, np.rint(array))
    ):
        return array
    low, high = int(low), int(high)
    return array.astype(np.min_scalar_type(min(low, -high - 1) if low < 0 else high))
