"""Writing whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proptrain.errors import OutputExistsError, ProptrainError, UnwritableOutputError


@contextmanager
def whole_file(path: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its name only if all went well."""
    path = Path(path)
    check_output(path, overwrite=overwrite)
    path = path.resolve()  # a link stays, its target is replaced
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
    path = path.resolve()  # a link stays, its target is replaced
    temporary = _hidden_beside(path)
    with unwritable_is_ours(path):
        temporary.mkdir()
    try:
        with unwritable_is_ours(path):
            yield temporary
            for written in temporary.iterdir():
                _flush(written)
            _put_in_place(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _hidden_beside(path: Path) -> Path:
    # Not from tempfile, whose files nobody else may read, whatever the user's umask says.
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def _put_in_place(folder: Path, path: Path) -> None:
    """Give a folder its final name; what had the name before goes only once that has worked."""
    if not path.exists():
        folder.rename(path)
        return
    before = folder.with_name(f"{folder.name}.before")
    path.rename(before)
    try:
        folder.rename(path)
    except OSError:
        before.rename(path)
        raise
    shutil.rmtree(before)


def check_output(path: Path, *, overwrite: bool, folder: bool = False) -> None:
    """Raise early, before long work, if ``path`` could not be written at its end."""
    with unwritable_is_ours(path):
        exists, is_folder, has_place = path.exists(), path.is_dir(), path.parent.is_dir()
    if exists and not overwrite:
        raise OutputExistsError(
            f"{path} exists already and is left alone. Choose another output, remove it, or ask "
            "for overwriting."
        )
    if exists and is_folder != folder:
        wanted, found = ("folder", "file") if folder else ("file", "folder")
        raise UnwritableOutputError(
            f"The output must be a {wanted}, but {path} is a {found} already. Choose another name."
        )
    if not has_place:
        raise UnwritableOutputError(
            f"The folder {path.parent} for the output {path.name} does not exist. Create it first."
        )


@contextmanager
def unwritable_is_ours(path: Path) -> Iterator[None]:
    """Turn what the operating system says against writing ``path`` into our error."""
    try:
        yield
    except ProptrainError:
        raise
    except OSError as error:  # no permission, a full disk
        raise UnwritableOutputError(
            f"{path} cannot be written: {error.strerror or error}. Choose another place."
        ) from error


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
