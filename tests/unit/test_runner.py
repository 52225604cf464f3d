"""Which runs there are to do, and that each is done once, alike and in sight."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from proptrain.data.splits import TEST_SEEDS
from proptrain.errors import ProptrainError
from proptrain.experiments.protocol import Run
from proptrain.experiments.remaining import remaining_seconds
from proptrain.experiments.runner import _started_workers, run_tasks
from proptrain.experiments.specs import EXPERIMENTS
from proptrain.experiments.tasks import MAX_RUNS, Task, list_tasks, runs_of, task_of
from proptrain.experiments.versions import count_cores, versions
from proptrain.experiments.worker import ONE_THREAD, run_task

LP = [Task("cora", "LP", seed, 0) for seed in TEST_SEEDS[:3]]


def made_run(task, seconds=1.0):
    return Run(
        task.dataset,
        task.method,
        task.split_seed,
        task.init_seed,
        accuracy=0.5,
        stop_accuracy=0.5,
        epochs=1,
        best_epoch=0,
        seconds=seconds,
        experiment=task.experiment,
        noise=task.noise,
        noise_kind=task.noise_kind,
        steps=task.steps,
        timed=task.timed,
    )


# --- which runs there are ---------------------------------------------------------------------


def test_a_task_is_the_identity_of_a_run_whatever_it_was_made_for():
    task = LP[0]
    assert task == replace(task, experiment="table5")
    assert hash(task) == hash(replace(task, experiment="table5"))
    for other in (
        {"dataset": "cora_ml"},
        {"method": "PTA"},
        {"split_seed": 1},
        {"init_seed": 1},
        {"steps": 2},
        {"noise": 0.0, "noise_kind": "label"},
        {"labels_per_class": 5},
        {"timed": True},
    ):
        assert task != replace(task, **other)
    assert pickle.loads(pickle.dumps(task)) == task


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_tasks_come_back_from_their_runs(name):
    for task in list_tasks([EXPERIMENTS[name]])[:20]:
        back = task_of(Run.from_json(made_run(task).to_json()))
        assert back == task
        assert back.experiment == name


def test_every_cell_of_an_experiment_has_its_runs():
    tasks = list_tasks([EXPERIMENTS["label-noise"]])
    assert len(tasks) == len(set(tasks)) == 4 * 3 * 6 * 10
    assert {task.noise for task in tasks} == {0.0, 0.1, 0.2, 0.3, 0.4, 0.5}
    assert {task.noise_kind for task in tasks} == {"label"}
    assert {task.steps for task in list_tasks([EXPERIMENTS["structure-noise"]])} == {2}
    assert list_tasks([EXPERIMENTS["table2"], EXPERIMENTS["table3"]]) == []


def test_tables_share_their_runs_and_timed_ones_among_themselves():
    def n_tasks(*names):
        return len(list_tasks(EXPERIMENTS[name] for name in names))

    assert n_tasks("table5") == 4 * 7 * 100
    assert n_tasks("table4", "table5") == 4 * 10 * 100  # MLP and APPNP are in both
    assert n_tasks("table4", "table5", "table8", "initialisation") == 4 * 12 * 100
    assert n_tasks("table6", "table7") == n_tasks("table7") == 4 * 3 * 5
    assert n_tasks("table7", "table8") == n_tasks("table7") + n_tasks("table8")


def test_results_grow_evenly():
    chosen = [
        EXPERIMENTS[name].narrowed(datasets=["pubmed", "cora"], methods=["PTA", "LP"], n_runs=n)
        for name, n in (("table5", 22), ("table8", 1))
    ]
    tasks = list_tasks(chosen)
    cells = [(dataset, method) for dataset in ("cora", "pubmed") for method in ("PTA", "LP")]
    assert [(task.dataset, task.method) for task in tasks] == cells * 22
    seeds = [(seed, 0) for seed in TEST_SEEDS] + [(TEST_SEEDS[0], 1), (TEST_SEEDS[1], 1)]
    assert [(task.split_seed, task.init_seed) for task in tasks[::4]] == seeds
    assert {task.experiment for task in tasks} == {"table5"}
    assert MAX_RUNS == 100


def test_an_experiment_finds_its_runs_among_others():
    table8 = EXPERIMENTS["table8"].narrowed(datasets=["cora"], n_runs=2)
    own = list_tasks([table8])
    others = [replace(own[0], timed=True), replace(own[0], init_seed=1), LP[0]]
    found = runs_of(table8, map(made_run, [*others, *own[:0:-1]]))
    assert [task_of(run) for run in found] == own[1:]


# --- doing them -------------------------------------------------------------------------------


def test_runs_are_what_they_are_in_this_process():
    noisy = replace(LP[0], noise_kind="structure", noise=0.5, steps=2, experiment="structure-noise")
    few = replace(LP[0], labels_per_class=5)
    tasks = [*LP, noisy, few, replace(LP[0], timed=True)]
    started = []
    runs = list(run_tasks(tasks, n_workers=2, on_start=started.append))
    assert started == tasks
    assert {task_of(run) for run in runs} == set(tasks)
    assert runs[-1].timed
    for run in runs:
        here = run_task(task_of(run), None)
        assert replace(run, seconds=0) == replace(here, seconds=0)
    assert (
        len({run.accuracy for run in runs}) == len(runs) - 1
    )  # the timed run is one of the others
    assert not multiprocessing.active_children()


def test_nothing_to_do_starts_nothing():
    assert list(run_tasks([], n_workers=2)) == []


def test_a_run_that_fails_is_named():
    message = r"nonsense on cora \(split 7, .*failed: KeyError"
    with pytest.raises(ProptrainError, match=message) as told:
        list(run_tasks([Task("cora", "nonsense", 7, 0)], n_workers=1))
    assert "run_task" in str(told.value.__cause__)  # where it happened
    assert not multiprocessing.active_children()


def test_a_process_that_dies_is_told_with_its_run():
    slow = Task("cora", "PTA", 7, 0)
    runs = run_tasks([LP[0], slow], n_workers=1)
    assert task_of(next(runs)) == LP[0]
    (worker,) = multiprocessing.active_children()
    worker.kill()
    with pytest.raises(ProptrainError, match=r"PTA on cora \(split 7, .* died \(exit code -9"):
        next(runs)


def test_workers_are_gone_when_nobody_wants_more():
    runs = run_tasks([LP[0], Task("cora", "PTA", 7, 0)], n_workers=1)
    next(runs)
    runs.close()
    assert not multiprocessing.active_children()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
def test_a_worker_has_one_thread_and_nobody_else_is_touched(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ)
    with _started_workers(1, None) as (worker,):
        content = Path(f"/proc/{worker.process.pid}/environ").read_text()
    assert dict(os.environ) == before
    assert ONE_THREAD.items() <= dict(v.split("=", 1) for v in content.split("\0") if v).items()


# --- what is left, and on what ----------------------------------------------------------------


def test_the_rest_is_estimated_from_the_same_method_on_the_same_data():
    lp, pta = LP[0], Task("pubmed", "PTA", 7, 0)
    assert remaining_seconds([lp], [], n_workers=1) is None
    done = [made_run(lp, 1.0), made_run(lp, 3.0), made_run(pta, 20.0)]
    assert remaining_seconds([], done, n_workers=2) == 0
    assert remaining_seconds([lp, pta], done, n_workers=2) == (2 + 20) / 2
    assert remaining_seconds([Task("cora", "MLP", 7, 0)], done, n_workers=1) == 11
    assert remaining_seconds([replace(pta, timed=True)] * 2, done, n_workers=2) == 40


def test_versions_name_packages_and_machine_but_no_place():
    told = versions()
    packages = ["python", "proptrain", "numpy", "scipy", "scikit-learn", "numba", "torch"]
    assert list(told) == [*packages, "cpu", "cores"]
    assert all(told.values())
    assert told["cores"] == str(count_cores())
    assert count_cores() >= 1
    assert os.uname().nodename not in told.values()
