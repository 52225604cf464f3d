"""Claims: each holds on runs made to bear it out, and fails on runs made to refute it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from proptrain.experiments.claims import Claim, check_claims
from proptrain.experiments.protocol import Run
from proptrain.experiments.samples import margins, slopes, spreads
from proptrain.experiments.specs import EXPERIMENTS
from proptrain.experiments.tasks import Task
from synthetic_runs import runs_for, wobble

DATASETS = ("citeseer", "cora_ml")


def ahead(method: str, other: str) -> Callable[[Task], float]:
    means = {method: 85.0, other: 80.0}
    return lambda task: means.get(task.method, 70.0) + wobble(task)


def falling(**slopes: float) -> Callable[[Task], float]:
    return lambda t: 90.0 - slopes.get(t.method, 10.0) * (t.noise or 0) + wobble(t)


def spreading(**sizes: float) -> Callable[[Task], float]:
    return lambda task: 80.0 + wobble(task, sizes.get(task.method, 1.0))


CASES: dict[str, tuple[str, Callable[[Task], float], Callable[[Task], float]]] = {
    "The ensemble helps": ("table4", ahead("APPNP", "APPNP-noe"), ahead("APPNP-noe", "APPNP")),
    "Weighting by the graph": (
        "table4",
        ahead("PTS", "APPNP-noa-nof"),
        ahead("APPNP-noa-nof", "PTS"),
    ),
    "PTA is better": ("table5", ahead("PTA", "APPNP"), ahead("APPNP", "PTA")),
    "GCN falls faster": ("structure-noise", falling(GCN=60, APPNP=30), falling(GCN=30, APPNP=60)),
    "The margin of APPNP": (
        "structure-noise",
        falling(PTS=40, APPNP=30),
        falling(APPNP=30, PTS=20),
    ),
    "Above 50 %": (
        "structure-noise",
        lambda t: 75.0 if t.method == "MLP" else 90 - 30 * (t.noise or 0),
        lambda t: 70.0 if t.method == "MLP" else 90 - 30 * (t.noise or 0),  # ahead at 70 % only
    ),
    "PTD spreads more": ("initialisation", spreading(PTD=4), spreading(PTD=0.2)),
    "PTA is more stable": ("initialisation", spreading(APPNP=4), spreading(PTA=4)),
    "The margin of PTA": ("label-noise", falling(APPNP=40, PTA=20), falling(APPNP=20, PTA=20)),
}


def claim_of(start: str, name: str, runs: list[Run]) -> Claim:
    experiment = replace(EXPERIMENTS[name], datasets=DATASETS)
    (claim,) = [c for c in check_claims([experiment], runs) if c.statement.startswith(start)]
    return claim


def runs_of_case(name: str, percent: Callable[[Task], float]) -> list[Run]:
    experiment = EXPERIMENTS[name]
    n_runs = 100 if name == "initialisation" else 10
    return runs_for(replace(experiment, datasets=DATASETS, n_runs=n_runs), percent)


@pytest.mark.parametrize("start", CASES)
def test_holds_on_runs_that_bear_it_out(start: str) -> None:
    name, true, _ = CASES[start]
    claim = claim_of(start, name, runs_of_case(name, true))
    assert claim.held is True, claim.evidence
    assert claim.verdict == "holds"
    assert all(dataset in claim.evidence for dataset in DATASETS)


@pytest.mark.parametrize("start", CASES)
def test_fails_on_runs_that_refute_it(start: str) -> None:
    name, _, false = CASES[start]
    claim = claim_of(start, name, runs_of_case(name, false))
    assert claim.held is False, claim.evidence
    assert claim.verdict == "does not hold"


@pytest.mark.parametrize("start", CASES)
def test_one_data_set_can_refute_it(start: str) -> None:
    name, true, false = CASES[start]
    mixed = [run for run in runs_of_case(name, true) if run.dataset == "citeseer"]
    mixed += [run for run in runs_of_case(name, false) if run.dataset == "cora_ml"]
    assert claim_of(start, name, mixed).held is False


@pytest.mark.parametrize("start", CASES)
def test_is_open_while_a_data_set_is_missing(start: str) -> None:
    name, true, _ = CASES[start]
    half = [run for run in runs_of_case(name, true) if run.dataset == "citeseer"]
    claim = claim_of(start, name, half)
    assert claim.held is None
    assert claim.verdict == "not measured"
    assert "cora_ml not measured" in claim.evidence
    assert "citeseer not measured" not in claim.evidence


@pytest.mark.parametrize(("fast", "held"), [(0.9, True), (1.5, False)])
def test_much_faster_is_twice_as_fast(fast: float, held: bool) -> None:
    experiment = replace(EXPERIMENTS["table7"], datasets=DATASETS)
    seconds = {"APPNP": 6.0, "PTA": 2.0, "PTA(F)": fast}
    runs = runs_for(experiment, lambda _: 80.0, seconds=seconds)
    claim = claim_of("PTA(F)", "table7", runs)
    assert claim.held is held
    assert f"{6 / fast:.1f} × over APPNP" in claim.evidence
    assert claim_of("PTA(F)", "table7", []).held is None


def test_says_what_happens_at_one_half() -> None:
    name, true, _ = CASES["Above 50 %"]
    told = claim_of("Above 50 %", name, runs_of_case(name, true)).evidence
    assert "at 50 % MLP 75.0 against APPNP's 75.0" in told
    assert "at 60 % MLP 75.0 against APPNP's 72.0" in told


def test_a_handful_of_runs_is_too_few() -> None:
    experiment = replace(EXPERIMENTS["table4"], datasets=DATASETS, n_runs=4)
    runs = runs_for(experiment, ahead("APPNP", "APPNP-noe"))
    assert all(claim.held is None for claim in check_claims([experiment], runs))


def test_only_claims_of_the_experiments_are_asked() -> None:
    assert check_claims([EXPERIMENTS["table2"]], []) == ()
    assert len(check_claims(EXPERIMENTS.values(), [])) == 10


# --- samples ------------------------------------------------------------------------------------


def a_run(method: str, split: int, init: int, percent: float, noise: float | None = None) -> Run:
    return Run("cora_ml", method, split, init, percent / 100, 0.8, 9, 9, 1.0, noise=noise)


def test_margins_pair_split_initialisation_and_rate() -> None:
    first = [a_run("a", 1, 0, 80), a_run("a", 2, 0, 90), a_run("a", 1, 0, 70, 0.5)]
    second = [a_run("b", 2, 0, 85), a_run("b", 1, 0, 60, 0.5), a_run("b", 1, 1, 1)]
    assert sorted(margins(first, second)) == pytest.approx([5, 10])


def test_slopes_are_points_per_ten_points_of_noise() -> None:
    rates = (0.0, 0.2, 0.6)
    first = [a_run("a", 1, 0, 80 - 10 * rate, rate) for rate in rates]
    second = [a_run("b", 1, 0, 80 - 50 * rate, rate) for rate in rates]
    lonely = [a_run("a", 2, 0, 80, 0.0)], [a_run("b", 2, 0, 80, 0.0)]
    assert slopes(first + lonely[0], second + lonely[1]) == pytest.approx([4.0])


def test_spreads_are_within_a_split() -> None:
    runs = [a_run("a", 1, 0, 80), a_run("a", 1, 1, 82), a_run("a", 2, 0, 10)]
    assert spreads(runs) == pytest.approx({1: 2**0.5})
