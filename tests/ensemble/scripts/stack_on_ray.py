"""Fit an ensemble on a local Ray cluster and note which members are sent: ``stack_on_ray.py FOLDER LOG slow|quick``."""

import sys
import time
from pathlib import Path

import numpy as np
import ray
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from adacsl import CostMatrix, EnsembleClassifier
from adacsl.ensemble import classifier


def delayed(seconds):
    """Return a classifier that takes its time on Ray; made here, so that Ray carries it by value."""

    class Delayed(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            time.sleep(seconds if ray.is_initialized() else 0)
            return super().fit(X, y, sample_weight)

    return Delayed()


def main():
    folder, log, speed = sys.argv[1:]
    send = classifier.fold_tasks

    def noted(name, made, rows):
        tasks = send(name, made, rows)
        with Path(log).open("a") as file:
            file.writelines(f"{name}\n" for _ in tasks)
        return tasks

    classifier.fold_tasks = noted
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    X = rng.normal(size=(300, 4))
    X[:, 0] += y
    members = [("logistic", LogisticRegression()), ("nb", delayed(120 if speed == "slow" else 0))]
    made = {"costs": CostMatrix(fp=1, fn=6), "estimators": members, "cv": 3, "random_state": 0}
    result = EnsembleClassifier(**made, backend="ray", n_jobs=2, resume=folder).fit(X, y)
    alone = EnsembleClassifier(**made, n_jobs=1).fit(X, y)
    sys.stdout.write(f"{np.array_equal(alone.predict_proba(X), result.predict_proba(X))}\n")


if __name__ == "__main__":
    main()
