"""Every classifier on numbers from hell: python -m reliability.hell --out FILE [--large].

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
from proptrain.errors import InvalidInputError, ProptrainError
from proptrain.system.json_lines import open_lines
from reliability.hell_cases import Case, Problem, all_cases
from reliability.outcomes import BEGINNING, add_outcome, faults_in, ready

COMMAND = "python -m reliability.hell"
WELL = "finite probabilities that sum to 1"

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
        given = problem.graph
        graph = Graph.without_edges(n_nodes) if given is None else as_graph(given, n_nodes)
        with tempfile.TemporaryDirectory() as folder:
            save_graph(graph, Path(folder) / "graph", n_blocks=2)
            how = {"memory": "64GB", "stopping": problem.stopping, "scratch": folder}
            told = fit_from_disk(make(), Path(folder) / "graph", problem.X, problem.y, **how)
            return [np.array(told.distributions)]

    return run


def everyone(max_epochs: int) -> dict[str, Run]:
    """Return all public classifiers, with the settings that change what is computed with."""
    short: dict[str, Any] = {"max_epochs": max_epochs, "random_state": 0}
    on_cpu: dict[str, Any] = {"device": "cpu", **short}

    def pta(**more: Any) -> Callable[[], Any]:
        return lambda: PTAClassifier(**on_cpu, **more)

    def plus(**more: Any) -> Callable[[], Any]:
        return lambda: PTAPlusClassifier(**on_cpu, **more)

    def lp(**more: Any) -> Callable[[], Any]:
        return lambda: LabelPropagationClassifier(device="cpu", random_state=0, **more)

    def gnn(architecture: str, **more: Any) -> Callable[[], Any]:
        return lambda: GNNClassifier(architecture=architecture, **short, **more)

    networks = {name: gnn(name) for name in ("MLP", "GCN", "SGCN", "DAGNN")}
    makers = {
        "PTA": pta(),
        "PTA, dropout": pta(dropout=0.5),
        "PTA(F) in batches": pta(fast=True, batch_size=10),
        "PTS": pta(weighting="static"),
        "PTD": pta(weighting="dynamic", loss_weight=10),
        "PTA, row": pta(normalisation="row", clamp=False),
        "PTA, no loops": pta(normalisation="symmetric-no-loops"),
        "APPNP-noa-nof": pta(equal_hops=3),
        "PTA+": plus(),
        "PTA+, no loops": plus(normalisation="symmetric-no-loops", mass_power=0.5),
        "LP": lp(),
        "LP, row": lp(normalisation="row"),
        "LP, no loops": lp(normalisation="symmetric-no-loops"),
        **networks,
        "APPNP": gnn("APPNP", edge_dropout=0.5),
        "PPNP": gnn("PPNP", normalisation="row"),
        "C&S": lambda: CorrectAndSmoothClassifier(**short),
    }
    disk = {
        "PTA from disk": pta(),
        "PTA(F) from disk, row": pta(fast=True, batch_size=10, normalisation="row"),
    }
    runs = {name: in_memory(make) for name, make in makers.items()}
    return runs | {name: from_disk(make) for name, make in disk.items()}


WHO = everyone(max_epochs=25)
ON_LARGE = {
    name: run
    for name, run in everyone(max_epochs=2).items()
    if name in ("PTA", "PTA from disk", "PTA+", "LP", "LP, row", "MLP", "GCN", "APPNP", "C&S")
}
"""One of each kind: these take minutes each."""
IN_MEMORY = {name: run for name, run in WHO.items() if "from disk" not in name}
"""Those that can make a graph of the features themselves."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="File to add lines to, a line a case.")],
    large: Annotated[
        bool, typer.Option("--large", help="Also 5,000 classes, a hub of 10^6 neighbours …")
    ] = False,
    only: Annotated[
        str, typer.Option(help="The case of this name, or cases with this in their names.")
    ] = "",
) -> None:
    """Fit every classifier to every case; what is in the file is not done again."""
    with open_lines(ready(out), faults_in, BEGINNING) as (file, done):
        for name, case in choose(only, large=large).items():
            fault = f"numbers from hell: {name}"
            if fault in done:
                say(f"{fault}: in {out} already")
                continue
            start = time.perf_counter()
            ends = {who: end_of(case, run) for who, run in who_tries(case).items()}
            broken = {who: end for who, end in ends.items() if end[0].startswith("broken")}
            for who, (outcome, message) in broken.items():
                say(f"{case.group}, {case.name}, {who}: {outcome}: {message}")
            how = f'--only "{name}"{" --large" if case.is_large else ""}'
            add_outcome(
                file, fault, (outcome for outcome, _ in ends.values()),
                f"{COMMAND} {how} --out FILE",
                messages=messages_of(ends), seconds=round(time.perf_counter() - start),
            )  # fmt: skip


def choose(only: str, *, large: bool) -> dict[str, Case]:
    """Return the cases by their names: the one that is called so, or all with it in their names."""
    cases = {f"{case.group}: {case.name}": case for case in all_cases()}
    found = {name: case for name, case in cases.items() if only in name}
    found = {only: cases[only]} if only in cases else found
    found = {name: case for name, case in found.items() if large or not case.is_large}
    if not found:
        raise InvalidInputError(
            f"No case has {only!r} in its name. Give part of one such as {next(iter(cases))!r}; "
            "large ones need --large."
        )
    return found


def who_tries(case: Case) -> dict[str, Run]:
    """Return who can be given a case."""
    if case.is_large:
        return ON_LARGE
    return IN_MEMORY if case.group == "features, graph by knn" else WHO


def end_of(case: Case, run: Run) -> tuple[str, str]:
    """Return the name of a case's outcome, and the message if there is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # overflow and the like, NumPy's own
        warnings.simplefilter("ignore", UserWarning)  # ours: nodes that no label reaches …
        try:
            told = run(case.make())
        except ProptrainError as error:
            return type(error).__name__, str(error)
        except Exception as error:
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
    cli.main(app, COMMAND)
