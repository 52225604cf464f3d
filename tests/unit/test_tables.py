"""Two tables become a data set; whatever is wrong with them is said with row and file."""

import gzip
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proptrain.data import tables
from proptrain.data.table_files import column_parts
from proptrain.data.tables import check_not_empty, edge_pairs, read_table, read_tables
from proptrain.errors import (
    FileFormatError,
    GraphError,
    LabelError,
    ProptrainError,
    TableError,
    UnreadableFileError,
)

NODES = "id,age,colour,kind\n007,30,red,spy\n01,40,blue,\nNA,50,red,cook\n3,60,blue,spy\n"
EDGES = "source,target,trust\n3,007,2.5\n01,NA,0.5\n007,007,1\n01,NA,0.25\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path / "edges.csv", tmp_path / "nodes.csv"


def nodes_frame(**columns):
    return pd.DataFrame({"id": [10, 20, 30], "x": [0.0, 1.0, 2.0], **columns})


def test_csv_ids_are_kept_as_they_are_written(files):
    tables = read_tables(*files, label="kind", weight="trust")
    dataset = tables.dataset
    assert dataset.node_ids.tolist() == ["007", "01", "NA", "3"]
    assert dataset.labels.tolist() == [1, -1, 0, 1]
    assert dataset.class_names == ("cook", "spy")
    expected = np.zeros((4, 4))
    expected[3, 0] = expected[0, 3] = 2.5
    expected[1, 2] = expected[2, 1] = 0.5
    np.testing.assert_array_equal(dataset.graph.adjacency.toarray(), expected)
    counts = dataset.graph.counts
    assert (counts.given, counts.self_loops, counts.duplicates, counts.one_way) == (4, 1, 1, 2)
    assert tables.id_column == "id"
    assert tables.feature_columns == ("age", "colour")
    assert tables.kinds == {"age": "numeric", "colour": "categorical"}
    assert dataset.features.shape == (4, 3)
    assert dataset.name == "nodes"


@pytest.mark.parametrize("form", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_a_table_of_too_many_columns_is_refused_before_it_is_read(form, tmp_path, monkeypatch):
    monkeypatch.setattr("proptrain.data.table_files._MOST_COLUMNS", 5)
    for n_columns in (5, 6):
        frame = pd.DataFrame([range(n_columns)], columns=[f"c{i}" for i in range(n_columns)])
        path = tmp_path / f"wide{form}"
        if form == ".parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False, sep="\t" if form == ".tsv" else ",")
        if n_columns == 5:
            assert read_table(path).shape == (1, 5)
    with pytest.raises(TableError, match=rf"at most 5 columns, but wide\{form} has more. Give so"):
        read_table(path)


def test_every_form_gives_the_same(files, tmp_path):
    expected = read_tables(*files, label="kind").dataset
    edges, nodes = (read_table(path, text_columns=["id", "source", "target"]) for path in files)
    for name, text in (("nodes", NODES), ("edges", EDGES)):
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
        (tmp_path / f"{name}.tsv").write_text(text.replace(",", "\t"))
        (tmp_path / f"{name}-2.csv").write_text("\ufeff" + text.replace(",", ";"))
    nodes.to_parquet(tmp_path / "nodes.parquet")
    edges.to_parquet(tmp_path / "edges.parquet")
    forms = [
        (edges, nodes),
        (pa.Table.from_pandas(edges), pa.Table.from_pandas(nodes)),
        (edges, tmp_path / "nodes.parquet"),
        *(
            (tmp_path / f"edges{end}", str(tmp_path / f"nodes{end}"))
            for end in (".csv.gz", ".tsv", "-2.csv", ".parquet")
        ),
    ]
    for form in forms:
        dataset = read_tables(*form, label="kind").dataset
        assert (dataset.graph.adjacency != expected.graph.adjacency).nnz == 0
        assert (dataset.features != expected.features).nnz == 0
        assert dataset.labels.tolist() == expected.labels.tolist()
        assert dataset.node_ids.tolist() == expected.node_ids.tolist()


def test_large_ids_lose_nothing(tmp_path):
    big = 2**53
    (tmp_path / "n.csv").write_text(f"id,x\n{big},1\n{big + 1},2\n{big + 2},3\n")
    edges = pd.DataFrame({"source": [big + 1], "target": [big + 2]})
    tables = read_tables(edges, tmp_path / "n.csv")
    assert tables.dataset.graph.adjacency.tocoo().row.tolist() == [1, 2]
    nodes = pd.DataFrame({"id": [big, big + 1, big + 2], "x": [1, 2, 3]})
    for end in (np.int64, np.uint64, "Int64", str):
        dataset = read_tables(edges.astype(end), nodes).dataset
        assert dataset.graph.adjacency.tocoo().row.tolist() == [1, 2]
        assert dataset.node_ids.dtype == np.int64


def test_ids_of_other_types():
    nodes = nodes_frame()
    texts = pd.DataFrame({"a": ["10"], "b": ["30"]})
    floats = pd.DataFrame({"a": [10.0], "b": [30.0]})
    categories = texts.astype("category")
    for edges in (texts, floats, categories, texts.astype(object)):
        assert read_tables(edges, nodes).dataset.graph.adjacency.tocoo().row.tolist() == [0, 2]
    as_category = nodes.assign(id=pd.Categorical(nodes["id"]))
    assert read_tables(texts, as_category).dataset.node_ids.dtype == np.int64


@pytest.mark.parametrize(
    ("ids", "texts"),
    [([1, "a", 2.0], ["1", "a", "2"]), ([(1, 2), (3, 4), (3, 5)], ["(1, 2)", "(3, 4)", "(3, 5)"])],
)
def test_ids_of_several_types_become_text(ids, texts):
    nodes = pd.DataFrame({"id": pd.Series(ids, dtype=object), "x": [1, 2, 3]})
    edges = pd.DataFrame({"a": ids[:1], "b": ids[2:]})
    dataset = read_tables(edges, nodes).dataset
    assert dataset.node_ids.dtype.kind == "U"
    assert dataset.node_ids.tolist() == texts
    assert dataset.graph.adjacency.tocoo().row.tolist() == [0, 2]


def test_columns_are_found_by_name():
    nodes = pd.DataFrame({"x": [1, 2], "Node_ID": [5, 6]})
    for names in (("Source", "TARGET"), ("src", "dst"), ("from", "to")):
        edges = pd.DataFrame({"w": [9], names[1]: [5], names[0]: [6]})
        tables = read_tables(edges, nodes)
        assert tables.id_column == "Node_ID"
        assert tables.dataset.graph.n_edges == 1
    first = read_tables(
        pd.DataFrame({"p": [5], "q": [6]}), nodes.rename(columns={"Node_ID": "n"}), id="n"
    )
    assert first.id_column == "n"
    chosen = read_tables(
        pd.DataFrame({"p": [0], "q": [5], "r": [6]}), nodes, source="q", target="r"
    )
    assert chosen.dataset.graph.n_edges == 1


def test_without_label_everything_is_unknown():
    dataset = read_tables(pd.DataFrame({"a": [10], "b": [20]}), nodes_frame()).dataset
    assert dataset.labels.tolist() == [-1, -1, -1]
    assert dataset.class_names == ()


def test_encoder_and_kinds_are_passed_on():
    edges = pd.DataFrame({"a": [10], "b": [20]})
    first = read_tables(edges, nodes_frame(c=[1, 2, 2]), kinds={"c": "categorical"}, name="toy")
    assert first.kinds["c"] == "categorical"
    assert first.dataset.name == "toy"
    later = nodes_frame(c=[2, 2, 7]).assign(id=[20, 10, 30])
    second = read_tables(edges, later, encoder=first.encoder, kinds=first.kinds)
    assert second.dataset.features.toarray()[:, 1:].tolist() == [[0, 1], [0, 1], [0, 0]]


def test_inputs_stay_unchanged():
    edges, nodes = pd.DataFrame({"a": [10], "b": [20]}, index=[7]), nodes_frame()
    kept = edges.copy(), nodes.copy()
    read_tables(edges, nodes)
    pd.testing.assert_frame_equal(edges, kept[0])
    pd.testing.assert_frame_equal(nodes, kept[1])


def test_edge_pairs():
    edges = pd.DataFrame({"a": ["c", "a"], "b": ["b", "c"], "w": [2, 3]}, index=[4, 4])
    ids = np.array(["a", "b", "c"])
    pairs, weights = edge_pairs(edges, ids, source="a", target="b", weight="w")
    assert pairs.tolist() == [[2, 1], [0, 2]]
    assert pairs.dtype == np.int64
    assert weights.tolist() == [2, 3]
    assert edge_pairs(edges, ids, source="a", target="b")[1] is None


def test_whole_numbers_written_as_decimals_are_told_so(tmp_path):
    path = tmp_path / "links.csv"
    path.write_text("a,b\n10.0,20.0\n")
    with pytest.raises(TableError, match=r"'20\.0' in row 1\. They look like whole numbers"):
        read_tables(path, nodes_frame())
    path.write_text("a,b\n10.0,x\n")
    with pytest.raises(TableError, match=r"'x' in row 1\. Add them to the node table"):
        read_tables(path, nodes_frame())


def test_unknown_ids_are_named_with_their_rows(tmp_path):
    path = tmp_path / "links.csv"
    path.write_text("a,b\n10,20\n77,10\n" + "".join(f"20,{i}\n" for i in range(90, 97)) + "77,20\n")
    message = (
        r"but 8 of links\.csv are not: '77' in row 2, '90' in row 3, '91' in row 4, '92' in row 5, "
        r"'93' in row 6, …\. Add them to the node table"
    )
    with pytest.raises(TableError, match=message):
        read_tables(path, nodes_frame())


@pytest.mark.parametrize(
    ("edges", "nodes", "options", "message"),
    [
        ({"a": [10], "b": [99]}, {}, {}, "1 of the given DataFrame is not: 99 in row 1"),
        ({"a": [10, None], "b": [20, 20]}, {}, {}, r"an id in column 'a'.*1 without one \(row 2\)"),
        ({"a": ["10", " "], "b": ["20", "20"]}, {}, {}, "an id in column 'a'"),
        ({"a": [10]}, {}, {}, "two columns of node ids.*has only a"),
        ({"a": [10], "b": [20]}, {"id": [10, 20, 10]}, {}, "Node ids must differ.*10 in row 3"),
        ({"a": [10], "b": [20]}, {"id": ["a", None, "b"]}, {}, "an id in column 'id'"),
        (
            {"a": [10], "b": [20]},
            {},
            {"label": "X1"},
            "a column 'X1' .*are id, x. Did you mean 'x'",
        ),
        ({"a": [10], "b": [20]}, {}, {"id": "zebra"}, r"'zebra' in .*are id, x\.$"),
        ({"a": [10], "bee": [20]}, {}, {"target": "be"}, "Did you mean 'bee'"),
        ({"a": [10], "b": [20]}, {}, {"weight": "w"}, "a column 'w'"),
        ({"a": [10], "b": [20]}, {}, {"target": "a"}, "two columns, got 'a' for both"),
        ({"a": [10], "b": [20], "w": ["x"]}, {}, {"weight": "w"}, "must be numbers.*'x' in row 1"),
        (
            {"a": [10, 20], "b": [20, 10], "w": [1, 1e300]},
            {},
            {"weight": "w"},
            r"must be numbers of at most 3\.4e38 in size, .* holds 1e\+300 in row 2\. Correct them",
        ),
        ({"a": [10], "b": [20], "w": ["-inf"]}, {}, {"weight": "w"}, "holds '-inf' in row 1"),
        ({"a": [10], "b": [20]}, {}, {"kinds": {"id": "text"}}, "not among the feature columns"),
        ({"a": [10], "b": [20]}, {}, {"label": "x"}, "at least one column to learn from"),
        ({"a": [], "b": []}, {}, {}, "at least one row"),
    ],
)
def test_wrong_tables(edges, nodes, options, message):
    with pytest.raises(TableError, match=message):
        read_tables(pd.DataFrame(edges), nodes_frame(**nodes), **options)


def test_other_refusals():
    edges = pd.DataFrame({"a": [10], "b": [20], "w": [-1.0]})
    with pytest.raises(GraphError, match="not negative"):
        read_tables(edges, nodes_frame(), weight="w")
    with pytest.raises(TableError, match="pyarrow Table, got list"):
        read_table([1, 2])
    with pytest.raises(TableError, match="several named 'a'"):
        read_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    levels = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "id"), ("a", "x")]))
    with pytest.raises(TableError, match=r"one name, .* 2 levels of names, such as \('a', 'id'\)"):
        read_table(levels)
    for empty in (levels.iloc[:, :0], pd.DataFrame(index=[0])):
        with pytest.raises(TableError, match="must have columns, but the given DataFrame has none"):
            read_table(empty)
    with pytest.raises(TableError, match=r"of at most 3\.4e38 in size, .* holds -1e\+300 in row 1"):
        read_tables(edges.replace(-1.0, -1e300), nodes_frame(), weight="w")


def test_the_largest_weights_of_a_file_stay_and_larger_ones_are_told_without_a_warning(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("a,b,w\n10,20,3.4e38\n20,10,1\n")
    largest = read_tables(path, nodes_frame(), weight="w").dataset.graph
    assert largest.adjacency.max() == np.float32(3.4e38)
    path.write_text("a,b,w\n10,20,1e300\n20,10,1\n")
    with pytest.raises(TableError, match=r"'w' of edges.csv holds 1e\+300 in row 1"):
        read_tables(path, nodes_frame(), weight="w")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "id,x,label,x\n1,2,a,3\n"),
        ("t.csv", '\ufeffid, "x",label, x,x.1\n1,2,a,3,4\n'),
        ("t.csv", "id;x;label;x\n1;2;a;3\n"),
        ("t.tsv", "id\tx\tlabel\tx\n1\t2\ta\t3\n"),
        ("t.parquet", None),
    ],
)
def test_columns_of_the_same_name_in_a_file_are_refused(tmp_path, name, content):
    path = tmp_path / name
    if content is None:
        columns = [pa.array([1]), pa.array([2.0]), pa.array(["a"]), pa.array([3.0])]
        pq.write_table(pa.table(columns, names=["id", "x", "label", "x"]), path)
    else:
        path.write_text(content, encoding="utf-8")
    told = rf"Column names must differ, but {name} has several named 'x'\. Rename or drop"
    with pytest.raises(TableError, match=told):
        read_tables(pd.DataFrame({"a": [1], "b": [1]}), path, label="label")
    with pytest.raises(TableError, match=told):
        read_tables(path, nodes_frame(), source="id", target="label")
    with pytest.raises(TableError, match=told):
        list(column_parts(path, lambda names: "id", 1000))


def test_ids_in_parts_are_stripped_as_those_of_a_whole_table(tmp_path):
    path, blanks = tmp_path / "t.csv", ["", " ", "\t", "\u00a0", "\u3000", "\x1c", "\u2009 "]
    rows = [f"{blank}a {number}{blank},1" for number, blank in enumerate(blanks)]
    path.write_text("\n".join(["id,x", *rows, ""]), encoding="utf-8")
    parts = [values.to_pylist() for _, values in column_parts(path, lambda names: "id", 4)]
    ids = [one for part in parts for one in part]
    assert ids == read_table(path, text_columns=["id"])["id"].tolist()
    assert ids == [f"a {number}" for number in range(len(blanks))]


def test_columns_without_a_name_are_no_columns_of_the_same_name(tmp_path):
    (tmp_path / "t.csv").write_text(",,x\n1,2,3\n")
    assert list(read_table(tmp_path / "t.csv").columns) == ["Unnamed: 0", "Unnamed: 1", "x"]


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("t.csv", b"", FileFormatError, "t.csv is empty"),
        ("t.csv", b"a,b\n", TableError, "at least one row, but t.csv has none"),
        ("t.csv", b"a,b\n1,2\n3,4,5\n", FileFormatError, "as many cells"),
        ("t.csv", b"a,b\n1,2,3\n3,4,5\n", FileFormatError, "as many cells"),
        ("t.csv", "a,b\nMüller,2\n".encode("latin-1"), FileFormatError, "UTF-8"),
        ("t.csv", "a,b\n1,2\n".encode("utf-16"), FileFormatError, "UTF-8"),
        ("t.csv", bytes(range(256)) * 20, FileFormatError, "UTF-8"),
        ("t.csv.gz", b"not compressed", FileFormatError, "cannot be read as .gz"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:30], FileFormatError, "is whole"),
        ("t.parquet", b"", FileFormatError, "cannot be read as .parquet"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", FileFormatError, r"in line 3, saw 3\. Check that"),
        ("t.parquet", b"PAR1" + bytes(50) + b"PAR1", FileFormatError, "cannot be read as"),
        ("t.xlsx", b"", FileFormatError, r"must be one of \.csv, .*got t\.xlsx"),
        ("t", b"", FileFormatError, "must be one of"),
    ],
)
def test_broken_files(tmp_path, name, content, error, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=message):
        read_table(tmp_path / name)


def test_unreadable_paths(tmp_path, monkeypatch):
    with pytest.raises(UnreadableFileError, match=r"gone\.csv does not exist"):
        read_table(tmp_path / "gone.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UnreadableFileError, match="is a directory"):
        read_table(str(tmp_path / "folder.csv"))
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(UnreadableFileError, match=r"pipe\.csv is no ordinary file, but a pipe"):
        read_table(tmp_path / "pipe.csv")
    (tmp_path / "t.csv").write_text("a\n1\n")

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pd, "read_csv", refuse)
    with pytest.raises(UnreadableFileError, match="cannot be read: Permission denied"):
        read_table(tmp_path / "t.csv")
    assert issubclass(UnreadableFileError, ProptrainError)


def test_importing_the_modules_does_not_import_pandas():
    code = (
        "import sys, proptrain.data.tables, proptrain.data.columns, proptrain.data.convert, "
        "proptrain.data.labels, proptrain.data.knn\n"
        "sys.exit(any(m in sys.modules for m in ('pandas', 'torch', 'sklearn', 'pynndescent')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("labels", [["a", "-1", "b", ""], ["a", -1, "b", None], [3, -1, 5, None]])
def test_minus_one_is_unlabelled_whether_number_or_text(labels):
    nodes = pd.DataFrame({"id": [1, 2, 3, 4], "x": [0.5, 1.0, 2.0, 4.0], "y": labels})
    edges = pd.DataFrame({"source": [1, 2, 3], "target": [2, 3, 4]})
    assert read_tables(edges, nodes, label="y").dataset.labels.tolist() == [0, -1, 1, -1]


def labels_of(tmp_path, cells):
    nodes = "id,x,y\n" + "".join(f"n{i},{i}.5,{cell}\n" for i, cell in enumerate(cells))
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text("source,target\nn0,n1\n")
    tables = read_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", label="y")
    codes, names = tables.dataset.labels, tables.dataset.class_names
    return [None if code < 0 else names[code] for code in codes], tables.notes


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["007", "7", "", "-1"], ["007", "7", None, None]),
        (["9007199254740993", "9007199254740992", "", "5"], [2**53 + 1, 2**53, None, 5]),
        (["r", "r ", " s", ""], ["r", "r", "s", None]),
        (["true", "false", "", ""], ["true", "false", None, None]),
    ],
)
def test_labels_of_a_text_file_are_read_as_they_stand(tmp_path, cells, wanted):
    assert labels_of(tmp_path, cells)[0] == wanted


def test_words_for_missing_are_unlabelled_and_said_so(tmp_path):
    labels, notes = labels_of(tmp_path, ["None", "low", "high", "NA"])
    assert labels == [None, "low", "high", None]
    assert "1 cells 'None' in column 'y' read as unlabelled" in notes


def test_a_label_of_thousands_of_digits_is_refused(tmp_path):
    (tmp_path / "nodes.csv").write_text(f"id,x,y\n1,1,1\n2,2,{'9' * 5000}\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    with pytest.raises(TableError, match=r"column 'y' of nodes\.csv must be .*number 2 has 5,000"):
        read_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", label="y")


@pytest.mark.parametrize(
    ("word", "kind"),
    [("1.5", float), (".5", float), ("-1.5e-3", float), ("1.", str), (".", str), ("1.5x", str)],
)
def test_what_is_written_as_a_number(word, kind):
    assert tables._kind_of(["1.5", word]) is kind


def test_telling_numbers_from_text_takes_no_longer_for_many_digits():
    pytest.importorskip("resource", reason="what a process may compute is limited by Unix alone")
    code = (
        "from proptrain.data import tables; import resource;"
        "used = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime);"
        "resource.setrlimit(resource.RLIMIT_CPU, (used + 30, used + 30));"
        "print(tables._kind_of(['1.5', '1' * 1_000_000 + 'x']).__name__)"
    )
    # Of a quarter of an hour, which it took when each digit was tried as the first, it would die.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "str"


NESTED = {
    "lists": pa.array([["a"], ["b"]]),
    "structs": pa.array([{"a": 1}, {"a": 2}]),
    "maps": pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64())),
    "bytes": pa.array([b"\xff", b"a"]),
}


@pytest.mark.parametrize("what", NESTED)
@pytest.mark.parametrize("how", ["NumPy", "Arrow"])
def test_ids_that_are_no_single_values_are_refused(what, how):
    def frame(**columns):
        backend = {"types_mapper": pd.ArrowDtype} if how == "Arrow" else {}
        return pa.table(columns).to_pandas(**backend)

    names, edges = pa.array(["a", "b"]), frame(source=["a"], target=["b"])
    said = "lists" if what == "maps" else what
    match = (
        rf"must be one value, .* column '{{}}' of the given DataFrame holds {said}, as in row 1\."
    )
    with pytest.raises(TableError, match=match.format("id")):
        read_tables(edges, frame(id=NESTED[what]))
    for end, other in (("source", "target"), ("target", "source")):
        nested = frame(**{end: NESTED[what], other: names})
        with pytest.raises(TableError, match=match.format(end)):
            read_tables(nested, frame(id=names, x=[1, 2]))
    if what != "bytes":
        with pytest.raises(LabelError, match="must be one value for each node"):
            read_tables(edges, frame(id=names, x=[1, 2], topic=NESTED[what]), label="topic")


def test_the_row_of_an_id_that_is_a_list_is_told_and_tuples_are_ids():
    with pytest.raises(TableError, match=r"column 'id' of nodes\.parquet holds lists.* row 12\."):
        check_not_empty(pd.Series(["a", ["b"]], name="id"), "nodes.parquet", 10)
    nodes = pd.DataFrame({"id": [(1, 2), (1, 3)], "x": [1, 2]})
    edges = pd.DataFrame({"source": [(1, 2)], "target": [(1, 3)]})
    assert read_tables(edges, nodes).dataset.graph.n_edges == 1


def test_why_a_table_cannot_be_looked_at_is_told():
    with pytest.raises(UnreadableFileError, match=r"csv cannot be looked at: File name too long"):
        read_table("a" * 300 + ".csv")
