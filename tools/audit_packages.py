"""Look up the installed packages in the advisories: python tools/audit_packages.py SITE_PACKAGES.

pip-audit skips a package that its service does not answer for, and calls the whole a success. So
what was looked up is counted here: exit code 0 only if all were and none has a known hole, 1 if one
has, 3 if some were not looked up. With --go-on the last is said and is no failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

OWN = {"proptrain"}
"""On no index, so nobody could have advised on it."""


def main(words: list[str]) -> int:
    """Audit, say what came of it, and return the exit code."""
    places = [word for word in words if word != "--go-on"]
    program = str(Path(sys.executable).with_name("pip-audit"))
    command = [program, "--format", "json", "--progress-spinner", "off"]
    for place in places:
        command += ["--path", place]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found, text = judge(done.stdout, done.stderr)
    except OSError as error:  # it could not be installed
        found, text = judge("", str(error))
    print(text)
    return 0 if found == 3 and "--go-on" in words else found


def judge(answer: str, said: str) -> tuple[int, str]:
    """Return the exit code, and what to say, for pip-audit's answer."""
    try:
        packages = [one for one in json.loads(answer)["dependencies"] if one["name"] not in OWN]
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
            f"packages ({', '.join(skipped[:5])}{', …' if len(skipped) > 5 else ''}). Run this "
            "where the package index's advisories can be reached."
        )
    return (1 if holes else 3 if skipped or not packages else 0), "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
