"""Who computes an epoch: our kernels, or torch on a device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from proptrain.train.adam import Adam
from proptrain.train.predictor import Network, Predictor
from proptrain.train.products import FeatureMatrix, class_probabilities


class Optimiser(Protocol):
    """Makes the steps."""

    def penalty(self) -> float:
        """Return the part of the loss that pulls the first layer towards zero."""
        ...

    def step(self) -> None:
        """Make a step along the gradients, which are then forgotten."""
        ...


class Backend(Protocol):
    """What the epoch loop has others compute."""

    def network(self, n_features: int, n_classes: int, **settings: Any) -> Network:
        """Return the two layers, with initial weights."""
        ...

    def features(self, features: NDArray[np.float32] | sp.csr_array) -> Any:
        """Return the features as the network wants them."""
        ...

    def probabilities(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log f and f of the scores (n, C); gradients flow through log f alone."""
        ...

    def optimiser(
        self,
        parameters: Iterable[torch.nn.Parameter],
        learning_rate: float,
        *,
        decayed: torch.nn.Parameter,
        weight_decay: float,
    ) -> Optimiser:
        """Return Adam, which pulls one parameter towards zero as well."""
        ...

    def tensor(self, array: NDArray[Any]) -> torch.Tensor:
        """Return a copy of the array where it is computed with."""
        ...


class Kernels:
    """Our kernels on the CPU."""

    def network(self, n_features: int, n_classes: int, **settings: Any) -> Predictor:
        """Return the two layers, with initial weights."""
        return Predictor(n_features, n_classes, **settings)

    def features(self, features: NDArray[np.float32] | sp.csr_array) -> FeatureMatrix:
        """Return the features as the kernels want them."""
        return FeatureMatrix(features)

    def probabilities(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log f and f of the scores (n, C); gradients flow through log f alone."""
        return class_probabilities(scores)

    def optimiser(
        self,
        parameters: Iterable[torch.nn.Parameter],
        learning_rate: float,
        *,
        decayed: torch.nn.Parameter,
        weight_decay: float,
    ) -> Adam:
        """Return Adam, which pulls one parameter towards zero as well."""
        return Adam(parameters, learning_rate, decayed=decayed, weight_decay=weight_decay)

    def tensor(self, array: NDArray[Any]) -> torch.Tensor:
        """Return a copy of the array."""
        return torch.tensor(array)
