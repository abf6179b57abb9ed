"""A task: data with their labels, costs, groups and weights: one value from the door to the learner."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_array, as_host, refuse_masked, refuse_reordered
from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.baseline import Baseline
from adacsl.datasets.columns import ParsedTable, dense
from adacsl.datasets.costs import Costs, check_costs, cost_specification, kept_specification, resolve
from adacsl.datasets.errors import DataError, check_column, listed, one_line
from adacsl.datasets.findings import Finding
from adacsl.datasets.labels import class_labels
from adacsl.datasets.readers.base import NOTHING, Reading
from adacsl.datasets.segments import read_segments
from adacsl.datasets.time import read_times, take_times

with requires("train"):
    import pandas as pd

PRICE_NAMES = re.compile(r"c_(fp|fn|tp|tn)", re.IGNORECASE)


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """A data set and what its errors cost.

    Parameters
    ----------
    name : str
        A short name, fit for a file name.
    X : DataFrame of n rows, or uint8 array N x H x W x C
        Features as they came (text, dates, missing values), or images.
    y : array of shape (n,)
        1 = positive, the class whose misses cost ``fn``; of more than two classes their numbers, 0 to K - 1.
    costs : CostMatrix
        Class-wide, or of each row; of K classes in the order of ``classes``.
    groups : array of shape (n,), optional
        Rows of one group never stand on both sides of a split.
    classes : tuple of str
        What the negative and the positive class are called, or the K classes.
    source : str
        Where the data came from, for the report.
    sample_weight : array of shape (n,), optional
        How much each row counts.
    cost_spec : CostMatrix, optional
        The costs as they were said, where ``costs`` are not all of it: prices over columns, or known as a range.
    time : array of shape (n,), optional
        When each row was, datetime64 or numbers: the past trains, the latest rows are tested on.
    baseline : Baseline, optional
        What is done today about each row; no feature.
    findings : tuple of Finding
        What looked wrong about its prices as they came, before they were clipped.
    segments : mapping from str to array of shape (n,)
        What results are also shown by, such as regions. Results do not depend on it.
    reading : Reading
        What was left out of the data when they were read.
    """

    name: str
    X: Any
    y: NDArray[np.int64]
    costs: CostMatrix
    groups: NDArray[Any] | None = None
    classes: tuple[str, ...] = ("0", "1")
    source: str = ""
    sample_weight: NDArray[np.float64] | None = None
    cost_spec: CostMatrix | None = None
    time: NDArray[Any] | None = None
    baseline: Baseline | None = None
    findings: tuple[Finding, ...] = ()
    segments: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    reading: Reading = NOTHING

    def __post_init__(self) -> None:
        n = len(self.y)
        for name, values in self.segments.items():
            if values.shape != (n,):
                raise ValueError(f"segment {name!r} must hold one value for each of {n} rows, got shape {values.shape}")
        if self.time is not None and self.time.shape != (n,):
            raise ValueError(f"time must hold one time for each of {n} rows, got shape {self.time.shape}")
        if self.baseline is not None and self.baseline.values.shape != (n,):
            raise ValueError(
                f"baseline must hold one decision for each of {n} rows, got shape {self.baseline.values.shape}"
            )
        if len(self.X) != n or (self.groups is not None and len(self.groups) != n):
            raise ValueError(f"X, y and groups must be equally long, got {len(self.X)} rows for {n} labels")
        k, many = len(self.classes), "two" if len(self.classes) == 2 else len(self.classes)
        if self.costs.n_classes != k or self.costs.n_instances not in (None, n):
            raise ValueError(
                f"a task of {n} rows needs costs of {many} classes, for all rows or each, got {self.costs!r}"
            )
        if not self.costs.square or self.costs.classes not in (None, self.classes):
            raise ValueError(
                f"the costs of a task speak of its classes, {self.classes}, in their order: {self.costs!r}"
            )
        if not np.isin(self.y, range(k)).all():
            raise ValueError(
                f"the labels of a task are 0 {'and' if k == 2 else 'to'} {k - 1}; got {np.unique(self.y).tolist()[:5]}"
            )
        if self.sample_weight is not None:
            _check_weight(self.sample_weight, n)

    @classmethod
    def from_data(
        cls,
        X: Any,  # noqa: N803  scikit-learn's name
        y: Any,
        costs: Costs = None,
        *,
        pos_label: object = None,
        groups: Any = None,
        sample_weight: Any = None,
        time: Any = None,
        baseline: Any = None,
        segments: Any = None,
        name: str = "data",
    ) -> Task:
        """Return data held in memory as a task.

        Parameters
        ----------
        X : table, or uint8 images N x H x W x C
            pandas, polars, pyarrow, numpy, or a sparse matrix of scipy's, which is written out.
        y : array of shape (n,)
            Labels of two classes, or of as many as the cost matrix has.
        costs : CostMatrix, mapping of fp, fn, tp and tn, "balanced" or None
            None is "balanced", for two classes: inverse class frequencies. A price may be an expression over columns of
            X, ``{"fp": 1, "fn": "0.8 * amount"}``, or a range, ``(5, 20)``.
        pos_label : label, optional
            The class ``fn`` speaks of; 0/1, -1/1 and False/True need no naming.
        groups, sample_weight : arrays of shape (n,), optional
        time : array of shape (n,) or str, optional
            When each row was (dates, ISO text or numbers), or the column of X that says so, which then is no feature.
        baseline : array of shape (n,) or str, optional
            What is done today: labels as in y, 0 and 1, or scores from 0 to 1 (decided at 0.5); or the column of X that
            holds them, which then is no feature.
        segments : str, sequence of str, or mapping from str to array of shape (n,), optional
            Columns of X that results are also shown by, which stay features; or values of each row by name.
        name : str

        Examples
        --------
        >>> task = Task.from_data([[1.0], [2.0], [3.0]], ["ill", "well", "well"], {"fp": 1, "fn": 8}, pos_label="ill")
        >>> task.y.tolist(), task.classes, list(task.X.columns)
        ([1, 0, 0], ('well', 'ill'), ['x0'])
        """
        refuse_reordered(X, y=y, groups=groups, sample_weight=sample_weight, baseline=baseline)
        for values in (costs, segments):
            if isinstance(values, Mapping):
                refuse_reordered(X, **{str(name): own for name, own in values.items()})
        X, times, _ = take_times(X, time)  # noqa: N806
        labels, classes = class_labels(y, pos_label, costs=costs)
        weight = None if sample_weight is None else _read_weight(sample_weight)
        groups = None if groups is None else np.asarray(groups)
        features, said = _as_features(X), cost_specification(costs, labels, classes=classes)
        settled, kept = resolve(said, labels, features, name), kept_specification(said, features)
        today = Baseline.read(baseline, features, classes)
        strange = check_costs(said, labels, features, given=costs is not None)
        shown = read_segments(segments, features)
        apart = [*said.hidden, *([today.column] if today and today.column else [])]
        features = features.drop(columns=apart) if apart else features
        return cls(
            name, features, labels, settled, groups, classes, sample_weight=weight, cost_spec=kept, time=times,
            baseline=today, findings=strange, segments=shown,
        )  # fmt: skip

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.X.shape))
        return f"Task({self.name!r}, {shape}, classes={list(self.classes)}, costs={self.costs})"

    @property
    def images(self) -> bool:
        """Whether the rows are images."""
        return isinstance(self.X, np.ndarray) and self.X.ndim == 4

    def take(self, rows: NDArray[Any]) -> Any:
        """Return some rows of X."""
        return self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows]

    def rows(self, index: Any) -> Task:
        """Return the task of some rows (positions, a slice or a mask), which may be of one class."""
        positions = np.arange(len(self.y))[index]
        return replace(
            self,
            X=self.take(positions),
            y=self.y[positions],
            costs=self.costs.rows(positions),
            cost_spec=None if self.cost_spec is None else _spec_of_rows(self.cost_spec, positions),
            groups=None if self.groups is None else self.groups[positions],
            sample_weight=None if self.sample_weight is None else self.sample_weight[positions],
            time=None if self.time is None else self.time[positions],
            baseline=None if self.baseline is None else self.baseline.rows(positions),
            segments={name: values[positions] for name, values in self.segments.items()},
        )

    @cached_property
    def learned(self) -> dict[Any, CostMatrix]:
        """Costs with prices that were learned from some of its rows, by which ones: learned once."""
        return {}

    @cached_property
    def worked_out(self) -> dict[Any, Any]:
        """What is the same for all fits, by what it is: rows that stay together, folds."""
        return {}

    @cached_property
    def parsed(self) -> ParsedTable | None:
        """The features of a table, with text parsed once for all fits; None for images."""
        return ParsedTable(self.X) if isinstance(self.X, pd.DataFrame) else None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything: features, labels, groups, weights, times, costs and what is done today."""
        sha = hashlib.sha256(self.costs.to_json().encode())
        sha.update(np.ascontiguousarray(self.y).tobytes())
        if self.groups is not None:
            sha.update("\0".join(map(str, self.groups.tolist())).encode())
        if self.sample_weight is not None:
            sha.update(b"sample_weight" + np.ascontiguousarray(self.sample_weight).tobytes())
        if self.time is not None:
            sha.update(f"time:{self.time.dtype}".encode() + np.ascontiguousarray(self.time).tobytes())
        if self.baseline is not None:
            sha.update(b"baseline" + np.ascontiguousarray(self.baseline.values).tobytes())
        if self.cost_spec is not None and self.cost_spec.learns:
            sha.update(self.cost_spec.to_json().encode())
        if isinstance(self.X, pd.DataFrame):
            sha.update("\0".join(f"{name}:{kind}" for name, kind in self.X.dtypes.items()).encode())
            sha.update(pd.util.hash_pandas_object(self.X, index=False).to_numpy().tobytes())
        else:
            sha.update(str(self.X.shape).encode())
            sha.update(np.ascontiguousarray(self.X).tobytes())
        return sha.hexdigest()


def _spec_of_rows(said: CostMatrix, rows: NDArray[np.int64]) -> CostMatrix:
    return said.made(lambda recipe, *_: recipe.rows(rows) if hasattr(recipe, "rows") else recipe)


def _read_weight(given: Any) -> NDArray[np.float64]:
    weight = np.asarray(as_host(as_array(given, "sample_weight")), dtype=np.float64)
    if not weight.any():
        raise ValueError("sample_weight is zero everywhere: nothing is left to weigh")
    return weight


def _check_weight(weight: NDArray[np.float64], n: int) -> None:
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must hold one number for each of {n} rows, got shape {weight.shape}")
    bad = ~np.isfinite(weight) | (weight < 0)
    if bad.any():
        first = int(bad.argmax())
        raise ValueError(f"sample_weight must be finite and not negative, got {weight[first]} in row {first + 1}")


def _as_features(X: Any) -> Any:  # noqa: N803
    refuse_masked(X, "X")
    if isinstance(X, np.ndarray) and X.ndim == 4:
        return X
    if isinstance(X, pd.DataFrame):
        return X.reset_index(drop=True)
    if hasattr(X, "to_pandas"):
        return X.to_pandas()
    return pd.DataFrame(np.asarray(dense(X))).rename(columns=lambda number: f"x{number}")


# a table whose columns still have to be told apart


def table_task(
    frame: pd.DataFrame,
    *,
    name: str,
    target: str | None = None,
    pos_label: object = None,
    costs: Costs = None,
    group_column: str | None = None,
    time_column: str | None = None,
    baseline_column: str | None = None,
    segments: Sequence[str] = (),
    drop: Sequence[str] = (),
    own: CostMatrix | None = None,
    classes: tuple[str, ...] | None = None,
    known_classes: Sequence[str] | None = None,
    source: str = "",
) -> Task:
    """Return a table as a task.

    Columns that prices depend on may be in ``drop``; otherwise they stay features, as an amount often is one: drop them
    where they are not known when a decision is made. No features are: the target, the groups, the times, what is
    done today, what is in ``drop``, columns called ``C_FP``, ``C_FN``, ``C_TP`` or ``C_TN``, and an unnamed column that
    counts the rows. Columns in ``segments`` stay features unless they are in ``drop``.
    """
    target = target_column(frame.columns, target, name)
    apart = (*drop, *(column for column in (group_column, time_column, baseline_column) if column))
    for column in (*apart, *segments):
        check_column(column, frame.columns, name)
    if baseline_column == target:
        raise DataError(f"column {target!r} of {name} holds the labels: the baseline is what is done without them")
    y, called = class_labels(
        frame[target], pos_label, costs=costs, classes=classes, known=known_classes,
        what=f"column {target!r} of {name}",
    )  # fmt: skip
    said = cost_specification(costs, y, own=own, classes=called)
    settled, given = resolve(said, y, frame, name), costs is not None or own is not None
    features = _features(frame, {target, *apart, *said.hidden}, name)
    groups = _groups(frame, group_column, name) if group_column else None
    time = read_times(frame[time_column], f"the time column {time_column!r} of {name}") if time_column else None
    today = Baseline.read(baseline_column, frame, called)
    try:
        return Task(
            name, features, y, settled, groups, called, source, cost_spec=kept_specification(said, frame), time=time,
            baseline=today, findings=check_costs(said, y, frame, given=given),
            segments=read_segments(segments, frame),
        )  # fmt: skip
    except ValueError as error:
        raise DataError(one_line(error)) from error


def target_column(columns: Iterable[str], target: str | None, name: str) -> str:
    """Return the column of the labels: the one named, or ``target``."""
    known = list(columns)
    if target is None:
        if "target" in known:
            return "target"
        raise DataError(f"which column of {name} holds the labels (the target)? Name it; it has {listed(known)}")
    check_column(target, known, name)
    return target


def _features(frame: pd.DataFrame, left_out: Iterable[str], name: str) -> pd.DataFrame:
    out = set(left_out) | {column for column in frame.columns if PRICE_NAMES.fullmatch(str(column))}
    out |= {column for column in frame.columns if str(column).startswith("Unnamed: ") and _counts_rows(frame[column])}
    kept = [column for column in frame.columns if column not in out]
    if not kept:
        raise DataError(f"{name} has no column left to learn from: {listed(sorted(map(str, out)))} are no features")
    for column in kept:
        _check_plain(frame[column], column, name)
    return frame[kept].reset_index(drop=True).set_axis([str(column) for column in kept], axis=1)


def _counts_rows(column: pd.Series[Any]) -> bool:
    if not pd.api.types.is_integer_dtype(column.dtype):
        return False
    numbers = column.to_numpy()
    return bool((np.diff(numbers) == 1).all()) and int(numbers[0]) in (0, 1)


def _check_plain(column: pd.Series[Any], name: str, table: str) -> None:
    if column.dtype != object:
        return
    kinds = sorted({type(value).__name__ for value in column.dropna()} & {"list", "dict", "ndarray", "bytes", "set"})
    if kinds:
        raise DataError(
            f"column {name!r} of {table} holds values of type {kinds[0]}, expected numbers, text or dates: "
            "turn their parts into columns, or drop it"
        )


def _groups(frame: pd.DataFrame, column: str, name: str) -> NDArray[Any]:
    groups = frame[column].reset_index(drop=True)
    missing = groups.isna()
    if missing.any():
        raise DataError(
            f"the group column {column!r} of {name} is missing in {int(missing.sum())} rows, first in row "
            f"{int(missing.to_numpy().argmax()) + 1}: give every row a group"
        )
    return groups.to_numpy()
