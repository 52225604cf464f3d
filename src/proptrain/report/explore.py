"""What the page needs to take any node's prediction apart by itself.

The page holds the graph, the labels and the network's predictions, and walks the recursion back in
the reader's browser, as `proptrain.insight.adjoint` does: nothing is computed beforehand, and no
part is left out. Numbers are kept as the bytes of typed arrays, in base64. Rounded are: the
probabilities told, to 1/65535; and the network's predictions, to 1/65535 or, where there are many,
to 1/255. Labels, graph and edge weights are kept as they are, so that the parts of a soft label
are those of `explain` to the last digits of double precision.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.insight.explanation import (
    can_explain,
    class_factors,
    is_by_labels,
    neighbours_signal,
    rounds_after_first,
    trust_in_labels,
)
from proptrain.report.neighbourhood import class_marks
from proptrain.report.svg import clean_text

if TYPE_CHECKING:
    from proptrain.classifier import GraphClassifier
    from proptrain.report.parts import Suspect

MOST_NODES = 20_000
"""Larger graphs get a page without their nodes."""
MOST_BYTES = 6_500_000
"""For all that is kept of the nodes; the rest of a page takes less than 1.5 MB."""
_FINE, _COARSE = 500_000, 2_000_000  # numbers of the network's that are kept in 2 bytes, in 1
_N_TOLD = 5
"""So many classes of each node are kept with their probabilities."""
_LONGEST_NAME, _ITS_END = 160, 60
"""A longer name is cut in its middle: those of pages, say, differ at their ends."""
_N_UNSURE = 6


@dataclass(frozen=True, eq=False)
class Explorable:
    """A fitted model as the page holds it."""

    n_nodes: int
    has_predictions: bool
    """Whether the network's predictions are in it, so that the ensemble can be taken apart."""
    rounding: str
    """Says what is rounded."""
    content: str
    """The data, as JSON that may stand in a script element."""
    about_labels: str = ""
    """Says which soft label it is, where a model has several."""
    averaged: str = "predictions"
    """What of the nodes is averaged."""


@dataclass(frozen=True)
class Unexplorable:
    """Why a page has no nodes in it."""

    reason: str


def explorable_of(
    classifier: GraphClassifier,
    names: Sequence[Any] | None = None,
    class_names: Sequence[str] | None = None,
) -> Explorable | Unexplorable:
    """Return what the page needs to explain every node, or why it does without.

    ``names`` are what the nodes are called, if not by their numbers, and ``class_names`` what the
    classes are, if not by their labels.
    """
    n_nodes = classifier.graph_.n_nodes
    if not can_explain(classifier):
        kind = type(classifier).__name__
        return Unexplorable(f"The predictions of {kind} are no sums that can be taken apart.")
    if n_nodes > MOST_NODES:
        return Unexplorable(
            f"A page can hold the nodes of a graph of up to {MOST_NODES:,}; this one has "
            f"{n_nodes:,}. “proptrain explain” tells any of them."
        )
    f = neighbours_signal(classifier)
    kept = None if f is None or f.size > _COARSE else f
    fine = kept is not None and kept.size <= _FINE
    classes = [short_name(name) for name in class_names or classifier.classes_.tolist()]
    content = script_json(
        {
            **_nodes_to_json(classifier),
            "ids": _ids(names, n_nodes),
            "classes": classes,
            "marks": class_marks(classes),
            **_graph_to_json(classifier.graph_.adjacency),
            "normalisation": classifier.normalisation,
            "mixing": list(classifier._scheme().mixing),
            "clamp": bool(classifier.clamp),
            "trust": _trust_to_json(classifier),
            "f": None if kept is None else _in_units(kept, np.uint16 if fine else np.uint8),
            "fUnit": 65535 if fine else 255,
            "factors": class_factors(classifier).tolist(),
            "byLabels": is_by_labels(classifier),
        }
    )
    if (size := len(content.encode())) > MOST_BYTES:
        return Unexplorable(
            f"The nodes and edges of this graph take {size / 1e6:.1f} MB, more than the "
            f"{MOST_BYTES / 1e6:.1f} MB that a page may hold. “proptrain explain” tells any node."
        )
    averaged = "soft labels" if is_by_labels(classifier) else "predictions"
    has_predictions, about = kept is not None, _about_labels(classifier)
    rounding = _rounding(fine, f"{averaged} that are averaged" if has_predictions else None)
    return Explorable(n_nodes, has_predictions, rounding, content, about, averaged)


def audited_json(suspects: Sequence[Suspect]) -> str:
    """Return what an audit found of each label, as JSON that may stand in a script element."""
    classes = sorted({suspect.suggested for suspect in suspects})
    code_of = {name: code for code, name in enumerate(classes)}
    # 0 was not judged, 1 was, 2 is a suspect.
    found = [one.is_judged * (1 + one.is_suspect) for one in suspects]
    evidence: dict[str, list[float | None]] = {
        "suspicion": [one.suspicion for one in suspects],
        "crossFitted": [one.cross_fitted for one in suspects],
        "others": [one.others for one in suspects],
    }
    return script_json(
        {
            "classes": classes,
            "nodes": _bytes(np.array([one.node for one in suspects], dtype=np.uint16)),
            "suggested": _bytes(
                np.array([code_of[s.suggested] for s in suspects], dtype=np.uint16)
            ),
            "found": _bytes(np.array(found, dtype=np.uint8)),
            **{name: _shares_or_none(shares) for name, shares in evidence.items()},
        }
    )


def _shares_or_none(shares: Sequence[float | None]) -> str:
    """Return shares between 0 and 1 in units of 1/65534; 65535 stands for none."""
    units = [65535 if share is None else round(65534 * share) for share in shares]
    return _bytes(np.array(units, dtype=np.uint16))


def _about_labels(classifier: GraphClassifier) -> str:
    rounds = rounds_after_first(classifier)
    if rounds is None:
        return ""
    first = "each label as far as it is trusted, and before classes are balanced and masses scaled."
    if is_by_labels(classifier):
        return (
            f"This is the soft label of PTA+, {first} Labels alone told more than what was learnt, "
            "so balanced soft labels are averaged in the place of predictions."
        )
    if rounds == 0:
        return f"This is the soft label of PTA+, {first}"
    learn = "1 further round learns" if rounds == 1 else f"{rounds} further rounds learn"
    return (
        f"This is the soft label of PTA+’s first round, {first} Its {learn} from predictions, "
        "which these labels do not show."
    )


def _rounding(fine: bool, kept: str | None) -> str:
    told, exact = (
        "Probabilities are rounded to 1/65,535",
        "the parts of soft labels are not rounded.",
    )
    if kept is None:
        return f"{told}; {exact}"
    return f"{told}, the {kept} to {'the same' if fine else '1/255'}; {exact}"


def _nodes_to_json(classifier: GraphClassifier) -> dict[str, Any]:
    told, n_nodes = classifier.label_distributions_, classifier.graph_.n_nodes
    k = min(_N_TOLD, told.shape[1])
    first = np.argsort(-told, axis=1, kind="stable")[:, :k]
    roles = np.zeros(n_nodes, dtype=np.uint8)
    _, train = classifier._known_among(0)
    roles[train], roles[classifier.stopping_] = 1, 2
    asked = _by_sureness(classifier)
    return {
        "n": n_nodes,
        "given": _bytes(classifier.given_.astype(np.int16)),
        "role": _bytes(roles),
        "nTold": k,
        "toldClass": _bytes(first.astype(np.uint16)),
        "toldShare": _in_units(np.take_along_axis(told, first, axis=1), np.uint16),
        "start": asked[len(asked) // 2],  # a typical one
        "unsure": asked[:_N_UNSURE],
    }


def _trust_to_json(classifier: GraphClassifier) -> str | None:
    """Return how far each node's label is trusted; None if all are trusted alike."""
    if not hasattr(classifier, "trust_"):
        return None
    _, train = classifier._known_among(0)
    trust = np.ones(classifier.graph_.n_nodes, dtype=np.float32)
    trust[train] = trust_in_labels(classifier, train)
    return _bytes(trust)


def _ids(names: Sequence[Any] | None, n_nodes: int) -> list[str] | None:
    """Return what nodes are called; None if they are called by their numbers."""
    if names is None:
        return None
    texts = [short_name(name) for name in names]
    return None if texts == list(map(str, range(n_nodes))) else texts


def short_name(name: Any) -> str:
    """Return what a node or a class is called in the page.

    >>> short_name("https://" + 100 * "very" + "/long/1.html")[-13:]
    'y/long/1.html'
    """
    text = clean_text(str(name))
    if len(text) <= _LONGEST_NAME:
        return text
    return f"{text[: _LONGEST_NAME - _ITS_END - 1]}…{text[-_ITS_END:]}"


def _by_sureness(classifier: GraphClassifier) -> list[int]:
    """Return the unlabelled nodes that a label reaches, or else all; the least sure first."""
    sureness = classifier.label_distributions_.max(axis=1)
    asked = np.flatnonzero((classifier.given_ < 0) & classifier.reached_)
    asked = asked if asked.size else np.arange(len(sureness))
    found: list[int] = asked[np.argsort(sureness[asked], kind="stable")].tolist()
    return found


def _graph_to_json(adjacency: sp.csr_array) -> dict[str, Any]:
    """Return each edge once: how many follow each node, which they lead to, and their weights."""
    upper = sp.csr_array(sp.triu(adjacency, 1, format="csr"))
    upper.sort_indices()
    is_plain = bool((upper.data == 1).all())
    return {
        "edgeCounts": _bytes(np.diff(upper.indptr).astype(np.uint16)),
        "edgeEnds": _bytes(upper.indices.astype(np.uint16)),
        "edgeWeights": None if is_plain else _bytes(upper.data.astype(np.float32)),
    }


def _in_units(shares: NDArray[Any], unit: Any) -> str:
    """Return shares between 0 and 1 in units of the type's largest number."""
    largest = np.iinfo(unit).max
    return _bytes(np.round(np.clip(shares, 0, 1) * largest).astype(unit))


def _bytes(array: NDArray[Any]) -> str:
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(little.tobytes()).decode("ascii")


def script_json(content: Any) -> str:
    r"""Return JSON that may stand in a script element: no letter in it can end the element.

    >>> script_json({"id": "</script>&\u2028"})
    '{"id":"\\u003c/script\\u003e\\u0026\\u2028"}'
    """
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
