"""Fits: PTA beside the networks that have the graph inside, and PTA+ beside PTA."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.bench.case import Case, Wanted, Work, load_once
from proptrain.bench.timing import Job
from proptrain.data.catalog import find_entry
from proptrain.data.dataset import Dataset
from proptrain.data.splits import TEST_SEEDS, Split, split_nodes
from proptrain.experiments.methods import METHODS

N_EPOCHS = 50
"""So many that what a fit does before and after them counts little."""
N_SPLITS = 3
"""Of whole fits, because it is chance when a fit stops."""


def epochs(wanted: Wanted) -> Iterator[Case]:
    """Yield the same number of epochs of each method, the evaluation after each included."""
    for name in wanted.found_datasets():
        prepare = partial(_own_methods, name, wanted.data_dir)
        title = f"fits of {N_EPOCHS} epochs"
        yield Case("epochs", title, name, "proptrain PTA(F)", prepare, n_rounds=7)


def whole_fits(wanted: Wanted) -> Iterator[Case]:
    """Yield what PTA+ costs, each method from its labels to its predictions."""
    for name in wanted.found_datasets():
        prepare = partial(_fits_of_splits, name, wanted.data_dir)
        title = f"whole fits, the first {N_SPLITS} splits"
        yield Case("plus", title, name, "proptrain PTA", prepare, n_rounds=3)


def _fits_of_splits(name: str, data_dir: Path | None) -> Work:
    problems = [problem_of(name, data_dir, seed) for seed in TEST_SEEDS[:N_SPLITS]]
    return Work(
        {
            f"proptrain {method}": partial(_train_on_all, method, problems)
            for method in ("PTA", "PTA+")
        }
    )


def _train_on_all(method: str, problems: list[tuple[Dataset, Split]]) -> int:
    return sum(train(method, *problem) for problem in problems)


def _own_methods(name: str, data_dir: Path | None) -> Work:
    dataset, split = problem_of(name, data_dir)
    return Work(own_jobs(("PTA(F)", "PTA", "APPNP", "GCN"), dataset, split, **brief()))


def brief() -> dict[str, int]:
    """Return the settings of a fit that runs for so many epochs and does not stop before."""
    return {"max_epochs": N_EPOCHS, "patience": N_EPOCHS}


def own_jobs(
    methods: tuple[str, ...], dataset: Dataset, split: Split, **settings: Any
) -> dict[str, Job]:
    """Return our fits by the name of their method."""
    return {
        f"proptrain {method}": partial(train, method, dataset, split, **settings)
        for method in methods
    }


def problem_of(
    name: str, data_dir: Path | None, seed: int = TEST_SEEDS[0]
) -> tuple[Dataset, Split]:
    """Return a data set and a split of it, the paper's first one."""
    dataset, entry = load_once(name, data_dir), find_entry(name)
    return dataset, split_nodes(dataset.labels, seed, n_known=entry.n_known)


def labels_given(dataset: Dataset, split: Split) -> NDArray[np.int64]:
    """Return the labels (n,) of training and stopping nodes, -1 for the others."""
    given = np.full(dataset.n_nodes, -1)
    seen = np.concatenate([split.train, split.stop])
    given[seen] = dataset.labels[seen]
    return given


def train(method: str, dataset: Dataset, split: Split, **settings: Any) -> int:
    """Fit a method with the paper's settings but for those given; returns the epochs."""
    alpha = find_entry(dataset.name).alpha
    classifier = METHODS[method].make(alpha=alpha, steps=10, seed=0).set_params(**settings)
    labels = labels_given(dataset, split)
    classifier.fit(dataset.features, labels, graph=dataset.graph, stopping=split.stop)
    return int(classifier.n_iter_)
