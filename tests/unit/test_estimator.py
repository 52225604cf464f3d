"""The classifiers: scikit-learn's rules, what may matter and what may not, every error message."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

import reference
from proptrain import (
    PPR,
    Adaptive,
    Exact,
    Graph,
    Heat,
    LabelPropagationClassifier,
    Mean,
    Power,
    PTAClassifier,
    dynamic,
    static,
)
from proptrain.data.extend import count_new_nodes, extend_graph
from proptrain.errors import GraphError, InvalidInputError, LabelError, ProptrainError

SCHEMES = [PPR(0.2, 5), Power(2), Mean(3), Heat(2.0, 6), Exact(0.3, 1e-4)]
BETAS = [
    reference.ppr_coefficients(0.2, 5),
    reference.power_coefficients(2),
    reference.mean_coefficients(3),
    reference.heat_coefficients(2.0, 6),
]
NORMALISATIONS = ["symmetric", "symmetric-no-loops", "row"]


def pta(**settings):
    """A PTAClassifier that is quick and always the same."""
    return PTAClassifier(**{"max_epochs": 30, "n_hidden": 8, "random_state": 0, **settings})


def lp(**settings):
    return LabelPropagationClassifier(**settings)


def two_groups(seed=0, n=40, labelled=6):
    """Features, all labels, labels with -1 for most nodes, and a graph of two groups (n, n)."""
    random = np.random.RandomState(seed)
    truth = np.arange(n) % 2
    features = random.rand(n, 6) + truth[:, None] * np.array([1, 0.5, 0, 0, 0, 0])
    alike = truth[:, None] == truth
    adjacency = np.triu(random.rand(n, n) < np.where(alike, 0.25, 0.02), 1).astype(float)
    y = np.where(np.arange(n) < 2 * labelled, truth, -1)
    return features, truth, y, adjacency + adjacency.T


FEATURES, TRUTH, Y, ADJACENCY = two_groups()
GRAPH = Graph(sp.csr_array(ADJACENCY))
STOP = np.array([0, 1, 2, 3])


# --- scikit-learn's own checks ----------------------------------------------------------------

CHECKS = """
import json, sys, warnings
warnings.simplefilter("ignore")
from sklearn.utils.estimator_checks import check_estimator
from proptrain import *
results = check_estimator(eval(sys.argv[1]), on_fail=None, on_skip=None)
print(json.dumps([[r["check_name"], r["status"], str(r["exception"])] for r in results]))
"""
SHORT = "PTAClassifier(max_epochs=60, patience=20{})"
PLAIN = "LabelPropagationClassifier({})"
NETWORKS = "GNNClassifier(architecture='{}', max_epochs=60, patience=20, unlabelled=None)"
SMOOTH = "CorrectAndSmoothClassifier(max_epochs=60, patience=20, unlabelled=None)"


def sklearn_checks(estimator):
    """Run in a process of its own: the array API must be switched on before SciPy is imported."""
    done = subprocess.run(
        [sys.executable, "-c", CHECKS, estimator],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "estimator",
    [
        SHORT.format(", unlabelled=None"),
        PLAIN.format("unlabelled=None"),
        *map(NETWORKS.format, ("APPNP", "MLP")),  # one class; others need minutes more
        SMOOTH,
        "PTAPlusClassifier(max_epochs=60, patience=20, n_rounds=1, unlabelled=None)",
    ],
)
def test_every_check_of_scikit_learn_passes_and_none_is_skipped(estimator):
    results = sklearn_checks(estimator)
    assert len(results) > 40
    assert [r for r in results if r[1] != "passed"] == []


@pytest.mark.parametrize("estimator", [SHORT.format(""), PLAIN.format("")])
def test_with_the_usual_marker_only_the_check_with_a_class_minus_one_fails(estimator):
    # That check names its two classes -1 and 1. Here -1 means unlabelled, as in scikit-learn's own
    # semi-supervised classifiers, so one class is left, and that is an error.
    failed = [r for r in sklearn_checks(estimator) if r[1] != "passed"]
    assert [r[:2] for r in failed] == [["check_classifiers_classes", "failed"]]
    assert "The value -1 marks unlabelled nodes" in failed[0][2]


# --- what may matter, and what may not --------------------------------------------------------


def test_without_edges_pta_is_a_network_that_tells_any_row():
    clf = pta(max_epochs=60).fit(FEATURES, Y)
    np.testing.assert_array_equal(clf.predict(FEATURES), clf.transduction_)
    np.testing.assert_allclose(clf.predict_proba(FEATURES), clf.label_distributions_, atol=1e-6)
    weights = {k: np.asarray(v, dtype=np.float64) for k, v in clf.weights_.items()}
    expected = reference.network(FEATURES, *(weights[k] for k in NETWORK))
    np.testing.assert_allclose(clf.label_distributions_, expected, atol=1e-5)
    np.testing.assert_array_equal(clf.reached_, clf.soft_labels_.any(axis=1))


NETWORK = ("weight1", "bias1", "weight2", "bias2")


def test_the_graph_helps_and_the_labels_are_learnt():
    assert (pta(max_epochs=150).fit(FEATURES, Y, graph=ADJACENCY).transduction_ == TRUTH).all()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_labels_of_stopping_nodes_never_enter_the_model(dropout):
    other = Y.copy()
    other[STOP] = 1 - other[STOP]
    settings = {"patience": 10_000, "max_epochs": 25, "dropout": dropout}
    first = pta(**settings).fit(FEATURES, Y, graph=ADJACENCY, stopping=STOP)
    second = pta(**settings).fit(FEATURES, other, graph=ADJACENCY, stopping=STOP)
    np.testing.assert_array_equal(first.soft_labels_, second.soft_labels_)
    assert first.history_.train_loss == second.history_.train_loss
    assert first.history_.train_accuracy == second.history_.train_accuracy
    assert first.history_.stop_loss != second.history_.stop_loss
    # With one epoch there is nothing to choose from: the model itself must be the same.
    first, second = (
        pta(max_epochs=1, dropout=dropout).fit(FEATURES, y, graph=ADJACENCY, stopping=STOP)
        for y in (Y, other)
    )
    np.testing.assert_array_equal(first.label_distributions_, second.label_distributions_)


def test_label_propagation_leaves_stopping_nodes_out():
    hidden = Y.copy()
    hidden[STOP] = -1
    told = lp().fit(None, Y, graph=ADJACENCY, stopping=STOP)
    expected = lp().fit(None, hidden, graph=ADJACENCY)
    np.testing.assert_array_equal(told.label_distributions_, expected.label_distributions_)
    np.testing.assert_array_equal(told.stopping_, STOP)


@pytest.mark.parametrize("make", [pta, lp])
def test_whatever_marks_a_node_as_unlabelled_is_all_the_same(make):
    texts = np.where(Y < 0, "", np.array(["even", "odd"])[Y])
    markers = [None, float("nan"), "", "  ", -1]
    fitted = []
    for marker in markers:
        y = [marker if code < 0 else ("even", "odd")[code] for code in Y]
        fitted.append(make().fit(FEATURES, y, graph=ADJACENCY))
    fitted.append(make(unlabelled="?").fit(FEATURES, np.where(Y < 0, "?", texts), graph=ADJACENCY))
    for clf in fitted:
        assert clf.classes_.tolist() == ["even", "odd"]
        np.testing.assert_array_equal(
            clf.label_distributions_, fitted[0].label_distributions_, strict=True
        )


def test_same_seed_same_bits_and_nobody_elses_random_numbers():
    np.random.seed(7)
    torch.manual_seed(7)
    before = np.random.get_state()[1].copy(), torch.get_rng_state().clone()
    runs = [pta(dropout=0.5).fit(FEATURES, Y, graph="knn").label_distributions_ for _ in range(2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    other = pta(dropout=0.5, random_state=1).fit(FEATURES, Y, graph="knn")
    assert (other.label_distributions_ != runs[0]).any()
    np.testing.assert_array_equal(np.random.get_state()[1], before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


def test_the_seed_decides_the_initial_weights_too():
    losses = {
        pta(random_state=seed).fit(FEATURES, Y, stopping=STOP).history_.train_loss[0]
        for seed in (0, 1, 2)
    }
    assert len(losses) == 3


def test_a_random_state_moves_on_and_none_is_drawn_from_numpys():
    state = np.random.RandomState(3)
    first = pta(random_state=state).fit(FEATURES, Y, graph=ADJACENCY)
    second = pta(random_state=state).fit(FEATURES, Y, graph=ADJACENCY)
    assert (first.probabilities_ != second.probabilities_).any()
    pta(random_state=None).fit(FEATURES, Y, graph=ADJACENCY)


def test_nothing_given_is_written_to():
    given = FEATURES.copy(), Y.copy(), ADJACENCY.copy(), STOP.copy()
    for array in given:
        array.flags.writeable = False
    pta(dropout=0.2).fit(given[0], given[1], graph=given[2], stopping=given[3])
    for array, original in zip(given, (FEATURES, Y, ADJACENCY, STOP), strict=True):
        np.testing.assert_array_equal(array, original)


# --- distributions and reach ------------------------------------------------------------------


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("scheme", [PPR(), Power(3), Power(0), PPR(alpha=1)], ids=str)
@pytest.mark.parametrize("clamp", [True, False])
def test_rows_sum_to_one_even_where_nothing_arrives(normalisation, scheme, clamp):
    alone = ADJACENCY.copy()
    alone[[0, 12, 13]] = alone[:, [0, 12, 13]] = 0  # one of them has a label, two have none
    settings = {"normalisation": normalisation, "scheme": scheme, "clamp": clamp}
    network = pta(max_epochs=5, **settings).fit(FEATURES, Y, graph=alone)
    with pytest.warns(UserWarning, match="No label reaches"):
        plain = lp(**settings).fit(FEATURES, Y, graph=alone)
    for clf in (network, plain):
        shares = clf.predict_proba()
        np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
        assert (shares >= 0).all()
        assert not clf.reached_[[12, 13]].any()
    np.testing.assert_allclose(
        network.label_distributions_[[12, 13]], network.probabilities_[[12, 13]], rtol=1e-6
    )
    np.testing.assert_array_equal(plain.label_distributions_[[12, 13]], [plain.fallback_] * 2)


def test_reached_are_the_components_with_a_label():
    path = [(0, 1), (1, 2), (3, 4), (5, 6), (6, 7), (8, 9)]
    y = [0, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1]
    graph = Graph(sp.coo_array((np.ones(6), np.transpose(path)), shape=(11, 11)))
    _, component = sp.csgraph.connected_components(graph.adjacency)
    expected = np.isin(component, component[np.flatnonzero(np.array(y) >= 0)])
    clf = pta().fit(np.eye(11), y, graph=path)
    np.testing.assert_array_equal(clf.reached_, expected)
    assert 0 < expected.sum() < 11
    with pytest.warns(UserWarning, match="No label reaches 5 of 11 nodes within 10 steps"):
        np.testing.assert_array_equal(lp().fit(None, y, graph=path).reached_, expected)
    with pytest.warns(UserWarning, match="No label reaches 6 of 11 nodes within 1 steps"):
        near = lp(scheme=Power(1)).fit(None, y, graph=path)
    assert near.reached_.tolist() == [True, True, False, False, False, *[True] * 3, *[False] * 3]


@pytest.mark.parametrize(("unreached", "expected"), [("prior", [2 / 3, 1 / 3]), ("uniform", None)])
def test_what_unreached_nodes_are_told(unreached, expected):
    y = ["a", "a", "b", None, None]
    with pytest.warns(UserWarning, match="No label reaches") as caught:
        clf = lp(unreached=unreached).fit(None, y, graph=[(0, 3), (1, 3), (2, 3)])
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith("No label reaches 1 of 5 nodes within 10 steps")
    assert f"they get the {unreached} probabilities" in message
    np.testing.assert_allclose(clf.label_distributions_[4], expected or [0.5, 0.5], rtol=1e-15)
    assert clf.reached_.tolist() == [True] * 4 + [False]


@pytest.mark.parametrize("clamp", [True, False])
@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_label_propagation_is_the_papers(normalisation, clamp):
    step = reference.operator(ADJACENCY, normalisation)
    known = np.flatnonzero(Y >= 0)
    scores = reference.propagate_labels(step, Y, known, 2, 0.3, 7, clamp)
    expected = scores / scores.sum(axis=1, keepdims=True)
    clf = lp(alpha=0.3, steps=7, normalisation=normalisation, clamp=clamp)
    clf.fit(None, Y, graph=sp.csr_array(ADJACENCY))
    np.testing.assert_allclose(clf.label_distributions_, expected, atol=1e-6)
    np.testing.assert_array_equal(clf.transduction_, expected.argmax(axis=1))
    np.testing.assert_array_equal(clf.predict(), clf.transduction_)


@pytest.mark.parametrize(("scheme", "beta"), list(zip(SCHEMES, BETAS, strict=False)), ids=str)
def test_every_scheme_serves_labels_and_predictions(scheme, beta):
    step = reference.operator(ADJACENCY, "symmetric")
    clf = pta(scheme=scheme, clamp=False).fit(FEATURES, Y, graph=ADJACENCY, stopping=STOP)
    train = np.setdiff1d(np.flatnonzero(Y >= 0), STOP)
    soft = reference.combine(step, beta) @ reference.one_hot(Y, train, 2)
    np.testing.assert_allclose(clf.soft_labels_, soft, atol=1e-5)
    scores = reference.combine(step, beta) @ clf.probabilities_
    expected = scores / scores.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(clf.label_distributions_, expected, atol=1e-5)


def test_the_exact_scheme_solves_the_system():
    clf = pta(scheme=Exact(0.3, 1e-6)).fit(FEATURES, Y, graph=ADJACENCY)
    scores = reference.exact(reference.operator(ADJACENCY, "symmetric"), 0.3) @ clf.probabilities_
    expected = scores / scores.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(clf.label_distributions_, expected, atol=1e-4)


# --- labels of any kind -----------------------------------------------------------------------

PAIRS = [(0, 2), (0, 3), (1, 4), (4, 5)]
SMALL = np.eye(6)


@pytest.mark.parametrize(
    ("y", "classes", "kind"),
    [
        (["z", "a", None, "z", "a", None], ["a", "z"], "U"),
        (["z", "a", float("nan"), "z", "a", ""], ["a", "z"], "U"),
        (np.array(["z", "a", "", "z", "a", ""]), ["a", "z"], "U"),
        (np.array(["z", "a", None, "z", "a", np.nan], dtype=object), ["a", "z"], "U"),
        ([300, -7, -1, 300, -7, -1], [-7, 300], "i"),
        (np.array([300, -7, -1, 300, -7, -1], dtype=np.int16), [-7, 300], "i"),
        ([2**60 + 1, 2**60, None, 2**60 + 1, 2**60, None], [2**60, 2**60 + 1], "i"),
        ([4.0, 2.0, float("nan"), 4.0, 2.0, float("nan")], [2.0, 4.0], "f"),
        (np.array([4.0, 2.0, np.nan, 4.0, 2.0, -1.0]), [2.0, 4.0], "f"),
        ([True, False, None, True, False, None], [False, True], "b"),
        (pd.Series(["z", "a", None, "z", "a", pd.NA], index=[9, 8, 7, 6, 5, 4]), ["a", "z"], "U"),
        (pd.Series(["z", "a", None, "z", "a", None], dtype="category"), ["a", "z"], "U"),
        (pd.Series([30, 2, None, 30, 2, None], dtype="Int64"), [2, 30], "i"),
        (pd.Series([True, False, None, True, False, None], dtype="boolean"), [False, True], "b"),
        (torch.tensor([9, 3, -1, 9, 3, -1]), [3, 9], "i"),
    ],
)
@pytest.mark.parametrize("make", [pta, lp])
def test_labels_of_any_kind_come_back_as_they_were(make, y, classes, kind):
    clf = make().fit(SMALL, y, graph=PAIRS)
    assert clf.classes_.tolist() == classes
    assert clf.classes_.dtype.kind == kind
    assert clf.given_.tolist() == [1, 0, -1, 1, 0, -1]
    expected = [classes[code] for code in [1, 0, 1, 1, 0, 0]]
    plain = lp().fit(None, y, graph=PAIRS)
    assert plain.transduction_.tolist() == expected
    assert set(clf.predict().tolist()) <= set(classes)
    assert clf.predict().dtype == clf.classes_.dtype


def test_a_column_of_labels_is_taken_with_scikit_learns_warning():
    with pytest.warns(UserWarning, match="column-vector"):
        clf = pta().fit(FEATURES, Y[:, None], graph=ADJACENCY)
    np.testing.assert_array_equal(clf.given_, Y)


def test_a_class_with_one_node_keeps_it_for_training():
    y = np.where(np.arange(40) == 39, 2, Y)
    clf = pta(stopping_fraction=0.9).fit(FEATURES, y, graph=ADJACENCY)
    assert clf.classes_.tolist() == [0, 1, 2]
    assert 39 not in clf.stopping_
    assert clf.soft_labels_[39].tolist() == [0, 0, 1]


# --- stopping nodes ---------------------------------------------------------------------------


def test_stopping_nodes_by_index_or_mask_are_the_same():
    mask = np.isin(np.arange(40), STOP)
    fits = [
        pta().fit(FEATURES, Y, graph=ADJACENCY, stopping=s)
        for s in (STOP, STOP[::-1].tolist(), mask, [0, 0, 1, 2, 3])
    ]
    for clf in fits:
        np.testing.assert_array_equal(clf.stopping_, STOP)
        np.testing.assert_array_equal(clf.label_distributions_, fits[0].label_distributions_)
    assert (fits[0].soft_labels_[STOP] < 1).all()  # not held fixed, so not known


@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.5])
def test_stopping_fraction_is_a_share_of_each_class(fraction):
    clf = pta(stopping_fraction=fraction).fit(FEATURES, Y, graph=ADJACENCY)
    counts = np.bincount(Y[clf.stopping_], minlength=2)
    assert counts.tolist() == [int(fraction * 6)] * 2
    train = np.setdiff1d(np.flatnonzero(Y >= 0), clf.stopping_)
    np.testing.assert_array_equal(clf.soft_labels_[train], np.eye(2)[Y[train]])


def test_without_stopping_nodes_training_watches_itself():
    by_fraction = pta(stopping_fraction=0).fit(FEATURES, Y, graph=ADJACENCY)
    by_name = pta().fit(FEATURES, Y, graph=ADJACENCY, stopping=[])
    for clf in (by_fraction, by_name):
        assert clf.stopping_.size == 0
        labelled = np.flatnonzero(Y >= 0)
        best = clf.history_.stop_accuracy[clf.best_epoch_]
        assert best == (clf.transduction_[labelled] == Y[labelled]).mean()


# --- graphs -----------------------------------------------------------------------------------


PAIRED = np.argwhere(np.triu(ADJACENCY))


def as_networkx():
    network = nx.Graph()
    network.add_nodes_from(range(40))
    network.add_edges_from(PAIRED.tolist())
    return network


def as_pyg():
    with warnings.catch_warnings():
        # PyTorch Geometric compiles with torch.jit.script as it is imported, now deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        from torch_geometric.data import Data

    return Data(edge_index=torch.tensor(PAIRED.T.copy()), num_nodes=40)


@pytest.mark.parametrize(
    "make_graph",
    [
        pytest.param(lambda: sp.csr_array(ADJACENCY), id="csr_array"),
        pytest.param(lambda: sp.coo_matrix(ADJACENCY), id="coo_matrix"),
        pytest.param(lambda: ADJACENCY, id="dense"),
        pytest.param(lambda: PAIRED, id="pairs"),
        pytest.param(lambda: PAIRED.T, id="edge_index"),
        pytest.param(lambda: [tuple(edge) for edge in PAIRED.tolist()], id="list"),
        pytest.param(lambda: torch.tensor(PAIRED), id="tensor"),
        pytest.param(as_networkx, id="networkx"),
        pytest.param(as_pyg, id="pyg"),
        pytest.param(lambda: pd.DataFrame(PAIRED), id="pandas"),
        pytest.param(lambda: pa.table({"a": PAIRED[:, 0], "b": PAIRED[:, 1]}), id="pyarrow"),
    ],
)
def test_every_kind_of_graph_gives_the_same(make_graph):
    told = pta(max_epochs=10).fit(FEATURES, Y, graph=make_graph())
    expected = pta(max_epochs=10).fit(FEATURES, Y, graph=GRAPH)
    np.testing.assert_array_equal(told.label_distributions_, expected.label_distributions_)
    np.testing.assert_array_equal(told.transduction_, expected.transduction_)
    assert told.graph_.n_edges == int(ADJACENCY.sum()) // 2


def test_a_graph_from_the_features():
    from proptrain.data.knn import knn_graph

    clf = pta(n_neighbors=3).fit(FEATURES, Y, graph="knn")
    expected = knn_graph(FEATURES.astype(np.float32), 3).adjacency.toarray()
    np.testing.assert_array_equal(clf.graph_.adjacency.toarray(), expected)
    plain = lp(n_neighbors=3).fit(FEATURES, Y)  # the default
    np.testing.assert_array_equal(plain.graph_.adjacency.toarray(), expected)
    few = pta(n_neighbors=99).fit(SMALL + 1, [0, 1, -1, -1, -1, -1], graph="knn")
    assert few.graph_.n_edges == 15  # every node beside every other


@pytest.mark.parametrize("layout", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_sparse_features_are_dense_features(layout):
    sparse = pta().fit(layout(FEATURES), Y, graph=ADJACENCY)
    dense = pta().fit(FEATURES, Y, graph=ADJACENCY)
    np.testing.assert_allclose(sparse.label_distributions_, dense.label_distributions_, atol=1e-4)


# --- variants ---------------------------------------------------------------------------------


def test_weightings_by_name_are_the_functions_and_differ():
    fits = {}
    for name, function in (
        ("adaptive", Adaptive(20)),
        ("static", static),
        ("dynamic", dynamic),
    ):
        by_name = pta(weighting=name, epsilon=20).fit(FEATURES, Y, graph=ADJACENCY)
        by_function = pta(weighting=function).fit(FEATURES, Y, graph=ADJACENCY)
        assert by_name.history_ == by_function.history_
        np.testing.assert_array_equal(by_name.probabilities_, by_function.probabilities_)
        fits[name] = by_name.history_
    assert fits["static"].gamma == (0.0,) * len(fits["static"].gamma)
    assert fits["dynamic"].gamma == (1.0,) * len(fits["dynamic"].gamma)
    assert fits["adaptive"].gamma[0] == 0
    np.testing.assert_allclose(fits["adaptive"].gamma[1:3], np.log1p([1 / 20, 2 / 20]))
    assert len({history.train_loss[1:] for history in fits.values()}) == 3


def test_a_weighting_of_ones_own_is_four_lines():
    def sure_ones_only(confidence, epoch):
        return (confidence > 0.4).float()

    seen = []

    def all_ones(confidence, epoch):
        seen.append(epoch)
        return torch.ones_like(confidence)

    own = pta(weighting=sure_ones_only).fit(FEATURES, Y, graph=ADJACENCY)
    assert np.isnan(own.history_.gamma).all()
    as_static = pta(weighting=all_ones).fit(FEATURES, Y, graph=ADJACENCY)
    assert seen == list(range(as_static.n_iter_))
    static_fit = pta(weighting="static").fit(FEATURES, Y, graph=ADJACENCY)
    assert as_static.history_.train_loss == static_fit.history_.train_loss
    assert own.history_.train_loss != static_fit.history_.train_loss


def test_fast_stopping_judges_the_network_and_still_ensembles():
    slow = pta(patience=10_000).fit(FEATURES, Y, graph=ADJACENCY, stopping=STOP)
    fast = pta(patience=10_000, fast=True).fit(FEATURES, Y, graph=ADJACENCY, stopping=STOP)
    assert fast.history_.train_loss == slow.history_.train_loss
    alone = (fast.probabilities_[STOP].argmax(axis=1) == Y[STOP]).mean()
    assert fast.history_.stop_accuracy[fast.best_epoch_] == alone
    together = (slow.transduction_[STOP] == Y[STOP]).mean()
    assert slow.history_.stop_accuracy[slow.best_epoch_] == together
    step = reference.operator(ADJACENCY, "symmetric")
    scores = reference.appnp(step, fast.probabilities_, 0.1, 10)
    expected = scores / scores.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fast.label_distributions_, expected, atol=1e-5)


def test_history_has_a_number_for_each_epoch_and_the_best_was_kept():
    noise = np.random.RandomState(1).rand(40, 6)  # nothing to learn, so stopping accuracy falls
    stop = np.arange(20, 40)
    clf = pta(max_epochs=500, patience=5).fit(noise, TRUTH, stopping=stop)
    history = clf.history_
    assert 5 < clf.n_iter_ < 500
    assert {len(getattr(history, f)) for f in vars(history)} == {clf.n_iter_}
    assert reference.early_stopping(history.stop_accuracy, history.stop_loss, 5) == (
        clf.best_epoch_,
        clf.n_iter_ - 1,
    )


# --- new nodes --------------------------------------------------------------------------------

NEW = np.random.RandomState(5).rand(3, 6)
NEW_EDGES = [(40, 0), (40, 2), (1, 41), (41, 40)]  # 42 has none


def extended():
    adjacency = np.zeros((43, 43))
    adjacency[:40, :40] = ADJACENCY
    for i, j in NEW_EDGES:
        adjacency[i, j] = adjacency[j, i] = 1
    return adjacency


def as_block(n_columns):
    return sp.csr_array(extended()[40:, :n_columns])


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_new_nodes_with_edges_are_ensembled_on_the_larger_graph(normalisation):
    clf = pta(normalisation=normalisation).fit(FEATURES, Y, graph=ADJACENCY)
    weights = [np.asarray(clf.weights_[k], dtype=np.float64) for k in NETWORK]
    f = reference.network(np.concatenate([FEATURES, NEW]), *weights)
    scores = reference.appnp(reference.operator(extended(), normalisation), f, 0.1, 10)[40:]
    expected = scores / scores.sum(axis=1, keepdims=True)
    for edges in (NEW_EDGES, np.array(NEW_EDGES), as_block(43), sp.coo_matrix(as_block(43))):
        told = clf.predict_proba(NEW, edges=edges)
        np.testing.assert_allclose(told, expected, atol=1e-5)
        np.testing.assert_array_equal(clf.predict(NEW, edges=edges), expected.argmax(axis=1))
    np.testing.assert_allclose(told[2], f[42], atol=1e-5)
    alone = clf.predict_proba(NEW)
    np.testing.assert_allclose(alone, f[40:], atol=1e-5)
    assert not np.allclose(alone, told, atol=1e-3)
    np.testing.assert_allclose(alone.sum(axis=1), 1, rtol=1e-12)


def test_a_block_to_the_old_nodes_alone():
    clf = pta().fit(FEATURES, Y, graph=ADJACENCY)
    pairs = [(i, j) for i, j in NEW_EDGES if min(i, j) < 40]
    np.testing.assert_array_equal(
        clf.predict_proba(NEW, edges=as_block(40)), clf.predict_proba(NEW, edges=pairs)
    )
    np.testing.assert_allclose(clf.predict_proba(NEW, edges=[]), clf.predict_proba(NEW), rtol=1e-5)


def test_new_nodes_of_label_propagation():
    clf = lp().fit(None, Y, graph=ADJACENCY)
    step = reference.operator(extended(), "symmetric")
    codes = np.concatenate([Y, [-1, -1, -1]])
    scores = reference.propagate_labels(step, codes, np.flatnonzero(Y >= 0), 2, 0.1, 10, True)[40:]
    expected = np.concatenate([scores[:2] / scores[:2].sum(axis=1, keepdims=True), [[0.5, 0.5]]])
    np.testing.assert_allclose(clf.predict_proba(edges=as_block(43)), expected, atol=1e-6)
    np.testing.assert_allclose(clf.predict_proba(edges=NEW_EDGES), expected[:2], atol=1e-6)
    np.testing.assert_allclose(clf.predict_proba(NEW, edges=NEW_EDGES), expected, atol=1e-6)


def chain(n_new, first=0):
    """New nodes in a row, the first of them tied to a fitted node."""
    return [(first, 40), *((40 + i, 41 + i) for i in range(n_new - 1))]


@pytest.mark.parametrize("clamp", [True, False])
@pytest.mark.parametrize("make", [pta, lp])
def test_a_label_reaches_as_many_new_nodes_as_there_are_steps(make, clamp):
    alone = np.zeros((40, 40))  # so that labels go along the new edges only
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that no label reaches most nodes
        clf = make(steps=4, clamp=clamp).fit(FEATURES, Y, graph=alone, stopping=STOP)
    training, stopping, unlabelled = 4, STOP[0], 30
    np.testing.assert_array_equal(clf.find_reached(chain(7, training)), [True] * 4 + [False] * 3)
    for fitted in (stopping, unlabelled):  # a stopping label is not spread
        assert not clf.find_reached(chain(7, fitted)).any()
    assert clf.find_reached(chain(7, training), n_new=9).tolist() == [True] * 4 + [False] * 5
    assert clf.find_reached([]).shape == (0,)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("make", [pta, lp])
def test_new_nodes_are_reached_as_if_they_had_been_fitted(make, scheme):
    larger, edges = np.zeros((55, 55)), chain(15)
    larger[:40, :40] = ADJACENCY
    larger[tuple(np.transpose(edges))] = 1
    y, features = np.concatenate([Y, [-1] * 15]), np.concatenate([FEATURES, np.ones((15, 6))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        clf = make(scheme=scheme).fit(FEATURES, Y, graph=ADJACENCY, stopping=STOP)
        whole = make(scheme=scheme).fit(features, y, graph=larger + larger.T, stopping=STOP)
    np.testing.assert_array_equal(clf.find_reached(edges), whole.reached_[40:])
    block = sp.coo_array((larger + larger.T)[40:])
    np.testing.assert_array_equal(clf.find_reached(block), whole.reached_[40:])


def test_without_edges_label_propagation_asks_the_nearest_fitted_nodes():
    clf = lp(n_neighbors=3).fit(FEATURES, Y, graph=ADJACENCY)
    direction = FEATURES / np.linalg.norm(FEATURES, axis=1, keepdims=True)
    nearest = np.argsort(-(NEW / np.linalg.norm(NEW, axis=1, keepdims=True)) @ direction.T)[:, :3]
    expected = clf.label_distributions_[nearest].mean(axis=1)
    np.testing.assert_allclose(clf.predict_proba(NEW), expected, rtol=1e-12)
    few = lp(n_neighbors=50).fit(SMALL, [0, 1, -1, -1, -1, -1])
    everyone = few.label_distributions_.mean(axis=0)
    np.testing.assert_allclose(few.predict_proba(SMALL[:1] + 1), [everyone], rtol=1e-12)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_without_features_or_edges_a_new_node_is_told_by_no_arbitrary_nodes(make):
    clf = lp(n_neighbors=3).fit(FEATURES, Y, graph=ADJACENCY)
    told = clf.predict_proba(make(np.stack([np.zeros(FEATURES.shape[1]), FEATURES[0]])))
    np.testing.assert_array_equal(told[0], clf.fallback_)
    np.testing.assert_allclose(told[1], clf.predict_proba(make(FEATURES[:1]))[0])
    assert not np.array_equal(told[1], clf.fallback_)


@pytest.mark.parametrize("make", [pta, lp])
@pytest.mark.parametrize("layout", [np.array, sp.csr_array])
def test_the_fitted_features_without_their_edges_give_a_warning(make, layout):
    clf = make().fit(layout(FEATURES), Y, graph=ADJACENCY)
    with pytest.warns(UserWarning, match="features of the fitted nodes.*predict\\(\\) without X"):
        clf.predict(layout(FEATURES))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict(layout(FEATURES[:5]))
        clf.predict()
        pta().fit(FEATURES, Y).predict(FEATURES)  # without edges there is nothing to miss


def test_extending_merges_both_directions_and_keeps_weights():
    path = Graph(sp.csr_array([[0, 2.5], [2.5, 0]]))
    block = sp.coo_array(([0.5, 3.0, 1.0], ([0, 0, 1], [1, 1, 2])), shape=(2, 4))
    expected = [[0, 2.5, 0, 0], [2.5, 0, 3, 0], [0, 3, 0, 1], [0, 0, 1, 0]]
    np.testing.assert_array_equal(extend_graph(path, block, 2).adjacency.toarray(), expected)
    assert path.n_nodes == 2
    assert [count_new_nodes(e, 2) for e in (block, [(2, 0), (4, 1)], [], [(1, 0)])] == [2, 3, 0, 0]


# --- errors -----------------------------------------------------------------------------------


def fit_error(match, *, error=InvalidInputError, clf=None, X=FEATURES, y=Y, graph=GRAPH, **given):
    with pytest.raises(error, match=match) as caught:
        (clf or pta()).fit(X, y, graph=graph, **given)
    assert isinstance(caught.value, ValueError)
    return caught.value


def test_sizes_that_do_not_match():
    message = r"X and y must have one row.*inconsistent numbers of samples: 40 and 39"
    fit_error(message, y=Y[:39])
    fit_error(r"The graph has 3 nodes but X has 40 rows", error=GraphError, graph=np.ones((3, 3)))
    fit_error(r"from 0 to 39; 1 of 1 are not, the first is \(0, 40\)", graph=[(0, 40)])


@pytest.mark.parametrize(("bad", "match"), [(np.nan, "NaN"), (np.inf, "infinity")])
@pytest.mark.parametrize("layout", [np.array, sp.csr_array])
@pytest.mark.parametrize("make", [pta, lp])
def test_features_must_be_finite(bad, match, layout, make):
    features = FEATURES.copy()
    features[3, 2] = bad
    fit_error(f"Input X contains {match}", error=ValueError, clf=make(), X=layout(features))
    clf = make().fit(FEATURES, Y, graph=GRAPH)
    with pytest.raises(ValueError, match=f"Input X contains {match}"):
        clf.predict(layout(features))


def test_weights_must_not_be_negative():
    message = "Edge weights must be finite and not negative; 2 of 2"
    bad = sp.coo_array(([-1.0, np.nan], ([0, 1], [1, 2])), shape=(40, 40))
    fit_error(message, error=GraphError, graph=bad)
    clf = pta().fit(FEATURES, Y, graph=GRAPH)
    with pytest.raises(GraphError, match=r"the first is -1\.0 between nodes 40 and 0"):
        clf.predict(NEW, edges=-as_block(40))


def test_a_label_that_only_stopping_nodes_have_is_never_seen():
    y = np.where(np.isin(np.arange(40), [0, 1]), 9, Y)
    message = "Every class must have a training node, but class .*9.* has only stopping nodes"
    fit_error(message, error=LabelError, y=y, stopping=[0, 1])
    fit_error(message, error=LabelError, clf=lp(), y=y, stopping=[0, 1])


@pytest.mark.parametrize("make", [pta, lp])
def test_too_few_classes_or_labels(make):
    only = np.where(Y == 1, -1, Y)
    value = fit_error("there is one class only: 0", error=LabelError, clf=make(), y=only)
    assert "The value -1 marks unlabelled nodes" in str(value)
    message = "none of the 40 nodes has a label: all are -1, None, NaN or empty"
    for y in (np.full(40, -1), [None] * 40, np.full(40, np.nan), [""] * 40):
        fit_error(message, error=LabelError, clf=make(), y=y)


def test_labels_that_are_no_classes():
    message = "Unknown label type: continuous.*group a measured number into classes"
    fit_error(message, error=LabelError, y=np.linspace(0.1, 0.9, 40))
    fit_error("Input y contains infinity", error=LabelError, y=np.where(Y < 0, np.inf, Y))
    fit_error("one value for each node.*different lengths", y=[[1], [1, 2], *[0] * 38])
    fit_error("y should be a 1d array", error=ValueError, y=np.eye(40))


@pytest.mark.parametrize("make", [pta, lp])
def test_labels_everywhere_leave_nothing_to_tell(make):
    with pytest.warns(UserWarning, match="All 40 nodes have a label.*nothing left to tell"):
        clf = make().fit(FEATURES, TRUTH, graph=GRAPH)
    np.testing.assert_array_equal(clf.given_, TRUTH)
    make().fit(FEATURES, TRUTH, graph=None) if make is pta else None  # an ordinary classifier
    labelled = np.flatnonzero(Y >= 0)
    message = "must be left to train on, but all 12 of them are stopping nodes"
    fit_error(message, error=LabelError, clf=make(), stopping=labelled)


@pytest.mark.parametrize("weighting", ["adaptve", 3, None, ["static"]])
def test_unknown_weighting(weighting):
    message = "weighting must be one of adaptive, static, dynamic, or a function.*got "
    fit_error(message, clf=pta(weighting=weighting))


@pytest.mark.parametrize("make", [pta, lp])
@pytest.mark.parametrize("scheme", ["ppr", 3, Heat, [0.9, 0.9]])
def test_a_scheme_that_is_none(make, scheme):
    message = "scheme must be None or one of PPR, Power, Mean, Heat and Exact.*got "
    fit_error(message, clf=make(scheme=scheme))


def test_parameters_that_cannot_be():
    fit_error("epsilon must be a positive number, got 0", clf=pta(epsilon=0))
    fit_error("alpha, the weight of the restart, must be above 0", clf=pta(alpha=0))
    fit_error("steps must be a whole number", clf=lp(steps=-1))
    fit_error("n_hidden must be a whole number, at least 1, got True", clf=pta(n_hidden=True))
    fit_error("clamp must be True or False, got 'yes'", clf=pta(clamp="yes"))
    fit_error("clamp must be True or False, got 1", clf=lp(clamp=1))
    fit_error("fast must be True or False, got None", clf=pta(fast=None))
    fit_error("normalisation must be one of symmetric", clf=pta(normalisation="sym"))
    fit_error("graph must be 'knn', None.*got 'nearest'", graph="nearest")
    fit_error(
        "graph='knn' is built from the features, but X is None", clf=lp(), X=None, graph="knn"
    )
    for count in (0, "two"):
        match = "n_neighbors must be a whole number, at least 1, got "
        fit_error(match, clf=pta(n_neighbors=count), graph="knn")
        fitted = lp(n_neighbors=count).fit(FEATURES, Y, graph=ADJACENCY)
        with pytest.raises(InvalidInputError, match=match):
            fitted.predict(NEW)
    fit_error("unreached must be 'prior' or 'uniform', got 'zero'", clf=lp(unreached="zero"))
    for fraction in (1, 1.5, -0.1, float("nan"), "a"):
        message = "stopping_fraction must be at least 0 and below 1, got "
        fit_error(message, clf=pta(stopping_fraction=fraction))


@pytest.mark.parametrize(
    ("stopping", "match"),
    [
        ([0, 30], "must have a label in y, but 1 of 2 have none, the first is node 30"),
        ([0, 40], "must lie between 0 and 39, got 0 to 40"),
        ([-1, 2], "must lie between 0 and 39, got -1 to 2"),
        ([0.5], r"indices or a mask over the 40 nodes, got an array of shape \(1,\)"),
        ([True, False], "indices or a mask over the 40 nodes"),
        ([[0, 1]], "indices or a mask over the 40 nodes"),
        ("first", "indices or a mask over the 40 nodes"),
    ],
)
def test_stopping_nodes_that_cannot_be(stopping, match):
    fit_error(match, error=LabelError, stopping=stopping)
    fit_error(match, error=LabelError, clf=lp(), stopping=stopping)


@pytest.mark.parametrize(
    ("edges", "match"),
    [
        ([(0, 1)], r"must touch a new node, but \(0, 1\) joins two fitted nodes.*from 40 on"),
        ([(40, 43)], "between 0 and 42: .* new nodes are 40 to 42; got 40 to 43"),
        ([(-1, 40)], "between 0 and 42"),
        ([(40.0, 0.0)], "pairs of whole node numbers"),
        ([("a", "b")], "pairs of whole node numbers"),
        ([(40, 0, 1)], r"got shape \(1, 3\)"),
        ([(40, 0), (41,)], "pairs of whole node numbers"),
        (sp.csr_array((2, 40)), r"one row for each of the 3 new nodes.*got shape \(2, 40\)"),
        (sp.csr_array((3, 41)), r"each of the 40 fitted nodes \(or 43 with the new ones\)"),
    ],
)
@pytest.mark.parametrize("make", [pta, lp])
def test_edges_of_new_nodes_that_cannot_be(make, edges, match):
    clf = make().fit(FEATURES, Y, graph=GRAPH)
    with pytest.raises(GraphError, match=match):
        clf.predict(NEW, edges=edges)


@pytest.mark.parametrize("edges", [[("a", "b")], [(40, 0), (41,)], [(0, 1)], [(40.0, 1.0)]])
def test_edges_alone_are_checked_too(edges):
    with pytest.raises(GraphError, match=r"whole node numbers|must touch a new|between"):
        lp().fit(None, Y, graph=GRAPH).predict(edges=edges)


def test_what_prediction_needs():
    with pytest.raises(InvalidInputError, match="edges belong to new nodes: give their features"):
        pta().fit(FEATURES, Y, graph=GRAPH).predict(edges=NEW_EDGES)
    with pytest.raises(InvalidInputError, match=r"fitted without features.*need their edges"):
        lp().fit(None, Y, graph=GRAPH).predict(NEW)
    with pytest.raises(ValueError, match="X has 5 features, but PTAClassifier is expecting 6"):
        pta().fit(FEATURES, Y, graph=GRAPH).predict(NEW[:, :5])
    for clf in (pta(), lp()):
        with pytest.raises(ValueError, match="not fitted yet"):
            clf.predict()
        with pytest.raises(ValueError, match="not fitted yet"):
            clf.find_reached([])
        with pytest.raises(ValueError, match="not fitted yet"):
            clf.save("nowhere")


def test_our_errors_are_of_our_tree():
    assert isinstance(fit_error("graph must be", graph="x"), ProptrainError)
