"""Structure noise and label noise: as much of it as asked for, and nothing else changed."""

import os
import re

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from proptrain.data.catalog import load_dataset
from proptrain.data.graph import Graph
from proptrain.data.noise import noise_rate, with_label_noise, with_structure_noise
from proptrain.errors import InvalidInputError, LabelError
from strategies import adjacencies, node_sets

PAPER_DATA = os.environ.get("PROPTRAIN_DATA")
modest = settings(max_examples=150, derandomize=True, deadline=None)
RATES = [0.0, 0.1, 0.3, 0.5, 0.7, 1.0]


@pytest.fixture(scope="module")
def cora():
    return load_dataset("cora")


def edges_of(graph):
    """{(i, j): weight} with i < j, by loops."""
    entries = sp.coo_array(graph.adjacency)
    rows, columns, weights = entries.row.tolist(), entries.col.tolist(), entries.data.tolist()
    return {(i, j): w for i, j, w in zip(rows, columns, weights, strict=True) if i < j}


def counted_edges(graph, labels):
    """The good and the noisy edges, by loops."""
    known = [(i, j) for i, j in edges_of(graph) if labels[i] >= 0 and labels[j] >= 0]
    good = {(i, j) for i, j in known if labels[i] == labels[j]}
    return good, set(known) - good


@st.composite
def labelled_graphs(draw):
    """A graph and labels of up to three classes, some of them -1."""
    adjacency = draw(adjacencies(max_nodes=10))
    lowest = draw(st.sampled_from([0, 0, -1]))
    codes = st.lists(st.integers(lowest, 2), min_size=len(adjacency), max_size=len(adjacency))
    return Graph(sp.csr_array(adjacency)), np.array(draw(codes))


# ---------------------------------------------------------------- structure noise


@modest
@given(labelled_graphs())
def test_the_rate_is_the_share_of_noisy_among_labelled_edges(drawn):
    graph, labels = drawn
    good, noisy = counted_edges(graph, labels)
    if good or noisy:
        assert noise_rate(graph, labels) == len(noisy) / (len(good) + len(noisy))
    else:
        with pytest.raises(LabelError, match="needs edges between labelled nodes, got none"):
            noise_rate(graph, labels)


def assert_moved_as_asked(before, after, labels, rate):
    """Everything that is promised of the new graph."""
    old, new = edges_of(before), edges_of(after)
    good, noisy = counted_edges(before, labels)
    new_good, new_noisy = counted_edges(after, labels)
    n_counted = len(good) + len(noisy)
    assert len(new_noisy) == round(rate * n_counted)
    assert len(new) == len(old)  # a duplicate would have been merged by Graph
    assert after.counts.duplicates == after.counts.self_loops == 0
    assert after.n_nodes == before.n_nodes
    assert sorted(new.values()) == sorted(old.values())
    gone, come = old.keys() - new.keys(), new.keys() - old.keys()
    assert len(gone) == len(come) == abs(len(new_noisy) - len(noisy))
    assert all(new[edge] == old[edge] for edge in old.keys() & new.keys())
    if len(new_noisy) > len(noisy):
        assert gone <= good
        assert come <= new_noisy
    else:
        assert gone <= noisy
        assert come <= new_good


def test_moving_edges_keeps_all_that_it_should():
    has_moved = []

    @modest
    @given(labelled_graphs(), st.sampled_from(RATES), st.integers(0, 100))
    def check(drawn, rate, seed):
        graph, labels = drawn
        before, labels_before = graph.adjacency.copy(), labels.copy()
        try:
            moved = with_structure_noise(graph, labels, rate, seed)
        except InvalidInputError:
            reject()  # said why, and does not count; when it may is tested below
        assert_moved_as_asked(graph, moved, labels, rate)
        again = with_structure_noise(graph, labels, rate, seed)
        assert edges_of(again) == edges_of(moved)
        assert (graph.adjacency != before).nnz == 0
        np.testing.assert_array_equal(labels, labels_before)
        has_moved.append(edges_of(moved) != edges_of(graph))

    check()
    assert len(has_moved) >= modest.max_examples
    assert sum(has_moved) > modest.max_examples / 2


@modest
@given(labelled_graphs(), st.integers(0, 100))
def test_one_edge_is_moved_whenever_one_can_be(drawn, seed):
    graph, labels = drawn
    good, noisy = counted_edges(graph, labels)
    for there, movable, step in ((noisy, good, 1), (good, noisy, -1)):
        if not movable:
            continue
        free = {
            (i, j)
            for i in range(len(labels))
            for j in range(i)
            if labels[i] >= 0 and labels[j] >= 0 and (labels[i] != labels[j]) == (step == 1)
        } - {(j, i) for i, j in there}
        possible = any({u, v} & set(pair) for u, v in movable for pair in free)
        rate = (len(noisy) + step) / (len(good) + len(noisy))
        if possible:
            assert_moved_as_asked(
                graph, with_structure_noise(graph, labels, rate, seed), labels, rate
            )
        else:
            with pytest.raises(InvalidInputError, match="Ask for a rate nearer"):
                with_structure_noise(graph, labels, rate, seed)


@modest
@given(labelled_graphs(), st.integers(0, 100))
def test_its_own_rate_leaves_a_graph_as_it_is(drawn, seed):
    graph, labels = drawn
    if any(counted_edges(graph, labels)):
        same = with_structure_noise(graph, labels, noise_rate(graph, labels), seed)
        assert edges_of(same) == edges_of(graph)


@pytest.mark.parametrize("rate", RATES)
def test_a_moved_edge_keeps_one_end_and_its_weight(rate):
    # Every weight is an edge's own, so that its old and its new place can be told.
    random = np.random.RandomState(0)
    upper = np.triu(random.rand(60, 60) < 0.1, 1)
    weights = np.zeros((60, 60))
    weights[upper] = np.arange(1, upper.sum() + 1)
    graph, labels = Graph(sp.csr_array(weights)), np.arange(60) % 4
    moved = with_structure_noise(graph, labels, rate, 3)
    assert_moved_as_asked(graph, moved, labels, rate)
    old, new = ({w: e for e, w in edges_of(g).items()} for g in (graph, moved))
    assert old.keys() == new.keys()
    shared = [len(set(old[w]) & set(new[w])) for w in old if old[w] != new[w]]
    assert set(shared) == {1}


def test_either_end_may_stay_and_every_free_node_may_come():
    # 0-1 is good; of the others, 2 … 5, any may become the new neighbour of 0 or of 1.
    graph = Graph(sp.coo_array(([1.0], ([0], [1])), shape=(6, 6)))
    labels = np.array([0, 0, 1, 1, 2, 2])
    drawn = [next(iter(edges_of(with_structure_noise(graph, labels, 1, s)))) for s in range(400)]
    places, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(places) == 8
    assert counts.min() > 25  # 50 each, give or take
    noisy = Graph(sp.coo_array(([1.0], ([0], [2])), shape=(6, 6)))
    drawn = {next(iter(edges_of(with_structure_noise(noisy, labels, 0, s)))) for s in range(50)}
    assert drawn == {(0, 1), (2, 3)}


@pytest.mark.parametrize("rate", RATES)
def test_exact_counts_on_cora(cora, rate):
    good, noisy = counted_edges(cora.graph, cora.labels)
    assert (len(good), len(noisy)) == (4275, 1003)
    first, second = (with_structure_noise(cora.graph, cora.labels, rate, s) for s in (0, 1))
    assert_moved_as_asked(cora.graph, first, cora.labels, rate)
    assert edges_of(first) != edges_of(second)
    assert (first.adjacency.data == 1).all()
    assert (first.adjacency != first.adjacency.T).nnz == 0


@pytest.mark.skipif(
    not PAPER_DATA, reason="set PROPTRAIN_DATA to the folder with the paper's data sets"
)
@pytest.mark.parametrize("name", ["citeseer", "cora_ml", "pubmed", "ms_academic"])
def test_exact_counts_on_the_papers_data_sets(name):
    dataset = load_dataset(name, PAPER_DATA, download=False)
    own = noise_rate(dataset.graph, dataset.labels)
    assert 0.19 < own < 0.27
    for rate in (0.0, 0.1, own, 0.7):
        moved = with_structure_noise(dataset.graph, dataset.labels, rate, 7)
        assert_moved_as_asked(dataset.graph, moved, dataset.labels, rate)


def test_edges_with_an_unlabelled_end_stay(cora):
    labels = np.where(np.arange(cora.n_nodes) % 3 == 0, -1, cora.labels)
    moved = with_structure_noise(cora.graph, labels, 0.6, 0)
    assert_moved_as_asked(cora.graph, moved, labels, 0.6)
    halves = [
        {(i, j) for i, j in edges_of(graph) if min(labels[i], labels[j]) < 0}
        for graph in (cora.graph, moved)
    ]
    assert halves[0] == halves[1]


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), "half", None])
def test_a_rate_is_a_share(cora, rate):
    message = f"between 0 and 1, got {rate!r}"
    with pytest.raises(InvalidInputError, match=message):
        with_structure_noise(cora.graph, cora.labels, rate, 0)
    with pytest.raises(InvalidInputError, match=message):
        with_label_noise(cora.labels, [0, 1], 7, rate, 0)


@pytest.mark.parametrize("seed", [-1, None, 0.5, 2**32])
def test_a_seed_is_needed_to_make_the_same_noise_again(cora, seed):
    message = f"whole number from 0 to 2³² - 1, .* got {seed!r}"
    with pytest.raises(InvalidInputError, match=message):
        with_structure_noise(cora.graph, cora.labels, 0.5, seed)
    with pytest.raises(InvalidInputError, match=message):
        with_label_noise(cora.labels, [0, 1], 7, 0.5, seed)


def test_a_graph_may_be_an_edge_list():
    edges, labels = [(0, 1), (1, 2), (2, 3)], [0, 0, 1, 1, 1]
    assert noise_rate(edges, labels) == 1 / 3
    noisier = with_structure_noise(edges, labels, 1.0, 0)
    assert (noisier.n_nodes, noisier.n_edges, noise_rate(noisier, labels)) == (5, 3, 1)


def test_a_rate_out_of_reach_says_why():
    star = Graph(sp.coo_array(([1, 1, 1], ([0, 0, 0], [1, 2, 3])), shape=(4, 4)))
    message = "rate of 0 needs 3 edges between nodes of the same class, but there are only 1 such"
    with pytest.raises(InvalidInputError, match=message):
        with_structure_noise(star, [0, 1, 1, 2], 0, 0)
    with pytest.raises(InvalidInputError, match="of different classes, but there are only 0 such"):
        with_structure_noise(star, [0, 0, 0, 0], 1, 0)
    # Classes 0 and 1 are full; class 2 is not, but no noisy edge has an end there.
    edges = ([0, 2, 1, 3], [1, 3, 2, 0])
    square = Graph(sp.coo_array((np.ones(4), edges), shape=(8, 8)))
    message = "needs 2 edges moved, but after 0 no other can be: both ends are joined to every"
    with pytest.raises(InvalidInputError, match=message):
        with_structure_noise(square, [0, 0, 1, 1, 2, 2, 2, 2], 0, 0)


def test_labels_of_another_kind_or_number_are_refused(cora):
    with pytest.raises(LabelError, match=r"one for each of the 2,708 nodes .* got shape \(3,\)"):
        noise_rate(cora.graph, [0, 1, 2])
    with pytest.raises(LabelError, match=r"got shape .* and dtype float64"):
        with_structure_noise(cora.graph, cora.labels.astype(float), 0.1, 0)
    with pytest.raises(LabelError, match="got none among 5,278 edges"):
        noise_rate(cora.graph, np.full(cora.n_nodes, -1))


# ---------------------------------------------------------------- label noise


@st.composite
def training_sets(draw):
    n_classes = draw(st.integers(2, 4))
    labels = np.array(draw(st.lists(st.integers(0, n_classes - 1), min_size=1, max_size=30)))
    return labels, draw(node_sets(len(labels), min_size=1)), n_classes


@modest
@given(training_sets(), st.sampled_from([0, 0.1, 0.25, 0.5, 0.8, 1]), st.integers(0, 100))
def test_of_each_class_so_many_training_labels_change(drawn, rate, seed):
    labels, nodes, n_classes = drawn
    before = labels.copy()
    changed = with_label_noise(labels, nodes, n_classes, rate, seed)
    np.testing.assert_array_equal(labels, before)
    assert changed.dtype == np.int64
    assert changed.min() >= 0
    assert changed.max() < n_classes
    others = np.setdiff1d(np.arange(len(labels)), nodes)
    np.testing.assert_array_equal(changed[others], labels[others])
    for code in range(n_classes):
        members = nodes[labels[nodes] == code]
        assert (changed[members] != code).sum() == round(rate * len(members))
    mask = np.isin(np.arange(len(labels)), nodes)
    for same_nodes in (nodes[::-1], mask):
        again = with_label_noise(labels, same_nodes, n_classes, rate, seed)
        np.testing.assert_array_equal(again, changed)


def test_every_node_and_every_other_class_is_as_likely():
    labels = np.repeat([0, 1, 2], 4)
    drawn = np.array([with_label_noise(labels, np.arange(12), 3, 0.5, s) for s in range(600)])
    for node, code in enumerate(labels):
        counts = np.bincount(drawn[:, node], minlength=3)
        assert 250 < counts[code] < 350  # half of the draws leave it
        assert (np.delete(counts, code) > 110).all()  # a quarter for each other class


def test_exact_counts_of_wrong_labels_on_cora(cora):
    nodes = np.concatenate([np.flatnonzero(cora.labels == c)[: 20 + c] for c in range(7)])
    changed = with_label_noise(cora.labels, nodes, 7, 0.3, 0)
    wrong = np.flatnonzero(changed != cora.labels)
    assert set(wrong) <= set(nodes)
    assert np.bincount(cora.labels[wrong]).tolist() == [6, 6, 7, 7, 7, 8, 8]


@modest
@given(training_sets(), st.sampled_from([0, 0.25, 0.5, 1]), st.integers(0, 100))
def test_pair_noise_turns_every_wrong_label_into_the_next_class(drawn, rate, seed):
    labels, nodes, n_classes = drawn
    changed = with_label_noise(labels, nodes, n_classes, rate, seed, kind="pair")
    wrong = np.flatnonzero(changed != labels)
    assert set(wrong) <= set(nodes)
    np.testing.assert_array_equal(changed[wrong], (labels[wrong] + 1) % n_classes)
    for code in range(n_classes):
        members = nodes[labels[nodes] == code]
        assert np.isin(members, wrong).sum() == round(rate * len(members))


def test_pair_noise_takes_every_node_as_likely():
    labels = np.repeat([0, 1, 2], 4)
    seeds = range(600)
    drawn = [with_label_noise(labels, np.arange(12), 3, 0.5, s, kind="pair") for s in seeds]
    changes = (np.array(drawn) != labels).sum(axis=0)
    assert ((changes > 250) & (changes < 350)).all()


def test_label_noise_refuses_what_it_cannot_use():
    labels = np.array([0, 1, -1, 5])
    with pytest.raises(LabelError, match="class codes from 0 to 1, got values from -1 to 1"):
        with_label_noise(labels, [1, 2], 2, 0.5, 0)
    with pytest.raises(LabelError, match="class codes from 0 to 1, got values from 0 to 5"):
        with_label_noise(labels, [0, 3], 2, 0.5, 0)
    for nodes in ([4], [-1], [0.5], ["a"], [True, False]):
        told = re.escape(f"or a mask of that number; got {nodes!r}")
        with pytest.raises(LabelError, match=f"indices from 0 to 3, .* {told}"):
            with_label_noise(labels, nodes, 2, 0.5, 0)
    with pytest.raises(LabelError, match="at least two classes, got 1"):
        with_label_noise(labels, [0], 1, 0.5, 0)
    with pytest.raises(LabelError, match="whole class codes"):
        with_label_noise(["a", "b"], [0], 2, 0.5, 0)
    with pytest.raises(InvalidInputError, match=r"uniform, pair; got 'pairs'\. Did you mean"):
        with_label_noise(labels, [0], 2, 0.5, 0, kind="pairs")


def test_no_training_nodes_or_no_noise_leave_the_labels():
    assert with_label_noise([0, 1, 1], [], 2, 0.5, 0).tolist() == [0, 1, 1]
    assert with_label_noise([0, 0], [0, 1], 1, 0.0, 0).tolist() == [0, 0]
