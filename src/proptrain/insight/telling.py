"""An explanation in words and tables, for a terminal and for machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from proptrain.insight.explanation import Explanation, Parts

NameOf = Callable[[int], Any]
"""What a node is called, from its number."""
FEW = 10
"""So many parts are shown one by one unless asked otherwise."""
_ROLES = {
    "training": "trained on",
    "stopping": "kept from training to decide when to stop",
    "unlabelled": "unlabelled",
}
_IF_ZERO = (
    "A share is what is lost if that label becomes zero while its node still stops other labels. "
    "Taken away altogether (without), it also lets the labels behind it through, and less is lost."
)


@dataclass(frozen=True)
class TextTable:
    """A table of text; the first columns name a row, the others hold numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_labels: int
    note: str = ""
    """What must be known to read its numbers."""

    def __str__(self) -> str:
        """Write it with aligned columns."""
        lines = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        told = [self.title, *(self._line(line, widths) for line in lines)]
        return "\n".join([*told, self.note] if self.note else told)

    def _line(self, cells: Sequence[str], widths: list[int]) -> str:
        padded = [
            cell.ljust(width) if place < self.n_labels else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  " + "  ".join(padded).rstrip()


def tell(explanation: Explanation, name_of: NameOf = int, most: int = FEW) -> str:
    """Write what is told and why, in a few lines and tables."""
    tables = map(str, tables_of(explanation, name_of, most))
    return "\n\n".join([headline(explanation, name_of), *tables])


def headline(explanation: Explanation, name_of: NameOf = int) -> str:
    """Say what is predicted, how surely, what label was given and how much reached the node."""
    p = explanation.probabilities
    order = np.argsort(-p, kind="stable")[:3]
    told = ", ".join(f"{explanation.classes[c]} {_percent(p[c])}" for c in order if p[c] >= 0.0005)
    role = _ROLES[explanation.role]
    given = role if explanation.given is None else f"given {explanation.given}, {role}"
    return f"Node {name_of(explanation.node)}: {told} ({given}). {_origin(explanation)}"


def _origin(explanation: Explanation) -> str:
    if explanation.holds_label:
        arrived = "Its soft label is its own label."
    else:
        arrived = _arrived(explanation.labels)
    if explanation.others is not None:
        said = _arrived(explanation.others, _leading_classes(explanation))
        arrived = f"{arrived} Without its own: {said[0].lower()}{said[1:]}"
    if explanation.sums.total.sum() > 0:
        return arrived
    own = (
        "what stands for unreached nodes"
        if explanation.neighbours is None
        else "its own prediction"
    )
    return f"{arrived} Nothing arrives that could be summed up, so {own} is taken."


def _arrived(parts: Parts, classes: str = "") -> str:
    reached = parts.total.sum()
    if reached == 0:
        return "No label reaches it over the graph."
    n_labels = len(parts.nodes)
    labels = "1 label reaches" if n_labels == 1 else f"{n_labels:,} labels reach"
    return f"{labels} it, with {reached:.3g} of a whole label{classes}."


def _leading_classes(explanation: Explanation) -> str:
    """Say which classes the other labels speak for, the first three."""
    assert explanation.others is not None  # the caller has seen to it
    shares = explanation.others.shares.sum(axis=0)
    order = [code for code in np.argsort(-shares, kind="stable")[:3] if shares[code] > 0]
    return ": " + ", ".join(f"{explanation.classes[c]} {_percent(shares[c])}" for c in order)


def tables_of(
    explanation: Explanation, name_of: NameOf = int, most: int = FEW
) -> tuple[TextTable, ...]:
    """Return up to four tables: labels, other labels, neighbours, and sums by their steps.

    The labels of a node that holds its own are left out: they are that one.
    """
    tables = []
    without = "".join(f", without that of {name_of(node)}" for node in explanation.without)
    if len(explanation.labels.nodes) and not explanation.holds_label:
        title = f"Labels that make up its soft label{_of_which_round(explanation)}{without}"
        tables.append(_label_table(explanation, explanation.labels, title, name_of, most))
    if explanation.others is not None and len(explanation.others.nodes):
        title = f"What the other labels say: its soft label without its own{without}"
        tables.append(_label_table(explanation, explanation.others, title, name_of, most))
    if explanation.neighbours is not None and len(explanation.neighbours.nodes):
        tables.append(_neighbour_table(explanation, name_of, most))
    return (*tables, *_step_tables(explanation)) if tables else ()


def _of_which_round(explanation: Explanation) -> str:
    """Say that the soft label of PTA+ is not yet what its rounds learnt from."""
    if explanation.rounds is None:
        return ""
    which = " of the first round," if explanation.rounds else ""
    return f"{which} before classes are balanced"


def _label_table(
    explanation: Explanation, parts: Parts, title: str, name_of: NameOf, most: int
) -> TextTable:
    shares = parts.shares.sum(axis=1)
    classes = parts.signal.argmax(axis=1)
    rows = [
        (str(name_of(node)), str(explanation.classes[code]), _percent(share), f"{steps:.1f}")
        for node, code, share, steps in _first(most, parts.nodes, classes, shares, parts.mean_steps)
    ]
    rest = _rest("label", shares, most)
    return TextTable(
        title,
        ("label of", "class", "share", "steps"),
        (*rows, *((name, "", share, "") for name, share in rest)),
        n_labels=2,
        note=_IF_ZERO if explanation.clamped else "",
    )


def retraction(before: Explanation, after: Explanation) -> list[str]:
    """Say for each class of the labels left out what the soft label lost, and what their part was.

    Clamped, these differ: the nodes left out no longer stop the labels behind them.
    """
    stated = before.others if after.holds_label else before.labels
    assert stated is not None  # a node that holds its label has others
    parts = stated.values[np.isin(stated.nodes, after.without)].sum(axis=0)
    left = after.sources.total
    return [
        f"Without: {before.classes[code]} goes from {stated.total[code]:.3f} to {left[code]:.3f} "
        f"of a whole label, a loss of {stated.total[code] - left[code]:.3f}; the part of what is "
        f"left out was {parts[code]:.3f}."
        for code in np.flatnonzero(parts > 0)
    ]


def _neighbour_table(explanation: Explanation, name_of: NameOf, most: int) -> TextTable:
    parts, told = explanation.neighbours, explanation.told
    assert parts is not None  # the caller has seen to it
    added = parts.shares[:, explanation.code]
    says = parts.signal[:, explanation.code]
    rows = [
        (str(name_of(node)), _percent(weight), _percent(said), _percent(share), f"{steps:.1f}")
        for node, weight, said, share, steps in _first(
            most, parts.nodes, parts.weight_shares, says, added, parts.mean_steps
        )
    ]
    rest = _rest("node", added, most)
    factors = np.broadcast_to(parts.factors, parts.signal.shape[1])
    times = "" if (factors == 1).all() else f", whose factor is {factors[explanation.code]:.3g}"
    averaged = "soft labels" if explanation.by_labels else "predictions"
    return TextTable(
        f"Nodes whose {averaged} were averaged, by what they add to {told}{times}",
        ("node", "weight", f"own {told}", "adds", "steps"),
        (*rows, *((name, "", "", share, "") for name, share in rest)),
        n_labels=1,
    )


def _step_tables(explanation: Explanation) -> list[TextTable]:
    """Say over how many steps the sums came about; steps that brought nothing are left out.

    A label that a node holds came over none, so there is nothing to say of it.
    """
    sums = {} if explanation.holds_label else {"soft label": _by_steps(explanation.labels)}
    if explanation.neighbours is not None:
        sums["prediction"] = _by_steps(explanation.neighbours)
    rows = [
        (str(step), *map(_percent, shares))
        for step, shares in enumerate(zip(*sums.values(), strict=True))
        if max(shares) >= 0.0005
    ]
    columns = ("steps", *sums)
    return [TextTable("Over how many steps it came", columns, tuple(rows), n_labels=1)] * bool(sums)


def _by_steps(parts: Parts) -> NDArray[np.float64]:
    by_steps = parts.over_steps.sum(axis=1)
    return np.asarray(by_steps / max(by_steps.sum(), np.finfo(float).tiny))


def _first(most: int, *columns: NDArray[Any]) -> zip[tuple[Any, ...]]:
    return zip(*(column[:most].tolist() for column in columns), strict=True)


def _rest(kind: str, shares: NDArray[np.float64], most: int) -> list[tuple[str, str]]:
    n_others = len(shares) - most
    if n_others <= 0:
        return []
    plural = "" if n_others == 1 else "s"
    return [(f"{n_others:,} other {kind}{plural}", _percent(shares[most:].sum()))]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def to_json(explanation: Explanation, name_of: NameOf = int, most: int = FEW) -> dict[str, Any]:
    """Return all of it for machines: the sums whole, the parts as many as asked for."""
    classes = [name.item() for name in explanation.classes]
    neighbours, others = explanation.neighbours, explanation.others
    return {
        "node": name_of(explanation.node),
        "told": explanation.told,
        "probabilities": dict(
            zip(map(str, classes), explanation.probabilities.tolist(), strict=True)
        ),
        "given": explanation.given,
        "role": explanation.role,
        "without": [name_of(node) for node in explanation.without],
        "classes": classes,
        "clamped": explanation.clamped,
        "rounds": explanation.rounds,
        "by_labels": explanation.by_labels,
        "labels": _parts_to_json(explanation.labels, name_of, most),
        "others": None if others is None else _parts_to_json(others, name_of, most),
        "neighbours": None if neighbours is None else _parts_to_json(neighbours, name_of, most),
    }


def _parts_to_json(parts: Parts, name_of: NameOf, most: int) -> dict[str, Any]:
    first = parts.by_steps[:most].toarray()
    rows = _first(most, parts.nodes, parts.weights, parts.values, first)
    return {
        "total": parts.total.tolist(),
        "by_steps": parts.over_steps.tolist(),
        "count": len(parts.nodes),
        "rest": parts.values[most:].sum(axis=0).tolist(),
        "parts": [
            {"node": name_of(node), "weight": weight, "adds": adds, "weight_by_steps": by_steps}
            for node, weight, adds, by_steps in rows
        ],
    }
