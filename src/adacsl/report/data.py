"""The data of a comparison report: plain values, from a comparison or from scores made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import Array
from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix
from adacsl.metrics.intervals import Interval

with requires("compare"):
    import pandas as pd


BASELINE = "baseline"
"""The name of the user's current decisions among the methods."""

SUMMARY_COLUMNS = ("data", "ratio", "method", "n", "cost", "low", "high")


@dataclass(frozen=True, eq=False)
class Outcome:
    """The test samples of one method on one data set at one cost ratio, of all splits together.

    Parameters
    ----------
    scores : array of shape (n,) or (n, K)
        Probability of the positive class, or of each class.
    labels, decisions : arrays of shape (n,)
        0 or 1, or numbers of classes: actual and predicted.
    seeds : array of shape (n,)
        Which split each sample was tested in.
    fp, fn, tp, tn : float or array of shape (n,)
        Costs of the outcomes, of two classes.
    threshold : float, optional
        Predicted positive where ``scores > threshold``; None where samples or splits have their own thresholds.
    matrix : CostMatrix, optional
        Costs of more than two classes.
    rule : str
        How a method of more than two classes predicts: "half" is the likeliest class, whatever the costs.
    deciding : CostMatrix, optional
        The costs known at prediction time, of two classes, where others are incurred.
    repeats : int
        How often every sample was tested: counts and totals are shown per repeat.
    """

    scores: NDArray[Any]
    labels: NDArray[Any]
    decisions: NDArray[Any]
    seeds: NDArray[Any]
    fp: float | Array = 1.0
    fn: float | Array = 1.0
    tp: float | Array = 0.0
    tn: float | Array = 0.0
    threshold: float | None = None
    matrix: CostMatrix | None = None
    rule: str = ""
    deciding: CostMatrix | None = None
    repeats: int = 1

    def __post_init__(self) -> None:
        n = len(self.scores)
        columns = {"labels": self.labels, "decisions": self.decisions, "seeds": self.seeds}
        wrong = {name: len(values) for name, values in columns.items() if len(values) != n}
        if n == 0 or wrong:
            raise ValueError(f"an outcome needs one label, decision and split for each of its {n} scores, got {wrong}")
        for name in ("labels", "decisions"):
            object.__setattr__(self, name, np.asarray(columns[name]).astype(np.int64))
        scores = np.asarray(self.scores)
        if scores.shape[1:] != (() if self.matrix is None else (self.matrix.n_classes,)):
            raise ValueError(f"scores must have shape (n,), or (n, K) beside a matrix of K classes, got {scores.shape}")
        object.__setattr__(self, "scores", scores if scores.dtype == np.float32 else scores.astype(np.float64))
        object.__setattr__(self, "seeds", np.asarray(self.seeds))

    @property
    def n(self) -> int:
        """Number of test samples."""
        return len(self.scores)

    def per_repeat(self, amounts: Any) -> Any:
        """Return counts or total costs as means over the repeats."""
        return amounts if self.repeats == 1 else amounts / self.repeats

    @property
    def counted(self) -> str:
        """Which samples are counted, in words."""
        if self.repeats > 1:
            each = self.per_repeat(self.n)
            return (
                f"All {each:,.0f} samples, each tested once in {self.repeats} repeats; means of the repeats, rounded."
            )
        splits = len(np.unique(self.seeds))
        return f"All {self.n:,} test samples{f' of {splits} splits' if splits > 1 else ''}."

    @cached_property
    def costs(self) -> CostMatrix:
        """The cost matrix."""
        if self.matrix is not None:
            return self.matrix
        paid = CostMatrix(fp=self.fp, fn=self.fn, tp=self.tp, tn=self.tn)
        return paid if self.deciding is None else paid.decided_by(self.deciding)

    @property
    def own_costs(self) -> bool:
        """Whether costs are per sample."""
        return self.costs.n_instances is not None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.costs.n_classes

    @property
    def class_names(self) -> list[str]:
        """The names of the classes, their numbers where they have none."""
        return [str(name) for name in self.costs.classes or range(self.n_classes)]


def repeats_of(tested: Sequence[NDArray[np.int64]]) -> int:
    """Return how often every sample was tested, from the samples of each split; 1 where that differs.

    Examples
    --------
    >>> [repeats_of(rows) for rows in ([[0, 1], [2], [0, 2], [1]], [[0, 1], [2]], [[0, 1], [1, 2]])]
    [2, 1, 1]
    """
    times = np.unique(np.concatenate(tested), return_counts=True)[1]
    return int(times[0]) if times.min() == times.max() else 1


class Regret(NamedTuple):
    """Extra cost of each method over the lowest cost, for cost ratios within a range.

    Attributes
    ----------
    curve : pandas.DataFrame
        Excess of each method over the lowest cost, by cost ratio.
    table : pandas.DataFrame
        One row per method, the smallest excess first.
    cheapest : pandas.DataFrame
        The method of lowest cost, by range of ratios.
    low : float
        The lowest ratio.
    high : float
        The highest ratio.
    ratio : float
        The ratio of the comparison.
    given : bool
        Whether the user gave the range.
    words : str
        The result as text.

    See Also
    --------
    adacsl.comparison.cost_sensitivity.find_regret : Returns it.

    Examples
    --------
    >>> result.regrets["data", 8.0].table  # doctest: +SKIP
    """

    curve: pd.DataFrame
    """method, ratio, cost, regret, percent, significance, within: at ratios within the range, and a little beyond."""
    table: pd.DataFrame
    """method, percent, regret, at, cheapest, undecided: the worst case of each method, the smallest first."""
    cheapest: pd.DataFrame
    """low, high, method: the lowest-cost method from one ratio to another."""
    low: float
    """Lower end of the range: false positives that one false negative is worth,"""
    high: float
    """and its upper end."""
    ratio: float
    """The ratio of the comparison."""
    given: bool
    """Whether the range was given by the user."""
    words: str
    """A few sentences about the recommended method."""


UNKNOWN = Interval(np.nan, np.nan, np.nan)


class Saved(NamedTuple):
    """Saving of the recommended method against a baseline; negative where it costs more."""

    against: str
    """The baseline, in words."""
    percent: Interval
    """In percent of the baseline's cost."""
    each: Interval = UNKNOWN
    """Per sample."""
    baseline: Interval = UNKNOWN
    """Cost of the baseline per sample."""
    outcome: Outcome | None = None
    """The test samples with the predictions of the baseline."""
    other: str = ""
    """Another baseline, in words, which costs more."""
    other_cost: float = np.nan
    """Its cost per sample."""

    @property
    def nothing(self) -> bool:
        """Whether every sample costs the same with the baseline."""
        return self.each.estimate == self.each.low == self.each.high == 0


@dataclass(frozen=True)
class Terms:
    """Words and units of a report.

    Parameters
    ----------
    unit : str
        Unit of costs, such as EUR.
    people : str
        What samples are called, such as customers.
    volume : float, optional
        Decisions per year: amounts of money are shown per year too.
    classes : (str, str)
        Names of the negative and the positive class.
    """

    unit: str = ""
    people: str = "samples"
    volume: float | None = None
    classes: tuple[str, str] = ("negative", "positive")

    def head(self, text: str) -> str:
        """Return the header of a column of costs, with the unit."""
        return f"{text}, {self.unit}" if self.unit else text

    def amount(self, text: str) -> str:
        """Return an amount with its unit."""
        return f"{text} {self.unit}".strip()


@dataclass(frozen=True, eq=False)
class ReportData:
    """Everything a comparison report shows.

    Parameters
    ----------
    title : str
        Title of the page.
    recommendations : mapping from (data, ratio) to str
        The recommendation in a few sentences, and with it the views of the page in their order.
    facts : mapping from str to str
        Provenance: samples, splits, costs, versions, device, date, command; "intervals" says how intervals were
        computed and is shown beside the first of them too.
    results : DataFrame
        One row per fit; "seconds", where it is there, is the time of the fit.
    summary : DataFrame
        One row per data set, ratio and method: n, cost, low, high, normalized_cost, savings, difference, p,
        significance.
    outcomes : mapping from (data, ratio, method) to Outcome
        Test samples; without them, the sections that need them are left out.
    histories : mapping from (data, ratio, method, split) to list of dict
        By epoch: epoch, fold, lambda, threshold, val_cost, train_cost.
    classes : (str, str)
        Names of the negative and the positive class; more than two have their names in the outcomes' costs.
    recommended : mapping from (data, ratio) to str or None
        The recommended method; None: none is recommended. Without a view: the one with the lowest cost.
    banner : str
        How much of an unfinished comparison is done, such as "9 of 90 runs done"; shown above everything.
    unit : str
        Unit of costs, such as EUR.
    titles : mapping from str to str
        One line about each method.
    explained : mapping from (data, ratio) to DataFrame
        Permutation importance in cost, as ``permutation_cost`` returns it.
    regrets : mapping from (data, ratio) to Regret
        Sensitivity of the recommendation to the costs, of two classes.
    savings : mapping from (data, ratio) to Saved
        Saving of the recommended method against a baseline.
    volume : float, optional
        Decisions per year: money is shown per year too.
    people : str
        What samples are called, such as customers.
    segments : mapping from (data, ratio) to DataFrame
        Cost of the recommended method in each segment.
    overview : mapping from str to DataFrame
        The columns of each data set.
    checks : mapping from str to list of dict
        Findings of the data checks: code, severity ("error", "warning" or "info"), text, page.
    model : mapping from (data, ratio) to mapping from str to str
        The model card of the recommended method.
    """

    title: str
    recommendations: Mapping[tuple[str, float], str]
    facts: Mapping[str, str]
    results: pd.DataFrame
    summary: pd.DataFrame
    outcomes: Mapping[tuple[str, float, str], Outcome] = field(default_factory=dict)
    histories: Mapping[tuple[str, float, str, int], Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    classes: tuple[str, str] = ("negative", "positive")
    recommended: Mapping[tuple[str, float], str | None] = field(default_factory=dict)
    unit: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    explained: Mapping[tuple[str, float], pd.DataFrame] = field(default_factory=dict)
    regrets: Mapping[tuple[str, float], Regret] = field(default_factory=dict)
    savings: Mapping[tuple[str, float], Saved] = field(default_factory=dict)
    volume: float | None = None
    people: str = "samples"
    segments: Mapping[tuple[str, float], pd.DataFrame] = field(default_factory=dict)
    overview: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    checks: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    model: Mapping[tuple[str, float], Mapping[str, str]] = field(default_factory=dict)
    banner: str = ""

    def __post_init__(self) -> None:
        missing = [name for name in SUMMARY_COLUMNS if name not in self.summary.columns]
        if missing:
            raise ValueError(f"the summary of a report needs the columns {missing}, got {list(self.summary.columns)}")
        for worth in self.explained.values():
            known = {"column", *worth.select_dtypes("number").columns} & set(worth.columns)
            missing = [name for name in ("column", "cost", "low", "high") if name not in known]
            if missing:
                raise ValueError(
                    f"permutation importance needs the columns {missing}, as permutation_cost returns them"
                )
        if self.volume is not None and not 0 < self.volume < np.inf:
            raise ValueError(f"volume is a number of decisions per year above 0, such as 50000; got {self.volume!r}")
        if not self.recommendations:
            raise ValueError("a report needs at least one recommendation: {(data, ratio): text}")
        unknown = [view for view in self.recommendations if self.summary_of(view).empty]
        if unknown:
            raise ValueError(f"the summary has no rows for {unknown[0]}, which has a recommendation")

    @property
    def terms(self) -> Terms:
        """Words and units of the report."""
        return Terms(self.unit, self.people, self.volume, self.classes)

    @property
    def views(self) -> list[tuple[str, float]]:
        """Data sets and ratios in their order."""
        return list(self.recommendations)

    def summary_of(self, view: tuple[str, float]) -> pd.DataFrame:
        """Return the summary rows of a view, lowest cost first."""
        rows = self.summary[(self.summary["data"] == view[0]) & (self.summary["ratio"] == view[1])]
        return rows.sort_values("cost", kind="stable", ignore_index=True)

    def results_of(self, data: str) -> pd.DataFrame:
        """Return the fits of a data set, of all ratios."""
        return self.results[self.results["data"] == data] if "data" in self.results.columns else self.results

    def outcomes_of(self, view: tuple[str, float]) -> dict[str, Outcome]:
        """Return the outcomes of a view by method, lowest cost first."""
        names = self.summary_of(view)["method"]
        return {name: self.outcomes[(*view, name)] for name in names if (*view, name) in self.outcomes}

    def histories_of(self, view: tuple[str, float]) -> dict[tuple[str, int], Sequence[Mapping[str, Any]]]:
        """Return the histories of a view by method and split."""
        return {(key[2], key[3]): steps for key, steps in self.histories.items() if key[:2] == view and steps}

    def recommended_of(self, view: tuple[str, float]) -> str:
        """Return the recommended method, by default the one with the lowest cost: the one that figures show."""
        names = self.summary_of(view)["method"]
        return self.recommended.get(view) or str(next((name for name in names if name != BASELINE), names.iloc[0]))

    def recommends(self, view: tuple[str, float]) -> bool:
        """Return whether a method is recommended."""
        return self.recommended.get(view, "") is not None
