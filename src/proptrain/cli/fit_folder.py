"""proptrain fit with a graph folder: in memory, or from disk within a limit."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from proptrain.cli.console import print_json, progress, say, training_progress
from proptrain.cli.source import marker_of, parse_kinds
from proptrain.cli.workload import epochs_ahead, sizes_from, tell_limit, tell_time, tell_workload
from proptrain.errors import InvalidInputError, unknown_name
from proptrain.text import command_line

if TYPE_CHECKING:
    from proptrain.classifier import GraphClassifier
    from proptrain.data.disk import DiskGraph
    from proptrain.data.shared_graph import SharedGraph
    from proptrain.experiments.methods import Method
    from proptrain.large.fit_cluster import TrainingCrew
    from proptrain.large.from_disk import FittedFromDisk

ENGINES = ("local", "blocked", "ray")


@dataclass(frozen=True)
class NodeFiles:
    """Where features and labels come from: a node table, or an array each."""

    nodes: Path | None
    label: str | None
    id_column: str | None
    kinds: list[str] | None
    unlabelled: str | None
    features: Path | None
    labels: Path | None


@dataclass(frozen=True, eq=False)
class _Inputs:
    features: Any
    y: Any
    encoder: Any = None
    table: dict[str, Any] | None = None

    def kept(self, wanted: FolderFit) -> dict[str, Any]:
        """Return how a model is written, with what turns other tables into features."""
        return {"encoder": self.encoder, "table": self.table, "overwrite": wanted.overwrite}


@dataclass(frozen=True)
class Cluster:
    """Where the engine ray works."""

    address: str | None = None
    shared: str | None = None
    workers: int | None = None


@dataclass(frozen=True)
class FolderFit:
    """What was asked for, beside the files."""

    method: Method
    classifier: GraphClassifier
    engine: str
    memory: str
    out: Path
    overwrite: bool
    json: bool
    force: bool = False
    cluster: Cluster = Cluster()
    top: int | None = None


def check_engine(engine: str) -> None:
    """Raise unless it is the name of an engine that is there."""
    if engine not in ENGINES:
        raise unknown_name("The engine", engine, ENGINES)
    if engine == "ray":
        importlib.import_module("proptrain.large.on_ray")  # says what to do if Ray is not there


def fit_folder(folder: Path, files: NodeFiles, wanted: FolderFit) -> None:
    """Fit to a graph folder with the engine asked for, and write the model."""
    from proptrain.data.disk import DiskGraph
    from proptrain.data.shared_graph import SharedGraph
    from proptrain.system.memory import in_words, peak_memory

    graph: DiskGraph | SharedGraph
    if wanted.engine == "ray":
        graph = SharedGraph(folder)
        inputs = _read(graph, files, wanted)
        start = time.perf_counter()
        told = _fit_ray(graph, inputs, wanted)
    else:
        graph = DiskGraph(folder)
        inputs = _read(graph, files, wanted)
        _tell_workload(graph, inputs, wanted)
        start = time.perf_counter()
        told = (_fit_local if wanted.engine == "local" else _fit_blocked)(graph, inputs, wanted)
    seconds, peak = time.perf_counter() - start, peak_memory()
    if wanted.json:
        sizes = {"nodes": graph.n_nodes, "edges": graph.n_edges}
        named = {"model": str(wanted.out), "method": wanted.method.name, "engine": wanted.engine}
        print_json({**named, **sizes, **told, "seconds": round(seconds, 2), "peak_memory": peak})
        return
    accuracy = told["stopping_accuracy"]
    held_out = "" if accuracy is None else f", {accuracy:.1%} right on the stopping labels"
    whose = " in the process that leads" if wanted.engine == "ray" else ""
    memory = f", {in_words(peak)} of memory at the peak{whose}" if peak else ""
    say(
        f"{wanted.method.name} trained in {seconds:.1f} s ({told['epochs']} epochs){held_out}"
        f"{memory}; written to {wanted.out}"
    )
    n_left = graph.n_nodes - told["reached"]
    if n_left > 0 and wanted.method.trains and wanted.method.uses_graph:
        say(
            f"no label reaches {n_left:,} of {graph.n_nodes:,} nodes: what is told of them is by "
            "their features and neighbours alone"
        )
    predict = command_line("proptrain", "predict", wanted.out, "--out", "predictions.csv")
    say(f"next: {predict}")


def _read(graph: DiskGraph | SharedGraph, files: NodeFiles, wanted: FolderFit) -> _Inputs:
    """Return features and labels in the order of the graph's nodes."""
    from proptrain.data.shared_graph import SharedGraph

    by_table = files.nodes is not None and files.label is not None
    by_arrays = files.features is not None and files.labels is not None
    if by_table == by_arrays:
        raise InvalidInputError(
            "With a graph folder give either --nodes TABLE and --label COLUMN, or "
            "--features FILE.npy and --labels FILE.npy, in the order of the graph's nodes."
        )
    marker = -1 if files.unlabelled is None else marker_of(files.unlabelled)
    if by_table:
        return _read_table(graph, files, marker, quiet=wanted.json)
    wanted.classifier.set_params(unlabelled=marker)
    assert files.features is not None and files.labels is not None  # noqa: PT018
    read = _read_shared if isinstance(graph, SharedGraph) else _read_arrays
    return _Inputs(*read(files.features, files.labels, graph.n_nodes, marker))


def _read_table(
    graph: DiskGraph | SharedGraph, files: NodeFiles, marker: Any, *, quiet: bool
) -> _Inputs:
    from proptrain.data.disk_nodes import read_node_table

    assert files.nodes is not None and files.label is not None  # noqa: PT018
    told = read_node_table(
        graph,
        files.nodes,
        label=files.label,
        id=files.id_column,
        kinds=parse_kinds(files.kinds or []),
        unlabelled=marker,
    )
    for note in () if quiet else told.notes:
        say(note)
    names = np.array([*told.class_names, None], dtype=object)  # None for code -1
    columns = {"id": told.id_column, "label": files.label, "features": list(told.feature_columns)}
    return _Inputs(told.features, names[told.codes], told.encoder, columns)


def _read_arrays(features: Path, labels: Path, n_nodes: int, marker: Any) -> tuple[Any, Any]:
    from proptrain.data.disk_nodes import open_features, open_labels

    return open_features(features, n_nodes), open_labels(labels, n_nodes, marker)


def _read_shared(features: Path, labels: Path, n_nodes: int, marker: Any) -> tuple[Any, Any]:
    """Return labels, and where the features are: every machine reads them for itself."""
    from proptrain.data.disk_nodes import checked_labels
    from proptrain.data.shared import SharedFile

    file = SharedFile.at(labels)
    return features, checked_labels(file.folder.read(file.name), file.name, n_nodes, marker)


def _tell_workload(graph: DiskGraph, inputs: _Inputs, wanted: FolderFit) -> None:
    """Say what the fit takes, or that there is not so much memory."""
    from proptrain.data.labels import encode_labels
    from proptrain.workload import estimate_fit

    codes, classes = encode_labels(inputs.y, unlabelled=wanted.classifier.unlabelled)
    entries = graph.manifest.n_entries
    weighted = graph.manifest.is_weighted
    sizes = sizes_from(inputs.features, entries, len(classes), is_weighted=weighted)
    if wanted.engine != "local":
        # With all nodes in one batch and all columns in one round there is nothing more to gain.
        useful = estimate_fit(wanted.classifier, sizes).memory
        tell_limit(wanted.memory, useful, "The fit", force=wanted.force)
        # From disk the same work takes up to twice as long, which is less than an estimate is off.
        tell_time(wanted.classifier, sizes, codes, quiet=wanted.json)
        return
    # The graph is read from its files first, which nobody has done yet.
    own = 8 * entries + 16 * graph.n_nodes
    how = {"quiet": wanted.json, "force": wanted.force}
    tell_workload(wanted.classifier, sizes, codes=codes, beside=own, **how)


def _fit_local(graph: DiskGraph, inputs: _Inputs, wanted: FolderFit) -> dict[str, Any]:
    from proptrain.data.labels import encode_labels
    from proptrain.insight.calibration import share_right
    from proptrain.saving.persistence import save_model

    classifier = wanted.classifier
    codes, _ = encode_labels(inputs.y, unlabelled=classifier.unlabelled)
    with training_progress(epochs_ahead(classifier, codes), quiet=wanted.json) as on_epoch:
        own = graph.to_graph() if wanted.method.uses_graph else None
        classifier.fit(np.asarray(inputs.features) if isinstance(inputs.features, np.memmap)
                       else inputs.features, inputs.y, graph=own, on_epoch=on_epoch)  # fmt: skip
    save_model(wanted.out, classifier, node_ids=graph.ids(), **inputs.kept(wanted))
    told, given, stop = classifier.label_distributions_, classifier.given_, classifier.stopping_
    return {
        "stopping_accuracy": share_right(told, given, stop),
        "epochs": getattr(classifier, "n_iter_", 0),
        "batch_size": getattr(classifier, "batch_size", None),
        "reached": int(classifier.reached_.sum()),
    }


def _fit_blocked(graph: DiskGraph, inputs: _Inputs, wanted: FolderFit) -> dict[str, Any]:
    from proptrain.insight.calibration import share_right
    from proptrain.large.from_disk import fit_from_disk
    from proptrain.saving.disk_model import save_disk_model

    epochs: list[float] = []
    with progress("propagating and training", 100, quiet=wanted.json) as advance:
        fitted = fit_from_disk(
            wanted.classifier,
            graph,
            inputs.features,
            inputs.y,
            memory=wanted.memory,
            top=wanted.top,
            scratch=wanted.out.resolve().parent,
            on_step=lambda share: advance(100 * share),
            on_epoch=lambda _, accuracy: epochs.append(accuracy),
        )
    save_disk_model(wanted.out, wanted.classifier, fitted, graph, **inputs.kept(wanted))
    told = {
        "stopping_accuracy": share_right(fitted.distributions, fitted.given, fitted.stopping),
        "epochs": len(epochs),
        "batch_size": fitted.batch_size,
        "reached": int(fitted.reached.sum()),
    }
    return told if wanted.top is None else told | _tell_bounds(fitted, wanted)


def _tell_bounds(fitted: FittedFromDisk, wanted: FolderFit) -> dict[str, Any]:
    """Say how far soft labels and predictions can be from the exact ones."""
    soft_labels, _, predictions = fitted.error_bounds
    # By rows a bound is of every number; else of the whole matrix, of which this is a node's share.
    by_row = wanted.classifier.get_params().get("normalisation") == "row"
    root = 1.0 if by_row else float(np.sqrt(len(fitted.given)))
    what = "in any number" if by_row else "a node, in the root mean square"
    if not wanted.json:
        say(
            f"between steps the {wanted.top} largest numbers of each node were kept: soft labels "
            f"are off by at most {soft_labels / root:.2g}, propagated scores by "
            f"{predictions / root:.2g} ({what})"
        )
    return {"top": wanted.top, "error_bounds": list(fitted.error_bounds)}


def _tell_cluster(
    graph: SharedGraph, inputs: _Inputs, wanted: FolderFit, crew: TrainingCrew
) -> None:
    """Say what the fit takes on a cluster, or that a machine has not so much memory."""
    from proptrain.data.labels import encode_labels
    from proptrain.data.shared_features import feature_columns
    from proptrain.large.fit_cluster import check_task_room, trainer_bytes
    from proptrain.workload import FitSizes, check_memory

    classifier: Any = wanted.classifier
    codes, classes = encode_labels(inputs.y, unlabelled=classifier.unlabelled)
    shape, n_classes = (graph.n_nodes, feature_columns(inputs.features)), len(classes)
    # No force takes a task's block apart: there it stays an error.
    check_task_room(classifier, graph, n_classes, crew)
    if not wanted.force:
        room = crew.machine_memory
        check_memory(
            trainer_bytes(classifier, shape, n_classes, room),
            "Training on the cluster's smallest machine",
            "Give a smaller --batch-size, take larger machines, or begin all the same with "
            "--force.",
            room=room,
        )
    sizes = FitSizes(shape[0], graph.manifest.n_entries, shape[1], n_classes)
    # A propagation is a task a block, so that no more CPUs than blocks have something to do.
    n_cpus = crew.n_cpus if classifier.fast else min(crew.n_cpus, graph.n_blocks)
    tell_time(classifier, sizes, codes, quiet=wanted.json, n_cpus=n_cpus)


def _fit_ray(graph: SharedGraph, inputs: _Inputs, wanted: FolderFit) -> dict[str, Any]:
    from proptrain.insight.calibration import share_right
    from proptrain.large.fit_cluster import check_given, fit_on_cluster, work_folder
    from proptrain.large.on_ray import RayCrew
    from proptrain.saving.disk_model import save_disk_model

    cluster, beside = wanted.cluster, wanted.out.resolve().parent
    check_given(wanted.classifier, inputs.features, graph.n_nodes)  # it takes seconds to start Ray
    if cluster.address is None and not wanted.json:
        say("starting Ray on this machine alone (--address names a cluster that runs) ...")
    with (
        work_folder(cluster.shared or beside) as work,
        RayCrew(cluster.address) as crew,
    ):
        _tell_cluster(graph, inputs, wanted, crew)
        with progress("propagating and training", 100, quiet=wanted.json) as advance:
            fitted = fit_on_cluster(
                wanted.classifier,
                graph,
                inputs.features,
                inputs.y,
                crew,
                work,
                n_workers=cluster.workers,
                on_step=lambda share: advance(100 * share, "propagating"),
                on_epoch=lambda epoch, accuracy: advance(
                    0, f"training, epoch {epoch + 1}, {accuracy:.1%} right"
                ),
            )
        save_disk_model(wanted.out, wanted.classifier, fitted, graph, **inputs.kept(wanted))
        accuracy = share_right(fitted.distributions, fitted.given, fitted.stopping)
    return {
        "stopping_accuracy": accuracy,
        "epochs": len(fitted.trained.history.train_loss),
        "batch_size": fitted.batch_size,
        "reached": int(fitted.reached.sum()),
    }
