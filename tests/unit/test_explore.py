"""What the page carries: data that cannot break out, one script that its policy knows."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proptrain import PTAClassifier
from proptrain.errors import InvalidInputError
from proptrain.report.explore import explorable_of, script_json
from proptrain.report.model_page import model_report
from proptrain.report.neighbourhood import COLOURS
from proptrain.report.page import MOST_SUSPECTS, Report, render_report
from proptrain.report.parts import ReliabilityCurve, Suspect, reliability_plot


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
    assert {"as told", "calibrated <b>", "told right, %", "probability told, %"} <= set(texts)
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


def test_a_model_page_counts_the_stopping_nodes():
    y = np.repeat([0, 1], 10)
    random = np.random.RandomState(0)
    clf = PTAClassifier(max_epochs=3, random_state=0, device="cpu")
    with pytest.warns(UserWarning, match="All 20 nodes have a label"):
        clf.fit(random.rand(20, 3), y, graph=[(0, 1)])
    report = model_report(clf, names=None, title="t", command="c")
    assert report.confusion.sum() == len(clf.stopping_) == 4
    right = np.trace(report.confusion) / 4
    assert f"It tells {right:.1%} of the 4 stopping nodes right" in report.subtitle
    assert ("Right on stopping", f"{right:.1%}") in report.facts
    assert ("Training labels", "16") in report.facts
    html = render_report(report)
    assert "Stopping nodes by their true class" in html


def test_classes_have_the_same_colours_in_the_page_and_in_pictures():
    html = render_report(a_report(suspects=(a_suspect(),)))
    assert tuple(re.findall(r"--class: (#[0-9a-f]{6})", html)) == COLOURS


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("paper", ["#fdfdfc", "#15181c"])
def test_colours_of_classes_stand_out_on_both_backgrounds(colour, paper):
    darker, lighter = sorted(map(luminance, (paper, colour)))
    assert (lighter + 0.05) / (darker + 0.05) > 3  # WCAG 2, graphical objects


def luminance(colour):
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
