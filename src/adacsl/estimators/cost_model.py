"""CostModel: costs that are unknown at prediction time, predicted from the sample."""

from __future__ import annotations

import base64
import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import refuse_reordered
from adacsl.base.extras import requires
from adacsl.costs.expressions import Expression
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.columns import names_of, with_columns, without_columns
from adacsl.fitting.rows import Rows
from adacsl.learners.regression import LOGARITHMIC, Folds, Regression, cross_fit

with requires("sklearn"):
    from sklearn.model_selection import GroupKFold, KFold, check_cv
    from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d


FEWEST = 10
"""Known costs that a model needs."""


class Learned(NamedTuple):
    """Predicted costs of the training samples, and the cost specification with the fitted model."""

    costs: CostMatrix
    spec: CostMatrix


class CostModel:
    """A cost that is unknown at prediction time, predicted from the sample.

    It stands for a cost in a cost matrix, ``CostMatrix(fp=1, fn=CostModel("amount"))``; as text, ``"model(amount)"``. A
    classifier then fits the expected cost on those training samples whose cost is known, and decides by the predicted
    cost. Training samples are decided by out-of-fold predictions (cross-fitting); their decisions are charged the
    observed cost, or the predicted one where none was observed. The columns of the cost are excluded from the features.

    Parameters
    ----------
    cost : str or array of shape (n,)
        The cost: a column, an expression over columns (``"0.8 * amount + 12"``), or an array for the samples that
        ``fit`` gets. Missing (NaN) where the cost is unknown: often it is observed for false negatives only.
    estimator : regressor, optional
        scikit-learn's HistGradientBoostingRegressor with its settings, or any other regressor, which gets the columns
        encoded as for neural networks. Default: histogram boosting with the Poisson loss (a logarithmic link), whose
        number of trees is chosen on held-out samples. Only histogram boosting and linear models can be saved.
    cv : int or splitter, default 5
        Folds of the cross-fitting.
    features : sequence of str, optional
        Columns to predict from. Default: all features of the classifier.

    Attributes
    ----------
    explained_ : float
        Out-of-fold share of the Poisson deviance from the mean that is explained. At 0 or below, a class-wide cost is
        as good.

    Raises
    ------
    TypeError
        Where ``cost`` or ``estimator`` is of another kind.
    ValueError
        Where ``cost`` is a text without a column.

    See Also
    --------
    CostMatrix : Holds the model in place of a cost.

    Notes
    -----
    The decision of least expected cost weighs each probability with the mean cost of the samples that can incur it: the
    cost of a false negative, given the sample and that it is positive. The cost of a false negative is therefore
    learned from positives; from all samples with a known cost where that predicts held-out positives better.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from adacsl import CostMatrix, CostModel
    >>> rng = np.random.default_rng(0)
    >>> size = rng.integers(1, 5, 400)
    >>> amount = 100.0 * size * rng.uniform(0.5, 1.5, 400)
    >>> table = pd.DataFrame({"size": size, "amount": amount})
    >>> CostMatrix(fp=1, fn=CostModel("amount"))
    CostMatrix(fp=1, fn=CostModel('amount'))
    >>> model = CostModel("amount").fit(table)
    >>> model.predict(pd.DataFrame({"size": [1, 4]})).round(-2).tolist()
    [100.0, 400.0]
    """

    kind = "model"
    explained_: float

    def __init__(self, cost: Any, *, estimator: Any = None, cv: Any = 5, features: Sequence[str] | None = None) -> None:
        self.cost = Expression(cost) if isinstance(cost, str) else _as_amounts(cost)
        if isinstance(self.cost, Expression) and not self.cost.columns:
            raise ValueError(f"a cost to be predicted is a column or an expression over columns, got {cost!r}")
        if estimator is not None and not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            raise TypeError(f"estimator must be a regressor with fit and predict, got {estimator!r}")
        self.estimator, self.cv = estimator, cv
        self.features = None if features is None else tuple(map(str, features))
        self._names = self.features  # of the columns it has learned from, where they have some
        self.regression_: Regression | None = None
        self._observed: NDArray[np.float64] | None = None

    @property
    def hidden(self) -> tuple[str, ...]:
        """The columns of the cost: they are not known when deciding, so they are no features."""
        return self.cost.columns if isinstance(self.cost, Expression) else ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it needs besides the features: those of the cost, and none once it is fitted."""
        return self.hidden if self.regression_ is None else ()

    @property
    def learns(self) -> bool:
        """Whether it is not fitted yet."""
        return self.regression_ is None

    # learning

    def fit(self, X: Any, *, sample_weight: Any = None, groups: Any = None) -> Self:  # noqa: N803
        """Learn the cost from a table.

        Parameters
        ----------
        X : table
            Samples with their columns of costs, of which some at least are known.
        sample_weight : array of shape (n,), optional
            How much each sample counts.
        groups : array of shape (n,), optional
            Samples of one group never stand on both sides of a split.

        Returns
        -------
        CostModel
            Itself.

        Raises
        ------
        ValueError
            Where fewer than ten costs are known, or the default regressor is given negative ones.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from adacsl import CostModel
        >>> size = np.arange(400.0)
        >>> table = pd.DataFrame({"size": size, "amount": 10.0 * size + 1})
        >>> CostModel("amount").fit(table).explained_ > 0.9
        True
        """
        refuse_reordered(X, sample_weight=sample_weight, groups=groups)
        observed = self.observed(X)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, observed, dtype=np.float64)
        groups = None if groups is None else column_or_1d(groups)
        check_consistent_length(observed, groups)
        cv = self.cv
        if isinstance(cv, int):
            cv = KFold(cv, shuffle=True, random_state=0) if groups is None else GroupKFold(cv)
        folds = list(check_cv(cv).split(observed, groups=groups))
        every = np.ones(len(observed), dtype=bool)
        made, _ = self.learned(without_columns(X, self.hidden), observed, folds, np.flatnonzero(every), every, weight)
        vars(self).update(vars(made))
        return self

    def learned(
        self, X: Any, observed: NDArray[np.float64], folds: Folds, use: NDArray[np.int64],  # noqa: N803
        paying: NDArray[np.bool_], weight: NDArray[np.float64] | None = None,
    ) -> tuple[Self, NDArray[np.float64]]:  # fmt: skip
        """Return a fitted copy, and what each sample is predicted to cost by models that did not see its cost.

        The arguments are those of :func:`~adacsl.learners.regression.cross_fit`.
        """
        self._check_observed(observed[use], paying[use])
        result = cross_fit(
            self._selected(X), observed, folds, use=use, paying=paying, weight=weight, estimator=self.estimator
        )
        made = copy.copy(self)
        made.regression_, made.explained_, made._observed = result.regression, result.explained, None
        made._names = self.features or names_of(X)
        if not isinstance(self.cost, Expression):
            made.cost = self.cost[:0]  # learned: no sample's cost is kept
        return made, result.predicted

    def observed(self, table: Any) -> NDArray[np.float64]:
        """Return the known costs of the samples of a table.

        Parameters
        ----------
        table : table
            Holds the columns of the cost.

        Returns
        -------
        array of shape (n,)
            Costs, NaN where they are unknown.

        Examples
        --------
        >>> import numpy as np
        >>> from adacsl import CostModel
        >>> CostModel("2 * amount").observed({"amount": np.asarray([1.0, np.nan])}).tolist()
        [2.0, nan]
        """
        if self._observed is not None:
            check_consistent_length(table, self._observed)
            return self._observed
        if isinstance(self.cost, Expression):
            result = self.cost.of(table, finite=False)
            result[~np.isfinite(result)] = np.nan
            return result
        check_consistent_length(table, self.cost)
        return self.cost

    def bound(self, table: Any) -> Self:
        """Return a copy that knows the costs of a table's samples, also when its columns of costs are gone."""
        made = copy.copy(self)
        made._observed = self.observed(table)
        return made

    def forgotten(self) -> Self:
        """Return a copy that has not learned anything."""
        made = copy.copy(self)
        made.regression_ = None
        return made

    def rows(self, index: Any) -> Self:
        """Return a copy that knows the costs of some of the samples only."""
        made = copy.copy(self)
        made._observed = None if self._observed is None else self._observed[index]
        made.cost = self.cost if isinstance(self.cost, Expression) else self.cost[index]
        return made

    # predicting

    def paid(self, table: Any) -> NDArray[np.float64]:
        """Return the observed costs of the samples of a table, and the predicted ones where none was observed.

        Parameters
        ----------
        table : table
            Holds the columns of the cost and the features.

        Returns
        -------
        array of shape (n,)
            Costs.

        Examples
        --------
        >>> import pandas as pd
        >>> from adacsl import CostModel
        >>> table = pd.DataFrame({"size": [1.0, 2.0] * 20, "amount": [10.0, 20.0] * 20})
        >>> CostModel("amount").fit(table).paid(table[:2]).tolist()
        [10.0, 20.0]
        """
        observed, predicted = self.observed(table), self.predict(table)
        return np.where(np.isfinite(observed), observed, predicted)

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the predicted cost of each sample.

        Parameters
        ----------
        X : table
            The features; columns of costs may be absent.

        Returns
        -------
        array of shape (n,)
            Predicted costs.

        Raises
        ------
        ValueError
            Where nothing was learned yet.

        Examples
        --------
        >>> import pandas as pd
        >>> from adacsl import CostModel
        >>> table = pd.DataFrame({"size": [1.0, 4.0] * 200, "amount": [10.0, 40.0] * 200})
        >>> model = CostModel("amount").fit(table)
        >>> model.predict(pd.DataFrame({"size": [1.0, 4.0]})).round().tolist()
        [10.0, 40.0]
        """
        if self.regression_ is None:
            raise ValueError(f"{self!r} is not fitted yet: fit it, or the classifier it belongs to")
        named = self._names is not None and names_of(X) is not None
        return self.regression_.predict(with_columns(X, self._names or ()) if named else X)

    def of(self, table: Any) -> NDArray[np.float64]:
        """Return predicted costs; before fitting the observed ones, with their mean for missing values."""
        if self.regression_ is not None:
            return self.predict(table)
        observed = self.observed(table)
        known = np.isfinite(observed)
        self._check_observed(observed, known)
        return np.where(known, observed, observed[known].mean())

    def _selected(self, X: Any) -> Any:  # noqa: N803
        return X if self.features is None else with_columns(X, self.features)

    def _check_observed(self, observed: NDArray[np.float64], paying: NDArray[np.bool_]) -> None:
        known = observed[np.isfinite(observed) & paying]
        if len(known) < FEWEST:
            raise ValueError(
                f"{self!r} learns from samples whose cost is known: at least {FEWEST} that can incur it are needed, "
                f"got {len(known)}"
            )
        logarithmic = self.estimator is None or getattr(self.estimator, "loss", None) in LOGARITHMIC
        if logarithmic and (known.min() < 0 or known.max() <= 0):
            raise ValueError(
                f"{self!r} predicts costs of 0 or more, not all 0; got {known.min():g} to {known.max():g}: for costs "
                "of both signs give estimator=HistGradientBoostingRegressor()"
            )

    # as plain values

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values; of an estimator of your own only what it has learned.

        Returns
        -------
        dict
            What :meth:`from_dict` reads.

        Examples
        --------
        >>> from adacsl import CostModel
        >>> CostModel("amount").to_dict()
        {'kind': 'model', 'cost': 'amount'}
        """
        cost = self.cost.text if isinstance(self.cost, Expression) else _packed(self.cost)
        settings = {"cv": self.cv if isinstance(self.cv, int) else None, "features": self.features}
        document: dict[str, Any] = {"kind": self.kind, "cost": cost}
        document |= {name: value for name, value in settings.items() if value not in (None, 5)}
        if self.estimator is not None and self.regression_ is None:
            document["estimator"] = type(self.estimator).__name__
        if self.regression_ is not None:
            arrays, about = self.regression_.numbers()
            packed = {name: _packed(np.asarray(value)) for name, value in arrays.items()}
            document["fitted"] = {"arrays": packed, "about": about, "explained": self.explained_, "names": self._names}
        return document

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CostModel:
        """Return the model that :meth:`to_dict` wrote.

        Parameters
        ----------
        data : dict
            The document.

        Returns
        -------
        CostModel
            The model, fitted if it was.

        Examples
        --------
        >>> from adacsl import CostModel
        >>> CostModel.from_dict(CostModel("amount").to_dict())
        CostModel('amount')
        """
        cost = data["cost"]
        model = cls(
            cost if isinstance(cost, str) else _unpacked(cost), cv=data.get("cv", 5), features=data.get("features")
        )
        if "fitted" in data:
            arrays = {name: _unpacked(value) for name, value in data["fitted"]["arrays"].items()}
            model.regression_ = Regression.from_numbers(arrays, data["fitted"]["about"])
            model.explained_, names = float(data["fitted"]["explained"]), data["fitted"]["names"]
            known = names or ()
            if not isinstance(known, list | tuple) or not all(isinstance(name, str | int) for name in known):
                raise ValueError("names of columns are texts")
            model._names = None if names is None else tuple(names)
        return model

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, CostModel):
            return self is other
        try:
            return self.to_dict() == other.to_dict()
        except ValueError:  # settings without a text form equal nothing else
            return False

    def __hash__(self) -> int:
        return hash((self.kind, self.hidden, self.features))

    def __repr__(self) -> str:
        cost = repr(self.cost.text) if isinstance(self.cost, Expression) else f"<{len(self.cost)} costs>"
        options = {"estimator": self.estimator, "cv": None if self.cv == 5 else self.cv, "features": self.features}
        return f"CostModel({', '.join([cost, *(f'{k}={v!r}' for k, v in options.items() if v is not None)])})"


def learn_costs(spec: CostMatrix, resolved: CostMatrix, rows: Rows, table: Any, seed: int) -> Learned:
    """Learn the costs that are to be predicted from samples in use.

    Parameters
    ----------
    spec : CostMatrix
        Costs, some of which are to be learned.
    settled : CostMatrix
        The same as numbers, those to be learned as they were observed.
    rows : Rows
        Features, labels, and which samples may be learned from.
    table : table
        Where the observed costs are.
    seed : int
        Of the folds.
    """
    if rows.validation is not None or rows.images:
        raise ValueError("costs are predicted from tables, without separate validation data")
    amounts, known = resolved.to_array(), {}
    observed: dict[tuple[int, int], Any] = {}

    def learn(recipe: Any, i: int, j: int) -> Any:
        if not getattr(recipe, "learns", False):
            return recipe
        observed[i, j] = recipe.observed(table)
        folds = rows.folds(recipe.cv, None, seed)
        made, known[i, j] = recipe.learned(rows.x, observed[i, j], folds, rows.use, rows.y == j, rows.weight)
        return made

    def paid(_: Any, i: int, j: int) -> Any:
        own = (i, j) in known
        return np.where(np.isfinite(observed[i, j]), observed[i, j], known[i, j]) if own else amounts[..., i, j]

    fitted = spec.made(learn)
    predicted_costs = spec.made(lambda _, i, j: known[i, j] if (i, j) in known else amounts[..., i, j])
    return Learned(spec.made(paid).clipped().decided_by(predicted_costs.clipped()).checked(), fitted)


def _as_amounts(values: Any) -> NDArray[np.float64]:
    try:
        amounts: NDArray[np.float64] = column_or_1d(np.asarray(values, dtype=np.float64)).copy()
    except (TypeError, ValueError) as error:
        raise TypeError(f"a cost is a column, an expression or an array of numbers, got {values!r:.60}") from error
    amounts[~np.isfinite(amounts)] = np.nan
    amounts.flags.writeable = False
    return amounts


def _packed(array: NDArray[Any]) -> dict[str, Any]:
    plain = np.ascontiguousarray(array)
    plain = plain.astype(plain.dtype.newbyteorder("<"))
    return {"dtype": plain.dtype.str, "shape": list(plain.shape), "bytes": base64.b64encode(plain.tobytes()).decode()}


def _unpacked(packed: dict[str, Any]) -> NDArray[Any]:
    result = np.frombuffer(base64.b64decode(packed["bytes"]), dtype=np.dtype(packed["dtype"])).reshape(packed["shape"])
    return result.astype(result.dtype.newbyteorder("="))
