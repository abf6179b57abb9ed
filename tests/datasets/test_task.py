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
    return Task.from_data(frame, ["no", "yes", "no", "yes"], pos_label="yes", **options)


def test_data_in_memory():
    task = made(costs={"fp": 1, "fn": 8}, groups=[1, 1, 2, 2], sample_weight=[1, 2, 0, 1], name="people")
    assert (task.name, task.classes, task.costs) == ("people", ("no", "yes"), CostMatrix(fp=1, fn=8))
    assert task.y.tolist() == [0, 1, 0, 1]
    assert task.X.index.tolist() == [0, 1, 2, 3]
    assert task.groups.tolist() == [1, 1, 2, 2]
    assert task.sample_weight.tolist() == [1.0, 2.0, 0.0, 1.0]
    assert made().costs == CostMatrix(fp=2, fn=2)


def test_tables_of_any_kind_and_images():
    for wrap in (np.asarray, pl.DataFrame, list):
        task = Task.from_data(wrap([[1.0, 2.0], [3.0, 4.0]]), [0, 1])
        assert isinstance(task.X, pd.DataFrame)
        assert task.X.shape == (2, 2)
    images = np.zeros((2, 4, 4, 3), np.uint8)
    task = Task.from_data(images, [0, 1])
    assert task.images
    assert task.X is images
    assert task.rows([1]).X.shape == (1, 4, 4, 3)
    assert made().rows([1, 3]).y.tolist() == [1, 1]  # rows of one class are a task too


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


def test_the_digest_counts_weights_only_where_there_are_any():
    images, y = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3), np.array([0, 1])
    costs = CostMatrix(fp=1, fn=8)
    plain = hashlib.sha256(costs.to_json().encode() + y.tobytes() + str(images.shape).encode() + images.tobytes())
    assert Task.from_data(images, y, costs).digest == plain.hexdigest()
    assert made(sample_weight=[1, 1, 1, 1]).digest != made().digest
    assert made(sample_weight=[1, 1, 1, 2]).digest != made(sample_weight=[1, 1, 1, 1]).digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_weight": [1, 2]}, r"one number for each of 4 samples, got shape \(2,\)"),
        ({"sample_weight": [1, 2, -1, 0]}, "finite and not negative, got -1.0 in row 3"),
        ({"sample_weight": [1, 2, 1, np.nan]}, "finite and not negative, got nan in row 4"),
        ({"groups": [1, 2]}, "X, y and groups must be equally long"),
        ({"costs": CostMatrix(fp=1, fn=np.ones(3))}, "4 rows of two classes need costs"),
    ],
)
def test_what_does_not_fit_is_explained(options, message):
    with pytest.raises(ValueError, match=message):
        made(**options)


PETS = CostMatrix.from_array([[0, 1, 2], [3, 0, 4], [5, 6, 0]], rows="predicted", classes=["dog", "cat", "ant"])


def test_more_than_two_classes_are_numbered_in_sorted_order():
    task = Task.from_data([[1.0], [2.0], [3.0], [4.0]], ["cat", "dog", "ant", "cat"], PETS)
    assert task.y.tolist() == [1, 2, 0, 1]
    assert task.classes == ("ant", "cat", "dog")
    assert task.costs == PETS.aligned(task.classes)
    assert task.rows([0, 3]).y.tolist() == [1, 1]
    balanced = Task.from_data([[1.0]] * 4, [10, 9, 100, 9], "balanced")
    assert (balanced.classes, balanced.y.tolist()) == (("9", "10", "100"), [1, 0, 2, 0])
    assert balanced.costs == CostMatrix.balanced(balanced.y, classes=["9", "10", "100"])
    unnamed = CostMatrix.from_array(1 - np.eye(3), rows="predicted")
    assert Task.from_data([[1.0]] * 3, list("abc"), unnamed).costs == unnamed
    each = CostMatrix.from_array(np.stack([1 - np.eye(3), 2 - 2 * np.eye(3), 1 - np.eye(3)]), rows="predicted")
    assert Task.from_data([[1.0]] * 3, list("abc"), each).rows([1]).costs.to_array().max() == 2


REFER = CostMatrix.from_array(
    np.vstack([1 - np.eye(3), [0.4] * 3]), rows="predicted", classes=["a", "b", "c"], actions=["a", "b", "c", "refer"]
)


@pytest.mark.parametrize(
    ("labels", "costs", "options", "message"),
    [
        ("abca", None, {}, r"3 classes \(a: 2, b: 1, c: 1\): state the costs, costs=.*a matrix with these 3 .* merge"),
        ("abca", {"fp": 1, "fn": 8}, {}, "3 classes .*, but fp and fn are costs of two: state .*a matrix with these 3"),
        ("abca", CostMatrix(fp=1, fn=8), {}, "but fp and fn are costs of two"),
        ("abca", 1 - np.eye(3), {}, r"an array of 3 x 3: state what its rows are, CostMatrix\.from_array"),
        ("0101", [[0, 8], [1, 0]], {}, r"an array of 2 x 2: state what its rows are, CostMatrix\.from_array"),
        ("abca", PETS, {}, "no column for 'a', 'b', 'c' and names 'dog', 'cat', 'ant'"),
        ("abab", PETS, {}, r"2 classes \(a: 2, b: 2\): the cost matrix has no column"),
        ("aaaa", PETS, {}, "one class only"),
        ("abca", "balanced", {"pos_label": "a"}, "pos_label='a' is for two classes, but the labels has 3: omit it"),
        ("abca", CostMatrix.from_array(1 - np.eye(4), rows="actual"), {}, "has 4 classes, but the data have 3"),
        ("abca", CostMatrix.from_array([1 - np.eye(3)] * 2, rows="actual"), {}, "4 rows of 3 classes need costs for a"),
        ("abca", REFER, {}, "a task predicts its classes, but the cost matrix has other actions"),
        (["a", " a", "b", "c"], "balanced", {}, "different labels that all read 'a'"),
        (np.arange(1001) / 7, "balanced", {}, "expected 1000 at most: numbers to predict"),
        ("abab", CostMatrix.from_array([[0, 1], [8, 0]], rows="actual", classes=["c", "b"]), {}, "no column for 'a'"),
    ],
)
def test_costs_and_classes_must_fit(labels, costs, options, message):
    with pytest.raises(DataError, match=message):
        Task.from_data([[1.0]] * len(labels), list(labels), costs, **options)


def test_a_task_of_many_classes_checks_its_parts():
    with pytest.raises(ValueError, match=r"the labels of a task are 0 and 1; got \[0, 2\]"):
        Task("made", pd.DataFrame({"a": [1, 2]}), np.array([0, 2]), CostMatrix(fp=1, fn=1))
    X, y = pd.DataFrame({"a": [1, 2, 3]}), np.array([0, 1, 2])
    with pytest.raises(ValueError, match="needs costs of two classes"):
        Task("made", X, y, PETS)
    with pytest.raises(ValueError, match="must be those of its classes"):
        Task("made", X, y, PETS, classes=("ant", "cat", "dog"))
    with pytest.raises(ValueError, match=r"labels of a task are 0 to 2; got \[0, 1, 3\]"):
        Task("made", X, np.array([0, 1, 3]), PETS, classes=("dog", "cat", "ant"))
