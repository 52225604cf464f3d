"""Named data sets: found, downloaded, checked and prepared, each failure with its reason."""

import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from proptrain.data import catalog
from proptrain.data.catalog import (
    CATALOG,
    CatalogEntry,
    check_file,
    digests,
    fetch,
    find_file,
    load_dataset,
)
from proptrain.data.dataset import Dataset
from proptrain.data.graph import Graph
from proptrain.data.npz import read_npz, write_npz
from proptrain.errors import (
    DatasetNotFoundError,
    DownloadError,
    FileFormatError,
    InvalidInputError,
    UnreadableFileError,
)

PAPER_DATA = os.environ.get("PROPTRAIN_DATA")


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """An empty cache, no data folder and an address where nobody answers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PROPTRAIN_DATA", raising=False)
    monkeypatch.setenv("PROPTRAIN_DATA_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A weighted path of three nodes and a lonely pair, in the catalogue as "tiny"."""
    edges = ([2.0, 3.0, 5.0], ([0, 1, 3], [1, 2, 4]))
    dataset = Dataset(
        Graph(sp.coo_array(edges, shape=(5, 5))),
        sp.csr_array(np.array([[1, 3], [0, 0], [-2, 2], [1, 1], [5, 0]])),
        np.array([0, 1, 0, 1, -1]),
        node_ids=np.array(["a\n", "b\n", "c\n", "d\n", "e\n"]),
    )
    write_npz(dataset, tmp_path / "original.npz")
    content = (tmp_path / "original.npz").read_bytes()
    sha256, git_blob = digests(content)
    entry = CatalogEntry("tiny", sha256, git_blob, 3, 2, 2, 2, origin="made up")
    monkeypatch.setitem(CATALOG, "tiny", entry)
    return content


@pytest.fixture
def server(tiny):
    """A server on loopback with the right file, wrong bytes, and half of what it promises."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            folder = self.path.rpartition("/")[0]
            body = {"/good": tiny, "/unsized": tiny, "/wrong": b"<html>", "/cut": tiny}.get(folder)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            if folder != "/unsized":
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if folder == "/cut" else body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# ---------------------------------------------------------------- what is shipped


def test_the_shipped_graph_has_the_size_that_the_catalogue_says():
    dataset = load_dataset("cora", download=False)
    assert_as_in_catalogue(dataset)
    assert dataset.class_names[0] == "Neural_Networks"
    assert len(np.unique(dataset.labels)) == 7
    assert np.bincount(dataset.labels).tolist() == [818, 180, 217, 426, 351, 418, 298]
    assert dataset.node_ids[:3].tolist() == [31336, 1061127, 1106406]


def test_the_shipped_file_is_small_binary_and_unpickled():
    path = find_file("cora")
    assert path.stat().st_size <= 250_000
    assert set(np.unique(read_npz(path).features.data)) == {1.0}
    with np.load(path, allow_pickle=False) as stored:
        assert all(not stored[name].dtype.hasobject for name in stored.files)


def test_a_file_called_cora_elsewhere_does_not_replace_the_shipped_one(tmp_path):
    (tmp_path / "cora.npz").write_text("another Cora")
    assert load_dataset("cora", tmp_path).n_nodes == 2708


def assert_as_in_catalogue(dataset):
    entry = CATALOG[dataset.name]
    assert dataset.n_nodes == entry.n_nodes
    assert dataset.graph.n_edges == entry.n_edges
    assert dataset.features.shape[1] == entry.n_features
    assert dataset.n_classes == len(np.unique(dataset.labels)) == entry.n_classes
    assert (dataset.graph.adjacency.data == 1).all()
    totals = dataset.features.sum(axis=1)
    np.testing.assert_allclose(totals[totals > 0], 1, rtol=1e-5)


@pytest.mark.skipif(
    not PAPER_DATA, reason="set PROPTRAIN_DATA to the folder with the paper's data sets"
)
@pytest.mark.parametrize("name", ["citeseer", "cora_ml", "pubmed", "ms_academic"])
def test_the_papers_data_sets_have_the_size_that_the_catalogue_says(name):
    dataset = load_dataset(name, PAPER_DATA, download=False)
    assert dataset.name == name
    assert_as_in_catalogue(dataset)
    n_components, _ = sp.csgraph.connected_components(dataset.graph.adjacency)
    assert n_components == 1
    assert not any(str(node).endswith("\n") for node in dataset.node_ids)


@pytest.mark.parametrize(
    ("name", "sizes"),
    {
        "citeseer": (2110, 3668, 3703, 6, 1500, 0.1),
        "cora_ml": (2810, 7981, 2879, 7, 1500, 0.1),
        "pubmed": (19717, 44324, 500, 3, 1500, 0.1),
        "ms_academic": (18333, 81894, 6805, 15, 5000, 0.2),
    }.items(),
)
def test_the_catalogue_says_what_the_paper_says(name, sizes):
    e = CATALOG[name]
    assert (e.n_nodes, e.n_edges, e.n_features, e.n_classes, e.n_known, e.alpha) == sizes
    assert (len(e.sha256), len(e.git_blob), e.file_name) == (64, 40, f"{name}.npz")


# ---------------------------------------------------------------- preparing


def test_a_data_set_is_prepared_as_in_the_paper(tmp_path, tiny):
    (tmp_path / "tiny.npz").write_bytes(tiny)
    dataset = load_dataset("tiny", tmp_path)
    assert dataset.name == "tiny"
    path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(dataset.graph.adjacency.toarray(), path)
    rows = [[0.25, 0.75], [0, 0], [-0.5, 0.5]]
    np.testing.assert_array_equal(dataset.features.toarray(), rows)
    assert dataset.labels.tolist() == [0, 1, 0]
    assert dataset.node_ids.tolist() == ["a", "b", "c"]


# ---------------------------------------------------------------- finding


def test_files_are_found_in_the_order_of_the_folders(tmp_path, monkeypatch, tiny):
    assert find_file("tiny", tmp_path / "chosen") is None
    monkeypatch.setenv("PROPTRAIN_DATA", str(tmp_path / "named"))
    for folder in ("cache/proptrain", "named", "chosen"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "tiny.npz").write_bytes(tiny)
        assert find_file("tiny", tmp_path / "chosen") == tmp_path / folder / "tiny.npz"


def test_the_cache_is_in_the_home_folder_by_default(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert catalog.cache_folder() == tmp_path / ".cache" / "proptrain"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Cora-ML", "got 'Cora-ML'. Did you mean 'cora_ml'"),
        ("pubmd", "must be one of cora, citeseer, cora_ml, pubmed, ms_academic; got 'pubmd'. Did"),
        ("xyz", "got 'xyz'. For a file of your own use proptrain.read_npz"),
    ],
)
def test_an_unknown_name_gets_the_known_ones_and_a_guess(name, message):
    for function in (load_dataset, find_file):
        with pytest.raises(InvalidInputError, match=message):
            function(name)


def test_the_hash_may_be_gits(tmp_path, tiny, monkeypatch):
    (tmp_path / "tiny.npz").write_bytes(tiny)
    sha256, git_blob = digests(tiny)
    rest = (3, 2, 2, 2, "made up")
    check_file(tmp_path / "tiny.npz", CatalogEntry("tiny", sha256, "0" * 40, *rest))
    check_file(tmp_path / "tiny.npz", CatalogEntry("tiny", "0" * 64, git_blob, *rest))
    with pytest.raises(FileFormatError, match=f"SHA-256 {'0' * 64} or git .*is {sha256}"):
        check_file(tmp_path / "tiny.npz", CatalogEntry("tiny", "0" * 64, "0" * 40, *rest))


def test_another_file_of_that_name_is_refused_before_it_is_parsed(tmp_path):
    (tmp_path / "citeseer.npz").write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"must be citeseer\.npz with .*Move it away and get"):
        load_dataset("citeseer", tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="a file is as large there as its zeros")
def test_a_file_that_is_far_larger_than_any_of_ours_is_not_read(tmp_path):
    (tmp_path / "citeseer.npz").touch()
    os.truncate(tmp_path / "citeseer.npz", 10**12)  # sparse: it takes no place
    for ask in (fetch, load_dataset):
        with pytest.raises(FileFormatError, match=r"of at most 67,108,864 bytes, but is larger"):
            ask("citeseer", tmp_path)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(UnreadableFileError, match=r"No such file.*check the path"):
        check_file(tmp_path / "pubmed.npz", CATALOG["pubmed"])


@pytest.mark.parametrize(
    ("question", "ask"),
    [
        ("is_file", lambda folder: find_file("pubmed", folder)),
        ("is_file", lambda folder: load_dataset("pubmed", folder)),
        ("exists", lambda folder: load_dataset("pubmed", folder)),
        ("exists", lambda folder: fetch("pubmed", folder)),
    ],
    ids=["find", "load", "choose where to download", "fetch"],
)
def test_a_folder_that_may_not_be_entered(tmp_path, monkeypatch, question, ask):
    closed, answer = tmp_path / "closed", getattr(Path, question)

    def refuse(self):
        if closed in (self, *self.parents):
            raise PermissionError(13, "Permission denied", str(self))
        return answer(self)

    monkeypatch.setattr(Path, question, refuse)
    message = r"Cannot look for .*closed.*: Permission denied\. .*check the permissions, or name an"
    with pytest.raises(UnreadableFileError, match=message):
        ask(closed)


def test_a_missing_file_is_described(tmp_path):
    expected = (
        f"'citeseer' must be in one of the folders {tmp_path}, .*citeseer.npz with SHA-256 9c72e.*"
        f"from http://127.0.0.1:9/citeseer.npz, and put it into {tmp_path}; .*switched off"
    )
    with pytest.raises(DatasetNotFoundError, match=expected):
        load_dataset("citeseer", tmp_path, download=False)


def test_a_missing_file_without_network_is_described_too(tmp_path):
    folder = tmp_path / "chosen"
    with pytest.raises(DatasetNotFoundError, match=r"download failed: .*Connection refused"):
        load_dataset("citeseer", folder)
    assert not folder.exists()


# ---------------------------------------------------------------- downloading


@pytest.mark.parametrize("kind", ["good", "good/", "unsized"])
def test_a_file_is_downloaded_once(tmp_path, server, tiny, kind):
    path = fetch("tiny", tmp_path / "new" / "folder", base_url=f"{server}/{kind}")
    assert path == tmp_path / "new" / "folder" / "tiny.npz"
    assert path.read_bytes() == tiny
    assert files_in(path.parent) == ["tiny.npz"]
    assert fetch("tiny", path.parent, base_url="http://127.0.0.1:9") == path


def test_progress_is_shown_on_stderr(tmp_path, server, capsys):
    fetch("tiny", tmp_path, base_url=f"{server}/good", show_progress=True)
    output = capsys.readouterr()
    assert output.out == ""
    assert "tiny.npz" in output.err


def test_loading_downloads_into_the_chosen_folder(tmp_path, server, monkeypatch):
    monkeypatch.setenv("PROPTRAIN_DATA_URL", f"{server}/good")
    assert load_dataset("tiny", tmp_path / "chosen").n_nodes == 3
    assert files_in(tmp_path / "chosen") == ["tiny.npz"]
    assert files_in(tmp_path / "cache") == []
    monkeypatch.setenv("PROPTRAIN_DATA", str(tmp_path / "named"))
    assert load_dataset("tiny").n_nodes == 3
    assert files_in(tmp_path / "named") == ["tiny.npz"]


def test_loading_downloads_into_the_cache_otherwise(tmp_path, server, monkeypatch):
    monkeypatch.setenv("PROPTRAIN_DATA_URL", f"{server}/good")
    (tmp_path / "no-folder").touch()
    assert load_dataset("tiny", tmp_path / "no-folder").n_nodes == 3
    assert find_file("tiny") == tmp_path / "cache" / "proptrain" / "tiny.npz"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("wrong", "must bring tiny.npz with SHA-256 .* it brought 6 bytes with SHA-256 .*mirror"),
        ("missing", "Cannot download .*/missing/tiny.npz: HTTP Error 404.*another way"),
        ("cut", "the connection ended after .* of .* bytes. Try again"),
    ],
)
def test_a_failed_download_says_why_and_leaves_nothing(tmp_path, server, kind, message):
    with pytest.raises(DownloadError, match=message):
        fetch("tiny", tmp_path / "folder", base_url=f"{server}/{kind}")
    assert files_in(tmp_path / "folder") == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:9", "Connection refused.*Check the address and the network"),
        ("no address", "unknown url type"),
        ("http://127.0.0.1:port", "nonnumeric port"),
    ],
)
def test_a_bad_address_says_why(tmp_path, tiny, url, message):
    with pytest.raises(DownloadError, match=message):
        fetch("tiny", tmp_path, base_url=url)


def test_a_server_cannot_fill_the_memory(tmp_path, server, monkeypatch):
    monkeypatch.setattr(catalog, "MAX_BYTES", 100)
    with pytest.raises(DownloadError, match="the file is larger than 100 bytes"):
        fetch("tiny", tmp_path, base_url=f"{server}/good")


def test_a_download_that_cannot_be_kept(tmp_path, server):
    Path(tmp_path / "no-folder").touch()
    with pytest.raises(DownloadError, match=r"cannot be kept as .*Name a folder that you may"):
        fetch("tiny", tmp_path / "no-folder", base_url=f"{server}/good")


def test_a_download_never_replaces_a_file(tmp_path, server):
    (tmp_path / "tiny.npz").write_text("precious")
    with pytest.raises(FileFormatError, match="damaged or another file"):
        fetch("tiny", tmp_path, base_url=f"{server}/good")
    assert (tmp_path / "tiny.npz").read_text() == "precious"


@pytest.mark.parametrize("is_right", [True, False])
def test_another_process_may_be_quicker_to_download_the_same(
    tmp_path, server, tiny, monkeypatch, is_right
):
    there, download = tmp_path / "tiny.npz", catalog._download

    def slow(*how):
        content = download(*how)
        there.write_bytes(tiny if is_right else b"another")
        return content

    monkeypatch.setattr(catalog, "_download", slow)
    if is_right:
        assert fetch("tiny", tmp_path, base_url=f"{server}/good") == there
        assert there.read_bytes() == tiny
        return
    with pytest.raises(FileFormatError, match="damaged or another file"):
        fetch("tiny", tmp_path, base_url=f"{server}/good")


def test_what_is_shipped_needs_no_download(tmp_path):
    with pytest.raises(InvalidInputError, match=r"'cora' comes with proptrain\. Use load_dataset"):
        fetch("cora", tmp_path)
