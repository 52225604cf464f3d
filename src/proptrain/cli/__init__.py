"""The command line: proptrain and its commands."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import typer

from proptrain.cli import (
    audit,
    bench,
    data,
    demo,
    evaluate,
    explain,
    fit,
    graph,
    predict,
    report,
    reproduce,
    verify,
)
from proptrain.cli.console import fail, say
from proptrain.errors import ProptrainError

app = typer.Typer(
    name="proptrain",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Tell what every node of a graph is from a few labels.\n\n"
        "Labels are spread over the graph once, an ordinary network is trained on the result, and "
        "its predictions are spread once (PTA, WWW 2021).\n\n"
        "Start with [bold]proptrain demo[/bold]; then, with two files of your own:\n\n"
        "[bold]proptrain fit --edges edges.csv --nodes nodes.csv --label topic --out model/[/bold]"
        "\n\n[bold]proptrain predict model/ --out predictions.csv[/bold]"
    ),
    epilog="Exit codes: 0 done, 1 the input cannot be used (the message says why), 2 wrong usage.",
)
app.command()(demo.demo)
app.command()(fit.fit)
app.command()(predict.predict)
app.command()(explain.explain)
app.command()(report.report)
app.command()(evaluate.evaluate)
app.command()(audit.audit)
app.command()(reproduce.reproduce)
app.command()(verify.verify)
app.command()(bench.bench)
app.add_typer(data.app, name="data")
app.add_typer(graph.app, name="graph")


def main(app: Callable[..., object] = app, name: str = "proptrain") -> None:
    """Run the command line, ours by default; errors on purpose become one line and exit code 1."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            app(prog_name=name)
        except ProptrainError as error:
            fail(error, as_json="--json" in sys.argv)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as a note, without the line of code it came from."""
    say(f"warning: {message}")
