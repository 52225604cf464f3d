"""PTA reaches the paper's accuracy; the full protocol is in docs/results."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from proptrain.data.catalog import load_dataset
from proptrain.data.splits import TEST_SEEDS
from proptrain.experiments.methods import METHODS
from proptrain.experiments.protocol import Protocol, run_once
from proptrain.experiments.statistics import bootstrap_mean

PAPER = {"citeseer": 0.7598, "cora_ml": 0.8590}
PAPER_INTERVALS = {  # mean and half-width of Table 5, and how many runs we recorded
    "citeseer": (0.7598, 0.0024, 20),
    "cora_ml": (0.8590, 0.0021, 20),
    "pubmed": (0.7989, 0.0031, 20),
    "ms_academic": (0.9364, 0.0008, 10),
}
RESULTS = Path(__file__).parents[2] / "docs" / "results" / "core"


@pytest.mark.parametrize("name", PAPER_INTERVALS)
def test_the_recorded_runs_lie_in_the_papers_interval_widened_by_ours(name):
    mean, half_width, n_runs = PAPER_INTERVALS[name]
    runs = [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]
    assert {run["split_seed"] for run in runs} == set(TEST_SEEDS[:n_runs])
    assert len(runs) == n_runs
    ours = bootstrap_mean([run["accuracy"] for run in runs])
    assert abs(ours.mean - mean) <= half_width + ours.half_width
    written = f"{100 * ours.mean:.2f} ± {100 * ours.half_width:.2f}"
    for page in (RESULTS / "README.md", RESULTS.parents[2] / "README.md"):
        assert f"| {written} |" in page.read_text(encoding="utf-8")


@pytest.mark.skipif(
    not os.environ.get("PROPTRAIN_DATA"),
    reason="set PROPTRAIN_DATA to the folder with the paper's data sets",
)
@pytest.mark.parametrize("name", PAPER)
def test_five_splits_lie_near_the_papers_mean(name):
    dataset = load_dataset(name)
    runs = [run_once(dataset, METHODS["PTA"], Protocol(), seed, 0)[0] for seed in TEST_SEEDS[:5]]
    # Splits differ by about 1.3 points (standard deviation), so the mean of five by 0.6.
    assert np.mean([run.accuracy for run in runs]) == pytest.approx(PAPER[name], abs=0.018)


def test_on_the_shipped_graph_features_and_edges_together_beat_either():
    dataset = load_dataset("cora")
    accuracy = {
        name: run_once(dataset, METHODS[name], Protocol(), TEST_SEEDS[0], 0)[0].accuracy
        for name in ("LP", "MLP", "PTA")
    }
    assert accuracy["PTA"] > accuracy["LP"] + 0.05 > accuracy["MLP"] + 0.1
    assert accuracy["PTA"] == pytest.approx(0.847, abs=0.015)
