"""What a command will take, said before it begins; --force begins all the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from proptrain.cli.console import say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from proptrain.classifier import GraphClassifier
    from proptrain.data.dataset import Dataset, Features
    from proptrain.data.graph import Graph
    from proptrain.experiments.protocol import Run
    from proptrain.experiments.tasks import Task
    from proptrain.workload import FitSizes, Workload

_WORTH_SAYING = 1_000_000_000
"""Bytes from which on a fit's memory is said beforehand."""
_LONG = 30.0
"""Seconds of all epochs of all fits together from which on they are said beforehand."""
_WORKER = 450_000_000
"""Bytes that a process of `reproduce` has for itself, with a data set; 410 MB without."""


def sizes_of(dataset: Dataset) -> FitSizes:
    """Return what a fit to a data set is given."""
    return sizes_in(dataset.graph, dataset.features, dataset.n_classes)


def sizes_in(graph: Graph, features: Features, n_classes: int) -> FitSizes:
    """Return what a fit to a graph in memory is given."""
    is_weighted = bool((graph.adjacency.data != 1).any())
    return sizes_from(features, 2 * graph.n_edges, n_classes, is_weighted=is_weighted)


def sizes_from(features: Any, n_entries: int, n_classes: int, *, is_weighted: bool) -> FitSizes:
    """Return what a fit is given, by its features, dense or sparse."""
    from proptrain.workload import FitSizes

    stored = getattr(features, "nnz", None)
    return FitSizes(features.shape[0], n_entries, features.shape[1], n_classes, stored, is_weighted)


def epochs_ahead(classifier: GraphClassifier, codes: NDArray[np.int64]) -> int:
    """Return how many epochs a fit to these labels can take; what trains nothing counts as one."""
    from proptrain.trainings import most_epochs

    settings = classifier.get_params(deep=False)
    return max(1, most_epochs(settings, is_watched=_is_watched(classifier, codes)))


def _is_watched(classifier: GraphClassifier, codes: NDArray[np.int64]) -> bool:
    """Tell whether a fit to these labels holds some of them back, to decide when to stop."""
    from proptrain.problem import holds_out

    return holds_out(codes, classifier.get_params(deep=False).get("stopping_fraction", 0.0))


def tell_workload(
    classifier: GraphClassifier,
    sizes: FitSizes,
    *,
    quiet: bool,
    force: bool,
    codes: NDArray[np.int64] | None = None,
    beside: int = 0,
    n_fits: int = 1,
) -> None:
    """Say what a fit in memory takes if that is much, and raise if there is not so much.

    ``codes`` are the labels, if all fits are to the same ones; ``beside`` are bytes that have to be
    read first; ``n_fits`` is how often a command fits, one after another: that takes longer, not
    more memory.
    """
    from proptrain.workload import check_memory, time_in_words

    told = _estimated(classifier, sizes, codes)
    from_disk = "Fit from disk instead (proptrain graph build, then fit --engine blocked), drop "
    if not force:
        check_memory(
            told.memory + beside,
            "This fit" if n_fits == 1 else f"Each of these {n_fits:,} fits",
            f"{from_disk if n_fits == 1 else 'Drop '}columns, or begin all the same with --force.",
        )
    seconds = n_fits * told.seconds
    if quiet or (told.memory <= _WORTH_SAYING and seconds <= _LONG):
        return
    if n_fits == 1:
        say(f"takes {told}")
    else:
        all_of_them = f"all of them together at most {time_in_words(seconds)}"
        say(f"each of {n_fits:,} fits takes {told}; {all_of_them}")


def tell_seconds(seconds: float, but: str = "", *, quiet: bool) -> None:
    """Say how long something takes if that is long."""
    from proptrain.workload import time_in_words

    if not quiet and seconds > _LONG:
        say(f"takes about {time_in_words(seconds)}{but}")


def tell_time(
    classifier: GraphClassifier,
    sizes: FitSizes,
    codes: NDArray[np.int64],
    *,
    quiet: bool,
    n_cpus: int | None = None,
) -> None:
    """Say how long a fit takes if that is long; its memory is limited by other means.

    ``n_cpus`` are those of a cluster, if it is on one.
    """
    from proptrain.workload import on_cluster

    told = _estimated(classifier, sizes, codes)
    told = told if n_cpus is None else on_cluster(told, n_cpus)
    if not quiet and told.seconds > _LONG:
        say(f"takes about {told.duration}")


def _estimated(
    classifier: GraphClassifier, sizes: FitSizes, codes: NDArray[np.int64] | None
) -> Workload:
    from proptrain.workload import estimate_fit

    is_watched = codes is None or _is_watched(classifier, codes)
    return estimate_fit(classifier, sizes, is_watched=is_watched)


def tell_limit(memory: str, useful: int, what: str, *, force: bool) -> None:
    """Raise if a limit that the user gave is more than there is, and would be used up.

    ``useful`` are the bytes that the work can make use of; it takes no more of a limit.
    """
    from proptrain.system.memory import left_of, parse_memory
    from proptrain.workload import check_memory

    if not force:
        # The limit is for the whole process, and what it has already is no longer available.
        needed = min(left_of(parse_memory(memory)), useful)
        advice = "Give a smaller --memory, or begin all the same with --force."
        check_memory(needed, f"{what}, with --memory {memory},", advice)


def tell_runs(
    left: Collection[Task],
    done: Collection[Run],
    datasets: Mapping[str, Dataset],
    n_workers: int,
    *,
    quiet: bool,
    force: bool,
) -> Callable[[Task], float]:
    """Say how long runs take on so many workers, and raise if those have too little memory.

    A run takes as long as those of its method on its data set did; where there are none, as long as
    all epochs that there can be. Returns how many seconds that is of each.
    """
    from proptrain.experiments.grid import counted
    from proptrain.experiments.remaining import mean_seconds, remaining_seconds
    from proptrain.experiments.versions import count_cores
    from proptrain.workload import check_memory

    sizes = {name: sizes_of(datasets[name]) for name in {task.dataset for task in left}}
    told = {task: _estimated_run(task, sizes[task.dataset]) for task in left}

    def guess(task: Task) -> float:
        return told[task].seconds

    if not left:
        return guess
    # Those that are timed come one at a time.
    n_workers = max(1, min(n_workers, sum(not task.timed for task in left)))
    workers = counted(n_workers, "worker")
    if not force:
        needed = n_workers * (_WORKER + max(one.memory for one in told.values()))
        advice = "Give fewer --workers, or begin all the same with --force."
        check_memory(needed, f"Work by {workers}", advice)
    n_at_once = min(n_workers, count_cores())
    seconds = remaining_seconds(left, done, n_workers=n_at_once, guess=guess)
    known = mean_seconds(done)
    n_guessed = sum((task.dataset, task.method) not in known for task in left)
    all_epochs = (
        f"; {n_guessed:,} of {counted(len(left), 'run')} count with all epochs that there can be, "
        "of which early stopping often leaves out most"
    )
    tell_seconds(seconds, f" with {workers}" + all_epochs * bool(n_guessed), quiet=quiet)
    return guess


def _estimated_run(task: Task, sizes: FitSizes) -> Workload:
    from proptrain.data.catalog import find_entry
    from proptrain.experiments.methods import METHODS
    from proptrain.workload import estimate_fit

    make, alpha = METHODS[task.method].make, find_entry(task.dataset).alpha
    classifier = make(alpha=alpha, steps=task.steps, seed=task.init_seed)
    return estimate_fit(classifier, sizes, is_watched=not task.labels_alone)
