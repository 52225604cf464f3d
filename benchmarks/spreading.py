"""Spreading labels and predictions: ours beside everyone who has it."""

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
from proptrain.bench.case import Case, Wanted, Work
from proptrain.bench.timing import Job
from proptrain.bench.training import labels_given, problem_of
from proptrain.data.catalog import find_entry
from proptrain.data.graph import Graph
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.labels import propagate_labels
from proptrain.propagate.schemes import PPR

N_STEPS = 10
N_NEIGHBOURS = 10


def label_propagation(wanted: Wanted) -> Iterator[Case]:
    """Yield ten steps from the training labels, by everyone who spreads labels."""
    title = "ten steps of label propagation, the graph prepared"
    for name in wanted.found_datasets():
        prepare = partial(_spread_labels, name, wanted.data_dir)
        yield Case("labels", title, name, "proptrain", prepare)


def from_features_alone(wanted: Wanted) -> Iterator[Case]:
    """Yield what scikit-learn does without a graph: neighbours in the features, then spreading."""
    title = "finding neighbours in the features, then spreading labels"
    for name in wanted.found_datasets():
        prepare = partial(_spread_over_neighbours, name, wanted.data_dir)
        yield Case("features", title, name, "proptrain", prepare, n_rounds=3)


def correct_and_smooth(wanted: Wanted) -> Iterator[Case]:
    """Yield correction and smoothing of the same predictions."""
    title = "correct and smooth, the graph prepared"
    for name in wanted.found_datasets():
        prepare = partial(_correct_and_smooth, name, wanted.data_dir)
        yield Case("smooth", title, name, "proptrain", prepare)


def _spread_labels(name: str, data_dir: Path | None) -> Work:
    dataset, split = problem_of(name, data_dir)
    alpha = find_entry(name).alpha
    data = pyg.tensors_of(dataset, split, sparse=True)
    engine = LocalEngine(dataset.graph)
    ours = (dataset.labels, split.train, dataset.n_classes, engine, PPR(alpha, N_STEPS))
    known = {int(node): int(dataset.labels[node]) for node in split.train}
    diffusion = DiffusionClassifier(n_iter=N_STEPS)
    jobs: dict[str, Job] = {
        "proptrain": partial(propagate_labels, *ours),
        **{
            f"PyG LabelPropagation, {kind}": partial(pyg.spread_labels, data, graph, alpha)
            for kind, graph in _both_kinds(dataset.graph).items()
        },
        "scikit-network DiffusionClassifier": partial(
            diffusion.fit_predict, sp.csr_matrix(dataset.graph.adjacency), labels=known
        ),
    }
    return Work(jobs)


def _spread_over_neighbours(name: str, data_dir: Path | None) -> Work:
    dataset, split = problem_of(name, data_dir)
    labels = np.full(dataset.n_nodes, -1)
    labels[split.train] = dataset.labels[split.train]
    ours = LabelPropagationClassifier(n_neighbors=N_NEIGHBOURS, device="cpu", random_state=0)
    theirs = LabelSpreading(kernel="knn", n_neighbors=N_NEIGHBOURS, max_iter=N_STEPS, n_jobs=-1)
    sparse = sp.csr_matrix(dataset.features)
    jobs: dict[str, Job] = {
        "proptrain": partial(ours.fit, dataset.features, labels),
        "scikit-learn LabelSpreading, dense features": partial(
            theirs.fit, sparse.toarray(), labels
        ),
        "scikit-learn LabelSpreading, sparse features": partial(theirs.fit, sparse, labels),
    }
    return Work(jobs)


def _correct_and_smooth(name: str, data_dir: Path | None) -> Work:
    dataset, split = problem_of(name, data_dir)
    alpha = find_entry(name).alpha
    classifier = CorrectAndSmoothClassifier(alpha=alpha, max_epochs=50, random_state=0)
    labels = labels_given(dataset, split)
    classifier.fit(dataset.features, labels, graph=dataset.graph, stopping=split.stop)
    told = classifier.probabilities_
    data, soft = pyg.tensors_of(dataset, split, sparse=True), torch.from_numpy(told)
    ours = (told, dataset.labels, split.train, LocalEngine(dataset.graph))
    jobs: dict[str, Job] = {
        # Its last step has no public name of its own.
        "proptrain": partial(classifier._correct_and_smooth, *ours),
        **{
            f"PyG CorrectAndSmooth, {kind}": partial(
                pyg.correct_and_smooth, data, graph, soft, alpha
            )
            for kind, graph in _both_kinds(dataset.graph).items()
        },
    }
    return Work(jobs)


def _both_kinds(graph: Graph) -> dict[str, pyg.Prepared]:
    """Return both forms that PyTorch Geometric takes a graph in; it spreads without loops."""
    kinds = {"edge list": False, "graph as torch CSR": True}
    return {kind: pyg.prepared(graph, "symmetric-no-loops", csr=csr) for kind, csr in kinds.items()}
