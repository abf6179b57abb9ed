"""Checks of fitted models: warnings from held-out samples and from the course of the training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.controller import LAMBDA_BOUNDS, AdaCSLController
from adacsl.base.extras import requires
from adacsl.base.scores import known
from adacsl.datasets.errors import listed
from adacsl.datasets.findings import Checks, Finding, finding

with requires("sklearn"):
    from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier

BINS = 15
"""Of ``calibration_error_``."""
BEYOND_CHANCE = 2.0
"""Factor above the error of calibrated probabilities from which it is reported: five standard deviations."""
OF_THE_RARER = 0.2
"""A calibration error matters from this share of the rarer class's share on."""
AT_BOUND = 1.01
"""A lambda within this factor of its bound has run into it."""
STILL_FALLING = 0.05
"""Costs that fell by such a share from one fifth of the training to the last were still falling."""
UNDONE = ("interrupted", "out of time")


def check_model(model: CostSensitiveClassifier, ignore: Iterable[str] = ()) -> Checks:
    """Return warnings about a fitted model; see :meth:`CostSensitiveClassifier.check`."""
    check_is_fitted(model)
    if model.decision_.decide in ("negative", "positive"):
        return Checks.of((), ignore)  # no model
    result = [*_like_a_constant(model), *_calibration(model), *_border(model), *_bounds(model), *_early(model)]
    return Checks.of(result, ignore)


def _held_out(model: Any) -> NDArray[np.float64] | None:
    """Return the scores of samples by models that did not train on them."""
    scores = getattr(model, "oof_scores_", None)
    seen = None if scores is None else scores[known(scores)]
    return None if seen is None or not len(seen) else seen


def _shares(model: Any) -> NDArray[np.float64] | None:
    """Return the shares of the classes in training, where they are known."""
    prior = model.decision_.prior
    if prior is None:
        return None
    return np.asarray(prior if model.costs_.n_classes > 2 else [1.0 - prior, prior], dtype=np.float64)


def _label(model: Any, number: int) -> Any:
    """Return the label of a class number."""
    labels = model.classes_.tolist()
    return labels[number] if model.pos_label_ is None or model.pos_label_ == labels[1] else labels[1 - number]


def _like_a_constant(model: Any) -> Iterator[Finding]:
    shares, saving = _shares(model), getattr(model, "saving_", None)
    if shares is None or saving is None or saving.low > 0:
        return
    each = model.costs_.to_array() @ shares
    always = int(np.argmin(each))
    yield finding(
        "no-better-than-constant",
        f"held-out samples cost {model.estimated_cost_.estimate:.4g} each, and about {each[always]:.4g} if "
        f"{_label(model, always)!r} is decided for every sample: a saving of {saving.estimate:.4g} (95 % interval "
        f"{saving.low:.4g} to {saving.high:.4g}) may be due to chance; collect more "
        "samples, or more informative columns",
    )


def _calibration(model: Any) -> Iterator[Finding]:
    scores, shares = _held_out(model), _shares(model)
    error = getattr(model, "calibration_error_", math.nan)
    if scores is None or shares is None or not error > 0:
        return
    proba = model.decision_.probabilities(scores)
    sure = proba if proba.ndim == 1 else proba.max(axis=1)
    by_chance = chance_error(sure)
    mend = "" if model.decision_.decide == "calibrated" else "decide='calibrated' or "
    if error > max(BEYOND_CHANCE * by_chance, OF_THE_RARER * min(shares.min() if proba.ndim == 1 else 0.5, 0.5)):
        yield finding(
            "badly-calibrated",
            f"held-out probabilities are off by {error:.3f} on average ({by_chance:.3f} if they were right): do not "
            f"use them as probabilities, nor with costs that change later; {mend}more held-out samples (cv=5) help",
        )


def chance_error(probabilities: NDArray[Any]) -> float:
    """Return the expected calibration error of exact probabilities: sampling noise in bins of few samples.

    Examples
    --------
    >>> round(chance_error(np.full(1500, 0.5)), 3)
    0.04
    """
    bins = [part for part in np.array_split(np.sort(np.asarray(probabilities, np.float64)), BINS) if len(part)]
    # the mean distance of a normal variable from its mean
    spread = [math.sqrt(2 / math.pi * float((part * (1 - part)).sum())) for part in bins]
    return sum(spread) / sum(map(len, bins))


def _border(model: Any) -> Iterator[Finding]:
    scores = _held_out(model)
    if scores is None:
        return
    decided = model.decision_.predict(scores)
    if (decided == decided[0]).all():
        where = "" if model.costs_.n_classes > 2 else f" (the threshold {model.threshold_:.4g} lies beyond all scores)"
        yield finding(
            "threshold-at-border",
            f"at class-wide costs, all {len(decided):,} held-out samples are predicted "
            f"{_label(model, int(decided[0]))!r}{where}: check the costs and which class is positive; if they are "
            "right, the rule costs as much without a model",
        )


def _bounds(model: Any) -> Iterator[Finding]:
    low, high = _lambda_bounds(getattr(model, "controller", None))
    course = _course(model)
    if not model.adapted_ or low == high or not len(course):
        return
    last = course.sort_values(course.columns[0], kind="stable").groupby("fold").tail(1)
    column = "lambda" if model.costs_.n_classes == 2 else "lambdas"
    ends = np.asarray([value for cell in last[column] for value in np.atleast_1d(cell)], dtype=np.float64)
    stuck = ends[(ends <= low * AT_BOUND) | (ends >= high / AT_BOUND)]
    if len(stuck):
        yield finding(
            "lambda-at-bound",
            f"lambda has reached {stuck[0]:.4g}, its bound ({low:g} to {high:g}): weighting alone does not reach the "
            "lowest cost; use target_threshold='bayes' or a method without a controller, and look at history_",
        )


def _lambda_bounds(controller: Any) -> tuple[float, float]:
    if isinstance(controller, AdaCSLController):
        return controller.bounds
    given = controller.get("bounds") if isinstance(controller, dict) else None
    low, high = given or LAMBDA_BOUNDS
    return float(low), float(high)


def _course(model: Any) -> Any:
    """Return the history of what was kept, its first column the epoch or round; nothing where there is none."""
    history = model.history_
    unit = next((name for name in ("epoch", "round") if name in history), None)
    if unit is None or hasattr(model, "leaderboard_"):
        return history.iloc[:0]
    kept = history[(history["target_threshold"] == model.target_threshold_) & (history["adapted"] == model.adapted_)]
    return kept[[unit, *(name for name in kept if name != unit)]]


def _early(model: Any) -> Iterator[Finding]:
    board = getattr(model, "leaderboard_", None)
    if board is not None:
        undone = [str(row["estimator"]) for row in board.to_dict("records") if str(row["left_out"]).startswith(UNDONE)]
        if undone:
            text = (
                f"{len(undone)} base estimators of the ensemble were not done in time ({listed(undone)}): give it more"
            )
            yield finding("stopped-early", f"{text} (--time-limit 10min), or go on with --resume")
        return
    course = _course(model)
    if len(course) and still_falling(course.groupby(course.columns[0])["val_cost"].mean().to_numpy()):
        unit = str(course.columns[0])
        yield finding(
            "stopped-early",
            f"held-out costs were still falling after {int(course[unit].max()) + 1} {unit}s: train longer (--epochs, "
            "NeuralLearner(epochs=...))",
        )


def still_falling(costs: NDArray[Any]) -> bool:
    """Return whether costs, one per epoch, were still falling significantly at the end.

    Examples
    --------
    >>> still_falling(np.linspace(1.0, 0.2, 20)), still_falling(0.2 + 0.8 * 0.5 ** np.arange(20))
    (True, False)
    """
    part = max(1, len(costs) // 5)
    if len(costs) < 3 or not np.isfinite(costs).all() or int(np.argmin(costs)) < len(costs) - part:
        return False
    late, before = float(np.mean(costs[-part:])), float(np.mean(costs[-2 * part : -part]))
    noise = float(np.std(np.diff(costs))) / math.sqrt(part)
    return before - late > max(STILL_FALLING * abs(before), 2 * noise)
