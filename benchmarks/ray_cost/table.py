"""What was measured, as a Markdown table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from benchmarks.measured import Line
from proptrain.errors import InvalidInputError
from proptrain.experiments.grid import MISSING, Table
from proptrain.system.memory import in_words

COMMAND = "python -m benchmarks.ray_cost"
_FLOAT = 4


class Graph(NamedTuple):
    """A made-up graph, by what was asked for."""

    entries: int
    columns: int
    blocks: int


@dataclass(frozen=True)
class Took:
    """Medians over the repetitions of a job by an engine."""

    seconds: float
    cpu_seconds: float
    peak_memory: float


@dataclass(frozen=True)
class Measured:
    """All that was measured of one graph."""

    graph: Graph
    nodes: int
    stored: int
    folder_bytes: int
    exchanged_rows: int
    took: dict[tuple[str, str], Took]
    """By job and engine."""

    @property
    def exchanged_bytes(self) -> int:
        """What goes from block to block in a step."""
        return self.exchanged_rows * self.graph.columns * _FLOAT


def gather(lines: Sequence[Line]) -> list[Measured]:
    """Return what was measured, the smallest graph first."""
    graphs: dict[Graph, list[Line]] = {}
    for line in lines:
        case = line["case"]
        graph = Graph(case["entries"], case["columns"], case["blocks"])
        graphs.setdefault(graph, []).append(line)
    return [_gathered(graph, graphs[graph]) for graph in sorted(graphs)]


def _gathered(graph: Graph, lines: Sequence[Line]) -> Measured:
    made = [line for line in lines if line["case"]["job"] == "make"]
    if not made:
        raise InvalidInputError(f"The file must have a line about the making of {graph}.")
    jobs: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        if "seconds" in line:
            jobs.setdefault((line["case"]["job"], line["case"]["engine"]), []).append(line)
    names = ("seconds", "cpu_seconds", "peak_memory")
    took = {
        job: Took(*(median(line[name] for line in several) for name in names))
        for job, several in jobs.items()
    }
    sizes = ("nodes", "stored", "folder_bytes", "exchanged_rows")
    return Measured(graph, took=took, **{name: made[-1][name] for name in sizes})


def table_of(lines: Sequence[Line]) -> Table:
    """Return the table: Ray beside local, with a row for each graph."""
    if not lines:
        raise InvalidInputError(f"Nothing is measured yet. Do it with: {COMMAND} FOLDER --out FILE")
    measured = gather(lines)
    at_first = {one.graph[:2]: one for one in reversed(measured)}  # with the fewest blocks
    rows = [_row(one, at_first[one.graph[:2]]) for one in measured]
    header = (
        *("entries", "blocks", "local", "blocked", "ray", "time, ray : local", "CPU, ray : local"),
        *("peak, local", "blocked", "ray", "exchanged a step", "graph folder"),
    )
    made, loads = lines[-1]["made_with"], [line["load"] for line in lines]
    repeats = 1 + max(line["case"]["repeat"] for line in lines)
    columns = ", ".join(str(n) for n in sorted({one.graph.columns for one in measured}))
    notes = (
        f"Ten steps of {columns} columns; medians of {repeats}. Memory and CPU time are those of "
        "all processes; pages that several share count once.",
        f"Measured on {made['day']} with {made['threads']} threads, code {made['code']}; the load "
        f"of the machine before a case was at most {max(loads):.1f}.",
    )
    return Table("What Ray costs", header, tuple(rows), notes)


def _row(one: Measured, first: Measured) -> tuple[str, ...]:
    local, blocked, ray = (
        by.took.get(("propagate", engine))
        for by, engine in ((first, "local"), (first, "blocked"), (one, "ray"))
    )
    ratios = (MISSING, MISSING)
    if local is not None and ray is not None:
        cpu = ray.cpu_seconds / local.cpu_seconds
        ratios = (f"{ray.seconds / local.seconds:.2f}", f"{cpu:.2f}")
    engines = (local, blocked, ray)
    return (
        f"{one.stored:,}",
        str(one.graph.blocks),
        *(MISSING if took is None else f"{took.seconds:.2f} s" for took in engines),
        *ratios,
        *(MISSING if took is None else in_words(took.peak_memory) for took in engines),
        in_words(one.exchanged_bytes),
        in_words(one.folder_bytes),
    )
