"""All of a training between two epochs, so that it can go on elsewhere as if nothing had been.

It is written as safetensors and JSON, with checksums: nothing of it is ever unpickled, and what a
disk has changed is not gone on from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from proptrain.errors import FileFormatError
from proptrain.system.files import file_of, read_description
from proptrain.system.reading import parse_json, read_whole

ARRAYS, NUMBERS = "arrays.safetensors", "numbers.json"
ODD = (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError)
"""What comes of numbers and arrays that are none of a snapshot."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Arrays by name (weights, those kept as the best, the optimiser's means) and all else."""

    arrays: Mapping[str, NDArray[Any]]
    numbers: Mapping[str, Any]
    """What JSON can hold."""

    def write(self, folder: Path) -> None:
        """Write it to a folder."""
        from safetensors.numpy import save

        whole = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        content = save(whole)
        (folder / ARRAYS).write_bytes(content)
        (folder / NUMBERS).write_bytes(signed(dict(self.numbers), content))

    @classmethod
    def read(cls, folder: Path) -> Snapshot:
        """Read what `write` wrote."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            content = read_whole(file_of(folder, ARRAYS))
            told = parse_json(read_description(folder, NUMBERS))
            numbers = dict(told["numbers"])
            if signed(numbers, content) != json.dumps(told).encode():
                raise FileFormatError("it was changed after it was written")
            return cls(load(content), numbers)
        except FileFormatError as fault:
            why = str(fault).rstrip(".")
            raise FileFormatError(f"{folder} holds no whole snapshot: {why}.") from fault
        except (OSError, SafetensorError, *ODD) as error:
            raise FileFormatError(f"{folder} holds no whole snapshot: {error}.") from error


def signed(numbers: dict[str, Any], arrays: bytes) -> bytes:
    """Return a file of numbers with the checksums of itself and of that of the arrays."""
    told = {"numbers": numbers, "arrays": hashlib.sha256(arrays).hexdigest()}
    checksum = hashlib.sha256(json.dumps(told).encode()).hexdigest()
    return json.dumps({**told, "checksum": checksum}).encode()


class Keeper(Protocol):
    """Keeps the last snapshot where the next process finds it."""

    def load(self) -> Snapshot | None:
        """Return the last snapshot, if there is one."""
        ...

    def save(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; everybody of a team calls it, with the same one."""
        ...


def named(prefix: str, arrays: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return arrays or tensors as arrays, with a prefix to their names."""
    return {
        f"{prefix}.{name}": value if isinstance(value, np.ndarray) else value.detach().cpu().numpy()
        for name, value in arrays.items()
    }


def unnamed(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays that have this prefix, without it.

    >>> unnamed("kept", {"kept.bias1": np.zeros(1), "now.bias1": np.ones(1)})
    {'bias1': array([0.])}
    """
    start = f"{prefix}."
    return {
        name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)
    }


def random_to_json(random: np.random.Generator) -> Any:
    """Return where a generator is, as JSON can hold it."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items()}
        return {"uint64": value.tolist()} if isinstance(value, np.ndarray) else value

    return plain(dict(random.bit_generator.state))


def set_random(random: np.random.Generator, told: Any) -> None:
    """Put a generator where another was."""

    def whole(value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"uint64"}:
            return np.array(value["uint64"], dtype=np.uint64)
        return {n: whole(one) for n, one in value.items()} if isinstance(value, dict) else value

    random.bit_generator.state = whole(told)
