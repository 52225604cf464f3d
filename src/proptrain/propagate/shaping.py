"""Between steps 1 and 2: what the soft labels say, how much each counts, and how much all do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SoftLabels = NDArray[np.float32]
"""(n, C), not negative; a row's sum is the mass of its node, which may be zero."""


def to_rows(soft_labels: NDArray[Any]) -> tuple[SoftLabels, SoftLabels]:
    """Return what a node's soft label says (n, C) and its mass (n, 1); rows without mass stay 0.

    >>> to_rows(np.array([[3, 1], [0, 0]], dtype=np.float32))[0]
    array([[0.75, 0.25],
           [0.  , 0.  ]], dtype=float32)
    """
    soft_labels = np.asarray(soft_labels, dtype=np.float32)
    mass = soft_labels.sum(axis=1, keepdims=True)
    return np.divide(soft_labels, mass, out=np.zeros_like(soft_labels), where=mass > 0), mass


def temper_mass(soft_labels: NDArray[Any], power: float) -> SoftLabels:
    """Return the same rows with their mass to a power: 1 changes nothing, 0 makes all alike.

    >>> temper_mass(np.array([[3, 1], [1, 0]], dtype=np.float32), 0.5)
    array([[1.5, 0.5],
           [1. , 0. ]], dtype=float32)
    """
    if power == 1:  # exactly, not only but for rounding
        return np.asarray(soft_labels, dtype=np.float32)
    rows, mass = to_rows(soft_labels)
    weights: SoftLabels = mass ** np.float32(power)
    return rows * weights


def balance_classes(soft_labels: NDArray[Any], strength: float = 1.0) -> SoftLabels:
    """Return soft labels whose classes have the same mass; less so with a strength below 1.

    Few labels reach unequal parts of a graph by chance, and the class with the largest part would
    swallow the others.

    >>> balance_classes(np.array([[3, 0], [0, 1]], dtype=np.float32))
    array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    soft_labels = np.asarray(soft_labels, dtype=np.float32)
    mass = soft_labels.sum(axis=0)
    present = mass > 0
    if not present.any():
        return soft_labels
    factor = np.where(present, mass[present].mean() / np.where(present, mass, 1), 1)
    return soft_labels * (factor**strength).astype(np.float32)


def with_total(soft_labels: NDArray[Any], total: float) -> SoftLabels:
    """Return the soft labels scaled to a total mass, so that the loss has a size of its own.

    Where there is no mass at all, there is nothing to scale.

    >>> with_total(np.array([[3, 0], [0, 1]], dtype=np.float32), 8).sum()
    np.float32(8.0)
    """
    soft_labels = np.asarray(soft_labels, dtype=np.float32)
    mass = soft_labels.sum(dtype=np.float64)
    return soft_labels * np.float32(total / mass) if mass else soft_labels


def sharpen(predictions: NDArray[Any], power: float = 2.0) -> SoftLabels:
    """Return distributions (n, C) proportional to a power of the predictions: surer than they are.

    >>> sharpen(np.array([[0.75, 0.25]], dtype=np.float32))
    array([[0.9, 0.1]], dtype=float32)
    """
    rows, _ = to_rows(predictions)
    return to_rows(rows**power)[0]
