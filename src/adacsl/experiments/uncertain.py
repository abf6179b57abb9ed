"""What a comparison says about prices that are known as ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from adacsl.core.ranges import factors_of
from adacsl.experiments.ratios import at_ratio
from adacsl.experiments.statistics.regret import find_regret
from adacsl.report.data import Regret

if TYPE_CHECKING:
    from adacsl.experiments.comparison import Comparison


def regret_in(found: Comparison, view: tuple[str, float], given: Mapping[str, Any] | None = None) -> Regret:
    """Return the regret of all methods of a view, over the ranges that are given, or were said with the costs."""
    data, ratio = view
    about = found.facts["data"][data]
    ranges = {name: tuple(ends) for name, ends in about.get("ranges", {}).items()} | dict(given or {})
    names = found.table.query("data == @data and ratio == @ratio")["method"]
    outcomes = {name: found.outcome(name, data=data, ratio=ratio) for name in names}
    # ranges are about the costs as they were given; this view may have been run at another ratio
    costs = next(iter(outcomes.values())).costs.averaged()
    factors = factors_of(at_ratio(costs, ratio), ranges or None)
    name = str(found.verdicts[view].recommended)  # without a recommendation there are no words about it
    said = bool(ranges)
    return find_regret(outcomes, factors, ratio=ratio, entries=found.paired[view], recommended=name, said=said)


def words_of(regrets: Mapping[tuple[str, float], Regret], place: Callable[[str, float], str] | None) -> str:
    """Return what all regrets say, a line for each; ``place`` says of what, where there are several."""
    lines = {view: found.words for view, found in regrets.items() if found.words}
    return "\n".join(f"{place(*view)}: {words}" if place else words for view, words in lines.items())
