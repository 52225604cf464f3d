"""Training in batches: one batch is training as ever, several are the same loss on average."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proptrain import PTAClassifier, load_dataset
from proptrain.errors import InvalidInputError, TrainingError
from proptrain.train.backend import KERNELS
from proptrain.train.batches import Batches, BatchLearner
from proptrain.train.loop import TrainSettings, predict_probabilities, train_predictor
from proptrain.train.predictor import Predictor
from proptrain.train.stopping import StoppingNodes
from proptrain.train.torch_backend import torch_backend
from proptrain.train.weighting import dynamic, static

N, F, C = 60, 12, 3


def problem(seed=0, *, n=N, all_rows=True, read_out=None):
    """A small problem; without ``all_rows`` some nodes have no soft label."""
    random = np.random.RandomState(seed)
    features = (random.rand(n, F) * (random.rand(n, F) < 0.4)).astype(np.float32)
    soft, stop_soft = random.rand(2, n, C).astype(np.float32)
    if not all_rows:
        soft[::5] = 0
        stop_soft[1::4] = 0
    nodes = np.arange(1, n, 3)
    codes = random.randint(0, C, len(nodes))
    return features, soft, StoppingNodes(nodes, codes, stop_soft, read_out)


def close_histories(one, other, tolerance):
    for name, numbers in vars(one).items():
        np.testing.assert_allclose(getattr(other, name), numbers, rtol=tolerance, err_msg=name)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
@pytest.mark.parametrize("weighting", [static, dynamic, None])
@pytest.mark.parametrize("batch_size", [N, 10 * N])
def test_a_batch_of_everything_is_training_as_ever_to_the_bit(make, weighting, batch_size):
    features, soft, stop = problem()
    how = {"weighting": weighting, "settings": TrainSettings(max_epochs=40), "seed": 3}
    usual = train_predictor(make(features), soft, stop, **how)
    batched = train_predictor(make(features), soft, stop, **how, batch_size=batch_size)
    for name, weight in usual.weights.items():
        np.testing.assert_array_equal(batched.weights[name], weight)
    assert batched.best_epoch == usual.best_epoch
    close_histories(usual.history, batched.history, 1e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("is_read_out", [False, True])
def test_with_nodes_that_do_not_train_as_well(dropout, is_read_out):
    read_out = (lambda f: f[:, ::-1]) if is_read_out else None
    features, soft, stop = problem(all_rows=False, read_out=read_out)
    how = {"settings": TrainSettings(max_epochs=15, dropout=dropout), "seed": 1}
    usual = train_predictor(sp.csr_array(features), soft, stop, **how)
    batched = train_predictor(sp.csr_array(features), soft, stop, **how, batch_size=N)
    close_histories(usual.history, batched.history, 1e-5)


def test_what_is_read_out_has_one_room_for_all_epochs():
    made = []

    def room(shape, dtype):
        made.append(np.zeros(shape, dtype))
        return made[-1]

    features, soft, stop = problem(read_out=lambda f: f)
    how = {"settings": TrainSettings(max_epochs=4), "batch_size": 20}
    train_predictor(features, soft, replace(stop, room=room), **how)
    assert [array.shape for array in made] == [(N, C)]
    train_predictor(features, soft, replace(stop, room=room, read_out=None), **how)
    assert len(made) == 1
    np.testing.assert_allclose(made[0].sum(axis=1), 1, rtol=1e-5)


def test_judged_in_parts_or_at_once_is_the_same():
    features, soft, stop = problem(all_rows=False)
    setting = TrainSettings(max_epochs=1)
    learners = []
    for size in (7, 1000):
        model = Predictor(F, C, generator=torch.Generator().manual_seed(0))
        parts = (model, features, soft, stop, static, setting, KERNELS)
        learners.append(BatchLearner(*parts, size, 0).judge())
    np.testing.assert_allclose(*learners, rtol=1e-6)
    f = predict_probabilities({k: v.numpy() for k, v in model.state_dict().items()}, features)
    counted = soft.sum(axis=1) > 0
    agreed = (f.argmax(axis=1) == soft.argmax(axis=1))[counted].mean()
    right = (f[stop.nodes].argmax(axis=1) == stop.codes).mean()
    loss = -(stop.soft_labels * np.log(f)).sum() * 0.05 / C
    np.testing.assert_allclose(learners[0], (loss, agreed, right), rtol=1e-5)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 300), st.integers(1, 120), st.integers(0, 3))
def test_every_row_is_in_one_batch_of_an_epoch(n_rows, size, seed):
    rows = np.arange(n_rows) * 3 + 1
    batches = Batches(rows, size, np.random.default_rng(seed))
    epochs = [list(batches) for _ in range(2)]
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(np.concatenate(epoch)), rows)
        assert all((np.diff(batch) > 0).all() for batch in epoch)
        assert max(map(len, epoch)) <= size
        assert np.ptp([len(batch) for batch in epoch]) <= 1
        assert len(epoch) == math.ceil(n_rows / size)


def test_batches_differ_from_epoch_to_epoch_and_mix_far_rows():
    batches = Batches(np.arange(10_000), 1000, np.random.default_rng(0))
    first, second = next(iter(batches)), next(iter(batches))
    assert not np.array_equal(first, second)
    spread = np.histogram(first, bins=10, range=(0, 10_000))[0]
    assert spread.min() > 30


def test_a_step_follows_the_loss_of_all_on_average():
    """The gradients of an epoch's batches, each scaled up, have the mean of the whole's."""
    features, soft, stop = problem(n=64)
    setting = TrainSettings(weight_decay=0.0)
    model = Predictor(F, C, generator=torch.Generator().manual_seed(0))
    gradients = []

    class Watching:
        def __init__(self, network, *_):
            self.network = network

        def penalty(self):
            return 0.0

        def step(self):
            gradients.append(self.network.weight1.grad.clone())
            self.network.weight1.grad = None

    backend = KERNELS.__class__(**{**vars(KERNELS), "optimiser": Watching})
    for size in (64, 16):
        BatchLearner(model, features, soft, stop, static, setting, backend, size, 0).step(0)
    whole, *parts = gradients
    assert len(parts) == 4
    torch.testing.assert_close(torch.stack(parts).mean(dim=0), whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("size", "rate"), [(64, 0.1), (16, 0.05), (60, 0.1 / math.sqrt(2))])
def test_steps_that_see_less_are_shorter(size, rate):
    features, soft, stop = problem(n=64)
    model = Predictor(F, C, generator=torch.Generator().manual_seed(0))
    before = model.weight1.detach().clone()
    setting = TrainSettings(weight_decay=0.0, learning_rate=0.1)
    learner = BatchLearner(model, features, soft, stop, static, setting, KERNELS, size, 0)
    learner._batches = [np.arange(64)]
    learner.step(0)
    moved = (model.weight1.detach() - before).abs()  # Adam's first step is as long as its rate
    assert moved.max().item() == pytest.approx(rate, rel=1e-3)


def test_the_seed_decides_the_batches():
    features, soft, stop = problem()
    how = {"settings": TrainSettings(max_epochs=5), "batch_size": 10}
    one, same, other = (train_predictor(features, soft, stop, seed=s, **how) for s in (0, 0, 1))
    assert one.history == same.history
    assert one.history != other.history


@pytest.mark.parametrize("batch_size", [17, 60])
def test_features_and_soft_labels_in_files_train_as_those_in_memory(tmp_path, batch_size):
    features, soft, stop = problem()
    mapped = {}
    for name, array in (("x", features), ("y", soft), ("s", stop.soft_labels)):
        np.save(tmp_path / f"{name}.npy", array)
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    how = {"settings": TrainSettings(max_epochs=10), "batch_size": batch_size}
    in_memory = train_predictor(features, soft, stop, **how)
    watched = StoppingNodes(stop.nodes, stop.codes, mapped["s"])
    from_files = train_predictor(mapped["x"], mapped["y"], watched, **how)
    assert in_memory.history == from_files.history


def test_torch_trains_in_batches_too():
    features, soft, stop = problem()
    how = {"settings": TrainSettings(max_epochs=8), "batch_size": 16}
    ours = train_predictor(features, soft, stop, **how)
    theirs = train_predictor(
        features, soft, stop, **how, backend=torch_backend(torch.device("cpu"))
    )
    close_histories(ours.history, theirs.history, 1e-3)


@pytest.mark.parametrize("batch_size", [0, -5, 2.5, "many", True])
def test_a_batch_size_that_is_none(batch_size):
    with pytest.raises(InvalidInputError, match="batch_size must be None or a whole number"):
        train_predictor(*problem(), batch_size=batch_size)


def test_a_network_with_the_graph_inside_has_no_batches():
    with pytest.raises(InvalidInputError, match="in which nodes are apart"):
        train_predictor(*problem(), batch_size=5, network=lambda generator: None)


def test_a_loss_that_is_not_finite_is_told():
    features, soft, stop = problem()
    with pytest.raises(TrainingError, match="in epoch 0 it is"):
        train_predictor(features * np.float32(1e30), soft * np.float32(1e30), stop, batch_size=20)


def test_pta_in_batches_is_as_good():
    cora = load_dataset("cora")
    known = np.random.RandomState(0).rand(cora.n_nodes) < 0.1
    y = np.where(known, cora.labels, -1)
    how = {"fast": True, "max_epochs": 60, "random_state": 0}
    right = [
        (
            PTAClassifier(batch_size=size, **how).fit(cora.features, y, graph=cora.graph)
            .transduction_[~known] == cora.labels[~known]
        ).mean()
        for size in (None, 500)
    ]  # fmt: skip
    assert right[1] > right[0] - 0.02
    assert right[1] > 0.75


@pytest.mark.parametrize("batch_size", [None, 17])
def test_rows_that_are_known_are_not_looked_for(monkeypatch, batch_size):
    features, soft, stop = problem(all_rows=False)
    how = {"settings": TrainSettings(max_epochs=5), "batch_size": batch_size}
    wanted = train_predictor(features, soft, stop, **how)
    trained, judged = (np.flatnonzero(rows.sum(axis=1)) for rows in (soft, stop.soft_labels))

    def read_all(_):
        raise AssertionError("all soft labels are read")

    monkeypatch.setattr("proptrain.train.learner.row_sums", read_all)
    got = train_predictor(features, soft, replace(stop, rows=judged), **how, trained_rows=trained)
    assert got.history == wanted.history
    for name, weight in wanted.weights.items():
        np.testing.assert_array_equal(got.weights[name], weight)
