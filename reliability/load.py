"""Is the estimate of memory and time any good? python -m reliability.load run --out FILE.

Each fit has a process of its own: what it takes at its peak, beside what it had before, is held
against the estimate that is told before a fit. Seconds are those that the processor spent.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer

from proptrain import cli, graph_from_edges
from proptrain.cli.console import say
from proptrain.experiments.methods import METHODS
from proptrain.system.json_lines import open_lines
from proptrain.system.memory import peak_memory, resident_memory
from proptrain.workload import FitSizes, estimate_fit
from reliability.outcomes import BEGINNING, add_outcome, chosen, faults_in, ready

COMMAND = "python -m reliability.load"
FACTOR = 3
"""An estimate is right if the peak is neither above it nor less than it by more than this."""
N_EPOCHS = 5
PROBLEMS = {
    "wide": FitSizes(40_000, 400_000, 300, 10),
    "long": FitSizes(300_000, 1_200_000, 16, 5),
    "many entries": FitSizes(60_000, 6_000_000, 32, 20),
    "many classes": FitSizes(20_000, 120_000, 32, 300),
    "sparse": FitSizes(60_000, 300_000, 4_000, 8, n_stored=2_400_000),
}
_TRIED = [
    *(("PTA", name) for name in PROBLEMS),
    *((method, "sparse") for method in ("PTA+", "LP", "GCN", "APPNP#", "C&S")),
    ("DAGNN", "many classes"),
    ("MLP", "wide"),
]
FITS = {f"{method}, {name}": (method, name) for method, name in _TRIED}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    out: Annotated[Path, typer.Option(help="File to add lines to, a line a fit.")],
    only: Annotated[list[str] | None, typer.Option(help='Such as "PTA, wide".')] = None,
) -> None:
    """Hold estimates against peaks; what is in the file is not done again."""
    with open_lines(ready(out), faults_in, BEGINNING) as (file, done):
        for what in chosen(only, FITS):
            fault = f"load: {what}"
            if fault in done:
                say(f"{fault}: in {out} already")
                continue
            command = [sys.executable, "-m", "reliability.load", "one", *FITS[what]]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            if ended.returncode:
                say(f"{fault}: {ended.stderr[-300:]}")
                continue
            told = json.loads(ended.stdout)
            ratio = told["estimate"] / told["peak"]
            outcome = f"estimate within {FACTOR} of the peak" if 1 <= ratio <= FACTOR else "off"
            say(f"{fault}: {ratio:.2f} × the peak, {outcome}")
            how = f'{COMMAND} run --only "{what}" --out FILE'
            add_outcome(file, fault, [outcome], how, ratio=round(ratio, 3), **told)


@app.command()
def one(method: str, name: str) -> None:
    """Fit one method to one problem, in this process, and print what it took."""
    sizes = PROBLEMS[name]
    small = replace(sizes, n_nodes=400, n_entries=2000, n_stored=sizes.n_stored and 4000)
    fit(method, *problem(small))  # all is compiled then, and loaded
    given = problem(sizes)
    ctypes.CDLL(None).malloc_trim(0)  # what making it has left over is not to be used by the fit
    before = resident_memory() or 0
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is that of making the problem
    start = time.process_time()
    fit(method, *given)
    seconds, peak = time.process_time() - start, (peak_memory() or 0) - before
    told = estimate_fit(new(method), sizes)
    n_epochs = min(N_EPOCHS, told.max_epochs) or 1
    measured = {"estimate": told.memory, "peak": peak}
    times = {"estimated_seconds": told.epoch_seconds * n_epochs, "seconds": round(seconds, 2)}
    typer.echo(json.dumps(measured | times))


def new(method: str) -> Any:
    """Return a classifier that takes few epochs."""
    classifier = METHODS[method].make(alpha=0.1, steps=10, seed=0)
    if "max_epochs" in classifier.get_params():
        classifier.set_params(max_epochs=N_EPOCHS)
    return classifier


def fit(method: str, features: Any, y: Any, graph: Any) -> None:
    """Fit and forget."""
    new(method).fit(features, y, graph=graph if METHODS[method].uses_graph else None)


def problem(sizes: FitSizes) -> tuple[Any, Any, Any]:
    """Return features, labels of a tenth of the nodes, and a graph of these sizes."""
    random = np.random.default_rng(0)
    n, n_classes = sizes.n_nodes, sizes.n_classes
    graph = graph_from_edges(random.integers(n, size=(sizes.n_entries // 2, 2)), n)
    truth = np.arange(n) % n_classes
    if sizes.n_stored is None:
        features: Any = random.random((n, sizes.n_features), dtype=np.float32)
    else:
        places = (
            random.integers(n, size=sizes.n_stored),
            random.integers(sizes.n_features, size=sizes.n_stored),
        )
        ones = np.ones(sizes.n_stored, dtype=np.float32)
        features = sp.csr_array(sp.coo_array((ones, places), shape=(n, sizes.n_features)))
    known = random.random(n) < 0.1
    known[: min(n, n_classes)] = True
    return features, np.where(known, truth, -1), graph


if __name__ == "__main__":
    cli.main(app, COMMAND)
