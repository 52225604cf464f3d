"""Who computes an epoch: our kernels, or torch on a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from numpy.typing import NDArray

from proptrain.train.adam import Adam
from proptrain.train.predictor import Network, Predictor
from proptrain.train.products import FeatureMatrix, class_probabilities


class Optimiser(Protocol):
    """Makes the steps of a network, whose first layer it pulls towards zero as well."""

    def penalty(self) -> float:
        """Return the part of the loss that pulls: weight_decay · ||first layer||² / 2."""
        ...

    def step(self) -> None:
        """Make a step along the gradients, which are then forgotten."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that the next step depends on beside weights and gradients."""
        ...

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `state` returned."""
        ...


@dataclass(frozen=True)
class Backend:
    """What the epoch loop has others compute."""

    network: Callable[..., Network]
    """Makes the two layers of `Predictor`, with the same initial weights."""
    features: Callable[[Any], Any]
    """Turns features, sparse or dense, into what the network wants."""
    probabilities: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
    """Turns scores (n, C) into log f and f; gradients flow through log f alone."""
    optimiser: Callable[[Network, float, float], Optimiser]
    """Makes Adam for a network, a learning rate and a weight decay."""
    tensor: Callable[[Any], torch.Tensor]
    """Copies an array to where it is computed with."""


KERNELS = Backend(Predictor, FeatureMatrix, class_probabilities, Adam, torch.tensor)
"""Our kernels on the CPU."""
