"""The authors' own run, epoch by epoch: the numbers their published code gave on cora_ml."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from proptrain.data.splits import split_nodes
from proptrain.ensemble.predictions import ensemble_predictions
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.labels import propagate_labels
from proptrain.propagate.schemes import PPR
from proptrain.train.loop import TrainSettings, train_predictor
from proptrain.train.stopping import StoppingNodes
from proptrain.train.weighting import Adaptive, dynamic, static

DATA = os.environ.get("PROPTRAIN_DATA")
pytestmark = pytest.mark.skipif(
    DATA is None, reason="PROPTRAIN_DATA does not name the folder with the paper's data sets"
)

SCHEME = PPR(alpha=0.1, steps=10)
SETTINGS = {
    "PTS": (static, {"learning_rate": 0.01, "loss_weight": 0.05}),
    "PTD": (dynamic, {"learning_rate": 0.1, "loss_weight": 10.0}),
    "PTA": (Adaptive(), {"learning_rate": 0.1, "loss_weight": 0.05}),
}
# How near our last ensembled predictions come to theirs. Both runs round in float32, but sum in
# different orders; Adam at a rate of 0.1 carries that on through 60 epochs. Measured: 9e-8, 4e-5
# and 2e-4.
TOLERANCE = {"PTS": 1e-6, "PTD": 2e-4, "PTA": 5e-4}
WEIGHTS = {
    "weight1": "init.Linear1.weight",
    "bias1": "init.Linear1.bias",
    "weight2": "init.Linear2.weight",
    "bias2": "init.Linear2.bias",
}


@pytest.fixture(scope="module")
def recorded():
    path = Path(DATA, "..", "reference", "authors_cora_ml.npz")
    if not path.exists():
        pytest.skip("the authors' numbers do not lie beside the data folder, in ../reference")
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def cora_ml():
    from proptrain.data.catalog import load_dataset

    return load_dataset("cora_ml", DATA)


@pytest.fixture(scope="module")
def run(cora_ml, recorded):
    """Our run of each method, once for the module, with what it predicted after every epoch."""
    engine = LocalEngine(cora_ml.graph)
    initial = {ours: recorded[theirs] for ours, theirs in WEIGHTS.items()}
    done = {}

    def run_method(name):
        if name in done:
            return done[name]
        weighting, changes = SETTINGS[name]
        ensembled, fast = [], []

        def read_out(f):
            fast.append((f[recorded["stop"]].argmax(axis=1) == codes).mean())
            ensembled.append(ensemble_predictions(f, engine, SCHEME))
            return ensembled[-1]

        codes = cora_ml.labels[recorded["stop"]]
        stop = StoppingNodes(recorded["stop"], codes, recorded["y_soft_stop"], read_out)
        trained = train_predictor(
            cora_ml.features,
            recorded["y_soft_train"],
            stop,
            weighting=weighting,
            settings=TrainSettings(max_epochs=60, patience=1000, **changes),
            initial_weights=initial,
        )
        done[name] = SimpleNamespace(history=trained.history, fast=fast, ensembled=ensembled)
        return done[name]

    return run_method


methods = pytest.mark.parametrize("method", SETTINGS)


def test_the_data_set_is_the_papers(cora_ml):
    assert (cora_ml.n_nodes, cora_ml.graph.n_edges, cora_ml.n_classes) == (2810, 7981, 7)
    assert cora_ml.features.shape == (2810, 2879)
    totals = np.asarray(abs(cora_ml.features).sum(axis=1)).ravel()
    np.testing.assert_allclose(totals[totals > 0], 1, rtol=1e-5)
    np.testing.assert_array_equal(np.unique(cora_ml.graph.adjacency.data), [1])


@pytest.mark.parametrize("part", ["train", "stop", "test"])
def test_the_split_is_theirs(cora_ml, recorded, part):
    split = split_nodes(cora_ml.labels, 2144199730)
    np.testing.assert_array_equal(getattr(split, part), recorded[part])


@pytest.mark.parametrize("part", ["train", "stop"])
def test_the_soft_labels_are_theirs(cora_ml, recorded, part):
    engine = LocalEngine(cora_ml.graph)
    got = propagate_labels(cora_ml.labels, recorded[part], 7, engine, SCHEME)
    np.testing.assert_allclose(got, recorded[f"y_soft_{part}"], rtol=0, atol=1e-6)


@methods
@pytest.mark.parametrize("curve", ["train_loss", "stop_loss"])
def test_the_losses_are_theirs_in_every_epoch(run, recorded, method, curve):
    got = getattr(run(method).history, curve)
    np.testing.assert_allclose(got, recorded[f"{method}.{curve}"], rtol=1e-4)


@methods
def test_the_ensembled_stopping_accuracy_is_theirs_in_every_epoch(run, recorded, method):
    got = run(method).history.stop_accuracy
    np.testing.assert_allclose(got, recorded[f"{method}.stop_acc"], rtol=0, atol=1e-6)


@methods
def test_the_fast_stopping_accuracy_is_theirs(run, recorded, method):
    difference = np.abs(np.array(run(method).fast) - recorded[f"{method}.stop_acc_fast"])
    assert difference.max() < 1 / 500 + 1e-6
    # PTA: one node in one epoch, a near-tie; see docs/deviations.md.
    assert np.count_nonzero(difference > 1e-6) <= (1 if method == "PTA" else 0)


@methods
def test_the_last_predictions_are_theirs(run, recorded, method):
    got = run(method).ensembled[-1][:200]
    wanted = recorded[f"{method}.final_predictions_first200"]
    np.testing.assert_allclose(got, wanted, rtol=0, atol=TOLERANCE[method])


@methods
def test_the_last_test_accuracy_is_theirs(run, recorded, cora_ml, method):
    scores = run(method).ensembled[-1][recorded["test"]]
    right = scores.argmax(axis=1) == cora_ml.labels[recorded["test"]]
    theirs = round(float(recorded[f"{method}.test_acc_last_epoch"]) * len(right))
    if method != "PTA":
        assert right.sum() == theirs
        return
    # PTA: 897 of 1310 against their 898, as near as the rounding lets us tell: test node 2071 is a
    # tie to 1.3e-4 between its own class and the one we choose. All that is no tie must agree.
    best, second = np.sort(scores, axis=1)[:, :-3:-1].T
    tied = best - second < 2 * TOLERANCE[method]
    assert tied.sum() <= 5
    assert right[~tied].sum() <= theirs <= right[~tied].sum() + tied.sum()
    assert abs(right.sum() - theirs) <= 1
