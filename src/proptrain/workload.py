"""How much memory and time a fit takes, told before it begins.

Both are sums of what the three steps hold and do, by the sizes of what they are given. They are
meant to say before an hour of work that it cannot end well, so memory errs upwards: three peaks
were measured, 0.67 to 0.80 of the estimate (docs/results/reliability/load.jsonl).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proptrain.errors import NotEnoughMemoryError
from proptrain.memory import available_memory, in_words
from proptrain.propagate.engine import MANY_ENTRIES
from proptrain.trainings import most_epochs

if TYPE_CHECKING:
    from proptrain.classifier import GraphClassifier

_PER_SECOND = 1e9
"""Multiplications and additions that a core makes in a second, of our kinds of sums."""


@dataclass(frozen=True)
class FitSizes:
    """What a fit is given.

    >>> FitSizes(n_nodes=1000, n_entries=8000, n_features=50, n_classes=3).feature_bytes
    200000
    """

    n_nodes: int
    n_entries: int
    """Of the adjacency matrix: two for each edge."""
    n_features: int
    n_classes: int
    n_stored: int | None = None
    """Numbers stored in sparse features; None if they are dense."""
    is_weighted: bool = False
    """Whether edges have weights other than 1."""

    @property
    def n_numbers(self) -> int:
        """Numbers stored in the features."""
        return self.n_nodes * self.n_features if self.n_stored is None else self.n_stored

    @property
    def feature_bytes(self) -> int:
        """Of the features once, with the places of sparse ones."""
        return 4 * self.n_numbers if self.n_stored is None else 8 * self.n_stored + 8 * self.n_nodes


@dataclass(frozen=True)
class Workload:
    """What a fit takes."""

    memory: int
    """Bytes at the peak, beside what the process and its inputs have already."""
    epoch_seconds: float
    """Of an epoch, on one ordinary core."""
    max_epochs: int

    def __str__(self) -> str:
        """Say it in a line."""
        return (
            f"about {in_words(self.memory)} of memory and {_in_time(self.epoch_seconds)} an epoch, "
            f"of which there are {self.max_epochs:,} at most"
        )


def estimate_fit(classifier: GraphClassifier, sizes: FitSizes) -> Workload:
    """Return what a fit in memory takes, by its sizes and the classifier's parameters.

    >>> from proptrain import PTAClassifier
    >>> sizes = FitSizes(n_nodes=2_400_000, n_entries=124_000_000, n_features=100, n_classes=47)
    >>> print(estimate_fit(PTAClassifier(), sizes))
    about 17.2 GB of memory and 1 min 23 s an epoch, of which there are 2,000 at most
    """
    settings = classifier.get_params(deep=False)
    seconds = _operations(settings, sizes) / _PER_SECOND
    return Workload(_bytes(settings, sizes), seconds, most_epochs(settings))


def check_memory(needed: int, what: str, advice: str) -> None:
    """Raise if something needs more memory than there is; advice says what to do instead."""
    room = available_memory()
    if room is not None and needed > room:
        raise NotEnoughMemoryError(
            f"{what} needs about {in_words(needed)} of memory, and {in_words(room)} are available. "
            f"{advice}"
        )


def _bytes(settings: dict[str, object], sizes: FitSizes) -> int:
    """Return the memory of the three steps at their peak, in bytes."""
    n, trains = sizes.n_nodes, "max_epochs" in settings
    n_steps = _steps(settings)
    # Graph: with a number for each entry, made in float64 and scaled from both sides.
    has_numbers = sizes.is_weighted or sizes.n_entries < MANY_ENTRIES or "architecture" in settings
    graph = 60 * (sizes.n_entries + n) if has_numbers else 40 * n
    if settings.get("edge_dropout"):  # each step's own entries, kept for the way back
        graph += 12 * n_steps * (sizes.n_entries + n)
    # Features: ours, that of training, a checksum's; with dropout also coins and what they leave.
    copies = (5 if settings.get("dropout", 0.0) else 3) if trains else 2
    features = copies * sizes.feature_bytes
    if settings.get("scale_features"):  # other numbers in the same places
        features += 4 * sizes.n_numbers
    # Nodes × classes: labels, soft labels, states of a propagation, scores, gradients, answers.
    of_classes = (34 if "n_rounds" in settings else 26) if trains else 12
    if settings.get("architecture") == "DAGNN":  # all powers, with their gradients
        of_classes += 3 * n_steps
    # Nodes × hidden units: before and after, with their gradients.
    of_hidden = 4 * int(str(settings.get("n_hidden", 0)))
    return features + 4 * n * (of_classes * sizes.n_classes + of_hidden) + graph


def _steps(settings: dict[str, object]) -> int:
    return 10 if settings.get("steps") is None else int(str(settings["steps"]))


def _operations(settings: dict[str, object], sizes: FitSizes) -> float:
    """Return the multiplications and additions of an epoch; of all steps, if there are none."""
    n, n_classes = sizes.n_nodes, sizes.n_classes
    spread = _steps(settings) * (sizes.n_entries + 3 * n) * n_classes
    if "max_epochs" not in settings:
        return spread
    n_hidden = int(str(settings.get("n_hidden", 0)))
    # The layers' products are eight at a time; a node costs something however little it has.
    layers = (4 * sizes.n_numbers * n_hidden + 6 * n * n_hidden * n_classes) / 8
    return layers + n * (600 + 60 * n_classes) + (0 if settings.get("fast") else spread)


def _in_time(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
