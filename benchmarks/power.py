"""What an interval sees: type I error, power and coverage of the protocols, on drawn data with a known law.

Two logistic regressions decide at the Bayes threshold. Type I: both are fitted alike, on random 80 % of the training
rows each. Power: the second does not see the columns whose loss makes it about 10 % dearer (measured on fresh rows and
many fits). Old: five random 80 / 20 splits with the corrected variance of Nadeau and Bengio. New: repeated
cross-validation (``adacsl.experiments.statistics.folds``).

    python benchmarks/power.py --draws 400 --jobs 2 --json benchmarks/results/cpu_power.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from harness import metadata
from scipy import stats

from adacsl import CostMatrix
from adacsl.experiments.statistics.folds import fold_interval

COSTS, COLUMNS = CostMatrix(fp=1, fn=5), 10
SLOPES = np.asarray([1.0, -0.8, 0.7, -0.6, 0.5, 0.45, -0.4, 0.35, 0.3, 0.25])
HIDDEN = (1, 5)
"""What the dearer method does not see."""
PER_GROUP = 4


def draw(n: int, rng: Any, *, grouped: bool) -> tuple[Any, Any, Any]:
    """Return features, labels and groups; rows of a group share features and luck."""
    groups = np.arange(n) // PER_GROUP if grouped else np.arange(n)
    shared = rng.standard_normal((groups.max() + 1, COLUMNS + 1))[groups]
    own = rng.standard_normal((n, COLUMNS + 1))
    mixed = (0.9 * shared + np.sqrt(1 - 0.81) * own) if grouped else own
    x = mixed[:, :COLUMNS]
    return x, ((x @ SLOPES - 1.2 + 1.5 * mixed[:, -1]) > stats.logistic.ppf(rng.random(n))).astype(np.int64), groups


def fitted(x: Any, y: Any) -> Any:
    """Return a logistic regression with a little ridge, by Newton's method."""
    a = np.column_stack((np.ones(len(x)), x))
    w = np.zeros(a.shape[1])
    for _ in range(8):
        p = 1.0 / (1.0 + np.exp(-a @ w))
        w -= np.linalg.solve((a * (p * (1 - p))[:, None]).T @ a + 0.5 * np.eye(len(w)), a.T @ (p - y) + 0.5 * w)
    return w


def decided(w: Any, x: Any) -> Any:
    return (w[0] + x @ w[1:] > np.log(COSTS.threshold / (1 - COSTS.threshold))).astype(np.int64)


def method(x: Any, y: Any, new: Any, rng: Any, *, dearer: bool) -> Any:
    """Fit on random 80 % of the rows; return the decisions about others."""
    picked = rng.permutation(len(x))[: int(0.8 * len(x))]
    seen = np.delete(np.arange(COLUMNS), HIDDEN) if dearer else np.arange(COLUMNS)
    return decided(fitted(x[picked][:, seen], y[picked]), new[:, seen])


def difference(x: Any, y: Any, train: Any, test: Any, rng: Any, *, dearer: bool) -> Any:
    """Return by how much the second method is dearer on each test row."""
    costs = [COSTS.incurred(y[test], method(x[train], y[train], x[test], rng, dearer=own)) for own in (dearer, False)]
    return costs[0] - costs[1]


def cut(groups: Any, parts: int, rng: Any) -> Any:
    """Return the fold of each row; groups stay together."""
    return (rng.permutation(groups.max() + 1) % parts)[groups]


def old_interval(x: Any, y: Any, groups: Any, rng: Any, *, dearer: bool) -> tuple[float, float, float]:
    found, share = [], 0.25
    for _ in range(5):
        test = cut(groups, 5, rng) == 0
        found.append(difference(x, y, ~test, test, rng, dearer=dearer).mean())
    half = stats.t.ppf(0.975, 4) * np.sqrt((1 / 5 + share) * np.var(found, ddof=1))
    return float(np.mean(found)), float(np.mean(found) - half), float(np.mean(found) + half)


def new_interval(x: Any, y: Any, groups: Any, rng: Any, *, dearer: bool, repeats: int) -> tuple[float, float, float]:
    folds = np.stack([cut(groups, 5, rng) for _ in range(repeats)])
    d = np.zeros(folds.shape)
    for r, own in enumerate(folds):
        for fold in range(5):
            d[r, own == fold] = difference(x, y, own != fold, own == fold, rng, dearer=dearer)
    fits = folds + 5 * np.arange(repeats)[:, None]
    return fold_interval(d.ravel(), fits.ravel(), np.tile(groups, repeats))


PROTOCOLS: dict[str, Any] = {
    "5 random splits, Nadeau and Bengio": old_interval,
    "2 x 5 folds": lambda *a, **k: new_interval(*a, **k, repeats=2),
    "5 x 5 folds": lambda *a, **k: new_interval(*a, **k, repeats=5),
}


def truth(n: int, *, grouped: bool, dearer: bool, fits: int = 300) -> tuple[float, float]:
    """Return the mean difference over many training sets of 80 % of n rows, and what the cheaper method costs."""
    rng = np.random.default_rng(99)
    x, y, _ = draw(100_000, rng, grouped=False)
    total = np.zeros(2)
    for _ in range(fits):
        own_x, own_y, _ = draw(int(0.8 * n), rng, grouped=grouped)
        for number, own in enumerate((dearer, False)):
            total[number] += COSTS.mean(y, method(own_x, own_y, x, rng, dearer=own))
    return float(total[0] - total[1]) / fits, float(total[1]) / fits


def trial(seed: int, n: int, *, grouped: bool, dearer: bool) -> dict[str, tuple[float, float, float]]:
    rng = np.random.default_rng(seed)
    x, y, groups = draw(n, rng, grouped=grouped)
    return {name: protocol(x, y, groups, rng, dearer=dearer) for name, protocol in PROTOCOLS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for n in options.sizes:
        for grouped in (False, True):
            for dearer in (False, True):
                true, base = truth(n, grouped=grouped, dearer=dearer) if dearer else (0.0, 1.0)
                work = joblib.delayed(trial)
                found = joblib.Parallel(options.jobs)(
                    work(seed, n, grouped=grouped, dearer=dearer) for seed in range(options.draws)
                )
                for name in PROTOCOLS:
                    low, high = (np.asarray([one[name][i] for one in found]) for i in (1, 2))
                    rows.append(
                        {
                            "n": n,
                            "groups of": PER_GROUP if grouped else 1,
                            "truth, %": round(100 * true / base, 2),
                            "protocol": name,
                            "told apart": float(np.mean((low > 0) | (high < 0))),
                            "covered": float(np.mean((low <= true) & (true <= high))),
                            "half-width, %": round(100 * float(np.mean(high - low)) / 2 / base, 2) if dearer else None,
                        }
                    )
                    print(rows[-1], flush=True)
    if options.json is not None:
        about = {"title": "What an interval sees", **metadata("cpu"), "draws": options.draws, "rows": rows}
        options.json.write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    main()
