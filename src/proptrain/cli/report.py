"""proptrain report: one page about a model, to look at and to hand on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from proptrain.cli.console import JsonOption, OverwriteOption, print_json, say
from proptrain.cli.predict import ModelArgument

OutOption = Annotated[Path, typer.Option(help="HTML page to write.")]
TitleOption = Annotated[str | None, typer.Option(help="Title of the page.")]


def report(
    model: ModelArgument,
    out: OutOption = Path("report.html"),
    title: TitleOption = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Write one page about a model: its training, its mistakes, and every node explained.

    The page is a single file that needs no network and no server: open it, or send it to somebody.
    Any node can be looked up with its probabilities, its neighbourhood and the labels behind
    them. Beyond 20,000 nodes, the page has all parts but this one.

    Example: proptrain report model/ --out report.html
    """
    from proptrain.files import check_output
    from proptrain.persistence import load_model
    from proptrain.report.explore import Unexplorable
    from proptrain.report.model_page import model_report
    from proptrain.report.page import write_report

    check_output(out, overwrite=overwrite)
    saved = load_model(model)
    page = model_report(
        saved.estimator,
        names=None if saved.node_ids is None else saved.node_ids.tolist(),
        title=title or f"What {model.resolve().name} tells",
        command=shlex.join(["proptrain", "report", str(model), "--out", str(out)]),
    )
    write_report(page, out, overwrite=overwrite)
    size = out.stat().st_size
    missing = page.explore.reason if isinstance(page.explore, Unexplorable) else None
    if json:
        print_json({"out": str(out), "bytes": size, "explores_nodes": missing is None})
        return
    say(f"The page is {out}, {size / 1e6:.1f} MB.")
    if missing is not None:
        say(f"Nodes are not in it. {missing}")
