"""The page about one model: what it predicts, how good it is, and every node explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from proptrain.experiments.versions import software
from proptrain.insight.calibration import FEWEST, N_BINS, reliability, share_right, with_temperature
from proptrain.insight.explanation import is_by_labels
from proptrain.report.explore import explorable_of, short_name
from proptrain.report.page import Report
from proptrain.report.parts import ClassRow, ReliabilityCurve, Suspect
from proptrain.trainings import count_trainings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from proptrain.classifier import GraphClassifier
    from proptrain.insight.audit import Audit

MOST_CLASSES = 200
"""Of more, the largest are listed, and no confusion matrix is drawn: nobody could read it."""
_NODES_PER_BIN = 20


def model_report(
    classifier: GraphClassifier,
    *,
    names: Sequence[Any] | None,
    title: str,
    command: str,
    suspects: tuple[Suspect, ...] = (),
) -> Report:
    """Return the page about a fitted model; ``names`` are what its nodes are called."""
    stop, n_classes = classifier.stopping_, len(classifier.classes_)
    n_trainings = count_trainings(classifier.get_params(deep=False))
    # Of several trainings, each has a best epoch of its own; a mean of epochs has none.
    has_no_best = n_trainings > 1 or _averages_epochs(classifier)
    return Report(
        title=title,
        subtitle=_subtitle(classifier),
        facts=_facts(classifier),
        methods=(),
        history=getattr(classifier, "history_", None),
        best_epoch=None if has_no_best else getattr(classifier, "best_epoch_", None),
        confusion=_confusion(classifier) if stop.size and n_classes <= MOST_CLASSES else None,
        class_names=tuple(str(name) for name in classifier.classes_),
        command=command,
        versions=tuple(software().items()),
        trained=_trained(classifier, n_trainings),
        judged="Stopping",
        watched="stopping nodes" if stop.size else "training nodes",
        explore=explorable_of(classifier, names),
        suspects=suspects,
        classes=_class_rows(classifier),
        reliability=_reliability(classifier),
    )


def suspects_of(
    audit: Audit, names: Sequence[Any] | None = None, class_names: Sequence[str] | None = None
) -> tuple[Suspect, ...]:
    """Return the audited labels as the page lists them."""
    called = [short_name(name) for name in class_names or audit.classes.tolist()]
    given, suggested = (
        np.searchsorted(audit.classes, labels) for labels in (audit.given, audit.suggested)
    )
    rows = np.arange(len(given))
    columns = (
        audit.nodes,
        given,
        suggested,
        audit.suspicion,
        audit.suspect,
        audit.judged,
        audit.cross_fitted[rows, given],
        audit.others[rows, given],
    )
    return tuple(
        Suspect(
            node=node,
            name=short_name(node if names is None else names[node]),
            given=called[old],
            suggested=called[new],
            suspicion=suspicion,
            is_suspect=is_suspect,
            is_judged=is_judged,
            cross_fitted=cross_fitted if is_judged else None,
            others=others,
        )
        for node, old, new, suspicion, is_suspect, is_judged, cross_fitted, others in zip(
            *(column.tolist() for column in columns), strict=True
        )
    )


def reliability_curves(
    told: NDArray[np.float64], codes: NDArray[np.int64], temperature: float
) -> tuple[ReliabilityCurve, ...]:
    """Return the curves of predictions (m, C) as they are and with a temperature.

    There are up to 15 bins, fewer for few nodes; of fewer than 20 nodes there is no curve at all.
    """
    if len(codes) < FEWEST:
        return ()
    n_bins = int(np.clip(len(codes) // _NODES_PER_BIN, 4, N_BINS))
    before, after = told, with_temperature(told, temperature)
    return tuple(
        ReliabilityCurve(
            name,
            tuple(bins.counts.tolist()),
            tuple(bins.confidence.tolist()),
            tuple(bins.accuracy.tolist()),
            bins.error,
        )
        for name, bins in (
            ("as predicted", reliability(before, codes, n_bins)),
            ("calibrated", reliability(after, codes, n_bins)),
        )
    )


def _reliability(classifier: GraphClassifier) -> tuple[ReliabilityCurve, ...]:
    stop = classifier.stopping_
    if not stop.size:
        return ()
    told, codes = classifier.label_distributions_[stop], classifier.given_[stop]
    return reliability_curves(told, codes, classifier.find_temperature())


def _averages_epochs(classifier: GraphClassifier) -> bool:
    """Tell whether a mean over epochs was kept, as PTA+ does without stopping nodes."""
    return hasattr(classifier, "n_kept_") and not classifier.stopping_.size


def _trained(classifier: GraphClassifier, n_trainings: int) -> str:
    mean = (
        " There were no stopping nodes to choose an epoch by, so the mean of the later epochs’ "
        "weights is kept."
        if _averages_epochs(classifier)
        else ""
    )
    if n_trainings == 1:
        return f"This model, epoch by epoch.{mean}{_outdone(classifier)}"
    return (
        f"Its {n_trainings} trainings one after another, epoch by epoch; each round learns from "
        f"what the one before it predicts.{mean}{_outdone(classifier)}"
        f"{_counting(classifier, n_trainings)}"
    )


def _outdone(classifier: GraphClassifier) -> str:
    """Say that labels alone told more, if they did."""
    if not is_by_labels(classifier):
        return ""
    return (
        " Labels alone clearly told more than all that was learnt from the features, so what is "
        "predicted comes from them; only new nodes without edges are told by what was learnt."
    )


def _counting(classifier: GraphClassifier, n_trainings: int) -> str:
    """Say which of the trainings count: all of them, those of one round, or none."""
    if is_by_labels(classifier):
        return ""
    if getattr(classifier, "n_kept_", n_trainings) == n_trainings:
        return " What all of them predict counts."
    if classifier.stopping_.size and not getattr(classifier, "average_rounds", True):
        return (
            " What the last round predicts counts, of those that tell the stopping nodes as well "
            "as the first."
        )
    n_rounds = getattr(classifier, "n_rounds", 0) + 1
    # With stopping nodes the first may count alone; without, all are equally long.
    n_epochs, last = (getattr(classifier, name) for name in ("n_iter_", "best_epoch_"))
    place = 0 if classifier.stopping_.size else last * n_rounds // n_epochs
    return f" What round {place + 1} of {n_rounds} predicts counts."


def _subtitle(classifier: GraphClassifier) -> str:
    n_nodes, n_labels = classifier.graph_.n_nodes, int((classifier.given_ >= 0).sum())
    known = f"{n_labels:,} of {n_nodes:,} nodes had a label; the model predicts a class for all."
    right = _right_on_stopping(classifier)
    if right is None:
        return known
    return (
        f"{known} It is right on {percent(right)} of the {classifier.stopping_.size:,} stopping "
        "nodes, whose labels it was not trained on. They decided when training stopped, so expect "
        "somewhat less of others; “proptrain evaluate” measures it."
    )


def _right_on_stopping(classifier: GraphClassifier) -> float | None:
    return share_right(classifier.label_distributions_, classifier.given_, classifier.stopping_)


def percent(share: float) -> str:
    r"""Write a share as everything in the page does.

    >>> percent(0.789)
    '78.9\xa0%'
    """
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def _facts(classifier: GraphClassifier) -> tuple[tuple[str, str], ...]:
    right, n_stop = _right_on_stopping(classifier), classifier.stopping_.size
    facts = [
        ("Nodes", f"{classifier.graph_.n_nodes:,}"),
        ("Edges", f"{classifier.graph_.n_edges:,}"),
        ("Classes", f"{len(classifier.classes_):,}"),
        ("Training labels", f"{int((classifier.given_ >= 0).sum()) - n_stop:,}"),
        ("Reached by a label", percent(classifier.reached_.mean())),
    ]
    return (*facts, *([("Right on stopping", percent(right))] if right is not None else []))


def _class_rows(classifier: GraphClassifier) -> tuple[ClassRow, ...]:
    n_classes, given = len(classifier.classes_), classifier.given_
    told, stop = classifier.label_distributions_.argmax(axis=1), classifier.stopping_
    held_out = np.bincount(given[stop], minlength=n_classes)
    right = np.bincount(given[stop][told[stop] == given[stop]], minlength=n_classes)
    counts = (
        np.bincount(given[given >= 0], minlength=n_classes),
        np.bincount(told[given < 0], minlength=n_classes),
        held_out,
        right,
    )
    largest = np.argsort(-(counts[0] + counts[1]), kind="stable")[:MOST_CLASSES]
    codes = np.sort(largest)
    names = [short_name(name) for name in classifier.classes_[codes].tolist()]
    columns = (column[codes].tolist() for column in counts)
    return tuple(ClassRow(*row) for row in zip(names, *columns, strict=True))


def _confusion(classifier: GraphClassifier) -> NDArray[np.int64]:
    n_classes, stop = len(classifier.classes_), classifier.stopping_
    matrix = np.zeros((n_classes, n_classes), dtype=np.int64)
    told = classifier.label_distributions_[stop].argmax(axis=1)
    np.add.at(matrix, (classifier.given_[stop], told), 1)
    return matrix
