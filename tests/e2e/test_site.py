"""The pages: built strictly, ten at most, every public name in them, nothing asked of anybody."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import proptrain

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quiet, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def nav_pages():
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    return [page for entry in nav for page in entry.values()]


RECORDS = {
    "performance.md",
    "reliability.md",
    "results/audit/README.md",
    "results/beyond/README.md",
    "results/paper/README.md",
}
"""Of measurements and trials: made by commands, too long to be read in turn, beside the pages."""


def pages():
    return {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}


def built(page):
    """Where a page is built."""
    folder = page.removesuffix(".md").removesuffix("index").removesuffix("README").strip("/")
    return f"{folder}/index.html".strip("/")


def test_there_are_ten_pages_at_most_and_these_records_and_all_are_built(site):
    assert len(nav_pages()) <= 10
    assert pages() == {*nav_pages(), *RECORDS}
    made = {path.relative_to(site).as_posix() for path in site.rglob("index.html")}
    assert made == {built(page) for page in pages()}


def test_a_record_is_named_as_such_and_the_first_page_leads_to_every_page():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    outside = config["not_in_nav"].split()
    assert all(any(f"/{record}".startswith(name) for name in outside) for record in RECORDS)
    assert all(any(f"/{record}".startswith(name) for record in RECORDS) for name in outside)
    first = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in pages():
        if "/" not in page and page != "index.md":
            assert f"]({page}" in first, page


def test_the_reference_has_every_public_name(site):
    reference = (site / "api" / "index.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'id="(proptrain\.[\w.]+)"', reference))
    homes = proptrain._HOME.items()
    assert {f"proptrain.{home}.{name}" for name, home in homes} <= shown


def test_a_page_loads_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|link|iframe)\b[^>]*", page.read_text(encoding="utf-8"))
        for element in loaded:
            if 'rel="canonical"' not in element:
                assert not re.search(r'(?:src|href)="(?:https?:)?//', element), element


@pytest.mark.parametrize(("page", "count"), [("steps", 3), ("audit", 1), ("explain", 1)])
def test_the_pictures_are_there(site, page, count):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert len(pictures) == count
    assert all((site / picture).is_file() for picture in pictures)


def test_the_citation_names_this_version_and_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == proptrain.__version__
    assert citation["preferred-citation"]["doi"] == "10.1145/3442381.3449927"
    assert len(citation["preferred-citation"]["authors"]) == 7
