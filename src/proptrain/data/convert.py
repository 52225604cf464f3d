"""Make a Graph or a Dataset from what other libraries hold, and hand a Dataset to PyG."""

from __future__ import annotations

import warnings
from reprlib import repr as in_short
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from proptrain.data.dataset import Dataset
from proptrain.data.disk import DiskGraph
from proptrain.data.graph import Graph
from proptrain.data.indices import in_native_order, off_torch
from proptrain.data.labels import encode_labels
from proptrain.data.sound import check_unmasked
from proptrain.errors import GraphError, InvalidInputError, LabelError, missing_extra


def as_graph(source: Any, n_nodes: int | None = None) -> Graph:
    """Make a graph from whatever holds one.

    Taken are: a Graph, a SciPy sparse matrix, a dense n × n array, an edge array of shape (m, 2)
    or (2, m), a NetworkX graph (nodes 0 … n-1 by their number, others in the order of ``list(G)``;
    weights from ``weight``), a PyTorch Geometric ``Data``, a pandas or pyarrow table with two
    columns of node positions, a `DiskGraph` (read into memory).
    ``n_nodes`` is the size an edge list cannot tell by itself; everything else must have it.

    >>> as_graph([(0, 1), (1, 2), (3, 1)], n_nodes=5)
    Graph(5 nodes, 3 edges)
    """
    graph = _convert(source, n_nodes)
    if n_nodes is not None and graph.n_nodes != n_nodes:
        raise GraphError(
            f"The graph has {graph.n_nodes:,} nodes but X has {n_nodes:,} rows; both must be in "
            "the same order, one row for each node. Add or drop rows so that they match."
        )
    return graph


def graph_from_edges(
    edges: ArrayLike, n_nodes: int | None = None, weights: ArrayLike | None = None
) -> Graph:
    """Make a graph from pairs of node positions, shape (m, 2), counted from 0.

    >>> graph = graph_from_edges([(0, 3), (1, 2), (1, 1)], weights=[0.5, 2, 1])
    >>> graph, float(graph.adjacency[3, 0])
    (Graph(4 nodes, 2 edges), 0.5)
    """
    pairs = _checked_pairs(_as_array(edges))
    if n_nodes is None:
        n_nodes = int(pairs.max(initial=-1)) + 1
    _check_range(pairs, n_nodes)
    values = np.ones(len(pairs), dtype=np.float32) if weights is None else _as_array(weights)
    if values.shape != (len(pairs),):
        raise GraphError(
            f"There must be one weight for each of the {len(pairs):,} edges, got weights of shape "
            f"{values.shape}."
        )
    if values.dtype.kind not in "biuf":
        shown = f", such as {in_short(values.tolist()[0])}" if values.size else ""
        raise GraphError(
            f"Edge weights must be real numbers, got dtype {values.dtype}{shown}. Turn them into "
            "numbers, such as float(weight) of each edge, or leave them out."
        )
    return Graph(sp.coo_array((values, (pairs[:, 0], pairs[:, 1])), shape=(n_nodes, n_nodes)))


def dataset_from_pyg(data: Any) -> Dataset:
    """Make a data set from a PyTorch Geometric ``Data`` with ``x``, ``edge_index`` and ``y``.

    Shapes: ``x`` (n, f), ``edge_index`` (2, e), ``y`` (n,) or (n, 1), ``edge_weight`` (e,).
    ``edge_weight``, or else ``edge_attr`` with one value for each edge, becomes the weights;
    without ``y`` every label is unknown.

    >>> data = Dataset(graph_from_edges([(0, 1), (1, 2)]), np.ones((3, 2)), np.array([0, -1, 1]))
    >>> dataset_from_pyg(dataset_to_pyg(data)).labels
    array([ 0, -1,  1])
    """
    if getattr(data, "x", None) is None:
        raise InvalidInputError(
            "data.x must hold the nodes' features, got a Data without x. Set data.x, for instance "
            "with torch_geometric.transforms.OneHotDegree."
        )
    graph = _from_pyg(data)
    codes, class_names = _pyg_labels(data, graph.n_nodes)
    return Dataset(
        graph=graph,
        features=_features_from_torch(data.x),
        labels=codes,
        class_names=class_names,
        name=str(getattr(data, "name", None) or "unnamed"),
    )


def dataset_to_pyg(dataset: Dataset) -> Any:
    """Make a PyTorch Geometric ``Data``: both directions of each edge, -1 for unknown labels.

    Shapes: ``x`` (n, f), ``edge_index`` (2, 2e) for e edges, ``y`` (n,), ``edge_weight`` (2e,).
    Sparse features become a sparse CSR tensor. ``edge_weight`` is set only if weights differ
    from 1; ``name`` and ``class_names`` travel along, so that `dataset_from_pyg` brings them back.

    >>> data = Dataset(graph_from_edges([(0, 1), (1, 2)]), np.ones((3, 2)), np.array([0, -1, 1]))
    >>> dataset_to_pyg(data).edge_index
    tensor([[0, 1, 1, 2],
            [1, 0, 2, 1]])
    """
    import torch

    try:
        from torch_geometric.data import Data
    except ImportError as error:
        raise missing_extra(
            "PyTorch Geometric is needed for this and is not installed; it comes with proptrain's "
            "extra `pyg`.",
            "pyg",
        ) from error
    edges = dataset.graph.adjacency.tocoo()
    data = Data(
        x=_features_to_torch(dataset.features),
        edge_index=torch.tensor(np.stack([edges.row, edges.col]), dtype=torch.int64),
        y=torch.tensor(dataset.labels, dtype=torch.int64),
        num_nodes=dataset.n_nodes,
        name=dataset.name,
        class_names=list(dataset.class_names or ()),
    )
    if (edges.data != 1).any():
        data.edge_weight = torch.tensor(edges.data, dtype=torch.float32)
    return data


def _convert(source: Any, n_nodes: int | None) -> Graph:
    if isinstance(source, Graph | DiskGraph):
        return source if isinstance(source, Graph) else source.to_graph()
    if sp.issparse(source):
        return Graph(source)
    if _comes_from(source, "networkx"):
        return _from_networkx(source)
    if _comes_from(source, "torch_geometric"):
        return _from_pyg(source)
    if _comes_from(source, "pandas") or _comes_from(source, "pyarrow"):
        return graph_from_edges(_two_columns(source), n_nodes)
    return _from_array(_as_array(source), n_nodes)


def _comes_from(source: Any, package: str) -> bool:
    """Tell whether an object is of that package's making, without importing the package."""
    return any(cls.__module__.partition(".")[0] == package for cls in type(source).__mro__)


def _from_array(array: NDArray[Any], n_nodes: int | None) -> Graph:
    if array.size == 0 and array.ndim == 1:
        array = array.reshape(0, 2)
    if array.ndim != 2 or (2 not in array.shape and array.shape[0] != array.shape[1]):
        raise GraphError(
            "A graph must be a SciPy sparse matrix, a square array, an edge array of shape (m, 2) "
            "or (2, m), a NetworkX graph, a PyTorch Geometric Data or a table with two columns; "
            f"got an array of shape {array.shape}."
        )
    if array.shape == (2, 2):
        raise GraphError(
            "An array of shape (2, 2) may be two edges, an edge_index or an adjacency matrix. "
            "Use proptrain.graph_from_edges for rows of edges, or "
            "scipy.sparse.csr_array for an adjacency matrix."
        )
    if array.shape[0] == array.shape[1]:
        _require_numbers(array, "An adjacency matrix")
        return Graph(sp.coo_array(in_native_order(array)))
    return graph_from_edges(array if array.shape[1] == 2 else array.T, n_nodes)


def _from_networkx(source: Any) -> Graph:
    position = {node: place for place, node in enumerate(source)}
    if all(isinstance(node, int) and 0 <= node < len(position) for node in position):
        position = {node: node for node in position}  # positions already, in whatever order
    edges = list(source.edges(data="weight", default=None))
    pairs = [(position[start], position[end]) for start, end, _ in edges]
    weights = [weight for *_, weight in edges]
    if all(weight is None for weight in weights):
        return graph_from_edges(pairs, len(position))
    filled = [1.0 if weight is None else weight for weight in weights]
    return graph_from_edges(pairs, len(position), filled)


def _from_pyg(data: Any) -> Graph:
    if getattr(data, "edge_index", None) is None:
        raise GraphError(
            "A PyTorch Geometric Data must have edge_index, got "
            f"{type(data).__name__} without one. A HeteroData can be made one with "
            "to_homogeneous(), an adj_t with torch_geometric.utils.to_edge_index."
        )
    weights = getattr(data, "edge_weight", None)
    attributes = getattr(data, "edge_attr", None)
    if weights is None and attributes is not None and attributes.numel() == len(attributes):
        weights = attributes
    if weights is not None:
        weights = _as_array(weights).reshape(-1)
    return graph_from_edges(_as_array(data.edge_index).T, int(data.num_nodes), weights)


def _two_columns(table: Any) -> NDArray[Any]:
    frame = table.to_pandas() if hasattr(table, "to_pandas") else table
    if frame.ndim != 2 or frame.shape[1] != 2:
        raise GraphError(
            "An edge table must have two columns of node positions, got "
            f"{type(table).__name__} of shape {frame.shape}. "
            "Use proptrain.read_tables for tables with ids, weights or other columns."
        )
    return np.asarray(frame)


def _as_array(values: Any) -> NDArray[Any]:
    check_unmasked(values, "A graph", GraphError)
    try:
        return np.asarray(off_torch(values))
    except (TypeError, ValueError, RuntimeError) as error:
        raise GraphError(
            f"Edges must be an array of numbers, got {type(values).__name__} that cannot be "
            f"turned into one: {error}"
        ) from error


def _checked_pairs(pairs: NDArray[Any]) -> NDArray[np.int64]:
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise GraphError(
            f"Edges must be pairs of node positions, shape (m, 2), got shape {pairs.shape}."
        )
    _require_numbers(pairs, "Edges")
    if pairs.dtype.kind == "f" and not (np.isfinite(pairs) & (pairs == np.floor(pairs))).all():
        raise GraphError(
            "Edges must be whole numbers, the positions of nodes counted from 0; got fractions, "
            "NaN or infinity. Drop those edges, and pass weights as `weights`."
        )
    return pairs.astype(np.int64)


def _require_numbers(array: NDArray[Any], what: str) -> None:
    if array.dtype.kind not in "iufb":
        raise GraphError(
            f"{what} must hold numbers, got dtype {array.dtype}. For nodes known by other ids "
            "use proptrain.read_tables, which takes edges and nodes as tables."
        )


def _check_range(pairs: NDArray[np.int64], n_nodes: int) -> None:
    bad = ((pairs < 0) | (pairs >= n_nodes)).any(axis=1)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise GraphError(
            f"Edges must be node positions from 0 to {n_nodes - 1:,}; {int(bad.sum()):,} of "
            f"{len(pairs):,} are not, the first is {tuple(pairs[first].tolist())} in row {first}. "
            "Count nodes from 0, or give the right n_nodes."
        )


def _pyg_labels(data: Any, n_nodes: int) -> tuple[NDArray[np.int64], tuple[Any, ...] | None]:
    names = getattr(data, "class_names", None)
    if getattr(data, "y", None) is None:
        return np.full(n_nodes, -1, dtype=np.int64), None if names is None else tuple(names)
    y = _as_array(data.y)
    if y.size != n_nodes:
        raise LabelError(
            f"data.y must hold one label for each of the {n_nodes:,} nodes, got shape {y.shape}."
        )
    if names is None:
        return encode_labels(y.reshape(-1))
    return y.reshape(-1).astype(np.int64), tuple(names)


def _features_from_torch(x: Any) -> Any:
    import torch

    x = x.detach().cpu()
    if x.layout is torch.strided:
        return x.numpy()
    entries = x.to_sparse_coo().coalesce()
    return sp.csr_array((entries.values().numpy(), entries.indices().numpy()), shape=x.shape)


def _features_to_torch(features: Any) -> Any:
    import torch

    if not sp.issparse(features):
        return torch.tensor(features, dtype=torch.float32)
    with warnings.catch_warnings():
        # torch calls its CSR tensors a beta feature, once in every process.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support", category=UserWarning)
        return torch.sparse_csr_tensor(
            torch.tensor(features.indptr, dtype=torch.int64),
            torch.tensor(features.indices, dtype=torch.int64),
            torch.tensor(features.data, dtype=torch.float32),
            size=features.shape,
            check_invariants=True,
        )
