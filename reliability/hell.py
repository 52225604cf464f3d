"""Every classifier on numbers from hell: python -m reliability.hell [--large] [--only WORD].

A case ends well with finite probabilities that sum to 1, or with one of our errors, which names
the cause and says what to do. All else is broken, a warning of NumPy's that leaks out included.
"""

from __future__ import annotations

import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from proptrain import (
    CorrectAndSmoothClassifier,
    GNNClassifier,
    LabelPropagationClassifier,
    PTAClassifier,
    PTAPlusClassifier,
    as_graph,
    cli,
    fit_from_disk,
    save_graph,
)
from proptrain.cli.console import say
from proptrain.data.graph import Graph
from proptrain.errors import ProptrainError
from proptrain.experiments.versions import code_digest
from proptrain.json_lines import open_lines
from reliability.hell_cases import Case, Problem, all_cases
from reliability.outcomes import BEGINNING, add_outcome, faults_in, ready

RESULTS = Path("docs/results/reliability/hell.jsonl")
WELL = "finite probabilities that sum to 1"
SHORT: dict[str, Any] = {"max_epochs": 25, "random_state": 0}
CPU: dict[str, Any] = {"device": "cpu", **SHORT}
LP_CPU: dict[str, Any] = {"device": "cpu", "random_state": 0}

Run = Callable[[Problem], list[Any]]
"""Fits a problem and returns all probabilities that came of it."""


def in_memory(make: Callable[[], Any]) -> Run:
    """Return what fits a classifier in memory, and asks about new nodes if there are any."""

    def run(problem: Problem) -> list[Any]:
        fitted = make().fit(problem.X, problem.y, graph=problem.graph, stopping=problem.stopping)
        told = [fitted.predict_proba()]
        if problem.new is not None:
            edge = [(0, fitted.graph_.n_nodes)]
            told += [fitted.predict_proba(problem.new), fitted.predict_proba(problem.new, edge)]
        return told

    return run


def from_disk(make: Callable[[], Any]) -> Run:
    """Return what writes the graph to disk and fits a classifier from there."""

    def run(problem: Problem) -> list[Any]:
        n_nodes = np.shape(problem.y)[0]
        no_graph = problem.graph is None or isinstance(problem.graph, str)
        graph = Graph.without_edges(n_nodes) if no_graph else as_graph(problem.graph, n_nodes)
        with tempfile.TemporaryDirectory() as folder:
            save_graph(graph, Path(folder) / "graph", n_blocks=2)
            how = {"memory": "64GB", "stopping": problem.stopping, "scratch": folder}
            told = fit_from_disk(make(), Path(folder) / "graph", problem.X, problem.y, **how)
            return [np.array(told.distributions)]

    return run


def _gnn(architecture: str, **more: Any) -> Callable[[], Any]:
    return lambda: GNNClassifier(architecture=architecture, **SHORT, **more)  # type: ignore[arg-type]


WHO: dict[str, Run] = {
    "PTA": in_memory(lambda: PTAClassifier(**CPU)),
    "PTA, dropout": in_memory(lambda: PTAClassifier(dropout=0.5, **CPU)),
    "PTA(F) in batches": in_memory(lambda: PTAClassifier(fast=True, batch_size=10, **CPU)),
    "PTS": in_memory(lambda: PTAClassifier(weighting="static", **CPU)),
    "PTD": in_memory(lambda: PTAClassifier(weighting="dynamic", loss_weight=10, **CPU)),
    "PTA, row": in_memory(lambda: PTAClassifier(normalisation="row", clamp=False, **CPU)),
    "PTA, no loops": in_memory(lambda: PTAClassifier(normalisation="symmetric-no-loops", **CPU)),
    "APPNP-noa-nof": in_memory(lambda: PTAClassifier(equal_hops=3, **CPU)),
    "PTA from disk": from_disk(lambda: PTAClassifier(**CPU)),
    "PTA(F) from disk, row": from_disk(
        lambda: PTAClassifier(fast=True, batch_size=10, normalisation="row", **CPU)
    ),
    "PTA+": in_memory(lambda: PTAPlusClassifier(**CPU)),
    "PTA+, no loops": in_memory(
        lambda: PTAPlusClassifier(normalisation="symmetric-no-loops", mass_power=0.5, **CPU)
    ),
    "LP": in_memory(lambda: LabelPropagationClassifier(**LP_CPU)),
    "LP, row": in_memory(lambda: LabelPropagationClassifier(normalisation="row", **LP_CPU)),
    "LP, no loops": in_memory(
        lambda: LabelPropagationClassifier(normalisation="symmetric-no-loops", **LP_CPU)
    ),
    "MLP": in_memory(_gnn("MLP")),
    "GCN": in_memory(_gnn("GCN")),
    "SGCN": in_memory(_gnn("SGCN")),
    "DAGNN": in_memory(_gnn("DAGNN")),
    "APPNP": in_memory(_gnn("APPNP", edge_dropout=0.5)),
    "PPNP": in_memory(_gnn("PPNP", normalisation="row")),
    "C&S": in_memory(lambda: CorrectAndSmoothClassifier(**SHORT)),
}
"""All public classifiers with the settings that change which numbers they compute with."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    large: Annotated[
        bool, typer.Option("--large", help="Also 5,000 classes, a hub of 10^6 neighbours …")
    ] = False,
    only: Annotated[str, typer.Option(help="Cases with this word in their name.")] = "",
    out: Annotated[Path, typer.Option(help="File for the results, a line a case.")] = RESULTS,
) -> None:
    """Fit every classifier to every case; what is in the file is not done again."""
    with open_lines(ready(out), faults_in, BEGINNING) as (file, done):
        for case in all_cases():
            fault = f"numbers from hell: {case.group}: {case.name}"
            if fault in done or (case.is_large and not large) or only not in fault:
                continue
            start = time.perf_counter()
            ends = {who: end_of(case, run) for who, run in WHO.items()}
            broken = {who: end for who, end in ends.items() if end[0].startswith("broken")}
            for who, (outcome, message) in broken.items():
                say(f"{case.group}, {case.name}, {who}: {outcome}: {message}")
            command = f"python -m reliability.hell{' --large' if case.is_large else ''}"
            add_outcome(
                file, fault, (outcome for outcome, _ in ends.values()), command,
                messages=messages_of(ends), seconds=round(time.perf_counter() - start),
                code=code_digest(),
            )  # fmt: skip


def end_of(case: Case, run: Run) -> tuple[str, str]:
    """Return the name of a case's outcome, and the message if there is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # overflow and the like, NumPy's own
        warnings.simplefilter("ignore", UserWarning)  # ours: nodes that no label reaches …
        try:
            told = run(case.make())
        except ProptrainError as error:
            return type(error).__name__, str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is to be told
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            return f"broken: {type(error).__name__}", f"{error} ({where})"
    for part in told:
        if not np.isfinite(part).all():
            return "broken: not finite", f"{int((~np.isfinite(part)).sum()):,} of {part.size:,}"
        off = float(np.abs(part.sum(axis=1, dtype=np.float64) - 1).max(initial=0))
        if off > 1e-5 or part.min(initial=0) < 0:
            return "broken: no probabilities", f"sums off by {off}, least {part.min()}"
    return WELL, ""


def messages_of(ends: dict[str, tuple[str, str]]) -> dict[str, list[str]]:
    """Return each message with those who said it."""
    said: dict[str, list[str]] = {}
    for who, (_, message) in ends.items():
        if message:
            said.setdefault(message, []).append(who)
    return said


if __name__ == "__main__":
    cli.main(app, "python -m reliability.hell")
