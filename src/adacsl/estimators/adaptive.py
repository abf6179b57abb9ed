"""AdaptiveCostClassifier: AdaCSL around any scikit-learn classifier that takes sample weights."""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from adacsl.core.control import AdaptiveWeight, Adjustment, Update
from adacsl.core.costs import CostMatrix
from adacsl.core.intervals import Interval, cost_interval
from adacsl.core.partitions import Partition
from adacsl.core.thresholds import find_threshold
from adacsl.extras import requires
from adacsl.integrations.measuring import check_settings, measure
from adacsl.integrations.sklearn import PLAIN_LABELS, row_costs

with requires("sklearn"):
    import sklearn
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
    from sklearn.pipeline import Pipeline
    from sklearn.utils import _safe_indexing, check_random_state, get_tags
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import (
        _check_sample_weight,
        assert_all_finite,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        has_fit_parameter,
        validate_data,
    )

    from adacsl.estimators.splits import cross_splits, one_split

Array = Any
Numbers = np.ndarray[Any, Any]

CHOICES = {"decide": ("target", "tuned"), "training": ("auto", "passes", "refits")}
ITERATIVE = ("max_iter", "max_epochs", "n_iter", "epochs")
"""An estimator with one of these settings learns in passes; others with ``partial_fit`` (naive Bayes) add up counts."""
ROUNDS = {"passes": 30, "refits": 6}
THRESHOLD_LIMITS = (1e-7, 1.0 - 1e-7)
LOGIT_LIMITS = (1e-15, 1.0 - 1e-15)


def _gives_probabilities(self: AdaptiveCostClassifier) -> bool:
    return hasattr(self.estimators_[0] if hasattr(self, "estimators_") else self.estimator, "predict_proba")


class AdaptiveCostClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Make any scikit-learn classifier minimise cost: its sample weights follow the validation cost (AdaCSL).

    Each round trains with the negatives weighted by the controller, measures held-out rows and corrects the weight;
    the cheapest round is kept.

    Parameters
    ----------
    estimator : classifier
        Anything with ``sample_weight`` in ``fit`` or ``partial_fit``, also a ``Pipeline`` whose last step has it. With
        ``predict_proba``, or ``decision_function`` alone (then :meth:`predict_proba` is missing here too).
    costs : CostMatrix, optional
        What the errors cost. Default: the inverse class frequencies (``CostMatrix.balanced(y)``). Costs of single rows
        are given to :meth:`fit` and :meth:`predict`.
    positive : label, optional
        The class ``fn`` speaks of. 0/1, -1/1 and False/True need no naming; for other labels the last in sorted order
        is taken, with a warning.
    target : float, default 0.5
        The raw threshold T' the classifier is trained to decide at.
    cv : None, int or splitter, default None
        Cross-fitting: one model per fold, one controller for all, stepped on all out-of-fold scores; the models'
        logits are averaged.
    validation : float, default 0.2
        Without ``cv``: the share of the rows that adapts and selects.
    decide : {"target", "tuned"}
        Decide at T', or at the cheapest threshold of the held-out scores.
    training : {"auto", "passes", "refits"}
        What a round is: one more pass of ``partial_fit`` over the training rows, or a whole ``fit`` (with
        ``warm_start`` where a linear model or a net offers it). "auto": passes for iterative estimators whose
        ``partial_fit`` takes sample weights, else refits.
    rounds : int or "auto"
        "auto": 30 passes or 6 refits.
    patience : int, optional, default 10
        Stop after so many rounds without a cheaper one. Refits also stop when lambda has settled.
    every : int, default 1
        Adapt after every so many rounds.
    partition, update, damping, bounds
        Settings of the controller, see :class:`~adacsl.AdaptiveWeight`; as for the tables of
        :class:`~adacsl.AdaCSLClassifier` the exact odds update at half speed.
    weight_name : str, optional
        Name of the fit parameter that takes the weights, if it cannot be found: ``"clf__sample_weight"``.
    random_state : int, RandomState or None
        Seed of the splits, and of estimators whose own ``random_state`` is None.

    Attributes
    ----------
    classes_, positive_
        The labels, sorted; the positive one.
    costs_ : CostMatrix
        The class-wide costs trained with.
    controller_ : AdaptiveWeight
        Holds ``lambda_`` and :attr:`history_`; ``controller_.to_frame()`` needs pandas.
    history_ : tuple of Adjustment
        What each adaptation measured and decided.
    round_costs_ : list of float
        Mean held-out cost of each round; ``best_round_`` is the place of the kept one.
    estimators_ : list
        The kept models, one per fold; they know the classes 0 and 1 (positive).
    threshold_ : float
        The raw threshold decisions are made at.
    oof_scores_ : array of shape (n,)
        Raw scores of rows by models that did not train on them, in the round that *other* rows chose; NaN for the rest.
    estimated_cost_ : Interval
        Mean cost of these held-out decisions with its 95 % bootstrap interval.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from adacsl import CostMatrix
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression())
    >>> clf = AdaptiveCostClassifier(model, CostMatrix(fp=1, fn=8), cv=5, random_state=0).fit(X, 1 - y)
    >>> clf.predict(X[:3]).tolist()
    [1, 1, 1]
    """

    def __init__(  # noqa: PLR0913  an estimator lists its settings
        self,
        estimator: Any,
        costs: CostMatrix | None = None,
        *,
        positive: Any = None,
        target: float = 0.5,
        cv: Any = None,
        validation: float = 0.2,
        decide: str = "target",
        training: str = "auto",
        rounds: int | str = "auto",
        patience: int | None = 10,
        every: int = 1,
        partition: Partition | None = None,
        update: Update = "odds",
        damping: float = 0.5,
        bounds: tuple[float, float] | None = None,
        weight_name: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.costs = costs
        self.positive = positive
        self.target = target
        self.cv = cv
        self.validation = validation
        self.decide = decide
        self.training = training
        self.rounds = rounds
        self.patience = patience
        self.every = every
        self.partition = partition
        self.update = update
        self.damping = damping
        self.bounds = bounds
        self.weight_name = weight_name
        self.random_state = random_state

    # fitting

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        *,
        sample_weight: Array | None = None,
        groups: Array | None = None,
        fp: Array | None = None,
        fn: Array | None = None,
        tp: Array | None = None,
        tn: Array | None = None,
    ) -> AdaptiveCostClassifier:
        """Train.

        Parameters
        ----------
        X : whatever the estimator takes
            Arrays, tables, sparse matrices.
        y : array of shape (n,)
            Labels of two classes.
        sample_weight : array of shape (n,), optional
            How much each row counts in training and in the held-out cost.
        groups : array of shape (n,), optional
            Rows of one group never stand on both sides of a split.
        fp, fn, tp, tn : arrays of shape (n,), optional
            Costs of each row, where they differ (scikit-learn metadata: ``set_fit_request(fn=True)``).
        """
        self._check_settings()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        given = row_costs({"fp": fp, "fn": fn, "tp": tp, "tn": tn}, self.costs)
        rows = self._read_rows(X, y, sample_weight, groups, given)
        self.costs_ = self._class_costs(rows)
        folds = self._folds(rows, seed)
        training = self._kind_of_training()
        self.controller_ = AdaptiveWeight(
            self.costs_, target=self.target, partition=self.partition, update=self.update,
            damping=self.damping, bounds=self.bounds,
        )  # fmt: skip
        learners = [_Learner(self._fresh(seed + number), training, self.weight_name) for number in range(len(folds))]
        measured = self._train(rows, folds, learners)
        self._finish(rows, folds, measured, seed)
        return self

    def _check_settings(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {getattr(self, name)!r}")
        check_settings(None, self.every)
        if self.costs is not None and not isinstance(self.costs, CostMatrix):
            raise TypeError(f"costs must be a CostMatrix such as CostMatrix(fp=1, fn=8), got {self.costs!r}")
        if self.costs is not None and (self.costs.n_classes != 2 or self.costs.n_instances is not None):
            raise ValueError(
                f"costs must hold one price per outcome of two classes, got {self.costs!r}; "
                "give costs of each row to fit and predict: fit(X, y, fn=amounts)"
            )
        if self.rounds != "auto" and (not isinstance(self.rounds, Integral) or self.rounds < 1):
            raise ValueError(f"rounds must be 'auto' or a whole number of at least 1, got {self.rounds!r}")
        if self.patience is not None and (not isinstance(self.patience, Integral) or self.patience < 1):
            raise ValueError(f"patience must be None or a whole number of at least 1, got {self.patience!r}")

    def _read_rows(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Array | None,
        groups: Array | None,
        costs: CostMatrix | None,
    ) -> _Rows:
        if y is None:
            raise ValueError(f"this {type(self).__name__} estimator requires y to be passed, but the target y is None")
        validate_data(self, X, reset=True, skip_check_array=True)
        labels = self._encode_labels(y)
        check_consistent_length(X, labels)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, labels, dtype=np.float64)
        groups = None if groups is None else column_or_1d(groups)
        check_consistent_length(labels, groups)
        if costs is not None and costs.n_instances not in (None, len(labels)):
            raise ValueError(
                f"costs of each row must be as many as rows: got {costs.n_instances} for {len(labels)} rows"
            )
        rows = _Rows(X, labels, weight, groups, costs)
        present = np.unique(labels[rows.counting])
        if len(present) < 2:
            raise ValueError(
                f"the training data hold one class only ({self.classes_[int(present[0])]!r}); "
                "a classifier needs samples of both classes"
            )
        return rows

    def _encode_labels(self, y: Any) -> Numbers:
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}: "
                f"{len(self.classes_)} classes came"
            )
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs two classes, but y holds one class only: {self.classes_[0]!r}"
            )
        self.positive_ = self._positive_class()
        return np.asarray(numbers if self.positive_ == self.classes_[1] else 1 - numbers)

    def _positive_class(self) -> Any:
        if self.positive is not None:
            if self.positive not in self.classes_.tolist():
                raise ValueError(
                    f"positive={self.positive!r} is no label of y; the labels are {self.classes_.tolist()}"
                )
            return self.positive
        if set(self.classes_.tolist()) not in PLAIN_LABELS:
            warnings.warn(
                f"the positive class was not named: taking {self.classes_[1]!r} (the other is {self.classes_[0]!r}); "
                "say positive=... to choose",
                stacklevel=5,
            )
        return self.classes_[1]

    def _class_costs(self, rows: _Rows) -> CostMatrix:
        if rows.costs is not None:
            return rows.costs.averaged()
        return CostMatrix.balanced(rows.y) if self.costs is None else self.costs

    def _folds(self, rows: _Rows, seed: int) -> list[tuple[Numbers, Numbers]]:
        keep = rows.counting
        if self.cv is not None and not isinstance(self.cv, int):
            # a splitter of the user's speaks of all rows
            folds = cross_splits(rows.y, rows.groups, self.cv, seed)
            return [(np.intersect1d(train, keep), np.intersect1d(test, keep)) for train, test in folds]
        groups = None if rows.groups is None else rows.groups[keep]
        if self.cv is None:
            folds = one_split(rows.y[keep], groups, float(self.validation), seed)
        else:
            folds = cross_splits(rows.y[keep], groups, self.cv, seed)
        return [(keep[train], keep[test]) for train, test in folds]

    def _kind_of_training(self) -> str:
        has_passes = hasattr(self.estimator, "partial_fit") and _takes(self.estimator.partial_fit, "sample_weight")
        has_refits = weight_name_of(self.estimator) is not None or self.weight_name is not None
        if self.training == "passes" and not has_passes:
            raise TypeError(f"training='passes' needs partial_fit with sample_weight, which {self.estimator!r} has not")
        if self.training == "refits" and not has_refits:
            raise TypeError(f"training='refits' needs fit with sample_weight, which {self.estimator!r} has not")
        if not has_passes and not has_refits:
            raise TypeError(
                f"{self.estimator!r} takes no sample_weight, neither in fit nor in partial_fit, so it cannot be "
                "steered; take another estimator, name the parameter with weight_name=..., or move its threshold "
                "with find_threshold"
            )
        if self.training != "auto":
            return self.training
        iterative = has_passes and any(hasattr(self.estimator, name) for name in ITERATIVE)
        return "passes" if iterative or not has_refits else "refits"

    def _fresh(self, seed: int) -> Any:
        """Return an untrained copy; where the estimator leaves its seed open, it gets one from ours."""
        fresh = clone(self.estimator)
        if self.random_state is not None:
            settings = fresh.get_params(deep=True)
            open_ = {
                name: seed for name, value in settings.items() if name.endswith("random_state") and value is None
            }
            fresh.set_params(**open_)
        return fresh

    def _train(self, rows: _Rows, folds: list[tuple[Numbers, Numbers]], learners: list[_Learner]) -> list[Numbers]:
        """Run the rounds; return the held-out scores of each, and keep the models of the cheapest."""
        held_out = np.concatenate([test for _, test in folds])
        training = learners[0].training
        self.round_costs_: list[float] = []
        scores: list[Numbers] = []
        for number in range(ROUNDS[training] if self.rounds == "auto" else int(self.rounds)):
            weight = self.controller_.weight
            for learner, (train, _) in zip(learners, folds, strict=True):
                learner.learn(*rows.training_set(train, weight))
            found = [
                raw_scores(learner.estimator, _safe_indexing(rows.x, test))
                for learner, (_, test) in zip(learners, folds, strict=True)
            ]
            scores.append(np.concatenate(found))
            adapt = (number + 1) % self.every == 0
            measured = measure(self.controller_, scores[-1], rows.y[held_out], adapt=adapt, **rows.prices(held_out))
            self._judge(learners, measured.cost, rows, held_out, scores[-1])
            if self._settled(number, training, weight):
                break
        self.history_: tuple[Adjustment, ...] = self.controller_.history
        return scores

    def _judge(
        self, learners: list[_Learner], cost: float, rows: _Rows, held_out: Numbers, scores: Numbers
    ) -> None:
        """Note what the round costs; take its models if it is the cheapest so far."""
        if self.decide == "tuned":
            cost = self._cost_of(scores, self._threshold_of(scores, rows, held_out), rows, held_out)
        self.round_costs_.append(cost)
        if cost < min(self.round_costs_[:-1], default=math.inf):
            self.best_round_ = len(self.round_costs_) - 1
            self.estimators_ = [learner.keep() for learner in learners]

    def _settled(self, number: int, training: str, weight: float) -> bool:
        if self.patience is not None and number - self.best_round_ >= self.patience:
            return True
        # the same weight would give the same model again
        adapted = (number + 1) % self.every == 0
        return training == "refits" and adapted and abs(self.controller_.weight / weight - 1.0) < 1e-3

    def _threshold_of(self, scores: Numbers, rows: _Rows, held_out: Numbers) -> float:
        if self.decide == "target":
            return float(self.target)
        prices = rows.prices(held_out)
        best = find_threshold(
            scores, rows.y[held_out], prices["costs"] or self.costs_,
            target=self.target, sample_weight=prices["sample_weight"],
        )  # fmt: skip
        return float(np.clip(best.value, *THRESHOLD_LIMITS))

    def _cost_of(self, scores: Numbers, threshold: float, rows: _Rows, held_out: Numbers) -> float:
        prices = rows.prices(held_out)
        costs = prices["costs"] or self.costs_
        decided = costs.decide(self._corrected(scores, threshold))
        return costs.mean(rows.y[held_out], decided, sample_weight=prices["sample_weight"])

    def _finish(self, rows: _Rows, folds: list[tuple[Numbers, Numbers]], scores: list[Numbers], seed: int) -> None:
        held_out = np.concatenate([test for _, test in folds])
        self.threshold_ = self._threshold_of(scores[self.best_round_], rows, held_out)
        chosen = self._honest_scores(rows, held_out, scores, seed)
        total, count = np.zeros(len(rows.y)), np.zeros(len(rows.y))
        np.add.at(total, held_out, chosen)
        np.add.at(count, held_out, 1)
        with np.errstate(invalid="ignore"):
            self.oof_scores_ = total / count
        seen = np.flatnonzero(count)
        costs = self.costs_ if rows.costs is None else rows.costs.rows(seen)
        decided = costs.decide(self._corrected(self.oof_scores_[seen], self.threshold_))
        groups = None if rows.groups is None else rows.groups[seen]
        self.estimated_cost_: Interval = cost_interval(costs, rows.y[seen], decided, groups=groups)

    def _honest_scores(self, rows: _Rows, held_out: Numbers, scores: list[Numbers], seed: int) -> Numbers:
        """Return each row's score from the round that the other half of the rows found cheapest."""
        units = held_out if rows.groups is None else np.unique(rows.groups[held_out], return_inverse=True)[1]
        kinds = np.unique(units)
        first = np.isin(units, np.random.default_rng(seed).permutation(kinds)[: len(kinds) // 2])
        chosen = np.array(scores[self.best_round_])
        if len(scores) == 1 or first.all() or not first.any():
            return chosen
        for half in (first, ~first):
            costs = [self._cost_of(s[~half], self.threshold_, rows, held_out[~half]) for s in scores]
            chosen[half] = scores[int(np.argmin(costs))][half]
        return chosen

    # predicting

    def decision_scores(self, X: Any) -> Numbers:  # noqa: N803
        """Return the raw scores, to be compared with ``threshold_``: what the cost-weighted models say."""
        check_is_fitted(self)
        validate_data(self, X, reset=False, skip_check_array=True)
        found = [raw_scores(model, X) for model in self.estimators_]
        if len(found) == 1:
            return found[0]
        inside = np.clip(np.stack(found), *LOGIT_LIMITS)
        return _sigmoid(np.mean(np.log(inside / (1.0 - inside)), axis=0))

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> Numbers:  # noqa: N803
        """Return probabilities, corrected for the cost weighting; columns in the order of ``classes_``."""
        positive = self._corrected(self.decision_scores(X), self.threshold_)
        columns = (1.0 - positive, positive)
        return np.stack(columns if self.positive_ == self.classes_[1] else columns[::-1], axis=1)

    def predict(
        self,
        X: Any,  # noqa: N803
        *,
        fp: Array | None = None,
        fn: Array | None = None,
        tp: Array | None = None,
        tn: Array | None = None,
    ) -> Numbers:
        """Return the cheapest label of each row; with costs of each row, by each row's own Bayes threshold."""
        proba = self._corrected(self.decision_scores(X), self.threshold_)
        costs = row_costs({"fp": fp, "fn": fn, "tp": tp, "tn": tn}, self.costs_) or self.costs_
        positive = costs.decide(proba) == 1
        return np.where(positive == (self.positive_ == self.classes_[1]), self.classes_[1], self.classes_[0])

    def score(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Array | None = None,
        *,
        fp: Array | None = None,
        fn: Array | None = None,
        tp: Array | None = None,
        tn: Array | None = None,
    ) -> float:
        """Return minus the mean cost, so that a search for the best score finds the cheapest model."""
        labels = column_or_1d(y)
        unknown = set(np.unique(labels).tolist()) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(f"y holds labels that were not in training: {sorted(unknown, key=str)}")
        costs = row_costs({"fp": fp, "fn": fn, "tp": tp, "tn": tn}, self.costs_) or self.costs_
        decided = self.predict(X, fp=fp, fn=fn, tp=tp, tn=tn) == self.positive_
        return -costs.mean(labels == self.positive_, decided, sample_weight=sample_weight)

    def _corrected(self, scores: Numbers, threshold: float) -> Numbers:
        """Map raw scores to probabilities so that the deciding threshold becomes the Bayes threshold."""
        return np.asarray(AdaptiveWeight(self.costs_, target=threshold).correct(scores))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags = copy.deepcopy(get_tags(self.estimator).input_tags)
        return tags


class _Rows(NamedTuple):
    """Checked training data: 0/1 labels, and what goes with each row."""

    x: Any
    y: Numbers
    weight: Numbers | None
    groups: Numbers | None
    costs: CostMatrix | None

    @property
    def counting(self) -> Numbers:
        """The rows that count: those of weight zero must not even stand in a split."""
        return np.arange(len(self.y)) if self.weight is None else np.flatnonzero(self.weight > 0)

    def training_set(self, rows: Numbers, negative_weight: float) -> tuple[Any, Numbers, Numbers]:
        """Return features, labels and weights; the mean weight stays, so that regularisation keeps its strength."""
        own = np.ones(len(rows)) if self.weight is None else self.weight[rows]
        weight = own * np.where(self.y[rows] == 1, 1.0, negative_weight)
        return _safe_indexing(self.x, rows), self.y[rows], weight * (own.sum() / weight.sum())

    def prices(self, rows: Numbers) -> dict[str, Any]:
        """Return what a measurement needs to know of these rows."""
        return {
            "costs": None if self.costs is None else self.costs.rows(rows),
            "sample_weight": None if self.weight is None else self.weight[rows],
        }


class _Learner:
    """One model on its way through the rounds."""

    def __init__(self, estimator: Any, training: str, weight_name: str | None) -> None:
        self.estimator = estimator
        self.training = training
        self.weight_name = weight_name or weight_name_of(estimator)
        self.trained = False

    def learn(self, x: Any, y: Numbers, weight: Numbers) -> None:
        """Train one more round."""
        if self.training == "passes":
            self.estimator.partial_fit(x, y, classes=np.array([0, 1]), sample_weight=weight)
            return
        self.estimator = self._next()
        name = str(self.weight_name)
        if isinstance(self.estimator, Pipeline) and sklearn.get_config()["enable_metadata_routing"]:
            name = _request_weights(self.estimator)
        self.estimator.fit(x, y, **{name: weight})
        self.trained = True

    def keep(self) -> Any:
        """Return the model as it is now, safe from further rounds."""
        return copy.deepcopy(self.estimator) if self.training == "passes" else self.estimator

    def _next(self) -> Any:
        # forests and boosters would add trees instead of starting from the former solution
        starts_warm = hasattr(self.estimator, "warm_start") and (
            hasattr(self.estimator, "coef_") or hasattr(self.estimator, "coefs_")
        )
        if not self.trained or not starts_warm:
            return clone(self.estimator)
        return copy.deepcopy(self.estimator).set_params(warm_start=True)


def raw_scores(model: Any, x: Any) -> Numbers:
    """Return the scores of the positive class 1 in [0, 1]: probabilities, or the sigmoid of the decision function."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(x), dtype=np.float64)[:, 1]
    if hasattr(model, "decision_function"):
        return _sigmoid(np.asarray(model.decision_function(x), dtype=np.float64))
    raise TypeError(f"{model!r} has neither predict_proba nor decision_function: there are no scores to adapt to")


def weight_name_of(estimator: Any) -> str | None:
    """Return the fit parameter that takes sample weights: of the last step, for a pipeline; None if there is none."""
    if isinstance(estimator, Pipeline):
        last, model = estimator.steps[-1]
        inner = weight_name_of(model)
        return None if inner is None else f"{last}__{inner}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def _request_weights(pipeline: Any) -> str:
    """Let metadata routing bring the weights to the last step, and to no other that has not asked for them."""
    last = pipeline.steps[-1][1]
    for _, step in pipeline.steps:
        if hasattr(step, "set_fit_request") and has_fit_parameter(step, "sample_weight"):
            asked = step.get_metadata_routing().fit.requests.get("sample_weight")
            if asked is None or step is last:
                step.set_fit_request(sample_weight=step is last)
    return "sample_weight"


def _takes(function: Any, parameter: str) -> bool:
    return parameter in inspect.signature(function).parameters


def _sigmoid(logits: Numbers) -> Numbers:
    # split by sign: exp of a large positive number would overflow
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1.0 / (1.0 + small), small / (1.0 + small))


__all__ = ["AdaptiveCostClassifier"]
