"""Notes of what a build has finished, each with its own checksum and those of the files it is of.

Whoever goes on with a build that was killed counts on these files, so all of them are looked at
before: a disk may have lost or changed some since, and nothing of that shall get into a graph.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proptrain.data.disk import DiskGraph, checksum_of
from proptrain.data.disk_writer import write_whole
from proptrain.data.manifest import MANIFEST, checksum_in
from proptrain.errors import FileFormatError, ProptrainError
from proptrain.system.files import check_ordinary, read_description
from proptrain.system.reading import parse_json

_PART = 1 << 20
"""Bytes that are read at a time."""


@dataclass(frozen=True)
class Kept:
    """A file that a note is of."""

    path: Path
    checksum: str | int
    """SHA-256 of the whole file; or CRC-32 of its first bytes, which can go on after a kill."""
    n_bytes: int = 0
    """So many first bytes, if it is CRC-32."""
    may_grow: bool = False
    """Whether more bytes may have come, which are not counted on."""
    until: Path | None = None
    """Note with which the file is of no more use, and may be gone."""


def write_note(path: Path, told: Any, kept: Iterable[Kept] = ()) -> str:
    """Write a note, whole or not at all, once the files that it is of are; returns its SHA-256."""
    content = {"told": told, "kept": [_to_json(one, path.parent) for one in kept]}
    return write_whole(path, [json.dumps({**content, "checksum": checksum_in(content)}).encode()])


def read_note(path: Path) -> Any:
    """Return what a note tells."""
    return _content_of(path)["told"]


def check_notes(work: Path) -> None:
    """Raise unless all notes of an unfinished build, and all files that they are of, are whole.

    Graphs in it that are finished are looked at too.
    """
    for path in sorted([*work.glob("*.json"), *work.glob("*/*.json")]):
        if path.name == MANIFEST:
            DiskGraph(path.parent).verify()
        elif path.name != "inputs.json":
            for told in _content_of(path)["kept"]:
                _check(_from_json(told, path.parent), work)


def _content_of(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(read_description(path.parent, path.name))
        is_unchanged = content.pop("checksum") == checksum_in(content)
    except ProptrainError:
        raise
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FileFormatError(f"{path} is no note of a build.") from error
    if not is_unchanged:
        raise FileFormatError(f"{path} was changed after it was written.")
    return dict(content)


def _to_json(one: Kept, folder: Path) -> list[Any]:
    until = one.until and os.path.relpath(one.until, folder)
    return [os.path.relpath(one.path, folder), one.checksum, one.n_bytes, one.may_grow, until]


def _from_json(told: list[Any], folder: Path) -> Kept:
    name, checksum, n_bytes, may_grow, until = told
    return Kept(folder / name, checksum, n_bytes, may_grow, until and folder / until)


def _check(one: Kept, work: Path) -> None:
    if not Path(os.path.realpath(one.path)).is_relative_to(work.resolve()):
        raise FileFormatError(f"{one.path} is no file of the build.")
    check_ordinary(one.path)
    if not one.path.exists() and one.until is not None and one.until.exists():
        return
    if isinstance(one.checksum, str):
        found: str | int = checksum_of(one.path)
    else:
        found = _crc_of(one.path, one.n_bytes)
        size = one.path.stat().st_size
        if size < one.n_bytes or (size > one.n_bytes and not one.may_grow):
            raise FileFormatError(f"{one.path} has {size:,} bytes instead of {one.n_bytes:,}.")
    if found != one.checksum:
        raise FileFormatError(f"{one.path} was changed after it was written.")


def _crc_of(path: Path, n_bytes: int) -> int:
    crc = 0
    with path.open("rb") as file:
        while n_bytes > 0 and (content := file.read(min(_PART, n_bytes))):
            crc, n_bytes = zlib.crc32(content, crc), n_bytes - len(content)
    return crc
