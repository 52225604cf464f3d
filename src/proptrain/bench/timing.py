"""Timing on a machine that others use too: in turn, in random order, compared round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles

import numpy as np

Job = Callable[..., object]

PAUSE = 0.05
"""Seconds of rest before a job: threads of the library that ran last go on looking for work."""
SHORT = 0.02
"""Seconds for which a job is repeated: of one that takes microseconds the noise would be told."""


@dataclass(frozen=True)
class Ratio:
    """How many times as long one takes as another: the median over the rounds, and quartiles."""

    middle: float
    low: float | None = None
    high: float | None = None
    """A single round has no quartiles."""

    def __str__(self) -> str:
        """Write the median, and the quartiles in brackets."""
        if self.low is None or self.high is None:
            return f"{self.middle:.2f} ×"
        return f"{self.middle:.2f} × [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Timed:
    """The seconds that a job took in each round."""

    seconds: tuple[float, ...]
    n_epochs: int = 0
    """How many it trained for, if that is what it does."""

    @property
    def median(self) -> float:
        """The median."""
        return median(self.seconds)

    def over(self, other: Timed) -> Ratio:
        """Return how many times as long this takes as the other, each round by itself.

        >>> str(Timed((2.0, 6.0, 4.0)).over(Timed((1.0, 2.0, 2.0))))
        '2.00 × [2.00, 3.00]'
        >>> str(Timed((3.0,)).over(Timed((2.0,))))
        '1.50 ×'
        """
        ratios = [own / its for own, its in zip(self.seconds, other.seconds, strict=True)]
        if len(ratios) == 1:
            return Ratio(ratios[0])
        low, middle, high = quantiles(ratios, n=4)
        # Of few rounds quantiles reach beyond what was seen.
        return Ratio(middle, max(low, min(ratios)), min(high, max(ratios)))

    def for_epochs(self, n_epochs: int) -> Timed:
        """Return what so many epochs would have taken at the same time for each.

        >>> Timed((2.0,), n_epochs=20).for_epochs(50)
        Timed(seconds=(5.0,), n_epochs=50)
        """
        share = n_epochs / self.n_epochs
        return Timed(tuple(share * seconds for seconds in self.seconds), n_epochs)


def time_in_turn(
    jobs: Mapping[str, Job],
    n_rounds: int,
    *,
    warms_up: bool = True,
    seed: int = 0,
    on_done: Callable[[], None] = lambda: None,
) -> dict[str, Timed]:
    """Run every job once in each round, in another order each time, and time it.

    To warm up, each runs once without being timed: what is compiled or fetched into memory counts
    for nobody. A slow minute of the machine then falls on all jobs of a round alike, and ratios
    within a round hardly notice. A short job is run again and again, and has the mean time.
    """
    random = np.random.RandomState(seed)
    names = list(jobs)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    n_epochs = dict.fromkeys(names, 0)
    for round_ in range(-1 if warms_up else 0, n_rounds):
        for place in random.permutation(len(names)):
            name = names[place]
            taken, returned = _time(jobs[name])
            if round_ >= 0:
                seconds[name].append(taken)
            if isinstance(returned, int):
                n_epochs[name] = returned
            del returned  # it may be large, and the next job shall have the memory
            on_done()
    return {name: Timed(tuple(seconds[name]), n_epochs[name]) for name in names}


def _time(job: Job) -> tuple[float, object]:
    """Return the seconds that a job takes, and what it returns."""
    time.sleep(PAUSE)
    n_times, start = 0, time.perf_counter()
    while True:
        returned = job()
        n_times += 1
        taken = time.perf_counter() - start
        if taken >= SHORT:
            return taken / n_times, returned
