"""Ray, and the only file that knows it: a crew made of a Ray cluster.

Tasks go around, not actors: what a worker or a whole machine had is made again from the tasks that
made it, back to the files if need be, and nothing here has to notice. What tasks return lies in
Ray's object store, which writes to disk what does not fit; only results below 100 KB come along
with the answer. Training is ray.train's, on torch's processes, with a snapshot after each epoch.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch

from proptrain.data.shared import SharedFolder
from proptrain.errors import (
    ClusterError,
    InvalidInputError,
    NotEnoughMemoryError,
    ProptrainError,
    UnwritableOutputError,
    missing_extra,
)
from proptrain.large.cluster_address import check_answers, is_same_address
from proptrain.large.fit_cluster import SEEN, Trainers, TrainingJob, sees
from proptrain.propagate.cluster import ClusterEngine, task_room
from proptrain.propagate.normalisation import Normalisation
from proptrain.train.loop import OnEpoch, Trained, trained_so_far
from proptrain.train.snapshot import Snapshot
from proptrain.train.team import ALONE, TorchTeam

# Read when it is imported: nothing is told to others, and an error is told once, by us.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
# ray.train takes one report of a worker each time it looks, so no epoch is shorter than its 2 s.
os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2")
try:
    import ray
    from ray import exceptions
except ImportError as error:
    raise missing_extra(
        "Ray is missing; install the extra `ray` of proptrain, here and on every machine of the "
        "cluster.",
        "ray",
    ) from error

RETRIES = 5
"""How often a task is done again after its worker or machine was lost."""
PATIENCE = 4
"""How often a start of training is tried again: each waits a minute for machines, all five."""
LOOK_SECONDS = 0.5
"""How often to look which epochs are over."""
_NO_MEMORY = (MemoryError, exceptions.OutOfMemoryError, torch.OutOfMemoryError)
"""Of NumPy; of Ray, which ends processes before the system does; of a GPU."""
_OF_A_TASK = ("memory", "CPU", "object_store_memory")
"""Of a machine's resources, by Ray's names, those that tasks share."""


class RayCrew:
    """The workers of a Ray cluster; one on this machine alone if there is no address.

    Use it in a ``with`` statement: the connection, or the cluster that was started, ends with it.
    If Ray is connected already, that connection is used and left as it is.
    """

    def __init__(self, address: str | None = None) -> None:
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            _connect(address)
        else:
            _check_connected_to(address)

    def __enter__(self) -> RayCrew:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            ray.shutdown()

    @property
    def task_memory(self) -> int:
        """Bytes that a task may need, on the machine that has least for each of its CPUs."""
        return min(
            task_room(*(node["Resources"].get(name, 0) for name in _OF_A_TASK)) for node in _nodes()
        )

    @property
    def machine_memory(self) -> int:
        """Bytes that processes may have on the smallest machine, beside the object store."""
        return min(int(node["Resources"].get("memory", 0)) for node in _nodes())

    @property
    def n_cpus(self) -> int:
        """CPUs of all machines together."""
        return _room(_nodes(), "CPU")

    def put(self, value: Any) -> Any:
        """Have something kept in the object store."""
        return ray.put(value)

    def call(
        self, function: Callable[..., Any], *arguments: Any, n_results: int = 1, apart: bool = False
    ) -> list[Any]:
        """Have a function called somewhere; returns a reference to each of its results."""
        how = "SPREAD" if apart else "DEFAULT"
        called = _remote(function).options(num_returns=n_results, scheduling_strategy=how)
        told = called.remote(*arguments)
        return [told] if n_results == 1 else told

    def get(self, references: Sequence[Any]) -> list[Any]:
        """Wait for results and bring them here; raises what was raised in the making."""
        with _ours():
            return list(ray.get(list(references)))

    def see(self, folder: SharedFolder) -> None:
        """Raise unless every machine sees a folder and what is written to it."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        folder.write_bytes(SEEN, SEEN.encode())
        nodes = _nodes()
        asked = [
            _remote(sees)
            .options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False))
            .remote(folder)
            for node in nodes
        ]
        for node, is_seen in zip(nodes, self.get(asked), strict=True):
            if not is_seen:
                raise ClusterError(
                    f"Every machine must see the folder {folder.address}, but "
                    f"{node['NodeManagerAddress']} does not. Give one that all share (--shared), "
                    "mounted everywhere or such as s3://…."
                )

    def hire(self, n_workers: int | None, device: Any, *, waits: bool = False) -> Trainers:
        """Return who trains: a process on each GPU or on each machine, unless told otherwise.

        One that waits for tasks after each epoch is alone, and leaves the CPUs to them.
        """
        if waits and n_workers not in (None, 1):
            raise InvalidInputError(
                "One process trains with this method, which judges every epoch by an ensemble over "
                f"the whole graph; got --workers {n_workers}. Leave that out, or use PTA(F)."
            )
        n_workers = 1 if waits else n_workers
        nodes = _nodes()
        on_gpus = _wants_gpus(device, any(node["Resources"].get("GPU", 0) >= 1 for node in nodes))
        kind = "GPU" if on_gpus else "CPU"
        # A process has one of its own. Ray would wait for more of them to come, for ever.
        room = _room(nodes, kind)
        if n_workers is not None and not 1 <= n_workers <= room:
            raise ClusterError(
                f"Between 1 and {room} processes can train on this cluster, which has {room} "
                f"{kind}s on {len(nodes)} machines; got {n_workers}. Give fewer --workers, or add "
                "machines."
            )
        by_torch = on_gpus or isinstance(device, torch.device)
        n_processes = n_workers or (room if on_gpus else len(nodes))
        n_cpus = 0 if waits else 1 if on_gpus else _cpus_each(nodes, n_processes)
        return Trainers(n_processes, by_torch, on_gpus, n_cpus)

    def train(
        self,
        job: TrainingJob,
        trainers: Trainers,
        storage: SharedFolder,
        on_epoch: OnEpoch | None = None,
    ) -> Trained:
        """Have processes train together; epochs are told from another thread while they do."""
        if on_epoch is None:
            return self._train(job, trainers, storage, [_surrender()])
        board = _new_board()
        with _watched(board, on_epoch) as tell:
            trained = self._train(job, trainers, storage, [_surrender(), _noting(board)])
        tell(trained.history.stop_accuracy)  # all that nobody has looked at
        return trained

    def _train(
        self, job: TrainingJob, trainers: Trainers, storage: SharedFolder, callbacks: list[Any]
    ) -> Trained:
        from ray import train
        from ray.train.torch import TorchTrainer

        trainer = TorchTrainer(
            _train_in_team,
            train_loop_config={"job": job, "by_torch": trainers.by_torch},
            scaling_config=train.ScalingConfig(
                num_workers=trainers.n_processes,
                use_gpu=trainers.on_gpus,
                resources_per_worker=_resources(trainers),
                placement_strategy="SPREAD",
            ),
            run_config=train.RunConfig(
                name="training",
                storage_path=storage.address,
                failure_config=train.FailureConfig(  # type: ignore[call-arg] # an old one's stubs
                    max_failures=RETRIES, controller_failure_limit=PATIENCE
                ),
                checkpoint_config=train.CheckpointConfig(num_to_keep=2),
                callbacks=callbacks,
            ),
        )
        try:
            with _ours():
                result = trainer.fit()
        except train.TrainingFailedError as error:
            cause = getattr(error, "controller_failure", None)
            if isinstance(cause, ProptrainError):
                raise cause from error
            if isinstance(cause, OSError):  # of ray.train's own notes beside the snapshots
                raise _unwritable(storage.address, cause) from error
            _check_room(trainers)
            raise ClusterError(f"Training on the cluster failed: {error}") from error
        assert result.checkpoint is not None  # there is one after each epoch
        with result.checkpoint.as_directory() as folder:
            return trained_so_far(Snapshot.read(Path(folder)))


class RayEngine(ClusterEngine):
    """Propagates over a graph in a shared folder, by the workers of a Ray cluster.

    ``graph`` is a folder that every machine sees: a path, or an address such as s3://bucket/graph.
    ``address`` is the cluster's ("auto" finds one that runs on this machine); without one, a
    cluster of this machine alone is started. Use it in a ``with`` statement, which ends that.

    The recursion is that of every `Engine`. Not run as an example, since it needs a cluster (that
    it gives what `LocalEngine` does is in tests/e2e/test_ray.py):

    >>> with RayEngine("s3://bucket/graph", address="auto") as engine:  # doctest: +SKIP
    ...     engine.check_room(7)  # an error if a machine is too small for seven columns
    ...     engine.propagate(signal, PPR())  # signal (n, c)

    What lies with the workers need not come here: ``spread`` takes a reference to each block of the
    signal and gives one to each block of the result.

    >>> with RayEngine("s3://bucket/graph", address="auto") as engine:  # doctest: +SKIP
    ...     places = [engine.graph.nodes(rows) for rows in engine.rows]  # whose rows they are
    ...     blocks = [engine.crew.put(signal[nodes]) for nodes in places]
    ...     told = engine.spread(blocks, signal.shape[1], signal.dtype, PPR())
    ...     result = engine.room(signal.shape, signal.dtype)  # zeros (n, c)
    ...     for nodes, block in zip(places, engine.crew.get(told), strict=True):
    ...         result[nodes] = block
    """

    def __init__(
        self,
        graph: str | Path,
        normalisation: Normalisation = "symmetric",
        *,
        address: str | None = None,
        scratch: str | Path | None = None,
    ) -> None:
        self._ray = RayCrew(address)
        try:
            super().__init__(graph, self._ray, normalisation, scratch=scratch)
        except BaseException:
            self._ray.__exit__()  # nobody else can
            raise

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.__exit__()


def _connect(address: str | None) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        ray.init(address="local", include_dashboard=False, **quiet)
        return
    if address != "auto":
        check_answers(address)
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, OSError, ValueError, exceptions.RayError) as error:
        # Ray itself says of a missing token only that it could not connect.
        raise ClusterError(
            f"The Ray cluster at {address} cannot be used: {str(error).rstrip('.')}. Start one "
            "with ray start --head, and run this on one of its machines. If ray start said that "
            "token authentication is enabled, set RAY_AUTH_MODE=token here too, and have the same "
            "~/.ray/auth_token on every machine."
        ) from error


def _check_connected_to(address: str | None) -> None:
    """Raise if Ray is connected to another cluster than the one asked for."""
    if address is None or address == "auto":
        return
    connected: str = ray.get_runtime_context().gcs_address
    if is_same_address(address, connected):
        return
    raise ClusterError(
        f"Ray is connected to {connected} already, so that the cluster at {address} cannot be used "
        "from here. Leave that address out, or end the connection first: ray.shutdown()."
    )


def _nodes() -> list[dict[str, Any]]:
    """Return the machines that do tasks, of which there must be one."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    alive = [node for node in nodes if node["Alive"]]
    working = [node for node in alive if node["Resources"].get("CPU", 0) >= 1]
    if not working:
        raise ClusterError(
            f"The cluster must have a machine with a CPU for tasks, but none of its {len(alive)} "
            "has one. Add a machine (ray start --address=…), or start these with --num-cpus=1 or "
            "more."
        )
    return working


def _room(nodes: Sequence[dict[str, Any]], kind: str, each: int = 1) -> int:
    """Return for how many processes, each with so many CPUs or GPUs of its own, there is room."""
    return sum(int(node["Resources"].get(kind, 0)) // each for node in nodes)


def _cpus_each(nodes: Sequence[dict[str, Any]], n_processes: int) -> int:
    """Return how many CPUs each process can have, if every machine has as many processes."""
    on_each_machine = -(-n_processes // len(nodes))
    fewest = min(int(node["Resources"]["CPU"]) for node in nodes)
    return max(1, fewest // on_each_machine)


def _resources(trainers: Trainers) -> dict[str, float] | None:
    """Return what Ray is asked for by each process that trains; it must be something."""
    if trainers.on_gpus:
        return None  # a GPU each
    # As many threads as CPUs: Ray tells the process so.
    return {"CPU": trainers.n_cpus} if trainers.n_cpus else {"memory": 1}


def _check_room(trainers: Trainers) -> None:
    """Raise if machines were lost for good: there was room when training began."""
    if not (trainers.on_gpus or trainers.n_cpus):
        return  # it needs none of its own
    kind, n_cpus = "GPU" if trainers.on_gpus else "CPU", max(1, trainers.n_cpus)
    room = _room(_nodes(), kind, n_cpus)
    if room < trainers.n_processes:
        raise ClusterError(
            f"To go on with the training the cluster must have room for {trainers.n_processes} "
            f"processes with {n_cpus} {kind} each, but it has room for {room}: a machine was lost "
            "and none came in its place. Nothing was written. Add a machine (ray start "
            "--address=…), or run it again: it takes what is there."
        )


def _wants_gpus(device: Any, has_gpus: bool) -> bool:
    """Tell whether to train on GPUs, which the cluster has or has not."""
    if not isinstance(device, str | torch.device) or str(device) not in ("auto", "cpu", "cuda"):
        raise InvalidInputError(
            "On a cluster the device must be auto, cpu or cuda, and each process has a GPU of its "
            f"own; got {device!r}."
        )
    if str(device) == "cuda" and not has_gpus:
        raise ClusterError(
            "To train on GPUs a machine of the cluster must have one, and none has told Ray of "
            "any. Add one (ray start --num-gpus says so where Ray does not see it), or train with "
            "--device cpu."
        )
    return has_gpus and str(device) != "cpu"


@cache
def _remote(function: Callable[..., Any]) -> Any:
    return ray.remote(max_retries=RETRIES)(function)


@contextmanager
def _ours() -> Iterator[None]:
    """Raise what was raised by us where the work was done, and in our words what Ray has to say."""
    try:
        yield
    except exceptions.RayTaskError as error:
        if (ours := _in_our_words(error)) is not None:
            raise ours from error
        raise
    except exceptions.RayError as error:
        if (ours := _in_our_words(error)) is not None:
            raise ours from error
        raise ClusterError(
            f"The cluster gave the work up: {error}. The output was not written. Look at its "
            "machines (ray status), and try again."
        ) from error


def _cause_of(error: BaseException) -> BaseException:
    """Return what a task raised; it may be wrapped once for each task that needed its result."""
    while isinstance(inner := getattr(error, "cause", None), BaseException):
        error = inner
    return error


def _in_our_words(error: BaseException) -> ProptrainError | None:
    """Return our error for what was raised elsewhere; None if it is not for us to say."""
    cause = _cause_of(error)
    if isinstance(cause, ProptrainError):
        return cause
    first = (str(cause).splitlines() or [type(cause).__name__])[0].rstrip(".")
    if not (isinstance(cause, _NO_MEMORY) or "can't allocate memory" in first):  # torch's on CPUs
        return None
    return NotEnoughMemoryError(
        f"A machine of the cluster has too little memory for its part of the work: {first}. Take "
        "larger machines, fewer CPUs on each (ray start --num-cpus), a graph with more --blocks, "
        "or for the training a smaller --batch-size."
    )


def _surrender() -> Any:
    """Return what has ray.train give up when a process says that the work cannot be done.

    Its own way is to begin again after whatever happened: right for a lost machine, but a broken
    file stays broken.
    """
    from ray import train

    class Surrender(train.UserCallback):
        def after_exception(self, run_context: Any, worker_exceptions: dict[int, Any]) -> None:  # noqa: ARG002
            for ours in map(_in_our_words, worker_exceptions.values()):
                if ours is not None:
                    raise ours

    return Surrender()


class _Board:
    """Has the stopping accuracy of each epoch that is over; ray.train writes, and `fit` looks."""

    def __init__(self) -> None:
        self._accuracies: list[float] = []

    def note(self, epoch: int, accuracy: float) -> None:
        """Take note of an epoch; one that comes again after a loss came to the same."""
        if epoch == len(self._accuracies):
            self._accuracies.append(accuracy)

    def read(self) -> list[float]:
        """Return those of all epochs."""
        return self._accuracies


def _new_board() -> Any:
    """Have a board on this machine, which is there as long as anybody looks at it."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    made: Any = ray.remote(_Board)
    return made.options(num_cpus=0, scheduling_strategy=here).remote()


def _noting(board: Any) -> Any:
    """Return what has ray.train note each epoch; it does so in a process of its own."""
    from ray import train

    class Noting(train.UserCallback):
        def after_report(
            self,
            run_context: Any,  # noqa: ARG002
            metrics: list[dict[str, Any]],
            checkpoint: Any,  # noqa: ARG002
        ) -> None:
            board.note.remote(metrics[0]["epoch"] - 1, metrics[0]["stop_accuracy"])

    return Noting()


@contextmanager
def _watched(board: Any, on_epoch: OnEpoch) -> Iterator[Callable[[Sequence[float]], None]]:
    """Look at a board meanwhile; yields what tells those of all epochs that were not told yet.

    It is only for show: if the board is lost, nothing more is told until the end.
    """
    n_told, is_over = 0, threading.Event()

    def tell(accuracies: Sequence[float]) -> None:
        nonlocal n_told
        for accuracy in accuracies[n_told:]:
            on_epoch(n_told, accuracy)
            n_told += 1

    def look() -> None:
        asked = board.read.remote()
        while not is_over.wait(LOOK_SECONDS):
            if not ray.wait([asked], timeout=0)[0]:  # its process may take long to start
                continue
            try:
                tell(ray.get(asked))
            except exceptions.RayError:
                return
            asked = board.read.remote()

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield tell
    finally:
        is_over.set()
        watcher.join()


def _unwritable(what: str, error: OSError) -> UnwritableOutputError:
    return UnwritableOutputError(
        f"{what} cannot be written: {error.strerror or error}. Make room, or choose another place "
        "(--shared)."
    )


class _RayKeeper:
    """Keeps snapshots as ray.train's checkpoints, which it puts into the shared folder."""

    def load(self) -> Snapshot | None:
        from ray import train

        checkpoint = train.get_checkpoint()
        if checkpoint is None:
            return None
        with checkpoint.as_directory() as folder:
            return Snapshot.read(Path(folder))

    def save(self, snapshot: Snapshot) -> None:
        from ray import train

        # Everybody reports, since that is where ray.train has all wait for all; one has something.
        accuracies = trained_so_far(snapshot).history.stop_accuracy
        told = {"epoch": len(accuracies), "stop_accuracy": accuracies[-1]}
        if train.get_context().get_world_rank() != 0:
            train.report(told)
            return
        try:
            with tempfile.TemporaryDirectory() as folder:
                snapshot.write(Path(folder))
                train.report(told, checkpoint=train.Checkpoint.from_directory(folder))
        except OSError as error:  # or ray.train would begin again, to come to the same
            raise _unwritable("A snapshot of the training", error) from error


def _train_in_team(given: dict[str, Any]) -> None:
    """Train in one of the processes that ray.train has started."""
    from ray import train
    from ray.train.torch import get_device

    device = get_device() if given["by_torch"] else None
    team = ALONE if train.get_context().get_world_size() == 1 else TorchTeam(device)
    given["job"].run(team, _RayKeeper(), device, RayCrew())  # on the connection that there is
