"""Which runs an experiment needs, and when two of them are the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import TYPE_CHECKING

from proptrain.data.catalog import CATALOG
from proptrain.data.splits import TEST_SEEDS, VALIDATION_SEEDS, seeds_for

if TYPE_CHECKING:
    from proptrain.experiments.protocol import Run
    from proptrain.experiments.specs import Experiment

N_INITIALISATIONS = 5
LABELS_PER_CLASS = 20
"""That train, where an experiment does not say otherwise."""
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
    alpha: float | None = None
    noise_kind: str | None = None
    noise: float | None = None
    labels_per_class: int | None = None
    labels_alone: bool = False
    timed: bool = False
    validation: bool = False
    experiment: str = field(default="", compare=False)

    def __str__(self) -> str:
        """Say what is run, as one would to a colleague."""
        noise = "" if self.noise is None else f" with {self.noise:.0%} {self.noise_kind} noise"
        few = "" if self.labels_per_class is None else f", {self.labels_per_class} labels per class"
        seeds = f"split {self.split_seed}, initialisation {self.init_seed}"
        alone = ", no stopping nodes" if self.labels_alone else ""
        return f"{self.method} on {self.dataset}{noise}{few}{alone} ({seeds})"


def canonical(task: Task) -> Task:
    """Return the task without what makes no difference to its method, so that equals are equal.

    >>> noisy = Task("cora", "MLP", 7, 0, steps=2, noise_kind="structure", noise=0.5)
    >>> canonical(noisy) == Task("cora", "MLP", 7, 0)
    True
    """
    from proptrain.experiments.methods import METHODS  # brings torch along

    method = METHODS.get(task.method)
    if task.noise_kind not in (None, "structure") and task.noise == 0:
        # Rate 0 of structure noise is something else: it takes the graph's own noise away.
        task = _without_noise(task)
    if task.labels_per_class == LABELS_PER_CLASS:
        task = replace(task, labels_per_class=None)
    if method is not None and not method.uses_graph:
        task = replace(task, steps=Task.steps)
        task = _without_noise(task) if task.noise_kind == "structure" else task
    if method is not None and not method.trains:
        task = replace(task, init_seed=0, labels_alone=False)
    return task


def _without_noise(task: Task) -> Task:
    return replace(task, noise_kind=None, noise=None)


def task_of(run: Run) -> Task:
    """Return the task that a run has done, as `list_tasks` would list it."""
    return canonical(Task(**{own.name: getattr(run, own.name) for own in fields(Task)}))


def runs_of(experiment: Experiment, runs: Iterable[Run]) -> list[Run]:
    """Return the runs that count for an experiment, in the order of `list_tasks`.

    A run that noise cannot change stands for every rate of it, each time with that rate. It
    counts once at each: more often would pass for more runs, and narrow the interval.
    """
    done = {task_of(run): run for run in runs}
    wanted = dict.fromkeys(
        (canonical(task), task.noise_kind, task.noise, task.labels_per_class, task.labels_alone)
        for task in _wanted_tasks([experiment])
    )
    return [
        replace(
            done[task],
            noise_kind=kind,
            noise=rate,
            labels_per_class=labels,
            labels_alone=alone,
        )
        for task, kind, rate, labels, alone in wanted
        if task in done
    ]


def list_tasks(experiments: Iterable[Experiment]) -> list[Task]:
    """List the runs that experiments need, each of them once.

    Results grow evenly: everything for the first seed comes before the second seed, and small
    data sets before large ones. Every split has its turn before a second initialisation has.
    """
    return list(dict.fromkeys(map(canonical, _wanted_tasks(experiments))))


def _wanted_tasks(experiments: Iterable[Experiment]) -> Iterable[Task]:
    """Yield what experiments ask for in so many words, whether or not two of them are the same."""
    wanted = [experiment for experiment in experiments if experiment.has_runs]
    n_runs = max((experiment.n_runs for experiment in wanted), default=0)
    seeds = {False: seeds_for(n_runs), True: seeds_for(n_runs, VALIDATION_SEEDS)}
    for run in range(n_runs):
        for dataset in CATALOG:  # from small to large
            for experiment in wanted:
                if run < experiment.n_runs and dataset in experiment.datasets:
                    yield from _tasks_of(experiment, dataset, *seeds[experiment.validation][run])


def _tasks_of(
    experiment: Experiment, dataset: str, split_seed: int, init_seed: int
) -> Iterable[Task]:
    for rate, labels in product(experiment.rates, experiment.labels):
        for method in experiment.methods:
            yield Task(
                dataset,
                method,
                split_seed,
                init_seed,
                steps=experiment.steps,
                noise_kind=experiment.noise,
                noise=rate,
                labels_per_class=labels,
                labels_alone=experiment.labels_alone,
                timed=experiment.alone,
                validation=experiment.validation,
                experiment=experiment.name,
            )
