"""Policy: decisions beyond the classes, of which there are only so many, under other class shares."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.core.arrays import check_whole, number_or_nan
from adacsl.core.costs import CostMatrix
from adacsl.core.html import html_lines, html_table
from adacsl.estimators.periods import PER, split_time


@dataclass(frozen=True)
class Policy:
    """What may be done with a row besides calling it a class, how often, and among which rows.

    Given to a classifier (``policy=``), to its ``decisions`` and ``predict``, and saved with it. Everything may be left
    out.

    Parameters
    ----------
    refer : float or array of shape (n,), optional
        A person may decide: what it costs to have one row looked at. Decisions are classes or "refer" then.
    errors : optional
        How often that person is wrong: a share, ``{"fp": 0.01, "fn": 0.05}``, shares by class, or a matrix of shares;
        see :meth:`CostMatrix.with_referral`. Default never.
    actions : CostMatrix, optional
        Prices of other actions: a matrix with names, whose columns are the model's classes and whose rows are all
        actions. Its prices replace those of the training; where prices come with the rows, these count for the classes.
    capacity : int, optional
        At most so many rows get the limited action: those that gain most by it.
    action : str, optional
        Which one is limited. Default: "refer" where there is one, else the positive class.
    per : {"hour", "day", "week", "month"}, optional
        The capacity is there anew in each.
    time : str or array of shape (n,), optional
        With ``per``: the column with the time of each row, or the times. A column that is no feature is taken out of X.
    prior : float, mapping, sequence or "em", optional
        The share of the positive class where the model is used (of more classes: of each, by name or in order), if it
        differs from that in training. "em": estimated on the very rows to be decided.

    Examples
    --------
    >>> Policy(refer=3.0, capacity=200, per="day", time="when")
    Policy(refer=3.0, capacity=200, per='day', time='when')
    >>> Policy.from_dict(Policy(prior=0.02).to_dict())
    Policy(prior=0.02)
    """

    refer: Any = None
    errors: Any = None
    actions: CostMatrix | None = None
    capacity: int | None = None
    action: str | None = None
    per: str | None = None
    time: Any = None
    prior: Any = None

    def __post_init__(self) -> None:
        if self.refer is not None and not all(number_or_nan(price) >= 0 for price in np.ravel(self.refer)):
            raise ValueError(f"refer must be a price that is not negative, got {self.refer!r}")
        if self.capacity is not None:
            check_whole("capacity", self.capacity, least=0)
        if self.per is not None and self.per not in PER:
            raise ValueError(f"per must be one of {', '.join(map(repr, PER))}, got {self.per!r}")
        if isinstance(self.prior, str) and self.prior != "em":
            raise ValueError(f"prior must be shares of the classes or 'em', got {self.prior!r}")
        if isinstance(self.prior, Real) and not 0.0 < float(self.prior) < 1.0:
            raise ValueError(f"prior must be a share between 0 and 1, got {self.prior!r}")
        for name, needed in (("errors", "refer"), ("action", "capacity"), ("per", "capacity"), ("time", "per")):
            if getattr(self, name) is not None and getattr(self, needed) is None:
                raise ValueError(f"{name} is nothing without {needed}: give both")
        _check_actions(self.actions)

    @property
    def empty(self) -> bool:
        """Whether nothing is said: decisions are as without a policy."""
        return not self._said()

    @property
    def needs_all_rows(self) -> bool:
        """Whether a row's decision depends on the other rows."""
        return self.capacity is not None or isinstance(self.prior, str)

    def to_dict(self) -> dict[str, Any]:
        """Return what is said as plain JSON values."""
        said = self._said()
        if "time" in said and not isinstance(self.time, str):
            raise ValueError("a policy with the times of some rows cannot be kept: let time name their column")
        return {name: _plain(value) for name, value in said.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote."""
        said = dict(data)
        if "actions" in said:
            said["actions"] = CostMatrix.from_dict(said["actions"])
        return cls(**said)

    def _said(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def __repr__(self) -> str:
        return f"Policy({', '.join(f'{name}={value!r}' for name, value in self._said().items())})"


@dataclass(frozen=True, eq=False)
class Decisions:
    """What is decided about some rows, why, and what it is expected to cost.

    Parameters
    ----------
    labels : array of shape (n,)
        The decision about each row: a class, or the name of another action.
    actions : array of shape (n,)
        The same as rows of ``costs``.
    probabilities : array of shape (n,) or (n, K)
        What was decided by, of the positive class or of each: calibrated, and moved to the ``prior``.
    expected : array of shape (n,)
        What each row is expected to cost so.
    counts : dict
        How many rows get each action.
    prior : float, array of shape (K,) or None
        The class shares that were assumed or estimated; None: those of the training.
    notes : tuple of str
        Plain sentences about shortage, ties and class shares.
    costs : CostMatrix
        The prices of all actions.
    """

    labels: NDArray[Any] = field(repr=False)
    actions: NDArray[np.int64] = field(repr=False)
    probabilities: NDArray[np.float64] = field(repr=False)
    expected: NDArray[np.float64] = field(repr=False)
    counts: dict[str, int]
    prior: Any
    notes: tuple[str, ...]
    costs: CostMatrix = field(repr=False)

    def _repr_html_(self) -> str:
        mean = float(self.expected.mean()) if len(self.expected) else None
        rows = [*self.counts.items(), ("expected cost per row", mean), ("class shares", self.prior)]
        table = html_table([row for row in rows if row[1] is not None], title=f"{len(self.labels):,} decisions")
        return table + (html_lines(*self.notes) if self.notes else "")


def choose_policy(kept: Policy | None, given: Policy | None, settings: Mapping[str, Any]) -> Policy:
    """Return the policy that holds: the one given, or else the classifier's, with single settings changed."""
    policy = Policy() if kept is None else kept
    policy = policy if given is None else given
    if not isinstance(policy, Policy):
        raise TypeError(f"policy must be a Policy such as Policy(refer=3, capacity=200), got {policy!r}")
    changed = {name: value for name, value in settings.items() if value is not None}
    if unknown := [name for name in changed if name not in Policy.__dataclass_fields__]:
        known = ", ".join(Policy.__dataclass_fields__)
        raise TypeError(f"a policy has no setting {unknown[0]!r}; it has {known}")
    return dataclasses.replace(policy, **changed)


def take_time(classifier: Any, X: Any, policy: Policy) -> tuple[Any, Policy]:  # noqa: N803
    """Return the features, and the policy with the times of these rows instead of the column's name."""
    if policy.per is not None and policy.time is None:
        raise ValueError(f"per={policy.per!r} needs the time of each row: time='column', or an array of dates")
    if not isinstance(policy.time, str):
        return X, policy
    X, times = split_time(X, policy.time, getattr(classifier, "feature_names_in_", None))  # noqa: N806
    return X, dataclasses.replace(policy, time=times)


def _check_actions(actions: Any) -> None:
    if actions is None:
        return
    if not isinstance(actions, CostMatrix):
        raise TypeError(f"actions must be a CostMatrix with a row for each action, got {actions!r}")
    if actions.square or actions.actions is None or actions.n_instances is not None:
        raise ValueError(
            "actions must be one matrix with names for its classes and its actions, which are others than predicting "
            f"each class, got {actions!r}; CostMatrix.from_frame reads one, with_action adds to one"
        )


def _plain(value: Any) -> Any:
    if isinstance(value, CostMatrix):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return np.asarray(value).tolist() if np.ndim(value) else value


__all__ = ["Decisions", "Policy"]
