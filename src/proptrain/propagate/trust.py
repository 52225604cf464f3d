"""How far each known label can be trusted, by what the other labels say of its node."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.dataset import UNLABELLED
from proptrain.data.splits import Codes, cross_fit, deal_folds
from proptrain.propagate.engine import Engine
from proptrain.propagate.labels import propagate_labels
from proptrain.propagate.schemes import Scheme


def told_by_others(
    codes: NDArray[Any],
    known: NDArray[np.int64],
    n_classes: int,
    engine: Engine,
    scheme: Scheme,
    *,
    clamp: bool = True,
    n_folds: int = 5,
    seed: int = 0,
) -> NDArray[np.float32]:
    """Return the soft label (k, C) that each known node gets from labels outside its fold.

    The known nodes of each class are dealt out to the folds; a fold is left out while the others'
    labels are propagated, so no label speaks for itself. It takes a propagation for each fold,
    however many labels there are. Of the only label of its class nothing is told.

    Two pairs; what each node's fellow says of it:

    >>> from proptrain import PPR, LocalEngine, graph_from_edges
    >>> pairs = LocalEngine(graph_from_edges([(0, 1), (2, 3)]))
    >>> codes, known = np.array([0, 0, 1, 1]), np.arange(4)
    >>> told_by_others(codes, known, 2, pairs, PPR(alpha=0.5, steps=1), n_folds=2)
    array([[0.25, 0.  ],
           [0.25, 0.  ],
           [0.  , 0.25],
           [0.  , 0.25]], dtype=float32)
    """
    folds = deal_folds(codes[known], n_folds, np.random.RandomState(seed))

    def tell(learnt: Codes, nodes: Codes) -> NDArray[Any]:
        learnt_from = np.flatnonzero(learnt != UNLABELLED)
        soft_labels = propagate_labels(learnt, learnt_from, n_classes, engine, scheme, clamp=clamp)
        return soft_labels[nodes]

    return cross_fit(codes, known, folds, n_classes, tell).astype(np.float32)


def trust_labels(
    told: NDArray[np.float32], codes: NDArray[Any], *, n_others_half: float = 3.0
) -> NDArray[np.float32]:
    """Return how far each known label can be trusted (k,), above 0 and at most 1.

    ``told`` (k, C) is what the others say of each node, ``codes`` (k,) the label that it was given.
    A label that no other class outdoes has 1; otherwise the root of its class's mass by the
    other's, as far as its class has other labels that could have spoken for it
    (``n_others_half``: with so many of them half as far).

    Node 3 is given class 1, and the others say 0:

    >>> told = np.array([[1, 0], [1, 0], [0, 1], [1, 0]], dtype=np.float32)
    >>> trust_labels(told, np.array([0, 0, 1, 1])).round(2)
    array([1.  , 1.  , 1.  , 0.74], dtype=float32)
    """
    rows = np.arange(len(codes))
    own = told[rows, codes]
    others = told.copy()
    others[rows, codes] = 0
    # Next to no mass says next to nothing, whichever way it leans. The mean is for graphs in
    # pieces, where most labels hear nothing of others.
    mass = told.sum(axis=1)
    doubt = 0.1 * max(np.median(mass), mass.mean() / 1000) + np.finfo(np.float32).tiny
    share = (own + doubt) / (np.maximum(own, others.max(axis=1)) + doubt)
    n_others = np.bincount(codes)[codes] - 1
    # The root, because a label may well be right against its neighbours: on clean labels doubts
    # cost more than they bring.
    return np.asarray(np.sqrt(share) ** (n_others / (n_others + n_others_half)), dtype=np.float32)
