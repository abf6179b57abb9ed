"""A deployed model: incurred costs, drift of the data, and recommendations that lower the cost."""

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
def result(model):
    return monitor(model, *drawn(2000, 0.3, 1))


def test_the_cost_is_the_mean_of_incurred_costs(model, result):
    X, y = drawn(2000, 0.3, 1)
    assert result.labels.cost.estimate == pytest.approx(COSTS.mean(y, model.predict(X)))
    assert result.labels.cost.estimate == pytest.approx(-model.score(X, y))
    p = model.predict_proba(X)[:, 1]
    assert result.expected.estimate == pytest.approx(np.mean(COSTS.expected(p, model.predict(X))))
    assert result.decided[1][1] == pytest.approx(np.mean(model.predict(X)))
    assert result.labels.estimated == model.estimated_cost_
    assert result.labels.prior[1].estimate == pytest.approx(y.mean())


def test_the_difference_to_the_estimated_cost_has_an_interval(result):
    labels = result.labels
    assert labels.excess.estimate == pytest.approx(labels.cost.estimate - labels.estimated.estimate)
    width = labels.excess.high - labels.excess.low
    assert width > labels.cost.high - labels.cost.low
    assert result.cost_increased


def test_only_samples_with_labels_are_measured(model, result):
    X, y = drawn(2000, 0.3, 1)
    some = np.random.default_rng(0).random(2000) < 0.5
    partly = monitor(model, X, np.where(some, y, np.nan))
    alone = monitor(model, X[some], y[some])
    assert (partly.rows, partly.labelled) == (2000, some.sum())
    assert partly.labels.cost == alone.labels.cost
    assert partly.labels.saving == alone.labels.saving
    assert partly.prior.now == pytest.approx(result.prior.now)  # all samples count for the priors
    as_objects = monitor(model, X, pd.Series(np.where(some, y, -1)).astype("Int64").where(pd.Series(some)))
    assert as_objects.labels.cost == alone.labels.cost


def test_retuning_is_recommended_where_the_data_have_shifted_and_not_where_not():
    for seed in range(2):
        model = fitted(seed=100 + seed)
        for share in (0.1, 0.3):
            X, y = drawn(2000, share, 200 + seed)
            for labels in (y, None):
                result = monitor(model, X, labels)
                assert result.retune == (share == 0.3)
                assert (result.recommendation != "keep") == (share == 0.3)


def test_retuning_saves_the_estimated_amount(model, result):
    X, y = drawn(2000, 0.3, 1)
    retuned = model.retune(X, y)
    later = drawn(20_000, 0.3, 9)
    saved = retuned.score(*later) - model.score(*later)
    assert result.labels.saving.low <= saved <= result.labels.saving.high
    assert result.retune
    assert str(round(1000 * result.labels.saving.estimate, 1)) in result.headline
    assert 0.5 * saved < result.shifted_costs.saving < 1.5 * saved  # by the estimated priors
    # a retuned model fits such samples
    again = monitor(retuned, *drawn(2000, 0.3, 2))
    assert again.recommendation == "keep"
    assert again.labels.estimated == retuned.estimated_cost_


def test_retuning_changes_no_model_and_is_saved(model, result, tmp_path):
    X, y = drawn(1000, 0.3, 1)
    before = model.predict(X)
    retuned = model.retune(X, y)
    assert (model.predict(X) == before).all()
    loaded = adacsl.load(model.save(tmp_path / "before"))
    assert monitor(loaded, *drawn(2000, 0.3, 1)).sentences == result.sentences
    assert retuned.decision_.decide == "tuned"
    assert retuned.decision_.prior == pytest.approx(y.mean())
    read = adacsl.load(retuned.save(tmp_path / "model"))
    assert (read.predict(X) == retuned.predict(X)).all()
    assert (read.predict(X) != before).any()
    assert (read.reference_scores_ == retuned.reference_scores_).all()
    later = drawn(500, 0.3, 3)
    assert monitor(read, *later).sentences == monitor(retuned, *later).sentences


def test_a_calibrated_model_is_calibrated_again():
    model = fitted(decide="calibrated")
    X, y = drawn(1500, 0.3, 1)
    assert model.retune(X, y).decision_.decide == "calibrated"
    assert model.retune(X, y, decide="tuned").decision_.decide == "tuned"
    assert monitor(model, X, y).retune


def test_costs_of_each_sample(model):
    X, y = drawn(1500, 0.3, 1)
    amounts = np.random.default_rng(0).gamma(1.0, 8.0, 1500)
    result = monitor(model, X, y, fn=amounts, fp=1.0)
    costs = CostMatrix(fp=1, fn=amounts)
    assert result.labels.cost.estimate == pytest.approx(costs.mean(y, model.predict(X, fn=amounts, fp=1.0)))
    assert result.labels.threshold is None
    assert result.decided[0] is None
    assert result.labels.saving.estimate > 0
    assert model.retune(X, y, fn=amounts, fp=1.0).score(X, y, fn=amounts) > model.score(X, y, fn=amounts)


def test_other_costs_are_not_compared_with_the_estimated_cost(model):
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
    result = monitor(model, X, y if known else None)
    assert result.retune
    assert result.prior.now == pytest.approx([0.3, 0.3, 0.4], abs=0.06)
    if known:
        assert result.labels.cost.estimate == pytest.approx(costs.mean(y, model.predict(X)))
    same = monitor(model, *drawn_classes(2000, [0.6, 0.3, 0.1], 2))
    assert not same.retune
    assert json.dumps(result.to_dict(), allow_nan=False)


def test_a_policy_decides_and_has_its_costs(model):
    X, y = drawn(1000, 0.3, 1)
    referring = fitted(policy=Policy(refer=0.5, capacity=100))
    result = monitor(referring, X, y)
    decisions = referring.decisions(X)
    assert result.actions == ("0", "1", "refer")
    assert result.labels.cost.estimate == pytest.approx(decisions.costs.mean(y, decisions.actions))
    assert result.decided[1][2] == pytest.approx(0.1)
    assert result.labels.estimated is None
    # decisions that follow the prior need no retuning
    informed = fitted(policy=Policy(prior=0.3))
    assert not monitor(informed, X, y).retune
    assert not monitor(informed, X).prior_shifted
    assert not monitor(fitted(policy=Policy(prior="em")), X).retune


def test_windows_of_time_add_up(model, result):
    X, y = drawn(2000, 0.3, 1)
    when = np.datetime64("2026-01-01", "h") + np.arange(2000).astype("timedelta64[h]")
    by_time = monitor(model, X, y, time=when)
    rows = np.asarray([window.rows for window in by_time.windows])
    assert rows.sum() == 2000
    assert np.average([w.cost.estimate for w in by_time.windows], weights=rows) == pytest.approx(
        result.labels.cost.estimate
    )
    table = pd.DataFrame(X, columns=list("abc"))
    named = CostSensitiveClassifier(COSTS, learner=LogisticRegression(), random_state=0).fit(table, y)
    assert len(monitor(named, table.assign(when=when), y, time="when").windows) == len(by_time.windows)


def test_groups_widen_the_intervals(model):
    X, y = (np.repeat(part, 10, axis=0) for part in drawn(200, 0.3, 1))
    alone, grouped = (monitor(model, X, y, groups=groups) for groups in (None, np.repeat(np.arange(200), 10)))
    assert grouped.labels.cost.estimate == alone.labels.cost.estimate
    assert grouped.labels.cost.high - grouped.labels.cost.low > 2 * (alone.labels.cost.high - alone.labels.cost.low)


def test_few_labels_give_their_cost_and_the_priors_the_recommendation(model):
    X, y = drawn(2000, 0.3, 1)
    few = np.where(np.arange(2000) < 12, y, np.nan)
    result = monitor(model, X, few)
    assert result.labelled == 12
    assert result.labels.saving is None
    assert result.retune  # by the estimated priors
    assert any("ten labelled samples of each class" in sentence for sentence in result.sentences)


@pytest.mark.parametrize("label", [0, 1])
def test_labels_of_one_class_only(model, label):
    X, _ = drawn(100, 0.3, 1)
    result = monitor(model, X, np.full(100, label))
    assert result.labels.saving is None
    assert json.dumps(result.to_dict(), allow_nan=False)


def test_the_unit_of_costs_changes_nothing():
    samples = drawn(800, 0.3, 1)
    one, *others = (monitor(fitted(CostMatrix(fp=s, fn=8 * s)), *samples) for s in (1.0, 1e-9, 1e9))
    for other, scale in zip(others, (1e-9, 1e9), strict=True):
        assert other.recommendation == one.recommendation
        assert other.labels.saving.low == pytest.approx(scale * one.labels.saving.low, rel=1e-6)


def test_a_constant_model():
    X, y = drawn(500, 0.3, 1)
    result = monitor(adacsl.method("always-negative", COSTS).fit(X, y), X, y)
    assert result.labels.cost.estimate == pytest.approx(8 * y.mean())
    assert result.scores is None
    assert not result.retune
    with pytest.raises(ValueError, match="nothing to re-tune"):
        adacsl.method("always-negative", COSTS).fit(X, y).retune(X, y)


def test_named_classes_of_which_the_first_is_positive():
    X, y = drawn(1500, 0.3, 1)
    names = np.where(y == 1, "bad", "good")
    model = CostSensitiveClassifier(COSTS, learner=LogisticRegression(), pos_label="bad", random_state=0).fit(X, names)
    result = monitor(model, X, names)
    assert result.classes == ("good", "bad")
    assert result.labels.prior[1].estimate == pytest.approx(y.mean())
    assert result.labels.cost.estimate == pytest.approx(-model.score(X, names))


def test_errors(model):
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
    """Samples whose features do not predict the label."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), (rng.random(n) < share).astype(int)


def test_a_constant_that_costs_less_than_the_model_and_the_retuned_one_is_named():
    model = fitted(decide="half", learner=LogisticRegression(class_weight="balanced"))
    X, y = noisy(2000, 0.03, 1)
    result = monitor(model, X, y)
    constant, saving = result.labels.constant, result.labels.saving
    incurred, never = COSTS.incurred(y, model.predict(X)), COSTS.incurred(y, np.zeros_like(y))
    assert constant.decision == "0"
    assert constant.cost == pytest.approx(never.mean())
    assert constant.saving.estimate == pytest.approx(np.mean(incurred - never))
    assert constant.saving.low > 0
    assert result.constant_costs_less
    assert result.recommendation != "keep"
    assert "always deciding 0 costs" in result.headline
    assert result.to_dict()["labels"]["constant"]["saving"]["estimate"] == pytest.approx(constant.saving.estimate)
    assert result.retune
    assert constant.saving_retuned.estimate == pytest.approx(constant.saving.estimate - saving.estimate)
    assert 0 < constant.saving_retuned.estimate <= constant.saving_retuned.high
    assert "than the re-tuned model" in result.headline
    assert any("The best constant baseline, always 0, costs" in sentence for sentence in result.sentences)


def test_a_useful_model_costs_less_than_the_constants(model):
    result = monitor(model, *drawn(2000, 0.1, 2))
    assert result.recommendation == "keep"
    assert result.labels.constant.saving.high < 0
    assert not result.constant_costs_less
    assert any("The best constant baseline" in sentence for sentence in result.sentences)


def test_a_constant_whose_lower_cost_is_not_significant_is_named_only():
    def weak(n, seed):
        rng = np.random.default_rng(seed)
        y = (rng.random(n) < 0.1).astype(int)
        return rng.normal(size=(n, 1)) + 0.25 * y[:, None], y

    model = CostSensitiveClassifier(COSTS, learner=LogisticRegression(), random_state=0).fit(*weak(3000, 0))
    result = monitor(model, *weak(600, 3))
    assert result.labels.constant.saving.low <= 0 < result.labels.constant.saving.estimate
    assert result.recommendation == "keep"
    assert result.headline.endswith("but always deciding 0 would have cost less on these samples.")
    assert "no significant difference" in " ".join(result.sentences)


def test_constants_of_many_classes_and_of_a_policy():
    X, y = drawn_classes(900, (0.8, 0.1, 0.1), 0)
    costs = CostMatrix.from_array(1 - np.eye(3), rows="predicted")
    result = monitor(
        CostSensitiveClassifier(costs, learner=LogisticRegression(), random_state=0).fit(X, y),
        *drawn_classes(900, (0.8, 0.1, 0.1), 1),
    )
    assert result.labels.constant.decision == "0"
    later = drawn(2000, 0.3, 1)
    referring = monitor(fitted(policy=Policy(refer=0.2)), *later).labels.constant
    assert (referring.decision, referring.cost) == ("refer", pytest.approx(0.2))
    limited = monitor(fitted(policy=Policy(refer=0.2, capacity=100)), *later).labels.constant
    assert limited.decision == "1"  # not all samples can be referred


# few samples


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_of_twelve_samples_there_are_intervals_and_no_recommendation(model, labelled, share):
    X, y = drawn(12, share, 5)
    X[:, 0] += 4  # they look different, too
    result = monitor(model, X, y if labelled else None)
    assert result.recommendation == "unresolved"
    assert not result.retune
    assert not result.shifted
    assert result.headline.startswith("No recommendation: 12 samples are too few")
    assert "Re-tuning" not in " ".join(result.sentences)
    assert not labelled or result.labels.cost.low <= result.labels.cost.estimate <= result.labels.cost.high
    assert result.to_dict()["recommendation"] == "unresolved"


def test_twelve_labels_of_many_samples_give_intervals(model):
    X, y = drawn(2000, 0.1, 2)
    result = monitor(model, X, np.where(np.arange(2000) < 12, y, np.nan))
    assert result.recommendation == "keep"
    assert result.headline.endswith("12 labelled samples are too few to judge by their cost.")
    assert not result.cost_increased
