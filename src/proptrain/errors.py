"""Everything proptrain raises on purpose.

::

    ProptrainError
    ├── InvalidInputError (ValueError)      an argument that cannot be used as it is
    │   ├── GraphError                      … an adjacency matrix or edge list
    │   ├── LabelError                      … labels, stopping nodes, splits
    │   ├── TableError                      … a node or edge table
    │   └── WrongTypeError (TypeError)      … of a type that cannot be used at all
    ├── TrainingError (ArithmeticError)     training that left the finite numbers
    ├── NotEnoughMemoryError (MemoryError)  work that needs more memory than there is
    ├── FileFormatError (ValueError)        a file that is empty, broken, pickled or tampered with
    ├── UnreadableFileError (OSError)       a file that is not there or may not be read
    ├── DatasetNotFoundError (FileNotFoundError)   a named data set that is nowhere to be found
    ├── DownloadError (OSError)             a download that failed or brought the wrong bytes
    ├── OutputExistsError (FileExistsError) an output that would overwrite something
    ├── UnwritableOutputError (OSError)     an output that cannot be written
    ├── ClusterError (RuntimeError)         a cluster that is not there, too small, or gave up
    └── MissingPackageError (ImportError)   an optional package that is not installed

A message says what must be, what was given and what to do.
"""

import difflib
from collections.abc import Iterable
from numbers import Integral

from proptrain.text import visible


class ProptrainError(Exception):
    r"""The root of all errors that proptrain raises on purpose.

    A message may quote files of strangers, and Python prints it to a terminal as it is.

    >>> print(ProptrainError("no column \x1b[31mid"))
    no column \x1b[31mid
    """

    def __str__(self) -> str:
        """Return the message, with what a terminal would act upon written as escapes."""
        return visible(super().__str__())


class InvalidInputError(ProptrainError, ValueError):
    """An argument cannot be used as it is."""


class GraphError(InvalidInputError):
    """An adjacency matrix or edge list cannot be used."""


class LabelError(InvalidInputError):
    """Labels, stopping nodes or a split cannot be used."""


class TableError(InvalidInputError):
    """A node or edge table cannot be used."""


class WrongTypeError(InvalidInputError, TypeError):
    """An argument is of a type that cannot be used at all."""


class TrainingError(ProptrainError, ArithmeticError):
    """Training left the finite numbers."""


class NotEnoughMemoryError(ProptrainError, MemoryError):
    """Work needs more memory than there is."""


class FileFormatError(ProptrainError, ValueError):
    """A file is empty, broken, pickled or was tampered with."""


class UnreadableFileError(ProptrainError, OSError):
    """A file is not there or may not be read."""


class DatasetNotFoundError(ProptrainError, FileNotFoundError):
    """A named data set is in none of the places it could be."""


class DownloadError(ProptrainError, OSError):
    """A download failed or brought other bytes than it should have."""


class OutputExistsError(ProptrainError, FileExistsError):
    """An output would overwrite something that is there already."""


class UnwritableOutputError(ProptrainError, OSError):
    """An output cannot be written."""


class ClusterError(ProptrainError, RuntimeError):
    """A cluster cannot be reached, is too small for the work, or gave it up."""


class MissingPackageError(ProptrainError, ImportError):
    """An optional package is needed for this and is not installed."""


def missing_extra(what: str, extra: str) -> MissingPackageError:
    """Return the error for a package that comes with an extra of ours, and how to get it.

    >>> print(missing_extra("Ray is missing.", "ray"))
    Ray is missing. From proptrain's folder: pip install -c constraints.txt '.[ray]'
    """
    return MissingPackageError(
        f"{what} From proptrain's folder: pip install -c constraints.txt '.[{extra}]'"
    )


def unknown_name(
    what: str, given: object, known: Iterable[str], more: str = ""
) -> InvalidInputError:
    """Return the error for a name that is none of those known, with the one that may be meant.

    >>> str(unknown_name("A colour", "Rde", ["red", "green"]))
    "A colour must be one of red, green; got 'Rde'. Did you mean 'red'?"
    """
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(str(given).lower(), names, n=1)
    guess = f" Did you mean {names[close[0]]!r}?" if close else ""
    told = f"{what} must be one of {', '.join(names.values())}; got {given!r}.{guess} {more}"
    return InvalidInputError(told.rstrip())


def check_count(name: str, given: object) -> None:
    """Raise unless an argument is a whole number, at least 1."""
    if isinstance(given, bool) or not isinstance(given, Integral) or given < 1:
        raise InvalidInputError(f"{name} must be a whole number, at least 1, got {given!r}.")


def check_seed(given: object) -> None:
    """Raise unless an argument is a seed that NumPy's RandomState takes."""
    if isinstance(given, bool) or not isinstance(given, Integral) or not 0 <= int(given) < 2**32:
        raise InvalidInputError(
            "A seed must be a whole number from 0 to 2³² - 1, so that the same can be drawn again; "
            f"got {given!r}."
        )
