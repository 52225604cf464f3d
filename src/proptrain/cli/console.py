"""What the commands share on screen: tables, progress, JSON, errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console, JustifyMethod
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from proptrain.text import visible

if TYPE_CHECKING:
    from proptrain.experiments.statistics import Estimate

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object for machines instead of text.")
]
MOST_RUNS = 10_000
"""Of `evaluate` and `demo`, which list all before the first begins: 20 splits, each 500 times."""
OpenOption = Annotated[bool, typer.Option("--open", help="Show the page in your browser.")]
OverwriteOption = Annotated[bool, typer.Option(help="Replace the output if it exists.")]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Begin even if the machine has less memory left than it takes by our estimate.",
    ),
]

# Results go to standard output, everything else to standard error, so that pipes stay clean.
results = Console()
notes = Console(stderr=True)


def say(text: str) -> None:
    """Print a note for the human; text from files is neither read as markup nor acted upon."""
    notes.print(Text(visible(text)), soft_wrap=True)  # so that no path is broken in two


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object on one line to standard output."""
    text = json.dumps(content, ensure_ascii=False)
    if not text.isprintable():  # what a terminal would act upon is escaped, as JSON does
        text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    sys.stdout.write(text + "\n")


def print_table(
    title: str, columns: list[str], rows: list[list[str]], *, n_labels: int = 1
) -> None:
    """Print a table to standard output; columns that name a row are left-aligned, numbers right."""
    table = Table(title=Text(visible(title)), title_justify="left")
    for position, column in enumerate(columns):
        justify: JustifyMethod = "left" if position < n_labels else "right"
        # On a narrow terminal cells go on in a next line: half a name would name nothing.
        table.add_column(Text(visible(column)), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    results.print(table)


def in_percent(estimate: Estimate, digits: int) -> str:
    """Write a mean in percent, with ± half its interval where there is one.

    >>> from proptrain.experiments.statistics import Estimate
    >>> in_percent(Estimate(0.84, 0.83, 0.86), 1)
    '84.0 ± 1.5'
    """
    from proptrain.experiments.grid import plus_minus

    return plus_minus(100 * estimate.mean, 100 * estimate.half_width, digits)


@contextmanager
def progress(description: str, total: int, *, quiet: bool) -> Iterator[Callable[..., None]]:
    """Show a progress bar on standard error; yields a function to call after each step.

    It may be given the share of a step that was done, and another description.
    """
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=notes,
        transient=True,
        disable=quiet,
    )
    with bar:
        task = bar.add_task(visible(description), total=total)
        yield lambda share=1.0, description=None: bar.update(
            task, advance=share, description=description and visible(description)
        )


@contextmanager
def training_progress(max_epochs: int, *, quiet: bool) -> Iterator[Callable[[int, float], None]]:
    """Show the epochs go by, with the accuracy on held-out labels; early stopping may end them."""
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=notes,
        transient=True,
        disable=quiet,
    )
    with bar:
        task = bar.add_task("preparing", total=max_epochs)
        yield lambda epoch, accuracy: bar.update(
            task,
            completed=epoch + 1,
            description=f"epoch {epoch + 1}, at most {max_epochs}; {accuracy:.1%} right",
        )


def show_page(path: Path) -> None:
    """Open a page in the reader's browser, or say that there is none."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        say(f"No browser could be opened; open {path} yourself.")


def fail(error: Exception, *, as_json: bool) -> NoReturn:
    """Print an error and leave with exit code 1."""
    if as_json:
        print_json({"error": {"type": type(error).__name__, "message": str(error)}})
    else:
        notes.print(Text.assemble(("error: ", "bold red"), visible(str(error))), soft_wrap=True)
    raise SystemExit(1)
