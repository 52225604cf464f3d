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
PictureOption = Annotated[
    Path | None, typer.Option(help="Picture of the neighbourhood to write: .svg or .png.")
]


def explain(
    model: ModelArgument,
    node: NodeArgument,
    top: TopOption = 10,
    without: WithoutOption = None,
    picture: PictureOption = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Say which labels and which neighbours made a node's prediction, exactly.

    Two sums are taken apart: the soft label, by the labels that came to the node over the graph;
    and the prediction, by the nodes whose own predictions were averaged. Shares add up to the
    whole; steps are the mean number of edges that a share came over.

    Examples: proptrain explain model/ p17; proptrain explain model/ p17 --picture p17.svg;
    proptrain explain model/ p17 --without p3
    """
    from rich.text import Text

    from proptrain.cli.nodes import find_node, naming
    from proptrain.files import check_output
    from proptrain.insight.explanation import explain_node
    from proptrain.insight.telling import headline, tables_of, to_json
    from proptrain.persistence import load_model

    if picture is not None:
        if picture.suffix not in (".svg", ".png"):
            raise InvalidInputError(f"--picture must end in .svg or .png, got {picture.name!r}.")
        check_output(picture, overwrite=overwrite)
    saved = load_model(model)
    name_of = naming(saved)
    left_out = [find_node(saved, one) for one in without or ()]
    explanation = explain_node(saved.estimator, find_node(saved, node), without=left_out)
    if picture is not None:
        _draw(saved.estimator, explanation, name_of, picture, overwrite=overwrite)
    if json:
        print_json(to_json(explanation, name_of, top))
        return
    results.print(Text(visible(headline(explanation, name_of))), soft_wrap=True)
    for table in tables_of(explanation, name_of, top):
        rows = [list(row) for row in table.rows]
        print_table(table.title, list(table.columns), rows, n_labels=table.n_labels)
    if picture is not None:
        say(f"The picture of its neighbourhood: {picture}")


def _draw(
    classifier: GraphClassifier,
    explanation: Explanation,
    name_of: NameOf,
    path: Path,
    *,
    overwrite: bool,
) -> None:
    from proptrain.files import whole_file
    from proptrain.report.neighbourhood import draw_png, draw_svg, picture_of

    picture = picture_of(classifier, explanation, name_of)
    is_svg = path.suffix == ".svg"
    content = draw_svg(picture).encode() if is_svg else draw_png(picture)
    with whole_file(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(content)
