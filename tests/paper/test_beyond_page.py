"""docs/beyond.md: its tables and intervals are what the recorded runs come to."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean

import pytest

from proptrain.experiments.findings import Outcome, is_ahead
from proptrain.experiments.grid import plus_minus, scientific, signed
from proptrain.experiments.paper import ACCURACY
from proptrain.experiments.samples import epoch_ratio, margins, paired, percentages, select
from proptrain.experiments.specs import DATASETS, EXPERIMENTS
from proptrain.experiments.statistics import bootstrap_clusters, bootstrap_mean, paired_p_value
from proptrain.experiments.store import read_runs
from proptrain.experiments.tasks import runs_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "beyond.md").read_text(encoding="utf-8")
MEASURED = ("citeseer", "cora_ml")
ABLATION = {
    "PTA with a fixed total mass": "PTA, fixed mass",
    "PTA with trust": "PTA, trust",
    "PTA with balance, and a fixed mass (`PTA, balance`)": "PTA, balance",
    "PTA with the root of the mass, and a fixed mass (`PTA, mass^0.5`)": "PTA, mass^0.5",
    "PTA unclamped": "PTA, unclamped",
    "PTA of three networks": "PTA, 3 networks",
    "PTA with one further round": "PTA, 1 round",
    "PTA with two further rounds": "PTA, 2 rounds",
    "the same with `learnt_trust`": "PTA, 2 rounds, S_j",
    "PTA+": "PTA+",
}
WRONG = {
    "": "wrong-labels",
    "stopping labels too: ": "wrong-stopping",
    "pair: ": "wrong-labels-pair",
    "pair, stopping labels too: ": "wrong-stopping-pair",
}


@pytest.fixture(scope="module")
def runs():
    return read_runs(DOCS / "results" / "beyond" / "runs.jsonl")


def table_after(header):
    """Return the rows of cells below the header that starts so, but for the ruler."""
    rows = PAGE.split(f"\n| {header} ")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def first_runs(experiment, runs, n=10):
    return runs_of(EXPERIMENTS[experiment].narrowed(n_runs=n), runs)


def check_row(own, dataset, method, points, cells):
    """Compare a row of accuracies, in bold where the method is clearly ahead of all others."""
    for point, cell in zip(points, cells, strict=True):
        mine = select(own, dataset, method, point)
        told = f"{fmean(percentages(mine)):.1f}"
        assert cell.strip("*") == told, (dataset, method, point)
        others = {run.method for run in own if (run.dataset, run.point) == (dataset, point)}
        leads = all(
            is_ahead({"": mine, other: select(own, dataset, other, point)}).outcome is Outcome.HOLDS
            for other in others - {method}
        )
        assert cell.startswith("**") == leads, (dataset, method, point)


def test_the_papers_protocol(runs):
    rows = table_after("data set | PTA, paper")
    assert [row[0] for row in rows] == list(DATASETS)
    own = runs_of(EXPERIMENTS["plus"], runs)
    for dataset, *cells in rows:
        pta, plus = (select(own, dataset, method) for method in ("PTA", "PTA+"))
        ours = bootstrap_mean(percentages(plus))
        by_split = [fmean(values) for values in margins(plus, pta).values()]
        p_values = (
            paired_p_value(*paired(plus, pta)),
            paired_p_value(by_split, [0.0] * len(by_split)),
        )
        assert cells == [
            f"{ACCURACY['PTA'][dataset].mean:.2f}",
            f"{fmean(percentages(pta)):.2f}",
            plus_minus(ours.mean, ours.half_width),
            signed(ours.mean - fmean(percentages(pta))),
            *(scientific(float(f"{p:.0e}")).replace(".00", "") for p in p_values),
            f"{epoch_ratio(plus, pta):.1f}",
        ]


@pytest.mark.parametrize(
    ("experiment", "header", "points"),
    [
        ("few-labels", "labels per class, and 500 to stop by", (1, 2, 5, 10)),
        ("labels-alone", "labels per class, and no others", (1, 2, 5, 10, 20)),
    ],
)
def test_few_labels(runs, experiment, header, points):
    own, dataset, seen = first_runs(experiment, runs), "", []
    for name, *cells in table_after(header):
        dataset, method = name.split(": ") if ": " in name else (dataset, name)
        method, _, told = method.partition(", ")
        counts = [len(select(own, dataset, method, point)) for point in points]
        assert counts == [int(told.removesuffix(" runs") or 10)] * len(points), name
        check_row(own, dataset, method, points, cells)
        seen.append((dataset, method))
    assert seen == [
        (name, method) for name in MEASURED for method in EXPERIMENTS[experiment].methods
    ]


def test_wrong_labels(runs):
    own = {name: first_runs(name, runs) for name in WRONG.values()}
    dataset, kind, seen = "", "", []
    for label, *cells in table_after("wrong labels"):
        *of, method = label.split(": ")
        if of and of[0] in MEASURED:
            dataset, *of = of
            kind = ""
        kind = f"{of[0]}: " if of else kind
        check_row(own[WRONG[kind]], dataset, method, (0.1, 0.2, 0.3, 0.4, 0.5), cells)
        seen.append((dataset, kind, method))
    pairs = [(kind, method) for kind in WRONG for method in ("PTA", "PTA+")]
    assert seen == [(one, *pair) for one in MEASURED for pair in [("", "APPNP"), *pairs]]


def test_what_each_ingredient_brings(runs):
    rows, own = table_after("| citeseer | cora_ml"), first_runs("ablation", runs)
    assert [name for name, *_ in rows] == list(ABLATION)
    for name, *cells in rows:
        for dataset, cell in zip(MEASURED, cells, strict=True):
            values = margins(select(own, dataset, ABLATION[name]), select(own, dataset, "PTA"))
            brought = bootstrap_clusters(values.values())
            assert len(values) == 10
            assert cell == f"{signed(brought.mean, 1)} ± {brought.half_width:.1f}", (name, dataset)


def test_each_interval_is_that_of_a_paired_difference(runs):
    made = set()
    for experiment in ("labels-alone", *WRONG.values(), "ablation", "ablation-wrong"):
        own = first_runs(experiment, runs)
        for dataset in MEASURED:
            for point in EXPERIMENTS[experiment].points or (None,):
                first = select(own, dataset, "PTA+", point)
                for method in EXPERIMENTS[experiment].methods:
                    other = select(own, dataset, method, point)
                    for values in (margins(first, other), margins(other, first)):
                        if values and method != "PTA+":
                            one = bootstrap_clusters(values.values())
                            made.add(f"[{signed(one.low)}, {signed(one.high)}]")
    told = re.findall(r"\[[+−]\d[^]]*, [+−]\d[^]]*\]", PAGE)
    of_cora = PAGE.split("On Cora, which ships")[1].split("\n\n")[0]  # whose runs are not recorded
    unknown = [one for one in told if one not in made and one not in of_cora]
    assert len(told) > 10
    assert not unknown
