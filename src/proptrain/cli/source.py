"""The two tables that a command reads, and what it says about them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proptrain.cli.console import say
from proptrain.errors import InvalidInputError
from proptrain.system.files import kind_at

if TYPE_CHECKING:
    from proptrain.data.tables import Tables

EdgesOption = Annotated[
    Path | None,
    typer.Option(
        help="Edge list (.csv, .tsv, either with .gz, or .parquet): two columns of node ids, and a "
        "first line with their names; for `fit` also a folder that `proptrain graph build` wrote."
    ),
]
NodesOption = Annotated[
    Path | None,
    typer.Option(help="Node table (.csv, .tsv, .parquet): an id column, features, the label."),
]
LabelOption = Annotated[
    str | None,
    typer.Option(help="Column of the node table with the label; empty cells are unlabelled."),
]
IdOption = Annotated[
    str | None, typer.Option("--id", help="Column with the node id. \\[default: id, or the first]")
]
SourceOption = Annotated[
    str | None,
    typer.Option(help="Edge column with one end. \\[default: source, src, from or the first]"),
]
TargetOption = Annotated[
    str | None,
    typer.Option(help="Edge column with the other end. \\[default: target, dst, to or the second]"),
]
WeightOption = Annotated[
    str | None, typer.Option(help="Edge column with the weight. \\[default: every edge weighs 1]")
]
KindOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=KIND",
        help="How to read a column: numeric, categorical, text or drop. Repeatable; the others "
        "are read by what they hold.",
    ),
]
UnlabelledOption = Annotated[
    str | None,
    typer.Option(help="Label that means unlabelled, beside the empty cell. \\[default: -1]"),
]


def refuse_address(place: Path | None, why: str) -> None:
    """Raise for an address such as s3://…, which the engine ray alone opens."""
    from proptrain.data.shared import address_of, is_address

    if place is not None and is_address(place):
        raise InvalidInputError(
            f"{address_of(place)} is an address, but {why}. Copy it to a disk first; only fit "
            "--engine ray reads from addresses, all but node tables."
        )


def read_own_tables(
    edges: Path | None,
    nodes: Path | None,
    *,
    label: str | None,
    quiet: bool,
    columns: Mapping[str, str | None],
    kinds: list[str] | None = None,
    unlabelled: str | None = None,
    needs_features: bool = True,
) -> Tables:
    """Read the user's two tables and say what was made of them.

    ``columns`` are those of id, source, target and weight, by these names.
    """
    from proptrain.data.tables import read_tables

    if edges is None or nodes is None or label is None:
        raise InvalidInputError(
            "Three things are needed: --edges FILE, --nodes FILE and --label COLUMN."
        )
    if kind_at(edges) == "folder":
        raise InvalidInputError(
            f"--edges must be an edge list here, but {edges} is a folder: only `proptrain fit` "
            "takes one that `proptrain graph build` wrote."
        )
    tables = read_tables(
        edges,
        nodes,
        label=label,
        kinds=parse_kinds(kinds or []),
        unlabelled=-1 if unlabelled is None else marker_of(unlabelled),
        needs_features=needs_features,
        **columns,
    )
    if not quiet:
        describe(tables)
    return tables


def marker_of(text: str) -> float | str:
    """Return a number where the text is one, as a column of numbers is read."""
    try:
        return float(text)
    except ValueError:
        return text


def describe(tables: Tables) -> None:
    """Say in a few lines what was read and what was changed."""
    dataset = tables.dataset
    n_labelled = int((dataset.labels >= 0).sum())
    n_features = 0 if tables.encoder is None else dataset.features.shape[1]
    say(
        f"{dataset.n_nodes:,} nodes, {dataset.graph.n_edges:,} edges "
        f"({dataset.graph.counts}); {n_features:,} features; "
        f"{n_labelled:,} labelled nodes in {dataset.n_classes} classes"
    )
    by_kind: dict[str, list[str]] = {}
    for column, kind in tables.kinds.items():
        by_kind.setdefault(kind, []).append(column)
    if by_kind:
        kinds = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in by_kind.items())
        say(f"columns: {kinds}")
    for note in tables.notes:
        say(note)


def parse_kinds(given: list[str]) -> dict[str, Any]:
    """Read COLUMN=KIND options; a column's name may itself contain an equals sign."""
    kinds = {}
    for item in given:
        column, equals, kind = item.rpartition("=")
        if not equals or not column:
            raise InvalidInputError(
                f"--kind must be COLUMN=KIND, for example age=numeric; got {item!r}."
            )
        kinds[column] = kind
    return kinds
