"""Parameters, class labels and node ids of a model as JSON holds them, and back again."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from proptrain.data.names import check_lengths, check_text
from proptrain.errors import FileFormatError, InvalidInputError, ProptrainError
from proptrain.propagate import schemes

_SCHEMES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (schemes.PPR, schemes.Power, schemes.Mean, schemes.Heat, schemes.Exact)
}


def parameters_to_json(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return a classifier's parameters as JSON holds them."""
    written: dict[str, Any] = {}
    for name, value in parameters.items():
        if name == "scheme" and value is not None:
            if type(value) not in _SCHEMES.values():
                raise InvalidInputError(
                    f"Only proptrain's own schemes can be saved ({', '.join(_SCHEMES)}), got "
                    f"{type(value).__name__}."
                )
            numbers = {k: _plain(f"scheme.{k}", v) for k, v in asdict(value).items()}
            written[name] = {"name": type(value).__name__, **numbers}
        elif name == "weighting" and not isinstance(value, str):
            written[name] = repr(value)  # prediction has no use for it; only refitting would
        elif name == "device":
            written[name] = value if isinstance(value, str) else str(torch.device(value))
        elif name == "random_state" and not isinstance(value, int | np.integer | None):
            written[name] = None
        else:
            written[name] = _plain(name, value)
    return written


def _plain(name: str, value: Any) -> str | int | float | None:
    """Return a parameter as JSON holds it and gives it back; a tuple, say, would become a list."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or isinstance(plain, str | int | float):
        return plain
    raise InvalidInputError(
        f"To be saved, the parameter {name} must be text, a number, a boolean or None, got "
        f"{value!r} ({type(value).__name__}). Set another with set_params(...) first."
    )


def parameters_from_json(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return what `parameters_to_json` was given."""
    scheme = parameters.get("scheme")
    if scheme is None:
        return parameters
    fields = dict(scheme)
    return {**parameters, "scheme": _SCHEMES[fields.pop("name")](**fields)}


def array_to_json(array: NDArray[Any]) -> dict[str, Any]:
    """Return class labels or node ids as JSON holds them."""
    values = _checked_values(array.tolist())
    return {"dtype": array.dtype.str if array.dtype != object else "object", "values": values}


def array_from_json(written: dict[str, Any]) -> NDArray[Any]:
    """Return what `array_to_json` was given."""
    dtype = np.dtype(written["dtype"])
    if dtype.kind not in "biufUO":
        raise FileFormatError(f"Class labels and node ids must be text or numbers, got {dtype}.")
    # Text gets the length that it needs: a claimed one could fill the memory.
    return np.array(_checked_values(written["values"]), dtype=str if dtype.kind == "U" else dtype)


def ids_to_json(ids: NDArray[Any]) -> dict[str, Any]:
    """Return node ids as JSON holds them, if each is that of one node."""
    written = array_to_json(ids)
    _check_distinct(written["values"])
    return written


def ids_from_json(written: dict[str, Any]) -> NDArray[Any]:
    """Return what `ids_to_json` was given."""
    ids = array_from_json(written)
    # As they are now: NumPy drops a 0 at the end of text, and rounds numbers.
    _check_distinct(ids.tolist())
    return ids


def table_to_json(table: Any) -> dict[str, Any] | None:
    """Return how tables were read, if there were any, as `table_from_json` will take it."""
    advice = 'Give None, or the like of {"id": "id", "label": "topic", "features": ["year"]}.'
    return _checked_table(table, InvalidInputError, advice)


def table_from_json(table: Any) -> dict[str, Any] | None:
    """Return how tables were read, if there were any: names of the id, label and feature columns.

    >>> table_from_json({"id": "id", "label": "topic", "features": ["size", "words"]})["id"]
    'id'
    """
    return _checked_table(table, FileFormatError, "Fit and save the model again.")


def _checked_table(table: Any, error: type[ProptrainError], advice: str) -> dict[str, Any] | None:
    if table is None:
        return None
    if not isinstance(table, dict):
        raise error(f"table must be a JSON object or null, got {table!r}. {advice}")
    names = table.get("features", [])
    are_texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    are_texts &= isinstance(table.get("id"), str) and isinstance(table.get("label"), str | None)
    if not are_texts:
        raise error(
            "table must name columns of a node table, id and label by a text and features by a "
            f"list of texts, but does not. {advice}"
        )
    return table


def _check_distinct(values: list[Any]) -> None:
    if len(set(values)) < len(values):
        first = next(value for value, count in Counter(values).items() if count > 1)
        raise InvalidInputError(
            f"Node ids must differ, but {first!r} is that of several nodes. Give each node its own."
        )


def _checked_values(values: Any) -> list[Any]:
    kinds = {type(value) for value in values}
    if not kinds <= {str, int, float, bool}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InvalidInputError(
            f"Class labels and node ids must be text or numbers to be saved, got {names}."
        )
    check_lengths(values, "Class labels and node ids")
    check_text(values, "Class labels and node ids")
    return list(values)
