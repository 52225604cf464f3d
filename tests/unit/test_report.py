"""The page: what it must say, that it is sound HTML, and that nothing in it can break out."""

from __future__ import annotations

import dataclasses
import math
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest

from contrast import contrast
from proptrain.errors import InvalidInputError, OutputExistsError, UnwritableOutputError
from proptrain.report import page, plots
from proptrain.report.page import MethodResult, Report, render_report, write_report
from proptrain.train.loop import History

HOSTILE = (
    "<script>alert(1)</script>",
    "\"double\" & 'single'",
    "\U0001f9ea test tube",  # in no font of matplotlib's
    "日本語",
    "$x_1$ {{ 7 * 7 }}",
    "nul\x00 and\nline, \ud800",
    plots.INK,
)
VOID = {"meta", "link", "br", "hr", "img", "input"}


def a_history(n_epochs: int = 40, gamma: float | None = None) -> History:
    epochs = np.arange(n_epochs)
    gammas = np.log1p(epochs / 100) if gamma is None else np.full(n_epochs, gamma)
    curves = (
        0.3 * 0.9**epochs + 0.02,
        0.2 * 0.95**epochs + 0.05,
        1 - 0.8**epochs,
        0.8 - 0.9**epochs,
    )
    return History(*(tuple(map(float, curve)) for curve in (*curves, gammas)))


def a_report(**changes: Any) -> Report:
    report = Report(
        title="Cora, 20 labels per class",
        subtitle="The class of every paper was predicted from 140 labels.",
        facts=(("nodes", "2,485"), ("edges", "5,069")),
        methods=(
            MethodResult(
                "PTA", "all three steps", (0.82, 0.84, 0.835), 0.8317, 0.8246, 0.8388, 1.84
            ),
            MethodResult("MLP", "sees no graph", (0.57, 0.6, 0.58), 0.5833, 0.5711, 0.5957, 0.617),
        ),
        history=a_history(),
        best_epoch=33,
        confusion=np.array([[51, 4], [6, 39]]),
        class_names=("Theory", "Rule Learning"),
        command="proptrain demo --runs 3",
        versions=(("proptrain", "0.1.0"), ("PyTorch", "2.3.0")),
    )
    return dataclasses.replace(report, **changes)


def many_classes(n_classes: int, names: tuple[str, ...] | None = None) -> dict[str, Any]:
    names = names or tuple(f"class-{i}" for i in range(n_classes))
    matrix = np.arange(n_classes**2).reshape(n_classes, n_classes) + 1000
    return {"confusion": matrix, "class_names": names}


class PageReader(HTMLParser):
    """Reads a page and complains when tags do not pair up."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute of <{tag}> is given twice"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in self.open, f"<{tag}/> closes itself outside of an SVG"
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def texts(svg: str) -> list[str]:
    namespace = "{http://www.w3.org/2000/svg}"
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{namespace}text")]


VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "no history": {"history": None, "best_epoch": None},
    "history without epochs": {"history": History(), "best_epoch": -1},
    "one epoch": {"history": a_history(1), "best_epoch": 0},
    "no best epoch": {"best_epoch": None},
    "no gamma": {"history": a_history(gamma=math.nan)},
    "losses at zero": {
        "history": dataclasses.replace(a_history(3), train_loss=(0.0, math.nan, -1))
    },
    "no confusion": {"confusion": None, "class_names": ()},
    "one method, one run": {
        "methods": (MethodResult("PTA", "alone", (0.8,), 0.8, math.nan, math.nan, 200.0),)
    },
    "no methods": {"methods": ()},
    "one class": many_classes(1),
    "twenty classes": many_classes(20),
    "thirty classes": many_classes(30),
    "nothing predicted": {"confusion": np.zeros((2, 2), dtype=int)},
    "bare": {"facts": (), "versions": ()},
    "hostile": {
        "title": HOSTILE[0],
        "subtitle": HOSTILE[1],
        "facts": tuple((name, name) for name in HOSTILE),
        "methods": tuple(MethodResult(n, n, (0.5, 0.6), 0.55, 0.5, 0.6, 1.0) for n in HOSTILE),
        "command": HOSTILE[0],
        "versions": tuple((name, name) for name in HOSTILE),
        **many_classes(len(HOSTILE), HOSTILE),
    },
}


@pytest.fixture(params=VARIANTS, scope="module")
def html(request: pytest.FixtureRequest) -> str:
    return render_report(a_report(**VARIANTS[request.param]))


# --- every page ---------------------------------------------------------------------------------


def test_tags_pair_up_and_ids_are_unique(html: str) -> None:
    reader = PageReader(html)
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    pointed_at = {a["aria-labelledby"] for _, a in reader.tags if "aria-labelledby" in a}
    pointed_at |= {(a.get("href") or "")[1:] for a in reader.named("use")}
    pointed_at |= set(re.findall(r'clip-path="url\(#([^)]+)\)', html))
    assert pointed_at <= set(ids)


def test_svgs_are_xml_with_a_role_and_a_label(html: str) -> None:
    for svg in re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL):
        root = ET.fromstring(svg)
        assert root.get("role") == "img"
        assert root.get("aria-label")
        assert "NaN" not in svg
        assert plots.INK not in re.sub('>[^<]*<|aria-label="[^"]*"', "", svg)


def test_nothing_is_loaded_from_elsewhere(html: str) -> None:
    rest = html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http:" not in rest
    assert "https:" not in rest
    assert "//" not in re.sub(r"/\*.*?\*/", "", rest)
    assert "@import" not in rest
    assert set(re.findall(r"url\((.)", rest)) <= {"#"}
    reader = PageReader(html)
    assert all((a.get("href") or "#").startswith("#") for _, a in reader.tags)
    assert not any("src" in attributes for _, attributes in reader.tags)


def test_nothing_can_run(html: str) -> None:
    reader = PageReader(html)
    assert {tag for tag, _ in reader.tags}.isdisjoint({"script", "iframe", "object", "b"})
    assert all(link["href"].startswith("#") for link in reader.named("a"))
    assert not any(key.startswith("on") for _, attributes in reader.tags for key in attributes)
    (policy,) = [a for a in reader.named("meta") if a.get("http-equiv")]
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_is_accessible_html5(html: str) -> None:
    assert html.startswith("<!DOCTYPE html>\n<html lang=")
    reader = PageReader(html)
    assert "width=device-width" in str([a for a in reader.named("meta") if a.get("name")])
    assert len(reader.named("h1")) == len(reader.named("title")) == len(reader.named("main")) == 1
    assert len(reader.named("caption")) == len(reader.named("table"))
    assert all(a.get("scope") in ("row", "col") for a in reader.named("th"))


def test_is_utf8_that_any_xml_reader_takes(html: str) -> None:
    html.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f]", html)


# --- what it says -------------------------------------------------------------------------------


def test_every_number_of_the_table_is_there() -> None:
    text = PageReader(render_report(a_report())).text
    for words in ("83.2 ± 0.7", "82.5 to 83.9", "1.8 s", "58.3 ± 1.2", "57.1 to 59.6", "0.62 s"):
        assert words in text
    assert "mean of 3 runs" in text


def test_says_what_was_done_to_what_and_how() -> None:
    report = a_report()
    text = PageReader(render_report(report)).text
    for words in (report.title, report.subtitle, report.command, "all three steps"):
        assert words in text
    for name, value in (*report.facts, *report.versions):
        assert name in text
        assert value in text
    assert "the weights of epoch 33 were kept" in text
    assert "Gamma sets how much" in text


def test_without_an_interval_no_plus_minus() -> None:
    html = render_report(a_report(**VARIANTS["one method, one run"]))
    text = PageReader(html).text
    assert "±" not in text
    assert "3 min 20 s" in text
    assert "nan" not in text.lower().split()


@pytest.mark.parametrize(
    ("variant", "missing"),
    [
        ("no history", "Training"),
        ("history without epochs", "Training"),
        ("no gamma", "Gamma"),
        ("no best epoch", "were kept"),
        ("no confusion", "Which classes"),
        ("no methods", "Accuracy"),
    ],
)
def test_a_part_without_data_is_left_out(variant: str, missing: str) -> None:
    assert missing in PageReader(render_report(a_report())).text
    without = a_report(**VARIANTS[variant])
    if variant == "no methods":
        without = dataclasses.replace(without, history=None)  # its plot says Accuracy as well
    assert missing not in PageReader(render_report(without)).text


def test_hostile_text_is_shown_as_it_is() -> None:
    html = render_report(a_report(**VARIANTS["hostile"]))
    assert "<script" not in html
    text = PageReader(html).text
    for name in HOSTILE[:5]:
        # title, heading, command, facts, table and plots all show the very letters
        assert text.count(name) >= 6
    assert "49" not in text
    assert "nul\N{REPLACEMENT CHARACTER} and" in text


def test_two_renders_are_equal_whatever_the_users_settings() -> None:
    first = render_report(a_report())
    with matplotlib.rc_context({"font.size": 20, "svg.fonttype": "path", "axes.facecolor": "red"}):
        mine = dict(matplotlib.rcParams)
        assert render_report(a_report()) == first
        assert dict(matplotlib.rcParams) == mine


# --- plots --------------------------------------------------------------------------------------


def test_accuracy_plot_names_every_method_in_order_with_its_mean() -> None:
    words = texts(plots.accuracy_plot(a_report().methods))
    assert [word for word in words if word in ("PTA", "MLP")] == ["PTA", "MLP"]
    assert {"83.2", "58.3"} <= set(words)


def test_accuracy_plot_has_a_ring_for_each_run() -> None:
    method = a_report().methods[0]
    more = dataclasses.replace(method, accuracies=(*method.accuracies, 0.83))
    three, four = (plots.accuracy_plot([m]).count("stroke-opacity: 0.55") for m in (method, more))
    assert four - three == 1


def test_training_plot_marks_the_epochs() -> None:
    words = texts(plots.training_plot(a_history(), 33))
    assert {"epoch", "best: epoch 33", "Gamma", "Accuracy, %", "30"} <= set(words)
    assert words.count("stopping nodes") == words.count("training") == 2
    unmarked = texts(plots.training_plot(a_history(), None))
    assert not any(word.startswith("best") for word in unmarked)


def test_training_and_stopping_differ_without_colour() -> None:
    svg = plots.training_plot(a_history(), None)
    dashes = {
        colour: {
            "stroke-dasharray" in style
            for style in re.findall(f'style="([^"]*{colour}[^"]*)"', svg)
        }
        for colour in (plots.BLUE, plots.ORANGE)
    }
    assert dashes == {plots.BLUE: {False}, plots.ORANGE: {True}}


def test_confusion_plot_names_classes_twice_and_counts_every_cell() -> None:
    words = texts(plots.confusion_plot(np.array([[51, 4], [6, 39]]), ("Theory", "Rules")))
    assert words.count("Theory") == words.count("Rules") == 2
    assert {"51", "4", "6", "39", "true class", "predicted class"} <= set(words)


def test_confusion_plot_shades_by_share_of_the_row() -> None:
    svg = plots.confusion_plot(np.array([[300, 100], [0, 7]]), ("a", "b"))
    shades = [float(share) for share in re.findall(r"fill: #2f7fc1; fill-opacity: ([\d.]+)", svg)]
    np.testing.assert_allclose(shades, 0.6 * np.sqrt([0.75, 0.25, 1]), atol=1e-3)


@pytest.mark.parametrize(("n_classes", "numbered"), [(20, True), (21, False), (30, False)])
def test_confusion_plot_drops_numbers_above_twenty_classes(n_classes: int, numbered: bool) -> None:
    matrix = np.full((n_classes, n_classes), 77)
    words = texts(plots.confusion_plot(matrix, many_classes(n_classes)["class_names"]))
    assert words.count("77") == (n_classes**2 if numbered else 0)
    assert words.count("class-19") == 2


def test_of_many_classes_the_confusion_plot_has_those_that_are_confused_most() -> None:
    n_classes = 60
    matrix = 50 * np.eye(n_classes, dtype=int)
    matrix[7, 55] = 50  # half of class 7
    matrix[np.arange(10, 48), 0] = 1
    svg = plots.confusion_plot(matrix, many_classes(n_classes)["class_names"])
    words = texts(svg)
    drawn = ["class-0", "class-7", *(f"class-{code}" for code in range(10, 47)), "class-55"]
    assert [word for word in words if word.startswith("class-")] == 2 * drawn
    shades = [float(share) for share in re.findall(r"fill: #2f7fc1; fill-opacity: ([\d.]+)", svg)]
    assert min(shades) == pytest.approx(0.6 * np.sqrt(1 / 51), abs=1e-3)  # of the whole class
    assert "Confusion matrix of 60 classes: 3,000 of 3,088 nodes" in svg
    assert "the 40 classes that are confused most often are drawn" in svg
    text = PageReader(render_report(a_report(**many_classes(60)))).text
    assert "Of the 60 classes, the 40 that are confused most often are drawn." in text
    assert "most often" not in PageReader(render_report(a_report(**many_classes(40)))).text


def test_long_names_are_shortened() -> None:
    words = texts(plots.confusion_plot(np.eye(2, dtype=int), ("x" * 200, "y")))
    assert "x" * 27 + "…" in words


@pytest.mark.parametrize("colour", [plots.BLUE, plots.ORANGE])
def test_colours_stand_out_on_both_backgrounds(colour: str) -> None:
    css = (Path(page.__file__).parent / "templates/base.html.j2").read_text(encoding="utf-8")
    papers = re.findall("--paper: (#[0-9a-f]{6})", css)
    assert len(papers) == 2
    for paper in papers:
        assert contrast(paper, colour) > 3  # WCAG 2, graphical objects


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.accuracy_plot(()), "at least one method"),
        (lambda: plots.training_plot(History(), None), "at least one epoch"),
        (lambda: plots.confusion_plot(np.eye(3), ("a", "b")), r"\(3, 3\) and 2 names"),
        (lambda: plots.confusion_plot(np.zeros((0, 0)), ()), "0 names"),
    ],
)
def test_plots_of_nothing_are_refused(draw: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        draw()


# --- writing ------------------------------------------------------------------------------------


def test_writes_the_rendered_page(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert write_report(a_report(), str(path)) == path
    assert path.read_text(encoding="utf-8") == render_report(a_report())
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_overwrites_only_if_allowed(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    with pytest.raises(OutputExistsError, match=r"report\.html exists already"):
        write_report(a_report(), path, overwrite=False)
    assert path.read_text() == "before"
    write_report(a_report(), path)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_failure_leaves_the_old_page_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")

    def disk_is_full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", disk_is_full)
    with pytest.raises(OSError, match="no space left"):
        write_report(a_report(), path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    write_report(a_report(), tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").is_file()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere/report.html", "nowhere for the output report.html does not exist. Create it"),
        ("file/report.html", "does not exist"),
        ("folder", "must be a file, but .* is a folder already"),
    ],
)
def test_says_why_a_path_will_not_do(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UnwritableOutputError, match=message):
        write_report(a_report(), tmp_path / path)
