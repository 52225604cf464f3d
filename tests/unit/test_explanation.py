"""Explanations: the parts are exact, they are all there is, and they are told as they are."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import reference
from proptrain import (
    PPR,
    Exact,
    GNNClassifier,
    Graph,
    Heat,
    LabelPropagationClassifier,
    LocalEngine,
    Mean,
    Power,
    PTAClassifier,
    PTAPlusClassifier,
    coefficients,
)
from proptrain.errors import InvalidInputError
from proptrain.insight.adjoint import received_weights
from proptrain.insight.neighbourhood import MOST, neighbourhood_of
from proptrain.insight.telling import retraction, tables_of, tell, to_json
from proptrain.propagate.normalisation import normalise
from proptrain.report.neighbourhood import draw_png, draw_svg, picture_of
from proptrain.report.svg import clean_text
from proptrain.rounds import RoundLearner
from strategies import adjacencies_with_signals, labellings, node_sets

SCHEMES = [PPR(0.1, 10), PPR(0.3, 0), Power(3), Mean(4), Heat(3.0, 12), Exact(0.2, 1e-3)]
schemes = pytest.mark.parametrize("scheme", SCHEMES, ids=str)
kinds = pytest.mark.parametrize("kind", reference.KINDS)
clamps = pytest.mark.parametrize("clamp", [True, False], ids=["clamped", "unclamped"])
always_the_same = settings(
    max_examples=8,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@st.composite
def propagations(draw, max_nodes=8):
    """(adjacency, signal, node, fixed): something to propagate, and whose row to take apart."""
    adjacency, signal = draw(adjacencies_with_signals(max_nodes=max_nodes))
    node = draw(st.integers(0, len(adjacency) - 1))
    return adjacency, signal, node, draw(node_sets(len(adjacency)))


# --- what arrives -----------------------------------------------------------------------------


@schemes
@kinds
@clamps
def test_what_arrives_is_the_row_of_the_propagation(scheme, kind, clamp):
    @always_the_same
    @given(propagations())
    def check(drawn):
        adjacency, signal, node, fixed = drawn
        fixed = fixed if clamp else None
        graph = Graph(sp.csr_array(adjacency))
        weights = received_weights(normalise(graph, kind), scheme.mixing, node, fixed)
        assert weights.shape == (len(scheme.mixing) + 1, len(adjacency))
        assert (weights.data > 0).all()
        expected = LocalEngine(graph, kind).propagate(signal, scheme, fixed=fixed)[node]
        np.testing.assert_allclose(weights.sum(axis=0) @ signal, expected, rtol=0, atol=1e-12)

    check()


@schemes
@kinds
@clamps
def test_steps_are_told_apart_as_powers_of_the_operator(scheme, kind, clamp):
    # With z Â instead of Â, what took k steps counts z^k times: the oracle gives the polynomial.
    @always_the_same
    @given(propagations(), st.sampled_from([0.5, -0.25, 0.9]))
    def check(drawn, z):
        adjacency, signal, node, fixed = drawn
        step = reference.operator(adjacency, kind)
        fixed = fixed if clamp else np.zeros(0, dtype=int)
        graph = Graph(sp.csr_array(adjacency))
        weights = received_weights(normalise(graph, kind), scheme.mixing, node, fixed)
        powers = z ** np.arange(len(scheme.mixing) + 1)
        expected = reference.clamped(z * step, signal, coefficients(scheme), fixed)[node]
        np.testing.assert_allclose(powers @ weights @ signal, expected, rtol=0, atol=1e-10)

    check()


def test_only_what_is_reached_is_stored():
    path = sp.csr_array(sp.diags_array([1.0] * 99, offsets=1, shape=(100, 100)))
    weights = received_weights(normalise(Graph(path), "row"), PPR(0.1, 3).mixing, 50)
    assert sorted(set(weights.indices.tolist())) == [47, 48, 49, 50, 51, 52, 53]
    assert np.diff(weights.indptr).tolist() == [1, 2, 3, 4]


# --- explanations of fitted models ------------------------------------------------------------


def a_graph(seed=0, n=40):
    """Features, labels of a third of the nodes, and a graph of two groups and a lonely node."""
    random = np.random.RandomState(seed)
    truth = np.arange(n) % 2
    features = random.rand(n, 6) + truth[:, None]
    adjacency = np.triu(random.rand(n, n) < np.where(truth[:, None] == truth, 0.15, 0.02), 1)
    adjacency = (adjacency + adjacency.T) * np.float32(random.choice([0.5, 1, 3], (n, n)))
    adjacency = np.maximum(adjacency, adjacency.T)
    adjacency[n - 1] = adjacency[:, n - 1] = 0
    return features, np.where(random.rand(n) < 0.35, truth, -1), adjacency


FEATURES, Y, ADJACENCY = a_graph()
LONELY = len(Y) - 1


def pta(**parameters):
    short = {"max_epochs": 3, "n_hidden": 4, "random_state": 0, "device": "cpu"}
    return PTAClassifier(**short, **parameters).fit(FEATURES, Y, graph=ADJACENCY)


def lp(**parameters):
    with pytest.warns(UserWarning, match="No label reaches"):
        return LabelPropagationClassifier(**parameters).fit(None, Y, graph=ADJACENCY)


def trained_on(clf):
    return np.setdiff1d(np.flatnonzero(clf.given_ >= 0), clf.stopping_)


@schemes
@kinds
@clamps
def test_parts_of_a_fitted_pta_sum_to_what_it_holds(scheme, kind, clamp):
    clf = pta(scheme=scheme, normalisation=kind, clamp=clamp)
    step, beta = reference.operator(ADJACENCY, kind), coefficients(scheme)
    known = trained_on(clf)
    signal = reference.one_hot(clf.given_, known, 2)
    soft = reference.clamped(step, signal, beta, known if clamp else [])
    scores = reference.clamped(step, clf.probabilities_.astype(float), beta, [])
    for node in (0, 7, 20, LONELY):
        told = clf.explain(node)
        np.testing.assert_allclose(told.labels.total, soft[node], rtol=0, atol=1e-9)
        np.testing.assert_allclose(told.labels.total, clf.soft_labels_[node], rtol=0, atol=1e-6)
        np.testing.assert_allclose(told.neighbours.total, scores[node], rtol=0, atol=1e-9)
        for parts in (told.labels, told.neighbours):
            np.testing.assert_allclose(parts.over_steps.sum(axis=0), parts.total, atol=1e-12)
            assert (np.diff(parts.weights) <= 1e-15).all() or parts is told.neighbours
        if told.neighbours.total.sum() > 0:
            shares = told.neighbours.shares.sum(axis=0)
            np.testing.assert_allclose(shares, clf.label_distributions_[node], rtol=0, atol=1e-6)


def plus(**parameters):
    short = {"max_epochs": 3, "n_hidden": 4, "random_state": 0, "device": "cpu"}
    return PTAPlusClassifier(**short, **parameters).fit(FEATURES, Y, graph=ADJACENCY)


@clamps
@pytest.mark.parametrize("trust", [True, False], ids=["trusting", "doubting"])
def test_parts_of_pta_plus_sum_to_what_it_tells_and_first_learnt_from(clamp, trust):
    clf = plus(clamp=clamp, trust=trust, balance=0, mass_per_class=None)
    known = trained_on(clf)
    assert (clf.trust_ < 1).any() == trust  # or there would be nothing to see
    signal = reference.one_hot(clf.given_, known, 2)
    signal[known] *= clf.trust_[:, None]
    step, beta = reference.operator(ADJACENCY, "symmetric"), coefficients(PPR(0.1, 10))
    soft = reference.clamped(step, signal, beta, known if clamp else [])
    for node in (0, 7, 20, LONELY):
        told = clf.explain(node)
        np.testing.assert_allclose(told.labels.total, soft[node], rtol=0, atol=1e-6)
        shares = told.neighbours.shares.sum(axis=0)
        np.testing.assert_allclose(shares, clf.label_distributions_[node], rtol=0, atol=1e-6)
        sizes = told.labels.values.sum(axis=1)
        assert (np.diff(sizes) <= 1e-15).all()


def with_factors(clf, factors):
    """The same model, as if these factors kept its classes their sizes."""
    spread = LocalEngine(clf.graph_).propagate(clf.probabilities_.astype(float), PPR(0.1, 10))
    clf.class_factors_ = np.float32(factors)
    scores = spread * clf.class_factors_
    clf.label_distributions_ = scores / scores.sum(axis=1, keepdims=True)
    return clf


def test_factors_of_classes_count_in_what_is_added_and_nowhere_else():
    clf = plus()
    before, after = clf.explain(4), with_factors(clf, [1, 0.3]).explain(4)
    parts, order = after.neighbours, np.argsort(before.neighbours.nodes)
    same = np.argsort(parts.nodes)
    np.testing.assert_array_equal(parts.signal[same], before.neighbours.signal[order])
    np.testing.assert_allclose(parts.signal, clf.probabilities_[parts.nodes])
    np.testing.assert_array_equal(parts.weights[same], before.neighbours.weights[order])
    assert parts.weight_shares.sum() == pytest.approx(1)
    added = parts.weights[:, None] * parts.signal * np.float32([1, 0.3])
    np.testing.assert_allclose(parts.values, added, rtol=0, atol=1e-12)
    np.testing.assert_allclose(parts.over_steps.sum(axis=0), parts.total, rtol=0, atol=1e-12)
    for node in (0, 4, 7, 20, LONELY):
        shares = clf.explain(node).neighbours.shares.sum(axis=0)
        np.testing.assert_allclose(shares, clf.label_distributions_[node], rtol=0, atol=1e-6)


def test_the_tables_of_pta_plus_add_up_with_factors():
    told = with_factors(plus(), [1, 0.3]).explain(4)
    _, neighbours, steps = tables_of(told, most=1000)
    number = lambda text: float(text.removesuffix(" %"))  # noqa: E731
    weights, says, adds = (sum(number(row[k]) for row in neighbours.rows) for k in (1, 2, 3))
    assert weights == pytest.approx(100, abs=1)
    own = told.neighbours.signal[:, told.code]
    assert says == pytest.approx(100 * own.sum(), abs=1)
    assert adds == pytest.approx(100 * told.probabilities[told.code], abs=1)
    assert sum(number(row[2]) for row in steps.rows) == pytest.approx(100, abs=1)
    factor = told.neighbours.factors[told.code]
    assert neighbours.title.endswith(f"add to {told.told}, whose factor is {factor:.3g}")
    assert "factor" not in tables_of(plus().explain(4))[1].title


def fallen_back(monkeypatch, **parameters):
    """PTA+ whose labels alone are taken to tell more."""
    monkeypatch.setattr(RoundLearner, "is_outdone", lambda *_: True)
    clf = plus(**parameters)
    assert clf.fell_back_
    return clf


@clamps
@pytest.mark.parametrize("trust", [True, False], ids=["trusting", "doubting"])
@pytest.mark.parametrize("keep_sizes", [True, False])
def test_parts_sum_to_what_is_told_by_labels_alone(monkeypatch, clamp, trust, keep_sizes):
    clf = fallen_back(monkeypatch, clamp=clamp, trust=trust, keep_sizes=keep_sizes)
    known = trained_on(clf)
    signal = reference.one_hot(clf.given_, known, 2)
    signal[known] *= clf.trust_[:, None]
    step, beta = reference.operator(ADJACENCY, "symmetric"), coefficients(PPR(0.1, 10))
    soft = reference.clamped(step, signal, beta, known if clamp else [])
    sent = clf.told_by_labels_.astype(float)
    scores = reference.clamped(step, sent, beta, []) * clf.class_factors_
    assert not np.allclose(sent, clf.probabilities_)
    for node in (0, 7, 20, LONELY):
        told = clf.explain(node)
        assert told.by_labels
        np.testing.assert_allclose(told.labels.total, soft[node], rtol=0, atol=1e-6)
        np.testing.assert_allclose(told.neighbours.total, scores[node], rtol=0, atol=1e-9)
        np.testing.assert_array_equal(told.neighbours.signal, sent[told.neighbours.nodes])
        shares = told.neighbours.shares.sum(axis=0)
        np.testing.assert_allclose(shares, clf.label_distributions_[node], rtol=0, atol=1e-6)
        by_steps = told.neighbours.over_steps.sum(axis=0)
        np.testing.assert_allclose(by_steps, told.neighbours.total, rtol=0, atol=1e-12)


def test_it_is_told_that_soft_labels_were_averaged(monkeypatch):
    assert "Nodes whose predictions were averaged" in str(plus().explain(4))
    assert not to_json(plus().explain(4))["by_labels"]
    told = fallen_back(monkeypatch).explain(4)
    assert "Nodes whose soft labels were averaged" in str(told)
    assert to_json(told)["by_labels"]


def test_what_pta_plus_trusts_must_be_its_labels():
    clf = plus()
    clf.trust_ = clf.trust_[:-1]
    with pytest.raises(InvalidInputError, match="each of its 15 training labels, got 14"):
        clf.explain(0)


@kinds
@clamps
def test_parts_of_label_propagation_sum_to_its_probabilities(kind, clamp):
    clf = lp(normalisation=kind, clamp=clamp)
    for node in np.flatnonzero(clf.reached_):
        told = clf.explain(int(node))
        assert told.neighbours is None
        shares = told.labels.shares.sum(axis=0)
        np.testing.assert_allclose(shares, clf.label_distributions_[node], rtol=0, atol=1e-6)


def as_if_spread(adjacency, codes, known, n_classes, **parameters):
    """A label propagation that holds what an explanation asks for."""
    clf = LabelPropagationClassifier(**parameters)
    clf.graph_, clf.classes_ = Graph(sp.csr_array(adjacency)), np.arange(n_classes)
    clf.given_ = np.where(np.isin(np.arange(len(codes)), known), codes, -1)
    clf.stopping_ = np.zeros(0, dtype=np.int64)
    clf.label_distributions_ = np.full((len(codes), n_classes), 1 / n_classes)
    return clf


@kinds
def test_any_labelling_of_any_graph_is_taken_apart(kind):
    @always_the_same
    @given(st.data())
    def check(data):
        adjacency, _ = data.draw(adjacencies_with_signals())
        codes, known, n_classes = data.draw(labellings(len(adjacency)))
        node = data.draw(st.integers(0, len(adjacency) - 1))
        clamp = data.draw(st.booleans())
        clf = as_if_spread(adjacency, codes, known, n_classes, normalisation=kind, clamp=clamp)
        step = reference.operator(adjacency, kind)
        expected = reference.propagate_labels(step, codes, known, n_classes, 0.1, 10, clamp)
        told = clf.explain(node)
        np.testing.assert_allclose(told.labels.total, expected[node], rtol=0, atol=1e-12)
        assert set(told.labels.nodes) <= set(known)

    check()


# --- taking labels away -----------------------------------------------------------------------


@kinds
@clamps
def test_on_any_graph_the_top_label_takes_along_what_is_stated(kind, clamp):
    """Zero, it takes its part; away altogether, what `without` says: both by the oracle."""

    @always_the_same
    @given(st.data())
    def check(data):
        adjacency, _ = data.draw(adjacencies_with_signals())
        codes, known, n_classes = data.draw(labellings(len(adjacency)))
        clf = as_if_spread(adjacency, codes, known, n_classes, normalisation=kind, clamp=clamp)
        told = clf.explain(data.draw(st.integers(0, len(adjacency) - 1)))
        if not len(told.labels.nodes):
            return
        step, beta = reference.operator(adjacency, kind), coefficients(PPR(0.1, 10))
        signal, top = reference.one_hot(codes, known, n_classes), int(told.labels.nodes[0])
        blanked = signal.copy()
        blanked[top] = 0
        held = known if clamp else []
        before, after = (
            reference.clamped(step, s, beta, held)[told.node] for s in (signal, blanked)
        )
        np.testing.assert_allclose(before - after, told.labels.values[0], rtol=0, atol=1e-9)
        left = np.setdiff1d(known, [top])
        if not left.size:
            return
        expected = reference.clamped(step, blanked, beta, left if clamp else [])[told.node]
        without = clf.explain(told.node, without=[top])
        np.testing.assert_allclose(without.labels.total, expected, rtol=0, atol=1e-9)

    check()


def spread(clf, known, signal, held):
    engine = LocalEngine(clf.graph_, clf.normalisation)
    fixed = held if clf.clamp else None
    return engine.propagate(signal, clf._scheme(), fixed=fixed)


@schemes
@kinds
@clamps
def test_a_label_that_becomes_zero_takes_exactly_its_part_along(scheme, kind, clamp):
    clf = pta(scheme=scheme, normalisation=kind, clamp=clamp)
    known = trained_on(clf)
    signal = reference.one_hot(clf.given_, known, 2)
    for node in (3, 8, 21):
        told = clf.explain(node)
        if not len(told.labels.nodes):
            continue
        blanked = signal.copy()
        blanked[told.labels.nodes[0]] = 0
        before, after = (spread(clf, known, s, known)[node] for s in (signal, blanked))
        np.testing.assert_allclose(before - after, told.labels.values[0], rtol=0, atol=1e-12)


@schemes
@kinds
@clamps
def test_a_label_that_is_taken_away_leaves_what_explain_without_says(scheme, kind, clamp):
    clf = pta(scheme=scheme, normalisation=kind, clamp=clamp)
    known = trained_on(clf)
    for node in (3, 8, 21):
        told = clf.explain(node)
        if not len(told.labels.nodes):
            continue
        top = int(told.labels.nodes[0])
        left = np.setdiff1d(known, [top])
        expected = spread(clf, left, reference.one_hot(clf.given_, left, 2), left)[node]
        without = clf.explain(node, without=[top])
        np.testing.assert_allclose(without.labels.total, expected, rtol=0, atol=1e-12)
        assert without.without == (top,)
        np.testing.assert_array_equal(without.neighbours.values, told.neighbours.values)
        lost = told.labels.total - without.labels.total
        if clamp:  # what stood behind the label now comes through
            assert (lost <= told.labels.values[0] + 1e-12).all()
        else:
            np.testing.assert_allclose(lost, told.labels.values[0], rtol=0, atol=1e-12)


def test_behind_a_label_that_is_taken_away_others_come_through():
    # 0 - 1 - 2 in a row: clamped, the label of 1 hides that of 2.
    clf = LabelPropagationClassifier(normalisation="row", alpha=0.5, steps=2)
    clf.fit(None, ["", "near", "far"], graph=[(0, 1), (1, 2), (2, 1)])
    told = clf.explain(0)
    assert told.labels.nodes.tolist() == [1]
    without = clf.explain(0, without=[1])
    assert without.labels.nodes.tolist() == [2]
    assert without.labels.total.tolist() == [0.125, 0.0]  # half of a half of a half comes from 2


# --- what an explanation says of itself -------------------------------------------------------


def test_the_same_twice_and_the_largest_first():
    clf = pta()
    first, second = clf.explain(4), clf.explain(4)
    for one, other in ((first.labels, second.labels), (first.neighbours, second.neighbours)):
        np.testing.assert_array_equal(one.nodes, other.nodes)
        np.testing.assert_array_equal(one.by_steps.toarray(), other.by_steps.toarray())
    assert (np.diff(first.labels.weights) <= 0).all()
    assert (np.diff(first.neighbours.values[:, first.code]) <= 0).all()
    steps = first.labels.by_steps.toarray() @ np.arange(11) / first.labels.weights
    np.testing.assert_allclose(first.labels.mean_steps, steps)


def test_it_knows_the_label_and_what_became_of_it():
    clf = pta()
    train, stop = trained_on(clf), clf.stopping_
    unlabelled = np.flatnonzero(clf.given_ < 0)
    roles = [clf.explain(int(nodes[0])) for nodes in (train, stop, unlabelled)]
    assert [told.role for told in roles] == ["training", "stopping", "unlabelled"]
    assert [told.given for told in roles] == [Y[train[0]], Y[stop[0]], None]
    assert roles[0].told in (0, 1)
    assert roles[0].labels.nodes.tolist() == [train[0]]  # clamped: its own label is all there is


TELLS = """\
Node 1: left 100.0 % (unlabelled). 1 label reaches it, with 0.5 of a whole label.

Labels that make up its soft label
  label of  class    share  steps
  0         left   100.0 %    1.0
A share is what is lost if that label becomes zero while its node still stops other labels. Taken \
away altogether (without), it also lets the labels behind it through, and less is lost.

Over how many steps it came
  steps  soft label
  1         100.0 %"""


def test_it_reads_as_a_short_table():
    clf = LabelPropagationClassifier(normalisation="row", alpha=0.5, steps=1)
    clf.fit(None, ["left", "", "right"], graph=[(0, 1), (1, 0), (0, 1)])
    assert str(clf.explain(1)) == TELLS


@clamps
def test_a_labelled_node_is_told_what_the_other_labels_say(clamp):
    clf = pta(clamp=clamp)
    node = int(trained_on(clf)[0])
    told, apart = clf.explain(node), clf.explain(node, without=[node])
    np.testing.assert_array_equal(told.others.values, apart.labels.values)
    np.testing.assert_array_equal(told.others.nodes, apart.labels.nodes)
    assert apart.others is None
    assert (told.holds_label, apart.holds_label) == (clamp, False)
    assert told.sources is (told.others if clamp else told.labels)
    titles = [table.title for table in tables_of(told)]
    assert "What the other labels say: its soft label without its own" in titles
    assert any(title.startswith("Labels that make up") for title in titles) == (not clamp)
    assert tables_of(told)[-1].columns == (
        ("steps", "prediction") if clamp else ("steps", "soft label", "prediction")
    )
    assert ("Its soft label is its own label." in str(told)) == clamp
    best = int(told.others.total.argmax())
    share = 100 * told.others.total[best] / told.others.total.sum()
    assert f"of a whole label: {best} {share:.1f} %" in str(told)
    assert to_json(told)["others"]["total"] == apart.labels.total.tolist()
    assert ("still stops other labels" in str(told)) == clamp
    unlabelled = clf.explain(int(np.flatnonzero(clf.given_ < 0)[0]))
    assert unlabelled.others is None
    assert unlabelled.sources is unlabelled.labels


def test_the_only_label_has_no_others():
    clf = LabelPropagationClassifier(normalisation="row", alpha=0.5, steps=1)
    clf.fit(None, ["left", "", "right"], graph=[(0, 1), (1, 0), (0, 1)])
    told = clf.explain(2)
    assert "Without its own: no label reaches it over the graph." in str(told)
    assert tables_of(told) == ()
    svg = draw_svg(picture_of(clf, told))
    assert "right" in svg


def test_what_is_lost_stands_beside_the_part_that_was_stated():
    clf = LabelPropagationClassifier(normalisation="row", alpha=0.5, steps=2)
    clf.fit(None, ["", "same", "same", "other"], graph=[(0, 1), (1, 2), (2, 1), (2, 3)])
    before, after = clf.explain(0), clf.explain(0, without=[1])
    assert before.labels.nodes.tolist() == [1]
    lost = before.labels.total - after.labels.total
    assert lost[1] < before.labels.values[0, 1]
    (line,) = retraction(before, after)
    assert f"a loss of {lost[1]:.3f}; the part of what is left out was " in line
    assert line.endswith(f"{before.labels.values[0, 1]:.3f}.")


def test_the_table_of_pta_plus_says_whose_soft_label_it_is():
    node = int(np.flatnonzero((Y < 0) & (ADJACENCY.sum(axis=1) > 0))[0])
    title = lambda **how: tables_of(plus(**how).explain(node))[0].title  # noqa: E731
    assert title().endswith("its soft label of the first round, before classes are balanced")
    assert title(n_rounds=0).endswith("its soft label before classes are balanced")
    assert tables_of(pta().explain(node))[0].title == "Labels that make up its soft label"


def test_the_tables_of_pta_add_up():
    told = pta().explain(4)
    labels, neighbours, steps = tables_of(told, most=3)
    number = lambda text: float(text.removesuffix(" %"))  # noqa: E731
    assert [len(table.rows) for table in (labels, neighbours)] == [4, 4]
    assert "other label" in labels.rows[-1][0]
    assert sum(number(row[2]) for row in labels.rows) == pytest.approx(100, abs=0.3)
    added = sum(number(row[3]) for row in neighbours.rows)
    assert added == pytest.approx(100 * told.probabilities[told.code], abs=0.3)
    for column in (1, 2):
        assert sum(number(row[column]) for row in steps.rows) == pytest.approx(100, abs=1)


def test_a_node_that_nothing_reaches_says_so():
    assert "No label reaches it over the graph." in str(pta().explain(LONELY))
    alone = pta(normalisation="row", scheme=Power(2)).explain(LONELY)
    assert alone.neighbours.total.sum() == 0
    assert "so its own prediction is taken" in str(alone)
    assert tables_of(alone) == ()
    assert "so what stands for unreached nodes is taken" in str(lp().explain(LONELY))


def test_json_has_whole_sums_and_the_rest():
    told = pta().explain(4)
    for parts, written in (
        (told.labels, to_json(told, most=2)["labels"]),
        (told.neighbours, to_json(told, most=2)["neighbours"]),
    ):
        listed = np.sum([part["adds"] for part in written["parts"]], axis=0)
        np.testing.assert_allclose(listed + written["rest"], written["total"], atol=1e-12)
        np.testing.assert_allclose(np.sum(written["by_steps"], axis=0), written["total"])
        assert written["count"] == len(parts.nodes)
        weights = [sum(part["weight_by_steps"]) for part in written["parts"]]
        np.testing.assert_allclose(weights, parts.weights[:2])
    named = to_json(told, name_of=lambda node: f"n{node}")
    assert named["node"] == "n4"
    assert "n4" in tell(told, lambda node: f"n{node}")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda clf: clf.explain(40), "whole number from 0 to 39, its row in X; got 40"),
        (lambda clf: clf.explain(-1), "got -1"),
        (lambda clf: clf.explain("p1"), "got 'p1'"),
        (lambda clf: clf.explain(True), "got True"),
        (lambda clf: clf.explain(0, without=[99]), "from 0 to 39"),
        (lambda clf: clf.explain(0, without=[LONELY]), f"node {LONELY} has none"),
        (lambda clf: clf.explain(0, without=clf.stopping_[:1]), "or a stopping node"),
        (lambda clf: clf.explain(0, without=trained_on(clf)), "all 13 are left out"),
    ],
)
def test_what_cannot_be_explained_is_refused(ask, message):
    clf = pta()
    assert len(trained_on(clf)) == 13
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        ask(clf)


def test_only_sums_can_be_taken_apart():
    gnn = GNNClassifier(max_epochs=2, random_state=0).fit(FEATURES, Y, graph=ADJACENCY)
    with pytest.raises(InvalidInputError, match=r"got GNNClassifier\. Fit one of those"):
        gnn.explain(0)
    with pytest.raises(InvalidInputError, match=r"got PTAClassifier\(equal_hops=…\)"):
        pta(equal_hops=2).explain(0)
    with pytest.raises(NotFittedError):
        PTAClassifier().explain(0)


# --- the neighbourhood and its picture --------------------------------------------------------


def test_a_neighbourhood_is_joined_and_holds_what_matters():
    clf = pta(alpha=0.05)
    told = clf.explain(4)
    for most in (MOST, 12, 2, 1):
        shown = neighbourhood_of(clf.graph_, told, most)
        assert len(shown.nodes) <= most
        assert shown.nodes[0] == 4
        assert len(set(shown.nodes.tolist())) == len(shown.nodes)
        joined = {(int(a), int(b)) for a, b in shown.nodes[shown.edges]}
        adjacency = clf.graph_.adjacency.toarray()
        assert all(adjacency[a, b] > 0 for a, b in joined)
        # Every node but the first has a neighbour one hop nearer among those shown.
        for place, distance in enumerate(shown.distances[1:], start=1):
            touching = shown.edges[(shown.edges == place).any(axis=1)].ravel()
            assert distance - 1 in shown.distances[touching]
        radii = np.hypot(*shown.places.T)
        assert radii.max() <= 1 + 1e-12
        assert len(np.unique(np.round(shown.places, 6), axis=0)) == len(shown.nodes)
        order = np.argsort(shown.distances, kind="stable")
        assert (np.diff(radii[order]) >= -1e-12).all()
    shown = neighbourhood_of(clf.graph_, told, 12)
    assert told.labels.nodes[0] in shown.nodes
    np.testing.assert_array_equal(shown.places, neighbourhood_of(clf.graph_, told, 12).places)


def test_a_lonely_node_stands_alone():
    clf = pta()
    shown = neighbourhood_of(clf.graph_, clf.explain(LONELY))
    assert shown.nodes.tolist() == [LONELY]
    assert shown.edges.shape == (0, 2)
    assert draw_svg(picture_of(clf, clf.explain(LONELY))).startswith("<svg")


def test_the_picture_has_a_mark_for_each_node_and_can_be_read_without_colour():
    clf = pta()
    told = clf.explain(4)
    names = {node: f'<b>"{node}"\x00 & {chr(0x1F9EA)}</b>' for node in range(len(Y))}
    picture = picture_of(clf, told, names.get)
    svg = draw_svg(picture)
    assert svg == draw_svg(picture_of(clf, told, names.get))
    root = ET.fromstring(svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    marks = [text for text in texts if text in ("0", "1")]
    assert len(marks) == len(picture.shown.nodes)
    top = int(told.labels.nodes[0])
    beside = " ".join(texts)
    assert clean_text(names[top])[:13] in beside
    assert f"{100 * told.labels.shares[0].sum():.0f} %" in beside
    assert "<b>" not in svg
    assert draw_png(picture)[:8] == b"\x89PNG\r\n\x1a\n"
