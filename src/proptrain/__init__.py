"""Tell what every node of a graph is from a few labels, some of them wrong.

Three steps, after "On the Equivalence of Decoupled GCN and Label Propagation" (WWW 2021):
propagate the known labels over the graph once (`propagate_labels`), train an ordinary network on
the soft labels (`train_predictor`), propagate its predictions once (`ensemble_predictions`).
`PTAClassifier` is their face for users of scikit-learn; `LabelPropagationClassifier`,
`GNNClassifier` and `CorrectAndSmoothClassifier` are what to compare it with.

Names are imported when they are first used, so that ``import proptrain`` stays instant.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Adaptive": "train.weighting",
    "AddSoftLabels": "pyg",
    "BlockedEngine": "propagate.blocked",
    "CorrectAndSmoothClassifier": "models.correct_smooth",
    "Dataset": "data.dataset",
    "DiskGraph": "data.disk",
    "EdgeCounts": "data.graph",
    "Engine": "propagate.engine",
    "Exact": "propagate.schemes",
    "FitSizes": "workload",
    "GNNClassifier": "models.gnn",
    "Graph": "data.graph",
    "Heat": "propagate.schemes",
    "History": "train.loop",
    "LabelFolds": "search",
    "LabelPropagationClassifier": "models.label_propagation",
    "LocalEngine": "propagate.engine",
    "Mean": "propagate.schemes",
    "NodeClassifier": "search",
    "PPR": "propagate.schemes",
    "PTAClassifier": "estimator",
    "PTAPlusClassifier": "plus",
    "PTLoss": "train.loss",
    "Power": "propagate.schemes",
    "Split": "data.splits",
    "StoppingNodes": "train.stopping",
    "TrainSettings": "train.loop",
    "Trained": "train.loop",
    "as_graph": "data.convert",
    "build_graph": "data.disk_build",
    "coefficients": "propagate.schemes",
    "dataset_from_pyg": "data.convert",
    "dataset_to_pyg": "data.convert",
    "dynamic": "train.weighting",
    "encode_labels": "data.labels",
    "ensemble_predictions": "ensemble.predictions",
    "estimate_fit": "workload",
    "extend_graph": "data.extend",
    "fit_from_disk": "large.from_disk",
    "graph_from_edges": "data.convert",
    "knn_graph": "data.knn",
    "largest_component": "data.dataset",
    "load_dataset": "data.catalog",
    "load_model": "saving.persistence",
    "noise_rate": "data.noise",
    "normalise": "propagate.normalisation",
    "predict_probabilities": "train.loop",
    "propagate_labels": "propagate.labels",
    "read_npz": "data.npz",
    "read_tables": "data.tables",
    "save_graph": "data.disk_writer",
    "save_model": "saving.persistence",
    "split_nodes": "data.splits",
    "static": "train.weighting",
    "train_predictor": "train.loop",
    "with_label_noise": "data.noise",
    "with_structure_noise": "data.noise",
    "write_npz": "data.npz",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604 - all are strings


def __getattr__(name: str) -> Any:
    """Import a public name from its home on first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'proptrain' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"proptrain.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
