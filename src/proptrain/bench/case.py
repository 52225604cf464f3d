"""Jobs that do the same work by different means, and one of them that the others are held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proptrain.bench.memory import Memory
from proptrain.bench.timing import Job
from proptrain.data.catalog import load_dataset
from proptrain.data.dataset import Dataset

Unit: TypeAlias = Literal["", "operations", "bytes", "entries"]


@dataclass(frozen=True)
class Work:
    """The jobs of a case, ready to run, and how much each of them does."""

    jobs: Mapping[str, Job]
    """By who does it, in full. A job that trains returns the number of its epochs."""
    amount: float = 0.0
    unit: Unit = ""
    """What the amount counts; nothing where only the time matters."""
    reckoned: Mapping[str, str] = field(default_factory=dict)
    """Jobs that are told as if they had trained for as many epochs as another one did."""
    memory: Memory | None = None
    tells: bool = False
    """Whether jobs take a function that they tell what share of them has just been done."""


@dataclass(frozen=True)
class Case:
    """One comparison. Nothing is loaded or built for it until it is prepared."""

    suite: str
    title: str
    name: str
    baseline: str
    """The job that the others are compared with."""
    prepare: Callable[[], Work]
    n_rounds: int = 15
    warms_up: bool = True
    """Whether all jobs run once before they count; else preparing has warmed them up."""
    memory: int = 0
    """Bytes at its peak, by an estimate; 0 if they do not grow with what is asked."""


@dataclass(frozen=True)
class Wanted:
    """What was asked for; a suite takes of it what it needs."""

    datasets: tuple[str, ...] = ("cora",)
    data_dir: Path | None = None
    n_entries: int = 10_000_000
    """Stored entries of the largest made-up graph: two for an edge."""

    def found_datasets(self) -> tuple[str, ...]:
        """Return the data sets' names, once all of them are there and are what they should be."""
        for name in self.datasets:
            load_once(name, self.data_dir)
        return self.datasets


Suite: TypeAlias = Callable[[Wanted], Iterator[Case]]


@cache
def load_once(name: str, data_dir: Path | None) -> Dataset:
    """Load a data set; several suites may want it."""
    return load_dataset(name, data_dir)


def drawn(*shape: int) -> NDArray[np.float32]:
    """Return numbers to compute with."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
