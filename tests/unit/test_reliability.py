"""A short run of the scripts in reliability/, and what they would say of a program with faults."""

from __future__ import annotations

import inspect
import io
import itertools
import json
import os
import pickle
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reliability import forked, fuzz, harm, soak, text
from reliability.forked import Ended
from reliability.hell import choose, who_tries
from reliability.jobs import JOBS, left_inside, state_of
from reliability.kill import Victim
from reliability.mutations import WAYS, _change_header, spoil_files
from reliability.outcomes import BEGINNING, add_outcome, chosen
from reliability.readers import FORMS, Reader, all_readers
from reliability.table import Tried, read_tried, states_of, table_of, tables_of, with_tables
from reliability.text import NAMED, PLACES, WELL, Named, Shown
from reliability.two_writers import BOTH_WROTE, ONE_WROTE, Pair

import proptrain
from processes import HANGS
from proptrain import cli
from proptrain.bench.results import read_measured
from proptrain.data.npy import read_header
from proptrain.data.table_files import _SEPARATED
from proptrain.errors import FileFormatError, InvalidInputError
from proptrain.experiments.protocol import Run
from proptrain.experiments.versions import _digest_of, package_digest
from proptrain.system.json_lines import open_lines

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "reliability"
TABLES, EDGE_LISTS, NODES_OF_A_BUILD, NEW, BESIDE = (
    {name.format(form) for form in FORMS}
    for name in (
        "{} tables",
        "{} edge list, built",
        "nodes of a build, {}",
        "new nodes and edges, {}",
        "node table of a graph folder, {}",
    )
)
BESIDE = BESIDE - {"node table of a graph folder, CSV"} | {"node table of a graph folder"}
MODELS = {"model folder", "model folder, PTA+", "model folder, LP"}
AUDITS = {"report --audit, CSV", "report --audit, JSON"}
DATA = {f"{name} data_dir": {"npz data set"} for name in (
    "evaluate", "reproduce", "verify", "bench", "data list", "data check", "data fetch",
)}  # fmt: skip
READ_BY = {
    **DATA,
    "fit edges": TABLES | {"graph folder", "shared graph"},
    "fit nodes": TABLES | BESIDE,
    "fit features": {"features and labels, npy", "features, Parquet", "shared arrays"},
    "fit labels": {"features and labels, npy", "shared arrays"},
    "fit shared": {"training snapshot"},
    "predict model": MODELS | {"model folder from disk"},
    "predict nodes": NEW | {"new nodes of a model from disk"},
    "predict edges": NEW,
    "explain model": MODELS,
    "explain audit": AUDITS,
    "report model": MODELS,
    "report nodes": {"report --nodes"},
    "report audit": AUDITS,
    "evaluate edges": TABLES,
    "evaluate nodes": TABLES,
    "audit edges": TABLES,
    "audit nodes": TABLES | {"audit --fix"},
    "reproduce out": {"runs.jsonl"},
    "bench out": {"bench results"},
    "bench show": {"bench results", "bench results, drawn"},
    "graph build edges": EDGE_LISTS,
    "graph build nodes": NODES_OF_A_BUILD,
    "graph build out": {"unfinished build"},
    "graph info folder": {"graph folder"},
    "graph synthetic out": {"made_with.json"},
}
"""What a command reads of a path, by the names of the readers whose files are spoilt."""
WRITTEN = {"demo out", "fit out", "predict out", "explain picture", "report out", "evaluate out",
           "audit out", "audit fix", "bench plot"}  # fmt: skip
"""Paths where a command only writes."""
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked and limited")


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    return all_readers(tmp_path_factory.mktemp("whole"))


# --- spoilt files -------------------------------------------------------------------------------


def paths_of(app, *before):
    """Yield the arguments and options of all commands that take a path, each as "fit edges"."""
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        for one in inspect.signature(command.callback, eval_str=True).parameters.values():
            (info,) = one.annotation.__metadata__
            if "Path" in str(one.annotation) or "a path" in (info.help or ""):
                yield " ".join([*before, name, one.name])
    for group in app.registered_groups:
        yield from paths_of(group.typer_instance, *before, group.name)


def test_whatever_a_command_reads_is_spoilt(readers):
    assert set(paths_of(cli.app)) == READ_BY.keys() | WRITTEN
    assert not READ_BY.keys() & WRITTEN
    spoilt = {reader.name for reader in readers}
    # Those are of a benchmark, which is no command.
    assert set().union(*READ_BY.values()) == spoilt - {"audit results"}
    assert {*_SEPARATED, ".parquet"} == {*FORMS.values(), ".tsv.gz"}


@linux_only
def test_every_spoilt_file_comes_to_a_result_or_to_one_of_our_errors(readers):
    for reader in readers:
        outcomes = Counter(fuzz.read_spoilt(reader, range(20), seed=1))
        assert not [one for one in outcomes if one.startswith("broken")], reader.name
        # What begins anew comes to the result of whole files, which its reader compares.
        assert reader.begins_anew or len(outcomes) > 1 or "result" not in outcomes, reader.name


@linux_only
def test_an_unfinished_build_would_break_if_it_were_not_looked_at(readers, monkeypatch):
    monkeypatch.setattr("proptrain.data.disk_build.check_notes", lambda _: None)
    (reader,) = [one for one in readers if one.begins_anew]
    outcomes = Counter(fuzz.read_spoilt(reader, range(20), seed=1))
    assert [one for one in outcomes if one.startswith("broken")]


@linux_only
@pytest.mark.filterwarnings("ignore")
def test_what_was_made_to_harm_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(harm, "_unlimited", lambda _: b"")  # packing it takes seconds
    monkeypatch.setattr(harm, "_planted", lambda *_: [])  # all are in test_strangers.py
    cases = list(harm.all_cases(tmp_path))
    assert len(cases) > 35
    for case in cases:
        (outcome,) = harm.outcomes_of(case)
        assert re.fullmatch(r"\w+Error", outcome), (case.name, outcome)


@linux_only
def test_a_pickle_that_is_run_is_seen(tmp_path):
    careless = Reader("careless", {"a": b""}, lambda at: pickle.loads((at / "a").read_bytes()))
    (case,) = harm._planted([careless], tmp_path / "trace")
    assert next(harm.outcomes_of(case)).startswith("broken: RuntimeError")


@linux_only
def test_what_begins_anew_must_not_have_run_a_pickle(tmp_path):
    def run_and_begin_anew(at):
        with suppress(Exception):
            pickle.loads((at / "a").read_bytes())

    def ignore(_):
        pass

    def outcomes(read, **how):
        reader = Reader("one", {"a": b""}, read, **how)
        (case,) = harm._planted([reader], tmp_path / "trace")
        return list(harm.outcomes_of(case))

    assert outcomes(ignore, begins_anew=True) == [harm.BEGUN_ANEW] * 2
    assert outcomes(ignore) == ["broken: it was not refused"] * 2
    careless = outcomes(run_and_begin_anew, begins_anew=True)
    assert all(one.startswith("broken: RuntimeError") for one in careless)


def test_a_pickle_was_planted_in_every_reader(readers):
    tried = {one.fault for one in read_tried(RESULTS)}
    assert {f"made to harm: pickles planted in {reader.name}" for reader in readers} <= tried


@pytest.mark.filterwarnings("ignore")
def test_the_whole_files_are_read(readers, tmp_path):
    for reader in readers:
        for number, files in enumerate((reader.files, reader.sign(reader.files))):
            fuzz.write(tmp_path / f"{reader.name} {number}", dict(files))
            reader.read(tmp_path / f"{reader.name} {number}")


def test_a_number_spoils_the_same_way_and_others_otherwise(readers, monkeypatch):
    first = [fuzz.spoilt(readers[0], number, 0) for number in range(50)]
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)  # and at any time
    assert first == [fuzz.spoilt(readers[0], number, 0) for number in range(50)]
    assert len({str(files) for files in first}) > 45


@pytest.mark.parametrize("way", dict.fromkeys(WAYS), ids=lambda way: way.__name__)
def test_every_way_spoils_anything(way):
    for content in (b"", b"1", b'{"a": 1}', bytes(range(256))):
        results = {way(content, random.Random(seed)) for seed in range(30)}
        assert results != {content} or len(content) < 2


def test_headers_of_arrays_are_drawn_that_no_array_can_have():
    array = io.BytesIO()
    np.save(array, np.arange(24.0))
    claimed, ends = [], Counter()
    for seed in range(3000):
        content = _change_header(b"before" + array.getvalue(), random.Random(seed))[6:]
        with suppress(ValueError, TypeError):  # NumPy's own parser takes these
            file = io.BytesIO(content)
            if np.lib.format.read_magic(file) == (1, 0):
                claimed.append(np.lib.format.read_array_header_1_0(file))
        try:
            read_header(io.BytesIO(content), "a", len(content)).array_in(content)
            ends["array"] += 1
        except FileFormatError:
            ends["refused"] += 1
    shapes, types = [shape for shape, _, _ in claimed], [dtype for _, _, dtype in claimed]
    assert any(size is True for shape in shapes for size in shape)
    assert {33, 65} <= {len(shape) for shape in shapes}
    assert any(not dtype.itemsize and 10**12 in shape for shape, _, dtype in claimed)
    assert any(dtype.subdtype for dtype in types)
    assert any(dtype.hasobject for dtype in types)
    assert min(ends.values()) > 300


def test_files_get_lost_and_swapped():
    files = {"a": b"1" * 50, "b": b"2" * 60}
    found = [spoil_files(files, random.Random(seed)) for seed in range(300)]
    assert {"a"} in [set(one) for one in found]
    assert {"a": files["b"], "b": files["a"]} in found


def fills_memory(_):
    bytearray(10**12)


def hides_that_memory_ran_out(_):
    try:
        fills_memory(None)
    except MemoryError as error:
        raise FileFormatError("broken") from error


def takes_memory(_):
    bytearray(b"1" * (fuzz.MEMORY + 10**8))


def dies(_):
    import os

    os._exit(9)


def loops(_):
    while True:
        pass


@linux_only
@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (fills_memory, "broken: MemoryError"),
        (hides_that_memory_ran_out, "broken: FileFormatError because memory ran out"),
        (takes_memory, "bytes of memory"),
        (dies, "broken: the process died with exit code 9"),
        (loops, "broken: no end after"),
        (lambda _: {}[0], "broken: KeyError"),
        (lambda _: None, "result"),
    ],
)
def test_what_breaks_is_seen_and_the_next_file_is_read(read, expected, monkeypatch):
    monkeypatch.setattr(fuzz, "_PATIENCE", 2.0 if read is loops else HANGS)
    outcomes = list(fuzz.read_spoilt(Reader("one", {"a": b"1234"}, read), range(2), seed=0))
    assert len(outcomes) == 2
    assert all(expected in one for one in outcomes), outcomes


# --- the table ----------------------------------------------------------------------------------


def line(fault, outcome, command="python -m a --b c_d", **more):
    tried = sum(outcome.values())
    return json.dumps(
        {
            "fault": fault,
            "tried": tried,
            "outcome": outcome,
            "command": command,
            "code": "c",
            **more,
        }
    )


def test_lines_of_all_files_become_one_table(tmp_path):
    (tmp_path / "b.jsonl").write_text(line("full disk", {"our error": 2}) + "\n")
    lines = [line("kill -9", {"absent": 3, "half": 1}), line("kill -9", {"absent": 1999}, batch=1)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n" + '{"fault": "cut o')
    shown = table_of(read_tried(tmp_path)).to_markdown()
    assert "| kill -9 | 2,003 | 2,002 × absent, 1 × half | python -m a --b c_d |" in shown
    assert "| full disk | 2 | 2 × our error | python -m a --b c_d |" in shown
    assert shown.endswith("2,005 trials of 2 faults in all.")


def test_of_a_fault_that_was_tried_further_the_last_command_repeats_all(tmp_path):
    lines = [line("a", {"b": 100}, "python -m a 100"), line("a", {"b": 50}, "python -m a 150")]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    made = Counter({("c", "not noted"): 150})
    assert read_tried(tmp_path) == [Tried("a", Counter(b=150), "python -m a 150", made)]


def test_each_script_tells_the_states_of_the_code_and_their_days(tmp_path):
    kill, fuzz = "python -m reliability.kill --out FILE", "python -m reliability.fuzz --out FILE"
    lines = [
        line("kill -9 during a", {"absent": 1500}, kill, code="65181f69b211"),
        line("kill -9 during b", {"absent": 500}, kill, code="65181f69b211"),
        line("kill -9 during b", {"absent": 2}, kill, code="c", day="2026-12-01"),
        line("spoilt file: a", {"result": 3}, fuzz, code="c"),
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    assert states_of(read_tried(tmp_path)).rows == (
        ("reliability.fuzz", "not noted", "c", "3"),
        ("reliability.kill", "2026-12-01", "c", "2"),
        ("reliability.kill", "by 2026-11-18", "65181f69b211", "2,000"),
    )


def test_the_table_takes_its_place_in_a_page(tmp_path):
    (tmp_path / "a.jsonl").write_text(line("kill -9", {"absent": 3}) + "\n")
    tables = tables_of(read_tried(tmp_path))
    page = "Before.\n<!-- what was tried -->\nold\n<!-- so much was tried -->\nAfter.\n"
    once = with_tables(page, *tables)
    assert with_tables(once, *tables) == once
    assert once.startswith("Before.\n")
    assert once.endswith("\nAfter.\n")
    assert all(table.to_markdown() in once for table in tables)
    assert "old" not in once
    with pytest.raises(InvalidInputError, match="must have a line"):
        with_tables("no marks", *tables)


@pytest.mark.parametrize(
    "spoilt",
    ['{"fault": 1}', '{"fault": "a", "tried": 2, "outcome": {"b": 1}, "command": ""}', "["],
)
def test_a_line_that_does_not_add_up(tmp_path, spoilt):
    (tmp_path / "a.jsonl").write_text(spoilt + "\n")
    with pytest.raises(FileFormatError, match=r"Line 1 of .*a\.jsonl does not tell"):
        read_tried(tmp_path)


STATES = "absent|complete old|complete new|whole so far"
FINE = {
    "spoilt file: ": r"result|\w+Error",
    "made to harm: ": r"\w+Error",
    "made to harm: pickles planted in unfinished build": rf"{harm.BEGUN_ANEW}|\w+Error",
    "numbers from hell: ": r"finite probabilities that sum to 1|\w+Error",
    "kill -9 ": STATES,
    "full disk ": f"our error; (absent|complete old|whole so far)|{STATES}",
    "two at once: ": f"{ONE_WROTE}|{BOTH_WROTE}",
    "text of strangers: ": WELL,
    "too little memory for ": "refused before it began|begun all the same",
    "load: ": "estimate within 3 of the peak",
    "same answer: ": "same bits|within 1e-5",
    "10,000 fits in one process": "same bits|memory flat",
}
"""What may have come of each kind of fault."""


def test_every_line_says_by_which_code_it_was_made_and_when(tmp_path):
    before = datetime.now(UTC).date().isoformat()
    with open_lines(tmp_path / "a.jsonl", lambda _: None, BEGINNING) as (file, _):
        add_outcome(file, "a fault", ["absent"], "python -m a")
    told = json.loads((tmp_path / "a.jsonl").read_bytes())
    assert told["code"] == package_digest()
    assert told["day"] in (before, datetime.now(UTC).date().isoformat())


@pytest.mark.parametrize(
    "source", ["system/files.py", "system/json_lines.py", "saving/persistence.py", "cli/fit.py"]
)
def test_the_code_of_a_trial_is_all_of_the_package(tmp_path, source):
    package = tmp_path / "proptrain"
    whole = Path(proptrain.__file__).parent
    shutil.copytree(whole, package, ignore=shutil.ignore_patterns("__pycache__"))
    assert _digest_of(package, whole=True) == package_digest()
    with (package / source).open("a") as file:
        file.write("# another\n")
    assert _digest_of(package, whole=True) != package_digest()


def test_our_own_results_have_no_loss():
    tried = {one.fault: one for one in read_tried(RESULTS)}
    for fault, one in tried.items():
        kinds = [begin for begin in FINE if fault.startswith(begin)]
        assert kinds, fault
        for outcome in one.outcome:
            assert re.fullmatch(FINE[max(kinds, key=len)], outcome), (fault, outcome)
    assert BEGINNING == b'{"fault": '


def test_the_commands_of_spoilt_files_repeat_their_own_numbers(readers):
    tried = [one for one in read_tried(RESULTS) if one.fault.startswith("spoilt file: ")]
    assert len(tried) == len(readers)
    for one in tried:
        assert f" --files {one.outcome.total()} " in one.command, one


def test_a_reader_asked_for_alone_gets_all_files(readers, tmp_path, monkeypatch):
    def run(files, reader, out):
        fuzz.main(tmp_path / out, files, reader)
        return [(one.fault, one.outcome.total(), one.command) for one in read_tried(tmp_path)]

    monkeypatch.setattr(fuzz, "all_readers", lambda _: readers)
    monkeypatch.setattr(fuzz, "read_spoilt", lambda _, numbers, __: ["result"] * len(numbers))
    told = run(5 * len(readers) - 1, None, "all.jsonl")
    assert [n_tried for _, n_tried, _ in told] == [5] * len(readers)
    (tmp_path / "all.jsonl").unlink()
    assert run(5, [readers[0].name], "one.jsonl") == told[:1]


PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")


def test_the_page_has_the_tables_of_the_result_files():
    assert with_tables(PAGE, *tables_of(read_tried(RESULTS))) == PAGE


@pytest.mark.parametrize(("kind", "least"), [("spoilt file: ", 20_000), ("made to harm: ", 250)])
def test_what_strangers_may_send_was_tried_with_one_state_of_the_code(kind, least):
    tried = [one for one in read_tried(RESULTS) if one.fault.startswith(kind)]
    made = sum((one.made for one in tried), Counter())
    assert len(made) == 1
    assert made.total() >= least
    assert "what lies beside this page may be newer" in PAGE


@pytest.mark.parametrize("command", ["fit", "predict", "reproduce", "graph build", "save"])
def test_each_command_was_killed_a_hundred_times_without_loss(command):
    (one,) = [one for one in read_tried(RESULTS) if one.fault == f"kill -9 during {command}"]
    assert one.outcome.total() >= 100
    fine = {"absent", "complete old", "complete new"}
    if JOBS[command].grows:
        fine.add("whole so far")  # of its runs, the first; see `jobs.state_of`
    assert set(one.outcome) <= fine


def test_every_command_of_the_table_names_its_file():
    for one in read_tried(RESULTS):
        assert one.command.startswith("python -m reliability."), one
        assert one.command.endswith(" --out FILE"), one


# --- what judges --------------------------------------------------------------------------------


def folder_of_runs(path, seeds, page="</html>"):
    path.mkdir()
    runs = [Run("cora", "LP", seed, 0, 0.8, 0.8, 10, 5, 1.0) for seed in seeds]
    (path / "runs.jsonl").write_text("".join(json.dumps(run.to_json()) + "\n" for run in runs))
    for name in ("README.md", "report.html"):
        (path / name).write_text(page)
    return path


@pytest.mark.parametrize(
    ("seeds", "page", "expected"),
    [
        ([1, 2], "new", "complete new"),
        ([1], "old", "complete old"),
        ([1, 2], "old", "whole so far"),
        ([1, 2], "half a pa", "half"),
        ([2], "new", "half"),
        ([1, 2, 3], "new", "half"),
        ([1, 1], "new", "half"),
    ],
)
def test_runs_are_whole_only_if_they_are_those_that_were_asked_for(tmp_path, seeds, page, expected):
    job = JOBS["reproduce"]
    old = job.content(folder_of_runs(tmp_path / "old", [1], "old"))
    new = job.content(folder_of_runs(tmp_path / "new", [1, 2], "new"))
    found = folder_of_runs(tmp_path / "found", seeds, page)
    assert state_of(job, found, old, new) == expected
    assert not left_inside(found)
    (found / ".README.md.1234").touch()
    assert left_inside(found)


class TwoOutputs:
    """Stands in for `reliability.kill.Victim`: two commands that write "new" and "old"."""

    new, old, job = "new", "old", JOBS["save"]

    def finished(self, *commands):
        return "new" if commands[-1] == self.job.words else "old"


@pytest.mark.parametrize(
    ("content", "codes", "expected"),
    [
        ("new", (0, 1), ONE_WROTE),
        ("old", (1, 0), ONE_WROTE),
        ("old", (0, 1), "one wrote it, but something else stands"),
        ("old", (0, 0), BOTH_WROTE),
        ("new", (0, 0), "both wrote, but something else stands"),
        ("both", (0, 0), "both wrote, but something else stands"),
    ],
)
def test_of_two_writers_what_one_of_them_wrote_must_stand(content, codes, expected):
    ends = [Ended(code, "error: taken" if code else "") for code in codes]
    pair = Pair(TwoOutputs(), overwrite=True)
    assert pair.judge(content, ends) == expected
    if codes == (0, 0):
        assert "exit codes" in Pair(TwoOutputs(), overwrite=False).judge(content, ends)


@linux_only
def test_what_is_held_stands_still_until_it_goes_on(tmp_path):
    running = forked.Running.__new__(forked.Running)
    running.log = tmp_path / "log"
    running.log.touch()
    running.pid = os.posix_spawn("/bin/sh", ["sh", "-c", "sleep 0.01; exit 3"], os.environ)
    assert running.hold()
    assert running.wait(0.1) is None
    running.go_on()
    assert running.wait() == Ended(3, "")
    running.pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 4"], os.environ)
    os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
    assert not running.hold()
    running.go_on()
    assert running.wait() == Ended(4, "")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (".{}.lock", False),
        (".{}.0123456789abcdef.attempt", False),
        (".{}.0123456789abcdef", True),
        (".{}.0123456789abcdef.before", True),
    ],
)
def test_a_command_writes_while_its_hidden_output_is_there(tmp_path, name, expected):
    for job in JOBS.values():
        (tmp_path / name.format(job.output)).touch()
        assert job.grows or Victim(job, tmp_path).is_writing() == expected


def test_a_graph_is_written_when_its_last_files_are(tmp_path):
    work = tmp_path / "built" / "building" / "graph"
    work.mkdir(parents=True)
    victim = Victim(JOBS["graph build"], tmp_path)
    assert not victim.is_writing()
    (work / "degrees.npy").touch()
    assert victim.is_writing()


def test_runs_are_written_when_there_are_more(tmp_path):
    victim = Victim(JOBS["reproduce"], tmp_path)
    folder_of_runs(victim.output, [1])
    victim._size_before = victim._size()
    assert not victim.is_writing()
    (victim.output / "runs.jsonl").write_text("more" * victim._size_before)
    assert victim.is_writing()


class Ends:
    """Stands in for `reliability.forked.Running`: ends by itself, or by a kill, as it is told."""

    codes: Iterator[int]

    def __init__(self, words, log):
        self.code = next(Ends.codes)

    def wait(self, seconds=None):
        return Ended(self.code, "said") if self.code != -9 or seconds is None else None

    def kill(self):
        pass


def test_a_kill_that_came_too_late_is_tried_again_and_another_end_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(forked, "Running", Ends)
    victim = Victim(JOBS["save"], tmp_path)
    victim.seconds = 1.0
    monkeypatch.setattr(victim, "judge", lambda: "absent")
    Ends.codes = iter([0, 0, -9, 70])
    assert victim.kill(random.Random(0)) == "absent"
    assert list(Ends.codes) == [70]
    Ends.codes = iter([0, 70])
    with pytest.raises(RuntimeError, match="failed without any fault: said"):
        victim.kill(random.Random(0))


def test_a_case_is_chosen_by_its_name():
    assert list(choose("features: sparse", large=False)) == ["features: sparse"]
    assert len(choose("features: sparse,", large=False)) > 5
    (case,) = choose("features, graph by knn: NaN", large=False).values()
    assert not [who for who in who_tries(case) if "from disk" in who]
    with pytest.raises(InvalidInputError, match="No case has 'sparze' in its name"):
        choose("sparze", large=False)
    assert chosen(None, ["a", "b"]) == ["a", "b"]
    with pytest.raises(InvalidInputError, match=r"There is no 'c'\. Ask for one of: a; b"):
        chosen(["c"], ["a", "b"])


TABLE = "id,topic,size\na,x,1\nb,,2\n"
SHOWN = Shown(
    ids=["a", "b"],
    classes=["x", ""],
    said="a\n",
    json=['{"id": "a"}', '[{"given": "x"}]'],
    csv=[TABLE, "id,given\na,x\n"],
    sheets=[TABLE],
    page="<p>a</p>",
    picture="<svg><text>a</text></svg>",
    markdown="| a |",
)


@pytest.mark.parametrize(
    ("place", "bad"),
    [
        ("on a terminal", {"said": "\x1b[31m"}),
        ("in JSON", {"json": ['{"id": "\x9b"}', '[{"given": "x"}]']}),
        ("in JSON", {"json": ['{"id": "a"}', '[{"given": "\\\\u202ex"}]']}),
        ("in CSV", {"csv": [TABLE.replace("b,", "c,")]}),
        ("in CSV", {"csv": [TABLE, "id,given\nb,x\n"]}),
        ("in CSV", {"csv": [TABLE.replace("x", "y")]}),
        ("in CSV for a spreadsheet", {"sheets": [TABLE.replace("b,", "=b,")]}),
        ("in CSV for a spreadsheet", {"sheets": [TABLE.replace("x", "@x")]}),
        ("in CSV for a spreadsheet", {"sheets": [TABLE.replace("size", "+size")]}),
        ("in CSV for a spreadsheet", {"sheets": [TABLE.replace("b,", "c,")]}),
        ("in Markdown", {"markdown": "| <b> |"}),
        ("in a page", {"page": "<p><img></p>"}),
        ("in a page", {"page": "<p>\u202ea</p>"}),
        ("in a picture", {"picture": "<svg><img/></svg>"}),
        ("in a picture", {"picture": "<svg><text>a & b</text></svg>"}),
        ("in a picture", {"picture": ""}),
    ],
)
def test_text_that_is_acted_upon_is_seen(place, bad):
    assert {judge(SHOWN, SHOWN) for judge in PLACES.values()} == {""}
    assert PLACES[place](replace(SHOWN, **bad), SHOWN).startswith("broken")


def test_text_goes_through_every_command_that_shows_some(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(text, "_said", lambda *words: ran.append(words[0]) or "")
    with chdir(tmp_path):
        text.show("=1+1")
        assert read_measured(Path("times.jsonl"))[0].case == "=1+1"
        assert set(pd.read_csv("nodes.csv").topic.dropna()) == {"=1+1 a", "=1+1 b"}
    commands = {one.callback.__name__ for one in cli.app.registered_commands}
    own = {"demo", "reproduce", "verify"}  # which show text of ours alone
    assert set(ran) == commands - own | {"graph"}


def test_a_name_that_is_acted_upon_is_seen():
    def named(name, said, told, missing=(), page="<p>a</p>"):
        return Named([name], said, told, list(missing), page, f"<svg>{page}</svg>")

    said = "written to {}\nerror: no {}\n"
    plain = named("a", said.format("a", "a"), '{"out": "a"}\n')
    turned = named("\u202eb", said.format("\\u202eb", "\\u202eb"), '{"out": "\\u202eb"}\n')
    raw = named("\u202eb", said.format("\u202eb", "a"), '{"out": "\u202eb"}\n', ["b"], "<p><img>")
    split = named("b\nerror: c", said.format("b\nerror: c", "a"), '{"out": "b"}\n', ["b"], "<b>")
    for place, judge in NAMED.items():
        assert judge(plain, plain) == "", place
        assert judge(turned, plain) == "", place
        assert judge(raw, plain).startswith("broken"), place
        assert judge(split, plain).startswith("broken"), place


def test_a_line_that_a_name_brings_along_is_seen():
    plain = Named(["a"], "written to a\n", "{}", [], "", "")
    other = Named(["a"], "written to a\nerror: b\n", "{}", [], "", "")
    assert "errors of each kind" in NAMED["on a terminal"](other, plain)


# --- many fits ----------------------------------------------------------------------------------


def soaked(tmp_path, fits):
    """Run the soak and return what its line tells."""
    with chdir(tmp_path):
        soak.soak(Path("soak.jsonl"), fits)
    return json.loads((tmp_path / "soak.jsonl").read_bytes())


def test_many_fits_end_alike_and_memory_stays_flat(tmp_path, monkeypatch):
    monkeypatch.setitem(soak.SHORT, "max_epochs", 2)  # a few seconds in all
    told = soaked(tmp_path, 56)
    assert told["outcome"] == {"same bits": 56, "memory flat": 1}
    assert told["fault"] == "56 fits in one process"


@pytest.mark.parametrize(("grows_by", "expected"), [(0, "memory flat"), (10**7, "memory grew")])
def test_memory_that_grows_is_seen(tmp_path, monkeypatch, grows_by, expected):
    monkeypatch.setitem(soak.SHORT, "max_epochs", 2)
    sizes = itertools.count(10**8, grows_by)
    monkeypatch.setattr(soak, "resident_memory", lambda: next(sizes))
    monkeypatch.setattr(soak, "digest_of", lambda *_: "same")
    assert soaked(tmp_path, 60)["outcome"] == {"same bits": 60, expected: 1}


def test_a_fit_that_ends_otherwise_is_seen(tmp_path, monkeypatch):
    monkeypatch.setitem(soak.SHORT, "max_epochs", 2)
    numbers = itertools.count()
    monkeypatch.setattr(soak, "digest_of", lambda *_: "other" if next(numbers) == 50 else "same")
    kind = list(soak.KINDS)[50 % len(soak.KINDS)]
    outcome = soaked(tmp_path, 60)["outcome"]
    assert outcome == {"same bits": 59, f"other bits ({kind})": 1, "memory flat": 1}
