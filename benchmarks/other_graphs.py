"""PTA+ on graphs that it was not made for: python -m benchmarks.other_graphs --out FILE.

Made-up graphs with unequal classes, with a graph or with features that say little, and tables
joined to their nearest neighbours; a few labels of each class or nodes drawn from all, right or
wrong, and none to stop by. Everyone has its defaults.
"""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn import datasets

from proptrain import (
    Graph,
    LabelPropagationClassifier,
    PTAClassifier,
    PTAPlusClassifier,
    cli,
    graph_from_edges,
    with_label_noise,
)
from proptrain.cli.console import progress, results
from proptrain.experiments.versions import code_digest
from proptrain.system.json_lines import open_lines

SEEDS = range(10, 15)
"""Others than those that settings were chosen with."""
WRONG = 0.3
METHODS: dict[str, Callable[[], Any]] = {
    "LP": LabelPropagationClassifier,
    "PTA": lambda: PTAClassifier(random_state=0, device="cpu"),
    "PTA+": lambda: PTAPlusClassifier(random_state=0, device="cpu"),
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Nodes(NamedTuple):
    """Features, classes and a graph."""

    features: Any
    classes: NDArray[np.int64]
    graph: Any


class Labels(NamedTuple):
    """So many of each class, or so many nodes drawn from all; a share of them wrong."""

    per_class: int = 0
    drawn: int = 0
    wrong: float = 0.0

    def __str__(self) -> str:
        """Tell it in a word or two."""
        many = f"{self.per_class} a class" if self.per_class else f"{self.drawn} drawn"
        return f"{many}, {self.wrong:.0%} wrong" if self.wrong else many


def blocks(
    sizes: list[int], inside: float, between: float, *, apart: float = 0.5, n_features: int = 30
) -> Callable[[np.random.RandomState], Nodes]:
    """Return a maker of graphs: edges are as likely as said, features lie around a class's centre.

    ``inside`` and ``between`` are the chances of an edge of two nodes of one class, and of two.
    """

    def make(random: np.random.RandomState) -> Nodes:
        classes = np.repeat(np.arange(len(sizes)), sizes)
        starts = np.cumsum([0, *sizes])
        ends = []
        for one in range(len(sizes)):
            for other in range(one, len(sizes)):
                n_pairs = sizes[one] * sizes[other] / (2 if one == other else 1)
                n_edges = random.poisson(n_pairs * (inside if one == other else between))
                left = random.randint(starts[one], starts[one + 1], n_edges)
                right = random.randint(starts[other], starts[other + 1], n_edges)
                ends.append(np.stack([left, right]))
        centres = apart * random.randn(len(sizes), n_features)
        features = centres[classes] + random.randn(len(classes), n_features)
        return Nodes(features, classes, _graph(np.concatenate(ends, axis=1), len(classes)))

    return make


def _graph(ends: NDArray[np.int64], n_nodes: int) -> Graph:
    # An edge that is drawn twice is one edge: summed up, it would have a weight of 2.
    return graph_from_edges(ends[:, ends[0] != ends[1]].T, n_nodes=n_nodes)


def table(load: Callable[[], Any]) -> Callable[[np.random.RandomState], Nodes]:
    """Return a maker that joins the rows of a table to their nearest neighbours."""

    def make(_: np.random.RandomState) -> Nodes:
        loaded = load()
        return Nodes(loaded.data, loaded.target, "knn")

    return make


EACH = (Labels(5), Labels(20), Labels(20, wrong=WRONG))
FEW = (Labels(5), Labels(drawn=30))
CASES = {
    "500, 120, 60, 40 nodes; the small ones' neighbours are of the large one": (
        blocks([500, 120, 60, 40], 0.03, 0.004),
        (*EACH, Labels(drawn=80)),
    ),
    "the same, neighbours of their own class": (
        blocks([500, 120, 60, 40], 0.05, 0.0008),
        (*EACH, Labels(drawn=80)),
    ),
    "5 classes of 150, half of the neighbours their own": (blocks([150] * 5, 0.04, 0.008), EACH),
    "4 classes of 200, features good, graph weak": (
        blocks([200] * 4, 0.02, 0.012, apart=0.7),
        EACH,
    ),
    "4 classes of 200, features weak, graph good": (
        blocks([200] * 4, 0.04, 0.006, apart=0.15),
        EACH,
    ),
    "4 classes of 200, four columns, weak, graph good": (
        blocks([200] * 4, 0.04, 0.006, apart=0.15, n_features=4),
        EACH,
    ),
    "digits, pixels of 0 to 16": (table(datasets.load_digits), EACH),
    "wine, as measured": (table(datasets.load_wine), FEW),
    "breast cancer, as measured": (table(datasets.load_breast_cancer), FEW),
    "iris": (table(datasets.load_iris), FEW),
}


def give(
    nodes: Nodes, labels: Labels, seed: int, random: np.random.RandomState
) -> NDArray[np.int64]:
    """Return the classes that are given (n,), -1 for the others; each class has one at least."""
    classes = nodes.classes
    members = [np.flatnonzero(classes == code) for code in range(classes.max() + 1)]
    known = np.concatenate(
        [random.choice(those, labels.per_class or 1, replace=False) for those in members]
    )
    if labels.drawn:
        others = np.setdiff1d(np.arange(len(classes)), known)
        more = random.choice(others, labels.drawn - len(known), replace=False)
        known = np.concatenate([known, more])
    given = np.full(len(classes), -1)
    noisy = with_label_noise(classes, np.sort(known), len(members), labels.wrong, seed)
    given[known] = noisy[known]
    return given


def measure(case: str, labels: Labels, seed: int) -> dict[str, float]:
    """Return each method's accuracy on the nodes that were given no label."""
    random = np.random.RandomState(seed)
    nodes = CASES[case][0](random)
    given = give(nodes, labels, seed, random)
    hidden = given < 0
    right = {}
    for name, make in METHODS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = make().fit(nodes.features, given, graph=nodes.graph).transduction_
        right[name] = float((told == nodes.classes)[hidden].mean())
    return right


def tasks() -> Iterator[tuple[str, Labels, int]]:
    """Yield all that is to be measured."""
    for case, (_, kinds) in CASES.items():
        for labels in kinds:
            for seed in SEEDS:
                yield case, labels, seed


def read(content: bytes) -> list[dict[str, Any]]:
    """Return the lines of a file of results that this state of the code made."""
    lines = map(json.loads, content.splitlines())
    return [line for line in lines if line.get("code") == code_digest()]


def to_markdown(done: list[dict[str, Any]]) -> str:
    """Return the table: the mean accuracy of each method in per cent."""
    found = defaultdict(list)
    for one in done:
        found[one["graph"], one["labels"]].append([one[name] for name in METHODS])
    head = [f"| graph | labels | {' | '.join(METHODS)} |", "|---|---|" + "---|" * len(METHODS)]
    body = [
        f"| {graph} | {labels} | {' | '.join(f'{100 * mean:.1f}' for mean in np.mean(rows, 0))} |"
        for (graph, labels), rows in found.items()
    ]
    means = np.mean([np.mean(rows, axis=0) for rows in found.values()], axis=0)
    last = f"| mean | | {' | '.join(f'{100 * mean:.1f}' for mean in means)} |"
    return "\n".join([*head, *body, last])


@app.command()
def main(
    out: Annotated[
        Path, typer.Option(help="File to add each result to; those of this code are kept.")
    ],
) -> None:
    """Compare LP, PTA and PTA+ on made-up graphs and joined tables, and print the means."""
    with open_lines(out, read, b'{"graph"') as (file, done):
        known = {(one["graph"], one["labels"], one["seed"]) for one in done}
        left = [task for task in tasks() if (task[0], str(task[1]), task[2]) not in known]
        with progress("graphs", len(left), quiet=False) as advance:
            for case, labels, seed in left:
                line = {"graph": case, "labels": str(labels), "seed": seed}
                told = measure(case, labels, seed)
                done.append({**line, **told, "code": code_digest()})
                file.add(done[-1])
                advance()
    results.file.write(to_markdown(done) + "\n")


if __name__ == "__main__":
    cli.main(app, "python -m benchmarks.other_graphs")
