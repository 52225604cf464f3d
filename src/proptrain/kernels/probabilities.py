"""Scores to probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.kernels.columns import compiled


def log_softmax(scores: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return log softmax and softmax of each row of the scores (n, C), in one pass.

    >>> log_f, f = log_softmax(np.array([[0.0, np.log(3.0)]]))
    >>> f
    array([[0.25, 0.75]])
    """
    scores = np.ascontiguousarray(scores)
    log_f, f = np.empty_like(scores), np.empty_like(scores)
    _log_softmax(scores, log_f, f)
    return log_f, f


@compiled
def _log_softmax(scores: NDArray[Any], log_f: NDArray[Any], f: NDArray[Any]) -> None:
    for row in range(scores.shape[0]):
        own, top = scores[row], scores[row].max()
        total = top - top
        for i in range(own.shape[0]):
            f[row, i] = np.exp(own[i] - top)
            total += f[row, i]
        log_total = np.log(total)
        for i in range(own.shape[0]):
            log_f[row, i] = own[i] - top - log_total
            f[row, i] /= total
