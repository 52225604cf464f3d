"""Turn labels of any kind into class codes, and back by their names."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proptrain.data.indices import in_native_order, off_torch
from proptrain.data.names import check_lengths
from proptrain.data.sound import mask_of
from proptrain.errors import LabelError


def encode_labels(
    values: Any, *, unlabelled: Hashable = -1
) -> tuple[NDArray[np.int64], tuple[Hashable, ...]]:
    """Give each class a code, from 0 in the order of their names, and unlabelled nodes -1.

    Labels, shape (n,), may be text, numbers or booleans, in a list, a NumPy array or a pandas
    column. Unlabelled are the marker ``unlabelled`` (also as text), None, NaN, pandas' NA, blank
    text and what an array masks. Returned are the codes, shape (n,), and the names of the C
    classes, which are plain Python values that differ as text; whole floats become integers, since
    a gap turns a column of integers into floats.

    >>> codes, names = encode_labels(["spam", None, "ham", "spam"])
    >>> codes.tolist(), names
    ([1, -1, 0, 1], ('ham', 'spam'))
    """
    import pandas as pd

    labels = _one_dimensional(told_labels(values))
    if getattr(labels.dtype, "kind", "") in ("M", "m"):  # of some units NumPy would make numbers
        raise LabelError(
            f"Labels must be text, booleans or whole numbers of 64 bits, got dates or times "
            f"({labels.dtype}). Turn them into text first: str(label) of every label."
        )
    try:
        codes, distinct = pd.factorize(labels)
    except (TypeError, NotImplementedError) as error:  # the latter from columns of Arrow
        raise LabelError(
            "A label must be one value for each node (text, a number or a boolean), got lists or "
            f"the like: {error}. For one-hot rows pass the position of the 1, y.argmax(axis=1)."
        ) from error
    names = _plain_values(distinct)
    check_lengths(names, "Names of classes", LabelError)
    known = [place for place, name in enumerate(names) if not _is_unlabelled(name, unlabelled)]
    _check_texts([names[place] for place in known])
    known.sort(key=_sort_key([names[place] for place in known], names))
    code_of = np.full(len(names) + 1, -1, dtype=np.int64)  # the last is for missing values
    code_of[known] = np.arange(len(known))
    return code_of[codes], tuple(names[place] for place in known)


def told_labels(values: Any) -> Any:
    """Return labels of which NumPy hides none that it should: masked ones become None.

    Torch tensors come without their gradient, and on the CPU.

    >>> told_labels(np.ma.masked_array([3, 4], mask=[False, True]))
    array([3, None], dtype=object)
    """
    masked = mask_of(values)
    if not np.any(masked):
        return off_torch(values)
    labels = np.array(values.data, dtype=object)
    labels[masked] = None
    return labels


def check_classes(class_names: Sequence[Hashable]) -> None:
    """Raise unless there are at least two classes to tell apart."""
    if len(class_names) == 0:
        raise LabelError(
            "No node has a label: every label is the marker for unlabelled, missing or blank. "
            "Label at least one node of each of two classes."
        )
    if len(class_names) == 1:
        raise LabelError(
            f"There must be at least two classes, got one: {class_names[0]!r}. "
            "Label at least one node of another class."
        )


def _check_texts(names: list[Hashable]) -> None:
    """Raise if an array of names would make two classes one, or change the name of one."""
    by_text: dict[str, Hashable] = {}
    for name in names:
        if isinstance(name, str) and name.endswith("\0"):
            raise LabelError(
                f"The name of a class must not end with the character 0, which NumPy drops, but "
                f"there is {name!r}. Take it off: label.rstrip(chr(0))."
            )
        other = by_text.setdefault(str(name), name)
        if other is not name:
            raise LabelError(
                f"Classes must differ as text, but there are {other!r} "
                f"({type(other).__name__}) and {name!r} ({type(name).__name__}). If they are one "
                "class, write it in one way, such as str(label) of every label; else rename one."
            )


def _one_dimensional(values: Any) -> Any:
    import pandas as pd

    if isinstance(values, list | tuple):
        # As objects: otherwise large integers beside a None would be rounded to floats.
        return pd.Series(list(values), dtype=object)
    shape = getattr(values, "shape", ())
    if len(shape) != 1:
        raise LabelError(
            "Labels must be a list or an array with one entry for each node, got "
            f"{type(values).__name__} of shape {tuple(shape)}. A column of shape (n, 1) can be "
            "passed as y.ravel(), one-hot rows as y.argmax(axis=1)."
        )
    is_pandas = type(values).__module__.partition(".")[0] == "pandas"
    return values if is_pandas else in_native_order(np.asarray(values))


def _plain_values(distinct: Any) -> list[Hashable]:
    """List the distinct labels as Python's own values, whole floats as integers."""
    return [_whole(v.item() if isinstance(v, np.generic) else v) for v in distinct]


def _is_unlabelled(name: Hashable, marker: Hashable) -> bool:
    if isinstance(name, str) and not name.strip():
        return True
    if not isinstance(marker, Real | str):  # None or NA: those are missing anyway
        return False
    if isinstance(name, str):  # NumPy makes text of a list with text and -1 in it
        return name.strip() == str(_whole(marker))
    # In Python False == 0 and True == 1; a marker 0 or 1 must not swallow a class of booleans.
    return isinstance(name, bool) == isinstance(marker, bool) and name == marker


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _sort_key(known: list[Hashable], names: list[Hashable]) -> Any:
    """Sort numbers as numbers and text as text; a mixture by its text."""
    comparable = all(isinstance(v, Real) for v in known) or all(isinstance(v, str) for v in known)
    return (lambda place: names[place]) if comparable else (lambda place: str(names[place]))
