"""Splits: the paper's protocol, draw by draw, and what cannot be drawn."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proptrain.data.splits import (
    KNOWN_NODES_SEED,
    TEST_SEEDS,
    VALIDATION_SEEDS,
    Split,
    hold_out,
    seeds_for,
    split_nodes,
)
from proptrain.errors import LabelError

DATA = os.environ.get("PROPTRAIN_DATA")
LABELS = np.random.RandomState(7).randint(0, 3, size=400)
# As the notes list them.
PAPERS_TEST_SEEDS = """
2144199730 794209841 2985733717 2282690970 1901557222 2009332812 2266730407 635625077
3538425002 960893189 497096336 3940842554 3594628340 948012117 3305901371 3644534211
2297033685 4092258879 2590091101 1694925034
"""
PAPERS_VALIDATION_SEEDS = """
2413340114 3258769933 1789234713 2222151463 2813247115 1920426428 4272044734 2092442742
841404887 2188879532 646784207 1633698412 2256863076 374355442 289680769 4281139389
4263036964 900418539 119332950 1628837138
"""
SMALL = {"n_known": 200, "per_class": 5, "n_stop": 50}


def protocol(labels, seed, n_known, per_class, n_stop):
    """The protocol of the notes, written out; every node has a label."""
    nodes = np.arange(len(labels))
    known = np.random.RandomState(4143496719).choice(nodes, n_known, replace=False)
    random = np.random.RandomState(seed)
    train = []
    for c in range(labels.max() + 1):
        train += list(random.choice([i for i in known if labels[i] == c], per_class, replace=False))
    left = [i for i in known if i not in train]
    stop = random.choice(left, n_stop, replace=False)
    unknown = [i for i in nodes if i not in set(known)]
    validation = sorted(set(left) - set(stop))
    return train, stop, unknown, validation


@pytest.mark.skipif(DATA is None, reason="PROPTRAIN_DATA does not name the data folder")
def test_the_authors_split_of_cora_ml_is_met_exactly():
    from proptrain.data.catalog import load_dataset

    path = Path(DATA, "..", "reference", "authors_cora_ml.npz")
    if not path.exists():
        pytest.skip("the authors' numbers do not lie beside the data folder, in ../reference")
    recorded = np.load(path, allow_pickle=False)
    split = split_nodes(load_dataset("cora_ml", DATA).labels, 2144199730)
    for name in ("train", "stop", "test"):
        np.testing.assert_array_equal(getattr(split, name), recorded[name], err_msg=name)


@pytest.mark.parametrize("seed", [TEST_SEEDS[0], VALIDATION_SEEDS[3], 0])
def test_split_follows_the_protocol(seed):
    train, stop, unknown, validation = protocol(LABELS, seed, 200, 5, 50)
    split = split_nodes(LABELS, seed, **SMALL)
    tuning = split_nodes(LABELS, seed, **SMALL, for_tuning=True)
    for drawn in (split, tuning):
        np.testing.assert_array_equal(drawn.train, train)
        np.testing.assert_array_equal(drawn.stop, stop)
    np.testing.assert_array_equal(split.test, unknown)
    np.testing.assert_array_equal(tuning.test, validation)


def test_all_seeds_share_their_test_nodes_and_tuning_never_sees_one():
    splits = [split_nodes(LABELS, seed, **SMALL) for seed in TEST_SEEDS[:5]]
    test = set(splits[0].test)
    for split in splits:
        assert set(split.test) == test
    for seed in (*TEST_SEEDS[:5], *VALIDATION_SEEDS):
        tuning = split_nodes(LABELS, seed, **SMALL, for_tuning=True)
        used = np.concatenate([tuning.train, tuning.stop, tuning.test])
        assert test.isdisjoint(used)
        assert len(used) == len(set(used)) == 200
    assert len({tuple(split.train) for split in splits}) == 5


@settings(max_examples=25, derandomize=True, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 60), st.booleans())
def test_splits_are_disjoint_labelled_and_balanced(seed, n_unlabelled, for_tuning):
    labels = LABELS.copy()
    labels[:n_unlabelled] = -1
    labels[labels == 1] = 4  # codes need not be without gaps
    split = split_nodes(labels, seed, **SMALL, for_tuning=for_tuning)
    nodes = np.concatenate([split.train, split.stop, split.test])
    assert len(np.unique(nodes)) == len(nodes)
    assert (labels[nodes] >= 0).all()
    np.testing.assert_array_equal(labels[split.train], np.repeat([0, 2, 4], 5))
    assert len(split.stop) == 50
    np.testing.assert_array_equal(split.test, np.sort(split.test))
    assert len(split.test) == (200 - 15 - 50 if for_tuning else 400 - n_unlabelled - 200)


def test_splitting_leaves_labels_and_random_state_alone():
    labels = LABELS.copy()
    labels.flags.writeable = False
    before = np.random.get_state()
    split_nodes(labels, 1, **SMALL)
    after = np.random.get_state()
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]


def test_the_seeds_are_the_papers():
    assert KNOWN_NODES_SEED == 4143496719
    assert len(set(TEST_SEEDS)) == len(set(VALIDATION_SEEDS)) == 20
    assert set(TEST_SEEDS).isdisjoint(VALIDATION_SEEDS)
    assert [str(seed) for seed in TEST_SEEDS] == PAPERS_TEST_SEEDS.split()
    assert [str(seed) for seed in VALIDATION_SEEDS] == PAPERS_VALIDATION_SEEDS.split()


def test_a_hundred_runs_are_twenty_splits_with_five_initialisations():
    pairs = seeds_for(100)
    assert len(set(pairs)) == 100
    assert {seed for seed, _ in pairs} == set(TEST_SEEDS)
    assert [start for _, start in pairs] == [i for i in range(5) for _ in range(20)]
    assert seeds_for(3, VALIDATION_SEEDS[:2]) == [
        (VALIDATION_SEEDS[0], 0),
        (VALIDATION_SEEDS[1], 0),
        (VALIDATION_SEEDS[0], 1),
    ]


# --- Split itself -----------------------------------------------------------------------------


def test_a_split_copies_and_freezes_its_nodes():
    train = np.array([3, 1])
    split = Split(train=train, stop=[0], test=[])
    train[0] = 0
    np.testing.assert_array_equal(split.train, [3, 1])
    for nodes in (split.train, split.stop):
        assert nodes.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            nodes[0] = 9


@pytest.mark.parametrize(
    ("parts", "repeated"), [(([0, 1], [1], [2]), 1), (([0], [1], [0, 1]), 2), (([4, 4], [], []), 1)]
)
def test_nodes_in_two_places_are_refused(parts, repeated):
    with pytest.raises(LabelError, match=f"disjoint.*; {repeated} nodes occur more than once"):
        Split(*parts)


def test_negative_nodes_are_refused():
    with pytest.raises(LabelError, match="must not be negative, got -3"):
        Split([0], [-3], [1])


# --- what cannot be drawn ---------------------------------------------------------------------


@pytest.mark.parametrize("n_known", [0, -1, 401])
def test_an_impossible_number_of_known_nodes_is_refused(n_known):
    with pytest.raises(LabelError, match=f"between 1 and the 400 labelled nodes, got {n_known}"):
        split_nodes(LABELS, 0, n_known=n_known)


def test_without_labels_nothing_is_known():
    with pytest.raises(LabelError, match="the 0 labelled nodes"):
        split_nodes(np.full(5, -1), 0, n_known=1)


def test_too_many_stopping_nodes_are_refused():
    with pytest.raises(
        LabelError,
        match="186 stopping nodes are asked for, but only 185 of the 200 known nodes are left "
        "after 15 training nodes",
    ):
        split_nodes(LABELS, 0, n_known=200, per_class=5, n_stop=186)
    assert len(split_nodes(LABELS, 0, n_known=200, per_class=5, n_stop=185).stop) == 185


def test_a_class_that_is_too_small_is_refused_by_name():
    labels = np.r_[LABELS, 5]
    with pytest.raises(LabelError, match="Class 5 has 1 known nodes, too few for 1 training"):
        split_nodes(labels, 0, n_known=401, per_class=1, n_stop=5)
    with pytest.raises(LabelError, match=r"Class 0 has \d+ known nodes, too few for 150 training"):
        split_nodes(LABELS, 0, n_known=400, per_class=150, n_stop=5)
    with pytest.raises(LabelError, match="Class 'graphs' has"):
        split_nodes(LABELS, 0, n_known=400, per_class=150, class_names=["graphs", "b", "c"])


# --- hold_out ---------------------------------------------------------------------------------

codes_and_fractions = (
    st.lists(st.integers(-1, 3), max_size=60).map(lambda codes: np.array(codes, dtype=np.int64)),
    st.floats(0, 0.99),
    st.integers(0, 1000),
)


@settings(max_examples=80, derandomize=True, deadline=None)
@given(*codes_and_fractions)
def test_held_out_nodes_are_that_share_of_each_class_and_never_all_of_it(codes, fraction, seed):
    held = hold_out(codes, fraction, np.random.RandomState(seed))
    assert held.dtype == np.int64
    np.testing.assert_array_equal(held, np.unique(held))  # ascending, none twice
    assert (codes[held] >= 0).all()
    for code in np.unique(codes[codes >= 0]):
        size, taken = (codes == code).sum(), (codes[held] == code).sum()
        assert taken == int(fraction * size)
        assert taken < size
    np.testing.assert_array_equal(held, hold_out(codes, fraction, np.random.RandomState(seed)))


def test_a_class_with_one_node_keeps_it():
    codes = np.array([0, 0, 0, 0, 1, -1])
    held = hold_out(codes, 0.5, np.random.RandomState(0))
    assert len(held) == 2
    assert set(held) <= {0, 1, 2, 3}


def test_other_seeds_hold_out_other_nodes():
    codes = np.zeros(50, dtype=np.int64)
    draws = {tuple(hold_out(codes, 0.3, np.random.RandomState(seed))) for seed in range(5)}
    assert len(draws) == 5
