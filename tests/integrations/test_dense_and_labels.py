"""Dense maps, tokens and several labels: every framework steps as the controller alone on the same scores."""

import os
import tempfile
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import MultiLabelController

TWO = CostMatrix(fp=1, fn=8)
THREE = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")
LABELS = [TWO, CostMatrix(fp=3, fn=1)]

# costs, shape of one sample's logits, and of its labels
CASES = {
    "map": (TWO, (1, 4, 5), (4, 5)), "map of two outputs": (TWO, (2, 4, 5), (4, 5)),
    "map of three classes": (THREE, (3, 4, 5), (4, 5)), "tokens": (THREE, (7, 3), (7,)),
    "several labels": (LABELS, (2,), (2,)), "labels of a map": (LABELS, (2, 4, 5), (2, 4, 5)),
}  # fmt: skip
EPOCHS = 2


class Shift(nn.Module):
    """A network whose outputs are its inputs, and a parameter that is trained with a learning rate of 0."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return x + self.shift


def data(name, n=40, seed=0):
    """Logits as inputs, and labels with ignored ones."""
    costs, shape, target_shape = CASES[name]
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, *shape)).astype(np.float32)
    if isinstance(costs, list):
        y = (x + rng.normal(size=x.shape) > 0.3).astype(np.float32)
    else:
        axis = -1 if name == "tokens" else 1
        k = costs.n_classes
        noisy = x + rng.normal(size=x.shape)
        y = noisy.argmax(axis) if x.shape[axis] > 1 else (noisy > 0.3).astype(np.int64)[:, 0]
        y = y.astype(np.int64) % k
    y[rng.random((n, *target_shape)) < 0.2] = -100
    return torch.from_numpy(x), torch.from_numpy(y)


def alone(name):
    """Lambdas and costs of the controller alone, from flat samples."""
    costs, (x, y) = CASES[name][0], data(name)
    if isinstance(costs, list):
        controller = MultiLabelController(costs)
        z, labels = (v.movedim(1, -1).reshape(-1, 2) for v in (x, y))
        known = labels >= 0
        steps = [
            controller.step(torch.sigmoid(z), labels.clamp(min=0), sample_weight=known.float()) for _ in range(EPOCHS)
        ]
        return [s.cost for s in steps], controller.lambdas.tolist()
    controller, k = AdaCSLController(costs), costs.n_classes
    z = x if name == "tokens" else x.movedim(1, -1)
    z, labels = z.reshape(-1, z.shape[-1]), y.reshape(-1)
    known = labels >= 0
    if k == 2:
        z = torch.cat((torch.zeros_like(z), z), 1) if z.shape[1] == 1 else z
    scores = torch.softmax(z, 1)[known]
    steps = [controller.step(scores if k > 2 else scores[:, 1], labels[known]) for _ in range(EPOCHS)]
    return [s.cost for s in steps], controller.lambdas.tolist() if k > 2 else [controller.lambda_]


def lambdas_of(controller):
    if isinstance(controller, MultiLabelController) or controller.n_classes > 2:
        return controller.lambdas.tolist()
    return [controller.lambda_]


class Rows(torch.utils.data.Dataset):
    def __init__(self, name, as_dict=False):
        (self.x, self.y), self.as_dict = data(name), as_dict

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "labels": self.y[i]} if self.as_dict else (self.x[i], self.y[i])


def in_plain_torch(name):
    from adacsl.torch import AdaptiveCrossEntropy

    loss, net = AdaptiveCrossEntropy(CASES[name][0], ignore_index=-100), Shift()
    costs = []
    for _ in range(EPOCHS):
        loss(net(data(name)[0]), data(name)[1]).backward()
        batches = torch.utils.data.DataLoader(Rows(name), 9)
        costs.append(loss.adapt((net(x), y) for x, y in batches).cost)
    return costs, loss.controller


def in_lightning(name):
    import lightning.pytorch as pl

    from adacsl.integrations.lightning import AdaCSLCallback
    from adacsl.torch import AdaptiveCrossEntropy

    costs = []

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.loss = Shift(), AdaptiveCrossEntropy(CASES[name][0], ignore_index=-100)

        def training_step(self, batch, _):
            return self.loss(self.net(batch[0]), batch[1])

        def validation_step(self, batch, _):
            self.loss(self.net(batch[0]), batch[1])

        def on_train_epoch_start(self):
            if "val_cost" in self.trainer.callback_metrics:
                costs.append(float(self.trainer.callback_metrics["val_cost"]))

        def on_train_end(self):
            costs.append(float(self.trainer.callback_metrics["val_cost"]))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    model, loader = Model(), torch.utils.data.DataLoader(Rows(name), 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pl.Trainer(
            max_epochs=EPOCHS, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, callbacks=[AdaCSLCallback()],
        ).fit(model, loader, loader)  # fmt: skip
    return costs, model.loss.controller


def in_skorch(name):
    from skorch import NeuralNet
    from skorch.helper import predefined_split

    from adacsl.integrations.skorch import AdaCSLCallback, AdaptiveSoftmaxCrossEntropy

    net = NeuralNet(
        Shift, criterion=AdaptiveSoftmaxCrossEntropy, criterion__costs=CASES[name][0], criterion__ignore_index=-100,
        max_epochs=EPOCHS, lr=0.0, batch_size=9, train_split=predefined_split(Rows(name)), verbose=0,
        callbacks=[AdaCSLCallback()],
    ).fit(Rows(name))  # fmt: skip
    return net.history[:, "val_cost"], net.criterion_.controller


def in_transformers(name):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import Trainer, TrainingArguments

    from adacsl.integrations.transformers import AdaCSLCallback

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Shift()

        def forward(self, x, labels=None):
            return {"loss": self.net(x).sum(), "logits": self.net(x)}

    cost = AdaCSLCallback(CASES[name][0])
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, num_train_epochs=EPOCHS, per_device_train_batch_size=9, per_device_eval_batch_size=9,
            learning_rate=0.0, eval_strategy="epoch", save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
            logging_strategy="no", remove_unused_columns=False,
        )  # fmt: skip
        trainer = Trainer(
            Model(), args, train_dataset=Rows(name, True), eval_dataset=Rows(name, True), callbacks=[cost],
            compute_loss_func=cost.loss, compute_metrics=cost.metrics,
        )  # fmt: skip
        trainer.train()
    return [row["eval_val_cost"] for row in trainer.state.log_history if "eval_val_cost" in row], cost.controller


FRAMEWORKS = {f.__name__.removeprefix("in_"): f for f in (in_plain_torch, in_lightning, in_skorch, in_transformers)}


# plain torch and Lightning with every case; the others with those of every kind of shape
SOME = ("map of two outputs", "tokens", "labels of a map")
RUNS = [(name, case) for name in FRAMEWORKS for case in CASES if name in ("plain_torch", "lightning") or case in SOME]


@pytest.mark.parametrize(("framework", "name"), RUNS)
def test_every_framework_steps_as_the_controller(framework, name):
    costs, lambdas = alone(name)
    logged, controller = FRAMEWORKS[framework](name)
    assert logged == pytest.approx(costs, rel=1e-5)
    assert lambdas_of(controller) == pytest.approx(lambdas, rel=1e-5)


def test_the_problem_type_of_several_labels_trains(tmp_path):
    """A model of transformers itself, with problem_type="multi_label_classification"."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    from adacsl.integrations.transformers import AdaCSLCallback

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_labels=2,
        max_position_embeddings=8, problem_type="multi_label_classification",
    )  # fmt: skip
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 20, size=(60, 6))
    rows = [{"input_ids": i.tolist(), "labels": [float((i > 15).any()), float(i[0] > 10)]} for i in ids]
    cost = AdaCSLCallback(LABELS)
    args = TrainingArguments(
        tmp_path, num_train_epochs=2, eval_strategy="epoch", save_strategy="epoch", report_to=[], use_cpu=True,
        disable_tqdm=True, metric_for_best_model="val_cost", greater_is_better=False, load_best_model_at_end=True,
    )  # fmt: skip
    trainer = Trainer(
        BertForSequenceClassification(config), args, train_dataset=rows, eval_dataset=rows, callbacks=[cost],
        compute_loss_func=cost.loss, compute_metrics=cost.metrics,
    )  # fmt: skip
    trainer.train()
    assert len(cost.controller.history) == 2
    decided = cost.decide(trainer.predict(rows).predictions)
    assert decided.shape == (60, 2)
    labels = np.asarray([row["labels"] for row in rows])
    sums = sum(own.mean(labels[:, j], decided[:, j]) for j, own in enumerate(LABELS))
    assert trainer.evaluate()["eval_val_cost"] == pytest.approx(sums)
