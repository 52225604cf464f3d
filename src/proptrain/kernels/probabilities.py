"""Scores to probabilities, and what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.kernels.columns import aligned_empty
from proptrain.kernels.compiling import compiled


def log_softmax(scores: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return log softmax and softmax of each row of the scores (n, C).

    >>> log_f, f = log_softmax(np.array([[0.0, np.log(3.0)]]))
    >>> f
    array([[0.25, 0.75]])
    """
    scores = np.ascontiguousarray(scores)
    log_f, f = (aligned_empty(scores.shape, scores.dtype) for _ in range(2))
    _log_softmax(scores, log_f, f)
    return log_f, f


def agreement(f: NDArray[Any], codes: NDArray[np.int64]) -> float:
    """Return the share of rows of f (n, C) whose largest number is that of the code (n,).

    Rows with the code -1 do not count.

    >>> agreement(np.array([[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]]), np.array([1, 1, -1]))
    0.5
    """
    n_alike, n_counted = count_alike(f, codes)
    return float(n_alike / n_counted) if n_counted else float("nan")


def count_alike(f: NDArray[Any], codes: NDArray[np.int64]) -> tuple[int, int]:
    """Return the number of these rows, and of all that count.

    >>> count_alike(np.array([[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]]), np.array([1, 1, -1]))
    (1, 2)
    """
    n_alike, n_counted = _count_alike(f, codes)
    return int(n_alike), int(n_counted)


@compiled
def _log_softmax(scores: NDArray[Any], log_f: NDArray[Any], f: NDArray[Any]) -> None:
    for row in range(scores.shape[0]):
        top = scores[row, 0]
        for i in range(1, scores.shape[1]):
            top = max(top, scores[row, i])
        total = top - top
        for i in range(scores.shape[1]):
            log_f[row, i] = scores[row, i] - top
            f[row, i] = np.exp(log_f[row, i])
            total += f[row, i]
        log_total = np.log(total)
        for i in range(scores.shape[1]):
            log_f[row, i] -= log_total
            f[row, i] /= total


@compiled
def _count_alike(f: NDArray[Any], codes: NDArray[np.int64]) -> tuple[int, int]:
    n_alike = n_counted = 0
    for row in range(f.shape[0]):
        if codes[row] < 0:
            continue
        place = 0
        for i in range(1, f.shape[1]):
            if f[row, i] > f[row, place]:
                place = i
        n_alike += place == codes[row]
        n_counted += 1
    return n_alike, n_counted
