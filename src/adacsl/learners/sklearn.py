"""Any scikit-learn classifier as a learner, fitted once or in rounds with adapted sample weights."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.controller import AdaCSLController
from adacsl.adaptive.held_out import HeldOut
from adacsl.base.arrays import check_whole
from adacsl.base.extras import requires
from adacsl.base.labels import find_classes
from adacsl.base.scores import to_probabilities
from adacsl.datasets.encoder import TableEncoder
from adacsl.fitting.candidates import Candidate
from adacsl.fitting.rows import Rows
from adacsl.fitting.settings import in_full, keeps_settings, make_controller, measured, trained_with
from adacsl.learners.arrays import Prefit
from adacsl.learners.estimator_model import EstimatorModel, encoded, raw_logits

with requires("sklearn"):
    import sklearn
    from sklearn.base import BaseEstimator, clone
    from sklearn.compose import ColumnTransformer
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter


TRAINING = ("auto", "passes", "refits")
ITERATIVE = ("max_iter", "max_epochs", "n_iter", "epochs")
"""An estimator with one of these settings learns in passes; others with ``partial_fit`` (naive Bayes) add up counts."""
ROUNDS = {"passes": 30, "refits": 6}
FOLDS = 5
"""Folds that give held-out scores of a model which is fitted on all samples."""
USUAL = {"update": "odds", "damping": 0.5}
USUAL_OF_MANY = {"damping": 0.5}
"""With more than two classes, where the update is exact anyway."""


class SklearnLearner(BaseEstimator):
    """Settings of a scikit-learn classifier and its training; use it as ``learner=SklearnLearner(estimator)``.

    Parameters
    ----------
    estimator : classifier
        With ``predict_proba``, or ``decision_function`` alone. A weighted loss and a controller need ``sample_weight``
        in ``fit`` or ``partial_fit``.
    training : {"auto", "passes", "refits"}, default "auto"
        What a round of adaptation is: one more pass of ``partial_fit``, or a whole ``fit``.
    max_iter : int or "auto", default "auto"
        Rounds at most; "auto": 30 passes or 6 refits.
    patience : int or None, default 10
        Stop after so many rounds without one of lower cost; None: no early stopping. Refits also stop when lambda has
        converged.
    every : int, default 1
        Adapt after every so many rounds.
    weight_name : str, optional
        Name of the ``fit`` parameter that takes the weights, if it cannot be found: ``"clf__sample_weight"``.
    encode : bool or "auto", default "auto"
        Whether tables are encoded as for neural networks; otherwise the estimator gets X as it is. "auto": X is
        encoded, except for pipelines, column transformers and fitted estimators.

    Raises
    ------
    TypeError
        In ``fit``, where a weighted loss is asked for and the estimator takes no weights.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from adacsl import AdaCSLClassifier, CostMatrix
    >>> from adacsl.learners import SklearnLearner
    >>> learner = SklearnLearner(RandomForestClassifier(), max_iter=3)
    >>> model = AdaCSLClassifier(CostMatrix(fp=1, fn=8), learner=learner)
    >>> model.get_params()["learner__max_iter"]
    3
    """

    trained_by = "adacsl.learners.sklearn:fit_models"

    @keeps_settings
    def __init__(
        self,
        estimator: Any,
        *,
        training: str = "auto",
        max_iter: int | str = "auto",
        patience: int | None = 10,
        every: int = 1,
        weight_name: str | None = None,
        encode: bool | str = "auto",
    ) -> None:
        """Keep the settings."""

    def check(self) -> None:
        """Refuse settings that make no sense."""
        if self.training not in TRAINING:
            raise ValueError(f"training must be one of {', '.join(map(repr, TRAINING))}, got {self.training!r}")
        check_whole("max_iter", self.max_iter, other=["auto"])
        check_whole("patience", self.patience, other=[None])
        check_whole("every", self.every)

        if not (isinstance(self.encode, bool) or self.encode == "auto"):
            raise ValueError(f"encode must be 'auto', True or False, got {self.encode!r}")

    @property
    def encodes(self) -> bool:
        """Whether tables are encoded."""
        if isinstance(self.encode, bool):
            return self.encode
        params: dict[str, Any] = getattr(self.estimator, "get_params", dict)()
        selects = any(isinstance(part, Pipeline | ColumnTransformer) for part in (self.estimator, *params.values()))
        return not selects and not prefit_parts(self.estimator)

    @property
    def tables_only(self) -> bool:
        """Whether samples are rows of tables: not where the estimator is a graph that takes images."""
        return not getattr(self.estimator, "takes_images", False)

    @property
    def image_size(self) -> tuple[int, int] | None:
        """Height and width of the images that the estimator takes."""
        return None if self.tables_only else self.estimator.image_size

    def adapts(self, candidate: Candidate) -> bool:
        """Return whether "auto" adapts: always."""
        return True

    @property
    def kind_of_training(self) -> str:
        """Passes or refits."""
        passes = getattr(self.estimator, "partial_fit", None)
        has_passes = passes is not None and "sample_weight" in inspect.signature(passes).parameters
        has_refits = weight_name_of(self.estimator) is not None or self.weight_name is not None
        if self.training == "passes" and not has_passes:
            raise TypeError(f"training='passes' needs partial_fit with sample_weight, which {self.estimator!r} lacks")
        if self.training == "refits" and not has_refits:
            raise TypeError(f"training='refits' needs fit with sample_weight, which {self.estimator!r} lacks")
        if not has_passes and not has_refits:
            raise TypeError(
                f"{self.estimator!r} takes no sample_weight, neither in fit nor in partial_fit, so it cannot be "
                "weighted; use another estimator, name the parameter with weight_name=..., or move its threshold "
                "with find_threshold"
            )
        if self.training != "auto":
            return str(self.training)
        iterative = has_passes and any(hasattr(self.estimator, name) for name in ITERATIVE)
        return "passes" if iterative or not has_refits else "refits"

    def fresh(self, seed: int | None) -> Any:
        """Return an untrained copy; where the estimator leaves its seed open, it gets this one."""
        made = clone(self.estimator)
        if seed is not None:
            settings = made.get_params(deep=True)
            open_ = {name: seed for name, value in settings.items() if name.endswith("random_state") and value is None}
            made.set_params(**open_)
        return made


def fit_models(candidates: Sequence[Candidate], rows: Rows) -> Iterator[Candidate]:
    """Fit the estimator of each candidate: in rounds where it is adapted, else as it is."""
    encoder: TableEncoder | None = None
    as_encoded = rows
    fitted: dict[Any, Any] = {}  # candidates that differ only in how they decide share their models
    for candidate in candidates:
        encode = candidate.learner.encodes
        if encode and encoder is None:
            encoder = TableEncoder().fit(rows.to_encode(rows.use))
            extra = None if rows.extra is None else encoded(encoder, rows.extra)
            as_encoded = dataclasses.replace(rows, x=encoded(encoder, rows.to_encode()), extra=extra)
        features = as_encoded if encode else rows
        with contextlib.nullcontext() if encode else _text_explained():
            # the plain candidate too: all are judged by the same samples
            if candidate.method.controller is not None:
                models, undone = _fit_in_rounds(candidate, features)
            else:
                models, undone = _fit_as_it_is(candidate, features, fitted), 0.0
        labels = prefit_labels(candidate.learner.estimator, rows)
        models = candidate.deciding(models)
        models = list({id(model): model for model in models}.values())  # a frozen one is the same in each fold
        models = [numbered(model, labels) for model in models]
        candidate.model = EstimatorModel(models, encoder if encode else None, undone, rows.n_classes)
        if candidate.watch is not None:
            tested = rows.to_encode(candidate.watch) if encode else rows.take(candidate.watch)
            candidate.watched = candidate.model.logits(tested)
        yield candidate


@contextlib.contextmanager
def _text_explained() -> Iterator[None]:
    """Say what to do where an estimator that gets the table as it is cannot take its text."""
    try:
        yield
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(
            f"{' '.join(str(error).split())}: pipelines get the table as it is; encode its text with a "
            "ColumnTransformer in the pipeline, or take adacsl.learners.sklearn.SklearnLearner(pipeline, encode=True)"
        ) from error


# as it is


def _fit_as_it_is(candidate: Candidate, rows: Rows, fitted: dict[Any, Any]) -> list[Any]:
    """Return models of all samples, or of each fold of a cross-fit; held-out scores come from folds."""
    method = candidate.method
    folds = candidate.folds if method.cv is not None else [(rows.use, rows.use[:0])]
    models = [_fitted(candidate, rows, train, fitted) for train, _ in folds]
    stretched = candidate.loss == "weighted" and not candidate.is_plain  # by held-out samples
    needs_scores = method.decide in ("tuned", "calibrated") or method.target_threshold == "auto" or stretched
    if method.cv is None and (candidate.watch is None or needs_scores):
        folds = candidate.judged = rows.folds(FOLDS, None, candidate.seed)
    for train, held_out in folds:
        if len(held_out):
            held = candidate.hold_out(rows, held_out)
            model = _fitted(candidate, rows, train, fitted)
            moved = candidate.shift(rows.y) + candidate.offsets(held_out)
            model = numbered(model, prefit_labels(candidate.learner.estimator, rows))
            held.look(raw_logits(model, rows.take(held_out), rows.n_classes) + moved)
            candidate.held.append(held)
    return models


def _fitted(candidate: Candidate, rows: Rows, train: NDArray[Any], known: dict[Any, Any]) -> Any:
    settings, weight = candidate.learner, rows.weights(train)
    model = settings.fresh(candidate.seed)
    options: dict[str, Any] = {}
    weighted = candidate.loss == "weighted" and (candidate.instance_weighted or not _is_bayes(candidate))
    taken = inspect.signature(model.fit).parameters
    if "costs" in taken:
        options["costs"] = candidate.costs.rows(train)
    if "groups" in taken and rows.groups is not None:
        options["groups"] = rows.groups[train]
    paid = weighted or "costs" in options
    cost_key = (candidate.costs.to_json(), candidate.target_threshold, candidate.instance_weighted) if paid else None
    prefit = tuple(id(part) for part in prefit_parts(settings.estimator))  # those of equal settings may differ
    key = (in_full(model), prefit, train.tobytes(), cost_key)
    if key in known:
        return known[key]
    if weighted:
        stakes = stakes_of(candidate, rows, train)
        weight = stakes if weight is None else stakes * weight
    if weight is not None:
        options[settings.weight_name or weight_name_of(model) or "sample_weight"] = weight
    labels = prefit_labels(settings.estimator, rows)
    y = rows.y[train] if labels is None else labels[rows.y[train]]
    known[key] = model.fit(rows.take(train), y, **options)
    return known[key]


def _is_bayes(candidate: Candidate) -> bool:
    """Return whether the target weighs nothing."""
    if candidate.costs.n_classes > 2:
        return bool(candidate.target_threshold == "bayes")
    return math.isclose(candidate.target_threshold, candidate.class_costs.threshold)


def stakes_of(candidate: Candidate, rows: Rows, some: NDArray[Any]) -> NDArray[np.float64]:
    """Return what some samples weigh without a controller, 1 in the mean: by their class, and by their own costs."""
    stakes = _stakes(candidate, rows)[some] * _row_weights(candidate, rows, some)
    return np.asarray(stakes / np.mean(stakes))


def _stakes(candidate: Candidate, rows: Rows) -> NDArray[np.float64]:
    """Return what an error on each sample usually costs: weighted so, T' is the threshold (eq. 5)."""
    if rows.n_classes > 2:
        return AdaCSLController(candidate.class_costs, target_threshold=candidate.target_threshold).base_weights[rows.y]
    reduced, target_threshold = candidate.class_costs.reduced(), candidate.target_threshold
    return np.asarray(
        np.where(rows.y == 1, reduced.fn, reduced.fp * ((1.0 - target_threshold) / target_threshold)), dtype=np.float64
    )


def _row_weights(candidate: Candidate, rows: Rows, train: NDArray[Any]) -> Any:
    own = candidate.row_weights(train, rows.y)
    return 1.0 if own is None else own


# in rounds


def _fit_in_rounds(candidate: Candidate, rows: Rows) -> tuple[list[Any], Any]:
    """Train round by round with the weights of one controller for all folds.

    Return the models of the round of least cost, and what is added to their logits where the weights are undone.
    """
    method, settings = candidate.method, candidate.learner
    training, usual = settings.kind_of_training, USUAL if rows.n_classes == 2 else USUAL_OF_MANY
    controller = make_controller(
        method.controller, candidate.class_costs, candidate.target_threshold, usual, still=not candidate.adapts,
        instance_weighted=candidate.instance_weighted,
    )  # fmt: skip
    seed = None if method.random_state is None else candidate.seed
    learners = [settings.fresh(None if seed is None else seed + i) for i in range(len(candidate.folds))]
    held_out = np.concatenate([test for _, test in candidate.folds])
    held, shift = candidate.hold_out(rows, held_out), candidate.shift(rows.y) + candidate.offsets(held_out)
    models: list[Any] = []
    undone: Any = 0.0
    for number in range(ROUNDS[training] if settings.max_iter == "auto" else int(settings.max_iter)):
        weights, about = controller.weights, {"round": number, "fold": 0} | trained_with(controller, rows.n_classes)
        learners, logits = _one_round(candidate, rows, learners, weights)
        adapt = (number + 1) % settings.every == 0
        result = controller.step(
            to_probabilities(logits), rows.y[held_out], adapt=adapt, sample_weight=rows.weights(held_out),
            costs=None if rows.costs is None else candidate.costs.rows(held_out),
        )  # fmt: skip
        moved = _undoing(weights) if method.decide == "unweighted" else 0.0
        if held.look(logits + shift + moved):
            # passes go on with the same estimators
            models, undone = copy.deepcopy(learners) if training == "passes" else learners, moved
        candidate.history.append(about | measured(result, rows.n_classes) | {"val_cost": held.latest[0]})
        if _resolved(settings, held, controller, weights, adapted=adapt and training == "refits"):
            break
    candidate.held = [held]
    kept = candidate.history[held.best]
    candidate.extra = {"epoch": float(held.best)} | ({"lambda": kept["lambda"]} if rows.n_classes == 2 else {})
    return models, undone


def _one_round(
    candidate: Candidate, rows: Rows, learners: list[Any], class_weights: NDArray[np.float64]
) -> tuple[list[Any], NDArray[np.float64]]:
    """Train all folds once more; return the estimators and their logits of the held-out samples, fold after fold."""
    trained, result = [], []
    for learner, (train, held_out) in zip(learners, candidate.folds, strict=True):
        own = np.ones(len(train)) if rows.weight is None else rows.weight[train]
        weights = own * class_weights[rows.y[train]] * _row_weights(candidate, rows, train)
        # the mean weight stays, so that regularisation keeps its strength
        weights *= own.sum() / weights.sum()
        trained.append(_learn(candidate.learner, learner, rows, train, weights))
        model = numbered(trained[-1], prefit_labels(candidate.learner.estimator, rows))
        result.append(raw_logits(model, rows.take(held_out), rows.n_classes))
    return trained, np.concatenate(result)


def _undoing(weights: NDArray[np.float64]) -> Any:
    """Return what takes the weights out of logits: a number for two classes, else one of each class."""
    return math.log(weights[0]) if len(weights) == 2 else -np.log(weights)


def _resolved(
    settings: SklearnLearner,
    held: HeldOut,
    controller: AdaCSLController,
    weights: NDArray[np.float64],
    *,
    adapted: bool,
) -> bool:
    if settings.patience is not None and not held.last and held.seen - 1 - held.best >= settings.patience:
        return True
    # the same weights would give the same model again
    return adapted and bool(np.all(np.abs(controller.weights / weights - 1.0) < 1e-3))


def _learn(settings: SklearnLearner, estimator: Any, rows: Rows, train: NDArray[Any], weight: NDArray[Any]) -> Any:
    """Return the estimator after one more round."""
    x, y, classes = rows.take(train), rows.y[train], np.arange(rows.n_classes)
    labels = prefit_labels(settings.estimator, rows)
    if labels is not None:
        y, classes = labels[y], np.unique(labels)
    if settings.kind_of_training == "passes":
        estimator.partial_fit(x, y, classes=classes, sample_weight=weight)
        return estimator
    # forests and boosters would add trees instead of starting from the former solution
    if hasattr(estimator, "warm_start") and (hasattr(estimator, "coef_") or hasattr(estimator, "coefs_")):
        estimator = copy.deepcopy(estimator).set_params(warm_start=True)
    else:
        estimator = clone(estimator)
    name = str(settings.weight_name or weight_name_of(estimator))
    if isinstance(estimator, Pipeline) and sklearn.get_config()["enable_metadata_routing"]:
        name = _request_weights(estimator)
    estimator.fit(x, y, **{name: weight})
    return estimator


# fitted before


def prefit_parts(estimator: Any) -> list[Any]:
    """Return the parts of an estimator that were fitted before: a copy of them knows its classes already."""
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    frozen = [f"{name}__" for name, part in params.items() if isinstance(part, FrozenEstimator)]
    if isinstance(estimator, FrozenEstimator):
        params = {}  # what is inside is never fitted, and may be no estimator that can be copied
    inner = [part for name, part in params.items() if not name.startswith(tuple(frozen))]
    parts = [part for part in (estimator, *inner) if hasattr(part, "fit") and _knows_classes(part)]
    # skorch's networks are given their classes as a setting
    return [part for part in parts if not hasattr(part, "classes") and _knows_classes(clone(part))]


def _knows_classes(part: Any) -> bool:
    """Return whether an estimator has seen labels; CatBoost's have no classes, or None, before."""
    classes = getattr(part, "classes_", None)
    return classes is not None and len(classes) > 0


def prefit_labels(estimator: Any, rows: Rows) -> NDArray[Any] | None:
    """Return by which label a prefit part of an estimator knows each class number; None where no part is prefit."""
    known: list[Any] | None = None
    for part in prefit_parts(estimator):
        labels = _labels_of(part, list(range(rows.n_classes) if rows.labels is None else rows.labels))
        if known is not None and labels != known:
            raise ValueError(
                f"prefit parts of {type(estimator).__name__} were fitted on different classes: {known} and {labels}"
            )
        known = labels
    return None if known is None else np.asarray(known)


def _labels_of(part: Any, given: list[Any]) -> list[Any]:
    """Return each label of the task as a prefit model writes it; as given, where it has never seen it."""
    own = np.asarray(part.classes_).tolist()
    places = find_classes(own, given)
    if set(range(len(own))) - set(places):
        raise ValueError(
            f"the prefit {type(getattr(part, 'estimator', part)).__name__} was fitted on the classes "
            f"{own}, but the labels "
            f"given to fit are {sorted(given, key=str)}: fit it on the same labels"
        )
    return [label if place is None else own[place] for label, place in zip(given, places, strict=True)]


def numbered(model: Any, labels: NDArray[Any] | None) -> Any:
    """Return a fitted model that knows its classes by their numbers; ``labels`` are its own names of these."""
    if labels is None:
        return model
    order = labels.tolist()
    return Prefit(model, [order.index(label) for label in np.asarray(model.classes_).tolist()])


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
