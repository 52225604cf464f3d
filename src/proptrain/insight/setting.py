"""What the paper's proofs speak of: a graph, labels of one split, and a network's scores.

Gradients are those with respect to the scores (n, C): where they are equal, the chain rule makes
them equal for every weight of any network that gives these scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from proptrain.data.dataset import Dataset
from proptrain.data.graph import Graph
from proptrain.data.splits import split_nodes
from proptrain.kernels import sparse_product
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.labels import one_hot
from proptrain.propagate.schemes import PPR

Matrix = NDArray[np.float64]
LossOfLogF = Callable[[torch.Tensor], torch.Tensor]

N_HIDDEN = 64


@dataclass(frozen=True, eq=False)
class Setting:
    """All that the proofs speak of. Class c has its labelled nodes in ``nodes[c]``."""

    graph: Graph
    scheme: PPR
    nodes: tuple[NDArray[np.int64], ...]
    scores: Matrix
    """(n, C): what the network gives; their softmax is f."""
    rows: tuple[Matrix, ...]
    """For each class (m, n): the rows a_j of Ā of its m labelled nodes j."""

    @cached_property
    def engine(self) -> LocalEngine:
        """Carries out the recursion."""
        return LocalEngine(self.graph, "symmetric")

    @cached_property
    def log_f(self) -> torch.Tensor:
        """The logarithm of the network's predictions, (n, C)."""
        return torch.log_softmax(torch.from_numpy(self.scores), dim=1)

    @cached_property
    def f(self) -> Matrix:
        """The network's predictions, (n, C)."""
        return np.asarray(self.log_f.exp().numpy())

    @cached_property
    def soft_labels(self) -> torch.Tensor:
        """Ȳ = Ā Y, unclamped, (n, C)."""
        codes = np.full(self.graph.n_nodes, -1)
        for code, nodes in enumerate(self.nodes):
            codes[nodes] = code
        start = one_hot(codes, np.concatenate(self.nodes), len(self.nodes)).astype(np.float64)
        return torch.from_numpy(self.engine.propagate(start, self.scheme))

    def gradient(self, loss_of: LossOfLogF) -> Matrix:
        """Return the gradient of a loss of log f with respect to the scores, (n, C)."""
        scores = torch.from_numpy(self.scores).requires_grad_()
        (gradient,) = torch.autograd.grad(loss_of(torch.log_softmax(scores, dim=1)), scores)
        return np.asarray(gradient.numpy())


def setting_of(
    dataset: Dataset, *, alpha: float, steps: int, seed: int, n_known: int = 1500
) -> Setting:
    """Draw a split and a two-layer network, and propagate from every labelled node."""
    scheme = PPR(alpha, steps)
    # The training nodes are drawn first, so they are the protocol's without stopping nodes too.
    train = split_nodes(dataset.labels, seed, n_known=n_known, n_stop=0).train
    nodes = tuple(train[dataset.labels[train] == code] for code in range(dataset.n_classes))
    engine = LocalEngine(dataset.graph, "symmetric")
    rows = tuple(_rows_of_propagation(engine, scheme, mine) for mine in nodes)
    return Setting(dataset.graph, scheme, nodes, _drawn_scores(dataset, seed), rows)


def _rows_of_propagation(engine: LocalEngine, scheme: PPR, nodes: NDArray[np.int64]) -> Matrix:
    # Â is symmetric, so Ā is, and its rows are its columns: what one node alone sends out.
    start = np.zeros((engine.n_nodes, len(nodes)))
    start[nodes, np.arange(len(nodes))] = 1
    return np.ascontiguousarray(engine.propagate(start, scheme).T)


def _drawn_scores(dataset: Dataset, seed: int) -> Matrix:
    """Return the scores of a network whose weights are drawn large, so that f is not uniform."""
    random = np.random.RandomState(seed)
    weight1 = random.standard_normal((dataset.features.shape[1], N_HIDDEN))
    weight2 = random.standard_normal((N_HIDDEN, dataset.n_classes))
    features = dataset.features.astype(np.float64)
    by_hidden = sparse_product(features, weight1) if sp.issparse(features) else features @ weight1
    return np.asarray(np.maximum(by_hidden, 0) @ weight2)
