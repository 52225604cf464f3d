"""Jobs that do the same work by different means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proptrain.bench.timing import Job

OURS = "proptrain"


@dataclass(frozen=True)
class Case:
    """One comparison: who does the work, and how much work it is."""

    suite: str
    name: str
    jobs: Mapping[str, Job]
    """By who does it; all are compared with `OURS`."""
    n_operations: float = 0.0
    """Multiplications and additions of one job; 0 where they are not what matters."""
    n_rounds: int = 15


def drawn(*shape: int) -> NDArray[np.float32]:
    """Return numbers to compute with."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
