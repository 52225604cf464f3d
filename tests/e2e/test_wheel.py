"""What is installed is what was built: the wheel, made of the sdist, holds all that is needed."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def built(kind, folder, out):
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (made,) = out.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


def test_the_wheel_ships_the_graph_and_the_templates(tmp_path):
    with tarfile.open(built("sdist", ROOT, tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("proptrain-*/")
    papers = {"LICENSE", "README.md", "CITATION.cff", "CHANGELOG.md", "CONTRIBUTING.md"}
    assert papers | {"SECURITY.md"} <= {path.name for path in unpacked.iterdir()}
    wheel = built("wheel", unpacked, tmp_path)
    sizes = {item.filename: item.file_size for item in zipfile.ZipFile(wheel).infolist()}
    assert 0 < sizes["proptrain/data/files/cora.npz"] <= 250_000
    assert "proptrain/data/files/README.md" in sizes
    assert "proptrain/py.typed" in sizes
    shipped = {name for name in sizes if name.startswith("proptrain/")}
    tracked = subprocess.run(
        ["git", "ls-files", "src/proptrain"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert shipped >= {name.removeprefix("src/") for name in tracked.stdout.splitlines()}
