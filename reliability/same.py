"""The same answer again: python -m reliability.same run --out FILE.

With the same seed and number of threads every bit, in any process, and from disk instead of memory,
to the end of a training; with other numbers of threads, a renumbered graph, or dense instead of
sparse features, the same within 1e-5 after some epochs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from proptrain import PTAClassifier, cli, fit_from_disk, load_dataset, save_graph
from proptrain.cli.console import say
from proptrain.experiments.methods import METHODS
from proptrain.kernels import threads
from proptrain.system.json_lines import open_lines
from reliability.outcomes import BEGINNING, add_outcome, chosen, faults_in, ready

COMMAND = "python -m reliability.same"
WITHIN = 1e-5
KINDS = ("PTA", "PTA+", "LP", "APPNP#", "PTA(F)", "GCN", "C&S")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    out: Annotated[Path, typer.Option(help="File to add lines to, a line a comparison.")],
    epochs: Annotated[int, typer.Option(help="Epochs of each fit, at most.")] = 100,
    only: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(KINDS)}.")] = None,
) -> None:
    """Compare processes, numbers of threads and engines; what is in the file is not done again."""
    with open_lines(ready(out), faults_in, BEGINNING) as (file, done):
        for kind in chosen(only, KINDS):
            fault = f"same answer: {kind}, {epochs} epochs"
            if fault in done:
                say(f"{fault}: in {out} already")
                continue
            ones, twos = (in_processes(kind, epochs, n_threads, 2) for n_threads in (1, 2))
            outcomes = [bits(*ones), bits(*twos)]
            apart = {"1 and 2 threads": difference(ones[0], twos[0])}
            if kind in ("PTA", "PTA(F)"):
                outcomes.append(bits(*whole_trainings(fast=kind == "PTA(F)")))
                apart |= engines_apart(epochs, fast=kind == "PTA(F)")
            outcomes += ["within 1e-5" if far <= WITHIN else "further" for far in apart.values()]
            say(f"{fault}: {outcomes}, {apart}")
            command = f'{COMMAND} run --epochs {epochs} --only "{kind}" --out FILE'
            add_outcome(file, fault, outcomes, command, apart=apart)


@app.command()
def one(kind: str, epochs: int, to: Path) -> None:
    """Fit one kind in this process and write what it tells of all nodes."""
    threads.WORTH_IT = 1 << 12  # small problems would not be worth threads otherwise
    np.save(to, told_by(kind, epochs))


def in_processes(kind: str, epochs: int, n_threads: int, n: int) -> list[NDArray[np.float64]]:
    """Return what new processes tell, each with so many threads."""
    env = {**os.environ, "OMP_NUM_THREADS": str(n_threads)}
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.npy" for number in range(n)]
        command = [sys.executable, "-m", "reliability.same", "one", kind, str(epochs)]
        for number, file in enumerate(files):
            hashes = {"PYTHONHASHSEED": str(number)}  # nothing may depend on the order of sets
            subprocess.run([*command, str(file)], env={**env, **hashes}, check=True)
        return [np.load(file) for file in files]


def told_by(kind: str, epochs: int) -> NDArray[np.float64]:
    """Return probabilities of Cora's nodes, a tenth of them labelled."""
    cora, y = problem()
    classifier = METHODS[kind].make(alpha=0.1, steps=10, seed=0)
    if "max_epochs" in classifier.get_params():
        classifier.set_params(max_epochs=epochs)
    graph = cora.graph if METHODS[kind].uses_graph else None
    told: NDArray[np.float64] = classifier.fit(cora.features, y, graph=graph).label_distributions_
    return told


def engines_apart(epochs: int, *, fast: bool) -> dict[str, float]:
    """Return how far PTA is from itself: from disk, renumbered or not, and with dense features."""
    cora, y = problem()
    dense = cora.features.toarray()
    classifier = PTAClassifier(random_state=0, device="cpu", max_epochs=epochs, fast=fast)
    in_memory = classifier.fit(dense, y, graph=cora.graph).label_distributions_
    sparse = classifier.fit(cora.features, y, graph=cora.graph).label_distributions_
    apart = {"dense and sparse features": difference(in_memory, sparse)}
    with tempfile.TemporaryDirectory() as folder:
        orders = {"": None, ", renumbered": np.argsort(-cora.graph.degrees, kind="stable")}
        for name, order in orders.items():
            place = Path(folder) / f"graph{name}"
            save_graph(cora.graph, place, n_blocks=3, order=order)
            got = fit_from_disk(classifier, place, dense, y, memory="64GB").distributions
            apart[f"memory and disk{name}"] = difference(in_memory, got)
    return apart


def whole_trainings(*, fast: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return all weights of a network that was trained in memory, and of one from disk."""
    cora, y = problem()
    classifier = PTAClassifier(random_state=0, device="cpu", fast=fast)
    ours = classifier.fit(cora.features, y, graph=cora.graph).weights_
    with tempfile.TemporaryDirectory() as folder:
        save_graph(cora.graph, Path(folder) / "graph", n_blocks=3)
        fitted = fit_from_disk(classifier, f"{folder}/graph", cora.features, y, memory="64GB")
    told = fitted.trained.weights
    return _flat(ours), _flat({name: told[name] for name in ours})


def _flat(weights: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([one.ravel() for one in weights.values()])


def problem() -> tuple[Any, NDArray[np.int64]]:
    """Return Cora and its labels, nine tenths of them hidden."""
    cora = load_dataset("cora")
    known = np.random.RandomState(0).rand(cora.n_nodes) < 0.1
    return cora, np.where(known, cora.labels, -1)


def bits(first: NDArray[Any], second: NDArray[Any]) -> str:
    """Say whether all bits are the same."""
    return "same bits" if first.tobytes() == second.tobytes() else "other bits"


def difference(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the largest difference of two probabilities."""
    return float(np.abs(first - second).max())


if __name__ == "__main__":
    cli.main(app, COMMAND)
