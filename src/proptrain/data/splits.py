"""Which nodes a model learns from, stops by and is measured on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.dataset import UNLABELLED
from proptrain.errors import LabelError, check_seed

# The paper's protocol is APPNP's: one fixed draw of known nodes, then a split for each seed.
KNOWN_NODES_SEED = 4143496719
# fmt: off
TEST_SEEDS = (
    2144199730, 794209841, 2985733717, 2282690970, 1901557222, 2009332812, 2266730407,
    635625077, 3538425002, 960893189, 497096336, 3940842554, 3594628340, 948012117,
    3305901371, 3644534211, 2297033685, 4092258879, 2590091101, 1694925034,
)
VALIDATION_SEEDS = (
    2413340114, 3258769933, 1789234713, 2222151463, 2813247115, 1920426428, 4272044734,
    2092442742, 841404887, 2188879532, 646784207, 1633698412, 2256863076, 374355442,
    289680769, 4281139389, 4263036964, 900418539, 119332950, 1628837138,
)
# fmt: on

ALWAYS_IN = -1
"""The fold of a label that is never left out, because no other is of its class."""

Codes = NDArray[np.int64]
Tell = Callable[[Codes, Codes], NDArray[Any]]
"""(codes of all nodes, -1 where there is none; nodes) -> what is told of these nodes, (m, C)."""


@dataclass(frozen=True, eq=False)
class Split:
    """Indices of the training, stopping and test nodes: disjoint, read-only.

    Shapes: train (t,), stop (s,) and test (u,), each number from 0 to n-1 at most once in all.

    >>> Split(train=[0, 1], stop=[2], test=[3]).test
    array([3])
    """

    train: NDArray[np.int64]
    stop: NDArray[np.int64]
    test: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("train", "stop", "test"):
            nodes = np.array(getattr(self, name), dtype=np.int64).ravel()
            nodes.flags.writeable = False
            object.__setattr__(self, name, nodes)
        together = np.concatenate([self.train, self.stop, self.test])
        if len(np.unique(together)) != len(together):
            raise LabelError(
                "Training, stopping and test nodes must be disjoint and without repetition; "
                f"{len(together) - len(np.unique(together)):,} nodes occur more than once."
            )
        if len(together) and together.min() < 0:
            raise LabelError(f"Node indices must not be negative, got {together.min()}.")


def split_nodes(
    labels: NDArray[Any],
    seed: int,
    *,
    n_known: int = 1500,
    per_class: int = 20,
    n_stop: int = 500,
    for_tuning: bool = False,
    class_names: Sequence[Any] | None = None,
) -> Split:
    """Draw the split of one seed, as the paper's protocol (APPNP's) does.

    ``labels`` are class codes, shape (n,), -1 for unlabelled nodes; the three parts of the split
    are indices of nodes.

    One fixed draw, the same for every seed, decides which labelled nodes are known at all; the
    others are the test nodes. Each seed then draws ``per_class`` training nodes of every class
    and ``n_stop`` stopping nodes among the known. With ``for_tuning`` the known nodes left over
    take the place of the test nodes, so that nothing is ever chosen on those. ``class_names`` are
    for messages alone.

    >>> split = split_nodes(np.arange(40) % 2, 0, n_known=20, per_class=3, n_stop=5)
    >>> len(split.train), len(split.stop), len(split.test)
    (6, 5, 20)
    """
    check_seed(seed)
    labels = np.asarray(labels)
    labelled = np.flatnonzero(labels >= 0)
    if per_class < 1 or n_stop < 0:
        raise LabelError(
            f"There must be at least one training node for each class and no negative number of "
            f"stopping nodes; got {per_class} and {n_stop}."
        )
    if not 0 < n_known <= len(labelled):
        raise LabelError(
            f"The number of known nodes must be between 1 and the {len(labelled):,} labelled "
            f"nodes, got {n_known:,}."
        )
    known = np.random.RandomState(KNOWN_NODES_SEED).choice(labelled, n_known, replace=False)
    random = np.random.RandomState(seed)
    train = _draw_training_nodes(labels, known, per_class, random, class_names)
    left = known[~np.isin(known, train)]
    if n_stop > len(left):
        raise LabelError(
            f"{n_stop:,} stopping nodes are asked for, but only {len(left):,} of the "
            f"{n_known:,} known nodes are left after {len(train):,} training nodes. "
            "Ask for fewer stopping nodes or fewer training nodes per class."
        )
    stop = random.choice(left, n_stop, replace=False)
    measured = np.setdiff1d(left, stop) if for_tuning else np.setdiff1d(labelled, known)
    return Split(train=train, stop=stop, test=measured)


def _draw_training_nodes(
    labels: NDArray[Any],
    known: NDArray[Any],
    per_class: int,
    random: np.random.RandomState,
    class_names: Sequence[Any] | None,
) -> NDArray[np.int64]:
    drawn: list[NDArray[np.int64]] = []
    for code in np.unique(labels[labels >= 0]):
        members = known[labels[known] == code]
        if len(members) < max(per_class, 2):
            name = code if class_names is None else repr(class_names[code])
            raise LabelError(
                f"Class {name} has {len(members)} known nodes, too few for {per_class} training "
                "nodes (a class needs two in any case). Ask for fewer training nodes per class, "
                "or merge or leave out that class."
            )
        drawn.append(random.choice(members, per_class, replace=False))
    return np.concatenate(drawn)


def hold_out(codes: Codes, fraction: float, random: np.random.RandomState) -> NDArray[np.int64]:
    """Draw stopping nodes: that fraction of each class, and always fewer than all of it.

    ``codes`` are class codes with -1 for unlabelled. A class with one labelled node keeps it for
    training.

    >>> hold_out(np.array([0, 0, 0, 0, 1, -1]), 0.25, np.random.RandomState(0))
    array([2])
    """
    drawn = [
        random.choice(members, min(int(fraction * len(members)), len(members) - 1), replace=False)
        for members in (np.flatnonzero(codes == code) for code in np.unique(codes[codes >= 0]))
    ]
    return np.sort(np.concatenate([*drawn, np.empty(0, dtype=np.int64)])).astype(np.int64)


def deal_folds(codes: Codes, n_folds: int, random: np.random.RandomState) -> NDArray[np.int64]:
    """Deal labels (L,) out to folds at random, each class evenly; -1 for the only one of a class.

    >>> deal_folds(np.array([0, 0, 0, 0, 1]), 2, np.random.RandomState(1)).tolist()
    [0, 1, 0, 1, -1]
    """
    order = random.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]  # class after class, shuffled within
    folds = np.empty(len(codes), dtype=np.int64)
    folds[order] = np.arange(len(codes)) % n_folds
    return np.where(np.bincount(codes)[codes] == 1, ALWAYS_IN, folds)


def cross_fit(
    codes: Codes, known: Codes, folds: Codes, n_classes: int, tell: Tell
) -> NDArray[np.float64]:
    """Return what is told of each fold by one who learns from all the others, shape (L, C).

    Labels that are in no fold are always learnt from, and their rows are empty.

    One who learns by heart knows nothing of what was left out; one who counts knows what is left:

    >>> codes, known, folds = np.array([0, 0, 1, 1]), np.arange(4), np.array([0, 1, 0, 1])
    >>> cross_fit(codes, known, folds, 2, lambda learnt, nodes: np.eye(3, 2)[learnt[nodes]]).any()
    np.False_
    >>> def count(learnt, nodes):
    ...     return np.tile(np.bincount(learnt[learnt >= 0], minlength=2), (len(nodes), 1))
    >>> cross_fit(codes, known, np.array([0, 1, 1, 1]), 2, count)
    array([[1., 2.],
           [1., 0.],
           [1., 0.],
           [1., 0.]])
    """
    told = np.zeros((len(known), n_classes))
    for fold in range(folds.max(initial=ALWAYS_IN) + 1):
        is_out = folds == fold
        learnt = np.full(len(codes), UNLABELLED)
        learnt[known[~is_out]] = codes[known[~is_out]]
        told[is_out] = tell(learnt, known[is_out])
    return told


def seeds_for(n_runs: int, seeds: Sequence[int] = TEST_SEEDS) -> list[tuple[int, int]]:
    """List the (split seed, initialisation) pairs of a protocol with that many runs.

    >>> seeds_for(3) == [(TEST_SEEDS[0], 0), (TEST_SEEDS[1], 0), (TEST_SEEDS[2], 0)]
    True
    >>> seeds_for(21)[-1] == (TEST_SEEDS[0], 1)
    True
    """
    return [(seeds[run % len(seeds)], run // len(seeds)) for run in range(n_runs)]
