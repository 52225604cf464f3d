"""The three steps by a crew: blocks in, blocks out, and no matrix of all nodes anywhere.

The same functions as `fit_from_disk` calls, in the same order and with the same random numbers.
Signals are made where they are needed, block by block, from what lies in shared folders; what the
next step needs is written there by whoever has computed it. Here are labels and flags of the nodes,
one number each, and the network.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from proptrain.classifier import is_reached
from proptrain.data.disk_nodes import check_rows
from proptrain.data.mapped import parts_of
from proptrain.data.row_parts import RowParts, numbered_from, part_name
from proptrain.data.shared import SharedFile, SharedFolder
from proptrain.data.shared_graph import SharedGraph
from proptrain.ensemble.predictions import spread_or_own
from proptrain.errors import InvalidInputError, UnreadableFileError
from proptrain.estimator import PTAClassifier
from proptrain.files import working_folder
from proptrain.from_disk import (
    N_PROPAGATIONS,
    FittedFromDisk,
    check_able,
    fitting_batch_size,
    roles_of,
)
from proptrain.kernels import OnStep
from proptrain.propagate.cluster import ClusterEngine, Crew, Reference
from proptrain.propagate.labels import one_hot
from proptrain.train.backend import KERNELS
from proptrain.train.loop import (
    OnEpoch,
    Trained,
    TrainSettings,
    Weights,
    predict_probabilities,
    train_predictor,
)
from proptrain.train.snapshot import Keeper
from proptrain.train.stopping import StoppingNodes
from proptrain.train.team import Team, range_of
from proptrain.train.torch_backend import torch_backend
from proptrain.train.weighting import Weighting

SEEN = "seen"
"""A file by which machines find out whether they see the same folder."""


def count_features(features: SharedFile, n_nodes: int) -> int:
    """Return how many columns features have, or say what is wrong with the file."""
    shape, dtype = features.folder.look(features.name)
    if len(shape) != 2 or shape[0] != n_nodes or dtype != np.float32:
        raise InvalidInputError(
            f"Features must be float32, with a row for each of the graph's {n_nodes:,} nodes; "
            f"{features.name} has {dtype} of shape {shape}."
        )
    return shape[1]


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """All that a process needs to train, alone or in a team; it reads what it needs for itself.

    ``trained`` and ``judged`` say of each node whether it has a soft label of either kind: whoever
    wrote those knew, and nobody has to read them all to find out. Of features and soft labels one
    of a team needs the rows of its own nodes: where a folder is not mounted, it copies those.
    """

    features: SharedFile
    soft_labels: RowParts
    stop_labels: RowParts
    trained: SharedFile
    judged: SharedFile
    stop_nodes: NDArray[np.int64]
    stop_codes: NDArray[np.int64]
    weighting: Weighting
    settings: TrainSettings
    seed: int
    batch_size: int

    def run(self, team: Team, keeper: Keeper | None, device: torch.device | None = None) -> Trained:
        """Train, going on from the last snapshot of a keeper, if there is one.

        On a ``device`` torch computes, without one our kernels do.
        """
        n_nodes, trained = len(self.soft_labels), _flagged(self.trained)
        own = range_of(team, trained, n_nodes)
        features = self.features.folder.map(self.features.name, own)
        soft_labels, stop_labels = (
            cast("NDArray[np.float32]", labels.only(own))
            for labels in (self.soft_labels, self.stop_labels)
        )
        judged = _flagged(self.judged)
        return train_predictor(
            cast("NDArray[np.float32]", numbered_from(own.start, features, n_nodes)),
            soft_labels,
            StoppingNodes(self.stop_nodes, self.stop_codes, stop_labels, rows=judged),
            weighting=self.weighting,
            settings=self.settings,
            seed=self.seed,
            backend=KERNELS if device is None else torch_backend(device),
            batch_size=self.batch_size,
            team=team,
            keeper=keeper,
            trained_rows=trained,
        )


def _flagged(flags: SharedFile) -> NDArray[np.int64]:
    return np.flatnonzero(flags.folder.read(flags.name))


@dataclass(frozen=True)
class Trainers:
    """Who trains: so many processes, by our kernels or by torch, each with a GPU or without.

    One without a GPU has so many CPUs, and as many threads.
    """

    n_processes: int
    by_torch: bool = False
    on_gpus: bool = False
    n_cpus: int = 1


class TrainingCrew(Crew, Protocol):
    """A crew that can also train."""

    @property
    def machine_memory(self) -> int:
        """Bytes that processes may have on the smallest machine."""
        ...

    def hire(self, n_workers: int | None, device: Any) -> Trainers:
        """Return who trains if so many are wanted on such a device, or raise if they cannot."""
        ...

    def train(
        self,
        job: TrainingJob,
        trainers: Trainers,
        storage: SharedFolder,
        on_epoch: OnEpoch | None = None,
    ) -> Trained:
        """Have processes train together, with snapshots in a shared folder.

        ``on_epoch`` is told each epoch once and in order, about when it is over.
        """
        ...

    def see(self, folder: SharedFolder) -> None:
        """Raise unless every machine sees a folder and what is written to it."""
        ...


def sees(folder: SharedFolder) -> bool:
    """Tell whether what was written to a folder elsewhere can be read here."""
    try:
        return bytes(folder.read_bytes(SEEN)) == SEEN.encode()
    except UnreadableFileError:
        return False


@contextmanager
def work_folder(beside: str | Path) -> Iterator[SharedFolder]:
    """Yield a new folder in a shared one for what is not finished; it is gone afterwards.

    What killed processes of this machine have left there goes as well, where it is mounted.
    """
    shared = SharedFolder(beside)
    if shared.local is None:  # nobody can tell there whether what was left is still needed
        with _made(shared.within(f".proptrain-{secrets.token_hex(8)}")) as folder:
            yield folder
        return
    with working_folder(shared.local) as path, _made(SharedFolder(path)) as folder:
        yield folder


@contextmanager
def _made(folder: SharedFolder) -> Iterator[SharedFolder]:
    folder.make()
    try:
        yield folder
    finally:
        folder.remove()


def fit_on_cluster(
    classifier: PTAClassifier,
    graph: SharedGraph | str | Path,
    features: str | Path,
    y: Any,
    crew: TrainingCrew,
    work: SharedFolder,
    *,
    n_workers: int | None = None,
    stopping: Any = None,
    on_epoch: OnEpoch | None = None,
    on_step: OnStep | None = None,
) -> FittedFromDisk:
    """Fit a classifier's method and settings to a graph in a shared folder, by a crew.

    ``features`` is a float32 .npy file that every machine sees; labels ``y`` (n,) are as in
    `PTAClassifier.fit`; both in the order of the graph's nodes. Soft labels, snapshots of the
    training and predictions go to ``work``, a shared folder: the result's distributions lie there.
    Training is by ``n_workers`` processes, by default one on each machine; with the classifier's
    ``batch_size`` None in one step for all nodes if that fits the smallest machine, else in batches
    that do. The classifier's ``device`` is where they train: "auto" on GPUs if the cluster has any,
    "cuda" or "cpu". Labels and predictions are propagated on CPUs.
    """
    shared = graph if isinstance(graph, SharedGraph) else SharedGraph(graph)
    source = SharedFile.at(features)
    shape = (shared.n_nodes, count_features(source, shared.n_nodes))
    check_able(classifier, shape, shared.n_nodes)
    if not classifier.fast:
        raise InvalidInputError(
            "On a cluster training must be stopped by the network alone (fast=True); this method "
            "judges every epoch by an ensemble over the whole graph. Use PTA(F) instead: "
            '--method "PTA(F)".'
        )
    random = check_random_state(classifier.random_state)
    codes, classes, train, stop = roles_of(classifier, y, stopping, shared.n_nodes, random)
    trainers = crew.hire(n_workers, classifier.device)
    crew.see(work)
    engine = ClusterEngine(shared, crew, classifier.normalisation)
    task = _Task(engine, work, classifier, len(classes), on_step)
    task.check_features(source)
    watched = stop if stop.size else train
    soft_labels, reached = task.spread_labels("soft", codes, train)
    stop_labels, _ = task.spread_labels("stop", codes, watched)
    # Whoever trains on a machine has at most a batch between them: its size is no matter of how
    # many they are, and so is the model.
    batch_size = classifier.batch_size or fitting_batch_size(
        *shape, classifier.n_hidden, len(classes), crew.machine_memory
    )
    job = TrainingJob(
        source,
        soft_labels,
        stop_labels,
        task.reached_file("soft"),
        task.reached_file("stop"),
        watched,
        codes[watched],
        classifier._weighting(),
        classifier._settings(classifier.loss_weight),
        random.randint(2**31 - 1),
        batch_size or shared.n_nodes,
    )
    trained = crew.train(job, trainers, work, on_epoch)
    told = cast("NDArray[np.float32]", task.predict(source, trained.weights))
    return FittedFromDisk(classes, trained, codes, stop, told, reached, batch_size)


@dataclass(frozen=True, eq=False)
class _Task:
    """The steps that the crew takes, and where their results go."""

    engine: ClusterEngine
    work: SharedFolder
    classifier: PTAClassifier
    n_classes: int
    on_step: OnStep | None

    def check_features(self, features: SharedFile) -> None:
        """Have all features looked at, before anything is made of them."""
        crew = self.engine.crew
        # As many rows as a block has: whose they are does not matter here, and a run is read fast.
        checks = [
            crew.call(check_feature_rows, features, rows, apart=True)[0]
            for rows in self.engine.rows
        ]
        crew.get(checks)

    def spread_labels(
        self, name: str, codes: NDArray[np.int64], known: NDArray[np.int64]
    ) -> tuple[RowParts, NDArray[np.bool_]]:
        """Have labels propagated; returns them, and which nodes they reached: both are written."""
        crew, graph = self.engine.crew, self.engine.graph
        spoken = np.full(graph.n_nodes, -1, np.int64)
        spoken[known] = codes[known]
        sources = [
            crew.call(label_rows, spoken[graph.nodes(rows)], self.n_classes)[0]
            for rows in self.engine.rows
        ]
        told = self._spread(sources, known if self.classifier.clamp else None)
        del sources
        flags = [
            crew.call(keep_labels, self.work, part_name(name, number), told.pop(0))[0]
            for number in range(graph.n_blocks)
        ]
        reached = np.zeros(graph.n_nodes, dtype=bool)
        for rows, flag in zip(self.engine.rows, crew.get(flags), strict=True):
            reached[graph.nodes(rows)] = flag
        self.work.write(self.reached_file(name).name, reached)
        return RowParts(graph, self.work, name, self.n_classes), reached

    def reached_file(self, name: str) -> SharedFile:
        """Return where it is written which nodes some labels reached."""
        return SharedFile(self.work, f"{name}-reached.npy")

    def predict(self, features: SharedFile, weights: Weights) -> RowParts:
        """Have every node told by the network, and that propagated and written."""
        crew, graph = self.engine.crew, self.engine.graph
        network = crew.put(weights)
        own = [
            crew.call(tell_rows, network, features, graph.nodes(rows), apart=True)[0]
            for rows in self.engine.rows
        ]
        told = self._spread(own, None)
        crew.get(
            [
                crew.call(keep_predictions, self.work, part_name("told", number), *scores)[0]
                for number, scores in enumerate(zip(told, own, strict=True))
            ]
        )
        return RowParts(graph, self.work, "told", self.n_classes)

    def _spread(self, sources: list[Reference], fixed: NDArray[np.int64] | None) -> list[Reference]:
        def tell(share: float) -> None:
            if self.on_step is not None:
                self.on_step(share / N_PROPAGATIONS)

        scheme = self.classifier._scheme()
        return self.engine.spread(sources, self.n_classes, np.float32, scheme, fixed, tell)


def check_feature_rows(features: SharedFile, rows: slice) -> int:
    """Raise unless the features of some rows can be computed with; returns how many rows."""
    shape, dtype = features.folder.look(features.name)
    for part in parts_of(rows.stop - rows.start, shape[1] * dtype.itemsize):
        some = slice(rows.start + part.start, rows.start + part.stop)
        check_rows(features.folder.read_rows(features.name, some), features.name, some)
    return int(rows.stop - rows.start)


def label_rows(codes: NDArray[np.int64], n_classes: int) -> NDArray[np.float32]:
    """Return the one-hot rows of some nodes; -1 is without a label."""
    return one_hot(codes, np.flatnonzero(codes >= 0), n_classes)


def tell_rows(
    weights: Weights, features: SharedFile, nodes: slice | NDArray[Any]
) -> NDArray[np.float32]:
    """Return f(X) of some nodes, whose features are read from where they lie."""
    rows = features.folder.read_rows(features.name, nodes)
    if not len(rows):
        return np.zeros((0, weights["weight2"].shape[1]), np.float32)
    return predict_probabilities(weights, rows)


def keep_labels(
    work: SharedFolder, name: str, soft_labels: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Write soft labels; returns which nodes have any."""
    work.write(name, soft_labels)
    return is_reached(soft_labels)


def keep_predictions(
    work: SharedFolder, name: str, scores: NDArray[np.float32], own: NDArray[np.float32]
) -> int:
    """Write the predictions of a block of nodes as distributions; returns how many."""
    work.write(name, spread_or_own(scores, own).astype(np.float32))
    return len(own)
