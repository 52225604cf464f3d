"""What a propagation on a cluster takes: python -m benchmarks.cost_model measured.jsonl.

Small functions of the sizes alone, and three constants that are fitted to what
`benchmarks.ray_cost` has measured. The prices of disk and network are assumptions, printed with
the table: they are the machines', not ours.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy.optimize import nnls

from proptrain.cli.console import print_table, say
from proptrain.memory import in_words

STEPS, PROPAGATIONS = 10, 3
_FLOAT = 4


@dataclass(frozen=True)
class Size:
    """A graph and its signal."""

    nodes: int
    entries: int
    columns: int


@dataclass(frozen=True)
class Cluster:
    """Machines that are all alike; rates are in bytes a second."""

    machines: int
    memory: int = 64 * 10**9
    cores: int = 16
    network: float = 1.25e9
    storage: float = 0.5e9


@dataclass(frozen=True)
class Constants:
    """Seconds of one core for an entry and column, for a byte handed on, and for a task."""

    multiply: float
    hand_on: float
    task: float


LARGE = Size(111_000_000, 3_200_000_000, 172)


def needed_rows(size: Size, blocks: int) -> float:
    """Return how many rows of the state a block needs if its neighbours are anywhere.

    Of n rows, e draws leave each out with probability exp(-e / n); locality makes it fewer.

    >>> round(needed_rows(Size(1000, 4000, 1), 4))
    724
    """
    own = size.nodes / blocks
    return own + (size.nodes - own) * -math.expm1(-size.entries / blocks / size.nodes)


def exchanged_bytes(size: Size, blocks: int) -> float:
    """Return what all blocks together are sent in one step, their own rows included."""
    return blocks * needed_rows(size, blocks) * size.columns * _FLOAT


def network_bytes(size: Size, machines: int) -> float:
    """Return what one machine receives from others in one step, with a block on each."""
    own = size.nodes / machines
    return (needed_rows(size, machines) - own) * size.columns * _FLOAT


def memory_bytes(size: Size, machines: int, width: int) -> float:
    """Return what a machine holds: its block, the signal, and the states of some columns."""
    rows, needed = size.nodes / machines, needed_rows(size, machines)
    graph = 4 * size.entries / machines + 24 * rows
    return graph + 2 * rows * size.columns * _FLOAT + (2 * needed + 4 * rows) * width * _FLOAT


def storage_bytes(size: Size) -> float:
    """Return what lies in the shared folder: the graph, soft labels twice, predictions."""
    return 4 * size.entries + 12 * size.nodes + 3 * size.nodes * size.columns * _FLOAT


def work(size: Size, blocks: int, rounds: int) -> tuple[float, float, float]:
    """Return what a propagation does of each thing that has a price among the constants."""
    multiplied = STEPS * size.entries * size.columns
    return multiplied, STEPS * exchanged_bytes(size, blocks), STEPS * rounds * blocks


def fit_constants(lines: list[dict[str, Any]]) -> Constants:
    """Find the prices, none below 0, that explain the CPU seconds of Ray best, relatively."""
    lines = [line for line in lines if line["engine"] == "ray"]
    rows = np.array([_work_of(line) for line in lines])
    seconds = np.array([line["cpu_seconds"] for line in lines])
    scale = rows.max(axis=0)
    prices, _ = nnls(rows / scale / seconds[:, None], np.ones(len(lines)))
    return Constants(*(prices / scale).tolist())


def _work_of(line: dict[str, Any]) -> tuple[float, float, float]:
    size = Size(line["nodes"], line["stored"], line["columns"])
    return work(size, line["blocks"], -(-line["columns"] // 64))


def cpu_seconds(size: Size, blocks: int, rounds: int, constants: Constants) -> float:
    """Return the CPU time of one propagation, all machines together."""
    prices = (constants.multiply, constants.hand_on, constants.task)
    return sum(n * price for n, price in zip(work(size, blocks, rounds), prices, strict=True))


def widest(size: Size, cluster: Cluster) -> int | None:
    """Return how many columns a machine can take at a time; None if not even four."""
    widths = (4, 8, 16, 32, 48, 64)
    fitting = [w for w in widths if memory_bytes(size, cluster.machines, w) <= cluster.memory]
    return fitting[-1] if fitting else None


def seconds(size: Size, cluster: Cluster, width: int, constants: Constants) -> float:
    """Return the wall time of one propagation: the slower of computing and network, and reading."""
    rounds = -(-size.columns // width)
    machines = cluster.machines
    computing = cpu_seconds(size, machines, rounds, constants) / machines / cluster.cores
    sending = STEPS * network_bytes(size, machines) / cluster.network
    return max(computing, sending) + 4 * size.entries / machines / cluster.storage


def run(
    measured: Annotated[Path, typer.Argument(help="What benchmarks.ray_cost wrote.")],
    machines: Annotated[list[int] | None, typer.Option(help="Numbers of machines.")] = None,
) -> None:
    """Fit the constants, compare them with what was measured, and print the table."""
    lines = [json.loads(line) for line in measured.read_text().splitlines()]
    constants = fit_constants(lines)
    say(f"{constants}; assumed: {Cluster(1)}")
    checks = []
    for line in (one for one in lines if one["engine"] == "ray"):
        size = Size(line["nodes"], line["stored"], line["columns"])
        told = cpu_seconds(size, line["blocks"], -(-size.columns // 64), constants)
        figures = [f"{told:.2f}", f"{line['cpu_seconds']:.2f}"]
        checks.append([f"{size.entries:,}", *figures, f"{told / line['cpu_seconds']:.2f}"])
    print_table("CPU seconds", ["entries", "model", "measured", "ratio"], checks)
    rows = [_row(LARGE, Cluster(number), constants) for number in machines or (1, 8, 32, 128)]
    names = ["machines", "columns", "memory each", "network a step", "storage", "hours"]
    print_table("111 M nodes, 3.2 B entries, 172 classes, three propagations", names, rows)


def _row(size: Size, cluster: Cluster, constants: Constants) -> list[str]:
    width, stored = widest(size, cluster), in_words(storage_bytes(size))
    if width is None:
        least = in_words(memory_bytes(size, cluster.machines, 4))
        return [str(cluster.machines), "-", f"{least}: too much", "-", stored, "-"]
    hours = PROPAGATIONS * seconds(size, cluster, width, constants) / 3600
    memory = in_words(memory_bytes(size, cluster.machines, width))
    sent = in_words(network_bytes(size, cluster.machines))
    return [str(cluster.machines), str(width), memory, sent, stored, f"{hours:.2f}"]


if __name__ == "__main__":
    typer.run(run)
