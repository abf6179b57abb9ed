"""Monitoring of a deployed model: scored samples, current cost, drift, and whether to re-tune."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host, refuse_reordered
from adacsl.base.extras import requires
from adacsl.base.labels import label_name
from adacsl.base.scores import known
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.errors import check_column
from adacsl.datasets.time import read_times
from adacsl.decision.policy import (
    Policy,
    act,
    choose_policy,
    limited_action,
    ordered_labels,
    read_prior,
    take_time,
)
from adacsl.decision.priors import shift_prior
from adacsl.decision.rule import Decision
from adacsl.estimators.classifier import CostClassifier
from adacsl.fitting.rows import prices_of, read_known_labels
from adacsl.metrics.calibration import expected_calibration_error
from adacsl.metrics.intervals import Interval, independent_difference, mean_interval
from adacsl.monitoring.drift import PriorShift, prior_shift, score_shift, time_windows
from adacsl.monitoring.report import Constant, Labelled, Monitoring, Redecided, Window
from adacsl.monitoring.retune import FEWEST, costs_retuned, retuned, way_to_retune
from adacsl.thresholds.uncertainty import tune_threshold

with requires("sklearn"):
    import pandas as pd
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d


UNKNOWN = -1
"""The class number of a row without a label."""


@dataclass(frozen=True, eq=False)
class LaterRows:
    """New rows and what the model says of them.

    ``probabilities`` are as in training, ``believed`` under the policy's class shares. ``costs`` are those of all
    actions, ``prices`` those of the classes. Class numbers are -1 where the label is unknown.
    """

    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    believed: NDArray[np.float64]
    decided: NDArray[np.int64]
    costs: CostMatrix
    prices: CostMatrix
    labels: NDArray[np.int64]
    groups: NDArray[np.int64] | None
    policy: Policy

    def take(self, rows: NDArray[np.bool_]) -> LaterRows:
        """Return some of the rows."""
        groups = None if self.groups is None else np.unique(self.groups[rows], return_inverse=True)[1]
        own = (self.scores[rows], self.probabilities[rows], self.believed[rows], self.decided[rows])
        return LaterRows(*own, self.costs.rows(rows), self.prices.rows(rows), self.labels[rows], groups, self.policy)

    @property
    def paid(self) -> NDArray[np.float64]:
        """What each row has cost; all of them have labels."""
        return np.asarray(as_host(self.costs.incurred(self.labels, self.decided)), dtype=np.float64)


def split_times(model: Any, X: Any, time: Any) -> tuple[Any, NDArray[Any] | None]:  # noqa: N803
    """Return the features and the times; a column of times that the model does not know is no feature."""
    if time is None or not isinstance(time, str):
        refuse_reordered(X, time=time)
        return X, None if time is None else read_times(time)
    import narwhals as nw  # noqa: PLC0415

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(f"time={time!r} names a column, and X is no table: give one time for each row")
    check_column(time, frame.columns, "X")
    times = read_times(frame[time].to_native(), f"column {time!r}")
    policy = getattr(model, "policy", None)
    needed = (*getattr(model, "feature_names_in_", ()), None if policy is None else policy.time)
    return (X if time in needed else frame.drop(time).to_native()), times


def read_later_rows(model: Any, X: Any, y: Any, own: CostMatrix | None, groups: Any) -> LaterRows:  # noqa: N803
    """Return checked rows, decided as the model decides; ``own`` are their costs where they are not the model's."""
    refuse_reordered(X, y=y, groups=groups)
    X, policy = take_time(model, X, choose_policy(getattr(model, "policy", None), None, {}))  # noqa: N806
    costs = own or model.costs_
    scores = model.decision_scores(X, costs=own)
    if len(scores) == 0:
        raise ValueError("there are no rows to look at")
    if costs.n_instances not in (None, len(scores)):
        raise ValueError(f"costs of each row must be as many as rows: got {costs.n_instances} for {len(scores)} rows")
    numbers = None if groups is None else np.unique(column_or_1d(groups), return_inverse=True)[1]
    labels = read_some_labels(model, y, len(scores))
    check_consistent_length(scores, labels, numbers)
    probabilities = model.decision_.probabilities(scores, costs=own)
    believed, decided, all_costs = act(model, model.decision_, probabilities, costs, policy)
    return LaterRows(scores, probabilities, believed, decided, all_costs, costs, labels, numbers, policy)


def read_some_labels(model: Any, y: Any, n: int) -> NDArray[np.int64]:
    """Return the class numbers of labels, -1 where there is none (None, NaN)."""
    numbers = np.full(n, UNKNOWN, dtype=np.int64)
    if y is None:
        return numbers
    given = np.asarray(y, dtype=object)
    if given.shape != (n,):
        raise ValueError(
            f"y has shape {given.shape}, expected ({n},): one label for each row, None where it is unknown"
        )
    there = ~np.asarray(pd.isna(given), dtype=bool)
    if there.any():
        numbers[there] = read_known_labels(model, np.asarray(given[there].tolist()))
    return numbers


def monitor(
    model: Any,
    X: Any,  # noqa: N803
    y: Any = None,
    *,
    fp: Any = None,
    fn: Any = None,
    tp: Any = None,
    tn: Any = None,
    groups: Any = None,
    time: Any = None,
    level: float = 0.95,
    tolerance: float = 0.05,
) -> Monitoring:
    """Look at a model in use: what new rows cost, whether they have changed, and whether to retune the decision.

    Parameters
    ----------
    model : Method or other classifier of adacsl
        Fitted, or read by :func:`adacsl.load`.
    X : table or images
        New rows, as ``predict`` takes them.
    y : array of shape (n,), optional
        Their labels, as far as they are known: None or NaN for the others.
    fp, fn, tp, tn : float or arrays of shape (n,), optional
        Costs of each row, as in ``predict``.
    groups : array of shape (n,), optional
        Rows of one group (patient, customer) are no independent evidence: intervals count groups.
    time : str or array of shape (n,), optional
        When the rows were, dates or numbers, or the column of X that says so: costs are told by windows of time, too.
    level : float, default 0.95
        Coverage of the intervals.
    tolerance : float, default 0.05
        What is worth looking at: this share of the cost.

    Returns
    -------
    Monitoring
        ``sentences`` for people, ``to_dict()`` for machines, ``retune`` and ``shifted``, and all numbers.

    Notes
    -----
    Where at least ten rows of each class have labels, these decide: a decision that is fitted anew on one half of the
    rows is paid for on the other (many halvings). To retune is advised where the interval of what that saves lies above
    ``tolerance`` times the present cost. Without labels the class shares are estimated from the probabilities by
    expectation maximisation: to retune is advised where their interval excludes the shares in training, and deciding
    by the new ones would save more than ``tolerance`` of the cost that is expected under them. What labelled rows have
    cost, and would cost after re-tuning, is also compared with the best constant decision. Fewer than 30 rows without
    ten labels of each class give intervals, and no recommendation.

    Examples
    --------
    >>> from adacsl import CostMatrix, Method
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(4000) < 0.2).astype(int)
    >>> X = rng.normal(size=(4000, 1)) + 1.5 * y[:, None]
    >>> model = Method(CostMatrix(fp=1, fn=8), learner=LogisticRegression()).fit(X[:2000], y[:2000])
    >>> found = monitor(model, X[2000:], y[2000:])
    >>> found.verdict, found.retune
    ('well', False)
    """
    if not isinstance(model, CostClassifier):
        raise TypeError(f"model must be a fitted classifier of adacsl, got {model!r}")
    check_is_fitted(model)
    prices = {"fp": fp, "fn": fn, "tp": tp, "tn": tn}
    costs = prices_of(model, X, **prices)
    X, times = split_times(model, X, time)  # noqa: N806
    return look_at(
        model, X, y, costs, groups=groups, times=times, level=level, tolerance=tolerance,
        same_prices=_same_prices(model, prices),
    )  # fmt: skip


def look_at(
    model: Any, X: Any, y: Any, costs: CostMatrix | None, *,  # noqa: N803
    groups: Any = None, times: NDArray[Any] | None = None, level: float = 0.95, tolerance: float = 0.05,
    same_prices: bool = True,
) -> Monitoring:  # fmt: skip
    """Return what :func:`monitor` finds, with the costs of the rows (None: the model's own) in one matrix.

    ``same_prices``: whether they are those of which the model's ``estimated_cost_`` speaks.
    """
    _check_numbers(level, tolerance)
    rows = read_later_rows(model, X, y, costs, groups)
    check_consistent_length(rows.scores, times)
    names = tuple(label_name(label) for label in ordered_labels(model))
    reference = _reference(model)
    prior = None if reference is None else _prior(model, rows, reference, level)
    return Monitoring(
        rows=len(rows.scores),
        labelled=int((rows.labels != UNKNOWN).sum()),
        classes=names,
        actions=names if rows.costs.square else tuple(map(str, rows.costs.actions or ())),
        level=level,
        tolerance=tolerance,
        expected=mean_interval(_expected(rows, rows.believed), groups=rows.groups, level=level),
        decided=_decided(model, rows, reference),
        scores=None if reference is None else score_shift(reference, rows.probabilities, level=level),
        prior=prior,
        redecided=None if prior is None else _redecided(model, rows, prior),
        labels=_of_labels(model, rows, prior, same_prices, level, names),
        windows=_windows(rows, times, reference, level),
    )


def _check_numbers(level: float, tolerance: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    if not (tolerance >= 0 and math.isfinite(tolerance)):
        raise ValueError(f"tolerance must be a share of the cost such as 0.05, got {tolerance!r}")


def reference_scores(model: Any) -> NDArray[np.float64] | None:
    """Return scores of rows that were held out in training; older artefacts have the honest ones only."""
    found: NDArray[np.float64] | None = getattr(model, "reference_scores_", getattr(model, "oof_scores_", None))
    return found


def _reference(model: Any) -> NDArray[np.float64] | None:
    """Return the probabilities of held-out rows in training."""
    scores = reference_scores(model)
    if scores is None or model.decision_.decide in ("negative", "positive") or not known(scores).any():
        return None
    found: NDArray[np.float64] = model.decision_.probabilities(scores[known(scores)])
    return found


def _prior(model: Any, rows: LaterRows, reference: NDArray[np.float64], level: float) -> PriorShift:
    """Estimate the class shares; whether they differ from those that the decisions go by."""
    shares = _all_shares(getattr(model.decision_, "prior", None))
    found = prior_shift(reference, rows.probabilities, prior=shares, groups=rows.groups, level=level)
    if rows.policy.prior is None:
        return found
    if isinstance(rows.policy.prior, str):  # estimated for each set of rows
        return found._replace(excluded=False, assumed=found.now)
    assumed = np.asarray(_all_shares(read_prior(rows.policy.prior, ordered_labels(model))))
    excluded = bool(((found.low > assumed) | (found.high < assumed)).any())
    return found._replace(excluded=excluded, assumed=assumed)


def _all_shares(prior: Any) -> NDArray[np.float64] | None:
    """Return the shares of all classes; of two, one number is that of the positive one."""
    if prior is None:
        return None
    return np.asarray(prior if np.ndim(prior) else (1.0 - prior, prior), dtype=np.float64)


def _expected(rows: LaterRows, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(as_host(rows.costs.expected(probabilities, rows.decided)), dtype=np.float64)


def _decided(
    model: Any, rows: LaterRows, reference: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Return which share of the rows each decision has: then, and now. Rows' own prices of then are not known."""
    k = rows.costs.n_actions
    now = np.bincount(rows.decided, minlength=k) / len(rows.decided)
    if reference is None or rows.costs.n_instances is not None or rows.policy.needs_all_rows:
        return None, now
    before = act(model, model.decision_, reference, rows.prices, rows.policy)[1]
    return np.bincount(before, minlength=k) / len(before), now


def _redecided(model: Any, rows: LaterRows, prior: PriorShift) -> Redecided:
    """Return what the present decisions cost if the class shares are the estimated ones, and what others would."""
    two = rows.probabilities.ndim == 1
    inside = np.clip(prior.now, 1e-12, 1.0)
    old, new = ((float(shares[1]) if two else shares.tolist()) for shares in (prior.then, inside / inside.sum()))
    moved = np.asarray(shift_prior(rows.probabilities, old, new))
    knowing = rows.policy if rows.policy.empty else dataclasses.replace(rows.policy, prior=new)
    given = moved if rows.policy.empty else rows.probabilities
    anew = act(model, model.decision_, given, rows.prices, knowing)[1]
    cost = float(_expected(rows, moved).mean())
    return Redecided(cost, float(np.mean(as_host(rows.costs.expected(moved, anew)))))


# rows with labels


def _same_prices(model: Any, prices: dict[str, Any]) -> bool:
    """Tell whether what was promised was of these prices: prices of rows are taken to be as those of then."""
    given = {name: price for name, price in prices.items() if isinstance(price, int | float)}
    return all(float(price) == getattr(model.costs_, name) for name, price in given.items())


def _of_labels(
    model: Any, rows: LaterRows, prior: PriorShift | None, same_prices: bool, level: float, names: tuple[str, ...]
) -> Labelled | None:
    there = rows.labels != UNKNOWN
    if not there.any():
        return None
    own = rows.take(there)
    cost = mean_interval(own.paid, groups=own.groups, level=level)
    # what was promised was of deciding among the classes
    promised = getattr(model, "estimated_cost_", None) if same_prices and rows.policy.empty else None
    one_cut = own.probabilities.ndim == 1 and own.costs.n_instances is None and rows.policy.empty
    threshold = None
    if one_cut and 0 < own.labels.sum() < len(own.labels):
        threshold = tune_threshold(own.probabilities, own.labels, own.costs, level=level).threshold
    anew = _costs_anew(model, rows, own)
    return Labelled(
        cost=cost,
        promised=promised,
        dearer=None if promised is None else independent_difference(cost, promised, level=level),
        calibration_error=expected_calibration_error(own.believed, own.labels),
        calibration_then=getattr(model, "calibration_error_", None),
        saving=None if anew is None else mean_interval(own.paid - anew, groups=own.groups, level=level),
        threshold=threshold,
        decided_at=model.decision_.threshold_for(own.costs) if one_cut else None,
        shares=(shares := _shares(own, level)),
        moved=_shares_moved(model, prior, shares, level),
        constant=_constant(own, anew, names if own.costs.square else own.costs.actions or (), level, model),
    )


def _constant(
    own: LaterRows, anew: NDArray[np.float64] | None, names: Sequence[str], level: float, model: Any
) -> Constant | None:
    """Return the decision that costs least if it is made about every row; an action with a capacity is none."""
    if np.bincount(own.labels, minlength=own.costs.n_classes).min() < FEWEST:
        return None
    possible = list(range(own.costs.n_actions))
    if own.policy.capacity is not None:
        possible.remove(limited_action(own.policy, own.costs, ordered_labels(model)))
    paid = [
        np.asarray(as_host(own.costs.incurred(own.labels, np.full_like(own.labels, action))), dtype=np.float64)
        for action in possible
    ]
    best = int(np.argmin([each.mean() for each in paid]))
    saving, retuned = (
        None if now is None else mean_interval(now - paid[best], groups=own.groups, level=level)
        for now in (own.paid, anew)
    )
    assert saving is not None  # noqa: S101
    return Constant(str(names[possible[best]]), float(paid[best].mean()), saving, retuned)


def _shares(own: LaterRows, level: float) -> tuple[Interval, ...]:
    return tuple(
        mean_interval((own.labels == k).astype(np.float64), groups=own.groups, level=level)
        for k in range(own.costs.n_classes)
    )


def _shares_moved(model: Any, prior: PriorShift | None, shares: tuple[Interval, ...], level: float) -> bool | None:
    """Tell whether the shares of the classes differ from those that decisions go by, beyond chance."""
    scores = reference_scores(model)
    if prior is None or scores is None or getattr(model.decision_, "prior", None) is None:
        return None
    if prior.assumed is prior.now:
        return False
    then = prior.then if prior.assumed is None else prior.assumed
    rows = known(scores).sum() if prior.assumed is None else np.inf
    half = 1.96 * np.sqrt(then * (1.0 - then) / rows)
    before = (Interval(float(p), float(p - h), float(p + h)) for p, h in zip(then, half, strict=True))
    found = [independent_difference(now, then, level=level) for now, then in zip(shares, before, strict=True)]
    return any(each.low > 0 or each.high < 0 for each in found)


def _costs_anew(model: Any, rows: LaterRows, own: LaterRows) -> NDArray[np.float64] | None:
    """Return what each row with a label would cost by a decision fitted on the other half of them."""
    if model.decision_.decide in ("negative", "positive"):
        return None
    numbers = np.flatnonzero(rows.labels != UNKNOWN)
    own_costs = None if rows.prices.n_instances is None else rows.prices

    def pay(fresh: Decision, some: NDArray[np.bool_]) -> Any:
        # all rows compete for an action of which there are only so many
        _, actions, costs = act(
            model, fresh, fresh.probabilities(rows.scores, costs=own_costs), rows.prices, rows.policy
        )
        return costs.rows(numbers[some]).incurred(rows.labels[numbers[some]], actions[numbers[some]])

    return costs_retuned(
        model.decision_, own.scores, own.labels, own.prices, decide=way_to_retune(model.decision_), groups=own.groups,
        pay=None if rows.policy.empty else pay,
    )  # fmt: skip


def retune(
    model: Any, X: Any, y: Any, costs: CostMatrix | None, *, decide: str | None = None, groups: Any = None  # noqa: N803
) -> Any:  # fmt: skip
    """Return a copy of a model whose decision is fitted anew on rows with labels; see ``CostClassifier.retune``."""
    way = way_to_retune(model.decision_, decide)
    rows = read_later_rows(model, X, y, costs, groups)
    own = rows.take(rows.labels != UNKNOWN)
    return retuned(model, own.scores, own.labels, own.prices, decide=way, groups=own.groups)


# time


class _Part(NamedTuple):
    name: str
    rows: NDArray[np.bool_]


def _windows(
    rows: LaterRows, times: NDArray[Any] | None, reference: NDArray[np.float64] | None, level: float
) -> tuple[Window, ...]:
    if times is None:
        return ()
    number, names = time_windows(times)
    return tuple(_window(_Part(name, number == k), rows, reference, level) for k, name in enumerate(names))


def _window(part: _Part, rows: LaterRows, reference: NDArray[np.float64] | None, level: float) -> Window:
    own = rows.take(part.rows)
    there = own.labels != UNKNOWN
    known_rows = own.take(there) if there.any() else None
    return Window(
        name=part.name,
        rows=len(own.labels),
        labelled=int(there.sum()),
        cost=None if known_rows is None else mean_interval(known_rows.paid, groups=known_rows.groups, level=level),
        expected=float(_expected(own, own.believed).mean()),
        decided=np.bincount(own.decided, minlength=own.costs.n_actions) / len(own.decided),
        psi=None if reference is None else score_shift(reference, own.probabilities, level=level).psi,
    )
