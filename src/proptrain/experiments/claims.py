"""The paper's qualitative claims as statements that our runs can refute.

A difference counts only if the 95 % bootstrap interval of its mean leaves out zero. A claim holds
if it holds on every data set, and fails if it fails on one, whatever the others say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean

from proptrain.experiments.grid import scientific, signed
from proptrain.experiments.protocol import Run
from proptrain.experiments.samples import (
    margins,
    paired,
    percentages,
    select,
    slopes,
    spreads,
)
from proptrain.experiments.specs import Experiment
from proptrain.experiments.statistics import bootstrap_mean, paired_p_value
from proptrain.experiments.tables import SIGNIFICANT, median_of, speed_up
from proptrain.experiments.tasks import runs_of

NOT_MEASURED = "not measured"
FEWEST = 5
"""Fewer pairs of runs than these say too little to call a claim true or false."""
MUCH_FASTER = 2.0
"""How many times faster is "much faster"; the paper has 7.5 over PTA and 43 over APPNP."""


@dataclass(frozen=True)
class Claim:
    """What the paper says, and whether our runs bear it out."""

    statement: str
    held: bool | None
    """None if runs are missing to tell."""
    evidence: str
    """What was measured, with numbers for each data set."""

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        return NOT_MEASURED if self.held is None else "holds" if self.held else "does not hold"


@dataclass(frozen=True)
class _Finding:
    """What the runs on one data set say."""

    held: bool | None
    told: str


_NOTHING = _Finding(None, NOT_MEASURED)
_Check = Callable[[Sequence[Run], str], _Finding]


@dataclass(frozen=True)
class _Question:
    """A claim to be checked on each data set of an experiment."""

    experiment: str
    statement: str
    measured: str
    check: _Check


def check_claims(experiments: Iterable[Experiment], runs: Iterable[Run]) -> tuple[Claim, ...]:
    """Return every claim that these experiments are about, checked against the runs."""
    runs = list(runs)
    by_name = {experiment.name: experiment for experiment in experiments}
    return tuple(
        _answer(question, by_name[question.experiment], runs)
        for question in _QUESTIONS
        if question.experiment in by_name
    )


def _answer(question: _Question, experiment: Experiment, runs: list[Run]) -> Claim:
    own = runs_of(experiment, runs)
    findings = {dataset: question.check(own, dataset) for dataset in experiment.datasets}
    outcomes = {finding.held for finding in findings.values()}
    held = False if False in outcomes else None if None in outcomes else True
    told = "; ".join(f"{dataset} {finding.told}" for dataset, finding in findings.items())
    return Claim(question.statement, held, f"{question.measured}: {told}.")


# --- what can be asked of the runs on one data set ----------------------------------------------


def _is_ahead(first: str, second: str) -> _Check:
    """Ask whether the first method is more accurate, run by run."""

    def check(runs: Sequence[Run], dataset: str) -> _Finding:
        return _positive(margins(select(runs, dataset, first), select(runs, dataset, second)))

    return check


def _gains_with_noise(first: str, second: str) -> _Check:
    """Ask whether the first method's margin over the second grows with the rate of noise."""

    def check(runs: Sequence[Run], dataset: str) -> _Finding:
        return _positive(slopes(select(runs, dataset, first), select(runs, dataset, second)))

    return check


def _falls_faster(first: str, second: str) -> _Check:
    """Ask whether the first method loses more with the rate of noise; tells both their falls."""
    gains = _gains_with_noise(second, first)

    def check(runs: Sequence[Run], dataset: str) -> _Finding:
        finding = gains(runs, dataset)
        if finding.held is None:
            return finding
        falls = ", ".join(
            f"{method} {signed(_fall(select(runs, dataset, method)), 1)}"
            for method in (first, second)
        )
        return _Finding(finding.held, f"{finding.told}, {falls} in all")

    return check


def _spreads_more(shaky: str, steady: str) -> _Check:
    """Ask whether one method's accuracy varies more over the initialisations of a split."""

    def check(runs: Sequence[Run], dataset: str) -> _Finding:
        first, second = (spreads(select(runs, dataset, method)) for method in (shaky, steady))
        common = sorted(first.keys() & second.keys())
        finding = _positive([first[split] - second[split] for split in common])
        if finding.held is None:
            return finding
        more, less = (mean(own[split] for split in common) for own in (first, second))
        return _Finding(finding.held, f"{more:.2f} against {less:.2f}, {finding.told}")

    return check


def _beats(first: str, second: str) -> _Check:
    """Ask whether the first method is significantly better in a paired t-test."""

    def check(runs: Sequence[Run], dataset: str) -> _Finding:
        ours, theirs = paired(select(runs, dataset, first), select(runs, dataset, second))
        if len(ours) < FEWEST:
            return _NOTHING
        lead = mean(ours) - mean(theirs)
        p_value = paired_p_value(ours, theirs)
        told = f"{signed(lead)} (p = {scientific(p_value)}, n = {len(ours)})"
        return _Finding(lead > 0 and p_value < SIGNIFICANT, told)

    return check


def _wins_above_half(method: str, rivals: Sequence[str]) -> _Check:
    """Ask whether a method is the best at every rate of noise above one half."""

    def check(runs: Sequence[Run], dataset: str) -> _Finding:
        rates = sorted({run.noise for run in runs if run.noise is not None and run.noise >= 0.5})
        leads = {rate: _lead(runs, dataset, method, rivals, rate) for rate in rates}
        above = [lead.held for rate, lead in leads.items() if rate > 0.5]
        if not above or None in above:
            return _NOTHING
        told = ", ".join(f"at {100 * rate:g} % {lead.told}" for rate, lead in leads.items())
        return _Finding(all(above), told)

    return check


def _lead(
    runs: Sequence[Run], dataset: str, method: str, rivals: Sequence[str], rate: float
) -> _Finding:
    own = select(runs, dataset, method, rate)
    others = {rival: select(runs, dataset, rival, rate) for rival in rivals}
    if not own or not all(others.values()):
        return _NOTHING
    means = {rival: _accuracy(theirs) for rival, theirs in others.items()}
    best = max(means, key=lambda rival: means[rival])
    told = f"{method} {_accuracy(own):.1f} against {best}'s {means[best]:.1f}"
    return _Finding(_accuracy(own) > means[best], told)


def _is_much_faster(fast: str, slow: Sequence[str]) -> _Check:
    """Ask whether a method takes less than half the time of each of the others."""

    def check(runs: Sequence[Run], dataset: str) -> _Finding:
        own, *others = (
            median_of(lambda run: run.seconds, select(runs, dataset, method))
            for method in (fast, *slow)
        )
        ratios = [speed_up(other, own) for other in others]
        if any(map(math.isnan, ratios)):
            return _NOTHING
        pairs = zip(slow, ratios, strict=True)
        told = ", ".join(f"{ratio:.1f} × over {method}" for method, ratio in pairs)
        return _Finding(min(ratios) >= MUCH_FASTER, told)

    return check


def _positive(values: list[float]) -> _Finding:
    """Say whether the mean is above zero, beyond its interval."""
    if len(values) < FEWEST:
        return _NOTHING
    estimate = bootstrap_mean(values)
    interval = f"[{signed(estimate.low)}, {signed(estimate.high)}]"
    return _Finding(estimate.low > 0, f"{signed(estimate.mean)} {interval} (n = {len(values)})")


def _accuracy(runs: Sequence[Run]) -> float:
    return mean(percentages(runs))


def _fall(runs: Sequence[Run]) -> float:
    """Return the change of the mean accuracy from the lowest rate to the highest."""
    rates = sorted(run.noise for run in runs if run.noise is not None)
    low, high = ([run for run in runs if run.noise == rate] for rate in (rates[0], rates[-1]))
    return _accuracy(high) - _accuracy(low)


_POINTS = "Points of accuracy, with the 95 % interval"
_PER_TEN = "Points of accuracy per 10 points of noise, with the 95 % interval"
_DEVIATION = (
    "Standard deviation over the initialisations of a split, and the difference with its "
    "95 % interval"
)
_QUESTIONS = (
    _Question(
        "table4",
        "The ensemble helps: APPNP is better than APPNP-noe.",
        _POINTS,
        _is_ahead("APPNP", "APPNP-noe"),
    ),
    _Question(
        "table4",
        "Weighting by the graph helps: PTS is better than APPNP-noa-nof.",
        _POINTS,
        _is_ahead("PTS", "APPNP-noa-nof"),
    ),
    _Question(
        "table5",
        "PTA is better than APPNP, with p < 0.05.",
        "Points of accuracy",
        _beats("PTA", "APPNP"),
    ),
    _Question(
        "table7",
        f"PTA(F) trains much faster (at least {MUCH_FASTER:g} ×) than PTA and APPNP.",
        "Ratio of the median times",
        _is_much_faster("PTA(F)", ("PTA", "APPNP")),
    ),
    _Question(
        "structure-noise",
        "GCN falls faster than APPNP as structure noise grows.",
        f"{_PER_TEN}, that APPNP gains on GCN, and what each loses over all rates",
        _falls_faster("GCN", "APPNP"),
    ),
    _Question(
        "structure-noise",
        "The margin of APPNP over PTS grows with structure noise.",
        _PER_TEN,
        _gains_with_noise("APPNP", "PTS"),
    ),
    _Question(
        "structure-noise",
        "Above 50 % structure noise the MLP is better than APPNP, PTS and GCN.",
        "Mean accuracy against the best of the three",
        _wins_above_half("MLP", ("APPNP", "PTS", "GCN")),
    ),
    _Question(
        "initialisation",
        "PTD spreads more over initialisations than PTA.",
        _DEVIATION,
        _spreads_more("PTD", "PTA"),
    ),
    _Question(
        "initialisation",
        "PTA is more stable over initialisations than APPNP.",
        _DEVIATION,
        _spreads_more("APPNP", "PTA"),
    ),
    _Question(
        "label-noise",
        "The margin of PTA over APPNP grows with label noise.",
        _PER_TEN,
        _gains_with_noise("PTA", "APPNP"),
    ),
)
