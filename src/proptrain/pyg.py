"""Step 1 for users of PyTorch Geometric: a transform that adds soft labels to a Data."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.convert import as_graph
from proptrain.data.dataset import check_unnamed
from proptrain.errors import LabelError
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.labels import propagate_labels
from proptrain.propagate.normalisation import Normalisation
from proptrain.propagate.schemes import PPR, Scheme


@dataclass(frozen=True)
class AddSoftLabels:
    """Adds ``soft_labels`` (n, C) to a PyTorch Geometric ``Data``: Ȳ = Ā Y (section 2.4).

    A transform as PyTorch Geometric has them: alone, in ``Compose``, or as a data set's
    ``transform`` or ``pre_transform``. It needs ``edge_index``, the classes ``y`` (n,) from 0, and
    a mask of the nodes whose labels may be used. No other label is looked at, not even for the
    number of classes if you give it. Edges count in both directions, as in `Graph`. The Data that
    was given stays as it is. Train on the result with `PTLoss`.

    Parameters
    ----------
    scheme : Scheme or None
        The propagation; None is ``PPR(alpha=0.1, steps=10)``.
    normalisation : {"symmetric", "symmetric-no-loops", "row"}
        How the adjacency matrix is scaled.
    clamp : bool
        Put the known labels back after every step.
    n_classes : int or None
        C; None is the largest class in ``y`` and one.
    mask : str
        The name of the mask.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> path = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
    >>> path.y = torch.tensor([0, 0, 1, 1])
    >>> path.train_mask = torch.tensor([True, False, False, True])
    >>> AddSoftLabels(PPR(alpha=0.5, steps=1))(path).soft_labels.round(decimals=3)
    tensor([[1.0000, 0.0000],
            [0.2040, 0.0000],
            [0.0000, 0.2040],
            [0.0000, 1.0000]])
    """

    scheme: Scheme | None = None
    normalisation: Normalisation = "symmetric"
    clamp: bool = True
    n_classes: int | None = None
    mask: str = "train_mask"

    def __call__(self, data: Any) -> Any:
        """Return a copy of the Data with ``soft_labels``, on the device of ``y``."""
        import torch

        graph = as_graph(data)
        labels, known = self._labels_of(data, graph.n_nodes)
        n_classes = self.n_classes
        if n_classes is None:
            check_unnamed(labels)
            n_classes = int(labels.max()) + 1
        elif n_classes < 1:
            raise LabelError(
                f"n_classes must be at least 1, got {n_classes}. Leave it out to count the classes."
            )
        engine, scheme = LocalEngine(graph, self.normalisation), self.scheme or PPR()
        spread = propagate_labels(labels, known, n_classes, engine, scheme, clamp=self.clamp)
        changed = copy.copy(data)
        changed.soft_labels = torch.from_numpy(spread).to(data.y.device)
        return changed

    def _labels_of(self, data: Any, n_nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the classes (n,) and the numbers of the nodes whose class is known."""
        y, mask = getattr(data, "y", None), getattr(data, self.mask, None)
        if y is None or y.numel() != n_nodes or y.is_floating_point():
            got = "none" if y is None else f"{y.dtype} of shape {tuple(y.shape)}"
            raise LabelError(
                f"data.y must hold one class, a whole number from 0, for each of the {n_nodes:,} "
                f"nodes, got {got}."
            )
        if mask is None or mask.numel() != n_nodes:
            got = "none" if mask is None else f"shape {tuple(mask.shape)}"
            raise LabelError(
                f"data.{self.mask} must say for each of the {n_nodes:,} nodes whether its label "
                f"may be used, got {got}. torch_geometric.transforms.RandomNodeSplit makes one; "
                "another name can be given as mask=…"
            )
        told = mask.detach().cpu().numpy().reshape(-1)
        if not np.isin(told, (0, 1)).all():  # numbers of nodes, as many as there are nodes
            raise LabelError(
                f"data.{self.mask} must be True or False for each node, got numbers from "
                f"{told.min()} to {told.max()}. To make one of node numbers: "
                f"mask = torch.zeros({told.size}, dtype=torch.bool); mask[numbers] = True."
            )
        known = np.flatnonzero(told)
        if not known.size:
            raise LabelError(f"data.{self.mask} must name a node to learn from, but it names none.")
        return y.detach().cpu().numpy().reshape(-1), known
