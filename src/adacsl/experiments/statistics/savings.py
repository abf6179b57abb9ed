"""What a method saves against today's practice, and how sure that is."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.experiments.statistics.folds import Estimate, Evidence, estimate
from adacsl.experiments.statistics.paired import RowCosts
from adacsl.experiments.statistics.wording import CONSTANTS, TODAY, number, span


class Practice(NamedTuple):
    """What is done today."""

    against: str
    """In words."""
    costs: RowCosts
    """Of rows under it (:data:`TODAY`), under the method that is taken, and under constant decisions if they ran."""
    classes: tuple[str, str] = ("negative", "positive")
    """As constant decisions are to be named."""
    source: str = ""
    """The method whose probabilities are decided at 0.5; "": the user's own decisions."""


class Saving(NamedTuple):
    """What a method saves per row, with its 95 % interval; less than nothing where it is dearer."""

    against: str
    """Today's practice, in words."""
    difference: float
    low: float
    high: float
    percent: float
    """Of what today's practice costs; NaN, as its ends, where that is nothing or less."""
    percent_low: float
    percent_high: float
    constant: str = ""
    """The constant decision that is clearly cheaper than today's practice, in words, if another one is taken."""
    cost: float = math.nan
    """Of today's practice per row."""
    constant_cost: float = math.nan

    @property
    def sure(self) -> bool:
        """Whether it is known that it saves, or that it is dearer."""
        return self.low > 0 or self.high < 0

    @property
    def words(self) -> str:
        """``12 % (5-19 %) less than deciding at 0.5``; in units of cost where a percentage has no meaning."""
        if not self.difference and self.low == self.high == 0:
            return f"as much as {self.against}"
        known = math.isfinite(self.percent)
        ends = (self.percent, self.percent_low, self.percent_high) if known else self[1:4]
        dearer = self.difference < 0
        middle, low, high = (-ends[0], -ends[2], -ends[1]) if dearer else ends
        doubt = "" if self.sure or math.isnan(self.low) else ", which may be chance"
        amount = span(middle, low, high, " %" if known else "")
        return f"{amount} {'more' if dearer else 'less'} than {self.against}{doubt or self._folly}"

    @property
    def _folly(self) -> str:
        """Say that whoever decides as today would be better off deciding nothing."""
        if not self.constant:
            return ""
        both = f"{number(self.cost)} against {number(self.constant_cost)}"
        return f", which costs more than {self.constant} ({both})"


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
    """Return what a method saves against a practice."""
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
    saving = Saving(practice.against, mean, low, high, percent, percent_low, percent_high, cost=cost)
    better = _better_constant(practice)
    if better is None or better[0] == method:
        return saving
    name, constant_cost = better
    call = practice.classes[name == "always-positive"]
    return saving._replace(constant=f"calling everything {call}", constant_cost=constant_cost)


def _better_constant(practice: Practice) -> tuple[str, float] | None:
    """Return the constant decision that is clearly cheaper than what is done today, and what it costs."""
    costs = practice.costs
    found = {}
    for name in CONSTANTS:
        if name in costs.methods and excess_in(costs, TODAY, name).low > 0:
            found[name] = float(np.nanmean(costs.costs[costs.methods.index(name)]))
    return min(found.items(), key=lambda item: item[1], default=None)
