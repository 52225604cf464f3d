"""The paper's qualitative claims, and ours of PTA+, as statements that our runs can refute.

Each claim says of some number that it is positive on every data set: a margin, a slope, a
difference of spreads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from proptrain.experiments.findings import (
    MUCH_FASTER,
    ByMethod,
    Finding,
    Outcome,
    falls_faster,
    gains_with_noise,
    is_above_published,
    is_ahead,
    is_much_faster,
    is_not_behind_at,
    is_significantly_ahead,
    joint_outcome,
    leads,
    leads_at,
    spreads_more,
    takes_at_most,
)
from proptrain.experiments.grid import listed
from proptrain.experiments.protocol import Run
from proptrain.experiments.samples import select
from proptrain.experiments.specs import Experiment
from proptrain.experiments.tasks import runs_of


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
class _Question:
    """A claim to be checked on each data set of an experiment."""

    experiment: str
    methods: tuple[str, ...]
    """The first is compared with the others; without one of them there is nothing to ask."""
    statement: str
    measured: str
    check: Callable[[ByMethod], Finding]


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
    findings = {
        dataset: question.check({name: select(own, dataset, name) for name in question.methods})
        for dataset in experiment.datasets
    }
    outcome = joint_outcome(findings.values())
    where = tuple(name for name, finding in findings.items() if finding.outcome is outcome)
    told = "; ".join(f"{dataset} {finding.told}" for dataset, finding in findings.items())
    return Claim(
        question.statement,
        outcome,
        where if len(where) < len(findings) else (),
        f"{question.measured}: {told}.",
    )


_POINTS = "Points of accuracy, with the 95 % interval"
_OVER_RIVAL = "Points of accuracy over the strongest rival, with the 95 % interval"
_PER_TEN = "Points of accuracy per 10 points of noise, with the 95 % interval"
_OVER_SPLITS = f"{_POINTS} over the splits, and the paper's paired t-test over the runs"
_RIVALS = ("LP", "APPNP", "PTA")
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
        is_ahead,
    ),
    _Question(
        "table4",
        ("PTS", "APPNP-noa-nof"),
        "Weighting by the graph helps: PTS is better than APPNP-noa-nof.",
        _POINTS,
        is_ahead,
    ),
    _Question(
        "table5",
        ("PTA", "APPNP"),
        "PTA is better than APPNP, with p < 0.05.",
        _OVER_SPLITS,
        is_significantly_ahead,
    ),
    _Question(
        "table5",
        ("PTA", "MLP", "GCN", "SGCN", "APPNP#", "DAGNN", "APPNP"),
        "PTA leads every other method of Table 5.",
        _OVER_RIVAL,
        leads,
    ),
    _Question(
        "table7",
        ("PTA(F)", "PTA", "APPNP"),
        f"PTA(F) trains much faster (at least {MUCH_FASTER:g} ×) than PTA and APPNP.",
        "How many times as fast, as a geometric mean with its 95 % interval",
        is_much_faster,
    ),
    _Question(
        "structure-noise",
        ("GCN", "APPNP"),
        "GCN falls faster than APPNP as structure noise grows.",
        f"{_PER_TEN}, that APPNP gains on GCN, and what each loses over all rates",
        falls_faster,
    ),
    _Question(
        "structure-noise",
        ("APPNP", "PTS"),
        "The margin of APPNP over PTS grows with structure noise.",
        _PER_TEN,
        gains_with_noise,
    ),
    _Question(
        "structure-noise",
        ("MLP", "APPNP", "PTS", "GCN"),
        "Above 50 % structure noise the MLP is better than APPNP, PTS and GCN.",
        _OVER_RIVAL,
        leads_at({"60 %": 0.6, "70 %": 0.7}),
    ),
    _Question(
        "initialisation",
        ("PTD", "PTA"),
        "PTD spreads more over initialisations than PTA.",
        _DEVIATION,
        spreads_more,
    ),
    _Question(
        "initialisation",
        ("APPNP", "PTA"),
        "PTA is more stable over initialisations than APPNP.",
        _DEVIATION,
        spreads_more,
    ),
    _Question(
        "initialisation",
        ("APPNP", "PTS"),
        "APPNP is more sensitive to the initialisation than PTS.",
        _DEVIATION,
        spreads_more,
    ),
    _Question(
        "label-noise",
        ("PTA", "PTS"),
        "PTA’s margin over PTS grows with label noise.",
        _PER_TEN,
        gains_with_noise,
    ),
    _Question(
        "label-noise",
        ("PTA", "APPNP"),
        "The margin of PTA over APPNP grows with label noise.",
        _PER_TEN,
        gains_with_noise,
    ),
    _Question(
        "plus",
        ("PTA+", "PTA"),
        "PTA+ is better than the paper's PTA, by the mean that the paper reports.",
        f"{_POINTS} over the splits",
        is_above_published,
    ),
    _Question(
        "plus",
        ("PTA+", "PTA"),
        "PTA+ is better than our PTA, with p < 0.0001.",
        _OVER_SPLITS,
        partial(is_significantly_ahead, level=1e-4),
    ),
    _Question(
        "plus",
        ("PTA+", "PTA"),
        "PTA+ takes at most 4 times the epochs of PTA.",
        "How many times as many, as a geometric mean with its 95 % interval",
        takes_at_most(4.0),
    ),
    _Question(
        "few-labels",
        ("PTA+", *_RIVALS),
        "With one and with two labels per class PTA+ is better than LP, APPNP and PTA.",
        _OVER_RIVAL,
        leads_at({"1 label": 1, "2 labels": 2}),
    ),
    _Question(
        "few-labels",
        ("PTA+", *_RIVALS),
        "With five and with ten labels per class PTA+ is not clearly behind LP, APPNP or PTA.",
        _OVER_RIVAL,
        is_not_behind_at({"5 labels": 5, "10 labels": 10}),
    ),
    _Question(
        "labels-alone",
        ("PTA+", *_RIVALS),
        "Without labels to stop by PTA+ is better than LP, APPNP and PTA with 1 to 10 per class.",
        _OVER_RIVAL,
        leads_at({"1 label": 1, "2 labels": 2, "5 labels": 5, "10 labels": 10}),
    ),
    *(
        _Question(
            f"wrong-{where}",
            ("PTA+", *_RIVALS),
            f"With {what} PTA+ is better than LP, APPNP and PTA from 10 % on.",
            _OVER_RIVAL,
            leads_at({f"{10 * tenths} %": tenths / 10 for tenths in range(1, 6)}),
        )
        for where, what in {
            "labels": "wrong labels of any class",
            "labels-pair": "wrong labels of the next class",
            "stopping": "wrong labels of any class, also of the stopping nodes,",
            "stopping-pair": "wrong labels of the next class, also of the stopping nodes,",
        }.items()
    ),
)
