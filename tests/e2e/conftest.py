"""What the tests of whole commands share."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from commands import runner


class Ended(NamedTuple):
    """How a command ended, and what it printed; errors and notes in one line."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command of proptrain in this process."""
    in_process = runner(monkeypatch, capsys)

    def run_words(*words):
        code, text = in_process(*words)
        return Ended(code, text.out, " ".join(text.err.split()))

    return run_words
