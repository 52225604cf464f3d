"""One task: plant wrong labels, audit, compare with cleanlab, fix, train again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from cleanlab.rank import get_label_quality_scores
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.audit.task import Task
from proptrain.data.catalog import find_entry, load_dataset
from proptrain.data.dataset import Dataset
from proptrain.data.noise import with_label_noise
from proptrain.data.splits import Split, cross_fit, deal_folds, split_nodes
from proptrain.estimator import PTAClassifier
from proptrain.insight.audit import N_FOLDS, Audit
from proptrain.insight.calibration import calibration_error
from proptrain.insight.evidence import Evidence

CLEANLAB = (
    ("self_confidence", False),
    ("self_confidence", True),
    ("normalized_margin", False),
    ("normalized_margin", True),
    ("confidence_weighted_entropy", False),
)
"""What cleanlab can rank by, and whether it adjusts for the classes; the first is its default."""
FIXED_RATES = (0.2, 0.3)


def measure(task: Task, data_dir: Path | None) -> dict[str, float]:
    """Carry out a task; returns what was measured, by name."""
    dataset, entry = load_dataset(task.dataset, data_dir), find_entry(task.dataset)
    split = split_nodes(
        dataset.labels, task.seed, n_known=entry.n_known, for_tuning=task.validation
    )
    if task.kind == "none":
        return _calibration(dataset, split, entry.alpha)
    wrong_labels = with_label_noise(
        dataset.labels, split.train, dataset.n_classes, task.rate, task.seed, kind=task.kind
    )
    # Nobody is given a label but the training nodes', so no right one can help.
    y = np.full(dataset.n_nodes, -1)
    y[split.train] = wrong_labels[split.train]
    classifier = _fitted(dataset, y, entry.alpha)
    found = classifier.audit(dataset.features)
    plain = (found.rounds[0] + _second_round(dataset, classifier, found.nodes)) / 2
    measured = _found(found, classifier, plain, dataset.labels)
    if task.rate in FIXED_RATES:
        measured |= _after_fixing(dataset, split, y, found, classifier, entry.alpha)
    return measured


def _fitted(dataset: Dataset, y: NDArray[Any], alpha: float, **fit: Any) -> PTAClassifier:
    classifier = PTAClassifier(alpha=alpha, device="cpu", random_state=0)
    return classifier.fit(dataset.features, y, graph=dataset.graph, **fit)


def _second_round(
    dataset: Dataset, classifier: PTAClassifier, nodes: NDArray[np.int64]
) -> Evidence:
    """Cross-validate once more, on the labels as given: others get as many models as the audit."""
    tell = classifier._teller(dataset.features, seed=1)
    codes = classifier.given_
    folds = deal_folds(codes[nodes], N_FOLDS, np.random.RandomState(1))
    return cross_fit(codes, nodes, folds, dataset.n_classes, tell)


def _found(
    found: Audit, classifier: PTAClassifier, plain: Evidence, truth: NDArray[np.int64]
) -> dict[str, float]:
    """Measure how well each way of ranking puts the wrong labels first."""
    is_wrong = found.given != truth[found.nodes]
    rankings = {"audit": found.suspicion, **_other_rankings(found, classifier, plain)}
    measured = {f"auroc {name}": _auroc(is_wrong, by) for name, by in rankings.items()}
    measured |= {f"precision {name}": _precision(is_wrong, by) for name, by in rankings.items()}
    right = found.suggested == truth[found.nodes]
    return {
        **measured,
        "suspects": float(found.suspect.mean()),
        "suspects wrong": float(is_wrong[found.suspect].mean()) if found.suspect.any() else 0.0,
        "wrong suspected": float(found.suspect[is_wrong].mean()),
        "suggested right": float(right[is_wrong].mean()),
    }


def _other_rankings(
    found: Audit, classifier: PTAClassifier, plain: Evidence
) -> dict[str, NDArray[np.float64]]:
    """Return how suspicious each label is to others: higher is more so."""
    rows = np.arange(len(found.nodes))
    parts: dict[str, NDArray[Any]] = {
        "predict_proba": classifier.label_distributions_[found.nodes],
        "network": classifier.probabilities_[found.nodes],
        "weight": found.weights,
        "others": found.others,
    }
    rankings = {name: -part[rows, found.given] for name, part in parts.items()}
    for method, adjusted in CLEANLAB:
        quality = get_label_quality_scores(
            found.given, plain, method=method, adjust_pred_probs=adjusted
        )
        rankings[f"cleanlab {method}{', adjusted' * adjusted}"] = -np.asarray(quality)
    return rankings


def _auroc(is_wrong: NDArray[np.bool_], suspicion: NDArray[np.float64]) -> float:
    return float(roc_auc_score(is_wrong, suspicion))


def _precision(is_wrong: NDArray[np.bool_], suspicion: NDArray[np.float64]) -> float:
    """Return the share of wrong labels among as many first ones as there are wrong ones."""
    first = np.argsort(-suspicion, kind="stable")[: is_wrong.sum()]
    return float(is_wrong[first].mean())


def _after_fixing(
    dataset: Dataset,
    split: Split,
    y: NDArray[np.int64],
    found: Audit,
    before: PTAClassifier,
    alpha: float,
) -> dict[str, float]:
    """Train anew on the fixed labels: with nothing else, and with the protocol's stopping nodes."""

    def accuracy(classifier: PTAClassifier) -> float:
        return float((classifier.transduction_ == dataset.labels)[split.test].mean())

    def with_stopping(labels: NDArray[np.int64]) -> PTAClassifier:
        labels = labels.copy()
        labels[split.stop] = dataset.labels[split.stop]
        return _fitted(dataset, labels, alpha, stopping=split.stop)

    fixed = np.asarray(found.fixed(y))
    return {
        "accuracy before, labels alone": accuracy(before),
        "accuracy after, labels alone": accuracy(_fitted(dataset, fixed, alpha)),
        "accuracy before, protocol": accuracy(with_stopping(y)),
        "accuracy after, protocol": accuracy(with_stopping(fixed)),
    }


def _calibration(dataset: Dataset, split: Split, alpha: float) -> dict[str, float]:
    """Measure the calibration error of the protocol's own fit, with every label right."""
    y = np.full(dataset.n_nodes, -1)
    seen = np.concatenate([split.train, split.stop])
    y[seen] = dataset.labels[seen]
    classifier = _fitted(dataset, y, alpha, stopping=split.stop)
    truth = dataset.labels[split.test]
    measured = {"temperature": classifier.find_temperature()}
    for name, calibrated in (("before", False), ("after", True)):
        told = classifier.predict_proba(calibrated=calibrated)[split.test]
        measured[f"error {name}"] = calibration_error(told, truth)
        measured[f"accuracy {name}"] = float((told.argmax(axis=1) == truth).mean())
    return measured
