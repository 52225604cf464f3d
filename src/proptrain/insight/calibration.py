"""How far probabilities can be believed, and one number that makes them more believable.

A probability is calibrated if of all nodes told with 80 %, four in five are told right. The
temperature T sharpens or softens all rows alike, p^(1/T) scaled to sum to 1, and is chosen where
the held-out labels are likeliest (Guo et al., "On Calibration of Modern Neural Networks", ICML
2017), if one in a hundred of them is wrong. It changes no order within a row, so no prediction
changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from proptrain.data.mapped import largest_of_rows
from proptrain.errors import InvalidInputError, LabelError

N_BINS = 15
COLDEST, HOTTEST = 0.05, 20.0
"""Beyond these, rows are as good as certain or as good as uniform."""
FEWEST = 20
"""Of fewer held-out labels, whatever is found is chance."""
WRONG = 0.01
"""Share of the held-out labels that is taken for wrong: or a single one that is held for next to
impossible would decide, and soften all rows."""
_TINY = 1e-12
"""What counts as the smallest probability."""
_N_TRIED = 60
"""Temperatures that are tried before the best of them is refined: there may be several minima."""


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often nodes are told right, by how sure the prediction was; arrays of shape (bins,).

    Bin b holds the nodes whose highest probability lies above ``edges[b]`` and up to
    ``edges[b + 1]``. Where it holds none, confidence and accuracy are NaN.

    >>> round(reliability([[0.9, 0.1], [0.9, 0.1]], [0, 1]).error, 6)
    0.4
    """

    edges: NDArray[np.float64]
    """(bins + 1,), from 0 to 1."""
    counts: NDArray[np.int64]
    confidence: NDArray[np.float64]
    """Mean of the highest probabilities."""
    accuracy: NDArray[np.float64]
    """Share of the nodes told right."""

    @property
    def error(self) -> float:
        """The expected calibration error: Σ_b (count_b / m) |accuracy_b - confidence_b|."""
        gaps = np.abs(self.accuracy - self.confidence)
        return float(np.nansum(self.counts * gaps) / self.counts.sum())


def share_right(distributions: Any, codes: Any, nodes: NDArray[np.int64]) -> float | None:
    """Return the share of these nodes whose class (n,) predictions (n, C) tell; None of none.

    >>> told, codes, nobody = np.array([[0.9, 0.1], [0.7, 0.3]]), np.array([0, 1]), np.array([])
    >>> share_right(told, codes, np.array([0, 1])), share_right(told, codes, nobody)
    (0.5, None)
    """
    if not nodes.size:
        return None
    return float((largest_of_rows(distributions, nodes) == codes[nodes]).mean())


def reliability(probabilities: Any, codes: Any, n_bins: int = N_BINS) -> Reliability:
    """Compare how sure predictions (m, C) are with how often they are right, in bins.

    >>> told = reliability([[0.9, 0.1], [0.7, 0.3]], [0, 1], n_bins=2)
    >>> told.counts.tolist(), told.confidence.tolist(), told.accuracy.tolist()
    ([0, 2], [nan, 0.8], [nan, 0.5])
    """
    told, codes = _checked(probabilities, codes)
    edges = np.linspace(0, 1, n_bins + 1)
    highest, right = told.max(axis=1), told.argmax(axis=1) == codes
    bins = np.clip(np.searchsorted(edges, highest, side="left") - 1, 0, n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        confidence = np.bincount(bins, weights=highest, minlength=n_bins) / counts
        accuracy = np.bincount(bins, weights=right, minlength=n_bins) / counts
    return Reliability(edges, counts, confidence, accuracy)


def calibration_error(probabilities: Any, codes: Any, n_bins: int = N_BINS) -> float:
    """Return the expected calibration error of predictions (m, C) of nodes with these classes.

    Nine in ten are promised, and one in two is right:

    >>> round(calibration_error([[0.9, 0.1], [0.9, 0.1]], [0, 1]), 6)
    0.4
    """
    return reliability(probabilities, codes, n_bins).error


def fit_temperature(probabilities: Any, codes: Any) -> float:
    """Return the temperature at which the labels are likeliest under predictions (m, C) of them.

    The log loss -Σ_j log((1 - w) q_j,y(j) + w / C), with q_jc = p_jc^(1/T) / Σ_d p_jd^(1/T) and
    w = 0.01 for labels that are wrong, is minimised between 0.05 and 20: where every node is told
    right, it has no minimum.

    Three in four are right where 60 % were promised, so rows are to be sharper:

    >>> fit_temperature([[0.6, 0.4]] * 4, [0, 0, 0, 1]) < 1
    True
    """
    told, codes = _checked(probabilities, codes)
    log_told = np.log(np.maximum(told, _TINY))
    of_label = log_told[np.arange(len(codes)), codes]
    by_mistake = WRONG / told.shape[1]

    def loss(log_b: float) -> float:
        b = np.exp(log_b)
        likely = np.exp(b * of_label - logsumexp(b * log_told, axis=1))
        return -float(np.log((1 - WRONG) * likely + by_mistake).mean())

    tried = np.linspace(-np.log(HOTTEST), -np.log(COLDEST), _N_TRIED)
    best = int(np.argmin([loss(log_b) for log_b in tried]))
    around = tried[max(best - 1, 0)], tried[min(best + 1, _N_TRIED - 1)]
    found = minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-6})
    return float(np.exp(-found.x))


def with_temperature(probabilities: Any, temperature: float) -> NDArray[np.float64]:
    """Return p^(1/T) with rows scaled to sum to 1; rows of distributions, shape (m, C).

    >>> with_temperature([[0.8, 0.2]], 0.5).round(3)
    array([[0.941, 0.059]])
    """
    told = np.asarray(probabilities, dtype=np.float64)
    # Divided by the highest first: the power of a row of small numbers could vanish.
    sharpened = (told / told.max(axis=1, keepdims=True)) ** (1 / temperature)
    return np.asarray(sharpened / sharpened.sum(axis=1, keepdims=True))


def _checked(probabilities: Any, codes: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    told, codes = np.asarray(probabilities, dtype=np.float64), np.asarray(codes)
    if told.ndim != 2 or codes.shape != told.shape[:1] or not len(codes):
        raise InvalidInputError(
            "Predictions must have shape (m, C) and labels (m,), for at least one node; got "
            f"{told.shape} and {codes.shape}."
        )
    if codes.dtype.kind not in "iu" or codes.min() < 0 or codes.max() >= told.shape[1]:
        raise LabelError(
            f"Labels must be class codes from 0 to {told.shape[1] - 1}, the columns of the "
            f"predictions; got {codes.dtype} from {codes.min()} to {codes.max()}. Leave unlabelled "
            "nodes out."
        )
    return told, codes.astype(np.int64)
