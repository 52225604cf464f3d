"""The figures: accuracy against noise or labels, and accuracy over many runs.

One panel for each data set, two in a row, told apart by markers, dashes and labels as well as by
colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cbook import boxplot_stats
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from proptrain.data.dataset import Dataset
from proptrain.data.noise import noise_rate
from proptrain.experiments.grid import counted, listed
from proptrain.experiments.protocol import Run
from proptrain.experiments.samples import percentages, select
from proptrain.experiments.specs import Experiment
from proptrain.experiments.statistics import bootstrap_mean
from proptrain.experiments.tasks import MAX_RUNS, runs_of
from proptrain.report.svg import (
    BLUE,
    FONT_SIZE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    WIDTH,
    inline_svg,
    position,
    shortened,
    style,
    text_width,
)

_COLUMNS = 2
_LEFT, _RIGHT, _GAP = 40.0, 6.0, 46.0
_LEGEND_LINE, _TITLE, _X_LABEL = 14.0, 26.0, 16.0  # heights
_PANEL_WIDTH, _PANEL_HEIGHT = (WIDTH - _LEFT - _RIGHT - _GAP) / _COLUMNS, 140.0
_HANDLE, _BETWEEN = 3.4, 2.2  # of a legend: lengths of a line and of a gap, in letters' heights
_LOOKS: dict[str, dict[str, Any]] = {
    "PTA": {"color": BLUE, "marker": "o", "linestyle": "-"},
    "PTA+": {"color": PURPLE, "marker": "h", "linestyle": (0, (12, 1.6))},
    "APPNP": {"color": ORANGE, "marker": "s", "linestyle": (0, (5, 1.6))},
    "PTS": {"color": GREEN, "marker": "^", "linestyle": (0, (5, 1.6, 1, 1.6))},
    "GCN": {"color": PURPLE, "marker": "D", "linestyle": (0, (2, 1.4))},
    "MLP": {"color": INK, "marker": "v", "linestyle": (0, (1, 1.2))},
}
"""The same for a method in every figure."""
_SPARE_LOOKS: tuple[dict[str, Any], ...] = (
    {"color": INK, "marker": "P", "linestyle": (0, (8, 2))},
    {"color": BLUE, "marker": "X", "linestyle": (0, (8, 2, 2, 2))},
    {"color": ORANGE, "marker": "p", "linestyle": (0, (3, 3))},
    {"color": GREEN, "marker": "*", "linestyle": (0, (1, 3))},
)


def make_figure(
    experiment: Experiment,
    runs: Iterable[Run],
    datasets: Mapping[str, Dataset] = MappingProxyType({}),
) -> str:
    """Return the experiment's figure as inline SVG, drawn from whatever has run."""
    own = runs_of(experiment, runs)
    if experiment.kind == "box":
        return _box_figure(experiment, own)
    return _curve_figure(experiment, own, datasets)


def caption_of(experiment: Experiment) -> str:
    """Say how to read the experiment's figure."""
    if experiment.kind == "box":
        return (
            "Boxes hold the middle half of the runs, the thick line is their median; whiskers "
            "reach to the last run within 1.5 boxes' heights, rings are runs beyond, and an arrow "
            "with a number says how many lie below what is drawn; n is the number of runs."
        )
    own_rate = " The dashed upright line is the graph's own rate of noise."
    return (
        "Mean accuracy over the runs; upright strokes are its 95 % bootstrap intervals."
        f"{own_rate * (experiment.noise == 'structure')}"
    )


# --- accuracy against noise or labels -----------------------------------------------------------


def _curve_figure(experiment: Experiment, runs: list[Run], datasets: Mapping[str, Dataset]) -> str:
    looks = _looks(experiment.methods)
    with style():
        n_columns = _legend_columns(experiment.methods)
        legend = 10 + _LEGEND_LINE * -(-len(looks) // n_columns)
        figure, panels = _panels(experiment.datasets, ticks=20, legend=legend, x_label=_X_LABEL)
        for name, axes in panels.items():
            _draw_curves(axes, experiment, [run for run in runs if run.dataset == name], looks)
            if experiment.noise == "structure" and name in datasets:
                _mark_own_rate(axes, noise_rate(datasets[name].graph, datasets[name].labels))
        unit = "" if experiment.noise is None else ", %"
        for axes in _lowest(panels):
            axes.set_xlabel(f"{experiment.axis}{unit}", labelpad=4)
        _legend(figure, looks, n_columns)
        what = f"accuracy of {listed(experiment.methods)} against {experiment.axis}"
        label = f"{experiment.title}: {what}"
        return inline_svg(figure, experiment.name, label, _told_curves(experiment, runs))


def _draw_curves(
    axes: Axes, experiment: Experiment, runs: list[Run], looks: Mapping[str, dict[str, Any]]
) -> None:
    wheres = _places(experiment)
    width = max(wheres.values()) - min(wheres.values())
    for place, (method, look) in enumerate(looks.items()):
        # Side by side, so that no interval hides another.
        shift = (place - (len(looks) - 1) / 2) * 0.006 * width
        means = [
            (where + shift, bootstrap_mean(percentages(own)))
            for point, where in wheres.items()
            if (own := [run for run in runs if run.method == method and run.point == point])
        ]
        if not means:
            continue
        x = [where for where, _ in means]
        for where, estimate in means:
            axes.plot(
                [where] * 2, [estimate.low, estimate.high], color=look["color"], linewidth=0.9
            )
        axes.plot(x, [estimate.mean for _, estimate in means], markersize=4, **look)
    _finish(axes, empty=not runs)
    margin = 0.04 * width or 1
    axes.set_xlim(min(wheres.values()) - margin, max(wheres.values()) + margin)
    axes.set_xticks(list(wheres.values()), [experiment.tell(one).rstrip(" %") for one in wheres])


def _places(experiment: Experiment) -> dict[float, float]:
    """Return where on the axis each point is: rates as they are, numbers of labels evenly."""
    if experiment.noise is None:
        return {point: float(place) for place, point in enumerate(experiment.points)}
    return {rate: 100 * rate for rate in experiment.points}


def _mark_own_rate(axes: Axes, rate: float) -> None:
    """Draw the noise the graph has by itself as a dashed line, its label inside the panel."""
    low, high = axes.get_xlim()
    on_the_left = 100 * rate > (low + 2 * high) / 3
    axes.axvline(100 * rate, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.annotate(
        f"graph: {100 * rate:.0f} %",
        (100 * rate, 1),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-4 if on_the_left else 4, 0),
        textcoords="offset points",
        ha="right" if on_the_left else "left",
        va="center",
    )


def _told_curves(experiment: Experiment, runs: list[Run]) -> str:
    """Tell the ends of every curve, for those who do not see them."""
    told = []
    for dataset in experiment.datasets:
        for method in experiment.methods:
            own = select(runs, dataset, method)
            points = sorted({run.point for run in own if run.point is not None})
            ends = [
                f"{bootstrap_mean(percentages(select(own, dataset, method, point))).mean:.1f} % at "
                f"{experiment.tell(point)}"
                for point in dict.fromkeys([*points[:1], *points[-1:]])
            ]
            told.append(f"{dataset}, {method}: {' and '.join(ends) or 'no runs yet'}.")
    return f"Mean accuracy by {experiment.axis}. " + " ".join(told)


# --- accuracy over runs -------------------------------------------------------------------------


def _box_figure(experiment: Experiment, runs: list[Run]) -> str:
    samples = {
        dataset: {m: percentages(select(runs, dataset, m)) for m in experiment.methods}
        for dataset in experiment.datasets
    }
    names = [shortened(method) for method in experiment.methods]
    upright = _must_stand(names)
    with style():
        ticks = text_width([_box_label(name, MAX_RUNS, upright=True) for name in names])
        figure, panels = _panels(experiment.datasets, ticks=ticks + 10 if upright else 36)
        for dataset, axes in panels.items():
            _draw_boxes(axes, samples[dataset], upright=upright)
        told = " ".join(
            f"{dataset}, {method}: {_told_sample(sample)}."
            for dataset, own in samples.items()
            for method, sample in own.items()
        )
        label = f"{experiment.title}: {listed(experiment.methods)}"
        return inline_svg(figure, experiment.name, label, told)


def _draw_boxes(axes: Axes, samples: Mapping[str, Sequence[float]], *, upright: bool) -> None:
    line = {"color": INK, "linewidth": 0.9}
    filled = {place: sample for place, sample in enumerate(samples.values()) if sample}
    if filled:
        axes.boxplot(
            list(filled.values()),
            positions=list(filled),
            widths=0.5,
            boxprops=line,
            whiskerprops=line,
            capprops=line,
            medianprops={"color": BLUE, "linewidth": 2.2, "solid_capstyle": "butt"},
            flierprops={"marker": "o", "markersize": 3, "markeredgecolor": INK, "alpha": 0.6},
        )
    _finish(axes, empty=not filled)
    _leave_out_far_below(axes, filled)
    labels = [
        _box_label(shortened(method), len(sample), upright=upright)
        for method, sample in samples.items()
    ]
    axes.set_xticks(range(len(labels)), labels, rotation=90 if upright else 0)
    axes.set_xlim(-0.6, len(labels) - 0.4)
    axes.grid(axis="x", visible=False)


def _leave_out_far_below(axes: Axes, samples: Mapping[int, Sequence[float]]) -> None:
    """End the panel below its lowest whisker: a few runs far beyond would flatten every box.

    An arrow at the edge says how many of a box's runs lie there.
    """
    if not samples:
        return
    boxes = [whiskers for sample in samples.values() for whiskers in boxplot_stats(sample)]
    floor, top = min(box["whislo"] for box in boxes), axes.get_ylim()[1]
    floor -= 0.12 * (top - floor)  # with room for what is written there
    if axes.get_ylim()[0] >= floor:
        return
    axes.set_ylim(floor, top)
    for place, sample in samples.items():
        if n_below := sum(value < floor for value in sample):
            axes.annotate(
                f"↓ {n_below}",
                (place, 0),
                xycoords=axes.get_xaxis_transform(),
                xytext=(6, 3),  # beside the rings and whiskers, which are in the middle
                textcoords="offset points",
            )


def _must_stand(names: Sequence[str]) -> bool:
    """Say whether names are too long to lie side by side below a panel."""
    widest = text_width([*names, f"n = {MAX_RUNS}"])
    return widest > _PANEL_WIDTH / (len(names) + 0.2)


def _box_label(name: str, n_runs: int, *, upright: bool) -> str:
    separator = ", " if upright else "\n"
    return f"{name}{separator}n = {n_runs}"


def _told_sample(sample: Sequence[float]) -> str:
    if not sample:
        return "no runs yet"
    return f"{counted(len(sample), 'run')} from {min(sample):.1f} to {max(sample):.1f} %"


# --- panels -------------------------------------------------------------------------------------


def _panels(
    datasets: Sequence[str], *, ticks: float, legend: float = 0.0, x_label: float = 0.0
) -> tuple[Figure, dict[str, Axes]]:
    """Make a panel for each data set, two in a row, all of one size; heights as given."""
    n_rows = -(-len(datasets) // _COLUMNS)
    row_height = _TITLE + _PANEL_HEIGHT + ticks
    figure = Figure(figsize=(WIDTH / 72, (legend + n_rows * row_height + x_label) / 72))
    panels = {}
    for place, name in enumerate(datasets):
        row, column = divmod(place, _COLUMNS)
        left, top = _LEFT + column * (_PANEL_WIDTH + _GAP), legend + row * row_height + _TITLE
        axes = figure.add_axes(position(figure, left, top, _PANEL_WIDTH, _PANEL_HEIGHT))
        axes.set_title(shortened(name), loc="left", fontweight="bold", pad=10, fontsize=FONT_SIZE)
        if column == 0:
            axes.set_ylabel("accuracy, %", labelpad=4)
        panels[name] = axes
    return figure, panels


def _lowest(panels: Mapping[str, Axes]) -> list[Axes]:
    """Return the panels that have none below them."""
    return list(panels.values())[-_COLUMNS:]


def _finish(axes: Axes, *, empty: bool) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.margins(y=0.08)
    if empty:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no runs yet", transform=axes.transAxes, ha="center", va="center")


def _looks(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    spare = iter(_SPARE_LOOKS * len(methods))
    return {method: _LOOKS.get(method) or next(spare) for method in methods}


def _legend_columns(methods: Sequence[str]) -> int:
    """Return how many methods fit side by side, whichever fonts the reader has."""
    entry = text_width([shortened(method) for method in methods])
    entry += (_HANDLE + _BETWEEN + 1) * FONT_SIZE
    return max(1, min(len(methods), int((WIDTH - _LEFT) / entry)))


def _legend(figure: Figure, looks: Mapping[str, dict[str, Any]], n_columns: int) -> None:
    from matplotlib.lines import Line2D

    height = 72 * figure.get_size_inches()[1]
    figure.legend(
        [Line2D([], [], markersize=4, **look) for look in looks.values()],
        [shortened(method) for method in looks],
        loc="upper left",
        bbox_to_anchor=(_LEFT / WIDTH, 1 - 6 / height),
        ncols=n_columns,
        borderpad=0,
        borderaxespad=0,
        columnspacing=_BETWEEN,
        handlelength=_HANDLE,
    )
