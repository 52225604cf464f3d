"""What was measured, as Markdown tables for a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from benchmarks.audit.task import KINDS, RATES, Done
from proptrain.experiments.grid import Table, counted, markdown, plus_minus, signed
from proptrain.experiments.specs import DATASETS
from proptrain.experiments.statistics import bootstrap_mean

RANKINGS = {
    "audit": "audit",
    "cleanlab self_confidence": "cleanlab",
    "cleanlab self_confidence, adjusted": "adjusted",
    "cleanlab normalized_margin": "margin",
    "cleanlab normalized_margin, adjusted": "margin, adjusted",
    "cleanlab confidence_weighted_entropy": "entropy",
    "predict_proba": "predict_proba",
    "network": "network alone",
    "weight": "S_j",
    "others": "other labels",
}
"""By the name in the file: what stands above its column."""
_CLEANLAB = "cleanlab self_confidence"


def to_markdown(done: Sequence[Done]) -> str:
    """Return all tables that the tasks make, each under its title."""
    tables = [
        _means(done),
        _rankings("AUROC of finding the wrong labels", "auroc", done),
        _rankings("Precision among as many as are wrong, %", "precision", done),
        _suspects(done),
        _retraining(done),
        _calibration(done),
    ]
    codes = sorted({one.code for one in done})
    made = f"{counted(len(done), 'task')}, made by the code {', '.join(codes)}."
    parts = [f"### {markdown(t.title)}\n\n{t.to_markdown()}" for t in tables if t.rows]
    return "\n\n".join(["# Auditing labels: what was measured", *parts, made])


def _means(done: Sequence[Done]) -> Table:
    """Compare the audit with cleanlab on the mean over all noise of each data set."""
    rows = []
    for dataset, by_seed in _whole_splits(_noisy(done)).items():
        mine = [one for group in by_seed.values() for one in group]
        ours, theirs = (
            [fmean(one.measured[f"auroc {name}"] for one in group) for group in by_seed.values()]
            for name in ("audit", _CLEANLAB)
        )
        gain = bootstrap_mean([a - b for a, b in zip(ours, theirs, strict=True)])
        told = signed(gain.mean, 4)
        if len(by_seed) > 1:
            told += f" ({signed(gain.low, 4)} to {signed(gain.high, 4)})"
        best = max(fmean(_values(mine, f"auroc {name}")) for name in RANKINGS if "cleanlab" in name)
        means = [f"{mean:.4f}" for mean in (fmean(ours), fmean(theirs), best)]
        rows.append((dataset, *means, told, str(len(by_seed))))
    header = (
        *("data set", "audit", "cleanlab", "cleanlab at its best here"),
        *("gain over cleanlab, with its 95 % interval", "splits"),
    )
    return Table("Mean AUROC over all kinds and rates of noise", header, tuple(rows))


def _whole_splits(done: Iterable[Done]) -> dict[str, dict[int, list[Done]]]:
    """Return the tasks by data set and split, of splits with all kinds and rates of noise.

    Those that lack some would have a mean over easier ones.
    """
    whole: dict[str, dict[int, list[Done]]] = {}
    for dataset, mine in _by_dataset(done).items():
        for seed in dict.fromkeys(one.task.seed for one in mine):
            group = [one for one in mine if one.task.seed == seed]
            if len(group) == len(KINDS) * len(RATES):
                whole.setdefault(dataset, {})[seed] = group
    return whole


def _rankings(title: str, what: str, done: Sequence[Done]) -> Table:
    scale, digits = (100, 1) if what == "precision" else (1, 3)
    rows = []
    for (dataset, noise), mine in _by_noise(_noisy(done)).items():
        means = [scale * fmean(_values(mine, f"{what} {name}")) for name in RANKINGS]
        rows.append((dataset, noise, *(f"{mean:.{digits}f}" for mean in means), str(len(mine))))
    header = ("data set", "noise", *RANKINGS.values(), "splits")
    return Table(title, header, tuple(rows), n_labels=2)


def _suspects(done: Sequence[Done]) -> Table:
    names = ("suspects", "suspects wrong", "wrong suspected", "suggested right")
    rows = [
        (dataset, noise, *(f"{100 * fmean(_values(mine, name)):.1f}" for name in names))
        for (dataset, noise), mine in _by_noise(_noisy(done)).items()
    ]
    header = (
        *("data set", "noise", "labels that are suspects", "suspects that are wrong"),
        *("wrong ones that are suspects", "wrong ones with the right class suggested"),
    )
    return Table("Whom the audit suspects, %", header, tuple(rows), n_labels=2)


def _retraining(done: Sequence[Done]) -> Table:
    fixed = [one for one in done if "accuracy after, protocol" in one.measured]
    rows = []
    for (dataset, noise), mine in _by_noise(fixed).items():
        cells = []
        for setting in ("labels alone", "protocol"):
            before, after = (
                [100 * value for value in _values(mine, f"accuracy {when}, {setting}")]
                for when in ("before", "after")
            )
            gain = bootstrap_mean([b - a for a, b in zip(before, after, strict=True)])
            cells += [f"{fmean(before):.2f}", f"{fmean(after):.2f}"]
            cells += [plus_minus(gain.mean, gain.half_width)]
        rows.append((dataset, noise, *cells, str(len(mine))))
    header = (
        *("data set", "noise", "labels alone: as given", "fixed", "gain"),
        *("500 stopping nodes: as given", "fixed", "gain", "splits"),
    )
    return Table("Accuracy on the test nodes after fixing, %", header, tuple(rows), n_labels=2)


def _calibration(done: Sequence[Done]) -> Table:
    groups = _by_dataset(one for one in done if "temperature" in one.measured)
    names = ("error before", "error after", "accuracy before", "accuracy after")
    means: Mapping[str, list[float]] = {
        dataset: [100 * fmean(_values(mine, name)) for name in names]
        for dataset, mine in groups.items()
    }
    rows = [
        (
            dataset,
            *(f"{mean:.2f}" for mean in means[dataset]),
            f"{fmean(_values(mine, 'temperature')):.3f}",
            str(len(mine)),
        )
        for dataset, mine in groups.items()
    ]
    if len(rows) > 1:
        overall = [f"{fmean(column):.2f}" for column in zip(*means.values(), strict=True)]
        rows.append(("mean", *overall, "", ""))
    header = ("data set", *names, "temperature", "splits")
    return Table("Calibration error and accuracy, %", header, tuple(rows))


def _noisy(done: Iterable[Done]) -> list[Done]:
    return [one for one in done if one.task.kind != "none"]


def _values(done: Iterable[Done], name: str) -> list[float]:
    return [one.measured[name] for one in done]


def _by_dataset(done: Iterable[Done]) -> dict[str, list[Done]]:
    groups: dict[str, list[Done]] = {}
    for one in sorted(done, key=lambda one: _place(one.task.dataset)):
        groups.setdefault(one.task.dataset, []).append(one)
    return groups


def _by_noise(done: Iterable[Done]) -> dict[tuple[str, str], list[Done]]:
    """Group tasks by data set and noise, the paper's data sets in their order."""
    ordered = sorted(
        done, key=lambda one: (_place(one.task.dataset), one.task.kind == "pair", one.task.rate)
    )
    groups: dict[tuple[str, str], list[Done]] = {}
    for one in ordered:
        noise = f"{one.task.kind} {100 * one.task.rate:.0f} %"
        groups.setdefault((one.task.dataset, noise), []).append(one)
    return groups


def _place(dataset: str) -> tuple[int, str]:
    return (DATASETS.index(dataset), "") if dataset in DATASETS else (len(DATASETS), dataset)
