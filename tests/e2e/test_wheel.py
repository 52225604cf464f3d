"""What is installed is what was built: the wheel holds the graph and the page's templates."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_wheel_ships_the_graph_and_the_templates(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    sizes = {item.filename: item.file_size for item in zipfile.ZipFile(wheel).infolist()}
    assert 0 < sizes["proptrain/data/files/cora.npz"] <= 250_000
    assert "proptrain/data/files/README.md" in sizes
    assert "proptrain/py.typed" in sizes
    built = {name for name in sizes if name.startswith("proptrain/")}
    tracked = subprocess.run(
        ["git", "ls-files", "src/proptrain"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert built >= {name.removeprefix("src/") for name in tracked.stdout.splitlines()}
