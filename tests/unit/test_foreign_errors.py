"""What NumPy, SciPy, torch or scikit-learn would refuse in their own words: errors of ours."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from reliability.hell_cases import N, ordinary

from proptrain import (
    PPR,
    AddSoftLabels,
    BlockedEngine,
    CorrectAndSmoothClassifier,
    Dataset,
    GNNClassifier,
    Graph,
    LabelFolds,
    LabelPropagationClassifier,
    LocalEngine,
    PTAClassifier,
    PTAPlusClassifier,
    PTLoss,
    StoppingNodes,
    as_graph,
    encode_labels,
    graph_from_edges,
    save_graph,
    split_nodes,
)
from proptrain.errors import (
    GraphError,
    InvalidInputError,
    LabelError,
    NotEnoughMemoryError,
    TrainingError,
)
from proptrain.problem import accuracy_on
from proptrain.propagate.torch_engine import TorchEngine
from proptrain.train.loop import predict_probabilities

CLASSIFIERS = (
    CorrectAndSmoothClassifier,
    GNNClassifier,
    LabelPropagationClassifier,
    PTAClassifier,
    PTAPlusClassifier,
)


def _fitted(y: object = None, **parameters: object) -> PTAClassifier:
    given = ordinary()
    new = PTAClassifier(**{"max_epochs": 2, "random_state": 0, **parameters})
    return new.fit(given.X, given.y if y is None else y, graph=given.graph)


# --- seeds ------------------------------------------------------------------------------------


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("seed", [-1, 2**40, "a", 1.5])
def test_a_random_state_that_is_none_is_told(classifier, seed):
    given = ordinary()
    with pytest.raises(InvalidInputError, match=r"random_state must be None, .* got .*"):
        classifier(random_state=seed).fit(given.X, given.y, graph=given.graph)


@pytest.mark.parametrize("seed", [-1, 2**32, "a", None, True])
def test_a_seed_that_is_none_is_told(seed):
    given, message = ordinary(), r"A seed must be a whole number from 0 to 2³² - 1.* got .*"
    with pytest.raises(InvalidInputError, match=message):
        split_nodes(np.arange(40) % 2, seed, n_known=20, per_class=3, n_stop=5)
    with pytest.raises(InvalidInputError, match=message):
        _fitted().audit(given.X, seed=seed)
    with pytest.raises(InvalidInputError, match=message):
        list(LabelFolds(seed=seed).split(np.arange(N), given.y))


# --- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.array, list])
def test_labels_of_bytes_are_text(make):
    codes = ordinary().y
    given = make([[b"ham", "späm".encode(), b""][code] for code in codes])
    text = np.array(["ham", "späm", ""])[codes]
    assert _fitted(given).classes_.tolist() == ["ham", "späm"]
    np.testing.assert_array_equal(_fitted(given).predict(), _fitted(text).predict())


@pytest.mark.parametrize("make", [np.array, list])
def test_labels_of_bytes_are_text_to_be_scored_too(make):
    given = ordinary()
    fitted = _fitted()
    names = make([[b"ham", "späm".encode(), b""][code] for code in given.y])
    told = _fitted(names)
    assert told.score(None, names) == fitted.score(None, given.y) > 0.4
    with pytest.warns(UserWarning, match="features alone"):
        assert told.score(given.X, names) == fitted.score(given.X, given.y)


@pytest.mark.parametrize(
    ("names", "text"), [([0, 1, -1], False), ([2, "b", None], True), ([0.5, 1, np.nan], False)]
)
def test_only_labelled_nodes_are_scored(names, text):
    codes = ordinary().y
    y = np.array(names, dtype=object if text else None)[codes]
    fitted, known = _fitted(codes), codes >= 0
    told = np.array(names[:2], dtype=str if text else None)[fitted.transduction_]
    right = fitted.transduction_ == codes
    assert accuracy_on(y, told, unlabelled=-1) == right[known].mean()
    weights = np.arange(len(y))
    weighted = accuracy_on(y, told, unlabelled=-1, weights=weights)
    assert weighted == pytest.approx(np.average(right[known], weights=weights[known]))


def test_a_label_is_the_same_whatever_other_labels_are_scored():
    labels = [1.0, 0.5, "b", None]
    told = LabelPropagationClassifier().fit(None, labels, graph=[(0, 1), (1, 2), (2, 3), (3, 0)])
    assert told.classes_.tolist() == ["0.5", "1", "b"]
    for part in ([1.0, 0.5, "b", None], [1.0, None, None, None], [1, 0.5, None, None]):
        assert told.score(None, part) == told.score(None, np.array(part, dtype=object)) == 1


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], r"a number for each of the 3 nodes, shape \(3,\), got shape \(2,\)"),
        ([[1], [2], [3]], r"got shape \(3, 1\)"),
        ([1, [2, 3], 4], r"got shape \(\) and dtype object"),
        (1, r"got shape \(\)"),
        (["1", "2", "3"], "dtype <U1"),
        ([1, None, 3], "dtype object"),
        ([0, 7, 0], "above 0 for some of the labelled nodes, got 0.0 to 0.0"),
        ([1, 2, np.nan], "be finite, .* got nan to nan"),
        ([-1, 2, 3], "be finite, 0 or more, .* got -1.0 to 3.0"),
        (np.ma.masked_equal([1, 2, 3], 3), "have no masked entries"),
    ],
)
def test_weights_of_a_score_that_are_none_are_told(weights, message):
    told = LabelPropagationClassifier().fit(None, ["a", None, "b"], graph=[(0, 1), (1, 2), (2, 0)])
    with pytest.raises(InvalidInputError, match=f"^sample_weight must .*{message}"):
        told.score(None, ["a", None, "b"], sample_weight=weights)
    of_torch = torch.tensor([1.0, 0, 3], requires_grad=True)
    assert told.score(None, ["a", None, "a"], sample_weight=of_torch) == 0.25


def test_what_cannot_be_scored_is_told():
    with pytest.raises(LabelError, match="one label for each of the 48 nodes, got 47"):
        _fitted().score(None, ordinary().y[:-1])
    with pytest.raises(LabelError, match="none of these 48 nodes has a label"):
        _fitted().score(None, [None] * 48)


def test_labels_of_bytes_that_are_no_text_are_told():
    with pytest.raises(LabelError, match="y must hold text in UTF-8"):
        _fitted(np.array([b"\xff", b"a"] * (N // 2)))
    with pytest.raises(LabelError, match="Labels must be text, booleans or whole numbers"):
        _fitted([b"a", b"b", None] * (N // 3))
    with pytest.raises(LabelError, match="Labels must be text, booleans or whole numbers"):
        _fitted([b"a", b"b", float("nan")] * (N // 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_with_a_gradient_are_taken_as_any_other(dtype):
    given = ordinary()
    X, y = (torch.tensor(values, dtype=dtype) for values in (given.X, given.y))
    new = PTAClassifier(max_epochs=2, random_state=0)
    wanted = new.fit(X, y, graph=given.graph).predict_proba()
    got = new.fit(X.requires_grad_(), y.requires_grad_(), graph=given.graph)
    np.testing.assert_array_equal(got.predict_proba(), wanted)
    np.testing.assert_array_equal(got.predict_proba(X + 1), got.predict_proba((X + 1).detach()))


def test_edges_of_new_nodes_may_be_tensors_too():
    told = LabelPropagationClassifier().fit(None, ["a", "b", None], graph=[(0, 1), (1, 2), (2, 0)])
    assert told.predict(edges=torch.tensor([[3, 0], [4, 1]])).tolist() == ["a", "b"]
    for edges in (torch.tensor([[3.0, 0]], requires_grad=True), torch.eye(3).to_sparse()):
        with pytest.raises(GraphError, match="Edges of new nodes must be pairs of whole node"):
            told.predict(edges=edges)


# --- numbers that would fill memory -----------------------------------------------------------


def test_codes_of_more_classes_than_there_can_be_are_told():
    with pytest.raises(LabelError, match=r"below 1,000 where .* got 1000000000000000. encode_"):
        Dataset(Graph.without_edges(2), np.ones((2, 1)), np.array([0, 10**15]))
    named = tuple(str(code) for code in range(2000))
    many = Dataset(Graph.without_edges(2), np.ones((2, 1)), np.array([0, 1999]), class_names=named)
    assert many.n_classes == 2000


def test_soft_labels_of_more_classes_than_there_can_be_are_told():
    data = pytest.importorskip("torch_geometric.data").Data
    path = data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    path.y, path.train_mask = torch.tensor([0, 1, 10**9]), torch.tensor([True, True, False])
    with pytest.raises(LabelError, match=r"below 1,000 where .* got 1000000000"):
        AddSoftLabels()(path)
    assert AddSoftLabels(n_classes=2)(path).soft_labels.shape == (3, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: graph_from_edges([(0, 10**12)]),
        lambda: graph_from_edges([(0, 1)], n_nodes=10**12),
        lambda: Graph.without_edges(10**12),
        lambda: Graph(sp.coo_array((10**12, 10**12))),
    ],
)
def test_more_nodes_than_a_graph_can_have_are_told(make):
    with pytest.raises(GraphError, match=r"0 to 2,147,483,647 nodes.* got 1,000,000,000,00[01]\."):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: as_graph([(0, 1), (1, 2), (0, 2 * 10**9 - 1)]),
        lambda: graph_from_edges([(0, 1)], n_nodes=2 * 10**9),
        lambda: Graph(sp.coo_array((2 * 10**9, 2 * 10**9))),
        lambda: (
            LabelPropagationClassifier()
            .fit(None, ["a", "b"], graph=sp.csr_array((2, 2)))
            .predict(edges=[(0, 2 * 10**9 - 1)])
        ),
    ],
)
def test_more_nodes_than_memory_holds_are_told_before_it_is_full(make, monkeypatch):
    monkeypatch.setattr("proptrain.data.graph.available_memory", lambda: 10**9)
    told = r"2,000,000,000 nodes, .* takes 24 GB .* 1 GB are left\. If .* gaps .*\.read_tables"
    with pytest.raises(NotEnoughMemoryError, match=told):
        make()


def test_what_memory_may_just_hold_is_not_refused(monkeypatch):
    monkeypatch.setattr("proptrain.data.graph._LITTLE", 0)
    monkeypatch.setattr("proptrain.data.graph.available_memory", lambda: 13_000)
    assert Graph(sp.coo_array((1000, 1000))).n_nodes == 1000


def test_fewer_nodes_than_none_are_told():
    with pytest.raises(GraphError, match=r"must have 0 to .* nodes, .* got -1"):
        Graph.without_edges(-1)


def test_a_network_that_no_memory_holds_is_told():
    with pytest.raises(NotEnoughMemoryError, match=r"n_hidden=1,000,000,000,000 .* Lower n_hidden"):
        _fitted(n_hidden=10**12)


# --- what a user's own functions return, and what engines are given ---------------------------


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize(
    ("weighting", "got"),
    [
        (lambda f, epoch: f[:3], r"shape \(3, 2\)"),
        (lambda f, epoch: f.T, r"shape \(2, \d+\)"),
        (lambda f, epoch: f[None], r"shape \(1, \d+, 2\)"),
        (lambda f, epoch: f.numpy(), "ndarray"),
        (lambda f, epoch: None, "None, as a function does without a return"),
    ],
)
def test_a_weighting_of_the_wrong_shape_is_told(weighting, got, batch_size):
    with pytest.raises(InvalidInputError, match=rf"A weighting must return .* got {got}. Keep"):
        _fitted(weighting=lambda f, epoch: weighting(f.detach(), epoch), batch_size=batch_size)


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize(
    ("weighting", "got"),
    [
        (lambda f, epoch: f * float("nan"), "in epoch 0 it returned nan"),
        (lambda f, epoch: f / 0, "in epoch 0 it returned inf"),
        (lambda f, epoch: f - f.max(), r"in epoch 0 it returned -0\.\d+"),
        (lambda f, epoch: f - 2 * (epoch == 1), r"in epoch 1 it returned -[12]\.\d+"),
        (lambda f, epoch: f.to(torch.complex64), "in epoch 0 it returned torch.complex64"),
    ],
)
def test_weights_that_are_none_are_told(weighting, got, batch_size):
    with pytest.raises(InvalidInputError, match=rf"finite numbers, 0 or more; {got}\. Weigh by"):
        _fitted(weighting=lambda f, epoch: weighting(f, epoch), batch_size=batch_size)
    soft_labels = torch.ones(4, 2)
    with pytest.raises(InvalidInputError, match=r"finite numbers, 0 or more; in epoch 1 "):
        PTLoss(weighting)(torch.tensor([[0.1, 0.2]] * 4), soft_labels, epoch=1)


def test_a_weighting_is_not_blamed_for_a_network_that_is_lost():
    scores = torch.full((4, 2), float("nan"))
    with pytest.raises(TrainingError, match=r"in epoch 0 it is nan\. Scale the features"):
        PTLoss(lambda f, epoch: f)(scores, torch.ones(4, 2))


def test_a_weighting_that_returns_nothing_is_told_of_other_networks():
    with pytest.raises(InvalidInputError, match=r"got None, as a function does without a return"):
        PTLoss(lambda f, epoch: None)(torch.zeros(4, 2), torch.ones(4, 2))
    assert PTLoss(lambda f, epoch: f)(torch.zeros(0, 2), torch.ones(0, 2)) == 0


def test_the_loss_for_other_networks_tells_it_too():
    with pytest.raises(InvalidInputError, match=r"shape \(4, 2\), as .* got shape \(3, 2\)"):
        PTLoss(lambda f, epoch: f[:3])(torch.zeros(4, 2), torch.ones(4, 2))
    alike = PTLoss(lambda f, epoch: f[:, :1] * 0 + 1)(torch.zeros(4, 2), torch.ones(4, 2))
    assert alike == PTLoss()(torch.zeros(4, 2), torch.ones(4, 2))


@pytest.mark.parametrize("nodes", [[99], [-1], [0, 4]])
def test_stopping_nodes_that_are_not_there_are_told(nodes):
    soft = np.ones((4, 2), np.float32)
    with pytest.raises(LabelError, match=r"Stopping nodes must be indices from 0 to 3, .* got"):
        StoppingNodes(np.array(nodes), np.zeros(len(nodes), int), soft)
    with pytest.raises(LabelError, match=r"got 2 nodes from 0 to 1 and 1 codes"):
        StoppingNodes(np.array([0, 1]), np.array([0]), soft)


ENGINES = {
    "local": lambda graph, _: LocalEngine(graph),
    "torch": lambda graph, _: TorchEngine(graph, device=torch.device("cpu")),
    "blocked": lambda _, folder: BlockedEngine(folder, memory="64GB"),
}


@pytest.mark.parametrize("name", ENGINES)
def test_engines_refuse_rows_that_are_not_there_and_numbers_that_are_not_real(name, tmp_path):
    graph = graph_from_edges([(0, 1), (1, 2), (2, 3)])
    save_graph(graph, tmp_path / "graph")
    engine, signal = ENGINES[name](graph, tmp_path / "graph"), np.eye(4, 2)
    for fixed in ([99], [-1], [0.5], [[0]], np.ones(3, bool), ["a"]):
        with pytest.raises(InvalidInputError, match=r"Fixed rows must be .* from 0 to 3 or a mask"):
            engine.propagate(signal, PPR(), fixed=fixed)
    expected = engine.propagate(signal, PPR(), fixed=np.array([0, 3]))
    for fixed in ([0, 3], np.array([True, False, False, True])):
        np.testing.assert_array_equal(engine.propagate(signal, PPR(), fixed=fixed), expected)
    assert np.isfinite(engine.propagate(signal, PPR(), fixed=[])).all()
    with pytest.raises(InvalidInputError, match=r"real numbers, got dtype complex128\. Propagate"):
        engine.propagate(signal.astype(complex), PPR())


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("width", [1, 9])
def test_features_of_another_width_are_told(kind, width, tmp_path):
    fitted = _fitted()
    n_features = fitted.n_features_in_
    given = kind(np.ones((2, width), np.float32))
    wanted = rf"must have {n_features} columns, .* got shape \(2, {width}\)\. Give the same"
    with pytest.raises(InvalidInputError, match=wanted):
        predict_probabilities(fitted.weights_, given)
    fitted.save(tmp_path / "model")
    told = rf"has {width} features, but .* is expecting {n_features} .*\. Give the columns that"
    for model in (fitted, PTAClassifier.load(tmp_path / "model")):
        for edges in (None, [(N, 0), (N + 1, 1)]):
            with pytest.raises(InvalidInputError, match=told):
                model.predict(given, edges=edges)


@pytest.mark.parametrize(
    ("label", "told"),
    [
        (date(2020, 1, 1), r"date, such as datetime\.date\(2020, 1, 1\)\."),
        (Decimal("1.5"), r"Decimal, such as Decimal\('1\.5'\)\."),
        (2**70, "a whole number of 71 bits"),
        (-(2**600), "a whole number of 601 bits"),
    ],
    ids=["date", "Decimal", "2^70", "-2^600"],
)
def test_labels_of_no_kind_for_classes_are_told_in_our_words(label, told):
    y = [label, 5, None, None]
    match = (
        rf"^Labels must be text, booleans or whole numbers of 64 bits, got {told}.* str\(label\)"
    )
    with pytest.raises(LabelError, match=match):
        LabelPropagationClassifier(unlabelled=None).fit(None, y, graph=[(0, 1), (1, 2), (2, 3)])


def test_numbers_that_python_would_not_write_are_no_names():
    with pytest.raises(LabelError, match="number 2 is a whole number of more digits"):
        encode_labels([5, -(10**6000)])
