"""Which of the given labels are likely wrong, and what they should be.

Models that have not seen a label tell its node, in two rounds. In the second they learn from
labels that the first has put right where it disagrees: so the wrong ones mislead them less. What
they say is joined with what the fitted model says, S_j, and scaled so that every class is told as
often as it is given: one that is told too seldom would look wrong wherever it is given.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proptrain.classifier import checksum
from proptrain.data.splits import ALWAYS_IN, Codes, Tell, cross_fit, deal_folds
from proptrain.ensemble.predictions import to_distributions
from proptrain.errors import InvalidInputError, check_seed
from proptrain.insight.evidence import (
    Evidence,
    accumulated_weights,
    leave_fold_out,
    leave_one_out,
)
from proptrain.propagate.engine import Engine, LocalEngine
from proptrain.propagate.schemes import Scheme

if TYPE_CHECKING:
    import pandas as pd

N_FOLDS, N_ROUNDS = 5, 2
N_FITS = N_FOLDS * N_ROUNDS
"""So many models are trained."""
WEIGHT_OF_MODEL = 0.25
"""The power that what the fitted model says counts with; it has seen the label."""
SUSPECT = 0.75
"""From this suspicion on, where another class has three times as much for it, a label is fixed."""
MANY_LABELS = 4096
"""Of more labels than these, whole folds are left out of label propagation, instead of each one."""


@dataclass(frozen=True, eq=False)
class Audit:
    """Every given label, the likeliest to be wrong first.

    All arrays have one entry for each of the L given labels, in this order; matrices (L, C) hold
    what speaks for each class.

    >>> from proptrain import PTAClassifier
    >>> X = np.repeat(np.eye(2), 6, axis=0)
    >>> y = np.array([0, 0, 0, 0, 1, -1, 1, 1, 1, 1, 1, -1])  # node 4 is like 0 to 3
    >>> clf = PTAClassifier(max_epochs=30, random_state=0).fit(X, y, graph=None)
    >>> found = clf.audit(X)
    >>> int(found.nodes[0]), int(found.given[0]), int(found.suggested[0])
    (4, 1, 0)
    >>> found.cross_fitted[0].round(1), bool(found.judged.all())
    (array([1., 0.]), True)
    >>> found.fixed(y), found.classes_in_doubt(), found.cautions()  # no class loses most labels
    (array([ 0,  0,  0,  0,  0, -1,  1,  1,  1,  1,  1, -1]), {}, [])
    >>> ids = np.array([f"p{number}" for number in range(12)])
    >>> found.to_frame(ids)[["id", "given", "suggested", "suspect"]].head(1)
       id  given  suggested  suspect
    0  p4      1          0     True
    """

    nodes: NDArray[np.int64]
    given: NDArray[Any]
    """The class that was given."""
    suggested: NDArray[Any]
    """The class that most speaks for; often the given one."""
    suspicion: NDArray[np.float64]
    """r / (g + r), from 0 to 1: g speaks for the given class, r for its strongest rival."""
    suspect: NDArray[np.bool_]
    """Whether the suspicion is so high that `fixed` replaces the label."""
    stopping: NDArray[np.bool_]
    """Whether the label is a stopping node's."""
    classes: NDArray[Any]
    """(C,) what the columns stand for."""
    rounds: NDArray[np.float64]
    """(2, L, C) what models say that have not seen the label, before and after putting right."""
    weights: Evidence
    """S_j: how much a label of each class there would count in training."""
    others: Evidence
    """What the other labels say, spread over the graph; rows sum to 1, or to 0 if none reaches."""

    @property
    def cross_fitted(self) -> Evidence:
        """(L, C) what models say that have not seen the label; rows sum to 1.

        They are empty for the only label of a class, which cannot be judged.
        """
        return np.asarray(self.rounds.mean(axis=0))

    @property
    def judged(self) -> NDArray[np.bool_]:
        """(L,) whether anything was found out about the label: not of the only one of a class."""
        return np.asarray(self.cross_fitted.any(axis=1))

    def classes_in_doubt(self) -> dict[Any, tuple[int, int]]:
        """Return the classes of whose labels more than half are suspect: how many, of how many.

        A class whose nodes are linked to others' rather than to each other looks like that, and
        may be right: `fixed` would leave little of it.
        """
        counts = {
            name: (int(self.suspect[self.given == name].sum()), int((self.given == name).sum()))
            for name in self.classes.tolist()
        }
        return {name: (bad, n) for name, (bad, n) in counts.items() if bad > n / 2}

    def to_frame(self, node_ids: Any = None) -> pd.DataFrame:
        """Return a table, one row for each label; the evidence is that for the given class.

        ``node_ids`` (n,) are what the nodes are called; by default they are their numbers.
        """
        import pandas as pd

        column = np.searchsorted(self.classes, self.given)
        rows = np.arange(len(self.nodes))
        return pd.DataFrame(
            {
                "id": self.nodes if node_ids is None else np.asarray(node_ids)[self.nodes],
                "given": self.given,
                "suggested": self.suggested,
                "suspicion": self.suspicion,
                "suspect": self.suspect,
                "cross_fitted": self.cross_fitted[rows, column],
                "others": self.others[rows, column],
                "weight": self.weights[rows, column],
                "stopping": self.stopping,
                "judged": self.judged,
            }
        )

    def fixed(self, y: Any) -> NDArray[Any]:
        """Return a copy of the labels y (n,) with the suspects' replaced by the suggested ones.

        Warns if that takes most of its labels from a class.
        """
        labels = np.array(y, dtype=object if isinstance(y, list | tuple) else None)
        if len(labels) <= self.nodes.max() or (labels[self.nodes] != self.given).any():
            raise InvalidInputError(
                "y must be the labels that the model was fitted to, one for each node in the same "
                "order; these differ from them."
            )
        for caution in self.cautions():
            warnings.warn(caution, UserWarning, stacklevel=2)
        labels[self.nodes[self.suspect]] = self.suggested[self.suspect]
        return labels

    def cautions(self) -> list[str]:
        """Return what one should know before suspects are replaced: a text for each class."""
        return [
            f"{n_suspect:,} of the {n_labels:,} labels of class {name!r} are suspect, and to "
            f"replace them leaves it {n_labels - n_suspect:,} of these. Its nodes may be linked to "
            "those of other classes rather than to each other, where this audit cannot tell: look "
            "at them first."
            for name, (n_suspect, n_labels) in self.classes_in_doubt().items()
        ]


def audit_model(classifier: Any, X: Any, *, seed: int, on_fit: Callable[[], object]) -> Audit:
    """Rank the labels that a classifier was fitted to; see `GraphClassifier.audit`."""
    check_can_audit(classifier)
    check_seed(seed)
    features = classifier._features_of(X)
    is_of_model = features.shape[0] == len(classifier.given_)
    if not is_of_model or checksum(features) != classifier.features_checksum_:
        raise InvalidInputError(
            "X must be the features that the model was fitted to, all rows in the same order, "
            "but these are others."
        )
    return audit_labels(
        classifier.given_,
        classifier.classes_,
        classifier.stopping_,
        classifier.probabilities_,
        engine=LocalEngine(classifier.graph_, classifier.normalisation),
        scheme=classifier._scheme(),
        tell=classifier._teller(features, seed),
        seed=seed,
        on_fit=on_fit,
    )


def can_audit(classifier: Any) -> bool:
    """Tell whether the labels that this classifier was fitted to can be audited."""
    return hasattr(classifier, "_teller")


def check_can_audit(classifier: Any) -> None:
    """Raise unless they can."""
    if not can_audit(classifier):
        raise InvalidInputError(
            "Only labels that PTAClassifier or PTAPlusClassifier was fitted to can be audited, got "
            f"{type(classifier).__name__}. Fit one of those (`proptrain fit --method PTA` or PTA+)."
        )


def audit_labels(
    codes: Codes,
    classes: NDArray[Any],
    stopping: NDArray[np.int64],
    probabilities: NDArray[Any],
    *,
    engine: Engine,
    scheme: Scheme,
    tell: Tell,
    seed: int,
    on_fit: Callable[[], object] = lambda: None,
) -> Audit:
    """Rank the labels: codes (n,) with -1 for unlabelled, f (n, C) of the model fitted to them.

    ``tell`` trains a model on codes and returns what it says of some nodes; ``on_fit`` is called
    after each of the `N_FITS` times.
    """
    known, random = np.flatnonzero(codes >= 0), np.random.RandomState(seed)
    n_classes = len(classes)

    def tell_and_count(learnt: Codes, nodes: Codes) -> NDArray[Any]:
        told = tell(_with_every_class(learnt, codes), nodes)
        on_fit()
        return told

    first, second = (deal_folds(codes[known], N_FOLDS, random) for _ in range(N_ROUNDS))
    before = cross_fit(codes, known, first, n_classes, tell_and_count)
    put_right = _put_right(codes, known[first != ALWAYS_IN], before[first != ALWAYS_IN])
    after = cross_fit(put_right, known, second, n_classes, tell_and_count)
    rounds = np.stack([before, after])
    weights = accumulated_weights(probabilities, known, engine, scheme)
    for_each_class = joined(rounds.mean(axis=0), weights, codes[known])
    suspicion = suspicion_of(for_each_class, codes[known])
    suspicion[first == ALWAYS_IN] = 0  # nobody else knows its class
    suggested = np.where(suspicion > 0.5, for_each_class.argmax(axis=1), codes[known])
    others = _say_others(codes, known, first, n_classes, engine, scheme)
    order = np.argsort(-suspicion, kind="stable")
    return Audit(
        nodes=known[order],
        given=classes[codes[known]][order],
        suggested=classes[suggested][order],
        suspicion=suspicion[order],
        suspect=suspicion[order] >= SUSPECT,
        stopping=np.isin(known, stopping)[order],
        classes=classes,
        rounds=rounds[:, order],
        weights=weights[order],
        others=others[order],
    )


def joined(cross_fitted: Evidence, weights: Evidence, given: Codes) -> Evidence:
    """Join what models say that have not, and that have, seen the labels given, shape (L, C)."""
    uniform = np.full(weights.shape[1], 1 / weights.shape[1])
    of_model = as_often_as_given(to_distributions(weights, uniform), given)
    return as_often_as_given(cross_fitted, given) * of_model**WEIGHT_OF_MODEL


def as_often_as_given(told: Evidence, given: Codes) -> Evidence:
    """Scale each column so that its mean is the share of the labels that are of its class.

    >>> as_often_as_given(np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([0, 1])).round(3)
    array([[0.667, 0.25 ],
           [0.333, 0.75 ]])
    """
    shares = np.bincount(given, minlength=told.shape[1]) / len(given)
    means = told.mean(axis=0)
    return np.asarray(told * shares / np.where(means > 0, means, 1))


def suspicion_of(for_each_class: Evidence, given: Codes) -> NDArray[np.float64]:
    """Return r / (g + r): g speaks for the given class, r for its strongest rival, shape (L,).

    Above a half, more speaks for the rival. Where nothing speaks at all it is a half.

    >>> suspicion_of(np.array([[0.6, 0.2, 0.2], [0.6, 0.2, 0.2]]), np.array([0, 1]))
    array([0.25, 0.75])
    """
    rows = np.arange(len(given))
    own = for_each_class[rows, given]
    rivals = for_each_class.copy()
    rivals[rows, given] = -1
    rival = rivals.max(axis=1)
    total = own + rival
    nowhere = np.full(len(given), 0.5)
    return np.asarray(np.divide(rival, total, out=nowhere, where=total > 0))


def _put_right(codes: Codes, nodes: Codes, told: Evidence) -> Codes:
    """Return the codes with those of some nodes replaced by what is told of them."""
    changed = codes.copy()
    if len(nodes):
        changed[nodes] = as_often_as_given(told, codes[nodes]).argmax(axis=1)
    return changed


def _with_every_class(learnt: Codes, codes: Codes) -> Codes:
    """Give classes that were put right out of existence among those learnt their labels back."""
    learnt, is_in = learnt.copy(), learnt >= 0
    while (lost := np.setdiff1d(codes[is_in], learnt[is_in])).size:
        back = is_in & np.isin(codes, lost)
        learnt[back] = codes[back]  # taken from another class, which may now be lost instead
    return learnt


def _say_others(
    codes: Codes, known: Codes, folds: Codes, n_classes: int, engine: Engine, scheme: Scheme
) -> Evidence:
    if len(known) > MANY_LABELS:
        told = leave_fold_out(codes, known, folds, n_classes, engine, scheme)
    else:
        told = leave_one_out(codes, known, n_classes, engine, scheme)
    return to_distributions(told, np.zeros(n_classes))
