"""How honest is what a fit says about its own cost? Compare it with the cost on 20,000 new rows, 20 times.

python examples/estimated_cost.py

Data are drawn from a known law (1,000 rows, 8 features, about one positive in six; fp=1, fn=8). A ratio above 1 says
that the figure was too high. "Inside": how often the 95 % interval of estimated_cost_ held the cost on new rows.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch

from adacsl import AdaCSLClassifier, CostMatrix

COSTS = CostMatrix(fp=1, fn=8)
DRAWS = 20
SETTINGS = {
    "one split": {},
    "cv=5": {"cv": 5},
    "cv=5, decide='tuned'": {"cv": 5, "decide": "tuned"},
    "cv=5, target='auto'": {"cv": 5, "target": "auto"},
}


def draw(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    p = 1 / (1 + np.exp(-(2 * X[:, 0] + 2 * X[:, 1] * X[:, 2] - 3)))
    return X, (rng.random(n) < p).astype(int)


def main() -> None:
    torch.set_num_threads(1)  # a small net: threads only get in each other's way
    start = time.perf_counter()
    new = draw(20_000, seed=10**6)
    print(f"{'':22} {'estimate':>9} {'inside':>7} {'lowest val_cost':>16} {'cost on new rows':>17}")
    for name, settings in SETTINGS.items():
        rows = []
        for seed in range(DRAWS):
            clf = AdaCSLClassifier(COSTS, random_state=seed, **settings).fit(*draw(1000, seed))
            cost, said = -clf.score(*new), clf.estimated_cost_
            kept = clf.history_.query("target == @clf.target_ and adapted == @clf.adapted_")
            lowest = kept.groupby("fold")["val_cost"].min().mean()
            rows.append((said.estimate / cost, said.low <= cost <= said.high, lowest / cost, cost))
        ratio, inside, lowest, cost = (statistics.mean(column) for column in zip(*rows, strict=True))
        print(f"{name:22} {ratio:9.2f} {inside:7.0%} {lowest:16.2f} {cost:17.3f}")
    print(f"ratios to the cost on new rows, means of {DRAWS} draws; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
