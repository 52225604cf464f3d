"""The memory that a step of propagation takes, seen in a process that does nothing else."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp

from proptrain.data.graph import EdgeCounts, Graph
from proptrain.kernels import propagate_plain
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.normalisation import plain_operator
from proptrain.propagate.schemes import PPR
from proptrain.system.memory import peak_memory, resident_memory

ONE_STEP = PPR(alpha=0.1, steps=1)


@dataclass(frozen=True)
class Memory:
    """What a step needed at its peak, beside what it was about; all in bytes."""

    graph: int
    signal: int
    idle: int
    """Of the process before it had a graph: Python, the libraries, compiled code."""
    peak: int

    @property
    def taken(self) -> int:
        """For graph, signal and step together."""
        return self.peak - self.idle

    @property
    def allowed(self) -> int:
        """The graph and three signals."""
        return self.graph + 3 * self.signal


def memory_of_step(graph: Graph, n_columns: int) -> Memory | None:
    """Take a step over the graph in a new process and tell its peak, where the system tells it.

    The graph comes by a file, as it is: making or checking it takes more memory than any step.
    """
    get_ready(n_columns)  # here too, so that it is compiled by then: compiling has a peak as well
    with TemporaryDirectory() as folder:
        path = Path(folder) / "graph.npz"
        sp.save_npz(path, graph.adjacency, compressed=False)
        # Not forked: it would begin with all that this process has.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            peaks = pool.submit(_step_alone, path, graph.counts, n_columns).result()
    if peaks is None:
        return None
    parts = (graph.adjacency.indptr, graph.adjacency.indices, graph.adjacency.data)
    signal = 4 * graph.n_nodes * n_columns
    return Memory(sum(part.nbytes for part in parts), signal, *peaks)


def _step_alone(path: Path, counts: EdgeCounts, n_columns: int) -> tuple[int, int] | None:
    """Return the memory before there is a graph, and the peak of a step over it."""
    random = np.random.default_rng(0)
    get_ready(n_columns)
    idle = resident_memory()
    graph = Graph.from_clean(sp.load_npz(path), counts)
    signal = random.standard_normal((graph.n_nodes, n_columns), dtype=np.float32)
    LocalEngine(graph).propagate(signal, ONE_STEP)
    peak = peak_memory()
    return None if idle is None or peak is None else (idle, peak)


def get_ready(n_columns: int) -> None:
    """Take a step over one edge both ways, so that the code for either is compiled and loaded."""
    edge, signal = Graph(sp.csr_array([[0, 1], [1, 0]])), np.ones((2, n_columns), dtype=np.float32)
    LocalEngine(edge).propagate(signal, ONE_STEP)
    propagate_plain(plain_operator(edge), signal, ONE_STEP.mixing)
