"""Measure ours beside the peers: python -m benchmarks [SUITE …] [--dataset NAME …] [--out FILE]."""

from __future__ import annotations

import warnings
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.cases import SUITES
from proptrain.bench.products import first_layer, propagation_step
from proptrain.cli.bench import measure_all
from proptrain.experiments.specs import DATASETS

OWN = {"first-layer": first_layer, "step": lambda *_: propagation_step(124_000_000)}
ALL = {**OWN, **SUITES}


def main(
    names: Annotated[list[str] | None, typer.Argument(help=", ".join(ALL))] = None,
    dataset: Annotated[list[str] | None, typer.Option()] = None,
    data_dir: Annotated[Path | None, typer.Option()] = None,
    out: Annotated[Path | None, typer.Option()] = None,
) -> None:
    """Measure everything, or the suites named, on the paper's four data sets or those named."""
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    datasets = dataset or list(DATASETS)
    measure_all(chain.from_iterable(ALL[name](datasets, data_dir) for name in names or ALL), out)


typer.run(main)
