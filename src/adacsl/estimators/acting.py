"""Decisions of a fitted classifier under a policy: prices of all actions, class shares, a limited action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.capacity import Limited, limit_action
from adacsl.core.costs import CostMatrix
from adacsl.core.labels import label_name, same_label
from adacsl.core.naming import shown
from adacsl.core.priors import estimate_prior, shift_prior
from adacsl.estimators.periods import number_periods
from adacsl.estimators.policy import Decisions, Policy

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
