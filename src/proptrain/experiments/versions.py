"""What a result was computed with."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Collection, Iterable
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proptrain.experiments.protocol import Run

COMPUTING = ("numpy", "scipy", "scikit-learn", "numba", "torch")
PACKAGES = ("proptrain", *COMPUTING)
SOURCES = (
    "kernels",
    "classifier.py",
    "system/devices.py",
    "estimator.py",
    "large",
    "plus.py",
    "rounds.py",
    "trainings.py",
    "problem.py",
    "system/torch_sparse.py",
    "data",
    "propagate",
    "train",
    "ensemble",
    "models",
    "experiments/methods.py",
    "experiments/protocol.py",
)
"""The files and folders of the package that decide a result; the others only show or keep it."""


def versions() -> dict[str, str]:
    """Return the versions of Python and the packages that compute, and the kind of machine."""
    return {**software(), "cpu": cpu_name(), "cores": str(count_cores())}


def software() -> dict[str, str]:
    """Return the versions of Python and the packages that compute."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


@cache
def code_digest() -> str:
    """Return twelve hexadecimal digits that change with the code, or a package, behind a result."""
    return _digest_of(Path(__file__).parents[1])


@cache
def package_digest() -> str:
    """Return twelve hexadecimal digits that change with any source file, or a package, behind it.

    Also with those that decide no result, but what a kill or a full disk leaves of one.
    """
    return _digest_of(Path(__file__).parents[1], whole=True)


def _digest_of(package: Path, *, whole: bool = False) -> str:
    digest = sha256()
    for path in sorted(package.rglob("*.py") if whole else _python_files(package)):
        # As text: a checkout on Windows may have other line ends.
        source = path.read_text(encoding="utf-8")
        digest.update(f"{path.relative_to(package).as_posix()}\0{source}\0".encode())
    for name in COMPUTING:
        digest.update(f"{name} {version(name)}\0".encode())
    return digest.hexdigest()[:12]


def _python_files(package: Path) -> Iterable[Path]:
    for source in SOURCES:
        path = package / source
        yield from path.rglob("*.py") if path.is_dir() else [path]


def made_with(runs: Collection[Run]) -> dict[str, str]:
    """Say on which CPUs and by which states of the code runs were made, and how many by each."""
    if not runs:
        return {}
    return {
        "CPUs of the runs": _counted(run.cpu for run in runs),
        "code of the runs": _counted(run.code for run in runs),
    }


def _counted(origins: Iterable[str]) -> str:
    counts = Counter(origin or "not recorded" for origin in origins).most_common()
    return ", ".join(f"{one} ({n:,} {'run' if n == 1 else 'runs'})" for one, n in counts)


def count_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def cpu_name() -> str:
    """Return the CPU's model name where the system tells it, else its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
