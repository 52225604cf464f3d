"""What can be asked of the runs on one data set, and what they say.

Each question is whether some number is positive. Runs bear it out if the number's 95 % interval
lies above zero, refute it if the interval lies below, and leave it open if the interval contains
zero. Splits are what is resampled: runs on one split share its training nodes, and would narrow
the interval if they passed for independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from proptrain.experiments.grid import counted, scientific, signed
from proptrain.experiments.paper import ACCURACY
from proptrain.experiments.protocol import Run
from proptrain.experiments.samples import (
    BySplit,
    accuracies,
    log_speed_ups,
    margins,
    percentages,
    slopes,
    spreads,
)
from proptrain.experiments.statistics import (
    FEWEST,
    SIGNIFICANT,
    Estimate,
    bootstrap_clusters,
    paired_p_value,
)

MUCH_FASTER = 2.0
"""How many times faster is "much faster"; the paper has 7.5 over PTA and 43 over APPNP."""

ByMethod = Mapping[str, Sequence[Run]]
"""The runs of each method on one data set; what is asked is asked of the first method."""


class Outcome(StrEnum):
    """What runs say of a claim; where several must agree, the first in this order counts."""

    REFUTED = "does not hold"
    NOT_MEASURED = "not measured"
    UNDECIDED = "not shown"
    HOLDS = "holds"


@dataclass(frozen=True)
class Finding:
    """What the runs on one data set say."""

    outcome: Outcome
    told: str
    mean: float = math.nan
    """Of the number that the claim says is positive."""


_NOTHING = Finding(Outcome.NOT_MEASURED, str(Outcome.NOT_MEASURED))


def joint_outcome(findings: Iterable[Finding]) -> Outcome:
    """Return the outcome for a claim that must hold in every respect."""
    outcomes = {finding.outcome for finding in findings}
    return next(outcome for outcome in Outcome if outcome in outcomes)


# --- what can be asked --------------------------------------------------------------------------


def is_ahead(runs: ByMethod) -> Finding:
    """Ask whether the first method is more accurate than the second, run by run."""
    first, second = runs.values()
    return _positive(margins(first, second))


def is_significantly_ahead(runs: ByMethod, level: float = SIGNIFICANT) -> Finding:
    """Ask whether the first method is more accurate by the paper's own test, over the runs.

    The test takes runs on one split as independent, so the interval over splits and the same test
    of their means are told as well.
    """
    first, second = runs.values()
    values = margins(first, second)
    finding = _positive(values)
    if finding.outcome is Outcome.NOT_MEASURED:
        return finding
    each = [margin for own in values.values() for margin in own]
    p_value = paired_p_value(each, [0.0] * len(each))
    of_splits = paired_p_value([fmean(own) for own in values.values()], [0.0] * len(values))
    outcome = Outcome.HOLDS if fmean(each) > 0 else Outcome.REFUTED
    if not p_value < level:
        outcome = Outcome.UNDECIDED
    p_values = f"p = {scientific(p_value)}, of the splits' means {scientific(of_splits)}"
    return replace(finding, outcome=outcome, told=f"{finding.told}, {p_values}")


def is_above_published(runs: ByMethod) -> Finding:
    """Ask whether the first method is more accurate than the paper reports of the second."""
    (_, own), (other, _) = runs.items()
    published = ACCURACY[other].get(own[0].dataset) if own else None
    if published is None:
        return _NOTHING
    finding = _positive(
        {
            split: [value - published.mean for value in values]
            for split, values in accuracies(own).items()
        }
    )
    return _prefixed(f"over {published.mean:.2f}", finding)


def takes_at_most(times: float) -> Callable[[ByMethod], Finding]:
    """Ask whether the first method takes at most so many times the epochs of the second."""

    def takes(runs: ByMethod) -> Finding:
        first, second = runs.values()
        ratios = log_speed_ups(first, second, measure=lambda run: run.epochs)
        spare = {split: [math.log(times) - one for one in own] for split, own in ratios.items()}
        finding = _positive(spare)
        if finding.outcome is Outcome.NOT_MEASURED:
            return finding
        return replace(finding, told=_told(ratios, lambda value: f"{math.exp(value):.1f}"))

    return takes


def gains_with_noise(runs: ByMethod) -> Finding:
    """Ask whether the first method's margin over the second grows with the rate of noise."""
    first, second = runs.values()
    return _positive(slopes(first, second))


def falls_faster(runs: ByMethod) -> Finding:
    """Ask whether the first method loses more with the rate of noise; tells both their falls."""
    first, second = runs.values()
    finding = _positive(slopes(second, first))
    if finding.outcome is Outcome.NOT_MEASURED:
        return finding
    falls = ", ".join(f"{method} {signed(_fall(own), 1)}" for method, own in runs.items())
    return replace(finding, told=f"{finding.told}, {falls} in all")


def spreads_more(runs: ByMethod) -> Finding:
    """Ask whether the first method varies more over the initialisations of a split."""
    first, second = map(spreads, runs.values())
    common = sorted(first.keys() & second.keys())
    finding = _positive({split: [first[split] - second[split]] for split in common})
    if finding.outcome is Outcome.NOT_MEASURED:
        return finding
    more, less = (fmean(own[split] for split in common) for own in (first, second))
    return replace(finding, told=f"{more:.2f} against {less:.2f}, {finding.told}")


def leads(runs: ByMethod) -> Finding:
    """Ask whether the first method is ahead of every other; tells of the rival nearest to it."""
    first, *rivals = runs
    findings = [
        _prefixed(f"over {rival}", _positive(margins(runs[first], runs[rival]))) for rival in rivals
    ]
    if all(finding.outcome is Outcome.NOT_MEASURED for finding in findings):
        return _NOTHING
    order = list(Outcome)
    return min(findings, key=lambda finding: (order.index(finding.outcome), finding.mean))


def leads_at(points: Mapping[str, float]) -> Callable[[ByMethod], Finding]:
    """Ask whether the first method is ahead of every other at each point, by what it is called."""

    def leads_there(runs: ByMethod) -> Finding:
        return _all_of(
            _prefixed(f"at {told}", leads(_at(point, runs))) for told, point in points.items()
        )

    return leads_there


def is_not_behind_at(points: Mapping[str, float]) -> Callable[[ByMethod], Finding]:
    """Ask as `leads_at`, but whether it is nowhere clearly behind: no interval lies below zero."""
    leads_there = leads_at(points)

    def is_not_behind(runs: ByMethod) -> Finding:
        finding = leads_there(runs)
        is_open = finding.outcome is Outcome.UNDECIDED
        return replace(finding, outcome=Outcome.HOLDS) if is_open else finding

    return is_not_behind


def _at(point: float, runs: ByMethod) -> ByMethod:
    return {method: [run for run in own if run.point == point] for method, own in runs.items()}


def is_much_faster(runs: ByMethod) -> Finding:
    """Ask whether the first method takes less than half the time of each of the others."""
    first, *others = runs
    return _all_of(
        _prefixed(f"over {other}", _much_faster(runs[first], runs[other])) for other in others
    )


def _much_faster(fast: Sequence[Run], slow: Sequence[Run]) -> Finding:
    ratios = log_speed_ups(slow, fast)
    beyond = {split: [one - math.log(MUCH_FASTER) for one in own] for split, own in ratios.items()}
    return _positive(beyond, write=lambda value: f"{MUCH_FASTER * math.exp(value):.1f}")


# --- what is found ------------------------------------------------------------------------------


def _positive(values: BySplit, write: Callable[[float], str] = signed) -> Finding:
    """Say whether the mean over the splits is above zero, beyond its interval."""
    if len(values) < FEWEST:
        return _NOTHING
    estimate = bootstrap_clusters(values.values())
    return Finding(_outcome(estimate), _told(values, write), estimate.mean)


def _told(values: BySplit, write: Callable[[float], str]) -> str:
    """Write the mean over the splits, its interval, and how many splits there are."""
    estimate = bootstrap_clusters(values.values())
    mean, low, high = map(write, (estimate.mean, estimate.low, estimate.high))
    return f"{mean} [{low}, {high}] ({counted(len(values), 'split')})"


def _outcome(estimate: Estimate) -> Outcome:
    if estimate.low > 0:
        return Outcome.HOLDS
    return Outcome.REFUTED if estimate.high < 0 else Outcome.UNDECIDED


def _all_of(findings: Iterable[Finding]) -> Finding:
    """Join findings that must all hold."""
    findings = list(findings)
    if all(finding.outcome is Outcome.NOT_MEASURED for finding in findings):
        return _NOTHING
    return Finding(joint_outcome(findings), ", ".join(finding.told for finding in findings))


def _prefixed(words: str, finding: Finding) -> Finding:
    return replace(finding, told=f"{words} {finding.told}")


def _fall(runs: Sequence[Run]) -> float:
    """Return the change of the mean accuracy from the lowest rate to the highest."""
    rates = sorted(run.noise for run in runs if run.noise is not None)
    low, high = ([run for run in runs if run.noise == rate] for rate in (rates[0], rates[-1]))
    return fmean(percentages(high)) - fmean(percentages(low))
