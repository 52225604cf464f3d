"""A real two-node Ray cluster, closed off from everything else, and what it must survive.

It lives in a network and process namespace of its own, where there is nothing but loopback, and
from which no process comes back. Without root it runs on loopback addresses instead. It is started
once; see two_nodes.py for what is done there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
CLOSED = ("unshare", "-n", "--fork", "--pid", "--mount-proc", "--kill-child")
LONGEST = 900
"""Seconds after which it hangs, however busy the machine."""


def missing():
    """Return what is not there and how to get it."""
    if importlib.util.find_spec("ray") is None:
        return "Ray is missing; get it with: pip install 'proptrain[ray]'"
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "unshare or ip is missing; get them with: apt-get install util-linux iproute2"
    return None


def processes_of(folder):
    """Return the command lines of processes that have to do with a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        found += [line] if folder in line else []
    return found


@pytest.fixture
def told():
    """What each scenario came to."""
    if (what := missing()) is not None:
        pytest.skip(what)
    folder = tempfile.mkdtemp(prefix="rt-")  # a short path: sockets have names of 107 characters
    own = [sys.executable, str(HERE / "two_nodes.py"), folder]
    if os.geteuid() == 0:
        own = [*CLOSED, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *own]
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "HOME": folder,  # where Ray leaves something
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # else they wait for all other tests
        "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # a process less to start
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    try:
        done = subprocess.run(
            own, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert done.returncode == 0, done.stderr[-3000:]
        yield {line["scenario"]: line for line in lines} | {"left": processes_of(folder)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def scenario(told, name):
    assert "failed" not in told[name], told[name]["failed"]
    return told[name]


def check_the_cluster_says_what_the_local_engine_says(told):
    assert scenario(told, "propagation")["difference"] <= 1e-5


def check_awkward_graphs_on_the_cluster_are_no_exception(told):
    assert scenario(told, "awkward_graphs")["difference"] <= 1e-10


def check_a_loss_in_mid_propagation_changes_nothing(told):
    for name in ("a_worker_killed", "a_node_killed"):
        came_to = scenario(told, name)
        assert came_to["killed"] == 1
        assert came_to["difference"] <= 1e-5


def check_two_trainers_of_which_one_is_killed_come_to_the_same(told):
    # Two add their gradients up in another order, so that each step is rounded otherwise.
    came_to = scenario(told, "a_trainer_killed")
    assert came_to["killed"] == 1
    assert came_to["epochs"][0] == came_to["epochs"][1]
    assert came_to["best"][0] == came_to["best"][1]
    assert came_to["losses"] <= 1e-4
    assert came_to["difference"] <= 2e-3
    assert came_to["reached"]
    assert came_to["left"] == 0


def check_one_trainer_on_the_cluster_is_training_from_disk_by_either_command(told):
    came_to = scenario(told, "command_line")
    for engine in ("blocked", "ray"):
        assert came_to[engine]["code"] == 0, came_to[engine]["err"]
        assert json.loads(came_to[engine]["out"])["engine"] == engine
    assert came_to["same"] == [True, True]  # weights, and who was reached
    assert came_to["difference"] <= 1e-6
    assert came_to["left"] == 0


def check_what_is_missing_broken_or_too_small_is_said(told):
    came_to = scenario(told, "bad_weather")
    assert "Every machine of the cluster must have" in came_to["memory"]
    assert "indptr-00001.npy was changed after it was written" in came_to["corrupt"]
    assert "indptr-00001.npy cannot be read" in came_to["missing"]


def check_no_process_is_left_behind(told):
    assert told["left"] == []


CHECKS = (
    check_the_cluster_says_what_the_local_engine_says,
    check_awkward_graphs_on_the_cluster_are_no_exception,
    check_a_loss_in_mid_propagation_changes_nothing,
    check_two_trainers_of_which_one_is_killed_come_to_the_same,
    check_one_trainer_on_the_cluster_is_training_from_disk_by_either_command,
    check_what_is_missing_broken_or_too_small_is_said,
    check_no_process_is_left_behind,
)


def test_two_nodes_agree_with_one_machine_and_survive_what_is_done_to_them(told):
    # One test, since a cluster takes long to start, and each process of the tests would start one.
    failed = {}
    for check in CHECKS:
        try:
            check(told)
        except AssertionError as error:
            failed[check.__name__] = str(error)
    assert not failed
