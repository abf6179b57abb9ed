"""Costs of a data set, class-wide or per sample, and checks of implausible ones."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host
from adacsl.base.escape import unguarded
from adacsl.base.extras import requires
from adacsl.base.labels import is_number
from adacsl.costs.cells import LEARNED, as_cell
from adacsl.costs.expressions import Expression
from adacsl.costs.matrix import CostMatrix, merge_costs
from adacsl.datasets.errors import DataError, DataWarning, check_column, listed, one_line
from adacsl.datasets.findings import Finding, finding
from adacsl.datasets.readers.formats import stream_table

with requires("train"):
    import pandas as pd


FEW = 20
"""With fewer samples of a class, one easily costs more than all others, or all cost the same."""
TOP = 0.01
"""This share of the samples should not carry more than half of the possible cost of errors."""
LEAKAGE = 0.999
"""Area under the ROC curve of a cost against the label, from which on the cost leaks the label."""


class CostWarning(DataWarning):
    """Per-sample costs that can be used, but are implausible."""


def warn_of_implausible_costs(
    costs: CostMatrix, y: NDArray[np.int64], *, leakage: bool = True, stacklevel: int = 3
) -> list[Finding]:
    """Warn of implausible per-sample costs, before they are clipped; return the findings."""
    result = cost_findings(costs, y, leakage=leakage)
    for each in result:
        warnings.warn(each.text, CostWarning, stacklevel=stacklevel + 1)
    return result


def cost_findings(costs: CostMatrix, y: NDArray[np.int64], *, leakage: bool = True) -> list[Finding]:
    """Return the findings about per-sample costs; class-wide costs have none.

    ``leakage``: also where a cost leaks the label.

    Examples
    --------
    >>> amounts = np.r_[np.full(99, 10.0), 5000.0]
    >>> cost_findings(CostMatrix(fp=1, fn=amounts), np.arange(100) % 2)[0].text
    'row 100 alone carries 91 % of the possible cost of false negatives (fn = 5000): check this cost, or cap it (clip)'
    """
    if not costs.resolved or costs.n_instances is None:
        return []
    result = {"cost-below-correct": _negative(costs), "row-dominates": _outlying(costs.clipped(), y)}
    result |= {"cost-leakage": _leaking(costs, y)} if leakage else {}
    return [finding(code, text) for code, texts in result.items() for text in texts]


def _cells(costs: CostMatrix) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the name and the costs of each outcome whose costs differ between samples."""
    table, two = costs.to_array(), costs.n_classes == costs.n_actions == 2
    classes = [repr(label) for label in costs.classes or range(costs.n_classes)]
    actions = [repr(label) for label in costs.actions or range(costs.n_actions)]
    for i, action in enumerate(actions):
        for j, label in enumerate(classes):
            name = (("tn", "fn"), ("fp", "tp"))[i][j] if two else f"the cost of {action} when {label} is true"
            if (table[:, i, j] != table[0, i, j]).any():
                yield name, table[:, i, j]


def _negative(costs: CostMatrix) -> Iterator[str]:
    """Yield where an error costs less than a correct prediction."""
    table = costs.to_array()
    for i, j in np.argwhere((table < table.diagonal(0, 1, 2)[:, None, :]).any(0)).tolist() if costs.square else ():
        names = costs.classes or range(costs.n_classes)
        name = ("fn", "fp")[i] if costs.n_classes == 2 else f"the cost of {names[i]!r} when {names[j]!r} is true"
        below = table[:, i, j] < table[:, j, j]
        first, n = int(below.argmax()), int(below.sum())
        yield (
            f"{name} is below the cost of a correct prediction in {n} row{'s' if n > 1 else ''}, first in row "
            f"{first + 1} ({table[first, i, j]:g} against {table[first, j, j]:g}): such errors count as 0"
        )


def _outlying(costs: CostMatrix, y: NDArray[np.int64]) -> Iterator[str]:
    """Yield where one sample, or the costliest hundredth, carries more than half of the possible cost of a class."""
    weights, table = np.asarray(as_host(costs.row_weights(y))), costs.to_array()
    for j, label in enumerate(costs.classes or range(costs.n_classes)):
        own = np.flatnonzero(y == j)
        few = int(np.ceil(TOP * len(own)))
        costliest = own[np.argsort(-weights[own], kind="stable")][:few]
        shares = weights[costliest] / max(len(own), 1)
        if len(own) < FEW or shares.sum() <= 0.5:
            continue
        row, errors, cost = int(costliest[0]) + 1, f"errors on {label!r}", f"up to {table[costliest[0], :, j].max():g}"
        if costs.n_classes == costs.n_actions == 2:
            errors = ("false positives", "false negatives")[j]
            cost = f"{('fp', 'fn')[j]} = {table[costliest[0], 1 - j, j]:g}"
        if shares[0] > 0.5:
            who, where = f"row {row} alone carries {100 * shares[0]:.0f} %", cost
        else:
            who = f"the costliest {few} of {len(own)} rows carry {100 * shares.sum():.0f} %"
            where = f"costliest: row {row}, {cost}"
        yield f"{who} of the possible cost of {errors} ({where}): check this cost, or cap it (clip)"


def _leaking(costs: CostMatrix, y: NDArray[np.int64]) -> Iterator[str]:
    """Yield costs that are constant for one class only, or separate the classes."""
    present = [j for j in range(costs.n_classes) if (y == j).sum() >= FEW]
    if len(present) < 2:
        return
    for name, unit_costs in _cells(costs):
        how = _constant(unit_costs, y, present) or (_sorting(unit_costs, y) if costs.n_classes == 2 else "")
        if how:
            yield (
                f"{name} leaks the label: {how}. A cost unknown at prediction time cannot be used for new rows: "
                "exclude its column from the features, and use one cost for all, or CostModel to predict it"
            )


def _constant(costs: NDArray[Any], y: NDArray[np.int64], present: list[int]) -> str:
    lone = [j for j in present if (costs[y == j] == costs[y == j][0]).all()]
    for j in lone:
        value, rest = costs[y == j][0], costs[y != j]
        if (rest != value).mean() > 0.5:
            return f"it is {value:g} for all {int((y == j).sum())} rows of class {j}, and differs for most others"
    return ""


def _sorting(costs: NDArray[Any], y: NDArray[np.int64]) -> str:
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415  slow to import, and for per-sample costs only

    area = float(roc_auc_score(y, costs))
    return f"its ROC area against it is {max(area, 1 - area):.4f}" if max(area, 1 - area) >= LEAKAGE else ""


Costs: TypeAlias = CostMatrix | Mapping[str, Any] | Literal["balanced"] | None
"""Costs as users may give them: a matrix, costs by name, the inverse priors, or the data set's own."""


def read_costs(path: str | os.PathLike[str]) -> CostMatrix:
    """Read a cost matrix from a table with class names on both axes: rows are predicted, columns are actual.

    The first column names the rows, the header the columns; ``adacsl check --write-costs`` writes such a file.
    """
    frame = next(stream_table(path), None)  # all as text, so that names on both axes read alike
    if frame is None:
        raise DataError(f"{path} has a header but no rows: a cost matrix has one for each class")
    nameless = frame.iloc[:, 0].isna()
    if nameless.any():
        raise DataError(f"row {int(nameless.to_numpy().argmax()) + 1} of {path} has no name in its first column")
    frame = frame.rename(columns=unguarded)
    frame.isetitem(0, [unguarded(name) if isinstance(name, str) else name for name in frame.iloc[:, 0]])
    try:
        return CostMatrix.from_frame(frame, rows="predicted")
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{path} is not a cost matrix with rows predicted and columns actual: {one_line(error)}"
        ) from error


def read_cost(text: float | str) -> Any:
    """Return a cost from its text: a number, a range ``5..20``, a column or an expression over columns.

    ``model(amount)`` is a cost to be predicted.

    >>> read_cost("5..20"), read_cost("3 * 4"), read_cost("0.8 * amount")
    ((5.0, 20.0), 12.0, Expression('0.8 * amount'))
    """
    if not isinstance(text, str):
        return text
    low, dots, high = text.partition("..")
    if dots and is_number(low) and is_number(high):
        return float(low), float(high)
    if LEARNED.fullmatch(text):
        return as_cell(text, "the cost")
    result = Expression(text)
    return result if result.columns else float(result.of({}))


def resolve_costs(costs: Costs, y: NDArray[np.int64], *, table: Any = None, what: str = "", **known: Any) -> CostMatrix:
    """Return the costs of a task as numbers; ``known`` are the further options of :func:`cost_specification`.

    ``table`` has the columns that costs depend on, ``what`` is its name.
    """
    spec = cost_specification(costs, y, **known)
    if spec.learns:
        raise DataError("costs to be predicted, model(...), are learned in training: give the costs of the rows here")
    resolved = resolve(spec, y, table, what)
    check_costs(spec, y, table)
    return resolved


def cost_specification(
    costs: Costs,
    y: NDArray[np.int64],
    *,
    own: CostMatrix | None = None,
    classes: Sequence[str] | None = None,
) -> CostMatrix:
    """Return the cost specification of a task: some costs may depend on columns.

    Parameters
    ----------
    costs : CostMatrix, mapping of fp, fn, tp and tn, "balanced" or None
        None: the data set's ``own`` costs, or else "balanced", the inverse priors
        (:meth:`~adacsl.CostMatrix.balanced`).
    own : CostMatrix, optional
        The costs the data set came with.
    classes : sequence of str, optional
        Names of the classes in the order of their numbers, into which a matrix with names is brought.

    Returns
    -------
    CostMatrix
        The costs, not yet resolved.
    """
    if classes is not None and len(classes) > 2:
        return _of_many(costs, y, classes)
    if costs is None:
        return CostMatrix.balanced(y) if own is None else own
    given, default = (_by_name(costs), None) if isinstance(costs, Mapping) else ({}, _matrix(costs, y, classes))
    for name, other in (("fp", "fn"), ("fn", "fp")):
        if default is None and name not in given:
            raise DataError(f"only {other} was given: give {name} too, costs={{'{name}': 1, ...}}")
    try:
        return merge_costs(given, default)
    except (TypeError, ValueError) as error:
        raise DataError(one_line(error)) from error


def resolve(spec: CostMatrix, y: NDArray[np.int64], table: Any = None, what: str = "") -> CostMatrix:
    """Return costs as numbers: per sample of the table, where they depend on columns."""
    for column in spec.columns:
        if not isinstance(table, pd.DataFrame):
            raise DataError(f"the costs depend on the column {column!r}, but {what or 'the data'} has no columns")
        check_column(column, table.columns, what or "the data")
    try:
        raw = spec.of(table, clipped=False)
        resolved = _fitting(raw, y, "two classes" if raw.n_classes == 2 else f"{raw.n_classes} classes").clipped()
        resolved.checked()
    except (TypeError, ValueError) as error:
        place = f"{what}: " if what and spec.columns else ""
        raise DataError(f"{place}{one_line(error)}") from error
    return resolved


def check_costs(
    spec: CostMatrix, y: NDArray[np.int64], table: Any = None, *, given: bool = True
) -> tuple[Finding, ...]:
    """Warn of implausible per-sample costs; return the findings, and without a warning that none were ``given``."""
    # costs to be predicted may depend on the label
    result = warn_of_implausible_costs(spec.of(table, clipped=False), y, leakage=not spec.learns)
    if given:
        return tuple(result)
    ratio = "" if spec.n_classes > 2 else f", so a false negative costs {float(spec.ratio):.3g} false positives"
    text = f"no costs were given: all classes have equal weight{ratio}; state the costs of errors (--fn 8 --fp 1)"
    return finding("costs-not-given", text), *result


def kept_specification(spec: CostMatrix, table: Any = None) -> CostMatrix | None:
    """Return a cost specification that is more than numbers, else None; costs to be learned are bound to the table."""
    if spec.learns:
        return spec.made(lambda recipe, *_: recipe.bound(table) if getattr(recipe, "learns", False) else recipe)
    return spec.without_samples() if spec.ranges or not spec.resolved else None


def _of_many(costs: Costs, y: NDArray[np.int64], classes: Sequence[str]) -> CostMatrix:
    """Return the costs of more than two classes, in their order."""
    if isinstance(costs, Mapping):
        raise DataError(f"fp, fn, tp and tn are costs of two classes, but there are {len(classes)}: give a matrix")
    if costs is None or isinstance(costs, str):
        return CostMatrix.balanced(y, classes=classes)
    try:
        return costs.aligned(classes)
    except ValueError as error:
        raise DataError(one_line(error)) from error


def _fitting(matrix: CostMatrix, y: NDArray[np.int64], classes: str) -> CostMatrix:
    if matrix.n_instances not in (None, len(y)):
        raise DataError(f"{len(y)} rows of {classes} need costs for all rows or each, got {matrix!r}")
    if not matrix.square:
        raise DataError(
            f"a task predicts its classes, but the cost matrix has other actions ({listed(matrix.actions or ())}): "
            "decide about them afterwards, with its decide(probabilities)"
        )
    return matrix


def _by_name(costs: Mapping[str, Any]) -> dict[str, Any]:
    unknown = [name for name in costs if name not in ("fp", "fn", "tp", "tn")]
    if unknown:
        raise DataError(f"costs have the names fp, fn, tp and tn, got {listed(map(repr, unknown))}")
    return {name: cost for name, cost in costs.items() if cost is not None}


def _matrix(costs: Any, y: NDArray[np.int64], classes: Sequence[str] | None) -> CostMatrix:
    """Return the matrix that was given."""
    if not (isinstance(costs, CostMatrix) or (isinstance(costs, str) and costs == "balanced")):
        raise DataError(f"costs must be a CostMatrix, a mapping like {{'fp': 1, 'fn': 8}} or 'balanced', got {costs!r}")
    matrix = CostMatrix.balanced(y) if isinstance(costs, str) else costs
    rows = matrix.n_instances if matrix.resolved else None
    if matrix.n_classes != 2 or rows not in (None, len(y)):
        raise DataError(f"{len(y)} rows of two classes need costs of two classes, for all rows or each, got {matrix!r}")
    matrix = matrix if classes is None else matrix.aligned(classes)
    return _fitting(matrix, y, "two classes") if matrix.resolved else matrix


def number_column(
    frame: pd.DataFrame, name: str, *, what: str, holds: str = "a cost of 0 or more", least: float = 0.0
) -> NDArray[np.float64]:
    """Return a column of finite numbers, none below ``least``, or an error that names the first bad row."""
    check_column(name, frame.columns, what)
    column = frame[name].reset_index(drop=True)
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    bad = ~np.isfinite(numbers) | (numbers < least)
    if bad.any():
        first = int(bad.argmax())
        value = column.iloc[first]
        came = "nothing" if pd.isna(value) else repr(value.item() if isinstance(value, np.generic) else value)
        raise DataError(
            f"column {name!r} of {what} must hold {holds} in every row, got {came} in row {first + 1} "
            f"({int(bad.sum())} such rows): repair or remove these rows"
        )
    return numbers
