"""Tables 4, 5 and 8: accuracies beside the paper's, and the test of PTA against APPNP."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from proptrain.experiments import paper
from proptrain.experiments.grid import (
    MISSING,
    NO_RUNS,
    Table,
    counted,
    listed,
    plus_minus,
    scientific,
    signed,
)
from proptrain.experiments.paper import Published
from proptrain.experiments.protocol import Run
from proptrain.experiments.samples import (
    epoch_ratio,
    paired,
    percentages,
    select,
)
from proptrain.experiments.specs import Experiment
from proptrain.experiments.statistics import (
    FEWEST,
    SIGNIFICANT,
    Estimate,
    bootstrap_mean,
    paired_p_value,
)
from proptrain.experiments.tasks import list_tasks

TOO_FEW = "too few runs"
DEVIATIONS = "docs/deviations.md"
OUTSIDE = ("above", "below")
"""The verdicts on a mean that is not the paper's."""

_TESTS = (("PTA", "APPNP"), ("PTA+", "PTA"))
"""Who is said to be better than whom."""
_TEST_NOTE = (
    "p: paired t-test over the splits and initialisations that both have run, as if independent."
)


def accuracy_table(experiment: Experiment, runs: Sequence[Run]) -> Table:
    """Return mean accuracies with their intervals, differences and verdicts."""
    rows: list[tuple[str, ...]] = []
    tests = [pair for pair in _TESTS if set(pair) <= set(experiment.methods)]
    for dataset in experiment.datasets:
        for method in experiment.methods:
            own = select(runs, dataset, method)
            rows.append((dataset, method, *_accuracy_cells(experiment, dataset, method, own)))
        for better, worse in tests:
            cells = _test_cells(experiment, dataset, runs, better, worse)
            rows.append((dataset, f"{better} vs {worse}", *cells))
    header = ("data set", "method", "paper, %", "ours, %", "difference", "verdict", "runs")
    notes = (
        "Mean accuracy in per cent ± half the width of its 95 % bootstrap interval over the runs.",
        *_comparison_notes(experiment, rows),
        *(_TEST_NOTE,) * bool(tests),
        *_cost_note(experiment, runs),
    )
    return Table(experiment.heading, header, tuple(rows), notes, n_labels=2)


def verdict(published: Published, ours: Estimate) -> str:
    """Say on which side of the paper's mean ours lies, if it lies outside of both intervals.

    >>> verdict(Published(75.98, 0.24), Estimate(75.6, 75.4, 75.8))  # 0.38 away, 0.44 allowed
    'inside'
    >>> verdict(Published(75.98, 0.24), Estimate(75.0, 74.8, 75.2))
    'below'
    """
    difference = ours.mean - published.mean
    if abs(difference) <= published.half_width + ours.half_width:
        return "inside"
    above, below = OUTSIDE
    return above if difference > 0 else below


def _comparison_notes(experiment: Experiment, rows: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Say what our numbers may be compared with, and where they differ."""
    if experiment.validation:
        return (
            "Ours are on the validation seeds and nodes, which are for settling choices; the "
            "paper's are on test nodes, so they are not set beside them.",
        )
    if not any(_published(experiment, *row[:2]) for row in rows):
        return ("The paper has no numbers for these methods.",)
    return (
        "The paper's are over 100 runs.",
        "“inside”: our mean lies within the paper's half-width plus ours of the paper's mean. "
        f"Fewer than {FEWEST} runs are not judged.",
        *_outside_note(rows),
    )


def _cost_note(experiment: Experiment, runs: Sequence[Run]) -> tuple[str, ...]:
    """Say how many epochs PTA+ takes for one of PTA, where both have run."""
    if not {"PTA+", "PTA"} <= set(experiment.methods):
        return ()
    ratios = [
        f"{ratio:.1f} on {dataset}"
        for dataset in experiment.datasets
        if (ratio := epoch_ratio(*(select(runs, dataset, name) for name in ("PTA+", "PTA")))) > 0
    ]
    return (f"Epochs of PTA+ for one of PTA: {listed(ratios)}.",) if ratios else ()


def _outside_note(rows: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Name the means that are not the paper's."""
    outside = [
        f"{method} on {dataset} ({side})"
        for dataset, method, *_, side, _ in rows
        if side in OUTSIDE
    ]
    if not outside:
        return ()
    return (f"Outside: {listed(outside)}. What we know of the reasons is in {DEVIATIONS}.",)


def _published(experiment: Experiment, dataset: str, method: str) -> Published | None:
    """Return the paper's number, if it is of the same nodes as ours."""
    return None if experiment.validation else paper.ACCURACY.get(method, {}).get(dataset)


def _accuracy_cells(
    experiment: Experiment, dataset: str, method: str, runs: tuple[Run, ...]
) -> tuple[str, ...]:
    published = _published(experiment, dataset, method)
    told = plus_minus(published.mean, published.half_width) if published else MISSING
    done = runs_done(experiment, dataset, method, len(runs))
    if not runs:
        return told, NO_RUNS, MISSING, MISSING, done
    ours = bootstrap_mean(percentages(runs))
    mean = plus_minus(ours.mean, ours.half_width)
    if not published:
        return told, mean, MISSING, MISSING, done
    judged = verdict(published, ours) if len(runs) >= FEWEST else TOO_FEW
    return told, mean, signed(ours.mean - published.mean), judged, done


def runs_done(experiment: Experiment, dataset: str, method: str, n_done: int) -> str:
    """Say how many runs there are of those wanted; some methods differ by their splits alone."""
    wanted = list_tasks([experiment.narrowed(datasets=[dataset], methods=[method])])
    return f"{n_done} of {len(wanted)}"


def _test_cells(
    experiment: Experiment, dataset: str, runs: Sequence[Run], better: str, worse: str
) -> tuple[str, ...]:
    is_papers = not experiment.validation and (better, worse) == _TESTS[0]
    published = paper.P_VALUES.get(dataset) if is_papers else None
    told = MISSING if published is None else f"p = {scientific(published)}"
    first, second = paired(select(runs, dataset, better), select(runs, dataset, worse))
    pairs = counted(len(first), "pair")
    if not first:
        return told, "no pairs yet", MISSING, MISSING, pairs
    p_value = paired_p_value(first, second)
    ours = MISSING if math.isnan(p_value) else f"p = {scientific(p_value)}"
    lead = float(np.mean(first) - np.mean(second))
    judged = _winner(lead, p_value, better, worse) if len(first) >= FEWEST else TOO_FEW
    return told, ours, signed(lead), judged, pairs


def _winner(lead: float, p_value: float, better: str, worse: str) -> str:
    if math.isnan(p_value):
        return MISSING
    if p_value >= SIGNIFICANT:
        return f"p ≥ {SIGNIFICANT}"
    return f"{better if lead > 0 else worse} better"
