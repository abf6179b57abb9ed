"""Decisions under constraints: counted one by one, with calibration, costs of each sample, and saved."""

import json
import math

import numpy as np
import pytest
from scipy.stats import binom

from adacsl import CostMatrix, Decision, Policy, find_threshold
from adacsl.decision.policy import decide
from adacsl.thresholds.constraints import InfeasibleError

COSTS = CostMatrix(fp=1, fn=2)
FLOOR = {"min_recall": 0.9}
LIMITS = [
    FLOOR,
    {"max_fpr": 0.1},
    {"max_positive_rate": 0.2},
    {"min_precision": 0.6},
    {"min_recall": 0.7, "max_fpr": 0.4},
]


def drawn(n=3000, seed=0, slope=1.0):
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.3).astype(np.int64)
    logits = slope * (1.8 * (rng.normal(1.8 * labels, 1.0) - 0.9) + math.log(0.3 / 0.7))
    return 1.0 / (1.0 + np.exp(-logits)), labels


def errors(decided, labels):
    return int(((decided == 0) & (labels == 1)).sum()), int(((decided == 1) & (labels == 0)).sum())


@pytest.mark.parametrize("limits", LIMITS)
def test_tuned_decisions_are_those_of_the_constrained_search(limits):
    scores, labels = drawn()
    decision = Decision(COSTS, "tuned", constraints=limits).fit(scores, labels)
    best = find_threshold(scores, labels, COSTS, **limits)
    decided = decision.predict(scores)
    fn, fp = errors(decided, labels)
    assert 2 * fn + fp == best.total_cost
    if "min_precision" not in limits:
        np.testing.assert_array_equal(decided, scores > best.value)
    np.testing.assert_array_equal(decided, decision.of_probabilities(decision.probabilities(scores)))
    np.testing.assert_array_equal(decided, (scores > decision.threshold_).astype(int))


def test_bayes_decisions_move_only_as_far_as_the_constraint_asks():
    scores, labels = drawn()
    free = Decision(COSTS).fit(scores, labels)
    slack = Decision(COSTS, constraints={"min_recall": 0.5}).fit(scores, labels)
    np.testing.assert_array_equal(slack.predict(scores), free.predict(scores))
    assert slack.factor_ == pytest.approx(1.0)
    tight = Decision(COSTS, constraints=FLOOR).fit(scores, labels)
    assert tight.factor_ < 1.0
    # the probabilities are still those of the model
    np.testing.assert_array_equal(tight.probabilities(scores), free.probabilities(scores))
    fn, _ = errors(tight.predict(scores), labels)
    most = max(x for x in range(labels.sum()) if binom.cdf(x, labels.sum(), 0.1) <= 0.05)
    assert fn == most
    assert tight.constraints_["min_recall"].estimate == pytest.approx(1 - fn / labels.sum())
    assert tight.constraints_["min_recall"].guaranteed >= 0.9


def test_calibrated_probabilities_are_certified_on_other_samples():
    scores, labels = drawn(slope=2.5)
    decision = Decision(COSTS, "calibrated", constraints=FLOOR).fit(scores, labels)
    with pytest.raises(ValueError, match="not certified yet: call certify"):
        decision.predict(scores)
    others, known = drawn(seed=1, slope=2.5)
    decision.certify(others, known)
    plain = Decision(COSTS, "calibrated").fit(scores, labels)
    np.testing.assert_array_equal(decision.probabilities(others), plain.probabilities(others))
    fn, _ = errors(decision.predict(others), known)
    assert binom.cdf(fn, known.sum(), 0.1) <= 0.05
    near = np.abs(others - decision.threshold_) > 1e-6
    np.testing.assert_array_equal(decision.predict(others)[near], (others > decision.threshold_)[near])
    # without confidence there is nothing that calibration could spoil
    assert Decision(COSTS, "calibrated", constraints=FLOOR | {"confidence": None}).fit(scores, labels).factor_


@pytest.mark.parametrize("how", ["bayes", "tuned"])
def test_one_factor_on_the_odds_of_each_samples_own_threshold(how):
    scores, labels = drawn()
    fn = np.random.default_rng(3).lognormal(0.5, 0.8, len(labels))
    costs = CostMatrix(fp=1, fn=fn)
    decision = Decision(costs.averaged(), how, constraints=FLOOR).fit(scores, labels, costs=costs)
    decided = decision.predict(scores, costs=costs)
    odds, own = scores / (1 - scores), 1 / fn
    if how == "bayes":
        np.testing.assert_array_equal(decided, odds > decision.factor_ * own)
    # brute force over all factors
    ratio = np.log(decision.probabilities(scores) / (1 - decision.probabilities(scores))) + np.log(fn)
    most = max(x for x in range(labels.sum()) if binom.cdf(x, labels.sum(), 0.1) <= 0.05)
    allowed = [t for t in [-1e9, *ratio] if ((ratio <= t) & (labels == 1)).sum() <= most]
    cost = [np.where(labels == 1, fn * (ratio <= t), ratio > t).sum() for t in allowed]
    paid = np.where(labels == 1, fn * (decided == 0), decided == 1).sum()
    assert errors(decided, labels)[0] <= most
    if how == "tuned":
        assert paid == pytest.approx(min(cost))
    assert decision.threshold_for(costs) is None
    # a batch decides as each sample alone
    some = np.asarray([5, 17])
    np.testing.assert_array_equal(decision.predict(scores[some], costs=costs.rows(some)), decided[some])


def test_weights_hold_without_confidence():
    scores, labels = drawn()
    weight = np.random.default_rng(0).integers(1, 5, len(labels)).astype(float)
    decision = Decision(COSTS, constraints=FLOOR | {"confidence": None}).fit(scores, labels, sample_weight=weight)
    caught = weight[(decision.predict(scores) == 1) & (labels == 1)].sum()
    assert caught >= 0.9 * weight[labels == 1].sum()
    with pytest.raises(ValueError, match="leave out sample_weight"):
        Decision(COSTS, constraints=FLOOR).fit(scores, labels, sample_weight=weight)


@pytest.mark.parametrize("limits", LIMITS)
def test_saved_decisions_are_the_same(limits):
    scores, labels = drawn()
    decision = Decision(COSTS, "tuned", constraints=limits).fit(scores, labels)
    again = Decision.from_dict(json.loads(json.dumps(decision.to_dict())), COSTS)
    np.testing.assert_array_equal(again.predict(scores), decision.predict(scores))
    assert again.constraints == decision.constraints
    assert again.constraints_ == decision.constraints_
    assert repr(again) == repr(decision)
    if limits == FLOOR:
        assert "constraints={'min_recall': 0.9, 'confidence': 0.95}" in repr(decision)
        assert "recall at least 0.9 (0.90" in decision._repr_html_()


def test_other_class_wide_costs_do_not_move_the_certified_threshold():
    scores, labels = drawn()
    decision = Decision(COSTS, constraints=FLOOR).fit(scores, labels)
    others = CostMatrix(fp=9, fn=1)
    np.testing.assert_array_equal(decision.predict(scores, costs=others), decision.predict(scores))
    assert decision.threshold_for(others) == decision.probability_threshold


def test_what_does_not_go_together():
    scores, labels = drawn(200)
    with pytest.raises(ValueError, match="constraints are for two classes, the costs have 3"):
        Decision(CostMatrix.from_array(1 - np.eye(3), rows="predicted"), constraints=FLOOR)
    decision = Decision(COSTS, constraints=FLOOR).fit(scores, labels)
    with pytest.raises(ValueError, match=r"a policy .* would move the threshold that the constraints certify"):
        decide(decision.probabilities(scores), decision, np.asarray(["no", "yes"]), policy=Policy(refer=0.2))
    with pytest.raises(InfeasibleError, match="more samples alone do not help"):
        Decision(COSTS, constraints={"min_recall": 0.8, "max_fpr": 0.05}).fit(scores, labels)
    with pytest.raises(ValueError, match="nothing to certify"):
        Decision(COSTS).certify(scores, labels)


def test_constant_decisions_meet_a_constraint_or_not():
    scores, labels = drawn(400)
    always = Decision(COSTS, "positive", constraints=FLOOR).fit(scores, labels)
    assert always.predict(scores).all()
    with pytest.raises(InfeasibleError, match="predicting negative for every sample violates"):
        Decision(COSTS, "negative", constraints=FLOOR).fit(scores, labels)
