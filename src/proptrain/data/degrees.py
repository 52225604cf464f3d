"""The degrees of nodes, from the rows of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.disk import cut_rows

_PART_ENTRIES = 1 << 20
"""Entries that are added up at a time."""


def degrees_of(indptr: NDArray[Any], weights: NDArray[Any] | None) -> NDArray[np.float64]:
    """Return the sum of each row's weights (n,), or how many neighbours it has.

    All engines take it from here: another order of the sum would round otherwise.

    >>> degrees_of(np.array([0, 2, 2, 3]), np.array([0.5, 1.0, 4.0]))
    array([1.5, 0. , 4. ])
    """
    if weights is None:
        return np.diff(indptr).astype(np.float64)
    sums = np.zeros(len(indptr) - 1)
    for rows in cut_rows(indptr, _PART_ENTRIES):
        starts = indptr[rows.start : rows.stop + 1]
        numbers = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        own = weights[starts[0] : starts[-1]].astype(np.float64)
        sums[rows] = np.bincount(numbers, own, minlength=len(starts) - 1)
    return sums
