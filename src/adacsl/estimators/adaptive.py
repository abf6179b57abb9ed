"""AdaptiveCostClassifier: AdaCSL around any scikit-learn classifier that takes sample weights."""

from __future__ import annotations

import copy
import inspect
import math
from numbers import Integral
from typing import Any

import numpy as np

from adacsl.core.control import AdaptiveWeight, Adjustment, Update
from adacsl.core.costs import CostMatrix
from adacsl.core.partitions import Partition
from adacsl.estimators.binary import CostClassifier, Rows, as_costs
from adacsl.extras import requires
from adacsl.integrations.measuring import check_settings, measure

with requires("sklearn"):
    import sklearn
    from sklearn.base import MetaEstimatorMixin, clone
    from sklearn.pipeline import Pipeline
    from sklearn.utils import _safe_indexing, check_random_state, get_tags, indexable
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import _num_samples, check_is_fitted, has_fit_parameter, validate_data

Array = Any
Numbers = np.ndarray[Any, Any]

TRAINING = ("auto", "passes", "refits")
ITERATIVE = ("max_iter", "max_epochs", "n_iter", "epochs")
"""An estimator with one of these settings learns in passes; others with ``partial_fit`` (naive Bayes) add up counts."""
ROUNDS = {"passes": 30, "refits": 6}
LOGIT_LIMITS = (1e-15, 1.0 - 1e-15)


def _gives_probabilities(self: AdaptiveCostClassifier) -> bool:
    return hasattr(self.estimators_[0] if hasattr(self, "estimators_") else self.estimator, "predict_proba")


class AdaptiveCostClassifier(MetaEstimatorMixin, CostClassifier):  # type: ignore[misc]  # scikit-learn has no types
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
    target : float, "bayes" or "middle", default 0.5
        The raw threshold T' the classifier is trained to decide at. "bayes": T' = T; "middle": the geometric middle of
        the odds of T and 0.5.
    cv : None, int or splitter, default None
        Cross-fitting: one model per fold, one controller for all, stepped on all out-of-fold scores; the models'
        logits are averaged.
    validation : float or (X, y), default 0.2
        Without ``cv``: the share of the rows, or data of its own, that adapts, selects and tunes.
    decide : {"target", "tuned", "bayes"}
        Decide at T'; at the cheapest threshold of the held-out scores; or undo the whole weighting, lambda included,
        and decide at the Bayes threshold.
    select : {"best", "last"}
        Keep the cheapest round, or the last.
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
    partition, update, damping, bounds, caution
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
        target: float | str = 0.5,
        cv: Any = None,
        validation: Any = 0.2,
        decide: str = "target",
        select: str = "best",
        training: str = "auto",
        rounds: int | str = "auto",
        patience: int | None = 10,
        every: int = 1,
        partition: Partition | None = None,
        update: Update = "odds",
        damping: float = 0.5,
        bounds: tuple[float, float] | None = None,
        caution: float = 0.0,
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
        self.select = select
        self.training = training
        self.rounds = rounds
        self.patience = patience
        self.every = every
        self.partition = partition
        self.update = update
        self.damping = damping
        self.bounds = bounds
        self.caution = caution
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
        rows = self._collect_rows(
            self._check_features(X, reset=True), y, sample_weight, groups, as_costs(fp, fn, tp, tn, self.costs)
        )
        folds = self._splits(rows, seed)
        self.costs_ = self._class_costs(rows)
        self.target_ = self._targets()[0]
        training = self._kind_of_training()
        self.controller_ = AdaptiveWeight(
            self.costs_, target=self.target_, partition=self.partition, update=self.update,
            damping=self.damping, bounds=self.bounds, caution=self.caution,
        )  # fmt: skip
        learners = [_Learner(self._fresh(seed + number), training, self.weight_name) for number in range(len(folds))]
        self._train(rows, folds, learners, seed)
        return self

    def _check_settings(self) -> None:
        self._check_common_settings()
        check_settings(None, self.every)
        if self.training not in TRAINING:
            raise ValueError(f"training must be one of {', '.join(map(repr, TRAINING))}, got {self.training!r}")
        if self.target == "auto":
            raise ValueError("target must be a number, 'bayes' or 'middle', got 'auto'; search over target instead")
        if self.rounds != "auto" and (not isinstance(self.rounds, Integral) or self.rounds < 1):
            raise ValueError(f"rounds must be 'auto' or a whole number of at least 1, got {self.rounds!r}")
        if self.patience is not None and (not isinstance(self.patience, Integral) or self.patience < 1):
            raise ValueError(f"patience must be None or a whole number of at least 1, got {self.patience!r}")

    def _check_features(self, X: Any, *, reset: bool) -> Any:  # noqa: N803
        """Leave the content to the estimator; remember (or compare) the features' names and number."""
        if not reset and hasattr(self, "n_features_in_") and getattr(X, "ndim", 2) == 1:
            raise ValueError(
                f"X must have rows and columns, got shape {X.shape}. Reshape your data: reshape(1, -1) for one row"
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        rows = indexable(X)[0]
        if _num_samples(rows) == 0:
            raise ValueError("X is empty: found 0 sample(s) while a minimum of 1 is required")
        return rows

    def _more_rows(self, X: Any) -> Any:  # noqa: N803
        return self._check_features(X, reset=False)

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
            open_ = {name: seed for name, value in settings.items() if name.endswith("random_state") and value is None}
            fresh.set_params(**open_)
        return fresh

    def _train(self, rows: Rows, folds: list[tuple[Numbers, Numbers]], learners: list[_Learner], seed: int) -> None:
        """Run the rounds; keep the models of the cheapest."""
        held_out = np.concatenate([test for _, test in folds])
        costs = None if rows.costs is None else rows.costs.rows(held_out)
        sample_weight = None if rows.weight is None else rows.weight[held_out]
        training = learners[0].training
        self.round_costs_: list[float] = []
        scores: list[Numbers] = []
        for number in range(ROUNDS[training] if self.rounds == "auto" else int(self.rounds)):
            weight = self.controller_.weight
            for learner, (train, _) in zip(learners, folds, strict=True):
                learner.learn(*_training_set(rows, train, weight))
            found = [
                raw_scores(learner.estimator, _features(rows, test))
                for learner, (_, test) in zip(learners, folds, strict=True)
            ]
            adapt = (number + 1) % self.every == 0
            measure(
                self.controller_, np.concatenate(found), rows.y[held_out],
                adapt=adapt, costs=costs, sample_weight=sample_weight,
            )  # fmt: skip
            shift = math.log(weight) if self.decide == "bayes" else 0.0
            scores.append(_of_all_rows(_moved(np.concatenate(found), shift), held_out, len(rows.y)))
            self._keep_if_cheapest(learners, self._judge(self.target_, scores[-1], rows).cost, shift)
            if self._settled(number, training, weight):
                break
        self.history_: tuple[Adjustment, ...] = self.controller_.history
        self.threshold_ = self._judge(self.target_, scores[self.best_round_], rows).threshold
        self.oof_scores_ = self._honest_scores(rows, scores, seed)
        self._estimate(self.oof_scores_, rows)

    def _keep_if_cheapest(self, learners: list[_Learner], cost: float, shift: float) -> None:
        """Note what the round costs; take its models if it is the cheapest so far (or if the last round counts)."""
        self.round_costs_.append(cost)
        if self.select == "last" or cost < min(self.round_costs_[:-1], default=math.inf):
            self.best_round_ = len(self.round_costs_) - 1
            self.estimators_ = [learner.keep() for learner in learners]
            self.shift_ = shift

    def _settled(self, number: int, training: str, weight: float) -> bool:
        best = int(np.argmin(self.round_costs_))
        if self.patience is not None and number - best >= self.patience:
            return True
        # the same weight would give the same model again
        adapted = (number + 1) % self.every == 0
        return training == "refits" and adapted and abs(self.controller_.weight / weight - 1.0) < 1e-3

    def _honest_scores(self, rows: Rows, scores: list[Numbers], seed: int) -> Numbers:
        """Return each row's score from the round that the other half of the rows found cheapest."""
        chosen = np.array(scores[self.best_round_])
        if self.select == "last" or len(scores) == 1:
            return chosen
        units = np.arange(len(rows.y)) if rows.groups is None else np.unique(rows.groups, return_inverse=True)[1]
        kinds = np.unique(units[~np.isnan(chosen)])
        first = np.isin(units, np.random.default_rng(seed).permutation(kinds)[: len(kinds) // 2])
        if not first.any():
            return chosen
        for half in (first, ~first):
            judged = [self._judge(self.target_, np.where(half, np.nan, s), rows) for s in scores]
            best = min(range(len(scores)), key=lambda number: judged[number].cost)
            # a tuned threshold is the other half's too: on the scale of threshold_ it is a shift of the logits
            shift = float(_logit(self.threshold_) - _logit(judged[best].threshold))
            chosen[half] = _moved(scores[best][half], shift)
        return chosen

    # predicting

    def decision_scores(self, X: Any) -> Numbers:  # noqa: N803
        """Return the raw scores, to be compared with ``threshold_``: what the cost-weighted models say."""
        check_is_fitted(self)
        X = self._check_features(X, reset=False)  # noqa: N806
        found = [raw_scores(model, X) for model in self.estimators_]
        if len(found) == 1:
            return _moved(found[0], self.shift_)
        return _sigmoid(np.mean([_logit(scores) for scores in found], axis=0) + self.shift_)

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Numbers:  # noqa: N803
        """Return probabilities, corrected for the cost weighting; columns in the order of ``classes_``."""
        return super().predict_proba(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = copy.deepcopy(get_tags(self.estimator).input_tags)
        return tags


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


def _features(rows: Rows, which: Numbers) -> Any:
    """Return some rows' features; those of validation data given apart are numbered behind the others."""
    if rows.validation is not None and len(which) and which[0] >= rows.validation[0]:
        return _safe_indexing(rows.extra, which - rows.validation[0])
    return _safe_indexing(rows.x, which)


def _training_set(rows: Rows, which: Numbers, negative_weight: float) -> tuple[Any, Numbers, Numbers]:
    """Return features, labels and weights; the mean weight stays, so that regularisation keeps its strength."""
    own = np.ones(len(which)) if rows.weight is None else rows.weight[which]
    weight = own * np.where(rows.y[which] == 1, 1.0, negative_weight)
    return _features(rows, which), rows.y[which], weight * (own.sum() / weight.sum())


def _of_all_rows(scores: Numbers, which: Numbers, n: int) -> Numbers:
    """Return one score per row: NaN for rows that only trained, the mean where a splitter tests a row twice."""
    total, count = np.zeros(n), np.zeros(n)
    np.add.at(total, which, scores)
    np.add.at(count, which, 1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _takes(function: Any, parameter: str) -> bool:
    return parameter in inspect.signature(function).parameters


def _moved(scores: Numbers, shift: float) -> Numbers:
    return scores if shift == 0.0 else _sigmoid(_logit(scores) + shift)


def _logit(scores: Numbers | float) -> Numbers:
    inside = np.clip(np.asarray(scores), *LOGIT_LIMITS)
    return np.asarray(np.log(inside / (1.0 - inside)))


def _sigmoid(logits: Numbers) -> Numbers:
    # split by sign: exp of a large positive number would overflow
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1.0 / (1.0 + small), small / (1.0 + small))


__all__ = ["AdaptiveCostClassifier"]
