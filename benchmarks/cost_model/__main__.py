"""What a graph takes on other machines: python -m benchmarks.cost_model measured.jsonl.

Prices are found in what `benchmarks.ray_cost` has measured at all sizes but the largest, which is
then predicted and held against what was measured; with the prices of all sizes, a graph that nobody
here has measured is reckoned for one machine and for several. What these machines are is assumed,
and printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.cost_model.fit import Check, checks, fit
from benchmarks.cost_model.model import (
    PROPAGATIONS,
    Machines,
    Prices,
    Size,
    Time,
    best_plan,
    blocked_memory,
    blocked_time,
    blocked_width,
    least_memory,
    network_bytes,
    ray_memory,
    ray_time,
    storage_bytes,
    train_memory,
    train_time,
)
from benchmarks.measured import read_cases, tell
from benchmarks.ray_cost.table import COMMAND as MEASURING
from benchmarks.ray_cost.table import gather
from proptrain import cli
from proptrain.errors import InvalidInputError
from proptrain.experiments.grid import MISSING, Table
from proptrain.system.memory import in_words, parse_memory

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    measured: Annotated[Path, typer.Argument(help="What benchmarks.ray_cost wrote.")],
    page: Annotated[
        Path | None, typer.Option(help="Page to put the tables into, between their two marks.")
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")] = 111_000_000,
    entries: Annotated[int, typer.Option(min=0, help="Stored entries.")] = 3_200_000_000,
    classes: Annotated[int, typer.Option(min=2, help="Number of classes.")] = 172,
    features: Annotated[int, typer.Option(min=1, help="Number of features.")] = 128,
    machines: Annotated[
        list[int] | None, typer.Option(min=1, help="Machines. Repeatable. \\[default: 1 8 32 128]")
    ] = None,
    memory: Annotated[str, typer.Option(help="Memory of a machine.")] = "64GB",
    cores: Annotated[int, typer.Option(min=1, help="Cores of a machine.")] = 16,
    core_use: Annotated[
        float, typer.Option(min=0.01, max=1, help="What they bring, as a share of so many of one.")
    ] = 0.5,
    network: Annotated[
        float, typer.Option(help="Bytes a second that a machine receives.")
    ] = 1.25e9,
    disk: Annotated[float, typer.Option(help="Bytes a second from and to its disk.")] = 0.5e9,
    store_share: Annotated[
        float, typer.Option(min=0.01, max=0.9, help="Of its memory, what is Ray's object store.")
    ] = 0.3,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of training.")] = 20,
    batch_size: Annotated[int, typer.Option(min=1, help="Nodes in a batch.")] = 1_000_000,
) -> None:
    """Hold the model against what was measured, and print it for another graph."""
    lines = read_cases(measured, MEASURING)
    all_of_it = gather(lines)
    sizes = sorted({one.graph.entries for one in all_of_it})
    if len(sizes) < 2:
        raise InvalidInputError(
            f"The model must be held against a size that it does not know, so {measured} must have "
            f"two at least, got {len(sizes)}. Measure more: {MEASURING} FOLDER --out {measured}"
        )
    threads = int(lines[-1]["made_with"]["threads"])
    known = [one for one in all_of_it if one.graph.entries < sizes[-1]]
    held = checks(all_of_it, fit(known, threads), set(sizes[:-1]))
    size = Size(nodes, entries, classes, features)
    one = Machines(1, parse_memory(memory), cores, core_use, network, disk, store_share=store_share)
    several = [replace(one, count=count) for count in machines or (1, 8, 32, 128)]
    prices = fit(all_of_it, threads).prices
    tables = [check_table(held), large_table(size, several, (batch_size, epochs), prices)]
    parts = [f"**{table.title}**\n\n{table.to_markdown()}" for table in tables]
    tell("\n\n".join(parts), "cost_model tables", page)


def check_table(held: Sequence[Check]) -> Table:
    """Return the table of what the model says beside what was measured."""
    rows = [
        (
            check.what,
            f"{check.entries:,}",
            str(check.blocks),
            _written(check.model, check.unit),
            _written(check.measured, check.unit),
            f"{check.model / check.measured:.2f}" if check.measured else MISSING,
            "predicted" if check.is_predicted else "fitted",
        )
        for check in sorted(held, key=lambda check: (check.what, check.entries, check.blocks))
    ]
    header = ("quantity", "entries", "blocks", "model", "measured", "ratio", "this size was")
    notes = (
        "What is exchanged and the folder are counted without any price: predicted at every size.",
    )
    return Table("The model beside what was measured", header, tuple(rows), notes)


def _written(value: float, unit: str) -> str:
    return in_words(value) if unit == "B" else f"{value:.2f} s"


def large_table(
    size: Size, several: Sequence[Machines], training: tuple[int, int], prices: Prices
) -> Table:
    """Return the table for a graph that was not measured; training is by batch size and epochs."""
    rows = [
        _blocked_row(size, machines, training, prices)
        if machines.count == 1
        else _ray_row(size, machines, training, prices)
        for machines in several
    ]
    header = (
        *("machines", "engine", "blocks", "CPUs for Ray", "columns at a time", "memory each"),
        "network a step",
        *("propagating", "computing", "telling", "network", "disk", "training", "all"),
    )
    one, (batch, epochs) = several[0], training
    notes = (
        f"Assumed of a machine: {in_words(one.memory)} of memory, {one.cores} cores that bring "
        f"{one.use:.0%} of so many times one, {in_words(one.cache)} of caches, "
        f"{in_words(one.network)} a second from the network, "
        f"{in_words(one.disk)} a second from and to disk; of the edges, that they lead anywhere. "
        f"Of its memory {in_words(one.store)} are Ray's object store; what does not fit there goes "
        "to disk and comes back. Nothing overlaps.",
        f"{PROPAGATIONS} propagations of 10 steps, parted into computing, telling others what to "
        f"do, network and disk; {epochs} epochs in batches of {batch:,}; {size.features} features. "
        f"On disk lie {in_words(storage_bytes(size))}.",
    )
    title = f"{size.nodes:,} nodes, {size.entries:,} entries, {size.columns} classes"
    return Table(title, header, tuple(rows), notes, n_labels=1)


def _blocked_row(
    size: Size, machine: Machines, training: tuple[int, int], prices: Prices
) -> tuple[str, ...]:
    width = blocked_width(size, machine, prices)
    if width is None:
        least = in_words(blocked_memory(size, 4, prices))
        return ("1", "blocked", "1", MISSING, MISSING, f"{least}: too much", *[MISSING] * 8)
    memory = max(
        blocked_memory(size, width, prices), train_memory(size, machine, training[0], prices)
    )
    time = blocked_time(size, machine, width, prices)
    times = _times(time, train_time(size, machine, *training, prices))
    return ("1", "blocked", "1", MISSING, str(width), in_words(memory), MISSING, *times)


def _ray_row(
    size: Size, machines: Machines, training: tuple[int, int], prices: Prices
) -> tuple[str, ...]:
    plan, count = best_plan(size, machines, prices), str(machines.count)
    if plan is None:
        least = in_words(least_memory(size, machines, prices))
        return (count, "ray", *[MISSING] * 3, f"{least}: too much", *[MISSING] * 8)
    memory = max(
        ray_memory(size, machines, plan, prices), train_memory(size, machines, training[0], prices)
    )
    sent = network_bytes(size, machines.count, plan.blocks, plan.width)
    time = ray_time(size, machines, plan, prices)
    times = _times(time, train_time(size, machines, *training, prices, plan.cpus))
    return (count, "ray", *map(str, plan), in_words(memory), in_words(sent), *times)


def _times(once: Time, trained: Time) -> tuple[str, ...]:
    spread = once.times(PROPAGATIONS)
    parts = (spread.computing, spread.telling, spread.network, spread.disk)
    seconds = (spread.total, *parts, trained.total, spread.total + trained.total)
    return tuple(in_time(one) for one in seconds)


def in_time(seconds: float) -> str:
    """Write seconds for humans.

    >>> in_time(7), in_time(150), in_time(9000)
    ('7 s', '2.5 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    cli.main(app, "python -m benchmarks.cost_model")
