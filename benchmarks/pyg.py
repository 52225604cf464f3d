"""PyTorch Geometric's methods, trained and stopped as ours are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch_geometric.nn import APPNP, CorrectAndSmooth, LabelPropagation, SGConv

from proptrain.data.dataset import Dataset
from proptrain.data.splits import Split
from proptrain.train.stopping import EarlyStopping

MAX_EPOCHS = 2000
PATIENCE = 100
N_HIDDEN = 64


@dataclass(frozen=True)
class Tensors:
    """A data set and a split as PyTorch Geometric wants them."""

    x: torch.Tensor
    edge_index: torch.Tensor
    y: torch.Tensor
    train: torch.Tensor
    stop: torch.Tensor
    n_classes: int


def tensors_of(dataset: Dataset, split: Split, *, sparse: bool) -> Tensors:
    """Return everything as tensors, the features dense as in the library's examples or sparse."""
    features = dataset.features.tocsr()
    x = torch.from_numpy(features.toarray())
    adjacency = dataset.graph.adjacency.tocoo()
    return Tensors(
        x=x.to_sparse_csr() if sparse else x,
        edge_index=torch.from_numpy(np.stack([adjacency.row, adjacency.col]).astype(np.int64)),
        y=torch.from_numpy(dataset.labels.copy()),
        train=torch.from_numpy(split.train.copy()),
        stop=torch.from_numpy(split.stop.copy()),
        n_classes=dataset.n_classes,
    )


class PredictThenPropagate(torch.nn.Module):
    """Two layers, then the library's APPNP; features may be sparse."""

    def __init__(self, n_features: int, n_classes: int, alpha: float) -> None:
        super().__init__()
        self.first = torch.nn.Linear(n_features, N_HIDDEN, bias=False)
        self.second = torch.nn.Linear(N_HIDDEN, n_classes, bias=False)
        self.propagation = APPNP(K=10, alpha=alpha, cached=True)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """Return log probabilities (n, C)."""
        hidden = functional.relu(_dropped(x, self.training) @ self.first.weight.T)
        scores = self.second(functional.dropout(hidden, training=self.training))
        return functional.log_softmax(self.propagation(scores, edge_index), dim=1)


class SimplifiedGCN(torch.nn.Module):
    """The library's SGConv, which computes Â² X once and keeps it."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.first = SGConv(n_features, n_classes, K=2, cached=True)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """Return log probabilities (n, C)."""
        return functional.log_softmax(self.first(x, edge_index), dim=1)


def _dropped(x: torch.Tensor, training: bool) -> torch.Tensor:
    if x.layout != torch.sparse_csr:
        return functional.dropout(x, training=training)
    values = functional.dropout(x.values(), training=training)
    places = x.crow_indices(), x.col_indices()
    return torch.sparse_csr_tensor(*places, values, x.shape, check_invariants=False)


def train(model: torch.nn.Module, data: Tensors, max_epochs: int, patience: int) -> int:
    """Train with cross entropy, evaluate after each epoch, stop early; returns the epochs."""
    first = model.first.lin if isinstance(model.first, SGConv) else model.first
    others = [p for p in model.parameters() if p is not first.weight]
    groups: list[dict[str, Any]] = [{"params": [first.weight], "weight_decay": 0.005}]
    optimiser = torch.optim.Adam([*groups, {"params": others}], lr=0.01)
    stopping = EarlyStopping(patience)
    for epoch in range(max_epochs):
        model.train()
        optimiser.zero_grad()
        functional.nll_loss(
            model(data.x, data.edge_index)[data.train], data.y[data.train]
        ).backward()
        optimiser.step()
        model.eval()
        with torch.no_grad():
            told = model(data.x, data.edge_index)[data.stop]
        loss = float(functional.nll_loss(told, data.y[data.stop]))
        accuracy = float((told.argmax(dim=1) == data.y[data.stop]).float().mean())
        if stopping.is_over(epoch, accuracy, loss, model):
            return epoch + 1
    return max_epochs


def train_appnp(data: Tensors, alpha: float, max_epochs: int, patience: int) -> int:
    """Train APPNP; returns the epochs."""
    torch.manual_seed(0)
    return train(
        PredictThenPropagate(data.x.shape[1], data.n_classes, alpha), data, max_epochs, patience
    )


def train_sgc(data: Tensors, max_epochs: int, patience: int) -> int:
    """Train SGC, the precomputation included; returns the epochs."""
    torch.manual_seed(0)
    return train(SimplifiedGCN(data.x.shape[1], data.n_classes), data, max_epochs, patience)


def spread_labels(data: Tensors, alpha: float) -> torch.Tensor:
    """Return the result of ten steps of the library's label propagation."""
    model = LabelPropagation(num_layers=10, alpha=1 - alpha)
    return model(data.y, data.edge_index, mask=data.train)


def correct_and_smooth(data: Tensors, soft: torch.Tensor, alpha: float) -> torch.Tensor:
    """Return predictions corrected and smoothed by the library."""
    model = CorrectAndSmooth(10, 1 - alpha, 10, 1 - alpha)
    known = data.y[data.train]
    corrected = model.correct(soft, known, data.train, data.edge_index)
    return model.smooth(corrected, known, data.train, data.edge_index)
