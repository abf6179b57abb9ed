"""Tables of three to ten classes: what each method costs relative to calibrated cross-entropy with the Bayes decision.

scikit-learn's iris, wine and digits, the three classes of the thyroid table, and three drawn ones whose classes are of
very different sizes; two cost matrices each: inverse priors, and random heavy-tailed costs (fixed seeds). 25 % of the
rows are the test, five splits.

    python -m benchmarks.quality.class_tables --n-jobs 2 --out benchmarks/results/class_tables.csv
    python -m benchmarks.quality.class_tables --show benchmarks/results/class_tables.csv
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_iris, load_wine, make_classification
from sklearn.model_selection import train_test_split

from adacsl import CostMatrix, CostSensitiveClassifier, EnsembleClassifier
from adacsl.base.scores import to_probabilities
from adacsl.ensemble.base_estimators import default_estimators
from adacsl.estimators.fit import fit_methods
from adacsl.fitting.rows import Rows
from benchmarks.harness import metadata
from benchmarks.image_data import data_folder

ADAPTED: dict[str, Any] = {"loss": "weighted", "controller": {}}  # adapts also where "auto" would not
GBM = {"learner": "boosting", "loss": "weighted"}
METHODS: dict[str, dict[str, Any]] = {
    "net-argmax": {"decide": "half"},
    "net-bayes": {},
    "net-calibrated": {"decide": "calibrated"},
    "net-tuned": {"decide": "tuned"},
    "net-weighted": {"loss": "weighted", "target": "half"},
    "adacsl": {**ADAPTED},
    "adacsl-cautious": {"loss": "weighted", "controller": {"n_standard_errors": 1.0}},
    "adacsl-auto": {**ADAPTED, "target": "auto"},
    "net-calibrated-cv": {"decide": "calibrated", "cv": 5},
    "adacsl-cv": {**ADAPTED, "cv": 5},
    "gbm-bayes": {**GBM, "target": "bayes"},
    "gbm-weighted": {**GBM, "target": "half"},
}
AGAINST = "net-calibrated"
DRAWN = {"drawn-4": 4, "drawn-6": 6, "drawn-8": 8}
TABLES = ("iris", "wine", "thyroid-3", "digits", *DRAWN)


def load(name: str) -> tuple[Any, np.ndarray[Any, Any]]:
    """Return features and class numbers."""
    if name in DRAWN:
        k = DRAWN[name]
        shares = 0.6 ** np.arange(k)
        X, y = make_classification(
            4000, 12, n_informative=8, n_classes=k, n_clusters_per_class=1, weights=list(shares / shares.sum()),
            flip_y=0.05, class_sep=1.2, random_state=k,
        )  # fmt: skip
        return X, y.astype(np.int64)
    if name == "thyroid-3":
        frame = pd.read_csv(data_folder() / "ann_thyroid.csv.gz")
        y = frame["class3"].to_numpy() - 1
        return frame.drop(columns=["class3", "target", "original_split"]).to_numpy(float), y.astype(np.int64)
    read = {"iris": load_iris, "wine": load_wine, "digits": load_digits}[name]
    X, y = read(return_X_y=True)
    return X, y.astype(np.int64)


def matrices(name: str, y: np.ndarray[Any, Any]) -> dict[str, CostMatrix]:
    k = int(y.max()) + 1
    drawn = np.random.default_rng(TABLES.index(name)).lognormal(0.0, 1.5, (k, k)) * (1.0 - np.eye(k))
    return {"balanced": CostMatrix.balanced(y), "random": CostMatrix.from_array(drawn, rows="predicted")}


def run(name: str, split: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Fit all methods on one split of one table, under both matrices; what several need is trained once."""
    warnings.simplefilter("ignore")
    X, y = load(name)
    train, test = train_test_split(np.arange(len(y)), test_size=0.25, stratify=y, random_state=split)
    by_name = matrices(name, y[train])
    asked = []
    for label in options.methods:
        for matrix in by_name:
            if label == "ensemble":
                members = [m for m in default_estimators(images=False) if m not in options.without]
                made: Any = EnsembleClassifier(estimators=members, n_jobs=1, random_state=split, device="cpu")
            else:
                made = CostSensitiveClassifier(random_state=split, device="cpu", **METHODS[label])
            made.check_settings()
            asked.append((label, matrix, made))
    rows, result, start = Rows(X, y, train, n_classes=int(y.max()) + 1), [], time.perf_counter()
    for number in fit_methods([(made, by_name[matrix]) for _, matrix, made in asked], rows, watch=test):
        label, matrix, made = asked[number]
        decided = made.decision_.predict(to_probabilities(made.candidate_.watched))
        costs = by_name[matrix]
        result.append({
            "table": name, "matrix": matrix, "split": split, "method": label, "adapted": bool(made.adapted_),
            "relative_cost": round(costs.normalized(y[test], decided), 5),
            "accuracy": round(float(np.mean(decided == y[test])), 4),
            "seconds": round(time.perf_counter() - start, 1),
        })  # fmt: skip
    return result


def show(result: pd.DataFrame) -> str:
    """Return each method's cost relative to calibrated cross-entropy as Markdown, and the geometric means."""
    means = result.pivot_table(index=["table", "matrix"], columns="method", values="relative_cost", sort=False)
    # costs near 0 count as a hundredth of the constant decision's
    ratios = means.clip(lower=0.01).div(means[AGAINST].clip(lower=0.01), axis=0)
    ratios = ratios[[name for name in ("ensemble", *METHODS) if name in ratios]]
    lines = ["| table | matrix | " + " | ".join(ratios.columns) + " |", "|---" * (len(ratios.columns) + 2) + "|"]
    rows = [*ratios.iterrows(), (("geometric mean", ""), np.exp(np.log(ratios).mean()))]
    for (table, matrix), row in rows:
        lines.append(f"| {table} | {matrix} | " + " | ".join(f"{value:.3f}" for value in row) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, "ensemble"], default=[*METHODS, "ensemble"])
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--without", nargs="+", default=[], help="members of the ensemble to leave out")
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path)
    options = parser.parse_args()
    if options.show is not None:
        print(show(pd.read_csv(options.show)))
        return
    rows: list[dict[str, Any]] = []
    todo = [(name, split) for name in reversed(options.tables) for split in options.splits]
    work = joblib.Parallel(options.n_jobs, return_as="generator_unordered")
    for part in work(joblib.delayed(run)(name, split, options) for name, split in todo):
        rows += part
        print(part[0]["table"], part[0]["split"], f"{part[-1]['seconds']:.0f} s", flush=True)
        if options.out is not None:  # nothing finished is lost
            pd.DataFrame(rows).to_csv(options.out, index=False)
    if options.out is not None:
        options.out.with_suffix(".meta.json").write_text(json.dumps(metadata("cpu"), indent=2) + "\n")
    print(show(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
