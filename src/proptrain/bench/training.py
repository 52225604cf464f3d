"""Whole fits: PTA beside the networks that have the graph inside."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.bench.case import OURS, Case
from proptrain.bench.timing import Job
from proptrain.data.catalog import find_entry, load_dataset
from proptrain.data.dataset import Dataset
from proptrain.data.splits import TEST_SEEDS, Split, split_nodes
from proptrain.experiments.methods import METHODS

N_EPOCHS = 20
"""Of a fit whose epochs are timed; those after the first are all alike."""


def epochs(datasets: list[str], data_dir: Path | None) -> Iterator[Case]:
    """Yield the same number of epochs of each method, the evaluation after each included."""
    for name in datasets:
        dataset, split = problem_of(name, data_dir)
        jobs: dict[str, Job] = {
            _name_of(method): partial(
                fit, method, dataset, split, max_epochs=N_EPOCHS, patience=N_EPOCHS
            )
            for method in ("PTA(F)", "PTA", "APPNP", "GCN")
        }
        yield Case(f"{N_EPOCHS} epochs", name, jobs, n_rounds=7)


def problem_of(name: str, data_dir: Path | None) -> tuple[Dataset, Split]:
    """Return a data set and the paper's first split of it."""
    dataset, entry = load_dataset(name, data_dir), find_entry(name)
    return dataset, split_nodes(dataset.labels, TEST_SEEDS[0], n_known=entry.n_known)


def labels_given(dataset: Dataset, split: Split) -> NDArray[np.int64]:
    """Return the labels (n,) of training and stopping nodes, -1 for the others."""
    given = np.full(dataset.n_nodes, -1)
    seen = np.concatenate([split.train, split.stop])
    given[seen] = dataset.labels[seen]
    return given


def fit(method: str, dataset: Dataset, split: Split, **settings: Any) -> Any:
    """Fit a method with the paper's settings but for those given; returns the classifier."""
    alpha = find_entry(dataset.name).alpha
    classifier = METHODS[method].make(alpha=alpha, steps=10, seed=0).set_params(**settings)
    labels = labels_given(dataset, split)
    return classifier.fit(dataset.features, labels, graph=dataset.graph, stopping=split.stop)


def _name_of(method: str) -> str:
    return OURS if method == "PTA(F)" else f"{OURS}'s {method}"
