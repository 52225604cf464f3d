"""Training and spreading by torch, on the device every machine has; oracle: our kernels."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from proptrain import (
    CorrectAndSmoothClassifier,
    GNNClassifier,
    LabelPropagationClassifier,
    PTAClassifier,
    classifier,
)
from proptrain.data.catalog import load_dataset
from proptrain.errors import InvalidInputError
from proptrain.propagate import torch_engine
from proptrain.propagate.torch_engine import TorchEngine
from proptrain.system import devices
from proptrain.system.devices import torch_device
from proptrain.train.backend import KERNELS
from proptrain.train.loop import TrainSettings, train_predictor
from proptrain.train.predictor import Predictor
from proptrain.train.stopping import StoppingNodes
from proptrain.train.torch_backend import torch_backend

CPU = torch.device("cpu")
N, F, C = 60, 30, 4


def problem(*, sparse):
    random = np.random.default_rng(0)
    values = random.random((N, F), dtype=np.float32)
    features = sp.csr_array(np.where(random.random((N, F)) < 0.3, values, 0))
    soft, stop_soft = random.random((2, N, C)).astype(np.float32)
    soft[:5] = 0
    stop = StoppingNodes(np.arange(9), random.integers(0, C, 9), stop_soft)
    return features if sparse else features.toarray(), soft, stop


def train(backend=KERNELS, *, sparse=True, seed=3, **settings):
    return train_predictor(
        *problem(sparse=sparse),
        settings=TrainSettings(max_epochs=12, **settings),
        seed=seed,
        backend=backend,
    )


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_torch_trains_as_the_kernels_do(sparse, bias):
    ours = train(sparse=sparse, bias=bias, learning_rate=0.01)
    theirs = train(torch_backend(CPU), sparse=sparse, bias=bias, learning_rate=0.01)
    for curve in ("train_loss", "stop_loss", "train_accuracy", "stop_accuracy", "gamma"):
        got, wanted = (np.array(getattr(one.history, curve)) for one in (theirs, ours))
        np.testing.assert_allclose(got, wanted, rtol=1e-4)
    assert theirs.weights.keys() == ours.weights.keys()
    for name, weight in ours.weights.items():
        assert theirs.weights[name].dtype == np.float32
        np.testing.assert_allclose(theirs.weights[name], weight, atol=2e-3)


def test_dropout_on_a_device_hangs_on_the_seed_alone():
    torch.manual_seed(0)
    first = train(torch_backend(CPU), dropout=0.5)
    torch.manual_seed(1)
    again, other = (train(torch_backend(CPU), dropout=0.5, seed=seed) for seed in (3, 4))
    assert first.history == again.history
    assert first.history != other.history
    without = train(torch_backend(CPU))
    assert first.history.train_loss[0] != without.history.train_loss[0]


def test_what_is_dropped_leaves_the_mean_as_it_is():
    settings = {"dropout": 0.2, "generator": torch.Generator().manual_seed(0)}
    dropped = torch_backend(CPU).network(F, C, **settings)._dropped(torch.ones(100, 1000))
    assert set(dropped.unique().tolist()) == {0.0, 1.25}
    assert float(dropped.mean()) == pytest.approx(1, abs=0.01)


def test_other_networks_are_not_for_devices():
    with pytest.raises(InvalidInputError, match="train with the kernels alone"):
        train_predictor(*problem(sparse=True), network=Predictor, backend=torch_backend(CPU))


@pytest.mark.parametrize("make", [PTAClassifier, LabelPropagationClassifier])
def test_a_classifier_fits_on_a_device_and_tells_the_same(make, monkeypatch):
    used = []
    for place, name in ((classifier, "torch_backend"), (torch_engine, "TorchEngine")):
        monkeypatch.setattr(place, name, noting(used, getattr(place, name)))
    cora = load_dataset("cora")
    labels = np.where(np.arange(cora.n_nodes) % 9 == 0, cora.labels, -1)
    epochs = {"max_epochs": 30} if make is PTAClassifier else {}
    told = []
    for device in ("cpu", CPU):
        clf = make(device=device, random_state=0, **epochs)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="No label reaches")
            told.append(clf.fit(cora.features, labels, graph=cora.graph).transduction_)
    assert (told[0] == told[1]).mean() > 0.97
    assert set(used) == {TorchEngine, *([torch_backend] if make is PTAClassifier else [])}


def noting(used, made):
    def note(*arguments, **settings):
        used.append(made)
        return made(*arguments, **settings)

    return note


def test_a_model_fitted_on_a_device_can_be_kept(tmp_path):
    edges, labels = [(0, 1), (2, 3), (3, 2)], ["left", None, "right", None]
    clf = PTAClassifier(device=CPU, random_state=0, max_epochs=5).fit(
        np.eye(4), labels, graph=edges
    )
    clf.save(tmp_path / "model")
    again = PTAClassifier.load(tmp_path / "model")
    assert again.device == "cpu"
    np.testing.assert_array_equal(again.transduction_, clf.transduction_)


def test_auto_is_a_gpu_if_torch_has_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert torch_device("auto") is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(devices, "_try", lambda _: None)
    assert torch_device("auto") == torch.device("cuda")
    assert torch_device("cpu") is None


def test_auto_does_without_a_gpu_that_does_not_work(monkeypatch):
    def fail(_):
        raise RuntimeError("CUDA error: out of memory\nmore of it")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(devices, "_try", fail)
    with pytest.warns(UserWarning, match="error: out of memory Using the CPU"):
        assert torch_device("auto") is None


@pytest.mark.parametrize("kind", [GNNClassifier, CorrectAndSmoothClassifier])
def test_what_computes_on_the_cpu_alone_takes_that_device_and_no_other(kind, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # "auto" is the CPU all the same
    given = (np.eye(4), ["left", None, "right", None])
    told = [
        kind(max_epochs=2, random_state=0)
        .set_params(device=device)
        .fit(*given, graph=[(0, 1), (2, 3), (3, 2)])
        .label_distributions_
        for device in ("auto", "cpu", torch.device("cpu"))
    ]
    for other in told[1:]:
        np.testing.assert_array_equal(other, told[0])
    message = rf"^device must be 'auto' or 'cpu' for {kind.__name__}, which .* alone, got "
    for device in ("cuda", torch.device("cuda"), "abacus", None):
        with pytest.raises(InvalidInputError, match=message + re.escape(repr(device))):
            kind(device=device).fit(*given, graph=[(0, 1), (2, 3), (3, 2)])


@pytest.mark.parametrize("device", ["abacus", "cpu:x", 3.5, None, "cuda:99", "meta"])
def test_a_device_that_is_not_there_is_told(device):
    with pytest.raises(InvalidInputError, match="device must be 'auto', 'cpu' or what torch can"):
        PTAClassifier(device=device).fit(np.eye(4), [0, 1, -1, -1], graph=[(0, 1)])
