"""What a report is made from: plain values, so that anything that has scores, labels and costs can make one."""

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


TODAY = "today"
"""The method that stands for what the user does today."""

SUMMARY_COLUMNS = ("data", "ratio", "method", "n", "cost", "low", "high")


@dataclass(frozen=True, eq=False)
class Outcome:
    """The test rows of one method on one data set at one ratio, of all splits together.

    Parameters
    ----------
    scores : array of shape (n,) or (n, K)
        Probability of the positive class, or of each class.
    labels, decisions : arrays of shape (n,)
        0 or 1, or numbers of classes: what was true, and what the method decided.
    seeds : array of shape (n,)
        Which split each row was tested in.
    fp, fn, tp, tn : float or array of shape (n,)
        What the errors (and being right) cost, of two classes.
    threshold : float, optional
        Decided positive where ``scores > threshold``; None where rows or splits had thresholds of their own.
    matrix : CostMatrix, optional
        What errors cost, of more than two classes.
    rule : str
        How a method of more than two classes decides: "half" is the likeliest class, whatever the costs.
    deciding : CostMatrix, optional
        The prices that were known when deciding, of two classes, where others are paid.
    repeats : int
        How often every row was tested: numbers of cases and sums of money are shown per repeat.
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
        """How many rows."""
        return len(self.scores)

    def per_repeat(self, amounts: Any) -> Any:
        """Return numbers of cases, or sums of money, as they are in one repeat: the mean of all."""
        return amounts if self.repeats == 1 else amounts / self.repeats

    @property
    def cases(self) -> str:
        """Which cases are counted, in words."""
        if self.repeats > 1:
            each = self.per_repeat(self.n)
            return f"All {each:,.0f} rows, each tested once in {self.repeats} repeats; means of these, whole cases."
        splits = len(np.unique(self.seeds))
        return f"All {self.n:,} test cases{f' of {splits} splits' if splits > 1 else ''}."

    @cached_property
    def costs(self) -> CostMatrix:
        """The prices as a cost matrix."""
        if self.matrix is not None:
            return self.matrix
        paid = CostMatrix(fp=self.fp, fn=self.fn, tp=self.tp, tn=self.tn)
        return paid if self.deciding is None else paid.decided_by(self.deciding)

    @property
    def own_costs(self) -> bool:
        """Whether rows have prices of their own."""
        return self.costs.n_instances is not None

    @property
    def n_classes(self) -> int:
        """How many classes."""
        return self.costs.n_classes

    @property
    def class_names(self) -> list[str]:
        """The names of the classes, their numbers where they have none."""
        return [str(name) for name in self.costs.classes or range(self.n_classes)]


def repeats_of(tested: Sequence[NDArray[np.int64]]) -> int:
    """Return how often every row was tested, from the rows of each split; 1 where that differs, as by chance.

    Examples
    --------
    >>> [repeats_of(rows) for rows in ([[0, 1], [2], [0, 2], [1]], [[0, 1], [2]], [[0, 1], [1, 2]])]
    [2, 1, 1]
    """
    times = np.unique(np.concatenate(tested), return_counts=True)[1]
    return int(times[0]) if times.min() == times.max() else 1


class Regret(NamedTuple):
    """How much dearer than the cheapest each method is, should the prices be others within a range."""

    curve: pd.DataFrame
    """method, ratio, cost, regret, percent, standing, within: at prices within the range, and a little beyond."""
    table: pd.DataFrame
    """method, percent, regret, at, cheapest, undecided: the worst of each method, the least bad first."""
    cheapest: pd.DataFrame
    """low, high, method: which costs least from which ratio to which."""
    low: float
    """From how many false alarms that a miss is worth,"""
    high: float
    """to how many."""
    ratio: float
    """What was run."""
    said: bool
    """Whether somebody gave the range."""
    words: str
    """All that in a few sentences, about the recommended method."""


UNKNOWN = Interval(np.nan, np.nan, np.nan)


class Saved(NamedTuple):
    """What the recommended method saves against a baseline."""

    against: str
    """The baseline, in words."""
    percent: Interval
    """How many percent of its cost."""
    each: Interval = UNKNOWN
    """How much per row."""
    today: Interval = UNKNOWN
    """What the baseline costs per row."""
    outcome: Outcome | None = None
    """The test rows as the baseline decides them."""
    other: str = ""
    """Another baseline, in words, which costs more."""
    other_cost: float = np.nan
    """Its cost per row."""


@dataclass(frozen=True, eq=False)
class ReportData:
    """Everything a report shows.

    Parameters
    ----------
    title : str
        What was compared.
    verdicts : mapping from (data, ratio) to str
        The answer in plain words, and with it the views of the page in their order.
    facts : mapping from str to str
        Where all this comes from: rows, splits, costs, versions, device, date, command; "intervals" is how they
        were computed, said beside the first of them too.
    results : DataFrame
        One row per finished cell.
    summary : DataFrame
        One row per data set, ratio and method: n, cost, low, high, normalized_cost, savings, difference, p, standing.
    ranks : DataFrame, optional
        Average ranks over many data sets: method, rank; the critical difference in a column of that name.
    outcomes : mapping from (data, ratio, method) to Outcome
        Test rows; where they are missing, the page leaves out what needs them.
    histories : mapping from (data, ratio, method, split) to list of dict
        By epoch: epoch, fold, lambda, threshold, val_cost, train_cost.
    classes : (str, str)
        What the negative and the positive class are called; more than two have their names in the outcomes' costs.
    recommended : mapping from (data, ratio) to str or None
        The recommended method; None: none is recommended. Without a view: the one with the lowest cost.
    banner : str
        How much of an unfinished comparison is done, such as "9 of 90 runs done"; shown above everything.
    unit : str
        What costs are counted in, such as EUR.
    titles : mapping from str to str
        One line about each method.
    explained : mapping from (data, ratio) to DataFrame
        What each column is worth to a fitted model, as ``permutation_cost`` returns it.
    overall : str
        The verdict over all data sets, shown above the ranks.
    regrets : mapping from (data, ratio) to Regret
        What other prices would mean, of two classes.
    savings : mapping from (data, ratio) to Saved
        What the recommended method saves against a baseline.
    volume : float, optional
        How many rows are decided about in a year: money is shown per year too.
    people : str
        What rows are called, such as customers.
    segments : mapping from (data, ratio) to DataFrame
        What the recommended method costs in parts of the rows.
    overview : mapping from str to DataFrame
        The columns of each data set.
    checks : mapping from str to list of dict
        What was seen in each data set: code, severity ("stop", "warn" or "note"), text, page.
    model : mapping from (data, ratio) to mapping from str to str
        The model card: what the recommended method was trained on, is for, and is not.
    """

    title: str
    verdicts: Mapping[tuple[str, float], str]
    facts: Mapping[str, str]
    results: pd.DataFrame
    summary: pd.DataFrame
    ranks: pd.DataFrame | None = None
    outcomes: Mapping[tuple[str, float, str], Outcome] = field(default_factory=dict)
    histories: Mapping[tuple[str, float, str, int], Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    classes: tuple[str, str] = ("negative", "positive")
    recommended: Mapping[tuple[str, float], str | None] = field(default_factory=dict)
    unit: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    overall: str = ""
    explained: Mapping[tuple[str, float], pd.DataFrame] = field(default_factory=dict)
    regrets: Mapping[tuple[str, float], Regret] = field(default_factory=dict)
    savings: Mapping[tuple[str, float], Saved] = field(default_factory=dict)
    volume: float | None = None
    people: str = "rows"
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
                raise ValueError(f"what each column is worth needs the columns {missing}, as permutation_cost has them")
        if self.volume is not None and not 0 < self.volume < np.inf:
            raise ValueError(f"volume is a number of decisions per year above 0, such as 50000; got {self.volume!r}")
        if not self.verdicts:
            raise ValueError("a report needs at least one verdict: {(data, ratio): text}")
        unknown = [view for view in self.verdicts if self.summary_of(view).empty]
        if unknown:
            raise ValueError(f"the summary has no rows for {unknown[0]}, which a verdict speaks of")

    @property
    def views(self) -> list[tuple[str, float]]:
        """Data sets and ratios in the order of the verdicts."""
        return list(self.verdicts)

    def summary_of(self, view: tuple[str, float]) -> pd.DataFrame:
        """Return the summary rows of a view, cheapest first."""
        rows = self.summary[(self.summary["data"] == view[0]) & (self.summary["ratio"] == view[1])]
        return rows.sort_values("cost", kind="stable", ignore_index=True)

    def results_of(self, data: str) -> pd.DataFrame:
        """Return the cells of a data set, of all ratios."""
        return self.results[self.results["data"] == data] if "data" in self.results.columns else self.results

    def outcomes_of(self, view: tuple[str, float]) -> dict[str, Outcome]:
        """Return the outcomes of a view by method, cheapest first."""
        names = self.summary_of(view)["method"]
        return {name: self.outcomes[(*view, name)] for name in names if (*view, name) in self.outcomes}

    def histories_of(self, view: tuple[str, float]) -> dict[tuple[str, int], Sequence[Mapping[str, Any]]]:
        """Return the histories of a view by method and split."""
        return {(key[2], key[3]): steps for key, steps in self.histories.items() if key[:2] == view and steps}

    def recommended_of(self, view: tuple[str, float]) -> str:
        """Return the recommended method, by default the one with the lowest cost: what figures show."""
        names = self.summary_of(view)["method"]
        return self.recommended.get(view) or str(next((name for name in names if name != TODAY), names.iloc[0]))

    def recommends(self, view: tuple[str, float]) -> bool:
        """Tell whether a method is recommended."""
        return self.recommended.get(view, "") is not None
