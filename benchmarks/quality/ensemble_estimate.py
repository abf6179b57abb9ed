"""Is `estimated_cost_` of an ensemble right? Drawn data with a known law: its bias, and how often its interval holds.

Each draw has 1,000 samples of a logistic law with interactions, and a false negative costs as much as five false
positives. The truth is the expected cost of the fitted classifier on 50,000 fresh samples, by the law's own
probabilities. ``single`` is the same of the stack on the models of one fold alone, of which the held-out scores come:
what averaging the folds' models saves.

    python -m benchmarks.quality.ensemble_estimate --draws 200 --n-jobs 2 --json OUT.json
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import joblib
import numpy as np
import pandas as pd

from benchmarks.harness import metadata

ROWS, FRESH, FEATURES = 1_000, 50_000, 8
FP, FN = 1.0, 5.0
BIAS, COVERAGE = 0.02, (0.93, 0.97)
"""The bars: bias of the estimate, as a share of the true cost; how often a 95 % interval holds the truth."""

AVERAGING = ("learners.sklearn", "learners.boosting", "neural.model")
"""Modules of learners that average the models of the folds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--n-jobs", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--json", type=Path, default=None, help="write result and metadata to this file")
    parser.add_argument("--csv", type=Path, default=None, help="write a line per draw to this file")
    args = parser.parse_args()
    seeds = range(args.first, args.first + args.draws)
    draws = pd.DataFrame(joblib.Parallel(args.n_jobs)(joblib.delayed(one_draw)(seed, args.rows) for seed in seeds))
    if args.csv is not None:
        draws.to_csv(args.csv, index=False)
    result = summary(draws)
    print(json.dumps(result, indent=2))
    if args.json is not None:
        info = {"title": "the estimated cost of an ensemble against its true cost", **metadata()}
        args.json.write_text(json.dumps({**info, "rows": args.rows, **result}, indent=2) + "\n")
    return int(not result["met"])


def one_draw(seed: int, rows: int) -> dict[str, float]:
    """Fit an ensemble to drawn samples; return its estimate and the truth."""
    import torch  # noqa: PLC0415  in the worker

    from adacsl import CostMatrix, CostSensitiveClassifier, EnsembleClassifier  # noqa: PLC0415
    from adacsl.learners.boosting import BoostingLearner  # noqa: PLC0415
    from adacsl.neural.learner import NeuralLearner  # noqa: PLC0415

    torch.set_num_threads(1)
    members: list[Any] = [
        "logistic",
        (
            "lightgbm",
            CostSensitiveClassifier(
                learner=BoostingLearner("lightgbm", n_estimators=60, patience=15), select="log-loss"
            ),
        ),
        ("net", CostSensitiveClassifier(learner=NeuralLearner(epochs=10), select="log-loss")),
    ]
    rng = np.random.default_rng(seed)
    X, chances = law(rng, rows)
    y = (rng.random(rows) < chances).astype(int)
    clf = EnsembleClassifier(CostMatrix(fp=FP, fn=FN), estimators=members, n_jobs=1, random_state=seed).fit(X, y)
    fresh, fresh_chances = law(np.random.default_rng(10**6 + seed), FRESH)
    members_logits = [fold_logits(model, fresh) for model in clf.model_.models]  # members x folds x rows
    stack = clf.model_.stack
    whole = stack.logits(np.stack([np.mean(own, axis=0) for own in members_logits], axis=1))
    single = [stack.logits(np.stack(own, axis=1)) for own in zip(*members_logits, strict=True)]
    shown = clf.estimated_cost_
    return {
        "seed": seed, "estimate": shown.estimate, "low": shown.low, "high": shown.high,
        "truth": true_cost(whole, fresh_chances),
        "single": float(np.mean([true_cost(own, fresh_chances) for own in single])),
    }  # fmt: skip


def law(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Return samples and their chances to be positive; a quarter is."""
    X = rng.normal(size=(n, FEATURES))
    z = -1.6 + X[:, 0] + 0.8 * X[:, 1] * X[:, 2] + 0.6 * np.abs(X[:, 3]) - 0.5 * X[:, 4] * (X[:, 0] > 0)
    return X, 1.0 / (1.0 + np.exp(-z))


def true_cost(logits: Any, chances: Any) -> float:
    """Return the expected cost of decisions at the Bayes threshold."""
    positive = logits > np.log(FP / FN)
    return float(np.mean(np.where(positive, (1.0 - chances) * FP, chances * FN)))


def fold_logits(model: Any, X: Any) -> list[Any]:
    """Return the log-odds of each fold's model of a member, which otherwise only their mean shows."""
    parts: list[Any] = []

    def keep(own: Any) -> Any:
        parts.extend(np.asarray(part, np.float64) for part in own)
        return np.mean(parts, axis=0)

    with contextlib.ExitStack() as patches:
        for name in AVERAGING:
            module = importlib.import_module(f"adacsl.{name}")
            patches.enter_context(mock.patch.object(module, "mean_logits", keep))
        model.logits(X)
    return parts


def summary(draws: pd.DataFrame) -> dict[str, Any]:
    """Return bias and coverage with their standard errors, and whether the bars are met."""
    truth = draws["truth"]
    off = (draws["estimate"] - truth) / truth.mean()
    holds = (draws["low"] <= truth) & (truth <= draws["high"])
    bias, coverage = float(off.mean()), float(holds.mean())
    return {
        "draws": len(draws), "true_cost": float(truth.mean()), "estimated_cost": float(draws["estimate"].mean()),
        "bias": bias, "bias_se": float(off.std() / np.sqrt(len(draws))), "bias_bar": BIAS,
        "of_averaging": float((draws["single"] - truth).mean() / truth.mean()),
        "of_the_rest": float((draws["estimate"] - draws["single"]).mean() / truth.mean()),
        "coverage": coverage, "coverage_se": float(np.sqrt(coverage * (1 - coverage) / len(draws))),
        "coverage_bar": list(COVERAGE),
        "too_low": float((truth > draws["high"]).mean()), "too_high": float((truth < draws["low"]).mean()),
        "spread": float(off.std()),
        "half_width": float(((draws["high"] - draws["low"]) / 2 / truth.mean()).mean()),
        "met": abs(bias) <= BIAS and COVERAGE[0] <= coverage <= COVERAGE[1],
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
