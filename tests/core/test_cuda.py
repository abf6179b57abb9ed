"""The core on a GPU: the same numbers, and nothing leaves the device to be sorted."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from adacsl import (
    AdaptiveWeight,
    CostMatrix,
    EqualWidth,
    Quantile,
    brier_curve,
    calibration_error,
    cost_curve,
    cost_interval,
    decision_curve,
    find_threshold,
    optimal_cost_curve,
    paper_grid,
)
from adacsl.torch import AdaptiveCrossEntropy

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
COSTS = CostMatrix(fp=1, fn=4)


def case(dtype=torch.float32, n=5000):
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(n, generator=generator).to(dtype)
    return scores, (torch.rand(n, generator=generator) < scores.float() ** 1.5).long()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("candidates", [None, paper_grid()], ids=["exact", "grid"])
def test_thresholds_equal_the_cpu(dtype, candidates):
    scores, labels = case(dtype)
    weight = np.arange(5000) % 4
    amounts = np.arange(5000) % 7 + 0.5
    for costs in (COSTS, CostMatrix(fp=1, fn=amounts), CostMatrix(fp=1, fn=torch.tensor(amounts).cuda())):
        for given in (None, weight):
            on_host = find_threshold(
                scores, labels, CostMatrix(fp=1, fn=costs.fn if isinstance(costs.fn, float) else amounts),
                candidates=candidates, sample_weight=given,
            )  # fmt: skip
            found = find_threshold(scores.cuda(), labels.cuda(), costs, candidates=candidates, sample_weight=given)
            assert found == pytest.approx(on_host, rel=1e-12)


@pytest.mark.parametrize("partition", [None, EqualWidth(10), Quantile(10)])
def test_steps_equal_the_cpu(partition):
    scores, labels = case()
    amounts = CostMatrix(fp=1, fn=np.arange(5000) % 7 + 0.5)
    ours, theirs = (AdaptiveWeight(COSTS, partition=partition) for _ in range(2))
    for costs in (None, amounts):
        on_host, on_device = (
            ours.step(scores, labels, costs=costs),
            theirs.step(scores.cuda(), labels.cuda(), costs=costs),
        )
        assert on_device.factor == pytest.approx(on_host.factor, rel=1e-9)
        assert on_device.cost == pytest.approx(on_host.cost)
    assert_close(theirs.correct(scores.cuda()).cpu(), ours.correct(scores))
    published = [AdaptiveWeight.as_published(COSTS).step(s, labels.to(s.device)) for s in (scores, scores.cuda())]
    assert published[0] == published[1]


def test_curves_stay_on_the_device():
    scores, labels = case()
    curve = cost_curve(scores.cuda(), labels.cuda(), COSTS)
    assert curve.costs.is_cuda
    assert_close(curve.costs.cpu(), cost_curve(scores, labels, COSTS).costs)
    for function in (brier_curve, optimal_cost_curve, decision_curve, calibration_error):
        found, expected = function(scores.cuda(), labels.cuda()), function(scores, labels)
        for mine, other in zip(found, expected, strict=True):
            assert_close(mine.cpu() if torch.is_tensor(mine) else mine, other)
    decided = COSTS.decide(scores.cuda())
    assert decided.is_cuda
    assert cost_interval(COSTS, labels.cuda(), decided) == cost_interval(COSTS, labels, decided.cpu())


def test_loss_moves_adapts_and_saves_on_the_device():
    logits, labels = torch.logit(case()[0], eps=1e-4), case()[1]
    loss = AdaptiveCrossEntropy(COSTS).cuda()
    assert loss.negative_weight.is_cuda
    step = loss.adapt(logits.cuda(), labels.cuda())
    assert step.factor == pytest.approx(AdaptiveCrossEntropy(COSTS).adapt(logits, labels).factor, rel=1e-3)
    other = AdaptiveCrossEntropy(COSTS).cuda()
    other.load_state_dict(loss.state_dict())
    assert other.negative_weight.item() == loss.negative_weight.item()
    with torch.autocast("cuda", dtype=torch.float16):
        value = loss((logits * 3000).half().cuda(), labels.cuda())
    assert torch.isfinite(value)
