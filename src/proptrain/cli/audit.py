"""proptrain audit: which of the given labels are likely wrong."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from proptrain.cli.console import (
    ForceOption,
    JsonOption,
    OverwriteOption,
    print_json,
    print_table,
    progress,
    say,
    training_progress,
)
from proptrain.cli.csv_tables import SpreadsheetOption, tell_formulas, write_csv
from proptrain.cli.fit import AlphaOption, DeviceOption, SeedOption
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
from proptrain.cli.workload import sizes_of, tell_time, tell_workload
from proptrain.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

    from proptrain.data.dataset import Dataset
    from proptrain.insight.audit import Audit

OutOption = Annotated[
    Path | None, typer.Option(help="Table to write, every given label in it: .csv or .json.")
]
FixOption = Annotated[
    Path | None,
    typer.Option(
        metavar="NODES_OUT",
        help="Write the node table with the suspects' labels replaced by the suggested ones "
        "(.csv or .parquet); the given file is never touched.",
    ),
]
TopOption = Annotated[int, typer.Option(min=0, help="How many labels to print.")]


def audit(
    edges: EdgesOption = None,
    nodes: NodesOption = None,
    label: LabelOption = None,
    id_column: IdOption = None,
    source: SourceOption = None,
    target: TargetOption = None,
    weight: WeightOption = None,
    kind: KindOption = None,
    unlabelled: UnlabelledOption = None,
    alpha: AlphaOption = 0.1,
    device: DeviceOption = "auto",
    seed: SeedOption = 0,
    top: TopOption = 20,
    out: OutOption = None,
    fix: FixOption = None,
    for_spreadsheet: SpreadsheetOption = False,
    overwrite: OverwriteOption = False,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Rank the given labels by how likely they are wrong, and say what they should be.

    Columns: id; given and suggested class; suspicion (from 0 to 1: above a half, more speaks for
    the suggested class); suspect (whether --fix replaces it: three times as much does). The file
    of --out has all labels, and what speaks for the given class: cross_fitted (models that have
    not seen the label), others (the other labels, spread through labelled nodes too) and
    weight (how much the label counts in training); whether it was held out of training; and whether
    it could be judged, which the only label of a class cannot. Ids and classes stand in both files
    as in your tables, unless they are written --for-spreadsheet.

    Examples: proptrain audit --edges edges.csv --nodes nodes.csv --label topic;
    the same with --out audit.csv --fix fixed.csv
    """
    from proptrain.system.devices import torch_device

    _check_outputs(out, fix, [edges, nodes], overwrite=overwrite)
    torch_device(device)  # now, not when all tables are read
    tables = read_own_tables(
        edges,
        nodes,
        label=label,
        columns={"id": id_column, "source": source, "target": target, "weight": weight},
        kinds=kind,
        unlabelled=unlabelled,
        quiet=json,
    )
    found = _audit(tables.dataset, alpha, device, seed, quiet=json, force=force)
    table = found.to_frame(tables.dataset.node_ids)
    n_formulas, how = 0, {"overwrite": overwrite, "for_spreadsheet": for_spreadsheet}
    if out is not None:
        n_formulas += _write_table(table, out, **how)
    if fix is not None:
        assert nodes is not None
        assert label is not None
        n_formulas += _write_fixed(found, nodes, label, fix, **how)
    n_suspect, n_unjudged = int(found.suspect.sum()), int((~found.judged).sum())
    if json:
        rows = json_module.loads(table[:top].to_json(orient="records"))
        written = {"out": out and str(out), "fix": fix and str(fix)}
        counts = {"labels": len(table), "suspects": n_suspect, "not_judged": n_unjudged}
        print_json({**counts, **written, "warnings": found.cautions(), "top": rows})
        return
    _show(table[:top])
    say(f"{n_suspect:,} of {len(table):,} labels are suspect")
    if n_unjudged:
        could_not = "1 label" if n_unjudged == 1 else f"{n_unjudged:,} labels"
        say(f"{could_not} could not be judged: each is the only one of its class")
    for caution in found.cautions():
        say(f"warning: {caution}")
    for path in (out, fix):
        if path is not None:
            say(f"written: {path}")
    tell_formulas(n_formulas)


def _check_outputs(
    out: Path | None, fix: Path | None, inputs: list[Path | None], *, overwrite: bool
) -> None:
    """Raise before any work if an output has no known form, is an input, or cannot be written."""
    from proptrain.system.files import check_output

    forms = {"--out": (out, (".csv", ".json")), "--fix": (fix, (".csv", ".parquet"))}
    taken = list(inputs)
    for name, (path, suffixes) in forms.items():
        if path is None:
            continue
        if path.suffix not in suffixes:
            raise InvalidInputError(
                f"{name} must end in {' or '.join(suffixes)}, got {path.name!r}."
            )
        check_output(path, overwrite=overwrite, inputs=taken)
        taken.append(path)


def _audit(
    dataset: Dataset, alpha: float, device: str, seed: int, *, quiet: bool, force: bool
) -> Audit:
    from proptrain.estimator import PTAClassifier
    from proptrain.insight.audit import N_FITS

    names = np.array([*(dataset.class_names or ()), None], dtype=object)  # None for code -1
    classifier = PTAClassifier(alpha=alpha, device=device, unlabelled=None, random_state=seed)
    sizes, auditor = sizes_of(dataset), classifier._auditor()
    tell_workload(auditor, sizes, quiet=quiet, force=force, n_fits=N_FITS)
    tell_time(classifier, sizes, dataset.labels, quiet=quiet)
    with training_progress(classifier.max_epochs, quiet=quiet) as on_epoch:
        classifier.fit(
            dataset.features, names[dataset.labels], graph=dataset.graph, on_epoch=on_epoch
        )
    with progress("models without some labels", N_FITS, quiet=quiet) as advance:
        return classifier.audit(dataset.features, seed=seed, on_fit=advance)


def _show(table: pd.DataFrame) -> None:
    rows = [
        [
            *(str(row[name]) for name in ("id", "given", "suggested")),
            f"{row['suspicion']:.3f}" if row["judged"] else "not judged",
            "yes" if row["suspect"] else "",
        ]
        for row in table.to_dict("records")
    ]
    header = ["id", "given", "suggested", "suspicion", "suspect"]
    print_table("labels, the likeliest wrong first", header, rows, n_labels=3)


def _write_table(table: pd.DataFrame, path: Path, *, overwrite: bool, for_spreadsheet: bool) -> int:
    """Write the table; returns how many of its cells a spreadsheet would take for formulas."""
    from proptrain.system.files import whole_file

    with whole_file(path, overwrite=overwrite) as temporary:
        if path.suffix == ".csv":
            return write_csv(table, temporary, header=True, for_spreadsheet=for_spreadsheet)
        table.to_json(temporary, orient="records", indent=1)
        return 0


def _write_fixed(
    found: Audit, nodes: Path, label: str, path: Path, *, overwrite: bool, for_spreadsheet: bool
) -> int:
    """Write the node table with the suspects' labels replaced, every other cell as it stands.

    Returns how many of its cells a spreadsheet would take for formulas.
    """
    from proptrain.data.table_files import read_table
    from proptrain.system.files import whole_file

    table = read_table(nodes, text_columns=lambda columns: columns)
    classes, first = np.unique(found.given, return_index=True)
    # A label is copied from a node that has it, as it is spelt there.
    copied = found.nodes[first[np.searchsorted(classes, found.suggested[found.suspect])]]
    place = table.columns.get_loc(label)
    table.iloc[found.nodes[found.suspect], place] = table.iloc[copied, place].to_numpy()
    with whole_file(path, overwrite=overwrite) as temporary:
        if path.suffix == ".csv":
            return write_csv(table, temporary, header=True, for_spreadsheet=for_spreadsheet)
        table.to_parquet(temporary, index=False)
        return 0
