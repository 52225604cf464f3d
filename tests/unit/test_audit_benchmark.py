"""The audit's benchmark: what is counted, what is resumed, and the tables that come of it."""

from __future__ import annotations

import json
import sys
from functools import partial

import numpy as np
import pytest
from benchmarks.audit import __main__ as command
from benchmarks.audit import measure as measuring
from benchmarks.audit.measure import CLEANLAB, _precision
from benchmarks.audit.tables import RANKINGS, to_markdown
from benchmarks.audit.task import Done, list_tasks, read_done

from commands import runner
from proptrain import PTAClassifier
from proptrain.data.splits import TEST_SEEDS, VALIDATION_SEEDS


def made_up(task, _data_dir=None):
    """Numbers for a task, as if they had been measured: the audit is 0.1 better than all others."""
    if task.kind == "none":
        return {
            "temperature": 0.4,
            **{"error before": 0.3, "error after": 0.05},
            **{"accuracy before": 0.8, "accuracy after": 0.8},
        }
    share = 0.9 if task.dataset == "cora_ml" else 0.8
    measured = {
        f"{what} {name}": share - 0.1 for what in ("auroc", "precision") for name in RANKINGS
    }
    measured |= {"auroc audit": share, "precision audit": share}
    measured |= {"suspects": 0.25, "suspects wrong": 0.75}
    measured |= {"wrong suspected": 0.6, "suggested right": 0.7}
    for setting in ("labels alone", "protocol"):
        measured |= {f"accuracy before, {setting}": 0.7, f"accuracy after, {setting}": 0.725}
    return measured


def test_tasks_go_seed_by_seed_and_leave_test_nodes_alone_for_tuning():
    tasks = list_tasks(["citeseer", "cora_ml"], 2, validation=False)
    assert len(tasks) == len(set(tasks)) == 2 * 2 * (1 + 2 * 3)
    assert [task.seed for task in tasks] == [TEST_SEEDS[0]] * 14 + [TEST_SEEDS[1]] * 14
    assert not any(task.validation for task in tasks)
    tuning = list_tasks(["citeseer"], 20, validation=True)
    assert {task.seed for task in tuning} == set(VALIDATION_SEEDS)
    assert all(task.validation for task in tuning)


def test_precision_is_that_of_as_many_as_are_wrong():
    is_wrong = np.array([True, False, True, False, False])
    assert _precision(is_wrong, np.array([0.9, 0.1, 0.8, 0.2, 0.3])) == 1
    assert _precision(is_wrong, np.array([0.9, 0.1, 0.2, 0.8, 0.3])) == 0.5
    assert _precision(is_wrong, np.array([0.1, 0.9, 0.2, 0.8, 0.3])) == 0


def test_tables_tell_the_means():
    tasks = list_tasks(["cora_ml", "citeseer"], 3, validation=False)
    page = to_markdown([Done(task, made_up(task), "abc") for task in tasks])
    assert "| citeseer | 0.8000 | 0.7000 | 0.7000 | +0.1000 (+0.1000 to +0.1000) | 3 |" in page
    assert page.index("| citeseer |") < page.index("| cora_ml |")
    others = "0.800 |" + " 0.700 |" * (len(RANKINGS) - 1)
    assert f"| citeseer | uniform 10 % | {others} 3 |" in page
    assert "|  | pair 30 % |" in page
    assert "| 70.00 | 72.50 | 2.50 ± 0.00 | 70.00 | 72.50 | 2.50 ± 0.00 | 3 |" in page
    assert "| mean | 30.00 | 5.00 | 80.00 | 80.00 |" in page
    assert "42 tasks, made by the code abc." in page


def test_one_split_has_no_interval():
    tasks = list_tasks(["cora_ml"], 1, validation=False)
    page = to_markdown([Done(task, made_up(task), "abc") for task in tasks])
    assert "| cora_ml | 0.9000 | 0.8000 | 0.8000 | +0.1000 | 1 |" in page
    assert "nan" not in page


def test_a_split_that_lacks_some_noise_is_in_no_mean_over_all_noise():
    tasks = (
        list_tasks(["cora_ml"], 2, validation=False)[:-1]
        + list_tasks(["pubmed"], 1, validation=False)[:3]
    )
    page = to_markdown([Done(task, made_up(task), "abc") for task in tasks])
    means = page.split("###")[1]
    assert "| cora_ml | 0.9000 | 0.8000 | 0.8000 | +0.1000 | 1 |" in means
    assert "pubmed" not in means


def test_every_ranking_of_cleanlab_has_its_column():
    named = {f"cleanlab {method}{', adjusted' * adjusted}" for method, adjusted in CLEANLAB}
    assert named == {name for name in RANKINGS if name.startswith("cleanlab")}


@pytest.fixture
def run(monkeypatch, capsys):
    return runner(monkeypatch, capsys, app=command.app)


def test_what_is_in_the_file_is_not_measured_again(run, tmp_path, monkeypatch):
    measured = []

    def count(task, data_dir):
        measured.append(task)
        if len(measured) == 4:
            raise KeyboardInterrupt
        return made_up(task)

    monkeypatch.setattr(measuring, "measure", count)
    out = tmp_path / "runs.jsonl"
    with pytest.raises(KeyboardInterrupt):
        command._run(list_tasks(["cora"], 1, validation=False), out, None)
    assert len(read_done(out)) == 3
    assert run("--dataset", "cora", "--seeds", 1, "--out", out)[0] == 0
    assert len(measured) == 4 + 4
    done = read_done(out)
    assert [one.task for one in done] == list_tasks(["cora"], 1, validation=False)
    first = json.loads(out.read_text().splitlines()[0])
    assert (first["dataset"], first["kind"], first["measured"]["temperature"]) == (
        "cora",
        "none",
        0.4,
    )
    code, text = run("--show", out)
    assert code == 0
    assert "### Mean AUROC" in text.out


def test_messages(run, tmp_path, monkeypatch):
    assert "either where to write" in run()[1].err
    (tmp_path / "other.jsonl").write_text('{"dataset": "cora"}\n')
    code, text = run("--show", tmp_path / "other.jsonl")
    assert code == 1
    assert "Line 1 of" in text.err
    monkeypatch.setitem(sys.modules, "cleanlab.rank", None)
    monkeypatch.delitem(sys.modules, "benchmarks.audit.measure")
    code, text = run("--dataset", "cora", "--out", tmp_path / "runs.jsonl")
    assert code == 1
    assert "cleanlab.rank, which is not installed" in text.err


def test_one_task_of_each_kind_is_measured_on_cora(monkeypatch):
    monkeypatch.setattr(measuring, "PTAClassifier", partial(PTAClassifier, max_epochs=40))
    calibration, *noisy = list_tasks(["cora"], 3, validation=True)
    told = measuring.measure(calibration, None)
    assert told["error after"] < told["error before"] / 2
    assert told["accuracy after"] == told["accuracy before"]
    tasks = [task for task in noisy if (task.kind, task.rate) == ("pair", 0.3)]
    gains = []
    for task in tasks:
        told = measuring.measure(task, None)
        assert {f"auroc {name}" for name in RANKINGS} <= told.keys()
        assert told["auroc audit"] > told["auroc predict_proba"]
        gains += [
            told[f"accuracy after, {how}"] - told[f"accuracy before, {how}"]
            for how in ("labels alone", "protocol")
        ]
    assert len(gains) == 6
    assert np.mean(gains) > 0  # of one split it is chance: so few epochs end anywhere
