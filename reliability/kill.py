"""kill -9 at random moments: python -m reliability.kill --out docs/results/reliability/kill.jsonl.

Each command is killed again and again, at moments drawn over the time that it takes, or with
--writing over the time from the first thing that it writes to the last, where most could go wrong.
Half of the time there was an output before, which it was to replace. Afterwards its output must be
the complete old one, the complete new one, or absent, and the same command must finish and leave
nothing beside it.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from proptrain import cli
from proptrain.cli.console import say
from proptrain.experiments.store import FILE_NAME
from proptrain.system.json_lines import open_lines
from reliability import forked
from reliability.jobs import JOBS, Job, clear, left_beside, left_inside, prepare, put, state_of
from reliability.outcomes import BEGINNING, add_outcome, chosen, ready, tried_in

COMMAND = "python -m reliability.kill"
_BATCH = 10
"""Kills of a line, so that little is lost if this is stopped itself."""
_LOOKS = 0.0002
"""Seconds between two looks whether it writes."""
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="File to add lines to; what is in it stays.")],
    kills: Annotated[int, typer.Option(min=1, help="Kills of each command.")] = 100,
    job: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(JOBS)}.")] = None,
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 0,
    writing: Annotated[
        bool, typer.Option("--writing", help="Kill only while it writes its output.")
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
        self._n_kills = self._size_before = 0

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

    def begin(self, words: tuple[str, ...] = (), *, with_old: bool = False) -> forked.Running:
        """Start the job or another command; there is the old output before, or none."""
        put(self.kept if with_old else Path("none"), self.output)
        self._size_before = self._size()
        return forked.Running(words or self.job.words, self.log)

    def begun(self, words: tuple[str, ...] = (), *, with_old: bool = False) -> forked.Running:
        """Start it and wait until it writes; anew if it has ended before that was seen."""
        while True:
            running = self.begin(words, with_old=with_old)
            ended = _until(self.is_writing, running)
            if ended is None:
                return running
            _check(ended)

    def is_writing(self) -> bool:
        """Tell whether it has begun to write its output, and has not yet come to the end of that.

        Of an output that grows, only the end of the process is the end.
        """
        if self.job.grows:
            return self._size() > self._size_before
        return self.job.is_writing(self.output)

    def _size(self) -> int:
        """Return the bytes of the runs in an output that grows."""
        runs = self.output / FILE_NAME
        return runs.stat().st_size if runs.exists() else 0

    @cached_property
    def times(self) -> tuple[float, float]:
        """Seconds until it writes, and from then to the end of that, as in most of a few runs."""
        until, writing = zip(*(self._timed(with_old=n % 2 == 1) for n in range(4)), strict=True)
        return median(until), median(writing)

    def _timed(self, *, with_old: bool) -> tuple[float, float]:
        start = time.monotonic()
        running = self.begun(with_old=with_old)
        begun = time.monotonic()
        ended = _until(lambda: not self.is_writing(), running)
        seconds = begun - start, time.monotonic() - begun
        _check(ended or running.wait())
        return seconds

    def kill(self, moments: random.Random, *, writing: bool = False) -> str:
        """Kill it once, at a moment before its end, and tell what came of it."""
        start = self.begun if writing else self.begin
        most = 1.1 * (self.times[1] if writing else self.seconds)
        is_killed = False
        while not is_killed:
            running = start(with_old=self._n_kills % 2 == 1)
            ended = running.wait(moments.uniform(0, most))
            if ended is None:
                running.kill()
                ended = running.wait()
            is_killed = _check(ended)
        self._n_kills += 1
        return self.judge()

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


def _until(is_so: Callable[[], bool], running: forked.Running) -> forked.Ended | None:
    """Wait until something is so, or the process has ended."""
    while not is_so():
        if (ended := running.wait(_LOOKS)) is not None:
            return ended
    return None


def _check(ended: forked.Ended | None) -> bool:
    """Tell whether it was killed; raise for another end than that and the good one."""
    assert ended is not None
    if ended.code not in (0, -9):
        raise RuntimeError(f"It failed without any fault: {ended.said}")
    return ended.code == -9


if __name__ == "__main__":
    cli.main(app, COMMAND)
