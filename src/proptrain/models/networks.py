"""Networks with the graph inside: each step of their training needs more nodes than it is for.

All give scores (n, C) whose softmax is the prediction.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from proptrain.kernels.columns import padded_width
from proptrain.models.spread import Spread
from proptrain.train.predictor import Network, Predictor, coins_beside, initial_bias, initial_weight
from proptrain.train.products import FeatureMatrix, rectified, tall_product

Step: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
"""A step over the graph, from the signal of some nodes to that of others."""


class Decoupled(Network):
    """Scores Z = Ā f(X) with a network f of its own: APPNP, PPNP and SGCN differ in f and Ā.

    Without ``ensembles`` the graph serves training alone, and a node is told by f (APPNP-noe).
    """

    def __init__(self, f: Predictor | Linear, spread: Spread, *, ensembles: bool = True) -> None:
        super().__init__(f.dropout, f.random)
        self.f = f
        self.spread = spread
        self.ensembles = ensembles

    def forward(self, features: FeatureMatrix) -> torch.Tensor:
        """Return the scores, shape (n, C)."""
        scores = self.f(features)
        if not (self.training or self.ensembles):
            return scores  # type: ignore[no-any-return]
        return self.spread(scores, self.random if self.training else None)

    @property
    def first_layer(self) -> nn.Parameter:
        """The first layer of f."""
        return self.f.weight1

    def narrowed(self, nodes: NDArray[np.int64]) -> tuple[Network, None]:
        """Return the network for these nodes' scores: ten steps come by nearly every node."""
        return Chosen(self, nodes), None

    @property
    def drops(self) -> bool:
        """Whether anything is dropped, or the graph itself when it comes to telling."""
        return super().drops or self.spread.edge_dropout > 0 or not self.ensembles


class Linear(Network):
    """Scores X W1: SGCN's predictor. The graph's powers are linear too, so they may follow it."""

    def __init__(
        self, n_features: int, n_classes: int, *, dropout: float, generator: torch.Generator
    ) -> None:
        super().__init__(dropout, coins_beside(generator))
        self.weight1 = initial_weight(n_features, n_classes, generator)

    def forward(self, features: FeatureMatrix) -> torch.Tensor:
        """Return the scores, shape (n, C)."""
        if self.training and self.dropout > 0:
            features = features.dropped(self.dropout, self.random)
        return features @ self.weight1


class GCN(Network):
    """Â ReLU(Â X W1 + b1) W2 + b2: a step over the graph in each layer."""

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        step: Spread,
        *,
        n_hidden: int,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__(dropout, coins_beside(generator))
        self.steps: tuple[Step, Step] = (step, step)
        self._engine = step.engine
        self.weight1 = initial_weight(n_features, n_hidden, generator)
        self.bias1 = initial_bias(n_hidden, generator)
        self.weight2 = initial_weight(n_hidden, n_classes, generator)
        self.bias2 = initial_bias(n_classes, generator)

    def forward(self, features: FeatureMatrix) -> torch.Tensor:
        """Return the scores, shape (n, C)."""
        rate = self.dropout if self.training else 0.0
        if rate > 0:
            features = features.dropped(rate, self.random)
        first, second = self.steps
        hidden = first(features @ self.weight1)  # (n, h)
        hidden = rectified(hidden, self.bias1, rate, self.random)
        return second(tall_product(hidden, self.weight2)) + self.bias2

    def narrowed(self, nodes: NDArray[np.int64]) -> tuple[Network, NDArray[np.int64]]:
        """Return the network for these nodes' scores, and the nodes within two steps of them."""
        operator = self._engine.operator_in(np.dtype(np.float32))
        second, near = _step_to(nodes, operator)
        first, farther = _step_to(near, operator)
        narrow = copy.copy(self)  # with the same weights
        narrow.steps = (first, second)
        return narrow, farther


class DAGNN(Network):
    """Σ_k s_k ⊙ Â^k f(X) with s_k = sigmoid(Â^k f(X) v + b): each node weighs its distances."""

    def __init__(
        self,
        f: Predictor,
        step: Spread,
        n_steps: int,
        *,
        n_classes: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__(f.dropout, f.random)
        self.f = f
        self.step = step
        self.n_steps = n_steps
        self.gate_weight = initial_weight(n_classes, 1, generator)
        self.gate_bias = initial_bias(1, generator)

    def forward(self, features: FeatureMatrix) -> torch.Tensor:
        """Return the scores, shape (n, C)."""
        scores = self.f(features)  # Â^0 f(X), (n, C)
        # With columns of zeros up to a width that has a kernel, once and not in every step.
        n_classes = scores.shape[1]
        more = padded_width(n_classes) - n_classes
        power = functional.pad(scores, (0, more))
        gate_weight = functional.pad(self.gate_weight, (0, 0, 0, more))
        total = self._gated(power, gate_weight)
        for _ in range(self.n_steps):
            power = self.step(power)
            total = total + self._gated(power, gate_weight)
        return total[:, :n_classes]

    def _gated(self, power: torch.Tensor, gate_weight: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(power @ gate_weight + self.gate_bias) * power

    @property
    def first_layer(self) -> nn.Parameter:
        """The first layer of f."""
        return self.f.weight1

    def narrowed(self, nodes: NDArray[np.int64]) -> tuple[Network, None]:
        """Return the network for these nodes' scores: ten steps come by nearly every node."""
        return Chosen(self, nodes), None


class Chosen(Network):
    """The scores of some nodes, of a network that needs all."""

    def __init__(self, network: Network, nodes: NDArray[np.int64]) -> None:
        super().__init__(network.dropout, network.random)
        self.network = network
        self.nodes = torch.from_numpy(nodes)

    def forward(self, features: FeatureMatrix) -> torch.Tensor:
        """Return the scores, shape (m, C)."""
        scores: torch.Tensor = self.network(features)
        return scores[self.nodes]


def _step_to(nodes: NDArray[np.int64], operator: sp.csr_array) -> tuple[Step, NDArray[np.int64]]:
    """Return the step to these nodes alone, and the nodes that it comes from."""
    rows = operator[nodes]
    sources = np.unique(rows.indices).astype(np.int64)
    step = FeatureMatrix(rows[:, sources])
    return step.__matmul__, sources
