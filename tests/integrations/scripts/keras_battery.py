"""The tests of all integrations for Keras, with the backend of KERAS_BACKEND: JSON in, JSON out."""

import json
import sys

import keras
import numpy as np

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import UniformBins
from adacsl.integrations.keras import AdaCSLCallback, AdaptiveCrossEntropy


class Pick(keras.callbacks.Callback):
    """Let a linear net give the logits of this epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        weights = np.zeros_like(self.model.get_weights()[0])
        weights[epoch] = 1.0
        self.model.set_weights([weights])


def model_of(n_features, loss, lr, bias):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((n_features,)), keras.layers.Dense(1, use_bias=bias)])
    model.compile(keras.optimizers.Adam(lr), loss=loss)
    return model


def frozen(logits, labels):
    x, y = np.asarray(logits, dtype=np.float32), np.asarray(labels)
    controller = AdaCSLController(CostMatrix(fp=1, fn=5), partition=UniformBins(3))
    model = model_of(x.shape[1], AdaptiveCrossEntropy(controller), 0.0, bias=False)
    adapting = AdaCSLCallback(validation_data=(x, y))
    model.fit(x, y, epochs=x.shape[1], verbose=0, callbacks=[Pick(), adapting])
    return [step.lambda_ for step in controller.history]


def toy(X, y, epochs, costs):
    X, y = [np.asarray(part, dtype=np.float32) for part in X], [np.asarray(part) for part in y]
    result = []
    for loss in (keras.losses.BinaryCrossentropy(from_logits=True), AdaptiveCrossEntropy(costs)):
        model = model_of(X[0].shape[1], loss, 0.05, bias=True)
        adaptive = isinstance(loss, AdaptiveCrossEntropy)
        callbacks = [AdaCSLCallback(validation_data=(X[1], y[1]))] if adaptive else []
        model.fit(X[0], y[0], epochs=epochs, batch_size=50, verbose=0, callbacks=callbacks)
        result.append(costs.mean(y[2], model.predict(X[2], verbose=0)[:, 0] > 0))
    return result


def answer(question):
    return {
        "backend": keras.backend.backend(),
        "lambdas": frozen(**question["frozen"]),
        "toy": toy(**question["toy"], costs=CostMatrix.from_dict(question["costs"])),
    }


if __name__ == "__main__":
    print(json.dumps(answer(json.load(sys.stdin))))  # noqa: T201
