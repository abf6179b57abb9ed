"""Fits an ensemble on made-up data and keeps its members, slowly, so that it can be killed.

Usage: python stack_slowly.py FOLDER
"""

import sys
import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, EnsembleClassifier


class Slow(LogisticRegression):
    """Says that it is fitted, and takes its time."""

    seconds = 0

    def fit(self, X, y, sample_weight=None):
        if self.seconds:
            sys.stdout.write("slow\n")
            sys.stdout.flush()
            time.sleep(self.seconds)
        return super().fit(X, y, sample_weight)


def made_up():
    rng = np.random.default_rng(0)
    y = (rng.random(200) < 0.3).astype(int)
    X = rng.normal(size=(200, 4))
    X[:, 0] += y
    return X, y


def classifier(folder, seconds):
    Slow.seconds = seconds
    members = ["logistic", "histogram", ("slow", Slow())]
    return EnsembleClassifier(CostMatrix(fp=1, fn=5), estimators=members, cv=3, n_jobs=1, resume=folder, random_state=0)


if __name__ == "__main__":
    classifier(sys.argv[1], seconds=60).fit(*made_up())
