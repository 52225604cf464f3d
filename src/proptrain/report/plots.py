"""The plots of the report on one data set: accuracies, training, confusion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.colors
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator
from numpy.typing import NDArray

from proptrain.errors import InvalidInputError
from proptrain.report.svg import (
    BLUE,
    FONT_SIZE,
    INK,
    ORANGE,
    WIDTH,
    inline_svg,
    position,
    shortened,
    style,
    text_width,
)

if TYPE_CHECKING:
    from proptrain.report.page import MethodResult
    from proptrain.train.loop import History

_MOST_NUMBERED_CLASSES = 20
MOST_DRAWN_CLASSES = 40
"""Of more, a confusion matrix has those that are confused most often: all could not be read, and
those of 200 classes would take 5 MB."""
_DEEPEST_SHADE = 0.6  # opacity; text stays readable on it, light or dark


def accuracy_plot(methods: Sequence[MethodResult]) -> str:
    """Draw each method's mean accuracy as a dot, its interval as a line, its runs as faint rings.

    One row for each method, the first on top, in per cent.
    """
    if not methods:
        raise InvalidInputError("The accuracy plot needs at least one method, got none.")
    with style():
        names = [shortened(method.name) for method in methods]
        left = text_width(names) + 14
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
        return inline_svg(figure, "accuracy", f"Accuracy: {told}.")


def training_plot(history: History, best_epoch: int | None, watched: str = "stopping nodes") -> str:
    """Draw losses, accuracies and gamma over the epochs, counted from 0, and mark the best epoch.

    ``watched`` says which nodes judge. Losses stand on a logarithmic scale. The panel of gamma is
    left out if no epoch has one.
    """
    n_epochs = max(len(history.stop_loss), len(history.stop_accuracy), len(history.gamma))
    if n_epochs == 0:
        raise InvalidInputError("The training plot needs at least one epoch, got none.")
    has_gamma = bool(np.isfinite(history.gamma).any())
    with style():
        heights = [130.0, 130.0, 52.0][: 2 + has_gamma]
        figure, panels = _figure(heights, left=_TRAINING_LEFT, bottom=36, right=4, top=22, gap=34)
        _draw_losses(panels[0], history, watched)
        _draw_accuracies(panels[1], history, watched)
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
        return inline_svg(
            figure, "training", label + (f"; the best is epoch {best_epoch}." if marked else ".")
        )


def confusion_plot(matrix: NDArray[Any], class_names: Sequence[str]) -> str:
    """Draw how many nodes of each true class (rows) are told to be of each class (columns).

    Shape (C, C). Shading grows with the share of the true class; counts are written into the
    cells of up to 20 classes. Of more than 40 classes, those confused most often are drawn.
    """
    counts, n_classes = np.asarray(matrix), len(class_names)
    if n_classes == 0 or counts.shape != (n_classes, n_classes):
        raise InvalidInputError(
            f"The confusion matrix must have a row and a column for each class name, got shape "
            f"{counts.shape} and {n_classes} names."
        )
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    label = _described(counts)
    drawn = most_confused(counts)
    counts, shares, n_classes = counts[drawn][:, drawn], shares[drawn][:, drawn], len(drawn)
    with style():
        names = [shortened(class_names[code]) for code in drawn.tolist()]
        size = FONT_SIZE if n_classes <= _MOST_NUMBERED_CLASSES else FONT_SIZE * 0.75
        name_width = text_width(names, size)
        left, right = name_width + 26, 4.0
        cell = min(40.0, (WIDTH - left - right) / n_classes)
        side, slant = cell * n_classes, name_width * math.sin(math.pi / 4)
        figure, (axes,) = _figure(
            [side], left=left, bottom=slant + 34, width=max(left + side + right, 150)
        )
        axes.set_position(position(figure, left, 4, side, side))
        _draw_cells(axes, shares)
        if n_classes <= _MOST_NUMBERED_CLASSES:
            _write_counts(axes, counts, cell)
        slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(n_classes), names, fontsize=size, va="top", **slanted)
        axes.set_yticks(range(n_classes), names, fontsize=size)
        middle = side / 2
        _write(axes, "predicted class", middle, -(slant + 26), ha="center")
        _write(axes, "true class", -(left - 8), middle, ha="center", rotation=90)
        return inline_svg(figure, "confusion", label)


def most_confused(matrix: NDArray[Any], most: int = MOST_DRAWN_CLASSES) -> NDArray[np.int64]:
    """Return the classes that most nodes are wrongly taken for or wrongly taken from, in order.

    >>> most_confused(np.array([[5, 0, 0], [0, 5, 1], [0, 2, 5]]), most=2)
    array([1, 2])
    """
    right = np.diagonal(matrix)
    wrong = matrix.sum(axis=0) + matrix.sum(axis=1) - 2 * right
    # Of those that are never wrong, the largest.
    return np.sort(np.lexsort((-right, -wrong))[:most])


def _described(counts: NDArray[Any]) -> str:
    n_classes, right, total = len(counts), int(np.trace(counts)), int(counts.sum())
    which = (
        f"; the {MOST_DRAWN_CLASSES} classes that are confused most often are drawn"
        if n_classes > MOST_DRAWN_CLASSES
        else ""
    )
    return (
        f"Confusion matrix of {n_classes} classes: {right:,} of {total:,} nodes lie on the "
        f"diagonal, where the predicted class is the true one{which}."
    )


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
_WATCHED: dict[str, Any] = {"color": BLUE}
_TRAINING: dict[str, Any] = {"label": "training", "color": ORANGE, "linestyle": (0, (4, 1.6))}


def _draw_losses(axes: Axes, history: History, watched: str) -> None:
    drawn: list[float] = []
    judged = {**_WATCHED, "label": watched}
    for losses, look in ((history.train_loss, _TRAINING), (history.stop_loss, judged)):
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


def _draw_accuracies(axes: Axes, history: History, watched: str) -> None:
    judged = {**_WATCHED, "label": watched}
    for values, look in ((history.train_accuracy, _TRAINING), (history.stop_accuracy, judged)):
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


def _draw_cells(axes: Axes, shares: NDArray[Any]) -> None:
    n_classes = len(shares)
    rows, columns = np.nonzero(shares)
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
        place = position(figure, left, top, width - left - right, panel_height)
        panels.append(figure.add_axes(place, sharex=panels[0] if panels else None))
        top += panel_height + gap
    for axes in panels[:-1]:
        axes.tick_params(labelbottom=False)
    return figure, panels


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
