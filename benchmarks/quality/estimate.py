"""Is `estimated_cost_` right? Drawn data of three laws: its bias, and how often its interval contains the true cost.

Cross-fits of networks and scikit-learn classifiers; tuned boosters, refitted on all samples or cross-fitted.

Each draw has 1,000 samples, and a false negative costs as much as five false positives. The truth is the expected cost
of the fitted classifier on 20,000 fresh samples, by the law's own probabilities. ``single_bias`` is what the held-out
cost of single models is off by: they, and not their average, have scored the samples.

    python -m benchmarks.quality.estimate --draws 200 --n-jobs 16 --json benchmarks/results/cpu_estimate.json
    python -m benchmarks.quality.estimate --show benchmarks/results/cpu_estimate.json
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

from adacsl.learners import SklearnLearner
from adacsl.neural import NeuralLearner
from benchmarks.harness import metadata

ROWS, FRESH, FEATURES = 1_000, 20_000, 8
FP, FN = 1.0, 5.0
BIAS, COVERAGE = 0.02, (0.93, 0.97)
"""The bars: bias of the estimate, as a share of the true cost; how often a 95 % interval holds the truth."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--laws", nargs="+", choices=list(LAWS), default=list(LAWS))
    parser.add_argument("--learners", nargs="+", choices=list(LEARNERS), default=list(LEARNERS))
    parser.add_argument("--n-jobs", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--json", type=Path, default=None, help="write result and metadata to this file")
    parser.add_argument("--csv", type=Path, default=None, help="write a line per draw to this file")
    parser.add_argument("--show", type=Path, default=None, help="print the table of such a file")
    parser.add_argument("--join", type=Path, nargs="+", default=[], help="summarise draws that --csv has written")
    args = parser.parse_args()
    if args.show is not None:
        print(table(json.loads(args.show.read_text())))
        return 0
    todo = [
        (law, learner, seed, args.rows)
        for seed in range(args.first, args.first + args.draws)
        for law in args.laws
        for learner in args.learners
    ]
    if args.join:
        result = pd.concat([pd.read_csv(path) for path in args.join]).drop_duplicates(["law", "learner", "seed"])
    else:
        result = pd.DataFrame(joblib.Parallel(args.n_jobs)(joblib.delayed(one_draw)(*each) for each in todo))
    if args.csv is not None:
        result.to_csv(args.csv, index=False)
    results: dict[str, Any] = {}
    for (learner, law), some in result.groupby(["learner", "law"], sort=False):
        results.setdefault(str(learner), {})[str(law)] = summary(some)
    info = {"title": "the estimated cost of a cross-fit against its true cost", **metadata()}
    bars = {"bias_bar": BIAS, "coverage_bar": list(COVERAGE)}
    document = {**info, "rows": args.rows, **bars, "results": results}
    print(table(document))
    if args.json is not None:
        args.json.write_text(json.dumps(document, indent=2) + "\n")
    return int(not all(one["met"] for laws in results.values() for one in laws.values()))


def table(document: dict[str, Any]) -> str:
    """Return bias and coverage as Markdown."""
    lines = ["| learner | law | draws | bias, estimate | bias, single models | 95 % interval held | half width |"]
    lines += ["|---" * 7 + "|"]
    for learner, laws in document["results"].items():
        for law, one in laws.items():
            bias, single, width = (f"{100 * one[name]:.1f} %" for name in ("bias", "single_bias", "half_width"))
            held = f"{100 * one['coverage']:.0f} % (se {100 * one['coverage_se']:.0f})"
            bias += f" (se {100 * one['bias_se']:.1f})"
            lines.append(f"| {learner} | {law} | {one['draws']} | {bias} | {single} | {held} | {width} |")
    return "\n".join(lines)


def one_draw(law: str, learner: str, seed: int, n: int) -> dict[str, Any]:
    """Cross-fit drawn samples; return the estimate and the truth."""
    import torch  # noqa: PLC0415  in the worker

    from adacsl import CostMatrix  # noqa: PLC0415

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([seed, list(LAWS).index(law)])
    X, chances = draw(law, rng, n)
    y = (rng.random(n) < chances).astype(int)
    fresh, fresh_chances = draw(law, rng, FRESH)
    costs, start = CostMatrix(fp=FP, fn=FN), time.perf_counter()
    clf = LEARNERS[learner](costs, seed).fit(X, y)
    seconds, shown = time.perf_counter() - start, clf.estimated_cost_
    positive = clf.predict(fresh) == 1
    return {
        "law": law, "learner": learner, "seed": seed, "seconds": seconds,
        "truth": float(np.mean(np.where(positive, (1.0 - fresh_chances) * FP, fresh_chances * FN))),
        "estimate": shown.estimate, "low": shown.low, "high": shown.high,
        "single": costs.mean(y, clf.decision_.predict(clf.oof_scores_)),
    }  # fmt: skip


def adapted_networks(costs: Any, seed: int) -> Any:
    """Return networks of fifteen epochs, cross-fitted and adapted."""
    from adacsl import AdaCSLClassifier  # noqa: PLC0415

    return AdaCSLClassifier(costs, learner=NeuralLearner(epochs=15), cv=5, device="cpu", random_state=seed)


def calibrated_networks(costs: Any, seed: int) -> Any:
    """Return the same, decided on calibrated scores."""
    return adapted_networks(costs, seed).set_params(decide="calibrated")


def adapted_trees(costs: Any, seed: int) -> Any:
    """Return single trees, which averaging helps most, cross-fitted and adapted."""
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415

    from adacsl import AdaCSLClassifier  # noqa: PLC0415

    return AdaCSLClassifier(
        costs,
        learner=SklearnLearner(DecisionTreeClassifier(min_samples_leaf=20), encode=False),
        cv=5,
        random_state=seed,
        decide="bayes",
    )


def adapted_regression(costs: Any, seed: int) -> Any:
    """Return logistic regressions, which averaging hardly helps, cross-fitted and adapted."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    from adacsl import AdaCSLClassifier  # noqa: PLC0415

    return AdaCSLClassifier(
        costs, learner=SklearnLearner(LogisticRegression(), encode=False), cv=5, random_state=seed, decide="bayes"
    )


def booster(costs: Any, seed: int, backend: str, **settings: Any) -> Any:
    """Return a booster that is refitted on all samples, unless ``cv`` is given; default: the threshold is tuned."""
    from adacsl import CostSensitiveClassifier  # noqa: PLC0415

    return CostSensitiveClassifier(costs, learner=backend, random_state=seed, **({"decide": "tuned"} | settings))


LEARNERS = {
    "networks": adapted_networks,
    "networks, calibrated": calibrated_networks,
    "logistic": adapted_regression,
    "trees": adapted_trees,
    "XGBoost, Bayes": functools.partial(booster, engine="xgboost", decide="bayes", select="log-loss"),
    "XGBoost, tuned": functools.partial(booster, engine="xgboost", select="log-loss"),
    "LightGBM, tuned": functools.partial(booster, engine="lightgbm", select="log-loss"),
    "XGBoost, tuned, by cost": functools.partial(booster, engine="xgboost"),
    "LightGBM, tuned, by cost": functools.partial(booster, engine="lightgbm"),
    "XGBoost, tuned, cv=5": functools.partial(booster, engine="xgboost", select="log-loss", cv=5),
}
"""By cost: of each fold the round that costs least on it is kept (``select="best"``), else that of least log loss."""


def draw(law: str, rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Return samples and their chances to be positive."""
    X = rng.normal(size=(n, FEATURES))
    return X, 1.0 / (1.0 + np.exp(-LAWS[law](X)))


LAWS = {
    # a quarter is positive; interactions
    "bent": lambda X: -1.6 + X[:, 0] + 0.8 * X[:, 1] * X[:, 2] + 0.6 * np.abs(X[:, 3]) - 0.5 * X[:, 4] * (X[:, 0] > 0),
    # one in eight is positive; nothing but a weighted sum
    "linear": lambda X: -2.6 + X @ np.asarray([1.2, -0.8, 0.6, 0.4, 0.0, 0.0, 0.0, 0.0]),
    # two clear regions, and a fifth of the labels are chance
    "regions": lambda X: np.where((X[:, 0] * X[:, 1] > 0.3) & (X[:, 2] > -0.5), 1.4, -2.2),
}
"""Log-odds of the positive class."""


def summary(draws: pd.DataFrame) -> dict[str, Any]:
    """Return bias and coverage with their standard errors, and whether the bars are met."""
    truth = draws["truth"]
    off, single = ((draws[name] - truth) / truth.mean() for name in ("estimate", "single"))
    holds = (draws["low"] <= truth) & (truth <= draws["high"])
    bias, coverage = float(off.mean()), float(holds.mean())
    return {
        "draws": len(draws), "true_cost": float(truth.mean()), "estimated_cost": float(draws["estimate"].mean()),
        "bias": bias, "bias_se": float(off.std() / np.sqrt(len(draws))), "single_bias": float(single.mean()),
        "coverage": coverage, "coverage_se": float(np.sqrt(coverage * (1 - coverage) / len(draws))),
        "too_low": float((truth > draws["high"]).mean()), "too_high": float((truth < draws["low"]).mean()),
        "spread": float(off.std()), "single_spread": float(single.std()),
        "half_width": float(((draws["high"] - draws["low"]) / 2 / truth.mean()).mean()),
        "seconds": float(draws["seconds"].median()),
        "met": abs(bias) <= BIAS and COVERAGE[0] <= coverage <= COVERAGE[1],
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
