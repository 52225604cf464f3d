"""Raw results: nothing is lost, nothing is counted twice, nothing broken is read as a number."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
from dataclasses import replace

import pytest

from proptrain.errors import FileFormatError, UnreadableFileError, UnwritableOutputError
from proptrain.experiments.protocol import Run
from proptrain.experiments.store import FILE_NAME, open_store, read_runs
from proptrain.experiments.tasks import task_of

PLAIN = Run("cora", "LP", 7, 0, 0.75, 0.5, 0, -1, 0.01, experiment="table4")
VARIED = replace(
    PLAIN,
    noise=0.0,
    noise_kind="structure",
    labels_per_class=5,
    steps=2,
    timed=True,
    validation=True,
    code="a1b2c3d4e5f6",
    seconds=1.0,
)
needs_locks = pytest.mark.skipif(
    sys.platform == "win32", reason="nothing locks the file of results on Windows"
)


def lines_of(folder):
    return (folder / FILE_NAME).read_bytes().splitlines()


def test_runs_are_there_again_when_the_folder_is_opened_again(tmp_path):
    folder = tmp_path / "new" / "folder"
    with open_store(folder) as store:
        store.add(PLAIN)
        assert len(lines_of(folder)) == 1  # on the disk already
        store.add(VARIED)
    with open_store(folder) as store:
        assert store.runs == {task_of(PLAIN): PLAIN, task_of(VARIED): VARIED}
    assert read_runs(folder / FILE_NAME) == [PLAIN, VARIED]


def test_a_line_has_the_fields_that_vary_and_no_others(tmp_path):
    with open_store(tmp_path) as store:
        store.add(PLAIN)
        store.add(VARIED)
    plain, varied = map(json.loads, lines_of(tmp_path))
    assert plain == {
        "dataset": "cora",
        "method": "LP",
        "split_seed": 7,
        "init_seed": 0,
        "accuracy": 0.75,
        "stop_accuracy": 0.5,
        "epochs": 0,
        "best_epoch": -1,
        "seconds": 0.01,
        "experiment": "table4",
    }
    own = {"noise": 0.0, "noise_kind": "structure", "labels_per_class": 5, "steps": 2}
    own |= {"timed": True, "validation": True, "code": "a1b2c3d4e5f6", "seconds": 1.0}
    assert varied == {**plain, **own}


@pytest.mark.parametrize("kept", [1, 30, -1])
def test_a_last_line_that_was_cut_off_is_dropped(tmp_path, kept):
    with open_store(tmp_path) as store:
        store.add(PLAIN)
    whole = (tmp_path / FILE_NAME).read_bytes()
    (tmp_path / FILE_NAME).write_bytes(whole + whole[:kept])
    assert read_runs(tmp_path / FILE_NAME) == [PLAIN]
    with open_store(tmp_path) as store:
        assert list(store.runs.values()) == [PLAIN]
        assert (tmp_path / FILE_NAME).read_bytes() == whole
        store.add(VARIED)
    assert read_runs(tmp_path / FILE_NAME) == [PLAIN, VARIED]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "Expecting value"),
        ("\0\0\0", "Expecting value"),
        ('{"dataset": "cora", "meth', "Unterminated string"),
        ("[1]", "must be a JSON object"),
        (json.dumps({"dataset": "cora"}), "missing here: accuracy, best_epoch"),
        (json.dumps({**PLAIN.to_json(), "colour": 1}), "unknown or missing here: colour"),
        (json.dumps({**PLAIN.to_json(), "accuracy": "high"}), "accuracy must be float, got 'high'"),
        (
            json.dumps({**PLAIN.to_json(), "accuracy": math.nan}),
            "between 0 and 1, got nan",
        ),
        (
            json.dumps({**PLAIN.to_json(), "stop_accuracy": 7.0}),
            "between 0 and 1, got 7.0",
        ),
        (json.dumps({**PLAIN.to_json(), "seconds": math.nan}), "seconds must lie .* got nan"),
        (json.dumps({**PLAIN.to_json(), "seconds": math.inf}), "1,000,000,000, got inf"),
        (json.dumps({**PLAIN.to_json(), "noise": [1]}), r"noise must be float \| None, got \[1\]"),
    ],
)
def test_a_broken_line_is_named_and_left_alone(tmp_path, line, reason):
    good = json.dumps(PLAIN.to_json())
    content = f"{good}\n{line}\n{good}\nhalf a li".encode()
    (tmp_path / FILE_NAME).write_bytes(content)
    message = rf"Line 2 of .*{FILE_NAME} is not a run: .*{reason}"
    with pytest.raises(FileFormatError, match=message), open_store(tmp_path):
        pass
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_a_run_that_stands_there_twice_counts_once(tmp_path):
    other_table = replace(PLAIN, experiment="table5", accuracy=0.1)
    with open_store(tmp_path) as store:
        store.add(PLAIN)
        store.add(other_table)
        assert list(store.runs.values()) == [PLAIN]
    assert len(lines_of(tmp_path)) == 2
    with open_store(tmp_path) as store:
        assert list(store.runs.values()) == [PLAIN]


@needs_locks
def test_a_folder_is_written_by_one_at_a_time(tmp_path):
    with open_store(tmp_path) as store:
        with (
            pytest.raises(UnwritableOutputError, match="being written by another process"),
            open_store(tmp_path),
        ):
            pass
        store.add(PLAIN)  # the first is none the worse for it
    with open_store(tmp_path) as store:
        assert list(store.runs.values()) == [PLAIN]


@needs_locks
def test_a_disk_that_cannot_lock_is_told_with_a_way_out(tmp_path, monkeypatch):
    import fcntl

    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    message = "No locks available.*name one on a disk of this machine"
    with pytest.raises(UnwritableOutputError, match=message), open_store(tmp_path):
        pass


def test_a_place_that_cannot_be_written_or_read(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UnwritableOutputError, match="cannot be written"),
        open_store(tmp_path / "file"),
    ):
        pass
    with pytest.raises(UnreadableFileError, match="must be a file of raw results"):
        read_runs(tmp_path / "nowhere.jsonl")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a system with named pipes")
def test_a_pipe_is_refused_rather_than_read_for_ever(tmp_path):
    os.mkfifo(tmp_path / "runs.jsonl")
    with pytest.raises(UnreadableFileError, match="must be an ordinary file"):
        read_runs(tmp_path / "runs.jsonl")
    with pytest.raises(UnreadableFileError, match="ordinary file"), open_store(tmp_path):
        pass
