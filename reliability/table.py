"""All that was tried, what came of it, and by which code it was, as tables for a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from proptrain.errors import FileFormatError, InvalidInputError
from proptrain.experiments.grid import Table, counted
from proptrain.system.json_lines import read_lines
from reliability.outcomes import BEGINNING

KEPT = {
    "2486a6e595c1": "2026-11-17",
    "e5309ca02fc0": "2026-11-17",
    "23e4c95695c0": "2026-11-18",
    "65181f69b211": "2026-11-18",
    "f3931034523a": "2026-11-18",
    "35757e845eee": "2026-11-18",
    "39521e2250d7": "2026-11-18",
    "0b6ec0af7b87": "2026-11-19",
}
"""When lines of these states of the code, which have no day of their own, were committed first."""
_BEGIN, _END = "<!-- what was tried -->", "<!-- so much was tried -->"


@dataclass(frozen=True)
class Tried:
    """A fault or bad input, what came of it, how often, and the command that repeats it."""

    fault: str
    outcome: Counter[str]
    command: str
    made: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often by which state of the code, and when."""

    @property
    def script(self) -> str:
        """The module that its command runs."""
        return self.command.split()[2]


def read_tried(folder: Path) -> list[Tried]:
    """Read all files of JSON lines of a folder; lines about the same fault are added up.

    A file that was added to has a later command with a larger number: the one that repeats all.
    """
    found: dict[str, Tried] = {}
    for path in sorted(folder.glob("*.jsonl")):
        what = "a file of JSON lines with fault, tried, outcome and command"
        for line in read_lines(path, partial(_parse, path=path), BEGINNING, what):
            before = found.get(line.fault, Tried(line.fault, Counter(), ""))
            outcome, made = before.outcome + line.outcome, before.made + line.made
            found[line.fault] = replace(line, outcome=outcome, made=made)
    return list(found.values())


def _parse(lines: bytes, path: Path) -> list[Tried]:
    tried = []
    for number, line in enumerate(lines.splitlines(), start=1):
        try:
            told = json.loads(line)
            outcome = Counter({str(name): int(n) for name, n in told["outcome"].items()})
            if outcome.total() != told["tried"]:
                raise ValueError("not as many outcomes as were tried")
            made = Counter({(str(told["code"]), _day_of(told)): outcome.total()})
            tried.append(Tried(str(told["fault"]), outcome, str(told["command"]), made))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FileFormatError(
                f"Line {number} of {path} does not tell what was tried: {error}."
            ) from error
    return tried


def _day_of(told: dict[str, Any]) -> str:
    kept = KEPT.get(told["code"])
    return str(told.get("day", f"by {kept}" if kept else "not noted"))


def with_tables(page: str, *tables: Table) -> str:
    """Return a page with the tables between its two marks, in place of what is there."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise InvalidInputError(f"The page must have a line {_BEGIN}, and below it a line {_END}.")
    shown = "\n\n".join(table.to_markdown() for table in tables)
    return f"{before}{begin}\n\n{shown}\n\n{end}{after}"


def tables_of(tried: Sequence[Tried]) -> tuple[Table, Table]:
    """Return what a page has: the states of the code, and the faults."""
    return states_of(tried), table_of(tried)


def states_of(tried: Iterable[Tried]) -> Table:
    """Return the table of the states of the code: by which each script's trials were made, when."""
    made: Counter[tuple[str, str, str]] = Counter()
    for one in tried:
        made += Counter({(one.script, day, code): n for (code, day), n in one.made.items()})
    rows = tuple((*names, f"{n:,}") for names, n in sorted(made.items()))
    return Table("Of which code", ("script", "made", "code", "trials"), rows, n_labels=2)


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
