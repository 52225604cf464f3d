"""Benchmarks: jobs take turns, and ratios are those within a round."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from proptrain import cli
from proptrain.bench import timing
from proptrain.bench.case import OURS, Case
from proptrain.bench.products import first_layer, propagation_step
from proptrain.bench.results import Measured
from proptrain.bench.timing import Timed, time_in_turn
from proptrain.bench.training import epochs


class Clock:
    """A clock that jobs move on; every round the machine is half as fast as in the last."""

    def __init__(self, n_jobs):
        self.now, self.n_run, self.n_jobs = 0.0, 0, n_jobs

    def job(self, seconds):
        def run():
            self.now += seconds * 2.0 ** (self.n_run // self.n_jobs)
            self.n_run += 1

        return run


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


def test_quartiles_lie_within_what_was_seen():
    over = Timed((1.0, 9.0)).over(Timed((1.0, 1.0)))
    assert (over.low, over.middle, over.high) == (1, 5, 9)
    assert str(Timed((3.0,)).over(Timed((2.0,)))) == "1.5 × [1.5, 1.5]"


def test_rows_and_lines_tell_the_same():
    case = Case("suite", "case", {OURS: lambda: None, "other": lambda: None}, n_operations=4e9)
    measured = Measured(case, {OURS: Timed((1.0, 2.0, 3.0)), "other": Timed((2.0, 8.0, 6.0))})
    assert measured.rows() == [
        ["case", OURS, "2,000.00 ms", "", "2.0"],
        ["case", "other", "6,000.00 ms", "2.0 × [2.0, 4.0]", "0.7"],
    ]
    assert measured.to_json() == {
        "suite": "suite",
        "case": "case",
        "operations": 4e9,
        "seconds": {OURS: [1.0, 2.0, 3.0], "other": [2.0, 8.0, 6.0]},
    }


@pytest.mark.parametrize("place", [0, 1])
def test_products_that_are_compared_are_equal(place):
    case = list(first_layer(["cora"], None))[place]
    ours = case.jobs[OURS]()
    assert case.n_operations == 2 * 49_216 * 64
    for name in ("SciPy", "torch CSR"):
        np.testing.assert_allclose(np.asarray(case.jobs[name]()), ours, rtol=1e-4, atol=1e-4)


def test_steps_that_are_compared_are_equal():
    (case,) = propagation_step(200_000)
    plain = case.jobs[f"{OURS}, not renumbered"]()
    ours = case.jobs[OURS]()
    np.testing.assert_allclose(np.sort(ours, axis=0), np.sort(plain, axis=0), atol=1e-5)
    libraries = [np.asarray(case.jobs[name]()) for name in case.jobs if "alone" in name]
    np.testing.assert_allclose(libraries[0], libraries[1], rtol=1e-4, atol=1e-5)
    # Ours has the restart mixed in: 0.9 of the product and 0.1 of the signal.
    assert len(libraries) == 2
    signal = (plain - 0.9 * libraries[0]) / 0.1
    assert signal.std() == pytest.approx(1, abs=0.02)


def test_epochs_are_as_many_for_everyone():
    (case,) = epochs(["cora"], None)
    for job in case.jobs.values():
        assert job.keywords["max_epochs"] == job.keywords["patience"]
    fitted = case.jobs[OURS]()
    assert fitted.n_iter_ == 20
    assert fitted.fast


@pytest.fixture
def run(monkeypatch, capsys):
    def in_process(*words):
        monkeypatch.setattr(sys, "argv", ["proptrain", "bench", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        return left.value.code or 0, capsys.readouterr()

    return in_process


def test_the_command_measures_and_writes(tmp_path, run, monkeypatch):
    monkeypatch.setattr(timing, "time_in_turn", lambda jobs, _, **on: time_in_turn(jobs, 2, **on))
    code, text = run("first-layer", "--out", tmp_path / "times.jsonl")
    assert code == 0, text.err
    assert "SciPy" in text.out
    lines = [json.loads(line) for line in (tmp_path / "times.jsonl").read_text().splitlines()]
    assert [line["case"] for line in lines] == ["cora, forward", "cora, backward", "copying 256 MB"]
    assert all(len(seconds) == 2 for line in lines for seconds in line["seconds"].values())
    assert lines[0]["versions"]["torch"]


def test_the_command_says_what_it_can_measure(run):
    code, text = run("layer")
    assert code == 1
    assert "must be one of first-layer, step, epochs; got 'layer'" in text.err
