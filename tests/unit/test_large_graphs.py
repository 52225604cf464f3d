"""What the page on large graphs needs: marks for its tables, and a whole cluster file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from benchmarks.measured import between_marks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "large-graphs.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["from_disk table", "ray_cost table", "cost_model tables"])
def test_the_page_has_room_for_each_table(name):
    page = between_marks(PAGE, name, "| a table |")
    assert page.count("| a table |") == 1
    assert between_marks(page, name, "| a table |") == page  # written again, it is the same


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
