"""What a fit takes is told before it begins, and it does not begin where there is not so much."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from one_process import OneProcess
from proptrain import (
    CorrectAndSmoothClassifier,
    GNNClassifier,
    LabelPropagationClassifier,
    PTAClassifier,
    PTAPlusClassifier,
    workload,
)
from proptrain.cli import app
from proptrain.cli.fit_folder import FolderFit, _Inputs, _tell_cluster
from proptrain.cli.workload import (
    _WORKER,
    epochs_ahead,
    sizes_of,
    tell_runs,
    tell_time,
    tell_workload,
)
from proptrain.data import disk_build
from proptrain.data.convert import graph_from_edges
from proptrain.data.dataset import Dataset
from proptrain.data.disk_build import Nodes, build_seconds
from proptrain.data.disk_writer import save_graph
from proptrain.data.edge_files import open_edges
from proptrain.data.shared_features import feature_columns
from proptrain.data.shared_graph import SharedGraph
from proptrain.data.synthetic import power_law_graph
from proptrain.errors import ClusterError, FileFormatError, NotEnoughMemoryError
from proptrain.experiments import versions
from proptrain.experiments.methods import METHODS
from proptrain.experiments.protocol import Run
from proptrain.experiments.remaining import mean_seconds
from proptrain.experiments.store import read_runs
from proptrain.experiments.tasks import Task
from proptrain.system import memory
from proptrain.system.memory import available_memory
from proptrain.workload import FitSizes, check_memory, estimate_fit, on_cluster, time_in_words

SIZES = FitSizes(n_nodes=50_000, n_entries=400_000, n_features=200, n_classes=12)
GB = 10**9
PAPER_RUNS = Path(__file__).parents[2] / "docs/results/paper/runs.jsonl"


# --- the estimate -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "classifier",
    [
        PTAClassifier(),
        PTAPlusClassifier(),
        LabelPropagationClassifier(),
        GNNClassifier(architecture="GCN"),
        CorrectAndSmoothClassifier(),
    ],
)
@pytest.mark.parametrize("name", ["n_nodes", "n_entries", "n_features", "n_classes"])
def test_more_of_anything_takes_more(classifier, name):
    larger = replace(SIZES, **{name: 3 * getattr(SIZES, name)})
    before, after = estimate_fit(classifier, SIZES), estimate_fit(classifier, larger)
    assert after.memory > before.memory
    assert after.epoch_seconds >= before.epoch_seconds


def test_it_is_never_less_than_what_the_steps_hold_at_once():
    told = estimate_fit(PTAClassifier(), SIZES).memory
    features, of_classes = 4 * 50_000 * 200, 4 * 50_000 * 12
    assert 2 * features + 12 * of_classes + 8 * 400_000 < told < 1 * GB


def test_sparse_features_count_by_what_is_stored():
    sparse = replace(SIZES, n_stored=50_000)
    assert (
        estimate_fit(PTAClassifier(), sparse).memory < estimate_fit(PTAClassifier(), SIZES).memory
    )


@pytest.mark.parametrize("n_stored", [None, 50_000])
def test_features_that_are_brought_to_ordinary_size_count_once_more(n_stored):
    sizes = replace(SIZES, n_stored=n_stored)
    scaled, not_scaled = (
        estimate_fit(PTAPlusClassifier(scale_features=scales), sizes).memory
        for scales in (True, False)
    )
    assert scaled - not_scaled == 4 * sizes.n_numbers


# Milliseconds of processor time of an epoch of PTA(F) and PTA, with one thread, when measured: 60
# epochs more than 3, with 20 labels a class; 6 more in the last, which is made up.
EPOCHS = {
    "citeseer": ((2110, 7336, 3703, 6, 67_659), 3.95, 3.70),
    "cora_ml": ((2810, 15_962, 2879, 7, 142_286), 4.22, 5.18),
    "pubmed": ((19_717, 88_648, 500, 3, 988_031), 12.15, 14.64),
    "ms_academic": ((18_333, 163_788, 6805, 15, 1_092_079), 24.70, 24.93),
    "dense": ((60_000, 959_836, 100, 20, None), 60.90, 141.77),
}


@pytest.mark.parametrize("name", EPOCHS)
def test_an_epoch_is_told_within_three_of_what_was_measured(name):
    sizes, fast, full = EPOCHS[name]
    for classifier, measured in ((PTAClassifier(fast=True), fast), (PTAClassifier(), full)):
        told = 1000 * estimate_fit(classifier, FitSizes(*sizes)).epoch_seconds
        assert measured / 3 < told < 3 * measured


def test_rounds_and_networks_count_as_epochs_and_what_trains_nothing_has_none():
    plus = PTAPlusClassifier(n_rounds=2, n_networks=3, max_epochs=50)
    assert estimate_fit(plus, SIZES).max_epochs == 450
    assert estimate_fit(LabelPropagationClassifier(), SIZES).max_epochs == 0
    fast = estimate_fit(PTAClassifier(fast=True), SIZES).epoch_seconds
    assert fast < estimate_fit(PTAClassifier(), SIZES).epoch_seconds


def test_too_much_is_an_error_that_says_how_much_and_what_to_do(monkeypatch):
    monkeypatch.setattr(workload, "available_memory", lambda: 3 * GB)
    check_memory(3 * GB, "This fit", "Do less.")
    with pytest.raises(NotEnoughMemoryError, match=r"about 3.5 GB .* and 3 GB are avail.* Do less"):
        check_memory(int(3.5 * GB), "This fit", "Do less.")
    monkeypatch.setattr(workload, "available_memory", lambda: None)  # a system that does not tell
    check_memory(10**18, "This fit", "Do less.")


# --- what is available ------------------------------------------------------------------------


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A machine with 8 GB left and no group; files are added by their names."""

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return available_memory(tmp_path / "proc", tmp_path / "groups")

    monkeypatch.setattr(memory, "_process_may", lambda: None)
    write(proc__meminfo="MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n")
    return write


def test_the_machine_tells_what_it_has_left(system):
    assert system() == 8_192_000_000


def test_a_group_of_its_own_counts_with_its_parents(system):
    group = {"proc__self__cgroup": "0::/outer/inner\n"}
    inner = {
        "groups__outer__inner__memory_dot_max": "max\n",
        "groups__outer__inner__memory_dot_current": "100\n",
    }
    outer = {
        "groups__outer__memory_dot_max": "2000000000\n",
        "groups__outer__memory_dot_current": "900000000\n",
        "groups__outer__memory_dot_stat": "anon 5\ninactive_file 300000000\n",
    }
    assert system(**group, **inner) == 8_192_000_000
    assert system(**outer) == 1_400_000_000  # 2 GB less 0.9, of which 0.3 can be taken back


def test_groups_of_the_older_kind_count_too(system):
    told = system(
        proc__self__cgroup="4:memory:/box\n3:cpu:/\n",
        groups__memory__box__memory_dot_limit_in_bytes="500000000\n",
        groups__memory__box__memory_dot_usage_in_bytes="600000000\n",
    )
    assert told == 0  # and not less


def test_a_limit_of_the_process_itself_counts(system, monkeypatch):
    monkeypatch.setattr(memory, "_process_may", lambda: 123)
    assert system() == 123


def test_this_machine_tells_something():
    room = available_memory()
    assert room is None or 0 < room < 10**14


# --- the commands -----------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    """Two groups of nodes, as tables and as a graph folder with arrays."""
    edges = [f"{i},{(i + 2) % 40}" for i in range(40)]
    (tmp_path / "edges.csv").write_text("source,target\n" + "\n".join(edges))
    rows = [f"{i},{i % 2},{'ab'[i % 2] if i < 20 else ''}" for i in range(40)]
    (tmp_path / "nodes.csv").write_text("id,x,label\n" + "\n".join(rows))
    np.save(tmp_path / "x.npy", (np.arange(40) % 2).astype(np.float32)[:, None])
    np.save(tmp_path / "y.npy", np.where(np.arange(40) < 20, np.arange(40) % 2, -1))
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_commands_do_not_begin_what_cannot_end_well_unless_forced(files, monkeypatch):
    tables = ["--edges", files / "edges.csv", "--nodes", files / "nodes.csv", "--label", "label"]
    arrays = ["--features", files / "x.npy", "--labels", files / "y.npy", "--json"]
    build = ["graph", "build", files / "edges.csv", "--out", files / "graph", "--json"]
    build += ["--memory", "4GB"]  # of this process, which has run other tests
    with monkeypatch.context() as patch:
        patch.setattr(workload, "available_memory", lambda: 1000)
        refused = run(*build)
        assert isinstance(refused.exception, NotEnoughMemoryError)
        assert not (files / "graph").exists()
        assert run(*build, "--force").exit_code == 0
        in_memory = ["--edges", files / "graph", *arrays]
        for source in (tables, in_memory, [*in_memory, "--engine", "blocked", "--memory", "64GB"]):
            model = ["--out", files / "model", "--overwrite"]
            refused = run("fit", *source, *model)
            assert isinstance(refused.exception, NotEnoughMemoryError)
            assert "--force" in str(refused.exception)
            assert not (files / "model").exists()
            assert run("fit", *source, *model, "--force").exit_code == 0
            (files / "model").rename(files / f"model{len(list(files.iterdir()))}")
    assert run("fit", *tables, "--out", files / "model").exit_code == 0  # with the real memory


def test_commands_that_fit_many_times_do_not_begin_either(files, monkeypatch):
    tables = ["--edges", files / "edges.csv", "--nodes", files / "nodes.csv", "--label", "label"]
    model, table, page = files / "model", files / "audit.csv", files / "page.html"
    assert run("fit", *tables, "--out", model).exit_code == 0
    monkeypatch.setattr(workload, "available_memory", lambda: 1000)
    commands = {
        "evaluate": ["evaluate", *tables, "--runs", 2, "--per-class", 2],
        "audit": ["audit", *tables, "--out", table],
        "report": ["report", model, "--nodes", files / "nodes.csv", "--out", page],
    }
    for name, command in commands.items():
        refused = run(*command)
        assert isinstance(refused.exception, NotEnoughMemoryError)
        n_fits = 2 if name == "evaluate" else 10
        assert str(refused.exception).startswith(f"Each of these {n_fits} fits")
        assert "--force" in str(refused.exception)
        assert not table.exists()
        assert not page.exists()
    for command in commands.values():
        assert run(*command, "--force").exit_code == 0
    assert table.exists()
    assert page.exists()


def test_many_fits_are_said_beforehand_with_their_number(capsys):
    tell_workload(PTAClassifier(), SIZES, quiet=False, force=True, n_fits=10_000)
    told = capsys.readouterr().err
    assert "each of 10,000 fits takes about" in told
    seconds = 10_000 * estimate_fit(PTAClassifier(), SIZES).seconds
    assert f"; all of them together at most {time_in_words(seconds)}" in told


def test_the_fits_of_an_audit_are_short_ones():
    pta, plus = PTAClassifier(alpha=0.2), PTAPlusClassifier(alpha=0.2, n_hidden=32)
    for classifier in (pta, plus):
        auditor = classifier._auditor()
        assert estimate_fit(auditor, SIZES).max_epochs == 100
        assert (auditor.alpha, auditor.n_hidden) == (0.2, classifier.n_hidden)


def test_fits_that_may_be_repeated_are_told_of():
    plus, more = PTAPlusClassifier(), "up to five times as long again"
    assert more in estimate_fit(plus, SIZES, is_watched=False).duration
    assert more not in estimate_fit(plus, SIZES).duration
    without = PTAPlusClassifier(fall_back=False)
    assert more not in estimate_fit(without, SIZES, is_watched=False).duration


def test_many_short_epochs_are_said_beforehand_and_few_are_not(capsys):
    epoch = estimate_fit(PTAClassifier(), SIZES).epoch_seconds
    assert 0.1 < epoch < 1  # so that one says nothing of 2,000
    tell_workload(PTAClassifier(), SIZES, quiet=False, force=True)
    whole = time_in_words(2000 * epoch)
    assert f"at most: {whole}, or less if training stops early" in capsys.readouterr().err
    few = PTAClassifier(max_epochs=int(25 / epoch))
    tell_workload(few, SIZES, quiet=False, force=True)
    tell_workload(few, SIZES, quiet=True, force=True, n_fits=10)
    assert capsys.readouterr().err == ""
    tell_workload(few, SIZES, quiet=False, force=True, n_fits=2)
    assert "each of 2 fits" in capsys.readouterr().err


def test_what_trains_nothing_has_no_epochs_to_tell(capsys):
    sizes = replace(SIZES, n_entries=4 * 10**9)
    tell_workload(LabelPropagationClassifier(), sizes, quiet=False, force=True)
    told = capsys.readouterr().err
    assert "of memory and 4 min" in told
    assert "epoch" not in told


@pytest.mark.parametrize(("n_labels", "n_epochs"), [(20, "450"), (500, "6,000")])
def test_epochs_are_told_as_the_labels_allow(n_labels, n_epochs, capsys):
    codes = np.append(np.arange(n_labels) % 2, -1)
    tell_workload(PTAPlusClassifier(), SIZES, codes=codes, quiet=False, force=True)
    tell_time(PTAPlusClassifier(), SIZES, codes, quiet=False)
    in_memory, from_disk = capsys.readouterr().err.splitlines()
    assert f"of which there are {n_epochs} at most" in in_memory
    assert f"of which there are {n_epochs} at most" in from_disk
    assert "memory" not in from_disk  # that is the limit given


def test_a_fit_from_disk_tells_its_time_if_it_is_long(files, monkeypatch):
    build = ["graph", "build", files / "edges.csv", "--out", files / "graph", "--json"]
    assert run(*build, "--memory", "4GB").exit_code == 0
    arrays = ["--features", files / "x.npy", "--labels", files / "y.npy", "--memory", "4GB"]
    fit = ["fit", "--engine", "blocked", "--edges", files / "graph", *arrays, "--overwrite"]
    fit += ["--out", files / "model", "--force"]
    assert "or less if training stops early" not in run(*fit).stderr
    monkeypatch.setattr(workload, "_PER_SECOND", 1e4)
    monkeypatch.setattr(workload, "_OF_ANY_EPOCH", 0.0)
    assert "at most: 2 h 6 min, or less if training stops early" in run(*fit).stderr
    assert run(*fit, "--json").stderr in ("", "\n")  # an old rich ends a bar that is not there


# --- a build ----------------------------------------------------------------------------------

# Seconds of processor time of a build of generated edges, measured with `time proptrain graph
# build`: rows, whether ids are numbers, what was asked for, as CSV and as Parquet.
BUILDS = [
    (5e6, True, {}, (7.83, 6.18)),
    (5e6, False, {}, (21.20, 25.00)),
    (20e6, True, {}, (24.76, 20.42)),
    (20e6, False, {}, (82.22, 122.81)),
    (5e6, True, {"renumber": True}, (13.09,)),
    (20e6, True, {"renumber": True}, (46.43,)),
    (20e6, True, {"nodes": Nodes(2_000_000)}, (12.00,)),
]


class Rows:
    """A file of which only that is known."""

    def __init__(self, *told):
        self.look = lambda: told


@pytest.mark.parametrize(("n_rows", "has_numbers", "how", "measured"), BUILDS)
def test_a_build_is_told_within_a_quarter_of_what_was_measured(n_rows, has_numbers, how, measured):
    told = build_seconds([Rows(n_rows, has_numbers)], **{"nodes": Nodes(), **how})
    assert all(0.75 < told / seconds < 1.25 for seconds in measured)
    assert build_seconds([Rows(n_rows, has_numbers)] * 2, **{"nodes": Nodes(), **how}) == 2 * told


@pytest.mark.parametrize("name", ["e.csv", "e.tsv", "e.csv.gz", "e.parquet"])
@pytest.mark.parametrize("text_end", [None, "source", "target"])
def test_the_beginning_of_a_file_tells_its_rows_and_the_kind_of_its_ids(tmp_path, name, text_end):
    numbers = np.random.default_rng(0).integers(10**6, 10**7, size=200_000)  # ids of one length
    table = pd.DataFrame({"weight": 1, "source": numbers, "target": numbers[::-1]})
    if text_end:
        table[text_end] = "node " + table[text_end].astype(str)
    if name == "e.parquet":
        table.to_parquet(tmp_path / name)
    else:
        table.to_csv(tmp_path / name, index=False, sep="\t" if name == "e.tsv" else ",")
    n_rows, has_numbers = open_edges(tmp_path / name).look()
    assert n_rows == pytest.approx(200_000, rel=0.1)
    assert has_numbers is (text_end is None)


@pytest.mark.parametrize("text", ["source,target\n", "source,target", "source,target\n1"])
def test_a_file_without_rows_takes_no_time(tmp_path, text):
    (tmp_path / "e.csv").write_text(text)
    assert build_seconds([open_edges(tmp_path / "e.csv")], Nodes()) == 0


def test_a_build_tells_its_time_if_it_is_long(files, monkeypatch):
    build = ["graph", "build", files / "edges.csv", "--out", files / "graph", "--memory", "4GB"]
    assert "takes about" not in run(*build).stderr
    monkeypatch.setattr(disk_build, "_NUMBERS", 10.0)
    assert "takes about 6 min 30 s\n" in run(*build, "--overwrite").stderr
    assert "takes about" not in run(*build, "--overwrite", "--json").stderr
    (files / "other" / "building").mkdir(parents=True)
    begun = run(*build[:3], "--out", files / "other", "--memory", "4GB").stderr
    assert "takes about 6 min 30 s, or less if it goes on where one was\n" in begun


# --- a cluster --------------------------------------------------------------------------------


@pytest.fixture
def on_a_cluster(files):
    """Tell of a fit by a crew, with a graph of two blocks."""
    save_graph(graph_from_edges([(i, (i + 2) % 40) for i in range(40)]), files / "two", n_blocks=2)

    def tell(crew, features=None, *, json=False, force=False, **settings):
        features = files / "x.npy" if features is None else features
        wanted = FolderFit(
            METHODS["PTA"], PTAClassifier(**settings), "ray", "2GB", files, True, json, force
        )
        inputs = _Inputs(features, np.load(files / "y.npy"))
        _tell_cluster(SharedGraph(files / "two"), inputs, wanted, crew)

    return tell


def test_a_cluster_shares_the_work_and_takes_longer_over_it():
    alone = estimate_fit(PTAClassifier(), SIZES)
    assert on_cluster(alone, 1).seconds == pytest.approx(2 * alone.seconds)
    assert on_cluster(alone, 2).seconds == pytest.approx(alone.seconds)
    assert on_cluster(alone, 1000).epoch_seconds == 0.2  # no epoch is shorter
    assert on_cluster(alone, 1).memory == alone.memory


def test_a_fit_on_a_cluster_tells_its_time(on_a_cluster, capsys, monkeypatch):
    crew = OneProcess()
    crew.n_cpus = 16
    on_a_cluster(crew, max_epochs=100)
    on_a_cluster(crew, json=True)
    assert capsys.readouterr().err == ""
    on_a_cluster(crew)
    assert "takes about 200 ms an epoch, of which there are 2,000 at most: 6 min 40 s" in (
        capsys.readouterr().err
    )
    monkeypatch.setattr(workload, "_PER_SECOND", 1e6)
    for how, n_cpus in (({}, 2), ({"fast": True}, 16)):  # tasks are as many as blocks
        on_a_cluster(crew, **how)
        sizes = FitSizes(n_nodes=40, n_entries=80, n_features=1, n_classes=2)
        told = on_cluster(estimate_fit(PTAClassifier(**how), sizes), n_cpus)
        assert f"takes about {told.duration}" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["matrix", "sparse", "parquet"])
def test_features_are_counted_wherever_they_are(files, on_a_cluster, kind):
    features = np.load(files / "x.npy")
    if kind == "parquet":
        pd.DataFrame({"x": features[:, 0]}).to_parquet(files / "x.parquet")
    given = {"matrix": features, "sparse": sp.csr_array(features), "parquet": files / "x.parquet"}
    assert feature_columns(given[kind]) == 1
    on_a_cluster(OneProcess(), given[kind])


def test_damaged_features_are_told_in_our_words(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(FileFormatError, match=r"x\.parquet"):
        feature_columns(tmp_path / "x.parquet")


def test_a_batch_that_no_machine_has_the_memory_for_is_refused_unless_forced(on_a_cluster):
    crew = OneProcess()
    crew.machine_memory = 20_000
    on_a_cluster(crew)  # in batches that fit
    message = (
        "smallest machine needs about .* KB of memory, and 20 KB are available. Give a smaller"
    )
    with pytest.raises(NotEnoughMemoryError, match=message):
        on_a_cluster(crew, batch_size=40)
    on_a_cluster(crew, batch_size=40, force=True)


def test_a_block_that_no_task_has_the_memory_for_is_refused_before_anything_is_done(on_a_cluster):
    crew = OneProcess()
    crew.task_memory = 100
    with pytest.raises(ClusterError, match="build the graph with more --blocks"):
        on_a_cluster(crew, force=True)
    assert crew.calls == []


# --- many runs --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made_up():
    graph, labels = power_law_graph(20_000, 100_000, n_classes=5)
    return {"cora": Dataset(graph, np.ones((20_000, 20), np.float32), labels)}


def runs_of_pta(n_runs, **fields):
    return [Task("cora", "PTA", seed, 0, **fields) for seed in range(n_runs)]


def took(task, seconds):
    return Run(task.dataset, task.method, task.split_seed, 0, 0.5, 0.5, 1, 0, seconds)


@pytest.fixture
def five_cores(monkeypatch):
    monkeypatch.setattr(versions, "count_cores", lambda: 5)


def test_runs_are_told_by_those_that_are_done(made_up, capsys, five_cores):
    done = [took(task, 30.0) for task in runs_of_pta(2)]
    left = runs_of_pta(12)[2:]
    tell_runs(left, done, made_up, 2, quiet=False, force=True)
    assert capsys.readouterr().err == "takes about 2 min 30 s with 2 workers\n"
    tell_runs(left[:1], done, made_up, 2, quiet=False, force=True)  # of which one has work
    tell_runs(left, done, made_up, 2, quiet=True, force=True)
    tell_runs([], done, made_up, 2, quiet=False, force=False)
    assert capsys.readouterr().err == ""


def test_more_workers_than_cores_are_no_faster(made_up, capsys, five_cores):
    done, left = [took(task, 30.0) for task in runs_of_pta(2)], runs_of_pta(22)[2:]
    tell_runs(left, done, made_up, 10, quiet=False, force=True)
    assert capsys.readouterr().err == "takes about 2 min with 10 workers\n"


def test_runs_of_which_none_is_done_are_told_with_all_their_epochs(made_up, capsys, five_cores):
    epochs = estimate_fit(
        METHODS["PTA"].make(alpha=0.1, steps=10, seed=0), sizes_of(made_up["cora"])
    )
    lp = [Task("cora", "LP", 7, 0)]
    tell_runs(runs_of_pta(10) + lp, [took(lp[0], 10.0)], made_up, 5, quiet=False, force=True)
    told = capsys.readouterr().err
    assert f"takes about {time_in_words((10 * epochs.seconds + 10) / 5)} with 5 workers; " in told
    assert "10 of 11 runs count with all epochs" in told
    tell_runs(runs_of_pta(10, timed=True), [], made_up, 5, quiet=False, force=True)
    one_by_one = f"takes about {time_in_words(10 * epochs.seconds)} with 1 worker;"
    assert one_by_one in capsys.readouterr().err


def test_more_workers_than_there_is_memory_for_are_refused_unless_forced(made_up, monkeypatch):
    left = runs_of_pta(10)
    monkeypatch.setattr(workload, "available_memory", lambda: 3 * _WORKER)
    tell_runs(left, [], made_up, 2, quiet=True, force=False)
    tell_runs(left[:2], [], made_up, 3, quiet=True, force=False)  # no more than there are runs
    message = (
        r"Work by 3 workers needs about 1\.\d+ GB .* and 1.35 GB are.* Give fewer --workers, or"
    )
    with pytest.raises(NotEnoughMemoryError, match=message):
        tell_runs(left, [], made_up, 3, quiet=True, force=False)
    tell_runs(left, [], made_up, 3, quiet=True, force=True)


def test_reproduce_does_not_begin_without_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(workload, "available_memory", lambda: 1000)
    chosen = ["table5", "--dataset", "cora", "--method", "LP", "--runs", 1, "--out", tmp_path]
    refused = run("reproduce", *chosen, "--json")
    assert isinstance(refused.exception, NotEnoughMemoryError)
    assert run("reproduce", *chosen, "--json", "--force").exit_code == 0


@pytest.mark.parametrize("name", ["citeseer", "cora_ml", "pubmed", "ms_academic"])
def test_one_run_of_each_method_is_told_within_six_of_what_was_measured(name):
    sizes, *_ = EPOCHS[name]
    # On the test seeds: those that settle a reading run variants that nobody else does.
    done = [one for one in read_runs(PAPER_RUNS) if one.dataset == name and not one.validation]
    measured = mean_seconds(done)
    told = sum(
        estimate_fit(METHODS[method].make(alpha=0.1, steps=10, seed=0), FitSizes(*sizes)).seconds
        for _, method in measured
    )
    assert 0.8 < told / sum(measured.values()) < 6


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0004, "0 ms"),
        (0.9996, "1 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (119.7, "2 min"),
        (3599.7, "1 h"),
        (3600 + 29, "1 h"),
        (1800 * 3600 + 90, "1,800 h 2 min"),
    ],
)
def test_times_are_told_in_two_units_at_most(seconds, words):
    assert time_in_words(seconds) == words


@pytest.mark.parametrize(
    ("classifier", "n_labels", "expected"),
    [
        (LabelPropagationClassifier(), 20, 1),
        (PTAClassifier(), 20, 2000),
        (PTAClassifier(stopping_fraction=0), 20, 2000),
        (PTAPlusClassifier(), 20, 450),  # too few to hold some back
        (PTAPlusClassifier(), 500, 6000),
        (PTAPlusClassifier(stopping_fraction=0.2), 20, 6000),
        (PTAPlusClassifier(n_rounds=1, n_networks=2, max_epochs=30), 20, 120),
    ],
)
def test_the_epochs_ahead_are_those_that_the_labels_allow(classifier, n_labels, expected):
    codes = np.append(np.arange(n_labels) % 2, -1)
    assert epochs_ahead(classifier, codes) == expected
