"""Where a fit runs changes nothing: ensembles by ``backend=``, on pretended workers."""

import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import adacsl
from adacsl import CostMatrix, CostSensitiveClassifier, EnsembleClassifier
from adacsl.ensemble import classifier
from adacsl.execution.executors import Report
from adacsl.learners.boosting import BoostingLearner
from adacsl.learners.sklearn import SklearnLearner
from adacsl.neural.learner import NeuralLearner

COSTS = CostMatrix(fp=1, fn=6)
RAY = {"backend": "ray", "n_jobs": 3}
LIGHT = BoostingLearner("lightgbm", n_estimators=4)
STEERED = CostSensitiveClassifier(learner=LogisticRegression(), loss="weighted", controller="auto")
WEIGHTED = CostSensitiveClassifier(learner="xgboost", loss="weighted", select="log-loss", target_threshold=0.4)
NET = CostSensitiveClassifier(learner=NeuralLearner({"width": 4, "depth": 1}, epochs=1), select="log-loss")
MEMBERS = [("nb", GaussianNB()), ("light", LIGHT), ("weighted", WEIGHTED), ("steered", STEERED), ("net", NET)]


def numbers(n=151, classes=2):
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    X = rng.normal(size=(n, 4))
    X[:, 0] += y
    return X, y


class Picky(GaussianNB):
    """Refuses one row."""

    def fit(self, X, y, sample_weight=None):
        if np.any(X == 99.0):
            raise ValueError("no such row, please")
        return super().fit(X, y, sample_weight)


def carried(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301


class Elsewhere:
    """Workers that share nothing with this process but what is pickled; each task is lost once."""

    begun = []

    def __init__(self, work, shared, *, n_workers, **_):
        self.n_workers, self.work, self.shared, self.known = n_workers or 2, work, shared, set()
        self.reports = []

    def submit(self, number, task):
        name = next(iter(task))
        if name not in self.known:
            self.known.add(name)
            self.reports.append(Report(number, "lost", ConnectionError("gone")))
            return
        self.begun.append(name)
        try:
            results = list(self.work(*map(carried, (self.shared, task))))
            self.reports += [*(Report(number, "result", carried(result)) for result in results), Report(number, "done")]
        except ValueError as error:
            self.reports.append(Report(number, "raised", error))

    def wait(self, timeout=None):
        reports, self.reports = self.reports, []
        yield from reports

    def close(self, *, kill):
        pass


@pytest.fixture
def away(monkeypatch):
    """Let Ray's tasks be pretended; return the names of those that were begun."""
    begun = []
    monkeypatch.setattr(Elsewhere, "begun", begun)
    real = classifier.open_executor

    def opened(work, shared, placement, **given):
        return (Elsewhere if placement.backend == "ray" else real)(
            work, shared, **({} if placement.backend == "ray" else {"placement": placement}), **given
        )

    monkeypatch.setattr(classifier, "open_executor", opened)
    return begun


def stacked(members=MEMBERS, trainer=None, costs=COSTS, **settings):
    usual = {"cv": 3, "n_jobs": 1, "random_state": 0} | settings
    return EnsembleClassifier(costs, estimators=members, **(usual | (trainer or {})))


@pytest.fixture(scope="module")
def here():
    X, y = numbers()
    return stacked().fit(X, y, sample_weight=np.arange(1.0, len(y) + 1))


def check_same(one, other, X):
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    assert np.array_equal(one.oof_scores_, other.oof_scores_)
    assert one.estimated_cost_ == other.estimated_cost_
    assert one.leaderboard_.drop(columns="seconds").equals(other.leaderboard_.drop(columns="seconds"))


def test_elsewhere_a_ensemble_is_the_same_fold_by_fold(here, away, tmp_path):
    X, y = numbers()
    clf = stacked(trainer=RAY, resume=tmp_path).fit(X, y, sample_weight=np.arange(1.0, len(y) + 1))
    check_same(here, clf, X)
    # folds that share a controller, or train side by side, stay together
    assert [name for name in away if isinstance(name, str)] == ["steered", "net"]
    assert sorted(name for name in away if not isinstance(name, str)) == sorted(
        (name, fold, 3) for name in ("nb", "light", "weighted") for fold in range(3)
    )
    # what was kept serves any other place; nets and boosters are numbers, Bayes' estimator is not and is fitted again
    away.clear()
    check_same(here, stacked(trainer={"n_jobs": 1}, resume=tmp_path).fit(X, y, sample_weight=np.arange(1.0, 152)), X)
    again = stacked(trainer=RAY, resume=tmp_path).fit(X, y, sample_weight=np.arange(1.0, 152))
    check_same(here, again, X)
    assert {name[0] for name in away} <= {"nb"}


def test_folds_of_three_classes_come_together(away):
    X, y = numbers(90, classes=3)
    costs = CostMatrix.from_array([[0, 5, 2], [1, 0, 2], [1, 4, 0]], rows="predicted")
    members = [("nb", GaussianNB()), ("light", LIGHT)]
    one, other = (stacked(members, trainer, costs=costs).fit(X, y) for trainer in (None, RAY))
    check_same(one, other, X)
    assert len(away) == 6


def test_a_fold_that_fails_leaves_its_member_out(away):
    X, y = numbers()
    X[0, 0] = 99.0  # in the training rows of two folds
    with pytest.warns(UserWarning, match="base estimator 'picky' is skipped: no such row, please"):
        clf = stacked([("picky", SklearnLearner(Picky(), encode=False)), ("light", LIGHT)], RAY).fit(X, y)
    assert ("picky", 2, 3) in away
    assert list(clf.estimators_) == ["light"]


def test_with_too_little_time_folds_are_left_out_too(away):
    X, y = numbers()
    with pytest.warns(UserWarning, match="skipped: not started"):
        clf = stacked(["logistic", ("tabm", GaussianNB())], RAY, time_limit=1e-3).fit(X, y)
    assert list(clf.estimators_) == ["logistic"]


def test_the_backend_is_kept_by_clones_and_by_no_artefact(tmp_path, away):
    made = stacked(trainer=RAY)
    assert clone(made).backend == made.backend == made.get_params()["backend"] == "ray"
    assert stacked().backend == "processes"
    saved = stacked(["logistic"], RAY).fit(*numbers()).save(tmp_path / "m")
    assert "backend" not in (saved / "model.json").read_text()
    assert adacsl.load(tmp_path / "m").backend == "processes"


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (stacked(trainer={"n_jobs": 0}), r"must be .*, got 0"),
    ],
)
def test_places_that_make_no_sense_are_refused(made, match):
    with pytest.raises(ValueError, match=match):
        made.fit(*numbers())


def test_without_ray_it_is_said_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "adacsl.integrations.ray", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"needs 'ray': run  pip install 'adacsl\[ray\]'"):
        stacked(trainer=RAY).fit(*numbers())
