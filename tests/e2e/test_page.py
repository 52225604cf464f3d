"""The page in a real browser: it works, asks nobody for anything, and takes no text for code."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from chromium import Chromium
from proptrain import (
    PPR,
    LabelPropagationClassifier,
    LocalEngine,
    PTAClassifier,
    PTAPlusClassifier,
    save_model,
)
from proptrain.classifier import GraphClassifier
from proptrain.data.columns import encode_columns
from proptrain.data.synthetic import power_law_graph
from proptrain.insight.neighbourhood import neighbourhood_of
from proptrain.report.explore import MOST_NODES, Explorable, Unexplorable, explorable_of
from proptrain.report.model_page import model_report
from proptrain.report.page import render_report, write_report
from proptrain.report.parts import ReliabilityCurve, Suspect
from proptrain.report.svg import clean_text
from proptrain.saving.persistence import load_model

N = 60
CLASSES = ("\"quoted\", 'twice' & more", "<script>alert(1)</script>", "\U0001f9ea lab")  # sorted
HOSTILE = (
    "<script>alert(2)</script>",
    "</script><img src=x onerror=alert(3)>",
    "a \"b\", 'c'; &amp; \u2028 end",
    "\U0001f600 日本語",
    "{{ 7 * 7 }} ${1} \\u003c",
    "__proto__",
    "file\u202egpj.exe \u2066x",  # reads as exe.jpg where an override is obeyed
    "\u200f\u05d0\u05d1\u05d2, \u0661",  # from right to left
)


def shown(name):
    """A name as a page has it: no character in it acts upon what stands around it."""
    return clean_text(name)


def a_problem(seed=0):
    """Features, labels and a weighted graph of three groups; the last node has no edge."""
    random = np.random.RandomState(seed)
    truth = np.arange(N) % 3
    features = random.rand(N, 5) + np.eye(3, 5)[truth]
    linked = np.triu(random.rand(N, N) < np.where(truth[:, None] == truth, 0.15, 0.02), 1)
    weights = np.float32(random.choice([0.5, 1.0, 2.25], (N, N)))
    adjacency = np.where(linked, weights, 0)
    adjacency[N - 1] = adjacency[:, N - 1] = 0
    y = np.where(random.rand(N) < 0.4, np.array(CLASSES)[truth], "")
    return features, y, sp.csr_array(adjacency + adjacency.T)


def a_model(kind=PTAClassifier, **parameters):
    features, y, graph = a_problem()
    if kind is not LabelPropagationClassifier:
        parameters = {"max_epochs": 20, "random_state": 0, "device": "cpu", **parameters}
    return kind(**parameters).fit(features, y, graph=graph)


IDS = np.array([*HOSTILE, *(f"node-{i}" for i in range(len(HOSTILE), N))], dtype=object)


def suspects(clf):
    labelled = np.flatnonzero(clf.given_ >= 0)
    doubts = np.random.RandomState(1).permutation(len(labelled)) / len(labelled)
    return tuple(
        Suspect(int(node), str(IDS[node]), CLASSES[clf.given_[node]], CLASSES[0], float(doubt))
        for node, doubt in zip(labelled, doubts, strict=True)
    )


@pytest.fixture(scope="module")
def browser():
    chromium = Chromium()
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def clf():
    return a_model()


@pytest.fixture(scope="module")
def page(clf, tmp_path_factory):
    """A page with all its parts, every name of which is up to no good."""
    curve = ReliabilityCurve(CLASSES[0], (1, 0, 4), (0.3, np.nan, 0.9), (0.0, np.nan, 0.75), 0.18)
    report = model_report(clf, names=IDS.tolist(), title=HOSTILE[1], command=HOSTILE[0])
    more = {"suspects": suspects(clf), "reliability": (curve, curve)}
    return write_report(
        dataclasses.replace(report, **more), tmp_path_factory.mktemp("page") / "report.html"
    )


def rows(browser, table):
    """What is written in the cells of a table, with plain spaces before a %."""
    read = browser.run(
        f"[...document.querySelectorAll('#{table} tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
    )
    return [[cell.replace("\N{NO-BREAK SPACE}%", " %") for cell in row] for row in read]


def text(browser, selector):
    """What is written there, with a plain space before a %."""
    read = browser.run(f"document.querySelector({json.dumps(selector)}).textContent")
    return read.replace("\N{NO-BREAK SPACE}%", " %")


def search(browser, words, *keys):
    browser.run("document.getElementById('node-search').focus()")
    browser.type(words)
    browser.press(*keys)


def drawn_nodes(browser):
    return browser.run(
        "[...document.querySelectorAll('#node-picture .node')].map((g) => Number(g.dataset.node))"
    )


def is_quiet(browser):
    dialogs = [e for e in browser.events if e["method"] == "Page.javascriptDialogOpening"]
    return browser.complaints() == browser.requests() == dialogs == []


# --- the page itself --------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1100, 360])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_opens_without_a_complaint_or_a_request(browser, page, width, dark):
    browser.open(page, width=width, dark=dark)
    assert is_quiet(browser)
    assert text(browser, "title") == text(browser, "h1") == HOSTILE[1]
    assert browser.run("document.querySelectorAll('script').length") == 3
    assert browser.run("document.querySelectorAll('main img, main script').length") == 0
    assert browser.run("document.documentElement.scrollWidth") <= width
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(21, 24, 28)" if dark else "rgb(253, 253, 252)")


def test_every_control_and_picture_has_a_name_and_every_id_is_there_once(browser, page):
    browser.open(page)
    tree = browser.ask("Accessibility.getFullAXTree")["nodes"]
    named = {"button", "textbox", "searchbox", "combobox", "image", "img", "table", "listbox"}
    found = [node for node in tree if node.get("role", {}).get("value") in named]
    assert {"button", "combobox", "searchbox", "table"} <= {n["role"]["value"] for n in found}
    assert [node for node in found if not node.get("name", {}).get("value", "").strip()] == []
    ids = browser.run("[...document.querySelectorAll('[id]')].map((element) => element.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("node", range(len(HOSTILE)))
def test_hostile_names_are_shown_as_they_are(browser, page, clf, node):
    browser.open(page)
    search(browser, shown(HOSTILE[node]), "Enter")
    assert text(browser, "#node-name") == shown(HOSTILE[node])
    assert text(browser, "#node-status").strip("\u2068").startswith(shown(HOSTILE[node]))
    told = CLASSES[clf.label_distributions_[node].argmax()]
    assert told in text(browser, "#node-told")
    assert text(browser, "#node-probabilities tbody th").endswith(told)
    assert is_quiet(browser)


def test_without_scripts_the_page_still_says_everything_else(browser, page):
    browser.open(page)
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    browser.ask("Page.navigate", url="about:blank")
    browser.ask("Page.navigate", url=browser.url)
    browser.wait("document.querySelector('noscript p') !== null")
    seen = browser.run("document.querySelector('main').innerText")
    assert "This part needs JavaScript, which is switched off here." in seen
    assert "Find a node" not in seen
    assert "Filter by node or class" not in seen
    assert "Labels worth a second look" in seen
    assert CLASSES[2] in seen
    browser.ask("Emulation.setScriptExecutionDisabled", value=False)


# --- search -----------------------------------------------------------------------------------


def test_search_works_with_the_keyboard_alone(browser, page):
    browser.open(page)
    for _ in range(200):
        browser.press("Tab")
        if browser.run("document.activeElement.id") == "node-search":
            break
    browser.type("node-1")
    assert browser.run("document.getElementById('node-search').ariaExpanded") == "true"
    assert text(browser, "#node-status") == "10 nodes found, the first 8 are listed."
    browser.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp")
    marked = "document.getElementById('node-search').getAttribute('aria-activedescendant')"
    chosen = browser.run(f"document.getElementById({marked})")
    assert chosen is not None
    name = browser.run(f"document.getElementById({marked}).firstChild.textContent")
    assert browser.run("document.querySelectorAll('[aria-selected=true]').length") == 1
    browser.press("Enter")
    assert text(browser, "#node-name") == name == "node-11"
    assert text(browser, "#node-status").startswith("node-11: predicted ")
    assert browser.run("document.getElementById('node-list').hidden")
    search(browser, "nobody is called so")
    assert text(browser, "#node-status") == "No node has this in its name."
    browser.press("ArrowDown", "Enter", "Escape")
    assert text(browser, "#node-name") == "node-11"


def test_an_address_names_a_node_and_follows_it(browser, page):
    browser.open(page, fragment="#node=node-20")
    assert text(browser, "#node-name") == "node-20"
    search(browser, HOSTILE[0], "Enter")
    assert browser.run("decodeURIComponent(location.hash)") == f"#node={HOSTILE[0]}"
    browser.open(page, fragment="#suspects")
    assert browser.run("location.hash") == "#suspects"  # a section's link is left as it is
    assert browser.run("document.getElementById('suspects').getBoundingClientRect().top") < 5
    assert browser.run("scrollY") > 500
    for broken in ("#node=%", "#node=nobody", "#other"):
        browser.open(page, fragment=broken)
        assert is_quiet(browser)
        assert text(browser, "#node-name")


def test_a_node_in_a_table_leads_to_itself(browser, page):
    browser.open(page, fragment="#node=node-20")
    name = text(browser, "#node-neighbours tbody tr:nth-child(2) button")
    browser.run("document.querySelector('#node-neighbours tbody tr:nth-child(2) button').focus()")
    browser.press("Enter")
    assert text(browser, "#node-name") == name != "node-20"
    assert browser.run("document.activeElement.id") == "node-heading"


# --- the parts are those of explain -----------------------------------------------------------

MODELS = {
    "pta": {},
    "pta, row, unclamped": {"normalisation": "row", "clamp": False, "alpha": 0.3},
    "pta, no loops": {"normalisation": "symmetric-no-loops", "steps": 4},
    "lp": {"kind": LabelPropagationClassifier},
    "pta+": {"kind": PTAPlusClassifier},
    "pta+, classes kept their sizes": {"kind": PTAPlusClassifier, "factors": [0.3, 1.0, 0.6]},
}


def a_model_of(model):
    """The model, perhaps as if it had factors of classes: this graph is too small to need them."""
    clf = a_model(**{name: value for name, value in model.items() if name != "factors"})
    if "factors" in model:
        spread = LocalEngine(clf.graph_).propagate(clf.probabilities_.astype(float), PPR(0.1, 10))
        clf.class_factors_ = np.float32(model["factors"])
        scores = spread * clf.class_factors_
        clf.label_distributions_ = scores / scores.sum(axis=1, keepdims=True)
    return clf


def in_percent(share):
    return f"{100 * share:.1f} %"


def near(shown, share):
    return abs(float(shown.removesuffix(" %")) - 100 * share) < 0.1001


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.filterwarnings("ignore:No label reaches")
def test_the_page_takes_predictions_apart_as_explain_does(browser, tmp_path, model):
    clf = a_model_of(model)
    path = write_report(
        model_report(clf, names=IDS.tolist(), title="t", command="c"), tmp_path / "report.html"
    )
    for node in (9, 19, 33, N - 1):
        told = clf.explain(node)
        browser.open(path, fragment=f"#node=node-{node}")
        assert text(browser, "#node-name") == f"node-{node}"
        listed = rows(browser, "node-labels")
        parts = told.labels
        for row, source, share, steps in zip(
            listed[:10], parts.nodes, parts.shares.sum(axis=1), parts.mean_steps, strict=False
        ):
            assert row[0] == shown(IDS[source])
            assert row[1].endswith(CLASSES[clf.given_[source]])
            assert row[2:4] == [in_percent(share), f"{steps:.1f}"]
        assert len(listed) == min(len(parts.nodes), 11)
        steps = rows(browser, "node-steps")
        by_steps = parts.over_steps.sum(axis=1) / max(parts.total.sum(), 1e-300)
        if not told.holds_label:  # else it came over no step
            assert all(near(row[1], by_steps[int(row[0])]) for row in steps)
        if told.neighbours is None:
            assert browser.run("document.getElementById('node-neighbours')") is None
            continue
        averaged = told.neighbours
        first = rows(browser, "node-neighbours")[0]
        assert first[0] == shown(IDS[averaged.nodes[0]])
        for column, share in (
            (2, averaged.weight_shares[0]),
            (3, averaged.signal[0, told.code]),
            (4, averaged.shares[0, told.code]),
        ):
            assert near(first[column], share)
        by_steps = averaged.over_steps.sum(axis=1) / averaged.total.sum()
        assert all(near(row[-1], by_steps[int(row[0])]) for row in steps)
        times = text(browser, "#node-averaged")
        assert ("factor" in times) == ("factors" in model)
        centre, *others = neighbourhood_of(clf.graph_, told).nodes.tolist()
        assert drawn_nodes(browser) == [*others, centre]
    assert is_quiet(browser)


def test_a_label_can_be_left_out_and_put_back(browser, page, clf):
    node = 44
    told = clf.explain(node)
    top = int(told.labels.nodes[0])
    browser.open(page, fragment=f"#node=node-{node}")
    before = rows(browser, "node-labels")
    browser.run("document.querySelector('#node-labels .quiet-button').focus()")
    browser.press("Enter")
    without = clf.explain(node, without=[top])
    after = rows(browser, "node-labels")
    assert after[0][0] == shown(IDS[without.labels.nodes[0]])
    assert after[0][2] == in_percent(without.labels.shares[0].sum())
    assert f"with {without.labels.total.sum():.3g} of a whole label" in text(browser, "#node-soft")
    said = text(browser, "#node-status")
    assert said.startswith(f"Without the label of {shown(IDS[top])}: ")
    code = clf.given_[top]
    lost = told.labels.total[code] - without.labels.total[code]
    part = told.labels.values[0, code]
    assert lost < part - 0.001  # clamped, the labels behind it come through, and the page says so
    numbers = f"lost {lost:.3f} of a whole label; the part was {part:.3f}."
    assert said.endswith(numbers)
    assert text(browser, "#node-without").endswith(numbers)  # where it was done
    assert "still stopped other labels" in browser.run(
        "document.getElementById('node-if-zero').innerText"
    )
    browser.run("document.querySelector('#node-without button').focus()")
    browser.press(" ")
    assert rows(browser, "node-labels") == before


def test_the_picture_draws_the_same_nodes_as_the_terminals(browser, page, clf):
    browser.open(page, fragment="#node=node-44")
    shown = neighbourhood_of(clf.graph_, clf.explain(44))
    centre, *others = shown.nodes.tolist()
    assert drawn_nodes(browser) == [*others, centre]
    squares = browser.run("document.querySelectorAll('#node-picture rect').length")
    assert squares == (shown.label_shares > 0).sum()
    assert browser.run("document.querySelectorAll('#node-picture line').length") == len(shown.edges)
    centre = browser.run(
        "(() => { const r = [...document.querySelectorAll('#node-picture .node')].at(-1)"
        ".getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
    )
    assert np.isfinite(centre).all()


def test_the_nodes_of_the_picture_can_be_chosen_with_the_keyboard(browser, page, clf):
    chosen = neighbourhood_of(clf.graph_, clf.explain(44)).nodes[1]
    for key in ("Enter", " "):
        browser.open(page, fragment="#node=node-44")
        assert browser.run("document.getElementById('node-picture').role") == "group"
        browser.run("document.getElementById('node-legend').previousElementSibling.tabIndex = -1")
        browser.run("document.getElementById('node-legend').previousElementSibling.focus()")
        browser.press("Tab")
        assert browser.run("document.activeElement.dataset.node") == str(chosen)
        outline = browser.run("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        before = browser.run("scrollY")
        browser.press(key)
        assert text(browser, "#node-name") == shown(IDS[chosen])
        assert browser.run("document.activeElement.id") == "node-heading"
        assert browser.run("scrollY") <= before  # a space does not scroll
    tree = browser.ask("Accessibility.getFullAXTree")["nodes"]
    names = [n["name"]["value"] for n in tree if n.get("role", {}).get("value") == "button"]
    assert any("of the weight in the prediction" in name for name in names)


def press_pointer(browser, kind, x, y):
    browser.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def test_a_node_that_is_found_is_chosen_by_a_click_and_not_by_a_touch_that_scrolls(browser, page):
    browser.open(page, width=360, fragment="#node=node-44")
    browser.run("document.getElementById('node-search').scrollIntoView()")
    search(browser, "node-20")
    x, y = browser.run(
        "(() => { const r = document.querySelector('#node-list li').getBoundingClientRect();"
        " return [r.x + 20, r.y + r.height / 2]; })()"
    )
    press_pointer(browser, "mousePressed", x, y)
    assert text(browser, "#node-name") == "node-44"
    assert not browser.run("document.getElementById('node-list').hidden")
    press_pointer(browser, "mouseReleased", x, y)
    assert text(browser, "#node-name") == "node-20"
    assert browser.run("document.getElementById('node-list').hidden")


# --- the reasons for and against a label ------------------------------------------------------


@pytest.mark.parametrize("clamp", [True, False])
def test_a_labelled_node_shows_what_the_other_labels_say(browser, tmp_path, clamp):
    clf = a_model(clamp=clamp)
    node = next(
        int(one)
        for one in np.setdiff1d(np.flatnonzero(clf.given_ >= 0), clf.stopping_)
        if one >= len(HOSTILE)
    )
    doubt = Suspect(
        node, IDS[node], "", CLASSES[0], 0.81, is_suspect=True, cross_fitted=0.125, others=0.06
    )
    report = model_report(clf, names=IDS.tolist(), title="t", command="c", suspects=(doubt,))
    browser.open(write_report(report, tmp_path / "report.html"), fragment=f"#node=node-{node}")
    found = text(browser, "#node-audit")
    assert CLASSES[0] in found
    assert found.startswith("suspect The audit suggests ")
    assert "suspicion 81.0 %. For " in found
    assert "models that have not seen it (12.5 %)" in found
    assert "the other labels, spread through labelled nodes too (6.0 %)" in found
    told = clf.explain(node)
    others = clf.explain(node, without=[node]).labels
    np.testing.assert_array_equal(told.others.values, others.values)
    listed = rows(browser, "node-others")
    for row, source, share in zip(
        listed[:10], others.nodes, others.shares.sum(axis=1), strict=False
    ):
        assert row[0] == shown(IDS[source])
        assert row[1].endswith(CLASSES[clf.given_[source]])
        assert row[2] == in_percent(share)
    assert node not in others.nodes
    whole = re.search(r"with ([\d.]+) of a whole", text(browser, "#node-others-soft"))[1]
    assert float(whole) == pytest.approx(others.total.sum(), rel=0.01)
    is_shown = "document.getElementById('node-labels-frame').checkVisibility()"
    assert browser.run(is_shown) == (not clamp)  # itself 100 % says nothing
    columns = browser.run("document.querySelectorAll('#node-steps thead th:not([hidden])').length")
    assert columns == (2 if clamp else 3)
    assert {len(row) for row in rows(browser, "node-steps")} == {columns}
    squares = browser.run("document.querySelectorAll('#node-picture rect').length")
    assert squares > 1
    browser.run("document.querySelector('#node-others .quiet-button').focus()")
    browser.press("Enter")
    top = int(others.nodes[0])
    without = clf.explain(node, without=[top]).others
    assert rows(browser, "node-others")[0][0] == shown(IDS[without.nodes[0]])
    lost = (others.total - without.total)[clf.given_[top]]
    assert f"lost {lost:.3f} of a whole label" in text(browser, "#node-status")
    assert browser.run("document.activeElement.id") == (
        "node-others-soft" if clamp else "node-soft"
    )
    search(browser, IDS[np.flatnonzero(clf.given_ < 0)[-1]], "Enter")
    for part in ("node-audit", "node-others-part"):
        assert browser.run(f"document.getElementById('{part}').hidden")
    assert is_quiet(browser)


def test_a_page_about_pta_plus_says_whose_soft_label_it_shows(tmp_path):
    for n_rounds, words in ((2, "first round"), (1, "1 further round learns"), (0, "PTA+, each")):
        clf = a_model(PTAPlusClassifier, n_rounds=n_rounds)
        html = render_report(model_report(clf, names=None, title="t", command="c"))
        assert words in html
        assert "before classes are balanced" in html
    assert "before classes are balanced" not in render_report(
        model_report(a_model(), names=None, title="t", command="c")
    )


# --- the table of labels in doubt -------------------------------------------------------------


def column(browser, place):
    return [
        row[place]
        for row in browser.run(
            "[...document.querySelectorAll('table[data-sortable] tbody tr')]"
            ".filter((row) => !row.hidden)"
            ".map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"
        )
    ]


def test_labels_in_doubt_are_sorted_and_filtered_with_the_keyboard(browser, page, clf):
    browser.open(page)
    header = "document.querySelectorAll('table[data-sortable] thead th')"
    values = lambda: [float(cell.split()[0]) for cell in column(browser, 3)]  # noqa: E731
    browser.run(f"{header}[3].querySelector('button').focus()")
    browser.press("Enter")
    assert values() == sorted(values())
    assert browser.run(f"{header}[3].ariaSort") == "ascending"
    browser.press("Enter")
    assert values() == sorted(values(), reverse=True)
    assert browser.run(f"{header}[3].ariaSort") == "descending"
    browser.run(f"{header}[1].querySelector('button').focus()")
    browser.press(" ")
    given = column(browser, 1)
    assert [given.index(name) for name in given] == sorted(given.index(name) for name in given)
    assert browser.run(f"[...{header}].map((th) => th.ariaSort)") == [None, "ascending", None, None]
    browser.run("document.getElementById('suspects-filter').focus()")
    browser.type("LAB")
    assert set(column(browser, 1)) == {CLASSES[2]}
    count = len(column(browser, 1))
    n_labels = int((clf.given_ >= 0).sum())
    assert text(browser, "#suspects-filter-status") == f"{count} of {n_labels} rows"
    name = column(browser, 0)[0]
    browser.run("document.querySelector('tr:not([hidden]) [data-show-node]').focus()")
    browser.press("Enter")
    assert text(browser, "#node-name") == name
    assert is_quiet(browser)


def test_the_table_can_be_cut_down_to_the_suspects(browser, tmp_path, clf):
    doubts = [
        dataclasses.replace(one, is_suspect=place in (1, 4))
        for place, one in enumerate(suspects(clf))
    ]
    report = model_report(clf, names=IDS.tolist(), title="t", command="c", suspects=tuple(doubts))
    browser.open(write_report(report, tmp_path / "report.html"))
    browser.run("document.getElementById('suspects-filter-only').focus()")
    browser.press(" ")
    assert column(browser, 0) == [shown(doubts[place].name) for place in (1, 4)]
    assert text(browser, "#suspects-filter-status") == f"2 of {len(doubts)} rows"
    browser.press(" ")
    assert len(column(browser, 0)) == len(doubts)
    assert text(browser, "#suspects-filter-status") == ""


# --- large graphs -----------------------------------------------------------------------------


def as_if_fitted(n_nodes, n_classes, degree, kind=PTAClassifier):
    """A model of this size with made-up predictions: only its size matters."""
    random = np.random.RandomState(0)
    clf = kind(random_state=0)
    clf.graph_, _ = power_law_graph(n_nodes, n_nodes * degree, n_classes)
    clf.classes_ = np.array([f"class {code}" for code in range(n_classes)])
    told = random.dirichlet(np.full(n_classes, 0.3), n_nodes)
    clf.label_distributions_, clf.probabilities_ = told, told.astype(np.float32)
    clf.given_ = np.where(random.rand(n_nodes) < 0.05, random.randint(n_classes, size=n_nodes), -1)
    clf.stopping_ = np.flatnonzero(clf.given_ >= 0)[::5]
    clf.reached_ = np.ones(n_nodes, dtype=bool)
    return clf


@pytest.mark.parametrize("n_classes", [8, 60])
def test_twenty_thousand_nodes_fit_into_eight_megabytes_and_answer(browser, tmp_path, n_classes):
    clf = as_if_fitted(MOST_NODES, n_classes, 10)
    names = [f"account-{i:08}" for i in range(MOST_NODES)]
    path = write_report(
        model_report(clf, names=names, title="large", command="c"), tmp_path / "report.html"
    )
    assert path.stat().st_size <= 8_000_000
    browser.open(path)
    search(browser, "account-00019999", "Enter")
    assert text(browser, "#node-name") == "account-00019999"
    told = clf.explain(19_999)
    shown = rows(browser, "node-labels")
    # Labels that weigh the same to the last digit may come in another order.
    assert [row[2] for row in shown[:10]] == [
        in_percent(share) for share in told.labels.shares.sum(axis=1)[:10]
    ]
    assert rows(browser, "node-neighbours")[0][0] == names[told.neighbours.nodes[0]]
    assert is_quiet(browser)


def test_a_larger_graph_gets_the_parts_that_scale(browser, tmp_path):
    clf = as_if_fitted(MOST_NODES + 1, 8, 4)
    report = model_report(clf, names=None, title="larger", command="c")
    assert isinstance(report.explore, Unexplorable)
    path = write_report(report, tmp_path / "report.html")
    assert path.stat().st_size < 100_000
    browser.open(path)
    assert "up to 20,000; this one has 20,001" in text(browser, "main")
    assert browser.run("document.querySelector('svg.plot-confusion') !== null")
    assert is_quiet(browser)


def test_a_graph_too_dense_for_a_page_is_left_out_and_it_says_so(monkeypatch):
    monkeypatch.setattr("proptrain.report.explore.MOST_BYTES", 100_000)
    told = explorable_of(as_if_fitted(2_000, 3, 20))
    assert isinstance(told, Unexplorable)
    assert "more than the 0.1 MB that a page may hold" in told.reason


def test_predictions_too_many_to_keep_are_left_out(monkeypatch):
    clf = as_if_fitted(500, 5, 4)
    fine = explorable_of(clf)
    monkeypatch.setattr("proptrain.report.explore._FINE", 100)
    coarse = explorable_of(clf)
    monkeypatch.setattr("proptrain.report.explore._COARSE", 100)
    none = explorable_of(clf)
    assert [one.has_predictions for one in (fine, coarse, none)] == [True, True, False]
    assert len(fine.content) > len(coarse.content) > len(none.content)
    assert "to the same;" in fine.rounding
    assert "to 1/255;" in coarse.rounding


# --- the commands -----------------------------------------------------------------------------


@pytest.fixture
def model(clf, tmp_path):
    save_model(tmp_path / "model", clf, node_ids=IDS)
    return tmp_path / "model"


def test_report_writes_the_page_of_a_model(run, browser, model, tmp_path):
    out = tmp_path / "page.html"
    code, _, told = run("report", model, "--out", out)
    assert code == 0
    assert told.startswith(f"The page is {out}, ")
    assert told.endswith("for those, add --audit with an audit.")  # it knows no node table
    browser.open(out)
    assert text(browser, "h1") == "What the model predicts"
    assert "stopping nodes, whose labels it was not trained on" in text(browser, ".lede")
    assert is_quiet(browser)
    code, _, told = run("report", model, "--out", out)
    assert code == 1
    assert "exists already and is left alone" in told
    code, told, _ = run("report", model, "--out", out, "--overwrite", "--json", "--title", "Mine")
    assert json.loads(told) == {
        "out": str(out),
        "bytes": out.stat().st_size,
        "explores_nodes": True,
        "audited": 0,
        "reliability": False,  # of so few stopping nodes
    }


@pytest.mark.parametrize("opens", [True, False])
def test_report_can_show_its_page(run, model, tmp_path, monkeypatch, opens):
    asked = []
    monkeypatch.setattr("webbrowser.open", lambda address: asked.append(address) or opens)
    code, _, told = run("report", model, "--out", tmp_path / "a page.html", "--open")
    assert code == 0
    assert asked == [(tmp_path / "a page.html").as_uri()]
    assert ("No browser could be opened" in told) == (not opens)


# --- tables in, a page with every part out ----------------------------------------------------


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Tables of the same problem, with columns of every kind and two labels swapped."""
    features, _, graph = a_problem()
    truth = np.arange(N) % 3
    labels = np.array(CLASSES, dtype=object)[truth]
    labels[[6, 7]] = labels[[7, 6]]
    labels[40:] = ""
    columns = {"age": features[:, 0].round(3), "city": np.array(["Oslo", "Rome", "Bern"])[truth]}
    columns["about"] = [f"likes {'tea and cakes' if k else 'long walks'} a lot" for k in truth]
    table = pd.DataFrame({"id": IDS, **columns, "group": labels})
    table.to_csv(tmp_path / "nodes.csv", index=False)
    rows, others = sp.triu(graph, 1).nonzero()
    edges = pd.DataFrame({"source": IDS[rows], "target": IDS[others]})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    monkeypatch.chdir(tmp_path)
    before = GraphClassifier._settings
    brief = lambda *given: dataclasses.replace(before(*given), max_epochs=30)  # noqa: E731
    monkeypatch.setattr(GraphClassifier, "_settings", brief)
    return table


FROM_TABLES = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--label", "group")


@pytest.mark.parametrize("method", ["PTA", "PTA+"])
def test_a_page_from_tables_lists_the_labels_in_doubt(run, browser, tables, method):
    code, _, told = run("fit", *FROM_TABLES, "--method", method, "--out", "model")
    assert code == 0, told
    assert "or look at it: proptrain report model --nodes nodes.csv" in told
    tables.sample(frac=1, random_state=0).to_csv("mixed.csv", index=False)  # rows in any order
    code, _, told = run("report", "model", "--nodes", "mixed.csv", "--out", "page.html")
    assert code == 0, told
    assert "Labels in doubt" not in told
    browser.open(Path("page.html"))
    assert is_quiet(browser)
    saved = load_model("model")
    features = encode_columns(tables, encoder=saved.encoder).features
    found = saved.estimator.audit(features)
    assert column(browser, 0) == [shown(IDS[node]) for node in found.nodes]
    assert [cell.split()[-2] for cell in column(browser, 3)] == [
        f"{100 * suspicion:.1f}" for suspicion in found.suspicion
    ]
    assert "40 given labels" in text(browser, "main")
    assert text(browser, "pre").startswith("proptrain report model --nodes mixed.csv")
    search(browser, "node-50", "Enter")
    assert text(browser, "#node-name") == "node-50"


@pytest.mark.parametrize("name", ["audit.csv", "audit.json"])
def test_a_page_takes_an_audit_that_was_made_before(run, browser, tables, name):
    assert run("fit", *FROM_TABLES, "--out", "model")[0] == 0
    code, _, told = run("audit", *FROM_TABLES, "--out", name, "--fix", "fixed.csv")
    assert code == 0, told
    code, told, _ = run("report", "model", "--audit", name, "--out", "page.html", "--json")
    assert code == 0
    assert json.loads(told)["audited"] == 40
    browser.open(Path("page.html"))
    assert is_quiet(browser)
    given = pd.read_csv("audit.csv") if name == "audit.csv" else pd.read_json(name)
    assert column(browser, 0) == [shown(one) for one in given["id"]]
    marked = browser.run("document.querySelectorAll('.flag').length")
    assert marked == given["suspect"].sum() > 0
    fixed = ("--edges", "edges.csv", "--nodes", "fixed.csv", "--label", "group")
    assert run("fit", *fixed, "--out", "better")[0] == 0
    code, _, told = run("report", "better", "--audit", name, "--out", "again.html")
    assert code == 1
    assert f"{name} is of other labels than the model" in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodes", "nodes.csv", "--audit", "audit.csv"), "give one"),
        (("--nodes", "fewer.csv"), "fewer.csv lacks 1 of 60, the first is 'node-59'"),
        (("--nodes", "older.csv"), "older.csv differs from it in columns that are features"),
        (("--nodes", "gone.csv"), "gone.csv does not exist"),
        (("--audit", "gone.json"), "gone.json cannot be read: No such file"),
        (("--audit", "nodes.csv"), "There must be a column 'given' in nodes.csv"),
        (("--audit", "audit.txt"), "must be a .csv or .json of `proptrain audit --out`"),
        (("--audit", "list.json"), "There must be a column 'id' in list.json"),
        (("--audit", "broken.json"), "broken.json is no audit"),
        (("--audit", "halves.json"), "halves.json has text that cannot be written"),
        (("--audit", "others.csv"), "the model has none called 'nobody'"),
        (("--audit", "wild.csv"), "must hold numbers from 0 to 1"),
        (("--audit", "unlabelled.csv"), "has 'x' there and 'no label' here"),
    ],
)
def test_report_says_what_it_cannot_list(run, tables, words, message):
    tables[:-1].to_csv("fewer.csv", index=False)
    tables.assign(age=tables["age"] + 1).to_csv("older.csv", index=False)
    Path("broken.json").write_text('{"a"')
    Path("list.json").write_text("[1, 2]")
    half = '"\\ud800", "given": "x", "suggested": "x", "suspicion": 0.5, "suspect": false'
    Path("halves.json").write_text(f'[{{"id": {half}}}]')
    row = {"id": "nobody", "given": "x", "suggested": "x", "suspicion": 0.5, "suspect": False}
    pd.DataFrame([row]).to_csv("others.csv", index=False)
    pd.DataFrame([{**row, "suspicion": "much"}]).to_csv("wild.csv", index=False)
    pd.DataFrame([{**row, "id": "node-59"}]).to_csv("unlabelled.csv", index=False)
    assert run("fit", *FROM_TABLES, "--out", "model")[0] == 0
    code, _, told = run("report", "model", *words, "--out", "page.html")
    assert code == 1
    assert message in told
    assert not Path("page.html").exists()


@pytest.mark.filterwarnings("ignore:No label reaches")
def test_only_what_can_be_audited_is(run, tables, model):
    assert run("fit", *FROM_TABLES, "--method", "LP", "--out", "lp")[0] == 0
    code, _, told = run("report", "lp", "--nodes", "nodes.csv", "--out", "page.html")
    assert code == 1
    assert "got LabelPropagationClassifier. Fit one of those" in told
    code, _, told = run("report", "lp", "--out", "lp.html")
    assert code == 0
    assert "Labels in doubt" not in told  # nothing could be added to have them
    code, _, told = run("report", model, "--nodes", "nodes.csv", "--out", "page.html")
    assert code == 1
    assert "This model was not fitted to a node table" in told


def test_report_of_a_model_that_is_no_sum_has_the_other_parts(run, tmp_path):
    from proptrain import GNNClassifier

    features, y, graph = a_problem()
    clf = GNNClassifier(max_epochs=3, random_state=0).fit(features, y, graph=graph)
    clf.save(tmp_path / "gnn")
    code, _, told = run("report", tmp_path / "gnn", "--out", tmp_path / "page.html")
    assert code == 0
    assert "Nodes are not in it. The predictions of GNNClassifier are no sums" in told
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "This model, epoch by epoch" in html
    assert "<h1>What the model “gnn” predicts</h1>" in html


def test_explain_says_what_the_audit_found(run, clf, model, tmp_path):
    first, second, third = np.setdiff1d(np.flatnonzero(clf.given_ >= 0), clf.stopping_)[-3:]
    given = [CLASSES[clf.given_[node]] for node in (first, second, third)]
    other = next(name for name in CLASSES if name != given[0])
    row = {"id": IDS[first], "given": given[0], "suggested": other, "suspicion": 0.8}
    table = [
        {**row, "suspect": True, "cross_fitted": 0.125, "others": 0.25},
        {
            "id": IDS[second],
            "given": given[1],
            "suggested": given[1],
            "suspicion": 0,
            "suspect": False,
        },
        {
            "id": IDS[third],
            "given": given[2],
            "suggested": given[2],
            "suspicion": 0,
            "suspect": False,
        },
    ]
    table[1] |= {"cross_fitted": 0.0, "others": 0.5}  # the only label of its class
    table[2] |= {"cross_fitted": 0.75}
    pd.DataFrame(table).to_csv(tmp_path / "audit.csv", index=False)
    words = ("--audit", tmp_path / "audit.csv")
    code, told, _ = run("explain", model, IDS[first], *words)
    assert code == 0
    told = " ".join(told.split())
    assert f"The audit suggests {other} instead of {given[0]}: suspicion 80.0 %, a suspect." in told
    assert "models that have not seen the label 12.5 %, the other labels, spread through" in told
    assert "What the other labels say: its soft label without its own" in told
    assert "Its label was not judged by the audit" in run("explain", model, IDS[second], *words)[1]
    told = " ".join(run("explain", model, IDS[third], *words)[1].split())
    assert f"finds no better class than {given[2]}: suspicion 0.0 %. For {given[2]}" in told
    assert "spread through" not in told  # the file does not say it
    code, told, _ = run("explain", model, IDS[second], *words, "--json")
    assert json.loads(told)["audit"] == {
        "suggested": given[1],
        "suspicion": None,
        "suspect": False,
        "cross_fitted": None,
        "others": 0.5,
    }
    code, _, told = run("explain", model, "node-33", *words)
    assert code == 1
    assert "audit.csv says nothing of this node" in told


def test_explain_tells_a_node_by_its_id(run, clf, model, tmp_path):
    code, told, _ = run("explain", model, HOSTILE[0], "--json", "--top", 3)
    assert code == 0
    written, expected = json.loads(told), clf.explain(0)
    assert written["node"] == HOSTILE[0]
    assert written["labels"]["total"] == expected.labels.total.tolist()
    sources = [part["node"] for part in written["labels"]["parts"]]
    assert sources == [IDS[node] for node in expected.labels.nodes[:3]]
    code, told, _ = run("explain", model, "node-33", "--top", 2)
    assert code == 0
    assert "Node node-33: " in told
    before = clf.explain(33)
    source = int(before.labels.nodes[0])
    top = str(IDS[source])
    assert top in told
    code, told, _ = run("explain", model, "node-33", "--without", top)
    assert code == 0
    told = " ".join(told.split())
    assert f"without that of {top}" in told
    after, code = clf.explain(33, without=[source]), clf.given_[source]
    lost, part = (before.labels.total - after.labels.total)[code], before.labels.values[0, code]
    assert f"a loss of {lost:.3f}; the part of what is left out was {part:.3f}." in told
    assert "while its node still stops other labels" in told


def test_no_name_acts_upon_the_terminal(run, clf, tmp_path):
    names = IDS.copy()
    names[33] = "\x1b[31mred\u202e\x07"
    save_model(tmp_path / "model", clf, node_ids=names)
    code, told, _ = run("explain", tmp_path / "model", names[33])
    assert code == 0
    assert "\\x1b[31mred\\u202e\\x07" in told
    assert not {"\x1b", "\u202e", "\x07"} & set(told)
    code, _, told = run("explain", tmp_path / "model", "\x1b[31mred")
    assert code == 1
    assert "\x1b" not in told


def test_explain_draws_a_picture(run, model, tmp_path):
    for name, begins in (("node.svg", b"<svg "), ("node.png", b"\x89PNG")):
        code, _, told = run("explain", model, "node-33", "--picture", tmp_path / name)
        assert code == 0
        assert f"{tmp_path / name}" in told
        assert (tmp_path / name).read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nod-33",), "got 'nod-33'. Did you mean 'node-33'"),
        (("zzz",), "The first is '<script>alert(2)</script>'"),
        (("node-33", "--picture", "x.gif"), "must end in .svg or .png, got 'x.gif'"),
    ],
)
def test_explain_says_what_it_cannot_do(run, model, words, message):
    code, _, told = run("explain", model, *words)
    assert code == 1
    assert message in told


def test_explain_leaves_out_only_labels_that_were_trained_on(run, clf, model):
    unlabelled = IDS[np.flatnonzero(clf.given_ < 0)[-1]]
    code, _, told = run("explain", model, "node-33", "--without", unlabelled)
    assert code == 1
    assert f"can be left out, but node '{unlabelled}' has none" in told  # by its id


def test_explain_takes_numbers_where_nodes_have_no_ids(run, clf, tmp_path):
    clf.save(tmp_path / "plain")
    code, told, _ = run("explain", tmp_path / "plain", "33", "--json")
    assert code == 0
    assert json.loads(told)["node"] == 33
    for wrong in ("60", "-1", "node-33", "1.0"):
        code, _, told = run("explain", tmp_path / "plain", "--", wrong)
        assert code == 1
        assert "NODE must be a number from 0 to 59" in told
    loaded = load_model(tmp_path / "plain").estimator
    np.testing.assert_array_equal(loaded.explain(33).labels.values, clf.explain(33).labels.values)


def test_what_is_not_fitted_with_ids_gets_numbers_in_the_page(clf):
    told = explorable_of(clf)
    assert isinstance(told, Explorable)
    assert json.loads(told.content)["ids"] is None
    assert json.loads(explorable_of(clf, list(range(N))).content)["ids"] is None
    assert json.loads(explorable_of(clf, list(range(1, N + 1))).content)["ids"][0] == "1"
