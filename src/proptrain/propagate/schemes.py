"""How far and how strongly a signal spreads: the family Ā = Σ_k beta_k Â^k.

Every scheme here is one recursion, started at H = S (the signal)::

    H  <-  c_k Â H + (1 - c_k) S        for k = 1 … K

so a scheme is nothing but its numbers c_1 … c_K, and an engine carries out all of them alike.
Each step mixes, so a signal never grows, and rows can be held fixed in any of them.

``alpha`` is the weight of the *restart*, as in the paper; some libraries call the weight of the
neighbours alpha.
"""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from proptrain.errors import InvalidInputError

MANY_STEPS = 5000
"""More than these take so long that one would want to know beforehand."""


MOST_STEPS = 20_000
"""More than these bring nothing: after 14,502 a restart of 0.001 is exact to 1e-6."""


class Scheme(Protocol):
    """A propagation scheme: the weight of the neighbours in each step."""

    @property
    def mixing(self) -> tuple[float, ...]:
        """The numbers c_1 … c_K, from 0 to 1; H <- c_k Â H + (1 - c_k) S is step k."""
        ...


@dataclass(frozen=True)
class PPR:
    """Personalised PageRank to K steps, as in APPNP and the paper: c_k = 1 - alpha.

    >>> PPR(alpha=0.5, steps=2).mixing
    (0.5, 0.5)
    """

    alpha: float = 0.1
    steps: int = 10

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)
        _check_steps(self.steps)

    @property
    def mixing(self) -> tuple[float, ...]:
        """The numbers c_k = 1 - alpha for k = 1 … K."""
        return (1 - self.alpha,) * self.steps


@dataclass(frozen=True)
class Power:
    """Â^K, as in SGCN: no restart, c_k = 1.

    >>> Power(steps=2).mixing, coefficients(Power(steps=2))
    ((1.0, 1.0), array([0., 0., 1.]))
    """

    steps: int = 2

    def __post_init__(self) -> None:
        _check_steps(self.steps)

    @property
    def mixing(self) -> tuple[float, ...]:
        """The numbers c_k = 1 for k = 1 … K."""
        return (1.0,) * self.steps


@dataclass(frozen=True)
class Mean:
    """The uniform mean of Â^0 … Â^K, as in LightGCN: c_k = k / (k + 1).

    >>> Mean(steps=3).mixing, coefficients(Mean(steps=3))
    ((0.5, 0.6666666666666666, 0.75), array([0.25, 0.25, 0.25, 0.25]))
    """

    steps: int = 10

    def __post_init__(self) -> None:
        _check_steps(self.steps)

    @property
    def mixing(self) -> tuple[float, ...]:
        """The numbers c_k = k / (k + 1) for k = 1 … K."""
        return tuple(k / (k + 1) for k in range(1, self.steps + 1))


@dataclass(frozen=True)
class Heat:
    """The heat kernel e^(-t(I - Â)), cut off after K steps: beta_k ∝ t^k / k!.

    The coefficients kept are scaled to sum to 1, so that the cut loses no mass.

    >>> Heat(t=1.0, steps=2).mixing, coefficients(Heat(t=1.0, steps=2))
    ((0.3333333333333333, 0.6), array([0.4, 0.4, 0.2]))
    """

    t: float = 5.0
    steps: int = 20

    def __post_init__(self) -> None:
        if not (math.isfinite(self.t) and self.t > 0):
            raise InvalidInputError(f"t must be a positive number, got {self.t}.")
        if self.t > 1000:  # t steps and more would be needed to follow it
            raise InvalidInputError(f"t must be at most 1000, got {self.t}.")
        _check_steps(self.steps)

    @property
    def mixing(self) -> tuple[float, ...]:
        """The numbers c_k = 1 - 1 / T_k for k = 1 … K, with T_k = 1 + t / (K + 1 - k) · T_(k-1).

        T_0 = 1; T_K is the sum of all t^k / k!, by Horner's rule.
        """
        # Horner: 1 + t/1 (Â + t/2 (Â² + …)), innermost first, each level scaled to sum to 1.
        numbers, total = [], 1.0
        for k in range(self.steps, 0, -1):
            inner = self.t / k * total
            total = inner + 1
            numbers.append(inner / total)
        return tuple(numbers)


@dataclass(frozen=True)
class Exact:
    """Personalised PageRank to convergence, as in PPNP.

    It is the limit of `PPR` for ever more steps::

        Ā = Σ_k alpha (1-alpha)^k Â^k = alpha (I - (1-alpha) Â)^-1,   k = 0, 1, 2 …

    The recursion of `PPR` comes nearer to its limit by 1 - alpha in each step, whatever the
    graph, so the number of steps that brings the error below ``tol`` times the signal's norm is
    known beforehand.

    >>> len(Exact(alpha=0.1, tol=1e-6).mixing)
    138
    """

    alpha: float = 0.1
    tol: float = 1e-6

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)
        if not 0 < self.tol < 1:
            raise InvalidInputError(f"tol must lie between 0 and 1, got {self.tol}.")
        if self._n_steps > MOST_STEPS:
            raise InvalidInputError(
                f"The exact propagation must take at most {MOST_STEPS:,} steps, but with alpha "
                f"{self.alpha:g} and tol {self.tol:g} it takes {self._n_steps:,}. Choose a larger "
                "alpha or tol."
            )
        if self._n_steps > MANY_STEPS:
            warnings.warn(
                f"With alpha {self.alpha:g} the exact propagation takes {self._n_steps:,} steps. "
                "A larger alpha or tol takes fewer, and PPR as many as you say.",
                UserWarning,
                stacklevel=3,
            )

    @property
    def mixing(self) -> tuple[float, ...]:
        """The numbers c_k = 1 - alpha for k = 1 … K, with K = ⌈log(tol / 2) / log(1 - alpha)⌉.

        For alpha = 1 a step is enough.
        """
        return (1 - self.alpha,) * self._n_steps

    @property
    def _n_steps(self) -> int:
        if self.alpha == 1:
            return 1
        tol = max(self.tol / 2, sys.float_info.min)  # half of the smallest number would be 0
        n_steps = math.log(tol) / math.log1p(-self.alpha)
        return math.ceil(min(n_steps, 1e18))  # infinite for the smallest alpha


def coefficients(scheme: Scheme) -> NDArray[np.float64]:
    """Return beta_0 … beta_K of Ā = Σ_k beta_k Â^k (appendix A), shape (K+1,); they sum to 1.

    beta_0 = 1 - c_K, and of j steps back, beta_j = c_K c_(K-1) … c_(K-j+1) (1 - c_(K-j)); c_0 = 0.

    >>> coefficients(PPR(alpha=0.5, steps=2))
    array([0.5 , 0.25, 0.25])
    """
    beta = np.ones(1)
    for neighbours in scheme.mixing:
        beta = np.concatenate([[1 - neighbours], neighbours * beta])
    return beta


def _check_alpha(alpha: float) -> None:
    if not (isinstance(alpha, float | int | np.floating) and 0 < alpha <= 1):
        raise InvalidInputError(
            f"alpha, the weight of the restart, must be above 0 and at most 1, got {alpha}."
        )


def _check_steps(steps: int) -> None:
    is_whole = isinstance(steps, int | np.integer) and not isinstance(steps, bool)
    if not (is_whole and steps >= 0):
        raise InvalidInputError(f"steps must be a whole number, 0 or more, got {steps!r}.")
    if steps > MOST_STEPS:
        raise InvalidInputError(
            f"steps must be at most {MOST_STEPS:,}, got {steps:,}. Exact() tells how many suffice."
        )
