"""What a protocol sees, and what its recommendation costs: drawn data with a known law, old protocol beside new.

Logistic regressions that see more or fewer columns decide at the Bayes threshold, each fitted on random 80 % of its
training rows; two constants stand beside them. What each costs in truth is measured on fresh rows over many fits.
Type I: two twins that see all columns. Power: one that does not see two columns, about 10 % dearer. Regret: the true
cost of the method the recommendation takes over that of the best, less 1. Old: five random 80 / 20 splits, the
corrected variance of Nadeau and Bengio, the simplest method not told apart. New: repeated cross-validation, row costs,
the simplest method whose upper bound of excess is at most 10 %, else the lowest mean
(``adacsl.comparison.statistics``).

    python -m benchmarks.quality.power --draws 200 --n-jobs 2 --json benchmarks/results/cpu_power.json

Racing: costs are drawn, nothing is trained. Hard samples are hard for all methods, and every training has luck of its
own. How often is a method that is as good as the best called significantly worse, or stopped, with racing and without?

    python -m benchmarks.quality.power --racing --draws 400 --json benchmarks/results/cpu_racing.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
from scipy import stats

from adacsl import CostMatrix
from adacsl.comparison.fits import FitKey, FitResult, Stopped
from adacsl.comparison.memory_store import MemoryStore
from adacsl.comparison.racing import Race
from adacsl.comparison.recommendation import recommendation
from adacsl.comparison.statistics import RowCosts, fold_interval, summarise
from adacsl.comparison.store import StoredSplit
from benchmarks.harness import metadata
from benchmarks.quality.old_protocol import CONSTANTS, corrected, old_pick
from benchmarks.quality.suite_rows import part_of, pick_of

COSTS, COLUMNS, FOLDS, TOLERANCE = CostMatrix(fp=1, fn=5), 10, 5, 0.10
SLOPES = np.asarray([1.0, -0.8, 0.7, -0.6, 0.5, 0.45, -0.4, 0.35, 0.3, 0.25])
FULL, TWIN, DEARER = "all columns", "its twin", "without two columns"
SEEN: dict[str, list[int]] = {
    "three columns": [0, 1, 2],
    "six columns": [0, 1, 2, 3, 4, 5],
    DEARER: [0, 2, 3, 4, 6, 7, 8, 9],
    FULL: list(range(COLUMNS)),
    TWIN: list(range(COLUMNS)),
    "and squares": list(range(2 * COLUMNS)),
}
METHODS = (*CONSTANTS, *SEEN)
"""Simplest first."""
PER_GROUP = 4


def draw(n: int, rng: Any, *, grouped: bool) -> tuple[Any, Any, Any]:
    """Return features, labels and groups; rows of a group share features and luck."""
    groups = np.arange(n) // PER_GROUP if grouped else np.arange(n)
    shared = rng.standard_normal((groups.max() + 1, COLUMNS + 1))[groups]
    own = rng.standard_normal((n, COLUMNS + 1))
    mixed = (0.9 * shared + np.sqrt(1 - 0.81) * own) if grouped else own
    x = mixed[:, :COLUMNS]
    y = (x @ SLOPES - 1.2 + 1.5 * mixed[:, -1]) > stats.logistic.ppf(rng.random(n))
    return np.column_stack((x, x**2 - 1)), y.astype(np.int64), groups


def fitted(x: Any, y: Any) -> Any:
    """Return a logistic regression with a little ridge, by Newton's method."""
    a = np.column_stack((np.ones(len(x)), x))
    w = np.zeros(a.shape[1])
    for _ in range(7):
        p = 1.0 / (1.0 + np.exp(-a @ w))
        w -= np.linalg.solve((a * (p * (1 - p))[:, None]).T @ a + 0.5 * np.eye(len(w)), a.T @ (p - y) + 0.5 * w)
    return w


def costs_of(x: Any, y: Any, new: Any, truth: Any, rng: Any) -> Any:
    """Fit every method on its own random 80 % of the rows; return what new rows cost, methods x rows."""
    result = [COSTS.incurred(truth, np.full(len(truth), int(name == "always-positive"))) for name in CONSTANTS]
    for seen in SEEN.values():
        picked = rng.permutation(len(x))[: int(0.8 * len(x))]
        w = fitted(x[np.ix_(picked, seen)], y[picked])
        decided = w[0] + new[:, seen] @ w[1:] > np.log(COSTS.threshold / (1 - COSTS.threshold))
        result.append(COSTS.incurred(truth, decided.astype(np.int64)))
    return np.stack(result)


def cut(groups: Any, rng: Any) -> Any:
    """Return the fold of each row; groups stay together."""
    return (rng.permutation(groups.max() + 1) % FOLDS)[groups]


class Found(NamedTuple):
    """What a protocol says of one draw: intervals (low, high) and picks."""

    twins: tuple[float, float]
    dearer: tuple[float, float]
    positive: tuple[float, float]  # what calling everything positive costs
    recommendation: str
    lowest: str


def old_protocol(x: Any, y: Any, groups: Any, rng: Any) -> Found:
    means = []
    for _ in range(5):
        test = cut(groups, rng) == 0
        means.append(costs_of(x[~test], y[~test], x[test], y[test], rng).mean(axis=1))
    costs, overlap = np.asarray(means), 1 / (FOLDS - 1)
    of = dict(zip(METHODS, costs.T, strict=True))
    pairs = np.column_stack((of[TWIN] - of[FULL], of[DEARER] - of[FULL], of["always-positive"]))
    _, low, high, _ = corrected(pairs, overlap)
    pick = old_pick(costs, METHODS, overlap)
    return Found(*zip(low.tolist(), high.tolist(), strict=True), pick, METHODS[int(costs.mean(axis=0).argmin())])


def repeated_folds(x: Any, y: Any, groups: Any, rng: Any, repeats: int) -> RowCosts:
    """Test every row once in each repeat; return what it cost under each method."""
    n, parts, rows, fits = len(y), [], [], []
    for repeat in range(repeats):
        folds = cut(groups, rng)
        for fold in range(FOLDS):
            test = folds == fold
            parts.append(costs_of(x[~test], y[~test], x[test], y[test], rng))
            rows.append(np.flatnonzero(test))
            fits.append(np.full(int(test.sum()), repeat * FOLDS + fold))
    tested = np.concatenate(rows)
    assert len(tested) == n * repeats
    return RowCosts(METHODS, np.concatenate(parts, axis=1), tested, np.concatenate(fits), groups[tested])


def new_protocol(paired: RowCosts) -> Found:
    def interval(d: Any) -> tuple[float, float]:
        _, low, high = fold_interval(d, paired.fits, paired.units)
        return low, high

    of = dict(zip(paired.methods, paired.costs, strict=True))
    lowest = METHODS[int(paired.costs.mean(axis=1).argmin())]
    return Found(
        interval(of[TWIN] - of[FULL]), interval(of[DEARER] - of[FULL]), interval(of["always-positive"]),
        pick_of(paired, METHODS, TOLERANCE), lowest,
    )  # fmt: skip


def trial(seed: int, n: int, *, grouped: bool) -> dict[str, Found]:
    rng = np.random.default_rng(seed)
    x, y, groups = draw(n, rng, grouped=grouped)
    five = repeated_folds(x, y, groups, rng, 5)
    return {
        "5 random splits": old_protocol(x, y, groups, rng),
        "2 x 5 folds": new_protocol(part_of(five, five.fits < 2 * FOLDS)),
        "5 x 5 folds": new_protocol(five),
    }


def true_costs(n: int, *, grouped: bool, fits: int = 200) -> dict[str, float]:
    """Return what each method costs on fresh rows, in the mean over training sets of 80 % of n rows."""
    rng = np.random.default_rng(99)
    total = np.zeros(len(METHODS))
    for _ in range(fits):
        own_x, own_y, _ = draw(int(0.8 * n), rng, grouped=grouped)
        x, y, _ = draw(20_000, rng, grouped=False)
        total += costs_of(own_x, own_y, x, y, rng).mean(axis=1)
    mean = total / fits
    mean[[METHODS.index(FULL), METHODS.index(TWIN)]] = (mean[METHODS.index(FULL)] + mean[METHODS.index(TWIN)]) / 2
    return dict(zip(METHODS, mean.tolist(), strict=True))


def judged(result: list[Found], true: dict[str, float]) -> dict[str, float]:
    """Return how often intervals were right and saw something, and what following the picks costs, in percent."""
    best, dearer = min(true.values()), true[DEARER] - true[FULL]
    twins, other, positive = (np.asarray([one[i] for one in result]) for i in range(3))
    recommendations, lowest = ([100 * (true[one[i]] / best - 1) for one in result] for i in (3, 4))
    return {
        "type I": outside(twins, 0.0),
        "power": outside(other, 0.0),
        "coverage": 1 - outside(other, dearer),
        "coverage of always-positive": 1 - outside(positive, true["always-positive"]),
        "half-width, %": round(100 * float(np.diff(other).mean()) / 2 / true[FULL], 2),
        "regret, %": round(float(np.mean(recommendations)), 2),
        "worst regret, %": round(float(np.max(recommendations)), 2),
        "regret of the lowest mean, %": round(float(np.mean(lowest)), 2),
        "worst regret of the lowest mean, %": round(float(np.max(lowest)), 2),
        "constants taken": float(np.mean([one.recommendation in CONSTANTS for one in result])),
    }


def outside(ends: Any, value: float) -> float:
    """Return the share of intervals that leave out a value."""
    return round(float(np.mean((ends[:, 0] > value) | (ends[:, 1] < value))), 4)


EQUAL = dict.fromkeys((f"method {number}" for number in range(1, 10)), 0.0)
MIXED = {"best": 0.0, "its equal": 0.0, "1 % above": 0.01, "3 % above": 0.03, "10 % above": 0.1, "20 % above": 0.2,
         "30 % above": 0.3, "60 % above": 0.6, "100 % above": 1.0}  # fmt: skip
FIELDS = {"nine equal methods": EQUAL, "two equal, seven worse": MIXED}
SHARE, SPREAD, LUCK = 0.2, 0.08, 0.02
"""Share of samples on which the best errs; what differs between methods on a sample; standard deviation of a training
relative to the cost."""


def drawn_costs(above: dict[str, float], n: int, repeats: int, rng: Any) -> RowCosts:
    """Return costs of repeated folds: 1 where a method errs."""
    hard = np.tile(rng.random(n), repeats)
    fits = np.concatenate([rng.permutation(n) % FOLDS + FOLDS * repeat for repeat in range(repeats)])
    shares = SHARE * (1 + np.asarray(list(above.values())))[:, None]
    shares = shares * (1 + LUCK * rng.standard_normal((len(above), FOLDS * repeats)))
    own = np.tile(SPREAD * rng.standard_normal((len(above), n)), repeats)  # of the method, not of its training
    costs = 1.0 * (hard + own < shares[:, fits])
    rows = np.tile(np.arange(n), repeats)
    return RowCosts(tuple(above), costs, rows, fits, rows)


def raced(paired: RowCosts) -> tuple[RowCosts, list[Stopped]]:
    """Return the costs that a race leaves, and which methods it stopped."""
    store, unit = MemoryStore({}), CostMatrix(fp=1, fn=1)
    for fit in np.unique(paired.fits).tolist():
        own = np.flatnonzero(paired.fits == fit)
        labels = np.zeros(len(own), dtype=np.int64)
        store.write_split("data", fit, StoredSplit(paired.rows[own], labels, unit, paired.units[own]))
        for name, costs in zip(paired.methods, paired.costs[:, own] > 0, strict=True):
            store.write(FitResult(FitKey("data", 1.0, name, fit), {}, costs.astype(np.float32), costs))
    fits = [FitKey("data", 1.0, name, fit) for name in paired.methods for fit in np.unique(paired.fits).tolist()]
    stopped = [each for each, _ in Race(store, fits, lambda data, ratio, costs: costs).looks(set(fits), ())]
    costs = paired.costs.copy()
    for each in stopped:
        costs[paired.methods.index(each.method), ~np.isin(paired.fits, each.seeds)] = np.nan
    return paired.with_costs(paired.methods, costs), stopped


def race_trial(seed: int, above: dict[str, float], n: int, repeats: int) -> dict[str, dict[str, Any]]:
    """Return what a comparison with and without racing says of one draw."""
    every = drawn_costs(above, n, repeats, np.random.default_rng(seed))
    result = {}
    for name, (paired, stopped) in {"off": (every, []), "on": raced(every)}.items():
        empty = pd.DataFrame(columns=["data", "ratio", "method"])
        table = summarise(empty, {("data", 1.0): paired}, stopped=stopped)
        out = [each.method for each in stopped]
        pick = recommendation(table, simplest_first=list(above), tolerance=TOLERANCE, costs=paired, stopped=out)
        worse = set(table.loc[table["significance"] == "significantly higher", "method"])
        best = [method for method, excess in above.items() if not excess]
        result[name] = {
            "called worse": any(method in worse for method in best),
            "stopped": any(method in out for method in best),
            "power": [method in worse for method, excess in above.items() if excess],
            "fits": 1 - float(np.isnan(paired.sums).mean()),
            "regret": above[str(pick.recommended)] if pick.recommended else 0.0,
        }
    return result


def race_rows(draws: int, n: int, n_jobs: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each field, number of repeats, and racing on and off."""
    for name, above in FIELDS.items():
        for repeats in (1, 2):
            work = joblib.delayed(race_trial)
            result = joblib.Parallel(n_jobs)(work(seed, above, n, repeats) for seed in range(draws))
            for racing in ("off", "on"):
                own = [one[racing] for one in result]
                power = np.mean([one["power"] for one in own]) if any(above.values()) else np.nan
                yield {
                    "methods": name, "n": n, "folds": f"{repeats} x {FOLDS}", "racing": racing,
                    "type I": round(float(np.mean([one["called worse"] for one in own])), 4),
                    "best stopped": round(float(np.mean([one["stopped"] for one in own])), 4),
                    "power": None if np.isnan(power) else round(float(power), 4),
                    "fits run": round(float(np.mean([one["fits"] for one in own])), 4),
                    "regret, %": round(100 * float(np.mean([one["regret"] for one in own])), 2),
                }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--racing", action="store_true", help="racing on and off, on drawn costs")
    options = parser.parse_args()
    if options.racing:
        lines = []
        for line in race_rows(options.draws, 4000, options.n_jobs):
            print(line, flush=True)
            lines.append(line)
        if options.json is not None:
            run = {"title": "Racing", **metadata("cpu"), "draws": options.draws, "rows": lines}
            options.json.write_text(json.dumps(run, indent=2) + "\n")
        return
    rows, truths = [], []
    for n in options.sizes:
        for grouped in (False, True):
            true, about = true_costs(n, grouped=grouped), {"n": n, "groups of": PER_GROUP if grouped else 1}
            truths.append(
                about | {name: round(100 * (cost / min(true.values()) - 1), 1) for name, cost in true.items()}
            )
            work = joblib.delayed(trial)
            result = joblib.Parallel(options.n_jobs)(work(seed, n, grouped=grouped) for seed in range(options.draws))
            for name in result[0]:
                rows.append(about | {"protocol": name} | judged([one[name] for one in result], true))
                print(rows[-1], flush=True)
            if options.json is not None:  # what is finished is not lost when the rest is not
                run = {"title": "What a protocol sees", **metadata("cpu"), "draws": options.draws}
                run |= {"tolerance": TOLERANCE, "dearer, %": truths, "rows": rows}
                options.json.write_text(json.dumps(run, indent=2) + "\n")


if __name__ == "__main__":
    main()
