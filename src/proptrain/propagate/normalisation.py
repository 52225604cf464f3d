"""From adjacency A to the operator Â that one step of propagation multiplies with."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from proptrain.data.degrees import degrees_of
from proptrain.data.graph import Graph
from proptrain.data.mapped import forget, parts_of
from proptrain.errors import GraphError, unknown_name
from proptrain.kernels import ByDegree, PlainOperator

Normalisation: TypeAlias = Literal["symmetric", "symmetric-no-loops", "row"]
"""``symmetric``, the paper's: D~^-1/2 (A+I) D~^-1/2; ``symmetric-no-loops``: D^-1/2 A D^-1/2;
``row``: D^-1 A."""

_PART = 1 << 20
"""Bytes of a graph's rows that are looked at together."""


def check_normalisation(kind: object) -> None:
    """Raise unless it is the name of a normalisation."""
    if kind not in get_args(Normalisation):
        raise unknown_name("The normalisation", kind, get_args(Normalisation))


def plain_operator(graph: Graph, kind: Normalisation = "symmetric") -> PlainOperator:
    """Return the same Â for a graph whose weights are all 1, as factors of rows and columns.

    Its entries lie in the graph's own arrays, and there is a factor for each degree and not for
    each node, so it takes next to no memory.

    >>> pair = plain_operator(Graph(sp.csr_array([[0, 1], [1, 0]])))
    >>> pair.indices, pair.indptr
    (array([1, 0], dtype=int32), array([0, 1, 2], dtype=int32))
    """
    indptr, indices = graph.adjacency.indptr, graph.adjacency.indices
    parts = parts_of(graph.n_nodes, indptr.itemsize, _PART)
    most = max((np.diff(indptr[rows.start : rows.stop + 1]).max() for rows in parts), default=0)
    out, into = (ByDegree(indptr, own) for own in factors_of(np.arange(most + 1.0), kind))
    return PlainOperator(indptr, indices, out, into, kind == "symmetric")


def factors_of(
    degrees: NDArray[np.float64], kind: Normalisation, scale: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what Â's rows and columns are multiplied with, from the degrees in A, all (n,).

    ``scale`` is the `common_scale` of all degrees.

    >>> factors_of(np.array([1.0, 3.0]), "symmetric")[0]
    array([0.70710678, 0.5       ])
    """
    if kind == "row":
        return _power_or_zero(degrees, -1.0) / scale, np.full_like(degrees, scale)
    factors = _power_or_zero(degrees + 1.0 if kind == "symmetric" else degrees, -0.5)
    return factors, factors


def common_scale(degrees: NDArray[np.float64], kind: Normalisation, dtype: DTypeLike) -> float:
    """Return what every column is multiplied with, and every row divided by.

    Sums of a row's weights, which for "row" are taken before they are divided, must stay within
    the type; as a power of 2 it costs no digit. It is 1 for degrees of ordinary size. Raises if
    there is none for all degrees.

    >>> common_scale(np.array([1e-42]), "row", np.float32) == 2.0**126
    True
    """
    largest = float(degrees.max(initial=0))
    if kind != "row" or largest == 0:
        return 1.0
    scale = 1.0
    if not 1e-15 < largest < 1e15:
        scale = float(2.0 ** np.clip(-np.round(np.log2(largest)), -126, 126))
    smallest = float(degrees.min(where=degrees > 0, initial=largest))
    if not 1 / smallest / scale <= float(np.finfo(dtype).max):
        raise GraphError(
            f"Sums of edge weights must be comparable for {np.dtype(dtype)}, but they lie between "
            f"{smallest:.3g} and {largest:.3g}. Drop the lightest edges, or use a symmetric "
            "normalisation."
        )
    return scale


def extremes_of(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the smallest degree above 0 and the largest: a scale depends on no other.

    Of degrees in a file no more is at hand than a part.

    >>> extremes_of(np.array([2.0, 0.0, 7.0]))
    array([2., 7.])
    """
    smallest, largest = np.inf, 0.0
    for rows in parts_of(len(degrees), degrees.itemsize):
        part = degrees[rows]
        smallest = float(part.min(where=part > 0, initial=smallest))
        largest = float(part.max(initial=largest))
        forget(degrees)
    return np.array([min(smallest, largest), largest])


def normalise(graph: Graph, kind: Normalisation = "symmetric") -> sp.csr_array:
    """Return Â (n, n) in float64; a node without neighbours has an empty row unless it has a loop.

    "symmetric" is the paper's Â = D̃^-1/2 (A + I) D̃^-1/2 with D̃_ii = 1 + Σ_j A_ij;
    "symmetric-no-loops" is D^-1/2 A D^-1/2, and "row" is D^-1 A, with D_ii = Σ_j A_ij.

    >>> import scipy.sparse as sp
    >>> path = Graph(sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> normalise(path, "row").toarray()
    array([[0. , 1. , 0. ],
           [0.5, 0. , 0.5],
           [0. , 1. , 0. ]])
    """
    check_normalisation(kind)
    adjacency = graph.adjacency
    entries = (adjacency.indptr, adjacency.indices, adjacency.data)
    factors = factors_of(degrees_of(adjacency.indptr, adjacency.data), kind)
    return numbered_rows(*entries, *factors, loops=kind == "symmetric")


def numbered_rows(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    weights: NDArray[Any] | None,
    out: NDArray[np.float64],
    into: NDArray[np.float64],
    *,
    loops: bool,
    top: int = 0,
) -> sp.csr_array:
    """Return rows of Â, those from ``top`` on, with a number for each entry, in float64.

    ``indptr`` and ``indices`` are of the same rows of A, and may point into more; ``weights`` are
    None if all are 1. ``out`` are the factors of these rows, ``into`` those of all columns.

    >>> half = np.full(2, 0.5)
    >>> entries = (np.array([0, 1]), np.array([0]), None)
    >>> numbered_rows(*entries, half[:1], half, loops=True, top=1).toarray()
    array([[0.25, 0.25]])
    """
    own, shape = slice(int(indptr[0]), int(indptr[-1])), (len(out), len(into))
    data = np.ones(own.stop - own.start) if weights is None else weights[own].astype(np.float64)
    rows = sp.csr_array((data, indices[own], indptr - indptr[0]), shape=shape)
    if loops:
        rows = sp.csr_array(rows + sp.eye_array(*shape, k=top, format="csr"))
    numbers = np.repeat(out, np.diff(rows.indptr))
    numbers *= rows.data
    numbers *= into[rows.indices]
    return sp.csr_array((numbers, rows.indices, rows.indptr), shape=shape)


def _power_or_zero(degrees: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    return np.power(degrees, exponent, out=np.zeros_like(degrees), where=degrees > 0)
