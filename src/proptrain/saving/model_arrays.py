"""A fitted classifier as named arrays, and back again after a check of every one of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.classifier import Layout
from proptrain.data.dataset import Features, check_features
from proptrain.data.npz import CSR_PARTS, check_range, checked_csr, csr_parts
from proptrain.errors import FileFormatError, InvalidInputError
from proptrain.train.loop import History

NUMBERS = (
    "best_epoch_",
    "n_kept_",
    "n_iter_",
    "n_features_in_",
    "features_checksum_",
    "fell_back_",
)


def arrays_of(estimator: Any) -> dict[str, NDArray[Any]]:
    """Return all arrays that make up a fitted classifier, by name."""
    layout = estimator._layout()
    arrays = {name: getattr(estimator, name) for name in layout if _is_attribute(name)}
    arrays |= csr_parts("graph.", estimator.graph_.adjacency)
    if "features" in layout:
        features = estimator.features_
        sparse = sp.issparse(features)
        arrays |= csr_parts("features.", features) if sparse else {"features": features}
    if any(map(_is_weight, layout)):
        arrays |= {f"weights.{k}": v for k, v in estimator.weights_.items()}
        history = asdict(estimator.history_)
        arrays |= {f"history.{k}": np.array(v, dtype=np.float64) for k, v in history.items()}
    _check_weights_are_the_parameters(arrays, layout)
    return arrays


def _check_weights_are_the_parameters(arrays: dict[str, NDArray[Any]], layout: Layout) -> None:
    """Raise rather than save what could not be loaded."""
    expected = {name: shape for name, (_, shape) in layout.items() if _is_weight(name)}
    found = {name: array.shape for name, array in arrays.items() if _is_weight(name)}
    if found != expected:
        raise InvalidInputError(
            "A model is saved with the parameters that it was fitted with, but these make another "
            "network than the one that was trained. Fit it again first."
        )


def set_arrays(estimator: Any, arrays: dict[str, NDArray[Any]]) -> None:
    """Give a classifier its arrays back, each checked as if it came from a stranger."""
    layout = dict(estimator._layout())
    features = layout.pop("features", None)  # the one matrix that may be sparse
    if features is not None:
        estimator.features_ = _features_from_arrays(arrays, features[1])
    checked = {name: arrays[name] for name in layout}
    for name, (kind, shape) in layout.items():
        check_array(name, checked[name], kind, shape)
    n_nodes, n_classes = checked["label_distributions_"].shape
    check_range("given_", checked["given_"], -1, n_classes - 1)
    check_range("stopping_", checked["stopping_"], 0, n_nodes - 1)
    for name in filter(_is_attribute, layout):
        setattr(estimator, name, checked[name])
    if any(map(_is_weight, layout)):
        estimator.weights_ = _with_prefix("weights.", checked)
        history = _with_prefix("history.", checked)
        estimator.history_ = History(**{k: tuple(v.tolist()) for k, v in history.items()})


def _is_attribute(name: str) -> bool:
    return name.endswith("_")


def _is_weight(name: str) -> bool:
    return name.startswith("weights.")


def check_array(name: str, array: NDArray[Any], kind: str, shape: tuple[int | None, ...]) -> None:
    """Raise unless an array has this dtype kind and shape (None is any length) and is finite."""
    fits = array.ndim == len(shape) and all(
        wanted in (None, size) for size, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype.kind != kind or not fits:
        sizes = " × ".join("any" if size is None else str(size) for size in shape)
        raise FileFormatError(
            f"{name} must be of kind {kind!r} and size {sizes}, got {array.dtype} of shape "
            f"{array.shape}. Fit and save the model again."
        )
    # Of the history, gamma is NaN for a weighting that is no power; nothing is computed from it.
    if kind == "f" and not name.startswith("history.") and not np.isfinite(array).all():
        raise FileFormatError(
            f"{name} must be finite numbers, but some are NaN or infinite. Fit and save the model "
            "again."
        )


def set_numbers(estimator: Any, numbers: dict[str, Any]) -> None:
    """Give a classifier its numbers back; others that stand beside them are left alone."""
    for name in NUMBERS:
        if name not in numbers and name not in estimator._numbers:
            continue
        if type(numbers[name]) is not int:  # nor a bool
            raise FileFormatError(
                f"{name} must be a whole number, got {numbers[name]!r}. Fit and save the model "
                "again."
            )
        setattr(estimator, name, numbers[name])


def _features_from_arrays(
    arrays: dict[str, NDArray[Any]], shape: tuple[int | None, ...]
) -> Features:
    is_sparse = "features.data" in arrays
    stored = matrix_from_arrays("features", arrays) if is_sparse else arrays["features"]
    if stored.shape != shape:
        raise FileFormatError(
            f"features must be of shape {shape}, got {stored.shape}. Fit and save the model again."
        )
    return check_features(stored)


def _with_prefix(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def matrix_from_arrays(name: str, arrays: dict[str, NDArray[Any]]) -> sp.csr_array:
    """Return a sparse matrix from its parts, or say what is wrong with them."""
    return checked_csr(f"{name}.", [arrays[f"{name}.{part}"] for part in CSR_PARTS])
