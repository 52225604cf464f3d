"""Every reader with a set of whole files, what reads and uses them, and what signs them anew.

Models and graphs carry checksums, which are no signature: a stranger can compute them anew. So
most of what is spoilt is signed again, or the checksum would be all that was ever tried. Not what
an unfinished build has left: its notes name the user's own files by path, size and time, and it is
the disk that spoils them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from proptrain import (
    LabelPropagationClassifier,
    PTAClassifier,
    PTAPlusClassifier,
    fit_from_disk,
    save_graph,
)
from proptrain.bench.memory import Memory
from proptrain.bench.results import Measured, read_measured
from proptrain.bench.steps import AS_GIVEN, RENUMBERED
from proptrain.bench.tables import to_markdown
from proptrain.bench.timing import Timed
from proptrain.cli.audit import _write_fixed as write_fixed
from proptrain.cli.bench import _write_plot as write_plot
from proptrain.cli.doubts import audited_now, read_audit
from proptrain.cli.predict import predict
from proptrain.data.disk import DiskGraph, OnPart
from proptrain.data.disk_build import Nodes, build_graph
from proptrain.data.disk_nodes import open_features, open_labels, read_node_table
from proptrain.data.npz import read_npz, write_npz
from proptrain.data.shared import SharedFolder
from proptrain.data.shared_graph import SharedGraph
from proptrain.data.synthetic_disk import write_synthetic
from proptrain.data.tables import Tables, read_tables
from proptrain.experiments.protocol import Run
from proptrain.experiments.store import read_runs
from proptrain.propagate.blocked import BlockedEngine
from proptrain.propagate.schemes import PPR
from proptrain.saving.disk_model import save_disk_model
from proptrain.saving.persistence import load_model, save_model
from proptrain.train.loop import TrainSettings, predict_probabilities, train_predictor
from proptrain.train.snapshot import Keeper, Snapshot, signed
from proptrain.train.stopping import StoppingNodes

Files = Mapping[str, bytes]
FORMS = {"CSV": ".csv", "TSV": ".tsv", "gzipped": ".csv.gz", "Parquet": ".parquet"}
"""In which a table may come, by their names; .tsv.gz is unpacked as one, and read as the other."""
_N_NODES = 24
_MADE: dict[str, Any] = {"n_nodes": 60, "n_edges": 60, "n_classes": 2, "memory": "64GB"}
_TABLE: dict[str, Any] = {"id": "id", "label": "topic", "features": ["size", "words"]}


@dataclass(frozen=True)
class Reader:
    """Whole files, and what reads them from a folder."""

    name: str
    files: Files
    read: Callable[[Path], Any]
    sign: Callable[[Files], dict[str, bytes]] = dict
    begins_anew: bool = False
    """Whether what is spoilt is made again; the result must then be that of the whole files."""


def all_readers(work: Path) -> list[Reader]:
    """Make whole files for every reader in an empty folder."""
    _write_tables(work)
    tables = read_tables(work / "edges.csv", work / "nodes.csv", label="topic")
    write_npz(tables.dataset, work / "data.npz")
    save_graph(tables.dataset.graph, work / "graph", ids=tables.dataset.node_ids, n_blocks=2)
    _write_models(work, tables)
    write_synthetic(work / "made", **_MADE)
    _write_lines(work)
    _write_audit(work)
    whole = _write_unfinished(work)
    _train(_Folder(None, work / "snapshot"))

    def files(*names: str) -> Files:
        return {name: (work / name).read_bytes() for name in names}

    def folder(name: str) -> Files:
        paths = [path for path in sorted((work / name).rglob("*")) if path.is_file()]
        return {path.relative_to(work / name).as_posix(): path.read_bytes() for path in paths}

    csv, parquet = ("edges.csv", "nodes.csv"), ("edges.parquet", "nodes.parquet")
    tsv, packed = ("edges.tsv", "nodes.tsv"), ("edges.csv.gz", "nodes.csv.gz")
    new, new_edges = work / "new.csv", work / "new_edges.csv"
    readers = [
        Reader("npz data set", files("data.npz"), lambda at: read_npz(at / "data.npz")),
        Reader("CSV tables", files(*csv), partial(_read_tables, names=csv)),
        Reader("Parquet tables", files(*parquet), partial(_read_tables, names=parquet)),
        Reader("TSV tables", files(*tsv), partial(_read_tables, names=tsv)),
        Reader("CSV edge list, built", files("edges.csv"), partial(_build, name="edges.csv")),
        Reader("Parquet edge list, built", files("edges.parquet"),
               partial(_build, name="edges.parquet")),
        Reader("TSV edge list, built", files(tsv[0]), partial(_build, name=tsv[0])),
        Reader("features and labels, npy", files("features.npy", "labels.npy"), _read_arrays),
        Reader("features, Parquet", files("features.parquet"),
               lambda at: open_features(at / "features.parquet", _N_NODES)),
        Reader("graph folder", folder("graph"), _use_graph, _sign_graph),
        Reader("model folder", folder("model"),
               partial(_use_model, new=new, edges=new_edges), sign_model),
        Reader("model folder, PTA+", folder("plus"),
               partial(_use_model, new=new, edges=new_edges), sign_model),
        Reader("model folder, LP", folder("lp"), _use_model, sign_model),
        Reader("model folder from disk", folder("disk"), partial(_use_model, new=new),
               _sign_disk_model),
        Reader("node table of a graph folder", files("nodes.csv"),
               partial(_read_beside, graph=work / "graph", name="nodes.csv")),
        Reader("new nodes of a model from disk", files("new.csv"),
               partial(_predict_new, model=work / "disk", nodes="new.csv")),
        Reader("report --nodes", files("nodes.csv"), partial(_audit_now, model=work / "model")),
        Reader("audit --fix", files("nodes.csv"), partial(_fix, edges=work / "edges.csv")),
        Reader("made_with.json", {"made_with.json": folder("made")["made_with.json"]},
               lambda at: write_synthetic(at, **_MADE)),
        Reader("runs.jsonl", files("runs.jsonl"), lambda at: read_runs(at / "runs.jsonl")),
        Reader("bench results", files("times.jsonl"),
               lambda at: to_markdown(read_measured(at / "times.jsonl"))),
        Reader("bench results, drawn", files("growth.jsonl"), _draw),
        Reader("audit results", files("audit.jsonl"), _read_audit),
        Reader("gzipped tables", files(*packed), partial(_read_tables, names=packed)),
        Reader("gzipped edge list, built", files(packed[0]), partial(_build, name=packed[0])),
        Reader("shared arrays", files("rows.npy", "labels.npy"), _read_shared),
        Reader("shared graph", folder("graph"), _use_shared_graph, _sign_graph),
        Reader("report --audit, CSV", files("audit.csv"),
               lambda at: read_audit(load_model(work / "model"), at / "audit.csv")),
        Reader("report --audit, JSON", files("audit.json"),
               lambda at: read_audit(load_model(work / "model"), at / "audit.json")),
        Reader("unfinished build", folder("unfinished"),
               partial(_finish, edges=work / "edges.csv", whole=whole), begins_anew=True),
        Reader("training snapshot", folder("snapshot"), lambda at: _train(_Folder(at)),
               _sign_snapshot),
    ]  # fmt: skip
    for form, end in FORMS.items():
        nodes, edges = f"new{end}", f"new_edges{end}"
        predict_new = partial(_predict_new, model=work / "model", nodes=nodes, edges=edges)
        readers.append(Reader(f"new nodes and edges, {form}", files(nodes, edges), predict_new))
        nodes = f"nodes{end}"
        build = partial(_build_of, edges=work / "edges.csv", name=nodes)
        readers.append(Reader(f"nodes of a build, {form}", files(nodes), build))
        if form != "CSV":  # which has a name of its own, above
            beside = partial(_read_beside, graph=work / "graph", name=nodes)
            readers.append(Reader(f"node table of a graph folder, {form}", files(nodes), beside))
    return readers


# --- reading and using --------------------------------------------------------------------------


def _read_tables(at: Path, names: tuple[str, str]) -> Tables:
    return read_tables(at / names[0], at / names[1], label="topic", weight="weight")


def _build(at: Path, name: str) -> None:
    graph = build_graph([at / name], at / "built", memory="64GB", weight="weight")
    graph.verify()


def _build_of(at: Path, edges: Path, name: str) -> None:
    """Build a graph whose nodes a table names; its edges are whole."""
    graph = build_graph([edges], at / "built", memory="64GB", nodes=Nodes(file=at / name))
    graph.verify()


def _read_arrays(at: Path) -> None:
    open_features(at / "features.npy", _N_NODES)
    open_labels(at / "labels.npy", _N_NODES)


def _read_shared(at: Path) -> None:
    folder = SharedFolder(at)
    folder.look("rows.npy")
    folder.read("rows.npy")
    folder.read_rows("rows.npy", slice(0, 3))
    folder.read_rows("rows.npy", np.array([1, 5]))
    folder.map("rows.npy")
    folder.read("labels.npy")


def _use_shared_graph(at: Path) -> None:
    graph = SharedGraph(at)
    for number in range(graph.n_blocks):
        graph.block(number)
    graph.stored_ids()
    _ = graph.degrees


def _use_graph(at: Path) -> None:
    graph = DiskGraph(at)
    graph.verify()
    graph.ids()
    graph.to_graph()
    BlockedEngine(graph, memory="64GB").propagate(np.eye(graph.n_nodes, 2), PPR(0.1, steps=2))


def _read_beside(at: Path, graph: Path, name: str) -> None:
    read_node_table(DiskGraph(graph), at / name, label="topic")


def _predict_new(at: Path, model: Path, nodes: str, edges: str | None = None) -> None:
    """Write what a whole model tells of new nodes, with their edges or by their features alone."""
    if edges is None:
        predict(model, at / "told.csv", at / nodes)
    else:
        predict(model, at / "told.csv", at / nodes, at / edges, weight="weight")


def _audit_now(at: Path, model: Path) -> None:
    audited_now(load_model(model), at / "nodes.csv", quiet=True)


def _fix(at: Path, edges: Path) -> None:
    """Write a table with a label replaced, as if an audit had found it."""
    data = read_tables(edges, at / "nodes.csv", label="topic").dataset
    known = np.flatnonzero(data.labels >= 0)
    given = np.array(data.class_names, dtype=object)[data.labels[known]]
    suspect = given != given[-1]
    found: Any = SimpleNamespace(
        nodes=known, given=given, suggested=np.full_like(given, given[-1]), suspect=suspect
    )
    how = {"overwrite": False, "for_spreadsheet": True}
    write_fixed(found, at / "nodes.csv", "topic", at / "fixed.csv", **how)
    write_fixed(found, at / "nodes.csv", "topic", at / "fixed.parquet", **how)


def _use_model(at: Path, new: Path | None = None, edges: Path | None = None) -> None:
    """Write what a model tells of its nodes; and of new ones, alone and with their edges."""
    out = at / "told.csv"
    predict(at, out)
    if new is not None:
        predict(at, out, new, overwrite=True)
    if edges is not None:
        predict(at, out, new, edges, weight="weight", overwrite=True)


def _draw(at: Path) -> None:
    measured = read_measured(at / "growth.jsonl")
    to_markdown(measured)
    write_plot(measured, at / "growth.svg")


def _read_audit(at: Path) -> Any:
    from benchmarks.audit.task import read_done

    return read_done(at / "audit.jsonl")


def _finish(at: Path, edges: Path, whole: dict[str, bytes]) -> None:
    """Go on with a build; what it comes to must be what it would have been without a fault."""
    _begin(edges, at).verify()
    found = {path.name: path.read_bytes() for path in at.iterdir()}
    assert found == whole, "another graph"


def _begin(edges: Path, out: Path, on_part: OnPart = lambda _: None) -> DiskGraph:
    how: dict[str, Any] = {"weight": "weight", "n_blocks": 2, "renumber": True}
    return build_graph([edges], out, memory="64GB", on_part=on_part, **how)


@dataclass(frozen=True)
class _Folder:
    """Keeps a training's snapshot in a folder, and has it go on from the one in another."""

    first: Path | None
    place: Path | None = None

    def load(self) -> Snapshot | None:
        return None if self.first is None else Snapshot.read(self.first)

    def save(self, snapshot: Snapshot) -> None:
        if self.place is not None:
            self.place.mkdir(exist_ok=True)
            snapshot.write(self.place)


def _train(keeper: Keeper) -> None:
    random = np.random.default_rng(0)
    classes = np.arange(_N_NODES) % 2
    soft = np.eye(2, dtype=np.float32)[classes]
    features = random.random((_N_NODES, 3), dtype=np.float32) + soft[:, :1]
    nodes = np.arange(0, _N_NODES, 3)
    n_epochs = 3 if isinstance(keeper, _Folder) and keeper.first is None else 5
    settings = TrainSettings(n_hidden=4, max_epochs=n_epochs, dropout=0.5)
    stop = StoppingNodes(nodes, classes[nodes], soft)
    trained = train_predictor(features, soft, stop, settings=settings, batch_size=10, keeper=keeper)
    predict_probabilities(trained.weights, features)


# --- signing ------------------------------------------------------------------------------------


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sign_model(files: Files) -> dict[str, bytes]:
    """Return the files of a model with all checksums computed anew."""
    told = json.loads(files["model.json"])
    told.pop("checksum", None)
    told["files"] = {name: _sha256(files.get(name, b"")) for name in told["files"]}
    told["checksum"] = _sha256(json.dumps(told, ensure_ascii=False, sort_keys=True).encode())
    return {**files, "model.json": json.dumps(told).encode()}


def _sign_disk_model(files: Files) -> dict[str, bytes]:
    told = json.loads(files["disk_model.json"])
    told["files"] = {name: _sha256(files.get(name, b"")) for name in told["files"]}
    return {**files, "disk_model.json": json.dumps(told).encode()}


def _sign_graph(files: Files) -> dict[str, bytes]:
    told = json.loads(files["manifest.json"])
    told.pop("checksum", None)
    stored = [told["degrees"], told["ids"], told["order"]]
    for block in told["blocks"]:
        stored += [block["indptr"], block["indices"], block["weights"]]
    for one in filter(None, stored):
        one["sha256"] = _sha256(files.get(one["name"], b""))
    told["checksum"] = _sha256(json.dumps(told, sort_keys=True).encode())
    return {**files, "manifest.json": json.dumps(told).encode()}


def _sign_snapshot(files: Files) -> dict[str, bytes]:
    numbers = json.loads(files["numbers.json"])["numbers"]
    return {**files, "numbers.json": signed(numbers, files.get("arrays.safetensors", b""))}


# --- whole files --------------------------------------------------------------------------------


def _write_tables(work: Path) -> None:
    random = np.random.default_rng(0)
    classes = np.arange(_N_NODES) % 2
    names = [f"n{node}" for node in range(_N_NODES)]
    size = np.round(random.random(_N_NODES) + classes, 3)
    words = np.where(classes, "red blue", "green")
    topic = np.where(random.random(_N_NODES) < 0.6, np.where(classes, "a", "b"), "")
    nodes = pd.DataFrame({"id": names, "size": size, "words": words, "topic": topic})
    ends = random.integers(0, _N_NODES, (2 * _N_NODES, 2))
    edges = pd.DataFrame(ends, columns=["source", "target"]).map(lambda node: names[node])
    edges["weight"] = np.round(random.random(len(edges)) + 0.5, 2)
    features = pd.DataFrame(random.random((_N_NODES, 3)), columns=list("abc"))
    for name, table in {
        "nodes": nodes,
        "edges": edges,
        "new": nodes.assign(id="new" + nodes["id"]),
        "new_edges": edges.assign(source="new" + edges["source"]),
        "features": features,
    }.items():
        table.to_csv(work / f"{name}.csv", index=False)
        table.to_csv(work / f"{name}.tsv", index=False, sep="\t")
        table.to_parquet(work / f"{name}.parquet", index=False, compression=None)
        packed = gzip.compress((work / f"{name}.csv").read_bytes(), mtime=0)
        (work / f"{name}.csv.gz").write_bytes(packed)
    np.save(work / "features.npy", features.to_numpy())
    np.save(work / "rows.npy", np.ascontiguousarray(features))
    np.save(work / "labels.npy", np.where(topic == "", -1, classes))


def _write_models(work: Path, tables: Tables) -> None:
    data = tables.dataset
    assert data.class_names is not None
    y = np.array([*data.class_names, None], dtype=object)[data.labels]
    how: dict[str, Any] = {"unlabelled": None, "device": "cpu"}
    trained = {**how, "max_epochs": 3, "random_state": 0}
    classifier = PTAClassifier(**trained)
    kept: dict[str, Any] = {"encoder": tables.encoder, "table": _TABLE}
    for name, one in {
        "model": classifier,
        "plus": PTAPlusClassifier(**trained),
        "lp": LabelPropagationClassifier(**how),
    }.items():
        one.fit(data.features, y, graph=data.graph)
        save_model(work / name, one, node_ids=data.node_ids, **kept)
    graph = DiskGraph(work / "graph")
    fitted = fit_from_disk(classifier, graph, data.features, y, memory="64GB")
    save_disk_model(work / "disk", classifier, fitted, graph, **kept)


class _Stop(BaseException):
    """What no handler takes for its own, as a kill is."""


def _write_unfinished(work: Path) -> dict[str, bytes]:
    """Leave a build as a kill in its second sorting would; returns the files of the graph."""

    def stop_at(share: float) -> None:
        done.append(share)
        if sum(done) > 0.85:
            raise _Stop

    done: list[float] = []
    _begin(work / "edges.csv", work / "whole")
    with suppress(_Stop):
        _begin(work / "edges.csv", work / "unfinished", stop_at)
    return {path.name: path.read_bytes() for path in (work / "whole").iterdir()}


def _write_audit(work: Path) -> None:
    saved = load_model(work / "model")
    classifier = saved.estimator
    assert saved.node_ids is not None
    known = np.flatnonzero(classifier.given_ >= 0)
    told = {"id": saved.node_ids[known], "given": classifier.classes_[classifier.given_[known]]}
    table = pd.DataFrame({**told, "suggested": classifier.classes_[0]})
    table = table.assign(suspicion=0.5, suspect=True)
    table.to_csv(work / "audit.csv", index=False)
    table.to_json(work / "audit.json", orient="records")


def _write_lines(work: Path) -> None:
    runs = [Run("cora", "PTA", seed, 0, 0.8, 0.8, 10, 5, 1.0).to_json() for seed in range(3)]
    timed = {"ours": Timed((0.1, 0.2, 0.3), 0), "theirs": Timed((0.2, 0.3, 0.4), 0)}
    measured = Measured("step", "one step", "small", "ours", timed, 10.0, "bytes").to_json()
    steps = {AS_GIVEN: timed["ours"], RENUMBERED: timed["theirs"]}
    memory = Memory(graph=10**6, signal=10**5, idle=10**7, peak=2 * 10**7)
    growth = [
        Measured("growth", "growth", name, AS_GIVEN, steps, amount, "entries", memory)
        for name, amount in (("small", 1e5), ("large", 1e6))
    ]
    audit = {"dataset": "cora", "kind": "pair", "rate": 0.1, "seed": 0, "validation": False}
    audit |= {"code": "c", "measured": {"auroc audit": 0.9}}
    lines = {"runs": runs, "times": [measured] * 2, "audit": [audit] * 2}
    lines["growth"] = [one.to_json() for one in growth]
    for name, contents in lines.items():
        text = "".join(json.dumps(content) + "\n" for content in contents)
        (work / f"{name}.jsonl").write_text(text)
