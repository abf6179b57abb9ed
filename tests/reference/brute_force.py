"""The cost-optimal threshold by trying every candidate, in exact fractions: an oracle of its own."""

from fractions import Fraction
from typing import NamedTuple


class Optimum(NamedTuple):
    """Least cost, and the intervals ``[low, high)`` of thresholds that attain it (high None: no upper end)."""

    cost: Fraction
    intervals: list[tuple[float, float | None]]


def cost_at(threshold, scores, labels, fp, fn, tp=0, tn=0, weight=1):
    """Add up what deciding ``score > threshold`` costs, sample by sample."""
    total = Fraction(0)
    for k, (score, label) in enumerate(zip(scores, labels, strict=True)):
        if label:
            price = _of(tp, k) if score > threshold else _of(fn, k)
        else:
            price = _of(fp, k) if score > threshold else _of(tn, k)
        total += price * _of(weight, k)
    return total


def optimum(scores, labels, **prices):
    """Try "everything positive" and a threshold at every distinct score; the highest means "nothing positive"."""
    distinct = sorted({float(s) for s in scores})
    candidates = [(0.0, distinct[0]), *zip(distinct, [*distinct[1:], None], strict=True)]
    values = [-1.0, *distinct]
    costs = [cost_at(value, scores, labels, **prices) for value in values]
    least = min(costs)
    return Optimum(least, [candidate for candidate, cost in zip(candidates, costs, strict=True) if cost == least])


def distance(point, intervals):
    """Return how far ``point`` is from the nearest of the intervals (their ends included)."""
    gaps = []
    for low, high in intervals:
        upper = 1.0 if high is None else high
        gaps.append(max(low - point, point - upper, 0.0))
    return min(gaps)


def _of(price, k):
    return Fraction(price[k]) if hasattr(price, "__len__") else Fraction(price)
