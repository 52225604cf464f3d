"""Our recorded results: the pages are what the runs come to, and what we say of them is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
