"""Base estimators of the ensemble, their settings and how often they are cross-fitted, chosen by log loss of the stack.

Every candidate is cross-fitted once per table and split, with plain log loss; its out-of-fold and test log-odds lie in
``--scores`` and are computed once. From them follow the stacks: ``oof_log_loss`` is nested (neither the base estimators
nor the stack were fitted on the sample), of a stack by plain log loss; costs are those of the test samples at
``CostMatrix.balanced(labels, factor=k)``, k = 1 and 5. ``name*3`` is a base estimator cross-fitted on three partitions
with three seeds, whose log-odds are averaged. Seconds are CPU time of one thread.

    python -m benchmarks.quality.base_estimators --out benchmarks/results/base_estimators.csv
    python -m benchmarks.quality.base_estimators --page benchmarks/results/base_estimators.md

The tables and splits are those for choices (see networks.py), and scikit-learn's wine and digits for more than two
classes. Lines that a file has are skipped, so that an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import functools
import hashlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, train_test_split

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.base.scores import losses_of
from adacsl.costs.instance import bayes_log_odds
from adacsl.ensemble.base_estimators import BASE_ESTIMATORS, named_estimator
from adacsl.ensemble.stacking import stack_estimators
from adacsl.learners import BoostingLearner
from adacsl.learners.sklearn import SklearnLearner
from benchmarks.quality.networks import PARTS, read_table
from benchmarks.quality.peer_data import Table

TABLES, SPLITS = PARTS["development"]
CLASSES = {"wine": load_wine, "digits": load_digits}
"""Tables of more than two classes."""
RESULTS = Path(__file__).parents[1] / "results/base_estimators.csv"
COLUMNS = (
    "table", "rows", "split", "method", "oof_log_loss", "log_loss", "cost_1", "cost_5", "seconds", "date",
)  # fmt: skip


def catboost(rate: float = 0.05, patience: int = 50, **params: Any) -> Any:
    """Return CatBoost with these settings, on one thread."""
    params = {"thread_count": 1, **params}
    return BoostingLearner("catboost", n_estimators=1000, learning_rate=rate, patience=patience, params=params)


ONE_HOT = {"one_hot_max_size": 64, "max_ctr_complexity": 1}
CANDIDATES: Mapping[str, Callable[[], Any]] = {
    "catboost-usual": catboost,
    "catboost-ctr1": lambda: catboost(max_ctr_complexity=1),
    "catboost-leaf1": lambda: catboost(leaf_estimation_iterations=1),
    "catboost-rate.1": lambda: catboost(0.1),
    "catboost-depth4": lambda: catboost(depth=4),
    "catboost-border64": lambda: catboost(border_count=64),
    "catboost-onehot": lambda: catboost(**ONE_HOT),
    "catboost-onehot-depth4": lambda: catboost(**ONE_HOT, depth=4),
    "catboost-onehot-leaf1": lambda: catboost(**ONE_HOT, leaf_estimation_iterations=1),
    "catboost-onehot-leaf3": lambda: catboost(**ONE_HOT, leaf_estimation_iterations=3),
    "catboost-onehot-rate.08": lambda: catboost(0.08, **ONE_HOT),
    "catboost-onehot-rsm.5": lambda: catboost(**ONE_HOT, rsm=0.5),
    "catboost-onehot-patience25": lambda: catboost(patience=25, **ONE_HOT),
    "catboost-onehot-border64": lambda: catboost(**ONE_HOT, border_count=64),
    "catboost-light": lambda: catboost(patience=25, **ONE_HOT, border_count=64, rsm=0.5),
    "catboost-light-depth5": lambda: catboost(patience=25, **ONE_HOT, border_count=64, rsm=0.5, depth=5),
    "catboost-light-depth4": lambda: catboost(patience=25, **ONE_HOT, border_count=64, rsm=0.5, depth=4),
    "catboost-light-all": lambda: catboost(patience=25, **ONE_HOT, border_count=64),
    "xgboost-2": lambda: BoostingLearner(
        "xgboost", learning_rate=0.05, params={"max_depth": 3, "subsample": 0.8, "colsample_bytree": 0.5}
    ),
    "forest": lambda: SklearnLearner(RandomForestClassifier(200, min_samples_leaf=3)),
    "extra-trees-100": lambda: SklearnLearner(ExtraTreesClassifier(100, min_samples_leaf=3)),
}
"""Learners beside the named base estimators."""

FREE = ("logistic", "lightgbm", "lightgbm-shallow", "xgboost", "net", "net-bins")
"""The default ones without CatBoost."""
CORE = (*FREE, "catboost-light-depth5")
"""The default ones with CatBoost as it was chosen."""
MORE = ("extra-trees", "realmlp", "forest", "xgboost-2", "lightgbm-soft", "histogram")
TEN = (*FREE, "xgboost-2", "histogram", "forest", "extra-trees")
ELEVEN = (*TEN, "realmlp")


CHEAP = ("logistic", "lightgbm", "lightgbm-shallow", "xgboost", "catboost-light-depth5")
"""What is cross-fitted several times: one more time takes less than a second."""


def stacks() -> dict[str, tuple[str, ...]]:
    """Return the base estimators of each stack."""
    result: dict[str, tuple[str, ...]] = {"stack without catboost": FREE}
    result |= {f"stack +{name}": (*FREE, name) for name in CANDIDATES if name.startswith("catboost")}
    result |= {f"stack +catboost-light-depth5 -{name}": tuple(own for own in CORE if own != name) for name in FREE}
    result |= {f"stack +catboost-light-depth5 +{name}": (*CORE, name) for name in MORE}
    result["stack +catboost-light-depth5 +extra-trees +realmlp"] = (*CORE, "extra-trees", "realmlp")
    for name in ("catboost-usual", "catboost-light-depth5"):
        result[f"stack of cheap ones +{name}"] = (*CHEAP[:-1], name)
    result["stack of ten"] = TEN
    result["stack of ten +catboost-light-depth5"] = (*TEN, "catboost-light-depth5")
    result["stack of eleven"] = ELEVEN
    result["stack of eleven +catboost-light-depth5"] = (*ELEVEN, "catboost-light-depth5")
    return result


def base_estimator(name: str) -> CostSensitiveClassifier:
    """Return an unfitted base estimator, selected by log loss."""
    if name in BASE_ESTIMATORS:
        return named_estimator(name)
    made: CostSensitiveClassifier = CostSensitiveClassifier(learner=CANDIDATES[name](), select="log-loss")
    return made


class Split:
    """One split of one table: 30 % are the test samples, the others are cross-fitted in five folds."""

    def __init__(self, name: str, rows: int, split: int, scores: Path) -> None:
        self.name, self.rows, self.split, self.folder = name, rows, split, scores
        self.table = table_of(name, rows)
        y = self.table.labels
        self.train, self.test = train_test_split(np.arange(len(y)), test_size=0.3, stratify=y, random_state=split)
        self.y, self.y_test = y[self.train], y[self.test]

    def scores(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return out-of-fold and test log-odds (or K logits), and CPU seconds: the means and sum of all repeats."""
        own, _, repeats = name.partition("*")
        parts = [self.repeat(own, number) for number in range(int(repeats or 1))]
        oof, test = (np.mean(np.stack(own), axis=0) for own in list(zip(*parts, strict=True))[:2])
        return oof, test, sum(part[2] for part in parts)

    def repeat(self, name: str, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return the log-odds of one cross-fit; fit it only once."""
        learner = repr(base_estimator(name).get_params())
        key = hashlib.sha256(f"{learner} {self.rows} {self.split} {number}".encode()).hexdigest()[:12]
        path = self.folder / f"{self.name}-{self.split}-{name}-{number}-{key}.npz"
        if path.exists():
            with np.load(path) as kept:
                return kept["oof"], kept["test"], float(kept["seconds"])
        X, seed = self.table.features, self.split + 1000 * number
        folds = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(self.train, self.y))
        start = time.process_time()
        clf = base_estimator(name).set_params(cv=folds, random_state=seed, device="cpu")
        clf.fit(X.iloc[self.train], self.y)
        seconds = time.process_time() - start
        own = np.clip(clf.oof_scores_, 1e-12, 1.0 - 1e-12)
        oof = np.log(own / (1.0 - own)) if own.ndim == 1 else np.log(own)
        # the classifier is trained with balanced costs; plain log loss does not know them
        test = clf.model_.logits(X.iloc[self.test])
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, oof=oof, test=test, seconds=seconds)
        return oof, test, seconds

    def line(self, method: str, members: Sequence[str] = ()) -> dict[str, Any]:
        """Return the line of a base estimator, or of a stack of several."""
        parts = [self.scores(name) for name in members or [method]]
        oof, test = (np.stack([part[i] for part in parts], axis=1) for i in (0, 1))
        seconds, nested, predicted = sum(part[2] for part in parts), oof[:, 0], test[:, 0]
        if members:
            stack, nested = stack_estimators(oof, self.y, seed=self.split, strength="auto")
            predicted = stack.logits(test)
        costs = {f"cost_{k}": self.cost(oof, test, float(k)) for k in (1, 5)} if test.ndim == 2 else {}
        losses = [float(np.mean(losses_of(z, y))) for z, y in ((nested, self.y), (predicted, self.y_test))]
        return {
            "table": self.name, "rows": len(self.table.labels), "split": self.split, "method": method,
            "oof_log_loss": round(losses[0], 5), "log_loss": round(losses[1], 5), **costs,
            "seconds": round(seconds, 2), "date": datetime.date.today(),
        }  # fmt: skip

    def cost(self, oof: NDArray[np.float64], test: NDArray[np.float64], k: float) -> float:
        """Return the normalised test cost at the Bayes threshold, of the stack that these costs have."""
        costs = CostMatrix.balanced(self.y, factor=k)
        cut = float(bayes_log_odds(costs))
        predicted = test[:, 0]
        if oof.shape[1] > 1:
            predicted = stack_estimators(oof, self.y, cut=cut, seed=self.split, strength="auto")[0].logits(test)
        return round(float(costs.normalized(self.y_test, (predicted > cut).astype(np.int64))), 5)


@functools.cache
def table_of(name: str, rows: int) -> Table:
    """Return a table, cut to so many rows."""
    if name not in CLASSES:
        return read_table(name, rows)
    bunch = CLASSES[name](as_frame=True)
    X, y = bunch.data, bunch.target.to_numpy(np.int64)
    if len(y) > rows:
        kept, _ = train_test_split(np.arange(len(y)), train_size=rows, stratify=y, random_state=0)
        X, y = X.iloc[kept].reset_index(drop=True), y[kept]
    return Table(X, y)


CHOSEN = "stack +catboost-light-depth5"
CHEAPER = "stack of cheap ones +catboost-light-depth5"
RATIOS = {"oof_log_loss": "out of fold", "log_loss": "test log loss", "cost_1": "cost, k = 1", "cost_5": "cost, k = 5"}


def page(path: Path) -> str:
    """Return the page of results: each stack, and each CatBoost alone, relative to the one that was chosen."""
    frame = pd.read_csv(path)
    large, many, method = frame["rows"] > 5000, frame["table"].isin(CLASSES), frame["method"]
    small, again = ~large & ~many, method.str.contains("cross-fits")
    cheap = method.str.startswith("stack of cheap")
    parts = [
        ("CatBoost alone", method.str.startswith("catboost") & small, CHOSEN[7:]),
        ("Stacks", method.str.startswith("stack") & ~cheap & ~again & small, CHOSEN),
        ("4,900 training samples, without networks", cheap & large & ~again, CHEAPER),
        ("Three classes, without networks", cheap & many & ~again, CHEAPER),
        ("Several cross-fits", (method == CHOSEN) | method.str.startswith(f"{CHOSEN},"), CHOSEN),
        ("Several cross-fits, without networks", cheap & small & (again | (method == CHEAPER)), CHEAPER),
    ]
    tables = [f"\n## {title}\n\n{table(frame[some], reference)}" for title, some, reference in parts]
    return PAGE.format(tables="".join(tables))


def table(frame: pd.DataFrame, reference: str) -> str:
    """Return geometric means of ratios to a reference, over the tables and splits that both were run on."""
    keys = ["table", "rows", "split"]
    lines = ["| | pairs | " + " | ".join(RATIOS.values()) + " | seconds | of the reference |", "| --- " * 8 + "|"]
    wide: Any = frame.set_index([*keys, "method"]).unstack("method")
    for name in frame["method"].unique():
        both = wide.index[wide["oof_log_loss", name].notna() & wide["oof_log_loss", reference].notna()]
        if not len(both) or name == reference:
            continue
        cells = []
        for column in RATIOS:
            own, other = (wide.loc[both, (column, method)].clip(lower=1e-3) for method in (name, reference))
            ratio = np.exp(np.log(own / other).mean())
            cells.append("" if np.isnan(ratio) else f"{ratio:.3f}")
        seconds = [f"{wide.loc[both, ('seconds', method)].mean():.1f}" for method in (name, reference)]
        lines.append("| " + " | ".join([name, str(len(both)), *cells, *seconds]) + " |")
    return "\n".join(lines) + "\n"


PAGE = """<!-- made by benchmarks/quality/base_estimators.py --page: do not edit -->

# Base estimators of the ensemble

Settings and base estimators are chosen on development tables and splits, which no published comparison uses, by the
log loss of the stack. Ratios are geometric means over tables and splits, to `catboost-light-depth5` alone or to the
stack of the default base estimators with it; above 1 the reference is better. There are few pairs, of a few hundred
test samples each: differences of 2 % are noise. Seconds are CPU time of one thread, on a busy machine.

- **CatBoost** stays, at a sixth of its time: categories as columns (`one_hot_max_size`), 64 borders, half of the
  features for each tree, depth 5, 25 rounds of patience. The stack without it is worse.
- **More base estimators** change the log loss by less than the splits differ. They stay out of the default;
  scikit-learn's boosting, extra trees and RealMLP join where a time limit leaves room.
- **Several cross-fits** of the cheap base estimators, averaged, are left out. Two of them lower the log loss of a stack
  of these alone, but not, on test samples, that of the default stack, which has networks too; they double the time of
  training and predicting. Out of fold they look better than they are: the scores of several models are averaged,
  whereas new samples are predicted by five models anyway.
{tables}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=[*TABLES, *CLASSES])
    parser.add_argument("--splits", type=int, nargs="+", default=list(SPLITS))
    parser.add_argument("--rows", type=int, default=1500, help="at most so many rows of a table")
    parser.add_argument("--base", nargs="+", default=[], help="base estimators; stacks of those that are there follow")
    parser.add_argument("--repeats", type=int, default=1, help="cross-fits of each, with stacks of their means")
    parser.add_argument("--scores", type=Path, default=Path("base_estimators_scores"))
    parser.add_argument("--out", type=Path, default=Path("base_estimators.csv"))
    parser.add_argument("--page", type=Path, help="write the page of the committed results, run nothing")
    options = parser.parse_args()
    if options.page is not None:
        options.page.write_text(page(RESULTS))
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for split in options.splits:
        for name in options.tables:
            run(Split(name, options.rows, split, options.scores), options)


def run(split: Split, options: argparse.Namespace) -> None:
    """Write the lines that a file does not have yet."""
    own = options.base or [*FREE, *CANDIDATES, *MORE]
    wanted: dict[str, tuple[str, ...]] = dict.fromkeys(own, ())
    wanted |= {name: members for name, members in stacks().items() if {*members} <= {*own}}
    for repeats in range(2, options.repeats + 1):
        again = {name: f"{name}*{repeats}" for name in CHEAP}
        for stack in ("stack +catboost-light-depth5", "stack of cheap ones +catboost-light-depth5"):
            members = stacks()[stack]
            if {*members} <= {*own}:
                wanted[f"{stack}, cross-fits: {repeats}"] = tuple(again.get(name, name) for name in members)
    done = set()
    if options.out.exists():
        kept = pd.read_csv(options.out)
        kept = kept[(kept["table"] == split.name) & (kept["rows"] == len(split.table.labels))]
        done = set(kept.loc[kept["split"] == split.split, "method"])
    for method, members in wanted.items():
        if method in done:
            continue
        line = split.line(method, members)
        new = not options.out.exists()
        with options.out.open("a", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(line)
    print(f"{split.name} {split.split}: done", flush=True)


if __name__ == "__main__":
    main()
