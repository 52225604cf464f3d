"""A graph that needs more than 2 GB in memory, learned within them: python -m benchmarks.from_disk.

One process for each step, so that each has a peak of its own, and a line of JSON for each as soon
as it is done; what is in the file already is not done again. The steps: a problem is made up on
disk; the same edges, as Parquet, are built into a graph; it is fitted from disk within the limit;
the in-memory engine is shown to fail under it; and without a limit it is timed beside.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from proptrain.bench.results import made_with
from proptrain.cli.console import say
from proptrain.data.disk import DiskGraph
from proptrain.data.mapped import forget
from proptrain.memory import parse_memory, peak_memory

BATCH = 131_072
"""What a limit of 2 GB makes of it for 100 features and 47 classes; the same for both engines."""
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
COMMAND = [sys.executable, "-m", "proptrain.cli"]


@app.command()
def run(
    folder: Annotated[Path, typer.Argument(help="Where to work; some 6 GB at the full size.")],
    out: Annotated[Path, typer.Option(help="File for what was measured, a line a step.")],
    nodes: Annotated[int, typer.Option(help="Number of nodes.")] = 2_400_000,
    edges: Annotated[int, typer.Option(help="Number of edges; each is stored twice.")] = 62_000_000,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 47,
    features: Annotated[int, typer.Option(help="Number of features.")] = 100,
    epochs: Annotated[int, typer.Option(help="Epochs of each fit.")] = 5,
    memory: Annotated[str, typer.Option(help="The limit.")] = "2GB",
) -> None:
    """Make, build, fit from disk, see the in-memory engine fail, and time it without a limit."""
    folder.mkdir(exist_ok=True)
    limit = parse_memory(memory)
    sizes = ["--nodes", nodes, "--edges", edges, "--classes", classes, "--features", features]
    steps: dict[str, tuple[list[str], int | None]] = {
        "synthetic": (
            [*COMMAND, "graph", "synthetic", *map(str, sizes), "--out", str(folder / "big"),
             "--memory", memory, "--json"],
            None,
        ),
        "edge list": (_own("edges", folder), None),
        "build": (
            [*COMMAND, "graph", "build", str(folder / "edges.parquet"), "--out",
             str(folder / "built"), "--memory", memory, "--json"],
            None,
        ),
        "fit, blocked, limited": (_own("fit", folder, "blocked", memory, epochs), limit),
        "fit, local, limited": (_own("fit", folder, "local", memory, epochs), limit),
        "fit, local": (_own("fit", folder, "local", memory, epochs), None),
    }  # fmt: skip
    known = _read(out)
    for name, (words, limited) in steps.items():
        case = {"step": name, "nodes": nodes, "edges": edges, "epochs": epochs, "memory": memory}
        if any(all(line.get(k) == v for k, v in case.items()) for line in known):
            say(f"{name}: measured already")
            continue
        say(f"{name} …")
        line = {**case, **_measure(words, limited), "made_with": made_with()}
        with out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        say(f"{name}: {line['seconds']:.1f} s, {line['told']}")


def _own(*words: object) -> list[str]:
    return [sys.executable, "-m", "benchmarks.from_disk", *map(str, words)]


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _measure(words: list[str], limit: int | None) -> dict[str, Any]:
    """Run a process, with no more data than the limit, and tell what it told."""

    def limited() -> None:
        import resource

        if limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    start = time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, check=False, preexec_fn=limited)
    seconds = time.perf_counter() - start
    lines = done.stdout.strip().splitlines()
    failed = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    told = {"failed": (failed or [f"signal {-done.returncode}"])[0]} if done.returncode else {}
    told = told or json.loads(lines[-1])
    return {"seconds": seconds, "exit": done.returncode, "limit": limit, "told": told,
            "load": os.getloadavg()[0]}  # fmt: skip


@app.command()
def edges(folder: Path) -> None:
    """Write the made-up graph's edges, each once, as an edge list in Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    graph = DiskGraph(folder / "big" / "graph")
    schema, n_edges = pa.schema([("source", pa.int64()), ("target", pa.int64())]), 0
    with pq.ParquetWriter(folder / "edges.parquet", schema) as writer:
        for block in graph.parts(1 << 22):
            entries = slice(int(block.indptr[0]), int(block.indptr[-1]))
            rows = np.repeat(np.arange(block.rows.start, block.rows.stop), np.diff(block.indptr))
            columns = block.indices[entries]
            once = rows < columns
            batch = [pa.array(rows[once]), pa.array(columns[once].astype(np.int64))]
            writer.write_table(pa.table(batch, schema=schema))
            n_edges += int(once.sum())
            forget(block.indices)
    typer.echo(json.dumps({"edges": n_edges, "peak_memory": peak_memory()}))


@app.command()
def fit(folder: Path, engine: str, memory: str, epochs: int) -> None:
    """Fit PTA(F) with one engine and tell how long it took, its peak and how right it is."""
    from proptrain import PTAClassifier, fit_from_disk

    graph = DiskGraph(folder / "built")
    truth, y = np.load(folder / "big" / "truth.npy"), np.load(folder / "big" / "labels.npy")
    features = np.load(folder / "big" / "features.npy", mmap_mode="r")
    how: dict[str, Any] = {"fast": True, "max_epochs": epochs, "batch_size": BATCH}
    classifier = PTAClassifier(random_state=0, device="cpu", **how)
    start = time.perf_counter()
    if engine == "local":
        classifier.fit(np.array(features), y, graph=graph.to_graph())
        distributions = classifier.label_distributions_
    else:
        fitted = fit_from_disk(classifier, graph, features, y, memory=memory, scratch=folder)
        distributions = fitted.distributions
    seconds = time.perf_counter() - start
    right, hidden = 0, np.flatnonzero(y < 0)
    for some in np.array_split(hidden, 50):
        right += int((distributions[some].argmax(axis=1) == truth[some]).sum())
        forget(distributions)
    told = {"fit_seconds": seconds, "right": right / len(hidden), "peak_memory": peak_memory()}
    typer.echo(json.dumps(told))


if __name__ == "__main__":
    app()
