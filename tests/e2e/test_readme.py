"""The README says what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_python_block_prints_the_number_it_promises(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})
    promised = re.search(r"# (\d+\.\d)%", block).group(1)
    printed = re.fullmatch(r"(.*)% of the hidden labels told right\n", capsys.readouterr().out)
    # Another make of CPU rounds the softmax otherwise, and a run may end some nodes away.
    assert float(printed.group(1)) == pytest.approx(float(promised), abs=1.5)


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
