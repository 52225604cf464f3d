"""How much each soft label counts: w = f^gamma, detached from the gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

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


def weights_of(weighting: Weighting, confidence: torch.Tensor, epoch: int) -> torch.Tensor:
    """Return the weights of an epoch, shape (n, C); those of a user's own function are looked at.

    >>> weights_of(lambda f, epoch: 1 - f, torch.tensor([[0.25, 0.75]]), epoch=0)
    tensor([[0.7500, 0.2500]])
    """
    weights = weighting(confidence, epoch)
    if type(weighting) not in (Constant, Adaptive):  # powers of a probability are what they must be
        check_shape(weights, confidence.shape)
        _check_numbers(weights, confidence, epoch)
    return weights


def check_shape(weights: Any, shape: torch.Size) -> None:
    """Raise unless what a weighting returned, which may be a user's, can weigh soft labels."""
    is_tensor = isinstance(weights, torch.Tensor)
    if is_tensor and (weights.shape == shape or _stretches(weights.shape, shape)):
        return
    got = f"shape {tuple(weights.shape)}" if is_tensor else type(weights).__name__
    if weights is None:
        got = "None, as a function does without a return"
    raise InvalidInputError(
        "A weighting must return a torch tensor with a weight for each node and class, shape "
        f"{tuple(shape)}, as the confidence that it is given; got {got}. Keep the shape, as f**0.5 "
        "does."
    )


def _stretches(given: torch.Size, wanted: torch.Size) -> bool:
    """Tell whether weights are the same for all nodes, or for all classes."""
    try:
        return np.broadcast_shapes(given, wanted) == tuple(wanted)
    except ValueError:
        return False


def _check_numbers(weights: torch.Tensor, confidence: torch.Tensor, epoch: int) -> None:
    """Raise unless weights are finite and not negative, which would have the network unlearn."""
    if weights.is_complex():
        raise InvalidInputError(_must_be(f"{weights.dtype}", epoch))
    if not weights.numel():
        return
    least, most = (float(one) for one in torch.aminmax(weights.detach()))  # NaN if there is one
    if least >= 0 and most < math.inf:
        return
    # A network that has left the finite numbers is no fault of the weighting; the loss tells it.
    if bool(torch.isfinite(confidence).all()):
        raise InvalidInputError(_must_be(f"{least if least < 0 else most}", epoch))


def _must_be(got: str, epoch: int) -> str:
    return (
        "A weighting must return weights that are finite numbers, 0 or more; in epoch "
        f"{epoch} it returned {got}. Weigh by something like f**0.5, or limit what it returns: "
        "weights.clamp(0, 1)."
    )
