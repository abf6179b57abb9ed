"""A task: rows with their labels, costs, groups and weights."""

import hashlib

import numpy as np
import pandas as pd
import polars as pl
import pytest

from adacsl import CostMatrix
from adacsl.datasets import DataError, Task


def made(**options):
    frame = pd.DataFrame({"age": [30, 40, 50, 60], "job": ["a", "b", None, "a"]}, index=[7, 8, 9, 10])
    return Task.from_data(frame, ["no", "yes", "no", "yes"], positive="yes", **options)


def test_data_in_memory():
    task = made(costs={"fp": 1, "fn": 8}, groups=[1, 1, 2, 2], sample_weight=[1, 2, 0, 1], name="people")
    assert (task.name, task.classes, task.costs) == ("people", ("no", "yes"), CostMatrix(fp=1, fn=8))
    assert task.y.tolist() == [0, 1, 0, 1]
    assert task.X.index.tolist() == [0, 1, 2, 3]
    assert task.groups.tolist() == [1, 1, 2, 2]
    assert task.sample_weight.tolist() == [1.0, 2.0, 0.0, 1.0]
    assert made().costs == CostMatrix(fp=2, fn=2)


@pytest.mark.parametrize("wrap", [np.asarray, pl.DataFrame, lambda rows: rows])
def test_any_table(wrap):
    task = Task.from_data(wrap([[1.0, 2.0], [3.0, 4.0]]), [0, 1])
    assert isinstance(task.X, pd.DataFrame)
    assert task.X.shape == (2, 2)


def test_pictures_stay_bytes():
    pictures = np.zeros((2, 4, 4, 3), np.uint8)
    task = Task.from_data(pictures, [0, 1])
    assert task.images
    assert task.X is pictures
    assert task.rows([1]).X.shape == (1, 4, 4, 3)


@pytest.mark.parametrize("index", [[3, 0], np.array([False, True, True, False]), slice(1, 3)])
def test_some_rows(index):
    whole = made(costs=CostMatrix(fp=1, fn=np.array([5.0, 6.0, 7.0, 8.0])), groups=[1, 1, 2, 2], sample_weight=range(4))
    some, expected = whole.rows(index), np.arange(4)[index]
    assert some.y.tolist() == whole.y[expected].tolist()
    assert some.X["age"].tolist() == [30 + 10 * i for i in expected]
    assert some.costs.fn.tolist() == [5.0 + i for i in expected]
    assert some.groups.tolist() == whole.groups[expected].tolist()
    assert some.sample_weight.tolist() == expected.tolist()
    assert (some.classes, some.name) == (whole.classes, whole.name)


def test_rows_of_one_class_are_a_task_too():
    assert made().rows([1, 3]).y.tolist() == [1, 1]


def test_the_digest_counts_weights_only_where_there_are_any():
    pictures, y = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3), np.array([0, 1])
    costs = CostMatrix(fp=1, fn=8)
    plain = hashlib.sha256(costs.to_json().encode() + y.tobytes() + str(pictures.shape).encode() + pictures.tobytes())
    assert Task.from_data(pictures, y, costs).digest == plain.hexdigest()
    assert made(sample_weight=[1, 1, 1, 1]).digest != made().digest
    assert made(sample_weight=[1, 1, 1, 2]).digest != made(sample_weight=[1, 1, 1, 1]).digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_weight": [1, 2]}, r"one number for each of 4 rows, got shape \(2,\)"),
        ({"sample_weight": [1, 2, -1, 0]}, "finite and not negative, got -1.0 in row 3"),
        ({"sample_weight": [1, 2, 1, np.nan]}, "finite and not negative, got nan in row 4"),
        ({"groups": [1, 2]}, "X, y and groups must be equally long"),
        ({"costs": CostMatrix(fp=1, fn=np.ones(3))}, "4 rows of two classes need costs"),
    ],
)
def test_what_does_not_fit_is_said(options, message):
    with pytest.raises(ValueError, match=message):
        made(**options)


def test_labels_are_checked_at_the_door():
    with pytest.raises(DataError, match="one class only"):
        Task.from_data([[1.0], [2.0]], [1, 1])
    with pytest.raises(ValueError, match=r"the labels of a task are 0 and 1; got \[0, 2\]"):
        Task("made", pd.DataFrame({"a": [1, 2]}), np.array([0, 2]), CostMatrix(fp=1, fn=1))
