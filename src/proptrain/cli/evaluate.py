"""proptrain evaluate: the paper's protocol on a named set or on one's own data."""

from __future__ import annotations

import json as json_module
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proptrain.cli.console import (
    MOST_RUNS,
    ForceOption,
    JsonOption,
    OverwriteOption,
    in_percent,
    print_json,
    print_table,
    progress,
)
from proptrain.cli.data import DataDirOption
from proptrain.cli.fit import METHOD_NAMES
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
from proptrain.cli.workload import sizes_of, tell_workload
from proptrain.errors import InvalidInputError
from proptrain.system.files import kind_at

if TYPE_CHECKING:
    from proptrain.data.dataset import Dataset
    from proptrain.experiments.methods import Method
    from proptrain.experiments.protocol import Protocol, Run
    from proptrain.experiments.statistics import Estimate
    from proptrain.experiments.summary import Summary

NameArgument = Annotated[
    str | None, typer.Argument(help="A named data set (see `proptrain data list`).")
]
MethodsOption = Annotated[
    list[str] | None,
    typer.Option("--method", help=f"One of {METHOD_NAMES}; repeatable. \\[default: PTA]"),
]
RunsOption = Annotated[
    int,
    typer.Option(
        min=1,
        max=MOST_RUNS,
        help="Number of runs; 20 is one for each split, more are further initialisations.",
    ),
]
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
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Measure accuracy over many splits: mean and 95 % bootstrap interval.

    Each run draws training nodes of every class and stopping nodes; all others that have a label
    are told by the model and compared.

    Examples: proptrain evaluate cora --method LP --method PTA;
    proptrain evaluate --edges edges.csv --nodes nodes.csv --label topic --per-class 10
    """
    from proptrain.experiments.methods import find_methods
    from proptrain.experiments.protocol import protocol_for
    from proptrain.experiments.summary import summarise
    from proptrain.system.files import check_output

    methods = find_methods(method or ["PTA"])
    if out is not None:
        check_output(out, overwrite=overwrite, inputs=[edges, nodes])
    if (name is None) == (edges is None and nodes is None):
        raise InvalidInputError(
            "Name one data set (proptrain evaluate cora), or give --edges, --nodes and --label."
        )
    if name is not None:
        dataset, protocol = _named(name, data_dir, per_class, alpha, validation)
    else:
        tables = read_own_tables(
            edges,
            nodes,
            label=label,
            columns={"id": id_column, "source": source, "target": target, "weight": weight},
            kinds=kind,
            unlabelled=unlabelled,
            needs_features=any(one.trains for one in methods),
            quiet=json,
        )
        dataset = tables.dataset
        protocol = protocol_for(
            dataset,
            per_class=per_class,
            alpha=0.1 if alpha is None else alpha,
            for_tuning=validation,
        )
    for one in methods:
        classifier = one.make(alpha=protocol.alpha, steps=10, seed=0)
        tell_workload(classifier, sizes_of(dataset), quiet=json, force=force, n_fits=runs)
    done = _run(dataset, methods, protocol, runs, quiet=json)
    if out is not None:
        _write(done, out, overwrite=overwrite)
    _show(dataset.name, summarise(done), runs, as_json=json)


def _named(
    name: str, data_dir: Path | None, per_class: int, alpha: float | None, validation: bool
) -> tuple[Dataset, Protocol]:
    from proptrain.data.catalog import CATALOG, load_dataset
    from proptrain.experiments.protocol import Protocol

    if name not in CATALOG and kind_at(Path(name)) == "folder":
        raise InvalidInputError(
            f"A data set must be named, but {name} is a folder. Models are fitted anew on many "
            "splits: for tables of your own give --edges, --nodes and --label."
        )
    dataset = load_dataset(name, data_dir)
    entry = CATALOG[name]
    protocol = Protocol(
        n_known=entry.n_known,
        per_class=per_class,
        alpha=entry.alpha if alpha is None else alpha,
        for_tuning=validation,
    )
    return dataset, protocol


def _run(
    dataset: Dataset, methods: list[Method], protocol: Protocol, runs: int, *, quiet: bool
) -> list[Run]:
    from proptrain.experiments.protocol import list_runs, run_all

    done = []
    with progress(dataset.name, len(list_runs(methods, protocol, runs)), quiet=quiet) as step:
        for run, _ in run_all(dataset, methods, protocol, runs):
            done.append(run)
            step()
    return done


def _write(done: list[Run], out: Path, *, overwrite: bool) -> None:
    from proptrain.system.files import whole_file

    with whole_file(out, overwrite=overwrite) as temporary:
        lines = [json_module.dumps(run.to_json()) + "\n" for run in done]
        temporary.write_text("".join(lines), encoding="utf-8")


def _show(dataset: str, summaries: tuple[Summary, ...], runs: int, *, as_json: bool) -> None:
    if as_json:
        told = {summary.method: summary.to_json() for summary in summaries}
        print_json({"dataset": dataset, "runs": runs, "methods": told})
        return
    rows = [
        [
            _counted(summary, runs),
            in_percent(summary.estimate, 2),
            _interval(summary.estimate),
            f"{summary.median_epochs:.0f}",
            f"{summary.median_seconds:.2f} s",
        ]
        for summary in summaries
    ]
    title = f"{dataset}: accuracy in percent over {runs} runs"
    print_table(title, ["method", "accuracy", "95 % interval", "epochs", "time"], rows)


def _counted(summary: Summary, runs: int) -> str:
    """Return the method, with its number of runs if that is not the one asked for."""
    own = len(summary.accuracies)
    return summary.method if own == runs else f"{summary.method} ({own} runs)"


def _interval(estimate: Estimate) -> str:
    if math.isnan(estimate.half_width):
        return "–"
    return f"{100 * estimate.low:.2f} – {100 * estimate.high:.2f}"
