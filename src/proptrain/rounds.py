"""Training round after round: each learns from soft labels, and what it tells makes the next's."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from proptrain.classifier import watched_nodes
from proptrain.data.dataset import Features
from proptrain.ensemble.predictions import ensemble_predictions
from proptrain.problem import Problem
from proptrain.propagate.engine import Engine
from proptrain.propagate.labels import propagate_labels
from proptrain.propagate.shaping import size_keeping
from proptrain.train.loop import History, OnEpoch, Trained, TrainSettings, predict_probabilities
from proptrain.train.stopping import ReadOut, StoppingNodes
from proptrain.train.weighting import Weighting
from proptrain.trainings import UNWATCHED_EPOCHS

if TYPE_CHECKING:
    from proptrain.plus import PTAPlusClassifier

MOST_LOST = 0.1
"""Share of the training labels that a round without stopping nodes may tell less than the first."""
CLEARLY = 2.0
"""Standard errors by which classes must be told better with factors than without."""


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
        """Return the networks of all rounds as one, or the first round if it is better alone.

        Without stopping nodes it is the last round, unless that has lost the training labels: then
        self-training has gone astray.
        """
        best = rounds[0]
        if not self._is_watched:
            least = self._share_told(best) - MOST_LOST
            return next(done for done in reversed(rounds) if self._share_told(done) >= least)
        if len(rounds) > 1:
            trained = tuple(one for done in rounds for one in done.trained)
            together = self._round(trained, mean_of([done.probabilities for done in rounds]))
            best = max(together, best, key=self._share_told)  # together, if both are as good
        return best

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


def mean_of(told: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the mean of what several networks tell, shape (n, C)."""
    return np.asarray(np.mean(told, axis=0), dtype=np.float32)


def joined(histories: list[History]) -> History:
    """Return the epochs of all, one after another."""
    return History(
        *(sum((getattr(one, field.name) for one in histories), ()) for field in fields(History))
    )
