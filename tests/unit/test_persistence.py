"""Models in folders: the same bits come back, nothing is pickled, every change is noticed."""

from __future__ import annotations

import json
import pickle
import resource
import shutil
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import skops.io
from safetensors.numpy import load, save

import proptrain
from proptrain import (
    PPR,
    CorrectAndSmoothClassifier,
    Exact,
    GNNClassifier,
    Heat,
    LabelPropagationClassifier,
    Mean,
    Power,
    PTAClassifier,
    PTAPlusClassifier,
    static,
)
from proptrain.data.columns import encode_columns
from proptrain.errors import (
    FileFormatError,
    InvalidInputError,
    OutputExistsError,
    UnreadableFileError,
    UnwritableOutputError,
)
from proptrain.saving import persistence as files
from proptrain.saving.persistence import load_model, save_model

EDGES = [(0, 2), (0, 4), (1, 3), (1, 5), (4, 6), (5, 7)]
X = np.random.RandomState(0).rand(8, 5) + 2 * np.eye(8, 5)
CODES = [0, 1, -1, -1, 0, 1, -1, -1]
NEW, NEW_EDGES = X[:2] + 0.5, [(8, 0), (9, 1)]


def pta(**settings):
    return PTAClassifier(**{"max_epochs": 12, "n_hidden": 4, "random_state": 3, **settings})


def lp(**settings):
    return LabelPropagationClassifier(**settings)


def gnn(architecture="APPNP", **settings):
    return GNNClassifier(
        architecture=architecture,
        **{"max_epochs": 12, "n_hidden": 4, "random_state": 3, **settings},
    )


def dagnn():
    return gnn("DAGNN", steps=2)


def smooth(**settings):
    return CorrectAndSmoothClassifier(
        **{"max_epochs": 12, "n_hidden": 4, "random_state": 3, **settings}
    )


def fitted(clf=None, names=(0, 1), features=X, graph=EDGES):
    y = [None if code < 0 else names[code] for code in CODES]
    return (clf or pta()).fit(features, y, graph=graph)


def encoder_and_table():
    table = pd.DataFrame(
        {
            "age": [1.5, 2.0, np.nan, 4.0, 5.0, 6.0, 7.0, 8.0],
            "colour": ["red", "blue"] * 4,
            "words": [f"one two three four w{i}" for i in range(8)],
        }
    )
    return encode_columns(table).encoder, table


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def save_all(folder, **given):
    """A model with every file there can be."""
    encoder, _ = encoder_and_table()
    settings = {"node_ids": np.array([f"n{i}" for i in range(8)]), "table": {"id": "id"}}
    save_model(folder, fitted(names=("ham", "spam")), encoder=encoder, **settings, **given)


def assert_same(loaded, original, new=NEW):
    assert type(loaded) is type(original)
    for name in ("classes_", "label_distributions_", "transduction_", "reached_", "given_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(original, name), strict=True)
    np.testing.assert_array_equal(loaded.stopping_, original.stopping_, strict=True)
    np.testing.assert_array_equal(loaded.predict(), original.predict(), strict=True)
    np.testing.assert_array_equal(
        loaded.graph_.adjacency.toarray(), original.graph_.adjacency.toarray(), strict=True
    )
    assert loaded.get_params() == original.get_params()
    for edges in [NEW_EDGES] if new is None else [None, NEW_EDGES]:
        np.testing.assert_array_equal(
            loaded.predict_proba(new, edges=edges), original.predict_proba(new, edges=edges)
        )


# --- there and back ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scheme", [None, PPR(0.3, 4), Power(3), Mean(2), Heat(1.5, 4), Exact(0.4, 0.01)], ids=str
)
@pytest.mark.parametrize("make", [pta, lp])
def test_a_model_comes_back_bit_by_bit(tmp_path, make, scheme):
    original = fitted(make(scheme=scheme, normalisation="row", clamp=False))
    original.save(tmp_path / "model")
    loaded = type(original).load(tmp_path / "model")
    assert_same(loaded, original)
    assert loaded.n_features_in_ == 5
    if make is pta:
        assert loaded.history_ == original.history_
        assert (loaded.n_iter_, loaded.best_epoch_) == (original.n_iter_, original.best_epoch_)
        assert loaded.weights_.keys() == original.weights_.keys()
        for name in ("soft_labels_", "probabilities_"):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(original, name))


@pytest.mark.parametrize("layout", [np.array, sp.csr_array])
@pytest.mark.parametrize(
    "clf",
    [
        *map(gnn, ("MLP", "GCN", "SGCN", "DAGNN", "PPNP")),
        gnn("APPNP", ensemble=False, edge_dropout=0.5, steps=3, normalisation="row"),
        smooth(steps=3),
        PTAPlusClassifier(n_networks=2, max_epochs=12, n_hidden=4, random_state=3),
    ],
    ids=lambda clf: getattr(clf, "architecture", type(clf).__name__),
)
def test_every_other_trained_model_comes_back_too(tmp_path, clf, layout):
    original = fitted(clf, names=("ham", "spam"), features=layout(X))
    original.save(tmp_path / "model")
    loaded = type(original).load(tmp_path / "model")
    assert_same(loaded, original, new=layout(NEW))
    assert loaded.history_ == original.history_
    assert (loaded.n_iter_, loaded.best_epoch_) == (original.n_iter_, original.best_epoch_)
    assert vars(loaded).keys() == vars(original).keys()
    with pytest.warns(UserWarning, match="features of the fitted nodes"):
        loaded.predict(layout(X))


@pytest.mark.parametrize(
    ("clf", "name"), [(pta(), "equal_hops"), (gnn(), "device"), (smooth(), "device")]
)
def test_a_model_from_before_a_parameter_existed(tmp_path, clf, name):
    original = fitted(clf)
    original.save(tmp_path / "model")
    reseal(tmp_path / "model", lambda d: d["parameters"].pop(name))
    assert_same(type(clf).load(tmp_path / "model"), original)


def test_equal_hops_are_kept(tmp_path):
    original = fitted(pta(equal_hops=1))
    original.save(tmp_path / "model")
    loaded = PTAClassifier.load(tmp_path / "model")
    assert_same(loaded, original)
    np.testing.assert_array_equal(
        loaded.find_reached([(8, 0), (9, 8)]), original.find_reached([(8, 0), (9, 8)])
    )


@pytest.mark.parametrize(
    ("clf", "changed"),
    [
        (pta(), {"n_hidden": 5}),
        (smooth(), {"n_hidden": 5}),
        (gnn("GCN"), {"architecture": "MLP", "n_hidden": 5}),
        (gnn("APPNP"), {"architecture": "SGCN"}),
        (gnn("APPNP"), {"architecture": "DAGNN"}),
    ],
)
def test_parameters_changed_after_the_fit_make_no_model(tmp_path, clf, changed):
    original = fitted(clf).set_params(**changed)
    message = "these make another network than the one that was trained. Fit it again first"
    with pytest.raises(InvalidInputError, match=message):
        original.save(tmp_path / "model")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "class_names",
    [
        ("ham", "spam"),
        ("Größe: \U0001f40d", "a\nb"),
        (-5, 300),
        (2**60, 2**60 + 1),
        (False, True),
    ],
)
def test_classes_keep_value_and_type(tmp_path, class_names):
    original = fitted(names=class_names)
    original.save(tmp_path / "model")
    loaded = PTAClassifier.load(tmp_path / "model")
    assert loaded.classes_.tolist() == list(class_names)
    assert_same(loaded, original)


def test_float_classes_keep_their_type(tmp_path):
    y = np.array([2.0, 4.0, np.nan, np.nan, 2.0, 4.0, np.nan, np.nan])
    original = pta().fit(X, y, graph=EDGES)
    original.save(tmp_path / "model")
    loaded = PTAClassifier.load(tmp_path / "model")
    assert loaded.classes_.dtype == np.float64
    assert_same(loaded, original)


@pytest.mark.parametrize("layout", [np.array, sp.csr_array])
@pytest.mark.parametrize("graph", [EDGES, None, "knn"])
def test_features_of_either_kind_and_graphs_of_any(tmp_path, layout, graph):
    for place, clf in enumerate((pta(), pta(stopping_fraction=0), lp(n_neighbors=2))):
        if graph is None and place == 2:
            continue
        original = fitted(clf, features=layout(X), graph=graph)
        original.save(tmp_path / f"{place}")
        assert_same(type(clf).load(tmp_path / f"{place}"), original, new=layout(NEW))


def test_label_propagation_without_features(tmp_path):
    original = fitted(lp(), features=None)
    original.save(tmp_path / "model")
    loaded = LabelPropagationClassifier.load(tmp_path / "model")
    assert loaded.features_ is None
    assert_same(loaded, original, new=None)
    with pytest.raises(InvalidInputError, match="fitted without features"):
        loaded.predict(NEW)


def test_names_of_features_are_kept_and_checked(tmp_path):
    table = pd.DataFrame(X, columns=list("abcde"))
    original = fitted(features=table)
    original.save(tmp_path / "model")
    loaded = PTAClassifier.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == list("abcde")
    np.testing.assert_array_equal(
        loaded.predict_proba(table[:3]), original.predict_proba(table[:3])
    )
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(table[:3].rename(columns={"a": "z"}))


@pytest.mark.parametrize(
    "node_ids",
    [
        np.arange(8) + 2**53 + 1,
        np.arange(8, dtype=np.uint64) + np.uint64(2**63),
        np.array([f"paper-{i:03}" for i in range(8)]),
        np.array(["a", 7, 2**70, "7", 0.5, "é", True, ""], dtype=object),
        np.linspace(0.1, 0.7, 8),
    ],
    ids=["int64", "uint64", "text", "mixed", "float"],
)
def test_node_ids_come_back_exactly(tmp_path, node_ids):
    save_model(tmp_path / "model", fitted(), node_ids=node_ids, table={"id": "x", "n": [1]})
    saved = load_model(tmp_path / "model")
    np.testing.assert_array_equal(saved.node_ids, node_ids, strict=True)
    assert [type(i) for i in saved.node_ids.tolist()] == [type(i) for i in node_ids.tolist()]
    assert saved.table == {"id": "x", "n": [1]}
    assert saved.encoder is None


def test_an_encoder_comes_back(tmp_path):
    save_all(tmp_path / "model")
    saved, (encoder, table) = load_model(tmp_path / "model"), encoder_and_table()
    told = encode_columns(table, encoder=saved.encoder).features
    np.testing.assert_array_equal(
        told.toarray(), encode_columns(table, encoder=encoder).features.toarray()
    )


def test_parameters_that_only_a_new_fit_would_need(tmp_path):
    settings = {"weighting": static, "random_state": np.random.RandomState(0)}
    original = fitted(pta(**settings))
    original.save(tmp_path / "a")
    loaded = PTAClassifier.load(tmp_path / "a")
    np.testing.assert_array_equal(loaded.predict_proba(NEW), original.predict_proba(NEW))
    assert loaded.random_state is None
    fitted(pta(random_state=np.int64(5), alpha=np.float32(0.25))).save(tmp_path / "b")
    again = PTAClassifier.load(tmp_path / "b")
    assert (again.random_state, again.alpha) == (5, 0.25)


def test_load_of_the_other_class_says_which(tmp_path):
    fitted().save(tmp_path / "model")
    message = "holds a PTAClassifier, not a LabelPropagationClassifier. Load it with PTAClassifier"
    with pytest.raises(InvalidInputError, match=message):
        LabelPropagationClassifier.load(tmp_path / "model")


def test_what_cannot_be_saved_is_said_and_leaves_nothing(tmp_path):
    class Twice:
        mixing = (1.0, 1.0)

    with pytest.raises(InvalidInputError, match=r"Only proptrain's own schemes.*got Twice"):
        fitted(pta(scheme=Twice())).save(tmp_path / "model")
    moments = np.array([pd.Timestamp(2020, 1, day + 1) for day in range(8)], dtype=object)
    with pytest.raises(InvalidInputError, match=r"must be text or numbers.*got Timestamp"):
        save_model(tmp_path / "model", fitted(), node_ids=moments)
    assert names(tmp_path) == []


@pytest.mark.parametrize("value", [object(), (-1, -2), [-1], {"none": -1}, np.datetime64("2020")])
def test_a_parameter_that_json_would_lose_is_named(tmp_path, value):
    original = fitted().set_params(unlabelled=value)
    message = "the parameter unlabelled must be text, a number, a boolean or None, got "
    with pytest.raises(InvalidInputError, match=message):
        original.save(tmp_path / "model")
    assert names(tmp_path) == []


def test_a_schemes_numbers_may_be_numpys(tmp_path):
    fitted(lp(scheme=PPR(np.float32(0.25), np.int64(3)))).save(tmp_path / "model")
    loaded = LabelPropagationClassifier.load(tmp_path / "model")
    assert loaded.scheme == PPR(0.25, 3)


# --- nothing pickled --------------------------------------------------------------------------


def test_the_folder_has_only_its_files_and_no_pickle(tmp_path):
    save_all(tmp_path / "model")
    folder = tmp_path / "model"
    assert names(folder) == ["arrays.safetensors", "encoder.skops", "model.json", "nodes.json"]
    parts = {path.name: path.read_bytes() for path in folder.iterdir()}
    with zipfile.ZipFile(folder / "encoder.skops") as archive:
        parts |= {name: archive.read(name) for name in archive.namelist()}
    assert "schema.json" in parts
    assert {name.rpartition(".")[2] for name in parts} <= {
        "safetensors",
        "skops",
        "json",
        "npy",
        "npz",
    }
    for name, content in parts.items():
        assert not content.startswith(b"\x80"), name
        assert b"cnumpy" not in content, name
        with pytest.raises(Exception, match=r"."):
            pickle.loads(content)
        if name.endswith(".npy"):
            assert b"'|O'" not in content[:128], name
    json.loads(parts["model.json"])
    json.loads(parts["nodes.json"])


# --- tampering --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "model"
    save_all(folder)
    return folder


@pytest.fixture
def model(whole, tmp_path):
    """A folder of one's own to spoil."""
    return shutil.copytree(whole, tmp_path / "model")


def reseal(folder, change=lambda description: None):
    """Make every checksum right again, as someone who knows how would."""
    path = folder / "model.json"
    description = json.loads(path.read_text(encoding="utf-8"))
    del description["checksum"]
    description["files"] = {
        name: files._sha256((folder / name).read_bytes()) for name in description["files"]
    }
    change(description)
    description["checksum"] = files._checksum(description)
    path.write_text(json.dumps(description), encoding="utf-8")


@pytest.mark.parametrize("name", ["arrays.safetensors", "encoder.skops", "nodes.json"])
@pytest.mark.parametrize("share", [0, 0.3, 0.6, 1])
def test_one_changed_byte_is_noticed(model, name, share):
    path = model / name
    content = bytearray(path.read_bytes())
    content[int(share * (len(content) - 1))] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=f"{name} was changed after it was written: SHA-256"):
        load_model(model)


def test_any_changed_byte_of_the_description_is_noticed(model):
    path = model / "model.json"
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 1
        if changed[place : place + 1].isspace() and content[place : place + 1].isspace():
            continue  # the same description, written another way
        path.write_bytes(changed)
        with pytest.raises(FileFormatError, match=r"model\.json (was changed|is not|has format)"):
            load_model(model)


@pytest.mark.parametrize(
    ("old", "new"), [('"alpha": 0.1', '"alpha": 0.2'), ('"spam"', '"sham"'), ("4,", "5,")]
)
def test_a_changed_number_or_name_is_noticed(model, old, new):
    path = model / "model.json"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"model\.json was changed.*checksum does not fit"):
        load_model(model)


@pytest.mark.parametrize("name", ["arrays.safetensors", "encoder.skops", "nodes.json"])
def test_a_missing_file_is_named(model, name):
    (model / name).unlink()
    with pytest.raises(UnreadableFileError, match=f"{name} belongs to the model but cannot be rea"):
        load_model(model)
    (model / name).mkdir()
    with pytest.raises(UnreadableFileError, match=f"{name} belongs to the model but cannot be rea"):
        load_model(model)


def test_arrays_of_another_model_are_noticed(model, tmp_path):
    fitted(pta(random_state=4)).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "arrays.safetensors", model)
    with pytest.raises(FileFormatError, match=r"arrays\.safetensors was changed"):
        load_model(model)


class Foreign:
    """Something that is no column encoder."""

    def __init__(self):
        self.command = "rm"


@pytest.mark.parametrize("foreign", [Foreign(), shutil.rmtree])
def test_an_encoder_with_a_foreign_type_is_not_loaded(model, foreign, monkeypatch):
    encoder, _ = encoder_and_table()
    encoder.extra = foreign
    skops.io.dump(encoder, model / "encoder.skops")
    reseal(model)
    monkeypatch.setattr(skops.io, "loads", None)  # would fail if it were called
    message = r"holds types that no column encoder has: .*(Foreign|rmtree).* It was not loaded"
    with pytest.raises(FileFormatError, match=message):
        load_model(model)


def test_a_format_of_the_future_names_the_release_to_use(model):
    def of_the_future(description):
        description |= {"format": 2, "proptrain": "9.1"}

    reseal(model, of_the_future)
    message = rf"has format 2, this proptrain \({proptrain.__version__}\) reads format 1.*9\.1"
    with pytest.raises(FileFormatError, match=message):
        load_model(model)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("arrays.safetensors", b""),
        ("arrays.safetensors", b"\x80\x04}."),
        ("encoder.skops", b"PK no zip"),
        ("nodes.json", b"{}"),
        ("nodes.json", b"\xff"),
        ("nodes.json", b'{"dtype": "O9", "values": []}'),
    ],
)
def test_files_of_another_making_with_right_hashes_are_refused(model, name, content):
    (model / name).write_bytes(content)
    reseal(model)
    with pytest.raises(FileFormatError, match=r"is no (complete proptrain model|safetensors file)"):
        load_model(model)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda d: d.pop("files"), "no complete proptrain model.*KeyError"),
        (lambda d: d.pop("table"), "no complete proptrain model"),
        (lambda d: d.update({"class": "Popen"}), "no complete proptrain model.*Popen"),
        (lambda d: d["parameters"].update(shell=True), "no complete proptrain model.*shell"),
        (lambda d: d["parameters"].update(scheme={"name": "Foo"}), "no complete proptrain model"),
        (lambda d: d["parameters"].update(scheme={"name": "PPR", "alpha": 7}), "Cannot use.*alpha"),
        (lambda d: d["files"].update({"../secret": "0"}), r"may name only .* names '\.\./secret'"),
        (lambda d: d["files"].update({"more": "0"}), "may name only .* names 'more'"),
        (lambda d: d["files"].pop("arrays.safetensors"), "no complete proptrain model"),
        (lambda d: d["numbers"].pop("n_iter_"), "no complete proptrain model.*n_iter_"),
        (lambda d: d["numbers"].update(n_iter_="12"), "n_iter_ must be a whole number, got '12'"),
        (lambda d: d["numbers"].update(best_epoch_=1.5), "best_epoch_ must be a whole .* 1.5"),
        (lambda d: d["numbers"].update(best_epoch_=True), "best_epoch_ must be a whole .* True"),
        (lambda d: d["numbers"].update(n_features_in_=4), "weight1 must be .* size 4 × 4"),
        (lambda d: d["numbers"].update(n_iter_=11), "history.train_loss must be .* size 11"),
        (lambda d: d["classes"]["values"].pop(), r"label_distributions_ .* size 8 × 1, .*\(8, 2\)"),
        (lambda d: d["classes"].update(values=[[1], [2]]), "text or numbers.* got list"),
        (lambda d: d["classes"].update(dtype="V1000000000"), "must be text or numbers, got"),
        (lambda d: d.update(feature_names=["a"]), "feature_names must be .* size 5"),
        (lambda d: d.update(table=["id"]), "table must be a JSON object or null"),
        (lambda d: d.update(table={}), "Cannot use .* table must name columns of a node table"),
        (lambda d: d["table"].update(id=5), "table must name columns of a node table"),
        (lambda d: d["table"].update(label=[]), "table must name columns of a node table"),
        (lambda d: d["table"].update(features="size"), "table must name columns of a node table"),
        (lambda d: d["table"].update(features=[1]), "table must name columns of a node table"),
    ],
)
def test_a_description_of_another_making_is_refused(model, change, match):
    reseal(model, change)
    with pytest.raises(FileFormatError, match=match):
        load_model(model)


@pytest.mark.parametrize("clf", [pta(), smooth(), gnn("GCN"), dagnn(), gnn("APPNP")])
@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda d: d["numbers"].update(n_features_in_=2**40), "size|shape"),
        (lambda d: d["numbers"].update(n_features_in_=-1), "Cannot use the model|no complete"),
        (lambda d: d["parameters"].update(n_hidden=2**50, steps=2**50), "size|whole number"),
        (lambda d: d["parameters"].update(n_hidden="4"), "no complete proptrain model"),
        (lambda d: d["numbers"].pop("best_epoch_"), "no complete proptrain model.*best_epoch_"),
    ],
)
def test_sizes_that_a_description_claims_fill_no_memory(tmp_path, clf, change, match):
    fitted(clf).save(tmp_path / "model")
    reseal(tmp_path / "model", change)
    with pytest.raises(FileFormatError, match=match):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"architecture": "GAT"}, "Cannot use the model.*architecture must be one of"),
        ({"architecture": ["GCN"]}, "Cannot use the model.*architecture must be one of"),
        ({"architecture": "MLP"}, "no complete proptrain model.*weights.weight1"),
        ({"ensemble": "no"}, "Cannot use the model.*ensemble must be True or False, got 'no'"),
        ({"alpha": 7}, "Cannot use the model.*alpha"),
        ({"steps": -3}, "Cannot use the model.*steps"),
    ],
)
def test_a_network_of_another_making_is_refused(tmp_path, change, match):
    fitted(gnn("APPNP")).save(tmp_path / "model")
    reseal(tmp_path / "model", lambda d: d["parameters"].update(change))
    with pytest.raises(FileFormatError, match=match):
        load_model(tmp_path / "model")


def test_no_name_in_the_description_becomes_an_attribute(model):
    reseal(model, lambda d: d["numbers"].update(predict=7, graph_=7, weights_=7))
    loaded = load_model(model).estimator
    assert "predict" not in vars(loaded)
    np.testing.assert_array_equal(loaded.predict_proba(NEW), fitted().predict_proba(NEW))


def test_a_claimed_length_of_text_fills_no_memory(model):
    reseal(model, lambda d: d["classes"].update(dtype="<U500000000"))
    assert load_model(model).estimator.classes_.dtype == "<U4"


def test_as_many_node_ids_as_nodes(model):
    (model / "nodes.json").write_text('{"dtype": "<i8", "values": [1, 2, 3]}')
    reseal(model)
    with pytest.raises(FileFormatError, match=r"must name each of the 8 nodes, got 3 names"):
        load_model(model)


@pytest.mark.parametrize(
    ("dtype", "ids", "match"),
    [
        (
            "<U9",
            ["a", "b", "c", "d", "e", "f", "g", "a"],
            "must differ, but 'a' is that of several",
        ),
        ("<U9", ["a", "b", "c", "d", "e", "f", "g", "a\0"], "must differ, but 'a'"),
        ("<i8", [1, 2, 3, 4, 5, 6, 7, 1], "must differ, but 1 is"),
        ("<f2", [4096, 4097, 1, 2, 3, 4, 5, 6], r"must differ, but 4096\.0"),
        ("object", [1, True, 2, 3, 4, 5, 6, 7], "must differ, but 1 is"),
        ("<U9", ["a", "b", "\ud800x", "d", "e", "f", "g", "h"], r"number 3 has half .*'\\ud800x'"),
    ],
)
def test_node_ids_of_which_two_are_one_or_no_text(model, dtype, ids, match):
    (model / "nodes.json").write_text(json.dumps({"dtype": dtype, "values": ids}))
    reseal(model)
    with pytest.raises(FileFormatError, match=f"Cannot use the model .*{match}"):
        load_model(model)


@pytest.mark.parametrize(
    ("ids", "match"),
    [
        (["a"] * 8, "must differ, but 'a'"),
        ([*"abcdefg", "\udcff"], r"half of a letter: '\\udcff'"),
        ([*"abc"], r"must name each of the 8 nodes, got an array of shape \(3,\)"),
        ([[n] for n in range(8)], r"must name each of the 8 nodes, got .* \(8, 1\)"),
        (np.array([*[[n] for n in range(7)], "a"], dtype=object), "to be saved, got list, str"),
        ([None] * 8, "must be text or numbers to be saved, got NoneType"),
    ],
)
def test_node_ids_that_could_not_be_loaded_are_not_saved(tmp_path, ids, match):
    with pytest.raises(InvalidInputError, match=match):
        save_model(tmp_path / "model", fitted(), node_ids=np.array(ids))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "table", [{"x": 1}, {}, {"id": "id", "features": "size"}, {"id": "id", "label": 1}, ["id"]]
)
def test_a_table_that_could_not_be_loaded_is_not_saved(tmp_path, table):
    with pytest.raises(InvalidInputError, match=r"table must .*\. Give None, or the like of"):
        save_model(tmp_path / "model", fitted(), table=table)
    assert not list(tmp_path.iterdir())


def test_an_encoder_that_is_none(model):
    skops.io.dump({"a": 1}, model / "encoder.skops")
    reseal(model)
    with pytest.raises(FileFormatError, match="must hold a ColumnTransformer, got dict"):
        load_model(model)


def with_nan(array):
    return np.where(np.arange(array.size).reshape(array.shape) == 1, np.nan, array)


ANY_MODEL = {
    "given_": [lambda a: a[:3], lambda a: a + 1, lambda a: a - 1, lambda a: a * 1.0],
    "stopping_": [lambda a: a + 8, lambda a: a - 9, lambda a: a[:, None], lambda a: a > 0],
    "label_distributions_": [lambda a: a[:3], lambda a: a[:, :1], with_nan, lambda a: a > 0],
    "reached_": [lambda a: a[:3], lambda a: a * 1],
    "graph.data": [lambda a: a[1:], lambda a: -a, with_nan],
    "graph.indices": [lambda a: a + 10**6, lambda a: a - 10**6, lambda a: a * 1.0],
    "graph.indptr": [lambda a: a[::-1].copy(), lambda a: a + 1, lambda a: a[:-1]],
    "graph.shape": [lambda a: a + 1, lambda a: a[:1], lambda a: a * 2**40],
}
PTA_ONLY = {"soft_labels_": [lambda a: a[:3], with_nan]}
TRAINED_ALONE = {
    "probabilities_": [lambda a: a[:3], lambda a: a.T.copy(), with_nan],
    "weights.weight1": [lambda a: a[1:], lambda a: a[:, 1:].copy(), lambda a: a[0], with_nan],
    "weights.bias1": [lambda a: a[1:], lambda a: a[None], lambda a: a > 0],
    "weights.weight2": [lambda a: a[1:], with_nan],
    "weights.bias2": [lambda a: a[1:], lambda a: a.astype(int)],
    "history.stop_loss": [lambda a: a[1:], lambda a: a > 0],
}
DAGNN_ONLY = {
    "weights.f.weight1": [lambda a: a[1:], lambda a: a[:, 1:].copy(), lambda a: a[0], with_nan],
    "weights.f.bias1": [lambda a: a[1:], lambda a: a > 0],
    "weights.gate_weight": [lambda a: a[1:], lambda a: a.T.copy(), with_nan],
    "weights.gate_bias": [lambda a: a[:0], lambda a: a[None], lambda a: a.astype(int)],
    "history.stop_loss": [lambda a: a[1:], lambda a: a > 0],
}
LP_ONLY = {"fallback_": [lambda a: a[1:], with_nan]}
DENSE = {"features": [lambda a: a[:3], lambda a: a[:, 1:].copy(), lambda a: a[0], with_nan]}
SPARSE = {
    "features.indices": [lambda a: a + 10**6, lambda a: a - 10**6, lambda a: a * 1.0],
    "features.indptr": [lambda a: a[::-1].copy(), lambda a: a * 2, lambda a: a[:3]],
    "features.shape": [lambda a: a - 1, lambda a: a + np.arange(2), lambda a: a * 1.0],
    "features.data": [lambda a: a[1:], with_nan],
}
LAYOUTS = {
    "pta": (pta, np.array, ANY_MODEL | PTA_ONLY | TRAINED_ALONE),
    "c&s": (smooth, np.array, ANY_MODEL | TRAINED_ALONE),
    "dagnn": (dagnn, np.array, ANY_MODEL | DAGNN_ONLY | DENSE),
    "sparse dagnn": (dagnn, sp.csr_array, SPARSE),
    "lp": (lp, np.array, ANY_MODEL | LP_ONLY | DENSE),
    "sparse lp": (lp, sp.csr_array, SPARSE),
}


@pytest.mark.parametrize(
    ("layout", "name", "change"),
    [
        pytest.param(layout, name, change, id=f"{layout}-{name}-{number}")
        for layout, (*_, changes) in LAYOUTS.items()
        for name, ways in changes.items()
        for number, change in enumerate([*ways, None])
    ],
)
def test_arrays_of_another_making_with_right_hashes_are_refused(tmp_path, layout, name, change):
    make, kind, _ = LAYOUTS[layout]
    y = [0, 1, -1, -1, 0, 1, -1, -1]
    make().fit(kind(X), y, graph=EDGES, stopping=[4]).save(tmp_path / "model")
    path = tmp_path / "model" / "arrays.safetensors"
    arrays = load(path.read_bytes())
    array = arrays.pop(name)
    if change is not None:
        arrays[name] = np.ascontiguousarray(change(array))
    path.write_bytes(save(arrays))
    reseal(tmp_path / "model")
    with pytest.raises(FileFormatError, match=r"Cannot use the model|no complete proptrain model"):
        load_model(tmp_path / "model")


def test_each_file_is_read_once(model, monkeypatch):
    opened, open_file = [], Path.open

    @contextmanager
    def swap_after_reading(self, mode="r", *rest, **more):
        with open_file(self, mode, *rest, **more) as file:
            yield file
        if mode == "rb":
            opened.append(self.name)
            self.write_bytes(b"swapped between the check and the use")

    monkeypatch.setattr(Path, "open", swap_after_reading)
    saved = load_model(model)
    assert sorted(opened) == ["arrays.safetensors", "encoder.skops", "model.json", "nodes.json"]
    assert saved.node_ids[0] == "n0"
    assert saved.encoder is not None


@pytest.mark.parametrize(
    "text", [r'{"checksum": "", "format": 1, "class": "\ud800"}', "[" * 10**5], ids=["text", "deep"]
)
def test_a_description_that_json_allows_and_we_do_not(model, text):
    (model / "model.json").write_text(text)
    with pytest.raises(FileFormatError, match="is not the description of a proptrain model"):
        load_model(model)


@pytest.mark.parametrize("text", ["", "[]", "7", "{}", "{", '"model"', "null", '{"checksum": 1}'])
def test_a_description_that_is_none(model, text):
    (model / "model.json").write_text(text)
    message = r"model\.json is not the description of a proptrain model. Fit and save"
    with pytest.raises(FileFormatError, match=message):
        load_model(model)


def test_what_is_no_model_folder(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    message = "is no model folder that can be read: model.json: .*Give the folder that"
    for path in ("file", "empty", "nowhere"):
        with pytest.raises(UnreadableFileError, match=f"{path} {message}"):
            load_model(tmp_path / path)
        with pytest.raises(UnreadableFileError, match=f"{path} {message}"):
            PTAClassifier.load(tmp_path / path)


# --- writing ----------------------------------------------------------------------------------


def test_an_existing_model_is_left_alone_unless_overwriting_is_asked_for(model):
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    other = fitted(lp())
    with pytest.raises(OutputExistsError, match="exists already and is left alone"):
        other.save(model)
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before
    other.save(model, overwrite=True)
    assert_same(LabelPropagationClassifier.load(model), other)
    assert names(model) == ["arrays.safetensors", "model.json"]
    assert names(model.parent) == ["model"]


def test_only_a_model_is_ever_overwritten(tmp_path):
    folder = tmp_path / "thesis"
    folder.mkdir()
    fitted().save(folder, overwrite=True)  # it was empty
    (folder / "chapter1.tex").write_text("years of work")
    message = r"Only a model may be overwritten, but .*thesis holds other files \(chapter1\.tex\)"
    with pytest.raises(OutputExistsError, match=message):
        fitted().save(folder, overwrite=True)
    assert (folder / "chapter1.tex").read_text() == "years of work"
    with pytest.raises(UnwritableOutputError, match=r"must be a folder, but .* is a file"):
        fitted().save(folder / "chapter1.tex", overwrite=True)
    with pytest.raises(UnwritableOutputError, match="Create it first"):
        fitted().save(tmp_path / "nowhere" / "model")


@pytest.mark.parametrize("n_bytes", [0, 100, 3000])
def test_a_full_disk_leaves_the_old_model_and_nothing_else(model, n_bytes):
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    assert len(before["encoder.skops"]) > n_bytes
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, limits[1]))  # no file may grow beyond
    try:
        with pytest.raises(UnwritableOutputError, match="model cannot be written: File too large"):
            save_all(model, overwrite=True)
        with pytest.raises(UnwritableOutputError, match="second cannot be written: File too large"):
            save_all(model.parent / "second")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(model.parent) == ["model"]
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before


def test_a_model_folder_that_may_not_be_listed(model, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(UnwritableOutputError, match="model cannot be written: Permission denied"):
        files.check_model_output(model, overwrite=True)
