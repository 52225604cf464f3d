"""Whole commands stay within the memory that they are given, at the peak of a process of their own.

Each is run on something small first, which compiles and loads what it needs, and has a peak of its
own; then with a limit that is far below what the same would take in memory.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proptrain.data.synthetic_disk import write_synthetic
from proptrain.system.memory import parse_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells peaks")

WITHIN = """
import json, sys
from dataclasses import replace
from pathlib import Path
from proptrain import cli
from proptrain.classifier import GraphClassifier
from proptrain.system.memory import give_back, peak_memory, resident_memory

before = GraphClassifier._settings
GraphClassifier._settings = lambda *given: replace(before(*given), max_epochs=2)
extra, small, large = int(sys.argv[1]), *map(json.loads, sys.argv[2:])

def run(words, memory):
    sys.argv = ["proptrain", *words, "--memory", str(memory), "--force", "--json"]
    try:
        cli.main()
    except SystemExit as left:
        if left.code:
            raise

run(small, "64GB")
give_back()
Path("/proc/self/clear_refs").write_text("5")
limit = resident_memory() + extra
run(large, limit)
print(json.dumps({"limit": limit, "peak": peak_memory()}))
"""


def told_within(extra, small, large):
    """Run a command with so many bytes beside what the process has; returns limit and peak."""
    words = [str(extra), *(json.dumps([str(w) for w in words]) for words in (small, large))]
    done = subprocess.run(
        [sys.executable, "-c", WITHIN, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def write_edges(path, n_edges):
    random = np.random.default_rng(0)
    ends = random.integers(n_edges // 4, size=(2, n_edges))
    pq.write_table(pa.table({"source": ends[0], "target": ends[1]}), path, row_group_size=1 << 18)


def test_a_build_stays_within_its_memory(tmp_path):
    for name, n_edges in (("small", 1000), ("large", 9_000_000)):
        write_edges(tmp_path / f"{name}.parquet", n_edges)
    words = [
        ["graph", "build", tmp_path / f"{name}.parquet", "--out", tmp_path / name]
        for name in ("small", "large")
    ]
    told = told_within(200_000_000, *words)  # the edges alone are 144 MB, sorted twice that
    assert told["peak"] <= told["limit"]


def few_edges(folder, how):
    """Words for builds with four edges: among few nodes, and among many."""
    (folder / "edges.csv").write_text("source,target\n0,1\n1,2\n5,7\n3,9\n")
    words = []
    for name, n_nodes in (("small", 1000), ("large", 1_500_000 if how == "--nodes" else 8_000_000)):
        given = ["--n-nodes", n_nodes]
        if how == "--nodes":
            given = ["--nodes", folder / f"{name}.csv"]
            cells = {"id": np.arange(n_nodes), "x": 0.25, "y": "some text"}
            pd.DataFrame(cells).to_csv(given[1], index=False)
        words.append(["graph", "build", folder / "edges.csv", "--out", folder / name, *given])
        words[-1] += ["--renumber"] if how == "--renumber" else []
    return words


@pytest.mark.parametrize(
    ("how", "extra"), [("--n-nodes", 130_000_000), ("--nodes", 130_000_000),
                       ("--renumber", 240_000_000)]
)  # fmt: skip
def test_a_build_with_many_nodes_and_few_edges_stays_within_its_memory(tmp_path, how, extra):
    told = told_within(extra, *few_edges(tmp_path, how))
    assert told["peak"] <= told["limit"]


LOOKED_UP = """
import sys
from pathlib import Path
import numpy as np
from proptrain.data.disk_ids import IdMap
from proptrain.system.memory import peak_memory, resident_memory

ids, wanted = (np.load(path, mmap_mode="r") for path in sys.argv[1:])
wanted = np.array(wanted)
Path("/proc/self/clear_refs").write_text("5")
before = resident_memory()
found = IdMap(len(ids), ids, ids).look_up(wanted, "edges")
print(peak_memory() - before, bool((found == wanted).all()))
"""


def test_ids_are_looked_up_in_a_file_without_having_all_of_it_at_hand(tmp_path):
    ids = np.arange(0, 30_000_000, 2)  # 120 MB, and as much for the numbers
    np.save(tmp_path / "ids.npy", ids)
    np.save(tmp_path / "wanted.npy", np.random.default_rng(0).choice(ids, 100_000))
    words = [sys.executable, "-c", LOOKED_UP, tmp_path / "ids.npy", tmp_path / "wanted.npy"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    taken, is_right = done.stdout.split()
    assert is_right == "True"
    assert int(taken) < 60_000_000


def test_the_least_memory_that_a_build_asks_for_is_enough(tmp_path):
    random, paths = np.random.default_rng(0), []
    names = np.array([f"{'long name ' * 9}{number}" for number in range(30_000)])
    for ending in ("csv", "parquet"):
        ends = names[random.integers(len(names), size=(2, 300_000))]
        table = pd.DataFrame({"source": ends[0], "target": ends[1], "w": random.random(300_000)})
        paths.append(tmp_path / f"edges.{ending}")
        getattr(table, f"to_{ending}")(paths[-1], index=False)
    words = [sys.executable, "-m", "proptrain.cli", "graph", "build", *paths, "--weight", "w"]
    words += ["--out", tmp_path / "graph", "--json", "--memory"]
    told = subprocess.run([*words, "1MB"], capture_output=True, text=True, check=False).stdout
    least = re.search(r"give at least ([\d.]+ [MG]B)", told)[1]
    done = subprocess.run([*words, least], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["peak_memory"] <= parse_memory(least)


def test_a_fit_from_disk_stays_within_its_memory(tmp_path):
    sizes = {"small": (2000, 6000, 20), "large": (300_000, 900_000, 300)}
    words = []
    for name, (n_nodes, n_edges, n_features) in sizes.items():
        place = tmp_path / name
        write_synthetic(place, n_nodes, n_edges, 20, n_features=n_features, memory="8GB")
        given = ["--edges", place / "graph", "--features", place / "features.npy"]
        given += ["--labels", place / "labels.npy", "--out", tmp_path / f"{name}-model"]
        words.append(["fit", "--engine", "blocked", "--method", "PTA(F)", *given])
    told = told_within(350_000_000, *words)  # the features alone are 360 MB
    assert told["peak"] <= told["limit"]
