"""Candidates of a fit, judged on held-out samples, and the cost of their average.

The model of one fold costs more than the average of all models, which decides later. A second cross-fit, on other
folds, gives samples a second held-out score. With the cost of one score and that of the mean of two, and a cost that
falls as 1 / k with the number of models k, the cost of k is ``c(k) = c(1) - 2 (1 - 1 / k) (c(1) - c(2))``.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.controller import POWERS, check_targets
from adacsl.adaptive.held_out import HeldOut, pooled
from adacsl.base.scores import known, log_odds, losses_of
from adacsl.costs.instance import bayes_log_odds, row_offsets, row_weights
from adacsl.costs.matrix import CostMatrix
from adacsl.fitting.rows import Rows

__all__ = ["CROSS_FITTED", "add_seconds", "averaged_costs"]


PLAIN = "plain"
"""Key in ``target_costs_`` of the candidate without a controller, where others have one."""

LATEST = 2
"""So many models of the latest time windows decide about new samples: the first were trained on half of the samples, no
recent one. On data with drift the average of all five cost 17 % more than that of these two; without drift, as much."""

CALIBRATES = 150
"""From so many held-out samples on "auto" decides on calibrated scores: the smallest of the eight tables on which that
cost less (``benchmarks/quality/adacsl_defaults.py``). The average of cross-fitted networks gained nothing by it."""

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Candidate shares of the per-sample costs that the features explain."""


@dataclass(eq=False)
class Candidate:
    """A classifier with one target threshold and its folds: the task of a fit, and its result.

    Parameters
    ----------
    method : CostSensitiveClassifier
        The classifier whose parameters are used.
    learner : NeuralLearner, BoostingLearner, SklearnLearner, EnsembleSettings or Constant
        What is trained.
    costs : CostMatrix
        Class-wide, or of each sample of the data.
    target_threshold : float or str
        T'; of more than two classes "bayes", "middle" or "half".
    folds : pairs of row numbers
        Training samples and held-out samples.
    seed : int
        Of everything that is random.
    watch : array of row numbers, optional
        Only the scores of these samples are wanted, no model.
    adapted : bool, default True
        Whether the controller of the method is used; False for the plain candidate of ``target_threshold="auto"``.
    images : bool, default False
        Whether the samples are images.
    usual : CostMatrix, optional
        Class-wide costs, one per outcome: means over the samples that can incur them.

    Attributes
    ----------
    held : list of HeldOut
        One per fold.
    history : list of dict
        One row per epoch or round, and fold.
    model : object
        Gives ``logits(X)``; None where samples are watched.
    watched : array, optional
        The logits of the samples to watch.
    shifted : float or array of shape (K,)
        What :meth:`shift` was.
    judged : pairs of row numbers
        Folds that gave held-out scores of a model which itself was fitted on all samples.
    ordered : bool, default False
        Whether folds are windows of time: then the latest models decide about new samples.
    second : Candidate, optional
        The same on other folds, whose models decide nothing: pairs of held-out scores estimate what averaging saves.
    attributes : dict
        Further fitted attributes of the classifier, such as ``leaderboard_``.
    """

    method: Any
    learner: Any
    costs: CostMatrix
    target_threshold: Any
    folds: list[tuple[NDArray[Any], NDArray[Any]]]
    seed: int
    watch: NDArray[np.int64] | None = None
    may_adapt: bool = True
    images: bool = False
    held: list[HeldOut] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    model: Any = None
    watched: NDArray[np.float64] | None = None
    seconds: float = 0.0
    shifted: Any = 0.0
    extra: dict[str, float] = field(default_factory=dict)
    usual: CostMatrix | None = None
    judged: list[tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=list)
    ordered: bool = False
    second: Candidate | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def decide(self) -> str:
        """How scores become decisions.

        "auto": networks are calibrated where one split of a table holds enough samples out; else at the Bayes
        threshold.
        """
        if self.method.decide != "auto":
            return str(self.method.decide)
        if not hasattr(self.learner, "module"):
            return "bayes"
        two_costs = self.costs.n_classes == 2 and self.costs.n_instances is None
        one_table = len(self.folds) == 1 and not self.images
        return "calibrated" if two_costs and one_table and len(self.folds[0][1]) >= CALIBRATES else "bayes"

    @property
    def held_folds(self) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """The folds that were held out: one split, or those of a cross-fit, also where the model learned from all."""
        return self.folds if len(self.judged) == 0 else self.judged

    def deciding(self, models: Sequence[Any]) -> list[Any]:
        """Return the models that decide about new samples: those of all folds, or of the latest windows of time."""
        return list(models[-LATEST:] if self.ordered else models)

    @property
    def class_costs(self) -> CostMatrix:
        """The costs as one cost per outcome."""
        return self.costs.averaged() if self.usual is None else self.usual

    @property
    def row_costs(self) -> CostMatrix | None:
        """Costs of each sample, where they differ."""
        return None if self.costs.n_instances is None else self.costs

    @property
    def loss(self) -> Any:
        """The loss; sample weights by cost include the class weights."""
        return "weighted" if self.method.loss == "instance-weighted" else self.method.loss

    @property
    def instance_weighted(self) -> bool:
        """Whether the loss weighs each sample by its own cost."""
        return self.method.loss == "instance-weighted" and self.costs.n_instances is not None

    @property
    def corrects_rows(self) -> bool:
        """Whether probabilities have to be corrected sample by sample."""
        return self.instance_weighted and self.method.decide != "raw"

    def row_weights(self, rows: NDArray[Any], y: NDArray[Any]) -> NDArray[np.float64] | None:
        """Return weights of these samples relative to others of their class; ``y`` are the labels of all samples."""
        return row_weights(self.costs.rows(rows), self.class_costs, y[rows]) if self.instance_weighted else None

    def offsets(self, rows: NDArray[Any]) -> Any:
        """Return what is added to the log-odds (or K logits) of these samples, as their own costs weighed them."""
        return row_offsets(self.costs.rows(rows), self.class_costs) if self.corrects_rows else 0.0

    @cached_property
    def adapts(self) -> bool:
        """Whether a controller adapts the weight."""
        return self.may_adapt and self.method.controller is not None and bool(self.learner.adapts(self))

    @cached_property
    def is_plain(self) -> bool:
        """Whether the loss is plain cross-entropy: as it is, or unweighted (T' = T) without a controller."""
        costs = self.class_costs
        unweighted = self.target_threshold == check_targets("bayes", costs) and not self.adapts
        return self.loss == "plain" or (self.loss == "weighted" and unweighted and not self.instance_weighted)

    def shift(self, y: NDArray[Any]) -> Any:
        """Return what turns the learner's log-odds into those of the probability; one for each of K logits.

        It is the same for all samples; :meth:`offsets` come on top.
        """
        if self.costs.n_classes > 2:
            return self._class_shift(y)
        method = self.method
        if method.decide == "raw":
            return 0.0
        if method.resample is not None:  # trained on as many positives as negatives
            return float(log_odds(float(np.mean(y[self.folds[0][0]]))))
        # a loss of the user's is not corrected; an unweighted score needs no correction
        if self.is_plain or callable(method.loss) or method.decide == "unweighted":
            return 0.0
        return float(np.clip(bayes_log_odds(self.class_costs), -700, 700) - log_odds(self.target_threshold))

    def _class_shift(self, y: NDArray[Any]) -> NDArray[np.float64]:
        method, k = self.method, self.costs.n_classes
        if method.resample is not None and method.decide != "raw":  # trained on as many samples of each class
            counts = np.bincount(y[self.folds[0][0]], minlength=k)
            return np.asarray(np.log(np.maximum(counts, 0.5) / counts.sum()))
        if self.is_plain or callable(method.loss) or method.decide in ("raw", "unweighted"):
            return np.zeros(k)
        if method.loss == "logit-adjusted":
            return -np.log(self.class_costs.class_weights())
        return -np.log(self.class_costs.class_weights(POWERS[self.target_threshold]))

    def hold_out(self, rows: Rows, held_out: NDArray[np.int64]) -> HeldOut:
        """Return what judges epochs on some held-out samples."""
        return HeldOut(
            held_out, rows.y[held_out], self.costs.rows(held_out),
            decide=self.method.decide,
            weight=rows.weights(held_out), groups=None if rows.groups is None else rows.groups[held_out],
            last=self.method.select == "last", by_loss=self.method.select == "log-loss",
        )  # fmt: skip


def usual_costs(costs: CostMatrix, rows: Rows) -> CostMatrix:
    """Return class-wide costs: of per-sample costs the means over the usable samples that can incur them."""
    if costs.n_instances is None:
        return costs
    own, labels = costs.rows(rows.use), rows.y[rows.use]
    try:
        return own.averaged(labels)
    except ValueError:  # all errors about a class are free for its own samples
        return own.averaged()


def learned_share(candidate: Candidate, rows: Rows) -> float:
    """Return the share of the per-sample costs that the scores of a cost-weighted candidate contain; else 0.

    Weighting moves the odds by that part of a cost which the features explain and the model has learned: all of it, or
    nothing. The share with the least held-out log loss is returned.
    """
    if not candidate.corrects_rows or not candidate.held:
        return 0.0
    logits = pooled(len(rows.y), candidate.held, costs=candidate.costs)
    seen = known(logits)
    offsets, weight = candidate.offsets(seen), rows.weights(seen)

    def loss(share: float) -> float:
        moved = logits[seen] + (share - 1.0) * offsets
        return float(np.average(losses_of(moved, rows.y[seen]), weights=weight))

    return min(reversed(SHARES), key=loss)


def mean_logits(parts: Iterable[NDArray[Any]]) -> NDArray[np.float64]:
    """Return the mean of several models' logits, in float64 and in one order of adding, whatever the number of rows."""
    each = [np.asarray(part, dtype=np.float64) for part in parts]
    return np.asarray(functools.reduce(np.add, each) / len(each))


SCORED_TWICE = 5_000
"""So many samples, or all, get a second held-out score; more would only take time."""
CROSS_FITTED = 0.9716
"""Bootstrap level for a 95 % interval of a cross-fit: wider by the root of 1.25, 2 Phi(1.118 * 1.96) - 1.

A bootstrap of samples lacks the variance due to the training samples, which the models share: the same 1.25 of
the variance as in :mod:`adacsl.comparison.statistics`. On drawn data estimates missed the truth by 1.04 to 1.2 of what
the bootstrap told (``benchmarks/quality/estimate.py``, ``benchmarks/quality/ensemble_estimate.py``).
"""


def add_seconds(candidates: Sequence[Candidate], rows: Rows, cv: Any) -> list[Candidate]:
    """Return the candidates of a cross-fit, followed by those of a second cross-fit on other folds.

    Nothing is added where folds are given as such, follow one another in time, or only score watched samples; nor for
    images, whose networks take long.
    """
    first = candidates[0]
    once = rows.images or rows.line is not None or rows.validation is not None or first.watch is not None
    if once or not isinstance(cv, Integral) or not first.folds:
        return list(candidates)
    seed = first.seed + len(first.folds)  # as further folds would have
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # raised for the first folds
        folds = rows.folds(cv, None, seed)
    sizes = np.cumsum([len(held_out) for _, held_out in folds])
    folds = folds[: int(np.searchsorted(sizes, min(SCORED_TWICE, sizes[-1]))) + 1]
    for candidate in candidates:
        candidate.second = dataclasses.replace(candidate, folds=folds, seed=seed, held=[], history=[], extra={})
    return [*candidates, *(candidate.second for candidate in candidates if candidate.second is not None)]


def averaged_costs(
    candidate: Candidate, rows: Rows, pay: Callable[[NDArray[Any], NDArray[np.bool_]], NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return what samples cost under the average of a candidate's models, right in the mean only, and which samples.

    ``pay(logits, rows)`` returns the costs of decisions by held-out log-odds (or K logits). Without a second cross-fit
    these are the costs of single models.
    """
    one = pooled(len(rows.y), candidate.held, costs=candidate.costs)
    seen = known(one)
    costs = pay(one[seen], seen)
    if candidate.second is None or not candidate.second.held:
        return costs, seen
    two = pooled(len(rows.y), candidate.second.held, costs=candidate.costs)
    both = seen & known(two)
    twice = both[seen]
    single = (costs[twice] + pay(two[both], both)) / 2.0
    gain = single - pay((one[both] + two[both]) / 2.0, both)
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    costs[twice] = single - 2.0 * (1.0 - 1.0 / len(candidate.folds)) * gain * weight[seen].sum() / weight[both].sum()
    return costs, seen
