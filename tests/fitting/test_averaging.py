"""The estimated cost of a cross-fit: of the average of its models, from rows that two of them held out."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.base.scores import log_odds, sigmoid
from adacsl.fitting import candidates
from adacsl.learners.sklearn import SklearnLearner

COSTS = CostMatrix(fp=1, fn=5.1234)  # no leaf of a tree is right at the threshold


def draw(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    chances = 1.0 / (1.0 + np.exp(1.5 - 1.5 * X[:, 0] - X[:, 1] * X[:, 2]))
    return X, (rng.random(n) < chances).astype(int), chances


def trees(cv, seed=0, **settings):
    return CostSensitiveClassifier(
        COSTS, learner=DecisionTreeClassifier(min_samples_leaf=15), cv=cv, random_state=seed, **settings
    )


def folds(y, seed, groups=None):
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    return list(kind(5, shuffle=True, random_state=seed).split(y, y, groups))


def by_hand(first, second, y, weight, models=5):
    """Return c(k) = c(1) - 2 (1 - 1 / k) (c(1) - c(2)) of rows that were held out twice."""
    mean = sigmoid((log_odds(first) + log_odds(second)) / 2)
    one, two, both = (COSTS.mean(y, s > COSTS.threshold, sample_weight=weight) for s in (first, second, mean))
    single = (one + two) / 2
    return single - 2 * (1 - 1 / models) * (single - both)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_estimate_is_that_of_the_average_of_all_models(weighted, grouped):
    X, y, _ = draw(0, 300)
    rng = np.random.default_rng(1)
    about = {"sample_weight": rng.uniform(0.2, 3.0, 300)} if weighted else {}
    about |= {"groups": rng.integers(0, 60, 300)} if grouped else {}
    groups = about.get("groups")
    clf = trees(5).fit(X, y, **about)
    # the same by hand: folds of the same seed, and further ones
    first = trees(folds(y, 0, groups), 0).fit(X, y, **about)
    second = trees(folds(y, 5, groups), 5).fit(X, y, **about)
    expected = by_hand(first.oof_scores_, second.oof_scores_, y, about.get("sample_weight"))
    assert clf.estimated_cost_.estimate == pytest.approx(expected)
    assert clf.estimated_cost_.low < clf.estimated_cost_.estimate < clf.estimated_cost_.high
    # what decides, and the scores that are stored, are those of the first folds alone
    np.testing.assert_array_equal(clf.oof_scores_, first.oof_scores_)
    np.testing.assert_array_equal(clf.predict_proba(X), first.predict_proba(X))
    assert len(clf.model_.estimators) == 5
    # folds that are given as such are all there are: the cost of single models
    decided = first.oof_scores_ > COSTS.threshold
    single = COSTS.mean(y, decided, sample_weight=about.get("sample_weight"))
    assert first.estimated_cost_.estimate == pytest.approx(single)
    assert single != pytest.approx(expected)


def test_of_many_samples_some_are_scored_twice(monkeypatch):
    X, y, _ = draw(1, 300)
    monkeypatch.setattr(candidates, "SCORED_TWICE", 100)  # two folds of sixty rows
    clf = trees(5).fit(X, y)
    first, pairs = trees(folds(y, 0), 0).fit(X, y).oof_scores_, folds(y, 5)[:2]
    second = trees(pairs, 5).fit(X, y).oof_scores_
    twice = np.concatenate([test for _, test in pairs])
    rest = np.setdiff1d(np.arange(300), twice)
    one, other = (COSTS.incurred(y[twice], s[twice] > COSTS.threshold) for s in (first, second))
    mean = sigmoid((log_odds(first[twice]) + log_odds(second[twice])) / 2)
    gain = np.mean((one + other) / 2) - COSTS.mean(y[twice], mean > COSTS.threshold)
    level = (np.sum(one + other) / 2 + COSTS.incurred(y[rest], first[rest] > COSTS.threshold).sum()) / 300
    assert clf.estimated_cost_.estimate == pytest.approx(level - 1.6 * gain)


def test_no_estimate_is_below_the_cost_of_being_right():
    X = np.random.default_rng(0).normal(size=(60, 2))
    clf = trees(3).fit(X, (X[:, 0] > 0).astype(int))
    assert clf.estimated_cost_.low >= 0.0


class Jitter(ClassifierMixin, BaseEstimator):
    """Predicts the log-odds of every sample (its first feature) with noise of its own, as networks of other seeds."""

    def fit(self, X, y):
        self.classes_, self.seed_ = np.unique(y), int(np.abs(X).sum() * 1e6) % 2**32
        return self

    def predict_proba(self, X):
        p = sigmoid(X[:, 0] + np.random.default_rng(self.seed_).normal(size=len(X)))
        return np.stack((1.0 - p, p), axis=1)


def test_it_is_right_where_single_models_are_more_costly():
    off, single = [], []
    for seed in range(40):
        z = np.random.default_rng(seed).normal(-1.5, 1.0, size=(21_000, 1))
        chances = sigmoid(z[:, 0])
        y = (np.random.default_rng(seed + 1000).random(1000) < chances[:1000]).astype(int)
        clf = CostSensitiveClassifier(
            COSTS, learner=SklearnLearner(Jitter(), encode=False), cv=5, random_state=seed
        ).fit(z[:1000], y)
        positive, fresh = clf.predict(z[1000:]) == 1, chances[1000:]
        truth = np.mean(np.where(positive, 1.0 - fresh, 5.1234 * fresh))
        off.append(clf.estimated_cost_.estimate / truth - 1.0)
        single.append(COSTS.mean(y, clf.oof_scores_ > COSTS.threshold) / truth - 1.0)
    assert np.mean(single) > 0.07
    assert np.mean(off) == pytest.approx(0.0, abs=0.03)
