"""Benchmarks: jobs take turns, ratios are those within a round, and what is compared is equal."""

from __future__ import annotations

import inspect
import json
import os
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from commands import runner
from proptrain.bench import products, startup, steps, timing, training
from proptrain.bench.case import Case, Wanted, Work
from proptrain.bench.memory import Memory, memory_of_step
from proptrain.bench.plots import growth_plot
from proptrain.bench.products import YARDSTICK, first_layer, runs_together
from proptrain.bench.results import Measured, measure, open_measured, read_measured
from proptrain.bench.steps import (
    AS_GIVEN,
    RENUMBERED,
    growth,
    made_up_graph,
    step_beside_libraries,
    ten_steps,
)
from proptrain.bench.tables import tables_of, to_markdown
from proptrain.bench.timing import Timed, time_in_turn
from proptrain.cli.bench import SUITES, bench
from proptrain.data.order import locality_order
from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    UnreadableFileError,
    UnwritableOutputError,
)
from proptrain.propagate.engine import MANY_ENTRIES, is_large
from proptrain.propagate.labels import one_hot


@pytest.fixture(autouse=True)
def once_without_a_rest(monkeypatch):
    """Have jobs run once, at once: what is tested here is short."""
    monkeypatch.setattr(timing, "PAUSE", 0)
    monkeypatch.setattr(timing, "SHORT", 0)


class Clock:
    """A clock that jobs move on; every round the machine is half as fast as in the last."""

    def __init__(self, n_jobs):
        self.now, self.n_run, self.n_jobs = 0.0, 0, n_jobs

    def job(self, seconds):
        def run():
            self.now += seconds * 2.0 ** (self.n_run // self.n_jobs)
            self.n_run += 1

        return run


# --- timing -------------------------------------------------------------------------------------


def test_a_machine_that_slows_down_changes_times_but_not_ratios(monkeypatch):
    clock = Clock(n_jobs=3)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock.now)
    jobs = {name: clock.job(seconds) for name, seconds in {"a": 1, "b": 3, "c": 10}.items()}
    times = time_in_turn(jobs, 4)
    assert times["a"].seconds == (2, 4, 8, 16)  # the first round does not count
    for name, ratio in (("b", 3), ("c", 10)):
        over = times[name].over(times["a"])
        assert (over.low, over.middle, over.high) == (ratio, ratio, ratio)
    assert times["a"].median == 6


def test_a_short_job_is_repeated_after_a_rest_and_has_the_mean_time(monkeypatch):
    now, rests, ran = [0.0], [], []
    monkeypatch.setattr(timing, "SHORT", 0.02)
    monkeypatch.setattr(timing, "PAUSE", 0.05)
    clock = SimpleNamespace(perf_counter=lambda: now[0], sleep=rests.append)
    monkeypatch.setattr(timing, "time", clock)

    def job(name, seconds):
        ran.append(name)
        now[0] += seconds

    jobs = {"short": partial(job, "short", 0.0075), "long": partial(job, "long", 3.0)}
    times = time_in_turn(jobs, 1, warms_up=False)
    assert (ran.count("short"), ran.count("long")) == (3, 1)
    assert times["short"].median == pytest.approx(0.0075)
    assert times["long"].median == 3.0
    assert rests == [0.05, 0.05]


def test_everyone_has_every_turn():
    ran = []
    jobs = {name: (lambda name=name: ran.append(name)) for name in "abc"}
    times = time_in_turn(jobs, 60, seed=1)
    assert {len(timed.seconds) for timed in times.values()} == {60}
    rounds = np.array(ran).reshape(61, 3)
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds.tolist())
    for place in range(3):
        counts = {name: (rounds[:, place] == name).sum() for name in "abc"}
        assert min(counts.values()) > 8


def test_a_job_counts_as_done_after_it_is():
    events = []
    time_in_turn({"a": lambda: events.append("run")}, 2, on_done=lambda: events.append("done"))
    assert events == ["run", "done"] * 3


def test_without_warming_up_every_run_counts():
    ran = []
    times = time_in_turn({"a": lambda: ran.append(1)}, 2, warms_up=False)
    assert len(ran) == len(times["a"].seconds) == 2


def test_a_job_that_trains_tells_its_epochs():
    times = time_in_turn({"trains": lambda: 30, "multiplies": lambda: np.ones(2)}, 1)
    assert (times["trains"].n_epochs, times["multiplies"].n_epochs) == (30, 0)


def test_quartiles_lie_within_what_was_seen():
    over = Timed((1.0, 9.0)).over(Timed((1.0, 1.0)))
    assert (over.low, over.middle, over.high) == (1, 5, 9)


# --- results ------------------------------------------------------------------------------------

MEMORY = Memory(graph=400, signal=200, idle=5000, peak=7000)


def measured(suite="suite", case="case", **more):
    times = {"ours": Timed((1.0, 2.0, 3.0)), "other": Timed((2.0, 8.0, 6.0))}
    return Measured(suite, f"about {suite}", case, "ours", times, **more)


def test_a_table_tells_times_ratios_and_speeds():
    (table,) = tables_of([measured(amount=4e9, unit="operations")])
    assert table.title == "about suite"
    assert table.rows == (
        ("case", "ours", "2 s", "baseline", "2.0 GFLOP/s"),
        ("case", "other", "6 s", "2.00 × [2.00, 4.00]", "0.7 GFLOP/s"),
    )


@pytest.mark.parametrize(
    ("unit", "told"), [("bytes", "2.0 GB/s"), ("entries", "0.50 ns an entry"), ("", "")]
)
def test_speed_is_told_in_what_the_jobs_do(unit, told):
    (table,) = tables_of([measured(amount=4e9, unit=unit)])
    assert table.rows[0][-1] == told


def test_speed_is_told_for_an_epoch_where_there_are_some():
    one = replace(measured(), times={"ours": Timed((2.0,), n_epochs=1000)})
    (table,) = tables_of([one])
    assert table.rows == (("case", "ours", "2 s", "baseline", "2.00 ms an epoch, of 1,000"),)


def test_memory_has_a_table_of_its_own():
    times, memory = tables_of([measured(case="small"), measured(case="large", memory=MEMORY)])
    assert {row[0] for row in times.rows} == {"small", "large"}
    assert memory.rows == (("large", "1 kB", "2 kB", "2.00 ×"),)


def test_graphs_stand_in_the_order_of_their_sizes_and_other_cases_in_their_own():
    sizes = {"large": 3.0, "small": 1.0, "middle": 2.0}
    graphs = [measured(case=case, amount=n, unit="entries") for case, n in sizes.items()]
    (table,) = tables_of(graphs)
    assert list(dict.fromkeys(row[0] for row in table.rows)) == ["small", "middle", "large"]
    others = [measured(case=case, amount=n, unit="operations") for case, n in sizes.items()]
    (table,) = tables_of(others)
    assert list(dict.fromkeys(row[0] for row in table.rows)) == list(sizes)


def test_reckoned_jobs_are_told_for_the_epochs_of_another():
    jobs = {"whole": lambda: 30, "brief": lambda: 10}
    case = Case("suite", "title", "case", "whole", lambda: Work(jobs))
    times = measure(case, Work(jobs, reckoned={"brief": "whole"}), 2).times
    assert times["brief"].n_epochs == times["whole"].n_epochs == 30


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "times.jsonl"
    whole = [
        measured("step", memory=MEMORY, made_with={"cpu": "fast"}),
        measured("growth", amount=3.0, unit="entries"),
    ]
    for one in whole:
        with open_measured(path) as (add, _):
            add(one)
        with path.open("ab") as file:
            file.write(b'{"suite": "cut o')  # the process was killed here
        assert read_measured(path)[-1] == one
    assert read_measured(path) == whole


@pytest.mark.parametrize("content", [b'{"other": 1}', b"no line end", b"a,b\n1,2\n"])
def test_a_file_of_others_is_not_emptied(tmp_path, content):
    path = tmp_path / "theirs.json"
    path.write_bytes(content)
    with pytest.raises(FileFormatError):
        read_measured(path)
    with pytest.raises(FileFormatError), open_measured(path):
        pass
    assert path.read_bytes() == content


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableFileError, match="must be an ordinary file"):
        read_measured(tmp_path / "pipe")


@pytest.mark.skipif(sys.platform == "win32", reason="nothing keeps a second process away there")
def test_a_file_is_written_by_one_process_at_a_time(tmp_path):
    path = tmp_path / "times.jsonl"
    with (
        open_measured(path),
        pytest.raises(UnwritableOutputError, match="being written by another process"),
        open_measured(path),
    ):
        pass


def test_a_file_of_something_else_is_told(tmp_path):
    path = tmp_path / "times.jsonl"
    with pytest.raises(UnreadableFileError, match="Cannot read"):
        read_measured(path)
    for line in ("no json", "[]", '{"suite": "step"}'):
        path.write_text(line + "\n")
        with pytest.raises(FileFormatError, match="Line 1 of"):
            read_measured(path)


def test_a_page_names_the_machine_once_and_each_suite():
    machine = {"cpu": "fast_one", "cores": "2"}
    page = to_markdown([measured(suite, made_with=machine) for suite in ("step", "growth")])
    assert page.startswith("Measured with cpu fast_one, cores 2.\n\n### About step\n\n| case |")
    assert page.count("Measured with") == 1
    assert "### About growth" in page


def test_a_page_of_a_suite_without_a_title():
    assert "### \n\n| case |" in to_markdown([replace(measured("step"), title="")])


@pytest.mark.parametrize("lacks", [{"amount": 0}, {"times": {AS_GIVEN: Timed((1.0,))}}])
def test_a_plot_of_cases_that_lack_what_it_draws(lacks):
    times = {AS_GIVEN: Timed((1.0,)), RENUMBERED: Timed((2.0,))}
    case = Measured("growth", "growth", "small", AS_GIVEN, times, 1e5, "entries")
    growth_plot([case])
    with pytest.raises(InvalidInputError, match=r"in each case, but 'small' lacks some\. Measure"):
        growth_plot([case, replace(case, **lacks)])


@pytest.mark.parametrize("spoilt", [{"made_with": ["ab"]}, {"amount": 0, "unit": "entries"}])
def test_lines_that_no_table_can_tell(spoilt, tmp_path):
    path = tmp_path / "times.jsonl"
    line = measured("step", amount=3, unit="entries").to_json()
    path.write_text(json.dumps(line) + "\n")
    assert "entry" in to_markdown(read_measured(path))
    path.write_text(json.dumps({**line, **spoilt}) + "\n")
    with pytest.raises(FileFormatError, match=r"Line 1 of .* is not a case that"):
        read_measured(path)


@pytest.mark.parametrize("memory", [{"graph": 0, "signal": 0}, {"peak": 10**400}])
def test_memory_that_no_step_can_have_taken(memory, tmp_path):
    line = replace(measured("step"), memory=replace(MEMORY, **memory)).to_json()
    (tmp_path / "times.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(FileFormatError, match=r"Line 1 of .* is not a case that"):
        read_measured(tmp_path / "times.jsonl")


def test_the_plot_shows_every_size_and_both_lines_of_each_panel():
    cases = [
        replace(
            measured("growth", memory=MEMORY, amount=amount, unit="entries"),
            times={AS_GIVEN: Timed((amount * 1e-8,)), RENUMBERED: Timed((amount * 2e-8,))},
        )
        for amount in (1e5, 1e6, 1e7)
    ]
    drawn = growth_plot(cases[::-1])
    assert drawn.startswith("<svg")
    assert "graphs of 100,000 to 10,000,000 stored entries" in drawn
    for text in ("graph as given", "nodes renumbered", "taken at the peak", "100 ms", "10⁷"):
        assert f">{text}<" in drawn
    assert drawn.count("<use ") >= 4 * 3  # a marker for each size and line


# --- suites -------------------------------------------------------------------------------------


def test_everyone_is_held_to_someone_who_takes_part(monkeypatch):
    monkeypatch.setattr(training, "N_EPOCHS", 1)
    wanted = Wanted(n_entries=100_000)
    suites = (
        *(first_layer, runs_together, step_beside_libraries, ten_steps, growth),
        *(training.epochs, training.whole_fits, startup.start_up),
    )
    for case in (case for suite in suites for case in suite(wanted)):
        assert case.baseline in case.prepare().jobs


@pytest.mark.parametrize("way", ["forward", "backward"])
def test_products_that_are_compared_are_equal(way):
    (case,) = (case for case in first_layer(Wanted()) if case.name == f"cora, {way}")
    work = case.prepare()
    ours = work.jobs["proptrain"]()
    assert work.amount == 2 * 49_216 * 64
    for name in ("SciPy", "torch CSR"):
        np.testing.assert_allclose(np.asarray(work.jobs[name]()), ours, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_the_yardstick_does_as_much_in_one_thread_and_in_all(monkeypatch, n_threads):
    monkeypatch.setattr(products, "count_threads", lambda: n_threads)
    jobs = next(iter(first_layer(Wanted()))).prepare().jobs
    wanted = {f"{YARDSTICK}, one thread": 1}
    wanted |= {f"{YARDSTICK}, all threads": n_threads} if n_threads > 1 else {}
    assert [name for name in jobs if name.startswith(YARDSTICK)] == list(wanted)
    for name, job in products._yardsticks(2 * 64 * 2048 * 5).items():
        done = []
        with monkeypatch.context() as patched:
            patched.setattr(products.np, "matmul", lambda *given, to=done: to.append(given))
            job()
        assert len(done) == wanted[name]
        assert {left.nbytes for left, _ in done} == {512 * 1024}  # as docs/performance.md says
        assert sum(left.size * len(right) for left, right in done) == 64 * 2048 * 5


def test_one_thread_of_the_yardstick_is_the_one_that_asks(monkeypatch):
    monkeypatch.setattr(products, "count_threads", lambda: 2)
    monkeypatch.setattr("proptrain.kernels.threads.count_threads", lambda: 2)
    monkeypatch.setattr("proptrain.kernels.threads._pool", lambda: pytest.fail("in threads"))
    one, both = products._yardsticks(2 * 64 * 2048 * 5).values()
    one()
    with pytest.raises(pytest.fail.Exception, match="in threads"):
        both()


def test_copies_are_copies(monkeypatch):
    monkeypatch.setattr(products, "_COPIED", 1 << 10)
    *_, case = first_layer(Wanted())
    work = case.prepare()
    assert (work.amount, work.unit) == (2 << 10, "bytes")
    for job in work.jobs.values():
        target = np.asarray(job.args[0] if job.func is np.copyto else job.func.__self__)
        target[:] = 0
        job()
        assert target.all()


def test_steps_that_are_compared_are_equal():
    (case,) = step_beside_libraries(Wanted(n_entries=100_000))
    work = case.prepare()
    told = {name: np.asarray(job()) for name, job in work.jobs.items()}
    assert len(told) == 6
    order = locality_order(made_up_graph(100_000))
    np.testing.assert_allclose(told[RENUMBERED], told[AS_GIVEN][order], atol=1e-5)
    alone = [told[name] for name in told if "alone, graph as given" in name]
    moved = [told[name] for name in told if "alone, nodes renumbered" in name]
    for product in (*alone, *(other[np.argsort(order)] for other in moved)):
        np.testing.assert_allclose(product, alone[0], rtol=1e-4, atol=1e-5)
    # Ours has the restart mixed in: 0.9 of the product and 0.1 of the signal.
    signal = work.jobs[AS_GIVEN].args[0]
    np.testing.assert_allclose(told[AS_GIVEN], 0.9 * alone[0] + 0.1 * signal, atol=1e-5)
    assert work.amount == 100_000


def test_torch_and_scipy_share_their_arrays():
    graph = made_up_graph(100_000)
    jobs = steps._library_jobs(graph, np.ones((graph.n_nodes, 2), dtype=np.float32), "as given")
    scipys, torchs = (job.args[0] for job in jobs.values())
    for own, other in (("indptr", "crow_indices"), ("indices", "col_indices"), ("data", "values")):
        array = getattr(scipys, own)
        assert np.shares_memory(array, getattr(torchs, other)().numpy())
    assert scipys.indices.dtype == np.int32


def test_the_default_size_is_one_that_needs_no_number_for_an_edge():
    assert inspect.signature(bench).parameters["entries"].default == Wanted().n_entries
    assert Wanted().n_entries >= 2 * MANY_ENTRIES


def test_growth_is_measured_at_sizes_of_its_own():
    cases = list(growth(Wanted(n_entries=1_000_000)))
    assert [case.name for case in cases] == [
        "100,000 entries",
        "316,228 entries",
        "1,000,000 entries",
    ]
    work = cases[0].prepare()
    signal_alone = work.jobs[AS_GIVEN]()
    prepared = work.jobs["proptrain, preparing the graph and the step"]()
    np.testing.assert_array_equal(prepared, signal_alone)


def test_ten_steps_tell_how_far_they_are():
    (case,) = ten_steps(Wanted(n_entries=100_000))
    told = []
    measured = measure(case, case.prepare(), 2, told.append)
    assert sum(told) == pytest.approx(2 * len(measured.times))
    assert len(told) == 10 * 2 * len(measured.times)
    assert measured.unit == "entries"


def test_renumbered_nodes_keep_their_labels(monkeypatch):
    seen = []

    def spread(*problem, **_):
        labels, known, n_classes, engine, scheme = problem
        seen.append((engine.propagate(one_hot(labels, known, n_classes), scheme), labels))

    monkeypatch.setattr(steps, "propagate_labels", spread)
    (case,) = ten_steps(Wanted(n_entries=100_000))
    measure(case, case.prepare(), 1)
    (given, _), (moved, _) = seen
    np.testing.assert_allclose(np.sort(given.sum(axis=1)), np.sort(moved.sum(axis=1)), atol=1e-5)
    told = [(soft.argmax(axis=1) == labels).mean() for soft, labels in seen]
    assert told[0] == pytest.approx(told[1], abs=0.01)
    assert told[0] > 0.5


def test_five_runs_at_once_are_five_runs():
    (case,) = runs_together(Wanted())
    one_by_one, together = (job() for job in case.prepare().jobs.values())
    np.testing.assert_array_equal(np.hstack(one_by_one), together)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell: see bench/memory.py")
def test_memory_is_that_of_the_step_alone():
    graph = made_up_graph(4_500_000)
    assert is_large(graph.n_nodes, graph.adjacency.nnz)
    here = np.ones(40_000_000)  # 320 MB of ours are no part of it
    memory = memory_of_step(graph, 47)
    assert here.all()
    assert memory.graph == 4 * (2 * graph.adjacency.nnz + graph.n_nodes + 1)
    assert memory.signal == 4 * graph.n_nodes * 47
    assert memory.allowed == memory.graph + 3 * memory.signal
    # The 48th column is a 200th of it all; a process takes some MB more or less by chance.
    assert memory.graph + 2 * memory.signal < memory.taken < 1.05 * memory.allowed


def test_epochs_are_as_many_for_everyone(monkeypatch):
    monkeypatch.setattr(training, "N_EPOCHS", 2)
    (case,) = training.epochs(Wanted())
    jobs = case.prepare().jobs
    assert {name: job() for name, job in jobs.items()} == dict.fromkeys(jobs, 2)
    assert list(jobs) == [f"proptrain {name}" for name in ("PTA(F)", "PTA", "APPNP", "GCN")]


def test_whole_fits_are_of_different_splits(monkeypatch):
    fitted = []
    monkeypatch.setattr(
        training, "train", lambda method, _, split: fitted.append((method, *split.train)) or 7
    )
    (case,) = training.whole_fits(Wanted())
    jobs = case.prepare().jobs
    assert {name: job() for name, job in jobs.items()} == dict.fromkeys(jobs, 21)
    assert list(jobs) == ["proptrain PTA", "proptrain PTA+"]
    assert len(set(fitted)) == 6


def test_the_first_demo_compiles_and_the_second_does_not(monkeypatch):
    ran = []
    monkeypatch.setattr(startup, "run_python", lambda *words, **more: ran.append((words, more)))
    _, case = startup.start_up(Wanted())
    for job in case.prepare().jobs.values():
        job()
    (second, as_ever), (first, anew) = ran
    assert first[:3] == second[:3] == ("-m", "proptrain.cli", "demo")
    assert as_ever == {}
    assert list(anew) == ["NUMBA_CACHE_DIR"]


def test_light_commands_run_and_loading_torch_is_an_error():
    light, _ = startup.start_up(Wanted())
    for job in light.prepare().jobs.values():
        job()
    with pytest.raises(RuntimeError, match="torch was loaded"):
        startup.run_python("-c", startup._IMPORT.replace("proptrain", "torch"))


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch, capsys):
    return runner(monkeypatch, capsys, "bench")


@pytest.fixture
def prepared(monkeypatch):
    """Put two quick cases into the first-layer suite; returns the names of those prepared."""
    names = []

    def suite(wanted):
        wanted.found_datasets()
        for name in ("one", "two"):
            yield Case("first-layer", "products", name, "a", lambda name=name: work(name))

    def work(name):
        names.append(name)
        return Work({"a": lambda: None, "b": lambda: None})

    monkeypatch.setattr(products, "first_layer", suite)
    return names


@pytest.mark.parametrize("suite", ["step", "ten-steps", "growth"])
def test_a_graph_that_memory_cannot_hold_is_refused_before_it_is_drawn(suite, run, monkeypatch):
    def small(n_entries):
        assert n_entries >= steps.SMALLEST
        return Work({AS_GIVEN: lambda: None})

    for name in ("_beside_libraries", "_labels_at_scale", "_ours_alone"):
        monkeypatch.setattr(steps, name, small)
    asked = (suite, "--entries", 10**15, "--rounds", 1)
    code, text = run(*asked)
    assert code == 1
    said = " ".join(text.err.split())
    assert "1,000,000,000,000,000 entries, needs about 8e+04 TB" in said
    assert "--force" in said
    assert "getting ready" not in text.err + text.out
    assert run(*asked, "--force")[0] == 0


def test_what_is_measured_already_needs_no_memory(run, monkeypatch, tmp_path):
    monkeypatch.setattr(steps, "_beside_libraries", lambda _: Work({AS_GIVEN: lambda: None}))
    asked = ("step", "--entries", 10**15, "--rounds", 1, "--out", tmp_path / "times.jsonl")
    assert run(*asked, "--force")[0] == 0
    assert run(*asked)[0] == 0


def test_the_command_measures_and_writes(tmp_path, run, prepared):
    code, text = run("first-layer", "--rounds", 2, "--out", tmp_path / "times.jsonl")
    assert code == 0, text.err
    assert "products" in text.out
    lines = [json.loads(line) for line in (tmp_path / "times.jsonl").read_text().splitlines()]
    assert [line["case"] for line in lines] == ["one", "two"]
    assert all(len(timed["seconds"]) == 2 for line in lines for timed in line["times"].values())
    assert lines[0]["made_with"]["torch"]
    assert int(lines[0]["made_with"]["threads"]) >= 1


def test_the_command_goes_on_where_it_stopped(tmp_path, run, prepared):
    path = tmp_path / "times.jsonl"
    assert run("first-layer", "--rounds", 1, "--out", path)[0] == 0
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])  # killed while it wrote the second case
    prepared.clear()
    code, text = run("first-layer", "--rounds", 1, "--out", path, "--json")
    assert (code, prepared) == (0, ["two"])
    assert [case["case"] for case in json.loads(text.out)["cases"]] == ["one", "two"]
    assert [one.case for one in read_measured(path)] == ["one", "two"]


def test_cases_of_another_state_of_the_code_are_told(tmp_path, run, prepared):
    path = tmp_path / "times.jsonl"
    told = []
    for change in (b"", b"0"):
        run("first-layer", "--rounds", 1, "--out", path)
        path.write_bytes(path.read_bytes().replace(b'"code": "', b'"code": "' + change))
        told.append(" ".join(run("first-layer", "--rounds", 1, "--out", path)[1].err.split()))
    assert "by other code" not in told[0]
    assert told[1].count("measured already, by other code or on another machine") == 2
    assert prepared == ["one", "two"]


def test_what_was_measured_is_shown_as_markdown(tmp_path, run, prepared):
    path = tmp_path / "times.jsonl"
    run("first-layer", "--rounds", 1, "--out", path)
    code, text = run("--show", path)
    assert code == 0, text.err
    assert text.out == to_markdown(read_measured(path)) + "\n"
    assert run("first-layer", "--show", path)[1].out == text.out
    code, text = run("step", "--show", path)
    assert code == 1
    assert "What was measured must be one of first-layer; got 'step'" in text.err
    code, text = run("--show", path, "--plot", tmp_path / "growth.svg")
    assert code == 1
    assert "draws what growth measures" in text.err
    assert len(prepared) == 2  # nothing was measured again


def test_a_plot_does_not_take_the_place_of_the_times(tmp_path, run):
    times = tmp_path / "times.jsonl"
    words = ("growth", "--entries", 100_000, "--rounds", 1)
    code, text = run(*words, "--out", times, "--plot", times)
    assert code == 1
    assert "is read or written already" in text.err
    assert run(*words, "--out", times)[0] == 0
    before = times.read_bytes()
    assert run("--show", times, "--plot", times)[0] == 1
    assert times.read_bytes() == before


def test_the_plot_is_drawn_when_growth_is_done(tmp_path, run):
    plot = tmp_path / "growth.svg"
    code, text = run("growth", "--entries", 100_000, "--rounds", 1, "--plot", plot)
    assert code == 0, text.err
    assert plot.read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["layer"],
            "first-layer, together, step, ten-steps, growth, epochs, plus, start-up; got 'layer'",
        ),
        (["first-layer", "--dataset", "cara"], "Did you mean 'cora'?"),
        (["first-layer", "--out", "nowhere/times.jsonl"], "does not exist"),
        (["first-layer", "--out", "broken.jsonl"], "Line 1 of broken.jsonl"),
        (["first-layer", "--plot", "growth.svg"], "name that suite too"),
        (["--show", "broken.jsonl", "--rounds", "3"], "--show measures nothing: leave out"),
    ],
)
def test_every_input_is_checked_before_anything_runs(
    words, told, tmp_path, run, prepared, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.jsonl").write_text("no json\n")
    code, text = run(*words)
    assert code == 1
    assert told in " ".join(text.err.split())
    assert prepared == []


def test_the_suites_are_where_the_command_looks_for_them():
    from proptrain.cli.bench import _find

    for name in SUITES:
        cases = _find(SUITES, name)(Wanted(n_entries=100_000))
        assert {case.suite for case in cases} == {name}
