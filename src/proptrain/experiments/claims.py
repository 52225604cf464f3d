"""The paper's qualitative claims as statements that our runs can refute.

Each claim says of some number that it is positive: a margin, a slope, a difference of spreads. Our
runs bear it out if the number's 95 % interval lies above zero, refute it if the interval lies
below, and leave it open if the interval contains zero. Splits are what is resampled: runs on one
split share its training nodes, and would narrow the interval if they passed for independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from proptrain.experiments.grid import counted, listed, scientific, signed
from proptrain.experiments.protocol import Run
from proptrain.experiments.samples import (
    BySplit,
    log_speed_ups,
    margins,
    percentages,
    select,
    slopes,
    spreads,
)
from proptrain.experiments.specs import Experiment
from proptrain.experiments.statistics import (
    FEWEST,
    SIGNIFICANT,
    Estimate,
    bootstrap_clusters,
    paired_p_value,
)
from proptrain.experiments.tasks import runs_of

MUCH_FASTER = 2.0
"""How many times faster is "much faster"; the paper has 7.5 over PTA and 43 over APPNP."""


class Outcome(StrEnum):
    """What runs say of a claim; where several must agree, the first in this order counts."""

    REFUTED = "does not hold"
    NOT_MEASURED = "not measured"
    UNDECIDED = "not shown"
    HOLDS = "holds"


@dataclass(frozen=True)
class Claim:
    """What the paper says, and whether our runs bear it out on every data set."""

    statement: str
    outcome: Outcome
    where: tuple[str, ...]
    """The data sets that bring about this outcome; empty if all of them do."""
    evidence: str
    """What was measured, with numbers for each data set."""

    @property
    def verdict(self) -> str:
        """The outcome in words, and where it is so."""
        return f"{self.outcome} on {listed(self.where)}" if self.where else str(self.outcome)


@dataclass(frozen=True)
class _Finding:
    """What the runs on one data set say."""

    outcome: Outcome
    told: str
    mean: float = math.nan
    """Of the number that the claim says is positive."""


_NOTHING = _Finding(Outcome.NOT_MEASURED, str(Outcome.NOT_MEASURED))
_Check = Callable[[Sequence[Run], str], _Finding]


@dataclass(frozen=True)
class _Question:
    """A claim to be checked on each data set of an experiment."""

    experiment: str
    methods: tuple[str, ...]
    """Those that are compared; without one of them there is nothing to ask."""
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
        if set(question.methods) <= set(by_name[question.experiment].methods)
    )


def _answer(question: _Question, experiment: Experiment, runs: list[Run]) -> Claim:
    own = runs_of(experiment, runs)
    findings = {dataset: question.check(own, dataset) for dataset in experiment.datasets}
    outcome = _joint(findings.values())
    where = tuple(name for name, finding in findings.items() if finding.outcome is outcome)
    told = "; ".join(f"{dataset} {finding.told}" for dataset, finding in findings.items())
    return Claim(
        question.statement,
        outcome,
        where if len(where) < len(findings) else (),
        f"{question.measured}: {told}.",
    )


def _joint(findings: Iterable[_Finding]) -> Outcome:
    """Return the outcome for a claim that must hold in every respect."""
    outcomes = {finding.outcome for finding in findings}
    return next(outcome for outcome in Outcome if outcome in outcomes)


# --- what can be asked of the runs on one data set ----------------------------------------------


def _is_ahead(first: str, second: str) -> _Check:
    """Ask whether the first method is more accurate, run by run."""

    def check(runs: Sequence[Run], dataset: str) -> _Finding:
        return _positive(margins(select(runs, dataset, first), select(runs, dataset, second)))

    return check


def _is_significantly_ahead(first: str, second: str) -> _Check:
    """Ask whether the first method is more accurate by the paper's own test, over the runs.

    The test takes runs on one split as independent, so the interval over splits is told as well.
    """

    def check(runs: Sequence[Run], dataset: str) -> _Finding:
        values = margins(select(runs, dataset, first), select(runs, dataset, second))
        finding = _positive(values)
        if finding.outcome is Outcome.NOT_MEASURED:
            return finding
        each = [margin for own in values.values() for margin in own]
        p_value = paired_p_value(each, [0.0] * len(each))
        outcome = Outcome.HOLDS if fmean(each) > 0 else Outcome.REFUTED
        if not p_value < SIGNIFICANT:
            outcome = Outcome.UNDECIDED
        return replace(finding, outcome=outcome, told=f"{finding.told}, p = {scientific(p_value)}")

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
        if finding.outcome is Outcome.NOT_MEASURED:
            return finding
        falls = ", ".join(
            f"{method} {signed(_fall(select(runs, dataset, method)), 1)}"
            for method in (first, second)
        )
        return replace(finding, told=f"{finding.told}, {falls} in all")

    return check


def _spreads_more(shaky: str, steady: str) -> _Check:
    """Ask whether one method's accuracy varies more over the initialisations of a split."""

    def check(runs: Sequence[Run], dataset: str) -> _Finding:
        first, second = (spreads(select(runs, dataset, method)) for method in (shaky, steady))
        common = sorted(first.keys() & second.keys())
        finding = _positive({split: [first[split] - second[split]] for split in common})
        if finding.outcome is Outcome.NOT_MEASURED:
            return finding
        more, less = (fmean(own[split] for split in common) for own in (first, second))
        return replace(finding, told=f"{more:.2f} against {less:.2f}, {finding.told}")

    return check


def _leads_at(rates: Sequence[float], method: str, rivals: Sequence[str]) -> _Check:
    """Ask whether a method is ahead of every rival at each of these rates of noise."""

    def check(runs: Sequence[Run], dataset: str) -> _Finding:
        return _all_of(
            _prefixed(f"at {100 * rate:g} %", _smallest_lead(runs, dataset, method, rivals, rate))
            for rate in rates
        )

    return check


def _smallest_lead(
    runs: Sequence[Run], dataset: str, method: str, rivals: Sequence[str], rate: float
) -> _Finding:
    """Return what is found against the rival that does most to refute the method's lead."""
    own = select(runs, dataset, method, rate)
    findings = [
        _prefixed(f"over {rival}", _positive(margins(own, select(runs, dataset, rival, rate))))
        for rival in rivals
    ]
    order = list(Outcome)
    return min(findings, key=lambda finding: (order.index(finding.outcome), finding.mean))


def _is_much_faster(fast: str, slow: Sequence[str]) -> _Check:
    """Ask whether a method takes less than half the time of each of the others."""

    def check(runs: Sequence[Run], dataset: str) -> _Finding:
        own = select(runs, dataset, fast)
        return _all_of(
            _prefixed(f"over {other}", _much_faster(own, select(runs, dataset, other)))
            for other in slow
        )

    return check


def _much_faster(fast: Sequence[Run], slow: Sequence[Run]) -> _Finding:
    ratios = log_speed_ups(slow, fast)
    beyond = {split: [one - math.log(MUCH_FASTER) for one in own] for split, own in ratios.items()}
    return _positive(beyond, write=lambda value: f"{MUCH_FASTER * math.exp(value):.1f}")


def _positive(values: BySplit, write: Callable[[float], str] = signed) -> _Finding:
    """Say whether the mean over the splits is above zero, beyond its interval."""
    if len(values) < FEWEST:
        return _NOTHING
    estimate = bootstrap_clusters(values.values())
    mean, low, high = map(write, (estimate.mean, estimate.low, estimate.high))
    told = f"{mean} [{low}, {high}] ({counted(len(values), 'split')})"
    return _Finding(_outcome(estimate), told, estimate.mean)


def _outcome(estimate: Estimate) -> Outcome:
    if estimate.low > 0:
        return Outcome.HOLDS
    return Outcome.REFUTED if estimate.high < 0 else Outcome.UNDECIDED


def _all_of(findings: Iterable[_Finding]) -> _Finding:
    """Join findings that must all hold."""
    findings = list(findings)
    if all(finding.outcome is Outcome.NOT_MEASURED for finding in findings):
        return _NOTHING
    return _Finding(_joint(findings), ", ".join(finding.told for finding in findings))


def _prefixed(words: str, finding: _Finding) -> _Finding:
    return replace(finding, told=f"{words} {finding.told}")


def _fall(runs: Sequence[Run]) -> float:
    """Return the change of the mean accuracy from the lowest rate to the highest."""
    rates = sorted(run.noise for run in runs if run.noise is not None)
    low, high = ([run for run in runs if run.noise == rate] for rate in (rates[0], rates[-1]))
    return fmean(percentages(high)) - fmean(percentages(low))


_POINTS = "Points of accuracy, with the 95 % interval"
_PER_TEN = "Points of accuracy per 10 points of noise, with the 95 % interval"
_DEVIATION = (
    "Standard deviation over the initialisations of a split, and the difference with its "
    "95 % interval"
)
_QUESTIONS = (
    _Question(
        "table4",
        ("APPNP", "APPNP-noe"),
        "The ensemble helps: APPNP is better than APPNP-noe.",
        _POINTS,
        _is_ahead("APPNP", "APPNP-noe"),
    ),
    _Question(
        "table4",
        ("PTS", "APPNP-noa-nof"),
        "Weighting by the graph helps: PTS is better than APPNP-noa-nof.",
        _POINTS,
        _is_ahead("PTS", "APPNP-noa-nof"),
    ),
    _Question(
        "table5",
        ("PTA", "APPNP"),
        "PTA is better than APPNP, with p < 0.05.",
        f"{_POINTS} over the splits, and the paper's paired t-test over the runs",
        _is_significantly_ahead("PTA", "APPNP"),
    ),
    _Question(
        "table7",
        ("PTA(F)", "PTA", "APPNP"),
        f"PTA(F) trains much faster (at least {MUCH_FASTER:g} ×) than PTA and APPNP.",
        "How many times as fast, as a geometric mean with its 95 % interval",
        _is_much_faster("PTA(F)", ("PTA", "APPNP")),
    ),
    _Question(
        "structure-noise",
        ("GCN", "APPNP"),
        "GCN falls faster than APPNP as structure noise grows.",
        f"{_PER_TEN}, that APPNP gains on GCN, and what each loses over all rates",
        _falls_faster("GCN", "APPNP"),
    ),
    _Question(
        "structure-noise",
        ("APPNP", "PTS"),
        "The margin of APPNP over PTS grows with structure noise.",
        _PER_TEN,
        _gains_with_noise("APPNP", "PTS"),
    ),
    _Question(
        "structure-noise",
        ("MLP", "APPNP", "PTS", "GCN"),
        "Above 50 % structure noise the MLP is better than APPNP, PTS and GCN.",
        "Points of accuracy over the strongest rival, with the 95 % interval",
        _leads_at((0.6, 0.7), "MLP", ("APPNP", "PTS", "GCN")),
    ),
    _Question(
        "initialisation",
        ("PTD", "PTA"),
        "PTD spreads more over initialisations than PTA.",
        _DEVIATION,
        _spreads_more("PTD", "PTA"),
    ),
    _Question(
        "initialisation",
        ("APPNP", "PTA"),
        "PTA is more stable over initialisations than APPNP.",
        _DEVIATION,
        _spreads_more("APPNP", "PTA"),
    ),
    _Question(
        "label-noise",
        ("PTA", "APPNP"),
        "The margin of PTA over APPNP grows with label noise.",
        _PER_TEN,
        _gains_with_noise("PTA", "APPNP"),
    ),
)
