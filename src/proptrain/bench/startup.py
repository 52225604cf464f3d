"""How long it takes until anything happens: processes of their own, from start to end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from tempfile import TemporaryDirectory

from proptrain.bench.case import Case, Wanted, Work
from proptrain.bench.timing import Job

_TITLE = "starting up"
_EMPTY = "an empty Python"
_WARM = "proptrain demo, compiled before"
# An import that loads torch ends with an error, and so does the benchmark.
_IMPORT = "import sys, proptrain; sys.exit('torch was loaded' if 'torch' in sys.modules else 0)"


def start_up(_: Wanted) -> Iterator[Case]:
    """Yield the lightest commands, and the demo without and with compiled code at hand."""
    yield Case("start-up", _TITLE, "a process", _EMPTY, _light_commands, n_rounds=7)
    yield Case("start-up", _TITLE, "the demo", _WARM, _demos, n_rounds=3)


def _light_commands() -> Work:
    jobs: dict[str, Job] = {
        _EMPTY: partial(run_python, "-c", "pass"),
        "import proptrain, which leaves torch alone": partial(run_python, "-c", _IMPORT),
        "proptrain --help": partial(run_python, "-m", "proptrain.cli", "--help"),
    }
    return Work(jobs)


def _demos() -> Work:
    jobs: dict[str, Job] = {
        _WARM: partial(_demo, compiles=False),
        "proptrain demo, the first time": partial(_demo, compiles=True),
    }
    return Work(jobs)


def _demo(*, compiles: bool) -> None:
    with TemporaryDirectory() as folder:
        nothing_yet = {"NUMBA_CACHE_DIR": folder} if compiles else {}
        page = ("--out", f"{folder}/report.html")
        run_python("-m", "proptrain.cli", "demo", *page, **nothing_yet)


def run_python(*words: str, **environment: str) -> None:
    """Run Python in a process of its own, with these variables beside ours, to a good end."""
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"python {' '.join(words)} went wrong: {done.stderr.strip()}")
