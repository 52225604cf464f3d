"""The one seam: something that carries out the whole K-step recursion on a graph."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.graph import Graph
from proptrain.data.indices import with_short_indices
from proptrain.errors import InvalidInputError
from proptrain.kernels import propagate_signal
from proptrain.propagate.normalisation import Normalisation, normalise
from proptrain.propagate.schemes import Scheme


class Engine(Protocol):
    """Carries out propagation; where it keeps its state is its own affair."""

    def propagate(
        self, signal: NDArray[Any], scheme: Scheme, *, fixed: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Return Ā signal, shape (n, c), in the signal's floating-point type.

        Rows in ``fixed`` (indices or a mask) are put back to the signal's after every step.
        """
        ...


class LocalEngine:
    """Propagates in memory, one sparse product a step.

    >>> import numpy as np, scipy.sparse as sp
    >>> from proptrain.propagate.schemes import PPR
    >>> edge = Graph(sp.csr_array([[0, 1], [1, 0]]))
    >>> LocalEngine(edge, "row").propagate(np.array([[1.0], [0.0]]), PPR(alpha=0.5, steps=1))
    array([[0.5],
           [0.5]])
    """

    def __init__(self, graph: Graph, normalisation: Normalisation = "symmetric") -> None:
        self.n_nodes = graph.n_nodes
        self.is_symmetric = normalisation != "row"
        self._operators = {
            np.dtype(np.float64): with_short_indices(normalise(graph, normalisation))
        }

    def propagate(
        self, signal: NDArray[Any], scheme: Scheme, *, fixed: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Return Ā signal, shape (n, c), in the signal's floating-point type."""
        signal = check_signal(signal, self.n_nodes)
        operator = self.operator_in(signal.dtype)
        return propagate_signal(operator, signal, scheme.mixing, fixed)

    @cached_property
    def transposed(self) -> LocalEngine:
        """The engine of Âᵀ, whose propagation is Āᵀ: it carries gradients back."""
        if self.is_symmetric:
            return self
        other = copy.copy(self)
        whole = self.operator_in(np.dtype(np.float64))
        other._operators = {np.dtype(np.float64): sp.csr_array(whole.T)}
        return other

    def operator_in(self, dtype: np.dtype[Any]) -> sp.csr_array:
        """Return Â (n, n) with numbers of this type."""
        # Training asks in float32 every time, so that is kept too, rounded from float64 once.
        if dtype not in self._operators:
            self._operators[dtype] = self._operators[np.dtype(np.float64)].astype(dtype)
        return self._operators[dtype]


def check_signal(signal: NDArray[Any], n_nodes: int) -> NDArray[Any]:
    """Return the signal as a floating-point matrix, or say what is wrong with it."""
    signal = np.asarray(signal)
    if signal.ndim != 2 or signal.shape[0] != n_nodes:
        raise InvalidInputError(
            f"A signal must have shape (n, c) with one row for each of the graph's {n_nodes:,} "
            f"nodes, got shape {signal.shape}."
        )
    if signal.dtype not in (np.float32, np.float64):
        return signal.astype(np.float64)
    return signal
