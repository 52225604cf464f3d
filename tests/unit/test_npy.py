"""Headers of NumPy arrays from strangers: what no array can be made of is refused in our words."""

import io
import zipfile

import numpy as np
import pytest

from proptrain import read_npz
from proptrain.data.disk_nodes import open_labels
from proptrain.data.npy import map_array, read_header
from proptrain.data.shared import SharedFolder
from proptrain.errors import FileFormatError, UnreadableFileError


def header(kind, shape, version=(1, 0), order=False):
    """Return the beginning of an .npy file, of any type, shape and version."""
    told = f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    n_bytes = len(told).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + bytes(version) + n_bytes + told


READERS = {
    "mapped": lambda folder: map_array(folder / "a.npy"),
    "read": lambda folder: SharedFolder(folder).read("a.npy"),
    "looked at": lambda folder: SharedFolder(folder).look("a.npy"),
    "shared, mapped": lambda folder: SharedFolder(folder).map("a.npy"),
    "some rows": lambda folder: SharedFolder(folder).read_rows("a.npy", slice(0, 3)),
    "archive": lambda folder: read_npz(folder / "a.npz"),
}
HARMFUL = {
    "no bytes": (header("'|S0'", "(1000000000000,)"), "text that take some bytes"),
    "no bytes, void": (header("'|V0'", "(1000000000000,)"), "text that take some bytes"),
    "truth for a size": (header("'<f8'", "(True, 3)") + bytes(24), r"got 2: \(True, 3\)"),
    "65 sizes": (header("'<f8'", (1,) * 65) + bytes(8), "at most 32 whole numbers.* got 65"),
    "below 0": (header("'<f8'", "(-1, -3)") + bytes(24), "none below 0"),
    "beyond memory": (header("'<f8'", (0, 2**62)), "that memory could hold"),
    "beyond text": (header("'<f8'", (10**4000, 10**4000)), "that memory could hold"),
    "rows of rows": (header("('<f8', (2,))", "(3, 1)") + bytes(48), "array of numbers or text"),
    "fields": (header("[('a', '<f8')]", "(3, 1)") + bytes(24), "array of numbers or text"),
    "objects": (header("'|O'", "(3, 1)") + bytes(24), "it is pickled"),
    "version 9": (header("'<f8'", "(3, 1)", (9, 0)) + bytes(24), "version 9.0 is unknown"),
    "too few bytes": (header("'<f8'", "(3, 1)") + bytes(23), "so it must have .* bytes, got"),
    "too many bytes": (header("'<f8'", "(3, 1)") + bytes(25), "so it must have .* bytes, got"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", HARMFUL)
def test_a_harmful_header_is_refused_by_whoever_reads_arrays(name, reader, tmp_path):
    content, match = HARMFUL[name]
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("adj_matrix.indptr.npy", content)
        archive.writestr("adj_matrix.data.npy", content)
    with pytest.raises(FileFormatError, match=match):
        READERS[reader](tmp_path)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.zeros((0, 3), np.float32),
        np.array(7),
        np.array(["é", "ab"]),
        np.arange(3, dtype=">i4"),
    ],
    ids=["matrix", "Fortran", "no row", "no dimension", "text", "big-endian"],
)
def test_whole_arrays_are_read_as_they_are(array, version, tmp_path):
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version=version)
    content = (tmp_path / "a.npy").read_bytes()
    found = read_header(io.BytesIO(content), "a.npy", len(content)).array_in(content)
    for one in (found, map_array(tmp_path / "a.npy")):
        np.testing.assert_array_equal(one, array)
        assert one.dtype == array.dtype


def test_rows_that_are_not_there_are_not_made_room_for(tmp_path):
    (tmp_path / "a.npy").write_bytes(header("'<f4'", (0, 10**12)))
    for rows in (slice(0, 3), np.array([0, 2])):
        with pytest.raises(FileFormatError, match="must have at least 3 rows, got shape"):
            SharedFolder(tmp_path).read_rows("a.npy", rows)


def test_labels_are_counted_before_they_are_copied(tmp_path, monkeypatch):
    np.save(tmp_path / "labels.npy", np.zeros(4, int))
    monkeypatch.setattr(np, "array", lambda *_: pytest.fail("they are copied"))
    with pytest.raises(ValueError, match=r"one for each of the graph's 3 nodes; .* shape \(4,\)"):
        open_labels(tmp_path / "labels.npy", 3)


def test_what_cannot_be_opened_or_mapped_is_said(tmp_path, monkeypatch):
    with pytest.raises(UnreadableFileError, match=r"a\.npy cannot be read: No such file"):
        map_array(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.zeros(4))

    def shorter(*_, **__):
        raise ValueError("mmap length is greater than filesize")

    monkeypatch.setattr(np, "memmap", shorter)
    with pytest.raises(FileFormatError, match=r"a\.npy cannot be mapped \(mmap length"):
        map_array(tmp_path / "a.npy")


def test_labels_that_are_no_letters_are_refused(tmp_path):
    np.save(tmp_path / "labels.npy", np.array([2**31, 65, 66], np.uint32).view("<U1"))
    with pytest.raises(FileFormatError, match=r"labels\.npy holds numbers that are no letters"):
        open_labels(tmp_path / "labels.npy", 3)
