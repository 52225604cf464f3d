"""Thousands of fits in one process: python -m reliability.soak --fits 10000 --out FILE.

Memory must stay flat, and every fit of a kind must end with the same bits as its first.
"""

from __future__ import annotations

import gc
import hashlib
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer

from proptrain import (
    CorrectAndSmoothClassifier,
    GNNClassifier,
    LabelPropagationClassifier,
    PTAClassifier,
    PTAPlusClassifier,
    cli,
)
from proptrain.cli.console import say
from proptrain.data.synthetic import power_law_graph
from proptrain.experiments.versions import package_digest
from proptrain.system.json_lines import open_lines
from proptrain.system.memory import resident_memory
from reliability.outcomes import BEGINNING, add_outcome, faults_in, ready

COMMAND = "python -m reliability.soak"
SHORT: dict[str, Any] = {"max_epochs": 10, "n_hidden": 16, "random_state": 0}
KINDS: dict[str, Callable[[], Any]] = {
    "PTA": lambda: PTAClassifier(device="cpu", **SHORT),
    "PTA with dropout": lambda: PTAClassifier(device="cpu", dropout=0.5, **SHORT),
    "PTA in batches": lambda: PTAClassifier(device="cpu", batch_size=16, fast=True, **SHORT),
    "PTA+": lambda: PTAPlusClassifier(device="cpu", n_rounds=1, **SHORT),
    "LP": lambda: LabelPropagationClassifier(device="cpu"),
    "APPNP": lambda: GNNClassifier(edge_dropout=0.5, **SHORT),
    "GCN": lambda: GNNClassifier(architecture="GCN", **SHORT),
    "C&S": lambda: CorrectAndSmoothClassifier(**SHORT),
}
FLAT = 20_000_000
"""Bytes by which memory may differ and still count as flat."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def soak(
    out: Annotated[Path, typer.Option(help="File to add the line to.")],
    fits: Annotated[int, typer.Option(min=10, help="Number of fits.")] = 10_000,
) -> None:
    """Fit a small graph again and again, all kinds of classifiers in turn.

    Warm-up is the first tenth. The line is written at the end: it is about one process.
    """
    fault = f"{fits:,} fits in one process"
    with open_lines(ready(out), faults_in, BEGINNING) as (file, done):
        if fault in done:
            say(f"{out} has this already; remove its line to repeat it.")
            return
        code = package_digest()  # now: files may change while it runs
        outcomes, memory, seconds = run(fits)
        warm, end = memory[len(memory) // 10], memory[-1]
        outcomes.append("memory flat" if abs(end - warm) <= FLAT else "memory grew")
        add_outcome(
            file, fault, outcomes, f"{COMMAND} --fits {fits} --out FILE",
            memory_after_warm_up=warm, memory_at_end=end, most_memory=max(memory),
            seconds=round(seconds), kinds=list(KINDS), code=code,
        )  # fmt: skip


def run(fits: int) -> tuple[list[str], list[int], float]:
    """Return what became of each fit, the memory after each hundredth of them, and the time."""
    outcomes, memory = [], []
    first: dict[str, str] = {}
    features, y, graph = small_problem()
    apart = max(fits // 100, 5)  # to collect garbage may take as long as a fit
    start = time.perf_counter()
    for number in range(fits):
        kind = list(KINDS)[number % len(KINDS)]
        told = digest_of(KINDS[kind](), features, y, graph)
        alike = first.setdefault(kind, told) == told
        outcomes.append("same bits" if alike else f"other bits ({kind})")
        if (number + 1) % apart == 0:
            gc.collect()
            memory.append(resident_memory() or 0)
            if len(memory) % 10 == 0:
                say(f"{number + 1:,} fits, {memory[-1]:,} bytes")
    return outcomes, memory, time.perf_counter() - start


def small_problem() -> tuple[sp.csr_array, np.ndarray[Any, Any], Any]:
    """Return sparse features, labels of a third of the nodes, and a graph of 60 nodes."""
    graph, truth = power_law_graph(60, 100, n_classes=4, seed=0)
    random = np.random.RandomState(0)
    features = sp.csr_array((random.rand(60, 12) < 0.3) + np.eye(4)[truth].repeat(3, axis=1))
    return features, np.where(np.arange(60) % 3 == 0, truth, -1), graph


def digest_of(classifier: Any, features: Any, y: Any, graph: Any) -> str:
    """Return the SHA-256 of what a classifier tells after a fit, old and new nodes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nodes that no label reaches
        classifier.fit(features, y, graph=graph)
        told = classifier.predict_proba(), classifier.predict_proba(features[:5])
    return hashlib.sha256(b"".join(part.tobytes() for part in told)).hexdigest()


if __name__ == "__main__":
    cli.main(app, COMMAND)
