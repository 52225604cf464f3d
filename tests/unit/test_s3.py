"""Graph, features, labels and work in an object store: a server that speaks S3, on this machine."""

from __future__ import annotations

import numpy as np
import pytest
from pyarrow import fs

import s3_server
from one_process import OneProcess
from proptrain import PTAClassifier, fit_from_disk
from proptrain.data.disk_writer import save_graph
from proptrain.data.shared import SharedFolder
from proptrain.data.shared_graph import SharedGraph
from proptrain.data.synthetic_disk import write_synthetic
from proptrain.errors import FileFormatError, UnreadableFileError, UnwritableOutputError
from proptrain.large.fit_cluster import fit_on_cluster, work_folder

pytestmark = pytest.mark.skipif(not s3_server.is_there(), reason=s3_server.MISSING)

N = 300
HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def port():
    """Where a store listens that begins with one empty bucket."""
    port = s3_server.free_port()
    process = s3_server.start(HOST, port)
    try:
        with pytest.MonkeyPatch.context() as patch:
            _point_to(port, patch)
            s3_server.make_bucket()
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def store(port, monkeypatch):
    _point_to(port, monkeypatch)
    return SharedFolder(f"s3://{s3_server.BUCKET}")


def _point_to(port, patch):
    for name, value in s3_server.environment(HOST, port).items():
        patch.setenv(name, value)


def made(tmp_path):
    """A graph in three blocks, features and labels."""
    how = {"n_features": 6, "labelled": 0.3, "memory": "4GB"}
    folder = tmp_path / "made"
    save_graph(write_synthetic(folder, N, 4 * N, 3, **how).to_graph(), tmp_path / "g", n_blocks=3)
    return tmp_path / "g", np.load(folder / "features.npy"), np.load(folder / "labels.npy")


class FarAway(OneProcess):
    """A crew to whom nothing is mounted."""

    def see(self, folder):
        assert folder.local is None


def names_in(place):
    files, path = fs.FileSystem.from_uri(place)
    found = files.get_file_info(fs.FileSelector(path, recursive=True))
    return sorted(one.path.removeprefix(f"{path}/") for one in found if one.is_file)


def test_arrays_come_back_whole_by_rows_and_copied(store):
    matrix = np.random.RandomState(0).rand(500, 3).astype(np.float32)
    folder = store.within("arrays")
    folder.make()
    folder.write("x.npy", matrix)
    some = np.array([400, 3, 3, 17])
    assert folder.local is None
    assert folder.look("x.npy") == ((500, 3), np.float32)
    np.testing.assert_array_equal(folder.read("x.npy"), matrix)
    np.testing.assert_array_equal(folder.read_rows("x.npy", some), matrix[some])
    np.testing.assert_array_equal(folder.map("x.npy", slice(5, 90)), matrix[5:90])
    assert names_in(folder.address) == ["x.npy"]
    folder.remove()
    with pytest.raises(UnreadableFileError, match=r"x\.npy cannot be read"):
        folder.read("x.npy")


def test_a_fit_in_a_store_is_the_fit_from_disk(store, tmp_path):
    graph, features, y = made(tmp_path)
    fs.copy_files(str(graph), f"{store.address}/graph", use_threads=False)
    store.write("features.npy", features)
    before = names_in(store.address)

    def classifier():
        return PTAClassifier(random_state=0, fast=True, max_epochs=8, batch_size=100, device="cpu")

    wanted = fit_from_disk(classifier(), graph, features, y, memory="64GB")
    with work_folder(store.address) as work:
        given = (SharedGraph(f"{store.address}/graph"), f"{store.address}/features.npy", y)
        got = fit_on_cluster(classifier(), *given, FarAway(), work)
        np.testing.assert_allclose(got.distributions[:], wanted.distributions, atol=1e-6)
        assert not got.distributions._parts  # or who asks for all would keep a copy of all
    for name, weight in wanted.trained.weights.items():
        np.testing.assert_array_equal(got.trained.weights[name], weight)
    assert names_in(store.address) == before  # nothing unfinished is left


def test_a_damaged_graph_in_a_store_is_said(store, tmp_path):
    fs.copy_files(str(made(tmp_path)[0]), f"{store.address}/damaged", use_threads=False)
    folder = store.within("damaged")
    name = next(one for one in names_in(folder.address) if one.startswith("indices"))
    content = bytearray(folder.read_bytes(name))
    content[-1] ^= 1
    folder.write_bytes(name, bytes(content))
    with pytest.raises(FileFormatError, match="was changed after it was written"):
        SharedGraph(folder.address).block(0)


def test_a_store_that_cannot_be_reached_is_said(store, monkeypatch):
    _point_to(s3_server.free_port(), monkeypatch)
    away = store.within("x")
    with pytest.raises(UnreadableFileError, match=r"x/a\.npy cannot be read.*onnect"):
        away.read("a.npy")


def test_a_bucket_that_is_not_there_is_said(store):
    with pytest.raises(
        UnwritableOutputError, match=r"s3://elsewhere/x cannot be written.*not found"
    ):
        SharedFolder("s3://elsewhere/x").make()
