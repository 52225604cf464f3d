"""Build sdist and wheel, and try the wheel in an empty environment outside the repository.

The wheel is built from the sdist, so that the sdist is complete; it is installed into a new virtual
environment with nothing else in it but its dependencies, and runs `proptrain demo` from there.

    python tools/check_package.py --out dist
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
WHERE = """
from pathlib import Path
import proptrain
print(proptrain.__version__, Path(proptrain.__file__).parent)
assert (Path(proptrain.__file__).parent / "py.typed").exists(), "py.typed is missing"
"""


def main() -> None:
    """Build, install and run; fails with the first command that does."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=Path("dist"))
    out = options.parse_args().out.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(out, folder)
        try_out(wheel, folder / "elsewhere")
    print(f"{wheel.name}: built, installed and run.")


def build(out: Path, folder: Path) -> Path:
    """Write sdist and wheel to a folder; returns the wheel, which is made of the sdist."""
    hatchling = [sys.executable, "-m", "hatchling", "build", "-d", str(out), "-t"]
    for old in [*out.glob("proptrain-*.whl"), *out.glob("proptrain-*.tar.gz")]:
        old.unlink()
    run([*hatchling, "sdist"], ROOT)
    (sdist,) = out.glob("proptrain-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.glob("proptrain-*")
    run([*hatchling, "wheel"], unpacked)
    (wheel,) = out.glob("proptrain-*.whl")
    return wheel


def try_out(wheel: Path, place: Path) -> None:
    """Install the wheel into a new environment, and run its demo there."""
    venv.create(place / "env", with_pip=True)
    scripts = place / "env" / ("Scripts" if os.name == "nt" else "bin")
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([str(scripts / "python"), *install, "-c", str(ROOT / "constraints.txt"), str(wheel)], place)
    run([str(scripts / "python"), "-c", WHERE], place)
    run([str(scripts / "proptrain"), "demo", "--out", "report.html"], place)
    size = (place / "report.html").stat().st_size
    print(f"report.html: {size:,} bytes")


def run(command: list[str], folder: Path) -> None:
    """Run a command in a folder, without the repository on Python's path."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    print("$", *(Path(command[0]).name, *command[1:3]), "…", flush=True)
    subprocess.run(command, cwd=folder, env=bare, check=True)


if __name__ == "__main__":
    main()
