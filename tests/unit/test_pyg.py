"""PyTorch Geometric, the real one: soft labels on a Data, the loss as a module, the example."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
import strategies
from proptrain import PPR, Adaptive, AddSoftLabels, Power, PTLoss, dynamic, static
from proptrain.errors import InvalidInputError, LabelError, TrainingError
from proptrain.train.backend import KERNELS
from proptrain.train.learner import Targets

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch warns of its own ways when PyG is imported
    from torch_geometric.data import Data
    from torch_geometric.nn import APPNP
    from torch_geometric.nn.conv.gcn_conv import gcn_norm
    from torch_geometric.transforms import Compose, ToUndirected

EXAMPLE = Path(__file__).parents[2] / "examples" / "pyg.py"


def ring(n=8, n_known=4):
    start = torch.arange(n)
    data = Data(edge_index=torch.stack([start, (start + 1) % n]), y=start % 3, num_nodes=n)
    data.train_mask = start < n_known
    return data


@pytest.mark.parametrize("steps", [0, 1, 10])
def test_unclamped_they_are_what_pygs_appnp_makes_of_the_labels(steps):
    data = AddSoftLabels(PPR(0.2, steps), clamp=False)(ring())
    known = torch.nn.functional.one_hot(data.y, 3).float() * data.train_mask[:, None]
    edges = ToUndirected()(ring()).edge_index
    expected = APPNP(K=steps, alpha=0.2)(known, edges) if steps else known
    torch.testing.assert_close(data.soft_labels, expected)


def test_clamped_they_are_pygs_operator_with_labels_put_back():
    data = AddSoftLabels(PPR(0.2, 5))(ring())
    edges, weights = gcn_norm(ToUndirected()(ring()).edge_index, num_nodes=8)
    operator = torch.zeros(8, 8)
    operator[edges[0], edges[1]] = weights
    known = torch.nn.functional.one_hot(data.y, 3).float() * data.train_mask[:, None]
    state = known
    for _ in range(5):
        state = 0.8 * operator @ state + 0.2 * known
        state[data.train_mask] = known[data.train_mask]
    torch.testing.assert_close(data.soft_labels, state)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(strategies.adjacencies(), st.data())
def test_weights_of_edges_count(adjacency, data):
    n = len(adjacency)
    known = data.draw(strategies.node_sets(n, min_size=1))
    rows, columns = np.nonzero(adjacency)
    graph = Data(
        edge_index=torch.tensor(np.stack([rows, columns])),
        edge_weight=torch.tensor(adjacency[rows, columns]),
        y=torch.arange(n) % 2,
        num_nodes=n,
    )
    graph.known = torch.tensor(np.isin(np.arange(n), known))
    told = AddSoftLabels(PPR(0.1, 3), n_classes=2, mask="known")(graph).soft_labels
    step = reference.operator(adjacency, "symmetric")
    expected = reference.propagate_labels(step, np.arange(n) % 2, known, 2, 0.1, 3, True)
    np.testing.assert_allclose(told, expected, atol=1e-5)


def test_it_is_a_transform_that_leaves_the_data_alone_and_looks_at_no_other_label():
    data = ring()
    hidden = ring()
    hidden.y = torch.where(hidden.train_mask, hidden.y, 0)
    transform = Compose([ToUndirected(), AddSoftLabels(Power(2), n_classes=3)])
    torch.testing.assert_close(transform(data).soft_labels, transform(hidden).soft_labels)
    assert "soft_labels" not in data
    # As an attribute of the nodes it is cut with them.
    kept = transform(data).subgraph(torch.tensor([1, 5]))
    torch.testing.assert_close(kept.soft_labels, transform(data).soft_labels[[1, 5]])


@pytest.mark.parametrize(
    ("weighting", "gamma"),
    [(None, np.log(2)), (static, 0), (dynamic, 1), (Adaptive(50), np.log(3))],
)
def test_the_module_is_the_papers_loss(weighting, gamma):
    random = np.random.RandomState(0)
    scores, soft_labels = random.randn(5, 3), random.rand(5, 3)
    f = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    told = PTLoss(weighting, loss_weight=0.6)(
        torch.tensor(scores), torch.tensor(soft_labels), epoch=100
    )
    expected = 0.6 / 3 * reference.matrix_loss(soft_labels, f, gamma)
    np.testing.assert_allclose(told, expected, rtol=1e-12)


def test_its_gradient_is_the_one_that_our_own_loop_descends():
    random = np.random.RandomState(1)
    scores = torch.tensor(np.float32(random.randn(6, 4)), requires_grad=True)
    soft_labels = np.float32(random.rand(6, 4))
    PTLoss()(scores, torch.tensor(soft_labels), epoch=70).backward()
    ours = scores.grad.clone()
    scores.grad = None
    log_f, f = KERNELS.probabilities(scores)
    Targets(soft_labels, 0.05, KERNELS).loss(log_f, Adaptive()(f, 70)).backward()
    torch.testing.assert_close(ours, scores.grad)


@pytest.mark.parametrize("weighting", [None, static, lambda f, epoch: f**0.5])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -0.1])
def test_soft_labels_that_are_none_are_refused(wrong, weighting):
    soft_labels = torch.rand(5, 3)
    soft_labels[2, 1] = wrong
    with pytest.raises(
        InvalidInputError, match=rf"finite numbers, 0 or more, got {wrong}.* all are"
    ):
        PTLoss(weighting)(torch.zeros(5, 3), soft_labels)


@pytest.mark.parametrize("weighting", [None, static, lambda f, epoch: f**0.5])
@pytest.mark.parametrize("lost", [float("nan"), float("inf"), -float("inf")])
def test_a_network_that_is_lost_is_told(lost, weighting):
    scores = torch.zeros(5, 3)
    scores[2] = lost
    told = r"finite loss, but in epoch 7 it is nan\. Scale .* or lower learning_rate or loss_weight"
    with pytest.raises(TrainingError, match=told):
        PTLoss(weighting)(scores.requires_grad_(), torch.rand(5, 3), epoch=7)


def test_a_batch_without_nodes_a_compiled_loss_and_scores_of_any_finite_size_do():
    assert PTLoss()(torch.zeros(0, 3), torch.zeros(0, 3)) == 0
    whole = torch.compile(PTLoss(), fullgraph=True, backend="eager")  # which cannot look at numbers
    assert whole(torch.zeros(2, 3), torch.ones(2, 3)) == PTLoss()(
        torch.zeros(2, 3), torch.ones(2, 3)
    )
    assert torch.isfinite(PTLoss()(torch.tensor([[1e30, -1e30]]), torch.tensor([[0.0, 1.0]])))


def test_soft_labels_may_be_negative_by_rounding_or_sparse():
    scores = torch.arange(6.0).reshape(3, 2).requires_grad_()
    soft_labels = torch.tensor([[1.0, 0], [0, 0], [0.5, 3]])
    loss = PTLoss()
    wanted = loss(scores, soft_labels)
    gradient = torch.autograd.grad(wanted, scores)[0]
    for other in (soft_labels - 1e-9, soft_labels.double() - 1e-9, soft_labels.to_sparse()):
        got = loss(scores, other)
        torch.testing.assert_close(got.float(), wanted)
        torch.testing.assert_close(torch.autograd.grad(got, scores)[0], gradient)


def test_the_loss_goes_where_no_numbers_can_be_looked_at():
    scores, soft_labels, loss = torch.randn(5, 4, 3), torch.rand(5, 4, 3), PTLoss()
    each = torch.func.vmap(loss)(scores, soft_labels)
    torch.testing.assert_close(each, torch.stack([*map(loss, scores, soft_labels)]))
    assert loss(scores[0].to("meta"), soft_labels[0].to("meta")).is_meta


def test_a_sum_beyond_float16_is_told():
    scores, soft_labels = torch.zeros(200, 2, dtype=torch.float16), torch.full((200, 2), 1e3)
    with pytest.raises(TrainingError, match=r"in epoch 3 it is inf: .* Give scores\.float\(\)"):
        PTLoss()(scores, soft_labels.half(), 3)
    assert PTLoss()(scores.float(), soft_labels.half()) > 0


def test_the_example_learns_and_its_ensemble_is_better():
    example = runpy.run_path(str(EXAMPLE))
    alone, together = example["run"](epochs=60)
    assert together > alone + 0.02
    assert together > 0.78


def bad(**changes):
    data = ring()
    for name, value in changes.items():
        setattr(data, name, value)
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (bad(y=None), r"data.y must hold one class.*for each of the 8 nodes, got none"),
        (bad(y=torch.ones(8)), r"got torch.float32 of shape \(8,\)"),
        (bad(train_mask=None), "data.train_mask must say for each of the 8 nodes.*got none"),
        (bad(train_mask=torch.ones(3)), r"got shape \(3,\)"),
        (bad(train_mask=torch.zeros(8)), "must name a node to learn from"),
        (bad(train_mask=torch.arange(8)), "must be True or False for each node, got .* 0 to 7"),
        (bad(y=torch.full((8,), -1)), "class codes from 0 to"),
    ],
)
def test_what_is_wrong_with_a_data_is_said(data, message):
    with pytest.raises(LabelError, match=message):
        AddSoftLabels(n_classes=3)(data)


def test_no_class_at_all_is_not_taken_for_as_many_as_there_are():
    with pytest.raises(LabelError, match=r"n_classes must be at least 1, got 0\. Leave it out"):
        AddSoftLabels(n_classes=0)(ring())


def test_scores_and_soft_labels_of_other_nodes_are_refused():
    with pytest.raises(InvalidInputError, match=r"shape \(n, C\), got \(2, 3\) and \(5, 3\)"):
        PTLoss()(torch.zeros(2, 3), torch.zeros(5, 3))
