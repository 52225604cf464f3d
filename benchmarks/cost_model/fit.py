"""Find the prices in what `benchmarks.ray_cost` has measured, and hold the model against it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from benchmarks.cost_model.model import (
    STEPS,
    Machines,
    Plan,
    Prices,
    Size,
    batch_row,
    blocked_memory,
    exchanged_bytes,
    fetched,
    graph_bytes,
    multiplied,
    multiplying,
    needed_rows,
    network_work,
    ray_memory,
    ray_time,
    train_memory,
)
from benchmarks.ray_cost.one import BATCH, N_FEATURES
from benchmarks.ray_cost.table import Measured, Took
from proptrain.errors import InvalidInputError
from proptrain.kernels.columns import WIDTHS


@dataclass(frozen=True)
class Fitted:
    """Prices, and how well the machine that was measured on used its cores."""

    prices: Prices
    ray_cpu: tuple[float, float]
    """CPU seconds, of all processes, for a task and for a piece."""
    here: Machines


@dataclass(frozen=True)
class Check:
    """What the model says of something, and what was measured."""

    what: str
    entries: int
    blocks: int
    model: float
    measured: float
    unit: str
    is_predicted: bool
    """Whether nothing of this size was used to find the prices."""


def size_of(one: Measured) -> Size:
    """Return the sizes of what was measured."""
    return Size(one.nodes, one.stored, one.graph.columns, N_FEATURES)


def width_of(one: Measured) -> int:
    """Return the kernel's width that so many columns have."""
    return next(width for width in WIDTHS if width >= min(one.graph.columns, WIDTHS[-1]))


def plan_of(one: Measured, here: Machines) -> Plan:
    """Return how the machine that was measured on was used: Ray had all its cores."""
    return Plan(one.graph.blocks, here.cores, width_of(one))


def fit(measured: Sequence[Measured], threads: int) -> Fitted:
    """Find the prices, none below 0, that explain best, relatively, what was measured."""
    whole = [one for one in measured if _is_whole(one)]
    on_ray = [one for one in measured if ("propagate", "ray") in one.took]
    if not whole or len(on_ray) < 3:
        raise InvalidInputError(
            "To find the prices, the file must have all engines at one size at least, and Ray with "
            "three numbers of blocks or sizes. Measure them: python -m benchmarks.ray_cost."
        )
    blocked = [one.took["propagate", "blocked"] for one in whole]
    trained = [one.took["train", "blocked"] for one in whole]
    here = Machines(1, cores=threads, use=_use([*blocked, *trained], threads), memory=math.inf)
    multiply, fetch = _cpu_prices([_looked_up(one, here) for one in whole], blocked)
    (train,) = _cpu_prices([(network_work(size_of(one)),) for one in whole], trained)
    known = Prices(multiply, fetch, 0.0, 0.0, 0.0, train)
    hand_on, *ray_cpu = _ray_cpu(on_ray, known, here)
    known = replace(known, hand_on=hand_on)
    task, piece = _telling(on_ray, known, here)
    prices = replace(known, task=task, piece=piece)
    bases = _bases(whole, on_ray, prices, here)
    return Fitted(replace(prices, **bases), (ray_cpu[0], ray_cpu[1]), here)


def _is_whole(one: Measured) -> bool:
    return {("propagate", "blocked"), ("train", "blocked")} <= one.took.keys()


def _use(took: Sequence[Took], threads: int) -> float:
    """Return how much of the threads was used; long jobs tell more, being the ones to reckon."""
    used = sum(one.cpu_seconds for one in took) / sum(one.seconds for one in took)
    return min(1.0, used / threads)


def _looked_up(one: Measured, here: Machines) -> tuple[float, float]:
    size, width = size_of(one), width_of(one)
    return multiplied(size, width), fetched(size, here, width, size.nodes)


def _cpu_prices(work: Sequence[tuple[float, ...]], took: Sequence[Took]) -> list[float]:
    """Return the price of each kind of work, from CPU seconds."""
    seconds = np.array([one.cpu_seconds for one in took])
    return [float(price) for price in _prices(np.array(work), seconds, seconds)]


def _prices(
    work: NDArray[np.float64], seconds: NDArray[np.float64], whole: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return prices of several kinds of work (cases, kinds) that explain the seconds (cases,).

    An error counts relative to the ``whole`` time of a case, or the largest alone would count.
    """
    scale, whole = np.maximum(work.max(axis=0), 1), np.maximum(whole, 1e-3)  # below 1 ms is noise
    found, _ = nnls(work / scale / whole[:, None], seconds / whole)
    return np.asarray(found / scale)


def _ray_work(one: Measured) -> tuple[float, float, float]:
    blocks = one.graph.blocks
    return STEPS * float(one.exchanged_bytes), STEPS * blocks, STEPS * blocks**2


def _ray_cpu(on_ray: Sequence[Measured], known: Prices, here: Machines) -> list[float]:
    """Return CPU seconds for a byte handed on, a task and a piece: what is not multiplying."""
    work = np.array([_ray_work(one) for one in on_ray])
    own = [
        _multiplying(one, needed_rows(size_of(one), one.graph.blocks), known, here)
        for one in on_ray
    ]
    seconds = np.array([one.took["propagate", "ray"].cpu_seconds for one in on_ray])
    return [float(price) for price in _prices(work, seconds - own, seconds)]


def _multiplying(one: Measured, rows: float, prices: Prices, here: Machines) -> float:
    return multiplying(size_of(one), here, width_of(one), rows, prices)


def _telling(on_ray: Sequence[Measured], known: Prices, here: Machines) -> tuple[float, float]:
    """Return seconds for a task and a piece: what of the wall time is not computing."""
    work = np.array([_ray_work(one)[1:] for one in on_ray])
    seconds = np.array([one.took["propagate", "ray"].seconds for one in on_ray])
    computing = [_computing(one, known, here) for one in on_ray]
    task, piece = _prices(work, seconds - computing, seconds)
    return float(task), float(piece)


def _computing(one: Measured, prices: Prices, here: Machines) -> float:
    return ray_time(size_of(one), here, plan_of(one, here), prices).computing


def _bases(
    whole: Sequence[Measured], on_ray: Sequence[Measured], prices: Prices, here: Machines
) -> dict[str, float]:
    """Return what processes have without any graph: what the counts do not explain."""
    blocked, ray, train = [], [], []
    for one in whole:
        size = size_of(one)
        own = size.matrix + blocked_memory(size, width_of(one), prices)
        blocked.append(one.took["propagate", "blocked"].peak_memory - own)
        batch = min(BATCH, size.nodes) * batch_row(size)
        train.append(one.took["train", "blocked"].peak_memory - batch)
    for one in on_ray:
        size = size_of(one)
        own = size.matrix + ray_memory(size, here, plan_of(one, here), prices)
        ray.append((one.took["propagate", "ray"].peak_memory - own) / here.cores)
    names = ("blocked_base", "ray_base", "train_base")
    means = (max(0.0, float(np.mean(rest))) for rest in (blocked, ray, train))
    return dict(zip(names, means, strict=True))


def checks(measured: Sequence[Measured], fitted: Fitted, known: set[int]) -> list[Check]:
    """Return what the model says of everything that was measured; ``known`` sizes were fitted."""
    found = []
    for one in measured:
        is_predicted = one.graph.entries not in known
        for what, model, seen, unit in _compared(one, fitted):
            case = (one.stored, one.graph.blocks, model, seen, unit, is_predicted)
            found.append(Check(what, *case))
    return found


def _compared(one: Measured, fitted: Fitted) -> list[tuple[str, float, float, str]]:
    size, width, blocks = size_of(one), width_of(one), one.graph.blocks
    prices, here = fitted.prices, fitted.here
    told: list[tuple[str, float, float, str]] = []
    if (took := one.took.get(("propagate", "blocked"))) is not None:
        computing = _multiplying(one, size.nodes, prices, here)
        memory = size.matrix + blocked_memory(size, width, prices)  # the signal is in memory here
        told += [
            ("blocked: CPU", computing, took.cpu_seconds, "s"),
            ("blocked: time", computing / here.speed, took.seconds, "s"),
            ("blocked: memory", memory, took.peak_memory, "B"),
        ]
    if (took := one.took.get(("propagate", "ray"))) is not None:
        bytes_sent, tasks, pieces = _ray_work(one)
        telling = fitted.ray_cpu[0] * tasks + fitted.ray_cpu[1] * pieces
        plan = plan_of(one, here)
        time = ray_time(size, here, plan, prices)
        memory = size.matrix + ray_memory(size, here, plan, prices)
        computing = _multiplying(one, needed_rows(size, blocks), prices, here)
        cpu = computing + prices.hand_on * bytes_sent + telling
        told += [
            ("Ray: CPU", cpu, took.cpu_seconds, "s"),
            ("Ray: time", time.computing + time.telling, took.seconds, "s"),
            ("Ray: memory", memory, took.peak_memory, "B"),
        ]
    if (took := one.took.get(("train", "blocked"))) is not None:
        work = prices.train * network_work(size)
        memory = train_memory(size, here, BATCH, prices)
        told += [
            ("epoch: CPU", work, took.cpu_seconds, "s"),
            ("epoch: time", work / here.speed, took.seconds, "s"),
            ("epoch: memory", memory, took.peak_memory, "B"),
        ]
    sent = exchanged_bytes(size, blocks, size.columns)
    return [
        *told,
        ("exchanged a step", sent, one.exchanged_bytes, "B"),
        ("graph folder", graph_bytes(size, blocks), one.folder_bytes, "B"),
    ]
