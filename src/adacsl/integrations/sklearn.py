"""AdaCSL in scikit-learn: the cost as a score for searches and cross-validation.

The classifier for any estimator is :class:`adacsl.AdaCSLClassifier`.

.. code-block:: python

    GridSearchCV(model, grid, scoring=cost_scorer(CostMatrix(fp=1, fn=8)))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import Array, refuse_reordered
from adacsl.base.extras import requires
from adacsl.base.labels import customary_positive, find_class, find_named, unnamed_positive
from adacsl.costs.cells import is_recipe
from adacsl.costs.matrix import CostMatrix, merge_costs, no_costs

with requires("sklearn"):
    from sklearn.metrics import make_scorer
    from sklearn.utils.validation import check_consistent_length, column_or_1d


def cost_scorer(costs: CostMatrix | None = None, *, pos_label: Any = None) -> Any:
    """Return a scorer, minus the mean cost: the best score is the lowest cost.

    Works wherever scikit-learn takes ``scoring=``: ``GridSearchCV``, ``cross_val_score``,
    ``TunedThresholdClassifierCV``. Per-sample costs are metadata: with
    ``sklearn.set_config(enable_metadata_routing=True)`` use ``cost_scorer(costs).set_score_request(fn=True)`` and pass
    ``fn=amounts`` along.

    Parameters
    ----------
    costs : CostMatrix, optional
        Class-wide costs, or costs over columns of X (``fn="0.8 * amount"``); may be left out where ``fp`` and ``fn`` of
        two classes come with the samples. Costs of more classes best name them: a fold may lack one.
    pos_label : label, optional
        The positive class, of two. 0/1, -1/1 and False/True need none.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``.

    See Also
    --------
    mean_cost : The metric.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.sklearn import cost_scorer
    >>> negative = DummyClassifier(strategy="constant", constant=0).fit([[0], [0]], [0, 1])
    >>> cost_scorer(CostMatrix(fp=1, fn=8))(negative, [[0]] * 4, [0, 0, 0, 1])
    -2.0
    """
    if costs is not None and not isinstance(costs, CostMatrix):
        raise no_costs(costs)
    if costs is not None and not costs.resolved:
        return _ColumnScorer(costs, pos_label)
    if costs is not None and costs.n_instances is not None:
        raise ValueError(
            f"costs must hold one cost per outcome, got {costs!r}; "
            "per-sample costs come as metadata: set_score_request(fn=True)"
        )
    settings = {} if pos_label is None else {"pos_label": pos_label}
    return make_scorer(_cost_at_label, greater_is_better=False, costs=costs, **settings)


@dataclass(frozen=True)
class _ColumnScorer:
    """Scorer, minus the mean cost, with costs that depend on columns of the samples."""

    costs: CostMatrix
    pos_label: Any = None

    def __call__(self, estimator: Any, X: Any, y_true: Array) -> float:  # noqa: N803
        return -mean_cost(y_true, estimator.predict(X), costs=self.costs.of(X), pos_label=self.pos_label)


def _cost_at_label(y_true: Array, y_pred: Array, *, pos_label: Any = None, **costs: Any) -> float:
    """Take ``pos_label`` as scikit-learn names it: its threshold searches use that class's probability."""
    return mean_cost(y_true, y_pred, pos_label=pos_label, **costs)


def mean_cost(
    y_true: Array,
    y_pred: Array,
    *,
    costs: CostMatrix | None = None,
    pos_label: Any = None,
    fp: Array | None = None,
    fn: Array | None = None,
    tp: Array | None = None,
    tn: Array | None = None,
    sample_weight: Array | None = None,
) -> float:
    """Return the mean cost of decisions, as a metric in scikit-learn's form.

    Parameters
    ----------
    y_true : array of shape (n,)
        True labels.
    y_pred : array of shape (n,)
        Predicted labels; actions, where the matrix has more actions than classes.
    costs : CostMatrix, optional
        Class-wide costs.
    pos_label : label, optional
        The positive class. 0/1, -1/1 and False/True need none.
    fp : array of shape (n,), optional
        Cost of a false positive of each sample, of two classes; what is left out comes from ``costs``.
    fn : array of shape (n,), optional
        Cost of a false negative of each sample.
    tp : array of shape (n,), optional
        Cost of a true positive of each sample.
    tn : array of shape (n,), optional
        Cost of a true negative of each sample.
    sample_weight : array of shape (n,), optional
        How much each sample counts.

    Returns
    -------
    float
        The mean cost.

    See Also
    --------
    cost_scorer : The same as a scorer.

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.sklearn import mean_cost
    >>> mean_cost([0, 1, 1, 0], [1, 1, 0, 0], costs=CostMatrix(fp=1, fn=8))
    2.25
    >>> table, names = [[0, 5, 9], [1, 0, 9], [1, 1, 0]], ["a", "b", "c"]
    >>> costs = CostMatrix.from_array(table, rows="predicted", classes=names)
    >>> mean_cost(["a", "c"], ["a", "b"], costs=costs)
    4.5
    """
    refuse_reordered(y_true, of="y_true", y_pred=y_pred, fp=fp, fn=fn, tp=tp, tn=tn, sample_weight=sample_weight)
    true, pred = column_or_1d(y_true), column_or_1d(y_pred)
    check_consistent_length(true, pred)
    of_two = pos_label is not None or any(cost is not None for cost in (fp, fn, tp, tn))
    if costs is not None and (costs.n_classes > 2 or not costs.square or (costs.classes is not None and not of_two)):
        if of_two:
            raise ValueError(f"pos_label, fp, fn, tp and tn apply to two classes, but these costs do not: {costs!r}")
        return costs.mean(*_numbered(costs, true, pred), sample_weight=sample_weight)
    true, pred = _as_binary(true, pred, pos_label)
    unit_costs = row_costs({"fp": fp, "fn": fn, "tp": tp, "tn": tn}, costs) or costs
    if unit_costs is None:
        raise ValueError("costs are missing: give costs=CostMatrix(fp=1, fn=8), or fp and fn of each sample")
    return unit_costs.clipped().mean(true, pred, sample_weight=sample_weight)


def _numbered(costs: CostMatrix, true: Any, pred: Any) -> tuple[Any, Any]:
    """Return classes and actions as the numbers of columns and rows of the matrix."""
    same = costs.square
    if costs.classes is None:
        result = np.unique(np.concatenate((true, pred) if same else (true,)))
        if result.dtype.kind in "biuf" and np.isin(result, np.arange(costs.n_classes)).all():
            return true.astype(np.int64), pred
        if len(result) != costs.n_classes or not same:
            raise ValueError(
                f"the costs do not name their {costs.n_classes} classes, and the labels are {result.tolist()}: give "
                "their names with CostMatrix.from_array(..., classes=[...])"
            )
        return np.searchsorted(result, true), np.searchsorted(result, pred)
    return _indices(costs.classes, true), _indices(costs.classes if same else costs.actions, pred)


def _as_binary(true: Any, pred: Any, pos_label: Any) -> tuple[Any, Any]:
    """Return which labels and which decisions are the positive class; there may be none of it."""
    labels = list(dict.fromkeys([*np.unique(true).tolist(), *np.unique(pred).tolist()]))
    if pos_label is None:
        pos_label = customary_positive(labels)
        if pos_label is None:
            raise unnamed_positive(labels, "the labels")
    index = find_class(labels, pos_label)
    if len(labels) - (index is not None) > 1:
        raise ValueError(f"pos_label={pos_label!r} leaves more than one other class: {labels}")
    if index is None:
        return np.zeros(true.shape, bool), np.zeros(pred.shape, bool)
    return true == labels[index], pred == labels[index]


def _indices(names: Any, labels: Any) -> NDArray[np.int64]:
    """Return the index of each label among names; actions without names are numbers already."""
    if names is None:
        return np.asarray(labels, dtype=np.int64)
    labels = labels.astype(str) if labels.dtype.kind == "O" else labels  # numbers beside names of other actions
    kinds, which = np.unique(labels, return_inverse=True)
    result = find_named(names, kinds.tolist())
    if unknown := [kind for kind, index in zip(kinds.tolist(), result, strict=True) if index is None]:
        raise ValueError(f"the cost matrix has no name {unknown[0]!r}; it has {', '.join(map(repr, names))}")
    return np.asarray(result, dtype=np.int64)[which]


def row_costs(given: Mapping[str, Any], default: CostMatrix | None) -> CostMatrix | None:
    """Return the costs of single rows, what was not given filled in from the others; None if all cost the same.

    Prices that depend on columns stay so, and nothing is checked: ``of(table)``, ``clipped()`` and ``checked()`` do.
    """
    said = {name: _as_given(value) for name, value in given.items() if value is not None}
    if not said:
        return default if default is not None and not default.resolved else None
    missing = [name for name in ("fp", "fn") if default is None and name not in said]
    if missing:
        raise ValueError(f"per-sample costs need {' and '.join(missing)} too: give them, or costs=CostMatrix(...)")
    return merge_costs(said, default)


def _as_given(value: Any) -> Any:
    """Return per-sample costs as numpy; texts, expressions and ranges as they are."""
    return value if isinstance(value, str | tuple) or is_recipe(value) else np.asarray(value)


__all__ = ["cost_scorer", "mean_cost"]
