"""Permutation importance in cost, and feature importances of fitted classifiers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host, as_weights, refuse_reordered
from adacsl.base.extras import requires
from adacsl.base.labels import label_name
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.errors import check_column
from adacsl.decision.policy import Policy, action_costs, decide, limited_action, ordered_labels, read_dates
from adacsl.fitting.rows import Rows, read_features, read_known_labels, take
from adacsl.learners.booster_model import BoosterModel
from adacsl.learners.boosting_libraries import load_library
from adacsl.learners.estimator_model import EstimatorModel
from adacsl.learners.stack import StackModel
from adacsl.metrics.intervals import Interval

if TYPE_CHECKING:
    import pandas as pd

with requires("sklearn"):
    from scipy.special import stdtrit
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_consistent_length, column_or_1d


CELLS = 2**24
"""About so many cells of shuffled tables are predicted in one call."""


def permutation_costs(
    model: Any, rows: Rows, policy: Policy, columns: Any, repeats: int, random_state: Any
) -> pd.DataFrame:
    """Return the importance of each column (or set of columns), largest first; see ``permutation_cost``."""
    import pandas as pd  # noqa: PLC0415  scikit-learn alone needs none

    if not isinstance(repeats, Integral) or repeats < 1:
        raise ValueError(f"repeats must be a whole number of at least 1, got {repeats!r}")
    sets = _column_sets(model, rows.x, columns)
    donors = shuffles(len(rows.y), int(repeats), random_state)
    base_costs = _costs_of_decisions(model, rows, policy, rows.x)
    extra = _extra_costs(model, rows, policy, base_costs, donors, sets.values())
    worth = [worth_interval(each, donors, rows.weight, rows.groups) for each in extra]
    frame = pd.DataFrame(worth, columns=["cost", "low", "high"])
    frame.insert(0, "column", list(sets))
    base = float(np.average(base_costs, weights=rows.weight))
    constant = _constant_cost(model, rows, policy)
    frame["share"] = frame["cost"] / (constant - base) if constant > base else math.nan
    frame = frame.sort_values("cost", ascending=False, kind="stable", ignore_index=True)
    frame.attrs = {"base_cost": base, "constant_cost": constant, "rows": len(rows.y), "repeats": int(repeats)}
    return frame


def _constant_cost(model: Any, rows: Rows, policy: Policy) -> float:
    """Return the mean cost of the best constant decision; an action with a capacity is none."""
    labels = ordered_labels(model)
    costs = action_costs(policy, model.costs_, rows.costs, [label_name(label) for label in labels])
    possible = set(range(costs.n_actions))
    if policy.capacity is not None:
        possible.remove(limited_action(policy, costs, labels))
    return min(
        float(costs.mean(rows.y, np.full_like(rows.y, action), sample_weight=rows.weight)) for action in possible
    )


def read_table_rows(
    model: Any, X: Any, y: Any, sample_weight: Any, groups: Any, costs: CostMatrix | None, policy: Policy  # noqa: N803
) -> tuple[Rows, Policy]:  # fmt: skip
    """Return checked samples with labels, weights and groups, and the policy with the times of these samples.

    Samples of weight zero are left out.
    """
    if getattr(model, "images_", False):
        raise ValueError("permutation_cost shuffles the columns of a table, but this model was trained on images")
    refuse_reordered(X, y=y, sample_weight=sample_weight, groups=groups)
    labels, table = read_known_labels(model, y), read_features(model, X, reset=False)
    table = table if hasattr(table, "columns") else np.asarray(table)
    if len(getattr(table, "shape", ())) != 2:
        raise ValueError("permutation_cost needs a dense table with columns: numpy, pandas, polars or pyarrow")
    groups = np.arange(len(labels)) if groups is None else column_or_1d(groups)
    check_consistent_length(table, labels, groups)
    if costs is not None and costs.n_instances not in (None, len(labels)):
        raise ValueError(f"costs of each row must be as many as rows: got {costs.n_instances} for {len(labels)} rows")
    weight = np.asarray(as_weights(np.ones(len(labels)) if sample_weight is None else sample_weight, labels))
    use = np.flatnonzero(weight)
    number = np.unique(groups[use], return_inverse=True)[1]
    costs = None if costs is None else costs.rows(use)
    own = take(table, use)
    if policy.per is not None:
        times = read_dates(policy.time, "time")
        check_consistent_length(labels, times)
        policy = replace(policy, time=times[use])
    if policy.refer is not None and np.ndim(policy.refer):
        policy = replace(policy, refer=np.asarray(policy.refer)[use])
    rows = Rows(own, labels[use], np.arange(len(use)), weight[use], number, costs, n_classes=model.costs_.n_classes)
    return rows, policy


def shuffles(n: int, repeats: int, random_state: Any) -> NDArray[np.int64]:
    """Return where each sample takes its value from, repeats x n: scikit-learn's shuffles for the same random_state."""
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max + 1)
    rng, order, donors = np.random.RandomState(seed), np.arange(n), [np.arange(n)]
    for _ in range(repeats):
        rng.shuffle(order)
        donors.append(donors[-1][order])  # it shuffles what is shuffled already
    return np.stack(donors[1:])


def worth_interval(
    extra: NDArray[np.float64], donors: NDArray[np.int64], weight: NDArray[Any] | None, groups: NDArray[Any] | None
) -> Interval:
    r"""Return the mean of extra costs (repeats x n) of shuffled samples, with its 95 % interval.

    Notes
    -----
    Sample *i* that takes its value from sample *j* gets more costly by :math:`d_{ij} = \theta + a_i + b_j +
    e_{ij}`: each sample contributes twice, as receiver and as donor of a value. A shuffle uses each value once, so
    the mean over all samples and R repeats is off by the mean of :math:`a_i + b_i` and by that of n R different
    :math:`e`. With :math:`s_i`, the sum of what sample i lost and of what its value made others lose (means over the
    repeats, from :math:`w_i (d_{ij} - \theta)` with weights), :math:`\sum s_i^2` holds each single difference once too
    often:

    .. math:: \widehat{\mathrm{Var}} = \Big(\sum_i s_i^2 - \tfrac{1}{R^2} \sum w_i^2 (d_{ij} - \theta)^2\Big) / W^2

    and at least what independent differences would have (the subtracted term). With groups s is summed inside each.
    The error of s over samples alone, without the lenders, is too small: the same n values are lent in all repeats.
    """
    weight = np.ones(extra.shape[1]) if weight is None else weight
    number = np.arange(extra.shape[1]) if groups is None else groups
    mean = float(np.average(extra.mean(axis=0), weights=weight))
    off = weight * (extra - mean)
    lent = np.bincount(donors.ravel(), weights=off.ravel(), minlength=len(weight))
    each = np.bincount(number, weights=off.sum(axis=0) + lent)
    alone = float(np.square(off).sum())
    if len(each) < 2:
        return Interval(mean, math.nan, math.nan)
    variance = max(float(np.square(each).sum()) - alone, alone) * len(each) / (len(each) - 1)
    half = float(stdtrit(len(each) - 1, 0.975)) * math.sqrt(variance) / (len(extra) * float(weight.sum()))
    return Interval(mean, mean - half, mean + half)


# tables whose columns are shuffled


def _extra_costs(
    model: Any, rows: Rows, policy: Policy, base_costs: NDArray[np.float64], donors: NDArray[np.int64],
    sets: Iterable[list[int]],
) -> Iterator[NDArray[np.float64]]:  # fmt: skip
    """Yield for each set of columns what each sample costs more in each repeat; many repeats in one prediction."""
    repeats, n = donors.shape
    at_once = min(repeats, max(1, CELLS // (n * rows.x.shape[1])))
    copies = take(rows.x, np.tile(np.arange(n), at_once))
    for places in sets:
        parts = (donors[start : start + at_once].ravel() for start in range(0, repeats, at_once))
        result = [_costs_of_decisions(model, rows, policy, _lent(copies, rows.x, places, part)) for part in parts]
        yield np.concatenate(result).reshape(repeats, n) - base_costs


def _costs_of_decisions(model: Any, rows: Rows, policy: Policy, table: Any) -> NDArray[np.float64]:
    """Return the cost of the decision about each sample; the table may hold the samples several times over.

    Each repeat is decided separately: the samples of one shuffle compete for an action with a capacity.
    """
    n = len(rows.y)
    times = table.shape[0] // n
    tiled = None if rows.costs is None else rows.costs.rows(np.tile(np.arange(n), times))
    parts = np.split(model.decision_probabilities(table, costs=tiled), times)
    rule, labels = model.decision_, ordered_labels(model)
    decisions = (decide(part, rule, labels, costs=rows.costs, policy=policy) for part in parts)
    return np.concatenate([np.asarray(as_host(made.costs.incurred(rows.y, made.actions))) for made in decisions])


def _lent(copies: Any, table: Any, places: list[int], donors: NDArray[np.int64]) -> Any:
    """Return as many samples of the copies as there are donors, with these samples' values in some columns."""
    if isinstance(copies, np.ndarray):
        changed = copies[: len(donors)].copy()
        changed[:, places] = table[donors[:, None], places]
        return changed
    import narwhals as nw  # noqa: PLC0415

    frame, own = nw.from_native(copies, eager_only=True), nw.from_native(table, eager_only=True)
    lent = (own.get_column(own.columns[place])[donors] for place in places)
    return frame[: len(donors)].with_columns(*lent).to_native()


def _column_sets(model: Any, table: Any, columns: Any) -> dict[Any, list[int]]:
    """Return the places of the columns that are shuffled together, by the name of each such set."""
    named = getattr(table, "column_names", getattr(table, "columns", getattr(model, "feature_names_in_", None)))
    names = list(range(table.shape[1]) if named is None else named)
    wanted = names if columns is None else columns
    asked = wanted if isinstance(wanted, Mapping) else {names[_place(column, names)]: [column] for column in wanted}
    sets = {name: [_place(column, names) for column in some] for name, some in asked.items()}
    if not sets or not all(sets.values()):
        raise ValueError(f"columns names nothing to shuffle, got {columns!r}")
    return sets


def _place(column: Any, names: list[Any]) -> int:
    if column not in names and isinstance(column, Integral) and int(column) in range(len(names)):
        return int(column)
    check_column(column, names, "the table")
    return names.index(column)


def importances(model: Any, columns: int) -> NDArray[np.float64] | None:
    """Return the share of each column, 1 in all; None where the model has no importances.

    Boosters have gains; estimators have ``feature_importances_``, of which an encoded table has several for one column.
    In an ensemble those base estimators count that have some, by their weights.
    """
    if isinstance(model, StackModel):
        parts = [(float(abs(w)), importances(own, columns)) for w, own in _weighed(model)]
        result = [weight * part for weight, part in parts if part is not None]
    elif isinstance(model, BoosterModel):
        library = load_library(model.library)
        result = [_shares(library.importances(booster, columns)) for booster in model.boosters]
    else:
        result = list(_of_estimators(model, columns)) if isinstance(model, EstimatorModel) else []
    return _shares(np.sum(result, axis=0)) if result else None


def _weighed(model: StackModel) -> zip[tuple[Any, Any]]:
    return zip(np.asarray(model.stack.weights), model.models, strict=True)


def _of_estimators(model: EstimatorModel, columns: int) -> Any:
    for estimator in model.estimators:
        own = getattr(estimator, "feature_importances_", None)
        if own is None:
            continue
        places = np.arange(len(own)) if model.encoder is None else np.asarray(model.encoder.sources)
        if len(places) == len(own) and (not len(places) or places.max() < columns):
            yield _shares(np.bincount(places, weights=np.asarray(own, np.float64), minlength=columns))


def _shares(result: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(result / (result.sum() or 1.0), dtype=np.float64)
