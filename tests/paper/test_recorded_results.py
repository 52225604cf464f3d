"""Our recorded results: the pages are what the runs come to, and what we say of them is so."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from proptrain.cli import app
from proptrain.experiments.findings import is_significantly_ahead
from proptrain.experiments.samples import select
from proptrain.experiments.specs import DATASETS, EXPERIMENTS, GROUPS
from proptrain.experiments.store import read_runs
from proptrain.experiments.tables import make_table
from proptrain.experiments.tables.accuracy import OUTSIDE
from proptrain.experiments.tasks import runs_of

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module", params=["paper", "beyond"])
def results(request):
    """The raw results of a folder, its page, and the experiments that are in it."""
    folder = DOCS / "results" / request.param
    experiments = GROUPS["all" if request.param == "paper" else "beyond"]
    page = (folder / "README.md").read_text(encoding="utf-8")
    return read_runs(folder / "runs.jsonl"), page, experiments


@pytest.fixture(scope="module")
def runs():
    return read_runs(DOCS / "results" / "paper" / "runs.jsonl")


def test_the_pages_have_the_tables_of_the_raw_results(results):
    runs, page, experiments = results
    for experiment in experiments:
        if experiment.has_runs:
            rows, *_ = make_table(experiment, runs).to_markdown().split("\n\n")
            assert rows in page, f"{experiment.name}: proptrain reproduce … --as-is makes it anew"


@pytest.mark.skipif(
    not os.environ.get("PROPTRAIN_DATA"),
    reason="set PROPTRAIN_DATA to the folder with the paper's data sets",
)
@pytest.mark.parametrize(("name", "group"), [("paper", "all"), ("beyond", "beyond")])
def test_pages_and_figures_are_what_the_raw_results_come_to(name, group, tmp_path):
    kept, folder = DOCS / "results" / name, tmp_path / "docs" / "results" / name
    folder.mkdir(parents=True)
    (tmp_path / "docs" / "deviations.md").touch()  # which the page has a link to
    shutil.copy(kept / "runs.jsonl", folder)
    words = ["reproduce", group, "--as-is", "--out", str(folder)]
    assert CliRunner().invoke(app, words).exit_code == 0

    def told(page):
        *all_else, versions = (page / "README.md").read_text(encoding="utf-8").split("\n\n")
        assert "proptrain" in versions  # those of the machine at hand
        return all_else

    assert told(folder) == told(kept), f"proptrain reproduce {group} --as-is makes it anew"
    figures = sorted(path.name for path in (folder / "figures").iterdir())
    assert figures == sorted(path.name for path in (kept / "figures").iterdir())
    for figure in figures:
        assert (folder / "figures" / figure).read_bytes() == (
            kept / "figures" / figure
        ).read_bytes()


def test_every_mean_that_is_not_the_papers_is_named_with_its_reason(runs):
    tables = [make_table(EXPERIMENTS[name], runs) for name in ("table4", "table5", "table8")]
    outside = {
        f"{method} on {dataset}, {difference}"
        for table in tables
        for dataset, method, _, _, difference, verdict, _ in table.rows
        if verdict in OUTSIDE
    }
    page = (DOCS / "deviations.md").read_text(encoding="utf-8")
    _, section = page.split("### Means that are not the paper's\n")
    named = re.findall(r"^\* \*\*(.+)\.\*\*", section.split("\n#")[0], flags=re.MULTILINE)
    assert {cell for line in named for cell in line.split("; ")} == outside


@pytest.mark.parametrize("dataset", DATASETS)
def test_pta_is_better_than_appnp_by_the_papers_test(runs, dataset):
    own = runs_of(EXPERIMENTS["table5"], runs)
    finding = is_significantly_ahead(
        {name: select(own, dataset, name) for name in ("PTA", "APPNP")}
    )
    assert finding.outcome == "holds"
