"""What a result was computed with."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("proptrain", "numpy", "scipy", "scikit-learn", "numba", "torch")


def versions() -> dict[str, str]:
    """Return the versions of Python and the packages that compute, and the kind of machine."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "cpu": _cpu_name(),
        "cores": str(count_cores()),
    }


def count_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_name() -> str:
    """Return the CPU's model name where the system tells it, else its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
