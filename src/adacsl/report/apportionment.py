"""Counts as whole numbers that add up, and amounts of money at one precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.metrics.intervals import Interval
from adacsl.report.data import Outcome
from adacsl.report.formatting import MINUS

THOUSAND = 1_000
FEWEST = 10
"""At least so many samples of the rarest class are among those that frequencies are given for."""
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
    result = np.floor(exact).astype(np.int64)
    behind = np.arange(len(shares)) == (-1 if last is None else last)
    order = np.lexsort((behind, -(exact - result).round(9)))
    result[order[: max(int(total) - int(result.sum()), 0)]] += 1 if shares.sum() > 0 else 0
    return result


def whole_confusion(outcome: Outcome, people: int | None = None) -> NDArray[np.int64]:
    """Return whole numbers of samples by actual (rows) and predicted class (columns) that add up.

    Of so many ``people``; by default of the test samples, where every class has its own number, and a sample predicted
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


def money_texts(each: dict[str, Interval], people: float) -> dict[str, tuple[str, str]]:
    """Return costs per sample times a number of samples as text, with the ends of their intervals.

    All are rounded at the same place, so that the largest has three digits. The cost of the baseline is shown
    as the sum of cost and saving of the recommended method.
    """
    amounts = {what: Interval(*(end * people for end in amount)) for what, amount in each.items()}
    largest = max(abs(end) for amount in amounts.values() for end in amount if math.isfinite(end))
    place = DIGITS - 1 - math.floor(math.log10(largest)) if largest > 0 else 0
    middle = {what: round(amount.estimate, place) for what, amount in amounts.items()}
    if {"baseline", "recommended", "saved"} <= set(each):
        baseline, *others = (each[what].estimate for what in ("baseline", "recommended", "saved"))
        if math.isclose(baseline, sum(others), rel_tol=1e-6, abs_tol=1e-9):  # else some splits are missing
            middle["baseline"] = middle["recommended"] + middle["saved"]

    def text(value: float) -> str:
        rounded = round(value, place)
        return f"{MINUS if rounded < 0 else ''}{abs(rounded):,.{max(place, 0)}f}"

    ends = {what: (amount.low, amount.high) for what, amount in amounts.items()}
    spans = {what: f"{text(low)} to {text(high)}" if math.isfinite(low) else "" for what, (low, high) in ends.items()}
    return {what: (text(middle[what]), spans[what]) for what in each}
