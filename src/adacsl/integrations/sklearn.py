"""AdaCSL in scikit-learn: the cost as a score for searches and cross-validation.

The classifier for any estimator is :class:`adacsl.AdaptiveCostClassifier`.

.. code-block:: python

    GridSearchCV(model, grid, scoring=cost_scorer(CostMatrix(fp=1, fn=8)))
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adacsl.core.arrays import Array
from adacsl.core.costs import CostMatrix
from adacsl.core.labels import choose_positive
from adacsl.extras import requires

with requires("sklearn"):
    from sklearn.metrics import make_scorer
    from sklearn.utils.validation import check_consistent_length, column_or_1d


def cost_scorer(costs: CostMatrix | None = None, *, positive: Any = None) -> Any:
    """Return a scorer, minus the mean cost: the best score is the cheapest model.

    Works wherever scikit-learn takes ``scoring=``: ``GridSearchCV``, ``cross_val_score``,
    ``TunedThresholdClassifierCV``. Costs of each row are metadata: with
    ``sklearn.set_config(enable_metadata_routing=True)`` say
    ``cost_scorer(costs).set_score_request(fn=True)`` and pass ``fn=amounts`` along.

    Parameters
    ----------
    costs : CostMatrix, optional
        Class-wide costs of two classes; may be left out where ``fp`` and ``fn`` come with the rows.
    positive : label, optional
        The class ``fn`` speaks of. 0/1, -1/1 and False/True need no naming.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> always_negative = DummyClassifier(strategy="constant", constant=0).fit([[0], [0]], [0, 1])
    >>> cost_scorer(CostMatrix(fp=1, fn=8))(always_negative, [[0]] * 4, [0, 0, 0, 1])
    -2.0
    """
    if costs is not None and not isinstance(costs, CostMatrix):
        raise TypeError(f"costs must be a CostMatrix such as CostMatrix(fp=1, fn=8), got {costs!r}")
    if costs is not None and (costs.n_classes != 2 or costs.n_instances is not None):
        raise ValueError(
            f"costs must hold one price per outcome of two classes, got {costs!r}; "
            "costs of each row come as metadata: set_score_request(fn=True)"
        )
    settings = {} if positive is None else {"pos_label": positive}
    return make_scorer(_cost_at_label, greater_is_better=False, costs=costs, **settings)


def _cost_at_label(y_true: Array, y_pred: Array, *, pos_label: Any = None, **prices: Any) -> float:
    """Speak scikit-learn's word: by it, its searches for a threshold know whose probability to cut."""
    return mean_cost(y_true, y_pred, positive=pos_label, **prices)


def mean_cost(
    y_true: Array,
    y_pred: Array,
    *,
    costs: CostMatrix | None = None,
    positive: Any = None,
    fp: Array | None = None,
    fn: Array | None = None,
    tp: Array | None = None,
    tn: Array | None = None,
    sample_weight: Array | None = None,
    **old: Any,
) -> float:
    """Return the mean cost of decisions, as a metric in scikit-learn's form.

    Parameters
    ----------
    y_true, y_pred : arrays of shape (n,)
        Labels of two classes.
    costs : CostMatrix, optional
        Class-wide costs.
    positive : label, optional
        The class ``fn`` speaks of. 0/1, -1/1 and False/True need no naming.
    fp, fn, tp, tn : arrays of shape (n,), optional
        Costs of each row; what is left out comes from ``costs``.
    sample_weight : array of shape (n,), optional
        How much each row counts.

    Examples
    --------
    >>> mean_cost([0, 1, 1, 0], [1, 1, 0, 0], costs=CostMatrix(fp=1, fn=8))
    2.25
    """
    if old:
        said = next(iter(old))
        advice = "the positive class is named by positive=..." if said == "pos_label" else "no such option"
        raise TypeError(f"mean_cost({said}=...): {advice}")
    true, pred = column_or_1d(y_true), column_or_1d(y_pred)
    check_consistent_length(true, pred)
    positive = choose_positive([*np.unique(true).tolist(), *np.unique(pred).tolist()], positive)
    prices = row_costs({"fp": fp, "fn": fn, "tp": tp, "tn": tn}, costs) or costs
    if prices is None:
        raise ValueError("the cost needs prices: give costs=CostMatrix(fp=1, fn=8), or fp and fn of each row")
    return prices.mean(true == positive, pred == positive, sample_weight=sample_weight)


def row_costs(given: dict[str, Any], default: CostMatrix | None) -> CostMatrix | None:
    """Return the costs of single rows, what was not given filled in from the class-wide ones; None if none was."""
    if all(value is None for value in given.values()):
        return None
    merged = {k: getattr(default, k, None) if v is None else np.asarray(v) for k, v in given.items()}
    missing = [name for name in ("fp", "fn") if merged[name] is None]
    if missing:
        raise ValueError(f"costs of each row need {' and '.join(missing)} too: give them, or costs=CostMatrix(...)")
    return CostMatrix(**{name: value for name, value in merged.items() if value is not None})


__all__ = ["cost_scorer", "mean_cost"]
