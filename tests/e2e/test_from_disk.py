"""The command line on graphs in a folder: the same answers from disk as from memory."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from one_process import OneProcess
from proptrain import PTAClassifier, load_dataset
from proptrain.classifier import GraphClassifier
from proptrain.data.disk import DiskGraph
from proptrain.errors import InvalidInputError

N = 500


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """Train for a few epochs: in hundreds the rounding of two engines would grow."""
    before = GraphClassifier._settings
    monkeypatch.setattr(
        GraphClassifier, "_settings", lambda *given: replace(before(*given), max_epochs=15)
    )


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    """Papers of Cora in two tables, ids out of order; a third of the labels."""
    folder, dataset = tmp_path_factory.mktemp("papers"), load_dataset("cora")
    random = np.random.RandomState(0)
    ids = np.array([f"paper-{i:03}" for i in random.permutation(N)])
    words = [f"w{j} " for j in range(dataset.features.shape[1])]
    texts = ["".join(words[j] for j in dataset.features[[i]].indices) for i in range(N)]
    topics = np.array(dataset.class_names)[dataset.labels[:N]]
    hidden = random.rand(N) < 0.66
    pd.DataFrame({"id": ids, "words": texts, "topic": np.where(hidden, "", topics)}).to_csv(
        folder / "nodes.csv", index=False
    )
    pairs = dataset.graph.adjacency[:N][:, :N].tocoo()
    edges = pd.DataFrame({"source": ids[pairs.row], "target": ids[pairs.col]})
    edges[pairs.row < pairs.col].to_csv(folder / "edges.csv", index=False)
    new = pd.DataFrame({"id": ["new-1", "new-2"], "words": texts[:2]})
    new.to_csv(folder / "new.csv", index=False)
    return folder


IN_WORDS = ("--nodes", "nodes.csv", "--label", "topic", "--device", "cpu")
TABLES = (*IN_WORDS, "--json")
RAY = ("--engine", "ray", "--features", "f.npy", "--labels", "l.npy")


@pytest.fixture
def built(papers, run, monkeypatch):
    monkeypatch.chdir(papers)
    if not (papers / "graph").exists():
        words = ("edges.csv", "--nodes", "nodes.csv", "--out", "graph", "--renumber")
        done = run("graph", "build", *words, "--blocks", 3)
        assert done.code == 0, done.err
        assert "500" in done.out
        assert "one-way made two-way" in " ".join(done.out.split())
        assert "next: proptrain graph info graph" in done.err
    return papers


def test_info_says_what_there_is(built, run):
    done = run("graph", "info", "graph", "--json")
    told = json.loads(done.out)
    assert (told["nodes"], told["blocks"], told["renumbered"]) == (500, 3, "communities")
    assert told["entries"] == 2 * told["edges"]
    assert told["peak_memory"] > 10**7
    path = built / "graph" / "indices-00001.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    done = run("graph", "info", "graph")
    path.write_bytes(content)
    assert done.code == 1
    assert "indices-00001.npy was changed after it was written" in done.err


@pytest.mark.parametrize("batches", [(), ("--batch-size", 150)])
def test_local_and_blocked_say_the_same(built, run, tmp_path, batches):
    tables, told = {}, {}
    for name, words in (
        ("tables", ("--edges", "edges.csv")),
        ("local", ("--edges", "graph", "--engine", "local")),
        ("blocked", ("--edges", "graph", "--engine", "blocked", "--memory", "8GB")),
    ):
        model = tmp_path / name
        done = run("fit", *words, *TABLES, *batches, "--method", "PTA(F)", "--out", model)
        assert done.code == 0, done.out
        told[name] = json.loads(done.out)
        assert run("predict", model, "--out", tmp_path / f"{name}.csv").code == 0
        tables[name] = pd.read_csv(tmp_path / f"{name}.csv")
    for name in ("local", "blocked"):
        ours, wanted = tables[name], tables["tables"]
        assert list(ours.columns) == list(wanted.columns)
        assert ours["id"].tolist() == wanted["id"].tolist()
        assert (ours["source"] == wanted["source"]).all()
        assert (ours["reached"] == wanted["reached"]).all()
        assert (ours["label"] == wanted["label"]).mean() > 0.99
        shares = [table.filter(like="p_").to_numpy() for table in (ours, wanted)]
        np.testing.assert_allclose(*shares, atol=2e-3)
        assert told[name]["reached"] == told["tables"]["reached"]
        assert told[name]["batch_size"] == (150 if batches else None)
    assert told["blocked"]["engine"] == "blocked"
    assert told["blocked"]["peak_memory"] > 10**7


def test_engines_tell_the_same_of_a_graph_in_its_own_order(built, run, tmp_path):
    words = ("--nodes", "nodes.csv", "--out", tmp_path / "in-order", "--blocks", 3)
    assert run("graph", "build", "edges.csv", *words, "--memory", "8GB").code == 0
    tables = []
    for engine, more in (("local", ()), ("blocked", ("--memory", "8GB"))):
        given = ("--edges", tmp_path / "in-order", "--engine", engine, *more, *TABLES)
        assert run("fit", *given, "--method", "PTA(F)", "--out", tmp_path / engine).code == 0
        assert run("predict", tmp_path / engine, "--out", tmp_path / f"{engine}.csv").code == 0
        tables.append(pd.read_csv(tmp_path / f"{engine}.csv"))
    assert (tables[0]["label"] == tables[1]["label"]).all()
    shares = [table.filter(like="p_").to_numpy() for table in tables]
    np.testing.assert_allclose(*shares, rtol=0, atol=1e-6)  # stored in single precision


def test_a_node_table_on_a_cluster_says_the_same(built, run, tmp_path, monkeypatch):
    monkeypatch.setattr("proptrain.large.on_ray.RayCrew", lambda _: nullcontext(OneProcess()))
    told = {}
    for engine, words in (("blocked", ("--memory", "8GB")), ("ray", ("--shared", tmp_path))):
        given = ("--edges", "graph", "--engine", engine, *words, *IN_WORDS, "--method", "PTA(F)")
        done = run("fit", *given, "--batch-size", 150, "--out", tmp_path / engine)
        assert done.code == 0, done.out + done.err
        assert ("starting Ray on this machine alone" in done.err) == (engine == "ray")
        assert ("in the process that leads; written" in done.err) == (engine == "ray")
        for file, more in (("all.csv", ()), ("new.csv", ("--nodes", "new.csv"))):
            out = tmp_path / f"{engine}-{file}"
            assert run("predict", tmp_path / engine, *more, "--out", out).code == 0
            told[engine, file] = pd.read_csv(out)
    for file, n_nodes in (("all.csv", 500), ("new.csv", 2)):
        ours, wanted = told["ray", file], told["blocked", file]
        assert ours["id"].tolist() == wanted["id"].tolist()
        assert len(ours) == n_nodes
        shares = [table.filter(like="p_").to_numpy() for table in (ours, wanted)]
        # Every number is stored there, zeros too, and added up in another order.
        np.testing.assert_allclose(*shares, atol=2e-3)


@pytest.mark.parametrize("edges", ["edges.csv", "graph"])
def test_the_bar_is_as_long_as_few_labels_allow(built, run, tmp_path, monkeypatch, edges):
    lengths = []

    @contextmanager
    def bar(max_epochs, *, quiet):
        lengths.append(max_epochs)
        yield lambda *_: None

    for module in ("fit", "fit_folder"):
        monkeypatch.setattr(f"proptrain.cli.{module}.training_progress", bar)
    words = ("--edges", edges, *TABLES, "--method", "PTA+", "--out", tmp_path / "model")
    assert run("fit", *words).code == 0
    assert lengths == [450]  # three rounds without stopping nodes


def test_keeping_the_largest_numbers_is_told_with_its_bound(built, run, tmp_path):
    words = ("--edges", "graph", "--engine", "blocked", "--memory", "8GB", "--top", 2)
    words = (*words, *(word for word in TABLES if word != "--json"), "--method", "PTA(F)")
    done = run("fit", *words, "--out", tmp_path / "a")
    assert done.code == 0, done.err
    assert (
        "the 2 largest numbers of each node were kept: soft labels are off by at most" in done.err
    )
    told = json.loads(run("fit", *words, "--json", "--out", tmp_path / "b").out)
    assert told["top"] == 2
    shares = [f"{told['error_bounds'][place] / N**0.5:.2g}" for place in (0, 2)]
    assert f"at most {shares[0]}, propagated scores by {shares[1]} (a node" in done.err
    assert min(told["error_bounds"]) > 0


def test_a_model_from_disk_tells_new_nodes_by_their_features(built, run, tmp_path):
    model, out = tmp_path / "model", tmp_path / "new.parquet"
    words = ("--edges", "graph", "--engine", "blocked", "--memory", "8GB", *TABLES[:4])
    done = run("fit", *words, "--method", "PTA(F)", "--out", model)
    assert done.code == 0
    assert "of memory at the peak; written to" in done.err
    assert run("predict", model, "--nodes", "new.csv", "--out", out).code == 0
    table = pd.read_parquet(out)
    assert table["id"].tolist() == ["new-1", "new-2"]
    np.testing.assert_allclose(table.filter(like="p_").sum(axis=1), 1, rtol=1e-5)
    assert run("predict", model, "--out", tmp_path / "all.parquet", "--json").code == 0
    assert len(pd.read_parquet(tmp_path / "all.parquet")) == N
    done = run("predict", model, "--nodes", "new.csv", "--edges", "edges.csv", "--out", "x.csv")
    assert done.code == 1
    assert "leave --edges out" in done.err
    done = run("fit", *words, "--out", model, "--overwrite", "--method", "PTS")
    assert done.code == 0


def test_a_model_from_disk_says_what_it_is_not_for(built, run, tmp_path):
    words = ("--edges", "graph", "--engine", "blocked", "--memory", "8GB", *TABLES[:4])
    assert run("fit", *words, "--out", tmp_path / "model").code == 0
    for command in (("explain", tmp_path / "model", "paper-001"), ("report", tmp_path / "model")):
        done = run(*command)
        assert done.code == 1
        assert "was fitted from disk" in done.err
        assert "fit it with --engine local" in done.err
    with pytest.raises(InvalidInputError, match="was fitted from disk"):
        PTAClassifier.load(tmp_path / "model")
    done = run("evaluate", tmp_path / "model")
    assert done.code == 1
    assert "A data set must be named" in done.err
    for command in ("audit", "evaluate"):
        done = run(command, "--edges", "graph", "--nodes", "nodes.csv", "--label", "topic")
        assert done.code == 1
        assert "--edges must be an edge list here, but graph is a folder" in done.err


def test_a_made_up_problem_from_end_to_end(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--nodes", 3000, "--edges", 20_000, "--classes", 4, "--features", 20, "--json")
    words += ("--labelled", 0.2, "--memory", "4GB")  # of this process, which has run other tests
    done = run("graph", "synthetic", "--out", "big", *words)
    assert done.code == 0, done.out
    assert json.loads(done.out)["entries"] == 40_000
    arrays = ("--features", "big/features.npy", "--labels", "big/labels.npy")
    words = ("--edges", "big/graph", "--engine", "blocked", "--memory", "8GB", *arrays)
    done = run("fit", *words, "--batch-size", 500, "--method", "PTA(F)", "--out", "model")
    assert done.code == 0, done.err
    assert run("predict", "model", "--out", "predictions.csv").code == 0
    table, truth = pd.read_csv("predictions.csv"), np.load("big/truth.npy")
    assert table["id"].tolist() == list(range(3000))
    told = table["source"] == "predicted"
    assert (table["label"][told] == truth[told]).mean() > 0.9
    assert DiskGraph("big/graph").n_edges == 20_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--edges", "edges.csv", "--engine", "blocked", *TABLES), "graph build edges.csv"),
        (("--edges", "edges.csv", "--features", "f.npy", *TABLES), "goes with a graph folder"),
        (("--edges", "graph", "--engine", "cluster", *TABLES), "one of local, blocked"),
        (("--edges", "graph", "--engine", "ray"), "either --nodes TABLE and --label COLUMN"),
        (
            ("--edges", "graph", "--engine", "ray", "--nodes", "s3://b/n.csv", "--label", "topic"),
            "s3://b/n.csv is an address, but a node table is read from a disk of this machine",
        ),
        (("--edges", "graph", *TABLES, "--address", "auto"), "--address goes with --engine ray"),
        (("--edges", "graph", *TABLES, "--memory", "2GB"), "--memory goes with --engine blocked"),
        (("--edges", "graph", *RAY, "--memory", "2GB"), "--memory goes with --engine blocked"),
        (("--edges", "graph", *TABLES, "--weight", "w"), "--weight goes with an edge list"),
        (("--edges", "graph", *RAY, "--source", "a", "--target", "b"), "--source and --target go"),
        (("--edges", "graph", *RAY, "--kind", "x=drop"), "--kind goes with a node table"),
        (("--edges", "graph", *TABLES, "--top", 2), "--top goes with --engine blocked"),
        (("--edges", "graph", "--engine", "blocked"), "either --nodes TABLE and --label COLUMN"),
        (
            ("--edges", "gone", "--features", "f.npy"),
            "--edges must be there, but gone does not exist",
        ),
        (
            ("--edges", "s3://bucket/graph", *TABLES),
            "s3://bucket/graph is an address, but --engine",
        ),
        (
            ("--edges", "graph", *TABLES, "--features", "f.npy"),
            "--nodes and --label go with a node ",
        ),
        (("--edges", "graph", *TABLES, "--engine", "blocked", "--memory", "lots"), "such as 500MB"),
        (("--edges", "graph", *TABLES, "--engine", "blocked", "--method", "GCN"), "From disk, PTA"),
        (("--edges", "edges.csv", *TABLES, "--batch-size", 9, "--method", "GCN"), "in batches"),
    ],
)
def test_what_cannot_be_done_is_said(built, run, tmp_path, words, message):
    done = run("fit", *words, "--out", tmp_path / "model")
    assert done.code == 1
    assert message in done.out + done.err
    assert not (tmp_path / "model").exists()


def test_a_graph_is_built_one_way_at_a_time(built, run):
    done = run("graph", "build", "edges.csv", "--nodes", "nodes.csv", "--n-nodes", 5, "--out", "g")
    assert done.code == 1
    assert "--nodes or --n-nodes, not both" in done.err
    done = run("graph", "info", ".")
    assert "is no graph folder that can be read" in done.err
