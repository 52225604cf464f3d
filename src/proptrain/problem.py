"""What `fit` was given, checked once: features, labels, graph, and who trains and who stops."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from reprlib import repr as in_short
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from proptrain.data.convert import as_graph
from proptrain.data.dataset import Features
from proptrain.data.disk import decoded
from proptrain.data.graph import Graph
from proptrain.data.indices import off_torch
from proptrain.data.knn import knn_graph
from proptrain.data.labels import encode_labels, told_labels
from proptrain.data.sound import check_unmasked
from proptrain.data.splits import hold_out
from proptrain.errors import InvalidInputError, LabelError

USUAL_FRACTION, FEWEST_STOPPING = 0.2, 100
"""Of the labels that decide when to stop, where a classifier leaves it open."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A graph, class codes (n,) with -1 for unlabelled, and the labelled nodes by their role."""

    graph: Graph
    codes: NDArray[np.int64]
    classes: NDArray[Any]
    train: NDArray[np.int64]
    stop: NDArray[np.int64]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)


def pose_problem(
    features: Features | None,
    y: Any,
    graph: Any,
    stopping: Any,
    *,
    stopping_fraction: float | None,
    n_neighbors: int,
    unlabelled: Any,
    random: np.random.RandomState,
) -> Problem:
    """Check labels and graph against each other and decide who trains and who stops."""
    codes, classes = _checked_labels(y, unlabelled)
    if features is not None and features.shape[0] != len(codes):
        raise InvalidInputError(
            f"X and y must have one row for each node, got inconsistent numbers of samples: "
            f"{features.shape[0]:,} and {len(codes):,}. Give y a -1 for every unlabelled node."
        )
    built = _built_graph(graph, features, len(codes), n_neighbors, random)
    train, stop = _roles(codes, classes, stopping, stopping_fraction, random)
    if built.n_edges:
        warn_if_all_labelled(codes)
    return Problem(graph=built, codes=codes, classes=classes, train=train, stop=stop)


def random_of(state: Any) -> np.random.RandomState:
    """Return what draws for a classifier: of its ``random_state``, as scikit-learn reads it.

    >>> random_of(0).randint(10)
    5
    """
    try:
        random: np.random.RandomState = check_random_state(state)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            "random_state must be None, a whole number from 0 to 2³² - 1 or NumPy's RandomState, "
            f"got {state!r}."
        ) from error
    return random


def warn_if_all_labelled(codes: NDArray[np.int64]) -> None:
    """Warn whoever fits if there is nothing left to tell."""
    if (codes >= 0).all():
        warnings.warn(
            f"All {len(codes):,} nodes have a label, so this graph has nothing left to tell; "
            "the model is only of use for new nodes. Mark the nodes in question as unlabelled "
            "(-1, None, NaN), or measure accuracy with `proptrain evaluate`.",
            UserWarning,
            stacklevel=4,
        )


def label_roles(
    y: Any,
    stopping: Any,
    *,
    stopping_fraction: float | None,
    unlabelled: Any,
    random: np.random.RandomState,
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Return what a `Problem` has beside its graph: codes, classes, who trains and who stops."""
    codes, classes = _checked_labels(y, unlabelled)
    return codes, classes, *_roles(codes, classes, stopping, stopping_fraction, random)


def _roles(
    codes: NDArray[np.int64],
    classes: NDArray[Any],
    stopping: Any,
    stopping_fraction: float | None,
    random: np.random.RandomState,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if stopping is None:
        stop = _held_out(codes, stopping_fraction, random)
    else:
        stop = _checked_stopping(stopping, codes)
    train = np.setdiff1d(np.flatnonzero(codes >= 0), stop)
    _check_roles(codes, classes, train, stop)
    return train, stop


def _held_out(
    codes: NDArray[np.int64], fraction: float | None, random: np.random.RandomState
) -> NDArray[np.int64]:
    if fraction is None:
        stop = hold_out(codes, USUAL_FRACTION, random)
        return stop if len(stop) >= FEWEST_STOPPING else stop[:0]
    if not (isinstance(fraction, float | int | np.number) and 0 <= fraction < 1):
        raise InvalidInputError(
            f"stopping_fraction must be at least 0 and below 1, got {fraction!r}."
        )
    return hold_out(codes, fraction, random)


def holds_out(codes: NDArray[np.int64], fraction: float | None) -> bool:
    """Tell whether some of the labels would decide when to stop; how many does not vary.

    >>> holds_out(np.repeat([0, 1], 20), 0.2), holds_out(np.repeat([0, 1], 20), None)
    (True, False)
    """
    return _held_out(codes, fraction, np.random.RandomState(0)).size > 0


def _checked_labels(y: Any, unlabelled: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    values = one_column(y)
    codes, names = encode_labels(values, unlabelled=unlabelled)
    array = np.asarray(values)
    _check_finite(array)
    known = codes >= 0
    if not known.any():
        raise LabelError(
            f"At least two classes must have a labelled node, but none of the {len(codes):,} nodes "
            "has a label: all are -1, None, NaN or empty."
        )
    _check_discrete(array[known].tolist() if array.dtype == object else array[known])
    if len(names) < 2:
        raise LabelError(
            f"At least two classes must have a labelled node, but there is one class only: "
            f"{names[0]!r}."
            + (
                f" (The value {unlabelled!r} marks unlabelled nodes; if it is a class of yours, "
                "choose another marker: --unlabelled, in Python unlabelled=.)"
                if unlabelled is not None
                else " Label nodes of another class too."
            )
        )
    is_array = isinstance(values, np.ndarray)
    keeps_type = is_array and array.dtype.kind in "biufU" and not isinstance(names[0], str | bool)
    classes = np.unique(array[known]) if keeps_type else np.array(names)
    return codes, classes


def accuracy_on(y: Any, told: NDArray[Any], unlabelled: Any, weights: Any = None) -> float:
    """Return the share of the labelled nodes of y (m,) whose label is what is told of them (m,).

    Labels are read as `fit` reads them; ``weights`` (m,) say how much each node counts.

    >>> accuracy_on(["a", None, "b", "b"], np.array(["a", "a", "b", "a"]), unlabelled=-1)
    0.6666666666666666
    """
    codes, names = encode_labels(one_column(y), unlabelled=unlabelled)
    if len(codes) != len(told):
        raise LabelError(
            f"y must have one label for each of the {len(told):,} nodes, got {len(codes):,}."
        )
    known = codes >= 0
    if not known.any():
        raise LabelError(
            f"An accuracy is that of labelled nodes, but none of these {len(codes):,} nodes has a "
            "label. In cross-validation cv=LabelFolds(5) gives each fold some."
        )
    # Classes of several types are text.
    is_text = told.dtype.kind == "U"
    labels = np.array([str(name) if is_text else name for name in names], dtype=object)[codes]
    return float(np.average((labels == told)[known], weights=_counted(weights, known)))


def _counted(weights: Any, known: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """Return how much each labelled node counts."""
    if weights is None:
        return None
    check_unmasked(weights, "sample_weight")
    try:
        given = np.asarray(off_torch(weights))
    except ValueError:  # rows of different lengths
        given = np.array(None)
    if given.shape != known.shape or given.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"sample_weight must be a number for each of the {len(known):,} nodes, shape "
            f"{known.shape}, got shape {given.shape} and dtype {given.dtype}."
        )
    counted = given[known].astype(np.float64)
    if not (np.isfinite(counted).all() and counted.min() >= 0 < counted.max()):
        raise InvalidInputError(
            "sample_weight must be finite, 0 or more, and above 0 for some of the labelled nodes, "
            f"got {counted.min()} to {counted.max()}."
        )
    return counted


def one_column(y: Any) -> Any:
    """Return labels (m,) that can be indexed and told apart: columns are flat, bytes are text."""
    y = told_labels(y)
    try:
        values = y if hasattr(y, "ndim") else np.asarray(y)
    except ValueError as error:
        raise LabelError(
            "A label must be one value for each node (text, a number or a boolean), got lists of "
            "different lengths."
        ) from error
    if values.ndim != 1:
        try:
            return column_or_1d(values, warn=True)
        except ValueError as error:
            raise LabelError(
                f"Labels must be one value for each node, shape (n,): {error} One-hot rows can be "
                "passed as y.argmax(axis=1)."
            ) from error
    kind = getattr(values.dtype, "kind", "")  # which a torch tensor's does not have
    if kind == "S" and (values is y or all(isinstance(v, bytes) for v in y)):
        return decoded(values, "y", LabelError)  # as of files
    # Of a list with text and NaN, NumPy would make the text "nan".
    return np.array(y, dtype=object) if values is not y and kind in ("U", "S") else values


def _check_discrete(known: Any) -> None:
    try:
        check_classification_targets(known)
    except (ValueError, TypeError) as error:
        odd = next(_odd_labels(known), None)
        if odd is not None:
            raise LabelError(
                f"Labels must be text, booleans or whole numbers of 64 bits, got {odd}. Turn them "
                "into text first: str(label) of every label."
            ) from error
        raise LabelError(
            f"{error} Labels must be text, booleans or whole numbers; group a measured number "
            "into classes first."
        ) from error


def _odd_labels(known: Any) -> Iterator[str]:
    """Tell of labels that are no names of classes for scikit-learn: dates, Decimals, huge numbers.

    It takes any such for measured numbers, and says so.
    """
    values = np.asarray(known)
    for label in values.ravel().tolist() if values.dtype == object else ():
        if isinstance(label, int):
            if label.bit_length() >= 64:
                yield f"a whole number of {label.bit_length():,} bits"
        elif not isinstance(label, str | float):
            yield f"{type(label).__name__}, such as {in_short(label)}"


def _check_finite(values: NDArray[Any]) -> None:
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise LabelError(
            "Input y contains infinity or a value too large for dtype('float64'). "
            "Labels must be finite; mark unlabelled nodes with -1, None or NaN."
        )


def _built_graph(
    graph: Any,
    features: Features | None,
    n_nodes: int,
    n_neighbors: int,
    random: np.random.RandomState,
) -> Graph:
    if graph is None:
        return Graph.without_edges(n_nodes)
    if not isinstance(graph, str):
        return as_graph(graph, n_nodes=n_nodes)
    if graph != "knn":
        guess = " Did you mean 'knn'?" if graph.lower() == "knn" else ""
        raise InvalidInputError(
            f"graph must be 'knn', None (no edges), or a graph: an adjacency matrix, edge list, "
            f"NetworkX or PyTorch Geometric graph; got {graph!r}.{guess}"
        )
    if features is None:
        raise InvalidInputError("graph='knn' is built from the features, but X is None.")
    return knn_graph(features, n_neighbors, seed=random.randint(2**31 - 1))


def _checked_stopping(stopping: Any, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    check_unmasked(stopping, "Stopping nodes", LabelError)
    nodes = np.asarray(stopping)
    if nodes.dtype == bool and nodes.shape == codes.shape:
        nodes = np.flatnonzero(nodes)
    if nodes.ndim != 1 or (nodes.size and nodes.dtype.kind not in "iu"):
        raise LabelError(
            f"Stopping nodes must be node indices or a mask over the {len(codes):,} nodes, got an "
            f"array of shape {nodes.shape} and dtype {nodes.dtype}."
        )
    nodes = np.unique(nodes).astype(np.int64)
    if nodes.size and not (nodes[0] >= 0 and nodes[-1] < len(codes)):
        raise LabelError(
            f"Stopping nodes must lie between 0 and {len(codes) - 1}, got {nodes[0]} to "
            f"{nodes[-1]}."
        )
    unlabelled = nodes[codes[nodes] < 0]
    if unlabelled.size:
        raise LabelError(
            f"Stopping nodes must have a label in y, but {len(unlabelled):,} of {len(nodes):,} "
            f"have none, the first is node {unlabelled[0]}."
        )
    return nodes


def _check_roles(
    codes: NDArray[np.int64],
    classes: NDArray[Any],
    train: NDArray[np.int64],
    stop: NDArray[np.int64],
) -> None:
    if not train.size:
        raise LabelError(
            f"Some labelled nodes must be left to train on, but all {len(stop):,} of them are "
            "stopping nodes. Give fewer stopping nodes."
        )
    unseen = np.setdiff1d(codes[stop], codes[train])
    if unseen.size:
        raise LabelError(
            f"Every class must have a training node, but class {classes[unseen[0]].item()!r} has "
            "only stopping nodes: the model would never see it. Leave one of them for training."
        )
