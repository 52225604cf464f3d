"""A training that goes on elsewhere: into a snapshot and out of it, if that is of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.errors import FileFormatError
from proptrain.train.batches import BatchLearner
from proptrain.train.learner import Learner
from proptrain.train.predictor import Network, with_weights
from proptrain.train.snapshot import ODD, Snapshot, named, unnamed
from proptrain.train.stopping import EarlyStopping, MeanOfEpochs


def snapshot_of(
    model: Network,
    learner: Learner | BatchLearner,
    stopping: EarlyStopping | MeanOfEpochs,
    epochs: list[Any],
) -> Snapshot:
    """Return all that a training needs to go on from here."""
    assert isinstance(stopping, EarlyStopping)
    arrays, randoms = learner.state()
    kept, stopped = stopping.state()
    arrays = {**arrays, **named("weights", model.state_dict()), **named("kept", kept)}
    return Snapshot(arrays, {"random": randoms, "stopping": stopped, "epochs": epochs})


def go_on(
    before: Snapshot,
    model: Network,
    learner: Learner | BatchLearner,
    stopping: EarlyStopping | MeanOfEpochs,
) -> list[Any]:
    """Put everything back to where it was; returns the epochs that were."""
    assert isinstance(stopping, EarlyStopping)
    weights, kept = (unnamed(prefix, before.arrays) for prefix in ("weights", "kept"))
    try:
        epochs = epochs_of(before)
        for one in (weights, kept):
            _check_weights(one, model)
        with_weights(model, weights)
        learner.go_on(before.arrays, before.numbers["random"])
        stopping.go_on(kept, before.numbers["stopping"])
    except (RuntimeError, *ODD) as error:
        raise FileFormatError(
            f"A training must go on from a snapshot of its own, but this one is of another, or "
            f"damaged ({error}). Train anew."
        ) from error
    return epochs


def epochs_of(snapshot: Snapshot) -> list[tuple[float, ...]]:
    """Return the epochs that were, or say that there is none in a snapshot."""
    try:
        epochs = [tuple(epoch) for epoch in snapshot.numbers["epochs"]]
        stopping = snapshot.numbers["stopping"]
        of_epochs = all(len(one) == 5 and all(map(_is_number, one)) for one in epochs)
        counts = stopping["best_epoch"], stopping["epochs_left"]
        are_whole = all(type(one) is int for one in counts) and 0 <= counts[0] < len(epochs)
        names = ("best_accuracy", "best_loss", "kept_loss")
        if of_epochs and are_whole and all(_is_number(stopping[name]) for name in names):
            return epochs
    except ODD:
        pass
    raise FileFormatError("A snapshot must tell the epochs that were, and the best of them.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_weights(found: Mapping[str, NDArray[Any]], model: Network) -> None:
    """Raise unless these can be a network's weights."""
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    if {name: array.shape for name, array in found.items()} != wanted:
        raise ValueError(f"its weights must be of the shapes {wanted}")
    for name, array in found.items():
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise ValueError(f"{name} must hold finite numbers of 32 bits")
