"""A step of propagation over made-up graphs: beside the libraries, and from small to large."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import matmul

import numpy as np
import torch
from numpy.typing import NDArray

from proptrain.bench.case import Case, Wanted, Work, drawn
from proptrain.bench.memory import ONE_STEP, get_ready, memory_of_step
from proptrain.bench.timing import Job
from proptrain.data.graph import Graph
from proptrain.data.indices import inverse, with_short_indices
from proptrain.data.order import locality_order
from proptrain.data.synthetic import power_law_graph
from proptrain.kernels import OnStep
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.labels import propagate_labels
from proptrain.propagate.normalisation import normalise
from proptrain.propagate.schemes import PPR
from proptrain.system.torch_sparse import torch_csr

AS_GIVEN = "proptrain, graph as given"
RENUMBERED = "proptrain, nodes renumbered"
N_COLUMNS = 47
"""As many as the products graph has classes that large-graph papers measure on."""
ENTRIES_PER_NODE = 51
SMALLEST = 100_000
_ENTRY_BYTES = 80
"""Memory for a stored entry: drawing the graph takes most, 77 bytes with 12 million of them."""
LARGE = 10_000_000
"""From so many entries on a few rounds take long enough, and tell enough."""


def step_beside_libraries(wanted: Wanted) -> Iterator[Case]:
    """Yield one step over a graph with so many stored entries, beside the libraries' products."""
    yield _case("step", "one step of propagation", wanted.n_entries, _beside_libraries)


def growth(wanted: Wanted) -> Iterator[Case]:
    """Yield one step, and what comes before it once, over ever larger graphs."""
    for n_entries in sizes_up_to(wanted.n_entries):
        yield _case("growth", "how a step grows with the graph", n_entries, _ours_alone)


def ten_steps(wanted: Wanted) -> Iterator[Case]:
    """Yield ten steps from the labels of some nodes, held fixed: step 1 of PTA, all of it."""
    prepare = partial(_labels_at_scale, wanted.n_entries)
    title, name = "ten steps of label propagation", f"{wanted.n_entries:,} entries"
    yield Case(
        "ten-steps",
        title,
        name,
        AS_GIVEN,
        prepare,
        n_rounds=1,
        warms_up=False,
        memory=memory_for(wanted.n_entries),
    )


def sizes_up_to(n_entries: int) -> list[int]:
    """Return sizes from the smallest to this one, each about three times the one before.

    >>> sizes_up_to(10_000_000)
    [100000, 316228, 1000000, 3162278, 10000000]
    """
    sizes = [n_entries]
    while (following := round(n_entries / 10 ** (len(sizes) / 2))) >= SMALLEST:
        sizes.append(following)
    return sizes[::-1]


def memory_for(n_entries: int) -> int:
    """Return the bytes that measuring a graph with so many stored entries takes at its peak."""
    return _ENTRY_BYTES * n_entries


def made_up_graph(n_entries: int) -> Graph:
    """Return a graph with so many stored entries, hubs and communities as in real ones."""
    graph, _ = made_up_classes(n_entries)
    return graph


def made_up_classes(n_entries: int) -> tuple[Graph, NDArray[np.int64]]:
    """Return such a graph and the community of each node."""
    n_nodes = n_entries // ENTRIES_PER_NODE
    n_communities = max(2, min(N_COLUMNS, n_nodes // 400))  # a small graph has room for fewer
    return power_law_graph(n_nodes, n_entries // 2, n_communities)


def _case(suite: str, title: str, n_entries: int, prepare: Callable[[int], Work]) -> Case:
    return Case(
        suite,
        title,
        f"{n_entries:,} entries",
        AS_GIVEN,
        partial(prepare, n_entries),
        n_rounds=5 if n_entries >= LARGE else 15,
        memory=memory_for(n_entries),
    )


def _beside_libraries(n_entries: int) -> Work:
    graph = made_up_graph(n_entries)
    memory = memory_of_step(graph, N_COLUMNS)
    signal, order = drawn(graph.n_nodes, N_COLUMNS), locality_order(graph)
    renumbered, moved = graph.renumbered(order), signal[order]
    jobs: dict[str, Job] = {
        AS_GIVEN: partial(LocalEngine(graph).propagate, signal, ONE_STEP),
        RENUMBERED: partial(LocalEngine(renumbered).propagate, moved, ONE_STEP),
        **_library_jobs(graph, signal, "graph as given"),
        **_library_jobs(renumbered, moved, "nodes renumbered"),
    }
    return Work(jobs, graph.adjacency.nnz, "entries", memory=memory)


def _library_jobs(graph: Graph, signal: NDArray[np.float32], which: str) -> dict[str, Job]:
    """Return the product Â H alone: a library has no word for the rest of the step."""
    operator = with_short_indices(normalise(graph).astype(np.float32))
    theirs = (torch_csr(operator, shares=True), torch.from_numpy(signal))  # no second copy
    return {
        f"SciPy, the product alone, {which}": partial(matmul, operator, signal),
        f"torch CSR, the product alone, {which}": partial(matmul, *theirs),
    }


def _labels_at_scale(n_entries: int) -> Work:
    get_ready(N_COLUMNS)
    graph, classes = made_up_classes(n_entries)
    known = np.random.default_rng(0).choice(graph.n_nodes, graph.n_nodes // 12, replace=False)
    order = locality_order(graph)
    place = inverse(order)

    def spread(
        graph: Graph, classes: NDArray[np.int64], known: NDArray[np.int64], on_step: OnStep
    ) -> None:
        engine = LocalEngine(graph)
        propagate_labels(classes, known, N_COLUMNS, engine, PPR(0.1, 10), on_step=on_step)

    jobs: dict[str, Job] = {
        AS_GIVEN: partial(spread, graph, classes, known),
        RENUMBERED: partial(spread, graph.renumbered(order), classes[order], place[known]),
    }
    return Work(jobs, 10 * graph.adjacency.nnz, "entries", tells=True)


def _ours_alone(n_entries: int) -> Work:
    graph = made_up_graph(n_entries)
    memory = memory_of_step(graph, N_COLUMNS)
    signal, order = drawn(graph.n_nodes, N_COLUMNS), locality_order(graph)
    ordered = LocalEngine(graph.renumbered(order))
    jobs: dict[str, Job] = {
        AS_GIVEN: partial(LocalEngine(graph).propagate, signal, ONE_STEP),
        RENUMBERED: partial(ordered.propagate, signal[order], ONE_STEP),
        "proptrain, preparing the graph and the step": lambda: LocalEngine(graph).propagate(
            signal, ONE_STEP
        ),
        "proptrain, renumbering the nodes": lambda: graph.renumbered(locality_order(graph)),
    }
    return Work(jobs, graph.adjacency.nnz, "entries", memory=memory)
