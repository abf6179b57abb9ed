"""Estimates of estimators that learn nothing: 0.5, whatever was selected, also where samples come in identical pairs.

Each draw has two identical rows per group, labels that are coin flips, equal costs, and many epochs (or rounds) of
other noise to choose from. The one of lowest cost on the held-out samples seems to cost far less than 0.5; the
estimate must not, within
0.01 in the mean of all draws.
"""

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier
from adacsl.learners import BoostingLearner
from adacsl.neural import NeuralLearner
from tests.made import adapted_estimator

EVEN = CostMatrix(fp=1, fn=1)
ROUNDS = 20


def pairs(seed, groups, features=1):
    """Return rows, coin flips and groups: every row is there twice."""
    rng = np.random.default_rng(seed)
    each = np.repeat(np.arange(groups), 2)
    return rng.normal(size=(groups, features))[each], np.repeat(rng.integers(0, 2, groups), 2), each


def means(draws):
    """Return the mean of the estimates and of what the chosen epochs cost on the rows that chose them."""
    result = [(clf.estimated_cost_.estimate, clf.history_["val_cost"].min()) for clf in draws]
    return np.mean(result, axis=0)


class Noise(ClassifierMixin, BaseEstimator):
    """Gives every group another score in every pass."""

    def __init__(self, seed=0, max_iter=1):
        self.seed = seed
        self.max_iter = max_iter

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        self.classes_, self.passes_ = classes, getattr(self, "passes_", 0) + 1
        return self

    def predict_proba(self, X):
        table = np.random.default_rng((self.seed, self.passes_)).random(2000)
        p = table[np.asarray(X)[:, 0].astype(int)]
        return np.stack((1.0 - p, p), axis=1)


@pytest.mark.parametrize(
    ("decide", "draws", "tolerance"),
    [
        ("bayes", 24, 0.016),
        pytest.param("bayes", 64, 0.01, marks=pytest.mark.weekly),
        pytest.param("tuned", 64, 0.01, marks=pytest.mark.weekly),
    ],
)
def test_any_classifier(decide, draws, tolerance):
    def draw(seed):
        _, y, groups = pairs(seed, 500)
        settings = {"max_iter": ROUNDS, "patience": None, "controller": {"bounds": (1.0, 1.0)}, "decide": decide}
        clf = adapted_estimator(Noise(seed), EVEN, cv=2, random_state=seed, **settings)
        return clf.fit(groups[:, None].astype(float), y, groups=groups)

    estimate, lowest = means([draw(seed) for seed in range(draws)])
    assert estimate == pytest.approx(0.5, abs=tolerance)
    assert lowest < 0.475


class Dice(torch.nn.Module):
    """A net that scores a row by its own value alone, otherwise in every epoch; nothing can be learned."""

    def __init__(self):
        super().__init__()
        self.nothing = torch.nn.Parameter(torch.zeros(()))
        self.register_buffer("epoch", torch.zeros((), dtype=torch.float64))

    def forward(self, x):
        if self.training:
            self.epoch += 1.0
        wild = torch.sin(x[:, 0].double() * 1e5 * (1.0 + 0.37 * self.epoch)) + 0.0 * self.nothing
        return wild.float()[:, None]


def test_networks():
    def draw(seed):
        X, y, groups = pairs(seed, 2000)
        learner = NeuralLearner(module=lambda n: Dice(), epochs=ROUNDS, patience=None, batch_size=512)
        settings = {"controller": None, "validation": 0.9, "random_state": seed, "device": "cpu"}
        clf = AdaCSLClassifier(EVEN, learner=learner, **settings)
        return clf.fit(X, y, groups=groups)

    estimate, lowest = means([draw(seed) for seed in range(4)])
    assert estimate == pytest.approx(0.5, abs=0.012)
    assert lowest < 0.49


@pytest.mark.weekly
def test_boosters():
    pytest.importorskip("xgboost")

    def draw(seed):
        X, y, groups = pairs(seed, 700, features=4)
        params = {"nthread": 1, "max_depth": 6}
        learner = BoostingLearner("xgboost", n_estimators=ROUNDS, learning_rate=1.0, patience=None, params=params)
        clf = CostSensitiveClassifier(EVEN, learner=learner, validation=0.7, random_state=seed)
        return clf.fit(X, y, groups=groups)

    estimate, lowest = means([draw(seed) for seed in range(20)])
    assert estimate == pytest.approx(0.5, abs=0.015)  # three standard errors: five folds hold all 700 groups out
    assert lowest < 0.49
