"""How long what is left will take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proptrain.experiments.protocol import Run
    from proptrain.experiments.tasks import Task


def remaining_seconds(
    left: Collection[Task],
    done: Iterable[Run],
    *,
    n_workers: int,
    guess: Callable[[Task], float],
) -> float:
    """Estimate the time for what is left.

    A run takes as long as those of its method on its data set did. Where there are none yet, it
    takes as many seconds as ``guess`` says of it. Timed runs come one after another, the others
    side by side.
    """
    means = mean_seconds(done)

    def seconds_of(task: Task) -> float:
        known = means.get((task.dataset, task.method))
        return guess(task) if known is None else known

    return sum(seconds_of(task) / (1 if task.timed else n_workers) for task in left)


def mean_seconds(done: Iterable[Run]) -> dict[tuple[str, str], float]:
    """Return how long runs took in the mean, by their data set and method."""
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in done:
        seconds[run.dataset, run.method].append(run.seconds)
    return {pair: fmean(measured) for pair, measured in seconds.items()}
