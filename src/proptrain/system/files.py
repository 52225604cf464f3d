"""Writing whole or not at all, one process at a time; and reading from one folder alone."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, Literal

from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    OutputExistsError,
    ProptrainError,
    UnwritableOutputError,
)

if sys.platform != "win32":
    import fcntl


DESCRIPTION = 1 << 26
"""Bytes of the largest model.json or manifest.json: a graph of 2^31 nodes has one of a few MB."""
_BEFORE, _ATTEMPT = ".before", ".attempt"
"""End the hidden names of an old folder while the new one takes its place, and of an empty file
that is made to see whether any can be: the longest, so that no other will be too long.
"""


@contextmanager
def whole_file(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its name only if all went well."""
    path = Path(path)
    check_output(path, overwrite=overwrite)
    path = _real(path)  # a link stays, its target is replaced
    with only_writer(path):
        check_output(path, overwrite=overwrite)  # again: another process may have been quicker
        temporary = _hidden_beside(path)
        with unwritable_is_ours(path):
            temporary.touch(exist_ok=False)
        try:
            with unwritable_is_ours(path):
                yield temporary
                _flush(temporary)
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside ``path`` that takes its name only if all went well."""
    path = Path(path)
    check_output(path, overwrite=overwrite, folder=True)
    path = _real(path)  # a link stays, its target is replaced
    with only_writer(path):
        check_output(path, overwrite=overwrite, folder=True)  # another may have been quicker
        temporary = _hidden_beside(path)
        with unwritable_is_ours(path):
            temporary.mkdir()
        try:
            with unwritable_is_ours(path):
                yield temporary
                for written in temporary.iterdir():
                    _flush(written)
                put_in_place(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Keep other processes from writing ``path`` meanwhile; a second one is told so.

    The lock is on a hidden, empty file beside it, and ends with the process, however it ends. What
    a process that was killed has left beside ``path`` is put right first.
    """
    lock = path.with_name(f".{path.name}.lock")
    with unwritable_is_ours(path):
        file, is_alone = _locked(lock, path)
    try:
        if is_alone:
            _tidy(path)
        yield
    finally:
        lock.unlink(missing_ok=True)  # while the lock is still ours
        file.close()


def remove_whole(folder: Path, output: Path) -> None:
    """Remove a folder; a kill leaves all of it or nothing under its name.

    What it leaves is beside ``output``, where the next writer of that removes it.
    """
    hidden = _hidden_beside(output)
    folder.rename(hidden)
    shutil.rmtree(hidden)


@contextmanager
def working_folder(place: Path) -> Iterator[Path]:
    """Yield the path of a folder, to be made in ``place`` for what is not finished.

    Whoever comes next removes what killed processes of this machine have left of theirs there. Not
    what others left: a shared disk may keep locks to each machine, and they may be alive.
    """
    for left in _named(place, re.escape(f".proptrain-{_this_machine()}-") + "[0-9a-f]{16}"):
        with suppress(OSError):  # what cannot be removed must not keep others from working
            _remove_if_left(left)
    path = place / f".proptrain-{_this_machine()}-{secrets.token_hex(8)}"
    with unwritable_is_ours(path):
        place.mkdir(parents=True, exist_ok=True)
        file, _ = _locked(_lock_of(path), path)
    try:
        yield path
    finally:
        _lock_of(path).unlink(missing_ok=True)
        file.close()


def _named(place: Path, pattern: str) -> list[Path]:
    """Return what in a folder has a name of this pattern."""
    try:
        return [one for one in place.iterdir() if re.fullmatch(pattern, one.name)]
    except OSError:  # not there yet, or not ours to read: who writes to it will be told
        return []


def _remove_if_left(folder: Path) -> None:
    """Remove a folder unless its maker is alive and has its lock, or nobody can tell."""
    if not folder.is_dir():
        return
    try:
        file, is_alone = _locked(_lock_of(folder), folder)
    except UnwritableOutputError:
        return
    if is_alone:
        shutil.rmtree(folder, ignore_errors=True)
        _lock_of(folder).unlink(missing_ok=True)
    file.close()


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _this_machine() -> str:
    """Return a name that no other machine, nor a container on this one, has."""
    told = platform.node()
    with suppress(OSError):
        told += Path("/etc/machine-id").read_text()
    return hashlib.sha256(told.encode()).hexdigest()[:8]


def _locked(lock: Path, path: Path) -> tuple[BinaryIO, bool]:
    """Open a lock file and lock it; tells whether others are kept away by it."""
    while True:
        file = lock.open("ab")
        try:
            is_alone = keep_others_away(file, path)
        except UnwritableOutputError:
            file.close()
            raise
        except OSError:  # some network disks know no locks
            return file, False
        if not is_alone:
            return file, False
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                return file, True
        file.close()  # whoever had it has removed it just now


def keep_others_away(file: IO[bytes], path: Path) -> bool:
    """Lock an open file until it is closed or the process ends, however it ends.

    Tells whether others are kept away by that. Raises if another process has it; and what the
    operating system says where a disk knows no locks.
    """
    if sys.platform == "win32":  # nothing there keeps a second process away
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UnwritableOutputError(
            f"{path} is being written by another process. Wait for it, or name another."
        ) from error
    return True


def _tidy(path: Path) -> None:
    """Remove what killed processes have left of ``path``, and bring back what one had set aside."""
    for left in _beside(path, "", _BEFORE, _ATTEMPT):
        with suppress(OSError):  # what cannot be removed must not keep others from working
            if left.suffix == _BEFORE and not path.exists():
                left.rename(path)
            elif left.suffix == _BEFORE:
                remove_whole(left, path)
            elif left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()


def unfinished_of(path: Path) -> list[Path]:
    """Return what lies beside ``path`` while a process writes it, and once one was killed then."""
    return _beside(path, "", _BEFORE)


def _beside(path: Path, *endings: str) -> list[Path]:
    ending = "|".join(map(re.escape, endings))
    return _named(path.parent, re.escape(f".{path.name}.") + f"[0-9a-f]{{16}}({ending})")


def _hidden_beside(path: Path, ending: str = "") -> Path:
    # Not from tempfile, whose files nobody else may read, whatever the user's umask says.
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{ending}")


def put_in_place(folder: Path, path: Path) -> None:
    """Give a folder its final name; what had the name before goes only once that has worked.

    The folder may lie in what goes. A kill leaves the old or the new one under that name, or the
    old one beside it, where the next writer brings it back.
    """
    if not path.exists():
        folder.rename(path)
        return
    hidden = _hidden_beside(path)
    before = hidden.with_name(f"{hidden.name}{_BEFORE}")
    path.rename(before)
    try:
        (before / folder.relative_to(path) if folder.is_relative_to(path) else folder).rename(path)
    except OSError:
        before.rename(path)
        raise
    before.rename(hidden)  # from here on it may be found in parts, and is nothing to bring back
    shutil.rmtree(hidden)


def file_of(folder: Path, name: str) -> Path:
    """Return the path of an ordinary file in a folder; one that leads out of it is not read."""
    path = folder / name
    real = _real(path)
    if real.parent != folder.resolve():
        raise FileFormatError(
            f"Cannot use {folder}: {name} must lie in that folder itself, but leads to {real}. If "
            "you made that link yourself, copy the folder with what its links lead to."
        )
    check_ordinary(path)
    return path


def _real(path: Path) -> Path:
    """Return where links lead; `Path.resolve` fails on one that leads to itself."""
    return Path(os.path.realpath(path))


NAMED = "Write what it tells to a file first, and name that."
"""Advice on what a user named himself, and is no part of a folder of ours."""


def kind_at(path: Path) -> Literal["file", "folder", "other", ""]:
    """Tell what is at a path: "" if nothing, or nothing that may be looked at.

    `Path.is_file` and its like raise for names that are too long and folders of others.

    >>> kind_at(Path(__file__)), kind_at(Path("/")), kind_at(Path("x" * 300))
    ('file', 'folder', '')
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return ""
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "other"


def check_ordinary(path: Path, advice: str = "Make the folder that it lies in again.") -> None:
    """Raise if there is a pipe, socket or device, which may never come to an end.

    What is not there, a folder, or not to be looked at is for whoever opens it to tell.
    """
    if kind_at(path) == "other":
        raise FileFormatError(
            f"{path} must be an ordinary file, but is a pipe, socket or device. {advice}"
        )


def read_description(folder: Path, name: str) -> bytes:
    """Return the content of the file that describes a folder, if it is an ordinary one in it."""
    return read_small(file_of(folder, name), DESCRIPTION)


def read_small(path: Path, most: int) -> bytes:
    """Return the content of an ordinary file that can have at most so many bytes."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise FileFormatError(
            f"{path} must be of at most {most:,} bytes, but is larger, and is not read. "
            "It is damaged, or was made to fill the memory."
        )
    return content


def check_output(
    path: Path, *, overwrite: bool, folder: bool = False, inputs: Iterable[Path | None] = ()
) -> None:
    """Raise early, before long work, if ``path`` could not be written at its end, or is an input.

    That it can be is tried: an empty file beside it is made and removed.
    """
    real = _real(path)
    if real in [_real(one) for one in inputs if one is not None]:
        raise InvalidInputError(
            f"An output must be a file of its own, but {path} is read or written already. Choose "
            "another."
        )
    with unwritable_is_ours(path):
        exists, is_folder, has_place = path.exists(), path.is_dir(), real.parent.is_dir()
        is_special = exists and not is_folder and not path.is_file()
    if is_special:
        raise UnwritableOutputError(
            f"The output must be an ordinary file, but {path} is a pipe, socket or device and is "
            "left alone. Choose another name."
        )
    if exists and not overwrite:
        raise OutputExistsError(
            f"{path} exists already and is left alone. Choose another output, remove it, or ask "
            "for overwriting (--overwrite, in Python overwrite=True)."
        )
    if exists and is_folder != folder:
        wanted, found = ("folder", "file") if folder else ("file", "folder")
        raise UnwritableOutputError(
            f"The output must be a {wanted}, but {path} is a {found} already. Choose another name."
        )
    if folder and _holds_us(real):
        raise UnwritableOutputError(
            f"An output folder takes the place of what has its name, but {path} is the folder that "
            "the command runs in, or one above it. Name a folder that is not there yet."
        )
    if not has_place:
        raise UnwritableOutputError(
            f"The folder {real.parent} for the output {path.name} does not exist. Create it first."
        )
    attempt = _hidden_beside(real, _ATTEMPT)
    with unwritable_is_ours(path):
        attempt.touch(exist_ok=False)
        attempt.unlink(missing_ok=True)  # who has the lock may have been quicker to tidy up


def _holds_us(folder: Path) -> bool:
    """Tell whether it is the folder that we run in or one above it, of which there may be none."""
    with suppress(OSError):
        return Path.cwd().is_relative_to(folder)
    return False


@contextmanager
def unwritable_is_ours(path: Path) -> Iterator[None]:
    """Turn what the operating system says against writing ``path`` into our error."""
    try:
        yield
    except ProptrainError:
        raise
    except OSError as error:  # no permission, a full disk
        raise UnwritableOutputError(
            f"{path} cannot be written: {error.strerror or error}. Make room, or choose another "
            "place."
        ) from error


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
