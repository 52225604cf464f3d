"""The products of the two layers, with gradients for their weights."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from proptrain.kernels import dense_product, sparse_product, transposed_product


class FeatureMatrix:
    """Features (n, f) that multiply weights (f, h) and let gradients flow back to them.

    Sparse features stay sparse: the dense product costs 10-40 times more on bag-of-words data.
    The transpose that the backward pass needs is made once.
    """

    def __init__(self, features: NDArray[np.float32] | sp.csr_array) -> None:
        self.shape: tuple[int, int] = features.shape
        self.is_sparse = bool(sp.issparse(features))
        if not self.is_sparse:
            # torch has no read-only tensors and warns about read-only arrays; nobody writes here.
            self._dense = torch.tensor(np.asarray(features, dtype=np.float32))
            return
        self._matrix = sp.csr_array(features, dtype=np.float32)
        self._transposed, self._order = _transpose(self._matrix)

    def __matmul__(self, weight: torch.Tensor) -> torch.Tensor:
        """Return features @ weight, shape (n, h)."""
        if not self.is_sparse:
            return self._dense @ weight
        product: torch.Tensor = _SparseProduct.apply(  # type: ignore[no-untyped-call]
            weight, self._matrix, self._transposed
        )
        return product

    def dropped(self, rate: float, generator: torch.Generator) -> FeatureMatrix:
        """Return the features with a share of the stored entries zeroed and the rest scaled up."""
        result = copy.copy(self)
        if self.is_sparse:
            kept = torch.rand(self._matrix.nnz, generator=generator).numpy() >= rate
            data = np.where(kept, self._matrix.data / np.float32(1 - rate), np.float32(0))
            result._matrix = _with_data(self._matrix, data)
            result._transposed = _with_data(self._transposed, data[self._order])
        else:
            kept_entries = torch.rand(self._dense.shape, generator=generator) >= rate
            result._dense = self._dense * kept_entries / (1 - rate)
        return result


def _transpose(matrix: sp.csr_array) -> tuple[sp.csr_array, NDArray[np.intp]]:
    """Return the transpose, and where each of its stored entries stands in the matrix."""
    places = _with_data(matrix, np.arange(matrix.nnz))
    order = sp.csr_array(places.T).data
    return _with_data(sp.csr_array(matrix.T), matrix.data[order]), order


def _with_data(matrix: sp.csr_array, data: NDArray[np.generic]) -> sp.csr_array:
    return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


class _SparseProduct(torch.autograd.Function):
    """matrix @ weight, with the gradient matrixᵀ @ gradient."""

    @staticmethod
    def forward(
        ctx: Any, weight: torch.Tensor, matrix: sp.csr_array, transposed: sp.csr_array
    ) -> torch.Tensor:
        ctx.transposed = transposed
        return torch.from_numpy(sparse_product(matrix, weight.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = gradients
        return torch.from_numpy(sparse_product(ctx.transposed, gradient.numpy())), None, None


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


def tall_product(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return hidden (n, h) @ weight (h, C) by our own kernels, gradients included."""
    product: torch.Tensor = _TallProduct.apply(hidden, weight)  # type: ignore[no-untyped-call]
    return product
