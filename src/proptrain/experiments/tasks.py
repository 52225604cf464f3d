"""Which runs an experiment needs, and when two of them are the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from proptrain.data.catalog import CATALOG
from proptrain.data.splits import TEST_SEEDS, seeds_for

if TYPE_CHECKING:
    from proptrain.experiments.protocol import Run
    from proptrain.experiments.specs import Experiment

N_INITIALISATIONS = 5
MAX_RUNS = len(TEST_SEEDS) * N_INITIALISATIONS


@dataclass(frozen=True)
class Task:
    """One run that is to be made, and at once its identity: equal tasks have equal results.

    For which experiment it is made does not count, so tables that compare the same things share
    their runs. Whether it is timed does: such a run has the machine for itself. Each field is one
    of `Run` too.
    """

    dataset: str
    method: str
    split_seed: int
    init_seed: int
    steps: int = 10
    noise_kind: str | None = None
    noise: float | None = None
    labels_per_class: int | None = None
    timed: bool = False
    experiment: str = field(default="", compare=False)

    def __str__(self) -> str:
        """Say what is run, as one would to a colleague."""
        noise = "" if self.noise is None else f" with {self.noise:.0%} {self.noise_kind} noise"
        seeds = f"split {self.split_seed}, initialisation {self.init_seed}"
        return f"{self.method} on {self.dataset}{noise} ({seeds})"


def task_of(run: Run) -> Task:
    """Return the task that a run has done."""
    return Task(**{own.name: getattr(run, own.name) for own in fields(Task)})


def runs_of(experiment: Experiment, runs: Iterable[Run]) -> list[Run]:
    """Return the runs that count for an experiment, each once and in the order of `list_tasks`."""
    done = {task_of(run): run for run in runs}
    return [done[task] for task in list_tasks([experiment]) if task in done]


def list_tasks(experiments: Iterable[Experiment]) -> list[Task]:
    """List the runs that experiments need, each of them once.

    Results grow evenly: everything for the first seed comes before the second seed, and small
    data sets before large ones. Every split has its turn before a second initialisation has.
    """
    wanted = [experiment for experiment in experiments if experiment.has_runs]
    n_runs = max((experiment.n_runs for experiment in wanted), default=0)
    tasks = [
        task
        for run, (split_seed, init_seed) in enumerate(seeds_for(n_runs))
        for dataset in CATALOG  # from small to large
        for experiment in wanted
        if run < experiment.n_runs and dataset in experiment.datasets
        for task in _tasks_of(experiment, dataset, split_seed, init_seed)
    ]
    return list(dict.fromkeys(tasks))


def _tasks_of(
    experiment: Experiment, dataset: str, split_seed: int, init_seed: int
) -> Iterable[Task]:
    for rate in experiment.rates:
        for method in experiment.methods:
            yield Task(
                dataset,
                method,
                split_seed,
                init_seed,
                steps=experiment.steps,
                noise_kind=experiment.noise,
                noise=rate,
                timed=experiment.alone,
                experiment=experiment.name,
            )
