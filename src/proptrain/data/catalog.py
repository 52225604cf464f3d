"""Data sets with a name: one that is shipped, and the paper's four with their hashes."""

from __future__ import annotations

import hashlib
import http.client
import importlib.resources
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from proptrain.data.dataset import Dataset, largest_component, normalise_rows
from proptrain.data.graph import Graph
from proptrain.data.npz import read_npz
from proptrain.errors import (
    DatasetNotFoundError,
    DownloadError,
    FileFormatError,
    InvalidInputError,
    OutputExistsError,
    UnreadableFileError,
    unknown_name,
)
from proptrain.system.files import check_ordinary, read_small, whole_file

Folder: TypeAlias = str | os.PathLike[str]

DEFAULT_URL = (
    "https://raw.githubusercontent.com/klicperajo/ppnp/"
    "394425a9eeffbd95c09d68d6f0e1473ac9c2fd4a/ppnp/data"
)
TIMEOUT_SECONDS = 30
CHUNK_BYTES = 1 << 16
MAX_BYTES = 1 << 26  # ten times the largest file: no server and no file must fill the memory


@dataclass(frozen=True)
class CatalogEntry:
    """What is known of a named data set: its file, its size once prepared, the paper's settings."""

    name: str
    sha256: str
    git_blob: str
    n_nodes: int
    n_edges: int
    n_features: int
    n_classes: int
    origin: str
    n_known: int = 1500
    """How many nodes are known (not kept for testing) in the paper's protocol."""
    alpha: float = 0.1
    """The restart probability that the paper uses for it."""
    shipped: bool = False
    """Whether the file comes with the package; the others are found or downloaded."""

    @property
    def file_name(self) -> str:
        """Name of the file that holds the data set."""
        return f"{self.name}.npz"


_ENTRIES = (
    CatalogEntry(
        name="cora",
        sha256="913efd70aaa8e556bbba8529dfbd2c16176b04b551965b777b63a7593da4e1d3",
        git_blob="2c58226667b1be5b013b5a134a2917044bfad704",
        n_nodes=2708,
        n_edges=5278,
        n_features=1433,
        n_classes=7,
        origin="shipped; Cora's citations as in the Python package graphdatascience (Apache-2.0)",
        shipped=True,
    ),
    CatalogEntry(
        name="citeseer",
        sha256="9c72e32115590d1e6b2701f7af490519c8b2948ade22ec513e262aac3e47f722",
        git_blob="184dd894a26157601bd1d17b99d6ec4561c9de10",
        n_nodes=2110,
        n_edges=3668,
        n_features=3703,
        n_classes=6,
        origin="as published with APPNP (github.com/klicperajo/ppnp)",
    ),
    CatalogEntry(
        name="cora_ml",
        sha256="e3439bfd32c4a962d5c56a4f313793baee39181c208c90a3915b61183d3e1cda",
        git_blob="f70cf83ac06ed70900e94c042ff32bbc8ceca086",
        n_nodes=2810,
        n_edges=7981,
        n_features=2879,
        n_classes=7,
        origin="as published with APPNP (github.com/klicperajo/ppnp)",
    ),
    CatalogEntry(
        name="pubmed",
        sha256="87bd9f85fac4cfc6c80020cf5ad625530e8d83bef1fed2a5823b78a71f59b6cb",
        git_blob="e7dbba82dd4aaeff5a0e59b23d58158ced3ec42c",
        n_nodes=19717,
        n_edges=44324,
        n_features=500,
        n_classes=3,
        origin="as published with APPNP, or rebuilt from the Planetoid files (other node order)",
    ),
    CatalogEntry(
        name="ms_academic",
        sha256="1369dea23dd7ed54df39a26ec3b26afbe272dc03084fb01c3344b6eee1ff21c9",
        git_blob="9bdd7da943d86b74297e8d32e99eb64245b52835",
        n_nodes=18333,
        n_edges=81894,
        n_features=6805,
        n_classes=15,
        origin="Coauthor CS (github.com/shchur/gnn-benchmark), as with APPNP or rewritten",
        n_known=5000,
        alpha=0.2,
    ),
)
CATALOG: dict[str, CatalogEntry] = {entry.name: entry for entry in _ENTRIES}


def load_dataset(name: str, data_dir: Folder | None = None, *, download: bool = True) -> Dataset:
    """Load a named data set, prepared as in the paper.

    Edges lose their weights, features are divided by their row's sum, and of the paper's four
    only the largest component stays. A file that is not shipped is looked for in ``data_dir``,
    then in the folder named by ``PROPTRAIN_DATA``, then in the user's cache, and downloaded if it
    is in none of them. Its hash is always checked.

    >>> load_dataset("cora")
    Dataset('cora', 2,708 nodes, 5,278 edges, 1,433 features, 7 classes)
    """
    entry = find_entry(name)
    path = find_file(name, data_dir)
    if path is None:
        path = _download_or_explain(entry, data_dir, download)
    check_file(path, entry)
    return _prepare(read_npz(path), entry)


def find_entry(name: str) -> CatalogEntry:
    """Look up a name in the catalogue, or say which names there are."""
    if name in CATALOG:
        return CATALOG[name]
    own = "For a file of your own use proptrain.read_npz or proptrain.read_tables."
    raise unknown_name("The name of a data set", name, CATALOG, own)


def find_file(name: str, data_dir: Folder | None = None) -> Path | None:
    """Find the file of a named data set in the folders where it may be."""
    entry = find_entry(name)
    if entry.shipped:
        folders = [Path(str(importlib.resources.files("proptrain.data"))) / "files"]
    else:
        folders = [*_chosen_folders(data_dir), cache_folder()]
    paths = (folder / entry.file_name for folder in folders)
    return next((path for path in paths if _ask(Path.is_file, path)), None)


def check_file(path: Path, entry: CatalogEntry) -> None:
    """Make sure that a file is, byte for byte, the one that the catalogue means."""
    check_ordinary(path, "Move it away and get the right one.")
    try:
        content = read_small(path, MAX_BYTES)
    except OSError as fault:
        raise UnreadableFileError(
            f"Cannot read {path}: {fault.strerror}. It must be a file that you may read; check "
            "the path and its permissions."
        ) from fault
    if not _is_file_of(entry, content):
        raise FileFormatError(
            f"{path} must be {_identity(entry)}, but its SHA-256 is {digests(content)[0]} "
            f"({len(content):,} bytes): it is damaged or another file. Move it away and get the "
            "right one again."
        )


def fetch(
    name: str, folder: Folder, *, base_url: str | None = None, show_progress: bool = False
) -> Path:
    """Download a named data set into a folder, check it and return its path.

    The folder is created if need be. ``base_url`` is the address of a folder with the files:
    by default `DEFAULT_URL`, or what the environment variable ``PROPTRAIN_DATA_URL`` says.
    A file that is there already is checked and stays.
    """
    entry = find_entry(name)
    if entry.shipped:
        raise InvalidInputError(
            f"Only data sets that are not shipped can be downloaded; {name!r} comes with "
            "proptrain. Use load_dataset."
        )
    path = Path(folder) / entry.file_name
    if _ask(Path.exists, path):
        check_file(path, entry)
        return path
    url = _url(entry, base_url)
    content = _download(url, show_progress)
    if not _is_file_of(entry, content):
        raise DownloadError(
            f"{url} must bring {_identity(entry)}, but it brought {len(content):,} bytes with "
            f"SHA-256 {digests(content)[0]}. A proxy or mirror may have changed them; get the "
            "file another way, or set PROPTRAIN_DATA_URL to a better address."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as temporary:
            temporary.write_bytes(content)
    except OutputExistsError:  # another process was quicker
        check_file(path, entry)
    except OSError as fault:
        reason = (fault.strerror or str(fault)).rstrip(".")
        raise DownloadError(
            f"The download cannot be kept as {path}: {reason}. Name a folder that you may write to "
            "and that has room."
        ) from fault
    return path


def digests(content: bytes) -> tuple[str, str]:
    r"""Compute the SHA-256 of some bytes, and the id that git gives to a file of them.

    >>> digests(b"")[1]
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    blob = b"blob %d\0" % len(content) + content
    git_blob = hashlib.sha1(blob, usedforsecurity=False).hexdigest()
    return hashlib.sha256(content).hexdigest(), git_blob


def cache_folder() -> Path:
    """Name the folder for downloads: ``$XDG_CACHE_HOME/proptrain`` or ``~/.cache/proptrain``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "proptrain"


def _chosen_folders(data_dir: Folder | None) -> list[Path]:
    chosen = (data_dir, os.environ.get("PROPTRAIN_DATA"))
    return [Path(folder).expanduser().absolute() for folder in chosen if folder]


def _ask(question: Callable[[Path], bool], path: Path) -> bool:
    """Ask something of a path, or say that it is in a folder that may not be entered."""
    try:
        return question(path)
    except OSError as fault:
        raise UnreadableFileError(
            f"Cannot look for {path}: {fault.strerror or fault}. It must be in a folder that you "
            "may enter; check the permissions, or name another folder with data_dir, --data-dir, "
            "PROPTRAIN_DATA or XDG_CACHE_HOME."
        ) from fault


def _is_file_of(entry: CatalogEntry, content: bytes) -> bool:
    sha256, git_blob = digests(content)
    return sha256 == entry.sha256 or git_blob == entry.git_blob


def _identity(entry: CatalogEntry) -> str:
    return f"{entry.file_name} with SHA-256 {entry.sha256} or git blob id {entry.git_blob}"


def _url(entry: CatalogEntry, base_url: str | None = None) -> str:
    base = base_url or os.environ.get("PROPTRAIN_DATA_URL") or DEFAULT_URL
    return f"{base.rstrip('/')}/{entry.file_name}"


def _download_or_explain(entry: CatalogEntry, data_dir: Folder | None, download: bool) -> Path:
    """Download a file into the first folder that can take it, or say how to get it by hand."""
    chosen = _chosen_folders(data_dir)
    reason = "Downloads are switched off."
    if download:
        target = next((folder for folder in chosen if _is_writable(folder)), cache_folder())
        try:
            return fetch(entry.name, target, show_progress=True)
        except DownloadError as fault:
            reason = f"The download failed: {fault}"
    folders = [*chosen, cache_folder()]
    raise DatasetNotFoundError(
        f"The data set {entry.name!r} must be in one of the folders "
        f"{', '.join(map(str, folders))}, but it is not. Get {_identity(entry)}, for example from "
        f"{_url(entry)}, and put it into {folders[0]}; or name its folder with data_dir, "
        f"--data-dir or PROPTRAIN_DATA. {reason}"
    )


def _is_writable(folder: Path) -> bool:
    """Tell whether files can be put into a folder, which need not exist yet."""
    existing = next(place for place in (folder, *folder.parents) if _ask(Path.exists, place))
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _download(url: str, show_progress: bool) -> bytes:
    """Download a file into memory; the data sets are small and are hashed before they are kept."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            size = int(response.headers.get("Content-Length") or 0) or None
            content = _read_all(response, url.rpartition("/")[2], size, show_progress)
    except (OSError, http.client.HTTPException, ValueError) as fault:
        if isinstance(fault, urllib.error.HTTPError):
            fault.close()
        raise DownloadError(
            f"Cannot download {url}: {fault or type(fault).__name__}. Check the address and the "
            "network, or get the file another way."
        ) from fault
    if size is not None and len(content) < size:
        raise DownloadError(
            f"Cannot download {url}: the connection ended after {len(content):,} of {size:,} "
            "bytes. Try again."
        )
    return content


def _read_all(
    response: http.client.HTTPResponse, title: str, size: int | None, show_progress: bool
) -> bytes:
    content = bytearray()
    with _progress(title, size, show_progress) as advance:
        while chunk := response.read(CHUNK_BYTES):
            content += chunk
            if len(content) > MAX_BYTES:
                raise ValueError(f"the file is larger than {MAX_BYTES:,} bytes")
            advance(len(chunk))
    return bytes(content)


@contextmanager
def _progress(title: str, size: int | None, show: bool) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr, if asked to, and yield what makes it grow."""
    if not show:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=size)
        yield lambda n_bytes: bar.advance(task, n_bytes)


def _prepare(dataset: Dataset, entry: CatalogEntry) -> Dataset:
    """Bring a data set into the form in which the paper uses it."""
    adjacency, node_ids = dataset.graph.adjacency, dataset.node_ids
    assert node_ids is not None
    unweighted = sp.csr_array(
        (np.ones_like(adjacency.data), adjacency.indices, adjacency.indptr), shape=adjacency.shape
    )
    if node_ids.dtype.kind == "U":  # cora_ml's names end in line breaks
        node_ids = np.char.strip(node_ids)
    dataset = replace(dataset, graph=Graph(unweighted), node_ids=node_ids, name=entry.name)
    if not entry.shipped:
        dataset = largest_component(dataset)
    return replace(dataset, features=normalise_rows(dataset.features))
