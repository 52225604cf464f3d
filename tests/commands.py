"""Commands run in the process of the tests, as one would type them."""

from __future__ import annotations

import sys

import pytest

from proptrain import cli


def runner(monkeypatch, capsys, *first, app=cli.app):
    """Return what runs a command's app with words; tells its exit code and what it printed.

    ``first`` are words that come before all others.
    """

    def in_process(*words):
        monkeypatch.setattr(sys, "argv", ["command", *map(str, (*first, *words))])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.main(app)
        return left.value.code or 0, capsys.readouterr()

    return in_process
