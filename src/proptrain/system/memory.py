"""How much memory this process has, had at most, and may have."""

from __future__ import annotations

import ctypes
import math
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from proptrain.errors import InvalidInputError

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)}
_UNITS |= {f"{letter}IB": 1024**power for power, letter in enumerate("KMGT", start=1)}
_NO_MEMORY = 1e30
"""Bytes, or more, that no machine has; of 400 digits there is not even a number."""
_UNKNOWN = 500_000_000
"""Taken for Python and its libraries where the system does not tell."""
_GROUPS = "/sys/fs/cgroup"
"""Where Linux tells what groups of processes may have."""


def parse_memory(given: str | int) -> int:
    """Return a number of bytes, said as a number or with a unit.

    >>> parse_memory("2GB"), parse_memory("1.5 GiB"), parse_memory(1000)
    (2000000000, 1610612736, 1000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(given))
    if found is None or found[2].upper() not in _UNITS or not 0 < float(found[1]) < _NO_MEMORY:
        raise InvalidInputError(
            f"Memory must be a number of bytes, or one with a unit such as 500MB or 2GB; got "
            f"{given!r}."
        )
    return int(float(found[1]) * _UNITS[found[2].upper()])


def in_words(n_bytes: float) -> str:
    """Write a number of bytes for humans.

    >>> in_words(2_345_678_901), in_words(12)
    ('2.35 GB', '12 B')
    """
    for unit in ("TB", "GB", "MB", "KB"):
        if n_bytes >= _UNITS[unit]:
            return f"{n_bytes / _UNITS[unit]:.3g} {unit}"
    return f"{n_bytes:.0f} B"


def enough_in_words(n_bytes: float) -> str:
    """Write how many bytes to ask for: with two digits, rounded up, and a little to spare.

    A process never has quite what it had the last time.

    >>> enough_in_words(664_000_000), enough_in_words(1_100_000_000)
    ('700 MB', '1.2 GB')
    """
    n_bytes *= 1.05
    digit = 10 ** (math.floor(math.log10(n_bytes)) - 1)
    return in_words(math.ceil(n_bytes / digit) * digit)


def left_of(limit: int) -> int:
    """Return what this process may still take of a limit; below 0 if it has more already."""
    return limit - (resident_memory() or _UNKNOWN)


def give_back() -> None:
    """Hand memory that was freed back to the system, where Arrow or the C library keep it."""
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError, TypeError):  # other systems have no such function
        ctypes.CDLL(None).malloc_trim(0)


def resident_memory() -> int | None:
    """Return what this process has in memory now, in bytes, where the system tells it."""
    return memory_told("VmRSS")


def peak_memory() -> int | None:
    """Return the most that this process has had in memory, in bytes, where the system tells it."""
    return memory_told("VmHWM")


def memory_told(kind: str) -> int | None:
    """Ask Linux what this process has (VmRSS), or had at most (VmHWM), in bytes.

    Other systems know only the most, and Windows tells neither.
    """
    if sys.platform == "win32":
        return None
    # Not ru_maxrss, which on Linux begins with the peak of the process that started this one.
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    told = [line.split()[1] for line in lines if line.startswith(f"{kind}:")]
    if told:
        return 1024 * int(told[0])
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def available_memory(proc: Path = Path("/proc"), groups: Path = Path(_GROUPS)) -> int | None:
    """Return what this process may still take, in bytes, where the system tells it.

    It is the least of what the machine has left, what the groups that the process is in may have
    (containers are such), and what the process itself was allowed (``ulimit -v``).
    """
    told = [_machine_has(proc), *_groups_have(proc, groups), _process_may()]
    known = [room for room in told if room is not None]
    return max(0, min(known)) if known else None


def _machine_has(proc: Path) -> int | None:
    for line in _lines_of(proc / "meminfo"):
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


def _groups_have(proc: Path, groups: Path) -> Iterator[int]:
    """Yield what each group with a limit has left; the pages of files in it can be taken back."""
    for line in _lines_of(proc / "self" / "cgroup"):
        _, kinds, path = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        own = (groups / "memory" if kinds else groups) / path.lstrip("/")
        limit, used = ("limit_in_bytes", "usage_in_bytes") if kinds else ("max", "current")
        for folder in (own, *own.parents):
            told = [_lines_of(folder / f"memory.{name}") for name in (limit, used)]
            if all(told) and told[0][0].isdigit():
                yield int(told[0][0]) - int(told[1][0]) + _files_in(folder)
            if folder == groups:
                break


def _files_in(folder: Path) -> int:
    stats = dict(line.split() for line in _lines_of(folder / "memory.stat"))
    return int(stats.get("total_inactive_file", stats.get("inactive_file", 0)))


def _process_may() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    limit, has = resource.getrlimit(resource.RLIMIT_AS)[0], memory_told("VmSize")
    return None if limit == resource.RLIM_INFINITY or has is None else limit - has


def _lines_of(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:  # not there, or not ours to read
        return []
