"""Sparse matrices as torch has them."""

from __future__ import annotations

import warnings
from functools import cache

import scipy.sparse as sp
import torch


def torch_csr(
    matrix: sp.csr_array, device: torch.device | None = None, *, shares: bool = False
) -> torch.Tensor:
    """Return the matrix as a CSR tensor, on a device; it may share memory with the matrix."""
    parts = (matrix.indptr, matrix.indices, matrix.data)
    tensors = (
        torch.from_numpy(part) if shares and part.flags.writeable else torch.tensor(part)
        for part in parts
    )
    starts, columns, values = (part.to(device or "cpu") for part in tensors)
    return csr_tensor(starts, columns, values, matrix.shape)


def csr_tensor(
    starts: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, shape: tuple[int, int]
) -> torch.Tensor:
    """Return the CSR tensor of these parts, which nobody checks."""
    _hear_the_warning()
    return torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)


@cache
def _hear_the_warning() -> None:
    """Have torch say that CSR is in beta, which it says once in a process, to nobody."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False)
