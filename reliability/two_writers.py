"""Two processes that write the same output: python -m reliability.two_writers --out FILE.

They write different things, and meet: the first is held in the midst of its writing, the second
started, and the first goes on a little before the second wants to write, or once it was told that
it cannot. One must win and the other say so, and what the winner wrote must stand; or, where both
were asked to overwrite and the first was done in time, what the second wrote. Whatever stands must
be complete.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from proptrain import cli
from proptrain.cli.console import say
from proptrain.system.json_lines import open_lines
from reliability import forked
from reliability.jobs import JOBS, Job, left_beside, left_inside
from reliability.kill import Victim, workplace
from reliability.outcomes import BEGINNING, add_outcome, chosen, ready, tried_in

COMMAND = "python -m reliability.two_writers"
ONE_WROTE = "one wrote it, the other said so"
BOTH_WROTE = "one after the other, one of the two stands whole"
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
        for name in chosen(job, JOBS):
            for overwrite in (False, True):
                fault = f"two at once: {name}{', overwriting' if overwrite else ''}"
                if overwrite and JOBS[name].grows:
                    continue
                if before[fault]:
                    say(f"{fault}: in {out} already")
                    continue
                outcomes = outcomes_of(JOBS[name], pairs, overwrite=overwrite)
                command = f'{COMMAND} --job "{name}" --pairs {pairs} --out FILE'
                add_outcome(file, fault, outcomes, command)
                say(f"{fault}: {dict(Counter(outcomes))}")


def outcomes_of(job: Job, n_pairs: int, *, overwrite: bool, seed: int = 0) -> list[str]:
    """Run pairs of processes, and tell what came of each."""
    delays = Random(f"{seed} {job.name}")
    with Victim(job) as victim:
        pair = Pair(victim, overwrite=overwrite)
        begins = victim.times[0]
        return [pair.run(delays.uniform(0.5, 1.1) * begins) for _ in range(n_pairs)]


class Pair:
    """Two commands with one output, and what they leave when nothing happens to them."""

    def __init__(self, victim: Victim, *, overwrite: bool) -> None:
        self._victim = victim
        words, other = victim.job.words, victim.job.other
        self._alone = (victim.new, victim.old)
        self._in_turn: str | None = None
        """What stands if both may write, the second after the first."""
        if overwrite or victim.job.grows:
            self._in_turn = victim.finished(words, other)
        commands = (words, other)
        if not overwrite:
            commands = (_without_overwrite(words), _without_overwrite(other))
        self._commands = commands

    def run(self, patience: float) -> str:
        """Hold the first until the second has ended, or some seconds; tell what came of it."""
        output, log = self._victim.output, self._victim.log
        first = self._held()
        second = forked.Running(self._commands[1], log.with_name("log-2"))
        early = second.wait(patience)
        first.go_on()
        ends = [one for one in (first.wait(), early or second.wait()) if one is not None]
        content = self._victim.job.content(output)
        if content is None:
            return "half an output"
        if left := [*left_beside(output), *left_inside(output)]:
            return f"{left[0].name} is left over"
        return self.judge(content, ends)

    def _held(self) -> forked.Running:
        """Start the first, and hold it where it has begun to write and not yet ended."""
        while True:
            running = self._victim.begun(self._commands[0])
            if running.hold() and self._victim.is_writing():
                return running
            running.go_on()
            running.wait()

    def judge(self, content: str, ends: list[forked.Ended]) -> str:
        """Tell whose output stands, by how both ended."""
        codes = [end.code for end in ends]
        if sorted(codes) == [0, 1] and all(end.code == 0 or end.has_our_error for end in ends):
            is_winners = content == self._alone[codes.index(0)]
            return ONE_WROTE if is_winners else "one wrote it, but something else stands"
        if codes == [0, 0] and self._in_turn:
            is_last = content == self._in_turn
            return BOTH_WROTE if is_last else "both wrote, but something else stands"
        return f"exit codes {codes}: {' / '.join(end.said[-150:] for end in ends)}"


def _without_overwrite(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in words if word != "--overwrite")


if __name__ == "__main__":
    cli.main(app, COMMAND)
