"""The three steps from disk: graph, features, soft labels and predictions in files throughout.

The same functions as `PTAClassifier.fit` has, in the same order and with the same random numbers,
given an engine that reads the graph from disk and arrays that lie in files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.classifier import is_reached
from proptrain.data.disk import DiskGraph
from proptrain.data.disk_nodes import check_numbers, usable_features
from proptrain.data.mapped import forget, parts_of
from proptrain.ensemble.predictions import ensemble_predictions, spread_or_own
from proptrain.errors import InvalidInputError
from proptrain.estimator import PTAClassifier
from proptrain.kernels import OnStep
from proptrain.problem import label_roles, random_of, warn_if_all_labelled
from proptrain.propagate.blocked import BlockedEngine
from proptrain.propagate.labels import propagate_labels
from proptrain.propagate.schemes import Scheme
from proptrain.system.devices import torch_device
from proptrain.system.memory import give_back, parse_memory
from proptrain.train.backend import KERNELS
from proptrain.train.loop import (
    OnEpoch,
    Trained,
    check_batch_size,
    predict_probabilities,
    train_predictor,
)
from proptrain.train.predictor import Weights
from proptrain.train.stopping import ReadOut, StoppingNodes
from proptrain.train.torch_backend import torch_backend

N_PROPAGATIONS = 3
"""Of the training labels, of the stopping labels, of the predictions."""
_FOR_TRAINING = 0.25
"""Share of the memory that a batch may take."""


@dataclass(frozen=True, eq=False)
class FittedFromDisk:
    """What a fit from disk came to; arrays with a row for each node may lie in files."""

    classes: NDArray[Any]
    trained: Trained
    given: NDArray[np.int64]
    """Class codes (n,), -1 for unlabelled."""
    stopping: NDArray[np.int64]
    distributions: NDArray[np.float32]
    """(n, C), rows sum to 1."""
    reached: NDArray[np.bool_]
    batch_size: int | None
    error_bounds: tuple[float, ...] = (0.0, 0.0, 0.0)
    """Of the soft labels, those of stopping nodes, and the propagated predictions: how far each can
    be from the exact matrix because of ``top``, as `BlockedEngine.error_bound` tells it."""


def fit_from_disk(
    classifier: PTAClassifier,
    graph: DiskGraph | str | Path,
    features: Any,
    y: Any,
    *,
    memory: str | int = "2GB",
    top: int | None = None,
    scratch: str | Path | None = None,
    stopping: Any = None,
    on_epoch: OnEpoch | None = None,
    on_step: OnStep | None = None,
) -> FittedFromDisk:
    """Fit a classifier's method and settings to a graph on disk, within a limit of memory.

    ``features`` (n, f) may be a `numpy.memmap`, labels ``y`` (n,) are as in `PTAClassifier.fit`;
    both in the order of the graph's nodes. Large arrays go to files without a name in ``scratch``.
    With the classifier's ``batch_size`` None, training is in one step for all nodes if that fits
    into the memory, else in batches that do. Training is on the classifier's ``device`` if that is
    named; with "auto" it is on the CPU, since a GPU's driver takes what memory it likes. ``top``
    keeps only so many of the largest numbers of each node between propagation steps, for many
    classes; ``error_bounds`` of the result say what that can change. ``on_step`` is told the share
    of all propagation that has just been done.

    >>> from tempfile import TemporaryDirectory
    >>> from proptrain import graph_from_edges, save_graph
    >>> X, y = np.float32(np.eye(2)[[0, 0, 1, 1]]), np.array([0, -1, 1, -1])
    >>> with TemporaryDirectory() as folder:
    ...     save_graph(graph_from_edges([(0, 1), (2, 3)]), f"{folder}/graph")
    ...     classifier = PTAClassifier(fast=True, max_epochs=30, random_state=0)
    ...     fitted = fit_from_disk(classifier, f"{folder}/graph", X, y, memory="4GB")
    >>> fitted.distributions.argmax(axis=1)
    array([0, 0, 1, 1])
    """
    disk = graph if isinstance(graph, DiskGraph) else DiskGraph(graph)
    check_able(classifier)
    features = usable_features(features, disk.n_nodes)
    check_numbers(features)
    device = None if classifier.device == "auto" else torch_device(classifier.device)
    random = random_of(classifier.random_state)
    codes, classes, train, stop = roles_of(classifier, y, stopping, disk.n_nodes, random)
    how: dict[str, Any] = {"memory": memory, "top": top, "scratch": scratch}
    engine = BlockedEngine(disk, classifier.normalisation, **how)
    task = _Task(classifier, engine, codes, len(classes), on_step)
    soft_labels = task.spread_labels(train)
    if stop.size:
        watched, stop_labels = stop, task.spread_labels(stop)
    else:  # judged by what it learns from: the same again
        watched, stop_labels = train, soft_labels
        task.bounds.append(task.bounds[0])
        task.tell(1.0)
    batch_size = classifier.batch_size or fitting_batch_size(
        disk.n_nodes, features.shape[1], classifier.n_hidden, len(classes), parse_memory(memory)
    )
    trained = train_predictor(
        features,
        soft_labels,
        StoppingNodes(watched, codes[watched], stop_labels, task.read_out, engine.room),
        weighting=classifier._weighting(),
        settings=classifier._settings(classifier.loss_weight),
        seed=random.randint(2**31 - 1),
        backend=KERNELS if device is None else torch_backend(device),
        batch_size=batch_size,
        on_epoch=on_epoch,
    )
    reached = _reached(soft_labels)
    del soft_labels, stop_labels
    told = predict_from_disk(trained.weights, features, engine, task.scheme, task.tell)
    kept = (classes, trained, codes, stop, told, reached, batch_size)
    return FittedFromDisk(*kept, (*task.bounds, engine.error_bound))


@dataclass(frozen=True, eq=False)
class _Task:
    """What is propagated for a fit, and how far each result can be from the exact one."""

    classifier: PTAClassifier
    engine: BlockedEngine
    codes: NDArray[np.int64]
    n_classes: int
    on_step: OnStep | None
    bounds: list[float] = field(default_factory=list)

    @property
    def scheme(self) -> Scheme:
        """The weights of near and far neighbours."""
        return self.classifier._scheme()

    def tell(self, share: float) -> None:
        """Tell the share of a propagation that is done."""
        if self.on_step is not None:
            self.on_step(share / N_PROPAGATIONS)

    def spread_labels(self, known: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the soft labels (n, C) that the labels of some nodes make, in a file."""
        told = propagate_labels(
            self.codes,
            known,
            self.n_classes,
            self.engine,
            self.scheme,
            clamp=self.classifier.clamp,
            room=self.engine.room,
            on_step=self.tell,
        )
        self.bounds.append(self.engine.error_bound)
        return told

    @property
    def read_out(self) -> ReadOut | None:
        """What predictions are judged by: propagated, unless by the network alone."""
        if self.classifier.fast:
            return None
        return lambda f: ensemble_predictions(f, self.engine, self.scheme)


def _reached(soft_labels: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which nodes have a soft label, read a part at a time."""
    reached = np.empty(len(soft_labels), dtype=bool)
    for rows in parts_of(len(soft_labels), 4 * soft_labels.shape[1]):
        reached[rows] = is_reached(soft_labels[rows])
        forget(soft_labels)
    return reached


def predict_from_disk(
    weights: Weights,
    features: Any,
    engine: BlockedEngine,
    scheme: Scheme,
    on_step: OnStep | None = None,
) -> NDArray[np.float32]:
    """Return what the network says of all nodes, propagated: distributions (n, C), in a file."""
    own = _told(weights, features, engine)
    give_back()  # what batches and parts took: the states of the propagation shall have it
    scores = engine.propagate(own, scheme, on_step=on_step)
    for rows in parts_of(len(own), own.shape[1] * own.itemsize):
        own[rows] = spread_or_own(scores[rows], own[rows])
        forget(own, scores)
    return own


def check_able(classifier: PTAClassifier) -> None:
    """Raise unless a method can be fitted without a graph in memory, and has usable settings."""
    if not isinstance(classifier, PTAClassifier) or classifier.equal_hops is not None:
        raise InvalidInputError(
            "From disk, PTA, PTA(F), PTS and PTD can be fitted; other methods need the graph in "
            "memory (--engine local)."
        )
    check_settings(classifier)


def roles_of(
    classifier: PTAClassifier, y: Any, stopping: Any, n_nodes: int, random: np.random.RandomState
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Return codes (n,), classes, training and stopping nodes, as `label_roles` settles them."""
    posing = {
        "stopping_fraction": classifier.stopping_fraction,
        "unlabelled": classifier.unlabelled,
    }
    roles = label_roles(y, stopping, random=random, **posing)
    if len(roles[0]) != n_nodes:
        raise InvalidInputError(
            f"y must have a label or a marker for each of the graph's {n_nodes:,} nodes, got "
            f"{len(roles[0]):,}."
        )
    warn_if_all_labelled(roles[0])
    return roles


def check_settings(classifier: PTAClassifier) -> None:
    """Raise unless all of a classifier's parameters can be used.

    What uses them says so too, but only when it is reached: after propagations that take hours.
    """
    classifier._check_switches("clamp", "fast")
    classifier._scheme()
    classifier._weighting()
    classifier._settings(classifier.loss_weight)
    check_batch_size(classifier.batch_size)


def _told(weights: Weights, features: Any, engine: BlockedEngine) -> NDArray[np.float32]:
    """Return f(X) (n, C), a part at a time."""
    n_nodes, n_classes = features.shape[0], weights["weight2"].shape[1]
    told = engine.room((n_nodes, n_classes), np.float32)
    n_hidden = weights["weight1"].shape[1]
    for rows in parts_of(n_nodes, 4 * (features.shape[1] + n_hidden + n_classes)):
        told[rows] = predict_probabilities(weights, features[rows])
        forget(features, told)
    return told


def batch_row_bytes(n_features: int, n_hidden: int, n_classes: int) -> int:
    """Return the memory that training takes for a row of a batch.

    Its features twice, hidden units with their gradients, scores, targets and more.
    """
    return 4 * (2 * n_features + 4 * n_hidden + 10 * n_classes)


def fitting_batch_size(
    n_nodes: int, n_features: int, n_hidden: int, n_classes: int, memory: int
) -> int | None:
    """Return how many nodes can be trained on at a time within some memory; None if all can."""
    # Of the limit itself, not of what is left of it: the same call shall train the same model.
    fitting = int(_FOR_TRAINING * memory) // batch_row_bytes(n_features, n_hidden, n_classes)
    return None if fitting >= n_nodes else 1 << max(0, fitting.bit_length() - 1)
