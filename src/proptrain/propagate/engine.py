"""The one seam: something that carries out the whole K-step recursion on a graph."""

from __future__ import annotations

import copy
import reprlib
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.graph import Graph
from proptrain.data.indices import with_short_indices
from proptrain.data.mapped import parts_of
from proptrain.errors import InvalidInputError
from proptrain.kernels import OnStep, propagate_plain, propagate_signal
from proptrain.propagate.normalisation import (
    Normalisation,
    check_normalisation,
    normalise,
    plain_operator,
)
from proptrain.propagate.schemes import Scheme

MANY_ENTRIES = 1 << 22
"""From so many entries of Â on, a graph is propagated over without a number for each of them."""
_PART = 1 << 20
"""Weights that are looked at together."""


class Engine(Protocol):
    """Carries out propagation; where it keeps its state is its own affair.

    Of a signal S (n, c) it returns Z_K, where Z_0 = S and Z_k = c_k Â Z_(k-1) + (1 - c_k) S with
    the scheme's ``mixing`` c; for PPR c_k = 1 - alpha (appendix A). That is Ā S, linear in S.

    A path of four nodes; the ends are held fixed:

    >>> import numpy as np
    >>> from proptrain import PPR, graph_from_edges
    >>> engine: Engine = LocalEngine(graph_from_edges([(0, 1), (1, 2), (2, 3)]), "row")
    >>> signal = np.array([[1.0], [0.0], [0.0], [0.0]])
    >>> engine.propagate(signal, PPR(alpha=0.5, steps=2), fixed=np.array([0, 3])).ravel()
    array([1.    , 0.25  , 0.0625, 0.    ])
    """

    def propagate(
        self,
        signal: NDArray[Any],
        scheme: Scheme,
        *,
        fixed: NDArray[Any] | None = None,
        on_step: OnStep | None = None,
    ) -> NDArray[Any]:
        """Return Ā S = Σ_k beta_k Â^k S of a signal S (n, c), in its floating-point type.

        H = S, then H <- c_k Â H + (1 - c_k) S for k = 1 … K, by the scheme's ``mixing``.
        Rows in ``fixed`` (indices or a mask) are put back to the signal's after every step.
        ``on_step`` is told the share of the work that has just been done; together they are 1,
        if there are steps and columns at all.
        """
        ...


class LocalEngine:
    """Propagates in memory, one sparse product a step: Z_k = c_k Â Z_(k-1) + (1 - c_k) S.

    >>> import numpy as np, scipy.sparse as sp
    >>> from proptrain.propagate.schemes import PPR
    >>> edge = Graph(sp.csr_array([[0, 1], [1, 0]]))
    >>> LocalEngine(edge, "row").propagate(np.array([[1.0], [0.0]]), PPR(alpha=0.5, steps=1))
    array([[0.5],
           [0.5]])
    """

    def __init__(self, graph: Graph, normalisation: Normalisation = "symmetric") -> None:
        check_normalisation(normalisation)
        self.n_nodes = graph.n_nodes
        self.is_symmetric = normalisation != "row"
        self._is_transposed = False
        self._graph, self._normalisation = graph, normalisation
        self._operators: dict[np.dtype[Any], sp.csr_array] = {}
        self._plain = plain_operator(graph, normalisation) if _suits_plain(graph) else None

    def propagate(
        self,
        signal: NDArray[Any],
        scheme: Scheme,
        *,
        fixed: NDArray[Any] | None = None,
        on_step: OnStep | None = None,
    ) -> NDArray[Any]:
        """Return Ā S = Σ_k beta_k Â^k S of a signal S (n, c), in its type; see `Engine`."""
        signal, fixed = check_signal(signal, self.n_nodes), check_fixed(fixed, self.n_nodes)
        if self._plain is not None:
            return propagate_plain(self._plain, signal, scheme.mixing, fixed, on_step)
        operator = self.operator_in(signal.dtype)
        return propagate_signal(operator, signal, scheme.mixing, fixed, on_step)

    @cached_property
    def transposed(self) -> LocalEngine:
        """The engine of Âᵀ, whose propagation is Āᵀ: it carries gradients back."""
        if self.is_symmetric:
            return self
        other = copy.copy(self)
        other._is_transposed = not self._is_transposed
        other._operators = {}
        other._plain = None if self._plain is None else self._plain.transposed
        other.__dict__["transposed"] = self  # and not a third one
        return other

    def operator_in(self, dtype: np.dtype[Any]) -> sp.csr_array:
        """Return Â (n, n) with numbers of this type.

        >>> from proptrain import graph_from_edges
        >>> LocalEngine(graph_from_edges([(0, 1)])).operator_in(np.dtype(np.float32)).toarray()
        array([[0.5, 0.5],
               [0.5, 0.5]], dtype=float32)
        """
        # Kept for those who ask for the same type every time, and only what they ask for.
        if dtype not in self._operators:
            operator = normalise(self._graph, self._normalisation)
            operator = sp.csr_array(operator.T) if self._is_transposed else operator
            self._operators[dtype] = with_short_indices(operator.astype(dtype, copy=False))
        return self._operators[dtype]


def is_large(n_nodes: int, n_entries: int) -> bool:
    """Tell whether a graph, with so many entries in A, is one to do without numbers of entries.

    Small graphs have them, in all engines: sums of numbers that are scaled before round otherwise
    than the authors' (see docs/deviations.md), and otherwise than each other.
    """
    return n_nodes + n_entries >= MANY_ENTRIES


def _suits_plain(graph: Graph) -> bool:
    """Tell whether to do without stored numbers: they would be many, and weights are all 1."""
    weights = graph.adjacency.data
    if not is_large(graph.n_nodes, len(weights)):
        return False
    # Part by part: what is freed of one large answer the C library may keep for itself.
    return all((weights[part] == 1).all() for part in parts_of(len(weights), 1, _PART))


def check_signal(signal: NDArray[Any], n_nodes: int) -> NDArray[Any]:
    """Return the signal as a floating-point matrix, or say what is wrong with it."""
    signal = np.asarray(signal)
    if signal.ndim != 2 or signal.shape[0] != n_nodes:
        raise InvalidInputError(
            f"A signal must have shape (n, c) with one row for each of the graph's {n_nodes:,} "
            f"nodes, got shape {signal.shape}."
        )
    if signal.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"A signal must be real numbers, got dtype {signal.dtype}. Propagate the real and the "
            "imaginary part of complex numbers one after the other."
        )
    if signal.dtype not in (np.float32, np.float64):
        return signal.astype(np.float64)
    return signal


def check_fixed(fixed: NDArray[Any] | None, n_nodes: int) -> NDArray[Any] | None:
    """Return the rows to put back, indices or a mask (n,), or say what is wrong with them."""
    if fixed is None:
        return None
    rows = np.asarray(fixed)
    if rows.dtype == bool and rows.shape == (n_nodes,):
        return rows
    if rows.size == 0:
        return np.zeros(0, dtype=np.int64)
    if rows.ndim == 1 and rows.dtype.kind in "iu" and 0 <= rows.min() <= rows.max() < n_nodes:
        return rows.astype(np.int64, copy=False)  # bytes would be a mask to torch
    raise InvalidInputError(
        f"Fixed rows must be node indices from 0 to {n_nodes - 1:,} or a mask over the "
        f"{n_nodes:,} nodes, got {reprlib.repr(rows.tolist())}."
    )


def held_rows(
    fixed: NDArray[Any] | None, n_nodes: int, order: NDArray[Any] | None
) -> NDArray[np.int64]:
    """Return the rows of fixed nodes, ascending; row r is that of node ``order[r]``, or of node r.

    >>> held_rows(np.array([2, 0, 2]), 3, order=np.array([1, 2, 0]))
    array([1, 2])
    """
    fixed = check_fixed(fixed, n_nodes)
    if fixed is None:
        return np.zeros(0, np.int64)
    is_held = np.zeros(n_nodes, dtype=bool)  # a byte a node, where numbers take eight
    is_held[fixed] = True
    return np.flatnonzero(is_held if order is None else is_held[order])
