"""The peers' benchmarks: everyone computes what it is said to, on the graph that ours has."""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import pytest
import torch

from commands import runner
from proptrain.bench.case import Wanted
from proptrain.bench.results import measure
from proptrain.bench.training import own_jobs, problem_of
from proptrain.data.catalog import find_entry
from proptrain.propagate.engine import LocalEngine
from proptrain.propagate.labels import one_hot, propagate_labels
from proptrain.propagate.schemes import PPR

try:
    with warnings.catch_warnings():
        # PyTorch Geometric compiles with torch.jit.script as it is imported, now deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        from benchmarks import __main__ as command
        from benchmarks import pyg, spreading, training
except ImportError as error:
    raise RuntimeError(
        f"The benchmarks' tests need {error.name}. Get it with: pip install -e '.[dev]'"
    ) from error


@pytest.fixture(scope="module")
def problem():
    return problem_of("cora", None)


def test_networks_on_every_kind_of_tensors_tell_the_same(problem):
    dataset, split = problem
    kinds = [{"sparse": False}, {"sparse": True}, {"sparse": True, "csr_to_judge": True}]
    told = []
    for kind in kinds:
        torch.manual_seed(0)
        model = pyg.PredictThenPropagate(dataset.features.shape[1], dataset.n_classes, 0.1).eval()
        with torch.no_grad():
            told.append(model(pyg.tensors_of(dataset, split, **kind)).numpy())
    np.testing.assert_allclose(told[1], told[0], atol=1e-5)
    np.testing.assert_allclose(told[2], told[0], atol=1e-5)
    with torch.no_grad():
        x = torch.from_numpy(dataset.features.toarray())
        scores = model.second(torch.relu(model.first(x))).numpy()
    ours = LocalEngine(dataset.graph).propagate(scores, PPR(0.1, 10))
    log_f = torch.log_softmax(torch.from_numpy(ours), dim=1).numpy()
    np.testing.assert_allclose(told[0], log_f, atol=1e-5)


@pytest.mark.parametrize("csr", [False, True])
def test_gradients_come_back_over_the_graph(problem, csr):
    graph = problem[0].graph
    scores = torch.randn(graph.n_nodes, 3, generator=torch.Generator().manual_seed(0))
    scores.requires_grad_()
    propagation = pyg.APPNP(K=10, alpha=0.1, normalize=False)
    told = propagation(scores, *pyg.prepared(graph, "symmetric", csr=csr))
    (told * torch.arange(3)).sum().backward()
    columns = np.tile(np.arange(3, dtype=np.float32), (graph.n_nodes, 1))
    ours = LocalEngine(graph).transposed.propagate(columns, PPR(0.1, 10))
    np.testing.assert_allclose(scores.grad.numpy(), ours, atol=1e-5)


def test_the_simplified_network_takes_two_steps_first(problem):
    dataset, split = problem
    data = pyg.tensors_of(dataset, split, sparse=False)
    model = pyg.SimplifiedGCN(dataset.features.shape[1], dataset.n_classes).eval()
    with torch.no_grad():
        told = model(data).numpy()
        operator = LocalEngine(dataset.graph).operator_in(np.dtype(np.float32))
        smooth = torch.from_numpy((operator @ (operator @ dataset.features)).toarray())
        expected = torch.log_softmax(model.first(smooth), dim=1).numpy()
    np.testing.assert_allclose(told, expected, atol=1e-5)


def test_dropout_leaves_out_half_of_a_sparse_matrix_and_doubles_the_rest(problem):
    x = pyg.tensors_of(*problem, sparse=True).x
    torch.manual_seed(0)
    values, before = pyg._dropped(x, training=True).values(), x.values()
    kept = values != 0
    assert float(kept.float().mean()) == pytest.approx(0.5, abs=0.02)
    assert torch.equal(values[kept], 2 * before[kept])
    assert pyg._dropped(x, training=False) is x


@pytest.mark.parametrize("csr", [False, True])
def test_labels_spread_as_ours_do_on_the_same_graph(problem, csr):
    dataset, split = problem
    graph = pyg.prepared(dataset.graph, "symmetric-no-loops", csr=csr)
    data = pyg.tensors_of(dataset, split, sparse=True)
    told = pyg.spread_labels(data, graph, 0.1).numpy()
    engine = LocalEngine(dataset.graph, "symmetric-no-loops")
    known = (dataset.labels, split.train, dataset.n_classes)
    ours = propagate_labels(*known, engine, PPR(0.1, 10), clamp=False)
    np.testing.assert_allclose(told, ours, atol=1e-5)


def test_everyone_who_spreads_tells_most_classes_right(problem):
    dataset, split = problem
    for suite in (spreading.label_propagation, spreading.correct_and_smooth):
        (case,) = suite(Wanted())
        jobs = case.prepare().jobs
        assert case.baseline in jobs
        for name, job in jobs.items():
            told = np.asarray(job())
            classes = told.argmax(axis=1) if told.ndim == 2 else told
            assert (classes[split.test] == dataset.labels[split.test]).mean() > 0.6, name


def jobs_of(suite):
    (case,) = suite(Wanted())
    return case.prepare().jobs


def test_peers_that_spread_labels_have_our_graph(problem):
    dataset, split = problem
    jobs = jobs_of(spreading.label_propagation)
    engine = LocalEngine(dataset.graph, "symmetric-no-loops")
    known = (dataset.labels, split.train, dataset.n_classes)
    ours = propagate_labels(*known, engine, PPR(find_entry("cora").alpha, 10), clamp=False)
    theirs = [jobs[name]() for name in jobs if name.startswith("PyG")]
    assert len(theirs) == 2
    for told in theirs:
        np.testing.assert_allclose(told.numpy(), ours, atol=1e-5)
    given = jobs["scikit-network DiffusionClassifier"].args[0]  # its definition is another
    assert (given != dataset.graph.adjacency).nnz == 0


def corrected_and_smoothed(soft, truth, known, operator, alpha):
    """What PyTorch Geometric's documentation says of its CorrectAndSmooth, with SciPy."""

    def spread(start, low):
        state = start
        for _ in range(10):
            state = np.clip((1 - alpha) * (operator @ state) + alpha * start, low, 1)
        return state

    error = np.zeros_like(soft)
    error[known] = (truth - soft)[known]
    smooth = spread(error, -1)
    size = np.abs(smooth).sum(axis=1, keepdims=True)
    mean_size = np.abs(error).sum() / len(known)
    scale = np.where(size * 1000 >= mean_size, mean_size / np.maximum(size, 1e-30), 1)
    corrected = soft + scale * smooth
    corrected[known] = truth[known]
    return spread(corrected, 0)


def test_peers_that_correct_and_smooth_have_our_graph_and_predictions(problem):
    dataset, split = problem
    jobs = jobs_of(spreading.correct_and_smooth)
    soft = jobs["proptrain"].args[0]
    truth = one_hot(dataset.labels, split.train, dataset.n_classes)
    operator = LocalEngine(dataset.graph, "symmetric-no-loops").operator_in(np.dtype(np.float64))
    alpha = find_entry("cora").alpha
    wanted = corrected_and_smoothed(soft.astype(float), truth, split.train, operator, alpha)
    ours = jobs.pop("proptrain")()
    assert len(jobs) == 2
    for job in jobs.values():
        told = job().numpy()
        np.testing.assert_allclose(told, wanted, atol=1e-4)
        # Ours holds the known errors and has loops, which changes the class of few.
        assert (told.argmax(axis=1) == ours.argmax(axis=1)).mean() > 0.9


def test_everyone_who_finds_neighbours_tells_more_than_chance(problem):
    dataset, split = problem
    (case,) = spreading.from_features_alone(Wanted())
    for name, job in case.prepare().jobs.items():
        told = job().transduction_
        right = (told[split.test] == dataset.labels[split.test]).mean()
        assert right > 0.35, name  # three in ten are of the largest class


def test_epochs_are_as_many_for_everyone(monkeypatch):
    monkeypatch.setattr("proptrain.bench.training.N_EPOCHS", 1)
    (case,) = training.epochs_beside_pyg(Wanted())
    jobs = case.prepare().jobs
    assert case.baseline in jobs
    assert {name: job() for name, job in jobs.items()} == dict.fromkeys(jobs, 1)


@pytest.mark.parametrize("suite", [training.to_the_early_stop, training.to_the_early_stop_dense])
def test_training_until_it_stops_tells_everyones_epochs(monkeypatch, suite):
    four = {"max_epochs": 4, "patience": 4}
    monkeypatch.setattr(training, "_WHOLE", four)
    monkeypatch.setattr(training, "_TEN", training._TWO)
    monkeypatch.setattr(training, "own_jobs", lambda *of, **_: own_jobs(*of, **four))
    (case,) = suite(Wanted())
    done = measure(case, case.prepare(), case.n_rounds)
    assert {timed.n_epochs for timed in done.times.values()} == {4}
    assert {len(timed.seconds) for timed in done.times.values()} == {1}
    assert case.baseline in done.times


def test_training_ends_when_stopping_says_so(problem, monkeypatch):
    monkeypatch.setattr(pyg.EarlyStopping, "is_over", lambda _, epoch, *told: epoch == 2)
    data = pyg.tensors_of(*problem, sparse=True, csr_to_train=True)
    assert pyg.train_appnp(data, 0.1, max_epochs=60, patience=60) == 3


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch, capsys):
    return runner(monkeypatch, capsys, app=command.app)


def test_the_command_measures_peers_too(tmp_path, run):
    path = tmp_path / "times.jsonl"
    code, text = run("labels", "--dataset", "cora", "--rounds", 1, "--out", path, "--json")
    assert code == 0, text.err
    (case,) = json.loads(text.out)["cases"]
    assert case == json.loads(path.read_text())
    assert case["baseline"] == "proptrain"
    assert len(case["times"]) == 4
    assert {"torch-geometric", "scikit-network"} <= case["made_with"].keys()


def test_the_command_says_what_it_can_measure(run):
    code, text = run("label")
    assert code == 1
    assert "Did you mean 'labels'?" in text.err


def test_a_missing_peer_is_named_with_its_extra(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "sknetwork.classification", None)
    monkeypatch.delitem(sys.modules, "benchmarks.spreading")
    code, text = run("labels", "--dataset", "cora")
    assert code == 1
    assert "sknetwork.classification, which is not installed" in text.err
    assert "pip install -c constraints.txt '.[bench]'" in text.err


def test_the_suites_are_where_the_command_looks_for_them():
    from proptrain.cli.bench import _find

    for name in command.ALL:
        cases = _find(command.ALL, name)(Wanted(n_entries=100_000))
        assert {case.suite for case in cases} == {name}
