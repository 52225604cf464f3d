"""When training ends, and which weights it keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from proptrain.data.mapped import Room, largest_of_rows, room_for
from proptrain.errors import LabelError

ReadOut = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class StoppingNodes:
    """What early stopping looks at.

    ``nodes`` (s,) and their class ``codes`` (s,); ``soft_labels`` (n, C), their labels propagated
    as the training labels were. ``read_out`` turns the probabilities f(X) of all nodes into the
    scores whose argmax is judged: the ensemble, or None for f itself (the fast reading). So
    training needs no graph even to stop. ``room`` says where f(X) goes for that, in batches.
    ``rows`` are the nodes with a soft label here, ascending, if it is known which they are.

    Nodes 2 and 3 of four; without a graph, f itself is judged:

    >>> stop = StoppingNodes(np.array([2, 3]), np.array([0, 1]), np.eye(4, 2, dtype=np.float32))
    >>> stop.accuracy(np.array([[1, 0], [1, 0], [1, 0], [0.6, 0.4]], dtype=np.float32))
    0.5
    >>> stop.accuracy_of(np.array([[1.0, 0.0], [0.6, 0.4]])), stop.among(np.array([0, 2, 3])).nodes
    (0.5, array([1, 2]))
    """

    nodes: NDArray[np.int64]
    codes: NDArray[np.int64]
    soft_labels: NDArray[np.float32]
    read_out: ReadOut | None = None
    room: Room = field(default_factory=lambda: room_for)  # a value, and no method
    rows: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if not len(self.nodes):
            raise LabelError("There must be at least one stopping node to judge training by.")
        n_nodes, first, last = self.soft_labels.shape[0], np.min(self.nodes), np.max(self.nodes)
        if not 0 <= first <= last < n_nodes or len(self.codes) != len(self.nodes):
            raise LabelError(
                f"Stopping nodes must be indices from 0 to {n_nodes - 1:,}, as there are rows of "
                f"soft labels, with a class code for each; got {len(self.nodes):,} nodes from "
                f"{first} to {last} and {len(self.codes):,} codes."
            )

    def among(self, rows: NDArray[np.int64]) -> StoppingNodes:
        """Return the same for these rows (r,) alone, numbered anew; they ascend, with all nodes."""
        nodes = np.searchsorted(rows, self.nodes)
        return replace(self, nodes=nodes, soft_labels=self.soft_labels[rows], rows=None)

    def accuracy(self, probabilities: NDArray[np.float32]) -> float:
        """Return the share of stopping nodes that the probabilities (n, C) tell right."""
        scores = probabilities if self.read_out is None else self.read_out(probabilities)
        return float((largest_of_rows(scores, self.nodes) == self.codes).mean())

    def accuracy_of(self, scores: NDArray[Any]) -> float:
        """Return the same for the scores of these nodes alone (s, C)."""
        return float((scores.argmax(axis=1) == self.codes).mean())


class MeanOfEpochs:
    """Nobody says when to stop: all epochs are run, and the mean of the later weights is kept.

    One epoch can differ by several points of accuracy from the next. With nothing to choose the
    best of them by, their mean is better than most.

    >>> ending, model = MeanOfEpochs(first=1), torch.nn.Linear(1, 1, bias=False)
    >>> for epoch, weight in enumerate([9.0, 1.0, 2.0]):
    ...     _ = model.load_state_dict({"weight": torch.tensor([[weight]])})
    ...     assert not ending.is_over(epoch, 1.0, 0.0, model)
    >>> ending.restore(model)
    >>> model.weight.item(), ending.best_epoch
    (1.5, 2)
    """

    has_ended = False

    def __init__(self, first: int) -> None:
        self.first = first
        self.best_epoch = -1
        """The last one that is in the mean."""
        self._n_epochs = 0
        self._mean: dict[str, torch.Tensor] = {}

    def is_over(self, epoch: int, accuracy: float, loss: float, model: Any) -> bool:  # noqa: ARG002
        """Take note of one epoch's weights; it is never over before the last epoch."""
        self.best_epoch = epoch
        if epoch >= self.first:
            self._n_epochs += 1
            for name, value in model.state_dict().items():
                mean = self._mean.setdefault(name, torch.zeros_like(value))
                mean += (value.detach() - mean) / self._n_epochs
        return False

    def restore(self, model: Any) -> None:
        """Put the mean into the model."""
        if self._mean:
            model.load_state_dict(self._mean)


class EarlyStopping:
    """Patience is renewed by a stopping accuracy or loss as good as its best so far, or better.

    Kept are the weights with the best accuracy, among those the ones with the lowest loss; they
    are copied, since a reference would follow every later step.

    >>> stopping, model = EarlyStopping(patience=2), torch.nn.Linear(1, 1)
    >>> [stopping.is_over(epoch, right, 1 + epoch, model) for epoch, right in enumerate([5, 4, 4])]
    [False, False, True]
    >>> stopping.best_epoch
    0
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.best_epoch = -1
        self._best_accuracy = -np.inf
        self._best_loss = np.inf
        self._kept_loss = np.inf
        self._kept_weights: dict[str, torch.Tensor] = {}
        self._epochs_left = patience

    def is_over(self, epoch: int, accuracy: float, loss: float, model: Any) -> bool:
        """Take note of one epoch's result; True if patience has run out."""
        better = accuracy > self._best_accuracy
        tied = accuracy == self._best_accuracy and loss < self._kept_loss
        renewed = accuracy >= self._best_accuracy or loss <= self._best_loss
        if better or tied:
            self.best_epoch, self._kept_loss = epoch, loss
            self._kept_weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
        self._best_accuracy = max(accuracy, self._best_accuracy)
        self._best_loss = min(loss, self._best_loss)
        self._epochs_left = self.patience if renewed else self._epochs_left - 1
        return self.has_ended

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Return the weights kept, and the numbers that decide what is kept next."""
        numbers = {
            "best_epoch": self.best_epoch,
            "best_accuracy": self._best_accuracy,
            "best_loss": self._best_loss,
            "kept_loss": self._kept_loss,
            "epochs_left": self._epochs_left,
        }
        return dict(self._kept_weights), numbers

    def go_on(self, kept: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._kept_weights = {name: torch.tensor(array) for name, array in kept.items()}
        self.best_epoch, self._epochs_left = numbers["best_epoch"], numbers["epochs_left"]
        self._best_accuracy, self._best_loss = numbers["best_accuracy"], numbers["best_loss"]
        self._kept_loss = numbers["kept_loss"]

    @property
    def has_ended(self) -> bool:
        """Whether patience has run out."""
        return self._epochs_left <= 0

    def restore(self, model: Any) -> None:
        """Put the kept weights back into the model."""
        if self._kept_weights:
            model.load_state_dict(self._kept_weights)
