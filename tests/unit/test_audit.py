"""The audit: planted wrong labels come first, every label has its row, fixing changes suspects."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from proptrain import (
    PPR,
    GNNClassifier,
    Graph,
    LabelPropagationClassifier,
    LocalEngine,
    PTAClassifier,
    PTAPlusClassifier,
    load_dataset,
    split_nodes,
)
from proptrain.data.noise import with_label_noise
from proptrain.errors import InvalidInputError
from proptrain.insight import audit as audit_module
from proptrain.insight.audit import (
    N_FITS,
    SUSPECT,
    _with_every_class,
    as_often_as_given,
    audit_labels,
    joined,
    suspicion_of,
)

modest = settings(max_examples=100, derandomize=True, deadline=None)
QUICK = {"max_epochs": 40, "random_state": 0, "device": "cpu"}


def two_circles(seed=0):
    """Features (40, 8), labels and adjacency of two groups of twenty friends; nobody is labelled.

    Friends know each other by chance, three strangers too; features tell the groups apart badly.
    """
    random = np.random.RandomState(seed)
    side = np.repeat([0, 1], 20)
    knows = np.triu((random.rand(40, 40) < 0.3) & (side[:, None] == side), 1)
    knows[[0, 5, 9], [21, 27, 33]] = True
    X = random.rand(40, 8) + 0.5 * np.eye(8)[side]
    return X, np.array(["left", "right"])[side], sp.csr_array(knows + knows.T, dtype=np.float64)


@pytest.fixture(scope="module")
def circles():
    """The same with twelve labels on either side, two of them wrong: those of nodes 3 and 30."""
    X, truth, graph = two_circles()
    y = truth.astype(object)
    y[12:20] = y[32:] = None
    y[3], y[30] = "right", "left"
    clf = PTAClassifier(**QUICK).fit(X, y, graph=graph)
    calls = []
    found = clf.audit(X, on_fit=lambda: calls.append(1))
    assert len(calls) == N_FITS
    return X, y, clf, found


def test_pta_plus_is_audited_too(circles):
    X, y, clf, found = circles
    plus = PTAPlusClassifier(**QUICK, scale_features=False).fit(X, y, graph=clf.graph_)
    ours = plus.audit(X)
    assert set(ours.nodes[:2]) == {3, 30}
    # The same models that have not seen the labels; what the fitted one says differs.
    order, theirs = np.argsort(ours.nodes), np.argsort(found.nodes)
    np.testing.assert_array_equal(ours.rounds[:, order], found.rounds[:, theirs])
    assert (ours.weights[order] != found.weights[theirs]).any()


@pytest.mark.parametrize("kind", [LabelPropagationClassifier, GNNClassifier])
def test_labels_of_other_models_are_not_audited(circles, kind):
    X, y, clf, _ = circles
    other = kind(**({"max_epochs": 1} if kind is GNNClassifier else {}))
    with pytest.raises(InvalidInputError, match=rf"got {kind.__name__}\. Fit one of those"):
        other.fit(X, y, graph=clf.graph_).audit(X)


def test_wrong_labels_of_two_circles_come_first(circles):
    _, _, _, found = circles
    assert set(found.nodes[:2]) == {3, 30}
    assert found.suspect.tolist() == [True, True] + [False] * 22
    told = dict(zip(found.nodes.tolist(), found.suggested.tolist(), strict=True))
    assert (told[3], told[30]) == ("left", "right")
    assert (found.suggested[2:] == found.given[2:]).all()


def test_every_label_has_one_row_in_order_of_suspicion(circles):
    _, y, clf, found = circles
    assert sorted(found.nodes.tolist()) == [*range(12), *range(20, 32)]
    assert (np.diff(found.suspicion) <= 0).all()
    assert found.suspicion.min() >= 0
    assert found.suspicion.max() <= 1
    np.testing.assert_array_equal(found.given, y[found.nodes])
    np.testing.assert_array_equal(found.stopping, np.isin(found.nodes, clf.stopping_))
    assert found.stopping.any()
    assert not found.stopping.all()
    np.testing.assert_allclose(found.cross_fitted.sum(axis=1), 1)
    np.testing.assert_allclose(found.others.sum(axis=1), 1)
    expected = clf.label_distributions_[found.nodes]
    shares = found.weights / found.weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, expected, atol=1e-5)  # S_j is what the ensemble tells


def test_the_order_is_that_of_the_evidence_joined(circles):
    _, _, _, found = circles
    codes = np.searchsorted(found.classes, found.given)
    told = suspicion_of(joined(found.cross_fitted, found.weights, codes), codes)
    np.testing.assert_allclose(told, found.suspicion)
    np.testing.assert_array_equal(found.suspect, found.suspicion >= SUSPECT)


def test_the_table_tells_the_evidence_for_the_given_class(circles):
    _, _, _, found = circles
    ids = np.array([f"n{node}" for node in range(40)])
    table = found.to_frame(ids)
    assert table["id"].tolist() == ids[found.nodes].tolist()
    columns = {"left": 0, "right": 1}
    for place, row in enumerate(table.to_dict("records")):
        column = columns[row["given"]]
        assert row["cross_fitted"] == found.cross_fitted[place, column]
        assert row["others"] == found.others[place, column]
        assert row["weight"] == found.weights[place, column]
        assert row["suspicion"] == found.suspicion[place]
    assert found.to_frame()["id"].tolist() == found.nodes.tolist()


def test_fixing_replaces_suspects_and_nothing_else(circles):
    _, y, _, found = circles
    before = y.copy()
    fixed = found.fixed(y)
    np.testing.assert_array_equal(y, before)
    changed = [node for node in range(40) if fixed[node] != y[node]]
    assert changed == [3, 30]
    assert (fixed[3], fixed[30]) == ("left", "right")
    assert found.fixed(y.tolist()).tolist() == fixed.tolist()
    for other in (y[::-1], y[:30]):
        with pytest.raises(InvalidInputError, match="must be the labels that the model was fitted"):
            found.fixed(other)


def test_a_seed_makes_the_same_audit_again_and_a_loaded_model_too(circles, tmp_path):
    X, _, clf, found = circles
    clf.save(tmp_path / "model")
    again = PTAClassifier.load(tmp_path / "model").audit(X)
    np.testing.assert_array_equal(again.nodes, found.nodes)
    np.testing.assert_array_equal(again.suspicion, found.suspicion)
    assert (clf.audit(X, seed=1).suspicion != found.suspicion).any()


def test_other_features_are_refused(circles):
    X, _, clf, _ = circles
    for other in (X[::-1], X[:10], X + 1):
        with pytest.raises(InvalidInputError, match="features that the model was fitted to"):
            clf.audit(other)
    with pytest.raises(NotFittedError):
        PTAClassifier().audit(X)


def test_the_only_label_of_a_class_cannot_be_judged():
    X, truth, graph = two_circles()
    y = truth.astype(object)
    y[12:20] = y[32:] = None
    y[0] = "hermit"
    found = PTAClassifier(**QUICK).fit(X, y, graph=graph).audit(X)
    place = found.nodes.tolist().index(0)
    assert (found.suspicion[place], found.suggested[place]) == (0, "hermit")
    assert not found.cross_fitted[place].any()
    assert found.nodes[~found.judged].tolist() == [0]
    assert found.to_frame()["judged"].tolist() == found.judged.tolist()
    alone = PTAClassifier(**QUICK).fit(X[:3], ["a", "b", None], graph=sp.csr_array(np.ones((3, 3))))
    assert alone.audit(X[:3]).suspicion.tolist() == [0, 0]


def audited(given, told_of):
    """Audit ten labels by models that always say the same; gives what each of them learnt from."""
    engine, learnt_from = LocalEngine(Graph.without_edges(len(given))), []

    def tell(learnt, nodes):
        learnt_from.append(learnt)
        return told_of[nodes]

    found = audit_labels(
        given,
        np.array(["a", "b", "c"]),
        np.array([], dtype=np.int64),
        np.full(told_of.shape, 1 / 3),
        engine=engine,
        scheme=PPR(),
        tell=tell,
        seed=0,
    )
    return found, learnt_from


def test_the_second_round_learns_from_labels_put_right():
    truth = np.repeat([0, 1, 2], 5)
    given = truth.copy()
    given[2] = 1
    found, learnt_from = audited(given, 0.8 * np.eye(3)[truth] + 0.2 / 3)
    assert len(learnt_from) == N_FITS
    half = N_FITS // 2
    for learnt in learnt_from[:half]:
        assert learnt[2] in (-1, 1)  # left out, or as given
    assert {learnt[2] for learnt in learnt_from[half:]} == {-1, 0}
    assert found.nodes[found.suspect].tolist() == [2]


def test_a_class_that_would_be_ended_is_told():
    truth = np.repeat([0, 1, 2], [12, 12, 3])
    told = 0.8 * np.eye(3)[truth] + 0.2 / 3
    told[24:] = [[0.7, 0.2, 0.1], [0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]
    found, _ = audited(truth, told)
    assert found.classes_in_doubt() == {"c": (2, 3)}
    (caution,) = found.cautions()
    assert "2 of the 3 labels of class 'c' are suspect, and to replace them leaves it 1" in caution
    with pytest.warns(UserWarning, match="2 of the 3 labels of class 'c'"):
        fixed = found.fixed(np.array(["a", "b", "c"])[truth])
    assert (fixed == "c").sum() == 1


def test_evidence_is_joined_by_hand():
    cross_fitted, weights = np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([[3.0, 1.0], [1.0, 1.0]])
    # Columns of the first have means 0.6 and 0.4; rows of the second sum to 1 first, then theirs
    # are 0.625 and 0.375. Half of the labels are of each class.
    unseen = np.array([[2 / 3, 0.25], [1 / 3, 0.75]])
    seen = np.array([[0.6, 1 / 3], [0.4, 2 / 3]])
    expected = unseen * seen**0.25
    np.testing.assert_allclose(joined(cross_fitted, weights, np.array([0, 1])), expected)


def test_many_labels_are_left_out_by_folds(circles, monkeypatch):
    X, _, clf, found = circles
    monkeypatch.setattr(audit_module, "MANY_LABELS", 0)
    by_folds = clf.audit(X)
    np.testing.assert_array_equal(by_folds.nodes, found.nodes)
    np.testing.assert_array_equal(by_folds.suspicion, found.suspicion)
    assert (by_folds.others != found.others).any()
    np.testing.assert_allclose(by_folds.others.sum(axis=1), 1)


# --- the parts ----------------------------------------------------------------------------------


@st.composite
def told_and_given(draw):
    random = np.random.RandomState(draw(st.integers(0, 10_000)))
    n_labels, n_classes = draw(st.integers(1, 30)), draw(st.integers(2, 5))
    told = random.dirichlet(np.ones(n_classes), n_labels)
    return told, random.randint(n_classes, size=n_labels)


@modest
@given(told_and_given())
def test_classes_are_told_as_often_as_they_are_given(drawn):
    told, codes = drawn
    scaled = as_often_as_given(told, codes)
    shares = [np.mean(codes == code) for code in range(told.shape[1])]
    np.testing.assert_allclose(scaled.mean(axis=0), shares)
    np.testing.assert_allclose(as_often_as_given(scaled, codes), scaled)


@modest
@given(told_and_given())
def test_a_label_is_suspected_where_a_rival_has_more_for_it(drawn):
    told, codes = drawn
    for row, code, suspicion in zip(told, codes, suspicion_of(told, codes), strict=True):
        rival = max(value for other, value in enumerate(row) if other != code)
        assert suspicion == pytest.approx(rival / (rival + row[code]))
        assert (suspicion > 0.5) == (row.argmax() != code)
    assert suspicion_of(np.zeros((1, 2)), np.array([1])).tolist() == [0.5]


@modest
@given(st.integers(0, 10_000), st.integers(2, 5))
def test_no_class_is_put_right_out_of_existence(seed, n_classes):
    random = np.random.RandomState(seed)
    codes = random.randint(n_classes, size=random.randint(2, 15))
    changed = random.randint(n_classes, size=len(codes))
    learnt = np.where(random.rand(len(codes)) < 0.7, changed, -1)
    kept = _with_every_class(learnt, codes)
    np.testing.assert_array_equal(kept >= 0, learnt >= 0)
    known = learnt >= 0
    assert set(codes[known]) <= set(kept[known])
    assert ((kept == learnt) | (kept == codes))[known].all()
    if set(codes[known]) <= set(learnt[known]):
        np.testing.assert_array_equal(kept, learnt)


# --- on a real graph ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["uniform", "pair"])
def test_planted_wrong_labels_are_found_on_cora(kind):
    cora = load_dataset("cora")
    train = split_nodes(cora.labels, 0, n_stop=0).train
    y = np.full(cora.n_nodes, -1)
    y[train] = with_label_noise(cora.labels, train, cora.n_classes, 0.2, 0, kind=kind)[train]
    clf = PTAClassifier(**QUICK).fit(cora.features, y, graph=cora.graph)
    found = clf.audit(cora.features)
    is_wrong = found.given != cora.labels[found.nodes]
    assert is_wrong.sum() == 28
    score = roc_auc_score(is_wrong, found.suspicion)
    of_model = -clf.label_distributions_[found.nodes, found.given]
    assert score > 0.9
    assert score > roc_auc_score(is_wrong, of_model) + 0.02
    fixed = found.fixed(y)
    assert (fixed[train] == cora.labels[train]).mean() > 0.86
