"""What was tried, and what happened: python -m reliability --show docs/results/reliability."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proptrain import cli
from proptrain.cli.console import results
from proptrain.system.files import whole_file
from reliability.table import read_tried, tables_of, with_tables

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    show: Annotated[Path, typer.Option(help="Folder of JSON lines, as the scripts write them.")],
    page: Annotated[
        Path | None, typer.Option(help="Page to put the tables into, between its two marks.")
    ] = None,
) -> None:
    """Print tables of all faults and bad inputs that were tried, or put them into a page."""
    tables = tables_of(read_tried(show))
    if page is None:
        results.file.write("\n\n".join(table.to_markdown() for table in tables) + "\n")
        return
    content = with_tables(page.read_text(encoding="utf-8"), *tables)
    with whole_file(page, overwrite=True) as temporary:
        temporary.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    cli.main(app, "python -m reliability")
