"""The systems to compare with: the same face as PTA's, told nodes as their formulas say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import reference
from proptrain import CorrectAndSmoothClassifier, GNNClassifier, Graph, PTAClassifier
from proptrain.errors import GraphError, InvalidInputError

ARCHITECTURES = ["MLP", "GCN", "SGCN", "DAGNN", "APPNP", "PPNP"]
SHORT = {"max_epochs": 25, "n_hidden": 8, "random_state": 0}

N, N_NEW = 40, 3
RANDOM = np.random.RandomState(0)
TRUTH = np.arange(N) % 2
X = RANDOM.rand(N, 6) + TRUTH[:, None] * np.array([1, 0.5, 0, 0, 0, 0])
UPPER = np.triu(RANDOM.rand(N, N) < np.where(TRUTH[:, None] == TRUTH, 0.25, 0.02), 1)
ADJACENCY = (UPPER | UPPER.T).astype(float)
Y = np.where(np.arange(N) < 12, TRUTH, -1)
STOP = np.array([0, 1, 2, 3])
TRAIN = np.arange(4, 12)
NEW = RANDOM.rand(N_NEW, 6)
NEW_EDGES = [(40, 5), (40, 2), (1, 41), (41, 40)]  # 42 has none
LARGER = np.zeros((N + N_NEW, N + N_NEW))
LARGER[:N, :N] = ADJACENCY
for first, second in NEW_EDGES:
    LARGER[first, second] = LARGER[second, first] = 1


def gnn(architecture, **settings):
    return GNNClassifier(architecture=architecture, **{**SHORT, **settings})


def smooth(**settings):
    return CorrectAndSmoothClassifier(**{**SHORT, **settings})


def all_of_them():
    return [*map(gnn, ARCHITECTURES), smooth()]


every_classifier = pytest.mark.parametrize(
    "clf", all_of_them(), ids=lambda clf: getattr(clf, "architecture", "C&S")
)


def fitted(clf, y=Y, **given):
    return clone(clf).fit(X, y, **{"graph": ADJACENCY, "stopping": STOP, **given})


# --- what they tell, in dense NumPy -----------------------------------------------------------


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def told_by_hand(clf, features, adjacency):
    """The formula of each network, with the weights that were learnt."""
    w = {name: np.asarray(value, dtype=np.float64) for name, value in clf.weights_.items()}
    step = reference.operator(adjacency, clf.normalisation)

    def two_layers(before=""):
        hidden = features @ w[f"{before}weight1"] + w.get(f"{before}bias1", 0)
        return np.maximum(hidden, 0) @ w[f"{before}weight2"] + w.get(f"{before}bias2", 0)

    match clf.architecture:
        case "MLP":
            scores = two_layers()
        case "GCN":
            hidden = np.maximum(step @ features @ w["weight1"] + w["bias1"], 0)
            scores = step @ hidden @ w["weight2"] + w["bias2"]
        case "SGCN":
            scores = step @ step @ features @ w["f.weight1"]
        case "APPNP":
            scores = reference.appnp(step, two_layers("f."), clf.alpha, 10)
        case "PPNP":
            scores = reference.exact(step, clf.alpha) @ two_layers("f.")
        case "DAGNN":
            powers = [two_layers("f.")]
            for _ in range(10):
                powers.append(step @ powers[-1])
            gates = [1 / (1 + np.exp(-(p @ w["gate_weight"] + w["gate_bias"]))) for p in powers]
            scores = sum(gate * power for gate, power in zip(gates, powers, strict=True))
    return softmax(scores)


@pytest.mark.parametrize("normalisation", ["symmetric", "row"])
@pytest.mark.parametrize("layout", [np.array, sp.csr_array])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_old_and_new_nodes_are_told_by_the_formula(architecture, layout, normalisation):
    restart = {"alpha": 0.2} if architecture in ("APPNP", "PPNP") else {}
    clf = gnn(architecture, normalisation=normalisation, **restart)
    clf.fit(layout(X), Y, graph=ADJACENCY)
    old, new = clf.label_distributions_, clf.predict_proba(layout(NEW), edges=NEW_EDGES)
    np.testing.assert_allclose(old, told_by_hand(clf, X, ADJACENCY), atol=1e-5)
    by_hand = told_by_hand(clf, np.concatenate([X, NEW]), LARGER)[N:]
    np.testing.assert_allclose(new, by_hand, atol=1e-5)
    alone = told_by_hand(clf, NEW, np.zeros((N_NEW, N_NEW)))
    np.testing.assert_allclose(clf.predict_proba(layout(NEW)), alone, atol=1e-5)
    assert np.allclose(new, alone, atol=1e-4) == (architecture == "MLP")


def test_new_features_may_be_stored_in_another_way():
    clf = fitted(gnn("APPNP"))
    told = clf.predict_proba(sp.csr_array(NEW), edges=NEW_EDGES)
    np.testing.assert_allclose(told, clf.predict_proba(NEW, edges=NEW_EDGES), atol=1e-6)


@pytest.mark.parametrize("architecture", ["APPNP", "PPNP", "SGCN"])
def test_without_the_ensemble_a_node_is_told_by_its_features(architecture):
    clf = fitted(gnn(architecture, ensemble=False))
    with pytest.warns(UserWarning, match="told from features alone"):
        alone = clf.predict_proba(X)
    np.testing.assert_allclose(clf.label_distributions_, alone, atol=1e-6)
    assert clf.history_.train_loss == fitted(gnn(architecture)).history_.train_loss


def test_a_network_without_a_graph_does_not_look_at_one():
    with_graph, without = fitted(gnn("MLP")), fitted(gnn("MLP"), graph=None)
    np.testing.assert_array_equal(with_graph.label_distributions_, without.label_distributions_)
    for clf in (with_graph, without):
        np.testing.assert_array_equal(np.flatnonzero(clf.reached_), TRAIN)
        assert not clf.find_reached(NEW_EDGES).any()


@pytest.mark.parametrize(("steps", "expected"), [(None, 10), (4, 4), (0, 0)])
@pytest.mark.parametrize("architecture", ["APPNP", "DAGNN"])
def test_a_label_goes_as_many_steps_as_the_network(architecture, steps, expected):
    alone = np.zeros((N, N))
    clf = fitted(gnn(architecture, steps=steps, max_epochs=2), graph=alone)
    path = [(TRAIN[0], N), *((N + i, N + i + 1) for i in range(14))]
    assert clf.find_reached(path).tolist() == [True] * expected + [False] * (15 - expected)
    from_stopping = [(STOP[0], N), *path[1:]]
    assert not clf.find_reached(from_stopping).any()


def correct_and_smooth_by_hand(f, adjacency, known, alpha, steps):
    """Row by row: errors are held where they are known, scaled to their mean, labels put in."""
    step = reference.operator(adjacency, "symmetric")
    truth = np.eye(2)[Y[known]]
    errors = np.zeros_like(f)
    errors[known] = truth - f[known]
    spread = errors.copy()
    for _ in range(steps):
        spread = (1 - alpha) * step @ spread + alpha * errors
        spread[known] = errors[known]
    mean = np.abs(errors[known]).sum(axis=1).mean()
    corrected = f.copy()
    for i, row in enumerate(spread):
        if np.abs(row).sum() > 0:
            corrected[i] += mean / np.abs(row).sum() * row
    corrected[known] = truth
    smoothed = np.maximum(reference.appnp(step, corrected, alpha, steps), 0)
    return smoothed / smoothed.sum(axis=1, keepdims=True)


def test_correct_and_smooth_is_what_it_says_for_old_and_new_nodes():
    clf = fitted(smooth(alpha=0.3, steps=4))
    mlp = fitted(gnn("MLP"))
    np.testing.assert_allclose(clf.probabilities_, mlp.label_distributions_, rtol=1e-6)
    old = clf.probabilities_.astype(np.float64)
    by_hand = correct_and_smooth_by_hand(old, ADJACENCY, TRAIN, 0.3, 4)
    np.testing.assert_allclose(clf.label_distributions_, by_hand, rtol=1e-6)
    together = np.concatenate([old, clf.predict_proba(NEW)])
    by_hand = correct_and_smooth_by_hand(together, LARGER, TRAIN, 0.3, 4)[N:]
    np.testing.assert_allclose(clf.predict_proba(NEW, edges=NEW_EDGES), by_hand, rtol=1e-5)


# --- the same face ----------------------------------------------------------------------------


@every_classifier
def test_every_classifier_learns_and_has_the_attributes(clf):
    seen = []
    clf = clone(clf).set_params(max_epochs=200, learning_rate=0.05)
    clf.fit(X, Y, graph=ADJACENCY, on_epoch=lambda epoch, accuracy: seen.append(epoch))
    assert (clf.transduction_ == TRUTH).mean() > 0.7
    np.testing.assert_array_equal(clf.predict(), clf.transduction_)
    np.testing.assert_allclose(clf.predict_proba().sum(axis=1), 1, rtol=1e-12)
    assert seen == list(range(clf.n_iter_))
    assert {len(values) for values in vars(clf.history_).values()} == {clf.n_iter_}
    assert 0 <= clf.best_epoch_ < clf.n_iter_
    assert clf.classes_.tolist() == [0, 1]
    assert clf.stopping_.size == 2  # a fifth of the six labels of each class


@every_classifier
def test_same_seed_same_bits(clf):
    first, second, other = (
        fitted(clone(clf).set_params(random_state=seed)).label_distributions_ for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


@every_classifier
def test_labels_of_stopping_nodes_never_enter_the_model(clf):
    other = Y.copy()
    other[STOP] = 1 - other[STOP]
    clf = clone(clf).set_params(max_epochs=1)  # so that there is no choice of an epoch
    first, second = (fitted(clf, y=y) for y in (Y, other))
    np.testing.assert_array_equal(first.label_distributions_, second.label_distributions_)
    np.testing.assert_array_equal(
        first.predict_proba(NEW, edges=NEW_EDGES), second.predict_proba(NEW, edges=NEW_EDGES)
    )
    assert first.history_.stop_loss != second.history_.stop_loss


@every_classifier
def test_without_stopping_nodes_training_watches_itself(clf):
    clf = fitted(clf, stopping=[])
    assert clf.stopping_.size == 0
    alone = clf.probabilities_ if hasattr(clf, "probabilities_") else clf.label_distributions_
    right = (alone[:12].argmax(axis=1) == Y[:12]).mean()
    assert clf.history_.stop_accuracy[clf.best_epoch_] == right


@every_classifier
def test_new_nodes_are_reached_as_if_they_had_been_fitted(clf):
    small = fitted(clone(clf).set_params(max_epochs=2))
    whole = clone(clf).set_params(max_epochs=2)
    whole.fit(np.concatenate([X, NEW]), [*Y, -1, -1, -1], graph=LARGER, stopping=STOP)
    reached = small.find_reached(NEW_EDGES, n_new=N_NEW)
    np.testing.assert_array_equal(reached, whole.reached_[N:])
    assert reached.tolist() == (
        [False] * 3 if small.get_params().get("architecture") == "MLP" else [True, True, False]
    )


def test_equal_hops_are_what_reaches_new_nodes_too():
    clf = PTAClassifier(**SHORT, equal_hops=2).fit(X, Y, graph=np.zeros((N, N)), stopping=STOP)
    path = [(TRAIN[0], N), (N, N + 1), (N + 1, N + 2)]
    assert clf.find_reached(path).tolist() == [True, True, False]


@every_classifier
def test_parameters_are_those_of_the_constructor(clf):
    parameters = clf.get_params()
    assert clone(clf).get_params() == parameters
    assert type(clf)(**parameters).get_params() == parameters
    assert "clamp" not in parameters
    changed = clone(clf).set_params(alpha=0.7, dropout=0.1)
    assert (changed.alpha, changed.dropout) == (0.7, 0.1)


@every_classifier
def test_labels_and_graphs_of_any_kind(clf):
    names = [None if code < 0 else ("even", "odd")[code] for code in Y]
    told = fitted(clf, y=names, graph=Graph(sp.csr_array(ADJACENCY)))
    assert told.classes_.tolist() == ["even", "odd"]
    np.testing.assert_array_equal(told.label_distributions_, fitted(clf).label_distributions_)
    assert fitted(clf, graph="knn").graph_.n_edges > 0


# --- errors -----------------------------------------------------------------------------------


def fit_error(match, clf, **given):
    with pytest.raises(InvalidInputError, match=match):
        fitted(clf, **given)


@pytest.mark.parametrize("architecture", ["appnp", "GAT", None, 3, ["GCN"]])
def test_unknown_architectures(architecture):
    message = "architecture must be one of MLP, GCN, SGCN, DAGNN, APPNP, PPNP; got "
    fit_error(message, gnn(architecture))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_numbers_that_cannot_be(architecture):
    fit_error("ensemble must be True or False, got 'no'", gnn(architecture, ensemble="no"))
    for steps in (-1, "x", 2.5, True):
        fit_error(
            f"steps must be a whole number, 0 or more, got {steps!r}",
            gnn(architecture, steps=steps),
        )
    for alpha in (0, -0.1, 1.1, "x", None):
        message = f"alpha, the weight of the restart, must be above 0 and at most 1, got {alpha}"
        fit_error(message, gnn(architecture, alpha=alpha))
    for rate in (-0.1, 1, "x", None, float("nan")):
        message = f"edge_dropout must be at least 0 and below 1, got {rate!r}"
        fit_error(message, gnn(architecture, edge_dropout=rate))
    fit_error("dropout must be at least 0 and below 1, got 1", gnn(architecture, dropout=1))
    fit_error("n_hidden must be a whole number", gnn(architecture, n_hidden=0))


@pytest.mark.parametrize(
    ("setting", "heeded"),
    [
        ({"alpha": 0.3}, ["APPNP", "PPNP"]),
        ({"edge_dropout": 0.5}, ["APPNP"]),
        ({"ensemble": False}, ["SGCN", "APPNP", "PPNP"]),
        ({"steps": 3}, ["SGCN", "DAGNN", "APPNP"]),
    ],
)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_would_have_no_effect_is_said(architecture, setting, heeded):
    clf = gnn(architecture, max_epochs=2, **setting)
    (name, value), default = *setting.items(), gnn(architecture)
    if architecture in heeded:
        before = fitted(default.set_params(max_epochs=2)).label_distributions_
        assert (fitted(clf).label_distributions_ != before).any()
        return
    who = ", ".join(sorted(heeded, key=["APPNP", "PPNP", "SGCN", "DAGNN"].index))
    with pytest.warns(
        UserWarning, match=f"{name}={value} has no effect on {architecture}, only on {who}"
    ):
        same = fitted(clf).label_distributions_
    np.testing.assert_array_equal(
        same, fitted(default.set_params(max_epochs=2)).label_distributions_
    )


@pytest.mark.parametrize(("architecture", "n_reached"), [("MLP", 2), ("GCN", 6)])
def test_steps_have_no_effect_on_whom_a_label_reaches_either(architecture, n_reached):
    """A path of ten with a label at both ends."""
    y = [0, *[-1] * 8, 1]
    clf = gnn(architecture, steps=5, max_epochs=2, stopping_fraction=0)
    with pytest.warns(UserWarning, match="steps=5 has no effect"):
        clf.fit(np.eye(10), y, graph=[(i, i + 1) for i in range(9)])
    assert clf.reached_.sum() == n_reached


def test_correct_and_smooth_cannot_have_everything():
    fit_error("alpha, the weight of the restart", smooth(alpha=0))
    fit_error("steps must be a whole number", smooth(steps=-1))
    fit_error("learning_rate must be above 0", smooth(learning_rate=0))
    fit_error("normalisation must be one of symmetric", smooth(normalisation="sym"))


@pytest.mark.parametrize("hops", [-1, 1.5, "x"])
def test_equal_hops_that_cannot_be(hops):
    message = f"equal_hops must be None or a whole number, 0 or more, got {hops!r}"
    fit_error(message, PTAClassifier(equal_hops=hops))


@every_classifier
def test_what_prediction_needs(clf):
    with pytest.raises(ValueError, match="not fitted yet"):
        clone(clf).predict()
    clf = fitted(clf)
    with pytest.raises(InvalidInputError, match="edges belong to new nodes: give their features"):
        clf.predict(edges=NEW_EDGES)
    with pytest.raises(GraphError, match="between 0 and 42"):
        clf.predict(NEW, edges=[(40, 43)])
    with pytest.raises(
        ValueError, match=f"X has 5 features, but {type(clf).__name__} is expecting 6"
    ):
        clf.predict(NEW[:, :5])
    with pytest.warns(UserWarning, match="features of the fitted nodes"):
        clf.predict(X)
