"""The paper's theorems and lemmas, checked numerically on data whose posterior is known."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from adacsl import AdaCSLController, CostMatrix, find_threshold
from adacsl.adaptive import step_factor
from adacsl.torch import AdaptiveCrossEntropy, AdaptiveFocalLoss, WeightedCrossEntropy

COSTS = [(1.0, 1.0), (1.0, 4.0), (5.0, 2.0), (1.0, 30.0)]
TARGETS = [0.2, 0.5, 0.75]


def population(levels, size):
    """Samples whose share of positives at each level is the level itself: perfectly calibrated, without noise."""
    assert np.allclose(levels * size, np.round(levels * size))
    scores = np.repeat(levels, size)
    labels = np.concatenate([np.arange(size) < round(level * size) for level in levels]).astype(int)
    return scores, labels


def minimiser(loss, posterior, model=None):
    """Minimise the loss over free logits (or a model's parameters), with the posterior as soft labels."""
    posterior = torch.as_tensor(posterior, dtype=torch.float64)
    parameters = [torch.zeros_like(posterior, requires_grad=True)] if model is None else list(model.parameters())
    logits = (lambda: parameters[0]) if model is None else model
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=500, tolerance_grad=1e-14, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        value = loss(logits(), posterior)
        value.backward()
        return value

    for _ in range(3):
        optimizer.step(closure)
    return torch.sigmoid(logits()).detach().numpy()


# Theorem 1


@pytest.mark.parametrize(("fp", "fn"), COSTS)
def test_theorem_1_one_threshold_is_optimal_in_every_subgroup(fp, fn):
    bayes = fp / (fp + fn)
    costs = CostMatrix(fp=fp, fn=fn)
    assert costs.threshold == pytest.approx(bayes)
    levels = (np.arange(40) + 0.5) / 40
    whole = find_threshold(*population(levels, 80), costs, target_threshold=bayes)
    assert whole.low <= bayes <= whole.high
    assert whole.high - whole.low <= 1 / 40 + 1e-9
    for subgroup in (levels[:9], levels[9:25], levels[25:], levels[::7]):
        result = find_threshold(*population(subgroup, 80), costs, target_threshold=bayes)
        assert result.value == pytest.approx(bayes)  # T itself is optimal: nothing is nearer to it


# Lemma 1


@pytest.mark.parametrize(("fp", "fn"), COSTS)
@pytest.mark.parametrize("target_threshold", TARGETS)
def test_lemma_1_multiplying_the_negatives_moves_the_threshold_to_the_target(fp, fn, target_threshold):
    times = fp / fn * (1 - target_threshold) / target_threshold
    assert AdaCSLController(CostMatrix(fp=fp, fn=fn), target_threshold=target_threshold).weight == pytest.approx(times)
    levels = (np.arange(200) + 0.5) / 200
    positives, negatives = levels, times * (1 - levels)  # per level, after multiplying
    shifted = positives / (positives + negatives)
    np.testing.assert_array_equal(shifted > target_threshold, levels > fp / (fp + fn))
    # with the new scores and the old samples and costs, the target is a cost-optimal threshold
    _, labels = population(levels, 400)
    result = find_threshold(
        np.repeat(shifted, 400), labels, CostMatrix(fp=fp, fn=fn), target_threshold=target_threshold
    )
    assert result.value == pytest.approx(target_threshold)


# Theorem 2


@pytest.mark.parametrize(("fp", "fn"), COSTS)
@pytest.mark.parametrize("target_threshold", TARGETS)
@pytest.mark.parametrize("kind", [WeightedCrossEntropy, AdaptiveCrossEntropy])
def test_theorem_2_minimiser_crosses_the_target_where_the_posterior_crosses_t(fp, fn, target_threshold, kind):
    bayes = fp / (fp + fn)
    posterior = np.r_[np.linspace(0.01, 0.99, 50), bayes - 1e-3, bayes + 1e-3]
    p = minimiser(
        kind(CostMatrix(fp=fp, fn=fn), target_threshold=target_threshold, reduction="sum").double(), posterior
    )
    np.testing.assert_array_equal(p > target_threshold, posterior > bayes)
    # and in closed form: the odds are divided by the weight
    odds = posterior / (1 - posterior) * fn / fp * target_threshold / (1 - target_threshold)
    np.testing.assert_allclose(p, odds / (1 + odds), rtol=1e-4)


def test_theorem_2_holds_for_a_model_fitted_to_drawn_labels():
    """Logistic data, logistic model, labels drawn from the known posterior: the border lies where p(x) = T."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=60_000)
    posterior = 1 / (1 + np.exp(-(1.5 * x - 1)))
    labels = rng.random(60_000) < posterior
    costs = CostMatrix(fp=1, fn=6)
    layer = torch.nn.Linear(1, 1).double()
    features = torch.tensor(x)[:, None]
    for target_threshold in (0.3, 0.5):
        loss = WeightedCrossEntropy(costs, target_threshold=target_threshold)
        p = minimiser(loss, labels.astype(float), model=_OnFeatures(layer, features))
        border = x[np.argmin(np.abs(p - target_threshold))]
        assert border == pytest.approx((math.log(1 / 6) + 1) / 1.5, abs=0.06)
        assert np.mean((p > target_threshold) == (posterior > 1 / 7)) > 0.98


class _OnFeatures(torch.nn.Module):
    def __init__(self, layer, features):
        super().__init__()
        self.layer, self.features = layer, features

    def forward(self):
        return self.layer(self.features)[:, 0]


@pytest.mark.parametrize("target_threshold", [0.5])
def test_theorem_2_holds_for_the_focal_loss_at_one_half(target_threshold):
    """By symmetry of the two parts at p = 1/2 the crossing stays where it is, whatever gamma."""
    posterior = np.r_[np.linspace(0.02, 0.98, 40), 0.2 - 2e-3, 0.2 + 2e-3]
    loss = AdaptiveFocalLoss(CostMatrix(fp=1, fn=4), target_threshold=target_threshold, gamma=1.0, reduction="sum")
    np.testing.assert_array_equal(minimiser(loss, posterior) > target_threshold, posterior > 0.2)


# Lemma 2


def test_lemma_2_equals_bayes_rule():
    rng = np.random.default_rng(1)
    for _ in range(50):
        given_positive, given_negative = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
        prior, other = rng.uniform(0.05, 0.95, 2)

        def posterior(p, given_positive=given_positive, given_negative=given_negative):
            return p * given_positive / (p * given_positive + (1 - p) * given_negative)

        before = posterior(prior)
        formula = other * (before - before * prior) / (prior - before * prior + other * before - prior * other)
        np.testing.assert_allclose(formula, posterior(other), rtol=1e-10)


def test_lemma_2_as_printed_misses_one_factor():
    """The paper's denominator has "- y" where Elkan's has "- y P"; only the latter is Bayes' rule."""
    y, prior, other = 0.3, 0.4, 0.7
    odds = y / (1 - y) * other / (1 - other) * (1 - prior) / prior
    elkan = other * (y - y * prior) / (prior - y * prior + other * y - prior * other)
    printed = other * (y - y * prior) / (prior - y + other * y - prior * other)
    assert elkan == pytest.approx(odds / (1 + odds))
    assert printed != pytest.approx(odds / (1 + odds))


@pytest.mark.parametrize(("fp", "fn"), COSTS)
def test_correct_is_lemma_2_for_the_reweighted_prior(fp, fn):
    prior = 0.3
    controller = AdaCSLController(CostMatrix(fp=fp, fn=fn))
    weighted_prior = prior / (prior + controller.weight * (1 - prior))
    raw = np.linspace(0.01, 0.99, 99)
    back = prior * (raw - raw * weighted_prior)
    back /= weighted_prior - raw * weighted_prior + prior * raw - weighted_prior * prior
    np.testing.assert_allclose(controller.correct(raw), back, rtol=1e-9)


# Theorem 3


@pytest.mark.parametrize("target_threshold", TARGETS)
def test_equation_7_is_the_odds_ratio_to_first_order(target_threshold):
    gaps = np.array([1e-1, 1e-2, 1e-3, 1e-4]) * target_threshold * (1 - target_threshold)
    for sign in (-1, 1):
        errors = []
        for gap in sign * gaps:
            t = target_threshold + gap
            exact = t / (1 - t) * (1 - target_threshold) / target_threshold
            assert step_factor(t, target_threshold, update="odds") == pytest.approx(exact)
            errors.append(abs(step_factor(t, target_threshold) - exact))
        # an error of second order: a gap ten times smaller gives an error a hundred times smaller (or less, at 1/2)
        assert all(after <= before / 60 for before, after in pairwise(errors))
        assert (step_factor(target_threshold + sign * 1e-6, target_threshold) - 1) / (sign * 1e-6) == pytest.approx(
            1 / (target_threshold * (1 - target_threshold)), rel=1e-4
        )


@pytest.mark.parametrize(("fp", "fn"), COSTS[1:])
@pytest.mark.parametrize("target_threshold", TARGETS)
def test_theorem_3_one_exact_correction_makes_the_target_optimal(fp, fn, target_threshold):
    """A model off by a factor on the odds is put right by one step with the exact odds ratio."""
    levels = (np.arange(400) + 0.5) / 400
    _, labels = population(levels, 800)
    controller = AdaCSLController(CostMatrix(fp=fp, fn=fn), target_threshold=target_threshold, update="odds")
    bias = 1.7

    def scores():
        odds = bias * levels / (1 - levels) / controller.weight
        return np.repeat(odds / (1 + odds), 800)

    first = controller.step(scores(), labels)
    assert first.factor == pytest.approx(bias, rel=0.05)  # the distance of two levels
    second = controller.step(scores(), labels)
    assert second.factor == pytest.approx(1, abs=0.02)
    assert second.cost <= first.cost
    assert second.cost == pytest.approx(find_threshold(scores(), labels, controller.costs).cost, rel=1e-3)
