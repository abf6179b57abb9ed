"""Means and intervals of the runs, and the paper's claim tested on each data set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import pandas as pd

from paper.intervals import HIGHER, LOWER, against, estimate
from paper.sheets import Row

VIEW = ["dataset", "profile", "split"]
ENTRY = [*VIEW, "k", "method"]
_CROSS_FITTED = ("net-bayes-cv", "net-tuned-cv", "net-weighted-cv")
COMPARISONS = (
    ("one net", "paper", "adacsl", ("net", "ta", "net-smote", "net-weighted")),
    ("one net", "modern", "adacsl", (
        "net-bayes", "net-tuned", "net-calibrated", "net-weighted", "net-weighted-tuned", "net-focal",
    )),
    ("last epoch", "modern", "adacsl-last", ("net-bayes-last", "net-weighted-last")),
    ("cross-fitted", "modern", "adacsl-cv", _CROSS_FITTED),
    ("no net trained", "modern", "adacsl", ("linear-bayes", "gbm-bayes", "gbm-tuned")),
    ("cross-fitted", "enlarged", "adacsl-cv-target-bayes-cautious", _CROSS_FITTED),
)  # fmt: skip
"""AdaCSL and the methods that had as much data, as many networks and the same selection."""


def summary(rows: Sequence[Row]) -> pd.DataFrame:
    """Return mean and 95 % interval of the normalised cost by data set, profile, split, k and method (also the index).

    Intervals are those of the corrected resampled t-test (Nadeau and Bengio 2003); one run has none.
    """
    frame = pd.DataFrame(rows)
    costs, result = frame["normalized_cost"].to_numpy(dtype=float), []
    for names, runs in cast("Any", frame.groupby(ENTRY, sort=False).indices).items():
        n, mean, low, high, _ = estimate(costs[runs])
        result.append((*names, n, mean, low if math.isnan(low) else max(low, 0.0), high))
    table = pd.DataFrame(result, columns=[*ENTRY, "n", "mean", "low", "high"])
    return table.set_index(pd.MultiIndex.from_frame(table[ENTRY], names=[None] * len(ENTRY)))


class Claim(NamedTuple):
    """Whether "AdaCSL costs least" holds: a paired test against each other method, adjusted after Holm."""

    comparison: str
    dataset: str
    profile: str
    split: str
    k: int | None  # None: the mean over all k
    result: str  # confirmed, not confirmed, refuted or too few runs
    other: str  # the cheapest of the others
    percent: float  # how much more that one costs than AdaCSL
    percent_low: float
    percent_high: float
    p: float


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Test the paper's claim for each data set and k, and for the mean over all k, which needs fewer runs.

    Confirmed: every other method costs significantly more than AdaCSL. Refuted: another costs significantly less. Not
    confirmed: anything between.
    """
    frame, result = pd.DataFrame(rows), []
    for name, profile, ours, others in COMPARISONS:
        compared = frame[(frame["profile"] == profile) & frame["method"].isin([ours, *others])]
        for (dataset, split), block in cast("Any", compared.groupby(["dataset", "split"], sort=False)):
            views: list[tuple[int | None, Any]] = [(int(k), part) for k, part in block.groupby("k", sort=False)]
            if len(views) > 1:
                views.append((None, mean_over_k(block)))
            for k, part in views:
                if ours in set(part["method"]) and part["method"].nunique() > 1:
                    result.append(_judge(part, ours, (name, str(dataset), profile, str(split), k)))
    return result


def mean_over_k(block: pd.DataFrame) -> pd.DataFrame:
    """Return one row per method and seed that was run for every k."""
    wide = block.pivot_table(index=["dataset", "method", "seed"], columns="k", values="normalized_cost").dropna()
    return wide.mean(axis=1).rename("normalized_cost").reset_index()


def _judge(block: pd.DataFrame, ours: str, about: tuple[str, str, str, str, int | None]) -> Claim:
    others = against(block, ours)
    nearest = others.sort_values("difference", kind="stable").iloc[0]
    if others["pairs"].min() < 2:
        result = "too few runs"
    elif (others["significance"] == LOWER).any():
        result = "refuted"
    else:
        result = "confirmed" if (others["significance"] == HIGHER).all() else "not confirmed"
    percent, low, high, p = (float(nearest[name]) for name in ("percent", "percent_low", "percent_high", "p"))
    return Claim(*about, result, str(nearest["method"]), percent, low, high, p)
