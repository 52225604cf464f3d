"""proptrain fit: from two tables to a model in a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from proptrain.cli.console import JsonOption, OverwriteOption, print_json, say, training_progress
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
)

OutOption = Annotated[Path, typer.Option(help="Folder to write the model to; must not exist yet.")]
MethodOption = Annotated[str, typer.Option(help="PTA, PTA(F), PTS, PTD, MLP or LP.")]
AlphaOption = Annotated[
    float, typer.Option(help="Weight of a node's own signal in each propagation step.")
]
SeedOption = Annotated[int, typer.Option(help="Same seed, same model.")]


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
    seed: SeedOption = 0,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Learn from a graph, a table of node features and the labels that are known.

    The node table has one row for each node: an id, any columns (numbers, categories, text become
    features by themselves), and a label that may be empty. The edge list names two ids a row.

    Example: proptrain fit --edges edges.csv --nodes nodes.csv --label topic --out model/
    """
    from proptrain.experiments.methods import find_methods
    from proptrain.persistence import check_model_output, save_model

    check_model_output(out, overwrite=overwrite)
    (chosen,) = find_methods([method])
    tables = read_own_tables(
        edges,
        nodes,
        label=label,
        id=id_column,
        source=source,
        target=target,
        weight=weight,
        kinds=kind,
        unlabelled=unlabelled,
        quiet=json,
    )
    dataset = tables.dataset
    # The tables' own marker was read already; -1 may be a class by now.
    classifier = chosen.make(alpha, seed).set_params(unlabelled=None)
    start = time.perf_counter()
    with training_progress(getattr(classifier, "max_epochs", 1), quiet=json) as on_epoch:
        classifier.fit(
            dataset.features,
            np.array([*dataset.class_names, None], dtype=object)[dataset.labels],
            graph=dataset.graph if chosen.uses_graph else None,
            on_epoch=on_epoch,
        )
    seconds = time.perf_counter() - start
    table = {"id": tables.id_column, "label": label, "features": list(tables.feature_columns)}
    save_model(
        out,
        classifier,
        node_ids=dataset.node_ids,
        encoder=tables.encoder,
        table=table,
        overwrite=overwrite,
    )
    summary = {
        "model": str(out),
        "method": chosen.name,
        "nodes": dataset.n_nodes,
        "edges": dataset.graph.n_edges,
        "classes": list(dataset.class_names),
        "labelled": int((dataset.labels >= 0).sum()),
        "reached": int(classifier.reached_.sum()),
        "epochs": getattr(classifier, "n_iter_", 0),
        "stopping_accuracy": _stopping_accuracy(classifier),
        "seconds": round(seconds, 2),
    }
    if json:
        print_json(summary)
        return
    accuracy = summary["stopping_accuracy"]
    held_out = "" if accuracy is None else f", {accuracy:.1%} right on held-out labels"
    say(f"{chosen.name} trained in {seconds:.1f} s{held_out}; written to {out}")
    say(f"next: proptrain predict {out} --out predictions.csv")


def _stopping_accuracy(classifier: object) -> float | None:
    history = getattr(classifier, "history_", None)
    if history is None or not getattr(classifier, "stopping_", ()).__len__():
        return None
    return float(history.stop_accuracy[classifier.best_epoch_])  # type: ignore[attr-defined]
