"""A graph in a folder: the same graph as in memory, and nothing in the folder is believed."""

from __future__ import annotations

import json
import pickle
import shutil
import tracemalloc
from hashlib import sha256
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from proptrain import PTAClassifier, as_graph
from proptrain.data.disk import DiskGraph, cut_rows
from proptrain.data.disk_build import build_graph
from proptrain.data.disk_writer import save_graph
from proptrain.data.graph import Graph
from proptrain.data.manifest import MANIFEST
from proptrain.data.order import locality_order
from proptrain.data.synthetic import power_law_graph
from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    OutputExistsError,
    ProptrainError,
    UnreadableFileError,
)
from strategies import adjacencies


def same_graph(one, other):
    """Equal to the bit: every number, every count."""
    assert one.adjacency.shape == other.adjacency.shape
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(one.adjacency, part), getattr(other.adjacency, part))
    assert one.counts == other.counts


@settings(max_examples=30, deadline=None, derandomize=True)
@given(adjacencies(), st.integers(1, 12), st.booleans())
def test_what_is_saved_comes_back(tmp_path_factory, adjacency, n_blocks, is_renumbered):
    graph = Graph(sp.csr_array(adjacency))
    folder = tmp_path_factory.mktemp("saved") / "graph"
    order = locality_order(graph) if is_renumbered else None
    save_graph(graph, folder, n_blocks=n_blocks, order=order)
    opened = DiskGraph(folder)
    opened.verify()
    assert (opened.n_nodes, opened.n_edges, opened.n_blocks) == (
        graph.n_nodes,
        graph.n_edges,
        n_blocks,
    )
    same_graph(opened.to_graph(), graph)
    degrees = graph.degrees if order is None else graph.degrees[order]
    np.testing.assert_allclose(opened.degrees, degrees, rtol=1e-6)
    assert opened.manifest.is_weighted == bool((graph.adjacency.data != 1).any())
    for size in (1, 3, 1000):
        rows = [np.arange(part.rows.start, part.rows.stop) for part in opened.parts(size)]
        np.testing.assert_array_equal(np.concatenate(rows), np.arange(graph.n_nodes))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 9), st.sampled_from([None, 1, 3]))
def test_rows_are_cut_where_they_are_full(lengths, most, max_rows):
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    runs = list(cut_rows(indptr, most, max_rows))
    assert [row for run in runs for row in range(run.start, run.stop)] == list(range(len(lengths)))
    for run in runs:
        n_rows = run.stop - run.start
        assert indptr[run.stop] - indptr[run.start] <= most or n_rows == 1
        is_full = run.stop < len(lengths) and indptr[run.stop + 1] - indptr[run.start] > most
        assert n_rows == max_rows or is_full or run.stop == len(lengths)


def test_rows_are_cut_without_a_copy_of_where_they_begin():
    indptr = np.arange(10**6, dtype=np.int32)
    tracemalloc.start()
    try:
        assert len(list(cut_rows(indptr, 2**40))) == 1
        assert tracemalloc.get_traced_memory()[1] < 10**5
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        (["a", "bé", "ccc"], ["a", "bé", "ccc"]),
        ([7, -2, 9], [7, -2, 9]),
        (np.array([5, 6, 2**63 - 1]), [5, 6, 2**63 - 1]),
        ([0, 1, 2], [0, 1, 2]),
        (None, [0, 1, 2]),
    ],
)
def test_ids_come_back(tmp_path, ids, kept):
    save_graph(Graph.without_edges(3), tmp_path / "graph", ids=ids)
    assert DiskGraph(tmp_path / "graph").ids().tolist() == kept
    assert DiskGraph(tmp_path / "graph").ids(slice(1, 2)).tolist() == kept[1:2]


@pytest.mark.parametrize(
    ("ids", "match"),
    [
        (["a", "b"], "an id for each of the 3 nodes, whole numbers or"),
        (np.array([0.5, 1.0, 2.0]), r"whole numbers or text; got float64 of shape \(3,\)"),
        ([[1, 2, 3]], r"got int64 of shape \(1, 3\)"),
        ([0.5, 1.0, 2.0], "whole numbers, or text, all of them; got float"),
        ([7, "7", "8"], "got int and str"),
        (np.array([7, "7", None], dtype=object), "got NoneType and int and str"),
        ([True, False, 2], "got bool and int"),
        (
            np.array([1, 2, 2**63 + 5], dtype=np.uint64),
            "got 9223372036854775813. Give them as text",
        ),
        ([1, 2, 2**63 + 5], "got 9223372036854775813"),
        (["é", "b", "é"], "an id of its own, but 'é' is that of several"),
        (np.array([5, 6, 5]), "but 5 is that of several"),
    ],
)
def test_ids_that_are_none_are_refused(tmp_path, ids, match):
    with pytest.raises(InvalidInputError, match=match):
        save_graph(Graph.without_edges(3), tmp_path / "graph", ids=ids)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_blocks", [0, -3, 2.5, "two", True, 10_001])
def test_blocks_that_cannot_be_are_refused(tmp_path, n_blocks):
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    match = "n_blocks must be a whole number, at least 1, got|at most 10,000 blocks, got 10,001"
    with pytest.raises(InvalidInputError, match=match):
        save_graph(Graph.without_edges(3), tmp_path / "graph", n_blocks=n_blocks)
    with pytest.raises(InvalidInputError, match=match):
        build_graph([tmp_path / "edges.csv"], tmp_path / "graph", n_blocks=n_blocks)
    assert not (tmp_path / "graph").exists()


def test_an_order_must_name_each_node_once(tmp_path):
    with pytest.raises(InvalidInputError, match="each of the 3 nodes once"):
        save_graph(Graph.without_edges(3), tmp_path / "graph", order=np.array([0, 0, 2]))


def test_an_order_is_noted_as_what_it_is(tmp_path):
    save_graph(Graph.without_edges(3), tmp_path / "graph", order=np.array([2, 0, 1]))
    assert DiskGraph(tmp_path / "graph").manifest.renumbered == "given"
    save_graph(Graph.without_edges(3), tmp_path / "plain")
    assert DiskGraph(tmp_path / "plain").manifest.renumbered is None


def test_looking_at_all_files_is_told_to_the_last(tmp_path):
    graph, _ = power_law_graph(100, 300, 3)
    order = np.random.RandomState(0).permutation(100)
    save_graph(graph, tmp_path / "graph", n_blocks=3, ids=np.arange(100) + 7, order=order)
    shares = []
    DiskGraph(tmp_path / "graph").verify(shares.append)
    assert sum(shares) == pytest.approx(1)


def test_it_travels_to_another_process(tmp_path):
    graph, _ = power_law_graph(100, 300, 3)
    save_graph(graph, tmp_path / "graph", n_blocks=3)
    opened = DiskGraph(tmp_path / "graph")
    opened.verify()
    same_graph(pickle.loads(pickle.dumps(opened)).to_graph(), graph)


def test_a_classifier_takes_it_for_the_graph_that_it_is(tmp_path):
    graph, labels = power_law_graph(60, 120, 3)
    save_graph(graph, tmp_path / "graph")
    same_graph(as_graph(DiskGraph(tmp_path / "graph")), graph)
    X, y = np.eye(60, 5), np.where(np.arange(60) % 2, labels, -1)
    fits = [
        PTAClassifier(max_epochs=3, random_state=0).fit(X, y, graph=one).label_distributions_
        for one in (graph, DiskGraph(tmp_path / "graph"))
    ]
    np.testing.assert_array_equal(*fits)


def test_only_a_graph_is_overwritten(tmp_path):
    folder = tmp_path / "graph"
    save_graph(Graph.without_edges(3), folder)
    with pytest.raises(OutputExistsError, match="exists already"):
        save_graph(Graph.without_edges(4), folder)
    save_graph(Graph.without_edges(4), folder, overwrite=True)
    assert DiskGraph(folder).n_nodes == 4
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("mine")
    with pytest.raises(OutputExistsError, match="Only a graph may be overwritten"):
        save_graph(Graph.without_edges(4), other, overwrite=True)
    assert (other / "letter.txt").read_text() == "mine"


# --- bad weather ------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path):
    """A weighted, renumbered graph of two blocks with ids, which a test may damage."""
    graph, _ = power_law_graph(200, 600, 4)
    rows = graph.adjacency.copy()
    rows.data = 1 + (np.arange(rows.nnz) % 3).astype(np.float32)
    graph = Graph(rows)
    folder = tmp_path / "graph"
    ids = [f"n{i}" for i in range(200)]
    save_graph(graph, folder, n_blocks=2, order=locality_order(graph), ids=ids)
    return SimpleNamespace(folder=folder, graph=graph)


def rewrite(folder, change):
    """Change the manifest as someone would who knows how its checksum is made."""
    told = json.loads((folder / MANIFEST).read_text())
    del told["checksum"]
    change(told)
    text = json.dumps(told, sort_keys=True).encode()
    told["checksum"] = sha256(text).hexdigest()
    (folder / MANIFEST).write_text(json.dumps(told))


def rewrite_array(folder, name, change, key=None):
    """Change an array and what the manifest says of it."""
    array = np.load(folder / name)
    array = change(array)
    np.save(folder / name, array)

    def adapt(told):
        found = [told[key]] if key else [
            block[name.split("-")[0]] for block in told["blocks"]
        ]  # fmt: skip
        (own,) = [one for one in found if one["name"] == name]
        own["sha256"] = sha256((folder / name).read_bytes()).hexdigest()

    rewrite(folder, adapt)


FILES = ["indptr-00000.npy", "indices-00001.npy", "weights-00001.npy", "degrees.npy", "order.npy"]


@pytest.mark.parametrize("name", [*FILES, "ids.npy"])
@pytest.mark.parametrize("damage", ["missing", "cut", "longer", "a bit", "empty"])
def test_a_damaged_file_is_noticed(stored, name, damage):
    path = stored.folder / name
    content = path.read_bytes()
    changed = {
        "cut": content[:-3],
        "longer": content + b"0",
        "a bit": content[:-1] + bytes([content[-1] ^ 4]),
        "empty": b"",
    }
    path.unlink() if damage == "missing" else path.write_bytes(changed[damage])
    wanted = UnreadableFileError if damage == "missing" else FileFormatError
    with pytest.raises(wanted, match=name) as info:
        DiskGraph(stored.folder).verify()
    assert str(stored.folder) in str(info.value)


@pytest.mark.parametrize("name", ["indices-00001.npy", "weights-00001.npy"])
def test_a_damaged_block_is_noticed_by_who_first_uses_it(stored, name):
    path = stored.folder / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 4]))
    opened = DiskGraph(stored.folder)
    opened.block(0)
    with pytest.raises(FileFormatError, match=f"{name} was changed after it was written"):
        opened.block(1)


@pytest.mark.parametrize("damage", ["", "{", "[]", "7", '{"format": 1}', "\x00\xff", "[" * 10**5])
def test_a_manifest_that_is_none(stored, damage):
    (stored.folder / MANIFEST).write_text(damage)
    with pytest.raises(FileFormatError, match="not the manifest of a proptrain graph"):
        DiskGraph(stored.folder)


def test_no_manifest_no_graph(stored, tmp_path):
    (stored.folder / MANIFEST).unlink()
    for folder in (stored.folder, tmp_path / "nowhere"):
        with pytest.raises(UnreadableFileError, match=r"is no graph folder.*proptrain graph build"):
            DiskGraph(folder)


def test_a_changed_manifest_is_noticed(stored):
    text = (stored.folder / MANIFEST).read_text().replace('"self_loops": 0', '"self_loops": 1')
    (stored.folder / MANIFEST).write_text(text)
    with pytest.raises(FileFormatError, match="its checksum does not fit"):
        DiskGraph(stored.folder)


def set_in(*path, value):
    def change(told):
        for key in path[:-1]:
            told = told[key]
        told[path[-1]] = value

    return change


def claim_rows(told):
    told["n_nodes"] = told["blocks"][1]["n_rows"] = 10**12
    told["blocks"][1]["indptr"]["length"] = 10**12 + 1


def claim_many(told):
    """As many nodes as there may be, in all places at once."""
    n_more = 2**31 - 1 - told["n_nodes"]
    told["n_nodes"] += n_more
    told["blocks"][1]["n_rows"] += n_more
    for one in (told["blocks"][1]["indptr"], told["degrees"], told["ids"], told["order"]):
        one["length"] += n_more


def claim_entries(told):
    block = told["blocks"][1]
    told["n_entries"] += 10**12
    block["n_entries"] += 10**12
    for name in ("indices", "weights"):
        block[name]["length"] += 10**12


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (set_in("degrees", "name", value="../degrees.npy"), "no file of a graph"),
        (set_in("degrees", "name", value="/etc/passwd"), "no file of a graph"),
        (set_in("degrees", "name", value="a/../b.npy"), "no file of a graph"),
        (set_in("degrees", "name", value=7), "where a str must be"),
        (set_in("blocks", 0, "indices", "name", value="indices-00000.npy\n"), "no file of a graph"),
        (claim_rows, "at most 2,147,483,647 nodes"),
        (claim_many, r"must have [\d,]+ bytes, got"),
        (claim_entries, r"must have [\d,]+ bytes, got"),
        (set_in("n_nodes", value=-1), "from 0 on"),
        (set_in("n_nodes", value=True), "where a int must be"),
        (set_in("n_nodes", value=201), "claims 201 nodes"),
        (set_in("blocks", 1, "first", value=3), "do not follow one another"),
        (set_in("blocks", 1, "weights", value=None), "with weights and without"),
        (set_in("degrees", "dtype", value="|O8"), "claims the type"),
        (set_in("degrees", "dtype", value="<f4"), "entries of type f8"),
        (set_in("blocks", 0, "indices", "dtype", value="<f4"), "entries of type i"),
        (set_in("degrees", value=None), "lacks the degrees"),
        (set_in("renumbered", value=None), "lacks the degrees, or the name of an order"),
        (set_in("renumbered", value="magic"), "unknown order 'magic'"),
        (set_in("format", value=2), "graphs of format 1"),
        (set_in("blocks", value=[{}]), "not the manifest"),
    ],
)
def test_a_manifest_is_not_believed(stored, change, match):
    rewrite(stored.folder, change)
    with pytest.raises(FileFormatError, match=match):
        DiskGraph(stored.folder)


def broken(array, place, value):
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("name", "place", "value", "key", "match"),
    [
        ("indices-00000.npy", 5, 200, None, "neighbours must be numbers of nodes"),
        ("indices-00001.npy", 0, -1, None, "neighbours must be numbers of nodes"),
        ("indptr-00000.npy", 0, 1, None, "an indptr must rise"),
        ("indptr-00000.npy", 3, 10**6, None, "an indptr must rise"),
        ("indptr-00001.npy", -1, 0, None, "an indptr must rise"),
        ("weights-00000.npy", 3, np.nan, None, "weights must be finite"),
        ("weights-00000.npy", 3, -1, None, "weights must be finite"),
        ("degrees.npy", 3, np.inf, "degrees", "degrees.npy must hold finite numbers"),
        ("order.npy", 3, 0, "order", "order.npy must name each node once"),
        ("order.npy", 3, -5, "order", "order.npy must name each node once"),
    ],
)
def test_numbers_that_lead_out_of_the_graph_are_not_followed(
    stored, name, place, value, key, match
):
    rewrite_array(stored.folder, name, lambda array: broken(array, place, value), key)
    with pytest.raises(FileFormatError, match=match):
        DiskGraph(stored.folder).verify()


def test_nothing_is_unpickled(stored, tmp_path):
    trap = tmp_path / "sprung"

    class Trap:
        def __reduce__(self):
            return (trap.touch, ())

    np.save(stored.folder / "degrees.npy", np.array([Trap()] * 200, dtype=object))
    size = (stored.folder / "degrees.npy").stat().st_size
    with pytest.raises(ProptrainError, match=r"degrees.npy must have|is no array"):
        DiskGraph(stored.folder).verify()
    assert size
    assert not trap.exists()


def test_a_link_out_of_the_folder_is_not_followed(stored, tmp_path):
    shutil.move(stored.folder / "degrees.npy", tmp_path / "elsewhere.npy")
    (stored.folder / "degrees.npy").symlink_to(tmp_path / "elsewhere.npy")
    with pytest.raises(FileFormatError, match=r"degrees.npy must lie in that folder itself"):
        DiskGraph(stored.folder)
