"""Text of strangers, wherever it is shown: python -m reliability.text --out FILE.

A table whose ids and classes hold markup, control characters, marks that turn the direction of
text, or what a spreadsheet would compute goes through fit, predict and report. It must be shown as
text everywhere: nothing that a terminal acts upon, no tag in a page that ordinary text would not
have, no cell that a spreadsheet computes, and all of it back from CSV and JSON.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from proptrain import cli
from proptrain.cli.console import say
from proptrain.experiments.grid import Table
from proptrain.json_lines import open_lines
from reliability import forked
from reliability.outcomes import BEGINNING, add_outcome, chosen, faults_in, ready

COMMAND = "python -m reliability.text"
WELL = "shown as text"
TEXTS = {
    "markup": ("<script>alert(1)</script>", "</td><img src=x onerror=alert(2)>", "&lt;b&gt;"),
    "Markdown": ("[a](javascript:b)", "a|b", "*a* `b` ![c](d)", "# a"),
    "control characters": ("\x1b[31mred\x1b]0;title\x07", "abc\x08\x08\x08", "\x9b31m"),
    "marks that turn text": ("\u202egnp.exe", "\u2066a\u2069", "\u200fa"),
    "a leading =": ("=1+1", "@SUM(1)", "+cmd", "-2+3"),
}
_PLAIN = "plain"
_N_NODES = 12
_FORMULA = re.compile(r"[=+\-@\t\r]")
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="File to add lines to; what is in it stays.")],
    only: Annotated[list[str] | None, typer.Option(help="Only text of these kinds.")] = None,
) -> None:
    """Show each text in each place, and look at what comes of it."""
    forked.load()
    with open_lines(ready(out).resolve(), faults_in, BEGINNING) as (file, before), _elsewhere():
        plain = show(_PLAIN)
        for kind in chosen(only, TEXTS):
            shown = [show(text) for text in TEXTS[kind]]
            for place, judge in PLACES.items():
                fault = f"text of strangers: {kind}, {place}"
                if fault in before:
                    say(f"{fault}: in {out} already")
                    continue
                told = [judge(one, plain) or WELL for one in shown]
                outcomes = [WELL if one == WELL else "broken" for one in told]
                command = f'{COMMAND} --only "{kind}" --out FILE'
                add_outcome(file, fault, outcomes, command, told=told)
                say(f"{fault}: {dict(Counter(told))}")


@contextmanager
def _elsewhere() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as place, chdir(place):
        yield


@dataclass(frozen=True)
class Shown:
    """What the commands made of a table with this text in its ids and classes."""

    ids: list[str]
    said: str
    json: str
    csv: str
    sheet: str
    page: str
    markdown: str


def show(text: str) -> Shown:
    """Run fit, predict and report on a table of this text, in the current folder."""
    ids = [f"{text} {node}" for node in range(_N_NODES)]
    classes = [f"{text} {'ab'[node % 2]}" if node < 8 else "" for node in range(_N_NODES)]
    nodes = pd.DataFrame({"id": ids, "topic": classes, "size": range(_N_NODES)})
    nodes.to_csv("nodes.csv", index=False)
    pd.DataFrame({"source": ids, "target": [*ids[2:], *ids[:2]]}).to_csv("edges.csv", index=False)
    tables = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--label", "topic")
    page = ("report", "model", "--out", "page.html", "--overwrite")
    said = [
        _said("fit", *tables, "--method", "LP", "--out", "model", "--overwrite"),
        _said("predict", "model", "--out", "told.csv", "--overwrite"),
        _said("predict", "model", "--out", "sheet.csv", "--overwrite", "--for-spreadsheet"),
        _said(*page),
        _said("explain", "model", "--", ids[0]),
        _said(
            "fit", *tables, f"--label={text}", "--out", "other"
        ),  # an error with a stranger's word
    ]
    return Shown(
        ids,
        "\n".join(said),
        _said("explain", "model", "--json", "--", ids[0]),
        Path("told.csv").read_text(encoding="utf-8"),
        Path("sheet.csv").read_text(encoding="utf-8"),
        Path("page.html").read_text(encoding="utf-8"),
        Table(text, (text,), ((text,),)).to_markdown(),
    )


def _said(*words: str) -> str:
    return forked.run(words, Path("log")).said


# --- judging ------------------------------------------------------------------------------------


def _on_terminal(shown: Shown, _: Shown) -> str:
    """Return what is wrong with what a terminal is shown; empty if nothing is."""
    acted = [line for line in shown.said.split("\n") if not line.isprintable()]
    return f"broken: {acted[0]!r}" if acted else ""


def _in_json(shown: Shown, _: Shown) -> str:
    if not all(line.isprintable() for line in shown.json.rstrip("\n").split("\n")):
        return "broken: something that a terminal acts upon"
    return "" if shown.ids[0] in _texts_in(json.loads(shown.json)) else "broken: another text"


def _texts_in(told: object) -> Iterator[str]:
    if isinstance(told, str):
        yield told
    for part in told.values() if isinstance(told, dict) else told if isinstance(told, list) else ():
        yield from _texts_in(part)


def _in_csv(shown: Shown, _: Shown) -> str:
    return "" if _first_column(shown.csv) == shown.ids else "broken: another text"


def _in_sheet(shown: Shown, _: Shown) -> str:
    cells = _first_column(shown.sheet)
    if formulas := [cell for cell in cells if _FORMULA.match(cell)]:
        return f"broken: {formulas[0]!r} is computed"
    return "" if [cell.removeprefix("'") for cell in cells] == shown.ids else "broken: another text"


def _first_column(content: str) -> list[str]:
    table = pd.read_csv(io.StringIO(content, newline=""), dtype=str, keep_default_na=False)
    cells: list[str] = table.iloc[:, 0].tolist()
    return cells


def _in_markdown(shown: Shown, plain: Shown) -> str:
    bare = re.sub(r"\\.", "", shown.markdown)  # what is escaped is a letter
    ours = re.sub(r"\\.", "", plain.markdown)
    if not all(line.isprintable() for line in bare.split("\n")):
        return "broken: something that a terminal acts upon"
    # In a cell a # begins no title, and a ! before an escaped bracket no picture.
    acted = [sign for sign in "<>[]|*`" if bare.count(sign) != ours.count(sign)]
    return f"broken: {acted[0]} is acted upon" if acted else ""


class _Tags(HTMLParser):
    """Counts the tags of a page, with the names of their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found[f"{tag} {' '.join(sorted(name for name, _ in attrs))}"] += 1


def _on_page(shown: Shown, plain: Shown) -> str:
    if turned := re.findall("[\x00-\x08\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]",
                            shown.page):  # fmt: skip
        return f"broken: {turned[0]!r} in a page"
    other = _tags_of(shown.page) - _tags_of(plain.page)
    return f"broken: a tag {next(iter(other))}" if other else ""


def _tags_of(page: str) -> Counter[str]:
    tags = _Tags()
    tags.feed(page)
    return tags.found


PLACES: dict[str, Callable[[Shown, Shown], str]] = {
    "on a terminal": _on_terminal,
    "in JSON": _in_json,
    "in CSV": _in_csv,
    "in CSV for a spreadsheet": _in_sheet,
    "in Markdown": _in_markdown,
    "in a page": _on_page,
}


if __name__ == "__main__":
    cli.main(app, COMMAND)
