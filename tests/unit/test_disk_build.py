"""From edge lists to a graph in a folder: what `Graph` makes of them, whatever comes between."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from processes import HANGS
from proptrain.data import (
    disk_build,
    disk_given,
    disk_ids,
    disk_notes,
    disk_sort,
    disk_writer,
    edge_files,
    synthetic_disk,
)
from proptrain.data.convert import graph_from_edges
from proptrain.data.disk import DiskGraph
from proptrain.data.disk_build import Nodes, build_graph
from proptrain.data.disk_writer import save_graph
from proptrain.data.edge_files import ids_of
from proptrain.data.manifest import MANIFEST, WORK
from proptrain.data.noise import noise_rate
from proptrain.data.synthetic_disk import write_power_law_graph, write_synthetic
from proptrain.data.tables import read_edges
from proptrain.errors import (
    FileFormatError,
    GraphError,
    InvalidInputError,
    NotEnoughMemoryError,
    OutputExistsError,
    ProptrainError,
    TableError,
    UnreadableFileError,
    UnwritableOutputError,
    WrongTypeError,
)
from proptrain.system import memory as memory_module

MEMORY = "64GB"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Do not wait for the disk: what is tested is a process that ends, and tests are many."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def same(graph, wanted):
    """Equal to the bit, with the same counts."""
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(
            getattr(graph.adjacency, part), getattr(wanted.adjacency, part)
        )
    assert graph.counts == wanted.counts


def cramped(monkeypatch):
    """Have everything done in many small parts, as if memory were short."""
    sizes = {"_FEWEST": 8, "_ROUNDS": 4, "_ENTRY_BYTES": 32, "BLOCK_ENTRIES": 64}
    for name, value in sizes.items():  # 128 entries at a time, and a row of up to 64 in a block
        monkeypatch.setattr(disk_sort, name, value)
    monkeypatch.setattr(disk_build, "budget_of", lambda memory, kept: 4096)
    monkeypatch.setattr(edge_files, "_FEWEST_ROWS", 7)
    monkeypatch.setattr(edge_files, "_SMALL_BLOCK", 64)
    monkeypatch.setattr(disk_ids, "_SAMPLES", 3)


def written(folder, pairs, weights, ending, n_files):
    """Deal edges out to files of one kind."""
    paths = []
    for place, rows in enumerate(np.array_split(np.arange(len(pairs)), n_files)):
        table = pd.DataFrame(pairs[rows], columns=["source", "target"])
        if weights is not None:
            table["strength"] = weights[rows]
        paths.append(folder / f"edges-{place}{ending}")
        if ending == ".parquet":
            table.to_parquet(paths[-1])
        else:
            table.to_csv(paths[-1], index=False, sep="\t" if ".tsv" in ending else ",")
    return paths


def test_line_breaks_in_cells_are_no_rows_wherever_a_block_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(edge_files, "_SMALL_BLOCK", 256)
    monkeypatch.setattr(edge_files, "_CSV_BLOCK", 256)
    rows = [f'n{k % 10},n{(k + 1) % 10},"red,green\nred,green,blue\nred"' for k in range(200)]
    (tmp_path / "e.csv").write_text("\n".join(["source,target,colours", *rows]))
    graph = build_graph([tmp_path / "e.csv"], tmp_path / "graph", memory=MEMORY)
    assert (graph.n_nodes, graph.n_edges) == (10, 10)


EDGES = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=80)


@pytest.mark.parametrize("is_cramped", [False, True])
@pytest.mark.parametrize("ending", [".csv", ".tsv.gz", ".parquet"])
@pytest.mark.parametrize("is_text", [False, True])
def test_it_is_what_a_graph_makes_of_the_edges(
    tmp_path_factory, monkeypatch, is_cramped, ending, is_text
):
    if is_cramped:
        cramped(monkeypatch)

    @settings(max_examples=6, deadline=None, derandomize=True)
    @given(EDGES, st.sampled_from([None, (1.0,), (0.0, 0.5, 1.0, 2.25)]), st.integers(1, 3))
    def check(edges, weights, n_files):
        folder = tmp_path_factory.mktemp("edges")
        numbers = np.array(edges)
        strengths = None
        if weights is not None:
            strengths = np.random.RandomState(len(edges)).choice(weights, len(edges))
        pairs = np.array([f"nö-{i:02}" for i in range(12)])[numbers] if is_text else numbers * 3 - 5
        paths = written(folder, pairs, strengths, ending, min(n_files, len(edges)))
        column = None if weights is None else "strength"
        graph = build_graph(paths, folder / "graph", weight=column, memory=MEMORY)
        ids, places = np.unique(pairs, return_inverse=True)
        wanted = graph_from_edges(places.reshape(-1, 2), len(ids), strengths)
        graph.verify()
        same(graph.to_graph(), wanted)
        assert graph.ids().tolist() == ids.tolist()
        assert graph.manifest.is_weighted == bool((wanted.adjacency.data != 1).any())
        np.testing.assert_allclose(graph.degrees, wanted.degrees, rtol=1e-6)
        assert not (folder / "graph" / WORK).exists()

    check()


def random_edges(n_nodes=300, n_edges=2500, seed=0):
    return np.random.RandomState(seed).randint(0, n_nodes, (n_edges, 2))


def test_more_entries_than_fit_are_sorted_in_blocks(tmp_path, monkeypatch):
    cramped(monkeypatch)
    pairs = random_edges()
    (path,) = written(tmp_path, pairs, None, ".parquet", 1)
    graph = build_graph([path], tmp_path / "graph")
    assert graph.n_blocks > 20
    sizes = [block.n_entries for block in graph.manifest.blocks]
    assert max(sizes) < 4 * np.mean(sizes)
    ids, places = np.unique(pairs, return_inverse=True)
    same(graph.to_graph(), graph_from_edges(places.reshape(-1, 2), len(ids)))


def test_an_edge_that_is_given_very_often_is_merged_in_parts(tmp_path, monkeypatch):
    cramped(monkeypatch)
    pairs = np.concatenate([np.tile([[3, 4]], (500, 1)), random_edges(10, 40)])
    weights = np.random.RandomState(0).rand(len(pairs))
    (path,) = written(tmp_path, pairs, weights, ".csv", 1)
    graph = build_graph([path], tmp_path / "graph", weight="strength", nodes=Nodes(n_nodes=10))
    same(graph.to_graph(), graph_from_edges(pairs, 10, weights))


@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_block_that_is_too_large_is_told_and_goes_on_with_more_memory(
    tmp_path, monkeypatch, is_weighted
):
    pairs = random_edges(30, 300)
    weights = np.random.RandomState(0).rand(len(pairs)) if is_weighted else None
    (path,) = written(tmp_path, pairs, weights, ".csv", 1)
    how = {"nodes": Nodes(n_nodes=30), "weight": "strength" if is_weighted else None, "n_blocks": 1}
    with monkeypatch.context() as patch:
        cramped(patch)
        with pytest.raises(
            NotEnoughMemoryError, match=r"left for that, 4\.1 KB\. Give more memory"
        ):
            build_graph([path], tmp_path / "graph", **how)
    assert not (tmp_path / "graph" / MANIFEST).exists()
    graph = build_graph([path], tmp_path / "graph", **how, memory=MEMORY)
    same(graph.to_graph(), graph_from_edges(pairs, 30, weights))


def test_as_many_blocks_as_asked_for(tmp_path):
    pairs = random_edges()
    (path,) = written(tmp_path, pairs, None, ".parquet", 1)
    for n_blocks in (1, 7, np.int64(60)):
        graph = build_graph([path], tmp_path / f"{n_blocks}", n_blocks=n_blocks, memory=MEMORY)
        assert graph.n_blocks == n_blocks
        graph.verify()


def test_nodes_by_number_keep_those_without_edges(tmp_path):
    (path,) = written(tmp_path, np.array([[0, 3], [3, 5]]), None, ".csv", 1)
    graph = build_graph([path], tmp_path / "graph", nodes=Nodes(n_nodes=9), memory=MEMORY)
    same(graph.to_graph(), graph_from_edges([(0, 3), (3, 5)], 9))
    with pytest.raises(TableError, match=r"edges-0.csv has 5, which is none"):
        build_graph([path], tmp_path / "other", nodes=Nodes(n_nodes=5), memory=MEMORY)


@pytest.mark.parametrize("names", [["c", "a", "d", "b"], [30, 7, 100, 8]])
def test_nodes_by_a_table_are_in_its_order(tmp_path, names):
    pd.DataFrame({"name": names, "x": 1}).to_csv(tmp_path / "nodes.csv", index=False)
    pairs = np.array([[names[0], names[3]], [names[3], names[1]]])
    (path,) = written(tmp_path, pairs, None, ".csv", 1)
    nodes = Nodes(file=tmp_path / "nodes.csv", id_column="name")
    graph = build_graph([path], tmp_path / "graph", nodes=nodes, memory=MEMORY)
    assert graph.ids().tolist() == names
    same(graph.to_graph(), graph_from_edges([(0, 3), (3, 1)], 4))
    (stray,) = written(tmp_path, np.array([[names[0], "zebra-of-the-plains"]]), None, ".csv", 1)
    with pytest.raises(TableError, match="has 'zebra-of-the-plains', which is none"):
        build_graph([stray], tmp_path / "other", nodes=nodes, memory=MEMORY)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("kind", ["numbers", "text", "numbers, then text", "ascending"])
def test_nodes_by_a_long_table_are_read_in_parts(tmp_path, monkeypatch, ending, kind):
    cramped(monkeypatch)
    monkeypatch.setattr("proptrain.data.mapped.SMALL", 512)
    monkeypatch.setattr("proptrain.data.table_files._MOST_ROWS", 300)
    numbers = np.random.RandomState(0).permutation(1000) * 7 - 50
    names = [str(number) for number in (np.sort(numbers) if kind == "ascending" else numbers)]
    if "text" in kind:
        first = 500 if "then" in kind else 0
        names[first:] = [f"nö{name}" for name in names[first:]]
    table = pd.DataFrame({"x": 0.5, "name": names if "text" in kind else list(map(int, names))})
    getattr(table, f"to_{ending[1:]}")(tmp_path / f"nodes{ending}", index=False)
    places = random_edges(1000, 400)
    (path,) = written(tmp_path, np.array(names)[places], None, ".csv", 1)
    nodes = Nodes(file=tmp_path / f"nodes{ending}", id_column="name")
    monkeypatch.setattr(disk_build, "budget_of", lambda memory, kept: 40_000)
    graph = build_graph([path], tmp_path / "graph", nodes=nodes)
    assert [str(one) for one in graph.ids()] == names
    same(graph.to_graph(), graph_from_edges(places, 1000))


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (["a", "b", "a", "c", "b"], r"nodes\.csv repeats 2: 'a' in row 3, 'b' in row 5\. Keep"),
        (["3", "1", "3"], r"nodes\.csv repeats 1: 3 in row 3\. Keep"),
        (["a", "b", " ", ""], r"nodes\.csv has at least 2 without one \(row 3, 4\)"),
        (["a", "x" * 300], r"Column 'id' of nodes\.csv: Ids must be of at most 200 bytes"),
        ([], r"at least one row, but nodes\.csv has none"),
        (["a", "b,1,2"], "as many cells as there are column names"),
    ],
)
def test_a_table_of_nodes_that_cannot_be_used(tmp_path, monkeypatch, rows, match):
    monkeypatch.setattr("proptrain.data.table_files._FEWEST_ROWS", 2)
    monkeypatch.setattr("proptrain.data.table_files._MOST_ROWS", 2)
    (tmp_path / "nodes.csv").write_text("".join(f"{row},0\n" for row in ["id", *rows]))
    (path,) = written(tmp_path, np.array([["a", "b"]]), None, ".csv", 1)
    nodes = Nodes(file=tmp_path / "nodes.csv")
    with pytest.raises(ProptrainError, match=match):
        build_graph([path], tmp_path / "graph", nodes=nodes, memory=MEMORY)
    assert not (tmp_path / "graph").exists()


@pytest.mark.parametrize("kind", ["sort", "renumber"])
def test_too_little_memory_for_all_nodes_is_told_with_what_would_do(tmp_path, monkeypatch, kind):
    pd.DataFrame({"id": range(900, 0, -1)}).to_csv(tmp_path / "nodes.csv", index=False)
    (path,) = written(tmp_path, np.array([[1, 900], [7, 8]]), None, ".csv", 1)
    nodes = Nodes(file=tmp_path / "nodes.csv") if kind == "sort" else Nodes(n_nodes=901)
    how = {"nodes": nodes, "memory": "3GB", "renumber": kind == "renumber"}
    with monkeypatch.context() as patched:
        patched.setattr(disk_build, "budget_of", lambda memory, kept: 20_000)
        told = rf"must leave 21\.6 KB to {kind} .*leaves 20 KB\. Give at least 3\.2 GB, and"
        with pytest.raises(NotEnoughMemoryError, match=told):
            build_graph([path], tmp_path / "graph", **how)
    graph = build_graph([path], tmp_path / "graph", **{**how, "memory": MEMORY})
    assert graph.n_edges == 2
    assert graph.ids().tolist() == list(range(900, 0, -1) if kind == "sort" else range(901))


@pytest.mark.parametrize("is_text", [False, True])
@pytest.mark.parametrize("is_numbered", [False, True])
def test_ids_are_looked_up_part_by_part(monkeypatch, is_text, is_numbered):
    monkeypatch.setattr("proptrain.data.mapped.SMALL", 64)
    random = np.random.RandomState(0)
    ids = np.sort(random.choice(10_000, 400, replace=False))
    ids = np.sort(ids.astype("S20")) if is_text else ids
    numbers = random.permutation(400).astype(np.int32) if is_numbered else None
    ids_of_nodes = disk_ids.IdMap(400, ids, numbers)
    places = random.randint(0, 400, 300)
    found = ids_of_nodes.look_up(ids[places], "edges.csv")
    np.testing.assert_array_equal(found, places if numbers is None else numbers[places])
    everywhere = set(range(-3, 10_003)) - set(ids.astype(int).tolist())
    for stray in random.choice(sorted(everywhere), 60):
        with pytest.raises(TableError, match=rf"has '?{stray}'?, which is none"):
            ids_of_nodes.look_up(np.array([stray]), "edges.csv")


def test_of_ids_with_text_among_them_the_one_that_is_none_is_named(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,x\n1,0\n2,0\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n2,x\n")
    nodes = Nodes(file=tmp_path / "nodes.csv", id_column="id")
    with pytest.raises(TableError, match=r"edges\.csv has 'x', which is none"):
        build_graph([tmp_path / "edges.csv"], tmp_path / "graph", nodes=nodes, memory=MEMORY)


def test_numbers_in_one_file_and_text_in_another_are_all_text(tmp_path):
    (tmp_path / "a.csv").write_text("source,target\n10,9\n9,2\n")
    (tmp_path / "b.csv").write_text("source;target\n10;x\n")
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    graph = build_graph(paths, tmp_path / "graph", memory=MEMORY)
    assert graph.ids().tolist() == ["10", "2", "9", "x"]
    same(graph.to_graph(), graph_from_edges([(0, 2), (2, 1), (0, 3)], 4))


@pytest.mark.parametrize("other", ["x", "1.5", "-7.0", "2.0.0", "v1.0"])
def test_one_id_written_as_a_whole_number_and_as_a_decimal_is_no_two_nodes(tmp_path, other):
    # As pandas writes a column of whole numbers with an empty cell in it.
    (tmp_path / "a.csv").write_text(
        "source,target\n" + "".join(f"{i},{i + 1}\n" for i in range(30))
    )
    (tmp_path / "b.csv").write_text(f"source,target\n41.0,{other}\n")
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    graph = build_graph(paths, tmp_path / "graph", memory=MEMORY)
    assert graph.n_nodes == 33  # 41.0 stands alone, so it may be a name
    (tmp_path / "b.csv").write_text(f"source,target\n29.0,{other}\n3.0,4.0\n")
    with pytest.raises(TableError, match=r"but 3 are there as a whole .* such as 29 and 29\.0"):
        build_graph(paths, tmp_path / "other", memory=MEMORY)


def test_a_whole_number_and_its_decimal_in_two_parts_are_found(tmp_path, monkeypatch):
    cramped(monkeypatch)
    numbers = [str(i) for i in range(-400, 400)]
    for name, ending in (("a.csv", ""), ("b.csv", ".0")):
        rows = "".join(f"{i}{ending},x{i}\n" for i in numbers)
        (tmp_path / name).write_text("source,target\n" + rows)
    with pytest.raises(TableError, match=r"written alike, but .* such as -?\d+ and -?\d+\.0\."):
        build_graph([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "graph")


@pytest.mark.parametrize("number", [b"7", b"-7"])
def test_a_part_is_compared_with_the_end_of_the_one_before(number):
    decimal = np.array([number + b".0", b"x"])
    disk_ids.check_written_alike(decimal, np.array([b"6"]))
    with pytest.raises(TableError, match="1 is there as a whole number and as a decimal"):
        disk_ids.check_written_alike(decimal, np.array([number]))


def test_numbers_are_made_text_within_the_memory(tmp_path, monkeypatch):
    cramped(monkeypatch)
    made = []
    as_text = disk_ids._as_text
    monkeypatch.setattr(
        disk_ids, "_as_text", lambda run, path: made.append(path) or as_text(run, path)
    )
    pairs = np.random.RandomState(0).randint(10**12, size=(3000, 2))
    paths = written(tmp_path, pairs, None, ".parquet", 1)
    (tmp_path / "b.csv").write_text("source,target\nx,y\n")
    graph = build_graph([*paths, tmp_path / "b.csv"], tmp_path / "graph")
    assert len(made) > 3  # several runs, each in a file of its own that is gone
    assert not any(path.exists() for path in made)
    assert graph.ids().tolist() == sorted({*pairs.ravel().astype(str), "x", "y"})


def test_long_ids_in_one_file_and_short_ones_in_another_are_each_found_once(tmp_path, monkeypatch):
    cramped(monkeypatch)
    short = np.array([f"u{i:03}" for i in range(400)])
    both = np.concatenate([short, np.char.add(short, "-abcdefghijklmnop")])
    mixed = np.random.RandomState(0).permutation(both)
    (tmp_path / "b").mkdir()
    paths = written(tmp_path, short.reshape(-1, 2), None, ".parquet", 1)
    paths += written(tmp_path / "b", mixed.reshape(-1, 2), None, ".parquet", 1)
    graph = build_graph(paths, tmp_path / "graph")
    assert graph.ids().tolist() == sorted(both)


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pa.array(["7", " 12 "]), [7, 12]),
        (pa.array(["007", "12"]), [b"007", b"12"]),
        (pa.array(["-3", "+3"]), [b"-3", b"+3"]),
        (pa.array(["1.0"]), [b"1.0"]),
        (pa.array(["9" * 30]), [b"9" * 30]),
        (pa.array([1, 2], pa.int8()), [1, 2]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), [b"a", b"b", b"a"]),
    ],
)
def test_text_is_a_number_only_if_it_is_written_as_one(column, wanted):
    assert ids_of(column).tolist() == wanted


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pa.array([1, None]), "1 are missing"),
        (pa.array(["a", " "]), "some are empty"),
        (pa.array([1.5]), "whole numbers or text, got double"),
        (pa.array(["x" * 300]), "at most 200 bytes, got one of 300"),
        (pa.array(["a\0b"]), "without the character 0"),
        (pa.array([2**64 - 1], pa.uint64()), "below 2\\^63"),
    ],
)
def test_ids_that_are_none(column, match):
    with pytest.raises(TableError, match=match):
        ids_of(column)


def test_ids_in_a_time_zone_that_nobody_knows_are_refused(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    times = pa.array([1, 2], pa.timestamp("ns", tz="Europe/Nowhere"))
    pq.write_table(pa.table({"id": times}), tmp_path / "nodes.parquet")
    nodes = Nodes(file=tmp_path / "nodes.parquet")
    with pytest.raises(ProptrainError, match=r"nodes\.parquet"):
        build_graph([tmp_path / "edges.csv"], tmp_path / "graph", nodes=nodes)


@pytest.mark.parametrize("order", ["communities", "degrees"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_renumbered_rows_are_the_same_graph(tmp_path, monkeypatch, order, is_weighted):
    if order == "degrees":
        cramped(monkeypatch)
    pairs = random_edges(60, 300) * 2
    pairs[:, 1] += 2 * ((pairs[:, 0] - pairs[:, 1]) // 2 % 2)  # two communities, in turn
    weights = 1 + np.arange(300) % 3 if is_weighted else None
    paths = written(tmp_path, pairs, weights, ".parquet", 2)
    column = "strength" if is_weighted else None
    how = {"weight": column, "memory": MEMORY, "renumber": True}
    graph = build_graph(paths, tmp_path / "graph", **how)
    assert graph.manifest.renumbered == order
    graph.verify()
    ids, places = np.unique(pairs, return_inverse=True)
    same(graph.to_graph(), graph_from_edges(places.reshape(-1, 2), len(ids), weights))
    assert graph.ids().tolist() == ids.tolist()
    assert (np.diff(graph.order) != 1).any()
    if order == "degrees":
        assert (np.diff(graph.degrees) <= 0).all()


# --- interruptions ----------------------------------------------------------------------------


class Killed(BaseException):
    """What no handler takes for its own."""


def killing_at(monkeypatch, call):
    """Have the process end at this call of what writes; returns what counts the calls."""
    calls = []

    def wrap(module, name):
        before = getattr(module, name)

        def counted(*args, **kwargs):
            calls.append(name)
            if len(calls) == call:
                raise Killed
            return before(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)

    names = ("write_whole", "write_array", "write_parts", "write_block", "_deal", "_note")
    for module in (disk_sort, disk_ids, disk_given, disk_build, disk_writer, disk_notes):
        for name in (*names, "write_rest"):
            if hasattr(module, name):
                wrap(module, name)
    wrap(os, "fsync")
    for name in ("replace", "rename", "unlink"):
        wrap(Path, name)
    return calls


@pytest.mark.parametrize(("renumber", "is_given"), [(False, False), (True, False), (False, True)])
def test_killed_at_any_moment_it_goes_on_to_the_same_graph(
    tmp_path, monkeypatch, renumber, is_given
):
    pairs, weights = random_edges(40, 150), np.random.RandomState(1).rand(150)
    paths = written(tmp_path, pairs, weights, ".csv", 2)
    how = {"weight": "strength", "memory": MEMORY, "renumber": renumber}
    ids, places = np.unique(pairs, return_inverse=True)
    if is_given:
        pd.DataFrame({"id": ids[::-1]}).to_csv(tmp_path / "nodes.csv", index=False)
        how["nodes"], places = Nodes(file=tmp_path / "nodes.csv"), len(ids) - 1 - places
    wanted = graph_from_edges(places.reshape(-1, 2), len(ids), weights)
    moment, n_killed = 1, 0
    while True:
        out = tmp_path / f"graph-{moment}"
        try:
            with monkeypatch.context() as patched:
                cramped_deal(patched)
                killing_at(patched, moment)
                build_graph(paths, out, **how)
            break
        except Killed:
            n_killed += 1
        if not (out / MANIFEST).exists():
            with pytest.raises(ProptrainError, match=r"no graph folder|cannot be read"):
                DiskGraph(out)
        with monkeypatch.context() as patched:  # with more memory, or less
            budget = 10**6 if moment % 2 else 4096
            patched.setattr(disk_build, "budget_of", lambda *_, budget=budget: budget)
            same_as = build_or_open(paths, out, how)
        same(same_as.to_graph(), wanted)
        same_as.verify()
        moment += 1 + moment // 5
    assert n_killed > 10


def cramped_deal(monkeypatch):
    monkeypatch.setattr(disk_sort, "_ROUNDS", 1)
    monkeypatch.setattr(disk_sort, "BLOCK_ENTRIES", 90)
    monkeypatch.setattr(disk_sort.PairSort, "batch", property(lambda self: 32))


def build_or_open(paths, out, how):
    """What a user does: the same again; a graph that is there is left alone."""
    try:
        return build_graph(paths, out, **how)
    except OutputExistsError:
        return DiskGraph(out)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_kill_9_and_the_same_command_again(tmp_path):
    pairs = random_edges(20_000, 100_000)
    paths = written(tmp_path, pairs, None, ".csv", 2)
    command = [sys.executable, "-m", "proptrain.cli", "graph", "build", *map(str, paths)]
    command += ["--out", str(tmp_path / "graph"), "--json", "--blocks", "8"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    begun = tmp_path / "graph" / WORK / "sort" / "pairs-00000.json"
    while process.poll() is None and not begun.exists():
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    with pytest.raises(UnreadableFileError, match="A build was begun here"):
        DiskGraph(tmp_path / "graph")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ids, places = np.unique(pairs, return_inverse=True)
    wanted = graph_from_edges(places.reshape(-1, 2), len(ids))
    same(DiskGraph(tmp_path / "graph").to_graph(), wanted)


SPOILT = {
    "emptied": lambda content: b"",
    "longer": lambda content: content + content[-8:],
    "a bit flipped": lambda content: content[:-3] + bytes([content[-3] ^ 4]) + content[-2:],
    "garbage": lambda content: b"\x93NUMPY garbage",
    "lost": None,
}
STAGES = {
    "ids": (disk_ids, "_merge", {}),
    "dealing": (disk_sort, "_deal", {"weight": "strength"}),
    "sorting weights of 1": (disk_build, "write_rest", {"weight": "one"}),
    "sorting weights of 1 in some blocks": (disk_build, "write_rest", {"weight": "mostly"}),
    "degrees and ids": (disk_build, "write_rest", {"weight": "strength"}),
    "given": (disk_sort, "_deal_out", {"nodes": "nodes.csv"}),
    "order": (disk_build, "_places_in", {"renumber": True}),
    "renumbered": (disk_build, "put_in_place", {"renumber": True}),
}


def killed_in_its_second(module, name, monkeypatch, build):
    """Have a build end at the second call of a function, or at the first if there is but one."""
    before, calls = getattr(module, name), []

    def second(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2 or name in {"_merge", "write_rest", "_deal_out", "_places_in",
                                       "put_in_place"}:  # fmt: skip
            raise Killed
        return before(*args, **kwargs)

    with monkeypatch.context() as patched:
        cramped_deal(patched)
        patched.setattr(module, name, second)
        with pytest.raises(Killed):
            build()


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_disk_has_spoilt_since_the_kill_gets_into_no_graph(tmp_path, monkeypatch, stage):
    module, name, how = STAGES[stage]
    pairs = random_edges(40, 150)
    table = pd.DataFrame(pairs, columns=["source", "target"]).map(lambda node: f"n{node}")
    table["strength"], table["one"] = np.random.RandomState(1).rand(150), 1.0
    table["mostly"] = np.where(np.arange(150) == 7, 2.0, 1.0)
    table.to_csv(tmp_path / "edges.csv", index=False)
    ids = [f"n{node}" for node in np.unique(pairs)[::-1]]
    pd.DataFrame({"id": ids}).to_csv(tmp_path / "nodes.csv", index=False)
    out, kept = tmp_path / "graph", tmp_path / "kept"
    how = {"memory": MEMORY, "n_blocks": 3, **how}
    if "nodes" in how:
        how["nodes"] = Nodes(file=tmp_path / "nodes.csv")

    def build():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            build_graph([tmp_path / "edges.csv"], out, **how)
        return [str(one.message) for one in caught]

    assert build() == []
    wanted = contents(out)
    shutil.rmtree(out)
    killed_in_its_second(module, name, monkeypatch, build)
    out.rename(kept)
    files = [path.relative_to(kept) for path in sorted(kept.rglob("*")) if path.is_file()]
    counted_on = {kept / WORK / "inputs.json", *counted_on_in(kept / WORK)}
    assert len(counted_on) >= 3
    for file in files:
        for way, spoil in SPOILT.items():
            shutil.copytree(kept, out)
            if spoil is None:
                (out / file).unlink()
            elif (out / file).stat().st_size > 3 or way == "garbage":
                (out / file).write_bytes(spoil((out / file).read_bytes()))
            else:
                shutil.rmtree(out)
                continue
            if file.name == "inputs.json" and spoil is not None:
                with pytest.raises(OutputExistsError, match="--overwrite"):
                    build()
            else:
                told = build()
                assert contents(out) == wanted, (file, way)
                if kept / file in counted_on and spoil is not None and way != "longer":
                    assert ["is damaged and not used" in one for one in told] == [True], (file, way)
            shutil.rmtree(out)


def counted_on_in(work):
    """Return the notes and all files that they are of."""
    for path in [*work.glob("*.json"), *work.glob("*/*.json")]:
        yield path
        if path.name not in {MANIFEST, "inputs.json"}:
            for name, *_ in disk_notes._content_of(path)["kept"]:
                yield Path(os.path.normpath(path.parent / name))


def test_a_made_up_graph_is_made_of_whole_edges_alone(tmp_path, monkeypatch):
    out = tmp_path / "graph"

    def make():
        write_power_law_graph(out, 200, 900, 5)
        return contents(out)

    wanted = make()
    shutil.rmtree(out)
    killed_in_its_second(disk_sort, "_deal_out", monkeypatch, make)
    path = out / WORK / "keys-00000.npy"
    path.write_bytes(SPOILT["a bit flipped"](path.read_bytes()))
    with pytest.warns(UserWarning, match=r"keys-00000\.npy was changed after it was written"):
        assert make() == wanted


@pytest.mark.parametrize("name", ["inputs.json", "ids.json", "ids.npy", "sort/bounds.json"])
def test_a_pipe_among_what_was_left_does_not_hang(tmp_path, monkeypatch, name):
    paths, out = written(tmp_path, random_edges(40, 150), None, ".csv", 1), tmp_path / "graph"

    def build():
        return build_graph(paths, out, memory=MEMORY)

    killed_in_its_second(disk_build, "write_rest", monkeypatch, build)
    (out / WORK / name).unlink()
    os.mkfifo(out / WORK / name)
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hung"))
    signal.alarm(HANGS)
    try:
        if name == "inputs.json":
            with pytest.raises(FileFormatError, match="must be an ordinary file"):
                build()
        else:
            with pytest.warns(UserWarning, match="must be an ordinary file"):
                build().verify()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_of_another_build_nothing_is_taken_over(tmp_path, monkeypatch):
    paths = written(tmp_path, random_edges(40, 150), None, ".csv", 2)
    out = tmp_path / "graph"
    with monkeypatch.context() as patched:
        killing_at(patched, 12)
        with pytest.raises(Killed):
            build_graph(paths, out, memory=MEMORY)
    with pytest.raises(OutputExistsError, match="beginning of another build"):
        build_graph(paths[:1], out, memory=MEMORY)
    paths[0].write_text("source,target\n1,2\n")
    with pytest.raises(OutputExistsError, match="beginning of another build"):
        build_graph(paths, out, memory=MEMORY)
    graph = build_graph(paths[:1], out, memory=MEMORY, overwrite=True)
    assert (graph.n_nodes, graph.n_edges) == (2, 1)


def test_two_at_once_do_not_mix(tmp_path, monkeypatch):
    paths = written(tmp_path, random_edges(40, 150), None, ".csv", 1)
    out, refused = tmp_path / "graph", []

    def second(*args, **kwargs):
        with pytest.raises(UnwritableOutputError, match="being written by another process"):
            build_graph(paths, out, memory=MEMORY)
        refused.append(1)
        return before(*args, **kwargs)

    before = disk_build.find_ids
    monkeypatch.setattr(disk_build, "find_ids", second)
    build_graph(paths, out, memory=MEMORY).verify()
    assert refused


def test_an_existing_graph_is_left_alone(tmp_path):
    paths = written(tmp_path, random_edges(40, 150), None, ".csv", 1)
    build_graph(paths, tmp_path / "graph", memory=MEMORY)
    before = {path.name: path.read_bytes() for path in (tmp_path / "graph").iterdir()}
    with pytest.raises(OutputExistsError, match="exists already"):
        build_graph(paths, tmp_path / "graph", memory=MEMORY)
    assert {p.name: p.read_bytes() for p in (tmp_path / "graph").iterdir()} == before


# --- overwriting ------------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path):
    """A graph that is to be overwritten, alone in a folder."""
    (tmp_path / "old.csv").write_text("source,target\na,b\n")
    (tmp_path / "alone").mkdir()
    build_graph([tmp_path / "old.csv"], tmp_path / "alone" / "graph", memory=MEMORY)
    return tmp_path / "alone" / "graph"


@pytest.mark.parametrize("renumber", [False, True])
def test_overwriting_killed_at_any_moment_leaves_the_old_graph_or_the_new_one(
    old, tmp_path, monkeypatch, renumber
):
    pairs, before = random_edges(40, 150), contents(old)
    paths = written(tmp_path, pairs, None, ".csv", 2)
    how = {"memory": MEMORY, "renumber": renumber, "overwrite": True}
    with monkeypatch.context() as patched:
        cramped_deal(patched)
        calls = killing_at(patched, None)
        wanted = build_graph(paths, tmp_path / "wanted", **how).to_graph()
    last, seen = len(calls), set()  # of them the last is for the lock
    for moment in sorted({*range(1, last, last // 25), *range(last - 6, last)}):
        shutil.rmtree(old.parent)
        old.mkdir(parents=True)
        for path, content in before.items():
            path.write_bytes(content)
        with monkeypatch.context() as patched, suppress(Killed):
            cramped_deal(patched)
            killing_at(patched, moment)
            build_graph(paths, old, **how)
        seen.add(told_of(old, before, wanted))
        with pytest.raises(OutputExistsError, match="exists already"):  # and brings it back
            build_graph(paths, old, memory=MEMORY)
        assert told_of(old, before, wanted) in ("old", "new")
        same(build_graph(paths, old, **how).to_graph(), wanted)
        assert [path.name for path in old.parent.iterdir()] == ["graph"]
        assert not (old / WORK).exists()
    assert seen == {"old", "none", "new"}


def told_of(folder, before, wanted):
    """Which graph a folder is; "none" where there is no folder for the moment."""
    if not folder.exists():
        return "none"
    DiskGraph(folder).verify()
    if before.items() <= contents(folder).items():
        return "old"
    same(DiskGraph(folder).to_graph(), wanted)
    return "new"


@pytest.mark.parametrize("is_late", [False, True])
def test_bad_input_leaves_the_graph_that_it_would_overwrite(old, tmp_path, is_late):
    before = contents(old)
    first = "source,target,strength\na,b,1\n"
    (tmp_path / "bad.csv").write_text(first + f"a,c,{-1 if is_late else 'heavy'}\n")
    how = {"weight": "strength", "memory": MEMORY, "overwrite": True}
    with pytest.raises(InvalidInputError, match=r"Weights must be numbers|not negative"):
        build_graph([tmp_path / "bad.csv"], old, **how)
    assert contents(old.parent) == before
    assert not (old / WORK).exists()


def test_an_unfinished_build_is_dropped_for_another_and_the_old_graph_stays(
    old, tmp_path, monkeypatch
):
    paths, before = written(tmp_path, random_edges(40, 150), None, ".csv", 2), contents(old)
    with monkeypatch.context() as patched:
        killing_at(patched, 14)
        with pytest.raises(Killed):
            build_graph(paths, old, memory=MEMORY, overwrite=True)
    assert (old / WORK).is_dir()
    for overwritten in (paths, paths[:1]):
        with pytest.raises(OutputExistsError, match="exists already"):
            build_graph(overwritten, old, memory=MEMORY)
    assert before.items() <= contents(old).items()
    same(
        build_graph(paths[:1], old, memory=MEMORY, overwrite=True).to_graph(),
        build_graph(paths[:1], tmp_path / "wanted", memory=MEMORY).to_graph(),
    )


# --- bad input --------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_the_rest_goes_on_later(tmp_path, monkeypatch):
    pairs = random_edges(40, 150)
    paths = written(tmp_path, pairs, None, ".csv", 1)

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(disk_sort, "_deal", full)
        with pytest.raises(UnwritableOutputError, match="No space left on device"):
            build_graph(paths, tmp_path / "graph", memory=MEMORY)
    assert not (tmp_path / "graph" / MANIFEST).exists()
    assert build_graph(paths, tmp_path / "graph", memory=MEMORY).n_nodes == 40


def test_a_really_full_disk(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)]
    if os.name != "posix" or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be made here: it takes a superuser")
    try:
        paths = written(tmp_path, random_edges(5000, 60_000), None, ".parquet", 1)
        with pytest.raises(UnwritableOutputError, match="No space left on device"):
            build_graph(paths, place / "graph", memory=MEMORY)
        assert not (place / "graph" / MANIFEST).exists()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize(
    ("content", "error", "match"),
    [
        ("", FileFormatError, "is empty"),
        ("source,target\na,b\nc\n", FileFormatError, "as many cells"),
        ("source,target\na,\n", TableError, "some are empty"),
        ("alone\na\n", TableError, "two columns of node ids"),
        ("source,target,strength\na,b,heavy\n", TableError, "'strength' .* holds 'heavy'"),
        ("source,target,strength\na,b,-1\n", GraphError, r"not negative, got -1.0 in edges\.csv"),
        ("source,target,strength\na,b,nan\n", GraphError, "finite"),
        ("source,target,strength\na,b,1e300\n", GraphError, "below 3.4e38"),
        ("a,a,strength\na,b,1\n", TableError, r"edges\.csv has several named 'a'\. Rename"),
        ("from,to,x,x\na,b,1,2\n", TableError, r"edges\.csv has several named 'x'\. Rename"),
    ],
)
def test_an_edge_list_that_cannot_be_used(tmp_path, content, error, match):
    path = tmp_path / "edges.csv"
    path.write_text(content)
    weight = "strength" if "strength" in content else None
    with pytest.raises(error, match=match):
        build_graph([path], tmp_path / "graph", weight=weight, memory=MEMORY)
    assert not (tmp_path / "graph" / MANIFEST).exists()


@pytest.mark.parametrize("name", ["edges.csv", "edges.tsv"])
def test_a_file_without_column_names_is_noticed(tmp_path, name):
    path = tmp_path / name
    cells = np.array([[0, 1], [0, 2], [5, 6]]).astype(str)
    path.write_text("".join(("\t" if "tsv" in name else ",").join(row) + "\n" for row in cells))
    with pytest.warns(UserWarning, match=rf"first line of {name} .* 0 and 1\. If it is an edge"):
        build_graph([path], tmp_path / "graph", memory=MEMORY)
    frame = pd.DataFrame({"id": [0, 1, 2, 5, 6]})
    if name == "edges.csv":
        with pytest.warns(UserWarning, match="first line of edges"):
            read_edges(path, frame["id"].to_numpy())
    read_edges(pd.DataFrame(cells[:1]), frame["id"].to_numpy())  # which has names of its own


def test_a_file_of_texts_whose_column_names_are_ids_is_noticed(tmp_path):
    path, ids = tmp_path / "edges.csv", np.array(["ada", "bob", "cy"])
    path.write_text("ada,bob\nbob,cy\ncy,ada\n")
    match = r"first line of edges\.csv .* ada and bob\. If it is an edge"
    with pytest.warns(UserWarning, match=match):
        build_graph([path], tmp_path / "graph", memory=MEMORY)
    with pytest.warns(UserWarning, match=match):
        read_edges(path, ids)
    path.write_text("ada,from someone far away\nbob,cy\ncy,ada\n")  # one of them is no id
    build_graph([path], tmp_path / "other", memory=MEMORY)
    read_edges(path, ids)


def test_a_node_table_of_an_unknown_kind_is_called_that(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    (tmp_path / "nodes.xlsx").write_bytes(b"PK")
    nodes = Nodes(file=tmp_path / "nodes.xlsx")
    with pytest.raises(FileFormatError, match=r"A table must be one of \.csv, .*got nodes\.xlsx"):
        build_graph([tmp_path / "edges.csv"], tmp_path / "graph", nodes=nodes, memory=MEMORY)


def test_lists_in_a_parquet_file_are_no_ids(tmp_path):
    path = tmp_path / "edges.parquet"
    pd.DataFrame({"source": [[1]], "target": [[2]]}).to_parquet(path)
    with pytest.raises(TableError, match=r"column 'source' of edges\.parquet holds list<"):
        build_graph([path], tmp_path / "graph", memory=MEMORY)


def test_columns_of_the_same_name_are_refused_in_parquet_and_in_tables_of_nodes(tmp_path):
    columns = [pa.array([0, 1]), pa.array([1, 2]), pa.array([0, 0])]
    pq.write_table(pa.table(columns, names=["source", "target", "source"]), tmp_path / "e.parquet")
    with pytest.raises(TableError, match=r"e\.parquet has several named 'source'"):
        build_graph([tmp_path / "e.parquet"], tmp_path / "graph", memory=MEMORY)
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    (tmp_path / "nodes.csv").write_text("id,id\n0,1\n1,0\n")
    with pytest.raises(TableError, match=r"nodes\.csv has several named 'id'"):
        build_graph(
            [tmp_path / "edges.csv"],
            tmp_path / "graph",
            nodes=Nodes(file=tmp_path / "nodes.csv"),
            memory=MEMORY,
        )


def test_files_that_are_none(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no more")
    (tmp_path / "broken.csv.gz").write_bytes(b"\x1f\x8b no more")
    (tmp_path / "latin.csv").write_bytes("von,zu,stärke\na,b,1\n".encode("latin-1"))
    (tmp_path / "latin2.csv").write_bytes("from,to\nMüller,b\n".encode("latin-1"))
    (tmp_path / "edges.txt").write_text("a b\n")
    for name, error, match in (
        ("broken.parquet", FileFormatError, "cannot be read as .parquet"),
        ("broken.csv.gz", FileFormatError, "broken.csv.gz"),
        ("latin.csv", FileFormatError, "must be text in UTF-8"),
        ("latin2.csv", FileFormatError, "invalid UTF8.* Save it again as UTF-8"),
        ("edges.txt", FileFormatError, "must be one of .csv"),
        ("nowhere.csv", UnreadableFileError, "does not exist"),
        ("pipe.csv", UnreadableFileError, "An edge list must be .* is no ordinary file"),
    ):
        with pytest.raises(error, match=match):
            build_graph([tmp_path / name], tmp_path / "graph", memory=MEMORY)
    with pytest.raises(InvalidInputError, match="at least one edge list"):
        build_graph([], tmp_path / "graph", memory=MEMORY)
    assert not (tmp_path / "graph").exists()


@pytest.mark.parametrize("memory", ["1MB", "50MB"])
def test_too_little_memory_is_said_before_anything_is_written(tmp_path, memory):
    paths = written(tmp_path, random_edges(40, 150), None, ".csv", 1)
    with pytest.raises(InvalidInputError, match=f"give at least .*got {memory}"):
        build_graph(paths, tmp_path / "graph", memory=memory)
    assert not (tmp_path / "graph").exists()


@pytest.mark.parametrize("memory", ["", "2 apples", "-1GB", "0", "GB", "1e9"])
def test_memory_that_is_none(tmp_path, memory):
    paths = written(tmp_path, random_edges(40, 150), None, ".csv", 1)
    with pytest.raises(InvalidInputError, match="such as 500MB or 2GB"):
        build_graph(paths, tmp_path / "graph", memory=memory)


def test_progress_adds_up(tmp_path):
    for ending, renumber in ((".csv", False), (".parquet", True)):
        shares = []
        paths = written(tmp_path, random_edges(), None, ending, 2)
        how = {"memory": MEMORY, "on_part": shares.append, "renumber": renumber}
        build_graph(paths, tmp_path / f"graph{ending}", **how)
        assert min(shares) >= 0
        assert sum(shares) == pytest.approx(1, abs=0.05)


# --- made up ----------------------------------------------------------------------------------


def test_a_made_up_graph_has_the_sizes_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic_disk, "_BATCH", 900)  # several files of keys
    how = {"noise": 0.3, "memory": "30GB"}
    labels = write_power_law_graph(tmp_path / "one", 2000, 9000, 5, **how)
    graph = DiskGraph(tmp_path / "one").to_graph()
    assert (graph.n_nodes, graph.n_edges) == (2000, 9000)
    assert graph.counts.duplicates == graph.counts.self_loops == 0
    assert noise_rate(graph, labels) == pytest.approx(0.8 * 0.3, abs=0.03)
    again = write_power_law_graph(tmp_path / "two", 2000, 9000, 5, **how)
    np.testing.assert_array_equal(again, labels)
    same(DiskGraph(tmp_path / "two").to_graph(), graph)


def test_a_made_up_graph_does_not_depend_on_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic_disk, "_BATCH", 900)

    def make(name, budget):
        monkeypatch.setattr(synthetic_disk, "budget_of", lambda memory, kept: budget)
        write_power_law_graph(tmp_path / name, 2000, 9000, 5)
        return DiskGraph(tmp_path / name).to_graph()

    wanted = make("much", 10**9)
    same(make("little", 10**5), wanted)
    with monkeypatch.context() as patched:
        killing_at(patched, 70)  # when edges have been drawn
        with pytest.raises(Killed):
            make("changed", 10**5)
    assert (tmp_path / "changed" / WORK / "drawn.json").exists()
    same(make("changed", 10**9), wanted)


def test_a_made_up_graph_with_too_many_nodes_for_the_memory_is_refused_at_once(
    tmp_path, monkeypatch
):
    # As if the process had a little, whatever it has taken for other tests. Nodes take 9.6 GB, the
    # build 0.1: 9.9 GB in all, with something to spare.
    monkeypatch.setattr(memory_module, "resident_memory", lambda: 200_000_000)
    with pytest.raises(InvalidInputError, match=r"take 9\.8 GB, so give at least 11 GB; got 9GB"):
        write_power_law_graph(tmp_path / "large", 400_000_000, 10, 4, memory="9GB")
    assert list(tmp_path.iterdir()) == []


def test_a_made_up_problem_can_be_learned(tmp_path):
    write_synthetic(tmp_path / "all", 500, 3000, 4, n_features=30, labelled=0.2, memory=MEMORY)
    names = {path.name for path in (tmp_path / "all").iterdir()}
    assert names == {"graph", "features.npy", "labels.npy", "truth.npy", "made_with.json"}
    features, labels, truth = (
        np.load(tmp_path / "all" / f"{name}.npy") for name in ("features", "labels", "truth")
    )
    assert (labels[labels >= 0] == truth[labels >= 0]).all()
    assert np.mean(labels >= 0) == pytest.approx(0.2, abs=0.06)
    means = np.array([features[truth == c].mean(axis=0) for c in range(4)])
    nearest = ((features[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == truth).mean() > 0.6


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("interrupted", ["write_rest", "write_features", "write_array", "building"])
def test_a_made_up_problem_is_finished_by_the_same_call(tmp_path, monkeypatch, interrupted):
    def make(name, **how):
        sizes = {"n_features": 3, "memory": MEMORY, **how}
        write_synthetic(tmp_path / name, 100, 200, 4, **sizes)
        return {path.name: content for path, content in contents(tmp_path / name).items()}

    def kill(*args, **kwargs):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(synthetic_disk, interrupted, kill)
        with pytest.raises(Killed):
            make("one")
    shares = []
    assert make("one", on_part=shares.append) == make("whole")
    assert sum(shares) == pytest.approx(1, abs=0.1)
    made = make("one")  # finished: all is there and stays
    for other in ({"n_features": 4}, {"seed": 1}, {"noise": 0.3}, {"labelled": 0.5}):
        ((name, value),) = other.items()
        told = rf"made with other numbers .*: {name.removeprefix('n_')} [\d.]+ instead of {value}\."
        with pytest.raises(OutputExistsError, match=told):
            make("one", **other)
    assert {path.name: content for path, content in contents(tmp_path / "one").items()} == made


def test_a_made_up_problem_overwrites_nothing_of_others(tmp_path):
    np.save(tmp_path / "features.npy", np.ones(3))
    before = contents(tmp_path)
    with pytest.raises(OutputExistsError, match=r"holds features\.npy already"):
        write_synthetic(tmp_path, 100, 200, 4, memory=MEMORY)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("nodes", [3000, "nodes.csv"])
def test_nodes_of_another_type_are_told(tmp_path, nodes):
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    with pytest.raises(WrongTypeError, match=r"such as Nodes\(n_nodes=1000\).*got"):
        build_graph([tmp_path / "edges.csv"], tmp_path / "graph", nodes=nodes, memory=MEMORY)


def test_a_matrix_is_no_graph_to_save(tmp_path):
    with pytest.raises(WrongTypeError, match=r"got csr_array\. Make one first: Graph\(matrix\)"):
        save_graph(sp.csr_array((2, 2)), tmp_path / "graph")
