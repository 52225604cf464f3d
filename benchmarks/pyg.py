"""PyTorch Geometric's methods, trained and stopped as ours are, on a graph prepared beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch.nn import functional
from torch_geometric.nn import APPNP, CorrectAndSmooth, LabelPropagation, SGConv

from proptrain.data.dataset import Dataset
from proptrain.data.graph import Graph
from proptrain.data.indices import with_short_indices
from proptrain.data.splits import Split
from proptrain.kernels.threads import counting_tiny_as_zero
from proptrain.propagate.normalisation import Normalisation, normalise
from proptrain.system.torch_sparse import csr_tensor, torch_csr
from proptrain.train.stopping import EarlyStopping

MAX_EPOCHS = 2000
PATIENCE = 100
N_HIDDEN = 64

Prepared = tuple[torch.Tensor, torch.Tensor]
"""What the library takes for a graph, and its weights."""


@dataclass(frozen=True)
class Tensors:
    """A data set and a split as PyTorch Geometric wants them."""

    x: torch.Tensor
    trained_on: Prepared
    """The graph, normalised, with loops."""
    judged_on: Prepared
    """The same graph, maybe in another form: what is fast forward need not be so backward."""
    y: torch.Tensor
    train: torch.Tensor
    stop: torch.Tensor
    n_classes: int


def tensors_of(
    dataset: Dataset,
    split: Split,
    *,
    sparse: bool,
    csr_to_train: bool = False,
    csr_to_judge: bool = False,
) -> Tensors:
    """Return all of it as tensors, features and graph in the forms asked for."""
    features = with_short_indices(sp.csr_array(dataset.features))
    return Tensors(
        x=torch_csr(features, shares=True) if sparse else torch.from_numpy(features.toarray()),
        trained_on=prepared(dataset.graph, "symmetric", csr=csr_to_train),
        judged_on=prepared(dataset.graph, "symmetric", csr=csr_to_judge),
        y=torch.from_numpy(dataset.labels.copy()),
        train=torch.from_numpy(split.train.copy()),
        stop=torch.from_numpy(split.stop.copy()),
        n_classes=dataset.n_classes,
    )


def prepared(graph: Graph, kind: Normalisation, *, csr: bool) -> Prepared:
    """Return the normalised graph as a list of edges, or as a sparse matrix of torch.

    The weights come with the matrix too: without them the library normalises it once more.
    """
    operator = normalise(graph, kind).astype(np.float32)
    if csr:
        matrix = torch_csr(with_short_indices(operator), shares=True)
        return matrix, matrix.values()
    entries = operator.tocoo()
    edges = np.stack([entries.row, entries.col]).astype(np.int64)
    return torch.from_numpy(edges), torch.from_numpy(entries.data)


class PredictThenPropagate(torch.nn.Module):
    """Two layers, then the library's APPNP; features may be sparse."""

    def __init__(self, n_features: int, n_classes: int, alpha: float) -> None:
        super().__init__()
        self.first = torch.nn.Linear(n_features, N_HIDDEN, bias=False)
        self.second = torch.nn.Linear(N_HIDDEN, n_classes, bias=False)
        self.propagation = APPNP(K=10, alpha=alpha, normalize=False)

    def forward(self, data: Tensors) -> torch.Tensor:
        """Return log probabilities (n, C)."""
        graph = data.trained_on if self.training else data.judged_on
        hidden = functional.relu(_dropped(data.x, self.training) @ self.first.weight.T)
        scores = self.second(functional.dropout(hidden, training=self.training))
        return functional.log_softmax(self.propagation(scores, *graph), dim=1)


class SimplifiedGCN(torch.nn.Module):
    """The library's SGConv, which computes Â² X once and keeps it."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.convolution = SGConv(n_features, n_classes, K=2, cached=True)
        self.first = self.convolution.lin

    def forward(self, data: Tensors) -> torch.Tensor:
        """Return log probabilities (n, C)."""
        edges, _ = data.trained_on  # with loops; it normalises by itself
        return functional.log_softmax(self.convolution(data.x, edges), dim=1)


def _dropped(x: torch.Tensor, training: bool) -> torch.Tensor:
    if x.layout != torch.sparse_csr:
        return functional.dropout(x, training=training)
    if not training:
        return x
    places = x.crow_indices(), x.col_indices()
    values = functional.dropout(x.values())
    return csr_tensor(*places, values, (x.shape[0], x.shape[1]))


def train(
    model: PredictThenPropagate | SimplifiedGCN, data: Tensors, max_epochs: int, patience: int
) -> int:
    """Train with cross entropy, evaluate after each epoch, stop early; returns the epochs."""
    first = model.first.weight
    others = [weights for weights in model.parameters() if weights is not first]
    groups: list[dict[str, Any]] = [
        {"params": [first], "weight_decay": 0.005},
        {"params": others},
    ]
    optimiser = torch.optim.Adam(groups, lr=0.01, fused=True)
    stopping = EarlyStopping(patience)
    for epoch in range(max_epochs):
        model.train()
        optimiser.zero_grad()
        loss = functional.nll_loss(model(data)[data.train], data.y[data.train])
        torch.autograd.backward(loss)
        optimiser.step()
        model.eval()
        with torch.no_grad():
            told = model(data)[data.stop]
        stop_loss = float(functional.nll_loss(told, data.y[data.stop]))
        accuracy = float((told.argmax(dim=1) == data.y[data.stop]).float().mean())
        if stopping.is_over(epoch, accuracy, stop_loss, model):
            return epoch + 1
    return max_epochs


def train_appnp(data: Tensors, alpha: float, max_epochs: int, patience: int) -> int:
    """Train APPNP; returns the epochs."""
    torch.manual_seed(0)
    model = PredictThenPropagate(data.x.shape[1], data.n_classes, alpha)
    with (
        counting_tiny_as_zero()
    ):  # late epochs are slow without it; torch's other threads keep them
        return train(model, data, max_epochs, patience)


def train_sgc(data: Tensors, max_epochs: int, patience: int) -> int:
    """Train SGC, the precomputation included; returns the epochs."""
    torch.manual_seed(0)
    with counting_tiny_as_zero():
        return train(SimplifiedGCN(data.x.shape[1], data.n_classes), data, max_epochs, patience)


def spread_labels(data: Tensors, graph: Prepared, alpha: float) -> torch.Tensor:
    """Return the result of ten steps of the library's label propagation."""
    model = LabelPropagation(num_layers=10, alpha=1 - alpha)
    edges, weights = graph
    spread: torch.Tensor = model(data.y, edges, mask=data.train, edge_weight=weights)
    return spread


def correct_and_smooth(
    data: Tensors, graph: Prepared, soft: torch.Tensor, alpha: float
) -> torch.Tensor:
    """Return predictions corrected and smoothed by the library."""
    model = CorrectAndSmooth(10, 1 - alpha, 10, 1 - alpha)
    known = (data.y[data.train], data.train)
    smoothed: torch.Tensor = model.smooth(model.correct(soft, *known, *graph), *known, *graph)
    return smoothed
