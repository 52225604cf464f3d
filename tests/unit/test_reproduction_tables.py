"""Tables and pages of a reproduction: known runs give known verdicts, and text stays text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from proptrain.data.catalog import load_dataset
from proptrain.errors import UnwritableOutputError
from proptrain.experiments import paper
from proptrain.experiments.grid import Table, markdown
from proptrain.experiments.paper import Published
from proptrain.experiments.specs import EXPERIMENTS, Experiment
from proptrain.experiments.statistics import Estimate
from proptrain.experiments.tables import make_table, verdict
from proptrain.experiments.tasks import Task
from proptrain.report.reproduction import write_reproduction
from synthetic_runs import jitter, runs_for, wobble

VOID = {"meta", "br"}


def narrowed(name: str, **changes: Any) -> Experiment:
    return replace(EXPERIMENTS[name], datasets=("cora_ml",), **changes)


def published(task: Task) -> float:
    return paper.ACCURACY[task.method][task.dataset].mean


def row_of(table: Table, *labels: str) -> dict[str, str]:
    (row,) = [row for row in table.rows if row[: len(labels)] == labels]
    return dict(zip(table.header, row, strict=True))


# --- accuracy -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "expected"),
    [(85.0, "inside"), (85.39, "inside"), (85.41, "above"), (84.61, "inside"), (84.59, "below")],
)
def test_verdict_adds_both_half_widths(mean: float, expected: str) -> None:
    assert verdict(Published(85, 0.3), Estimate(mean, mean - 0.1, mean + 0.1)) == expected


@pytest.mark.parametrize(("offset", "expected"), [(0.0, "inside"), (3.0, "above"), (-3.0, "below")])
def test_known_means_give_known_verdicts(offset: float, expected: str) -> None:
    experiment = narrowed("table4", n_runs=20)
    runs = runs_for(experiment, lambda task: published(task) + offset + jitter(task, 0.5))
    row = row_of(make_table(experiment, runs), "cora_ml", "PTS")
    assert row["verdict"] == expected
    assert row["paper, %"] == "85.02 ± 0.24"
    assert row["runs"] == "20 of 20"
    mean = float(row["ours, %"].split(" ± ")[0])
    assert float(row["difference"].replace("−", "-")) == pytest.approx(mean - 85.02, abs=0.011)


def test_what_is_missing_is_said_and_not_judged() -> None:
    experiment = narrowed("table5", n_runs=3, methods=("PTA", "PTD", "GCN"))
    runs = [
        run
        for run in runs_for(experiment, lambda task: 80.0 + jitter(task))
        if run.method != "GCN" and not (run.method == "PTA" and run.split_seed != 2144199730)
    ]
    table = make_table(experiment, runs)
    no_runs, one_run, no_paper = (row_of(table, "cora_ml", m) for m in ("GCN", "PTA", "PTD"))
    assert (no_runs["ours, %"], no_runs["verdict"], no_runs["runs"]) == (
        "no runs yet",
        "–",
        "0 of 3",
    )
    assert (one_run["verdict"], one_run["runs"]) == ("–", "1 of 3")
    assert "±" not in one_run["ours, %"]
    assert (no_paper["paper, %"], no_paper["difference"], no_paper["verdict"]) == ("–",) * 3


@pytest.mark.parametrize(
    ("lead", "expected"), [(2.0, "PTA better"), (-2.0, "APPNP better"), (0.0, "p ≥ 0.05")]
)
@pytest.mark.parametrize("name", ["table5", "table8"])
def test_last_row_of_a_data_set_is_the_paired_test(name: str, lead: float, expected: str) -> None:
    experiment = narrowed(name, n_runs=20)
    runs = runs_for(experiment, lambda t: 80 + lead * (t.method == "PTA") + wobble(t))
    row = make_table(experiment, runs).rows[-1]
    assert row[:3] == ("cora_ml", "PTA vs APPNP", "p = 1.81 × 10⁻⁹")
    assert row[-2:] == (expected, "20 pairs")


def test_only_runs_of_both_are_paired() -> None:
    experiment = narrowed("table8", n_runs=6)
    runs = runs_for(experiment, lambda task: 80 + wobble(task))
    lost = [run for run in runs if run.method == "PTA"][:2]
    table = make_table(experiment, [run for run in runs if run not in lost])
    assert table.rows[-1][-1] == "4 pairs"


# --- the other tables ---------------------------------------------------------------------------


def test_statistics_are_measured() -> None:
    cora = load_dataset("cora")
    experiment = replace(EXPERIMENTS["table2"], datasets=("cora", "pubmed"))
    table = make_table(experiment, [], {"cora": cora, "pubmed": cora})
    assert row_of(table, "cora", "ours")["nodes"] == f"{cora.n_nodes:,}"
    assert row_of(table, "cora", "ours")["verdict"] == "–"
    assert row_of(table, "pubmed", "paper")["edges"] == "44,324"
    assert row_of(table, "pubmed", "ours")["verdict"] == "differs"
    unmeasured = row_of(make_table(experiment, []), "pubmed", "ours")
    assert unmeasured["nodes"] == unmeasured["verdict"] == "–"


def test_characteristics_stand_beside_the_papers() -> None:
    table = make_table(EXPERIMENTS["table3"], [])
    assert [row[:2] for row in table.rows[:2]] == [("MLP", "paper"), ("MLP", "ours")]
    assert row_of(table, "APPNP-noe", "paper")["ensemble"] == "×"
    assert row_of(table, "APPNP", "paper")["model weighting"] == "✓"
    assert {row[-1] for row in table.rows} <= {"", "–", "same"}


def test_times_are_medians_and_only_ratios_compare() -> None:
    seconds = {"APPNP": 6.0, "PTA": 2.0, "PTA(F)": 0.5}
    per_epoch = narrowed("table6")
    table = make_table(per_epoch, runs_for(per_epoch, published, seconds=seconds))
    assert row_of(table, "cora_ml", "APPNP")["ours"] == "60.00 ms"
    assert row_of(table, "cora_ml", "APPNP / PTA")["ours"] == "3.0 ×"
    assert row_of(table, "cora_ml", "APPNP / PTA")["paper, on a GPU"] == "8.5 ×"
    total = narrowed("table7")
    table = make_table(total, runs_for(total, published, seconds=seconds))
    assert row_of(table, "cora_ml", "PTA(F)")["ours"] == "0.50 s"
    assert row_of(table, "cora_ml", "PTA / PTA(F)")["ours"] == "4.0 ×"
    assert "verdict" not in table.header


def test_what_is_too_fast_to_time_has_no_ratio() -> None:
    experiment = narrowed("table7")
    table = make_table(experiment, runs_for(experiment, published, seconds={"PTA": 0.0}))
    assert row_of(table, "cora_ml", "APPNP / PTA")["ours"] == "–"


def test_times_ignore_runs_that_were_not_timed() -> None:
    experiment = narrowed("table7")
    untimed = [replace(run, timed=False) for run in runs_for(experiment, published)]
    assert row_of(make_table(experiment, untimed), "cora_ml", "PTA")["ours"] == "no runs yet"


def test_figures_have_their_numbers_as_a_table() -> None:
    experiment = narrowed("label-noise")
    runs = runs_for(experiment, lambda task: 80 - 100 * (task.noise or 0) / 5)
    assert row_of(make_table(experiment, runs), "cora_ml", "PTS")["50 %"] == "70.0 ± 0.0"
    boxes = narrowed("initialisation", n_runs=40)
    runs = runs_for(boxes, lambda task: 80 + task.init_seed)
    row = row_of(make_table(boxes, runs), "cora_ml", "PTD")
    assert (row["median, %"], row["middle half, %"]) == ("80.50", "80.00 to 81.00")
    assert row["spread"] == "0.71"  # of 0 and 1 in each split


# --- Markdown -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_markdown_has_as_many_cells_in_every_row(name: str) -> None:
    experiment = EXPERIMENTS[name]
    runs = runs_for(replace(experiment, n_runs=2), lambda task: 80 + wobble(task))
    table = make_table(experiment, runs)
    lines = table.to_markdown().split("\n\n")[0].split("\n")
    assert {line.count("|") for line in lines} == {len(table.header) + 1}
    assert len(lines) == len(table.rows) + 2
    assert "nan" not in table.to_markdown().lower()


def test_a_group_is_named_once() -> None:
    table = Table("t", ("a", "b", "c"), (("x", "1", "2"), ("x", "3", "4")), n_labels=2)
    assert table.to_markdown().split("\n")[2:] == ["| x | 1 | 2 |", "|  | 3 | 4 |"]


def test_markdown_shows_the_very_letters() -> None:
    assert markdown("a|b\n<i>`x`*") == "a\\|b &lt;i&gt;\\`x\\`\\*"


# --- the pages ----------------------------------------------------------------------------------


class Page(HTMLParser):
    """Reads a page and complains when tags do not pair up."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.tags: set[str] = set()
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in self.open
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def partial_results() -> tuple[list[Experiment], list[Any]]:
    """Return every experiment with three runs of PTA, and none of GCN and DAGNN."""
    experiments = [replace(one, n_runs=min(one.n_runs, 6)) for one in EXPERIMENTS.values()]
    few = [replace(one, n_runs=3) for one in experiments]
    runs = {
        run: None
        for one in (*few, *experiments)
        for run in runs_for(one, lambda task: 80 + wobble(task))
        if run.method not in ("GCN", "DAGNN") and (one in few or run.method != "PTA")
    }
    return experiments, list(runs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "new"
    experiments, runs = partial_results()
    cora = load_dataset("cora")
    written = write_reproduction(
        experiments,
        runs,
        folder,
        versions={"<python>": "3.11 & more"},
        command="proptrain reproduce all --note '<script>```|'",
        datasets={"cora_ml": cora},
    )
    assert {str(path.relative_to(folder)) for path in written} == {
        "README.md",
        "report.html",
        *(f"figures/{one.name}.svg" for one in experiments if one.kind in ("curve", "box")),
    }
    assert sorted(path for path in folder.rglob("*") if path.is_file()) == sorted(written)
    return folder


def test_markdown_page_links_its_figures_and_closes_its_fence(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert len(links) == 4
    assert all((folder / link).is_file() for link in links)
    assert text.count("\n````\n") == 2
    assert "&lt;python&gt; 3.11 &amp; more" in text
    assert "no runs yet" in text
    assert "are missing" in text
    assert "Not measured." in text


def test_html_page_is_sound_and_loads_nothing(folder: Path) -> None:
    html = (folder / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    assert page.tags.isdisjoint({"script", "iframe", "object", "img", "link", "a"})
    assert not any(name == "src" or name.startswith("on") for name, _ in page.attributes)
    assert "://" not in html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert "&lt;script&gt;" in html
    assert html.count("<svg") == 4


def test_both_pages_say_the_same_numbers(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    html = (folder / "report.html").read_text(encoding="utf-8")
    numbers = re.findall(r"\d+\.\d\d ± \d+\.\d\d", text)
    assert numbers
    assert set(numbers) <= set(re.findall(r"\d+\.\d\d ± \d+\.\d\d", html))


def test_figures_are_files_of_their_own(folder: Path) -> None:
    for path in (folder / "figures").iterdir():
        root = ET.fromstring(path.read_text(encoding="utf-8"))
        names = [child.tag.rpartition("}")[2] for child in root]
        assert names[:3] == ["title", "desc", "rect"]
        assert root[0].text
        assert root[1].text
        assert root[2].get("fill") == "#ffffff"


def test_counts_done_and_missing(tmp_path: Path) -> None:
    experiment = narrowed("table8", n_runs=4)  # three methods
    runs = runs_for(experiment, lambda task: 80 + wobble(task))[:-5]
    write_reproduction([experiment], runs, tmp_path, versions={}, command="x")
    assert "7 runs are done, 5 are missing" in (tmp_path / "README.md").read_text(encoding="utf-8")
    write_reproduction(  # and again over what is there
        [experiment], [], tmp_path, versions={}, command="x"
    )
    assert "0 runs are done, 12 are missing" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_a_file_in_the_way_is_our_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(UnwritableOutputError):
        write_reproduction([], [], tmp_path / "taken", versions={}, command="x")
