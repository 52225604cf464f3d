"""Several who train are as one; and a training goes on from a snapshot as if nothing had been."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from proptrain.errors import FileFormatError, InvalidInputError
from proptrain.train.backend import KERNELS
from proptrain.train.loop import TrainSettings, train_predictor, trained_so_far
from proptrain.train.snapshot import Snapshot
from proptrain.train.stopping import StoppingNodes
from proptrain.train.team import Alone, TorchTeam, range_of, rows_within
from proptrain.train.torch_backend import torch_backend
from thread_team import Threads, run_all

N, F, C = 60, 12, 3


def problem():
    random = np.random.RandomState(0)
    features = random.rand(N, F).astype(np.float32)
    soft, stop_soft = random.rand(2, N, C).astype(np.float32)
    soft[::5] = 0
    nodes = np.arange(1, N, 3)
    return features, soft, StoppingNodes(nodes, random.randint(0, C, len(nodes)), stop_soft)


def trained_by(size, batch_size, backend=KERNELS):
    """Train by so many threads; returns what each of them came to, and one alone."""
    team = Threads(size)
    how = {"settings": TrainSettings(max_epochs=12), "seed": 3, "batch_size": batch_size}
    how["backend"] = backend
    results = run_all(size, lambda rank: train_predictor(*problem(), **how, team=team.member(rank)))
    return results, train_predictor(*problem(), **how)


@pytest.mark.parametrize("backend", [KERNELS, torch_backend(torch.device("cpu"))])
@pytest.mark.parametrize(("size", "batch_size"), [(2, 20), (3, N), (3, 2)])
def test_a_team_comes_to_what_one_comes_to(size, batch_size, backend):
    results, alone = trained_by(size, batch_size, backend)
    for name, weight in alone.weights.items():
        for one in results:
            np.testing.assert_array_equal(one.weights[name], results[0].weights[name])
        np.testing.assert_allclose(results[0].weights[name], weight, atol=2e-4)
    for name, numbers in vars(alone.history).items():
        np.testing.assert_allclose(
            getattr(results[0].history, name), numbers, rtol=1e-4, err_msg=name
        )


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 7), st.integers(0, 3))
def test_every_node_is_in_one_range_and_each_has_as_many_rows(n_rows, n_others, size, seed):
    n_nodes = n_rows + n_others
    rows = np.sort(np.random.default_rng(seed).permutation(n_nodes)[:n_rows])
    ranges = [range_of(Alone(rank, size), rows, n_nodes) for rank in range(size)]
    assert [ranges[0].start, *(one.stop for one in ranges)] == [
        *(one.start for one in ranges),
        n_nodes,
    ]
    parts = [rows_within(one, rows) for one in ranges]
    np.testing.assert_array_equal(np.concatenate(parts), rows)
    assert np.ptp([len(part) for part in parts]) <= 1


def test_torchs_own_group_adds_up(tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        team = TorchTeam(torch.device("cpu"))
        weight, other = torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(2))
        (weight.sum() * 2).backward()
        assert (team.rank, team.size) == (0, 1)
        assert team.add_gradients([weight, other], 1.5) == 1.5
        assert weight.grad.tolist() == [[2.0] * 3] * 2
        assert other.grad.tolist() == [0.0, 0.0]
        assert team.add([1.0, 2]) == [1.0, 2.0]
    finally:
        torch.distributed.destroy_process_group()


def test_a_team_needs_batches_and_can_be_judged_by_f_alone():
    features, soft, stop = problem()
    member = Threads(2).member(0)
    with pytest.raises(InvalidInputError, match="need a batch_size"):
        train_predictor(features, soft, stop, team=member)
    watched = StoppingNodes(stop.nodes, stop.codes, stop.soft_labels, lambda f: f)
    with pytest.raises(InvalidInputError, match="without a read_out"):
        train_predictor(features, soft, watched, team=member, batch_size=20)


class Folders:
    """Keeps every snapshot in a folder of its own, and begins with the one it is told."""

    def __init__(self, place, first=None):
        self.place, self.first, self.n_saved = place, first, 0

    def load(self):
        return None if self.first is None else Snapshot.read(self.place / str(self.first))

    def save(self, snapshot):
        self.n_saved += 1
        folder = self.place / str(len(snapshot.numbers["epochs"]))
        folder.mkdir(exist_ok=True)
        snapshot.write(folder)


@pytest.mark.parametrize("backend", [KERNELS, torch_backend(torch.device("cpu"))])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("at", [1, 7, 19])
@pytest.mark.parametrize("size", [20, None])
def test_training_goes_on_from_a_snapshot_to_the_bit(tmp_path, dropout, at, size, backend):
    settings = TrainSettings(max_epochs=20, patience=5, dropout=dropout)
    how = {"settings": settings, "seed": 1, "batch_size": size, "backend": backend}
    whole, keeper = train_predictor(*problem(), **how), Folders(tmp_path)
    train_predictor(*problem(), **how, keeper=keeper)
    n_epochs = len(whole.history.train_loss)
    assert keeper.n_saved == n_epochs
    again = Folders(tmp_path, min(at, n_epochs))
    resumed = train_predictor(*problem(), **how, keeper=again)
    assert again.n_saved == n_epochs - min(at, n_epochs)
    told = trained_so_far(Snapshot.read(tmp_path / str(n_epochs)))
    for one in (resumed, told):
        assert one.best_epoch == whole.best_epoch
        assert one.history == whole.history
        for name, weight in whole.weights.items():
            np.testing.assert_array_equal(one.weights[name], weight)


@pytest.mark.parametrize("sizes", [(20, None), (None, 20)])
def test_a_snapshot_of_batches_is_none_of_a_training_without_and_the_other_way_round(
    tmp_path, sizes
):
    how = {"settings": TrainSettings(max_epochs=3), "seed": 1}
    train_predictor(*problem(), **how, batch_size=sizes[0], keeper=Folders(tmp_path))
    with pytest.raises(FileFormatError, match="snapshot of its own"):
        train_predictor(*problem(), **how, batch_size=sizes[1], keeper=Folders(tmp_path, 3))


def test_a_team_with_dropout_goes_on_from_the_snapshot_of_one_to_the_bit(tmp_path):
    """Three of 48 rows in batches of 20: their parts are of unequal length."""
    settings = TrainSettings(max_epochs=8, dropout=0.5)

    def train(first=None):
        team = Threads(3)

        def run(rank):
            keeper = Folders(tmp_path, first)
            if rank > 0:  # as on a cluster: all begin with what the first has kept
                keeper.save = lambda _: None
            how = {"settings": settings, "batch_size": 20, "keeper": keeper}
            return train_predictor(*problem(), **how, team=team.member(rank))

        return run_all(3, run)

    whole, *others = train()
    for one in (*others, *train(first=3)):
        assert one.history == whole.history
        for name, weight in whole.weights.items():
            np.testing.assert_array_equal(one.weights[name], weight)


def test_each_of_a_team_drops_its_own():
    """Of two with the same rows, neither has the other's gradients."""
    features, soft, stop = problem()
    twice = np.concatenate([features, features]), np.concatenate([soft, soft])
    watched = StoppingNodes(stop.nodes, stop.codes, twice[1])
    team, gradients = Threads(2), {}

    def run(rank):
        member = team.member(rank)
        add = member.add_gradients

        def watch(parameters, loss):
            gradients[rank] = parameters[0].grad.clone()
            return add(parameters, loss)

        member.add_gradients = watch
        settings = TrainSettings(max_epochs=1, dropout=0.5)
        return train_predictor(*twice, watched, settings=settings, batch_size=2 * N, team=member)

    run_all(2, run)
    assert not torch.equal(gradients[0], gradients[1])


def test_a_broken_snapshot_is_noticed(tmp_path):
    (tmp_path / "arrays.safetensors").write_bytes(b"nothing")
    (tmp_path / "numbers.json").write_text("{}")
    with pytest.raises(FileFormatError, match="holds no whole snapshot"):
        Snapshot.read(tmp_path)


def kept_snapshot(place, **how):
    """Train for three epochs; returns the folder of the last snapshot."""
    settings = TrainSettings(max_epochs=3, **how)
    train_predictor(*problem(), settings=settings, batch_size=20, keeper=Folders(place))
    return place / "3"


@pytest.mark.parametrize("name", ["arrays.safetensors", "numbers.json"])
def test_a_snapshot_in_which_a_bit_has_flipped_is_noticed(tmp_path, name):
    path = kept_snapshot(tmp_path) / name
    content = bytearray(path.read_bytes())
    at = content.rindex(b"best_loss") + 13 if name == "numbers.json" else len(content) - 3
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="holds no whole snapshot"):
        Snapshot.read(tmp_path / "3")


@pytest.mark.parametrize("backend", [KERNELS, torch_backend(torch.device("cpu"))])
@pytest.mark.parametrize(
    ("arrays", "numbers"),
    [
        (lambda name, found: np.ravel(found), {}),
        (lambda name, found: found if name.startswith("weights") else found[:0], {}),
        (lambda name, found: found if "mean" not in name and "avg" not in name else found[:1], {}),
        (lambda name, found: found * -1 if "step" in name else found, {}),
        (lambda name, found: found * np.float32(np.nan), {}),
        (lambda name, found: found, {"epochs": []}),
        (lambda name, found: found, {"epochs": [[1, 2]]}),
        (lambda name, found: found, {"epochs": [[1, 2, 3, 4, "5"]]}),
        (lambda name, found: found, {"stopping": {"best_epoch": 0}}),
        (
            lambda name, found: found,
            {"random": {name: {"bit_generator": "MT19937"} for name in ("batches", "dropout")}},
        ),
        (lambda name, found: found, {"random": 7}),
    ],
)
@pytest.mark.parametrize("size", [20, None])
def test_a_snapshot_of_something_else_is_not_gone_on_from(tmp_path, backend, arrays, numbers, size):
    settings = TrainSettings(max_epochs=3)
    how = {"batch_size": size, "backend": backend}
    train_predictor(*problem(), settings=settings, keeper=Folders(tmp_path), **how)
    found = Snapshot.read(tmp_path / "3")
    changed = {name: arrays(name, array) for name, array in found.arrays.items()}
    Snapshot(changed, {**found.numbers, **numbers}).write(tmp_path / "3")
    with pytest.raises(FileFormatError, match="snapshot"):
        train_predictor(*problem(), keeper=Folders(tmp_path, 3), **how)
