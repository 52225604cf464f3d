"""A team that trains in the threads of this process."""

from __future__ import annotations

import threading

import numpy as np
import torch

from processes import HANGS


class Threads:
    """A team of threads: each waits until all have said their numbers."""

    def __init__(self, size):
        self.size, self.told, self.barrier = size, [None] * size, threading.Barrier(size)

    def member(self, rank):
        return Member(self, rank)


class Member:
    def __init__(self, team, rank):
        self.team, self.rank, self.size = team, rank, team.size

    def _sum(self, numbers):
        self.team.told[self.rank] = numbers
        self.team.barrier.wait(HANGS)
        total = sum(self.team.told[1:], start=self.team.told[0])
        self.team.barrier.wait(HANGS)
        return total

    def add_gradients(self, parameters, loss):
        for one in parameters:
            own = torch.zeros_like(one) if one.grad is None else one.grad
            one.grad = self._sum(own).clone()
        return self._sum(loss)

    def add(self, numbers):
        return self._sum(np.array(numbers, dtype=float)).tolist()


def run_all(size, run):
    """Have so many threads run at once, each with its number; returns what each came to."""
    results = [None] * size

    def keep(rank):
        results[rank] = run(rank)

    threads = [threading.Thread(target=keep, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
