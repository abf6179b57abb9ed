"""Recorded passes (CUDA graphs) train as passes that are not recorded do; casts are never older than the weights."""

import gc
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive.held_out import HeldOut
from adacsl.integrations.lightning import pl
from adacsl.neural.epoch_selection import Keeper
from adacsl.neural.loop import train
from adacsl.neural.members import Data, Member, Settings
from adacsl.torch.augmentation import Augment, ChannelsFirst, FlipAverage
from adacsl.torch.resnet import Normalise, ResNet
from adacsl.torch.tabular import TableNet

COSTS = CostMatrix(fp=1, fn=5)
THREE = CostMatrix.from_array([[0, 2, 8], [1, 0, 6], [1, 3, 0]], rows="predicted")
on_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def labels(n, seed=0, classes=2):
    drawn = np.random.default_rng(seed).random(n)
    return (drawn < 0.3).astype(np.float32) + (drawn < 0.1) * (classes == 3)


def members(n, count, costs=COSTS):
    parts = np.array_split(np.random.default_rng(1).permutation(n), 3)
    rows = [(np.setdiff1d(np.arange(n), parts[i]), np.sort(parts[i])) for i in range(count)]
    return [Member(*pair, seed=i, fold=i, controller=AdaCSLController(costs)) for i, pair in enumerate(rows)]


def table(count=3, dropout=0.25):
    y = labels(200)
    x = np.random.default_rng(2).normal(size=(200, 4)).astype(np.float32) + y[:, None]
    net = TableNet(4, count, width=16, dropout=dropout, seeds=list(range(count)))
    return net, Data(torch.from_numpy(x), torch.from_numpy(y)), members(200, count), None


def table_of_three_classes(heads=1, focal=False):
    y = labels(200, classes=3)
    x = np.random.default_rng(2).normal(size=(200, 4)).astype(np.float32) + y[:, None]
    net = TableNet(4, 3, outputs=3, heads=heads, width=16, seeds=[0, 1, 2])
    fitted = members(200, 3, THREE)
    if focal:
        fitted[1] = replace(fitted[1], gamma=2.0)
        fitted[2] = replace(fitted[2], controller=None, weight=np.asarray([0.5, 1.0, 2.0]), offset=np.ones(3))
    return net, Data(torch.from_numpy(x), torch.from_numpy(y), n_classes=3), fitted, None


def images(classes=2):
    y = labels(160, classes=classes)
    x = np.random.default_rng(2).integers(0, 200, (160, 32, 32, 3)) + (40 * y[:, None, None, None]).astype(int)
    torch.manual_seed(0)
    net = FlipAverage(ResNet((1, 1, 1, 1), 1 if classes == 2 else 3).to(memory_format=torch.channels_last))
    prepare = torch.nn.Sequential(ChannelsFirst(), Augment(rotate=True), Normalise())
    data = Data(torch.from_numpy(x.astype(np.uint8)), torch.from_numpy(y), n_classes=classes)
    return net, data, members(160, 1, COSTS if classes == 2 else THREE), prepare


def fit(made, **changes):
    net, data, fitted, prepare = made
    chosen = {"epochs": 4, "batch_size": 16, "learning_rate": 1e-3, "optimizer": "sgd"} | changes
    labels_of = data.y.numpy()
    costs = COSTS if data.n_classes == 2 else THREE
    keepers = [Keeper(m, HeldOut(m.validation, labels_of[m.validation], costs, last=True)) for m in fitted]
    train(net, data, fitted, keepers, Settings(**chosen), prepare=prepare)
    history = [row for keeper in keepers for row in keeper.history]
    return history, torch.cat([p.flatten() for k in keepers for p in k.weights.values() if p.is_floating_point()])


@contextmanager
def exact_arithmetic():
    kept = torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32 = True, False
    try:
        yield
    finally:
        torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32 = kept


@pytest.fixture
def replays(monkeypatch):
    """Count the batches that were replayed."""
    counted = []
    replay = torch.cuda.CUDAGraph.replay

    def counting(self):
        counted.append(True)
        return replay(self)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", counting)
    return counted


def batches(made):
    """Return how many batches four epochs have."""
    return 4 * -(-len(made[2][0].train) // 16)


MAKERS = {
    "members": table, "one table net": lambda: table(1), "images": images,
    "three classes": table_of_three_classes, "heads of three classes": lambda: table_of_three_classes(3, focal=True),
    "images of three classes": lambda: images(3),
}  # fmt: skip


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize("clip", [None, 0.1])
class TestRecorded:
    pytestmark = on_gpu

    def test_trains_the_same_net(self, make, clip, replays):
        options = {"device": "cuda", "precision": "32-true", "gradient_clip": clip}
        with exact_arithmetic():
            history, weights = fit(make(), **options)
            assert len(replays) > batches(make()) / 2
            replays.clear()
            # detecting anomalies needs every operation
            eager_history, eager_weights = fit(make(), **options, trainer={"detect_anomaly": False})
        assert not replays
        torch.testing.assert_close(weights, eager_weights, rtol=1e-3, atol=1e-4)
        for ours, theirs in zip(history, eager_history, strict=True):
            assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=1e-3)
            key = "weight" if "weight" in ours else "weights"
            assert ours[key] == pytest.approx(theirs[key], rel=1e-2)

    def test_in_bfloat16(self, make, clip, replays):
        history, weights = fit(make(), device="cuda", gradient_clip=clip)
        assert any(replays)
        assert bool(torch.isfinite(weights).all())
        # the weights of classes may have grown, and with them the loss
        grown = max(np.max(row.get("weights", 1.0)) for row in history)
        assert history[-1]["train_loss"] < history[0]["train_loss"] * 1.5 * grown


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_what_is_recorded_trains_on_a_cpu_too(make):
    history, weights = fit(make(), device="cpu", epochs=1)
    assert bool(torch.isfinite(weights).all())
    assert all(np.isfinite(row["train_loss"]) for row in history)


class TestAround:
    pytestmark = on_gpu

    def test_memory_is_given_back(self):
        fit(images(), device="cuda")
        gc.collect()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        for _ in range(3):
            fit(images(), device="cuda")
        gc.collect()
        assert torch.cuda.memory_allocated() <= before + 2**20

    def test_a_pass_that_cannot_be_recorded_continues_unrecorded(self, monkeypatch, replays):
        def refused(*args, **options):
            raise RuntimeError("this driver has no graphs")

        monkeypatch.setattr(torch.cuda, "graph", refused)
        _, weights = fit(table(), device="cuda")
        assert not any(replays)
        assert bool(torch.isfinite(weights).all())


class CachingPrecision(pl.plugins.MixedPrecision):
    """Autocast as older versions of Lightning set it up: casts of weights are kept until it is left."""

    def autocast_context_manager(self):
        return torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=True)


def test_casts_of_weights_are_never_older_than_the_weights():
    _, kept = fit(
        table(1, 0.0), device="cpu", trainer={"precision": None, "plugins": [CachingPrecision("bf16-mixed", "cpu")]}
    )
    _, fresh = fit(table(1, 0.0), device="cpu", trainer={"precision": "bf16-mixed"})
    torch.testing.assert_close(kept, fresh, rtol=0, atol=0)
