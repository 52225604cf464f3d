"""The three steps by a crew: blocks in, blocks out, and no matrix of nodes and classes here.

The same functions as `fit_from_disk` calls, in the same order and with the same random numbers.
Signals are made where they are needed, block by block, from what lies in shared folders; what the
next step needs is written there by whoever has computed it. Here are labels and flags of the nodes,
one number each, the network, and features if they were given as a matrix in memory. Whoever trains
with epochs that are judged by the ensemble has its predictions of all nodes.
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

from proptrain.classifier import is_reached
from proptrain.data.row_parts import RowParts, numbered_from, part_name
from proptrain.data.shared import SharedFile, SharedFolder
from proptrain.data.shared_features import (
    FeatureSource,
    check_feature_rows,
    check_feature_source,
    count_features,
    shared_features,
)
from proptrain.data.shared_graph import SharedGraph
from proptrain.ensemble.predictions import spread_or_own
from proptrain.errors import UnreadableFileError, UnwritableOutputError
from proptrain.estimator import PTAClassifier
from proptrain.kernels import OnStep
from proptrain.large.from_disk import (
    N_PROPAGATIONS,
    FittedFromDisk,
    batch_row_bytes,
    check_able,
    fitting_batch_size,
    roles_of,
)
from proptrain.problem import random_of
from proptrain.propagate.cluster import ClusterEngine, Crew, Reference
from proptrain.propagate.labels import one_hot
from proptrain.propagate.normalisation import Normalisation
from proptrain.propagate.schemes import Scheme
from proptrain.system.files import working_folder
from proptrain.train.backend import KERNELS
from proptrain.train.loop import (
    OnEpoch,
    Trained,
    TrainSettings,
    predict_probabilities,
    train_predictor,
)
from proptrain.train.predictor import Weights
from proptrain.train.snapshot import Keeper
from proptrain.train.stopping import ReadOut, StoppingNodes
from proptrain.train.team import Team, range_of
from proptrain.train.torch_backend import torch_backend
from proptrain.train.weighting import Weighting

_OF_EACH_NODE = 18
"""Bytes that one who trains has of every node: two flags, and two numbers of those flagged."""
SEEN = "seen"
"""A file by which machines find out whether they see the same folder."""


def check_given(classifier: PTAClassifier, features: FeatureSource, n_nodes: int) -> None:
    """Raise if a method or features cannot be used, before a cluster is asked."""
    check_able(classifier)
    check_feature_source(features, n_nodes)


@dataclass(frozen=True)
class Ensemble:
    """What epochs are judged by unless by the network alone: predictions spread over the graph."""

    graph: SharedGraph
    normalisation: Normalisation
    scheme: Scheme

    def read_out(self, crew: Crew) -> ReadOut:
        """Return what has a crew spread the predictions (n, C) of all nodes."""
        engine = ClusterEngine(self.graph, crew, self.normalisation)
        return lambda f: engine.propagate(f, self.scheme)


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
    batch_size: int | None
    ensemble: Ensemble | None = None

    def run(
        self,
        team: Team,
        keeper: Keeper | None,
        device: torch.device | None = None,
        crew: Crew | None = None,
    ) -> Trained:
        """Train, going on from the last snapshot of a keeper, if there is one.

        On a ``device`` torch computes, without one our kernels do. An ensemble is the ``crew``'s.
        One alone without a batch size makes the steps of a training in memory, to the bit.
        """
        n_nodes, trained = len(self.soft_labels), _flagged(self.trained)
        own = range_of(team, trained, n_nodes)
        features = self.features.folder.map(self.features.name, own)
        soft_labels, stop_labels = (
            cast("NDArray[np.float32]", labels.only(own))
            for labels in (self.soft_labels, self.stop_labels)
        )
        judged, read_out = _flagged(self.judged), None
        if self.ensemble is not None:
            assert crew is not None  # whoever has one to judge by has one to ask
            read_out = self.ensemble.read_out(crew)
        return train_predictor(
            cast("NDArray[np.float32]", numbered_from(own.start, features, n_nodes)),
            soft_labels,
            StoppingNodes(self.stop_nodes, self.stop_codes, stop_labels, read_out, rows=judged),
            weighting=self.weighting,
            settings=self.settings,
            seed=self.seed,
            backend=KERNELS if device is None else torch_backend(device),
            batch_size=self.batch_size or (None if team.size == 1 else n_nodes),
            team=team,
            keeper=keeper,
            trained_rows=trained,
        )


def _flagged(flags: SharedFile) -> NDArray[np.int64]:
    return np.flatnonzero(flags.folder.read(flags.name))


@dataclass(frozen=True)
class Trainers:
    """Who trains: so many processes, by our kernels or by torch, each with a GPU or without.

    One without a GPU has so many CPUs, and as many threads. With none it leaves them all to tasks
    that it waits for.
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

    @property
    def n_cpus(self) -> int:
        """CPUs of all machines together."""
        ...

    def hire(self, n_workers: int | None, device: Any, *, waits: bool = False) -> Trainers:
        """Return who trains if so many are wanted on such a device, or raise if they cannot.

        ``waits``: one process, which after each epoch waits for tasks of the crew.
        """
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
    if not shared.local.is_dir():  # made here, it would be on no other machine
        raise UnwritableOutputError(
            f"The shared folder {shared.local} does not exist. Give one that every machine sees."
        )
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
    features: FeatureSource,
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

    ``features`` is a float32 .npy file that every machine sees, or any that `open_features` opens
    here, or a matrix (n, f), of which a copy is shared; labels ``y`` (n,) are as in
    `PTAClassifier.fit`; both in the order of the graph's nodes. Soft labels, snapshots of the
    training and predictions go to ``work``, a shared folder: the result's distributions lie there.
    Training is by ``n_workers`` processes, by default one on each machine, and by one alone if the
    classifier is not ``fast``: it has the crew spread its predictions after each epoch. With its
    ``batch_size`` None it is in one step for all nodes if that fits the smallest machine, else in
    batches that do. The classifier's ``device`` is where they train: "auto" on GPUs if the cluster
    has any, "cuda" or "cpu". Labels and predictions are propagated on CPUs.
    """
    shared = graph if isinstance(graph, SharedGraph) else SharedGraph(graph)
    check_given(classifier, features, shared.n_nodes)
    random = random_of(classifier.random_state)
    codes, classes, train, stop = roles_of(classifier, y, stopping, shared.n_nodes, random)
    trainers = crew.hire(n_workers, classifier.device, waits=not classifier.fast)
    crew.see(work)
    source = shared_features(features, shared.n_nodes, work)
    shape = (shared.n_nodes, count_features(source, shared.n_nodes))
    engine = ClusterEngine(shared, crew, classifier.normalisation)
    task = _Task(engine, work, classifier, len(classes), on_step)
    task.look_at_features(source)
    soft_labels, reached = task.spread_labels("soft", codes, train)
    watched, stop_labels = train, soft_labels  # judged by what it learns from, if by nothing else
    if stop.size:
        watched, stop_labels = stop, task.spread_labels("stop", codes, stop)[0]
    else:
        task.tell(1.0)
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
        task.reached_file("stop" if stop.size else "soft"),
        watched,
        codes[watched],
        classifier._weighting(),
        classifier._settings(classifier.loss_weight),
        random.randint(2**31 - 1),
        batch_size,
        None if classifier.fast else Ensemble(shared, classifier.normalisation, task.scheme),
    )
    trained = crew.train(job, trainers, work, on_epoch)
    told = cast("NDArray[np.float32]", task.predict(source, trained.weights))
    return FittedFromDisk(classes, trained, codes, stop, told, reached, batch_size)


def check_task_room(
    classifier: PTAClassifier, graph: SharedGraph, n_classes: int, crew: Crew
) -> None:
    """Raise unless every machine of a crew has room for the tasks that a fit gives it."""
    ClusterEngine(graph, crew, classifier.normalisation).check_room(n_classes)


def trainer_bytes(
    classifier: PTAClassifier, shape: tuple[int, int], n_classes: int, memory: int
) -> int:
    """Return what those who train on a machine with so much memory need, with a batch there.

    ``shape`` is that of the features (n, f). What there is of all nodes lies in files: features,
    soft labels, and the predictions that are spread to judge an epoch by.
    """
    n_nodes, sizes = shape[0], (shape[1], classifier.n_hidden, n_classes)
    fitting = classifier.batch_size or fitting_batch_size(n_nodes, *sizes, memory) or n_nodes
    return min(fitting, n_nodes) * batch_row_bytes(*sizes) + _OF_EACH_NODE * n_nodes


@dataclass(frozen=True, eq=False)
class _Task:
    """The steps that the crew takes, and where their results go."""

    engine: ClusterEngine
    work: SharedFolder
    classifier: PTAClassifier
    n_classes: int
    on_step: OnStep | None

    def look_at_features(self, features: SharedFile) -> None:
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

    def tell(self, share: float) -> None:
        """Tell the share of a propagation that is done."""
        if self.on_step is not None:
            self.on_step(share / N_PROPAGATIONS)

    @property
    def scheme(self) -> Scheme:
        """The weights of near and far neighbours."""
        return self.classifier._scheme()

    def _spread(self, sources: list[Reference], fixed: NDArray[np.int64] | None) -> list[Reference]:
        how = (self.n_classes, np.float32, self.scheme)
        return self.engine.spread(sources, *how, fixed, self.tell)


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
