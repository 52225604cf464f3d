"""The loss of step 2."""

from __future__ import annotations

import math

import torch
from torch import nn

from proptrain.errors import InvalidInputError, TrainingError
from proptrain.train.weighting import Adaptive, Weighting, check_shape, weights_of

_ROUNDING = 1e-6
"""By how much of the largest, or of 1, a soft label may be negative."""


def soft_label_loss(
    log_probabilities: torch.Tensor, soft_labels: torch.Tensor, weights: torch.Tensor | None = None
) -> torch.Tensor:
    """Return -Σ Ȳ · w · log f over all nodes and classes (equation of section 4.2, appendix C).

    Shapes: all (n, C). ``weights`` are constants to the gradient; None means 1.

    >>> f = torch.tensor([[0.5, 0.5]])
    >>> round(float(soft_label_loss(f.log(), torch.tensor([[1.0, 0.0]]))), 4)
    0.6931
    """
    if weights is not None:
        check_shape(weights, soft_labels.shape)
        soft_labels = soft_labels * weights.detach()
    return -(soft_labels * log_probabilities).sum()


def finite(loss: float, epoch: int) -> float:
    """Return the loss, or say what to do about one that is not finite."""
    if not math.isfinite(loss):
        raise TrainingError(
            f"Training must have a finite loss, but in epoch {epoch} it is {loss}. Scale the "
            "features to ordinary size (around 1), or lower learning_rate or loss_weight."
        )
    return loss


class PTLoss(nn.Module):
    """The loss of step 2 for any network of torch: lambda1/C · -Σ Ȳ f^gamma log f (section 4.2).

    f is the softmax of the network's scores, and f^gamma a constant to the gradient. PTA is the
    default; PTS is ``weighting=static``, PTD ``weighting=dynamic``; any function (f, epoch) ->
    weights will do. Weight decay is the optimiser's affair.

    Parameters
    ----------
    weighting : (confidence f (n, C), epoch from 0) -> weights (n, C)
        None is `Adaptive()`, the paper's.
    loss_weight : float
        The paper's lambda1.

    Examples
    --------
    In epoch 0 all weights are 1; later a soft label that the network does not believe counts less:

    >>> loss, soft_labels = PTLoss(loss_weight=2), torch.tensor([[1.0, 0.0]])
    >>> scores = torch.tensor([[0.0, 0.0]])
    >>> [round(float(loss(scores, soft_labels, epoch)), 4) for epoch in (0, 100)]
    [0.6931, 0.4287]
    >>> loss.forward(scores, soft_labels)  # the same as calling it, in epoch 0
    tensor(0.6931)
    """

    def __init__(self, weighting: Weighting | None = None, *, loss_weight: float = 0.05) -> None:
        super().__init__()
        self.weighting = weighting or Adaptive()
        self.loss_weight = loss_weight

    def forward(
        self, scores: torch.Tensor, soft_labels: torch.Tensor, epoch: int = 0
    ) -> torch.Tensor:
        """Return the loss of scores (n, C) before their softmax, given the soft labels (n, C).

        It is finite, or an error says why not. To look at it waits for a GPU, once a call. Where
        no number can be looked at, as within `torch.compile` and `torch.func.vmap`, none is.
        """
        if scores.shape != soft_labels.shape:
            raise InvalidInputError(
                "Scores and soft labels must both have shape (n, C), got "
                f"{tuple(scores.shape)} and {tuple(soft_labels.shape)}. Take the soft labels of "
                "the same nodes, of a mini-batch for instance."
            )
        if soft_labels.layout is not torch.strided:  # sparse ones leave scores without a gradient
            soft_labels = soft_labels.to_dense()
        log_f = torch.log_softmax(scores, dim=1)
        weights = weights_of(self.weighting, log_f.detach().exp(), epoch)
        scale = self.loss_weight / scores.shape[1]
        loss = scale * soft_label_loss(log_f, soft_labels, weights)
        _check_numbers(loss.detach(), soft_labels.detach(), epoch)
        return loss


def _check_numbers(loss: torch.Tensor, soft_labels: torch.Tensor, epoch: int) -> None:
    """Raise unless loss and soft labels are finite, and none negative: a network would unlearn."""
    if torch.compiler.is_compiling() or not soft_labels.numel():
        return
    try:  # all in one, since each transfer waits for a GPU
        told = torch.stack([loss, *torch.aminmax(soft_labels)]).tolist()
    except RuntimeError:  # torch.func.vmap and the device meta have no numbers to tell
        return
    total, least, most = told  # NaN if a soft label is
    is_least_right = least >= -_ROUNDING * max(1, most)
    if not (is_least_right and most < math.inf):
        got = most if is_least_right else least
        raise InvalidInputError(
            f"Soft labels must be finite numbers, 0 or more, got {got:.3g}. "
            "AddSoftLabels and propagate_labels make them so; of a node of which nothing is known "
            "all are 0."
        )
    if math.isinf(total) and loss.dtype == torch.float16:
        raise TrainingError(
            f"Training must have a finite loss, but in epoch {epoch} it is {total}: a sum over "
            "nodes soon leaves float16, whose largest number is 65,504. Give scores.float()."
        )
    finite(total, epoch)
