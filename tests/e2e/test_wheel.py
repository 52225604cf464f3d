"""What is installed is what was built, holds all that is needed, and runs from elsewhere."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import proptrain

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "check_package.py"))


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """Have `make package` done, but for what it downloads; returns the folder and what was said."""
    out = tmp_path_factory.mktemp("dist")
    tool = str(ROOT / "tools" / "check_package.py")
    words = [sys.executable, tool, "--borrow", "--out", str(out)]
    done = subprocess.run(words, cwd=out, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def test_what_is_installed_elsewhere_runs_the_demo(packed):
    _, said = packed
    (place,) = re.findall(rf"^{re.escape(proptrain.__version__)} (.*)$", said, re.MULTILINE)
    assert place.endswith("proptrain")
    assert not Path(place).is_relative_to(ROOT)  # that it lies in the environment the tool checks
    assert re.search(r"^report.html: [\d,]{6,} bytes$", said, re.MULTILINE)
    assert said.endswith(".whl: built, installed and run.\n")


def test_another_proptrain_than_the_installed_one_is_noticed(tmp_path):
    other = tmp_path / "proptrain"  # found first, as a checkout on Python's path would be
    other.mkdir()
    (other / "__init__.py").write_text('__version__ = "0"')
    words = [sys.executable, "-c", TOOL["WHERE"]]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "another proptrain than the installed one was found" in done.stderr


def test_the_wheel_ships_the_graph_and_the_templates(packed, tmp_path):
    (sdist,), (wheel,) = packed[0].glob("*.tar.gz"), packed[0].glob("*.whl")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("proptrain-*/")
    papers = {"LICENSE", "README.md", "CITATION.cff", "CHANGELOG.md", "CONTRIBUTING.md"}
    assert papers | {"SECURITY.md"} <= {path.name for path in unpacked.iterdir()}
    sizes = {item.filename: item.file_size for item in zipfile.ZipFile(wheel).infolist()}
    assert 0 < sizes["proptrain/data/files/cora.npz"] <= 250_000
    assert "proptrain/data/files/README.md" in sizes
    assert "proptrain/py.typed" in sizes
    shipped = {name for name in sizes if name.startswith("proptrain/")}
    tracked = subprocess.run(
        ["git", "ls-files", "src/proptrain"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert shipped >= {name.removeprefix("src/") for name in tracked.stdout.splitlines()}
