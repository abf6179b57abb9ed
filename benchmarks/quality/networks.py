"""Test cost and log loss of the RealMLP beside the default network, by itself and among the base estimators of a stack.

Every base estimator is cross-fitted once per table and split, with plain log loss; its out-of-fold and test scores lie
in ``--scores`` and are computed once. From them follow the costs of the base estimators (Bayes threshold) and of
every stack at every k: costs are those of ``CostMatrix.balanced(labels, factor=k)``. ``adacsl-cv``, whose training
depends on the costs, is fitted for one k with each network.

    python -m benchmarks.quality.networks --part development --out benchmarks/results/networks.csv
    python -m benchmarks.quality.networks --part confirmation --out benchmarks/results/networks.csv
    python -m benchmarks.quality.networks --show benchmarks/results/networks.csv

The development tables and splits are for choices (by out-of-fold log loss); the confirmation tables and splits were
used for none. Both skip the lines a file has, so that an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import hashlib
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split

from adacsl import CostMatrix, CostSensitiveClassifier, method
from adacsl.costs.instance import bayes_log_odds
from adacsl.ensemble.base_estimators import named_estimator
from adacsl.ensemble.stacking import stack_estimators
from adacsl.neural import NeuralLearner
from benchmarks.image_data import data_folder
from benchmarks.quality.peer_data import Table, load_table

PARTS: Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "development": (("german_credit", "telco_churn", "bank_marketing", "breast_cancer"), (200, 201)),
    "confirmation": (
        ("adult", "marketing_campaign", "churn_tv_subscriptions", "give_me_some_credit", "ann_thyroid"),
        (210, 211),
    ),
}
DEFAULT = ("logistic", "lightgbm", "lightgbm-shallow", "xgboost", "net", "net-bins", "catboost")
BASE = (*DEFAULT, "mlp", "realmlp", "realmlp-2", "extra-trees", "lightgbm-soft")
STACKS: Mapping[str, tuple[str, ...]] = {
    "stack": DEFAULT,
    "stack +realmlp": (*DEFAULT, "realmlp"),
    "stack realmlp for net": tuple("realmlp" if name == "net" else name for name in DEFAULT),
    "stack realmlp for net, net-bins": (*(name for name in DEFAULT if name not in ("net", "net-bins")), "realmlp"),
    "stack +realmlp +extra-trees": (*DEFAULT, "realmlp", "extra-trees"),
    "stack +realmlp +lightgbm-soft": (*DEFAULT, "realmlp", "lightgbm-soft"),
    "stack +realmlp +realmlp-2": (*DEFAULT, "realmlp", "realmlp-2"),
    "stack +extra-trees": (*DEFAULT, "extra-trees"),
    "stack without catboost": tuple(name for name in DEFAULT if name != "catboost"),
}
ADAPTED = {"adacsl-cv": "net", "adacsl-cv realmlp": "realmlp"}
KS = (1.0, 5.0)
ADAPTED_KS = (5.0,)
"""Of ``adacsl-cv``, whose networks are trained again for each."""
COLUMNS = ("part", "table", "split", "k", "method", "oof_log_loss", "log_loss", "normalized_cost", "seconds", "date")


def read_table(name: str, max_rows: int) -> Table:
    """Return a table of the benchmark, or scikit-learn's breast cancer, where malignant is positive."""
    if name == "breast_cancer":
        bunch = load_breast_cancer(as_frame=True)
        return Table(bunch.data, 1 - bunch.target.to_numpy(np.int64))
    return load_table(name, data_folder(), max_rows)


def base_estimator(name: str) -> CostSensitiveClassifier:
    """Return an unfitted base estimator, selected by log loss."""
    if name != "mlp" and not name.startswith("realmlp"):
        return named_estimator(name)
    # "mlp" is the network of adacsl-cv, with its usual epochs; "net", that of the ensemble, trains fewer
    learner = NeuralLearner() if name == "mlp" else NeuralLearner("realmlp")
    made: CostSensitiveClassifier = CostSensitiveClassifier(learner=learner, select="log-loss")
    return made


class Split:
    """One split of one table: 30 % are the test samples, the others are cross-fitted in five folds."""

    def __init__(self, part: str, name: str, split: int, options: argparse.Namespace) -> None:
        self.part, self.name, self.split, self.options = part, name, split, options
        self.table = read_table(name, options.max_rows)
        y = self.table.labels
        self.train, self.test = train_test_split(np.arange(len(y)), test_size=0.3, stratify=y, random_state=split)
        folds = StratifiedKFold(5, shuffle=True, random_state=split)
        self.folds = list(folds.split(self.train, y[self.train]))
        self.y, self.y_test = y[self.train], y[self.test]

    def costs(self, k: float) -> CostMatrix:
        """Return the costs of the training labels."""
        return CostMatrix.balanced(self.y, factor=k)

    def scores(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return out-of-fold and test log-odds of a base estimator, and its processor seconds; fit it only once."""
        X = self.table.features
        about = f"{name} {self.options.max_rows} {X.shape} {self.split}"
        key = hashlib.sha256(about.encode()).hexdigest()[:12]
        path = Path(self.options.scores) / f"{self.name}-{self.split}-{name}-{key}.npz"
        if path.exists():
            with np.load(path) as kept:
                return kept["oof"], kept["test"], float(kept["seconds"])
        start = time.process_time()
        seed = self.split + 1000 * name.endswith("-2")
        clf = base_estimator(name).set_params(costs=self.costs(1.0), cv=self.folds, random_state=seed, device="cpu")
        clf.fit(X.iloc[self.train], self.y)
        seconds = time.process_time() - start
        own = np.clip(clf.oof_scores_, 1e-12, 1.0 - 1e-12)
        oof, test = np.log(own / (1.0 - own)), clf.model_.logits(X.iloc[self.test])
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, oof=oof, test=test, seconds=seconds)
        return oof, test, seconds

    def lines(self, done: set[tuple[str, ...]]) -> list[dict[str, Any]]:
        """Return the lines that are missing."""
        lines = []
        for name in self.options.base:
            wanted = [k for k in KS if self._key(k, name) not in done]
            if wanted:
                oof, test, seconds = self.scores(name)
                lines += [self._line(k, name, oof, test, seconds) for k in wanted]
        for name, members in STACKS.items():
            if set(members) <= set(self.options.base):
                lines += [self._stacked(k, name, members) for k in KS if self._key(k, name) not in done]
        for name, module in ADAPTED.items():
            if self.options.adapted:
                lines += [self._adapted(k, name, module) for k in ADAPTED_KS if self._key(k, name) not in done]
        return lines

    def _stacked(self, k: float, name: str, members: tuple[str, ...]) -> dict[str, Any]:
        parts = [self.scores(member) for member in members]
        oof, test = (np.stack([part[i] for part in parts], axis=1) for i in (0, 1))
        cut = float(bayes_log_odds(self.costs(k)))
        stack, nested = stack_estimators(oof, self.y, cut=cut, seed=self.split, strength="auto")
        return self._line(k, name, nested, stack.logits(test), sum(part[2] for part in parts))

    def _adapted(self, k: float, name: str, module: str) -> dict[str, Any]:
        X = self.table.features
        learner = NeuralLearner() if module == "net" else NeuralLearner(module)
        start = time.process_time()
        clf = method(
            "adacsl-cv", self.costs(k), learner=learner, cv=self.folds, random_state=self.split, device="cpu"
        ).fit(X.iloc[self.train], self.y)
        seconds = time.process_time() - start
        decided = clf.predict(X.iloc[self.test])
        proba = clf.predict_proba(X.iloc[self.test])[:, 1]
        cost = self.costs(k).normalized(self.y_test, decided)
        return self._row(k, name, np.nan, log_loss(self.y_test, proba), cost, seconds)

    def _line(
        self, k: float, name: str, oof: NDArray[np.float64], test: NDArray[np.float64], seconds: float
    ) -> dict[str, Any]:
        costs, known = self.costs(k), np.isfinite(oof)
        decided = (test > float(bayes_log_odds(costs))).astype(np.int64)
        out_of_fold, loss = (
            float(np.mean(np.logaddexp(0.0, np.where(y == 1, -z, z))))
            for y, z in ((self.y[known], oof[known]), (self.y_test, test))
        )
        return self._row(k, name, out_of_fold, loss, costs.normalized(self.y_test, decided), seconds)

    def _row(self, k: float, name: str, oof: float, loss: float, cost: float, seconds: float) -> dict[str, Any]:
        return {
            "part": self.part, "table": self.name, "split": self.split, "k": k, "method": name,
            "oof_log_loss": round(float(oof), 5), "log_loss": round(float(loss), 5),
            "normalized_cost": round(float(cost), 5), "seconds": round(seconds, 1), "date": datetime.date.today(),
        }  # fmt: skip

    def _key(self, k: float, name: str) -> tuple[str, ...]:
        return self.part, self.name, str(self.split), str(k), name


def show(path: Path) -> None:
    """Print ratios of log loss and cost: where the new network loses first, then geometric means."""
    frame = pd.read_csv(path)
    pairs = [("realmlp", "mlp"), ("adacsl-cv realmlp", "adacsl-cv")]
    pairs += [(name, "stack") for name in STACKS if name != "stack"]
    for part, own in frame.groupby("part"):
        wide = own.pivot_table(index=["table", "split", "k"], columns="method", values=["normalized_cost", "log_loss"])
        oof = own.pivot_table(index=["table", "split", "k"], columns="method", values="oof_log_loss")
        print(f"\n{part}: geometric mean of ratios, worst, share of rows with a lower cost, 95 % interval over tables")
        for name, other in pairs:
            if ("normalized_cost", name) not in wide or ("normalized_cost", other) not in wide:
                continue
            both = wide["normalized_cost"][[name, other]].clip(lower=1e-3)
            cost = (both[name] / both[other]).map(np.log).dropna()
            loss = np.log(wide["log_loss", name] / wide["log_loss", other])
            by_table = cost.groupby("table").mean()
            rng = np.random.default_rng(0)
            means = rng.choice(by_table.to_numpy(), (4000, len(by_table))).mean(axis=1)
            low, high = np.exp(np.percentile(means, [2.5, 97.5]))
            found = np.exp(np.log(oof[name] / oof[other]).mean()) if name in oof and other in oof else np.nan
            print(
                f"{name:34s} / {other:10s} cost {np.exp(cost.mean()):.3f} [{low:.3f}, {high:.3f}]"
                f" worst {np.exp(cost.max()):.3f} at {cost.idxmax()}, lower {(cost < 0).mean():.2f},"
                f" log loss {np.exp(loss.mean()):.3f}, out of fold {found:.3f}"
            )
            losing = by_table[by_table > 0].sort_values(ascending=False)
            print("    loses on: " + (", ".join(f"{t} {np.exp(v):.3f}" for t, v in losing.items()) or "no table"))


def main() -> None:
    options = parse()
    if options.show is not None:
        show(options.show)
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    done: set[tuple[str, ...]] = set()
    if options.out.exists():
        kept = pd.read_csv(options.out, dtype=str)
        done = {tuple(row) for row in kept[list(COLUMNS[:5])].itertuples(index=False)}
    tables, splits = PARTS[options.part]
    for split in options.splits or splits:
        for name in options.tables or tables:
            lines = Split(options.part, name, split, options).lines(done)
            new = not options.out.exists()
            with options.out.open("a", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                if new:
                    writer.writeheader()
                writer.writerows(lines)
            print(f"{name} {split}: {len(lines)} lines", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, default="development")
    parser.add_argument("--tables", nargs="+", help="instead of the part's own")
    parser.add_argument("--splits", type=int, nargs="+", help="instead of the part's own")
    parser.add_argument("--base", nargs="+", choices=BASE, default=list(BASE), help="base estimators")
    parser.add_argument("--adapted", action=argparse.BooleanOptionalAction, default=True, help="adacsl-cv too")
    parser.add_argument("--max-rows", type=int, default=2000)
    parser.add_argument("--scores", default="networks_scores", help="folder of the scores of the base estimators")
    parser.add_argument("--out", type=Path, default=Path("networks.csv"))
    parser.add_argument("--show", type=Path, metavar="CSV", help="print the ratios of a file, run nothing")
    return parser.parse_args()


if __name__ == "__main__":
    main()
