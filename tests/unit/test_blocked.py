"""The engine from disk beyond the contract: memory, files, and the largest numbers alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from proptrain.data.disk_writer import save_graph
from proptrain.data.graph import Graph
from proptrain.data.mapped import (
    SMALL,
    forget,
    largest_of_rows,
    parts_of,
    put_rows,
    room_for,
    row_sums,
    take_rows,
)
from proptrain.data.order import locality_order
from proptrain.data.synthetic import power_law_graph
from proptrain.errors import InvalidInputError, UnwritableOutputError
from proptrain.kernels.propagation import propagate_plain
from proptrain.propagate import blocked
from proptrain.propagate import engine as engine_module
from proptrain.propagate.blocked import BlockedEngine
from proptrain.propagate.normalisation import plain_operator
from proptrain.propagate.schemes import PPR, Heat
from proptrain.system.memory import in_words, parse_memory
from strategies import adjacencies_with_signals

MEMORY = "64GB"


@pytest.fixture(autouse=True)
def _as_if_large(monkeypatch):
    """Small graphs have numbers of entries: see contract/test_engine.py."""
    monkeypatch.setattr(engine_module, "MANY_ENTRIES", 0)


@pytest.fixture
def stored(tmp_path):
    graph, _ = power_law_graph(3000, 20_000, 5)
    save_graph(graph, tmp_path / "graph", n_blocks=4)
    return graph, tmp_path / "graph"


@pytest.mark.parametrize("is_renumbered", [False, True])
def test_to_the_bit_what_the_local_engine_does_with_a_large_graph(tmp_path, is_renumbered):
    graph, _ = power_law_graph(3000, 20_000, 5)
    order = locality_order(graph) if is_renumbered else None
    save_graph(graph, tmp_path / "graph", n_blocks=3, order=order)
    signal = np.random.default_rng(0).random((3000, 15), dtype=np.float32)
    fixed = np.arange(0, 3000, 7)
    got = BlockedEngine(tmp_path / "graph", memory=MEMORY).propagate(signal, PPR(), fixed=fixed)
    wanted = propagate_plain(plain_operator(graph), signal, PPR().mixing, fixed)
    if is_renumbered:  # the same sums in another order
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-7)
    else:
        np.testing.assert_array_equal(got, wanted)


def test_columns_go_in_rounds_of_what_fits(stored, monkeypatch):
    _, folder = stored
    engine = BlockedEngine(folder, memory=MEMORY)
    a_column, compiled = 3 * 4 * 3000, []
    monkeypatch.setattr(engine, "_compile", lambda width, _: compiled.append(width))
    for n_fitting, n_columns, width in (
        (100, 47, 48),
        (47, 47, 32),  # 48 do not fit, 32 do: two rounds
        (47, 64, 32),
        (16, 47, 16),
        (15, 47, 8),
        (15, 3, 4),
        (4, 100, 4),
    ):
        monkeypatch.setattr(blocked, "left_of", lambda _, n=n_fitting: 200_000_000 + n * a_column)
        assert engine._width(n_columns, np.dtype(np.float32)) == width
        assert compiled.pop() == width
    monkeypatch.setattr(blocked, "left_of", lambda _: 200_000_000 + 3 * a_column)
    with pytest.raises(InvalidInputError, match=r"memory must hold.*Give at least"):
        engine.propagate(np.ones((3000, 2), np.float32), PPR())


def test_what_compiling_takes_is_not_there_for_states(stored, monkeypatch):
    engine = BlockedEngine(stored[1], memory=MEMORY)
    taken = []
    monkeypatch.setattr(engine, "_compile", lambda width, _: taken.append(width))
    room = 200_000_000 + 40 * 3 * 4 * 3000
    monkeypatch.setattr(blocked, "left_of", lambda _: room - 10 * 3 * 4 * 3000 * len(taken))
    assert engine._width(47, np.dtype(np.float32)) == 16
    assert taken == [32, 16]


def test_memory_that_is_freed_while_it_is_measured_changes_nothing(stored, monkeypatch):
    engine = BlockedEngine(stored[1], memory=MEMORY)
    rooms = iter([200_000_000, 10**12])  # too little, and then much
    monkeypatch.setattr(blocked, "left_of", lambda _: next(rooms))
    with pytest.raises(InvalidInputError, match=r"memory must hold.*Give at least"):
        engine._width(47, np.dtype(np.float32))


def test_the_same_bits_however_many_columns_fit(stored, monkeypatch):
    _, folder = stored
    engine = BlockedEngine(folder, memory=MEMORY)
    signal = np.random.default_rng(0).random((3000, 15), dtype=np.float32)
    whole = engine.propagate(signal, PPR())
    monkeypatch.setattr(engine, "_widths", (4,))
    np.testing.assert_array_equal(engine.propagate(signal, PPR()), whole)


def test_signals_and_results_may_lie_in_files(stored, tmp_path, monkeypatch):
    _, folder = stored
    signal = np.random.default_rng(0).random((3000, 15), dtype=np.float32)
    np.save(tmp_path / "signal.npy", signal)
    mapped = np.load(tmp_path / "signal.npy", mmap_mode="r")
    engine = BlockedEngine(folder, memory=MEMORY, scratch=tmp_path)
    wanted = engine.propagate(signal, PPR())
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("proptrain.data.mapped.SMALL", 4096)
    got = engine.propagate(mapped, PPR())
    assert isinstance(got, np.memmap)
    assert sorted(tmp_path.iterdir()) == before  # its file has no name
    np.testing.assert_array_equal(got, wanted)
    got[0] = 7  # and can be written to
    np.testing.assert_array_equal(np.load(tmp_path / "signal.npy"), signal)


def test_a_damaged_block_is_no_result(stored):
    _, folder = stored
    path = folder / "indices-00002.npy"
    path.write_bytes(path.read_bytes()[:-4] + b"\xff\xff\xff\x7f")
    with pytest.raises(ValueError, match=r"indices-00002.npy was changed after it was written"):
        BlockedEngine(folder, memory=MEMORY).propagate(np.ones((3000, 1)), PPR())


# --- the largest numbers alone ----------------------------------------------------------------


@pytest.mark.parametrize("kind", reference.KINDS)
@pytest.mark.parametrize("is_held", [False, True])
def test_the_error_of_keeping_some_is_within_its_bound(tmp_path_factory, kind, is_held):
    @settings(max_examples=12, deadline=None, derandomize=True)
    @given(adjacencies_with_signals(), st.integers(1, 4))
    def check(drawn, top):
        adjacency, narrow = drawn
        signal = np.hstack([narrow, narrow[::-1] * 0.5, narrow.T[:1].T - 1])
        folder = tmp_path_factory.mktemp("top") / "graph"
        save_graph(Graph(sp.csr_array(adjacency)), folder, n_blocks=2)
        engine = BlockedEngine(folder, kind, memory=MEMORY, top=top)
        fixed = np.array([0]) if is_held else None
        beta = reference.ppr_coefficients(0.1, 10)
        step = reference.operator(adjacency, kind)
        wanted = reference.combine(step, beta) @ signal
        if is_held:
            wanted = reference.clamped(step, signal, beta, fixed)
        error = engine.propagate(signal, PPR(0.1, 10), fixed=fixed) - wanted
        norm = np.abs(error).max() if kind == "row" else np.linalg.norm(error)
        assert norm <= engine.error_bound + 1e-10
        if top >= signal.shape[1]:
            assert engine.error_bound == 0

    check()


def test_what_few_labels_reach_is_kept_whole(stored):
    _, folder = stored
    labels = np.zeros((3000, 40), dtype=np.float32)
    labels[np.arange(0, 3000, 300), np.arange(10)] = 1
    exact = BlockedEngine(folder, memory=MEMORY).propagate(labels, PPR(steps=2))
    engine = BlockedEngine(folder, memory=MEMORY, top=10)
    got = engine.propagate(labels, PPR(steps=2))
    np.testing.assert_allclose(got, exact, atol=1e-6)
    assert engine.error_bound == 0
    fewer = BlockedEngine(folder, memory=MEMORY, top=2)
    error = np.linalg.norm(fewer.propagate(labels, Heat(3.0, 6)) - BlockedEngine(
        folder, memory=MEMORY).propagate(labels, Heat(3.0, 6)))  # fmt: skip
    assert 0 < error <= fewer.error_bound < 0.5 * np.linalg.norm(labels)


@pytest.mark.parametrize("top", [0, -1, 1.5, "all"])
def test_top_is_a_count(stored, top):
    with pytest.raises(InvalidInputError, match="top must be None or a whole number from 1 on"):
        BlockedEngine(stored[1], top=top)


# --- memory -----------------------------------------------------------------------------------

WITHIN = """
import sys
from pathlib import Path
import numpy as np
from proptrain.data.disk import DiskGraph
from proptrain.system.memory import peak_memory, resident_memory
from proptrain.propagate.blocked import BlockedEngine
from proptrain.propagate.labels import propagate_labels
from proptrain.propagate.schemes import PPR

def spread(folder, limit, n_classes):
    graph = DiskGraph(folder)
    engine = BlockedEngine(graph, memory=limit, scratch=sys.argv[3])
    known, codes = np.arange(0, graph.n_nodes, 10), np.arange(graph.n_nodes) % n_classes
    return propagate_labels(codes, known, n_classes, engine, PPR(steps=1), room=engine.room)

spread(sys.argv[2], "64GB", 4)  # compiles, which has a peak of its own
Path("/proc/self/clear_refs").write_text("5")
limit = resident_memory() + 300_000_000
told = spread(sys.argv[1], limit, 16)
print(limit - peak_memory(), told.nbytes, float(told[:1000].sum()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has")
def test_a_process_stays_below_the_limit_that_it_was_given(tmp_path):
    n = 1_000_000
    ring = sp.diags_array([1.0] * 2, offsets=[1, -1], shape=(n, n)).tocsr()
    save_graph(Graph(ring), tmp_path / "graph")
    save_graph(Graph(ring[:500, :500]), tmp_path / "small")
    places = [str(tmp_path / name) for name in ("graph", "small", "")]
    done = subprocess.run(
        [sys.executable, "-c", WITHIN, *places], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    left, size, mass = map(float, done.stdout.split())
    assert size == 64e6  # signal, result and three states of all columns would be 320 MB
    assert mass > 0
    assert left >= 0


ADVISED = """
import re, sys
from pathlib import Path
import numpy as np
from proptrain.errors import InvalidInputError
from proptrain.system.memory import give_back, parse_memory, peak_memory
from proptrain.propagate import blocked
from proptrain.propagate.schemes import PPR

def spread(folder, limit, n_columns, top):
    graph, place = blocked.DiskGraph(folder), Path(sys.argv[3])
    np.lib.format.open_memmap(place / "s.npy", "w+", np.float32, (graph.n_nodes, n_columns))
    signal = np.load(place / "s.npy", mmap_mode="r")
    engine = blocked.BlockedEngine(graph, memory=limit, top=top, scratch=place)
    engine.propagate(signal, PPR(steps=2), fixed=np.arange(3))

n_columns, top = int(sys.argv[4]), int(sys.argv[5]) or None
blocked._BESIDE = 70_000_000  # with so few entries, parts are small
blocked.enough_in_words = lambda n_bytes: f"{n_bytes / 1e6 + 15:.0f} MB"  # hardly any to spare
spread(sys.argv[2], "64GB", n_columns, top)
try:
    spread(sys.argv[1], 1, n_columns, top)
except InvalidInputError as error:
    limit = parse_memory(re.search(r"Give at least ([\\d.]+ [MG]B)", str(error))[1])
give_back()
Path("/proc/self/clear_refs").write_text("5")
spread(sys.argv[1], limit, n_columns, top)
print(limit, peak_memory())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has")
@pytest.mark.parametrize(
    ("n", "n_columns", "is_renumbered", "top"),
    [(8_000_000, 4, False, 0), (1_500_000, 32, True, 0), (1_500_000, 32, True, 1)],
)
def test_the_least_memory_that_is_asked_for_is_enough_for_many_nodes(
    tmp_path, n, n_columns, is_renumbered, top
):
    for name, size in (("graph", n), ("small", 500)):
        pair = sp.coo_array(([1.0], ([0], [1])), shape=(size, size))
        order = np.random.RandomState(0).permutation(size) if is_renumbered else None
        save_graph(Graph(sp.csr_array(pair)), tmp_path / name, order=order)
    words = [str(tmp_path / name) for name in ("graph", "small", "")]
    words += [str(n_columns), str(top)]
    done = subprocess.run(
        [sys.executable, "-c", ADVISED, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    limit, peak = map(int, done.stdout.split())
    assert peak <= limit < 1e9


def test_room_is_in_memory_or_in_a_file_without_a_name(tmp_path):
    small, large = (room_for((rows, 4), np.float32, tmp_path) for rows in (3, SMALL // 8))
    assert not isinstance(small, np.memmap)
    assert isinstance(large, np.memmap)
    assert list(tmp_path.iterdir()) == []
    for room in (small, large):
        assert room.sum() == 0
        room[1] = 5
        forget(room)
        assert room[1].tolist() == [5, 5, 5, 5]
    with pytest.raises(UnwritableOutputError, match="cannot be written"):
        room_for((SMALL, 1), np.float32, tmp_path / "nowhere")


def test_more_room_than_the_disk_has_is_refused_at_once(tmp_path):
    with pytest.raises(UnwritableOutputError, match=r"cannot be written: (No space|File too)"):
        room_for((2**45, 2), np.float32, tmp_path)


def test_what_was_written_to_a_private_copy_is_not_forgotten(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(5000))
    private = np.load(tmp_path / "a.npy", mmap_mode="c")
    private[:] = 3
    forget(private, private[5:], np.asarray(private))
    assert private.sum() == 15_000


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 50), st.integers(0, 40), st.integers(1, 200))
def test_parts_cover_all_rows_once(n_rows, row_bytes, part):
    rows = [
        row for rows in parts_of(n_rows, row_bytes, part) for row in range(rows.start, rows.stop)
    ]
    assert rows == list(range(n_rows))


def test_rows_are_taken_from_a_file_part_by_part(tmp_path, monkeypatch):
    matrix = np.random.default_rng(0).random((100, 7), dtype=np.float32)
    np.save(tmp_path / "a.npy", matrix)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    rows = np.array([0, 1, 40, 41, 41, 99])
    monkeypatch.setattr("proptrain.data.mapped.SMALL", 10 * 28)
    let_go = []
    monkeypatch.setattr("proptrain.data.mapped.forget", lambda *arrays: let_go.append(arrays))
    for source in (mapped, mapped[:], np.asarray(mapped)):
        let_go.clear()
        np.testing.assert_array_equal(take_rows(source, rows), matrix[rows])
        assert len(let_go) == 3  # rows of three parts of ten
    let_go.clear()
    np.testing.assert_array_equal(take_rows(matrix, rows), matrix[rows])
    assert take_rows(mapped, rows[:0]).shape == (0, 7)
    assert let_go == []
    anyhow = np.array([41, 99, 0, 40, 41, 1])
    np.testing.assert_array_equal(take_rows(mapped, anyhow), matrix[anyhow])
    assert len(let_go) == 3
    let_go.clear()
    np.testing.assert_array_equal(largest_of_rows(mapped, anyhow), matrix[anyhow].argmax(axis=1))
    assert len(let_go) == 3  # never all that is told of many nodes at once
    assert largest_of_rows(mapped, rows[:0]).shape == (0,)


def test_rows_are_put_into_a_file_part_by_part(monkeypatch):
    wanted, rows = np.zeros((100, 7), np.float32), np.array([41, 99, 0, 40, 1])
    values = np.random.default_rng(0).random((5, 7), dtype=np.float32)
    room = room_for(wanted.shape, np.float32, small=0)
    monkeypatch.setattr("proptrain.data.mapped.SMALL", 10 * 28)
    let_go = []
    monkeypatch.setattr("proptrain.data.mapped.forget", lambda *arrays: let_go.append(arrays))
    put_rows(room, rows, values)
    wanted[rows] = values
    np.testing.assert_array_equal(room, wanted)
    assert len(let_go) == 3  # rows of three parts of ten


def test_row_sums_are_those_of_the_whole(monkeypatch):
    matrix = np.random.default_rng(0).random((100, 7), dtype=np.float32)
    monkeypatch.setattr("proptrain.data.mapped.SMALL", 60)
    # Another order of adding rounds otherwise, and which one NumPy takes depends on the CPU.
    np.testing.assert_allclose(row_sums(matrix), matrix.sum(axis=1, dtype=np.float64), rtol=1e-6)


def test_sizes_in_words_are_sizes():
    for text, wanted in (("2GB", 2 * 10**9), ("1 KiB", 1024), ("3.5mb", 3_500_000), (7, 7)):
        assert parse_memory(text) == wanted
    assert parse_memory(in_words(3_210_000_000)) == 3_210_000_000
    for text in ("0", "9" * 400 + "GB", "2 tons"):
        with pytest.raises(InvalidInputError, match="Memory must be a number of bytes"):
            parse_memory(text)
