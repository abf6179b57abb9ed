"""How should AdaCSL decide? Its ways beside cross-entropy with the Bayes threshold, on tables of two and more classes.

Each table (at most 5,000 rows of it) is split 75/25, stratified; inverse priors, and these with misses five times as
dear; of more than two classes inverse priors and random heavy-tailed prices. What several ways need is trained once.
``cost`` is relative to the best constant decision, ``log_loss`` to that of the base rate.

    python benchmarks/adacsl_defaults.py --jobs 16 --csv benchmarks/results/adacsl_defaults.csv
    python benchmarks/adacsl_defaults.py --show benchmarks/results/adacsl_defaults.csv
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import class_tables
import joblib
import numpy as np
import pandas as pd
from _data import data_folder
from harness import metadata
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from adacsl import CostMatrix, Method
from adacsl.core.scores import to_probabilities
from adacsl.estimators.fitting import fit_methods
from adacsl.estimators.rows import Rows

DROPPED = {
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

CLASSES = ("wine", "thyroid-3", "digits", "drawn-4", "drawn-6")
STEERED: dict[str, Any] = {"loss": "weighted", "controller": {}}
WAYS = {"": "bayes", "-calibrated": "calibrated", "-tuned": "tuned"}
KINDS: dict[str, dict[str, Any]] = {
    "ce": {},
    "adacsl": STEERED,
    "ce-last": {"select": "last"},
    "adacsl-last": {**STEERED, "select": "last"},
    "ce-cv": {"cv": 5},
    "wce-cv": {"loss": "weighted", "target": "half", "cv": 5},
    "adacsl-cv": {**STEERED, "cv": 5},
}
METHODS = {f"{kind}{way}": {**own, "decide": WAYS[way]} for kind, own in KINDS.items() for way in WAYS}
AGAINST = "ce"
FLOOR = 0.01
"""Costs near 0 count as so much of the best constant decision's."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=[*DROPPED, *CLASSES], default=[*DROPPED, *CLASSES])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--splits", type=int, nargs="+", default=[100, 101, 102, 103, 104])
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--show", type=Path)
    options = parser.parse_args()
    if options.show is not None:
        print(show(pd.read_csv(options.show)))
        return
    found: list[dict[str, Any]] = []
    todo = [(name, split) for split in options.splits for name in options.tables]
    work = joblib.Parallel(options.jobs, return_as="generator_unordered")
    for part in work(joblib.delayed(run)(*each, options.methods, options.rows) for each in todo):
        found += part
        print(part[0]["table"], part[0]["split"], f"{part[-1]['seconds']:.0f} s", flush=True)
        if options.csv is not None:  # nothing finished is lost
            keys = ["table", "split", "prices", "method"]
            pd.DataFrame(found).sort_values(keys).to_csv(options.csv, index=False)
    if options.csv is not None:
        options.csv.with_suffix(".meta.json").write_text(json.dumps(metadata("cpu"), indent=2) + "\n")
    print(show(pd.DataFrame(found)))


def load(name: str, rows: int) -> tuple[Any, Any]:
    """Return features and class numbers of a table; of a large one the same random part each time."""
    if name in CLASSES:
        X, y = class_tables.load(name)
    else:
        X = pd.read_csv(data_folder() / f"{name}.csv.gz")
        y = X.pop("target").to_numpy().astype(np.int64)
        X = X.drop(columns=DROPPED[name], errors="ignore")
    if len(y) <= rows:
        return X, y
    kept, _ = train_test_split(np.arange(len(y)), train_size=rows, stratify=y, random_state=0)
    return (X.iloc[kept].reset_index(drop=True) if hasattr(X, "iloc") else X[kept]), y[kept]


def prices_for(name: str, y: Any) -> dict[str, CostMatrix]:
    """Return two cost matrices of a table."""
    if name in CLASSES:
        return class_tables.matrices(name, y)
    return {"balanced": CostMatrix.balanced(y), "5 x": CostMatrix.balanced(y, factor=5.0)}


def run(name: str, split: int, methods: list[str], most: int) -> list[dict[str, Any]]:
    """Fit all methods on one split of one table, under both prices."""
    import torch  # noqa: PLC0415  in the worker

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    X, y = load(name, most)
    k = int(y.max()) + 1
    train, test = train_test_split(np.arange(len(y)), test_size=0.25, stratify=y, random_state=split)
    prices = prices_for(name, y[train])
    asked = [(label, price, _made(label, split)) for label in methods for price in prices]
    rows, found, start = Rows(X, y, train, n_classes=k), [], time.perf_counter()
    shares = np.bincount(y[train], minlength=k) / len(train)
    base = log_loss(y[test], np.tile(shares, (len(test), 1)), labels=np.arange(k))
    for number in fit_methods([(made, prices[price]) for _, price, made in asked], rows, watch=test):
        label, price, made = asked[number]
        proba = made.decision_.probabilities(to_probabilities(made.candidate_.watched))
        decided = made.decision_.of_probabilities(proba)
        found.append({
            "table": name, "split": split, "prices": price, "method": label, "classes": k,
            "cost": round(prices[price].normalized(y[test], decided), 5),
            "log_loss": round(log_loss(y[test], proba, labels=np.arange(k)) / base, 5),
            "slope": getattr(made.decision_, "slope", 1.0), "seconds": round(time.perf_counter() - start, 1),
        })  # fmt: skip
    return found


def _made(label: str, seed: int) -> Method:
    made = Method(random_state=seed, device="cpu", **METHODS[label])
    made.check_settings()
    return made


def show(found: pd.DataFrame) -> str:
    """Return geometric means of costs relative to cross-entropy's, with a 95 % interval over the tables."""
    lines = ["| tables | method | cost / ce-bayes | 95 % over tables | worst table | log loss / base rate |", "|---" * 6 + "|"]
    for title, some in (("two classes", found[found.classes == 2]), ("more", found[found.classes > 2])):
        means = some.pivot_table(index=["table", "prices"], columns="method", values="cost").clip(lower=FLOOR)
        logs = np.log(means).sub(np.log(means[AGAINST]), axis=0).groupby("table").mean()
        losses = np.exp(np.log(some.groupby(["method", "table"])["log_loss"].mean()).groupby("method").mean())
        for method in [name for name in METHODS if name in logs]:
            own = logs[method]
            low, high = drawn_interval(own.to_numpy())
            lines.append(
                f"| {title} | {method} | {np.exp(own.mean()):.3f} | {np.exp(low):.3f} to {np.exp(high):.3f} | "
                f"{np.exp(own.max()):.3f} | {losses[method]:.3f} |"
            )
    return "\n".join(lines)


def drawn_interval(values: Any) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a mean over tables."""
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, len(values), size=(2000, len(values)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


if __name__ == "__main__":
    main()
