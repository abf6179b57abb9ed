"""Policies: reject option, capacity constraint, other actions and prior shift, and their application to scores."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.base import arrays
from adacsl.base.arrays import Array, check_whole, number_or_nan
from adacsl.base.html import html_lines, html_table
from adacsl.base.labels import label_name, same_label
from adacsl.costs.formats import shown
from adacsl.costs.matrix import CostMatrix
from adacsl.decision.priors import estimate_prior, shift_prior
from adacsl.decision.rule import Decision

__all__ = ["Decisions", "Limited", "Policy", "limit_action"]


class Limited(NamedTuple):
    """Decisions under a limit, and how much it pinches."""

    actions: NDArray[np.int64]
    """The action of each row."""

    used: int
    """How many rows got the limited action."""

    wanted: int
    """For how many it would have been the cheapest."""

    margin: float
    """What one more place would have saved: the largest gain that went without; 0 where all were served."""

    forgone: float
    """What all rows that went without would have saved."""

    ties: int
    """How many of them gained as much as one that was served: row order decided."""

    groups: int
    """How many groups (days) there are; 1 without groups."""

    short: int
    """In how many of them more rows wanted the action than there were places."""


def limit_action(expected: Array, action: int, capacity: int, groups: Any = None) -> Limited:
    """Give an action to at most ``capacity`` rows (of each group): to those that gain most by it.

    A row's gain is what it is expected to cost under the best other action, less what under this one. Rows without a
    gain never get it; those that go without get the best other action. Of equal gains the first rows are served.

    Parameters
    ----------
    expected : array of shape (n, A)
        What each row is expected to cost under each action: :meth:`CostMatrix.expected_of_each`.
    action : int
        The number of the limited action.
    capacity : int
        How many rows may get it.
    groups : array of shape (n,), optional
        The day, the branch, the team of each row: each has this capacity.

    Examples
    --------
    >>> expected = np.asarray([[0.0, 1.0], [3.0, 1.0], [9.0, 1.0], [5.0, 1.0]])
    >>> limited = limit_action(expected, action=1, capacity=2)
    >>> limited.actions.tolist(), limited.wanted, limited.margin
    ([0, 0, 1, 1], 3, 2.0)
    """
    costs = _checked(expected, action)
    arrays.check_whole("capacity", capacity, least=0)
    n = len(costs)
    gains, others = _gains(costs, action)
    which, n_groups = _numbered(groups, n)
    wanted = np.flatnonzero(gains > 0)
    order = wanted[np.lexsort((-gains[wanted], which[wanted]))]  # stable: rows of equal gain stay in order
    counts = np.bincount(which[order], minlength=n_groups)
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    served, left = order[place < capacity], order[place >= capacity]
    last = np.full(n_groups, np.inf)
    np.minimum.at(last, which[served], gains[served])
    actions = others
    actions[served] = action
    return Limited(
        actions=actions,
        used=len(served),
        wanted=len(order),
        margin=float(gains[left].max(initial=0.0)),
        forgone=float(gains[left].sum()),
        # sums of equal costs may differ by their rounding
        ties=int((gains[left] >= last[which[left]] * (1 - 1e-12)).sum()),
        groups=n_groups,
        short=int((counts > capacity).sum()),
    )


def _checked(expected: Array, action: int) -> NDArray[np.float64]:
    costs = np.asarray(arrays.as_host(arrays.as_array(expected, "expected")), dtype=np.float64)
    if costs.ndim != 2 or costs.shape[1] < 2 or not len(costs):
        raise ValueError(f"expected costs must be n rows of at least two actions, got shape {costs.shape}")
    arrays.check_finite(costs, "expected")
    if not 0 <= action < costs.shape[1]:
        raise ValueError(f"action must be a number from 0 to {costs.shape[1] - 1}, got {action!r}")
    return costs


def _gains(costs: NDArray[np.float64], action: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return what each row gains by the action, and the best other one; what is only rounding is no gain."""
    slack = 8 * np.finfo(np.float64).eps * np.abs(costs).max(axis=1)
    others = costs.copy()
    others[:, action] = np.inf
    best = others.min(axis=1)
    gains = best - costs[:, action]
    gains[gains <= slack] = 0.0
    return gains, np.argmax(others <= (best + slack)[:, None], axis=1).astype(np.int64)


def _numbered(groups: Any, n: int) -> tuple[NDArray[np.int64], int]:
    if groups is None:
        return np.zeros(n, dtype=np.int64), 1
    found = np.asarray(groups)
    if found.shape != (n,):
        raise ValueError(f"groups must have one entry for each of {n} rows, got shape {found.shape}")
    names, which = np.unique(found, return_inverse=True)
    return which.astype(np.int64), len(names)


PER = ("hour", "day", "week", "month")


def number_periods(times: Any, per: str, what: str = "time") -> NDArray[np.int64]:
    """Return the number of the hour, day, week (Monday to Sunday) or month that each time lies in.

    Times with a zone keep their own clock: a day ends at midnight there.

    Examples
    --------
    >>> number_periods(["2026-02-28", "2026-03-01", "2026-03-02"], "week").tolist()
    [2930, 2930, 2931]
    """
    if per not in PER:
        raise ValueError(f"per must be one of {', '.join(map(repr, PER))}, got {per!r}")
    instants = read_dates(times, what)
    if per == "week":  # the first of January 1970 was a Thursday
        return (instants.astype("datetime64[D]").astype(np.int64) + 3) // 7
    unit = {"hour": "h", "day": "D", "month": "M"}[per]
    return instants.astype(f"datetime64[{unit}]").astype(np.int64)


def read_dates(values: Any, what: str) -> NDArray[Any]:
    """Return dates of any kind (arrays, columns, ISO text) as datetime64 by their own clock; none may be missing."""
    import narwhals as nw  # noqa: PLC0415  scikit-learn alone needs none

    from adacsl.datasets.time import read_times  # noqa: PLC0415

    series = nw.from_native(values, series_only=True, allow_series=True, pass_through=True)
    if isinstance(series, nw.Series) and getattr(series.dtype, "time_zone", None):
        values = series.dt.replace_time_zone(None).to_native()
    found = read_times(values, what)
    if found.dtype.kind != "M":
        raise ValueError(f"{what} must be dates, got numbers such as {found[:1].tolist()}")
    return found


def split_time(X: Any, name: str, features: Any) -> tuple[Any, Any]:  # noqa: N803
    """Return a table and one of its columns, the times; a column that is no feature of the model is taken out."""
    import narwhals as nw  # noqa: PLC0415

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(
            f"time={name!r} names a column, but X has no names: give the times themselves, one for each row"
        )
    if name not in frame.columns:
        raise ValueError(
            f"X has no column {name!r} to take the time from; it has {', '.join(map(repr, frame.columns))}"
        )
    times = frame.get_column(name).to_native()
    return (X if features is None or name in features else frame.drop(name).to_native()), times


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


REFER = "refer"
BLIND = ("half", "raw", "negative", "positive")
"""Ways to decide that look at no costs: no policy goes with them."""


def decide_rows(
    classifier: Any, probabilities: NDArray[np.float64], costs: CostMatrix | None, policy: Policy
) -> Decisions:
    """Decide about rows by their probabilities.

    Parameters
    ----------
    classifier : CostClassifier
        Whose classes, costs and class shares in training count.
    probabilities : array of shape (n,) or (n, K)
        What its ``decision_`` gives for these rows.
    costs : CostMatrix or None
        Of these rows, square; None: the classifier's.
    policy : Policy
        With the times themselves, where there is a ``per``.
    """
    decision = classifier.decision_
    if decision.decide in BLIND and not policy.empty:
        raise ValueError(
            f"a policy decides by expected costs, and decide={decision.decide!r} looks at none: fit with decide='bayes'"
        )
    labels = ordered_labels(classifier)
    prices = price_actions(policy, classifier.costs_, costs, [label_name(label) for label in labels])
    moved, prior, notes = _moved(policy, decision.prior, probabilities, labels)
    if policy.capacity is None:
        decided = decision.of_probabilities(moved, costs=prices) if prices.square else prices.decide(moved)
        actions = np.asarray(decided, dtype=np.int64)
    else:
        limited = _limited(policy, prices, moved, labels)
        actions, notes = limited.actions, [*notes, *_about(policy, limited, limited_name(policy, prices, labels))]
    names = action_labels(prices, labels)
    counts = np.bincount(actions, minlength=len(names)).tolist()
    return Decisions(
        labels=names[actions], actions=actions, probabilities=moved,
        expected=np.asarray(prices.expected(moved, actions)),
        counts=dict(zip(map(label_name, names.tolist()), counts, strict=True)),
        prior=prior, notes=tuple(notes), costs=prices,
    )  # fmt: skip


def ordered_labels(classifier: Any) -> NDArray[Any]:
    """Return the labels in the order of the class numbers: of two classes the positive one is last."""
    labels = np.asarray(classifier.classes_)
    return labels[::-1] if classifier.positive_ is not None and classifier.positive_ == labels[0] else labels


def price_actions(policy: Policy, own: CostMatrix, given: CostMatrix | None, names: Sequence[str]) -> CostMatrix:
    """Return the prices of all actions: of the classes, of those that the policy adds, and of a person."""
    costs = (own if given is None else given).named(names)
    if policy.actions is not None:
        matrix = policy.actions.aligned(names)
        costs = matrix if given is None else _added(costs, matrix)
    return costs if policy.refer is None else costs.with_referral(policy.refer, errors=policy.errors, name=REFER)


def _added(costs: CostMatrix, matrix: CostMatrix) -> CostMatrix:
    """Return the costs of rows with the actions of a matrix that predict no class."""
    classes, others = costs.classes or (), matrix.actions or ()
    beyond = [(i, name) for i, name in enumerate(others) if not any(same_label(name, c) for c in classes)]
    if len(beyond) == len(others):
        raise ValueError(
            f"prices of each row are those of predicting a class, but none of the actions {shown(others)} does: "
            "leave out fp, fn, tp and tn, or name the classes among the actions"
        )
    for i, name in beyond:
        costs = costs.with_action(name, matrix.to_array()[i].tolist())
    return costs


def action_labels(costs: CostMatrix, labels: NDArray[Any]) -> NDArray[Any]:
    """Return the label of each action: a class's own, or the action's name; of both kinds where there are both."""
    if costs.square:
        return labels
    found = [
        next((c for c in labels.tolist() if same_label(label_name(c), name)), name) for name in costs.actions or ()
    ]
    if labels.dtype.kind in "UST":
        return np.asarray(found)
    mixed = np.empty(len(found), dtype=object)
    mixed[:] = found
    return mixed


# class shares


def training_prior(y: NDArray[Any], n_classes: int, weight: NDArray[Any] | None) -> Any:
    """Return the share of the positive class among training rows, by weight; of more classes the share of each."""
    counts = np.bincount(y, weights=weight, minlength=n_classes)
    shares = (counts / counts.sum()).tolist()
    return shares[1] if n_classes == 2 else shares


def _moved(
    policy: Policy, old: Any, probabilities: NDArray[np.float64], labels: NDArray[Any]
) -> tuple[NDArray[np.float64], Any, list[str]]:
    """Return probabilities under the policy's class shares, these shares, and a sentence about them."""
    if policy.prior is None:
        return probabilities, None, []
    if old is None:
        raise ValueError(
            "the model does not know the class shares of its training, so they cannot be moved: fit it again"
        )
    if isinstance(policy.prior, str):
        new, how = estimate_prior(probabilities, old), f"estimated on these {len(probabilities):,} rows"
    else:
        new, how = read_prior(policy.prior, labels), "given"
    return np.asarray(shift_prior(probabilities, old, new)), new, [_about_shares(old, new, labels, how)]


def read_prior(prior: Any, labels: NDArray[Any]) -> Any:
    """Return class shares as the decision has them: of the positive class, or one for each of K in order."""
    names = [label_name(label) for label in labels]
    if isinstance(prior, Mapping):
        found = [[float(share) for key, share in prior.items() if same_label(name, key)] for name in names]
        if any(len(shares) != 1 for shares in found) or len(prior) != len(names):
            raise ValueError(f"prior must be the share of each of {shown(names)}, got {dict(prior)!r}")
        return found[1][0] if len(names) == 2 else [shares[0] for shares in found]
    if len(names) == 2 and np.ndim(prior):
        raise ValueError(f"of two classes, prior is the share of {names[1]!r}, or a share by name; got {prior!r}")
    if not np.ndim(prior) and not 0.0 <= float(prior) <= 1.0:
        raise ValueError(f"prior must be a share between 0 and 1, got {prior!r}")
    return prior if np.ndim(prior) else float(prior)


def _about_shares(old: Any, new: Any, labels: NDArray[Any], how: str) -> str:
    if len(labels) == 2:
        return f"share of {label_name(labels[1])} {how}: {_percent(new)} ({_percent(old)} in training)"
    told = (f"{label_name(c)} {_percent(n)} ({_percent(o)})" for c, o, n in zip(labels, old, new, strict=True))
    return f"class shares {how} (and in training): {', '.join(told)}"


def _percent(share: Any) -> str:
    return f"{100 * float(share):.3g} %"


# a limited action


def _limited(policy: Policy, costs: CostMatrix, probabilities: NDArray[np.float64], labels: NDArray[Any]) -> Limited:
    groups = None if policy.per is None else number_periods(policy.time, policy.per)
    if groups is not None and len(groups) != len(probabilities):
        raise ValueError(f"time must have one date for each of {len(probabilities)} rows, got {len(groups)}")
    if policy.capacity is None:
        raise ValueError("nothing is limited: give capacity")
    place = limited_action(policy, costs, labels)
    return limit_action(costs.expected_of_each(probabilities), place, policy.capacity, groups)


def limited_action(policy: Policy, costs: CostMatrix, labels: NDArray[Any]) -> int:
    """Return the number of the action that the capacity limits."""
    place: int = action_labels(costs, labels).tolist().index(limited_name(policy, costs, labels))
    return place


def limited_name(policy: Policy, costs: CostMatrix, labels: NDArray[Any]) -> Any:
    """Return which action is limited."""
    names = action_labels(costs, labels).tolist()
    wanted = policy.action or (REFER if policy.refer is not None else None)
    if wanted is None and len(labels) == 2:
        wanted = label_name(labels[1])
    found = [name for name in names if wanted is not None and same_label(label_name(name), wanted)]
    if not found:
        said = "say which action is limited" if wanted is None else f"there is no action {wanted!r} to limit"
        raise ValueError(f"{said}: action= one of {shown(map(label_name, names))}")
    return found[0]


def _about(policy: Policy, limited: Limited, name: Any) -> list[str]:
    """Return sentences about how the capacity was used."""
    rate = "in all" if policy.per is None else f"{'an' if policy.per == 'hour' else 'a'} {policy.per}"
    places = f"{_rows(limited.wanted)} wanted {label_name(name)!r}, {policy.capacity:,} {rate} were there"
    if not limited.short:
        return [f"{places}: none went without"]
    out = limited.wanted - limited.used
    days = "" if policy.per is None else f"{limited.short:,} of {limited.groups:,} {policy.per}s short, "
    notes = [
        f"{places}: {days}{_rows(out)} went without, which would have saved {limited.forgone:.6g} "
        f"(one more place: {limited.margin:.4g})"
    ]
    if limited.ties:
        notes.append(f"{_rows(limited.ties)} went without that gain as much as others that did not: row order decided")
    return notes


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


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
