import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix
from adacsl.datasets.task import Task
from adacsl.experiments import learners
from adacsl.experiments.cells import Cell
from adacsl.experiments.deciding import Use
from adacsl.experiments.learners import Fit, run_constants, run_estimator
from adacsl.experiments.protocol import Protocol, make_split
from adacsl.experiments.recipes import RECIPES, Recipe


def made_task(n=400, costs=None):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    kind = rng.choice(["u", "v", "w"], n)
    y = (x[:, 0] + (kind == "u") + rng.normal(size=n) > 1.4).astype(np.int64)
    frame = pd.DataFrame(x, columns=list("abc")).assign(
        kind=kind, when=pd.date_range("2020-01-01", periods=n), flag=rng.random(n) < 0.5
    )
    frame.loc[::7, "a"] = np.nan
    frame.loc[::11, "kind"] = None
    return Task("made", frame, y, CostMatrix(fp=1, fn=8) if costs is None else costs)


def results(recipe, task, split, ratios=(8.0,), seed=0):
    uses = [Use(Cell(task.name, ratio, recipe.name, seed), recipe.decide) for ratio in ratios]
    return list(run_estimator(task, split, seed, Fit.of(recipe, ratios[0]), uses))


@pytest.mark.parametrize("name", ["gbm-bayes", "gbm-tuned", "gbm-weighted", "metacost"])
def test_test_labels_change_no_decision(name):
    task = made_task()
    split = make_split(task, Protocol(), 0)
    flipped = task.y.copy()
    flipped[split.test] = 1 - flipped[split.test]
    other = Task(task.name, task.X, flipped, task.costs)
    (one,), (two,) = (results(RECIPES[name], t, split) for t in (task, other))
    assert np.array_equal(one.decided.scores, two.decided.scores)
    assert one.decided.threshold == two.decided.threshold


def test_boosting_is_scikit_learns_with_categories_and_gaps_as_they_are():
    task = made_task()
    split = make_split(task, Protocol(), 0)
    (one,) = results(RECIPES["gbm-bayes"], task, split)
    frame = task.X.assign(
        kind=task.X["kind"].astype("category"),
        when=task.X["when"].astype("int64").astype(float),
        flag=task.X["flag"].astype(float),
    )
    rest = np.sort(np.concatenate((split.train, split.validation)))
    model = HistGradientBoostingClassifier(random_state=0, categorical_features="from_dtype")
    expected = model.fit(frame.iloc[rest], task.y[rest]).predict_proba(frame.iloc[split.test])[:, 1]
    assert one.decided.scores == pytest.approx(expected, abs=1e-6)


def test_one_boosting_serves_both_thresholds_and_all_ratios():
    fits = {Fit.of(RECIPES[name], ratio).key for name in ("gbm-bayes", "gbm-tuned") for ratio in (2.0, 8.0)}
    assert len(fits) == 1
    assert len({Fit.of(RECIPES["gbm-weighted"], ratio).key for ratio in (2.0, 8.0)}) == 2


def test_weighted_scores_are_corrected_to_the_bayes_threshold():
    task = made_task()
    split = make_split(task, Protocol(), 0)
    recipe = Recipe("logistic-weighted", learner=LogisticRegression(max_iter=500), loss="weighted")
    (one,) = results(recipe, task, split)
    from adacsl.datasets.encoding import TableEncoder

    rest = np.sort(np.concatenate((split.train, split.validation)))
    x = TableEncoder().fit(task.X.iloc[rest]).transform(task.X)
    weight = np.where(task.y[rest] == 1, 8.0, 1.0)
    model = LogisticRegression(max_iter=500).fit(x[rest], task.y[rest], sample_weight=weight / weight.mean())
    assert one.decided.threshold == pytest.approx(1 / 9)
    assert np.array_equal(one.decided.decisions, model.predict(x[split.test]) == 1)


def test_a_category_that_only_the_test_rows_have_is_a_missing_value():
    task = made_task()
    split = make_split(task, Protocol(), 0)
    frame = task.X.copy()
    frame.loc[split.test[:3], "kind"] = "never seen"
    features = learners._features(
        "boosting", Task("made", frame, task.y, task.costs), np.sort(np.concatenate(split[:2]))
    )
    assert features["kind"].iloc[split.test[:3]].isna().all()
    assert len(results(RECIPES["gbm-bayes"], Task("made", frame, task.y, task.costs), split)) == 1


def test_more_categories_than_boosting_can_take():
    n = 900
    task = Task(
        "made",
        pd.DataFrame({"id": [f"c{i}" for i in range(n)], "x": np.arange(n) % 7}),
        (np.arange(n) % 3 == 0).astype(np.int64),
        CostMatrix(fp=1, fn=2),
    )
    assert len(results(RECIPES["gbm-bayes"], task, make_split(task, Protocol(), 0), ratios=(2.0,))) == 1


def test_metacost_learns_the_cheapest_labels():
    task = made_task()
    split = make_split(task, Protocol(), 0)
    cheap, dear = results(RECIPES["metacost"], task, split, ratios=(1.0, 30.0))
    assert dear.decided.decisions.mean() > cheap.decided.decisions.mean()


def test_metacost_where_one_label_is_always_cheapest():
    task = made_task(costs=CostMatrix(fp=1, fn=1e7))
    split = make_split(task, Protocol(), 0)
    (one,) = results(RECIPES["metacost"], task, split, ratios=(1e7,))
    assert one.decided.decisions.all()


def test_constants_cost_what_their_classes_say():
    task = made_task()
    split = make_split(task, Protocol(), 0)
    uses = [Use(Cell("made", 8.0, f"always-{rule}", 0), rule) for rule in ("negative", "positive")]
    negative, positive = run_constants(task, split, uses)
    assert not negative.decided.decisions.any()
    assert positive.decided.decisions.all()


def test_weights_are_the_stakes_of_each_row():
    costs = CostMatrix(fp=1.0, fn=np.asarray([4.0, 8.0, 6.0]), tp=1.0)
    weights = learners._weights(costs, np.asarray([1, 0, 1]))
    assert weights / weights[1] == pytest.approx([3.0, 1.0, 5.0])


def test_metacost_asks_only_bags_that_did_not_hold_a_row(monkeypatch):
    """On labels that are pure noise a booster knows the rows it learned, and nothing about others."""
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.4).astype(np.int64)
    task = Task("noise", pd.DataFrame(rng.normal(size=(400, 5))), y, CostMatrix(fp=1, fn=1.2))
    split = make_split(task, Protocol(), 0)
    learned = []
    real = learners._boosting

    def spied(seed):
        model = real(seed)
        fit = model.fit
        model.fit = lambda x, labels: (learned.append(labels), fit(x, labels))[1]
        return model

    monkeypatch.setattr(learners, "_boosting", spied)
    results(RECIPES["metacost"], task, split, ratios=(1.2,))
    rest = np.sort(np.concatenate((split.train, split.validation)))
    assert np.mean(learned[-1] == y[rest]) < 0.7
