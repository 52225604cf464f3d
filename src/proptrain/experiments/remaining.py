"""How long what is left will take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proptrain.experiments.protocol import Run
    from proptrain.experiments.tasks import Task


def remaining_seconds(
    left: Collection[Task], done: Iterable[Run], *, n_workers: int
) -> float | None:
    """Estimate the time for what is left; None as long as nothing is done.

    A run takes as long as those of its method on its data set did, or as the mean of those means
    where there are none yet. Timed runs come one after another, the others side by side.
    """
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in done:
        seconds[run.dataset, run.method].append(run.seconds)
    if not seconds:
        return None
    means = {pair: fmean(measured) for pair, measured in seconds.items()}
    usual = fmean(means.values())
    return sum(
        means.get((task.dataset, task.method), usual) / (1 if task.timed else n_workers)
        for task in left
    )
