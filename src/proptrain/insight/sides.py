"""The two sides of the paper's identities: their losses, and the weights w_ij of the pairs.

They are computed by different ways: a decoupled GCN by its recursion and PyTorch's gradients, the
label-propagation view from the pairs (i, j) and their weights.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp
import torch

from proptrain.ensemble.predictions import ensemble_predictions
from proptrain.insight.setting import LossOfLogF, Matrix, Setting
from proptrain.propagate.normalisation import normalise
from proptrain.train.loss import soft_label_loss
from proptrain.train.weighting import Weighting

# --- losses -----------------------------------------------------------------------------------


def decoupled_gcn_loss(setting: Setting) -> LossOfLogF:
    """Return the loss -Σ_j log ŷ_j,h(j) with ŷ = Ā f (section 3.2)."""

    def loss(log_f: torch.Tensor) -> torch.Tensor:
        log_predictions = _propagated(setting, log_f.exp()).log()
        return -_total(log_predictions[mine, code] for code, mine in enumerate(setting.nodes))

    return loss


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


def normalised_loss(setting: Setting) -> LossOfLogF:
    """Return the same loss with the rows of Ā divided by their sums: g of appendix B."""
    shares = [rows / rows.sum(axis=1, keepdims=True) for rows in setting.rows]

    def loss(log_f: torch.Tensor) -> torch.Tensor:
        f = log_f.exp()
        return -_total(
            (torch.from_numpy(mine) @ f[:, code]).log() for code, mine in enumerate(shares)
        )

    return loss


def pair_loss(weights: list[Matrix]) -> LossOfLogF:
    """Return Σ_i Σ_j w_ij CE(f_i, y_j), the weights constant (section 3.1)."""

    def loss(log_f: torch.Tensor) -> torch.Tensor:
        return -_total(torch.from_numpy(mine) @ log_f[:, code] for code, mine in enumerate(weights))

    return loss


def matrix_loss(setting: Setting, weighting: Weighting, epoch: int = 0) -> LossOfLogF:
    """Return the loss that step 2 trains with, -SUM(Ȳ · w · log f) (section 4)."""
    return lambda log_f: soft_label_loss(
        log_f, setting.soft_labels, weighting(log_f.detach().exp(), epoch)
    )


def generalised_cross_entropy(setting: Setting, gamma: float) -> LossOfLogF:
    """Return SUM(Ȳ (1 - f^g) / g)."""
    # expm1, since 1 - f^g would lose all its digits for small g.
    return lambda log_f: -(setting.soft_labels * torch.expm1(gamma * log_f)).sum() / gamma


def _total(parts: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.cat(list(parts)).sum()


# --- weights ----------------------------------------------------------------------------------


def decoupled_gcn_weights(setting: Setting) -> list[Matrix]:
    """Return w_ij = a_ji f_i,h(j) / Σ_q a_jq f_q,h(j), a matrix (m, n) for each class (lemma 1)."""
    predictions = ensemble_predictions(setting.f, setting.engine, setting.scheme)
    return [
        rows * setting.f[:, code] / predictions[mine, code][:, None]
        for code, (mine, rows) in enumerate(zip(setting.nodes, setting.rows, strict=True))
    ]


def pt_weights(setting: Setting, weighting: Weighting, epoch: int = 0) -> list[Matrix]:
    """Return w_ij = a_ji f_i,h(j)^gamma, a matrix (m, n) for each class (section 4)."""
    of_f = weighting(torch.from_numpy(setting.f), epoch).numpy()
    return [rows * of_f[:, code] for code, rows in enumerate(setting.rows)]
