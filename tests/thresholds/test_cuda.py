"""The core on a GPU: the same numbers, and nothing leaves the device to be sorted."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from adacsl import AdaCSLController, CostMatrix, cost_curve, cost_interval, find_threshold
from adacsl.adaptive import QuantileBins, UniformBins
from adacsl.metrics import calibration_error
from adacsl.thresholds import brier_curve, decision_curve, optimal_cost_curve, paper_grid
from adacsl.thresholds.multiclass import find_multipliers
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
            result = find_threshold(scores.cuda(), labels.cuda(), costs, candidates=candidates, sample_weight=given)
            assert result == pytest.approx(on_host, rel=1e-12)


@pytest.mark.parametrize("partition", [None, UniformBins(10), QuantileBins(10)])
def test_steps_equal_the_cpu(partition):
    scores, labels = case()
    amounts = CostMatrix(fp=1, fn=np.arange(5000) % 7 + 0.5)
    ours, theirs = (AdaCSLController(COSTS, partition=partition) for _ in range(2))
    for costs in (None, amounts):
        on_host, on_device = (
            ours.step(scores, labels, costs=costs),
            theirs.step(scores.cuda(), labels.cuda(), costs=costs),
        )
        assert on_device.factor == pytest.approx(on_host.factor, rel=1e-9)
        assert on_device.cost == pytest.approx(on_host.cost)
    assert_close(theirs.correct(scores.cuda()).cpu(), ours.correct(scores))
    published = [AdaCSLController.as_published(COSTS).step(s, labels.to(s.device)) for s in (scores, scores.cuda())]
    assert published[0] == published[1]


def test_curves_stay_on_the_device():
    scores, labels = case()
    curve = cost_curve(scores.cuda(), labels.cuda(), COSTS)
    assert curve.costs.is_cuda
    assert_close(curve.costs.cpu(), cost_curve(scores, labels, COSTS).costs)
    for function in (brier_curve, optimal_cost_curve, decision_curve, calibration_error):
        result, expected = function(scores.cuda(), labels.cuda()), function(scores, labels)
        for mine, other in zip(result, expected, strict=True):
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


# K classes


def class_case(n=20_000, k=5):
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, k, (n,), generator=generator)
    logits = torch.randn(n, k, generator=generator) + torch.nn.functional.one_hot(labels, k) + torch.arange(k) / 2
    matrix = (1.0 + 9.0 * torch.rand(k, k, generator=generator)) * (1.0 - torch.eye(k))
    return logits, labels, CostMatrix.from_array(matrix.numpy(), rows="predicted")


@pytest.mark.parametrize("n", [500, 20_000])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("n_standard_errors", [0.0, 1.0])
def test_multipliers_equal_the_cpu(n, dtype, n_standard_errors):
    logits, labels, costs = class_case(n)
    scores = torch.softmax(logits.double(), 1).to(dtype)
    weight = np.arange(n) % 4
    for given in (None, weight):
        options = {"n_standard_errors": n_standard_errors, "sample_weight": given}
        on_host = find_multipliers(scores, labels, costs, **options)
        result = find_multipliers(scores.cuda(), labels.cuda(), costs, **options)
        assert result.start_cost == pytest.approx(on_host.start_cost)
        # many rows are searched in float32: the way there may differ, its end hardly
        assert result.cost == pytest.approx(on_host.cost, rel=1e-9 if n == 500 else 5e-3)
        if n == 500:
            assert result.values == pytest.approx(on_host.values, rel=1e-9)


def test_loss_of_classes_moves_and_adapts_on_the_device():
    logits, labels, costs = class_case()
    loss = AdaptiveCrossEntropy(costs, damping=0.5).cuda()
    assert loss.class_weights.is_cuda
    step = loss.adapt(logits.cuda(), labels.cuda())
    assert step.cost == pytest.approx(AdaptiveCrossEntropy(costs, damping=0.5).adapt(logits, labels).cost, rel=1e-5)
    assert max(step.lambdas) > 1.01
    with torch.autocast("cuda", dtype=torch.float16):
        value = loss((logits * 3000).half().cuda(), labels.cuda())
    assert torch.isfinite(value)
