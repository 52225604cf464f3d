"""What was measured, and the file that keeps it: a line of JSON for each case, at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_args

from proptrain.bench.case import Case, Unit, Work
from proptrain.bench.memory import Memory
from proptrain.bench.timing import Timed, time_in_turn
from proptrain.errors import FileFormatError
from proptrain.experiments.versions import code_digest, versions
from proptrain.kernels.threads import count_threads
from proptrain.system.json_lines import open_lines, read_lines
from proptrain.system.reading import parse_json

_BEGINNING = b'{"suite": '
"""Of each line."""
_PEERS = ("torch-geometric", "scikit-network")


@dataclass(frozen=True)
class Measured:
    """A case and the times of its jobs."""

    suite: str
    title: str
    case: str
    baseline: str
    times: Mapping[str, Timed]
    amount: float = 0.0
    unit: Unit = ""
    memory: Memory | None = None
    made_with: Mapping[str, str] = field(default_factory=dict)
    """The machine, the versions and the day."""

    def to_json(self) -> dict[str, Any]:
        """Return everything as a dictionary; seconds are one for each round, in their order."""
        return asdict(self)

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Measured:
        """Return what `to_json` was made of."""
        times = {
            name: Timed(tuple(map(_positive, timed["seconds"])), _count(timed["n_epochs"]))
            for name, timed in line["times"].items()
        }
        if line["baseline"] not in times:
            raise ValueError("the baseline has no time")
        if len({len(timed.seconds) for timed in times.values()} | {0}) != 2:
            raise ValueError("jobs must have the same number of rounds, at least one")
        texts = [line["suite"], line["title"], line["case"], *line["made_with"].values()]
        if not all(isinstance(text, str) for text in texts) or line["unit"] not in get_args(Unit):
            raise ValueError("what must be text is not")
        told = line["memory"]
        memory = None if told is None else Memory(**{name: _count(told[name]) for name in told})
        if memory is not None and memory.allowed == 0:
            raise ValueError("a step has a graph and a signal, which take memory")
        has_amount = line["unit"] or line["amount"]  # what has a unit is told by the amount
        amount = _positive(line["amount"]) if has_amount else 0.0
        return cls(**{**line, "times": times, "memory": memory, "amount": amount})


def _positive(number: Any) -> float:
    if type(number) not in (int, float) or not 0 < number < math.inf:
        raise ValueError(f"a number above 0 must be finite, got {number!r}")
    return float(number)


def _count(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 2**63:
        raise ValueError(f"a count must be a whole number from 0 on, below 2^63, got {number!r}")
    return number


def measure(
    case: Case, work: Work, n_rounds: int, on_part: Callable[[float], None] = lambda _: None
) -> Measured:
    """Time the jobs of a case that has been prepared; ``on_part`` is told each part of a job."""
    jobs = {name: partial(job, on_part) if work.tells else job for name, job in work.jobs.items()}
    on_done = (lambda: None) if work.tells else (lambda: on_part(1))
    times = time_in_turn(jobs, n_rounds, warms_up=case.warms_up, on_done=on_done)
    for name, other in work.reckoned.items():
        times[name] = times[name].for_epochs(times[other].n_epochs)
    return Measured(
        case.suite,
        case.title,
        case.name,
        case.baseline,
        times,
        work.amount,
        work.unit,
        work.memory,
        made_with(),
    )


def read_measured(path: Path) -> list[Measured]:
    """Read a file of measured cases; a last line that was cut off is left out."""
    what = "a file that `proptrain bench --out` has written"
    return read_lines(path, partial(_parse, path=path), _BEGINNING, what)


@contextmanager
def open_measured(path: Path | None) -> Iterator[tuple[Callable[[Measured], None], list[Measured]]]:
    """Yield what adds a case to a file, and the cases that it has; with no file neither does."""
    if path is None:
        yield lambda _: None, []
        return
    with open_lines(path, partial(_parse, path=path), _BEGINNING) as (file, before):
        yield lambda measured: file.add(measured.to_json()), before


def _parse(content: bytes, path: Path) -> list[Measured]:
    measured = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            measured.append(Measured.from_json(parse_json(line)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FileFormatError(
                f"Line {number} of {path} is not a case that `proptrain bench` has measured. "
                "Remove the line, or name another file."
            ) from error
    return measured


def made_with() -> dict[str, str]:
    """Return the machine, the versions of everything and the day."""
    peers = {}
    for name in _PEERS:
        try:
            peers[name] = version(name)
        except PackageNotFoundError:  # only benchmarks/ needs them
            continue
    day = datetime.now(UTC).date().isoformat()
    own = {"code": code_digest(), "threads": str(count_threads()), "day": day}
    return {**versions(), **peers, **own}


def is_alike(measured: Measured) -> bool:
    """Tell whether a case was measured with this state of the code, on this kind of machine."""
    now = {name: value for name, value in made_with().items() if name != "day"}
    return all(measured.made_with.get(name) == value for name, value in now.items())
