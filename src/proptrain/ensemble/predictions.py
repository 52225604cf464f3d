"""Step 3: spread the predictions over the graph, once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.mapped import row_sums
from proptrain.propagate.engine import Engine
from proptrain.propagate.schemes import Scheme


def ensemble_predictions(
    probabilities: NDArray[Any], engine: Engine, scheme: Scheme
) -> NDArray[Any]:
    """Return Ŷ = Ā f(X), shape (n, C): H0 = f(X), K times H <- (1-a) Â H + a H0.

    Shapes: probabilities and result (n, C). A path of four nodes, one of them unsure:

    >>> from proptrain import PPR, LocalEngine, graph_from_edges
    >>> path = LocalEngine(graph_from_edges([(0, 1), (1, 2), (2, 3)]))
    >>> f = np.array([[1, 0], [0.4, 0.6], [1, 0], [1, 0]])
    >>> ensemble_predictions(f, path, PPR(alpha=0.1, steps=10)).argmax(axis=1)
    array([0, 0, 0, 0])
    """
    return engine.propagate(probabilities, scheme)


def to_distributions(scores: NDArray[Any], fallback: NDArray[Any]) -> NDArray[np.float64]:
    """Scale each row of non-negative scores to sum to 1; empty rows take the fallback's.

    ``fallback`` is (n, C) or (C,), of distributions. A node whose row is empty was reached by
    nothing; without a fallback it would silently become class 0, or NaN.

    >>> to_distributions(np.array([[3.0, 1.0], [0.0, 0.0]]), np.array([0.5, 0.5]))
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """
    scores = np.asarray(scores, dtype=np.float64)
    mass = row_sums(scores)[:, None]
    return np.where(mass > 0, scores / np.where(mass > 0, mass, 1.0), fallback)


def spread_or_own(scores: NDArray[Any], own: NDArray[Any]) -> NDArray[np.float64]:
    """Return the scores as distributions, and a node's own prediction where nothing arrives.

    >>> spread_or_own(np.array([[3.0, 1.0], [0.0, 0.0]]), np.array([[0.5, 0.5], [0.2, 0.8]]))
    array([[0.75, 0.25],
           [0.2 , 0.8 ]])
    """
    told = np.where(row_sums(scores)[:, None] > 0, scores, own)
    return to_distributions(told, told)
