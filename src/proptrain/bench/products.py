"""The products that training and propagation are made of, by the libraries that have them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from operator import matmul
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from proptrain.bench.case import OURS, Case, drawn
from proptrain.bench.timing import Job
from proptrain.data.catalog import load_dataset
from proptrain.data.indices import with_short_indices
from proptrain.data.order import locality_order
from proptrain.data.synthetic import power_law_graph
from proptrain.kernels import sparse_product, transposed_sparse_product
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.normalisation import normalise
from proptrain.propagate.schemes import PPR

N_HIDDEN = 64
N_CLASSES = 47
"""As many as the products graph has that large-graph papers measure on."""
ENTRIES_PER_NODE = 51


def first_layer(datasets: list[str], data_dir: Path | None) -> Iterator[Case]:
    """Yield features times weights, and the way back: most of an epoch."""
    for name in datasets:
        features = with_short_indices(sp.csr_array(load_dataset(name, data_dir).features))
        there, back = drawn(features.shape[1], N_HIDDEN), drawn(features.shape[0], N_HIDDEN)
        n_operations = 2.0 * features.nnz * N_HIDDEN
        transposed = sp.csr_array(features.T)
        ways = {
            "forward": (features, there, sparse_product, features),
            "backward": (transposed, back, transposed_sparse_product, features),
        }
        for way, (matrix, right, product, ours) in ways.items():
            jobs: dict[str, Job] = {
                OURS: partial(product, ours, right),
                "SciPy": partial(matmul, matrix, right),
                "torch CSR": partial(matmul, torch_csr(matrix), torch.from_numpy(right)),
                "a dense product of as many operations": _dense_job(n_operations),
            }
            yield Case("first layer", f"{name}, {way}", jobs, n_operations)
    yield Case("first layer", "copying 256 MB", {OURS: _copy_job(1 << 26)})


def propagation_step(n_entries: int) -> Iterator[Case]:
    """Yield one step of propagation over a made-up graph with so many stored entries."""
    n_nodes = n_entries // ENTRIES_PER_NODE
    n_communities = max(2, min(N_CLASSES, n_nodes // 400))  # a small graph has room for fewer
    graph, _ = power_law_graph(n_nodes, n_entries // 2, n_communities)
    signal = drawn(graph.n_nodes, N_CLASSES)
    operator = normalise(graph).astype(np.float32)
    one = PPR(alpha=0.1, steps=1)
    order = locality_order(graph)
    engine, ordered = LocalEngine(graph), LocalEngine(graph.renumbered(order))
    jobs: dict[str, Job] = {
        OURS: partial(ordered.propagate, signal[order], one),
        f"{OURS}, not renumbered": partial(engine.propagate, signal, one),
        "SciPy, the product alone": partial(matmul, operator, signal),
        "torch CSR, the product alone": partial(
            matmul, torch_csr(operator), torch.from_numpy(signal)
        ),
    }
    n_operations = 2.0 * operator.nnz * N_CLASSES
    yield Case("step", f"{operator.nnz:,} entries", jobs, n_operations, n_rounds=5)


def torch_csr(matrix: sp.csr_array) -> Any:
    """Return the matrix as torch has it."""
    parts = (torch.from_numpy(part.copy()) for part in (matrix.indptr, matrix.indices, matrix.data))
    indptr, indices, data = parts
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(indptr, indices, data, matrix.shape, check_invariants=True)


def _dense_job(n_operations: float) -> Job:
    inner = 256
    n_rows = max(1, round(n_operations / (2 * inner * N_HIDDEN)))
    left, right = drawn(n_rows, inner), drawn(inner, N_HIDDEN)
    return partial(matmul, torch.from_numpy(left), torch.from_numpy(right))


def _copy_job(n_numbers: int) -> Job:
    source, target = drawn(n_numbers), np.empty(n_numbers, dtype=np.float32)
    return partial(np.copyto, target, source)
