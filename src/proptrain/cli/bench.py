"""proptrain bench: how fast it is on this machine, beside what one would use instead."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proptrain.cli.console import (
    ForceOption,
    JsonOption,
    print_json,
    print_table,
    progress,
    results,
    say,
)
from proptrain.cli.data import DataDirOption
from proptrain.errors import InvalidInputError, missing_extra, unknown_name
from proptrain.system.files import check_output, whole_file

if TYPE_CHECKING:
    from proptrain.bench.case import Case, Suite, Wanted
    from proptrain.bench.results import Measured

SUITES = {
    "first-layer": "proptrain.bench.products:first_layer",
    "together": "proptrain.bench.products:runs_together",
    "step": "proptrain.bench.steps:step_beside_libraries",
    "ten-steps": "proptrain.bench.steps:ten_steps",
    "growth": "proptrain.bench.steps:growth",
    "epochs": "proptrain.bench.training:epochs",
    "plus": "proptrain.bench.training:whole_fits",
    "start-up": "proptrain.bench.startup:start_up",
}
"""Where each is; they load much, and only those asked for."""

NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(help=f"What to measure: {', '.join(SUITES)}. \\[default: all]"),
]
DatasetsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dataset",
        help="For first-layer, together, epochs and plus; repeatable. \\[default: cora]",
    ),
]
EntriesOption = Annotated[
    int,
    typer.Option(
        min=100_000,
        help="Stored entries, two for an edge, of the made-up graph for step and ten-steps, and of "
        "the largest one for growth.",
    ),
]
RoundsOption = Annotated[
    int | None, typer.Option(min=1, help="Rounds. \\[default: as many as each case needs]")
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        help="File for all times, a line of JSON for each case as soon as it is done. Cases that "
        "are in it already are not measured again."
    ),
]
PlotOption = Annotated[
    Path | None, typer.Option(help="SVG file for the plot of growth; replaced if it exists.")
]
ShowOption = Annotated[
    Path | None,
    typer.Option(help="Measure nothing: print what is in this file, as Markdown."),
]


def bench(
    names: NamesArgument = None,
    dataset: DatasetsOption = None,
    entries: EntriesOption = 10_000_000,
    rounds: RoundsOption = None,
    out: OutOption = None,
    plot: PlotOption = None,
    show: ShowOption = None,
    data_dir: DataDirOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Measure speed on this machine, side by side, as ratios.

    Everything that is compared runs in turn, in random order, several times; ratios are taken
    within each round, so that a slow minute of the machine falls on all alike. Absolute times are
    only those of this machine in this hour.

    Examples: proptrain bench; proptrain bench step --entries 124000000;
    proptrain bench growth --out times.jsonl --plot growth.svg; proptrain bench --show times.jsonl
    """
    from proptrain.bench.case import Wanted

    if show is not None:
        if dataset or rounds or out:
            raise InvalidInputError(
                "--show measures nothing: leave out --dataset, --rounds, --out."
            )
        show_measured(show, names, plot, as_json=json)
        return
    wanted = Wanted(tuple(dataset or ["cora"]), data_dir, entries)
    how: dict[str, Any] = {"rounds": rounds, "out": out, "plot": plot, "force": force}
    measure_suites(SUITES, names, wanted, **how, as_json=json)


def measure_suites(
    suites: Mapping[str, str],
    names: Iterable[str] | None,
    wanted: Wanted,
    *,
    rounds: int | None,
    out: Path | None,
    plot: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Measure the suites of these names, all if there are none; every input is checked before."""
    from proptrain.bench.results import open_measured

    chosen = list(dict.fromkeys(names or suites))
    found = [_find(suites, name) for name in chosen]
    if plot is not None and "growth" not in chosen:
        raise InvalidInputError("--plot draws what growth measures: name that suite too.")
    if out is not None:
        check_output(out, overwrite=True)
    if plot is not None:
        check_output(plot, overwrite=True, inputs=[out])
    cases = [case for suite in found for case in suite(wanted)]
    with open_measured(out) as (add, before):
        if not force:
            _check_fits(cases, before)
        measured = _measure_all(cases, before, rounds, add, quiet=as_json)
    if plot is not None:
        _write_plot(measured, plot)
    if as_json:
        print_json({"cases": [one.to_json() for one in measured]})
    elif out is not None or plot is not None:
        say(f"written: {', '.join(str(path) for path in (out, plot) if path)}")


def show_measured(
    path: Path, names: Iterable[str] | None, plot: Path | None, *, as_json: bool
) -> None:
    """Print what a file has of these suites, and draw the plot if that is wanted."""
    from proptrain.bench.results import read_measured
    from proptrain.bench.tables import to_markdown

    if plot is not None:
        check_output(plot, overwrite=True, inputs=[path])
    measured = read_measured(path)
    known = list(dict.fromkeys(one.suite for one in measured))
    for name in names or []:
        if name not in known:
            raise unknown_name("What was measured", name, known)
    shown = [one for name in names or known for one in measured if one.suite == name]
    if as_json:
        print_json({"cases": [one.to_json() for one in shown]})
    else:
        results.file.write(to_markdown(shown) + "\n")  # not wrapped: a page will do that
    if plot is not None:
        _write_plot(shown, plot)
        say(f"written: {plot}")


def _find(suites: Mapping[str, str], name: str) -> Suite:
    if name not in suites:
        raise unknown_name("What is measured", name, suites)
    try:
        suite: Suite = pkgutil.resolve_name(suites[name])
    except ModuleNotFoundError as error:
        raise missing_extra(
            f"{name} measures beside {error.name}, which is not installed; it comes with "
            "proptrain's extra `bench`.",
            "bench",
        ) from error
    return suite


def _check_fits(cases: list[Case], before: list[Measured]) -> None:
    """Raise if a case that is not measured yet takes more memory than there is."""
    from proptrain.workload import check_memory

    known = {(one.suite, one.case) for one in before}
    ahead = [case for case in cases if (case.suite, case.name) not in known]
    largest = max(ahead, key=lambda case: case.memory, default=None)
    if largest is not None and largest.memory:
        advice = "Ask for fewer --entries, or begin all the same with --force."
        check_memory(largest.memory, f"{largest.title}, {largest.name},", advice)


def _measure_all(
    cases: list[Case],
    before: list[Measured],
    rounds: int | None,
    add: Callable[[Measured], None],
    *,
    quiet: bool,
) -> list[Measured]:
    """Measure case after case but for those known, show and keep each as soon as it is done."""
    from proptrain.bench.results import is_alike
    from proptrain.bench.tables import tables_of

    known = {(one.suite, one.case): one for one in before}
    done = []
    for case in cases:
        if (case.suite, case.name) in known:
            done.append(known[case.suite, case.name])
            if not quiet:
                other = "" if is_alike(done[-1]) else ", by other code or on another machine"
                say(f"{case.title}, {case.name}: measured already{other}")
            continue
        done.append(_measure(case, rounds or case.n_rounds, quiet=quiet))
        add(done[-1])
        if not quiet:
            for table in tables_of(done[-1:]):
                rows = [list(row) for row in table.rows]
                print_table(table.title, list(table.header), rows, n_labels=table.n_labels)
    return done


def _measure(case: Case, n_rounds: int, *, quiet: bool) -> Measured:
    from proptrain.bench.results import measure

    title = f"{case.title}, {case.name}"
    if not quiet:
        say(f"{title}: getting ready")
    work = case.prepare()
    with progress(title, len(work.jobs) * (n_rounds + case.warms_up), quiet=quiet) as advance:
        return measure(case, work, n_rounds, advance)


def _write_plot(measured: list[Measured], path: Path) -> None:
    from proptrain.bench.plots import growth_plot

    grown = [one for one in measured if one.suite == "growth"]
    if not grown:
        raise InvalidInputError("--plot draws what growth measures, and that was not measured.")
    drawing = growth_plot(grown)
    with whole_file(path, overwrite=True) as temporary:
        temporary.write_text(drawing, encoding="utf-8")
