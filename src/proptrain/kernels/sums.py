"""Sums over many rows, added up in the tree that torch uses: long sums lose little by rounding.

Rows are added in groups of some, those sums again in groups of as many, and so on; the authors'
numbers hang on this order (see docs/deviations.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.kernels.compiling import compiled

_LEVELS = 4


def rows_of_a_sum(n_rows: int) -> int:
    """Return how many rows one group has.

    >>> rows_of_a_sum(100), rows_of_a_sum(1_000_000)
    (16, 32)
    """
    return 1 << max(4, max(n_rows - 1, 0).bit_length() // _LEVELS)


def sum_of_sums(sums: NDArray[Any], step: int, n_rows: int) -> NDArray[Any]:
    """Return the sum (c,) of all rows, from the sums (m, c) of each ``step`` of ``n_rows`` rows.

    >>> sum_of_sums(np.array([[3.0], [4.0]]), 16, 20)
    array([7.])
    """
    levels = np.zeros((_LEVELS, sums.shape[1]), dtype=sums.dtype)
    _add_up(sums, step, n_rows // step, levels)
    return np.asarray(levels[0])


# In loops: Numba takes seconds to compile what NumPy writes as one operation.
@compiled
def _add_up(sums: NDArray[Any], step: int, n_whole: int, levels: NDArray[Any]) -> None:
    for group in range(n_whole):
        _add(levels[0], sums[group])
        number = group + 1
        for level in range(1, levels.shape[0]):
            _add(levels[level], levels[level - 1])
            for i in range(levels.shape[1]):
                levels[level - 1, i] = 0
            if number % step != 0:
                break
            number //= step
    if n_whole < sums.shape[0]:
        _add(levels[0], sums[n_whole])
    for level in range(1, levels.shape[0]):
        _add(levels[0], levels[level])


@compiled
def _add(total: NDArray[Any], more: NDArray[Any]) -> None:
    for i in range(total.shape[0]):
        total[i] += more[i]
