"""What columns are worth to the method to take: on rows that did not train it, within a time."""

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from adacsl import CostMatrix, CostSensitiveClassifier, Task
from adacsl.comparison.compare import compare_tasks
from adacsl.comparison.importance import drivers

BAYES = ("bayes", CostSensitiveClassifier(learner=GaussianNB()))
QUICK = {"repeats": 1, "folds": 3, "n_jobs": 1, "progress": False}


def table(n=240, classes=2, **more):
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    X = pd.DataFrame({"told": y + rng.normal(0, 0.5, n), "noise": rng.normal(size=n)})
    return X, np.asarray([f"class {k}" for k in range(classes)])[y], y


@pytest.mark.parametrize("amounts", [False, True], ids=["class-wide", "row costs"])
def test_drivers_are_those_of_a_model_that_did_not_see_the_samples(amounts):
    X, y, _ = table()
    fn = np.linspace(2, 10, len(y)) if amounts else 5.0
    task = Task.from_data(X, y, CostMatrix(fp=1, fn=fn), pos_label="class 1")
    result = compare_tasks(task, methods=[BAYES], **QUICK)
    worth = drivers(result, task)
    tested = result.splits["data", 0].test_rows
    rest = np.setdiff1d(np.arange(len(y)), tested)
    costs = CostMatrix(fp=1, fn=float(np.mean(fn)))
    model = CostSensitiveClassifier(costs, learner=GaussianNB(), pos_label="class 1", random_state=0)
    own = [{"fn": fn[rows]} if amounts else {} for rows in (rest, tested)]
    model.fit(X.iloc[rest], y[rest], **own[0])
    expected = model.permutation_cost(X.iloc[tested], y[tested], repeats=5, random_state=0, **own[1])
    pd.testing.assert_frame_equal(worth, expected)
    assert worth["column"][0] == "told"
    assert worth["low"][0] > 0


def test_with_a_time_only_the_past_trains_and_classes_may_be_many():
    X, y, _ = table()
    task = Task.from_data(X.assign(when=np.arange(len(y))), y, {"fp": 1, "fn": 5}, pos_label="class 1", time="when")
    worth = drivers(compare_tasks(task, methods=[BAYES], folds=2, repeats=1, n_jobs=1, progress=False), task)
    assert worth["column"].tolist()[0] == "told"
    X, y, _ = table(classes=3)
    many = Task.from_data(X, y, CostMatrix.from_array(1 - np.eye(3), rows="predicted"))
    assert drivers(compare_tasks(many, methods=[BAYES], **QUICK), many)["column"][0] == "told"


def test_where_time_is_short_fewer_samples_and_repeats_are_evaluated(monkeypatch):
    X, y, _ = table(900)
    task = Task.from_data(X, y, {"fp": 1, "fn": 5}, pos_label="class 1")
    result = compare_tasks(task, methods=[BAYES], **QUICK)
    clock = iter([0.0, 3.0])  # 300 rows take 3 s, five repeats of two columns 30
    monkeypatch.setattr("adacsl.comparison.importance.perf_counter", lambda: next(clock))
    worth = drivers(result, task, seconds=10.0)
    assert (worth.attrs["rows"], worth.attrs["repeats"]) == (
        200,
        2,
    )  # 10 s are worth 1,000 rows in all: 200 x 2 x 2, and a few more
    assert drivers(result, task, seconds=0.0) is None


def test_nothing_is_reported_about_constants_and_figures():
    X, y, numbers = table()
    task = Task.from_data(X, y, {"fp": 1, "fn": 5}, pos_label="class 1")
    assert drivers(compare_tasks(task, methods=["always-positive"], **QUICK), task) is None
    pictures = Task.from_data(np.zeros((len(y), 2, 2, 3), dtype=np.uint8), numbers, {"fp": 1, "fn": 5})
    assert drivers(compare_tasks(pictures, methods=["always-positive"], **QUICK), pictures) is None
