"""kill -9 at random moments: python -m reliability.kill --out docs/results/reliability/kill.jsonl.

Each command is killed again and again, at moments drawn over the time that it takes, or with
--writing just when it has begun to write, where most could go wrong. Half of the time there was an
output before, which it was to replace. Afterwards its output must be the complete old one, the
complete new one, or absent, and the same command must finish and leave nothing beside it.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from proptrain import cli
from proptrain.cli.console import say
from proptrain.experiments.store import FILE_NAME
from proptrain.json_lines import open_lines
from reliability import forked
from reliability.jobs import JOBS, Job, clear, left_beside, left_inside, prepare, put, state_of
from reliability.outcomes import BEGINNING, add_outcome, chosen, ready, tried_in

COMMAND = "python -m reliability.kill"
_BATCH = 10
"""Kills of a line, so that little is lost if this is stopped itself."""
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="File to add lines to; what is in it stays.")],
    kills: Annotated[int, typer.Option(min=1, help="Kills of each command.")] = 100,
    job: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(JOBS)}.")] = None,
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 0,
    writing: Annotated[
        bool, typer.Option("--writing", help="Kill only soon after the first thing is written.")
    ] = False,
) -> None:
    """Kill each command at random moments, and look at what it leaves."""
    forked.load()
    with open_lines(ready(out).resolve(), tried_in, BEGINNING) as (file, before), workplace():
        for name in chosen(job, JOBS):
            fault = f"kill -9 while {name} writes" if writing else f"kill -9 during {name}"
            batches = range(before[fault] // _BATCH, -(-kills // _BATCH))
            if not batches:
                say(f"{fault}: in {out} already")
                continue
            with Victim(JOBS[name]) as victim:
                for batch in batches:
                    moments = random.Random(f"{seed} {name} {batch}")
                    outcomes = [victim.kill(moments, writing=writing) for _ in range(_BATCH)]
                    how = f'--job "{name}" --kills {kills}{" --writing" if writing else ""}'
                    command = f"{COMMAND} {how} --out FILE"
                    add_outcome(file, fault, outcomes, command, batch=batch)
                    say(f"{fault}, batch {batch}: {dict(Counter(outcomes))}")


@contextmanager
def workplace() -> Iterator[Path]:
    """Have an empty folder with the inputs of all jobs be the current one."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            prepare(Path())
            yield Path(folder)
        finally:
            os.chdir(before)


class Victim:
    """A job with its old and its new output, to be killed again and again."""

    def __init__(self, job: Job, folder: Path = Path()) -> None:
        self.job, self.output, self.log = job, folder / job.output, folder / "log"
        self.kept = folder / f"kept-{job.output}"
        self._n_kills = 0

    def __enter__(self) -> Victim:
        """Run it to its end, for the outputs and for how long it takes."""
        self.old = self.finished(self.job.other)
        put(self.output, self.kept)
        start = time.monotonic()
        self.new = self.finished(self.job.words)
        self.seconds = time.monotonic() - start
        if self.old == self.new:
            raise RuntimeError(f"{self.job.name}: the old output cannot be told from the new one.")
        return self

    def __exit__(self, *_: object) -> None:
        clear(self.output)
        clear(self.kept)

    def finished(self, *commands: tuple[str, ...]) -> str:
        """Return the output of commands, one after the other, that nothing happens to."""
        clear(self.output)
        for words in commands:
            ended = forked.run(words, self.log)
            if ended.code:
                raise RuntimeError(f"{words} failed without any fault: {ended.said}")
        content = self.job.content(self.output)
        if content is None:
            raise RuntimeError(f"{commands} left no whole output without any fault.")
        return content

    def kill(self, moments: random.Random, *, writing: bool = False) -> str:
        """Kill it once, at a moment before its end, and tell what came of it."""
        while True:
            put(self.kept if self._n_kills % 2 else Path("none"), self.output)
            running = forked.Running(self.job.words, self.log)
            ended = self._until_it_writes(running) if writing else None
            if ended is None:
                most = self.job.seconds_of_writing if writing else 1.1 * self.seconds
                ended = running.wait(moments.uniform(0, most))
            if ended is None:
                running.kill()
                ended = running.wait()
            assert ended is not None
            if ended.code == -9:
                break
        self._n_kills += 1
        return self.judge()

    def _until_it_writes(self, running: forked.Running) -> forked.Ended | None:
        """Wait for the first file that is hidden beside the output, or the first run in it."""
        before = self._signs()
        while self._signs() == before:
            if (ended := running.wait(0.0002)) is not None:
                return ended
        return None

    def _signs(self) -> object:
        """Return what changes when the first thing is written."""
        if not self.job.grows:
            return bool(left_beside(self.output))
        runs = self.output / FILE_NAME
        return runs.stat().st_size if runs.exists() else 0

    def judge(self) -> str:
        """Tell what is there, and whether the same command finishes."""
        state = state_of(self.job, self.output, self.old, self.new)
        if state == "half":
            return "half an output"
        again = forked.run(self.job.words, self.log)
        if again.code or self.job.content(self.output) != self.new:
            return f"{state}, but the same command does not finish: {again.said[-200:]}"
        if left := [*left_beside(self.output), *left_inside(self.output)]:
            return f"{state}, but {left[0].name} is left over"
        return state


if __name__ == "__main__":
    cli.main(app, COMMAND)
