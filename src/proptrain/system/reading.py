"""Files of strangers as bytes and as JSON: no larger than memory, no deeper than ours ever are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import IO, Any

from proptrain.errors import NotEnoughMemoryError
from proptrain.system.memory import available_memory, in_words

DEEPEST = 100
"""Brackets within brackets of the deepest JSON that is read; ours has less than ten."""
_SMALL = 1 << 24
"""Bytes for which nobody asks how much memory there is."""
_TIMES = 2
"""A file is in memory as its bytes, and once more as what is made of them."""


def read_whole(path: Path) -> bytes:
    """Return the content of an ordinary file, if there is memory for it."""
    with path.open("rb") as file:
        return read_rest(file, path)


def read_rest(file: IO[bytes], path: Path) -> bytes:
    """Return the content of an open file from where it is, if there is memory for all of it."""
    needed = _TIMES * os.fstat(file.fileno()).st_size
    room = available_memory() if needed > _TIMES * _SMALL else None
    if room is not None and needed > room:
        raise NotEnoughMemoryError(
            f"{path} must fit into memory, of which {in_words(room)} are available, but takes at "
            f"least {in_words(needed)} there, and is not read. It is damaged, was made to fill the "
            "memory, or needs a machine that has more."
        )
    return file.read()


def parse_json(content: bytes) -> Any:
    """Return what JSON holds; raises ValueError for what is none, and for what is too deep.

    What Python's stack has just allowed to be read would end whatever walks through it later.

    >>> parse_json(b'{"a": [1]}')
    {'a': [1]}
    >>> parse_json(b"[" * 101 + b"]" * 101)
    Traceback (most recent call last):
    ...
    ValueError: brackets must be at most 100 deep
    """
    try:
        told = json.loads(content)
    except RecursionError as error:
        raise _too_deep() from error
    if content.count(b"[") + content.count(b"{") > DEEPEST and _is_deep(told):
        raise _too_deep()
    return told


def _is_deep(told: Any) -> bool:
    level = [told]
    for _ in range(DEEPEST):  # not by recursion, which is what must not be needed
        inner = chain.from_iterable(map(_within, level))
        level = [one for one in inner if isinstance(one, dict | list)]
    return bool(level)


def _within(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> ValueError:
    return ValueError(f"brackets must be at most {DEEPEST} deep")
