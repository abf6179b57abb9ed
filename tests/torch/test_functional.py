"""The losses as functions, each equal to something trusted."""

import math

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from adacsl.torch import positive_logit, weighted_cross_entropy, weighted_focal_loss
from adacsl.torch.functional import summed_cross_entropy

LOSSES = [weighted_cross_entropy, weighted_focal_loss]


def batch(n=64, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, generator=generator, dtype=torch.float64)
    targets = (torch.rand(n, generator=generator) < 0.3).long()
    return logits.to(dtype), targets


WEIGHTS = torch.tensor([0.2, 3.0, 1.0])


def class_batch(n=200, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(0, 3, (n,), generator=generator)
    return (2 * torch.randn(n, 3, generator=generator)).to(dtype), targets


def by_definition(logits, targets, weight, gamma=0.0):
    """Equation 5 in float64, written with probabilities."""
    p, y = torch.sigmoid(logits.double()), targets.double()
    return -y * (1 - p) ** gamma * torch.log(p) - weight * (1 - y) * p**gamma * torch.log(1 - p)


# equal to something trusted


@pytest.mark.parametrize("weight", [1e-9, 0.01, 0.25, 1.0, 3.0, 1e9])
def test_weighted_cross_entropy_is_rescaled_pos_weight(weight):
    logits, targets = batch(dtype=torch.float64)
    expected = weight * F.binary_cross_entropy_with_logits(
        logits, targets.double(), pos_weight=torch.tensor(1 / weight, dtype=torch.float64)
    )
    assert_close(weighted_cross_entropy(logits, targets, weight), expected)
    assert_close(expected, by_definition(logits, targets, weight).mean())
    if weight == 1.0:
        assert torch.equal(weighted_cross_entropy(logits, targets), weighted_cross_entropy(logits, targets, 1.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cross_entropy_of_classes_is_torchs_but_for_the_mean(dtype):
    logits, targets = class_batch(dtype=dtype)
    each = F.cross_entropy(logits, targets, weight=WEIGHTS.to(dtype), reduction="none")
    scale = torch.rand(200)
    for reduction, total in (("none", lambda e: e), ("sum", torch.sum), ("mean", lambda e: e.sum() / 200)):
        assert_close(weighted_cross_entropy(logits, targets, WEIGHTS, reduction=reduction), total(each))
        result = weighted_cross_entropy(logits, targets, WEIGHTS, sample_weight=scale, reduction=reduction)
        assert_close(result, total(each * scale))
    weighted_mean = F.cross_entropy(logits, targets, weight=WEIGHTS.to(dtype))
    assert_close(weighted_mean, each.sum() / WEIGHTS[targets].sum().to(dtype))
    assert_close(weighted_cross_entropy(logits, targets[:, None].float(), WEIGHTS), each.mean())


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_loss_of_classes_equals_its_definition(gamma):
    logits, targets = class_batch(dtype=torch.float64)
    p = torch.softmax(logits, 1)[torch.arange(200), targets]
    expected = -WEIGHTS.double()[targets] * (1 - p) ** gamma * torch.log(p)
    assert_close(weighted_focal_loss(logits, targets, WEIGHTS, gamma=gamma, reduction="none"), expected)


@pytest.mark.parametrize("weight", [0.1, 2.5])
def test_focal_with_gamma_zero_is_weighted_cross_entropy(weight):
    logits, targets = batch()
    for reduction in ("mean", "sum", "none"):
        assert_close(
            weighted_focal_loss(logits, targets, weight, gamma=0.0, reduction=reduction),
            weighted_cross_entropy(logits, targets, weight, reduction=reduction),
        )


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0, 5.0])
def test_focal_equals_the_definition(gamma):
    logits, targets = batch(dtype=torch.float64)
    assert_close(
        weighted_focal_loss(logits, targets, 0.2, gamma=gamma, reduction="none"),
        by_definition(logits, targets, 0.2, gamma),
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_the_weight_is_that_of_the_negatives(loss):
    logits, targets = batch()
    plain = loss(logits, targets, 1.0, reduction="none")
    assert_close(loss(logits, targets, 10.0, reduction="none"), torch.where(targets == 0, 10.0, 1.0) * plain)
    assert_close(loss(logits, targets, 0.0, reduction="none"), torch.where(targets == 0, 0.0, 1.0) * plain)


def test_soft_labels_are_mixtures():
    logits = torch.tensor([0.3, -1.0], dtype=torch.float64)
    ones, zeros = torch.ones(2), torch.zeros(2)
    share = torch.tensor([0.25, 0.9], dtype=torch.float64)
    for loss in LOSSES:
        mixed = share * loss(logits, ones, 3.0, reduction="none") + (1 - share) * loss(
            logits, zeros, 3.0, reduction="none"
        )
        assert_close(loss(logits, share, 3.0, reduction="none"), mixed)


# reduction


@pytest.mark.parametrize("loss", LOSSES)
def test_mean_divides_by_the_number_of_samples(loss):
    logits, targets = batch()
    weights = torch.rand(64) * 5
    each = loss(logits, targets, 0.1, reduction="none")
    for given, expected in (({}, each), ({"sample_weight": weights}, weights * each)):
        assert_close(loss(logits, targets, 0.1, **given), expected.sum() / 64)
        assert_close(loss(logits, targets, 0.1, reduction="none", **given), expected)
        assert_close(loss(logits, targets, 0.1, reduction="sum", **given), expected.sum())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_add_up_over_accumulated_batches_and_processes(loss, weighted):
    """Class priors differ between the parts: a mean over weights would give another gradient."""
    logits, targets = batch(96)
    targets = targets.sort().values
    sample_weight = torch.linspace(0.1, 4, 96) if weighted else None
    features = torch.randn(96, 5, generator=torch.Generator().manual_seed(2))

    def gradient(rows, divisor=1):
        model = torch.zeros(5, requires_grad=True)
        part = None if sample_weight is None else sample_weight[rows]
        (loss(logits[rows] + features[rows] @ model, targets[rows], 0.05, sample_weight=part) / divisor).backward()
        return model.grad

    whole = gradient(slice(None))
    parts = [slice(k, k + 24) for k in range(0, 96, 24)]
    accumulated = sum(gradient(part, divisor=4) for part in parts)
    averaged_over_ranks = torch.stack([gradient(part) for part in parts]).mean(0)
    assert_close(accumulated, whole)
    assert_close(averaged_over_ranks, whole)


@pytest.mark.parametrize("loss", LOSSES)
def test_sample_weight_equals_repeated_samples(loss):
    logits, targets = batch(20)
    counts = torch.arange(20) % 3
    repeated = loss(logits.repeat_interleave(counts), targets.repeat_interleave(counts), 0.3, reduction="sum")
    assert_close(loss(logits, targets, 0.3, sample_weight=counts, reduction="sum"), repeated)


# dtypes, extremes, gradients


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    "kind", [torch.int64, torch.int32, torch.uint8, torch.bool, torch.float32, torch.float64, torch.float16]
)
def test_label_dtypes_agree(loss, kind):
    logits, targets = batch()
    value = loss(logits, targets.to(kind), 0.3)
    assert value.dtype == torch.float32
    assert_close(value, loss(logits, targets, 0.3))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("weight", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("two_outputs", [False, True])
def test_extreme_logits_stay_finite(loss, dtype, weight, two_outputs):
    logits = torch.tensor([1e4, -1e4, 1e4, -1e4, 0.0, 100.0, -100.0], dtype=dtype)
    targets = torch.tensor([0, 0, 1, 1, 1, 0, 1])
    if two_outputs:
        logits = torch.stack((torch.zeros_like(logits), logits), dim=1)
    logits.requires_grad_()
    values = loss(logits, targets, weight, reduction="none")
    assert torch.isfinite(values).all()
    assert_close(values[0].item(), weight * logits.detach().float().max().item(), rtol=1e-6, atol=0)
    loss(logits, targets, weight, reduction="sum").backward()
    assert torch.isfinite(logits.grad).all() or (dtype == torch.float16 and weight > 1e4)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_extreme_logits_of_classes_stay_finite(loss, dtype):
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0], [0.0, 0.0, 0.0], [1e4, 1e4, -1e4]], dtype=dtype)
    value = loss(logits.requires_grad_(), torch.tensor([0, 0, 1, 2]), WEIGHTS)
    assert value.dtype == torch.float32
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_confidently_wrong_samples_have_their_gradient(loss):
    logits = torch.tensor([-20.0, 20.0, -90.0, 90.0], requires_grad=True)
    loss(logits, torch.tensor([1, 0, 1, 0]), 0.5, reduction="sum").backward()
    assert_close(logits.grad, torch.tensor([-1.0, 0.5, -1.0, 0.5]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_half_precision_is_computed_in_float32(loss):
    logits, targets = batch()
    for dtype in (torch.float16, torch.bfloat16):
        value = loss(logits.to(dtype), targets, 0.3)
        assert value.dtype == torch.float32
        assert_close(value, loss(logits.to(dtype).float(), targets, 0.3), rtol=0, atol=0)
    pair = torch.tensor([[256.0, 257.0]], dtype=torch.bfloat16)
    assert_close(loss(pair, torch.tensor([0])), loss(pair.float(), torch.tensor([0])), rtol=0, atol=0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("shape", "reduction"), [((6,), "mean"), ((6, 1), "sum"), ((6, 2), "none"), ((6, 3), "mean")])
def test_gradient_equals_finite_differences(loss, reduction, shape):
    generator = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
    targets, weight = torch.tensor([0, 1, 0, 0, 1, 1]), 0.2 if shape[-1] != 3 else WEIGHTS.double()
    weights = torch.rand(6, generator=generator, dtype=torch.float64)
    logits.requires_grad_()
    for given in (None, weights):
        assert torch.autograd.gradcheck(
            lambda z, given=given: loss(z, targets, weight, sample_weight=given, reduction=reduction), (logits,)
        )


# shapes: agree or raise, never broadcast


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("logits", "targets", "message"),
    [
        ((8,), (7,), r"targets must have shape \(8,\) for logits of shape \(8,\), got \(7,\)"),
        ((8, 2), (8, 2), "one-hot or soft rows that sum to 1, got a row with the sum 0"),
        ((8,), (8, 8), r"got \(8, 8\)"),
        ((8, 1), (1, 8), r"got \(1, 8\)"),
        ((8, 3), (8,), r"logits must have shape \(n,\), \(n, 1\) or \(n, 2\), got \(8, 3\).*K classes need K x K"),
        ((), (), "logits must have shape"),
        ((2, 3, 4), (2, 12), r"targets must have shape \(2, 3, 4\) for logits"),
        ((2, 2, 4), (2, 3), r"targets must have shape \(2, 4\) for logits"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(loss, logits, targets, message):
    with pytest.raises(ValueError, match=message):
        loss(torch.zeros(logits), torch.zeros(targets))


def test_negative_gamma_is_refused():
    with pytest.raises(ValueError, match="gamma must not be negative, got -1"):
        weighted_focal_loss(torch.zeros(2), torch.zeros(2), gamma=-1)


def test_positive_logit_takes_one_or_two_outputs():
    pair = torch.tensor([[1.0, 3.0], [2.0, -1.0]])
    assert positive_logit(pair).tolist() == [2.0, -3.0]
    assert positive_logit(pair[:, :1]).tolist() == [1.0, 2.0]
    assert positive_logit(pair[:, 0]).tolist() == [1.0, 2.0]
    assert_close(torch.sigmoid(positive_logit(pair)), torch.softmax(pair, 1)[:, 1])


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_the_summed_loss_is_torchs_own(heads, scale):
    generator = torch.Generator().manual_seed(heads)
    z = (torch.randn(64, 4, heads, generator=generator) * scale).requires_grad_()
    y = torch.randint(2, (64, 4, 1), generator=generator).float()
    w = torch.rand(64, 4, 1, generator=generator) + 1e-3
    each = torch.rand(64, 4, generator=generator)  # how much each sum counts in what is made of them
    ours = summed_cross_entropy(z, y, w)
    assert ours.shape == (64, 4)
    (own,) = torch.autograd.grad((each * ours).sum(), z)
    theirs = F.binary_cross_entropy_with_logits(
        z.double(), y.double().expand_as(z), weight=w.double().expand_as(z), reduction="none"
    ).sum(-1)
    (oracle,) = torch.autograd.grad((each * theirs).sum(), z)
    assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-7)
    assert_close(own, oracle, rtol=1e-4, atol=1e-6)


def test_the_summed_loss_of_confident_correct_logits_is_not_rounded_to_zero():
    z, ones = torch.tensor([18.0, -18.0]), torch.ones(2)
    small = float(summed_cross_entropy(z, torch.tensor([1.0, 0.0]), ones))
    assert small == pytest.approx(2.0 * math.log1p(math.exp(-18.0)), rel=1e-4)
