"""Train a model of PyTorch Geometric by the three steps, on the graph that ships with proptrain.

    pip install -c constraints.txt '.[pyg]'
    python examples/pyg.py

Prints the accuracy on the nodes whose labels were hidden, before and after step 3.
"""

from __future__ import annotations

import argparse

import torch
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, MLP
from torch_geometric.transforms import Compose, RandomNodeSplit

from proptrain import AddSoftLabels, PTLoss, dataset_to_pyg, load_dataset


def load(seed: int) -> Data:
    """Return Cora with 20 training labels per class, 500 stopping nodes, and soft labels."""
    torch.manual_seed(seed)
    cora = dataset_to_pyg(load_dataset("cora"))
    cora.x = cora.x.to_dense()  # what PyG's layers take
    split = RandomNodeSplit("random", num_train_per_class=20, num_val=500)
    return Compose([split, AddSoftLabels()])(cora)  # step 1


def train(data: Data, epochs: int) -> torch.Tensor:
    """Return f(X), shape (n, C), of an MLP trained on the soft labels; it never sees the edges."""
    model = MLP([data.num_features, 64, data.soft_labels.shape[1]], dropout=0.0, norm=None)
    decayed, rest = model.lins[0], model.lins[1]
    optimiser = torch.optim.Adam(
        [{"params": decayed.parameters(), "weight_decay": 0.005}, {"params": rest.parameters()}],
        lr=0.1,
    )
    loss = PTLoss()
    best, kept = -1.0, torch.empty(0)
    for epoch in range(epochs):
        scores = model(data.x)
        f = scores.detach().softmax(dim=1)
        right = accuracy(f, data, data.val_mask)
        if right > best:
            best, kept = right, f
        optimiser.zero_grad()
        loss(scores, data.soft_labels, epoch).backward()  # step 2
        optimiser.step()
    return kept


def accuracy(told: torch.Tensor, data: Data, mask: torch.Tensor) -> float:
    """Return the share of these nodes that are told right."""
    return float((told.argmax(dim=1) == data.y)[mask].float().mean())


def run(epochs: int = 200, seed: int = 0) -> tuple[float, float]:
    """Return the accuracy on the hidden nodes of the network alone, and of the ensemble."""
    data = load(seed)
    f = train(data, epochs)
    ensemble = APPNP(K=10, alpha=0.1)(f, data.edge_index)  # step 3
    return accuracy(f, data, data.test_mask), accuracy(ensemble, data, data.test_mask)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--epochs", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    alone, together = run(**vars(options.parse_args()))
    print(f"network alone {alone:.1%}, ensemble {together:.1%} of the hidden labels told right")
