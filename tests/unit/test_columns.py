"""Columns of a table become features, and the fitted encoder can be kept."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest
import skops.io

from proptrain.data.columns import as_text, encode_columns, guess_kinds, make_encoder
from proptrain.errors import InvalidInputError, TableError

N = 40


def make_table():
    return pd.DataFrame(
        {
            "age": [30.0, None, 50.0, 40.0] * 10,
            "member": [True, False] * 20,
            "joined": pd.date_range("2020-01-01", periods=N),
            "colour": ["red", "blue", None, ""] * 10,
            "grade": pd.Categorical(["b", "a"] * 20),
            "title": ["deep learning on large graphs", "a survey of label propagation"] * 20,
            "code": [f"X{i}" for i in range(N)],
            "same": ["x"] * N,
            "empty": [None] * N,
        }
    )


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2] * 20, "numeric"),
        ([1, 1] * 20, "drop"),
        ([1.0, None] * 20, "drop"),
        (pd.array([1, None, 2, 2] * 10, dtype="Int64"), "numeric"),
        (pd.array([True, None, False, True] * 10, dtype="boolean"), "numeric"),
        ([decimal.Decimal("1.5"), decimal.Decimal(2)] * 20, "numeric"),
        ([datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)] * 20, "numeric"),
        (pd.to_timedelta(np.arange(N), unit="h"), "numeric"),
        (pd.Categorical([1, 2] * 20), "categorical"),
        (["red", "blue"] * 20, "categorical"),
        (["x", None] * 20, "categorical"),
        (["x", "x"] * 20, "drop"),
        (["", None] * 20, "drop"),
        ([f"AB{i}" for i in range(N)], "drop"),
        ([f"Ada Byron {i}" for i in range(N)], "text"),
        (["more than three words here"] * 39 + ["and some others there"], "text"),
        ([1, "red"] * 20, "categorical"),
    ],
)
def test_kinds_are_guessed(values, kind):
    assert guess_kinds(pd.DataFrame({"column": values})) == {"column": kind}


def test_many_repeated_codes_are_left_to_the_text_encoder():
    cities = [f"city{i % 1200}" for i in range(6000)]
    assert guess_kinds(pd.DataFrame({"city": cities})) == {"city": "text"}


def test_features_by_hand():
    table = pd.DataFrame({"x": [1.0, 3.0, None, 2.0], "c": ["u", "v", None, "u"]})
    encoded = encode_columns(table)
    scaled = np.array([-1, 1, 0, 0]) * np.sqrt(2)  # the gap takes the median, 2
    expected = np.column_stack([scaled, [0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 0]])
    assert encoded.features.dtype == np.float32
    assert encoded.features.format == "csr"
    np.testing.assert_allclose(encoded.features.toarray(), expected, atol=1e-6)
    assert encoded.notes == (
        "1 empty cell in column 'x' filled with the median",
        "1 empty cell in column 'c' taken as a category of their own",
    )


def test_text_rows_share_the_weight_of_shared_words():
    texts = ["graphs and more graphs", "graphs of words", "nothing in common here"]
    features = encode_columns(pd.DataFrame({"t": texts}), kinds={"t": "text"}).features
    similarity = (features @ features.T).toarray()
    np.testing.assert_allclose(similarity.diagonal(), 1, rtol=1e-5)
    assert similarity[0, 1] > 0
    assert similarity[0, 2] == similarity[1, 2] == 0


def test_what_is_done_is_noted():
    table = make_table()
    encoded = encode_columns(table)
    assert encoded.kinds == {
        "age": "numeric",
        "member": "numeric",
        "joined": "numeric",
        "colour": "categorical",
        "grade": "categorical",
        "title": "text",
        "code": "drop",
        "same": "drop",
        "empty": "drop",
    }
    assert "10 empty cells in column 'age' filled with the median" in encoded.notes
    assert "20 empty cells in column 'colour' taken as a category of their own" in encoded.notes
    assert any(note.startswith("column 'code' left out") for note in encoded.notes)
    pd.testing.assert_frame_equal(table, make_table())


def test_overrides():
    encoded = encode_columns(make_table(), kinds={"code": "categorical", "age": "drop"})
    assert (encoded.kinds["code"], encoded.kinds["age"]) == ("categorical", "drop")
    assert not any("'code'" in note or "'age'" in note for note in encoded.notes)
    numbers = encode_columns(pd.DataFrame({"n": ["1", " 2 ", ""]}), kinds={"n": "numeric"})
    assert numbers.features.shape == (3, 1)
    blank = encode_columns(pd.DataFrame({"n": [None, None]}), kinds={"n": "numeric"})
    assert blank.features.toarray().tolist() == [[0], [0]]


def test_a_fitted_encoder_is_applied_as_it_is():
    table = make_table()
    encoded = encode_columns(table)
    shuffled = table[table.columns[::-1]].iloc[5:9].assign(new="unseen")
    again = encode_columns(shuffled, encoder=encoded.encoder)
    np.testing.assert_allclose(again.features.toarray(), encoded.features[5:9].toarray())
    assert again.kinds["new"] == "drop"
    strange = encode_columns(table.assign(colour="green"), encoder=encoded.encoder)
    assert strange.features.shape == encoded.features.shape
    with pytest.raises(TableError, match="was fitted on; missing: age"):
        encode_columns(table.drop(columns="age"), encoder=encoded.encoder)
    with pytest.raises(InvalidInputError, match="'age' is 'numeric' in the fitted encoder"):
        encode_columns(table, kinds={"age": "text"}, encoder=encoded.encoder)


def test_integers_and_floats_are_the_same_categories():
    kinds = {"c": "categorical"}
    encoded = encode_columns(pd.DataFrame({"c": [1, 2, 3]}), kinds=kinds)
    again = encode_columns(pd.DataFrame({"c": [3.0, None, 1.0]}), encoder=encoded.encoder)
    assert again.features.toarray().tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    assert as_text(pd.Series([1.0, 2.5, None])).tolist() == ["1", "2.5", ""]


def test_encoder_survives_skops():
    table = make_table()
    encoded = encode_columns(table)
    saved = skops.io.dumps(encoded.encoder)
    untrusted = skops.io.get_untrusted_types(data=saved)
    assert set(untrusted) <= {"numpy.dtype"}
    loaded = skops.io.loads(saved, trusted=untrusted)
    again = encode_columns(table, encoder=loaded)
    np.testing.assert_array_equal(again.features.toarray(), encoded.features.toarray())


def test_encoder_has_a_part_for_each_text_column():
    kinds = {"a": "text", "b": "numeric", "c": "text", "d": "drop"}
    assert [part for part, *_ in make_encoder(kinds).transformers] == [
        "numeric",
        "text a",
        "text c",
    ]


@pytest.mark.parametrize(
    ("table", "kinds", "message"),
    [
        ({"x": [1, 2]}, {"x": "number"}, "one of numeric, categorical, text, drop; got 'number'"),
        ({"x": [1, 2]}, {"y": "text"}, "a column 'y' that is not among the feature columns: x"),
        ({"x": [1, 2, np.inf]}, None, "column 'x' holds inf in row 3"),
        ({"x": [1, 1e300]}, None, "column 'x' holds 1e.300 in row 2"),
        ({"x": ["1", "two"]}, {"x": "numeric"}, "column 'x' holds 'two' in row 2"),
        ({"x": [[1], [2, 3]]}, None, "column 'x' holds lists.*columns of their own"),
        ({"x": [[1], [2, 3]]}, {"x": "text"}, "column 'x' holds lists"),
        ({"x": [1, 1]}, None, "at least one column to learn from.*none is left"),
        ({}, None, "at least one column"),
        ({"x": ["?", "!"]}, {"x": "text"}, "must hold words"),
    ],
)
def test_refusals(table, kinds, message):
    with pytest.raises(TableError, match=message):
        encode_columns(pd.DataFrame(table), kinds=kinds)


def test_a_dropped_column_may_hold_anything():
    table = pd.DataFrame({"x": [[1], [2]], "y": [1, 2]})
    assert encode_columns(table, kinds={"x": "drop"}).features.shape == (2, 1)
