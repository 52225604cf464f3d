"""proptrain demo: three methods on the graph that ships with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from proptrain.cli.console import JsonOption, print_json, print_table, progress, say

OutOption = Annotated[Path, typer.Option(help="HTML page to write; replaced if it exists.")]
RunsOption = Annotated[int, typer.Option(min=1, help="Number of splits.")]

DEMO_METHODS = ["LP", "MLP", "PTA"]


def demo(
    out: OutOption = Path("report.html"), runs: RunsOption = 5, json: JsonOption = False
) -> None:
    """Compare LP, MLP and PTA on Cora with 20 labels per class, and write a page about it.

    Cora (2,708 papers, 5,278 citations, 7 topics) is in the package: nothing is downloaded.

    Example: proptrain demo --runs 10 --out cora.html
    """
    from proptrain.data.catalog import load_dataset
    from proptrain.experiments.methods import find_methods
    from proptrain.experiments.protocol import Protocol, run_all
    from proptrain.files import check_output
    from proptrain.report.page import write_report

    check_output(out, overwrite=True)
    dataset = load_dataset("cora")
    methods, protocol = find_methods(DEMO_METHODS), Protocol()
    done, last = [], None
    with progress("cora", runs * len(methods), quiet=json) as step:
        for run, classifier in run_all(dataset, methods, protocol, runs):
            done.append(run)
            last = classifier if run.method == "PTA" else last
            step()
    split = protocol.split(dataset, done[-1].split_seed)
    results = _results(methods, done)
    report = _report(dataset, results, last, split, runs)
    write_report(report, out)
    if json:
        accuracies = {r.name: {"mean": r.mean, "low": r.low, "high": r.high} for r in results}
        print_json({"dataset": "cora", "runs": runs, "methods": accuracies, "report": str(out)})
        return
    rows = [
        [
            f"{r.name}: {r.description}",
            f"{100 * r.mean:.1f} ± {50 * (r.high - r.low):.1f}",
            f"{r.seconds:.2f} s",
        ]
        for r in results
    ]
    title = f"Cora, 20 labels per class: accuracy in percent over {runs} splits"
    print_table(title, ["method", "accuracy", "time"], rows)
    say(f"The page with curves and confusion matrix: {out}")


def _results(methods: list[Any], done: list[Any]) -> tuple[Any, ...]:
    from statistics import median

    from proptrain.experiments.statistics import bootstrap_mean
    from proptrain.report.page import MethodResult

    results = []
    for method in methods:
        own = [run for run in done if run.method == method.name]
        estimate = bootstrap_mean([run.accuracy for run in own])
        results.append(
            MethodResult(
                name=method.name,
                description=method.description,
                accuracies=tuple(run.accuracy for run in own),
                mean=estimate.mean,
                low=estimate.low,
                high=estimate.high,
                seconds=median(run.seconds for run in own),
            )
        )
    return tuple(results)


def _report(dataset: Any, results: tuple[Any, ...], classifier: Any, split: Any, runs: int) -> Any:
    from proptrain.report.page import Report

    return Report(
        title="What is each paper about?",
        subtitle=(
            f"{dataset.n_nodes:,} papers and the citations between them; the topic of 20 papers "
            f"per class is known. Accuracy on {len(split.test):,} papers whose topic was hidden, "
            f"over {runs} random choices of the known ones."
        ),
        facts=(
            ("Papers", f"{dataset.n_nodes:,}"),
            ("Citations", f"{dataset.graph.n_edges:,}"),
            ("Words", f"{dataset.features.shape[1]:,}"),
            ("Topics", f"{dataset.n_classes}"),
            ("Training labels", f"{len(split.train):,}"),
            ("Stopping labels", f"{len(split.stop):,}"),
            ("Test papers", f"{len(split.test):,}"),
        ),
        methods=results,
        history=classifier.history_,
        best_epoch=classifier.best_epoch_,
        confusion=_confusion(dataset, classifier, split),
        class_names=tuple(str(name) for name in dataset.class_names),
        command=f"proptrain demo --runs {runs}",
        versions=_versions(),
    )


def _confusion(dataset: Any, classifier: Any, split: Any) -> Any:
    matrix = np.zeros((dataset.n_classes, dataset.n_classes), dtype=np.int64)
    true, told = dataset.labels[split.test], classifier.transduction_[split.test]
    np.add.at(matrix, (true, told), 1)
    return matrix


def _versions() -> tuple[tuple[str, str], ...]:
    import platform
    from importlib.metadata import version

    packages = ("proptrain", "numpy", "scipy", "scikit-learn", "torch")
    return (("python", platform.python_version()), *((name, version(name)) for name in packages))
