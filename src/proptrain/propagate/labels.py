"""Step 1: spread the known labels over the graph, once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.mapped import Room, forget
from proptrain.errors import LabelError
from proptrain.kernels import OnStep
from proptrain.propagate.engine import Engine
from proptrain.propagate.schemes import PPR, Scheme


def one_hot(
    labels: NDArray[Any], known: NDArray[Any], n_classes: int, room: Room = np.zeros
) -> NDArray[np.float32]:
    """Return Y (n, C): one-hot rows for the known nodes, zero elsewhere.

    ``room`` makes the matrix, in memory unless told otherwise.

    >>> one_hot(np.array([1, 0, 1]), np.array([0, 1]), 2)
    array([[0., 1.],
           [1., 0.],
           [0., 0.]], dtype=float32)
    """
    labels = np.asarray(labels)
    known = np.asarray(known)
    known = np.flatnonzero(known) if known.dtype == bool else known.astype(np.intp)
    codes = labels[known]
    if len(codes) and not (codes.min() >= 0 and codes.max() < n_classes):
        raise LabelError(
            f"Known nodes must have class codes from 0 to {n_classes - 1}, got values from "
            f"{codes.min()} to {codes.max()}."
        )
    matrix = room((len(labels), n_classes), np.float32)
    matrix[known, codes] = 1
    forget(matrix)
    return matrix


def propagate_labels(
    labels: NDArray[Any],
    known: NDArray[Any],
    n_classes: int,
    engine: Engine,
    scheme: Scheme,
    *,
    clamp: bool = True,
    room: Room = np.zeros,
    on_step: OnStep | None = None,
) -> NDArray[np.float32]:
    """Return the soft labels Ȳ = Ā Y (n, C) of all nodes (section 2.4, appendix D).

    Y <- (1-a) Â Y + a Y0, K times. Clamped, the known rows are put back to their one-hot after
    every step; unclamped, the result is exactly Ā Y0. Rows are *not* distributions: their sum
    is the mass that reached the node, and the loss of step 2 wants it that way.

    A path of four nodes whose ends are labelled:

    >>> from proptrain import PPR, LocalEngine, graph_from_edges
    >>> path = LocalEngine(graph_from_edges([(0, 1), (1, 2), (2, 3)]))
    >>> labels, known = np.array([0, -1, -1, 1]), np.array([0, 3])
    >>> propagate_labels(labels, known, 2, path, PPR(alpha=0.1, steps=10)).round(2)
    array([[1.  , 0.  ],
           [0.64, 0.27],
           [0.27, 0.64],
           [0.  , 1.  ]], dtype=float32)
    """
    known = np.asarray(known)
    start, fixed = one_hot(labels, known, n_classes, room), known if clamp else None
    return engine.propagate(start, scheme, fixed=fixed, on_step=on_step)


def equal_labels(
    labels: NDArray[Any], known: NDArray[Any], n_classes: int, engine: Engine, hops: int
) -> NDArray[np.float32]:
    """Return for each node and class the number of known nodes within that many hops (n, C).

    Soft labels with all weights w_ij = 1: a node i learns from each known j near it alike.

    A path of four nodes whose ends are labelled: each counts for the nodes within one hop.

    >>> from proptrain import PPR, LocalEngine, graph_from_edges
    >>> path = LocalEngine(graph_from_edges([(0, 1), (1, 2), (2, 3)]))
    >>> equal_labels(np.array([0, -1, -1, 1]), np.array([0, 3]), 2, path, hops=1)
    array([[1., 0.],
           [1., 0.],
           [0., 1.],
           [0., 1.]], dtype=float32)
    """
    known = np.flatnonzero(known) if np.asarray(known).dtype == bool else np.asarray(known)
    counts = np.zeros((len(labels), n_classes), dtype=np.float32)
    # A half-way mixture is above zero wherever hops steps lead, with or without loops in Â.
    scheme = PPR(alpha=0.5, steps=hops)
    for start in range(0, len(known), 64):  # a part at a time: never all nodes × all labels
        part = known[start : start + 64]
        reach = np.zeros((len(labels), len(part)), dtype=np.float64)
        reach[part, np.arange(len(part))] = 1
        reached = engine.propagate(reach, scheme) > 0
        counts += reached @ one_hot(labels[part], np.arange(len(part)), n_classes)
    return counts
