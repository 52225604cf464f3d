"""Graphs and data sets come from and go to other libraries unchanged."""

import sys
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

from proptrain.data.convert import as_graph, dataset_from_pyg, dataset_to_pyg, graph_from_edges
from proptrain.data.dataset import Dataset
from proptrain.data.graph import Graph
from proptrain.errors import GraphError, InvalidInputError, LabelError, MissingPackageError

with warnings.catch_warnings():
    # PyTorch Geometric compiles with torch.jit.script as it is imported, which torch deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.data import Data, HeteroData

EDGES = [(0, 1), (1, 2), (3, 1)]
DENSE = np.array([[0, 1, 0, 0], [1, 0, 1, 1], [0, 1, 0, 0], [0, 1, 0, 0]], dtype=np.float32)


def networkx_graph():
    graph = nx.Graph()
    graph.add_nodes_from(range(4))
    graph.add_edges_from(EDGES)
    return graph


@pytest.mark.parametrize(
    "source",
    [
        Graph(sp.csr_array(DENSE)),
        sp.csr_array(DENSE),
        sp.coo_matrix(DENSE),
        sp.lil_array(DENSE),
        sp.dok_matrix(DENSE),
        EDGES,
        np.array(EDGES),
        np.array(EDGES, dtype=np.float64),
        np.array(EDGES).T,
        torch.tensor(EDGES).T,
        torch.tensor(EDGES),
        DENSE,
        DENSE.astype(bool).tolist(),
        networkx_graph(),
        nx.DiGraph(networkx_graph()),
        Data(edge_index=torch.tensor(EDGES).T, num_nodes=4),
        pd.DataFrame(EDGES, columns=["a", "b"]),
        pa.table({"a": [0, 1, 3], "b": [1, 2, 1]}),
    ],
    ids=lambda source: f"{type(source).__module__}.{type(source).__name__}",
)
def test_every_source_gives_the_same_graph(source):
    graph = as_graph(source, n_nodes=4)
    np.testing.assert_array_equal(graph.adjacency.toarray(), DENSE)


def test_a_graph_is_returned_as_it_is():
    graph = Graph(sp.csr_array(DENSE))
    assert as_graph(graph) is graph


def test_size_of_an_edge_list():
    assert as_graph(EDGES).n_nodes == 4
    assert as_graph(EDGES, n_nodes=9).n_nodes == 9
    assert as_graph([], n_nodes=3).n_nodes == 3
    assert as_graph(torch.empty((2, 0), dtype=torch.int64), n_nodes=3).n_edges == 0


def test_counts_tell_what_was_changed():
    counts = graph_from_edges([(0, 1), (1, 0), (0, 2), (0, 2), (2, 2)]).counts
    assert (counts.given, counts.self_loops, counts.duplicates, counts.one_way) == (5, 1, 1, 1)


def test_weights_stay_with_their_edges():
    expected = np.zeros((5, 5))
    expected[4, 1] = expected[1, 4] = 2.5
    expected[0, 3] = expected[3, 0] = 0.5
    graph = graph_from_edges([(4, 1), (0, 3)], weights=[2.5, 0.5])
    np.testing.assert_array_equal(graph.adjacency.toarray(), expected)


def test_networkx_weights_and_node_order():
    source = nx.Graph()
    source.add_nodes_from(["d", "a", "c"])
    source.add_edge("c", "d", weight=3.0)
    source.add_edge("a", "c")
    source.add_edge("a", "a")
    graph = as_graph(source)
    expected = [[0, 0, 3], [0, 0, 1], [3, 1, 0]]
    np.testing.assert_array_equal(graph.adjacency.toarray(), expected)
    assert graph.counts.self_loops == 1
    np.testing.assert_array_equal(
        graph.adjacency.toarray()[:2, 2:], nx.to_numpy_array(source)[:2, 2:]
    )


def test_networkx_multigraph_keeps_the_largest_weight():
    source = nx.MultiDiGraph([(0, 1, {"weight": 2.0}), (0, 1, {"weight": 5.0})])
    graph = as_graph(source)
    assert graph.adjacency.toarray().tolist() == [[0, 5], [5, 0]]
    assert graph.counts.duplicates == 1


@pytest.mark.parametrize(("weight", "dtype"), [("heavy", "<U5"), (1j, "complex"), ({}, "object")])
def test_weights_that_are_no_numbers_are_told(weight, dtype):
    source = nx.Graph()
    source.add_edge(0, 1, weight=weight)
    for make in (as_graph, lambda _: graph_from_edges([(0, 1)], weights=[weight])):
        with pytest.raises(GraphError, match=f"weights must be real numbers, got dtype {dtype}"):
            make(source)


@pytest.mark.parametrize("name", ["edge_weight", "edge_attr"])
def test_pyg_weights(name):
    weights = torch.tensor([2.0, 7.0])
    data = Data(edge_index=torch.tensor([[0, 2], [1, 3]]), num_nodes=5, **{name: weights})
    adjacency = as_graph(data, n_nodes=5).adjacency
    assert (adjacency[1, 0], adjacency[3, 2], adjacency.nnz) == (2, 7, 4)


def test_edge_features_are_not_weights():
    data = Data(edge_index=torch.tensor([[0], [1]]), edge_attr=torch.ones(1, 3) * 4, num_nodes=2)
    assert as_graph(data).adjacency[0, 1] == 1


@pytest.mark.parametrize(
    ("source", "n_nodes", "message"),
    [
        (sp.csr_array((5, 5)), 7, "The graph has 5 nodes but X has 7 rows"),
        (np.zeros((3, 3)), 4, "The graph has 3 nodes but X has 4 rows"),
        ([(0, 1), (1, 2)], None, r"shape \(2, 2\).*graph_from_edges"),
        (np.zeros((3, 4)), None, r"got an array of shape \(3, 4\)"),
        (np.zeros(3), None, r"got an array of shape \(3,\)"),
        ([(0, 1), (1, 2), (2, 5)], 4, r"from 0 to 3; 1 of 3 are not, the first is \(2, 5\) in row"),
        ([(0, 1), (1, -2), (2, 3)], 4, r"the first is \(1, -2\) in row 1"),
        ([(0, 1.5), (1, 2), (2, 3)], 4, "must be whole numbers"),
        ([("a", "b"), ("b", "c"), ("c", "a")], None, "must hold numbers.*read_tables"),
        (np.array([["a"] * 3] * 3), None, "An adjacency matrix must hold numbers"),
        ([(0, 1), (1,), (2, 3)], None, "cannot be turned into one"),
        (pd.DataFrame({"a": [0], "b": [1], "w": [2.0]}), None, "two columns.*read_tables"),
        (pd.Series([0, 1]), None, "two columns"),
        (HeteroData(), None, "to_homogeneous"),
        (Data(num_nodes=3), None, "must have edge_index"),
        (None, None, "got an array of shape"),
    ],
)
def test_what_is_no_graph_is_refused(source, n_nodes, message):
    with pytest.raises(GraphError, match=message):
        as_graph(source, n_nodes)


def test_graph_from_edges_refuses():
    with pytest.raises(GraphError, match=r"one weight for each of the 2 edges.*\(3,\)"):
        graph_from_edges([(0, 1), (1, 2)], weights=[1, 2, 3])
    with pytest.raises(GraphError, match=r"shape \(m, 2\), got shape \(1, 3\)"):
        graph_from_edges([(0, 1, 2)])
    with pytest.raises(GraphError, match="finite and not negative"):
        graph_from_edges([(0, 1)], weights=[-1.0])


def test_edges_given_stay_unchanged():
    edges, weights = np.array([(4, 1), (0, 3), (0, 3)]), np.array([1.0, 2.0, 3.0])
    kept = edges.copy(), weights.copy()
    graph_from_edges(edges, weights=weights)
    np.testing.assert_array_equal(edges, kept[0])
    np.testing.assert_array_equal(weights, kept[1])


def make_dataset(features, weights=None):
    return Dataset(
        graph=graph_from_edges([(3, 0), (1, 2), (0, 4)], 5, weights),
        features=features,
        labels=np.array([1, -1, 0, 1, -1]),
        class_names=("ham", "spam"),
        name="mail",
    )


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.25]])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_pyg_round_trip(form, weights):
    features = np.array([[0, 1.5], [2, 0], [0, 0], [3, 4], [0, 7]], dtype=np.float32)
    dataset = make_dataset(form(features), weights)
    data = dataset_to_pyg(dataset)
    assert data.validate()
    assert data.num_nodes == 5
    assert data.edge_index.shape == (2, 6)
    assert data.is_undirected()
    assert ("edge_weight" in data) == (weights is not None)
    assert data.y.tolist() == [1, -1, 0, 1, -1]
    assert data.y.dtype == torch.int64
    assert data.x.dtype == torch.float32
    assert (data.x.layout == torch.sparse_csr) == (form is sp.csr_array)
    back = dataset_from_pyg(data)
    assert (back.graph.adjacency != dataset.graph.adjacency).nnz == 0
    assert sp.issparse(back.features) == sp.issparse(dataset.features)
    np.testing.assert_array_equal(sp.csr_array(back.features).toarray(), features)
    assert back.labels.tolist() == dataset.labels.tolist()
    assert (back.class_names, back.name) == (dataset.class_names, dataset.name)


def test_pyg_data_there_and_back():
    data = Data(
        x=torch.rand(4, 3),
        edge_index=torch.tensor([[0, 1, 1, 3], [1, 0, 3, 1]]),
        y=torch.tensor([[5], [9], [-1], [5]]),
    )
    dataset = dataset_from_pyg(data)
    assert dataset.class_names == (5, 9)
    assert dataset.labels.tolist() == [0, 1, -1, 0]
    back = dataset_to_pyg(dataset)
    assert torch.equal(back.x, data.x)
    assert torch.equal(back.edge_index, data.edge_index)
    assert back.x.data_ptr() != data.x.data_ptr()


def test_pyg_without_labels_or_features():
    edge_index = torch.tensor([[0], [1]])
    bare = dataset_from_pyg(Data(x=torch.ones(3, 2), edge_index=edge_index))
    assert bare.labels.tolist() == [-1, -1, -1]
    with pytest.raises(InvalidInputError, match=r"data\.x must hold"):
        dataset_from_pyg(Data(edge_index=edge_index, num_nodes=2))
    with pytest.raises(LabelError, match=r"one label for each of the 3 nodes.*\(3, 4\)"):
        dataset_from_pyg(Data(x=torch.ones(3, 2), edge_index=edge_index, y=torch.ones(3, 4)))


def test_missing_pyg_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(MissingPackageError, match=r"pip install -c constraints.txt '\.\[pyg\]'"):
        dataset_to_pyg(make_dataset(np.ones((5, 2), dtype=np.float32)))


def test_networkx_nodes_that_are_positions_stay_where_they_are():
    graph = nx.Graph()
    graph.add_nodes_from([3, 1, 0, 2])
    graph.add_edge(3, 1)
    assert as_graph(graph).adjacency.toarray()[3, 1] == 1
