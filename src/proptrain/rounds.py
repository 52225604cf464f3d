"""Training round after round: each learns from soft labels, and what it tells makes the next's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from proptrain.classifier import watched_nodes
from proptrain.data.dataset import UNLABELLED, Features
from proptrain.data.splits import Codes, Tell, cross_fit, deal_folds
from proptrain.ensemble.predictions import ensemble_predictions
from proptrain.problem import Problem
from proptrain.propagate.engine import Engine
from proptrain.propagate.labels import propagate_labels
from proptrain.propagate.shaping import size_keeping, to_rows
from proptrain.train.loop import History, OnEpoch, Trained, TrainSettings, predict_probabilities
from proptrain.train.stopping import ReadOut, StoppingNodes
from proptrain.train.weighting import Weighting
from proptrain.trainings import UNWATCHED_EPOCHS

if TYPE_CHECKING:
    from proptrain.plus import PTAPlusClassifier

MOST_LOST = 0.1
"""Share of the training labels that a round without stopping nodes may tell less than the first."""
CLEARLY = 2.0
"""Standard errors by which labels must be told better with factors than without, or by labels alone
than by networks."""
N_FOLDS = 5
"""Parts that the training labels are dealt out to, each to be told by the others."""


@dataclass(frozen=True, eq=False)
class Round:
    """Networks that were trained side by side, and what they tell together."""

    trained: tuple[Trained, ...]
    probabilities: NDArray[np.float32]
    """(n, C) what they tell on average."""
    class_factors: NDArray[np.float32]
    """(C,) by which the classes are multiplied once that is spread; mostly 1."""
    scores: NDArray[Any]
    """(n, C) what comes of both."""


class RoundLearner:
    """Trains round after round on one problem; only the soft labels change."""

    def __init__(
        self,
        classifier: PTAPlusClassifier,
        features: Features,
        problem: Problem,
        engine: Engine,
        random: np.random.RandomState,
        device: torch.device | None,
        on_epoch: OnEpoch | None,
    ) -> None:
        watched, scheme = watched_nodes(problem), classifier._scheme()
        labels = (problem.codes, watched, problem.n_classes)
        self._classifier, self._features, self._random = classifier, features, random
        self._device, self._on_epoch, self._n_epochs = device, on_epoch, 0
        self._is_watched = bool(problem.stop.size)
        self._ensemble: ReadOut = partial(ensemble_predictions, engine=engine, scheme=scheme)
        # The stopping nodes, or those that train if there are none.
        self._judged = StoppingNodes(
            watched,
            problem.codes[watched],
            propagate_labels(*labels, engine, scheme, clamp=classifier.clamp),
            self._ensemble if self._is_watched else None,
        )

    def learn(self, targets: NDArray[np.float32], weighting: Weighting) -> Round:
        """Train the networks of a round."""
        n_networks = self._classifier.n_networks
        trained = tuple(self._train(targets, weighting) for _ in range(n_networks))
        told = mean_of([predict_probabilities(one.weights, self._features) for one in trained])
        return self._round(trained, told)

    def choose(self, rounds: list[Round]) -> Round:
        """Return the round that counts, or the networks of all rounds as one: `choose_rounds`."""
        shares = [self._share_told(done) for done in rounds]
        if not self._is_watched:
            return rounds[choose_rounds(shares, most_lost=MOST_LOST)[0]]
        if len(rounds) == 1 or not self._classifier.average_rounds:
            return rounds[choose_rounds(shares)[0]]
        trained = tuple(one for done in rounds for one in done.trained)
        together = self._round(trained, mean_of([done.probabilities for done in rounds]))
        chosen = choose_rounds(shares, together=self._share_told(together))
        return together if len(chosen) > 1 else rounds[0]

    def by_labels(
        self, soft_labels: NDArray[np.float32], own: NDArray[np.float32] | None = None
    ) -> Round:
        """Take step 3 with soft labels in the place of what networks tell.

        Nodes that no label reaches have what is their ``own`` (n, C), or nothing.
        """
        told = told_or(soft_labels, own)
        spread = self._ensemble(told)
        # Spread twice, labels of a class that is ahead swallow the others: on every made-up graph
        # that it was tried on, their sizes were worth keeping.
        keep = self._classifier.keep_sizes
        factors = size_keeping(spread, told) if keep else np.ones(told.shape[1], dtype=np.float32)
        return Round((), told, factors, spread * factors)

    def is_outdone(self, kept: Round, by_labels: Round, tell: Tell, tell_anew: Tell) -> bool:
        """Tell whether labels alone clearly tell the judged nodes better than networks do.

        Without stopping nodes it is training labels, each fifth told by the others: ``tell`` by
        labels alone, ``tell_anew`` by networks that were trained on no more.
        """
        nodes = self._judged.nodes
        if self._is_watched:
            labels, networks = (self._is_told(one.scores[nodes]) for one in (by_labels, kept))
            return is_clearly_better(labels, networks)
        return labels_take_over(
            self._is_told(self._cross_fitted(tell)),
            self._is_told(self._cross_fitted(partial(self._without_own, kept))),
            share_with_own=self._share_told(kept),
            hear_anew=lambda: self._is_told(self._cross_fitted(tell_anew)),
        )

    def _is_told(self, scores: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which judged nodes' labels scores (m, C) tell, shape (m,)."""
        # Of a row of zeros nothing is told, though its largest is the first class.
        return np.asarray((scores.argmax(axis=1) == self._judged.codes) & scores.any(axis=1))

    def _cross_fitted(self, tell: Tell) -> NDArray[np.float64]:
        nodes, labels = self._judged.nodes, self._judged.codes
        codes = np.full(len(self._judged.soft_labels), UNLABELLED)
        codes[nodes] = labels
        folds = deal_folds(labels, N_FOLDS, np.random.RandomState(0))
        return cross_fit(codes, nodes, folds, self._judged.soft_labels.shape[1], tell)

    def _without_own(self, kept: Round, _: Codes, nodes: Codes) -> NDArray[Any]:
        """Return what a round tells of nodes without their own rows, shape (m, C)."""
        others = kept.probabilities.copy()
        others[nodes] = 0
        return self._ensemble(others)[nodes] * kept.class_factors

    def _round(self, trained: tuple[Trained, ...], told: NDArray[np.float32]) -> Round:
        """Take step 3 with what networks tell together."""
        spread = self._ensemble(told)
        factors = self._class_factors(told, spread)
        return Round(trained, told, factors, spread * factors)

    def _class_factors(
        self, told: NDArray[np.float32], spread: NDArray[Any]
    ) -> NDArray[np.float32]:
        """Return what keeps large classes from swallowing small ones, if labels say they do.

        Stopping labels choose it or not, as they choose the epoch; none of them is learnt from.
        """
        if not self._classifier.keep_sizes:
            return np.ones(told.shape[1], dtype=np.float32)
        factors, codes = size_keeping(spread, told), self._judged.codes
        judged = spread[self._judged.nodes] if self._is_watched else self._told_by_others(told)
        with_them = (judged * factors).argmax(axis=1) == codes
        without = judged.argmax(axis=1) == codes
        return factors if is_clearly_better(with_them, without) else np.ones_like(factors)

    def _told_by_others(self, told: NDArray[np.float32]) -> NDArray[Any]:
        """Return what the other nodes tell of the training nodes (t, C).

        What a network tells of a node that it was trained on says nothing of others.
        """
        others = told.copy()
        others[self._judged.nodes] = 0
        return self._ensemble(others)[self._judged.nodes]

    def _share_told(self, done: Round) -> float:
        """Return the share of judged nodes whose label a round's ensemble tells."""
        return self._judged.accuracy_of(done.scores[self._judged.nodes])

    def _settings(self) -> TrainSettings:
        settings = self._classifier._settings(self._classifier.loss_weight)
        if self._is_watched:
            return settings
        n_epochs = min(settings.max_epochs, UNWATCHED_EPOCHS)
        return replace(settings, max_epochs=n_epochs, mean_from=n_epochs // 3)

    def _train(self, targets: NDArray[np.float32], weighting: Weighting) -> Trained:
        told: OnEpoch | None = None
        if self._on_epoch is not None:
            told = partial(_tell_later, self._on_epoch, self._n_epochs)
        trained = self._classifier._train(
            self._features,
            targets,
            self._judged,
            self._random,
            weighting=weighting,
            settings=self._settings(),
            device=self._device,
            on_epoch=told,
        )
        self._n_epochs += len(trained.history.gamma)
        return trained


def _tell_later(on_epoch: OnEpoch, n_before: int, epoch: int, accuracy: float) -> None:
    """Tell an epoch with the number that it has after those of other trainings."""
    on_epoch(n_before + epoch, accuracy)


def is_clearly_better(right: NDArray[np.bool_], before: NDArray[np.bool_]) -> bool:
    """Tell whether labels are told right clearly more often than before.

    Half of the changes are gains by chance, give or take half the root of their number; the 1 is
    there so that it takes five labels at least.

    >>> is_clearly_better(np.ones(5, bool), np.zeros(5, bool))
    True
    >>> is_clearly_better(np.ones(4, bool), np.zeros(4, bool))
    False
    """
    n_gained, n_lost = (right & ~before).sum(), (before & ~right).sum()
    return bool(n_gained - n_lost > CLEARLY * np.sqrt(n_gained + n_lost + 1))


def choose_rounds(
    shares: Sequence[float], *, together: float | None = None, most_lost: float = 0.0
) -> tuple[int, ...]:
    """Return the places of the rounds that count, by the share of judged labels that each tells.

    If the mean of all tells a share ``together``, all of them count, unless the first alone tells
    more. Otherwise it is the last that tells no more than ``most_lost`` less than the first: one
    that has lost more labels has gone astray.

    >>> choose_rounds([0.8, 0.7, 0.9], together=0.8), choose_rounds([0.8, 0.7, 0.9], together=0.7)
    ((0, 1, 2), (0,))
    >>> choose_rounds([0.8, 0.75, 0.6]), choose_rounds([0.8, 0.75, 0.6], most_lost=0.1)
    ((0,), (1,))
    """
    if together is not None:
        return tuple(range(len(shares))) if together >= shares[0] else (0,)
    least = shares[0] - most_lost
    return (next(place for place in reversed(range(len(shares))) if shares[place] >= least),)


def labels_take_over(
    labels: NDArray[np.bool_],
    networks: NDArray[np.bool_],
    *,
    share_with_own: float,
    hear_anew: Callable[[], NDArray[np.bool_]],
) -> bool:
    """Tell whether labels alone clearly know more than networks, by the training labels (t,).

    ``labels`` are those that the others tell right, ``networks`` those that the networks at hand
    do without what they say of a node itself, which they learnt from its label. That can be worth
    much where neighbours are of other classes, so that labels doing better is reason to
    ``hear_anew`` networks that were trained without the labels in question, which takes five fits,
    and no more. Only networks that tell no larger ``share_with_own`` word need no further hearing:
    they have failed, though others like them might not.

    >>> told, missed = np.arange(10) < 9, np.zeros(10, bool)
    >>> [labels_take_over(told, missed, share_with_own=own, hear_anew=lambda: told)
    ...  for own in (0.9, 1.0)]
    [True, False]
    """
    if labels.sum() <= networks.sum():
        return False
    if labels.mean() >= share_with_own and is_clearly_better(labels, networks):
        return True
    return is_clearly_better(labels, hear_anew())


def told_or(
    soft_labels: NDArray[np.float32], own: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return the rows of soft labels scaled to sum to 1; empty ones are those of ``own``, if any.

    >>> told_or(np.float32([[3, 1], [0, 0]]), np.float32([[0.5, 0.5], [0.2, 0.8]]))
    array([[0.75, 0.25],
           [0.2 , 0.8 ]], dtype=float32)
    """
    rows, mass = to_rows(soft_labels)
    return rows if own is None else np.where(mass > 0, rows, own)


def mean_of(told: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the mean of what several networks tell, shape (n, C)."""
    return np.asarray(np.mean(told, axis=0), dtype=np.float32)


def joined(histories: list[History]) -> History:
    """Return the epochs of all, one after another."""
    return History(
        *(sum((getattr(one, field.name) for one in histories), ()) for field in fields(History))
    )
