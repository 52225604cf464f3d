"""The three steps by a crew are the three steps from disk."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from one_process import OneProcess
from proptrain import PTAClassifier, fit_from_disk
from proptrain.data.convert import graph_from_edges
from proptrain.data.disk import DiskGraph
from proptrain.data.disk_writer import save_graph
from proptrain.data.shared import SharedFolder
from proptrain.data.shared_graph import SharedGraph
from proptrain.data.synthetic_disk import write_synthetic
from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    UnreadableFileError,
    UnwritableOutputError,
)
from proptrain.large import fit_cluster, from_disk
from proptrain.large.fit_cluster import fit_on_cluster, work_folder
from proptrain.large.from_disk import fitting_batch_size
from proptrain.saving.disk_model import load_disk_model, save_disk_model
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
    return PTAClassifier(random_state=0, **{"device": "cpu", "fast": True, "max_epochs": 8, **how})


@pytest.mark.parametrize("batch_size", [None, 100])
@pytest.mark.parametrize(("clamp", "fast"), [(True, True), (False, True), (True, False)])
def test_it_is_the_fit_from_disk(made, tmp_path, batch_size, clamp, fast):
    how = {"batch_size": batch_size, "clamp": clamp, "fast": fast}
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


@pytest.mark.parametrize("fast", [True, False])
def test_a_whole_training_is_that_in_memory(made, tmp_path, fast):
    graph = DiskGraph(made.folder / "big" / "graph")
    how = classifier(fast=fast, max_epochs=1000)
    with work_folder(tmp_path) as work:
        given = (how, graph.folder, made.path, made.y, OneProcess(), work)
        got = fit_on_cluster(*given)
        told = got.distributions[np.arange(N)]
    wanted = how.fit(np.array(made.features), made.y, graph=graph.to_graph())
    assert 100 < wanted.n_iter_ < 1000  # as long as it liked
    assert got.trained.history == wanted.history_
    for name, weight in wanted.weights_.items():
        np.testing.assert_array_equal(got.trained.weights[name], weight)
    np.testing.assert_allclose(told, wanted.label_distributions_, rtol=0, atol=1e-7)


def test_without_stopping_nodes_labels_are_propagated_once(made, tmp_path):
    graph, crew, shares = made.folder / "graph", OneProcess(), []
    how = {"stopping_fraction": 0, "batch_size": 100}
    wanted = fit_from_disk(classifier(**how), graph, made.features, made.y, memory="64GB")
    given = (graph, made.path, made.y, crew)
    with work_folder(tmp_path) as work:
        got = fit_on_cluster(classifier(**how), *given, work, on_step=shares.append)
        np.testing.assert_allclose(got.distributions[:], wanted.distributions, atol=1e-6)
    assert crew.calls.count("keep_labels") == SharedGraph(graph).n_blocks
    assert sum(shares) == pytest.approx(1)
    assert got.trained.history == wanted.trained.history


def test_blocks_without_rows_are_no_exception(made, tmp_path):
    star = graph_from_edges([(0, leaf) for leaf in range(1, 40)])
    save_graph(star, tmp_path / "star", n_blocks=8)  # the hub's row is as long as all others
    assert 0 in [block.n_rows for block in SharedGraph(tmp_path / "star").manifest.blocks]
    np.save(tmp_path / "features.npy", made.features[:40])
    y = np.where(np.arange(40) < 39, np.arange(40) % 2, -1)
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

    with pytest.raises(InvalidInputError, match="each of the graph's 400 nodes, got 399"):
        fit(classifier(), made.path, made.y[1:])
    np.save(tmp_path / "short.npy", np.zeros((N - 1, 2), np.float32))
    with pytest.raises(InvalidInputError, match=r"a row for each of the graph's 400.*short\.npy"):
        fit(classifier(), tmp_path / "short.npy")
    (tmp_path / "words.npy").write_text("words")
    with pytest.raises(FileFormatError, match=r"words\.npy is no \.npy array"):
        fit(classifier(), tmp_path / "words.npy")
    with pytest.raises(InvalidInputError, match=r"in a store must be .*, got features\.parquet"):
        fit(classifier(), "s3://bucket/features.parquet")
    with pytest.raises(UnreadableFileError, match=r"gone\.parquet is no file"):
        fit(classifier(), tmp_path / "gone.parquet")
    with pytest.warns(UserWarning, match="All 400 nodes have a label"):
        fit(classifier(), made.path, np.arange(N) % 4)
    assert not list(tmp_path.glob(".proptrain-*"))
    with (
        pytest.raises(UnwritableOutputError, match=r"shared folder .*typo does not exist"),
        work_folder(tmp_path / "typo"),
    ):
        pass
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize("kind", ["float64", "by columns", "big-endian", "parquet"])
def test_other_features_are_shared_as_a_copy(made, tmp_path, monkeypatch, kind):
    monkeypatch.setattr("proptrain.data.mapped.SMALL", 320)  # so that they go in parts
    graph, path, given = made.folder / "graph", tmp_path / "x.npy", np.array(made.features)
    if kind == "parquet":
        path = tmp_path / "x.parquet"
        pd.DataFrame(given).rename(columns=str).to_parquet(path)
    else:
        how = {"float64": np.float64, "by columns": np.float32, "big-endian": ">f4"}[kind]
        np.save(path, given.astype(how, order="F" if kind == "by columns" else "C"))
    with work_folder(tmp_path) as work:
        wanted = fit_on_cluster(classifier(), graph, made.path, made.y, OneProcess(), work)
        told = wanted.distributions[:]
    with work_folder(tmp_path) as work:
        got = fit_on_cluster(classifier(), graph, path, made.y, OneProcess(), work)
        np.testing.assert_array_equal(got.distributions[:], told)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    given[333, 3] = np.nan
    np.save(tmp_path / "nan.npy", np.float64(given))
    with (
        work_folder(tmp_path) as work,
        pytest.raises(InvalidInputError, match=r"nan\.npy has nan in row 333, column 3"),
    ):
        fit_on_cluster(classifier(), graph, tmp_path / "nan.npy", made.y, OneProcess(), work)


@pytest.mark.parametrize(
    ("kind", "where"),
    [(np.array, "in row 333, column 3"), (sp.csr_array, "between rows 330 and 340")],
)
def test_a_matrix_in_memory_is_shared_as_a_copy(made, tmp_path, monkeypatch, kind, where):
    monkeypatch.setattr("proptrain.data.mapped.SMALL", 320)  # so that it goes in parts
    graph, given = made.folder / "graph", np.array(made.features)
    wanted = fit_from_disk(classifier(), graph, made.features, made.y, memory="64GB")
    with work_folder(tmp_path) as work:
        got = fit_on_cluster(classifier(), graph, kind(given), made.y, OneProcess(), work)
        np.testing.assert_allclose(got.distributions[:], wanted.distributions, atol=1e-6)
    assert not list(tmp_path.iterdir())
    given[333, 3] = np.inf
    with (
        work_folder(tmp_path) as work,
        pytest.raises(InvalidInputError, match=f"fit float32; X has inf {where}"),
    ):
        fit_on_cluster(classifier(), graph, kind(given), made.y, OneProcess(), work)


@pytest.mark.parametrize(
    ("features", "told"),
    [
        (pd.DataFrame(np.zeros((N, 2))), "DataFrame of shape"),
        ([[0.0]] * N, "list of shape"),
        (np.zeros((N, 2), complex), "must be real numbers; X has complex128"),
        (np.full((N, 2), "a"), "must be real numbers; X has <U1"),
        (np.zeros((N - 1, 2), np.float32), "a row for each of the graph's 400 nodes"),
    ],
)
def test_a_matrix_must_be_one_of_numbers(made, tmp_path, features, told):
    graph = made.folder / "graph"
    with work_folder(tmp_path) as work, pytest.raises(InvalidInputError, match=told):
        fit_on_cluster(classifier(), graph, features, made.y, OneProcess(), work)
    with pytest.raises(InvalidInputError, match=told):
        fit_from_disk(classifier(), graph, features, made.y)


def test_who_calls_has_one_number_for_a_node_and_no_more(made, tmp_path):
    graph, received = SharedGraph(made.folder / "graph"), []

    class Watched(OneProcess):
        def get(self, references):
            values = super().get(references)
            received.extend(np.asarray(value).nbytes for value in values)
            return values

    with work_folder(tmp_path) as work:
        fit_on_cluster(classifier(), graph, made.path, made.y, Watched(), work)
    largest = max(block.n_rows for block in graph.manifest.blocks)
    assert 0 < max(received) <= 8 * largest  # of classes there are four, of 4 bytes each


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
    told = rf"finite numbers that fit float32; x\.npy has {number} in row 333, column 3"
    for fit in ways:
        with pytest.raises(InvalidInputError, match=told):
            fit()
    assert set(crew.calls) == {"check_feature_rows"}
