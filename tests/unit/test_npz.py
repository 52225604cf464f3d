"""Files in the layout of the paper's data: read as written, refused with a reason, never run."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from proptrain.data.dataset import Dataset
from proptrain.data.graph import Graph
from proptrain.data.npz import read_npz, write_npz
from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    OutputExistsError,
    UnreadableFileError,
    UnwritableOutputError,
)


class Trap:
    """Leaves a trace when it is unpickled."""

    def __reduce__(self):
        return (Path.touch, (Path("trap-was-sprung"),))


def path_graph(weights=(1, 1, 1)):
    """0 – 1 – 2 – 3, and node 4 alone."""
    return Graph(sp.coo_array((list(weights), ([0, 1, 2], [1, 2, 3])), shape=(5, 5)))


def small_dataset(**changes):
    features = sp.csr_array(np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0], [1, 1, 1], [0, 0, 4.0]]))
    parts = {
        "graph": path_graph(),
        "features": features,
        "labels": np.array([0, 1, -1, 2, 0]),
        "node_ids": np.array(["a", "b", "c", "d", "e"]),
        "class_names": ("red", "green", "blue"),
    }
    return Dataset(**(parts | changes))


def members(**changes):
    """The arrays of a good file, with some of them replaced, or left out if None."""
    parts = {}
    for name, matrix in {
        "adj_matrix": path_graph().adjacency,
        "attr_matrix": small_dataset().features,
    }.items():
        for part in ("data", "indices", "indptr", "shape"):
            parts[f"{name}.{part}"] = np.array(getattr(matrix, part))
    parts["labels"] = np.array([0, 1, -1, 2, 0])
    parts |= changes
    return {name: array for name, array in parts.items() if array is not None}


def save(path, arrays):
    np.savez(path, **arrays)
    return path


def assert_same(one, other):
    for matrix in ("data", "indices", "indptr"):
        left, right = getattr(one.graph.adjacency, matrix), getattr(other.graph.adjacency, matrix)
        np.testing.assert_array_equal(left, right)
    assert one.graph.n_nodes == other.graph.n_nodes
    assert sp.issparse(one.features) == sp.issparse(other.features)
    dense = [x.features.toarray() if sp.issparse(x.features) else x.features for x in (one, other)]
    np.testing.assert_array_equal(*dense)
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.node_ids, other.node_ids)
    assert one.node_ids.dtype.kind == other.node_ids.dtype.kind
    assert one.class_names == other.class_names


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"graph": path_graph([0.5, 2, 7])},
        {"graph": path_graph([3, 300, 70_000])},
        {"features": np.arange(10).reshape(5, 2)},
        {"features": np.linspace(-1, 1, 10).reshape(5, 2)},
        {"features": np.array([[2.0**30], [-(2.0**30)], [0], [1], [1]])},
        {"features": np.array([[-1], [200], [0], [1], [1]])},
        {"features": sp.csr_array((5, 0))},
        {"labels": np.full(5, -1), "class_names": ()},
        {"labels": np.array([0, 1, -1, 300, 0]), "class_names": tuple(range(2000))},
        {"class_names": None},
        {"class_names": (10, -20, 2**40)},
        {"node_ids": None},
        {"node_ids": np.array([2**40, -1, 0, 7, 9])},
        {"node_ids": np.array(["ä", "b ", "c\n", "", "long name"], dtype=object)},
    ],
    ids=lambda changes: "-".join(changes) or "plain",
)
def test_what_is_written_is_read_back(tmp_path, changes):
    dataset = small_dataset(**changes)
    write_npz(dataset, tmp_path / "small.npz")
    again = read_npz(str(tmp_path / "small.npz"))
    if dataset.node_ids.dtype == object:
        assert dataset.node_ids.tolist() == again.node_ids.tolist()
        dataset = small_dataset(node_ids=again.node_ids)
    assert_same(dataset, again)
    assert again.name == "small"


def test_a_graph_without_nodes_is_read_back(tmp_path):
    empty = Dataset(Graph(sp.csr_array((0, 0))), sp.csr_array((0, 3)), np.zeros(0, dtype=int))
    write_npz(empty, tmp_path / "empty.npz")
    assert_same(empty, read_npz(tmp_path / "empty.npz"))


def test_members_are_small_and_not_pickled(tmp_path):
    dataset = small_dataset(node_ids=np.array([5, 4, 3, 2, 70_000]))
    write_npz(dataset, tmp_path / "small.npz")
    with np.load(tmp_path / "small.npz", allow_pickle=False) as stored:
        types = {name: stored[name].dtype for name in stored.files}
    assert types.pop("class_names") == "<U5"
    assert types.pop("labels") == np.int8
    assert types.pop("node_ids") == np.uint32
    assert set(types.values()) == {np.dtype(np.uint8)}
    with zipfile.ZipFile(tmp_path / "small.npz") as archive:
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_DEFLATED}


def test_the_same_data_set_gives_the_same_bytes(tmp_path):
    for name in ("one.npz", "two.npz"):
        write_npz(small_dataset(), tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_an_output_is_replaced_only_on_demand(tmp_path):
    path = tmp_path / "small.npz"
    path.write_text("precious")
    with pytest.raises(OutputExistsError, match=r"small\.npz exists already"):
        write_npz(small_dataset(), path)
    assert path.read_text() == "precious"
    write_npz(small_dataset(), path, overwrite=True)
    assert_same(small_dataset(), read_npz(path))
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "small.npz"
    path.write_text("precious")

    def fill_disk(file, **_):
        file.write(b"half a file")
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez_compressed", fill_disk)
    with pytest.raises(OSError, match="no space left"):
        write_npz(small_dataset(), path, overwrite=True)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_needs_a_folder(tmp_path):
    with pytest.raises(UnwritableOutputError, match=r"does not exist\. Create it first"):
        write_npz(small_dataset(), tmp_path / "nowhere" / "small.npz")


@pytest.mark.parametrize(
    "changes",
    [
        {"class_names": ("red", 1, 2)},
        {"class_names": ("red", None, "blue")},
        {"class_names": (("a", "b"), ("c",), ("d",))},
        {"class_names": (("a", "b"), ("c", "d"), ("e", "f"))},
        {"class_names": ("red", "red", "blue")},
        {"class_names": ("red", "green\0", "blue")},
    ],
    ids=["mixed", "none", "ragged", "nested", "repeated", "nul"],
)
def test_class_names_that_would_change_are_not_written(tmp_path, changes):
    with pytest.raises(InvalidInputError, match="class_names must be all numbers or all text"):
        write_npz(small_dataset(**changes), tmp_path / "small.npz")
    assert list(tmp_path.iterdir()) == []


def test_node_ids_that_would_change_are_not_written(tmp_path):
    ids = np.arange(5).astype("M8[D]")
    with pytest.raises(InvalidInputError, match="node_ids must be all numbers or all text"):
        write_npz(small_dataset(node_ids=ids), tmp_path / "small.npz")


def test_older_spelling_is_read(tmp_path):
    older = {name.replace("_matrix.", "_"): array for name, array in members().items()}
    assert "adj_indptr" in older
    dataset = read_npz(save(tmp_path / "older.npz", older))
    assert_same(dataset, small_dataset(node_ids=None, class_names=None))


def test_dense_features_are_read(tmp_path):
    dense = np.arange(15).reshape(5, 3)
    arrays = {name: a for name, a in members().items() if not name.startswith("attr")}
    dataset = read_npz(save(tmp_path / "dense.npz", arrays | {"attr_matrix": dense}))
    np.testing.assert_array_equal(dataset.features, dense)


def test_directed_edges_get_their_other_direction(tmp_path):
    one_way = sp.triu(path_graph().adjacency, format="csr")
    changes = {
        f"adj_matrix.{part}": getattr(one_way, part) for part in ("data", "indices", "indptr")
    }
    dataset = read_npz(save(tmp_path / "directed.npz", members(**changes)))
    assert dataset.graph.n_edges == 3
    assert dataset.graph.counts.one_way == 3


def test_unusual_number_types_are_read(tmp_path):
    arrays = members()
    for name in arrays:
        if name != "labels":
            arrays[name] = arrays[name].astype(">u8")
    arrays["labels"] = arrays["labels"].astype(">i2")
    arrays["attr_matrix.data"] = arrays["attr_matrix.data"].astype(np.float16)
    dataset = read_npz(save(tmp_path / "unsigned.npz", arrays))
    assert_same(dataset, small_dataset(node_ids=None, class_names=None))


def test_names_are_used_where_they_fit(tmp_path):
    arrays = members(class_names=np.array(["x", "y", "z"]), node_names=np.array(list("vwxyz")))
    dataset = read_npz(save(tmp_path / "named.npz", arrays))
    assert dataset.class_names == ("x", "y", "z")
    assert dataset.node_ids.tolist() == list("vwxyz")


@pytest.mark.parametrize(
    "names",
    [
        {"class_names": np.array(["x", "y"]), "node_names": np.array(list("vwxy"))},
        {"class_names": np.array(["x", "x", "y"]), "node_names": np.array(list("vvxyz"))},
        {"class_names": np.array([["x", "y", "z"]]), "node_names": np.array([list("vwxyz")])},
        {"class_names": np.array(Trap()), "node_names": np.array([Trap()] * 5)},
        {"class_names": np.zeros(3, dtype="V4"), "node_names": np.zeros(5, dtype="M8[s]")},
        {"class_names": np.array([2**31] * 3, dtype=np.uint32).view("<U1")},
    ],
    ids=["short", "repeated", "nested", "pickled", "neither numbers nor text", "no characters"],
)
def test_names_that_do_not_fit_are_ignored(tmp_path, monkeypatch, names):
    monkeypatch.chdir(tmp_path)
    dataset = read_npz(save(tmp_path / "odd.npz", members(**names)))
    assert dataset.class_names == (0, 1, 2)
    assert dataset.node_ids.tolist() == [0, 1, 2, 3, 4]
    assert not Path("trap-was-sprung").exists()


def test_other_members_are_not_touched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "more.npz", members(metadata=np.array(Trap())))
    assert read_npz(tmp_path / "more.npz").n_nodes == 5
    assert not Path("trap-was-sprung").exists()


def test_a_pickled_member_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "bad.npz", members(labels=np.array([Trap()] * 5)))
    with pytest.raises(FileFormatError, match="'labels' must be a plain array, but it is pickled"):
        read_npz(tmp_path / "bad.npz")
    assert not Path("trap-was-sprung").exists()


def test_a_path_that_cannot_be_read(tmp_path):
    with pytest.raises(UnreadableFileError, match=r"nothing\.npz: No such file.*check the path"):
        read_npz(tmp_path / "nothing.npz")
    with pytest.raises(UnreadableFileError, match="Is a directory"):
        read_npz(tmp_path)


def test_an_empty_file(tmp_path):
    (tmp_path / "bad.npz").touch()
    with pytest.raises(FileFormatError, match=r"bad\.npz: it is empty \(0 bytes\)"):
        read_npz(tmp_path / "bad.npz")


def test_every_truncation_is_noticed(tmp_path):
    write_npz(small_dataset(), tmp_path / "good.npz")
    content = (tmp_path / "good.npz").read_bytes()
    for size in range(1, len(content), 97):
        (tmp_path / "bad.npz").write_bytes(content[:size])
        with pytest.raises(FileFormatError, match="cut short or damaged"):
            read_npz(tmp_path / "bad.npz")


def test_other_files_are_no_archives(tmp_path):
    np.save(tmp_path / "array.npy", np.arange(3))
    (tmp_path / "text.npz").write_text("node,label\n0,1\n")
    for name in ("array.npy", "text.npz"):
        with pytest.raises(FileFormatError, match=r"must be an \.npz archive"):
            read_npz(tmp_path / name)


def test_a_flipped_byte_raises_nothing_but_our_error(tmp_path):
    write_npz(small_dataset(), tmp_path / "good.npz")
    content = (tmp_path / "good.npz").read_bytes()
    refused = 0
    positions = range(0, len(content), 13)
    for position in positions:
        flipped = bytearray(content)
        flipped[position] ^= 0xFF
        (tmp_path / "bad.npz").write_bytes(flipped)
        try:
            read_npz(tmp_path / "bad.npz")
        except FileFormatError:
            refused += 1
    assert refused > len(positions) / 2  # the others are dates, versions and the like


def test_a_member_that_is_no_array(tmp_path):
    save(tmp_path / "bad.npz", members(labels=None))
    with zipfile.ZipFile(tmp_path / "bad.npz", "a") as archive:
        archive.writestr("labels.npy", b"0,1,2")
    with pytest.raises(FileFormatError, match=r"'labels' is no \.npy array"):
        read_npz(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("shape", "match"),
    [
        ("(9999999999999,)", "type int64, so it must have 80,000,000,000,120 bytes, got 168"),
        ("(-5,)", r"'labels' must have a shape of .*, none below 0, .* got 1: \(-5,\)"),
        ("(4,)", "type int64, so it must have 160 bytes, got 168"),
    ],
)
def test_a_header_that_claims_other_than_the_file_holds(tmp_path, shape, match):
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(40)
    save(tmp_path / "bad.npz", members(labels=None))
    with zipfile.ZipFile(tmp_path / "bad.npz", "a") as archive:
        archive.writestr("labels.npy", array)
    with pytest.raises(FileFormatError, match=match):
        read_npz(tmp_path / "bad.npz")


BIG = 2**62


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adj_matrix.data": None}, r"must hold the member 'adj_matrix\.data', but it holds adj_"),
        ({"attr_matrix.shape": None}, r"must hold the member 'attr_matrix\.shape'.*write_npz"),
        ({"labels": None}, "must hold the member 'labels'"),
        (
            {"labels": np.zeros(4, int)},
            "labels must have one entry for each of the 5 nodes.* got 4",
        ),
        ({"labels": np.zeros(5)}, "'labels' must be a 1-dimensional array of integers.*float64"),
        ({"labels": np.zeros((5, 3), int)}, r"1-dimensional array of integers, got shape \(5, 3\)"),
        ({"labels": np.array([0, 1, 2, -2, 0])}, "Labels must be class codes.* from -2 to 2"),
        (
            {"labels": np.array([0, 1, 2, BIG, 0])},
            "counted from 0, below 1,000.*Number the classes",
        ),
        ({"adj_matrix.data": np.array(["1"] * 6)}, r"'adj_matrix\.data' must.*real numbers.*<U1"),
        ({"adj_matrix.data": np.full(6, -1.0)}, "Edge weights must be finite and not negative"),
        ({"adj_matrix.data": np.ones(7)}, "from 0 to 6, with 6 indices and 7 values"),
        ({"adj_matrix.indices": np.ones(5, int)}, "from 0 to 6, with 5 indices and 6 values"),
        ({"adj_matrix.indices": np.full(6, 5)}, r"numbers from 0 to 4, got values from 5 to 5"),
        ({"adj_matrix.indices": np.full(6, -1)}, r"numbers from 0 to 4, got values from -1 to -1"),
        ({"adj_matrix.indices": np.full(6, 2**63, np.uint64)}, "from 9223372036854775808"),
        ({"adj_matrix.indices": np.ones(6)}, r"'adj_matrix\.indices' must be.*integers.*float64"),
        ({"adj_matrix.indptr": np.array([0, 3, 1, 5, 6, 6])}, "to 6 and falls in between, with"),
        ({"adj_matrix.indptr": np.array([0, 3, 1, 5, 6, 6], np.uint8)}, "falls in between"),
        ({"adj_matrix.indptr": np.array([1, 3, 3, 5, 6, 6])}, "must rise from 0 .* goes from 1"),
        ({"adj_matrix.indptr": np.array([0, 3, 3, 5, 6, BIG])}, f"from 0 to {BIG}"),
        ({"adj_matrix.indptr": np.array([0, 3, 6])}, r"one row for each step .*, 2, .*got \[5 5\]"),
        ({"adj_matrix.indptr": np.zeros(0, int)}, r"adj_matrix\.shape must be \(rows, columns\)"),
        ({"adj_matrix.shape": np.array([5, 6])}, r"must be square, got \(5, 6\)"),
        ({"adj_matrix.shape": np.array([BIG, BIG])}, r"shape must be \(rows, columns\)"),
        ({"adj_matrix.shape": np.array([5])}, r"shape must be \(rows, columns\).*got \[5\]"),
        ({"attr_matrix.shape": np.array([5, BIG])}, "at most 2,147,483,647 columns; got"),
        ({"attr_matrix.shape": np.array([5, -3])}, "at most 2,147,483,647 columns; got"),
        ({"attr_matrix.data": np.full(7, np.nan)}, "Features must be finite numbers"),
        ({"attr_matrix": np.zeros(5)}, "'attr_matrix' must be a 2-dimensional array of real"),
        (
            {"attr_matrix": np.zeros((4, 2))},
            "features must have one row for each .* 5 nodes, got 4",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path, changes, message):
    save(tmp_path / "bad.npz", members(**changes))
    with pytest.raises(FileFormatError, match=f"(?s)^Cannot use .*bad\\.npz: .*{message}"):
        read_npz(tmp_path / "bad.npz")
