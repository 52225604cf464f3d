"""Sparse matrices as torch has them."""

from __future__ import annotations

import warnings

import scipy.sparse as sp
import torch


def torch_csr(matrix: sp.csr_array, device: torch.device) -> torch.Tensor:
    """Return the matrix as a CSR tensor on a device."""
    parts = (torch.tensor(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    starts, columns, values = (part.to(device) for part in parts)
    return csr_tensor(starts, columns, values, matrix.shape)


def csr_tensor(
    starts: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, shape: tuple[int, int]
) -> torch.Tensor:
    """Return the CSR tensor of these parts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)
