"""Draw the pictures of the docs: python tools/make_figures.py --out docs/figures."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from proptrain import Dataset, PTAClassifier, Split, load_dataset, split_nodes
from proptrain.report.model_page import reliability_curves
from proptrain.report.neighbourhood import draw_svg, picture_of
from proptrain.report.parts import reliability_plot
from proptrain.report.plots import training_plot
from proptrain.report.svg import BLUE, ORANGE, WIDTH, inline_svg, position, standalone_svg, style

SEED = 0
FARTHEST = 6
"""Steps from the nearest label; hardly any node of Cora is farther from one."""


def main() -> None:
    """Write spread.svg, training.svg, neighbourhood.svg and reliability.svg."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=Path("docs/figures"))
    out = options.parse_args().out
    cora = load_dataset("cora")
    split = split_nodes(cora.labels, seed=SEED)
    clf = fitted(cora, split)
    node = explained_node(clf, cora)
    pictures = {
        "spread": standalone_svg(spread_plot(cora, split, clf)),
        "training": standalone_svg(training_plot(clf.history_, clf.best_epoch_)),
        "neighbourhood": draw_svg(picture_of(clf, clf.explain(node), lambda n: f"paper {n}")),
        "reliability": standalone_svg(test_reliability(cora, split, clf)),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures.items():
        (out / f"{name}.svg").write_text(svg, encoding="utf-8")


def fitted(cora: Dataset, split: Split) -> PTAClassifier:
    """Return PTA fitted to the training and stopping nodes of a split."""
    y = np.full(cora.n_nodes, None, dtype=object)
    shown = np.concatenate([split.train, split.stop])
    y[shown] = np.array(cora.class_names)[cora.labels[shown]]
    clf = PTAClassifier(random_state=SEED)
    return clf.fit(cora.features, y, graph=cora.graph, stopping=split.stop)


def test_reliability(cora: Dataset, split: Split, clf: PTAClassifier) -> str:
    """Draw whether probabilities are right, before and after calibration, on the test nodes."""
    truth = np.array(cora.class_names)[cora.labels[split.test]]
    codes = np.searchsorted(clf.classes_, truth)
    told = clf.predict_proba()[split.test]
    return reliability_plot(reliability_curves(told, codes, clf.find_temperature()))


def explained_node(clf: PTAClassifier, cora: Dataset) -> int:
    """Return a node with a few neighbours, on which the network alone errs and the sum does not."""
    degrees = np.diff(cora.graph.adjacency.indptr)
    alone = is_right(clf, clf.probabilities_, cora)
    together = is_right(clf, clf.label_distributions_, cora)
    suits = (clf.given_ < 0) & (degrees >= 4) & (degrees <= 6) & ~alone & together
    return int(np.flatnonzero(suits)[0])


def is_right(clf: PTAClassifier, told: NDArray[np.float32], cora: Dataset) -> NDArray[np.bool_]:
    """Return of which nodes the likeliest class (columns as in ``classes_``) is the true one."""
    truth = np.array(cora.class_names)[cora.labels]
    return np.asarray(clf.classes_[told.argmax(axis=1)] == truth)


def spread_plot(cora: Dataset, split: Split, clf: PTAClassifier) -> str:
    """Draw, by the steps to the nearest label, how much of a soft label arrives, and how right."""
    adjacency, arrived = cora.graph.adjacency, clf.soft_labels_.sum(axis=1)
    steps = dijkstra(adjacency, unweighted=True, indices=split.train, min_only=True)
    at = [steps == distance for distance in range(FARTHEST + 1)]
    mass = [float(arrived[there].mean()) for there in at]
    is_told = is_right(clf, clf.soft_labels_, cora)
    right = [float(is_told[there & (arrived > 0)].mean()) for there in at]
    with style():
        figure = Figure(figsize=(WIDTH / 72, 190 / 72))
        panels = [figure.add_axes(position(figure, left, 26, 180, 120)) for left in (36.0, 256.0)]
        panels[0].plot(mass, color=BLUE, marker="o", markersize=4)
        panels[0].set_yscale("log")
        panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panels[1].plot(100 * np.array(right), color=ORANGE, marker="s", markersize=4)
        panels[1].set_ylim(0, 103)
        titles = ("mass of the soft label, mean", "its likeliest class is right, %")
        for axes, title in zip(panels, titles, strict=True):
            axes.set_title(title, loc="left", fontsize="medium")
            axes.set_xlabel("steps to the nearest label")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        told = ", ".join(f"{m:.2g} and {100 * r:.0f} %" for m, r in zip(mass, right, strict=True))
        label = f"Mass and accuracy of soft labels, 0 to {FARTHEST} steps from a label: {told}."
        return inline_svg(figure, "spread", label)


if __name__ == "__main__":
    main()
