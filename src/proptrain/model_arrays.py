"""A fitted classifier as named arrays, and back again after a check of every one of them."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.dataset import Features, check_features
from proptrain.data.npz import CSR_PARTS, check_range, checked_csr
from proptrain.errors import FileFormatError
from proptrain.estimator import PTAClassifier
from proptrain.train.loop import History

_ARRAYS = (
    *("given_", "stopping_", "label_distributions_", "reached_"),
    *("soft_labels_", "probabilities_", "fallback_"),
)
NUMBERS = ("best_epoch_", "n_iter_", "n_features_in_", "features_checksum_")


def arrays_of(estimator: Any) -> dict[str, NDArray[Any]]:
    """Return all arrays that make up a fitted classifier, by name."""
    arrays = {name: getattr(estimator, name) for name in _ARRAYS if hasattr(estimator, name)}
    arrays |= _matrix_to_arrays("graph", estimator.graph_.adjacency)
    arrays |= {f"weights.{k}": v for k, v in getattr(estimator, "weights_", {}).items()}
    if hasattr(estimator, "history_"):
        history = asdict(estimator.history_)
        arrays |= {f"history.{k}": np.array(v, dtype=np.float64) for k, v in history.items()}
    features = getattr(estimator, "features_", None)
    if features is not None:
        sparse = sp.issparse(features)
        arrays |= _matrix_to_arrays("features", features) if sparse else {"features": features}
    return arrays


def _layout(estimator: Any, n_hidden: int) -> dict[str, tuple[str, tuple[int | None, ...]]]:
    """Return the dtype kind and the shape of each array of a model; None is any length."""
    n, C = estimator.graph_.n_nodes, len(estimator.classes_)
    layout: dict[str, tuple[str, tuple[int | None, ...]]] = {
        "given_": ("i", (n,)),
        "stopping_": ("i", (None,)),
        "label_distributions_": ("f", (n, C)),
        "reached_": ("b", (n,)),
    }
    if not isinstance(estimator, PTAClassifier):
        return {**layout, "fallback_": ("f", (C,))}
    return {
        **layout,
        "soft_labels_": ("f", (n, C)),
        "probabilities_": ("f", (n, C)),
        "weights.weight1": ("f", (estimator.n_features_in_, n_hidden)),
        "weights.bias1": ("f", (n_hidden,)),
        "weights.weight2": ("f", (n_hidden, C)),
        "weights.bias2": ("f", (C,)),
        **{f"history.{field.name}": ("f", (estimator.n_iter_,)) for field in fields(History)},
    }


def set_arrays(estimator: Any, arrays: dict[str, NDArray[Any]]) -> None:
    """Give a classifier its arrays back, each checked as if it came from a stranger."""
    is_trained = isinstance(estimator, PTAClassifier)
    layout = _layout(estimator, n_hidden=arrays["weights.bias1"].size if is_trained else 0)
    checked = {name: arrays[name] for name in layout}
    for name, (kind, shape) in layout.items():
        check_array(name, checked[name], kind, shape)
    n_nodes, n_classes = checked["label_distributions_"].shape
    check_range("given_", checked["given_"], -1, n_classes - 1)
    check_range("stopping_", checked["stopping_"], 0, n_nodes - 1)
    for name in _ARRAYS:
        if name in checked:
            setattr(estimator, name, checked[name])
    if is_trained:
        estimator.weights_ = _with_prefix("weights.", checked)
        history = _with_prefix("history.", checked)
        estimator.history_ = History(**{k: tuple(v.tolist()) for k, v in history.items()})
    else:
        estimator.features_ = _features_from_arrays(estimator, arrays)


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
    needed = NUMBERS if isinstance(estimator, PTAClassifier) else ("features_checksum_",)
    for name in NUMBERS:
        if name not in numbers and name not in needed:
            continue
        if type(numbers[name]) is not int:  # nor a bool
            raise FileFormatError(
                f"{name} must be a whole number, got {numbers[name]!r}. Fit and save the model "
                "again."
            )
        setattr(estimator, name, numbers[name])


def _features_from_arrays(estimator: Any, arrays: dict[str, NDArray[Any]]) -> Features | None:
    is_sparse = "features.data" in arrays
    if not is_sparse and "features" not in arrays:
        return None
    stored = matrix_from_arrays("features", arrays) if is_sparse else arrays["features"]
    shape = (estimator.graph_.n_nodes, estimator.n_features_in_)
    if stored.shape != shape:
        raise FileFormatError(
            f"features must be of shape {shape}, got {stored.shape}. Fit and save the model again."
        )
    return check_features(stored)


def _with_prefix(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def _matrix_to_arrays(name: str, matrix: sp.csr_array) -> dict[str, NDArray[Any]]:
    return {f"{name}.{part}": np.asarray(getattr(matrix, part)) for part in CSR_PARTS}


def matrix_from_arrays(name: str, arrays: dict[str, NDArray[Any]]) -> sp.csr_array:
    """Return a sparse matrix from its parts, or say what is wrong with them."""
    return checked_csr(f"{name}.", [arrays[f"{name}.{part}"] for part in CSR_PARTS])
