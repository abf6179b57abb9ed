"""Cost of the ensembles relative to the peers: means over tables with intervals, from the lines of the results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

LEAST = 1e-3
"""Of the constant decision's cost: cheaper counts as this much, so that no table decides a mean of ratios alone."""
THYROID = ("ann_thyroid", "thyroid-3")
AUTOMATED = "autogluon"
ENSEMBLE = "ensemble"
RESAMPLES = 10_000
BEST = "best single peer of each row"
BEST_OF_ALL = "best of all, AutoGluon included"


class Ratio(NamedTuple):
    """The cost of one method relative to another: means and extremes over rows, intervals over tables."""

    ours: str
    other: str
    mean: float
    student: tuple[float, float]
    bootstrap: tuple[float, float]
    worst: float
    worst_row: str
    lower: int
    rows: int
    without_thyroid: float | None


def ratios_of(lines: list[dict[str, Any]], meta: dict[str, Any]) -> list[Ratio]:
    """Return the ratios of each of our ensembles to the best peers and to each peer, the largest first."""
    costs = costs_of(lines)
    ours = [name for name, about in meta["methods"].items() if about["ours"] and name in costs]
    peers = [name for name in costs if name not in ours and name != "constant"]
    single = [name for name in peers if not name.startswith(AUTOMATED)]
    result = []
    for name in [name for name in reversed(ours) if name.startswith(ENSEMBLE)]:
        others = {peer: relative(costs, name, [peer]) for peer in peers}
        best = {BEST: relative(costs, name, single), BEST_OF_ALL: relative(costs, name, peers)}
        each = [summarise(name, peer, rows) for peer, rows in others.items() if len(rows)]
        result += [summarise(name, what, rows) for what, rows in best.items() if len(rows)]
        result += sorted(each, key=lambda ratio: -ratio.mean)
    return result


def costs_of(lines: list[dict[str, Any]]) -> pd.DataFrame:
    """Return costs relative to the constant baseline of the split: a row for each table, costs and split."""
    frame = pd.DataFrame([line for line in lines if not line["error"]])
    frame = frame.astype({"cost": float, "constant_cost": float, "split": int})
    totals = frame.assign(weight=frame["n_test"].astype(float))
    keys = ["table", "costs", "split"]
    wide = totals.pivot(index=keys, columns="method", values="cost")
    constant = totals.groupby(keys)["constant_cost"].mean()
    result: pd.DataFrame = wide.div(constant.groupby(["table", "costs"]).transform("mean"), axis=0)
    return result


def relative(costs: pd.DataFrame, ours: str, others: list[str]) -> pd.Series:
    """Return the mean cost of ours relative to the least mean of the others, for each table and costs.

    With one other the splits are those that both have; of several those take part that have all splits of ours.
    """
    own = costs[costs[ours].notna()]
    if len(others) == 1:
        own = own[own[others[0]].notna()]
    means = own[[ours, *others]].groupby(["table", "costs"]).agg(lambda column: column.mean(skipna=False))
    least = means[others].min(axis=1)
    ratio: pd.Series = (means[ours].clip(lower=LEAST) / least.clip(lower=LEAST)).dropna()
    return ratio


def summarise(ours: str, other: str, rows: pd.Series) -> Ratio:
    """Return means, intervals and extremes of the ratios of rows."""
    logs = np.log(rows)
    tables = logs.groupby("table").mean().to_numpy()
    worst: Any = rows.idxmax()
    kept = logs[~logs.index.get_level_values("table").isin(THYROID)]
    without = float(np.exp(kept.mean())) if 0 < len(kept) < len(logs) else None
    return Ratio(
        ours, other, float(np.exp(logs.mean())), student_interval(tables), bootstrap_interval(tables),
        float(rows.max()), f"{worst[0]}, {worst[1]}", int((rows < 1).sum()), len(rows), without,
    )  # fmt: skip


def student_interval(logs: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % interval of the geometric mean over tables; NaN with one table."""
    if len(logs) < 2:
        return np.nan, np.nan
    reach = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    return float(np.exp(logs.mean() - reach)), float(np.exp(logs.mean() + reach))


def bootstrap_interval(logs: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 2.5 and 97.5 % percentiles of the geometric mean of resampled tables; NaN with one table."""
    if len(logs) < 2:
        return np.nan, np.nan
    drawn = np.random.default_rng(0).choice(logs, (RESAMPLES, len(logs))).mean(axis=1)
    low, high = np.exp(np.percentile(drawn, [2.5, 97.5]))
    return float(low), float(high)
