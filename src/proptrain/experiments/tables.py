"""The paper's tables with our numbers beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

import numpy as np

from proptrain.data.dataset import Dataset
from proptrain.experiments import paper
from proptrain.experiments.grid import (
    MISSING,
    Table,
    counted,
    listed,
    plus_minus,
    scientific,
    signed,
)
from proptrain.experiments.methods import METHODS, Method
from proptrain.experiments.paper import Published
from proptrain.experiments.protocol import Run
from proptrain.experiments.samples import (
    median_of,
    paired,
    percentages,
    seconds_per_epoch,
    select,
    speed_up,
    spreads,
)
from proptrain.experiments.specs import Experiment, Kind
from proptrain.experiments.statistics import (
    FEWEST,
    SIGNIFICANT,
    Estimate,
    bootstrap_mean,
    paired_p_value,
)
from proptrain.experiments.tasks import list_tasks, runs_of
from proptrain.models.gnn import GNNClassifier

Datasets = Mapping[str, Dataset]
"""Loaded data sets by name; those that are not there are left out of what is measured."""

NO_RUNS = "no runs yet"
TOO_FEW = "too few runs"
DEVIATIONS = "docs/deviations.md"
OUTSIDE = ("above", "below")
"""The verdicts on a mean that is not the paper's."""

_TEST = "PTA vs APPNP"
_TEST_NOTE = (
    "p: paired t-test over the splits and initialisations that both have run, as if independent."
)


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
        ours = characteristics(METHODS[name])
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
    notes = ("✓ yes, × no. Ours are read off the settings that the method's classifier has.",)
    return Table(title_of(experiment), header, tuple(rows), notes, n_labels=2)


def characteristics(method: Method) -> tuple[bool, bool, bool, bool]:
    """Return what the method's classifier is made to do, in the order of Table 3's columns.

    Through the graph, a label teaches every node that it reaches, so it is their pseudo-label.
    Training through the graph weighs it by the network's confidence as well (Lemma 1).

    >>> characteristics(METHODS["PTS"])
    (True, True, False, True)
    """
    classifier = method.make(alpha=0.1, steps=10, seed=0)
    settings = classifier.get_params()
    if not method.uses_graph:
        return False, False, False, False
    weighs_by_graph = settings.get("equal_hops") is None
    through_graph = isinstance(classifier, GNNClassifier)
    weighs_by_model = through_graph or settings.get("weighting", "static") != "static"
    return True, weighs_by_graph, weighs_by_model, bool(settings.get("ensemble", True))


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
            rows.append((dataset, method, *_accuracy_cells(experiment, dataset, method, own)))
        if tested:
            rows.append((dataset, _TEST, *_test_cells(experiment, dataset, runs)))
    header = ("data set", "method", "paper, %", "ours, %", "difference", "verdict", "runs")
    notes = (
        "Mean accuracy in per cent ± half the width of its 95 % bootstrap interval over the runs.",
        *_comparison_notes(experiment, rows),
        *(_TEST_NOTE,) * tested,
    )
    return Table(title_of(experiment), header, tuple(rows), notes, n_labels=2)


def _comparison_notes(experiment: Experiment, rows: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
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


def _outside_note(rows: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    outside = [f"{row[1]} on {row[0]} ({row[-2]})" for row in rows if row[-2] in OUTSIDE]
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
    done = _done(experiment, dataset, method, len(runs))
    if not runs:
        return told, NO_RUNS, MISSING, MISSING, done
    ours = bootstrap_mean(percentages(runs))
    mean = plus_minus(ours.mean, ours.half_width)
    if not published:
        return told, mean, MISSING, MISSING, done
    judged = verdict(published, ours) if len(runs) >= FEWEST else TOO_FEW
    return told, mean, signed(ours.mean - published.mean), judged, done


def _done(experiment: Experiment, dataset: str, method: str, n_done: int) -> str:
    """Say how many runs there are of those wanted; some methods differ by their splits alone."""
    wanted = list_tasks([experiment.narrowed(datasets=[dataset], methods=[method])])
    return f"{n_done} of {len(wanted)}"


def _test_cells(experiment: Experiment, dataset: str, runs: list[Run]) -> tuple[str, ...]:
    published = None if experiment.validation else paper.P_VALUES.get(dataset)
    told = MISSING if published is None else f"p = {scientific(published)}"
    pta, appnp = paired(select(runs, dataset, "PTA"), select(runs, dataset, "APPNP"))
    pairs = counted(len(pta), "pair")
    if not pta:
        return told, "no pairs yet", MISSING, MISSING, pairs
    p_value = paired_p_value(pta, appnp)
    ours = MISSING if math.isnan(p_value) else f"p = {scientific(p_value)}"
    lead = float(np.mean(pta) - np.mean(appnp))
    judged = _winner(lead, p_value) if len(pta) >= FEWEST else TOO_FEW
    return told, ours, MISSING, judged, pairs


def _winner(lead: float, p_value: float) -> str:
    if math.isnan(p_value):
        return MISSING
    if p_value >= SIGNIFICANT:
        return f"p ≥ {SIGNIFICANT}"
    return "PTA better" if lead > 0 else "APPNP better"


# --- time ---------------------------------------------------------------------------------------


def _epoch_time_table(experiment: Experiment, runs: list[Run], _: Datasets) -> Table:
    return _time_table(
        experiment,
        runs,
        paper.MS_PER_EPOCH,
        lambda run: 1000 * seconds_per_epoch(run),
        "ms",
        "Ours is the median over the runs of the time of the whole fit divided by its epochs, the "
        "evaluation of the stopping nodes after each epoch included. The paper's seems to leave "
        "evaluation out: its total times for PTA divided by its times per epoch exceed the 2,000 "
        "epochs that it allows. So not even the ratios are quite like for like.",
    )


def _total_time_table(experiment: Experiment, runs: list[Run], _: Datasets) -> Table:
    return _time_table(
        experiment,
        runs,
        paper.TOTAL_SECONDS,
        lambda run: run.seconds,
        "s",
        "Ours is the median over the runs of the time of the whole fit.",
    )


def _time_table(
    experiment: Experiment,
    runs: list[Run],
    published: Mapping[str, Mapping[str, float]],
    measure: Callable[[Run], float],
    unit: str,
    what: str,
) -> Table:
    rows: list[tuple[str, ...]] = []
    for dataset in experiment.datasets:
        own = {method: select(runs, dataset, method) for method in experiment.methods}
        theirs = {method: published.get(method, {}).get(dataset, math.nan) for method in own}
        ours = {method: median_of(measure, timed) for method, timed in own.items()}
        for method, timed in own.items():
            told = _time(ours[method], unit) if timed else NO_RUNS
            done = f"{len(timed)} of {experiment.n_runs}"
            rows.append((dataset, method, _time(theirs[method], unit), told, done))
        for slow, fast in combinations(experiment.methods, 2):
            ratios = (_ratio(speed_up(times[slow], times[fast])) for times in (theirs, ours))
            rows.append((dataset, f"{slow} / {fast}", *ratios, ""))
    header = ("data set", "method", "paper, on a GPU", "ours", "runs")
    notes = (
        what,
        "Our runs were made one at a time; that other programs ran on the machine cannot be "
        "excluded.",
        "Times on different machines cannot be compared, only their ratios: hence no verdict.",
    )
    return Table(title_of(experiment), header, tuple(rows), notes, n_labels=2)


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
    counts = [
        len(select(runs, dataset, method, rate))
        for dataset in experiment.datasets
        for method in experiment.methods
        for rate in rates
    ]
    notes = (
        f"Mean accuracy in per cent ± half the width of its 95 % interval, by the share of {kind}.",
        f"Runs behind each number: {_range(counts)} of {experiment.n_runs}.",
    )
    return Table(title_of(experiment), header, tuple(rows), notes, n_labels=2)


def _range(counts: Sequence[int]) -> str:
    """Write the smallest and the largest of some numbers.

    >>> _range([3, 10, 7]), _range([10, 10])
    ('3 to 10', '10')
    """
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


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
