"""All that was tried and what came of it, as one table for a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from proptrain.errors import FileFormatError, InvalidInputError
from proptrain.experiments.grid import Table, counted
from proptrain.json_lines import read_lines
from reliability.outcomes import BEGINNING

_BEGIN, _END = "<!-- what was tried -->", "<!-- so much was tried -->"


@dataclass(frozen=True)
class Tried:
    """A fault or bad input, what came of it, how often, and the command that repeats it."""

    fault: str
    outcome: Counter[str]
    command: str


def read_tried(folder: Path) -> list[Tried]:
    """Read all files of JSON lines of a folder; lines about the same fault are added up.

    A file that was added to has a later command with a larger number: the one that repeats all.
    """
    found: dict[str, Counter[str]] = {}
    commands: dict[str, str] = {}
    for path in sorted(folder.glob("*.jsonl")):
        what = "a file of JSON lines with fault, tried, outcome and command"
        for line in read_lines(path, partial(_parse, path=path), BEGINNING, what):
            found.setdefault(line.fault, Counter()).update(line.outcome)
            commands[line.fault] = line.command
    return [Tried(fault, outcome, commands[fault]) for fault, outcome in found.items()]


def _parse(lines: bytes, path: Path) -> list[Tried]:
    tried = []
    for number, line in enumerate(lines.splitlines(), start=1):
        try:
            told = json.loads(line)
            outcome = Counter({str(name): int(n) for name, n in told["outcome"].items()})
            if outcome.total() != told["tried"]:
                raise ValueError("not as many outcomes as were tried")
            tried.append(Tried(str(told["fault"]), outcome, str(told["command"])))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FileFormatError(
                f"Line {number} of {path} does not tell what was tried: {error}."
            ) from error
    return tried


def with_table(page: str, table: Table) -> str:
    """Return a page with the table between its two marks, in place of what is there."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise InvalidInputError(f"The page must have a line {_BEGIN}, and below it a line {_END}.")
    return f"{before}{begin}\n\n{table.to_markdown()}\n\n{end}{after}"


def table_of(tried: Iterable[Tried]) -> Table:
    """Return the table: a row for each fault."""
    rows = [
        (
            one.fault,
            f"{one.outcome.total():,}",
            ", ".join(f"{n:,} × {name}" for name, n in one.outcome.most_common()),
            one.command,
        )
        for one in tried
    ]
    total = sum(one.outcome.total() for one in tried)
    note = f"{counted(total, 'trial')} of {counted(len(rows), 'fault')} in all."
    header = ("fault or bad input", "tried", "what happened", "the command that repeats it")
    return Table("What was tried", header, tuple(rows), (note,), n_labels=1)
