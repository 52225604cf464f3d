"""Fits that need more memory than there is: python -m reliability.memory --out FILE.

Each command is given a table of many classes, and may have 2 GB beside what the process has: less
than it needs. It must say so before it begins, with one of our errors, and write nothing; with
--force it must begin all the same, and is ended then.
"""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from proptrain import cli
from proptrain.cli.console import say
from proptrain.system.json_lines import open_lines
from proptrain.system.memory import memory_told
from reliability import forked
from reliability.outcomes import BEGINNING, add_outcome, chosen, faults_in, ready

COMMAND = "python -m reliability.memory"
ROOM = 2_000_000_000
"""Bytes that a command may have."""
_N_NODES, _N_CLASSES = 30_000, 3_000
_TABLES = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--label", "topic", "--device", "cpu")
TRIED = {
    "fit --method LP": ("fit", *_TABLES, "--method", "LP", "--out", "written.csv"),
    "fit": ("fit", *_TABLES, "--out", "written.csv"),
    "audit": ("audit", *_TABLES, "--out", "written.csv"),
}
REFUSED, BEGUN = "refused before it began", "begun all the same"
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="File to add lines to; what is in it stays.")],
    job: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(TRIED)}.")] = None,
) -> None:
    """Give each command less memory than it needs, and look at what it does."""
    forked.load()
    with open_lines(ready(out).resolve(), faults_in, BEGINNING) as (file, before), _workplace():
        for name in chosen(job, TRIED):
            for force in (False, True):
                fault = f"too little memory for {name}{' --force' if force else ''}"
                if fault in before:
                    say(f"{fault}: in {out} already")
                    continue
                outcome = outcome_of(TRIED[name], force=force)
                add_outcome(file, fault, [outcome], f'{COMMAND} --job "{name}" --out FILE')
                say(f"{fault}: {outcome}")


@contextmanager
def _workplace() -> Iterator[None]:
    """Have a folder with the tables be the current one."""
    with tempfile.TemporaryDirectory() as place, chdir(place):
        ids = pd.Series(range(_N_NODES)).map("n{}".format)
        topic = (ids.index.to_series() % _N_CLASSES).map("c{}".format)
        nodes = pd.DataFrame({"id": ids, "size": range(_N_NODES), "topic": topic})
        nodes["topic"] = nodes["topic"].where(nodes.index < 2 * _N_CLASSES, "")
        nodes.to_csv("nodes.csv", index=False)
        ring = pd.DataFrame({"source": ids, "target": [*ids[1:], ids[0]]})
        ring.to_csv("edges.csv", index=False)
        yield


def outcome_of(words: tuple[str, ...], *, force: bool) -> str:
    """Run a command with little memory, until it says that it begins, and tell what it does."""
    with _limited(ROOM):
        running = forked.Running((*words, *["--force"] * force), Path("log"))
    while (ended := running.wait(0.05)) is None and "takes about" not in running.log.read_text():
        pass
    if ended is None:
        running.kill()
        running.wait()
    if Path("written.csv").exists():
        return "broken: it has written something"
    if ended is not None and ended.has_our_error and "or begin all the same" in ended.said:
        return REFUSED
    told = running.log.read_text()
    return BEGUN if "takes about" in told else f"broken: {' '.join(told.split())[-200:]}"


@contextmanager
def _limited(room: int) -> Iterator[None]:
    """Allow this process, and those that it forks, so many bytes beside what it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, ((memory_told("VmSize") or 0) + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


if __name__ == "__main__":
    cli.main(app, COMMAND)
