"""The losses as modules: what they hold, how they adapt, and that they break no checkpoint."""

import copy
import io
import pickle

import pytest
import safetensors.torch
import torch
import torch._dynamo.testing
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import UniformBins
from adacsl.torch import AdaptiveCrossEntropy, AdaptiveFocalLoss, AdaptiveLoss, FocalLoss, WeightedCrossEntropy

COSTS = CostMatrix(fp=1, fn=8)
ALL = [WeightedCrossEntropy, FocalLoss, AdaptiveCrossEntropy, AdaptiveFocalLoss]
ADAPTIVE = [AdaptiveCrossEntropy, AdaptiveFocalLoss]


def batch(n=200, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, generator=generator)
    targets = (torch.rand(n, generator=generator) < torch.sigmoid(1.5 * logits - 1)).long()
    targets[:2] = torch.tensor([0, 1])
    return logits, targets


class Model(nn.Module):
    """A user's model that holds its loss."""

    def __init__(self, loss=None):
        super().__init__()
        self.layer = nn.Linear(3, 1)
        if loss is not None:
            self.head = nn.ModuleDict({"loss": loss})


# the value


@pytest.mark.parametrize("kind", [WeightedCrossEntropy, AdaptiveCrossEntropy])
@pytest.mark.parametrize("target_threshold", [0.5, 0.2])
def test_cross_entropy_modules_equal_torch(kind, target_threshold):
    logits, targets = batch()
    weight = 1 / 8 * (1 - target_threshold) / target_threshold
    expected = weight * F.binary_cross_entropy_with_logits(logits, targets.float(), pos_weight=torch.tensor(1 / weight))
    assert_close(kind(COSTS, target_threshold=target_threshold)(logits, targets), expected)
    sample_weight = torch.rand(200)
    each = F.binary_cross_entropy_with_logits(
        logits, targets.float(), pos_weight=torch.tensor(1 / weight), reduction="none"
    )
    assert_close(
        kind(COSTS, target_threshold=target_threshold)(logits, targets, sample_weight),
        (weight * each * sample_weight).mean(),
    )
    assert_close(kind(COSTS, target_threshold=target_threshold, reduction="none")(logits, targets), weight * each)
    assert_close(
        kind(COSTS, target_threshold=target_threshold, reduction="sum")(logits, targets), (weight * each).sum()
    )


def test_target_at_the_bayes_threshold_is_plain_cross_entropy():
    logits, targets = batch()
    plain = F.binary_cross_entropy_with_logits(logits, targets.float())
    assert_close(WeightedCrossEntropy(COSTS, target_threshold=COSTS.threshold)(logits, targets), plain)


@pytest.mark.parametrize(
    ("focal", "cross"), [(FocalLoss, WeightedCrossEntropy), (AdaptiveFocalLoss, AdaptiveCrossEntropy)]
)
def test_focal_modules_with_gamma_zero_are_cross_entropy(focal, cross):
    logits, targets = batch()
    assert_close(focal(COSTS, gamma=0.0)(logits, targets), cross(COSTS)(logits, targets))
    assert focal(COSTS)(logits, targets) < cross(COSTS)(logits, targets)


@pytest.mark.parametrize("kind", ALL)
def test_forward_hands_on_sample_weights_and_reduction(kind):
    logits, targets = batch(30)
    weights = torch.linspace(0, 3, 30)
    each = kind(COSTS, reduction="none")(logits, targets)
    assert each.shape == (30,)
    assert_close(kind(COSTS)(logits, targets, weights), (each * weights).sum() / 30)
    assert_close(kind(COSTS, reduction="sum")(logits, targets, sample_weight=weights), (each * weights).sum())


# adapting


@pytest.mark.parametrize("kind", ADAPTIVE)
@pytest.mark.parametrize("outputs", [(), (1,), (2,)])
def test_adapt_steps_the_controller_with_the_scores(kind, outputs):
    logits, targets = batch()
    loss, alone = (
        kind(COSTS, partition=UniformBins(5), target_threshold=0.4),
        AdaCSLController(COSTS, partition=UniformBins(5), target_threshold=0.4),
    )
    expected = alone.step(torch.sigmoid(logits), targets)
    shown = {(): logits, (1,): logits[:, None], (2,): torch.stack((logits * 0 + 1, logits + 1), dim=1)}[outputs]
    result = loss.adapt(shown, targets if outputs != (1,) else targets[:, None].float())
    assert result.factor == pytest.approx(expected.factor, rel=1e-5)
    assert result.cost == pytest.approx(expected.cost)
    assert loss.negative_weight.item() == pytest.approx(loss.controller.weight, rel=1e-6)
    assert loss.negative_weight.item() != pytest.approx(0.125 * 1.5)
    assert not loss.negative_weight.requires_grad


def test_adapt_takes_sample_weights_dense_maps_and_wide_logits():
    logits, targets = batch()
    weights = (torch.arange(200) % 3).float()
    expected = AdaCSLController(COSTS).step(
        torch.sigmoid(logits.double()).repeat_interleave(weights.long()), targets.repeat_interleave(weights.long())
    )
    result = AdaptiveCrossEntropy(COSTS).adapt(logits.double(), targets, weights)
    assert result.factor == expected.factor
    dense = AdaptiveCrossEntropy(COSTS).adapt(
        logits.double().reshape(4, 10, 5), targets.reshape(4, 10, 5), weights.reshape(4, 10, 5)
    )
    assert dense == result


def test_adapt_with_a_price_for_each_row():
    logits, targets = batch()
    prices = CostMatrix(fp=1.0, fn=torch.linspace(1.0, 20.0, len(targets), dtype=torch.float64))
    usual = prices.averaged(targets)
    for instance_weighted in (False, True):
        loss = AdaptiveCrossEntropy(usual, instance_weighted=instance_weighted)
        by_hand = AdaCSLController(usual, instance_weighted=instance_weighted).step(
            torch.sigmoid(logits), targets, costs=prices
        )
        assert loss.adapt(logits, targets, costs=prices) == by_hand
        assert by_hand.cost != AdaCSLController(usual).step(torch.sigmoid(logits), targets).cost
    # a row of twice the price is two rows
    weight = prices.row_weights(targets).float()
    twice = torch.cat((logits, logits[5:6])), torch.cat((targets, targets[5:6]))
    loss = WeightedCrossEntropy(usual, reduction="sum")
    dearer = weight.clone()
    dearer[5] *= 2
    assert_close(loss(logits, targets, dearer), loss(*twice, torch.cat((weight, weight[5:6]))))


def test_adapt_in_half_precision_computes_in_float32():
    logits, targets = batch()
    for dtype in (torch.float16, torch.bfloat16):
        half = AdaptiveCrossEntropy(COSTS).adapt(logits.to(dtype), targets)
        assert half == AdaptiveCrossEntropy(COSTS).adapt(logits.to(dtype).float(), targets)


@pytest.mark.parametrize(
    ("logits", "targets", "message"),
    [
        ([0.0, float("nan")], [0, 1], "validation scores must be finite, got nan at position 1"),
        ([0.0, 1.0], [1, 1], "adaptation needs both classes"),
        ([0.0, 1.0], [0, 2], "labels must be 0 or 1"),
        ([0.0, 1.0], [0, 1, 1], "targets must have shape"),
    ],
)
def test_adapt_refuses_and_keeps_the_weight(logits, targets, message):
    loss = AdaptiveCrossEntropy(COSTS)
    with pytest.raises(ValueError, match=message):
        loss.adapt(torch.tensor(logits), torch.tensor(targets))
    assert loss.negative_weight.item() == 0.125


def test_a_controller_of_ones_own_is_used_and_shared():
    controller = AdaCSLController(COSTS, target_threshold=0.3, update="odds")
    first, second = AdaptiveCrossEntropy(controller), AdaptiveFocalLoss(controller)
    first.adapt(*batch())
    second.refresh()
    assert first.controller is controller
    assert first.negative_weight.item() == second.negative_weight.item() != pytest.approx(7 / 24)
    with pytest.raises(TypeError, match="the controller brings its own settings: target_threshold cannot be given too"):
        AdaptiveCrossEntropy(controller, target_threshold=0.4)


def test_training_loop_with_two_changed_lines_gets_cheaper():
    torch.manual_seed(0)
    features = torch.randn(600, 3)
    targets = (torch.rand(600) < torch.sigmoid(features.sum(1) * 1.5 - 3)).long()
    train, valid = slice(0, 400), slice(400, 600)
    model, loss = nn.Linear(3, 1), AdaptiveCrossEntropy(COSTS)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    costs = []
    for _ in range(15):
        for _ in range(5):
            optimizer.zero_grad()
            loss(model(features[train]), targets[train]).backward()
            optimizer.step()
        with torch.no_grad():
            costs.append(loss.adapt(model(features[valid]), targets[valid]).cost)
    all_positive = float((targets[valid] == 0).float().mean())
    assert min(costs[-3:]) < 0.9 * min(all_positive, costs[0])


# the buffer


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("cast", [nn.Module.half, nn.Module.bfloat16, nn.Module.double, lambda m: m.to(torch.bfloat16)])
def test_casting_the_model_keeps_the_weight(kind, cast):
    loss = kind(CostMatrix(fp=1e-9, fn=3))
    before = loss.negative_weight.clone()
    model = cast(Model(loss))
    assert model.layer.weight.dtype != torch.float32
    assert loss.negative_weight.dtype == torch.float32
    assert torch.equal(loss.negative_weight, before)


@pytest.mark.parametrize("kind", ALL)
def test_model_made_on_the_meta_device_gets_its_weight(kind):
    with torch.device("meta"):
        loss = kind(COSTS)
    assert loss.negative_weight.is_meta
    assert "0.125" in repr(loss)
    loss.to_empty(device="cpu")
    assert loss.negative_weight.item() == 0.125


def test_adapt_changes_the_buffer_in_place():
    loss = AdaptiveCrossEntropy(COSTS)
    buffer = loss.negative_weight
    loss.adapt(*batch())
    assert loss.negative_weight is buffer
    assert buffer.item() != 0.125
    assert dict(loss.named_buffers())["negative_weight"] is buffer
    assert list(loss.parameters()) == []


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_compiled_loss_is_not_compiled_again_after_adapt(kind):
    counter = torch._dynamo.testing.CompileCounter()
    loss = kind(COSTS)
    compiled = torch.compile(loss, backend=counter, fullgraph=True)
    logits, targets = batch()
    before = compiled(logits, targets)
    for seed in range(3):
        loss.adapt(*batch(seed=seed))
        value = compiled(logits, targets)
    assert counter.frame_count == 1
    assert_close(value, loss(logits, targets))
    assert value != before


@pytest.mark.parametrize("kind", ALL)
def test_repr_shows_the_weight(kind):
    assert "negative_weight=0.125, reduction='mean'" in repr(kind(COSTS))


@pytest.mark.parametrize("kind", ALL)
def test_reduction_is_checked(kind):
    with pytest.raises(ValueError, match="reduction must be 'mean', 'sum' or 'none', got 'average'"):
        kind(COSTS, reduction="average")


@pytest.mark.parametrize("kind", ALL)
def test_costs_are_checked(kind):
    with pytest.raises(TypeError, match="costs must be a CostMatrix"):
        kind([[0, 1], [8, 0]])
    with pytest.raises(ValueError, match="give class-wide costs"):
        kind(CostMatrix(fp=[1, 2], fn=3))
    with pytest.raises(ValueError, match="target_threshold must lie strictly between"):
        kind(COSTS, target_threshold=1)


# checkpoints


@pytest.mark.parametrize("kind", ALL)
def test_checkpoints_made_without_the_loss_load_strictly(kind):
    checkpoint = Model().state_dict()
    model = Model(kind(COSTS))
    model.load_state_dict(checkpoint, strict=True)
    assert_close(model.layer.weight, checkpoint["layer.weight"])
    assert model.head["loss"].negative_weight.item() == 0.125
    kind(COSTS).load_state_dict({}, strict=True)


def test_other_missing_keys_are_still_missed():
    with pytest.raises(RuntimeError, match=r"layer\.bias"):
        Model(AdaptiveCrossEntropy(COSTS)).load_state_dict({"layer.weight": torch.zeros(1, 3)}, strict=True)
    with pytest.raises(RuntimeError, match=r"head\.loss\.spin"):
        Model(AdaptiveCrossEntropy(COSTS)).load_state_dict(Model().state_dict() | {"head.loss.spin": torch.ones(1)})


@pytest.mark.parametrize("kind", ADAPTIVE)
@pytest.mark.parametrize("via", ["torch", "safetensors", "memory"])
def test_state_goes_on_where_it_stopped(kind, via, tmp_path):
    model = Model(kind(COSTS, partition=UniformBins(4)))
    for seed in range(3):
        model.head["loss"].adapt(*batch(seed=seed))
    state = model.state_dict()
    if via == "torch":
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        state = torch.load(file, weights_only=True)
    elif via == "safetensors":
        safetensors.torch.save_file(state, tmp_path / "model.safetensors")
        state = safetensors.torch.load_file(tmp_path / "model.safetensors")
    other = Model(kind(COSTS, partition=UniformBins(4)))
    other.load_state_dict(state, strict=True)
    ours, theirs = model.head["loss"], other.head["loss"]
    assert theirs.controller.history == ours.controller.history
    assert theirs.negative_weight.item() == ours.negative_weight.item() != 0.125
    assert ours.adapt(*batch(seed=9)) == theirs.adapt(*batch(seed=9))


@pytest.mark.parametrize("kind", [WeightedCrossEntropy, FocalLoss])
def test_fixed_losses_save_their_weight(kind):
    other = kind(CostMatrix(fp=1, fn=2))
    other.load_state_dict(kind(COSTS).state_dict())
    assert other.negative_weight.item() == 0.125


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0])
def test_checkpoint_with_a_damaged_weight_is_refused(kind, value):
    model = Model(kind(COSTS))
    state = model.state_dict()
    state["head.loss.negative_weight"] = torch.tensor(value)
    with pytest.raises(RuntimeError, match=r"head\.loss\.negative_weight must be one positive number"):
        Model(kind(COSTS)).load_state_dict(state)


@pytest.mark.parametrize("kind", ADAPTIVE)
@pytest.mark.parametrize(
    "damage",
    [
        lambda t: t[:-7],
        lambda t: t[:0],
        lambda t: torch.cat((t[:3], torch.tensor([255], dtype=torch.uint8), t[4:])),
        lambda t: torch.zeros(5),
        lambda t: t.to(torch.int64) + 300,
    ],
)
def test_checkpoint_with_a_damaged_controller_is_refused(kind, damage):
    state = Model(kind(COSTS)).state_dict()
    state["head.loss._extra_state"] = damage(state["head.loss._extra_state"])
    model = Model(kind(COSTS))
    with pytest.raises(ValueError, match="the checkpoint is damaged"):
        model.load_state_dict(state)
    assert model.head["loss"].controller.lambda_ == 1


def test_half_a_checkpoint_is_refused():
    state = Model(AdaptiveCrossEntropy(COSTS)).state_dict()
    del state["head.loss._extra_state"]
    with pytest.raises(RuntimeError, match="Missing key"):
        Model(AdaptiveCrossEntropy(COSTS)).load_state_dict(state)


def test_checkpoint_of_other_costs_is_refused():
    state = AdaptiveCrossEntropy(CostMatrix(fp=1, fn=3)).state_dict()
    with pytest.raises(ValueError, match="make the controller with the saved settings"):
        AdaptiveCrossEntropy(COSTS).load_state_dict(state)


@pytest.mark.parametrize("kind", ALL)
def test_copies_go_their_own_way(kind):
    loss = kind(COSTS)
    if isinstance(loss, AdaptiveLoss):
        loss.adapt(*batch())
    before = loss.negative_weight.item()
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):  # noqa: S301
        assert_close(other(*batch()), loss(*batch()))
        if isinstance(other, AdaptiveLoss):
            other.adapt(*batch(seed=4))
            assert len(loss.controller.history) == 1
        assert loss.negative_weight.item() == before


# labels


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("strange", [-100, -1, 2, 1.5, float("nan")])
@pytest.mark.parametrize("shape", [(4,), (4, 1), (2, 2, 2)])
def test_labels_outside_0_to_1_are_refused(kind, strange, shape):
    targets = torch.zeros(shape).reshape(-1)
    targets[[0, 1]] = torch.tensor([1.0, strange])
    if len(shape) == 3:
        targets = targets.reshape(shape)
    logits = torch.zeros(shape)
    for labels in [targets, targets.long()] if isinstance(strange, int) else [targets]:
        with pytest.raises(ValueError, match=r"targets must lie in \[0, 1\], got (-?\d|nan)"):
            kind(COSTS)(logits, labels)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float64])
def test_labels_of_any_type_soft_ones_and_none_at_all_are_taken(kind, dtype):
    loss, logits = kind(COSTS), torch.tensor([0.5, -1.0])
    assert_close(loss(logits, torch.tensor([1, 0]).to(dtype)), loss(logits, torch.tensor([1.0, 0.0])))
    assert torch.isfinite(loss(logits, torch.tensor([0.25, 1.0])))
    assert loss(logits[:0], torch.zeros(0)).numel() == 1


@pytest.mark.parametrize("kind", ALL)
def test_a_compiled_loss_refuses_labels_too(kind):
    compiled = torch.compile(kind(COSTS), backend="aot_eager", fullgraph=True)
    logits, targets = batch()
    assert_close(compiled(logits, targets), kind(COSTS)(logits, targets))
    with pytest.raises(RuntimeError, match=r"targets must lie in \[0, 1\]"):
        compiled(logits, targets.masked_fill(targets == 0, -1))
    torch.compiler.reset()


@pytest.mark.parametrize("kind", ALL)
def test_gradients_of_single_samples(kind):
    loss, (logits, targets) = kind(COSTS, reduction="sum"), batch(6)

    def own(z, y):
        return loss(z[None], y[None])

    each = torch.func.vmap(torch.func.grad(own))(logits, targets)
    leaf = logits.clone().requires_grad_()
    loss(leaf, targets).backward()
    assert_close(each, leaf.grad)


# decisions


@pytest.mark.parametrize("target_threshold", [0.5, 0.2, "bayes"])
@pytest.mark.parametrize("kind", ADAPTIVE)
def test_decisions_are_those_that_adapt_measures(kind, target_threshold):
    loss, (logits, targets) = kind(COSTS, target_threshold=target_threshold), batch()
    for seed in range(3):
        loss.adapt(*batch(seed=seed))
        decided = loss.decide(logits)
        assert decided.dtype == torch.int64
        assert COSTS.mean(targets, decided) == pytest.approx(loss.adapt(logits, targets).cost)
    two = torch.stack((-logits / 2, logits / 2), dim=1)
    assert torch.equal(loss.decide(logits[:, None]), decided)
    assert torch.equal(loss.decide(two), decided)
    assert torch.equal(loss.decide(logits.reshape(5, 1, 8, 5)), decided.reshape(5, 8, 5))
    assert torch.equal(loss.decide(logits.reshape(5, 8, 5)), decided.reshape(5, 8, 5))
    assert torch.equal(loss.decide(two.reshape(5, 40, 2).transpose(1, 2)), decided.reshape(5, 40))
    assert torch.equal(torch.cat([loss.decide(one[None]) for one in logits]), decided)


@pytest.mark.parametrize("instance_weighted", [False, True])
def test_decisions_of_samples_with_costs_of_their_own(instance_weighted):
    logits, targets = batch()
    own = CostMatrix(fp=1.0, fn=torch.linspace(1.0, 30.0, 200, dtype=torch.float64))
    loss = AdaptiveCrossEntropy(own.averaged(targets), instance_weighted=instance_weighted)
    decided = loss.decide(logits, costs=own)
    assert own.mean(targets, decided) == pytest.approx(loss.adapt(logits, targets, costs=own).cost)


# adapting to the right numbers


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_logits_with_gradients_are_warned_about(kind):
    logits, targets = batch()
    with pytest.warns(UserWarning, match=r"net.eval\(\) and torch.no_grad\(\)"):
        kind(COSTS).adapt(logits.requires_grad_(), targets)


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_a_loss_that_is_trained_and_validated_but_never_adapted_is_warned_about(kind):
    model, (logits, targets) = Model(kind(COSTS)), batch()
    loss = model.head["loss"]

    def epoch():
        model.train()
        loss(logits.requires_grad_(), targets).backward()
        model.eval()
        with torch.no_grad():
            loss(logits, targets)

    epoch()  # it could be adapted now
    with pytest.warns(UserWarning, match=r"has not been adapted: call adapt"):
        epoch()
    epoch()  # said once


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_a_loss_that_is_adapted_or_only_evaluated_is_not_warned_about(kind):
    model, (logits, targets) = Model(kind(COSTS)), batch()
    loss = model.head["loss"]
    for _ in range(3):
        model.eval()
        with torch.no_grad():
            loss(logits, targets)
    for _ in range(3):
        model.train()
        loss(logits.detach().requires_grad_(), targets).backward()
        model.eval()
        loss.adapt(logits, targets)
