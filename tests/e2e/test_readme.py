"""The README names what there is; its code blocks run in test_docs.py."""

from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_every_command_it_names_exists():
    from proptrain.cli import app

    known = {command.callback.__name__ for command in app.registered_commands}
    known |= {group.name for group in app.registered_groups}
    named = set(re.findall(r"^proptrain (\w+)|`proptrain (\w+)", README, flags=re.MULTILINE))
    assert {first or second for first, second in named} == known - {"demo"}


def test_the_files_it_links_to_exist():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    for link in links:
        assert (Path(__file__).parents[2] / link).exists(), link
