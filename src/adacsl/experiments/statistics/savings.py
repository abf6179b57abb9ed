"""What a method saves against a baseline, with its confidence interval."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.experiments.statistics.folds import Estimate, Evidence, estimate
from adacsl.experiments.statistics.paired import RowCosts
from adacsl.experiments.statistics.wording import TODAY, number, span


class Practice(NamedTuple):
    """The baseline that a saving is measured against: today's decisions, or the better of two simple rules."""

    against: str
    """In words."""
    costs: RowCosts
    """Of rows under the baseline (:data:`TODAY`) and under the recommended method."""
    other: str = ""
    """The other simple rule, in words: threshold 0.5 or the best constant decision."""
    other_cost: float = math.nan
    """Its mean cost per row."""
    source: str = ""
    """The method whose probabilities are thresholded at 0.5; "": today's decisions."""
    constant: int | None = None
    """The class that the baseline always predicts; None: it is no constant decision."""


class Saving(NamedTuple):
    """What a method saves per row against a baseline, with its 95 % CI; negative where the method costs more."""

    against: str
    """The baseline, in words."""
    difference: float
    low: float
    high: float
    percent: float
    """Of the baseline's cost; NaN, as its ends, where that is nothing or less."""
    percent_low: float
    percent_high: float
    cost: float = math.nan
    """Of the baseline per row."""
    other: str = ""
    """Another baseline, in words: of threshold 0.5 and the best constant decision the one that costs more."""
    other_cost: float = math.nan

    @property
    def sure(self) -> bool:
        """Whether the saving, or the loss, is significant."""
        return self.low > 0 or self.high < 0

    @property
    def words(self) -> str:
        """``12 % (95 % CI 5-19 %) less than ... (0.7)``; in units of cost where a percentage has no meaning."""
        against = self.against + (f" ({number(self.cost)})" if math.isfinite(self.cost) else "")
        both = f"; {self.other} costs {number(self.other_cost)}" if self.other else ""
        if not self.difference and self.low == self.high == 0:
            return f"as much as {against}{both}"
        known = math.isfinite(self.percent)
        ends = (self.percent, self.percent_low, self.percent_high) if known else self[1:4]
        dearer = self.difference < 0
        middle, low, high = (-ends[0], -ends[2], -ends[1]) if dearer else ends
        doubt = "" if self.sure or math.isnan(self.low) else ", not significantly"
        amount = span(middle, low, high, " %" if known else "")
        return f"{amount} {'more' if dearer else 'less'} than {against}{doubt}{both}"


def paired_differences(costs: RowCosts, method: str, other: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return how much dearer than another a method was on each row both decided about, with its fit and unit."""
    mine, theirs = costs.methods.index(method), costs.methods.index(other)
    kept = costs.entries(mine, theirs)
    return (costs.costs[mine] - costs.costs[theirs])[kept], costs.fits[kept], costs.units[kept]


def excess_in(costs: RowCosts, method: str, other: str) -> Estimate:
    """Return how much dearer than another a method is."""
    values, fits, units = paired_differences(costs, method, other)
    return estimate(values, Evidence.of(fits, units), size=float(np.nanmax(np.abs(costs.costs), initial=0.0)))


def saving_of(method: str, practice: Practice | None) -> Saving | None:
    """Return what a method saves against a baseline."""
    if practice is None:
        return None
    costs = practice.costs
    dearer = excess_in(costs, method, TODAY)
    if not math.isfinite(dearer.mean):
        return None  # no row that both decided about
    today = costs.costs[costs.methods.index(TODAY)]
    cost = float(today[costs.entries(costs.methods.index(method), costs.methods.index(TODAY))].mean())
    most = cost if np.nanmin(costs.costs) >= 0 else math.inf  # nothing is cheaper than free
    ends = (-dearer.mean, -dearer.high, min(-dearer.low, most))
    percents = [100 * end / cost if cost > 0 else math.nan for end in ends]
    mean, low, high, percent, percent_low, percent_high = (end + 0.0 for end in (*ends, *percents))
    own = Saving(practice.against, mean, low, high, percent, percent_low, percent_high)
    return own._replace(cost=cost, other=practice.other, other_cost=practice.other_cost)
