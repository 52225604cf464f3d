"""PTA+: each ingredient does what it says, alone and together, and PTA stays what it is."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import reference
from proptrain import (
    PPR,
    Graph,
    LabelPropagationClassifier,
    LocalEngine,
    Power,
    PTAClassifier,
    PTAPlusClassifier,
    extend_graph,
    load_dataset,
    predict_probabilities,
    split_nodes,
    with_label_noise,
)
from proptrain.data.splits import VALIDATION_SEEDS
from proptrain.errors import InvalidInputError
from proptrain.propagate.labels import one_hot
from proptrain.propagate.shaping import balance_classes, evenness, next_soft_labels, to_rows
from proptrain.rounds import RoundLearner
from proptrain.saving.persistence import _checksum
from proptrain.trainings import UNWATCHED_EPOCHS, most_epochs

BARE = {
    "n_rounds": 0,
    "trust": False,
    "balance": 0,
    "mass_per_class": None,
    "scale_features": False,
    "keep_sizes": False,
    "fall_back": False,
}
"""What makes it PTA."""


def two_groups(seed=0, n=60, n_labelled=8):
    """Features, all classes, labels with -1 for most nodes, and a graph of two groups."""
    random = np.random.RandomState(seed)
    truth = np.arange(n) % 2
    features = random.rand(n, 6) + truth[:, None] * np.array([1, 0.5, 0, 0, 0, 0])
    alike = truth[:, None] == truth
    upper = np.triu(random.rand(n, n) < np.where(alike, 0.25, 0.02), 1)
    labels = np.where(np.arange(n) < 2 * n_labelled, truth, -1)
    return features, truth, labels, Graph(sp.csr_array(upper.astype(float)))


def unequal_classes(seed=0, sizes=(300, 70, 40), n_labelled=15):
    """As `two_groups`; most neighbours of the small classes are of the large one."""
    random = np.random.RandomState(seed)
    truth = np.repeat(range(len(sizes)), sizes)
    n = len(truth)
    features = 0.6 * random.randn(len(sizes), 30)[truth] + random.randn(n, 30)
    alike = truth[:, None] == truth
    upper = np.triu(random.rand(n, n) < np.where(alike, 0.05, 0.007), 1)
    labels = np.full(n, -1)
    for code in range(len(sizes)):
        labels[random.choice(np.flatnonzero(truth == code), n_labelled, replace=False)] = code
    return features, truth, labels, Graph(sp.csr_array(upper.astype(float)))


def graph_says_all(seed=0, n_labelled=10, n_alone=0):
    """As `two_groups`; the features are noise, and the last nodes have no edge."""
    random = np.random.RandomState(seed)
    truth = np.arange(300) % 3
    features = random.randn(300, 3)
    alike = truth[:, None] == truth
    upper = np.triu(random.rand(300, 300) < np.where(alike, 0.06, 0.008), 1)
    if n_alone:
        upper[:, -n_alone:] = False
    labels = np.where(np.arange(300) < 3 * n_labelled, truth, -1)
    return features, truth, labels, Graph(sp.csr_array(upper.astype(float)))


FEATURES, TRUTH, LABELS, GRAPH = two_groups()
STOP = np.array([0, 1, 2, 3])


def plus(**settings):
    quick = {"max_epochs": 30, "n_hidden": 8, "random_state": 0}
    return PTAPlusClassifier(**{**quick, **settings})


def fitted(clf, labels=LABELS):
    return clf.fit(FEATURES, labels, graph=GRAPH, stopping=STOP)


def all_targets(clf, labels=LABELS):
    """Return what each round learns from."""
    seen, train = [], clf._train
    clf._train = lambda features, targets, *given, **more: (
        seen.append(targets.copy()) or train(features, targets, *given, **more)
    )
    fitted(clf, labels)
    return seen


def test_with_everything_switched_off_it_is_pta():
    quick = {"max_epochs": 30, "n_hidden": 8, "random_state": 0}
    ours, pta = fitted(plus(**BARE)), fitted(PTAClassifier(**quick))
    np.testing.assert_array_equal(ours.label_distributions_, pta.label_distributions_)
    np.testing.assert_array_equal(ours.soft_labels_, pta.soft_labels_)
    assert ours.history_ == pta.history_
    assert (ours.n_iter_, ours.best_epoch_) == (pta.n_iter_, pta.best_epoch_)


def with_a_doubtful_class():
    """As `two_groups`, to stop by `STOP`; a class with fewer labels, one of them wrong."""
    labels = np.where(np.arange(60) == 5, 0, np.where(np.arange(60) == 7, -1, LABELS))
    return FEATURES, TRUTH, labels, GRAPH, STOP


ROUND = {"n_rounds": 1}
INGREDIENTS = {
    "n_rounds": ({}, {"n_rounds": 1}, with_a_doubtful_class),
    "n_networks": ({}, {"n_networks": 2}, with_a_doubtful_class),
    "mass_power": ({}, {"mass_power": 0.5}, with_a_doubtful_class),
    "balance": ({}, {"balance": 10.0}, with_a_doubtful_class),
    "mass_per_class": ({}, {"mass_per_class": 70.0}, with_a_doubtful_class),
    "scale_features": ({}, {"scale_features": True}, with_a_doubtful_class),
    "trust": ({}, {"trust": True}, with_a_doubtful_class),
    "clamp": ({}, {"clamp": False}, with_a_doubtful_class),
    "keep_sizes": ({}, {"keep_sizes": True}, unequal_classes),
    "fall_back": ({}, {"fall_back": True}, graph_says_all),
    # Of further rounds, so that there must be one.
    "sharpness": (ROUND, {"sharpness": 1.0}, with_a_doubtful_class),
    "max_gamma": (ROUND, {"max_gamma": 0.1, "epsilon": 10.0}, with_a_doubtful_class),
    "learnt_trust": (ROUND, {"learnt_trust": True}, with_a_doubtful_class),
    "average_rounds": (ROUND, {"average_rounds": False}, with_a_doubtful_class),
}
"""Of each ingredient what must be there, what switches it, and something for it to do."""


@pytest.mark.parametrize("name", INGREDIENTS)
def test_every_ingredient_makes_a_difference_alone(name):
    others, switch, make = INGREDIENTS[name]
    features, _, labels, graph, *stopping = make()
    others = {**BARE, **others, **{other: switch[other] for other in switch if other != name}}
    without, with_it = (
        plus(**settings).fit(features, labels, graph, *stopping)
        for settings in (others, {**others, **switch})
    )
    assert getattr(without, name) != getattr(with_it, name)
    assert not np.array_equal(without.label_distributions_, with_it.label_distributions_)


def test_no_ingredient_is_forgotten():
    both = PTAClassifier().get_params()
    assert {*PTAPlusClassifier().get_params(), "clamp"} - {*both} | {"clamp"} == {*INGREDIENTS}


def test_rounds_are_those_of_the_equations():
    labels = np.where(np.isin(np.arange(60), [5, 7, 9]), -1, LABELS)  # of one class fewer
    labels[10] = 1 - labels[10]
    clf = plus(mass_per_class=5.0, n_rounds=2)
    learnt = all_targets(clf, labels)
    known, n, C = np.setdiff1d(np.flatnonzero(labels >= 0), STOP), 60, 2
    t, M, T = len(known), C * 5.0, np.zeros((n, 1))
    T[known, 0] = clf.trust_
    Y = reference.one_hot(labels, known, C)
    step = reference.operator(GRAPH.adjacency.toarray(), "symmetric")
    beta = reference.ppr_coefficients(0.1, 10)

    def shaped(Z):
        m = Z.sum(axis=0)
        B = Z * (m.mean() / m) ** (10**2 / (10**2 + (t / C) ** 2))
        return M * B / B.sum()

    assert (len(learnt), clf.n_kept_, clf.fell_back_) == (3, 3, False)
    assert clf.trust_.min() < 0.95
    F = clf.class_factors_
    np.testing.assert_array_equal(F, 1)  # of the mean of the rounds, and so of each
    f = [
        predict_probabilities({name: one[r] for name, one in clf.weights_.items()}, FEATURES)
        for r in range(3)
    ]
    wanted = shaped(reference.clamped(step, T * Y, beta, known))
    for targets, told in zip(learnt, f, strict=True):
        np.testing.assert_allclose(targets, wanted, rtol=1e-4)
        S = F * reference.clamped(step, told, beta, [])
        Z = shaped(S**2.5 / (S**2.5).sum(axis=1, keepdims=True))
        m = max(M / n, min(1, M / t))
        wanted = np.where(np.isin(np.arange(n), known)[:, None], T * m * Y + (1 - T) * Z, Z)
    scores = F * reference.clamped(step, np.mean(f, axis=0), beta, [])
    told = scores / scores.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(clf.label_distributions_, told, rtol=1e-4)


def test_the_loss_does_not_grow_with_the_labels():
    few = np.where(np.arange(60) < 8, LABELS, -1)
    losses = [fitted(plus(n_rounds=0), labels).history_.train_loss[0] for labels in (few, LABELS)]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    paper = [
        fitted(plus(n_rounds=0, mass_per_class=None), labels).history_.train_loss[0]
        for labels in (few, LABELS)
    ]
    assert paper[1] > 1.5 * paper[0]


def test_classes_are_balanced_less_the_more_labels_there_are():
    uneven = np.where(np.isin(np.arange(60), [4, 5, 7, 9, 11, 13]), TRUTH, -1)  # one against five
    uneven[STOP] = TRUTH[STOP]
    shares = [
        masses[1] / masses[0]
        for masses in (
            all_targets(plus(n_rounds=0, trust=False, balance=balance), uneven)[0].sum(axis=0)
            for balance in (0, 3.0, 1e9)
        )
    ]
    assert shares[2] == pytest.approx(1)
    assert shares[1] == pytest.approx(np.sqrt(shares[0]), rel=1e-3)  # three labels per class: half


def test_all_rounds_are_averaged_unless_the_first_is_better():
    clf, first = fitted(plus(n_rounds=3)), fitted(plus(n_rounds=0))
    assert clf.n_kept_ == 4
    assert clf.n_iter_ == len(clf.history_.gamma)
    starts = [epoch for epoch, gamma in enumerate(clf.history_.gamma) if gamma == 0]
    assert len(starts) == 4  # each training begins with equal weights
    assert clf.best_epoch_ >= starts[-1]
    right = [(one.transduction_ == TRUTH)[STOP].mean() for one in (first, clf)]
    assert right[1] >= right[0]
    for name, stacked in clf.weights_.items():
        np.testing.assert_array_equal(stacked[0], first.weights_[name][0])


def test_gamma_is_limited_in_further_rounds_alone():
    history = fitted(plus(n_rounds=1, epsilon=10.0, max_gamma=0.5)).history_
    begin = len(fitted(plus(n_rounds=0, epsilon=10.0)).history_.gamma)
    assert max(history.gamma[:begin]) > 0.5
    assert max(history.gamma[begin:]) == 0.5


def test_rounds_that_go_astray_are_left_out(monkeypatch):
    astray = 2 * np.eye(2, dtype=np.float32)[1 - TRUTH]
    monkeypatch.setattr("proptrain.plus.next_soft_labels", lambda *_, **__: astray)
    first = fitted(plus(n_rounds=0, scale_features=False))
    for average in (True, False):
        clf = fitted(plus(n_rounds=2, scale_features=False, average_rounds=average))
        assert clf.n_kept_ == 1
        np.testing.assert_array_equal(clf.label_distributions_, first.label_distributions_)
        starts = [epoch for epoch, gamma in enumerate(clf.history_.gamma) if gamma == 0]
        assert clf.best_epoch_ < starts[1]


def test_without_averaging_the_last_round_counts():
    together, last = fitted(plus()), fitted(plus(average_rounds=False))
    assert (together.n_kept_, last.n_kept_) == (3, 1)
    assert last.history_ == together.history_
    assert last.best_epoch_ == together.best_epoch_
    for name, stacked in together.weights_.items():
        np.testing.assert_array_equal(last.weights_[name][0], stacked[2])
    # Without stopping nodes it does in any case.
    alone = [
        plus(average_rounds=average).fit(FEATURES, LABELS, GRAPH).label_distributions_
        for average in (True, False)
    ]
    np.testing.assert_array_equal(*alone)


def test_networks_are_averaged_for_old_and_new_nodes():
    clf = fitted(plus(n_rounds=0, n_networks=3))
    assert {len(stacked) for stacked in clf.weights_.values()} == {3}
    with pytest.warns(UserWarning, match="features of the fitted nodes"):
        alone = clf.predict_proba(FEATURES)
    np.testing.assert_allclose(alone, clf.probabilities_, atol=1e-6)
    singles = [fitted(plus(n_rounds=0)) for _ in range(2)]
    np.testing.assert_array_equal(singles[0].probabilities_, singles[1].probabilities_)
    assert not np.allclose(clf.probabilities_, singles[0].probabilities_)


def test_new_nodes_with_edges_are_told_as_if_they_had_been_there():
    clf = fitted(plus())
    edges = [(60, 4), (60, 6), (61, 5), (61, 7)]
    together = clf.predict_proba(FEATURES[:2], edges)
    assert together.argmax(axis=1).tolist() == [0, 1]
    graph = extend_graph(GRAPH, edges, 2)
    alone = np.concatenate([clf.probabilities_, clf.predict_proba(FEATURES[:2])])
    scores = LocalEngine(graph).propagate(alone, PPR(0.1, 10))[60:]
    np.testing.assert_allclose(together, scores / scores.sum(axis=1, keepdims=True), atol=1e-6)


def test_trust_finds_the_wrong_label():
    labels = LABELS.copy()
    labels[10] = 1 - labels[10]
    clf = fitted(plus(), labels)
    trained = np.setdiff1d(np.flatnonzero(labels >= 0), STOP)
    assert trained[clf.trust_.argmin()] == 10
    assert (fitted(plus(trust=False), labels).trust_ == 1).all()


def test_learnt_trust_doubts_the_wrong_label_in_further_rounds_alone():
    labels = LABELS.copy()
    labels[10] = 1 - labels[10]
    kept = {}
    for learnt in (False, True):
        how = {"n_rounds": 1, "trust": False, "mass_per_class": 20.0, "max_epochs": 100}
        clf = plus(**how, learnt_trust=learnt)
        targets = all_targets(clf, labels)[1]
        trained = np.setdiff1d(np.flatnonzero(labels >= 0), STOP)
        kept[learnt] = dict(zip(trained, targets[trained, labels[trained]], strict=True))
        assert (clf.trust_ == 1).all()
    assert set(kept[False].values()) == {1}
    assert min(kept[True], key=kept[True].get) == 10
    assert kept[True][10] < 0.95
    assert sum(share == 1 for share in kept[True].values()) >= len(trained) - 3


def test_few_labels_all_train_and_many_have_some_to_stop_by():
    few = plus(max_epochs=2, n_rounds=0).fit(FEATURES, LABELS, graph=GRAPH)
    assert not few.stopping_.size
    n = 2 * 260
    many = plus(max_epochs=2, n_rounds=0).fit(np.eye(2)[np.arange(n) % 2], np.arange(n) % 2)
    assert len(many.stopping_) == 104
    asked = plus(max_epochs=2, n_rounds=0, stopping_fraction=0.25)
    assert len(asked.fit(FEATURES, LABELS, graph=GRAPH).stopping_) == 4


def test_without_stopping_nodes_the_last_round_counts_and_its_later_epochs_are_averaged():
    clf = plus(n_rounds=1, max_epochs=9, scale_features=False)
    seen, train = [], clf._train
    clf._train = lambda *given, **more: (
        seen.append((more["settings"], train(*given, **more))) or (seen[-1][1])
    )
    clf.fit(FEATURES, LABELS, graph=GRAPH)
    assert [settings.mean_from for settings, _ in seen] == [3, 3]
    assert (clf.n_iter_, clf.n_kept_, clf.best_epoch_) == (18, 1, 17)
    for name, array in seen[-1][1].weights.items():
        np.testing.assert_array_equal(clf.weights_[name][0], array)
    longest = plus(max_epochs=10**4, n_rounds=0).fit(FEATURES, LABELS, graph=GRAPH)
    told = most_epochs(longest.get_params(), is_watched=False)
    assert longest.n_iter_ == UNWATCHED_EPOCHS == told


def test_without_stopping_nodes_a_round_that_lost_the_labels_does_not_count(monkeypatch):
    def astray(*given, **settings):
        targets = next_soft_labels(*given, **settings)
        targets[:, 0], targets[:, 1] = targets.sum(axis=1), 0  # one class swallows the other
        return targets

    usual = plus(n_rounds=0, max_epochs=30).fit(FEATURES, LABELS, graph=GRAPH)
    monkeypatch.setattr("proptrain.plus.next_soft_labels", astray)
    clf = plus(n_rounds=2, max_epochs=30).fit(FEATURES, LABELS, graph=GRAPH)
    assert clf.best_epoch_ == 29
    np.testing.assert_array_equal(clf.transduction_, usual.transduction_)


def test_without_stopping_nodes_it_learns_from_few_labels_of_the_shipped_graph():
    cora = load_dataset("cora")
    split = split_nodes(cora.labels, VALIDATION_SEEDS[0], per_class=5, for_tuning=True)
    y = np.full(cora.n_nodes, -1)
    y[split.train] = cora.labels[split.train]
    right = {
        method: (method.fit(cora.features, y, graph=cora.graph).transduction_ == cora.labels)
        for method in (PTAPlusClassifier(random_state=0), PTAClassifier(random_state=0))
    }
    plus_accuracy, pta_accuracy = (told[split.test].mean() for told in right.values())
    assert plus_accuracy > pta_accuracy + 0.05


def test_large_features_are_learnt_from_as_they_are_given():
    few = np.where(np.arange(60) < 8, TRUTH, -1)
    large = FEATURES * np.array([1000, 1, 30, 1, 1, 0.001])
    clf = plus(max_epochs=100, n_hidden=64).fit(large, few, graph=GRAPH)
    assert (clf.transduction_ == TRUTH).mean() > 0.9
    with pytest.warns(UserWarning, match="features of the fitted nodes"):
        told = clf.predict_proba(large)
    np.testing.assert_allclose(told, clf.probabilities_, atol=1e-5)


@pytest.mark.parametrize("is_watched", [False, True])
def test_a_large_class_does_not_swallow_the_small_ones(is_watched):
    features, truth, given, graph = unequal_classes()
    stop = None
    if is_watched:  # nodes drawn from all, so that the large class has most of the labels as well
        known = np.random.RandomState(0).choice(len(truth), 160, replace=False)
        given, stop = np.full(len(truth), -1), known[60:]
        given[known] = truth[known]
    right = {}
    for keep in (True, False):
        clf = PTAPlusClassifier(random_state=0, keep_sizes=keep, fall_back=False)
        told = clf.fit(features, given, graph=graph, stopping=stop).transduction_
        right[keep] = (told == truth)[given < 0].mean()
        assert (clf.class_factors_ < 1).any() == keep
    assert right[True] > right[False] + 0.1


def test_without_keeping_sizes_no_factor_is_computed(monkeypatch):
    called = []
    told_by_others = RoundLearner._told_by_others
    monkeypatch.setattr(
        RoundLearner, "_told_by_others", lambda *given: called.append(1) or told_by_others(*given)
    )
    few = {"max_epochs": 2, "n_rounds": 1, "stopping_fraction": 0.0}
    for keep in (False, True):
        clf = plus(keep_sizes=keep, **few).fit(FEATURES, LABELS, graph=GRAPH)
        assert bool(called) == keep
        np.testing.assert_array_equal(clf.class_factors_, np.ones(2, dtype=np.float32))


def test_factors_of_classes_count_for_new_nodes_and_explanations_and_are_kept(tmp_path):
    features, _, labels, graph = unequal_classes()
    clf = PTAPlusClassifier(random_state=0, max_epochs=60).fit(features, labels, graph=graph)
    assert clf.class_factors_.max() == 1 > clf.class_factors_.min()
    node = int(np.flatnonzero(labels < 0)[-1])
    total = clf.explain(node).neighbours.total
    np.testing.assert_allclose(total / total.sum(), clf.label_distributions_[node], atol=1e-5)
    n = len(labels)
    edges = [(n, node), (n, node - 1)]
    told = clf.predict_proba(features[[node]], edges)
    own = clf.predict_proba(features[[node]])
    larger = LocalEngine(extend_graph(graph, edges, 1))
    spread = larger.propagate(np.concatenate([clf.probabilities_, own]), PPR(0.1, 10))[n]
    wanted = spread * clf.class_factors_
    np.testing.assert_allclose(told[0], wanted / wanted.sum(), atol=1e-5)
    clf.save(tmp_path / "model")
    same = PTAPlusClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(same.predict_proba(features[[node]], edges), told)


@pytest.mark.parametrize("trust", [True, False])
@pytest.mark.parametrize("stop", [None, range(150, 250)], ids=["unwatched", "watched"])
def test_labels_take_over_where_features_say_nothing(stop, trust):
    features, truth, labels, graph = graph_says_all()
    if stop is not None:
        labels = labels.copy()
        labels[list(stop)] = truth[list(stop)]
    hidden, right = labels < 0, {}
    for name, clf in {
        "LP": LabelPropagationClassifier(),
        "on": plus(max_epochs=60, trust=trust),
        "off": plus(max_epochs=60, trust=trust, fall_back=False),
    }.items():
        told = clf.fit(features, labels, graph=graph, stopping=stop).transduction_
        right[name] = (told == truth)[hidden].mean()
        assert name == "LP" or clf.fell_back_ == (name == "on")
    assert right["LP"] > 0.8 > 0.6 > right["off"]
    assert right["on"] > right["LP"] - 0.02


@pytest.mark.parametrize("stop", [None, STOP], ids=["unwatched", "watched"])
def test_labels_do_not_take_over_where_features_tell_as_much(stop):
    clfs = [
        plus(max_epochs=60, fall_back=on).fit(FEATURES, LABELS, graph=GRAPH, stopping=stop)
        for on in (True, False)
    ]
    assert [clf.fell_back_ for clf in clfs] == [False, False]
    assert [clf.told_by_labels_ for clf in clfs] == [None, None]
    edges = [(60, 4), (60, 6)]
    for told in zip(
        *((c.label_distributions_, c.predict_proba(FEATURES[:1], edges)) for c in clfs), strict=True
    ):
        np.testing.assert_array_equal(*told)
    assert clfs[0].history_ == clfs[1].history_
    for name, array in clfs[0].weights_.items():
        np.testing.assert_array_equal(array, clfs[1].weights_[name])


def test_labels_do_not_take_over_where_every_neighbour_has_one_too():
    # Without the rows of all nodes with a label, nothing would be left for networks to tell by.
    nearly_all = np.where(np.arange(60) < 59, TRUTH, -1)
    clf = plus(max_epochs=60).fit(FEATURES, nearly_all, graph=GRAPH)
    assert not clf.stopping_.size
    assert not clf.fell_back_


@pytest.mark.parametrize("seed", [2, 7])
def test_labels_do_not_take_over_from_features_that_neighbours_know_nothing_of(seed):
    # Most neighbours of a small class's nodes are of the large one: without what the network says
    # of the node itself, it is told wrong, and labels alone seem to know more.
    features, truth, labels, graph = unequal_classes(seed, n_labelled=20)
    clf = PTAPlusClassifier(random_state=0).fit(features, labels, graph=graph)
    assert not clf.fell_back_
    assert (clf.transduction_ == truth)[labels < 0].mean() > 0.95


def test_labels_take_over_from_networks_that_learnt_the_few_there_are_by_heart():
    # The networks tell all of the training labels, and half of the others.
    features, truth, labels, graph = graph_says_all(seed=305, n_labelled=5)
    hidden = labels < 0
    on, off = (
        plus(max_epochs=60, fall_back=fall_back).fit(features, labels, graph=graph)
        for fall_back in (True, False)
    )
    right = off.transduction_ == truth
    assert right[~hidden].all()
    assert right[hidden].mean() < 0.6
    assert on.fell_back_
    assert (on.transduction_ == truth)[hidden].mean() > 0.85


def test_networks_are_heard_anew_only_where_labels_do_better(monkeypatch):
    heard, learn = [], PTAPlusClassifier._trained_anew

    def listen(self, features, problem):
        tell = learn(self, features, problem)

        def told(learnt, nodes):
            heard.append((learnt[nodes], tell(learnt, nodes)))
            return heard[-1][1]

        return told

    monkeypatch.setattr(PTAPlusClassifier, "_trained_anew", listen)
    plus(max_epochs=60).fit(FEATURES, LABELS, graph=GRAPH)
    fitted(plus(max_epochs=60))
    features, truth, labels, graph = graph_says_all()
    watched = np.where(np.arange(300) < 250, truth, -1)
    plus(max_epochs=60).fit(features, watched, graph=graph, stopping=range(30, 250))
    plus(max_epochs=60).fit(features, labels, graph=graph)  # which networks do not even repeat
    assert not heard
    features, _, labels, graph = graph_says_all(seed=305, n_labelled=5)
    plus(max_epochs=60).fit(features, labels, graph=graph)
    assert len(heard) == 5
    assert all((hidden == -1).all() for hidden, _ in heard)
    assert sum(len(told) for _, told in heard) == 15


def test_labels_take_over_from_networks_that_failed_though_others_might_not():
    # Those that are trained again tell nearly as many labels as labels do; these do not.
    features, truth, labels, graph = graph_says_all(seed=307, n_labelled=6)
    clf = plus(max_epochs=60).fit(features, labels, graph=graph)
    assert clf.fell_back_
    assert (clf.transduction_ == truth)[labels < 0].mean() > 0.9


def test_hearing_networks_anew_leaves_no_trace():
    features, _, labels, graph = graph_says_all(seed=305, n_labelled=5)
    drawn, histories = [], []
    for fall_back in (True, False):
        random, told = np.random.RandomState(0), []
        # Codes of classes are not the labels that were given, nor is -1 what marks the others.
        clf = plus(max_epochs=60, fall_back=fall_back, random_state=random, unlabelled=0)
        clf.fit(features, labels + 1, graph=graph, on_epoch=lambda e, _, told=told: told.append(e))
        assert clf.fell_back_ == fall_back
        assert told == list(range(clf.n_iter_))
        drawn.append(random.randint(2**31 - 1))
        histories.append(clf.history_)
    assert drawn[0] == drawn[1]
    assert histories[0] == histories[1]


def test_what_labels_tell_is_what_the_first_round_learnt_from():
    features, _, labels, graph = graph_says_all(n_alone=2)
    clf = plus(max_epochs=60).fit(features, labels, graph=graph)
    assert clf.fell_back_
    reached = clf.reached_
    assert (~reached).sum() == 2
    known = np.flatnonzero(labels >= 0)
    start = one_hot(labels, known, 3)
    start[known] *= clf.trust_[:, np.newaxis]
    spread = LocalEngine(graph).propagate(start, PPR(0.1, 10), fixed=known)
    rows = to_rows(balance_classes(spread, evenness(10, clf.balance))[reached])[0]
    np.testing.assert_allclose(clf.told_by_labels_[reached], rows, rtol=1e-5)
    # What no label reaches has the networks alone, which stay what they are.
    np.testing.assert_array_equal(clf.told_by_labels_[~reached], clf.probabilities_[~reached])
    off = plus(max_epochs=60, fall_back=False).fit(features, labels, graph=graph)
    np.testing.assert_array_equal(clf.probabilities_, off.probabilities_)
    scores = LocalEngine(graph).propagate(clf.told_by_labels_, PPR(0.1, 10)) * clf.class_factors_
    told = scores / scores.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(clf.label_distributions_, told, atol=1e-6)


def test_without_keeping_sizes_labels_take_over_without_factors():
    features, _, labels, graph = graph_says_all()
    clf = plus(max_epochs=60, keep_sizes=False).fit(features, labels, graph=graph)
    assert clf.fell_back_
    np.testing.assert_array_equal(clf.class_factors_, np.ones(3, dtype=np.float32))


def test_after_labels_took_over_new_nodes_are_told_by_their_neighbours(tmp_path):
    features, truth, labels, graph = graph_says_all()
    known = np.flatnonzero(labels < 0)
    fitted_nodes = np.r_[np.flatnonzero(labels >= 0), known[:-60]]
    new = known[-60:]
    inner = Graph(graph.adjacency[fitted_nodes][:, fitted_nodes])
    clf = plus(max_epochs=60).fit(features[fitted_nodes], labels[fitted_nodes], graph=inner)
    assert clf.fell_back_
    order = np.r_[fitted_nodes, new]
    rows = sp.coo_array(graph.adjacency[order][:, order])
    among_new = rows.row >= len(fitted_nodes)
    edges = np.column_stack([rows.row, rows.col])[among_new]
    told = clf.predict_proba(features[new], edges)
    assert (told.argmax(axis=1) == truth[new]).mean() > 0.8
    # Their features say nothing, and count for nothing.
    np.testing.assert_array_equal(clf.predict_proba(-features[new], edges), told)
    alone = clf.predict_proba(features[new])
    assert (alone.argmax(axis=1) == truth[new]).mean() < 0.6
    # One whom no label reaches has nothing but features.
    lonely = clf.predict_proba(features[new[:1]], np.zeros((0, 2), dtype=int))
    np.testing.assert_allclose(lonely, spread_lonely(clf, alone[:1]), atol=1e-6)
    clf.save(tmp_path / "model")
    same = PTAPlusClassifier.load(tmp_path / "model")
    assert same.fell_back_
    np.testing.assert_array_equal(same.told_by_labels_, clf.told_by_labels_)
    np.testing.assert_array_equal(same.predict_proba(), clf.predict_proba())
    np.testing.assert_array_equal(same.predict_proba(features[new], edges), told)
    np.testing.assert_array_equal(same.predict_proba(features[new]), alone)


def spread_lonely(clf, own):
    """What is told of a node without edges from its own prediction: the classes' factors count."""
    scores = own * clf.class_factors_
    return scores / scores.sum(axis=1, keepdims=True)


def test_a_copy_of_a_new_node_is_told_as_the_fitted_one():
    features, _, labels, graph = graph_says_all()
    clf = plus(max_epochs=60).fit(features, labels, graph=graph)
    node = int(np.flatnonzero(labels < 0)[3])
    near = graph.adjacency[[node]].indices
    told = clf.predict_proba(features[[node]], [(300, int(other)) for other in near])
    np.testing.assert_allclose(told[0], clf.label_distributions_[node], atol=0.1)


def test_fitted_anew_a_model_forgets_that_labels_took_over():
    features, _, labels, graph = graph_says_all()
    clf = plus(max_epochs=60).fit(features, labels, graph=graph)
    assert clf.fell_back_
    clf.fit(FEATURES, LABELS, graph=GRAPH)
    assert not clf.fell_back_
    assert clf.told_by_labels_ is None
    off = clone(clf).set_params(fall_back=False)
    assert off.get_params()["fall_back"] is False
    assert not off.fit(features, labels, graph=graph).fell_back_


def test_a_model_that_was_saved_before_there_were_these_parameters_is_read(tmp_path):
    clf = fitted(plus())
    clf.save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    description = json.loads(path.read_text())
    del description["checksum"], description["numbers"]["fell_back_"]
    for name in ("fall_back", "average_rounds"):
        del description["parameters"][name]
    description["checksum"] = _checksum(description)
    path.write_text(json.dumps(description))
    same = PTAPlusClassifier.load(tmp_path / "model")
    assert not same.fell_back_
    np.testing.assert_array_equal(same.predict_proba(), clf.predict_proba())


def test_calibration_of_features_alone_stays_that_of_the_networks():
    features, truth, labels, graph = graph_says_all()
    stop = np.arange(150, 250)
    labels = labels.copy()
    labels[stop] = truth[stop]
    on, off = (
        plus(max_epochs=60, fall_back=fall_back).fit(features, labels, graph=graph, stopping=stop)
        for fall_back in (True, False)
    )
    assert on.fell_back_
    assert on.find_temperature(alone=True) == off.find_temperature(alone=True)


def test_epochs_are_told_one_after_another():
    told = []
    clf = plus(n_rounds=1, n_networks=2)
    clf.fit(FEATURES, LABELS, graph=GRAPH, stopping=STOP, on_epoch=lambda e, _: told.append(e))
    assert told == list(range(clf.n_iter_))


def test_stopping_labels_never_reach_the_model():
    changed = LABELS.copy()
    changed[STOP] = 1 - changed[STOP]
    # One epoch a round: with more, stopping labels rightly decide which epoch is kept.
    one, other = (all_targets(plus(max_epochs=1), labels) for labels in (LABELS, changed))
    assert len(one) == 3
    np.testing.assert_array_equal(one, other)


def test_a_label_in_doubt_counts_less_from_the_first_round_on():
    labels = LABELS.copy()
    labels[10] = 1 - labels[10]
    plain, doubting = (
        all_targets(plus(trust=trust, balance=0, mass_per_class=None), labels)
        for trust in (False, True)
    )
    for without, with_trust in zip(plain, doubting, strict=True):
        assert with_trust[10, labels[10]] < 0.9 * without[10, labels[10]]
        assert with_trust[11, labels[11]] > 0.95 * without[11, labels[11]]


def test_every_round_is_balanced_and_learns_from_the_one_before():
    labels = np.where(np.isin(np.arange(60), [5, 7, 9, 11, 13]), -1, LABELS)  # of one class fewer
    trained = np.setdiff1d(np.flatnonzero(labels >= 0), STOP)

    def unequal(targets):
        masses = np.delete(targets, trained, axis=0).sum(axis=0)
        return masses.max() / masses.min()

    plain, balanced = (
        all_targets(plus(balance=balance, trust=False, max_epochs=5), labels)
        for balance in (0, 1000)
    )
    assert all(unequal(b) < unequal(a) for a, b in zip(plain, balanced, strict=True))
    assert not np.array_equal(plain[1], plain[2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_rounds": -1}, "n_rounds must be a whole number, 0 or more, got -1"),
        ({"n_rounds": 1.5}, "n_rounds must be a whole number"),
        ({"n_networks": 0}, "n_networks must be a whole number, 1 or more, got 0"),
        ({"n_networks": True}, "n_networks must be a whole number"),
        ({"sharpness": 0}, "sharpness must be a finite number above 0, got 0"),
        ({"max_gamma": -1}, "max_gamma must be a finite number 0 or more, got -1"),
        ({"mass_power": -0.5}, "mass_power must be a finite number 0 or more, got -0.5"),
        ({"balance": "much"}, "balance must be a finite number 0 or more, got 'much'"),
        ({"mass_per_class": np.nan}, "mass_per_class must be a finite number above 0, got nan"),
        ({"balance": 1e300}, "balance must be a finite number 0 or more, got 1e\\+300"),
        ({"trust": 1}, "trust must be True or False, got 1"),
        ({"fall_back": None}, "fall_back must be True or False, got None"),
        ({"average_rounds": 0}, "average_rounds must be True or False, got 0"),
        ({"learnt_trust": "S_j"}, "learnt_trust must be True or False, got 'S_j'"),
    ],
)
def test_bad_parameters_are_told(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        fitted(plus(**settings))


def test_with_wrong_labels_on_the_shipped_graph_it_is_far_ahead_of_pta():
    dataset = load_dataset("cora")
    split = split_nodes(dataset.labels, 1)
    seen = np.concatenate([split.train, split.stop])
    noisy = with_label_noise(dataset.labels, split.train, dataset.n_classes, 0.4, 1)
    labels = np.full(dataset.n_nodes, -1)
    labels[seen] = noisy[seen]
    right = [
        (clf.transduction_ == dataset.labels)[split.test].mean()
        for clf in (
            kind(random_state=0).fit(
                dataset.features, labels, graph=dataset.graph, stopping=split.stop
            )
            for kind in (PTAClassifier, PTAPlusClassifier)
        )
    ]
    assert right[1] > right[0] + 0.03


def test_a_node_that_nothing_reaches_keeps_its_own_prediction_fitted_or_new():
    features, _, labels, graph = unequal_classes()
    lonely = len(labels)
    larger = Graph(sp.block_diag([graph.adjacency, sp.csr_array((1, 1))], format="csr"))
    without_loops = {"normalisation": "row", "scheme": Power(2)}
    clf = PTAPlusClassifier(random_state=0, max_epochs=60, **without_loops)
    clf.fit(np.concatenate([features, features[:1]]), np.append(labels, -1), graph=larger)
    assert clf.class_factors_.min() < 1
    own = clf.predict_proba(features[:1])
    np.testing.assert_allclose(clf.label_distributions_[[lonely]], own, atol=1e-6)
    told = clf.predict_proba(features[:1], np.zeros((0, 2), dtype=int))
    np.testing.assert_allclose(told, own, atol=1e-6)


@pytest.mark.parametrize("size", [1e-28, 1e-32, 1e-40])
def test_a_model_of_tiny_features_can_be_saved_and_loaded(tmp_path, size):
    clf = plus().fit(FEATURES * size, LABELS, graph=GRAPH)
    assert all(np.isfinite(array).all() for array in clf.weights_.values())
    clf.save(tmp_path / "model")
    same = PTAPlusClassifier.load(tmp_path / "model")
    new = FEATURES[:5] * 0.9 * size
    np.testing.assert_array_equal(same.predict_proba(new), clf.predict_proba(new))
