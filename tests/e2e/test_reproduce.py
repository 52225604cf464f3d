"""proptrain reproduce: killed at any moment, it goes on and comes to the same numbers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from processes import HANGS
from proptrain.data import catalog
from proptrain.experiments import runner
from proptrain.experiments.protocol import Run
from proptrain.experiments.specs import EXPERIMENTS, GROUPS
from proptrain.experiments.store import open_store, read_runs
from proptrain.experiments.tasks import list_tasks, task_of
from proptrain.experiments.versions import code_digest
from proptrain.experiments.worker import run_task

CHOICE = ("--dataset", "cora", "--method", "LP", "--method", "PTA", "--runs", "2")
FAST = ("--dataset", "cora", "--method", "LP", "--runs", "2")
needs_posix = pytest.mark.skipif(
    sys.platform == "win32", reason="needs groups of processes, and files that can be locked"
)
# A shell may start tests with Ctrl-C switched off, which is inherited.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from proptrain.cli import main
main()
"""


def start(*words, out):
    command = [sys.executable, "-c", PROGRAM, "reproduce", *words, "--workers", "2"]
    return subprocess.Popen(
        [*command, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_until(happened):
    deadline = time.monotonic() + HANGS
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def wait_for_lines(out, number):
    path = out / "runs.jsonl"
    wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") >= number)


def session_of(pid):
    """Ids of the processes in a session; its leader's id is the session's."""
    return {
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _session(entry) == pid
    }


def _session(entry):
    try:
        state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
    except OSError:  # gone meanwhile
        return None
    return None if state == "Z" else int(session)


@pytest.fixture
def run(run):
    """Run `proptrain reproduce` in this process."""
    return partial(run, "reproduce")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_a_killed_run_goes_on_where_it_stopped(tmp_path, run):
    killed = start("table5", *CHOICE, out=tmp_path)
    wait_for_lines(tmp_path, 1)
    assert len(session_of(killed.pid)) > 2  # itself and its workers
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    wait_until(lambda: not session_of(killed.pid))
    path = tmp_path / "runs.jsonl"
    before = read_runs(path)
    assert 0 < len(before) < 4  # or there was nothing left to go on with
    with path.open("a") as file:
        file.write('{"dataset": "cora", "metho')

    told = run("table5", *CHOICE, "--out", tmp_path, "--json")
    assert told.code == 0
    assert json.loads(told.out)["new"] == 4 - len(before)
    tasks = list_tasks(
        [EXPERIMENTS["table5"].narrowed(datasets=["cora"], methods=["LP", "PTA"], n_runs=2)]
    )
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    runs = read_runs(path)
    assert len(lines) == len(runs) == len(tasks)
    assert runs[: len(before)] == before
    uninterrupted = {task: run_task(task, None).accuracy for task in tasks}
    assert {task_of(one): one.accuracy for one in runs} == uninterrupted

    content = path.read_bytes()
    told = run("initialisation", *CHOICE, "--out", tmp_path)  # the same runs, shown another way
    assert told.code == 0
    assert "4 runs: 4 done, 0 left" in told.err
    assert "PTA" in told.out
    assert path.read_bytes() == content


@needs_posix
def test_ctrl_c_ends_it_with_a_word_on_how_to_go_on(tmp_path):
    stopped = start("table5", *CHOICE, out=tmp_path)
    wait_for_lines(tmp_path, 1)
    os.killpg(stopped.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    _, err = stopped.communicate(timeout=HANGS)
    assert stopped.returncode == 130, err
    assert re.search(r"\d runs? left. The same command goes on from here.", " ".join(err.split()))
    assert "Traceback" not in err
    assert read_runs(tmp_path / "runs.jsonl")


@needs_posix
def test_a_folder_in_use_is_refused(tmp_path, run):
    with open_store(tmp_path):
        told = run("table5", *CHOICE, "--out", tmp_path)
    assert told.code == 1
    assert "is being written by another process" in told.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["table9"],
            "must be one of table2, table3, .*, all, beyond; got 'table9'. Did you mean 'table8'",
        ),
        (["TABLE5"], "got 'TABLE5'. Did you mean 'table5'"),
        (["table5", "--dataset", "cora-ml"], "got 'cora-ml'. Did you mean 'cora_ml'"),
        (
            ["table5", "--method", "GNC"],
            "The method must be one of .*PTA.*; got 'GNC'. Did you mean 'GCN'",
        ),
        (["table5", "--runs", "0"], r"from 1 to 100 \(20 splits with 5 init.*; got 0"),
        (["table5", "--runs", "101"], r"from 1 to 100 .*; got 101"),
        (["table2", "--method", "PTA"], "--method would change nothing: table2 .*Leave that out"),
        (["table3", "--method", "PTA"], "--method would change nothing: table3"),
        (["table3", "--dataset", "cora"], "--dataset would change nothing: table3"),
        (["table2", "--runs", "5"], "--runs would change nothing: table2"),
    ],
)
def test_what_cannot_be_run_is_told_before_anything_is_written(tmp_path, run, words, message):
    out = tmp_path / "out"
    told = run(*words, "--out", out)
    assert told.code == 1
    assert re.search(message, told.err), told.err
    assert not out.exists()


def test_a_table_without_runs_needs_none(tmp_path, run):
    told = run("table2", "--dataset", "cora", "--out", tmp_path)
    assert told.code == 0
    assert "2,708" in told.out
    assert "0 runs" in told.err


def test_choices_that_some_experiments_have_no_use_for_are_fine_with_all(tmp_path, run):
    (tmp_path / "runs.jsonl").touch()
    told = run("all", *FAST, "--as-is", "--out", tmp_path, "--json")
    assert told.code == 0, told.err
    assert json.loads(told.out)["experiments"] == [one.name for one in GROUPS["all"]]


def test_the_help_names_every_experiment(run):
    told = " ".join(run("--help").out.replace("│", " ").split())
    for name in EXPERIMENTS:
        assert name in told or name.startswith("table")
    assert "table2 … table8" in told


# --- runs that fail ---------------------------------------------------------------------------


def test_a_run_that_fails_leaves_the_others_and_is_tried_again(tmp_path, run, monkeypatch):
    def one_fails(tasks, *, on_start, **_):
        for place, task in enumerate(tasks):
            on_start(task)
            yield runner.Failure(task, "no luck") if place == 0 else run_task(task, None)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "run_tasks", one_fails)
        told = run("table5", *FAST, "--out", tmp_path)
        in_json = run("table5", *FAST, "--out", tmp_path / "json", "--json")
    assert told.code == in_json.code == 1
    assert "Failed: 1 run. The same command tries again." in told.err
    assert re.search(r"- LP on cora \(split \d+, initialisation 0\): no luck", told.err)
    content = json.loads(in_json.out)
    assert (content["runs"], content["new"]) == (1, 1)
    assert [one["reason"] for one in content["failed"]] == ["no luck"]
    assert "1 run done, 1 missing" in (tmp_path / "README.md").read_text()

    again = run("table5", *FAST, "--out", tmp_path, "--json")
    assert again.code == 0
    content = json.loads(again.out)
    assert (content["runs"], content["new"], content["failed"]) == (2, 1, [])


# --- what the folder had before ---------------------------------------------------------------


def made_up(task, code=""):
    seeds = (task.split_seed, task.init_seed)
    varied = {"noise_kind": task.noise_kind, "noise": task.noise, "steps": task.steps}
    kept = {"experiment": task.experiment, "timed": task.timed, "code": code}
    return Run(task.dataset, task.method, *seeds, 0.5, 0.5, 9, 5, 1.0, **varied, **kept)


def keep(out, *experiments, code=""):
    with open_store(out) as store:
        for task in list_tasks(experiments):
            store.add(made_up(task, code))


def test_runs_of_other_code_are_told_and_kept(tmp_path, run):
    chosen = EXPERIMENTS["table5"].narrowed(datasets=["cora"], methods=["LP"], n_runs=2)
    ours, earlier = tmp_path / "ours", tmp_path / "earlier"
    keep(ours, chosen, code=code_digest())
    keep(earlier, chosen.narrowed(n_runs=1))
    told = run("table5", *FAST, "--out", ours)
    assert "another state of the code" not in told.err
    told = run("table5", *FAST, "--out", earlier)
    assert (
        "Kept, though made by another state of the code or other packages: 1 run. Name another "
        "folder to start afresh."
    ) in told.err
    codes = [one.code for one in read_runs(earlier / "runs.jsonl")]
    assert codes == ["", code_digest()]
    assert "another state of the code" in run("table5", *FAST, "--out", earlier).err
    page = (earlier / "README.md").read_text()
    assert f"code of the runs not recorded (1 run), {code_digest()} (1 run)" in page


def test_a_narrower_command_keeps_what_the_pages_had(tmp_path, run):
    keep(tmp_path, EXPERIMENTS["table7"], EXPERIMENTS["structure-noise"].narrowed(n_runs=1))
    told = run("table5", *FAST, "--out", tmp_path, "--json")
    assert told.code == 0, told.err
    content = json.loads(told.out)
    assert content["experiments"] == ["table5"]
    assert content["runs"] == 2
    page = (tmp_path / "README.md").read_text()
    titles = re.findall(r"^## (.*)$", page, flags=re.MULTILINE)
    shown = [
        name
        for name, one in EXPERIMENTS.items()
        if any(title.endswith(one.title) for title in titles)
    ]
    # All runs of table6 are among those of table7; others have some, and nobody asked for them.
    assert shown == ["table5", "table6", "table7", "structure-noise"]
    assert (tmp_path / "figures" / "structure-noise.svg").exists()
    for name in ("table6", "table7", "structure-noise --runs 1"):
        assert f"\nproptrain reproduce {name}\n" in page
    assert "proptrain reproduce table5 --dataset cora --method LP --runs 2\n" in page


def test_a_narrower_command_keeps_the_rest_of_its_own_experiment(tmp_path, run):
    earlier = EXPERIMENTS["table5"].narrowed(
        datasets=["cora_ml", "cora"], methods=["LP", "PTA", "GCN"], n_runs=3
    )
    keep(tmp_path, earlier)
    told = run("table5", *FAST, "--out", tmp_path, "--json")
    content = json.loads(told.out)
    assert (content["runs"], content["new"]) == (2, 0)
    page = (tmp_path / "README.md").read_text()
    assert "18 runs done, none missing" in page
    for dataset in ("cora", "cora_ml"):
        assert f"| {dataset} | GCN |" in page
    words = "--dataset cora --dataset cora_ml --method GCN --method PTA --method LP --runs 3"
    assert f"proptrain reproduce table5 {words}\n" in page


def commands_on(page):
    return page.split("## How this was made")[1].split("```")[1].strip().split("\n")


def test_the_commands_are_true_and_in_the_order_of_the_tables(tmp_path, run):
    table4, table5 = EXPERIMENTS["table4"], EXPERIMENTS["table5"]
    keep(
        tmp_path,
        EXPERIMENTS["label-noise"].narrowed(datasets=["cora"], methods=["PTS"], n_runs=1),
        table4.narrowed(datasets=["cora"], methods=["PTS"], n_runs=2),
        table5.narrowed(datasets=["cora", "pubmed"], methods=["PTA"], n_runs=2),
    )
    told = run("table5", *FAST, "--as-is", "--out", tmp_path)
    assert told.code == 0, told.err
    assert commands_on((tmp_path / "README.md").read_text()) == [
        "proptrain reproduce table4 --dataset cora --method PTS --runs 2",
        "proptrain reproduce table5 --dataset cora --method PTA --method LP --runs 2",
        "proptrain reproduce table5 --dataset pubmed --method PTA --runs 2",
        "proptrain reproduce label-noise --dataset cora --method PTS --runs 1",
    ]


def test_no_data_set_is_loaded_twice(tmp_path, run, monkeypatch):
    noise = EXPERIMENTS["structure-noise"].narrowed(datasets=["cora"], methods=["PTS"], n_runs=1)
    keep(tmp_path, noise)
    loaded, load = [], catalog.load_dataset

    def remember(name, *where, **how):
        loaded.append(name)
        return load(name, *where, **how)

    monkeypatch.setattr(catalog, "load_dataset", remember)
    for name in ("structure-noise", "table5"):  # the second shows the first's figure as well
        told = run(name, *FAST, "--as-is", "--out", tmp_path)
        assert told.code == 0, told.err
        assert "graph: " in (tmp_path / "figures" / "structure-noise.svg").read_text()
    assert loaded == ["cora", "cora"]


def test_runs_on_a_data_set_that_nobody_knows_are_left_out(tmp_path, run):
    with open_store(tmp_path) as store:
        for name in ("label-noise", "table5"):
            for task in list_tasks([EXPERIMENTS[name].narrowed(datasets=["cora"], n_runs=1)]):
                store.add(replace(made_up(task), dataset="mine"))
    told = run("table2", "--dataset", "cora", "--as-is", "--out", tmp_path)
    assert told.code == 0, told.err
    page = (tmp_path / "README.md").read_text()
    assert commands_on(page) == ["proptrain reproduce table2 --dataset cora"]
    assert "mine" not in page


def test_machines_are_told_the_numbers(tmp_path, run):
    keep(
        tmp_path, EXPERIMENTS["label-noise"].narrowed(datasets=["cora"], methods=["PTA"], n_runs=2)
    )
    words = ("label-noise", "--dataset", "cora", "--method", "PTA", "--runs", "2")
    content = json.loads(run(*words, "--out", tmp_path, "--json").out)
    assert content["files"][0] == str(tmp_path / "runs.jsonl")
    told = content["accuracies"]
    assert [cell["noise"] for cell in told] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    for cell in told:
        assert (cell["experiment"], cell["dataset"], cell["method"]) == (
            "label-noise",
            "cora",
            "PTA",
        )
        assert (cell["mean"], cell["runs"]) == (0.5, 2)
    (table,) = content["tables"]
    assert table["rows"][0][:3] == ["cora", "PTA", "50.0 ± 0.0"]


def test_a_folder_without_figures_has_no_folder_for_them(tmp_path, run):
    run("table2", "--dataset", "cora", "--out", tmp_path)
    assert not (tmp_path / "figures").exists()
