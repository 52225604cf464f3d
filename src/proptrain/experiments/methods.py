"""The systems that can be compared, each with the settings its published numbers come from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from proptrain.errors import unknown_name
from proptrain.estimator import PTAClassifier
from proptrain.experiments.grid import counted
from proptrain.models.correct_smooth import CorrectAndSmoothClassifier
from proptrain.models.gnn import GNNClassifier
from proptrain.models.label_propagation import LabelPropagationClassifier
from proptrain.plus import MASS_PER_CLASS, PTAPlusClassifier


class Make(Protocol):
    """Makes a classifier for a restart weight, a number of propagation steps and a seed."""

    def __call__(self, *, alpha: float, steps: int, seed: int) -> Any:
        """Return the classifier, not yet fitted."""


@dataclass(frozen=True)
class Method:
    """A named way to make a classifier."""

    name: str
    description: str
    make: Make
    uses_graph: bool = True
    trains: bool = True
    """Whether it has weights to begin with, so that its initialisation matters."""
    variant: bool = False
    """Whether it is here to be compared with another once; it can be named, but is not listed."""


def _made_of(kind: Callable[..., Any], **settings: Any) -> Make:
    def make(*, alpha: float, steps: int, seed: int) -> Any:
        # Not on whatever a machine has: results are to be the same on all of them.
        return kind(alpha=alpha, steps=steps, random_state=seed, device="cpu", **settings)

    return make


def _pta(**settings: Any) -> Make:
    return _made_of(PTAClassifier, **settings)


def _plus(**settings: Any) -> Make:
    return _made_of(PTAPlusClassifier, **settings)


_INGREDIENTS: dict[str, dict[str, Any]] = {
    "PTA, fixed mass": {"mass_per_class": MASS_PER_CLASS},
    "PTA, trust": {"trust": True},
    "PTA, unclamped": {"clamp": False},
    "PTA, mass^0.5": {"mass_power": 0.5, "mass_per_class": MASS_PER_CLASS},
    "PTA, balance": {"balance": 10.0, "mass_per_class": MASS_PER_CLASS},
    "PTA, 3 networks": {"n_networks": 3},
    "PTA, 1 round": {"n_rounds": 1},
    "PTA, 2 rounds": {"n_rounds": 2},
    "PTA, 2 rounds, S_j": {"n_rounds": 2, "learnt_trust": True},
    "PTA, last of 2 rounds": {"n_rounds": 2, "average_rounds": False},
    "PTA, scaled features": {"scale_features": True},
    "PTA, sizes kept": {"keep_sizes": True},
    "PTA, fall-back": {"fall_back": True},
}


_WITHOUT: dict[str, dict[str, Any]] = {
    "PTA+, natural mass": {"mass_per_class": None},
    "PTA+, no trust": {"trust": False},
    "PTA+, no balance": {"balance": 0.0},
    "PTA+, 1 round": {"n_rounds": 1},
    "PTA+, no limit of gamma": {"max_gamma": math.inf},
}


def _one_ingredient(**ingredient: Any) -> Make:
    none = {
        "n_rounds": 0,
        "trust": False,
        "balance": 0.0,
        "mass_per_class": None,
        "scale_features": False,
        "keep_sizes": False,
        "fall_back": False,
    }
    return _plus(**{**none, **ingredient})


def _appnp(**settings: Any) -> Make:
    return _made_of(GNNClassifier, architecture="APPNP", **settings)


class _StoppedByEnsemble(GNNClassifier):
    """A network that is stopped by its ensemble, but told without: another APPNP-noe."""

    def _tell(self, *nodes: Any) -> Any:
        alone = GNNClassifier(**{**self.get_params(), "ensemble": False})
        alone.weights_ = self.weights_
        return alone._tell(*nodes)


class _WithBiases(GNNClassifier):
    """APPNP whose network has biases, as PTA's has: another APPNP-noe."""

    _with_biases = ("APPNP",)


def _gamma_at_most_1(confidence: Any, epoch: int) -> Any:
    """Weigh soft labels as PTA does, until gamma would pass 1."""
    return confidence ** min(math.log1p(epoch / PTAClassifier().epsilon), 1.0)


def _gamma_of_03(confidence: Any, epoch: int) -> Any:  # noqa: ARG001 - the same in every epoch
    """Weigh soft labels so that the loss has the gradient of generalised cross entropy."""
    return confidence**0.3


_CHANGED: dict[str, dict[str, Any]] = {
    "PTA, gamma at most 1": {"weighting": _gamma_at_most_1},
    "PTA, gamma of 0.3": {"weighting": _gamma_of_03},
    "PTA, dropout 0.5, features too": {"dropout": 0.5},
}


def _own_steps(architecture: str) -> Make:
    """Make a network that takes as many steps as its own paper says, whatever is compared."""

    def make(*, alpha: float, steps: int, seed: int) -> Any:  # noqa: ARG001
        own: dict[str, Any] = {"architecture": architecture, "random_state": seed, "device": "cpu"}
        if architecture == "PPNP":
            own["alpha"] = alpha
        return GNNClassifier(**own)

    return make


METHODS = {
    method.name: method
    for method in (
        Method(
            "LP",
            "label propagation alone, no features",
            _made_of(LabelPropagationClassifier),
            trains=False,
        ),
        Method("MLP", "the network alone, no graph", _own_steps("MLP"), uses_graph=False),
        Method("GCN", "a step over the graph in each layer", _own_steps("GCN")),
        Method("SGCN", "one layer, then two steps over the graph", _own_steps("SGCN")),
        Method("DAGNN", "learned mixture of ten steps", _own_steps("DAGNN")),
        Method("APPNP", "as the authors of PTA ran it", _appnp()),
        Method("APPNP#", "as in its own paper: edges dropped too", _appnp(edge_dropout=0.5)),
        Method("PPNP", "APPNP to convergence", _own_steps("PPNP")),
        Method("APPNP-noe", "APPNP told by the network alone", _appnp(ensemble=False)),
        Method(
            "APPNP-noa-nof",
            "every pseudo-label counts alike",
            # All else as PTS, so that nothing but the soft labels differs between the two.
            _pta(weighting="static", equal_hops=2),
        ),
        Method("C&S", "correct and smooth an MLP", _made_of(CorrectAndSmoothClassifier)),
        Method(
            "PTS",
            "propagate, then train with static weights",
            # The paper's settings; the published command's rate is 0.01.
            _pta(weighting="static"),
        ),
        Method(
            "PTD",
            "propagate, then train with dynamic weights",
            _pta(weighting="dynamic", loss_weight=10.0),
        ),
        Method("PTA", "propagate, then train adaptively", _pta()),
        Method("PTA(F)", "PTA with fast early stopping", _pta(fast=True)),
        Method("PTA+", "PTA that learns from its own predictions too", _plus()),
        *(
            Method(
                name, "PTA with one ingredient of PTA+", _one_ingredient(**ingredient), variant=True
            )
            for name, ingredient in _INGREDIENTS.items()
        ),
        *(
            Method(name, "PTA with something tried for PTA+", _pta(**changed), variant=True)
            for name, changed in _CHANGED.items()
        ),
        *(
            Method(name, "PTA+ without an ingredient", _plus(**without), variant=True)
            for name, without in _WITHOUT.items()
        ),
        Method(
            "noe stopped by ensemble",
            "APPNP told by the network alone, but stopped by the ensemble",
            _made_of(_StoppedByEnsemble, architecture="APPNP"),
            variant=True,
        ),
        Method(
            "noe with biases",
            "APPNP told by the network alone, which has biases",
            _made_of(_WithBiases, architecture="APPNP", ensemble=False),
            variant=True,
        ),
        Method(
            "PTS lr 0.01",
            "PTS at the published command's rate",
            _pta(weighting="static", learning_rate=0.01),
            variant=True,
        ),
        *(
            Method(
                f"noa-nof {counted(hops, 'hop')}",
                f"APPNP-noa-nof with labels from up to {counted(hops, 'hop')} away",
                _pta(weighting="static", equal_hops=hops),
                variant=True,
            )
            for hops in (1, 3, 4, 5)
        ),
        Method(
            "noa-nof 2 hops lr 0.01",
            "APPNP-noa-nof at the rate of APPNP",
            _pta(weighting="static", equal_hops=2, learning_rate=0.01),
            variant=True,
        ),
    )
}


def find_methods(names: list[str]) -> list[Method]:
    """Return the methods of these names, in their order and each of them once."""
    by_name = {_plainly(name): method for name, method in METHODS.items()}
    for name in names:
        if _plainly(name) not in by_name:
            listed = [method.name for method in METHODS.values() if not method.variant]
            raise unknown_name("The method", name, listed)
    # Twice the same runs would pass for more runs, and narrow the interval.
    return list(dict.fromkeys(by_name[_plainly(name)] for name in names))


def _plainly(name: str) -> str:
    """Return a name as it is compared: PTA+ may be written PTAPlus, as its class is."""
    return name.lower().replace("plus", "+")
