"""What Ray itself costs: CPU and wall time as a ratio to local: python -m benchmarks.ray_cost.

The same propagation (K = 10) on made-up graphs of three sizes, in memory, from disk, and by a Ray
cluster of this machine alone, which is closed off from all others; and an epoch of training from
disk, for the model of cost. A process each, and a line of JSON for each as soon as it is done; what
is in the file already is not measured again. Time and memory of Ray are those of all its processes.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.measured import Line, find_case, open_cases, read_cases, tell
from benchmarks.processes import family_memory, watch
from benchmarks.ray_cost.table import COMMAND, table_of
from proptrain import cli
from proptrain.bench.results import made_with
from proptrain.cli.console import say
from proptrain.errors import InvalidInputError
from proptrain.system.memory import in_words

SIZES = {4_000_000: 200_000, 30_000_000: 1_000_000, 124_000_000: 2_400_000}
"""Stored entries, and the nodes of a graph that has as many."""
MORE_BLOCKS = (16, 48)
"""At the smallest size too: what tasks and pieces cost that hold next to nothing."""
LOOKS = 0.25
"""Seconds between two looks at the memory of all processes."""
_CLOSED = ("unshare", "-n", "--fork", "--pid", "--mount-proc", "--kill-child", "sh", "-c")
_ALONE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # else they would stand back where other engines do not
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    folder: Annotated[
        Path | None, typer.Argument(help="Where to work; some 5 GB at the full sizes.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to add each case to; those in it are not done again.")
    ] = None,
    show: Annotated[Path | None, typer.Option(help="Print the table of such a file.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Page to put the table into, between its two marks.")
    ] = None,
    entries: Annotated[
        list[int] | None, typer.Option(help="Stored entries of a graph. Repeatable.")
    ] = None,
    columns: Annotated[int, typer.Option(help="Columns of the signal, and classes.")] = 16,
    blocks: Annotated[int, typer.Option(help="Blocks of the graph.")] = 4,
    repeats: Annotated[int, typer.Option(help="How often each is measured.")] = 3,
) -> None:
    """Propagate by each engine at each size, and compare."""
    if show is not None:
        tell(table_of(read_cases(show, COMMAND)).to_markdown(), "ray_cost table", page)
        return
    if folder is None or out is None:
        raise InvalidInputError(
            "Say where to work and where to write, FOLDER --out FILE; or what to show, --show FILE."
        )
    sizes = sorted(entries or SIZES)
    folder.mkdir(parents=True, exist_ok=True)
    with open_cases(out) as (file, lines):
        for case in _cases(sizes, columns, blocks, repeats):
            place = folder / f"entries-{case['entries']}"
            is_there = case["job"] != "make" or (place / f"graph-{case['blocks']}").exists()
            if is_there and find_case(lines, case) is not None:
                continue
            place.mkdir(exist_ok=True)
            line = {"case": case, **_measure(place, case), "made_with": made_with()}
            file.add(line)
            say(_in_words(line))


def _cases(sizes: list[int], columns: int, blocks: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield all that there is to measure; engines take turns."""
    for number in sizes:
        more = MORE_BLOCKS if number == sizes[0] else ()
        for n_blocks in (blocks, *more):
            size = {"entries": number, "columns": columns, "blocks": n_blocks}
            yield {"job": "make", "engine": "-", **size, "repeat": 0}
            for repeat in range(repeats):
                for engine in ("local", "blocked", "ray") if n_blocks == blocks else ("ray",):
                    yield {"job": "propagate", "engine": engine, **size, "repeat": repeat}
                if n_blocks == blocks:
                    yield {"job": "train", "engine": "blocked", **size, "repeat": repeat}


def _measure(folder: Path, case: dict[str, Any]) -> dict[str, Any]:
    nodes = SIZES.get(case["entries"], max(4, case["entries"] // 20))
    words = [sys.executable, "-m", "benchmarks.ray_cost.one", case["job"], case["engine"], folder]
    words += [nodes, case["entries"], case["columns"], case["blocks"]]
    environment = os.environ | _ALONE if case["engine"] == "ray" else None
    if case["engine"] == "ray":
        words = [*closed_off(), *words]
    load = os.getloadavg()[0]
    ended = watch(words, memory=family_memory, every=LOOKS, environment=environment)
    if ended.failed is not None:
        raise InvalidInputError(f"{case['job']} by {case['engine']} failed: {ended.failed}")
    return {**ended.told, "peak_memory": ended.peak, "load": load}


def closed_off() -> list[str]:
    """Return what has a command run where there is no network but loopback; nobody outlives it."""
    is_able = os.geteuid() == 0 and shutil.which("unshare") and shutil.which("ip")
    return [*_CLOSED, 'ip link set lo up && exec "$@"', "sh"] if is_able else []


def _in_words(line: Line) -> str:
    case, took = line["case"], f", {line['seconds']:.2f} s" if "seconds" in line else ""
    name = f"{case['job']}, {case['engine']}, {case['entries']:,} entries, {case['blocks']} blocks"
    return f"{name}{took}, {in_words(line['peak_memory'])}"


if __name__ == "__main__":
    cli.main(app, COMMAND)
