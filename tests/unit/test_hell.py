"""A quick selection of the numbers from hell; all of them: python -m reliability.hell --large."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from reliability.hell import WELL, WHO, end_of
from reliability.hell_cases import FEATURES, WEIGHTS, all_cases, ordinary

from proptrain import BlockedEngine, LabelPropagationClassifier, LocalEngine, PTAClassifier
from proptrain.data.disk_writer import save_graph
from proptrain.data.graph import Graph
from proptrain.data.knn import knn_graph
from proptrain.errors import GraphError, InvalidInputError, TrainingError, WrongTypeError
from proptrain.propagate.schemes import PPR
from proptrain.train.loop import TrainSettings, train_predictor
from proptrain.train.stopping import StoppingNodes

CASES = {f"{case.group}: {case.name}": case for case in all_cases()}
FEW = ("PTA", "PTA from disk", "LP", "GCN")
ALL_WELL = [
    "features: 1e30 everywhere",
    "features: columns from 1e-30 to 1e30",
    "features: denormals of float32 (1e-40)",
    "features: all zeros",
    "features: constant columns",
    "features: float16",
    "features: int64 at its largest",
    "features: big-endian float32",
    "features: not contiguous",
    "features: Fortran order",
    "features: read-only",
    "features: sparse, big-endian",
    "graph: a hub",
    "graph: many components",
    "graph: only isolated nodes",
    "graph: only self-loops",
    "graph: big-endian",
    "edge weights: 1e-30",
    "edge weights: 1e30 beside 1",
    "edge weights: 3e38, sums beyond float32",
    "edge weights: 1e-44, denormals",
    "edge weights: zero",
    "labels: one label a class",
    "labels: big-endian",
]
REFUSED = {
    "features: NaN": ("InvalidInputError", r"NaN|finite numbers"),
    "features: inf": ("InvalidInputError", r"infinity|finite numbers"),
    "features: 1e300": ("InvalidInputError", "float32"),
    "features: float128 beyond float64": ("InvalidInputError", r"too large|float32"),
    "features: no row": ("InvalidInputError", "row for each"),
    "features: complex": ("InvalidInputError", r"Complex data not|real numbers"),
    "features: sparse, an index beyond": ("InvalidInputError", "indices from 0 to 1000000, where"),
    "features: sparse, an index below 0": ("InvalidInputError", "indices from -5 to 7, where 0 to"),
    "features: sparse, indptr falling": ("InvalidInputError", "and falls in between"),
    "features: sparse, indptr beyond": ("InvalidInputError", "from 0 to 1000000, where it must"),
    "features: sparse by columns, an index beyond": ("InvalidInputError", "where 0 to 47 are"),
    "graph: an index beyond": ("GraphError", "to 1000000, where 0 to 47 are possible"),
    "graph: an indptr that falls": ("GraphError", "and falls in between"),
    "graph: an indptr beyond": ("GraphError", "from 0 to 1000000, where it must rise"),
    "graph: a row beyond": ("GraphError", "has rows from 0 to 1000000, where 0 to 47"),
    "graph: text": (r"InvalidInputError|GraphError", "must be"),
    "graph: complex": ("GraphError", "must be real numbers"),
    "graph: a NetworkX graph with text for weights": ("GraphError", "real numbers, .* 'heavy'"),
    "edge weights: negative": ("GraphError", "finite and not negative"),
    "edge weights: NaN": ("GraphError", "Drop those edges"),
    "edge weights: 1e300": ("GraphError", "finite and not negative"),
    "labels: a class without a training node": ("LabelError", "class 7 has only stopping nodes"),
    "labels: one-hot rows": ("LabelError", "argmax"),
    "labels: one class": ("LabelError", "one class only"),
}


def test_cases_hold_the_type_that_they_are_called_by():
    X, weights = np.random.RandomState(0).rand(60, 16), np.ones(90)
    for given, cases in ((X, FEATURES), (weights, WEIGHTS)):
        for name, make in cases.items():
            called = re.search(r"(?:^|, )(float16|float32)\b", name)
            if called is not None:
                assert make(given).dtype == called[1], name


@pytest.mark.parametrize("name", ALL_WELL)
def test_it_ends_with_finite_probabilities_that_sum_to_one(name):
    assert {who: end_of(CASES[name], WHO[who]) for who in FEW} == dict.fromkeys(FEW, (WELL, ""))


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_an_error_that_names_the_cause(name):
    kind, told = REFUSED[name]
    for who in FEW:
        outcome, message = end_of(CASES[name], WHO[who])
        assert re.fullmatch(kind, outcome), (who, message)
        assert re.search(told, message), (who, message)


def test_features_of_no_use_are_ours_and_of_the_kind_that_scikit_learn_expects():
    problem = ordinary()
    objects = problem.X.astype(object)
    objects[0, 0] = {"a": 1}
    with pytest.raises(WrongTypeError, match=r"must be a matrix of finite numbers") as caught:
        PTAClassifier().fit(objects, problem.y, graph=problem.graph)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, InvalidInputError)


# --- training that leaves the finite numbers --------------------------------------------------


def test_a_last_step_into_nothing_is_told_too():
    # One epoch: the loss of the step is finite, what it leads to is not, and nothing follows.
    random = np.random.RandomState(0)
    features = np.float32(1e19 * random.rand(30, 4))
    soft = np.eye(3, dtype=np.float32)[np.arange(30) % 3]
    stop = StoppingNodes(np.arange(30), np.arange(30) % 3, soft)
    settings = TrainSettings(max_epochs=1, learning_rate=1e19)
    with pytest.raises(TrainingError, match=r"in epoch 0 it is .* Scale the features"):
        train_predictor(features, soft, stop, settings=settings)


def test_new_nodes_too_large_to_compute_with_are_told():
    problem = ordinary()
    fitted = PTAClassifier(random_state=0, max_epochs=3).fit(problem.X, problem.y)
    new = problem.X.copy()
    new[5] = 3e38
    with pytest.raises(InvalidInputError, match=r"1 of 48 nodes, the first is row 5; .* is 3e\+38"):
        fitted.predict_proba(new)


# --- laws that hold however large or small the numbers are ------------------------------------


@pytest.mark.parametrize("power", [-120, -60, 60, 120])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_a_knn_graph_does_not_depend_on_the_size_of_the_numbers(power, make):
    X = np.float32(ordinary().X)
    X[3] = 0
    expected = knn_graph(make(X), 3).adjacency
    scaled = make(X * np.float32(2.0) ** power)
    assert (knn_graph(scaled, 3).adjacency != expected).nnz == 0
    one = X.copy()
    one[7] *= np.float32(2.0) ** power  # a row alone: the cosine sees directions
    assert (knn_graph(make(one), 3).adjacency != expected).nnz == 0


def test_label_propagation_finds_neighbours_of_huge_new_nodes():
    problem = ordinary()
    fitted = LabelPropagationClassifier().fit(problem.X, problem.y, graph="knn")
    expected = fitted.predict_proba(np.float32(problem.X[:4] + 0.01))
    huge = np.float32(problem.X[:4] + 0.01) * np.float32(2.0**120)
    np.testing.assert_array_equal(fitted.predict_proba(huge), expected)


@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e30, 3e38])
@pytest.mark.parametrize("normalisation", ["row", "symmetric", "symmetric-no-loops"])
def test_from_disk_weights_of_any_size_give_what_memory_gives(tmp_path, size, normalisation):
    graph = Graph(ordinary().graph * size)
    save_graph(graph, tmp_path / "graph", n_blocks=2)
    signal = np.random.RandomState(0).rand(graph.n_nodes, 3).astype(np.float32)
    got = BlockedEngine(tmp_path / "graph", normalisation, memory="64GB").propagate(signal, PPR())
    wanted = LocalEngine(graph, normalisation).propagate(signal, PPR())
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_weights_that_no_float_can_hold_together_are_told(tmp_path, monkeypatch):
    weights = sp.coo_array(([1e-44, 3e38], ([0, 2], [1, 3])), shape=(4, 4))
    save_graph(Graph(weights), tmp_path / "graph")
    engine = BlockedEngine(tmp_path / "graph", "row", memory="64GB")
    signal = np.ones((4, 1), np.float32)
    np.testing.assert_allclose(engine.propagate(signal, PPR()), signal)  # each has its own number
    monkeypatch.setattr("proptrain.propagate.engine.MANY_ENTRIES", 0)  # as if it were large
    with pytest.raises(GraphError, match=r"between 9.81e-45 and 3e\+38. Drop the lightest"):
        engine.propagate(signal, PPR())


def test_sums_of_weights_are_not_cut_off():
    star = sp.coo_array((np.full(5, 3e38), (np.zeros(5, int), np.arange(1, 6))), shape=(6, 6))
    assert Graph(star).degrees[0] == pytest.approx(1.5e39)
