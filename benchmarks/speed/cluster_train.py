"""An ensemble on a local Ray cluster of two workers beside two processes: seconds, and whether the result is the same.

Usage: ``python -m benchmarks.speed.cluster_train [repeats]``; German credit, which comes with adacsl. Medians; starting
the workers counts.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np

from adacsl import EnsembleClassifier
from adacsl.datasets.loading import load_task

PLACES: dict[str, Any] = {
    "2 processes": {"n_jobs": 2},
    "2 workers on Ray": {"backend": "ray", "n_jobs": 2},
}
MEMBERS = ["logistic", "lightgbm", "lightgbm-shallow", "xgboost", "net"]


def main(repeats: int = 3) -> None:
    task = load_task("german-credit")
    result, seconds = {}, {place: [] for place in PLACES}
    for _ in range(repeats):
        for place, trainer in PLACES.items():
            clf = EnsembleClassifier(task.costs, estimators=MEMBERS, random_state=0, **(trainer or {}))
            start = time.perf_counter()
            result[place] = clf.fit(task.X, task.y)
            seconds[place].append(time.perf_counter() - start)
    here, ray = (statistics.median(taken) for taken in seconds.values())
    one, other = (clf.predict_proba(task.X) for clf in result.values())
    print(f"ensemble: {here:.1f} s in 2 processes, {ray:.1f} s on Ray, ratio {ray / here:.2f}")
    print(f"           same probabilities to the last bit: {np.array_equal(one, other)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
