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


@dataclass(frozen=True)
class TextTable:
    """A table of text; the first columns name a row, the others hold numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_labels: int

    def __str__(self) -> str:
        """Write it with aligned columns."""
        lines = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join([self.title, *(self._line(line, widths) for line in lines)])

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
    """Say what the node is told, how surely, what label it was given and how much reached it."""
    p = explanation.probabilities
    order = np.argsort(-p, kind="stable")[:3]
    told = ", ".join(f"{explanation.classes[c]} {p[c]:.1%}" for c in order if p[c] >= 0.0005)
    role = _ROLES[explanation.role]
    given = role if explanation.given is None else f"given {explanation.given}, {role}"
    return f"Node {name_of(explanation.node)}: {told} ({given}). {_origin(explanation)}"


def _origin(explanation: Explanation) -> str:
    reached = explanation.labels.total.sum()
    if reached == 0:
        arrived = "No label reaches it over the graph."
    else:
        n_labels = len(explanation.labels.nodes)
        labels = "1 label reaches" if n_labels == 1 else f"{n_labels:,} labels reach"
        arrived = f"{labels} it, with {reached:.3g} of a whole label."
    if explanation.sums.total.sum() > 0:
        return arrived
    own = (
        "what stands for unreached nodes"
        if explanation.neighbours is None
        else "its own prediction"
    )
    return f"{arrived} Nothing arrives that could be summed up, so {own} is told."


def tables_of(
    explanation: Explanation, name_of: NameOf = int, most: int = FEW
) -> tuple[TextTable, ...]:
    """Return up to three tables: labels, neighbours, and both by the number of steps."""
    tables = []
    if len(explanation.labels.nodes):
        tables.append(_label_table(explanation, name_of, most))
    if explanation.neighbours is not None and len(explanation.neighbours.nodes):
        tables.append(_neighbour_table(explanation, name_of, most))
    return (*tables, _step_table(explanation)) if tables else ()


def _label_table(explanation: Explanation, name_of: NameOf, most: int) -> TextTable:
    parts = explanation.labels
    shares = parts.shares.sum(axis=1)
    classes = parts.signal.argmax(axis=1)
    rows = [
        (str(name_of(node)), str(explanation.classes[code]), _percent(share), f"{steps:.1f}")
        for node, code, share, steps in _first(most, parts.nodes, classes, shares, parts.mean_steps)
    ]
    rest = _rest("label", shares, most)
    without = "".join(f", without that of {name_of(node)}" for node in explanation.without)
    return TextTable(
        f"Labels that make up its soft label{without}",
        ("label of", "class", "share", "steps"),
        (*rows, *((name, "", share, "") for name, share in rest)),
        n_labels=2,
    )


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
    return TextTable(
        f"Nodes whose predictions were averaged, by what they add to {told}{times}",
        ("node", "weight", f"own {told}", "adds", "steps"),
        (*rows, *((name, "", "", share, "") for name, share in rest)),
        n_labels=1,
    )


def _step_table(explanation: Explanation) -> TextTable:
    """Say over how many steps both sums came about; steps that brought nothing are left out."""
    labels = _by_steps(explanation.labels)
    both = (
        [labels] if explanation.neighbours is None else [labels, _by_steps(explanation.neighbours)]
    )
    rows = [
        (str(step), *map(_percent, shares))
        for step, shares in enumerate(zip(*both, strict=True))
        if max(shares) >= 0.0005
    ]
    columns = ("steps", "soft label", "prediction")[: 1 + len(both)]
    return TextTable("Over how many steps it came", columns, tuple(rows), n_labels=1)


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
    neighbours = explanation.neighbours
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
        "labels": _parts_to_json(explanation.labels, name_of, most),
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
