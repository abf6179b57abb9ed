"""Costs that are unknown at prediction time: learned from training samples, never used to decide."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression

import adacsl
from adacsl import CostMatrix, CostModel, CostSensitiveClassifier, Task, compare
from adacsl.estimators.cost_model import learn_costs
from adacsl.fitting.rows import Rows, with_times
from tests.made import logistic

FP = 3.0
QUICK = HistGradientBoostingRegressor(loss="poisson", max_iter=25)


class Drawn:
    """Rows whose probability and mean cost are known."""

    def __init__(self, n: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
        self.p = 1.0 / (1.0 + np.exp(1.5 - 1.2 * self.X["a"].to_numpy()))
        self.y = (rng.uniform(size=n) < self.p).astype(int)
        self.mean = np.exp(1.5 + self.X["b"].to_numpy())
        self.amount = self.mean * rng.gamma(3.0, 1.0 / 3.0, n)
        self.table = self.X.assign(amount=self.amount)

    def true_cost(self, decided: np.ndarray) -> float:
        """Return what decisions cost by the distribution that drew the samples."""
        return float(np.mean(np.where(np.asarray(decided) == 1, (1.0 - self.p) * FP, self.p * self.mean)))

    def cost(self, decided: np.ndarray) -> float:
        return CostMatrix(fp=FP, fn=self.amount).mean(self.y, np.asarray(decided))


def plain(cost: object = None, **settings: object) -> CostSensitiveClassifier:
    cost = CostModel("amount", estimator=QUICK) if cost is None else cost
    return logistic(CostMatrix(fp=FP, fn=cost), **settings)


@pytest.fixture(scope="module")
def train() -> Drawn:
    return Drawn(2000)


@pytest.fixture(scope="module")
def test() -> Drawn:
    return Drawn(4000, 1)


@pytest.fixture(scope="module")
def fitted(train: Drawn) -> CostSensitiveClassifier:
    return plain().fit(train.table, train.y)


def test_decisions_are_near_those_by_the_true_mean(fitted, test):
    best, blind = (
        test.true_cost(CostMatrix(fp=FP, fn=fn).decide(test.p)) for fn in (test.mean, float(test.mean.mean()))
    )
    result = test.true_cost(fitted.predict(test.X))
    assert best <= result < best * 1.03
    assert result < blind - 0.8 * (blind - best)


def test_the_cost_is_not_a_feature_and_may_be_there_or_not(fitted, test):
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    decided = fitted.predict(test.X)
    assert np.array_equal(fitted.predict(test.table), decided)
    assert np.array_equal(fitted.predict(test.table.assign(amount=0.0)), decided)
    assert np.array_equal(fitted.predict(pl.from_pandas(test.table)), decided)
    assert np.array_equal(fitted.predict_proba(test.table), fitted.predict_proba(test.X))


def test_the_estimate_is_unbiased(fitted, test, train):
    assert fitted.estimated_cost_.low < test.cost(fitted.predict(test.X)) < fitted.estimated_cost_.high
    # costs that are known at prediction time would save more: an estimate that used them would be too low
    known = plain("amount").fit(train.table, train.y)
    assert known.estimated_cost_.estimate < fitted.estimated_cost_.estimate


def test_score_pays_what_was_observed(fitted, test):
    decided = fitted.predict(test.X)
    assert fitted.score(test.table, test.y) == pytest.approx(-test.cost(decided))
    predicted = fitted.cost_spec_.of(test.X)
    assert fitted.score(test.X, test.y) == pytest.approx(-predicted.mean(test.y, decided))


def test_costs_of_positives_alone_are_enough(train, test):
    only = train.table.assign(amount=np.where(train.y == 1, train.amount, np.nan))
    model = plain().fit(only, train.y)
    assert test.true_cost(model.predict(test.X)) < 1.05 * test.true_cost(CostMatrix(fp=FP, fn=test.mean).decide(test.p))
    shuffled = np.where(train.y == 1, train.amount, 1e6 * train.amount)  # a cost that negatives never have
    assert np.isfinite(plain().fit(train.table.assign(amount=shuffled), train.y).estimated_cost_.estimate)


def test_an_array_of_costs_will_do(train, test, fitted):
    model = plain(1.0).set_params(costs=CostMatrix(fp=FP, fn=1))
    model.fit(train.X.to_numpy(), train.y, fn=CostModel(train.amount, estimator=QUICK))
    assert np.array_equal(model.predict(test.X.to_numpy()), fitted.predict(test.X))


@pytest.mark.parametrize("settings", [{}, {"loss": "instance-weighted"}, {"decide": "tuned"}, {"cv": 3}], ids=str)
def test_a_loaded_model_decides_alike_to_the_last_bit(train, test, tmp_path, settings):
    model = plain(**settings).fit(train.table[:600], train.y[:600])
    model.save(tmp_path / "model")
    again = adacsl.load(tmp_path / "model")
    assert np.array_equal(again.predict(test.X), model.predict(test.X))
    assert np.array_equal(again.cost_spec_.of(test.X).fn, model.cost_spec_.of(test.X).fn)
    assert again.cost_spec_ == model.cost_spec_
    assert not model.cost_spec_.learns
    assert model.costs == CostMatrix(fp=FP, fn=CostModel("amount", estimator=QUICK))  # not fitted
    assert clone(model).costs.learns
    assert again.costs.learns  # another fit learns them again
    assert again.costs.hidden == ("amount",)
    assert b"pickle" not in b"".join(path.read_bytes() for path in (tmp_path / "model").iterdir())


def test_samples_with_times_predict_costs_from_the_past_alone(train):
    days = np.arange(len(train.y))
    spec = CostMatrix(fp=FP, fn=CostModel("amount", estimator=QUICK))
    rows = with_times(Rows(train.X, train.y, days), days, None, None)
    *earlier, last = [test for _, test in rows.folds(5, None, 0)]
    changed = train.table.assign(amount=np.where(days < last.min(), train.amount, 3.0 * train.amount))
    one, other = (
        np.asarray(learn_costs(spec, spec.of(table), rows, table, 0).costs.deciding.fn)
        for table in (train.table, changed)
    )
    # up to the one factor that makes all predictions right in the mean
    ratio = (other / one)[np.concatenate(earlier)]
    assert len(ratio) > 500
    assert np.ptp(ratio) < 1e-9
    assert np.ptp((other / one)[days < 500]) > 1e-3  # these only train


def test_tuned_and_many_classes(train):
    rng = np.random.default_rng(0)
    labels = np.where(train.y == 1, rng.integers(1, 3, len(train.y)), 0)[:900]
    fn = CostModel("amount", estimator=QUICK)
    costs = CostMatrix.from_array([[0, fn, 5], [FP, 0, 5], [FP, 2, 0]], rows="predicted", classes=[0, 1, 2])
    model = logistic(costs, decide="tuned")
    model.fit(train.table[:900], labels)
    proba = model.predict_proba(train.X[:50])
    predicted = model.cost_spec_.of(train.X[:50])
    assert np.array_equal(model.predict(train.X[:50]), predicted.decide(proba))


# tasks and comparisons


def test_tasks_leave_the_cost_out(train):
    partial = train.table.assign(amount=np.where(train.y == 1, train.amount, np.nan))
    task = Task.from_data(partial, train.y, {"fp": FP, "fn": "model(amount)"})
    assert list(task.X.columns) == ["a", "b", "c"]
    assert np.array_equal(np.asarray(task.costs.fn)[train.y == 1], train.amount[train.y == 1])
    assert task.cost_spec.learns
    with pytest.warns(UserWarning, match="leaks the label"):
        known = Task.from_data(train.X, train.y, CostMatrix(fp=FP, fn=np.asarray(task.costs.fn)))
    assert task.digest != known.digest
    part = task.rows(slice(100, 300)).cost_spec.of(partial[100:300])
    assert np.array_equal(np.asarray(part.fn)[train.y[100:300] == 1], train.amount[100:300][train.y[100:300] == 1])


def test_comparisons_learn_costs_from_training_samples(train):
    data = Drawn(1500, 3)
    methods = {"plain": CostSensitiveClassifier(learner=LogisticRegression())}
    costs = CostMatrix(fp=FP, fn=CostModel("amount", estimator=QUICK))
    run = {"repeats": 1, "folds": 2, "n_jobs": 1, "progress": False}
    result = compare(data.table, data.y, costs, methods=methods, **run)
    outcome = result.outcome("plain")
    rows = np.concatenate([split.test_rows for split in result.splits.values()])
    assert np.array_equal(outcome.costs.fn, data.amount[rows])
    predicted = np.asarray(outcome.costs.deciding.fn)
    assert np.array_equal(outcome.decisions, CostMatrix(fp=FP, fn=predicted).decide(outcome.scores.astype(float)))
    # costs of test samples are not used: others are predicted alike
    other, first = data.table.copy(), outcome.seeds == 0
    other.loc[rows[first], "amount"] = 1.0
    again = compare(other, data.y, costs, methods=methods, **run).outcome("plain")
    assert np.array_equal((np.asarray(again.costs.deciding.fn) > 1)[first], (predicted > 1)[first])
    assert np.array_equal(again.decisions[first], outcome.decisions[first])
    assert "predicted for each sample" in str(result.facts["data"])


def test_other_ratios_scale_both():
    data = Drawn(600, 4)
    methods = {"plain": CostSensitiveClassifier(learner=LogisticRegression())}
    costs = CostMatrix(fp=FP, fn=CostModel("amount", estimator=QUICK))
    result = compare(
        data.table, data.y, costs, methods=methods, ratios=["1x", "3x"], repeats=1, folds=2, n_jobs=1, progress=False
    )
    one, three = (result.outcome("plain", ratio=ratio).costs for ratio in sorted(result.results["ratio"].unique()))
    assert np.allclose(three.fn, 3.0 * np.asarray(one.fn), rtol=1e-4)
    assert np.allclose(three.deciding.fn, 3.0 * np.asarray(one.deciding.fn), rtol=1e-4)


@pytest.mark.parametrize("names", ["abc", ["a", ["b", "b"], "c"], [None, "b", "c"], {"a": 1}])
def test_names_of_columns_in_a_saved_model_are_texts(fitted, names):
    document = fitted.cost_spec_.to_dict()["costs"][0][1]
    CostModel.from_dict(document)
    with pytest.raises(ValueError, match="names of columns are texts"):
        CostModel.from_dict(document | {"fitted": document["fitted"] | {"names": names}})
