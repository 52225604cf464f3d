"""Which rounds count, and whether labels take over: by what each tells of the judged labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proptrain.rounds import choose_rounds, is_clearly_better, labels_take_over

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=5)


def told(n_right, n=40, start=0):
    """Of n labels those that are told right: so many one after another."""
    return (np.arange(n) >= start) & (np.arange(n) < start + n_right)


def never():
    raise AssertionError("Five fits were made for nothing.")


@given(SHARES, st.floats(0, 1))
def test_all_rounds_count_together_unless_the_first_tells_more(shares, together):
    places = tuple(range(len(shares))) if together >= shares[0] else (0,)
    assert choose_rounds(shares, together=together) == places


@given(SHARES, st.floats(0, 1))
def test_one_by_one_the_last_counts_that_has_not_lost_too_many_labels(shares, most_lost):
    (place,) = choose_rounds(shares, most_lost=most_lost)
    assert shares[place] >= shares[0] - most_lost
    assert all(share < shares[0] - most_lost for share in shares[place + 1 :])


@pytest.mark.parametrize(
    ("labels", "networks", "share_with_own", "anew", "outcome"),
    [
        (told(20), told(20), 0.5, never, False),  # no better than the networks at hand
        (told(30), told(10), 0.75, never, True),  # these fail even with their own word
        (told(30), told(10), 1.0, lambda: told(28), False),  # others like them know as much
        (told(30), told(10), 1.0, lambda: told(10), True),
        (
            told(22),
            told(20),
            0.5,
            lambda: told(10),
            True,
        ),  # better, but not clearly: they are heard
        (told(22), told(20), 0.5, lambda: told(20), False),
    ],
)
def test_labels_take_over_where_they_clearly_know_more(
    labels, networks, share_with_own, anew, outcome
):
    decided = labels_take_over(labels, networks, share_with_own=share_with_own, hear_anew=anew)
    assert decided == outcome


def test_what_is_clear_takes_two_standard_errors_of_the_changes():
    assert is_clearly_better(told(12), told(3, start=12))  # 9 of 15, more than 2 × √16
    assert not is_clearly_better(told(12), told(4, start=12))
    assert not is_clearly_better(told(4, start=12), told(12))
