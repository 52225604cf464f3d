"""The picture of a node's neighbourhood: who made its prediction, and by how much."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from proptrain.insight.neighbourhood import Neighbourhood, neighbourhood_of
from proptrain.report.svg import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    WIDTH,
    clean_text,
    inline_svg,
    position,
    shortened,
    standalone_svg,
    style,
)

if TYPE_CHECKING:
    from proptrain.classifier import GraphClassifier
    from proptrain.insight.explanation import Explanation
    from proptrain.insight.telling import NameOf

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#c2487f", "#7f7a1f", "#1f8a93", "#8f6f55")
"""One for each class, from the first again when there are more; a letter tells them apart too."""
_HEIGHT = 330.0
_MARGINS = (84.0, 32.0)
_LINE = 14.0  # height of a line of the legend
_SMALLEST, _LARGEST = 5.5, 13.0  # half the size of a node, in units
_KEY = (
    "Squares are labels, with their share of the soft label; circles are other nodes, by the class",
    "predicted. The larger, the more it counts. Lines are edges.",
)


@dataclass(frozen=True, eq=False)
class Picture:
    """A neighbourhood with the names and classes to write beside its nodes."""

    shown: Neighbourhood
    names: tuple[str, ...]
    """(m,) what each node is called."""
    classes: tuple[int, ...]
    """(m,) the code of each node's class: the label that was trained on, else what is told."""
    is_label: tuple[bool, ...]
    """(m,) whether a node is there with its label: one that counts, or one that it holds."""
    class_names: tuple[str, ...]
    """(C,) what the codes stand for."""
    title: str
    """Says in a sentence what is seen, for those who do not see it."""


def class_marks(class_names: Sequence[str]) -> list[str]:
    """Return what is written on a node of each class: a letter, or a number of many classes.

    Names that are as short as that stand for themselves.

    >>> class_marks(["spam", "ham"]), class_marks(["0", "1", "15"])
    (['A', 'B'], ['0', '1', '15'])
    """
    if all(0 < len(name) <= 2 for name in class_names):
        return list(class_names)
    if len(class_names) <= 26:
        return [chr(ord("A") + code) for code in range(len(class_names))]
    return [str(code + 1) for code in range(len(class_names))]


def draw_svg(picture: Picture) -> str:
    """Return the picture as an SVG file of its own."""
    with style():
        return standalone_svg(inline_svg(_figure(picture), "neighbourhood", picture.title))


def draw_png(picture: Picture) -> bytes:
    """Return the picture as a PNG file."""
    file = io.BytesIO()
    with style():
        metadata = {"Software": None}  # or it would name the release of matplotlib
        figure = _figure(picture)
        figure.savefig(file, format="png", dpi=200, facecolor="white", metadata=metadata)
    return file.getvalue()


def _figure(picture: Picture) -> Figure:
    legend = _legend(picture)
    height = _HEIGHT + _LINE * (len(legend) + 1)
    figure = Figure(figsize=(WIDTH / 72, height / 72))
    axes = figure.add_axes(position(figure, 0, 0, WIDTH, height))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(_HEIGHT - height, _HEIGHT)
    axes.axis("off")
    _draw_nodes(axes, picture)
    for line, text in enumerate(legend):
        _write(axes, 8, -_LINE * (line + 0.5), text, ha="left", fontsize=7.5)
    return figure


def _draw_nodes(axes: Axes, picture: Picture) -> None:
    shown = picture.shown
    middle = np.array([WIDTH, _HEIGHT]) / 2
    places = middle + shown.places * (middle - _MARGINS)
    lines = list(places[shown.edges])
    look: dict[str, Any] = {"colors": INK, "linewidths": 0.7, "alpha": 0.3, "zorder": 0.5}
    axes.add_collection(LineCollection(lines, **look), autolim=False)
    for place in reversed(range(len(places))):  # the node itself on top
        x, y = map(float, places[place])
        reach = _draw_node(axes, picture, place, x, y)
        _write_beside(axes, picture, place, x, y, reach)


def _draw_node(axes: Axes, picture: Picture, place: int, x: float, y: float) -> float:
    """Draw one node with the mark of its class; returns how far it reaches from its middle."""
    share, code = float(picture.shown.label_shares[place]), picture.classes[place]
    size = _half_size(share or float(picture.shown.weights[place]))
    if picture.is_label[place]:
        axes.add_patch(Rectangle((x - size, y - size), 2 * size, 2 * size, **_look(code)))
    else:
        axes.add_patch(Circle((x, y), size, **_look(code)))
    _write(axes, x, y, class_marks(picture.class_names)[code], fontsize=7.5)
    if place > 0:
        return size
    ring = (math.sqrt(2) if picture.is_label[place] else 1) * size + 4
    axes.add_patch(Circle((x, y), ring, fill=False, edgecolor=INK, linewidth=1.2))
    return ring


def _write_beside(
    axes: Axes, picture: Picture, place: int, x: float, y: float, reach: float
) -> None:
    """Write name and share above and under a node, or on its outer side, where there is room."""
    share, outward = float(picture.shown.label_shares[place]), picture.shown.places[place, 0]
    name = _short(picture.names[place]) if share or place == 0 else ""
    told = f"{100 * share:.0f} %" if share >= 0.01 else ""
    if abs(outward) >= 0.35:
        side, align = (1, "left") if outward > 0 else (-1, "right")
        _write(axes, x + side * (reach + 4), y, f"{name} {told}".strip(), ha=align, fontsize=6.5)
        return
    bold = {"fontweight": "bold"} if place == 0 else {"fontsize": 6.5}
    _write(axes, x, y + reach + 5, name, **bold)
    _write(axes, x, y - reach - 6, told, fontsize=7)


def _half_size(share: float) -> float:
    """Return half the size of a node, so that its area grows with its share."""
    return max(_SMALLEST, _LARGEST * math.sqrt(min(share / 0.3, 1.0)))


def _look(code: int) -> dict[str, Any]:
    colour = COLOURS[code % len(COLOURS)]
    # Opaque, in two layers of one colour: lines must not be seen through a node.
    pale = tuple(1 - 0.3 * (1 - np.array(_rgb(colour))))
    return {"facecolor": pale, "edgecolor": colour, "linewidth": 1.3}


def _rgb(colour: str) -> list[float]:
    return [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]


def _legend(picture: Picture) -> list[str]:
    """Say what letters, shapes and sizes mean, in the lines under the picture."""
    marks = class_marks(picture.class_names)
    classes = [
        f"{marks[code]}: {shortened(picture.class_names[code])}"
        for code in sorted(set(picture.classes))
    ]
    lines = [classes[start : start + 3] for start in range(0, len(classes), 3)]
    return [*("    ".join(line) for line in lines), *_KEY]


def _short(name: str) -> str:
    name = shortened(name)
    return name if len(name) <= 14 else name[:13] + "…"


def _write(axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
    settled = {"ha": "center", "va": "center", "fontsize": 8, "color": INK, **look}
    axes.text(x, y, clean_text(text), **settled)


def picture_of(
    classifier: GraphClassifier, explanation: Explanation, name_of: NameOf = int
) -> Picture:
    """Return the picture of an explained node's neighbourhood."""
    shown = neighbourhood_of(classifier.graph_, explanation)
    is_label = shown.label_shares > 0
    is_label[0] |= explanation.holds_label
    codes = classifier.label_distributions_[shown.nodes].argmax(axis=1)
    codes = np.where(is_label, classifier.given_[shown.nodes], codes)
    first = explanation.sources.nodes[:3].tolist()
    shares = explanation.sources.shares.sum(axis=1).tolist()
    sources = [
        f"{name_of(one)} {100 * share:.0f} %" for one, share in zip(first, shares, strict=False)
    ]
    which = "other labels" if explanation.holds_label else "labels"
    labels = f"; {which}: {', '.join(sources)}." if sources else "."
    return Picture(
        shown=shown,
        names=tuple(str(name_of(one)) for one in shown.nodes.tolist()),
        classes=tuple(codes.tolist()),
        is_label=tuple(is_label.tolist()),
        class_names=tuple(str(name) for name in classifier.classes_),
        title=f"Neighbourhood of {name_of(explanation.node)}, predicted {explanation.told}{labels}",
    )
