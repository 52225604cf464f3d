"""Damaged and masked matrices: an error of ours, where SciPy would crash or NumPy look behind."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from reliability.hell_cases import ordinary

from proptrain import (
    Dataset,
    Graph,
    PTAClassifier,
    StoppingNodes,
    as_graph,
    extend_graph,
    fit_from_disk,
    graph_from_edges,
    knn_graph,
    noise_rate,
    predict_probabilities,
    save_graph,
    train_predictor,
)
from proptrain.data.shared_features import check_feature_source as check_shared
from proptrain.data.sound import sound_matrix
from proptrain.errors import GraphError, InvalidInputError, LabelError

FORMATS = ("csr", "csc", "bsr", "coo", "dia", "lil", "dok")
ADVICE = "make it anew from what it was made of"


def _square(format: str) -> sp.sparray:
    entries = sp.coo_array(np.float32(np.eye(6) + np.eye(6, k=2)))
    return entries.tobsr(blocksize=(2, 2)) if format == "bsr" else entries.asformat(format)


def _with(format: str, part: str, values: object) -> sp.sparray:
    matrix = _square(format)
    setattr(matrix, part, values)
    return matrix


def _changed(format: str, part: str, place: int, value: int) -> sp.sparray:
    matrix = _square(format)
    getattr(matrix, part)[place] = value
    return matrix


def _parts_of(matrix: sp.csr_array) -> tuple[np.ndarray, ...]:
    return matrix.data, matrix.indices, matrix.indptr


def _lists() -> sp.lil_array:
    matrix = _square("lil")
    matrix.rows[0][0] = 10**6
    return matrix


DAMAGED = {
    "csr, beyond": (lambda: _changed("csr", "indices", 0, 10**6), "indices from 1 to 1000000"),
    "csr, one beyond": (
        lambda: _changed("csr", "indices", 0, 6),
        "to 6, where 0 to 5 are possible",
    ),
    "csr, negative": (lambda: _changed("csr", "indices", 0, -1), "indices from -1 to 5"),
    "csr, falls": (lambda: _changed("csr", "indptr", 3, 0), "0 to 10 and falls in between"),
    "csr, ends beyond": (lambda: _changed("csr", "indptr", -1, 11), "10 indices and 10 values"),
    "csr, starts late": (lambda: _changed("csr", "indptr", 0, 1), "goes from 1 to 10"),
    "csr, too short": (lambda: _with("csr", "indptr", np.array([0, 1])), "2 .* where 7 must be"),
    "csr, fractions": (lambda: _with("csr", "indices", np.full(10, 0.5)), "indices of float64"),
    "csr, few values": (lambda: _with("csr", "data", np.ones(3)), "10 indices and 3 values"),
    "csc, beyond": (lambda: _changed("csc", "indices", 0, 10**6), "CSC of shape .* to 1000000"),
    "csc, falls": (lambda: _changed("csc", "indptr", 3, 10**6), "falls in between"),
    "bsr, beyond": (lambda: _changed("bsr", "indices", 0, 3), "to 3, where 0 to 2 are possible"),
    "bsr, falls": (lambda: _changed("bsr", "indptr", 1, 10**6), "falls in between"),
    "coo, row": (lambda: _changed("coo", "row", 0, 10**6), "rows from 0 to 1000000"),
    "coo, column": (lambda: _changed("coo", "col", 0, -1), "columns from -1 to 5"),
    "coo, few values": (lambda: _with("coo", "data", np.ones(3)), "10 rows .* for 3 values"),
    "dia, few offsets": (lambda: _with("dia", "offsets", np.array([0])), "1 offsets .* for"),
    "lil, beyond": (_lists, "(1000000|column index) exceeds"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_matrix_is_refused_with_what_is_wrong_and_what_to_do(name):
    make, told = DAMAGED[name]
    with pytest.raises(GraphError, match=rf"A graph must be .* {told}.*{ADVICE}"):
        sound_matrix(make(), "A graph", GraphError)


@pytest.mark.parametrize("format", FORMATS)
def test_a_sound_matrix_stays_as_it_is(format):
    matrix = _square(format)
    before = matrix.toarray()
    np.testing.assert_array_equal(sound_matrix(matrix, "Features").toarray(), before)
    assert matrix.format == format
    assert sound_matrix(sp.csr_array((0, 5)).asformat(format), "Features").shape == (0, 5)


def test_spare_room_behind_the_last_entry_is_no_damage():
    matrix = _square("csr")
    matrix.indices, matrix.data = (np.append(matrix.indices, 10**6), np.append(matrix.data, 1))
    assert sound_matrix(matrix, "Features") is matrix


def test_nothing_of_the_matrix_is_written_to():
    matrix = _square("csr")
    matrix.indices = matrix.indices.astype(np.int64)
    parts = _parts_of(matrix)
    sound_matrix(matrix, "Features")
    assert all(a is b for a, b in zip(parts, _parts_of(matrix), strict=True))


# --- every way in ---------------------------------------------------------------------------


def _damaged_features() -> sp.csr_array:
    X = sp.csr_array(ordinary().X)
    X.indices[0] = 10**6
    return X


def _damaged_graph() -> sp.csr_array:
    graph = ordinary().graph.copy()
    graph.indptr[3] = 10**6
    return graph


def _train(X: sp.csr_array) -> object:
    soft = np.eye(2, dtype=np.float32)[np.arange(X.shape[0]) % 2]
    return train_predictor(X, soft, StoppingNodes(np.arange(4), np.arange(4) % 2, soft))


FEATURES_IN = {
    "Dataset": lambda X: Dataset(Graph.without_edges(X.shape[0]), X, np.zeros(X.shape[0], int)),
    "knn_graph": lambda X: knn_graph(X, 3),
    "train_predictor": _train,
    "predict_probabilities": lambda X: predict_probabilities(
        {"weight1": np.ones((8, 2), np.float32), "weight2": np.ones((2, 2), np.float32)}, X
    ),
    "fit_on_cluster": lambda X: check_shared(X, X.shape[0]),
}
GRAPHS_IN = {
    "Graph": Graph,
    "as_graph": as_graph,
    "noise_rate": lambda graph: noise_rate(graph, np.zeros(graph.shape[0], int)),
    "extend_graph": lambda graph: extend_graph(Graph(ordinary().graph), graph, graph.shape[0]),
}


@pytest.mark.parametrize("name", FEATURES_IN)
def test_no_function_takes_damaged_features(name):
    with pytest.raises(InvalidInputError, match=rf"Features must be a sound .* {ADVICE}"):
        FEATURES_IN[name](_damaged_features())


@pytest.mark.parametrize("name", GRAPHS_IN)
def test_no_function_takes_a_damaged_graph(name):
    with pytest.raises(GraphError, match=rf"must be a sound .* falls .* {ADVICE}"):
        GRAPHS_IN[name](_damaged_graph())


def test_a_fitted_model_takes_no_damaged_matrix():
    given = ordinary()
    fitted = PTAClassifier(max_epochs=2, random_state=0).fit(given.X, given.y, graph=given.graph)
    for ask in (fitted.predict, fitted.predict_proba, fitted.audit):
        with pytest.raises(InvalidInputError, match="Features must be a sound"):
            ask(_damaged_features())
    for ask in (fitted.predict, fitted.predict_proba):
        with pytest.raises(GraphError, match="Edges of new nodes must be a sound"):
            ask(given.X, edges=_damaged_graph())
    with pytest.raises(GraphError, match="Edges of new nodes must be a sound"):
        fitted.find_reached(_damaged_graph())


# --- what is masked ---------------------------------------------------------------------------


def _masked(values: object) -> np.ma.MaskedArray:
    return np.ma.masked_array(
        values, mask=np.arange(np.size(values)).reshape(np.shape(values)) == 0
    )


@pytest.mark.parametrize("name", FEATURES_IN)
def test_no_function_takes_masked_features(name):
    with pytest.raises(
        InvalidInputError, match=r"Features .* 1 of 384 is masked\. Fill them .* or"
    ):
        FEATURES_IN[name](_masked(ordinary().X))


def test_a_classifier_takes_no_masked_features():
    given = ordinary()
    fitted = PTAClassifier(max_epochs=2, random_state=0)
    with pytest.raises(InvalidInputError, match="Features must have no masked entries"):
        fitted.fit(_masked(given.X), given.y)
    whole = fitted.fit(np.ma.masked_array(given.X), given.y).predict_proba()
    np.testing.assert_array_equal(whole, fitted.fit(given.X, given.y).predict_proba())
    with pytest.raises(InvalidInputError, match="Features must have no masked entries"):
        fitted.predict_proba(_masked(given.X))


@pytest.mark.parametrize(
    "make",
    [
        lambda: as_graph(np.ma.masked_equal(ordinary().graph.toarray(), 0)),
        lambda: as_graph(_masked([(0, 1), (1, 2), (2, 3)])),
        lambda: graph_from_edges([(0, 1), (1, 2)], weights=_masked([0.5, 2])),
        lambda: extend_graph(Graph(ordinary().graph), _masked([(48, 1), (48, 2)]), 1),
    ],
)
def test_no_graph_is_made_of_masked_entries(make):
    with pytest.raises(
        GraphError, match=r"must have no masked entries, but [\d,]+ of .* Fill them"
    ):
        make()


def test_a_mask_is_one_of_numpys_and_no_attribute_of_that_name():
    given = ordinary()
    features = pd.DataFrame({"_mask": given.X[:, 0], "b": given.X[:, 1]})
    fitted = PTAClassifier(max_epochs=2, random_state=0).fit(features, given.y, graph=given.graph)
    wanted = fitted.predict_proba()
    fitted.fit(features.to_numpy(), given.y, graph=given.graph)
    np.testing.assert_array_equal(fitted.predict_proba(), wanted)
    with pytest.raises(LabelError, match="must be node indices or a mask over the 48 nodes"):
        fitted.fit(given.X, given.y, stopping=pd.array([0, None]))
    with pytest.raises(LabelError, match="must be whole class codes"):
        Dataset(Graph(given.graph), given.X, pd.array([None] * 48, dtype="Int64"))


def test_masked_labels_are_hidden():
    given, truth = ordinary(), np.arange(48) % 2
    y = np.ma.masked_array(truth, mask=given.y < 0)
    fitted = PTAClassifier(max_epochs=2, random_state=0)
    wanted = fitted.fit(given.X, given.y, graph=given.graph).predict_proba()
    got = fitted.fit(given.X, y, graph=given.graph)
    np.testing.assert_array_equal(got.given_, given.y)
    np.testing.assert_array_equal(got.predict_proba(), wanted)
    with pytest.warns(UserWarning, match="column-vector"):
        assert (fitted.fit(given.X, y[:, None], graph=given.graph).given_ == given.y).all()
    assert (Dataset(Graph(given.graph), given.X, y.astype(np.uint8)).labels == given.y).all()
    with pytest.raises(LabelError, match=r"Stopping nodes .* 1 of 2 is masked"):
        fitted.fit(given.X, given.y, stopping=_masked([0, 1]))


@pytest.mark.parametrize("format", FORMATS)
def test_from_disk_every_format_is_taken(tmp_path, format):
    given = ordinary()
    save_graph(Graph(given.graph), tmp_path / "graph")

    def fitted(X: object) -> np.ndarray:
        new, how = PTAClassifier(max_epochs=2, random_state=0), {"memory": "64GB"}
        return np.array(fit_from_disk(new, tmp_path / "graph", X, given.y, **how).distributions)

    sparse = sp.csr_array(given.X)
    np.testing.assert_array_equal(fitted(sparse.asformat(format)), fitted(sparse))


FROM_A_FILE = """
import sys
import numpy as np, scipy.sparse as sp
from proptrain import PTAClassifier, as_graph
from proptrain.errors import ProptrainError

matrix = sp.load_npz(sys.argv[1])
try:
    if sys.argv[2] == "graph":
        as_graph(matrix)
    else:
        y = np.where(np.arange(30) < 12, np.arange(30) % 2, -1)
        PTAClassifier(max_epochs=3, random_state=0).fit(matrix, y, graph=[(0, 1)])
except ProptrainError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("use", ["graph", "features"])
@pytest.mark.parametrize(
    ("part", "place", "value"), [("indices", 0, 10**6), ("indptr", 3, 10**6), ("indptr", 9, 0)]
)
def test_a_damaged_file_crashes_no_process(tmp_path, use, part, place, value):
    matrix = sp.csr_array(np.triu(np.ones((30, 30)), 1))
    getattr(matrix, part)[place] = value
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    np.savez(tmp_path / "bad.npz", format=b"csr", shape=matrix.shape, **parts)
    command = [sys.executable, "-c", FROM_A_FILE, str(tmp_path / "bad.npz"), use]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "must be a sound sparse matrix" in ended.stdout
