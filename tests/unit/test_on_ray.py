"""What is said before there is a cluster."""

from __future__ import annotations

import importlib.util
import re
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import proptrain
from one_process import OneProcess
from processes import HANGS
from proptrain import PTAClassifier
from proptrain.cli import fit_folder
from proptrain.data.shared import SharedFolder
from proptrain.data.synthetic_disk import write_synthetic
from proptrain.errors import (
    ClusterError,
    InvalidInputError,
    NotEnoughMemoryError,
    TrainingError,
    UnreadableFileError,
)
from proptrain.experiments.methods import find_methods
from proptrain.large.cluster_address import check_answers, is_same_address
from proptrain.large.fit_cluster import Trainers

PACKAGE = Path(proptrain.__file__).parent


def test_ray_is_imported_in_one_file():
    imports = re.compile(r"^\s*(import ray|from ray)(\.\w+)*\b", re.MULTILINE)
    found = [path.name for path in PACKAGE.rglob("*.py") if imports.search(path.read_text())]
    assert found == ["on_ray.py"]


def test_without_ray_it_is_said_how_to_get_it():
    code = """
import sys
sys.modules["ray"] = None
from proptrain.errors import MissingPackageError
try:
    import proptrain.large.on_ray
except MissingPackageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install -c constraints.txt '.[ray]'" in done.stdout


@pytest.fixture
def on_ray():
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is missing; get it with: pip install -c constraints.txt '.[ray]'")
    import proptrain.large.on_ray

    return proptrain.large.on_ray


def test_an_address_where_nobody_answers_is_told_at_once(on_ray):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # taken, but nobody listens
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"No Ray cluster answers at {address}"):
            on_ray.RayCrew(address)


@pytest.fixture
def connected(on_ray, monkeypatch):
    """A stand-in for Ray, as if connected; tells whether it still is."""
    state = SimpleNamespace(is_on=False)

    def init(**_):
        state.is_on = True

    def shutdown():
        state.is_on = False

    here = SimpleNamespace(gcs_address="10.0.0.1:6379")
    for name, stand_in in {
        "is_initialized": lambda: state.is_on,
        "init": init,
        "shutdown": shutdown,
        "get_runtime_context": lambda: here,
    }.items():
        monkeypatch.setattr(on_ray.ray, name, stand_in)
    return state


def test_an_engine_that_cannot_be_leaves_no_cluster_behind(on_ray, connected, tmp_path):
    with pytest.raises(UnreadableFileError, match="nowhere"):
        on_ray.RayEngine(tmp_path / "nowhere")
    assert not connected.is_on


def test_who_is_connected_elsewhere_is_told(on_ray, connected, monkeypatch):
    connected.is_on = True
    known = {"head": "10.0.0.1", "other": "10.0.0.2", "localhost": "127.0.0.1"}

    def look_up(host, *_, **__):
        if host == "nobody":
            raise socket.gaierror("unknown")
        return [(None, None, None, "", (known.get(host, host), 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    for address in (None, "auto", "10.0.0.1:6379", "head:6379", "localhost:6379"):
        on_ray.RayCrew(address)
    for address in ("other:6379", "head:6380", "10.0.0.2:6379", "nobody:6379"):
        with pytest.raises(ClusterError, match=rf"connected to 10\.0\.0\.1:6379 .*at {address}"):
            on_ray.RayCrew(address)
    assert connected.is_on


@pytest.mark.parametrize("address", ["a..b:6379", "x" * 70 + ".org:6379", "127.0.0.1:99999"])
def test_an_address_that_nobody_can_have_is_told(address):
    with pytest.raises(ClusterError, match=f"No Ray cluster answers at {re.escape(address)}"):
        check_answers(address)
    assert not is_same_address(address, "head:6379")


@contextmanager
def listening(*reply, waits=False):
    """Have somebody answer to what is said at an address; gives the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as other:

        def answer():
            line, _ = listener.accept()
            with line:
                line.recv(1000)
                for part in reply:
                    line.sendall(part)
                if waits:
                    line.recv(1000)  # until the one who asked hangs up

        answered = other.submit(answer)
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        answered.result(timeout=HANGS)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (None, "said nothing when it was spoken to"),  # and keeps the line open
        (b"", "said nothing when it was spoken to"),  # but hangs up
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks otherwise"),  # as a dashboard does
    ],
)
def test_what_listens_but_is_no_cluster_is_told_soon(on_ray, monkeypatch, reply, told):
    monkeypatch.setattr("proptrain.large.cluster_address.REACH_SECONDS", 1.0)
    monkeypatch.setattr(on_ray.ray, "init", lambda **_: pytest.fail("Ray would try for long"))
    parts = [] if reply is None else [reply]
    with (
        listening(*parts, waits=reply is None) as address,
        pytest.raises(ClusterError, match=f"{address} must be a Ray cluster, but it {told}"),
    ):
        on_ray.RayCrew(address)


def test_what_speaks_as_ray_does_is_left_to_ray(on_ray, monkeypatch):
    asked = []
    monkeypatch.setattr(on_ray.ray, "init", lambda **how: asked.append(how["address"]))
    with listening(b"\0\0", b"\0\4\0\0\0\0\0") as address:  # settings, in pieces
        on_ray.RayCrew(address)
        assert asked == [address]
        monkeypatch.setenv("RAY_USE_TLS", "1")  # by which nobody answers to plain words
        on_ray.RayCrew(address)
        assert asked == [address] * 2


@pytest.mark.parametrize("address", ["somewhere", "ray://head:10001", "head:port"])
def test_what_is_no_address(on_ray, address):
    with pytest.raises(InvalidInputError, match="must be host:port of a cluster's head"):
        on_ray.RayCrew(address)


def node(**resources):
    return {"Alive": True, "Resources": resources, "NodeID": "1", "NodeManagerAddress": "h"}


@pytest.fixture
def crew_of(on_ray, monkeypatch):
    """Return a crew of a cluster that says to have these machines."""

    def make(*nodes):
        monkeypatch.setattr(on_ray.ray, "is_initialized", lambda: True)
        monkeypatch.setattr(on_ray.ray, "nodes", lambda: list(nodes))
        return on_ray.RayCrew()

    return make


def test_machines_without_a_cpu_do_no_tasks(crew_of):
    gone = {**node(CPU=8, memory=1e9), "Alive": False}
    crew = crew_of(node(memory=1e9), node(CPU=0, memory=1e9), gone)
    with pytest.raises(ClusterError, match=r"none of its 2 has one.*--num-cpus=1"):
        _ = crew.task_memory


def test_the_smallest_machine_decides(crew_of):
    gone = {**node(CPU=1, memory=1e6), "Alive": False}
    few, many = ({"CPU": n, "object_store_memory": 5e9} for n in (2, 16))
    crew = crew_of(node(**few, memory=4e9), node(**many, memory=8e9), gone)
    assert crew.task_memory == 500_000_000
    assert crew.machine_memory == 4_000_000_000
    assert crew.n_cpus == 18


def test_more_trainers_than_there_are_cpus_are_refused(crew_of):
    crew = crew_of(node(CPU=2, memory=1e9), node(CPU=1.5, memory=1e9))
    assert [crew.hire(n, "auto") for n in (None, 1, 3)] == [Trainers(2), Trainers(1), Trainers(3)]
    with pytest.raises(ClusterError, match=r"Between 1 and 3 processes.* CPUs on 2 .*; got 4"):
        crew.hire(4, "cpu")


def test_a_trainer_has_as_many_cpus_as_every_machine_can_give_it(crew_of):
    crew = crew_of(node(CPU=16, memory=1e9), node(CPU=9, memory=1e9))
    hired = [crew.hire(n, "auto") for n in (None, 1, 3, 4, 20)]
    told = [(one.n_processes, one.n_cpus) for one in hired]
    assert told == [(2, 9), (1, 9), (3, 4), (4, 4), (20, 1)]


def test_a_trainer_that_waits_for_tasks_leaves_them_the_cpus(crew_of):
    crew = crew_of(node(CPU=16, memory=1e9), node(CPU=9, memory=1e9))
    assert crew.hire(None, "auto", waits=True) == crew.hire(1, "cpu", waits=True)
    assert crew.hire(None, "auto", waits=True) == Trainers(1, n_cpus=0)
    with pytest.raises(InvalidInputError, match=r"One process trains .* got --workers 2"):
        crew.hire(2, "auto", waits=True)


@pytest.mark.parametrize(
    ("trainers", "each"),
    [
        (Trainers(2, n_cpus=9), {"CPU": 9}),
        (Trainers(2, n_cpus=0), {"memory": 1}),
        (Trainers(2, by_torch=True, on_gpus=True), {"GPU": 1}),
    ],
)
def test_ray_is_asked_for_what_a_trainer_shall_have(
    on_ray, crew_of, tmp_path, monkeypatch, trainers, each
):
    asked = []

    def trainer(*_, scaling_config, run_config, **__):
        asked.append((scaling_config, run_config.failure_config))
        raise InvalidInputError("enough")

    monkeypatch.setattr("ray.train.torch.TorchTrainer", trainer)
    with pytest.raises(InvalidInputError, match="enough"):
        crew_of(node(CPU=9)).train(None, trainers, SharedFolder(tmp_path))
    ((how, again),) = asked
    told = how._resources_per_worker_not_none
    assert (how.num_workers, {kind: told[kind] for kind in each}) == (2, each)
    assert 1 + again.controller_failure_limit == 5  # each start waits a minute for machines
    assert again.max_failures == on_ray.RETRIES


def test_gpus_are_used_if_the_cluster_has_them(crew_of):
    with_gpus = crew_of(node(CPU=8, GPU=2), node(CPU=8))
    on_gpus = {"by_torch": True, "on_gpus": True}
    assert with_gpus.hire(None, "auto") == with_gpus.hire(None, "cuda") == Trainers(2, **on_gpus)
    assert with_gpus.hire(1, "cuda") == Trainers(1, **on_gpus)
    assert with_gpus.hire(3, "cpu") == Trainers(3, n_cpus=4)
    assert with_gpus.hire(None, torch.device("cpu")) == Trainers(2, by_torch=True, n_cpus=8)
    with pytest.raises(ClusterError, match="Between 1 and 2 processes"):
        with_gpus.hire(3, "auto")
    for device in ("cuda:1", "abacus", None):
        with pytest.raises(InvalidInputError, match="must be auto, cpu or cuda"):
            with_gpus.hire(None, device)
    with pytest.raises(ClusterError, match="none has told Ray of any"):
        crew_of(node(CPU=8)).hire(None, "cuda")


def test_training_is_given_up_by_our_errors_and_begun_again_after_a_loss(on_ray):
    surrender, lost = on_ray._surrender(), RuntimeError("Connection closed by peer")
    surrender.after_exception(None, {0: lost})
    wrapped = RuntimeError("in a task")
    wrapped.cause = TrainingError("no finite loss")
    with pytest.raises(TrainingError, match="no finite loss"):
        surrender.after_exception(None, {0: lost, 1: wrapped})


def test_a_machine_without_the_memory_is_told_with_advice(on_ray):
    exceptions = on_ray.exceptions
    try:
        np.empty(2**60, np.uint8)
    except MemoryError as error:
        numpys = exceptions.RayTaskError("take_step", "a traceback", error)
    rays = exceptions.OutOfMemoryError("Task was killed due to the node running low on memory.")
    try:
        torch.empty(2**60)
    except RuntimeError as error:
        torchs = exceptions.RayTaskError("tell_rows", "a traceback", error)
    for error in (numpys, rays, torchs):
        told = pytest.raises(NotEnoughMemoryError, match=r"too little memory.*more --blocks")
        with told, on_ray._ours():
            raise error
        with pytest.raises(NotEnoughMemoryError, match="a smaller --batch-size"):
            on_ray._surrender().after_exception(None, {0: error})
    with pytest.raises(exceptions.RayTaskError), on_ray._ours():  # a mistake of ours stays one
        raise exceptions.RayTaskError("take_step", "a traceback", KeyError("x"))


def test_epochs_are_told_once_and_in_order_though_some_come_again_or_late(on_ray, monkeypatch):
    noted = on_ray._Board()
    board = SimpleNamespace(
        note=SimpleNamespace(remote=noted.note), read=SimpleNamespace(remote=noted.read)
    )
    monkeypatch.setattr(on_ray.ray, "get", list)
    starting = [True, True]  # a board that is not there yet
    monkeypatch.setattr(
        on_ray.ray,
        "wait",
        lambda asked, timeout: ([] if starting and starting.pop() else asked, []),
    )
    monkeypatch.setattr(on_ray, "LOOK_SECONDS", 0.01)
    seen, both = [], threading.Event()

    def on_epoch(epoch, accuracy):
        seen.append((epoch, accuracy))
        if epoch == 1:
            both.set()

    with on_ray._watched(board, on_epoch) as tell:
        callback = on_ray._noting(board)
        for epoch in (1, 2, 1, 2):  # counted from 1; a lost process begins again
            callback.after_report(None, [{"epoch": epoch, "stop_accuracy": epoch / 10}] * 2, None)
        assert both.wait(HANGS)  # while training is not over
    tell((0.1, 0.2, 0.3))
    assert seen == [(0, 0.1), (1, 0.2), (2, 0.3)]


def test_the_command_shows_the_epochs(on_ray, tmp_path, monkeypatch):
    shown = []

    class Crew(OneProcess):
        def __init__(self, _):
            super().__init__()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    @contextmanager
    def bar(description, total, *, quiet):
        yield lambda share=1.0, description=None: shown.append((share, description))

    monkeypatch.setattr(on_ray, "RayCrew", Crew)
    monkeypatch.setattr(fit_folder, "progress", bar)
    write_synthetic(tmp_path, 60, 200, 2, n_features=4, labelled=0.5)
    classifier = PTAClassifier(fast=True, max_epochs=3, random_state=0, device="cpu")
    asked = fit_folder.FolderFit(
        find_methods(["PTA(F)"])[0], classifier, "ray", "", tmp_path / "model", False, True
    )
    files = fit_folder.NodeFiles(*[None] * 5, tmp_path / "features.npy", tmp_path / "labels.npy")
    fit_folder.fit_folder(tmp_path / "graph", files, asked)
    epochs = [text for share, text in shown if share == 0]
    assert [text.partition(",")[2].partition(",")[0] for text in epochs] == [
        f" epoch {number}" for number in (1, 2, 3)
    ]
    assert sum(share for share, _ in shown) == pytest.approx(100)
