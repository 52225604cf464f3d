"""What is known of a graph in a folder before any of its arrays is read."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from proptrain.data.graph import MAX_NODES, EdgeCounts
from proptrain.errors import FileFormatError, InvalidInputError, UnreadableFileError, check_count
from proptrain.system.files import kind_at, read_description
from proptrain.system.reading import parse_json

MANIFEST = "manifest.json"
WORK = "building"
"""Folder beside the manifest for what is not finished."""
FORMAT = 1
ORDERS = ("communities", "degrees", "given")
MAX_BLOCKS = 10_000
_NAME = re.compile(r"[a-z]{1,20}(-\d{5})?\.npy")
_HEADER = 128
"""Bytes before the numbers of an array in a file that we write."""


def check_blocks(n_blocks: object) -> None:
    """Raise unless a graph can be cut into so many blocks, each of which is two or three files."""
    check_count("n_blocks", n_blocks)
    if int(n_blocks) > MAX_BLOCKS:  # type: ignore[call-overload]
        raise InvalidInputError(
            f"A graph can be cut into at most {MAX_BLOCKS:,} blocks, got {n_blocks:,}."
        )


@dataclass(frozen=True)
class StoredArray:
    """A file with one array, as the manifest has it."""

    name: str
    dtype: str
    length: int
    sha256: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(_checked(self.name, str)):
            raise FileFormatError(f"the manifest names {self.name!r}, which is no file of a graph.")
        _count(self.length)
        if not re.fullmatch(r"<[if][48]|\|S[1-9]\d{0,3}", _checked(self.dtype, str)):
            raise FileFormatError(f"the manifest claims the type {self.dtype!r} for {self.name}.")
        _checked(self.sha256, str)

    @property
    def n_bytes(self) -> int:
        """Bytes of the whole file."""
        return _HEADER + self.length * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class StoredBlock:
    """The files of one block of rows."""

    first: int
    n_rows: int
    n_entries: int
    indptr: StoredArray
    indices: StoredArray
    weights: StoredArray | None

    @property
    def rows(self) -> slice:
        """The rows of the block."""
        return slice(self.first, self.first + self.n_rows)

    @property
    def arrays(self) -> list[StoredArray]:
        """Its files."""
        return [one for one in (self.indptr, self.indices, self.weights) if one is not None]


@dataclass(frozen=True)
class Manifest:
    """All that is known of a graph before any of its arrays is read."""

    n_nodes: int
    n_entries: int
    counts: EdgeCounts
    blocks: tuple[StoredBlock, ...]
    degrees: StoredArray
    ids: StoredArray | None = None
    order: StoredArray | None = None
    renumbered: str | None = None
    """What the order is by: communities, or degrees; or given, by whoever saved the graph."""

    def __post_init__(self) -> None:
        if _count(self.n_nodes) > MAX_NODES:
            raise FileFormatError(f"a graph has at most {MAX_NODES:,} nodes, got {self.n_nodes:,}.")
        first = 0
        for block in self.blocks:
            self._check_block(block, first)
            first += block.n_rows
        n_entries = sum(block.n_entries for block in self.blocks)
        if (first, n_entries) != (self.n_nodes, _count(self.n_entries)):
            raise FileFormatError(
                f"the manifest claims {self.n_nodes:,} nodes and {self.n_entries:,} entries, its "
                f"blocks {first:,} and {n_entries:,}."
            )
        for one, types in ((self.degrees, ["f8"]), (self.ids, ["i8", "S"]), (self.order, ["i"])):
            if one is not None:
                _expect(one, self.n_nodes, *types)
        if self.degrees is None or (self.order is None) != (self.renumbered is None):
            raise FileFormatError("the manifest lacks the degrees, or the name of an order.")
        if self.renumbered not in (None, *ORDERS):
            raise FileFormatError(f"the manifest has the unknown order {self.renumbered!r}.")

    def _check_block(self, block: StoredBlock, first: int) -> None:
        if _count(block.first) != first:
            raise FileFormatError("the manifest's blocks do not follow one another.")
        if (block.weights is not None) != self.is_weighted:
            raise FileFormatError("the manifest has blocks with weights and without.")
        _expect(block.indptr, _count(block.n_rows) + 1, "i")
        _expect(block.indices, _count(block.n_entries), "i")
        if block.weights is not None:
            _expect(block.weights, block.n_entries, "f4")

    @property
    def is_weighted(self) -> bool:
        """Whether edges have weights other than 1."""
        return bool(self.blocks) and self.blocks[0].weights is not None

    @property
    def arrays(self) -> list[StoredArray]:
        """All files but the manifest."""
        others = [one for one in (self.degrees, self.ids, self.order) if one is not None]
        return [one for block in self.blocks for one in block.arrays] + others

    def to_json(self) -> dict[str, Any]:
        """Return it as the file has it."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Manifest:
        """Return what `to_json` was made of."""
        if told.pop("format") != FORMAT:
            raise FileFormatError(f"this proptrain reads graphs of format {FORMAT}.")
        blocks = tuple(
            StoredBlock(**{**block, **_stored(block, "indptr", "indices", "weights")})
            for block in told["blocks"]
        )
        counts = EdgeCounts(**{name: _count(number) for name, number in told["counts"].items()})
        others = _stored(told, "degrees", "ids", "order")
        return cls(**{**told, **others, "blocks": blocks, "counts": counts})


class StoredGraph:
    """What the manifest of a graph tells of its size, wherever its arrays lie."""

    manifest: Manifest

    @property
    def n_nodes(self) -> int:
        """Number of nodes, isolated ones included."""
        return self.manifest.n_nodes

    @property
    def n_edges(self) -> int:
        """Number of undirected edges; each is stored twice."""
        return self.manifest.n_entries // 2

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.manifest.blocks)


def read_manifest(folder: Path) -> Manifest:
    """Read what a folder holds, or say that it holds no graph."""
    try:
        content = read_description(folder, MANIFEST)
    except OSError as error:
        is_begun = kind_at(folder / WORK) == "folder"
        hint = " A build was begun here: the same command goes on with it." if is_begun else ""
        raise UnreadableFileError(
            f"{folder} is no graph folder that can be read: {MANIFEST}: {error.strerror or error}. "
            f"Give the folder that `proptrain graph build --out` wrote.{hint}"
        ) from error
    return parse_manifest(content, str(folder))


def parse_manifest(content: bytes, folder: str) -> Manifest:
    """Return what a manifest says, or say what is wrong with it; ``folder`` is where it lies."""
    path = f"{folder}/{MANIFEST}"
    try:
        told = parse_json(content)
        is_unchanged = told.pop("checksum") == checksum_in(told)
        manifest = Manifest.from_json(told)
    except FileFormatError as fault:
        raise FileFormatError(f"Cannot use the graph {folder}: {fault} Build it again.") from fault
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FileFormatError(
            f"{path} is not the manifest of a proptrain graph. Build the graph again."
        ) from error
    if not is_unchanged:
        raise FileFormatError(
            f"{path} was changed after it was written: its checksum does not fit. Take the "
            "original file, or build the graph again."
        )
    return manifest


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return the content of the file."""
    told = manifest.to_json()
    return json.dumps({**told, "checksum": checksum_in(told)}, indent=1).encode()


def checksum_in(told: dict[str, Any]) -> str:
    """Return the checksum that a description carries of all else in it."""
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _stored(told: dict[str, Any], *names: str) -> dict[str, StoredArray | None]:
    return {name: StoredArray(**told[name]) if told[name] else None for name in names}


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:  # nor a bool for a number
        raise FileFormatError(f"the manifest has {value!r} where a {kind.__name__} must be.")
    return value


def _count(value: Any) -> int:
    if _checked(value, int) < 0:
        raise FileFormatError(f"the manifest has {value} where a number from 0 on must be.")
    return int(value)


def _expect(stored: StoredArray, length: int, *types: str) -> None:
    """Raise unless an array is of this length, and its type begins as one of these."""
    if stored.length != length or not stored.dtype[1:].startswith(types):
        raise FileFormatError(
            f"{stored.name} must have {length:,} entries of type {' or '.join(types)}, got "
            f"{stored.length:,} of {stored.dtype[1:]}."
        )
