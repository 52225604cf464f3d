"""Two Ray nodes on this machine, and what shall hold on them: python two_nodes.py FOLDER.

To be run in a network and process namespace of its own (see e2e/test_ray.py). A cluster takes long
to start, so it is started once; what each scenario came to is a line of JSON on standard output.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp

import reference
from proptrain import PTAClassifier, fit_from_disk
from proptrain.data.disk_writer import save_graph
from proptrain.data.graph import Graph
from proptrain.data.synthetic_disk import write_synthetic
from proptrain.errors import ClusterError, FileFormatError, UnreadableFileError
from proptrain.fit_cluster import fit_on_cluster, work_folder
from proptrain.on_ray import RayCrew, RayEngine
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.schemes import PPR, Heat

PORT = 6399
ADDRESS = f"127.0.0.1:{PORT}"
N, C = 3000, 5


def start_node(folder, *words):
    """Start a node that lives as long as this process's child does."""
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"),
        *("--node-ip-address=127.0.0.1", "--num-cpus=1", "--object-store-memory=200000000"),
        *words,
    ]
    log = (folder / "nodes.log").open("a")
    return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def wait_for(what, seconds=120):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise TimeoutError(what.__name__)
        time.sleep(0.1)


def processes(title):
    """Return the ids of processes whose command line begins so."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().decode(errors="replace").startswith(title):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def kill_tree(process):
    """End a node as a power cut would: all of its processes at once."""
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(words[1]), []).append(int(path.parent.name))
    doomed, waiting = [], [process.pid]
    while waiting:
        one = waiting.pop()
        doomed.append(one)
        waiting += children.get(one, [])
    for one in doomed:
        os.kill(one, signal.SIGKILL)
    process.wait()


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
        wanted=LocalEngine(graph).propagate(signal, PPR(), fixed=fixed),
    )


def differences(made, on_step=None):
    got = RayEngine(made.graph).propagate(made.signal, PPR(), fixed=made.fixed, on_step=on_step)
    return {"difference": float(abs(got - made.wanted).max())}


def propagation(made, cluster):
    return differences(made)


def awkward_graphs(made, cluster):
    """One node, no edges, weights, nodes apart, more blocks than nodes: against the oracle."""
    weighted = np.kron(np.eye(2), [[0, 0.5, 1], [0.5, 0, 0], [1, 0, 0]])
    worst = 0.0
    for place, adjacency in enumerate([np.zeros((1, 1)), np.zeros((4, 4)), weighted]):
        folder, n = made.folder / f"awkward{place}", len(adjacency)
        save_graph(Graph(sp.csr_array(adjacency)), folder, n_blocks=n + 2)
        for kind in reference.KINDS:
            step = reference.operator(adjacency, kind)
            engine = RayEngine(folder, kind)
            wanted = reference.combine(step, reference.heat_coefficients(2.0, 3))
            worst = max(worst, abs(engine.propagate(np.eye(n), Heat(2.0, 3)) - wanted).max())
            held = np.array([0])
            beta = reference.ppr_coefficients(0.1, 3)
            wanted = reference.clamped(step, np.eye(n), beta, held)
            got = engine.propagate(np.eye(n), PPR(0.1, 3), fixed=held)
            worst = max(worst, abs(got - wanted).max())
    return {"difference": float(worst)}


def a_worker_killed(made, cluster):
    killed = []

    def kill_one(_):
        # After the fourth step one of those who have the pieces of the next in hand.
        kill_one.steps += 1
        if kill_one.steps == 4:
            victim = processes("ray::")[-1]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    kill_one.steps = 0
    return {**differences(made, kill_one), "killed": len(killed)}


def a_node_killed(made, cluster):
    def kill_node(_):
        kill_node.steps += 1
        if kill_node.steps == 4:
            kill_tree(cluster.second)

    kill_node.steps = 0
    return {**differences(made, kill_node), "killed": int(cluster.second.poll() is not None)}


def classifier():
    how = {"fast": True, "max_epochs": 25, "patience": 8, "batch_size": 500}
    return PTAClassifier(random_state=0, device="cpu", **how)


def fitted_by_two(made):
    """Fit here, and on the cluster by two trainers; returns how far they are from each other."""
    features = np.load(made.features, mmap_mode="r")
    local = fit_from_disk(classifier(), made.graph, features, made.y, memory="64GB")
    with work_folder(made.folder) as work:
        ours = fit_on_cluster(
            classifier(), made.graph, made.features, made.y, RayCrew(), work, n_workers=2
        )  # fmt: skip
        told = ours.distributions[np.arange(N)]
    pairs = [(ours.trained.weights[name], array) for name, array in local.trained.weights.items()]
    histories = [
        np.array([one.trained.history.train_loss, one.trained.history.stop_loss])
        for one in (ours, local)
    ]
    same_length = histories[0].shape == histories[1].shape
    return {
        "difference": float(abs(told - local.distributions).max()),
        "weights": max(float(abs(a - b).max()) for a, b in pairs),
        "epochs": [len(one.trained.history.train_loss) for one in (ours, local)],
        "best": [ours.trained.best_epoch, local.trained.best_epoch],
        "losses": float(abs(histories[0] / histories[1] - 1).max()) if same_length else None,
        "alike": float((told.argmax(axis=1) == local.distributions.argmax(axis=1)).mean()),
        "reached": bool((ours.reached == local.reached).all()),
        "left": len(list(made.folder.glob(".proptrain-*"))),
    }


def a_trainer_killed(made, cluster):
    """Two train; when there are some snapshots, one of them is killed."""
    killed, before = [], set(processes("ray::"))

    def kill_one():
        def has_snapshots():
            return len(list(made.folder.glob(".proptrain-*/training/checkpoint*"))) >= 2

        wait_for(has_snapshots)
        victim = processes("ray::RayTrainWorker")[0]
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    watcher = threading.Thread(target=kill_one, daemon=True)
    watcher.start()
    told = fitted_by_two(made)
    watcher.join(1)
    return {**told, "killed": len(killed), "new": len(set(killed) - before)}


BRIEFLY = """
from dataclasses import replace
from proptrain import cli
from proptrain.classifier import GraphClassifier
before = GraphClassifier._settings
GraphClassifier._settings = lambda *given: replace(before(*given), max_epochs=15)
cli.main()
"""
"""The command line, with few epochs: in hundreds the rounding of two engines would grow."""


def command_line(made, cluster):
    """One trainer on the cluster does what training from disk does here."""
    told = {}
    for engine in ("blocked", "ray"):
        words = ["fit", "--engine", engine, "--edges", made.graph, "--features", made.features]
        words += ["--labels", made.folder / "big" / "labels.npy", "--method", "PTA(F)", "--json"]
        words += ["--out", made.folder / f"by-{engine}", "--batch-size", 500]
        words += ["--address", ADDRESS, "--workers", 1] if engine == "ray" else ["--memory", "4GB"]
        done = subprocess.run(
            [sys.executable, "-c", BRIEFLY, *map(str, words)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        told[engine] = {"code": done.returncode, "err": done.stderr[-2000:], "out": done.stdout}
    if any(one["code"] for one in told.values()):
        return told
    blocked, ray = (made.folder / f"by-{engine}" for engine in told)
    files = ("weights.safetensors", "reached.npy")
    a, b = (np.load(folder / "predictions.npy") for folder in (blocked, ray))
    return {
        **told,
        "same": [(blocked / name).read_bytes() == (ray / name).read_bytes() for name in files],
        "difference": float(abs(a - b).max()),
        "left": len(list(made.folder.glob(".proptrain-*"))),
    }


def bad_weather(made, cluster):
    """What is missing, broken or too small is said in seconds."""
    told, start = {}, time.monotonic()

    def message(kind, do):
        try:
            do()
        except kind as error:
            return str(error)
        return None

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
    return {**told, "seconds": time.monotonic() - start}


SCENARIOS = (
    propagation,
    awkward_graphs,
    bad_weather,
    command_line,
    a_worker_killed,
    a_trainer_killed,
    a_node_killed,
)


def main():
    import ray

    folder = Path(sys.argv[1])
    head = start_node(
        folder, "--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={folder}/ray"
    )
    made = made_problem(folder)

    def can_connect():
        try:
            RayCrew(ADDRESS)
        except ClusterError:
            return False
        return True

    wait_for(can_connect)
    second = start_node(folder, f"--address={ADDRESS}")

    def both_there():
        return sum(node["Alive"] for node in ray.nodes()) == 2

    wait_for(both_there)
    cluster = SimpleNamespace(head=head, second=second)
    for scenario in SCENARIOS:
        start = time.monotonic()
        try:
            told = scenario(made, cluster)
        except Exception:
            told = {"failed": traceback.format_exc()}
        told |= {"scenario": scenario.__name__, "took": time.monotonic() - start}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
    ray.shutdown()
    for node in (second, head):
        if node.poll() is None:
            kill_tree(node)


if __name__ == "__main__":
    main()
