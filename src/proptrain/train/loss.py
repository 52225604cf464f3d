"""The loss of step 2."""

from __future__ import annotations

import torch


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
        soft_labels = soft_labels * weights.detach()
    return -(soft_labels * log_probabilities).sum()
