"""Recommended method of a comparison: the rule, and its text."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from adacsl.base.extras import requires
from adacsl.base.html import html_lines
from adacsl.comparison.fits import FitKey, Stopped
from adacsl.comparison.statistics import (
    BASELINE,
    CONSTANTS,
    BaselineCosts,
    RowCosts,
    Saving,
    enough_splits,
    excess_in,
    names_of,
    saving_of,
    sentence_name,
    span,
)
from adacsl.metrics.intervals import Interval
from adacsl.thresholds.constraints import InfeasibleError

with requires("compare"):
    import pandas as pd


FEW = 2
"""The largest number of methods with significantly higher costs that are named; more are counted."""


def describe(
    result: Recommendation,
    rows: Mapping[str, Mapping[Any, Any]],
    base: str | None,
    tolerance: float,
    *,
    prefer: str = "cost",
) -> str:
    """Return a recommendation in a few sentences.

    Parameters
    ----------
    result : Recommendation
        Without its text.
    rows : mapping
        The rows of the summary by method, lowest cost first.
    base : str or None
        The lowest-cost method that predicts.
    tolerance : float
        The share of the lowest cost that a simpler method may cost more.
    prefer : str
        "cost" or "simple".
    """
    if result.recommended is None:
        return f"{_nothing(result, rows)} {_missing_folds(result, rows)}".strip()
    parts = [
        _what(result, rows, base, tolerance, prefer),
        _cost(result, rows),
        _sure(result, rows),
        result.others,
        _simpler(result, rows),
        _missing_folds(result, rows),
    ]
    return " ".join(part for part in parts if part)


def _nothing(result: Recommendation, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Return why no method is recommended."""
    if max(row["n"] for row in rows.values()) == 1:
        lowest = f"The lowest cost on it: {sentence_name(result.cheapest)}."
        return f"No recommendation: one split shows no variance; give more folds or repeats. {lowest}"
    methods = [name for name in (*result.tied, *result.doubtful, *result.worse) if name not in CONSTANTS]
    if result.cheapest != BASELINE or not methods:
        return "No recommendation: no method has enough finished folds."
    lowest = min(methods, key=lambda name: rows[name]["rank"])
    return (
        "Keep your current decisions: every method costs significantly more. The lowest-cost method, "
        f"{lowest}, costs {_more(rows[lowest])}."
    )


def _what(
    result: Recommendation, rows: Mapping[str, Mapping[Any, Any]], base: str | None, tolerance: float, prefer: str
) -> str:
    """Return a sentence with the recommended method and the reason."""
    method = str(result.recommended)
    if len(rows) == 1:
        return f"Only {sentence_name(method)} was evaluated: there is nothing to compare it with."
    if result.cheapest == BASELINE:
        return (
            f"Keep your current decisions: no method costs significantly less. Of the methods, recommended: {method}."
        )
    if BASELINE in result.tied:
        name = sentence_name(method)
        return f"Recommended: {name}, or your current decisions: no method costs significantly less than these."
    if method in CONSTANTS:
        beaten = ": the methods that predict cost significantly more" if base else ", the lowest cost"
        return f"Recommended: {sentence_name(method)}{beaten}."
    return f"Recommended: {method}{_reason(result, rows, base, tolerance, prefer)}."


def _reason(
    result: Recommendation, rows: Mapping[str, Mapping[Any, Any]], base: str | None, tolerance: float, prefer: str
) -> str:
    if result.recommended != base:
        limit = f"at most {100 * tolerance:g} % above"
        if prefer == "simple":
            return f", the simplest method {limit} the lowest cost ({base})"
        return f", the simplest method with no significant difference from the lowest cost ({base}) and {limit} it"
    if result.recommended != result.cheapest:
        return ", the lowest cost of the methods that predict"
    if not {*result.tied, *result.doubtful, *result.worse}:
        return ", the only method with enough finished folds"
    count = len(rows) - (BASELINE in rows)
    return ", which costs significantly less than your current decisions" if count == 1 else _lowest_of(result, count)


def _lowest_of(result: Recommendation, count: int) -> str:
    alone = not (result.tied or result.doubtful)
    return f", {'significantly ' if alone else ''}the lowest cost of {count} methods"


def _cost(result: Recommendation, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Return a sentence with the mean cost per sample, and the saving."""
    mean, low, high = (rows[str(result.recommended)][name] for name in ("mean", "low", "high"))
    amount = f"cost {span(mean, low, high, '')}" if mean >= 0 else f"benefit {span(-mean, -high, -low, '')}"
    saved = f", {result.saving.words}" if result.saving else ""
    return f"Mean {amount} per sample{saved}."


def _sure(result: Recommendation, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Return a sentence with the difference from the lowest cost."""
    method, first = str(result.recommended), result.cheapest
    if first in (method, BASELINE):
        return ""
    judged = "a significant difference" if method in result.worse else "no significant difference"
    unsure = ": predicting is not shown to cost less" if first in CONSTANTS else ""
    return f"It costs {_more(rows[method])} than {sentence_name(first)}, {judged}{unsure}."


def describe_others(result: Recommendation) -> str:
    """Return a sentence with the methods from which the lowest cost differs significantly, as the table does."""
    method, first = str(result.recommended), result.cheapest
    tied, doubtful, worse = (
        [name for name in some if name not in (method, BASELINE)]
        for some in (result.tied, result.doubtful, result.worse)
    )
    it = "it" if method == first else sentence_name(first)
    parts = [f"no significant difference between {it} and {names_of(tied)}"] if tied else []
    if doubtful:
        verb = "costs" if len(doubtful) == 1 else "cost"
        parts.append(f"{names_of(doubtful)} probably {verb} more (not significant after correction for multiple tests)")
    if worse:
        named = f"{len(worse)} others" if len(worse) > FEW else names_of(worse)
        parts.append(f"{named} {'costs' if len(worse) == 1 else 'cost'} significantly more")
    text = "; ".join(parts)
    return f"{'N' + text[1:] if text.startswith('no ') else text}." if parts else ""


def _simpler(result: Recommendation, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Return a sentence with the simpler method that costs significantly more, and how much."""
    if result.simpler is None:
        return ""
    name, percent, low, high = result.simpler
    amount = span(percent, low, high, " %")
    more = f"earns {amount} less" if rows[str(result.recommended)]["mean"] < 0 else f"costs {amount} more"
    return f'{name} is simpler and {more}: --prefer simple (prefer="simple" in Python) recommends it.'


def _more(row: Mapping[Any, Any]) -> str:
    """Return ``12 % (95 % CI 5-19 %) more``, or units of cost where a percentage has no meaning."""
    if math.isfinite(row["percent"]):
        return f"{span(row['percent'], row['percent_low'], row['percent_high'], ' %')} more"
    return f"{span(row['difference'], row['difference_low'], row['difference_high'], '')} more"


def _missing_folds(result: Recommendation, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Return a sentence with the methods that have too few folds, or the leading methods that lack some."""
    most = max(row["n"] for row in rows.values())
    unjudged = [name for name in rows if name not in {result.cheapest, *result.tied, *result.doubtful, *result.worse}]
    if unjudged:
        return f"Too few folds to judge: {names_of(unjudged)}."
    leading = dict.fromkeys(str(name) for name in (result.recommended, result.cheapest) if name)
    short = [name for name in leading if rows[name]["n"] < most]
    return f"{names_of(short)} finished fewer than all {most} folds." if short else ""


TOLERANCE = 0.10
"""The share of the lowest cost that a simpler method may cost more, at most."""

Prefer = Literal["cost", "simple"]
"""Which of the methods within the tolerance is recommended; see :func:`recommendation`."""


class Simpler(NamedTuple):
    """A simpler method that costs significantly more than the recommended one, but no more than the tolerance."""

    method: str
    percent: float
    """How much more it costs than the lowest-cost method that predicts, in percent of that cost, with its 95 % CI."""
    percent_low: float
    percent_high: float


@dataclass(frozen=True)
class Recommendation:
    """Recommended method and the reasons; ``str(recommendation)`` is the text."""

    recommended: str | None
    """The recommended method, never one that costs significantly more than another unless simplicity is preferred;
    None where the evidence supports no recommendation."""
    cheapest: str | None
    """The lowest mean cost: a method, a constant baseline or the current decisions."""
    tied: tuple[str, ...]
    """Methods without a significant difference from it, lowest cost first."""
    worse: tuple[str, ...]
    """Methods with significantly higher costs, lowest cost first."""
    text: str
    """The recommendation in a few sentences."""
    doubtful: tuple[str, ...] = ()
    """Methods whose higher costs are significant only without the correction for multiple tests."""
    saving: Saving | None = None
    """The saving of the recommended method against the baseline."""
    simpler: Simpler | None = None
    """The alternative that ``prefer="simple"`` would recommend, if that is another method."""
    others: str = field(default="", compare=False, repr=False)
    """The sentence of the text on the significance of the other methods."""

    @property
    def brief(self) -> str:
        """The text without the sentence on the other methods, for a place that shows the table."""
        return self.text.replace(f" {self.others}", "", 1) if self.others else self.text

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return html_lines(self.text)


def recommendations(
    summary: pd.DataFrame,
    *,
    simplest_first: Sequence[str],
    tolerance: float = TOLERANCE,
    paired: Mapping[tuple[str, float], RowCosts] | None = None,
    prefer: Prefer = "cost",
    baseline: Callable[[tuple[str, float], str], BaselineCosts | None] | None = None,
    stopped: Collection[Stopped] = (),
) -> dict[tuple[str, float], Recommendation]:
    """Return a recommendation for each data set and ratio of a summary; parameters as in :func:`recommendation`."""
    result = {}
    for (data, ratio), block in cast("Any", summary.groupby(["data", "ratio"])):
        view = (str(data), float(ratio))
        of_view: Any = None if baseline is None else functools.partial(baseline, view)
        costs = (paired or {}).get(view)
        out = [each.method for each in stopped if each[:2] == view]
        result[view] = recommendation(
            block, simplest_first=simplest_first, tolerance=tolerance, prefer=prefer, costs=costs, baseline=of_view,
            stopped=out,
        )  # fmt: skip
    return result


def recommendation(
    summary: pd.DataFrame,
    *,
    simplest_first: Sequence[str],
    tolerance: float = TOLERANCE,
    prefer: Prefer = "cost",
    costs: RowCosts | None = None,
    baseline: Callable[[str], BaselineCosts | None] | None = None,
    stopped: Collection[str] = (),
) -> Recommendation:
    """Return the recommended method for one data set and ratio, with the reasons as text.

    Recommended is the simplest of the methods whose cost does not differ significantly from that of the lowest-cost
    method that predicts, and exceeds it by at most ``tolerance`` at the upper end of the interval; often that is the
    lowest-cost method itself. A simpler method within the tolerance that costs significantly more is returned as
    ``simpler``. The constant baseline is recommended where the methods that predict cost significantly more. Where all
    methods cost significantly more than the current decisions, none is recommended.

    Parameters
    ----------
    summary : pandas.DataFrame
        Rows of one data set and ratio, from :func:`~adacsl.comparison.statistics.summarise`.
    simplest_first : sequence of str
        Methods by simplicity; methods that are not listed are the least simple.
    tolerance : float, default 0.1
        The share of the lowest cost (0.1: 10 %) that a simpler method may cost more.
    prefer : {"cost", "simple"}, default "cost"
        "simple" recommends the simplest method within the tolerance even where it costs significantly more.
    costs : RowCosts, optional
        Costs of the samples behind the summary. Without them, where a constant baseline or the current decisions have
        the lowest cost, the lowest-cost method that predicts is recommended.
    baseline : callable, optional
        Returns the costs under the baseline and under the method it is called with. Default: no baseline.
    stopped : collection of str
        Methods that were not run on all splits because they cost significantly more: never recommended.

    Returns
    -------
    Recommendation
        The recommended method, if there is one, the significance of the others, and the text.

    See Also
    --------
    adacsl.Comparison : Its ``recommendation`` is that of a comparison.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix, compare
    >>> from adacsl.comparison.recommendation import recommendation
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X.sum(axis=1) > 1).astype(int)
    >>> methods = ["always-positive", "logistic"]
    >>> result = compare(X, y, CostMatrix(fp=1, fn=8), methods=methods, repeats=1,
    ...                  folds=2, n_jobs=1, progress=False)
    >>> simplest_first = ["always-positive", "logistic"]
    >>> recommendation(result.table, simplest_first=simplest_first).recommended
    'logistic'
    """
    blocks = summary[["data", "ratio"]].drop_duplicates()
    if len(blocks) != 1:
        raise ValueError(
            f"recommendation needs a summary of one data set and ratio, got {len(blocks)}: use recommendations"
        )
    check_tolerance(tolerance)
    check_preference(prefer)
    table = summary.sort_values(["rank", "method"]).set_index("method")
    rows = {str(name): row for name, row in table.to_dict("index").items()}
    result = _by_significance(rows, simplest_first, stopped)
    offered = [name for name in _judged(rows) if name not in stopped]
    predicting = [name for name in offered if name not in CONSTANTS and name != BASELINE]
    base = _lowest(predicting, rows, simplest_first) if predicting else None
    if len(rows) == 1 or max(row["n"] for row in rows.values()) > 1:
        excess = {name: _excess(name, str(base), rows, costs) for name in predicting}
        near = [name for name, interval in excess.items() if interval.high <= tolerance]
        chosen = _recommended(result, rows, offered, excess, near, simplest_first, prefer, costs)
        saving = saving_of(chosen, baseline(chosen)) if baseline and chosen and base else None
        simpler = _simpler_than(chosen, near, excess, simplest_first)
        result = replace(result, recommended=chosen, saving=saving, simpler=simpler)
    if result.recommended is not None:
        result = replace(result, others=describe_others(result))
    return replace(result, text=describe(result, rows, base, tolerance, prefer=prefer))


def check_tolerance(tolerance: float) -> None:
    """Raise unless a tolerance is a share of a cost."""
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance is a share of the cost from 0 to below 1, got {tolerance!r}")


def check_preference(prefer: str) -> None:
    """Raise unless ``prefer`` is a known preference."""
    if prefer not in get_args(Prefer):
        raise ValueError(f"prefer must be 'cost' or 'simple', got {prefer!r}")


# the parts of a recommendation; ``rows`` are those of the summary by method, lowest cost first


def _judged(rows: Mapping[str, Mapping[Any, Any]]) -> list[str]:
    """Return the methods that have enough splits."""
    kept = enough_splits(np.asarray([row["n"] for row in rows.values()]))
    return [name for name, judged in zip(rows, kept, strict=True) if judged]


def _by_significance(
    rows: Mapping[str, Mapping[Any, Any]], simplest_first: Sequence[str], stopped: Collection[str]
) -> Recommendation:
    """Return the methods by the significance of their difference to the lowest cost; nothing is recommended yet."""
    lead = next(row["rank"] for row in rows.values() if row["significance"] == "lowest cost")
    enough = _judged(rows)
    judged = [name for name in rows if name in enough or name in stopped]
    first = [name for name in judged if rows[name]["rank"] == lead and name not in stopped]
    cheapest = _simplest(first, simplest_first)  # of equal costs
    kinds: dict[str, list[str]] = {
        "no significant difference": [],
        "not significant (corrected)": [],
        "significantly higher": [],
    }
    for name in (name for name in judged if name != cheapest):
        # of equal costs another may have "lowest cost" in the table
        significance = rows[name]["significance"]
        kinds["no significant difference" if significance == "lowest cost" else significance].append(name)
    tied, doubtful, worse = map(tuple, kinds.values())
    return Recommendation(None, cheapest, tied, worse, "", doubtful)


def _lowest(names: Iterable[str], rows: Mapping[str, Mapping[Any, Any]], simplest_first: Sequence[str]) -> str:
    """Return the lowest-cost method of some; of equal costs, the simplest."""
    known = list(names)
    first = min(rows[name]["rank"] for name in known)
    return _simplest([name for name in known if rows[name]["rank"] == first], simplest_first)


def _excess(name: str, base: str, rows: Mapping[str, Mapping[Any, Any]], costs: RowCosts | None) -> Interval:
    """Return how much more a method costs than another, as a share of the other's cost or benefit; NaN: unknown."""
    row, scale = rows[name], abs(rows[base]["mean"])
    if name == base:
        return Interval(0.0, 0.0, 0.0)
    if rows[base]["rank"] == next(other["rank"] for other in rows.values() if other["significance"] == "lowest cost"):
        if math.isfinite(row["percent"]):
            return Interval(*(row[f"percent{end}"] / 100 for end in ("", "_low", "_high")))
        ends = tuple(row[f"difference{end}"] for end in ("", "_low", "_high"))
    else:
        ends = (math.nan,) * 3 if costs is None else excess_in(costs, name, base)[:3]
    return Interval(*(end / scale if scale else math.copysign(math.inf, end) * (end != 0) for end in ends))


def _recommended(
    result: Recommendation,
    rows: Mapping[str, Mapping[Any, Any]],
    judged: Sequence[str],
    excess: Mapping[str, Interval],
    near: Sequence[str],
    simplest_first: Sequence[str],
    prefer: Prefer,
    costs: RowCosts | None,
) -> str | None:
    """Return the recommended method.

    ``judged`` are those with enough splits that were not stopped, ``excess`` is how much more the methods that predict
    cost than the lowest-cost one of them, ``near`` are those within the tolerance.
    """
    offered = [name for name in judged if name != BASELINE]
    if not offered:
        return None
    first = _lowest(offered, rows, simplest_first)
    equal = [name for name in near if excess[name].low <= 0 and name not in result.worse]
    chosen: str | None = None
    if first in CONSTANTS and _all_above(excess, first, result, rows, costs):
        chosen = first
    elif equal:
        chosen = _simplest(near if prefer == "simple" else equal, simplest_first, rows)
    elif result.cheapest in CONSTANTS:
        chosen = result.cheapest
    return None if chosen in result.worse and prefer == "cost" else chosen


def _all_above(
    predicting: Iterable[str],
    constant: str,
    result: Recommendation,
    rows: Mapping[str, Mapping[Any, Any]],
    costs: RowCosts | None,
) -> bool:
    """Return whether all methods that predict cost significantly more than a constant baseline."""
    if constant == result.cheapest:
        return all(name in result.worse for name in predicting)
    return all(_excess(name, constant, rows, costs).low > 0 for name in predicting)


def _simpler_than(
    chosen: str | None, near: Sequence[str], excess: Mapping[str, Interval], simplest_first: Sequence[str]
) -> Simpler | None:
    """Return the simplest method within the tolerance, if it is simpler than the one that is recommended."""
    if chosen is None or chosen not in near:
        return None
    name = _simplest([chosen, *near], simplest_first)
    if name == chosen or name not in simplest_first:
        return None
    return Simpler(name, *(100 * end for end in excess[name]))


def _simplest(
    methods: Iterable[str], simplest_first: Sequence[str], rows: Mapping[str, Mapping[Any, Any]] | None = None
) -> str:
    """Return the simplest of some methods; of those not listed the lowest-cost one, then the first by name."""
    places = {name: place for place, name in enumerate(simplest_first)}
    return str(min(methods, key=lambda name: (places.get(name, len(places)), rows[name]["rank"] if rows else 0, name)))


LONGEST = 200
"""The largest number of characters of a reason that are shown."""


INFEASIBLE = "not feasible"
"""How the reason of a method begins whose decisions cannot meet the constraints in some folds: it is not compared."""


class Missing(NamedTuple):
    """A method that lacks folds on one data set at one ratio."""

    data: str
    ratio: float
    method: str
    folds: int
    """Number of folds that are planned."""
    done: int
    """Number of folds with a result."""
    failed: int
    """Number of folds that failed."""
    reason: str
    """The error of the first fold that failed."""

    @property
    def withholds(self) -> bool:
        """Whether nothing can be recommended without it; a method that failed in all folds is not in the table."""
        return self.failed < self.folds

    def __str__(self) -> str:
        if self.reason.startswith(INFEASIBLE):
            return f"{self.method} is {self.reason}"
        if self.failed:
            rest = self.folds - self.done - self.failed
            unfinished = f", {rest} to do" if rest else ""
            return f"{self.method} failed in {self.failed} of {self.folds} folds ({self.reason}){unfinished}"
        return f"{self.method} ({f'{self.done} of {self.folds} folds' if self.done else 'not started'})"


def missing_of(planned: Iterable[FitKey], done: Collection[FitKey], failures: pd.DataFrame) -> list[Missing]:
    """Return the methods that lack folds, in the order of their names."""
    errors: dict[tuple[str, float, str], list[str]] = {}
    infeasible: dict[tuple[str, float, str], list[str]] = {}
    fits = set(planned)
    for row in failures.to_dict("records"):
        fit = FitKey(*(row[name] for name in FitKey._fields))
        fits.add(fit)
        if row["type"] == InfeasibleError.__name__:
            infeasible.setdefault(fit[:3], []).append(_one_line(row["message"]))
        errors.setdefault(fit[:3], []).append(_one_line(f"{row['type']}: {row['message']}"))
    folds = Counter(fit[:3] for fit in fits)
    lacking = Counter(fit[:3] for fit in fits if fit not in done)
    for view, own in infeasible.items():  # of all its folds
        lacking[view] = folds[view]
        errors[view] = [f"{INFEASIBLE} in {len(own)} of {folds[view]} folds ({own[0]})"] * folds[view]
    return [
        Missing(*view, folds[view], folds[view] - count, len(errors.get(view, ())), errors.get(view, [""])[0])
        for view, count in sorted(lacking.items())
    ]


def completed(recommendation: Recommendation, missing: Sequence[Missing], progress: str) -> Recommendation:
    """Return a recommendation that names methods that lack folds, and recommends nothing while some may be finished.

    ``progress`` states how many fits of an unfinished comparison are done; empty where nothing is left to do.
    """
    if not missing:
        return recommendation
    failed, unfinished = ([each for each in missing if bool(each.failed) == kind] for kind in (True, False))
    lines = [f"{'; '.join(map(str, failed))}."] if failed else []
    if not any(each.withholds for each in missing):
        return replace(recommendation, text=" ".join([recommendation.text, *lines]))
    until = "o recommendation until every method has every fold."
    head = f"{progress}: n{until}" if progress else f"N{until}"
    if any(each.withholds for each in failed):
        lines[0] = f"{lines[0].removesuffix('.')}: run it again, or compare without it."
    if unfinished:
        lines.insert(0, f"Missing: {', '.join(map(str, unfinished))}.")
    return replace(recommendation, recommended=None, saving=None, simpler=None, text=" ".join([head, *lines]))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."
