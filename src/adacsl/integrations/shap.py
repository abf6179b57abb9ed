"""SHAP values of fitted classifiers, also on tables with text, dates and missing values.

.. code-block:: python

    found = explain(model, X_new, background=X_train)
    shap.plots.waterfall(found[0])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires

with requires("sklearn"):
    import pandas as pd

ROWS = 50
"""Rows of the background that stand for a column whose value is not known."""


def explain(model: Any, X: Any, *, background: Any = None, rows: int = ROWS, seed: int = 0, **options: Any) -> Any:  # noqa: N803
    """Return SHAP values of the probability of the positive class, or of each of K classes.

    SHAP computes with numbers. Here it sees which of a column's values a row has; the model gets the values themselves.

    Parameters
    ----------
    model : fitted classifier of adacsl
        Of two classes or more.
    X : table
        The rows to explain: pandas, polars, pyarrow or numpy.
    background : table, optional
        What "not known" stands for; default X. At most ``rows`` of them are drawn, by ``seed``.
    **options
        Of ``shap.Explainer``'s call: ``max_evals``, ``batch_size``, ...

    Returns
    -------
    shap.Explanation
        Of n x p values (n x p x K), with the table as its ``data``.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from adacsl import CostMatrix, CostSensitiveClassifier
    >>> X = pd.DataFrame({"shop": ["web", "city"] * 30, "amount": range(60)})
    >>> model = CostSensitiveClassifier(CostMatrix(fp=1, fn=8), learner=LogisticRegression()).fit(X,
    ...     np.arange(60) % 3 == 0)
    >>> explain(model, X[:2]).values.shape  # doctest: +SKIP
    (2, 2)
    """
    try:
        import shap  # noqa: PLC0415  slow to load
    except ImportError:
        raise ImportError("SHAP values need shap, which is not installed: pip install shap") from None
    table = _frame(X)
    others = table if background is None else _frame(background)[list(table.columns)]
    others = others.sample(min(rows, len(others)), random_state=seed)
    coded = [pd.factorize(column, use_na_sentinel=False) for _, column in pd.concat((table, others)).items()]
    codes = np.stack([own for own, _ in coded], axis=1).astype(np.float64)

    def chances(places: NDArray[Any]) -> NDArray[np.float64]:
        columns = zip(table.columns, (levels for _, levels in coded), places.T.astype(np.int64), strict=True)
        values = {name: pd.Series(levels.take(own)) for name, levels, own in columns}
        return np.asarray(model.decision_probabilities(_like(X, pd.DataFrame(values))))

    masker = shap.maskers.Independent(codes[len(table) :], max_samples=rows)
    result = shap.Explainer(chances, masker, feature_names=[str(name) for name in table.columns], seed=seed)(
        codes[: len(table)], **options
    )
    result.data = result.display_data = table.to_numpy()
    return result


def _frame(table: Any) -> pd.DataFrame:
    if isinstance(table, pd.DataFrame):
        return table
    return table.to_pandas() if hasattr(table, "to_pandas") else pd.DataFrame(np.asarray(table))


def _like(X: Any, frame: pd.DataFrame) -> Any:  # noqa: N803
    """Return a table of the type that the model was fitted on."""
    return frame.to_numpy() if isinstance(X, np.ndarray) else frame
