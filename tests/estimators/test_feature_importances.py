"""feature_importances_, SHAP on tables with text, and per-sample costs."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, CostSensitiveClassifier, EnsembleClassifier, compare
from adacsl.datasets.encoder import TableEncoder
from adacsl.learners import BoostingLearner
from adacsl.learners.sklearn import SklearnLearner
from tests.made import logistic

COSTS = CostMatrix(fp=1, fn=4)


def table(n=160):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"noise": rng.normal(size=n), "shop": rng.choice(["web", "city", "mall"], n)})
    frame["amount"] = rng.normal(size=n)
    y = (frame["amount"] + 2.0 * (frame["shop"] == "web") > 1.0).to_numpy().astype(int)
    return frame, y


def forest(**settings):
    return RandomForestClassifier(8, max_depth=3, random_state=0, **settings)


def test_a_forests_importances_are_summed_over_what_a_column_became():
    X, y = table()
    model = CostSensitiveClassifier(COSTS, learner=forest(), random_state=0).fit(X, y)
    encoder = TableEncoder().fit(X)
    alone = forest().fit(encoder.transform(X).astype(np.float64), y).feature_importances_
    expected = [sum(alone[[name in feature for feature in encoder.describe()]]) for name in X.columns]
    np.testing.assert_allclose(model.feature_importances_, expected, rtol=0, atol=1e-12)
    numbers = X[["noise", "amount"]]  # a table that the estimator gets as it is
    model = CostSensitiveClassifier(COSTS, learner=SklearnLearner(forest(), encode=False), random_state=0)
    model.fit(numbers, y)
    np.testing.assert_allclose(model.feature_importances_, forest().fit(numbers, y).feature_importances_)
    assert SelectFromModel(model).fit(numbers, y).get_support().tolist() == [False, True]


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_boosters_rank_which_columns_matter(library):
    pytest.importorskip(library)
    X, y = table()
    learner = BoostingLearner(library=library, n_estimators=8)
    result = CostSensitiveClassifier(COSTS, learner=learner, random_state=0).fit(X, y).feature_importances_
    assert result.shape == (3,)
    assert result.sum() == pytest.approx(1.0)
    assert result.argmax() == 2


def test_base_estimators_of_an_ensemble_count_that_have_some():
    X, y = table()
    estimators = [("forest", forest()), ("line", LogisticRegression())]
    model = EnsembleClassifier(COSTS, estimators=estimators, cv=2, n_jobs=1, random_state=0).fit(X, y)
    alone = CostSensitiveClassifier(COSTS, learner=forest()).fit(X, y)
    alone.model_ = model.model_.models[model.model_.names.index("forest")]
    np.testing.assert_allclose(model.feature_importances_, alone.feature_importances_)


def test_others_have_none():
    X, y = table()
    model = logistic(COSTS).fit(X, y)
    assert not hasattr(model, "feature_importances_")
    with pytest.raises(AttributeError, match="permutation_cost works for all"):
        model.feature_importances_  # noqa: B018


@pytest.mark.weekly  # to load shap takes long
@pytest.mark.parametrize("kind", ["text", "array"])
def test_shap_values_add_up_and_find_the_columns(kind):
    pytest.importorskip("shap")
    from adacsl.integrations.shap import explain

    X, y = table()
    X = X if kind == "text" else X[["noise", "amount"]].to_numpy()
    model = logistic(COSTS).fit(X, y)
    result = explain(model, X[:4], background=X, rows=20)
    chances = model.predict_proba(X[:4])[:, 1]
    np.testing.assert_allclose(result.base_values + result.values.sum(axis=1), chances, rtol=0, atol=1e-6)
    assert np.abs(result.values).mean(axis=0).argmin() == 0
    assert result.data[0].tolist() == (X[:4].to_numpy() if kind == "text" else X[:4])[0].tolist()


def test_compare_takes_per_sample_costs_as_fit_does():
    X, y = table(60)
    amounts = np.linspace(1.0, 5.0, len(y))
    quick = {"methods": ["logistic"], "repeats": 1, "folds": 2, "n_jobs": 1, "progress": False}
    by_word, by_matrix = compare(X, y, fp=1.0, fn=amounts, **quick), compare(X, y, {"fp": 1.0, "fn": amounts}, **quick)
    pd.testing.assert_frame_equal(by_word.table, by_matrix.table)
    filled = compare(X, y, CostMatrix(fp=1, fn=9), fn=amounts, **quick)
    pd.testing.assert_frame_equal(filled.table, by_matrix.table)
    with pytest.raises(ValueError, match="per-sample costs need fp too"):
        compare(X, y, fn=amounts, **quick)
    assert repr(by_word) == "Comparison(data: 1 methods, 2 results)"
