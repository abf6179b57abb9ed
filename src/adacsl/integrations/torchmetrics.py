"""Mean cost as a torchmetrics metric: beside any loss, in any loop, in a ``MetricCollection``.

.. code-block:: python

    self.val = CostMetric(CostMatrix(fp=1, fn=8), prefix="val_")
    self.val.update(logits, labels)                  # validation_step
    self.log_dict(self.val.compute())                # on_validation_epoch_end: val_cost, val_threshold, ...
    EarlyStopping(monitor="val_cost")
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adacsl.adaptive.streamed import KEPT, Counted, Divisions
from adacsl.base.arrays import number_or_nan
from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix, no_costs
from adacsl.thresholds.multiclass import find_multipliers
from adacsl.thresholds.search import find_threshold

with requires("lightning"):
    import torch
    from torch import Tensor
    from torchmetrics import Metric
    from torchmetrics.utilities.data import dim_zero_cat

    from adacsl.torch.losses import check_ignored
    from adacsl.torch.samples import flat_samples

RULES = ("bayes", "half", "tuned")


class CostMetric(Metric):
    """Mean cost of decisions at threshold 0.5, at the Bayes threshold and at the cost-optimal threshold.

    Of two classes up to 4 million scores are held and measured exactly. More are counted in a
    :class:`~adacsl.CostHistogram` of a megabyte: the costs at 0.5 and at the Bayes threshold stay exact, and
    the cost-optimal threshold is the best border between buckets finer than one part in 500 of a score. Of K classes
    the costs stay exact, and multipliers come from a random sample. Processes are merged by torchmetrics; samples that
    a distributed sampler repeats count twice.

    Parameters
    ----------
    costs : CostMatrix or list of CostMatrix
        Class-wide costs; of several labels one for each, of two classes.
    decide : {"bayes", "half", "tuned"} or float, default "bayes"
        Which decisions ``cost`` is about: at the Bayes threshold (of K classes, of least expected cost), at 0.5 (the
        most probable class), at the cost-optimal threshold (with the cost-optimal multipliers, chosen on these very
        samples), or at a threshold that is given. Scores of a weighted loss are decided at its T', ``decide="half"``.
    ignore_index : int, optional
        Samples with this label do not count. Default: -100 of K classes, as torch's CrossEntropyLoss; none of two.
    from_logits : bool, default True
        Whether ``update`` is given logits; False: probabilities.
    prefix : str, default ""
        What names begin with, such as ``"val_"``.
    kept : int, default 4194304
        So many scores are held before they are counted in buckets.
    **kwargs : Any
        Parameters of ``torchmetrics.Metric``.

    Examples
    --------
    >>> import torch
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.torchmetrics import CostMetric
    >>> metric = CostMetric(CostMatrix(fp=1, fn=8))
    >>> metric.update(torch.tensor([-1.0, -0.5, 0.5, 2.0]), torch.tensor([0, 1, 0, 1]))
    >>> costs = metric.compute()
    >>> round(float(costs["cost"]), 3), round(float(costs["threshold"]), 3)
    (0.5, 0.378)
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    scores: Any  # lists of tensors, and of several processes one tensor
    labels: Any
    weights: Any
    keys: Any
    cut: Tensor
    paid: Tensor
    size: Tensor

    def __init__(
        self,
        costs: CostMatrix | Sequence[CostMatrix],
        decide: str | float = "bayes",
        ignore_index: int | None = None,
        *,
        from_logits: bool = True,
        prefix: str = "",
        kept: int = KEPT,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        several = isinstance(costs, list | tuple)
        self._costs: list[CostMatrix] = list(costs) if several else [costs]  # type: ignore[arg-type,list-item]
        for own in self._costs:
            if not isinstance(own, CostMatrix):
                raise no_costs(own)
            if own.n_instances is not None or (several and own.n_classes != 2):
                raise ValueError("costs must be class-wide, and of several labels of two classes each")
        if not self._costs:
            raise ValueError("costs of several labels must not be empty: give one CostMatrix for each label")
        self.n_classes, self.n_labels = self._costs[0].n_classes, len(self._costs) if several else None
        self.decide, self.ignore_index = _checked_rule(decide, self.n_classes), check_ignored(ignore_index)
        self.from_logits, self.prefix, self.kept = from_logits, prefix, int(kept)
        for name in ("scores", "labels", "weights"):
            self.add_state(name, default=[], dist_reduce_fx="cat")
        if self.n_classes == 2:
            self._divisions = [Divisions((0.5, *self._thresholds_of(own).values())) for own in self._costs]
            for number, division in enumerate(self._divisions):
                buckets, divided = division.empty()
                self.add_state(f"buckets_{number}", torch.from_numpy(buckets), dist_reduce_fx="sum")
                self.add_state(f"divided_{number}", torch.from_numpy(divided), dist_reduce_fx="sum")
        else:
            # a random sample: those whose keys are below the cut
            self.add_state("keys", default=[], dist_reduce_fx="cat")
            self.add_state("cut", torch.ones(()), dist_reduce_fx="min")
            self._random = np.random.default_rng(0)
            self.add_state("paid", torch.zeros(2, dtype=torch.float64), dist_reduce_fx="sum")
            self.add_state("size", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> None:
        """Add a batch.

        Parameters
        ----------
        preds, target : Tensor
            Logits (or probabilities) and labels, of any shape that the losses take; see
            :func:`adacsl.torch.flat_samples`.
        sample_weight : Tensor, optional
            How much each sample counts.
        """
        rows = flat_samples(
            self._as_logits(preds.detach()), target, self.n_classes, n_labels=self.n_labels,
            sample_weight=sample_weight, ignore_index=self.ignore_index,
        )  # fmt: skip
        if len(rows.labels) == 0:
            return
        scores = rows.scores.float()
        weight = torch.ones(scores.shape if self.n_labels else scores.shape[:1], device=scores.device)
        if rows.weight is not None:
            weight = rows.weight.float()
        if self.n_classes > 2:
            self._pay(scores, rows.labels, weight)
        # flat and of one type: a process without data then has something that fits
        for name, values in (("scores", scores), ("labels", rows.labels), ("weights", weight)):
            getattr(self, name).append(values.reshape(-1).float())
        if sum(part.numel() for part in self.scores) > self.kept:
            self._fold()

    def compute(self) -> dict[str, Tensor]:
        """Return ``cost``, ``cost_half``, ``cost_bayes``, ``cost_optimal`` and ``threshold``.

        Of K classes ``multiplier_0``, ``multiplier_1``, ... stand for the threshold; of several labels the costs are
        sums over the labels, and ``threshold_0``, ``threshold_1``, ... theirs.
        """
        values = self._of_classes() if self.n_classes > 2 else self._of_labels()
        return {self.prefix + name: torch.tensor(value, device=self.device) for name, value in values.items()}

    # two classes

    def _of_labels(self) -> dict[str, float]:
        parts = [self._measured(number) for number in range(len(self._costs))]
        values = {name: math.fsum(part[name] for part in parts) for name in parts[0] if name != "threshold"}
        if self.n_labels is None:
            return values | {"threshold": parts[0]["threshold"]}
        return values | {f"threshold_{number}": part["threshold"] for number, part in enumerate(parts)}

    def _measured(self, number: int) -> dict[str, float]:
        costs, (scores, labels, weight) = self._costs[number], self._samples(number)
        if weight.sum() == 0:
            raise ValueError("there are no samples: update the metric with labels that count before compute")
        weight = None if bool((weight == 1.0).all()) else weight
        best = find_threshold(scores, labels, costs, sample_weight=weight)
        at = self._thresholds_of(costs) | {"half": 0.5}
        paid = {
            name: costs.mean(labels, (scores > np.float32(cut)).astype(np.int64), sample_weight=weight)
            for name, cut in at.items()
        }
        paid["tuned"] = best.cost
        chosen = paid[self.decide if isinstance(self.decide, str) else "given"]
        return {
            "cost": chosen, "cost_half": paid["half"], "cost_bayes": paid["bayes"], "cost_optimal": best.cost,
            "threshold": best.value,
        }  # fmt: skip

    def _thresholds_of(self, costs: CostMatrix) -> dict[str, float]:
        """Return the thresholds at which costs are wanted, beside 0.5."""
        given = {} if isinstance(self.decide, str) else {"given": self.decide}
        return {"bayes": float(costs.threshold)} | given

    def _samples(self, number: int) -> tuple[Any, Any, Any]:
        """Return scores, labels and weights of a label: those that are held, and those that stand for counted ones."""
        division, parts = self._divisions[number], []
        counted = Counted(*(getattr(self, f"{name}_{number}").cpu().numpy() for name in ("buckets", "divided")))
        if counted.buckets.any() or counted.divided.any():
            parts.append(division.represent(counted))
        if held := self._held():
            parts.append(self._column(held, number))
        if not parts:
            return np.empty(0, np.float32), np.empty(0, np.int64), np.zeros(0)
        scores, labels, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        return scores, labels, weight

    def _held(self) -> tuple[Any, Any, Any] | None:
        """Return the scores, labels and weights that are held, on the host."""
        states = [getattr(self, name) for name in ("scores", "labels", "weights")]
        if not len(states[0]):
            return None
        scores, labels, weight = (dim_zero_cat(state).cpu().numpy() for state in states)
        wide = self.n_labels or (self.n_classes if self.n_classes > 2 else None)
        shape = (-1,) if wide is None else (-1, wide)
        labels, weight = labels.astype(np.int64), weight.astype(np.float64)
        if self.n_labels is None:
            return scores.reshape(shape), labels, weight
        return scores.reshape(shape), labels.reshape(shape), weight.reshape(shape)

    def _column(self, held: tuple[Any, Any, Any], number: int) -> tuple[Any, Any, Any]:
        """Return the samples of one label that count."""
        scores, labels, weight = held
        if self.n_labels is not None:
            scores, labels, weight = scores[:, number], labels[:, number], weight[:, number]
        there = weight > 0
        return np.ascontiguousarray(scores[there]), labels[there], weight[there]

    # K classes

    def _pay(self, scores: Tensor, labels: Tensor, weight: Tensor) -> None:
        """Add up what decisions by the most probable class, and of least expected cost, cost."""
        matrix = torch.tensor(self._costs[0].to_array(), dtype=torch.float64, device=scores.device)
        decided = (scores.double() @ matrix.T).argmin(1), scores.argmax(1)
        paid = [(matrix[each, labels] * weight.double()).sum() for each in decided]
        self.paid += torch.stack(paid).to(self.paid.device)
        self.size += weight.double().sum().to(self.size.device)
        self.keys.append(torch.from_numpy(self._random.random(len(scores), dtype=np.float32)).to(scores.device))

    def _of_classes(self) -> dict[str, float]:
        held = self._held()
        if held is None or float(self.size) == 0.0:
            raise ValueError("there are no samples: update the metric with labels that count before compute")
        drawn = (dim_zero_cat(self.keys) <= self.cut).cpu().numpy()
        scores, labels, weight = (column[drawn] for column in held)
        result = find_multipliers(scores, labels, self._costs[0], sample_weight=weight)
        bayes, half = (self.paid / self.size).tolist()
        paid = {"bayes": bayes, "half": half, "tuned": float(result.cost)}
        names = {f"multiplier_{number}": float(value) for number, value in enumerate(np.asarray(result.values))}
        return {
            "cost": paid[str(self.decide)], "cost_half": half, "cost_bayes": bayes, "cost_optimal": paid["tuned"],
        } | names  # fmt: skip

    def _fold(self) -> None:
        """Count the scores that are held in buckets; of K classes keep a random sample of them."""
        held = self._held()
        if held is None:
            return
        if self.n_classes == 2:
            for number, division in enumerate(self._divisions):
                scores, labels, weight = self._column(held, number)
                if len(scores):
                    for name, sums in zip(("buckets", "divided"), division.count(scores, labels, weight), strict=True):
                        state = getattr(self, f"{name}_{number}")
                        state += torch.from_numpy(sums).to(state.device)
            self.scores, self.labels, self.weights = [], [], []
            return
        keys = dim_zero_cat(self.keys)
        drawn = keys <= self.cut
        self.cut = torch.minimum(keys[drawn].median(), self.cut.to(keys.device))
        low = keys <= self.cut
        self.scores = [dim_zero_cat(self.scores).view(-1, self.n_classes)[low].reshape(-1)]
        for name in ("labels", "weights", "keys"):
            setattr(self, name, [dim_zero_cat(getattr(self, name))[low]])

    def _as_logits(self, preds: Tensor) -> Tensor:
        if self.from_logits:
            return preds
        wide = preds.float() if preds.dtype in (torch.float16, torch.bfloat16) else preds
        if bool(((wide < 0.0) | (wide > 1.0)).any()):
            raise ValueError("from_logits=False needs probabilities in [0, 1]: leave it out where these are logits")
        one = self.n_classes == 2 and (self.n_labels is not None or _is_one_score(wide))
        return torch.logit(wide) if one else torch.log(wide)


def _is_one_score(preds: Tensor) -> bool:
    """Return whether there is one probability per sample, not one for each of two classes."""
    return preds.ndim == 1 or preds.shape[1] == 1 or (preds.ndim > 2 and 2 not in (preds.shape[1], preds.shape[-1]))


def _checked_rule(decide: Any, n_classes: int) -> str | float:
    if isinstance(decide, str) and decide in RULES:
        return decide
    if n_classes == 2 and not isinstance(decide, str) and 0.0 <= number_or_nan(decide) <= 1.0:
        return float(decide)
    also = " or a threshold from 0 to 1" if n_classes == 2 else ""
    raise ValueError(f"decide must be one of {', '.join(map(repr, RULES))}{also}, got {decide!r}")


__all__ = ["CostMetric"]
