"""Constraints of a classifier: samples set aside before training, and the decision rule certified on them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.base.scores import known
from adacsl.fitting.rows import Rows
from adacsl.thresholds.constraints import Constraints

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier
    from adacsl.fitting.candidates import Candidate

with requires("sklearn"):
    import narwhals as nw
    from sklearn.frozen import FrozenEstimator

RESERVED = 7919
"""Added to the seed that chooses the samples: no other split has the same."""


def reserve(
    method: CostSensitiveClassifier, learner: Any, rows: Rows, seed: int
) -> tuple[Rows, NDArray[np.int64] | None]:
    """Return the samples to fit on, and those that certify the constraints; None where out-of-fold scores do.

    Samples that certify choose nothing: neither model nor epoch, lambda nor calibration. With times they are the
    latest. A frozen estimator has learned from none of them: all certify, unless its scores are calibrated first.

    Parameters
    ----------
    method : CostSensitiveClassifier
        With ``constraints`` and ``certify``.
    learner : learner
        Of the method.
    rows : Rows
        All samples.
    seed : int
        Of the choice.

    Raises
    ------
    ValueError
        Where a confidence cannot be given: more than two classes, sample weights or groups.
    """
    limits = Constraints.of(method.constraints)
    if limits is None:
        return rows, None
    if rows.n_classes > 2:
        raise ValueError(f"constraints are for two classes, the labels have {rows.n_classes}")
    if limits.confidence is None:
        return rows, None
    for name, given in (("sample_weight", rows.weight), ("groups", rows.groups)):
        if given is not None:
            raise ValueError(
                f"constraints with confidence need independent samples that count alike: leave out {name}, or set "
                '"confidence": None (the constraint then holds on out-of-fold scores)'
            )
    frozen = isinstance(getattr(learner, "estimator", None), FrozenEstimator)
    given_costs = method.costs if rows.costs is None else rows.costs
    if frozen and method.decide != "calibrated" and not getattr(given_costs, "learns", False):
        return rows, rows.use
    return set_aside(rows, method.certify, seed)


def set_aside(rows: Rows, share: float, seed: int) -> tuple[Rows, NDArray[np.int64]]:
    """Return the samples to fit on, and those that certify."""
    kept, held = dataclasses.replace(rows, validation=None).folds(None, share, seed + RESERVED)[0]
    if rows.validation is not None:  # which is numbered after the samples
        own = rows.use < rows.validation[0]
        held = held[held < rows.validation[0]]
        kept = np.setdiff1d(rows.use[own], held)
    return dataclasses.replace(rows, use=kept), held


def certify(
    method: CostSensitiveClassifier, candidate: Candidate, rows: Rows, held: NDArray[np.int64] | None,
    scores: NDArray[np.float64] | None = None,
) -> None:  # fmt: skip
    """Certify the decision rule of a fitted classifier, on samples that were set aside or on out-of-fold scores.

    ``scores`` are those of the samples set aside, where the model itself is not kept.
    """
    limits = Constraints.of(method.constraints)
    if limits is None:
        return
    decision = method.decision_
    decision.constraints = limits
    if decision.decide in ("negative", "positive"):
        held = rows.use if held is None else held
        scores = np.full(len(held), 0.5)
    elif held is None:
        held = np.flatnonzero(known(method.oof_scores_))
        scores = method.oof_scores_[held]
    weight = rows.weights(held) if limits.confidence is None else None
    costs = candidate.costs.rows(held)
    if scores is None:
        own = costs if costs.n_instances is not None else None
        scores = method.decision_scores(rows.take(held), costs=own)
    segments = None if limits.segments is None else column_of(rows.take(held), limits.segments)
    decision.certify(scores, rows.y[held], sample_weight=weight, costs=costs, segments=segments)


def column_of(table: Any, name: str) -> NDArray[Any]:
    """Return the values of a column of a table of any library."""
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or name not in frame.columns:
        raise ValueError(f"segments are the values of a column of X, and X has no column {name!r}")
    return np.asarray(frame[name].to_numpy())
