"""The numbers behind a third way out and a limited number of checks, as frames."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import as_host
from adacsl.extras import requires
from adacsl.report.data import Outcome

with requires("compare"):
    import pandas as pd

POINTS = 61
"""So many prices of a referral, or numbers of checks, make a curve."""

WORTH = 0.01
"""A referral that saves less than this share of the cost is not worth its trouble."""


def referral_table(outcome: Outcome, *, points: int = POINTS) -> pd.DataFrame:
    """Return what a person who decides rightly would mean, at prices up to one at which hardly any case goes to them.

    A case is referred where that costs less than its decision is expected to cost (above being right). Columns: price,
    referred (share of the cases), cost (per case, referrals included).
    """
    risk, paid, base = _risks(outcome)
    order = np.argsort(-risk, kind="stable")
    # without the dearest per cent: one case of a great price would stretch the axis
    high = float(np.quantile(risk, 0.99)) * 1.05
    prices = np.linspace(0.0, high, points)
    referred = np.searchsorted(-risk[order], -prices, side="left")  # those that risk more than the price
    saved = np.concatenate(([0.0], np.cumsum(paid[order])))
    cost = base + (saved[-1] - saved[referred] + prices * referred) / outcome.n
    return pd.DataFrame({"price": prices, "referred": referred / outcome.n, "cost": cost})


def break_even(outcome: Outcome, table: pd.DataFrame) -> float:
    """Return up to which price a referral is worth it: where it stops saving a hundredth of the (avoidable) cost.

    Infinity where the dearest per cent of the cases alone is worth more than the prices of the table.
    """
    _, paid, base = _risks(outcome)
    avoidable = float(paid.mean())
    saved = base + avoidable - table["cost"].to_numpy()
    enough = saved > WORTH * avoidable
    if enough.all() or not enough[0]:
        return float("inf") if enough.all() else 0.0
    last = int(np.argmin(enough)) - 1
    prices = table["price"].to_numpy()
    fall = (saved[last] - WORTH * avoidable) / (saved[last] - saved[last + 1])
    return float(prices[last] + fall * (prices[last + 1] - prices[last]))


def capacity_table(outcome: Outcome, *, points: int = POINTS) -> pd.DataFrame:
    """Return what a limited number of checks (cases called positive) would mean, of two classes.

    Cases are checked in the order of what a check is expected to save; the others are called negative. Columns: checked
    (share of the cases; up to all for which a check is worth it), cost (per case), by_probability (the cost where the
    likeliest cases are checked instead; differs where cases have prices of their own).
    """
    scores = outcome.scores.astype(np.float64)
    each = as_host(outcome.costs.expected_of_each(scores))
    gains = each[:, 0] - each[:, 1]
    wanted = int((gains > 0).sum())
    counts = np.unique(np.linspace(0, wanted, min(points, wanted + 1)).round().astype(int))
    never, always = (_paid(outcome, action) for action in (0, 1))
    costs = []
    for order in (np.argsort(-gains, kind="stable"), np.argsort(-scores, kind="stable")):
        saved = np.concatenate(([0.0], np.cumsum((never - always)[order])))
        costs.append((never.sum() - saved[counts]) / outcome.n)
    return pd.DataFrame({"checked": counts / outcome.n, "cost": costs[0], "by_probability": costs[1]})


def _paid(outcome: Outcome, action: int) -> NDArray[np.float64]:
    return np.asarray(as_host(outcome.costs.incurred(outcome.labels, np.full(outcome.n, action))), dtype=np.float64)


def _risks(outcome: Outcome) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return what each decision was expected to cost and did cost above being right, and what being right costs."""
    avoidable = outcome.costs.reduced()
    risk = as_host(avoidable.expected(outcome.scores.astype(np.float64), outcome.decisions))
    paid = as_host(avoidable.incurred(outcome.labels, outcome.decisions))
    whole = as_host(outcome.costs.incurred(outcome.labels, outcome.decisions))
    return np.asarray(risk), np.asarray(paid), float((whole - paid).mean())
