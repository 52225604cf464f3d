"""The one epoch loop: train a predictor on soft labels, without a graph in sight."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from proptrain.errors import InvalidInputError, TrainingError
from proptrain.kernels import agreement
from proptrain.kernels.threads import counting_tiny_as_zero
from proptrain.train.backend import KERNELS, Backend
from proptrain.train.loss import soft_label_loss
from proptrain.train.predictor import Network, Predictor
from proptrain.train.products import FeatureMatrix, class_probabilities
from proptrain.train.stopping import EarlyStopping, StoppingNodes
from proptrain.train.weighting import Adaptive, Weighting, gamma_of

Weights: TypeAlias = dict[str, NDArray[np.float32]]
"""By name; of a `Predictor` weight1 (f, h), bias1 (h,), weight2 (h, C) and bias2 (C,)."""

OnEpoch: TypeAlias = Callable[[int, float], None]

NewNetwork: TypeAlias = Callable[[torch.Generator], Network]


@dataclass(frozen=True)
class TrainSettings:
    """The settings of step 2; the defaults are the paper's for PTA."""

    n_hidden: int = 64
    dropout: float = 0.0
    bias: bool = True
    learning_rate: float = 0.1
    loss_weight: float = 0.05
    """lambda1, the factor of the soft-label loss."""
    weight_decay: float = 0.005
    """Factor of ||W1||² / 2, on the first layer only."""
    max_epochs: int = 2000
    patience: int = 100

    def __post_init__(self) -> None:
        count = "a whole number, at least 1"
        limits = {
            "n_hidden": (_is_count(self.n_hidden), count),
            "max_epochs": (_is_count(self.max_epochs), count),
            "patience": (_is_count(self.patience), count),
            "dropout": (_is_in(0, self.dropout, 1), "at least 0 and below 1"),
            "learning_rate": (_is_in(1e-30, self.learning_rate), "above 0"),
            "loss_weight": (_is_in(1e-30, self.loss_weight), "above 0"),
            "weight_decay": (_is_in(0, self.weight_decay), "at least 0"),
        }
        for name, (holds, wanted) in limits.items():
            if not holds:
                raise InvalidInputError(f"{name} must be {wanted}, got {getattr(self, name)!r}.")


def _is_count(value: Any) -> bool:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_whole and int(value) >= 1


def _is_in(low: float, value: Any, high: float = math.inf) -> bool:
    return isinstance(value, Real) and low <= float(value) < high


@dataclass(frozen=True)
class History:
    """One number for each epoch that was run."""

    train_loss: tuple[float, ...] = ()
    """Loss that the epoch's step was made with, regularisation included."""
    stop_loss: tuple[float, ...] = ()
    """Unweighted soft-label loss of the stopping nodes after the step."""
    train_accuracy: tuple[float, ...] = ()
    """Share of the nodes with a soft label for which f finds its most likely class."""
    stop_accuracy: tuple[float, ...] = ()
    """Accuracy on the stopping nodes after the step."""
    gamma: tuple[float, ...] = ()
    """Exponent of the weighting."""


@dataclass(frozen=True, eq=False)
class Trained:
    """The best weights of a predictor, and how it came to them."""

    weights: Weights
    best_epoch: int
    history: History


def train_predictor(
    features: NDArray[np.float32] | sp.csr_array,
    soft_labels: NDArray[np.float32],
    stop: StoppingNodes,
    *,
    weighting: Weighting | None = None,
    settings: TrainSettings | None = None,
    seed: int = 0,
    initial_weights: Weights | None = None,
    network: NewNetwork | None = None,
    backend: Backend = KERNELS,
    on_epoch: OnEpoch | None = None,
) -> Trained:
    """Minimise lambda1/C · -Σ Ȳ f^gamma log f + weight_decay · ||W1||² / 2 (section 4.2).

    Shapes: features (n, f), soft_labels (n, C). ``seed`` decides the initial weights and the
    dropout, and nothing else does; ``initial_weights`` replaces the drawn ones. ``network`` makes
    another network than the two layers of `Predictor`, for example one whose scores depend on
    other nodes too. ``backend`` computes. ``on_epoch`` is told each
    epoch's number and stopping accuracy, for a progress bar.
    """
    settings, weighting = settings or TrainSettings(), weighting or Adaptive()
    _check_shapes(features, soft_labels, stop.soft_labels)
    sizes = features.shape[1], soft_labels.shape[1]
    if network is not None and backend is not KERNELS:
        raise InvalidInputError("Other networks than the two layers train with the kernels alone.")
    new = network or _two_layers(backend, *sizes, settings)
    model = _with_weights(new(torch.Generator().manual_seed(seed)), initial_weights)
    learner = _Learner(model, features, soft_labels, stop, weighting, settings, backend)
    stopping, epochs = EarlyStopping(settings.patience), []
    with _one_thread_if(sp.issparse(features)), counting_tiny_as_zero():
        for epoch in range(settings.max_epochs):
            train_loss = learner.step(epoch)
            stop_loss, agreed, accuracy = learner.judge()
            gamma = gamma_of(weighting, epoch)
            epochs.append((train_loss, stop_loss, agreed, accuracy, gamma))
            if on_epoch is not None:
                on_epoch(epoch, accuracy)
            if stopping.is_over(epoch, accuracy, stop_loss, model):
                break
    stopping.restore(model)
    weights = {name: value.cpu().numpy().copy() for name, value in model.state_dict().items()}
    return Trained(weights, stopping.best_epoch, History(*zip(*epochs, strict=True)))


class _Learner:
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
    ) -> None:
        trained_rows = np.flatnonzero(soft_labels.sum(axis=1))
        judged_rows = _judged_rows(trained_rows, stop)

        def measured(rows: NDArray[np.int64]) -> tuple[_Forward, _Targets]:
            targets = _Targets(soft_labels[rows], settings.loss_weight, backend)
            return _Forward(model, features, rows, backend), targets

        self._weighting = weighting
        self._judge, self._judged = measured(judged_rows)
        # Without dropout the forward that judges one step is the forward of the next. With it, a
        # step has a forward of its own, in which only the nodes with a soft label count.
        self._is_shared = not model.drops
        self._practise, self._trained = (
            (self._judge, self._judged) if self._is_shared else measured(trained_rows)
        )
        self._stop = stop.among(judged_rows)
        self._stop_targets = _Targets(self._stop.soft_labels, settings.loss_weight, backend)
        self._optimiser = backend.optimiser(model, settings.learning_rate, settings.weight_decay)
        self._known: tuple[torch.Tensor, torch.Tensor] | None = None

    def step(self, epoch: int) -> float:
        """Make the step of an epoch; returns the loss that it was made with."""
        log_f, f = self._known or self._practise(drop=not self._is_shared)
        loss = self._trained.loss(log_f, self._weighting(f, epoch))
        train_loss = _finite(loss.item() + self._optimiser.penalty(), epoch)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        return train_loss

    def judge(self) -> tuple[float, float, float]:
        """Return the stopping loss, the agreement with the soft labels, the stopping accuracy."""
        with torch.set_grad_enabled(self._is_shared):
            log_f, f = self._judge()
        self._known = (log_f, f) if self._is_shared else None
        told = f.cpu().numpy()
        stop_loss = self._stop_targets.loss(log_f).item()
        return stop_loss, self._judged.agreement(told), self._stop.accuracy(told)


def _judged_rows(trained_rows: NDArray[np.int64], stop: StoppingNodes) -> NDArray[np.int64]:
    """Return the nodes whose prediction is looked at after a step: all, if it is read out."""
    if stop.read_out is not None:
        return np.arange(len(stop.soft_labels))
    stop_rows = np.union1d(np.flatnonzero(stop.soft_labels.sum(axis=1)), stop.nodes)
    return np.union1d(trained_rows, stop_rows)


class _Forward:
    """log f and f of some nodes, from the features that a network needs for them."""

    def __init__(
        self,
        model: Network,
        features: NDArray[np.float32] | sp.csr_array,
        rows: NDArray[np.int64],
        backend: Backend,
    ) -> None:
        self._network, needed = model.narrowed(rows)
        all_of_them = needed is None or len(needed) == features.shape[0]
        self._features = backend.features(features if all_of_them else features[needed])
        self._backend = backend

    def __call__(self, *, drop: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        return self._backend.probabilities(self._network.train(drop)(self._features))


def predict_probabilities(
    weights: Weights, features: NDArray[np.float32] | sp.csr_array
) -> NDArray[np.float32]:
    """Return f(X), shape (n, C), of the network with these weights."""
    model = Predictor(
        *(weights["weight1"].shape[0], weights["weight2"].shape[1]),
        n_hidden=weights["weight1"].shape[1],
        bias="bias1" in weights,
        generator=torch.Generator(),
    )
    return probabilities_told(model, weights, features)


def probabilities_told(
    network: Network, weights: Weights, features: NDArray[np.float32] | sp.csr_array
) -> NDArray[np.float32]:
    """Return what a network with these weights says of all nodes, shape (n, C)."""
    model = _with_weights(network, weights).eval()
    with torch.no_grad():
        _, f = class_probabilities(model(FeatureMatrix(features)))
    return np.asarray(f.numpy())


@contextmanager
def _one_thread_if(sparse: bool) -> Iterator[None]:
    """Let torch compute in one thread: beside a sparse first layer its share is too small.

    Threads that wait for each other at every small step cost more than they bring, and on
    a machine that others use as well they can cost many times more.
    """
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1 if sparse else n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


class _Targets:
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


def _finite(loss: float, epoch: int) -> float:
    if not math.isfinite(loss):
        raise TrainingError(
            f"Training must have a finite loss, but in epoch {epoch} it is {loss}. Scale the "
            "features to ordinary size (around 1), or lower learning_rate or loss_weight."
        )
    return loss


def _check_shapes(
    features: Any, soft_labels: NDArray[np.float32], stop_labels: NDArray[np.float32]
) -> None:
    if features.shape[0] != len(soft_labels) or soft_labels.shape != stop_labels.shape:
        raise InvalidInputError(
            "Features and soft labels must have one row for each node, and the soft labels of "
            f"training and stopping nodes the same shape; got {features.shape}, "
            f"{soft_labels.shape} and {stop_labels.shape}."
        )


def _two_layers(
    backend: Backend, n_features: int, n_classes: int, settings: TrainSettings
) -> NewNetwork:
    return lambda generator: backend.network(
        n_features,
        n_classes,
        n_hidden=settings.n_hidden,
        dropout=settings.dropout,
        bias=settings.bias,
        generator=generator,
    )


def _with_weights(model: Network, weights: Weights | None) -> Network:
    if weights is not None:
        model.load_state_dict({k: torch.tensor(np.asarray(v)) for k, v in weights.items()})
    return model
