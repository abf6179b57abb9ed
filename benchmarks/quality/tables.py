"""Run AdaCSLClassifier on real tables: what cross-fitting saves, and what the adaptation saves.

Costs are inverse priors, false negatives k = 1, 3, 5 times as costly (rho = IR, 3 IR, 5 IR). Every split keeps 25 % of
the rows for the test; large tables are cut to ``--max-rows`` first, stratified.

    python -m benchmarks.quality.tables --out benchmarks/results/tables.csv            # the published figures
    python -m benchmarks.quality.tables --tables german_credit --splits 3 --k 1        # does it run?

Modes: ``net-weighted`` weighted cross-entropy (lambda stays 1), ``adacsl``, ``net-bayes`` plain cross-entropy at the
Bayes threshold; ``single`` one net, its best epoch on 20 % validation samples; ``cv`` five folds, logits averaged;
``hgb-bayes`` scikit-learn's histogram boosting at the Bayes threshold.
"""

from __future__ import annotations

import argparse
import datetime
import time
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from adacsl import AdaCSLClassifier, CostMatrix
from benchmarks.harness import write_csv
from benchmarks.image_data import data_folder
from benchmarks.quality.peer_data import TABLES, Table, load_table

MODES: dict[str, dict[str, Any]] = {
    "net-weighted-single": {"controller": None},
    "adacsl-single": {},
    "net-weighted-cv": {"controller": None, "cv": 5},
    "adacsl-cv": {"cv": 5},
    "net-bayes-cv": {"controller": None, "target": "bayes", "cv": 5},
}


def run_cell(name: str, k: float, split: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one line per mode."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    table = load_table(name, data_folder(), options.max_rows)
    train, test = train_test_split(
        np.arange(len(table.labels)), test_size=0.25, stratify=table.labels, random_state=split
    )
    costs = CostMatrix.balanced(table.labels, factor=k)
    lines = []
    for mode in options.modes:
        start = time.perf_counter()
        decided = _boosted if mode == "hgb-bayes" else _decided
        decisions = decided(mode, costs, table, train, test, split)
        lines.append({
            "table": name, "k": k, "split": split, "mode": mode,
            "normalized_cost": round(costs.normalized(table.labels[test], decisions), 5),
            "cost": round(costs.mean(table.labels[test], decisions), 5),
            "seconds": round(time.perf_counter() - start, 1),
        })  # fmt: skip
    return lines


def _decided(
    mode: str, costs: CostMatrix, table: Table, train: NDArray[Any], test: NDArray[Any], seed: int
) -> NDArray[Any]:
    clf = AdaCSLClassifier(costs, random_state=seed, device="cpu", **MODES[mode])
    clf.fit(table.features.iloc[train], table.labels[train])
    return clf.predict(table.features.iloc[test])


def _boosted(
    mode: str, costs: CostMatrix, table: Table, train: NDArray[Any], test: NDArray[Any], seed: int
) -> NDArray[Any]:
    frame = table.features.copy()
    for column in frame.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]]:
        codes = frame[column].astype("category").cat.codes
        frame[column] = codes.where((codes >= 0) & (codes < 255)).astype(float)
    boosting = HistGradientBoostingClassifier(random_state=seed, early_stopping=True)
    boosting.fit(frame.iloc[train], table.labels[train])
    return np.asarray(costs.decide(boosting.predict_proba(frame.iloc[test])[:, 1]))


def main() -> None:
    options = parse()
    cells = [(name, k, split) for name in options.tables for split in options.splits for k in options.k]
    jobs = (joblib.delayed(run_cell)(*cell, options) for cell in cells)
    results: list[dict[str, Any]] = []
    for lines in joblib.Parallel(options.processes, return_as="generator_unordered")(jobs):
        results += lines
        if options.out is not None:
            write_csv(results, options.out, ("table", "k", "split", "mode"))
    show(results)


def show(results: list[dict[str, Any]]) -> None:
    """Print geometric means of the cost relative to weighted cross-entropy on one net."""
    frame = pd.DataFrame(results).pivot(index=["table", "k", "split"], columns="mode", values="normalized_cost")
    print(f"{datetime.date.today()}, torch {torch.__version__}: normalised cost, means over splits and k")
    print(frame.groupby("table").mean().round(4).to_string())
    if "net-weighted-single" in frame:
        ratios = np.log(frame.div(frame["net-weighted-single"], axis=0).clip(lower=1e-3))
        print("geometric mean of the cost relative to net-weighted-single")
        print(np.exp(ratios.groupby("table").mean()).round(3).to_string())
        # tables count alike, however many cells they have
        print(np.exp(ratios.groupby("table").mean().mean()).round(4).to_string())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--modes", nargs="+", choices=[*MODES, "hgb-bayes"], default=[*MODES, "hgb-bayes"])
    parser.add_argument("--k", type=float, nargs="+", default=[1, 3, 5])
    parser.add_argument("--splits", type=int, nargs="+", default=[10, 11, 12, 13, 14], help="seeds of the splits")
    parser.add_argument("--max-rows", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
