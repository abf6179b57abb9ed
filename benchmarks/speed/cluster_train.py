"""A portfolio on a local Ray cluster of two workers beside two processes: seconds, and whether the result is the same.

Usage: ``python -m benchmarks.speed.cluster_train [repeats]``; German credit, which comes with adacsl. Medians; starting
the workers counts. Then boosters whose rows are spread over two processes, beside one.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from adacsl import AdaCSLBoostingClassifier, PortfolioClassifier
from adacsl.datasets.loading import load_task

PLACES: dict[str, Any] = {
    "2 processes": {"workers": 2},
    "2 workers on Ray": {"engine": "ray", "workers": 2},
}
MEMBERS = ["logistic", "lightgbm", "lightgbm-shallow", "xgboost", "nets"]


def main(repeats: int = 3) -> None:
    task = load_task("german-credit")
    found, seconds = {}, {place: [] for place in PLACES}
    for _ in range(repeats):
        for place, trainer in PLACES.items():
            clf = PortfolioClassifier(task.costs, members=MEMBERS, random_state=0, trainer=trainer)
            start = time.perf_counter()
            found[place] = clf.fit(task.X, task.y)
            seconds[place].append(time.perf_counter() - start)
    here, ray = (statistics.median(taken) for taken in seconds.values())
    one, other = (clf.predict_proba(task.X) for clf in found.values())
    print(f"portfolio: {here:.1f} s in 2 processes, {ray:.1f} s on Ray, ratio {ray / here:.2f}")
    print(f"           same probabilities to the last bit: {np.array_equal(one, other)}")
    for engine in ("xgboost", "lightgbm"):
        scores = []
        for trainer in (None, {"workers": 2}):
            clf = AdaCSLBoostingClassifier(
                task.costs, engine=engine, trainer=trainer, random_state=0, cv=[halves(task.y)]
            )
            clf.fit(task.X, task.y)
            scores.append(clf.predict_proba(task.X)[halves(task.y)[1], 1])
        truth = task.y[halves(task.y)[1]]
        gap, losses = np.abs(scores[0] - scores[1]), [log_loss(truth, own) for own in scores]
        print(f"{engine}: probabilities differ by {gap.mean():.2g} in the mean, {gap.max():.2g} at most; ", end="")
        print(f"log loss {losses[0]:.4f} in one process, {losses[1]:.4f} in two")


def halves(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return every second row to train on, and the others."""
    return np.arange(0, len(y), 2), np.arange(1, len(y), 2)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
