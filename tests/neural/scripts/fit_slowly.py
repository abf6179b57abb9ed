"""Fits on made-up data with checkpoints, slowly, so that it can be interrupted.

Usage: python fit_slowly.py FOLDER OUT SECONDS_PER_EPOCH KIND
"""

import sys
import time
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn

from adacsl import AdaCSLClassifier, CostMatrix
from adacsl.neural import NeuralLearner

NET = {"epochs": 8, "batch_size": 32}
KINDS = {
    "together": {"cv": 3},
    "one by one": {
        "cv": 2, "net": {"module": lambda d: nn.Sequential(nn.Linear(d, 6), nn.Dropout(0.3), nn.Linear(6, 2))}
    },
    "stopping early": {"net": {"epochs": 30, "learning_rate": 0.1, "patience": 4}},
}  # fmt: skip


def made_up(seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(240) < 0.3).astype(int)
    X = rng.normal(size=(240, 4))
    X[:, 0] += y
    return X, y


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Slow(pl.Callback):
    def __init__(self, seconds):
        self.seconds = seconds

    def on_train_epoch_start(self, trainer, pl_module):
        say(f"epoch {trainer.current_epoch}")
        time.sleep(self.seconds)


def classifier(folder, kind="together", *, callbacks=(), net=None, **more):
    settings = {"random_state": 1, "resume": folder} | KINDS[kind] | more
    chosen = NET | settings.pop("net", {}) | (net or {}) | {"trainer": {"callbacks": list(callbacks)}}
    return AdaCSLClassifier(CostMatrix(fp=1, fn=5), learner=NeuralLearner(**chosen), **settings)


def fit(folder, seconds=0.0, kind="together", seed=0, **more):
    callbacks = [Slow(seconds)] if seconds else []
    return classifier(folder, kind, callbacks=callbacks, **more).fit(*made_up(seed))


def main():
    torch.set_num_threads(1)
    folder, out, seconds, kind = sys.argv[1:]
    try:
        clf = fit(folder, float(seconds), kind)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
    torch.save(clf.net_.state_dict(), Path(out))


if __name__ == "__main__":
    main()
