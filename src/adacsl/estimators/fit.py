"""The fit of a cost-sensitive classifier: samples, splits, candidates, choice, decision rule and estimated cost.

One fit from top to bottom:

1. :func:`fit_classifier` checks the parameters and reads the samples.
2. :func:`fit_methods` proposes candidates (:func:`propose`), one for each target threshold, on the same splits, and has
   their learner fit them; a training that several candidates need happens once.
3. :func:`choose` takes the candidate of lowest held-out cost, with the decision rule fitted on held-out scores
   (:func:`fit_decision`), and estimates what its decisions cost (:func:`estimate`).
4. Constraints are certified on samples that were set aside before (:mod:`adacsl.estimators.certification`).
"""

from __future__ import annotations

import functools
import math
import time as clock
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.held_out import kept_sample, pooled
from adacsl.base.arrays import as_host, refuse_reordered
from adacsl.base.extras import requires, resolve
from adacsl.base.scores import known, to_probabilities
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.time import take_times
from adacsl.decision.policy import training_prior
from adacsl.decision.rule import Decision
from adacsl.estimators.certification import certify, reserve
from adacsl.execution.threads import MANY_ROWS, limited_for
from adacsl.fitting.candidates import CROSS_FITTED, PLAIN, Candidate, add_seconds, averaged_costs, usual_costs
from adacsl.fitting.rows import (
    Rows,
    aligned_costs,
    is_loader,
    read_rows,
    resolve_costs,
    sample_cost_names,
    select_features,
    with_times,
)
from adacsl.fitting.settings import find_targets, natural_threshold
from adacsl.integrations.sklearn import row_costs
from adacsl.metrics.calibration import expected_calibration_error
from adacsl.metrics.intervals import Interval, mean_interval, saving_over_constant

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier

with requires("sklearn"):
    from sklearn.utils import check_random_state

HISTORY = ("fold", "target_threshold", "adapted", "lambda", "weight", "threshold", "val_cost")
CLASS_HISTORY = ("fold", "target_threshold", "adapted", "lambdas", "weights", "val_cost")


def fit_classifier(
    classifier: CostSensitiveClassifier,
    X: Any,  # noqa: N803
    y: Any,
    *,
    sample_weight: Any,
    groups: Any,
    time: Any,
    gap: Any,
    label_delay: Any,
    validation: Any = None,
    **given: Any,
) -> None:
    """Fit a classifier; the arguments are those of its ``fit``, ``given`` the costs of each sample by name."""
    learner = classifier.check_settings()
    if is_loader(X) and y is None:
        others = {
            "sample_weight": sample_weight,
            "groups": groups,
            "time": time,
            "gap": gap,
            "label_delay": label_delay,
        }
        refuse_with_loaders(classifier, learner, others | given)
        fit_loaders(classifier, learner, X, validation)
        return
    if validation is not None:
        raise TypeError(
            "fit(validation=...) goes with loaders, fit(train_loader, validation=loader); of other data give "
            f"{type(classifier).__name__}(..., validation=(X, y))"
        )
    refuse_reordered(X, y=y, sample_weight=sample_weight, groups=groups, **given)
    costs = row_costs(given, classifier.costs)
    classifier.sample_costs_ = sample_cost_names(given)
    X, times, column = take_times(X, time)  # noqa: N806
    classifier.left_out_ = () if column is None else (column,)
    rows = read_rows(classifier, learner, select_features(X, costs), y, sample_weight, groups, costs)
    seed = _seed(classifier.random_state) if classifier.constraints else 0
    rows, certifying = reserve(classifier, learner, with_times(rows, times, gap, label_delay), seed)
    rows = resolve_costs(classifier, rows, X)
    ((_, chosen),) = fit_methods([(classifier, rows.costs)], rows)
    if classifier.constraints:
        certify(classifier, chosen, rows, certifying)
        if chosen.held:  # what the constrained decisions cost
            estimate(classifier, chosen, rows)
    classifier.times_ = rows.describe_times(chosen.held_folds)


def refuse_with_loaders(classifier: CostSensitiveClassifier, learner: Any, given: dict[str, Any]) -> None:
    """Raise where settings or arguments need all samples at once."""
    if unknown := [name for name, value in given.items() if value is not None]:
        raise TypeError(f"{unknown[0]} cannot be given with loaders, whose batches are (inputs, labels)")
    if not hasattr(learner, "module"):
        raise TypeError(f"loaders train networks: give learner=NeuralLearner(module), got {classifier.learner!r}")
    costs = classifier.costs
    if costs is None or not costs.resolved:
        raise TypeError(
            "with loaders give class-wide costs, such as CostMatrix(fp=1, fn=8): samples are not read in advance"
        )
    unfit = {"cv": classifier.cv, "resample": classifier.resample}
    if wrong := [name for name, value in unfit.items() if value is not None]:
        raise ValueError(f"{wrong[0]}={unfit[wrong[0]]!r} needs all samples at once: leave it out with loaders")
    if costs.n_classes == 2 and classifier.pos_label not in (None, 1):
        raise ValueError("labels of loaders are the class numbers 0 and 1, and 1 is the positive class: no pos_label")


def fit_loaders(classifier: CostSensitiveClassifier, learner: Any, train: Any, validation: Any) -> None:
    """Fit a classifier on batches of a training loader, adapted and tuned on those of a validation loader."""
    if validation is None:
        raise TypeError("a training loader needs a validation loader: fit(train_loader, validation=val_loader)")
    costs: Any = classifier.costs
    for name, loader in (("X", train), ("validation", validation)):
        resolve("adacsl.neural.loaders:check_loader")(name, loader)
    labels = resolve("adacsl.neural.loaders:validation_labels")(validation, costs.n_classes)
    k, n = costs.n_classes, len(labels)
    classifier.classes_, classifier.pos_label_ = np.arange(k), 1 if k == 2 else None
    classifier.images_, classifier.cost_spec_, classifier.sample_costs_ = False, None, ()
    classifier.left_out_, classifier.times_ = (), ""
    rows = Rows(None, labels, np.arange(n), validation=np.arange(n), n_classes=k)
    candidates = propose(classifier, learner, rows, None, None)
    with limited_for(MANY_ROWS):
        for _ in resolve("adacsl.neural.loaders:fit_on_loaders")(candidates, rows, train, validation):
            pass
    choose(classifier, candidates, rows)


def fit_methods(
    methods: Sequence[tuple[CostSensitiveClassifier, CostMatrix | None]],
    rows: Rows,
    *,
    watch: NDArray[np.int64] | None = None,
    parts: Any = None,
) -> Iterator[tuple[int, Candidate]]:
    """Fit classifiers on the same samples, each under its costs.

    Parameters
    ----------
    methods : sequence of (Method, CostMatrix or None)
        Class-wide costs or those of each sample; None: the classifier's own.
    rows : Rows
        The samples.
    watch : array of row numbers, optional
        Keep only the scores of these samples, and no neural networks.
    parts : Parts, optional
        Storage for networks of an unfinished cross-fit on images.

    Yields
    ------
    number : int
        Position of a classifier in ``methods``, as soon as it is fitted.
    candidate : Candidate
        The chosen candidate, with its held-out and watched scores.
    """
    learners = [method.make_learner() for method, _ in methods]
    proposed = [
        propose(method, learner, rows, costs, watch) for learner, (method, costs) in zip(learners, methods, strict=True)
    ]
    owner = {id(candidate): number for number, own in enumerate(proposed) for candidate in own}
    missing = [len(own) for own in proposed]
    trained_by: dict[str, list[Candidate]] = {}
    for learner, own in zip(learners, proposed, strict=True):
        trained_by.setdefault(learner.trained_by, []).extend(own)
    for learner in learners:
        if hasattr(learner, "load_library"):
            learner.load_library()
    with limited_for(MANY_ROWS if rows.images else len(rows.use)):
        for candidate in _trained(trained_by, rows, parts):
            number = owner[id(candidate)]
            missing[number] -= 1
            if not missing[number]:
                yield number, choose(methods[number][0], proposed[number], rows)


def propose(
    method: CostSensitiveClassifier, learner: Any, rows: Rows, costs: CostMatrix | None, watch: NDArray[np.int64] | None
) -> list[Candidate]:
    """Return the candidates of a method: one for each target threshold, after the plain one of "auto".

    ``costs`` are class-wide or of each sample; None: the classifier's own.
    """
    seed = _seed(method.random_state)
    costs = aligned_costs(method, rows) if costs is None else costs
    method.costs_ = usual_costs(costs, rows)
    cv = learner.folds_for(method.cv, rows) if hasattr(learner, "folds_for") else method.cv
    folds = [] if method.decide in ("negative", "positive") else rows.folds(cv, method.validation, seed)
    candidate = functools.partial(
        Candidate, method, learner, costs, folds=folds, seed=seed, watch=watch, images=rows.images, usual=method.costs_,
        ordered=rows.line is not None,
    )  # fmt: skip
    tried = [candidate(target_threshold) for target_threshold in find_targets(method.target_threshold, method.costs_)]
    if method.target_threshold == "auto" and method.controller is not None:
        plain = candidate(*find_targets("bayes", method.costs_), may_adapt=False)
        # first, since the first of equals is kept: the simplest. What would not adapt at T' = T is the same again
        tried = [plain, *(other for other in tried if other.adapts or other.target_threshold != plain.target_threshold)]
    return tried if hasattr(learner, "averages") else add_seconds(tried, rows, cv)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _trained(trained_by: dict[str, list[Candidate]], rows: Rows, parts: Any) -> Iterator[Candidate]:
    """Yield candidates as soon as they are trained, by the function their learner names; each with its seconds."""
    for path, candidates in trained_by.items():
        with requires("train"):
            train = resolve(path)
        extra = {"parts": parts} if hasattr(candidates[0].learner, "keeps_parts") else {}
        start = clock.perf_counter()
        for candidate in train(candidates, rows, **extra):
            if not candidate.seconds:
                candidate.seconds = clock.perf_counter() - start
            yield candidate
            start = clock.perf_counter()


def choose(method: CostSensitiveClassifier, candidates: list[Candidate], rows: Rows) -> Candidate:
    """Choose the candidate of lowest held-out cost, and set the fitted attributes of the classifier."""
    seconds = [candidate.second for candidate in candidates]
    candidates = [candidate for candidate in candidates if candidate not in seconds]
    judged = [fit_decision(candidate, rows) for candidate in candidates]
    best = min(range(len(candidates)), key=lambda i: judged[i][1])
    chosen = candidates[best]
    method.decision_, method.target_threshold_, method.model_ = judged[best][0], chosen.target_threshold, chosen.model
    method.decision_.prior = training_prior(rows.y[rows.use], rows.n_classes, rows.weights(rows.use))
    method.adapted_ = chosen.adapts
    keys: list[float | str] = [candidate.target_threshold if candidate.may_adapt else PLAIN for candidate in candidates]
    method.target_costs_ = dict(zip(keys, (cost for _, cost in judged), strict=True))
    method.history_ = history_of(candidates, rows.n_classes)
    for name, value in chosen.attributes.items():
        setattr(method, name, value)
    if chosen.held:
        estimate(method, chosen, rows)
    return chosen


def fit_decision(candidate: Candidate, rows: Rows) -> tuple[Decision, float]:
    """Return the decision rule of a candidate, and its selection-corrected cost on held-out samples."""
    costs = candidate.class_costs
    shift = candidate.shifted = candidate.shift(rows.y)
    weighted = candidate.loss in ("weighted", "focal") and not candidate.is_plain
    decision = Decision(
        costs, candidate.decide, target_threshold=natural_threshold(costs, shift),
        instance_weighted=candidate.corrects_rows, weighted=weighted,
    )  # fmt: skip
    if not candidate.held:
        return decision, math.nan
    logits = pooled(len(rows.y), candidate.held, corrected=False)
    seen = known(logits)
    if not seen.any():
        raise ValueError("its held-out scores are not finite: there is nothing to decide by")
    sample_costs, weight = candidate.costs.rows(seen), rows.weights(seen)
    shift = shift + candidate.offsets(seen)
    kept, corrected = (
        to_probabilities(z[seen] - shift) for z in (logits, pooled(len(rows.y), candidate.held, costs=candidate.costs))
    )
    decision.fit(kept, rows.y[seen], sample_weight=weight, costs=sample_costs)
    optimistic, cost = (
        sample_costs.mean(rows.y[seen], decision.predict(scores, costs=sample_costs), sample_weight=weight)
        for scores in (kept, corrected)
    )
    candidate.extra["validation_cost"] = optimistic
    return decision, cost


def estimate(method: CostSensitiveClassifier, candidate: Candidate, rows: Rows) -> None:
    """Set the out-of-fold scores, the estimated cost with its interval, the saving and the calibration error."""
    logits = pooled(len(rows.y), candidate.held, costs=candidate.costs)
    shift = candidate.shifted + candidate.offsets(np.arange(len(rows.y)))
    method.oof_scores_ = to_probabilities(logits - shift)  # NaN stays NaN
    # as if every sample had the mean costs: its own are not stored
    method.reference_scores_ = to_probabilities(kept_sample(len(rows.y), candidate.held) - candidate.shifted)

    def pay(own: NDArray[Any], which: NDArray[np.bool_]) -> Any:
        sample_costs, moved = candidate.costs.rows(which), candidate.shifted + candidate.offsets(which)
        decided = method.decision_.predict(to_probabilities(own - moved), costs=sample_costs)
        return as_host(sample_costs.incurred(rows.y[which], decided))

    paid, seen = averaged_costs(candidate, rows, pay)
    sample_costs, groups = candidate.costs.rows(seen), None if rows.groups is None else rows.groups[seen]
    level = CROSS_FITTED if len(candidate.held_folds) > 1 else 0.95
    interval = mean_interval(paid, rows.weights(seen), groups=groups, level=level, resamples=2000)
    # the extrapolation must not go below the cost of correct decisions
    least = sample_costs.mean(rows.y[seen], rows.y[seen], sample_weight=rows.weights(seen))
    method.estimated_cost_ = Interval(*(max(value, least) for value in interval))
    method.saving_ = saving_over_constant(
        sample_costs, rows.y[seen], paid, sample_weight=rows.weights(seen), groups=groups, level=level
    )
    proba = method.decision_.probabilities(method.oof_scores_[seen], costs=sample_costs)
    method.calibration_error_ = expected_calibration_error(proba, rows.y[seen])


def history_of(candidates: list[Candidate], n_classes: int) -> Any:
    """Return the training history of all candidates as a data frame."""
    import pandas as pd  # noqa: PLC0415  optional where only scikit-learn is installed

    rows = [
        {"target_threshold": c.target_threshold, "adapted": c.adapts, "lambda": 1.0} | row
        for c in candidates
        for row in c.history
    ]
    frame = pd.DataFrame(rows)
    first = [name for name in ("epoch", "round") if name in frame]
    columns = HISTORY if n_classes == 2 else CLASS_HISTORY
    return frame.reindex(columns=[*first, *columns, *(name for name in ("train_loss",) if name in frame)])
