"""The losses as modules: what they hold, how they adapt, and that they break no checkpoint; two classes and more."""

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

TWO = CostMatrix(fp=1, fn=8)
THREE = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")
ALL = [WeightedCrossEntropy, FocalLoss, AdaptiveCrossEntropy, AdaptiveFocalLoss]
ADAPTIVE = [AdaptiveCrossEntropy, AdaptiveFocalLoss]
COSTS = pytest.mark.parametrize("costs", [TWO, THREE], ids=["two", "three"])


def batch(n=200, seed=0, costs=TWO):
    generator = torch.Generator().manual_seed(seed)
    if costs is TWO:
        logits = 2 * torch.randn(n, generator=generator)
        targets = (torch.rand(n, generator=generator) < torch.sigmoid(1.5 * logits - 1)).long()
        targets[:2] = torch.tensor([0, 1])
        return logits, targets
    targets = torch.randint(0, 3, (n,), generator=generator)
    targets[:3] = torch.arange(3)
    noise = torch.randn(n, 3, generator=generator)
    return noise + F.one_hot(targets, 3) * 1.5 + torch.tensor([1.0, 0.0, -1.0]), targets


def weight_of(loss):
    return loss.negative_weight if loss.n_classes == 2 else loss.class_weights


def scores_of(logits):
    return torch.sigmoid(logits) if logits.ndim == 1 else torch.softmax(logits, 1)


class Model(nn.Module):
    """A user's model that holds its loss."""

    def __init__(self, loss=None):
        super().__init__()
        self.layer = nn.Linear(3, 1)
        if loss is not None:
            self.head = nn.ModuleDict({"loss": loss})


# the weights; test_samples.py compares the values with the formula


@pytest.mark.parametrize("kind", ALL)
@COSTS
def test_weights_come_from_the_costs(kind, costs):
    half = torch.tensor(0.125 if costs is TWO else THREE.class_weights(), dtype=torch.float32)
    start = half if costs is TWO or kind not in ADAPTIVE else torch.ones(3)
    assert_close(weight_of(kind(costs)), start)
    for target, expected in (("half", half), ("bayes", torch.ones_like(half)), ("middle", half.sqrt())):
        assert_close(weight_of(kind(costs, target_threshold=target)), expected)
    if costs is TWO:
        assert float(weight_of(kind(TWO, target_threshold=0.2))) == pytest.approx(0.5)


@COSTS
def test_limits_are_torchs_cross_entropy(costs):
    logits, targets = batch(costs=costs)
    plain = (
        F.cross_entropy(logits, targets)
        if costs is THREE
        else F.binary_cross_entropy_with_logits(logits, targets.float())
    )
    for kind in (WeightedCrossEntropy, AdaptiveCrossEntropy):
        assert_close(kind(costs, target_threshold="bayes")(logits, targets), plain)
    for focal, cross in ((FocalLoss, WeightedCrossEntropy), (AdaptiveFocalLoss, AdaptiveCrossEntropy)):
        assert_close(focal(costs, gamma=0.0)(logits, targets), cross(costs)(logits, targets))
        assert focal(costs)(logits, targets) < cross(costs)(logits, targets)


# adapting


@pytest.mark.parametrize("kind", ADAPTIVE)
@COSTS
def test_adapt_steps_the_controller(kind, costs):
    logits, targets = batch(costs=costs)
    settings = {"damping": 0.5} | ({"partition": UniformBins(5), "target_threshold": 0.4} if costs is TWO else {})
    loss, alone = kind(costs, **settings), AdaCSLController(costs, **settings)
    buffer = weight_of(loss)
    before = buffer.clone()
    for weight in (None, (torch.arange(200) % 3).float()):
        expected = alone.step(scores_of(logits), targets, sample_weight=weight)
        assert loss.adapt(logits, targets, weight) == expected
    assert weight_of(loss) is buffer
    assert buffer in dict(loss.named_buffers()).values()
    assert_close(buffer, torch.tensor(alone.weight if costs is TWO else alone.weights, dtype=torch.float32))
    assert not torch.equal(buffer, before)
    assert not buffer.requires_grad
    assert list(loss.parameters()) == []


def test_adapt_takes_wide_logits_exactly():
    logits, targets = batch()
    weights = torch.arange(200) % 3
    expected = AdaCSLController(TWO).step(
        torch.sigmoid(logits.double()).repeat_interleave(weights), targets.repeat_interleave(weights)
    )
    assert AdaptiveCrossEntropy(TWO).adapt(logits.double(), targets, weights.float()).factor == expected.factor


def test_adapt_with_costs_of_each_sample():
    logits, targets = batch()
    own = CostMatrix(fp=1.0, fn=torch.linspace(1.0, 20.0, len(targets), dtype=torch.float64))
    mean = own.averaged(targets)
    for instance_weighted in (False, True):
        loss = AdaptiveCrossEntropy(mean, instance_weighted=instance_weighted)
        by_hand = AdaCSLController(mean, instance_weighted=instance_weighted).step(
            torch.sigmoid(logits), targets, costs=own
        )
        assert loss.adapt(logits, targets, costs=own) == by_hand
        assert by_hand.cost != AdaCSLController(mean).step(torch.sigmoid(logits), targets).cost
    # a sample of twice the cost is two samples
    weight = own.row_weights(targets).float()
    twice = torch.cat((logits, logits[5:6])), torch.cat((targets, targets[5:6]))
    loss = WeightedCrossEntropy(mean, reduction="sum")
    doubled = weight.clone()
    doubled[5] *= 2
    assert_close(loss(logits, targets, doubled), loss(*twice, torch.cat((weight, weight[5:6]))))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@COSTS
def test_half_precision_is_computed_in_float32(dtype, costs):
    logits, targets = batch(costs=costs)
    half = logits.to(dtype)
    for kind in ALL:
        assert_close(kind(costs)(half, targets), kind(costs)(half.float(), targets), rtol=0, atol=0)
    assert AdaptiveCrossEntropy(costs).adapt(half, targets) == AdaptiveCrossEntropy(costs).adapt(half.float(), targets)


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
    loss = AdaptiveCrossEntropy(TWO)
    with pytest.raises(ValueError, match=message):
        loss.adapt(torch.tensor(logits), torch.tensor(targets))
    assert loss.negative_weight.item() == 0.125


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
    loss = kind(THREE)
    for use in (loss, loss.adapt):
        with pytest.raises(ValueError, match=message):
            use(torch.zeros(logits), torch.zeros(targets, dtype=torch.long))


def test_own_controllers():
    controller = AdaCSLController(TWO, target_threshold=0.3, update="odds")
    first, second = AdaptiveCrossEntropy(controller), AdaptiveFocalLoss(controller)
    first.adapt(*batch())
    second.refresh()
    assert first.controller is controller
    assert first.negative_weight.item() == second.negative_weight.item() != pytest.approx(7 / 24)
    with pytest.raises(TypeError, match="the controller brings its own settings: target_threshold cannot be given too"):
        AdaptiveCrossEntropy(controller, target_threshold=0.4)
    loss = AdaptiveCrossEntropy(THREE)
    loss.controller = AdaCSLController(CostMatrix.from_array(1 - torch.eye(4).numpy(), rows="actual"))
    with pytest.raises(ValueError, match="the loss has 3 classes, its controller 4"):
        loss.refresh()


@COSTS
def test_training_loop_with_two_changed_lines_lowers_the_cost(costs):
    torch.manual_seed(0)
    features = torch.randn(900, 4)
    if costs is TWO:
        targets = (torch.rand(900) < torch.sigmoid(features.sum(1) * 1.5 - 3)).long()
    else:
        targets = torch.multinomial(torch.softmax(features[:, :3] * 4.0 + torch.tensor([2.0, 0.0, 1.0]), 1), 1)[:, 0]
    train, valid = slice(0, 600), slice(600, 900)
    model, loss = nn.Linear(4, 1 if costs is TWO else 3), AdaptiveCrossEntropy(costs, damping=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    history = []
    for _ in range(15):
        for _ in range(5):
            optimizer.zero_grad()
            loss(model(features[train]), targets[train]).backward()
            optimizer.step()
        with torch.no_grad():
            history.append(loss.adapt(model(features[valid]), targets[valid]).cost)
    labels = targets[valid].numpy()
    constant = min(costs.mean(labels, labels * 0 + action) for action in range(costs.n_classes))
    assert min(history[-3:]) < 0.9 * min(constant, history[0])


# the buffer


@pytest.mark.parametrize("cast", [nn.Module.half, nn.Module.bfloat16, nn.Module.double])
@COSTS
def test_casting_the_model_keeps_the_weight(cast, costs):
    for kind in ALL:
        loss = kind(CostMatrix(fp=1e-9, fn=3) if costs is TWO else costs, target_threshold="half")
        before = weight_of(loss).clone()
        model = cast(Model(loss))
        assert model.layer.weight.dtype != torch.float32
        assert torch.equal(weight_of(loss), before)
        assert weight_of(loss).dtype == torch.float32


@pytest.mark.parametrize("kind", ALL)
@COSTS
def test_a_model_made_on_the_meta_device_gets_its_weight(kind, costs):
    usual = kind(costs, target_threshold="half")
    with torch.device("meta"):
        loss = kind(costs, target_threshold="half")
    assert weight_of(loss).is_meta
    assert repr(loss) == repr(usual)
    assert ("negative_weight=0.125, reduction='mean'" if costs is TWO else "class_weights=[") in repr(loss)
    loss.to_empty(device="cpu")
    assert torch.equal(weight_of(loss), weight_of(usual))


@pytest.mark.parametrize("kind", ADAPTIVE)
@COSTS
def test_a_compiled_loss_is_not_compiled_again_after_adapt(kind, costs):
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    loss = kind(costs)
    compiled = torch.compile(loss, backend=counter, fullgraph=True)
    logits, targets = batch(costs=costs)
    before = compiled(logits, targets)
    for seed in range(3):
        loss.adapt(*batch(seed=seed, costs=costs))
        value = compiled(logits, targets)
    assert counter.frame_count == 1
    assert_close(value, loss(logits, targets))
    assert value != before


@pytest.mark.parametrize("kind", ALL)
def test_settings_are_checked(kind):
    with pytest.raises(ValueError, match="reduction must be 'mean', 'sum' or 'none', got 'average'"):
        kind(TWO, reduction="average")
    with pytest.raises(TypeError, match="costs must be a CostMatrix"):
        kind([[0, 1], [8, 0]])
    with pytest.raises(ValueError, match="give class-wide costs"):
        kind(CostMatrix(fp=[1, 2], fn=3))
    with pytest.raises(ValueError, match="target_threshold must lie strictly between"):
        kind(TWO, target_threshold=1)


# checkpoints


@pytest.mark.parametrize("kind", ALL)
@COSTS
def test_checkpoints_made_without_the_loss_load_strictly(kind, costs):
    checkpoint, model = Model().state_dict(), Model(kind(costs))
    model.load_state_dict(checkpoint, strict=True)
    assert_close(model.layer.weight, checkpoint["layer.weight"])
    assert torch.equal(weight_of(model.head["loss"]), weight_of(kind(costs)))
    kind(costs).load_state_dict({}, strict=True)
    other = Model(kind(THREE if costs is TWO else TWO)).state_dict()
    with pytest.raises((RuntimeError, ValueError), match=r"negative_weight|class_weights|saved settings"):
        model.load_state_dict(other, strict=True)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"layer.weight": torch.zeros(1, 3)}, r"layer\.bias"),
        (Model().state_dict() | {"head.loss.spin": torch.ones(1)}, r"head\.loss\.spin"),
        (Model().state_dict() | {"head.loss.negative_weight": torch.ones(())}, "Missing key"),  # half a checkpoint
    ],
)
def test_other_keys_are_still_needed(state, message):
    with pytest.raises(RuntimeError, match=message):
        Model(AdaptiveCrossEntropy(TWO)).load_state_dict(state, strict=True)


@pytest.mark.parametrize("kind", ADAPTIVE)
@pytest.mark.parametrize("via", ["torch", "safetensors", "memory"])
@COSTS
def test_a_saved_state_continues(kind, via, costs, tmp_path):
    settings = {"partition": UniformBins(4)} if costs is TWO else {"damping": 0.5}
    model = Model(kind(costs, **settings))
    for seed in range(3):
        model.head["loss"].adapt(*batch(seed=seed, costs=costs))
    state = model.state_dict()
    if via == "torch":
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        state = torch.load(file, weights_only=True)
    elif via == "safetensors":
        safetensors.torch.save_file(state, tmp_path / "model.safetensors")
        state = safetensors.torch.load_file(tmp_path / "model.safetensors")
    other = Model(kind(costs, **settings))
    other.load_state_dict(state, strict=True)
    ours, theirs = model.head["loss"], other.head["loss"]
    assert theirs.controller.history == ours.controller.history
    assert torch.equal(weight_of(theirs), weight_of(ours))
    assert not torch.equal(weight_of(ours), weight_of(kind(costs)))
    assert ours.adapt(*batch(seed=9, costs=costs)) == theirs.adapt(*batch(seed=9, costs=costs))


@pytest.mark.parametrize("kind", [WeightedCrossEntropy, FocalLoss])
def test_fixed_losses_save_their_weight(kind):
    other = kind(CostMatrix(fp=1, fn=2))
    other.load_state_dict(kind(TWO).state_dict())
    assert other.negative_weight.item() == 0.125


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("costs", "value"),
    [(TWO, float("nan")), (TWO, float("inf")), (TWO, 0.0), (TWO, -1.0), (THREE, [1.0, float("nan"), 1.0]),
     (THREE, [1.0] * 4)],
)  # fmt: skip
def test_a_checkpoint_with_a_damaged_weight_is_refused(kind, costs, value):
    name, wanted = ("negative_weight", "one positive number") if costs is TWO else ("class_weights", "3 positive num")
    state = Model(kind(costs)).state_dict() | {f"head.loss.{name}": torch.tensor(value)}
    with pytest.raises(RuntimeError, match=rf"head\.loss\.{name} must be {wanted}"):
        Model(kind(costs)).load_state_dict(state)


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
def test_a_checkpoint_with_a_damaged_controller_is_refused(kind, damage):
    state = Model(kind(TWO)).state_dict()
    state["head.loss._extra_state"] = damage(state["head.loss._extra_state"])
    model = Model(kind(TWO))
    with pytest.raises(ValueError, match="the checkpoint is damaged"):
        model.load_state_dict(state)
    assert model.head["loss"].controller.lambda_ == 1


def test_a_checkpoint_of_other_costs_is_refused():
    state = AdaptiveCrossEntropy(CostMatrix(fp=1, fn=3)).state_dict()
    with pytest.raises(ValueError, match="make the controller with the saved settings"):
        AdaptiveCrossEntropy(TWO).load_state_dict(state)


@pytest.mark.parametrize("kind", ALL)
def test_copies_are_independent(kind):
    loss = kind(TWO)
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
@pytest.mark.parametrize("invalid", [-100, -1, 2, 1.5, float("nan")])
@pytest.mark.parametrize("shape", [(4,), (4, 1), (2, 2, 2)])
def test_labels_outside_0_to_1_are_refused(kind, invalid, shape):
    targets = torch.zeros(shape)
    targets.view(-1)[:2] = torch.tensor([1.0, invalid])
    for labels in [targets, targets.long()] if isinstance(invalid, int) else [targets]:
        with pytest.raises(ValueError, match=r"targets must lie in \[0, 1\], got (-?\d|nan)"):
            kind(TWO)(torch.zeros(shape), labels)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("invalid", [0.5, float("nan")])
def test_soft_labels_of_three_classes_are_refused_not_truncated(kind, invalid):
    with pytest.raises(ValueError, match="targets must be class numbers from 0 to 2, got"):
        kind(THREE)(torch.zeros(3, 3), torch.tensor([0.0, invalid, 2.0]))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float64])
def test_labels_of_any_type_soft_ones_and_none_at_all_are_taken(kind, dtype):
    loss, logits = kind(TWO), torch.tensor([0.5, -1.0])
    assert_close(loss(logits, torch.tensor([1, 0]).to(dtype)), loss(logits, torch.tensor([1.0, 0.0])))
    assert torch.isfinite(loss(logits, torch.tensor([0.25, 1.0])))
    assert loss(logits[:0], torch.zeros(0)).numel() == 1


@pytest.mark.parametrize("kind", [FocalLoss, AdaptiveCrossEntropy])
def test_a_compiled_loss_refuses_labels_too(kind):
    compiled = torch.compile(kind(TWO), backend="aot_eager", fullgraph=True)
    logits, targets = batch()
    assert_close(compiled(logits, targets), kind(TWO)(logits, targets))
    with pytest.raises(RuntimeError, match=r"targets must lie in \[0, 1\]"):
        compiled(logits, targets.masked_fill(targets == 0, -1))
    torch.compiler.reset()


@pytest.mark.parametrize("kind", ALL)
def test_gradients_of_single_samples(kind):
    loss, (logits, targets) = kind(TWO, reduction="sum"), batch(6)
    each = torch.func.vmap(torch.func.grad(lambda z, y: loss(z[None], y[None])))(logits, targets)
    leaf = logits.clone().requires_grad_()
    loss(leaf, targets).backward()
    assert_close(each, leaf.grad)


# decisions; test_samples.py has those of every shape


@pytest.mark.parametrize("kind", ADAPTIVE)
@pytest.mark.parametrize(("costs", "target"), [(TWO, 0.5), (TWO, 0.2), (TWO, "bayes"), (THREE, "bayes")])
def test_decisions_are_those_that_adapt_measures(kind, costs, target):
    loss, (logits, targets) = kind(costs, target_threshold=target), batch(costs=costs)
    for seed in range(3):
        loss.adapt(*batch(seed=seed, costs=costs))
        decided = loss.decide(logits)
        assert decided.dtype == torch.int64
        assert costs.mean(targets, decided) == pytest.approx(loss.adapt(logits, targets).cost)
    assert torch.equal(torch.cat([loss.decide(one[None]) for one in logits]), decided)
    if costs is THREE:  # not the likeliest classes
        assert costs.mean(targets, decided) < costs.mean(targets, logits.argmax(1))


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
        kind(TWO).adapt(logits.requires_grad_(), targets)


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_only_a_loss_that_is_trained_and_validated_but_never_adapted_is_warned_about(kind):
    logits, targets = batch()

    def epoch(model, *, train=True, adapt=False):
        loss = model.head["loss"]
        model.train(train)
        if train:
            loss(logits.clone().requires_grad_(), targets).backward()
        model.eval()
        with torch.no_grad():
            (loss.adapt if adapt else loss)(logits, targets)

    never = Model(kind(TWO))
    epoch(never)  # it could be adapted now
    with pytest.warns(UserWarning, match=r"has not been adapted: call adapt"):
        epoch(never)
    epoch(never)  # one warning
    for settings in ({"train": False}, {"adapt": True}):
        other = Model(kind(TWO))
        for _ in range(3):
            epoch(other, **settings)
