"""What the labels are, what holds them, and in which order classes are named never changes a decision."""

import functools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import CostMatrix, Task
from adacsl.fitting.rows import read_known_labels
from adacsl.integrations.sklearn import mean_cost
from tests.made import logistic

PAIRS = {
    "text": ("good", "bad"), "text, turned": ("a", "b"), "bool": (False, True), "bool, turned": (True, False),
    "int": (0, 1), "int, turned": (1, 0), "signs": (-1, 1), "others": (7, 3), "float": (0.0, 1.0),
    "whole floats": (2.0, 1.0), "digits": ("10", "9"),
}  # fmt: skip
"""The label of class index 0, and that of 1, the positive class."""
TRIPLES = {"text": ("ash", "elm", "oak"), "int": (0, 1, 2), "others": (-5, 3, 20), "float": (1.0, 2.0, 3.0)}
"""Sorted, as class indices are."""
HOLDERS = {
    "numpy": np.asarray,
    "list": lambda labels: np.asarray(labels).tolist(),
    "objects": lambda labels: np.asarray(labels, dtype=object),
    "pandas": pd.Series,
    "pandas, by other numbers": lambda labels: pd.Series(labels, index=np.arange(len(labels))[::-1]),
    "nullable": lambda labels: pd.Series(labels).convert_dtypes(),
    "category": lambda labels: pd.Series(pd.Categorical(labels)),
    "polars": pl.Series,
    "pyarrow": pa.array,
}


@functools.cache
def made(k):
    """Return features and class indices of k classes, which the features predict roughly."""
    rng = np.random.default_rng(k)
    X = rng.normal(size=(150, 3))
    z = X.sum(axis=1) + 0.7 * rng.normal(size=150)
    return X, np.searchsorted(np.quantile(z, np.arange(1, k) / k), z)


TABLES = {2: [[0, 5], [1, 0]], 3: [[0, 5, 2], [1, 0, 7], [4, 1, 0]]}


def method(costs, pos_label=None):
    return logistic(costs, pos_label=pos_label)


@functools.cache
def expected(k):
    X, y = made(k)
    fitted = method(CostMatrix.from_array(TABLES[k], rows="predicted")).fit(X, y)
    return fitted.predict(X), fitted.predict_proba(X)


def costs_in(order, labels):
    """Return the costs of labels, whose classes are listed in another order."""
    named = CostMatrix.from_array(TABLES[len(labels)], rows="predicted", classes=labels)
    return named.aligned([labels[i] for i in order])


def check(fitted, labels, k):
    X, y = made(k)
    decided, proba = expected(k)
    assert fitted.predict(X).tolist() == np.asarray(labels)[decided].tolist()
    columns = [fitted.classes_.tolist().index(label) for label in labels]
    np.testing.assert_array_equal(fitted.predict_proba(X)[:, columns], proba)
    assert read_known_labels(fitted, np.asarray(labels)[y]).tolist() == y.tolist()
    costs = CostMatrix.from_array(TABLES[k], rows="predicted")
    assert fitted.score(X, np.asarray(labels)[y]) == -costs.mean(y, decided)


KINDS_AND_HOLDERS = [
    (kind, holder)
    for i, kind in enumerate(PAIRS)
    for j, holder in enumerate(HOLDERS)
    if (i + j) % 3 == 0 and not (holder == "pyarrow" and kind.startswith("bool"))
]


@pytest.mark.parametrize(("kind", "holder"), KINDS_AND_HOLDERS)
def test_two_classes(kind, holder):
    X, y = made(2)
    labels = PAIRS[kind]
    given_labels = HOLDERS[holder](np.asarray(labels)[y])
    check(method(CostMatrix(fp=1, fn=5), pos_label=labels[1]).fit(X, given_labels), labels, 2)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([*PAIRS.values(), *TRIPLES.values()]), st.randoms(), st.booleans())
def test_the_order_of_names_in_the_costs(labels, random, as_text):
    """The names decide which cost is whose, and of two classes the second one is positive."""
    X, y = made(len(labels))
    order = random.sample(range(len(labels)), len(labels))
    costs = costs_in(order, [str(label) for label in labels] if as_text else labels)
    positive = labels[1] if len(labels) == 2 else None
    check(method(costs, positive).fit(X, np.asarray(labels)[y]), labels, len(labels))
    if len(labels) == 2:
        listed = [labels[i] for i in order]
        fitted = method(costs).fit(X, np.asarray(labels)[y])
        assert fitted.pos_label_ == listed[1]
        assert (fitted.costs_.fn, fitted.costs_.fp) == ((5, 1) if listed[1] == labels[1] else (1, 5))


@pytest.mark.parametrize("kind", TRIPLES)
def test_three_classes_without_names_are_in_sorted_order(kind):
    X, y = made(3)
    costs = CostMatrix.from_array(TABLES[3], rows="predicted")
    check(method(costs).fit(X, np.asarray(TRIPLES[kind])[y]), TRIPLES[kind], 3)
    if kind == "text":  # numbers are positions in the sorted names
        check(method(costs_in([0, 1, 2], TRIPLES["text"])).fit(X, y), (0, 1, 2), 3)


@pytest.mark.parametrize("labels", [*PAIRS.values(), *TRIPLES.values()], ids=str)
def test_tasks_and_scores_follow_the_same_rule(labels):
    X, y = made(len(labels))
    own, decided = np.asarray(labels)[y], expected(len(labels))[0]
    costs, positive = costs_in(range(len(labels))[::-1], labels), labels[1] if len(labels) == 2 else None
    task = Task.from_data(X, own, costs, pos_label=positive)
    order = [task.classes.index(str(label).removesuffix(".0")) for label in labels]
    assert np.argsort(order)[task.y].tolist() == y.tolist()
    cost = CostMatrix.from_array(TABLES[len(labels)], rows="predicted").mean(y, decided)
    assert task.costs.mean(task.y, np.asarray(order)[decided]) == cost
    assert mean_cost(own, np.asarray(labels)[decided], costs=costs) == cost
    if len(labels) == 2:
        assert mean_cost(own, np.asarray(labels)[decided], costs=CostMatrix(fp=1, fn=5), pos_label=positive) == cost


def test_labels_of_several_kinds_are_refused():
    X, y = made(2)
    mixed = np.asarray(["good", 1], dtype=object)[y]
    with pytest.raises(ValueError, match="y mixes text and others, such as 'good' and 1: write all labels alike"):
        method(CostMatrix(fp=1, fn=5), pos_label=1).fit(X, mixed)
