"""Processes that come of one: found by whose child they are, so that others' are never touched."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def descendants(pid):
    """Return the ids of all processes that a process has started, and they in turn."""
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(words[1]), []).append(int(path.parent.name))
    found, waiting = [], [pid]
    while waiting:
        waiting += (own := children.get(waiting.pop(), []))
        found += own
    return found


def own_processes(title):
    """Return the ids of those that come of this process and whose command line begins so."""
    found = []
    for pid in descendants(os.getpid()):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        found += [pid] if line.startswith(title) else []
    return sorted(found)


def kill_tree(process):
    """End a process as a power cut would: with all that came of it, at once."""
    for pid in [process.pid, *descendants(process.pid)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()
