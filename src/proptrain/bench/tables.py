"""What was measured, as tables: for the screen, and as Markdown for a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from proptrain.bench.results import Measured
from proptrain.bench.timing import Timed
from proptrain.experiments.grid import Table, markdown


def tables_of(measured: Iterable[Measured]) -> list[Table]:
    """Return a table of times for each suite, and one of memory where that was measured too."""
    tables = []
    for (_, title), group in groupby(measured, key=lambda one: (one.suite, one.title)):
        cases = sorted(group, key=_n_entries)  # which may have been measured in several goes
        rows = tuple(row for case in cases for row in _time_rows(case))
        tables.append(Table(title, _TIMES, rows, n_labels=2))
        if memory := tuple(_memory_row(case) for case in cases if case.memory):
            tables.append(Table(f"{title}: memory", _MEMORY, memory))
    return tables


def to_markdown(measured: Sequence[Measured]) -> str:
    """Return all tables as Markdown, under what they were made with."""
    parts = [_made_with(measured)]
    for table in tables_of(measured):
        title = table.title[:1].upper() + table.title[1:]
        parts.append(f"### {markdown(title)}\n\n{table.to_markdown()}")
    return "\n\n".join(parts)


_TIMES = ("case", "by", "time", "times the baseline's", "speed")
_MEMORY = ("case", "graph and 3 signals", "taken at the peak", "is of that")


def _time_rows(measured: Measured) -> list[tuple[str, ...]]:
    baseline = measured.times[measured.baseline]
    return [
        (
            measured.case,
            name,
            duration(timed.median),
            "baseline" if name == measured.baseline else str(timed.over(baseline)),
            _speed(measured, timed),
        )
        for name, timed in measured.times.items()
    ]


def _n_entries(measured: Measured) -> float:
    """Return the size of a made-up graph; all others keep their order."""
    return measured.amount if measured.unit == "entries" else 0


def _memory_row(measured: Measured) -> tuple[str, ...]:
    memory = measured.memory
    assert memory is not None
    return (
        measured.case,
        size(memory.allowed),
        size(memory.taken),
        f"{memory.taken / memory.allowed:.2f} ×",
    )


def _speed(measured: Measured, timed: Timed) -> str:
    """Tell the median as a rate of what the jobs do."""
    amount, seconds = measured.amount, timed.median
    if timed.n_epochs:
        return f"{1e3 * seconds / timed.n_epochs:,.2f} ms an epoch, of {timed.n_epochs:,}"
    match measured.unit:
        case "operations":
            return f"{amount / seconds / 1e9:.1f} GFLOP/s"
        case "bytes":
            return f"{amount / seconds / 1e9:.1f} GB/s"
        case "entries":
            return f"{1e9 * seconds / amount:.2f} ns an entry"
        case "":
            return ""


def duration(seconds: float) -> str:
    """Write a time.

    >>> duration(0.0123456), duration(1234.5)
    ('12.3 ms', '1,234 s')
    """
    return _in_units(seconds, {"s": 1.0, "ms": 1e-3, "µs": 1e-6})


def size(n_bytes: float) -> str:
    """Write a number of bytes.

    >>> size(2_345_000_000), size(450_000)
    ('2.35 GB', '450 kB')
    """
    return _in_units(n_bytes, {"GB": 1e9, "MB": 1e6, "kB": 1e3})


def _in_units(number: float, units: Mapping[str, float]) -> str:
    """Write three digits of a number, in the largest unit that it has at least one of."""
    fitting = (name for name, unit in units.items() if number >= 0.9995 * unit)
    name = next(fitting, list(units)[-1])
    scaled = number / units[name]
    return f"{scaled:,.0f} {name}" if scaled >= 99.95 else f"{scaled:.3g} {name}"


def _made_with(measured: Sequence[Measured]) -> str:
    """Tell the machine, the packages and the day, once if they are the same for all."""
    states = {tuple(one.made_with.items()): None for one in measured}
    lines = (", ".join(f"{name} {value}" for name, value in state) for state in states)
    return "\n\n".join(f"Measured with {markdown(line)}." for line in lines)
