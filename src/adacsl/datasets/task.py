"""Task: data with their labels, costs, groups, times and weights."""

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

COST_NAMES = re.compile(r"c_(fp|fn|tp|tn)", re.IGNORECASE)


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """A data set with its labels and costs.

    Parameters
    ----------
    name : str
        A short name, fit for a file name.
    X : pandas.DataFrame of n rows, or uint8 array N x H x W x C
        Features (also text, dates and missing values), or images.
    y : array of shape (n,)
        1 = positive, the class whose false negatives cost ``fn``; of more than two classes their numbers, 0 to K - 1.
    costs : CostMatrix
        Class-wide or per sample; of K classes in the order of ``classes``.
    groups : array of shape (n,), optional
        Samples of one group are never split across folds.
    classes : tuple of str, default ("0", "1")
        Names of the negative and the positive class, or of the K classes.
    source : str, default ""
        Source of the data, for the report.
    sample_weight : array of shape (n,), optional
        Weight of each sample.
    cost_spec : CostMatrix, optional
        The cost specification, where it is more than ``costs``: expressions over columns, or ranges.
    time : array of shape (n,), optional
        Observation times, datetime64 or numbers: the past trains, the latest samples are tested on.
    baseline : Baseline, optional
        Current decision for each sample, excluded from the features.
    findings : tuple of Finding, default ()
        Findings about its costs before they were clipped.
    segments : mapping from str to array of shape (n,), optional
        Values by which results are also shown, such as regions. Models do not use them.
    reading : ReadSummary, optional
        Summary of what was left out when the data were read.

    See Also
    --------
    adacsl.datasets.load_task : Reads a file, or a bundled data set.
    adacsl.comparison.compare_tasks : Compares methods on tasks.

    Examples
    --------
    >>> from adacsl import CostMatrix, Task
    >>> X, y = [[1.0], [2.0], [3.0]], ["ill", "well", "well"]
    >>> task = Task.from_data(X, y, CostMatrix(fp=1, fn=8), pos_label="ill")
    >>> task.classes, task.y.tolist()
    (('well', 'ill'), [1, 0, 0])
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
                raise ValueError(f"segment {name!r} must hold one value for each of {n} samples, got {values.shape}")
        if self.time is not None and self.time.shape != (n,):
            raise ValueError(f"time must hold one time for each of {n} samples, got shape {self.time.shape}")
        if self.baseline is not None and self.baseline.values.shape != (n,):
            raise ValueError(
                f"baseline must hold one decision for each of {n} samples, got shape {self.baseline.values.shape}"
            )
        if len(self.X) != n or (self.groups is not None and len(self.groups) != n):
            raise ValueError(f"X, y and groups must be equally long, got {len(self.X)} samples for {n} labels")
        k, many = len(self.classes), "two" if len(self.classes) == 2 else len(self.classes)
        if self.costs.n_classes != k or self.costs.n_instances not in (None, n):
            raise ValueError(
                f"a task of {n} samples needs costs of {many} classes, class-wide or per sample, got {self.costs!r}"
            )
        if not self.costs.square or self.costs.classes not in (None, self.classes):
            raise ValueError(
                f"the costs of a task must be those of its classes, {self.classes}, in their order: {self.costs!r}"
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
        """Return data in memory as a task.

        Parameters
        ----------
        X : table, or uint8 images N x H x W x C
            pandas, polars, pyarrow, numpy, or a sparse matrix of scipy, which is made dense.
        y : array of shape (n,)
            Labels of two classes, or of as many as the cost matrix has.
        costs : CostMatrix, mapping of fp, fn, tp and tn, or "balanced", optional
            Default: "balanced", for two classes: inverse class frequencies. A cost may be an expression over columns of
            X, ``{"fp": 1, "fn": "0.8 * amount"}``, or a range, ``(5, 20)``.
        pos_label : label, optional
            The positive class, whose false negatives cost ``fn``; not needed for 0/1, -1/1 and False/True.
        groups : array of shape (n,), optional
            Group of each sample.
        sample_weight : array of shape (n,), optional
            Weight of each sample.
        time : array of shape (n,) or str, optional
            Observation times (dates, ISO text or numbers), or the column of X that holds them, which is excluded from
            the features.
        baseline : array of shape (n,) or str, optional
            Current decisions: labels as in y, 0 and 1, or scores from 0 to 1 (threshold 0.5); or the column of X that
            holds them, which is excluded from the features.
        segments : str, sequence of str, or mapping from str to array of shape (n,), optional
            Columns of X by which results are also shown, which stay features; or values of each sample by name.
        name : str, default "data"
            Name of the data.

        Returns
        -------
        Task
            The data, checked.

        Raises
        ------
        ValueError
            Where labels, costs and columns do not fit together.

        Examples
        --------
        >>> from adacsl import Task
        >>> X, y = [[1.0], [2.0], [3.0]], ["ill", "well", "well"]
        >>> task = Task.from_data(X, y, {"fp": 1, "fn": 8}, pos_label="ill")
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
        features, spec = _as_features(X), cost_specification(costs, labels, classes=classes)
        resolved, kept = resolve(spec, labels, features, name), kept_specification(spec, features)
        current = Baseline.read(baseline, features, classes)
        strange = check_costs(spec, labels, features, given=costs is not None)
        shown = read_segments(segments, features)
        apart = [*spec.hidden, *([current.column] if current and current.column else [])]
        features = features.drop(columns=apart) if apart else features
        return cls(
            name, features, labels, resolved, groups, classes, sample_weight=weight, cost_spec=kept, time=times,
            baseline=current, findings=strange, segments=shown,
        )  # fmt: skip

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.X.shape))
        return f"Task({self.name!r}, {shape}, classes={list(self.classes)}, costs={self.costs})"

    @property
    def images(self) -> bool:
        """Whether the samples are images."""
        return isinstance(self.X, np.ndarray) and self.X.ndim == 4

    def take(self, rows: NDArray[Any]) -> Any:
        """Return the features of some samples.

        Parameters
        ----------
        rows : array
            Positions.

        Returns
        -------
        pandas.DataFrame or array
            Some rows of X.
        """
        return self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows]

    def rows(self, index: Any) -> Task:
        """Return the task of some samples, which may be of one class.

        Parameters
        ----------
        index : slice, or array of positions or booleans
            Which samples.

        Returns
        -------
        Task
            The smaller task.

        Examples
        --------
        >>> from adacsl import Task
        >>> task = Task.from_data([[1.0], [2.0], [3.0]], [0, 1, 1], {"fp": 1, "fn": 8})
        >>> task.rows(slice(1, 3)).y.tolist()
        [1, 1]
        """
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
        """Cache of costs that were learned from some of the samples, by these."""
        return {}

    @cached_property
    def worked_out(self) -> dict[Any, Any]:
        """Cache of values that all fits share: duplicate groups, folds, findings."""
        return {}

    @cached_property
    def parsed(self) -> ParsedTable | None:
        """The features of a table, with text parsed once for all fits; None for images."""
        return ParsedTable(self.X) if isinstance(self.X, pd.DataFrame) else None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of features, labels, groups, weights, times, costs and the baseline."""
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


def _spec_of_rows(spec: CostMatrix, rows: NDArray[np.int64]) -> CostMatrix:
    return spec.made(lambda recipe, *_: recipe.rows(rows) if hasattr(recipe, "rows") else recipe)


def _read_weight(given: Any) -> NDArray[np.float64]:
    weight = np.asarray(as_host(as_array(given, "sample_weight")), dtype=np.float64)
    if not weight.any():
        raise ValueError("sample_weight is zero everywhere: give some samples a positive weight")
    return weight


def _check_weight(weight: NDArray[np.float64], n: int) -> None:
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must hold one number for each of {n} samples, got shape {weight.shape}")
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


# tables with columns of labels, groups, times and baselines


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

    Columns that costs depend on may be in ``drop``; otherwise they stay features, as an amount often is one: drop them
    where they are unknown at prediction time. Excluded from the features are the target, groups, times, baseline,
    columns in ``drop``, columns called ``C_FP``, ``C_FN``, ``C_TP`` or ``C_TN``, and an unnamed column that numbers the
    rows. Columns in ``segments`` stay features unless they are in ``drop``.
    """
    target = target_column(frame.columns, target, name)
    apart = (*drop, *(column for column in (group_column, time_column, baseline_column) if column))
    for column in (*apart, *segments):
        check_column(column, frame.columns, name)
    if baseline_column == target:
        raise DataError(f"column {target!r} of {name} holds the labels: name the column of the current decisions")
    y, called = class_labels(
        frame[target], pos_label, costs=costs, classes=classes, known=known_classes,
        what=f"column {target!r} of {name}",
    )  # fmt: skip
    spec = cost_specification(costs, y, own=own, classes=called)
    resolved, given = resolve(spec, y, frame, name), costs is not None or own is not None
    features = _features(frame, {target, *apart, *spec.hidden}, name)
    groups = _groups(frame, group_column, name) if group_column else None
    time = read_times(frame[time_column], f"the time column {time_column!r} of {name}") if time_column else None
    current = Baseline.read(baseline_column, frame, called)
    try:
        return Task(
            name, features, y, resolved, groups, called, source, cost_spec=kept_specification(spec, frame), time=time,
            baseline=current, findings=check_costs(spec, y, frame, given=given),
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
        raise DataError(
            f"the label column of {name} is not given: name it as target (--target); it has {listed(known)}"
        )
    check_column(target, known, name)
    return target


def _features(frame: pd.DataFrame, excluded: Iterable[str], name: str) -> pd.DataFrame:
    out = set(excluded) | {column for column in frame.columns if COST_NAMES.fullmatch(str(column))}
    out |= {column for column in frame.columns if str(column).startswith("Unnamed: ") and _counts_rows(frame[column])}
    kept = [column for column in frame.columns if column not in out]
    if not kept:
        names = listed(sorted(map(str, out)))
        raise DataError(f"{name} has no column left to learn from: {names} are excluded from the features")
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
