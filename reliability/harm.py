"""Files that were made to harm: python -m reliability.harm --out FILE.

Spoilt files are small and stay so. These are made on purpose to grow when they are read, to have
no end, or to have work done that has none. Each is read once, within the memory and the time of
`reliability.fuzz`, and must be refused with one of our errors.
"""

from __future__ import annotations

import gzip
import io
import json
import tempfile
import zipfile
from collections.abc import Callable, Iterator
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
from proptrain.data.disk_nodes import open_features
from proptrain.data.npz import read_npz
from proptrain.data.tables import read_tables
from proptrain.disk_model import load_disk_model
from proptrain.json_lines import open_lines
from proptrain.persistence import load_model, save_model
from reliability.fuzz import read_spoilt
from reliability.outcomes import BEGINNING, add_outcome, faults_in, ready
from reliability.readers import Files, Reader, all_readers, sign_model

COMMAND = "python -m reliability.harm"
_MB = 1_000_000
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="File to add lines to; what is in it stays.")],
) -> None:
    """Read each file that was made to harm, and tell what came of it."""
    with (
        tempfile.TemporaryDirectory() as place,
        open_lines(ready(out), faults_in, BEGINNING) as (file, before),
    ):
        for case in all_cases(Path(place)):
            fault = f"made to harm: {case.name}"
            if fault not in before:
                (outcome,) = outcomes_of(case)
                is_broken = outcome.startswith("broken")
                told = "broken" if is_broken else outcome
                add_outcome(file, fault, [told], f"{COMMAND} --out FILE", told=outcome)
                say(f"{fault}: {outcome}")


def outcomes_of(case: Reader) -> Iterator[str]:
    """Yield what came of reading the files as they are."""
    return read_spoilt(case, range(1), 0, make=lambda reader, *_: dict(reader.files))


def all_cases(work: Path) -> Iterator[Reader]:
    """Make all harmful files, each when it is its turn; some take seconds."""
    whole = {reader.name: reader for reader in all_readers(work)}
    yield from _texts()
    yield from _packed()
    yield from _parquet()
    yield from _descriptions()
    yield from _models(whole["model folder"].files, work)


# --- tables -------------------------------------------------------------------------------------


def _read_tables(at: Path, nodes: str) -> Any:
    edges = at / "edges.csv"
    edges.write_text("source,target\nn1,n2\n")
    return read_tables(edges, at / nodes, label="topic")


def _build(at: Path, name: str) -> Any:
    return build_graph([at / name], at / "built", memory="64GB")


def _texts() -> Iterator[Reader]:
    def table(long_id: str, long_label: str) -> Files:
        rows = [f"n{node},{node % 7},{'ab'[node % 2]}" for node in range(20_000)]
        rows[7], rows[9] = f"{long_id},1,a", f"n9,1,{long_label}"
        return {"nodes.csv": "\n".join(["id,size,topic", *rows, ""]).encode()}

    read = partial(_read_tables, nodes="nodes.csv")
    yield Reader("an endless id in CSV", table("x" * 40_000, "a"), read)
    yield Reader("an endless label in CSV", table("n7", "x" * 40_000), read)
    yield Reader("a label of 5,000 digits in CSV", table("n7", "9" * 5000), read)


def _gzipped(beginning: bytes, line: bytes, n_bytes: int) -> bytes:
    target, many = io.BytesIO(), line * (_MB // len(line))
    with gzip.open(target, "wb") as file:
        file.write(beginning)
        for _ in range(n_bytes // len(many)):
            file.write(many)
    return target.getvalue()


# --- archives -----------------------------------------------------------------------------------


def _packed() -> Iterator[Reader]:
    nodes = {"nodes.csv.gz": _gzipped(b"id,topic\n", b"1,2\n", 250 * _MB)}
    yield Reader("a table of 250 MB in .csv.gz", nodes, partial(_read_tables, nodes="nodes.csv.gz"))
    edges = {"edges.csv.gz": _gzipped(b"source,target\n", b"1,2\n", 250 * _MB)}
    yield Reader("edges of 250 MB in .csv.gz", edges, partial(_build, name="edges.csv.gz"))
    for name, packing in (("bzip2", zipfile.ZIP_BZIP2), ("LZMA", zipfile.ZIP_LZMA)):
        yield _archive(f"a member of 400 MB packed by {name}", _unlimited(packing))
    small, n = {"labels": np.zeros(1, np.int8)}, 7 * _MB
    row = {"adj_matrix.indptr": np.array([0, n]), "adj_matrix.shape": np.array([1, 1])}
    parts = {"adj_matrix.data": np.zeros(n, np.uint8), "adj_matrix.indices": np.zeros(n, np.uint8)}
    yield _archive("a sparse matrix of bytes in .npz", _npz({**small, **row, **parts}))
    none = {"adj_matrix.data": np.ones(0), "adj_matrix.indices": np.ones(0, np.int32)}
    row["adj_matrix.indptr"] = np.zeros(2, np.int8)
    dense = {"attr_matrix": np.zeros((1, 20 * _MB), np.bool_)}
    yield _archive("dense features of bytes in .npz", _npz({**small, **row, **none, **dense}))


def _archive(name: str, content: bytes) -> Reader:
    return Reader(name, {"a.npz": content}, lambda at: read_npz(at / "a.npz"))


def _npz(arrays: dict[str, Any]) -> bytes:
    target = io.BytesIO()
    np.savez_compressed(target, **arrays)
    return target.getvalue()


def _unlimited(packing: int) -> bytes:
    """Return an archive that claims 200 bytes for a member of 400 MB."""
    target = io.BytesIO()
    with (
        zipfile.ZipFile(target, "w", packing) as archive,
        archive.open("adj_matrix.data.npy", "w") as member,
    ):
        for _ in range(400):
            member.write(bytes(_MB))
    content = bytearray(target.getvalue())
    directory = content.index(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = (200).to_bytes(4, "little")
    return bytes(content)


def _parquet() -> Iterator[Reader]:
    n = 1500
    ids = pa.array([f"n{node}" for node in range(n)])
    often = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["a" * _MB])
    topic = pa.array(["a", "b"] * (n // 2))
    nodes = _parquet_of({"id": ids, "words": often, "topic": topic})
    read = partial(_read_tables, nodes="nodes.parquet")
    yield Reader("a long text in every row of Parquet", {"nodes.parquet": nodes}, read)
    edges = {"edges.parquet": _parquet_of({"source": ids, "target": often})}
    yield Reader("an endless id in Parquet", edges, partial(_build, name="edges.parquet"))
    zeros = pa.array(np.zeros(2 * _MB, np.float32))
    features = _parquet_of({f"c{place}": zeros for place in range(100)})
    yield Reader("equal numbers in Parquet", {"features.parquet": features},
                 lambda at: open_features(at / "features.parquet", 3))  # fmt: skip


def _parquet_of(columns: dict[str, Any]) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table(columns), target, compression="zstd", store_schema=False)
    return target.getvalue()


# --- models and graphs --------------------------------------------------------------------------


def _descriptions() -> Iterator[Reader]:
    readers: dict[str, Callable[[Path], Any]] = {"model.json": load_model}
    readers |= {"disk_model.json": load_disk_model, "manifest.json": DiskGraph}
    for name, read in readers.items():
        yield Reader(f"{name} without an end", {}, partial(_linked, name=name, read=read))


def _linked(at: Path, name: str, read: Callable[[Path], Any]) -> None:
    (at / name).symlink_to("/dev/zero")
    read(at)


def _models(files: Files, work: Path) -> Iterator[Reader]:
    for scheme in (
        {"name": "PPR", "alpha": 0.1, "steps": 10**9},
        {"name": "Exact", "alpha": 1e-9, "tol": 1e-300},
    ):
        told = json.loads(files["model.json"])
        told["parameters"]["scheme"] = scheme
        model = sign_model({**files, "model.json": json.dumps(told).encode()})
        yield Reader(f"a model that propagates without an end, {scheme['name']}", model, load_model)
    encoder = skops.io.loads(files["encoder.skops"], trusted=["numpy.dtype"])
    encoder.set_params(n_jobs=200)
    model = sign_model({**files, "encoder.skops": skops.io.dumps(encoder)})
    yield Reader("an encoder with other settings than ours", model, load_model)
    yield Reader("an endless id in a model", _with_long_id(work / "named"), load_model)


def _with_long_id(folder: Path) -> dict[str, bytes]:
    n = 20_000
    classifier = LabelPropagationClassifier(device="cpu")
    classifier.fit(None, np.r_[0, 1, np.full(n - 2, -1)], graph=Graph.without_edges(n))
    save_model(folder, classifier, node_ids=np.array([f"n{node}" for node in range(n)]))
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    told = json.loads(files["nodes.json"])
    told["values"][7] = "x" * 40_000
    return sign_model({**files, "nodes.json": json.dumps(told).encode()})


if __name__ == "__main__":
    cli.main(app, COMMAND)
