"""The systems that can be compared, each with the settings its published numbers come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proptrain.errors import InvalidInputError
from proptrain.estimator import LabelPropagationClassifier, PTAClassifier


@dataclass(frozen=True)
class Method:
    """A named way to make a classifier for a restart weight and a seed."""

    name: str
    description: str
    make: Callable[[float, int], Any]
    uses_graph: bool = True


def _pta(**settings: Any) -> Callable[[float, int], PTAClassifier]:
    return lambda alpha, seed: PTAClassifier(alpha=alpha, random_state=seed, **settings)


METHODS = {
    method.name: method
    for method in (
        Method(
            "LP",
            "label propagation alone, no features",
            lambda alpha, seed: LabelPropagationClassifier(alpha=alpha, random_state=seed),
        ),
        Method(
            "MLP",
            "the network alone, no graph",
            # Without edges the ensemble changes nothing, so nothing is lost without it.
            _pta(weighting="static", learning_rate=0.01, dropout=0.5, fast=True),
            uses_graph=False,
        ),
        Method(
            "PTS",
            "propagate, then train with static weights",
            _pta(weighting="static", learning_rate=0.01),
        ),
        Method(
            "PTD",
            "propagate, then train with dynamic weights",
            _pta(weighting="dynamic", loss_weight=10.0),
        ),
        Method("PTA", "propagate, then train adaptively", _pta()),
        Method("PTA(F)", "PTA with fast early stopping", _pta(fast=True)),
    )
}


def find_methods(names: list[str]) -> list[Method]:
    """Return the methods of these names, in their order and each of them once."""
    by_name = {name.lower(): method for name, method in METHODS.items()}
    for name in names:
        if name.lower() not in by_name:
            raise InvalidInputError(
                f"The method must be one of {', '.join(METHODS)}; got {name!r}."
            )
    # Twice the same runs would pass for more runs, and narrow the interval.
    return list(dict.fromkeys(by_name[name.lower()] for name in names))
