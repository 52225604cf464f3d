"""What of an experiment has been run: what was made for it, and what is complete by sharing."""

from __future__ import annotations

from dataclasses import replace

from proptrain.experiments.coverage import covered, widened
from proptrain.experiments.specs import EXPERIMENTS
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


def test_all_experiments_stay_as_they_are_with_any_runs():
    runs = [run for name in ("table5", "table4") for run in runs_made(name)]
    for experiment in EXPERIMENTS.values():
        assert widened(experiment, runs) == experiment


def test_seeds_that_no_protocol_has_do_no_harm():
    (run, *_) = runs_made("table5", datasets=["cora"], methods=["PTA"], n_runs=1)
    strange = replace(run, split_seed=7)
    assert sizes(covered(EXPERIMENTS["table5"], [strange])) == (("cora",), ("PTA",), 1)
