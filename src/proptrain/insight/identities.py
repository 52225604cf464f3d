"""The paper's identities, checked on a data set: its graph, its features, labels of one split.

Each check is of one statement, in float64, and returns how far its two sides are apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from proptrain.data.dataset import Dataset
from proptrain.ensemble.predictions import ensemble_predictions
from proptrain.insight.setting import LossOfLogF, Matrix, Setting, setting_of
from proptrain.insight.sides import (
    decoupled_gcn_loss,
    decoupled_gcn_weights,
    generalised_cross_entropy,
    matrix_loss,
    normalised_loss,
    pair_loss,
    pt_weights,
)
from proptrain.propagate.normalisation import normalise
from proptrain.propagate.schemes import coefficients
from proptrain.train.weighting import Adaptive, Constant, dynamic, static

ROUNDING = 1e-9
"""What float64 may lose in sums of a hundred thousand terms, with room to spare."""
CLEARLY = 0.01
"""What is this far apart is apart, far above any rounding."""
GAMMAS = (0.3, 1.0, 3.04)
"""On the way, PTD, and PTA in its last epoch."""
NEARLY_ZERO = 1e-12
EPOCH = 50
"""An epoch in which PTA is neither PTS nor PTD."""


@dataclass(frozen=True)
class Identity:
    """A statement of the paper and how far a data set is from it."""

    statement: str
    place: str
    """Where it stands in the paper."""
    deviation: float
    """The largest difference of the two sides: relative to the largest number of the side that
    is wanted, so that the size of a data set does not matter."""
    bound: float
    """The deviation up to which the statement holds; one of inequality holds above it."""
    is_inequality: bool = False

    @property
    def holds(self) -> bool:
        """Whether the deviation is on the right side of the bound; never so if it is NaN."""
        return self.deviation > self.bound if self.is_inequality else self.deviation <= self.bound


def verify_identities(
    dataset: Dataset, *, alpha: float, steps: int, seed: int, n_known: int = 1500
) -> list[Identity]:
    """Check every identity on a data set, with the training nodes of the split of ``seed``."""
    setting = setting_of(dataset, alpha=alpha, steps=steps, seed=seed, n_known=n_known)
    return [check(setting) for check in CHECKS]


# --- the statements ---------------------------------------------------------------------------


def recursion_is_a_sum_of_powers(setting: Setting) -> Identity:
    """Check that K steps of the recursion are Σ beta_k Â^k f."""
    operator = normalise(setting.graph, "symmetric")
    power, total = setting.f, np.zeros_like(setting.f)
    for beta in coefficients(setting.scheme):
        total += beta * power
        power = operator @ power
    recursion = ensemble_predictions(setting.f, setting.engine, setting.scheme)
    return Identity(
        "K steps of APPNP's recursion are Σ beta_k Â^k f",
        "appendix A",
        _apart(recursion, total),
        ROUNDING,
    )


def coefficients_are_closed(setting: Setting) -> Identity:
    """Check the closed form of beta_k."""
    alpha, steps = setting.scheme.alpha, setting.scheme.steps
    closed = alpha * (1 - alpha) ** np.arange(steps + 1.0)
    closed[steps] = (1 - alpha) ** steps
    return Identity(
        "beta_k = a (1-a)^k, and beta_K = (1-a)^K",
        "appendix A",
        _apart(coefficients(setting.scheme), closed),
        ROUNDING,
    )


def softmax_inside_adds_a_constant(setting: Setting) -> Identity:
    """Check that predictions that are no distributions cost a constant and no gradient."""
    constant = -sum(float(np.log(rows.sum(axis=1)).sum()) for rows in setting.rows)
    normalised = normalised_loss(setting)
    return Identity(
        "Softmax inside f: scaling the rows of Ā f to sum to 1 changes the loss by a constant",
        "appendix B",
        _losses_apart(
            setting, decoupled_gcn_loss(setting), lambda log_f: normalised(log_f) + constant
        ),
        ROUNDING,
    )


def decoupled_gcn_is_propagation_then_training(setting: Setting) -> Identity:
    """Check lemma 1: equal gradients, with unclamped labels and softmax before propagation."""
    weights = decoupled_gcn_weights(setting)
    return Identity(
        "The decoupled GCN's gradient is PT's with w_ij = a_ji f_i,h(j) / Σ_q a_jq f_q,h(j)",
        "lemma 1",
        _apart(setting.gradient(pair_loss(weights)), setting.gradient(decoupled_gcn_loss(setting))),
        ROUNDING,
    )


def double_sum_is_the_matrix_form(setting: Setting) -> Identity:
    """Check the loss over pairs against the one over the soft labels, PTS among them."""
    deviations = [
        _losses_apart(
            setting,
            matrix_loss(setting, Constant(gamma)),
            pair_loss(pt_weights(setting, Constant(gamma))),
        )
        for gamma in (0.0, *GAMMAS)
    ]
    return Identity(
        "Σ_ij a_ji f_i,h(j)^g CE(f_i, y_j) = -SUM(Ȳ · f^g · log f)",
        "appendix C",
        max(deviations),
        ROUNDING,
    )


def labels_count_alike_in_a_decoupled_gcn(setting: Setting) -> Identity:
    """Check that the weights of each labelled node's pseudo-labels sum to 1."""
    return Identity(
        "Decoupled GCN: Σ_i w_ij = 1 for every label j",
        "section 3.3, W2",
        _sums_from_one(decoupled_gcn_weights(setting)),
        ROUNDING,
    )


def labels_count_differently_in_ptd(setting: Setting) -> Identity:
    """Check that the sum over i is not 1 for every label in PTD."""
    return Identity(
        "PTD: Σ_i w_ij differs from 1",
        "section 4, (1)",
        _sums_from_one(pt_weights(setting, dynamic)),
        CLEARLY,
        is_inequality=True,
    )


def labels_count_differently_in_pta(setting: Setting) -> Identity:
    """Check that the sum over i is not 1 for every label in PTA."""
    return Identity(
        f"PTA, epoch {EPOCH}: Σ_i w_ij differs from 1",
        "section 4, (2)",
        _sums_from_one(pt_weights(setting, Adaptive(), EPOCH)),
        CLEARLY,
        is_inequality=True,
    )


def weighting_is_generalised_cross_entropy(setting: Setting) -> Identity:
    """Check that the detached weight f^g makes the gradient of Σ Ȳ (1 - f^g) / g."""
    deviations = [
        _apart(
            setting.gradient(matrix_loss(setting, Constant(gamma))),
            setting.gradient(generalised_cross_entropy(setting, gamma)),
        )
        for gamma in GAMMAS
    ]
    return Identity(
        "-SUM(Ȳ · f^g · log f), f^g detached, has the gradient of SUM(Ȳ (1 - f^g) / g)",
        "from section 4",
        max(deviations),
        ROUNDING,
    )


def generalised_cross_entropy_tends_to_cross_entropy(setting: Setting) -> Identity:
    """Check the limit g -> 0 at a g so small that only rounding is left."""
    return Identity(
        "SUM(Ȳ (1 - f^g) / g) with g -> 0 is PTS's cross entropy, gradients too",
        "from section 4",
        _losses_apart(
            setting,
            generalised_cross_entropy(setting, NEARLY_ZERO),
            matrix_loss(setting, static),
        ),
        ROUNDING,
    )


def pta_begins_as_pts(setting: Setting) -> Identity:
    """Check that PTA's weights in epoch 0 are exactly PTS's, all 1, and so are its gradients."""
    f = torch.from_numpy(setting.f)
    return Identity(
        "PTA in epoch 0 is PTS: all weights are 1",
        "section 4, (2)",
        max(
            _apart(Adaptive()(f, 0), torch.ones_like(f)),
            _losses_apart(setting, matrix_loss(setting, Adaptive()), matrix_loss(setting, static)),
        ),
        0.0,
    )


CHECKS: tuple[Callable[[Setting], Identity], ...] = (
    recursion_is_a_sum_of_powers,
    coefficients_are_closed,
    softmax_inside_adds_a_constant,
    decoupled_gcn_is_propagation_then_training,
    double_sum_is_the_matrix_form,
    labels_count_alike_in_a_decoupled_gcn,
    labels_count_differently_in_ptd,
    labels_count_differently_in_pta,
    weighting_is_generalised_cross_entropy,
    generalised_cross_entropy_tends_to_cross_entropy,
    pta_begins_as_pts,
)


# --- how far two sides are apart --------------------------------------------------------------


def _apart(got: Any, wanted: Any) -> float:
    """Return the largest difference, relative to the largest number wanted."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    return float(np.abs(got - wanted).max() / np.abs(wanted).max())


def _losses_apart(setting: Setting, got: LossOfLogF, wanted: LossOfLogF) -> float:
    """Compare two losses, and their gradients."""
    return max(
        _apart(got(setting.log_f), wanted(setting.log_f)),
        _apart(setting.gradient(got), setting.gradient(wanted)),
    )


def _sums_from_one(weights: list[Matrix]) -> float:
    return max(float(np.abs(mine.sum(axis=1) - 1).max(initial=0)) for mine in weights)
