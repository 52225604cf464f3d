"""Runs that nobody made, with accuracies that are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields

import numpy as np

from proptrain.experiments.protocol import Run
from proptrain.experiments.specs import Experiment
from proptrain.experiments.tasks import Task, list_tasks


def runs_for(
    experiment: Experiment,
    percent: Callable[[Task], float],
    *,
    seconds: Mapping[str, float] | None = None,
    epochs: int = 100,
) -> list[Run]:
    """Return all the runs of an experiment with these accuracies."""
    return [
        Run(
            **{field.name: getattr(task, field.name) for field in fields(Task)},
            accuracy=percent(task) / 100,
            stop_accuracy=0.8,
            epochs=epochs,
            best_epoch=9,
            seconds=(seconds or {}).get(task.method, 1.0),
        )
        for task in list_tasks([experiment])
    ]


def jitter(task: Task, size: float = 1.0) -> float:
    """Return a number in ±size that is the task's own, equal for equal seeds of another method."""
    return size * float(np.random.default_rng([task.split_seed, task.init_seed]).uniform(-1, 1))


def wobble(task: Task, size: float = 1.0) -> float:
    """Return a number in ±size that differs between methods too."""
    seeds = [task.split_seed, task.init_seed, *task.method.encode(), round(100 * (task.noise or 0))]
    return size * float(np.random.default_rng(seeds).uniform(-1, 1))
