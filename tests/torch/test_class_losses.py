"""The losses of K classes: equal to torch's, and as well-behaved as those of two."""

import copy
import io

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from adacsl import AdaCSLController, CostMatrix
from adacsl.torch import (
    AdaptiveCrossEntropy,
    AdaptiveFocalLoss,
    FocalLoss,
    WeightedCrossEntropy,
    weighted_cross_entropy,
    weighted_focal_loss,
)

COSTS = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")
ALL = [WeightedCrossEntropy, FocalLoss, AdaptiveCrossEntropy, AdaptiveFocalLoss]
ADAPTIVE = [AdaptiveCrossEntropy, AdaptiveFocalLoss]
WEIGHTS = torch.tensor([0.2, 3.0, 1.0])


def batch(n=200, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(0, 3, (n,), generator=generator)
    targets[:3] = torch.arange(3)
    logits = torch.randn(n, 3, generator=generator) + F.one_hot(targets, 3) * 1.5 + torch.tensor([1.0, 0.0, -1.0])
    return logits.to(dtype), targets


class Model(nn.Module):
    """A user's model that holds its loss."""

    def __init__(self, loss=None):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        if loss is not None:
            self.loss = loss


# the value


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cross_entropy_is_torchs_but_for_the_mean(dtype):
    logits, targets = batch(dtype=dtype)
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
def test_focal_equals_its_definition(gamma):
    logits, targets = batch(dtype=torch.float64)
    p = torch.softmax(logits, 1)[torch.arange(200), targets]
    expected = -WEIGHTS.double()[targets] * (1 - p) ** gamma * torch.log(p)
    assert_close(weighted_focal_loss(logits, targets, WEIGHTS, gamma=gamma, reduction="none"), expected)
    if gamma == 0.0:
        assert_close(expected.mean(), weighted_cross_entropy(logits, targets, WEIGHTS))


@pytest.mark.parametrize("loss", [weighted_cross_entropy, weighted_focal_loss])
def test_gradient_equals_finite_differences(loss):
    logits, targets = batch(6, dtype=torch.float64)
    logits.requires_grad_()
    for scale in (None, torch.rand(6, dtype=torch.float64)):
        assert torch.autograd.gradcheck(
            lambda z, scale=scale: loss(z, targets, WEIGHTS.double(), sample_weight=scale), (logits,)
        )


@pytest.mark.parametrize("loss", [weighted_cross_entropy, weighted_focal_loss])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_extreme_logits_stay_finite(loss, dtype):
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0], [0.0, 0.0, 0.0], [1e4, 1e4, -1e4]], dtype=dtype)
    logits.requires_grad_()
    value = loss(logits, torch.tensor([0, 0, 1, 2]), WEIGHTS)
    assert value.dtype == torch.float32
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(logits.grad).all()


def test_maps_are_one_loss_per_cell():
    logits, targets = batch(48)
    dense, cells = logits.reshape(2, 4, 6, 3).movedim(-1, 1), targets.reshape(2, 4, 6)
    for loss in (weighted_cross_entropy, weighted_focal_loss):
        assert_close(loss(dense, cells, WEIGHTS), loss(logits, targets, WEIGHTS))
    ours, theirs = (AdaptiveCrossEntropy(COSTS) for _ in range(2))
    assert ours.adapt(dense, cells) == theirs.adapt(logits, targets)


@pytest.mark.parametrize("kind", ALL)
def test_autocast_and_half_precision_give_a_float32_loss(kind):
    logits, targets = batch()
    loss = kind(COSTS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(nn.Linear(3, 3)(logits), targets)
    assert value.dtype == torch.float32
    for dtype in (torch.float16, torch.bfloat16):
        assert_close(loss(logits.to(dtype), targets), loss(logits.to(dtype).float(), targets), rtol=0, atol=0)


def test_modules_take_their_weights_from_the_costs():
    logits, targets = batch()
    plain = F.cross_entropy(logits, targets)
    assert_close(AdaptiveCrossEntropy(COSTS)(logits, targets), plain)
    assert_close(WeightedCrossEntropy(COSTS, target_threshold="bayes")(logits, targets), plain)
    means = torch.tensor(COSTS.class_weights(), dtype=torch.float32)
    assert_close(WeightedCrossEntropy(COSTS).class_weights, means)
    assert_close(AdaptiveCrossEntropy(COSTS, target_threshold="middle").class_weights, means.sqrt())
    assert_close(FocalLoss(COSTS, gamma=0.0)(logits, targets), WeightedCrossEntropy(COSTS)(logits, targets))


# adapting


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_adapt_steps_the_controller(kind):
    logits, targets = batch()
    loss, alone = kind(COSTS, damping=0.5), AdaCSLController(COSTS, damping=0.5)
    weights = (torch.arange(200) % 3).float()
    buffer = loss.class_weights
    for scale in (None, weights):
        result = loss.adapt(logits, targets, scale)
        expected = alone.step(torch.softmax(logits.detach(), 1), targets, sample_weight=scale)
        assert result == expected
    assert loss.class_weights is buffer
    assert_close(buffer, torch.tensor(alone.weights, dtype=torch.float32))
    assert buffer.tolist() != [1.0, 1.0, 1.0]
    assert not buffer.requires_grad


def test_training_loop_with_two_changed_lines_gets_cheaper():
    torch.manual_seed(0)
    features = torch.randn(900, 4)
    targets = torch.multinomial(torch.softmax(features[:, :3] * 4.0 + torch.tensor([2.0, 0.0, 1.0]), 1), 1)[:, 0]
    train, valid = slice(0, 600), slice(600, 900)
    model, loss = nn.Linear(4, 3), AdaptiveCrossEntropy(COSTS, damping=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    costs = []
    for _ in range(12):
        for _ in range(5):
            optimizer.zero_grad()
            loss(model(features[train]), targets[train]).backward()
            optimizer.step()
        with torch.no_grad():
            costs.append(loss.adapt(model(features[valid]), targets[valid]).cost)
    labels = targets[valid].numpy()
    constant = min(COSTS.mean(labels, labels * 0 + action) for action in range(3))
    assert min(costs[-3:]) < 0.9 * min(constant, costs[0])


@pytest.mark.parametrize(
    ("logits", "targets", "message"),
    [
        ((8, 2), (8,), r"logits must have shape \(n, 3\), one for each class, got \(8, 2\)"),
        ((8,), (8,), r"logits must have shape \(n, 3\)"),
        ((8, 3), (7,), r"targets must have shape \(8,\) for logits of shape \(8, 3\), got \(7,\)"),
        ((8, 3), (8, 3), "one-hot or soft rows that sum to 1, got a row with the sum 0"),
    ],
)
@pytest.mark.parametrize("kind", ADAPTIVE)
def test_shapes_that_do_not_fit_are_refused(kind, logits, targets, message):
    loss = kind(COSTS)
    for use in (loss, loss.adapt):
        with pytest.raises(ValueError, match=message):
            use(torch.zeros(logits), torch.zeros(targets, dtype=torch.long))
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(8,\), got \(7,\)"):
        loss(torch.zeros(8, 3), torch.zeros(8), torch.ones(7))


def test_a_net_of_three_outputs_with_costs_of_two_classes_is_told_what_is_missing():
    with pytest.raises(ValueError, match="K classes need K x K costs"):
        AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8))(torch.zeros(4, 3), torch.zeros(4))


# the buffer


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_compiled_loss_is_not_compiled_again_after_adapt(kind):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    loss = kind(COSTS)
    compiled = torch.compile(loss, backend=backend, fullgraph=True)
    logits, targets = batch()
    before = compiled(logits, targets)
    for seed in range(3):
        loss.adapt(*batch(seed=seed))
        value = compiled(logits, targets)
    assert len(graphs) == 1
    assert_close(value, loss(logits, targets))
    assert value != before


@pytest.mark.parametrize("kind", ALL)
def test_casting_keeps_the_weights_and_meta_models_get_them(kind):
    loss = kind(COSTS, target_threshold="half")
    before = loss.class_weights.clone()
    Model(loss).half()
    assert torch.equal(loss.class_weights, before)
    with torch.device("meta"):
        made = kind(COSTS, target_threshold="half")
    assert made.class_weights.is_meta
    assert repr(made) == repr(loss)
    made.to_empty(device="cpu")
    assert torch.equal(made.class_weights, before)
    assert "class_weights=[" in repr(loss)


# checkpoints


@pytest.mark.parametrize("kind", ALL)
def test_checkpoints_made_without_the_loss_load_strictly(kind):
    model = Model(kind(COSTS))
    model.load_state_dict(Model().state_dict(), strict=True)
    with pytest.raises(RuntimeError, match=r"loss\.class_weights must be 3 positive numbers"):
        model.load_state_dict(model.state_dict() | {"loss.class_weights": torch.tensor([1.0, float("nan"), 1.0])})
    with pytest.raises(RuntimeError, match=r"loss\.class_weights must be 3 positive numbers"):
        model.load_state_dict(model.state_dict() | {"loss.class_weights": torch.ones(4)})
    two = Model(kind(CostMatrix(fp=1, fn=8))).state_dict()
    with pytest.raises((RuntimeError, ValueError), match=r"negative_weight|saved settings"):
        model.load_state_dict(two, strict=True)


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_state_goes_on_where_it_stopped(kind):
    model = Model(kind(COSTS, damping=0.5))
    for seed in range(3):
        model.loss.adapt(*batch(seed=seed))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = Model(kind(COSTS, damping=0.5))
    other.load_state_dict(torch.load(file, weights_only=True), strict=True)
    assert torch.equal(other.loss.class_weights, model.loss.class_weights)
    assert other.loss.controller.history == model.loss.controller.history
    assert copy.deepcopy(model.loss).adapt(*batch(seed=9)) == other.loss.adapt(*batch(seed=9))


def test_a_controller_of_other_classes_is_refused():
    loss = AdaptiveCrossEntropy(COSTS)
    loss.controller = AdaCSLController(CostMatrix.from_array(1 - torch.eye(4).numpy(), rows="actual"))
    with pytest.raises(ValueError, match="the loss has 3 classes, its controller 4"):
        loss.refresh()


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("strange", [0.5, float("nan")])
def test_soft_labels_are_refused_not_cut_off(kind, strange):
    with pytest.raises(ValueError, match="targets must be class numbers from 0 to 2, got"):
        kind(COSTS)(torch.zeros(3, 3), torch.tensor([0.0, strange, 2.0]))


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_decisions_are_those_that_adapt_measures_and_not_the_likeliest(kind):
    loss, (logits, targets) = kind(COSTS), batch()
    loss.adapt(logits, targets)
    decided = loss.decide(logits)
    assert decided.dtype == torch.int64
    assert not torch.equal(decided, logits.argmax(1))
    assert COSTS.mean(targets, decided) == pytest.approx(loss.adapt(logits, targets).cost)
    assert COSTS.mean(targets, decided) < COSTS.mean(targets, logits.argmax(1))
    assert torch.equal(torch.cat([loss.decide(one[None]) for one in logits]), decided)
    maps = logits.reshape(-1, 4, 3).transpose(1, 2)
    assert torch.equal(loss.decide(maps), decided.reshape(-1, 4))


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_samples_that_count_nothing_in_the_loss_count_nothing_in_adapt(kind):
    (logits, targets), loss = batch(), kind(COSTS)
    masked = torch.cat((targets, torch.full((5,), -100)))
    loss.adapt(torch.cat((logits, torch.zeros(5, 3))), masked)
    other = kind(COSTS)
    other.adapt(logits, targets)
    assert loss.controller.history == other.controller.history
