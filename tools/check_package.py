"""Build sdist and wheel, and try the wheel in an empty environment outside the repository.

The wheel is built from the sdist, so that the sdist is complete; it is installed into a new virtual
environment with nothing else in it but its dependencies, and runs `proptrain demo` from there. With
`--borrow` the dependencies are not downloaded but those of this environment; so a test does it.

    python tools/check_package.py --out dist
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
WHERE = """
import sys
from pathlib import Path
import proptrain
package = Path(proptrain.__file__).parent
print(proptrain.__version__, package)
assert package.is_relative_to(sys.prefix), "another proptrain than the installed one was found"
for name in ("py.typed", "data/files/cora.npz"):
    assert (package / name).is_file(), f"{name} is missing"
"""


def main() -> None:
    """Build, install and run; fails with the first command that does."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=Path("dist"))
    options.add_argument("--borrow", action="store_true", help="download no dependency")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(given.out.resolve(), folder)
        install = install_alone if given.borrow else install_whole
        try_out(install(wheel, folder / "elsewhere" / "env"), folder / "elsewhere", given.borrow)
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


def install_whole(wheel: Path, env: Path) -> Path:
    """Install the wheel with its dependencies; returns the folder of the commands."""
    venv.create(env, with_pip=True)
    words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    words += ["-c", str(ROOT / "constraints.txt"), str(wheel)]
    run([str(commands_of(env) / "python"), *words], env)
    return commands_of(env)


def install_alone(wheel: Path, env: Path) -> Path:
    """Install the wheel alone, and let the environment see the packages of this one."""
    venv.create(env)
    python = str(commands_of(env) / "python")
    words = ["--python", python, "install", "--quiet", "--disable-pip-version-check"]
    run([sys.executable, "-m", "pip", *words, "--no-deps", "--no-index", str(wheel)], env)
    # Folders named in such a file are searched last. Those within them, of which one may name this
    # checkout, are not read.
    own = Path(sysconfig.get_path("purelib", "venv", {"base": str(env)}))
    borrowed = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    (own / "borrowed.pth").write_text("\n".join(sorted(borrowed)), encoding="utf-8")
    return commands_of(env)


def commands_of(env: Path) -> Path:
    """Return the folder of an environment's commands."""
    return env / ("Scripts" if os.name == "nt" else "bin")


def try_out(commands: Path, place: Path, is_short: bool) -> None:
    """Import what was installed and run its demo, from a folder that has nothing of it."""
    run([str(commands / "python"), "-c", WHERE], place)
    few = ["--runs", "1"] if is_short else []
    run([str(commands / "proptrain"), "demo", *few, "--out", "report.html"], place)
    size = (place / "report.html").stat().st_size
    print(f"report.html: {size:,} bytes")


def run(command: list[str], folder: Path) -> None:
    """Run a command in a folder, without the repository on Python's path."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    print("$", *(Path(command[0]).name, *command[1:3]), "…", flush=True)
    subprocess.run(command, cwd=folder, env=bare, check=True)


if __name__ == "__main__":
    main()
