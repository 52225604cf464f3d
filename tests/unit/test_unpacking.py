"""A packed file that was made to fill the memory is refused while it is being unpacked."""

from __future__ import annotations

import gzip
import io
import resource

import pandas as pd
import pytest

from proptrain import build_graph
from proptrain.data.table_files import read_table
from proptrain.data.unpacking import LARGE, MOST_TIMES, check_growth, unpacking
from proptrain.errors import FileFormatError


def bomb(path, beginning, line, n_bytes=LARGE + (1 << 24)):
    """Write a file of some 300 KB that unpacks to more than what is allowed."""
    many = line * ((1 << 20) // len(line))
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(beginning)
        for _ in range(n_bytes // len(many) + 1):
            file.write(many)
    return path


@pytest.mark.parametrize("line", [b"1,2\n", b"x" * 1024], ids=["rows", "one endless line"])
def test_a_table_that_would_fill_the_memory_is_refused(tmp_path, line):
    path = bomb(tmp_path / "nodes.csv.gz", b"id,label\n", line)
    assert path.stat().st_size < LARGE / MOST_TIMES
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FileFormatError, match=r"nodes\.csv\.gz would grow .*gunzip") as caught:
        read_table(path)
    assert "cannot be read as" not in str(caught.value)
    # Kilobytes: what was unpacked up to the limit is not kept.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < LARGE / 1024


def test_no_parser_sees_a_table_that_would_fill_the_memory(tmp_path, monkeypatch):
    path = bomb(tmp_path / "nodes.csv.gz", b"id,label\n", b"1,2\n")
    monkeypatch.setattr(pd, "read_csv", None)
    with pytest.raises(FileFormatError, match=r"nodes\.csv\.gz would grow .*gunzip"):
        read_table(path)


@pytest.mark.parametrize(
    ("beginning", "line"),
    [(b"a,b\n", b"1,2\n"), (b"", b"x" * 1024)],
    ids=["rows", "an endless header"],
)
def test_an_edge_list_that_would_fill_the_disk_is_refused(tmp_path, beginning, line):
    path = bomb(tmp_path / "edges.csv.gz", beginning, line)
    with pytest.raises(FileFormatError, match=r"edges\.csv\.gz"):
        build_graph([path], tmp_path / "graph", memory="64GB")
    assert not (tmp_path / "graph" / "manifest.json").exists()


def test_what_is_packed_as_usual_is_unpacked():
    text = b"".join(b"%d,%d\n" % (one, one * one) for one in range(10_000))
    with unpacking(io.BytesIO(gzip.compress(text)), "edges.CSV.GZ") as file:
        assert file.read() == text
    with unpacking(io.BytesIO(text), "edges.csv") as file:
        assert file.read() == text


def test_growth_is_refused_from_the_limit_on():
    check_growth("a", 1, LARGE, "")
    check_growth("a", LARGE, MOST_TIMES * LARGE, "")
    with pytest.raises(FileFormatError, match="Use another"):
        check_growth("a", 1, LARGE + 1, "Use another.")


def test_an_edge_list_with_a_flipped_byte_is_said_to_be_damaged(tmp_path):
    text = b"".join(b"%d,%d\n" % (one, one * one) for one in range(10_000))
    content = bytearray(gzip.compress(b"a,b\n" + text))
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "edges.csv.gz").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"edges\.csv\.gz cannot be read"):
        build_graph([tmp_path / "edges.csv.gz"], tmp_path / "graph", memory="64GB")
