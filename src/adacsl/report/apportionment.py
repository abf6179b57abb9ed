"""Costs in whole people that add up, per 1,000 and per year."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.metrics.intervals import Interval
from adacsl.report.data import Outcome, ReportData
from adacsl.report.formatting import MINUS

with requires("compare"):
    import pandas as pd


THOUSAND = 1_000
FEWEST = 10
"""So many of the rarest class, at least, are among the people that are spoken of."""
MOST = 10**9
DIGITS = 3


def whole(amounts: Any, total: int, *, last: int | None = None) -> NDArray[np.int64]:
    """Return whole numbers in the proportions of some amounts that add up to a total.

    All are rounded down; those with the largest remainders get one more. Of equal remainders the first goes first, but
    the one numbered ``last`` after the others.

    Examples
    --------
    >>> whole([0.5, 1.5, 2.0], 4).tolist(), whole([1, 1, 1], 100, last=0).tolist()
    ([1, 1, 2], [33, 34, 33])
    """
    shares = np.asarray(amounts, dtype=np.float64)
    exact = shares * (total / shares.sum()) if shares.sum() > 0 else np.zeros(len(shares))
    exact = exact.round(9)  # 0.1 + 0.2 is no more than 0.3
    found = np.floor(exact).astype(np.int64)
    behind = np.arange(len(shares)) == (-1 if last is None else last)
    order = np.lexsort((behind, -(exact - found).round(9)))
    found[order[: max(int(total) - int(found.sum()), 0)]] += 1 if shares.sum() > 0 else 0
    return found


def whole_confusion(outcome: Outcome, people: int | None = None) -> NDArray[np.int64]:
    """Return how many persons of each class (rows) are decided how (columns): whole ones that add up.

    Of so many people; by default of the tested rows, where every class has its own number, and what was decided
    differently from repeat to repeat counts as an error first.
    """
    k = outcome.n_classes
    counts = np.bincount(outcome.labels * k + outcome.decisions, minlength=k * k).reshape(k, k) / outcome.repeats
    sizes = counts.sum(axis=1)
    rows = sizes.round().astype(np.int64) if people is None else whole(sizes, people)
    return np.stack(
        [whole(own, int(size), last=actual) for actual, (own, size) in enumerate(zip(counts, rows, strict=True))]
    )


def people_spoken_of(outcome: Outcome) -> int:
    """Return 1,000, or more where some class is so rare that hardly any of it would be among them."""
    sizes = np.bincount(outcome.labels, minlength=outcome.n_classes)
    rarest, people = sizes[sizes > 0].min() / outcome.n, THOUSAND
    while people * rarest < FEWEST and people < MOST:
        people *= 10
    return people


def money_table(data: ReportData, view: tuple[str, float]) -> pd.DataFrame:
    """Return what is paid today, what with the recommended method, and what is saved: per row, per 1,000, per year.

    Columns: what ("today", "recommended", "saved"), people (of how many), estimate, low, high; low and high are the
    ends of 95 % intervals, NaN where they are not known.
    """
    counts = [1, THOUSAND, *([] if data.volume is None else [data.volume])]
    found = [
        (what, people, *(end * people for end in amount))
        for what, amount in money_each(data, view).items()
        for people in counts
    ]
    return pd.DataFrame(found, columns=["what", "people", "estimate", "low", "high"])


def money_each(data: ReportData, view: tuple[str, float]) -> dict[str, Interval]:
    """Return what is paid per row today and with the recommended method, and what is saved; of what is known."""
    rows = data.summary_of(view)
    row = rows[rows["method"] == data.recommended_of(view)].iloc[0]
    known = data.savings.get(view)
    paid = Interval(float(row["cost"]), float(row["low"]), float(row["high"]))
    each = {"recommended": paid} if known is None else {"today": known.today, "recommended": paid, "saved": known.each}
    return {what: amount for what, amount in each.items() if math.isfinite(amount.estimate)}


def money_texts(each: dict[str, Interval], people: float) -> dict[str, tuple[str, str]]:
    """Return amounts of money for so many people as people read them, with the ends of their intervals.

    All are rounded at the same place, so that the largest has three digits: more would look surer than it is. What is
    paid today is shown as the sum of what is paid and saved with the recommended method.
    """
    # 1,000 times as much has the same digits
    factor = people if people == THOUSAND else 1
    amounts = {what: Interval(*(end * people / factor for end in amount)) for what, amount in each.items()}
    largest = max(abs(end) for amount in amounts.values() for end in amount if math.isfinite(end))
    place = DIGITS - 1 - math.floor(math.log10(largest)) if largest > 0 else 0
    middle = {what: round(amount.estimate, place) for what, amount in amounts.items()}
    if {"today", "recommended", "saved"} <= set(each):
        today, *others = (each[what].estimate for what in ("today", "recommended", "saved"))
        if math.isclose(today, sum(others), rel_tol=1e-6, abs_tol=1e-9):  # else some splits are missing
            middle["today"] = middle["recommended"] + middle["saved"]

    def text(value: float) -> str:
        rounded = round(value, place) * factor
        decimals = max(place - round(math.log10(factor)), 0)
        return f"{MINUS if rounded < 0 else ''}{abs(rounded):,.{decimals}f}"

    ends = {what: (amount.low, amount.high) for what, amount in amounts.items()}
    spans = {what: f"{text(low)} to {text(high)}" if math.isfinite(low) else "" for what, (low, high) in ends.items()}
    return {what: (text(middle[what]), spans[what]) for what in each}
