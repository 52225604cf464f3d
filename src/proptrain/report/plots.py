"""Plots as inline SVG that read on a light and on a dark page, with and without colour.

Lengths are SVG units; `WIDTH` of them span a plot. Margins are set by hand from the number of
letters, so that a plot does not depend on the fonts of the machine that draws it.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import unicodedata
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator
from numpy.typing import NDArray

from proptrain.errors import InvalidInputError

if TYPE_CHECKING:
    from proptrain.report.page import MethodResult
    from proptrain.train.loop import History

WIDTH = 440.0
"""SVG units across a plot of full width; a letter is `FONT_SIZE` of them high."""
FONT_SIZE = 9.0
INK = "#010203"
"""Stands for the colour of the page's text; becomes ``currentColor``."""
BLUE, ORANGE = "#2f7fc1", "#c4661f"
"""About 4:1 against both the light and the dark background of the page."""

_PIXELS_PER_UNIT = 720 / WIDTH  # a plot of full width fills the page's column
_LONGEST_NAME = 28  # letters of a name that a plot shows
_MOST_NUMBERED_CLASSES = 20
_DEEPEST_SHADE = 0.6  # opacity; text stays readable on it, light or dark
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "proptrain",
    "text.parse_math": False,  # a dollar in a class name is a dollar
    "font.size": FONT_SIZE,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
    "xtick.major.pad": 5.0,
    "ytick.major.pad": 5.0,
    "legend.frameon": False,
    "legend.fontsize": FONT_SIZE,
    "legend.handlelength": 2.4,
    "lines.linewidth": 1.3,
}
_UNWRITABLE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


def accuracy_plot(methods: Sequence[MethodResult]) -> str:
    """Draw each method's mean accuracy as a dot, its interval as a line, its runs as faint rings.

    One row for each method, the first on top, in per cent.
    """
    if not methods:
        raise InvalidInputError("The accuracy plot needs at least one method, got none.")
    with _style():
        names = [_shortened(method.name) for method in methods]
        left = _text_width(names) + 14
        figure, (axes,) = _figure([24.0 + 30 * len(methods)], left=left, bottom=38, right=46)
        for row, method in enumerate(methods):
            _draw_method(axes, row, method)
        axes.set_yticks(range(len(methods)), names, ha="left")
        axes.tick_params(axis="y", pad=left)  # flush with the text of the page
        axes.set_ylim(len(methods) - 0.35, -0.65)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.margins(x=0.06)
        axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10], min_n_ticks=2))
        axes.set_xlabel("accuracy on the test nodes, %", labelpad=6)
        told = ", ".join(f"{method.name} {100 * method.mean:.1f} %" for method in methods)
        return _inline_svg(figure, "accuracy", f"Accuracy: {told}.")


def training_plot(history: History, best_epoch: int | None) -> str:
    """Draw losses, accuracies and gamma over the epochs, counted from 0, and mark the best epoch.

    Losses stand on a logarithmic scale. The panel of gamma is left out if no epoch has one.
    """
    n_epochs = max(len(history.stop_loss), len(history.stop_accuracy), len(history.gamma))
    if n_epochs == 0:
        raise InvalidInputError("The training plot needs at least one epoch, got none.")
    has_gamma = bool(np.isfinite(history.gamma).any())
    with _style():
        heights = [130.0, 130.0, 52.0][: 2 + has_gamma]
        figure, panels = _figure(heights, left=_TRAINING_LEFT, bottom=36, right=4, top=22, gap=34)
        _draw_losses(panels[0], history)
        _draw_accuracies(panels[1], history)
        if has_gamma:
            panels[2].plot(history.gamma, color=INK, linewidth=1.0, **_visible(n_epochs))
            _title(panels[2], "Gamma")
            panels[2].set_ylim(bottom=min(0.0, float(np.nanmin(history.gamma))))
            panels[2].yaxis.set_major_locator(MaxNLocator(3))
        marked = best_epoch is not None and 0 <= best_epoch < n_epochs
        if best_epoch is not None and marked:
            _mark_epoch(panels, best_epoch, n_epochs)
        panels[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        panels[-1].set_xlim(*((0, n_epochs - 1) if n_epochs > 1 else (-0.5, 0.5)))
        panels[-1].set_xlabel("epoch", labelpad=4)
        label = f"Loss and accuracy{' and gamma' * has_gamma} over {n_epochs} epochs"
        return _inline_svg(
            figure, "training", label + (f"; the best is epoch {best_epoch}." if marked else ".")
        )


def confusion_plot(matrix: NDArray[Any], class_names: Sequence[str]) -> str:
    """Draw how many nodes of each true class (rows) are told to be of each class (columns).

    Shape (C, C). Shading grows with the share of the true class; counts are written into the
    cells of up to 20 classes.
    """
    counts, n_classes = np.asarray(matrix), len(class_names)
    if n_classes == 0 or counts.shape != (n_classes, n_classes):
        raise InvalidInputError(
            f"The confusion matrix must have a row and a column for each class name, got shape "
            f"{counts.shape} and {n_classes} names."
        )
    with _style():
        names = [_shortened(name) for name in class_names]
        size = FONT_SIZE if n_classes <= _MOST_NUMBERED_CLASSES else FONT_SIZE * 0.75
        name_width = _text_width(names, size)
        left, right = name_width + 26, 4.0
        cell = min(40.0, (WIDTH - left - right) / n_classes)
        side, slant = cell * n_classes, name_width * math.sin(math.pi / 4)
        figure, (axes,) = _figure(
            [side], left=left, bottom=slant + 34, width=max(left + side + right, 150)
        )
        axes.set_position(_position(figure, left, 4, side, side))
        _draw_cells(axes, counts)
        if n_classes <= _MOST_NUMBERED_CLASSES:
            _write_counts(axes, counts, cell)
        slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(n_classes), names, fontsize=size, va="top", **slanted)
        axes.set_yticks(range(n_classes), names, fontsize=size)
        middle = side / 2
        _write(axes, "predicted class", middle, -(slant + 26), ha="center")
        _write(axes, "true class", -(left - 8), middle, ha="center", rotation=90)
        right_count, total = int(np.trace(counts)), int(counts.sum())
        return _inline_svg(
            figure,
            "confusion",
            f"Confusion matrix of {n_classes} classes: {right_count:,} of {total:,} nodes lie on "
            f"the diagonal, where the predicted class is the true one.",
        )


def clean_text(text: str) -> str:
    r"""Return the text with a � for each character that no XML or UTF-8 file can hold.

    >>> clean_text("a\x00b")
    'a�b'
    """
    return _UNWRITABLE.sub("\ufffd", text)


# --- accuracy -----------------------------------------------------------------------------------


def _draw_method(axes: Axes, row: int, method: MethodResult) -> None:
    mean, low, high = (100 * value for value in (method.mean, method.low, method.high))
    runs = 100 * np.asarray(method.accuracies, dtype=float)
    # Below the line and not on it: a run must not hide the interval, nor look like its end.
    rings: dict[str, Any] = {"facecolors": "none", "edgecolors": INK, "alpha": 0.55}
    axes.scatter(runs, np.full(runs.shape, row + 0.24), s=8, linewidths=0.6, **rings)
    if math.isfinite(low) and math.isfinite(high):
        axes.plot([low, high], [row, row], color=BLUE, linewidth=1.6, solid_capstyle="butt")
        axes.plot([low, high], [row, row], color=BLUE, marker="|", markersize=7, linestyle="none")
    axes.plot([mean], [row], color=BLUE, marker="o", markersize=5.5, linestyle="none")
    if math.isfinite(mean):
        axes.annotate(
            f"{mean:.1f}",
            (1, row),
            xycoords=axes.get_yaxis_transform(),
            xytext=(10, 0),
            textcoords="offset points",
            va="center_baseline",
        )


# --- training -----------------------------------------------------------------------------------

_TRAINING_LEFT = 36.0
_STOPPING: dict[str, Any] = {"label": "stopping nodes", "color": BLUE}
_TRAINING: dict[str, Any] = {"label": "training", "color": ORANGE, "linestyle": (0, (4, 1.6))}


def _draw_losses(axes: Axes, history: History) -> None:
    drawn: list[float] = []
    for losses, look in ((history.train_loss, _TRAINING), (history.stop_loss, _STOPPING)):
        values = np.array(losses, dtype=float)
        values[~(np.isfinite(values) & (values > 0))] = np.nan  # a log scale has no place for them
        axes.plot(values, **look, **_visible(len(values)))
        drawn.extend(values[np.isfinite(values)])
    _title(axes, "Loss, logarithmic scale")
    _legend(axes)
    if drawn:
        axes.set_yscale("log")
        wide = max(drawn) > 6 * min(drawn)
        axes.yaxis.set_major_locator(
            LogLocator(subs=(1, 2, 5), numticks=9) if wide else MaxNLocator(4)
        )
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))


def _draw_accuracies(axes: Axes, history: History) -> None:
    for values, look in ((history.train_accuracy, _TRAINING), (history.stop_accuracy, _STOPPING)):
        axes.plot(100 * np.array(values, dtype=float), **look, **_visible(len(values)))
    _title(axes, "Accuracy, %")
    _legend(axes)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def _title(axes: Axes, text: str) -> None:
    """Write the title of a panel, flush with the text of the page."""
    axes.annotate(
        text,
        (0, 1),
        xycoords="axes fraction",
        xytext=(-_TRAINING_LEFT, 6),
        textcoords="offset points",
        fontweight="bold",
        annotation_clip=False,
    )


def _legend(axes: Axes) -> None:
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=2,
        borderpad=0.2,
        borderaxespad=0.2,
        columnspacing=1.6,
        reverse=True,
    )


def _visible(n_points: int) -> dict[str, Any]:
    """Return a marker for a line through one point, which could not be seen without."""
    return {"marker": "o", "markersize": 4} if n_points == 1 else {}


def _mark_epoch(panels: Sequence[Axes], epoch: int, n_epochs: int) -> None:
    for axes in panels:
        axes.axvline(epoch, color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
    on_the_left = epoch > n_epochs / 2
    panels[0].annotate(
        f"best: epoch {epoch}",
        (epoch, 1),
        xycoords=panels[0].get_xaxis_transform(),
        xytext=(-5 if on_the_left else 5, -2),
        textcoords="offset points",
        ha="right" if on_the_left else "left",
        va="top",
    )


# --- confusion ----------------------------------------------------------------------------------


def _draw_cells(axes: Axes, counts: NDArray[Any]) -> None:
    n_classes = len(counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rows, columns = np.nonzero(counts)
    corners = np.column_stack([columns, rows]) - 0.5
    cells = [Rectangle((x, y), 1, 1) for x, y in corners]
    colours = np.tile(matplotlib.colors.to_rgba(BLUE), (len(cells), 1))
    # The square root, since mistakes are rare and must be seen beside the diagonal.
    colours[:, 3] = np.round(_DEEPEST_SHADE * np.sqrt(shares[rows, columns]), 3)
    shading = PatchCollection(cells, facecolors=colours, edgecolors="none", linewidths=0)
    axes.add_collection(shading, autolim=False)
    # The diagonal is outlined: right and wrong are told apart without colour too.
    boxes = [Rectangle((i - 0.5, i - 0.5), 1, 1) for i in range(n_classes)]
    outline = PatchCollection(boxes, facecolors="none", edgecolors=INK, linewidths=0.6, alpha=0.6)
    axes.add_collection(outline, autolim=False)
    axes.set_xlim(-0.5, n_classes - 0.5)
    axes.set_ylim(n_classes - 0.5, -0.5)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_alpha(0.35)


def _write_counts(axes: Axes, counts: NDArray[Any], cell: float) -> None:
    longest = max(len(_short_count(int(count))) for count in counts.flat)
    size = min(FONT_SIZE, 0.88 * cell / (0.6 * longest))
    for (row, column), count in np.ndenumerate(counts):
        axes.text(
            column,
            row,
            _short_count(int(count)),
            fontsize=size,
            ha="center",
            va="center_baseline",
            alpha=1.0 if count else 0.4,
        )


def _short_count(count: int) -> str:
    """Write a count in at most four letters up to a thousand million.

    >>> [_short_count(n) for n in (0, 9_999, 12_345, 1_234_567, 56_700_000)]
    ['0', '9999', '12k', '1.2M', '57M']
    """
    if count < 10_000:
        return str(count)
    if count < 999_500:
        return f"{count / 1e3:.0f}k"
    return f"{count / 1e6:.1f}M" if count < 9_950_000 else f"{count / 1e6:.0f}M"


# --- figures ------------------------------------------------------------------------------------


@contextmanager
def _style() -> Iterator[None]:
    """Draw with our settings alone, whatever the user's are, and leave those as they were."""
    with matplotlib.style.context(["default", _SETTINGS]), warnings.catch_warnings():
        # The browser draws the text with its own fonts, so what ours lack does not matter.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing|.*not support .* natively")
        yield


def _figure(
    heights: Sequence[float],
    *,
    left: float,
    bottom: float,
    right: float = 8.0,
    top: float = 4.0,
    gap: float = 0.0,
    width: float = WIDTH,
) -> tuple[Figure, list[Axes]]:
    """Make a figure of panels of these heights under each other that share their x axis."""
    height = top + sum(heights) + gap * (len(heights) - 1) + bottom
    figure = Figure(figsize=(width / 72, height / 72))
    panels: list[Axes] = []
    for panel_height in heights:
        position = _position(figure, left, top, width - left - right, panel_height)
        panels.append(figure.add_axes(position, sharex=panels[0] if panels else None))
        top += panel_height + gap
    for axes in panels[:-1]:
        axes.tick_params(labelbottom=False)
    return figure, panels


def _position(
    figure: Figure, left: float, top: float, width: float, height: float
) -> tuple[float, float, float, float]:
    """Turn units from the top left corner into matplotlib's shares from the bottom left one."""
    full_width, full_height = (72 * inches for inches in figure.get_size_inches())
    return (
        left / full_width,
        1 - (top + height) / full_height,
        width / full_width,
        height / full_height,
    )


def _write(axes: Axes, text: str, x: float, y: float, **look: Any) -> None:
    """Write a text at units from the lower left corner of the axes."""
    axes.annotate(
        text,
        (0, 0),
        xycoords="axes fraction",
        xytext=(x, y),
        textcoords="offset points",
        rotation_mode="anchor",
        annotation_clip=False,
        **look,
    )


def _shortened(name: str) -> str:
    name = clean_text(" ".join(name.split()))
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _text_width(texts: Sequence[str], font_size: float = FONT_SIZE) -> float:
    """Estimate the units that the widest text takes, in any font."""
    wide = [sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in t) for t in texts]
    return 0.58 * font_size * max(wide) + 4


# --- from matplotlib's SVG to one that fits into a page -----------------------------------------


def _inline_svg(figure: Figure, kind: str, label: str) -> str:
    """Return the figure as an SVG element with the page's colour and font, and ids of its own."""
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    buffer = io.BytesIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing)
    root = ET.fromstring(buffer.getvalue())
    _drop(root, "style")  # its rule for every element would reach the whole page
    digest = hashlib.sha256(buffer.getvalue() + label.encode("utf-8", "replace"))
    _own_ids(root, f"{kind}-{digest.hexdigest()[:8]}-")
    for element in root.iter():
        _adapt(element)
    width, height = (72 * inches * _PIXELS_PER_UNIT for inches in figure.get_size_inches())
    root.attrib.update(
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": f"{width:.0f}",
            "height": f"{height:.0f}",
            "class": f"plot plot-{kind}",
            "role": "img",
            "aria-label": clean_text(" ".join(label.split())),
            "stroke-linejoin": "round",
            # On a phone a plot scrolls in its frame before its letters become too small.
            "style": f"min-width: {min(width, 400):.0f}px",
        }
    )
    return ET.tostring(root, encoding="unicode")


def _drop(root: ET.Element, name: str) -> None:
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag.endswith("}" + name)]:
            parent.remove(child)


def _own_ids(root: ET.Element, prefix: str) -> None:
    """Keep the ids that something refers to, with the prefix, so that no two plots share one."""
    reference = re.compile(r"^(url\()?#([^)]+)(\))?$")
    used: set[str] = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            if match := reference.match(value):
                used.add(match[2])
                element.set(key, f"{match[1] or ''}#{prefix}{match[2]}{match[3] or ''}")
    for element in root.iter():
        if (own := element.attrib.pop("id", None)) in used:
            element.set("id", f"{prefix}{own}")


def _adapt(element: ET.Element) -> None:
    """Take the page's colour and font, plain names and short numbers."""
    element.tag = element.tag.rpartition("}")[2]
    for key in list(element.attrib):
        value = element.attrib.pop(key)
        if key == "style":
            value = re.sub(r"font-family: [^;]*;? ?", "", value.replace(INK, "currentColor"))
        elif key in ("d", "transform", "x", "y", "points"):
            value = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.2f}", value)
            value = " ".join(value.split())
        if not value.startswith("rotate(-0 "):
            element.set(key.rpartition("}")[2], value)
    if element.tag != "text":
        element.text = None
    element.tail = None
