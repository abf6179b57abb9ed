"""Fits classifiers on any number of processes; each process writes what it ended with.

Usage: python two_processes.py FOLDER PROCESSES
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from adacsl import AdaCSLClassifier, CostMatrix
from adacsl.neural import NeuralLearner


def made_up():
    rng = np.random.default_rng(0)
    y = (rng.random(301) < 0.3).astype(int)  # an odd number of rows: shares differ
    X = rng.normal(size=(301, 4))
    X[:, 0] += y
    return X, y


def three_classes():
    X, y = made_up()
    return X, y + (X[:, 1] > 0.5)


def net(features):
    return nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, 1))


COSTS = CostMatrix(fp=1, fn=5)
THREE = CostMatrix.from_array([[0, 2, 8], [1, 0, 6], [1, 3, 0]], rows="predicted")
SCENARIOS = {
    "plain": {"module": net}, "folds": {"module": net, "cv": 2}, "default": {"cv": 3},
    "classes": {"cv": 3, "costs": THREE, "controller": {}},
}  # fmt: skip


def run(processes, *, module=None, cv=None, costs=COSTS, controller="auto"):
    trainer = {"strategy": "ddp", "accelerator": "cpu", "devices": processes} if processes > 1 else {}
    net = {"module": module, "epochs": 5, "batch_size": 33, "trainer": trainer}
    X, y = made_up() if costs is COSTS else three_classes()
    clf = AdaCSLClassifier(costs, learner=NeuralLearner(**net), cv=cv, controller=controller, random_state=0).fit(X, y)
    lambdas = "lambda" if costs is COSTS else "lambdas"
    history = {name: np.ravel(clf.history_[name].tolist()).tolist() for name in (lambdas, "val_cost", "train_loss")}
    return history | {"scores": clf.predict_proba(X).ravel().tolist(), "cost": clf.estimated_cost_.estimate}


def main(folder, processes):
    torch.set_num_threads(1)
    results = {name: run(processes, **settings) for name, settings in SCENARIOS.items()}
    rank = os.environ.get("LOCAL_RANK", "0")
    (Path(folder) / f"{processes}-{rank}.json").write_text(json.dumps(results))
    if torch.distributed.is_initialized():  # processes that part without a word may abort at exit
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
