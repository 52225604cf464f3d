"""Wrong edges and wrong labels, put in on purpose to see what a method makes of them.

Draws come from NumPy's RandomState, whose streams never change: a seed gives the same noise with
every version of NumPy, so that published numbers can be made again.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from proptrain.data.convert import as_graph
from proptrain.data.graph import Graph
from proptrain.errors import InvalidInputError, LabelError, check_seed, unknown_name

LabelNoise = Literal["uniform", "pair"]
Nodes = NDArray[np.int64]
Mask = NDArray[np.bool_]


def noise_rate(graph: Any, labels: Any) -> float:
    """Return the structure noise rate: the share of edges that join two classes (section 5.2).

    rate = |{(i, j) ∈ E: y_i ≠ y_j}| / |E| with the class codes y, ``labels`` of shape (n,). The
    graph is whatever `as_graph` takes; every undirected edge counts once, whatever its
    weight. Nobody knows whether an edge with an unlabelled end (-1) is good or noisy, so such
    edges are left out of both counts.

    >>> path = Graph(sp.coo_array(([1, 1, 1], ([0, 1, 2], [1, 2, 3])), shape=(4, 4)))
    >>> noise_rate(path, [0, 0, 1, -1])
    0.5
    """
    graph, codes = _checked_graph_and_codes(graph, labels)
    starts, ends, _ = _undirected_edges(graph)
    good, noisy = _good_and_noisy(codes, starts, ends)
    return int(noisy.sum()) / _n_counted(good, noisy)


def with_structure_noise(graph: Any, labels: Any, rate: float, seed: int) -> Graph:
    """Return the graph with some edges moved so that its `noise_rate` is ``rate``, to one edge.

    ``labels`` are class codes, shape (n,). Of the edges E, m are moved, with the rate that they
    have r: m = |round(rate · |E|) - r · |E||.

    To raise the rate, good edges chosen at random are moved, to lower it, noisy ones (section
    5.2). A moved edge keeps one of its ends, its weight, and gets as its other end a random node
    of another class (of the same class) that is not a neighbour yet. All other edges stay as
    they are, those with an unlabelled end among them; so does the number of edges.

    >>> square = Graph(sp.coo_array(([1] * 4, ([0, 1, 2, 3], [1, 2, 3, 0])), shape=(4, 4)))
    >>> labels = [0, 0, 1, 1]
    >>> noisier = with_structure_noise(square, labels, 0.75, seed=0)
    >>> noise_rate(square, labels), noise_rate(noisier, labels), noisier.n_edges
    (0.5, 0.75, 4)
    """
    _check_draw(rate, seed)
    graph, codes = _checked_graph_and_codes(graph, labels)
    starts, ends, weights = _undirected_edges(graph)
    good, noisy = _good_and_noisy(codes, starts, ends)
    n_missing = round(rate * _n_counted(good, noisy)) - int(noisy.sum())
    partners = _Partners.among(codes, same_class=n_missing < 0)
    movable, there = (noisy, good) if n_missing < 0 else (good, noisy)
    _check_room(rate, abs(n_missing) + int(there.sum()), partners)
    random = np.random.RandomState(seed)
    starts, ends = _move(starts, ends, movable, there, abs(n_missing), partners, random)
    return Graph(sp.coo_array((weights, (starts, ends)), shape=graph.adjacency.shape))


def with_label_noise(
    labels: Any,
    nodes: Any,
    n_classes: int,
    rate: float,
    seed: int,
    *,
    kind: LabelNoise = "uniform",
) -> NDArray[np.int64]:
    """Return a copy of the labels in which a share of the training nodes has a wrong class.

    ``labels`` are class codes, shape (n,), as is what is returned. Of each class's training nodes
    (``nodes``: indices, shape (t,), or a mask, shape (n,)), round(rate · count) chosen at
    random change to another class: "uniform" to any of them, each as likely (section 5.3), "pair"
    to the next one, the last class to the first, as where two classes are easily confused. All
    other labels stay. For the C = ``n_classes`` classes, a label y_i that changes becomes::

        y_i' = (y_i + s_i) mod C,   s_i uniform in 1 … C - 1, or s_i = 1 for "pair"

    >>> with_label_noise([0, 0, 1, 1, 1], [0, 1, 2, 3], 2, 0.5, seed=0).tolist()
    [0, 1, 0, 1, 1]
    >>> with_label_noise([0, 1, 2, 2], [0, 1, 2], 3, 1.0, seed=0, kind="pair").tolist()
    [1, 2, 0, 2]
    """
    _check_draw(rate, seed)
    if kind not in get_args(LabelNoise):
        raise unknown_name("The kind of label noise", kind, get_args(LabelNoise))
    changed = _checked_codes(labels, len(labels))
    nodes = _checked_nodes(nodes, len(changed))
    codes = changed[nodes]
    _check_classes(codes, n_classes, rate)
    random = np.random.RandomState(seed)
    for code in range(n_classes):
        members = nodes[codes == code]
        wrong = random.choice(members, round(rate * len(members)), replace=False)
        steps = 1 if kind == "pair" else random.randint(1, n_classes, len(wrong))
        changed[wrong] = (code + steps) % n_classes
    return changed


@dataclass(frozen=True)
class _Partners:
    """Whom each labelled node may be joined to: all of its own class, or all of the others."""

    ordered: Nodes  # the labelled nodes, class after class
    first: Nodes  # (n,) where in that order each node's partners begin; they wrap around
    count: Nodes  # (n,) how many they are, the node itself included if it is of that class
    same_class: bool

    @classmethod
    def among(cls, codes: Nodes, *, same_class: bool) -> _Partners:
        ordered = np.argsort(codes, kind="stable")[np.count_nonzero(codes < 0) :]
        sizes = np.bincount(codes[ordered])
        begin = np.cumsum(sizes) - sizes
        known = np.maximum(codes, 0)  # unlabelled nodes have edges that are never moved
        if same_class:
            return cls(ordered, begin[known], sizes[known], same_class)
        return cls(ordered, (begin + sizes)[known], len(ordered) - sizes[known], same_class)

    def draw(self, nodes: Nodes, random: np.random.RandomState) -> Nodes:
        """Draw a partner for each of the nodes; it may be the node itself."""
        places = self.first[nodes] + random.randint(self.count[nodes])
        drawn: Nodes = self.ordered[places % len(self.ordered)]
        return drawn

    def n_free(self, starts: Nodes, ends: Nodes) -> Nodes:
        """Count each node's partners to whom none of these edges, all of this kind, leads."""
        degrees = np.bincount(np.concatenate([starts, ends]), minlength=len(self.count))
        free: Nodes = self.count - int(self.same_class) - degrees
        return free

    @property
    def n_pairs(self) -> int:
        return int((self.count[self.ordered] - int(self.same_class)).sum()) // 2


def _move(
    starts: Nodes,
    ends: Nodes,
    movable: Mask,
    there: Mask,
    n_missing: int,
    partners: _Partners,
    random: np.random.RandomState,
) -> tuple[Nodes, Nodes]:
    """Give that many movable edges a new end; ``there`` marks the edges of the wanted kind.

    All that are missing are drawn at once; self-loops and edges that exist are thrown away, and
    what is then still missing is drawn again.
    """
    starts, ends, movable, there = starts.copy(), ends.copy(), movable.copy(), there.copy()
    n_moved = 0
    while n_moved < n_missing:
        free = partners.n_free(starts[there], ends[there]) > 0
        edges, kept = _draw_edges(starts, ends, movable, free, n_missing - n_moved, random)
        if len(edges) == 0:
            raise InvalidInputError(
                f"This noise rate needs {n_missing:,} edges moved, but after {n_moved:,} no other "
                f"can be: both ends are joined to every node of {_kind(partners)} already. Ask "
                "for a rate nearer to the graph's own, or try another seed."
            )
        new = partners.draw(kept, random)
        fresh = _fresh(kept, new, starts[there], ends[there], len(free))
        moved = edges[fresh]
        starts[moved], ends[moved] = kept[fresh], new[fresh]
        movable[moved], there[moved] = False, True
        n_moved += len(moved)
    return starts, ends


def _draw_edges(
    starts: Nodes,
    ends: Nodes,
    movable: Mask,
    free: Mask,
    n_wanted: int,
    random: np.random.RandomState,
) -> tuple[Nodes, Nodes]:
    """Draw edges to move, and for each the end that stays: one that has a free partner."""
    pool = np.flatnonzero(movable & (free[starts] | free[ends]))
    edges = random.choice(pool, min(n_wanted, len(pool)), replace=False) if len(pool) else pool
    starts, ends = starts[edges], ends[edges]
    heads = random.randint(2, size=len(edges)).astype(bool)
    return edges, np.where(free[starts] & (heads | ~free[ends]), starts, ends)


def _fresh(kept: Nodes, new: Nodes, starts: Nodes, ends: Nodes, n_nodes: int) -> Nodes:
    """Return the places of new edges that are no self-loops, not there and not drawn before."""
    keys, places = np.unique(_keys(kept, new, n_nodes), return_index=True)
    is_fresh = ~np.isin(keys, _keys(starts, ends, n_nodes)) & (kept != new)[places]
    fresh: Nodes = places[is_fresh]
    return fresh


def _keys(starts: Nodes, ends: Nodes, n_nodes: int) -> Nodes:
    """Give each undirected edge a number of its own."""
    keys: Nodes = np.minimum(starts, ends) * n_nodes + np.maximum(starts, ends)
    return keys


def _undirected_edges(graph: Graph) -> tuple[Nodes, Nodes, NDArray[np.float32]]:
    upper = sp.coo_array(sp.triu(graph.adjacency))
    return upper.row.astype(np.int64), upper.col.astype(np.int64), upper.data


def _good_and_noisy(codes: Nodes, starts: Nodes, ends: Nodes) -> tuple[Mask, Mask]:
    counted = (codes[starts] >= 0) & (codes[ends] >= 0)
    same = codes[starts] == codes[ends]
    return counted & same, counted & ~same


def _n_counted(good: Mask, noisy: Mask) -> int:
    n_counted = int(good.sum() + noisy.sum())
    if n_counted == 0:
        raise LabelError(
            "A structure noise rate needs edges between labelled nodes, got none among "
            f"{len(good):,} edges. Give the classes of more nodes, or a graph with edges."
        )
    return n_counted


def _check_room(rate: float, n_wanted: int, partners: _Partners) -> None:
    if n_wanted > partners.n_pairs:
        raise InvalidInputError(
            f"A noise rate of {rate} needs {n_wanted:,} edges between nodes of "
            f"{_kind(partners)}, but there are only {partners.n_pairs:,} such pairs of nodes. "
            "Ask for a rate nearer to the graph's own."
        )


def _kind(partners: _Partners) -> str:
    return "the same class" if partners.same_class else "different classes"


def _check_draw(rate: Any, seed: Any) -> None:
    if not (isinstance(rate, Real) and 0 <= float(rate) <= 1):
        raise InvalidInputError(f"A noise rate is a share between 0 and 1, got {rate!r}.")
    check_seed(seed)


def _checked_graph_and_codes(graph: Any, labels: Any) -> tuple[Graph, Nodes]:
    graph = graph if isinstance(graph, Graph) else as_graph(graph, n_nodes=len(labels))
    return graph, _checked_codes(labels, graph.n_nodes)


def _checked_codes(labels: Any, n_nodes: int) -> Nodes:
    codes = np.asarray(labels)
    if codes.shape != (n_nodes,) or codes.dtype.kind not in "iu":
        raise LabelError(
            f"Labels must be whole class codes, one for each of the {n_nodes:,} nodes and -1 for "
            f"unlabelled; got shape {codes.shape} and dtype {codes.dtype}. encode_labels makes "
            "them from any labels."
        )
    return codes.astype(np.int64)  # always a copy


def _checked_nodes(nodes: Any, n_nodes: int) -> Nodes:
    given = np.asarray(nodes)
    if given.size == 0:
        return np.empty(0, dtype=np.int64)
    if given.dtype == bool and given.shape == (n_nodes,):
        return np.flatnonzero(given)
    if given.dtype.kind in "iu" and given.min() >= 0 and given.max() < n_nodes:
        return np.unique(given).astype(np.int64)
    raise LabelError(
        f"Training nodes must be indices from 0 to {n_nodes - 1:,}, one less than the number of "
        f"labels, or a mask of that number; got {reprlib.repr(given.tolist())}."
    )


def _check_classes(codes: Nodes, n_classes: int, rate: float) -> None:
    if n_classes < 2 and rate > 0:
        raise LabelError(f"A wrong label needs at least two classes, got {n_classes}.")
    if len(codes) and not (codes.min() >= 0 and codes.max() < n_classes):
        raise LabelError(
            f"Training nodes must have class codes from 0 to {n_classes - 1}, got values from "
            f"{codes.min()} to {codes.max()}. Leave unlabelled nodes out."
        )
