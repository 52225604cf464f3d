"""Who could have written a file or a folder: what Numba unpickles must be our own."""

from __future__ import annotations

import os
import stat
import warnings
from functools import cache
from pathlib import Path

_OWNERS = {0, Path(__file__).stat().st_uid}
"""Root, and who owns this package and so has us run what they like anyway."""


def is_trusted(place: Path) -> bool:
    """Tell whether nobody but us, root and the package's owner can have put there what is there.

    A folder with the sticky bit, as /tmp has, is shared, but each file in it stays its owner's, and
    is looked at by itself. Windows does not tell by mode and owner; there all is trusted.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as own:
    ...     is_trusted(Path(own))
    True
    """
    if not hasattr(os, "geteuid"):
        return True
    try:
        itself, led_to = place.lstat(), place.stat()  # differ for a link
    except OSError:
        return True  # there is nothing that could be read
    owners, mode = {itself.st_uid, led_to.st_uid}, led_to.st_mode
    others_write = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_our_own(led_to.st_gid))
    is_sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
    return owners <= {*_OWNERS, os.geteuid()} and bool(is_sticky or not others_write)


@cache
def _is_our_own(group: int) -> bool:
    """Tell whether a group is the one that many systems make for each user, nobody else in it."""
    import grp
    import pwd

    try:
        user, told = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    is_of_name = (told.gr_gid, told.gr_name) == (user.pw_gid, user.pw_name)
    return is_of_name and set(told.gr_mem) <= {user.pw_name}


_TOLD: list[Path] = []


def warn_of(place: Path) -> None:
    """Say that what is kept there is left alone; once in a process, however much it is."""
    if not _TOLD:
        _TOLD.append(place)
        warnings.warn(
            f"Compiled code in {place} is left alone, since others than you may write there and it "
            "is run when it is read. Functions are compiled in each process instead, which takes "
            "longer. Take their right to write away (chmod go-w), or set NUMBA_CACHE_DIR to a "
            "folder of your own.",
            stacklevel=2,
        )
