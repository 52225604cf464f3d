"""A network in training: makes the step of an epoch, and says what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from proptrain.data.mapped import row_sums, take_rows
from proptrain.kernels import agreement, count_alike
from proptrain.kernels.keeping import KeptMemory
from proptrain.train.backend import Backend
from proptrain.train.loss import finite, soft_label_loss
from proptrain.train.predictor import Network
from proptrain.train.snapshot import named, random_to_json, set_random, unnamed
from proptrain.train.stopping import StoppingNodes
from proptrain.train.weighting import Weighting, weights_of

if TYPE_CHECKING:
    from proptrain.train.loop import TrainSettings


class Learner:
    """A network with all that its training looks at: makes a step, and says what came of it."""

    def __init__(
        self,
        model: Network,
        features: NDArray[np.float32] | sp.csr_array,
        soft_labels: NDArray[np.float32],
        stop: StoppingNodes,
        weighting: Weighting,
        settings: TrainSettings,
        backend: Backend,
        trained_rows: NDArray[np.int64] | None = None,
    ) -> None:
        trained_rows = rows_with_mass(soft_labels, trained_rows)
        judged = judged_rows(trained_rows, stop)

        def measured(rows: NDArray[np.int64]) -> tuple[Forward, Targets]:
            targets = Targets(soft_labels[rows], settings.loss_weight, backend)
            return Forward(model, features, rows, backend), targets

        self._model, self._weighting = model, weighting
        self._judge, self._judged = measured(judged)
        # Without dropout the forward that judges one step is the forward of the next. With it, a
        # step has a forward of its own, in which only the nodes with a soft label count.
        self._is_shared = not model.drops
        self._practise, self._trained = (
            (self._judge, self._judged) if self._is_shared else measured(trained_rows)
        )
        self._stop = stop.among(judged)
        self._stop_targets = Targets(self._stop.soft_labels, settings.loss_weight, backend)
        self._optimiser = backend.optimiser(model, settings.learning_rate, settings.weight_decay)
        self._known: tuple[torch.Tensor, torch.Tensor] | None = None
        self._memory = KeptMemory()

    def step(self, epoch: int) -> float:
        """Make the step of an epoch; returns the loss that it was made with."""
        with self._memory.in_use():
            log_f, f = self._known or self._practise(drop=not self._is_shared)
            self._known = None  # or their memory would be lacking where the next ones are made
            loss = self._trained.loss(log_f, weights_of(self._weighting, f, epoch))
            train_loss = finite(loss.item() + self._optimiser.penalty(), epoch)
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimiser.step()
            return train_loss

    def judge(self) -> tuple[float, float, float]:
        """Return the stopping loss, the agreement with the soft labels, the stopping accuracy."""
        # Reading out keeps nothing: it would have to stand beside the step, which takes more.
        with torch.set_grad_enabled(self._is_shared), self._memory.in_use():
            log_f, f = self._judge()
        self._known = (log_f, f) if self._is_shared else None
        told = f.cpu().numpy()
        stop_loss = self._stop_targets.loss(log_f).item()
        return stop_loss, self._judged.agreement(told), self._stop.accuracy(told)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what the next epoch depends on beside the weights: arrays, and what JSON holds."""
        random = random_to_json(self._model.random)
        return named("optimiser", self._optimiser.state()), {"dropout": random}

    def go_on(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Go on from what `state` returned; what is known of the weights is found out again."""
        if "batches" in numbers:
            raise ValueError("it is of a training in batches")
        self._optimiser.set_state(unnamed("optimiser", arrays))
        set_random(self._model.random, numbers["dropout"])


def rows_with_mass(
    soft_labels: NDArray[np.float32], known: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return the nodes with a soft label, ascending; all are read if it is not known already.

    >>> rows_with_mass(np.array([[0, 0], [0.5, 0], [0, 1]]))
    array([1, 2])
    """
    return np.flatnonzero(row_sums(soft_labels)) if known is None else known


def judged_rows(trained_rows: NDArray[np.int64], stop: StoppingNodes) -> NDArray[np.int64]:
    """Return the nodes whose prediction is looked at after a step: all, if it is read out."""
    if stop.read_out is not None:
        return np.arange(len(stop.soft_labels))
    stop_rows = np.union1d(rows_with_mass(stop.soft_labels, stop.rows), stop.nodes)
    return np.union1d(trained_rows, stop_rows)


class Forward:
    """log f and f of some nodes, from the features that a network needs for them."""

    def __init__(
        self,
        model: Network,
        features: NDArray[np.float32] | sp.csr_array,
        rows: NDArray[np.int64],
        backend: Backend,
    ) -> None:
        self._network, needed = model.narrowed(rows)
        if needed is not None and len(needed) < features.shape[0]:
            features = take_rows(features, needed)
        self._features = backend.features(features)
        self._backend = backend

    def __call__(self, *, drop: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        """Return both, with dropout or without."""
        return self._backend.probabilities(self._network.train(drop)(self._features))


class Targets:
    """Soft labels as tensors, with the loss and the agreement they are measured by."""

    def __init__(
        self, soft_labels: NDArray[np.float32], loss_weight: float, backend: Backend
    ) -> None:
        self.soft_labels = backend.tensor(soft_labels)
        self._scale = loss_weight / self.soft_labels.shape[1]
        likeliest = soft_labels.argmax(axis=1)
        self._likeliest = np.where(soft_labels.sum(axis=1) > 0, likeliest, -1)

    def loss(self, log_f: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        """Return the soft-label loss times lambda1 over the number of classes."""
        return self._scale * soft_label_loss(log_f, self.soft_labels, weights)

    def agreement(self, f: NDArray[np.float32]) -> float:
        """Return the share of nodes with a soft label whose likeliest class is f's as well."""
        return agreement(f, self._likeliest)

    def count_alike(self, f: NDArray[np.float32]) -> tuple[int, int]:
        """Return the number of these nodes, and of all with a soft label."""
        return count_alike(f, self._likeliest)
