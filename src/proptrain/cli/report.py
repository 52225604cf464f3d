"""proptrain report: one page about a model, to look at and to hand on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proptrain.cli.console import (
    ForceOption,
    JsonOption,
    OpenOption,
    OverwriteOption,
    print_json,
    say,
    show_page,
)
from proptrain.cli.predict import ModelArgument
from proptrain.errors import InvalidInputError
from proptrain.text import command_line

if TYPE_CHECKING:
    from proptrain.report.page import Report
    from proptrain.report.parts import Suspect
    from proptrain.saving.persistence import SavedModel

OutOption = Annotated[Path, typer.Option(help="HTML page to write.")]
FittedNodesOption = Annotated[
    Path | None,
    typer.Option(
        help="The node table of `fit`: its labels are audited for the page, which trains ten more "
        "models."
    ),
]
AuditOption = Annotated[
    Path | None,
    typer.Option(help="Instead of --nodes: what `proptrain audit --out` wrote, .csv or .json."),
]
TitleOption = Annotated[str | None, typer.Option(help="Title of the page.")]


def report(
    model: ModelArgument,
    out: OutOption = Path("report.html"),
    nodes: FittedNodesOption = None,
    audit: AuditOption = None,
    title: TitleOption = None,
    open_page: OpenOption = False,
    overwrite: OverwriteOption = False,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Write one page about a model: what it predicts, its mistakes, and every node explained.

    The page is a single file that needs no network and no server: open it, or send it to somebody.
    Any node can be looked up with its probabilities, its neighbourhood and the labels behind
    them. Beyond 20,000 nodes, the page has all parts but this one. With the node table it also
    lists the labels that are likely wrong.

    Examples: proptrain report model/ --nodes nodes.csv --out report.html;
    proptrain report model/ --audit audit.csv
    """
    from proptrain.report.model_page import model_report
    from proptrain.report.page import write_report
    from proptrain.saving.persistence import load_model
    from proptrain.system.files import check_output

    if nodes is not None and audit is not None:
        raise InvalidInputError("--nodes audits the labels anew, --audit takes an audit: give one.")
    check_output(out, overwrite=overwrite, inputs=[nodes, audit])
    saved = load_model(model)
    page = model_report(
        saved.estimator,
        names=None if saved.node_ids is None else saved.node_ids.tolist(),
        title=title or _title_of(model),
        command=_command(model, out, nodes, audit),
        suspects=_suspects(saved, nodes, audit, quiet=json, force=force),
    )
    write_report(page, out, overwrite=overwrite)
    _tell(page, out, saved, as_json=json)
    if open_page:
        show_page(out)


def _title_of(model: Path) -> str:
    name = model.resolve().name
    return "What the model predicts" if name == "model" else f"What the model “{name}” predicts"


def _suspects(
    saved: SavedModel, nodes: Path | None, audit: Path | None, *, quiet: bool, force: bool
) -> tuple[Suspect, ...]:
    from proptrain.cli.doubts import audited_now, read_audit

    if nodes is not None:
        return audited_now(saved, nodes, quiet=quiet, force=force)
    return () if audit is None else read_audit(saved, audit)


def _command(model: Path, out: Path, nodes: Path | None, audit: Path | None) -> str:
    words: list[str | Path] = ["proptrain", "report", model]
    for name, path in (("--nodes", nodes), ("--audit", audit), ("--out", out)):
        words += [] if path is None else [name, path]
    return command_line(*words)


def _tell(page: Report, out: Path, saved: SavedModel, *, as_json: bool) -> None:
    from proptrain.insight.audit import can_audit
    from proptrain.report.explore import Unexplorable

    size = out.stat().st_size
    missing = page.explore.reason if isinstance(page.explore, Unexplorable) else None
    if as_json:
        told = {"out": str(out), "bytes": size, "explores_nodes": missing is None}
        print_json({**told, "audited": len(page.suspects), "reliability": bool(page.reliability)})
        return
    say(f"The page is {out}, {size / 1e6:.1f} MB.")
    if missing is not None:
        say(f"Nodes are not in it. {missing}")
    if not page.suspects and can_audit(saved.estimator):  # others are refused with either option
        how = "--audit with an audit" if saved.table is None else "--nodes with the table of `fit`"
        say(f"Labels in doubt are not in it: for those, add {how}.")
