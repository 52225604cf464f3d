"""What the paper proves, each statement as a test, on small random graphs in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from proptrain.data.graph import Graph
from proptrain.ensemble.predictions import ensemble_predictions
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.labels import one_hot, propagate_labels
from proptrain.propagate.schemes import PPR, Heat, Mean, coefficients
from proptrain.train.loop import TrainSettings, train_predictor
from proptrain.train.loss import soft_label_loss
from proptrain.train.predictor import Predictor
from proptrain.train.stopping import StoppingNodes
from proptrain.train.weighting import Adaptive, Constant, dynamic, static
from strategies import adjacencies, labellings

modest = settings(max_examples=40, derandomize=True, deadline=None)
SCHEMES = [PPR(0.1, 10), PPR(0.4, 2), Mean(3), Heat(2.0, 6)]


class Example:
    """A graph, labels, features and a small float64 network: everything the proofs speak of."""

    def __init__(self, adjacency, labelling, seed, scheme):
        self.labels, self.known, self.n_classes = labelling
        self.engine = LocalEngine(Graph(sp.csr_array(adjacency)), "symmetric")
        self.scheme = scheme
        n = len(adjacency)
        self.propagation = self.engine.propagate(np.eye(n), scheme)  # Ā
        self.start = one_hot(self.labels, self.known, self.n_classes).astype(np.float64)
        self.soft_labels = self.engine.propagate(self.start, scheme)  # unclamped: Ā Y0
        random = np.random.RandomState(seed)
        self.features = torch.tensor(random.standard_normal((n, 3)))
        shapes = [(3, 4), (4,), (4, self.n_classes), (self.n_classes,)]
        self.weights = [
            torch.tensor(random.standard_normal(shape), requires_grad=True) for shape in shapes
        ]

    def log_f(self):
        weight1, bias1, weight2, bias2 = self.weights
        hidden = torch.relu(self.features @ weight1 + bias1)
        return torch.log_softmax(hidden @ weight2 + bias2, dim=1)

    @property
    def f(self):
        return self.log_f().exp().detach().numpy()

    def gradients(self, loss_of):
        """The gradients, with respect to all weights, of a loss of log f."""
        return torch.autograd.grad(loss_of(self.log_f()), self.weights)

    def decoupled_gcn_loss(self, log_f, propagation=None):
        """-Σ_j Σ_k y_jk log Σ_i a_ji f_ik (section 3.2)."""
        propagation = self.propagation if propagation is None else propagation
        mixed = torch.tensor(propagation) @ log_f.exp()
        return -(mixed[self.known, self.labels[self.known]]).log().sum()

    def pair_loss(self, log_f, pair_weights):
        """Σ_i Σ_j w_ij CE(f_i, y_j), the weights constant."""
        total = log_f.new_zeros(())
        for i in range(len(log_f)):
            for j in self.known:
                total = total - pair_weights[i, j] * log_f[i, self.labels[j]]
        return total


examples = adjacencies(max_nodes=6).flatmap(
    lambda adjacency: st.builds(
        Example,
        st.just(adjacency),
        labellings(len(adjacency)),
        st.integers(0, 1000),
        st.sampled_from(SCHEMES),
    )
)


def fixed_example(scheme=SCHEMES[0], seed=0):
    """Two triangles joined by an edge and a node apart; three labelled nodes, two classes."""
    adjacency = np.zeros((7, 7))
    for i, j in [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)]:
        adjacency[i, j] = adjacency[j, i] = 1
    labelling = np.array([0, 0, 0, 1, 1, 1, 0]), np.array([0, 4, 5]), 2
    return Example(adjacency, labelling, seed, scheme)


def same_gradients(one, other):
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def any_larger(gradients, bound=1e-3):
    return any(gradient.abs().max() > bound for gradient in gradients)


# --- appendix A -------------------------------------------------------------------------------


@modest
@given(
    adjacencies(max_nodes=6),
    st.sampled_from(reference.KINDS),
    st.floats(0.01, 1),
    st.integers(0, 12),
    st.integers(0, 1000),
)
def test_appendix_a_the_recursion_is_propagation_with_closed_coefficients(
    adjacency, kind, alpha, steps, seed
):
    f = np.random.RandomState(seed).dirichlet(np.ones(3), len(adjacency))
    step = reference.operator(adjacency, kind)
    recursion = reference.appnp(step, f, alpha, steps)
    closed = reference.combine(step, reference.ppr_coefficients(alpha, steps)) @ f
    by_coefficients = reference.combine(step, coefficients(PPR(alpha, steps))) @ f
    got = ensemble_predictions(
        f, LocalEngine(Graph(sp.csr_array(adjacency)), kind), PPR(alpha, steps)
    )
    for other in (closed, by_coefficients, got):
        np.testing.assert_allclose(other, recursion, rtol=1e-11, atol=1e-13)


# --- appendix B -------------------------------------------------------------------------------


@modest
@given(examples)
def test_appendix_b_softmax_inside_f_changes_the_loss_by_a_constant(example):
    totals = example.propagation.sum(axis=1)
    normalised = example.propagation / totals[:, None]
    np.testing.assert_allclose((normalised @ example.f).sum(axis=1), 1, rtol=1e-12)
    plain = example.decoupled_gcn_loss(example.log_f())
    as_distributions = example.decoupled_gcn_loss(example.log_f(), normalised)
    constant = -np.log(totals[example.known]).sum()
    assert math.isclose(plain.item(), as_distributions.item() + constant, abs_tol=1e-10)
    same_gradients(
        example.gradients(example.decoupled_gcn_loss),
        example.gradients(lambda log_f: example.decoupled_gcn_loss(log_f, normalised)),
    )


# --- lemma 1 ----------------------------------------------------------------------------------


@modest
@given(examples)
def test_lemma_1_a_decoupled_gcn_is_trained_as_pt_with_its_weights(example):
    weights = reference.decoupled_gcn_weights(
        example.propagation, example.f, example.labels, example.known
    )
    same_gradients(
        example.gradients(example.decoupled_gcn_loss),
        example.gradients(lambda log_f: example.pair_loss(log_f, weights)),
    )


@modest
@given(examples)
def test_lemma_1_in_this_packages_parts(example):
    # Σ_j a_ji y_jk / s_j is the propagation of the labels, each divided by its s_j.
    shares = (example.propagation @ example.f * example.start).sum(axis=1, keepdims=True)
    divided = np.divide(example.start, shares, out=np.zeros_like(example.start), where=shares > 0)
    targets = torch.tensor(example.engine.propagate(divided, example.scheme))
    same_gradients(
        example.gradients(example.decoupled_gcn_loss),
        example.gradients(
            lambda log_f: soft_label_loss(log_f, targets, dynamic(log_f.detach().exp(), 0))
        ),
    )


def test_lemma_1_needs_unclamped_labels():
    example = fixed_example()
    shares = (example.propagation @ example.f * example.start).sum(axis=1, keepdims=True)
    divided = np.divide(example.start, shares, out=np.zeros_like(example.start), where=shares > 0)
    clamped = torch.tensor(example.engine.propagate(divided, example.scheme, fixed=example.known))
    wanted = example.gradients(example.decoupled_gcn_loss)
    got = example.gradients(
        lambda log_f: soft_label_loss(log_f, clamped, dynamic(log_f.detach().exp(), 0))
    )
    assert any_larger([a - b for a, b in zip(got, wanted, strict=True)])


# --- appendix C -------------------------------------------------------------------------------


@modest
@given(examples, st.sampled_from([0.0, 0.3, 1.0, 3.04]))
def test_appendix_c_the_double_sum_is_the_matrix_form(example, gamma):
    weights = reference.pta_weights(
        example.propagation, example.f, example.labels, example.known, gamma
    )
    double_sum = reference.pair_loss(weights, example.f, example.labels, example.known)
    by_matrix = reference.matrix_loss(example.soft_labels, example.f, gamma)
    soft_labels = torch.tensor(example.soft_labels)

    def loss(log_f):
        return soft_label_loss(log_f, soft_labels, Constant(gamma)(log_f.detach().exp(), 0))

    assert math.isclose(by_matrix, double_sum, rel_tol=1e-10, abs_tol=1e-12)
    assert math.isclose(loss(example.log_f()).item(), double_sum, rel_tol=1e-10, abs_tol=1e-12)
    same_gradients(
        example.gradients(loss), example.gradients(lambda log_f: example.pair_loss(log_f, weights))
    )


def test_appendix_d_unclamped_label_propagation_is_the_propagation_of_one_hot_labels():
    example = fixed_example()
    got = propagate_labels(
        example.labels, example.known, 2, example.engine, example.scheme, clamp=False
    )
    np.testing.assert_allclose(got, example.propagation @ example.start, rtol=1e-6, atol=1e-7)
    clamped = propagate_labels(example.labels, example.known, 2, example.engine, example.scheme)
    np.testing.assert_array_equal(clamped[example.known], example.start[example.known])
    assert np.abs(clamped - got).max() > 0.01


# --- W2 ---------------------------------------------------------------------------------------


@modest
@given(examples)
def test_w2_every_label_counts_alike_in_a_decoupled_gcn(example):
    weights = reference.decoupled_gcn_weights(
        example.propagation, example.f, example.labels, example.known
    )
    np.testing.assert_allclose(weights[:, example.known].sum(axis=0), 1, rtol=1e-12)


@pytest.mark.parametrize("weighting", [dynamic, Adaptive()], ids=["PTD", "PTA"])
@pytest.mark.parametrize("seed", range(3))
def test_w2_labels_count_differently_in_ptd_and_pta(weighting, seed):
    example = fixed_example(seed=seed)
    # w_ij = a_ji · (weighting of f)_i,h(j), with the package's own weighting in epoch 50
    of_f = weighting(torch.tensor(example.f), 50).numpy()
    sums = [float(example.propagation[j] @ of_f[:, example.labels[j]]) for j in example.known]
    assert min(abs(total - 1) for total in sums) > 0.01
    assert max(sums) - min(sums) > 0.01
    # … namely by S_j = Σ_i a_ji f_i,h(j)^gamma (section 4)
    weights = reference.pta_weights(
        example.propagation, example.f, example.labels, example.known, weighting.gamma(50)
    )
    np.testing.assert_allclose(sums, weights[:, example.known].sum(axis=0), rtol=1e-10)


# --- the family of weightings -----------------------------------------------------------------


def small_problem(kind="symmetric", adjacency=None, read_out=None):
    """Float32 features and labels of 12 nodes for train_predictor; 4 of them are labelled."""
    random = np.random.RandomState(5)
    adjacency = np.zeros((12, 12)) if adjacency is None else adjacency
    engine = LocalEngine(Graph(sp.csr_array(adjacency)), kind)
    labels, known = np.arange(12) % 3, np.array([0, 4, 5, 9])
    stop = np.array([1, 2, 3])
    soft, stop_soft = (
        propagate_labels(labels, nodes, 3, engine, PPR(0.1, 10)) for nodes in (known, stop)
    )
    features = random.standard_normal((12, 6)).astype(np.float32)
    return features, soft, StoppingNodes(stop, labels[stop], stop_soft, read_out), labels, known


@modest
@given(examples)
def test_pta_at_epoch_0_is_pts(example):
    f = torch.tensor(example.f)
    torch.testing.assert_close(Adaptive()(f, 0), static(f, 0), rtol=0, atol=0)
    soft_labels = torch.tensor(example.soft_labels)
    one, other = (
        example.gradients(
            lambda log_f, w=w: soft_label_loss(log_f, soft_labels, w(log_f.detach().exp(), 0))
        )
        for w in (Adaptive(), static)
    )
    same_gradients(one, other)


def test_the_first_epoch_of_pta_is_that_of_pts_and_the_later_ones_are_not():
    random = np.random.RandomState(0)
    adjacency = np.triu(random.rand(12, 12) < 0.3, 1).astype(float)
    features, soft, stop, _, _ = small_problem(adjacency=adjacency + adjacency.T)
    first, later = TrainSettings(max_epochs=1), TrainSettings(max_epochs=3)
    pta, pts = (
        train_predictor(features, soft, stop, weighting=w, settings=first)
        for w in (Adaptive(), static)
    )
    for name in pta.weights:
        np.testing.assert_array_equal(pta.weights[name], pts.weights[name])
    assert pta.history == pts.history
    pta, pts = (
        train_predictor(features, soft, stop, weighting=w, settings=later)
        for w in (Adaptive(), static)
    )
    assert pta.history.train_loss[1] != pts.history.train_loss[1]


@modest
@given(examples, st.sampled_from([0.05, 0.5, 1.0, 2.0, 3.04]))
def test_the_weighted_loss_descends_generalised_cross_entropy(example, gamma):
    soft_labels = torch.tensor(example.soft_labels)
    watched = example.gradients(
        lambda log_f: (soft_labels * (1 - log_f.exp() ** gamma) / gamma).sum()
    )
    trained = example.gradients(
        lambda log_f: soft_label_loss(log_f, soft_labels, Constant(gamma)(log_f.detach().exp(), 0))
    )
    same_gradients(trained, watched)


# --- no edges ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", reference.KINDS)
def test_without_edges_pts_is_a_network_trained_on_the_labelled_nodes_alone(kind):
    seen = []

    def remember(f):
        seen.append(f.copy())
        return f

    features, soft, stop, labels, known = small_problem(kind, read_out=remember)
    np.testing.assert_array_equal(soft, one_hot(labels, known, 3))
    initial = Predictor(6, 3, n_hidden=8, generator=torch.Generator().manual_seed(1)).state_dict()
    initial = {name: value.numpy().copy() for name, value in initial.items()}
    trained = train_predictor(
        features,
        soft,
        stop,
        weighting=static,
        settings=TrainSettings(
            n_hidden=8, learning_rate=0.05, loss_weight=1.0, weight_decay=0.0, max_epochs=30
        ),
        initial_weights=initial,
    )

    names = ("weight1", "bias1", "weight2", "bias2")
    weights = [torch.tensor(initial[name], requires_grad=True) for name in names]
    optimiser = torch.optim.Adam(weights, lr=0.05)

    def scores(rows):
        weight1, bias1, weight2, bias2 = weights
        hidden = torch.relu(torch.from_numpy(features[rows]) @ weight1 + bias1)
        return hidden @ weight2 + bias2

    assert len(seen) == 30
    for epoch in range(30):
        loss = torch.nn.functional.cross_entropy(
            scores(known), torch.tensor(labels[known]), reduction="sum"
        )
        loss = loss / 3
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        assert math.isclose(trained.history.train_loss[epoch], loss.item(), rel_tol=1e-3)
        wanted = torch.softmax(scores(np.arange(12)), dim=1).detach().numpy()
        np.testing.assert_allclose(seen[epoch], wanted, rtol=1e-3, atol=1e-5)
