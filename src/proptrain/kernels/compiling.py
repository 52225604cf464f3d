"""Numba's compiler, and the folder where compiled code is kept for the next process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any

import numba
from numba.core import caching, types
from numba.extending import intrinsic

_NumbasFiles: Any = caching.IndexDataCacheFile  # has no types
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
"""Other threads run beside; and a division by zero is inf, for which no loop need look out."""


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function, with fused multiply-add, for this process or better for good."""
    return _compile(function, fastmath={"contract"})


def compiled_exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without fused multiply-add, to round as NumPy does."""
    return _compile(function, fastmath=False)


def _compile(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    try:
        dispatcher = numba.njit(cache=True, **_OPTIONS, **options)(function)
    except RuntimeError:  # no folder where compiled code can be kept: compile in each process
        return numba.njit(**_OPTIONS, **options)(function)  # type: ignore[no-any-return]
    if hasattr(dispatcher, "_cache"):  # there is none with NUMBA_DISABLE_JIT=1
        _keep_safely(dispatcher._cache)
    return dispatcher  # type: ignore[no-any-return]


@intrinsic
def select(_: Any, is_first: Any, first: Any, second: Any) -> Any:  # noqa: ARG001
    """Return the first or the second of two numbers of one type, in compiled code.

    An ``if`` for each of 64 columns, with all the ways between them, takes many times as long to
    compile.
    """

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return (first(types.boolean, first, first) if first == second else None), generate


class _FileForEach(_NumbasFiles):  # type: ignore[misc]
    """Keeps what a function was compiled to for one kind of arguments in a file of its own.

    Numba numbers these files in an index. Two processes that compile for two kinds of arguments at
    once can take the same number, and from then on all get code for the other kind: sums of single
    numbers in double precision, or arrays read as what they are not. Here nothing is shared, and a
    file takes its name as a whole.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep compiled code."""
        self._save_data(self._name_of(key), (self._of_now(), data))

    def load(self, key: Any) -> Any:
        """Return what was kept, or None."""
        try:
            of, data = self._load_data(self._name_of(key))
        except FileNotFoundError:
            return None
        return data if of == self._of_now() else None

    def flush(self) -> None:
        """Leave all: what is out of date or damaged is replaced when it has been compiled anew."""

    def _of_now(self) -> tuple[Any, Any]:
        return self._version, self._source_stamp

    def _name_of(self, key: Any) -> str:
        number = int(sha256(repr(key).encode()).hexdigest()[:16], 16)
        return self._data_name(number)  # type: ignore[no-any-return]


def _keep_safely(cache: Any) -> None:
    """Have what cannot be kept, on a full disk, or be read, damaged, be compiled instead.

    Numba has no switch for it: it would raise, though code can be compiled at any time.
    """
    save, load, kept = cache.save_overload, cache.load_overload, cache._cache_file
    cache._cache_file = _FileForEach(
        cache._cache_path, cache._impl.filename_base, kept._source_stamp
    )

    def save_if_possible(*compiled: Any) -> None:
        with suppress(OSError):
            save(*compiled)

    def load_if_possible(*wanted: Any) -> Any:
        try:
            return load(*wanted)
        except Exception:  # whatever reading something else raises
            return None

    cache.save_overload, cache.load_overload = save_if_possible, load_if_possible
