"""Time and memory of EnsembleClassifier: until it is useful, until it is done, and to predict a million rows.

    taskset -c 0,1 python -m benchmarks.speed.ensemble_time --json benchmarks/results/cpu_ensemble_time.json
    taskset -c 0,1 python -m benchmarks.speed.ensemble_time --fraud  # the whole of card fraud, 213,605 training rows

Drawn data of 10,000 rows and 20 columns; the cores are those the process may use. The clock starts when the libraries
are loaded (a small fit before it does that). Predicting is given as a ratio to the slowest base estimator in the same
run.
"""

from __future__ import annotations

import json
import resource
import time
from typing import Any

import joblib
import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from adacsl import CostMatrix, EnsembleClassifier
from benchmarks import harness
from benchmarks.quality.peer_data import load_table


def fit(data: Any, costs: CostMatrix, **settings: Any) -> tuple[Any, dict[str, Any]]:
    """Fit on one part, measure on the other."""
    X, other, y, truth = data
    start = time.perf_counter()
    clf = EnsembleClassifier(costs, random_state=0, verbose=True, **settings).fit(X, y)
    seconds = time.perf_counter() - start
    result = {
        "seconds": seconds, "members": list(clf.estimators_), "test cost": -clf.score(other, truth),
        "estimated cost": list(clf.estimated_cost_), "best member": float(clf.leaderboard_["cost"].min()),
    }  # fmt: skip
    return clf, result


def predicting(clf: Any, n: int = 1_000_000) -> dict[str, Any]:
    """Time the prediction of many rows, and of each member alone."""
    x = np.random.default_rng(0).normal(size=(n, clf.n_features_in_))
    seconds = {}
    for name, model in clf.estimators_.items():
        seconds[name] = harness.wall_seconds(lambda model=model: model.logits(x))
    whole = harness.wall_seconds(lambda: clf.predict(x))
    return {"rows": n, "seconds": whole, "members": seconds, "to the slowest": whole / max(seconds.values())}


def main() -> None:
    """Measure."""
    parser = harness.arguments(__doc__)
    parser.add_argument("--fraud", action="store_true", help="card fraud instead of drawn data")
    args = parser.parse_args()
    if args.fraud:
        from benchmarks.image_data import data_folder  # noqa: PLC0415

        table = load_table("creditcard_fraud", data_folder(), 10**9)
        data = train_test_split(table.features, table.labels, test_size=0.25, stratify=table.labels, random_state=0)
        results = {"fraud": fit(data, CostMatrix.balanced(data[2]))[1]}
    else:
        X, y = make_classification(30_000, 20, n_informative=8, weights=[0.9], flip_y=0.05, random_state=0)
        data = train_test_split(X, y, train_size=10_000, stratify=y, random_state=0)
        costs = CostMatrix(fp=1, fn=8)
        fit([part[:300] for part in data], costs, n_jobs=1)
        results = {"within 20 s": fit(data, costs, budget="20s")[1]}
        clf, results["default"] = fit(data, costs)
        results["predict"] = predicting(clf)
    results["cores"] = joblib.cpu_count()
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    results["peak MB of the largest process"] = peak / 1024
    for name, value in results.items():
        print(name, value)
    if args.json is not None:
        args.json.write_text(json.dumps(harness.metadata() | {"measured": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
