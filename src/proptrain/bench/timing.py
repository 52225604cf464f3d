"""Timing on a machine that others use too: in turn, in random order, compared round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles

import numpy as np

Job = Callable[[], object]


@dataclass(frozen=True)
class Ratio:
    """How many times as long one takes as another: the median over the rounds, and quartiles."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        """Write the median, and the quartiles in brackets."""
        return f"{self.middle:.1f} × [{self.low:.1f}, {self.high:.1f}]"


@dataclass(frozen=True)
class Timed:
    """The seconds that a job took in each round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median."""
        return median(self.seconds)

    def over(self, other: Timed) -> Ratio:
        """Return how many times as long this takes as the other, each round by itself.

        >>> str(Timed((2.0, 6.0, 4.0)).over(Timed((1.0, 2.0, 2.0))))
        '2.0 × [2.0, 3.0]'
        """
        ratios = [own / its for own, its in zip(self.seconds, other.seconds, strict=True)]
        if len(ratios) == 1:
            return Ratio(ratios[0], ratios[0], ratios[0])
        low, middle, high = quantiles(ratios, n=4)
        # Of few rounds quantiles reach beyond what was seen.
        return Ratio(middle, max(low, min(ratios)), min(high, max(ratios)))


def time_in_turn(
    jobs: Mapping[str, Job],
    n_rounds: int,
    *,
    seed: int = 0,
    on_run: Callable[[str], None] = lambda _: None,
) -> dict[str, Timed]:
    """Run every job once in each round, in another order each time, and time it.

    Before that each runs once without being timed: what is compiled or fetched into memory counts
    for nobody. A slow minute of the machine then falls on all jobs of a round alike, and ratios
    within a round hardly notice.
    """
    random = np.random.RandomState(seed)
    names = list(jobs)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_ in range(n_rounds + 1):
        for place in random.permutation(len(names)):
            name = names[place]
            on_run(name)
            start = time.perf_counter()
            jobs[name]()
            taken = time.perf_counter() - start
            if round_ > 0:
                seconds[name].append(taken)
    return {name: Timed(tuple(own)) for name, own in seconds.items()}
