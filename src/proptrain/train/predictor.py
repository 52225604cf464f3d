"""The network of step 2: two layers that see features and no graph."""

from __future__ import annotations

import math

import torch
from torch import nn

from proptrain.train.products import FeatureMatrix, tall_product


class Predictor(nn.Module):
    """Scores ReLU(X W1 + b1) W2 + b2, whose softmax is f(X); X sparse or dense.

    Shapes: W1 (f, h), b1 (h,), W2 (h, C), b2 (C,). Initial weights as the authors draw them, from
    ``generator`` alone: Kaiming uniform with mode fan_out and a = sqrt 5 on (in, out) matrices,
    biases uniform in ±1/sqrt(out).
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
        super().__init__()
        self.dropout = dropout
        self.generator = generator
        self.weight1 = _initial_weight(n_features, n_hidden, generator)
        self.bias1 = _initial_bias(n_hidden, generator) if bias else None
        self.weight2 = _initial_weight(n_hidden, n_classes, generator)
        self.bias2 = _initial_bias(n_classes, generator) if bias else None

    def forward(self, features: FeatureMatrix) -> torch.Tensor:
        """Return the scores, shape (n, C)."""
        drops = self.training and self.dropout > 0
        if drops:
            features = features.dropped(self.dropout, self.generator)
        hidden = features @ self.weight1  # (n, h)
        if self.bias1 is not None:
            hidden = hidden + self.bias1
        hidden = torch.relu(hidden)
        if drops:
            kept = torch.rand(hidden.shape, generator=self.generator) >= self.dropout
            hidden = hidden * kept / (1 - self.dropout)
        scores = tall_product(hidden, self.weight2)  # (n, C)
        return scores if self.bias2 is None else scores + self.bias2


def _initial_weight(n_in: int, n_out: int, generator: torch.Generator) -> nn.Parameter:
    # torch reads an (in, out) matrix as (out, in), so its fan_out is our number of inputs.
    weight = torch.empty(n_in, n_out)
    bound = 1 / math.sqrt(max(n_in, 1))
    return nn.Parameter(weight.uniform_(-bound, bound, generator=generator))


def _initial_bias(n_out: int, generator: torch.Generator) -> nn.Parameter:
    bound = 1 / math.sqrt(n_out)
    return nn.Parameter(torch.empty(n_out).uniform_(-bound, bound, generator=generator))
