"""Dataset: what it settles, what it refuses, and the two steps of preparation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from proptrain.data.dataset import Dataset, check_features, largest_component, normalise_rows
from proptrain.data.graph import Graph
from proptrain.errors import InvalidInputError, LabelError

FEATURES = np.array([[1.0, -3.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.5, 0.0], [2.0, 2.0, 4.0]])


def graph_of(edges, n):
    rows, columns = zip(*edges, strict=True) if edges else ((), ())
    return Graph(sp.coo_array((np.ones(len(edges)), (rows, columns)), shape=(n, n)))


def dataset(**changes):
    settled = {
        "graph": graph_of([(0, 1), (2, 3)], 4),
        "features": FEATURES,
        "labels": np.array([0, 1, -1, 2]),
    }
    return Dataset(**{**settled, **changes})


# --- what is settled --------------------------------------------------------------------------


def test_ids_and_class_names_default_to_numbers():
    data = dataset()
    np.testing.assert_array_equal(data.node_ids, [0, 1, 2, 3])
    assert data.class_names == (0, 1, 2)
    assert (data.n_nodes, data.n_classes, data.name) == (4, 3, "unnamed")
    assert repr(data) == "Dataset('unnamed', 4 nodes, 2 edges, 3 features, 3 classes)"


def test_given_ids_and_class_names_are_kept():
    data = dataset(node_ids=["a", "b", "c", "d"], class_names=["x", "y", "z", "unseen"], name="t")
    assert list(data.node_ids) == ["a", "b", "c", "d"]
    assert data.class_names == ("x", "y", "z", "unseen")
    assert data.n_classes == 4


@pytest.mark.parametrize(
    "ids",
    [
        [("a", 1), ("a", 2), ("b", 1), ("b", 2)],
        [("a",), ("a", 2), ("b", 1, 2), ()],
        np.array([1, "a", (2, 3), None], dtype=object),
    ],
)
def test_ids_may_be_anything(ids):
    data = dataset(node_ids=ids)
    assert data.node_ids.shape == (4,)
    assert data.node_ids.tolist() == list(ids)


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ([("a", 1), ("a", 2), ("b", 1), ("a", 1)], "some occur twice"),
        (np.array([1, "a", "a", None], dtype=object), "some occur twice"),
        ([[1, 2], [3, 4], [5, 6], [7, 8]], "one for each node"),
    ],
)
def test_ids_must_differ(ids, told):
    with pytest.raises(InvalidInputError, match=told):
        dataset(node_ids=ids)


def test_all_labels_may_be_unknown():
    data = dataset(labels=np.full(4, -1))
    assert (data.n_classes, data.class_names) == (0, ())
    np.testing.assert_array_equal(data.labels, [-1, -1, -1, -1])


@pytest.mark.parametrize("make", [np.array, sp.csr_array, sp.coo_array, sp.csc_matrix])
def test_features_become_float32_with_the_same_values(make):
    features = dataset(features=make(FEATURES)).features
    assert features.dtype == np.float32
    dense = features.toarray() if sp.issparse(features) else features
    np.testing.assert_array_equal(dense, FEATURES)
    if make is not np.array:
        assert isinstance(features, sp.csr_array)


def test_duplicate_feature_entries_are_added_up_in_a_copy():
    given = sp.csr_array((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    features = check_features(given)
    np.testing.assert_array_equal(features.data, [3.0])
    assert given.nnz == 2


def test_every_array_is_read_only():
    sparse = dataset(features=sp.csr_array(FEATURES))
    dense = dataset()
    arrays = [
        *(sparse.features.data, sparse.features.indices, sparse.features.indptr),
        *(dense.features, dense.labels, dense.node_ids),
    ]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        dense.labels = np.zeros(4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_the_inputs_stay_the_callers(make, dtype):
    features = make(FEATURES.astype(dtype))
    labels, ids = np.array([0, 1, -1, 2]), np.array([5, 6, 7, 8])
    data = dataset(features=features, labels=labels, node_ids=ids)
    stored = features.data if sp.issparse(features) else features
    stored[...] = 9
    labels[:], ids[:] = 0, 0
    dense = data.features.toarray() if sp.issparse(data.features) else data.features
    np.testing.assert_array_equal(dense, FEATURES)
    np.testing.assert_array_equal(data.labels, [0, 1, -1, 2])
    np.testing.assert_array_equal(data.node_ids, [5, 6, 7, 8])


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("features", np.ones((3, 2))),
        ("features", sp.csr_array(np.ones((3, 2)))),
        ("labels", np.zeros(3, dtype=int)),
        ("node_ids", ["a", "b", "c"]),
    ],
)
def test_a_wrong_number_of_rows_is_refused(name, value):
    message = f"{name} must have one row for each of the graph's 4 nodes, got 3"
    with pytest.raises(InvalidInputError, match=message):
        dataset(**{name: value})


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([0, 1, -2, 0], None, "from 0 to 1 or -1 for unknown, got values from -2 to 1"),
        ([0, 1, -1, 3], "abc", "from 0 to 2 or -1 for unknown, got values from -1 to 3"),
    ],
)
def test_impossible_class_codes_are_refused(labels, names, message):
    with pytest.raises(LabelError, match=message):
        dataset(labels=np.array(labels), class_names=names)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.ones(4), r"got ndarray of shape \(4,\)"),
        (np.ones((4, 1, 1)), r"got ndarray of shape \(4, 1, 1\)"),
        ([[1.0], [2.0]], r"got list of shape \(2, 1\)"),
        (None, r"got NoneType of shape \(\)"),
    ],
)
def test_features_that_are_no_matrix_are_refused(features, message):
    with pytest.raises(InvalidInputError, match="must be a matrix with one row") as info:
        dataset(features=features)
    assert info.match(message)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_that_are_not_finite_are_refused(make, value):
    features = FEATURES.copy()
    features[0, 0] = features[3, 2] = value
    stored = 12 if make is np.array else 6
    with pytest.raises(InvalidInputError, match=f"2 of {stored} stored values are NaN or infinite"):
        dataset(features=make(features))


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_features_beyond_float32_are_refused_without_a_warning(make):
    with pytest.raises(InvalidInputError, match="too large for float32"):
        check_features(make([[1e300, 1.0]]))


# --- preparation ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_rows_are_divided_by_their_absolute_sum_and_empty_ones_stay(make):
    features = check_features(make(FEATURES))
    scaled = normalise_rows(features)
    assert sp.issparse(scaled) == sp.issparse(features)
    assert scaled.dtype == np.float32
    dense = scaled.toarray() if sp.issparse(scaled) else scaled
    wanted = [[0.25, -0.75, 0], [0, 0, 0], [0, 1, 0], [0.25, 0.25, 0.5]]
    np.testing.assert_array_equal(dense, wanted)
    untouched = features.toarray() if sp.issparse(features) else features
    np.testing.assert_array_equal(untouched, FEATURES)


def test_dense_and_sparse_rows_are_scaled_alike():
    features = np.random.RandomState(0).rand(7, 5).astype(np.float32)
    features[features < 0.4] = 0
    sparse = normalise_rows(sp.csr_array(features))
    np.testing.assert_allclose(sparse.toarray(), normalise_rows(features), rtol=1e-6)


def test_the_largest_component_is_kept_in_its_order():
    data = Dataset(
        graph=graph_of([(0, 4), (4, 1), (2, 3)], 6),
        features=sp.csr_array(np.arange(12.0).reshape(6, 2)),
        labels=np.array([0, 1, 2, 2, -1, 2]),
        node_ids=list("abcdef"),
        class_names=("x", "y", "z"),
        name="six",
    )
    kept = largest_component(data)
    assert "".join(kept.node_ids) == "abe"
    np.testing.assert_array_equal(kept.labels, [0, 1, -1])
    np.testing.assert_array_equal(kept.features.toarray(), [[0, 1], [2, 3], [8, 9]])
    np.testing.assert_array_equal(kept.graph.adjacency.toarray(), [[0, 0, 1], [0, 0, 1], [1, 1, 0]])
    assert (kept.class_names, kept.name) == (("x", "y", "z"), "six")
    assert data.n_nodes == 6
    with pytest.raises(ValueError, match="read-only"):
        kept.features.data[0] = 1


def test_edge_weights_survive_the_largest_component():
    weighted = sp.coo_array(([3.0, 0.5], ([1, 2], [2, 3])), shape=(4, 4))
    kept = largest_component(dataset(graph=Graph(weighted)))
    np.testing.assert_array_equal(
        kept.graph.adjacency.toarray(), [[0, 3, 0], [3, 0, 0.5], [0, 0.5, 0]]
    )
    np.testing.assert_array_equal(kept.features, FEATURES[1:])


def test_of_equal_components_the_first_is_kept():
    np.testing.assert_array_equal(largest_component(dataset()).node_ids, [0, 1])


def test_a_connected_data_set_stays_as_it_is():
    data = dataset(graph=graph_of([(0, 1), (1, 2), (2, 3)], 4))
    assert largest_component(data) is data


@pytest.mark.parametrize("labels", [[[0], [1]], [0.7, 1.0], ["a", "b"], [np.nan, 0]])
def test_labels_that_are_no_codes_are_refused(labels):
    with pytest.raises(LabelError, match="must be whole class codes"):
        Dataset(Graph(sp.csr_array((2, 2))), np.eye(2), np.array(labels))


def test_repeated_node_ids_are_refused():
    with pytest.raises(InvalidInputError, match="node_ids must differ"):
        Dataset(Graph(sp.csr_array((2, 2))), np.eye(2), np.array([0, 1]), node_ids=["a", "a"])


def test_complex_features_are_refused():
    with pytest.raises(InvalidInputError, match="must be real numbers, got dtype complex128"):
        Dataset(Graph(sp.csr_array((2, 2))), np.eye(2) * 1j, np.array([0, 1]))
