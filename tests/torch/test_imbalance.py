"""Losses for imbalanced classes: equal to the formulas of their papers, and with the interface of the others."""

import numpy as np
import pytest
import torch
import torch._dynamo.testing
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils.data import DataLoader, TensorDataset

from adacsl import CostMatrix
from adacsl.torch import (
    BalancedSoftmax,
    ClassBalancedCrossEntropy,
    CostSampler,
    LDAMLoss,
    LogitAdjustedCrossEntropy,
    WeightedCrossEntropy,
)

COUNTS = [500, 60, 9]
ALL = [LogitAdjustedCrossEntropy, BalancedSoftmax, LDAMLoss, ClassBalancedCrossEntropy]


def batch(k=3, n=50, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, k, generator=generator), torch.randint(0, k, (n,), generator=generator)


def logit_adjusted(z, y, n):
    prior = n / n.sum()
    return F.cross_entropy(z + prior.log(), y, reduction="none")


def balanced_softmax(z, y, n):
    """Equation 4 of Ren et al.: n_y e^z_y over the sum of n_k e^z_k."""
    terms = n * z.exp()
    return -(terms[torch.arange(len(y)), y] / terms.sum(1)).log()


def ldam(z, y, n):
    """As the authors' code: margins m / n^(1/4), the largest 0.5, scale 30."""
    margins = 1.0 / n.sqrt().sqrt()
    margins = margins * (0.5 / margins.max())
    moved = z - F.one_hot(y, len(n)) * margins[y][:, None]
    return F.cross_entropy(30.0 * moved, y, reduction="none")


def class_balanced(z, y, n):
    """As the authors' code: weights (1 - beta) / (1 - beta^n) that sum to the number of classes."""
    weights = (1.0 - 0.999) / (1.0 - 0.999**n)
    weights = weights / weights.sum() * len(n)
    return weights[y] * F.cross_entropy(z, y, reduction="none")


ORACLES = dict(zip(ALL, (logit_adjusted, balanced_softmax, ldam, class_balanced), strict=True))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("k", [2, 3])
def test_equal_to_the_papers(kind, k):
    z, y = batch(k)
    n = torch.tensor(COUNTS[:k], dtype=torch.float64)
    each = ORACLES[kind](z.double(), y, n)
    loss = kind(COUNTS[:k])
    assert_close(loss(z, y).double(), each.mean(), rtol=1e-5, atol=1e-6)
    assert_close(kind(COUNTS[:k], reduction="none")(z, y).double(), each, rtol=1e-4, atol=1e-5)
    if k == 2:  # one output is the difference of two
        assert_close(loss(z[:, 1] - z[:, 0], y), loss(z, y), rtol=1e-5, atol=1e-6)
    weight = torch.rand(50)
    assert_close(loss(z, y, weight).double(), (each * weight).mean(), rtol=1e-5, atol=1e-6)
    ignoring = kind(COUNTS[:k], ignore_index=-100)
    assert_close(
        ignoring(z, torch.where(torch.arange(50) < 20, -100, y)).double(), each[20:].mean(), rtol=1e-5, atol=1e-6
    )
    maps, labels = z.reshape(2, 5, 5, k).movedim(-1, 1), y.reshape(2, 5, 5)
    assert_close(loss(maps, labels), loss(z, y))


def test_their_limits_are_cross_entropy():
    z, y = batch()
    for loss in (LogitAdjustedCrossEntropy(COUNTS, tau=0), ClassBalancedCrossEntropy(COUNTS, beta=0)):
        assert_close(loss(z, y), F.cross_entropy(z, y))
    near_one = ClassBalancedCrossEntropy(COUNTS, beta=1 - 1e-9).weights
    inverse = 1 / torch.tensor(COUNTS)
    assert_close(near_one, inverse / inverse.sum() * 3, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="LDAMLoss needs class numbers"):
        LDAMLoss(COUNTS)(z, F.one_hot(y, 3).float())


@pytest.mark.parametrize(("kind", "k"), [*zip(ALL, [2, 3, 3, 2], strict=True)])
def test_they_compile_and_autocast(kind, k):
    z, y = batch(k)
    loss = kind(COUNTS[:k], ignore_index=-100)
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    assert_close(torch.compile(loss, backend=counter, fullgraph=True)(z, y), loss(z, y))
    assert counter.frame_count == 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(z.bfloat16(), y).dtype == torch.float32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BalancedSoftmax([5]), "counts must be the positive numbers of samples"),
        (lambda: BalancedSoftmax([5, 0]), "counts must be the positive numbers of samples"),
        (lambda: LogitAdjustedCrossEntropy([5, 1], tau=-1), "tau must not be negative"),
        (lambda: LDAMLoss([5, 1], scale=0), "scale must be a positive number"),
        (lambda: ClassBalancedCrossEntropy([5, 1], beta=1), "beta must be from 0 to less than 1"),
        (lambda: BalancedSoftmax([5, 1], reduction="all"), "reduction must be"),
        (lambda: CostSampler([0, 2], CostMatrix(fp=1, fn=2)), "labels must be class numbers from 0 to 1"),
        (lambda: CostSampler([0, 1], CostMatrix(fp=1, fn=2), num_samples=0), "num_samples must be a whole number"),
    ],
)
def test_wrong_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_sampler_draws_as_a_weighted_loss_weighs():
    """The mean gradient of plain cross-entropy over drawn samples is that of the weighted loss, but for a factor."""
    costs, y = CostMatrix(fp=1, fn=8), torch.tensor([0] * 90 + [1] * 10)
    sampler = CostSampler(y, costs, num_samples=200_000)
    counts = np.bincount(list(sampler), minlength=100) / 200_000
    assert counts[90:].sum() == pytest.approx(80 / 170, abs=5e-3)
    assert np.abs(counts - sampler.shares).max() < 1.5e-3
    z = torch.randn(100, requires_grad=True)
    (drawn,) = torch.autograd.grad(
        (F.binary_cross_entropy_with_logits(z, y.float(), reduction="none") * torch.tensor(sampler.shares)).sum(), z
    )
    (weighted,) = torch.autograd.grad(WeightedCrossEntropy(costs)(z, y), z)
    assert_close(drawn / drawn.norm(), weighted / weighted.norm())


def test_the_sampler_serves_a_loader_and_repeats_its_epochs():
    y = torch.tensor([0] * 20 + [1] * 4)
    costs = CostMatrix(fp=1.0, fn=np.where(np.arange(24) == 23, 1e6, 1.0))
    sampler = CostSampler(y, costs)
    loader = DataLoader(TensorDataset(torch.arange(24), y), 8, sampler=sampler)
    seen = torch.cat([x for x, _ in loader])
    assert len(seen) == 24
    assert (seen == 23).float().mean() > 0.95
    even = CostSampler(y, CostMatrix(fp=1, fn=1), seed=5)
    first, second = list(even), list(even)
    assert first != second
    even.set_epoch(0)
    assert list(even) == first


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", ALL)
def test_on_a_gpu(kind):
    z, y = batch()
    assert_close(kind(COUNTS).cuda()(z.cuda(), y.cuda()).cpu(), kind(COUNTS)(z, y))
