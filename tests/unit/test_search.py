"""Searches over parameters: scikit-learn cuts rows, and what is cut are labels, never the graph."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from proptrain import Graph, LabelFolds, LabelPropagationClassifier, NodeClassifier, PTAClassifier
from proptrain.errors import InvalidInputError, LabelError

N = 40
RANDOM = np.random.RandomState(0)
TRUTH = np.arange(N) % 2
FEATURES = RANDOM.rand(N, 6) + TRUTH[:, None] * np.array([1, 0.5, 0, 0, 0, 0])
ALIKE = TRUTH[:, None] == TRUTH
LINKED = np.triu(np.where(ALIKE, 0.25, 0.04) > RANDOM.rand(N, N), 1).astype(float)
GRAPH = Graph(sp.csr_array(LINKED + LINKED.T))
Y = np.where(np.arange(N) < 16, TRUTH, -1)
NODES = np.arange(N)


def pta(**settings):
    return PTAClassifier(**{"max_epochs": 20, "n_hidden": 8, "random_state": 0, **settings})


def on_graph(estimator):
    return NodeClassifier(estimator, FEATURES, GRAPH)


def test_a_grid_search_scores_what_one_gets_by_hiding_labels_by_hand():
    folds, alphas = LabelFolds(4, seed=3), [0.05, 0.9]
    search = GridSearchCV(on_graph(pta()), {"estimator__alpha": alphas}, cv=folds).fit(NODES, Y)
    for place, alpha in enumerate(alphas):
        for fold, (_, hidden) in enumerate(folds.split(None, Y)):
            y = Y.copy()
            y[hidden] = -1
            told = pta(alpha=alpha).fit(FEATURES, y, graph=GRAPH).transduction_
            by_hand = (told[hidden] == Y[hidden]).mean()
            assert search.cv_results_[f"split{fold}_test_score"][place] == by_hand
    refitted = pta(alpha=search.best_params_["estimator__alpha"]).fit(FEATURES, Y, graph=GRAPH)
    best = search.best_estimator_
    np.testing.assert_array_equal(best.estimator_.label_distributions_, refitted.predict_proba())
    np.testing.assert_array_equal(search.predict([3, 30]), refitted.transduction_[[3, 30]])


def test_hidden_labels_do_not_reach_the_model():
    train, hidden = next(LabelFolds(4).split(None, Y))
    wrong = Y.copy()
    wrong[hidden] = 1 - Y[hidden]
    ours = on_graph(pta()).fit(train, Y[train]).predict_proba(NODES)
    theirs = on_graph(pta()).fit(train, wrong[train]).predict_proba(NODES)
    np.testing.assert_array_equal(ours, theirs)
    assert (on_graph(pta()).fit(NODES, wrong).predict_proba(NODES) != ours).any()


def test_a_pipeline_can_be_searched_and_is_fitted_with_the_graph():
    pipeline = Pipeline([("scale", StandardScaler()), ("pta", pta())])
    grid = {"estimator__pta__alpha": [0.1], "estimator__scale__with_mean": [True, False]}
    search = GridSearchCV(on_graph(pipeline), grid, cv=LabelFolds(3)).fit(NODES, Y)
    with_mean = search.best_params_["estimator__scale__with_mean"]
    scaled = StandardScaler(with_mean=with_mean).fit_transform(FEATURES)
    by_hand = pta().fit(scaled, Y, graph=GRAPH)
    np.testing.assert_array_equal(search.predict_proba(NODES), by_hand.label_distributions_)


def test_a_pipeline_alone_takes_the_graph_for_its_last_step():
    pipeline = Pipeline([("scale", StandardScaler()), ("pta", pta())])
    pipeline.fit(FEATURES, Y, pta__graph=GRAPH)
    by_hand = pta().fit(StandardScaler().fit_transform(FEATURES), Y, graph=GRAPH)
    np.testing.assert_array_equal(pipeline[-1].predict_proba(), by_hand.predict_proba())


def test_scikit_learns_own_folds_do_for_the_labelled_nodes():
    labelled, folds = np.flatnonzero(Y >= 0), StratifiedKFold(4)
    told = cross_val_predict(on_graph(pta()), labelled, Y[labelled], cv=folds)
    scores = cross_val_score(on_graph(pta()), labelled[:, None], Y[labelled], cv=folds)
    assert scores.mean() == (told == Y[labelled]).mean()


def test_with_scikit_learns_own_folds_unlabelled_nodes_do_not_count():
    y, folds = np.where(np.random.RandomState(1).rand(N) < 0.5, TRUTH, -1), StratifiedKFold(3)
    scores = cross_val_score(on_graph(pta()), NODES, y, cv=folds)
    masked = np.ma.masked_array(TRUTH, mask=y < 0)
    for place, (train, test) in enumerate(folds.split(NODES, y)):
        hidden = y.copy()
        hidden[test] = -1
        told, judged = pta().fit(FEATURES, hidden, graph=GRAPH).predict(), test[y[test] >= 0]
        assert scores[place] == (told[judged] == y[judged]).mean()
        fitted = on_graph(pta()).fit(train, masked[train])
        assert fitted.score(test, masked[test]) == scores[place]
    assert (scores > 0.6).all()


def test_a_fold_without_a_label_is_told_and_what_to_do():
    with (
        pytest.warns(UserWarning, match=r"none of these 10 nodes has a label.* cv=LabelFolds\(5\)"),
        np.errstate(invalid="ignore"),
    ):
        assert np.isnan(cross_val_score(on_graph(pta()), NODES, Y, cv=KFold(4))).sum() == 2


def test_bytes_and_other_markers_are_read_in_a_search_too():
    y = np.array([b"a", b"b"])[TRUTH]
    fitted = on_graph(pta()).fit(NODES[:16], y[:16])
    assert fitted.classes_.tolist() == ["a", "b"]
    assert fitted.score(NODES, y) == on_graph(pta()).fit(NODES[:16], TRUTH[:16]).score(NODES, TRUTH)
    pipeline = Pipeline([("scale", StandardScaler()), ("pta", pta(unlabelled=7))])
    y = np.where(Y < 0, 7, Y)
    assert on_graph(pipeline).fit(NODES, y).score(NODES, y) > 0.8
    names = [[b"a", b"b", b" "][code] for code in Y]
    for ours, wanted in zip(
        LabelFolds(3).split(None, names), LabelFolds(3).split(None, Y), strict=True
    ):
        np.testing.assert_array_equal(ours[1], wanted[1])


def test_any_labels_will_do_and_label_propagation_needs_no_features():
    names = np.array(["left", "right", None], dtype=object)[Y]
    by_name = NodeClassifier(LabelPropagationClassifier(), None, GRAPH)
    told = by_name.fit(NODES, list(names)).predict(NODES)
    by_code = LabelPropagationClassifier().fit(None, Y, graph=GRAPH).transduction_
    np.testing.assert_array_equal(told, np.array(["left", "right"])[by_code])


def test_copies_share_features_and_graph():
    ours = on_graph(pta())
    copied = clone(ours)
    assert copied is not ours
    assert copied.estimator is not ours.estimator
    assert copied.features is FEATURES
    assert copied.graph is GRAPH


@settings(max_examples=50, derandomize=True, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2, -1]), min_size=6, max_size=30), st.integers(2, 4))
def test_every_label_that_has_a_fellow_is_hidden_once(y, n_splits):
    y = np.array(y)
    counts = np.bincount(y[y >= 0], minlength=3)
    hideable = np.flatnonzero((y >= 0) & (counts[y] > 1))
    assume(len(hideable) >= 2 * n_splits)
    tested = np.zeros(len(y), dtype=int)
    n_hidden = []
    for train, test in LabelFolds(n_splits).split(None, y):
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
        tested[test] += 1
        n_hidden.append(np.bincount(y[test], minlength=3)[counts > 1])
    np.testing.assert_array_equal(np.flatnonzero(tested), hideable)
    assert tested.max() == 1
    assert np.ptp(n_hidden, axis=0).max() <= 1


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (
            lambda: on_graph(pta()).fit(FEATURES, Y),
            InvalidInputError,
            r"X must be node numbers here, shape \(m,\).*shape \(40, 6\) and dtype float64",
        ),
        (lambda: on_graph(pta()).fit([0, 40], [0, 1]), InvalidInputError, "between 0 and 39"),
        (lambda: on_graph(pta()).fit([0, 1], [0]), LabelError, "one label for each of the 2"),
        (lambda: LabelFolds(1), InvalidInputError, "n_splits must be a whole number, at least 2"),
        (
            lambda: list(LabelFolds(3).split(None, [0, 0, 1, -1])),
            LabelError,
            "Each of the 3 folds must have a label, but there are labels for 2 only",
        ),
    ],
)
def test_what_is_wrong_is_said(act, error, message):
    with pytest.raises(error, match=message):
        act()
