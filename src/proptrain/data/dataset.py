"""What flows in: a graph, its nodes' features and the labels that are known."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.graph import Graph, freeze
from proptrain.data.sound import mask_of, sound_matrix
from proptrain.errors import InvalidInputError, LabelError

Features: TypeAlias = "NDArray[np.float32] | sp.csr_array"

UNLABELLED = -1
MAX_UNNAMED_CLASSES = 1000
"""Codes from here on need class names or as many nodes; a stray huge code must not fill memory."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph with features and labels for its nodes; every array is read-only.

    Shapes: features (n, f) dense or CSR, labels (n,) with class codes 0 … C-1 and -1 for unknown,
    node_ids (n,) anything unique, class_names (C,) what the codes stand for.

    >>> graph = Graph(sp.csr_array([[0, 1], [1, 0]]))
    >>> pair = Dataset(graph, np.ones((2, 3)), np.array([1, -1]), class_names=("ham", "spam"))
    >>> pair.n_nodes, pair.n_classes, pair.class_names[pair.labels[0]]
    (2, 2, 'spam')
    """

    graph: Graph
    features: Features
    labels: NDArray[np.int64]
    node_ids: NDArray[Any] | None = None
    class_names: tuple[Hashable, ...] | None = None
    name: str = "unnamed"

    def __post_init__(self) -> None:
        labels = _checked_codes(self.labels)
        n_classes = int(labels.max(initial=UNLABELLED)) + 1
        if self.class_names is None:
            check_unnamed(labels)
        names = tuple(range(n_classes)) if self.class_names is None else tuple(self.class_names)
        node_ids = np.arange(self.graph.n_nodes) if self.node_ids is None else self.node_ids
        settled = {
            "features": check_features(self.features),
            "labels": labels,
            "node_ids": _one_each(node_ids),
            "class_names": names,
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)
        self._check_sizes()
        self._check_codes(n_classes)
        labels.flags.writeable = False
        settled["node_ids"].flags.writeable = False  # type: ignore[union-attr]

    def _check_sizes(self) -> None:
        assert self.node_ids is not None  # set in __post_init__; here for the type checker
        sizes = {
            "features": self.features.shape[0],
            "labels": len(self.labels),
            "node_ids": len(self.node_ids),
        }
        for name, size in sizes.items():
            if size != self.graph.n_nodes:
                raise InvalidInputError(
                    f"{name} must have one row for each of the graph's {self.graph.n_nodes:,} "
                    f"nodes, got {size:,}."
                )
        if _count_distinct(self.node_ids) != self.graph.n_nodes:
            raise InvalidInputError("node_ids must differ from one another; some occur twice.")

    def _check_codes(self, n_classes: int) -> None:
        assert self.class_names is not None
        if self.labels.min(initial=0) < UNLABELLED or n_classes > len(self.class_names):
            raise LabelError(
                f"Labels must be class codes from 0 to {len(self.class_names) - 1} or -1 for "
                f"unknown, got values from {self.labels.min()} to {self.labels.max()}."
            )

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.n_nodes

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        assert self.class_names is not None
        return len(self.class_names)

    def __repr__(self) -> str:
        """Show name and sizes."""
        return (
            f"Dataset({self.name!r}, {self.n_nodes:,} nodes, {self.graph.n_edges:,} edges, "
            f"{self.features.shape[1]:,} features, {self.n_classes} classes)"
        )


def _one_each(ids: Any) -> NDArray[Any]:
    """Return a copy of ids, shape (n,); tuples and the like are one id each, and stay objects."""
    try:
        array = np.array(ids)
    except ValueError:  # sequences of unequal length
        array = np.array(None)
    return array if array.ndim == 1 else np.fromiter(ids, dtype=object, count=len(ids))


def _count_distinct(ids: NDArray[Any]) -> int:
    if ids.dtype != object:
        return len(np.unique(ids))
    try:
        return len(set(ids.tolist()))  # not sorted: ids of several types have no order
    except TypeError as error:
        raise InvalidInputError(
            "node_ids must be values that can be compared, such as text, numbers or tuples, one "
            f"for each node: {error}. Turn them into text first."
        ) from error


def _checked_codes(labels: Any) -> NDArray[np.int64]:
    codes = np.asarray(labels)
    if codes.ndim != 1 or codes.dtype.kind not in "iu":
        raise LabelError(
            "Labels must be whole class codes, shape (n,), with -1 for unknown; got shape "
            f"{codes.shape} and dtype {codes.dtype}. encode_labels makes them from any labels."
        )
    codes = codes.astype(np.int64)
    codes[mask_of(labels)] = UNLABELLED
    return codes


def most_unnamed_classes(n_nodes: int) -> int:
    """Return how many classes there may be that have no names, whose codes alone tell of them.

    >>> most_unnamed_classes(4)
    1000
    """
    return max(n_nodes, MAX_UNNAMED_CLASSES)


def check_unnamed(codes: NDArray[Any]) -> None:
    """Raise for class codes (n,) so large that there cannot be as many classes."""
    limit = most_unnamed_classes(len(codes))
    if codes.max(initial=UNLABELLED) >= limit:
        raise LabelError(
            f"Labels must be class codes counted from 0, below {limit:,} where the classes have no "
            f"names; got {codes.max()}. encode_labels numbers the classes 0, 1, 2, …"
        )


def check_features(features: Any) -> Features:
    """Return a read-only float32 copy of the features, dense or CSR, or say what is wrong."""
    features = sound_matrix(features, "Features")
    if getattr(features, "ndim", None) != 2:
        raise InvalidInputError(
            "Features must be a matrix with one row for each node (NumPy array or SciPy sparse), "
            f"got {type(features).__name__} of shape {np.shape(features)}."
        )
    if features.dtype.kind not in "biuf":
        raise InvalidInputError(f"Features must be real numbers, got dtype {features.dtype}.")
    with np.errstate(over="ignore"):  # what is too large becomes infinite and is refused below
        if sp.issparse(features):
            matrix = sp.csr_array(features, dtype=np.float32, copy=True)
            matrix.sum_duplicates()
            _check_finite(matrix.data)
            return freeze(matrix)
        dense = np.array(features, dtype=np.float32, order="C")
    _check_finite(dense)
    dense.flags.writeable = False
    return dense


def _check_finite(values: NDArray[np.float32]) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        raise InvalidInputError(
            f"Features must be finite numbers; {int(bad.sum()):,} of {values.size:,} stored values "
            "are NaN or infinite (or too large for float32). Fill or drop them first."
        )


def normalise_rows(features: Features) -> Features:
    """Divide each row by the sum of its absolute values; empty rows stay empty."""
    totals = np.asarray(abs(features).sum(axis=1), dtype=np.float64).ravel()
    factors = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    if sp.issparse(features):
        scaled = sp.csr_array(sp.diags_array(factors) @ features)
        return sp.csr_array(scaled, dtype=np.float32)
    return np.asarray(features * factors[:, None], dtype=np.float32)


def largest_component(dataset: Dataset) -> Dataset:
    """Keep the nodes of the largest connected component, in their order.

    Of n nodes m are left: features (m, f), labels (m,), node_ids (m,) and a graph of m nodes.

    >>> links = sp.csr_array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    >>> data = Dataset(Graph(links), np.ones((3, 1)), np.array([0, 1, 1]))
    >>> largest_component(data).node_ids
    array([0, 1])
    """
    n_components, component = sp.csgraph.connected_components(dataset.graph.adjacency)
    if n_components <= 1:
        return dataset
    kept = np.flatnonzero(component == np.bincount(component).argmax())
    assert dataset.node_ids is not None
    return replace(
        dataset,
        graph=Graph(dataset.graph.adjacency[kept][:, kept]),
        features=dataset.features[kept],
        labels=dataset.labels[kept],
        node_ids=dataset.node_ids[kept],
    )
