"""Command lines in processes of their own that need not load anything first.

All that the commands need is loaded once, here, and a process is then forked for each: a kill
falls into its work and not into its imports. Nothing is computed here, since threads of torch's
and Numba's would not survive the fork.
"""

from __future__ import annotations

import importlib
import os
import select
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_NEEDED = (
    "proptrain.cli",
    "proptrain.data.disk_build",
    "proptrain.data.disk_nodes",
    "proptrain.data.tables",
    "proptrain.saving.disk_model",
    "proptrain.experiments.coverage",
    "proptrain.experiments.methods",
    "proptrain.experiments.remaining",
    "proptrain.experiments.store",
    "proptrain.large.from_disk",
    "proptrain.saving.persistence",
    "proptrain.report.reproduction",
    "pyarrow.csv",
    "pyarrow.parquet",
    "skops.io",
    "sklearn.compose",
)


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, -9 for a kill, and what it has said."""

    code: int
    said: str

    @property
    def has_our_error(self) -> bool:
        """Whether it ended with an error on purpose, told in one line."""
        return self.code == 1 and "error: " in self.said and "Traceback" not in self.said


def load() -> None:
    """Load what commands need."""
    for name in _NEEDED:
        importlib.import_module(name)


class Running:
    """A command line in a process of its own, which has just been started."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self.log = log
        log.touch()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _run(words, log)

    def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def hold(self) -> bool:
        """Stop it where it is, until `go_on`; tells whether it had not ended before."""
        os.kill(self.pid, signal.SIGSTOP)
        state = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return state is not None and state.si_code == os.CLD_STOPPED

    def go_on(self) -> None:
        """Have it go on after `hold`."""
        os.kill(self.pid, signal.SIGCONT)

    def wait(self, seconds: float | None = None) -> Ended | None:
        """Wait until it has ended, or for so long; None if it has not."""
        end = os.pidfd_open(self.pid)
        try:
            is_over, _, _ = select.select([end], [], [], seconds)
        finally:
            os.close(end)
        if not is_over:
            return None
        _, status = os.waitpid(self.pid, 0)
        return Ended(os.waitstatus_to_exitcode(status), self.log.read_text(errors="replace"))


def run(words: Sequence[str], log: Path) -> Ended:
    """Run a command line to its end."""
    ended = Running(words, log).wait()
    assert ended is not None
    return ended


def _save(model: str, output: str, *options: str) -> None:
    """Do what has no command: save a classifier, as a command would."""
    from proptrain.cli.console import fail
    from proptrain.errors import ProptrainError
    from proptrain.saving.persistence import load_model

    try:
        load_model(model).estimator.save(output, overwrite="--overwrite" in options)
    except ProptrainError as error:
        fail(error, as_json=False)


def _run(words: Sequence[str], log: Path) -> None:
    """Be the process of a command line; never returns."""
    code = 70
    try:
        file = os.open(log, os.O_WRONLY | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        if words[0] == "save":
            _save(*words[1:])
        else:
            from proptrain import cli

            sys.argv = ["proptrain", *words]
            cli.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
