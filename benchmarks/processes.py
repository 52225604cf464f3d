"""Processes that are watched from outside: what they have in memory, and what they have computed.

Only Linux tells it (/proc).
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
EVERY = 0.02
"""Seconds between two looks at a process."""
KILLED = "killed"


@dataclass(frozen=True)
class Ended:
    """How a process ended: what it told, and what it was seen to have at most."""

    told: dict[str, Any]
    peak: int
    seconds: float
    failed: str | None = None
    """Why it told nothing; None if it came to its end."""


def watch(
    words: Sequence[object],
    *,
    limit: int | None = None,
    memory: Callable[[int], int] | None = None,
    every: float = EVERY,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command that prints a line of JSON, and kill it once it has more than a limit.

    By default its memory is the most that the process itself has had, as the system counts it:
    nothing that happens between two looks is missed, but a process that has passed the limit lives
    until the next.
    """
    look, peak, start = memory or peak_of, 0, time.perf_counter()
    with subprocess.Popen(
        [str(word) for word in words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        killed = False
        while True:
            peak = max(peak, look(process.pid))
            if limit is not None and peak > limit and not killed:
                process.kill()
                killed = True
            try:
                out, err = process.communicate(timeout=every)
                break
            except subprocess.TimeoutExpired:
                continue
    seconds = time.perf_counter() - start
    if killed:
        return Ended({}, peak, seconds, KILLED)
    if process.returncode:
        last = err.strip().splitlines()[-1:] or [f"ended with {process.returncode}"]
        return Ended({}, peak, seconds, last[0])
    return Ended(json.loads(out.strip().splitlines()[-1]), peak, seconds)


def peak_of(process: int) -> int:
    """Return the most that a process has had in memory, in bytes; 0 if it is gone."""
    return _kilobytes(_PROC / str(process) / "status", "VmHWM:")


def family_memory(process: int) -> int:
    """Return what a process and all that it has started have in memory; shared pages count once."""
    return sum(_kilobytes(_PROC / str(one) / "smaps_rollup", "Pss:") for one in family(process))


def family(process: int) -> list[int]:
    """Return a process, all that it has started, and they."""
    parents = {one: int(words[1]) for one, words in _stats().items()}
    found = []
    for one in parents:
        ancestor = one
        while ancestor in parents and ancestor != process:
            ancestor = parents[ancestor]
        found += [one] if ancestor == process else []
    return found


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process and of all that it has started, and they."""
    stats, ours = _stats(), family(process)
    ticks: int = os.sysconf("SC_CLK_TCK")
    return sum(sum(map(int, stats[one][11:15])) for one in ours if one in stats) / ticks


def _stats() -> dict[int, list[str]]:
    """Return what the system tells of each process, from its state on (`man 5 proc`)."""
    stats = {}
    for path in _PROC.glob("[0-9]*/stat"):
        try:
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
        except OSError:  # gone meanwhile
            continue
    return stats


def _kilobytes(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:  # gone meanwhile
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(name))
