"""The same seed gives the same answer: in any process, with any threads, from memory or disk."""

from __future__ import annotations

import numpy as np
import pytest
from reliability.same import bits, difference, engines_apart, in_processes, told_by


@pytest.fixture(scope="module")
def told():
    """What PTA tells in a process with one thread, and in two with two, after 20 epochs."""
    return {n_threads: in_processes("PTA", 20, n_threads, n_threads) for n_threads in (1, 2)}


def test_another_process_tells_the_same_bits(told):
    assert bits(*told[2]) == "same bits"


def test_another_number_of_threads_tells_the_same_within_a_hundred_thousandth(told):
    assert difference(told[1][0], told[2][0]) <= 1e-5


@pytest.mark.parametrize("fast", [True, False])
def test_memory_and_disk_sparse_and_dense_tell_the_same(fast):
    apart = engines_apart(30, fast=fast)
    assert len(apart) == 3
    assert max(apart.values()) <= 1e-5


def test_what_is_compared_would_show_a_difference(told):
    other = told_by("PTA", 21)  # one epoch more
    assert bits(told[1][0], other) == "other bits"
    assert difference(told[1][0], other) > 1e-5
    assert np.abs(told[1][0].sum(axis=1) - 1).max() < 1e-6
