"""Text from strangers is shown as text: on a terminal, in CSV, Markdown and HTML."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from proptrain import LabelPropagationClassifier, PTAClassifier, cli, errors
from proptrain.cli import console
from proptrain.cli.csv_tables import tell_formulas, write_csv
from proptrain.experiments.grid import Table, markdown
from proptrain.report.svg import clean_text
from proptrain.text import command_line, visible

NASTY = {
    "escape": "\x1b[31mred\x1b]0;title\x07",
    "backspaces": "abc\x08\x08\x08",
    "C1": "\x9b31m",
    "override": "\u202egnp.exe",
    "isolate": "\u2066a\u2069",
    "mark": "\u200fa",
    "line": "a\nerror: b",
    "surrogate": "\udc80",
    "null": "a\0b",
}


def shown_by(capsys, call, *args):
    call(*args)
    out, err = capsys.readouterr()
    return out + err


@pytest.mark.parametrize("name", NASTY)
def test_a_terminal_is_shown_only_what_it_can_show(name, capsys, monkeypatch):
    text = NASTY[name]
    for console_name in ("results", "notes"):
        monkeypatch.setattr(getattr(console, console_name), "_color_system", None)

    def failing():
        with pytest.raises(SystemExit):
            console.fail(ValueError(text), as_json=False)

    shown = [
        shown_by(capsys, console.say, text),
        shown_by(capsys, failing),
        shown_by(capsys, console.print_table, text, [text], [[text]]),
    ]
    for one in shown:
        assert all(line.isprintable() for line in one.split("\n")), one
        assert visible(text).replace(" ", "") in one.replace("\n", "").replace(" ", "")


@pytest.mark.parametrize("name", NASTY)
def test_an_error_of_ours_is_shown_as_text_in_python_too(name):
    text = NASTY[name]
    for kind in (errors.TableError, errors.UnreadableFileError, errors.MissingPackageError):
        assert str(kind(f"must be id, got {text}")) == f"must be id, got {visible(text)}"


@pytest.mark.parametrize("name", [name for name in NASTY if name != "null"])  # NumPy ends there
def test_an_explanation_shows_classes_as_text(name):
    y, edges = [NASTY[name], NASTY[name], None, "right"], [(0, 1), (1, 2), (2, 3)]
    alone = LabelPropagationClassifier().fit(None, y, graph=edges)
    learnt = PTAClassifier(max_epochs=1).fit(np.eye(4), y, graph=edges, stopping=[1])
    for told in (str(alone.explain(0)), str(learnt.explain(0))):
        assert all(line.isprintable() for line in told.split("\n")), told
        assert f"given {visible(NASTY[name])}" in told


@pytest.mark.parametrize("name", NASTY)
def test_json_says_the_same_with_nothing_that_a_terminal_acts_upon(name, capsys):
    printed = shown_by(capsys, console.print_json, {"id": NASTY[name]})
    assert printed.rstrip("\n").isprintable()
    assert json.loads(printed) == {"id": NASTY[name]}


@given(st.text())
def test_what_is_visible_is_printable_and_other_text_stays(text):
    assert visible(text).isprintable()
    if text.isprintable():
        assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("[a](javascript:b)", "\\[a\\](javascript:b)"),
        ("a|b", "a\\|b"),
        ("\u202eb", "\\\\u202eb"),
        ("a\x1b[31m\nb", "a\\\\x1b\\[31m b"),
    ],
)
def test_markdown_shows_letters(text, expected):
    assert markdown(text) == expected
    assert Table("t", ("h",), ((text,),)).to_markdown().split("\n")[2] == f"| {expected} |"


@pytest.mark.parametrize("mark", "\u061c\u200e\u200f\u202a\u202e\u2066\u2069")
def test_a_page_has_no_marks_that_turn_its_text(mark):
    assert clean_text(f"a{mark}b") == "a\ufffdb"


def written(table, **how):
    target = io.StringIO(newline="")
    n_formulas = write_csv(table, target, header=True, **how)
    return target.getvalue(), n_formulas


def read(text):
    return pd.read_csv(io.StringIO(text, newline=""), dtype=str, keep_default_na=False)


CELLS = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1
)


@given(CELLS)
def test_csv_gives_any_text_back(cells):
    text, _ = written(pd.DataFrame({"id": cells, "n": 1}), for_spreadsheet=False)
    assert read(text)["id"].tolist() == cells


@given(
    st.lists(
        st.text("'=+-@\t\r\n,\"a1", max_size=4) | st.sampled_from(["=1+1", "-5", "'=a"]), min_size=1
    )
)
def test_a_spreadsheet_gets_no_formula_and_one_apostrophe_less_is_the_text(cells):
    text, told = written(pd.DataFrame({"id": cells, "n": 1}), for_spreadsheet=True)
    found = read(text)["id"].tolist()
    assert told == 0
    for cell, kept in zip(cells, found, strict=True):
        is_number = cell.lstrip("+-").isdigit() and cell[1:2] not in ("+", "-")
        assert is_number or not kept.startswith(("=", "+", "-", "@", "\t", "\r"))
        stripped = kept.lstrip("'")
        marked = kept.startswith("'") and stripped.startswith(("=", "+", "-", "@", "\t", "\r"))
        assert (kept[1:] if marked else kept) == cell


@pytest.mark.parametrize("sign", "=+-@\uff1d\uff0b\uff0d\uff20")
def test_signs_begin_a_formula_wide_ones_and_those_of_columns_too(sign):
    table = pd.DataFrame({f"{sign}a": [f"{sign}1+1", "b"], "b": [1, 2]})
    assert written(table, for_spreadsheet=False)[1] == 2
    text, told = written(table, for_spreadsheet=True)
    assert (text, told) == (f"'{sign}a,b\n'{sign}1+1,1\nb,2\n", 0)


def test_numbers_are_no_formulas_and_formulas_are_told(capsys):
    table = pd.DataFrame({"id": ["=1+1", "-5", "+1e3", "@a", "a"], "n": [-1, -2, -3, -4, -5]})
    text, n_formulas = written(table, for_spreadsheet=False)
    assert n_formulas == 2
    assert read(text)["id"].tolist() == table["id"].tolist()
    tell_formulas(n_formulas)
    assert "2 cells begin with =, +, - or @" in capsys.readouterr().err
    tell_formulas(0)
    assert capsys.readouterr().err == ""


# --- names of files -----------------------------------------------------------------------------

PATHS = [*NASTY.values(), "-r", "--json", "a b", "it's", '"$(ls)" `ls`', "\\x41", "é\u200d👩", "%s"]


@pytest.mark.skipif(sys.platform != "linux", reason="names that other systems do not have")
@pytest.mark.parametrize("path", [path for path in PATHS if "\0" not in path], ids=ascii)
def test_a_command_that_is_copied_names_the_same_file(path):
    command = command_line("printf", "%s", Path(path))
    assert command.isprintable()
    told = subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout
    assert Path(os.fsdecode(told)) == Path(path)


@pytest.mark.parametrize("name", ["escape", "override", "mark"])
def test_wrong_usage_shows_the_words_it_quotes_as_text(name, capsys, monkeypatch):
    for words in (["predict", "model", NASTY[name], "--out=a.csv"], ["graph", NASTY[name]]):
        monkeypatch.setattr(sys, "argv", ["proptrain", *words])
        with pytest.raises(SystemExit, match="2"):
            cli.main()
        shown = capsys.readouterr().err
        assert all(line.isprintable() for line in shown.split("\n")), shown


def test_a_progress_bar_shows_a_name_as_text(monkeypatch):
    screen = io.StringIO()
    shown = Console(file=screen, force_terminal=True, color_system=None, width=80)
    monkeypatch.setattr(console, "notes", shown)
    with console.progress(NASTY["override"], 2, quiet=False) as advance:
        advance(1.0, NASTY["isolate"])
    assert visible(NASTY["isolate"]) in screen.getvalue()
    assert "\u2066" not in screen.getvalue()
    assert "\u202e" not in screen.getvalue()
