"""Ids of nodes and names of classes: how long one may be, and that it can be written."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.errors import InvalidInputError

LONGEST = 200
"""Letters of an id or a class name (bytes in an edge list): all of them take as much memory as
the longest, since NumPy keeps text in cells of one size."""
_LARGEST = 10**LONGEST
_SHOWN = 20


def check_lengths(
    names: Iterable[object], what: str, error: type[InvalidInputError] = InvalidInputError
) -> None:
    """Raise for a text or number that is longer than `LONGEST`; ``what`` says what the names are.

    >>> check_lengths(["a", 7, None], "Node ids")
    """
    for number, name in enumerate(names, start=1):
        if isinstance(name, str) and len(name) > LONGEST:
            raise error(
                f"{what} must be of at most {LONGEST} letters, but number {number:,} has "
                f"{len(name):,}: {name[:_SHOWN]!r}… Shorten it. In a CSV file, look for a quote "
                "that is opened there and never closed."
            )
        if isinstance(name, int) and abs(name) >= _LARGEST:  # Python may not even write it
            raise error(
                f"{what} must be of at most {LONGEST} letters, but number {number:,} is a whole "
                "number of more digits. Give it a name."
            )


def has_letters(values: NDArray[Any]) -> bool:
    """Tell whether NumPy text is text: in a file any number may stand where a letter should.

    >>> has_letters(np.array(["ab"])), has_letters(np.array([2**31], np.uint32).view("<U1"))
    (True, False)
    """
    numbers = np.frombuffer(values.tobytes(), dtype=f"{values.dtype.byteorder}u4")
    return bool(numbers.max(initial=0) <= sys.maxunicode)


def check_text(
    names: Iterable[object], what: str, error: type[InvalidInputError] = InvalidInputError
) -> None:
    r"""Raise for a text that no file can hold: JSON and Python know halves of letters.

    >>> check_text(["caf\u00e9", 7], "Node ids")
    """
    for number, name in enumerate(names, start=1):
        if isinstance(name, str) and not _is_text(name):
            raise error(
                f"{what} must be text that UTF-8 can hold, but number {number:,} has half of a "
                f"letter: {name[:_SHOWN]!r}. Give it another name."
            )


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
