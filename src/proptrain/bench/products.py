"""The products of the first layer, most of an epoch, by the libraries that have them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import matmul
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from proptrain.bench.case import Case, Wanted, Work, drawn, load_once
from proptrain.bench.timing import Job
from proptrain.data.indices import with_short_indices
from proptrain.kernels import active_gradients, sparse_product
from proptrain.kernels.threads import count_threads, for_each
from proptrain.kernels.transposed import transposed_parts
from proptrain.system.torch_sparse import torch_csr

N_HIDDEN = 64
YARDSTICK = "the yardstick: as many operations, a dense row at a time (BLAS)"
ONE_BY_ONE = "proptrain, one run after another"
_TITLE = "the first layer"
_COPIED = 1 << 28
_WEIGHTS = 512 * 1024
"""Bytes of the yardstick's weights: too many for the first cache, few enough for the second."""


def first_layer(wanted: Wanted) -> Iterator[Case]:
    """Yield features times weights, the way back, and what the machine's memory can do."""
    for name in wanted.found_datasets():
        for way in ("forward", "backward"):
            prepare = partial(_products, name, wanted.data_dir, way)
            yield Case("first-layer", _TITLE, f"{name}, {way}", "proptrain", prepare)
    yield Case("first-layer", _TITLE, "copying 256 MiB", "NumPy, one thread", _copies)


def _products(name: str, data_dir: Path | None, way: Literal["forward", "backward"]) -> Work:
    features = with_short_indices(sp.csr_array(load_once(name, data_dir).features))
    matrix = features if way == "forward" else sp.csr_array(features.T)
    right = drawn(matrix.shape[1], N_HIDDEN)
    n_operations = 2.0 * features.nnz * N_HIDDEN
    ours: Job = partial(sparse_product, features, right)
    if way == "backward":  # as in training: past the rectifier, with the gradient of the bias
        given = (features, right, np.ones_like(right), 1.0, transposed_parts(features))
        ours = partial(_way_back, *given)
    jobs: dict[str, Job] = {
        "proptrain": ours,
        "SciPy": partial(matmul, matrix, right),
        "torch CSR": partial(matmul, torch_csr(matrix, shares=True), torch.from_numpy(right)),
        **_yardsticks(n_operations),
        "as many operations, a dense product (torch)": _dense_job(n_operations),
    }
    return Work(jobs, n_operations, "operations")


def _way_back(*given: Any) -> NDArray[Any]:
    for_weights, _ = active_gradients(*given)
    return for_weights


def runs_together(wanted: Wanted) -> Iterator[Case]:
    """Yield the first layers of five runs on the same features, each by itself and all as one."""
    for name in wanted.found_datasets():
        prepare = partial(_five_runs, name, wanted.data_dir)
        yield Case("together", "the first layers of five runs", name, ONE_BY_ONE, prepare)


def _five_runs(name: str, data_dir: Path | None) -> Work:
    features = with_short_indices(sp.csr_array(load_once(name, data_dir).features))
    stacked = drawn(features.shape[1], 5 * N_HIDDEN)
    weights = [np.ascontiguousarray(own) for own in np.split(stacked, 5, axis=1)]
    jobs: dict[str, Job] = {
        ONE_BY_ONE: lambda: [sparse_product(features, own) for own in weights],
        "proptrain, all runs in one product": partial(sparse_product, features, stacked),
    }
    return Work(jobs, 5 * 2.0 * features.nnz * N_HIDDEN, "operations")


def _yardsticks(n_operations: float) -> dict[str, Job]:
    """Return products of dense rows with weights in the second cache, in one thread and in all.

    A sparse row uses each weight that it reads for one multiplication. So does a matrix times a
    vector, which BLAS has in hand-written assembly; but it reads the weights one after the other,
    where ours have to be looked up. A product of two dense matrices says nothing of that: it
    reads a weight once for many rows. Waking threads may take longer than a small product, so
    that both are measured, and ours is held to the faster.
    """
    n_inner = _WEIGHTS // (N_HIDDEN * np.dtype(np.float32).itemsize)
    weights = drawn(N_HIDDEN, n_inner)
    rows = drawn(max(1, round(n_operations / (2 * n_inner * N_HIDDEN))), n_inner, 1)
    counts = {"one thread": 1, "all threads": count_threads()}
    return {
        f"{YARDSTICK}, {name}": _row_after_row(weights, np.array_split(rows, n_threads))
        for name, n_threads in counts.items()
        if name == "one thread" or n_threads > 1
    }


def _row_after_row(weights: NDArray[Any], blocks: list[NDArray[Any]]) -> Job:
    blas = ThreadpoolController().select(user_api="blas")

    def multiply() -> None:
        # Threads of BLAS's own would wait for each other after every row.
        with blas.limit(limits=1):
            for_each(blocks, lambda block: np.matmul(weights, block))

    return multiply


def _dense_job(n_operations: float) -> Job:
    n_inner = 256
    n_rows = max(1, round(n_operations / (2 * n_inner * N_HIDDEN)))
    left, right = drawn(n_rows, n_inner), drawn(n_inner, N_HIDDEN)
    return partial(matmul, torch.from_numpy(left), torch.from_numpy(right))


def _copies() -> Work:
    source, target = np.ones(_COPIED, dtype=np.uint8), np.empty(_COPIED, dtype=np.uint8)
    jobs: dict[str, Job] = {
        "NumPy, one thread": partial(np.copyto, target, source),
        "torch, all threads": partial(torch.from_numpy(target).copy_, torch.from_numpy(source)),
    }
    return Work(jobs, 2.0 * _COPIED, "bytes")  # each is read and written
