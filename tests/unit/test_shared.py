"""Arrays in a folder that several machines see, and a graph in one."""

from __future__ import annotations

import os
import pickle
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from pyarrow import fs

from proptrain.data.disk import DiskGraph
from proptrain.data.disk_writer import save_graph
from proptrain.data.graph import Graph
from proptrain.data.row_parts import RowParts, part_name
from proptrain.data.shared import SharedFile, SharedFolder, address_of
from proptrain.data.shared_graph import SharedGraph
from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    UnreadableFileError,
    UnwritableOutputError,
)


@pytest.fixture(params=["mounted", "far away"])
def shared(request, tmp_path, monkeypatch):
    """A folder that is mounted, and one as it is in an object store, where nothing is mapped."""
    if request.param == "far away":
        monkeypatch.setattr(SharedFolder, "local", None)
    return SharedFolder(tmp_path)


def test_arrays_come_back_whole_by_rows_and_mapped(shared):
    matrix = np.random.RandomState(0).rand(50, 3).astype(np.float32)
    shared.write("x.npy", matrix)
    some = np.array([40, 3, 3, 17])
    np.testing.assert_array_equal(shared.read("x.npy"), matrix)
    np.testing.assert_array_equal(shared.map("x.npy"), matrix)
    np.testing.assert_array_equal(shared.read_rows("x.npy", slice(5, 9)), matrix[5:9])
    np.testing.assert_array_equal(shared.read_rows("x.npy", some), matrix[some])
    np.testing.assert_array_equal(shared.map("x.npy", slice(5, 9)), matrix[5:9])
    assert shared.look("x.npy") == ((50, 3), np.float32)
    assert [path.name for path in Path(shared.address).iterdir()] == ["x.npy"]


def test_an_array_without_rows_is_one_too(shared):
    shared.write("x.npy", np.zeros((0, 3), np.float32))
    assert shared.read("x.npy").shape == shared.map("x.npy").shape == (0, 3)
    for rows in (slice(0, 0), np.zeros(0, np.intp)):
        assert shared.read_rows("x.npy", rows).shape == (0, 3)


@pytest.mark.parametrize("gap", [0, 50, 1000])
def test_rows_from_everywhere_are_read_run_by_run(shared, monkeypatch, gap):
    monkeypatch.setattr("proptrain.data.shared.SMALL", 64)
    monkeypatch.setattr("proptrain.data.shared.GAP", gap)
    matrix = np.arange(300.0).reshape(100, 3)
    shared.write("x.npy", matrix)
    some = np.random.RandomState(1).permutation(100)[:60]
    np.testing.assert_array_equal(shared.read_rows("x.npy", some), matrix[some])
    none = shared.read_rows("x.npy", np.zeros(0, np.int64))
    assert none.shape == (0, 3)


def test_of_rows_that_lie_far_apart_nothing_between_is_read(shared, monkeypatch):
    read, before = [], SharedFolder._open

    @contextmanager
    def counting(self, name):
        with before(self, name) as file:
            yield Counting(file, read)

    monkeypatch.setattr(SharedFolder, "_open", counting)
    monkeypatch.setattr("proptrain.data.shared.GAP", 100)
    matrix = np.arange(30_000.0).reshape(10_000, 3)
    shared.write("x.npy", matrix)
    some = np.array([9_999, 0, 4, 9_996, 5_000])
    np.testing.assert_array_equal(shared.read_rows("x.npy", some), matrix[some])
    assert read == [24 * n_rows for n_rows in (5, 1, 4)]  # rows have 24 bytes


class Counting:
    """A file that notes how much is read of it."""

    def __init__(self, file, read):
        self._file, self._read = file, read

    def __getattr__(self, name):
        return getattr(self._file, name)

    def read_buffer(self, n_bytes):
        self._read.append(n_bytes)
        return self._file.read_buffer(n_bytes)


def test_what_is_not_there_or_broken_is_said(shared, tmp_path):
    with pytest.raises(UnreadableFileError, match=r"nothing\.npy cannot be read"):
        shared.read("nothing.npy")
    (tmp_path / "words.npy").write_text("words")
    with pytest.raises(FileFormatError, match=r"no \.npy array"):
        shared.read("words.npy")
    shared.write("cut.npy", np.zeros((9, 2)))
    path = tmp_path / "cut.npy"
    path.write_bytes(path.read_bytes()[:-3])
    for read in (shared.read, shared.look):
        with pytest.raises(FileFormatError, match=r"must have 272 bytes, got 269"):
            read("cut.npy")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    with pytest.raises(FileFormatError, match="numbers or text"):
        shared.read("objects.npy")
    with pytest.raises(UnwritableOutputError, match="cannot be written"):
        shared.within("nowhere/at/all").write("x.npy", np.zeros(1))


class Failing:
    """A file that takes some bytes and then no more."""

    def __init__(self, file, error):
        self._file, self._error, self._n_writes = file, error, 0

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *error):
        self._file.__exit__(*error)

    def write(self, content):
        self._n_writes += 1
        if self._n_writes > 1:
            raise self._error
        self._file.write(content)


class Store:
    """What pyarrow has for an object store: a file is there when it is closed."""

    type_name = "s3"

    def __init__(self):
        self.files, self.error = fs._MockFileSystem(), None
        self.files.create_dir("bucket")

    def __getattr__(self, name):
        return getattr(self.files, name)

    def open_output_stream(self, path):
        file = self.files.open_output_stream(path)
        return file if self.error is None else Failing(file, self.error)

    def names(self):
        return [one.base_name for one in self.files.get_file_info(fs.FileSelector("bucket"))]


@pytest.mark.parametrize("error", [OSError(5, "gone"), KeyboardInterrupt(), ValueError("no")])
def test_an_error_half_way_leaves_nothing_in_a_store(monkeypatch, error):
    store = Store()
    folder = SharedFolder("s3://bucket")
    monkeypatch.setattr(SharedFolder, "_opened", (store, "bucket"))
    store.error = error
    expected = UnwritableOutputError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        folder.write("x.npy", np.arange(9.0))
    assert store.names() == []
    store.error = None
    folder.write("x.npy", np.arange(9.0))
    np.testing.assert_array_equal(folder.read("x.npy"), np.arange(9.0))
    assert store.names() == ["x.npy"]


def test_what_another_has_written_whole_is_not_removed_from_a_store(monkeypatch):
    store = Store()
    monkeypatch.setattr(SharedFolder, "_opened", (store, "bucket"))

    def be_quicker(*_):
        with store.files.open_output_stream("bucket/x") as file:
            file.write(b"headercontent")
        raise OSError(5, "gone")  # to close it fails as well

    store.error = OSError(5, "gone")
    monkeypatch.setattr(Failing, "__exit__", be_quicker)
    with pytest.raises(UnwritableOutputError, match="gone"):
        SharedFolder("s3://bucket").write_bytes("x", b"headercontent")
    assert bytes(SharedFolder("s3://bucket").read_bytes("x")) == b"headercontent"


@pytest.mark.parametrize("error", [OSError(5, "gone"), KeyboardInterrupt()])
def test_an_error_half_way_leaves_the_old_file_where_files_are_renamed(shared, monkeypatch, error):
    shared.write("x.npy", np.zeros(3))
    files, place = shared._opened
    store = Store()
    store.files, store.error, store.type_name = files, error, "hdfs"
    monkeypatch.setattr(SharedFolder, "_opened", (store, place))
    again = SharedFolder(shared.address)
    with pytest.raises((UnwritableOutputError, KeyboardInterrupt)):
        again.write("x.npy", np.ones(3))
    np.testing.assert_array_equal(shared.read("x.npy"), np.zeros(3))
    assert [path.name for path in Path(shared.address).iterdir()] == ["x.npy"]


def with_header(path, header, content=b""):
    """Write a .npy file with any header."""
    header = header.encode().ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content)


@pytest.mark.parametrize(
    ("header", "match"),
    [
        ("((((", r"is no \.npy array"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -2)}", "none below 0"),
        ("{'descr': '|S0', 'fortran_order': False, 'shape': (2, 2)}", "numbers or text"),
        (
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
            r"that memory could hold; got 2: \(4611686018427387904, 4\)",  # 2^66 bytes
        ),
    ],
)
def test_a_damaged_header_is_said(shared, tmp_path, header, match):
    with_header(tmp_path / "x.npy", header, bytes(16 if "-2" in header else 0))
    ways = (shared.read, shared.look, shared.map, lambda name: shared.read_rows(name, slice(0, 2)))
    for way in ways:
        with pytest.raises(FileFormatError, match=match):
            way("x.npy")


def test_rows_are_those_of_a_matrix(shared):
    shared.write("x.npy", np.zeros(4))
    with pytest.raises(FileFormatError, match=r"must be a matrix, got shape \(4,\)"):
        shared.read_rows("x.npy", slice(0, 2))


def test_an_address_that_pyarrow_does_not_know():
    with pytest.raises(InvalidInputError, match="such as s3://bucket/folder"):
        SharedFolder("gopher://hole/graph").read("x.npy")


def test_a_path_and_an_address_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert address_of("graph") == str(tmp_path / "graph")
    assert SharedFile.at(tmp_path / "x.npy").folder.local == tmp_path
    assert SharedFolder("s3://bucket/a").local is None
    assert SharedFolder("s3://bucket/a").within("b").address == "s3://bucket/a/b"


@pytest.fixture
def stored(shared):
    random = np.random.RandomState(0)
    upper = np.triu(random.rand(30, 30) < 0.2, 1) * random.rand(30, 30)
    graph = Graph(sp.csr_array(upper + upper.T))
    place = Path(shared.address) / "graph"
    save_graph(graph, place, n_blocks=4, order=random.permutation(30))
    return SharedGraph(shared.within("graph").address), DiskGraph(place)


def test_a_shared_graph_is_the_graph_on_disk(stored):
    shared, disk = stored
    shared = pickle.loads(pickle.dumps(shared))  # as it travels
    np.testing.assert_array_equal(shared.order, disk.order)
    for number in range(4):
        ours, wanted = shared.block(number), disk.block(number)
        assert ours.rows == wanted.rows
        for name in ("indptr", "indices", "weights"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(wanted, name))


def test_a_header_that_claims_much_is_not_made_room_for(tmp_path):
    claimed = b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little") + b"{'descr': '<f4'}"
    (tmp_path / "a.npy").write_bytes(claimed)
    asked = []

    class Watched:
        def read(self, n_bytes):
            asked.append(n_bytes)
            return claimed[:n_bytes]

    folder = SharedFolder(tmp_path)
    with pytest.raises(FileFormatError, match=r"a\.npy is no \.npy array"):
        folder._header("a.npy", Watched(), len(claimed))
    assert sum(asked) < 10**5
    with pytest.raises(FileFormatError, match=r"a\.npy is no \.npy array"):
        folder.look("a.npy")


def test_a_shared_graph_is_not_believed(stored):
    shared, disk = stored
    path = disk.folder / "weights-00002.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(FileFormatError, match="was changed after it was written"):
        shared.block(2)
    path.write_bytes(content[:-1])
    with pytest.raises(FileFormatError, match="bytes, got"):
        shared.block(2)
    path.unlink()
    with pytest.raises(UnreadableFileError, match=r"weights-00002\.npy cannot be read"):
        shared.block(2)
    path.touch()
    os.truncate(path, 10**12)  # a hole: to read it would fill the memory
    with pytest.raises(FileFormatError, match="bytes, got 1,000,000,000,000"):
        shared.block(2)
    os.truncate(disk.folder / "manifest.json", 10**12)
    with pytest.raises(FileFormatError, match=r"manifest\.json must have at most 67,108,864 bytes"):
        SharedGraph(shared.folder.address)
    (disk.folder / "manifest.json").unlink()
    with pytest.raises(UnreadableFileError, match="is no graph folder that can be read"):
        SharedGraph(shared.folder.address)


def test_rows_in_parts_are_in_the_order_of_the_nodes(stored, shared):
    graph, _ = stored
    matrix = np.random.RandomState(2).rand(30, 4).astype(np.float32)
    for number, block in enumerate(graph.manifest.blocks):
        shared.write(part_name("soft", number), matrix[graph.nodes(block.rows)])
    parts = pickle.loads(pickle.dumps(RowParts(graph, shared, "soft", 4)))
    assert parts.shape == matrix.shape
    np.testing.assert_array_equal(parts[:], matrix)
    some = np.array([29, 0, 7, 7])
    np.testing.assert_array_equal(parts[some], matrix[some])
    with pytest.raises(IndexError):
        parts[np.array([30])]
    for nodes in (slice(0, 30), slice(7, 20), slice(30, 30)):
        only, own = parts.only(nodes), np.arange(nodes.start, nodes.stop)
        assert only.shape == matrix.shape
        np.testing.assert_array_equal(only[own[::3]], matrix[own[::3]])


@pytest.mark.parametrize("is_renumbered", [False, True])
def test_rows_of_all_files_are_copied_once_and_others_read_as_they_are_asked_for(
    tmp_path, is_renumbered, monkeypatch
):
    monkeypatch.setattr(SharedFolder, "local", None)  # as at s3://
    shared = SharedFolder(tmp_path)
    order = np.random.RandomState(3).permutation(30) if is_renumbered else None
    made = Graph(sp.csr_array(np.eye(30, k=1) + np.eye(30, k=-1)))
    save_graph(made, tmp_path / "graph", n_blocks=4, order=order)
    graph = SharedGraph(str(tmp_path / "graph"))
    for number, block in enumerate(graph.manifest.blocks):
        rows = np.arange(30, dtype=np.float32)[graph.nodes(block.rows), None]
        shared.write(part_name("soft", number), rows)
    copied, map_it = [], SharedFolder.map
    monkeypatch.setattr(SharedFolder, "map", lambda *asked: copied.append(asked) or map_it(*asked))
    parts = RowParts(graph, shared, "soft", 1)
    for nodes in (slice(0, 11), slice(11, 22), slice(22, 30)):
        np.testing.assert_array_equal(parts[nodes][:, 0], np.arange(nodes.start, nodes.stop))
    assert len(copied) == (4 if is_renumbered else 0)


def test_rows_are_those_of_a_matrix_and_headers_are_whole(tmp_path):
    np.save(tmp_path / "line.npy", np.arange(3))
    content = (tmp_path / "line.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(content.replace(b"}", b" "))
    folder = SharedFolder(tmp_path)
    with pytest.raises(FileFormatError, match="must be a matrix, got shape"):
        folder.read_rows("line.npy", slice(0, 1))
    with pytest.raises(FileFormatError, match=r"is no \.npy array"):
        folder.look("cut.npy")
