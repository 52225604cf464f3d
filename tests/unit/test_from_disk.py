"""The three steps from disk are the three steps: the same soft labels, weights, predictions."""

from __future__ import annotations

import errno
import json
import os
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from proptrain import PTAClassifier, fit_from_disk, load_dataset
from proptrain.data import mapped
from proptrain.data.disk import DiskGraph
from proptrain.data.disk_nodes import open_features, open_labels, read_node_table
from proptrain.data.disk_writer import save_graph
from proptrain.data.graph import Graph
from proptrain.data.order import locality_order
from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    OutputExistsError,
    TableError,
    UnreadableFileError,
    UnwritableOutputError,
)
from proptrain.large.from_disk import fitting_batch_size
from proptrain.propagate.blocked import BlockedEngine
from proptrain.saving.disk_model import is_disk_model, load_disk_model, save_disk_model
from proptrain.saving.persistence import check_model_output

MEMORY = "64GB"


@pytest.fixture(scope="module")
def cora(tmp_path_factory):
    """A part of Cora, in memory and on disk, renumbered."""
    folder, dataset = tmp_path_factory.mktemp("cora"), load_dataset("cora")
    graph = Graph(dataset.graph.adjacency[:900][:, :900])
    save_graph(graph, folder / "graph", n_blocks=3, order=locality_order(graph))
    features = dataset.features[:900].toarray()
    np.save(folder / "features.npy", features)
    known = np.random.RandomState(0).rand(900) < 0.3
    y = np.where(known, np.array(dataset.class_names)[dataset.labels[:900]], "")
    return SimpleNamespace(folder=folder, graph=graph, features=features, y=y)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("batch_size", [None, 200])
@pytest.mark.parametrize("weighting", ["adaptive", "static"])
def test_it_is_what_the_classifier_does_in_memory(cora, monkeypatch, fast, batch_size, weighting):
    monkeypatch.setattr(mapped, "SMALL", 4096)  # all that is large in files
    how = {"fast": fast, "batch_size": batch_size, "weighting": weighting, "max_epochs": 12}
    classifier = PTAClassifier(random_state=0, device="cpu", **how)
    features = np.load(cora.folder / "features.npy", mmap_mode="r")
    got = fit_from_disk(classifier, cora.folder / "graph", features, cora.y, memory=MEMORY)
    wanted = classifier.fit(cora.features, cora.y, graph=cora.graph)
    np.testing.assert_array_equal(got.classes, wanted.classes_)
    np.testing.assert_array_equal(got.given, wanted.given_)
    np.testing.assert_array_equal(got.stopping, wanted.stopping_)
    np.testing.assert_array_equal(got.reached, wanted.reached_)
    np.testing.assert_allclose(got.distributions.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(got.distributions, wanted.label_distributions_, atol=2e-3)
    likeliest = got.distributions.argmax(axis=1)
    assert (got.classes[likeliest] == wanted.transduction_).mean() > 0.995
    losses = got.trained.history.train_loss, wanted.history_.train_loss
    np.testing.assert_allclose(*losses, rtol=1e-4)


@pytest.mark.parametrize("fast", [True, False])
def test_a_whole_training_is_that_in_memory(fast, tmp_path):
    cora = load_dataset("cora")
    known = np.random.RandomState(0).rand(cora.n_nodes) < 0.1
    y = np.where(known, cora.labels, -1)
    save_graph(cora.graph, tmp_path / "graph", n_blocks=3)
    classifier = PTAClassifier(random_state=0, device="cpu", fast=fast)
    got = fit_from_disk(classifier, tmp_path / "graph", cora.features, y, memory=MEMORY)
    wanted = classifier.fit(cora.features, y, graph=cora.graph)
    assert got.trained.history == wanted.history_
    for name, weight in wanted.weights_.items():
        np.testing.assert_array_equal(got.trained.weights[name], weight)
    # Only the result is stored in single precision.
    np.testing.assert_array_equal(
        got.distributions.argmax(axis=1), wanted.label_distributions_.argmax(axis=1)
    )
    np.testing.assert_allclose(got.distributions, wanted.label_distributions_, rtol=0, atol=1e-7)


def test_sparse_features_and_no_stopping_nodes_will_do(cora):
    classifier = PTAClassifier(random_state=0, max_epochs=5, stopping_fraction=0, fast=True)
    graph = DiskGraph(cora.folder / "graph")
    got = fit_from_disk(classifier, graph, sp.csr_array(cora.features), cora.y, memory=MEMORY)
    assert got.stopping.size == 0
    wanted = classifier.fit(sp.csr_array(cora.features), cora.y, graph=cora.graph)
    np.testing.assert_allclose(got.distributions, wanted.label_distributions_, atol=2e-3)


def test_without_stopping_nodes_labels_are_propagated_once(cora, monkeypatch):
    calls, before = [], BlockedEngine.propagate

    def counted(engine, signal, scheme, **how):
        calls.append(signal.shape)
        return before(engine, signal, scheme, **how)

    monkeypatch.setattr(BlockedEngine, "propagate", counted)
    how = {"random_state": 0, "max_epochs": 4, "fast": True}
    given, shares = (cora.folder / "graph", cora.features, cora.y), []
    for fraction, n_calls in ((0, 2), (0.5, 3)):
        calls.clear(), shares.clear()
        classifier = PTAClassifier(stopping_fraction=fraction, **how)
        got = fit_from_disk(classifier, *given, memory=MEMORY, top=2, on_step=shares.append)
        assert len(calls) == n_calls
        assert sum(shares) == pytest.approx(1)
        assert len(got.error_bounds) == 3
        assert (got.error_bounds[0] == got.error_bounds[1]) == (fraction == 0)


def test_what_is_large_goes_to_scratch_and_nowhere_else(cora, tmp_path, monkeypatch):
    monkeypatch.setattr("proptrain.propagate.blocked.SMALL", 0)
    monkeypatch.setattr(mapped, "SMALL", 1 << 12)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "full"))  # which is not there
    classifier = PTAClassifier(random_state=0, max_epochs=2, batch_size=200)
    what = cora.folder / "graph", cora.features, cora.y
    fitted = fit_from_disk(classifier, *what, memory=MEMORY, scratch=tmp_path)
    assert len(fitted.trained.history.train_loss) == 2


def test_keeping_the_largest_numbers_is_told_with_its_bound(cora):
    classifier = PTAClassifier(random_state=0, fast=True, max_epochs=5, device="cpu")
    given = (classifier, cora.folder / "graph", cora.features, cora.y)
    exact = fit_from_disk(*given, memory=MEMORY)
    assert exact.error_bounds == (0, 0, 0)
    few = fit_from_disk(*given, memory=MEMORY, top=2)
    assert len(few.error_bounds) == 3
    assert all(0 < bound < 30 for bound in few.error_bounds)  # of 900 nodes: below 1 for each
    same = few.distributions.argmax(axis=1) == exact.distributions.argmax(axis=1)
    assert same.mean() > 0.9
    assert abs(few.distributions - exact.distributions).max() > 1e-4
    all_of_them = fit_from_disk(*given, memory=MEMORY, top=7)
    assert all_of_them.error_bounds == (0, 0, 0)
    np.testing.assert_array_equal(all_of_them.distributions, exact.distributions)


def test_progress_is_told(cora):
    shares, epochs = [], []
    classifier = PTAClassifier(random_state=0, max_epochs=3, fast=True)
    fit_from_disk(
        classifier,
        cora.folder / "graph",
        cora.features,
        cora.y,
        memory=MEMORY,
        on_step=shares.append,
        on_epoch=lambda epoch, accuracy: epochs.append(epoch),
    )
    assert sum(shares) == pytest.approx(1)
    assert epochs == [0, 1, 2]


def test_without_a_batch_size_as_many_as_the_memory_allows():
    sizes = (100, 64, 47)
    assert fitting_batch_size(1000, *sizes, 2 * 10**9) is None
    large = fitting_batch_size(10**7, *sizes, 2 * 10**9)
    row = 4 * (2 * 100 + 4 * 64 + 10 * 47)
    assert 2 * large * row > 0.25 * 2 * 10**9 >= large * row
    assert fitting_batch_size(10**7, *sizes, 1) == 1


@pytest.mark.parametrize(
    ("classifier", "n_rows", "match"),
    [
        (PTAClassifier(equal_hops=2), 900, "From disk, PTA"),
        (object(), 900, "From disk, PTA"),
        (PTAClassifier(), 899, "a row for each of the graph's 900 nodes"),
    ],
)
def test_what_cannot_be_fitted_from_disk(cora, classifier, n_rows, match):
    with pytest.raises(InvalidInputError, match=match):
        fit_from_disk(classifier, cora.folder / "graph", cora.features[:n_rows], cora.y)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("learning_rate", -1, "above 0"),
        ("n_hidden", "many", "a whole number"),
        ("batch_size", 0, "None or a whole number"),
        ("fast", "no", "True or False"),
        ("clamp", 1, "True or False"),
        ("weighting", "heavy", "one of adaptive"),
        ("epsilon", 0, "a positive number"),
        ("steps", -1, ""),
    ],
)
def test_parameters_are_refused_before_any_propagation(cora, monkeypatch, name, value, wanted):
    def hours(*_, **__):
        raise AssertionError("propagated first")

    monkeypatch.setattr("proptrain.propagate.blocked.BlockedEngine.propagate", hours)
    with pytest.raises(InvalidInputError, match=f"{name} must be.*{wanted}"):
        fit_from_disk(PTAClassifier(**{name: value}), cora.folder / "graph", cora.features, cora.y)


def test_labels_must_be_as_many_as_nodes(cora):
    with pytest.raises(InvalidInputError, match="each of the graph's 900 nodes, got 899"):
        fit_from_disk(PTAClassifier(), cora.folder / "graph", cora.features, cora.y[:-1])


# --- features and labels in files -------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_features_from_npy_and_parquet(tmp_path, monkeypatch, dtype):
    monkeypatch.setattr(mapped, "SMALL", 64)
    features = np.random.RandomState(0).randint(-5, 5, (40, 3)).astype(dtype)
    np.save(tmp_path / "x.npy", features)
    np.testing.assert_array_equal(open_features(tmp_path / "x.npy", 40), features)
    table = pa.table({f"c{i}": features[:, i] for i in range(3)})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=7)
    np.testing.assert_array_equal(open_features(tmp_path / "x.parquet", 40), features)


def test_a_full_disk_is_not_the_tables_fault(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(mapped, "SMALL", 64)
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    pq.write_table(pa.table({"a": np.zeros(40)}), tmp_path / "x.parquet")
    with pytest.raises(UnwritableOutputError, match="cannot be written: No space left"):
        open_features(tmp_path / "x.parquet", 40)


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (np.zeros((39, 2)), "a row for each of the graph's 40 nodes"),
        (np.zeros(40), "a row for each"),
        (np.array([["a"]] * 40), "must be real numbers"),
    ],
)
def test_features_that_cannot_be_used(tmp_path, array, match):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(InvalidInputError, match=match):
        open_features(tmp_path / "x.npy", 40)


def test_what_is_wrong_in_a_file_is_named_by_the_file(tmp_path):
    numbers = pd.DataFrame({"a": np.zeros(40), "b": np.zeros(40)})
    numbers.loc[17, "b"] = np.inf
    numbers.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(InvalidInputError, match=r"x\.parquet has inf in row 17, column 1"):
        open_features(tmp_path / "x.parquet", 40)
    np.save(tmp_path / "y.npy", np.array(["a", None] * 20, dtype=object))
    with pytest.raises(FileFormatError, match=r"y\.npy .* it is pickled\. .* dtype=str\)\)\."):
        open_labels(tmp_path / "y.npy", 40)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_numbers_that_cannot_be_used_are_found_in_the_file(cora, tmp_path, monkeypatch, value):
    monkeypatch.setattr(mapped, "SMALL", 8 * 300)  # 100 rows at a time
    features = np.zeros((900, 3))
    features[250, 1] = value
    np.save(tmp_path / "x.npy", features)
    with pytest.raises(InvalidInputError, match=r"x\.npy has \S+ in row 250, column 1 \("):
        fit_from_disk(
            PTAClassifier(), cora.folder / "graph", open_features(tmp_path / "x.npy", 900), cora.y
        )


def test_features_from_elsewhere_must_be_a_matrix(cora):
    with pytest.raises(InvalidInputError, match=r"graph.s 900 nodes, got shape \(900,\)"):
        fit_from_disk(PTAClassifier(), cora.folder / "graph", np.zeros(900, np.float32), cora.y)


def test_files_that_are_no_arrays(tmp_path):
    np.save(tmp_path / "cut.npy", np.zeros((40, 2)))
    content = (tmp_path / "cut.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(content[:-5])
    np.save(tmp_path / "pickled.npy", np.array([{}] * 40, dtype=object))
    (tmp_path / "words.npy").write_text("words")
    (tmp_path / "words.parquet").write_text("words")
    (tmp_path / "x.csv").write_text("1,2")
    pq.write_table(pa.table({"a": ["x", "y"]}), tmp_path / "text.parquet")
    for name, error in (
        ("cut.npy", FileFormatError),
        ("pickled.npy", FileFormatError),
        ("words.npy", FileFormatError),
        ("words.parquet", FileFormatError),
        ("text.parquet", FileFormatError),
        ("x.csv", FileFormatError),
        ("nowhere.npy", UnreadableFileError),
        ("nowhere.parquet", UnreadableFileError),
    ):
        with pytest.raises(error, match=name):
            open_features(tmp_path / name, 40)


@pytest.mark.parametrize(
    "labels", [np.array([1, -1, 0]), np.array(["a", "", "b"]), np.array([b"a", b"", b"\xc3\xa9"])]
)
def test_labels_from_a_file(tmp_path, labels):
    np.save(tmp_path / "y.npy", labels)
    got = open_labels(tmp_path / "y.npy", 3)
    text = [v.decode() if isinstance(v, bytes) else v for v in labels.tolist()]
    assert got.tolist() == text
    with pytest.raises(InvalidInputError, match="one for each of the graph's 4 nodes"):
        open_labels(tmp_path / "y.npy", 4)


def test_a_node_table_is_put_into_the_order_of_the_graph(tmp_path):
    save_graph(Graph.without_edges(3), tmp_path / "graph", ids=[30, 4, 111])
    graph = DiskGraph(tmp_path / "graph")
    rows = [(111, 0.0, "x"), (30, 1.0, "y"), (4, 2.0, "")]
    table = pd.DataFrame(rows, columns=["id", "size", "kind"])
    for name in ("nodes.csv", "nodes.parquet"):
        path = tmp_path / name
        table.to_csv(path, index=False) if name.endswith("csv") else table.to_parquet(path)
        told = read_node_table(graph, path, label="kind")
        assert told.codes.tolist() == [1, -1, 0]
        assert np.argsort(told.features.toarray()[:, 0]).tolist() == [2, 0, 1]
        assert told.feature_columns == ("size",)
    table[:2].to_csv(tmp_path / "fewer.csv", index=False)
    with pytest.raises(TableError, match="1 are not, the first is '4'"):
        read_node_table(graph, tmp_path / "fewer.csv", label="kind")
    table.loc[3] = (5, 1.0, "x")
    table.to_csv(tmp_path / "more.csv", index=False)
    with pytest.raises(TableError, match=r"1 nodes that the graph does not have.*'5'.*--nodes"):
        read_node_table(graph, tmp_path / "more.csv", label="kind")


# --- the model --------------------------------------------------------------------------------


@pytest.fixture
def model(cora, tmp_path):
    classifier = PTAClassifier(random_state=0, max_epochs=4, fast=True)
    graph = DiskGraph(cora.folder / "graph")
    fitted = fit_from_disk(classifier, graph, cora.features, cora.y, memory=MEMORY)
    save_disk_model(tmp_path / "model", classifier, fitted, graph)
    return SimpleNamespace(folder=tmp_path / "model", fitted=fitted)


def test_a_model_comes_back_as_it_was(model):
    assert is_disk_model(model.folder)
    loaded = load_disk_model(model.folder)
    np.testing.assert_array_equal(loaded.predictions, model.fitted.distributions)
    np.testing.assert_array_equal(loaded.given, model.fitted.given)
    np.testing.assert_array_equal(loaded.reached, model.fitted.reached)
    np.testing.assert_array_equal(loaded.classes, model.fitted.classes)
    for name, weight in model.fitted.trained.weights.items():
        np.testing.assert_array_equal(loaded.weights[name], weight)
    assert loaded.ids(slice(2, 4)).tolist() == [2, 3]
    check_model_output(model.folder, overwrite=True)
    with pytest.raises(OutputExistsError):
        check_model_output(model.folder, overwrite=False)


def test_a_model_that_could_not_be_loaded_is_not_saved(cora, model, tmp_path):
    given = (PTAClassifier(), model.fitted, DiskGraph(cora.folder / "graph"))
    with pytest.raises(InvalidInputError, match="table must name columns"):
        save_disk_model(tmp_path / "other", *given, table={"x": 1})
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("name", ["predictions.npy", "weights.safetensors", "given.npy"])
def test_a_damaged_model_is_noticed(model, name):
    path = model.folder / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(FileFormatError, match=f"{name} was changed"):
        load_disk_model(model.folder)
    path.unlink()
    with pytest.raises(UnreadableFileError, match=name):
        load_disk_model(model.folder)


@pytest.mark.parametrize(
    "change",
    [
        {"n_nodes": 10**12},
        {"n_nodes": "many"},
        {"classes": {"dtype": "<U1", "values": ["a"]}},
        {"format": 9},
        {"files": {"../secret": "0"}},
        {"files": {}},
    ],
)
def test_a_models_description_is_not_believed(model, change):
    path = model.folder / "disk_model.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, **change}))
    with pytest.raises(FileFormatError):
        load_disk_model(model.folder)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floating_point_labels_of_a_file_are_the_whole_numbers_that_they_are(tmp_path, dtype):
    np.save(tmp_path / "y.npy", np.array([2, np.nan, 0, -1], dtype))
    labels = open_labels(tmp_path / "y.npy", 4)
    assert (labels.dtype, labels.tolist()) == (np.int64, [2, -1, 0, -1])
    marked = open_labels(tmp_path / "y.npy", 4, unlabelled=0.0)  # -1 is a class then
    assert (marked.dtype, marked.tolist()) == (np.int64, [2, 0, 0, -1])
    assert np.isnan(open_labels(tmp_path / "y.npy", 4, unlabelled="?")[1])
    np.save(tmp_path / "y.npy", np.array([1e30, np.nan, 0, -1], dtype))
    assert open_labels(tmp_path / "y.npy", 4)[0] == dtype(1e30)
    np.save(tmp_path / "y.npy", np.array([2.5, np.nan, 0, -1], dtype))
    assert open_labels(tmp_path / "y.npy", 4)[0] == 2.5  # which fitting refuses, as elsewhere
