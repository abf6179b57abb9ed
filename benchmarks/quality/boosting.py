"""Run AdaCSLClassifier on real tables: what adaptation saves where boosters already do well.

Costs are inverse priors, false negatives k = 1, 3, 5 times as costly (rho = IR, 3 IR, 5 IR). Every split keeps 25 % of
the rows for the test; large tables are cut to ``--max-rows`` first, stratified. All modes have the same rounds (300,
rate 0.1), validation samples (20 %, or five folds) and early stopping (50 rounds without a cheaper one).

    python -m benchmarks.quality.boosting --out benchmarks/results/boosting.csv  # goes on where it was interrupted
    python -m benchmarks.quality.boosting --tables german_credit --splits 3 --max-rows 1000

Modes: ``bayes`` the plain booster at the Bayes threshold, ``tuned`` at the threshold that is cheapest on the validation
rows, ``weighted`` with scale_pos_weight = rho at 0.5, ``adacsl`` adapted between rounds (T' = 0.5), ``auto``
adacsl or bayes, whichever was cheaper on the validation samples; ``-cv`` five folds, margins averaged; ``-last``
all 300 rounds, nothing stopped or chosen. One plain training serves all ratios.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from adacsl import AdaCSLClassifier, AdaCSLController, CostMatrix, find_threshold
from adacsl.adaptive.held_out import HeldOut
from adacsl.base.scores import sigmoid
from adacsl.costs.instance import bayes_log_odds
from adacsl.datasets.ordinal_encoder import ColumnEncoder
from adacsl.fitting.splits import cross_splits, one_split
from adacsl.integrations.boosting import Matrix
from adacsl.learners import BoostingLearner
from adacsl.learners.boosting_libraries import load_library
from benchmarks.harness import write_csv
from benchmarks.image_data import data_folder
from benchmarks.quality.peer_data import TABLES, Table, load_table

KEYS = ("engine", "table", "split", "k", "mode")
ROUNDS, LR, PATIENCE = 300, 0.1, 50
THREADS = {"xgboost": "nthread", "lightgbm": "num_threads", "catboost": "thread_count"}


class Cell(NamedTuple):
    """One split of one table, read by one engine; rows of ``matrix`` are numbered as in the table."""

    engine: Any  # the integration's module
    matrix: Matrix
    train: NDArray[Any]
    test: NDArray[Any]
    seed: int
    plan: dict[str, Any]


class Boosted(NamedTuple):
    """A booster with all its rounds, and the margins of the held-out samples after each."""

    model: Any
    margins: list[Any]


def prepare(backend: str, table: Table, split: int) -> Cell:
    train, test = train_test_split(
        np.arange(len(table.labels)), test_size=0.25, stratify=table.labels, random_state=split
    )
    encoder = ColumnEncoder().fit(table.features.iloc[train])
    matrix = Matrix(encoder.transform(table.features), table.labels, None, encoder.categories)
    plan = {"n_estimators": ROUNDS, "learning_rate": LR, "seed": split, "params": {THREADS[backend]: 1}}
    return Cell(load_library(backend), matrix, train, test, split, plan)


def boost(cell: Cell, folds: list[Any], costs: CostMatrix, target: float, **more: Any) -> list[Boosted]:
    """Boost each fold through all rounds; ``still=True`` keeps lambda at 1."""
    bounds = (1.0, 1.0) if more.get("still") else None
    done = []
    for train, validation in folds:
        part = _part(cell.matrix, cell.train[train])
        if "weight" in more:
            part = part._replace(weight=np.full(len(train), more["weight"]))
        controller = AdaCSLController(costs, target_threshold=target, bounds=bounds)
        held_out = _part(cell.matrix, cell.train[validation])
        model, seen = cell.engine.boost(part, held_out, controller, **cell.plan)
        done.append(Boosted(model, seen.margins))
    return done


def judged(boosted: Boosted, labels: NDArray[Any], costs: CostMatrix, target: float) -> HeldOut:
    """Return the judge that has looked at all rounds before the patience ended, as the estimator's has."""
    held = HeldOut(np.arange(len(labels)), labels, costs)
    shift = float(bayes_log_odds(costs)) - np.log(target / (1.0 - target))
    for margins in boosted.margins:
        held.look(margins + shift)
        if held.seen - 1 - held.best >= PATIENCE:
            break
    return held


def held_out_cost(boosted: list[Boosted], folds: list[Any], y: NDArray[Any], costs: CostMatrix, target: float) -> float:
    """Return the validation cost by which the estimator chooses between its candidates."""
    held = [judged(one, y[rows], costs, target) for one, (_, rows) in zip(boosted, folds, strict=True)]
    return float(np.average([part.cost for part in held], weights=[len(part.rows) for part in held]))


def test_margins(cell: Cell, boosted: list[Boosted], rounds: list[int]) -> NDArray[np.float64]:
    test = _part(cell.matrix, cell.test)
    models = [
        cell.engine.from_bytes(cell.engine.to_bytes(b.model, r + 1)) for b, r in zip(boosted, rounds, strict=True)
    ]
    return np.mean([cell.engine.margins(model, test) for model in models], axis=0)


def run_cell(backend: str, name: str, split: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one line per ratio and mode."""
    warnings.simplefilter("ignore")
    os.environ["OMP_NUM_THREADS"] = "1"
    table = load_table(name, data_folder(), options.max_rows)
    cell = prepare(backend, table, split)
    y = table.labels[cell.train]
    # the estimator's own inner splits
    single, crossed = one_split(y, None, 0.2, cell.seed + 1), cross_splits(y, None, 5, cell.seed)
    balanced = CostMatrix.balanced(table.labels)
    plain, plain_cv = (
        boost(cell, folds, balanced, float(balanced.threshold), still=True) for folds in (single, crossed)
    )
    lines = []
    for k in options.k:
        costs = CostMatrix.balanced(table.labels, factor=k)
        bayes = float(costs.threshold)
        decided = decisions_of(cell, plain, single, y, costs, bayes, "bayes", tuned=True)
        decided |= decisions_of(cell, plain_cv, crossed, y, costs, bayes, "bayes-cv")
        weighted = boost(cell, single, costs, 0.5, still=True, weight=float(costs.ratio))
        decided |= decisions_of(cell, weighted, single, y, costs, 0.5, "weighted")
        adapted = boost(cell, single, costs, 0.5)
        decided |= decisions_of(cell, adapted, single, y, costs, 0.5, "adacsl")
        better = held_out_cost(adapted, single, y, costs, 0.5) <= held_out_cost(plain, single, y, costs, bayes)
        decided["auto"] = decided["adacsl" if better else "bayes"]
        clf = AdaCSLClassifier(
            costs,
            learner=BoostingLearner(
                library=backend, n_estimators=ROUNDS, learning_rate=LR, patience=PATIENCE, params=cell.plan["params"]
            ),
            target_threshold=0.5,
            cv=5,
            random_state=split,
            decide="bayes",
        )
        clf.fit(table.features.iloc[cell.train], y)
        decided["adacsl-cv"] = clf.predict(table.features.iloc[cell.test])
        plainly = held_out_cost(plain_cv, crossed, y, costs, bayes)
        decided["auto-cv"] = decided["adacsl-cv" if clf.target_costs_[0.5] <= plainly else "bayes-cv"]
        lines += [
            {
                "backend": backend, "table": name, "split": split, "k": k, "mode": mode,
                "normalized_cost": round(costs.normalized(table.labels[cell.test], decisions), 5),
            }
            for mode, decisions in decided.items()
        ]  # fmt: skip
    return lines


def decisions_of(
    cell: Cell, boosted: list[Boosted], folds: list[Any], y: NDArray[Any], costs: CostMatrix, target: float,
    mode: str, *, tuned: bool = False,
) -> dict[str, NDArray[Any]]:  # fmt: skip
    """Return test decisions: stopped early, and after all rounds (single boosters); at a tuned threshold if asked."""
    labels = [y[validation] for _, validation in folds]
    rounds = [judged(b, own, costs, target).best for b, own in zip(boosted, labels, strict=True)]
    scores = sigmoid(test_margins(cell, boosted, rounds))
    result = {mode: (scores > target).astype(int)}
    if len(folds) == 1:
        last = test_margins(cell, boosted, [len(boosted[0].margins) - 1])
        result[f"{mode}-last"] = (sigmoid(last) > target).astype(int)
    if tuned:
        seen = sigmoid(boosted[0].margins[rounds[0]])
        best = find_threshold(seen, labels[0], costs, target_threshold=target).value
        result["tuned"] = (scores > best).astype(int)
    return result


def _part(matrix: Matrix, rows: NDArray[Any]) -> Matrix:
    return Matrix(matrix.x[rows], matrix.y[rows], None, matrix.categories)


def main() -> None:
    options = parse()
    results: list[dict[str, Any]] = []
    if options.out is not None and options.out.exists():
        with options.out.open(newline="") as file:
            results = [_typed(line) for line in csv.DictReader(file)]
    done = {(line["backend"], line["table"], line["split"]) for line in results}
    cells = [(options.engine, name, split) for split in options.splits for name in options.tables]
    jobs = (joblib.delayed(run_cell)(*cell, options) for cell in cells if cell not in done)
    for lines in joblib.Parallel(options.processes, return_as="generator_unordered")(jobs):
        results += lines
        if options.out is not None:
            write_csv(results, options.out, KEYS)
    show(results)


def _typed(line: dict[str, str]) -> dict[str, Any]:
    return line | {
        "split": int(line["split"]), "k": float(line["k"]), "normalized_cost": float(line["normalized_cost"])
    }  # fmt: skip


def show(results: list[dict[str, Any]]) -> None:
    """Print geometric means of the cost relative to the plain booster at the Bayes threshold."""
    frame = pd.DataFrame(results)
    for engine, part in frame.groupby("engine"):
        costs = part.pivot(index=["table", "k", "split"], columns="mode", values="normalized_cost")
        ratios = np.log(costs.div(costs["bayes"], axis=0).clip(1e-3, 1e3))
        by_table = np.exp(ratios.groupby("table").mean()).T
        # tables count alike, however many cells they have
        by_table["all"] = np.exp(ratios.groupby("table").mean().mean())
        print(f"{engine}: {len(costs)} cells; cost relative to bayes, geometric means\n{by_table.round(3).to_string()}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=list(THREADS), default="xgboost")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--k", type=float, nargs="+", default=[1, 3, 5])
    parser.add_argument("--splits", type=int, nargs="+", default=[10, 11, 12, 13, 14], help="seeds of the splits")
    parser.add_argument("--max-rows", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
