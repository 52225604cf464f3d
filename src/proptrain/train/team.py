"""Several processes that train one network: each takes its part of every batch, all step alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray


class Team(Protocol):
    """Who trains: how many, which of them this one is, and how sums over all of them are made."""

    @property
    def rank(self) -> int:
        """Number of this one, from 0."""
        ...

    @property
    def size(self) -> int:
        """How many they are."""
        ...

    def add_gradients(self, parameters: Sequence[torch.Tensor], loss: float) -> float:
        """Give each parameter the sum of all gradients; returns the sum of the losses."""
        ...

    def add(self, numbers: Sequence[float]) -> list[float]:
        """Return the sum over all of each number."""
        ...


def range_of(team: Team, rows: NDArray[Any], n_nodes: int) -> slice:
    """Return which nodes are this one's: a range with about as many of some rows as anybody's.

    The same nodes in every batch, so that nobody needs the others. In a batch of many the parts
    are nearly alike, in one of all rows they are.

    >>> rows = np.array([3, 4, 7, 8])
    >>> range_of(Alone(rank=1, size=2), rows, 9), range_of(ALONE, rows, 9)
    (slice(7, 9, None), slice(0, 9, None))
    """
    ends = np.cumsum([len(part) for part in np.array_split(rows, team.size)])[:-1]
    cuts = [0, *(int(rows[end]) if end < len(rows) else n_nodes for end in ends), n_nodes]
    return slice(cuts[team.rank], cuts[team.rank + 1])


def rows_within(nodes: slice, rows: NDArray[Any]) -> NDArray[Any]:
    """Return those of some ascending rows that are in a range.

    >>> rows_within(slice(4, 8), np.array([3, 4, 7, 8]))
    array([4, 7])
    """
    return rows[slice(*np.searchsorted(rows, [nodes.start, nodes.stop]))]


@dataclass(frozen=True)
class Alone:
    """One process by itself."""

    rank: int = 0
    size: int = 1

    def add_gradients(
        self,
        parameters: Sequence[torch.Tensor],  # noqa: ARG002 - they have theirs
        loss: float,
    ) -> float:
        """Return the loss."""
        return loss

    def add(self, numbers: Sequence[float]) -> list[float]:
        """Return the numbers."""
        return list(numbers)


ALONE = Alone()


class TorchTeam:
    """The processes of torch's group, which whoever started them has brought together.

    ``device`` is where each computes: a group of GPUs adds up what lies on them alone.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self.rank, self.size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self._device = device

    def add_gradients(self, parameters: Sequence[torch.Tensor], loss: float) -> float:
        """Give each parameter the sum of all gradients; returns the sum of the losses."""
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
        # All in one message: most of them are short, and each would wait for the slowest.
        told = torch.tensor([loss], dtype=torch.float32, device=gradients[0].device)
        flat = torch.cat([*(one.reshape(-1) for one in gradients), told])
        torch.distributed.all_reduce(flat)
        lengths = [one.numel() for one in parameters]
        *sums, told = torch.split(flat, [*lengths, 1])
        for one, added in zip(parameters, sums, strict=True):
            one.grad = added.reshape(one.shape).clone()
        return float(told)

    def add(self, numbers: Sequence[float]) -> list[float]:
        """Return the sum over all of each number."""
        told = torch.tensor(numbers, dtype=torch.float64, device=self._device)
        torch.distributed.all_reduce(told)
        return [float(one) for one in told]
