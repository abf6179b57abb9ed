"""Later rows of a model in use: their scores, decisions, prices, and labels as far as they are known."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.arrays import refuse_reordered
from adacsl.core.costs import CostMatrix, as_host
from adacsl.datasets.errors import check_column
from adacsl.datasets.times import read_times
from adacsl.estimators.acting import decide_rows
from adacsl.estimators.decision import Decision
from adacsl.estimators.policy import Policy, choose_policy, take_time
from adacsl.estimators.reading import read_known_labels
from adacsl.extras import requires

with requires("sklearn"):
    import pandas as pd
    from sklearn.utils.validation import check_consistent_length, column_or_1d

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


def act(
    model: Any, decision: Decision, probabilities: NDArray[np.float64], costs: CostMatrix, policy: Policy
) -> tuple[NDArray[np.float64], NDArray[np.int64], CostMatrix]:
    """Return the probabilities that are decided by, the decisions, and the prices of all actions."""
    if policy.empty:
        return probabilities, decision.of_probabilities(probabilities, costs=costs), costs
    other = copy.copy(model)
    other.decision_ = decision
    found = decide_rows(other, probabilities, None if costs is model.costs_ else costs, policy)
    return found.probabilities, found.actions, found.costs


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
