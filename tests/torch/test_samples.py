"""Every shape of logits and targets: the same loss and the same step as its samples in a flat list."""

import itertools

import numpy as np
import pytest
import torch
import torch._dynamo.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from adacsl import AdaCSLController, CostMatrix
from adacsl.torch import AdaptiveCrossEntropy, AdaptiveFocalLoss, FocalLoss, WeightedCrossEntropy, flat_samples

TWO = CostMatrix(fp=1, fn=8)
FOUR = CostMatrix.from_array([[0, 9, 2, 1], [1, 0, 1, 3], [3, 9, 0, 1], [2, 4, 1, 0]], rows="predicted")
ALL = [WeightedCrossEntropy, FocalLoss, AdaptiveCrossEntropy, AdaptiveFocalLoss]
ADAPTIVE = [AdaptiveCrossEntropy, AdaptiveFocalLoss]

# logits and targets by name; B = 3, H = 5, W = 6, tokens 7, K = 4
SHAPES = {
    "B": ((30,), (30,)), "B,1": ((30, 1), (30,)), "B,1 column": ((30, 1), (30, 1)), "B,2": ((30, 2), (30,)),
    "B,K": ((30, 4), (30,)), "B,K column": ((30, 4), (30, 1)),
    "B,H,W": ((3, 5, 6), (3, 5, 6)), "B,1,H,W": ((3, 1, 5, 6), (3, 5, 6)), "B,1,H,W same": ((3, 1, 5, 6), (3, 1, 5, 6)),
    "B,2,H,W": ((3, 2, 5, 6), (3, 5, 6)), "B,2,H,W column": ((3, 2, 5, 6), (3, 1, 5, 6)),
    "B,K,H,W": ((3, 4, 5, 6), (3, 5, 6)), "B,K,H,W column": ((3, 4, 5, 6), (3, 1, 5, 6)),
    "B,T,K": ((3, 7, 4), (3, 7)), "B,T,2": ((3, 7, 2), (3, 7)), "B,T,1": ((3, 7, 1), (3, 7)),
    "B,K,T": ((3, 4, 7), (3, 7)),
    "volume": ((2, 3, 4, 5, 6), (2, 3, 4, 5, 6)),
    "one-hot B,2": ((30, 2), (30, 2)), "one-hot B,K": ((30, 4), (30, 4)),
    "one-hot B,2,H,W": ((3, 2, 5, 6), (3, 2, 5, 6)), "one-hot B,K,H,W": ((3, 4, 5, 6), (3, 4, 5, 6)),
    "one-hot B,T,K": ((3, 7, 4), (3, 7, 4)),
}  # fmt: skip


def classes_of(name):
    return 4 if "K" in name else 2


def loss_costs(name):
    return TWO if classes_of(name) == 2 else FOUR


def axis_of(name):
    """Where the classes are, if they have an axis."""
    if "T,K" in name or "T,2" in name or "T,1" in name:
        return -1
    return 1 if any(part in name for part in ("1", "2", "K")) else None


def made(name, seed=0, soft=False):
    """Logits and targets of a shape."""
    generator = torch.Generator().manual_seed(seed)
    shape, target_shape = SHAPES[name]
    logits = 2.0 * torch.randn(shape, generator=generator)
    k = classes_of(name)
    if not name.startswith("one-hot"):
        return logits, torch.randint(0, k, target_shape, generator=generator)
    axis = axis_of(name)
    drawn = torch.randn(target_shape, generator=generator)
    shares = torch.softmax(2.0 * drawn, axis)
    if not soft:
        shares = F.one_hot(shares.argmax(axis), k).movedim(-1, axis).float()
    return logits, shares


def by_hand(name, logits, targets):
    """Probabilities of each class, and shares of each class, (n, K), in float64, from the definition."""
    k, axis = classes_of(name), axis_of(name)
    z = logits.double()
    z = z.reshape(-1, 1) if axis is None else z.movedim(axis, -1).reshape(-1, z.shape[axis])
    if z.shape[1] == 1:
        z = torch.cat((torch.zeros_like(z), z), dim=1)
    p = torch.softmax(z, dim=1)
    if name.startswith("one-hot"):
        return p, targets.double().movedim(axis, -1).reshape(-1, k)
    return p, F.one_hot(targets.reshape(-1), k).double()


def formula(p, shares, weights, gamma=0.0):
    """The loss of each sample: - sum of w y (1 - p)^gamma log p."""
    return -(weights * shares * (1 - p) ** gamma * p.log()).sum(1)


def class_weights_of(loss):
    if loss.n_classes == 2:
        return torch.stack((loss.negative_weight.double(), torch.ones((), dtype=torch.float64)))
    return loss.class_weights.double()


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("kind", ALL)
def test_each_shape_equals_the_formula(kind, name):
    loss = kind(loss_costs(name), target_threshold=0.5)
    gamma = 2.0 if "Focal" in kind.__name__ else 0.0
    for soft in (False, True):
        logits, targets = made(name, soft=soft)
        each = formula(*by_hand(name, logits, targets), class_weights_of(loss), gamma)
        assert_close(loss(logits, targets).double(), each.mean(), rtol=1e-5, atol=1e-6)
        for reduction, expected in (("sum", each.sum()), ("none", each)):
            other = kind(loss_costs(name), target_threshold=0.5, reduction=reduction)
            assert_close(other(logits, targets).double().reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)
        smooth = kind(loss_costs(name), target_threshold=0.5, label_smoothing=0.1)
        p, shares = by_hand(name, logits, targets)
        moved = formula(p, shares * 0.9 + 0.1 / classes_of(name), class_weights_of(loss), gamma).mean()
        assert_close(smooth(logits, targets).double(), moved, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in SHAPES if not name.startswith("one-hot")])
def test_ignored_samples_do_not_count(name):
    ignored = -100 if "K" in name else 255
    logits, targets = made(name)
    mask = torch.rand(targets.shape, generator=torch.Generator().manual_seed(1)) < 0.3
    shown = torch.where(mask, ignored, targets)
    kept = ~mask.reshape(-1)
    for kind in ALL:
        loss = kind(loss_costs(name), target_threshold=0.5, ignore_index=ignored)
        gamma = 2.0 if "Focal" in kind.__name__ else 0.0
        each = formula(*by_hand(name, logits, targets), class_weights_of(loss), gamma)[kept]
        given = logits.clone().requires_grad_()
        value = loss(given, shown)
        assert_close(value.double(), each.mean(), rtol=1e-5, atol=1e-6)
        value.backward()
        assert torch.isfinite(given.grad).all()
        # what is ignored may be anything, and gets no gradient
        other = kind(loss_costs(name), target_threshold=0.5, ignore_index=ignored, reduction="none")
        losses = other(logits, shown).reshape(-1)
        assert not losses[mask.reshape(-1)].any()
        assert_close(losses[kept].double(), each, rtol=1e-5, atol=1e-5)
    for kind in ADAPTIVE:
        p, _ = by_hand(name, logits, targets)
        alone = AdaCSLController(loss_costs(name), target_threshold=0.5)
        flat = p[kept, 1] if classes_of(name) == 2 else p[kept]
        expected = alone.step(flat.float(), targets.reshape(-1)[kept])
        result = kind(loss_costs(name), target_threshold=0.5, ignore_index=ignored).adapt(logits, shown)
        assert result.cost == pytest.approx(expected.cost, rel=1e-6)
        measured = "lambdas" if classes_of(name) > 2 else "factor"
        assert getattr(result, measured) == pytest.approx(getattr(expected, measured), rel=1e-4)


def test_a_batch_of_ignored_samples_costs_nothing():
    for costs, logits in ((TWO, torch.zeros(4)), (FOUR, torch.zeros(4, 4))):
        logits.requires_grad_()
        loss = AdaptiveCrossEntropy(costs, ignore_index=-100)
        value = loss(logits, torch.full((4,), -100))
        value.backward()
        assert value.item() == 0.0
        assert not logits.grad.any()


def test_the_ignored_class_of_torch_is_the_default_of_k_classes():
    logits, targets = made("B,K")
    shown = torch.where(torch.arange(30) % 3 == 0, -100, targets)
    loss = AdaptiveCrossEntropy(FOUR)
    assert_close(loss(logits, shown), F.cross_entropy(logits, shown))
    with pytest.raises(ValueError, match=r"targets must be class numbers from 0 to 3, got 255"):
        loss(logits, shown.clamp(min=0) + 255 * (shown < 0))
    with pytest.raises(ValueError, match=r"targets must lie in \[0, 1\], got -100; .*ignore_index=-100"):
        AdaptiveCrossEntropy(TWO)(torch.zeros(2), torch.tensor([0, -100]))


def test_label_smoothing_and_soft_targets_are_torchs_but_for_the_mean():
    logits, targets = made("B,K")
    weights = torch.tensor(FOUR.class_weights(), dtype=torch.float32)
    loss = WeightedCrossEntropy(FOUR, label_smoothing=0.2)
    assert_close(
        loss(logits, targets), F.cross_entropy(logits, targets, weights, label_smoothing=0.2, reduction="sum") / 30
    )
    shares = torch.softmax(torch.randn(30, 4), 1)
    assert_close(WeightedCrossEntropy(FOUR)(logits, shares), F.cross_entropy(logits, shares, weights))


@pytest.mark.parametrize("name", ["B", "B,2", "B,K", "B,1,H,W", "B,K,H,W", "B,T,K"])
def test_mixup_is_the_mixture_of_two_losses(name):
    """Mixed labels as one-hot rows, and as two losses: both ways of mixup."""
    logits, first = made(name)
    second = first.flip(0)
    k, share = classes_of(name), 0.3
    loss = AdaptiveCrossEntropy(loss_costs(name), target_threshold=0.5)
    two_losses = share * loss(logits, first) + (1 - share) * loss(logits, second)
    if name in ("B", "B,1,H,W"):
        mixed = share * first.float() + (1 - share) * second.float()
    else:
        mixed = share * F.one_hot(first, k) + (1 - share) * F.one_hot(second, k)
        mixed = mixed.movedim(-1, axis_of(name))
    assert_close(loss(logits, mixed), two_losses)


def test_soft_validation_labels_count_as_each_class_by_their_share():
    logits, shares = made("one-hot B,K", soft=True)
    result = AdaptiveCrossEntropy(FOUR).adapt(logits, shares)
    q = torch.softmax(logits, 1).repeat_interleave(4, 0)
    expected = AdaCSLController(FOUR).step(q, torch.arange(4).repeat(30), sample_weight=shares.reshape(-1))
    assert result.cost == pytest.approx(expected.cost)
    assert result.lambdas == pytest.approx(expected.lambdas)
    soft = torch.rand(30)
    binary = AdaptiveCrossEntropy(TWO).adapt(logits[:, 0], soft)
    p = torch.sigmoid(logits[:, 0])
    expected = AdaCSLController(TWO).step(
        torch.cat((p, p)), torch.arange(2).repeat_interleave(30), sample_weight=torch.cat((1 - soft, soft))
    )
    assert binary.cost == pytest.approx(expected.cost)
    assert binary.threshold == pytest.approx(expected.threshold)


@pytest.mark.parametrize(
    ("logits", "targets", "costs", "message"),
    [
        ((3, 2, 2), (3, 2), TWO, "may be tokens x classes or classes x positions"),
        ((3, 4, 4), (3, 4), FOUR, "may be tokens x classes or classes x positions"),
        ((3, 7, 4), (3, 4), FOUR, r"targets must have shape \(3, 7\)"),
        ((3, 7, 5), (3, 7), FOUR, r"logits must have shape \(n, 4\)"),
        ((3, 2), (3, 4), [TWO, TWO], "targets of 2 labels must have the shape of the logits"),
        ((3, 4), (3, 4), [TWO, TWO], r"logits must have shape \(n, 2\), one for each label"),
    ],
)
def test_shapes_that_fit_no_problem_or_two_are_refused(logits, targets, costs, message):
    loss = AdaptiveCrossEntropy(costs)
    for use in (loss, loss.adapt):
        with pytest.raises(ValueError, match=message):
            use(torch.zeros(logits), torch.zeros(targets))


@pytest.mark.parametrize("name", SHAPES)
def test_sample_weights_have_the_shape_of_the_losses(name):
    logits, targets = made(name)
    loss = AdaptiveCrossEntropy(loss_costs(name), target_threshold=0.5)
    each = AdaptiveCrossEntropy(loss_costs(name), target_threshold=0.5, reduction="none")(logits, targets)
    weight = torch.rand(each.shape)
    assert_close(loss(logits, targets, weight), (each * weight).sum() / each.numel())
    with pytest.raises(ValueError, match="sample_weight must have shape"):
        loss(logits, targets, torch.ones(*each.shape, 2))


@pytest.mark.parametrize(("name", "kind"), [*zip(SHAPES, itertools.cycle(ALL), strict=False)])
def test_each_shape_compiles_without_a_graph_break(kind, name):
    logits, targets = made(name, soft=True)
    kwargs = {} if name.startswith("one-hot") else {"ignore_index": -100}
    loss = kind(loss_costs(name), target_threshold=0.5, label_smoothing=0.1, **kwargs)
    counter = torch._dynamo.testing.CompileCounter()
    torch._dynamo.reset()
    compiled = torch.compile(loss, backend=counter, fullgraph=True)
    assert_close(compiled(logits, targets), loss(logits, targets))
    assert counter.frame_count == 1


@pytest.mark.parametrize("name", SHAPES)
def test_half_precision_of_each_shape_gives_a_float32_loss(name):
    logits, targets = made(name)
    loss = AdaptiveCrossEntropy(loss_costs(name))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = logits.bfloat16()
        assert loss(half, targets).dtype == torch.float32
        assert_close(loss(half, targets), loss(half.float(), targets), rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "B,T,1"])
def test_decisions_have_the_shape_of_the_labels(name):
    logits, targets = made(name)
    loss = AdaptiveCrossEntropy(loss_costs(name))
    p, _ = by_hand(name, logits, targets)
    expected = loss.controller.decide(p[:, 1] if classes_of(name) == 2 else p)
    decided = loss.decide(logits)
    assert decided.reshape(-1).tolist() == expected.tolist()
    if not name.startswith("one-hot") and "column" not in name and "same" not in name:
        assert decided.shape == targets.shape


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_flat_samples_are_those_of_a_loop(data):
    """Any shape, any ignored label: the same rows as one by one."""
    size, k = data.draw(st.integers(1, 3)), data.draw(st.integers(2, 4))
    space = data.draw(st.lists(st.integers(1, 3), max_size=2))
    shape = (size, k, *space)
    seed = data.draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.normal(size=shape))
    targets = torch.from_numpy(rng.integers(-1, k, size=(size, *space)))
    if len(space) == 1 and space[0] in (k, 2) and (k == 2 or space[0] == k):
        return  # may be tokens
    rows = flat_samples(logits, targets, k, ignore_index=-1)
    expected = []
    for index in itertools.product(range(size), *map(range, space)):
        if targets[index] != -1:
            z = [logits[(index[0], j, *index[1:])].item() for j in range(k)]
            expected.append(((z[1] - z[0]) if k == 2 else z, int(targets[index]), index[0]))
    assert [int(y) for y in rows.labels] == [y for _, y, _ in expected]
    assert rows.place.tolist() == [i for *_, i in expected]
    if expected:
        assert_close(rows.logits, torch.tensor([z for z, *_ in expected], dtype=torch.float64))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_on_a_gpu(name):
    logits, targets = made(name)
    ours, theirs = AdaptiveCrossEntropy(loss_costs(name)), AdaptiveCrossEntropy(loss_costs(name)).cuda()
    assert_close(theirs(logits.cuda(), targets.cuda()).cpu(), ours(logits, targets))
    assert theirs.adapt(logits.cuda(), targets.cuda()).cost == pytest.approx(ours.adapt(logits, targets).cost)
    parts = ((logits[rows].cuda(), targets[rows].cuda()) for rows in torch.arange(len(logits)).split(2))
    assert theirs.adapt(parts).cost == pytest.approx(ours.adapt(logits, targets).cost)
