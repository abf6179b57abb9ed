"""The toy task of all integrations in Keras, with the backend of KERAS_BACKEND: JSON in, JSON out."""

import json
import sys

import keras
import numpy as np

from adacsl import CostMatrix
from adacsl.integrations.keras import AdaCSLCallback, AdaptiveCrossEntropy


def answer(X, y, epochs, costs):
    X, y = [np.asarray(part, dtype=np.float32) for part in X], [np.asarray(part) for part in y]
    costs, result = CostMatrix.from_dict(costs), []
    for loss in (keras.losses.BinaryCrossentropy(from_logits=True), AdaptiveCrossEntropy(costs)):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.05), loss=loss)
        adaptive = isinstance(loss, AdaptiveCrossEntropy)
        callbacks = [AdaCSLCallback(validation_data=(X[1], y[1]))] if adaptive else []
        model.fit(X[0], y[0], epochs=epochs, batch_size=50, verbose=0, callbacks=callbacks)
        result.append(costs.mean(y[2], model.predict(X[2], verbose=0)[:, 0] > 0))
    return result


if __name__ == "__main__":
    print(json.dumps(answer(**json.load(sys.stdin))))  # noqa: T201
