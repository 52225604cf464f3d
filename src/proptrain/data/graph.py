"""The graph: undirected, validated once, immutable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.indices import in_native_order, inverse, is_order, with_short_indices
from proptrain.data.sound import sound_matrix
from proptrain.errors import GraphError, NotEnoughMemoryError
from proptrain.system.memory import available_memory, in_words

MAX_NODES = 2**31 - 1
"""Node numbers have 32 bits."""
_PER_NODE = 12
"""Bytes that a graph takes while it is made, at the least, for each node without an edge."""
_LITTLE = 10**8
"""Bytes that are taken without asking: to ask takes longer than to make a small graph."""


@dataclass(frozen=True)
class EdgeCounts:
    """What became of the stored entries that a graph was made from.

    >>> Graph(sp.csr_array([[1, 1], [0, 0]])).counts
    EdgeCounts(given=2, self_loops=1, duplicates=0, one_way=1)
    """

    given: int
    """Entries given, before anything was changed."""
    self_loops: int
    """Entries on the diagonal, dropped."""
    duplicates: int
    """Repeated entries (i, j), merged; the largest weight stays."""
    one_way: int
    """Entries (i, j) without (j, i); the missing direction was added."""

    def __str__(self) -> str:
        """Say in one line what was changed."""
        return (
            f"{self.given:,} entries given: {self.one_way:,} one-way made two-way, "
            f"{self.duplicates:,} duplicates merged, {self.self_loops:,} self-loops dropped"
        )


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph, held as a symmetric CSR adjacency matrix with an empty diagonal.

    Any square SciPy sparse matrix will do: missing directions are added, duplicates merged
    (the largest weight stays), self-loops and explicit zeros dropped. ``counts`` says how many.
    Nodes without an edge stay. Shapes: adjacency (n, n), with A_ij = A_ji and A_ii = 0.

    >>> import scipy.sparse as sp
    >>> graph = Graph(sp.coo_array(([1, 1, 1], ([0, 1, 3], [1, 2, 3])), shape=(4, 4)))
    >>> graph.n_nodes, graph.n_edges, graph.degrees
    (4, 2, array([1., 2., 1., 0.]))
    >>> print(graph.counts)
    3 entries given: 2 one-way made two-way, 0 duplicates merged, 1 self-loops dropped
    """

    adjacency: sp.csr_array
    counts: EdgeCounts = field(init=False)

    def __post_init__(self) -> None:
        adjacency, counts = _clean(self.adjacency)
        freeze(adjacency)
        object.__setattr__(self, "adjacency", adjacency)
        object.__setattr__(self, "counts", counts)

    @classmethod
    def from_clean(cls, adjacency: sp.csr_array, counts: EdgeCounts) -> Graph:
        """Return the graph of a matrix (n, n) as a graph holds it; nothing is checked again.

        >>> pair = Graph(sp.csr_array([[0, 1], [1, 0]]))
        >>> Graph.from_clean(pair.adjacency, pair.counts)
        Graph(2 nodes, 1 edges)
        """
        graph = object.__new__(cls)
        object.__setattr__(graph, "adjacency", freeze(adjacency))
        object.__setattr__(graph, "counts", counts)
        return graph

    @classmethod
    def without_edges(cls, n_nodes: int) -> Graph:
        """Return a graph of isolated nodes.

        >>> Graph.without_edges(4)
        Graph(4 nodes, 0 edges)
        """
        check_n_nodes(n_nodes)
        return cls(sp.csr_array((n_nodes, n_nodes), dtype=np.float32))

    @property
    def n_nodes(self) -> int:
        """Number of nodes, isolated ones included."""
        return int(self.adjacency.shape[0])

    @property
    def n_edges(self) -> int:
        """Number of undirected edges; the adjacency matrix stores each of them twice."""
        return int(self.adjacency.nnz) // 2

    @property
    def degrees(self) -> NDArray[np.float64]:
        """Sum of each node's edge weights, d_i = Σ_j A_ij, shape (n,)."""
        return np.asarray(self.adjacency.astype(np.float64).sum(axis=1))

    def renumbered(self, order: NDArray[np.int64]) -> Graph:
        """Return the graph in which node i is the one that was ``order[i]``.

        With ``order`` (n,) each number from 0 to n-1 once, A'_ij = A_order[i],order[j].

        >>> path = Graph(sp.coo_array(([1], ([0], [1])), shape=(3, 3)))
        >>> path.renumbered(np.array([2, 0, 1])).degrees
        array([0., 1., 1.])
        """
        if not is_order(order, self.n_nodes):
            raise GraphError(
                f"An order must name each of the graph's {self.n_nodes:,} nodes once, by numbers "
                f"from 0; got {len(order):,} numbers."
            )
        rows = self.adjacency[order]
        parts = (rows.data, inverse(order)[rows.indices], rows.indptr)
        adjacency = with_short_indices(sp.csr_array(parts, shape=self.adjacency.shape))
        adjacency.sort_indices()
        return Graph.from_clean(adjacency, self.counts)

    def __repr__(self) -> str:
        """Show the size."""
        return f"Graph({self.n_nodes:,} nodes, {self.n_edges:,} edges)"


def check_n_nodes(n_nodes: int) -> None:
    """Raise unless a graph can have so many nodes: a stray huge number must not fill memory."""
    if not 0 <= n_nodes <= MAX_NODES:
        raise GraphError(
            f"A graph must have 0 to {MAX_NODES:,} nodes, numbered from 0 without gaps, got "
            f"{n_nodes:,}. For nodes known by other ids use proptrain.read_tables, which takes "
            "edges and nodes as tables."
        )
    needed = _PER_NODE * n_nodes
    if needed < _LITTLE:
        return
    available = available_memory()
    if available is not None and needed > available:
        raise NotEnoughMemoryError(
            f"A graph of {n_nodes:,} nodes, numbered from 0 to {n_nodes - 1:,}, must fit into "
            f"memory; it takes {in_words(needed)} before any edge, and {in_words(available)} are "
            "left. If nodes have such numbers with gaps between, use proptrain.read_tables, which "
            "takes them as ids; if there are so many, proptrain.build_graph, on disk."
        )


def freeze(matrix: sp.csr_array) -> sp.csr_array:
    """Make the arrays of a sparse matrix read-only."""
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    return matrix


def _clean(matrix: Any) -> tuple[sp.csr_array, EdgeCounts]:
    if not sp.issparse(matrix):
        raise GraphError(
            f"A graph is made from a SciPy sparse matrix, got {type(matrix).__name__}. "
            "For edge lists, NetworkX or PyTorch Geometric graphs use proptrain.as_graph."
        )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(
            f"An adjacency matrix must be square, one row and one column for each node; "
            f"got shape {matrix.shape}."
        )
    check_n_nodes(matrix.shape[0])
    matrix = sound_matrix(matrix, "An adjacency matrix", GraphError)
    entries = sp.coo_array(in_native_order(matrix))
    weights = _checked_weights(entries)
    off_diagonal = entries.row != entries.col
    kept = off_diagonal & (weights != 0)
    directed = _merge(entries.row[kept], entries.col[kept], weights[kept], entries.shape[0])
    adjacency = sp.csr_array(directed.maximum(directed.T))
    adjacency.sort_indices()
    counts = EdgeCounts(
        given=int(entries.nnz),
        self_loops=int(entries.nnz - np.count_nonzero(off_diagonal)),
        duplicates=int(np.count_nonzero(kept) - directed.nnz),
        one_way=int(adjacency.nnz - directed.nnz),
    )
    return with_short_indices(adjacency), counts


def _checked_weights(entries: sp.coo_array) -> NDArray[np.float32]:
    if entries.data.dtype.kind not in "biuf":
        raise GraphError(f"Edge weights must be real numbers, got dtype {entries.data.dtype}.")
    with np.errstate(over="ignore"):  # what is too large becomes infinite and is refused below
        weights: NDArray[np.float32] = entries.data.astype(np.float32)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise GraphError(
            f"Edge weights must be finite and not negative; {int(bad.sum()):,} of "
            f"{len(weights):,} are not, the first is {entries.data[first]} between nodes "
            f"{entries.row[first]} and {entries.col[first]}. Drop those edges, or turn the "
            "weights into similarities (larger = closer, never below 0)."
        )
    return weights


def _merge(
    rows: NDArray[Any], columns: NDArray[Any], weights: NDArray[np.float32], n_nodes: int
) -> sp.csr_array:
    """Make a CSR matrix in which repeated entries keep their largest weight, not their sum."""
    shape = (n_nodes, n_nodes)
    merged = sp.csr_array(sp.coo_array((weights, (rows, columns)), shape=shape))
    if merged.nnz == len(weights):
        return merged
    order = np.lexsort((columns, rows))
    rows, columns, weights = rows[order], columns[order], weights[order]
    first = np.flatnonzero(np.r_[True, (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])])
    largest = np.maximum.reduceat(weights, first)
    return sp.csr_array(sp.coo_array((largest, (rows[first], columns[first])), shape=shape))
