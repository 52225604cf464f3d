"""Kernels written out for a number of columns, so that the sums of a row stay in registers.

Matrices are taken up to 64 columns at a time, each width with a kernel of its own. Numba cannot be
told to keep an array in registers, but it can be given one variable for each column: the sources
below are templates, and a line that begins with * stands for one such line for each column (with +
for each that is no padding). That is worth a factor of two over a loop over the columns.

Matrices whose rows are looked up here and there are *panels*: of one kernel's width, rows side by
side. Part of the columns of a wider matrix would be spread over memory so evenly that half of the
cache went unused, and took up to twice as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from threading import Lock
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from proptrain.kernels.compiling import compiled, compiled_exactly, select
from proptrain.kernels.keeping import empty_bytes

WIDTHS = (4, 8, 16, 32, 48, 64)
WIDEST = WIDTHS[-1]
_LINE = 64
"""Bytes of a line of the cache."""


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array, not filled, that begins where a line of the CPU's cache does.

    Sixteen columns in single precision are then one line and not parts of two.
    """
    size = math.prod(shape) * dtype.itemsize
    raw = empty_bytes(size + _LINE)
    first = -raw.__array_interface__["data"][0] % _LINE
    return raw[first : first + size].view(dtype).reshape(shape)


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of zeros that begins where a line of the CPU's cache does."""
    zeros = aligned_empty(shape, dtype)
    zeros.fill(0)
    return zeros


def padded_width(n_columns: int) -> int:
    """Return the least sum of the kernels' widths that takes so many columns.

    >>> padded_width(15), padded_width(16), padded_width(100)
    (16, 16, 112)
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
    n_columns = original.shape[1]
    if product.shape[1] == n_columns:
        return np.ascontiguousarray(product)
    narrow = aligned_empty((product.shape[0], n_columns), product.dtype)
    narrow[:] = product[:, :n_columns]
    return narrow


@dataclass(frozen=True)
class Columns:
    """Some columns of a padded matrix, as many as a kernel takes."""

    first: np.uint64
    """Unsigned, for the kernels: no index counts from the end."""
    width: int

    def panel_of(self, padded: NDArray[Any]) -> NDArray[Any]:
        """Return them as a matrix of their own; the matrix itself, if they are all it has."""
        if padded.shape[1] == self.width:
            return padded
        panel = aligned_empty((padded.shape[0], self.width), padded.dtype)
        panel[:] = padded[:, int(self.first) :][:, : self.width]
        return panel


def columns_of(padded: NDArray[Any], widest: int = WIDEST) -> list[Columns]:
    """Cut the columns of a padded matrix into those of one kernel each."""
    widths = _widths(padded.shape[1], widest)
    return [Columns(np.uint64(sum(widths[:place])), width) for place, width in enumerate(widths)]


def _widths(n_columns: int, widest: int = WIDEST) -> list[int]:
    """Return the kernels' widths that make up this many columns, or a few more.

    >>> _widths(64), _widths(15), _widths(100), _widths(64, widest=32)
    ([64], [16], [64, 48], [32, 32])
    """
    whole, rest = divmod(n_columns, widest)
    last = [next(width for width in WIDTHS if width >= rest)] if rest else []
    return [widest] * whole + last


# Matrices with a `first` column are read or written row after row; the others are panels. Two
# things are for the compiler. Unsigned bounds: else it looks at every entry whether its number
# counts from the end. And all of a row is read before any of it is written: else it must fear that
# what is written is read again, and packs nothing.
_SOURCES = {
    "gather": """
def gather(indptr, indices, data, dense, first, product):
    *c{i} = first + np.uint64({i})
    for row in range(indptr.shape[0] - 1):
        *t{i} = product.dtype.type(0)
        for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            source, value = np.uint64(indices[entry]), data[entry]
            *t{i} += value * dense[source, {i}]
        *product[row, c{i}] = t{i}
""",
    "gather_active": """
def gather_active(indptr, indices, data, dense, first, active, bias):
    zero = active.dtype.type(0)
    *c{i} = first + np.uint64({i})
    for row in range(indptr.shape[0] - 1):
        *t{i} = zero
        for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            source, value = np.uint64(indices[entry]), data[entry]
            *t{i} += value * dense[source, {i}]
        *t{i} += bias[c{i}]
        *active[row, c{i}] = max(t{i}, zero)
""",
    "gather_some": """
def gather_some(indptr, indices, data, dense, first, active, bias, draws, threshold, scale):
    zero = active.dtype.type(0)
    *c{i} = first + np.uint64({i})
    for row in range(indptr.shape[0] - 1):
        *t{i} = zero
        for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            source, value = np.uint64(indices[entry]), data[entry]
            *t{i} += value * dense[source, {i}]
        *t{i} += bias[c{i}]
        *t{i} = max(t{i}, zero) * scale
        *active[row, c{i}] = select(draws[row, c{i}] >= threshold, t{i}, zero)
""",
    "mix": """
def mix(indptr, indices, data, state, signal, neighbours, rest, product):
    for row in range(indptr.shape[0] - 1):
        *t{i} = product.dtype.type(0)
        for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            source, value = np.uint64(indices[entry]), data[entry]
            *t{i} += value * state[source, {i}]
        *s{i} = signal[row, {i}]
        *product[row, {i}] = mix_two(neighbours, t{i}, rest, s{i})
""",
    "plain": """
def plain(indptr, indices, scaled, start, out, then, loops, neighbours, rest, top, product):
    for row in range(indptr.shape[0] - 1):
        own = np.uint64(top + row)
        *t{i} = loops * scaled[own, {i}]
        for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            source = np.uint64(indices[entry])
            *t{i} += scaled[source, {i}]
        share, scale = neighbours * out[row], then[row]
        +s{i} = start[row, {i}]
        +product[row, {i}] = scale * (share * t{i} + rest * s{i})
""",
    "weighted": """
def weighted(
    indptr, indices, data, scaled, start, out, then, loops, neighbours, rest, top, product
):
    for row in range(indptr.shape[0] - 1):
        own = np.uint64(top + row)
        *t{i} = loops * scaled[own, {i}]
        for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            source, value = np.uint64(indices[entry]), data[entry]
            *t{i} += value * scaled[source, {i}]
        share, scale = neighbours * out[row], then[row]
        +s{i} = start[row, {i}]
        +product[row, {i}] = scale * (share * t{i} + rest * s{i})
""",
    "scatter": """
def scatter(indptr, indices, data, dense, first, product):
    *c{i} = first + np.uint64({i})
    for row in range(indptr.shape[0] - 1):
        *s{i} = dense[row, c{i}]
        for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            target, value = np.uint64(indices[entry]), data[entry]
            *product[target, {i}] += value * s{i}
""",
    "scatter_active": """
def scatter_active(indptr, indices, data, dense, first, product, active, scale, step, sums):
    zero = product.dtype.type(0)
    *c{i} = first + np.uint64({i})
    *b{i} = zero
    for row in range(indptr.shape[0] - 1):
        if row > 0 and row % step == 0:
            *sums[row // step - 1, c{i}] = b{i}
            *b{i} = zero
        *s{i} = dense[row, c{i}] * scale
        *a{i} = active[row, c{i}]
        *s{i} = select(a{i} > zero, s{i}, zero)
        *b{i} += s{i}
        for entry in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            target, value = np.uint64(indices[entry]), data[entry]
            *product[target, {i}] += value * s{i}
    *sums[sums.shape[0] - 1, c{i}] = b{i}
""",
    "collect": """
def collect(
    dense, active, first, scale, step, begins, ends, targets, starts, sources, data,
    passed, product, sums,
):
    zero, n_rows, size = passed.dtype.type(0), np.uint64(dense.shape[0]), np.uint64(passed.shape[0])
    *c{i} = first + np.uint64({i})
    for part in range(np.uint64(begins.shape[0])):
        top = part * size
        for low in range(top, min(top + size, n_rows), step):
            *b{i} = zero
            for row in range(low, min(low + step, n_rows)):
                *s{i} = dense[row, c{i}] * scale
                *a{i} = active[row, c{i}]
                *s{i} = select(a{i} > zero, s{i}, zero)
                *b{i} += s{i}
                *passed[row - top, {i}] = s{i}
            *sums[low // step, c{i}] = b{i}
        for place in range(np.uint64(begins[part]), np.uint64(ends[part])):
            target = np.uint64(targets[place])
            *t{i} = product[target, {i}]
            for entry in range(np.uint64(starts[place]), np.uint64(starts[place + np.uint64(1)])):
                source, value = np.uint64(sources[entry]), data[entry]
                *t{i} += value * passed[source, {i}]
            *product[target, {i}] = t{i}
""",
    "dense": """
def dense(left, right, first, product):
    *c{i} = first + np.uint64({i})
    for row in range(left.shape[0]):
        *t{i} = product.dtype.type(0)
        for source in range(left.shape[1]):
            value = left[row, source]
            *t{i} += value * right[source, {i}]
        *product[row, c{i}] = t{i}
""",
    "dense_four": """
def dense_four(left, right, first, product):
    *c{i} = first + np.uint64({i})
    zero, last = product.dtype.type(0), np.uint64(left.shape[0] - 1)
    for row in range(np.uint64(0), last + np.uint64(1), np.uint64(4)):
        # Beyond the end, the last row again.
        second, third = min(row + np.uint64(1), last), min(row + np.uint64(2), last)
        fourth = min(row + np.uint64(3), last)
        *t{i} = zero
        *u{i} = zero
        *v{i} = zero
        *w{i} = zero
        for source in range(left.shape[1]):
            a, b = left[row, source], left[second, source]
            c, d = left[third, source], left[fourth, source]
            *t{i} += a * right[source, {i}]
            *u{i} += b * right[source, {i}]
            *v{i} += c * right[source, {i}]
            *w{i} += d * right[source, {i}]
        *product[row, c{i}] = t{i}
        *product[second, c{i}] = u{i}
        *product[third, c{i}] = v{i}
        *product[fourth, c{i}] = w{i}
""",
    "transposed": """
def transposed(left, right, first, product):
    *c{i} = first + np.uint64({i})
    for row in range(left.shape[0]):
        *s{i} = right[row, c{i}]
        for target in range(left.shape[1]):
            value = left[row, target]
            *product[target, {i}] += value * s{i}
""",
}


@cache
def kernel(name: str, width: int, n_columns: int | None = None) -> Callable[..., Any]:
    """Compile one of the sources for a width, of which ``n_columns`` are no padding."""
    repeats = {"*": width, "+": width if n_columns is None else n_columns}
    full_name = f"{name}_{width}" + (f"_{n_columns}" if n_columns else "")
    lines = []
    for line in _SOURCES[name].replace(f"def {name}", f"def {full_name}").splitlines():
        mark = line.lstrip()[:1]
        one = line.replace(mark, "", 1) if mark in repeats else line
        lines += [one.replace("{i}", str(i)) for i in range(repeats.get(mark, 1))]
    namespace: dict[str, Any] = {"__name__": __name__, "np": np}
    namespace |= {"mix_two": _mix_two, "select": select}
    # Under this file's name, so that compiled code is kept as long as this file is unchanged.
    exec(compile("\n".join(lines), __file__, "exec"), namespace)
    return _packing(compiled(namespace[full_name]))


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


@compiled_exactly
def _mix_two(weight: float, value: float, other_weight: float, other: float) -> float:
    return weight * value + other_weight * other
