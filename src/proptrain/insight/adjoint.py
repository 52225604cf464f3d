"""What arrives at one node: its row of the propagation, found backwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def received_weights(
    operator: sp.csr_array,
    mixing: tuple[float, ...],
    node: int,
    fixed: NDArray[Any] | None = None,
) -> sp.csr_array:
    """Return W (K+1, n): the share of each node's signal that arrives at a node in k steps.

    The recursion H <- c_k Â H + (1 - c_k) S is walked back from its last step: of what stands at
    a node, 1 - c_k was its own signal and the rest came from its neighbours by Â. A fixed row is
    put back to its signal after every step, so all that stands there is its own: a way back ends
    at the first fixed row it comes to. K sparse products, of what has been reached so far. For
    every signal S, ``W.sum(axis=0) @ S`` is the row that `Engine.propagate` gives the node.

    >>> path = sp.csr_array([[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]])
    >>> received_weights(path, (0.5, 0.5), 0).toarray()
    array([[0.5  , 0.   , 0.   ],
           [0.   , 0.25 , 0.   ],
           [0.125, 0.   , 0.125]])
    >>> received_weights(path, (0.5, 0.5), 0, fixed=np.array([1])).toarray()
    array([[0.5, 0. , 0. ],
           [0. , 0.5, 0. ],
           [0. , 0. , 0. ]])
    """
    passes = np.ones(operator.shape[0])
    if fixed is not None:
        passes[fixed] = 0
    front = sp.csr_array(([1.0], ([0], [node])), shape=(1, operator.shape[0]))
    arrived = []
    for neighbours in reversed(mixing):
        onward = neighbours * front.data * passes[front.indices]
        arrived.append(_with_data(front, front.data - onward))
        front = sp.csr_array(_with_data(front, onward) @ operator)
        front.eliminate_zeros()
    return sp.csr_array(sp.vstack([*arrived, front], format="csr"))


def _with_data(row: sp.csr_array, data: NDArray[np.float64]) -> sp.csr_array:
    changed = sp.csr_array((data, row.indices, row.indptr), shape=row.shape, copy=True)
    changed.eliminate_zeros()
    return changed
