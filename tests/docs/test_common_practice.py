"""benchmarks/quality/common_practice.py: peers see the folds of the comparison, and pay its costs."""

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier

from adacsl.comparison.statistics import RowCosts
from adacsl.datasets import load_dataset
from benchmarks.quality import common_practice


@pytest.fixture(scope="module")
def folds():
    """Two folds of every row, and what calling all of them positive costs."""
    y = load_dataset("german-credit").y
    rows = np.random.default_rng(0).permutation(len(y))
    return RowCosts(("always-positive",), 1.0 * (y[rows] == 0)[None], rows, np.arange(len(y)) % 2, rows)


def test_peers_pay_the_costs_of_the_data_on_rows_they_did_not_see(folds):
    task = load_dataset("german-credit")
    for constant in (0, 1):
        paid = common_practice.paid_by(
            lambda y, call=constant: DummyClassifier(strategy="constant", constant=call), task, folds
        )
        wrong = task.y[folds.rows] != constant
        np.testing.assert_array_equal(paid, np.where(wrong, 1.0 if constant else 5.0, 0.0))
    seen = []

    class Spy(DummyClassifier):
        def fit(self, X, y):
            seen.append(set(X.index))
            return super().fit(X, y)

        def predict(self, X):
            assert not seen[-1] & set(X.index)
            assert len(seen[-1] | set(X.index)) == 1000
            return super().predict(X)

    common_practice.paid_by(lambda y: Spy(), task, folds)
    assert len(seen) == 2


def test_percentages_are_of_what_is_recommended(folds):
    costs = folds.with_costs(("adacsl-cv", "half"), np.stack([folds.costs[0], 1.5 * folds.costs[0]]))
    table = pd.DataFrame(common_practice.measured(costs, "adacsl-cv")).set_index("method")
    assert table["cost"].tolist() == pytest.approx([0.7, 1.05])
    assert table.loc["half", "dearer_percent"] == pytest.approx(50.0)
    assert table.loc["half", "dearer_low"] < 50 < table.loc["half", "dearer_high"]
    assert table["recommended"].tolist() == [True, False]


def test_scikit_learn_scores_by_negative_cost():
    assert common_practice.negative_cost([0, 0, 1, 1], [1, 0, 0, 1]) == pytest.approx(-(1 + 5) / 4)
