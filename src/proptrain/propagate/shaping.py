"""Between steps 1 and 2: what the soft labels say, how much each counts, and how much all do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.propagate.labels import one_hot

SoftLabels = NDArray[np.float32]
"""(n, C), not negative; a row's sum is the mass of its node, which may be zero."""

SCARCELY = 1e-20
"""Of the largest class's mass: a class with less has none to be balanced."""


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
    present = mass > mass.max() * SCARCELY
    if not present.any():
        return soft_labels
    factor = np.where(present, mass[present].mean() / np.where(present, mass, 1), 1)
    return soft_labels * (factor**strength).astype(np.float32)


def evenness(per_class: float, balance: float) -> float:
    """Return how far to balance the classes, from 0 to 1, for so many labels per class.

    ::

        b = balance² / (balance² + per_class²)

    With few labels chance decides how far each class's reach, with many the class's size does.
    A ``balance`` of 0 is never.

    >>> evenness(10.0, balance=10.0), evenness(20.0, balance=10.0), evenness(1.0, balance=0.0)
    (0.5, 0.2, 0.0)
    """
    # Squared, so that it fades soon where labels are many: there it costs accuracy.
    return balance**2 / (balance**2 + per_class**2) if balance else 0.0


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


def known_mass(total: float, n_nodes: int, n_known: int) -> float:
    """Return the mass of a known label in a further round, where all have ``total`` together.

    ::

        m = max(M / n, min(1, M / t))

    It is the 1 that it has in label propagation: many times that of a node while labels are few,
    less if all of them would pass the total, and never less than that of a node.

    >>> [known_mass(total, n_nodes=100, n_known=20) for total in (50, 10, 500)]
    [1.0, 0.5, 5.0]
    """
    return max(total / n_nodes, min(1.0, total / n_known))


def next_soft_labels(
    scores: NDArray[Any],
    codes: NDArray[Any],
    known: NDArray[np.int64],
    trust: NDArray[np.float32],
    *,
    total: float,
    sharpness: float,
    evenness: float,
) -> SoftLabels:
    """Return what a further round learns from (n, C): sharpened predictions, known labels put in.

    ``scores`` (n, C) are what the round before told, ``known`` (t,) the nodes whose label in
    ``codes`` (n,) is trusted as far as ``trust`` (t,) says::

        P_ic = S_ic^sharpness / Σ_k S_ik^sharpness
        Z = M B(P) / Σ B(P)              B balances the classes as far as ``evenness`` says
        Z_j = T_j m Y_j + (1 - T_j) Z_j  for known j, with m of `known_mass`

    Node 0 is known to be of class 1, which is believed half; both nodes have a mass of 1:

    >>> scores = np.array([[0.75, 0.25], [0.25, 0.75]], dtype=np.float32)
    >>> known, trust = np.array([0]), np.array([0.5], dtype=np.float32)
    >>> settings = {"total": 2.0, "sharpness": 2.0, "evenness": 0.0}
    >>> next_soft_labels(scores, np.array([1, -1]), known, trust, **settings)
    array([[0.45, 0.55],
           [0.1 , 0.9 ]], dtype=float32)
    """
    targets = with_total(balance_classes(sharpen(scores, sharpness), evenness), total)
    mass, share = known_mass(total, len(targets), len(known)), trust[:, np.newaxis]
    labels = one_hot(codes, known, targets.shape[1])[known]
    targets[known] = share * mass * labels + (1 - share) * targets[known]
    return targets


def size_keeping(
    spread: NDArray[Any], told: NDArray[Any], *, n_steps: int = 60
) -> NDArray[np.float32]:
    """Return a factor for each class (C,) so that spreading leaves the classes about their sizes.

    ``told`` (n, C) is what was spread, ``spread`` (n, C) what came of it. A small class most of
    whose neighbours belong to a large one is swallowed by it when predictions are averaged over
    the graph, though they told it apart. With the factors each class has about as many nodes as
    before.

    A star whose centre alone is of class 1:

    >>> told = np.array([[0, 1], [1, 0], [1, 0], [1, 0]], dtype=np.float32)
    >>> spread = np.array([[0.6, 0.4], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2]], dtype=np.float32)
    >>> (spread * size_keeping(spread, told)).argmax(axis=1)
    array([1, 0, 0, 0])
    """
    rows, _ = to_rows(spread)
    n_classes = rows.shape[1]
    wanted = np.bincount(told.argmax(axis=1), minlength=n_classes)
    best, least = np.ones(n_classes), np.inf
    factors = best
    for step in range(n_steps):
        sizes = np.bincount((rows * factors).argmax(axis=1), minlength=n_classes)
        missed = np.abs(sizes - wanted).sum()
        if missed < least:
            best, least = factors, missed
        # Large steps first, then small ones, for a step that is too large goes to and fro.
        power = 0.5 if step < n_steps // 2 else 0.1
        factors = factors * ((wanted + 1) / (sizes + 1)) ** power
    return np.asarray(best / best.max(), dtype=np.float32)
