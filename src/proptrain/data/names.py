"""Ids of nodes and names of classes: how long one may be."""

from __future__ import annotations

from collections.abc import Iterable

from proptrain.errors import InvalidInputError

LONGEST = 200
"""Letters of an id or a class name (bytes in an edge list): all of them take as much memory as
the longest, since NumPy keeps text in cells of one size."""
_SHOWN = 20


def check_lengths(
    names: Iterable[object], what: str, error: type[InvalidInputError] = InvalidInputError
) -> None:
    """Raise for a text that is longer than `LONGEST`; ``what`` says what the names are.

    >>> check_lengths(["a", 7, None], "Node ids")
    """
    for number, name in enumerate(names, start=1):
        if isinstance(name, str) and len(name) > LONGEST:
            raise error(
                f"{what} must be of at most {LONGEST} letters, but number {number:,} has "
                f"{len(name):,}: {name[:_SHOWN]!r}… Shorten it. In a CSV file, look for a quote "
                "that is opened there and never closed."
            )
