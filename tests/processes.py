"""Processes that come of one: found by whose child they are, so that others' are never touched."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

HANGS = 600
"""Seconds after which something hangs, however busy the machine: no test tells less apart."""


def descendants(*pids):
    """Return the ids of all processes that some have started, and they in turn."""
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(words[1]), []).append(int(path.parent.name))
    found, waiting = [], list(pids)
    while waiting:
        waiting += (own := children.get(waiting.pop(), []))
        found += own
    return found


def own_processes(title=""):
    """Return those that come of this process and whose command line begins so: by id, the line."""
    found = {}
    for pid in sorted(descendants(os.getpid())):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if line.startswith(title) and _begun(pid) is not None:
            found[pid] = line.replace("\0", " ").strip()
    return found


class Descent:
    """Remembers all that came of a process while it is looked at, in a ``with`` statement.

    Over and over, since who has lost its parent cannot be found by descent any more.
    """

    def __init__(self, pid, pause=0.3):
        self._root, self._pause = pid, pause
        self._found, self._is_over = {}, threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._watcher.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._watcher.join()

    def __len__(self):
        return len(self._found)

    def _watch(self):
        while not self._is_over.wait(self._pause):
            for pid in descendants(self._root, *self.alive()):
                self._found[pid] = _begun(pid)

    def alive(self):
        """Return those that are still there; a later one may have the same id."""
        return [pid for pid, begun in list(self._found.items()) if begun and _begun(pid) == begun]


def _begun(pid):
    """Return when a process was started, in ticks since the machine was; None if it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in "ZX" else int(words[19])


def kill_tree(process):
    """End a process as a power cut would: with all that came of it, at once."""
    for pid in [process.pid, *descendants(process.pid)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()
