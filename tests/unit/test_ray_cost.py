"""What Ray costs: which cases there are, what is resumed, what is counted, and the table."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.processes import Ended
from benchmarks.ray_cost import __main__ as command
from benchmarks.ray_cost import one
from benchmarks.ray_cost.table import gather, table_of

from commands import runner
from proptrain.data.disk_writer import save_graph
from proptrain.data.graph import Graph
from proptrain.data.shared_graph import SharedGraph
from proptrain.errors import InvalidInputError
from proptrain.propagate.exchange import share_of

SECONDS = {"local": 2.0, "blocked": 3.0, "ray": 8.0}


def made_up(words, **_):
    """Numbers for a case, as if it had been measured; Ray takes 4 times the time, 6 the CPU."""
    job, engine, _, nodes, entries, _, blocks = words[-7:]
    assert ("unshare" in words) <= (engine == "ray")
    if job == "make":
        told = {"nodes": nodes, "stored": entries, "folder_bytes": 4 * entries}
        return Ended({**told, "exchanged_rows": nodes * blocks}, 10, 1.0)
    cpu = 12.0 if engine == "ray" else 2.0
    return Ended({"seconds": SECONDS[engine], "cpu_seconds": cpu}, 3_000_000, 1.0)


@pytest.fixture
def run(monkeypatch, capsys):
    return runner(monkeypatch, capsys, app=command.app)


def test_every_case_is_measured_once_and_shown(tmp_path, run, monkeypatch):
    asked = []

    def watch(words, **how):
        asked.append(words)
        place = words[-5] / f"graph-{words[-1]}"
        place.mkdir(exist_ok=True)
        return made_up(words, **how)

    monkeypatch.setattr(command, "watch", watch)
    out = tmp_path / "ray.jsonl"
    words = [tmp_path / "work", "--out", out, "--repeats", 2]
    words += [*("--entries", 4000, "--entries", 9000, "--columns", 8)]
    code, text = run(*words)
    assert code == 0, text.err
    # Two sizes of a graph and two repetitions of four jobs; with more blocks only Ray's.
    assert len(asked) == 2 * (1 + 2 * 4) + 2 * (1 + 2)
    n_asked = len(asked)
    assert run(*words)[0] == 0
    assert len(asked) == n_asked
    code, text = run("--show", out)
    assert code == 0
    times, sizes = "2.00 s | 3.00 s | 8.00 s | 4.00 | 6.00", "3 MB | 3 MB | 3 MB | 57.6 KB | 36 KB"
    assert f"| 9,000 | 4 | {times} | {sizes} |" in text.out
    assert "| 4,000 | 48 | 2.00 s | 3.00 s | 8.00 s | 4.00 | 6.00 " in text.out
    assert "medians of 2" in text.out


def test_a_failure_is_told_and_not_written(tmp_path, run, monkeypatch):
    monkeypatch.setattr(command, "watch", lambda *_, **__: Ended({}, 0, 1.0, "OSError: no room"))
    out = tmp_path / "ray.jsonl"
    code, text = run(tmp_path / "work", "--out", out, "--entries", 4000)
    assert code == 1
    assert "make by - failed: OSError: no room" in text.err
    assert out.read_text() == ""


def test_a_table_of_half_the_cases():
    line = {"case": {"job": "make", "engine": "-", "entries": 9, "columns": 1, "blocks": 4}}
    line["case"]["repeat"] = 0
    line |= {"nodes": 3, "stored": 9, "folder_bytes": 36, "exchanged_rows": 5, "load": 0.1}
    line |= {"made_with": {"day": "2026-01-01", "threads": "2", "code": "abc"}, "peak_memory": 1}
    assert (
        "| 9 | 4 | – | – | – | – | – | – | – | – | 20 B | 36 B |" in table_of([line]).to_markdown()
    )
    with pytest.raises(InvalidInputError, match="the making of"):
        gather([{"case": line["case"] | {"job": "train"}}])


def test_what_is_exchanged_is_what_the_engine_sends(tmp_path):
    random = np.random.RandomState(0)
    upper = np.triu(random.rand(60, 60) < 0.05, 1)
    save_graph(Graph(sp.csr_array((upper + upper.T).astype(float))), tmp_path / "g", n_blocks=3)
    graph = SharedGraph(tmp_path / "g")
    for number in range(3):
        share, needs = share_of(graph.block(number), graph.bounds, "symmetric")
        assert one._needed(graph, number) == share.n_needed == sum(map(len, needs))


def test_jobs_of_one_machine_run(tmp_path, monkeypatch):
    monkeypatch.setattr(one, "MEMORY", "4GB")
    told = one.make(tmp_path, 600, 3000, 4, 2)
    assert (told["nodes"], told["stored"]) == (600, 3000)
    assert 600 < told["exchanged_rows"] <= 1200
    assert told["folder_bytes"] > 4 * 3000
    for engine in ("local", "blocked"):
        took = one.propagate(engine, tmp_path / "graph-2", 4)
        assert took["seconds"] > 0
    assert one.train(tmp_path, 4)["seconds"] > 0
