"""What propagation and training take, as functions of the sizes, the machines and a few prices.

Counts (entries multiplied, bytes sent, pieces cut) follow from what the engines do; prices are
found by `fit`. Nothing is taken to overlap: computing, network and disk add up. The edges lead
anywhere, so that a graph with communities, renumbered, sends less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from proptrain.kernels.columns import WIDTHS
from proptrain.large.from_disk import batch_row_bytes
from proptrain.propagate.cluster import task_room
from proptrain.propagate.engine import is_large
from proptrain.propagate.exchange import task_bytes

STEPS = 10
PROPAGATIONS = 3
"""Of the training labels, of the stopping labels, of the predictions."""
_FLOAT = 4
_STATES = 3
"""That the engine from disk has in memory: the signal, before and after a step."""
_MATRICES = 4
"""Of nodes × classes, that lie on disk at the same time at most."""
_LARGEST_STORE = 200e9
"""Bytes that Ray takes for its object store at most, unless told otherwise."""


@dataclass(frozen=True)
class Size:
    """A graph, its classes, and the table that is trained on."""

    nodes: int
    entries: int
    columns: int
    features: int = 100
    hidden: int = 64

    @property
    def matrix(self) -> int:
        """Bytes of a matrix of nodes × classes."""
        return self.nodes * self.columns * _FLOAT

    @property
    def parameters(self) -> int:
        """Numbers that the network has."""
        return (self.features + 1) * self.hidden + (self.hidden + 1) * self.columns


@dataclass(frozen=True)
class Machines:
    """Machines that are all alike; rates are in bytes a second."""

    count: int = 1
    memory: float = 64e9
    cores: int = 16
    use: float = 0.5
    """What so many cores bring, as a share of so many times one: they wait for one memory."""
    network: float = 1.25e9
    disk: float = 0.5e9
    cache: float = 8e6
    """Bytes of the CPU's caches that a state can count on."""
    store_share: float = 0.3
    """Of the memory, what is Ray's object store: its default."""

    @property
    def speed(self) -> float:
        """Cores of one machine, as far as they are of use."""
        return max(1.0, self.cores * self.use)

    @property
    def store(self) -> float:
        """Bytes of Ray's object store."""
        return min(self.store_share * self.memory, _LARGEST_STORE)

    def task_memory(self, cpus: int) -> int:
        """Return the bytes that a task may need if Ray is told of so many CPUs."""
        return task_room(self.memory - self.store, cpus, self.store)


class Plan(NamedTuple):
    """How a cluster is used."""

    blocks: int
    """Of all machines."""
    cpus: int
    """That a machine offers Ray: so many tasks run there at a time."""
    width: int
    """Columns that go through the steps together."""


@dataclass(frozen=True)
class Prices:
    """Seconds of one core; bytes for what processes have without any graph."""

    multiply: float
    """For an entry and a column, in one step."""
    fetch: float
    """For the same, besides, where the state lies beyond the caches."""
    hand_on: float
    """For a byte that goes from block to block."""
    task: float
    """For a task: of the one process that tells all others what to do."""
    piece: float
    """For what goes from one block to another in a step: blocks × blocks of them; likewise."""
    train: float
    """For a multiplication of the network and a row, in one epoch."""
    blocked_base: float = 0.0
    ray_base: float = 0.0
    """For each core."""
    train_base: float = 0.0


@dataclass(frozen=True)
class Time:
    """Seconds, by what they go to."""

    computing: float = 0.0
    telling: float = 0.0
    """Tasks and pieces, which one process has to do with."""
    network: float = 0.0
    disk: float = 0.0

    @property
    def total(self) -> float:
        """All of them: nothing overlaps."""
        return self.computing + self.telling + self.network + self.disk

    def times(self, factor: float) -> Time:
        """Return the time of doing it so often."""
        return Time(*(factor * part for part in vars(self).values()))


# --- what there is to do --------------------------------------------------------------------------


def graph_bytes(size: Size, blocks: int = 1) -> float:
    """Return what the graph's folder has: neighbours, where rows begin, degrees, and headers."""
    return 4 * size.entries + 12 * size.nodes + 128 * (2 * blocks + 1) + 4 * blocks


def needed_rows(size: Size, blocks: int) -> float:
    """Return how many rows of the state a block needs if its neighbours are anywhere.

    Of n rows, e draws leave each out with probability exp(-e / n); locality makes it fewer.

    >>> round(needed_rows(Size(1000, 4000, 1), 4))
    724
    """
    own = size.nodes / blocks
    if not size.nodes:
        return 0.0
    return own + (size.nodes - own) * -math.expm1(-size.entries / blocks / size.nodes)


def exchanged_bytes(size: Size, blocks: int, width: int) -> float:
    """Return what all blocks together are sent in one step, their own rows included."""
    return blocks * needed_rows(size, blocks) * width * _FLOAT


def network_bytes(size: Size, machines: int, blocks: int, width: int) -> float:
    """Return what one machine receives from others in one step; blocks are those of all."""
    return exchanged_bytes(size, blocks, width) / machines * (1 - 1 / machines)


def rounds_of(columns: int, width: int) -> int:
    """Return how often all steps are gone through, with so many columns at a time."""
    return -(-columns // width)


def multiplied(size: Size, width: int) -> float:
    """Return entries × columns × steps of a propagation; columns are padded to a kernel's width."""
    return float(STEPS * size.entries * width * rounds_of(size.columns, width))


def fetched(size: Size, machines: Machines, width: int, rows: float) -> float:
    """Return how much of that is looked up beyond the caches, in a state of so many rows.

    Lookups lead anywhere, so the caches serve the share of a state that they hold.
    """
    state = max(1.0, rows * width * _FLOAT)
    return max(0.0, 1 - machines.cache / state) * multiplied(size, width)


def multiplying(size: Size, machines: Machines, width: int, rows: float, prices: Prices) -> float:
    """Return the seconds of one core that a propagation multiplies, looking up so many rows."""
    beyond = fetched(size, machines, width, rows)
    return prices.multiply * multiplied(size, width) + prices.fetch * beyond


def network_work(size: Size) -> float:
    """Return the multiplications of the network in an epoch."""
    return float(size.nodes * (size.features * size.hidden + size.hidden * size.columns))


def batch_row(size: Size) -> int:
    """Return the bytes that a row of a batch takes, as `fit_from_disk` reckons."""
    return batch_row_bytes(size.features, size.hidden, size.columns)


# --- one machine, from disk -----------------------------------------------------------------------


def blocked_memory(size: Size, width: int, prices: Prices) -> float:
    """Return what the process has at its peak: states of some columns, and factors."""
    return prices.blocked_base + size.nodes * (_STATES * width + 3) * _FLOAT


def blocked_width(size: Size, machine: Machines, prices: Prices) -> int | None:
    """Return how many columns go through the steps together, as the engine chooses; or None."""
    fits = [w for w in WIDTHS if blocked_memory(size, w, prices) <= machine.memory]
    return _narrowest(size.columns, fits)


def _narrowest(columns: int, fits: Sequence[int]) -> int | None:
    """Return the narrowest width that needs no more rounds than the widest, as the engines do."""
    if not fits:
        return None
    n_rounds = rounds_of(columns, fits[-1])
    return next(width for width in fits if width * n_rounds >= columns)


def blocked_time(size: Size, machine: Machines, width: int, prices: Prices) -> Time:
    """Return the time of one propagation from disk.

    The system keeps in memory what is left of it: what does not fit is read in each pass. In each
    round of columns the signal is read, and the result read and written, by rows that hold all.
    """
    n_rounds = rounds_of(size.columns, width)
    left = machine.memory - blocked_memory(size, width, prices)
    graph = graph_bytes(size)
    passes = 1 if graph <= left else STEPS * n_rounds
    matrices = 1 if graph + 2 * size.matrix <= left else n_rounds
    read = passes * graph + 3 * matrices * size.matrix
    work = multiplying(size, machine, width, size.nodes, prices)
    return Time(computing=work / machine.speed, disk=read / machine.disk)


# --- several machines, with Ray -------------------------------------------------------------------


class Stored(NamedTuple):
    """Bytes that a machine has in its object store."""

    kept: float
    """Blocks, which rows they send, and the signal: every step reads them."""
    result: float
    pieces: float
    """Of two steps: those that one is given, and those that it returns."""


def stored_bytes(size: Size, machines: Machines, plan: Plan) -> Stored:
    """Return what a machine has in its object store at the peak, its part of everything."""
    blocks, width = plan.blocks, plan.width
    sends = exchanged_bytes(size, blocks, 1)  # the number of a row is as long as one of its numbers
    whole = (
        4 * size.entries + 24 * size.nodes + sends + size.matrix,
        size.matrix,
        2 * exchanged_bytes(size, blocks, width),
    )
    return Stored(*(part / machines.count for part in whole))


def spilled_bytes(size: Size, machines: Machines, plan: Plan) -> float:
    """Return what a machine writes to disk and reads again because its store is full.

    Of everything the same share does not fit. What is kept is written once and read in each step,
    the result is written and read once, and pieces are written and read in each step.
    """
    stored = stored_bytes(size, machines, plan)
    share = max(0.0, 1 - machines.store / max(1.0, sum(stored)))
    steps = STEPS * rounds_of(size.columns, plan.width)
    passed = (1 + steps) * stored.kept + 2 * stored.result + steps * stored.pieces
    return share * passed


def ray_memory(size: Size, machines: Machines, plan: Plan, prices: Prices) -> float:
    """Return what a machine has at its peak: what its store holds, and running tasks."""
    stored = min(machines.store, sum(stored_bytes(size, machines, plan)))
    at_once = min(plan.cpus, plan.blocks / machines.count)
    task = (needed_rows(size, plan.blocks) + 2 * size.nodes / plan.blocks) * plan.width * _FLOAT
    return prices.ray_base * plan.cpus + stored + at_once * task


def ray_time(size: Size, machines: Machines, plan: Plan, prices: Prices) -> Time:
    """Return the time of one propagation on a cluster; a task has one core."""
    count, blocks, width = machines.count, plan.blocks, plan.width
    n_rounds = rounds_of(size.columns, width)
    handed_on = STEPS * n_rounds * exchanged_bytes(size, blocks, width)
    rows = needed_rows(size, blocks)
    work = multiplying(size, machines, width, rows, prices) + prices.hand_on * handed_on
    sent = STEPS * n_rounds * network_bytes(size, count, blocks, width)
    tasks = STEPS * n_rounds * blocks
    read = (graph_bytes(size, blocks) + size.matrix) / count
    return Time(
        computing=work / count / min(plan.cpus, blocks / count, machines.speed),
        telling=prices.task * tasks + prices.piece * tasks * blocks,
        network=sent / machines.network,
        disk=(read + spilled_bytes(size, machines, plan)) / machines.disk,
    )


def ray_width(size: Size, machines: Machines, blocks: int, cpus: int) -> int | None:
    """Return how many columns go through the steps together, as the engine chooses; or None.

    None is where it refuses: a task has too little memory for the fewest columns. Blocks are taken
    to be alike; of real ones the largest counts.
    """
    n_rows, n_entries = -(-size.nodes // blocks), -(-size.entries // blocks)
    n_needed = min(size.nodes, n_rows + n_entries)
    room = machines.task_memory(cpus)
    sizes = (size.nodes, n_needed, n_rows, n_entries)
    is_numbered = not is_large(size.nodes, size.entries)
    fits = [w for w in WIDTHS if task_bytes(*sizes, w, _FLOAT, is_numbered=is_numbered) <= room]
    return _narrowest(size.columns, fits)


def best_plan(size: Size, machines: Machines, prices: Prices) -> Plan | None:
    """Return the plan that is quickest, of those that the engine follows and that fit; or None.

    From one block a machine to two a core: more blocks keep more cores busy, and cost more pieces.
    Fewer CPUs give each task more memory, so that more columns go at a time.
    """
    plans = []
    for cpus in _powers_of_two(machines.cores):
        for each in _powers_of_two(2 * machines.cores):
            blocks = each * machines.count
            if (width := ray_width(size, machines, blocks, cpus)) is None:
                continue
            plan = Plan(blocks, cpus, width)
            if ray_memory(size, machines, plan, prices) <= machines.memory:
                plans.append((ray_time(size, machines, plan, prices).total, cpus, plan))
    return min(plans)[-1] if plans else None


def _powers_of_two(most: int) -> list[int]:
    return [2**power for power in range(most.bit_length())]


def least_memory(size: Size, machines: Machines, prices: Prices) -> float:
    """Return how much memory machines need for a plan: what they have, doubled until it will do."""
    while best_plan(size, machines, prices) is None:
        machines = replace(machines, memory=2 * machines.memory)
    return machines.memory


# --- training -------------------------------------------------------------------------------------


def train_memory(size: Size, machines: Machines, batch: int, prices: Prices) -> float:
    """Return what a process has at its peak, with its part of a batch."""
    rows = min(batch, size.nodes) / machines.count
    return prices.train_base + rows * batch_row(size)


def train_time(
    size: Size,
    machines: Machines,
    batch: int,
    epochs: int,
    prices: Prices,
    cpus: int | None = None,
) -> Time:
    """Return the time of so many epochs; gradients are added up over the network in each batch.

    On a cluster each machine first copies the rows that it trains on from where all see them, and
    trains by one process, which has as many threads as Ray was told of ``cpus``.
    """
    count = machines.count
    table = (size.nodes * size.features * _FLOAT + 2 * size.matrix) / count
    left = machines.memory - train_memory(size, machines, batch, prices)
    batches = -(-size.nodes // batch)
    gradients = 2 * size.parameters * _FLOAT * (1 - 1 / count)
    copied = table if count > 1 else 0.0
    reads = 1 if table <= left else epochs
    speed = min(cpus or machines.cores, machines.speed)
    return Time(
        computing=epochs * prices.train * network_work(size) / count / speed,
        network=(epochs * batches * gradients + copied) / machines.network,
        disk=(reads * table + copied) / machines.disk,
    )


def storage_bytes(size: Size) -> float:
    """Return what must lie on disk: graph, features, and soft labels and predictions meanwhile."""
    features = size.nodes * size.features * _FLOAT
    return graph_bytes(size) + features + _MATRICES * size.matrix
