"""What was measured, as a Markdown table with a verdict on each claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.from_disk.parts import ENGINES, PARTS
from benchmarks.measured import Line
from proptrain.errors import InvalidInputError
from proptrain.experiments.grid import MISSING, Table
from proptrain.system.memory import in_words, parse_memory

COMMAND = "python -m benchmarks.from_disk"
MOST = 3.0
"""Times the in-memory time that the work from disk may take."""
_ALL = "all four"


def table_of(lines: Sequence[Line]) -> Table:
    """Return the table of the last problem that a file has."""
    if not lines:
        raise InvalidInputError(f"Nothing is measured yet. Do it with: {COMMAND} FOLDER --out FILE")
    job = _job_of(lines[-1])
    done = {
        (line["case"]["part"], line["case"]["engine"]): line
        for line in lines
        if _job_of(line) == job
    }
    rows = [_row(part, *_engines(done, part)) for part in PARTS[:-1]]
    sums = [_sum_of([done.get((part, engine)) for part in PARTS[:-1]]) for engine in ENGINES]
    rows += [_row(_ALL, *sums), _row("the last three in one process", *_engines(done, PARTS[-1]))]
    header = (
        *("part", "from disk: peak", "time", "in memory: peak", "time", "ratio of times"),
        f"in memory, within {job['memory']}",
    )
    return Table(_title(job), header, tuple(rows), tuple(_notes(job, done, sums)))


def _job_of(line: Line) -> dict[str, Any]:
    return {name: value for name, value in line["case"].items() if name not in ("part", "engine")}


def _engines(done: dict[tuple[str, str], Line], part: str) -> list[Line | None]:
    return [done.get((part, engine)) for engine in ENGINES]


def _row(
    name: str, disk: Line | None, memory: Line | None, limited: Line | None
) -> tuple[str, ...]:
    times = [_seconds(disk), _seconds(memory)]
    ratio = f"{times[0] / times[1]:.2f}" if times[0] and times[1] else MISSING
    told = [cell for line in (disk, memory) for cell in (_peak(line), _time(line))]
    return (name, *told, ratio, _outcome(limited))


def _sum_of(lines: Sequence[Line | None]) -> Line | None:
    """Return the parts as one: the highest peak, the sum of times, the first failure."""
    there = [line for line in lines if line is not None]
    if len(there) < len(lines):
        return None
    failures = [line for line in there if line["failed"] is not None]
    whole: Line = {"peak_memory": max(line["peak_memory"] for line in there)}
    if failures:
        return {**failures[0], **whole, "part": failures[0]["case"]["part"]}
    return {**whole, "failed": None, "seconds": sum(line["seconds"] for line in there)}


def _seconds(line: Line | None) -> float | None:
    return None if line is None or line["failed"] is not None else float(line["seconds"])


def _time(line: Line | None) -> str:
    seconds = _seconds(line)
    return _outcome(line) if seconds is None else f"{seconds:.1f} s"


def _peak(line: Line | None) -> str:
    return MISSING if line is None else in_words(line["peak_memory"])


def _outcome(line: Line | None) -> str:
    if line is None:
        return MISSING
    if line["failed"] is None:
        return "done"
    where = f" in {line['part']}" if "part" in line else ""
    return f"{line['failed']}{where} after {line['process_seconds']:.1f} s"


def _title(job: dict[str, Any]) -> str:
    return f"{job['nodes']:,} nodes, {2 * job['edges']:,} entries, {job['classes']} classes"


def _notes(
    job: dict[str, Any], done: dict[tuple[str, str], Line], sums: Sequence[Line | None]
) -> list[str]:
    sizes = f"{job['features']} features, {job['epochs']} epochs"
    notes = [f"{_title(job)}, {sizes}; the limit is {job['memory']}."]
    notes += [f"{'Held' if held else 'NOT held'}: {claim}." for claim, held in _claims(job, sums)]
    right = {engine: (done.get(("fit", engine)) or {}).get("right") for engine in ENGINES[:2]}
    if None not in right.values():
        shares = [f"{right[engine]:.2%}" for engine in ENGINES[:2]]
        notes.append(
            f"Of the nodes without a label {shares[0]} are told right from disk, {shares[1]} in "
            "memory."
        )
    made = next(iter(done.values()))["made_with"]
    loads = [line["load"] for line in done.values()]
    notes.append(
        f"Measured on {made['day']} with {made['threads']} threads, code {made['code']}; the load "
        f"of the machine before a part was at most {max(loads):.1f}."
    )
    return notes


def _claims(job: dict[str, Any], sums: Sequence[Line | None]) -> list[tuple[str, bool]]:
    """Return what is claimed and whether it was so, as far as it was measured."""
    disk, memory, limited = sums
    claims, limit = [], parse_memory(job["memory"])
    if disk is not None:
        within = disk["failed"] is None and disk["peak_memory"] <= limit
        claims.append((f"from disk every part stays within {job['memory']}", within))
    if limited is not None:
        claims.append(
            (f"the engine in memory fails within {job['memory']}", bool(limited["failed"]))
        )
    times = [_seconds(disk), _seconds(memory)]
    if times[0] and times[1]:
        is_quick = times[0] <= MOST * times[1]
        claims.append((f"all four take at most {MOST:g} times as long from disk", is_quick))
    return claims
