"""Graphs made up straight to disk, with features and labels: larger than memory allows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.disk import DiskGraph, OnPart
from proptrain.data.disk_build import budget_of, building
from proptrain.data.disk_notes import Kept, write_note
from proptrain.data.disk_sort import PairBatch, PairSort, sort_pairs
from proptrain.data.disk_writer import (
    append_numbers,
    distinct,
    write_array,
    write_rest,
    write_whole,
)
from proptrain.data.manifest import MANIFEST
from proptrain.data.mapped import parts_of, write_rows
from proptrain.data.synthetic import check_sizes, draw_keys
from proptrain.errors import InvalidInputError, OutputExistsError
from proptrain.system.files import read_description, unwritable_is_ours, whole_file
from proptrain.system.reading import parse_json

_BATCH = 1 << 20
"""Edges that are drawn at a time, and of a file in which repetitions are found.

Whatever memory there is: another number makes another graph of the same seed.
"""
_SOURCES = 8
"""Parts in which edges are sorted: so much of it is done again after an interruption."""
_NODE_BYTES = 24
"""Memory for each node: its number, its class, and what these are made from."""
_SIGNAL = 0.3
"""Standard deviation of a class's mean features, beside 1 of a node's own."""
_MADE_WITH = "made_with.json"
_OUTPUTS = ("graph", "features.npy", "labels.npy", "truth.npy")


def write_power_law_graph(
    folder: str | Path,
    n_nodes: int,
    n_edges: int,
    n_classes: int,
    *,
    noise: float = 0.2,
    seed: int = 0,
    memory: str | int = "2GB",
    on_part: OnPart = lambda _: None,
) -> NDArray[np.int64]:
    """Draw what `power_law_graph` draws, from other random numbers, to a folder; returns classes.

    Interrupted, the same call goes on where it was.
    """
    check_sizes(n_nodes, n_edges, n_classes, noise)
    out, budget = Path(folder), budget_of(memory, _NODE_BYTES * n_nodes)
    told = {"synthetic": [n_nodes, n_edges, n_classes, noise, seed]}
    random, number = _numbering(n_nodes, seed)
    with building(out, told, overwrite=False) as (work, new):
        if not (new / MANIFEST).exists():
            paths = _draw(work, n_edges, (n_nodes, n_classes, noise), random, on_part)
            step = -(-len(paths) // _SOURCES)
            shares = [paths[first : first + step] for first in range(0, len(paths), step)]
            sources = [_Keys(share, number) for share in shares]
            sort = PairSort(work / "sort", n_nodes, is_weighted=False, budget=budget)
            write_rest(new, *sort_pairs(sources, new, sort, lambda part: on_part(0.6 * part)))
    return _classes(number, n_classes)


def _numbering(n_nodes: int, seed: int) -> tuple[np.random.Generator, NDArray[np.int64]]:
    """Return the number of each node, and the generator that then draws the edges."""
    random = np.random.Generator(np.random.SFC64(seed))
    return random, random.permutation(n_nodes)


def _classes(number: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    classes = np.empty(len(number), dtype=np.int64)
    classes[number] = np.arange(len(number)) % n_classes
    return classes


@dataclass(frozen=True, eq=False)
class _Keys:
    """Edges, each as one number, in some files."""

    paths: list[Path]
    number: NDArray[np.int64]

    def batches(self) -> Iterator[PairBatch]:
        """Yield all edges, a file at a time."""
        for path in self.paths:
            low, high = np.divmod(np.load(path), len(self.number))
            yield PairBatch(self.number[low], self.number[high], None, 1 / len(self.paths))


def _draw(
    work: Path,
    n_edges: int,
    shape: tuple[int, int, float],
    random: np.random.Generator,
    on_part: OnPart,
) -> list[Path]:
    """Draw so many different edges into files, by the remainders of their keys."""
    n_files = 1 + n_edges // _BATCH
    paths = [work / f"keys-{k:05}.npy" for k in range(n_files)]
    if (work / "drawn.json").exists():
        on_part(0.4)
        return paths
    files = [work / f"keys-{k:05}.bin" for k in range(n_files)]
    for file in files:
        file.write_bytes(b"")
    n_found, sizes = 0, np.zeros(n_files, np.int64)
    while n_found < n_edges:  # self-loops and repetitions are drawn again
        n_drawn = math.ceil(1.05 * (n_edges - n_found)) + 10
        for first in range(0, n_drawn, _BATCH):
            _append(draw_keys(min(_BATCH, n_drawn - first), *shape, random), files)
            on_part(0.3 * min(_BATCH, n_drawn - first) / (1.2 * n_edges))
        for place, file in enumerate(files):
            keys = distinct(np.fromfile(file, np.int64))
            with file.open("wb") as opened:
                append_numbers(opened, keys)
            sizes[place] = len(keys)
        n_found = int(sizes.sum())
    too_many = random.multivariate_hypergeometric(sizes, n_found - n_edges, method="marginals")
    kept = []
    for file, path, n_dropped in zip(files, paths, too_many, strict=True):
        keys = np.fromfile(file, np.int64)
        keys = np.delete(keys, random.choice(len(keys), n_dropped, replace=False))
        kept.append(Kept(path, write_array(path, keys).sha256))
        file.unlink()
    write_note(work / "drawn.json", n_edges, kept)
    return paths


def _append(keys: NDArray[np.int64], files: list[Path]) -> None:
    remainders = (keys % len(files)).astype(np.int32)
    keys = keys[np.argsort(remainders, kind="stable")]
    cuts = np.cumsum(np.bincount(remainders, minlength=len(files)))[:-1]
    for path, part in zip(files, np.split(keys, cuts), strict=True):
        with path.open("ab") as file:
            append_numbers(file, part)


def write_features(
    path: Path, classes: NDArray[np.int64], n_features: int, *, seed: int = 0
) -> None:
    """Write features (n, f) to a .npy file: each node's own noise about the mean of its class."""
    random = np.random.Generator(np.random.SFC64([seed, 1]))
    shape = (int(classes.max()) + 1, n_features)
    means = np.float32(_SIGNAL) * random.standard_normal(shape, dtype=np.float32)

    def parts() -> Iterator[NDArray[np.float32]]:
        for rows in parts_of(len(classes), 4 * n_features):
            own = random.standard_normal((rows.stop - rows.start, n_features), dtype=np.float32)
            yield own + means[classes[rows]]

    with whole_file(path, overwrite=True) as temporary:
        write_rows(temporary, (len(classes), n_features), np.float32, parts())


def write_synthetic(
    folder: str | Path,
    n_nodes: int,
    n_edges: int,
    n_classes: int,
    *,
    n_features: int = 100,
    labelled: float = 0.05,
    noise: float = 0.2,
    seed: int = 0,
    memory: str | int = "2GB",
    on_part: OnPart = lambda _: None,
) -> DiskGraph:
    """Write a whole problem to a folder: graph/, features.npy, labels.npy and truth.npy.

    Labels are -1 but for a share ``labelled`` of the nodes; the truth has all of them. What an
    interrupted call has finished is kept. What the files are made with stands in made_with.json,
    and a folder that was made with something else is left alone.
    """
    check_sizes(n_nodes, n_edges, n_classes, noise)
    if not 0 < labelled <= 1:
        raise InvalidInputError(f"labelled is a share above 0 and at most 1, got {labelled}.")
    out = Path(folder)
    sizes = {"nodes": n_nodes, "edges": n_edges, "classes": n_classes, "features": n_features}
    shares = {"labelled": float(labelled), "noise": float(noise)}
    with unwritable_is_ours(out):
        out.mkdir(exist_ok=True)
        _check_made_with(out, sizes | shares | {"seed": seed})
        how: dict[str, Any] = {"noise": noise, "seed": seed, "memory": memory, "on_part": on_part}
        classes = _graph_and_classes(out / "graph", n_nodes, n_edges, n_classes, **how)
        if not (out / "features.npy").exists():
            write_features(out / "features.npy", classes, n_features, seed=seed)
        is_known = np.random.default_rng([seed, 2]).random(n_nodes) < labelled
        labels = np.where(is_known, classes, -1)
        for path, values in ((out / "labels.npy", labels), (out / "truth.npy", classes)):
            if not path.exists():
                write_array(path, values)
    return DiskGraph(out / "graph")


def _check_made_with(out: Path, wanted: dict[str, Any]) -> None:
    """Note down what a folder is made with; raise if it holds what was made with something else."""
    note = out / _MADE_WITH
    if not note.exists():
        ours = [name for name in _OUTPUTS if (out / name).exists()]
        if ours:
            raise OutputExistsError(
                f"{out} holds {ours[0]} already, and no {_MADE_WITH} that says what it was made "
                "with, so it is left alone. Choose another folder."
            )
        write_whole(note, [json.dumps(wanted).encode()])
    elif (found := read_description(out, _MADE_WITH)) != json.dumps(wanted).encode():
        raise OutputExistsError(
            f"{out} was made with other numbers and is left alone: {_differences(found, wanted)}. "
            "Give those to finish it, or choose another folder."
        )


def _differences(found: bytes, wanted: dict[str, Any]) -> str:
    """Name the numbers of a note that are not those wanted."""
    try:
        told = parse_json(found)
    except ValueError:
        told = None
    if not isinstance(told, dict) or not {type(one) for one in told.values()} <= {int, float}:
        return f"{_MADE_WITH} cannot be read"
    names = [name for name in {**told, **wanted} if told.get(name) != wanted.get(name)]
    return ", ".join(f"{name} {told.get(name)} instead of {wanted.get(name)}" for name in names)


def _graph_and_classes(
    folder: Path, n_nodes: int, n_edges: int, n_classes: int, **how: Any
) -> NDArray[np.int64]:
    """Write a graph unless it is finished; returns the classes of its nodes."""
    if (folder / MANIFEST).exists():
        how["on_part"](1.0)
        return _classes(_numbering(n_nodes, how["seed"])[1], n_classes)
    return write_power_law_graph(folder, n_nodes, n_edges, n_classes, **how)
