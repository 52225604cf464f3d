"""Outputs appear whole or not at all, and never in place of something that was not offered."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    OutputExistsError,
    UnwritableOutputError,
)
from proptrain.system import files
from proptrain.system.files import (
    check_output,
    file_of,
    only_writer,
    remove_whole,
    whole_file,
    whole_folder,
    working_folder,
)

needs_posix = pytest.mark.skipif(
    sys.platform == "win32", reason="pipes, links and lengths of names are others there"
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(path, text="new", *, overwrite=False, error=None):
    with whole_file(path, overwrite=overwrite) as temporary:
        assert temporary.parent == Path(path).resolve().parent
        temporary.write_text(text)
        if error:
            raise error


def write_folder(path, text="new", *, overwrite=False, error=None):
    with whole_folder(path, overwrite=overwrite) as temporary:
        (temporary / "content").write_text(text)
        if error:
            raise error


def test_a_file_appears_at_the_end_and_alone(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_appears_at_the_end_and_alone(tmp_path):
    path = tmp_path / "a"
    with whole_folder(path) as temporary:
        (temporary / "content").write_text("whole")
        assert not path.exists()
    assert (path / "content").read_text() == "whole"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o002])
def test_who_may_read_it_is_for_the_umask_to_say(tmp_path, umask):
    before = os.umask(umask)
    try:
        write(tmp_path / "file")
        write_folder(tmp_path / "folder")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o777 & ~umask
    assert stat.S_IMODE((tmp_path / "folder" / "content").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
@pytest.mark.parametrize("writer", [write, write_folder])
def test_an_error_half_way_leaves_nothing(tmp_path, writer, error):
    with pytest.raises(type(error)):
        writer(tmp_path / "a", error=error)
    assert names(tmp_path) == []


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_an_error_half_way_leaves_the_old_file(tmp_path, error):
    write(tmp_path / "a", "old")
    with pytest.raises(type(error)):
        write(tmp_path / "a", overwrite=True, error=error)
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_an_error_half_way_leaves_the_old_folder(tmp_path, error):
    write_folder(tmp_path / "a", "old")
    with pytest.raises(type(error)):
        write_folder(tmp_path / "a", overwrite=True, error=error)
    assert (tmp_path / "a" / "content").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_a_folder_that_cannot_take_its_name_leaves_the_old_one(tmp_path, monkeypatch):
    write_folder(tmp_path / "a", "old")
    rename = Path.rename

    def refuse_the_new_one(self, target):
        if Path(target).name == "a" and (self / "content").read_text() == "new":
            raise OSError(5, "the disk says no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse_the_new_one)
    with pytest.raises(OSError, match="the disk says no"):
        write_folder(tmp_path / "a", overwrite=True)
    assert (tmp_path / "a" / "content").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_what_exists_is_left_alone_unless_offered(tmp_path):
    write(tmp_path / "a", "old")
    write_folder(tmp_path / "b", "old")
    with pytest.raises(OutputExistsError, match="a exists already and is left alone"):
        write(tmp_path / "a")
    with pytest.raises(OutputExistsError, match="b exists already and is left alone"):
        write_folder(tmp_path / "b")
    assert (tmp_path / "a").read_text() == (tmp_path / "b" / "content").read_text() == "old"
    (tmp_path / "b" / "more").touch()
    write(tmp_path / "a", overwrite=True)
    write_folder(tmp_path / "b", overwrite=True)
    assert (tmp_path / "a").read_text() == (tmp_path / "b" / "content").read_text() == "new"
    assert names(tmp_path / "b") == ["content"]
    assert names(tmp_path) == ["a", "b"]


def test_a_file_never_takes_the_place_of_a_folder_nor_a_folder_that_of_a_file(tmp_path):
    write(tmp_path / "file", "old")
    write_folder(tmp_path / "folder", "old")
    with pytest.raises(UnwritableOutputError, match=r"must be a file, but .*folder is a folder"):
        write(tmp_path / "folder", overwrite=True)
    with pytest.raises(UnwritableOutputError, match=r"must be a folder, but .*file is a file"):
        write_folder(tmp_path / "file", overwrite=True)
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "content").read_text() == "old"


@needs_posix
def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    write(tmp_path / "a", "old")
    write_folder(tmp_path / "b", "old")
    (tmp_path / "to_a").symlink_to(tmp_path / "a")
    (tmp_path / "to_b").symlink_to(tmp_path / "b")
    write(tmp_path / "to_a", overwrite=True)
    write_folder(tmp_path / "to_b", overwrite=True)
    assert (tmp_path / "to_a").is_symlink()
    assert (tmp_path / "to_b").is_symlink()
    assert (tmp_path / "a").read_text() == (tmp_path / "b" / "content").read_text() == "new"


@pytest.mark.parametrize("writer", [write, write_folder])
def test_a_folder_that_is_not_there_or_may_not_be_written(tmp_path, writer, monkeypatch):
    with pytest.raises(UnwritableOutputError, match="nowhere for the output a does not exist"):
        writer(tmp_path / "nowhere" / "a")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(UnwritableOutputError, match="a cannot be written: Permission denied"):
        writer(tmp_path / "a")
    assert names(tmp_path) == []


@pytest.mark.parametrize("question", ["exists", "is_dir"])
@pytest.mark.parametrize("folder", [False, True])
def test_a_folder_that_may_not_be_entered(tmp_path, monkeypatch, question, folder):
    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, question, refuse)
    with pytest.raises(UnwritableOutputError, match=r"a cannot be written: Permission denied\. M"):
        check_output(tmp_path / "a", overwrite=False, folder=folder)


def test_check_output_says_it_early_and_writes_nothing(tmp_path):
    (tmp_path / "a").write_text("old")
    check_output(tmp_path / "new", overwrite=False)
    check_output(tmp_path / "new", overwrite=False, folder=True)
    check_output(tmp_path / "a", overwrite=True)
    check_output(tmp_path, overwrite=True, folder=True)
    with pytest.raises(OutputExistsError, match="Choose another output, remove it, or ask"):
        check_output(tmp_path / "a", overwrite=False)
    with pytest.raises(UnwritableOutputError, match="must be a file"):
        check_output(tmp_path, overwrite=True)
    with pytest.raises(UnwritableOutputError, match="Create it first"):
        check_output(tmp_path / "nowhere" / "a", overwrite=False)
    assert names(tmp_path) == ["a"]
    shutil.rmtree(tmp_path)


@needs_posix
def test_a_pipe_is_no_output(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for overwrite in (False, True):
        with pytest.raises(UnwritableOutputError, match="pipe, socket or device and is left alone"):
            check_output(tmp_path / "pipe", overwrite=overwrite)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@needs_posix
def test_an_input_is_no_output(tmp_path):
    (tmp_path / "a").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    check_output(tmp_path / "b", overwrite=True, inputs=[None, tmp_path / "a"])
    for one, other in (("a", "a"), ("a", "link"), ("link", "a")):
        with pytest.raises(InvalidInputError, match="read or written already"):
            check_output(tmp_path / one, overwrite=True, inputs=[None, tmp_path / other])


@needs_posix
def test_what_the_disk_would_refuse_in_the_end_is_told_at_once(tmp_path):
    longest, fine = os.pathconf(tmp_path, "PC_NAME_MAX"), 0
    for length in range(longest - 30, longest):
        path = tmp_path / ("a" * length)
        with suppress(UnwritableOutputError):
            check_output(path, overwrite=True, folder=True)
            fine = length
        if fine == length:
            write_folder(path)
            write_folder(path, overwrite=True)  # the hidden names beside it are longer
    assert longest - 30 < fine < longest - 17
    with pytest.raises(UnwritableOutputError, match="cannot be written: File name too long"):
        check_output(tmp_path / ("a" * (fine + 1)), overwrite=False)


def test_a_link_to_where_nothing_can_be_is_told(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "a")
    with pytest.raises(UnwritableOutputError, match="nowhere for the output link does not exist"):
        check_output(tmp_path / "link", overwrite=True)


@needs_posix
def test_a_link_to_itself_is_replaced_as_any_that_leads_nowhere(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with whole_file(tmp_path / "loop") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "loop").read_text() == "new"


# --- one writer at a time, and after a kill -------------------------------------------------------


@pytest.mark.parametrize("writer", [write, write_folder])
def test_a_second_writer_is_told_and_the_first_goes_on(tmp_path, writer):
    path = tmp_path / "a"
    with only_writer(path), pytest.raises(UnwritableOutputError, match="by another process"):
        writer(path)
    writer(path)
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("whole", [whole_file, whole_folder])
def test_who_comes_too_late_is_told_unless_it_may_overwrite(tmp_path, whole, monkeypatch):
    writer = write if whole is whole_file else write_folder
    checked = check_output

    def quicker(path, **how):
        checked(path, **how)
        if not path.exists():  # between the check and the lock
            monkeypatch.undo()
            writer(path, "quicker")

    monkeypatch.setattr(files, "check_output", quicker)
    with pytest.raises(OutputExistsError, match="exists already"):
        writer(tmp_path / "a", "late")
    found = tmp_path / "a" if whole is whole_file else tmp_path / "a" / "content"
    assert found.read_text() == "quicker"


def test_what_a_killed_writer_left_is_put_right(tmp_path):
    left = ".a.0123456789abcdef"
    write_folder(tmp_path / f"{left}.before", "old")  # it was killed between two renames
    write_folder(tmp_path / left, "half")
    (tmp_path / ".a.lock").touch()
    (tmp_path / f"{left}.attempt").touch()
    (tmp_path / ".a.notes").touch()  # somebody else's
    with pytest.raises(OutputExistsError):
        write_folder(tmp_path / "a")
    assert names(tmp_path) == [".a.notes", "a"]
    assert (tmp_path / "a" / "content").read_text() == "old"
    write_folder(tmp_path / f"{left}.before", "older")
    write_folder(tmp_path / "a", overwrite=True)
    assert names(tmp_path) == [".a.notes", "a"]
    assert (tmp_path / "a" / "content").read_text() == "new"


AT_EACH_STEP = """
import os, signal, sys
from itertools import count
from pathlib import Path
from proptrain.system.files import only_writer, whole_file, whole_folder

place, is_folder = Path(sys.argv[1]), sys.argv[2] == "folder"
path = place / "a"
inside = path / "content" if is_folder else path
STEPS = {"os.mkdir", "os.remove", "os.rename", "os.rmdir"}

def write(text, overwrite=False):
    with (whole_folder if is_folder else whole_file)(path, overwrite=overwrite) as temporary:
        (temporary / "content" if is_folder else temporary).write_text(text)

def end_before(number):
    steps = count()
    def look(event, _):
        if event in STEPS and next(steps) == number:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(look)

write("old")
for number in count():
    child = os.fork()
    if child == 0:
        end_before(number)
        write("new", overwrite=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    is_there = path.exists()
    with only_writer(path):
        code = os.waitstatus_to_exitcode(status)
        print(is_there, inside.read_text(), code, *sorted(os.listdir(place)))
    if status == 0:
        break
    write("old", overwrite=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_kill_before_any_step_leaves_the_old_or_the_new(tmp_path, kind):
    words = [sys.executable, "-c", AT_EACH_STEP, str(tmp_path), kind]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    *killed, whole = [line.split() for line in told.splitlines()]
    assert whole == ["True", "new", "0", ".a.lock", "a"]
    assert all(rest == ["-9", ".a.lock", "a"] for _, _, *rest in killed)
    expected = {("True", "old"), ("True", "new")}
    if kind == "folder":
        expected.add(("False", "old"))  # set aside for a moment, and brought back
    assert {(is_there, content) for is_there, content, *_ in killed} == expected


def test_what_cannot_be_removed_keeps_nobody_from_writing(tmp_path, monkeypatch):
    (tmp_path / ".a.0123456789abcdef").touch()  # another user's, as it may be in /tmp
    unlink = Path.unlink

    def refuse(self, missing_ok=False):
        if self.name.endswith("0123456789abcdef"):
            raise PermissionError(1, "Operation not permitted")
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    write(tmp_path / "a")
    assert names(tmp_path) == [".a.0123456789abcdef", "a"]


@pytest.mark.skipif(sys.platform == "win32", reason="nothing there keeps a second process away")
def test_who_looks_whether_it_can_be_written_and_who_writes_do_not_disturb_each_other(tmp_path):
    path, n_times, told = tmp_path / "a", 300, set()

    def look():
        for _ in range(n_times):
            check_output(path, overwrite=True)

    def write_if_alone():
        for _ in range(n_times):
            try:
                write(path, overwrite=True)
            except UnwritableOutputError as error:
                told.add(str(error))

    with ThreadPoolExecutor() as pool:  # a lock keeps threads apart as it does processes
        for each in [pool.submit(do) for do in (look, write_if_alone, look, write_if_alone)]:
            each.result()
    assert told <= {f"{path} is being written by another process. Wait for it, or name another."}
    assert names(tmp_path) == ["a"]


def test_a_folder_is_removed_whole(tmp_path, monkeypatch):
    write_folder(tmp_path / "a", "old")
    monkeypatch.setattr(shutil, "rmtree", lambda path: None)  # killed before that
    remove_whole(tmp_path / "a", tmp_path / "a")
    assert not (tmp_path / "a").exists()
    monkeypatch.undo()
    write_folder(tmp_path / "a")
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("name", ["../b", "/etc/passwd", "c/b", ".."])
def test_a_name_that_leads_out_of_a_folder(tmp_path, name):
    with pytest.raises(FileFormatError, match="must lie in that folder itself"):
        file_of(tmp_path, name)
    assert file_of(tmp_path, "b") == tmp_path / "b"


KILLED = """
import os, signal, sys
from pathlib import Path
from proptrain.system.files import working_folder
with working_folder(Path(sys.argv[1])) as folder:
    folder.mkdir()
    (folder / "half.npy").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="nothing there keeps a second process away")
def test_what_a_killed_process_was_working_on_goes_with_the_next_and_nothing_else(tmp_path):
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode < 0
    (left,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    elsewhere = tmp_path / ".proptrain-0123abcd-0123456789abcdef"  # another machine's
    elsewhere.mkdir()
    with working_folder(tmp_path) as alive:
        assert names(tmp_path) == sorted([elsewhere.name, f"{alive.name}.lock"])
        assert left != alive
        alive.mkdir()
        with working_folder(tmp_path):
            assert alive.is_dir()
        alive.rmdir()
    assert names(tmp_path) == [elsewhere.name]


def test_a_folder_to_work_in_that_cannot_be_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    told = pytest.raises(UnwritableOutputError, match="cannot be written")
    with told, working_folder(tmp_path / "file"):
        pass


@pytest.mark.parametrize("output", [".", "..", "/", "../here"])
def test_no_folder_takes_the_place_of_the_one_that_we_run_in(output, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with pytest.raises(
        UnwritableOutputError, match=r"the command runs in, or one above it\. Name a"
    ):
        write_folder(Path(output), overwrite=True)
    assert (here.exists(), names(here)) == (True, [])
    write_folder(Path("new"))
    assert names(here) == ["new"]
