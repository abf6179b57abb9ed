"""Three classes in the frameworks: a run that adapts, is saved, and goes on as if it had never stopped."""

import copy
import warnings

import keras
import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from adacsl import AdaCSLController, CostMatrix
from adacsl.integrations import keras as in_keras
from adacsl.integrations import lightning as in_lightning
from adacsl.integrations import skorch as in_skorch
from adacsl.integrations import transformers as in_transformers
from adacsl.torch import AdaptiveCrossEntropy

COSTS = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")
HALF = {"damping": 0.5}

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")


def made_up(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    noise = rng.gumbel(size=(n, 3)) * 0.7
    return x, (x[:, :3] * 1.5 + [1.5, -0.5, 0.0] + noise).argmax(axis=1).astype(np.int64)


X, Y = made_up(240, 0)
VALIDATION = made_up(150, 1)


def check_steps(steps, costs, lows, highs):
    """What was logged is what the controller did, and it did something."""
    assert [s.cost for s in steps] == pytest.approx(costs, rel=1e-6)
    assert [min(s.lambdas) for s in steps] == pytest.approx(lows, rel=1e-6)
    assert [max(s.lambdas) for s in steps] == pytest.approx(highs, rel=1e-6)
    assert max(highs) > 1.01


# Lightning


class Model(pl.LightningModule):
    """A user's module."""

    def __init__(self, outputs=3):
        super().__init__()
        torch.manual_seed(3)
        self.net, self.loss = nn.Linear(4, outputs), AdaptiveCrossEntropy(COSTS, **HALF)
        self.logged = []

    def training_step(self, batch, batch_idx):
        return self.loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.loss(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.3)


def fit_lightning(model, callback, epochs, ckpt_path=None):
    trainer = pl.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[callback], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    train, valid = (TensorDataset(*map(torch.from_numpy, part)) for part in ((X, Y), VALIDATION))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice about workers and loggers
        trainer.fit(
            model, DataLoader(train, batch_size=40), DataLoader(valid, batch_size=32), ckpt_path=ckpt_path,
            weights_only=True if ckpt_path else None,
        )  # fmt: skip
    return trainer


def test_lightning(tmp_path):
    whole = Model()
    trainer = fit_lightning(whole, in_lightning.AdaCSLCallback(), 4)
    steps = whole.loss.controller.history
    assert len(steps) == 4
    shown = {k: float(v) for k, v in trainer.callback_metrics.items()}
    check_steps(steps[-1:], [shown["val_cost"]], [shown["lambda_min"]], [shown["lambda_max"]])
    first = Model()
    fit_lightning(first, in_lightning.AdaCSLCallback(), 2).save_checkpoint(tmp_path / "half.ckpt")
    second = Model()
    fit_lightning(second, in_lightning.AdaCSLCallback(), 4, ckpt_path=tmp_path / "half.ckpt")
    assert second.loss.controller.history == steps
    assert torch.equal(second.loss.class_weights, whole.loss.class_weights)
    with pytest.raises(ValueError, match=r"logits must have shape \(n, 3\), one for each class, got \(\d+, 2\)"):
        fit_lightning(Model(2), in_lightning.AdaCSLCallback(), 1)


# Hugging Face


def bert(outputs=3):
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=30, max_position_embeddings=8, num_labels=outputs, hidden_size=8, num_hidden_layers=1,
            num_attention_heads=1, intermediate_size=8, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )
    )  # fmt: skip


def texts(n, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(5, 30, (n, 6), generator=generator)
    y = (x == 7).any(1).long() + 2 * ((x == 8).any(1) & (x != 7).all(1)).long()
    return [{"input_ids": a, "labels": b} for a, b in zip(x, y, strict=True)]


def trainer(folder, cost, model=None, **settings):
    args = TrainingArguments(
        str(folder), num_train_epochs=4, per_device_train_batch_size=16, learning_rate=5e-3,
        lr_scheduler_type="constant", eval_strategy="epoch", save_strategy="epoch", report_to=[], use_cpu=True,
        disable_tqdm=True, seed=0, logging_strategy="no", **settings,
    )  # fmt: skip
    return Trainer(
        bert() if model is None else model, args, train_dataset=texts(96, 0), eval_dataset=texts(61, 1),
        compute_loss_func=cost.loss, compute_metrics=cost.metrics, callbacks=[cost],
    )  # fmt: skip


def test_transformers(tmp_path, capsys):
    cost = in_transformers.AdaCSLCallback(AdaCSLController(COSTS, **HALF))
    whole = trainer(tmp_path / "a", cost)
    whole.train()
    rows = [row for row in whole.state.log_history if "eval_val_cost" in row]
    names = ("eval_val_cost", "eval_lambda_min", "eval_lambda_max")
    check_steps(cost.controller.history, *([row[name] for row in rows] for name in names))
    assert cost.adaptive_loss.class_weights.tolist() == pytest.approx(cost.controller.weights.tolist(), rel=1e-6)
    again = in_transformers.AdaCSLCallback(AdaCSLController(COSTS, **HALF))
    trainer(tmp_path / "a", again).train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-12"))
    ours, theirs = again.controller.history, cost.controller.history
    assert len(ours) == 4
    assert ours[:2] == theirs[:2]
    assert [s.cost for s in ours] == pytest.approx([s.cost for s in theirs])
    wrong = in_transformers.AdaCSLCallback(AdaCSLController(COSTS))
    with pytest.raises(ValueError, match=r"logits must have shape \(n, 3\)"):
        trainer(tmp_path / "b", wrong, bert(2)).train()


# skorch


def skorch_net(**settings):
    torch.manual_seed(0)
    defaults = {
        "module": nn.Linear(4, 3), "criterion": in_skorch.AdaptiveSoftmaxCrossEntropy,
        "criterion__costs": COSTS, "criterion__damping": 0.5,
        "max_epochs": 4, "lr": 0.3, "verbose": 0, "callbacks": [("adapt", in_skorch.AdaCSLCallback())],
    }  # fmt: skip
    return NeuralNetClassifier(**(defaults | settings))


def test_skorch(tmp_path):
    net = skorch_net().fit(X, Y)
    names = ("val_cost", "lambda_min", "lambda_max")
    check_steps(net.criterion_.controller.history, *(net.history[:, name] for name in names))
    probabilities = net.predict_proba(X)
    assert probabilities.shape == (240, 3)
    decided = COSTS.decide(net.criterion_.controller.correct(probabilities))
    assert COSTS.total(Y, decided) < COSTS.total(Y, net.predict(X))
    net.save_params(f_params=tmp_path / "net.pt", f_criterion=tmp_path / "loss.pt")
    other = skorch_net().initialize()
    other.load_params(f_params=tmp_path / "net.pt", f_criterion=tmp_path / "loss.pt")
    assert other.criterion_.controller.history == net.criterion_.controller.history
    assert torch.equal(other.criterion_.class_weights, net.criterion_.class_weights)
    other.partial_fit(X, Y)
    assert len(other.criterion_.controller.history) == 8
    with pytest.raises(ValueError, match="costs of 3 classes: use NeuralNetClassifier"):
        skorch_net(criterion=in_skorch.AdaptiveCrossEntropy).fit(X, Y)
    with pytest.raises(ValueError, match=r"logits must have shape \(n, 3\)"):
        skorch_net(module=nn.Linear(4, 2)).fit(X, Y)


# Keras


def keras_model(activation=None, outputs=3):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(outputs, activation=activation)])
    loss = in_keras.AdaptiveCrossEntropy(COSTS, from_logits=activation is None, **HALF)
    model.compile(keras.optimizers.SGD(0.5), loss=loss)
    return model


def fit_keras(model, epochs=4, initial_epoch=0, **settings):
    callback = in_keras.AdaCSLCallback(validation_data=VALIDATION, **settings)
    return model.fit(
        X, Y, epochs=epochs, initial_epoch=initial_epoch, batch_size=40, shuffle=False, verbose=0, callbacks=[callback]
    ).history


@pytest.mark.parametrize("activation", [None, "softmax"])
def test_keras(activation, tmp_path):
    model = keras_model(activation)
    history = fit_keras(model)
    steps = model.loss.controller.history
    check_steps(steps, *(history[name] for name in ("val_cost", "lambda_min", "lambda_max")))
    half = keras_model(activation)
    fit_keras(half, epochs=2)
    half.save(tmp_path / "half.keras")
    loaded = keras.saving.load_model(tmp_path / "half.keras")
    assert loaded.loss.controller.history == half.loss.controller.history
    fit_keras(loaded, epochs=4, initial_epoch=2)
    ours, theirs = (np.asarray([s.lambdas for s in run]) for run in (loaded.loss.controller.history, steps))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3)


def test_keras_equals_torch_and_resumes_from_a_file(tmp_path):
    logits = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    labels = np.arange(50) % 3
    ours = in_keras.AdaptiveCrossEntropy(COSTS, target_threshold="half")(labels, logits)
    theirs = AdaptiveCrossEntropy(COSTS, target_threshold="half")(torch.tensor(logits), torch.tensor(labels))
    assert float(ours) == pytest.approx(float(theirs), rel=1e-5)
    model = keras_model()
    fit_keras(model, epochs=2, resume=tmp_path / "state.json")
    steps = copy.deepcopy(model.loss.controller.history)
    model.loss.controller.reset()
    fit_keras(model, epochs=3, initial_epoch=2, resume=tmp_path / "state.json")
    assert model.loss.controller.history[:2] == steps
    with pytest.raises(ValueError, match="must have 3 outputs, one for each class"):
        fit_keras(keras_model(outputs=2))
    with pytest.raises(ValueError, match="one label, 0 to 2, is needed for each"):
        keras_model().evaluate(X, np.eye(3)[Y], verbose=0)
