"""The Hugging Face Trainer with tiny random models: nothing is downloaded."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EarlyStoppingCallback,
    EvalPrediction,
    Trainer,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)

from adacsl import AdaCSLController, CostMatrix
from adacsl.integrations.transformers import AdaCSLCallback
from adacsl.torch import AdaptiveFocalLoss

COSTS = CostMatrix(fp=1, fn=8)
THREE = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def texts(n, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(5, 30, (n, 6), generator=generator)
    y = ((x == 7).any(1) | (torch.rand(n, generator=generator) < 0.1)).long()
    return [{"input_ids": a, "labels": b} for a, b in zip(x, y, strict=True)]


def images(n, seed):
    generator = torch.Generator().manual_seed(seed)
    y = (torch.rand(n, generator=generator) < 0.25).long()
    x = torch.randn(n, 3, 8, 8, generator=generator) + y[:, None, None, None] * 0.5
    return [{"pixel_values": a, "labels": b} for a, b in zip(x, y, strict=True)]


def bert(outputs=2):
    torch.manual_seed(0)
    config = BertConfig(vocab_size=30, max_position_embeddings=8, num_labels=outputs, **SIZES, **STILL)
    return BertForSequenceClassification(config)


def vit(outputs=2):
    torch.manual_seed(0)
    return ViTForImageClassification(ViTConfig(image_size=8, patch_size=4, num_labels=outputs, **SIZES, **STILL))


def adaptive(**settings):
    return AdaCSLCallback(AdaCSLController(COSTS), **settings)


def trainer(folder, model, cost, data=texts, callbacks=(), sets=None, **settings):
    defaults = {
        "num_train_epochs": 4, "per_device_train_batch_size": 16, "per_device_eval_batch_size": 25,
        "learning_rate": 5e-3, "lr_scheduler_type": "constant", "eval_strategy": "epoch", "save_strategy": "no",
        "report_to": [], "use_cpu": True, "disable_tqdm": True, "seed": 0, "logging_strategy": "no",
    }  # fmt: skip
    args = TrainingArguments(str(folder), **(defaults | settings))
    train, val = sets or (data(96, 0), data(61, 1))
    return Trainer(
        model, args, train_dataset=train, eval_dataset=val,
        compute_loss_func=cost.loss, compute_metrics=cost.metrics, callbacks=[cost, *callbacks],
    )  # fmt: skip


@pytest.fixture(autouse=True)
def quiet(capsys):
    """The Trainer prints its logs."""


@pytest.mark.parametrize(("build", "data", "outputs"), [(bert, texts, 1), (vit, images, 2)], ids=["text", "images"])
def test_text_and_images_with_one_and_two_logits(tmp_path, build, data, outputs):
    cost = adaptive()
    fitted = trainer(tmp_path, build(outputs), cost, data, num_train_epochs=3)
    fitted.train()
    steps = cost.controller.history
    logged = [row for row in fitted.state.log_history if "eval_val_cost" in row]
    assert len(steps) == len(logged) == 3
    assert [row["eval_val_cost"] for row in logged] == [s.cost for s in steps]
    assert [row["eval_lambda"] for row in logged] == [s.lambda_ for s in steps]
    assert [row["eval_threshold"] for row in logged] == [s.thresholds[0] for s in steps]
    # an oracle of the last cost, from the model's own logits
    predicted = fitted.predict(data(61, 1))
    logits = predicted.predictions[:, 0] if outputs == 1 else predicted.predictions[:, 1] - predicted.predictions[:, 0]
    assert steps[-1].cost == pytest.approx(COSTS.mean(predicted.label_ids, logits > 0))


def test_accumulated_batches_are_one_large_batch(tmp_path):
    """The last accumulation is shorter: a mean of means would be wrong there."""
    sets = (texts(40, 0), texts(61, 1))
    weights = []
    for batch, steps in ((40, 1), (16, 3)):
        cost = adaptive()
        fitted = trainer(
            tmp_path, bert(), cost, sets=sets, per_device_train_batch_size=batch, gradient_accumulation_steps=steps,
            num_train_epochs=3, optim="sgd", learning_rate=0.5, max_grad_norm=0.0,
        )  # fmt: skip
        fitted.train()
        weights.append((cost.controller.lambda_, fitted.model.classifier.weight.detach().clone()))
    for value, weight in weights[1:]:
        assert value == pytest.approx(weights[0][0], rel=1e-4)
        torch.testing.assert_close(weight, weights[0][1], rtol=1e-4, atol=1e-5)


def test_the_loss_divides_by_the_given_number_of_items():
    cost = adaptive()
    outputs, labels = {"logits": torch.tensor([[0.5], [-1.0]])}, torch.tensor([1, 0])
    each = torch.tensor([np.log1p(np.exp(-0.5)), np.log1p(np.exp(-1.0)) / 8])
    assert cost.loss(outputs, labels).item() == pytest.approx(each.mean().item())
    assert cost.loss(outputs, labels, 5).item() == pytest.approx(each.sum().item() / 5)
    assert cost.loss((outputs["logits"],), labels, torch.tensor(5)).item() == pytest.approx(each.sum().item() / 5)
    assert cost.adaptive_loss.reduction == "mean"


def test_training_sees_the_new_weight(tmp_path):
    seen = []

    class Watched(AdaCSLCallback):
        def loss(self, outputs, labels, num_items_in_batch=None):
            if torch.is_grad_enabled():
                seen.append(float(self.adaptive_loss.negative_weight))
            return super().loss(outputs, labels, num_items_in_batch)

    cost = Watched(AdaCSLController(COSTS))
    trainer(tmp_path, bert(), cost, num_train_epochs=3).train()
    expected = [1 / 8, *(s.weight for s in cost.controller.history[:2])]
    assert seen == pytest.approx([w for w in expected for _ in range(6)], rel=1e-6)


@pytest.mark.parametrize(
    ("costs", "every", "restore"), [(COSTS, 1, True), (COSTS, 2, False), (THREE, 1, False)], ids=["1", "2", "three"]
)
def test_resuming_gives_the_same_remaining_history(tmp_path, costs, every, restore):
    settings = {"save_strategy": "epoch", "restore_callback_states_from_checkpoint": restore}
    whole, rest = (AdaCSLCallback(AdaCSLController(costs), every=every) for _ in range(2))
    fitted = trainer(tmp_path, bert(costs.n_classes), whole, **settings)
    fitted.train()
    saved = json.loads((tmp_path / "checkpoint-18" / "trainer_state.json").read_text())
    assert len(saved["stateful_callbacks"]["adacsl"]["controller"]["history"]) == 3 // every
    checkpoint = str(tmp_path / "checkpoint-18")
    trainer(tmp_path, bert(costs.n_classes), rest, **settings).train(resume_from_checkpoint=checkpoint)
    assert rest.controller.history == whole.controller.history
    assert len(whole.controller.history) == 4 // every
    name = "negative_weight" if costs is COSTS else "class_weights"
    assert torch.equal(getattr(rest.adaptive_loss, name), getattr(whole.adaptive_loss, name))
    if costs is THREE:
        logged = [row["eval_lambda_max"] for row in fitted.state.log_history if "eval_lambda_max" in row]
        assert logged == pytest.approx([max(step.lambdas) for step in whole.controller.history])


def test_early_stopping_and_the_model_of_least_cost(tmp_path):
    cost = adaptive()
    fitted = trainer(
        tmp_path, bert(), cost, callbacks=[EarlyStoppingCallback(2)], num_train_epochs=30, save_strategy="epoch",
        metric_for_best_model="val_cost", greater_is_better=False, load_best_model_at_end=True, save_total_limit=2,
    )  # fmt: skip
    fitted.train()
    costs = [s.cost for s in cost.controller.history]
    assert len(costs) < 30
    assert fitted.state.best_metric == min(costs)
    assert fitted.state.best_global_step == 6 * (costs.index(min(costs)) + 1)
    assert fitted.evaluate()["eval_val_cost"] == pytest.approx(min(costs))


def test_evaluating_by_hand_changes_nothing(tmp_path):
    cost = adaptive()
    fitted = trainer(tmp_path, bert(), cost, num_train_epochs=1)
    fitted.train()
    before = cost.controller.state_dict()
    fitted.evaluate()
    fitted.predict(texts(30, 2))
    assert cost.controller.state_dict() == before
    fitted.train()  # a second training goes on
    assert len(cost.controller.history) == 2


def test_only_the_first_of_several_evaluation_sets_adapts(tmp_path):
    cost = adaptive()
    fitted = trainer(tmp_path, bert(), cost, num_train_epochs=2)
    fitted.eval_dataset = {"a": texts(50, 1), "b": texts(70, 2)}
    fitted.train()
    assert [sum(s.sizes) for s in cost.controller.history] == [50, 50]
    logged = {name for row in fitted.state.log_history for name in row}
    assert {"eval_a_val_cost", "eval_b_val_cost", "eval_b_lambda"} <= logged


def test_trials_of_a_search_start_again():
    cost = adaptive()
    cost.controller.step([0.1, 0.3, 0.6], [0, 1, 0])
    state = type("State", (), {"is_hyper_param_search": True, "global_step": 0, "stateful_callbacks": {}})()
    cost.on_train_begin(None, state, None)
    assert cost.controller.history == ()
    assert float(cost.adaptive_loss.negative_weight) == pytest.approx(1 / 8)


def test_another_loss(tmp_path):
    cost = AdaCSLCallback(adaptive_loss=AdaptiveFocalLoss(COSTS, gamma=1.0))
    trainer(tmp_path, bert(), cost, num_train_epochs=1).train()
    assert len(cost.controller.history) == 1
    outputs, labels = (torch.tensor([0.5, -1.0]),), torch.tensor([1, 0])
    assert cost.loss(outputs, labels).item() == pytest.approx(cost.adaptive_loss(*outputs, labels).item())


def test_metrics_take_what_the_trainer_gives():
    cost, labels = adaptive(), np.array([0, 1, 1, 0])
    logits = np.array([[-2.0], [-1.0], [3.0], [0.5]], dtype=np.float32)
    result = cost.metrics(EvalPrediction(predictions=(logits, np.zeros(3)), label_ids=labels[:, None]))
    assert result["val_cost"] == pytest.approx((8 + 1) / 4)
    assert result["lambda"] == 1.0
    assert cost.controller.history == ()  # outside a training nothing adapts
    copy.deepcopy(cost)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (AdaCSLCallback, TypeError, r"controller is missing: give AdaCSLCallback\(CostMatrix"),
        (lambda: AdaCSLCallback(8), TypeError, "controller must be an AdaCSLController or a CostMatrix"),
        (lambda: adaptive(every=0), ValueError, "every must be a whole number of at least 1, got 0"),
        (lambda: adaptive().loss((None,), None), TypeError, "first output must be its logits, got NoneType"),
    ],
)
def test_wrong_settings(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.weekly
@pytest.mark.slow
def test_two_processes_have_the_lambda_of_the_controller(tmp_path, load_module):
    path = Path(__file__).parent / "scripts" / "trainer_processes.py"
    command = [sys.executable, str(path), str(tmp_path), "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    one, other = (json.loads((tmp_path / f"result-{rank}.json").read_text()) for rank in (0, 1))
    logits, labels = load_module(path).frozen()
    controller = AdaCSLController(CostMatrix(fp=1, fn=5))
    for column in logits.T.astype(np.float64):
        controller.step(1 / (1 + np.exp(-column)), labels)
    assert one == other
    assert [value for value, _ in one] == pytest.approx([s.lambda_ for s in controller.history], rel=1e-6)
    assert {rows for _, rows in one} == {53.0}  # each sample once: what pads the last batch is excluded


def test_a_second_column_of_the_labels_holds_sample_weights():
    generator = torch.Generator().manual_seed(0)
    logits, y = torch.randn(40, 2, generator=generator), torch.arange(40) % 2
    own = CostMatrix(fp=1.0, fn=torch.linspace(1.0, 20.0, 40, dtype=torch.float64))
    weights = own.row_weights(y).float()
    cost = AdaCSLCallback(AdaCSLController(own.averaged(y), instance_weighted=True), costs=own)
    labels = torch.stack((y.float(), weights), dim=1)
    by_hand = cost.adaptive_loss(logits, y, weights)
    assert cost.loss({"logits": logits}, labels) == pytest.approx(float(by_hand))
    assert float(by_hand) != pytest.approx(float(cost.loss({"logits": logits}, y)))
    result = cost.metrics(EvalPrediction(predictions=logits.numpy(), label_ids=labels.numpy()))
    raw = torch.sigmoid(logits[:, 1] - logits[:, 0])
    assert result["val_cost"] == pytest.approx(own.mean(y, raw > 0.5))


# labels


def test_two_columns_of_labels_are_no_weights_unless_instances_are_weighted():
    cost, logits = adaptive(), torch.tensor([[0.5, 0.1], [-1.0, 0.4]])
    for labels in ([[1.0, 2.5], [0.0, 1.0]], [[1, 1], [0, 1]]):
        with pytest.raises(ValueError, match=r"or one-hot rows.*instance_weighted=True"):
            cost.loss({"logits": logits}, torch.tensor(labels))
        with pytest.raises(ValueError, match=r"or one-hot rows.*instance_weighted=True"):
            cost.metrics(EvalPrediction(predictions=logits.numpy(), label_ids=np.asarray(labels)))


def test_one_hot_labels_are_class_numbers():
    cost, logits = adaptive(), torch.tensor([[0.5, 0.1], [-1.0, 0.4]])
    numbers, rows = torch.tensor([0, 1]), torch.tensor([[1, 0], [0, 1]])
    assert cost.loss({"logits": logits}, rows).item() == pytest.approx(cost.loss({"logits": logits}, numbers).item())
    measured = [cost.metrics(EvalPrediction(predictions=logits.numpy(), label_ids=y.numpy())) for y in (numbers, rows)]
    assert measured[0] == measured[1]


def test_weighted_labels_are_checked_too():
    cost = AdaCSLCallback(AdaCSLController(COSTS, instance_weighted=True))
    with pytest.raises(ValueError, match=r"targets must lie in \[0, 1\], got 2"):
        cost.loss({"logits": torch.zeros(2, 2)}, torch.tensor([[1.0, 3.0], [2.0, 1.0]]))
    soft = torch.tensor([[0.25, 3.0], [1.0, 1.0]])  # not cut off
    expected = cost.adaptive_loss(torch.zeros(2), soft[:, 0], soft[:, 1])
    assert cost.loss({"logits": torch.zeros(2, 1)}, soft).item() == pytest.approx(expected.item())
    with pytest.raises(ValueError, match=r"two columns, label and weight"):
        cost.loss({"logits": torch.zeros(2, 2)}, torch.zeros(2, 3))


# adaptation that never happens


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda fitted, cost: fitted.remove_callback(cost), r"callbacks=\[cost\]"),
        (lambda fitted, cost: setattr(fitted, "compute_metrics", None), r"compute_metrics=cost.metrics"),
    ],
)
def test_a_missing_callback_or_metric_is_an_error(tmp_path, change, message):
    cost = adaptive()
    fitted = trainer(tmp_path, bert(), cost, num_train_epochs=1)
    change(fitted, cost)
    with pytest.raises(RuntimeError, match=message):
        fitted.train()


@pytest.mark.parametrize(
    ("every", "settings", "message"),
    [(1, {"num_train_epochs": 1, "eval_strategy": "no"}, r"never adapted.*eval_strategy"),
     (3, {"num_train_epochs": 2}, r"never adapted.*every=3")],
)  # fmt: skip
def test_too_few_evaluations_warn(tmp_path, every, settings, message):
    with pytest.warns(UserWarning, match=message):
        trainer(tmp_path, bert(), adaptive(every=every), **settings).train()
