"""Arrays in NumPy's .npy files: what a header claims is looked at before there is an array."""

from __future__ import annotations

import io
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as in_short
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.errors import FileFormatError, UnreadableFileError
from proptrain.system.files import NAMED, check_ordinary

_PARSERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    # It differs in the letters of the names of fields, and what has fields is refused.
    (3, 0): np.lib.format.read_array_header_2_0,
}
"""By the version of the format."""
_LONGEST = 1 << 14
"""Bytes of a header; NumPy itself takes none that is longer than 10,000."""
_MOST_DIMENSIONS = 32
"""As many as every NumPy takes."""
_KINDS = "biufcmMSU"
"""Of numbers, times and text, as NumPy names them."""


@dataclass(frozen=True)
class Header:
    """What a file says of its array, and where the array begins."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Any
    """"C" or "F", as NumPy names them."""
    first: int

    def array_in(self, content: Any) -> NDArray[Any]:
        """Return the array of a file's content, of which it is a view."""
        return np.ndarray(self.shape, self.dtype, content, self.first, order=self.order)


def read_header(file: Any, name: str, n_bytes: int) -> Header:
    """Read the header of an array in a file of so many bytes, which must be just what it claims.

    NumPy's own readers take shapes and types of which no array can be made, and arrays without an
    end whose elements take no bytes.

    >>> array = io.BytesIO()
    >>> np.save(array, np.eye(2))
    >>> read_header(io.BytesIO(array.getvalue()), "eye.npy", len(array.getvalue())).shape
    (2, 2)
    """
    # No more than a header can be: pyarrow makes room for all that one claims to have.
    beginning = io.BytesIO(file.read(_LONGEST))
    try:
        version = np.lib.format.read_magic(beginning)
        if version not in _PARSERS:
            raise ValueError(f"its version {version[0]}.{version[1]} is unknown")
        shape, is_fortran, dtype = _PARSERS[version](beginning)
    except Exception as error:  # NumPy's header parser has many ways to fail on garbage
        why = " ".join(str(error).split())[:200].rstrip(".")
        raise FileFormatError(
            f"{name} is no .npy array ({why}). Copy or write it again."
        ) from error
    header = Header(shape, dtype, "F" if is_fortran else "C", beginning.tell())
    _check(header, name, n_bytes)
    return header


def _check(header: Header, name: str, n_bytes: int) -> None:
    """Raise unless there can be such an array, and it takes just what follows its header."""
    shape, dtype = header.shape, header.dtype
    if dtype.hasobject:
        raise FileFormatError(
            f"{name} must be a plain array, but it is pickled. Unpickling can run any code, so it "
            "is never loaded; save numbers or text: np.save(path, np.asarray(values, dtype=str))."
        )
    if dtype.kind not in _KINDS or dtype.itemsize == 0:
        raise FileFormatError(
            f"{name} must be an array of numbers or text that take some bytes, got the type "
            f"{in_short(dtype.str)}. Save another."
        )
    # Not by isinstance: True is an int for Python, and none for who makes an array.
    are_sizes = all(type(size) is int and size >= 0 for size in shape)
    # As NumPy counts: it makes no array of 0 × 10^30 either.
    if len(shape) > _MOST_DIMENSIONS or not are_sizes or _extent(header) > sys.maxsize:
        raise FileFormatError(
            f"{name} must have a shape of at most {_MOST_DIMENSIONS} whole numbers, none below 0, "
            f"that memory could hold; got {len(shape):,}: {in_short(shape)}. Copy or write it "
            "again."
        )
    needed = header.first + math.prod(shape) * dtype.itemsize
    if n_bytes != needed:
        raise FileFormatError(
            f"{name} claims shape {in_short(shape)} and type {dtype}, so it must have {needed:,} "
            f"bytes, got {n_bytes:,}. Copy or write it again."
        )


def _extent(header: Header) -> int:
    return math.prod(max(1, size) for size in header.shape) * header.dtype.itemsize


def map_array(path: Path) -> NDArray[Any]:
    """Map a .npy file; nothing is unpickled."""
    if path.suffix != ".npy":
        raise FileFormatError(f"An array must be a .npy file, got {path.name}.")
    check_ordinary(path, NAMED)
    try:
        with path.open("rb") as file:
            header = read_header(file, path.name, os.fstat(file.fileno()).st_size)
        how: dict[str, Any] = {"mode": "r", "offset": header.first, "order": header.order}
        return np.memmap(path, header.dtype, shape=header.shape, **how)
    except FileFormatError:
        raise
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:  # there is less of it than a moment ago, or nothing to map
        raise FileFormatError(f"{path.name} cannot be mapped ({error}). Write it again.") from error
