"""What is to be measured, and the file that keeps what was: a line of JSON for each task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from proptrain import insight
from proptrain.data.noise import LabelNoise
from proptrain.data.splits import TEST_SEEDS, VALIDATION_SEEDS
from proptrain.errors import FileFormatError
from proptrain.experiments.versions import code_digest
from proptrain.system.json_lines import LineFile, open_lines, read_lines
from proptrain.system.reading import parse_json

RATES = (0.1, 0.2, 0.3)
KINDS: tuple[LabelNoise, ...] = ("uniform", "pair")
_BEGINNING = b'{"dataset": '


@dataclass(frozen=True)
class Task:
    """One split of a data set, with some of its training labels made wrong, or none."""

    dataset: str
    kind: LabelNoise | Literal["none"]
    """Of label noise; "none" is for calibration, with every label right."""
    rate: float
    seed: int
    validation: bool = False
    """Whether it has the seeds and nodes for tuning, and leaves the test nodes alone."""


@dataclass(frozen=True, eq=False)
class Done:
    """A task and what was measured, by name."""

    task: Task
    measured: Mapping[str, float]
    code: str
    """The state of the code that made it."""

    def to_json(self) -> dict[str, Any]:
        """Return everything as a dictionary."""
        return {**asdict(self.task), "code": self.code, "measured": dict(self.measured)}


def list_tasks(datasets: Sequence[str], n_seeds: int, *, validation: bool) -> list[Task]:
    """List all tasks, seed after seed: if the rest is never run, all settings have as many."""
    seeds = (VALIDATION_SEEDS if validation else TEST_SEEDS)[:n_seeds]
    return [
        task
        for seed in seeds
        for dataset in datasets
        for task in (
            Task(dataset, "none", 0.0, seed, validation),
            *(Task(dataset, kind, rate, seed, validation) for kind in KINDS for rate in RATES),
        )
    ]


@contextmanager
def open_done(path: Path) -> Iterator[tuple[LineFile, dict[Task, Done]]]:
    """Open a file for this process alone, and yield it with the tasks that it has."""
    with open_lines(path, partial(_parse, path=path), _BEGINNING) as opened:
        yield opened


def read_done(path: Path) -> list[Done]:
    """Read what a file has."""
    what = "a file that `python -m benchmarks.audit` has written"
    return list(read_lines(path, partial(_parse, path=path), _BEGINNING, what).values())


def code_state() -> str:
    """Tell the code that trains, and that which audits and calibrates, by digits of its hash."""
    digest = sha256()
    for path in sorted(Path(insight.__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return f"{code_digest()}+{digest.hexdigest()[:8]}"


def _parse(content: bytes, path: Path) -> dict[Task, Done]:
    done: dict[Task, Done] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            fields = parse_json(line)
            measured, code = fields.pop("measured"), fields.pop("code")
            task = Task(**fields)
            done[task] = Done(task, {name: float(measured[name]) for name in measured}, code)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FileFormatError(
                f"Line {number} of {path} is not what `python -m benchmarks.audit` writes. Remove "
                "the line, or name another file."
            ) from error
    return done
