"""Labels of any kind become codes in the order of their names."""

import numpy as np
import pandas as pd
import pytest
import torch

from proptrain.data.labels import check_classes, encode_labels
from proptrain.errors import LabelError


@pytest.mark.parametrize(
    ("values", "codes", "names"),
    [
        (["b", "a", "b"], [1, 0, 1], ("a", "b")),
        (["b", None, "", "  ", "a", np.nan, pd.NA], [1, -1, -1, -1, 0, -1, -1], ("a", "b")),
        ([10, -1, -7, 2], [2, -1, 0, 1], (-7, 2, 10)),
        ([2.0, -1.0, 10.0, float("nan")], [0, -1, 1, -1], (2, 10)),
        ([0.5, 1.0], [0, 1], (0.5, 1)),
        ([1.0, 0.5, "b"], [1, 0, 2], (0.5, 1, "b")),
        ([True, False, None], [1, 0, -1], (False, True)),
        (np.array([3, 3, -1, 100]), [0, 0, -1, 1], (3, 100)),
        (np.array(["x", "", "a"]), [1, -1, 0], ("a", "x")),
        (np.array([True, False]), [1, 0], (False, True)),
        (pd.Series(["b", "a", None], dtype="string"), [1, 0, -1], ("a", "b")),
        (pd.Series([5, None, -1], dtype="Int64"), [0, -1, -1], (5,)),
        (pd.Series([True, None], dtype="boolean"), [0, -1], (True,)),
        (pd.Categorical(["z", None, "b"], categories=["z", "b", "unused"]), [1, -1, 0], ("b", "z")),
        (pd.Series(["u", "v"], index=[7, 3]), [0, 1], ("u", "v")),
        (pd.Index([4, 2]), [1, 0], (2, 4)),
        (["-1", "1"], [-1, 0], ("1",)),
        (np.array(["a", -1, "b"]), [0, -1, 1], ("a", "b")),
        ([2, "10", "b"], [1, 0, 2], ("10", 2, "b")),
        ([2**60 + 1, None, 2**60], [1, -1, 0], (2**60, 2**60 + 1)),
        (np.ma.masked_array([7, 5, 6], mask=[True, False, False]), [-1, 0, 1], (5, 6)),
        (np.ma.masked_array(["b", "a", "c"], mask=[0, 0, 1]), [1, 0, -1], ("a", "b")),
        (np.ma.masked_array([0.5, 1.5, 2.5], mask=[0, 1, 0]), [0, -1, 1], (0.5, 2.5)),
        (np.ma.masked_array([3, 4]), [0, 1], (3, 4)),
        (torch.tensor([2.0, 1.0], requires_grad=True), [1, 0], (1, 2)),
        ([], [], ()),
    ],
)
def test_codes_follow_the_sorted_names(values, codes, names):
    got_codes, got_names = encode_labels(values)
    assert got_codes.tolist() == codes
    assert got_codes.dtype == np.int64
    assert got_names == names
    assert [type(name) for name in got_names] == [type(name) for name in names]


def test_another_marker():
    assert encode_labels(["?", "a", "-1"], unlabelled="?")[1] == ("-1", "a")
    codes, names = encode_labels([0, -1, 5], unlabelled=0)
    assert codes.tolist() == [-1, 0, 1]
    assert names == (-1, 5)


def test_the_marker_zero_leaves_false_alone():
    assert encode_labels(np.array([False, True]), unlabelled=0)[1] == (False, True)


def test_names_bring_the_labels_back():
    labels = np.random.RandomState(0).choice(["cat", "dog", "eel"], 200)
    codes, names = encode_labels(labels)
    assert (np.array(names)[codes] == labels).all()


def test_input_stays_unchanged():
    labels = np.array([3.0, -1.0, np.nan])
    before = labels.copy()
    encode_labels(labels)
    np.testing.assert_array_equal(labels, before)


@pytest.mark.parametrize(
    "values", [np.zeros((3, 1)), np.array(1), "spam", 3, pd.DataFrame({"a": [1]})]
)
def test_labels_must_have_one_dimension(values):
    with pytest.raises(LabelError, match=r"one entry for each node.*y\.ravel\(\)"):
        encode_labels(values)


def test_one_hot_rows_are_refused():
    with pytest.raises(LabelError, match=r"one value for each node.*argmax"):
        encode_labels([[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1, "1", 2], r"there are 1 \(int\) and '1' \(str\)"),
        (["a", "True", True], r"there are 'True' \(str\) and True \(bool\)"),
        (np.array(["0.5", 0.5, None], dtype=object), r"there are '0.5' \(str\) and 0.5 \(float\)"),
    ],
)
def test_classes_of_the_same_text_are_refused(values, told):
    with pytest.raises(LabelError, match=rf"must differ as text, but {told}.*write it in one way"):
        encode_labels(values)
    assert encode_labels([-1, "-1", "a"])[1] == ("a",)  # markers are no classes


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
@pytest.mark.parametrize(
    "wrap", [np.asarray, pd.Series, pd.Index], ids=["array", "column", "index"]
)
def test_dates_are_refused_whatever_their_unit(unit, wrap):
    dates = wrap(np.array(["2020-01-01", "NaT", "2021-05-04"], dtype=f"M8[{unit}]"))
    with pytest.raises(
        LabelError, match=r"whole numbers of 64 bits, got dates or times \(datetime"
    ):
        encode_labels(dates)
    with pytest.raises(LabelError, match=r"got dates or times \(timedelta64"):
        encode_labels(np.array([1, 2], dtype="m8[s]"))


def test_a_character_that_numpy_drops_must_not_make_two_classes_one():
    with pytest.raises(
        LabelError, match=r"must not end with the character 0, .* there is 'a\\x00'"
    ):
        encode_labels(["a\0", "a", None])
    assert encode_labels(["a\0b", "a"])[1] == ("a", "a\0b")


def test_there_must_be_two_classes():
    with pytest.raises(LabelError, match="No node has a label"):
        check_classes(())
    with pytest.raises(LabelError, match="at least two classes, got one: 'spam'"):
        check_classes(("spam",))
    check_classes(("ham", "spam"))
