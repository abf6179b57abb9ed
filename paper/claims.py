"""Means and intervals of the runs, and the paper's claim tested row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import pandas as pd

from paper.intervals import pairwise, summarise
from paper.sheets import Row

TEST, REST = 0.20, 0.80
"""Shares of the rows that are tested on and that are not: what the corrected intervals need."""

VIEW = ["dataset", "profile", "split"]
CONTESTS = (
    ("one net", "paper", "adacsl", ("net", "ta", "net-smote", "net-weighted")),
    (
        "one net",
        "modern",
        "adacsl",
        ("net-bayes", "net-tuned", "net-calibrated", "net-weighted", "net-weighted-tuned", "net-focal"),
    ),
    ("last epoch", "modern", "adacsl-last", ("net-bayes-last", "net-weighted-last")),
    ("cross-fitted", "modern", "adacsl-cv", ("net-bayes-cv", "net-tuned-cv", "net-weighted-cv")),
    ("no net trained", "modern", "adacsl", ("linear-bayes", "gbm-bayes", "gbm-tuned")),
    (
        "cross-fitted",
        "enlarged",
        "adacsl-cv-target-bayes-cautious",
        ("net-bayes-cv", "net-tuned-cv", "net-weighted-cv"),
    ),
)
"""The rivals of AdaCSL: methods that had as much data, as many networks and the same selection."""


def summary(rows: Sequence[Row]) -> pd.DataFrame:
    """Return mean and 95 % interval of the normalised cost by data set, profile, split, k and method.

    Intervals are those of the corrected resampled t-test (Nadeau and Bengio 2003); one run has none.
    """
    frame = pd.DataFrame(rows)
    tables = []
    for view, block in cast("Any", frame.groupby(VIEW, sort=False)):
        table = summarise(_as_results(block), measure="normalized_cost").astype({"ratio": int})
        table = table.rename(columns={"ratio": "k"})
        more = block.groupby(["k", "method"])[["cost", "accuracy"]].mean()
        about = dict(zip(VIEW, view, strict=True))
        tables.append(table.drop(columns=["data"]).join(more, on=["k", "method"]).assign(**about))
    columns = [*VIEW, "k", "method", "n", "mean", "low", "high", "cost", "accuracy"]
    return pd.concat(tables, ignore_index=True)[columns]


def _as_results(block: pd.DataFrame) -> pd.DataFrame:
    return block.rename(columns={"dataset": "data", "k": "ratio"}).assign(n_train=REST, n_test=TEST)


def against(block: pd.DataFrame, champion: str) -> pd.DataFrame:
    """Return how much more each other method costs than one: paired corrected t-tests, adjusted after Holm."""
    return pairwise(_as_results(block), champion, measure="normalized_cost")


class Claim(NamedTuple):
    """Whether "AdaCSL is cheapest" holds in one row: a paired test against each rival, adjusted after Holm."""

    contest: str
    dataset: str
    profile: str
    split: str
    k: int | None  # None: the mean over all k
    recommendation: str  # confirmed, not confirmed, refuted or too few runs
    rival: str  # the cheapest of the others
    percent: float  # how much more that one costs than AdaCSL
    percent_low: float
    percent_high: float
    p: float


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Test the paper's claim in every row, and for the mean over all k, which a few runs tell more about.

    Confirmed: every rival costs significantly more than AdaCSL. Refuted: a rival costs significantly less. Not
    confirmed: anything between.
    """
    frame, result = pd.DataFrame(rows), []
    for contest, profile, champion, rivals in CONTESTS:
        contenders = frame[(frame["profile"] == profile) & frame["method"].isin([champion, *rivals])]
        for (dataset, split), block in cast("Any", contenders.groupby(["dataset", "split"], sort=False)):
            views: list[tuple[int | None, Any]] = [(int(k), part) for k, part in block.groupby("k", sort=False)]
            if len(views) > 1:
                views.append((None, mean_over_k(block)))
            for k, part in views:
                if champion in set(part["method"]) and part["method"].nunique() > 1:
                    result.append(_judge(part, champion, (contest, str(dataset), profile, str(split), k)))
    return result


def mean_over_k(block: pd.DataFrame) -> pd.DataFrame:
    """Return one row per method and seed that was run for every k."""
    wide = block.pivot_table(index=["dataset", "method", "seed"], columns="k", values="normalized_cost").dropna()
    return wide.mean(axis=1).rename("normalized_cost").reset_index().assign(k=0)


def _judge(block: pd.DataFrame, champion: str, about: tuple[str, str, str, str, int | None]) -> Claim:
    others = against(block, champion)
    nearest = others.sort_values("difference", kind="stable").iloc[0]
    if others["pairs"].min() < 2:
        recommendation = "too few runs"
    elif (others["significance"] == "significantly lower").any():
        recommendation = "refuted"
    else:
        recommendation = "confirmed" if (others["significance"] == "significantly higher").all() else "not confirmed"
    percent, low, high, p = (float(nearest[name]) for name in ("percent", "percent_low", "percent_high", "p"))
    return Claim(*about, recommendation, str(nearest["method"]), percent, low, high, p)


__all__ = ["CONTESTS", "VIEW", "Claim", "against", "claims", "mean_over_k", "summary"]
