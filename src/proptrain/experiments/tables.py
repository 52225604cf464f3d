"""The paper's tables with our numbers beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from statistics import median
from types import MappingProxyType

import numpy as np

from proptrain.data.dataset import Dataset
from proptrain.experiments import paper
from proptrain.experiments.grid import MISSING, Table, plus_minus, scientific, signed
from proptrain.experiments.methods import METHODS
from proptrain.experiments.paper import Published
from proptrain.experiments.protocol import Run
from proptrain.experiments.samples import paired, percentages, select, spreads
from proptrain.experiments.specs import Experiment, Kind
from proptrain.experiments.statistics import Estimate, bootstrap_mean, paired_p_value
from proptrain.experiments.tasks import runs_of

Datasets = Mapping[str, Dataset]
"""Loaded data sets by name; those that are not there are left out of what is measured."""

NO_RUNS = "no runs yet"
SIGNIFICANT = 0.05

_TRAITS = ("pseudo_labels", "graph_weighting", "model_weighting", "ensemble")


def make_table(
    experiment: Experiment, runs: Iterable[Run], datasets: Datasets = MappingProxyType({})
) -> Table:
    """Return the experiment's table, or the numbers behind its figure, from whatever has run."""
    return _MAKERS[experiment.kind](experiment, runs_of(experiment, runs), datasets)


def title_of(experiment: Experiment) -> str:
    """Return the title with the paper's number, where the paper has one.

    >>> from proptrain.experiments.specs import EXPERIMENTS
    >>> title_of(EXPERIMENTS["table2"])
    'Table 2. Statistics of the data sets'
    """
    number = experiment.name.removeprefix("table")
    return f"Table {number}. {experiment.title}" if number.isdigit() else experiment.title


def verdict(published: Published | None, ours: Estimate) -> str:
    """Say on which side of the paper's mean ours lies, if it lies outside of both intervals.

    >>> verdict(Published(75.98, 0.24), Estimate(75.6, 75.4, 75.8))  # 0.38 away, 0.44 allowed
    'inside'
    >>> verdict(Published(75.98, 0.24), Estimate(75.0, 74.8, 75.2))
    'below'
    """
    if published is None or math.isnan(ours.half_width):
        return MISSING
    difference = ours.mean - published.mean
    if abs(difference) <= published.half_width + ours.half_width:
        return "inside"
    return "above" if difference > 0 else "below"


# --- statistics and characteristics -------------------------------------------------------------


def _statistics_table(experiment: Experiment, _: list[Run], datasets: Datasets) -> Table:
    rows: list[tuple[str, ...]] = []
    for name in experiment.datasets:
        published = paper.STATISTICS.get(name)
        ours = _statistics(datasets[name]) if name in datasets else None
        rows += _side_by_side(name, _counts(published), _counts(ours), _sameness(published, ours))
    header = ("data set", "source", "nodes", "edges", "features", "classes", "verdict")
    notes = (
        "Ours are measured: the largest connected component, with undirected edges, each counted "
        "once, and no edge from a node to itself.",
    )
    return Table(title_of(experiment), header, tuple(rows), notes, n_labels=2)


def _statistics(dataset: Dataset) -> tuple[int, int, int, int]:
    n_features = int(dataset.features.shape[1])
    return dataset.n_nodes, dataset.graph.n_edges, n_features, dataset.n_classes


def _counts(counts: tuple[int, ...] | None) -> tuple[str, ...]:
    return (MISSING,) * 4 if counts is None else tuple(f"{count:,}" for count in counts)


def _characteristics_table(experiment: Experiment, _: list[Run], __: Datasets) -> Table:
    rows: list[tuple[str, ...]] = []
    for name in experiment.methods:
        published = paper.CHARACTERISTICS.get(name)
        ours = _traits(name)
        rows += _side_by_side(name, _ticks(published), _ticks(ours), _sameness(published, ours))
    header = (
        "method",
        "source",
        "pseudo-labels",
        "graph weighting",
        "model weighting",
        "ensemble",
        "verdict",
    )
    return Table(title_of(experiment), header, tuple(rows), ("✓ yes, × no.",), n_labels=2)


def _traits(name: str) -> tuple[bool, ...] | None:
    traits = getattr(METHODS.get(name), "traits", None)
    if traits is None:
        return None
    return tuple(getattr(traits, trait) for trait in _TRAITS)


def _ticks(traits: tuple[bool, ...] | None) -> tuple[str, ...]:
    return (MISSING,) * 4 if traits is None else tuple("✓" if has else "×" for has in traits)


def _side_by_side(
    name: str, published: tuple[str, ...], ours: tuple[str, ...], sameness: str
) -> list[tuple[str, ...]]:
    return [(name, "paper", *published, ""), (name, "ours", *ours, sameness)]


def _sameness(published: object, ours: object) -> str:
    if published is None or ours is None:
        return MISSING
    return "same" if published == ours else "differs"


# --- accuracy -----------------------------------------------------------------------------------


def _accuracy_table(experiment: Experiment, runs: list[Run], _: Datasets) -> Table:
    rows: list[tuple[str, ...]] = []
    tested = {"PTA", "APPNP"} <= set(experiment.methods)
    for dataset in experiment.datasets:
        for method in experiment.methods:
            own = select(runs, dataset, method)
            rows.append((dataset, method, *_accuracy_cells(dataset, method, own, experiment)))
        if tested:
            rows.append((dataset, "PTA vs APPNP", *_test_cells(dataset, runs)))
    header = ("data set", "method", "paper, %", "ours, %", "difference", "verdict", "runs")
    notes = (
        "Mean accuracy on the test nodes ± half the width of its 95 % bootstrap interval; the "
        "paper's are over 100 runs.",
        "“inside”: our mean lies within the paper's half-width plus ours of the paper's mean.",
        *("p: paired t-test over the splits and initialisations that both have run.",) * tested,
    )
    return Table(title_of(experiment), header, tuple(rows), notes, n_labels=2)


def _accuracy_cells(
    dataset: str, method: str, runs: tuple[Run, ...], experiment: Experiment
) -> tuple[str, ...]:
    published = paper.ACCURACY.get(method, {}).get(dataset)
    told = plus_minus(published.mean, published.half_width) if published else MISSING
    counted = f"{len(runs)} of {experiment.n_runs}"
    if not runs:
        return told, NO_RUNS, MISSING, MISSING, counted
    ours = bootstrap_mean(percentages(runs))
    difference = signed(ours.mean - published.mean) if published else MISSING
    mean = plus_minus(ours.mean, ours.half_width)
    return told, mean, difference, verdict(published, ours), counted


def _test_cells(dataset: str, runs: list[Run]) -> tuple[str, ...]:
    published = paper.P_VALUES.get(dataset)
    told = f"p = {scientific(published)}" if published is not None else MISSING
    pta, appnp = paired(select(runs, dataset, "PTA"), select(runs, dataset, "APPNP"))
    if len(pta) < 2:
        return told, NO_RUNS, MISSING, MISSING, f"{len(pta)} pairs"
    p_value = paired_p_value(pta, appnp)
    lead = float(np.mean(pta) - np.mean(appnp))
    return told, f"p = {scientific(p_value)}", MISSING, _winner(lead, p_value), f"{len(pta)} pairs"


def _winner(lead: float, p_value: float) -> str:
    if math.isnan(p_value):
        return MISSING
    if p_value >= SIGNIFICANT:
        return f"p ≥ {SIGNIFICANT}"
    return "PTA better" if lead > 0 else "APPNP better"


# --- time ---------------------------------------------------------------------------------------


def _epoch_time_table(experiment: Experiment, runs: list[Run], _: Datasets) -> Table:
    return _time_table(
        experiment, runs, paper.MS_PER_EPOCH, lambda run: 1000 * seconds_per_epoch(run), "ms"
    )


def _total_time_table(experiment: Experiment, runs: list[Run], _: Datasets) -> Table:
    return _time_table(experiment, runs, paper.TOTAL_SECONDS, lambda run: run.seconds, "s")


def _time_table(
    experiment: Experiment,
    runs: list[Run],
    published: Mapping[str, Mapping[str, float]],
    measure: Callable[[Run], float],
    unit: str,
) -> Table:
    rows: list[tuple[str, ...]] = []
    for dataset in experiment.datasets:
        own = {method: select(runs, dataset, method) for method in experiment.methods}
        theirs = {method: published.get(method, {}).get(dataset, math.nan) for method in own}
        ours = {method: median_of(measure, timed) for method, timed in own.items()}
        for method, timed in own.items():
            told = _time(ours[method], unit) if timed else NO_RUNS
            counted = f"{len(timed)} of {experiment.n_runs}"
            rows.append((dataset, method, _time(theirs[method], unit), told, counted))
        for slow, fast in combinations(experiment.methods, 2):
            ratios = (_ratio(speed_up(times[slow], times[fast])) for times in (theirs, ours))
            rows.append((dataset, f"{slow} / {fast}", *ratios, ""))
    header = ("data set", "method", "paper, on a GPU", "ours", "runs")
    notes = (
        "Medians over runs that had the machine to themselves.",
        "Times on different machines cannot be compared, their ratios can: hence no verdict.",
    )
    return Table(title_of(experiment), header, tuple(rows), notes, n_labels=2)


def median_of(measure: Callable[[Run], float], runs: Sequence[Run]) -> float:
    """Return the median of what is measured of the runs; NaN without runs."""
    return median(map(measure, runs)) if runs else math.nan


def speed_up(slow: float, fast: float) -> float:
    """Return how many times as long the slow one takes; NaN if the fast one is too fast to time."""
    return slow / fast if fast else math.nan


def seconds_per_epoch(run: Run) -> float:
    """Return the time of a run for each of its epochs, its setting up included."""
    return run.seconds / max(run.epochs, 1)


def _time(value: float, unit: str) -> str:
    return MISSING if math.isnan(value) else f"{value:.2f} {unit}"


def _ratio(value: float) -> str:
    return MISSING if math.isnan(value) else f"{value:.1f} ×"


# --- the numbers behind the figures -------------------------------------------------------------


def _curve_table(experiment: Experiment, runs: list[Run], _: Datasets) -> Table:
    rates = [rate for rate in experiment.rates if rate is not None]
    rows = [
        (dataset, method, *(_mean_cell(select(runs, dataset, method, rate)) for rate in rates))
        for dataset in experiment.datasets
        for method in experiment.methods
    ]
    header = ("data set", "method", *(f"{100 * rate:g} %" for rate in rates))
    kind = "edges that join two classes" if experiment.noise == "structure" else "wrong labels"
    notes = (
        f"Mean accuracy in per cent ± half the width of its 95 % interval, by the share of {kind}.",
    )
    return Table(title_of(experiment), header, tuple(rows), notes, n_labels=2)


def _mean_cell(runs: Sequence[Run]) -> str:
    if not runs:
        return MISSING
    ours = bootstrap_mean(percentages(runs))
    return plus_minus(ours.mean, ours.half_width, digits=1)


def _box_table(experiment: Experiment, runs: list[Run], _: Datasets) -> Table:
    rows = [
        (dataset, method, *_box_cells(select(runs, dataset, method), experiment.n_runs))
        for dataset in experiment.datasets
        for method in experiment.methods
    ]
    header = ("data set", "method", "median, %", "middle half, %", "spread", "runs")
    notes = (
        "The middle half reaches from the first quartile to the third.",
        "Spread: standard deviation over the initialisations of a split, in points, averaged over "
        "the splits.",
    )
    return Table(title_of(experiment), header, tuple(rows), notes, n_labels=2)


def _box_cells(runs: Sequence[Run], n_runs: int) -> tuple[str, ...]:
    if not runs:
        return NO_RUNS, MISSING, MISSING, f"0 of {n_runs}"
    low, middle, high = np.percentile(percentages(runs), [25, 50, 75])
    by_split = spreads(runs)
    spread = f"{np.mean(list(by_split.values())):.2f}" if by_split else MISSING
    return f"{middle:.2f}", f"{low:.2f} to {high:.2f}", spread, f"{len(runs)} of {n_runs}"


_MAKERS: dict[Kind, Callable[[Experiment, list[Run], Datasets], Table]] = {
    "statistics": _statistics_table,
    "characteristics": _characteristics_table,
    "accuracy": _accuracy_table,
    "epoch-time": _epoch_time_table,
    "total-time": _total_time_table,
    "curve": _curve_table,
    "box": _box_table,
}
