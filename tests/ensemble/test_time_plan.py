"""A time limit is spent by expected gain per second; clocks here are counters."""

import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from adacsl import CostMatrix, EnsembleClassifier
from adacsl.ensemble import base_estimators, classifier, fits
from adacsl.ensemble.base_estimators import KnownEstimator, default_estimators
from adacsl.ensemble.classifier import EnsembleSettings
from adacsl.ensemble.time_plan import DOUBT, UNIT, Prior, TimePlan
from adacsl.execution import executors
from adacsl.learners.sklearn import SklearnLearner

PRIORS = st.builds(
    Prior,
    family=st.sampled_from(["linear", "boosting", "network", ""]),
    fixed=st.floats(0.01, 5.0),
    slope=st.floats(0.0, 5.0),
    gain=st.floats(1e-4, 0.1),
)
OBSERVED = st.lists(st.tuples(PRIORS, st.floats(0.01, 50.0), st.none() | st.floats(-0.1, 0.1)), max_size=4)


def planned(observed, factor=1.0, n_values=UNIT, n_classes=2):
    plan = TimePlan(n_values, n_classes)
    for prior, seconds, gain in observed:
        plan.observe(prior, factor * seconds, gain)
    return plan


@given(PRIORS, OBSERVED, st.lists(PRIORS, min_size=1, max_size=6), st.floats(0.01, 100.0), st.data())
def test_the_most_gain_per_second_of_what_ends_in_time_is_next(first, observed, waiting, left, data):
    plan = planned(observed)
    shares = data.draw(st.lists(st.sampled_from([0.2, 1.0]), min_size=len(waiting), max_size=len(waiting)))
    chosen = plan.choose(waiting, left, shares)
    rates = [
        plan.gain(prior) / plan.seconds(prior) if plan.seconds(prior) * share <= left else -1.0
        for prior, share in zip(waiting, shares, strict=True)
    ]
    assert chosen == (int(np.argmax(rates)) if max(rates) >= 0.0 else None)
    # on a machine that is half as fast, twice the time is worth as much
    slow, fast = (planned([(first, 1.0, None), *observed], factor) for factor in (2.0, 1.0))
    assert slow.choose(waiting, 2.0 * left) == fast.choose(waiting, left)


@given(PRIORS, OBSERVED)
def test_seconds_are_those_of_the_machine_and_gains_those_of_relatives(prior, observed):
    plan = planned(observed)
    usual = prior.fixed + prior.slope
    every = [(own.fixed + own.slope, seconds) for own, seconds, _ in observed]
    kin = [(own.fixed + own.slope, seconds) for own, seconds, _ in observed if own.family == prior.family]
    speeds = [sum(s for _, s in some) / sum(u for u, _ in some) for some in (every, kin) if some]
    assert plan.seconds(prior) == pytest.approx(usual * max(speeds, default=1.0))
    known = [(own.gain, max(gain, 0.0)) for own, _, gain in observed if gain is not None and own.family == prior.family]
    factor = (DOUBT + sum(gain for _, gain in known)) / (DOUBT + sum(usual for usual, _ in known))
    assert plan.gain(prior) == pytest.approx(prior.gain * factor)


def test_more_samples_and_columns_and_classes_of_trees_take_longer():
    trees, net = (Prior(family, 1.0, 2.0, 0.01) for family in ("boosting", "network"))
    assert [TimePlan(n).seconds(net) for n in (0, UNIT, 10 * UNIT)] == [1.0, 3.0, 21.0]
    assert [TimePlan(UNIT, k).seconds(own) for k in (2, 5) for own in (trees, net)] == [3.0, 3.0, 15.0, 3.0]


# in a fit


class Clock:
    """Seconds that pass only where a base estimator says so."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    own = Clock()
    for module in (classifier, fits, executors):
        monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=own, perf_counter=own))
    monkeypatch.setattr(EnsembleSettings, "workers_for", lambda self, rows: 0)  # no process has this clock
    return own


def known(clock, seconds, family, expected, gain, kind=LogisticRegression, **settings):
    """A base estimator whose cross-fit takes so many seconds."""

    def fit(self, X, y, sample_weight=None):
        clock.now += seconds / 5
        return kind.fit(self, X, y, sample_weight)

    own = type("Slow", (kind,), {"fit": fit})
    return KnownEstimator("sklearn", lambda: SklearnLearner(own(**settings)), Prior(family, expected, 0.0, gain))


def data(n=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, (rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 0] - X[:, 1]))).astype(int)


@pytest.fixture
def table(clock, monkeypatch):
    """Four base estimators, of which the best is the slowest, on a machine twice as slow as expected."""
    estimators = {
        "slow": known(clock, 20.0, "network", 10.0, 0.03, C=2.0),
        "quick": known(clock, 2.0, "linear", 1.0, 0.02),
        "weak": known(clock, 4.0, "linear", 2.0, 0.001, C=0.01),
        "extra-trees": known(clock, 10.0, "forest", 5.0, 0.02, kind=GaussianNB),
    }
    monkeypatch.setattr(base_estimators, "BASE_ESTIMATORS", estimators)
    monkeypatch.setattr(base_estimators, "BOOSTED_INSTANCE", ("slow",))  # of per-sample costs
    return estimators


def fitted(limit, estimators="auto", **settings):
    given = {"time_limit": limit, "n_jobs": 1, "random_state": 0} | settings
    return EnsembleClassifier(CostMatrix(fp=1, fn=3), estimators=estimators, **given).fit(*data())


def left_out(clf):
    return dict(clf.leaderboard_.set_index("estimator")["left_out"])


@pytest.mark.parametrize(
    ("limit", "expected", "seconds"),
    [
        (1.0, {"quick"}, 2.0),  # the first is always finished
        (20.0, {"quick", "extra-trees", "weak"}, 16.0),
        (30.0, {"quick", "extra-trees", "weak"}, 16.0),
        (40.0, {"quick", "extra-trees", "slow", "weak"}, 36.0),
    ],
)
@pytest.mark.filterwarnings("ignore:base estimator")
def test_what_gains_most_per_second_is_fitted_and_nothing_that_would_not_end(clock, table, limit, expected, seconds):
    clf = fitted(limit)
    assert {name for name, why in left_out(clf).items() if not why} == expected
    assert clock.now == pytest.approx(seconds)
    assert list(clf.estimators_) == [name for name in table if name in expected]
    for name, why in left_out(clf).items():
        twice = 2.0 * table[name].prior.fixed
        reason = "not started: no time was left" if limit < 2.0 else f"not started: about {twice:.2g} s expected, "
        assert name in expected or why.startswith(reason)


def test_only_default_base_estimators_that_lack_time_are_warned_about(clock, table):
    with pytest.warns(UserWarning, match="is skipped: not started") as caught:
        fitted(5.0)
    assert sorted(str(own.message).split("'")[1] for own in caught) == ["slow", "weak"]


def test_results_are_those_of_what_is_finished_in_whatever_order(clock, table):
    X, _ = data()
    one, other = fitted(1000.0), fitted(None, estimators=["slow", "quick", "weak", "extra-trees"])
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_array_equal(one.oof_scores_, other.oof_scores_)


def test_a_relative_that_gained_nothing_lets_others_go_first(clock, table, monkeypatch):
    monkeypatch.setattr(base_estimators, "BOOSTED_INSTANCE", ("first",))
    same = {"seconds": 2.0, "expected": 1.0}
    table.clear()
    table["first"] = known(clock, **same, family="linear", gain=0.03)
    table["again"] = known(clock, **same, family="linear", gain=0.028)  # the same model
    table["third"] = known(clock, **same, family="linear", gain=0.02, C=1.1)
    table["other"] = known(clock, **same, family="network", gain=0.01, kind=GaussianNB)
    with pytest.warns(UserWarning, match="base estimator 'third' is skipped: not started"):
        clf = fitted(7.0)
    assert list(clf.estimators_) == ["first", "again", "other"]


def test_some_base_estimators_take_part_only_with_a_time_limit():
    usual, timed = (list(default_estimators(images=False, timed=timed)) for timed in (False, True))
    assert set(usual) < set(timed)
    assert "extra-trees" in set(timed) - set(usual)
    assert [name for name in timed if name in usual] == usual


KINDS = {
    "classes": {"costs": CostMatrix.from_array([[0, 1, 2], [3, 0, 1], [1, 5, 0]], rows="predicted")},
    "groups": {"groups": np.arange(200) // 2},
    "time": {"time": np.arange(200)},
    "weights": {"sample_weight": np.linspace(0.0, 2.0, 200)},
    "per-sample costs": {"fn": np.linspace(1.0, 9.0, 200)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_with_time_enough_the_limit_changes_nothing(clock, kind):
    X, y = data()
    given = dict(KINDS[kind])
    costs = given.pop("costs", CostMatrix(fp=1, fn=3))
    y = y + (X[:, 2] > 1.0) if kind == "classes" else y
    estimators = ["logistic", GaussianNB()]
    one, other = (
        EnsembleClassifier(costs, estimators=estimators, cv=3, time_limit=limit, random_state=0).fit(X, y, **given)
        for limit in (None, 100)
    )
    assert list(other.estimators_) == ["logistic", "gaussiannb"]
    np.testing.assert_array_equal(one.oof_scores_, other.oof_scores_)
