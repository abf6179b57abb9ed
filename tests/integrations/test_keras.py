"""Keras 3, with the torch backend; the last test runs most of the others with JAX, in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import QuantileBins, UniformBins
from adacsl.integrations.keras import AdaCSLCallback, AdaptiveCrossEntropy, find_adaptive_loss

COSTS = CostMatrix(fp=1, fn=8)
THREE = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")
BACKEND = keras.backend.backend()

# Keras itself, with new versions of numpy
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")


def made_up(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    return x, (x[:, 0] + 0.5 * rng.normal(size=n) > 1).astype(np.int32)


X, Y = made_up(160, 0)
VALIDATION = made_up(100, 1)


def build(outputs=1, activation=None, loss=None, costs=COSTS, **settings):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(outputs, activation=activation)])
    loss = AdaptiveCrossEntropy(costs, **settings) if loss is None else loss
    model.compile(keras.optimizers.SGD(0.5), loss=loss)
    return model


def fit(model, *callbacks, adapting=None, epochs=3, **settings):
    adapting = AdaCSLCallback(validation_data=VALIDATION) if adapting is None else adapting
    return model.fit(
        X, Y, epochs=epochs, batch_size=40, shuffle=False, verbose=0, callbacks=[adapting, *callbacks], **settings
    )


def by_hand(start, epochs=3):
    """The whole training in numpy: weighted logistic regression by gradient descent, and the controller."""
    kernel, bias = (np.asarray(v, dtype=np.float64) for v in start)
    controller, losses = AdaCSLController(COSTS), []
    for _ in range(epochs):
        for rows in np.arange(160).reshape(-1, 40):
            z = X[rows] @ kernel[:, 0] + bias[0]
            p = 1 / (1 + np.exp(-z))
            losses.append(np.where(Y[rows] == 1, -np.log(p), -controller.weight * np.log(1 - p)).mean())
            slope = np.where(Y[rows] == 1, p - 1, controller.weight * p) / 40
            kernel[:, 0] -= 0.5 * X[rows].T @ slope
            bias[0] -= 0.5 * slope.sum()
        controller.step(1 / (1 + np.exp(-(VALIDATION[0] @ kernel[:, 0] + bias[0]))), VALIDATION[1])
    return controller.history, losses


def test_a_training_is_that_of_numpy():
    """Compiled steps see the new weight: were it a constant to them, the second epoch would differ."""
    model = build()
    expected, losses = by_hand(model.get_weights())
    history = fit(model).history
    assert history["lambda"] == pytest.approx([s.lambda_ for s in expected], rel=1e-4)
    assert history["val_cost"] == pytest.approx([s.cost for s in expected])
    assert history["threshold"] == pytest.approx([s.thresholds[0] for s in expected], rel=1e-4)
    assert history["loss"] == pytest.approx(np.reshape(losses, (3, -1)).mean(axis=1), rel=1e-4)
    assert len({round(value, 6) for value in history["lambda"]}) > 1


@pytest.mark.parametrize(("outputs", "activation"), [(2, None), (1, "sigmoid"), (2, "softmax")])
def test_other_heads_give_the_same_training(outputs, activation):
    reference, model = build(), build(outputs, activation, from_logits=activation is None)
    kernel, bias = reference.get_weights()
    if outputs == 2:  # the gradient of two logits is shared between them: half a step each way
        kernel, bias = np.hstack((-kernel / 2, kernel / 2)), np.hstack((-bias / 2, bias / 2))
        reference.optimizer.learning_rate = 1.0
    model.set_weights([kernel, bias])
    assert fit(model).history["lambda"] == pytest.approx(fit(reference).history["lambda"], rel=1e-3)


def test_functional_and_subclassed_models():
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, inputs):
            return self.dense(inputs)

    inputs = keras.Input((4,))
    functional = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    start = build().get_weights()
    expected = fit(build()).history["lambda"]
    for model in (functional, Subclassed()):
        model(X[:1])
        model.set_weights(start)
        model.compile(keras.optimizers.SGD(0.5), loss=AdaptiveCrossEntropy(COSTS))
        assert fit(model).history["lambda"] == pytest.approx(expected, rel=1e-5)


def test_every_second_epoch_and_an_own_controller():
    controller = AdaCSLController(COSTS, damping=0.5)
    model = build()
    history = fit(model, adapting=AdaCSLCallback(controller, every=2, validation_data=VALIDATION), epochs=4).history
    assert model.loss.controller is controller
    first, second = controller.history
    assert history["lambda"] == [1.0, first.lambda_, first.lambda_, second.lambda_]
    assert float(model.loss.negative_weight) == pytest.approx(second.weight, rel=1e-6)


def test_validation_data_in_batches_and_with_weights():
    x, y = VALIDATION
    weight = 1.0 + (np.arange(len(y)) % 3)

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 4

        def __getitem__(self, number):
            part = slice(25 * number, 25 * number + 25)
            return x[part], y[part], weight[part]

    lambdas = []
    for data in ((x, y, weight), Batches(), [(x[:60], y[:60, None], weight[:60]), (x[60:], y[60:, None], weight[60:])]):
        model = build()
        fit(model, adapting=AdaCSLCallback(validation_data=data, batch_size=17), epochs=2)
        assert sum(model.loss.controller.history[0].sizes) == pytest.approx(weight.sum())
        lambdas.append([s.lambda_ for s in model.loss.controller.history])
    assert lambdas[1] == pytest.approx(lambdas[0], rel=1e-5)
    assert lambdas[2] == pytest.approx(lambdas[0], rel=1e-5)


def test_early_stopping_on_cost():
    stop = keras.callbacks.EarlyStopping(monitor="val_cost", mode="min", patience=2, restore_best_weights=True)
    model = build()
    costs = fit(model, stop, epochs=40).history["val_cost"]
    assert len(costs) < 40
    decided = model.predict(VALIDATION[0], verbose=0)[:, 0] > 0
    assert COSTS.mean(VALIDATION[1], decided) == pytest.approx(min(costs))


@pytest.mark.parametrize(
    "settings",
    [
        {"target_threshold": 0.4, "bounds": (1e-3, 1e3)}, {"partition": UniformBins(3)},
        {"partition": QuantileBins(2), "n_standard_errors": 2.0},
        {"costs": THREE, "outputs": 3, "activation": "softmax", "from_logits": False},
    ],
)  # fmt: skip
def test_a_saved_model_continues(tmp_path, settings):
    model = build(**settings)
    history = fit(model, epochs=2).history
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.loss.controller.state_dict() == model.loss.controller.state_dict()
    name, weight = ("lambda", "negative_weight") if "costs" not in settings else ("lambda_max", "class_weights")
    np.testing.assert_allclose(*(np.asarray(getattr(each.loss, weight)) for each in (again, model)), rtol=1e-6)
    assert fit(again, epochs=1).history[name] == pytest.approx(fit(model, epochs=1).history[name], rel=1e-5)
    keras.saving.load_model(tmp_path / "model.keras", compile=False).predict(X[:2], verbose=0)
    if "costs" in settings:
        steps = model.loss.controller.history[:2]
        assert history["val_cost"] == pytest.approx([step.cost for step in steps])
        assert history[name] == pytest.approx([max(step.lambdas) for step in steps])


def test_weights_fit_models_without_the_callback(tmp_path):
    model = build()
    fit(model, epochs=1)
    model.save_weights(tmp_path / "model.weights.h5")
    plain = build(loss="mse")
    plain.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(plain.predict(X, verbose=0), model.predict(X, verbose=0))


class KilledError(Exception):
    pass


class Kill(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KilledError


@pytest.mark.parametrize("ahead", [False, True])
def test_backup_and_restore(tmp_path, ahead):
    def callbacks():
        resume = tmp_path / "adacsl.json"
        return AdaCSLCallback(validation_data=VALIDATION, resume=resume), keras.callbacks.BackupAndRestore(
            tmp_path / "backup"
        )

    whole = fit(build(), epochs=4).history["lambda"]
    adapting, backup = callbacks()
    with pytest.raises(KilledError):
        fit(build(), backup, Kill(), adapting=adapting, epochs=4)
    if ahead:  # killed after the state was written, before the weights were
        adapting._loss.controller.step([0.1, 0.9, 0.4], [0, 1, 1])
        (tmp_path / "adacsl.json").write_text(json.dumps(adapting._loss.controller.state_dict()))
    model = build()
    adapting, backup = callbacks()
    history = fit(model, backup, adapting=adapting, epochs=4).history["lambda"]
    assert history == pytest.approx(whole[2:], rel=1e-6)
    assert [s.lambda_ for s in model.loss.controller.history] == pytest.approx(whole, rel=1e-6)


def test_the_loss_itself():
    loss = AdaptiveCrossEntropy(COSTS)
    z, y = np.array([0.5, -1.0, 30.0, -40.0], dtype=np.float32), np.array([1, 0, 0, 1])
    each = np.where(y == 1, np.logaddexp(0, -z), np.logaddexp(0, z) / 8)
    assert float(loss(y, z[:, None])) == pytest.approx(each.mean(), rel=1e-5)
    assert float(loss(y[:, None], z[:, None])) == pytest.approx(each.mean(), rel=1e-5)
    total = AdaptiveCrossEntropy(COSTS, reduction="sum")(y, z[:, None], sample_weight=np.array([1.0, 2.0, 0.0, 1.0]))
    assert float(total) == pytest.approx(each[0] + 2 * each[1] + each[3], rel=1e-5)
    assert loss.scores(z[:, None]) == pytest.approx(1 / (1 + np.exp(-z.astype(float))))


def test_the_loss_of_three_classes_is_torchs():
    torch = pytest.importorskip("torch")
    from adacsl.torch import AdaptiveCrossEntropy as Reference

    logits, labels = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32), np.arange(50) % 3
    expected = Reference(THREE, target_threshold="half")(torch.tensor(logits), torch.tensor(labels))
    loss = AdaptiveCrossEntropy(THREE, target_threshold="half")
    assert float(loss(labels, logits)) == pytest.approx(float(expected), rel=1e-5)


def test_a_new_loss_replaces_the_old_one():
    model = build()
    fit(model, epochs=1)
    model.compile(keras.optimizers.SGD(0.5), loss=AdaptiveCrossEntropy(CostMatrix(fp=1, fn=2)))
    fit(model, epochs=2)
    assert len(model.loss.controller.history) == 2
    carriers = [m for m in model.metrics if type(m).__name__ == "_CarriedWeight"]
    assert len(carriers) == (1 if BACKEND == "jax" else 0)
    assert all(m.weight is model.loss.negative_weight for m in carriers)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: build(loss="mse"), LookupError, "compiled with one AdaptiveCrossEntropy .* found mse"),
        (lambda: keras.Sequential([keras.layers.Dense(1)]), LookupError, "found None"),
        (lambda: build(activation="sigmoid"), ValueError, "ends with a sigmoid, but the loss expects logits"),
    ],
)
def test_wrong_models(make, error, match):
    with pytest.raises(error, match=match):
        find_adaptive_loss(make())


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: AdaCSLCallback(every=0, validation_data=VALIDATION), ValueError, "every must be a whole number"),
        (lambda: AdaCSLCallback(8, validation_data=VALIDATION), TypeError, "controller must be an AdaCSLController"),
        (
            lambda: AdaptiveCrossEntropy(AdaCSLController(COSTS), target_threshold=0.3),
            TypeError,
            "brings its own settings: target",
        ),
        (lambda: AdaptiveCrossEntropy(COSTS)(Y[:3], np.zeros((3, 3))), ValueError, "must have one or two outputs"),
        (lambda: AdaptiveCrossEntropy(COSTS)(np.eye(2), np.zeros((2, 1))), ValueError, "not one-hot rows"),
        (lambda: fit(build(2, costs=THREE)), ValueError, "must have 3 outputs, one for each class"),
        (
            lambda: AdaptiveCrossEntropy(THREE)(np.eye(3), np.zeros((3, 3))),
            ValueError,
            "one label, 0 to 2, is needed for each",
        ),
        (
            lambda: AdaptiveCrossEntropy(COSTS, partition=lambda s: s > 0.5).get_config(),
            ValueError,
            "custom partition .* cannot be saved",
        ),
    ],
)
def test_wrong_settings(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.weekly
@pytest.mark.slow
@pytest.mark.skipif(BACKEND == "jax", reason="this is that run")
def test_jax_passes_too():
    pytest.importorskip("jax")
    which = "numpy or softmax or continues[settings0] or replaces or restore[True]"  # each fit compiles anew: not all
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", which, __file__]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
        env=os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    assert done.stdout.startswith("." * 5)


def test_costs_of_each_sample_are_those_of_the_validation_samples():
    x, y = VALIDATION
    own = CostMatrix(fp=1, fn=np.random.default_rng(1).uniform(1, 20, len(y)))
    model = build()
    history = fit(model, adapting=AdaCSLCallback(validation_data=VALIDATION, costs=own), epochs=1).history
    raw = 1 / (1 + np.exp(-model.predict(x, verbose=0)[:, 0].astype(np.float64)))
    decided = own.decide(AdaCSLController(COSTS).correct(raw))
    assert history["val_cost"] == pytest.approx([own.mean(y, decided)])
