"""Look up the installed packages in the advisories: python tools/audit_packages.py SITE_PACKAGES.

pip-audit skips a package that its service does not answer for, and calls the whole a success. So
what was looked up is counted here: exit code 0 only if all were and none has a known hole, 1 if one
has, 3 if some were not looked up. With --go-on the last is said and is no failure.

An index may answer for the newest release of a package alone, as some that stand in for another do.
What pip-audit skipped is asked for there once more, and counts if the newest is what is installed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

OWN = {"proptrain"}
"""On no index, so nobody could have advised on it."""

Ask = Callable[[str], dict[str, Any]]
"""Returns what the index tells of a package, its newest release first of all."""


def main(words: list[str]) -> int:
    """Audit, say what came of it, and return the exit code."""
    places = [word for word in words if word != "--go-on"]
    program = str(Path(sys.executable).with_name("pip-audit"))
    command = [program, "--format", "json", "--progress-spinner", "off"]
    for place in places:
        command += ["--path", place]
    installed = {plain(one.metadata["Name"]): one.version for one in distributions(path=places)}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found, text = judge(done.stdout, done.stderr, installed, ask_index)
    except OSError as error:  # it could not be installed
        found, text = judge("", str(error), installed, ask_index)
    print(text)
    return 0 if found == 3 and "--go-on" in words else found


def judge(answer: str, said: str, installed: dict[str, str], ask: Ask) -> tuple[int, str]:
    """Return the exit code, and what to say, for pip-audit's answer."""
    try:
        packages = [one for one in json.loads(answer)["dependencies"] if one["name"] not in OWN]
        with ThreadPoolExecutor(8) as pool:
            packages = list(pool.map(lambda one: _asked_again(one, installed, ask), packages))
    except (ValueError, KeyError, TypeError):
        last = (said.strip() or "it said nothing").splitlines()[-1]
        return 3, f"NOT AUDITED: pip-audit could not reach its advisories ({last})."
    holes = [
        f"{one['name']} {one['version']}: {hole['id']}, mended in {hole['fix_versions'] or 'none'}"
        for one in packages
        for hole in one.get("vulns", [])
    ]
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    n_seen = len(packages) - len(skipped)
    lines = [f"{n_seen} of {len(packages)} packages looked up, {len(holes)} known holes", *holes]
    if skipped or not packages:
        lines.append(
            f"NOT AUDITED: the advisories had no answer for {len(skipped)} of {len(packages)} "
            f"packages ({', '.join(skipped[:10])}{', …' if len(skipped) > 10 else ''}). Run this "
            "where the package index's advisories can be reached."
        )
    return (1 if holes else 3 if skipped or not packages else 0), "\n".join(lines)


def _asked_again(one: dict[str, Any], installed: dict[str, str], ask: Ask) -> dict[str, Any]:
    """Return what is known of a package, with the newest release's advisories if it was skipped."""
    version = installed.get(plain(one["name"]))
    if "skip_reason" not in one or version is None:
        return one
    try:
        told = ask(one["name"])
        if told["info"]["version"] != version:
            return one
        vulns = [
            {"id": hole["id"], "fix_versions": hole.get("fixed_in", [])}
            for hole in told["vulnerabilities"]
            if not hole.get("withdrawn")
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return one
    return {"name": one["name"], "version": version, "vulns": vulns}


def plain(name: str) -> str:
    """Return a package's name as the index spells it, whatever its author wrote."""
    return re.sub(r"[-_.]+", "-", name).lower()


def ask_index(name: str) -> dict[str, Any]:
    """Return what the package index tells of a package."""
    from pip._internal.models.index import PyPI  # knows where the index is

    with urllib.request.urlopen(f"{PyPI.pypi_url}/{name}/json", timeout=60) as page:
        told: dict[str, Any] = json.load(page)
    return told


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
