r"""Constraints with confidence: how often they are violated on new data, and what they cost, beside MAPIE.

Scores are drawn from three laws whose recall, precision, FPR and positive rate at a threshold are known. Each draw asks
``find_threshold`` for the cost-optimal threshold under a constraint with confidence 95 %; a draw counts as violated
where the law's own value at that threshold violates the constraint (an infeasible draw has no threshold, and is not).
MAPIE's ``BinaryClassificationController`` gets the same scores; its threshold is the one of least cost among those it
certifies, so that only the certificates differ. Costs are the law's own, per sample, of draws where both have a
threshold.

    python -m benchmarks.quality.constraints --draws 1000 --mapie-draws 300 \
        --json benchmarks/results/cpu_constraints.json

``--folder`` is one that holds MAPIE (``pip install --target FOLDER --no-deps mapie``), where it is not installed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

from adacsl import CostMatrix, find_threshold
from adacsl.thresholds.constraints import InfeasibleError
from benchmarks.harness import arguments, metadata

SEED, CONFIDENCE = 20261119, 0.95
COSTS = CostMatrix(fp=1, fn=2)
SIZES = (200, 1000, 5000)
CONSTRAINTS: dict[str, dict[str, float]] = {
    "recall": {"min_recall": 0.9},
    "precision": {"min_precision": 0.6},
    "FPR": {"max_fpr": 0.1},
    "positive rate": {"max_positive_rate": 0.2},
    "recall and FPR": {"min_recall": 0.7, "max_fpr": 0.25},
    "recall and precision": {"min_recall": 0.7, "min_precision": 0.4},
}
THEIRS = {
    "min_recall": "recall", "min_precision": "precision", "max_fpr": "fpr",
    "max_positive_rate": "predicted_positive_fraction",
}  # fmt: skip


@dataclass(frozen=True)
class Law:
    """Normal scores of two classes as log-odds, stretched, and rounded to some digits."""

    prior: float
    distance: float
    stretch: float = 1.0
    digits: int | None = None

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Return scores and labels."""
        labels = (rng.random(n) < self.prior).astype(np.int64)
        scores = self._scores(rng.normal(self.distance * labels, 1.0))
        return (scores if self.digits is None else np.round(scores, self.digits)), labels

    def values(self, threshold: float) -> dict[str, float]:
        """Return the true value of each measure, and the mean cost, of ``score > threshold``."""
        border = threshold
        if self.digits is not None:  # the least score that is rounded to above the threshold
            parts = 10**self.digits
            place = int(threshold * parts) - 1
            while place / parts <= threshold:
                place += 1
            border = (place - 0.5) / parts
        fpr, recall = (float(norm.sf(self._place(border) - mean)) for mean in (0.0, self.distance))
        rate = self.prior * recall + (1.0 - self.prior) * fpr
        cost = COSTS.fn * self.prior * (1.0 - recall) + COSTS.fp * (1.0 - self.prior) * fpr
        precision = self.prior * recall / rate if rate else 0.0
        return {
            "min_recall": recall, "min_precision": precision, "max_fpr": fpr, "max_positive_rate": rate, "cost": cost
        }  # fmt: skip

    def _scores(self, z: Any) -> Any:
        return expit(self.stretch * (self.distance * (z - self.distance / 2.0) + logit(self.prior)))

    def _place(self, score: float) -> float:
        if not 0.0 < score < 1.0:
            return -np.inf if score <= 0.0 else np.inf
        return float((logit(score) / self.stretch - logit(self.prior)) / self.distance + self.distance / 2.0)


LAWS = {
    "calibrated": Law(0.3, 1.8),
    "rare, overconfident": Law(0.1, 2.2, stretch=2.0),
    "two digits": Law(0.3, 1.8, digits=2),
}


def ours(scores: Any, labels: Any, limits: dict[str, float]) -> float | None:
    """Return our threshold, None where there is none."""
    try:
        return find_threshold(scores, labels, COSTS, confidence=CONFIDENCE, **limits).value
    except InfeasibleError:
        return None


def mapie(folder: str | None) -> Callable[[Any, Any, dict[str, float]], float | None] | None:
    """Return a function like :func:`ours` of MAPIE, None where it is not installed."""
    if folder is not None:
        sys.path.append(folder)
    try:
        from mapie.risk_control import BinaryClassificationController  # type: ignore[import-not-found]  # noqa: PLC0415
    except ImportError:
        return None

    def find(scores: Any, labels: Any, limits: dict[str, float]) -> float | None:
        risks, levels = [THEIRS[name] for name in limits], list(limits.values())
        controller = BinaryClassificationController(
            lambda x: np.column_stack((1.0 - x, x)),
            risks if len(risks) > 1 else risks[0],
            levels if len(levels) > 1 else levels[0],
            confidence_level=CONFIDENCE,
            best_predict_param_choice="recall",  # any: what it certifies is used, not what it chooses
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that no threshold is certified
            controller.calibrate(scores, labels)
        valid = np.ravel(np.asarray(controller.valid_predict_params, np.float64))
        if not len(valid):
            return None
        # score >= t, as it decides; the threshold of ours just below
        decided = scores >= valid[:, None]
        costs = COSTS.fn * (~decided & (labels == 1)).sum(axis=1) + COSTS.fp * (decided & (labels == 0)).sum(axis=1)
        return float(np.nextafter(valid[int(np.argmin(costs))], -1.0))

    return find


def run(draws: int, find: Any, theirs: int) -> list[dict[str, Any]]:
    """Return one row for each law, size and constraint."""
    rows = []
    for number, (law_name, law) in enumerate(LAWS.items()):
        for n in SIZES:
            rng = np.random.default_rng((SEED, number, n))
            drawn = [law.draw(n, rng) for _ in range(draws)]
            for name, limits in CONSTRAINTS.items():
                found = [ours(scores, labels, limits) for scores, labels in drawn]
                rows.append({"law": law_name, "n": n, "constraint": name, "draws": draws} | judge(law, limits, found))
                if find is not None:
                    other = [find(scores, labels, limits) for scores, labels in drawn[:theirs]]
                    rows[-1] |= {f"mapie_{key}": value for key, value in judge(law, limits, other).items()}
                    rows[-1] |= beside(law, found[:theirs], other)
                print(rows[-1], flush=True)
    return rows


def judge(law: Law, limits: dict[str, float], thresholds: list[float | None]) -> dict[str, float]:
    """Return which share of draws has a threshold, and violates a constraint."""
    true = [None if t is None else law.values(t) for t in thresholds]
    violated = [
        values is not None
        and any(values[k] < v - 1e-12 if k.startswith("min") else values[k] > v + 1e-12 for k, v in limits.items())
        for values in true
    ]
    return {"feasible": float(np.mean([t is not None for t in true])), "violated": float(np.mean(violated))}


def beside(law: Law, own: list[float | None], other: list[float | None]) -> dict[str, float]:
    """Return the mean cost of ours over that of theirs, and the share of draws in which ours is higher."""
    pairs = [
        (law.values(a)["cost"], law.values(b)["cost"])
        for a, b in zip(own, other, strict=True)
        if a is not None and b is not None
    ]
    if not pairs:
        return {"both": 0.0}
    first, second = np.asarray(pairs).T
    return {
        "both": len(pairs) / len(own), "cost_ratio": float(first.mean() / second.mean()),
        "higher": float(np.mean(first > second * (1.0 + 1e-9))),
    }  # fmt: skip


def main() -> int:
    parser: argparse.ArgumentParser = arguments(__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--folder", default=None, help="a folder that holds MAPIE, where it is not installed")
    parser.add_argument("--mapie-draws", type=int, default=None, help="the first so many draws; default: all")
    args = parser.parse_args()
    rows = run(args.draws, mapie(args.folder), args.mapie_draws or args.draws)
    limit = 1.0 - CONFIDENCE + 2.0 * float(np.sqrt(CONFIDENCE * (1.0 - CONFIDENCE) / args.draws))
    worst = max(row["violated"] for row in rows)
    compared = [row for row in rows if "cost_ratio" in row]
    summary: dict[str, Any] = {"confidence": CONFIDENCE, "seed": SEED, "limit": limit, "worst_violated": worst}
    if compared:
        summary["mapie"] = importlib.metadata.version("mapie")
        summary["worst_cost_ratio"] = max(row["cost_ratio"] for row in compared)
        summary["higher"] = float(np.mean([row["higher"] for row in compared]))
        summary["mean_cost_ratio"] = float(np.mean([row["cost_ratio"] for row in compared]))
    print(summary)
    if args.json is not None:
        document = {"title": "constraints with confidence", **metadata(), "results": rows, **summary}
        args.json.write_text(json.dumps(document, indent=2) + "\n")
    return int(worst > limit or summary.get("mean_cost_ratio", 0.0) > 1.0)


if __name__ == "__main__":
    raise SystemExit(main())
