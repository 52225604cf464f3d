"""Tables 2 and 3: what the data sets and the methods are, without a run."""

from __future__ import annotations

from collections.abc import Mapping

from proptrain.data.dataset import Dataset
from proptrain.experiments import paper
from proptrain.experiments.grid import MISSING, Table
from proptrain.experiments.methods import METHODS, Method
from proptrain.experiments.specs import Experiment
from proptrain.models.gnn import GNNClassifier


def statistics_table(experiment: Experiment, datasets: Mapping[str, Dataset]) -> Table:
    """Return the sizes of the data sets; those that are not given are not measured."""
    rows: list[tuple[str, ...]] = []
    for name in experiment.datasets:
        published = paper.STATISTICS.get(name)
        ours = _statistics(datasets[name]) if name in datasets else None
        rows += _side_by_side(name, _counts(published), _counts(ours), _sameness(published, ours))
    header = ("data set", "source", "nodes", "edges", "features", "classes", "verdict")
    notes = (
        "Ours are measured: the largest connected component, with undirected edges, each counted "
        "once, and no edge from a node to itself.",
    )
    return Table(experiment.heading, header, tuple(rows), notes, n_labels=2)


def _statistics(dataset: Dataset) -> tuple[int, int, int, int]:
    n_features = int(dataset.features.shape[1])
    return dataset.n_nodes, dataset.graph.n_edges, n_features, dataset.n_classes


def _counts(counts: tuple[int, ...] | None) -> tuple[str, ...]:
    return (MISSING,) * 4 if counts is None else tuple(f"{count:,}" for count in counts)


def characteristics_table(experiment: Experiment) -> Table:
    """Return which parts of APPNP each variant has."""
    rows: list[tuple[str, ...]] = []
    for name in experiment.methods:
        published = paper.CHARACTERISTICS.get(name)
        ours = characteristics(METHODS[name])
        rows += _side_by_side(name, _ticks(published), _ticks(ours), _sameness(published, ours))
    header = (
        "method",
        "source",
        "pseudo-labels",
        "graph weighting",
        "model weighting",
        "ensemble",
        "verdict",
    )
    notes = ("✓ yes, × no. Ours are read off the settings that the method's classifier has.",)
    return Table(experiment.heading, header, tuple(rows), notes, n_labels=2)


def characteristics(method: Method) -> tuple[bool, bool, bool, bool]:
    """Return what the method's classifier is made to do, in the order of Table 3's columns.

    Through the graph, a label teaches every node that it reaches, so it is their pseudo-label.
    Training through the graph weighs it by the network's confidence as well (Lemma 1).

    >>> characteristics(METHODS["PTS"])
    (True, True, False, True)
    """
    classifier = method.make(alpha=0.1, steps=10, seed=0)
    settings = classifier.get_params()
    if not method.uses_graph:
        return False, False, False, False
    weighs_by_graph = settings.get("equal_hops") is None
    through_graph = isinstance(classifier, GNNClassifier)
    weighs_by_model = through_graph or settings.get("weighting", "static") != "static"
    return True, weighs_by_graph, weighs_by_model, bool(settings.get("ensemble", True))


def _ticks(traits: tuple[bool, ...] | None) -> tuple[str, ...]:
    return (MISSING,) * 4 if traits is None else tuple("✓" if has else "×" for has in traits)


def _side_by_side(
    name: str, published: tuple[str, ...], ours: tuple[str, ...], sameness: str
) -> list[tuple[str, ...]]:
    return [(name, "paper", *published, ""), (name, "ours", *ours, sameness)]


def _sameness(published: object, ours: object) -> str:
    if published is None or ours is None:
        return MISSING
    return "same" if published == ours else "differs"
