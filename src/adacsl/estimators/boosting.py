"""AdaCSLBoostingClassifier: gradient boosting that minimises cost, on XGBoost, LightGBM or CatBoost."""

from __future__ import annotations

import importlib
import math
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.core.control import AdaptiveWeight
from adacsl.core.costs import CostMatrix
from adacsl.core.partitions import Partition
from adacsl.datasets.codes import ColumnEncoder
from adacsl.estimators.binary import Array, CostClassifier, Rows, as_costs, take
from adacsl.extras import requires
from adacsl.integrations.boosting import Boosted, Matrix, Plan, sigmoid

with requires("boosting"):
    import pandas as pd
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted

ENGINES = ("xgboost", "lightgbm", "catboost")
HISTORY = ("round", "fold", "target", "lambda", "weight", "threshold", "val_cost")


class AdaCSLBoostingClassifier(CostClassifier):
    """Gradient boosting that minimises cost; validation data can steer its class weight between rounds (AdaCSL).

    By default it is a plain booster, stopped early on cost and decided at the Bayes threshold: on the tables measured
    adaptation saved nothing on top of that. ``target=0.5`` adapts, ``target="auto"`` tries both ways.
    Categories and missing values go to the booster as they are; nothing is one-hot encoded or filled in.

    Parameters
    ----------
    costs : CostMatrix, optional
        What the errors cost. Default: the inverse class frequencies of the training labels
        (``CostMatrix.balanced(y)``). Costs of single samples are given to :meth:`fit` and :meth:`predict`.
    positive : label, optional
        The class ``fn`` speaks of: missing it is a false negative. 0/1, -1/1 and False/True need no naming; for other
        labels the last in sorted order is taken, with a warning.
    engine : {"xgboost", "lightgbm", "catboost"}
        Which library boosts; each is an extra, ``pip install 'adacsl[xgboost]'``.
    target : float, "bayes", "middle" or "auto", default "bayes"
        The raw threshold T' the classifier is trained to decide at. "bayes": T' = T; "middle": the geometric middle of
        the odds of T and 0.5. "auto": an adapted booster at 0.5 and a plain one at T are trained, and the out-of-fold
        (or validation) cost decides.
    cv : None, int or splitter, default None
        Cross-fitting: one booster per fold, adapted and stopped on the fold it did not train on; margins are averaged.
    validation : float or (X, y), default 0.2
        Without ``cv``: the share of the rows, or data of its own, that adapts, stops and tunes.
    decide : {"target", "tuned"}
        Decide at T', or at the cheapest threshold of the out-of-fold (validation) scores.
    select : {"best", "last"}
        Keep each booster up to its cheapest round on its validation data, or all its rounds.
    partition, damping, update, bounds, caution
        Settings of the controller, see :class:`~adacsl.AdaptiveWeight`.
    adapt : bool or "auto", default "auto"
        Whether lambda moves. "auto": unless ``target="bayes"``, where the plain booster did as well.
    rounds : int, default 300
        Trees at most.
    lr : float, default 0.1
        Learning rate.
    patience : int or None, default 50
        Stop after so many rounds without a cheaper one.
    every : int, default 1
        Adapt after every so many rounds.
    params : dict, optional
        The library's own parameters, such as ``{"max_depth": 4, "nthread": 2}``; they win over the above.
    random_state : int, RandomState or None
        Seed of the splits and of the booster.
    verbose : bool, default False
        Let the library report.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The labels, sorted.
    positive_ : label
        The positive class.
    costs_ : CostMatrix
        The class-wide costs trained with.
    target_, threshold_ : float
        T', and the raw threshold decisions are made at.
    adapted_ : bool
        Whether the kept boosters were adapted.
    target_costs_ : dict
        The out-of-fold (validation) cost of every T' tried.
    history_ : pandas.DataFrame
        One row per round (and booster): ``round, fold, target, lambda, weight, threshold, val_cost``.
    oof_scores_ : array of shape (n,)
        Raw scores of the rows by boosters that did not train on them, after the round that was cheapest on *other*
        validation rows (``select="best"``); NaN for rows that only trained. Validation rows given apart follow behind.
    estimated_cost_ : Interval
        Mean cost of the out-of-fold (validation) decisions with its 95 % bootstrap interval. The same rows steered
        lambda, which flatters a little; with ``cv`` it speaks of single boosters, whose average is usually cheaper.
    calibration_error_ : float
        Expected calibration error (15 quantile bins) of the corrected out-of-fold probabilities.
    boosters_ : list
        The library's models, up to the kept rounds; ``rounds_`` says how many those are.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from adacsl import CostMatrix
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = AdaCSLBoostingClassifier(CostMatrix(fp=1, fn=8), rounds=20, random_state=0).fit(X, 1 - y)
    >>> clf.predict(X[:3]).tolist()
    [1, 1, 1]
    """

    def __init__(  # noqa: PLR0913  an estimator lists its settings
        self,
        costs: CostMatrix | None = None,
        *,
        positive: Any = None,
        engine: str = "xgboost",
        target: float | str = "bayes",
        cv: Any = None,
        validation: Any = 0.2,
        decide: str = "target",
        select: str = "best",
        partition: Partition | None = None,
        damping: float = 1.0,
        update: str = "exponential",
        bounds: tuple[float, float] | None = None,
        caution: float = 0.0,
        adapt: bool | str = "auto",
        rounds: int = 300,
        lr: float = 0.1,
        patience: int | None = 50,
        every: int = 1,
        params: dict[str, Any] | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.costs = costs
        self.positive = positive
        self.engine = engine
        self.target = target
        self.cv = cv
        self.validation = validation
        self.decide = decide
        self.select = select
        self.partition = partition
        self.damping = damping
        self.update = update
        self.bounds = bounds
        self.caution = caution
        self.adapt = adapt
        self.rounds = rounds
        self.lr = lr
        self.patience = patience
        self.every = every
        self.params = params
        self.random_state = random_state
        self.verbose = verbose

    # fitting

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        *,
        sample_weight: Array | None = None,
        groups: Array | None = None,
        fp: Array | None = None,
        fn: Array | None = None,
        tp: Array | None = None,
        tn: Array | None = None,
    ) -> AdaCSLBoostingClassifier:
        """Train.

        Parameters
        ----------
        X : table
            numpy, pandas, polars or pyarrow, with numbers, categories, dates and missing values.
        y : array of shape (n,)
            Labels of two classes.
        sample_weight : array of shape (n,), optional
            How much each row counts in the loss and in the validation cost.
        groups : array of shape (n,), optional
            Rows of one group (patient, customer) never stand on both sides of a split.
        fp, fn, tp, tn : arrays of shape (n,), optional
            Costs of each row, where they differ (scikit-learn metadata: ``set_fit_request(fn=True)``).
        """
        self._check_settings()
        engine = load_engine(self.engine)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        X = self._check_table(X, reset=True)  # noqa: N806
        rows = self._collect_rows(X, y, sample_weight, groups, as_costs(fp, fn, tp, tn, self.costs))
        folds = self._splits(rows, seed)
        self.costs_ = self._class_costs(rows)
        matrix = self._encode_training_rows(rows, folds)
        plan = Plan(self.rounds, self.lr, seed % 2**31, dict(self.params or {}), self.verbose)
        tried = [self._boost(*way, engine, matrix, rows, folds, plan) for way in self._ways()]
        self._finish(tried, engine, rows)
        return self

    def _check_settings(self) -> None:
        if self.decide == "bayes":
            # trees of many rounds carry the weights of many rounds: no single number undoes them
            raise ValueError(
                "decide must be 'target' or 'tuned', got 'bayes'; "
                "a plain booster at the Bayes threshold is target='bayes'"
            )
        self._check_common_settings()
        if self.engine not in ENGINES:
            raise ValueError(f"engine must be one of {', '.join(map(repr, ENGINES))}, got {self.engine!r}")
        if self.adapt not in (True, False, "auto"):
            raise ValueError(f"adapt must be True, False or 'auto', got {self.adapt!r}")
        if not isinstance(self.rounds, Integral) or self.rounds < 1:
            raise ValueError(f"rounds must be a whole number of at least 1, got {self.rounds!r}")
        if not isinstance(self.lr, Real) or not 0.0 < self.lr <= 1.0:
            raise ValueError(f"lr must be a number above 0 and at most 1, got {self.lr!r}")

    def _ways(self) -> list[tuple[float, bool]]:
        """Return the targets to try, each with whether lambda moves."""
        adapt = self.target != "bayes" if self.adapt == "auto" else bool(self.adapt)
        if self.target == "auto":
            return [(0.5, adapt), (float(self.costs_.threshold), False)]
        return [(target, adapt) for target in self._targets()]

    def _encode_training_rows(self, rows: Rows, folds: list[Any]) -> Matrix:
        # levels come from rows that some booster trains on
        learned = np.unique(np.concatenate([train for train, _ in folds]))
        self.encoder_ = ColumnEncoder().fit(rows.x if len(learned) == len(rows.y) else take(rows.x, learned))
        x = self.encoder_.transform(rows.x)
        if rows.extra is not None:
            x = np.concatenate((x, self.encoder_.transform(rows.extra)))
        return Matrix(x, rows.y, rows.weight, self.encoder_.categories)

    def _boost(
        self,
        target: float,
        adapt: bool,
        engine: Any,
        matrix: Matrix,
        rows: Rows,
        folds: list[Any],
        plan: Plan,
    ) -> _Tried:
        """Train one booster per fold towards one target."""
        margins = np.full((len(rows.y), len(folds)), np.nan)
        members = []
        for fold, (train, validation) in enumerate(folds):
            controller = AdaptiveWeight(
                self.costs_, target=target, partition=self.partition, damping=self.damping,
                update=self.update,  # type: ignore[arg-type]
                bounds=self.bounds if adapt else (1.0, 1.0), caution=self.caution,
            )  # fmt: skip
            _check_varies(matrix.x[train])
            costs = None if rows.costs is None else rows.costs.rows(validation)
            boosted = engine.boost(
                _part(matrix, train), _part(matrix, validation), controller, plan,
                every=self.every, patience=self.patience, costs=costs,
            )  # fmt: skip
            stakes = _stakes(rows, validation, self.costs_ if costs is None else costs)
            chosen = honest_rounds(boosted.margins, rows.y[validation], stakes, target, last=self.select == "last")
            margins[validation, fold] = boosted.margins[chosen, np.arange(len(validation))]
            members.append(_Member(boosted, self._kept_round(boosted)))
        with np.errstate(invalid="ignore"):
            counted = np.sum(~np.isnan(margins), axis=1)
            mean = np.where(counted > 0, np.nansum(margins, axis=1) / np.maximum(counted, 1), np.nan)
        return _Tried(target, adapt, members, sigmoid(mean))

    def _kept_round(self, boosted: Boosted) -> int:
        costs = [row.val_cost for row in boosted.history]
        return len(costs) - 1 if self.select == "last" else int(np.argmin(costs))

    def _finish(self, tried: list[_Tried], engine: Any, rows: Rows) -> None:
        judged = [self._judge(one.target, one.scores, rows) for one in tried]
        best = min(range(len(tried)), key=lambda i: judged[i].cost)
        chosen = tried[best]
        self.target_, self.threshold_, self.adapted_ = chosen.target, judged[best].threshold, chosen.adapted
        self.target_costs_ = {one.target: j.cost for one, j in zip(tried, judged, strict=True)}
        self.target_costs_[self.target_] = judged[best].cost  # where T is 0.5, both ways have the same name
        self.oof_scores_ = chosen.scores
        self.rounds_ = [member.kept + 1 for member in chosen.members]
        # through bytes and back: what predicts is what would be saved, without callbacks and training data
        self.boosters_ = [engine.from_bytes(engine.to_bytes(m.boosted.model, m.kept + 1)) for m in chosen.members]
        lines = [
            (row.round, fold, one.target, row.lambda_, row.weight, row.threshold, row.val_cost)
            for one in tried
            for fold, member in enumerate(one.members)
            for row in member.boosted.history
        ]
        self.history_ = pd.DataFrame(lines, columns=list(HISTORY))
        self._estimate(chosen.scores, rows)

    # predicting

    def decision_scores(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """Return the raw scores: what the cost-weighted boosters say, to be compared with ``threshold_``."""
        check_is_fitted(self)
        x = self.encoder_.transform(self._check_table(X, reset=False))
        matrix = Matrix(x, None, None, self.encoder_.categories)
        engine = load_engine(self.engine)
        each = [engine.margins(model, matrix) for model in self.boosters_]
        return sigmoid(np.mean(each, axis=0))

    # keeping

    def save(self, folder: str | Path) -> Path:
        """Write the fitted classifier, the boosters in their libraries' own formats, with digests and without pickle.

        ``adacsl.load`` reads it; both need the extra ``train``.
        """
        from adacsl.estimators.persistence import save_boosting_classifier  # noqa: PLC0415  it imports torch

        check_is_fitted(self)
        return save_boosting_classifier(self, folder)


class _Member(NamedTuple):
    boosted: Boosted
    kept: int


class _Tried(NamedTuple):
    target: float
    adapted: bool
    members: list[_Member]
    scores: NDArray[np.float64]


def load_engine(name: str) -> Any:
    """Return the module of a boosting library, or say what to install."""
    return importlib.import_module(f"adacsl.integrations.{name}")


def honest_rounds(
    margins: NDArray[Any], labels: NDArray[Any], stakes: NDArray[Any], target: float, *, last: bool
) -> NDArray[np.int64]:
    """Return for each validation row a round that it did not help to choose: the other half's cheapest.

    The round that is cheapest on some rows looks cheaper on them than it is, so the rows are halved, stratified.
    """
    if last:
        return np.full(len(labels), len(margins) - 1, dtype=np.int64)
    decided = margins > math.log(target / (1.0 - target))
    second = np.zeros(len(labels), dtype=bool)
    for label in (0, 1):
        second[np.flatnonzero(labels == label)[1::2]] = True
    # what the decisions cost, up to a constant
    cheapest = [int(np.argmin(decided[:, half] @ stakes[half])) for half in (~second, second)]
    return np.where(second, cheapest[0], cheapest[1])


def _stakes(rows: Rows, validation: NDArray[Any], costs: CostMatrix) -> NDArray[np.float64]:
    """Return what calling each validation row positive costs more than calling it negative."""
    y = rows.y[validation]
    stakes: NDArray[np.float64] = costs.incurred(y, np.ones_like(y)) - costs.incurred(y, np.zeros_like(y))
    return stakes if rows.weight is None else stakes * rows.weight[validation]


def _check_varies(x: NDArray[Any]) -> None:
    """Refuse rows that are all alike: boosters have nothing to split on, and say so in ways of their own."""
    if not np.any((x != x[:1]) & ~(np.isnan(x) & np.isnan(x[:1]))):
        raise ValueError(
            f"every column is constant in the {len(x)} training rows: there is nothing to learn from; "
            "give columns that differ, or more rows"
        )


def _part(matrix: Matrix, rows: NDArray[Any]) -> Matrix:
    weight = None if matrix.weight is None else matrix.weight[rows]
    return Matrix(matrix.x[rows], matrix.y[rows], weight, matrix.categories)
