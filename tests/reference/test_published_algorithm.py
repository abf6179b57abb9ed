"""The controller in its published form equals the paper's algorithm, and shows what is wrong with it."""

import math

import numpy as np
import pytest

from adacsl import AdaCSLController, CostMatrix, find_threshold
from adacsl.adaptive import QuantileBins, SingleBin
from adacsl.thresholds import paper_grid


def _calibrated(a, b, n=200_000, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.beta(a, b, n) if (a, b) != (1, 1) else rng.random(n)
    return scores, (rng.random(n) < scores).astype(int)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("fp", "fn", "target_threshold"), [(1, 1, 0.5), (1, 5, 0.5), (3, 1, 0.3), (1, 20, 0.7)])
def test_as_published_equals_the_reference(published, seed, fp, fn, target_threshold):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.beta(0.7, 1.3, 400), 2 if seed % 2 else 6)  # odd seeds: scores on the grid and on borders
    scores[:2] = 0.0, 1.0
    labels = (rng.random(400) < scores**1.5).astype(int)
    controller = AdaCSLController.as_published(CostMatrix(fp=fp, fn=fn), target_threshold=target_threshold)
    expected_lambda = 1.0
    for part in (slice(None), slice(0, 200), slice(100, 400)):
        step = controller.step(scores[part], labels[part])
        expected = published.bin_thresholds(scores[part], labels[part], fp, fn)
        assert step.thresholds == tuple(t for t, _ in expected)
        assert step.sizes == tuple(float(size) for _, size in expected)
        factor = published.lambda_psi(scores[part], labels[part], fp, fn, target_threshold)
        assert step.factor == pytest.approx(factor, rel=1e-12)
        expected_lambda *= factor
        assert controller.lambda_ == pytest.approx(expected_lambda, rel=1e-12)


@pytest.mark.parametrize(
    ("shape", "fn", "psi"),
    [
        ((1, 49), 1, 0.199), ((1, 49), 5, 0.191), ((1, 49), 50, 0.153),
        ((0.5, 2), 1, 0.504), ((0.5, 2), 10, 0.438),
        ((1, 1), 1, 1.550), ((1, 1), 5, 1.464), ((1, 1), 50, 1.459),
        ((2, 0.5), 1, 3.341), ((2, 0.5), 50, 3.314),
    ],
)  # fmt: skip
def test_published_factor_is_nearly_blind_to_costs(published, shape, fn, psi):
    scores, labels = _calibrated(*shape)
    assert published.lambda_psi(scores, labels, 1, fn) == pytest.approx(psi, rel=0.06)
    assert AdaCSLController.as_published(CostMatrix(fp=1, fn=fn)).step(scores, labels).factor == pytest.approx(
        psi, rel=0.06
    )


@pytest.mark.parametrize("fn", [1, 4, 9])
def test_single_threshold_asks_for_the_odds_of_the_bayes_threshold_on_calibrated_scores(fn):
    scores, labels = _calibrated(1, 1)
    bayes = 1 / (1 + fn)
    result = AdaCSLController(CostMatrix(fp=1, fn=fn)).step(scores, labels)
    assert result.thresholds[0] == pytest.approx(bayes, abs=0.03)
    assert result.factor == pytest.approx(math.exp((bayes - 0.5) / 0.25), rel=0.13)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fn", [2, 7])
def test_paper_grid_with_lowest_ties_equals_the_reference(published, seed, fn):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.random(150), 2 + seed)
    labels = (rng.random(150) < scores).astype(int)
    controller = AdaCSLController(
        CostMatrix(fp=1, fn=fn), partition=SingleBin(), candidates=paper_grid(), ties="lowest"
    )
    assert controller.step(scores, labels).factor == pytest.approx(published.lambda_whole(scores, labels, 1, fn))


@pytest.mark.parametrize("seed", range(6))
def test_exact_search_is_never_costlier_than_the_grid(published, seed):
    rng = np.random.default_rng(seed)
    scores = rng.beta(1, 20, 300)
    labels = (rng.random(300) < scores * 4).astype(int)
    costs = CostMatrix(fp=1, fn=11)
    grid = min(published.total_cost(scores, labels, t, 1, 11) for t in paper_grid())
    on_grid = find_threshold(scores, labels, costs, candidates=paper_grid())
    exact = find_threshold(scores, labels, costs)
    assert on_grid.total_cost == grid
    assert exact.total_cost <= grid
    assert published.total_cost(scores, labels, exact.value, 1, 11) == exact.total_cost


def test_published_form_keeps_its_own_intervals_for_other_partitions():
    scores = np.linspace(0.0, 1.0, 101)
    labels = (scores > 0.3).astype(int)
    controller = AdaCSLController.as_published(CostMatrix(fp=1, fn=2), partition=QuantileBins(4))
    borders = [0.0, 0.25, 0.5, 0.75, 1.0]
    for threshold, low, high in zip(controller.step(scores, labels).thresholds, borders[:-1], borders[1:], strict=True):
        assert low <= threshold <= high
