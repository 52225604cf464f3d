"""Ours beside the peers: training, label propagation, correct and smooth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.semi_supervised import LabelSpreading
from sknetwork.classification import DiffusionClassifier

from benchmarks import pyg
from proptrain import CorrectAndSmoothClassifier, LabelPropagationClassifier
from proptrain.bench.case import OURS, Case
from proptrain.bench.timing import Job
from proptrain.bench.training import N_EPOCHS, fit, labels_given, problem_of
from proptrain.data.catalog import find_entry
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.labels import propagate_labels
from proptrain.propagate.schemes import PPR


def epochs_beside_pyg(datasets: list[str], data_dir: Path | None) -> Iterator[Case]:
    """Yield the same number of epochs with evaluation: PTA, and APPNP by the library."""
    for name in datasets:
        dataset, split = problem_of(name, data_dir)
        alpha, brief = find_entry(name).alpha, {"max_epochs": N_EPOCHS, "patience": N_EPOCHS}
        dense, sparse = (pyg.tensors_of(dataset, split, sparse=kind) for kind in (False, True))
        jobs: dict[str, Job] = {
            OURS: partial(fit, "PTA", dataset, split, **brief),
            f"{OURS}'s PTA(F)": partial(fit, "PTA(F)", dataset, split, **brief),
            f"{OURS}'s APPNP": partial(fit, "APPNP", dataset, split, **brief),
            "PyG APPNP, dense features": partial(pyg.train_appnp, dense, alpha, **brief),
            "PyG APPNP, sparse features": partial(pyg.train_appnp, sparse, alpha, **brief),
            "PyG SGConv, Â²X computed once": partial(pyg.train_sgc, dense, **brief),
        }
        yield Case(f"{N_EPOCHS} epochs beside PyTorch Geometric", name, jobs, n_rounds=3)


def to_the_early_stop(datasets: list[str], data_dir: Path | None) -> Iterator[Case]:
    """Yield whole trainings, each until it stops by itself; with sparse features for the peer.

    What dense features would take is this peer's number of epochs times their time for each.
    """
    for name in datasets:
        dataset, split = problem_of(name, data_dir)
        sparse = pyg.tensors_of(dataset, split, sparse=True)
        whole = {"max_epochs": pyg.MAX_EPOCHS, "patience": pyg.PATIENCE}
        jobs: dict[str, Job] = {
            OURS: partial(fit, "PTA(F)", dataset, split),
            f"{OURS}'s PTA": partial(fit, "PTA", dataset, split),
            "PyG APPNP, sparse features": partial(
                pyg.train_appnp, sparse, find_entry(name).alpha, **whole
            ),
        }
        yield Case("to the early stop", name, jobs, n_rounds=1)


def label_propagation(datasets: list[str], data_dir: Path | None) -> Iterator[Case]:
    """Yield ten steps from the training labels, by everyone who spreads labels."""
    for name in datasets:
        dataset, split = problem_of(name, data_dir)
        alpha = find_entry(name).alpha
        data = pyg.tensors_of(dataset, split, sparse=True)
        known = {int(node): int(dataset.labels[node]) for node in split.train}
        diffusion = DiffusionClassifier(n_iter=10)
        adjacency = sp.csr_matrix(dataset.graph.adjacency)
        engine = LocalEngine(dataset.graph)
        ours = (dataset.labels, split.train, dataset.n_classes, engine, PPR(alpha, 10))
        jobs: dict[str, Job] = {
            OURS: partial(propagate_labels, *ours),
            "PyG LabelPropagation": partial(pyg.spread_labels, data, alpha),
            "scikit-network DiffusionClassifier": partial(
                diffusion.fit_predict, adjacency, labels=known
            ),
        }
        yield Case("label propagation, the graph prepared", name, jobs)


def from_features_alone(datasets: list[str], data_dir: Path | None) -> Iterator[Case]:
    """Yield what scikit-learn does without a graph: neighbours in the features, then spreading."""
    for name in datasets:
        dataset, split = problem_of(name, data_dir)
        labels = np.full(dataset.n_nodes, -1)
        labels[split.train] = dataset.labels[split.train]
        dense = np.asarray(dataset.features.todense())
        theirs = LabelSpreading(kernel="knn", n_neighbors=10, max_iter=30)
        ours = LabelPropagationClassifier(n_neighbors=10, random_state=0)
        jobs: dict[str, Job] = {
            OURS: partial(ours.fit, dataset.features, labels),
            "scikit-learn LabelSpreading": partial(theirs.fit, dense, labels),
        }
        yield Case("spreading over neighbours in the features", name, jobs, n_rounds=3)


def correct_and_smooth(datasets: list[str], data_dir: Path | None) -> Iterator[Case]:
    """Yield correction and smoothing of the same predictions."""
    for name in datasets:
        dataset, split = problem_of(name, data_dir)
        alpha = find_entry(name).alpha
        classifier = CorrectAndSmoothClassifier(alpha=alpha, max_epochs=50, random_state=0)
        labels = labels_given(dataset, split)
        classifier.fit(dataset.features, labels, graph=dataset.graph, stopping=split.stop)
        soft = torch.from_numpy(classifier.probabilities_)
        data = pyg.tensors_of(dataset, split, sparse=True)
        jobs: dict[str, Job] = {
            OURS: partial(
                classifier._correct_and_smooth,
                *(classifier.probabilities_, dataset.labels, split.train),
                LocalEngine(dataset.graph),
            ),
            "PyG CorrectAndSmooth": partial(pyg.correct_and_smooth, data, soft, alpha),
        }
        yield Case("correct and smooth, the graph prepared", name, jobs)


SUITES = {
    "pyg-epochs": epochs_beside_pyg,
    "pyg-stop": to_the_early_stop,
    "labels": label_propagation,
    "features": from_features_alone,
    "smooth": correct_and_smooth,
}
