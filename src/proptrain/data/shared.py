"""A folder that several machines see: mounted, or at s3://, gs:// or what else pyarrow knows.

Only arrays in .npy files go in and out, whole or some rows of them; nothing is unpickled. A file
takes its name when it is whole: a machine that is lost while it writes leaves no half of one, and
what is left of an error is removed (see `SharedFolder.write_bytes`).
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.manifest import StoredArray
from proptrain.data.mapped import SMALL, forget, parts_of, room_for
from proptrain.data.npy import Header, map_array, read_header
from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    UnreadableFileError,
    UnwritableOutputError,
)
from proptrain.system.files import check_ordinary

GAP = 1 << 20
"""Bytes that are read and not used sooner than to ask a store again, which takes as long."""
_STORES = ("s3", "gcs", "abfs")
"""What pyarrow calls stores in which to move a file means to copy it."""
_ADDRESS = re.compile(r"([a-z][a-z0-9+]+):/+(.*)")


def is_address(place: str | Path) -> bool:
    """Tell whether a place is no path of this machine but an address such as s3://….

    >>> is_address(Path("s3://bucket/graph")), is_address("file:///graph"), is_address("graph")
    (True, False, False)
    """
    found = _ADDRESS.fullmatch(str(place))
    return found is not None and found[1] != "file"


def address_of(place: str | Path) -> str:
    """Return a place as all machines write it: an absolute path, or an address such as s3://….

    A `Path` of an address has lost one of its slashes, which comes back here.

    >>> address_of(Path("s3://bucket/graph")), address_of("file:///graph")
    ('s3://bucket/graph', '/graph')
    """
    found = _ADDRESS.fullmatch(str(place))
    if found is not None and found[1] != "file":
        return f"{found[1]}://{found[2]}"
    return str(Path(f"/{found[2]}" if found else place).resolve())


class SharedFolder:
    """Reads and writes arrays in a folder by its address; travels as the address alone."""

    def __init__(self, place: str | Path) -> None:
        self.address = address_of(place)

    def __getstate__(self) -> dict[str, Any]:
        """Travel as an address; who receives it opens the folder anew."""
        return {"address": self.address}

    def __repr__(self) -> str:
        """Show where it is."""
        return f"SharedFolder({self.address!r})"

    @property
    def local(self) -> Path | None:
        """Where it is mounted; None if it is at hand through the network alone."""
        return None if _ADDRESS.fullmatch(self.address) else Path(self.address)

    def within(self, name: str) -> SharedFolder:
        """Return a folder in it."""
        return SharedFolder(f"{self.address}/{name}")

    def make(self) -> None:
        """Make the folder."""
        with self._writing(self.address):
            self._files.create_dir(self._path, recursive=True)

    def remove(self) -> None:
        """Remove it with all that is in it."""
        with self._writing(self.address):
            self._files.delete_dir(self._path)

    def read_bytes(self, name: str, at_most: int | None = None) -> Any:
        """Return a file's content, as a buffer; nothing of a file that is larger."""
        with self._open(name) as file:
            if at_most is not None and (n_bytes := file.size()) > at_most:
                raise self._broken(name, f"must have at most {at_most:,} bytes, got {n_bytes:,}")
            return file.read_buffer()

    def read(self, name: str, stored: StoredArray | None = None) -> NDArray[Any]:
        """Return an array; if it is known what was stored, only that is taken."""
        import pyarrow as pa

        content = self.read_bytes(name, None if stored is None else stored.n_bytes)
        if stored is not None and content.size != stored.n_bytes:
            raise self._broken(name, f"must have {stored.n_bytes:,} bytes, got {content.size:,}")
        if stored is not None and (found := hashlib.sha256(content).hexdigest()) != stored.sha256:
            raise self._broken(
                name,
                f"was changed after it was written: SHA-256 {found}, expected {stored.sha256}",
            )
        header = self._header(name, pa.BufferReader(content), content.size)
        found_type, found_shape = header.dtype.str, header.shape
        if stored is not None and (found_type, found_shape) != (stored.dtype, (stored.length,)):
            raise self._broken(name, f"holds {header.dtype} of shape {header.shape}")
        return header.array_in(content)

    def look(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Return the shape and the type of an array, of which no more is read than its header."""
        with self._open(name) as file:
            header = self._header(name, file, file.size())
            return header.shape, header.dtype

    def read_rows(self, name: str, rows: slice | NDArray[Any]) -> NDArray[Any]:
        """Return some rows of a matrix: a run of them is read as it lies, others run by run.

        Rows that lie near each other are one run, with what is between them: to ask once more costs
        more than to read that.
        """
        with self._open(name) as file:
            header = self._header(name, file, file.size())
            shape, dtype = header.shape, header.dtype
            if len(shape) != 2:
                raise self._broken(name, f"must be a matrix, got shape {shape}")
            last = rows.stop if isinstance(rows, slice) else int(rows.max(initial=-1)) + 1
            self._check_rows(name, shape, last)
            row_bytes = shape[1] * dtype.itemsize

            def run(some: slice) -> NDArray[Any]:
                file.seek(header.first + some.start * row_bytes)
                content = file.read_buffer((some.stop - some.start) * row_bytes)
                if content.size != (some.stop - some.start) * row_bytes:
                    raise self._broken(name, "ends too early")
                return np.frombuffer(content, dtype).reshape(some.stop - some.start, shape[1])

            if isinstance(rows, slice):
                return run(rows)
            picked = np.empty((len(rows), shape[1]), dtype)
            order = np.argsort(rows, kind="stable")
            gap, longest = (max(1, size // max(1, row_bytes)) for size in (GAP, SMALL))
            for wanted in runs_of(rows, order, gap, longest):
                low, high = int(rows[wanted[0]]), int(rows[wanted[-1]]) + 1
                picked[wanted] = run(slice(low, high))[rows[wanted] - low]
            return picked

    def map(self, name: str, rows: slice | None = None) -> NDArray[Any]:
        """Return an array mapped: where it lies, or a copy of it without a name on this machine.

        If some ``rows`` will do, those alone, and no others are copied.
        """
        shape, dtype = self.look(name)
        if self.local is not None:
            whole = map_array(self.local / name)
            return whole if rows is None else whole[rows]
        skipped = 0
        if rows is not None:
            self._check_rows(name, shape, rows.stop)
            skipped = rows.start * math.prod(shape[1:]) * dtype.itemsize
            shape = (rows.stop - rows.start, *shape[1:])
        copy = room_for(shape, dtype)
        flat = copy.reshape(-1).view(np.uint8)
        with self._open(name) as file:
            file.seek(self._header(name, file, file.size()).first + skipped)
            for part in parts_of(len(flat), 1):
                flat[part] = np.frombuffer(file.read_buffer(part.stop - part.start), np.uint8)
                forget(flat)
        return copy

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Write an array to a file that is there once it is whole."""
        self.write_rows(name, array.shape, array.dtype, [array])

    def write_rows(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], parts: Iterable[NDArray[Any]]
    ) -> None:
        """Write an array some rows at a time, of which no more is in memory than a part."""
        header = io.BytesIO()
        described = {"descr": dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, described)
        contents = (np.ascontiguousarray(part, dtype=dtype) for part in parts)
        n_bytes = header.tell() + math.prod(shape) * dtype.itemsize
        self._write(name, chain([header.getvalue()], contents), n_bytes)

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file that is there once it is whole."""
        self._write(name, [content], len(content))

    def _write(self, name: str, contents: Iterable[Any], n_bytes: int) -> None:
        """Write a file of so many bytes that is there once it is whole.

        Where files can be renamed, on a disk or at hdfs://, it has another name until it is whole.
        In a store a file is there when its stream is closed. A process that is killed before leaves
        nothing, but after an error pyarrow closes the stream as well, and has no way not to: what
        came of it is then removed, unless the store cannot be reached any more. Till then a part of
        it can be seen, which who reads an array refuses by its size.
        """
        import pyarrow as pa

        is_store = self.local is None and self._files.type_name in _STORES
        beside = name if is_store else f".{name}.{secrets.token_hex(4)}"
        with self._writing(f"{self.address}/{name}"):
            try:
                with self._files.open_output_stream(f"{self._path}/{beside}") as file:
                    for content in contents:
                        file.write(pa.py_buffer(content))
                if beside != name:
                    self._files.move(f"{self._path}/{beside}", f"{self._path}/{name}")
            except BaseException:
                # A whole one of this name is another's, who did the same meanwhile.
                self._remove_unless(beside, n_bytes if is_store else -1)
                raise

    def _remove_unless(self, name: str, n_bytes: int) -> None:
        """Remove a file, if it is there and can be removed, unless it has so many bytes."""
        path = f"{self._path}/{name}"
        with suppress(Exception):  # what went wrong first is what is told
            if self._files.get_file_info(path).size != n_bytes:
                self._files.delete_file(path)

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        import pyarrow as pa
        from pyarrow import fs

        try:
            opened: tuple[Any, str] = fs.FileSystem.from_uri(self.address)
        except (pa.ArrowException, OSError, ValueError, ImportError) as error:
            raise InvalidInputError(
                f"A shared folder must be a path, or an address such as s3://bucket/folder that "
                f"pyarrow can open; got {self.address!r}: {error}."
            ) from error
        return opened

    @property
    def _files(self) -> Any:
        return self._opened[0]

    @property
    def _path(self) -> str:
        return self._opened[1]

    @contextmanager
    def _open(self, name: str) -> Iterator[Any]:
        if self.local is not None:
            check_ordinary(self.local / name)
        try:
            with self._files.open_input_file(f"{self._path}/{name}") as file:
                yield file
        except (UnreadableFileError, FileFormatError):
            raise
        except OSError as error:
            raise UnreadableFileError(
                f"{self.address}/{name} cannot be read: {error.strerror or error}. It must be "
                "whole, and every machine of the cluster must see it."
            ) from error

    @contextmanager
    def _writing(self, place: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = str(error.strerror or error).rstrip(".")
            raise UnwritableOutputError(
                f"{place} cannot be written: {why}. Make room, or choose another place."
            ) from error

    def _header(self, name: str, file: Any, n_bytes: int) -> Header:
        """Read what an array in a file of so many bytes is, and where it begins."""
        header = read_header(file, f"{self.address}/{name}", n_bytes)
        if header.order != "C":
            raise self._broken(name, "must be an array in C order")
        return header

    def _check_rows(self, name: str, shape: tuple[int, ...], n_wanted: int) -> None:
        """Raise unless an array has so many rows: in one of none they may be of any length."""
        if not shape or shape[0] < n_wanted:
            raise self._broken(name, f"must have at least {n_wanted:,} rows, got shape {shape}")

    def _broken(self, name: str, what: str) -> FileFormatError:
        return FileFormatError(f"{self.address}/{name} {what}. Write it again.")


def runs_of(
    rows: NDArray[Any], order: NDArray[np.intp], gap: int, longest: int
) -> list[NDArray[np.intp]]:
    """Cut an order of rows, which sorts them, where a gap is wide, or a run would grow too long.

    >>> rows = np.array([9, 0, 1, 30, 8])
    >>> [rows[run].tolist() for run in runs_of(rows, np.argsort(rows), gap=5, longest=9)]
    [[0, 1], [8, 9], [30]]
    """
    if not len(order):
        return []
    places = rows[order].astype(np.int64)
    begins = np.diff(places, prepend=places[:1]) > gap
    starts = np.maximum.accumulate(np.where(begins, places, places[:1]))
    part = (places - starts) // longest
    return np.split(order, np.flatnonzero(begins[1:] | (np.diff(part) != 0)) + 1)


@dataclass(frozen=True)
class SharedFile:
    """A file by its folder and name.

    >>> SharedFile.at("s3://bucket/features.npy")
    SharedFile(folder=SharedFolder('s3://bucket'), name='features.npy')
    """

    folder: SharedFolder
    name: str

    @classmethod
    def at(cls, place: str | Path) -> SharedFile:
        """Return the file at a path or address."""
        folder, _, name = address_of(place).rpartition("/")
        return cls(SharedFolder(folder or "/"), name)
