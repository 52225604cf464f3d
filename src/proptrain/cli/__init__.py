"""The command line: proptrain and its commands."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

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
from proptrain.text import visible


@contextmanager
def _usage_as_text() -> Iterator[None]:
    """Have an error about the usage show, not act upon, the words that it quotes."""
    try:
        yield
    except Exception as error:
        # By its attributes: some releases of typer have such errors from click, some of their own.
        if hasattr(error, "format_message") and isinstance(getattr(error, "message", None), str):
            error.message = visible(error.message)  # type: ignore[attr-defined]
        raise


class _Commands(TyperGroup):
    """All commands; a file of a stranger's can become a word of theirs by a * of the shell."""

    def make_context(self, *args: Any, **how: Any) -> Any:
        """Read the words before the name of a command."""
        with _usage_as_text():
            return super().make_context(*args, **how)

    def invoke(self, *args: Any, **how: Any) -> Any:
        """Read all other words, and run the command."""
        with _usage_as_text():
            return super().invoke(*args, **how)


app = typer.Typer(
    cls=_Commands,
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
