"""The benchmark from disk: limits that kill, parts that make a fit, a table with verdicts."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest
from benchmarks.from_disk import __main__ as command
from benchmarks.from_disk.parts import ENGINES, PARTS, InMemory, Job, OnDisk, make
from benchmarks.from_disk.table import table_of
from benchmarks.measured import between_marks, open_cases, read_cases
from benchmarks.processes import KILLED, cpu_seconds, family, family_memory, watch

from commands import runner
from proptrain.errors import FileFormatError, InvalidInputError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what others have")
TAKES = "import time, json; a = b'x' * {size}; time.sleep({sleep}); print(json.dumps(len(a)))"


def taking(n_bytes, sleep=0.1):
    return [sys.executable, "-c", TAKES.format(size=n_bytes, sleep=sleep)]


# --- processes that are watched -----------------------------------------------------------------


def test_a_process_is_killed_when_it_has_more_than_the_limit():
    within, beyond = (watch(taking(size), limit=150_000_000) for size in (10_000_000, 300_000_000))
    assert (within.told, within.failed) == (10_000_000, None)
    assert 10_000_000 < within.peak < 150_000_000
    assert (beyond.told, beyond.failed) == ({}, KILLED)
    assert beyond.peak > 150_000_000


def test_a_failure_is_told_by_its_last_line():
    ended = watch([sys.executable, "-c", "raise ValueError('too small')"])
    assert ended.failed == "ValueError: too small"


def test_a_family_is_all_that_a_process_has_started():
    code = f"import subprocess, sys; subprocess.run({taking(50_000_000, 2)!r}); print('1')"
    seen = []

    def look(process):
        seen.append((len(family(process)), cpu_seconds(process)))
        return family_memory(process)

    ended = watch([sys.executable, "-c", code], memory=look)
    assert max(n for n, _ in seen) == 2
    assert max(seconds for _, seconds in seen) > 0
    assert ended.peak > 50_000_000
    assert os.getpid() in family(os.getpid())


# --- parts --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disk")
    make(folder, (3000, 12_000, 3, 60), "4GB")
    return Job(folder, "4GB", epochs=80)


def test_the_parts_come_to_what_the_fit_comes_to(job):
    for engine in (OnDisk, InMemory):
        assert engine(job).build()["entries"] == 24_000
        for part in ("propagate", "train"):
            assert getattr(engine(job), part)()["seconds"] > 0
        told, fitted = engine(job).predict(), engine(job).fit()
        assert told["right"] == fitted["right"] > 0.5
    names = [job.folder / f"{kind}-soft.npy" for kind in ("disk", "memory")]
    np.testing.assert_allclose(*map(np.load, names), atol=1e-6)


# --- the command --------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch, capsys):
    return runner(monkeypatch, capsys, app=command.app)


def test_everything_is_measured_once_in_processes_of_their_own(tmp_path, run, monkeypatch):
    # Each process takes seconds to start: fewer cases, but each kind of them.
    monkeypatch.setattr(command, "PARTS", ("build", "fit"))
    sizes = ["--nodes", 3000, "--edges", 12_000, "--classes", 3, "--features", 60, "--epochs", 2]
    work, out, page = tmp_path / "work", tmp_path / "out.jsonl", tmp_path / "page.md"
    words = [work, "--out", out, "--memory", "4GB", *sizes]
    code, text = run(*words)
    assert code == 0, text.err
    lines = read_cases(out, "")
    told = {(line["case"]["part"], line["case"]["engine"]): line for line in lines}
    assert len(told) == len(lines) == 7
    assert all(line["failed"] is None for line in lines)
    assert all(100e6 < line["peak_memory"] < 4e9 for line in lines)
    assert told["fit", "disk, limited"]["right"] == pytest.approx(
        told["fit", "memory"]["right"], abs=0.01
    )
    before = out.read_text()
    assert run(*words)[0] == 0
    assert out.read_text() == before  # nothing is measured twice
    page.write_text("a\n<!-- from_disk table -->\n<!-- end of from_disk table -->\nb\n")
    assert run("--show", out, "--page", page)[0] == 0
    assert "| build | " in page.read_text()
    assert page.read_text().endswith("<!-- end of from_disk table -->\nb\n")
    work.rename(tmp_path / "elsewhere")
    code, text = run(*words)
    assert code == 1
    assert "is not there" in text.err


def test_a_command_without_a_job_says_what_it_needs(run):
    code, text = run()
    assert code == 1
    assert "FOLDER --out FILE" in text.err


# --- the table ----------------------------------------------------------------------------------


def measured(times, peaks, failed=None, memory="2GB"):
    """Lines as if all parts had taken so long, and had so much at the peak, by each engine."""
    job = {"nodes": 10, "edges": 20, "classes": 3, "features": 4, "epochs": 5, "memory": memory}
    made_with = {"day": "2026-01-01", "threads": "2", "code": "abc"}
    return [
        {
            "case": {**job, "part": part, "engine": engine},
            **({} if failed and engine == ENGINES[2] else {"seconds": seconds, "right": 0.9}),
            "failed": failed if engine == ENGINES[2] else None,
            "process_seconds": 1.5,
            "peak_memory": peak,
            "load": 0.2,
            "made_with": made_with,
        }
        for engine, seconds, peak in zip(ENGINES, times, peaks, strict=True)
        for part in PARTS
    ]


def test_the_table_has_ratios_and_verdicts():
    text = table_of(measured((5, 2, 9), (1.5e9, 4e9, 2.1e9), KILLED)).to_markdown()
    assert "| train | 1.5 GB | 5.0 s | 4 GB | 2.0 s | 2.50 | killed after 1.5 s |" in text
    assert (
        "| all four | 1.5 GB | 20.0 s | 4 GB | 8.0 s | 2.50 | killed in build after 1.5 s" in text
    )
    assert "NOT" not in text
    assert text.count("Held: ") == 3
    assert "90.00% are told right from disk" in text


def test_what_does_not_hold_is_said():
    text = table_of(measured((7, 2, 9), (2.5e9, 4e9, 1.9e9))).to_markdown()
    assert text.count("NOT held: ") == 3


def test_a_table_of_what_there_is_so_far():
    lines = measured((5, 2, 9), (1.5e9, 4e9, 2.1e9))[:3]
    assert "| predict | – | – | – | – | – | – |" in table_of(lines).to_markdown()
    with pytest.raises(InvalidInputError, match="Nothing is measured yet"):
        table_of([])


def test_lines_of_others_are_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"step": 1}) + "\n")
    with pytest.raises(FileFormatError, match="Line 1"), open_cases(path):
        pass


def test_a_page_without_marks_is_left_alone():
    with pytest.raises(InvalidInputError, match="<!-- sizes -->"):
        between_marks("nothing here", "sizes", "text")
