"""The commands that are killed, or run into a full disk, and how their outputs are judged."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from proptrain.data.disk import DiskGraph
from proptrain.data.manifest import WORK
from proptrain.errors import ProptrainError
from proptrain.experiments.store import FILE_NAME, read_runs
from proptrain.saving.disk_model import load_disk_model
from proptrain.saving.persistence import load_model
from proptrain.system.files import unfinished_of
from reliability.forked import run

State = Literal["absent", "complete old", "complete new", "whole so far", "half"]
N_NODES = 40
"""Of the problem that all commands are given: small, so that they mostly read and write."""


@dataclass(frozen=True)
class Job:
    """A command, the name of its output, and a command that makes another output there."""

    name: str
    words: tuple[str, ...]
    other: tuple[str, ...]
    output: str
    is_absent: Callable[[Path], bool] = lambda path: not path.exists()
    content: Callable[[Path], str | None] = lambda path: digest(path)
    """Tells one complete output from another; None for one that is not complete."""
    is_so_far: Callable[[str, str, str], bool] | None = None
    """If the output is added to and never replaced: whether one lies between two complete ones."""
    is_writing: Callable[[Path], bool] = lambda path: bool(unfinished_of(path))
    """Whether it has begun to write its output, and not ended; not used if that is added to."""

    @property
    def grows(self) -> bool:
        """Whether the output is added to, and never replaced."""
        return self.is_so_far is not None


def _fit(seed: int, *how: str) -> tuple[str, ...]:
    how = how or ("--method", "PTA(F)", "--seed", str(seed))
    files = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--label", "topic")
    return ("fit", *files, "--device", "cpu", *how)


def _blocked(seed: int) -> tuple[str, ...]:
    files = ("--features", "features.npy", "--labels", "labels.npy", "--memory", "8GB")
    how = ("--method", "PTA(F)", "--device", "cpu", "--seed", str(seed))
    return ("fit", "--engine", "blocked", "--edges", "graph", *files, *how)


def _build(edges: str) -> tuple[str, ...]:
    return ("graph", "build", edges, "--memory", "8GB", "--blocks", "3")


def _to(output: str) -> tuple[str, ...]:
    return ("--out", output, "--overwrite")


def digest(path: Path) -> str | None:
    """Return a hash of a file, or of all files of a folder, by their names."""
    if not path.exists():
        return None
    found = hashlib.sha256()
    for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
        content = one.read_bytes() if one.is_file() else b""
        found.update(f"{one.relative_to(path)}\0{len(content)}\0".encode() + content)
    return found.hexdigest()


def _model_content(path: Path) -> str | None:
    """Return a hash of what a model tells; not of its files, in which there is the time of day."""
    try:
        told = load_model(path).estimator.label_distributions_
    except ProptrainError:
        return None
    return hashlib.sha256(told.tobytes()).hexdigest()


def _disk_model_content(path: Path) -> str | None:
    try:
        told = load_disk_model(path).predictions
    except ProptrainError:
        return None
    return hashlib.sha256(told.tobytes()).hexdigest()


def _graph_content(path: Path) -> str | None:
    """Return a hash of a graph that has been looked at; unfinished work beside it is none of it."""
    try:
        DiskGraph(path).verify()
    except ProptrainError:
        return None
    return str([digest(one) for one in sorted(path.iterdir()) if one.is_file()])


def _is_writing_graph(path: Path) -> bool:
    """Tell whether the last files of a graph are written, or it takes its place.

    All that it writes before is of a build that is not finished, and can be gone on with.
    """
    return (path / WORK / "graph" / "degrees.npy").exists() or bool(unfinished_of(path))


_PAGES = ("README.md", "report.html")


def _runs_content(path: Path) -> str | None:
    """Return the runs of a folder but for their seconds, and hashes of its pages."""
    try:
        runs = read_runs(path / FILE_NAME)
    except ProptrainError:
        return None
    if (path / FILE_NAME).read_bytes().count(b"\n") != len(runs):  # one was made twice
        return None
    told = [{**run.to_json(), "seconds": None} for run in runs]
    return json.dumps({"runs": told, **{name: digest(path / name) for name in _PAGES}})


def _is_between(content: str, old: str, new: str) -> bool:
    """Tell whether a folder has the first of the new runs, and pages that are whole or absent."""
    told, before, after = (json.loads(one) for one in (content, old, new))
    if told["runs"] != after["runs"][: len(told["runs"])]:
        return False
    return all(told[name] in (None, before[name], after[name]) for name in _PAGES)


def _has_no_run(path: Path) -> bool:
    """Tell whether a folder has nothing of a reproduction's but the file that runs are added to."""
    runs = path / FILE_NAME
    is_empty = not runs.exists() or b"\n" not in runs.read_bytes()
    return is_empty and not any((path / name).exists() for name in _PAGES)


_REPRODUCE = ("reproduce", "table5", "--dataset", "cora", "--method", "LP", "--workers", "1")
JOBS = {
    job.name: job
    for job in (
        Job("fit --method LP", (*_fit(1, "--method", "LP"), *_to("lp")),
            (*_fit(1, "--method", "LP", "--alpha", "0.3"), *_to("lp")), "lp",
            content=_model_content),
        Job("fit", (*_fit(1), *_to("model")), (*_fit(2), *_to("model")), "model",
            content=_model_content),
        Job("fit --engine blocked", (*_blocked(1), *_to("disk")), (*_blocked(2), *_to("disk")),
            "disk", content=_disk_model_content),
        Job("predict", ("predict", "model-1", *_to("told.csv")),
            ("predict", "model-2", *_to("told.csv")), "told.csv"),
        Job("predict to Parquet", ("predict", "model-1", *_to("told.parquet")),
            ("predict", "model-2", *_to("told.parquet")), "told.parquet"),
        Job("graph build", (*_build("edges.csv"), *_to("built")),
            (*_build("other.csv"), *_to("built")), "built",
            lambda path: not (path / "manifest.json").exists(), _graph_content,
            is_writing=_is_writing_graph),
        Job("reproduce", (*_REPRODUCE, "--runs", "2", "--out", "runs"),
            (*_REPRODUCE, "--runs", "1", "--out", "runs"), "runs",
            _has_no_run, _runs_content, _is_between),
        Job("save", ("save", "model-1", "saved", "--overwrite"),
            ("save", "model-2", "saved", "--overwrite"), "saved", content=_model_content),
    )
}  # fmt: skip


def prepare(folder: Path) -> None:
    """Write the inputs of all jobs to a folder, which must be the current one."""
    random = np.random.default_rng(0)
    classes = np.arange(N_NODES) % 2
    names = [f"n{node}" for node in range(N_NODES)]
    pd.DataFrame(
        {
            "id": names,
            "size": random.random(N_NODES) + classes,
            "words": np.where(classes, "red blue", "green"),
            "topic": np.where(random.random(N_NODES) < 0.6, np.where(classes, "a", "b"), ""),
        }
    ).to_csv(folder / "nodes.csv", index=False)
    for name in ("edges.csv", "other.csv"):
        ends = random.integers(0, N_NODES, (3 * N_NODES, 2))
        pairs = pd.DataFrame(ends, columns=["source", "target"]).map(lambda node: names[node])
        ring = pd.DataFrame({"source": names, "target": [*names[1:], names[0]]})
        pd.concat([ring, pairs]).to_csv(folder / name, index=False)
    features = random.random((N_NODES, 3)) + classes[:, None]
    np.save(folder / "features.npy", features.astype(np.float32))
    np.save(folder / "labels.npy", np.where(random.random(N_NODES) < 0.6, classes, -1))
    log = folder / "log"
    for words in (
        (*_build("edges.csv"), "--out", "graph"),
        (*_fit(1, "--method", "LP"), "--out", "model-1"),
        (*_fit(1, "--method", "LP", "--alpha", "0.3"), "--out", "model-2"),
    ):
        ended = run(words, log)
        if ended.code:
            raise RuntimeError(f"{words} failed: {ended.said}")


def put(kept: Path, output: Path) -> None:
    """Have a copy of an output in its place, or nothing if there is none."""
    clear(output)
    if kept.is_dir():
        shutil.copytree(kept, output)
    elif kept.exists():
        shutil.copy(kept, output)


def clear(output: Path) -> None:
    """Remove an output and what was left beside it."""
    for path in [output, *left_beside(output)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def left_beside(output: Path) -> list[Path]:
    """Return the hidden files that writers have left beside an output."""
    return [one for one in output.parent.iterdir() if one.name.startswith(f".{output.name}.")]


def left_inside(output: Path) -> list[Path]:
    """Return what writers have left inside an output: hidden files, and a build not finished."""
    return [] if output.is_file() else [*output.rglob(".*"), *output.glob("building")]


def state_of(job: Job, output: Path, old: str | None, new: str | None) -> State:
    """Tell what is in the place of an output."""
    if job.is_absent(output):
        return "absent"
    content = job.content(output)
    if content is None:
        return "half"
    if content in (old, new):
        return "complete new" if content == new else "complete old"
    if job.is_so_far is None or old is None or new is None:
        return "half"
    return "whole so far" if job.is_so_far(content, old, new) else "half"
