"""The raw results of a folder: one JSON line a run, safe at every moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from proptrain.errors import FileFormatError
from proptrain.experiments.protocol import Run
from proptrain.experiments.tasks import Task, task_of
from proptrain.system.files import unwritable_is_ours
from proptrain.system.json_lines import LineFile, open_lines, read_lines
from proptrain.system.reading import parse_json

FILE_NAME = "runs.jsonl"
_BEGINNING = b'{"dataset": '


class RunStore:
    """The runs of a folder by what they did, and the open file that new ones are added to."""

    def __init__(self, file: LineFile, runs: dict[Task, Run]) -> None:
        self.runs = runs
        self._file = file

    def add(self, run: Run) -> None:
        """Write a run; when this returns, it is on the disk."""
        self._file.add(run.to_json())
        self.runs.setdefault(task_of(run), run)


@contextmanager
def open_store(folder: str | Path) -> Iterator[RunStore]:
    """Open the results of a folder for this process alone; the folder is made if need be."""
    path = Path(folder) / FILE_NAME
    with unwritable_is_ours(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with open_lines(path, partial(_parse, path=path), _BEGINNING) as (file, runs):
        yield RunStore(file, runs)


def read_runs(path: str | Path) -> list[Run]:
    """Read a file of raw results, each run once, in the order in which they were made."""
    path = Path(path)
    what = "a file of raw results, as `proptrain reproduce` writes it"
    return list(read_lines(path, partial(_parse, path=path), _BEGINNING, what).values())


def _parse(content: bytes, path: Path) -> dict[Task, Run]:
    """Read whole lines; of two runs of one task the first counts."""
    runs: dict[Task, Run] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            run = Run.from_json(parse_json(line))
        except ValueError as error:
            raise FileFormatError(
                f"Line {number} of {path} is not a run: {str(error).rstrip('.')}. Remove the "
                "line, or name another folder."
            ) from error
        runs.setdefault(task_of(run), run)
    return runs
