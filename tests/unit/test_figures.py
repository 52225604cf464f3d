"""Figures: every method is drawn and can be told from the others without colour."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from contrast import contrast
from proptrain.data.catalog import load_dataset
from proptrain.data.noise import noise_rate
from proptrain.experiments.specs import EXPERIMENTS, Experiment
from proptrain.report import page, svg
from proptrain.report.figures import _LOOKS, _looks, make_figure
from proptrain.report.svg import standalone_svg
from synthetic_runs import runs_for, wobble

CURVES = [one.name for one in EXPERIMENTS.values() if one.kind == "curve"]
FIGURES = [one.name for one in EXPERIMENTS.values() if one.kind in ("curve", "box")]
DASHED = "stroke-dasharray: 3.6,2.7"
"""The graph's own rate: 4 and 3 times its width."""


def few(name: str, *datasets: str) -> Experiment:
    return replace(EXPERIMENTS[name], n_runs=4, datasets=datasets or EXPERIMENTS[name].datasets)


def drawn(experiment: Experiment, **settings: object) -> str:
    runs = runs_for(experiment, lambda t: 90 - 40 * (t.noise or 0) + wobble(t))
    return make_figure(experiment, runs, **settings)  # type: ignore[arg-type]


def texts(figure: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(figure).iter() if _is(element, "text")]


def _is(element: ET.Element, name: str) -> bool:
    return element.tag.rpartition("}")[2] == name


def long_lines(figure: str) -> list[str]:
    """Return the styles of the lines through many points that are clipped to a panel."""
    paths = [e for e in ET.fromstring(figure).iter() if _is(e, "path") and "clip-path" in e.attrib]
    return [path.get("style", "") for path in paths if path.get("d", "").count("L") > 2]


@pytest.mark.parametrize("name", CURVES)
def test_one_line_for_each_method_and_panel(name: str) -> None:
    experiment = few(name, "citeseer", "cora_ml")
    lines = long_lines(drawn(experiment))
    assert len(lines) == 2 * len(experiment.methods)
    dashes = {match[0] if (match := re.search("dasharray: [^;]*", s)) else "" for s in lines}
    assert len(dashes) == len(experiment.methods)


@pytest.mark.parametrize("name", CURVES)
def test_every_method_is_in_the_legend_and_every_data_set_has_a_panel(name: str) -> None:
    words = texts(drawn(few(name)))
    assert {*EXPERIMENTS[name].methods, *EXPERIMENTS[name].datasets} <= set(words)
    assert words.count("accuracy, %") == 2


def test_looks_differ_in_marker_and_dashes_alone() -> None:
    methods = [*_LOOKS, "DAGNN", "SGCN", "LP", "PTD"]
    looks = _looks(methods).values()
    assert len({look["marker"] for look in looks}) == len(methods)
    assert len({str(look["linestyle"]) for look in looks}) == len(methods)


def test_the_graphs_own_rate_is_a_dashed_line_with_its_number() -> None:
    cora = load_dataset("cora")
    experiment = few("structure-noise", "cora_ml")
    figure = drawn(experiment, datasets={"cora_ml": cora})
    assert figure.count(DASHED) == 1
    rate = noise_rate(cora.graph, cora.labels)
    assert f"graph: {100 * rate:.0f} %" in texts(figure)
    assert DASHED not in drawn(experiment)
    assert DASHED not in drawn(few("label-noise", "cora_ml"), datasets={"cora_ml": cora})


def test_boxes_are_labelled_with_method_and_runs() -> None:
    experiment = few("initialisation", "cora_ml")
    runs = runs_for(experiment, lambda task: 80 + wobble(task))
    kept = [run for run in runs if run.method != "PTD"][:-1]
    words = texts(make_figure(experiment, kept))
    assert set(experiment.methods) <= set(words)
    assert {"n = 4", "n = 3", "n = 0"} <= set(words)
    assert "no runs yet" not in words


def test_a_run_far_below_flattens_no_box_and_is_counted() -> None:
    experiment = replace(few("initialisation", "cora_ml"), n_runs=20)
    runs = runs_for(experiment, lambda task: 80 + wobble(task))
    place = next(i for i, run in enumerate(runs) if run.method == "PTD")
    lost = [*runs[:place], replace(runs[place], accuracy=0.4), *runs[place + 1 :]]
    whole, cut = (make_figure(experiment, some) for some in (runs, lost))
    assert "↓ 1" in texts(cut)
    assert not any("↓" in word for word in texts(whole))
    numbers = [float(word) for word in texts(cut) if re.fullmatch(r"\d+(\.\d+)?", word)]
    assert min(numbers) > 70  # on the axis
    assert "40.0" in ET.fromstring(cut).findtext(".//{*}desc", "")  # those who hear it are told


def turned_words(figure: str) -> list[str]:
    root = ET.fromstring(figure)
    turned = [
        e for e in root.iter() if _is(e, "text") and "rotate(-90" in (e.get("transform") or "")
    ]
    return [element.text or "" for element in turned]


@pytest.mark.parametrize(
    ("methods", "stand"),
    [
        (("APPNP", "PTS", "PTD", "PTA"), False),
        (("APPNP-noa-nof", "PTA"), False),
        (("APPNP-noa-nof", "PTS", "PTA"), True),
        (("MLP", "GCN", "SGCN", "DAGNN", "PTS", "PTA"), True),
    ],
)
def test_names_without_room_stand_upright(methods: tuple[str, ...], stand: bool) -> None:
    figure = drawn(replace(few("initialisation", "cora_ml"), methods=methods))
    upright = [word for word in turned_words(figure) if "n = 4" in word]
    assert upright == [f"{method}, n = 4" for method in methods] * stand


def test_the_legend_has_room_for_every_method() -> None:
    methods = ("MLP", "GCN", "SGCN", "DAGNN", "APPNP", "APPNP-noa-nof", "PTS", "PTA")
    root = ET.fromstring(drawn(replace(few("label-noise", "cora_ml"), methods=methods)))
    words = {e.text: e for e in root.iter() if _is(e, "text")}
    x, y = (
        {name: float(words[name].get(axis, "nan")) for name in (*methods, "cora_ml")}
        for axis in ("x", "y")
    )
    assert all(x[name] + svg.text_width([name]) <= svg.WIDTH for name in methods)
    assert all(y[name] < y["cora_ml"] - svg.FONT_SIZE for name in methods)


@pytest.mark.parametrize("name", FIGURES)
def test_without_runs_it_says_so(name: str) -> None:
    figure = make_figure(EXPERIMENTS[name], [])
    assert texts(figure).count("no runs yet") == len(EXPERIMENTS[name].datasets)
    assert "nan" not in figure.lower()


@pytest.mark.parametrize("name", FIGURES)
def test_one_run_has_no_interval_but_is_drawn(name: str) -> None:
    experiment = replace(few(name, "cora_ml"), n_runs=1)
    figure = drawn(experiment)
    assert "nan" not in figure.lower()
    assert "no runs yet" not in texts(figure)


@pytest.mark.parametrize("name", FIGURES)
def test_is_told_to_those_who_do_not_see_it(name: str) -> None:
    experiment = few(name, "cora_ml")
    root = ET.fromstring(drawn(experiment))
    assert root.get("role") == "img"
    assert experiment.title in (root.get("aria-label") or "")
    assert _is(root[0], "desc")
    assert all(f"cora_ml, {method}: " in (root[0].text or "") for method in experiment.methods)


@pytest.mark.parametrize("name", FIGURES)
def test_takes_the_pages_colour_inline_and_brings_its_own_as_a_file(name: str) -> None:
    figure = drawn(few(name, "cora_ml"))
    assert "currentColor" in figure
    assert svg.INK not in figure
    file = standalone_svg(figure)
    root = ET.fromstring(file)
    assert root.get("color") == "#1c1f23"
    assert file.count("xmlns=") == 1
    assert "http" not in file.replace('"http://www.w3.org/2000/svg"', "")


@pytest.mark.parametrize("name", FIGURES)
def test_letters_are_large_enough_and_panels_aligned(name: str) -> None:
    figure = drawn(few(name))
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", figure)]
    assert sizes
    assert min(sizes) >= 8
    words = [e for e in ET.fromstring(figure).iter() if _is(e, "text")]
    x = {e.text: e.get("x") for e in words if e.text in EXPERIMENTS[name].datasets}
    assert len(x) == len(EXPERIMENTS[name].datasets) >= 3
    assert x["citeseer"] == x["pubmed"]
    assert x["cora_ml"] == x.get("ms_academic", x["cora_ml"])


def test_is_drawn_the_same_every_time() -> None:
    assert drawn(few("label-noise", "cora_ml")) == drawn(few("label-noise", "cora_ml"))


@pytest.mark.parametrize("colour", [svg.GREEN, svg.PURPLE])
def test_colours_stand_out_on_both_backgrounds(colour: str) -> None:
    css = (Path(page.__file__).parent / "templates/base.html.j2").read_text(encoding="utf-8")
    for paper in re.findall("--paper: (#[0-9a-f]{6})", css):
        assert contrast(paper, colour) > 3  # WCAG 2, graphical objects
