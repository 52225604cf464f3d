"""The versions that are promised are those that are tested, and what was not checked is said."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "audit_packages.py"))
INSTALLED = {"torch": "2.0", "numpy": "1.0", "jinja2": "1.0", "mypy-extensions": "1.0"}


def bounds():
    """The lower bounds of pyproject.toml, by package; of those that users can have."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["pyg"], *extras["networkx"], *extras["ray"]]
    return dict(re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", one).groups() for one in wanted)


def pins(name):
    lines = (ROOT / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def parts(version):
    """1.26.0 is 1.26."""
    numbers = [int(part) for part in version.split(".")]
    while numbers[-1] == 0:
        numbers.pop()
    return numbers


def test_make_lowest_installs_the_lower_bounds():
    lowest = pins("constraints-lowest.txt")
    assert lowest.keys() == bounds().keys()
    assert {"torch", "ray", "torch-geometric", "networkx"} <= lowest.keys()
    for name, version in lowest.items():
        assert parts(version) == parts(bounds()[name]), name


def package(name, **more):
    return {"name": name, "version": "1.0", "vulns": [], **more}


def answer(*packages):
    return json.dumps({"dependencies": packages})


def has_no_answer(name):
    raise OSError(name)


def judge(answer, said, ask=has_no_answer):
    return TOOL["judge"](answer, said, INSTALLED, ask)


def test_an_audit_is_clean_only_if_every_package_was_looked_up():
    own = {"name": "proptrain", "skip_reason": "Dependency not found"}
    code, text = judge(answer(package("numpy"), package("torch"), own), "")
    assert (code, text) == (0, "2 of 2 packages looked up, 0 known holes")
    skipped = {"name": "torch", "skip_reason": "Dependency not found"}
    code, text = judge(answer(package("numpy"), skipped), "")
    assert code == 3
    assert "NOT AUDITED: the advisories had no answer for 1 of 2 packages (torch)" in text


def test_a_hole_is_named_and_fails_even_if_others_were_not_looked_up():
    hole = {"id": "PYSEC-1", "fix_versions": ["1.1"]}
    skipped = {"name": "torch", "skip_reason": "Dependency not found"}
    code, text = judge(answer(package("jinja2", vulns=[hole]), skipped), "")
    assert code == 1
    assert "jinja2 1.0: PYSEC-1, mended in ['1.1']" in text
    assert "NOT AUDITED" in text


def test_no_answer_at_all_is_no_success():
    code, text = judge("", "Traceback\nConnectionError: no route\n")
    assert code == 3
    assert "NOT AUDITED: pip-audit could not reach its advisories (ConnectionError" in text
    assert judge(answer(), "")[0] == 3


def test_what_was_skipped_counts_if_the_index_knows_its_newest_release_and_that_is_installed():
    newest = {"torch": "2.1", "numpy": "1.0", "mypy_extensions": "1.0"}
    withdrawn = {"id": "PYSEC-2", "fixed_in": ["1.1"], "withdrawn": "2020-01-01"}
    skipped = answer(*({"name": name, "skip_reason": "not found"} for name in newest))

    def ask(name, *holes):
        return {"info": {"version": newest[name]}, "vulnerabilities": [withdrawn, *holes]}

    code, text = judge(skipped, "", ask)
    assert code == 3
    assert "2 of 3 packages looked up, 0 known holes" in text
    assert "no answer for 1 of 3 packages (torch)" in text
    hole = {"id": "PYSEC-1", "fixed_in": ["1.1"], "withdrawn": None}
    code, text = judge(skipped, "", lambda name: ask(name, hole))
    assert code == 1
    assert "numpy 1.0: PYSEC-1, mended in ['1.1']" in text
