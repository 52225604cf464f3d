"""What the page carries: data that cannot break out, one script that its policy knows."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrast import contrast
from proptrain import Graph, LabelPropagationClassifier, PTAClassifier, PTAPlusClassifier
from proptrain.errors import InvalidInputError
from proptrain.experiments.versions import PACKAGES
from proptrain.insight.audit import Audit
from proptrain.insight.calibration import reliability
from proptrain.report.explore import (
    MOST_BYTES,
    Explorable,
    explorable_of,
    script_json,
    short_name,
)
from proptrain.report.model_page import model_report, percent, suspects_of
from proptrain.report.neighbourhood import COLOURS
from proptrain.report.page import MOST_SUSPECTS, Report, _script, render_report
from proptrain.report.parts import ReliabilityCurve, Suspect, reliability_plot
from proptrain.rounds import RoundLearner
from proptrain.train.loop import History


@settings(deadline=None, derandomize=True)
@given(st.recursive(st.text() | st.none(), lambda inner: st.lists(inner, max_size=3), max_leaves=5))
def test_json_in_a_script_is_the_same_json_without_a_letter_that_could_end_it(content):
    text = script_json(content)
    assert json.loads(text) == content
    assert not re.search("[<>&\u2028\u2029]", text)


def a_report(**parts):
    nothing = {"history": None, "best_epoch": None, "confusion": None}
    words = {"title": "t", "subtitle": "s", "facts": (), "methods": (), "versions": ()}
    return Report(class_names=(), command="c", **words, **nothing, **parts)


def a_suspect(node=0, suspicion=0.5, name="n<b>"):
    return Suspect(node, name, "given & wrong", "suggested", suspicion)


def policy_of(html):
    return re.search('Content-Security-Policy" content="([^"]*)"', html)[1]


def scripts_of(html):
    return re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)


def test_the_page_carries_nothing_that_its_script_does_not_read():
    clf = a_fitted_one(PTAPlusClassifier)
    held = json.loads(explorable_of(clf, [f"n{i}" for i in range(200)]).content)
    script = _script()
    assert [name for name in held if not re.search(rf"\bdata\.{name}\b", script)] == []
    model = script[script.index("const model = {") : script.index("/* How much of what is said")]
    for name in re.findall(r"(\w+): (?:read\()?data\.", model):
        assert len(re.findall(rf"\b{name}\b", script.replace(model, ""))) > 0, name


def test_the_policy_names_the_hash_of_the_one_script():
    html = render_report(a_report(suspects=(a_suspect(),)))
    (script,) = scripts_of(html)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy_of(html).endswith(f"; script-src &#39;sha256-{digest}&#39;") or (
        policy_of(html).endswith(f"; script-src 'sha256-{digest}'")
    )
    assert "connect-src" not in policy_of(html)  # so default-src 'none' holds for it
    assert "http" not in script
    assert "innerHTML" not in script
    assert "eval" not in script


def test_a_page_without_such_parts_has_no_script():
    html = render_report(a_report())
    assert scripts_of(html) == []
    assert "script-src" not in policy_of(html)


def test_labels_in_doubt_are_a_table_that_says_how_many_it_leaves_out():
    few = render_report(a_report(suspects=(a_suspect(), a_suspect(1, 0.25))))
    assert few.count("n&lt;b&gt;") == 2
    assert "given &amp; wrong" in few
    assert "25.0&nbsp;%" in few
    assert "<p>2 given labels" in few
    many = render_report(a_report(suspects=tuple(map(a_suspect, range(MOST_SUSPECTS + 700)))))
    assert many.count("<td>suggested</td>") == MOST_SUSPECTS
    assert "The first 500 of 1,200 given labels" in many
    assert 'data-show-node="' not in few  # there are no nodes to go to


def curve(name="as told", accuracy=(0.5, np.nan, 0.75)):
    return ReliabilityCurve(name, (2, 0, 6), (0.4, np.nan, 0.9), accuracy, 0.123)


def test_the_reliability_plot_has_a_mark_for_each_bin_that_holds_nodes():
    svg = reliability_plot([curve(), curve("calibrated <b>")])
    root = ET.fromstring(svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"as told", "calibrated <b>", "predicted right, %", "predicted probability, %"} <= set(
        texts
    )
    assert root.get("aria-label") == "Calibration error: as told 12.3 %, calibrated <b> 12.3 %."
    assert "nan" not in svg.lower()
    dashed = [element for element in root.iter() if "dasharray" in (element.get("style") or "")]
    assert dashed  # the two curves differ without colour
    html = render_report(a_report(reliability=(curve(), curve("calibrated <b>"))))
    assert "as told 12.3&nbsp;%, calibrated &lt;b&gt; 12.3&nbsp;%." in html


@pytest.mark.parametrize("n_curves", [0, 3])
def test_the_reliability_plot_takes_one_or_two_curves(n_curves):
    with pytest.raises(InvalidInputError, match=f"1 or 2 curves, got {n_curves}"):
        reliability_plot([curve()] * n_curves)


def test_what_is_embedded_is_the_model():
    y = np.array([0, 1, -1, 0, 1, -1])
    features = np.eye(6)
    edges = [(0, 1), (0, 2), (3, 2), (4, 5)]
    clf = PTAClassifier(max_epochs=3, random_state=0, device="cpu", stopping_fraction=0.5)
    clf.fit(features, y, graph=edges)
    held = json.loads(explorable_of(clf, names=list("abcdef")).content)

    def read(name, kind):
        return np.frombuffer(base64.b64decode(held[name]), dtype=kind)

    assert read("given", "<i2").tolist() == y.tolist()
    roles = read("role", "u1")
    assert np.flatnonzero(roles == 2).tolist() == clf.stopping_.tolist()
    assert (roles > 0).tolist() == (y >= 0).tolist()
    assert read("edgeCounts", "<u2").tolist() == [2, 0, 1, 0, 1, 0]
    assert read("edgeEnds", "<u2").tolist() == [1, 2, 3, 5]
    assert held["edgeWeights"] is None
    f = read("f", "<u2").reshape(6, 2) / 65535
    np.testing.assert_allclose(f, clf.probabilities_, atol=0.51 / 65535)
    shares = read("toldShare", "<u2").reshape(6, 2) / 65535
    np.testing.assert_allclose(shares[:, 0], clf.label_distributions_.max(axis=1), atol=1e-5)
    assert held["ids"] == list("abcdef")
    assert held["mixing"] == list(clf._scheme().mixing)
    assert set(held["unsure"]) == set(np.flatnonzero((y < 0) & clf.reached_).tolist())


@pytest.mark.parametrize("letters", [160, 161, 500])
def test_long_names_lose_their_middle_and_keep_their_end(letters):
    name = f"https://{'x' * (letters - 15)}/1.html"
    assert len(name) == letters
    shown = short_name(name)
    assert shown == name if letters == 160 else len(shown) == 160
    assert shown.startswith("https://x")
    assert shown.endswith("/1.html")


def a_fitted_one(kind=PTAClassifier, n_nodes=200, **parameters):
    random = np.random.RandomState(0)
    truth = np.arange(n_nodes) % 2
    y = np.where(np.arange(n_nodes) < n_nodes * 0.6, np.array(["left", "right"])[truth], "")
    linked = np.triu(random.rand(n_nodes, n_nodes) < 0.02 + 0.02 * (truth == truth[:, None]), 1)
    clf = kind(max_epochs=5, random_state=0, device="cpu", **parameters)
    return clf.fit(random.rand(n_nodes, 3) + truth[:, None], y, graph=np.argwhere(linked))


def test_a_model_page_has_the_reliability_of_the_stopping_nodes_before_and_after():
    clf = a_fitted_one()
    stop = clf.stopping_
    report = model_report(clf, names=None, title="t", command="c")
    before, after = report.reliability
    assert len(before.counts) == 4  # bins for 24 nodes
    for curve, calibrated in ((before, False), (after, True)):
        bins = reliability(clf.predict_proba(calibrated=calibrated)[stop], clf.given_[stop], 4)
        assert curve.counts == tuple(bins.counts)
        np.testing.assert_array_equal(curve.accuracy, bins.accuracy)
        assert curve.error == pytest.approx(bins.error, abs=1e-12)
    assert before.error != after.error
    html = render_report(report)
    assert f"as predicted {100 * before.error:.1f}&nbsp;%, calibrated" in html
    assert "that was fitted to these same nodes" in html


def test_too_few_stopping_nodes_have_no_reliability():
    clf = a_fitted_one(stopping_fraction=0.1)
    assert len(clf.stopping_) == 12
    page = model_report(clf, names=None, title="t", command="c")
    assert page.reliability == ()
    assert "How far its probabilities" not in render_report(page)


def test_a_model_page_counts_what_is_given_and_told_of_each_class():
    clf = a_fitted_one()
    rows = model_report(clf, names=None, title="t", command="c").classes
    assert [row.name for row in rows] == ["left", "right"]
    assert [row.n_given for row in rows] == [60, 60]
    told = clf.transduction_[clf.given_ < 0]
    assert [row.n_told for row in rows] == [(told == name).sum() for name in ("left", "right")]
    assert [row.n_held_out for row in rows] == [12, 12]
    right = clf.transduction_[clf.stopping_] == clf.classes_[clf.given_[clf.stopping_]]
    assert sum(row.n_right for row in rows) == right.sum()


def test_of_very_many_classes_the_largest_are_listed_and_no_matrix_is_drawn():
    n_classes, n_nodes = 1_000, 3_000
    clf = LabelPropagationClassifier()
    clf.classes_ = np.array([f"class-{code:04}" for code in range(n_classes)])
    clf.graph_ = Graph.without_edges(n_nodes)
    clf.given_ = np.where(np.arange(n_nodes) < 1_500, np.arange(n_nodes) % n_classes, -1)
    clf.stopping_ = np.arange(1_000, 1_500)  # the first 500 classes have two labels
    clf.label_distributions_ = np.eye(n_classes)[np.arange(n_nodes) % n_classes]
    clf.reached_ = np.ones(n_nodes, dtype=bool)
    report = model_report(clf, names=None, title="t", command="c")
    assert report.confusion is None
    assert [row.name for row in report.classes] == [f"class-{code:04}" for code in range(200)]
    html = render_report(report)
    assert "the 200 largest of 1,000 classes" in html
    assert len(html) < 1_000_000


def test_an_audit_becomes_the_rows_of_the_page():
    found = Audit(
        nodes=np.array([2, 0]),
        given=np.array(["b", "a"]),
        suggested=np.array(["a", "a"]),
        suspicion=np.array([0.9, 0.1]),
        suspect=np.array([True, False]),
        stopping=np.array([False, True]),
        classes=np.array(["a", "b"]),
        rounds=np.array([[[0.75, 0.25], [0.5, 0.5]], [[0.75, 0.25], [0.5, 0.5]]]),
        weights=np.zeros((2, 2)),
        others=np.array([[0.9, 0.1], [1.0, 0.0]]),
    )
    rows = suspects_of(found, names=["x", "y", "z"], class_names=["Alpha", "Beta"])
    assert rows == (
        Suspect(2, "z", "Beta", "Alpha", 0.9, is_suspect=True, cross_fitted=0.25, others=0.1),
        Suspect(0, "x", "Alpha", "Alpha", 0.1, is_suspect=False, cross_fitted=0.5, others=1.0),
    )
    html = render_report(a_report(suspects=rows))
    assert "1 is marked as suspect" in html
    assert html.count('<span class="flag">suspect</span>') == 1
    assert "the same" in html  # rather than the given class once more
    assert suspects_of(found)[0].given == "b"


def test_a_label_that_nobody_could_judge_is_not_shown_as_certain():
    unjudged = Suspect(3, "lonely", "rare", "rare", 0.0, is_judged=False)
    html = render_report(a_report(suspects=(a_suspect(), unjudged)))
    row = html[html.index("lonely") :]
    assert "not judged" in row[: row.index("</tr>")]
    assert "0.0&nbsp;%" not in row[: row.index("</tr>")]
    assert "1 could not be judged" in html
    assert "could not be judged" not in render_report(a_report(suspects=(a_suspect(),)))
    clf = a_fitted_one()
    y = np.where(np.arange(200) < 60, clf.given_, -1)
    y[60] = 2  # the only label of its class
    features = np.random.RandomState(0).rand(200, 3)
    clf.fit(features, y, graph=clf.graph_)
    (last,) = (one for one in suspects_of(clf.audit(features)) if one.node == 60)
    assert (last.is_judged, last.cross_fitted, last.suspicion) == (False, None, 0.0)


def test_what_is_right_is_written_in_one_form():
    html = render_report(model_report(a_fitted_one(), names=None, title="t", command="c"))
    seen = re.sub(r"<(style|script|svg).*?</\1>", "", html, flags=re.DOTALL)
    assert re.findall(r"\d%", seen) == []
    assert not re.search(r"\btold\b", re.sub("<[^>]*>", "", seen))


@pytest.mark.parametrize("n_labels", [8_000, 20_000])
def test_all_but_the_nodes_of_a_page_takes_less_than_one_and_a_half_megabytes(n_labels):
    """With as many classes, labels in doubt and epochs as there can be, and the longest names."""
    random, n_classes = np.random.RandomState(0), 200
    names = [f"{code:03} {'long ' * 40}" for code in range(n_classes)]
    suspects = tuple(
        Suspect(n, short_name(names[n % 200]), *[short_name(names[n % 200])] * 2, 0.5, True)
        for n in range(n_labels)
    )
    clf = LabelPropagationClassifier()
    clf.classes_ = np.array(names)
    clf.graph_ = Graph.without_edges(n_labels)
    clf.given_ = np.arange(n_labels) % n_classes
    clf.stopping_ = np.arange(0, n_labels)
    clf.label_distributions_ = random.rand(n_labels, n_classes)
    clf.reached_ = np.ones(n_labels, dtype=bool)
    curve = 1 + random.rand(5, 10_000)
    report = model_report(clf, names=names * (n_labels // 200), title="t", command="c")
    report = dataclasses.replace(
        report, history=History(*map(tuple, curve.tolist())), suspects=suspects
    )
    assert isinstance(report.explore, Explorable)
    html = render_report(report)
    assert len(html.encode()) - len(report.explore.content.encode()) < 1_500_000
    assert "Of the 200 classes, the 40 that are confused most often are drawn" in html
    assert MOST_BYTES + 1_500_000 <= 8_000_000


@pytest.mark.parametrize("n_rounds", [0, 2])
def test_a_page_about_pta_plus_shows_all_its_trainings(n_rounds):
    clf = a_fitted_one(PTAPlusClassifier, n_rounds=n_rounds)
    report = model_report(clf, names=None, title="t", command="c")
    held = json.loads(report.explore.content)
    trust = np.frombuffer(base64.b64decode(held["trust"]), dtype="<f4")
    _, train = clf._known_among(0)
    np.testing.assert_array_equal(trust[train], clf.trust_)
    html = render_report(report)
    if n_rounds:
        assert "Its 3 trainings one after another" in html
        assert ("What all of them predict counts" in html) == (clf.n_kept_ == 3)
        assert report.best_epoch is None
    else:
        assert report.trained.startswith("This model, epoch by epoch.")


@pytest.mark.parametrize("n_networks", [1, 2])
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_page_names_the_round_that_counts_without_stopping_nodes(monkeypatch, kept, n_networks):
    monkeypatch.setattr(RoundLearner, "choose", lambda _, rounds: rounds[kept])
    clf = a_fitted_one(PTAPlusClassifier, n_networks=n_networks)
    assert (clf.stopping_.size, clf.n_kept_) == (0, n_networks)
    report = model_report(clf, names=None, title="t", command="c")
    assert f"What round {kept + 1} of 3 predicts counts." in report.trained
    assert "the mean of the later epochs’ weights is kept" in report.trained
    assert report.best_epoch is None
    html = render_report(report)
    assert "judged on the training nodes" in html
    assert "topping nodes" not in html.replace("no stopping nodes to choose", "")


@pytest.mark.parametrize("n_rounds", [0, 2])
def test_a_page_says_where_labels_alone_told_more(monkeypatch, n_rounds):
    said = "Labels alone clearly told more than all that was learnt"
    usual = a_fitted_one(PTAPlusClassifier, n_rounds=n_rounds)
    assert said not in model_report(usual, names=None, title="t", command="c").trained
    monkeypatch.setattr(RoundLearner, "is_outdone", lambda *_: True)
    clf = a_fitted_one(PTAPlusClassifier, n_rounds=n_rounds)
    report = model_report(clf, names=None, title="t", command="c")
    assert said in report.trained
    assert "predicts counts" not in report.trained
    held = json.loads(report.explore.content)
    assert held["byLabels"]
    f = np.frombuffer(base64.b64decode(held["f"]), dtype="<u2").reshape(clf.probabilities_.shape)
    np.testing.assert_allclose(f / held["fUnit"], clf.told_by_labels_, atol=1e-5)
    page = render_report(report)
    assert "balanced soft labels are averaged in the place of predictions" in page
    assert "Nodes whose soft labels were averaged" in page
    assert "the soft labels that are averaged to the same" in page
    assert "predictions were averaged" not in page


def test_a_page_says_that_rounds_are_not_averaged():
    settings = {"stopping_fraction": 0.2, "average_rounds": False}
    said = "What the last round predicts counts, of those that tell the stopping nodes as well"
    for n_rounds in (0, 2):
        clf = a_fitted_one(PTAPlusClassifier, n_rounds=n_rounds, **settings)
        assert clf.n_kept_ == 1
        told = model_report(clf, names=None, title="t", command="c").trained
        assert (said in told) == (n_rounds > 0)
    unwatched = a_fitted_one(PTAPlusClassifier, average_rounds=False)
    assert not unwatched.stopping_.size
    assert said not in model_report(unwatched, names=None, title="t", command="c").trained


@pytest.mark.parametrize("kept", ["all", "the first"])
def test_a_page_names_what_counts_with_stopping_nodes(monkeypatch, kept):
    if kept == "the first":
        monkeypatch.setattr(RoundLearner, "choose", lambda _, rounds: rounds[0])
    clf = a_fitted_one(PTAPlusClassifier, stopping_fraction=0.2)
    monkeypatch.setattr(clf, "n_kept_", 3 if kept == "all" else 1)
    report = model_report(clf, names=None, title="t", command="c")
    counts = {
        "all": "What all of them predict counts.",
        "the first": "What round 1 of 3 predicts counts.",
    }
    assert report.trained.endswith(counts[kept])
    assert "mean of the later" not in report.trained
    assert "judged on the stopping nodes" in render_report(report)


def test_a_model_page_names_all_that_computes():
    report = model_report(a_fitted_one(), names=None, title="t", command="c")
    assert [name for name, _ in report.versions] == ["python", *PACKAGES]


def test_the_best_epoch_is_named_where_there_is_one():
    watched = a_fitted_one(PTAPlusClassifier, n_rounds=0, stopping_fraction=0.2)
    assert model_report(watched, names=None, title="t", command="c").best_epoch == (
        watched.best_epoch_
    )
    alone = a_fitted_one(PTAPlusClassifier, n_rounds=0)
    assert model_report(alone, names=None, title="t", command="c").best_epoch is None


def test_a_model_page_counts_the_stopping_nodes():
    y = np.repeat([0, 1], 10)
    random = np.random.RandomState(0)
    clf = PTAClassifier(max_epochs=3, random_state=0, device="cpu")
    with pytest.warns(UserWarning, match="All 20 nodes have a label"):
        clf.fit(random.rand(20, 3), y, graph=[(0, 1)])
    report = model_report(clf, names=None, title="t", command="c")
    assert report.confusion.sum() == len(clf.stopping_) == 4
    right = np.trace(report.confusion) / 4
    assert f"It is right on {percent(right)} of the 4 stopping nodes" in report.subtitle
    assert ("Right on stopping", percent(right)) in report.facts
    assert ("Training labels", "16") in report.facts
    html = render_report(report)
    assert "Stopping nodes by their true class" in html


def test_classes_have_the_same_colours_in_the_page_and_in_pictures():
    html = render_report(a_report(suspects=(a_suspect(),)))
    assert tuple(re.findall(r"--class: (#[0-9a-f]{6})", html)) == COLOURS


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("paper", ["#fdfdfc", "#15181c"])
def test_colours_of_classes_stand_out_on_both_backgrounds(colour, paper):
    assert contrast(paper, colour) > 3  # WCAG 2, graphical objects
