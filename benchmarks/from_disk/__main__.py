"""A graph that needs more than 2 GB in memory, learned within them: python -m benchmarks.from_disk.

Each part of the work is done from disk under a limit, in memory without one, and in memory under
the same limit: a process each, so that each has a peak of its own, and a line of JSON for each as
soon as it is done; what is in the file already is not done again. The limit is imposed on both
engines by the same means: the process is watched, and killed once it has had more in memory than
the limit, as the system counts it (VmHWM: all that is resident, pages of mapped files included).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.from_disk.parts import ENGINES, PARTS
from benchmarks.from_disk.table import COMMAND, table_of
from benchmarks.measured import Line, find_case, open_cases, read_cases, tell
from benchmarks.processes import KILLED, watch
from proptrain import cli
from proptrain.bench.results import made_with
from proptrain.cli.console import say
from proptrain.errors import InvalidInputError
from proptrain.system.memory import in_words, parse_memory

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    folder: Annotated[
        Path | None, typer.Argument(help="Where to work; some 10 GB at the full size.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to add each part to; those in it are not done again.")
    ] = None,
    show: Annotated[Path | None, typer.Option(help="Print the table of such a file.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Page to put the table into, between its two marks.")
    ] = None,
    nodes: Annotated[int, typer.Option(help="Number of nodes.")] = 2_400_000,
    edges: Annotated[int, typer.Option(help="Number of edges; each is stored twice.")] = 62_000_000,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 47,
    features: Annotated[int, typer.Option(help="Number of features.")] = 100,
    epochs: Annotated[int, typer.Option(help="Epochs of each training.")] = 10,
    memory: Annotated[str, typer.Option(help="The limit.")] = "2GB",
) -> None:
    """Build, propagate, train and predict from disk under a limit, and in memory beside it."""
    if show is not None:
        tell(table_of(read_cases(show, COMMAND)).to_markdown(), "from_disk table", page)
        return
    if folder is None or out is None:
        raise InvalidInputError(
            "Say where to work and where to write, FOLDER --out FILE; or what to show, --show FILE."
        )
    sizes = {"nodes": nodes, "edges": edges, "classes": classes, "features": features}
    _measure_all(folder, out, {**sizes, "epochs": epochs, "memory": memory})


def _measure_all(folder: Path, out: Path, job: dict[str, Any]) -> None:
    """Do what the file does not have, part by part."""
    with open_cases(out) as (file, lines):
        if lines and not folder.is_dir():
            raise InvalidInputError(
                f"{out} was begun in a folder that has what the parts still to do need, and "
                f"{folder} is not there. Give that folder, or another file to begin anew."
            )
        folder.mkdir(parents=True, exist_ok=True)
        cases = [("make", ""), *((part, engine) for engine in ENGINES for part in PARTS)]
        for part, engine in cases:
            case = {**job, "part": part, "engine": engine}
            known = find_case(lines, case)
            if known is not None and known["failed"] in (None, KILLED):
                continue
            say(f"{part} {engine} …")
            line = {"case": case, **_measure(folder, case), "made_with": made_with()}
            file.add(line)
            say(_in_words(line))


def _measure(folder: Path, case: dict[str, Any]) -> dict[str, Any]:
    kind, _, limited = case["engine"].partition(", ")
    sizes = ",".join(str(case[name]) for name in ("nodes", "edges", "classes", "features"))
    words = [sys.executable, "-m", "benchmarks.from_disk.parts", case["part"], kind or "-"]
    words += [folder, case["memory"], case["epochs"], "--sizes", sizes]
    load = os.getloadavg()[0]
    ended = watch(words, limit=parse_memory(case["memory"]) if limited else None)
    peak = max(ended.peak, ended.told.get("peak_memory") or 0)
    whole = {"process_seconds": ended.seconds, "failed": ended.failed, "load": load}
    return {**ended.told, **whole, "peak_memory": peak}


def _in_words(line: Line) -> str:
    seconds = line.get("seconds", line["process_seconds"])
    how = (
        f"{seconds:.1f} s" if line["failed"] is None else f"{line['failed']} after {seconds:.1f} s"
    )
    return f"  {how}, {in_words(line['peak_memory'])} at the peak"


if __name__ == "__main__":
    cli.main(app, COMMAND)
