"""The one epoch loop: train a predictor on soft labels, without a graph in sight."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from proptrain.data.sound import sound_matrix
from proptrain.errors import InvalidInputError, NotEnoughMemoryError
from proptrain.kernels.threads import are_worth_it, counting_tiny_as_zero
from proptrain.system.memory import available_memory, in_words
from proptrain.train.backend import KERNELS, Backend
from proptrain.train.batches import BatchLearner
from proptrain.train.learner import Learner
from proptrain.train.loss import finite
from proptrain.train.predictor import Network, Predictor, Weights, with_weights
from proptrain.train.products import FeatureMatrix, class_probabilities
from proptrain.train.resuming import epochs_of, go_on, snapshot_of
from proptrain.train.snapshot import Keeper, Snapshot, unnamed
from proptrain.train.stopping import EarlyStopping, MeanOfEpochs, StoppingNodes
from proptrain.train.team import ALONE, Team
from proptrain.train.threads import ONE_THREAD
from proptrain.train.weighting import Adaptive, Weighting, gamma_of

OnEpoch: TypeAlias = Callable[[int, float], None]

NewNetwork: TypeAlias = Callable[[torch.Generator], Network]


@dataclass(frozen=True)
class TrainSettings:
    """The settings of step 2; the defaults are the paper's for PTA.

    >>> TrainSettings(dropout=0.5).learning_rate
    0.1
    """

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
    mean_from: int | None = None
    """A number: nothing stops training, and what is kept is the mean of the weights from this epoch
    on, for want of stopping nodes. None: those of the best epoch."""

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
            "mean_from": (
                self.mean_from is None or _is_in(0, self.mean_from, self.max_epochs),
                "None or an epoch below max_epochs",
            ),
        }
        for name, (holds, wanted) in limits.items():
            if not holds:
                raise InvalidInputError(f"{name} must be {wanted}, got {getattr(self, name)!r}.")


def check_batch_size(value: Any) -> None:
    """Raise unless training can be in batches of this size, or in none."""
    if not (value is None or _is_count(value)):
        raise InvalidInputError(
            f"batch_size must be None or a whole number, at least 1, got {value!r}."
        )


def _is_count(value: Any) -> bool:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_whole and int(value) >= 1


def _is_in(low: float, value: Any, high: float = math.inf) -> bool:
    return isinstance(value, Real) and low <= float(value) < high


@dataclass(frozen=True)
class History:
    """One number for each epoch that was run.

    >>> History(stop_accuracy=(0.5, 0.75)).stop_accuracy[-1]
    0.75
    """

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
    """The best weights of a predictor, and how it came to them.

    Shapes of the weights, by name: weight1 (f, h), bias1 (h,), weight2 (h, C), bias2 (C,).

    >>> Trained(weights={}, best_epoch=1, history=History(gamma=(0.0, 0.01))).history.gamma[1]
    0.01
    """

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
    batch_size: int | None = None,
    team: Team = ALONE,
    keeper: Keeper | None = None,
    on_epoch: OnEpoch | None = None,
    trained_rows: NDArray[np.int64] | None = None,
) -> Trained:
    """Minimise lambda1/C · -Σ Ȳ f^gamma log f + weight_decay · ||W1||² / 2 (section 4.2).

    Shapes: features (n, f), soft_labels (n, C). ``seed`` decides the initial weights and the
    dropout, and nothing else does; ``initial_weights`` replaces the drawn ones. ``network`` makes
    another network than the two layers of `Predictor`, for example one whose scores depend on
    other nodes too. ``backend`` computes. With a ``batch_size`` an epoch is a step for each batch
    of so many nodes with a soft label, shuffled by the seed; features and soft labels may then lie
    in files (`numpy.memmap`), and no more than a batch of them is in memory. With batches several
    processes can train together (``team``). A ``keeper`` has a snapshot after each epoch, from
    which the same call goes on elsewhere. ``on_epoch`` is told each epoch's number and stopping
    accuracy, for a progress bar. Who knows which rows have a soft label gives them, ascending
    (``trained_rows``): all soft labels are read to find them otherwise.

    Four nodes whose features say what they are, two of them to stop by:

    >>> X = np.eye(2, dtype=np.float32)[[0, 1, 0, 1]]
    >>> soft_labels = np.array([[1, 0], [0, 1], [0, 0], [0, 0]], dtype=np.float32)
    >>> stop = StoppingNodes(np.array([2, 3]), np.array([0, 1]), soft_labels[[2, 3, 0, 1]])
    >>> trained = train_predictor(X, soft_labels, stop, settings=TrainSettings(max_epochs=30))
    >>> trained.history.stop_accuracy[trained.best_epoch]
    1.0
    >>> predict_probabilities(trained.weights, X).argmax(axis=1)
    array([0, 1, 0, 1])
    """
    settings, weighting = settings or TrainSettings(), weighting or Adaptive()
    features = sound_matrix(features, "Features")
    _check_shapes(features, soft_labels, stop.soft_labels)
    _check_together(stop, settings, network, backend, batch_size, team, keeper)
    sizes = features.shape[1], soft_labels.shape[1]
    _check_room(*sizes, settings.n_hidden)
    new = network or _two_layers(backend, *sizes, settings)
    model = with_weights(new(torch.Generator().manual_seed(seed)), initial_weights)
    parts = (model, features, soft_labels, stop, weighting, settings, backend)
    learner = (
        Learner(*parts, trained_rows)
        if batch_size is None
        else BatchLearner(*parts, batch_size, seed, team, trained_rows)
    )
    stopping, epochs = _ending(settings), []
    if keeper is not None and (before := keeper.load()) is not None:
        epochs = go_on(before, model, learner, stopping)
    with _torch_threads(features, settings.n_hidden, batch_size, team), counting_tiny_as_zero():
        for epoch in range(len(epochs), 0 if stopping.has_ended else settings.max_epochs):
            train_loss = learner.step(epoch)
            stop_loss, agreed, accuracy = learner.judge()
            finite(stop_loss, epoch)  # or the weights behind it could be the ones that are kept
            gamma = gamma_of(weighting, epoch)
            epochs.append((train_loss, stop_loss, agreed, accuracy, gamma))
            if on_epoch is not None:
                on_epoch(epoch, accuracy)
            is_over = stopping.is_over(epoch, accuracy, stop_loss, model)
            if keeper is not None:
                keeper.save(snapshot_of(model, learner, stopping, epochs))
            if is_over:
                break
    stopping.restore(model)
    weights = {name: value.cpu().numpy().copy() for name, value in model.state_dict().items()}
    return Trained(weights, stopping.best_epoch, History(*zip(*epochs, strict=True)))


def _torch_threads(
    features: Any, n_hidden: int, batch_size: int | None, team: Team
) -> AbstractContextManager[None]:
    """Return what has torch compute in one thread, unless its own product is worth several."""
    n_rows = min(features.shape[0], batch_size or features.shape[0]) // team.size
    is_large = are_worth_it(n_rows * features.shape[1] * n_hidden)
    return nullcontext() if is_large and not sp.issparse(features) else ONE_THREAD


def _ending(settings: TrainSettings) -> EarlyStopping | MeanOfEpochs:
    if settings.mean_from is None:
        return EarlyStopping(settings.patience)
    return MeanOfEpochs(settings.mean_from)


def predict_probabilities(
    weights: Weights, features: NDArray[np.float32] | sp.csr_array
) -> NDArray[np.float32]:
    """Return f(X) = softmax(ReLU(X W1 + b1) W2 + b2), shape (n, C), with these weights.

    Shapes: features X (n, f), dense or CSR; weight1 (f, h), bias1 (h,), weight2 (h, C), bias2 (C,).
    Biases that are not there are 0.

    >>> weights = {"weight1": np.eye(2), "weight2": np.array([[1.0, 0], [0, 1]])}
    >>> weights = {name: np.float32(values) for name, values in weights.items()}
    >>> predict_probabilities(weights, np.array([[1, 0], [0, 3]], dtype=np.float32)).round(2)
    array([[0.73, 0.27],
           [0.05, 0.95]], dtype=float32)
    """
    width = weights["weight1"].shape[0]
    if np.ndim(features) != 2 or features.shape[1] != width:
        raise InvalidInputError(
            f"Features must have {width:,} columns, as those that the network was trained on; got "
            f"shape {np.shape(features)}. Give the same columns, in the same order."
        )
    model = Predictor(
        *(width, weights["weight2"].shape[1]),
        n_hidden=weights["weight1"].shape[1],
        bias="bias1" in weights,
        generator=torch.Generator(),
    )
    return probabilities_told(model, weights, features)


def probabilities_told(
    network: Network, weights: Weights, features: NDArray[np.float32] | sp.csr_array
) -> NDArray[np.float32]:
    """Return what a network with these weights says of all nodes, shape (n, C)."""
    features = sound_matrix(features, "Features")
    model = with_weights(network, weights).eval()
    with torch.no_grad():
        _, f = class_probabilities(model(FeatureMatrix(features)))
    told = np.asarray(f.numpy())
    _check_told(told, features)
    return told


def _check_told(told: NDArray[np.float32], features: NDArray[np.float32] | sp.csr_array) -> None:
    """Raise if a network's sums left the finite numbers, which features of ordinary size cannot."""
    lost = np.flatnonzero(~np.isfinite(told).all(axis=1))
    if lost.size:
        raise InvalidInputError(
            "Features must be small enough to compute with, but the network's sums leave the "
            f"finite numbers at {len(lost):,} of {len(told):,} nodes, the first is row {lost[0]}; "
            f"the largest feature is {float(abs(features).max()):.3g}. Scale the features to "
            "ordinary size (around 1), those of fitted and new nodes alike."
        )


def trained_so_far(snapshot: Snapshot) -> Trained:
    """Return what a training had come to when a snapshot was taken."""
    epochs, kept = epochs_of(snapshot), unnamed("kept", snapshot.arrays)
    return Trained(
        kept, snapshot.numbers["stopping"]["best_epoch"], History(*zip(*epochs, strict=True))
    )


def _check_together(
    stop: StoppingNodes,
    settings: TrainSettings,
    network: NewNetwork | None,
    backend: Backend,
    batch_size: int | None,
    team: Team,
    keeper: Keeper | None,
) -> None:
    """Raise for what cannot be had at once."""
    if network is not None and backend is not KERNELS:
        raise InvalidInputError("Other networks than the two layers train with the kernels alone.")
    if network is not None and batch_size is not None:
        raise InvalidInputError("Only the two layers, in which nodes are apart, train in batches.")
    check_batch_size(batch_size)
    if batch_size is None and team.size > 1:
        raise InvalidInputError("Several processes need a batch_size.")
    if team.size > 1 and stop.read_out is not None:
        raise InvalidInputError("Several processes can stop by f alone, without a read_out.")
    if settings.mean_from is not None and keeper is not None:
        raise InvalidInputError("Snapshots are of trainings that stop by themselves: no mean_from.")


def _check_shapes(
    features: Any, soft_labels: NDArray[np.float32], stop_labels: NDArray[np.float32]
) -> None:
    if features.shape[0] != len(soft_labels) or soft_labels.shape != stop_labels.shape:
        raise InvalidInputError(
            "Features and soft labels must have one row for each node, and the soft labels of "
            f"training and stopping nodes the same shape; got {features.shape}, "
            f"{soft_labels.shape} and {stop_labels.shape}."
        )


def _check_room(n_features: int, n_classes: int, n_hidden: int) -> None:
    """Raise if not even the weights of a network, which are its least part, fit into memory."""
    needed, available = 4 * int(n_hidden) * (n_features + n_classes), available_memory()
    if available is not None and needed > available:
        raise NotEnoughMemoryError(
            f"The weights of a network must fit into memory, of which {in_words(available)} are "
            f"left; with n_hidden={n_hidden:,} for {n_features:,} features and {n_classes:,} "
            f"classes they take {in_words(needed)}. Lower n_hidden."
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
