"""Data checks before training: target leakage, duplicates, missing values, constant columns."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.datasets.columns import Column, clean_text, read_columns, recognised
from adacsl.datasets.costs import Costs, CostWarning
from adacsl.datasets.duplicates import look_of
from adacsl.datasets.errors import DataError, listed
from adacsl.datasets.findings import Checks, Finding, finding
from adacsl.datasets.task import Task
from adacsl.datasets.time import date_columns

if TYPE_CHECKING:
    from adacsl.datasets.task import Task

with requires("train"):
    import pandas as pd


LEAKAGE = 0.99
"""From this share on a column is suspected of target leakage; honest columns of known tables stay far below."""
SURE = 0.999
"""From this share on a column is the label under another name, but for errors."""
FEW = 30
"""With fewer samples of a class, a column separates the classes by coincidence: of 30 and 30, three in a million."""
LARGE = 20
"""The smallest number of samples with one value that support each other; fewer may be duplicates, or one group."""
COVERED = 0.5
"""A column filled for one class only is an outcome where this share of the class has a value."""
COINCIDENCE = 1e-6
"""The probability below which samples of one class only, among those with a value, are no coincidence."""
AT_FIRST = 60_000
"""Number of samples that are checked before all are."""


def leakage_share(values: Any, y: NDArray[np.int64], n_classes: int) -> float:
    """Return the share of samples whose label one column alone determines, each class weighted equally.

    A sample's label is determined where many samples share its value and most of the others have its label; or,
    of numbers that few samples share, where the next smaller or larger value mostly has its label, and samples of the
    same value do not contradict. Rare texts count as one value, and so do missing values. A sample is no evidence for
    itself, and duplicates are none for each other. 0 where a class has fewer than 30 samples.

    Parameters
    ----------
    values : Series or array of shape (n,)
        Numbers, dates or text.
    y : array of shape (n,)
        Class numbers.
    n_classes : int

    Examples
    --------
    >>> y = np.arange(200) % 2
    >>> leakage_share(pd.Series(np.where(y == 1, "refunded", None)), y, 2)
    1.0
    >>> leakage_share(np.arange(200.0), y, 2)
    0.0
    """
    counts = np.bincount(y, minlength=n_classes)
    column = pd.Series(values).reset_index(drop=True)
    if counts.min() < FEW:
        return 0.0
    some = _some_of_each(y, counts)
    if len(some) < len(y) and _leaked(column.iloc[some], y[some], n_classes) < LEAKAGE:
        return 0.0  # below the limit, whatever it is exactly
    return _leaked(column, y, n_classes)


class Filled(NamedTuple):
    """Number of the only class with values, and the share of its samples that have one."""

    label: int
    share: float


def filled_for(present: NDArray[np.bool_], y: NDArray[np.int64], n_classes: int) -> Filled | None:
    """Return the class that alone has values in a column; None where others have some, or it may be a coincidence.

    Parameters
    ----------
    present : array of shape (n,)
        Whether the column has a value.
    y : array of shape (n,)
        Class numbers.
    n_classes : int

    Examples
    --------
    >>> y = np.arange(200) % 2
    >>> filled_for(y == 1, y, 2), filled_for(np.arange(200) < 100, y, 2)
    (Filled(label=1, share=1.0), None)
    """
    filled, counts = np.bincount(y[present], minlength=n_classes), np.bincount(y, minlength=n_classes)
    n, label = int(filled.sum()), int(filled.argmax())
    if not FEW <= n < len(y) or filled[label] < SURE * n:
        return None
    if n * np.log(counts[label] / len(y)) > np.log(COINCIDENCE):
        return None
    return Filled(label, float(filled[label] / counts[label]))


def _some_of_each(y: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a limited number of samples of each class."""
    most = max(AT_FIRST // len(counts), LARGE)
    if counts.max() <= most:
        return np.arange(len(y))
    rng = np.random.default_rng(0)
    own = (np.flatnonzero(y == k) for k in range(len(counts)))
    some = [rng.choice(rows, most, replace=False) if len(rows) > most else rows for rows in own]
    return np.sort(np.concatenate(some))


def _leaked(column: pd.Series[Any], y: NDArray[np.int64], n_classes: int) -> float:
    levels, ordered = _levels(column)
    table = np.bincount(levels * n_classes + y, minlength=n_classes * (int(levels.max()) + 1)).reshape(-1, n_classes)
    right = _by_their_value(table, ordered=ordered)
    # the share of samples whose label is determined, of each class
    return float(((right * table).sum(axis=0) / table.sum(axis=0)).mean())


def _levels(column: pd.Series[Any]) -> tuple[NDArray[np.int64], bool]:
    """Return the number of each sample's value, and whether these numbers have an order."""
    kind = column.dtype
    if pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan) if pd.api.types.is_numeric_dtype(kind) else column
        return np.asarray(np.unique(np.asarray(values), return_inverse=True)[1], dtype=np.int64), True
    places = np.asarray(pd.factorize(column, use_na_sentinel=False)[0], dtype=np.int64)
    rare = np.bincount(places) < LARGE
    return np.unique(np.where(rare[places], -1, places), return_inverse=True)[1], False


def _by_their_value(table: NDArray[np.int64], *, ordered: bool) -> NDArray[np.bool_]:
    """Return for each value and class whether the other samples of the value, or of its neighbours, have the class."""
    sizes = table.sum(axis=1, keepdims=True)
    mostly = 2 * (table - 1) > sizes - 1
    if not ordered:
        return np.asarray((sizes >= LARGE) & mostly)
    beside = np.zeros(table.shape, dtype=bool)
    beside[1:] |= (2 * table > sizes)[:-1]
    beside[:-1] |= (2 * table > sizes)[1:]
    # few samples of one value may be duplicates: no evidence for each other, but they may contradict
    agree = (2 * (table - 1) >= sizes - 1) & beside
    return np.asarray(np.where(sizes >= LARGE, mostly, agree))


MANY = 50
"""The smallest number of values to judge; fewer may all differ by coincidence."""
UNIQUE = 0.9
"""Text that differs in more than this share of the samples cannot be learned from."""
NEARLY = 0.95
"""Values that differ in more than this share of the samples are identifiers."""
FIRST = 1000
"""Number of samples that are checked before all are."""
DENSE = 2
"""Whole numbers, nearly all different, whose range is below this many times the number of samples, are row numbers."""
ENTITIES = (
    "patient|customer|client|user|subject|person|member|household|family|account|borrower|employee|student|driver|"
    "device|machine|vehicle|card|lesion|animal|farm|company|merchant|applicant|policyholder|visitor|session|case"
)
IDS = re.compile(r"(^|[\W_])(id|uuid|guid|uid|rowid|row_?(no|nr|num|number|index))$", re.IGNORECASE)
GROUPS = re.compile(
    rf"(^|[\W_])({ENTITIES})([\W_]?(id|uuid|guid|uid|no|nr|nbr|num|number|key|code|name))?$", re.IGNORECASE
)
TIMES = re.compile(r"(^|[\W_])(time|date|datetime|timestamp|day|week|month|year|when|created|at)s?$", re.IGNORECASE)
BIRTHS = re.compile(r"birth|born|(^|_)dob($|_)", re.IGNORECASE)
FEW_LEVELS = 20
"""Fewer different values are categories rather than groups or times."""


class Columns(NamedTuple):
    """Findings about columns, and the columns that are identifiers."""

    findings: list[Finding]
    names: list[str]


def look_at_columns(task: Task) -> Columns:
    """Return the findings about the columns of a table; at most one for each column."""
    if not isinstance(task.X, pd.DataFrame):
        return Columns(_infinite_array(task.X), [])
    empty, constant, rest = _sorted_out(task.X)
    result = [
        finding(code, f"{_named(names)} {what}: exclude {'them' if len(names) > 1 else 'it'} {_drop(names)}")
        for code, names, what in (
            ("empty-column", empty, "no value at all"),
            ("constant-column", constant, "the same value in all rows"),
        )
        if names
    ]
    odd = {name: seen for name in rest if (seen := _odd(task, name)) is not None}
    leaks = {name for name, seen in odd.items() if seen.code == "target-leakage"}
    dated = () if task.time is not None else _time_columns(task.X, rest)
    timed, how = next(((name, how) for name, how in dated if name not in leaks), (None, ""))
    if timed is not None:
        advice = f"train on the past and test on the latest, --time-column {timed} (time={timed!r})"
        text = f"column {timed!r} {how}, but folds are random: if it is the observation time, {advice}"
        result.append(finding("time-ignored", text))
    if timed is not None:
        odd.pop(timed, None)
    named = [name for name, seen in odd.items() if seen.code == "looks-like-id"]
    infinite = [name for name in (*constant, *rest) if _holds_infinite(task.X, name)]
    return Columns([*result, *_infinite(infinite), *odd.values()], named)


def _sorted_out(X: pd.DataFrame) -> tuple[list[str], list[str], list[str]]:  # noqa: N803
    """Return the names of columns without a value, with one value only, and the others."""
    empty: list[str] = []
    constant: list[str] = []
    rest: list[str] = []
    for name in dict.fromkeys(X.columns):
        column = _one(X, name)
        if len(_distinct(column.iloc[:FIRST])) > 1 or len(_distinct(column)) > 1:
            rest.append(name)
        else:
            (empty if column.isna().iloc[0] or str(column.iloc[0]).strip() == "" else constant).append(name)
    return empty, constant, rest


def _one(X: pd.DataFrame, name: Any) -> pd.Series[Any]:  # noqa: N803
    column: Any = X[name]
    return column.iloc[:, 0] if isinstance(column, pd.DataFrame) else column  # two of the same name


def _distinct(column: pd.Series[Any]) -> Any:
    try:
        return pd.unique(column)
    except TypeError:
        text = f"column {column.name!r} holds lists or the like: turn their parts into columns, or drop it"
        raise DataError(text) from None


def _recognised(column: pd.Series[Any]) -> tuple[str, pd.Series[Any]]:
    """Return the kind of a column (number, date or text) and its values as learners get them; None or NaN: missing."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return "number", column
    places, distinct = pd.factorize(column)
    seen = recognised(read_columns(pd.DataFrame({"column": distinct}))[2](0))
    kind, values = seen.kind, seen.values
    if kind == "text":
        values = values.astype(object)
        values[values == ""] = None
    return kind, pd.Series(np.append(values, [None if kind == "text" else np.nan])[places])


def _odd(task: Task, name: Any) -> Finding | None:
    """Return the finding about a column: it leaks the label, groups the samples, or identifies them."""
    column, seen = _one(task.X, name), None
    kind, values = _recognised(column)
    if (leak := _filled(task, str(name), values)) is not None:
        return leak
    if len(column) >= MANY and kind != "date" and not pd.api.types.is_bool_dtype(column.dtype):
        seen = (_odd_text if kind == "text" else _odd_numbers)(task, str(name), values)
    if seen is not None and seen.code == "groups-likely":
        return seen  # all samples of a group may well be of one class
    return _leaking(task, str(name), values) or seen


def _odd_numbers(task: Task, name: str, column: pd.Series[Any]) -> Finding | None:
    """Return a finding where whole numbers identify or group the samples."""
    known, n = column.dropna(), len(column)
    if len(known) < MANY or not _whole(known.iloc[:FIRST]) or not _whole(known):
        return None
    numbers, named = known.to_numpy().astype(np.int64), is_id(name)
    levels = len(pd.unique(numbers))
    if levels > (UNIQUE if named else NEARLY) * n:
        dense = int(numbers.max()) - int(numbers.min()) < DENSE * n
        return _identity(name, "whole number", levels, n) if dense or named else None
    return _grouping(task, name, levels) if named or GROUPS.search(_words(name)) else None


def _whole(column: pd.Series[Any]) -> bool:
    if pd.api.types.is_integer_dtype(column.dtype):
        return not bool(column.isna().any())
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return bool(np.isfinite(values).all() and (values == np.trunc(values)).all() and (np.abs(values) < 2**53).all())


def _odd_text(task: Task, name: str, column: pd.Series[Any]) -> Finding | None:
    """Return a finding where text identifies or groups the samples, or differs in each."""
    known = column.dropna()
    grouping = task.groups is None and (is_id(name) or bool(GROUPS.search(_words(name))))
    if len(known) < MANY or (not grouping and len(_distinct(known.iloc[:FIRST])) <= UNIQUE * len(known[:FIRST])):
        return None
    levels = len(_distinct(known))
    if levels <= UNIQUE * len(known):
        return _grouping(task, name, levels) if grouping else None
    text = known.astype(str)
    if _is_something_else(text):
        return None
    if levels > NEARLY * len(column) and not bool(text.str.contains(r"\s", regex=True).any()):
        return _identity(name, "word", levels, len(column))
    return finding(
        "unique-text",
        f"column {name!r} holds text that differs in {100 * levels / len(known):.0f} % of the rows: nothing can be "
        f"learned from it as it is; extract columns from it, or exclude it {_drop([name])}",
    )


def _is_something_else(text: pd.Series[Any]) -> bool:
    """Return whether text is numbers or dates."""
    first = clean_text(text.iloc[:FIRST].to_numpy().astype(object))
    return recognised(Column("", "text", first)).kind != "text"


def is_id(name: str) -> bool:
    """Return whether the name of a column is that of an identifier.

    >>> [is_id(name) for name in ("id", "customerID", "PassengerId", "row_no", "paid", "width", "Valid")]
    [True, True, True, True, False, False, False]
    """
    return bool(IDS.search(_words(name)))


def _words(name: str) -> str:
    """Return a name with its words separated: customerID is customer_ID."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip())


def _identity(name: str, what: str, levels: int, n: int) -> Finding:
    where = "every row" if levels == n else f"nearly every row ({levels:,} in {n:,})"
    text = f"column {name!r} holds a different {what} in {where}: it identifies the rows, and carries no information"
    text += " about new ones; exclude it"
    return finding("looks-like-id", f"{text} {_drop([name])}")


def _grouping(task: Task, name: str, levels: int) -> Finding | None:
    n = len(task.y)
    if task.groups is not None or not FEW_LEVELS <= levels <= UNIQUE * n:
        return None
    return finding(
        "groups-likely",
        f"column {name!r} has {levels:,} values that look like groups in {n:,} rows: groups are split across folds, "
        f"and estimated costs are too low; keep them together, --group-column {name} (groups=X[{name!r}])",
    )


def _filled(task: Task, name: str, values: pd.Series[Any]) -> Finding | None:
    result = filled_for(values.notna().to_numpy(), task.y, len(task.classes))
    if result is None:
        return None
    whose = f"{task.classes[result.label]!r} only ({100 * result.share:.0f} % of that class)"
    return _leakage(name, f"is filled for {whose}, and missing in all other rows", sure=result.share >= COVERED)


def _leaking(task: Task, name: str, values: pd.Series[Any]) -> Finding | None:
    share = leakage_share(values, task.y, len(task.classes))
    if share < LEAKAGE:
        return None
    seen = f"alone determines the label of {100 * share:.4g} % of the rows (each class weighted equally)"
    return _leakage(name, seen, sure=share >= SURE)


def _leakage(name: str, seen: str, *, sure: bool) -> Finding:
    return finding(
        "target-leakage",
        f"column {name!r} {seen}: check that it is known at prediction time; if it is an outcome, or "
        f"another form of the "
        f"label, exclude it {_drop([name])}",
        "error" if sure else "warning",
    )


def _time_columns(X: pd.DataFrame, names: list[str]) -> Iterator[tuple[Any, str]]:  # noqa: N803
    """Yield columns that may be the observation time, with the reason: dates, or numbers that increase."""
    dated = set(date_columns(X.loc[:, ~X.columns.duplicated()]))
    for name in names:
        if str(name) in dated and not BIRTHS.search(str(name)):
            yield name, "contains dates"
    for name in names:
        column = _one(X, name)
        if TIMES.search(_words(str(name))) and pd.api.types.is_numeric_dtype(column.dtype):
            steps = np.diff(column.to_numpy(dtype=np.float64, na_value=np.nan))
            if (steps >= 0).all() and int((steps > 0).sum()) >= FEW_LEVELS:
                yield name, "increases with the rows"


def _infinite(names: list[str]) -> list[Finding]:
    if not names:
        return []
    advice = "which are refused in training and prediction: correct them, or set them to missing (NaN)"
    return [finding("infinite-values", f"{_named(names)} infinite numbers, {advice}")]


def _infinite_array(X: Any) -> list[Finding]:  # noqa: N803
    numbers = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f"
    return _infinite([f"x{i}" for i in np.flatnonzero(np.isinf(X).any(axis=0))]) if numbers else []


def _holds_infinite(X: pd.DataFrame, name: Any) -> bool:  # noqa: N803
    column = _one(X, name)
    if pd.api.types.is_numeric_dtype(column.dtype):
        return bool(np.isinf(column.to_numpy(dtype=np.float64, na_value=np.nan)).any())
    if pd.api.types.is_datetime64_any_dtype(column.dtype) or not _is_something_else(column):
        return False
    known = recognised(Column("", "text", clean_text(column.to_numpy().astype(object))))
    return known.kind == "number" and bool(np.isinf(known.values).any())


def _named(names: list[str]) -> str:
    several = len(names) > 1
    return f"{len(names)} columns ({listed(names)}) hold" if several else f"column {names[0]!r} holds"


def _drop(names: list[str]) -> str:
    return f"(--drop {','.join(map(str, names[:8]))})" if len(names) <= 8 else "(--drop)"


ROWS = 100
"""With fewer samples each of five folds tests on fewer than 20: one sample changes a rate by more than 5 points."""
OF_A_CLASS = 30
"""With fewer samples of a class, the standard error of an error rate of 20 % is more than a third of it."""
LEAST = 10
"""With fewer samples of a class, some of five folds have one of it or none."""
RARE = 0.01
COMMON = 0.6
"""From this share on the positive class is called common."""
COPIES = 0.01
"""From this share of the samples on, duplicates are a warning."""
ALONE = 0.5
"""Equal samples are called duplicates where this share of them has a value that no others have: in coarse columns
different samples are equal by coincidence."""
LOOKED_AT = 2000
"""Number of equal samples that are checked for being duplicates."""


def row_findings(task: Task, names: Sequence[str] = ()) -> Iterator[Finding]:
    """Yield the findings about the number of samples, the classes, and duplicates; ``names`` are identifier columns.

    Samples that differ in nothing but identifiers are duplicates.
    """
    n = len(task.y)
    counts = np.bincount(task.y, minlength=len(task.classes))
    if n < ROWS:
        yield finding("few-rows", f"{n} rows: with fewer than {ROWS}, differences are rarely significant; gather more")
    yield from _few_of_a_class(task, counts)
    if len(task.classes) == 2:
        yield from _shares(task, counts)
    yield from _copies(task, list(names))


def _few_of_a_class(task: Task, counts: Any) -> Iterator[Finding]:
    for label, count in zip(task.classes, counts.tolist(), strict=True):
        if count < OF_A_CLASS:
            text = f"{count} rows are {label!r}: with fewer than {OF_A_CLASS}, the cost of their errors is imprecise"
            yield finding("few-positives", f"{text}; gather more of them", "error" if count < LEAST else None)


def _shares(task: Task, counts: Any) -> Iterator[Finding]:
    share, label = counts[1] / counts.sum(), task.classes[1]
    if share < RARE:
        yield finding(
            "rare-positive",
            f"{100 * share:.2f} % of the rows are {label!r}: accuracy is not informative, as a classifier that "
            f"predicts none has {100 * (1 - share):.2f} %; look at costs, and at the number of positives rather than "
            "of rows",
        )
    ratio = float(task.costs.averaged().ratio)
    given = not any(result.code == "costs-not-given" for result in task.findings)
    if share > COMMON and ratio > 1 and given:
        yield finding(
            "positive-is-common",
            f"{100 * share:.0f} % of the rows are {label!r}, and a false negative costs {ratio:.3g} false positives: "
            "is it the class whose false negatives are costly? Otherwise name the other one "
            f"(--pos-label {task.classes[0]})",
        )


def _copies(task: Task, names: list[str]) -> Iterator[Finding]:
    table = task.X.drop(columns=names) if names and len(names) < task.X.shape[1] else task.X
    # duplicates are equal in the label and the time too
    keys = pd.DataFrame({"look": look_of(table), "y": task.y, "time": 0 if task.time is None else task.time})
    same, n = keys.duplicated().to_numpy(), len(task.y)
    copies = int(same.sum())
    if not copies or (isinstance(table, pd.DataFrame) and _share_alone(table, keys) < ALONE):
        return
    kind = "images" if task.images else "rows"
    but = f" but for {listed(map(repr, names))}" if names else ""
    kept = "" if names else "; comparisons keep duplicates in one fold"
    yield finding(
        "duplicate-rows",
        f"{copies:,} of {n:,} {kind} ({100 * copies / n:.1f} %) are duplicates of others{but}, label included (row "
        f"{same.argmax() + 1} is the first): remove them, unless they are independent samples{kept}",
        None if copies >= COPIES * n else "info",
    )


def _share_alone(table: pd.DataFrame, keys: pd.DataFrame) -> float:
    """Return the share of equal samples that have some value in common with each other only."""
    equal = np.flatnonzero(keys.duplicated(keep=False).to_numpy())
    sizes = keys.iloc[equal].groupby(list(keys), sort=False)["y"].transform("size").to_numpy()[:LOOKED_AT]
    alone = np.zeros(len(sizes), dtype=bool)
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        own = column.iloc[equal[:LOOKED_AT]]
        counts = column[column.isin(own.unique())].value_counts()  # of values that are there: no gaps
        alone |= own.map(counts).to_numpy(dtype=np.float64, na_value=np.nan) == sizes
    return float(alone.mean())


CHECKED = "checks"
"""Key of the findings in a task's cache."""


def check(
    X: Any,  # noqa: N803  scikit-learn's name
    y: Any,
    costs: Costs = None,
    *,
    pos_label: object = None,
    groups: Any = None,
    time: Any = None,
    ignore: Iterable[str] = (),
) -> Checks:
    """Return the findings of checks for target leakage, duplicates and other problems of data.

    Nothing is changed, and no warnings are issued. :doc:`/guide/diagnose/checks` explains each code and its remedy.

    Parameters
    ----------
    X : table, or uint8 images N x H x W x C
        pandas, polars, pyarrow or numpy.
    y : array of shape (n,)
        Labels.
    costs : CostMatrix, mapping of fp, fn, tp and tn, or "balanced", optional
        As in :func:`~adacsl.compare`.
    pos_label : label, optional
        The positive class; not needed for 0/1, -1/1 and False/True.
    groups : array of shape (n,), optional
        Group of each sample.
    time : array of shape (n,) or str, optional
        Observation times, or the column of X that holds them.
    ignore : iterable of str, default ()
        Codes to leave out.

    Returns
    -------
    Checks
        The findings, the most severe first.

    See Also
    --------
    adacsl.CostSensitiveClassifier.check : Checks of a fitted classifier.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from adacsl import check
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> print(check(X, 1 - y, {"fp": 1, "fn": 8}))
    no findings
    >>> check(X.assign(diagnosis=y), 1 - y).codes
    ('target-leakage', 'costs-not-given')
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CostWarning)
        task = Task.from_data(X, y, costs, pos_label=pos_label, groups=groups, time=time)
    return check_task(task, ignore)


def check_task(task: Task, ignore: Iterable[str] = ()) -> Checks:
    """Return the findings about a task, which are computed once; ``ignore`` are codes to leave out."""
    if CHECKED not in task.worked_out:
        columns = look_at_columns(task)
        task.worked_out[CHECKED] = Checks.of([*row_findings(task, columns.names), *task.findings, *columns.findings])
    result: Checks = task.worked_out[CHECKED]
    return result.without(ignore)
