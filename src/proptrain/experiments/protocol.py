"""The paper's protocol: one run for a split and an initialisation, and many of them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_type_hints

import numpy as np

from proptrain.data.catalog import CATALOG
from proptrain.data.dataset import Dataset
from proptrain.data.labels import check_classes
from proptrain.data.splits import TEST_SEEDS, VALIDATION_SEEDS, Split, seeds_for, split_nodes
from proptrain.errors import InvalidInputError, LabelError
from proptrain.experiments.versions import code_digest, cpu_name

if TYPE_CHECKING:  # the methods bring torch along, which reading results does not need
    from proptrain.experiments.methods import Method

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """What one run gave; a line of the raw results."""

    dataset: str
    method: str
    split_seed: int
    init_seed: int
    accuracy: float
    stop_accuracy: float
    epochs: int
    best_epoch: int
    seconds: float
    experiment: str = ""
    """The experiment it was made for; empty for an evaluation."""
    noise: float | None = None
    """The rate of wrong edges or labels, where an experiment varies it."""
    labels_per_class: int | None = None
    """Training labels of each class, where they are not the paper's 20."""
    labels_alone: bool = False
    """Whether no stopping nodes were given beside the training labels."""
    noise_kind: str | None = None
    """What the noise is in; see `proptrain.experiments.specs.NoiseKind`."""
    steps: int = 10
    """Steps of propagation."""
    alpha: float | None = None
    """Weight of the restart, where it is not the data set's own."""
    timed: bool = False
    """Whether it had the machine for itself, so that its time can be compared."""
    validation: bool = False
    """Whether it used the seeds and nodes for tuning, and left the test nodes alone."""
    code: str = ""
    """The state of the code and packages that made it, see `versions.code_digest`."""
    cpu: str = ""
    """The processor that it was made on."""

    @property
    def point(self) -> float | None:
        """Where it stands on the axis of what an experiment varies; None if nothing is varied."""
        return self.noise if self.labels_per_class is None else self.labels_per_class

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a dictionary, without those that have their default."""
        content = asdict(self)
        return {f.name: content[f.name] for f in fields(self) if content[f.name] != f.default}

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """Return the run that `to_json` wrote, or say what about it cannot be."""
        if not isinstance(content, dict):
            raise InvalidInputError(f"A run must be a JSON object, got {content!r}.")
        known = {field.name: field for field in fields(cls)}
        needed = {name for name, field in known.items() if field.default is MISSING}
        if wrong := (content.keys() - known.keys()) | (needed - content.keys()):
            raise InvalidInputError(
                f"A run must have {', '.join(sorted(needed))} and may have "
                f"{', '.join(sorted(known.keys() - needed))}; unknown or missing here: "
                f"{', '.join(sorted(wrong))}."
            )
        types = _types()
        for name, value in content.items():
            if not isinstance(value, types[name]):
                raise InvalidInputError(
                    f"A run's {name} must be {known[name].type}, got {value!r}."
                )
        for name, most in (("accuracy", 1), ("stop_accuracy", 1), ("seconds", 1_000_000_000)):
            if not 0 <= content[name] <= most:  # nor NaN
                raise InvalidInputError(
                    f"A run's {name} must lie between 0 and {most:,}, got {content[name]!r}."
                )
        return cls(**content)


@cache
def _types() -> dict[str, Any]:
    return get_type_hints(Run)  # evaluates source code, which takes longer than to read a run


@dataclass(frozen=True)
class Protocol:
    """How nodes are split, and with which restart weight labels and predictions spread."""

    n_known: int = 1500
    per_class: int = 20
    n_stop: int = 500
    alpha: float = 0.1
    for_tuning: bool = False

    def split(self, dataset: Dataset, seed: int) -> Split:
        """Return the split of one seed."""
        return split_nodes(
            dataset.labels,
            seed,
            n_known=self.n_known,
            per_class=self.per_class,
            n_stop=self.n_stop,
            for_tuning=self.for_tuning,
            class_names=dataset.class_names,
        )

    def seeds(self, n_runs: int) -> list[tuple[int, int]]:
        """Return (split seed, initialisation) of each run: the test seeds, or those for tuning."""
        return seeds_for(n_runs, VALIDATION_SEEDS if self.for_tuning else TEST_SEEDS)


def protocol_for(
    dataset: Dataset, *, per_class: int = 20, alpha: float = 0.1, for_tuning: bool = False
) -> Protocol:
    """Return the protocol scaled to a graph of one's own: half of its labels known, at most 1500.

    Of the known nodes that do not train, at most 500 and at most half decide when to stop.
    """
    assert dataset.class_names is not None
    check_classes(dataset.class_names)
    counts = np.bincount(dataset.labels[dataset.labels >= 0], minlength=dataset.n_classes)
    smallest = int(counts.argmin())
    if counts[smallest] < 2:
        raise LabelError(
            f"Class {dataset.class_names[smallest]!r} has {counts[smallest]} labelled nodes; at "
            "least two are needed, one to train on and one to measure. Merge it with another "
            "class, or leave its labels empty."
        )
    n_labelled = int(counts.sum())
    n_known = min(Protocol.n_known, n_labelled // 2)
    n_stop = min(500, (n_known - per_class * dataset.n_classes) // 2)
    if n_stop < 1:
        most = (n_known - 2) // dataset.n_classes  # two are left: one to stop by, one to tune on
        why = (
            f"half of the {n_labelled:,} labelled nodes are kept for measuring, which leaves "
            f"{n_known:,}"
            if n_known < Protocol.n_known
            else f"the labels of at most {n_known:,} nodes are known, the others are for measuring"
        )
        raise LabelError(
            f"{per_class} training nodes for each of {dataset.n_classes} classes are too many: "
            f"{why}. " + (f"Ask for at most {most} per class." if most > 0 else "Label more nodes.")
        )
    return Protocol(n_known, per_class, n_stop, alpha, for_tuning)


def run_once(
    dataset: Dataset,
    method: Method,
    protocol: Protocol,
    split_seed: int,
    init_seed: int,
    *,
    steps: int = 10,
    noise_kind: str | None = None,
    noise: float | None = None,
    labels_alone: bool = False,
) -> tuple[Run, Any]:
    """Train and measure one method on one split; returns the result and the fitted classifier.

    The classifier is given the labels of training and stopping nodes only, so test labels cannot
    leak, and the stopping nodes by name, so their labels can only stop; with ``labels_alone`` it is
    given the training labels and nothing else, by a user who has no more. Noise of some kind and
    rate is drawn from the split's seed: every method meets the same wrong edges or training labels.
    What is measured are the true labels, and so is what training stops by, unless the kind of noise
    says otherwise.
    """
    code = code_digest()  # before a long run, during which somebody may edit a file
    split = protocol.split(dataset, split_seed)
    given = _with_noise(dataset, split, noise_kind, noise, split_seed)
    labels = np.full(dataset.n_nodes, -1)
    seen = split.train if labels_alone else np.concatenate([split.train, split.stop])
    labels[seen] = given.labels[seen]
    classifier = method.make(alpha=protocol.alpha, steps=steps, seed=init_seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Unreached nodes are part of what is measured here, not news to a user.
        warnings.filterwarnings("ignore", message="No label reaches")
        graph = given.graph if method.uses_graph else None
        stopping = None if labels_alone else split.stop
        classifier.fit(dataset.features, labels, graph=graph, stopping=stopping)
    seconds = time.perf_counter() - start
    right = classifier.transduction_ == dataset.labels
    run = Run(
        dataset=dataset.name,
        method=method.name,
        split_seed=split_seed,
        init_seed=init_seed,
        accuracy=float(right[split.test].mean()),
        stop_accuracy=float(right[split.stop].mean()),
        epochs=getattr(classifier, "n_iter_", 0),
        best_epoch=getattr(classifier, "best_epoch_", -1),
        seconds=round(seconds, 3),
        noise=noise,
        noise_kind=noise_kind,
        labels_per_class=_unless(Protocol.per_class, protocol.per_class),
        labels_alone=labels_alone,
        steps=steps,
        alpha=_unless(_own_alpha(dataset), protocol.alpha),
        validation=protocol.for_tuning,
        code=code,
        cpu=cpu_name(),
    )
    return run, classifier


def _unless(usual: T, given: T) -> T | None:
    """Return what was given, or None if it is the usual."""
    return None if given == usual else given


def _own_alpha(dataset: Dataset) -> float:
    entry = CATALOG.get(dataset.name)
    return Protocol.alpha if entry is None else entry.alpha


def _with_noise(
    dataset: Dataset, split: Split, kind: str | None, rate: float | None, seed: int
) -> Dataset:
    """Return the data set with that rate of wrong edges, or of wrong labels."""
    from proptrain.data.noise import LabelNoise, with_label_noise, with_structure_noise

    match kind, rate:
        case None, None:
            return dataset
        case "structure", float():
            graph = with_structure_noise(dataset.graph, dataset.labels, rate, seed)
            return replace(dataset, graph=graph)
        case "label" | "pair" | "label-and-stop" | "pair-and-stop", float():
            drawn = {seed: split.train}
            if kind.endswith("stop"):  # by another seed: the training labels stay as without
                drawn[(seed + 1) % 2**32] = split.stop
            labels = dataset.labels
            to: LabelNoise = "pair" if kind.startswith("pair") else "uniform"
            for own, nodes in drawn.items():
                labels = with_label_noise(labels, nodes, dataset.n_classes, rate, own, kind=to)
            return replace(dataset, labels=labels)
    raise InvalidInputError(
        'Noise must have a kind, "structure", "label" or "pair", the last two with "-and-stop" or '
        "without, and a rate as a floating-point number, or neither of the two; "
        f"got {kind!r} and {rate!r}."
    )


def list_runs(
    methods: list[Method], protocol: Protocol, n_runs: int
) -> list[tuple[Method, int, int]]:
    """List the method, split seed and initialisation of each run, the methods of a split together.

    What does not train has no initialisation: a second run on a split would be a copy of the
    first, and copies would narrow its interval.
    """
    return [
        (method, split_seed, init_seed)
        for split_seed, init_seed in protocol.seeds(n_runs)
        for method in methods
        if method.trains or init_seed == 0
    ]


def run_all(
    dataset: Dataset, methods: list[Method], protocol: Protocol, n_runs: int
) -> Iterator[tuple[Run, Any]]:
    """Yield the result of every run of `list_runs` as it is done, with the fitted classifier."""
    for method, split_seed, init_seed in list_runs(methods, protocol, n_runs):
        yield run_once(dataset, method, protocol, split_seed, init_seed)
