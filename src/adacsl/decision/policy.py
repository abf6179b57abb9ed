"""From probabilities to decisions: the policy, its application, and what it is made of.

:func:`decide` is the one function that decides: estimators, command line, server and monitoring call it.
"""

from __future__ import annotations

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

__all__ = ["Decisions", "Limited", "Policy", "decide", "limit_action"]


PER = ("hour", "day", "week", "month")
REFER = "refer"
"""The action of the reject option: a person decides."""
BLIND = ("half", "raw", "negative", "positive")
"""Decision rules that ignore the costs: they take no policy."""


@dataclass(frozen=True)
class Policy:
    """The actions besides predicting a class, how often they may be taken, and the class prior to assume.

    Given to a classifier (``policy=``), to its ``decisions`` and ``predict``, and saved with it.

    Parameters
    ----------
    refer : float or array of shape (n,), optional
        The reject option: the cost of having a person decide about one sample. Decisions are classes or "refer" then.
    errors : float, mapping or array of shape (K, K), optional
        The error rate of that person: a share, ``{"fp": 0.01, "fn": 0.05}``, shares by class, or a matrix of shares;
        see :meth:`CostMatrix.with_referral`. Default: no errors.
    actions : CostMatrix, optional
        Costs of other actions: a matrix with names, whose columns are the model's classes and whose rows are all
        actions. It replaces the costs of the training; where samples have costs of their own, these hold for the
        classes.
    capacity : int, optional
        The capacity constraint: at most so many samples get the limited action, those that gain most by it.
    action : str, optional
        The limited action. Default: "refer" with a reject option, else the positive class.
    per : {"hour", "day", "week", "month"}, optional
        The period for which the capacity holds. Default: all samples that are decided jointly.
    time : str or array of shape (n,), optional
        With ``per``: the column with the time of each sample, or the times. The column need not be a feature.
    prior : float, mapping, sequence or "em", optional
        The share of the positive class where the model is used (of more classes: of each, by name or in order), if it
        differs from that in training. "em": estimated on the very samples to be decided.

    Raises
    ------
    ValueError
        Where a setting is out of range, or stands without the one it belongs to.
    TypeError
        Where ``actions`` is no :class:`~adacsl.CostMatrix`.

    See Also
    --------
    CostSensitiveClassifier.decisions : Decisions under a policy.

    Examples
    --------
    >>> from adacsl import Policy
    >>> Policy(refer=3.0, capacity=200, per="day", time="when")
    Policy(refer=3.0, capacity=200, per='day', time='when')
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
        if self.refer is not None and not all(number_or_nan(cost) >= 0 for cost in np.ravel(self.refer)):
            raise ValueError(f"refer must be a cost that is not negative, got {self.refer!r}")
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
                raise ValueError(f"{name} needs {needed}: give both")
        _check_actions(self.actions)

    @property
    def empty(self) -> bool:
        """Whether nothing is set: the decision is the class of least expected cost."""
        return not self._settings()

    @property
    def needs_all_rows(self) -> bool:
        """Whether the decision about a sample depends on the other samples."""
        return self.capacity is not None or isinstance(self.prior, str)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values.

        Returns
        -------
        dict
            What :meth:`from_dict` reads.

        Raises
        ------
        ValueError
            Where ``time`` holds times instead of naming their column.

        Examples
        --------
        >>> from adacsl import Policy
        >>> Policy(prior=0.02).to_dict()
        {'prior': 0.02}
        """
        settings = self._settings()
        if "time" in settings and not isinstance(self.time, str):
            raise ValueError("a policy with the times of some rows cannot be kept: let time name their column")
        return {name: _plain(value) for name, value in settings.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the policy that :meth:`to_dict` wrote.

        Parameters
        ----------
        data : mapping
            The document.

        Returns
        -------
        Policy
            The policy.

        Examples
        --------
        >>> from adacsl import Policy
        >>> Policy.from_dict({"prior": 0.02})
        Policy(prior=0.02)
        """
        settings = dict(data)
        if "actions" in settings:
            settings["actions"] = CostMatrix.from_dict(settings["actions"])
        return cls(**settings)

    def _settings(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def __repr__(self) -> str:
        return f"Policy({', '.join(f'{name}={value!r}' for name, value in self._settings().items())})"


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


NO_POLICY = Policy()
"""The class of least expected cost for each sample."""


def choose_policy(kept: Policy | None, given: Policy | None, settings: Mapping[str, Any]) -> Policy:
    """Return the policy that holds: the one given, or else the classifier's, with single settings changed."""
    policy = given if given is not None else kept if kept is not None else NO_POLICY
    if not isinstance(policy, Policy):
        raise TypeError(f"policy must be a Policy such as Policy(refer=3, capacity=200), got {policy!r}")
    changed = {name: value for name, value in settings.items() if value is not None}
    if unknown := [name for name in changed if name not in Policy.__dataclass_fields__]:
        known = ", ".join(Policy.__dataclass_fields__)
        raise TypeError(f"a policy has no setting {unknown[0]!r}; it has {known}")
    return dataclasses.replace(policy, **changed) if changed else policy


def take_time(classifier: Any, X: Any, policy: Policy) -> tuple[Any, Policy]:  # noqa: N803
    """Return the features, and the policy with the times of these samples instead of the column's name."""
    if policy.per is not None and policy.time is None:
        raise ValueError(f"per={policy.per!r} needs the time of each row: time='column', or an array of dates")
    if not isinstance(policy.time, str):
        return X, policy
    from adacsl.datasets.time import take_times  # noqa: PLC0415  pandas

    names = getattr(classifier, "feature_names_in_", None)
    keep = [policy.time] if names is None else list(names)
    X, times, _ = take_times(X, policy.time, keep=keep)  # noqa: N806
    return X, dataclasses.replace(policy, time=times)


@dataclass(frozen=True, eq=False)
class Decisions:
    """The decisions for some samples, with the probabilities behind them and their expected costs.

    Attributes
    ----------
    labels : array of shape (n,)
        The decision for each sample: a class, or the name of another action.
    actions : array of shape (n,)
        The same as row numbers of ``costs``.
    probabilities : array of shape (n,) or (n, K)
        Of the positive class or of each class: calibrated, and moved to the ``prior``.
    expected : array of shape (n,)
        The expected cost of each decision.
    counts : dict
        How many samples get each action.
    prior : float, array of shape (K,) or None
        The class prior that was assumed or estimated; None: that of the training.
    notes : tuple of str
        Sentences about capacity, ties and class prior.
    costs : CostMatrix
        The costs of all actions.

    See Also
    --------
    adacsl.CostSensitiveClassifier.decisions : Returns it.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix
    >>> from adacsl.decision.policy import decide
    >>> from adacsl.decision.rule import Decision
    >>> rule = Decision(CostMatrix(fp=1, fn=8))
    >>> decide(np.asarray([0.05, 0.4]), rule, np.asarray(["no", "yes"])).counts
    {'no': 1, 'yes': 1}
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
        rows = [*self.counts.items(), ("expected cost per row", mean), ("class prior", self.prior)]
        table = html_table([row for row in rows if row[1] is not None], title=f"{len(self.labels):,} decisions")
        return table + (html_lines(*self.notes) if self.notes else "")


def decide(
    probabilities: NDArray[np.float64],
    decision: Decision,
    labels: NDArray[Any],
    *,
    costs: CostMatrix | None = None,
    policy: Policy = NO_POLICY,
    times: Any = None,
) -> Decisions:
    """Return the decision about each sample: estimators, command line, server and monitoring decide by it.

    Parameters
    ----------
    probabilities : array of shape (n,) or (n, K)
        What ``decision.probabilities`` gives for the scores of these samples, with the same ``costs``.
    decision : Decision
        The fitted decision rule; it knows the class-wide costs and the class prior of the training.
    labels : array of shape (K,)
        The classes in the order of their numbers: of two, the positive one is second.
    costs : CostMatrix, optional
        Of these samples, square. None, or costs equal to the class-wide ones of the decision: the decision's own, which
        the matrix of a policy's ``actions`` then replaces as a whole.
    policy : Policy, optional
        Default: the class of least expected cost.
    times : array of shape (n,), optional
        The times of these samples, where the policy has a ``per`` and not the times themselves.

    Examples
    --------
    >>> decision = Decision(CostMatrix(fp=1, fn=8))
    >>> result = decide(np.asarray([0.05, 0.4, 0.9]), decision, np.asarray(["no", "yes"]), policy=Policy(refer=0.4))
    >>> result.labels.tolist(), result.counts
    (['no', 'refer', 'yes'], {'no': 1, 'yes': 1, 'refer': 1})
    """
    if policy.per is not None and times is not None:
        policy = dataclasses.replace(policy, time=times)
    if decision.decide in BLIND and not policy.empty:
        raise ValueError(
            f"a policy needs expected costs, which decide={decision.decide!r} does not use: fit with decide='bayes'"
        )
    if decision.constraints is not None and not policy.empty:
        raise ValueError(
            "a policy (reject option, capacity, other actions, class prior) would move the threshold that the "
            "constraints certify: leave out one of them"
        )
    matrix = action_costs(policy, decision.costs, costs, [label_name(label) for label in labels])
    moved, prior, notes = _shifted(policy, decision.prior, probabilities, labels)
    if policy.capacity is None:
        chosen = decision.of_probabilities(moved, costs=matrix) if matrix.square else matrix.decide(moved)
        actions = np.asarray(chosen, dtype=np.int64)
    else:
        limited = _limited(policy, matrix, moved, labels)
        actions = limited.actions
        notes = [*notes, *_about_capacity(policy, limited, limited_name(policy, matrix, labels))]
    names = action_labels(matrix, labels)
    counts = np.bincount(actions, minlength=len(names)).tolist()
    return Decisions(
        labels=names[actions], actions=actions, probabilities=moved,
        expected=np.asarray(matrix.expected(moved, actions)),
        counts=dict(zip(map(label_name, names.tolist()), counts, strict=True)),
        prior=prior, notes=tuple(notes), costs=matrix,
    )  # fmt: skip


def ordered_labels(classifier: Any) -> NDArray[Any]:
    """Return the labels in the order of the class numbers: of two classes the positive one is last."""
    labels = np.asarray(classifier.classes_)
    return labels[::-1] if classifier.pos_label_ is not None and classifier.pos_label_ == labels[0] else labels


# the costs of all actions


def action_costs(policy: Policy, own: CostMatrix, given: CostMatrix | None, names: Sequence[str]) -> CostMatrix:
    """Return the costs of all actions: of the classes, of those that the policy adds, and of the reject option.

    ``own`` are the class-wide costs of the training, ``given`` those of the samples.
    """
    costs = (own if given is None else given).named(names)
    if policy.actions is not None:
        matrix = policy.actions.aligned(names)
        # class-wide costs that are those of the training say nothing about other actions
        is_own = given is None or (given.n_instances is None and costs == own.named(names))
        costs = matrix if is_own else _with_other_actions(costs, matrix)
    return costs if policy.refer is None else costs.with_referral(policy.refer, errors=policy.errors, name=REFER)


def _with_other_actions(costs: CostMatrix, matrix: CostMatrix) -> CostMatrix:
    """Return the costs of samples with the actions of a matrix that predict no class."""
    classes, others = costs.classes or (), matrix.actions or ()
    beyond = [(i, name) for i, name in enumerate(others) if not any(same_label(name, c) for c in classes)]
    if len(beyond) == len(others):
        raise ValueError(
            f"per-sample costs are those of predicting a class, but none of the actions {shown(others)} does: "
            "omit fp, fn, tp and tn, or name the classes among the actions"
        )
    for i, name in beyond:
        costs = costs.with_action(name, matrix.to_array()[i].tolist())
    return costs


def action_labels(costs: CostMatrix, labels: NDArray[Any]) -> NDArray[Any]:
    """Return the label of each action: the label of a class as it is, or the name of another action."""
    if costs.square:
        return labels
    result = [
        next((c for c in labels.tolist() if same_label(label_name(c), name)), name) for name in costs.actions or ()
    ]
    if labels.dtype.kind in "UST":
        return np.asarray(result)
    mixed = np.empty(len(result), dtype=object)
    mixed[:] = result
    return mixed


# class prior


def training_prior(y: NDArray[Any], n_classes: int, weight: NDArray[Any] | None) -> Any:
    """Return the share of the positive class in training, by weight; of more classes the share of each."""
    counts = np.bincount(y, weights=weight, minlength=n_classes)
    shares = (counts / counts.sum()).tolist()
    return shares[1] if n_classes == 2 else shares


def _shifted(
    policy: Policy, old: Any, probabilities: NDArray[np.float64], labels: NDArray[Any]
) -> tuple[NDArray[np.float64], Any, list[str]]:
    """Return probabilities under the policy's class prior, this prior, and a sentence about it."""
    if policy.prior is None:
        return probabilities, None, []
    if old is None:
        raise ValueError("the model holds no class prior of its training, so it cannot be shifted: fit it again")
    if isinstance(policy.prior, str):
        new, how = estimate_prior(probabilities, old), f"estimated on these {len(probabilities):,} rows"
    else:
        new, how = read_prior(policy.prior, labels), "given"
    return np.asarray(shift_prior(probabilities, old, new)), new, [_about_prior(old, new, labels, how)]


def read_prior(prior: Any, labels: NDArray[Any]) -> Any:
    """Return a class prior as the decision has it: of the positive class, or one share for each of K in order."""
    names = [label_name(label) for label in labels]
    if isinstance(prior, Mapping):
        result = [[float(share) for key, share in prior.items() if same_label(name, key)] for name in names]
        if any(len(shares) != 1 for shares in result) or len(prior) != len(names):
            raise ValueError(f"prior must be the share of each of {shown(names)}, got {dict(prior)!r}")
        return result[1][0] if len(names) == 2 else [shares[0] for shares in result]
    if len(names) == 2 and np.ndim(prior):
        raise ValueError(f"of two classes, prior is the share of {names[1]!r}, or a share by name; got {prior!r}")
    if not np.ndim(prior) and not 0.0 <= float(prior) <= 1.0:
        raise ValueError(f"prior must be a share between 0 and 1, got {prior!r}")
    return prior if np.ndim(prior) else float(prior)


def _about_prior(old: Any, new: Any, labels: NDArray[Any], how: str) -> str:
    if len(labels) == 2:
        return f"share of {label_name(labels[1])} {how}: {_percent(new)} ({_percent(old)} in training)"
    shares = (f"{label_name(c)} {_percent(n)} ({_percent(o)})" for c, o, n in zip(labels, old, new, strict=True))
    return f"class prior {how} (and in training): {', '.join(shares)}"


def _percent(share: Any) -> str:
    return f"{100 * float(share):.3g} %"


# capacity


class Limited(NamedTuple):
    """Actions under a capacity constraint, and what the constraint costs.

    Attributes
    ----------
    actions : array of shape (n,)
        The action of each sample.
    used : int
        How many samples got the limited action.
    wanted : int
        For how many it has the least expected cost.
    margin : float
        What one more place would save: the largest gain of a sample that got another action; 0 where there is none.
    forgone : float
        The sum of the gains of all samples that got another action for want of capacity.
    ties : int
        How many of them gain as much as a sample that got the action: their order decided.
    groups : int
        How many groups (periods) there are; 1 without groups.
    short : int
        In how many of them the demand exceeded the capacity.

    See Also
    --------
    adacsl.decision.limit_action : Returns it.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.decision import limit_action
    >>> expected = np.asarray([[0.0, 1.0], [3.0, 1.0], [9.0, 1.0], [5.0, 1.0]])
    >>> limited = limit_action(expected, action=1, capacity=2)
    >>> limited.used, limited.wanted, limited.margin
    (2, 3, 2.0)
    """

    actions: NDArray[np.int64]
    """The action of each sample."""

    used: int
    """How many samples got the limited action."""

    wanted: int
    """For how many it has the least expected cost."""

    margin: float
    """What one more place would save: the largest gain of a sample that got another action; 0 where there is none."""

    forgone: float
    """The sum of the gains of all samples that got another action for want of capacity."""

    ties: int
    """How many of them gain as much as a sample that got the action: their order decided."""

    groups: int
    """How many groups (periods) there are; 1 without groups."""

    short: int
    """In how many of them the demand exceeded the capacity."""


def limit_action(expected: Array, action: int, capacity: int, groups: Any = None) -> Limited:
    """Return actions of which one is given to at most ``capacity`` samples (of each group): those that gain most by it.

    The gain of a sample is its expected cost under the best other action minus that under this one. Samples without a
    gain never get it; the others get the best other action. Of equal gains the first samples come first.

    Parameters
    ----------
    expected : array of shape (n, A)
        The expected cost of each sample under each action: :meth:`~adacsl.CostMatrix.expected_of_each`.
    action : int
        The number of the limited action.
    capacity : int
        How many samples may get it.
    groups : array of shape (n,), optional
        The day, the branch, the team of each sample: each has this capacity.

    Returns
    -------
    Limited
        The actions, and how the capacity was used.

    Raises
    ------
    ValueError
        Where there is no such action, or costs are not finite.

    See Also
    --------
    adacsl.Policy : The same as a setting of a classifier.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.decision import limit_action
    >>> expected = np.asarray([[0.0, 1.0], [3.0, 1.0], [9.0, 1.0], [5.0, 1.0]])
    >>> limited = limit_action(expected, action=1, capacity=2)
    >>> limited.actions.tolist(), limited.wanted, limited.margin
    ([0, 0, 1, 1], 3, 2.0)
    """
    costs = _checked_expected(expected, action)
    arrays.check_whole("capacity", capacity, least=0)
    n = len(costs)
    gains, others = _gains(costs, action)
    which, n_groups = _group_numbers(groups, n)
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


def _checked_expected(expected: Array, action: int) -> NDArray[np.float64]:
    costs = np.asarray(arrays.as_host(arrays.as_array(expected, "expected")), dtype=np.float64)
    if costs.ndim != 2 or costs.shape[1] < 2 or not len(costs):
        raise ValueError(f"expected costs must be n rows of at least two actions, got shape {costs.shape}")
    arrays.check_finite(costs, "expected")
    if not 0 <= action < costs.shape[1]:
        raise ValueError(f"action must be a number from 0 to {costs.shape[1] - 1}, got {action!r}")
    return costs


def _gains(costs: NDArray[np.float64], action: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return what each sample gains by the action, and the best other one; a difference of rounding is no gain."""
    slack = 8 * np.finfo(np.float64).eps * np.abs(costs).max(axis=1)
    others = costs.copy()
    others[:, action] = np.inf
    best = others.min(axis=1)
    gains = best - costs[:, action]
    gains[gains <= slack] = 0.0
    return gains, np.argmax(others <= (best + slack)[:, None], axis=1).astype(np.int64)


def _group_numbers(groups: Any, n: int) -> tuple[NDArray[np.int64], int]:
    if groups is None:
        return np.zeros(n, dtype=np.int64), 1
    result = np.asarray(groups)
    if result.shape != (n,):
        raise ValueError(f"groups must have one entry for each of {n} rows, got shape {result.shape}")
    names, which = np.unique(result, return_inverse=True)
    return which.astype(np.int64), len(names)


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
    result = [name for name in names if wanted is not None and same_label(label_name(name), wanted)]
    if not result:
        advice = "name the limited action" if wanted is None else f"there is no action {wanted!r} to limit"
        raise ValueError(f"{advice}: action= one of {shown(map(label_name, names))}")
    return result[0]


def _about_capacity(policy: Policy, limited: Limited, name: Any) -> list[str]:
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


# times


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
    result = read_times(values, what)
    if result.dtype.kind != "M":
        raise ValueError(f"{what} must be dates, got numbers such as {result[:1].tolist()}")
    return result
