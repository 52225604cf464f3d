"""Two processes that write the same output: python -m reliability.two_writers --out FILE.

They are started one right after the other, some milliseconds apart, and write different things. One
must win and the other say so, and what the winner wrote must stand; or, where both were asked to
overwrite and did not meet, what one of them wrote, and if one ended before the other was started,
what the later wrote. Whatever stands must be complete.
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
from reliability.jobs import JOBS, Job, clear, left_beside, left_inside
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
    delays = random.Random(f"{seed} {job.name}")
    with Victim(job) as victim:
        pair = Pair(victim, overwrite=overwrite)
        return [pair.run(delays.uniform(0, 0.02)) for _ in range(n_pairs)]


class Pair:
    """Two commands with one output, and what they leave when nothing happens to them."""

    def __init__(self, victim: Victim, *, overwrite: bool) -> None:
        self._victim = victim
        words, other = victim.job.words, victim.job.other
        self._alone = (victim.new, victim.old)
        self._in_turn: tuple[str, ...] = ()
        """What stands if both wrote: the first command before the second, and after it."""
        if overwrite or victim.job.grows:
            self._in_turn = (victim.finished(words, other), victim.finished(other, words))
        commands = (words, other)
        if not overwrite:
            commands = (_without_overwrite(words), _without_overwrite(other))
        self._commands = commands

    def run(self, delay: float) -> str:
        """Start both, some seconds apart, and tell what came of it."""
        output, log = self._victim.output, self._victim.log
        clear(output)
        first = forked.Running(self._commands[0], log)
        early = first.wait(delay)
        second = forked.Running(self._commands[1], log.with_name("log-2"))
        ends = [one for one in (early or first.wait(), second.wait()) if one is not None]
        content = self._victim.job.content(output)
        if content is None:
            return "half an output"
        if left := [*left_beside(output), *left_inside(output)]:
            return f"{left[0].name} is left over"
        return self.judge(content, ends, in_turn=early is not None)

    def judge(self, content: str, ends: list[forked.Ended], *, in_turn: bool) -> str:
        """Tell whose output stands, by how both ended and whether they met at all."""
        codes = [end.code for end in ends]
        if sorted(codes) == [0, 1] and all(end.code == 0 or end.has_our_error for end in ends):
            is_winners = content == self._alone[codes.index(0)]
            return ONE_WROTE if is_winners else "one wrote it, but something else stands"
        if codes == [0, 0] and self._in_turn:
            may_stand = self._in_turn[:1] if in_turn else self._in_turn
            return BOTH_WROTE if content in may_stand else "both wrote, but something else stands"
        return f"exit codes {codes}: {' / '.join(end.said[-150:] for end in ends)}"


def _without_overwrite(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in words if word != "--overwrite")


if __name__ == "__main__":
    cli.main(app, COMMAND)
