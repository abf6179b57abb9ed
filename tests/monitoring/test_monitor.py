"""A model in use: costs as they were paid, shifts as they were drawn, advice that pays."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import adacsl
from adacsl import CostMatrix, CostSensitiveClassifier, Policy, monitor

COSTS = CostMatrix(fp=1, fn=8)


def drawn(n, share, seed):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, 3)) + y[:, None], y


def drawn_classes(n, shares, seed):
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=shares)
    return rng.normal(size=(n, 3)) + 2 * np.eye(3)[y], y


def fitted(costs=COSTS, seed=0, **settings):
    settings = {"learner": LogisticRegression()} | settings
    return CostSensitiveClassifier(costs, random_state=0, **settings).fit(*drawn(2000, 0.1, seed))


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def found(model):
    return monitor(model, *drawn(2000, 0.3, 1))


def test_the_cost_is_the_mean_of_what_was_paid(model, found):
    X, y = drawn(2000, 0.3, 1)
    assert found.labels.cost.estimate == pytest.approx(COSTS.mean(y, model.predict(X)))
    assert found.labels.cost.estimate == pytest.approx(-model.score(X, y))
    p = model.predict_proba(X)[:, 1]
    assert found.expected.estimate == pytest.approx(np.mean(COSTS.expected(p, model.predict(X))))
    assert found.decided[1][1] == pytest.approx(np.mean(model.predict(X)))
    assert found.labels.estimated == model.estimated_cost_
    assert found.labels.prior[1].estimate == pytest.approx(y.mean())


def test_a_difference_to_the_promise_has_an_interval(found):
    labels = found.labels
    assert labels.excess.estimate == pytest.approx(labels.cost.estimate - labels.estimated.estimate)
    width = labels.excess.high - labels.excess.low
    assert width > labels.cost.high - labels.cost.low
    assert found.cost_increased


def test_rows_with_labels_alone_are_judged(model, found):
    X, y = drawn(2000, 0.3, 1)
    some = np.random.default_rng(0).random(2000) < 0.5
    partly = monitor(model, X, np.where(some, y, np.nan))
    alone = monitor(model, X[some], y[some])
    assert (partly.rows, partly.labelled) == (2000, some.sum())
    assert partly.labels.cost == alone.labels.cost
    assert partly.labels.saving == alone.labels.saving
    assert partly.prior.now == pytest.approx(found.prior.now)  # all rows speak of the shares
    as_objects = monitor(model, X, pd.Series(np.where(some, y, -1)).astype("Int64").where(pd.Series(some)))
    assert as_objects.labels.cost == alone.labels.cost


def test_to_retune_is_advised_where_the_data_have_shifted_and_not_where_not():
    advised = {(share, known): 0 for share in (0.1, 0.3) for known in (True, False)}
    shifted = 0
    for seed in range(4):
        model = fitted(seed=100 + seed)
        for share in (0.1, 0.3):
            X, y = drawn(2000, share, 200 + seed)
            for known in (True, False):
                one = monitor(model, X, y if known else None)
                advised[share, known] += one.retune
                shifted += one.recommendation != "keep" and share == 0.3
    assert advised[0.1, True] == advised[0.1, False] == 0
    assert advised[0.3, True] >= 3
    assert advised[0.3, False] == 4
    assert shifted == 8


def test_retuning_saves_what_was_said(model, found):
    X, y = drawn(2000, 0.3, 1)
    retuned = model.retune(X, y)
    later = drawn(20_000, 0.3, 9)
    saved = retuned.score(*later) - model.score(*later)
    assert found.labels.saving.low <= saved <= found.labels.saving.high
    assert found.retune
    assert str(round(1000 * found.labels.saving.estimate, 1)) in found.headline
    assert 0.5 * saved < found.shifted_costs.saving < 1.5 * saved  # as the estimated shares had it
    # a model that was retuned is at home among such rows
    again = monitor(retuned, *drawn(2000, 0.3, 2))
    assert again.recommendation == "keep"
    assert again.labels.estimated == retuned.estimated_cost_


def test_retuning_leaves_the_model_alone_and_is_kept(model, tmp_path):
    X, y = drawn(1000, 0.3, 1)
    before = model.predict(X)
    retuned = model.retune(X, y)
    assert (model.predict(X) == before).all()
    assert retuned.decision_.decide == "tuned"
    assert retuned.decision_.prior == pytest.approx(y.mean())
    read = adacsl.load(retuned.save(tmp_path / "model"))
    assert (read.predict(X) == retuned.predict(X)).all()
    assert (read.predict(X) != before).any()
    assert (read.reference_scores_ == retuned.reference_scores_).all()
    later = drawn(500, 0.3, 3)
    assert monitor(read, *later).sentences == monitor(retuned, *later).sentences


def test_a_loaded_model_finds_the_same(model, found, tmp_path):
    read = adacsl.load(model.save(tmp_path / "model"))
    assert monitor(read, *drawn(2000, 0.3, 1)).sentences == found.sentences


def test_what_was_calibrated_is_calibrated_anew():
    model = fitted(decide="calibrated")
    X, y = drawn(1500, 0.3, 1)
    assert model.retune(X, y).decision_.decide == "calibrated"
    assert model.retune(X, y, decide="tuned").decision_.decide == "tuned"
    assert monitor(model, X, y).retune


def test_costs_of_each_row(model):
    X, y = drawn(1500, 0.3, 1)
    amounts = np.random.default_rng(0).gamma(1.0, 8.0, 1500)
    found = monitor(model, X, y, fn=amounts, fp=1.0)
    costs = CostMatrix(fp=1, fn=amounts)
    assert found.labels.cost.estimate == pytest.approx(costs.mean(y, model.predict(X, fn=amounts, fp=1.0)))
    assert found.labels.threshold is None
    assert found.decided[0] is None
    assert found.labels.saving.estimate > 0
    assert model.retune(X, y, fn=amounts, fp=1.0).score(X, y, fn=amounts) > model.score(X, y, fn=amounts)


def test_other_prices_are_not_held_against_the_promise(model):
    X, y = drawn(500, 0.1, 1)
    assert monitor(model, X, y, fn=3).labels.estimated is None
    assert monitor(model, X, y, fn=8).labels.estimated == model.estimated_cost_


@pytest.mark.parametrize("known", [True, False])
def test_three_classes(known):
    costs = CostMatrix.from_array([[0, 1, 20], [1, 0, 5], [1, 1, 0]], rows="predicted")
    model = CostSensitiveClassifier(costs, learner=LogisticRegression(), random_state=0).fit(
        *drawn_classes(2000, [0.6, 0.3, 0.1], 0)
    )
    X, y = drawn_classes(2000, [0.3, 0.3, 0.4], 1)
    found = monitor(model, X, y if known else None)
    assert found.retune
    assert found.prior.now == pytest.approx([0.3, 0.3, 0.4], abs=0.06)
    if known:
        assert found.labels.cost.estimate == pytest.approx(costs.mean(y, model.predict(X)))
    same = monitor(model, *drawn_classes(2000, [0.6, 0.3, 0.1], 2))
    assert not same.retune
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_a_policy_is_decided_and_priced_by(model):
    X, y = drawn(1000, 0.3, 1)
    referring = fitted(policy=Policy(refer=0.5, capacity=100))
    found = monitor(referring, X, y)
    decisions = referring.decisions(X)
    assert found.actions == ("0", "1", "refer")
    assert found.labels.cost.estimate == pytest.approx(decisions.costs.mean(y, decisions.actions))
    assert found.decided[1][2] == pytest.approx(0.1)
    assert found.labels.estimated is None
    # decisions that follow the shares need no retuning
    knowing = fitted(policy=Policy(prior=0.3))
    assert not monitor(knowing, X, y).retune
    assert not monitor(knowing, X).prior_shifted
    assert not monitor(fitted(policy=Policy(prior="em")), X).retune


def test_windows_of_time_add_up(model, found):
    X, y = drawn(2000, 0.3, 1)
    when = np.datetime64("2026-01-01", "h") + np.arange(2000).astype("timedelta64[h]")
    by_time = monitor(model, X, y, time=when)
    rows = np.asarray([window.rows for window in by_time.windows])
    assert rows.sum() == 2000
    assert np.average([w.cost.estimate for w in by_time.windows], weights=rows) == pytest.approx(
        found.labels.cost.estimate
    )
    table = pd.DataFrame(X, columns=list("abc"))
    named = CostSensitiveClassifier(COSTS, learner=LogisticRegression(), random_state=0).fit(table, y)
    assert len(monitor(named, table.assign(when=when), y, time="when").windows) == len(by_time.windows)


def test_groups_widen_the_intervals(model):
    X, y = (np.repeat(part, 10, axis=0) for part in drawn(200, 0.3, 1))
    alone, grouped = (monitor(model, X, y, groups=groups) for groups in (None, np.repeat(np.arange(200), 10)))
    assert grouped.labels.cost.estimate == alone.labels.cost.estimate
    assert grouped.labels.cost.high - grouped.labels.cost.low > 2 * (alone.labels.cost.high - alone.labels.cost.low)


def test_few_labels_say_what_they_cost_and_leave_the_advice_to_the_shares(model):
    X, y = drawn(2000, 0.3, 1)
    few = np.where(np.arange(2000) < 12, y, np.nan)
    found = monitor(model, X, few)
    assert found.labelled == 12
    assert found.labels.saving is None
    assert found.retune  # by the estimated shares
    assert any("ten labelled samples of each class" in sentence for sentence in found.sentences)


@pytest.mark.parametrize("label", [0, 1])
def test_labels_of_one_class_only(model, label):
    X, _ = drawn(100, 0.3, 1)
    found = monitor(model, X, np.full(100, label))
    assert found.labels.saving is None
    assert json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_unit_of_money_changes_nothing(scale):
    rows = drawn(800, 0.3, 1)
    one, other = (monitor(fitted(CostMatrix(fp=s, fn=8 * s)), *rows) for s in (1.0, scale))
    assert other.recommendation == one.recommendation
    assert other.labels.saving.low == pytest.approx(scale * one.labels.saving.low, rel=1e-6)


def test_a_model_that_always_decides_the_same():
    X, y = drawn(500, 0.3, 1)
    found = monitor(adacsl.method("always-negative", COSTS).fit(X, y), X, y)
    assert found.labels.cost.estimate == pytest.approx(8 * y.mean())
    assert found.scores is None
    assert not found.retune
    with pytest.raises(ValueError, match="nothing to re-tune"):
        adacsl.method("always-negative", COSTS).fit(X, y).retune(X, y)


def test_named_classes_of_which_the_first_is_positive():
    X, y = drawn(1500, 0.3, 1)
    names = np.where(y == 1, "bad", "good")
    model = CostSensitiveClassifier(COSTS, learner=LogisticRegression(), pos_label="bad", random_state=0).fit(X, names)
    found = monitor(model, X, names)
    assert found.classes == ("good", "bad")
    assert found.labels.prior[1].estimate == pytest.approx(y.mean())
    assert found.labels.cost.estimate == pytest.approx(-model.score(X, names))


def test_errors_say_what_to_do(model):
    X, y = drawn(50, 0.3, 1)
    for given, message in (
        ({"level": 1.0}, "level"), ({"tolerance": -1}, "tolerance"), ({"fn": np.ones(3)}, "3 for 50 samples"),
        ({"time": "when"}, "X is not a table"), ({"time": [1.0]}, "inconsistent"), ({"groups": [1]}, "inconsistent"),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=message):
            monitor(model, X, y, **given)
    with pytest.raises(ValueError, match="not in training"):
        monitor(model, X, np.full(50, 7))
    with pytest.raises(ValueError, match="None where"):
        monitor(model, X, y[:10])
    with pytest.raises(ValueError, match="at least 10 labelled samples of each class"):
        model.retune(X[:12], y[:12])
    with pytest.raises(ValueError, match="'tuned' or 'calibrated'"):
        model.retune(X, y, decide="bayes")


# constant decisions


def noisy(n, share, seed):
    """Rows whose features say nothing about the label."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), (rng.random(n) < share).astype(int)


def test_a_constant_that_costs_less_is_named():
    model = fitted(decide="half", learner=LogisticRegression(class_weight="balanced"))
    X, y = noisy(2000, 0.03, 1)
    found = monitor(model, X, y)
    constant = found.labels.constant
    paid, never = COSTS.incurred(y, model.predict(X)), COSTS.incurred(y, np.zeros_like(y))
    assert constant.decision == "0"
    assert constant.cost == pytest.approx(never.mean())
    assert constant.saving.estimate == pytest.approx(np.mean(paid - never))
    assert constant.saving.low > 0
    assert found.constant_costs_less
    assert found.recommendation != "keep"
    assert "always deciding 0 costs" in found.headline
    assert found.to_dict()["labels"]["constant"]["saving"]["estimate"] == pytest.approx(constant.saving.estimate)


def test_a_constant_that_costs_less_than_the_retuned_model_is_named():
    model = fitted(decide="half", learner=LogisticRegression(class_weight="balanced"))
    found = monitor(model, *noisy(2000, 0.03, 1))
    assert found.retune
    constant = found.labels.constant
    assert constant.saving_retuned.estimate == pytest.approx(constant.saving.estimate - found.labels.saving.estimate)
    assert 0 < constant.saving_retuned.estimate <= constant.saving_retuned.high
    assert "than the re-tuned model" in found.headline
    assert any("The best constant baseline, always 0, costs" in sentence for sentence in found.sentences)


def test_a_useful_model_costs_less_than_the_constants(model):
    found = monitor(model, *drawn(2000, 0.1, 2))
    assert found.recommendation == "keep"
    assert found.labels.constant.saving.high < 0
    assert not found.constant_costs_less
    assert any("The best constant baseline" in sentence for sentence in found.sentences)


def test_a_constant_that_costs_less_by_chance_is_named_without_alarm():
    def weak(n, seed):
        rng = np.random.default_rng(seed)
        y = (rng.random(n) < 0.1).astype(int)
        return rng.normal(size=(n, 1)) + 0.25 * y[:, None], y

    model = CostSensitiveClassifier(COSTS, learner=LogisticRegression(), random_state=0).fit(*weak(3000, 0))
    found = monitor(model, *weak(600, 3))
    assert found.labels.constant.saving.low <= 0 < found.labels.constant.saving.estimate
    assert found.recommendation == "keep"
    assert found.headline.endswith("but always deciding 0 would have cost less on these samples.")
    assert "no significant difference" in " ".join(found.sentences)


def test_constants_of_many_classes_and_of_a_policy():
    X, y = drawn_classes(900, (0.8, 0.1, 0.1), 0)
    costs = CostMatrix.from_array(1 - np.eye(3), rows="predicted")
    found = monitor(
        CostSensitiveClassifier(costs, learner=LogisticRegression(), random_state=0).fit(X, y),
        *drawn_classes(900, (0.8, 0.1, 0.1), 1),
    )
    assert found.labels.constant.decision == "0"
    later = drawn(2000, 0.3, 1)
    referring = monitor(fitted(policy=Policy(refer=0.2)), *later).labels.constant
    assert (referring.decision, referring.cost) == ("refer", pytest.approx(0.2))
    limited = monitor(fitted(policy=Policy(refer=0.2, capacity=100)), *later).labels.constant
    assert limited.decision == "1"  # not everybody can be referred


# few rows


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_of_twelve_rows_there_are_intervals_and_no_recommendation(model, labelled, share):
    X, y = drawn(12, share, 5)
    X[:, 0] += 4  # they look different, too
    found = monitor(model, X, y if labelled else None)
    assert found.recommendation == "unresolved"
    assert not found.retune
    assert not found.shifted
    assert found.headline.startswith("No recommendation: 12 samples are too few")
    assert "Re-tuning" not in " ".join(found.sentences)
    assert not labelled or found.labels.cost.low <= found.labels.cost.estimate <= found.labels.cost.high
    assert found.to_dict()["recommendation"] == "unresolved"


def test_twelve_labels_of_many_rows_give_intervals(model):
    X, y = drawn(2000, 0.1, 2)
    found = monitor(model, X, np.where(np.arange(2000) < 12, y, np.nan))
    assert found.recommendation == "keep"
    assert found.headline.endswith("12 labelled samples are too few to judge by their cost.")
    assert not found.cost_increased
