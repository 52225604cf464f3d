"""The paper's identities, checked on a data set: its graph, its features, labels of one split.

Each function checks one statement, in float64, and returns how far the two sides are apart. The
two sides are computed by different ways: a decoupled GCN by its recursion and PyTorch's
gradients, the label-propagation view from the pairs (i, j) and the weights w_ij of the paper.

Gradients are those with respect to the network's scores (n, C): where they are equal, the chain
rule makes them equal for every weight of any network that gives these scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from proptrain.data.dataset import Dataset
from proptrain.data.graph import Graph
from proptrain.data.splits import split_nodes
from proptrain.ensemble.predictions import ensemble_predictions
from proptrain.kernels import sparse_product
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.labels import one_hot
from proptrain.propagate.normalisation import normalise
from proptrain.propagate.schemes import PPR, coefficients
from proptrain.train.loss import soft_label_loss
from proptrain.train.weighting import Adaptive, Constant, Weighting, dynamic, static

Matrix = NDArray[np.float64]
LossOfLogF = Callable[[torch.Tensor], torch.Tensor]

ROUNDING = 1e-9
"""What float64 may lose in sums of a hundred thousand terms, with room to spare."""
CLEARLY = 0.01
"""What is this far apart is apart, far above any rounding."""
GAMMAS = (0.3, 1.0, 3.04)
"""On the way, PTD, and PTA in its last epoch."""
NEARLY_ZERO = 1e-12
N_HIDDEN = 64
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


@dataclass(frozen=True, eq=False)
class Setting:
    """All that the proofs speak of. Class c has its labelled nodes in ``nodes[c]``."""

    graph: Graph
    scheme: PPR
    nodes: tuple[NDArray[np.int64], ...]
    scores: Matrix
    """(n, C): what the network gives; their softmax is f."""
    rows: tuple[Matrix, ...]
    """For each class (m, n): the rows a_j of Ā of its m labelled nodes j."""

    @cached_property
    def engine(self) -> LocalEngine:
        """Carries out the recursion."""
        return LocalEngine(self.graph, "symmetric")

    @cached_property
    def log_f(self) -> torch.Tensor:
        """The logarithm of the network's predictions, (n, C)."""
        return torch.log_softmax(torch.from_numpy(self.scores), dim=1)

    @cached_property
    def f(self) -> Matrix:
        """The network's predictions, (n, C)."""
        return np.asarray(self.log_f.exp().numpy())

    @cached_property
    def soft_labels(self) -> torch.Tensor:
        """Ȳ = Ā Y, unclamped, (n, C)."""
        codes = np.full(self.graph.n_nodes, -1)
        for code, nodes in enumerate(self.nodes):
            codes[nodes] = code
        start = one_hot(codes, np.concatenate(self.nodes), len(self.nodes)).astype(np.float64)
        return torch.from_numpy(self.engine.propagate(start, self.scheme))

    def gradient(self, loss_of: LossOfLogF) -> Matrix:
        """Return the gradient of a loss of log f with respect to the scores, (n, C)."""
        scores = torch.from_numpy(self.scores).requires_grad_()
        (gradient,) = torch.autograd.grad(loss_of(torch.log_softmax(scores, dim=1)), scores)
        return np.asarray(gradient.numpy())


def verify_identities(
    dataset: Dataset, *, alpha: float, steps: int, seed: int, n_known: int = 1500
) -> list[Identity]:
    """Check every identity on a data set, with the training nodes of the split of ``seed``."""
    setting = setting_of(dataset, alpha=alpha, steps=steps, seed=seed, n_known=n_known)
    return [check(setting) for check in CHECKS]


def setting_of(
    dataset: Dataset, *, alpha: float, steps: int, seed: int, n_known: int = 1500
) -> Setting:
    """Draw a split and a two-layer network, and propagate from every labelled node."""
    scheme = PPR(alpha, steps)
    # The training nodes are drawn first, so they are the protocol's without stopping nodes too.
    train = split_nodes(dataset.labels, seed, n_known=n_known, n_stop=0).train
    nodes = tuple(train[dataset.labels[train] == code] for code in range(dataset.n_classes))
    engine = LocalEngine(dataset.graph, "symmetric")
    rows = tuple(_rows_of_propagation(engine, scheme, mine) for mine in nodes)
    return Setting(dataset.graph, scheme, nodes, _drawn_scores(dataset, seed), rows)


def _rows_of_propagation(
    engine: LocalEngine, scheme: PPR, nodes: NDArray[np.int64]
) -> NDArray[np.float64]:
    # Â is symmetric, so Ā is, and its rows are its columns: what one node alone sends out.
    start = np.zeros((engine.n_nodes, len(nodes)))
    start[nodes, np.arange(len(nodes))] = 1
    return np.ascontiguousarray(engine.propagate(start, scheme).T)


def _drawn_scores(dataset: Dataset, seed: int) -> Matrix:
    """Return the scores of a network whose weights are drawn large, so that f is not uniform."""
    random = np.random.RandomState(seed)
    weight1 = random.standard_normal((dataset.features.shape[1], N_HIDDEN))
    weight2 = random.standard_normal((N_HIDDEN, dataset.n_classes))
    features = dataset.features.astype(np.float64)
    by_hidden = sparse_product(features, weight1) if sp.issparse(features) else features @ weight1
    return np.asarray(np.maximum(by_hidden, 0) @ weight2)


# --- the two sides ----------------------------------------------------------------------------


def _propagated(setting: Setting, signal: torch.Tensor) -> torch.Tensor:
    """Carry out APPNP's recursion as its training does, so that gradients flow back through it."""
    entries = sp.coo_array(normalise(setting.graph, "symmetric"))
    places = np.stack([entries.row, entries.col])
    step = torch.sparse_coo_tensor(
        torch.from_numpy(places),
        torch.from_numpy(entries.data),
        entries.shape,
        check_invariants=True,
    )
    alpha, state = setting.scheme.alpha, signal
    for _ in range(setting.scheme.steps):
        state = (1 - alpha) * (step @ state) + alpha * signal
    return state


def _decoupled_gcn_loss(setting: Setting) -> LossOfLogF:
    """Return the loss -Σ_j log ŷ_j,h(j) with ŷ = Ā f (section 3.2)."""

    def loss(log_f: torch.Tensor) -> torch.Tensor:
        log_predictions = _propagated(setting, log_f.exp()).log()
        return -_total(log_predictions[mine, code] for code, mine in enumerate(setting.nodes))

    return loss


def _normalised_loss(setting: Setting) -> LossOfLogF:
    """Return the same loss with the rows of Ā divided by their sums: g of appendix B."""
    shares = [rows / rows.sum(axis=1, keepdims=True) for rows in setting.rows]

    def loss(log_f: torch.Tensor) -> torch.Tensor:
        f = log_f.exp()
        return -_total(
            (torch.from_numpy(mine) @ f[:, code]).log() for code, mine in enumerate(shares)
        )

    return loss


def _pair_loss(weights: list[Matrix]) -> LossOfLogF:
    """Return Σ_i Σ_j w_ij CE(f_i, y_j), the weights constant (section 3.1)."""

    def loss(log_f: torch.Tensor) -> torch.Tensor:
        return -_total(torch.from_numpy(mine) @ log_f[:, code] for code, mine in enumerate(weights))

    return loss


def _matrix_loss(setting: Setting, weighting: Weighting, epoch: int = 0) -> LossOfLogF:
    """Return the loss that step 2 trains with, -SUM(Ȳ · w · log f) (section 4)."""
    return lambda log_f: soft_label_loss(
        log_f, setting.soft_labels, weighting(log_f.detach().exp(), epoch)
    )


def _decoupled_gcn_weights(setting: Setting) -> list[Matrix]:
    """Return w_ij = a_ji f_i,h(j) / Σ_q a_jq f_q,h(j), a matrix (m, n) for each class (lemma 1)."""
    predictions = ensemble_predictions(setting.f, setting.engine, setting.scheme)
    return [
        rows * setting.f[:, code] / predictions[mine, code][:, None]
        for code, (mine, rows) in enumerate(zip(setting.nodes, setting.rows, strict=True))
    ]


def _pt_weights(setting: Setting, weighting: Weighting, epoch: int = 0) -> list[Matrix]:
    """Return w_ij = a_ji f_i,h(j)^gamma, a matrix (m, n) for each class (section 4)."""
    of_f = weighting(torch.from_numpy(setting.f), epoch).numpy()
    return [rows * of_f[:, code] for code, rows in enumerate(setting.rows)]


def _total(parts: Any) -> torch.Tensor:
    return torch.cat(list(parts)).sum()


# --- how far they are apart -------------------------------------------------------------------


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


# --- the identities ---------------------------------------------------------------------------


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
    normalised = _normalised_loss(setting)
    return Identity(
        "Softmax inside f: scaling the rows of Ā f to sum to 1 changes the loss by a constant",
        "appendix B",
        _losses_apart(
            setting, _decoupled_gcn_loss(setting), lambda log_f: normalised(log_f) + constant
        ),
        ROUNDING,
    )


def decoupled_gcn_is_propagation_then_training(setting: Setting) -> Identity:
    """Check lemma 1: equal gradients, with unclamped labels and softmax before propagation."""
    weights = _decoupled_gcn_weights(setting)
    return Identity(
        "The decoupled GCN's gradient is PT's with w_ij = a_ji f_i,h(j) / Σ_q a_jq f_q,h(j)",
        "lemma 1",
        _apart(
            setting.gradient(_pair_loss(weights)), setting.gradient(_decoupled_gcn_loss(setting))
        ),
        ROUNDING,
    )


def double_sum_is_the_matrix_form(setting: Setting) -> Identity:
    """Check the loss over pairs against the one over the soft labels, PTS among them."""
    deviations = [
        _losses_apart(
            setting,
            _matrix_loss(setting, Constant(gamma)),
            _pair_loss(_pt_weights(setting, Constant(gamma))),
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
        _sums_from_one(_decoupled_gcn_weights(setting)),
        ROUNDING,
    )


def labels_count_differently_in_ptd(setting: Setting) -> Identity:
    """Check that the sum over i is not 1 for every label in PTD."""
    return Identity(
        "PTD: Σ_i w_ij differs from 1",
        "section 4, (1)",
        _sums_from_one(_pt_weights(setting, dynamic)),
        CLEARLY,
        is_inequality=True,
    )


def labels_count_differently_in_pta(setting: Setting) -> Identity:
    """Check that the sum over i is not 1 for every label in PTA."""
    return Identity(
        f"PTA, epoch {EPOCH}: Σ_i w_ij differs from 1",
        "section 4, (2)",
        _sums_from_one(_pt_weights(setting, Adaptive(), EPOCH)),
        CLEARLY,
        is_inequality=True,
    )


def _sums_from_one(weights: list[Matrix]) -> float:
    return max(float(np.abs(mine.sum(axis=1) - 1).max(initial=0)) for mine in weights)


def weighting_is_generalised_cross_entropy(setting: Setting) -> Identity:
    """Check that the detached weight f^g makes the gradient of Σ Ȳ (1 - f^g) / g."""
    deviations = [
        _apart(
            setting.gradient(_matrix_loss(setting, Constant(gamma))),
            setting.gradient(_generalised_cross_entropy(setting, gamma)),
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
            _generalised_cross_entropy(setting, NEARLY_ZERO),
            _matrix_loss(setting, static),
        ),
        ROUNDING,
    )


def _generalised_cross_entropy(setting: Setting, gamma: float) -> LossOfLogF:
    # expm1, since 1 - f^g would lose all its digits for small g.
    return lambda log_f: -(setting.soft_labels * torch.expm1(gamma * log_f)).sum() / gamma


def pta_begins_as_pts(setting: Setting) -> Identity:
    """Check that PTA's weights in epoch 0 are exactly PTS's, all 1, and so are its gradients."""
    f = torch.from_numpy(setting.f)
    return Identity(
        "PTA in epoch 0 is PTS: all weights are 1",
        "section 4, (2)",
        max(
            _apart(Adaptive()(f, 0), torch.ones_like(f)),
            _losses_apart(
                setting, _matrix_loss(setting, Adaptive()), _matrix_loss(setting, static)
            ),
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
