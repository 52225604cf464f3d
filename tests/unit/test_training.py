"""Step 2, part by part: products, predictor, weightings, loss, stopping, the loop, the arrows."""

from __future__ import annotations

import ast
import math
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import proptrain
import reference
from processes import HANGS
from proptrain.errors import InvalidInputError, TrainingError
from proptrain.kernels import active_gradients, dropout_scale, keeping, rectify
from proptrain.kernels.adam import adam_step
from proptrain.kernels.keeping import KeptMemory
from proptrain.kernels.transposed import transposed_parts
from proptrain.models.networks import Chosen
from proptrain.train import products
from proptrain.train.adam import Adam
from proptrain.train.loop import TrainSettings, predict_probabilities, train_predictor
from proptrain.train.loss import soft_label_loss
from proptrain.train.predictor import Predictor
from proptrain.train.products import (
    FeatureMatrix,
    class_probabilities,
    rectified,
    tall_product,
)
from proptrain.train.stopping import EarlyStopping, StoppingNodes
from proptrain.train.weighting import Adaptive, Constant, dynamic, gamma_of, static
from strategies import stopping_curves

N, F, C = 30, 12, 3


def features_of(seed=0, n=N, f=F):
    random = np.random.RandomState(seed)
    return (random.rand(n, f) * (random.rand(n, f) < 0.4)).astype(np.float32)


def problem(seed=0, read_out=None, n=N):
    """Features, soft labels and stopping nodes of a small problem; some rows have no soft label."""
    random = np.random.RandomState(seed)
    soft, stop_soft = random.rand(2, n, C).astype(np.float32)
    soft[::5] = 0
    nodes = np.arange(0, n, 3)
    codes = random.randint(0, C, len(nodes))
    return features_of(seed, n), soft, StoppingNodes(nodes, codes, stop_soft, read_out)


def predictor(seed=0, **changes):
    return Predictor(F, C, **changes, generator=torch.Generator().manual_seed(seed))


def coins(seed):
    """The generator that a network with this seed drops by."""
    return np.random.Generator(np.random.SFC64(seed))


def arrays(model):
    return {name: value.numpy().copy() for name, value in model.state_dict().items()}


def same_weights(one, other):
    assert one.keys() == other.keys()
    return all(np.array_equal(one[name], other[name]) for name in one)


# --- products ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.array, sp.csr_array, sp.csc_array])
def test_features_multiply_and_differentiate_as_in_dense_autograd(make):
    features = features_of()
    upstream = torch.randn(N, 5, generator=torch.Generator().manual_seed(1))
    weight = torch.randn(F, 5, generator=torch.Generator().manual_seed(2), requires_grad=True)
    product = FeatureMatrix(make(features)) @ weight
    (product * upstream).sum().backward()
    got, weight.grad = weight.grad.clone(), None
    wanted = torch.from_numpy(features) @ weight
    (wanted * upstream).sum().backward()
    torch.testing.assert_close(product, wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(got, weight.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_read_only_features_will_do(make):
    features = make(features_of())
    for array in (features,) if make is np.array else (features.data, features.indices):
        array.flags.writeable = False
    identity = FeatureMatrix(features) @ torch.eye(F)
    np.testing.assert_array_equal(identity.numpy(), features_of())


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
def test_dropped_features_are_zero_or_scaled_up(make, rate):
    features = features_of(n=300) + np.float32(0.5) * (features_of(n=300) > 0)
    matrix = FeatureMatrix(make(features))
    dropped = (matrix.dropped(rate, coins(0)) @ torch.eye(F)).numpy()
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept], features[kept] / (1 - rate), rtol=1e-4)
    stored = np.count_nonzero(features)
    assert abs(kept.sum() / stored - (1 - rate)) < 4 * math.sqrt(rate * (1 - rate) / stored)
    np.testing.assert_array_equal((matrix @ torch.eye(F)).numpy(), features)  # not in place


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), requires_grad=True)


def assert_same_gradients(ours, plain, *inputs):
    """Both functions of the inputs have the same value and, weighed at random, gradients."""
    results, gradients = [], []
    for function in (ours, plain):
        results.append(function(*inputs))
        upstream = normal(*results[0].shape, seed=99).detach()
        gradients.append(torch.autograd.grad((results[-1] * upstream).sum(), inputs))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)
    for got, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_dropped_features_differentiate_as_what_is_left_of_them(make):
    matrix = FeatureMatrix(make(features_of()))
    left = matrix.dropped(0.5, coins(3)) @ torch.eye(F)
    assert 0 < left.count_nonzero() < np.count_nonzero(features_of())
    assert_same_gradients(
        lambda weight: matrix.dropped(0.5, coins(3)) @ weight,
        lambda weight: left @ weight,
        normal(F, 5),
    )


def test_tall_product_differentiates_both_sides():
    assert_same_gradients(tall_product, torch.matmul, normal(N, 5, seed=1), normal(5, C, seed=2))


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("with_bias", [True, False])
def test_rectified_differentiates_as_relu_and_what_is_left_of_it(rate, with_bias):
    kept = torch.from_numpy(rectify(np.ones((N, 7), np.float32), None, rate, coins(3))) > 0
    assert kept.all() == (rate == 0)
    assert_same_gradients(
        lambda hidden, *bias: rectified(hidden, bias[0] if bias else None, rate, coins(3)),
        lambda hidden, *bias: torch.relu(hidden + sum(bias)) * kept * dropout_scale(rate),
        *[normal(N, 7, seed=1), normal(7, seed=2)][: 1 + with_bias],
    )


@pytest.mark.parametrize("size", [1, 50])
@pytest.mark.parametrize("n_classes", [1, 2, C])
def test_class_probabilities_differentiate_as_log_softmax(n_classes, size):
    assert_same_gradients(
        lambda scores: class_probabilities(scores * size)[0],
        lambda scores: torch.log_softmax(scores * size, dim=1),
        normal(N, n_classes),
    )
    log_f, f = class_probabilities(normal(N, n_classes))
    torch.testing.assert_close(f, log_f.exp())
    assert not f.requires_grad  # weights made of it are constants


# --- predictor --------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_forward_is_the_papers_network(make):
    model = predictor(3)
    weights = arrays(model)
    wanted = reference.network(features_of(), *(weights[k] for k in PARTS))
    got = model(FeatureMatrix(make(features_of()))).detach().softmax(dim=1)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose(
        predict_probabilities(weights, make(features_of())), wanted, rtol=1e-5
    )


PARTS = ("weight1", "bias1", "weight2", "bias2")


def test_without_bias_there_is_none():
    model = predictor(3, bias=False)
    weights = arrays(model)
    assert set(weights) == {"weight1", "weight2"}
    wanted = reference.network(
        features_of(), weights["weight1"], np.zeros(64), weights["weight2"], np.zeros(C)
    )
    np.testing.assert_allclose(predict_probabilities(weights, features_of()), wanted, rtol=1e-5)


def dense_log_f(features, weight1, bias1, weight2, bias2):
    hidden = torch.relu(torch.from_numpy(features) @ weight1 + bias1)
    return torch.log_softmax(hidden @ weight2 + bias2, dim=1)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_gradients_are_those_of_dense_autograd(make):
    model, (_, soft, _) = predictor(4), problem()
    log_f = model(FeatureMatrix(make(features_of()))).log_softmax(dim=1)
    soft_label_loss(log_f, torch.tensor(soft)).backward()
    plain = [getattr(model, name).detach().clone().requires_grad_() for name in PARTS]
    soft_label_loss(dense_log_f(features_of(), *plain), torch.tensor(soft)).backward()
    for name, parameter in zip(PARTS, plain, strict=True):
        got = getattr(model, name).grad
        torch.testing.assert_close(got, parameter.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_gradients_with_dropout_are_those_of_what_is_left(make):
    model, matrix, rate = predictor(4, dropout=0.4), FeatureMatrix(make(features_of())), 0.4
    random = coins(4)
    left = matrix.dropped(rate, random) @ torch.eye(F)
    kept = torch.from_numpy(rectify(np.ones((N, 64), np.float32), None, rate, random))

    def plain(weight1, bias1, weight2, bias2):
        return (torch.relu(left @ weight1 + bias1) * kept) @ weight2 + bias2

    def ours(*_):
        return model.train()(matrix)

    assert_same_gradients(ours, plain, *(getattr(model, name) for name in PARTS))


def test_initial_weights_fill_their_bounds_and_no_more():
    weights = arrays(Predictor(900, 400, n_hidden=250, generator=torch.Generator().manual_seed(0)))
    # Kaiming uniform, mode fan_out, a = sqrt 5 on an (in, out) matrix: 1/sqrt(in)
    bounds = {"weight1": 900, "bias1": 250, "weight2": 250, "bias2": 400}
    for name, size in bounds.items():
        largest = np.abs(weights[name]).max() * math.sqrt(size)
        assert 0.95 < largest <= 1, name
        assert abs(weights[name].mean()) * math.sqrt(size) < 0.15, name


def test_initial_weights_have_the_bound_of_torchs_own_initialisation():
    weight = torch.empty(50, 20)
    gain = torch.nn.init.calculate_gain("leaky_relu", math.sqrt(5))
    # mode fan_out of a matrix that torch reads as (out, in)
    _, fan_out = torch.nn.init._calculate_fan_in_and_fan_out(weight)
    bound = gain * math.sqrt(3 / fan_out)
    model = Predictor(50, 2, n_hidden=20, generator=torch.Generator().manual_seed(0))
    largest = model.weight1.detach().abs().max().item()
    assert 0.98 * bound < largest <= bound


def test_the_seed_alone_decides_the_initial_weights():
    torch.manual_seed(1)
    first = arrays(predictor(5))
    torch.manual_seed(2)
    assert same_weights(first, arrays(predictor(5)))
    assert not same_weights(first, arrays(predictor(6)))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_seed_alone_decides_a_training_run_and_global_randomness_is_untouched(dropout):
    features, soft, stop = problem()
    setting = TrainSettings(max_epochs=6, dropout=dropout)
    torch.manual_seed(3)
    np.random.seed(3)
    states = torch.get_rng_state(), np.random.get_state()
    one = train_predictor(sp.csr_array(features), soft, stop, settings=setting, seed=8)
    assert torch.equal(states[0], torch.get_rng_state())
    np.testing.assert_array_equal(states[1][1], np.random.get_state()[1])
    assert states[1][2:] == np.random.get_state()[2:]
    torch.manual_seed(4)
    np.random.seed(4)
    two = train_predictor(sp.csr_array(features), soft, stop, settings=setting, seed=8)
    other = train_predictor(sp.csr_array(features), soft, stop, settings=setting, seed=9)
    assert one.history == two.history
    assert same_weights(one.weights, two.weights)
    assert one.history.train_loss != other.history.train_loss


@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_hidden_units_are_dropped_whole_and_scaled_up(rate):
    size, value = 400, 0.75
    model = Predictor(
        1, size, n_hidden=size, dropout=rate, generator=torch.Generator().manual_seed(0)
    )
    with torch.no_grad():  # hidden = value everywhere, whatever happens to the features
        model.weight1.zero_()
        model.bias1.fill_(value)
        model.weight2.copy_(torch.eye(size))
        model.bias2.zero_()
    log_f = model.train()(FeatureMatrix(np.ones((5, 1), np.float32))).detach()
    scores = log_f - log_f.min(dim=1, keepdim=True).values  # dropped units score 0
    kept = scores > value / 2
    torch.testing.assert_close(
        scores[kept], torch.full_like(scores[kept], value / (1 - rate)), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(scores[~kept], torch.zeros_like(scores[~kept]), rtol=0, atol=1e-5)
    assert abs(kept.float().mean().item() - (1 - rate)) < 0.05
    assert len({tuple(row.tolist()) for row in kept}) == 5  # a new draw for each node


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_dropout_is_for_training_only(make):
    matrix = FeatureMatrix(make(features_of()))
    plain, dropping = predictor(1), predictor(1, dropout=0.5)
    wanted = plain(matrix)
    assert not torch.equal(dropping.train()(matrix), wanted)
    assert not torch.equal(dropping(matrix), dropping(matrix))
    torch.testing.assert_close(dropping.eval()(matrix), wanted, rtol=0, atol=0)
    torch.testing.assert_close(plain.train()(matrix), wanted, rtol=0, atol=0)


# --- weighting and loss -----------------------------------------------------------------------


def test_weightings_are_powers_of_the_confidence():
    f = torch.tensor([[0.25, 0.75], [1.0, 0.0]])
    for epoch in (0, 1, 500):
        torch.testing.assert_close(static(f, epoch), torch.ones(2, 2))
        torch.testing.assert_close(dynamic(f, epoch), f)
        torch.testing.assert_close(Constant(0.5)(f, epoch), f.sqrt())
        gamma = math.log(1 + epoch / 100)
        torch.testing.assert_close(Adaptive()(f, epoch), f**gamma)
    torch.testing.assert_close(Adaptive(epsilon=10)(f, 20), f ** math.log(3))


def test_gamma_is_the_notes():
    assert (gamma_of(static, 9), gamma_of(dynamic, 9), gamma_of(Constant(0.3), 9)) == (0, 1, 0.3)
    assert gamma_of(Adaptive(), 0) == 0
    assert gamma_of(Adaptive(), 171) < 1 < gamma_of(Adaptive(), 172)
    assert round(gamma_of(Adaptive(), 2000), 2) == 3.04
    assert math.isnan(gamma_of(lambda f, epoch: f, 0))


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan])
def test_epsilon_must_be_positive(epsilon):
    with pytest.raises(InvalidInputError, match=f"epsilon must be a positive.*got {epsilon}"):
        Adaptive(epsilon)


@pytest.mark.parametrize("gamma", [None, 0.0, 0.5, 1.0, 3.0])
def test_loss_is_the_papers_matrix_form(gamma):
    random = np.random.RandomState(0)
    soft, f = random.rand(6, C), random.dirichlet(np.ones(C), 6)
    weights = None if gamma is None else torch.tensor(f) ** gamma
    got = soft_label_loss(torch.tensor(f).log(), torch.tensor(soft), weights)
    assert math.isclose(float(got), reference.matrix_loss(soft, f, gamma or 0), rel_tol=1e-12)


def test_weights_are_constants_to_the_gradient():
    scores = torch.randn(4, C, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    soft = torch.rand(4, C, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    scores.requires_grad_()
    log_f = torch.log_softmax(scores, dim=1)
    soft_label_loss(log_f, soft, log_f.exp()).backward()  # weights not detached by the caller
    f, weighted = log_f.exp().detach(), soft * log_f.exp().detach()
    wanted = f * weighted.sum(dim=1, keepdim=True) - weighted
    torch.testing.assert_close(scores.grad, wanted)


# --- early stopping ---------------------------------------------------------------------------


class Counter(torch.nn.Module):
    """A model whose only weight is the epoch it was last told."""

    def __init__(self):
        super().__init__()
        self.epoch = torch.nn.Parameter(torch.tensor(-1.0))

    def become(self, epoch):
        with torch.no_grad():
            self.epoch.fill_(epoch)  # in place, as an optimiser does


def run_stopping(accuracies, losses, patience):
    stopping, model = EarlyStopping(patience), Counter()
    for epoch, (accuracy, loss) in enumerate(zip(accuracies, losses, strict=True)):
        model.become(epoch)
        if stopping.is_over(epoch, accuracy, loss, model):
            break
    stopping.restore(model)
    return stopping.best_epoch, epoch, int(model.epoch.item())


@settings(max_examples=400, derandomize=True, deadline=None)
@given(stopping_curves(), st.integers(1, 6))
def test_early_stopping_follows_the_rule(curves, patience):
    kept, last = reference.early_stopping(*curves, patience)
    assert run_stopping(*curves, patience) == (kept, last, kept)


@pytest.mark.parametrize(
    ("accuracies", "losses", "patience", "kept", "last"),
    [
        ([0.5, 0.5, 0.5], [1, 1, 1], 1, 0, 2),  # equal renews; the first of equals is kept
        ([0.5, 0.5, 0.5], [1, 3, 2], 1, 0, 2),
        ([0.5, 0.5, 0.4], [3, 2, 1], 9, 1, 2),  # ties by lower loss, never below best accuracy
        ([0.5, 0.4, 0.4, 0.9], [1, 2, 2, 0], 2, 0, 2),  # patience runs out before the best
        ([0.5, 0.4, 0.3, 0.9], [1, 0.9, 0.9, 2], 1, 3, 3),  # an equal loss renews
        ([0.5, 0.6, 0.6], [1, 5, 4], 9, 2, 2),  # the loss to beat is that of the kept weights
    ],
)
def test_early_stopping_by_hand(accuracies, losses, patience, kept, last):
    assert run_stopping(accuracies, losses, patience) == (kept, last, kept)


def test_best_weights_are_copied_both_ways():
    stopping, model = EarlyStopping(10), Counter()
    model.become(7)
    stopping.is_over(0, 0.9, 1.0, model)
    model.become(8)
    stopping.restore(model)
    assert model.epoch.item() == 7
    model.become(9)
    stopping.restore(model)
    assert model.epoch.item() == 7


def test_stopping_accuracy_reads_f_or_what_read_out_makes_of_it():
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], dtype=np.float32)
    nodes, codes, soft = np.array([0, 2]), np.array([0, 1]), np.zeros((3, 2), np.float32)
    assert StoppingNodes(nodes, codes, soft).accuracy(probabilities) == 0.5
    upside_down = StoppingNodes(nodes, codes, soft, lambda f: f[::-1][:, ::-1])
    assert upside_down.accuracy(probabilities) == 0.5
    swapped = StoppingNodes(nodes, codes, soft, lambda f: f * [0.2, 1])
    assert swapped.accuracy(probabilities) == 1.0


# --- the loop ---------------------------------------------------------------------------------


def plain_training(features, soft, stop, gammas, setting, initial):
    """The loop again, dense and with torch alone: the losses and f after each step."""
    weights = [torch.tensor(initial[name], requires_grad=True) for name in PARTS]
    optimiser = torch.optim.Adam(weights, lr=setting.learning_rate)
    scale = setting.loss_weight / soft.shape[1]
    losses, stop_losses, predictions = [], [], []
    for gamma in gammas:
        log_f = dense_log_f(features, *weights)
        target = torch.tensor(soft) * log_f.detach().exp() ** gamma
        loss = -scale * (target * log_f).sum()
        loss = loss + setting.weight_decay * (weights[0] ** 2).sum() / 2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        log_f = dense_log_f(features, *weights).detach()
        losses.append(loss.item())
        stop_losses.append(float(-scale * (torch.tensor(stop.soft_labels) * log_f).sum()))
        predictions.append(log_f.exp().numpy())
    return losses, stop_losses, predictions


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
@pytest.mark.parametrize("weighting", [static, dynamic, Adaptive(epsilon=5)], ids=repr)
def test_training_equals_a_plain_loop_and_keeps_its_best_epoch(make, weighting):
    features, soft, stop = problem(1)
    setting = TrainSettings(
        n_hidden=16, learning_rate=0.05, loss_weight=0.7, weight_decay=0.02, max_epochs=15
    )
    start = Predictor(F, C, n_hidden=16, generator=torch.Generator().manual_seed(3))
    gammas = [weighting.gamma(epoch) for epoch in range(15)]
    losses, stop_losses, predictions = plain_training(
        features, soft, stop, gammas, setting, arrays(start)
    )
    trained = train_predictor(
        make(features), soft, stop, weighting=weighting, settings=setting, seed=3
    )
    history = trained.history
    np.testing.assert_allclose(history.train_loss, losses, rtol=1e-4)
    np.testing.assert_allclose(history.stop_loss, stop_losses, rtol=1e-4)
    assert list(history.gamma) == gammas
    accuracies = [stop.accuracy(f) for f in predictions]
    np.testing.assert_allclose(history.stop_accuracy, accuracies)
    reached = soft.sum(axis=1) > 0
    agreement = [(f.argmax(1) == soft.argmax(1))[reached].mean() for f in predictions]
    np.testing.assert_allclose(history.train_accuracy, agreement, rtol=1e-6)
    kept, last = reference.early_stopping(accuracies, stop_losses, 100)
    assert (trained.best_epoch, len(history.train_loss)) == (kept, last + 1)
    np.testing.assert_allclose(
        predict_probabilities(trained.weights, features), predictions[kept], rtol=2e-3, atol=1e-4
    )


def test_training_stops_when_patience_runs_out_and_restores_the_best_epoch():
    features, soft, stop = problem(2)
    seen = []

    def watch(f):
        seen.append(f.copy())
        return f

    watched = StoppingNodes(stop.nodes, stop.codes, stop.soft_labels, watch)
    setting = TrainSettings(max_epochs=300, patience=4, loss_weight=1.0)
    trained = train_predictor(features, soft, watched, settings=setting)
    history = trained.history
    kept, last = reference.early_stopping(history.stop_accuracy, history.stop_loss, 4)
    assert last < 299
    assert kept < last
    assert trained.best_epoch == kept
    assert {len(numbers) for numbers in vars(history).values()} == {last + 1} == {len(seen)}
    np.testing.assert_array_equal(predict_probabilities(trained.weights, features), seen[kept])
    assert not np.array_equal(seen[last], seen[kept])


def product_of_tiny_numbers():
    return np.float32(1e-38) * np.float32(0.1), float(torch.tensor(1e-38) * 0.1)


def test_without_an_end_all_epochs_run_and_the_mean_of_the_later_weights_is_kept():
    given = problem()
    how = {"n_hidden": 4, "patience": 1}
    each = [
        train_predictor(*given, settings=TrainSettings(**how, max_epochs=n + 1, mean_from=n))
        for n in (2, 3, 4)
    ]
    mean = train_predictor(*given, settings=TrainSettings(**how, max_epochs=5, mean_from=2))
    assert len(mean.history.gamma) == 5
    assert mean.best_epoch == 4
    for name, kept in mean.weights.items():
        wanted = np.mean([trained.weights[name] for trained in each], axis=0)
        np.testing.assert_allclose(kept, wanted, rtol=1e-5, atol=1e-7)


def test_a_mean_has_no_snapshots():
    how = TrainSettings(max_epochs=5, mean_from=2)
    with pytest.raises(InvalidInputError, match="no mean_from"):
        train_predictor(*problem(), settings=how, batch_size=10, keeper=SimpleNamespace())


def test_numbers_too_small_to_be_quick_are_zero_in_training_alone():
    features, soft, stop = problem()
    seen = []
    setting = TrainSettings(max_epochs=2)
    for before in (False, True):
        torch.set_flush_denormal(before)
        try:
            train_predictor(
                *(features, soft, stop),
                settings=setting,
                on_epoch=lambda *_: seen.append(product_of_tiny_numbers()),
            )
            assert (product_of_tiny_numbers() == (0, 0)) is before  # as it was
        finally:
            torch.set_flush_denormal(False)
    assert seen == [(0, 0)] * 4


def test_who_has_underflow_raised_can_train():
    with np.errstate(all="raise"):
        train_predictor(*problem(), settings=TrainSettings(max_epochs=2))


def test_fits_that_overlap_leave_torch_the_threads_it_had():
    features, soft, stop = problem()
    first_is_within, second_is_within, first_is_done = Event(), Event(), Event()

    def train(on_epoch):
        train_predictor(
            sp.csr_array(features),
            soft,
            stop,
            settings=TrainSettings(max_epochs=1),
            on_epoch=on_epoch,
        )
        return torch.get_num_threads()

    def wait_for_second(*_):
        first_is_within.set()
        assert torch.get_num_threads() == 1
        assert second_is_within.wait(HANGS)

    def wait_for_first(*_):
        second_is_within.set()
        assert first_is_done.wait(HANGS)
        assert torch.get_num_threads() == 1  # though the other one has left

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(train, wait_for_second)
            assert first_is_within.wait(HANGS)
            second = pool.submit(train, wait_for_first)
            assert first.result() == 3
            first_is_done.set()
            assert second.result() == 3
        with ThreadPoolExecutor(1) as new:
            assert new.submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("worth_it", "batch_size", "n_threads"),
    [(30_000, None, 1), (10_000, None, 3), (10_000, 4, 1), (3000, 4, 3)],
)
def test_small_dense_products_stay_in_one_thread(monkeypatch, worth_it, batch_size, n_threads):
    features, *rest = problem()
    assert features.size * 64 == 23_040  # multiplications of the first layer
    monkeypatch.setattr("proptrain.kernels.threads.WORTH_IT", worth_it)
    monkeypatch.setattr("proptrain.kernels.threads.count_threads", lambda: 3)
    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(3)
    try:
        train_predictor(
            features,
            *rest,
            settings=TrainSettings(max_epochs=1),
            batch_size=batch_size,
            on_epoch=lambda *_: seen.append(torch.get_num_threads()),
        )
    finally:
        torch.set_num_threads(before)
    assert seen == [n_threads]


def test_features_are_transposed_once_they_are_used_again_and_no_bit_changes(monkeypatch):
    features, *rest = problem(n=300)
    made, used = [], []

    def transpose(matrix):
        made.append(matrix.shape)
        return transposed_parts(matrix)

    def gradients(*given):
        used.append(given[-1] is not None)
        return active_gradients(*given)

    monkeypatch.setattr(products, "transposed_parts", transpose)
    monkeypatch.setattr(products, "active_gradients", gradients)
    chosen = TrainSettings(max_epochs=5, dropout=0.0)
    often = train_predictor(sp.csr_array(features), *rest, settings=chosen)
    assert (made, used) == ([features.shape], [False, True, True, True, True])
    monkeypatch.setattr(products, "transposed_parts", lambda _: None)
    never = train_predictor(sp.csr_array(features), *rest, settings=chosen)
    assert often.history == never.history
    for name, weights in often.weights.items():
        np.testing.assert_array_equal(weights, never.weights[name])


@pytest.mark.parametrize("changes", [{"settings": TrainSettings(max_epochs=3, dropout=0.5)}, {}])
def test_features_that_are_used_once_are_not_transposed(monkeypatch, changes):
    monkeypatch.setattr(products, "transposed_parts", lambda _: pytest.fail("transposed"))
    features, *rest = problem()
    batched = changes or {"settings": TrainSettings(max_epochs=3), "batch_size": 7}
    train_predictor(sp.csr_array(features), *rest, **batched)


_COUNT_PAGES = """
import resource
import numpy as np
import scipy.sparse as sp
from proptrain.train.loop import TrainSettings, train_predictor
from proptrain.train.stopping import StoppingNodes

n, n_features, n_classes = 200_000, 12, 3
draw = np.random.default_rng(0)
features = sp.csr_array(draw.random((n, n_features), dtype=np.float32))
codes = draw.integers(n_classes, size=n)
soft_labels = np.eye(n_classes, dtype=np.float32)[codes]
taken = []
train_predictor(
    features,
    soft_labels,
    StoppingNodes(np.arange(0, n, 2), codes[::2], soft_labels),
    settings=TrainSettings(max_epochs=40),
    on_epoch=lambda *_: taken.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt),
)
print(np.median(np.diff(taken)))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts what Linux counts")
def test_an_epoch_takes_no_fresh_memory_from_the_system():
    # In a process of its own: pages are counted for all threads of one, and where thousands of
    # tests have run, others' come and go.
    ran = subprocess.run(
        [sys.executable, "-c", _COUNT_PAGES], capture_output=True, text=True, check=True
    )
    # One number a node has 200 pages, one array of hidden units 12,500. On some machines an epoch
    # takes one or two of other threads.
    assert float(ran.stdout) <= 5


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_memory_that_is_used_again_changes_no_bit(make, dropout, monkeypatch):
    features, *rest = problem()
    setting, lend, used = TrainSettings(max_epochs=8, dropout=dropout), KeptMemory.lend, []

    def spoilt(kept, size):
        memory = lend(kept, size)
        memory.fill(255)  # NaN, wherever anybody still reads it
        used.append(memory.ctypes.data)
        return memory

    wanted = train_predictor(make(features), *rest, settings=setting)
    assert not used
    monkeypatch.setattr(keeping, "_LARGE", 1)
    monkeypatch.setattr(KeptMemory, "lend", spoilt)
    got = train_predictor(make(features), *rest, settings=setting)
    assert got.history == wanted.history
    assert same_weights(got.weights, wanted.weights)
    assert len(set(used)) < len(used) / 4  # and it was used again


def fast_problem(seed=1):
    """Few nodes with a soft label, few that stop, and stopping that reads f itself."""
    features, soft, stop = problem(seed)
    soft[::2] = 0
    stop_soft = stop.soft_labels * (np.arange(N) % 3 == 0)[:, None]
    return features, soft, StoppingNodes(stop.nodes, stop.codes, stop_soft)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
@pytest.mark.parametrize("bias", [True, False])
def test_a_network_that_sees_all_nodes_is_trained_as_one_that_sees_those_in_use(make, bias):
    features, soft, stop = fast_problem()
    setting = TrainSettings(max_epochs=20, bias=bias, loss_weight=1.0)
    seen = []

    class Whole(Predictor):
        def narrowed(self, nodes):
            return Chosen(self, nodes), None

    def network(generator):
        whole = Whole(F, C, bias=bias, generator=generator)
        whole.register_forward_pre_hook(lambda _, given: seen.append(given[0].shape[0]))
        return whole

    some = train_predictor(make(features), soft, stop, settings=setting, seed=3)
    every = train_predictor(make(features), soft, stop, settings=setting, seed=3, network=network)
    assert set(seen) == {N}
    if make is sp.csr_array and not bias:  # our own sums: what is zero does not change a bit
        assert same_weights(some.weights, every.weights)
        assert some.history == every.history
    assert some.best_epoch == every.best_epoch
    np.testing.assert_allclose(some.history.train_loss, every.history.train_loss, rtol=1e-4)
    np.testing.assert_allclose(some.history.stop_loss, every.history.stop_loss, rtol=1e-4)
    for name, weight in some.weights.items():
        np.testing.assert_allclose(every.weights[name], weight, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_nodes_without_any_soft_label_do_not_change_fast_training(make, dropout):
    features, soft, stop = fast_problem()
    more = np.zeros((17, C), np.float32)
    extended = StoppingNodes(stop.nodes, stop.codes, np.vstack([stop.soft_labels, more]))
    others = features_of(9, n=17) + 1
    setting = TrainSettings(max_epochs=12, dropout=dropout)
    alone = train_predictor(make(features), soft, stop, settings=setting)
    among = train_predictor(
        make(np.vstack([features, others])), np.vstack([soft, more]), extended, settings=setting
    )
    assert alone.history == among.history
    assert same_weights(alone.weights, among.weights)


def test_predictions_read_out_as_they_are_train_as_those_not_read_out():
    features, soft, stop = fast_problem()
    shapes = []

    def read_out(f):
        shapes.append(f.shape)
        return f

    watched = StoppingNodes(stop.nodes, stop.codes, stop.soft_labels, read_out)
    setting = TrainSettings(max_epochs=12, bias=False)
    whole = train_predictor(sp.csr_array(features), soft, watched, settings=setting)
    fast = train_predictor(sp.csr_array(features), soft, stop, settings=setting)
    assert shapes == [(N, C)] * 12  # all nodes, those without a soft label too
    assert same_weights(whole.weights, fast.weights)
    assert whole.history.stop_accuracy == fast.history.stop_accuracy


def test_one_forward_for_each_epoch_without_dropout(monkeypatch):
    features, soft, stop = problem()
    calls = []
    forward = Predictor.forward
    monkeypatch.setattr(Predictor, "forward", lambda *given: calls.append(1) or forward(*given))
    train_predictor(features, soft, stop, settings=TrainSettings(max_epochs=5))
    assert len(calls) == 6


def test_history_has_one_number_for_each_epoch():
    features, soft, stop = problem()
    setting = TrainSettings(max_epochs=7)
    history = train_predictor(features, soft, stop, settings=setting).history
    assert {name: len(numbers) for name, numbers in vars(history).items()} == {
        "train_loss": 7,
        "stop_loss": 7,
        "train_accuracy": 7,
        "stop_accuracy": 7,
        "gamma": 7,
    }
    assert history.gamma == tuple(math.log1p(epoch / 100) for epoch in range(7))  # PTA by default


def test_a_weighting_of_ones_own_works_and_has_no_gamma():
    def confident_only(confidence, epoch):
        return (confidence > 0.4).float()

    features, soft, stop = problem()
    setting = TrainSettings(max_epochs=4)
    own = train_predictor(features, soft, stop, weighting=confident_only, settings=setting)
    plain = train_predictor(features, soft, stop, weighting=static, settings=setting)
    assert len(own.history.gamma) == 4
    assert all(math.isnan(gamma) for gamma in own.history.gamma)
    assert own.history.train_loss[0] < plain.history.train_loss[0]
    f = predict_probabilities(arrays(predictor(0)), features)
    wanted = -(soft * (f > 0.4) * np.log(f)).sum() * 0.05 / C
    wanted += 0.005 * (arrays(predictor(0))["weight1"] ** 2).sum() / 2
    assert math.isclose(own.history.train_loss[0], wanted, rel_tol=1e-5)


def test_a_weighting_is_given_f_without_a_gradient_and_epochs_from_0():
    epochs = []

    def watch(confidence, epoch):
        assert not confidence.requires_grad
        torch.testing.assert_close(confidence.sum(dim=1), torch.ones(N))
        epochs.append(epoch)
        return torch.ones_like(confidence)

    features, soft, stop = problem()
    train_predictor(features, soft, stop, weighting=watch, settings=TrainSettings(max_epochs=3))
    assert epochs == [0, 1, 2]


def test_initial_weights_replace_the_drawn_ones_and_are_not_trained_in_place():
    features, soft, stop = problem()
    start = arrays(predictor(77))
    for array in start.values():
        array.flags.writeable = False
    before = {name: array.copy() for name, array in start.items()}
    setting = TrainSettings(max_epochs=3)
    given_start = train_predictor(
        features, soft, stop, settings=setting, seed=1, initial_weights=start
    )
    drawn = train_predictor(features, soft, stop, settings=setting, seed=77)
    assert given_start.history == drawn.history
    assert same_weights(given_start.weights, drawn.weights)
    assert same_weights(start, before)


def test_inputs_of_training_are_unchanged_and_may_be_read_only():
    features, soft, stop = problem()
    read_only = [features, soft, stop.nodes, stop.codes, stop.soft_labels]
    copies = [array.copy() for array in read_only]
    for array in read_only:
        array.flags.writeable = False
    setting = TrainSettings(max_epochs=3, dropout=0.5)
    for make in (np.asarray, sp.csr_array):
        train_predictor(make(features), soft, stop, settings=setting)
    for array, copy in zip(read_only, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_rows_that_do_not_match_are_refused():
    features, soft, stop = problem()
    with pytest.raises(
        InvalidInputError, match=r"one row for each node, .*got \(29, 12\), \(30, 3\)"
    ):
        train_predictor(features[1:], soft, stop)


def test_the_default_settings_are_the_papers():
    assert TrainSettings() == TrainSettings(
        n_hidden=64,
        dropout=0.0,
        bias=True,
        learning_rate=0.1,
        loss_weight=0.05,
        weight_decay=0.005,
        max_epochs=2000,
        patience=100,
    )


# --- the arrows -------------------------------------------------------------------------------

SOURCE = Path(proptrain.__file__).parent


def imported_by(path):
    """Every module that a file names in an import, at any depth; relative ones made absolute."""
    package = ["proptrain", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def from_package(name):
    """Where a name that is imported from the top of the package really lives."""
    parts = name.split(".")
    if parts[0] == "proptrain" and len(parts) == 2 and parts[1] in proptrain._HOME:
        return f"proptrain.{proptrain._HOME[parts[1]]}"
    return name


LAYERS = (
    ("text",),
    ("errors",),
    ("kernels", "system", "trainings"),
    ("data",),
    ("propagate", "train", "problem"),  # neither knows the other: no graph in training
    ("ensemble", "pyg", "search"),
    ("classifier",),
    ("estimator", "models", "rounds", "workload"),
    ("plus", "large"),
    ("saving", "insight", "experiments"),
    ("report",),
    ("bench",),
    ("cli",),
)
"""Each folder and file of the package; what stands in a row imports from the rows above alone."""
UPWARD = {
    ("classifier", "insight"),  # within methods that a model has: audit, explain
    ("classifier", "saving"),  # and save, load
    ("rounds", "plus"),  # a type, for the reader
}


def home_of(path):
    """The folder or file of the package that a path belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_imports_point_one_way():
    depth = {home: row for row, homes in enumerate(LAYERS) for home in homes}
    files = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]
    assert {home_of(path) for path in files} == set(depth)
    upward = set()
    for path in files:
        home = home_of(path)
        for name in map(from_package, imported_by(path)):
            parts = name.split(".")
            other = parts[1] if parts[0] == "proptrain" and len(parts) > 1 else home
            if other != home and depth.get(other, -1) >= depth[home]:
                upward.add((home, other))
    assert upward == UPWARD


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("train", ["data.graph"]),
        ("ensemble", ["train"]),
        # What is shown does not know how it is computed, nor what computes, who asked.
        ("experiments", ["propagate", "train", "ensemble"]),
        ("report", ["propagate", "ensemble", "models", "estimator", "plus"]),
        # Commands ask classifiers, never the steps themselves.
        ("cli", ["kernels", "propagate", "train", "ensemble", "models"]),
    ],
)
def test_what_lies_far_below_is_not_reached_for(folder, forbidden):
    files = sorted((SOURCE / folder).rglob("*.py"))
    assert len(files) > 1
    names = {(path.name, from_package(name)) for path in files for name in imported_by(path)}
    assert any(name.startswith("proptrain.") for _, name in names)
    for path, name in names:
        for part in forbidden:
            home = f"proptrain.{part}"
            assert name != home, f"{folder}/{path} imports {name}"
            assert not name.startswith(f"{home}."), f"{folder}/{path} imports {name}"


def test_there_is_one_epoch_loop():
    loops = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if re.search(r"\.backward\(|learner\.step\(", path.read_text())
    }
    # One loop, and two that know what a step is: on all nodes at once, and in batches.
    assert loops == {"train/loop.py", "train/learner.py", "train/batches.py"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_hidden": 0},
        {"n_hidden": 2.5},
        {"max_epochs": "many"},
        {"dropout": 1.0},
        {"learning_rate": -1},
        {"learning_rate": float("nan")},
        {"loss_weight": 0},
        {"weight_decay": -0.1},
        {"max_epochs": 0},
        {"patience": 0},
        {"mean_from": 2000},
    ],
)
def test_settings_out_of_bounds_are_refused_by_name(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(InvalidInputError, match=f"{name} must be .*, got {value!r}"):
        TrainSettings(**wrong)


def test_a_loss_that_leaves_the_finite_numbers_stops_with_advice():
    features, soft, stop = problem()
    with pytest.raises(TrainingError, match=r"finite loss, but in epoch 0 .* Scale the feat"):
        train_predictor(features, np.where(soft > 0, np.float32(np.inf), soft), stop)


# --- Adam -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1,), (7,), (300, 64), (64, 3)])
def test_adam_is_torchs_bit_by_bit(shape):
    start = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    theirs, ours, free = (torch.nn.Parameter(start.clone()) for _ in range(3))
    by_torch = torch.optim.Adam([theirs], lr=0.1)
    network = SimpleNamespace(parameters=lambda: [ours, free], first_layer=ours)
    by_us = Adam(network, 0.1, 0.005)
    for seed in range(6):
        slope = torch.randn(shape, generator=torch.Generator().manual_seed(seed + 1))
        slope = slope * 10.0 ** -(3 * (seed % 4)) * (slope > -1)  # also tiny, and none at all
        loss = (slope * theirs).sum() + 0.005 / 2 * (theirs**2).sum()
        by_torch.zero_grad()
        loss.backward()
        ours.grad = slope.clone()
        assert by_us.penalty() == pytest.approx(
            0.005 / 2 * float((ours.detach() ** 2).sum()), rel=1e-5
        )
        by_torch.step()
        by_us.step()
        assert ours.grad is None
        assert torch.equal(ours, theirs)
    assert torch.equal(free, start)  # what has no gradient stays


def test_adam_refuses_a_weight_that_it_could_not_move():
    weight = np.ones((4, 3), np.float32).T
    zeros = np.zeros((3, 4), np.float32)
    with pytest.raises(InvalidInputError, match="must lie in memory in a row"):
        adam_step(weight, zeros, zeros.copy(), zeros.copy(), step=1, learning_rate=0.1)
