"""Kernels written out for a number of columns, so that the sums of a row stay in registers.

Matrices are taken 4, 8, 16 or 32 columns at a time, each width with a kernel of its own. Numba
cannot be told to keep an array in registers, but it can be given one variable for each column: the
sources below are templates, and a line that begins with * stands for one such line for each
column. That is worth a factor of two over a loop over the columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

_WIDTHS = (4, 8, 16, 32)
_LINE = 64
"""Bytes of a line of the cache."""


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function, with fused multiply-add, for this process or better for good."""
    return _compile(function, fastmath={"contract"})


def _compiled_exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without fused multiply-add, to round as NumPy does."""
    return _compile(function, fastmath=False)


def _compile(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    try:
        return numba.njit(cache=True, nogil=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder where compiled code can be kept: compile in each process
        return numba.njit(nogil=True, **options)(function)  # type: ignore[no-any-return]


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array, not filled, that begins where a line of the CPU's cache does.

    Sixteen columns in single precision are then one line and not parts of two.
    """
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + _LINE, dtype=np.uint8)
    first = -raw.__array_interface__["data"][0] % _LINE
    return raw[first : first + size].view(dtype).reshape(shape)


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of zeros that begins where a line of the CPU's cache does."""
    zeros = aligned_empty(shape, dtype)
    zeros.fill(0)
    return zeros


def padded_width(n_columns: int) -> int:
    """Return the least sum of the kernels' widths that takes so many columns.

    >>> padded_width(15), padded_width(16), padded_width(37)
    (16, 16, 40)
    """
    return sum(_widths(n_columns))


def padded_to_widths(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the matrix with columns of zeros up to a sum of the kernels' widths."""
    n_columns = matrix.shape[1]
    n_padded = padded_width(n_columns)
    if n_padded == n_columns:
        return np.ascontiguousarray(matrix)
    padded = aligned_zeros((matrix.shape[0], n_padded), matrix.dtype)
    padded[:, :n_columns] = matrix
    return padded


def without_padding(product: NDArray[Any], original: Any) -> NDArray[Any]:
    """Return the product with as many columns as the original matrix has."""
    return np.ascontiguousarray(product[:, : original.shape[1]])


def _widths(n_columns: int) -> list[int]:
    """Return the kernels' widths that make up this many columns, or a few more.

    >>> _widths(64), _widths(15), _widths(37)
    ([32, 32], [16], [32, 8])
    """
    whole, rest = divmod(n_columns, _WIDTHS[-1])
    last = [next(width for width in _WIDTHS if width >= rest)] if rest else []
    return [_WIDTHS[-1]] * whole + last


def kernels_for(name: str, padded: NDArray[Any]) -> list[tuple[Callable[..., Any], np.uint64]]:
    """Return the kernels that take all columns of a padded matrix, and where each begins."""
    widths = _widths(padded.shape[1])
    firsts = [sum(widths[:place]) for place in range(len(widths))]
    # Unsigned: no index counts from the end.
    return [
        (_kernel(name, width), np.uint64(first))
        for width, first in zip(widths, firsts, strict=True)
    ]


# Two things here are for the compiler. Unsigned bounds: else it looks at every entry whether its
# number counts from the end. And all of a row is read before any of it is written: else it must
# fear that what is written is read again, and packs nothing.
_SOURCES = {
    "gather": """
def gather(indptr, indices, data, dense, first, product):
    *c{i} = first + np.uint64({i})
    for row in range(indptr.shape[0] - 1):
        *t{i} = product.dtype.type(0)
        for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            source, value = np.uint64(indices[entry]), data[entry]
            *t{i} += value * dense[source, c{i}]
        *product[row, c{i}] = t{i}
""",
    "mix": """
def mix(indptr, indices, data, state, signal, neighbours, rest, first, product):
    *c{i} = first + np.uint64({i})
    for row in range(indptr.shape[0] - 1):
        *t{i} = product.dtype.type(0)
        for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            source, value = np.uint64(indices[entry]), data[entry]
            *t{i} += value * state[source, c{i}]
        *s{i} = signal[row, c{i}]
        *product[row, c{i}] = mix_two(neighbours, t{i}, rest, s{i})
""",
    "plain": """
def plain(indptr, indices, scaled, start, out, then, loops, neighbours, rest, top, first, product):
    *c{i} = first + np.uint64({i})
    for row in range(indptr.shape[0] - 1):
        own = np.uint64(top + row)
        *t{i} = loops * scaled[own, c{i}]
        for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            source = np.uint64(indices[entry])
            *t{i} += scaled[source, c{i}]
        share, scale = neighbours * out[row], then[row]
        *s{i} = start[row, c{i}]
        *product[row, c{i}] = scale * (share * t{i} + rest * s{i})
""",
    "scatter": """
def scatter(indptr, indices, data, dense, first, product):
    *c{i} = first + np.uint64({i})
    for row in range(indptr.shape[0] - 1):
        *s{i} = dense[row, c{i}]
        for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            target, value = np.uint64(indices[entry]), data[entry]
            *product[target, c{i}] += value * s{i}
""",
    "dense": """
def dense(left, right, first, product):
    *c{i} = first + np.uint64({i})
    for row in range(left.shape[0]):
        *t{i} = product.dtype.type(0)
        for source in range(left.shape[1]):
            value = left[row, source]
            *t{i} += value * right[source, c{i}]
        *product[row, c{i}] = t{i}
""",
    "transposed": """
def transposed(left, right, first, product):
    *c{i} = first + np.uint64({i})
    for row in range(left.shape[0]):
        *s{i} = right[row, c{i}]
        for target in range(left.shape[1]):
            value = left[row, target]
            *product[target, c{i}] += value * s{i}
""",
}


@cache
def _kernel(name: str, width: int) -> Callable[..., Any]:
    """Compile one of the sources for a number of columns."""
    lines = []
    for line in _SOURCES[name].replace(f"def {name}", f"def {name}_{width}").splitlines():
        repeated = line.lstrip().startswith("*")
        one = line.replace("*", "", 1) if repeated else line
        lines += [one.replace("{i}", str(i)) for i in range(width)] if repeated else [one]
    namespace: dict[str, Any] = {"__name__": __name__, "np": np, "mix_two": _mix_two}
    # Under this file's name, so that Numba keeps the compiled code as long as it is unchanged.
    exec(compile("\n".join(lines), __file__, "exec"), namespace)
    return _packing(compiled(namespace[f"{name}_{width}"]))


def _packing(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Have a kernel's variables packed into vector registers when it is compiled, at first call.

    Numba leaves that off by default, and for the code of others it shall stay as it was.
    """

    @wraps(kernel)
    def call(*arguments: Any) -> None:
        with _PACKING:
            kernel(*arguments)

    return call


class _Packing:
    """Numba's switch for it, on as long as any thread is in one of our kernels."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._n_inside = 0
        self._before = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._before = numba.config.SLP_VECTORIZE  # type: ignore[attr-defined]
                numba.config.SLP_VECTORIZE = 1  # type: ignore[attr-defined]
            self._n_inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                numba.config.SLP_VECTORIZE = self._before  # type: ignore[attr-defined]


_PACKING = _Packing()


@_compiled_exactly
def _mix_two(weight: float, value: float, other_weight: float, other: float) -> float:
    return weight * value + other_weight * other
