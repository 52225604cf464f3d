"""Two processes that write the same output: python -m reliability.two_writers --out FILE.

They are started one right after the other, some milliseconds apart. One must win and the other say
so; or, where both were asked to overwrite and did not meet, the later must stand. Whatever stands
must be complete.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from proptrain import cli
from proptrain.cli.console import say
from proptrain.json_lines import open_lines
from reliability import forked
from reliability.jobs import JOBS, Job, clear, left_beside
from reliability.kill import Victim, workplace
from reliability.outcomes import BEGINNING, add_outcome, ready, tried_in

COMMAND = "python -m reliability.two_writers"
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="File to add lines to; what is in it stays.")],
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of processes for each command.")] = 20,
    job: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(JOBS)}.")] = None,
) -> None:
    """Have two processes write the same output, and look at what stands."""
    forked.load()
    with open_lines(ready(out).resolve(), tried_in, BEGINNING) as (file, before), workplace():
        for name in job or JOBS:
            for overwrite in (False, True):
                fault = f"two at once: {name}{', overwriting' if overwrite else ''}"
                if before[fault] or (overwrite and JOBS[name].grows):
                    continue
                outcomes = outcomes_of(JOBS[name], pairs, overwrite=overwrite)
                command = f'{COMMAND} --job "{name}" --pairs {pairs} --out FILE'
                add_outcome(file, fault, outcomes, command)
                say(f"{fault}: {dict(Counter(outcomes))}")


def outcomes_of(job: Job, n_pairs: int, *, overwrite: bool, seed: int = 0) -> list[str]:
    """Run pairs of processes, and tell what came of each."""
    delays = random.Random(f"{seed} {job.name}")
    with Victim(job) as victim:
        return [_try(victim, delays.uniform(0, 0.02), overwrite=overwrite) for _ in range(n_pairs)]


def _try(victim: Victim, delay: float, *, overwrite: bool) -> str:
    clear(victim.output)
    words = [victim.job.words, victim.job.other]
    if not overwrite:
        words = [tuple(word for word in one if word != "--overwrite") for one in words]
    first = forked.Running(words[0], victim.log)
    early = first.wait(delay)
    second = forked.Running(words[1], victim.log.with_name("log-2"))
    ends = [one for one in (early or first.wait(), second.wait()) if one is not None]
    content = victim.job.content(victim.output)
    if content not in (victim.new, victim.old):
        return "half an output"
    if left_beside(victim.output):
        return "files are left beside it"
    codes = sorted(end.code for end in ends)
    if codes == [0, 1] and all(end.code == 0 or end.has_our_error for end in ends):
        return "one wrote it, the other said so"
    if codes == [0, 0] and (overwrite or victim.job.grows):
        return "one after the other, the later stands"
    return f"exit codes {codes}: {' / '.join(end.said[-150:] for end in ends)}"


if __name__ == "__main__":
    cli.main(app, COMMAND)
