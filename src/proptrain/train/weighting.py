"""How much each soft label counts: w = f^gamma, detached from the gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch

from proptrain.errors import InvalidInputError

Weighting: TypeAlias = Callable[[torch.Tensor, int], torch.Tensor]
"""(confidence f (n, C), epoch from 0) -> weights (n, C). Any such function will do."""


@dataclass(frozen=True)
class Constant:
    """w = f^gamma with the same gamma in every epoch.

    >>> Constant(0.5)(torch.tensor([[0.25, 1.0]]), epoch=7)
    tensor([[0.5000, 1.0000]])
    """

    exponent: float

    def gamma(self, epoch: int) -> float:  # noqa: ARG002 - the same in every epoch
        """Return the exponent."""
        return self.exponent

    def __call__(self, confidence: torch.Tensor, epoch: int) -> torch.Tensor:
        """Return f^gamma."""
        return confidence ** self.gamma(epoch)


static = Constant(0.0)
"""w = 1: PTS, plain cross entropy with the soft labels."""

dynamic = Constant(1.0)
"""w = f: PTD, the loss 1 - f."""


@dataclass(frozen=True)
class Adaptive:
    """w = f^gamma with gamma = log(1 + epoch / epsilon): PTA, from static towards dynamic.

    Beyond the paper, gamma can have a ``limit``: where it outgrows what the network has learnt, a
    class that is learnt late loses its weight for good.

    >>> [round(Adaptive(epsilon=100).gamma(epoch), 2) for epoch in (0, 172, 2000)]
    [0.0, 1.0, 3.04]
    >>> Adaptive(epsilon=100, limit=0.3).gamma(2000)
    0.3
    """

    epsilon: float = 100.0
    limit: float = math.inf

    def __post_init__(self) -> None:
        if not (isinstance(self.epsilon, float | int | np.number) and self.epsilon > 0):
            raise InvalidInputError(f"epsilon must be a positive number, got {self.epsilon}.")
        if not (isinstance(self.limit, float | int | np.number) and self.limit >= 0):
            raise InvalidInputError(f"limit must be a number, 0 or more, got {self.limit}.")

    def gamma(self, epoch: int) -> float:
        """Return the exponent of this epoch, counted from 0."""
        return min(math.log1p(epoch / self.epsilon), self.limit)

    def __call__(self, confidence: torch.Tensor, epoch: int) -> torch.Tensor:
        """Return f^gamma."""
        return confidence ** self.gamma(epoch)


def gamma_of(weighting: Weighting, epoch: int) -> float:
    """Return the weighting's exponent in this epoch, NaN if it is no power of the confidence.

    >>> gamma_of(dynamic, 5), gamma_of(lambda f, epoch: f, 5)
    (1.0, nan)
    """
    gamma = getattr(weighting, "gamma", None)
    return float(gamma(epoch)) if callable(gamma) else math.nan
