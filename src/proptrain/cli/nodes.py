"""Nodes as users name them: by the ids of their table, or by their numbers where they have none."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np

from proptrain.errors import InvalidInputError

if TYPE_CHECKING:
    from proptrain.insight.telling import NameOf
    from proptrain.saving.persistence import SavedModel


def naming(saved: SavedModel) -> NameOf:
    """Return the function that names a node of a model."""
    if saved.node_ids is None:
        return int
    ids = saved.node_ids

    def name_of(node: int) -> Any:
        return ids[node].item() if isinstance(ids[node], np.generic) else ids[node]

    return name_of


def find_node(saved: SavedModel, name: str) -> int:
    """Return the number of the node with this id, or say which ids are like it."""
    n_nodes = saved.estimator.graph_.n_nodes
    if saved.node_ids is None:
        if name.isdecimal() and int(name) < n_nodes:
            return int(name)
        raise InvalidInputError(
            f"The nodes of this model have no ids, so NODE must be a number from 0 to "
            f"{n_nodes - 1:,}, the node's row; got {name!r}."
        )
    ids = [str(one) for one in saved.node_ids.tolist()]
    if name in ids:
        return ids.index(name)
    close = difflib.get_close_matches(name, ids, n=3)
    guess = (
        f" Did you mean {', '.join(map(repr, close))}?" if close else f" The first is {ids[0]!r}."
    )
    raise InvalidInputError(
        f"NODE must be the id of one of the model's {n_nodes:,} nodes, got {name!r}.{guess}"
    )
