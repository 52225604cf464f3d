"""Networks with the graph inside, against dense float64 formulas and their autograd."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import proptrain.models.spread
import reference
from proptrain.data.graph import Graph
from proptrain.kernels import drop_entries, rectify
from proptrain.models.correct_smooth import CorrectAndSmoothClassifier
from proptrain.models.gnn import GNNClassifier
from proptrain.models.networks import DAGNN, GCN, Decoupled, Linear
from proptrain.models.spread import Spread
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.schemes import PPR, Exact, Heat, Mean, Power
from proptrain.train.loop import TrainSettings, predict_probabilities, train_predictor
from proptrain.train.predictor import Predictor
from proptrain.train.products import FeatureMatrix
from proptrain.train.stopping import StoppingNodes
from strategies import adjacencies

F, C, H = 6, 3, 5
ALPHA = 0.2
EDGE_DROPOUT = 0.4

kinds = pytest.mark.parametrize("kind", reference.KINDS)
few = settings(max_examples=12, derandomize=True, deadline=None)

# name: the scheme and Ā in closed form, from Â
SCHEMES = {
    "ppr": (PPR(0.1, 6), lambda step: reference.combine(step, reference.ppr_coefficients(0.1, 6))),
    "no step": (PPR(0.1, 0), lambda step: np.eye(len(step))),
    "power": (Power(3), lambda step: step @ step @ step),
    "mean": (Mean(4), lambda step: reference.combine(step, reference.mean_coefficients(4))),
    "heat": (Heat(3, 9), lambda step: reference.combine(step, reference.heat_coefficients(3, 9))),
    "exact": (Exact(ALPHA, 1e-12), lambda step: reference.exact(step, ALPHA)),
}
schemes = pytest.mark.parametrize("name", SCHEMES)


def engine_of(adjacency, kind="symmetric"):
    return LocalEngine(Graph(sp.csr_array(adjacency)), kind)


def coins(seed=0):
    return np.random.Generator(np.random.SFC64(seed))


def drawn_weights(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(
        *shape, dtype=torch.float64, generator=drawn_weights(seed), requires_grad=True
    )


def value_and_gradients(result, *inputs):
    """The result, and the gradients of its sum weighed at random, the same weights every time."""
    upstream = normal(*result.shape, seed=99).detach().to(result.dtype)
    return [result.detach(), *torch.autograd.grad((result * upstream).sum(), inputs)]


def all_close(got, wanted, tolerance):
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


# --- spreading and its gradient ---------------------------------------------------------------


@kinds
@schemes
@few
@given(adjacency=adjacencies(), n_columns=st.integers(1, 5))
def test_gradients_flow_back_through_the_transpose(kind, name, adjacency, n_columns):
    scheme, closed_form = SCHEMES[name]
    whole = torch.tensor(closed_form(reference.operator(adjacency, kind)))
    signal = normal(len(adjacency), n_columns)
    got = value_and_gradients(Spread(engine_of(adjacency, kind), scheme)(signal), signal)
    all_close(got, value_and_gradients(whole @ signal, signal), 1e-10)


@kinds
@few
@given(adjacency=adjacencies())
def test_the_transposed_engine_propagates_with_the_transpose(kind, adjacency):
    engine, step = engine_of(adjacency, kind), reference.operator(adjacency, kind)
    forward = engine.propagate(np.eye(len(step)), PPR(0.3, 4))
    for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-12)):
        transposed = engine.transposed.operator_in(np.dtype(dtype))
        np.testing.assert_allclose(transposed.toarray(), step.T, rtol=tolerance)
        assert transposed.dtype == dtype
    back = engine.transposed.propagate(np.eye(len(step)), PPR(0.3, 4))
    np.testing.assert_allclose(back, forward.T, atol=1e-12)
    twice = engine.transposed.transposed.propagate(np.eye(len(step)), PPR(0.3, 4))
    np.testing.assert_allclose(twice, forward, atol=1e-12)
    # and the engine itself is left as it was
    np.testing.assert_array_equal(engine.propagate(np.eye(len(step)), PPR(0.3, 4)), forward)


def test_row_normalisation_alone_needs_an_engine_of_its_own_to_go_back():
    star = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    for kind in ("symmetric", "symmetric-no-loops"):
        assert engine_of(star, kind).transposed.is_symmetric
    engine = engine_of(star, "row")
    back = engine.transposed.propagate(np.eye(3), Power(1))
    np.testing.assert_array_equal(back, [[0, 1, 1], [0.5, 0, 0], [0.5, 0, 0]])


# --- with edges dropped -----------------------------------------------------------------------


def dropped_step_by_step(step, signal, scheme, random):
    """H <- c Â_k H + (1-c) S, dense, each Â_k drawn from the whole."""
    state = signal
    for c in scheme.mixing:
        left = torch.tensor(drop_entries(step, EDGE_DROPOUT, random).toarray())
        state = c * left @ state + (1 - c) * signal
    return state


@kinds
@schemes
@few
@given(adjacency=adjacencies(), seed=st.integers(0, 99))
def test_dropping_edges_is_the_recursion_with_what_is_left_of_them(kind, name, adjacency, seed):
    engine, scheme = engine_of(adjacency, kind), SCHEMES[name][0]
    signal, step = normal(len(adjacency), 2), engine.operator_in(np.dtype(np.float64))
    spread = Spread(engine, scheme, EDGE_DROPOUT)
    got = value_and_gradients(spread(signal, coins(seed)), signal)
    wanted = dropped_step_by_step(step, signal, scheme, coins(seed))
    all_close(got, value_and_gradients(wanted, signal), 1e-10)


COMPLETE = np.ones((30, 30)) - np.eye(30)


def test_edges_are_drawn_anew_in_each_step_and_always_from_the_whole(monkeypatch):
    drawn = []

    def watched(matrix, rate, random):
        assert matrix.nnz == 900
        drawn.append(drop_entries(matrix, rate, random))
        return drawn[-1]

    monkeypatch.setattr(proptrain.models.spread, "drop_entries", watched)
    random, spread = coins(), Spread(engine_of(COMPLETE), PPR(0.1, 5), EDGE_DROPOUT)
    for _ in range(2):
        spread(torch.ones(30, 1), random)
    patterns = {tuple(np.flatnonzero(matrix.toarray())) for matrix in drawn}
    assert len(patterns) == len(drawn) == 10
    deviation = np.sqrt(900 * EDGE_DROPOUT * (1 - EDGE_DROPOUT))
    assert all(abs(len(p) - 900 * (1 - EDGE_DROPOUT)) < 5 * deviation for p in patterns)


@kinds
def test_dropping_edges_is_right_on_average(kind):
    # Many copies of one graph side by side: a draw for each copy in one go.
    triangle_and_tail = np.array([[0, 1, 1, 0], [1, 0, 2, 0], [1, 2, 0, 1], [0, 0, 1, 0]])
    copies = 4000
    engine = engine_of(sp.kron(sp.eye_array(copies), triangle_and_tail), kind)
    signal = torch.eye(4, dtype=torch.float64).repeat(copies, 1)
    for name in ("ppr", "power"):
        scheme, closed_form = SCHEMES[name]
        spread = Spread(engine, scheme, EDGE_DROPOUT)(signal, coins(1)).view(copies, 4, 4)
        wanted = closed_form(reference.operator(triangle_and_tail, kind))
        error = np.abs(spread.mean(dim=0).numpy() - wanted)
        assert (error <= 5 * spread.std(dim=0).numpy() / np.sqrt(copies) + 1e-12).all()


def test_no_edge_is_dropped_without_a_rate_or_a_generator():
    engine, signal = engine_of(COMPLETE), normal(30, 2)
    wanted = Spread(engine, PPR())(signal)
    assert torch.equal(Spread(engine, PPR(), 0.5)(signal), wanted)
    assert torch.equal(Spread(engine, PPR(), 0.0)(signal, coins()), wanted)
    assert not torch.equal(Spread(engine, PPR(), 0.5)(signal, coins()), wanted)


# --- the architectures ------------------------------------------------------------------------


def two_layers(generator, bias=False, dropout=0.0):
    return Predictor(F, C, n_hidden=H, bias=bias, dropout=dropout, generator=generator)


NETWORKS = {
    "APPNP": lambda engine, g: Decoupled(two_layers(g), Spread(engine, PPR(ALPHA, 4))),
    "PPNP": lambda engine, g: Decoupled(two_layers(g), Spread(engine, Exact(ALPHA))),
    "SGCN": lambda engine, g: Decoupled(
        Linear(F, C, dropout=0.0, generator=g), Spread(engine, Power(2))
    ),
    "GCN": lambda engine, g: GCN(
        F, C, Spread(engine, Power(1)), n_hidden=H, dropout=0.0, generator=g
    ),
    "DAGNN": lambda engine, g: DAGNN(
        two_layers(g, bias=True), Spread(engine, Power(1)), 3, n_classes=C, generator=g
    ),
    "MLP": lambda _, g: two_layers(g, bias=True),
}
networks = pytest.mark.parametrize("name", NETWORKS)


def appnp(X, step, f):
    whole = reference.combine(step.numpy(), reference.ppr_coefficients(ALPHA, 4))
    return torch.tensor(whole) @ torch.relu(X @ f["f.weight1"]) @ f["f.weight2"]


def ppnp(X, step, f):
    whole = torch.tensor(reference.exact(step.numpy(), ALPHA))
    return whole @ torch.relu(X @ f["f.weight1"]) @ f["f.weight2"]


def sgcn(X, step, f):
    return step @ step @ X @ f["f.weight1"]


def gcn(X, step, f):
    return step @ torch.relu(step @ X @ f["weight1"] + f["bias1"]) @ f["weight2"] + f["bias2"]


def dagnn(X, step, f):
    hidden = torch.relu(X @ f["f.weight1"] + f["f.bias1"])
    powers = [hidden @ f["f.weight2"] + f["f.bias2"]]
    for _ in range(3):
        powers.append(step @ powers[-1])
    gates = [torch.sigmoid(power @ f["gate_weight"] + f["gate_bias"]) for power in powers]
    return sum(gate * power for gate, power in zip(gates, powers, strict=True))


def mlp(X, step, f):
    return torch.relu(X @ f["weight1"] + f["bias1"]) @ f["weight2"] + f["bias2"]


FORMULAS = {"APPNP": appnp, "PPNP": ppnp, "SGCN": sgcn, "GCN": gcn, "DAGNN": dagnn, "MLP": mlp}


def features_of(n, seed=0):
    random = np.random.default_rng(seed)
    return (random.standard_normal((n, F)) * (random.random((n, F)) < 0.6)).astype(np.float32)


@kinds
@networks
@few
@given(adjacency=adjacencies(), make=st.sampled_from([np.array, sp.csr_array]))
def test_scores_and_gradients_are_those_of_the_dense_formula(name, kind, adjacency, make):
    features = features_of(len(adjacency))
    network = NETWORKS[name](engine_of(adjacency, kind), drawn_weights())
    names, parameters = zip(*network.named_parameters(), strict=True)
    exact = [parameter.detach().double().requires_grad_() for parameter in parameters]
    wanted = FORMULAS[name](
        torch.tensor(features).double(),
        torch.tensor(reference.operator(adjacency, kind)),
        dict(zip(names, exact, strict=True)),
    )
    wanted = value_and_gradients(wanted, *exact)
    for mode in (network.eval(), network.train()):  # the same, as nothing is dropped
        scores = mode(FeatureMatrix(make(features)))
        all_close(value_and_gradients(scores, *parameters), wanted, 1e-4)
    assert not network.drops


@kinds
@networks
@few
@given(adjacency=adjacencies(), drawn=st.data())
def test_some_nodes_scores_are_the_same_from_what_these_nodes_need(name, kind, adjacency, drawn):
    n = len(adjacency)
    features = features_of(n)
    nodes = np.array(drawn.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True)))
    network = NETWORKS[name](engine_of(adjacency, kind), drawn_weights())
    parameters = list(network.parameters())
    narrow, needed = network.narrowed(nodes)
    scores = narrow(FeatureMatrix(features if needed is None else features[needed]))
    whole = network(FeatureMatrix(features))[torch.from_numpy(nodes)]
    got, wanted = (value_and_gradients(one, *parameters) for one in (scores, whole))
    all_close(got, wanted, 1e-5)


def test_a_gcn_needs_only_what_is_within_two_steps():
    path = np.diag(np.ones(9), 1) + np.diag(np.ones(9), -1)
    network = NETWORKS["GCN"](engine_of(path), drawn_weights())
    _, needed = network.narrowed(np.array([0, 6]))
    assert needed.tolist() == [0, 1, 2, 4, 5, 6, 7, 8]


@networks
def test_the_first_layer_is_the_one_that_reads_the_features(name):
    network = NETWORKS[name](engine_of(np.zeros((2, 2))), drawn_weights())
    assert network.first_layer.shape[0] == F
    assert any(network.first_layer is parameter for parameter in network.parameters())


def test_gcn_drops_features_and_hidden_units_and_nothing_else():
    path = np.diag(np.ones(6), 1) + np.diag(np.ones(6), -1)
    engine, features = engine_of(path), sp.csr_array(features_of(7))
    network = GCN(
        F, C, Spread(engine, Power(1)), n_hidden=H, dropout=0.5, generator=drawn_weights(3)
    )
    random = coins(3)
    left = torch.tensor(drop_entries(features, 0.5, random).toarray()).double()
    kept = torch.tensor(rectify(np.ones((7, H), np.float32), None, 0.5, random))
    step = torch.tensor(reference.operator(path, "symmetric"))
    f = {name: value.double() for name, value in network.state_dict().items()}
    hidden = torch.relu(step @ left @ f["weight1"] + f["bias1"]) * kept
    wanted = step @ hidden @ f["weight2"] + f["bias2"]
    scores = network.train()(FeatureMatrix(features)).detach()
    np.testing.assert_allclose(scores, wanted, rtol=1e-5, atol=1e-6)
    assert network.drops


def test_appnp_drops_features_hidden_units_and_edges_in_training_alone():
    features = sp.csr_array(features_of(30))
    spread = Spread(engine_of(COMPLETE), PPR(ALPHA, 4), EDGE_DROPOUT)
    network = Decoupled(two_layers(drawn_weights(3), dropout=0.5), spread)
    f = {name: value.double() for name, value in network.state_dict().items()}
    random = coins(3)
    left = torch.tensor(drop_entries(features, 0.5, random).toarray()).double()
    kept = torch.tensor(rectify(np.ones((30, H), np.float32), None, 0.5, random))
    scores = (torch.relu(left @ f["f.weight1"]) * kept) @ f["f.weight2"]
    step = spread.engine.operator_in(np.dtype(np.float64))
    wanted = dropped_step_by_step(step, scores, spread.scheme, random)
    got = network.train()(FeatureMatrix(features)).detach()
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)
    plain = appnp(torch.tensor(features.toarray()).double(), torch.tensor(step.toarray()), f)
    told = network.eval()(FeatureMatrix(features)).detach()
    np.testing.assert_allclose(told, plain, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_appnp_without_edges_trains_as_two_layers_without_bias(dropout):
    n, random = 20, np.random.default_rng(5)
    soft, stop_soft = random.random((2, n, C)).astype(np.float32)
    stop = StoppingNodes(np.arange(7), random.integers(0, C, 7), stop_soft)
    setting = TrainSettings(n_hidden=H, bias=False, dropout=dropout, max_epochs=15)
    spread = Spread(engine_of(np.zeros((n, n))), PPR(0.5, 4))  # halves add up without rounding

    def network(generator):
        return Decoupled(two_layers(generator, dropout=dropout), spread)

    features = sp.csr_array(features_of(n))
    plain = train_predictor(features, soft, stop, settings=setting)
    ours = train_predictor(features, soft, stop, settings=setting, network=network)
    assert ours.history == plain.history
    for name, weight in plain.weights.items():
        np.testing.assert_array_equal(ours.weights[f"f.{name}"], weight)


# --- the classifiers --------------------------------------------------------------------------


def small_world(seed=0, n=24):
    """Features, labels of which half are unknown, and a weighted adjacency matrix."""
    random = np.random.RandomState(seed)
    truth = np.arange(n) % C
    linked = random.rand(n, n) < np.where(truth[:, None] == truth, 0.4, 0.05)
    adjacency = np.triu(linked * random.choice([0.5, 1.0, 3.0], (n, n)), 1)
    adjacency[-1] = adjacency[:, -1] = 0  # one node apart
    y = np.where(np.arange(n) < n // 2, truth, -1)
    return features_of(n, seed), y, adjacency + adjacency.T


QUICK = {
    "n_hidden": H,
    "max_epochs": 12,
    "stopping_fraction": 0.5,
    "random_state": 0,
}
STEPS = {"APPNP": 4, "DAGNN": 3}


def fitted(architecture="APPNP", graph=True, **changes):
    features, y, adjacency = small_world()
    restart = {"alpha": ALPHA} if architecture in ("APPNP", "PPNP") else {}
    options = {**QUICK, **restart, "steps": STEPS.get(architecture), **changes}
    clf = GNNClassifier(architecture=architecture, **options)
    return clf.fit(features, y, graph=sp.csr_array(adjacency) if graph else None)


def scores_of(clf):
    """The scores of the fitted nodes, by the dense formula."""
    features, _, adjacency = small_world()
    step = torch.tensor(reference.operator(adjacency, clf.normalisation))
    weights = {name: torch.tensor(value).double() for name, value in clf.weights_.items()}
    return FORMULAS[clf.architecture](torch.tensor(features).double(), step, weights)


@networks
@pytest.mark.parametrize("kind", ["symmetric", "row"])
def test_fitted_networks_tell_by_their_formula(name, kind):
    clf = fitted(name, normalisation=kind)
    wanted = torch.softmax(scores_of(clf), dim=1)
    np.testing.assert_allclose(clf.label_distributions_, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(clf.transduction_, wanted.argmax(dim=1))
    assert clf.n_iter_ == 12


@networks
def test_the_loss_is_the_mean_cross_entropy_of_the_training_nodes(name):
    # a network that hardly moves: its weights are still those that the first loss is of
    clf = fitted(name, dropout=0.0, learning_rate=1e-12, weight_decay=0.1)
    _, y, _ = small_world()
    train = np.setdiff1d(np.flatnonzero(y >= 0), clf.stopping_)
    assert 0 < len(train) < (y >= 0).sum()
    loss = torch.nn.functional.cross_entropy(scores_of(clf)[train], torch.tensor(y[train]))
    first = clf.weights_["f.weight1" if "f.weight1" in clf.weights_ else "weight1"]
    wanted = float(loss) + 0.1 * (first.astype(np.float64) ** 2).sum() / 2
    np.testing.assert_allclose(clf.history_.train_loss, wanted, rtol=1e-5)


@pytest.mark.parametrize("name", ["APPNP", "PPNP"])
def test_without_the_ensemble_nodes_are_told_by_f_but_trained_with_the_graph(name):
    features, _, _ = small_world()
    clf, whole = (fitted(name, ensemble=ensemble, dropout=0.0) for ensemble in (False, True))
    alone = fitted(name, ensemble=False, dropout=0.0, graph=False)
    f = predict_probabilities({k.removeprefix("f."): v for k, v in clf.weights_.items()}, features)
    np.testing.assert_allclose(clf.label_distributions_, f, rtol=1e-5)
    np.testing.assert_allclose(clf.history_.train_loss, whole.history_.train_loss, rtol=1e-4)
    assert not np.allclose(clf.label_distributions_, whole.label_distributions_, atol=1e-2)
    assert not np.allclose(clf.history_.train_loss, alone.history_.train_loss, rtol=1e-2)


def test_ppnp_is_appnp_of_many_steps():
    exact, many = fitted("PPNP"), fitted("APPNP", steps=100)
    np.testing.assert_allclose(
        many.label_distributions_, exact.label_distributions_, rtol=1e-3, atol=1e-4
    )
    few_steps = fitted("APPNP", steps=1).label_distributions_
    assert not np.allclose(few_steps, exact.label_distributions_, atol=1e-2)


@kinds
@pytest.mark.parametrize("steps", [0, 1, 6])
def test_correct_and_smooth_is_the_oracle_step_by_step(kind, steps):
    features, y, adjacency = small_world()
    clf = CorrectAndSmoothClassifier(steps=steps, normalisation=kind, alpha=ALPHA, **QUICK)
    clf.fit(features, y, graph=sp.csr_array(adjacency))
    f = predict_probabilities(clf.weights_, features)
    train = np.setdiff1d(np.flatnonzero(y >= 0), clf.stopping_)
    step = reference.operator(adjacency, kind)
    wanted = reference.correct_and_smooth(step, f, y, train, ALPHA, steps)
    np.testing.assert_allclose(clf.label_distributions_, wanted, rtol=1e-5, atol=1e-6)
    if steps == 0:  # nothing moves: the labels put in are told as they are
        np.testing.assert_array_equal(wanted[train], np.eye(C)[y[train]])


@kinds
def test_correct_and_smooth_without_edges_leaves_what_the_network_tells(kind):
    features, y, _ = small_world()
    clf = CorrectAndSmoothClassifier(normalisation=kind, alpha=ALPHA, **QUICK).fit(features, y)
    f = predict_probabilities(clf.weights_, features).astype(np.float64)
    train = np.setdiff1d(np.flatnonzero(y >= 0), clf.stopping_)
    others = np.setdiff1d(np.arange(len(y)), train)  # stopping nodes among them
    f /= f.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(clf.label_distributions_[others], f[others], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(clf.label_distributions_[train], np.eye(C)[y[train]], atol=1e-6)


def test_a_stopping_nodes_label_is_not_put_in():
    features, y, adjacency = small_world()
    stopping = np.array([0, 1])
    told = []
    for first in (0, 1):  # nothing is learned, so a label could only come in by being put in
        y = y.copy()
        y[0] = first
        clf = CorrectAndSmoothClassifier(alpha=ALPHA, **QUICK, learning_rate=1e-20)
        clf.fit(features, y, graph=sp.csr_array(adjacency), stopping=stopping)
        told.append(clf.label_distributions_)
    np.testing.assert_allclose(told[0], told[1], rtol=1e-5, atol=1e-6)
