"""Predicted costs: right in the mean, unbiased out of fold, the same after saving."""

import functools
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import PoissonRegressor, Ridge
from sklearn.metrics import d2_tweedie_score

from adacsl import CostModel
from adacsl.learners.regression import Regression, cross_fit

SHORT = HistGradientBoostingRegressor(loss="poisson", max_iter=20)


def drawn(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table with a cost that depends on numbers and a category, and its true mean."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    table["shop"] = rng.choice(["web", "city", "post"], n)
    mean = np.exp(3.0 + 0.8 * table["a"] - 0.5 * (table["b"] > 0) + 0.7 * (table["shop"] == "web")).to_numpy()
    return table.assign(amount=mean * rng.gamma(4.0, 0.25, n)), mean


@pytest.fixture(scope="module")
def fitted() -> CostModel:
    return CostModel("amount").fit(drawn(1500)[0])


def test_predicted_costs_are_near_the_true_mean_and_the_cost_itself_is_not_a_feature(fitted):
    table, mean = drawn(3000, 1)
    result = fitted.predict(table)
    assert np.mean(np.abs(np.log(result / mean))) < 0.2
    assert abs(result.mean() / mean.mean() - 1.0) < 0.05
    table, _ = drawn(200, 1)
    assert np.array_equal(fitted.predict(table), fitted.predict(table.drop(columns="amount")))
    assert np.array_equal(fitted.predict(table), fitted.predict(table.assign(amount=1e6)))
    assert fitted.columns == ()
    assert fitted.hidden == ("amount",)


@pytest.mark.parametrize(
    "estimator", [None, HistGradientBoostingRegressor(max_iter=10), PoissonRegressor(alpha=0.01), Ridge()]
)
def test_json_gives_the_same_costs_to_the_last_bit(estimator):
    table, _ = drawn(400)
    model = CostModel("2 * amount", estimator=estimator, features=["a", "shop"]).fit(table)
    again = CostModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert np.array_equal(again.predict(table), model.predict(table))
    assert again.explained_ == model.explained_
    assert again.hidden == ("amount",)


def test_what_is_no_numbers_is_not_written():
    model = CostModel("amount", estimator=RandomForestRegressor(3, random_state=0)).fit(drawn(100)[0])
    with pytest.raises(ValueError, match="RandomForestRegressor cannot be saved without pickle"):
        model.to_dict()


def test_forged_numbers_are_refused(fitted):
    arrays, about = fitted.regression_.numbers()
    for name in ("value", "order", "sizes"):
        with pytest.raises(ValueError, match="trees are not valid"):
            Regression.from_numbers({**arrays, name: arrays[name][:-1]}, about)
    for levels in ([[10**6, [1.0]]], [[-1, [1.0]]], [[0, [[1.0]]]]):
        with pytest.raises(ValueError, match="not valid: levels cannot be right"):
            Regression.from_numbers(arrays, about | {"levels": levels})


def test_predictions_out_of_fold_never_saw_the_cost():
    table, _ = drawn(300)
    features, amounts = table.drop(columns="amount"), table["amount"].to_numpy()
    everybody, rows = np.ones(300, dtype=bool), np.arange(300)
    folds = [(rows[rows % 3 != i], rows[rows % 3 == i]) for i in range(3)]
    # rows of one fold cannot move what is predicted for them, but for how many trees there are and the common factor
    one, other = (
        cross_fit(features, p, folds, use=rows, paying=everybody, estimator=SHORT)
        for p in (amounts, np.where(rows % 3 == 0, amounts[::-1], amounts))
    )
    own = rows % 3 == 0
    ratio = other.predicted[own] / one.predicted[own]
    assert np.ptp(ratio) < 1e-9
    assert np.ptp(other.predicted[~own] / one.predicted[~own]) > 0.01
    assert np.isclose(one.predicted.sum(), amounts.sum(), rtol=0.02)


def test_explained_is_the_share_of_deviance_out_of_fold():
    table, _ = drawn(500)
    amounts, rows = table["amount"].to_numpy(), np.arange(500)
    folds = [(rows[rows % 2 != i], rows[rows % 2 == i]) for i in range(2)]
    result = cross_fit(table.drop(columns="amount"), amounts, folds, use=rows, paying=rows >= 0, estimator=SHORT)
    expected = [
        d2_tweedie_score(amounts[test], clone(SHORT).set_params(categorical_features=[3]).fit(
            coded(table).iloc[train], amounts[train]).predict(coded(table).iloc[test]), power=1)
        for train, test in folds
    ]  # fmt: skip
    assert result.explained == pytest.approx(np.mean(expected), abs=0.02)


def coded(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns="amount").assign(shop=table["shop"].astype("category").cat.codes)


def test_costs_of_those_who_pay_count():
    table, mean = drawn(1000)
    features, amounts, rows = table.drop(columns="amount"), table["amount"].to_numpy(), np.arange(1000)
    folds = [(rows[rows % 3 != i], rows[rows % 3 == i]) for i in range(3)]
    learn = functools.partial(cross_fit, features, folds=folds, use=rows, estimator=SHORT)
    # false negatives cost ten times the amounts of negatives: only positives show it
    positive = rows % 4 == 0
    result = learn(np.where(positive, 10.0, 1.0) * amounts, paying=positive)
    assert abs(result.predicted[positive].mean() / (10.0 * mean[positive].mean()) - 1.0) < 0.15
    # where the label does not matter, all rows are learned from
    few = rows % 41 == 0
    pooled, lonely = learn(amounts, paying=few), learn(np.where(few, amounts, np.nan), paying=few)
    wrong = [np.mean(np.abs(np.log(f.predicted / mean))) for f in (pooled, lonely)]
    assert wrong[0] < 0.7 * wrong[1]


@pytest.mark.parametrize(("scale", "weight"), [(1e-9, 0.5), (1e9, 3.0)])
def test_currency_and_common_weight_do_not_matter(scale, weight):
    table, _ = drawn(100)
    base = CostModel("amount").fit(table).predict(table)
    other = CostModel("amount").fit(table.assign(amount=scale * table["amount"]), sample_weight=np.full(100, weight))
    assert np.allclose(other.predict(table), scale * base, rtol=1e-6)


def test_few_or_equal_costs_give_their_mean():
    table, _ = drawn(15)
    equal = CostModel("amount").fit(table.assign(amount=7.0)).predict(table)
    assert np.allclose(equal, 7.0)
    result = CostModel("amount").fit(table).predict(table)
    assert np.allclose(result, table["amount"].mean(), rtol=0.2)


def test_missing_values_are_samples_without_a_cost():
    table, _ = drawn(400)
    partial = table.assign(amount=table["amount"].where(np.arange(400) % 2 == 0))
    result = CostModel("amount").fit(partial)
    assert np.isfinite(result.predict(partial)).all()
    half = CostModel(partial["amount"].to_numpy()).fit(table.drop(columns="amount"))
    assert np.array_equal(half.predict(table.drop(columns="amount")), result.predict(table))


def test_any_table_will_do(fitted):
    table, _ = drawn(50, 2)
    assert np.array_equal(fitted.predict(pl.from_pandas(table)), fitted.predict(table))
    numbers = table[["a", "b", "c"]].to_numpy()
    result = CostModel(table["amount"]).fit(numbers)
    assert result.predict(numbers).shape == (50,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CostModel("12"), "expression over columns"),
        (lambda: CostModel(object()), "a cost is a column"),
        (lambda: CostModel("amount", estimator=3), "regressor with fit and predict"),
        (lambda: CostModel("amount").predict(drawn(20)[0]), "is not fitted yet"),
        (lambda: CostModel("amount").fit(drawn(9)[0]), "at least 10"),
        (lambda: CostModel("amount").fit(drawn(20)[0].assign(amount=0.0)), "costs of 0 or more, not all 0"),
        (lambda: CostModel("amount").fit(drawn(20)[0].assign(amount=-1.0)), "costs of 0 or more"),
        (lambda: CostModel("fee").fit(drawn(20)[0]), "column 'fee'"),
        (lambda: CostModel("amount", features=["q"]).fit(drawn(20)[0]), "no column 'q'"),
    ],
)
def test_errors_name_the_remedy(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_equal_settings_are_equal(fitted):
    assert CostModel("amount") == CostModel("amount")
    assert CostModel("amount") != CostModel("amount", cv=3)
    assert hash(fitted) == hash(CostModel("amount"))
    assert fitted != CostModel("amount")
    assert repr(CostModel("amount", cv=3, features=["a"])) == "CostModel('amount', cv=3, features=('a',))"
    forest = CostModel("amount", estimator=RandomForestRegressor(2)).fit(drawn(40)[0])
    assert CostModel("amount", estimator=forest.estimator) != forest
    assert forest != CostModel("amount")
