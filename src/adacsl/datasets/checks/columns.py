"""Checks of columns: empty, constant, identifiers, target leakage; times and groups nobody spoke of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adacsl.datasets.checks.codes import Finding, finding
from adacsl.datasets.checks.telling import COVERED, SURE, TELLING, filled_for, told_share
from adacsl.datasets.columns import Column, clean_text, read_columns, recognised
from adacsl.datasets.errors import DataError, listed
from adacsl.datasets.times import date_columns
from adacsl.extras import requires

with requires("train"):
    import pandas as pd

if TYPE_CHECKING:
    from adacsl.datasets.task import Task

MANY = 50
"""Of fewer values, all may differ by chance."""
UNIQUE = 0.9
"""Text that differs in more than this share of the rows is not learned from: hardly a value is seen twice."""
NEARLY = 0.95
"""Values that differ in more than this share of the rows name them, a few repeats and missing values aside."""
FIRST = 1000
"""So many rows are looked at before all are."""
DENSE = 2
"""Whole numbers, nearly all different, within so many times as many places as there are rows, count the rows."""
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
"""Groups, or points of time, of which there are fewer are rather kinds of rows."""


class Columns(NamedTuple):
    """What was found about columns, and which of them only name the rows."""

    findings: list[Finding]
    names: list[str]


def look_at_columns(task: Task) -> Columns:
    """Return what looks wrong about the columns of a table; each column is named for one thing at most."""
    if not isinstance(task.X, pd.DataFrame):
        return Columns(_infinite_array(task.X), [])
    empty, constant, rest = _sorted_out(task.X)
    found = [
        finding(code, f"{_named(names)} {what}: leave {'them' if len(names) > 1 else 'it'} out {_drop(names)}")
        for code, names, what in (
            ("empty-column", empty, "no value at all"),
            ("constant-column", constant, "the same value in all rows"),
        )
        if names
    ]
    odd = {name: seen for name in rest if (seen := _odd(task, name)) is not None}
    leaks = {name for name, seen in odd.items() if seen.code == "column-tells-label"}
    dated = () if task.time is not None else _time_columns(task.X, rest)
    timed, how = next(((name, how) for name, how in dated if name not in leaks), (None, ""))
    if timed is not None:
        advice = f"train on the past and test on the latest, --time-column {timed} (time={timed!r})"
        text = f"{how} {timed!r}), and are split by chance: if it says when a row was, {advice}"
        found.append(finding("time-ignored", text))
    if timed is not None:
        odd.pop(timed, None)
    named = [name for name, seen in odd.items() if seen.code == "looks-like-id"]
    infinite = [name for name in (*constant, *rest) if _holds_infinite(task.X, name)]
    return Columns([*found, *_infinite(infinite), *odd.values()], named)


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
    """Return the kind of a column (number, date or text) and its values as learners see them; None or NaN: missing."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return "number", column
    places, distinct = pd.factorize(column)
    _, kind, values = recognised(read_columns(pd.DataFrame({"column": distinct}))[2](0))
    if kind == "text":
        values = values.astype(object)
        values[values == ""] = None
    return kind, pd.Series(np.append(values, [None if kind == "text" else np.nan])[places])


def _odd(task: Task, name: Any) -> Finding | None:
    """Return the one thing to say about a column: that it groups the rows, tells their labels, or names them."""
    column, seen = _one(task.X, name), None
    kind, values = _recognised(column)
    if (leak := _filled(task, str(name), values)) is not None:
        return leak
    if len(column) >= MANY and kind != "date" and not pd.api.types.is_bool_dtype(column.dtype):
        seen = (_odd_text if kind == "text" else _odd_numbers)(task, str(name), values)
    if seen is not None and seen.code == "groups-likely":
        return seen  # all samples of a group may well be of one class
    return _telling(task, str(name), values) or seen


def _odd_numbers(task: Task, name: str, column: pd.Series[Any]) -> Finding | None:
    """Return whether whole numbers name the rows or group them."""
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
    """Return whether text names the rows, says something else in each, or groups them."""
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
        f"column {name!r} holds text that differs in {levels / len(known):.0%} of the rows: nothing is learned from it "
        f"as it is; make columns of what it says, or leave it out {_drop([name])}",
    )


def _is_something_else(text: pd.Series[Any]) -> bool:
    """Tell whether text is numbers or dates."""
    first = clean_text(text.iloc[:FIRST].to_numpy().astype(object))
    return recognised(Column("", "text", first)).kind != "text"


def is_id(name: str) -> bool:
    """Tell whether a column is called as what names rows is.

    >>> [is_id(name) for name in ("id", "customerID", "PassengerId", "row_no", "paid", "width", "Valid")]
    [True, True, True, True, False, False, False]
    """
    return bool(IDS.search(_words(name)))


def _words(name: str) -> str:
    """Return a name with its words apart: customerID is customer_ID."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip())


def _identity(name: str, what: str, levels: int, n: int) -> Finding:
    where = "every row" if levels == n else f"nearly every row ({levels:,} in {n:,})"
    text = f"column {name!r} holds a different {what} in {where}: it names the rows, and tells nothing about new ones"
    text += "; leave it out"
    return finding("looks-like-id", f"{text} {_drop([name])}")


def _grouping(task: Task, name: str, levels: int) -> Finding | None:
    n = len(task.y)
    if task.groups is not None or not FEW_LEVELS <= levels <= UNIQUE * n:
        return None
    return finding(
        "groups-likely",
        f"column {name!r} names {levels:,} of something in {n:,} rows: rows of one are on both sides of a split, and "
        f"costs look better than they will be; keep them together, --group-column {name} (groups=X[{name!r}])",
    )


def _filled(task: Task, name: str, values: pd.Series[Any]) -> Finding | None:
    found = filled_for(values.notna().to_numpy(), task.y, len(task.classes))
    if found is None:
        return None
    whose = f"{task.classes[found.label]!r} only ({found.share:.0%} of that class)"
    return _leakage(name, f"is filled for {whose}, and missing in all other rows", sure=found.share >= COVERED)


def _telling(task: Task, name: str, values: pd.Series[Any]) -> Finding | None:
    share = told_share(values, task.y, len(task.classes))
    if share < TELLING:
        return None
    told = f"alone tells the label of {100 * share:.4g} % of the rows (each class counted alike)"
    return _leakage(name, told, sure=share >= SURE)


def _leakage(name: str, seen: str, *, sure: bool) -> Finding:
    return finding(
        "column-tells-label",
        f"column {name!r} {seen}: is it known before the decision? If it is an outcome, or the label in other words, "
        f"leave it out {_drop([name])}",
        "stop" if sure else "warn",
    )


def _time_columns(X: pd.DataFrame, names: list[str]) -> Iterator[tuple[Any, str]]:  # noqa: N803
    """Yield columns that may say when rows were, and how: dates, or numbers that put the rows in order."""
    dated = set(date_columns(X.loc[:, ~X.columns.duplicated()]))
    for name in names:
        if str(name) in dated and not BIRTHS.search(str(name)):
            yield name, "rows have dates (column"
    for name in names:
        column = _one(X, name)
        if TIMES.search(_words(str(name))) and pd.api.types.is_numeric_dtype(column.dtype):
            steps = np.diff(column.to_numpy(dtype=np.float64, na_value=np.nan))
            if (steps >= 0).all() and int((steps > 0).sum()) >= FEW_LEVELS:
                yield name, "rows are in the order of a time (column"


def _infinite(names: list[str]) -> list[Finding]:
    if not names:
        return []
    advice = "which are refused in training and prediction: correct them, or leave them missing (NaN)"
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
