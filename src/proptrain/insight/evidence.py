"""What speaks for a given label, and what against it: three views that do not trust it.

Each returns one row for each labelled node and one column for each class: how much speaks for that
class. A label is in doubt where little speaks for its own class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.splits import Codes, cross_fit
from proptrain.propagate.engine import Engine
from proptrain.propagate.labels import one_hot
from proptrain.propagate.schemes import Scheme

Evidence = NDArray[np.float64]

MOST_COLUMNS, MOST_ENTRIES = 64, 1 << 24
"""Of a block of columns that is propagated at once; so many numbers take 128 MiB."""


def accumulated_weights(
    probabilities: NDArray[Any], known: Codes, engine: Engine, scheme: Scheme
) -> Evidence:
    """Return S_j = Σ_i a_ji f_i,c for each known node j and each class c, shape (L, C).

    For the class of label j it is the weight that all of the label's pseudo-labels together have
    in training, Σ_i w_ij with w_ij = a_ji f_i,h(j) (sections 3.3 and 4): a wrong label counts
    little, since the network does not say the same of the nodes around it. It is also what the
    ensemble tells of node j, before its row is scaled to sum to 1.

    A path of four nodes; the network doubts the label of node 3:

    >>> from proptrain import PPR, LocalEngine, graph_from_edges
    >>> path = LocalEngine(graph_from_edges([(0, 1), (1, 2), (2, 3)]))
    >>> f = np.array([[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.7, 0.3]])
    >>> accumulated_weights(f, np.array([0, 3]), path, PPR()).round(2)
    array([[0.75, 0.16],
           [0.7 , 0.21]])
    """
    spread = engine.propagate(np.asarray(probabilities, dtype=np.float64), scheme)
    return np.asarray(spread[known])


def leave_one_out(
    codes: Codes, known: Codes, n_classes: int, engine: Engine, scheme: Scheme
) -> Evidence:
    """Return what all other labels say of each known node by label propagation, shape (L, C).

    Row j is what propagating the labels without that of j, unclamped, gives at j: exactly Ā Y less
    what j sends back to itself. That takes a column for each label, a block of them at a time.

    A path of four labelled nodes: of the first one only its neighbour speaks, for class 0.

    >>> from proptrain import PPR, LocalEngine, graph_from_edges
    >>> path = LocalEngine(graph_from_edges([(0, 1), (1, 2), (2, 3)]))
    >>> leave_one_out(np.array([0, 0, 1, 1]), np.arange(4), 2, path, PPR(0.5, steps=1)).round(2)
    array([[0.2 , 0.  ],
           [0.2 , 0.17],
           [0.17, 0.2 ],
           [0.  , 0.2 ]])
    """
    start = one_hot(codes, known, n_classes).astype(np.float64)
    from_all = engine.propagate(start, scheme)[known]
    own = _returned(len(codes), known, engine, scheme)[:, None] * start[known]
    return np.maximum(from_all - own, 0)  # else a rounding below zero


def leave_fold_out(
    codes: Codes, known: Codes, folds: Codes, n_classes: int, engine: Engine, scheme: Scheme
) -> Evidence:
    """Return what the labels of all other folds say of each known node, shape (L, C).

    Like `leave_one_out`, in time that does not grow with the number of labels: one propagation for
    each fold. ``folds`` (L,) are those of `proptrain.data.splits.deal_folds`.

    >>> from proptrain import PPR, LocalEngine, graph_from_edges
    >>> path = LocalEngine(graph_from_edges([(0, 1), (1, 2), (2, 3)]))
    >>> codes, known, folds = np.array([0, 0, 1, 1]), np.arange(4), np.array([0, 1, 0, 1])
    >>> leave_fold_out(codes, known, folds, 2, path, PPR(0.5, steps=1)).round(2)
    array([[0.2 , 0.  ],
           [0.2 , 0.17],
           [0.17, 0.2 ],
           [0.  , 0.2 ]])
    """

    def tell(learnt: Codes, nodes: Codes) -> NDArray[Any]:
        start = one_hot(learnt, learnt >= 0, n_classes).astype(np.float64)
        return engine.propagate(start, scheme)[nodes]

    return cross_fit(codes, known, folds, n_classes, tell)


def _returned(n_nodes: int, known: Codes, engine: Engine, scheme: Scheme) -> NDArray[np.float64]:
    """Return a_jj, the share of its own label that comes back to each known node j, shape (L,)."""
    n_columns = max(1, min(MOST_COLUMNS, MOST_ENTRIES // n_nodes))
    shares = np.empty(len(known))
    for first in range(0, len(known), n_columns):  # never all nodes × all labels
        part = known[first : first + n_columns]
        columns = np.arange(len(part))
        alone = np.zeros((n_nodes, len(part)))
        alone[part, columns] = 1
        shares[first + columns] = engine.propagate(alone, scheme)[part, columns]
    return shares
