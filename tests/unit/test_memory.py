"""What a process has in memory."""

import platform

import numpy as np
import pytest

from proptrain.system.memory import give_back, resident_memory


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="needs glibc, which keeps what was freed"
)
def test_freed_memory_is_handed_back():
    arrays = [np.ones(12_000) for _ in range(2_000)]  # 96 KB each: too small to be mapped alone
    last = np.ones(12_000)  # above all others on the heap, so it holds them in the process
    full = resident_memory()
    del arrays
    give_back()
    assert full - resident_memory() > 150_000_000
    assert last.all()
