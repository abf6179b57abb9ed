"""Cost of common practice on German credit, at its own costs, and of what adacsl recommends there.

    python -m benchmarks.quality.common_practice --csv benchmarks/results/common_practice.csv  # minutes on 2 cores
    python -m benchmarks.quality.common_practice --repeats 1 --folds 2 --peers half balanced   # does it run?

Every row is decided about by models of other folds: two repeats of five, the same for all. Peers are set as their
documentation has them; they see the same samples. Nothing was chosen on the tested samples but what adacsl recommends,
which the very comparison says; ``ensemble`` is its default where nothing was compared.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from imblearn.over_sampling import SMOTE
from imblearn.pipeline import make_pipeline as make_sampling_pipeline
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from xgboost import XGBClassifier

from adacsl.comparison.compare import compare_tasks
from adacsl.comparison.statistics import RowCosts, excess_in, fold_interval
from adacsl.datasets import load_dataset
from benchmarks.harness import metadata, write_csv

OURS = ("always-positive", "logistic", "adacsl-cv", "ensemble")
FP, FN = 1.0, 5.0
"""The data set's own costs."""


def encoder() -> Any:
    numbers, texts = make_column_selector(dtype_include="number"), make_column_selector(dtype_exclude="number")
    return make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore"), texts))


def linear(**settings: Any) -> Any:
    return make_pipeline(encoder(), LogisticRegression(max_iter=1000, **settings))


def boosted(**settings: Any) -> Any:
    return make_pipeline(encoder(), XGBClassifier(n_jobs=1, **settings))


def oversampled(classifier: Any) -> Any:
    return make_sampling_pipeline(encoder(), SMOTE(random_state=0), classifier)


def negative_cost(y: Any, decided: Any) -> float:
    _, fp, fn, _ = confusion_matrix(y, decided, labels=[0, 1]).ravel()
    return -(FP * fp + FN * fn) / len(y)


Make = Callable[[Any], Any]
"""Returns an estimator, from the labels it is to train on."""

PEERS: dict[str, tuple[str, Make]] = {
    "half": ("LogisticRegression at 0.5", lambda y: linear()),
    "balanced": ('LogisticRegression(class_weight="balanced")', lambda y: linear(class_weight="balanced")),
    "weighted": ("LogisticRegression(class_weight={0: 1, 1: 5})", lambda y: linear(class_weight={0: FP, 1: FN})),
    "smote": ("SMOTE, then LogisticRegression", lambda y: oversampled(LogisticRegression(max_iter=1000))),
    "tuned": ("TunedThresholdClassifierCV(LogisticRegression)", lambda y: TunedThresholdClassifierCV(linear())),
    "tuned-cost": (
        "TunedThresholdClassifierCV(LogisticRegression, scoring=cost)",
        lambda y: TunedThresholdClassifierCV(linear(), scoring=make_scorer(negative_cost)),
    ),
    "boosted-half": ("XGBClassifier at 0.5", lambda y: boosted()),
    "boosted-balanced": (
        "XGBClassifier(scale_pos_weight=negatives / positives)",
        lambda y: boosted(scale_pos_weight=1 / y.mean() - 1),
    ),
    "boosted-weighted": ("XGBClassifier(scale_pos_weight=5)", lambda y: boosted(scale_pos_weight=FN / FP)),
    "boosted-smote": ("SMOTE, then XGBClassifier", lambda y: oversampled(XGBClassifier(n_jobs=1))),
}


def paid_by(make: Make, task: Any, costs: RowCosts) -> Any:
    """Return what each tested row costs under a peer, in the order of the comparison's entries."""
    paid = np.full(len(costs.rows), np.nan)
    for fit in np.unique(costs.fits):
        tested = costs.rows[costs.fits == fit]
        train = np.setdiff1d(np.arange(len(task.y)), tested)
        decided = make(task.y[train]).fit(task.X.iloc[train], task.y[train]).predict(task.X.iloc[tested])
        paid[costs.fits == fit] = np.where(decided > task.y[tested], FP, FN * (decided < task.y[tested]))
    return paid


def measured(costs: RowCosts, recommended: str) -> list[dict[str, Any]]:
    """Return for each method what it costs, and how many percent more than what is recommended, with intervals."""
    base = float(costs.costs[costs.methods.index(recommended)].mean())
    result = []
    for name, paid in zip(costs.methods, costs.costs, strict=True):
        mean, low, high = fold_interval(paid, costs.fits, costs.units)
        excess = (0.0,) * 3 if name == recommended else excess_in(costs, name, recommended)[:3]
        extra = [100 * end / base for end in excess]
        what = PEERS[name][0] if name in PEERS else f"adacsl: {name}"
        result.append({
            "method": name, "what": what, "cost": mean, "low": low, "high": high, "extra_percent": extra[0],
            "extra_low": extra[1], "extra_high": extra[2], "recommended": name == recommended,
        })  # fmt: skip
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--run", type=Path, help="folder that keeps the comparison, to go on from")
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    task = load_dataset("german-credit")
    result = compare_tasks([task], methods=list(OURS), repeats=given.repeats, folds=given.folds, folder=given.run)
    (view,) = result.paired
    ours, recommended = result.paired[view], str(result.recommendations[view].recommended)
    paid = [paid_by(PEERS[name][1], task, ours) for name in given.peers]
    results = measured(ours.with_costs([*ours.methods, *given.peers], np.stack([*ours.costs, *paid])), recommended)
    for row in sorted(results, key=lambda row: row["cost"]):
        extra = f"{row['extra_percent']:+.1f} % ({row['extra_low']:.1f} to {row['extra_high']:.1f})"
        print(f"{row['what']:62} {row['cost']:.4f} ({row['low']:.3f} to {row['high']:.3f})  {extra}")
    if given.csv is not None:
        write_csv(results, given.csv, ("cost",))
        about = metadata() | {"folds": f"{given.repeats} x {given.folds}", "recommended": recommended}
        given.csv.with_suffix(".meta.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
