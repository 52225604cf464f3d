"""Time and memory of a step against the size of the graph, all on logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from proptrain.bench.memory import Memory
from proptrain.bench.results import Measured
from proptrain.bench.steps import AS_GIVEN, RENUMBERED
from proptrain.bench.tables import duration, size
from proptrain.errors import InvalidInputError
from proptrain.report.svg import (
    BLUE,
    ORANGE,
    WIDTH,
    inline_svg,
    position,
    standalone_svg,
    style,
)

_LEFT, _RIGHT, _GAP, _TOP, _BOTTOM, _HEIGHT = 38.0, 8.0, 48.0, 50.0, 36.0, 180.0
_FIRST: dict[str, Any] = {"color": BLUE, "marker": "o", "linestyle": "-"}
_SECOND: dict[str, Any] = {"color": ORANGE, "marker": "s", "linestyle": (0, (5, 1.6))}
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def growth_plot(measured: Sequence[Measured]) -> str:
    """Return a step's time and memory as an SVG file; lines differ by more than their colour."""
    for case in measured:
        if not {AS_GIVEN, RENUMBERED} <= case.times.keys() or case.amount == 0:
            raise InvalidInputError(
                f"A plot of growth must have the number of entries and the times of {AS_GIVEN!r} "
                f"and of {RENUMBERED!r} in each case, but {case.case!r} lacks some. Measure it "
                "again."
            )
    cases = sorted(measured, key=lambda one: one.amount)
    memories = {case.amount: case.memory for case in cases if case.memory}
    with style():
        figure = Figure(figsize=(WIDTH / 72, (_TOP + _HEIGHT + _BOTTOM) / 72))
        time = _panel(figure, 0, "Time of a step", duration)
        for name, look in ((AS_GIVEN, _FIRST), (RENUMBERED, _SECOND)):
            medians = {case.amount: case.times[name].median for case in cases}
            _draw(time, medians, name.removeprefix("proptrain, "), look)
        memory = _panel(figure, 1, "Memory of a step", size)
        _draw(memory, _told(memories, "taken"), "taken at the peak", _FIRST)
        _draw(memory, _told(memories, "allowed"), "graph and three signals", _SECOND)
        for axes in (time, memory):
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderpad=0.2, borderaxespad=0.1)
        sizes = f"{cases[0].amount:,.0f} to {cases[-1].amount:,.0f}"
        label = f"Time and memory of a step over graphs of {sizes} stored entries"
        return standalone_svg(inline_svg(figure, "growth", label))


def _told(memories: dict[float, Memory], what: str) -> dict[float, float]:
    return {amount: getattr(memory, what) for amount, memory in memories.items()}


def _draw(axes: Axes, points: dict[float, float], label: str, look: dict[str, Any]) -> None:
    axes.plot(list(points), list(points.values()), label=label, markersize=4.5, **look)


def _panel(figure: Figure, place: int, title: str, written: Callable[[float], str]) -> Axes:
    width = (WIDTH - _LEFT - _RIGHT - _GAP) / 2
    left = _LEFT + place * (width + _GAP)
    axes = figure.add_axes(position(figure, left, _TOP, width, _HEIGHT))
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis, subs, format_one in ((axes.xaxis, (1,), _power), (axes.yaxis, (1, 3), written)):
        axis.set_major_locator(LogLocator(subs=subs, numticks=12))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _, told=format_one: told(value)))
    axes.set_xlabel("stored entries of the graph", labelpad=4)
    corner: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(title, (0, 1), xytext=(0, 38), fontweight="bold", annotation_clip=False, **corner)
    return axes


def _power(number: float) -> str:
    return f"10{str(round(math.log10(number))).translate(_SUPERSCRIPT)}"
