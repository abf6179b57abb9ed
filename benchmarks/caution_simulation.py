"""What caution does to costs where the truth is known: drawn scores that follow the weight, epoch by epoch.

A net's logit of a row is (2 y - 1) * separation + the row's difficulty + noise of the epoch, stretched, plus a bias of
the epoch, less log lambda (a heavier negative class lowers logits). The separation grows over the first eight epochs.
Costs are those of 20,000 fresh rows in the last epoch, inverse priors with misses k times dearer.

    python benchmarks/caution_simulation.py
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from adacsl import AdaptiveWeight, CostMatrix

KINDS = {
    "nearly separable": {"separation": 9.0, "rows": 1636, "positives": 452},
    "overlapping": {"separation": 1.6, "rows": 1500, "positives": 165},
}
EPOCHS, RUNS, FRESH = 15, 30, 20_000
NEVER = 1e6
"""Standard errors that nothing reaches: lambda stays 1."""


def main() -> None:
    lines = []
    for kind, settings in KINDS.items():
        for k in (1, 5):
            for name in ("T' = 0.5", "T' = T"):
                for update in ("exponential", "odds"):
                    costs = {
                        f"caution {c:g}" if c < NEVER else "not adapted": one_setting(k, name, update, c, **settings)
                        for c in (0.0, 1.0, 2.0, 3.0, NEVER)
                    }
                    lines.append({"data": kind, "k": k, "target": name, "update": update} | costs)
    print(f"mean cost in the last of {EPOCHS} epochs, {RUNS} runs, seeds 0 to {RUNS - 1}")
    print(pd.DataFrame(lines).to_string(index=False, float_format="%.4f"))


def one_setting(k: int, name: str, update: Any, caution: float, **settings: Any) -> float:
    return float(np.mean([one_run(k, name, update, caution, seed=seed, **settings) for seed in range(RUNS)]))


def one_run(
    k: int, name: str, update: Any, caution: float, *, separation: float, rows: int, positives: int, seed: int
) -> float:
    rng = np.random.default_rng(seed)
    y = (np.arange(rows) < positives).astype(int)
    fresh = (np.arange(FRESH) < FRESH * positives // rows).astype(int)
    costs = CostMatrix.balanced(y, factor=k)
    target = float(costs.threshold) if name == "T' = T" else 0.5
    controller = AdaptiveWeight(costs, target=target, update=update, caution=caution)
    offset = logit(target) - logit(float(costs.threshold))  # what the net was trained for
    difficulty, of_fresh = (1.2 * rng.logistic(size=n) for n in (rows, FRESH))
    decided = np.zeros(FRESH, dtype=int)
    for epoch in range(EPOCHS):
        progress = min(1.0, epoch / 8)
        bias = 0.7 * rng.normal() - math.log(controller.lambda_) + offset
        logits, others = (
            ((2 * labels - 1) * separation * (0.25 + 0.75 * progress) + hard + rng.normal(size=len(labels)))
            * (1.0 + progress)
            + bias
            for labels, hard in ((y, difficulty), (fresh, of_fresh))
        )
        decided = (others > logit(target)).astype(int)
        controller.step(1.0 / (1.0 + np.exp(-logits.clip(-36.0, 36.0))), y)
    return costs.mean(fresh, decided)


def logit(p: float) -> float:
    return math.log(p) - math.log1p(-p)


if __name__ == "__main__":
    main()
