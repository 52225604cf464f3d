"""The page about one model: how it was trained, how good it is, and every node explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from proptrain.report.explore import explorable_of
from proptrain.report.page import Report, package_versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from proptrain.classifier import GraphClassifier


def model_report(
    classifier: GraphClassifier, *, names: Sequence[Any] | None, title: str, command: str
) -> Report:
    """Return the page about a fitted model; ``names`` are what its nodes are called."""
    stop = classifier.stopping_
    return Report(
        title=title,
        subtitle=_subtitle(classifier),
        facts=_facts(classifier),
        methods=(),
        history=getattr(classifier, "history_", None),
        best_epoch=getattr(classifier, "best_epoch_", None),
        confusion=_confusion(classifier) if stop.size else None,
        class_names=tuple(str(name) for name in classifier.classes_),
        command=command,
        versions=package_versions(),
        trained="This model",
        judged="Stopping",
        explore=explorable_of(classifier, names),
    )


def _subtitle(classifier: GraphClassifier) -> str:
    n_nodes, n_labels = classifier.graph_.n_nodes, int((classifier.given_ >= 0).sum())
    known = f"{n_labels:,} of {n_nodes:,} nodes had a label; the model tells all of them."
    right = _share_right(classifier)
    if right is None:
        return known
    return (
        f"{known} It tells {right:.1%} of the {classifier.stopping_.size:,} stopping nodes right, "
        "whose labels it was not trained on. They decided when training stopped, so expect "
        "somewhat less of others; “proptrain evaluate” measures it."
    )


def _share_right(classifier: GraphClassifier) -> float | None:
    stop = classifier.stopping_
    if not stop.size:
        return None
    told = classifier.label_distributions_[stop].argmax(axis=1)
    return float((told == classifier.given_[stop]).mean())


def _facts(classifier: GraphClassifier) -> tuple[tuple[str, str], ...]:
    right, n_stop = _share_right(classifier), classifier.stopping_.size
    facts = [
        ("Nodes", f"{classifier.graph_.n_nodes:,}"),
        ("Edges", f"{classifier.graph_.n_edges:,}"),
        ("Classes", f"{len(classifier.classes_):,}"),
        ("Training labels", f"{int((classifier.given_ >= 0).sum()) - n_stop:,}"),
        ("Reached by a label", f"{classifier.reached_.mean():.1%}"),
    ]
    return (*facts, *([("Right on stopping", f"{right:.1%}")] if right is not None else []))


def _confusion(classifier: GraphClassifier) -> NDArray[np.int64]:
    n_classes, stop = len(classifier.classes_), classifier.stopping_
    matrix = np.zeros((n_classes, n_classes), dtype=np.int64)
    told = classifier.label_distributions_[stop].argmax(axis=1)
    np.add.at(matrix, (classifier.given_[stop], told), 1)
    return matrix
