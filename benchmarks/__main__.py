"""Measure ours beside the peers: python -m benchmarks [SUITE …] [--dataset NAME …] [--out FILE]."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from proptrain import cli
from proptrain.bench.case import Wanted
from proptrain.cli.bench import (
    SUITES,
    EntriesOption,
    OutOption,
    PlotOption,
    RoundsOption,
    measure_suites,
)
from proptrain.cli.console import ForceOption, JsonOption
from proptrain.cli.data import DataDirOption
from proptrain.experiments.specs import DATASETS

PEERS = {
    "pyg-epochs": "benchmarks.training:epochs_beside_pyg",
    "pyg-stop": "benchmarks.training:to_the_early_stop",
    "labels": "benchmarks.spreading:label_propagation",
    "features": "benchmarks.spreading:from_features_alone",
    "smooth": "benchmarks.spreading:correct_and_smooth",
}
HOURS = {"pyg-stop-dense": "benchmarks.training:to_the_early_stop_dense"}
"""Only if named."""
ALL = {**SUITES, **PEERS, **HOURS}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    names: Annotated[
        list[str] | None,
        typer.Argument(help=f"{', '.join(ALL)}. \\[default: all but {', '.join(HOURS)}]"),
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Repeatable. \\[default: the paper's four]")
    ] = None,
    entries: EntriesOption = 124_000_000,
    rounds: RoundsOption = None,
    out: OutOption = None,
    plot: PlotOption = None,
    data_dir: DataDirOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Measure ours beside the libraries that one would use instead.

    The tables of what is in a file: proptrain bench --show FILE
    """
    wanted = Wanted(tuple(dataset or DATASETS), data_dir, entries)
    chosen = names or [*SUITES, *PEERS]
    how: dict[str, Any] = {"rounds": rounds, "out": out, "plot": plot, "force": force}
    measure_suites(ALL, chosen, wanted, **how, as_json=json)


if __name__ == "__main__":
    cli.main(app, "python -m benchmarks")
