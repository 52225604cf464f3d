"""Propagation inside a network: the engine's recursion with its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from proptrain.kernels import drop_entries, propagation_step, transposed_sparse_product
from proptrain.kernels.columns import padded_to_widths, without_padding
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.schemes import Scheme


class Spread:
    """Ā S = Σ_k beta_k Â^k S of a signal S (n, c), for tensors; gradients go back by Ā's transpose.

    With ``edge_dropout`` a training step leaves out that share of Â's entries, drawn anew in each
    of the K steps, and scales up the rest, as APPNP's own paper does.
    """

    def __init__(self, engine: LocalEngine, scheme: Scheme, edge_dropout: float = 0.0) -> None:
        self.engine = engine
        self.scheme = scheme
        self.edge_dropout = edge_dropout

    def __call__(
        self, signal: torch.Tensor, random: np.random.Generator | None = None
    ) -> torch.Tensor:
        """Return Ā signal; edges are dropped only if there is a generator to draw them."""
        spread: torch.Tensor
        if self.edge_dropout == 0 or random is None:
            spread = _Spread.apply(signal, self)  # type: ignore[no-untyped-call]
        else:
            spread = _DroppedSpread.apply(signal, self, random)  # type: ignore[no-untyped-call]
        return spread


class _Spread(torch.autograd.Function):
    """Ā signal, with the gradient Āᵀ gradient."""

    @staticmethod
    def forward(ctx: Any, signal: torch.Tensor, spread: Spread) -> torch.Tensor:
        ctx.spread = spread
        return torch.from_numpy(spread.engine.propagate(signal.detach().numpy(), spread.scheme))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        engine = ctx.spread.engine.transposed
        back = engine.propagate(gradients[0].numpy(), ctx.spread.scheme)
        return torch.from_numpy(back), None


class _DroppedSpread(torch.autograd.Function):
    """The recursion H <- c_k Â_k H + (1 - c_k) signal, every Â_k with other entries left out."""

    @staticmethod
    def forward(
        ctx: Any, signal: torch.Tensor, spread: Spread, random: np.random.Generator
    ) -> torch.Tensor:
        start = padded_to_widths(signal.detach().numpy())  # once, not in every step
        whole = spread.engine.operator_in(start.dtype)
        state = start
        ctx.steps = []
        for neighbours in spread.scheme.mixing:
            operator: sp.csr_array = drop_entries(whole, spread.edge_dropout, random)
            state = propagation_step(operator, state, start, neighbours)
            ctx.steps.append((operator, neighbours))
        return torch.from_numpy(without_padding(state, signal))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        gradient = padded_to_widths(gradients[0].numpy())
        for_signal = np.zeros_like(gradient)
        for operator, neighbours in reversed(ctx.steps):
            for_signal += gradient.dtype.type(1 - neighbours) * gradient
            gradient = transposed_sparse_product(operator, gradient)
            gradient *= gradient.dtype.type(neighbours)
        return torch.from_numpy(without_padding(for_signal + gradient, gradients[0])), None, None
