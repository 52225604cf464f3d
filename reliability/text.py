"""Text of strangers, wherever it is shown: python -m reliability.text --out FILE.

A table whose ids and classes hold markup, control characters, marks that turn the direction of
text, or what a spreadsheet would compute goes through fit, predict and report. It must be shown as
text everywhere: nothing that a terminal acts upon, no tag in a page that ordinary text would not
have, no cell that a spreadsheet computes, and all of it back from CSV and JSON. Then the files and
folders themselves are named by such text, and every command that takes a path is given those.
"""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from proptrain import cli
from proptrain.cli.console import say
from proptrain.experiments.grid import Table
from proptrain.json_lines import open_lines
from proptrain.text import visible
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
NAMES = {
    "markup": ("<script>alert(1)", "<img src=x onerror=alert(2)>", "&lt;b&gt;", "[bold]a:smile:"),
    "Markdown": TEXTS["Markdown"],
    "control characters": (*TEXTS["control characters"], "a\nerror: b", "a\r\tb"),
    "marks that turn text": TEXTS["marks that turn text"],
    "a leading = or -": (*TEXTS["a leading ="], "--json", "-"),
    "quotes": ("'a\"", "$(ls) `ls`", "\\x41 %s {0}"),
    "emoji": ("\U0001f600", "\U0001f469\u200d\U0001f467"),
    "bytes that are no UTF-8": (os.fsdecode(b"\xff\x80"),),
}
"""Names of files: what a file system of Linux takes, all but / and NUL."""
_NAMED = "files named by "
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
    kinds: dict[str, tuple[Callable[[str], Any], Sequence[str], Mapping[str, Any]]]
    kinds = {kind: (show, texts, PLACES) for kind, texts in TEXTS.items()}
    kinds |= {f"{_NAMED}{kind}": (name, texts, NAMED) for kind, texts in NAMES.items()}
    with open_lines(ready(out).resolve(), faults_in, BEGINNING) as (file, before):
        for kind in chosen(only, kinds):
            show_text, texts, places = kinds[kind]
            faults = {f"text of strangers: {kind}, {place}": place for place in places}
            if faults.keys() <= before:
                say(f"{kind}: in {out} already")
                continue
            plain, *shown = [_elsewhere(show_text, text) for text in (_PLAIN, *texts)]
            for fault in [fault for fault in faults if fault not in before]:
                told = [places[faults[fault]](one, plain) or WELL for one in shown]
                outcomes = [WELL if one == WELL else "broken" for one in told]
                command = f'{COMMAND} --only "{kind}" --out FILE'
                add_outcome(file, fault, outcomes, command, told=told)
                say(f"{fault}: {dict(Counter(told))}")


def _elsewhere(show_text: Callable[[str], Any], text: str) -> Any:
    """Return what is shown of a text in a folder of its own."""
    with tempfile.TemporaryDirectory() as place, chdir(place):
        return show_text(text)


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


@dataclass(frozen=True)
class Named:
    """What the commands made of files with this text in their names."""

    names: list[str]
    said: str
    json: str
    missing: list[str]
    page: str


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


def name(text: str) -> Named:
    """Run the commands on files and folders that are named by this text, in the current folder."""
    ids = [f"n{node}" for node in range(5 * _N_NODES)]  # so many that `evaluate` can hold some out
    classes = ["ab"[node % 2] if node % 5 else "" for node in range(len(ids))]
    at = {one: f"{text} {one}" for one in _FILES}
    nodes = pd.DataFrame({"id": ids, "topic": classes, "size": range(len(ids))})
    nodes.to_csv(at["nodes.csv"], index=False)
    edges = pd.DataFrame({"source": ids, "target": [*ids[2:], *ids[:2]]})
    edges.to_csv(at["edges.csv"], index=False)
    said = [_said(*words) for words in _well(at)]
    missing = [one for one in at.values() if not Path(one).exists()]
    said += [_said(*words) for words in _wrong(at)]
    told = [_said(*words[:1], "--json", "--overwrite", *words[1:]) for words in _well(at)[:2]]
    page = Path(at["page.html"])
    shown = page.read_text(encoding="utf-8") if page.exists() else ""
    return Named([at["model"], at["told.csv"]], "\n".join(said), "".join(told), missing, shown)


_FILES = ("edges.csv", "nodes.csv", "model", "told.csv", "page.html", "a.svg", "graph", "disk",
          "runs.jsonl", "audit.csv", "fixed.csv")  # fmt: skip


def _well(at: dict[str, str]) -> list[tuple[str, ...]]:
    """Return commands that end well and make all files; the first two also print them as JSON."""
    tables = (f"--edges={at['edges.csv']}", f"--nodes={at['nodes.csv']}", "--label=topic")
    short = ("--method=LP", "--runs=2", "--per-class=1")
    return [
        ("fit", *tables, "--method=LP", f"--out={at['model']}"),
        ("predict", f"--out={at['told.csv']}", "--", at["model"]),
        ("report", f"--out={at['page.html']}", "--", at["model"]),
        ("explain", f"--picture={at['a.svg']}", "--", at["model"], "n0"),
        ("graph", "build", f"--out={at['graph']}", "--", at["edges.csv"]),
        ("graph", "info", "--", at["graph"]),
        ("fit", f"--edges={at['graph']}", *tables[1:], "--engine=blocked", f"--out={at['disk']}"),
        ("evaluate", *tables, *short, f"--out={at['runs.jsonl']}"),
        ("audit", *tables, f"--out={at['audit.csv']}", f"--fix={at['fixed.csv']}"),
    ]


def _wrong(at: dict[str, str]) -> list[tuple[str, ...]]:
    """Return commands that end with an error about a file: there, not there, another, too many."""
    edges, nodes, model = at["edges.csv"], at["nodes.csv"], at["model"]
    fit = ("fit", "--label=topic", "--method=LP")
    return [
        (*fit, f"--edges={edges}", f"--nodes={nodes}", f"--out={model}"),
        (*fit, f"--edges={nodes}", f"--nodes={edges}", f"--out={model} 2"),
        (*fit, f"--edges={edges} 2", f"--nodes={nodes}", f"--out={model} 2"),
        (*fit, f"--edges={edges}", f"--nodes={nodes} 2", f"--out={model} 2"),
        ("predict", f"--out={model}.xls", "--", model),
        ("predict", "--out=a.csv", "--", nodes),
        ("predict", "--out=a.csv", "--", model, nodes),
        ("graph", "info", "--", nodes),
        ("evaluate", "--", nodes),
        ("predict", f"--{nodes}"),
        (nodes,),
    ]


def _said(*words: str) -> str:
    return forked.run(words, Path("log")).said


# --- judging ------------------------------------------------------------------------------------


def _on_terminal(shown: Shown, _: Shown) -> str:
    """Return what is wrong with what a terminal is shown; empty if nothing is."""
    acted = [line for line in shown.said.split("\n") if not line.isprintable()]
    return f"broken: {acted[0]!r}" if acted else ""


def _named_on_terminal(shown: Named, plain: Named) -> str:
    """Return what is wrong with names on a terminal, where each must stand, shown as text.

    Every command must also end as it does with an ordinary name; a line that begins with an error
    may else be one that a name has brought along.
    """
    if acted := [line for line in shown.said.split("\n") if not line.isprintable()]:
        return f"broken: {acted[0]!r}"
    for one in shown.names:
        if f"written to {visible(one)}\n" not in shown.said:
            return f"broken: {one!r} is not named"
    beginnings = ("error: ", "Usage: ", "Traceback")
    ends = [[_n_lines(one.said, word) for word in beginnings] for one in (shown, plain)]
    return "" if ends[0] == ends[1] else f"broken: {ends[0]} errors of each kind, not {ends[1]}"


def _n_lines(said: str, beginning: str) -> int:
    return sum(line.startswith(beginning) for line in said.split("\n"))


def _named_in_json(shown: Named, _: Named) -> str:
    lines = shown.json.rstrip("\n").split("\n")
    if not all(line.isprintable() for line in lines):
        return "broken: something that a terminal acts upon"
    told = [text for line in lines for text in _texts_in(json.loads(line))]
    return "" if set(shown.names) <= set(told) else "broken: another text"


def _named_on_disk(shown: Named, _: Named) -> str:
    return f"broken: {shown.missing[0]!r} is not there" if shown.missing else ""


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


def _on_page(shown: Shown | Named, plain: Shown | Named) -> str:
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
NAMED: dict[str, Callable[[Named, Named], str]] = {
    "on a terminal": _named_on_terminal,
    "in JSON": _named_in_json,
    "on the disk": _named_on_disk,
    "in a page": _on_page,
}


if __name__ == "__main__":
    cli.main(app, COMMAND)
