"""Tables of predictions as CSV: any text comes back as it was, and a spreadsheet may open them.

A spreadsheet computes a cell that begins with =, +, - or @ as a formula, some also one with the
wide forms of these that East Asian keyboards have. Ids and classes, and the columns of a node
table, come from whoever made the data, and may begin so. CSV has no way to say that a cell is text,
so there are two tables to choose from: one that says what is, for programs; and one with an
apostrophe before such cells, for spreadsheets. Take one apostrophe away where such a cell begins
with some, and it is as it was.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proptrain.cli.console import say

if TYPE_CHECKING:
    import pandas as pd

_BEGINS = r"'*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]"
_FORMULA = rf"^{_BEGINS}"
_MARK = re.compile(rf"^'(?={_BEGINS})")
_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"

SpreadsheetOption = Annotated[
    bool,
    typer.Option(
        "--for-spreadsheet",
        help="In CSV, put an apostrophe before text that a spreadsheet would take for a formula.",
    ),
]


def write_csv(table: pd.DataFrame, target: Any, *, header: bool, for_spreadsheet: bool) -> int:
    """Write a table; returns how many of its cells a spreadsheet would take for formulas."""
    table, n_formulas = table.copy(deep=False), 0
    has_returns = any("\r" in str(name) for name in table.columns)
    for name in table.columns:
        if table[name].dtype.kind in "biuf":
            continue
        text = table[name].map(lambda cell: cell if isinstance(cell, str) else "")
        is_formula = text.str.contains(_FORMULA) & ~text.str.fullmatch(_NUMBER)
        has_returns = has_returns or bool(text.str.contains("\r").any())
        n_formulas += int(is_formula.sum())
        if for_spreadsheet:
            table[name] = table[name].astype(object).mask(is_formula, "'" + text)
    if header:
        n_formulas += sum(is_formula_text(name) for name in table.columns)
        if for_spreadsheet:
            table.columns = [f"'{name}" if is_formula_text(name) else name for name in table]
    # Python's writer leaves a carriage return bare, and readers take that for the end of a row.
    quoting: Any = csv.QUOTE_NONNUMERIC if has_returns else csv.QUOTE_MINIMAL
    table.to_csv(target, index=False, header=header, quoting=quoting)
    return 0 if for_spreadsheet else n_formulas


def is_formula_text(cell: object) -> bool:
    """Tell whether a spreadsheet would take a cell, or the name of a column, for a formula."""
    is_text = isinstance(cell, str)
    return is_text and bool(re.match(_FORMULA, str(cell)) and not re.fullmatch(_NUMBER, str(cell)))


def without_mark(text: str) -> str:
    """Return a cell of a table for spreadsheets as it was.

    >>> without_mark("'=1+1"), without_mark("''=1+1"), without_mark("'tis"), without_mark("-5")
    ('=1+1', "'=1+1", "'tis", '-5')
    """
    return _MARK.sub("", text)


def tell_formulas(n_formulas: int) -> None:
    """Say so if there are cells that a spreadsheet would compute."""
    if n_formulas:
        say(
            f"warning: {n_formulas:,} cells begin with =, +, - or @: a spreadsheet would take them "
            "for formulas. Before you open the table in one, write it with --for-spreadsheet."
        )
