"""proptrain predict for a model that was fitted from disk: a part of the table at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from proptrain.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

    from proptrain.saving.disk_model import DiskModel


def tables_from_disk(
    folder: Path, nodes: Path | None, edges: Path | None, *, calibrated: bool
) -> Iterator[pd.DataFrame]:
    """Return the tables of all nodes, one below another, or that of new ones by their features."""
    from proptrain.cli.predict import new_nodes
    from proptrain.saving.disk_model import load_disk_model

    if calibrated:
        raise InvalidInputError(
            "A model that was fitted from disk cannot be calibrated: leave --calibrated out, or "
            "fit with --engine local."
        )
    if edges is not None:
        raise InvalidInputError(
            "A model that was fitted from disk has no graph in it, so it tells new nodes from "
            "their features: leave --edges out, or fit with --engine local."
        )
    model = load_disk_model(folder)
    return _tables(model) if nodes is None else iter([new_nodes(model.as_saved(), nodes, None, {})])


def _tables(model: DiskModel) -> Iterator[pd.DataFrame]:
    from proptrain.cli.predict import table_of

    for rows in model.parts():
        shares, given = model.predictions[rows].astype(np.float64), model.given[rows]
        codes = np.where(given >= 0, given, shares.argmax(axis=1))
        told = (model.ids(rows), codes, given >= 0, model.reached[rows], shares)
        yield table_of(model.classes, *told)
