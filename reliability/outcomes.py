"""The lines that tell what was tried, how often, and what came of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from proptrain.errors import InvalidInputError
from proptrain.experiments.versions import package_digest
from proptrain.system.json_lines import LineFile

BEGINNING = b'{"fault": '
"""Of each line."""


def add_outcome(
    file: LineFile, fault: str, outcomes: Iterable[str], command: str, **measured: Any
) -> None:
    """Write what was tried, its outcomes by name, and by which command and code on which day."""
    counts = Counter(outcomes)
    line = {"fault": fault, "tried": counts.total(), "outcome": dict(counts), "command": command}
    day = datetime.now(UTC).date().isoformat()
    file.add({**line, "code": package_digest(), "day": day, **measured})


def faults_in(lines: bytes) -> set[str]:
    """Return what was tried already, for `proptrain.system.json_lines.open_lines`."""
    return {json.loads(line)["fault"] for line in lines.splitlines()}


def tried_in(lines: bytes) -> Counter[str]:
    """Return how often each fault was tried, for `proptrain.system.json_lines.open_lines`."""
    found: Counter[str] = Counter()
    for line in map(json.loads, lines.splitlines()):
        found[line["fault"]] += line["tried"]
    return found


def chosen(asked: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """Return the names that were asked for, all if none was; raise for one that is not known."""
    known = list(known)
    for name in asked or ():
        if name not in known:
            raise InvalidInputError(f"There is no {name!r}. Ask for one of: {'; '.join(known)}.")
    return list(asked or known)


def ready(path: Path) -> Path:
    """Return the path of a file whose folder is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
