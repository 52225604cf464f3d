"""The network of step 2: two layers that see features and no graph."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from proptrain.train.products import FeatureMatrix, tall_product

Weights: TypeAlias = dict[str, NDArray[np.float32]]
"""By name; of a `Predictor` weight1 (f, h), bias1 (h,), weight2 (h, C) and bias2 (C,)."""


class Network(nn.Module):
    """What the epoch loop can train: scores (n, C), whose softmax is f, for features (n, f)."""

    weight1: nn.Parameter

    def __init__(self, dropout: float, random: np.random.Generator) -> None:
        super().__init__()
        self.dropout = dropout
        self.random = random

    @property
    def first_layer(self) -> nn.Parameter:
        """The weights that are kept small."""
        return self.weight1

    @property
    def drops(self) -> bool:
        """Whether a step in training differs from the same step in earnest."""
        return self.dropout > 0

    def narrowed(self, nodes: NDArray[np.int64]) -> tuple[Network, NDArray[np.int64] | None]:
        """Return this network for the scores of these nodes alone, and whose features it needs.

        Both are in ascending order; None means all nodes' features. The weights are shared.
        """
        return self, nodes


class Predictor(Network):
    """Scores Z = ReLU(X W1 + b1) W2 + b2, whose softmax is f(X); X sparse or dense.

    Shapes: X (n, f), Z (n, C), W1 (f, h), b1 (h,), W2 (h, C), b2 (C,). Initial weights as the
    authors draw them, from ``generator`` alone: Kaiming uniform with mode fan_out and a = sqrt 5 on
    (in, out) matrices, biases uniform in ±1/sqrt(out).

    >>> model = Predictor(3, 2, n_hidden=4, generator=torch.Generator().manual_seed(0))
    >>> {name: tuple(value.shape) for name, value in model.state_dict().items()}
    {'weight1': (3, 4), 'bias1': (4,), 'weight2': (4, 2), 'bias2': (2,)}
    >>> model(FeatureMatrix(np.ones((5, 3), dtype=np.float32))).shape
    torch.Size([5, 2])
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        *,
        n_hidden: int = 64,
        dropout: float = 0.0,
        bias: bool = True,
        generator: torch.Generator,
    ) -> None:
        super().__init__(dropout, coins_beside(generator))
        self.weight1 = initial_weight(n_features, n_hidden, generator)
        self.bias1 = initial_bias(n_hidden, generator) if bias else None
        self.weight2 = initial_weight(n_hidden, n_classes, generator)
        self.bias2 = initial_bias(n_classes, generator) if bias else None

    def forward(self, features: FeatureMatrix) -> torch.Tensor:
        """Return the scores, shape (n, C)."""
        rate = self.dropout if self.training else 0.0
        if rate > 0:
            features = features.dropped(rate, self.random)
        hidden = features.active(self.weight1, self.bias1, rate, self.random)  # (n, h)
        scores = tall_product(hidden, self.weight2)  # (n, C)
        return scores if self.bias2 is None else scores.add_(self.bias2)


def coins_beside(generator: torch.Generator) -> np.random.Generator:
    """Return a generator for dropout with the seed of the weights' own."""
    return coins(generator.initial_seed())


def coins(seed: int | list[int]) -> np.random.Generator:
    """Return a generator for dropout."""
    return np.random.Generator(np.random.SFC64(seed))  # a fast one: millions a step


def initial_weight(n_in: int, n_out: int, generator: torch.Generator) -> nn.Parameter:
    """Draw weights (in, out), Kaiming uniform with mode fan_out and a = sqrt 5."""
    # torch reads an (in, out) matrix as (out, in), so its fan_out is our number of inputs.
    weight = torch.empty(n_in, n_out)
    bound = 1 / math.sqrt(max(n_in, 1))
    return nn.Parameter(weight.uniform_(-bound, bound, generator=generator))


def initial_bias(n_out: int, generator: torch.Generator) -> nn.Parameter:
    """Draw biases (out,), uniform in ±1/sqrt(out)."""
    bound = 1 / math.sqrt(n_out)
    return nn.Parameter(torch.empty(n_out).uniform_(-bound, bound, generator=generator))


def with_weights(model: Network, weights: Weights | None) -> Network:
    """Give a network these weights, if there are any; returns it."""
    if weights is not None:
        model.load_state_dict({k: torch.tensor(np.asarray(v)) for k, v in weights.items()})
    return model
