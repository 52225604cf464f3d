"""How many trainings a fit is made of, and how many epochs they can take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UNWATCHED_EPOCHS = 150
"""Of a round without stopping nodes; the weights of the last two thirds of them are averaged."""


def count_trainings(settings: Mapping[str, Any]) -> int:
    """Return how many networks a classifier with these parameters trains, one after another.

    >>> count_trainings({"n_rounds": 2, "n_networks": 3}), count_trainings({"max_epochs": 2000})
    (9, 1)
    """
    return int((settings.get("n_rounds", 0) + 1) * settings.get("n_networks", 1))


def most_epochs(settings: Mapping[str, Any], *, is_watched: bool = True) -> int:
    """Return how many epochs they can take together; 0 where nothing is trained.

    Without stopping nodes, rounds are short; other trainings are as long as with them.

    >>> most_epochs({"max_epochs": 2000, "n_rounds": 2}, is_watched=False)
    450
    """
    own = int(settings.get("max_epochs", 0))
    has_short_rounds = "n_rounds" in settings and not is_watched
    return (min(own, UNWATCHED_EPOCHS) if has_short_rounds else own) * count_trainings(settings)
