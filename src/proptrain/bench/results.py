"""What was measured: as rows of a table, and as a line of JSON for each case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proptrain.bench.case import OURS, Case
from proptrain.bench.timing import Timed


@dataclass(frozen=True)
class Measured:
    """A case and the times of its jobs."""

    case: Case
    times: Mapping[str, Timed]

    def rows(self) -> list[list[str]]:
        """Return a row for each job: how long it took, and how many times as long as ours."""
        ours = self.times[OURS]
        return [
            [
                self.case.name,
                name,
                f"{1000 * timed.median:,.2f} ms",
                "" if name == OURS else str(timed.over(ours)),
                self._rate(timed),
            ]
            for name, timed in self.times.items()
        ]

    def _rate(self, timed: Timed) -> str:
        if not self.case.n_operations:
            return ""
        return f"{self.case.n_operations / timed.median / 1e9:.1f}"

    def to_json(self) -> dict[str, Any]:
        """Return everything as a dictionary; seconds are one for each round, in their order."""
        return {
            "suite": self.case.suite,
            "case": self.case.name,
            "operations": self.case.n_operations,
            "seconds": {name: list(timed.seconds) for name, timed in self.times.items()},
        }


HEADER = ["case", "by", "median", "as long as ours", "GFLOP/s"]
