"""Files that were made to harm: python -m reliability.harm --out FILE.

Spoilt files are small and stay so. These are made on purpose to grow when they are read, to have
no end, to have work done that has none, to lead out of their folder or to run code of their own.
Each is read within the memory and the time of `reliability.fuzz`, and must be refused with one of
our errors, unless its reader makes anew what is spoilt: then the right result is as good. A pickle
that was run would be seen by the folder that it makes, whatever came of the reading.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import skops.io
import typer

from proptrain import Graph, LabelPropagationClassifier, cli
from proptrain.cli.console import say
from proptrain.data.disk import DiskGraph
from proptrain.data.disk_build import build_graph
from proptrain.data.disk_nodes import open_features, open_labels
from proptrain.data.npz import read_npz
from proptrain.data.shared import SharedFolder
from proptrain.data.tables import read_tables
from proptrain.saving.disk_model import load_disk_model
from proptrain.saving.persistence import load_model, save_model
from proptrain.system.json_lines import open_lines
from reliability.fuzz import read_spoilt
from reliability.outcomes import BEGINNING, add_outcome, chosen, faults_in, ready
from reliability.readers import Files, Reader, all_readers, sign_model

COMMAND = "python -m reliability.harm"
BEGUN_ANEW = "begun anew"
_MB = 1_000_000
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="File to add lines to; what is in it stays.")],
    only: Annotated[list[str] | None, typer.Option(help="Only cases of these names.")] = None,
) -> None:
    """Read each file that was made to harm, and tell what came of it."""
    with (
        tempfile.TemporaryDirectory() as place,
        open_lines(ready(out), faults_in, BEGINNING) as (file, before),
    ):
        cases = {case.name: case for case in all_cases(Path(place))}
        for name in chosen(only, cases):
            fault = f"made to harm: {name}"
            if fault in before:
                say(f"{fault}: in {out} already")
                continue
            outcomes = list(outcomes_of(cases[name]))
            told = ["broken" if one.startswith("broken") else one for one in outcomes]
            command = f'{COMMAND} --only "{name}" --out FILE'
            add_outcome(file, fault, told, command, told=dict(Counter(outcomes)))
            say(f"{fault}: {dict(Counter(outcomes))}")


@dataclass(frozen=True)
class Case:
    """One or more sets of files, each made when it is its turn, and what reads them."""

    name: str
    make: Callable[[], Sequence[Files]]
    read: Callable[[Path], Any]
    begins_anew: bool = False
    """Whether reading may come to a result, which `read` compares with the right one."""


def outcomes_of(case: Case) -> Iterator[str]:
    """Yield what came of reading each set of files as it is."""
    versions = case.make()
    reader = Reader(case.name, {}, case.read)
    result = BEGUN_ANEW if case.begins_anew else "broken: it was not refused"
    numbers = range(len(versions))
    for outcome in read_spoilt(reader, numbers, 0, make=lambda _, n, __: dict(versions[n])):
        yield result if outcome == "result" else outcome


def all_cases(work: Path) -> Iterator[Case]:
    """Yield all harmful files."""
    whole = {reader.name: reader for reader in all_readers(work)}
    yield from _texts()
    yield from _packed()
    yield from _claims(whole["model folder"].files)
    yield from _parquet()
    yield from _nested()
    yield from _descriptions()
    yield from _leading_out(whole)
    yield from _models(whole["model folder"].files, work)
    yield from _planted(whole.values(), work / "planted")


def _one(name: str, make: Callable[[], Files], read: Callable[[Path], Any]) -> Case:
    return Case(name, lambda: [make()], read)


# --- tables -------------------------------------------------------------------------------------


def _read_tables(at: Path, nodes: str) -> Any:
    edges = at / "edges.csv"
    edges.write_text("source,target\nn1,n2\n")
    return read_tables(edges, at / nodes, label="topic")


def _read_edges(at: Path, name: str) -> Any:
    nodes = at / "nodes.csv"
    nodes.write_text("id,topic\nn1,a\nn2,b\nn3,a\n")
    return read_tables(at / name, nodes, label="topic", needs_features=False)


def _build(at: Path, name: str) -> Any:
    return build_graph([at / name], at / "built", memory="64GB")


def _texts() -> Iterator[Case]:
    def table(long_id: str, long_label: str) -> Files:
        rows = [f"n{node},{node % 7},{'ab'[node % 2]}" for node in range(20_000)]
        rows[7], rows[9] = f"{long_id},1,a", f"n9,1,{long_label}"
        return {"nodes.csv": "\n".join(["id,size,topic", *rows, ""]).encode()}

    read = partial(_read_tables, nodes="nodes.csv")
    yield _one("an endless id in CSV", lambda: table("x" * 40_000, "a"), read)
    yield _one("an endless label in CSV", lambda: table("n7", "x" * 40_000), read)
    yield _one("a label of 5,000 digits in CSV", lambda: table("n7", "9" * 5000), read)


def _gzipped(beginning: bytes, line: bytes, n_bytes: int) -> bytes:
    target, many = io.BytesIO(), line * (_MB // len(line))
    with gzip.open(target, "wb") as file:
        file.write(beginning)
        for _ in range(n_bytes // len(many)):
            file.write(many)
    return target.getvalue()


# --- archives -----------------------------------------------------------------------------------


def _packed() -> Iterator[Case]:
    def packed(name: str, header: bytes) -> Callable[[], Files]:
        return lambda: {name: _gzipped(header, b"1,2\n", 250 * _MB)}

    nodes, edges = "nodes.csv.gz", "edges.csv.gz"
    yield _one("a table of 250 MB in .csv.gz", packed(nodes, b"id,topic\n"),
               partial(_read_tables, nodes=nodes))  # fmt: skip
    yield _one("edges of 250 MB in .csv.gz", packed(edges, b"source,target\n"),
               partial(_build, name=edges))  # fmt: skip
    yield _archive("a zip bomb of 400 MB in .npz", lambda: _bomb(zipfile.ZIP_DEFLATED))
    for name, packing in (("bzip2", zipfile.ZIP_BZIP2), ("LZMA", zipfile.ZIP_LZMA)):
        yield _archive(f"a member of 400 MB packed by {name}", partial(_unlimited, packing))
    yield _archive("a sparse matrix of bytes in .npz", _sparse_of_bytes)
    yield _archive("dense features of bytes in .npz", _dense_of_bytes)


def _archive(name: str, make: Callable[[], bytes]) -> Case:
    return _one(name, lambda: {"a.npz": make()}, lambda at: read_npz(at / "a.npz"))


def _sparse_of_bytes() -> bytes:
    n = 7 * _MB
    row = {"adj_matrix.indptr": np.array([0, n]), "adj_matrix.shape": np.array([1, 1])}
    parts = {"adj_matrix.data": np.zeros(n, np.uint8), "adj_matrix.indices": np.zeros(n, np.uint8)}
    return _npz({"labels": np.zeros(1, np.int8), **row, **parts})


def _dense_of_bytes() -> bytes:
    row = {"adj_matrix.indptr": np.zeros(2, np.int8), "adj_matrix.shape": np.array([1, 1])}
    none = {"adj_matrix.data": np.ones(0), "adj_matrix.indices": np.ones(0, np.int32)}
    dense = {"attr_matrix": np.zeros((1, 20 * _MB), np.bool_)}
    return _npz({"labels": np.zeros(1, np.int8), **row, **none, **dense})


def _npz(arrays: dict[str, Any]) -> bytes:
    target = io.BytesIO()
    np.savez_compressed(target, **arrays)
    return target.getvalue()


def _bomb(packing: int) -> bytes:
    """Return an archive with a member of 400 MB of zeros."""
    target = io.BytesIO()
    with (
        zipfile.ZipFile(target, "w", packing) as archive,
        archive.open("adj_matrix.data.npy", "w") as member,
    ):
        for _ in range(400):
            member.write(bytes(_MB))
    return target.getvalue()


def _unlimited(packing: int) -> bytes:
    """Return an archive that claims 200 bytes for a member of 400 MB."""
    content = bytearray(_bomb(packing))
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = (200).to_bytes(4, "little")
    return bytes(content)


def _claims(model: Files) -> Iterator[Case]:
    """Yield headers that claim 10^12 rows, wherever there are arrays."""
    huge, packed = _claiming("<f8", (10**12, 3)) + bytes(64), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for part in ("data", "indices", "indptr", "shape"):
            archive.writestr(f"adj_matrix.{part}.npy", huge)
    claim = "a header claiming 10^12 rows"
    yield _one(
        f"{claim} in .npy", lambda: {"a.npy": huge}, lambda at: open_features(at / "a.npy", 3)
    )
    yield _archive(f"{claim} in .npz", packed.getvalue)
    for kind in ("|S0", "|V0"):
        nothing = {"a.npy": _claiming(kind, (10**12,))}
        yield _one(
            f"{claim} of no bytes, {kind}", nothing.copy, lambda at: open_labels(at / "a.npy", 3)
        )
    letters = {"a.npy": _claiming("<U1", (3,)) + b"\xff" * 12}
    yield _one("labels of no letters", letters.copy, lambda at: open_labels(at / "a.npy", 3))
    long_rows = {"a.npy": _claiming("<f4", (0, 10**12))}
    yield _one("a header claiming rows of 10^12 numbers", long_rows.copy,
               lambda at: SharedFolder(at).read_rows("a.npy", slice(0, 3)))  # fmt: skip
    for name, encoder in ((claim, packed.getvalue), ("a zip bomb of 400 MB", _deflated)):
        make = partial(_with_encoder, model, encoder)
        yield _one(f"{name} in an encoder", make, load_model)


def _claiming(kind: str, shape: tuple[int, ...]) -> bytes:
    """Return the header of an array of such a type and shape."""
    header = io.BytesIO()
    told = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, told)
    return header.getvalue()


def _deflated() -> bytes:
    return _bomb(zipfile.ZIP_DEFLATED)


def _with_encoder(model: Files, encoder: Callable[[], bytes]) -> Files:
    return sign_model({**model, "encoder.skops": encoder()})


def _parquet() -> Iterator[Case]:
    def words() -> tuple[Any, Any, Any]:
        n = 1500
        ids = pa.array([f"n{node}" for node in range(n)])
        often = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["a" * _MB])
        return ids, often, pa.array(["a", "b"] * (n // 2))

    def nodes() -> Files:
        ids, often, topic = words()
        return {"nodes.parquet": _parquet_of({"id": ids, "words": often, "topic": topic})}

    def edges() -> Files:
        ids, often, _ = words()
        return {"edges.parquet": _parquet_of({"source": ids, "target": often})}

    def features() -> Files:
        zeros = pa.array(np.zeros(2 * _MB, np.float32))
        return {"features.parquet": _parquet_of({f"c{place}": zeros for place in range(100)})}

    read = partial(_read_tables, nodes="nodes.parquet")
    yield _one("a long text in every row of Parquet", nodes, read)
    yield _one("an endless id in Parquet", edges, partial(_build, name="edges.parquet"))
    yield _one("equal numbers in Parquet", features,
               lambda at: open_features(at / "features.parquet", 3))  # fmt: skip


def _nested() -> Iterator[Case]:
    """Yield ids that are lists, structs, maps or bytes, in each place of a table that has ids."""
    ids, topic = pa.array(["n1", "n2", "n3"]), pa.array(["a", "b", "a"])
    for what, column in {
        "lists": pa.array([["n1"], ["n2"], ["n3"]]),
        "structs": pa.array([{"a": 1}, {"a": 2}, {"a": 3}]),
        "maps": pa.array([[("a", 1)], [("a", 2)], []], pa.map_(pa.string(), pa.int64())),
        "bytes": pa.array([b"n1", b"\xff", b"n3"]),
    }.items():
        nodes = {"nodes.parquet": _parquet_of({"id": column, "topic": topic})}
        read = partial(_read_tables, nodes="nodes.parquet")
        yield _one(f"ids that are {what} in Parquet", nodes.copy, read)
        for end, other in (("source", "target"), ("target", "source")):
            edges = {"edges.parquet": _parquet_of({end: column, other: ids})}
            name = f"edges whose {end} are {what} in Parquet"
            yield _one(name, edges.copy, partial(_read_edges, name="edges.parquet"))


def _parquet_of(columns: dict[str, Any]) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table(columns), target, compression="zstd", store_schema=False)
    return target.getvalue()


# --- models and graphs --------------------------------------------------------------------------


def _descriptions() -> Iterator[Case]:
    readers: dict[str, Callable[[Path], Any]] = {"model.json": load_model}
    readers |= {"disk_model.json": load_disk_model, "manifest.json": DiskGraph}
    for name, read in readers.items():
        yield _one(f"{name} without an end", dict, partial(_linked, name=name, read=read))


def _linked(at: Path, name: str, read: Callable[[Path], Any]) -> None:
    (at / name).symlink_to("/dev/zero")
    read(at)


def _leading_out(whole: dict[str, Reader]) -> Iterator[Case]:
    """Yield descriptions that name a whole file which lies beside their folder."""
    described = {
        "graph folder": ("manifest.json", "degrees.npy"),
        "model folder": ("model.json", "arrays.safetensors"),
        "model folder from disk": ("disk_model.json", "weights.safetensors"),
    }
    for which, (description, name) in described.items():
        reader = whole[which]
        for how, path in (("a path", f"../elsewhere/{name}"), ("a link", name)):
            make = partial(_naming, reader, description, name, path)
            read = partial(_with_elsewhere, name=name, reader=reader, is_link=how == "a link")
            yield _one(f"{how} out of a {which}", make, read)


def _naming(reader: Reader, description: str, name: str, path: str) -> Files:
    """Return files whose description calls one of them by another path, checksums and all."""
    if path == name:
        return reader.files
    named = json.dumps(name).encode()
    told = reader.sign(reader.files)[description]
    if named not in told:
        raise RuntimeError(f"{description} does not name {name}.")
    other = {**reader.files, path: reader.files[name]}
    other[description] = told.replace(named, json.dumps(path).encode())
    return {key: content for key, content in reader.sign(other).items() if key != path}


def _with_elsewhere(at: Path, name: str, reader: Reader, *, is_link: bool) -> None:
    elsewhere = at.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    shutil.copy(at / name, elsewhere / name)
    if is_link:
        (at / name).unlink()
        (at / name).symlink_to(elsewhere / name)
    reader.read(at)


def _models(files: Files, work: Path) -> Iterator[Case]:
    for scheme in (
        {"name": "PPR", "alpha": 0.1, "steps": 10**9},
        {"name": "Exact", "alpha": 1e-9, "tol": 1e-300},
    ):
        name = f"a model that propagates without an end, {scheme['name']}"
        yield _one(name, partial(_with_scheme, files, scheme), load_model)
    other = partial(_with_encoder, files, partial(_other_settings, files))
    yield _one("an encoder with other settings than ours", other, load_model)
    yield _one("an endless id in a model", lambda: _with_long_id(work / "named"), load_model)


def _with_scheme(files: Files, scheme: dict[str, Any]) -> Files:
    told = json.loads(files["model.json"])
    told["parameters"]["scheme"] = scheme
    return sign_model({**files, "model.json": json.dumps(told).encode()})


def _other_settings(files: Files) -> bytes:
    encoder = skops.io.loads(files["encoder.skops"], trusted=["numpy.dtype"])
    encoder.set_params(n_jobs=200)
    content: bytes = skops.io.dumps(encoder)
    return content


def _with_long_id(folder: Path) -> dict[str, bytes]:
    n = 20_000
    classifier = LabelPropagationClassifier(device="cpu")
    classifier.fit(None, np.r_[0, 1, np.full(n - 2, -1)], graph=Graph.without_edges(n))
    save_model(folder, classifier, node_ids=np.array([f"n{node}" for node in range(n)]))
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    told = json.loads(files["nodes.json"])
    told["values"][7] = "x" * 40_000
    return sign_model({**files, "nodes.json": json.dumps(told).encode()})


# --- pickles ------------------------------------------------------------------------------------


class Payload:
    """Unpickled, it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        """Tell pickle to make the folder."""
        return (os.mkdir, (self.path,))


def _planted(readers: Iterable[Reader], trace: Path) -> Iterator[Case]:
    """Yield a pickle in each file of each reader, as each format can hold one."""
    for reader in readers:
        make = partial(_all_with_pickles, reader, trace)
        read = partial(_without_trace, reader=reader, trace=trace)
        yield Case(f"pickles planted in {reader.name}", make, read, reader.begins_anew)


def _all_with_pickles(reader: Reader, trace: Path) -> list[Files]:
    return [files for _, files in with_pickles(reader, trace)]


def with_pickles(reader: Reader, trace: Path) -> Iterator[tuple[str, Files]]:
    """Yield the files of a reader with a pickle in one of them, each in turn, and its name."""
    for name, content in reader.files.items():
        for spoilt in _pickled(content, trace):
            files = {**reader.files, name: spoilt}
            with suppress(ValueError):  # if the description itself is spoilt
                files = reader.sign(files)
            yield name, files


def _pickled(content: bytes, trace: Path) -> list[bytes]:
    """Return what a file would be with a pickle in it: bare, as an array, in an archive."""
    payload, array, archive = Payload(trace), io.BytesIO(), io.BytesIO()
    pickled = pickle.dumps(payload)
    np.save(array, np.array([payload], dtype=object), allow_pickle=True)
    found = [pickled, array.getvalue()]
    if content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as opened, zipfile.ZipFile(archive, "w") as new:
            for name in opened.namelist():
                new.writestr(name, array.getvalue() if name.endswith(".npy") else pickled)
        found.append(archive.getvalue())
    return found


def _without_trace(at: Path, reader: Reader, trace: Path) -> Any:
    try:
        return reader.read(at)
    finally:
        if trace.exists():
            raise RuntimeError("a pickle was run")


if __name__ == "__main__":
    cli.main(app, COMMAND)
