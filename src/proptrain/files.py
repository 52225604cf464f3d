"""Writing whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
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
    with _unwritable_is_ours(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
    temporary = Path(name)
    try:
        with _unwritable_is_ours(path):
            yield temporary
            temporary.chmod(0o644)
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
    with _unwritable_is_ours(path):
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        with _unwritable_is_ours(path):
            yield temporary
            temporary.chmod(0o755)
            for written in temporary.iterdir():
                _flush(written)
            _put_in_place(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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
    if path.exists() and not overwrite:
        raise OutputExistsError(
            f"{path} exists already and is left alone. Choose another output, remove it, or ask "
            "for overwriting."
        )
    if path.exists() and path.is_dir() != folder:
        wanted, found = ("folder", "file") if folder else ("file", "folder")
        raise UnwritableOutputError(
            f"The output must be a {wanted}, but {path} is a {found} already. Choose another name."
        )
    if not path.parent.is_dir():
        raise UnwritableOutputError(
            f"The folder {path.parent} for the output {path.name} does not exist. Create it first."
        )


@contextmanager
def _unwritable_is_ours(path: Path) -> Iterator[None]:
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
