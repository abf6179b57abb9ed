"""Per-sample costs: each sample at its own threshold, and probabilities of a loss weighted by them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from adacsl import AdaCSLController, CostMatrix
from adacsl.costs.instance import LEAST, at_one_threshold, relative_costs, row_offsets, row_weights

COST = st.floats(1e-6, 1e6)  # beyond, thresholds round to 1


def costs_of(fp, fn):
    return CostMatrix(fp=np.asarray(fp, dtype=float), fn=np.asarray(fn, dtype=float))


@settings(max_examples=60, deadline=None)
@given(
    raw=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20),
    fp=COST, fn=COST, target_threshold=st.floats(0.01, 0.99), seed=st.integers(0, 99),
)  # fmt: skip
def test_raw_above_t_prime_is_corrected_above_each_samples_own_threshold(raw, fp, fn, target_threshold, seed):
    rng, raw = np.random.default_rng(seed), np.asarray(raw)
    own = costs_of(fp * rng.uniform(0.02, 9, len(raw)), fn * rng.uniform(0.02, 9, len(raw)))
    controller = AdaCSLController(CostMatrix(fp=fp, fn=fn), target_threshold=target_threshold, instance_weighted=True)
    proba = controller.correct(raw, own)
    assert np.array_equal(own.decide(proba), (raw > target_threshold).astype(int))
    inside = (raw > 1e-6) & (raw < 1 - 1e-6)
    # the odds of the loss are those of the probability times the ratio of costs, fn to fp
    by_hand = logit(raw[inside]) - logit(target_threshold) + np.log(own.fp[inside] / own.fn[inside])
    assert proba[inside] == pytest.approx(expit(by_hand), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("kind", ["numpy", "float32", "torch"])
def test_every_library_and_precision_decides_alike(kind):
    rng = np.random.default_rng(0)
    raw, own = rng.random(500), costs_of(rng.uniform(0.1, 3, 500), rng.lognormal(2, 1, 500))
    raw[:2] = 0.3, np.nextafter(0.3, 1)
    usual = own.averaged()
    given = raw if kind == "numpy" else raw.astype(np.float32) if kind == "float32" else torch.tensor(raw)
    controller = AdaCSLController(usual, target_threshold=0.3, instance_weighted=True)
    decided = np.asarray(own.decide(controller.correct(given, own)))
    assert np.array_equal(decided, np.asarray(given > (np.float32(0.3) if kind == "float32" else 0.3)).astype(int))


def test_without_own_costs_a_sample_has_the_mean_costs():
    usual, raw = CostMatrix(fp=1, fn=8), np.linspace(0, 1, 11)
    plain, rows = (AdaCSLController(usual, instance_weighted=given) for given in (False, True))
    assert np.array_equal(rows.correct(raw), plain.correct(raw))
    assert np.array_equal(rows.correct(raw, usual), plain.correct(raw))
    # the probability of a loss that weighs classes alone does not depend on them
    assert np.array_equal(plain.correct(raw, costs_of([1.0] * 11, [3.0] * 11)), plain.correct(raw))


def test_errors_of_little_or_no_cost_stay_finite():
    own = costs_of([1, 1, 0, 0, 1], [0, 1e-9, 8, 0, 8])
    usual = CostMatrix(fp=1, fn=8)
    offsets = row_offsets(own, usual)
    assert np.isfinite(offsets).all()
    assert offsets[:2] == pytest.approx(-np.log(LEAST))
    assert offsets[4] == 0.0
    weights = row_weights(own, usual, np.ones(5))
    assert weights.tolist() == [LEAST, LEAST, 1.0, LEAST, 1.0]
    proba = AdaCSLController(usual, instance_weighted=True).correct(np.full(5, 0.6), own)
    assert np.isfinite(proba).all()
    # where a false negative is free, 0 is predicted; where a false positive is free, 1
    assert np.asarray(own.decide(proba)).tolist() == [0, 0, 1, 0, 1]


def test_relative_costs_of_k_classes_are_means_over_the_errors():
    table = np.random.default_rng(0).uniform(1, 5, (6, 3, 3))
    table[:, range(3), range(3)] = 0.5
    costs = CostMatrix.from_array(table, rows="predicted")
    usual = costs.averaged()
    result = relative_costs(costs, usual)
    for n in range(6):
        for j in range(3):
            own = sum(table[n, i, j] - table[n, j, j] for i in range(3) if i != j)
            mean = sum(table[:, i, j].mean() - 0.5 for i in range(3) if i != j)
            assert result[n, j] == pytest.approx(own / mean)


@pytest.mark.parametrize("instance_weighted", [False, True])
def test_lambda_is_the_optimal_factor_of_all_odds(instance_weighted):
    """Against brute force: each row at its own threshold, odds multiplied by every factor that can matter."""
    rng = np.random.default_rng(3)
    n = 60
    proba, labels = rng.random(n), rng.integers(0, 2, n)
    own = costs_of(rng.uniform(0.5, 2, n), rng.lognormal(1, 1, n))
    usual = own.averaged(labels)
    own_odds = np.asarray(own.fp / own.fn)
    raw = proba  # as if lambda were 1: raw scores of a class-weighted loss at T' = T are probabilities
    target_threshold = float(usual.threshold)
    if instance_weighted:
        raw = expit(logit(proba) - np.log(own_odds) + logit(target_threshold))
    controller = AdaCSLController(
        usual, target_threshold=target_threshold, update="odds", instance_weighted=instance_weighted
    )
    step = controller.step(raw, labels, costs=own)

    def cost(factor):  # lambda divides the odds of all rows
        decided = proba / (1 - proba) / factor > own_odds
        return own.total(labels, decided)

    cuts = np.sort(proba / (1 - proba) / own_odds)
    tried = np.concatenate(([cuts[0] / 2], (cuts[1:] + cuts[:-1]) / 2, [cuts[-1] * 2]))
    # the threshold is at an end of the optimal ones, beside a score
    assert min(cost(step.lambda_ * (1 + e)) for e in (-1e-9, 1e-9)) == pytest.approx(min(map(cost, tried)))
    assert step.lambda_ != 1.0
    assert step.cost * n == pytest.approx(cost(1.0))


def test_scores_of_samples_with_the_mean_costs_stay_to_the_last_bit():
    usual, scores = CostMatrix(fp=1, fn=8), np.random.default_rng(0).random(9)
    own = costs_of([1.0] * 9, [8.0] * 8 + [4.0])
    moved = at_one_threshold(scores, own, usual)
    assert np.array_equal(moved[:8], scores[:8])
    assert moved[8] == pytest.approx(expit(logit(scores[8]) - np.log(2)))
    with pytest.raises(ValueError, match="belong to 9 samples, got 3"):
        at_one_threshold(scores[:3], own, usual)


def test_the_state_includes_instance_weighted():
    saved = AdaCSLController(CostMatrix(fp=1, fn=8), instance_weighted=True).state_dict()
    with pytest.raises(ValueError, match="instance_weighted=True"):
        AdaCSLController(CostMatrix(fp=1, fn=8)).load_state_dict(saved)


def test_controller_of_k_classes_undoes_the_weights_of_samples():
    rng = np.random.default_rng(1)
    table = rng.uniform(1, 5, (200, 3, 3))
    table[:, range(3), range(3)] = 0.0
    costs = CostMatrix.from_array(table, rows="predicted")
    proba, labels = rng.dirichlet(np.ones(3), 200), rng.integers(0, 3, 200)
    usual = costs.averaged(labels)
    weighted = proba * np.exp(-row_offsets(costs, usual))
    weighted /= weighted.sum(1, keepdims=True)
    plain = AdaCSLController(usual).step(proba, labels, costs=costs)
    rows = AdaCSLController(usual, instance_weighted=True)
    result = rows.step(weighted, labels, costs=costs)
    assert result.cost == pytest.approx(plain.cost)
    assert result.lambdas == pytest.approx(plain.lambdas)
    assert rows.correct(weighted, costs) == pytest.approx(proba)
