"""proptrain demo: three methods on the graph that ships with the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from proptrain.cli.console import (
    MOST_RUNS,
    JsonOption,
    OpenOption,
    in_percent,
    print_json,
    print_table,
    progress,
    say,
    show_page,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from proptrain.data.dataset import Dataset
    from proptrain.data.splits import Split
    from proptrain.estimator import PTAClassifier
    from proptrain.experiments.summary import Summary
    from proptrain.report.page import MethodResult, Report
    from proptrain.report.parts import Suspect

OutOption = Annotated[Path, typer.Option(help="HTML page to write; replaced if it exists.")]
RunsOption = Annotated[
    int,
    typer.Option(min=1, max=MOST_RUNS, help="Number of runs; 20 is one for each split."),
]

DEMO_METHODS = ["LP", "MLP", "PTA"]


def demo(
    out: OutOption = Path("report.html"),
    runs: RunsOption = 5,
    open_page: OpenOption = False,
    json: JsonOption = False,
) -> None:
    """Compare LP, MLP and PTA on Cora with 20 labels per class, and write a page about it.

    Cora (2,708 papers, 5,278 citations, 7 topics) is in the package: nothing is downloaded.

    Examples: proptrain demo --open; proptrain demo --runs 10 --out cora.html
    """
    from proptrain.data.catalog import load_dataset
    from proptrain.experiments.methods import METHODS, find_methods
    from proptrain.experiments.protocol import Protocol, list_runs, run_all
    from proptrain.experiments.summary import summarise
    from proptrain.report.page import write_report
    from proptrain.system.files import check_output

    check_output(out, overwrite=True)
    dataset = load_dataset("cora")
    methods, protocol = find_methods(DEMO_METHODS), Protocol()
    done, fitted = [], {}
    with progress("cora", len(list_runs(methods, protocol, runs)), quiet=json) as step:
        for run, classifier in run_all(dataset, methods, protocol, runs):
            done.append(run)
            fitted[run.method] = classifier
            step()
    split = protocol.split(dataset, done[-1].split_seed)
    summaries, n_splits = summarise(done), len({run.split_seed for run in done})
    suspects = _suspects(dataset, fitted["PTA"], quiet=json)
    command = f"proptrain demo --runs {runs}"
    report = _report(dataset, summaries, n_splits, fitted["PTA"], split, suspects, command)
    write_report(report, out)
    if open_page:
        show_page(out)
    if json:
        told = {s.method: s.to_json() for s in summaries}
        print_json({"dataset": "cora", "runs": runs, "methods": told, "report": str(out)})
        return
    rows = [
        [
            f"{s.method}: {METHODS[s.method].description}",
            in_percent(s.estimate, 1),
            f"{s.median_seconds:.2f} s",
        ]
        for s in summaries
    ]
    title = f"Cora, 20 labels per class: accuracy in percent over {n_splits} splits"
    print_table(title, ["method", "accuracy", "time"], rows)
    say(f"The page with curves, doubtful labels and every paper explained: {out}")


def _report(
    dataset: Dataset,
    summaries: tuple[Summary, ...],
    n_splits: int,
    classifier: PTAClassifier,
    split: Split,
    suspects: tuple[Suspect, ...],
    command: str,
) -> Report:
    from proptrain.experiments.versions import software
    from proptrain.report.explore import explorable_of
    from proptrain.report.model_page import reliability_curves
    from proptrain.report.page import Report

    names = _topics(dataset)
    return Report(
        title="What is each paper about?",
        subtitle=(
            f"{dataset.n_nodes:,} papers and the citations between them; the topic of 20 papers "
            f"per class is known. Accuracy on {len(split.test):,} papers whose topic was hidden, "
            f"over {n_splits} random choices of the known ones."
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
        methods=tuple(_method_result(summary) for summary in summaries),
        history=classifier.history_,
        best_epoch=classifier.best_epoch_,
        confusion=_confusion(dataset, classifier, split),
        class_names=names,
        command=command,
        versions=tuple(software().items()),
        explore=explorable_of(classifier, class_names=names),
        suspects=suspects,
        reliability=reliability_curves(
            classifier.label_distributions_[split.test],
            dataset.labels[split.test],
            classifier.find_temperature(),
        ),
    )


def _topics(dataset: Dataset) -> tuple[str, ...]:
    return tuple(str(name) for name in dataset.class_names or ())


def _suspects(dataset: Dataset, classifier: PTAClassifier, *, quiet: bool) -> tuple[Suspect, ...]:
    from proptrain.insight.audit import N_FITS
    from proptrain.report.model_page import suspects_of

    with progress("audit of the labels", N_FITS, quiet=quiet) as step:
        found = classifier.audit(dataset.features, on_fit=step)
    return suspects_of(found, class_names=_topics(dataset))


def _method_result(summary: Summary) -> MethodResult:
    from proptrain.experiments.methods import METHODS
    from proptrain.report.page import MethodResult

    return MethodResult(
        name=summary.method,
        description=METHODS[summary.method].description,
        accuracies=summary.accuracies,
        mean=summary.estimate.mean,
        low=summary.estimate.low,
        high=summary.estimate.high,
        seconds=summary.median_seconds,
    )


def _confusion(dataset: Dataset, classifier: PTAClassifier, split: Split) -> NDArray[np.int64]:
    matrix = np.zeros((dataset.n_classes, dataset.n_classes), dtype=np.int64)
    true, told = dataset.labels[split.test], classifier.transduction_[split.test]
    np.add.at(matrix, (true, told), 1)
    return matrix
