"""A crew in this process: what a cluster does, without one."""

from __future__ import annotations

import torch

from proptrain.large.fit_cluster import Trainers
from proptrain.train.team import ALONE


class OneProcess:
    """Does every task at once, and keeps what it brings in memory, where nobody can write to it."""

    task_memory = machine_memory = 10**12
    n_cpus = 2

    def __init__(self):
        self.calls = []

    def put(self, value):
        return Kept(value)

    def call(self, function, *arguments, n_results=1, apart=False):
        self.calls.append(function.__name__)
        given = [one.value if isinstance(one, Kept) else one for one in arguments]
        told = function(*given)
        results = told if n_results > 1 else (told,)  # Ray does not look into a single result
        assert len(results) == n_results
        return [Kept(result) for result in results]

    def get(self, references):
        return [one.value for one in references]

    def see(self, folder):
        assert folder.local is not None

    def hire(self, n_workers, device, *, waits=False):
        assert n_workers is None
        return Trainers(1, by_torch=isinstance(device, torch.device))

    def train(self, job, trainers, storage, on_epoch=None):
        trained = job.run(ALONE, None, torch.device("cpu") if trainers.by_torch else None, self)
        for epoch, accuracy in enumerate(trained.history.stop_accuracy):
            if on_epoch is not None:
                on_epoch(epoch, accuracy)
        return trained


class Kept:
    def __init__(self, value):
        if hasattr(value, "flags"):
            value.flags.writeable = False
        self.value = value
