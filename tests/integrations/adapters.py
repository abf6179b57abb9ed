"""Each framework for the tests that all integrations pass: frozen scores in, lambdas out; and a toy task.

``run`` trains for as many epochs as there are score arrays, with the real loss and callback in the real loop. The
features of a sample are its logits in each epoch and the network is linear: its weights pick one before each
epoch, and the learning rate is 0. ``toy`` returns the test cost of the framework's own default (unweighted,
threshold 0.5) and of the adapted training.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from adacsl.learners import SklearnLearner

EPOCHS = 12
KERAS_SCRIPT = Path(__file__).parent / "scripts" / "keras_battery.py"


def logits_of(frozen_scores):
    scores = np.asarray(frozen_scores, dtype=np.float64)
    return np.log(scores / (1 - scores)).T.astype(np.float32)


def toy_data(n=2400, seed=1):
    """Rare positives that overlap with the negatives: train, validation, test."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    y = (X[:, 0] + 0.5 * X[:, 1] ** 2 + rng.normal(size=n) > 2.5).astype(np.int64)
    return np.split(X, 3), np.split(y, 3)


def lambdas(controller):
    return [step.lambda_ for step in controller.history]


def linear(n_features, seed=0, bias=True):
    import torch

    torch.manual_seed(seed)
    return torch.nn.Linear(n_features, 1, bias=bias)


def pick(layer, epoch):
    import torch

    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[0, epoch] = 1.0


def dataset(x, y):
    import torch

    return torch.utils.data.TensorDataset(torch.from_numpy(np.asarray(x)), torch.from_numpy(np.asarray(y)))


class PlainTorch:
    name = "plain torch"

    @staticmethod
    def run(frozen_scores, labels, controller):
        import torch

        from adacsl.torch import AdaptiveCrossEntropy

        loss, x, y = AdaptiveCrossEntropy(controller), torch.from_numpy(logits_of(frozen_scores)), torch.tensor(labels)
        result = []
        for epoch in range(x.shape[1]):
            loss(x[:, epoch], y)
            loss.adapt(x[:, epoch], y)
            # of the loss itself, which might not have taken over what the controller found
            result.append(float(loss.negative_weight) / controller.base_weight)
        return result

    @staticmethod
    def toy(costs):
        import torch

        from adacsl.torch import AdaptiveCrossEntropy

        X, y = (list(map(torch.from_numpy, parts)) for parts in toy_data())
        result = []
        for loss in (torch.nn.BCEWithLogitsLoss(), AdaptiveCrossEntropy(costs)):
            adapts, net = isinstance(loss, AdaptiveCrossEntropy), linear(5)
            optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
            for _ in range(EPOCHS):
                for rows in torch.arange(800).split(50):
                    optimizer.zero_grad()
                    loss(net(X[0][rows])[:, 0], y[0][rows].float()).backward()
                    optimizer.step()
                if adapts:
                    with torch.no_grad():
                        loss.adapt(net(X[1]), y[1])
            result.append(costs.mean(y[2], net(X[2])[:, 0].detach() > 0))
        return tuple(result)


class Lightning:
    name = "lightning"

    @staticmethod
    def fit(net, loss, train, val, epochs, lr, frozen=False):
        import lightning.pytorch as pl
        import torch

        from adacsl.integrations.lightning import AdaCSLCallback

        class Module(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.net, self.loss = net, loss

            def training_step(self, batch, _):
                return self.loss(self.net(batch[0])[:, 0], batch[1].float())

            def validation_step(self, batch, _):
                self.loss(self.net(batch[0])[:, 0], batch[1].float())

            def on_train_epoch_start(self):
                if frozen:
                    pick(self.net, self.current_epoch)

            def configure_optimizers(self):
                return torch.optim.Adam(self.parameters(), lr=lr)

        adaptive = hasattr(loss, "controller")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = pl.Trainer(
                max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
                enable_progress_bar=False, enable_model_summary=False, callbacks=[AdaCSLCallback()] if adaptive else [],
            )  # fmt: skip
            loaders = (torch.utils.data.DataLoader(part, batch_size=50) for part in (train, val))
            trainer.fit(Module(), *loaders)

    @classmethod
    def run(cls, frozen_scores, labels, controller):
        from adacsl.torch import AdaptiveCrossEntropy

        data = dataset(logits_of(frozen_scores), labels)
        net = linear(len(frozen_scores), bias=False)
        cls.fit(net, AdaptiveCrossEntropy(controller), data, data, len(frozen_scores), 0.0, frozen=True)
        return lambdas(controller)

    @classmethod
    def toy(cls, costs):
        import torch

        from adacsl.torch import AdaptiveCrossEntropy

        X, y = toy_data()
        result = []
        for loss in (torch.nn.BCEWithLogitsLoss(), AdaptiveCrossEntropy(costs)):
            net = linear(5)
            cls.fit(net, loss, dataset(X[0], y[0]), dataset(X[1], y[1]), EPOCHS, 0.05)
            result.append(costs.mean(y[2], net(torch.from_numpy(X[2]))[:, 0].detach().numpy() > 0))
        return tuple(result)


class Skorch:
    name = "skorch"

    @staticmethod
    def fit(net, criterion, train, val, epochs, lr, callbacks=(), **settings):
        import torch
        from skorch import NeuralNetBinaryClassifier
        from skorch.helper import predefined_split

        model = NeuralNetBinaryClassifier(
            net, criterion=criterion, train_split=predefined_split(dataset(val[0], val[1].astype(np.float32))),
            max_epochs=epochs, lr=lr, optimizer=torch.optim.Adam, batch_size=50, verbose=0, callbacks=list(callbacks),
            **settings,
        )  # fmt: skip
        return model.fit(train[0], train[1].astype(np.float32))

    @classmethod
    def run(cls, frozen_scores, labels, controller):
        from skorch.callbacks import Callback

        from adacsl.integrations.skorch import AdaCSLCallback, AdaptiveCrossEntropy

        class Pick(Callback):
            def on_epoch_begin(self, net, **kwargs):
                pick(net.module_, len(net.history) - 1)

        x, y = logits_of(frozen_scores), np.asarray(labels)
        net = cls.fit(
            linear(len(frozen_scores), bias=False), AdaptiveCrossEntropy, (x, y), (x, y), len(frozen_scores), 0.0,
            [AdaCSLCallback(controller), Pick()], criterion__costs=controller.costs,
        )  # fmt: skip
        assert net.history[:, "lambda"] == lambdas(net.criterion_.controller)
        return lambdas(net.criterion_.controller)

    @classmethod
    def toy(cls, costs):
        import torch

        from adacsl.integrations.skorch import AdaCSLCallback, AdaptiveCrossEntropy

        X, y = toy_data()
        sets = ((X[0], y[0]), (X[1], y[1]), EPOCHS, 0.05)
        plain = cls.fit(linear(5), torch.nn.BCEWithLogitsLoss, *sets)
        adapted = cls.fit(linear(5), AdaptiveCrossEntropy, *sets, [AdaCSLCallback()], criterion__costs=costs)
        return tuple(costs.mean(y[2], net.predict(X[2])) for net in (plain, adapted))


class Transformers:
    name = "transformers"

    @staticmethod
    def fit(net, cost, train, val, epochs, lr, callbacks=()):
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import torch
        from transformers import Trainer, TrainingArguments

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.net = net

            def forward(self, x, labels=None):
                logits = self.net(x)
                if labels is None:
                    return {"logits": logits}
                loss = torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0], labels.float())
                return {"loss": loss, "logits": logits}

        def rows(x, y):
            return [{"x": a, "labels": int(b)} for a, b in zip(torch.from_numpy(x), y, strict=True)]

        hooks = {} if cost is None else {"compute_loss_func": cost.loss, "compute_metrics": cost.metrics}
        with tempfile.TemporaryDirectory() as folder:
            args = TrainingArguments(
                folder, num_train_epochs=epochs, per_device_train_batch_size=50, per_device_eval_batch_size=60,
                learning_rate=lr, lr_scheduler_type="constant", eval_strategy="epoch", save_strategy="no",
                report_to=[], use_cpu=True, disable_tqdm=True, logging_strategy="no", remove_unused_columns=False,
            )  # fmt: skip
            callbacks = [*callbacks, *([] if cost is None else [cost])]
            Trainer(
                Model(), args, train_dataset=rows(*train), eval_dataset=rows(*val), callbacks=callbacks, **hooks
            ).train()

    @classmethod
    def run(cls, frozen_scores, labels, controller):
        from transformers import TrainerCallback

        from adacsl.integrations.transformers import AdaCSLCallback

        class Pick(TrainerCallback):
            def on_epoch_begin(self, args, state, control, model=None, **kwargs):
                pick(model.net, round(state.epoch))

        data = (logits_of(frozen_scores), np.asarray(labels))
        net = linear(len(frozen_scores), bias=False)
        cls.fit(net, AdaCSLCallback(controller), data, data, len(frozen_scores), 0.0, [Pick()])
        return lambdas(controller)

    @classmethod
    def toy(cls, costs):
        import torch

        from adacsl import AdaCSLController
        from adacsl.integrations.transformers import AdaCSLCallback

        X, y = toy_data()
        result = []
        for cost in (None, AdaCSLCallback(AdaCSLController(costs))):
            net = linear(5)
            cls.fit(net, cost, (X[0], y[0]), (X[1], y[1]), EPOCHS, 0.05)
            result.append(costs.mean(y[2], net(torch.from_numpy(X[2]))[:, 0].detach().numpy() > 0))
        return tuple(result)


class Keras:
    name = "keras-torch"
    backend = "torch"

    @staticmethod
    def ask(question):
        os.environ.setdefault("KERAS_BACKEND", "torch")
        spec = importlib.util.spec_from_file_location("keras_battery", KERAS_SCRIPT)
        script = importlib.util.module_from_spec(spec)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Keras itself, with new versions of numpy
            spec.loader.exec_module(script)
            return script.answer(question)

    @classmethod
    def answers(cls, frozen_scores, labels, costs):
        """Both parts at once; the script has the controller of the tests."""
        X, y = toy_data()
        return cls.ask(
            {
                "frozen": {"logits": logits_of(frozen_scores).tolist(), "labels": np.asarray(labels).tolist()},
                "toy": {"X": [x.tolist() for x in X], "y": [part.tolist() for part in y], "epochs": EPOCHS},
                "costs": costs.to_dict(),
            }
        )


class KerasJax(Keras):
    """Keras reads its backend once per process: this one runs in a process of its own."""

    name = "keras-jax"
    backend = "jax"

    @staticmethod
    def ask(question):
        env = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, str(KERAS_SCRIPT)]
        done = subprocess.run(command, input=json.dumps(question), capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])


class ScikitLearn:
    name = "scikit-learn"

    @staticmethod
    def run(frozen_scores, labels, controller):
        from sklearn.base import BaseEstimator, ClassifierMixin

        from adacsl import AdaCSLClassifier

        class Frozen(ClassifierMixin, BaseEstimator):
            def __init__(self, max_iter=1):
                self.max_iter = max_iter

            def partial_fit(self, X, y, classes=None, sample_weight=None):
                self.classes_, self.passes_ = classes, getattr(self, "passes_", -1) + 1
                return self

            def predict_proba(self, X):
                p = 1 / (1 + np.exp(-X[:, min(self.passes_, X.shape[1] - 1)].astype(np.float64)))
                return np.stack((1 - p, p), axis=1)

        x = logits_of(frozen_scores)
        clf = AdaCSLClassifier(
            controller.costs,
            learner=SklearnLearner(Frozen(), max_iter=len(frozen_scores) + 1, patience=None, encode=False),
            validation=(x, labels),
            controller=controller,
            decide="bayes",
        ).fit(x, labels)
        # a round's lambda is the one it was trained with: that after a step is the next round's
        return clf.history_["lambda"].tolist()[1:]

    @staticmethod
    def toy(costs):
        from sklearn.linear_model import LogisticRegression

        from adacsl import AdaCSLClassifier

        X, y = toy_data()
        plain = LogisticRegression().fit(X[0], y[0])
        adapted = AdaCSLClassifier(
            costs, learner=SklearnLearner(LogisticRegression(), encode=False), validation=(X[1], y[1]), decide="bayes"
        ).fit(X[0], y[0])
        return tuple(costs.mean(y[2], model.predict(X[2])) for model in (plain, adapted))


ADAPTERS = (PlainTorch, Lightning, Skorch, Transformers, ScikitLearn)
