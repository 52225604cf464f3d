"""Some kills, a full disk and two writers: short runs of the scripts in reliability/."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
FINE = {"absent", "complete old", "complete new"}


def run(script, tmp_path, *options):
    """Run a script, in a process of its own since it forks; returns the lines that it writes."""
    out = tmp_path / "out.jsonl"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", f"reliability.{script}", "--out", str(out), *options]
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode == 1 and "run this as root" in done.stderr:
        pytest.skip("only root can mount a small disk")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in out.read_text().splitlines()]


def outcomes(lines):
    return {line["fault"]: Counter(line["outcome"]) for line in lines}


def test_killed_while_it_writes_it_leaves_old_new_or_nothing(tmp_path):
    found = outcomes(run("kill", tmp_path, "--writing", "--kills", "10", "--job", "save"))
    assert found["kill -9 while save writes"].total() == 10
    assert set(found["kill -9 while save writes"]) <= FINE


def test_a_full_disk_is_an_error_of_ours_and_nothing_is_lost(tmp_path):
    (found,) = outcomes(run("full_disk", tmp_path, "--job", "save")).values()
    assert found == {"our error; absent": 12, "our error; complete old": 12}


def test_of_two_writers_one_wins_and_the_other_says_so(tmp_path):
    found = outcomes(run("two_writers", tmp_path, "--pairs", "3", "--job", "save"))
    both = "one after the other, one of the two stands whole"
    assert found["two at once: save"] == {"one wrote it, the other said so": 3}
    assert set(found["two at once: save, overwriting"]) <= {
        "one wrote it, the other said so",
        both,
    }
