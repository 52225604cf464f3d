"""What the page on large graphs needs: tables as they were measured, and a whole cluster file."""

from __future__ import annotations

import difflib
import re
from functools import partial
from pathlib import Path

import pytest
import yaml
from benchmarks.cost_model.__main__ import main as cost_model
from benchmarks.from_disk.__main__ import main as from_disk
from benchmarks.measured import between_marks
from benchmarks.ray_cost.__main__ import main as ray_cost

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "docs" / "results" / "large"
TABLES = {
    "from_disk table": partial(from_disk, show=MEASURED / "from_disk.jsonl"),
    "ray_cost table": partial(ray_cost, show=MEASURED / "ray_cost.jsonl"),
    "cost_model tables": partial(cost_model, MEASURED / "ray_cost.jsonl"),
}
"""What writes the tables into the page, as the commands there do."""
PAGE = (ROOT / "docs" / "large-graphs.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_room_for_each_table(name):
    page = between_marks(PAGE, name, "| a table |")
    assert page.count("| a table |") == 1
    assert between_marks(page, name, "| a table |") == page  # written again, it is the same


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_what_was_measured(tmp_path, name):
    copy = tmp_path / "page.md"
    copy.write_text(between_marks(PAGE, name, "| a table |"), encoding="utf-8")
    TABLES[name](page=copy)
    written = copy.read_text(encoding="utf-8")
    changes = difflib.unified_diff(PAGE.splitlines(), written.splitlines(), "docs", "measured", n=0)
    assert "\n".join(changes) == ""


@pytest.fixture(scope="module")
def cluster():
    text = (ROOT / "examples" / "raycluster.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def test_the_cluster_is_one_that_kuberay_knows(cluster):
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    assert cluster["metadata"]["name"] == "proptrain"
    assert cluster["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    (workers,) = cluster["spec"]["workerGroupSpecs"]
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]


def test_every_machine_of_the_cluster_is_alike_and_tells_nobody(cluster):
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    containers = [group["template"]["spec"]["containers"][0] for group in groups]
    assert len({one["image"] for one in containers}) == 1
    for one in containers:
        assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in one["env"]
        assert one["resources"]["limits"] == one["resources"]["requests"]
    assert all("serviceAccountName" in group["template"]["spec"] for group in groups)


def test_the_cluster_has_a_ray_that_will_do(cluster):
    least = re.search(r"ray\[train\]>=([\d.]+)", (ROOT / "pyproject.toml").read_text())[1]
    version = cluster["spec"]["rayVersion"]
    assert [int(n) for n in version.split(".")] >= [int(n) for n in least.split(".")]
