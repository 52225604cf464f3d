"""The steps of the network that run on our own kernels, with their gradients."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from proptrain.data.indices import with_short_indices
from proptrain.kernels import (
    active_gradients,
    active_product,
    dense_product,
    drop_entries,
    dropout_scale,
    log_softmax,
    pass_active,
    rectify,
    sparse_product,
    transposed_product,
    transposed_sparse_product,
)
from proptrain.kernels.columns import aligned_empty
from proptrain.kernels.transposed import TransposedParts, transposed_parts


class FeatureMatrix:
    """Features (n, f) that multiply weights (f, h) and let gradients flow back to them.

    Sparse features stay sparse: the dense product costs 10-40 times more on bag-of-words data.
    """

    def __init__(self, features: NDArray[np.float32] | sp.csr_array) -> None:
        self.shape: tuple[int, int] = features.shape
        self.is_sparse = bool(sp.issparse(features))
        if self.is_sparse:
            self._matrix = with_short_indices(sp.csr_array(features, dtype=np.float32))
            self._way_back = _WayBack(self._matrix)
        else:
            # torch has no read-only tensors and warns about read-only arrays; nobody writes here.
            self._dense = torch.tensor(np.asarray(features, dtype=np.float32))

    def __matmul__(self, weight: torch.Tensor) -> torch.Tensor:
        """Return features @ weight, shape (n, h)."""
        if not self.is_sparse:
            return self._dense @ weight
        product: torch.Tensor = _SparseProduct.apply(  # type: ignore[no-untyped-call]
            weight, self._matrix
        )
        return product

    def active(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        rate: float = 0.0,
        random: np.random.Generator | None = None,
    ) -> torch.Tensor:
        """Return ReLU(features @ weight + bias), some of it left out and the rest scaled up."""
        if not self.is_sparse:
            return rectified(self._dense @ weight, bias, rate, random)
        active: torch.Tensor = _SparseActive.apply(  # type: ignore[no-untyped-call]
            weight, bias, self._matrix, self._way_back, rate, random
        )
        return active

    def dropped(self, rate: float, random: np.random.Generator) -> FeatureMatrix:
        """Return the features with a share of the entries left out and the rest scaled up."""
        result = copy.copy(self)
        if self.is_sparse:
            result._matrix = drop_entries(self._matrix, rate, random)
            result._way_back = _WayBack(result._matrix)
        else:
            kept = random.random(self._dense.shape, dtype=np.float32) >= rate
            result._dense = self._dense * torch.from_numpy(kept) / (1 - rate)
        return result


class _WayBack:
    """A matrix transposed part by part, once it is clear that it is used again."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self._matrix = matrix
        self._is_known = False

    def parts(self) -> TransposedParts | None:
        """Return the parts; None at first: batches, and entries left by chance, are used once."""
        if not self._is_known:
            self._is_known = True
            return None
        return self._parts

    @cached_property
    def _parts(self) -> TransposedParts | None:
        return transposed_parts(self._matrix)


class _SparseProduct(torch.autograd.Function):
    """matrix @ weight, with the gradient matrixᵀ @ gradient."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, matrix: sp.csr_array) -> torch.Tensor:
        ctx.matrix = matrix
        return torch.from_numpy(sparse_product(matrix, weight.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (gradient,) = gradients
        return torch.from_numpy(transposed_sparse_product(ctx.matrix, gradient.numpy())), None


class _SparseActive(torch.autograd.Function):
    """ReLU(matrix @ weight + bias) with dropout, in one pass each way."""

    @staticmethod
    def forward(
        ctx: Any,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        matrix: sp.csr_array,
        way_back: _WayBack,
        rate: float,
        random: np.random.Generator | None,
    ) -> torch.Tensor:
        own = None if bias is None else bias.detach().numpy()
        active = active_product(matrix, weight.detach().numpy(), own, rate, random)
        told = torch.from_numpy(active)
        ctx.save_for_backward(told)
        ctx.matrix, ctx.way_back, ctx.has_bias = matrix, way_back, bias is not None
        ctx.scale = 1.0 if random is None else dropout_scale(rate)
        return told

    @staticmethod
    def backward(
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None, None, None, None, None]:
        (active,) = ctx.saved_tensors
        given = (ctx.matrix, gradients[0].numpy(), active.numpy(), ctx.scale)
        for_both = active_gradients(*given, ctx.way_back.parts())
        for_weight, for_bias = map(torch.from_numpy, for_both)
        return for_weight, for_bias if ctx.has_bias else None, None, None, None, None


class _Rectified(torch.autograd.Function):
    """ReLU(hidden + bias) with dropout; the gradient passes where something is left."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        bias: torch.Tensor | None,
        rate: float,
        random: np.random.Generator | None,
    ) -> torch.Tensor:
        own = None if bias is None else bias.detach().numpy()
        active = torch.from_numpy(rectify(hidden.detach().numpy(), own, rate, random))
        ctx.save_for_backward(active)
        ctx.scale, ctx.has_bias = 1.0 if random is None else dropout_scale(rate), bias is not None
        return active

    @staticmethod
    def backward(
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None, None, None]:
        (active,) = ctx.saved_tensors
        passed = torch.from_numpy(pass_active(gradients[0].numpy(), active.numpy(), ctx.scale))
        return passed, passed.sum(dim=0) if ctx.has_bias else None, None, None


class _TallProduct(torch.autograd.Function):
    """hidden @ weight, summed in the same order on every make of CPU, both ways."""

    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(hidden, weight)
        return torch.from_numpy(dense_product(hidden.detach().numpy(), weight.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        (gradient,) = gradients
        hidden, weight = (saved.detach().numpy() for saved in ctx.saved_tensors)
        for_hidden = dense_product(gradient.numpy(), weight.T)
        for_weight = transposed_product(hidden, gradient.numpy())
        return torch.from_numpy(for_hidden), torch.from_numpy(for_weight)


class _LogSoftmax(torch.autograd.Function):
    """log f and f of the scores; gradients flow through log f."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        log_f, f = (torch.from_numpy(part) for part in log_softmax(scores.detach().numpy()))
        ctx.save_for_backward(log_f)
        ctx.mark_non_differentiable(f)
        return log_f, f

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        (log_f,) = ctx.saved_tensors
        gradient = gradients[0]
        for_scores = torch.from_numpy(aligned_empty(tuple(gradient.shape), gradient.numpy().dtype))
        torch.exp(log_f, out=for_scores).mul_(gradient.sum(dim=1, keepdim=True))
        return torch.sub(gradient, for_scores, out=for_scores)


def rectified(
    hidden: torch.Tensor,
    bias: torch.Tensor | None,
    rate: float = 0.0,
    random: np.random.Generator | None = None,
) -> torch.Tensor:
    """Return ReLU(hidden + bias), a share of it left out and the rest scaled up: (n, h)."""
    active: torch.Tensor = _Rectified.apply(  # type: ignore[no-untyped-call]
        hidden, bias, rate, random
    )
    return active


def tall_product(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return hidden (n, h) @ weight (h, C) by our own kernels, gradients included."""
    product: torch.Tensor = _TallProduct.apply(hidden, weight)  # type: ignore[no-untyped-call]
    return product


def class_probabilities(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log f and f of the scores (n, C), both (n, C); gradients flow through log f alone."""
    log_f, f = _LogSoftmax.apply(scores)  # type: ignore[no-untyped-call]
    return log_f, f
