"""Cross-fitted regression of costs on tables."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.datasets.encoder import TableEncoder
from adacsl.datasets.ordinal_encoder import ColumnEncoder
from adacsl.fitting.rows import take
from adacsl.learners.histogram_boosting import (
    Levels,
    as_positions,
    frequent_levels,
    levels_from_list,
    listed_levels,
    margins,
    predictors,
    tree_arrays,
    without_missing,
)
from adacsl.learners.trees import insist

with requires("sklearn"):
    from sklearn.base import clone
    from sklearn.ensemble import HistGradientBoostingRegressor


ROUNDS = (30, 200)
"""The most trees, of few samples and of many; held-out samples choose the number."""
ROWS_PER_ROUND = 10
LOGARITHMIC = ("poisson", "gamma")
"""Losses of histogram boosting whose trees add up to the logarithm of a cost."""
TINY = 1e-12
"""The least prediction, in mean costs, whose logarithm is looked at."""

Folds = Sequence[tuple[NDArray[Any], NDArray[Any]]]


class Trees(NamedTuple):
    """Boosted trees as arrays, and the codes of categories that they know."""

    levels: Levels
    arrays: dict[str, Any]
    logarithmic: bool

    def predict(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a number for each sample of encoded columns."""
        sums = margins(self.arrays, as_positions(x, self.levels))
        return np.exp(sums) if self.logarithmic else sums

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and plain values."""
        return self.arrays, {"kind": "trees", "levels": listed_levels(self.levels), "logarithmic": self.logarithmic}


class Sums(NamedTuple):
    """Weighted sums of encoded columns, or their exponentials."""

    weights: NDArray[np.float64]
    intercept: float
    logarithmic: bool

    def predict(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a number for each sample of encoded columns."""
        sums = np.asarray(x @ self.weights + self.intercept)
        return np.exp(sums) if self.logarithmic else sums

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and plain values."""
        about = {"kind": "sums", "intercept": self.intercept, "logarithmic": self.logarithmic}
        return {"weights": self.weights}, about


class Regression(NamedTuple):
    """What predicts costs: columns as numbers, a model of them, a scale, and the range of costs that were seen."""

    encoder: ColumnEncoder | TableEncoder
    model: Any
    scale: float
    low: float
    high: float

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the cost of each sample of a table."""
        return self.of_encoded(self.encoder.transform(X).astype(np.float64))

    def of_encoded(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the cost of each sample of encoded columns."""
        return np.clip(self.scale * np.asarray(self.model.predict(x), np.float64), self.low, self.high)

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return everything as arrays and plain values, or raise where the model has no array form."""
        if not hasattr(self.model, "numbers"):
            raise ValueError(
                f"a cost model of {type(self.model).__name__} cannot be saved without pickle: "
                "HistGradientBoostingRegressor and linear models can"
            )
        arrays, about = self.model.numbers()
        known = {"scale": self.scale, "low": self.low, "high": self.high, "encoder": self.encoder.to_dict()}
        return arrays, about | known

    @classmethod
    def from_numbers(cls, arrays: dict[str, Any], about: dict[str, Any]) -> Regression:
        """Return the regression of what :meth:`numbers` gave."""
        plain = {name: np.asarray(value) for name, value in arrays.items()}
        logarithmic = bool(about["logarithmic"])
        model: Any
        if about["kind"] == "trees":
            insist(len(predictors(plain)) and plain["start"].size == 1, "start")
            encoder: Any = ColumnEncoder.from_dict(about["encoder"])
            insist(len(encoder.columns) == len(plain["order"]), "number of features")
            model = Trees(levels_from_list(about["levels"], len(encoder.columns)), plain, logarithmic)
        else:
            model = Sums(plain["weights"], float(about["intercept"]), logarithmic)
            encoder = TableEncoder.from_dict(about["encoder"])
        return cls(encoder, model, *(float(about[name]) for name in ("scale", "low", "high")))


class CrossFit(NamedTuple):
    """A regression of all samples, and what models that did not see a sample predict for it."""

    regression: Regression
    predicted: NDArray[np.float64]
    explained: float  # share of the deviance from the mean that is gone out of fold


def cross_fit(
    X: Any,  # noqa: N803
    costs: NDArray[np.float64],
    folds: Folds,
    *,
    use: NDArray[np.int64],
    paying: NDArray[np.bool_],
    weight: NDArray[np.float64] | None = None,
    estimator: Any = None,
) -> CrossFit:
    """Fit costs that depend on the sample.

    Parameters
    ----------
    X : table of n samples
    costs : array of shape (n,)
        NaN where a cost is not known.
    folds : pairs of row numbers
        Training samples and held-out samples. Samples that none holds out and those not in use are predicted by the
        model of all samples in use.
    use : array of row numbers
        Samples that may be learned from.
    paying : array of shape (n,), bool
        Samples whose class can pay the cost: it is their mean that matters. Where others have costs too, all samples
        are learned from if held-out samples that pay are predicted better so.
    weight : array of shape (n,), optional
    estimator : regressor, optional
    """
    work = _Work(X, costs, use, weight, estimator)
    known = np.zeros(len(costs), dtype=bool)
    known[use] = np.isfinite(costs[use])
    own, every = known & paying, known
    kinds = [own] if np.array_equal(own, every) else [own, every]
    tried = [work.hold_out(kind, own, folds) for kind in kinds if kind.any()]
    best = min(tried, key=lambda result: result.deviance)
    regression = work.fit(np.flatnonzero(best.rows), best.rounds, best.factor)
    predicted = regression.of_encoded(work.x)
    seen = np.isfinite(best.held)
    predicted[seen] = np.clip(best.factor * best.held[seen], regression.low, regression.high)
    return CrossFit(regression, predicted, best.explained)


class _Held(NamedTuple):
    """What came out of the folds of one choice of samples."""

    rows: NDArray[np.bool_]
    held: NDArray[np.float64]  # out-of-fold predictions, NaN where there are none
    rounds: int
    deviance: float
    explained: float
    factor: float  # makes the out-of-fold predictions right in the mean


class _Work:
    """Columns as numbers, and models of some of the samples."""

    def __init__(
        self,
        X: Any,  # noqa: N803
        costs: NDArray[Any],
        use: NDArray[Any],
        weight: NDArray[Any] | None,
        estimator: Any,
    ) -> None:
        self.usual = estimator is None
        self.rounds = int(np.clip(np.isfinite(costs[use]).sum() // ROWS_PER_ROUND, *ROUNDS)) if self.usual else 1
        self.estimator = usual_regressor(self.rounds) if self.usual else estimator
        self.trees = isinstance(self.estimator, HistGradientBoostingRegressor)
        encoder: Any = ColumnEncoder() if self.trees else TableEncoder()
        self.encoder = encoder.fit(take(X, use))
        self.x = self.encoder.transform(X).astype(np.float64)
        self.levels = frequent_levels(self.encoder, self.x[use]) if self.trees else {}
        self.coded = as_positions(self.x, self.levels)
        self.costs, self.weight = costs, np.ones(len(costs)) if weight is None else weight

    def grow(self, rows: NDArray[np.int64], rounds: int | None = None) -> tuple[Any, float]:
        """Return scikit-learn's model of the costs in units of their mean, and that mean."""
        made = clone(self.estimator)
        if self.trees:
            made.set_params(categorical_features=list(self.levels) or None)
        if rounds is not None:
            made.set_params(max_iter=rounds)
        # in units of their mean: limits inside the learner know no currency
        unit = float(np.average(np.abs(self.costs[rows]), weights=self.weight[rows])) or 1.0
        weight = self.weight[rows] / self.weight[rows].mean()  # limits inside know no other mean
        own = without_missing(self.coded[rows]) if self.trees else self.coded[rows]
        return _fitted(made, own, self.costs[rows] / unit, weight), unit

    def fit(self, rows: NDArray[np.int64], rounds: int, factor: float) -> Regression:
        """Return the regression of these samples."""
        grown, unit = self.grow(rows, rounds if self.usual else None)
        return self.kept(grown, unit * factor, rows)

    def kept(self, grown: Any, scale: float, rows: NDArray[np.int64]) -> Regression:
        """Return a model as it would be read."""
        seen = self.costs[rows]
        return Regression(self.encoder, self._plain(grown), scale, float(seen.min()), float(seen.max()))

    def hold_out(self, rows: NDArray[np.bool_], judges: NDArray[np.bool_], folds: Folds) -> _Held:
        """Cross-fit on some samples, judged by the samples that pay."""
        curve, base, models = np.zeros(self.rounds), 0.0, []
        for train, test in folds:
            learned, judged = train[rows[train]], test[judges[test]]
            if not len(learned):
                curve += np.inf  # there is another choice of samples, or nothing to choose
                continue
            grown, unit = self.grow(learned)
            models.append((grown, unit, test))
            deviance = functools.partial(self._deviance, judged, unit)
            curve += [deviance(stage) for stage in self._stages(grown, judged)] if len(judged) else 0.0
            mean = np.average(self.costs[learned], weights=self.weight[learned]) / unit
            base += deviance(np.full(len(judged), mean))
        rounds = int(curve.argmin()) + 1
        held = np.full(len(rows), np.nan)
        for grown, unit, test in models:
            held[test] = unit * self._plain(_cut(grown, rounds) if self.usual else grown).predict(self.x[test])
        seen = judges & np.isfinite(held)
        factor = _ratio(self.weight[seen] @ self.costs[seen], self.weight[seen] @ held[seen])
        least = float(curve[rounds - 1])
        return _Held(rows, held, rounds, least, 1.0 - least / base if base > 0 and np.isfinite(least) else 0.0, factor)

    def _stages(self, grown: Any, rows: NDArray[np.int64]) -> Iterator[NDArray[np.float64]]:
        """Yield predictions after each round, or the only ones."""
        if self.usual:
            yield from grown.staged_predict(self.coded[rows])
        else:
            yield grown.predict(self.coded[rows])

    def _deviance(self, rows: NDArray[np.int64], unit: float, predicted: NDArray[np.float64]) -> float:
        """Return the Poisson deviance (halved) of predictions, in some unit, from known costs."""
        y, mu = self.costs[rows] / unit, np.maximum(predicted, TINY)
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.where(y > 0, y * np.log(y / mu), 0.0)
        return float(unit * (self.weight[rows] @ (own - y + mu)))

    def _plain(self, grown: Any) -> Any:
        """Return a model as numbers, where it is some."""
        if self.trees:
            arrays = tree_arrays(grown, list(self.levels))
            return Trees(self.levels, arrays, grown.loss in LOGARITHMIC)
        return _as_sums(grown, self.coded[: min(len(self.coded), 20)]) or grown


def usual_regressor(rounds: int) -> Any:
    """Return what predicts costs unless another is asked for: a logarithmic link whose mean is right (Poisson)."""
    return HistGradientBoostingRegressor(
        loss="poisson", learning_rate=0.1, max_leaf_nodes=8, max_iter=rounds, early_stopping=False, random_state=0
    )


def _fitted(model: Any, x: NDArray[Any], costs: NDArray[Any], weight: NDArray[Any]) -> Any:
    return model.fit(x, costs) if np.ptp(weight) == 0.0 else model.fit(x, costs, sample_weight=weight)


def _cut(grown: Any, rounds: int) -> Any:
    """Return boosted trees without those of later rounds."""
    grown._predictors = grown._predictors[:rounds]
    return grown


def _ratio(observed: float, predicted: float) -> float:
    """Return by how much predictions are too low, within a factor of two: a few costs may suggest any factor."""
    return float(np.clip(observed / predicted, 0.5, 2.0)) if observed > 0 and predicted > 0 else 1.0


def _as_sums(model: Any, points: NDArray[np.float64]) -> Sums | None:
    """Return a linear model as the sums it computes; None where there is more to it."""
    weights = np.asarray(getattr(model, "coef_", np.empty((0, 0))), np.float64)
    if weights.ndim != 1:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = np.asarray(model.predict(points))
    sums = [Sums(weights, float(np.ravel(model.intercept_)[0]), logarithmic) for logarithmic in (True, False)]
    return next((own for own in sums if np.allclose(own.predict(points), predicted, rtol=1e-9, atol=1e-12)), None)
