"""A table of text cells, and how numbers are written into it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from proptrain.text import visible

MISSING = "–"
NO_RUNS = "no runs yet"

_MEANS_SOMETHING = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)")
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Table:
    """A titled table; cells are plain text, escaped by whoever shows them."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    n_labels: int = 1
    """Columns at the left that name a row; of two, the first names a group of rows."""

    @property
    def groups(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """The rows, those with the same name of a group together."""
        if self.n_labels != 2:
            return (self.rows,)
        return tuple(tuple(rows) for _, rows in groupby(self.rows, key=lambda row: row[0]))

    def to_markdown(self) -> str:
        """Return the table as Markdown, without the title.

        >>> table = Table("Sizes", ("graph", "nodes"), (("cora", "2,708"),), ("Ours.",))
        >>> print(table.to_markdown())
        | graph | nodes |
        |:---|---:|
        | cora | 2,708 |
        <BLANKLINE>
        Ours.
        """
        rule = [":---"] * self.n_labels + ["---:"] * (len(self.header) - self.n_labels)
        lines = [_line(map(markdown, self.header)), f"|{'|'.join(rule)}|"]
        for group in self.groups:
            lines += [_line(map(markdown, row)) for row in self._named_once(group)]
        return "\n".join(lines + [f"\n{markdown(note)}" for note in self.notes])

    def _named_once(self, group: tuple[tuple[str, ...], ...]) -> list[tuple[str, ...]]:
        """Return the rows of a group with its name on the first row alone."""
        if self.n_labels != 2:
            return list(group)
        first, *rest = group
        return [first, *(("", *row[1:]) for row in rest)]


def markdown(text: str) -> str:
    r"""Return a text so that Markdown shows its very letters, on one line.

    >>> markdown("cora_ml | <b> *bold* _slanted_")
    'cora_ml \\| &lt;b&gt; \\*bold\\* \\_slanted\\_'
    """
    text = visible(" ".join(text.split()))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MEANS_SOMETHING.sub(lambda found: "\\" + found[0], text)


def plus_minus(mean: float, half_width: float, digits: int = 2) -> str:
    """Write a mean and half the width of its interval, if it has one.

    >>> plus_minus(75.983, 0.241), plus_minus(75.983, math.nan)
    ('75.98 ± 0.24', '75.98')
    """
    told = f"{mean:.{digits}f}"
    return told if math.isnan(half_width) else f"{told} ± {half_width:.{digits}f}"


def signed(number: float, digits: int = 2) -> str:
    """Write a number with its sign, and none for zero.

    >>> signed(0.384), signed(-1), signed(-0.001)
    ('+0.38', '−1.00', '0.00')
    """
    told = f"{abs(number):.{digits}f}"
    if not float(told):
        return told
    return ("+" if number > 0 else "−") + told


def counted(number: int, thing: str) -> str:
    """Write a number of things.

    >>> counted(1, "pair"), counted(1200, "run")
    ('1 pair', '1,200 runs')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Join names as one would in a sentence.

    >>> listed(["PTA", "PTS", "APPNP"]), listed(["PTA"])
    ('PTA, PTS and APPNP', 'PTA')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def scientific(number: float) -> str:
    """Write a small positive number with three digits.

    >>> scientific(0.0109), scientific(5.56e-4), scientific(0.0), scientific(math.nan)
    ('0.0109', '5.56 × 10⁻⁴', '0', '–')
    """
    if math.isnan(number):
        return MISSING
    if number == 0 or number >= 0.001:
        return f"{number:.3g}"
    digits, exponent = f"{number:.2e}".split("e")
    return f"{digits} × 10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def _line(cells: map[str]) -> str:
    return f"| {' | '.join(cells)} |"
