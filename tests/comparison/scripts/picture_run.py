"""A comparison on pictures that takes three nets; as a script: one to be killed.

Usage: python picture_run.py FOLDER KILL_BEFORE_FOLD
"""

import os
import signal
import sys

import numpy as np
import torch

from adacsl import CostMatrix, CostSensitiveClassifier, Task
from adacsl.comparison.compare import compare_tasks
from adacsl.comparison.protocol import Protocol
from adacsl.neural import fit
from adacsl.neural.learner import NeuralLearner
from adacsl.torch.augmentation import Augment

NEURAL = NeuralLearner(epochs=2, batch_size=16, augment=Augment(rotate=True))
PROTOCOL = Protocol(neural=NEURAL, device="cpu")


def made_pictures():
    """Noise, with a bright spot in the positives; two of each patient."""
    y = (np.arange(48) % 4 == 0).astype(np.int64)
    pixels = np.random.default_rng(0).integers(40, 140, (48, 16, 16, 3))
    pixels[y == 1, 4:12, 4:12] += 110
    return Task("pictures", pixels.astype(np.uint8), y, CostMatrix.balanced(y), groups=np.arange(48) // 2)


def compare(folder):
    """One training of three nets for two uses."""
    steered = {"loss": "weighted", "controller": "auto", "cv": 3}
    methods = {"best": CostSensitiveClassifier(**steered), "last": CostSensitiveClassifier(**steered, select="last")}
    return compare_tasks(
        made_pictures(),
        methods=methods,
        repeats=1,
        folds=2,
        neural=NEURAL,
        device="cpu",
        folder=folder,
        n_jobs=1,
        progress=False,
    )


def main():
    folder, kill_before = sys.argv[1:]
    train = fit.train

    def killed(net, data, members, *rest, **options):
        if str(members[0].fold) == kill_before:
            os.kill(os.getpid(), signal.SIGKILL)
        train(net, data, members, *rest, **options)

    fit.train = killed
    torch.set_num_threads(1)
    compare(folder)


if __name__ == "__main__":
    main()
