"""The Lightning callback: any module, resuming, and the same lambda on any number of processes."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import UniformBins
from adacsl.integrations.lightning import AdaCSLCallback, find_adaptive_loss
from adacsl.torch import AdaptiveCrossEntropy, AdaptiveFocalLoss

SCRIPT = Path(__file__).parent / "scripts" / "frozen_scores.py"
COSTS = CostMatrix(fp=1, fn=6)
THREE = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")


@pytest.fixture(scope="module")
def script(load_module):
    return load_module(SCRIPT)


def made_up(n=120, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 4, generator=generator)
    y = (x[:, 0] + 0.5 * torch.randn(n, generator=generator) > 0.8).long()
    return TensorDataset(x, y)


class Model(pl.LightningModule):
    """A user's module, without any reference to the callback."""

    def __init__(self, loss=None, outputs=1, nested=False, use_loss=True):
        super().__init__()
        torch.manual_seed(3)
        self.net = nn.Linear(4, outputs)
        loss = AdaptiveCrossEntropy(COSTS) if loss is None else loss
        if nested:
            self.head = nn.ModuleDict({"criteria": nn.ModuleList([loss])})
        else:
            self.loss = loss
        self.nested, self.use_loss = nested, use_loss
        self.seen_weights = []

    def compute(self, batch):
        x, y = batch
        loss = self.head["criteria"][0] if self.nested else self.loss
        return loss(self.net(x), y)

    def training_step(self, batch, batch_idx):
        loss = self.head["criteria"][0] if self.nested else self.loss
        if getattr(loss, "n_classes", 3) == 2:
            self.seen_weights.append(float(loss.negative_weight))
        return self.compute(batch)

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        if self.use_loss:
            self.compute(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.3)


def fit(model, callbacks, epochs=4, ckpt_path=None, val=None, **options):
    settings = {
        "max_epochs": epochs, "accelerator": "cpu", "callbacks": callbacks, "logger": False,
        "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False,
    }  # fmt: skip
    trainer = pl.Trainer(**(settings | options))
    val = DataLoader(made_up(seed=1), batch_size=32) if val is None else val
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?!Ada)")  # advice about workers and loggers, but nothing of ours
        trainer.fit(
            model, DataLoader(made_up(), batch_size=32), val, ckpt_path=ckpt_path,
            weights_only=True if ckpt_path else None,
        )  # fmt: skip
    return trainer


# finding the loss


@pytest.mark.parametrize(
    ("kind", "outputs", "nested"),
    [(AdaptiveCrossEntropy, 1, False), (AdaptiveCrossEntropy, 2, True), (AdaptiveFocalLoss, 1, True)],
)
def test_any_module_is_adapted(kind, outputs, nested):
    model = Model(kind(COSTS), outputs, nested)
    trainer = fit(model, [AdaCSLCallback()], epochs=3)
    history = find_adaptive_loss(model).controller.history
    assert len(history) == 3
    last = {"lambda": history[-1].lambda_, "val_cost": history[-1].cost, "threshold": history[-1].thresholds[0]}
    assert {name: float(trainer.callback_metrics[name]) for name in last} == pytest.approx(last, rel=1e-6)
    # each epoch trains with the weight that resulted from the validation before it
    batches = len(model.seen_weights) // 3
    for epoch in (1, 2):
        assert model.seen_weights[epoch * batches] == pytest.approx(history[epoch - 1].weight, rel=1e-6)
    assert model.seen_weights[0] == pytest.approx(1 / 6)


def test_costs_of_three_classes_are_logged():
    model = Model(AdaptiveCrossEntropy(THREE, damping=0.5), 3)
    logged = fit(model, [AdaCSLCallback()]).callback_metrics
    last = model.loss.controller.history[-1]
    expected = {"val_cost": last.cost, "lambda_min": min(last.lambdas), "lambda_max": max(last.lambdas)}
    assert {name: float(logged[name]) for name in expected} == pytest.approx(expected, rel=1e-6)
    assert max(last.lambdas) > 1.01


@pytest.mark.parametrize("weighted", [False, True])
def test_the_measured_cost_is_that_of_the_validation_set(weighted):
    class Weighted(Model):
        def compute(self, batch):
            x, y = batch
            return self.loss(self.net(x), y, sample_weight=1.0 + y if weighted else None)

    model = Weighted()
    fit(model, [AdaCSLCallback()], epochs=1)
    x, y = made_up(seed=1).tensors
    decided = torch.sigmoid(model.net(x)[:, 0]) > 0.5
    expected = COSTS.mean(y, decided, sample_weight=1.0 + y if weighted else None)
    assert model.loss.controller.history[0].cost == pytest.approx(expected)


def test_costs_of_each_sample_are_those_of_the_validation_samples():
    x, y = made_up(seed=1).tensors
    own = CostMatrix(fp=1, fn=np.random.default_rng(1).uniform(1, 20, len(y)))
    model = Model()
    fit(model, [AdaCSLCallback(costs=own)], epochs=1)
    raw = torch.sigmoid(model.net(x)[:, 0].detach()).double().numpy()
    decided = own.decide(AdaCSLController(COSTS).correct(raw))
    assert model.loss.controller.history[0].cost == pytest.approx(own.mean(y.numpy(), decided))


class Bare(Model):
    def __init__(self, **losses):
        super().__init__(nn.Identity())
        for name, loss in losses.items():
            setattr(self, name, loss)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({}, ["no adaptive loss in Bare", "found losses: none"]),
        ({"criterion": nn.BCEWithLogitsLoss()}, ["no adaptive loss in Bare", "BCEWithLogitsLoss"]),
        (
            {"a": AdaptiveCrossEntropy(COSTS), "b": AdaptiveFocalLoss(COSTS)},
            ["2 adaptive losses", "AdaptiveCrossEntropy, AdaptiveFocalLoss"],
        ),
    ],
)
def test_without_exactly_one_adaptive_loss_the_error_lists_what_was_found(losses, expected):
    with pytest.raises(LookupError) as caught:
        fit(Bare(**losses), [AdaCSLCallback()])
    for text in (*expected, "Keep exactly one"):
        assert text in str(caught.value)


def test_a_validation_step_that_never_calls_the_loss_is_an_error():
    with pytest.raises(RuntimeError, match=r"validation_step of Model never called its AdaptiveCrossEntropy"):
        fit(Model(use_loss=False), [AdaCSLCallback()])


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"every": 0}, ValueError, "every must be a whole number of at least 1, got 0"),
        ({"every": 1.5}, ValueError, "every must be a whole number"),
        ({"controller": 8}, TypeError, "controller must be an AdaCSLController or a CostMatrix"),
    ],
)
def test_wrong_settings(settings, error, match):
    with pytest.raises(error, match=match):
        AdaCSLCallback(**settings)


# when it steps


def test_sanity_checking_is_ignored():
    one, other = Model(), Model()
    fit(one, [AdaCSLCallback()], num_sanity_val_steps=2)
    fit(other, [AdaCSLCallback()], num_sanity_val_steps=0)
    assert len(one.loss.controller.history) == 4
    assert one.loss.controller.history == other.loss.controller.history


def test_every_second_validation_adapts_but_each_is_measured():
    costs = []

    class Watch(pl.Callback):
        def on_validation_end(self, trainer, pl_module):
            if not trainer.sanity_checking:
                costs.append({name: float(value) for name, value in trainer.callback_metrics.items()})

    model = Model()
    fit(model, [AdaCSLCallback(every=2), Watch()], epochs=5)
    history = model.loss.controller.history
    assert len(history) == 2
    assert [row["val_cost"] for row in costs][1::2] == pytest.approx([step.cost for step in history])
    assert len({row["val_cost"] for row in costs}) > 2
    expected = [1.0, history[0].lambda_, history[0].lambda_, history[1].lambda_, history[1].lambda_]
    assert [row["lambda"] for row in costs] == pytest.approx(expected)
    assert all({"val_cost", "lambda", "threshold"} <= set(row) for row in costs)


def test_an_own_controller():
    controller = AdaCSLController(COSTS, target_threshold=0.3, damping=0.5)
    model = Model()
    fit(model, [AdaCSLCallback(controller)], epochs=2)
    assert model.loss.controller is controller
    assert len(controller.history) == 2
    # the first batch already has its weight: 1/6 * 0.7 / 0.3
    assert model.seen_weights[0] == pytest.approx(0.7 / 0.3 / 6)


def test_only_the_batches_of_the_first_validation_loader_count():
    model = Model()
    loaders = [DataLoader(made_up(50, seed=1), batch_size=32), DataLoader(made_up(80, seed=2), batch_size=32)]
    fit(model, [AdaCSLCallback()], epochs=2, val=loaders)
    fit(model, [AdaCSLCallback()], epochs=1, limit_val_batches=2)
    assert [sum(step.sizes) for step in model.loss.controller.history] == [50, 50, 64]


def test_validating_and_testing_alone_change_nothing():
    model, callback = Model(), AdaCSLCallback()
    trainer = fit(model, [callback], epochs=2)
    before = model.loss.controller.state_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.validate(model, DataLoader(made_up(seed=1), batch_size=32), verbose=False)
    assert model.loss.controller.state_dict() == before


def test_a_second_fit_continues():
    model, callback = Model(), AdaCSLCallback()
    fit(model, [callback], epochs=2)
    first = model.loss.controller.history
    fit(model, [callback], epochs=1)
    assert model.loss.controller.history[:2] == first
    assert len(model.loss.controller.history) == 3
    assert len(model.loss._forward_pre_hooks) == 0  # no hook remains


# checkpoints


@pytest.mark.parametrize(("every", "costs"), [(1, COSTS), (2, COSTS), (1, THREE)], ids=["1", "2", "three classes"])
def test_resuming_gives_the_same_remaining_history(tmp_path, every, costs):
    def model():
        return Model(AdaptiveCrossEntropy(costs), 1 if costs is COSTS else 3)

    whole, rest = model(), model()
    fit(whole, [AdaCSLCallback(every=every)], epochs=6)
    saving = pl.callbacks.ModelCheckpoint(tmp_path, filename="half", every_n_epochs=3, save_top_k=-1)
    fit(model(), [AdaCSLCallback(every=every), saving], epochs=3, enable_checkpointing=True)
    fit(rest, [AdaCSLCallback(every=every)], epochs=6, ckpt_path=tmp_path / "half.ckpt")
    assert len(whole.loss.controller.history) == 6 // every
    assert rest.loss.controller.history == whole.loss.controller.history
    assert torch.equal(rest.net.weight, whole.net.weight)
    if costs is COSTS:
        assert rest.seen_weights[0] == whole.seen_weights[len(whole.seen_weights) // 2]
    else:
        assert torch.equal(rest.loss.class_weights, whole.loss.class_weights)


def test_the_callback_alone_carries_the_state(tmp_path):
    # a checkpoint whose weights lack the loss, as of a model that got it later
    model, callback = Model(), AdaCSLCallback()
    trainer = fit(model, [callback], epochs=3)
    path = tmp_path / "model.ckpt"
    trainer.save_checkpoint(path, weights_only=False)
    saved = torch.load(path, weights_only=True)
    saved["state_dict"] = {name: value for name, value in saved["state_dict"].items() if not name.startswith("loss.")}
    torch.save(saved, path)
    rest = Model()
    fit(rest, [AdaCSLCallback()], epochs=4, ckpt_path=path)
    assert rest.loss.controller.history[:3] == model.loss.controller.history
    assert rest.seen_weights[0] == pytest.approx(model.loss.controller.history[-1].weight, rel=1e-6)


def test_model_checkpoint_monitors_the_cost(tmp_path):
    model = Model()
    best = pl.callbacks.ModelCheckpoint(tmp_path, monitor="val_cost", mode="min", filename="{epoch}")
    fit(model, [AdaCSLCallback(), best], epochs=5, enable_checkpointing=True)
    costs = [step.cost for step in model.loss.controller.history]
    assert float(best.best_model_score) == pytest.approx(min(costs))
    assert Path(best.best_model_path).name == f"epoch={int(np.argmin(costs))}.ckpt"


# processes


def test_frozen_scores_give_the_history_of_the_controller_alone(script):
    result = script.run(1, n=103)
    controller = AdaCSLController(CostMatrix(fp=1, fn=5), partition=UniformBins(3))
    rows = torch.arange(103)
    for epoch in range(script.EPOCHS):
        controller.step(torch.sigmoid(script.logits_of(rows, epoch)).numpy(), script.labels_of(rows).numpy())
    assert result["lambda"] == pytest.approx([step.lambda_ for step in controller.history], rel=1e-6)
    assert result["cost"] == pytest.approx([step.cost for step in controller.history], rel=1e-6)
    assert len(set(result["lambda"])) == script.EPOCHS


@pytest.mark.weekly
@pytest.mark.slow
def test_lambda_is_the_same_on_any_number_of_processes(script, tmp_path):
    command = [sys.executable, str(SCRIPT), str(tmp_path), "2", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert set(result) == {f"{processes}-{rank}" for processes in (2, 4) for rank in range(processes)}
    for name, settings in script.SCENARIOS.items():
        alone = script.run(1, **settings)
        assert sum(alone["sizes"][0]) == (settings["n"] if name != "weighted" else 256.0)
        for processes in (2, 4):
            seen = result[f"{processes}-0"][name]["validated"]
            assert seen * processes > settings["n"] * script.EPOCHS  # some were padded
        for of, ranks in result.items():
            for column in ("lambda", "cost", "thresholds", "sizes"):
                assert ranks[name][column] == alone[column], (of, name, column)
            assert ranks[name]["logged"] == pytest.approx(alone["logged"], rel=1e-6)


# adaptation that never happens


def test_without_validation_data_the_start_is_an_error():
    with pytest.raises(RuntimeError, match=r"AdaCSLCallback needs validation data, but there is none"):
        fit(Model(), [AdaCSLCallback()], epochs=1, limit_val_batches=0)


@pytest.mark.parametrize(
    ("callback", "settings"), [({}, {"check_val_every_n_epoch": 5}), ({"every": 5}, {})], ids=["validation", "every"]
)
def test_training_that_ends_before_the_first_adaptation_warns(callback, settings):
    with pytest.warns(UserWarning, match=r"AdaCSLCallback has never adapted"):
        fit(Model(), [AdaCSLCallback(**callback)], epochs=2, **settings)


def test_without_the_callback_the_second_validation_warns():
    with pytest.warns(UserWarning, match=r"AdaptiveCrossEntropy has not been adapted.*AdaCSLCallback"):
        fit(Model(), [], epochs=2)


def test_a_loss_that_is_computed_twice_counts_its_samples_once():
    class Twice(Model):
        def validation_step(self, batch, batch_idx):
            logits = self.net(batch[0])
            self.log("val_loss", self.loss(logits, batch[1]))
            self.log("again", self.loss(logits, batch[1]))

    one, two = Model(), Twice()
    for model in (one, two):
        fit(model, [AdaCSLCallback()], epochs=2)
    assert sum(two.loss.controller.history[0].sizes) == 120
    assert two.loss.controller.history == one.loss.controller.history


def test_two_losses_of_one_validation_batch_are_an_error():
    class Auxiliary(Model):
        def validation_step(self, batch, batch_idx):
            logits = self.net(batch[0])
            self.loss(logits, batch[1]) + self.loss(0.3 * logits, batch[1])

    with pytest.raises(RuntimeError, match=r"called its AdaptiveCrossEntropy twice for one batch"):
        fit(Auxiliary(), [AdaCSLCallback()], epochs=1)


# shapes


SHAPES = {
    "maps": (lambda z: z, lambda y: y),
    "one channel": (lambda z: z[:, None], lambda y: y[:, None]),
    "one channel, maps": (lambda z: z[:, None], lambda y: y),
    "two channels, maps": (lambda z: torch.stack((-z / 2, z / 2), 1), lambda y: y),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_that_the_loss_takes(name):
    logits_as, labels_as = SHAPES[name]

    class Maps(Model):
        def compute(self, batch):
            z = self.net(batch[0]).reshape(-1, 2, 1).expand(-1, 2, 2)  # two samples make a map of 2 x 2 pixels
            y = batch[1].reshape(-1, 2, 1).expand(-1, 2, 2)
            return self.loss(logits_as(z), labels_as(y))

    maps, flat = Maps(), Model()
    for model in (maps, flat):
        fit(model, [AdaCSLCallback()], epochs=3)
    assert [sum(step.sizes) for step in maps.loss.controller.history] == [240, 240, 240]
    assert [s.lambda_ for s in maps.loss.controller.history] == pytest.approx(
        [s.lambda_ for s in flat.loss.controller.history]
    )
