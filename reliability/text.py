"""Text of strangers, wherever it is shown: python -m reliability.text --out FILE.

A table whose ids, classes and column hold markup, control characters, marks that turn the direction
of text, or what a spreadsheet would compute goes through all commands that show them, and so does a
file of times with such names. It must be shown as text everywhere: nothing that a terminal acts
upon, no tag in a page or a picture that ordinary text would not have, no cell that a spreadsheet
computes, and all of it back from CSV and JSON. Then the files and folders themselves are named by
such text, and every command that takes a path is given those.
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
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import pandas as pd
import typer

from proptrain import cli
from proptrain.bench.results import Measured
from proptrain.bench.timing import Timed
from proptrain.cli.console import say
from proptrain.system.json_lines import open_lines
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
_N_NODES = 60
"""So many that `evaluate` can hold some out."""
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
            plain, shown = _plain(show_text), [_elsewhere(show_text, text) for text in texts]
            for fault in [fault for fault in faults if fault not in before]:
                told = [places[faults[fault]](one, plain) or WELL for one in shown]
                outcomes = [WELL if one == WELL else "broken" for one in told]
                command = f'{COMMAND} --only "{kind}" --out FILE'
                add_outcome(file, fault, outcomes, command, told=told)
                say(f"{fault}: {dict(Counter(told))}")


@cache
def _plain(show_text: Callable[[str], Any]) -> Any:
    return _elsewhere(show_text, _PLAIN)


def _elsewhere(show_text: Callable[[str], Any], text: str) -> Any:
    """Return what is shown of a text in a folder of its own."""
    with tempfile.TemporaryDirectory() as place, chdir(place):
        return show_text(text)


@dataclass(frozen=True)
class Shown:
    """What the commands made of a table with this text in its ids and classes."""

    ids: list[str]
    classes: list[str]
    """(n,) the label of each node, or nothing."""
    said: str
    json: list[str]
    csv: list[str]
    """Tables of ids and classes, and whatever else."""
    sheets: list[str]
    page: str
    picture: str
    markdown: str


@dataclass(frozen=True)
class Named:
    """What the commands made of files with this text in their names."""

    names: list[str]
    said: str
    json: str
    missing: list[str]
    page: str
    picture: str


def show(text: str) -> Shown:
    """Run the commands on a table of this text, in the current folder."""
    ids = [f"{text} {node}" for node in range(_N_NODES)]
    classes = [f"{text} {'ab'[node % 2]}" if node % 5 else "" for node in range(_N_NODES)]
    classes[4] = f"{text} b"  # which an audit finds, and --fix replaces
    _write_tables("nodes.csv", "edges.csv", ids, classes, f"{text} size")
    Path("times.jsonl").write_text(json.dumps(_times(text)) + "\n")
    tables = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--label", "topic")
    short = ("--method", "LP", "--runs", "2", "--per-class", "1")
    said = [
        _said("fit", *tables, "--method", "LP", "--out", "model"),
        _said("predict", "model", "--out", "told.csv"),
        _said("predict", "model", "--out", "told sheet.csv", "--for-spreadsheet"),
        _said("report", "model", "--out", "page.html"),
        _said("explain", "model", "--picture", "a.svg", "--", ids[0]),
        _said("evaluate", *tables, *short),
        _said("audit", *tables, "--out", "audit.csv", "--fix", "fixed.csv"),
        _said("graph", "build", "edges.csv", "--nodes", "nodes.csv", "--out", "graph"),
        # An error with a stranger's word.
        _said("fit", *tables, f"--label={text}", "--out", "other"),
    ]
    sheet = ("--out", "audit.json", "--fix", "fixed sheet.csv", "--for-spreadsheet")
    printed = [
        _said("explain", "model", "--json", "--", ids[0]),
        _said("audit", *tables, "--json", *sheet),
    ]
    markdown = _said("bench", "--show", "times.jsonl")
    return Shown(
        ids,
        classes,
        "\n".join(said),
        [*printed, _read("audit.json")],
        [_read(one) for one in ("told.csv", "audit.csv", "fixed.csv")],
        [_read(one) for one in ("told sheet.csv", "fixed sheet.csv")],
        _read("page.html"),
        _read("a.svg"),
        markdown,
    )


def _write_tables(
    nodes: str, edges: str, ids: list[str], classes: list[str], column: str = "size"
) -> None:
    """Write a ring of nodes whose classes alternate, as their one feature does."""
    sizes = [node % 2 + node / 100 for node in range(len(ids))]
    pd.DataFrame({"id": ids, "topic": classes, column: sizes}).to_csv(nodes, index=False)
    ends = {"source": ids, "target": [*ids[2:], *ids[:2]]}
    pd.DataFrame(ends).to_csv(edges, index=False)


def _times(text: str) -> dict[str, Any]:
    """Return a measured case with this text wherever a file of times has text."""
    times = {text: Timed((0.1,), 0), f"{text} 2": Timed((0.2,), 0)}
    return Measured(text, text, text, text, times, made_with={text: text}).to_json()


def _read(path: str) -> str:
    """Return the text of a file, none of one that no command has written."""
    file = Path(path)
    return file.read_text(encoding="utf-8") if file.exists() else ""


def name(text: str) -> Named:
    """Run the commands on files and folders that are named by this text, in the current folder."""
    ids = [f"n{node}" for node in range(_N_NODES)]
    at = {one: f"{text} {one}" for one in _FILES}
    classes = ["ab"[node % 2] if node % 5 else "" for node in range(_N_NODES)]
    _write_tables(at["nodes.csv"], at["edges.csv"], ids, classes)
    said = [_said(*words) for words in _well(at)]
    missing = [one for one in at.values() if not Path(one).exists()]
    said += [_said(*words) for words in _wrong(at)]
    told = [_said(*words[:1], "--json", "--overwrite", *words[1:]) for words in _well(at)[:2]]
    names, shown = [at["model"], at["told.csv"]], (_read(at["page.html"]), _read(at["a.svg"]))
    return Named(names, "\n".join(said), "".join(told), missing, *shown)


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


def _in_json(shown: Shown, plain: Shown) -> str:
    if not all(line.isprintable() for one in shown.json for line in one.split("\n")):
        return "broken: something that a terminal acts upon"
    return "" if _n_known(shown) == _n_known(plain) else "broken: another text"


def _n_known(shown: Shown) -> list[int]:
    """Return how many texts of each JSON are an id or a class."""
    known = {*shown.ids, *shown.classes}
    return [sum(text in known for text in _texts_in(json.loads(one))) for one in shown.json]


def _texts_in(told: object) -> Iterator[str]:
    if isinstance(told, str):
        yield told
    for part in told.values() if isinstance(told, dict) else told if isinstance(told, list) else ():
        yield from _texts_in(part)


def _in_csv(shown: Shown, _: Shown) -> str:
    tables = [_cells_of(one) for one in shown.csv]
    return "" if all(_is_of(shown, one) for one in tables) else "broken: another text"


def _in_sheet(shown: Shown, _: Shown) -> str:
    tables = [_cells_of(one) for one in shown.sheets]
    cells = [cell for one in tables for column in one for cell in (column, *one[column])]
    if formulas := [cell for cell in cells if _FORMULA.match(cell)]:
        return f"broken: {formulas[0]!r} is computed"
    tables = [one.map(lambda cell: cell.removeprefix("'")) for one in tables]
    return "" if all(_is_of(shown, one) for one in tables) else "broken: another text"


def _cells_of(content: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(content, newline=""), dtype=str, keep_default_na=False)


def _is_of(shown: Shown, table: pd.DataFrame) -> bool:
    """Tell whether a table is of all nodes or of those with a label, and its classes are theirs."""
    ids, classes = table.iloc[:, 0].tolist(), table.iloc[:, 1].tolist()
    labelled = [one for one, label in zip(shown.ids, shown.classes, strict=True) if label]
    is_whole = ids == shown.ids or sorted(ids) == sorted(labelled)
    return is_whole and set(classes) <= set(shown.classes)


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
    return _in_markup(shown.page, plain.page)


def _in_picture(shown: Shown | Named, plain: Shown | Named) -> str:
    try:
        ElementTree.fromstring(shown.picture)
    except ElementTree.ParseError as error:
        return f"broken: no picture: {error}"
    return _in_markup(shown.picture, plain.picture)


def _in_markup(shown: str, plain: str) -> str:
    if turned := re.findall("[\x00-\x08\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]",
                            shown):  # fmt: skip
        return f"broken: {turned[0]!r} in a page"
    other = _tags_of(shown) - _tags_of(plain)
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
    "in a picture": _in_picture,
}
NAMED: dict[str, Callable[[Named, Named], str]] = {
    "on a terminal": _named_on_terminal,
    "in JSON": _named_in_json,
    "on the disk": _named_on_disk,
    "in a page": _on_page,
    "in a picture": _in_picture,
}


if __name__ == "__main__":
    cli.main(app, COMMAND)
