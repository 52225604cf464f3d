"""Numbers from hell: features, graphs, weights and labels that a method must survive or refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

N, F = 48, 8
"""Nodes and features of the ordinary problem that all but the large cases are made from."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What a classifier is fitted to, and features of new nodes that it is then asked about."""

    X: Any
    y: Any
    graph: Any
    stopping: Any = None
    new: Any = None


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, made when it is needed."""

    group: str
    name: str
    make: Callable[[], Problem]
    is_large: bool = False


def all_cases() -> Iterator[Case]:
    """Yield every case, the large ones last."""
    for group, cases in {
        "features": {name: _with_features(make) for name, make in FEATURES.items()},
        "features of new nodes": {name: _with_new(FEATURES[name]) for name in NEW},
        "features, graph by knn": {name: _by_knn(FEATURES[name]) for name in KNN},
        "graph": {name: _with_graph(make) for name, make in GRAPHS.items()},
        "edge weights": {name: _with_weights(make) for name, make in WEIGHTS.items()},
        "labels": LABELS,
    }.items():
        for name, make in cases.items():
            yield Case(group, name, make)
    for name, make in LARGE.items():
        yield Case("large", name, make, is_large=True)


def ordinary() -> Problem:
    """Return two groups of nodes that features and edges tell apart, a third of them labelled."""
    random = np.random.RandomState(0)
    truth = np.arange(N) % 2
    X = random.rand(N, F) + truth[:, None]
    alike = truth[:, None] == truth
    adjacency = np.triu(random.rand(N, N) < np.where(alike, 0.2, 0.02), 1)
    return Problem(X, np.where(np.arange(N) < N // 3, truth, -1), sp.csr_array(adjacency * 1.0))


def _with_features(make: Callable[[Any], Any]) -> Callable[[], Problem]:
    return lambda: replace(ordinary(), X=make(ordinary().X))


def _with_new(make: Callable[[Any], Any]) -> Callable[[], Problem]:
    return lambda: replace(ordinary(), new=make(ordinary().X))


def _by_knn(make: Callable[[Any], Any]) -> Callable[[], Problem]:
    return lambda: replace(ordinary(), X=make(ordinary().X), graph="knn")


def _with_graph(make: Callable[[Any], Any]) -> Callable[[], Problem]:
    return lambda: replace(ordinary(), graph=make(ordinary().graph))


def _with_weights(make: Callable[[Any], Any]) -> Callable[[], Problem]:
    def problem() -> Problem:
        graph = sp.coo_array(ordinary().graph)
        weights = np.asarray(make(np.ones(graph.nnz)))
        entries = (weights, (graph.row, graph.col))
        return replace(ordinary(), graph=sp.coo_array(entries, shape=graph.shape))

    return problem


def _set(X: Any, rows: Any, columns: Any, value: float) -> Any:
    changed = np.array(X)
    changed[rows, columns] = value
    return changed


def _read_only(array: Any) -> Any:
    array = np.array(array)
    array.flags.writeable = False
    return array


def _strided(X: Any) -> Any:
    wide = np.full((2 * len(X), 3 * X.shape[1]), np.nan)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def _sparse(X: Any, **parts: Any) -> Any:
    matrix = sp.csr_array(np.where(X > 0.8, X, 0))
    data, indices = parts.get("data", matrix.data), parts.get("indices", matrix.indices)
    return sp.csr_array((data, indices, matrix.indptr), shape=matrix.shape)


def _sparse_filled(X: Any, value: float) -> Any:
    matrix = _sparse(X)
    matrix.data[3] = value
    return matrix


def _damaged(matrix: Any, part: str, place: int, value: int) -> Any:
    """Return a matrix with a wrong number in its ``indices``, ``indptr``, ``row`` or the like."""
    changed = matrix.copy()
    getattr(changed, part)[place] = value
    return changed


FEATURES: dict[str, Callable[[Any], Any]] = {
    "1e30 in one cell of a labelled node": lambda X: _set(X, 0, 0, 1e30),
    "1e30 in one cell of an unlabelled node": lambda X: _set(X, -1, 0, 1e30),
    "3e38 in one cell of an unlabelled node": lambda X: _set(X, -1, 0, 3e38),
    "-1e30 in one cell": lambda X: _set(X, 0, 0, -1e30),
    "1e30 everywhere": lambda X: X * 1e30,
    "3e38 everywhere": lambda X: np.full_like(X, 3e38),
    "both signs of 3e38 in a row": lambda X: 3e38 * np.sign(X - X.mean()),
    "1e300": lambda X: X * 1e300,
    "1e15": lambda X: X * 1e15,
    "columns from 1e-30 to 1e30": lambda X: X * np.logspace(-30, 30, X.shape[1]),
    "denormals of float32 (1e-40)": lambda X: X * 1e-40,
    "denormals of float64 (1e-310)": lambda X: X * 1e-310,
    "1e-30": lambda X: X * 1e-30,
    "all zeros": np.zeros_like,
    "minus zero": lambda X: -0.0 * X,
    "some rows all zeros": lambda X: _set(X, slice(0, 20), slice(None), 0),
    "constant columns": lambda X: np.ones_like(X) * np.arange(X.shape[1]),
    "a constant column of 1e30": lambda X: _set(X, slice(None), 0, 1e30),
    "one column": lambda X: X[:, :1],
    "no column": lambda X: X[:, :0],
    "float16": lambda X: X.astype(np.float16),
    "float16 at its largest": lambda X: np.full_like(X, 65504, dtype=np.float16),
    "float128": lambda X: X.astype(np.longdouble),
    "float128 beyond float64": lambda X: X.astype(np.longdouble) * np.longdouble("1e4000"),
    "int8": lambda X: (X * 10).astype(np.int8),
    "int64 at its largest": lambda X: np.full(X.shape, np.iinfo(np.int64).max),
    "uint64 at its largest": lambda X: np.full(X.shape, np.iinfo(np.uint64).max),
    "booleans": lambda X: X > 1,
    "big-endian float32": lambda X: X.astype(">f4"),
    "big-endian float64": lambda X: X.astype(">f8"),
    "big-endian int32": lambda X: (X * 10).astype(">i4"),
    "not contiguous": _strided,
    "backwards": lambda X: X[::-1, ::-1],
    "Fortran order": np.asfortranarray,
    "read-only": _read_only,
    "a table with a gap": lambda X: pd.DataFrame(_set(X, 0, 0, np.nan)),
    "a table of text": lambda X: pd.DataFrame(X).map(lambda v: f"x{v}"),
    "a list of lists": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
    "complex": lambda X: X.astype(complex),
    "dates": lambda X: (X * 1e9).astype("datetime64[ns]"),
    "NaN": lambda X: _set(X, 3, 2, np.nan),
    "inf": lambda X: _set(X, 3, 2, np.inf),
    "-inf": lambda X: _set(X, -1, 2, -np.inf),
    "one dimension": lambda X: X[:, 0],
    "three dimensions": lambda X: X[:, :, None],
    "no row": lambda X: X[:0],
    "a row too few": lambda X: X[:-1],
    "sparse": _sparse,
    "sparse, no entry": lambda X: sp.csr_array(X.shape),
    "sparse, 1e30": lambda X: _sparse(X) * 1e30,
    "sparse, denormals": lambda X: _sparse(X) * 1e-40,
    "sparse, NaN": lambda X: _sparse_filled(X, np.nan),
    "sparse, inf": lambda X: _sparse_filled(X, np.inf),
    "sparse, stored zeros": lambda X: _sparse_filled(X, 0),
    "sparse, big-endian": lambda X: _sparse(X, data=_sparse(X).data.astype(">f8")),
    "sparse, read-only": lambda X: _sparse(X, data=_read_only(_sparse(X).data)),
    "sparse, float32": lambda X: _sparse(X).astype(np.float32),
    "sparse, int64 numbers": lambda X: _sparse(X).astype(np.int64),
    "sparse, 64-bit indices": lambda X: _sparse(X, indices=_sparse(X).indices.astype(np.int64)),
    "sparse by columns": lambda X: sp.csc_array(_sparse(X)),
    "sparse, an index beyond": lambda X: _damaged(_sparse(X), "indices", 0, 10**6),
    "sparse, an index below 0": lambda X: _damaged(_sparse(X), "indices", 0, -5),
    "sparse, indptr falling": lambda X: _damaged(_sparse(X), "indptr", 3, 10**6),
    "sparse, indptr beyond": lambda X: _damaged(_sparse(X), "indptr", -1, 10**6),
    "sparse by columns, an index beyond": lambda X: _damaged(
        sp.csc_array(_sparse(X)), "indices", 0, 10**6
    ),
    "sparse, repeated entries": lambda X: sp.coo_array(
        (np.ones(90), (np.arange(90) % N, np.zeros(90, int))), shape=X.shape
    ),
}

NEW = ("1e30 everywhere", "3e38 everywhere", "both signs of 3e38 in a row", "1e300", "all zeros",
       "denormals of float32 (1e-40)", "NaN", "inf", "big-endian float32", "Fortran order",
       "not contiguous", "read-only", "float16", "one column", "no row", "sparse",
       "sparse, 1e30", "sparse, an index beyond", "complex")  # fmt: skip
KNN = ("1e30 everywhere", "3e38 everywhere", "1e15", "columns from 1e-30 to 1e30", "all zeros",
       "denormals of float32 (1e-40)", "1e-30", "constant columns", "some rows all zeros",
       "float16", "big-endian float32", "sparse", "sparse, 1e30", "sparse, denormals",
       "sparse, no entry", "sparse, an index beyond", "one column", "NaN")  # fmt: skip


def _star(graph: Any) -> Any:
    n = graph.shape[0]
    return sp.coo_array((np.ones(n - 1), (np.zeros(n - 1, int), np.arange(1, n))), shape=(n, n))


def _pairs(graph: Any) -> Any:
    n = graph.shape[0]
    return sp.coo_array((np.ones(n // 2), (np.arange(0, n, 2), np.arange(1, n, 2))), shape=(n, n))


def _weighed_by_words(graph: Any) -> Any:
    import networkx

    weighed = networkx.from_scipy_sparse_array(graph)
    networkx.set_edge_attributes(weighed, "heavy", "weight")
    return weighed


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "a hub": _star,
    "many components": _pairs,
    "only isolated nodes": lambda graph: sp.csr_array(graph.shape),
    "no graph": lambda _: None,
    "only self-loops": lambda graph: sp.eye_array(graph.shape[0], format="csr"),
    "self-loops of 1e30": lambda graph: graph + 1e30 * sp.eye_array(graph.shape[0]),
    "every edge": lambda graph: np.ones(graph.shape),
    "repeated entries": lambda graph: sp.coo_array(
        (np.ones(200), (np.arange(200) % N, np.arange(1, 201) % N)), shape=graph.shape
    ),
    "a dense array in Fortran order": lambda graph: np.asfortranarray(graph.toarray()),
    "a dense array, big-endian": lambda graph: graph.toarray().astype(">f4"),
    "by columns": sp.csc_array,
    "big-endian": lambda graph: sp.csr_array(
        (graph.data.astype(">f8"), graph.indices, graph.indptr), shape=graph.shape
    ),
    "read-only": lambda graph: sp.csr_array(
        (_read_only(graph.data), _read_only(graph.indices), _read_only(graph.indptr)),
        shape=graph.shape,
    ),
    "an index beyond": lambda graph: _damaged(graph, "indices", 0, 10**6),
    "an indptr that falls": lambda graph: _damaged(graph, "indptr", 3, 10**6),
    "an indptr beyond": lambda graph: _damaged(graph, "indptr", -1, 10**6),
    "a row beyond": lambda graph: _damaged(sp.coo_array(graph), "row", 0, 10**6),
    "booleans": lambda graph: graph.astype(bool),
    "integers": lambda graph: graph.astype(np.int8),
    "complex": lambda graph: graph.astype(complex),
    "a node too few": lambda graph: graph[:-1, :-1],
    "not square": lambda graph: graph[:-1],
    "edges to nowhere": lambda _: [(0, 1), (2, 10**6)],
    "edges below 0": lambda _: [(0, 1), (2, -1), (4, 5)],
    "edges with fractions": lambda _: np.array([(0, 1.5), (1, 2), (3, 4)]),
    "edges with NaN": lambda _: np.array([(0, np.nan), (1, 2), (3, 4)]),
    "edges of float16": lambda _: np.array([(0, 1), (1, 2), (3, 4)], dtype=np.float16),
    "edges, big-endian": lambda _: np.array([(0, 1), (1, 2), (3, 4)], dtype=">i8"),
    "edges of uint64, 2^64 - 1": lambda _: np.array([(0, 1), (2**64 - 1, 2), (3, 4)], np.uint64),
    "text": lambda _: "edges.csv",
    "a NetworkX graph with text for weights": _weighed_by_words,
}


def _some(weights: Any, value: float) -> Any:
    changed = np.array(weights)
    changed[::3] = value
    return changed


WEIGHTS: dict[str, Callable[[Any], Any]] = {
    "1e-30": lambda w: w * 1e-30,
    "1e30": lambda w: w * 1e30,
    "1e-30 beside 1e30": lambda w: _some(w * 1e30, 1e-30),
    "1e-30 beside 1": lambda w: _some(w, 1e-30),
    "1e30 beside 1": lambda w: _some(w, 1e30),
    "3e38, sums beyond float32": lambda w: w * 3e38,
    "1e-44, denormals": lambda w: w * 1e-44,
    "1e-44 beside 3e38": lambda w: _some(w * 3e38, 1e-44),
    "1e-300, zero in float32": lambda w: w * 1e-300,
    "1e300": lambda w: w * 1e300,
    "zero": lambda w: w * 0,
    "some zero": lambda w: _some(w, 0),
    "negative": lambda w: _some(w, -1),
    "NaN": lambda w: _some(w, np.nan),
    "inf": lambda w: _some(w, np.inf),
    "rounded to float16": lambda w: w.astype(np.float16).astype(np.float32),
    "int64 at its largest": lambda w: np.full(len(w), np.iinfo(np.int64).max),
}


def _labelled(make: Callable[[Any], Any], stopping: Any = None) -> Callable[[], Problem]:
    def problem() -> Problem:
        base = ordinary()
        return replace(base, y=make(base.y), stopping=stopping)

    return problem


def _classes(n_classes: int, n: int, f: int = 16) -> Callable[[], Problem]:
    def problem() -> Problem:
        random = np.random.RandomState(0)
        truth = np.arange(n) % n_classes
        ends = random.randint(n, size=(2 * n, 2))
        graph = sp.coo_array((np.ones(len(ends)), ends.T), shape=(n, n))
        known = np.arange(n) < 1.1 * n_classes  # at least one of each, and some to stop by
        return Problem(random.rand(n, f), np.where(known, truth, -1), graph)

    return problem


LABELS: dict[str, Callable[[], Problem]] = {
    "a class without a training node": _labelled(
        lambda y: np.where(np.arange(N) == 5, 7, y), stopping=[4, 5]
    ),
    "one label a class": _labelled(lambda y: np.where(np.arange(N) < 2, y, -1)),
    "all nodes labelled": _labelled(lambda _: np.arange(N) % 2),
    "one label of a class, all others of another": _labelled(
        lambda _: np.where(np.arange(N) == 0, 1, 0)
    ),
    "one class": _labelled(lambda y: np.where(y == 1, 1, -1)),
    "no label": _labelled(lambda y: np.full_like(y, -1)),
    "booleans": _labelled(lambda y: [None if code < 0 else bool(code) for code in y]),
    "whole floats and NaN": _labelled(lambda y: np.where(y < 0, np.nan, y)),
    "fractions": _labelled(lambda y: np.where(y < 0, np.nan, y + 0.5 * np.arange(N))),
    "inf": _labelled(lambda y: np.where(y == 1, np.inf, y)),
    "big-endian": _labelled(lambda y: y.astype(">i4")),
    "uint8": _labelled(lambda y: np.where(y < 0, 255, y).astype(np.uint8)),
    "2^62": _labelled(lambda y: np.where(y < 0, -1, y + 2**62)),
    "text with markup": _labelled(lambda y: np.array(["<b>", "=1+1", ""])[y]),
    "read-only, backwards": _labelled(lambda y: _read_only(y)[::-1]),
    "one column": _labelled(lambda y: y[:, None]),
    "one-hot rows": _labelled(lambda y: np.eye(2)[y]),
    "too few": _labelled(lambda y: y[:-1]),
    "stopping nodes without a label": _labelled(lambda y: y, stopping=[N - 1]),
    "stopping nodes that are not there": _labelled(lambda y: y, stopping=[10**6]),
    "every label a stopping node": _labelled(lambda y: y, stopping=np.arange(N // 3)),
    "50 classes": _classes(50, 200),
    "1,000 classes": _classes(1_000, 1_200),
}


def _hub(n: int) -> Problem:
    y = np.where(np.arange(n) < 40, np.arange(n) % 2, -1)
    X = np.random.RandomState(0).rand(n, 4).astype(np.float32)
    return Problem(X, y, _star(sp.csr_array((n, n))))


def _components(n: int) -> Problem:
    problem = _hub(n)
    return replace(problem, graph=_pairs(sp.csr_array((n, n))))


LARGE: dict[str, Callable[[], Problem]] = {
    "5,000 classes": _classes(5_000, 5_500),
    "a hub of 10^6 neighbours": lambda: _hub(1_000_001),
    "10^5 components": lambda: _components(200_000),
    "10^6 isolated nodes": lambda: replace(_hub(1_000_000), graph=None),
}
