"""What of an experiment has been run: what was made for it, and what is complete by sharing."""

from __future__ import annotations

from dataclasses import replace

from proptrain.experiments.coverage import covered, in_parts, widened
from proptrain.experiments.specs import EXPERIMENTS
from proptrain.experiments.tasks import list_tasks, task_of
from synthetic_runs import runs_for


def runs_made(name, **choice):
    experiment = EXPERIMENTS[name].narrowed(**choice)
    return [replace(run, experiment=name) for run in runs_for(experiment, lambda _: 80.0)]


def sizes(experiment):
    return experiment.datasets, experiment.methods, experiment.n_runs


def test_what_was_made_for_it_counts_however_little():
    runs = runs_made("label-noise", datasets=["pubmed", "cora"], methods=["PTS", "LP"], n_runs=3)
    part = covered(EXPERIMENTS["label-noise"], runs)
    assert sizes(part) == (("cora", "pubmed"), ("PTS", "LP"), 3)
    chosen = EXPERIMENTS["label-noise"].narrowed(datasets=["cora"], methods=["PTA"], n_runs=2)
    assert sizes(widened(chosen, runs)) == (("cora", "pubmed"), ("PTA", "PTS", "LP"), 3)


def test_runs_that_others_share_count_where_they_are_complete():
    runs = runs_made("table5", datasets=["cora_ml"], methods=["MLP", "PTA"])
    # Noise changes no MLP, so a hundred of its runs are more than enough for every rate. Those
    # of PTA serve the rate of no wrong labels alone.
    assert sizes(covered(EXPERIMENTS["structure-noise"], runs)) == (("cora_ml",), ("MLP",), 10)
    assert covered(EXPERIMENTS["label-noise"], runs).datasets == ()
    assert sizes(widened(EXPERIMENTS["label-noise"], runs)) == sizes(EXPERIMENTS["label-noise"])
    few = runs_made("table5", datasets=["cora_ml"], methods=["MLP"], n_runs=5)
    assert covered(EXPERIMENTS["structure-noise"], few).methods == ()


def test_runs_that_others_share_do_not_ask_for_more():
    runs = runs_made("table5", datasets=["cora"], methods=["PTA"], n_runs=2)
    chosen = EXPERIMENTS["initialisation"].narrowed(datasets=["cora"], methods=["PTA"], n_runs=2)
    assert widened(chosen, runs) == chosen


def test_parts_are_just_what_was_chosen_or_run():
    runs = [
        run
        for datasets, methods in (
            (["cora", "pubmed"], ["LP", "PTA"]),
            (["cora", "cora_ml", "ms_academic"], ["MLP"]),
            (["pubmed"], ["MLP"]),
        )
        for run in runs_made("table5", datasets=datasets, methods=methods, n_runs=2)
    ]
    whole = EXPERIMENTS["table5"]
    parts = in_parts(covered(whole, runs), [], runs)
    assert [sizes(part) for part in parts] == [
        (("cora", "pubmed"), ("MLP", "PTA", "LP"), 2),
        (("cora_ml", "ms_academic"), ("MLP",), 2),
    ]
    assert set(list_tasks(parts)) == {task_of(run) for run in runs}
    chosen = [whole.narrowed(datasets=["cora_ml"], methods=["LP"], n_runs=2), EXPERIMENTS["table4"]]
    parts = in_parts(widened(chosen[0], runs), chosen, runs)
    assert [sizes(part)[:2] for part in parts[1:]] == [
        (("cora_ml",), ("MLP", "LP")),
        (("ms_academic",), ("MLP",)),
    ]


def test_parts_have_what_others_ran_at_every_rate():
    runs = [
        *runs_made("table5", datasets=["cora", "pubmed"], methods=["MLP", "PTA"], n_runs=2),
        *runs_made("table8", datasets=["cora"], methods=["PTA(F)"], n_runs=2),
        *runs_made("table8", datasets=["pubmed"], methods=["PTA", "APPNP"], n_runs=2),
        *runs_made("label-noise", datasets=["cora"], methods=["PTS"], n_runs=2),
        *runs_made("label-noise", datasets=["pubmed"], methods=["PTA"], n_runs=2),
    ]
    table8, label_noise = (
        in_parts(covered(EXPERIMENTS[name], runs), [], runs) for name in ("table8", "label-noise")
    )
    assert [sizes(part)[:2] for part in table8] == [
        (("cora",), ("PTA(F)", "PTA")),
        (("pubmed",), ("APPNP", "PTA")),
    ]
    assert [sizes(part)[:2] for part in label_noise] == [
        (("cora",), ("PTS",)),  # of PTA there is the rate of no wrong labels alone
        (("pubmed",), ("PTA",)),
    ]


def test_what_is_whole_has_one_part():
    runs = runs_made("table5", datasets=["cora_ml"], methods=["MLP"])
    for experiment in EXPERIMENTS.values():
        assert in_parts(experiment, [experiment], runs) == [experiment]


def test_data_sets_that_nobody_knows_are_not_covered():
    runs = [replace(run, dataset="mine") for run in runs_made("label-noise", datasets=["cora"])]
    assert sizes(covered(EXPERIMENTS["label-noise"], runs)) == ((), (), 0)
    chosen = EXPERIMENTS["label-noise"].narrowed(datasets=["cora"], methods=["PTA"], n_runs=2)
    assert widened(chosen, runs) == chosen


def test_all_experiments_stay_as_they_are_with_any_runs():
    runs = [run for name in ("table5", "table4") for run in runs_made(name)]
    for experiment in EXPERIMENTS.values():
        assert widened(experiment, runs) == experiment


def test_seeds_that_no_protocol_has_do_no_harm():
    (run, *_) = runs_made("table5", datasets=["cora"], methods=["PTA"], n_runs=1)
    strange = replace(run, split_seed=7)
    assert sizes(covered(EXPERIMENTS["table5"], [strange])) == (("cora",), ("PTA",), 1)
