"""What a page may be given beside results: labels in doubt, and how far probabilities are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from proptrain.errors import InvalidInputError
from proptrain.report.svg import BLUE, INK, ORANGE, inline_svg, position, style


@dataclass(frozen=True)
class Suspect:
    """A given label that may be wrong."""

    node: int
    """The node's number."""
    name: str
    """What the node is called."""
    given: str
    suggested: str
    suspicion: float
    """How likely the given label is wrong, from 0 to 1."""
    is_suspect: bool = False
    """Whether so much speaks against it that it would be replaced."""
    is_judged: bool = True
    """Whether anybody else knows its class; of the only label of a class nothing can be said."""
    cross_fitted: float | None = None
    """What speaks for the given class: models that have not seen the label, from 0 to 1."""
    others: float | None = None
    """The same of the other labels, spread over the graph."""


@dataclass(frozen=True)
class ClassRow:
    """What is known of a class, and what is told."""

    name: str
    n_given: int
    """Labels of this class that were given."""
    n_told: int
    """Nodes without a label that are told to be of this class."""
    n_held_out: int
    """Labels of this class that were kept from training."""
    n_right: int
    """How many of these are told right."""


@dataclass(frozen=True)
class ReliabilityCurve:
    """How often nodes are told right, by how sure the prediction was; one number for each bin."""

    name: str
    """Says whose probabilities these are, such as "calibrated"."""
    counts: tuple[int, ...]
    confidence: tuple[float, ...]
    """Mean of the highest probabilities; NaN in an empty bin."""
    accuracy: tuple[float, ...]
    """Share of the nodes told right; NaN in an empty bin."""
    error: float
    """The expected calibration error."""


_SIDE, _LEFT, _BOTTOM, _TOP = 240.0, 40.0, 40.0, 22.0
_LOOKS: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "marker": "o", "linestyle": "-"},
    {"color": ORANGE, "marker": "s", "linestyle": (0, (4, 1.6))},
)


def reliability_plot(curves: Sequence[ReliabilityCurve]) -> str:
    """Draw the share told right over how sure the predictions were; one or two curves.

    Calibrated predictions lie on the dotted diagonal. The more nodes in a bin, the larger its mark.
    """
    if not 1 <= len(curves) <= len(_LOOKS):
        raise InvalidInputError(f"The reliability plot needs 1 or 2 curves, got {len(curves)}.")
    with style():
        width, height = _LEFT + _SIDE + 8, _TOP + _SIDE + _BOTTOM
        figure = Figure(figsize=(width / 72, height / 72))
        axes = figure.add_axes(position(figure, _LEFT, _TOP, _SIDE, _SIDE))
        axes.plot([0, 100], [0, 100], color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
        for curve, look in zip(curves, _LOOKS, strict=False):
            counts = np.array(curve.counts)
            x, y = (100 * np.array(one)[counts > 0] for one in (curve.confidence, curve.accuracy))
            axes.plot(x, y, color=look["color"], linestyle=look["linestyle"])
            sizes = 12 + 90 * counts[counts > 0] / counts.sum()
            axes.scatter(x, y, s=sizes, color=look["color"], marker=look["marker"], zorder=3)
            axes.plot([], [], **look, markersize=5, label=curve.name)
        axes.set_xlim(0, 102)
        axes.set_ylim(0, 102)
        axes.set_xlabel("predicted probability, %", labelpad=4)
        axes.set_ylabel("predicted right, %", labelpad=4)
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.2)
        errors = ", ".join(f"{curve.name} {100 * curve.error:.1f} %" for curve in curves)
        return inline_svg(figure, "reliability", f"Calibration error: {errors}.")
