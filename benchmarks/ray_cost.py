"""What Ray itself costs: CPU and wall time as a ratio to local: python -m benchmarks.ray_cost.

The same propagation (K = 10) on made-up graphs of three sizes, in memory and by a Ray cluster of
this machine alone, a process each; a line of JSON for each as soon as it is done. What is in the
file already is not measured again. The CPU time of Ray is that of all its processes.
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
from proptrain.cli.console import print_table, say
from proptrain.data.disk import DiskGraph
from proptrain.memory import peak_memory
from proptrain.propagate.schemes import PPR

SIZES = {4_000_000: 200_000, 30_000_000: 1_000_000, 124_000_000: 2_400_000}
"""Stored entries, and the nodes of a graph that has as many."""
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    folder: Annotated[Path, typer.Argument(help="Where to work; some 3 GB at the full sizes.")],
    out: Annotated[Path, typer.Option(help="File for what was measured, a line a case.")],
    entries: Annotated[list[int] | None, typer.Option(help="Stored entries of a graph.")] = None,
    columns: Annotated[int, typer.Option(help="Columns of the signal.")] = 16,
    blocks: Annotated[int, typer.Option(help="Blocks of the graph.")] = 4,
    repeats: Annotated[int, typer.Option(help="How often each is measured.")] = 3,
) -> None:
    """Measure all sizes, and print the ratios."""
    folder.mkdir(exist_ok=True)
    known = read(out)
    for number in entries or list(SIZES):
        graph = folder / f"graph-{number}"
        if not graph.exists():
            _make(graph, number, blocks)
        for repeat in range(repeats):
            for engine in ("local", "ray"):
                case = {"engine": engine, "entries": number, "columns": columns, "repeat": repeat}
                case |= {"blocks": blocks}
                if any(all(line.get(k) == v for k, v in case.items()) for line in known):
                    continue
                line = {**case, **_measure(graph, engine, columns), "made_with": made_with()}
                with out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                say(f"{engine}, {number:,} entries: {line['seconds']:.2f} s")
    show(out)


def _make(graph: Path, n_entries: int, n_blocks: int) -> None:
    """Make up a graph with so many entries; in blocks of about equal work."""
    from proptrain.data.disk_writer import save_graph
    from proptrain.data.synthetic_disk import write_synthetic

    n_nodes = SIZES.get(n_entries, max(4, n_entries // 20))
    place = graph.with_name(f"{graph.name}-made")
    made = write_synthetic(place, n_nodes, n_entries // 2, 10, n_features=1)
    save_graph(made.to_graph(), graph, n_blocks=n_blocks)


def _measure(graph: Path, engine: str, columns: int) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.ray_cost", "one", graph, engine, columns]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return {**told, "load": os.getloadavg()[0]}


@app.command()
def one(graph: Path, engine: str, columns: int) -> None:
    """Propagate twice by one engine and tell what the second time took: the first compiles."""
    disk = DiskGraph(graph)
    signal = np.random.default_rng(0).random((disk.n_nodes, columns), dtype=np.float32)
    made: Any
    if engine == "local":
        from proptrain.propagate.engine import LocalEngine

        made = LocalEngine(disk.to_graph())
    else:
        from proptrain.on_ray import RayEngine

        made = RayEngine(graph)
    made.propagate(signal, PPR())
    before, start = cpu_seconds(), time.perf_counter()
    made.propagate(signal, PPR())
    told = {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": cpu_seconds() - before,
        "nodes": disk.n_nodes,
        "stored": disk.manifest.n_entries,
        "peak_memory": peak_memory(),
    }
    typer.echo(json.dumps(told))


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all that it has started, and they."""
    parents, times = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:  # gone meanwhile
            continue
        number = int(path.parent.name)
        parents[number], times[number] = int(words[1]), sum(map(int, words[11:15]))

    def is_ours(number: int) -> bool:
        while number in parents:
            if number == os.getpid():
                return True
            number = parents[number]
        return False

    ticks: int = os.sysconf("SC_CLK_TCK")
    return sum(time for number, time in times.items() if is_ours(number)) / ticks


def read(path: Path) -> list[dict[str, Any]]:
    """Return what was measured."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@app.command()
def show(out: Path) -> None:
    """Print the ratios of what was measured."""
    lines, rows = read(out), []
    for number in sorted({line["entries"] for line in lines}):
        medians = {
            (engine, what): float(
                np.median(
                    [x[what] for x in lines if (x["engine"], x["entries"]) == (engine, number)]
                )
            )
            for engine in ("local", "ray")
            for what in ("seconds", "cpu_seconds")
        }
        ratios = [medians["ray", w] / medians["local", w] for w in ("seconds", "cpu_seconds")]
        times = [f"{medians[e, 'seconds']:.2f}" for e in ("local", "ray")]
        rows.append([f"{number:,}", *times, *(f"{ratio:.2f}" for ratio in ratios)])
    names = ["entries", "local, s", "ray, s", "wall, ray : local", "CPU, ray : local"]
    print_table("what Ray costs (medians)", names, rows)


if __name__ == "__main__":
    app()
