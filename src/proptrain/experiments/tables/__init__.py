"""The paper's tables, and the numbers behind its figures, with ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from proptrain.data.dataset import Dataset
from proptrain.experiments.grid import Table
from proptrain.experiments.protocol import Run
from proptrain.experiments.specs import Experiment, Kind
from proptrain.experiments.tables.accuracy import accuracy_table
from proptrain.experiments.tables.behind_figures import box_table, curve_table
from proptrain.experiments.tables.differences import differences_table
from proptrain.experiments.tables.facts import characteristics_table, statistics_table
from proptrain.experiments.tables.times import epoch_time_table, total_time_table
from proptrain.experiments.tasks import runs_of

_OF_RUNS: dict[Kind, Callable[[Experiment, Sequence[Run]], Table]] = {
    "accuracy": accuracy_table,
    "differences": differences_table,
    "epoch-time": epoch_time_table,
    "total-time": total_time_table,
    "box": box_table,
}


def make_table(
    experiment: Experiment,
    runs: Iterable[Run],
    datasets: Mapping[str, Dataset] = MappingProxyType({}),
) -> Table:
    """Return the experiment's table, or the numbers behind its figure, from whatever has run.

    Data sets that are not given are left out of what is measured on them.
    """
    if experiment.kind == "statistics":
        return statistics_table(experiment, datasets)
    if experiment.kind == "characteristics":
        return characteristics_table(experiment)
    own = runs_of(experiment, runs)
    if experiment.kind == "curve":
        return curve_table(experiment, own, datasets)
    return _OF_RUNS[experiment.kind](experiment, own)
