"""Where a fit runs changes nothing: portfolios and boosters behind ``trainer=``, on pretended workers."""

import contextlib
import pickle
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import adacsl
from adacsl import AdaCSLBoostingClassifier, AdaCSLClassifier, CostMatrix, Method, PortfolioClassifier
from adacsl.ensemble import classifier
from adacsl.ensemble.classifier import Portfolio
from adacsl.integrations import boosting, lightgbm, xgboost
from adacsl.integrations.boosting import Matrix
from adacsl.learners import boosting_libraries
from adacsl.learners.boosting import Booster
from adacsl.learners.sklearn import Model
from adacsl.neural.learner import Net

COSTS = CostMatrix(fp=1, fn=6)
RAY = {"engine": "ray", "workers": 3}
LIGHT = Booster("lightgbm", rounds=4)
STEERED = Method(learner=LogisticRegression(), loss="weighted", controller="auto")
WEIGHTED = Method(learner="xgboost", loss="weighted", select="log-loss", target=0.4)
NET = Method(learner=Net({"width": 4, "depth": 1}, epochs=1), select="log-loss")
MEMBERS = [("nb", GaussianNB()), ("light", LIGHT), ("weighted", WEIGHTED), ("steered", STEERED), ("net", NET)]


def numbers(n=151, classes=2):
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    X = rng.normal(size=(n, 4))
    X[:, 0] += y
    return X, y


class GoneError(Exception):
    """A machine went away."""


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

    def __init__(self, workers, threads, shared):
        self.workers, self.shared, self.known = workers or 2, shared, set()

    def submit(self, work, task):
        future, name = Future(), next(iter(task))
        if name not in self.known:
            self.known.add(name)
            future.set_exception(GoneError())
            return future
        self.begun.append(name)
        try:
            result = work(*map(carried, (self.shared, task)))
            future.set_result(carried(result))
        except ValueError as error:
            future.set_exception(error)
        return future

    def died(self, running):
        return set()

    def lost(self, future):
        return isinstance(future.exception(), GoneError)

    def outcome(self, future):
        return future.exception() or future.result()

    def end(self):
        pass


@pytest.fixture
def away(monkeypatch):
    """Let Ray's tasks be pretended; return the names of those that were begun."""
    begun = []
    monkeypatch.setattr(Elsewhere, "begun", begun)
    monkeypatch.setattr(classifier, "crew_of", lambda where: Elsewhere if where.engine == "ray" else None)
    return begun


def stacked(members=MEMBERS, trainer=None, costs=COSTS, **settings):
    usual = {"cv": 3, "n_jobs": 1, "random_state": 0} | settings
    return PortfolioClassifier(costs, members=members, trainer=trainer, **usual)


@pytest.fixture(scope="module")
def here():
    X, y = numbers()
    return stacked().fit(X, y, sample_weight=np.arange(1.0, len(y) + 1))


def check_same(one, other, X):
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    assert np.array_equal(one.oof_scores_, other.oof_scores_)
    assert one.estimated_cost_ == other.estimated_cost_
    assert one.leaderboard_.drop(columns="seconds").equals(other.leaderboard_.drop(columns="seconds"))


def test_elsewhere_a_portfolio_is_the_same_fold_by_fold(here, away, tmp_path):
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
    check_same(here, stacked(trainer={"workers": 1}, resume=tmp_path).fit(X, y, sample_weight=np.arange(1.0, 152)), X)
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
    with pytest.warns(UserWarning, match="member 'picky' is left out: no such row, please"):
        clf = stacked([("picky", Model(Picky(), encode=False)), ("light", LIGHT)], RAY).fit(X, y)
    assert ("picky", 2, 3) in away
    assert list(clf.members_) == ["light"]


def test_with_too_little_time_folds_are_left_out_too(away):
    X, y = numbers()
    with pytest.warns(UserWarning, match="left out: out of time"):
        clf = stacked(["logistic", ("tabm", GaussianNB())], RAY, budget=1e-3).fit(X, y)
    assert list(clf.members_) == ["logistic"]


def test_the_trainer_is_kept_by_clones_and_by_no_artefact(tmp_path):
    for made in (stacked(trainer=RAY), AdaCSLBoostingClassifier(COSTS, trainer={"workers": 2})):
        assert clone(made).trainer == made.trainer == made.get_params()["trainer"]
        assert made.trainer is not None
    assert stacked().trainer is None
    saved = stacked(["logistic"], {"workers": 1}).fit(*numbers()).save(tmp_path / "m")
    assert "workers" not in (saved / "model.json").read_text()
    assert adacsl.load(tmp_path / "m").trainer is None
    booster = Method(learner=Booster("xgboost", rounds=2, trainer={"workers": 1}), random_state=0).fit(*numbers())
    assert adacsl.load(booster.save(tmp_path / "b")).learner.trainer is None


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (stacked(trainer={"workers": 0}), "workers must be a whole number of at least 1, got 0"),
        (Method(learner=Portfolio(trainer={"nodes": 2})), "trainer has no setting 'nodes' here"),
        (AdaCSLBoostingClassifier(trainer={"engine": "ray"}), "says on how many workers: trainer={'workers': 4}"),
        (AdaCSLBoostingClassifier(engine="catboost", trainer={"workers": 2}), "catboost cannot spread its rows over"),
        (AdaCSLBoostingClassifier(target=0.5, trainer={"workers": 2}), "a controller steers boosters in one process"),
        (AdaCSLBoostingClassifier(trainer={"devices": 2}), r"Lightning's are for nets: net=\{'trainer'"),
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


def test_nets_say_their_trainer_inside():
    with pytest.raises(TypeError, match=r"has no setting 'trainer' any more: say net=\{'trainer': \.\.\.\}"):
        AdaCSLClassifier(trainer={"devices": 2})


# boosters


def rows_for(engine, classes=2, n=120):
    X, y = numbers(n, classes)
    X[::7, 1] = np.nan
    X[:, 3] = y
    X[::5, 3] = 4
    return Matrix(X[:80], y[:80], None, (3,), classes), Matrix(X[80:], y[80:], None, (3,), classes)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("engine", [xgboost, lightgbm])
def test_margins_of_a_trained_model_are_those_it_had_round_by_round(engine, classes):
    train, validation = rows_for(engine, classes)
    seen = []
    options = {"rounds": 6, "lr": 0.3, "seed": 0, "params": {}, "patience": None}
    model = engine.boost_plainly(train, validation, lambda margins: seen.append(np.array(margins)), **options)
    read = engine.from_bytes(engine.to_bytes(model, 6))
    found = list(engine.margins_by_round(read, validation))
    assert len(found) == len(seen) == 6
    for one, other in zip(found, seen, strict=True):
        centred = (
            margins - margins.mean(axis=-1, keepdims=True) if classes > 2 else margins for margins in (one, other)
        )
        np.testing.assert_allclose(*centred, atol=1e-5)


def test_workers_have_all_rows_once_and_one_sample():
    data = Matrix(np.arange(10.0).reshape(5, 2), np.arange(5), np.arange(5.0), (1,), 3)
    parts = [boosting_libraries.part_of(data, rank, 2) for rank in range(2)]
    assert [part.y.tolist() for part in parts] == [[0, 2, 4], [1, 3]]
    assert parts[1].weight.tolist() == [1, 3]
    assert parts[1][3:] == ((1,), 3)
    assert boosting_libraries.sample_of(data).y.tolist() == [0, 1, 2, 3, 4]


def test_of_many_rows_bins_are_made_of_some(monkeypatch):
    monkeypatch.setattr(boosting_libraries, "LOOKED_AT", 3)
    data = Matrix(np.zeros((7, 1)), np.arange(7))
    assert boosting_libraries.sample_of(data).y.tolist() == [0, 3, 6]


def test_when_a_machine_went_away_all_begin_anew_on_those_that_are_left(monkeypatch):
    train, validation = rows_for(xgboost)
    tried = []

    def run(work, shared, tasks, **_):
        tried.append([len(part.y) for _, part in tasks])
        if len(tried) == 1:
            raise ConnectionResetError("a machine went away")
        return [xgboost.to_bytes(xgboost.boost_plainly(train, None, None, **shared[-1]), 3)]

    @contextlib.contextmanager
    def place(where, workers):
        left = iter([3, 2])
        yield "127.0.0.1", lambda: next(left)

    monkeypatch.setattr(boosting_libraries, "run_together", run)
    monkeypatch.setattr(boosting_libraries, "_place", place)
    settings, options = Booster("xgboost", trainer={"workers": 3}), {"rounds": 3, "lr": 0.3, "seed": 0, "params": {}}
    seen = []
    boosting_libraries.boost_anywhere(settings, train, validation, seen.append, **options, patience=None)
    assert tried == [[27, 27, 26], [40, 40]]
    assert len(seen) == 3


def test_machines_that_go_away_again_and_again_end_the_booster_with_one_line(monkeypatch):
    tried = []

    def run(work, shared, tasks, **_):
        tried.append(len(tasks))
        raise ConnectionResetError("a machine went away")

    monkeypatch.setattr(boosting_libraries, "run_together", run)
    settings, options = Booster("lightgbm", trainer={"workers": 2}), {"rounds": 3, "patience": None}
    with pytest.raises(RuntimeError, match="is not trained, it was tried 6 times: a machine went away"):
        boosting_libraries.boost_anywhere(settings, *rows_for(lightgbm), None, **options)
    assert tried == [2] * 6


def test_workers_meet_and_strangers_are_shown_out():
    with boosting.rendezvous(3, "127.0.0.1") as place:
        stranger = threading.Thread(target=_say, args=(place, b"GET / HTTP/1.0\r\n\r\n"))
        stranger.start()
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda rank: boosting.meet(place, rank), range(3)))
        stranger.join()
    machines = found[0][0]
    assert [told for told, _ in found] == [machines] * 3
    assert [f"127.0.0.1:{port}" for _, port in found] == machines


def _say(place, words):
    with boosting.socket.create_connection(place, timeout=10) as line:
        line.sendall(words)


def test_who_comes_alone_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(boosting, "WAIT", 0.3)
    with boosting.rendezvous(2, "127.0.0.1") as place, pytest.raises(TimeoutError, match="were not all there within"):
        boosting.meet(place, 0)


@pytest.mark.parametrize("engine", [xgboost, lightgbm])
def test_no_booster_waits_for_ever_for_a_worker_that_has_no_place(engine, monkeypatch):
    monkeypatch.setattr(boosting, "WAIT", 0.3)
    train, _ = rows_for(engine)
    options = {"rounds": 3, "lr": 0.3, "seed": 0, "params": {}, "patience": None}
    with engine.meeting(2, "127.0.0.1") as place, pytest.raises(TimeoutError, match="were not all there within"):
        engine.boost_part(place, 0, train, None, like=train, n_rows=80, **options)
