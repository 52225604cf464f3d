"""Large loops in several threads, small ones in none.

The compiled loops let go of Python's lock, so ordinary threads run them side by side, while torch
waits. Every number is computed by one thread in one order: results are the same to the bit, however
many threads there are.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Part = TypeVar("Part")

WORTH_IT = 1 << 25
"""So many multiplications and additions take some milliseconds, waking threads up to one."""
_BLOCKS_PER_THREAD = 4
"""More blocks than threads: one that is held up by others on the machine holds up less."""


@cache
def count_threads() -> int:
    """Return how many threads to use: one for each core, or what OMP_NUM_THREADS says."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) > 0 else cores or 1


def are_worth_it(n_operations: int) -> bool:
    """Tell whether to do so many multiplications and additions in several threads."""
    return count_threads() > 1 and n_operations >= WORTH_IT


def row_blocks(starts: NDArray[np.integer], n_columns: int, n_jobs: int = 1) -> list[slice]:
    """Cut rows into blocks of about equal work; row i has its entries from starts[i] on.

    It is one block if more are not worth it. If several jobs are done on every block, side by side,
    each thread has one of them, where threads can be shared out so.

    >>> row_blocks(np.array([0, 2, 4]), n_columns=8)
    [slice(0, 2, None)]
    """
    n_rows, n_entries = len(starts) - 1, int(starts[-1] - starts[0])
    if not are_worth_it(n_entries * n_columns):
        return [slice(0, n_rows)]
    n_for_each, rest = divmod(count_threads(), n_jobs)
    n_blocks = count_threads() * _BLOCKS_PER_THREAD if n_jobs == 1 or rest else n_for_each
    ends = np.ceil(starts[0] + np.linspace(0, n_entries, n_blocks + 1))
    # In their own type: else all of `starts` would be copied to compare them.
    bounds = np.searchsorted(starts, ends.astype(starts.dtype)).tolist()
    bounds[0], bounds[-1] = 0, n_rows  # rows without entries at either end belong to a block too
    return [slice(a, b) for a, b in pairwise(bounds) if a < b]


def for_each(parts: Sequence[Part], do: Callable[[Part], None]) -> None:
    """Do something with each part, side by side if there are several."""
    if len(parts) == 1 or count_threads() == 1:
        deque(map(do, parts), maxlen=0)
        return
    flushes = tiny_is_zero()

    def do_alike(part: Part) -> None:
        set_tiny_is_zero(flushes)  # a setting of each thread, and results must not depend on it
        do(part)

    deque(_pool().map(do_alike, parts), maxlen=0)  # raises what any of them raises


def tiny_is_zero() -> bool:
    """Tell whether numbers below 1.2e-38 count as zero in this thread."""
    with np.errstate(under="ignore"):  # whoever has it raised does not mean this
        return bool(np.float32(1e-38) * np.float32(0.1) == 0)


def set_tiny_is_zero(wanted: bool) -> None:
    """Have numbers below 1.2e-38 count as zero in this thread, or not."""
    if tiny_is_zero() is not wanted:
        import torch  # which alone can set it; whoever has set it before has loaded it

        torch.set_flush_denormal(wanted)


@contextmanager
def counting_tiny_as_zero() -> Iterator[None]:
    """Have numbers below 1.2e-38 count as zero, in this thread and those that `for_each` uses.

    Weight decay takes the weights of rare features there after a thousand epochs, and a CPU
    computes with such numbers a hundred times more slowly: whole epochs took ten times as long.
    Threads that torch has started by itself before are out of reach.
    """
    was_so = tiny_is_zero()
    set_tiny_is_zero(True)
    try:
        yield
    finally:
        set_tiny_is_zero(was_so)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count_threads(), thread_name_prefix="proptrain")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork: a child starts its own
    os.register_at_fork(after_in_child=_pool.cache_clear)
