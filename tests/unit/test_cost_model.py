"""The model of cost: its counts are those of the engines, its prices are found, and it has laws."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.cost_model import __main__ as command
from benchmarks.cost_model.fit import checks, fit, size_of
from benchmarks.cost_model.model import (
    Machines,
    Plan,
    Prices,
    Size,
    batch_row,
    best_plan,
    blocked_memory,
    blocked_time,
    blocked_width,
    exchanged_bytes,
    fetched,
    graph_bytes,
    least_memory,
    multiplied,
    multiplying,
    needed_rows,
    network_bytes,
    network_work,
    ray_memory,
    ray_time,
    ray_width,
    spilled_bytes,
    storage_bytes,
    stored_bytes,
    train_memory,
    train_time,
)
from benchmarks.ray_cost.one import BATCH
from benchmarks.ray_cost.table import gather

from commands import runner
from one_process import OneProcess
from proptrain import PTAClassifier
from proptrain.data.disk_writer import save_graph
from proptrain.data.graph import Graph
from proptrain.data.shared_graph import SharedGraph
from proptrain.data.synthetic_disk import write_synthetic
from proptrain.errors import ClusterError
from proptrain.large.fit_cluster import fit_on_cluster, work_folder
from proptrain.large.from_disk import fitting_batch_size
from proptrain.propagate.cluster import ClusterEngine
from proptrain.propagate.exchange import share_of
from proptrain.saving.disk_model import save_disk_model

PRICES = Prices(
    multiply=3e-10,
    fetch=2e-10,
    hand_on=2e-9,
    task=0.004,
    piece=2e-4,
    train=1e-10,
    blocked_base=4e8,
    ray_base=5e8,
    train_base=5e8,
)
LARGE = Size(111_000_000, 3_200_000_000, 172, 128)
MANY = [1, 2, 8, 32, 128]


# --- counts are those of the engines --------------------------------------------------------------


def test_sizes_are_those_of_a_graph_whose_edges_lead_anywhere(tmp_path):
    random = np.random.RandomState(0)
    pairs = random.randint(0, 4000, (2, 6000))
    matrix = sp.coo_array((np.ones(6000), tuple(pairs)), shape=(4000, 4000)).tocsr()
    matrix = ((matrix + matrix.T) > 0).astype(float)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    save_graph(Graph(sp.csr_array(matrix)), tmp_path / "g", n_blocks=4)
    graph = SharedGraph(tmp_path / "g")
    needed = [share_of(graph.block(b), graph.bounds, "symmetric")[0].n_needed for b in range(4)]
    size = Size(4000, graph.manifest.n_entries, 8)
    assert exchanged_bytes(size, 4, 8) == pytest.approx(sum(needed) * 8 * 4, rel=0.03)
    stored = sum(one.n_bytes for one in graph.manifest.arrays)
    assert graph_bytes(size, 4) == pytest.approx(stored, rel=0.001)


def test_what_must_lie_on_disk_is_what_a_fit_writes(tmp_path):
    how = {"n_features": 30, "labelled": 0.3, "memory": "4GB"}
    made = write_synthetic(tmp_path, 5000, 20_000, 40, **how)
    classifier = PTAClassifier(random_state=0, fast=True, max_epochs=1, device="cpu")
    y = np.load(tmp_path / "labels.npy")
    with work_folder(tmp_path) as work:
        given = (tmp_path / "graph", tmp_path / "features.npy", y, OneProcess(), work)
        fitted = fit_on_cluster(classifier, *given)
        save_disk_model(tmp_path / "model", classifier, fitted, SharedGraph(tmp_path / "graph"))
        there = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    size = Size(5000, made.manifest.n_entries, 40, 30)
    assert storage_bytes(size) == pytest.approx(there, rel=0.1)  # but for labels and flags


def test_a_batch_is_the_one_that_a_fit_from_disk_takes():
    size = Size(10**9, 0, 47, 100, 64)
    fitting = fitting_batch_size(size.nodes, size.features, size.hidden, size.columns, 2 * 10**9)
    assert 2 * fitting * batch_row(size) > 0.25 * 2 * 10**9 >= fitting * batch_row(size)


# --- laws -----------------------------------------------------------------------------------------


def test_more_machines_are_never_slower_in_computing_and_have_less_each():
    machines = [Machines(count) for count in MANY]
    for each in (1, 4, 16, 32):
        times = [ray_time(LARGE, m, Plan(each * m.count, 16, 16), PRICES) for m in machines]
        computing = [time.computing for time in times]
        assert computing == sorted(computing, reverse=True)
        memory = [ray_memory(LARGE, m, Plan(each * m.count, 16, 16), PRICES) for m in machines]
        assert memory == sorted(memory, reverse=True)
    trained = [train_time(LARGE, m, 10**6, 5, PRICES) for m in machines]
    for part in ("computing", "disk"):
        told = [getattr(time, part) for time in trained]
        assert told == sorted(told, reverse=True)
    memory = [train_memory(LARGE, m, 10**6, PRICES) for m in machines]
    assert memory == sorted(memory, reverse=True)


def test_one_machine_has_no_network():
    assert network_bytes(LARGE, 1, 16, 8) == 0
    assert train_time(LARGE, Machines(1), 10**6, 5, PRICES).network == 0
    assert network_bytes(LARGE, 8, 128, 8) > 0


def test_a_cluster_copies_the_table_that_it_trains_on():
    size = Size(10**6, 0, 10, 30, 0)
    table = 4 * 10**6 * (30 + 2 * 10)
    times = [train_time(size, Machines(count), 10**6, 5, PRICES) for count in (1, 4)]
    alone, together = (time.disk * Machines().disk for time in times)
    assert alone == pytest.approx(table)
    assert together == pytest.approx(2 * table / 4)  # each writes and reads its own rows
    assert times[1].network * Machines().network == pytest.approx(table / 4, rel=0.001)


def test_a_machine_of_a_cluster_trains_in_as_many_threads_as_ray_was_told_of():
    with_one, with_two, with_all = (
        train_time(LARGE, Machines(8), 10**6, 5, PRICES, cpus).computing for cpus in (1, 2, 16)
    )
    assert with_one == pytest.approx(2 * with_two)
    alone = train_time(LARGE, Machines(1), 10**6, 5, PRICES).computing
    assert with_all == pytest.approx(alone / 8)


def test_pieces_have_a_price_that_grows_with_the_square_of_blocks():
    free = replace(PRICES, task=0.0)
    few, many = (
        ray_time(LARGE, Machines(8), Plan(blocks, 16, 16), free).telling for blocks in (64, 128)
    )
    assert many == pytest.approx(4 * few)


def test_nothing_takes_no_time():
    nothing = Size(0, 0, 16, 0, 0)
    free = Prices(3e-10, 2e-10, 2e-9, 0.0, 0.0, 1e-10)
    assert (
        ray_time(nothing, Machines(4), Plan(8, 16, 16), free).total < 1e-5
    )  # the folder's headers
    assert blocked_time(nothing, Machines(1), 16, free).total < 1e-5
    assert train_time(nothing, Machines(4), 100, 3, free).computing == 0
    assert exchanged_bytes(nothing, 4, 16) == 0
    assert blocked_memory(nothing, 16, free) == 0
    assert train_memory(nothing, Machines(4), 100, free) == 0


def test_what_the_caches_hold_is_not_fetched():
    small, large = Size(1000, 50_000, 16), Size(10**6, 50_000, 16)
    machine = Machines(1, cache=1000 * 16 * 4)
    assert fetched(small, machine, 16, small.nodes) == 0
    assert fetched(large, machine, 16, large.nodes) == pytest.approx(0.999 * multiplied(large, 16))
    dear = replace(PRICES, fetch=1.0)
    assert multiplying(small, machine, 16, 1000, dear) == PRICES.multiply * multiplied(small, 16)
    assert multiplying(large, machine, 16, 10**6, dear) > 1e6


def test_time_grows_with_every_size():
    for machines in (Machines(1), Machines(8)):
        for larger in (
            replace(LARGE, nodes=2 * LARGE.nodes),
            replace(LARGE, entries=2 * LARGE.entries),
            replace(LARGE, columns=2 * LARGE.columns),
        ):
            for time in (
                lambda size, m=machines: blocked_time(size, m, 8, PRICES).total,
                lambda size, m=machines: ray_time(size, m, Plan(64, 16, 8), PRICES).total,
                lambda size, m=machines: (
                    train_time(size, m, 10**6, 5, PRICES).total + size.entries / 1e12
                ),
            ):
                assert time(larger) > time(LARGE)
            assert storage_bytes(larger) > storage_bytes(LARGE)


def test_a_graph_that_stays_in_memory_is_read_once():
    small, machine = Size(10**6, 10**7, 8), Machines(1)
    once = blocked_time(small, machine, 8, PRICES).disk
    room = blocked_memory(small, 8, PRICES) + 1000
    assert blocked_time(small, replace(machine, memory=room), 8, PRICES).disk > 4 * once


def test_the_engine_from_disk_fits_one_machine_of_64_gb():
    width = blocked_width(LARGE, Machines(1), PRICES)
    assert width == 32
    assert 42.6e9 < blocked_memory(LARGE, width, PRICES) < 46e9
    assert blocked_width(LARGE, Machines(1, memory=2e9), PRICES) is None


# --- plans are those that the engine follows ------------------------------------------------------


def engine_for(size, machines, blocks, cpus):
    """Return an engine that sees blocks of such sizes, and a crew of such machines."""
    crew = OneProcess()
    crew.task_memory = machines.task_memory(cpus)
    engine = object.__new__(ClusterEngine)  # nobody has a folder of such a graph
    engine.crew, engine.n_nodes = crew, size.nodes
    bounds = [(n * size.nodes // blocks, n * size.entries // blocks) for n in range(blocks + 1)]
    alike = [
        SimpleNamespace(n_rows=after[0] - before[0], n_entries=after[1] - before[1])
        for before, after in pairwise(bounds)
    ]
    stored = SimpleNamespace(blocks=alike, n_entries=size.entries)
    engine.graph = SimpleNamespace(manifest=stored)
    return engine


@pytest.mark.parametrize("memory", [8e9, 64e9, 512e9])
@pytest.mark.parametrize("cpus", [1, 4, 16])
def test_columns_at_a_time_are_those_that_the_engine_chooses(memory, cpus):
    for size in (LARGE, replace(LARGE, columns=20), Size(10_000_001, 77_777_777, 40)):
        for machines in (Machines(2, memory), Machines(8, memory), Machines(128, memory)):
            for blocks in (machines.count, 16 * machines.count):
                engine = engine_for(size, machines, blocks, cpus)
                width = ray_width(size, machines, blocks, cpus)
                if width is None:
                    with pytest.raises(ClusterError, match="must have"):
                        engine._width(size.columns, 4)
                else:
                    assert engine._width(size.columns, 4) == width


def test_a_stored_graph_has_the_columns_at_a_time_that_the_model_says(tmp_path):
    around = sp.diags_array([np.ones(1199), np.ones(1199)], offsets=[1, -1], shape=(1200, 1200))
    corners = sp.coo_array(([1.0, 1.0], ([0, 1199], [1199, 0])), shape=(1200, 1200))
    save_graph(Graph(sp.csr_array(around + corners)), tmp_path / "g", n_blocks=4)
    size, crew = Size(1200, 2400, 100), OneProcess()
    engine = ClusterEngine(tmp_path / "g", crew)
    seen = set()
    for memory in np.linspace(2e5, 8e6, 40):
        machines = Machines(2, memory)
        crew.task_memory = machines.task_memory(2)
        seen.add(width := ray_width(size, machines, 4, 2))
        if width is None:
            with pytest.raises(ClusterError, match="must have"):
                engine._width(100, 4)
        else:
            assert engine._width(100, 4) == width
    assert seen >= {None, 4, 16, 64}


def test_no_plan_is_given_that_the_engine_would_refuse():
    given = 0
    for count in (2, 8, 32, 128):
        for memory in (4e9, 16e9, 64e9, 256e9):
            machines = Machines(count, memory)
            if (plan := best_plan(LARGE, machines, PRICES)) is None:
                continue
            given += 1
            engine = engine_for(LARGE, machines, plan.blocks, plan.cpus)
            assert engine._width(LARGE.columns, 4) == plan.width
            assert ray_memory(LARGE, machines, plan, PRICES) <= memory
            assert plan.cpus <= machines.cores
    assert given >= 8


def test_no_other_plan_that_fits_is_quicker():
    for machines in (Machines(8), Machines(128), Machines(8, cores=4)):
        plan = best_plan(LARGE, machines, PRICES)
        assert plan.blocks <= 2 * machines.cores * machines.count
        best = ray_time(LARGE, machines, plan, PRICES).total
        for each in (1, 2, 4, 8):
            for cpus in (1, 2, 4):
                blocks = each * machines.count
                if (width := ray_width(LARGE, machines, blocks, cpus)) is None:
                    continue
                other = Plan(blocks, cpus, width)
                if ray_memory(LARGE, machines, other, PRICES) <= machines.memory:
                    assert ray_time(LARGE, machines, other, PRICES).total >= best


def test_the_example_of_a_cluster_takes_few_blocks_with_4_cpus_and_not_with_16():
    machines = Machines(8, memory=64 * 2**30)
    assert [ray_width(LARGE, machines, blocks, 16) for blocks in (8, 16, 32)] == [None] * 3
    assert all(ray_width(LARGE, machines, blocks, 4) for blocks in (8, 16, 32, 64, 128))


def test_machines_that_are_too_small_have_no_plan_and_it_is_said_which_have():
    small = Machines(2, memory=8e9)
    assert best_plan(LARGE, small, PRICES) is None
    enough = least_memory(LARGE, small, PRICES)
    assert best_plan(LARGE, replace(small, memory=enough), PRICES) is not None
    assert best_plan(LARGE, replace(small, memory=enough / 2), PRICES) is None


def test_fewer_cpus_give_a_task_more_memory_and_compute_less():
    machines = Machines(8)
    rooms = [machines.task_memory(cpus) for cpus in (16, 8, 4, 1)]
    assert rooms == [2_800_000_000, 5_600_000_000, 9_600_000_000, 9_600_000_000]
    few, many, all_of_them = (
        ray_time(LARGE, machines, Plan(128, cpus, 8), PRICES).computing for cpus in (4, 8, 16)
    )
    assert few == pytest.approx(2 * many)
    assert many == all_of_them  # 16 cores bring what 8 would


def test_what_the_store_does_not_hold_costs_time():
    plan, wide = Plan(32, 4, 8), Machines(8, memory=256e9)
    assert sum(stored_bytes(LARGE, wide, plan)) < wide.store
    assert spilled_bytes(LARGE, wide, plan) == 0
    before = ray_time(LARGE, wide, plan, PRICES)
    for share in (0.1, 0.05, 0.01):
        tight = replace(wide, store_share=share)
        after = ray_time(LARGE, tight, plan, PRICES)
        spilled = spilled_bytes(LARGE, tight, plan)
        assert spilled > sum(stored_bytes(LARGE, tight, plan)) - tight.store  # read more than once
        assert after.disk - before.disk < 2 * spilled / tight.disk
        assert after.disk > before.disk
        assert replace(after, disk=0.0) == replace(ray_time(LARGE, wide, plan, PRICES), disk=0.0)
        before = after


def test_with_no_store_everything_is_written_and_read():
    size, plan = Size(1000, 5000, 8), Plan(2, 1, 8)
    none = Machines(2, store_share=0.0)
    kept, result, pieces = stored_bytes(size, none, plan)
    assert pieces == pytest.approx(2 * exchanged_bytes(size, 2, 8) / 2)
    # Ten steps: what is kept is written once, and pieces of one step, half of them, ten times.
    written, read = kept + result + 10 * pieces / 2, 10 * kept + result + 10 * pieces / 2
    assert spilled_bytes(size, none, plan) == pytest.approx(written + read)


# --- prices, and a recorded example ---------------------------------------------------------------


def recorded(slower=1.0):
    """Lines as a machine with known prices would have them; at the largest size it is slower."""
    lines, made_with = [], {"day": "2026-01-01", "threads": "2", "code": "abc"}
    here = Machines(1, cores=2, use=1.0)
    for nodes, entries in ((200_000, 4_000_000), (1_000_000, 30_000_000), (2_400_000, 124_000_000)):
        for blocks in (4, 16, 48) if nodes == 200_000 else (4,):
            size = Size(nodes, entries, 16)
            factor = slower if nodes == 2_400_000 else 1.0
            graph = {"entries": entries, "columns": 16, "blocks": blocks}
            rows = exchanged_bytes(size, blocks, 16) / 64
            told = {"nodes": nodes, "stored": entries, "exchanged_rows": rows}
            told["folder_bytes"] = graph_bytes(size, blocks)
            cases = {("make", "-"): {**told, "peak_memory": 1}}
            own = multiplying(size, here, 16, needed_rows(size, blocks), PRICES)
            cpu = own + 10 * (PRICES.hand_on * rows * 64 + 0.01 * blocks + 0.001 * blocks**2)
            plan = Plan(blocks, here.cores, 16)
            time = ray_time(size, here, plan, PRICES)
            took = {"seconds": factor * (time.computing + time.telling), "cpu_seconds": cpu}
            memory = size.matrix + ray_memory(size, here, plan, PRICES)
            cases["propagate", "ray"] = {**took, "peak_memory": memory}
            if blocks == 4:
                own = multiplying(size, here, 16, nodes, PRICES)
                memory = size.matrix + blocked_memory(size, 16, PRICES)
                took = {"seconds": factor * own / 2, "cpu_seconds": own, "peak_memory": memory}
                cases["propagate", "blocked"] = took
                work = PRICES.train * network_work(size)
                memory = train_memory(size, here, BATCH, PRICES)
                took = {"seconds": work / 2, "cpu_seconds": work, "peak_memory": memory}
                cases["train", "blocked"] = took
            lines += [
                {
                    "case": {"job": job, "engine": engine, **graph, "repeat": 0},
                    **numbers,
                    **{"load": 0.1, "made_with": made_with},
                }
                for (job, engine), numbers in cases.items()
            ]
    return lines


def test_prices_are_found_again():
    found = fit(gather(recorded()), 2)
    assert vars(found.prices) == pytest.approx(vars(PRICES), rel=1e-3)
    assert found.ray_cpu == pytest.approx((0.01, 0.001), rel=1e-3)
    assert found.here.use == pytest.approx(1.0)


def test_the_largest_size_is_predicted_from_the_others():
    measured = gather(recorded(slower=2.0))
    known = [one for one in measured if one.graph.entries < 124_000_000]
    held = checks(measured, fit(known, 2), {4_000_000, 30_000_000})
    ratios = {(c.what, c.entries, c.blocks): c.model / c.measured for c in held}
    off = {key for key, ratio in ratios.items() if abs(ratio - 1) > 0.01}
    assert off == {(f"{engine}: time", 124_000_000, 4) for engine in ("blocked", "Ray")}
    assert ratios["Ray: time", 124_000_000, 4] == pytest.approx(0.5, rel=0.01)
    predicted = {check.entries for check in held if check.is_predicted}
    assert predicted == {124_000_000}
    assert {one.stored for one in measured} == {size_of(one).entries for one in measured}


@pytest.fixture
def run(monkeypatch, capsys):
    return runner(monkeypatch, capsys, app=command.app)


def test_the_command_prints_both_tables(tmp_path, run):
    path = tmp_path / "ray.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in recorded()))
    code, text = run(path)
    assert code == 0, text.err
    assert "| Ray: time | 124,000,000 | 4 | 11.19 s | 11.19 s | 1.00 | predicted |" in text.out
    rows = [line for line in text.out.splitlines() if "| blocked |" in line or "| ray |" in line]
    assert [row.split(" | ")[0] for row in rows] == ["| 1", "| 8", "| 32", "| 128"]
    assert rows[0].startswith("| 1 | blocked | 1 | – | 32 | 44.4 GB | – | ")
    assert rows[1].startswith("| 8 | ray | 8 | 1 | 4 | ")
    assert "too much" not in text.out
    assert "64 GB of memory, 16 cores that bring 50%" in text.out
    page = tmp_path / "page.md"
    page.write_text("<!-- cost_model tables -->\n<!-- end of cost_model tables -->\n")
    assert run(path, "--page", page, "--memory", "1GB", "--machines", 1, "--machines", 2)[0] == 0
    assert page.read_text().count("too much") == 2


def test_one_size_is_not_enough(tmp_path, run):
    path = tmp_path / "ray.jsonl"
    small = [line for line in recorded() if line["case"]["entries"] == 4_000_000]
    path.write_text("".join(json.dumps(line) + "\n" for line in small))
    code, text = run(path)
    assert code == 1
    assert "two at least, got 1" in text.err
