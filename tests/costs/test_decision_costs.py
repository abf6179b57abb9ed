"""Two sets of costs: predicted ones that decide, and those incurred afterwards."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import CostMatrix
from adacsl.adaptive.controller import AdaCSLController
from adacsl.adaptive.held_out import HeldOut, tune_cut
from adacsl.base.scores import log_odds
from adacsl.costs.instance import bayes_log_odds, row_offsets
from adacsl.costs.matrix import scale_fn
from adacsl.thresholds import find_multipliers

seeds = st.integers(0, 2**32 - 1)


def drawn(seed: int, n: int = 30) -> tuple[CostMatrix, CostMatrix, np.ndarray, np.ndarray]:
    """Return incurred costs, predicted costs, probabilities and labels."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-9, 10)
    paid, known = (
        CostMatrix(fp=scale * rng.choice([0.5, 1.0, 2.0], n), fn=scale * rng.choice([1.0, 5.0, 40.0], n), tn=-scale)
        for _ in range(2)
    )
    return paid, known, rng.choice([0.05, 0.2, 0.5, 0.9], n), rng.integers(0, 2, n)


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_predicted_costs_decide_and_others_are_incurred(seed):
    paid, known, proba, labels = drawn(seed)
    costs = paid.decided_by(known)
    decided = known.decide(proba)
    assert np.array_equal(costs.decide(proba), decided)
    assert np.array_equal(costs.threshold, known.threshold)
    assert np.array_equal(costs.expected(proba), known.expected(proba))
    assert np.array_equal(costs.incurred(labels, decided), paid.incurred(labels, decided))
    assert costs.savings(labels, decided) == paid.savings(labels, decided)
    assert costs.deciding == known
    assert paid.deciding is paid


@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_both_remain(seed):
    paid, known, *_ = drawn(seed)
    costs, some = paid.decided_by(known), np.asarray([3, 1, 4])
    assert costs.rows(some) == paid.rows(some).decided_by(known.rows(some))
    assert costs.reduced() == paid.reduced().decided_by(known.reduced())
    assert costs.averaged() == paid.averaged()
    assert CostMatrix.from_json(costs.to_json()) == costs == pickle.loads(pickle.dumps(costs))  # noqa: S301
    assert costs != paid
    assert costs != paid.decided_by(paid)
    assert np.array_equal(bayes_log_odds(costs), bayes_log_odds(known))
    assert scale_fn(costs, 3.0) == scale_fn(paid, 3.0).decided_by(scale_fn(known, 3.0))
    assert np.array_equal(row_offsets(costs, paid.averaged()), row_offsets(known, paid.averaged()))
    assert "decided_by" in repr(costs)


@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_referrals_are_decided_by_predicted_costs_and_incur_others(seed):
    paid, known, proba, labels = drawn(seed)
    review, costs = 0.3 * float(np.max(paid.fp)), paid.decided_by(known)
    three, predicted = (m.with_referral(review, errors=0.1) for m in (costs, known))
    decided = three.decide(proba)
    assert np.array_equal(decided, predicted.decide(proba))
    assert np.array_equal(three.expected_of_each(proba), predicted.expected_of_each(proba))
    assert three.total(labels, decided) == paid.with_referral(review, errors=0.1).total(labels, decided)
    asked = costs.with_action("ask", review)
    assert np.array_equal(asked.decide(proba), known.with_action("ask", review).decide(proba))
    assert costs.named(["no", "yes"]).deciding == known.named(["no", "yes"])


def test_names_remain():
    tables = np.asarray([[[0, 8.0], [1, 0]], [[0, 4.0], [1, 0]]])
    paid, known = (CostMatrix.from_array(t, rows="predicted", classes=["a", "b"]) for t in (tables, tables[::-1]))
    order = ["b", "a"]
    assert paid.decided_by(known).aligned(order) == paid.aligned(order).decided_by(known.aligned(order))
    with pytest.raises(ValueError, match="same outcomes and samples"):
        paid.decided_by(CostMatrix(fp=1, fn=[1.0, 2.0]))
    with pytest.raises(ValueError, match="same outcomes and samples"):
        CostMatrix(fp=1, fn=8).decided_by(CostMatrix(fp=1, fn=[1.0, 2.0]))


@settings(max_examples=25, deadline=None)
@given(seed=seeds, decide=st.sampled_from(["bayes", "half", "tuned"]))
def test_held_out_samples_are_measured_by_incurred_costs(seed, decide):
    paid, known, proba, labels = drawn(seed)
    labels[:4] = [0, 0, 1, 1]
    costs, logits = paid.decided_by(known), log_odds(proba)
    held = HeldOut(np.arange(len(labels)), labels, costs, decide=decide)
    held.look(logits)
    if decide == "tuned":  # every common shift of the samples' own thresholds, by brute force
        places = logits - bayes_log_odds(known)
        cuts = [-60.0, *(np.unique(places) + 1e-7)]
        expected = min(paid.mean(labels, (places > cut).astype(int)) for cut in cuts)
    else:
        expected = paid.mean(labels, known.decide(proba) if decide == "bayes" else (proba > 0.5).astype(int))
    assert held.latest[0] == pytest.approx(expected, rel=1e-9, abs=1e-12 * float(np.max(paid.fn)))


def test_the_controller_measures_each_sample_at_its_own_threshold():
    rng = np.random.default_rng(0)
    known = CostMatrix(fp=1, fn=rng.choice([1.0, 30.0], 400))
    paid = CostMatrix(fp=1, fn=np.asarray(known.fn) * rng.choice([0.5, 1.5], 400))
    scores, labels = rng.uniform(0.01, 0.99, 400), rng.integers(0, 2, 400)
    usual = CostMatrix(fp=1, fn=15)
    result = AdaCSLController(usual, target_threshold=0.5).step(scores, labels, costs=paid.decided_by(known)).threshold
    moved = log_odds(scores) - bayes_log_odds(known) + bayes_log_odds(usual)
    totals = [paid.total(labels, (moved > cut).astype(int)) for cut in np.sort(moved)]
    # within rounding of the result
    near = [paid.total(labels, (moved > log_odds(np.asarray(result)) + e).astype(int)) for e in (-1e-9, 0.0, 1e-9)]
    assert min(near) == pytest.approx(min(totals))


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_multipliers_of_many_classes_decide_by_predicted_costs(seed):
    rng = np.random.default_rng(seed)
    paid, known = (rng.uniform(0.5, 5.0, (40, 3, 3)) * (1 - np.eye(3)) for _ in range(2))
    costs, predicted = (CostMatrix.from_array(table, rows="predicted") for table in (paid, known))
    proba, labels = rng.dirichlet(np.ones(3), 40), rng.integers(0, 3, 40)
    result = find_multipliers(proba, labels, costs.decided_by(predicted))
    scaled = proba * np.asarray(result.values)
    decided = predicted.decide(scaled / scaled.sum(axis=1, keepdims=True))
    assert result.total_cost == pytest.approx(costs.total(labels, decided))
    assert result.total_cost <= costs.total(labels, predicted.decide(proba)) + 1e-9


def test_tuning_counts_incurred_costs():
    paid, known = CostMatrix(fp=1, fn=[1.0, 1.0, 9.0]), CostMatrix(fp=1, fn=[9.0, 1.0, 1.0])
    total, cut = tune_cut(np.asarray([0.0, -1.0, -1.5]), np.asarray([0, 0, 1]), paid.decided_by(known), None)
    # the samples are at 2.2, -1 and -1.5 from their thresholds: a false negative costs 9, two false positives 2
    assert total == pytest.approx(2.0)
    assert cut < -1.5
