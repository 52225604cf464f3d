"""Files from strangers: nothing in them is run, fills the memory, or leads elsewhere."""

from __future__ import annotations

import ast
import io
import json
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import warnings
import zipfile
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skops.io
from reliability.fuzz import read_spoilt, write
from reliability.harm import Payload, with_pickles
from reliability.readers import all_readers

import proptrain
from processes import HANGS
from proptrain import DiskGraph, LabelPropagationClassifier, read_npz
from proptrain.bench.results import open_measured, read_measured
from proptrain.cli.doubts import _read as read_audit
from proptrain.cli.doubts import read_audit as read_doubts
from proptrain.data.catalog import fetch
from proptrain.data.columns import encode_columns
from proptrain.data.disk_build import build_graph
from proptrain.data.disk_ids import find_ids
from proptrain.data.disk_nodes import open_features, open_labels
from proptrain.data.disk_notes import write_note
from proptrain.data.edge_files import open_edges
from proptrain.data.npy import map_array
from proptrain.data.synthetic_disk import write_synthetic
from proptrain.data.table_files import read_table
from proptrain.data.tables import edge_pairs, read_nodes
from proptrain.data.unpacking import LARGE
from proptrain.errors import (
    FileFormatError,
    LabelError,
    NotEnoughMemoryError,
    OutputExistsError,
    ProptrainError,
    TableError,
    UnreadableFileError,
)
from proptrain.experiments.store import read_runs
from proptrain.saving.disk_model import load_disk_model
from proptrain.saving.persistence import load_model, parse_encoder
from proptrain.system import reading
from proptrain.train.snapshot import Snapshot

SOURCES = sorted(Path(proptrain.__file__).parent.rglob("*.py"))


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    return {one.name: one for one in all_readers(tmp_path_factory.mktemp("whole"))}


# --- nothing is run -----------------------------------------------------------------------------


def test_no_source_unpickles():
    assert len(SOURCES) > 50
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.id] if isinstance(node, ast.Name) else []
            if isinstance(node, ast.Import | ast.ImportFrom):
                names += [alias.name for alias in node.names]
                names += [getattr(node, "module", None) or ""]
            assert not {"pickle", "cloudpickle", "joblib", "marshal", "dill"} & set(names), path
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                words = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert called not in {"torch.load", "pd.read_pickle"}, path
                assert words.get("allow_pickle", "False") == "False", path


def test_a_pickle_in_any_file_of_any_reader_is_not_run(readers, tmp_path):
    planted, n_tried = tmp_path / "planted", 0
    for reader in readers.values():
        for name, files in with_pickles(reader, planted):
            folder = tmp_path / f"{n_tried}"
            write(folder, files)
            if reader.begins_anew and not name.endswith("inputs.json"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    reader.read(folder)
            else:
                with pytest.raises(ProptrainError):
                    reader.read(folder)
            n_tried += 1
    assert n_tried > 50
    assert not planted.exists()
    pickle.loads(pickle.dumps(Payload(planted)))  # it would have been seen
    assert planted.exists()


def words(encoder):
    return encoder.named_transformers_["text words"]


HARMFUL = {
    "a pattern that never ends": lambda e: words(e).set_params(token_pattern=r"(?:a+)+$"),
    "files to open": lambda e: words(e).set_params(input="filename"),
    "many words of each": lambda e: words(e).set_params(ngram_range=(1, 10**9), analyzer="char"),
    "many processes": lambda e: e.set_params(n_jobs=200),
    "another fill": lambda e: e.named_transformers_["numeric"].set_params(
        simpleimputer__strategy="mean"
    ),
    "a step more": lambda e: e.named_transformers_["numeric"].steps.append(("a", "passthrough")),
    "another part": lambda e: e.transformers_.append(("more", "passthrough", ["size"])),
    "a part of another type": lambda e: e.transformers_.__setitem__(
        0, ("numeric", "passthrough", ["size"])
    ),
}


@pytest.mark.parametrize("how", HARMFUL)
def test_an_encoder_with_other_settings_than_ours_is_refused(how):
    table = pd.DataFrame({"size": [1.0, 2, None], "kind": ["a", "b", "a"]})
    table["words"] = ["red and blue", "blue", "green"]
    kinds = {"size": "numeric", "kind": "categorical", "words": "text"}
    encoder = encode_columns(table, kinds=kinds).encoder
    again = parse_encoder(skops.io.dumps(encoder))
    assert (again.transform(table) != encoder.transform(table)).nnz == 0
    HARMFUL[how](encoder)
    with pytest.raises(FileFormatError, match="must be of proptrain's making"):
        parse_encoder(skops.io.dumps(encoder))


# --- nothing fills the memory -------------------------------------------------------------------


def zip_bomb(name, size):
    target = io.BytesIO()
    with (
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(name, "w", force_zip64=True) as member,
    ):
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))
    return target.getvalue()


@pytest.fixture(scope="module")
def bomb():
    return zip_bomb("adj_matrix.data.npy", 300 << 20)


def test_a_zip_bomb_is_refused(bomb, tmp_path, monkeypatch):
    (tmp_path / "a.npz").write_bytes(bomb)
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("it is unpacked"))
    with pytest.raises(FileFormatError, match="made to fill the memory, and is not unpacked"):
        read_npz(tmp_path / "a.npz")
    with pytest.raises(FileFormatError, match=r"would grow from \d{3},\d{3} bytes to 314,572,800"):
        parse_encoder(bomb)


def test_members_that_fill_the_memory_together_are_refused(tmp_path, monkeypatch):
    path, member = tmp_path / "a.npz", bytes(LARGE // 4)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "abcde":
            archive.writestr(name, member)
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("it is unpacked"))
    for read in (lambda: read_npz(path), lambda: parse_encoder(path.read_bytes())):
        with pytest.raises(FileFormatError, match="the archive would grow"):
            read()


def test_small_numbers_that_fill_the_memory_as_large_ones_are_refused(tmp_path):
    n = LARGE // 12
    parts = {"data": np.ones(n, np.uint8), "indices": np.zeros(n, np.uint8)}
    parts |= {"indptr": np.array([0, n]), "shape": np.array([1, 1])}
    members = {f"adj_matrix.{name}": part for name, part in parts.items()}
    np.savez_compressed(tmp_path / "a.npz", **members)
    with pytest.raises(FileFormatError, match=r"the matrix adj_matrix\..* would grow"):
        read_npz(tmp_path / "a.npz")


def test_small_features_that_fill_the_memory_as_float32_are_refused(tmp_path):
    graph = proptrain.Graph.without_edges(2)
    features = np.zeros((2, LARGE // 6), np.bool_)
    proptrain.write_npz(
        proptrain.Dataset(graph, np.ones((2, 1)), np.array([0, 1])), tmp_path / "a.npz"
    )
    with np.load(tmp_path / "a.npz") as arrays:
        members = {**arrays, "attr_matrix": features}
    np.savez_compressed(tmp_path / "a.npz", **members)
    with pytest.raises(FileFormatError, match="attr_matrix would grow"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_that_unpacks_without_a_limit_is_refused(packing, tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("adj_matrix.data.npy", bytes(1 << 20))
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = (200).to_bytes(4, "little")  # claimed size
    path.write_bytes(content)
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("it is unpacked"))
    for read in (lambda: read_npz(path), lambda: parse_encoder(bytes(content))):
        with pytest.raises(FileFormatError, match="must be stored or deflated"):
            read()


def test_a_member_that_claims_more_than_the_archive_is_refused(readers, tmp_path):
    content = bytearray(readers["npz data set"].files["data.npz"])
    directory = content.index(b"PK\x01\x02")
    content[directory + 20 : directory + 24] = (10**9).to_bytes(4, "little")  # compressed size
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(FileFormatError, match="1,000,000,000 bytes of it, more than there are"):
        read_npz(tmp_path / "a.npz")


def npy_claiming(n_rows, content=b"\0" * 64):
    header = io.BytesIO()
    claimed = {"descr": "<f8", "fortran_order": False, "shape": (n_rows, 3)}
    np.lib.format.write_array_header_1_0(header, claimed)
    return header.getvalue() + content


def test_a_header_that_claims_a_trillion_rows_takes_no_memory(readers, tmp_path):
    huge = npy_claiming(10**12)
    (tmp_path / "a.npy").write_bytes(huge)
    with pytest.raises(FileFormatError, match=r"a\.npy claims shape \(1000000000000, 3\)"):
        map_array(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("adj_matrix.indptr.npy", huge)
        archive.writestr("adj_matrix.data.npy", huge)
    with pytest.raises(FileFormatError, match=r"shape \(1000000000000, 3\)"):
        read_npz(tmp_path / "a.npz")
    with pytest.raises(FileFormatError, match=r"shape \(1000000000000, 3\)"):
        parse_encoder((tmp_path / "a.npz").read_bytes())


def test_a_parquet_file_of_a_billion_equal_rows_is_refused(tmp_path):
    path = tmp_path / "nodes.parquet"
    column = pa.DictionaryArray.from_arrays(np.zeros(10**7, np.int32), ["a"])
    pq.write_table(pa.table({"source": column, "target": column}), path)
    for read in (
        lambda: read_nodes(path),
        lambda: build_graph([path], tmp_path / "graph", memory="8GB"),
        lambda: open_features(path, 3),
    ):
        with pytest.raises(FileFormatError, match=r"claims 10,000,000 rows in [\d,]+ bytes"):
            read()


def test_a_parquet_file_that_says_a_long_text_often_is_refused(tmp_path):
    path, n = tmp_path / "nodes.parquet", 1500
    said_once = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["a" * 100_000])
    ids = pa.array([f"n{node}" for node in range(n)])
    table = pa.table({"id": ids, "words": said_once})
    pq.write_table(table, path, compression="zstd", store_schema=False)
    with pytest.raises(FileFormatError, match=r"would grow from [\d,]+ bytes to 150,00\d,\d{3}"):
        read_nodes(path)
    edges = pa.table({"source": said_once, "target": ids})
    pq.write_table(edges, path, compression="zstd", store_schema=False)
    with pytest.raises(TableError, match="at most 200 bytes, got one of 100,000"):
        build_graph([path], tmp_path / "graph", memory="8GB")


def test_a_parquet_file_of_many_equal_numbers_is_refused(tmp_path):
    path, column = tmp_path / "features.parquet", pa.array(np.zeros(200_000, np.float32))
    table = pa.table({f"c{place}": column for place in range(100)})
    pq.write_table(table, path, compression="zstd")
    for read in (lambda: open_features(path, 3), lambda: read_nodes(path)):
        with pytest.raises(FileFormatError, match=r"would grow from [\d,]+ bytes to 80,000,000"):
            read()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked and limited")
@pytest.mark.parametrize("name", ["nodes.parquet", "edges.parquet"])
def test_a_parquet_column_that_contradicts_itself_does_not_end_the_process(name, readers):
    """Its cells may be empty, says what counts them; its schema says that they may not."""
    key = "nodes of a build, Parquet" if name.startswith("nodes") else "Parquet edge list, built"
    content = readers[key].files[name]
    for column in (b"\x02id", b"\x06source"):  # in the schema, after how often it is in a cell
        content = content.replace(b"\x25\x02\x18" + column, b"\x25\x00\x18" + column)
    assert content != readers[key].files[name]
    (outcome,) = read_spoilt(readers[key], range(1), 0, make=lambda *_: {name: content})
    assert re.fullmatch(r"result|\w+Error", outcome), outcome  # by which pyarrow can tell


def test_parquet_gives_back_what_pandas_wrote(tmp_path):
    table = pd.DataFrame({"id": ["a", "b", "c"], "x": [1.5, None, 2], "t": ["é", None, "é"]})
    table["c"] = table["t"].astype("category")
    table.to_parquet(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "a.parquet"), table)


def test_ids_that_would_become_one_are_refused(tmp_path):
    pd.DataFrame({"id": ["a", "a\0"]}).to_parquet(tmp_path / "nodes.parquet")
    with pytest.raises(TableError, match="text without the character 0"):
        read_nodes(tmp_path / "nodes.parquet")


def test_an_id_that_a_quote_made_endless_is_refused(tmp_path):
    rows = "".join(f"n{node},1\n" for node in range(100))
    (tmp_path / "nodes.csv").write_text(f'id,x\na,2\n"{rows}')
    (tmp_path / "closed.csv").write_text(f'id,x\na,2\n"{rows}",3\n')
    with pytest.raises(FileFormatError):
        read_nodes(tmp_path / "nodes.csv")
    with pytest.raises(TableError, match=r"'id' of closed\.csv must .*number 2 has .*a quote"):
        read_nodes(tmp_path / "closed.csv")


def test_a_long_class_name_is_refused():
    with pytest.raises(LabelError, match=r"at most 200 letters, but number 2 has 201: 'xxx"):
        proptrain.encode_labels(["a", "x" * 201])
    assert proptrain.encode_labels(["a", "x" * 200])[1] == ("a", "x" * 200)


@pytest.mark.parametrize("where", ["classes", "nodes.json"])
def test_a_long_name_in_a_model_is_refused(readers, tmp_path, where):
    reader = readers["model folder"]
    files = {name: json.loads(reader.files[name]) for name in ("model.json", "nodes.json")}
    names = files["model.json"]["classes"] if where == "classes" else files["nodes.json"]
    names["values"][0] = "x" * 201
    encoded = {name: json.dumps(told).encode() for name, told in files.items()}
    write(tmp_path / "model", reader.sign({**reader.files, **encoded}))
    with pytest.raises(FileFormatError, match="must be of at most 200 letters"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("table", [{}, [1], "id", {"id": 5}, {"id": "id", "features": [1]}])
def test_columns_without_a_name_in_a_model_from_disk_are_refused(readers, tmp_path, table):
    reader = readers["model folder from disk"]
    told = {**json.loads(reader.files["disk_model.json"]), "table": table}
    write(tmp_path / "model", {**reader.files, "disk_model.json": json.dumps(told).encode()})
    with pytest.raises(FileFormatError, match=r"table must .*\. Fit"):
        load_disk_model(tmp_path / "model")


def test_classes_that_are_no_text_in_a_model_from_disk_are_refused(readers, tmp_path):
    reader = readers["model folder from disk"]
    told = json.loads(reader.files["disk_model.json"])
    told["classes"]["values"][0] = "\ud800x"
    write(tmp_path / "model", {**reader.files, "disk_model.json": json.dumps(told).encode()})
    with pytest.raises(FileFormatError, match="must be text that UTF-8 can hold"):
        load_disk_model(tmp_path / "model")


def test_ids_that_are_one_as_text_are_not_looked_up(readers, tmp_path):
    reader = readers["model folder"]
    told = json.loads(reader.files["nodes.json"])
    told = {"dtype": "object", "values": [7, "7", *told["values"][2:]]}
    files = {**reader.files, "nodes.json": json.dumps(told).encode()}
    write(tmp_path / "model", reader.sign(files))
    edges = pd.DataFrame({"source": ["7"], "target": ["n3"]})
    saved = load_model(tmp_path / "model")
    with pytest.raises(TableError, match=r"Node ids must differ as text too, .* several are '7'"):
        edge_pairs(edges, saved.node_ids, source="source", target="target")
    (tmp_path / "audit.json").write_bytes(readers["report --audit, JSON"].files["audit.json"])
    with pytest.raises(TableError, match=r"Node ids must differ as text too, .* several are '7'"):
        read_doubts(saved, tmp_path / "audit.json")


@pytest.mark.parametrize("member", ["class_names", "node_ids"])
def test_a_long_name_in_a_data_set_is_refused(readers, tmp_path, member):
    with np.load(io.BytesIO(readers["npz data set"].files["data.npz"])) as arrays:
        members = dict(arrays)
    members[member] = members[member].astype("U300")
    np.savez(tmp_path / "a.npz", **members)
    read_npz(tmp_path / "a.npz")  # the cells are wide, but no name is long
    members[member][0] = "x" * 201
    np.savez(tmp_path / "a.npz", **members)
    with pytest.raises(FileFormatError, match=f"{member}.* must be of at most 200 letters"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("depth", [150, 2000, 100_000])
def test_json_of_more_brackets_than_anybody_writes_is_refused(readers, tmp_path, depth):
    deep, n_tried = b"[" * depth + b"]" * depth + b"\n", 0
    for reader in readers.values():
        if reader.begins_anew:
            continue
        for name in reader.files:
            if not name.endswith((".json", ".jsonl")):
                continue
            files = {**reader.files, name: deep}
            with suppress(ValueError, TypeError, RecursionError):  # a description is not signed
                files = reader.sign(files)
            write(tmp_path / f"{n_tried}", files)
            with pytest.raises((FileFormatError, OutputExistsError)):
                reader.read(tmp_path / f"{n_tried}")
            n_tried += 1
    assert n_tried > 8


# After this a field may stand at which no reader looks: the file is then as good as it was.
UNREAD = dict.fromkeys(("model.json", "nodes.json", "disk_model.json", "audit.json"), b"{")
UNREAD |= {"numbers.json": b'"numbers": {', "times.jsonl": b'"ours": {'}


@pytest.mark.filterwarnings("ignore:These are the features of the fitted nodes")
def test_a_field_that_nobody_reads_is_no_deeper_either(readers, tmp_path):
    n_tried = 0
    for reader in readers.values():
        for name in UNREAD.keys() & reader.files.keys():
            for depth in (50, 150):
                field = b'"unread": ' + b"[" * depth + b"]" * depth + b", "
                whole = reader.files[name].replace(UNREAD[name], UNREAD[name] + field, 1)
                write(tmp_path / f"{n_tried}", reader.sign({**reader.files, name: whole}))
                with nullcontext() if depth == 50 else pytest.raises(FileFormatError):
                    reader.read(tmp_path / f"{n_tried}")
                n_tried += 1
    assert n_tried > 16


@pytest.mark.parametrize("number", ["[]", "{}", '"100"', "true", "[" * 2000 + "]" * 2000])
def test_a_note_of_what_was_made_that_holds_no_numbers(tmp_path, number):
    (tmp_path / "made_with.json").write_text(f'{{"nodes": {number}}}')
    with pytest.raises(OutputExistsError, match=r"made_with\.json cannot be read"):
        write_synthetic(tmp_path, 100, 200, 4)


@pytest.mark.skipif(sys.platform != "linux", reason="pipes and devices by their paths")
def test_a_note_of_what_was_made_is_an_ordinary_file(tmp_path, in_time):
    for make in (pipe, device):
        make(tmp_path / "made_with.json")
        with pytest.raises(FileFormatError, match=r"made_with\.json must (be an ordinary|lie in)"):
            write_synthetic(tmp_path, 100, 200, 4)
        (tmp_path / "made_with.json").unlink()


def cut_open(path):
    with open_measured(path):
        pass


WHOLE = {
    "times.jsonl": ("bench results", read_measured),
    "times.jsonl ": ("bench results", cut_open),
    "runs.jsonl": ("runs.jsonl", read_runs),
    "audit.json": ("report --audit, JSON", read_audit),
    "arrays.safetensors": ("model folder", lambda path: load_model(path.parent)),
    "nodes.json": ("model folder", lambda path: load_model(path.parent)),
    "weights.safetensors": ("model folder from disk", lambda path: load_disk_model(path.parent)),
    "arrays.safetensors ": ("training snapshot", lambda path: Snapshot.read(path.parent)),
}


@pytest.mark.skipif(sys.platform == "win32", reason="a file is as large there as its zeros")
@pytest.mark.parametrize("name", WHOLE)
def test_what_is_larger_than_memory_is_not_read(readers, tmp_path, name, monkeypatch):
    which, read = WHOLE[name]
    path = tmp_path / "files" / name.strip()
    write(path.parent, dict(readers[which].files))
    os.truncate(path, 10**8)  # sparse: it takes no place
    monkeypatch.setattr(reading, "available_memory", lambda: 150 * 10**6)
    with pytest.raises(NotEnoughMemoryError, match=r"of which 150 MB .* at least 200 MB there"):
        read(path)


# --- nothing leads elsewhere --------------------------------------------------------------------


def test_a_model_is_read_from_its_own_folder_alone(tmp_path):
    clf = LabelPropagationClassifier().fit(np.eye(3), [0, 1, -1], graph=np.ones((3, 3)))
    clf.save(tmp_path / "model")
    shutil.move(tmp_path / "model" / "arrays.safetensors", tmp_path / "elsewhere")
    (tmp_path / "model" / "arrays.safetensors").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileFormatError, match=r"arrays.safetensors must lie in that folder itself"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("name", ["../degrees.npy", "/etc/passwd", "a/b.npy", "..", ""])
@pytest.mark.parametrize("which", ["graph folder", "model folder", "model folder from disk"])
def test_no_name_in_a_description_leads_out_of_its_folder(readers, tmp_path, which, name):
    reader = readers[which]
    description = {"graph folder": "manifest.json", "model folder": "model.json"}
    description = description.get(which, "disk_model.json")
    told = json.loads(reader.files[description])
    if which == "graph folder":
        told["degrees"]["name"] = name
    else:
        told["files"][name] = told["files"].popitem()[1]
    files = reader.sign({**reader.files, description: json.dumps(told).encode()})
    folder = tmp_path / "folder"
    folder.mkdir()
    for one, content in files.items():
        (folder / one).write_bytes(content)
    with pytest.raises(FileFormatError):
        reader.read(folder)


def test_a_link_within_the_folder_is_fine(readers, tmp_path):
    folder = tmp_path / "graph"
    folder.mkdir()
    for name, content in readers["graph folder"].files.items():
        (folder / name).write_bytes(content)
    (folder / "ids.npy").rename(folder / "other")
    (folder / "ids.npy").symlink_to(folder / "other")
    DiskGraph(folder).verify()


DESCRIBED = {
    "model.json": load_model,
    "disk_model.json": load_disk_model,
    "manifest.json": DiskGraph,
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_description_is_an_ordinary_file_of_its_folder(tmp_path, name, monkeypatch):
    path = tmp_path / name
    path.symlink_to("/dev/zero")
    with pytest.raises(FileFormatError, match=f"{name} must lie in that folder itself"):
        DESCRIBED[name](tmp_path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(FileFormatError, match=f"{name} must be an ordinary file"):
        DESCRIBED[name](tmp_path)
    path.unlink()
    monkeypatch.setattr("proptrain.system.files.DESCRIPTION", 10)
    path.write_bytes(bytes(11))
    with pytest.raises(FileFormatError, match=f"{name} must be of at most 10 bytes"):
        DESCRIBED[name](tmp_path)


@pytest.fixture
def in_time():
    """Have what waits for a pipe fail: it would hang for ever."""

    def fail(*_):
        raise AssertionError("it hung")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(HANGS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def socket_at(path):
    folder = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"/proc/self/fd/{folder}/{path.name}")  # a path of its own may be too long
    os.close(folder)


ODD = [pipe, device, socket_at]
FOLDERS = ["model folder", "model folder from disk", "graph folder", "shared graph",
           "shared arrays"]  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="pipes and sockets by their paths")
@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
@pytest.mark.parametrize("which", FOLDERS)
def test_what_is_no_file_is_not_read(readers, tmp_path, which, make, in_time):
    reader = readers[which]
    for number, name in enumerate(reader.files):
        folder = tmp_path / f"{number}"
        write(folder, dict(reader.files))
        (folder / name).unlink()
        make(folder / name)
        with pytest.raises(FileFormatError, match=f"{name} must (be an ordinary file|lie in)"):
            reader.read(folder)
        (folder / name).unlink()
        (folder / name).mkdir()
        with pytest.raises((FileFormatError, UnreadableFileError)):
            reader.read(folder)


@pytest.mark.parametrize("name", ["arrays.safetensors", "numbers.json"])
def test_a_pipe_is_no_part_of_a_snapshot(tmp_path, name, in_time):
    Snapshot({"a": np.zeros(1)}, {}).write(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(FileFormatError, match=f"{name} must be an ordinary file"):
        Snapshot.read(tmp_path)


NAMED = {
    "features.npy": lambda path: open_features(path, 4),
    "features.parquet": lambda path: open_features(path, 4),
    "labels.npy": lambda path: open_labels(path, 4),
    "data.npz": read_npz,
    "audit.json": read_audit,
    "nodes.csv": read_table,
    "nodes.parquet": read_table,
    "citeseer.npz": lambda path: fetch("citeseer", path.parent),
}


@pytest.mark.skipif(sys.platform != "linux", reason="pipes and sockets by their paths")
@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", NAMED)
def test_a_file_that_a_user_names_is_an_ordinary_one(tmp_path, name, make, in_time):
    make(tmp_path / name)
    advice = "Write what it tells to a|Move it away"
    with pytest.raises((FileFormatError, UnreadableFileError), match=advice):
        NAMED[name](tmp_path / name)


@pytest.mark.skipif(sys.platform != "linux", reason="pipes by their paths")
@pytest.mark.parametrize("option", ["--features", "--labels", "--nodes"])
def test_a_fit_does_not_wait_for_a_pipe(readers, tmp_path, option):
    write(tmp_path / "graph", dict(readers["graph folder"].files))
    n_nodes = DiskGraph(tmp_path / "graph").n_nodes
    np.save(tmp_path / "features.npy", np.ones((n_nodes, 2), np.float32))
    np.save(tmp_path / "labels.npy", np.zeros(n_nodes, int))
    given = {"--features": tmp_path / "features.npy", "--labels": tmp_path / "labels.npy"}
    if option == "--nodes":
        given = {"--nodes": tmp_path / "nodes.csv", "--label": "topic"}
    given[option] = tmp_path / f"pipe{given[option].suffix}"
    os.mkfifo(given[option])
    words = ["--edges", tmp_path / "graph", "--out", tmp_path / "model", "--json"]
    words += [str(word) for pair in given.items() for word in pair]
    told = subprocess.run(
        [sys.executable, "-m", "proptrain.cli", "fit", *words],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert told.returncode == 1
    assert "Write what it tells to a file first" in told.stdout + told.stderr


@pytest.mark.parametrize("which", ["model folder", "graph folder"])
def test_a_link_to_itself_is_told(readers, tmp_path, which):
    folder = tmp_path / "folder"
    write(folder, dict(readers[which].files))
    name = sorted(set(readers[which].files) - {"model.json", "manifest.json"})[0]
    (folder / name).unlink()
    (folder / name).symlink_to(folder / name)
    with pytest.raises(UnreadableFileError, match="Too many levels of symbolic links"):
        readers[which].read(folder)


@pytest.mark.parametrize("which", ["model folder", "model folder from disk"])
def test_that_memory_ran_out_is_not_said_to_be_the_files_fault(
    readers, tmp_path, which, monkeypatch
):
    def without_memory(*_):
        raise MemoryError

    write(tmp_path / "model", dict(readers[which].files))
    for module in ("persistence", "disk_model"):
        monkeypatch.setattr(f"proptrain.saving.{module}.parse_arrays", without_memory)
    with pytest.raises(MemoryError):
        readers[which].read(tmp_path / "model")


def test_a_build_that_goes_on_removes_no_file_from_elsewhere(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    np.save(tmp_path / "mine.npy", np.array([b"a"]))
    work = tmp_path / "work"
    (work / "runs-00000").mkdir(parents=True)
    write_note(work / "runs-00000.json", ["../../mine.npy"])
    with pytest.raises(FileFormatError, match="must lie in that folder itself"):
        find_ids([open_edges(tmp_path / "edges.csv")], work, 1 << 20)
    assert (tmp_path / "mine.npy").exists()
