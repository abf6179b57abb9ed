"""How should AdaCSL decide? Its ways beside cross-entropy with the Bayes threshold, on eight tables.

Each table (at most 3,000 rows of it) is split 75/25, stratified, with seeds that no other benchmark has; inverse
priors, and these with false negatives five times as costly. What several ways need is trained once. ``cost`` is
relative to the best constant decision, ``log_loss`` to that of the base rate; ``raw_log_loss`` is before calibrating or
stretching.

    python -m benchmarks.quality.adacsl_defaults --csv benchmarks/results/adacsl_defaults.csv
    python -m benchmarks.quality.adacsl_defaults --show benchmarks/results/adacsl_defaults.csv
"""

from __future__ import annotations

import argparse
import copy
import json
import time
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.base.scores import to_probabilities
from adacsl.estimators.fit import fit_methods
from adacsl.fitting.rows import Rows
from benchmarks.harness import metadata
from benchmarks.image_data import data_folder

DROPPED: dict[str, list[str]] = {
    "german_credit": [],
    "marketing_campaign": ["ID"],
    "telco_churn": ["customerID"],
    "ann_thyroid": ["class3", "original_split"],
    "churn_tv_subscriptions": ["id", "C_FP", "C_FN", "C_TP", "C_TN"],
    "bank_marketing": ["duration"],
    "adult": ["original_split"],
    "give_me_some_credit": ["id"],
}
"""Tables of two classes, and their columns that are no features."""

ADAPTED: dict[str, Any] = {"loss": "weighted", "controller": {}}
WAYS = {"": "bayes", "-calibrated": "calibrated", "-tuned": "tuned"}
KINDS: dict[str, dict[str, Any]] = {
    "net": {},
    "adacsl": ADAPTED,
    "net-last": {"select": "last"},
    "adacsl-last": {**ADAPTED, "select": "last"},
    "net-cv": {"cv": 5},
    "adacsl-cv": {**ADAPTED, "cv": 5},
}
METHODS: dict[str, dict[str, Any]] = {
    f"{kind}{way}": {**own, "decide": WAYS[way]} for kind, own in KINDS.items() for way in WAYS
}
DEFAULT = [
    name
    for name in METHODS
    if name not in ("net-last", "net-tuned", "net-last-tuned", "net-cv-tuned", "adacsl-last-tuned")
]
AGAINST = "net"
FLOOR = 0.01
"""Costs near 0 count as so much of the best constant decision's."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(DROPPED), default=list(DROPPED))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=DEFAULT)
    parser.add_argument("--splits", type=int, nargs="+", default=[100, 101, 102, 103])
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--n-jobs", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--show", type=Path)
    options = parser.parse_args()
    if options.show is not None:
        print(show(pd.read_csv(options.show)))
        return
    result: list[dict[str, Any]] = []
    todo = [(name, split) for split in options.splits for name in options.tables]
    work = joblib.Parallel(options.n_jobs, return_as="generator_unordered")
    for part in work(joblib.delayed(run)(*each, options.methods, options.rows) for each in todo):
        result += part
        print(part[0]["table"], part[0]["split"], f"{part[-1]['seconds']:.0f} s", flush=True)
        if options.csv is not None:  # nothing finished is lost
            keys = ["table", "split", "costs", "method"]
            pd.DataFrame(result).sort_values(keys).to_csv(options.csv, index=False)
    if options.csv is not None:
        options.csv.with_suffix(".meta.json").write_text(json.dumps(metadata("cpu"), indent=2) + "\n")
    print(show(pd.DataFrame(result)))


def load(name: str, rows: int) -> tuple[Any, Any]:
    """Return features and class numbers of a table; of a large one the same random part each time."""
    X = pd.read_csv(data_folder() / f"{name}.csv.gz")
    y = X.pop("target").to_numpy().astype(np.int64)
    X = X.drop(columns=DROPPED[name])
    if len(y) <= rows:
        return X, y
    kept, _ = train_test_split(np.arange(len(y)), train_size=rows, stratify=y, random_state=0)
    return X.iloc[kept].reset_index(drop=True), y[kept]


def run(name: str, split: int, methods: list[str], most: int) -> list[dict[str, Any]]:
    """Fit all methods on one split of one table, under both cost matrices."""
    import torch  # noqa: PLC0415  in the worker

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    X, y = load(name, most)
    train, test = train_test_split(np.arange(len(y)), test_size=0.25, stratify=y, random_state=split)
    matrices = {f"{k} x": CostMatrix.balanced(y[train], factor=k) for k in (1.0, 5.0)}
    asked = [(label, factor, _made(label, split)) for label in methods for factor in matrices]
    rows, result, start = Rows(X, y, train), [], time.perf_counter()
    base = log_loss(y[test], np.full(len(test), y[train].mean()))
    for number in fit_methods([(made, matrices[factor]) for _, factor, made in asked], rows, watch=test):
        label, factor, made = asked[number]
        scores = to_probabilities(made.candidate_.watched)
        proba = made.decision_.probabilities(scores)
        decided, raw = made.decision_.of_probabilities(proba), copy.copy(made.decision_)
        raw.calibration_ = None
        result.append({
            "table": name, "split": split, "costs": factor, "method": label,
            "cost": round(matrices[factor].normalized(y[test], decided), 5),
            "log_loss": round(log_loss(y[test], proba) / base, 5),
            "raw_log_loss": round(log_loss(y[test], raw.probabilities(scores)) / base, 5),
            "seconds": round(time.perf_counter() - start, 1),
        })  # fmt: skip
    return result


def _made(label: str, seed: int) -> CostSensitiveClassifier:
    made = CostSensitiveClassifier(random_state=seed, device="cpu", **METHODS[label])
    made.check_settings()
    return made


def show(result: pd.DataFrame) -> str:
    """Return geometric means of costs relative to cross-entropy's, and of each way relative to the Bayes threshold."""
    means = result.pivot_table(index=["table", "costs"], columns="method", values="cost").clip(lower=FLOOR)
    logs = np.log(means).sub(np.log(means[AGAINST]), axis=0).groupby("table").mean()
    each = result.groupby(["method", "table"])[["raw_log_loss", "log_loss"]].mean()
    losses = np.exp(np.log(each).groupby("method").mean())
    lines = [
        "| method | cost / net-bayes | / its own Bayes threshold, 95 % over tables | lower cost on | "
        "log loss / base rate, raw and calibrated |"
    ]
    lines += ["|---" * 5 + "|"]
    for method in [name for name in METHODS if name in logs]:
        kind = next(kind for kind in reversed(KINDS) if method.startswith(kind))
        own = logs[method] - logs[kind] if kind in logs else 0.0 * logs[method]
        low, high = np.exp(drawn_interval(own.to_numpy()))
        beside = f"{np.exp(own.mean()):.3f} ({low:.3f} to {high:.3f}) | {(own < 0).sum()} of {len(own)}"
        beside = beside if own.any() else " | "
        before, shown = ("not kept" if np.isnan(value) else f"{value:.3f}" for value in losses.loc[method])
        lines.append(f"| {method} | {np.exp(logs[method].mean()):.3f} | {beside} | {before}, {shown} |")
    return "\n".join(lines)


def drawn_interval(values: Any) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a mean over tables."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, len(values), size=(2000, len(values)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


if __name__ == "__main__":
    main()
