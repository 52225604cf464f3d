"""What was tried, and what happened: python -m reliability --show docs/results/reliability."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proptrain import cli
from proptrain.cli.console import results
from reliability.table import read_tried, table_of

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    show: Annotated[Path, typer.Option(help="Folder of JSON lines, as the scripts write them.")],
) -> None:
    """Print the table of all faults and bad inputs that were tried, as Markdown."""
    results.file.write(table_of(read_tried(show)).to_markdown() + "\n")


if __name__ == "__main__":
    cli.main(app, "python -m reliability")
