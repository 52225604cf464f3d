"""The three steps by a crew are the three steps from disk."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from one_process import OneProcess
from proptrain import PTAClassifier, fit_cluster, fit_from_disk, from_disk
from proptrain.data.convert import graph_from_edges
from proptrain.data.disk_writer import save_graph
from proptrain.data.shared import SharedFolder
from proptrain.data.shared_graph import SharedGraph
from proptrain.data.synthetic_disk import write_synthetic
from proptrain.disk_model import load_disk_model, save_disk_model
from proptrain.errors import FileFormatError, InvalidInputError
from proptrain.fit_cluster import fit_on_cluster, work_folder
from proptrain.from_disk import fitting_batch_size
from proptrain.train.team import ALONE
from proptrain.train.torch_backend import torch_backend
from thread_team import Threads, run_all

N = 400


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    how = {"n_features": 8, "labelled": 0.3, "memory": "4GB"}
    graph = write_synthetic(folder / "big", N, 4 * N, 4, **how).to_graph()
    order = np.random.RandomState(0).permutation(N)
    save_graph(graph, folder / "graph", n_blocks=3, order=order, ids=np.arange(N) + 5)
    big = folder / "big"
    features, y = np.load(big / "features.npy", mmap_mode="r"), np.load(big / "labels.npy")
    return SimpleNamespace(folder=folder, features=features, path=big / "features.npy", y=y)


def classifier(**how):
    return PTAClassifier(random_state=0, fast=True, max_epochs=8, **{"device": "cpu", **how})


@pytest.mark.parametrize("batch_size", [None, 100])
@pytest.mark.parametrize("clamp", [True, False])
def test_it_is_the_fit_from_disk(made, tmp_path, batch_size, clamp):
    how = {"batch_size": batch_size, "clamp": clamp}
    graph = made.folder / "graph"
    wanted = fit_from_disk(classifier(**how), graph, made.features, made.y, memory="64GB")
    shares, epochs = [], []
    with work_folder(tmp_path) as work:
        got = fit_on_cluster(
            classifier(**how), graph, made.path, made.y, OneProcess(), work,
            on_step=shares.append, on_epoch=lambda epoch, _: epochs.append(epoch),
        )  # fmt: skip
        save_disk_model(tmp_path / "model", classifier(), got, SharedGraph(graph))
    assert sum(shares) == pytest.approx(1)
    assert epochs == list(range(8))
    np.testing.assert_array_equal(got.reached, wanted.reached)
    np.testing.assert_array_equal(got.given, wanted.given)
    for name, weight in wanted.trained.weights.items():
        np.testing.assert_array_equal(got.trained.weights[name], weight)
    model = load_disk_model(tmp_path / "model")
    np.testing.assert_allclose(model.predictions, wanted.distributions, atol=1e-6)
    assert model.ids(slice(0, 2)).tolist() == [5, 6]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]  # nothing unfinished is left


def test_blocks_without_rows_are_no_exception(made, tmp_path):
    star = graph_from_edges([(0, leaf) for leaf in range(1, 40)])
    save_graph(star, tmp_path / "star", n_blocks=8)  # the hub's row is as long as all others
    assert 0 in [block.n_rows for block in SharedGraph(tmp_path / "star").manifest.blocks]
    np.save(tmp_path / "features.npy", made.features[:40])
    y = np.arange(40) % 2
    features = np.load(tmp_path / "features.npy", mmap_mode="r")
    wanted = fit_from_disk(classifier(), tmp_path / "star", features, y, memory="64GB")
    with work_folder(tmp_path) as work:
        got = fit_on_cluster(
            classifier(), tmp_path / "star", tmp_path / "features.npy", y, OneProcess(), work
        )
        np.testing.assert_allclose(got.distributions[:], wanted.distributions, atol=1e-6)


def test_a_batch_fits_the_smallest_machine(made, tmp_path):
    crew, memory = OneProcess(), 1_000_000
    crew.machine_memory = memory
    graph = made.folder / "graph"
    with work_folder(tmp_path) as work:
        got = fit_on_cluster(classifier(), graph, made.path, made.y, crew, work)
    wanted = fitting_batch_size(N, 8, classifier().n_hidden, 4, memory)
    assert got.batch_size == wanted == 128
    how = {"batch_size": wanted}
    alike = fit_from_disk(classifier(**how), graph, made.features, made.y, memory="64GB")
    assert got.trained.history == alike.trained.history


def test_torch_trains_from_disk_and_by_a_crew_as_the_kernels_do(made, tmp_path, monkeypatch):
    used = []
    for place in (from_disk, fit_cluster):
        monkeypatch.setattr(place, "torch_backend", lambda on: used.append(on) or torch_backend(on))
    device, graph = torch.device("cpu"), made.folder / "graph"
    wanted, by_torch = (
        fit_from_disk(
            classifier(batch_size=100, device=on), graph, made.features, made.y, memory="64GB"
        )
        for on in ("cpu", device)
    )
    with work_folder(tmp_path) as work:
        how = {"batch_size": 100, "device": device}
        by_crew = fit_on_cluster(classifier(**how), graph, made.path, made.y, OneProcess(), work)
        assert used == [device, device]
        assert by_crew.trained.history == by_torch.trained.history
        for got in (by_torch, by_crew):
            losses = got.trained.history.train_loss
            np.testing.assert_allclose(losses, wanted.trained.history.train_loss, rtol=1e-3)
            np.testing.assert_allclose(got.distributions[:], wanted.distributions, atol=0.02)


class Team(OneProcess):
    """Has several threads train, and notes how many bytes each has read of every file."""

    def __init__(self, size):
        super().__init__()
        self.size, self.read = size, [Counter() for _ in range(size)]

    def see(self, folder):
        pass

    def train(self, job, trainers, storage, on_epoch=None):
        team, before, own = Threads(self.size), SharedFolder._open, threading.local()

        @contextmanager
        def counting(folder, name):
            with before(folder, name) as file:
                yield CountedFile(file, own.read, name.partition("-0")[0])

        def run(rank):
            own.read = self.read[rank]
            return job.run(ALONE if self.size == 1 else team.member(rank), None)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SharedFolder, "_open", counting)
            return run_all(self.size, run)[0]


class CountedFile:
    def __init__(self, file, read, name):
        self._file, self._read, self._name = file, read, name

    def __getattr__(self, name):
        return getattr(self._file, name)

    def read_buffer(self, n_bytes=None):
        content = self._file.read_buffer(n_bytes)
        self._read[self._name] += content.size
        return content


@pytest.mark.parametrize("order", [None, "renumbered"])
@pytest.mark.parametrize("batch_size", [None, 100])
def test_a_trainer_reads_its_own_rows_where_nothing_is_mounted(
    made, tmp_path, monkeypatch, batch_size, order
):
    graph = made.folder / "graph"
    if order is None:
        graph = made.folder / "big" / "graph"
    how = {"batch_size": batch_size}
    wanted = fit_from_disk(classifier(**how), graph, made.features, made.y, memory="64GB")
    monkeypatch.setattr(SharedFolder, "local", None)
    monkeypatch.setattr("proptrain.data.shared.GAP", 0)
    for size in (1, 2):
        crew = Team(size)
        with work_folder(tmp_path) as work:
            got = fit_on_cluster(classifier(**how), graph, made.path, made.y, crew, work)
        for name, weight in wanted.trained.weights.items():
            rounding = 0 if size == 1 else 2e-4
            np.testing.assert_allclose(got.trained.weights[name], weight, rtol=0, atol=rounding)
        # Each number is four bytes: features have 8 a node, soft labels 4.
        for name, n_columns in (("features.npy", 8), ("soft", 4), ("stop", 4)):
            shares = [read[name] / (4 * N * n_columns) for read in crew.read]
            assert sum(shares) == pytest.approx(1)
            np.testing.assert_allclose(shares, 1 / size, atol=0.02)


def test_what_cannot_be_fitted_on_a_cluster(made, tmp_path):
    graph = made.folder / "graph"

    def fit(chosen, features, y=made.y):
        with work_folder(tmp_path) as work:
            fit_on_cluster(chosen, graph, features, y, OneProcess(), work)

    with pytest.raises(InvalidInputError, match=r"Use PTA\(F\) instead"):
        fit(PTAClassifier(), made.path)
    with pytest.raises(InvalidInputError, match="each of the graph's 400 nodes, got 399"):
        fit(classifier(), made.path, made.y[1:])
    np.save(tmp_path / "double.npy", np.zeros((N, 2)))
    with pytest.raises(InvalidInputError, match=r"Features must be float32.*double\.npy"):
        fit(classifier(), tmp_path / "double.npy")
    (tmp_path / "words.npy").write_text("words")
    with pytest.raises(FileFormatError, match=r"words\.npy is no \.npy array"):
        fit(classifier(), tmp_path / "words.npy")
    assert not list(tmp_path.glob(".proptrain-*"))


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_features_are_looked_at_before_anything_is_made_of_them(
    made, tmp_path, monkeypatch, number
):
    monkeypatch.setattr("proptrain.data.mapped.SMALL", 320)  # ten rows
    features = np.array(made.features)
    features[333, 3] = number
    np.save(tmp_path / "x.npy", features)
    crew = OneProcess()

    def fit_by_crew():
        with work_folder(tmp_path) as work:
            fit_on_cluster(
                classifier(), made.folder / "graph", tmp_path / "x.npy", made.y, crew, work
            )

    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    ways = (
        fit_by_crew,
        lambda: fit_from_disk(classifier(), made.folder / "graph", mapped, made.y),
    )
    told = r"finite numbers that fit float32; x\.npy has others between rows 33\d and 34\d"
    for fit in ways:
        with pytest.raises(InvalidInputError, match=told):
            fit()
    assert set(crew.calls) == {"check_feature_rows"}
