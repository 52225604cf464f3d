"""Large arrays in the memory of others of about their size that nobody has any more.

An epoch makes the same arrays as the one before. The C library hands those of more than 32 MB back
to the system as soon as they are gone, which then has to clear and map their memory anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGE = 1 << 20
"""Bytes from which on memory is kept; the C library does well with what is smaller."""


class KeptMemory:
    """Memory of arrays from `empty_bytes` that are gone, for those that are made next.

    >>> kept = KeptMemory()
    >>> with kept.in_use():
    ...     first = empty_bytes(2_000_000)
    ...     address, part = first.ctypes.data, first[:5]
    ...     del first
    ...     is_same = [empty_bytes(1_500_000).ctypes.data == address]
    ...     del part
    ...     is_same.append(empty_bytes(1_800_000).ctypes.data == address)
    >>> is_same
    [False, True]
    """

    def __init__(self) -> None:
        self._free: list[NDArray[np.uint8]] = []

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Have `empty_bytes` take from it, in this thread."""
        before = _IN_USE.set(self)
        try:
            yield
        finally:
            _IN_USE.reset(before)

    def lend(self, size: int) -> NDArray[np.uint8]:
        """Return so many bytes, which are free again when no array or tensor has any of them."""
        # Of about the size: others will ask for what is much larger.
        fitting = [place for place, one in enumerate(self._free) if size <= one.size <= 2 * size]
        best = min(fitting, key=lambda place: self._free[place].size, default=None)
        memory = np.empty(size, np.uint8) if best is None else self._free.pop(best)
        return np.asarray(_Loan(memory, self._free))[:size]


_IN_USE: ContextVar[KeptMemory | None] = ContextVar("memory in use", default=None)


def empty_bytes(size: int) -> NDArray[np.uint8]:
    """Return so many bytes, not filled; large ones from what is kept, where anything is."""
    kept = _IN_USE.get()
    return np.empty(size, np.uint8) if kept is None or size < _LARGE else kept.lend(size)


class _Loan:
    """What all arrays in some memory hang on, however they were cut out: it goes with the last."""

    def __init__(self, memory: NDArray[np.uint8], free: list[NDArray[np.uint8]]) -> None:
        self._memory, self._free = memory, free
        self.__array_interface__: dict[str, Any] = memory.__array_interface__

    def __del__(self) -> None:
        self._free.append(self._memory)
