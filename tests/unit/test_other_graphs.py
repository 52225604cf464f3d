"""The benchmark on other graphs: what it makes, what it gives away, and what it resumes."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from benchmarks import other_graphs
from benchmarks.other_graphs import Labels, blocks, give

from proptrain import cli
from proptrain.experiments.versions import code_digest


def test_blocks_have_the_edges_that_they_were_asked_for():
    nodes = blocks([300, 100], 0.1, 0.02)(np.random.RandomState(0))
    assert np.bincount(nodes.classes).tolist() == [300, 100]
    assert (nodes.graph.adjacency.data == 1).all()  # some edge is drawn twice, and is one
    left, right = nodes.graph.adjacency.nonzero()
    alike = nodes.classes[left] == nodes.classes[right]
    wanted = 0.1 * (300**2 + 100**2)  # either way
    assert alike.sum() == pytest.approx(wanted, rel=0.1)
    assert (~alike).sum() == pytest.approx(2 * 0.02 * 300 * 100, rel=0.1)


@pytest.mark.parametrize("labels", [Labels(4), Labels(4, wrong=0.5), Labels(drawn=20)], ids=str)
def test_labels_are_as_many_and_as_wrong_as_said(labels):
    nodes = blocks([50, 30, 20], 0.1, 0.02)(np.random.RandomState(0))
    given = give(nodes, labels, 1, np.random.RandomState(1))
    known = given >= 0
    assert known.sum() == (labels.drawn or 3 * labels.per_class)
    assert set(nodes.classes[known]) == {0, 1, 2}
    assert (given != nodes.classes)[known].mean() == pytest.approx(labels.wrong, abs=0.1)


def test_what_is_done_is_not_measured_again(tmp_path, monkeypatch, capsys):
    case = {"tiny": (blocks([30, 30], 0.3, 0.02), (Labels(3),))}
    monkeypatch.setattr(other_graphs, "CASES", case)
    monkeypatch.setattr(other_graphs, "SEEDS", range(2))
    out = tmp_path / "other.jsonl"
    monkeypatch.setattr(sys, "argv", ["other_graphs", "--out", str(out)])

    def run():
        with pytest.raises(SystemExit) as end:
            cli.main(other_graphs.app, "python -m benchmarks.other_graphs")
        assert end.value.code == 0
        return capsys.readouterr().out

    first = run()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    mean = 100 * np.mean([line["PTA+"] for line in lines])
    assert len(lines) == 2
    assert first.splitlines()[2].endswith(f"| {mean:.1f} |")
    measure = other_graphs.measure
    monkeypatch.setattr(other_graphs, "measure", None)
    assert run() == first
    # What other code made is done again, and is not told.
    monkeypatch.setattr(other_graphs, "measure", measure)
    other = [{**line, "code": "of old", "PTA+": 0.0} for line in lines]
    for line in (*other, {name: lines[0][name] for name in lines[0] if name != "code"}):
        with out.open("a") as file:
            file.write(json.dumps(line) + "\n")
    assert run() == first
    out.write_text("".join(json.dumps(line) + "\n" for line in other))
    assert run() == first
    assert [json.loads(line)["code"] for line in out.read_text().splitlines()] == [
        *["of old"] * 2,
        *[code_digest()] * 2,
    ]
