"""One frozen specification for each table and figure of the paper, and for those of ours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from proptrain.errors import unknown_name

DATASETS = ("citeseer", "cora_ml", "pubmed", "ms_academic")

_INGREDIENTS = (
    "PTA, fixed mass",
    "PTA, trust",
    "PTA, unclamped",
    "PTA, mass^0.5",
    "PTA, balance",
    "PTA, 3 networks",
    "PTA, 1 round",
    "PTA, 2 rounds",
    "PTA, 2 rounds, S_j",
    "PTA, last of 2 rounds",
    "PTA, scaled features",
    "PTA, sizes kept",
    "PTA, fall-back",
    "PTA, gamma at most 1",
    "PTA, gamma of 0.3",
    "PTA, dropout 0.5, features too",
)
"""PTA with something of PTA+ or of what was tried for it; methods of these names exist."""
_WITHOUT = (
    "PTA+, natural mass",
    "PTA+, no trust",
    "PTA+, no balance",
    "PTA+, 1 round",
    "PTA+, no limit of gamma",
)
"""PTA+ without something."""

Kind = Literal[
    "statistics",
    "characteristics",
    "accuracy",
    "differences",
    "epoch-time",
    "total-time",
    "curve",
    "box",
]


NoiseKind = Literal["structure", "label", "pair", "label-and-stop", "pair-and-stop"]
"""In what: the edges; the training labels, any wrong class or the next one; the stopping too."""


@dataclass(frozen=True)
class Experiment:
    """What one table or figure compares."""

    name: str
    title: str
    kind: Kind
    """How it is shown: as a table of accuracies, of differences to the first method or of times, as
    curves against noise, as boxes."""
    methods: tuple[str, ...] = ()
    n_runs: int = 100
    """Runs of every method on every data set, and at every rate of noise."""
    noise: NoiseKind | None = None
    rates: tuple[float | None, ...] = (None,)
    """The rates of noise; one None where there is none."""
    labels: tuple[int | None, ...] = (None,)
    """Training labels of each class; one None for as many as the paper has."""
    steps: int = 10
    """Steps of propagation."""
    alone: bool = False
    """Whether runs must not share the machine with each other, because they are timed."""
    validation: bool = False
    """Whether it settles a choice, and so must not look at the test seeds and nodes."""
    labels_alone: bool = False
    """Whether no stopping nodes are given beside the training labels: these are all there is."""
    beyond: bool = False
    """Whether it goes beyond the paper."""
    datasets: tuple[str, ...] = DATASETS

    @property
    def has_runs(self) -> bool:
        """Whether something must be trained for it."""
        return self.kind not in ("statistics", "characteristics")

    @property
    def points(self) -> tuple[float, ...]:
        """What its curves are drawn against: rates of noise, or labels per class."""
        return tuple(point for point in (*self.rates, *self.labels) if point is not None)

    @property
    def n_points(self) -> int:
        """How many there are; one where nothing is varied."""
        return max(len(self.points), 1)

    @property
    def axis(self) -> str:
        """What the points are.

        >>> EXPERIMENTS["label-noise"].axis
        'wrong labels'
        """
        if self.noise is None:
            return "labels per class"
        return "edges that join two classes" if self.noise == "structure" else "wrong labels"

    def tell(self, point: float) -> str:
        """Write a point as on the axis.

        >>> EXPERIMENTS["label-noise"].tell(0.3)
        '30 %'
        """
        return f"{point:g}" if self.noise is None else f"{100 * point:g} %"

    @property
    def heading(self) -> str:
        """The title with the paper's number, where the paper has one.

        >>> EXPERIMENTS["table2"].heading
        'Table 2. Statistics of the data sets'
        """
        number = self.name.removeprefix("table")
        return f"Table {number}. {self.title}" if number.isdigit() else self.title

    def narrowed(
        self,
        *,
        datasets: Iterable[str] = (),
        methods: Iterable[str] = (),
        n_runs: int | None = None,
    ) -> Experiment:
        """Return the experiment with other data sets, methods or runs; nothing means its own."""
        chosen = replace(self, datasets=tuple(datasets) or self.datasets)
        if not self.has_runs:
            return chosen
        return replace(chosen, methods=tuple(methods) or self.methods, n_runs=n_runs or self.n_runs)


_STRUCTURE_RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_NARROW_RATES = (0.1, 0.15, 0.2, 0.25, 0.3)
_LABEL_RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
_FEW_LABELS = (1, 2, 5, 10, 20)
_COMPARED = ("LP", "APPNP", "PTA", "PTA+")
_QUICK = ("citeseer", "cora_ml", "pubmed")
"""Where what nobody has asked for is measured: on the fourth each would take hours."""


def _wrong_labels(name: str, title: str, noise: NoiseKind) -> Experiment:
    return Experiment(
        name, title, "curve", _COMPARED, 10, noise=noise, rates=_LABEL_RATES, beyond=True
    )


def _ablation(name: str, title: str, methods: tuple[str, ...], **varied: Any) -> Experiment:
    title = f"{title}: validation seeds and nodes only"
    return Experiment(
        name, title, "differences", methods, 20, validation=True, beyond=True, **varied
    )


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("table2", "Statistics of the data sets", "statistics"),
        Experiment(
            "table3",
            "Characteristics of APPNP and its variants",
            "characteristics",
            ("MLP", "APPNP-noa-nof", "PTS", "APPNP-noe", "APPNP"),
        ),
        Experiment(
            "table4",
            "Performance of APPNP and its variants",
            "accuracy",
            ("MLP", "APPNP-noa-nof", "PTS", "APPNP-noe", "APPNP"),
        ),
        Experiment(
            "table5",
            "Accuracy of PTA and other methods",
            "accuracy",
            ("MLP", "GCN", "SGCN", "APPNP#", "DAGNN", "APPNP", "PTA"),
        ),
        Experiment(
            "table6", "Training time per epoch", "epoch-time", ("APPNP", "PTA"), 5, alone=True
        ),
        Experiment(
            "table7",
            "Total training time",
            "total-time",
            ("APPNP", "PTA", "PTA(F)"),
            5,
            alone=True,
        ),
        Experiment("table8", "Accuracy of PTA(F)", "accuracy", ("APPNP", "PTA(F)", "PTA")),
        Experiment(
            "structure-noise",
            "Robustness to structure noise",
            "curve",
            ("APPNP", "PTS", "GCN", "MLP"),
            10,
            noise="structure",
            rates=_STRUCTURE_RATES,
            steps=2,
        ),
        Experiment(
            "initialisation",
            "Accuracy distributions over splits and initialisations",
            "box",
            ("APPNP", "PTS", "PTD", "PTA"),
        ),
        Experiment(
            "label-noise",
            "Robustness to label noise",
            "curve",
            ("PTA", "PTS", "APPNP"),
            10,
            noise="label",
            rates=_LABEL_RATES,
        ),
        Experiment(
            "structure-noise-pta",
            "Robustness of PTA to structure noise",
            "curve",
            ("PTA", "APPNP", "PTS"),
            10,
            noise="structure",
            rates=_NARROW_RATES,
        ),
        Experiment(
            "systems",
            "Systems that the paper's tables leave out",
            "accuracy",
            ("LP", "C&S", "PTD"),
            20,
        ),
        Experiment(
            "readings",
            "How what the paper leaves open was settled: validation seeds and nodes only",
            "differences",
            (
                "PTS",
                "PTS lr 0.01",
                "APPNP-noa-nof",
                "noa-nof 1 hop",
                "noa-nof 3 hops",
                "noa-nof 4 hops",
                "noa-nof 5 hops",
                "noa-nof 2 hops lr 0.01",
            ),
            10,
            validation=True,
        ),
        Experiment(
            "noe-stopping",
            "What the paper leaves open of APPNP-noe: validation seeds and nodes only",
            "differences",
            ("APPNP-noe", "noe stopped by ensemble", "noe with biases"),
            20,
            validation=True,
            datasets=_QUICK,
        ),
        Experiment("plus", "PTA+ beside PTA", "accuracy", ("PTA", "PTA+"), beyond=True),
        Experiment(
            "few-labels", "Few labels", "curve", _COMPARED, 20, labels=_FEW_LABELS, beyond=True
        ),
        Experiment(
            "labels-alone",
            "Few labels, and no others to stop by",
            "curve",
            _COMPARED,
            10,
            labels=_FEW_LABELS,
            labels_alone=True,
            beyond=True,
            datasets=_QUICK,
        ),
        _wrong_labels("wrong-labels", "Wrong labels of any other class", "label"),
        _wrong_labels("wrong-labels-pair", "Wrong labels of the next class", "pair"),
        _wrong_labels(
            "wrong-stopping",
            "Wrong labels of any other class, also of the stopping nodes",
            "label-and-stop",
        ),
        _wrong_labels(
            "wrong-stopping-pair",
            "Wrong labels of the next class, also of the stopping nodes",
            "pair-and-stop",
        ),
        _ablation(
            "ablation",
            "What each ingredient of PTA+ brings",
            ("PTA", *_INGREDIENTS, "PTA+", *_WITHOUT),
        ),
        _ablation(
            "ablation-few",
            "What the ingredients of PTA+ bring with two labels per class",
            ("PTA", "PTA, fixed mass", "PTA, balance", "PTA, 2 rounds", "PTA+", *_WITHOUT),
            labels=(2,),
            datasets=_QUICK,
        ),
        _ablation(
            "ablation-wrong",
            "What the ingredients of PTA+ bring with 30 % of the labels wrong",
            ("PTA", "PTA, trust", "PTA, 2 rounds", "PTA, 2 rounds, S_j", "PTA+", *_WITHOUT),
            noise="label",
            rates=(0.3,),
            datasets=_QUICK,
        ),
    )
}


GROUPS = {
    name: tuple(one for one in EXPERIMENTS.values() if one.beyond == beyond)
    for name, beyond in (("all", False), ("beyond", True))
}
"""Those that one command runs together."""


def find_experiments(name: str) -> list[Experiment]:
    """Return the experiment of this name, or all of a group."""
    if name in GROUPS:
        return list(GROUPS[name])
    if name not in EXPERIMENTS:
        raise unknown_name("The experiment", name, [*EXPERIMENTS, *GROUPS])
    return [EXPERIMENTS[name]]
