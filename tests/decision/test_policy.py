"""Decisions under a policy: against the core's arithmetic by hand, for two and three classes, saved and loaded."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from adacsl import CostMatrix, Policy, load
from adacsl.datasets.errors import DataError
from adacsl.decision.policy import limit_action, number_periods
from adacsl.decision.priors import estimate_prior, shift_prior
from adacsl.integrations.sklearn import mean_cost
from tests.made import logistic

COSTS = CostMatrix(fp=1, fn=8)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3))
Y = (X[:, 0] + 0.7 * RNG.normal(size=600) > 1).astype(int)
Y3 = np.digitize(X[:, 0] + 0.7 * RNG.normal(size=600), [-0.5, 0.8])
K3 = CostMatrix.from_array([[0, 5, 9], [1, 0, 4], [2, 3, 0]], rows="predicted", classes=["ant", "bee", "cat"])
DAYS = np.datetime64("2026-01-01") + RNG.integers(0, 10, 600)


@pytest.fixture(scope="module")
def model():
    return logistic(COSTS).fit(X, Y)


@pytest.fixture(scope="module")
def words():
    """Two classes with names, of which the first in sorted order is the positive one."""
    labels = np.where(Y == 1, "bad", "good")
    return logistic(COSTS, pos_label="bad").fit(X, labels)


@pytest.fixture(scope="module")
def three():
    labels = np.asarray(["ant", "bee", "cat"])[Y3]
    return logistic(K3).fit(X, labels)


def test_an_empty_policy_changes_nothing(model, words, three):
    for fitted in (model, words, three):
        plain = fitted.predict(X)
        assert (fitted.decisions(X).labels == plain).all()
        assert (fitted.predict(X, policy=Policy()) == plain).all()
        assert fitted.decisions(X).labels.dtype == plain.dtype
        assert fitted.decisions(X).notes == ()
    assert model.score(X, Y) == -COSTS.mean(Y, model.predict(X))


def test_the_class_prior_of_the_training_is_stored(model, three):
    assert model.decision_.prior == pytest.approx(Y.mean())
    np.testing.assert_allclose(three.decision_.prior, np.bincount(Y3) / 600)
    weight = np.where(Y == 1, 3.0, 1.0)
    weighted = logistic(COSTS).fit(X, Y, sample_weight=weight)
    assert weighted.decision_.prior == pytest.approx(weight[Y == 1].sum() / weight.sum())


# the reject option


def test_samples_are_referred_where_that_costs_least(model):
    p = model.predict_proba(X)[:, 1]
    result = model.decisions(X, refer=0.4, errors={"fn": 0.1})
    each = np.stack([8 * p, 1 - p, 0.4 + 0.1 * 8 * p], axis=1)
    assert (result.actions == each.argmin(axis=1)).all()
    np.testing.assert_allclose(result.expected, each.min(axis=1))
    assert result.labels.tolist() == [[0, 1, "refer"][i] for i in each.argmin(axis=1)]
    assert result.counts == {
        "0": (result.actions == 0).sum(),
        "1": (result.actions == 1).sum(),
        "refer": (result.actions == 2).sum(),
    }
    assert 0 < result.counts["refer"] < 600
    assert (model.predict(X, refer=0.4) == model.decisions(X, refer=0.4).labels).all()
    amounts = RNG.lognormal(2, 1, 600)  # per-sample costs
    result = model.decisions(X, refer=0.5, fn=amounts)
    assert (result.actions == np.stack([amounts * p, 1 - p, np.full(600, 0.5)], 1).argmin(axis=1)).all()


def test_names_of_classes_stay(words, three):
    labels = words.predict(X, refer=0.3)
    assert set(labels) == {"good", "bad", "refer"}
    p = words.predict_proba(X)[:, 0]
    assert ((labels == "bad") == ((1 - p < 8 * p) & (1 - p < 0.3))).all()
    result, proba = three.decisions(X, refer=1.0, errors={"cat": 0.2}), three.predict_proba(X)
    each = np.column_stack([K3.expected_of_each(proba), 1 + proba[:, 2] * 0.2 * (9 + 4) / 2])
    assert (result.actions == each.argmin(axis=1)).all()
    assert set(result.labels) == {"ant", "bee", "cat", "refer"}


def test_the_score_counts_the_cost_of_referring(model):
    policy = Policy(refer=0.4, errors=0.05)
    decided = model.predict(X, policy=policy)
    each = {0: {0: 0, 1: 8}, 1: {0: 1, 1: 0}, "refer": {0: 0.4 + 0.05 * 1, 1: 0.4 + 0.05 * 8}}
    paid = [each[d][y] for d, y in zip(decided, Y, strict=True)]
    assert model.score(X, Y, policy=policy) == pytest.approx(-np.mean(paid))
    own = clone(model).set_params(policy=policy).fit(X, Y)
    assert own.score(X, Y) == pytest.approx(-np.mean(paid))
    assert (own.predict(X) == decided).all()
    assert mean_cost(Y, decided, costs=COSTS.with_referral(0.4, errors=0.05)) == pytest.approx(np.mean(paid))


# other actions


def test_a_matrix_of_actions_is_decided_by(words):
    table = pd.DataFrame({"good": [0.0, 1.0, 0.2], "bad": [8.0, 0.0, 1.5]}, index=["good", "bad", "call"])
    matrix = CostMatrix.from_frame(table, rows="predicted")
    p = words.predict_proba(X)[:, 0]  # of "bad"
    each = np.stack([8 * p, 1 - p, 0.2 * (1 - p) + 1.5 * p], axis=1)
    names = np.asarray(["good", "bad", "call"])
    assert (words.predict(X, policy=Policy(actions=matrix)) == names[each.argmin(1)]).all()
    amounts = RNG.lognormal(2, 1, 600)
    each[:, 0] = amounts * p
    assert (words.decisions(X, policy=Policy(actions=matrix), fn=amounts).labels == names[each.argmin(1)]).all()


def test_actions_need_not_be_classes(model):
    matrix = CostMatrix.from_array(
        [[0, 6], [0.5, 2], [3, 0]], rows="predicted", classes=[0, 1], actions=["nothing", "letter", "call"]
    )
    result = model.decisions(X, actions=matrix, capacity=20, action="call")
    assert set(result.labels) == {"nothing", "letter", "call"}
    assert result.counts["call"] == 20
    with pytest.raises(ValueError, match="none of the actions 'nothing', 'letter', 'call' does"):
        model.decisions(X, actions=matrix, fn=np.ones(600))


# capacity


@pytest.mark.parametrize("capacity", [0, 1, 25, 600])
def test_the_positive_class_is_limited_by_gain(model, capacity):
    amounts = RNG.lognormal(2, 1, 600)
    result = model.decisions(X, capacity=capacity, fn=amounts)
    each = CostMatrix(fp=1, fn=amounts).expected_of_each(model.predict_proba(X)[:, 1])
    assert (result.actions == limit_action(each, 1, capacity).actions).all()
    assert result.counts["1"] <= capacity
    assert (model.predict(X, capacity=capacity, fn=amounts) == result.labels).all()


def test_capacity_of_each_day_from_arrays_and_columns(model):
    each = COSTS.expected_of_each(model.predict_proba(X)[:, 1])
    wanted = limit_action(each, 1, 3, DAYS).actions
    assert (model.predict(X, capacity=3, per="day", time=DAYS) == wanted).all()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = logistic(COSTS).fit(frame, Y)
    for table in (
        frame.assign(when=DAYS),
        frame.assign(when=DAYS.astype(str)),
        frame.assign(when=pd.Series(DAYS).dt.tz_localize("Asia/Tokyo")),
        pl.from_pandas(frame.assign(when=DAYS)),
        pl.from_pandas(frame.assign(when=DAYS)).to_arrow(),
    ):
        result = named.decisions(table, capacity=3, per="day", time="when")
        assert (result.labels == wanted).all()
    assert "10 of 10 days short" in result.notes[0]
    assert "wanted '1', 3 a day were there" in result.notes[0]


def test_notes_on_shortage(model):
    result = model.decisions(X, refer=0.3, capacity=5)
    assert result.counts["refer"] == 5
    assert result.notes[0].startswith(f"{(model.predict(X, refer=0.3) == 'refer').sum()} rows wanted 'refer', 5 in all")
    enough = model.decisions(X, capacity=600)
    assert enough.notes[0].endswith("600 in all were there: none went without")
    equal = model.decisions(np.repeat(X[Y == 1][:1], 9, axis=0), capacity=4)
    assert equal.labels.tolist() == [1] * 4 + [0] * 5
    assert equal.notes[1] == "5 rows went without that gain as much as others that did not: row order decided"


def test_classes_of_three_are_limited_by_name(three):
    result = three.decisions(X, capacity=30, action="cat")
    each = K3.expected_of_each(three.predict_proba(X))
    assert (result.actions == limit_action(each, 2, 30).actions).all()
    with pytest.raises(ValueError, match="name the limited action: action= one of 'ant', 'bee', 'cat'"):
        three.decisions(X, capacity=30)


def test_periods_by_the_calendar():
    days = pd.date_range("2025-12-28", "2026-03-02", freq="6h").to_series()
    for per, freq in (("hour", "h"), ("day", "D"), ("week", "W-SUN"), ("month", "M")):
        ours = number_periods(days, per)
        theirs = days.dt.to_period(freq).astype(str).to_numpy()
        pairs = set(zip(ours.tolist(), theirs.tolist(), strict=True))
        assert len(pairs) == len(set(ours.tolist())) == len(set(theirs.tolist()))


# prior shift


@pytest.mark.parametrize("prior", [0.02, 0.9])
def test_a_known_prior_moves_probabilities_and_decisions(model, words, prior):
    for fitted, column in ((model, 1), (words, 0)):
        p = fitted.predict_proba(X)[:, column]
        moved = shift_prior(p, fitted.decision_.prior, prior)
        result = fitted.decisions(X, prior=prior)
        np.testing.assert_allclose(result.probabilities, moved)
        assert (result.actions == COSTS.decide(moved)).all()
        assert result.prior == prior
        assert f"given: {100 * prior:g} % ({100 * Y.mean():.3g} % in training)" in result.notes[0]
    assert (words.predict(X, prior={"bad": prior, "good": 1 - prior}) == words.predict(X, prior=prior)).all()


def test_a_prior_is_estimated_on_the_rows(model, three):
    rows = np.concatenate([np.flatnonzero(Y == 0), np.flatnonzero(Y == 1)[:12]])
    p = model.predict_proba(X[rows])[:, 1]
    result = model.decisions(X[rows], prior="em")
    assert result.prior == pytest.approx(estimate_prior(p, float(Y.mean())))
    assert result.prior < Y.mean() / 2
    many = three.decisions(X, prior="em")
    np.testing.assert_allclose(many.prior, estimate_prior(three.predict_proba(X), three.decision_.prior))
    assert "bee" in many.notes[0]
    some = three.decisions(X, prior=[0.1, 0.1, 0.8])
    np.testing.assert_allclose(
        some.probabilities, shift_prior(three.predict_proba(X), three.decision_.prior, [0.1, 0.1, 0.8])
    )


def test_all_at_once(model):
    result = model.decisions(X, refer=0.4, capacity=2, per="day", time=DAYS, prior=0.05)
    p = shift_prior(model.predict_proba(X)[:, 1], model.decision_.prior, 0.05)
    each = COSTS.with_referral(0.4).expected_of_each(p)
    assert (result.actions == limit_action(each, 2, 2, DAYS).actions).all()
    np.testing.assert_allclose(result.expected, each[np.arange(600), result.actions])


# saved


@pytest.mark.parametrize(
    "policy",
    [
        Policy(refer=0.4, errors={"fp": 0.01, "fn": 0.1}, capacity=7, prior=0.05),
        Policy(actions=COSTS.with_action("call", [0.2, 1.5]), capacity=3, action="call", per="week", time="when"),
        Policy(prior="em"),
        Policy(refer=1.0, errors=((0.9, 0.0), (0.1, 1.0))),
    ],
)
def test_a_policy_is_saved_with_the_model(model, policy, tmp_path):
    document = json.loads(json.dumps(policy.to_dict()))
    assert Policy.from_dict(document).to_dict() == policy.to_dict()
    own = clone(model).set_params(policy=policy).fit(X, Y)
    read = load(own.save(tmp_path / "model"))
    assert read.policy.to_dict() == policy.to_dict()
    assert read.decision_.prior == own.decision_.prior
    if policy.time is None:
        assert (read.predict(X) == own.predict(X)).all()
        assert read.decisions(X).notes == own.decisions(X).notes


def test_a_model_without_the_class_prior_of_its_training_is_an_error(model, tmp_path):
    read = load(model.save(tmp_path / "model"))
    read.decision_.prior = None
    assert (read.predict(X) == model.predict(X)).all()
    with pytest.raises(ValueError, match="holds no class prior of its training"):
        read.predict(X, prior=0.1)


def test_costs_over_columns_are_per_sample_costs(tmp_path):
    amount = RNG.lognormal(2, 1, 600)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(amount=amount)
    policy = Policy(refer=0.5, capacity=4, per="day", time="when")
    named = logistic(CostMatrix(fp=1, fn="amount"), policy=policy)
    named.fit(table, Y)
    result = named.decisions(table.assign(when=DAYS))
    each = CostMatrix(fp=1, fn=amount).with_referral(0.5).expected_of_each(named.predict_proba(table)[:, 1])
    assert (result.actions == limit_action(each, 2, 4, DAYS).actions).all()
    paid = CostMatrix(fp=1, fn=amount).with_referral(0.5).mean(Y, result.actions)
    assert named.score(table.assign(when=DAYS), Y) == pytest.approx(-paid)
    assert (load(named.save(tmp_path / "model")).predict(table.assign(when=DAYS)) == result.labels).all()


# what is refused


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"refer": -1}, ValueError, "refer must be a cost"),
        ({"errors": 0.1}, ValueError, "errors needs refer"),
        ({"action": "x"}, ValueError, "action needs capacity"),
        ({"per": "day"}, ValueError, "per needs capacity"),
        ({"capacity": 3, "time": "when"}, ValueError, "time needs per"),
        ({"capacity": 3, "per": "year"}, ValueError, "per must be one of 'hour', 'day'"),
        ({"capacity": 2.5}, ValueError, "whole number"),
        ({"prior": "auto"}, ValueError, "'em'"),
        ({"actions": COSTS}, ValueError, "others than predicting"),
        ({"actions": [[1, 2]]}, TypeError, "must be a CostMatrix"),
    ],
)
def test_policies_that_make_no_sense_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        Policy(**settings)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"prior": 1.5}, ValueError, "between 0 and 1"),
        ({"prior": [0.5, 0.5]}, ValueError, "the share of '1'"),
        ({"prior": {"0": 0.5}}, ValueError, "the share of each of '0', '1'"),
        ({"capacity": 3, "action": "call"}, ValueError, "there is no action 'call' to limit"),
        ({"capacity": 3, "per": "day"}, ValueError, "needs the time of each row"),
        ({"capacity": 3, "per": "day", "time": "when"}, DataError, "X is not a table"),
        ({"capacity": 3, "per": "day", "time": np.arange(600)}, ValueError, "must be dates"),
        ({"capacity": 3, "per": "day", "time": DAYS[:5]}, ValueError, "one date for each of 600 rows, got 5"),
        ({"capacity": 3, "per": "day", "time": np.where(Y, DAYS, np.datetime64("NaT"))}, ValueError, "is missing in"),
        ({"limit": 3}, TypeError, "a policy has no setting 'limit'"),
        ({"policy": {"refer": 3}}, TypeError, "policy must be a Policy"),
    ],
)
def test_settings_that_do_not_fit_the_samples_are_refused(model, settings, error, message):
    with pytest.raises(error, match=message):
        model.decisions(X, **settings)


def test_models_that_take_no_policy(model, tmp_path):
    with pytest.raises(ValueError, match="decide='half' does not use"):
        logistic(COSTS, decide="half").fit(X, Y).predict(X, capacity=3)
    named = logistic(COSTS).fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    with pytest.raises(ValueError, match=r"X has no column 'when' .*a, b, c"):
        named.predict(pd.DataFrame(X, columns=["a", "b", "c"]), capacity=3, per="day", time="when")
    arrays = clone(model).set_params(policy=Policy(capacity=3, per="day", time=DAYS)).fit(X, Y)
    with pytest.raises(ValueError, match="let time name their column"):
        arrays.save(tmp_path / "model")


def test_the_column_of_the_models_own_times_is_taken_under_any_policy():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200)})
    y, timed = (X["a"] > 0.5).astype(int), X.assign(when=np.datetime64("2024-01-01") + np.arange(200) // 20)
    own = Policy(refer=0.3, capacity=2, per="day", time="when")
    model = logistic(CostMatrix(fp=1, fn=5), policy=own).fit(X, y)
    for policy in (Policy(), Policy(refer=0.3)):
        np.testing.assert_array_equal(
            model.decisions(timed, policy=policy).actions, model.decisions(X, policy=policy).actions
        )
        np.testing.assert_array_equal(model.predict(timed, policy=policy), model.predict(X, policy=policy))
        assert model.score(timed, y, policy=policy) == model.score(X, y, policy=policy)
    np.testing.assert_array_equal(model.predict_proba(timed), model.predict_proba(X))
    with pytest.raises(ValueError, match="unseen at fit time"):
        model.decisions(timed.assign(other=1), policy=Policy())
