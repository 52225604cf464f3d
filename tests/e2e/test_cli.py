"""The command line, as its users meet it: files in, files out, one message when that cannot be."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from proptrain import LabelPropagationClassifier, cli, load_dataset, save_model
from proptrain.cli.fit import METHOD_NAMES
from proptrain.data.catalog import find_file
from proptrain.experiments.methods import METHODS
from proptrain.saving.persistence import load_model

N = 600  # papers of Cora, so that a fit takes a second or two
N_NEW = 20


@pytest.fixture(autouse=True)
def nobody_answers(tmp_path_factory, monkeypatch):
    """No data folder, an empty cache, and an address where nobody answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("PROPTRAIN_DATA_URL", f"http://127.0.0.1:{port}/")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("PROPTRAIN_DATA", raising=False)


def one_line(text):
    return " ".join(text.split())


def in_a_process_of_its_own(*words, cwd, **environment):
    return subprocess.run(
        [sys.executable, "-m", "proptrain.cli", *map(str, words)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def files_below(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# --- a user with two files --------------------------------------------------------------------


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    """Two CSV files made of Cora: text ids, words, a category, a number, a third of the labels.

    The last twenty papers and their citations are held back, as papers that come later.
    """
    folder, dataset = tmp_path_factory.mktemp("papers"), load_dataset("cora")
    random = np.random.RandomState(0)
    ids = np.array([f"paper-{i:03}" for i in range(N)])
    features = dataset.features[:N]
    words = [f"w{j} " for j in range(features.shape[1])]
    topics = np.array(dataset.class_names)[dataset.labels[:N]]
    hidden = random.rand(N) < 0.66
    nodes = pd.DataFrame(
        {
            "id": ids,
            "words": ["".join(words[j] for j in features[[i]].indices) for i in range(N)],
            "venue": random.choice(["conference", "journal", "workshop"], N),
            "pages": random.randint(4, 30, N),
            "topic": np.where(hidden, "", topics),
        }
    )
    pairs = dataset.graph.adjacency[:N][:, :N].tocoo()
    edges = pd.DataFrame({"source": ids[pairs.row], "target": ids[pairs.col]})
    edges = edges[pairs.row < pairs.col]
    new = set(ids[-N_NEW:])
    touches_new = edges["source"].isin(new) | edges["target"].isin(new)
    nodes[:-N_NEW].to_csv(folder / "nodes.csv", index=False)
    nodes[-N_NEW:].drop(columns="topic").to_csv(folder / "new.csv", index=False)
    edges[~touches_new].to_csv(folder / "edges.csv", index=False)
    edges[touches_new].to_csv(folder / "new_edges.csv", index=False)
    done = in_a_process_of_its_own(*FIT, "--out", "model/", cwd=folder)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(folder=folder, ids=ids, topics=topics, hidden=hidden, fit=done)


FIT = ("fit", "--edges", "edges.csv", "--nodes", "nodes.csv", "--label", "topic")


@pytest.fixture
def at_papers(papers, monkeypatch):
    monkeypatch.chdir(papers.folder)
    return papers


def check_predictions(table, papers):
    """The promised columns, one row for each node in its order, sound numbers."""
    classes = sorted(set(papers.topics))
    columns = ["id", "label", "probability", "source", "reached"]
    assert list(table.columns) == columns + [f"p_{name}" for name in classes]
    shares = table[[f"p_{name}" for name in classes]].to_numpy()
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-12)
    of_label = shares[np.arange(len(table)), [classes.index(label) for label in table["label"]]]
    np.testing.assert_array_equal(table["probability"], of_label)
    told = (table["source"] == "predicted").to_numpy()
    assert (of_label[told] == shares[told].max(axis=1)).all()


def test_fit_says_what_it_read_and_what_to_do_next(papers):
    said = one_line(papers.fit.stderr)
    assert papers.fit.stdout == ""
    assert f"{N - N_NEW} nodes, " in said
    assert "one-way made two-way, 0 duplicates merged, 0 self-loops dropped" in said
    assert "columns: text: words; categorical: venue; numeric: pages" in said
    assert "right on the stopping labels; written to model" in said
    assert "next: proptrain predict model" in said
    assert "Warning" not in said
    written = sorted(path.name for path in (papers.folder / "model").iterdir())
    assert written == ["arrays.safetensors", "encoder.skops", "model.json", "nodes.json"]


def test_predict_tells_every_node(run, at_papers, tmp_path):
    done = run("predict", "model/", "--out", tmp_path / "p.csv")
    assert done.code == 0
    assert f"{N - N_NEW} nodes, " in done.err
    table = pd.read_csv(tmp_path / "p.csv")
    check_predictions(table, at_papers)
    assert table["id"].tolist() == at_papers.ids[:-N_NEW].tolist()
    hidden, topics = at_papers.hidden[:-N_NEW], at_papers.topics[:-N_NEW]
    assert (table["source"] == np.where(hidden, "predicted", "given")).all()
    assert (table["label"][~hidden] == topics[~hidden]).all()
    right = (table["label"][hidden] == topics[hidden]).mean()
    most_frequent = pd.Series(topics[hidden]).value_counts(normalize=True).iloc[0]
    assert right > most_frequent + 0.2
    assert 0.5 < table["reached"].mean() <= 1


def test_probabilities_can_be_calibrated_and_unsure_labels_withheld(run, at_papers, tmp_path):
    plain, sure = tmp_path / "plain.csv", tmp_path / "sure.parquet"
    assert run("predict", "model/", "--out", plain).code == 0
    words = ("--calibrated", "--min-probability", 0.7, "--out", sure)
    done = run("predict", "model/", *words)
    assert done.code == 0
    before, after = pd.read_csv(plain), pd.read_parquet(sure)
    shares = [table.filter(like="p_").to_numpy() for table in (before, after)]
    expected = load_model("model").estimator.predict_proba(calibrated=True)
    np.testing.assert_allclose(shares[1], expected)
    assert (shares[1] != shares[0]).any()
    unsure = (after["source"] == "predicted") & (shares[1].max(axis=1) < 0.7)
    assert 0 < unsure.sum() < len(after)
    assert f"{unsure.sum()} too unsure for a label" in done.err
    assert after["label"].isna().equals(unsure)
    assert (after["label"] == before["label"])[~unsure].all()
    for words in (["--nodes", "new.csv"], ["--nodes", "new.csv", "--edges", "new_edges.csv"]):
        out = tmp_path / f"new{len(words)}.csv"
        done = run("predict", "model", *words, "--calibrated", "--out", out, "--json")
        assert done.code == 0
        assert "withheld" not in json.loads(done.out)


def test_new_nodes_are_told_with_and_without_their_edges(run, at_papers, tmp_path):
    alone, joined = tmp_path / "alone.csv", tmp_path / "joined.csv"
    assert run("predict", "model", "--nodes", "new.csv", "--out", alone).code == 0
    words = ("--nodes", "new.csv", "--edges", "new_edges.csv", "--out", joined)
    assert run("predict", "model", *words).code == 0
    tables = [pd.read_csv(path) for path in (alone, joined)]
    for table in tables:
        check_predictions(table, at_papers)
        assert table["id"].tolist() == at_papers.ids[-N_NEW:].tolist()
        assert (table["source"] == "predicted").all()
    assert not tables[0]["reached"].any()
    assert tables[1]["reached"].any()
    right = [(table["label"] == at_papers.topics[-N_NEW:]).sum() for table in tables]
    assert min(right) > N_NEW / 3
    assert (tables[0]["probability"] != tables[1]["probability"]).any()


def test_an_edge_listed_twice_counts_once(run, at_papers, tmp_path):
    edges = pd.read_csv("new_edges.csv")
    turned = edges.rename(columns={"source": "target", "target": "source"})
    both = pd.concat([edges, turned[["source", "target"]], edges])
    both.to_csv(tmp_path / "both.csv", index=False)
    for name, path in (("once", "new_edges.csv"), ("twice", tmp_path / "both.csv")):
        words = ("--nodes", "new.csv", "--edges", path, "--out", tmp_path / f"{name}.csv")
        assert run("predict", "model", *words).code == 0
    assert (tmp_path / "once.csv").read_bytes() == (tmp_path / "twice.csv").read_bytes()


def test_a_new_node_is_reached_by_way_of_another(run, at_papers, tmp_path):
    predicted = tmp_path / "p.csv"
    assert run("predict", "model", "--out", predicted).code == 0
    known = pd.read_csv(predicted)
    anchor = known["id"][known["reached"]].iloc[0]
    first, second, third = at_papers.ids[-N_NEW:][:3]
    (tmp_path / "e.csv").write_text(f"source,target\n{first},{anchor}\n{second},{first}\n")
    words = ("--nodes", "new.csv", "--edges", tmp_path / "e.csv", "--out", tmp_path / "new.csv")
    assert run("predict", "model", *words).code == 0
    reached = pd.read_csv(tmp_path / "new.csv").set_index("id")["reached"]
    assert reached[[first, second, third]].tolist() == [True, True, False]


@pytest.mark.parametrize("method", ["LP", "PTS"])
def test_a_new_node_is_reached_only_within_the_steps(run, tmp_path, method):
    write_small(tmp_path)
    assert run(*small_fit(tmp_path), "--method", method).code == 0
    new, edges = tmp_path / "new.csv", tmp_path / "new_edges.csv"
    new.write_text("name,size,colour\n" + "".join(f"q{i},1,red\n" for i in range(15)))
    ends = ["n0", *(f"q{i}" for i in range(15))]
    edges.write_text("a,b\n" + "".join(f"{i},{j}\n" for i, j in pairwise(ends)))
    words = ("--nodes", new, "--edges", edges, "--out", tmp_path / "p.csv")
    assert run("predict", tmp_path / "model", *words).code == 0
    reached = pd.read_csv(tmp_path / "p.csv")["reached"]
    classifier = load_model(tmp_path / "model").estimator
    first = 10 if 0 not in classifier.stopping_ else 8  # else the label of n2, two steps off
    assert reached.tolist() == [True] * first + [False] * (15 - first)


@pytest.mark.parametrize(
    ("method", "device", "code", "message"),
    [
        ("PTA", "cpu", 0, "trained in"),
        ("GCN", "cpu", 0, "trained in"),
        ("GCN", "cuda", 1, "GCN is fitted on the CPU only: leave --device out."),
        ("PTA", "abacus", 1, "device must be 'auto', 'cpu' or what torch can compute on here"),
    ],
)
def test_where_to_fit_is_the_users_choice(run, tmp_path, method, device, code, message):
    write_small(tmp_path)
    done = run(*small_fit(tmp_path), "--method", method, "--device", device)
    assert done.code == code
    assert message in one_line(done.err)
    assert (tmp_path / "model").exists() == (code == 0)


@pytest.mark.parametrize("method", ["APPNP", "MLP", "C&S", "APPNP-noa-nof"])
def test_any_method_is_fitted_and_tells_old_and_new_nodes(run, tmp_path, method):
    write_small(tmp_path)
    fit = run(*small_fit(tmp_path), "--method", method, "--json")
    assert fit.code == 0
    told = json.loads(fit.out)
    assert told["method"] == method
    assert told["reached"] == (4 if method == "MLP" else 8)  # without a graph the labelled alone
    model, out, new = tmp_path / "model", tmp_path / "p.csv", tmp_path / "new.csv"
    assert run("predict", model, "--out", out).code == 0
    table = pd.read_csv(out)
    assert table["id"].tolist() == [f"n{i}" for i in range(8)]
    assert table["label"].tolist() == ["x", "y"] * 4
    assert table["source"].tolist() == ["given"] * 4 + ["predicted"] * 4
    new.write_text("name,size,colour\nq0,1,red\nq1,6,blue\n")
    (tmp_path / "new_edges.csv").write_text("a,b\nq0,n6\nq1,n7\n")
    words = ("predict", model, "--nodes", new, "--out", out, "--overwrite")
    for edges in ((), ("--edges", tmp_path / "new_edges.csv")):
        assert run(*words, *edges).code == 0
        table = pd.read_csv(out)
        assert table["label"].tolist() == ["x", "y"]
        assert table["reached"].tolist() == [bool(edges) and method != "MLP"] * 2


@pytest.mark.filterwarnings("always:Calibration by 2")
def test_labels_are_held_out_to_calibrate_by_if_one_wants_it(run, tmp_path):
    write_small(tmp_path)
    predict = ("predict", tmp_path / "model", "--calibrated", "--out", tmp_path / "p.csv")
    words = (*small_fit(tmp_path), "--method", "PTA+", "--overwrite", "--json")
    assert json.loads(run(*words).out)["stopping_accuracy"] is None
    refused(run, tmp_path, "Fit it with stopping_fraction=0.2 (--stopping 0.2)", *predict)
    assert json.loads(run(*words, "--stopping", "0.5").out)["stopping_accuracy"] is not None
    done = run(*predict)
    assert done.code == 0
    assert "warning: Calibration by 2 held-out labels is mostly chance" in done.err


def test_the_stopping_accuracy_is_that_of_the_predictions(run, at_papers, tmp_path):
    for method in ("PTA", "C&S"):
        words = ("--method", method, "--out", tmp_path / method, "--json")
        accuracy = json.loads(run(*FIT, *words).out)["stopping_accuracy"]
        clf = load_model(tmp_path / method).estimator
        told = clf.label_distributions_[clf.stopping_].argmax(axis=1)
        assert accuracy == (told == clf.given_[clf.stopping_]).mean()
        if method == "PTA":
            assert accuracy == clf.history_.stop_accuracy[clf.best_epoch_]


def test_parquet_in_and_out(run, at_papers, tmp_path):
    for name in ("nodes", "edges"):
        pd.read_csv(f"{name}.csv").to_parquet(tmp_path / f"{name}.parquet")
    words = ("--edges", tmp_path / "edges.parquet", "--nodes", tmp_path / "nodes.parquet")
    done = run("fit", *words, "--label", "topic", "--out", tmp_path / "model", "--json")
    assert done.code == 0
    summary = json.loads(done.out)
    assert (summary["method"], summary["nodes"]) == ("PTA", N - N_NEW)
    assert summary["classes"] == sorted(set(at_papers.topics))
    assert summary["labelled"] == int((~at_papers.hidden[:-N_NEW]).sum())
    assert 0.3 < summary["stopping_accuracy"] <= 1
    assert summary["epochs"] > 100
    assert done.err == ""
    out = tmp_path / "p.parquet"
    done = run("predict", tmp_path / "model", "--out", out, "--json")
    n_hidden = int(at_papers.hidden[:-N_NEW].sum())
    assert json.loads(done.out) == {"out": str(out), "nodes": N - N_NEW, "predicted": n_hidden}
    table = pd.read_parquet(out)
    check_predictions(table, at_papers)
    # The same tables, the same seed: the same predictions, bit by bit.
    assert run("predict", "model", "--out", tmp_path / "p.csv").code == 0
    from_csv = pd.read_csv(tmp_path / "p.csv", dtype=str)["probability"].map(float)
    np.testing.assert_array_equal(from_csv, table["probability"])


def test_ids_of_several_types_go_into_csv_and_are_refused_for_parquet(run, tmp_path):
    clf = LabelPropagationClassifier().fit(None, ["a", "", "b"], graph=[(0, 1), (2, 1), (1, 2)])
    save_model(tmp_path / "model", clf, node_ids=np.array([1, "x", 3], dtype=object))
    assert run("predict", tmp_path / "model", "--out", tmp_path / "o.csv").code == 0
    assert pd.read_csv(tmp_path / "o.csv")["id"].tolist() == ["1", "x", "3"]
    match = "Could not convert 'x' with type str: tried to convert to int64. Write to a .csv file"
    refused(run, tmp_path, match, "predict", tmp_path / "model", "--out", tmp_path / "o.parquet")


def test_evaluate_on_ones_own_data(run, at_papers, tmp_path):
    out = tmp_path / "runs.jsonl"
    words = ("--per-class", 3, "--runs", 2, "--method", "LP", "--method", "lp", "--out", out)
    done = run("evaluate", *FIT[1:], *words, "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert (told["dataset"], told["runs"], list(told["methods"])) == ("nodes", 2, ["LP"])
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == told["methods"]["LP"]["runs"] == 2  # named twice, run once
    fields = "dataset method split_seed init_seed accuracy stop_accuracy epochs best_epoch seconds"
    fields += " labels_per_class code cpu"
    assert all(list(line) == fields.split() for line in lines)
    assert told["methods"]["LP"]["mean"] == pytest.approx(np.mean([x["accuracy"] for x in lines]))
    assert told["methods"]["LP"]["low"] <= told["methods"]["LP"]["high"]


def test_options_of_columns_are_heard(run, tmp_path):
    write_small(tmp_path, nodes=SMALL_NODES.replace("name,", "who,").replace("kind", "class"))
    words = ("--edges", tmp_path / "edges.csv", "--nodes", tmp_path / "nodes.csv")
    words = (*words, "--label", "class", "--id", "who", "--source", "b", "--target", "a")
    words = (*words, "--weight", "w", "--kind", "size=categorical", "--kind", "colour=drop")
    done = run("fit", *words, "--method", "LP", "--out", tmp_path / "model")
    assert done.code == 0
    assert "columns: categorical: size; drop: colour" in done.err
    done = run("predict", tmp_path / "model", "--out", tmp_path / "p.csv")
    table = pd.read_csv(tmp_path / "p.csv")
    assert table["id"].tolist() == [f"n{i}" for i in range(8)]
    assert table["label"].tolist() == ["x", "y"] * 4


@pytest.mark.parametrize("marker", ["7", "7.0", "?"])
def test_a_marker_of_ones_own_leaves_minus_one_a_class(run, tmp_path, marker):
    label = {"x": "-1", "y": "2", "": marker}
    rows = [line.split(",") for line in SMALL_NODES.splitlines()]
    nodes = "\n".join(",".join([*r[:-1], label.get(r[-1], r[-1])]) for r in rows) + "\n"
    write_small(tmp_path, nodes=nodes)
    words = (*small_fit(tmp_path), "--method", "LP", "--unlabelled", marker, "--json")
    done = run(*words)
    assert done.code == 0
    summary = json.loads(done.out)
    assert [str(name) for name in summary["classes"]] == ["-1", "2"]
    assert summary["labelled"] == 4
    run("predict", tmp_path / "model", "--out", tmp_path / "p.csv")
    assert pd.read_csv(tmp_path / "p.csv")["label"].tolist() == [-1, 2] * 4


# --- the commands -----------------------------------------------------------------------------


def n_compiled(*words):
    """Run a command in a process of its own; tells how many functions Numba compiled in it."""
    code = """if True:
        import sys
        from numba.core.event import install_recorder
        from proptrain.cli import main
        with install_recorder("numba:compile") as recorder:
            try:
                main()
            except SystemExit as left:
                assert not left.code
        sys.stdout.write(f"\\n{len(recorder.buffer)}")
    """
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def test_demo_writes_the_page_and_shows_the_three(run, tmp_path):
    page = tmp_path / "page.html"
    done = run("demo", "--runs", 1, "--out", page)
    assert done.code == 0
    for method in ("LP: label", "MLP: the", "PTA: propagate"):
        assert method in done.out
    assert "±" not in done.out  # one run has no interval
    assert str(page.name) in done.err
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") >= 3
    assert "2,708" in html
    assert "https:" not in html
    assert html.count("http:") == html.count("http://www.w3.org/")  # names, not addresses
    assert "proptrain demo --runs 1" in html
    assert "plot-reliability" in html
    assert "The first 500 of 640 given labels" in html
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    again = ("demo", "--runs", "1", "--out", str(page))
    # Where the package cannot be written to, this process has kept its code in another place.
    assert n_compiled(*again) == 0 or n_compiled(*again) == 0


def test_evaluate_a_named_set(run, tmp_path):
    done = run("evaluate", "cora", "--runs", 1, "--method", "LP", "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert (told["dataset"], told["runs"]) == ("cora", 1)
    assert 0.6 < told["methods"]["LP"]["mean"] < 0.85
    assert told["methods"]["LP"]["median_epochs"] == 0
    tuned = run("evaluate", "cora", "--runs", 1, "--method", "LP", "--validation", "--json")
    assert json.loads(tuned.out)["methods"]["LP"]["mean"] != told["methods"]["LP"]["mean"]
    text = run("evaluate", "cora", "--runs", 1, "--method", "LP")
    assert told["methods"]["LP"]["low"] is told["methods"]["LP"]["high"] is None
    accuracy = f"{100 * told['methods']['LP']['mean']:.2f}"
    assert f"│ {accuracy} │ – │ 0 │" in one_line(text.out)
    assert "±" not in text.out
    two = run("evaluate", "cora", "--runs", 2, "--method", "LP")
    assert two.out.count("±") == 1
    assert "cora: accuracy in percent over 1 runs" in one_line(text.out)
    many = run("evaluate", "cora", "--runs", 21, "--method", "LP")  # a split twice would be a copy
    assert "LP (20 runs)" in one_line(many.out)


def test_data_list_and_check(run, tmp_path):
    done = run("data", "list")
    assert done.code == 0
    assert "in the package" in done.out
    assert "2,708" in done.out
    listed = json.loads(run("data", "list", "--json").out)
    assert list(listed) == ["cora", "citeseer", "cora_ml", "pubmed", "ms_academic"]
    assert listed["cora"].endswith("cora.npz")
    assert listed["citeseer"] is None
    assert json.loads(run("data", "check", "cora", "--json").out) == {
        "cora": {"nodes": 2708, "edges": 5278}
    }
    assert "cora: right (2,708 nodes, 5,278 edges)" in run("data", "check", "cora").err


def test_help_teaches(run):
    for words in (
        ("demo",),
        ("fit",),
        ("predict",),
        ("evaluate",),
        ("data", "list"),
        ("data", "check"),
        ("data", "fetch"),
    ):
        done = run(*words, "--help")
        assert done.code == 0
        text = one_line(done.out)
        assert f"Usage: proptrain {' '.join(words)}" in text
        assert "Example" in text
        assert f"proptrain {' '.join(words)} " in text.partition("Example")[2]
        assert one_line(run(*words, "-h").out) == text
    checked, fetched = (one_line(run("data", c, "-h").out) for c in ("check", "fetch"))
    assert "Data sets; cora and the paper's if none is named." in checked.replace("│ │ ", "")
    assert "Data sets; all of the paper's if none is named" in fetched.replace("│ │ ", "")
    start = one_line(run("--help").out)
    assert "proptrain fit --edges edges.csv --nodes nodes.csv --label topic --out model/" in start
    assert "Exit codes: 0 done, 1 the input cannot be used" in start
    assert sorted(METHOD_NAMES.split(", ")) == sorted(
        method.name for method in METHODS.values() if not method.variant
    )
    for command in ("fit", "evaluate"):
        text = one_line(run(command, "--help").out.replace("│", " "))
        assert "One of PTA, PTA+, PTA(F), PTS, PTD, LP, MLP, GCN, SGCN" in text
    assert "[default: id, or" in one_line(run("fit", "--help").out.replace("│", " "))


LONG = "a" * 300
"""Longer than a name may be: to look for it is an error of the system's, as where one may not."""


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "--edges", LONG, "--nodes", "n.csv", "--label", "topic", "--out", "m"),
        ("predict", LONG, "--out", "p.csv"),
        ("report", LONG),
        ("explain", LONG, "a"),
        ("audit", "--edges", "e.csv", "--nodes", f"{LONG}.csv", "--label", "topic"),
        ("audit", "--edges", LONG, "--nodes", "n.csv", "--label", "topic"),
        ("evaluate", LONG),
        ("evaluate", "--edges", f"{LONG}.csv", "--nodes", "n.csv", "--label", "topic"),
        ("graph", "build", f"{LONG}.csv", "--out", "g"),
        ("graph", "build", "e.csv", "--out", LONG),
        ("graph", "info", LONG),
        ("bench", "--show", LONG),
    ],
    ids=lambda words: " ".join("LONG" if LONG in word else word for word in words),
)
def test_a_path_that_cannot_be_looked_at_is_our_error(run, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.csv").write_text("source,target\na,b\n")
    (tmp_path / "n.csv").write_text("id,x,topic\na,1,u\nb,2,v\n")
    done = run(*words)
    assert done.code == 1
    assert done.err.startswith("error: ")
    assert "aaa" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("fit",),
        ("predict",),
        ("demo", "--runs", "0"),
        ("demo", "--runs", "many"),
        ("fit", "--output", "x"),
        ("nothing",),
        ("evaluate", "cora", "--runs", "0"),
        ("evaluate", "cora", "--per-class", "0"),
        ("evaluate", "cora", "--method", "LP", "--runs", "1000000000000"),
        ("demo", "--runs", "10001"),
        ("fit", "--out", "x", "--seed", "-1"),
    ],
)
def test_wrong_usage_is_exit_code_two(run, words):
    done = run(*words)
    assert done.code == 2
    assert "Usage: proptrain" in done.err
    assert done.out == ""


# --- what cannot be ---------------------------------------------------------------------------

SMALL_NODES = (
    "name,size,colour,kind\n"
    "n0,1,red,x\nn1,5,blue,y\nn2,1,red,x\nn3,6,blue,y\n"
    "n4,2,red,\nn5,5,blue,\nn6,1,red,\nn7,7,blue,\n"
)
SMALL_EDGES = "a,b,w\nn0,n4,1\nn4,n2,2\nn2,n6,1\nn1,n5,1\nn5,n3,1\nn3,n7,3\n"


def write_small(folder, nodes=SMALL_NODES, edges=SMALL_EDGES):
    for name, content in (("nodes.csv", nodes), ("edges.csv", edges)):
        if content is not None:
            (folder / name).write_bytes(
                content if isinstance(content, bytes) else content.encode("utf-8")
            )


def small_fit(folder, **other):
    given = {"edges": "edges.csv", "nodes": "nodes.csv", "out": "model", **other}
    words = [word for k, v in given.items() for word in (f"--{k}", folder / v)]
    return ("fit", *words, "--label", "kind")


def emptied(nodes, *labels):
    for label in labels:
        nodes = nodes.replace(f",{label}\n", ",\n")
    return nodes


def refused(run, folder, match, *words, kind=None):
    """Exit code 1, one message, no traceback, nothing left behind; and the same as JSON."""
    before = files_below(folder)
    done = run(*words)
    assert done.code == 1
    assert done.out == ""
    _, error, message = done.err.partition("error: ")
    assert error, done.err
    assert match in message
    assert "Traceback" not in done.err
    assert "error: " not in message
    as_json = run(*words, "--json")
    assert as_json.code == 1
    told = json.loads(as_json.out)["error"]
    assert match in one_line(told["message"])
    assert told["type"] == (kind or told["type"])
    assert told["type"].endswith("Error")
    assert as_json.err == ""
    assert files_below(folder) == before
    assert not [p for p in folder.rglob("*") if p.name.startswith(".")]


BAD_TABLES = {
    "unknown node id": (
        {"edges": SMALL_EDGES + "n0,n99,1\n"},
        "1 of edges.csv is not: 'n99' in row 7",
        "TableError",
    ),
    "empty node file": ({"nodes": ""}, "nodes.csv is empty", "FileFormatError"),
    "empty edge file": ({"edges": ""}, "edges.csv is empty", "FileFormatError"),
    "header only": ({"nodes": SMALL_NODES[:22]}, "nodes.csv has none", "TableError"),
    "edges with a header only": ({"edges": "a,b,w\n"}, "edges.csv has none", "TableError"),
    "missing node file": ({"nodes": None}, "nodes.csv does not exist", "UnreadableFileError"),
    "missing edge file": ({"edges": None}, "edges.csv does not exist", "UnreadableFileError"),
    "missing column": (
        {"nodes": SMALL_NODES.replace("kind", "Kinds")},
        "There must be a column 'kind' in nodes.csv; its columns are name, size, colour, Kinds. "
        "Did you mean 'Kinds'?",
        "TableError",
    ),
    "one class only": (
        {"nodes": emptied(SMALL_NODES, "y")},
        "there is one class only: 'x'",
        "LabelError",
    ),
    "no labels": ({"nodes": emptied(SMALL_NODES, "x", "y")}, "has a label", "LabelError"),
    "measured labels": (
        {"nodes": "name,size,kind\n" + "".join(f"n{i},{i},0.{i}5\n" for i in range(8))},
        "group a measured number into classes",
        "LabelError",
    ),
    "infinite feature": (
        {"nodes": SMALL_NODES.replace("n3,6", "n3,inf")},
        "column 'size' holds inf in row 4",
        "TableError",
    ),
    "repeated id": ({"nodes": SMALL_NODES.replace("n3,", "n2,")}, "repeats 1: 'n2'", "TableError"),
    "not text": ({"nodes": b"\xff\xfe\x00name"}, "must be text in UTF-8", "FileFormatError"),
    "rows too long": ({"edges": "a,b\nn0,n1,3,4\n"}, "cannot be read as .csv", "FileFormatError"),
    "no features": (
        {"nodes": "name,kind\n" + "".join(f"n{i},{'xy'[i % 2]}\n" for i in range(8))},
        "at least one column to learn from",
        "TableError",
    ),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_fit_refuses_bad_tables(run, tmp_path, case):
    tables, match, kind = BAD_TABLES[case]
    write_small(tmp_path, **tables)
    refused(run, tmp_path, match, *small_fit(tmp_path), kind=kind)


@pytest.mark.parametrize("case", [case for case in BAD_TABLES if case != "measured labels"])
def test_evaluate_refuses_bad_tables(run, tmp_path, case):
    tables, match, _ = BAD_TABLES[case]
    write_small(tmp_path, **tables)
    in_other_words = {
        "one class only": "at least two classes, got one: 'x'",
        "no labels": "No node has a label",
        "no features": "at least one column to learn from",
    }
    match = in_other_words.get(case, match)
    words = ("--per-class", 1, "--runs", 1, "--method", "PTS", "--out", tmp_path / "runs.jsonl")
    refused(run, tmp_path, match, "evaluate", *small_fit(tmp_path)[1:5], "--label", "kind", *words)


@pytest.mark.parametrize("columns", ["id,kind", "id,same,kind"])
def test_labels_and_edges_are_enough_for_label_propagation(run, tmp_path, columns):
    same = "z," if "same" in columns else ""
    rows = [f"u{i},{same}{'ab'[i % 2] if i < 20 else ''}" for i in range(40)]
    (tmp_path / "nodes.csv").write_text("\n".join([columns, *rows]))
    edges = [f"u{i},u{(i + 2) % 40}" for i in range(40)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *edges]))
    tables = ("--edges", tmp_path / "edges.csv", "--nodes", tmp_path / "nodes.csv")
    tables += ("--label", "kind", "--method")
    done = run("fit", *tables, "LP", "--out", tmp_path / "model")
    assert done.code == 0, done.err
    assert "; 0 features;" in done.err
    assert run("predict", tmp_path / "model", "--out", tmp_path / "told.csv").code == 0
    told = pd.read_csv(tmp_path / "told.csv")
    assert told["label"].tolist() == ["a", "b"] * 20
    assert run("evaluate", *tables, "LP", "--per-class", 3, "--runs", 1).code == 0
    for method in (("PTS",), ("LP", "--method", "PTS")):
        refused = run("evaluate", *tables, *method, "--per-class", 3, "--runs", 1)
        assert "Label propagation needs none" in refused.err


def test_fit_refuses_negative_weights_and_words_for_weights(run, tmp_path):
    write_small(tmp_path, edges=SMALL_EDGES.replace("n4,n2,2", "n4,n2,-2"))
    match = "Edge weights must be finite and not negative; 1 of 6 are not, the first is -2.0"
    refused(run, tmp_path, match, *small_fit(tmp_path), "--weight", "w", kind="GraphError")
    write_small(tmp_path, edges=SMALL_EDGES.replace("n4,n2,2", "n4,n2,much"))
    match = "Weights must be numbers of at most 3.4e38 in size, but column 'w' of edges.csv holds "
    match += "'much' in row 2"
    refused(run, tmp_path, match, *small_fit(tmp_path), "--weight", "w", kind="TableError")


def test_fit_refuses_what_is_no_file_or_no_table(run, tmp_path):
    write_small(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "nodes.xlsx").write_bytes(b"PK")
    match = "folder.csv is no graph folder that can be read"
    refused(run, tmp_path, match, *small_fit(tmp_path, edges="folder.csv"))
    match = "A table must be one of .csv, .csv.gz, .tsv, .tsv.gz, .parquet; got nodes.xlsx"
    refused(run, tmp_path, match, *small_fit(tmp_path, nodes="nodes.xlsx"))
    pd.read_csv(tmp_path / "nodes.csv").to_parquet(tmp_path / "nodes.parquet")
    whole = (tmp_path / "nodes.parquet").read_bytes()
    for content in (whole[: len(whole) // 2], b"", whole[:-4]):
        (tmp_path / "nodes.parquet").write_bytes(content)
        match = "nodes.parquet cannot be read as .parquet"
        refused(run, tmp_path, match, *small_fit(tmp_path, nodes="nodes.parquet"))


def test_fit_refuses_outputs_that_are_not_its_own(run, tmp_path):
    write_small(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.tex").write_text("years of work")
    words = small_fit(tmp_path)
    refused(run, tmp_path, "model exists already and is left alone", *words)
    match = "Only a model may be overwritten"
    refused(run, tmp_path, match, *words, "--overwrite", kind="OutputExistsError")
    match = "does not exist. Create it first."
    refused(run, tmp_path, match, *small_fit(tmp_path, out="nowhere/model"))
    match = "The output must be a folder"
    refused(run, tmp_path, match, *small_fit(tmp_path, out="nodes.csv"), "--overwrite")
    assert run(*small_fit(tmp_path, out="second")).code == 0
    assert run(*small_fit(tmp_path, out="second"), "--method", "LP", "--overwrite").code == 0
    assert "LabelPropagation" in (tmp_path / "second" / "model.json").read_text()


def test_fit_refuses_unknown_words(run, tmp_path):
    write_small(tmp_path)
    words = small_fit(tmp_path)
    refused(run, tmp_path, "The method must be one of LP, MLP", *words, "--method", "GAT")
    refused(run, tmp_path, "--kind must be COLUMN=KIND", *words, "--kind", "size")
    refused(run, tmp_path, "one of numeric, categorical, text, drop", *words, "--kind", "size=big")
    refused(run, tmp_path, "alpha, the weight of the restart", *words, "--alpha", "0")
    refused(run, tmp_path, "a column 'ID' in nodes.csv", *words, "--id", "ID")
    none = ("--method", "LP", "--stopping", "0.1")
    refused(run, tmp_path, "LP trains nothing that could stop: leave that option", *words, *none)
    refused(run, tmp_path, "--edges FILE, --nodes FILE and --label", *words[:-2])


@pytest.fixture(scope="module")
def small_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    write_small(folder)
    words = ["proptrain", *map(str, small_fit(folder)), "--method", "LP"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as left:
            cli.main()
    assert not left.value.code
    return folder / "model"


@pytest.mark.parametrize(
    ("new", "edges", "match"),
    [
        ("name,size,colour\nn0,1,red\n", None, "New nodes must be new, but the model knows 1"),
        ("name,size\nm,1\n", None, "missing: colour"),
        ("size,colour\n1,red\n", None, "There must be a column 'name' in new.csv"),
        ("name,size,colour\nm,inf,red\n", None, "column 'size' holds inf in row 1"),
        ("", None, "new.csv is empty"),
        ("name,size,colour\n", None, "new.csv has none"),
        ("name,size,colour\nm,1,red\n", "a,b\nm,n99\n", "'n99' in row 1"),
        ("name,size,colour\nm,1,red\n", "a,b\nm,n0\nn0,n1\n", "1 join two nodes that the model"),
        ("name,size,colour\nm,1,red\n", "", "new_edges.csv is empty"),
    ],
)
def test_predict_refuses_bad_tables_of_new_nodes(run, tmp_path, small_model, new, edges, match):
    (tmp_path / "new.csv").write_text(new)
    words = ("predict", small_model, "--nodes", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    if edges is not None:
        (tmp_path / "new_edges.csv").write_text(edges)
        words = (*words, "--edges", tmp_path / "new_edges.csv")
    refused(run, tmp_path, match, *words)


@pytest.mark.filterwarnings("always:The model was fitted to edges with weights")
@pytest.mark.parametrize(("fitted", "told"), [(("--weight", "w"), True), ((), False)])
def test_weights_that_new_edges_do_not_have_are_missed(run, tmp_path, fitted, told):
    write_small(tmp_path)
    assert run(*small_fit(tmp_path), *fitted, "--method", "LP").code == 0
    (tmp_path / "new.csv").write_text("name,size,colour\nm,1,red\n")
    (tmp_path / "e.csv").write_text("a,b,w\nm,n0,3\n")
    words = ("--nodes", tmp_path / "new.csv", "--edges", tmp_path / "e.csv")
    words = ("predict", tmp_path / "model", *words, "--out", tmp_path / "p.csv")
    said = "The model was fitted to edges with weights"
    assert (said in run(*words).err) is told
    assert said not in run(*words, "--weight", "w", "--overwrite").err


def test_predict_refuses_negative_weights(run, tmp_path, small_model):
    (tmp_path / "new.csv").write_text("name,size,colour\nm,1,red\n")
    (tmp_path / "e.csv").write_text("a,b,w\nm,n0,3\nn0,m,-1\n")  # not even where they would cancel
    words = ("--nodes", tmp_path / "new.csv", "--edges", tmp_path / "e.csv", "--weight", "w")
    match = "Edge weights must be finite and not negative"
    refused(run, tmp_path, match, "predict", small_model, *words, "--out", tmp_path / "p.csv")


def test_predict_refuses_models_and_outputs_that_are_none(run, tmp_path, small_model):
    model = shutil.copytree(small_model, tmp_path / "model")
    out = ("--out", tmp_path / "p.csv")
    refused(run, tmp_path, "is no model folder", "predict", tmp_path / "nowhere", *out)
    refused(run, tmp_path, "is no model folder", "predict", model / "model.json", *out)
    words = ("predict", model)
    match = "--out must end in .csv or .parquet, got 'p.txt'"
    refused(run, tmp_path, match, *words, "--out", tmp_path / "p.txt")
    match = "--edges belong to new nodes"
    refused(run, tmp_path, match, *words, *out, "--edges", tmp_path / "e.csv")
    match = "does not exist. Create it first."
    refused(run, tmp_path, match, *words, "--out", tmp_path / "nowhere" / "p.csv")
    (tmp_path / "p.csv").write_text("mine")
    match = "p.csv is read or written already"
    refused(run, tmp_path, match, *words, *out, "--nodes", tmp_path / "p.csv", "--overwrite")
    refused(run, tmp_path, "p.csv exists already and is left alone", *words, *out)
    (tmp_path / "folder.csv").mkdir()
    match = "The output must be a file"
    refused(run, tmp_path, match, *words, "--out", tmp_path / "folder.csv", "--overwrite")
    assert run(*words, *out, "--overwrite").code == 0
    assert (tmp_path / "p.csv").read_text().startswith("id,label,probability,source,reached,p_x")
    spoilt = bytearray((model / "arrays.safetensors").read_bytes())
    spoilt[-1] ^= 1
    (model / "arrays.safetensors").write_bytes(spoilt)
    match = "arrays.safetensors was changed after it was written"
    refused(run, tmp_path, match, *words, "--out", tmp_path / "q.csv", kind="FileFormatError")


def test_a_model_from_python_cannot_read_tables(run, tmp_path, monkeypatch):
    from proptrain import LabelPropagationClassifier

    clf = LabelPropagationClassifier().fit(None, [0, 1, -1, -1], graph=[(0, 2), (1, 3), (3, 1)])
    clf.save(tmp_path / "model")
    (tmp_path / "new.csv").write_text("name,size\nm,1\n")
    words = ("predict", tmp_path / "model", "--out", tmp_path / "p.csv")
    match = "This model was not fitted to the columns of a node table"
    refused(run, tmp_path, match, *words, "--nodes", tmp_path / "new.csv")
    assert run(*words).code == 0
    assert pd.read_csv(tmp_path / "p.csv")["label"].tolist() == [0, 1, 0, 1]


def test_evaluate_refuses_unknown_names_and_half_a_source(run, tmp_path):
    out = ("--out", tmp_path / "runs.jsonl", "--runs", 1)
    refused(run, tmp_path, "Did you mean 'cora'?", "evaluate", "coraa", *out)
    refused(run, tmp_path, "got 'GAT'", "evaluate", "cora", "--method", "GAT", *out)
    refused(run, tmp_path, "Name one data set", "evaluate", *out)
    refused(run, tmp_path, "Name one data set", "evaluate", "cora", "--nodes", "n.csv", *out)
    refused(run, tmp_path, "--edges FILE", "evaluate", "--nodes", "n.csv", *out)
    few = ("--per-class", 400, "--method", "LP")
    refused(run, tmp_path, "too few for 400 training nodes", "evaluate", "cora", *few, *out)
    match = "folder.jsonl is a folder already"
    (tmp_path / "folder.jsonl").mkdir()
    other = ("--out", tmp_path / "folder.jsonl", "--overwrite")
    refused(run, tmp_path, match, "evaluate", "cora", *other)
    (tmp_path / "runs.jsonl").write_text("mine")
    refused(run, tmp_path, "exists already and is left alone", "evaluate", "cora", *out)


def test_demo_refuses_its_output_before_it_runs(run, tmp_path):
    match = "does not exist. Create it first."
    refused(run, tmp_path, match, "demo", "--out", tmp_path / "nowhere" / "page.html")
    refused(run, tmp_path, "must be a file", "demo", "--out", tmp_path)


def test_data_that_is_nowhere(run, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    where = ("--data-dir", folder)
    refused(run, folder, "Cannot download http://127.0.0.1", "data", "fetch", "citeseer", *where)
    refused(run, folder, "comes with proptrain", "data", "fetch", "cora", *where)
    refused(run, folder, "Did you mean 'citeseer'?", "data", "fetch", "citeser", *where)
    refused(run, folder, "Downloads are switched off.", "data", "check", "citeseer", *where)
    refused(run, folder, "one of cora, citeseer", "data", "check", "nothing", *where)
    match = "Get citeseer.npz with SHA-256"
    refused(run, folder, match, "evaluate", "citeseer", *where, kind="DatasetNotFoundError")


def test_data_files_that_are_not_what_they_should_be(run, tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    whole = find_file("cora").read_bytes()
    np.savez(tmp_path / "pickled.npz", labels=np.array([Trap()], dtype=object))
    pickled = (tmp_path / "pickled.npz").read_bytes()
    for content in (whole[: len(whole) // 2], pickled, b""):
        (tmp_path / "citeseer.npz").write_bytes(content)
        for words in (("data", "check"), ("data", "fetch"), ("evaluate",)):
            match = "citeseer.npz must be citeseer.npz with SHA-256"
            full = (*words, "citeseer", "--data-dir", tmp_path)
            refused(run, tmp_path, match, *full, kind="FileFormatError")
    assert not (tmp_path / "sprung").exists()


# --- for real ---------------------------------------------------------------------------------


def test_in_a_process_of_its_own(tmp_path):
    write_small(tmp_path, nodes=emptied(SMALL_NODES, "y"))
    words = ("fit", "--edges", "edges.csv", "--nodes", "nodes.csv", "--label", "kind")
    done = in_a_process_of_its_own(*words, "--out", "model", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "there is one class only: 'x'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "model").exists()
    write_small(tmp_path, edges="a,b\nn0,n4\nn1,n5\n")
    done = in_a_process_of_its_own(*words, "--method", "LP", "--out", "model", cwd=tmp_path)
    assert done.returncode == 0
    said = one_line(done.stderr)
    assert "warning: No label reaches 2 of 8 nodes within 10 steps" in said
    assert "UserWarning" not in said
    assert ".py" not in said
