"""Which method to take: for one data set and cost ratio, and over many."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from adacsl.core.html import html_lines
from adacsl.core.intervals import Interval
from adacsl.experiments.statistics.differences import enough_splits
from adacsl.experiments.statistics.enough import luck
from adacsl.experiments.statistics.paired import RowCosts
from adacsl.experiments.statistics.ranking import Ranks, block_word
from adacsl.experiments.statistics.savings import Practice, Saving, excess_in, paired_differences, saving_of
from adacsl.experiments.statistics.sentences import told, what_would_tell
from adacsl.experiments.statistics.wording import CONSTANTS, TODAY, deed, names_of
from adacsl.extras import requires

with requires("compare"):
    import pandas as pd

TOLERANCE = 0.10
"""So much dearer than the cheapest, at most, may a method be that is taken because it is simpler."""


@dataclass(frozen=True)
class Verdict:
    """What to take, and why; ``str(verdict)`` is the text."""

    recommended: str | None
    """The simplest method that is at most so much dearer than the cheapest; None where nothing can be said."""
    cheapest: str | None
    """What has the lowest mean cost (or average rank): a method, a constant decision or today's practice."""
    tied: tuple[str, ...]
    """The others that cannot be told from it, cheapest first."""
    worse: tuple[str, ...]
    """Those that are clearly worse, cheapest first."""
    text: str
    """A few sentences."""
    doubtful: tuple[str, ...] = ()
    """Those that are probably worse: alone they would count as worse, among so many it may be chance."""
    saving: Saving | None = None
    """What the recommended method saves against today's practice."""

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return html_lines(self.text)


def verdicts(
    summary: pd.DataFrame,
    *,
    simplest_first: Sequence[str],
    tolerance: float = TOLERANCE,
    paired: Mapping[tuple[str, float], RowCosts] | None = None,
    practice: Callable[[tuple[str, float], str], Practice | None] | None = None,
) -> dict[tuple[str, float], Verdict]:
    """Return a verdict for each data set and ratio of a summary; parameters as in :func:`verdict`."""
    found = {}
    for (data, ratio), block in cast("Any", summary.groupby(["data", "ratio"])):
        view = (str(data), float(ratio))
        habit: Any = None if practice is None else functools.partial(practice, view)
        costs = (paired or {}).get(view)
        found[view] = verdict(block, simplest_first=simplest_first, tolerance=tolerance, costs=costs, practice=habit)
    return found


def verdict(
    summary: pd.DataFrame,
    *,
    simplest_first: Sequence[str],
    tolerance: float = TOLERANCE,
    costs: RowCosts | None = None,
    practice: Callable[[str], Practice | None] | None = None,
) -> Verdict:
    """Say in plain words which method to take for one data set and ratio.

    Recommended is the simplest method whose excess over the cheapest one that predicts is at most ``tolerance``, at the
    upper end of its interval; that is the cheapest itself where no simpler one is shown to be as good. A constant
    decision is recommended only where every method that predicts is clearly dearer, what is done today never.

    Parameters
    ----------
    summary : DataFrame
        Rows of one data set and ratio, from :func:`summarise`.
    simplest_first : sequence of str
        Methods by simplicity; one that is not named counts as less simple than all that are.
    tolerance : float, default 0.1
        The share of the cost of the cheapest (0.1: 10 %) that simplicity may cost.
    costs : RowCosts, optional
        Costs of the rows behind the summary. Without them nothing is said about how many repeats would tell, and where
        a constant decision or today's practice is the cheapest, the cheapest method that predicts is recommended.
    practice : function, optional
        Of the recommended method; returns what is done today. None: nothing to compare with.
    """
    blocks = summary[["data", "ratio"]].drop_duplicates()
    if len(blocks) != 1:
        raise ValueError(f"verdict needs a summary of one data set and ratio, got {len(blocks)}: use verdicts")
    check_tolerance(tolerance)
    table = summary.sort_values(["rank", "method"]).set_index("method")
    rows = {str(name): row for name, row in table.to_dict("index").items()}
    found = _standings(rows, simplest_first)
    predicting = [name for name in _judged(rows) if name not in CONSTANTS and name != TODAY]
    base = _lowest(predicting, rows, simplest_first) if predicting else None
    outlook = ""
    if len(rows) == 1 or max(row["n"] for row in rows.values()) > 1:
        dearer = {name: _excess(name, str(base), rows, costs) for name in predicting}
        taken = _recommended(found, rows, dearer, simplest_first, tolerance, costs)
        saving = saving_of(taken, practice(taken)) if practice and taken and base else None
        found = replace(found, recommended=taken, saving=saving)
        outlook = _outlook(found, dearer, simplest_first, tolerance, costs)
    return replace(found, text=told(found, rows, base, tolerance, outlook))


def check_tolerance(tolerance: float) -> None:
    """Refuse what is no share of a cost."""
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance is a share of the cost from 0 to below 1, got {tolerance!r}")


# the parts of a verdict; ``rows`` are those of the summary by method, cheapest first


def _judged(rows: Mapping[str, Mapping[Any, Any]]) -> list[str]:
    """Return who has enough splits."""
    kept = enough_splits(np.asarray([row["n"] for row in rows.values()]))
    return [name for name, judged in zip(rows, kept, strict=True) if judged]


def _standings(rows: Mapping[str, Mapping[Any, Any]], simplest_first: Sequence[str]) -> Verdict:
    """Return how all stand against the cheapest; nothing is recommended yet."""
    lead = next(row["rank"] for row in rows.values() if row["standing"] == "cheapest")
    judged = _judged(rows)
    cheapest = _simplest([name for name in judged if rows[name]["rank"] == lead], simplest_first)  # of equal costs
    kinds: dict[str, list[str]] = {"not told apart": [], "probably worse": [], "clearly worse": []}
    for name in (name for name in judged if name != cheapest):
        # of equal costs another may be called cheapest
        standing = rows[name]["standing"]
        kinds["not told apart" if standing == "cheapest" else standing].append(name)
    tied, doubtful, worse = map(tuple, kinds.values())
    return Verdict(None, cheapest, tied, worse, "", doubtful)


def _lowest(names: Iterable[str], rows: Mapping[str, Mapping[Any, Any]], simplest_first: Sequence[str]) -> str:
    """Return the cheapest of some methods; of equal costs, the simplest."""
    known = list(names)
    first = min(rows[name]["rank"] for name in known)
    return _simplest([name for name in known if rows[name]["rank"] == first], simplest_first)


def _excess(name: str, base: str, rows: Mapping[str, Mapping[Any, Any]], costs: RowCosts | None) -> Interval:
    """Return how much dearer a method is than another, as a share of what that costs or earns; NaN: not known."""
    row, scale = rows[name], abs(rows[base]["mean"])
    if name == base:
        return Interval(0.0, 0.0, 0.0)
    if rows[base]["rank"] == next(other["rank"] for other in rows.values() if other["standing"] == "cheapest"):
        if math.isfinite(row["percent"]):
            return Interval(*(row[f"percent{end}"] / 100 for end in ("", "_low", "_high")))
        ends = tuple(row[f"difference{end}"] for end in ("", "_low", "_high"))
    else:
        ends = (math.nan,) * 3 if costs is None else excess_in(costs, name, base)[:3]
    return Interval(*(end / scale if scale else math.copysign(math.inf, end) * (end != 0) for end in ends))


def _recommended(
    found: Verdict,
    rows: Mapping[str, Mapping[Any, Any]],
    dearer: Mapping[str, Interval],
    simplest_first: Sequence[str],
    tolerance: float,
    costs: RowCosts | None,
) -> str | None:
    """Return the method to take; ``dearer`` is the excess of those that predict over the cheapest of them."""
    offered = [name for name in _judged(rows) if name != TODAY]
    if not offered:
        return None
    first = _lowest(offered, rows, simplest_first)
    if first in CONSTANTS:
        if first == found.cheapest:
            beaten = all(name in found.worse for name in dearer)
        else:
            beaten = all(_excess(name, first, rows, costs).low > 0 for name in dearer)
        if beaten:
            return first
    return _simplest([name for name, excess in dearer.items() if excess.high <= tolerance], simplest_first, rows)


def _outlook(
    found: Verdict,
    dearer: Mapping[str, Interval],
    simplest_first: Sequence[str],
    tolerance: float,
    costs: RowCosts | None,
) -> str:
    """Say how many repeats or rows would settle what is open, if that matters."""
    taken, border = found.recommended, 0.0
    if costs is None or taken is None or taken in CONSTANTS:
        return ""
    if TODAY in costs.methods and found.saving and not found.saving.sure:
        pair, question = (taken, TODAY), f"whether {taken} is cheaper than what you do today"
    elif found.cheapest in CONSTANTS:
        pair, question = (taken, str(found.cheapest)), "whether predicting is worth it"
    else:
        # who was taken because it is simple enough needs no more certainty
        rivals = [name for name, excess in dearer.items() if excess.low <= tolerance < excess.high]
        simplest = _simplest([taken, *(rivals if taken == found.cheapest else ())], simplest_first)
        if simplest == taken:
            return ""
        pair, question = (simplest, taken), f"whether {simplest} is at most {100 * tolerance:g} % dearer"
        border = tolerance * abs(float(np.nanmean(costs.costs[costs.methods.index(taken)])))
    return what_would_tell(luck(*paired_differences(costs, *pair)), border, question)


def _simplest(
    methods: Iterable[str], simplest_first: Sequence[str], rows: Mapping[str, Mapping[Any, Any]] | None = None
) -> str:
    """Return the simplest of some methods; of those not listed the cheapest, then the first by name."""
    places = {name: place for place, name in enumerate(simplest_first)}
    return str(min(methods, key=lambda name: (places.get(name, len(places)), rows[name]["rank"] if rows else 0, name)))


# over many data sets


def overall(over: Ranks, *, simplest_first: Sequence[str], tolerance: float = TOLERANCE) -> Verdict:
    """Say in plain words which method to take over many data sets, from their average ranks.

    It is the simplest whose rank cannot be told from the lowest, and whose mean cost is at most ``tolerance`` above
    that of the lowest ranked. A constant decision is recommended only where it ranks clearly best, what is done today
    never.
    """
    check_tolerance(tolerance)
    names = over.table["method"].tolist()
    average, mean = (dict(zip(names, over.table[column].tolist(), strict=True)) for column in ("average_rank", "mean"))
    lowest_ranked = [name for name in names if average[name] <= min(average.values()) + 1e-9]
    cheapest = _simplest(lowest_ranked, simplest_first) if names else None
    where = f"{over.n_blocks} {block_word(over.blocks, over.n_blocks)}"
    lowest = f" Lowest average rank: {cheapest} ({average[cheapest]:.1f})." if cheapest and len(names) > 1 else ""
    if cheapest is None or over.critical_difference is None:
        return Verdict(None, cheapest, (), (), f"No verdict over data sets: {over.reason}.{lowest}")
    close = next((group for group in over.groups if cheapest in group), (cheapest,))
    tied = tuple(name for name in close if name != cheapest)
    worse = tuple(name for name in names if name not in close and name != cheapest)
    if over.critical_difference >= len(names) - 1:
        text = f"{where} are too few to tell {len(names)} methods apart by rank."
        return Verdict(None, cheapest, tied, worse, text + lowest + _left_out(over))
    predicting = [name for name in (cheapest, *tied) if name not in CONSTANTS and name != TODAY]
    base = min(predicting, key=lambda name: (average[name], name), default=cheapest)
    near = [name for name in predicting if mean[name] <= mean[base] + tolerance * abs(mean[base])]
    recommended = _simplest(near, simplest_first) if near else None if cheapest == TODAY else cheapest
    and_worse = f"; {names_of(worse)} {'ranks' if len(worse) == 1 else 'rank'} clearly worse" if worse else ""
    text = _overall_words(over, average, cheapest, recommended, tied, where) + and_worse + "."
    return Verdict(recommended, cheapest, tied, worse, text + _left_out(over))


def _overall_words(
    over: Ranks, average: dict[str, float], cheapest: str, recommended: str | None, tied: tuple[str, ...], where: str
) -> str:
    place = f"average rank {average[cheapest]:.1f} of {len(average)}"
    if recommended is None:
        return f"Over {where} keep what you do today: it ranks clearly best ({place})"
    if recommended != cheapest:
        return (
            f"Over {where} use {recommended}: the simplest that predicts, ranks not clearly worse than the best and "
            f"costs little more. {deed(cheapest)} has the lowest average rank ({average[cheapest]:.1f}; {recommended}: "
            f"{average[recommended]:.1f}; differences up to {over.critical_difference:.1f} may be chance)"
        )
    if tied:
        return f"Over {where} {cheapest} ranks best ({place}); {names_of(tied)} cannot be told from it"
    return f"Over {where} {cheapest} ranks clearly best ({place})"


def _left_out(over: Ranks) -> str:
    return f" Not measured everywhere and left out: {names_of(over.left_out)}." if over.left_out else ""
