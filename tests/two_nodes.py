"""Two Ray nodes on this machine, and what shall hold on them: python two_nodes.py FOLDER.

With --closed it is in a network and process namespace of its own (see e2e/test_ray.py), and may do
there what root may: the second node is in a further network namespace, behind a link that can be
cut. A cluster takes long to start, so it is started once; what each scenario came to is a line of
JSON on standard output.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import ray
import torch
from pyarrow import fs

import s3_server
from processes import HANGS, kill_tree, own_processes
from proptrain import PTAClassifier, fit_from_disk
from proptrain.data.disk import DiskGraph
from proptrain.data.disk_writer import save_graph
from proptrain.data.graph import Graph
from proptrain.data.shared import SharedFolder
from proptrain.data.synthetic_disk import write_synthetic
from proptrain.errors import (
    ClusterError,
    FileFormatError,
    NotEnoughMemoryError,
    TrainingError,
    UnreadableFileError,
)
from proptrain.large.fit_cluster import fit_on_cluster, work_folder
from proptrain.large.on_ray import RayCrew, RayEngine
from proptrain.propagate import cluster as cluster_module
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.exchange import take_step
from proptrain.propagate.schemes import PPR
from proptrain.train.weighting import Adaptive

N, C = 3000, 5
PART = (
    "(halves and not large and not mean- and not heat- and not exact- and not exact_is"
    " and (not ppr- or oracle or fixed_rows_stay))"
    " or (not whole and power- and (awkward or fixed_rows_stay))"
)
"""Of the contract, what there is time for whenever tests are run."""
LONG = 600
"""Seconds that a task takes which waits for its end by others."""


class Network:
    """Where the nodes are: both on loopback, or the second behind a link."""

    def __init__(self, *, closed):
        self.first = self.second = "127.0.0.1"
        self.into_second = []
        if closed:
            self._put_second_behind_a_link()
        self.address = f"{self.first}:{s3_server.free_port(self.first)}"

    def _put_second_behind_a_link(self):
        self.first, self.second = "10.77.0.1", "10.77.0.2"
        beyond = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])  # ends with all the rest
        own = Path("/proc/self/ns/net").readlink()
        wait_for(lambda: Path(f"/proc/{beyond.pid}/ns/net").readlink() != own)
        self.into_second = ["nsenter", "-t", str(beyond.pid), "-n"]
        # Both ends have one name, since those who train are told to use what is called so.
        run("ip", "link", "add", "wire", "type", "veth", "peer", "name", "other")
        run("ip", "link", "set", "other", "netns", str(beyond.pid))
        run(*self.into_second, "ip", "link", "set", "other", "name", "wire")
        for place, address in (([], self.first), (self.into_second, self.second)):
            run(*place, "ip", "address", "add", f"{address}/24", "dev", "wire")
            run(*place, "ip", "link", "set", "lo", "up")
            run(*place, "ip", "link", "set", "wire", "up")
        os.environ["GLOO_SOCKET_IFNAME"] = "wire"

    def cut(self):
        run("ip", "link", "set", "wire", "down")


def run(*command):
    subprocess.run(command, check=True)


def start_node(folder, ip, *words, within=()):
    """Start a node that lives as long as this process's child does."""
    command = [
        *(*within, sys.executable, "-m", "ray.scripts.scripts", "start", "--block"),
        *("--disable-usage-stats", f"--node-ip-address={ip}", "--num-cpus=1"),
        *("--object-store-memory=200000000", *words),
    ]
    log = (folder / "nodes.log").open("a")
    return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def start_second(cluster):
    """Start the second node, if there is none, and wait until it is there."""
    if cluster.second is not None and cluster.second.poll() is None:
        return
    network, before = cluster.network, {node["NodeID"] for node in ray.nodes()}
    how = {"within": network.into_second}
    cluster.second = start_node(
        cluster.folder, network.second, f"--address={network.address}", **how
    )

    def has_come():
        return any(node["Alive"] and node["NodeID"] not in before for node in ray.nodes())

    wait_for(has_come)


def started_store(network):
    """Start a server that speaks S3, and have all who are started later find it."""
    if not s3_server.is_there():
        return None
    where = (network.first, s3_server.free_port(network.first))
    os.environ.update(s3_server.environment(*where))
    return s3_server.start(*where)


def wait_for(what):
    end = time.monotonic() + HANGS
    while not what():
        if time.monotonic() > end:
            raise TimeoutError(what.__name__)
        time.sleep(0.1)


def made_problem(folder):
    """A made-up problem on disk, in four blocks, and what the other engines make of it."""
    disk = write_synthetic(folder / "big", N, 4 * N, C, n_features=12, labelled=0.2)
    graph = disk.to_graph()
    order = np.random.RandomState(1).permutation(N)
    save_graph(graph, folder / "graph", n_blocks=4, order=order)
    signal = np.random.default_rng(0).random((N, C)).astype(np.float32)
    fixed = np.arange(0, N, 7)
    return SimpleNamespace(
        folder=folder,
        graph=folder / "graph",
        features=folder / "big" / "features.npy",
        y=np.load(folder / "big" / "labels.npy"),
        signal=signal,
        fixed=fixed,
        undisturbed=None,
        wanted=LocalEngine(graph).propagate(signal, PPR(), fixed=fixed),
    )


class Steps:
    """The steps that are taken meanwhile, one line in a file for each time that a task was done.

    If told so, the first task that begins after so many notes down who does it, and is never done:
    somebody has to end it.
    """

    def __init__(self, path, *, held_after=None):
        self.path, self.held_after = path, held_after
        self.held = path.with_suffix(".held")

    def __enter__(self):
        path, held, held_after = self.path, self.held, self.held_after

        def is_to_be_held():
            if held_after is None or held.exists() or not path.exists():
                return False
            return len(path.read_text().splitlines()) >= held_after

        def take_and_note(*given):
            own = ray.get_runtime_context()
            if is_to_be_held():
                words = f"{own.get_task_id()} {os.getpid()}"
                with contextlib.suppress(FileExistsError), held.open("x") as file:
                    file.write(words)  # the first of those who came at once
                if held.read_text() == words:
                    time.sleep(LONG)
            told = take_step(*given)
            with path.open("a") as file:
                file.write(f"{own.get_task_id()} {own.get_node_id()} {time.time()}\n")
            return told

        cluster_module.take_step = take_and_note
        return self

    def __exit__(self, *_):
        cluster_module.take_step = take_step

    def lines(self):
        text = self.path.read_text() if self.path.exists() else ""
        return [line.split() for line in text.splitlines()]

    def are_shared(self):
        """Tell whether both nodes take a fair part, the last steps too: each has what is needed.

        A node that is new takes one now and then at first, from what lies elsewhere.
        """
        nodes = [node for _, node, _ in self.lines()]
        both = set(nodes)
        is_fair = len(both) > 1 and min(map(nodes.count, both)) >= len(nodes) / 4
        return is_fair and set(nodes[-4:]) == both

    def taken_again(self, moment):
        """Return how many were done before a moment, and after it once more."""
        before, after = (
            {task for task, _, when in self.lines() if (float(when) > moment) == later}
            for later in (False, True)
        )
        return len(before & after)


class LargeEngine(RayEngine):
    """The engine as it is for large graphs, whose entries have no numbers."""

    _is_small = False


def differences(made, on_step=None, engine=LargeEngine):
    got = engine(made.graph).propagate(made.signal, PPR(), fixed=made.fixed, on_step=on_step)
    return {"difference": float(abs(got - made.wanted).max())}


def propagation(made, cluster):
    with Steps(made.folder / "propagation.steps") as steps:
        told = differences(made)
    n_nodes = len({node for _, node, _ in steps.lines()})
    return {**told, "small": differences(made, engine=RayEngine)["difference"], "n_nodes": n_nodes}


def contract(made, cluster):
    """What every engine keeps, by this cluster: see contract/test_engine.py."""
    tests = Path(__file__).parent / "contract"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", PART, str(tests)],
        env={**os.environ, "PROPTRAIN_RAY": cluster.network.address},
        cwd=tests.parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {"out": (done.stdout + done.stderr)[-3000:]}


class AfterSteps:
    """Does something once, when so many steps have been taken and it is time."""

    def __init__(self, n_steps, do, is_time=lambda: True):
        self.left, self.do, self.is_time, self.moment = n_steps, do, is_time, None

    def __call__(self, _):
        self.left -= 1
        if self.left <= 0 and self.moment is None and self.is_time():
            self.moment = time.time()
            self.do()


def a_worker_killed(made, cluster):
    """The process that is taking a step, of the fifth or so, is killed in the midst of it."""
    struck = []

    def kill_it():
        wait_for(lambda: steps.held.exists() and " " in steps.held.read_text())
        task, victim = steps.held.read_text().split()
        assert int(victim) in own_processes("ray::take_and_note")
        n_before = sum(done == task for done, *_ in steps.lines())
        os.kill(int(victim), signal.SIGKILL)
        struck.append((task, n_before))

    with Steps(made.folder / "worker.steps", held_after=16) as steps:
        watcher = threading.Thread(target=kill_it, daemon=True)
        watcher.start()
        told = differences(made)
        watcher.join(HANGS)
    again = [sum(done == task for done, *_ in steps.lines()) - before for task, before in struck]
    return {**told, "struck": len(struck) == 1, "taken_again": sum(again)}


def lost_in_mid_propagation(made, name, strike):
    """Strike when the second node has something to lose."""
    for number in range(20):
        with Steps(made.folder / f"{name}-{number}.steps") as steps:
            blow = AfterSteps(4, strike, steps.are_shared)
            told = differences(made, blow)
        if blow.moment is not None:
            return {**told, "struck": True, "taken_again": steps.taken_again(blow.moment)}
    return {"struck": False}


def a_node_killed(made, cluster):
    return lost_in_mid_propagation(made, "killed", lambda: kill_tree(cluster.second))


def a_link_cut(made, cluster):
    """The second node is alive, but cannot be reached from one moment on."""
    if not cluster.network.into_second:
        return {"left_out": "there is no link without a namespace"}
    start_second(cluster)
    told = lost_in_mid_propagation(made, "cut", cluster.network.cut)
    kill_tree(cluster.second)  # cut off, Ray's own processes do not end when they are told to
    return told


@dataclass(frozen=True)
class Noting(Adaptive):
    """PTA's weighting, with a line in a file for each epoch that a process trains."""

    path: str = ""

    def __call__(self, confidence, epoch):
        with Path(self.path).open("a") as file:
            file.write(f"{os.getpid()} {epoch}\n")
        return super().__call__(confidence, epoch)


def epochs_of(path):
    """Return the epochs that each process has trained, those who began first first."""
    told = {}
    for line in path.read_text().split("\n")[:-1]:  # the last one may still be written
        pid, epoch = map(int, line.split())
        told.setdefault(pid, []).append(epoch)
    return list(told.values())


def classifier(**how):
    how = {"fast": True, "max_epochs": 25, "patience": 8, "batch_size": 500, "device": "cpu", **how}
    return PTAClassifier(random_state=0, **how)


def weights_apart(one, other):
    pairs = [(one.trained.weights[name], array) for name, array in other.trained.weights.items()]
    return max(float(abs(a - b).max()) for a, b in pairs)


def fitted_by_two(made, notes):
    """Fit here, and on the cluster by two trainers; returns how far they are from each other.

    The first time nobody is disturbed, and who comes later is compared with that as well.
    """
    noting, seen = Noting(path=str(notes)), []
    features = np.load(made.features, mmap_mode="r")
    local = fit_from_disk(classifier(), made.graph, features, made.y, memory="64GB")
    with work_folder(made.folder) as work:
        ours = fit_on_cluster(
            classifier(weighting=noting), made.graph, made.features, made.y, RayCrew(), work,
            n_workers=2, on_epoch=lambda epoch, _: seen.append((epoch, notes.stat().st_size)),
        )  # fmt: skip
        told = ours.distributions[np.arange(N)]
    made.undisturbed = made.undisturbed or ours
    histories = [
        np.array([one.trained.history.train_loss, one.trained.history.stop_loss])
        for one in (ours, local)
    ]
    same_length = histories[0].shape == histories[1].shape
    return {
        "difference": float(abs(told - local.distributions).max()),
        "to_undisturbed": weights_apart(ours, made.undisturbed),
        "epochs": [len(one.trained.history.train_loss) for one in (ours, local)],
        "best": [ours.trained.best_epoch, local.trained.best_epoch],
        "losses": float(abs(histories[0] / histories[1] - 1).max()) if same_length else None,
        "reached": bool((ours.reached == local.reached).all()),
        "seen": [epoch for epoch, _ in seen],
        "seen_early": seen[0][1] < notes.stat().st_size,
        "left": len(list(made.folder.glob(".proptrain-*"))),
    }


@contextlib.contextmanager
def struck_in_training(notes, strike):
    """Strike when there must be some snapshots; gives a list that has an entry once it is done."""
    struck = []

    def watch():
        def has_snapshots():  # of the first epochs, whatever is on its way of the last
            return notes.exists() and max(map(max, epochs_of(notes)), default=0) >= 5

        wait_for(has_snapshots)
        struck.append(True)
        strike()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    yield struck
    watcher.join(HANGS)


def fitted_by_two_though(made, notes, strike):
    """What two came to, and from which epochs on each process of them trained."""
    with struck_in_training(notes, strike) as struck:
        told = fitted_by_two(made, notes)
    return {**told, "struck": len(struck), "begun": [one[0] for one in epochs_of(notes)]}


def two_train(made, cluster):
    """Nobody is lost."""
    return fitted_by_two(made, made.folder / "undisturbed.epochs")


def a_whole_training(made, cluster):
    """One trains on all nodes at once, for as long as in memory, though it is killed once.

    PTA itself: after each epoch its trainer has the cluster spread what it predicts.
    """
    notes = made.folder / "whole.epochs"
    graph = DiskGraph(made.folder / "big" / "graph").to_graph()
    save_graph(graph, made.folder / "in-order", n_blocks=4)
    how = {"batch_size": None, "max_epochs": 100, "patience": 20}
    local = classifier(**how).fit(np.load(made.features), made.y, graph=graph)
    ours_is = classifier(**how, weighting=Noting(path=str(notes)))
    with work_folder(made.folder) as work, struck_in_training(notes, kill_a_trainer) as struck:
        given = (made.folder / "in-order", made.features, made.y, RayCrew(), work)
        ours = fit_on_cluster(ours_is, *given, n_workers=1)
        told = ours.distributions[np.arange(N)]
    pairs = [(ours.trained.weights[name], array) for name, array in local.weights_.items()]
    return {
        "difference": float(abs(told - local.label_distributions_).max()),
        "weights": max(float(abs(one - other).max()) for one, other in pairs),
        "same_history": ours.trained.history == local.history_,
        "epochs": local.n_iter_,
        "struck": len(struck),
        "begun": [one[0] for one in epochs_of(notes)],
    }


def kill_a_trainer():
    os.kill(min(own_processes("ray::RayTrainWorker")), signal.SIGKILL)


def a_trainer_killed(made, cluster):
    """Two train, and one of them is killed."""
    return fitted_by_two_though(made, made.folder / "killed.epochs", kill_a_trainer)


def a_node_replaced_in_training(made, cluster):
    """A machine is lost with the one of two who trains there, and another comes in its place."""
    notes = made.folder / "replaced.epochs"
    start_second(cluster)

    def replace_second():
        kill_tree(cluster.second)
        start_second(cluster)

    return fitted_by_two_though(made, notes, replace_second)


def a_node_lost_in_training(made, cluster):
    """A machine is lost, and none comes in its place."""
    notes = made.folder / "lost.epochs"
    start_second(cluster)
    weighting = Noting(path=str(notes))
    with struck_in_training(notes, lambda: kill_tree(cluster.second)):
        told = message(
            ClusterError, lambda: fit_on(made, classifier(weighting=weighting), n_workers=2)
        )
    left = len(list(made.folder.glob(".proptrain-*")))
    return {**told, "n_trained": len(epochs_of(notes)), "left": left}


BRIEFLY = """
from dataclasses import replace
from proptrain import cli
from proptrain.classifier import GraphClassifier
before = GraphClassifier._settings
GraphClassifier._settings = lambda *given: replace(before(*given), max_epochs=15)
cli.main()
"""
"""The command line, with few epochs: in hundreds the rounding of two engines would grow."""


def proptrain(*words):
    """Run a command; returns what it said."""
    done = subprocess.run(
        [sys.executable, "-c", BRIEFLY, *map(str, words)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {"code": done.returncode, "err": done.stderr[-2000:], "out": done.stdout}


def fit_words(made, out, table=None):
    words = ["fit", "--edges", made.graph, "--method", "PTA(F)", "--json", "--device", "cpu"]
    words += ["--out", out, "--batch-size", 500]
    if table is not None:
        return [*words, "--nodes", table, "--label", "topic"]
    return [
        *(*words, "--features", made.features),
        *("--labels", made.folder / "big" / "labels.npy"),
    ]


def fitted_twice(made, cluster, name, table=None):
    """What two commands come to, from disk and on the cluster, and the folders of their models."""
    told, models = {}, []
    for engine, words in (
        ("blocked", ["--memory", "4GB"]),
        ("ray", ["--address", cluster.network.address, "--workers", 1]),
    ):
        models.append(made.folder / f"{name}-{engine}")
        given = fit_words(made, models[-1], table)
        told[engine] = proptrain(*given, "--engine", engine, *words)
    told["left"] = len(list(made.folder.glob(".proptrain-*")))
    if not any(told[engine]["code"] for engine in ("blocked", "ray")):
        a, b = (np.load(model / "predictions.npy") for model in models)
        told["difference"] = float(abs(a - b).max())
    return told, models


def command_line(made, cluster):
    """One trainer on the cluster does what training from disk does here."""
    told, models = fitted_twice(made, cluster, "arrays")
    if "difference" in told:
        files = ("weights.safetensors", "reached.npy")
        both = [[(model / name).read_bytes() for name in files] for model in models]
        told["same"] = [one == other for one, other in zip(*both, strict=True)]
    return told


def a_node_table(made, cluster):
    """What a table of nodes comes to on the cluster, and from disk; and is told of it."""
    numbers = np.load(made.features)
    table = pd.DataFrame(numbers, columns=[f"x{place}" for place in range(numbers.shape[1])])
    table.insert(0, "id", np.arange(N))
    table["topic"] = np.where(made.y < 0, "", np.char.add("class ", made.y.astype(str)))
    table.to_csv(made.folder / "nodes.csv", index=False)
    told, (_, by_ray) = fitted_twice(made, cluster, "table", made.folder / "nodes.csv")
    if "difference" not in told:
        return told
    out = made.folder / "told.csv"
    told["predict"] = proptrain("predict", by_ray, "--out", out, "--json")
    if told["predict"]["code"]:
        return told
    rows = list(csv.DictReader(out.open()))
    names = [name for name in rows[0] if name.startswith("p_")]
    written = np.array([[float(row[name]) for name in names] for row in rows])
    to_file = float(abs(written - np.load(by_ray / "predictions.npy")).max())
    return {**told, "ids": [row["id"] for row in rows], "to_file": to_file}


def in_a_store(made, cluster):
    """Graph, features and all that is not finished at s3://; two train there, by torch."""
    if cluster.store is None:
        return {"left_out": s3_server.MISSING}
    store = SharedFolder(f"s3://{s3_server.BUCKET}")
    s3_server.make_bucket()
    fs.copy_files(str(made.graph), f"{store.address}/graph", use_threads=False)
    features = np.load(made.features, mmap_mode="r")
    store.write("features.npy", features)
    how = {"max_epochs": 6, "device": torch.device("cpu")}
    local = fit_from_disk(classifier(**how), made.graph, features, made.y, memory="64GB")
    with work_folder(store.address) as work:
        given = (f"{store.address}/graph", f"{store.address}/features.npy", made.y, RayCrew(), work)
        ours = fit_on_cluster(classifier(**how), *given, n_workers=2)
        told = ours.distributions[np.arange(N)]
    files, path = fs.FileSystem.from_uri(store.address)
    names = [one.path for one in files.get_file_info(fs.FileSelector(path, recursive=True))]
    return {
        "difference": float(abs(told - local.distributions).max()),
        "epochs": [len(one.trained.history.train_loss) for one in (ours, local)],
        "left": [name for name in names if ".proptrain-" in name],
    }


def message(kind, do):
    """Return what was raised, which must be of a kind."""
    try:
        do()
    except kind as error:
        return {"said": str(error)}
    return {"said": None}


def take_too_much():
    return np.empty(2**60, np.uint8)


def fit_on(made, chosen, folder=None, **how):
    with work_folder(folder or made.folder) as work:
        fit_on_cluster(chosen, made.graph, made.features, made.y, RayCrew(), work, **how)


def bad_weather(made, cluster):
    """What is missing, broken or too small is said, and nothing hangs."""
    told = {}
    save_graph(Graph.without_edges(1_300_000), made.folder / "large", n_blocks=1)
    signal = np.zeros((1_300_000, 1), np.float32)
    large = RayEngine(made.folder / "large")
    told["memory"] = message(ClusterError, lambda: large.propagate(signal, PPR()))
    for name, kind in (("corrupt", FileFormatError), ("missing", UnreadableFileError)):
        save_graph(Graph.without_edges(5), made.folder / name, n_blocks=2)
        path = made.folder / name / "indptr-00001.npy"
        content = path.read_bytes()
        path.write_bytes(content[:-1] + b"\1") if name == "corrupt" else path.unlink()
        engine = RayEngine(made.folder / name)
        told[name] = message(kind, lambda e=engine: e.propagate(np.ones((5, 1)), PPR()))
    crew = RayCrew()
    told["task"] = message(NotEnoughMemoryError, lambda: crew.get(crew.call(take_too_much)))
    told["workers"] = message(ClusterError, lambda: fit_on(made, classifier(), n_workers=3))
    return {**told, "left": len(list(made.folder.glob(".proptrain-*")))}


def training_that_cannot_be(made, cluster):
    """Two train by torch, as on GPUs, at a rate at which nothing stays finite."""
    notes = made.folder / "diverged.epochs"
    how = {"weighting": Noting(path=str(notes)), "device": torch.device("cpu")}
    diverging = classifier(learning_rate=1e30, **how)
    told = message(TrainingError, lambda: fit_on(made, diverging, n_workers=2))
    return {**told, "n_trained": len(epochs_of(notes))}


def a_full_disk(made, cluster):
    """There is room for half of the soft labels; then for them, but for no snapshot."""
    if not cluster.network.into_second:
        return {"left_out": "a small disk can be mounted in a namespace alone"}
    told = {}
    for name, size in (("labels", "100k"), ("snapshots", "144k")):
        small, out = made.folder / name, made.folder / f"by-{name}"
        small.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small))
        words = ["--engine", "ray", "--address", cluster.network.address, "--shared", small]
        done = proptrain(*fit_words(made, out), *words)
        left = [path.name for path in [*small.iterdir(), *made.folder.glob(f"*by-{name}*")]]
        told[name] = {**done, "left": left}
        run("umount", str(small))
    return told


SCENARIOS = (
    propagation,
    contract,
    bad_weather,
    training_that_cannot_be,
    a_full_disk,
    command_line,
    a_node_table,
    in_a_store,
    a_worker_killed,
    two_train,
    a_whole_training,
    a_trainer_killed,
    a_node_killed,
    a_node_replaced_in_training,
    a_node_lost_in_training,
    a_link_cut,
)


def left_after(cluster):
    """End all as one would, and return what is still there after some time.

    In a namespace nothing outlives this process, so that it must be looked for here.
    """
    ray.shutdown()
    if cluster.store is not None:
        kill_tree(cluster.store)
    nodes = [node for node in (cluster.second, cluster.head) if node.poll() is None]
    for node in nodes:
        node.terminate()
    with contextlib.suppress(TimeoutError):
        wait_for(lambda: not of_ray())
    left = of_ray()
    for node in nodes:
        kill_tree(node)
    return left


def of_ray():
    """Return the commands that run here, but for the one that keeps the second network."""
    return [line for line in own_processes().values() if not line.startswith("sleep")]


def say(told):
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def main():
    folder = Path(sys.argv[1])
    network = Network(closed="--closed" in sys.argv)
    store = started_store(network)  # before the nodes, which must know where it is
    port = network.address.rpartition(":")[2]
    words = (f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}/ray")
    head = start_node(folder, network.first, "--head", *words)
    cluster = SimpleNamespace(network=network, folder=folder, head=head, second=None, store=store)
    made = made_problem(folder)

    def can_connect():
        try:
            RayCrew(network.address)
        except ClusterError:
            return False
        return True

    wait_for(can_connect)
    start_second(cluster)
    chosen = [name for name in sys.argv[2:] if not name.startswith("--")]
    for scenario in SCENARIOS:
        if chosen and scenario.__name__ not in chosen:
            continue
        start = time.monotonic()
        try:
            told = scenario(made, cluster)
        except Exception:
            told = {"failed": traceback.format_exc()}
        say(told | {"scenario": scenario.__name__, "took": time.monotonic() - start})
    say({"scenario": "the_end", "left": left_after(cluster)})


if __name__ == "__main__":
    main()
