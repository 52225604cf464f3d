"""The optimiser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.kernels.adam import adam_step
from proptrain.train.predictor import Network


class Adam:
    """Adam with torch's settings and rounding, in a fraction of its time for a few weights."""

    def __init__(self, network: Network, learning_rate: float, weight_decay: float) -> None:
        self._parameters = list(network.parameters())
        self._decayed = network.first_layer
        self._learning_rate = learning_rate
        self._weight_decay = weight_decay
        self._means = [np.zeros_like(one.detach().numpy()) for one in self._parameters]
        self._squares = [np.zeros_like(mean) for mean in self._means]
        self._n_steps = 0

    def penalty(self) -> float:
        """Return the part of the loss that pulls the first layer towards zero."""
        numbers = self._decayed.detach().reshape(-1)
        return self._weight_decay / 2 * float(numbers @ numbers)

    def step(self) -> None:
        """Make a step along the gradients, which are then forgotten."""
        self._n_steps += 1
        for one, mean, square in zip(self._parameters, self._means, self._squares, strict=True):
            if one.grad is not None:
                adam_step(
                    one.detach().numpy(),
                    one.grad.numpy(),
                    mean,
                    square,
                    step=self._n_steps,
                    learning_rate=self._learning_rate,
                    weight_decay=self._weight_decay if one is self._decayed else 0.0,
                )
                one.grad = None

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that the next step depends on beside weights and gradients."""
        means = {f"mean{place}": mean for place, mean in enumerate(self._means)}
        squares = {f"square{place}": square for place, square in enumerate(self._squares)}
        return {**means, **squares, "steps": np.array([self._n_steps])}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `state` returned."""
        self._n_steps = steps_of(state["steps"])
        for place, (mean, square) in enumerate(zip(self._means, self._squares, strict=True)):
            mean[:] = checked_moment(state[f"mean{place}"], mean.shape)
            square[:] = checked_moment(state[f"square{place}"], mean.shape)


def steps_of(told: NDArray[Any]) -> int:
    """Return a count of steps that an optimiser has told."""
    (n_steps,) = told.ravel().tolist()
    if n_steps != int(n_steps) or not 0 <= n_steps < 1 << 53:
        raise ValueError(f"steps must be a number from 0 on, got {n_steps}")
    return int(n_steps)


def checked_moment(told: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a mean that an optimiser has told of, if it is one of weights of this shape."""
    if told.shape != shape or told.dtype != np.float32 or not np.isfinite(told).all():
        raise ValueError(f"the means of an optimiser must be finite, of 32 bits and shape {shape}")
    return told
