"""Which runs there are to do, and that each is done once, alike and in sight."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import platform
import shutil
import time
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.progress import Progress

import proptrain
from processes import HANGS
from proptrain.cli.runs import _Progress
from proptrain.data.catalog import CATALOG
from proptrain.data.splits import TEST_SEEDS, VALIDATION_SEEDS, seeds_for
from proptrain.experiments import protocol as protocol_module
from proptrain.experiments import versions as versions_module
from proptrain.experiments import worker as worker_module
from proptrain.experiments.methods import METHODS
from proptrain.experiments.protocol import Protocol, Run, run_once
from proptrain.experiments.remaining import remaining_seconds
from proptrain.experiments.runner import Failure, _started_workers, run_tasks
from proptrain.experiments.specs import EXPERIMENTS, find_experiments
from proptrain.experiments.store import open_store
from proptrain.experiments.tasks import MAX_RUNS, Task, canonical, list_tasks, runs_of, task_of
from proptrain.experiments.versions import (
    SOURCES,
    _digest_of,
    code_digest,
    count_cores,
    made_with,
    versions,
)
from proptrain.experiments.worker import ONE_THREAD, _load, _warm_up, run_task

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
        labels_per_class=task.labels_per_class,
        labels_alone=task.labels_alone,
        noise_kind=task.noise_kind,
        steps=task.steps,
        timed=task.timed,
        validation=task.validation,
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
        {"labels_alone": True},
        {"timed": True},
        {"validation": True},
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
    kinds = {(task.noise_kind, task.noise) for task in tasks}
    assert kinds == {(None, None), *(("label", rate) for rate in (0.1, 0.2, 0.3, 0.4, 0.5))}
    structure = list_tasks([EXPERIMENTS["structure-noise"]])
    assert {task.steps for task in structure if task.method != "MLP"} == {2}
    assert len(structure) == 4 * (3 * 8 + 1) * 10  # nothing changes for the MLP
    assert list_tasks([EXPERIMENTS["table2"], EXPERIMENTS["table3"]]) == []


def test_few_labels_are_tasks_of_their_own_but_for_the_usual_number():
    tasks = list_tasks([EXPERIMENTS["few-labels"].narrowed(datasets=["cora_ml"], n_runs=1)])
    assert {task.labels_per_class for task in tasks} == {1, 2, 5, 10, None}
    assert {task for task in tasks if task.labels_per_class is None} <= set(
        list_tasks([EXPERIMENTS[name] for name in ("table5", "systems", "plus")])
    )


def test_runs_with_the_usual_number_of_labels_stand_at_that_point():
    experiment = EXPERIMENTS["few-labels"].narrowed(datasets=["cora_ml"], n_runs=1)
    runs = [made_run(task) for task in list_tasks([experiment])]
    own = runs_of(experiment, runs)
    assert {run.point for run in own if run.method == "PTA"} == {1, 2, 5, 10, 20}
    assert {run.point for run in runs_of(EXPERIMENTS["plus"], runs)} == {None}


def test_only_who_does_not_train_does_without_stopping_nodes():
    few, alone = (
        EXPERIMENTS[name].narrowed(datasets=["cora_ml"], n_runs=1)
        for name in ("few-labels", "labels-alone")
    )
    shared = set(list_tasks([few])) & set(list_tasks([alone]))
    assert {task.method for task in shared} == {"LP"}
    assert len(shared) == 5
    runs = [made_run(task) for task in list_tasks([few, alone])]
    for experiment in (few, alone):
        own = runs_of(experiment, runs)
        assert len(own) == 5 * 4
        assert {run.labels_alone for run in own} == {experiment.labels_alone}


@pytest.mark.parametrize("name", ["wrong-labels", "wrong-labels-pair", "wrong-stopping"])
def test_without_wrong_labels_all_kinds_of_noise_are_one(name):
    tasks = [task for task in list_tasks([EXPERIMENTS[name]]) if not task.noise]
    assert {task.noise_kind for task in tasks} == {None}


def test_the_groups_are_all_experiments_each_once():
    together = [one for name in ("all", "beyond") for one in find_experiments(name)]
    assert together == list(EXPERIMENTS.values())
    assert {one.name for one in find_experiments("beyond")} >= {"plus", "few-labels", "ablation"}


def test_tables_share_their_runs_and_timed_ones_among_themselves():
    def n_tasks(*names):
        return len(list_tasks(EXPERIMENTS[name] for name in names))

    assert n_tasks("table5") == 4 * 7 * 100
    assert n_tasks("table4", "table5") == 4 * 10 * 100  # MLP and APPNP are in both
    assert n_tasks("table4", "table5", "table8", "initialisation") == 4 * 12 * 100
    assert n_tasks("table6", "table7") == n_tasks("table7") == 4 * 3 * 5
    assert n_tasks("table7", "table8") == n_tasks("table7") + n_tasks("table8")


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda one: one.name)
def test_what_an_experiment_names_is_there(experiment):
    assert set(experiment.methods) <= METHODS.keys()
    assert set(experiment.datasets) <= CATALOG.keys()
    assert experiment.n_runs <= MAX_RUNS


def test_what_makes_no_difference_makes_no_other_task():
    plain = {name: Task("cora", name, 7, 0) for name in ("PTA", "MLP", "LP")}
    structure = {"noise_kind": "structure", "noise": 0.5, "steps": 2}
    for method, changes in (
        ("PTA", {"noise_kind": "label", "noise": 0.0}),
        ("MLP", {"noise_kind": "label", "noise": 0.0}),
        ("MLP", structure),
        ("MLP", {"noise_kind": "structure", "noise": 0.0}),
        ("LP", {"init_seed": 3}),
    ):
        assert canonical(replace(plain[method], **changes)) == plain[method]
    for method, changes in (
        ("PTA", {"noise_kind": "structure", "noise": 0.0}),  # takes the graph's own noise away
        ("PTA", {"steps": 2}),
        ("PTA", {"init_seed": 3}),
        ("MLP", {"noise_kind": "label", "noise": 0.1}),
        ("MLP", {"init_seed": 3}),
        ("LP", structure),
    ):
        task = replace(plain[method], **changes)
        assert canonical(task) == task
    unknown = Task("cora", "nonsense", 7, 3, **structure)
    assert canonical(unknown) == unknown


def test_nothing_without_a_difference_is_computed_twice():
    def n_tasks(*names):
        return len(list_tasks(EXPERIMENTS[name].narrowed(n_runs=10) for name in names))

    assert (
        n_tasks("label-noise", "table5") == n_tasks("label-noise") + n_tasks("table5") - 4 * 2 * 10
    )
    assert n_tasks("structure-noise", "table5") == n_tasks("structure-noise") + 4 * 6 * 10
    assert len(list_tasks([EXPERIMENTS["table5"].narrowed(methods=["LP"])])) == 4 * 20


def test_a_run_that_noise_cannot_change_stands_for_every_rate():
    noise = EXPERIMENTS["structure-noise"].narrowed(
        datasets=["cora"], methods=["MLP", "PTS"], n_runs=2
    )
    table = EXPERIMENTS["table4"].narrowed(datasets=["cora"], methods=["MLP"], n_runs=2)
    made = [made_run(task) for task in list_tasks([table, noise])]
    shown = runs_of(noise, made)
    cells = [(run.method, run.noise_kind, run.noise, run.split_seed) for run in shown]
    assert cells == [
        (method, "structure", rate, seed)
        for seed in TEST_SEEDS[:2]
        for rate in noise.rates
        for method in ("MLP", "PTS")
    ]
    assert {task_of(run) for run in shown} == set(list_tasks([noise]))
    assert runs_of(noise, shown) == shown
    assert [(run.noise_kind, run.noise) for run in runs_of(table, shown)] == [(None, None)] * 2


def test_no_label_noise_is_the_plain_run():
    noise = EXPERIMENTS["label-noise"].narrowed(datasets=["cora"], methods=["PTA"], n_runs=1)
    table = EXPERIMENTS["table5"].narrowed(datasets=["cora"], methods=["PTA"], n_runs=1)
    made = made_run(list_tasks([table])[0])
    assert runs_of(noise, [made]) == [replace(made, noise_kind="label", noise=0.0)]
    earlier = replace(made, noise_kind="label", noise=0.0)  # a line written before this rule
    assert runs_of(table, [earlier]) == [made]


def test_what_is_not_trained_counts_once_for_a_split():
    table = EXPERIMENTS["table5"].narrowed(datasets=["cora"], methods=["LP", "PTA"])
    made = [made_run(task) for task in list_tasks([table])]
    shown = runs_of(table, made)
    assert shown == made
    seeds = [(run.split_seed, run.init_seed) for run in shown if run.method == "LP"]
    assert seeds == [(seed, 0) for seed in TEST_SEEDS]
    assert sum(run.method == "PTA" for run in shown) == 100


def test_what_settles_a_choice_has_seeds_of_its_own():
    readings = EXPERIMENTS["readings"]
    tasks = list_tasks([readings, EXPERIMENTS["table4"]])
    own = [task for task in tasks if task.validation]
    assert len(own) == 4 * 8 * 10
    assert {task.split_seed for task in own} == set(VALIDATION_SEEDS[:10])
    others = {(task.split_seed, task.init_seed) for task in tasks if not task.validation}
    assert others == set(seeds_for(100))
    assert {task_of(run) for run in runs_of(readings, map(made_run, tasks))} == set(own)


def test_results_grow_evenly():
    chosen = [
        EXPERIMENTS[name].narrowed(datasets=["pubmed", "cora"], methods=["PTA", "PTS"], n_runs=n)
        for name, n in (("table5", 22), ("table8", 1))
    ]
    tasks = list_tasks(chosen)
    cells = [(dataset, method) for dataset in ("cora", "pubmed") for method in ("PTA", "PTS")]
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


def test_a_run_that_fails_is_told_and_the_others_go_on():
    wrong = Task("cora", "nonsense", 7, 0)
    failure, run = run_tasks([wrong, LP[0]], n_workers=1)
    assert isinstance(failure, Failure)
    assert failure.task == wrong
    assert failure.reason.startswith("KeyError: 'nonsense' (worker.py, line ")
    assert task_of(run) == LP[0]
    assert not multiprocessing.active_children()


def test_a_process_that_dies_has_another_in_its_place():
    slow = Task("cora", "PTA", 7, 0)
    results = run_tasks([LP[0], slow, LP[1]], n_workers=1)
    assert task_of(next(results)) == LP[0]
    (worker,) = multiprocessing.active_children()
    worker.kill()
    failure = next(results)
    assert isinstance(failure, Failure)
    assert failure.task == slow
    assert "its process died with exit code -9" in failure.reason
    assert task_of(next(results)) == LP[1]
    assert next(results, None) is None
    assert not multiprocessing.active_children()


def test_a_run_for_tuning_leaves_the_test_nodes_alone():
    task = Task("cora", "LP", VALIDATION_SEEDS[0], 0, validation=True)
    run = run_task(task, None)
    entry = CATALOG["cora"]
    tuning = Protocol(n_known=entry.n_known, alpha=entry.alpha, for_tuning=True)
    expected, _ = run_once(_load("cora", None), METHODS["LP"], tuning, task.split_seed, 0)
    assert run.validation
    assert run.accuracy == expected.accuracy
    assert run.accuracy != run_task(replace(task, validation=False), None).accuracy
    assert task_of(Run.from_json(run.to_json())) == task


def test_a_timed_run_is_warmed_up_by_two_epochs_of_the_same(monkeypatch):
    trained = []

    def record(dataset, method, protocol, split_seed, init_seed, **_):
        classifier = method.make(alpha=protocol.alpha, steps=10, seed=init_seed)
        trained.append((dataset.name, method.name, classifier.get_params().get("max_epochs")))
        return made_run(Task(dataset.name, method.name, split_seed, init_seed)), classifier

    monkeypatch.setattr(protocol_module, "run_once", record)
    monkeypatch.setattr(worker_module, "_load", lambda name, _: SimpleNamespace(name=name))
    _warm_up.cache_clear()
    for dataset, method in [("cora", "PTA")] * 2 + [("citeseer", "PTA"), ("cora", "LP")]:
        run_task(Task(dataset, method, 7, 0, timed=True), None)
    _warm_up.cache_clear()  # nothing was warmed up in truth
    assert trained == [
        ("cora", "PTA", 2),
        ("cora", "PTA", 2000),
        ("cora", "PTA", 2000),
        ("citeseer", "PTA", 2),
        ("citeseer", "PTA", 2000),
        ("cora", "LP", None),
        ("cora", "LP", None),
    ]


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
        process = Path("/proc", str(worker.process.pid))
        deadline = time.monotonic() + HANGS
        while b"spawn_main" not in (process / "cmdline").read_bytes():
            assert time.monotonic() < deadline, "the worker never started"
            time.sleep(0.01)  # it is still a copy of this process
        content = (process / "environ").read_text()
    assert dict(os.environ) == before
    assert ONE_THREAD.items() <= dict(v.split("=", 1) for v in content.split("\0") if v).items()


# --- what is left, and on what ----------------------------------------------------------------


def test_the_rest_is_estimated_from_the_same_method_on_the_same_data():
    lp, pta, mlp = LP[0], Task("pubmed", "PTA", 7, 0), Task("cora", "MLP", 7, 0)
    left = partial(remaining_seconds, guess=lambda task: 100 if task.method == "MLP" else 1000)
    done = [made_run(lp, 1.0), made_run(lp, 3.0), made_run(pta, 20.0)]
    assert left([], done, n_workers=2) == 0
    assert left([lp, pta], done, n_workers=2) == (2 + 20) / 2
    assert left([lp, mlp], done, n_workers=2) == (2 + 100) / 2  # no such run: a guess
    assert left([lp, mlp], [], n_workers=1) == 1000 + 100
    assert left([replace(pta, timed=True)] * 2, done, n_workers=2) == 40


def test_the_bar_tells_what_runs_and_how_long_the_rest_takes(monkeypatch, tmp_path):
    shown = []
    monkeypatch.setattr(Progress, "update", lambda _, task, **told: shown.append(told))
    big = Task("ms_academic", "APPNP", 7, 0)
    left = [*LP[:2], big]
    with (
        open_store(tmp_path) as store,
        _Progress(store, left, 1, lambda task: 3600 if task is big else 10, quiet=True) as bar,
    ):
        bar.on_start(LP[0])
        store.add(made_run(LP[0], 2.0))
        bar.on_end(LP[0])
        bar.on_start(big)
    assert [told["remaining"] for told in shown if "remaining" in told] == [
        "about 1:00:20 left",  # all guessed, and not by what other methods took
        "about 1:00:02 left",
    ]
    assert [told["description"] for told in shown if "description" in told] == [
        "LP on cora",
        "",
        "APPNP on ms_academic",
    ]


def test_versions_name_packages_and_machine_but_no_place():
    told = versions()
    packages = ["python", "proptrain", "numpy", "scipy", "scikit-learn", "numba", "torch"]
    assert list(told) == [*packages, "cpu", "cores"]
    assert all(told.values())
    assert told["cores"] == str(count_cores())
    assert count_cores() >= 1
    assert platform.node() not in told.values()


def test_a_run_is_tied_to_the_code_that_made_it():
    run = run_task(LP[0], None)
    assert len(run.code) == 12
    assert set(run.code) <= set("0123456789abcdef")
    assert Run.from_json(run.to_json()).code == run.code == code_digest()
    assert run.cpu == versions()["cpu"]
    assert task_of(run) == task_of(replace(run, code="")) == LP[0]


@pytest.mark.parametrize("source", SOURCES)
def test_the_code_is_told_apart_by_what_decides_a_result(tmp_path, source):
    package = tmp_path / "proptrain"
    shutil.copytree(Path(proptrain.__file__).parent, package, ignore=only_python)
    before = _digest_of(package)
    assert before == code_digest()
    with (package / "cli" / "console.py").open("a") as file:
        file.write("# only shown\n")
    assert _digest_of(package) == before
    path = package / source
    with (path / "__init__.py" if path.is_dir() else path).open("a") as file:
        file.write("# decides\n")
    assert _digest_of(package) != before


def only_python(folder, names):
    return [name for name in names if (Path(folder) / name).is_file() and not name.endswith(".py")]


def test_every_part_of_the_package_decides_or_does_not():
    only_shows_or_keeps = {"__init__.py", "bench", "cli", "errors.py", "experiments", "insight"}
    only_shows_or_keeps |= {"pyg.py", "report", "saving", "search.py", "system", "text.py"}
    only_shows_or_keeps |= {"workload.py"}
    parts = {path.name for path in Path(proptrain.__file__).parent.iterdir()}
    parts -= {"__pycache__", "py.typed"}
    decides = {source for source in SOURCES if "/" not in source}
    assert parts == only_shows_or_keeps | decides
    assert not only_shows_or_keeps & decides


@pytest.mark.parametrize("package", ["numpy", "scipy", "numba", "torch", "scikit-learn"])
def test_the_code_is_told_apart_by_the_packages_it_computes_with(monkeypatch, package):
    other = {package: "0.0.0"}
    monkeypatch.setattr(versions_module, "version", lambda name: other.get(name, version(name)))
    assert code_digest.__wrapped__() != code_digest()


def test_what_runs_were_made_with_is_counted_the_commonest_first():
    old, new = made_run(LP[0]), replace(made_run(LP[0]), code="a1b2c3d4e5f6", cpu="Fast")
    assert made_with([old, *[new] * 1200]) == {
        "CPUs of the runs": "Fast (1,200 runs), not recorded (1 run)",
        "code of the runs": "a1b2c3d4e5f6 (1,200 runs), not recorded (1 run)",
    }
    assert made_with([]) == {}
