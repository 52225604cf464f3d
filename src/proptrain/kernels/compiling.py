"""Numba's compiler, and the folder where compiled code is kept for the next process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, types
from numba.extending import lower_builtin, type_callable

from proptrain.kernels.trusted import is_trusted, warn_of

_NumbasFiles: Any = caching.IndexDataCacheFile  # has no types
_OWN = sha256(Path(__file__).read_bytes()).hexdigest()
"""Of this file, whose options and `select` are in all that is compiled."""
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
"""Other threads run beside; and a division by zero is inf, for which no loop need look out."""


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function, with fused multiply-add, for this process or better for good."""
    return _compile(function, fastmath={"contract"})


def compiled_exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without fused multiply-add, to round as NumPy does."""
    return _compile(function, fastmath=False)


def _compile(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    here_alone: Any = numba.njit(**_OPTIONS, **options)
    try:
        dispatcher = numba.njit(cache=True, **_OPTIONS, **options)(function)
    except RuntimeError:  # no folder where compiled code can be kept: compile in each process
        return here_alone(function)  # type: ignore[no-any-return]
    if hasattr(dispatcher, "_cache"):  # there is none with NUMBA_DISABLE_JIT=1
        folder = Path(dispatcher._cache.cache_path)
        for place in (folder, folder.parent):  # who may write there can replace the folder
            if not is_trusted(place):
                warn_of(place)
                return here_alone(function)  # type: ignore[no-any-return]
        _keep_safely(dispatcher._cache)
    return dispatcher  # type: ignore[no-any-return]


def select(is_first: bool, first: Any, second: Any) -> Any:
    """Return the first or the second of two numbers of one type.

    Compiled it is one instruction. An ``if`` for each of 64 columns, with all the ways between
    them, takes far longer to compile.

    >>> select(False, 1.0, 2.0)
    2.0
    """
    return first if is_first else second


@type_callable(select)
def _type_of_select(_: Any) -> Any:
    return lambda is_first, first, second: first if first == second else None  # noqa: ARG005


@lower_builtin(select, types.Boolean, types.Float, types.Float)  # type: ignore[no-untyped-call, untyped-decorator]
def _select(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
    return builder.select(*arguments)


class _FileForEach(_NumbasFiles):  # type: ignore[misc]
    """Keeps what a function was compiled to for one kind of arguments in a file of its own.

    Numba numbers these files in an index. Two processes that compile for two kinds of arguments at
    once can take the same number, and from then on all get code for the other kind: sums of single
    numbers in double precision, or arrays read as what they are not. Here nothing is shared, and a
    file takes its name as a whole, and the place of what was compiled from other source.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep compiled code."""
        self._save_data(self._name_of(key), (self._stamp_of(key), data))

    def load(self, key: Any) -> Any:
        """Return what was kept, or None; what others may have written is not unpickled."""
        file = Path(self._data_path(self._name_of(key)))
        if not is_trusted(file):
            warn_of(file)
            return None
        try:
            stamp, data = self._load_data(file.name)
        except FileNotFoundError:
            return None
        return data if stamp == self._stamp_of(key) else None

    def flush(self) -> None:
        """Leave all: what is out of date or damaged is replaced when it has been compiled anew."""

    def _stamp_of(self, key: Any) -> tuple[Any, ...]:
        _, _, code = key
        return self._version, self._source_stamp, _OWN, code

    def _name_of(self, key: Any) -> str:
        arguments, machine, _ = key
        number = int(sha256(repr((arguments, machine)).encode()).hexdigest()[:16], 16)
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
