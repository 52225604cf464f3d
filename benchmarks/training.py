"""Training: PTA beside PyTorch Geometric's APPNP and SGConv."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks import pyg
from proptrain.bench.case import Case, Wanted, Work
from proptrain.bench.timing import Job
from proptrain.bench.training import N_EPOCHS, brief, own_jobs, problem_of
from proptrain.data.catalog import find_entry

DENSE = "PyG APPNP, dense features, edge list"
RECKONED = f"{DENSE}, reckoned from 10 epochs"
FORMS: dict[str, dict[str, bool]] = {
    DENSE: {"sparse": False},  # as in the library's examples
    "PyG APPNP, sparse features, edge list": {"sparse": True},
    "PyG APPNP, sparse features, torch CSR": {
        "sparse": True,
        "csr_to_train": True,
        "csr_to_judge": True,
    },
    # For a gradient, torch transposes a CSR anew.
    "PyG APPNP, sparse features, edge list, torch CSR to evaluate": {
        "sparse": True,
        "csr_to_judge": True,
    },
}
_WHOLE = {"max_epochs": pyg.MAX_EPOCHS, "patience": pyg.PATIENCE}
_TEN = {"max_epochs": 10, "patience": 10}
_TWO = {"max_epochs": 2, "patience": 2}


def epochs_beside_pyg(wanted: Wanted) -> Iterator[Case]:
    """Yield the same number of epochs with evaluation: PTA, and APPNP by the library."""
    for name in wanted.found_datasets():
        title = f"fits of {N_EPOCHS} epochs beside PyTorch Geometric"
        prepare = partial(_same_epochs, name, wanted.data_dir)
        yield Case("pyg-epochs", title, name, "proptrain PTA", prepare, n_rounds=3)


def to_the_early_stop(wanted: Wanted) -> Iterator[Case]:
    """Yield whole trainings, each until it stops by itself.

    With dense features that takes up to hours. They are the same numbers and take about as many
    epochs as sparse ones, so they are told for as many, at the time that ten of theirs take.
    """
    return _stopping(wanted, "pyg-stop", "training until it stops", _until_it_stops)


def to_the_early_stop_dense(wanted: Wanted) -> Iterator[Case]:
    """Yield the same with every epoch of the peer's dense features."""
    title = "training until it stops, every epoch with dense features"
    return _stopping(wanted, "pyg-stop-dense", title, _until_dense_stops)


def _stopping(
    wanted: Wanted, suite: str, title: str, prepare: Callable[[str, Path | None], Work]
) -> Iterator[Case]:
    for name in wanted.found_datasets():
        ready = partial(prepare, name, wanted.data_dir)
        # A round to warm up would take as long as the one that counts: preparing does it.
        yield Case(suite, title, name, "proptrain PTA(F)", ready, n_rounds=1, warms_up=False)


def _same_epochs(name: str, data_dir: Path | None) -> Work:
    return Work(_jobs_of_all(name, data_dir, brief()))


def _until_it_stops(name: str, data_dir: Path | None) -> Work:
    _warm_up(name, data_dir)
    sparse = _quickest_sparse_form(name, data_dir)
    jobs: dict[str, Job] = {
        **own_jobs(("PTA(F)", "PTA"), *problem_of(name, data_dir)),
        sparse: _appnp(sparse, name, data_dir, _WHOLE),
        RECKONED: _appnp(DENSE, name, data_dir, _TEN),
    }
    return Work(jobs, reckoned={RECKONED: sparse})


def _quickest_sparse_form(name: str, data_dir: Path | None) -> str:
    """Return the form in which ten epochs of the library take least: it differs by data set."""

    def seconds(title: str) -> float:
        job, start = _appnp(title, name, data_dir, _TEN), time.perf_counter()
        job()
        return time.perf_counter() - start

    return min((title for title, form in FORMS.items() if form["sparse"]), key=seconds)


def _until_dense_stops(name: str, data_dir: Path | None) -> Work:
    _warm_up(name, data_dir)
    jobs: dict[str, Job] = {
        **own_jobs(("PTA(F)",), *problem_of(name, data_dir)),
        DENSE: _appnp(DENSE, name, data_dir, _WHOLE),
    }
    return Work(jobs)


def _warm_up(name: str, data_dir: Path | None) -> None:
    for job in _jobs_of_all(name, data_dir, _TWO).values():
        job()


def _jobs_of_all(name: str, data_dir: Path | None, settings: dict[str, int]) -> dict[str, Job]:
    dataset, split = problem_of(name, data_dir)
    dense = pyg.tensors_of(dataset, split, sparse=False)
    return {
        **own_jobs(("PTA", "PTA(F)", "APPNP"), dataset, split, **settings),
        **{title: _appnp(title, name, data_dir, settings) for title in FORMS},
        "PyG SGConv, dense features, Â²X computed once": partial(pyg.train_sgc, dense, **settings),
    }


def _appnp(title: str, name: str, data_dir: Path | None, settings: dict[str, int]) -> Job:
    dataset, split = problem_of(name, data_dir)
    data = pyg.tensors_of(dataset, split, **FORMS[title])
    return partial(pyg.train_appnp, data, find_entry(name).alpha, **settings)
