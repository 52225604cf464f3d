"""Commands on a full disk: python -m reliability.full_disk --out FILE, as root.

A disk of a few MB in memory (tmpfs) is mounted, and filled so that some of the space that a command
needs is left: none, a little, nearly enough. It must end with one of our errors and leave the old
output, or none, as it was, with nothing beside it; and finish once there is space. If what is left
is enough after all, the output must be whole.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from proptrain import cli
from proptrain.cli.console import say
from proptrain.errors import InvalidInputError
from proptrain.system.json_lines import open_lines
from reliability import forked
from reliability.jobs import JOBS, Job, prepare, put, state_of
from reliability.kill import Victim
from reliability.outcomes import BEGINNING, add_outcome, chosen, ready, tried_in

COMMAND = "python -m reliability.full_disk"
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Of the space that a command's output takes: so much is left."""
_DISK = 8_000_000
_PAGE = 4096
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="File to add lines to; what is in it stays.")],
    job: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(JOBS)}.")] = None,
) -> None:
    """Run each command on a disk with too little space, and look at what it leaves."""
    if not can_mount():
        raise InvalidInputError("A small disk is mounted by root alone: run this as root.")
    forked.load()
    with open_lines(ready(out).resolve(), tried_in, BEGINNING) as (file, before), small_disk():
        for name in chosen(job, JOBS):
            fault = f"full disk during {name}"
            if before[fault]:
                say(f"{fault}: in {out} already")
                continue
            outcomes = outcomes_of(JOBS[name])
            add_outcome(file, fault, outcomes, f'{COMMAND} --job "{name}" --out FILE')
            say(f"{fault}: {dict(Counter(outcomes))}")


def can_mount() -> bool:
    """Tell whether this process may mount a disk."""
    try:
        with small_disk(with_inputs=False):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextmanager
def small_disk(*, with_inputs: bool = True) -> Iterator[None]:
    """Have a small disk be the current folder, with the inputs of all jobs on it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", place]
        subprocess.run(mount, check=True, capture_output=True)
        try:
            os.chdir(place)
            if with_inputs:
                prepare(Path())
            yield
        finally:
            os.chdir(before)
            subprocess.run(["umount", place], check=True, capture_output=True)


def outcomes_of(job: Job, shares: tuple[float, ...] = SHARES) -> list[str]:
    """Run a command with each share of the space it needs, with and without an old output."""
    with Victim(job) as victim:
        victim.log = Path(tempfile.gettempdir()) / f"log-{os.getpid()}"  # not on that disk
        put(victim.kept, victim.output)
        needed = _size_of(victim.output)
        found = [_try(victim, int(share * needed), had_old=had_old)
                 for share, had_old in product(shares, (False, True))]  # fmt: skip
        victim.log.unlink()
        return found


def _size_of(path: Path) -> int:
    """Return the bytes that a file, or a folder's files, take of the disk."""
    files = [one for one in path.rglob("*") if one.is_file()] if path.is_dir() else [path]
    return sum(-(-file.stat().st_size // _PAGE) * _PAGE for file in files)


def _try(victim: Victim, left: int, *, had_old: bool) -> str:
    put(victim.kept if had_old else Path("none"), victim.output)
    _fill(left)
    ended = forked.run(victim.job.words, victim.log)
    state = state_of(victim.job, victim.output, victim.old, victim.new)
    Path("ballast").unlink()
    if ended.code == 0:
        return victim.judge() if state == "complete new" else f"success, but {state}"
    if not ended.has_our_error:
        return f"another error: exit code {ended.code}, {ended.said[-200:]}"
    after = victim.judge()
    fine = after in ("absent", "complete old", "whole so far")
    return f"our error; {after}" if fine else after


def _fill(left: int) -> None:
    """Take all of the disk but so many bytes."""
    disk = os.statvfs(".")
    with Path("ballast").open("wb") as file:
        file.write(bytes(max(0, disk.f_bavail * disk.f_frsize - left)))


if __name__ == "__main__":
    cli.main(app, COMMAND)
