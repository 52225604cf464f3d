"""proptrain fit: from two tables to a model in a folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from proptrain.cli.console import (
    ForceOption,
    JsonOption,
    OverwriteOption,
    print_json,
    say,
    training_progress,
)
from proptrain.cli.fit_folder import Cluster, FolderFit, NodeFiles, check_engine, fit_folder
from proptrain.cli.source import (
    EdgesOption,
    IdOption,
    KindOption,
    LabelOption,
    NodesOption,
    SourceOption,
    TargetOption,
    UnlabelledOption,
    WeightOption,
    read_own_tables,
    refuse_address,
)
from proptrain.cli.workload import epochs_ahead, sizes_of, tell_workload
from proptrain.errors import InvalidInputError, UnreadableFileError
from proptrain.system.files import kind_at
from proptrain.text import command_line

if TYPE_CHECKING:
    from proptrain.classifier import GraphClassifier
    from proptrain.data.dataset import Dataset
    from proptrain.data.tables import Tables
    from proptrain.experiments.methods import Method

OutOption = Annotated[Path, typer.Option(help="Folder to write the model to; must not exist yet.")]
# Written out, since the methods themselves bring torch along; a test compares the two.
METHOD_NAMES = (
    "PTA, PTA+, PTA(F), PTS, PTD, LP, MLP, GCN, SGCN, DAGNN, APPNP, APPNP#, PPNP, APPNP-noe, "
    "APPNP-noa-nof, C&S"
)
MethodOption = Annotated[str, typer.Option(help=f"One of {METHOD_NAMES}.")]
AlphaOption = Annotated[
    float, typer.Option(help="Weight of a node's own signal in each propagation step.")
]
DeviceOption = Annotated[
    str,
    typer.Option(
        help="Where to fit PTA, PTA+ and LP: auto (a GPU if there is one), cpu, or a device of "
        "torch's such as cuda:1. With --engine blocked auto is cpu."
    ),
]
EngineOption = Annotated[
    str,
    typer.Option(
        help="local, in memory; blocked, from disk; or ray, on a cluster: with these two --edges "
        "is a graph folder."
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        help="For --engine ray: host:port of the cluster's head, or auto for one that runs on this "
        "machine. \\[default: start one here]"
    ),
]
SharedOption = Annotated[
    str | None,
    typer.Option(
        help="For --engine ray: folder that every machine sees, for what is not finished; a path "
        "or s3://…. \\[default: beside the output]"
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="For --engine ray: processes that train. \\[default: one on each machine]"
    ),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        help="For --engine blocked: what the process may have at its peak. \\[default: 2GB]"
    ),
]
TopOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="For --engine blocked with many classes: keep only so many of the largest numbers of "
        "each node between propagation steps. How far that can lead off is told.",
    ),
]
BatchOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Train in steps for so many nodes at a time. \\[default: all at once; from disk as "
        "many as the memory allows]",
    ),
]
StoppingOption = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=0.99,
        help="Share of each class's labels that is kept from training, to decide when to stop and "
        "to calibrate by. \\[default: 0.2; with PTA+ none where that would be fewer than 100]",
    ),
]
FeaturesOption = Annotated[
    Path | None,
    typer.Option(help="With a graph folder, instead of --nodes: features, .npy or .parquet."),
]
LabelsOption = Annotated[
    Path | None,
    typer.Option(help="With a graph folder, instead of --label: labels, .npy; -1 is unlabelled."),
]
SeedOption = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, help="Same seed and device, same model.")
]


_LACKS = {
    "batch_size": "does not train in batches",
    "stopping_fraction": "trains nothing that could stop",
}


def fit(
    out: OutOption,
    edges: EdgesOption = None,
    nodes: NodesOption = None,
    label: LabelOption = None,
    id_column: IdOption = None,
    source: SourceOption = None,
    target: TargetOption = None,
    weight: WeightOption = None,
    kind: KindOption = None,
    unlabelled: UnlabelledOption = None,
    method: MethodOption = "PTA",
    alpha: AlphaOption = 0.1,
    device: DeviceOption = "auto",
    engine: EngineOption = "local",
    memory: MemoryOption = None,
    top: TopOption = None,
    batch_size: BatchOption = None,
    stopping: StoppingOption = None,
    features: FeaturesOption = None,
    labels: LabelsOption = None,
    address: AddressOption = None,
    shared: SharedOption = None,
    workers: WorkersOption = None,
    seed: SeedOption = 0,
    overwrite: OverwriteOption = False,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Learn from a graph, a table of node features and the labels that are known.

    The node table has one row for each node: an id, any columns (numbers, categories, text become
    features by themselves), and a label that may be empty. The edge list names two ids a row.

    Examples: proptrain fit --edges edges.csv --nodes nodes.csv --label topic --out model/;
    proptrain fit --engine blocked --memory 2GB --edges graph/ --features features.npy
    --labels labels.npy --out model/
    """
    from proptrain.experiments.methods import find_methods
    from proptrain.saving.persistence import check_model_output
    from proptrain.system.devices import torch_device

    check_engine(engine)
    check_model_output(out, overwrite=overwrite)
    (chosen,) = find_methods([method])
    settings = {"batch_size": batch_size, "stopping_fraction": stopping}
    classifier = _new_classifier(chosen, alpha, device, seed, settings)
    if engine != "ray" and not classifier._on_cpu_alone:
        torch_device(device)  # now, not when all tables are read; of a cluster's nothing is known
    files = NodeFiles(nodes, label, id_column, kind, unlabelled, features, labels)
    cluster = Cluster(address, shared, workers)
    columns = {"id": id_column, "source": source, "target": target, "weight": weight}
    _check_places(engine, edges, files)
    is_folder = edges is not None and (engine == "ray" or kind_at(edges) == "folder")
    _refuse_unused(engine, is_folder, files, cluster, columns, memory=memory, top=top)
    if is_folder:
        assert edges is not None
        wanted = FolderFit(
            chosen, classifier, engine, memory or "2GB", out, overwrite, json, force, cluster, top
        )
        fit_folder(edges, files, wanted)
        return
    tables = read_own_tables(
        edges,
        nodes,
        label=label,
        columns=columns,
        kinds=kind,
        unlabelled=unlabelled,
        needs_features=chosen.trains,
        quiet=json,
    )
    given = tables.dataset
    tell_workload(classifier, sizes_of(given), codes=given.labels, quiet=json, force=force)
    told = _fit_tables(tables, label, chosen, classifier, out, overwrite=overwrite, quiet=json)
    if json:
        print_json(told)
    else:
        _say_fitted(told, nodes, classifier)


def _check_places(engine: str, edges: Path | None, files: NodeFiles) -> None:
    """Raise for what is no place on this machine, before it is taken for something else."""
    refuse_address(files.nodes, "a node table is read from a disk of this machine")
    if engine == "ray":
        return
    for place in (edges, files.features, files.labels):
        refuse_address(place, f"--engine {engine} reads files of this machine")
    if edges is not None and not kind_at(edges):
        raise UnreadableFileError(
            f"What is given as --edges must be there, but {edges} does not exist."
        )


def _refuse_unused(
    engine: str,
    is_folder: bool,
    files: NodeFiles,
    cluster: Cluster,
    columns: dict[str, str | None],
    **of_blocked: Any,
) -> None:
    """Raise for an option that would change nothing: whoever gave it believes that it does."""
    of_edges = _named(columns, "source", "target", "weight")
    of_table: dict[str, Any] = {"--nodes": files.nodes, "--label": files.label}
    of_table |= {"--id": files.id_column, "--kind": files.kinds or None}
    of_arrays = {"--features": files.features, "--labels": files.labels}
    by_arrays = any(value is not None for value in of_arrays.values())
    folder = "a graph folder as --edges: proptrain graph build edges.csv --out graph/ makes one"
    for is_used, options, what in (
        (is_folder, of_arrays, folder),
        (is_folder or engine == "local", {f"--engine {engine}": engine}, folder),
        (not is_folder, of_edges, "an edge list; a graph folder was built with its own"),
        (not by_arrays, of_table, "a node table, not with --features and --labels"),
        (engine == "ray", _named(vars(cluster), *vars(cluster)), "--engine ray"),
        (engine == "blocked", _named(of_blocked, *of_blocked), "--engine blocked"),
    ):
        given = [name for name, value in options.items() if value is not None]
        if given and not is_used:
            verb = "goes" if len(given) == 1 else "go"
            raise InvalidInputError(f"{' and '.join(given)} {verb} with {what}.")


def _named(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {f"--{name}": values[name] for name in names}


def _fit_tables(
    tables: Tables,
    label: str | None,
    method: Method,
    classifier: GraphClassifier,
    out: Path,
    *,
    overwrite: bool,
    quiet: bool,
) -> dict[str, Any]:
    """Fit to tables in memory and write the model; returns what there is to tell of it."""
    from proptrain.insight.calibration import share_right
    from proptrain.saving.persistence import save_model

    dataset, start = tables.dataset, time.perf_counter()
    _train(classifier, dataset, uses_graph=method.uses_graph, quiet=quiet)
    seconds = time.perf_counter() - start
    save_model(
        out,
        classifier,
        node_ids=dataset.node_ids,
        encoder=tables.encoder,
        table={"id": tables.id_column, "label": label, "features": list(tables.feature_columns)},
        overwrite=overwrite,
    )
    told, given, stop = classifier.label_distributions_, classifier.given_, classifier.stopping_
    return {
        "model": str(out),
        "method": method.name,
        **_describe(dataset, classifier),
        "stopping_accuracy": share_right(told, given, stop),
        "seconds": round(seconds, 2),
    }


def _say_fitted(told: dict[str, Any], nodes: Path | None, classifier: GraphClassifier) -> None:
    accuracy, out = told["stopping_accuracy"], told["model"]
    held_out = "" if accuracy is None else f", {accuracy:.1%} right on the stopping labels"
    say(f"{told['method']} trained in {told['seconds']:.1f} s{held_out}; written to {out}")
    predict = command_line("proptrain", "predict", Path(out), "--out", "predictions.csv")
    say(f"next: {predict}")
    say(f"or look at it: {_report_command(Path(out), nodes, classifier)}")


def _report_command(out: Path, nodes: Path | None, classifier: GraphClassifier) -> str:
    """Return the command for a page, with the labels in doubt where they can be found."""
    from proptrain.insight.audit import can_audit

    audit = ("--nodes", nodes) if nodes is not None and can_audit(classifier) else ()
    return command_line("proptrain", "report", out, *audit)


def _new_classifier(
    method: Method, alpha: float, device: str, seed: int, settings: dict[str, Any]
) -> GraphClassifier:
    """Return the classifier, or say that its method cannot be fitted so; None changes nothing."""
    # The tables' own marker was read already; -1 may be a class by now.
    classifier = method.make(alpha=alpha, steps=10, seed=seed).set_params(unlabelled=None)
    asked = {name: value for name, value in settings.items() if value is not None}
    for name in asked.keys() - classifier.get_params().keys():
        raise InvalidInputError(f"{method.name} {_LACKS[name]}: leave that option out.")
    if classifier._on_cpu_alone and device not in ("auto", "cpu"):
        raise InvalidInputError(f"{method.name} is fitted on the CPU only: leave --device out.")
    return classifier.set_params(**asked, device=device)  # type: ignore[no-any-return]


def _train(classifier: GraphClassifier, dataset: Dataset, *, uses_graph: bool, quiet: bool) -> None:
    names = np.array([*(dataset.class_names or ()), None], dtype=object)  # None for code -1
    with training_progress(epochs_ahead(classifier, dataset.labels), quiet=quiet) as on_epoch:
        classifier.fit(
            dataset.features,
            names[dataset.labels],
            graph=dataset.graph if uses_graph else None,
            on_epoch=on_epoch,
        )


def _describe(dataset: Dataset, classifier: GraphClassifier) -> dict[str, Any]:
    return {
        "nodes": dataset.n_nodes,
        "edges": dataset.graph.n_edges,
        "classes": list(dataset.class_names or ()),
        "labelled": int((dataset.labels >= 0).sum()),
        "reached": int(classifier.reached_.sum()),
        "epochs": getattr(classifier, "n_iter_", 0),
    }
