"""A Keras model made cost-sensitive by its loss and one callback; torch or JAX underneath.

KERAS_BACKEND=torch python examples/keras_model.py
"""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

from adacsl import CostMatrix
from adacsl.integrations.keras import AdaCSLCallback, AdaptiveCrossEntropy

rng = np.random.default_rng(0)
x = rng.normal(size=(3000, 10)).astype("float32")
y = (x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=3000) > 1.5).astype("int32")

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", loss=AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8)))  # 1: instead of BinaryCrossentropy
adapt = AdaCSLCallback(validation_data=(x[2000:], y[2000:]))  # 2, before what monitors the cost
stop = keras.callbacks.EarlyStopping(monitor="val_cost", mode="min", patience=5, restore_best_weights=True)
history = model.fit(x[:2000], y[:2000], epochs=15, callbacks=[adapt, stop], verbose=0).history
for cost, lambda_, threshold in zip(history["val_cost"], history["lambda"], history["threshold"], strict=True):
    print(f"validation cost {cost:.3f}  lambda {lambda_:.3f}  cost-optimal threshold {threshold:.3f}")
print(model.loss.decide(model.predict(x[2000:2010], verbose=0)))  # decisions
