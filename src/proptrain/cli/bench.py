"""proptrain bench: how fast it is on this machine, beside what one would use instead."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proptrain.cli.console import JsonOption, print_json, print_table, progress, say
from proptrain.cli.data import DataDirOption
from proptrain.errors import unknown_name
from proptrain.files import check_output, whole_file

if TYPE_CHECKING:
    from proptrain.bench.case import Case
    from proptrain.bench.results import Measured

SUITES = ("first-layer", "step", "epochs")
NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(help=f"What to measure: {', '.join(SUITES)}. \\[default: all]"),
]
DatasetsOption = Annotated[
    list[str] | None,
    typer.Option("--dataset", help="For first-layer and epochs; repeatable. \\[default: cora]"),
]
EntriesOption = Annotated[
    int,
    typer.Option(
        min=100_000, help="Size of the made-up graph for step, in stored entries: two for an edge."
    ),
]
OutOption = Annotated[
    Path | None, typer.Option(help="File for all times, one line of JSON for each case.")
]


def bench(
    names: NamesArgument = None,
    dataset: DatasetsOption = None,
    entries: EntriesOption = 3_000_000,
    out: OutOption = None,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Measure speed on this machine, side by side, as ratios.

    Everything that is compared runs in turn, in random order, several times; ratios are taken
    within each round, so that a slow minute of the machine falls on all alike. Absolute times are
    only those of this machine in this hour.

    Examples: proptrain bench; proptrain bench step --entries 124000000
    """
    for name in names or []:
        if name not in SUITES:
            raise unknown_name("What is measured", name, SUITES)
    if out is not None:
        check_output(out, overwrite=True)
    cases = _cases(names or list(SUITES), dataset or ["cora"], entries, data_dir)
    lines = measure_all(cases, out, quiet=json)
    if json:
        print_json({"cases": lines})


def measure_all(
    cases: Iterable[Case], out: Path | None = None, *, quiet: bool = False
) -> list[dict[str, Any]]:
    """Measure case after case, show each as it is done, and write all of them to a file."""
    from proptrain.bench.results import HEADER
    from proptrain.experiments.versions import versions

    lines = []
    for case in cases:
        measured = _measure(case, quiet=quiet)
        lines.append({**measured.to_json(), "versions": versions()})
        if not quiet:
            print_table(case.suite, HEADER, measured.rows(), n_labels=2)
    if out is not None:
        with whole_file(out, overwrite=True) as temporary:
            temporary.write_text("".join(json_module.dumps(line) + "\n" for line in lines))
        say(f"written: {out}")
    return lines


def _cases(
    names: list[str], datasets: list[str], n_entries: int, data_dir: Path | None
) -> Iterator[Case]:
    from proptrain.bench.products import first_layer, propagation_step
    from proptrain.bench.training import epochs

    suites = {
        "first-layer": lambda: first_layer(datasets, data_dir),
        "step": lambda: propagation_step(n_entries),
        "epochs": lambda: epochs(datasets, data_dir),
    }
    return chain.from_iterable(suites[name]() for name in names)


def _measure(case: Case, *, quiet: bool) -> Measured:
    from proptrain.bench.results import Measured
    from proptrain.bench.timing import time_in_turn

    total = len(case.jobs) * (case.n_rounds + 1)
    with progress(f"{case.suite}: {case.name}", total, quiet=quiet) as advance:
        times = time_in_turn(case.jobs, case.n_rounds, on_run=lambda _: advance())
    return Measured(case, times)
