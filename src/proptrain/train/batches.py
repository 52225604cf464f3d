"""Training in mini-batches: features and soft labels may lie in files, and a batch is in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from proptrain.data.mapped import forget, take_rows
from proptrain.train.backend import Backend
from proptrain.train.learner import Forward, Targets, judged_rows, rows_with_mass
from proptrain.train.loss import finite
from proptrain.train.predictor import Network, coins
from proptrain.train.snapshot import named, random_to_json, set_random, unnamed
from proptrain.train.stopping import StoppingNodes
from proptrain.train.team import ALONE, Team, range_of, rows_within
from proptrain.train.weighting import Weighting, weights_of

if TYPE_CHECKING:
    from proptrain.train.loop import TrainSettings

_RUN = 16
"""Rows that stay together when rows are shuffled: a disk is read by pages, not by rows."""


@dataclass(frozen=True, eq=False)
class Batches:
    """Rows dealt out to batches of at most some size, anew every time they are asked for.

    Short runs of neighbouring rows stay together. Batches differ by a run at most, so that none
    is so small that its step means little; the rows of each are ascending.

    >>> [batch.tolist() for batch in Batches(np.arange(5), 9, np.random.default_rng(0))]
    [[0, 1, 2, 3, 4]]
    """

    rows: NDArray[np.int64]
    size: int
    random: np.random.Generator = field(repr=False)

    @property
    def n_batches(self) -> int:
        """How many there are in an epoch."""
        return max(1, -(-len(self.rows) // self.size))

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        if self.n_batches == 1:
            yield self.rows
            return
        run = min(_RUN, max(1, self.size // 2))
        firsts = self.random.permutation(-(-len(self.rows) // run)) * run
        places = (firsts[:, None] + np.arange(run)).ravel()
        for batch in np.array_split(places[places < len(self.rows)], self.n_batches):
            yield self.rows[np.sort(batch)]


class BatchLearner:
    """What `Learner` is, in steps for one batch after the other.

    A batch's loss counts as much more as the batch is smaller than all that train: on average it
    is the loss of all, and the weight decay keeps its share. Steps that see less are shorter: the
    learning rate is divided by the root of the number of batches, as is usual with Adam.

    Of a ``team`` each looks at its part of every batch, and all make the same step: that of the
    batch, up to the order in which its gradients are added up. Whose part a node is in never
    changes (`range_of`): no other rows of features and soft labels are asked for.
    """

    def __init__(
        self,
        model: Network,
        features: NDArray[np.float32] | sp.csr_array,
        soft_labels: NDArray[np.float32],
        stop: StoppingNodes,
        weighting: Weighting,
        settings: TrainSettings,
        backend: Backend,
        batch_size: int,
        seed: int,
        team: Team = ALONE,
        trained_rows: NDArray[np.int64] | None = None,
    ) -> None:
        self._trained_rows = rows_with_mass(soft_labels, trained_rows)
        self._judged_rows = judged_rows(self._trained_rows, stop)
        random = np.random.default_rng([seed, 1])  # beside the weights' own
        self._batches = Batches(self._trained_rows, batch_size, random)
        self._size, self._team, self._seed = batch_size, team, seed
        self._own = range_of(team, self._trained_rows, len(soft_labels))
        self._model, self._features, self._soft_labels = model, features, soft_labels
        self._stop, self._weighting, self._backend = stop, weighting, backend
        # f(X) of all nodes, if that is read out: once, since it may be a file of many gigabytes.
        is_read_out = stop.read_out is not None
        self._told = stop.room(stop.soft_labels.shape, np.float32) if is_read_out else None
        self._loss_weight = settings.loss_weight
        rate = settings.learning_rate / math.sqrt(self._batches.n_batches)
        self._optimiser = backend.optimiser(model, rate, settings.weight_decay)

    def step(self, epoch: int) -> float:
        """Make the steps of an epoch; returns the losses that they were made with, added up."""
        self._shake_coins(epoch)
        losses, penalties = [], []
        for rows in self._batches:
            losses.append(self._find_gradients(rows, epoch))
            penalties.append(self._optimiser.penalty())
            finite(losses[-1] + penalties[-1], epoch)
            self._optimiser.step()
        return sum(losses) + sum(penalties) / len(penalties)

    def _shake_coins(self, epoch: int) -> None:
        """Let each of a team drop what is its own, and the same whenever it comes to this epoch.

        Else all would drop alike, and after parts of unequal length nobody could go on from another
        one's snapshot. One alone goes on with the coins it has, as in training without batches.
        """
        if self._team.size > 1:
            self._model.random = coins([self._seed, epoch, self._team.rank])

    def _find_gradients(self, rows: NDArray[np.int64], epoch: int) -> float:
        """Leave the gradients of a batch with the parameters; returns its loss."""
        own, told = rows_within(self._own, rows), 0.0
        if len(own):
            log_f, f = self._forward(own, drop=self._model.drops)
            weights = weights_of(self._weighting, f, epoch)
            loss = self._targets(self._soft_labels, own).loss(log_f, weights)
            told = loss.item()
            loss = loss * (len(self._trained_rows) / len(rows))
            loss.backward()  # type: ignore[no-untyped-call]
        return self._team.add_gradients(list(self._model.parameters()), told)

    def judge(self) -> tuple[float, float, float]:
        """Return the stopping loss, the agreement with the soft labels, the stopping accuracy."""
        told = self._told
        stop_loss, n_alike, n_counted, n_right = 0.0, 0, 0, 0
        judged = rows_within(self._own, self._judged_rows)
        for first in range(0, len(judged), self._size):
            rows = judged[first : first + self._size]
            with torch.no_grad():
                log_f, f_tensor = self._forward(rows)
            f = f_tensor.cpu().numpy()
            stop_loss += self._targets(self._stop.soft_labels, rows).loss(log_f).item()
            alike = self._targets(self._soft_labels, rows).count_alike(f)
            n_alike, n_counted = n_alike + alike[0], n_counted + alike[1]
            if told is not None:
                told[rows] = f
                forget(told)
            else:
                here = np.flatnonzero(np.isin(self._stop.nodes, rows))
                likeliest = f[np.searchsorted(rows, self._stop.nodes[here])].argmax(axis=1)
                n_right += int((likeliest == self._stop.codes[here]).sum())
        sums = self._team.add([stop_loss, n_alike, n_counted, n_right])
        share = sums[1] / sums[2] if sums[2] else float("nan")
        accuracy = sums[3] / len(self._stop.nodes) if told is None else self._stop.accuracy(told)
        return sums[0], share, accuracy

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what the next epoch depends on beside the weights: arrays, and what JSON holds."""
        randoms = {"batches": self._batches.random}
        if self._team.size == 1:  # a team's begin anew in every epoch
            randoms["dropout"] = self._model.random
        return named("optimiser", self._optimiser.state()), {
            name: random_to_json(random) for name, random in randoms.items()
        }

    def go_on(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._optimiser.set_state(unnamed("optimiser", arrays))
        set_random(self._batches.random, numbers["batches"])
        if "dropout" in numbers:
            set_random(self._model.random, numbers["dropout"])

    def _forward(
        self, rows: NDArray[np.int64], *, drop: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        forward = Forward(self._model, self._features, rows, self._backend)
        forget(self._features)
        return forward(drop=drop)

    def _targets(self, soft_labels: NDArray[Any], rows: NDArray[np.int64]) -> Targets:
        targets = Targets(take_rows(soft_labels, rows), self._loss_weight, self._backend)
        forget(soft_labels)
        return targets
