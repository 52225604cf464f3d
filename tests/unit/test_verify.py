"""The paper's identities on real graphs: they hold, and each check would notice if they did not."""

import json
import math
import os
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import reference
from commands import runner
from proptrain.data.catalog import CATALOG, load_dataset
from proptrain.data.dataset import Dataset
from proptrain.data.graph import Graph
from proptrain.data.splits import TEST_SEEDS, split_nodes
from proptrain.errors import LabelError
from proptrain.insight import identities, sides
from proptrain.insight.identities import CHECKS, Identity, verify_identities
from proptrain.insight.setting import _rows_of_propagation, setting_of
from proptrain.insight.sides import decoupled_gcn_weights, pair_loss, pt_weights
from proptrain.propagate.schemes import PPR
from proptrain.train.weighting import Adaptive, Constant, dynamic

PAPER_DATA = os.environ.get("PROPTRAIN_DATA")
SEED = TEST_SEEDS[0]


@pytest.fixture(scope="module")
def cora():
    return load_dataset("cora")


@pytest.fixture(scope="module")
def setting(cora):
    return setting_of(cora, alpha=0.1, steps=10, seed=SEED)


# ---------------------------------------------------------------- they hold


@pytest.mark.parametrize(
    ("alpha", "steps", "seed"), [(0.1, 10, SEED), (0.2, 2, 0), (0.5, 0, 1), (1.0, 3, 2)]
)
def test_all_hold_on_cora(cora, alpha, steps, seed):
    checked = verify_identities(cora, alpha=alpha, steps=steps, seed=seed)
    assert len(checked) == len(CHECKS) == len({identity.statement for identity in checked})
    assert [identity.statement for identity in checked if not identity.holds] == []
    # Equal to rounding, not to the bound alone; g = 1e-12 is not yet the limit.
    assert all(i.deviation < 1e-10 for i in checked if not i.is_inequality)
    assert all(i.deviation > 0.1 for i in checked if i.is_inequality)


@pytest.mark.skipif(
    not PAPER_DATA, reason="set PROPTRAIN_DATA to the folder with the paper's data sets"
)
@pytest.mark.parametrize("name", ["citeseer", "cora_ml", "pubmed", "ms_academic"])
def test_all_hold_on_the_papers_data_sets(name):
    dataset, entry = load_dataset(name, PAPER_DATA, download=False), CATALOG[name]
    checked = verify_identities(
        dataset, alpha=entry.alpha, steps=10, seed=SEED, n_known=entry.n_known
    )
    assert [identity.statement for identity in checked if not identity.holds] == []


def test_all_hold_with_dense_features_and_weighted_edges():
    random = np.random.RandomState(0)
    weights = np.triu(random.rand(90, 90) * (random.rand(90, 90) < 0.1), 1)
    dataset = Dataset(
        Graph(sp.csr_array(weights)), random.standard_normal((90, 4)), np.arange(90) % 2
    )
    checked = verify_identities(dataset, alpha=0.1, steps=5, seed=0, n_known=90)
    assert [identity.statement for identity in checked if not identity.holds] == []


def test_the_setting_is_the_protocols(cora, setting):
    train = split_nodes(cora.labels, SEED).train
    np.testing.assert_array_equal(np.sort(np.concatenate(setting.nodes)), np.sort(train))
    for code, nodes in enumerate(setting.nodes):
        assert (cora.labels[nodes] == code).all()
    np.testing.assert_allclose(setting.f.sum(axis=1), 1, rtol=1e-12)
    assert setting.f.std() > 0.05  # a network that says the same of all would prove little


def test_the_sides_are_those_of_the_reference(cora):
    """Ā, the weights and the losses, against loops over a piece of Cora small enough for them."""
    few = np.sort(np.concatenate([np.flatnonzero(cora.labels == c)[:25] for c in range(2)]))
    piece = Dataset(Graph(cora.graph.adjacency[few][:, few]), cora.features[few], cora.labels[few])
    small = setting_of(piece, alpha=0.2, steps=3, seed=0, n_known=45)
    adjacency = piece.graph.adjacency.toarray().astype(np.float64)
    step = reference.operator(adjacency, "symmetric")
    propagation = reference.combine(step, reference.ppr_coefficients(0.2, 3))
    known = np.concatenate(small.nodes)
    np.testing.assert_allclose(np.concatenate(small.rows), propagation[known], atol=1e-14)
    wanted = reference.decoupled_gcn_weights(propagation, small.f, piece.labels, known)
    got = np.concatenate(decoupled_gcn_weights(small))
    np.testing.assert_allclose(got, wanted[:, known].T, rtol=1e-10, atol=1e-15)
    loss = pair_loss(decoupled_gcn_weights(small))(small.log_f)
    assert math.isclose(
        loss, reference.pair_loss(wanted, small.f, piece.labels, known), rel_tol=1e-10
    )


# ---------------------------------------------------------------- they could fail


def rows_of_another_alpha(setting, _):
    return replace(
        setting,
        rows=tuple(
            _rows_of_propagation(setting.engine, PPR(0.1001, 10), nodes) for nodes in setting.nodes
        ),
    )


def clamped_labels(setting, _):
    broken = replace(setting)
    known, start = np.concatenate(setting.nodes), np.zeros_like(setting.f)
    for code, nodes in enumerate(setting.nodes):
        start[nodes, code] = 1
    clamped = setting.engine.propagate(start, setting.scheme, fixed=known)
    broken.__dict__["soft_labels"] = torch.from_numpy(clamped)
    return broken


def one_step_more(setting, patch):
    patch.setattr(
        identities,
        "ensemble_predictions",
        lambda f, engine, scheme: engine.propagate(f, PPR(scheme.alpha, scheme.steps + 1)),
    )
    return setting


def coefficients_of_another_alpha(setting, patch):
    original = identities.coefficients
    patch.setattr(identities, "coefficients", lambda s: original(PPR(s.alpha + 1e-6, s.steps)))
    return setting


def weights_not_normalised(setting, patch):
    patch.setattr(identities, "decoupled_gcn_weights", lambda s: pt_weights(s, dynamic))
    return setting


def softmax_after_propagation(setting, patch):
    def loss(setting):
        def of_log_f(log_f):
            scores = sides._propagated(setting, log_f)
            logs = torch.log_softmax(scores, dim=1)
            return -sides._total(logs[mine, c] for c, mine in enumerate(setting.nodes))

        return of_log_f

    patch.setattr(identities, "decoupled_gcn_loss", loss)
    return setting


def larger_exponents(setting, patch):
    patch.setattr(identities, "Constant", lambda gamma: Constant(gamma + 1e-6))
    return setting


def far_from_the_limit(setting, patch):
    patch.setattr(identities, "NEARLY_ZERO", 1e-6)
    return setting


def a_later_epoch(setting, patch):
    patch.setattr(identities, "Adaptive", lambda: lambda f, epoch: Adaptive()(f, epoch + 1))
    return setting


def sums_made_one(weighting, epoch):
    def of_setting(setting, _):
        weights = pt_weights(setting, weighting, epoch)
        rows = zip(setting.rows, weights, strict=True)
        return replace(setting, rows=tuple(a / w.sum(axis=1, keepdims=True) for a, w in rows))

    return of_setting


BREAKS = [
    (identities.recursion_is_a_sum_of_powers, one_step_more),
    (identities.recursion_is_a_sum_of_powers, coefficients_of_another_alpha),
    (identities.coefficients_are_closed, coefficients_of_another_alpha),
    (identities.softmax_inside_adds_a_constant, rows_of_another_alpha),
    (identities.softmax_inside_adds_a_constant, softmax_after_propagation),
    (identities.decoupled_gcn_is_propagation_then_training, rows_of_another_alpha),
    (identities.decoupled_gcn_is_propagation_then_training, weights_not_normalised),
    (identities.decoupled_gcn_is_propagation_then_training, softmax_after_propagation),
    (identities.double_sum_is_the_matrix_form, rows_of_another_alpha),
    (identities.double_sum_is_the_matrix_form, clamped_labels),
    (identities.labels_count_alike_in_a_decoupled_gcn, rows_of_another_alpha),
    (identities.labels_count_alike_in_a_decoupled_gcn, weights_not_normalised),
    (identities.labels_count_differently_in_ptd, sums_made_one(dynamic, 0)),
    (identities.labels_count_differently_in_pta, sums_made_one(Adaptive(), identities.EPOCH)),
    (identities.weighting_is_generalised_cross_entropy, larger_exponents),
    (identities.generalised_cross_entropy_tends_to_cross_entropy, far_from_the_limit),
    (identities.pta_begins_as_pts, a_later_epoch),
]


def test_every_check_is_broken_below():
    assert {check for check, _ in BREAKS} == set(CHECKS)


@pytest.mark.parametrize(
    ("check", "break_it"), BREAKS, ids=[f"{c.__name__}-{b.__name__}" for c, b in BREAKS]
)
def test_each_check_can_fail(setting, monkeypatch, check, break_it):
    assert check(setting).holds
    broken = check(break_it(setting, monkeypatch))
    assert not broken.holds
    assert math.isfinite(broken.deviation)


def test_what_is_no_number_does_not_hold():
    for is_inequality in (False, True):
        assert not Identity("", "", math.nan, 1e-9, is_inequality).holds


# ---------------------------------------------------------------- the command


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    return runner(monkeypatch, capsys)


def test_the_command_shows_a_row_for_each(run):
    code, text = run("verify")
    assert code == 0
    assert text.out.count(" yes ") == len(CHECKS)
    for word in (
        "cora, alpha 0.1, 10 steps, seed 2144199730",
        "lemma 1",
        "appendix C",
        "≤ 1e-09",
        "> 0.01",
    ):
        assert word in text.out
    assert text.err == ""


def test_the_command_speaks_json(run):
    code, text = run("verify", "cora", "--steps", "2", "--alpha", "0.3", "--seed", "5", "--json")
    told = json.loads(text.out)
    assert code == 0
    assert (told["dataset"], told["alpha"], told["steps"], told["seed"]) == ("cora", 0.3, 2, 5)
    assert told["holds"] is True
    assert len(told["identities"]) == len(CHECKS)
    assert {"statement", "place", "deviation", "bound", "is_inequality", "holds"} == set(
        told["identities"][0]
    )


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_what_does_not_hold_is_exit_code_one(run, monkeypatch, words):
    original = identities.coefficients
    monkeypatch.setattr(identities, "coefficients", lambda scheme: original(scheme)[::-1])
    code, text = run("verify", *words)
    assert code == 1
    if words:
        told = json.loads(text.out)
        assert told["holds"] is False
        assert [i["place"] for i in told["identities"] if not i["holds"]] == ["appendix A"] * 2
    else:
        assert text.out.count(" NO ") == 2


def test_the_command_refuses_what_it_cannot_use(run):
    code, text = run("verify", "--alpha", "0")
    assert code == 1
    assert "alpha, the weight of the restart, must be above 0" in text.err
    assert run("verify", "--steps", "-1")[0] == 2
    code, text = run("verify", "coar")
    assert code == 1
    assert "coar" in text.err


def test_too_few_labels_are_refused(cora):
    with pytest.raises(LabelError, match="too few for 20 training"):
        verify_identities(cora, alpha=0.1, steps=10, seed=0, n_known=100)
