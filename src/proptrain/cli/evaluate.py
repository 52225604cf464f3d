"""proptrain evaluate: the paper's protocol on a named set or on one's own data."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from proptrain.cli.console import (
    JsonOption,
    OverwriteOption,
    print_json,
    print_table,
    progress,
)
from proptrain.cli.data import DataDirOption
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
from proptrain.errors import InvalidInputError

NameArgument = Annotated[
    str | None, typer.Argument(help="A named data set (see `proptrain data list`).")
]
MethodsOption = Annotated[
    list[str] | None,
    typer.Option("--method", help="PTA, PTA(F), PTS, PTD, MLP, LP; repeatable. \\[default: PTA]"),
]
RunsOption = Annotated[int, typer.Option(min=1, help="Number of runs; 20 is one for each seed.")]
PerClassOption = Annotated[int, typer.Option(min=1, help="Training labels for each class.")]
AlphaOption = Annotated[
    float | None,
    typer.Option(help="Weight of the restart. \\[default: the paper's for the set, else 0.1]"),
]
ValidationOption = Annotated[
    bool,
    typer.Option(
        "--validation", help="Use the seeds and nodes for tuning; the test nodes stay untouched."
    ),
]
OutOption = Annotated[
    Path | None, typer.Option(help="File for the raw results, one JSON line a run.")
]


def evaluate(
    name: NameArgument = None,
    method: MethodsOption = None,
    runs: RunsOption = 20,
    per_class: PerClassOption = 20,
    alpha: AlphaOption = None,
    validation: ValidationOption = False,
    data_dir: DataDirOption = None,
    edges: EdgesOption = None,
    nodes: NodesOption = None,
    label: LabelOption = None,
    id_column: IdOption = None,
    source: SourceOption = None,
    target: TargetOption = None,
    weight: WeightOption = None,
    kind: KindOption = None,
    unlabelled: UnlabelledOption = None,
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Measure accuracy over many splits: mean and 95 % bootstrap interval.

    Each run draws training nodes of every class and stopping nodes; all others that have a label
    are told by the model and compared.

    Examples: proptrain evaluate cora --method LP --method PTA;
    proptrain evaluate --edges edges.csv --nodes nodes.csv --label topic --per-class 10
    """
    from proptrain.experiments.methods import find_methods
    from proptrain.experiments.protocol import run_all
    from proptrain.files import check_output, whole_file

    methods = find_methods(method or ["PTA"])
    if out is not None:
        check_output(out, overwrite=overwrite)
    if (name is None) == (edges is None and nodes is None):
        raise InvalidInputError(
            "Name one data set (proptrain evaluate cora), or give --edges, --nodes and --label."
        )
    if name is not None:
        dataset, protocol = _named(name, data_dir, per_class, alpha, validation)
    else:
        columns = {"id": id_column, "source": source, "target": target, "weight": weight}
        tables = read_own_tables(
            edges, nodes, label=label, kinds=kind, unlabelled=unlabelled, quiet=json, **columns
        )
        dataset, protocol = _own(tables.dataset, per_class, alpha, validation)
    done = []
    with progress(f"{dataset.name}", runs * len(methods), quiet=json) as step:
        for run, _ in run_all(dataset, methods, protocol, runs):
            done.append(run)
            step()
    if out is not None:
        with whole_file(out, overwrite=overwrite) as temporary:
            lines = [json_module.dumps(run.to_json()) + "\n" for run in done]
            temporary.write_text("".join(lines), encoding="utf-8")
    _show(dataset.name, [m.name for m in methods], done, runs, as_json=json)


def _named(
    name: str, data_dir: Path | None, per_class: int, alpha: float | None, validation: bool
) -> tuple[Any, Any]:
    from proptrain.data.catalog import CATALOG, load_dataset
    from proptrain.experiments.protocol import Protocol

    dataset = load_dataset(name, data_dir)
    entry = CATALOG[name]
    protocol = Protocol(
        n_known=entry.n_known,
        per_class=per_class,
        alpha=entry.alpha if alpha is None else alpha,
        for_tuning=validation,
    )
    return dataset, protocol


def _own(dataset: Any, per_class: int, alpha: float | None, validation: bool) -> tuple[Any, Any]:
    from proptrain.experiments.protocol import protocol_for

    protocol = protocol_for(
        dataset,
        per_class=per_class,
        alpha=0.1 if alpha is None else alpha,
        for_tuning=validation,
    )
    return dataset, protocol


def _show(dataset: str, methods: list[str], done: list[Any], runs: int, *, as_json: bool) -> None:
    from statistics import median

    from proptrain.experiments.statistics import bootstrap_mean

    rows, summary = [], {}
    for method in methods:
        own = [run for run in done if run.method == method]
        estimate = bootstrap_mean([run.accuracy for run in own])
        seconds, epochs = median(r.seconds for r in own), median(r.epochs for r in own)
        summary[method] = {
            "mean": estimate.mean,
            "low": estimate.low,
            "high": estimate.high,
            "runs": len(own),
            "median_seconds": seconds,
            "median_epochs": epochs,
        }
        accuracy = f"{100 * estimate.mean:.2f} ± {100 * estimate.half_width:.2f}"
        interval = f"{100 * estimate.low:.2f} – {100 * estimate.high:.2f}"
        rows.append([method, accuracy, interval, f"{epochs:.0f}", f"{seconds:.2f} s"])
    if as_json:
        print_json({"dataset": dataset, "runs": runs, "methods": summary})
        return
    title = f"{dataset}: accuracy in percent over {runs} runs"
    print_table(title, ["method", "accuracy", "95 % interval", "epochs", "time"], rows)
