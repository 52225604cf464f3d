"""Measure the audit: python -m benchmarks.audit --out FILE; its tables: … --show FILE."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.audit.task import Done, Task, code_state, list_tasks, open_done, read_done
from proptrain import cli
from proptrain.cli.console import progress, results
from proptrain.cli.data import DataDirOption
from proptrain.errors import InvalidInputError, missing_extra
from proptrain.experiments.specs import DATASETS

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[
        Path | None, typer.Option(help="File to add each task to; those in it are not run again.")
    ] = None,
    show: Annotated[Path | None, typer.Option(help="Print the tables of such a file.")] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Repeatable. \\[default: the paper's four]")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=20, help="How many splits.")] = 20,
    validation: Annotated[
        bool, typer.Option("--validation", help="Use the seeds and nodes for tuning.")
    ] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Plant wrong labels, and see who finds them; fix them, and train again; calibrate."""
    if (out is None) == (show is None):
        raise InvalidInputError("Say either where to write, --out FILE, or what to show, --show.")
    if show is not None:
        from benchmarks.audit.tables import to_markdown

        results.file.write(to_markdown(read_done(show)) + "\n")  # not wrapped: a page will do that
        return
    assert out is not None
    tasks = list_tasks(dataset or list(DATASETS), seeds, validation=validation)
    _run(tasks, out, data_dir)


def _run(tasks: list[Task], out: Path, data_dir: Path | None) -> None:
    try:
        from benchmarks.audit.measure import measure
    except ModuleNotFoundError as error:
        raise missing_extra(
            f"The audit is measured beside {error.name}, which is not installed; it comes with "
            "proptrain's extra `bench`.",
            "bench",
        ) from error
    with open_done(out) as (file, done):
        left = [task for task in tasks if task not in done]
        with progress("splits with wrong labels", len(left), quiet=False) as advance:
            for task in left:
                file.add(Done(task, measure(task, data_dir), code_state()).to_json())
                advance()


if __name__ == "__main__":
    cli.main(app, "python -m benchmarks.audit")
