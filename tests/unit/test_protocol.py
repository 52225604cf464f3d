"""The protocol: who sees which labels, which seeds, how means and intervals are made."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from proptrain import (
    CorrectAndSmoothClassifier,
    Dataset,
    GNNClassifier,
    Graph,
    LabelPropagationClassifier,
)
from proptrain.data.noise import noise_rate
from proptrain.data.splits import TEST_SEEDS, VALIDATION_SEEDS, split_nodes
from proptrain.errors import InvalidInputError, LabelError
from proptrain.experiments.methods import METHODS, Method, find_methods
from proptrain.experiments.protocol import Protocol, Run, protocol_for, run_all, run_once
from proptrain.experiments.statistics import (
    bootstrap_clusters,
    bootstrap_mean,
    paired_p_value,
)
from proptrain.experiments.summary import summarise
from proptrain.experiments.tasks import task_of
from proptrain.experiments.versions import code_digest, cpu_name
from proptrain.train.weighting import Adaptive, Constant

SMALL = Protocol(n_known=30, per_class=4, n_stop=10, alpha=0.25)


def make_dataset(n=80, n_classes=3, unlabelled=0, seed=0):
    random = np.random.RandomState(seed)
    labels = random.permutation(np.arange(n) % n_classes)
    alike = labels[:, None] == labels
    adjacency = np.triu(random.rand(n, n) < np.where(alike, 0.2, 0.02), 1)
    known = np.where(np.arange(n) < unlabelled, -1, labels)
    return Dataset(
        graph=Graph(sp.csr_array(adjacency.astype(np.float32))),
        features=np.eye(n_classes)[labels] + 0.3 * random.rand(n, n_classes),
        labels=known,
        class_names=tuple("abcdef"[:n_classes]),
        name="small",
    )


class Spy:
    """A classifier that remembers what it was given, and answers class 1 to everything."""

    n_iter_, best_epoch_ = 17, 5

    def __init__(self, alpha, steps, seed):
        self.alpha, self.steps, self.seed = alpha, steps, seed

    def fit(self, X, y, graph=None, stopping=None):
        self.X, self.y, self.graph, self.stopping = X, np.array(y), graph, np.array(stopping)
        self.transduction_ = np.ones(len(y), dtype=int)
        return self


SPY = Method("spy", "remembers", Spy)


def test_a_run_shows_the_labels_of_training_and_stopping_nodes_only():
    dataset = make_dataset(unlabelled=5)
    run, spy = run_once(dataset, SPY, SMALL, 11, 3)
    split = SMALL.split(dataset, 11)
    seen = np.concatenate([split.train, split.stop])
    np.testing.assert_array_equal(np.flatnonzero(spy.y >= 0), np.sort(seen))
    np.testing.assert_array_equal(spy.y[seen], dataset.labels[seen])
    np.testing.assert_array_equal(spy.stopping, split.stop)
    assert (spy.alpha, spy.steps, spy.seed) == (0.25, 10, 3)
    assert spy.graph is dataset.graph
    assert spy.X is dataset.features
    assert run == Run(
        dataset="small",
        method="spy",
        split_seed=11,
        init_seed=3,
        accuracy=(dataset.labels[split.test] == 1).mean(),
        stop_accuracy=(dataset.labels[split.stop] == 1).mean(),
        epochs=17,
        best_epoch=5,
        seconds=run.seconds,
        labels_per_class=4,
        alpha=0.25,
        code=code_digest(),
        cpu=cpu_name(),
    )
    told = [*list(vars(run))[:9], "labels_per_class", "alpha", "code", "cpu"]
    assert run.to_json() == {name: vars(run)[name] for name in told}
    assert Run.from_json(run.to_json()) == run
    assert run.seconds >= 0


@pytest.mark.parametrize(
    ("name", "alpha", "per_class", "told"),
    [
        ("small", 0.1, 4, {"labels_per_class": 4}),
        ("ms_academic", 0.2, 4, {"labels_per_class": 4}),  # its own
        ("ms_academic", 0.1, 4, {"labels_per_class": 4, "alpha": 0.1}),
        ("small", 0.1, 20, {}),
    ],
)
def test_a_run_says_what_was_not_as_usual(name, alpha, per_class, told):
    dataset = replace(make_dataset(n=200), name=name)
    protocol = Protocol(n_known=100, per_class=per_class, n_stop=10, alpha=alpha)
    run, _ = run_once(dataset, SPY, protocol, 11, 0)
    written = run.to_json()
    assert {key: written[key] for key in ("labels_per_class", "alpha") if key in written} == told
    assert Run.from_json(written) == run
    # Nor is it taken for one by the paper's protocol.
    usual = replace(run, labels_per_class=None, alpha=None)
    assert (task_of(run) == task_of(usual)) == (told == {})


def test_test_labels_cannot_change_what_is_told():
    dataset = make_dataset()
    split = SMALL.split(dataset, 11)
    labels = dataset.labels.copy()
    labels[split.test] = (labels[split.test] + 1) % 3
    (method,) = find_methods(["LP"])
    told = [
        run_once(d, method, replace(SMALL, n_known=30), 11, 0)[1].transduction_
        for d in (dataset, replace(dataset, labels=labels))
    ]
    # The split depends on the classes of known nodes alone, and those are the same.
    np.testing.assert_array_equal(told[0], told[1])


def test_structure_noise_is_in_the_graph_alone_and_the_same_for_every_method():
    dataset = make_dataset()
    noise = {"noise_kind": "structure", "noise": 0.5, "steps": 2}
    run, spy = run_once(dataset, SPY, SMALL, 11, 0, **noise)
    assert noise_rate(spy.graph, dataset.labels) == pytest.approx(0.5, abs=0.01)
    assert noise_rate(dataset.graph, dataset.labels) < 0.4
    assert spy.steps == 2
    assert (run.noise_kind, run.noise, run.steps) == ("structure", 0.5, 2)
    seen = spy.y >= 0
    np.testing.assert_array_equal(spy.y[seen], dataset.labels[seen])
    again, other = (run_once(dataset, SPY, SMALL, seed, 1, **noise)[1].graph for seed in (11, 12))
    assert (spy.graph.adjacency != again.adjacency).nnz == 0
    assert (spy.graph.adjacency != other.adjacency).nnz > 0


def test_label_noise_is_in_the_training_labels_alone():
    dataset = make_dataset()
    split = SMALL.split(dataset, 11)
    clean, _ = run_once(dataset, SPY, SMALL, 11, 0)
    run, spy = run_once(dataset, SPY, SMALL, 11, 0, noise_kind="label", noise=0.5)
    assert (spy.y[split.train] != dataset.labels[split.train]).mean() == 0.5
    np.testing.assert_array_equal(spy.y[split.stop], dataset.labels[split.stop])
    assert (spy.y[split.test] == -1).all()
    assert spy.graph is dataset.graph
    assert (run.accuracy, run.stop_accuracy) == (clean.accuracy, clean.stop_accuracy)
    assert (run.noise_kind, run.noise, run.steps) == ("label", 0.5, 10)


@pytest.mark.parametrize("kind", ["label", "pair"])
def test_wrong_stopping_labels_leave_the_training_labels_as_they_are(kind):
    dataset, spies = make_dataset(), []
    for noise_kind in (kind, f"{kind}-and-stop"):
        method = Method("spy", "sees its labels", Spy)
        spies.append(run_once(dataset, method, SMALL, 5, 0, noise_kind=noise_kind, noise=0.5)[1])
    clean, noisy = spies
    training = np.setdiff1d(np.flatnonzero(clean.y >= 0), clean.stopping)
    np.testing.assert_array_equal(clean.y[training], noisy.y[training])
    assert (clean.y[training] != dataset.labels[training]).mean() == 0.5
    stop = clean.stopping
    np.testing.assert_array_equal(clean.y[stop], dataset.labels[stop])
    wrong = stop[noisy.y[stop] != dataset.labels[stop]]
    assert 0.3 < len(wrong) / len(stop) < 0.7
    if kind == "pair":
        np.testing.assert_array_equal(noisy.y[wrong], (dataset.labels[wrong] + 1) % 3)


def test_labels_alone_are_all_that_is_given():
    dataset = make_dataset()
    split = SMALL.split(dataset, 11)
    run, spy = run_once(dataset, SPY, SMALL, 11, 0, labels_alone=True)
    np.testing.assert_array_equal(np.flatnonzero(spy.y >= 0), np.sort(split.train))
    assert spy.stopping.item() is None
    assert run.labels_alone
    assert Run.from_json(run.to_json()) == run
    assert not run_once(dataset, SPY, SMALL, 11, 0)[0].labels_alone


@pytest.mark.parametrize("noise", [("edge", 0.1), ("label", None), (None, 0.1)])
def test_noise_has_a_kind_and_a_rate(noise):
    with pytest.raises(InvalidInputError, match='"structure", "label" or "pair"'):
        run_once(make_dataset(), SPY, SMALL, 11, 0, noise_kind=noise[0], noise=noise[1])


def test_a_method_without_a_graph_is_given_none():
    _, spy = run_once(make_dataset(), replace(SPY, uses_graph=False), SMALL, 11, 0)
    assert spy.graph is None


@pytest.mark.filterwarnings("error")
def test_unreached_nodes_are_no_news_but_other_warnings_are():
    dataset = make_dataset()
    empty = replace(dataset, graph=Graph(sp.csr_array((80, 80))))
    run, clf = run_once(empty, METHODS["LP"], SMALL, 11, 0)
    assert not clf.reached_.all()
    assert (run.epochs, run.best_epoch) == (0, -1)

    class Loud(Spy):
        def fit(self, *given, **named):
            import warnings

            warnings.warn("something else", UserWarning, stacklevel=1)

    with pytest.raises(UserWarning, match="something else"):
        run_once(dataset, Method("loud", "", Loud), SMALL, 11, 0)


def test_seeds_of_tests_and_of_tuning():
    assert Protocol().seeds(2) == [(2144199730, 0), (794209841, 0)]
    assert Protocol(for_tuning=True).seeds(1) == [(VALIDATION_SEEDS[0], 0)]
    for for_tuning in (False, True):
        run, _ = run_once(make_dataset(), SPY, replace(SMALL, for_tuning=for_tuning), 11, 0)
        assert run.validation is for_tuning
    assert Protocol().seeds(41) == [(s, i) for i in range(2) for s in TEST_SEEDS] + [
        (TEST_SEEDS[0], 2)
    ]
    assert not set(TEST_SEEDS) & set(VALIDATION_SEEDS)


def test_the_split_is_the_protocols():
    dataset = make_dataset()
    for for_tuning in (False, True):
        protocol = replace(SMALL, for_tuning=for_tuning)
        made = protocol.split(dataset, 5)
        expected = split_nodes(
            dataset.labels, 5, n_known=30, per_class=4, n_stop=10, for_tuning=for_tuning
        )
        for part in ("train", "stop", "test"):
            np.testing.assert_array_equal(getattr(made, part), getattr(expected, part))
    assert (Protocol().n_known, Protocol().per_class, Protocol().n_stop) == (1500, 20, 500)


def test_all_runs_come_in_order_with_every_method_on_every_split():
    runs = [r for r, _ in run_all(make_dataset(), [SPY, METHODS["LP"]], SMALL, 2)]
    assert [(r.method, r.split_seed, r.init_seed) for r in runs] == [
        (name, seed, 0) for seed in TEST_SEEDS[:2] for name in ("spy", "LP")
    ]


def test_what_has_no_initialisation_runs_once_on_a_split():
    """Copies of a run would pass for more of them, and narrow the interval."""
    runs = [r for r, _ in run_all(make_dataset(), [SPY, METHODS["LP"]], SMALL, 41)]
    own = {name: [r for r in runs if r.method == name] for name in ("spy", "LP")}
    assert [(r.split_seed, r.init_seed) for r in own["spy"]] == SMALL.seeds(41)
    assert [(r.split_seed, r.init_seed) for r in own["LP"]] == SMALL.seeds(20)
    spy, lp = summarise(runs)
    assert (len(spy.accuracies), len(lp.accuracies)) == (41, 20)


# --- the protocol for a graph of one's own ----------------------------------------------------


@pytest.mark.parametrize(
    ("n", "unlabelled", "per_class", "expected"),
    [
        (80, 0, 4, (40, 4, 14)),  # half of 80 known, half of the 28 that do not train stop
        (81, 1, 4, (40, 4, 14)),
        (81, 40, 4, (20, 4, 4)),
        (4000, 0, 20, (1500, 20, 500)),  # the paper's numbers are the most there can be
        (2000, 0, 20, (1000, 20, 470)),
    ],
)
def test_numbers_follow_the_number_of_labels(n, unlabelled, per_class, expected):
    labels = np.where(np.arange(n) < unlabelled, -1, np.arange(n) % 3)
    graph = Graph(sp.csr_array((n, n)))
    dataset = Dataset(graph=graph, features=np.ones((n, 1)), labels=labels)
    protocol = protocol_for(dataset, per_class=per_class, alpha=0.3, for_tuning=True)
    assert protocol == Protocol(*expected, 0.3, True)
    split = protocol.split(dataset, 1)
    assert (len(split.train), len(split.stop)) == (3 * per_class, expected[2])


def test_a_class_with_one_node_cannot_be_measured():
    dataset = make_dataset()
    labels = dataset.labels.copy()
    labels[labels == 1] = 0
    labels[7] = 1
    message = "Class 'b' has 1 labelled nodes; at least two are needed.*Merge it with another"
    with pytest.raises(LabelError, match=message):
        protocol_for(replace(dataset, labels=labels), per_class=1)


def test_too_many_training_nodes_per_class():
    message = (
        "20 training nodes for each of 3 classes are too many: half of the 80 labelled nodes.*"
        "leaves 40. Ask for at most 12 per class"
    )
    with pytest.raises(LabelError, match=message):
        protocol_for(make_dataset())
    assert protocol_for(make_dataset(), per_class=12).n_stop == 2
    with pytest.raises(LabelError, match="13 training nodes"):
        protocol_for(make_dataset(), per_class=13)


def test_too_many_training_nodes_where_labels_are_plenty():
    n, n_classes = 20_000, 100
    graph, labels = Graph(sp.csr_array((n, n))), np.arange(n) % n_classes
    dataset = Dataset(graph=graph, features=np.ones((n, 1)), labels=labels)
    message = "are too many: the labels of at most 1,500 nodes are known.* at most 14 per class"
    with pytest.raises(LabelError, match=message) as told:
        protocol_for(dataset)
    assert "half" not in str(told.value)


def test_too_few_labels_for_any_split():
    dataset = make_dataset()
    labels = np.full_like(dataset.labels, -1)
    labels[:6] = [0, 0, 1, 1, 2, 2]
    with pytest.raises(LabelError, match=r"which leaves 3\. Label more nodes"):
        protocol_for(replace(dataset, labels=labels), per_class=1)


# --- statistics -------------------------------------------------------------------------------


def test_the_interval_is_that_of_a_thousand_resamples():
    values = [0.81, 0.84, 0.79, 0.9, 0.83]
    told = bootstrap_mean(values)
    random = np.random.default_rng(0)
    means = sorted(sum(random.choice(values, 5)) / 5 for _ in range(1000))
    assert told.mean == pytest.approx(0.834)
    low, high = np.percentile(means, [2.5, 97.5])
    assert (told.low, told.high) == pytest.approx((low, high), abs=1e-12)
    assert told.half_width == pytest.approx((high - low) / 2)
    assert 0.79 < told.low < told.mean < told.high < 0.9


def test_the_interval_depends_on_its_seed_alone():
    values = np.random.RandomState(0).rand(10)
    assert bootstrap_mean(values) == bootstrap_mean(values)
    assert bootstrap_mean(values, seed=1) != bootstrap_mean(values)
    assert bootstrap_mean(values, n_resamples=10) != bootstrap_mean(values)
    before = np.random.get_state()[1].copy()
    bootstrap_mean(values)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_one_value_has_no_interval():
    alone = bootstrap_mean([0.7])
    assert alone.mean == 0.7
    assert np.isnan([alone.low, alone.high, alone.half_width]).all()
    both_alike = bootstrap_mean([0.7, 0.7])
    assert both_alike.low == both_alike.high == pytest.approx(0.7)


def test_clusters_are_resampled_whole():
    means = [0.81, 0.84, 0.79, 0.9, 0.83]
    spread = [[mean - 0.1, mean, mean + 0.1] for mean in means]
    told, expected = bootstrap_clusters(spread), bootstrap_mean(means)
    assert (told.mean, told.low, told.high) == pytest.approx(
        (expected.mean, expected.low, expected.high)
    )
    repeated = bootstrap_clusters([[mean] * 5 for mean in means])
    assert repeated.half_width == pytest.approx(expected.half_width)
    assert bootstrap_mean(means * 5).half_width < 0.6 * expected.half_width


def test_the_p_value_is_that_of_a_paired_t_test():
    random = np.random.RandomState(0)
    first, second = random.rand(12), random.rand(12)
    differences = first - second
    t = differences.mean() / (differences.std(ddof=1) / np.sqrt(12))
    expected = 2 * stats.t.sf(abs(t), df=11)
    assert paired_p_value(first, second) == pytest.approx(expected, rel=1e-12)
    assert paired_p_value(second, first) == pytest.approx(expected, rel=1e-12)
    assert np.isnan(paired_p_value([0.5, 0.7], [0.5, 0.7]))  # no spread: nothing to test
    with pytest.raises(InvalidInputError, match=r"as many values on one side.* got 2 and 1"):
        paired_p_value([0.5, 0.7], [0.5])


def made_run(method, accuracy, seconds=1.0, epochs=10):
    return Run("small", method, 1, 0, accuracy, 0.5, epochs, 3, seconds)


def test_a_summary_for_each_method_in_the_order_they_ran():
    runs = [
        made_run("PTA", 0.8, seconds=1, epochs=10),
        made_run("LP", 0.7, seconds=5, epochs=0),
        made_run("PTA", 0.9, seconds=9, epochs=40),
        made_run("PTA", 0.7, seconds=2, epochs=15),
    ]
    pta, lp = summarise(runs)
    assert (pta.method, pta.accuracies) == ("PTA", (0.8, 0.9, 0.7))
    assert pta.estimate == bootstrap_mean([0.8, 0.9, 0.7])
    assert pta.to_json() == {
        "mean": pta.estimate.mean,
        "low": pta.estimate.low,
        "high": pta.estimate.high,
        "runs": 3,
        "median_seconds": 2,
        "median_epochs": 15,
    }
    assert (lp.method, lp.accuracies) == ("LP", (0.7,))
    told = lp.to_json()
    assert (told["mean"], told["low"], told["high"], told["runs"]) == (0.7, None, None, 1)
    assert summarise([]) == ()
    with pytest.raises(FrozenInstanceError):
        lp.method = "MLP"


# --- methods ----------------------------------------------------------------------------------


PTA_OF_PLUS = {
    "n_rounds": 0,
    "trust": False,
    "balance": 0.0,
    "mass_per_class": None,
    "scale_features": False,
    "keep_sizes": False,
    "fall_back": False,
}


def test_the_other_reading_of_noe_is_trained_and_stopped_as_appnp_and_told_without_the_graph():
    dataset = make_dataset()
    split = split_nodes(dataset.labels, TEST_SEEDS[0], n_known=30, per_class=4, n_stop=10)
    given = np.full(dataset.n_nodes, -1)
    given[split.train], given[split.stop] = dataset.labels[split.train], dataset.labels[split.stop]
    with_graph, alone = (
        METHODS[name]
        .make(alpha=0.25, steps=10, seed=0)
        .set_params(max_epochs=30)
        .fit(dataset.features, given, graph=dataset.graph, stopping=split.stop)
        for name in ("APPNP", "noe stopped by ensemble")
    )
    for name, weights in with_graph.weights_.items():
        np.testing.assert_array_equal(alone.weights_[name], weights)
    first, second = alone.weights_["f.weight1"], alone.weights_["f.weight2"]
    scores = np.maximum(dataset.features @ first, 0) @ second
    told = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(alone.label_distributions_, told, atol=1e-5)
    assert np.abs(with_graph.label_distributions_ - told).max() > 0.01


def test_the_other_networks_of_noe_have_biases():
    dataset = make_dataset()
    given = np.where(np.arange(dataset.n_nodes) % 2, dataset.labels, -1)
    without, with_biases = (
        METHODS[name]
        .make(alpha=0.25, steps=10, seed=0)
        .set_params(max_epochs=2)
        .fit(dataset.features, given, graph=dataset.graph)
        .weights_
        for name in ("APPNP-noe", "noe with biases")
    )
    assert with_biases.keys() - without.keys() == {"f.bias1", "f.bias2"}


@pytest.mark.parametrize(
    ("name", "weighting"),
    [("PTA, gamma at most 1", Adaptive(limit=1.0)), ("PTA, gamma of 0.3", Constant(0.3))],
)
def test_other_gammas_are_those_that_their_names_say(name, weighting):
    dataset = make_dataset()
    given = np.where(np.arange(dataset.n_nodes) % 2, dataset.labels, -1)
    named, wanted, pta = (
        method.make(alpha=0.25, steps=10, seed=0)
        # Of so many epochs gamma passes 1 before the last.
        .set_params(max_epochs=250, patience=250, **changed)
        .fit(dataset.features, given, graph=dataset.graph)
        for method, changed in (
            (METHODS[name], {}),
            (METHODS["PTA"], {"weighting": weighting}),
            (METHODS["PTA"], {}),
        )
    )
    assert named.history_.train_loss == wanted.history_.train_loss != pta.history_.train_loss


def test_methods_have_the_papers_settings():
    made = {
        method.name: method.make(alpha=0.2, steps=3, seed=7)
        for method in find_methods(list(METHODS))
    }
    assert isinstance(made["LP"], LabelPropagationClassifier)
    assert isinstance(made["C&S"], CorrectAndSmoothClassifier)
    own = {"alpha": 0.2, "steps": 3, "random_state": 7}
    different = {
        "PTA": {**own},
        "PTA(F)": {**own, "fast": True},
        "PTS": {**own, "weighting": "static"},
        "PTS lr 0.01": {**own, "weighting": "static", "learning_rate": 0.01},
        "APPNP-noa-nof": {**own, "weighting": "static", "equal_hops": 2},
        "noa-nof 1 hop": {**own, "weighting": "static", "equal_hops": 1},
        "noa-nof 3 hops": {**own, "weighting": "static", "equal_hops": 3},
        "noa-nof 4 hops": {**own, "weighting": "static", "equal_hops": 4},
        "noa-nof 5 hops": {**own, "weighting": "static", "equal_hops": 5},
        "noa-nof 2 hops lr 0.01": {
            **own,
            "weighting": "static",
            "equal_hops": 2,
            "learning_rate": 0.01,
        },
        "PTD": {**own, "weighting": "dynamic", "loss_weight": 10.0},
        "PTA+": {**own},
        "PTA, fixed mass": {**own, **PTA_OF_PLUS, "mass_per_class": 70.0},
        "PTA, trust": {**own, **PTA_OF_PLUS, "trust": True},
        "PTA, unclamped": {**own, **PTA_OF_PLUS, "clamp": False},
        "PTA, mass^0.5": {**own, **PTA_OF_PLUS, "mass_per_class": 70.0, "mass_power": 0.5},
        "PTA, balance": {**own, **PTA_OF_PLUS, "mass_per_class": 70.0, "balance": 10.0},
        "PTA, 3 networks": {**own, **PTA_OF_PLUS, "n_networks": 3},
        "PTA, 1 round": {**own, **PTA_OF_PLUS, "n_rounds": 1},
        "PTA, 2 rounds": {**own, **PTA_OF_PLUS, "n_rounds": 2},
        "PTA, 2 rounds, S_j": {**own, **PTA_OF_PLUS, "n_rounds": 2, "learnt_trust": True},
        "PTA, last of 2 rounds": {
            **own,
            **PTA_OF_PLUS,
            "n_rounds": 2,
            "average_rounds": False,
        },
        "PTA, scaled features": {**own, **PTA_OF_PLUS, "scale_features": True},
        "PTA, sizes kept": {**own, **PTA_OF_PLUS, "keep_sizes": True},
        "PTA, fall-back": {**own, **PTA_OF_PLUS, "fall_back": True},
        "PTA, gamma at most 1": {**own, "weighting": made["PTA, gamma at most 1"].weighting},
        "PTA, gamma of 0.3": {**own, "weighting": made["PTA, gamma of 0.3"].weighting},
        "PTA, dropout 0.5, features too": {**own, "dropout": 0.5},
        "PTA+, natural mass": {**own, "mass_per_class": None},
        "PTA+, no trust": {**own, "trust": False},
        "PTA+, no balance": {**own, "balance": 0.0},
        "PTA+, 1 round": {**own, "n_rounds": 1},
        "PTA+, no limit of gamma": {**own, "max_gamma": math.inf},
        "APPNP": {**own, "architecture": "APPNP"},
        "APPNP#": {**own, "architecture": "APPNP", "edge_dropout": 0.5},
        "APPNP-noe": {**own, "architecture": "APPNP", "ensemble": False},
        "noe stopped by ensemble": {**own, "architecture": "APPNP"},
        "noe with biases": {**own, "architecture": "APPNP", "ensemble": False},
        "PPNP": {"architecture": "PPNP", "alpha": 0.2, "random_state": 7},
        **{
            name: {"architecture": name, "random_state": 7}  # no restart, and steps of their own
            for name in ("GCN", "SGCN", "DAGNN", "MLP")
        },
    }
    for name, settings in different.items():
        usual = type(made[name])().get_params()
        assert made[name].get_params() == {**usual, "device": "cpu", **settings}
    appnp = GNNClassifier()
    assert (appnp.learning_rate, appnp.dropout, appnp.weight_decay) == (0.01, 0.5, 0.005)
    assert made.keys() == {*different, "LP", "C&S"}
    assert {clf.device for clf in made.values()} == {"cpu"}  # the same on every machine
    assert [m.name for m in METHODS.values() if not m.uses_graph] == ["MLP"]
    assert [m.name for m in METHODS.values() if not m.trains] == ["LP"]


def test_methods_are_found_in_any_case_and_in_the_order_asked():
    assert [m.name for m in find_methods(["pta(f)", "lp", "Pta"])] == ["PTA(F)", "LP", "PTA"]
    assert [m.name for m in find_methods(["LP", "PTA", "lp"])] == ["LP", "PTA"]  # each once
    assert [m.name for m in find_methods(["PTAplus", "pta+"])] == ["PTA+"]
    message = r"The method must be one of LP, MLP, .* PTD, PTA, PTA\(F\), PTA\+; got 'GAT'"
    with pytest.raises(InvalidInputError, match=message):
        find_methods(["PTA", "GAT"])


def test_variants_can_be_named_but_are_not_listed():
    (variant,) = find_methods(["pts LR 0.01"])
    assert variant.variant
    with pytest.raises(InvalidInputError) as told:
        find_methods(["GAT"])
    listed = [m.name for m in METHODS.values() if not m.variant]
    assert f"one of {', '.join(listed)}; got" in str(told.value)
    assert not any(m.name in str(told.value) for m in METHODS.values() if m.variant)
