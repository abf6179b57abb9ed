"""Small fits use one thread: several wait for each other longer than they compute."""

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from threadpoolctl import threadpool_info, threadpool_limits

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.execution import threads as execution_threads
from adacsl.neural.learner import NeuralLearner

COSTS = CostMatrix(fp=1, fn=4)


class Counting(ClassifierMixin, BaseEstimator):
    """A classifier that records how many threads it was fitted with."""

    def fit(self, X, y, sample_weight=None):
        self.classes_, self.threads_ = np.unique(y), execution_threads.threads_in_use()
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    return X, (X[:, 0] + rng.normal(size=90) > 0.5).astype(int)


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    with threadpool_limits(2):
        torch.set_num_threads(2)
        yield
    torch.set_num_threads(before)


def test_a_network_of_a_small_table_trains_in_one_thread(rows):
    seen = set()

    def loss(logits, labels, *, costs):
        seen.add(torch.get_num_threads())
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")

    CostSensitiveClassifier(COSTS, learner=NeuralLearner(epochs=1), loss=loss, random_state=0).fit(*rows)
    assert seen == {1}
    assert torch.get_num_threads() == 2  # as it was


@pytest.mark.parametrize(("many", "threads"), [(1000, 1), (50, 2)])
def test_an_estimator_of_many_samples_keeps_its_threads(rows, monkeypatch, many, threads):
    monkeypatch.setattr(execution_threads, "MANY_ROWS", many)
    fitted = CostSensitiveClassifier(COSTS, learner=Counting(), random_state=0).fit(*rows)
    assert fitted.model_.estimators[0].threads_ == threads
    assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"} == {2}


def test_catboost_gets_the_number_of_threads(rows, monkeypatch):
    catboost = pytest.importorskip("catboost")
    given = []

    def init(self, params=None):
        given.append(params["thread_count"])
        raise RuntimeError("thread_count is known")

    monkeypatch.setattr(catboost.CatBoost, "__init__", init)
    with pytest.raises(RuntimeError, match="thread_count"):
        CostSensitiveClassifier(COSTS, learner="catboost", random_state=0).fit(*rows)
    assert given == [1]
