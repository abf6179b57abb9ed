"""Several labels: a list of independent problems of two classes, in the loss, the controller and the decisions."""

import pytest
import torch
import torch._dynamo.testing
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import MultiLabelController
from adacsl.torch import AdaptiveCrossEntropy, AdaptiveFocalLoss, FocalLoss, WeightedCrossEntropy

COSTS = [CostMatrix(fp=1, fn=8), CostMatrix(fp=3, fn=1), CostMatrix(fp=1, fn=1)]
ALL = [WeightedCrossEntropy, FocalLoss, AdaptiveCrossEntropy, AdaptiveFocalLoss]
ADAPTIVE = [AdaptiveCrossEntropy, AdaptiveFocalLoss]


def batch(n=200, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, 3, generator=generator)
    return logits, (torch.rand(n, 3, generator=generator) < torch.sigmoid(1.5 * logits - 1)).float()


@pytest.mark.parametrize("kind", ALL)
def test_the_loss_is_the_mean_of_independent_losses(kind):
    logits, targets = batch()
    alone = [kind(own)(logits[:, j], targets[:, j]) for j, own in enumerate(COSTS)]
    assert_close(kind(COSTS)(logits, targets), torch.stack(alone).mean())
    each = kind(COSTS, reduction="none")(logits, targets)
    assert each.shape == (200, 3)
    weight = torch.rand(200)
    assert_close(kind(COSTS)(logits, targets, weight), (each * weight[:, None]).mean())
    assert_close(kind(COSTS)(logits, targets.long(), torch.ones(200, 3)), each.mean())


def test_with_equal_costs_it_is_torchs_bce():
    logits, targets = batch()
    loss = WeightedCrossEntropy([CostMatrix(fp=1, fn=1)] * 3)
    assert_close(loss(logits, targets), F.binary_cross_entropy_with_logits(logits, targets))


@pytest.mark.parametrize("kind", ALL)
def test_unknown_labels_do_not_count(kind):
    logits, targets = batch()
    unknown = torch.rand(200, 3, generator=torch.Generator().manual_seed(1)) < 0.4
    each = kind(COSTS, reduction="none")(logits, targets)
    loss = kind(COSTS, ignore_index=-1)
    assert_close(loss(logits, targets.masked_fill(unknown, -1)), each[~unknown].mean())
    if kind in ADAPTIVE:
        step = loss.adapt(logits, targets.masked_fill(unknown, -1))
        for j, own in enumerate(COSTS):
            known = ~unknown[:, j]
            alone = kind(own).adapt(logits[known, j], targets[known, j])
            assert step.steps[j].cost == pytest.approx(alone.cost)
            assert step.steps[j].lambda_ == pytest.approx(alone.lambda_)


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_each_label_has_its_controller_and_threshold(kind):
    logits, targets = batch()
    loss, alone = kind(COSTS, target_threshold=0.4), [kind(own, target_threshold=0.4) for own in COSTS]
    for seed in range(3):
        logits, targets = batch(seed=seed)
        step = loss.adapt(logits, targets)
        steps = [each.adapt(logits[:, j], targets[:, j]) for j, each in enumerate(alone)]
        assert step.cost == pytest.approx(sum(s.cost for s in steps))
        assert step.thresholds == pytest.approx([s.threshold for s in steps])
        assert loss.negative_weight.tolist() == pytest.approx([float(each.negative_weight) for each in alone])
        expected = torch.stack([each.decide(logits[:, j]) for j, each in enumerate(alone)], dim=1)
        assert torch.equal(loss.decide(logits), expected)
    assert len(set(loss.negative_weight.tolist())) == 3
    assert set(step.logged) == {f"{name}_{j}" for name in ("lambda", "threshold") for j in range(3)}
    assert len(loss.controller.history) == 3
    assert loss.controller.to_frame()["label"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("kind", ALL)
def test_maps_and_tokens_of_labels(kind):
    logits, targets = batch()
    loss = kind(COSTS)
    expected = loss(logits, targets)
    maps = [values.reshape(2, 10, 10, 3).movedim(-1, 1) for values in (logits, targets)]
    tokens = [values.reshape(4, 50, 3) for values in (logits, targets)]
    for shown in (maps, tokens):
        assert_close(loss(*shown), expected)
        if kind in ADAPTIVE:
            ours, theirs = kind(COSTS), kind(COSTS)
            assert ours.adapt(*shown).lambdas == pytest.approx(theirs.adapt(logits, targets).lambdas)
            assert ours.decide(shown[0]).sum() == theirs.decide(logits).sum()


@pytest.mark.parametrize("kind", ALL)
def test_it_compiles_and_autocasts(kind):
    logits, targets = batch()
    loss = kind(COSTS, ignore_index=-1, label_smoothing=0.1)
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(loss, backend=counter, fullgraph=True)
    assert_close(compiled(logits, targets), loss(logits, targets))
    if kind in ADAPTIVE:
        loss.adapt(logits, targets)
        assert_close(compiled(logits, targets), loss(logits, targets))
    assert counter.frame_count == 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(logits.bfloat16(), targets).dtype == torch.float32


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_a_saved_state_continues(kind):
    model = nn.ModuleDict({"loss": kind(COSTS)})
    model["loss"].adapt(*batch())
    other = nn.ModuleDict({"loss": kind(COSTS)})
    other.load_state_dict(model.state_dict(), strict=True)
    assert other["loss"].controller.history == model["loss"].controller.history
    assert torch.equal(other["loss"].negative_weight, model["loss"].negative_weight)
    fewer = nn.ModuleDict({"loss": kind(COSTS[:2])})
    with pytest.raises((ValueError, RuntimeError), match=r"labels|positive numbers"):
        fewer.load_state_dict(model.state_dict())


def test_a_label_without_both_classes_changes_nothing():
    logits, targets = batch()
    loss = AdaptiveCrossEntropy(COSTS)
    targets[:, 1] = 0
    with pytest.raises(ValueError, match="label 1: adaptation needs both classes"):
        loss.adapt(logits, targets)
    assert loss.controller.history == ()
    assert loss.controller.lambdas.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiLabelController([]), "must not be empty"),
        (lambda: MultiLabelController([CostMatrix.ordinal(3)]), "each label is a problem of two classes"),
        (
            lambda: MultiLabelController(COSTS).step(torch.zeros(4, 2), torch.zeros(4, 2)),
            r"scores must have shape \(n, 3\)",
        ),
        (lambda: MultiLabelController(COSTS).load_state_dict({"labels": []}), "the state has 0 labels"),
        (lambda: AdaptiveCrossEntropy(COSTS).adapt(batch()[0], torch.full((200, 3), 0.5)), "must be 0 or 1"),
    ],
)
def test_wrong_input_is_one_line(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_own_controllers_and_correction():
    own = [AdaCSLController(COSTS[0], target_threshold=0.3), AdaCSLController(COSTS[1])]
    controller = MultiLabelController(own)
    p = torch.rand(20, 2)
    corrected = controller.correct(p)
    for j in range(2):
        assert_close(corrected[:, j], own[j].correct(p[:, j]))


def test_batches_are_adapted_to_as_the_whole():
    logits, targets = batch(500)
    for costs, z, y in ((COSTS, logits, targets), (COSTS[0], logits[:, 0], targets[:, 0])):
        whole, parts = AdaptiveCrossEntropy(costs), AdaptiveCrossEntropy(costs)
        expected = whole.adapt(z, y)
        net = nn.Identity()
        net.weight = nn.Parameter(torch.ones(()))
        result = parts.adapt((z[rows] * net.weight, y[rows]) for rows in torch.arange(500).split(64))
        assert result.cost == pytest.approx(expected.cost)
        assert torch.equal(parts.negative_weight, whole.negative_weight)
    loss = AdaptiveCrossEntropy(COSTS[0])
    with pytest.raises(TypeError, match=r"adapt needs targets, or an iterable of \(logits, targets\)"):
        loss.adapt(logits)
    with pytest.raises(TypeError, match=r"each batch must be \(logits, targets\)"):
        loss.adapt([logits])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu():
    logits, targets = batch()
    ours, theirs = AdaptiveCrossEntropy(COSTS), AdaptiveCrossEntropy(COSTS).cuda()
    assert_close(theirs(logits.cuda(), targets.cuda()).cpu(), ours(logits, targets))
    assert theirs.adapt(logits.cuda(), targets.cuda()).lambdas == pytest.approx(ours.adapt(logits, targets).lambdas)
