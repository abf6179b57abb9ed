"""One toy task in every framework: adapted training costs less than its default (unweighted, threshold 0.5)."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

from adacsl import AdaCSLClassifier, AdaCSLController, CostMatrix
from adacsl.learners import SklearnLearner

EPOCHS = 12
KERAS_SCRIPT = Path(__file__).parent / "scripts" / "keras_toy.py"


def toy_data(n=2400, seed=1):
    """Rare positives that overlap with the negatives: train, validation, test."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    y = (X[:, 0] + 0.5 * X[:, 1] ** 2 + rng.normal(size=n) > 2.5).astype(np.int64)
    return np.split(X, 3), np.split(y, 3)


def linear():
    import torch

    torch.manual_seed(0)
    return torch.nn.Linear(5, 1)


def costs_of_networks(costs, train):
    """Return the test costs of two trainings, with torch's loss and with an adaptive one."""
    import torch

    from adacsl.torch import AdaptiveCrossEntropy

    X, y = toy_data()
    result = []
    for loss in (torch.nn.BCEWithLogitsLoss(), AdaptiveCrossEntropy(costs)):
        net = linear()
        train(net, loss, *((torch.from_numpy(a), torch.from_numpy(b)) for a, b in zip(X[:2], y[:2], strict=True)))
        result.append(costs.mean(y[2], net(torch.from_numpy(X[2]))[:, 0].detach().numpy() > 0))
    return result


def plain_torch(costs):
    import torch

    def train(net, loss, train, validation):
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        for _ in range(EPOCHS):
            for rows in torch.arange(800).split(50):
                optimizer.zero_grad()
                loss(net(train[0][rows])[:, 0], train[1][rows].float()).backward()
                optimizer.step()
            if hasattr(loss, "adapt"):
                with torch.no_grad():
                    loss.adapt(net(validation[0]), validation[1])

    return costs_of_networks(costs, train)


def lightning(costs):
    import lightning.pytorch as pl
    import torch

    from adacsl.integrations.lightning import AdaCSLCallback

    class Module(pl.LightningModule):
        def __init__(self, net, loss):
            super().__init__()
            self.net, self.loss = net, loss

        def training_step(self, batch, _):
            return self.loss(self.net(batch[0])[:, 0], batch[1].float())

        def validation_step(self, batch, _):
            self.loss(self.net(batch[0])[:, 0], batch[1].float())

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.05)

    def train(net, loss, *parts):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = pl.Trainer(
                max_epochs=EPOCHS, accelerator="cpu", logger=False, enable_checkpointing=False,
                enable_progress_bar=False, enable_model_summary=False,
                callbacks=[AdaCSLCallback()] if hasattr(loss, "adapt") else [],
            )  # fmt: skip
            data = torch.utils.data
            trainer.fit(Module(net, loss), *(data.DataLoader(data.TensorDataset(*part), 50) for part in parts))

    return costs_of_networks(costs, train)


def skorch(costs):
    import torch
    from skorch import NeuralNetBinaryClassifier
    from skorch.helper import predefined_split

    from adacsl.integrations.skorch import AdaCSLCallback, AdaptiveCrossEntropy

    X, y = toy_data()
    validation = torch.utils.data.TensorDataset(torch.from_numpy(X[1]), torch.from_numpy(y[1].astype(np.float32)))
    result = []
    for settings in (
        {"criterion": torch.nn.BCEWithLogitsLoss},
        {"criterion": AdaptiveCrossEntropy, "criterion__costs": costs, "callbacks": [AdaCSLCallback()]},
    ):
        net = NeuralNetBinaryClassifier(
            linear(), train_split=predefined_split(validation), max_epochs=EPOCHS, lr=0.05,
            optimizer=torch.optim.Adam, batch_size=50, verbose=0, **settings,
        ).fit(X[0], y[0].astype(np.float32))  # fmt: skip
        result.append(costs.mean(y[2], net.predict(X[2])))
    return result


def transformers(costs):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from transformers import Trainer, TrainingArguments

    from adacsl.integrations.transformers import AdaCSLCallback

    class Model(torch.nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, x, labels=None):
            logits = self.net(x)
            if labels is None:  # where the loss is given to the Trainer
                return {"logits": logits}
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0], labels.float())
            return {"loss": loss, "logits": logits}

    def train(net, loss, *parts):
        cost = AdaCSLCallback(costs) if hasattr(loss, "adapt") else None
        hooks = {} if cost is None else {"compute_loss_func": cost.loss, "compute_metrics": cost.metrics}
        train, validation = ([{"x": a, "labels": int(b)} for a, b in zip(*part, strict=True)] for part in parts)
        with tempfile.TemporaryDirectory() as folder:
            args = TrainingArguments(
                folder, num_train_epochs=EPOCHS, per_device_train_batch_size=50, per_device_eval_batch_size=100,
                learning_rate=0.05, lr_scheduler_type="constant", eval_strategy="epoch", save_strategy="no",
                report_to=[], use_cpu=True, disable_tqdm=True, logging_strategy="no", remove_unused_columns=False,
            )  # fmt: skip
            Trainer(
                Model(net), args, train_dataset=train, eval_dataset=validation,
                callbacks=[] if cost is None else [cost], **hooks,
            ).train()  # fmt: skip

    return costs_of_networks(costs, train)


def keras_question(costs):
    X, y = toy_data()
    data = {"X": [x.tolist() for x in X], "y": [part.tolist() for part in y]}
    return data | {"epochs": EPOCHS, "costs": costs.to_dict()}


def keras_torch(costs):
    os.environ.setdefault("KERAS_BACKEND", "torch")
    spec = importlib.util.spec_from_file_location("keras_toy", KERAS_SCRIPT)
    script = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras itself, with new versions of numpy
        spec.loader.exec_module(script)
        return script.answer(**keras_question(costs))


def keras_jax(costs):
    """Keras reads its backend once per process: this one runs in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(KERAS_SCRIPT)], input=json.dumps(keras_question(costs)), capture_output=True, text=True,
        check=False, env=os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def scikit_learn(costs):
    from sklearn.linear_model import LogisticRegression

    X, y = toy_data()
    learner = SklearnLearner(LogisticRegression(), encode=False)
    adapted = AdaCSLClassifier(costs, learner=learner, validation=(X[1], y[1]), decide="bayes")
    return [costs.mean(y[2], model.fit(X[0], y[0]).predict(X[2])) for model in (LogisticRegression(), adapted)]


def xgboost(costs):
    import xgboost as xgb

    from adacsl.integrations.xgboost import AdaCSLCallback

    X, y = toy_data()
    train, validation, test = (xgb.DMatrix(*part) for part in zip(X, y, strict=True))
    cost = AdaCSLCallback(AdaCSLController(costs), train=train, validation=validation)
    params = {"objective": "binary:logistic", "nthread": 1, "seed": 0}
    models = [xgb.train(params, train, 40, callbacks=callbacks) for callbacks in ([], [cost])]
    return [costs.mean(y[2], model.predict(test) > 0.5) for model in models]


def lightgbm(costs):
    import lightgbm as lgb

    from adacsl.integrations.lightgbm import AdaCSLCallback

    X, y = toy_data()
    train = lgb.Dataset(X[0], y[0], free_raw_data=False)
    validation = lgb.Dataset(X[1], y[1], reference=train)
    cost = AdaCSLCallback(AdaCSLController(costs))
    params = {"verbosity": -1, "num_threads": 1, "seed": 0, "min_data_in_leaf": 5}
    plain = lgb.train(params | {"objective": "binary"}, train, 40)
    adapted = lgb.train(params | {"objective": cost.objective}, train, 40, valid_sets=[validation], callbacks=[cost])
    return [costs.mean(y[2], model.predict(X[2], raw_score=True) > 0) for model in (plain, adapted)]


def catboost(costs):
    from catboost import CatBoost, Pool

    from adacsl.integrations.catboost import AdaCSLCallback

    X, y = toy_data()
    train, validation, test = (Pool(*part) for part in zip(X, y, strict=True))
    cost = AdaCSLCallback(AdaCSLController(costs))
    params = {"verbose": False, "thread_count": 1, "random_seed": 0, "allow_writing_files": False, "iterations": 40}
    params |= {"learning_rate": 0.2}
    plain = CatBoost(params | {"loss_function": "Logloss"}).fit(train)
    adapted = CatBoost(params | {"loss_function": cost, "eval_metric": cost})
    adapted.fit(train, eval_set=validation, callbacks=[cost], use_best_model=False)
    return [costs.mean(y[2], m.predict(test, prediction_type="RawFormulaVal") > 0) for m in (plain, adapted)]


FRAMEWORKS = [
    ("torch", plain_torch), ("lightning", lightning), ("skorch", skorch), ("transformers", transformers),
    ("keras", keras_torch), pytest.param("jax", keras_jax, marks=pytest.mark.weekly), ("sklearn", scikit_learn),
    ("xgboost", xgboost), ("lightgbm", lightgbm), ("catboost", catboost),
]  # fmt: skip


@pytest.mark.parametrize(("package", "costs_of"), FRAMEWORKS)
def test_adapted_training_costs_less_than_the_default(package, costs_of):
    pytest.importorskip(package)
    plain, adapted = costs_of(CostMatrix(fp=1, fn=20))
    assert adapted < plain
