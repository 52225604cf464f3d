"""proptrain audit: tables in, a ranking out, and a fixed table that is never the given one."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

NODES = ("audit", "--edges", "edges.csv", "--nodes", "nodes.csv", "--label", "circle")
WRONG = {3: "<b>left</b>, = first", 30: "\x1b[31mright"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two circles of friends, a label for 24 of 40; names that a terminal or a page would act on.

    Nodes 3 and 30 have the label of the other circle.
    """
    random = np.random.RandomState(0)
    side = np.repeat([0, 1], 20)
    knows = np.triu((random.rand(40, 40) < 0.3) & (side[:, None] == side), 1)
    names = np.array(["<b>left</b>, = first", "\x1b[31mright"])
    labels = names[side].astype(object)
    labels[3], labels[30] = names[1], names[0]
    labels[12:20] = labels[32:] = ""
    ids = [f"=n{node}\x07" for node in range(40)]
    table = {"id": ids, "age": random.rand(40) + side, "code": ["007"] * 40, "circle": labels}
    pd.DataFrame(table).to_csv(tmp_path / "nodes.csv", index=False)
    rows, columns = np.nonzero(knows)
    edges = {"source": np.array(ids)[rows], "target": np.array(ids)[columns]}
    pd.DataFrame(edges).to_csv(tmp_path / "edges.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_suspects_are_shown_written_and_fixed(run, folder):
    before = (folder / "nodes.csv").read_bytes()
    done = run(*NODES, "--top", 3, "--out", "audit.csv", "--fix", "fixed.csv")
    assert done.code == 0, done.err
    assert "2 of 24 labels are suspect" in done.err
    assert "written: audit.csv" in done.err
    assert "written: fixed.csv" in done.err
    assert "\x1b[31mright" not in done.out  # shown as text
    assert "\x07" not in done.out
    assert r"\x1b[31mright" in "".join(done.out.split())
    table = pd.read_csv("audit.csv")
    assert len(table) == 24
    first = dict(zip(table["id"][:2], table["suggested"][:2], strict=True))
    assert first == {f"=n{node}\x07": right for node, right in WRONG.items()}
    assert table["suspect"].tolist() == [True, True] + [False] * 22
    read = {"dtype": str, "keep_default_na": False}
    given, fixed = (pd.read_csv(name, **read) for name in ("nodes.csv", "fixed.csv"))
    for node, right in WRONG.items():
        assert fixed.loc[node, "circle"] == right
        given.loc[node, "circle"] = right
    pd.testing.assert_frame_equal(fixed, given)
    assert (folder / "nodes.csv").read_bytes() == before


def test_both_tables_are_written_for_a_spreadsheet_and_can_be_read_again(run, folder):
    written = ["--out", "audit.csv", "--fix", "fixed.csv"]
    done = run(*NODES, "--fix", "fixed.csv")
    assert "warning: 40 cells begin with" in done.err  # the ids, of this table alone
    done = run(*NODES, *written, "--overwrite", "--for-spreadsheet")
    assert done.code == 0, done.err
    assert "warning" not in done.err
    for name in ("audit.csv", "fixed.csv"):
        assert pd.read_csv(name)["id"].str.startswith("'=n").all()
    tables = ["--edges", "edges.csv", "--nodes", "nodes.csv", "--label", "circle"]
    assert run("fit", *tables, "--out", "model").code == 0
    done = run("report", "model", "--audit", "audit.csv", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["audited"] == 24


def test_json_for_machines(run, folder):
    done = run(*NODES, "--top", 2, "--out", "audit.json", "--fix", "fixed.parquet", "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["labels"], told["suspects"], told["fix"]) == (24, 2, "fixed.parquet")
    assert {row["id"] for row in told["top"]} == {f"=n{node}\x07" for node in WRONG}
    rows = json.loads((folder / "audit.json").read_text())
    assert rows[:2] == told["top"]
    assert len(rows) == 24
    fixed = pd.read_parquet("fixed.parquet")
    assert fixed.loc[3, "circle"] == WRONG[3]
    assert fixed["code"].tolist() == ["007"] * 40


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "audit.txt"], "--out must end in .csv or .json, got 'audit.txt'"),
        (["--fix", "fixed.json"], "--fix must end in .csv or .parquet"),
        (["--fix", "nodes.csv", "--overwrite"], "nodes.csv is read or written already"),
        (["--out", "a.csv", "--fix", "a.csv"], "a.csv is read or written already"),
        (["--out", "there.csv"], "there.csv exists already and is left alone"),
        (["--device", "abacus"], "abacus"),
    ],
)
def test_nothing_is_read_if_nothing_could_be_written(run, folder, words, message):
    (folder / "there.csv").write_text("mine")
    before = sorted(path.name for path in folder.iterdir())
    done = run(*NODES, *words)
    assert done.code == 1
    assert message in done.err
    assert sorted(path.name for path in folder.iterdir()) == before
