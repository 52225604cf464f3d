"""How much memory and time a fit takes, told before it begins.

Both are sums of what the three steps hold and do, by the sizes of what they are given. They are
meant to say before an hour of work that it cannot end well, so memory errs upwards: of twelve peaks
that were measured, the estimate was 1.2 to 3.0 times (docs/results/reliability/load.jsonl).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from proptrain.errors import NotEnoughMemoryError
from proptrain.propagate.engine import is_large
from proptrain.system.memory import available_memory, in_words
from proptrain.trainings import most_epochs

if TYPE_CHECKING:
    from proptrain.classifier import GraphClassifier

_PER_SECOND = 2e9
"""Multiplications and additions that a core makes in a second, of our kinds of sums."""
_OF_ANY_EPOCH = 2e6
"""Those that calling all that an epoch consists of takes the time of, however small a graph is."""
_ON_CLUSTER = 2.0
"""How much longer a propagation on Ray takes than in memory on as many cores: 2.4 and 1.8 times
with 30 and 124 million entries (docs/results/large/ray_cost.jsonl)."""
_CLUSTER_EPOCH = 0.2
"""Seconds of the shortest epoch on a cluster, whose processes are looked at so often."""
_UNITS = (("h", 3600), ("min", 60), ("s", 1))


@dataclass(frozen=True)
class FitSizes:
    """What a fit is given.

    >>> sizes = FitSizes(n_nodes=1000, n_entries=8000, n_features=50, n_classes=3)
    >>> sizes.n_numbers, sizes.feature_bytes
    (50000, 200000)
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
    """Of an epoch, on one ordinary core; of the whole fit, if there are no epochs."""
    max_epochs: int
    may_repeat: bool = False
    """Whether it may fit five times more, to see whether labels alone tell more."""

    @property
    def seconds(self) -> float:
        """Of all epochs together, which are fewer if training stops early."""
        return max(1, self.max_epochs) * self.epoch_seconds

    @property
    def duration(self) -> str:
        """The time in words, without the memory."""
        if not self.max_epochs:
            return time_in_words(self.seconds)
        return (
            f"{time_in_words(self.epoch_seconds)} an epoch, of which there are "
            f"{self.max_epochs:,} at most: {time_in_words(self.seconds)}, or less if training "
            "stops early"
        ) + (", and up to five times as long again if labels alone seem to do" * self.may_repeat)

    def __str__(self) -> str:
        """Say it in a line."""
        return f"about {in_words(self.memory)} of memory and {self.duration}"


def estimate_fit(
    classifier: GraphClassifier, sizes: FitSizes, *, is_watched: bool = True
) -> Workload:
    """Return what a fit in memory takes, by its sizes and the classifier's parameters.

    ``is_watched`` says whether some labels are held back to decide when to stop; it matters to
    `PTAPlusClassifier`, whose rounds are short without. Seconds are those of the epochs:
    seconds = max_epochs × operations of an epoch / (2 · 10⁹).
    Without stopping nodes it may fit five times more before it falls back on labels: the seconds
    of these fits are not counted, but the words tell of them.

    >>> from proptrain import PTAClassifier
    >>> sizes = FitSizes(n_nodes=2_400_000, n_entries=124_000_000, n_features=100, n_classes=47)
    >>> told = estimate_fit(PTAClassifier(), sizes)
    >>> print(told)  # doctest: +NORMALIZE_WHITESPACE
    about 17.2 GB of memory and 41 s an epoch, of which there are 2,000 at most: 23 h 3 min,
    or less if training stops early
    """
    settings = classifier.get_params(deep=False)
    seconds = _operations(settings, sizes) / _PER_SECOND
    may_repeat = bool(settings.get("fall_back")) and not is_watched
    n_epochs = most_epochs(settings, is_watched=is_watched)
    return Workload(_bytes(settings, sizes), seconds, n_epochs, may_repeat)


def on_cluster(told: Workload, n_cpus: int) -> Workload:
    """Return what a fit takes on a cluster with so many CPUs, if it takes that in memory.

    >>> on_cluster(Workload(memory=0, epoch_seconds=40.0, max_epochs=100), n_cpus=16).seconds
    500.0
    """
    shared = _ON_CLUSTER * told.epoch_seconds / n_cpus
    return replace(told, epoch_seconds=max(_CLUSTER_EPOCH, shared))


def check_memory(needed: int, what: str, advice: str, *, room: int | None = None) -> None:
    """Raise if something needs more memory than there is; advice says what to do instead.

    ``room`` is what there is, if not on this machine.
    """
    room = available_memory() if room is None else room
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
    needs_numbers = sizes.is_weighted or "architecture" in settings
    has_numbers = needs_numbers or not is_large(n, sizes.n_entries)
    graph = 60 * (sizes.n_entries + n) if has_numbers else 40 * n
    if settings.get("edge_dropout"):  # each step's own entries, kept for the way back
        graph += 12 * n_steps * (sizes.n_entries + n)
    # Features: ours, that of training, a checksum's; with dropout also coins and what they leave,
    # without it sparse ones transposed.
    way_back = 2 if settings.get("dropout", 0.0) else int(sizes.n_stored is not None)
    copies = 3 + way_back if trains else 2
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
    nodes = n * (600 + 60 * n_classes)
    return _OF_ANY_EPOCH + layers + nodes + (0 if settings.get("fast") else spread)


def time_in_words(seconds: float) -> str:
    """Return a span of time in two units at most.

    >>> [time_in_words(seconds) for seconds in (0.04, 2.6, 59.6, 83, 7260)]
    ['40 ms', '3 s', '1 min', '1 min 23 s', '2 h 1 min']
    """
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    for (unit, length), (part, size) in pairwise(_UNITS):
        whole, rest = divmod(size * round(seconds / size), length)  # rounded first: never 60 s
        if whole:
            return f"{whole:,} {unit}" + (f" {rest // size} {part}" if rest else "")
    return f"{seconds:.0f} s"
