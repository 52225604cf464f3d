"""One step of Adam over all numbers of a weight."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from proptrain.errors import InvalidInputError
from proptrain.kernels.columns import aligned_empty
from proptrain.kernels.compiling import compiled, compiled_exactly

MEAN_DECAY = 0.9
SQUARE_DECAY = 0.999
_MEAN_SHARE = np.float32(1 - MEAN_DECAY)
_SQUARE_SHARE = np.float32(1 - SQUARE_DECAY)
_SQUARE_REST = np.float32(SQUARE_DECAY)
_TINY = np.float32(1e-8)


def adam_step(
    weight: NDArray[np.float32],
    gradient: NDArray[np.float32],
    mean: NDArray[np.float32],
    square: NDArray[np.float32],
    *,
    step: int,
    learning_rate: float,
    weight_decay: float = 0.0,
) -> None:
    """Move the weight against its gradient, and bring the running means up to date, all in place.

    ``step`` counts from 1. ``weight_decay`` is the factor of ||weight||² / 2 in the loss, whose
    gradient is added to the given one. All arrays are of one shape, rounded as torch rounds.

    >>> weight, mean, square = np.ones(1, np.float32), np.zeros(1, np.float32), np.zeros(1, "f4")
    >>> adam_step(weight, np.full(1, 7, "f4"), mean, square, step=1, learning_rate=0.1)
    >>> weight
    array([0.9], dtype=float32)
    """
    for one in (weight, mean, square):
        if not one.flags.c_contiguous:  # else a copy would be moved, and the weight stay
            raise InvalidInputError("Weights that are to be trained must lie in memory in a row.")
    arrays = (weight, np.ascontiguousarray(gradient), mean, square)
    weight, gradient, mean, square = (one.reshape(-1) for one in arrays)
    _update_means(weight, gradient, mean, square, np.float32(weight_decay))
    # torch's root is not always the nearest number, and what the authors recorded hangs on it.
    roots = aligned_empty(square.shape, square.dtype)
    torch.sqrt(torch.from_numpy(square), out=torch.from_numpy(roots))
    scale = -learning_rate / (1 - MEAN_DECAY**step)
    unbiased = math.sqrt(1 - SQUARE_DECAY**step)
    _move(weight, mean, roots, np.float32(scale), np.float32(unbiased))


@compiled
def _fused(factor: Any, other: Any, term: Any) -> Any:
    return factor * other + term


@compiled_exactly
def _update_means(
    weight: NDArray[Any],
    gradient: NDArray[Any],
    mean: NDArray[Any],
    square: NDArray[Any],
    weight_decay: Any,
) -> None:
    for i in range(weight.shape[0]):
        slope = gradient[i] + weight_decay * weight[i]
        mean[i] = _fused(_MEAN_SHARE, slope - mean[i], mean[i])
        square[i] = _fused(_SQUARE_SHARE * slope, slope, square[i] * _SQUARE_REST)


@compiled_exactly
def _move(
    weight: NDArray[Any], mean: NDArray[Any], roots: NDArray[Any], scale: Any, unbiased: Any
) -> None:
    for i in range(weight.shape[0]):
        weight[i] += (scale * mean[i]) / (roots[i] / unbiased + _TINY)
