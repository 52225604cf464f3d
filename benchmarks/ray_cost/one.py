"""One job by one engine, in a process of its own: what it took is printed as JSON."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import typer

from benchmarks.processes import cpu_seconds
from proptrain.data.disk import DiskGraph
from proptrain.data.disk_writer import save_graph
from proptrain.data.mapped import room_for
from proptrain.data.shared_graph import SharedGraph
from proptrain.data.synthetic_disk import write_synthetic
from proptrain.propagate.labels import one_hot
from proptrain.propagate.schemes import PPR
from proptrain.train.loop import TrainSettings, train_predictor
from proptrain.train.stopping import StoppingNodes

N_FEATURES = 100
MEMORY = "2GB"
"""For the making of the graph and for the engine from disk."""
BATCH = 131_072
N_EPOCHS = 3
"""The first one has more to do: files are looked at, loops compiled."""


def make(folder: Path, nodes: int, entries: int, columns: int, blocks: int) -> dict[str, Any]:
    """Make up a graph with so many entries, in blocks of about equal work; tell its sizes."""
    made = write_synthetic(
        folder / "made", nodes, entries // 2, columns, n_features=N_FEATURES, memory=MEMORY
    )
    place = folder / f"graph-{blocks}"
    if not place.exists():
        save_graph(made.to_graph(), place, n_blocks=blocks)
    graph = SharedGraph(place)
    needed = [_needed(graph, number) for number in range(graph.n_blocks)]
    return {
        "nodes": graph.n_nodes,
        "stored": graph.manifest.n_entries,
        "folder_bytes": sum(stored.n_bytes for stored in graph.manifest.arrays),
        "exchanged_rows": sum(needed),
    }


def _needed(graph: SharedGraph, number: int) -> int:
    """Return how many rows of the state a block is sent in each step, its own among them."""
    block = graph.block(number)
    is_needed = np.zeros(graph.n_nodes, dtype=bool)
    is_needed[block.indices] = True
    is_needed[block.rows] = True
    return int(is_needed.sum())


def propagate(engine: str, graph: Path, columns: int) -> dict[str, Any]:
    """Propagate (K = 10) twice and tell what the second time took: the first compiles and reads."""
    n_nodes = DiskGraph(graph).n_nodes
    signal = np.random.default_rng(0).random((n_nodes, columns), dtype=np.float32)
    with ExitStack() as stack:
        by = _engine(engine, graph, stack)
        by.propagate(signal, PPR())
        return _timed(lambda: by.propagate(signal, PPR()))


def _engine(name: str, graph: Path, stack: ExitStack) -> Any:
    if name == "ray":
        from proptrain.large.on_ray import RayEngine

        return stack.enter_context(RayEngine(graph, scratch=graph.parent))
    if name == "blocked":
        from proptrain.propagate.blocked import BlockedEngine

        return BlockedEngine(graph, memory=MEMORY, scratch=graph.parent)
    from proptrain.propagate.engine import LocalEngine

    return LocalEngine(DiskGraph(graph).to_graph())


def _timed(work: Callable[[], Any]) -> dict[str, Any]:
    before, start = cpu_seconds(os.getpid()), time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "cpu_seconds": cpu_seconds(os.getpid()) - before}


def train(folder: Path, columns: int) -> dict[str, Any]:
    """Train on all nodes from disk, in batches; tell what an epoch took, the first left out."""
    truth = np.load(folder / "made" / "truth.npy")
    features = np.load(folder / "made" / "features.npy", mmap_mode="r")
    n_nodes = len(truth)
    labels = one_hot(
        truth, np.arange(n_nodes), columns, lambda shape, dtype: room_for(shape, dtype, folder)
    )
    stop = np.arange(0, n_nodes, 50)
    marks: list[tuple[float, float]] = []
    train_predictor(
        features,
        labels,
        StoppingNodes(stop, truth[stop], labels),
        settings=TrainSettings(max_epochs=N_EPOCHS),
        batch_size=BATCH,
        on_epoch=lambda *_: marks.append((time.perf_counter(), cpu_seconds(os.getpid()))),
    )
    times = [
        (last - first) / (N_EPOCHS - 1) for first, last in zip(marks[0], marks[-1], strict=True)
    ]
    return dict(zip(("seconds", "cpu_seconds"), times, strict=True))


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    job: str, engine: str, folder: Path, nodes: int, entries: int, columns: int, blocks: int
) -> None:
    """Carry out one job and print what it told, as JSON."""
    if job == "make":
        told = make(folder, nodes, entries, columns, blocks)
    elif job == "propagate":
        told = propagate(engine, folder / f"graph-{blocks}", columns)
    else:
        told = train(folder, columns)
    typer.echo(json.dumps(told))


if __name__ == "__main__":
    app()
