"""Held-out samples, and a choice among models that corrects for the selection.

The candidate (epoch, round) of least cost on some samples costs more on others. So the samples are halved, and
a sample's selection-corrected score comes from the candidate with the lowest cost on the other half.

A tuned threshold is another such choice. It is tuned on the samples of all folds together, and so is the threshold that
a sample's selection-corrected score is moved by: on all of them but its own half of its fold (:func:`pooled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.controller import two_class_target
from adacsl.base.scores import known, log_odds, losses_of, sigmoid, to_probabilities
from adacsl.costs.instance import bayes_log_odds
from adacsl.costs.matrix import CostMatrix
from adacsl.thresholds.multiclass import find_multipliers
from adacsl.thresholds.search import find_threshold

__all__ = ["BLIND", "HeldOut", "halves", "kept_sample", "pooled", "tune_cut", "tune_multipliers"]


BLIND = ("half", "raw")
"""Ways to decide that do not look at costs: at even odds."""

FARTHEST_CUT = 50.0
"""Log-odds beyond which a threshold decides the same about every sample."""


NOTHING = 1e-300
"""The weight of no samples at all: a half may be empty."""

EDGE = 1e-6
"""How far (in log-odds) a tuned threshold keeps from the scores beside it: rounding must not carry one across."""


def halves(labels: NDArray[Any], groups: NDArray[Any] | None = None) -> NDArray[np.bool_]:
    """Return which samples form the second half: the classes evenly spread, no group split.

    Examples
    --------
    >>> halves(np.asarray([0, 0, 1, 1])).tolist(), halves(np.asarray([0, 0, 1, 1]), np.asarray([7, 7, 8, 8])).tolist()
    ([False, True, False, True], [False, False, True, True])
    """
    kinds = np.asarray(labels, dtype=np.int64)
    units = np.arange(len(kinds)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    kind_of = np.zeros(units.max(initial=-1) + 1, dtype=np.int64)
    np.maximum.at(kind_of, units, kinds)  # a group with a positive is one of these
    second, turn = np.zeros(len(kind_of), dtype=bool), 0
    for kind in range(max(2, kinds.max(initial=0) + 1)):
        own = np.flatnonzero(kind_of == kind)
        second[own[1 - turn :: 2]] = True
        if groups is not None:  # groups may be few: assigned alternately over both kinds, so that no half stays empty
            turn = (turn + len(own)) % 2
    return second[units]


class HeldOut:
    """Scores of some samples by models that did not train on them; of several candidates that of lowest cost is kept.

    Parameters
    ----------
    rows : array of shape (n,)
        The numbers of the samples.
    labels : array of shape (n,)
        The class of each: 1 is positive, or 0 to K - 1.
    costs : CostMatrix
        Class-wide, or of these samples.
    decide : str
        How decisions will be made: "tuned" judges a candidate at its cost-optimal threshold (multipliers of K classes),
        "half" and "raw" at even odds (the likeliest class), all others by the expected cost.
    weight, groups : arrays of shape (n,), optional
        How much each sample counts; samples of one group are in one half.
    last : bool
        Take the last candidate instead of the cheapest.
    by_loss : bool
        Take the candidate with the least log loss instead of the least cost: that overfits less where the scores are
        not decided upon but stacked.

    Attributes
    ----------
    seen, best : int
        Candidates so far, and which of them is kept.
    cost : float
        What the kept one cost, in the mean over the samples.
    logits : array of shape (n,) or (n, K)
        Its log-odds, or the logits of every class.
    latest : (float, float or array of shape (K,))
        Cost and tuned cut (0 where nothing is tuned) of the candidate that was looked at last: what is subtracted from
        the logits for the Bayes decision to be the tuned one.
    """

    def __init__(
        self, rows: NDArray[Any], labels: NDArray[Any], costs: CostMatrix, *, decide: str = "bayes",
        weight: NDArray[Any] | None = None, groups: NDArray[Any] | None = None, last: bool = False,
        by_loss: bool = False,
    ) -> None:  # fmt: skip
        self.rows, self.costs = np.asarray(rows), costs
        k = costs.n_classes
        self.labels = np.asarray(labels) == 1 if k == 2 else np.asarray(labels, dtype=np.int64)
        self.decide, self.weight, self.last, self.by_loss = decide, weight, last, by_loss
        n = len(self.labels)
        second = halves(self.labels, groups)
        self._parts = np.stack([np.ones(n, dtype=bool), ~second, second])
        self._counted = counted = self._parts * (1.0 if weight is None else np.asarray(weight, dtype=np.float64))
        self._mass = np.maximum(counted.sum(1), NOTHING)
        if k == 2:
            yes, no = (np.asarray(costs.incurred(self.labels, np.full(n, c)), np.float64) for c in (1, 0))
            self._stakes, self._base = counted * (yes - no), counted @ no
            self._cuts = np.zeros(n) if decide in BLIND else np.broadcast_to(bayes_log_odds(costs), n)
        shape = (n,) if k == 2 else (n, k)
        self._no_cut: Any = 0.0 if k == 2 else np.zeros(k)
        self.seen, self.best, self.cost, self._cut, self._least = 0, -1, np.inf, self._no_cut, np.inf
        self.logits = np.full(shape, np.nan)
        # what each half has chosen: its logits of all rows, and the cut tuned on that half
        self._lowest_cost, self._chosen = np.full(2, np.inf), np.full((2, *shape), np.nan)
        self._half_cuts = np.stack([self._no_cut] * 2)
        self.latest: tuple[float, Any] = (np.nan, self._no_cut)

    def look(self, logits: NDArray[Any]) -> bool:
        """Judge one more candidate by the log-odds it gives the samples; return whether it is kept."""
        logits = np.asarray(logits, dtype=np.float64)
        costs, cuts = self._judge(logits)
        self.latest = (float(costs[0]), cuts[0])
        judged = self._losses(logits) if self.by_loss else costs
        better = judged < np.concatenate(([self._least], self._lowest_cost))
        if self.last:
            better[:] = True
        if better[0]:
            self.best, self.cost, self._cut, self.logits = self.seen, float(costs[0]), cuts[0], logits
            self._least = float(judged[0])
        for half in (0, 1):
            if better[1 + half]:
                self._lowest_cost[half] = judged[1 + half]
                self._chosen[half], self._half_cuts[half] = logits, cuts[1 + half]
        self.seen += 1
        return bool(better[0])

    def judge_by(self, logits: NDArray[Any]) -> None:
        """Take selection-corrected scores from a candidate that neither half chose, as other folds did."""
        logits = np.asarray(logits, dtype=np.float64)
        self._chosen[:], self._half_cuts[:] = logits, self._judge(logits)[1][1:]

    @property
    def corrected(self) -> NDArray[np.float64]:
        """Each sample's logits from the candidate that the other half chose, on the scale of the kept one.

        Where thresholds are tuned, the other half has tuned this one, too. Of several folds :func:`pooled` knows more.
        """
        return self._crossed(self._half_cuts) + self._cut

    def _crossed(self, cuts: Any) -> NDArray[np.float64]:
        """Return each sample's logits from what the other half chose, less the cut that belongs to it."""
        second = self._parts[2] if self.logits.ndim == 1 else self._parts[2][:, None]
        return np.asarray(np.where(second, self._chosen[0] - cuts[0], self._chosen[1] - cuts[1]))

    def _judge(self, logits: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[Any]]:
        """Return mean cost and tuned cut (0 where nothing is tuned) on all samples, and on each half."""
        cuts = [self._no_cut] * 3
        if self.decide != "tuned":
            return self._totals(logits) / self._mass, cuts
        totals = np.zeros(3)
        for number in np.flatnonzero(self._mass > NOTHING):
            part = self._parts[number]
            weight = None if self.weight is None else np.asarray(self.weight)[part]
            totals[number], cuts[number] = _tune(logits[part], self.labels[part], self.costs.rows(part), weight)
        return totals / self._mass, cuts

    def _totals(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what deciding by these logits costs: all samples, and each half."""
        if logits.ndim == 1:
            return np.asarray(self._base + self._stakes @ (logits > self._cuts))
        decided = np.argmax(logits, axis=1)
        finite = np.isfinite(logits).all(axis=1)  # what is no number decides something, and is found out later
        if self.decide not in BLIND and finite.any():
            decided[finite] = np.asarray(self.costs.rows(finite).decide(to_probabilities(logits[finite])))
        return np.asarray(self._counted @ np.asarray(self.costs.incurred(self.labels, decided), np.float64))

    def _losses(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean log loss on all samples, and on each half."""
        losses = losses_of(logits, self.labels)
        # an infinite loss must not reach the half it does not belong to: 0 * inf is no number
        return np.asarray([own[own > 0] @ losses[own > 0] for own in self._counted] / self._mass)

    def state_dict(self) -> dict[str, Any]:
        """Return what has been found so far."""
        return {
            "seen": self.seen, "best": self.best, "cost": self.cost, "cut": self._cut, "least": self._least,
            "logits": self.logits,
            "cheapest": self._lowest_cost, "chosen": self._chosen, "half_cuts": self._half_cuts,
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.seen, self.best, self.cost, self._cut, self._least = (
            state[name] for name in ("seen", "best", "cost", "cut", "least")
        )
        self.logits, self._lowest_cost, self._chosen, self._half_cuts = (
            np.array(state[name], dtype=np.float64) for name in ("logits", "cheapest", "chosen", "half_cuts")
        )


def tune_cut(
    logits: NDArray[np.float64], labels: NDArray[Any], costs: CostMatrix, weight: NDArray[Any] | None,
    **limits: Any,
) -> tuple[float, float]:  # fmt: skip
    """Return the total cost of the cost-optimal threshold, and how far (in log-odds) it lies above the Bayes threshold.

    Where rows have costs of their own, each row's Bayes threshold is moved by the same factor of its odds. ``limits``
    are constraints and ``n_standard_errors`` of :func:`~adacsl.find_threshold`.
    """
    bayes = bayes_log_odds(costs)
    limits |= {"sample_weight": weight}
    if costs.n_instances is None:
        target_threshold = two_class_target("bayes", costs)
        result = find_threshold(sigmoid(logits), labels, costs, target_threshold=target_threshold, **limits)
    else:
        result = find_threshold(sigmoid(logits - bayes), labels, costs, target_threshold=0.5, **limits)
        bayes = np.zeros(())
    place, low, high, bayes = np.clip(
        [*log_odds(np.asarray([result.value, result.low, result.high])), float(bayes)], -FARTHEST_CUT, FARTHEST_CUT
    )
    margin = min(EDGE, (high - low) / 2.0)
    return result.total_cost, float(np.clip(place, low + margin, high - margin) - bayes)


def tune_multipliers(
    logits: NDArray[np.float64], labels: NDArray[Any], costs: CostMatrix, weight: NDArray[Any] | None
) -> tuple[float, NDArray[np.float64]]:
    """Return the total cost of the cost-optimal multipliers of K classes, and their negative logarithms."""
    result = find_multipliers(to_probabilities(logits), labels, costs, sample_weight=weight)
    return result.total_cost, -np.log(np.asarray(result.values, dtype=np.float64))


def _tune(logits: NDArray[np.float64], labels: NDArray[Any], costs: CostMatrix, weight: Any) -> tuple[float, Any]:
    """Return the total cost of the cost-optimal threshold or multipliers, and what to subtract from the logits."""
    tune: Any = tune_cut if costs.n_classes == 2 else tune_multipliers
    return tune(logits, labels, costs, weight)  # type: ignore[no-any-return]


def pooled(
    n: int, parts: Sequence[HeldOut], *, corrected: bool = True, costs: CostMatrix | None = None
) -> NDArray[np.float64]:
    """Return the log-odds (or K logits) of each row of n: NaN where it was never held out, else the mean.

    Parameters
    ----------
    n : int
        How many samples there are, held out or not.
    parts : sequence of HeldOut
        The folds.
    corrected : bool, default True
        Selection-corrected: of the candidate that the other half of the fold chose, and where thresholds are tuned
        moved so that the deployed threshold decides as one tuned on all samples but this half of the fold. The
        deployed threshold is tuned on the samples of all folds; one of half a fold alone would cost more than it.
        False: of the candidate that is kept.
    costs : CostMatrix, optional
        Of all n samples, where these have costs of their own.
    """
    if not corrected:
        return _mean(n, parts, [part.logits for part in parts])
    if len(parts) == 1 or parts[0].decide != "tuned":
        return _mean(n, parts, [part.corrected for part in parts])
    return _mean(n, parts, _tuned_on_all_others(n, parts, parts[0].costs if costs is None else costs))


def _mean(n: int, parts: Sequence[HeldOut], logits: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    total, count = np.zeros((n, *logits[0].shape[1:])), np.zeros(n)
    for part, own in zip(parts, logits, strict=True):
        np.add.at(total, part.rows, own)
        np.add.at(count, part.rows, 1)
    count = count if total.ndim == 1 else count[:, None]
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _tuned_on_all_others(n: int, parts: Sequence[HeldOut], costs: CostMatrix) -> list[NDArray[np.float64]]:
    """Return selection-corrected logits of each fold, by thresholds tuned on all samples but half a fold."""
    kept = pooled(n, parts, corrected=False)
    labels, weight = np.zeros(n, dtype=np.int64), np.zeros(n)
    for part in parts:
        labels[part.rows], weight[part.rows] = part.labels, 1.0 if part.weight is None else part.weight

    def cut_of(logits: NDArray[np.float64], use: NDArray[np.bool_]) -> Any:
        return _tune(logits[use], labels[use], costs.rows(use), weight[use])[1]

    known_rows = known(kept) & (weight > 0)
    whole, moved = cut_of(kept, known_rows), []
    for part in parts:
        cuts = []
        for chosen, tested in zip(part._chosen, part._parts[:0:-1], strict=True):
            logits, use = kept.copy(), known_rows.copy()
            logits[part.rows], use[part.rows[tested]] = chosen, False
            use &= known(logits)
            cuts.append(cut_of(logits, use) if use.any() else whole)
        moved.append(part._crossed(cuts) + whole)
    return moved


def kept_sample(n: int, parts: Sequence[HeldOut], most: int = 20_000) -> NDArray[np.float64]:
    """Return the log-odds (or K logits) that the kept models give held-out rows; of many rows a random part."""
    logits = pooled(n, parts, corrected=False)
    seen = np.flatnonzero(known(logits))
    if len(seen) > most:
        seen = np.sort(np.random.default_rng(0).choice(seen, most, replace=False))
    return np.asarray(logits[seen])
