"""proptrain explain: why a node of a model is told what it is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proptrain.cli.console import (
    JsonOption,
    OverwriteOption,
    print_json,
    print_table,
    results,
    say,
)
from proptrain.cli.predict import ModelArgument
from proptrain.errors import InvalidInputError
from proptrain.text import visible

if TYPE_CHECKING:
    from proptrain.classifier import GraphClassifier
    from proptrain.insight.explanation import Explanation
    from proptrain.insight.telling import NameOf
    from proptrain.report.parts import Suspect
    from proptrain.saving.persistence import SavedModel

NodeArgument = Annotated[
    str, typer.Argument(help="Id of a node, or its number from 0 if the nodes have no ids.")
]
TopOption = Annotated[int, typer.Option(min=1, help="Labels and nodes to name one by one.")]
WithoutOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NODE", help="Take this node's label away first. Repeatable; nothing is trained."
    ),
]
AuditOption = Annotated[
    Path | None,
    typer.Option(
        help="What `proptrain audit --out` wrote: says what it found of the node's label."
    ),
]
PictureOption = Annotated[
    Path | None, typer.Option(help="Picture of the neighbourhood to write: .svg or .png.")
]


def explain(
    model: ModelArgument,
    node: NodeArgument,
    top: TopOption = 10,
    without: WithoutOption = None,
    audit: AuditOption = None,
    picture: PictureOption = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Say which labels and which neighbours made a node's prediction, exactly.

    Two sums are taken apart: the soft label, by the labels that came to the node over the graph;
    and the prediction, by the nodes whose own predictions were averaged. Shares add up to the
    whole; steps are the mean number of edges that a share came over. Of a node that was trained
    on, it also says what the other labels say: its soft label without its own.

    Examples: proptrain explain model/ p17; proptrain explain model/ p17 --picture p17.svg;
    proptrain explain model/ p17 --without p3; proptrain explain model/ p17 --audit audit.csv
    """
    from rich.text import Text

    from proptrain.cli.nodes import find_node, naming
    from proptrain.insight.explanation import explain_node
    from proptrain.insight.telling import headline, retraction, tables_of, to_json
    from proptrain.saving.persistence import load_model
    from proptrain.system.files import check_output

    if picture is not None:
        if picture.suffix not in (".svg", ".png"):
            raise InvalidInputError(f"--picture must end in .svg or .png, got {picture.name!r}.")
        check_output(picture, overwrite=overwrite)
    saved = load_model(model)
    name_of = naming(saved)
    left_out = [find_node(saved, one) for one in without or ()]
    asked = find_node(saved, node)
    explanation = explain_node(saved.estimator, asked, without=left_out, name_of=name_of)
    found = None if audit is None else _audited(saved, asked, audit)
    if picture is not None:
        _draw(saved.estimator, explanation, name_of, picture, overwrite=overwrite)
    if json:
        told = to_json(explanation, name_of, top)
        print_json(told if found is None else {**told, "audit": _audit_to_json(found)})
        return
    lines = [headline(explanation, name_of)]
    if found is not None:
        lines.append(_told_audit(found))
    if left_out:
        lines += retraction(explain_node(saved.estimator, asked), explanation)
    for line in lines:
        results.print(Text(visible(line)), soft_wrap=True)
    for table in tables_of(explanation, name_of, top):
        rows = [list(row) for row in table.rows]
        print_table(table.title, list(table.columns), rows, n_labels=table.n_labels)
        if table.note:
            results.print(Text(table.note))
    if picture is not None:
        say(f"The picture of its neighbourhood: {picture}")


def _audited(saved: SavedModel, node: int, path: Path) -> Suspect:
    """Return what an audit found of a node's label."""
    from proptrain.cli.doubts import read_audit

    for suspect in read_audit(saved, path):
        if suspect.node == node:
            return suspect
    raise InvalidInputError(
        f"{path.name} says nothing of this node: an audit is of given labels. Leave --audit out."
    )


def _told_audit(found: Suspect) -> str:
    """Say what the audit suggests, and what speaks for the given class."""
    if not found.is_judged:
        return "Its label was not judged by the audit: no other is of its class."
    says = (
        f"finds no better class than {found.given}"
        if found.suggested == found.given
        else f"suggests {found.suggested} instead of {found.given}"
    )
    mark = ", a suspect" if found.is_suspect else ""
    evidence = {
        "models that have not seen the label": found.cross_fitted,
        "the other labels, spread through labelled nodes too": found.others,
    }
    known = ", ".join(f"{who} {100 * x:.1f} %" for who, x in evidence.items() if x is not None)
    speaks = f" For {found.given} speak: {known}." if known else ""
    return f"The audit {says}: suspicion {100 * found.suspicion:.1f} %{mark}.{speaks}"


def _audit_to_json(found: Suspect) -> dict[str, object]:
    return {
        "suggested": found.suggested,
        "suspicion": found.suspicion if found.is_judged else None,
        "suspect": found.is_suspect,
        "cross_fitted": found.cross_fitted,
        "others": found.others,
    }


def _draw(
    classifier: GraphClassifier,
    explanation: Explanation,
    name_of: NameOf,
    path: Path,
    *,
    overwrite: bool,
) -> None:
    from proptrain.report.neighbourhood import draw_png, draw_svg, picture_of
    from proptrain.system.files import whole_file

    picture = picture_of(classifier, explanation, name_of)
    is_svg = path.suffix == ".svg"
    content = draw_svg(picture).encode() if is_svg else draw_png(picture)
    with whole_file(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(content)
