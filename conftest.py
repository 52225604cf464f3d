"""What holds in every test, and in every example in the code."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from proptrain.system import memory

_OWN = 300_000_000
"""What Python and its libraries take in a command of its own, in bytes."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Count from its own beginning what a test has taken of a limit like ``memory="2GB"``.

    One process runs thousands of tests and keeps some of each, compiled kernels above all: two
    gigabytes in the end. A test would pass or fail by which ones came before it. Tests that hold
    the memory of a process against a limit start one of their own. (A fixture would come after
    those of modules, which build graphs as well.)
    """
    before = memory.resident_memory() or _OWN

    def resident() -> int:
        return _OWN + max(0, (memory.memory_told("VmRSS") or before) - before)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memory, "resident_memory", resident)
        return (yield)
