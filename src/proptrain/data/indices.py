"""How matrices are stored, and numbered."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def with_short_indices(matrix: sp.csr_array) -> sp.csr_array:
    """Return the matrix with indices of 32 bits, if they fit: half the memory, faster products.

    >>> with_short_indices(sp.csr_array(np.eye(2))).indices.dtype
    dtype('int32')
    """
    if max(matrix.nnz, *matrix.shape) > np.iinfo(np.int32).max:
        return matrix
    short = (part.astype(np.int32, copy=False) for part in (matrix.indices, matrix.indptr))
    return sp.csr_array((matrix.data, *short), shape=matrix.shape)


def in_native_order(array: Any) -> Any:
    """Return an array or sparse matrix whose numbers have this machine's order of bytes."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def off_torch(values: Any) -> Any:
    """Return a torch tensor without its gradient and on the CPU; whatever else as it is.

    NumPy reads no other.
    """
    return values.detach().cpu() if hasattr(values, "detach") else values


def inverse(order: NDArray[Any]) -> NDArray[Any]:
    """Return the place of each node in an order, in numbers of the same type.

    >>> inverse(np.array([2, 0, 1]))
    array([1, 2, 0])
    """
    place = np.empty(len(order), order.dtype)
    place[order] = np.arange(len(order), dtype=order.dtype)
    return place


def is_order(order: NDArray[Any], n_nodes: int) -> bool:
    """Tell whether an array names each node once."""
    if len(order) != n_nodes or (n_nodes and not 0 <= order.min() <= order.max() < n_nodes):
        return False
    seen = np.zeros(n_nodes, dtype=bool)
    seen[order] = True
    return bool(seen.all())
