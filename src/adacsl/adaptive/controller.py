"""AdaCSL's controller: measure the cost-optimal threshold on validation data, adapt the class weights."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from adacsl.base import arrays, floats
from adacsl.base.arrays import Array, as_array, as_host, count_true, number_or_nan
from adacsl.costs.instance import at_one_threshold, corrected, corrected_classes, corrected_rows
from adacsl.costs.matrix import CostMatrix, no_costs
from adacsl.metrics.bins import Partition, SingleBin, UniformBins
from adacsl.thresholds.multiclass import find_multipliers
from adacsl.thresholds.search import check_standard_errors, check_target, find_threshold, subgroup_thresholds
from adacsl.thresholds.sorted_scores import Samples

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AdaCSLController", "MultiLabelController", "as_controller", "callback_controller"]


ODDS_LIMITS = (1e-6, 1.0 - 1e-6)
"""The odds of thresholds at 0 and 1 are 0 and infinite: the exact odds update looks at thresholds inside these."""

CLASS_FIELDS = ("lambdas", "multipliers", "weights")


@dataclass(frozen=True)
class ControllerStep:
    """The measurement and the decision of one step of the controller.

    Attributes
    ----------
    cost : float
        Mean validation cost of the decisions: what the classifier would cost if training stopped now.
    converged : bool
        Whether lambda moved by less than the tolerance.
    lambda_ : float
        Of two classes: the accumulated correction, after this step.
    factor : float
        Of two classes: what lambda was multiplied by; exactly 1 where T' already is cost-optimal in every subgroup.
    weight : float
        Of two classes: weight of the negative class in the loss, after this step.
    thresholds : tuple of float
        Of two classes: cost-optimal threshold T_m of each non-empty subgroup.
    sizes : tuple of float
        Of two classes: number of samples (or their weight) of each non-empty subgroup.
    lambdas : tuple of float
        Of more classes: the accumulated correction of each class, after this step; their geometric mean is 1 unless a
        bound cuts one.
    multipliers : tuple of float
        Of more classes: what the scores of each class must be multiplied by for the least cost; all 1 where they
        already are optimal.
    weights : tuple of float
        Of more classes: weight of each class in the loss, after this step.

    Examples
    --------
    >>> from adacsl import AdaCSLController, CostMatrix
    >>> controller = AdaCSLController(CostMatrix(fp=1, fn=4))
    >>> step = controller.step([0.1, 0.4, 0.6, 0.7], [0, 0, 0, 1])
    >>> step.cost, step.threshold, round(step.lambda_, 3)
    (0.25, 0.6, 1.492)
    """

    cost: float
    converged: bool
    lambda_: float = math.nan
    factor: float = math.nan
    weight: float = math.nan
    thresholds: tuple[float, ...] = ()
    sizes: tuple[float, ...] = ()
    lambdas: tuple[float, ...] = ()
    multipliers: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def threshold(self) -> float:
        """The cost-optimal threshold: the mean over the subgroups, by their size; NaN with more than two classes."""
        total = sum(self.sizes)
        return sum(t * n for t, n in zip(self.thresholds, self.sizes, strict=True)) / total if total else math.nan

    @property
    def logged(self) -> dict[str, float]:
        """What callbacks log beside the cost; of more than two classes how far apart the lambdas are."""
        if self.lambdas:
            return {"lambda_min": min(self.lambdas), "lambda_max": max(self.lambdas)}
        return {"lambda": self.lambda_, "threshold": self.threshold}

    def to_dict(self) -> dict[str, Any]:
        """Return the measurements by name, without the fields of another number of classes.

        Returns
        -------
        dict
            Fields and their values.
        """
        return {name: getattr(self, name) for name in step_fields(len(self.lambdas) or 2)}


@dataclass(frozen=True)
class MultiLabelStep:
    """The measurement and the decision of one step for several labels.

    Attributes
    ----------
    steps : tuple of ControllerStep
        One per label.

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> from adacsl.adaptive import MultiLabelController
    >>> controller = MultiLabelController([CostMatrix(fp=1, fn=4), CostMatrix(fp=2, fn=1)])
    >>> step = controller.step([[0.1, 0.9], [0.8, 0.2]], [[0, 1], [1, 0]])
    >>> len(step.steps)
    2
    """

    steps: tuple[ControllerStep, ...]

    @property
    def cost(self) -> float:
        """Mean cost of a sample: the sum over its labels."""
        return math.fsum(step.cost for step in self.steps)

    @property
    def converged(self) -> bool:
        """Whether the lambda of every label moved by less than the tolerance."""
        return all(step.converged for step in self.steps)

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The cost-optimal threshold of each label."""
        return tuple(step.threshold for step in self.steps)

    @property
    def lambdas(self) -> tuple[float, ...]:
        """The accumulated correction of each label, after this step."""
        return tuple(step.lambda_ for step in self.steps)

    @property
    def logged(self) -> dict[str, float]:
        """What callbacks log beside the cost: ``lambda_0``, ``threshold_0`` and so on."""
        return {
            f"{name}_{number}": value
            for number, step in enumerate(self.steps)
            for name, value in step.logged.items()
        }  # fmt: skip


def step_fields(n_classes: int) -> tuple[str, ...]:
    """Return which fields of a step so many classes have."""
    if n_classes == 2:
        return ("lambda_", "factor", "weight", "thresholds", "sizes", "cost", "converged")
    return ("lambdas", "multipliers", "weights", "cost", "converged")


def step_factor(
    threshold: float, target_threshold: float = 0.5, *, update: Literal["exponential", "odds"] = "exponential"
) -> float:
    """Return the factor of the negatives' weight that moves ``threshold`` to ``target_threshold``.

    Parameters
    ----------
    threshold : float
        The cost-optimal threshold that was measured, T_m.
    target_threshold : float, default 0.5
        The threshold that scores are trained for, T'.
    update : {"exponential", "odds"}, default "exponential"
        The paper's update (eq. 7), or the exact one.

    Returns
    -------
    float
        1 where both thresholds are equal.

    Examples
    --------
    >>> from adacsl.adaptive import step_factor
    >>> step_factor(0.5)
    1.0
    >>> round(step_factor(0.6), 4), round(step_factor(0.6, update="odds"), 4)
    (1.4918, 1.5)
    """
    if threshold == target_threshold:
        return 1.0
    if update == "odds":
        # T' itself may lie outside: then the limits reach as far
        inside = min(max(threshold, min(ODDS_LIMITS[0], target_threshold)), max(ODDS_LIMITS[1], target_threshold))
        return inside / (1.0 - inside) * (1.0 - target_threshold) / target_threshold
    # T' near 0 or 1 can ask for e^1000: the clip keeps the product with lambda finite
    return math.exp(
        min(max((threshold - target_threshold) / (target_threshold * (1.0 - target_threshold)), -300.0), 300.0)
    )


def check_state(state: dict[str, Any], settings: dict[str, Any]) -> None:
    """Raise unless a saved state is whole and comes from a controller with these settings."""
    if not isinstance(state, dict) or set(state) != {"version", "settings", "lambda", "history"}:
        raise ValueError(
            "the state is not that of an AdaCSLController: expected the keys version, settings, lambda and history, "
            f"got {sorted(state) if isinstance(state, dict) else type(state).__name__}"
        )
    if state["version"] != 1:
        raise ValueError(f"the state has version {state['version']!r}, this adacsl reads version 1: update adacsl")
    if not isinstance(state["settings"], dict):
        raise ValueError(  # noqa: TRY004  the type is right, its content is not
            f"the saved settings must be a dict, got {state['settings']!r}: the state is damaged"
        )
    for name, value in settings.items():
        if state["settings"].get(name) != value:
            raise ValueError(
                f"the state was saved with {name}={state['settings'].get(name)!r}, this controller has "
                f"{name}={value!r}; make the controller with the saved settings"
            )
    saved, (low, high) = state["lambda"], settings["bounds"]
    k = len(settings["costs"]["costs"][0])
    # of two classes one number: what the negatives' weight was multiplied by
    numbers = saved if k > 2 and isinstance(saved, list) and len(saved) == k else [saved]
    if any(isinstance(v, bool) or not isinstance(v, float | int) or not low <= v <= high for v in numbers) or (
        k > 2 and len(numbers) != k
    ):
        wanted = "a number" if k == 2 else f"{k} numbers"
        raise ValueError(
            f"the saved lambda must be {wanted} from {low:g} to {high:g}, got {saved!r}: the state is damaged"
        )


def read_history(rows: Any, n_classes: int = 2) -> list[Any]:
    """Return the steps of a saved state."""
    tuples = ("thresholds", "sizes") if n_classes == 2 else CLASS_FIELDS
    try:
        steps = [ControllerStep(**(row | {name: tuple(map(float, row[name])) for name in tuples})) for row in rows]
    except (TypeError, ValueError, KeyError) as error:
        raise ValueError(f"the saved history cannot be read ({error!r}): the state is damaged") from error
    if any(set(row) != set(step_fields(n_classes)) for row in rows):
        wanted = ", ".join(step_fields(n_classes))
        raise ValueError(f"the saved history cannot be read (a step has {wanted}): the state is damaged")
    return steps


LAMBDA_BOUNDS = (1e-3, 1e3)
"""Default bounds of lambda: without bounds it grows without limit once a network has stopped reacting."""

LAMBDA_LIMITS = (1e-30, 1e30)
"""lambda multiplies from epoch to epoch: no bounds may be wider than these."""

TARGET_LIMITS = (1e-30, 1.0 - 1e-7)
"""Costs as unequal as 1e9 to 1e-9 have a threshold that a float32 rounds to 1, and others to 0."""

POWERS = {"bayes": 0.0, "middle": 0.5, "half": 1.0}
"""How far the loss of K classes is weighted by their mean costs: not at all, in between, fully (T' = 0.5 of two)."""

MOST_DAMPING = 2.0
"""With a greater exponent each step overshoots by more than it corrects: lambda would swing ever wider."""

CHOICES = {
    "update": ("exponential", "odds"), "search": ("everywhere", "subgroup"), "ties": ("nearest", "lowest"),
    "until": ("end", "converged"),
}  # fmt: skip

TWO_CLASSES_ONLY = {"search": "everywhere", "ties": "nearest", "candidates": None, "partition": None}
"""Settings that speak of thresholds, and what they are where there are none."""


def check_class_wide(costs: CostMatrix) -> None:
    """Raise unless these are costs of classes, not of single samples."""
    if not isinstance(costs, CostMatrix):
        raise no_costs(costs)
    if costs.n_instances is not None:
        raise ValueError(
            "the controller holds one weight for all samples: give class-wide costs, for instance "
            "costs.averaged(), and pass the costs of the validation samples to step(..., costs=...)"
        )


def check_choice(name: str, value: Any) -> None:
    """Raise unless a setting is one of the words it can be."""
    if value not in CHOICES[name]:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, CHOICES[name]))}, got {value!r}")


def check_speed(damping: Any, tolerance: Any) -> None:
    """Raise unless these are numbers that a loop can settle with."""
    if not 0.0 < number_or_nan(damping) <= MOST_DAMPING:
        raise ValueError(f"damping must be a positive number of at most {MOST_DAMPING:g}, got {damping!r}")
    if not 0.0 < number_or_nan(tolerance) < math.inf:
        raise ValueError(f"tolerance must be a positive number, got {tolerance!r}")


def check_targets(target_threshold: float | str | None, costs: CostMatrix) -> float | str:
    """Return T' of two classes as a number, of more as a word."""
    if costs.n_classes == 2:
        return two_class_target(0.5 if target_threshold is None else target_threshold, costs)
    target_threshold = "bayes" if target_threshold is None else "half" if target_threshold == 0.5 else target_threshold
    if not isinstance(target_threshold, str) or target_threshold not in POWERS:
        raise ValueError(
            f"with {costs.n_classes} classes target is one of {', '.join(map(repr, POWERS))} (0.5 is 'half'), "
            f"got {target_threshold!r}"
        )
    return target_threshold


def weight_before_adaptation(costs: CostMatrix, target_threshold: float) -> float:
    """Return the negatives' weight that makes ``target_threshold`` the threshold: C(1,0)/C(0,1) * (1 - T')/T' (eq. 5).

    Examples
    --------
    >>> weight_before_adaptation(CostMatrix(fp=1, fn=4), 0.5)
    0.25
    """
    if target_threshold == two_class_target("bayes", costs):
        return 1.0  # to the last bit: plain cross-entropy
    return float((1.0 - target_threshold) / target_threshold / float(costs.ratio))


def two_class_target(target_threshold: float | str, costs: CostMatrix) -> float:
    """Return T' as a number: one between 0 and 1, or what a word means for these costs.

    Examples
    --------
    >>> two_class_target("middle", CostMatrix(fp=1, fn=4))
    0.3333333333333333
    """
    if not isinstance(target_threshold, str):
        return check_target(target_threshold)
    bayes = min(max(float(costs.threshold), TARGET_LIMITS[0]), TARGET_LIMITS[1])
    middle = math.sqrt(bayes / (1.0 - bayes))
    named = {"bayes": bayes, "middle": middle / (1.0 + middle), "half": 0.5}
    if target_threshold not in named:
        raise ValueError(
            f"target_threshold must be a number between 0 and 1 or one of {', '.join(map(repr, POWERS))}, got "
            f"{target_threshold!r}"
        )
    return named[target_threshold]


def refuse_thresholds(costs: CostMatrix, *settings: Any) -> None:
    """Raise where a setting is about thresholds, which more than two classes do not have."""
    for (name, usual), value in zip(TWO_CLASSES_ONLY.items(), settings, strict=True):
        if value is not None and (usual is None or value != usual):
            raise ValueError(f"{name} is for two classes, these costs have {costs.n_classes}: omit it")


def check_both_classes(labels: Array, weight: Array | None) -> None:
    """Raise unless at least two classes have samples that count."""
    labels = labels if weight is None else labels[weight > 0]
    n, first = labels.shape[0], count_true(labels == labels[0]) if labels.shape[0] else 0
    if first == n:
        both = "both classes" if labels.dtype == array_namespace(labels).bool else "at least two classes"
        raise ValueError(
            f"adaptation needs {both} in the validation set, but all {n} labels are {int(labels[0])}; "
            "use a larger or stratified validation set"
        )


def check_bounds(bounds: tuple[float, float] | None) -> tuple[float, float]:
    """Return the limits of lambda, which enclose 1, or raise."""
    given = LAMBDA_BOUNDS if bounds is None else bounds
    low, high = map(number_or_nan, given) if np.shape(given) == (2,) else (math.nan, math.nan)
    if not (LAMBDA_LIMITS[0] <= low <= 1.0 <= high <= LAMBDA_LIMITS[1]):
        raise ValueError(f"bounds must enclose lambda's start, low <= 1 <= high within {LAMBDA_LIMITS}, got {bounds!r}")
    return low, high


NEUTRAL_LIMITS = (1e-12, 1.0 - 2.0**-24)
"""Thresholds that take lambda back to 1 are looked for between these."""

WEIGHT_LIMITS = (1e-20, 1e20)
"""The weight of the loss stays within these limits: it and its inverse, times a batch of losses, fit a float32."""

PLAIN_SETTINGS = (
    "target_threshold",
    "update",
    "damping",
    "n_standard_errors",
    "tolerance",
    "search",
    "ties",
    "instance_weighted",
    "until",
)
"""The settings that are numbers and words."""


class AdaCSLController:
    r"""The feedback controller: from validation scores to the weights of the classes in the loss (paper, Algorithm 1).

    .. math::
        \lambda \leftarrow \lambda \sum_m \frac{|D_m|}{R} \exp\frac{T_m - T'}{T'(1 - T')}, \qquad
        w = \lambda \, \frac{C(1,0)}{C(0,1)} \, \frac{1 - T'}{T'}

    with :math:`T_m` the cost-optimal threshold of subgroup *m* and :math:`T'` the decision threshold of the finished
    classifier. It needs no network: call :meth:`step` with recorded scores and labels and read :attr:`history`.

    More than two classes have a lambda each, multiplied by :math:`\mu_j` to the power ``damping``; their geometric mean
    is 1. :math:`\mu` are the multipliers of the scores that minimise the cost of :math:`\arg\min_i \sum_j C(i, j) \mu_j
    q_j / w_j` (:func:`~adacsl.thresholds.find_multipliers`). With two classes this is the exact odds form of the above.

    Parameters
    ----------
    costs : CostMatrix
        Class-wide costs.
    target_threshold : float or {"bayes", "middle", "half"}, optional
        T' of two classes, default 0.5: ``costs.threshold`` ("bayes") gives plain cross-entropy before the first step,
        0.5 ("half") weighted cross-entropy. More classes start from their mean costs to the power 0 ("bayes", the
        default: large weights make training unstable), 1/2 ("middle") or 1 ("half").
    partition : Partition, optional
        ``SingleBin()`` (the default), ``UniformBins(10)``, ``QuantileBins(10)`` or any callable from scores to subgroup
        numbers.
    update : {"exponential", "odds"}, default "exponential"
        The paper's first-order form, or the exact odds ratio it approximates, which more than two classes always have.
    damping : float, default 1.0
        Exponent of the factor, at most 2; 1 is the paper, less is slower.
    bounds : (float, float), optional
        Limits of lambda, of each one of K classes. Default: (0.001, 1000).
    n_standard_errors : float, default 0.0
        Let lambda leave 1 only as far as the validation data prove: of all thresholds that cost at most this many
        standard errors more than the optimum, T_m is the one that brings lambda nearest 1. 0 is the paper; 2 ignores
        random differences where few samples decide.
    candidates : array, optional
        Search these thresholds only (:func:`~adacsl.thresholds.paper_grid` has the paper's).
    tolerance : float, default 1e-3
        A step has ``converged`` where \|change of lambda\| was smaller.
    search : {"everywhere", "subgroup"}, default "everywhere"
        Look for T_m in [0, 1], or in the subgroup's own interval as the authors' later code does.
    ties : {"nearest", "lowest"}, default "nearest"
        Among thresholds of equal cost take the one nearest T' (least adjustment), or the lowest as the authors' code.
    instance_weighted : bool, default False
        Whether the loss also weighs each sample by its own cost (``costs.row_weights(labels)``): a raw score of T' then
        means each sample's own Bayes threshold.
    until : {"end", "converged"}, default "end"
        How long lambda is adapted: at every step, or until a step changes it by less than ``tolerance``, as Algorithm 1
        has it. Later steps then only measure; training may go on (see :attr:`stopped`).

    Raises
    ------
    ValueError
        Where a setting is out of range, or the costs differ between samples.
    TypeError
        Where the costs are no :class:`~adacsl.CostMatrix`, or the partition is not callable.

    See Also
    --------
    AdaCSLClassifier : Classifiers that a controller adapts.
    adacsl.integrations.lightning.AdaCSLCallback : The controller in a training loop; other frameworks have one, too.

    Examples
    --------
    >>> from adacsl import AdaCSLController, CostMatrix
    >>> controller = AdaCSLController(CostMatrix(fp=1, fn=4))
    >>> controller.weight
    0.25

    Once per epoch, with held-out scores and labels:

    >>> step = controller.step([0.1, 0.4, 0.6, 0.7], [0, 0, 0, 1])
    >>> step.thresholds, round(step.factor, 3)
    ((0.6,), 1.492)
    """

    def __init__(
        self,
        costs: CostMatrix,
        *,
        target_threshold: float | str | None = None,
        partition: Partition | None = None,
        update: Literal["exponential", "odds"] = "exponential",
        damping: float = 1.0,
        bounds: tuple[float, float] | None = None,
        n_standard_errors: float = 0.0,
        candidates: Array | None = None,
        tolerance: float = 1e-3,
        search: Literal["everywhere", "subgroup"] = "everywhere",
        ties: Literal["nearest", "lowest"] = "nearest",
        instance_weighted: bool = False,
        until: Literal["end", "converged"] = "end",
    ) -> None:
        check_class_wide(costs)
        for name, value in (("update", update), ("search", search), ("ties", ties), ("until", until)):
            check_choice(name, value)
        check_speed(damping, tolerance)
        self.costs, self.update, self.search, self.ties, self.until = costs, update, search, ties, until
        self.damping, self.tolerance, self.instance_weighted = float(damping), float(tolerance), bool(instance_weighted)
        self.target_threshold: Any = check_targets(target_threshold, costs)
        self.partition = SingleBin() if partition is None else partition
        if not callable(self.partition):
            raise TypeError(f"partition must be callable, such as UniformBins(10), got {partition!r}")
        if search == "subgroup" and not hasattr(self.partition, "edges"):
            raise TypeError(
                "search='subgroup' needs a partition with edges: SingleBin(), UniformBins(n) or QuantileBins(n)"
            )
        self.bounds = check_bounds(bounds)
        self.n_standard_errors = check_standard_errors(n_standard_errors)
        if self.n_standard_errors and ties == "lowest":
            raise ValueError(
                "n_standard_errors prefers thresholds that take lambda back to 1, ties='lowest' the lowest: choose "
                "one of them"
            )
        self.candidates = None if candidates is None else as_array(candidates, "candidates")
        if costs.n_classes > 2:
            whole = partition is None or type(partition) is SingleBin
            refuse_thresholds(costs, search, ties, candidates, None if whole else partition)
        self.reset()

    @classmethod
    def as_published(cls, costs: CostMatrix, **settings: Any) -> AdaCSLController:
        """Return the controller of the authors' later code: 10 bins, each searched on its own interval and grid.

        Parameters
        ----------
        costs : CostMatrix
            Class-wide costs.
        **settings : Any
            Other parameters of the class.

        Returns
        -------
        AdaCSLController
            The controller.

        Examples
        --------
        >>> from adacsl import AdaCSLController, CostMatrix
        >>> AdaCSLController.as_published(CostMatrix(fp=1, fn=4)).search
        'subgroup'
        """
        published: dict[str, Any] = {
            "partition": UniformBins(10), "candidates": np.arange(201) / 200.0, "search": "subgroup", "ties": "lowest",
            "bounds": LAMBDA_LIMITS,
        }  # fmt: skip
        return cls(costs, **(published | settings))

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return self.costs.n_classes

    @property
    def n_labels(self) -> None:
        """None: this is one problem, not several labels."""
        return None

    @property
    def lambdas(self) -> NDArray[np.float64]:
        """The accumulated correction of each class, with geometric mean 1 unless a bound cuts one; 1 at the start."""
        return self._lambdas / math.sqrt(self._lambdas[0]) if self.n_classes == 2 else self._lambdas.copy()

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weight of each class in the loss, lambda times the one before any adaptation: (weight, 1) of two classes."""
        return np.clip(self._lambdas * self.base_weights, *WEIGHT_LIMITS)

    @property
    def base_weights(self) -> NDArray[np.float64]:
        """The weights before any adaptation."""
        if self.n_classes == 2:
            return np.asarray([self.base_weight, 1.0])
        return self.costs.class_weights(POWERS[str(self.target_threshold)])

    @property
    def lambda_(self) -> float:
        """The accumulated correction; 1 at the start."""
        self._of_two_classes("lambda_", "lambdas")
        return float(self._lambdas[0])

    @property
    def weight(self) -> float:
        """Weight of the negative class in the loss: lambda * C(1,0)/C(0,1) * (1 - T')/T'."""
        self._of_two_classes("weight", "weights")
        return float(self.weights[0])

    @property
    def base_weight(self) -> float:
        """The weight before any adaptation, b = C(1,0)/C(0,1) * (1 - T')/T' (eq. 5)."""
        self._of_two_classes("base_weight", "base_weights")
        return weight_before_adaptation(self.costs, self.target_threshold)

    @property
    def history(self) -> tuple[Any, ...]:
        """All steps so far."""
        return tuple(self._history)

    @property
    def stopped(self) -> bool:
        """Whether steps only measure from now on: ``until="converged"``, and lambda has converged."""
        return self.until == "converged" and bool(self._history) and self._history[-1].converged

    def reset(self) -> None:
        """Forget everything: lambda is 1 again."""
        # of two classes (lambda, 1): only the negatives' weight moves, as in the paper
        self._lambdas = np.ones(self.n_classes)
        self._history: list[Any] = []

    def step(
        self,
        scores: Array,
        labels: Array,
        *,
        costs: CostMatrix | None = None,
        sample_weight: Array | None = None,
        adapt: bool = True,
    ) -> Any:
        """Measure the validation set and adapt the weight.

        Parameters
        ----------
        scores : array of shape (n,) or (n, K)
            Raw predicted probabilities of the **whole** validation set: of the positive class, or of every class.
        labels : array of shape (n,)
            0 and 1, or 0 to K - 1.
        costs : CostMatrix, optional
            Per-sample costs of these samples. Each is then decided at its own threshold, and one factor of all odds is
            adapted.
        sample_weight : array of shape (n,), optional
            How much each sample counts.
        adapt : bool, default True
            False only measures: lambda and the history stay as they are, and the factor is 1.

        Returns
        -------
        ControllerStep
            What was measured, and the weight to train with from now on.

        Raises
        ------
        ValueError
            Where the samples hold one class only, or the arrays do not fit together.

        Examples
        --------
        >>> from adacsl import AdaCSLController, CostMatrix
        >>> controller = AdaCSLController(CostMatrix(fp=1, fn=4), update="odds", damping=0.5)
        >>> round(controller.step([0.1, 0.4, 0.6, 0.7], [0, 0, 0, 1]).weight, 3)
        0.306
        """
        unit_costs = self.costs if costs is None else costs
        if self.n_classes > 2:
            return self._step_classes(scores, labels, unit_costs, sample_weight, adapt=adapt)
        scores = self.at_one_threshold(scores, unit_costs)
        samples = Samples.of(scores, labels, unit_costs, sample_weight, "validation scores")
        check_both_classes(samples.positive, samples.weight)
        thresholds, sizes = self._thresholds(scores, samples)
        goal = floats.nearest(samples.kind, self.target_threshold)
        factor = self._factor(thresholds, sizes, goal) if adapt and not self.stopped else 1.0
        cost = unit_costs.mean(samples.positive, samples.scores > goal, sample_weight=samples.weight)
        converged = self._multiply(np.asarray([factor, 1.0]))
        step = ControllerStep(cost, converged, self.lambda_, factor, self.weight, tuple(thresholds), tuple(sizes))
        if adapt:
            self._history.append(step)
        return step

    def _step_classes(
        self, scores: Array, labels: Array, costs: CostMatrix, sample_weight: Array | None, *, adapt: bool
    ) -> ControllerStep:
        q = arrays.as_probabilities(scores, self.n_classes)
        true = arrays.as_column(arrays.as_classes(labels, self.n_classes, "labels"), q, "labels")
        weight = arrays.as_weights(sample_weight, q)
        check_both_classes(true, weight)
        if self.instance_weighted and costs.n_instances is not None:
            q = corrected_classes(q, costs, self.costs)
        result = find_multipliers(
            q, true, costs, weights=self.base_weights, n_standard_errors=self.n_standard_errors, sample_weight=weight
        )
        mu = np.asarray(as_host(result.values), dtype=np.float64)
        converged = self._multiply(mu**self.damping) if adapt and not self.stopped else True
        lambdas, measured, weights = (tuple(values.tolist()) for values in (self.lambdas, mu, self.weights))
        step = ControllerStep(result.start_cost, converged, lambdas=lambdas, multipliers=measured, weights=weights)
        if adapt:
            self._history.append(step)
        return step

    def at_one_threshold(self, scores: Array, costs: CostMatrix) -> Array:
        """Return raw scores of two classes such that T' is the threshold of each sample with costs of its own."""
        return at_one_threshold(scores, costs, self.costs, instance_weighted=self.instance_weighted)

    def _multiply(self, factors: NDArray[np.float64]) -> bool:
        """Move the lambdas, within their bounds; return whether they have settled."""
        before = self._lambdas
        moved = before * factors
        if self.n_classes > 2:
            moved = np.clip(moved, *LAMBDA_LIMITS)
            moved = moved / np.exp(np.mean(np.log(moved)))
        self._lambdas = np.clip(moved, *self.bounds)
        return bool(np.abs(self._lambdas - before).max() < self.tolerance)

    def correct(self, probabilities: Array, costs: CostMatrix | None = None) -> Array:
        """Return probabilities from raw scores of the cost-weighted model: ``p b / (p b + 1 - p)``, or ``q_j / w_j``.

        lambda is left out on purpose: the loop has made T' the cost-optimal raw threshold, so T' has to map to the
        Bayes threshold T. Deciding at T on corrected scores equals deciding at T' on raw ones, sample by sample.

        Parameters
        ----------
        probabilities : array of shape (n,) or (n, K)
            Raw scores: of the positive class, or of every class.
        costs : CostMatrix, optional
            Per-sample costs of these samples, for scores of an ``instance_weighted`` loss: T' then maps to each
            sample's own threshold.

        Returns
        -------
        array of shape (n,) or (n, K)
            Probabilities.

        Examples
        --------
        >>> import numpy as np
        >>> from adacsl import AdaCSLController, CostMatrix
        >>> controller = AdaCSLController(CostMatrix(fp=1, fn=4))
        >>> controller.correct(np.asarray([0.5])).round(3).tolist()
        [0.2]
        """
        own = costs if self.instance_weighted and costs is not None and costs.n_instances is not None else None
        if self.n_classes > 2:
            wide = arrays.widest(arrays.as_probabilities(probabilities, self.n_classes))
            wide = wide if own is None else corrected_classes(wide, own, self.costs)
            wide = wide / arrays.move(self.base_weights, wide)
            return wide / array_namespace(wide).sum(wide, axis=1, keepdims=True)
        raw = arrays.checked_probabilities(as_array(probabilities, "probabilities"))
        if own is not None:
            return corrected_rows(raw, self.target_threshold, self.base_weight, own, self.costs)
        return corrected(raw, self.target_threshold, self.base_weight, float(self.costs.threshold))

    def decide(self, scores: Array, costs: CostMatrix | None = None) -> Array:
        """Return the decision for each sample from the raw scores of the model, as :meth:`step` measures it.

        Parameters
        ----------
        scores : array of shape (n,) or (n, K)
            Raw predicted probabilities: of the positive class, or of every class.
        costs : CostMatrix, optional
            Per-sample costs of these samples.

        Returns
        -------
        array of shape (n,)
            1 where the score of the positive class is above T', else 0; of K classes that of least expected cost, which
            often is not the most probable one.

        Examples
        --------
        >>> from adacsl import AdaCSLController, CostMatrix
        >>> AdaCSLController(CostMatrix(fp=1, fn=4)).decide([0.4, 0.6]).tolist()
        [0, 1]
        """
        own = self.costs if costs is None else costs
        if self.n_classes > 2:
            return own.decide(self.correct(scores, own))
        raw = arrays.as_scores(self.at_one_threshold(scores, own))
        xp = array_namespace(raw)
        return xp.astype(raw > floats.nearest(floats.kind_of(raw), self.target_threshold), xp.int64)

    def to_frame(self) -> pd.DataFrame:
        """Return the history as a data frame, one row per step.

        Returns
        -------
        pandas.DataFrame
            The steps.

        Examples
        --------
        >>> from adacsl import AdaCSLController, CostMatrix
        >>> controller = AdaCSLController(CostMatrix(fp=1, fn=4))
        >>> step = controller.step([0.1, 0.4, 0.6, 0.7], [0, 0, 0, 1])
        >>> controller.to_frame().cost.tolist()
        [0.25]
        """
        import pandas as pd  # noqa: PLC0415  pandas stays optional

        return pd.DataFrame([step.to_dict() for step in self._history], columns=step_fields(self.n_classes))

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on later, as plain JSON values.

        Returns
        -------
        dict
            What :meth:`load_state_dict` takes.

        Examples
        --------
        >>> from adacsl import AdaCSLController, CostMatrix
        >>> sorted(AdaCSLController(CostMatrix(fp=1, fn=4)).state_dict())
        ['history', 'lambda', 'settings', 'version']
        """
        return {
            "version": 1,
            "settings": self._settings(),
            "lambda": self.lambda_ if self.n_classes == 2 else self._lambdas.tolist(),
            "history": [
                {name: list(value) if isinstance(value, tuple) else value for name, value in step.to_dict().items()}
                for step in self._history
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state.

        Parameters
        ----------
        state : dict
            From :meth:`state_dict` of a controller with the same settings.

        Raises
        ------
        ValueError
            Where the state is damaged or of other settings.

        Examples
        --------
        >>> from adacsl import AdaCSLController, CostMatrix
        >>> costs = CostMatrix(fp=1, fn=4)
        >>> first, second = AdaCSLController(costs), AdaCSLController(costs)
        >>> step = first.step([0.1, 0.4, 0.6, 0.7], [0, 0, 0, 1])
        >>> second.load_state_dict(first.state_dict())
        >>> second.lambda_ == first.lambda_
        True
        """
        check_state(state, self._settings())
        self._history = read_history(state["history"], self.n_classes)
        saved = state["lambda"]
        self._lambdas = np.asarray(saved if self.n_classes > 2 else [saved, 1.0], dtype=np.float64)

    def __repr__(self) -> str:
        if self.n_classes > 2:
            shown = ", ".join(f"{value:.6g}" for value in self._lambdas)
            return f"AdaCSLController({self.costs!r}, target_threshold={self.target_threshold!r}, lambdas=[{shown}])"
        return (
            f"AdaCSLController({self.costs!r}, target_threshold={self.target_threshold:g}, lambda={self.lambda_:.6g})"
        )

    def _of_two_classes(self, name: str, instead: str) -> None:
        if self.n_classes > 2:
            raise ValueError(f"{name} is for two classes, this controller has {self.n_classes}: read {instead}")

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in PLAIN_SETTINGS} | {
            "costs": self.costs.to_dict(),
            "partition": repr(self.partition) if hasattr(self.partition, "edges") else "callable",
            "bounds": list(self.bounds),
            "candidates": None if self.candidates is None else as_host(self.candidates).tolist(),
        }

    @property
    def _preferred(self) -> float:
        """The threshold taken where the samples do not decide: T', or the one that takes lambda back to 1."""
        if not self.n_standard_errors or self.lambda_ == 1.0:
            return float(self.target_threshold)
        odds = float(self.target_threshold) / (1.0 - self.target_threshold) / self.lambda_
        return float(min(max(odds / (1.0 + odds), NEUTRAL_LIMITS[0]), NEUTRAL_LIMITS[1]))

    def _thresholds(self, scores: Array, samples: Samples) -> tuple[list[float], list[float]]:
        """Return the cost-optimal threshold and the size of each subgroup."""
        wide, positive, costs, weight, _ = samples
        settings: dict[str, Any] = {"candidates": self.candidates, "n_standard_errors": self.n_standard_errors}
        settings |= {"target_threshold": self._preferred, "sample_weight": weight}
        if type(self.partition) is SingleBin and self.ties == "nearest":  # a single group needs no grouping
            size = wide.shape[0] if weight is None else array_namespace(weight).sum(weight)
            return [find_threshold(scores, positive, costs, **settings).value], [float(size)]
        edges = [float(e) for e in self.partition.edges(wide)] if self.search == "subgroup" else None  # type: ignore[attr-defined]
        subgroups = self.partition(wide)
        result, sizes = subgroup_thresholds(scores, positive, costs, subgroups, edges=edges, ties=self.ties, **settings)
        return [threshold.value for threshold in result], sizes

    def _factor(self, thresholds: list[float], sizes: list[float], goal: float) -> float:
        inner = goal if 0.0 < goal < 1.0 else float(self.target_threshold)  # which a narrow type rounds to 0 or 1
        moves = np.asarray([1.0 if t == goal else step_factor(t, inner, update=self.update) for t in thresholds])
        factor = 1.0 if bool(np.all(moves == 1.0)) else float(moves @ (np.asarray(sizes) / math.fsum(sizes)))
        return float(factor**self.damping)


class MultiLabelController:
    """One controller per label: a multi-label problem is a list of independent problems of two classes.

    Parameters
    ----------
    costs : sequence of CostMatrix or AdaCSLController
        One per label, of two classes.
    **settings : Any
        Parameters of every :class:`~adacsl.AdaCSLController` that is made of costs.

    Attributes
    ----------
    controllers : tuple of AdaCSLController
        One per label; read their ``history``, ``lambda_`` and ``weight``.

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> from adacsl.adaptive import MultiLabelController
    >>> controller = MultiLabelController([CostMatrix(fp=1, fn=4), CostMatrix(fp=2, fn=1)])
    >>> controller.weight.tolist()
    [0.25, 2.0]
    >>> step = controller.step([[0.1, 0.9], [0.8, 0.2]], [[0, 1], [1, 0]])
    >>> step.cost, step.thresholds
    (0.0, (0.5, 0.5))
    """

    instance_weighted = False

    def __init__(self, costs: Sequence[CostMatrix | AdaCSLController], **settings: Any) -> None:
        given = list(costs)
        if not given:
            raise ValueError("costs of several labels must not be empty: give one CostMatrix for each label")
        self.controllers = tuple(
            each if isinstance(each, AdaCSLController) else as_controller(each, settings) for each in given
        )
        for number, controller in enumerate(self.controllers):
            if not isinstance(controller, AdaCSLController) or controller.n_classes != 2:
                raise ValueError(
                    f"each label is a problem of two classes, but the costs of label {number} are {given[number]!r}"
                )

    @property
    def n_classes(self) -> int:
        """Two: each label is there or not."""
        return 2

    @property
    def n_labels(self) -> int:
        """The number of labels."""
        return len(self.controllers)

    @property
    def costs(self) -> tuple[CostMatrix, ...]:
        """The costs of each label."""
        return tuple(controller.costs for controller in self.controllers)

    @property
    def weight(self) -> NDArray[np.float64]:
        """The weight of the negatives of each label in the loss."""
        return np.asarray([controller.weight for controller in self.controllers])

    @property
    def lambdas(self) -> NDArray[np.float64]:
        """The accumulated correction of each label; 1 at the start."""
        return np.asarray([controller.lambda_ for controller in self.controllers])

    @property
    def history(self) -> tuple[MultiLabelStep, ...]:
        """All steps so far."""
        return tuple(map(MultiLabelStep, zip(*(controller.history for controller in self.controllers), strict=True)))

    @property
    def stopped(self) -> bool:
        """Whether steps of all labels only measure from now on."""
        return all(controller.stopped for controller in self.controllers)

    def reset(self) -> None:
        """Forget everything: every lambda is 1 again."""
        for controller in self.controllers:
            controller.reset()

    def step(
        self,
        scores: Array,
        labels: Array,
        *,
        costs: Sequence[CostMatrix] | None = None,
        sample_weight: Array | None = None,
        adapt: bool = True,
    ) -> MultiLabelStep:
        """Measure the validation set and adapt the weight of each label.

        Parameters
        ----------
        scores : array of shape (n, L)
            Raw predicted probabilities.
        labels : array of shape (n, L)
            0 or 1.
        costs : sequence of CostMatrix, optional
            Of each label the per-sample costs of these samples.
        sample_weight : array of shape (n,) or (n, L), optional
            How much each sample counts; 0 where a label is unknown.
        adapt : bool, default True
            False only measures.

        Returns
        -------
        MultiLabelStep
            What was measured, and the weights to train with from now on.
        """
        given = list(costs) if costs is not None else [None] * self.n_labels
        if len(given) != self.n_labels:
            raise ValueError(f"costs must be one for each of {self.n_labels} labels, got {len(given)}")
        scores, labels = as_array(scores, "scores"), as_array(labels, "labels")
        check_columns("scores", scores, self.n_labels)
        check_columns("labels", labels, self.n_labels)
        weight = None if sample_weight is None else as_array(sample_weight, "sample_weight")
        columns = weight is not None and weight.ndim == 2
        before = self.state_dict()
        steps = []
        for number, controller in enumerate(self.controllers):
            own = weight[:, number] if columns and weight is not None else weight
            column, there = scores[:, number], labels[:, number]
            if columns and own is not None:
                counted = own > 0
                column, there, own = column[counted], there[counted], own[counted]
            try:
                steps.append(controller.step(column, there, costs=given[number], sample_weight=own, adapt=adapt))
            except ValueError as error:
                self.load_state_dict(before)
                raise ValueError(f"label {number}: {error}") from None
        return MultiLabelStep(tuple(steps))

    def correct(self, probabilities: Array) -> Array:
        """Return probabilities from raw scores; see :meth:`~adacsl.AdaCSLController.correct`.

        Parameters
        ----------
        probabilities : array of shape (n, L)
            Raw scores.

        Returns
        -------
        array of shape (n, L)
            Probabilities.
        """
        raw = as_array(probabilities, "probabilities")
        check_columns("probabilities", raw, self.n_labels)
        columns = [controller.correct(raw[:, number]) for number, controller in enumerate(self.controllers)]
        return array_namespace(raw).stack(columns, axis=1)

    def decide(self, scores: Array, costs: Sequence[CostMatrix] | None = None) -> Array:
        """Return the decision for each label of each sample.

        Parameters
        ----------
        scores : array of shape (n, L)
            Raw predicted probabilities.
        costs : sequence of CostMatrix, optional
            Of each label the per-sample costs of these samples.

        Returns
        -------
        array of shape (n, L)
            1 where the score is above T' of its label, else 0.
        """
        raw, given = as_array(scores, "scores"), costs if costs is not None else [None] * self.n_labels
        check_columns("scores", raw, self.n_labels)
        columns = [
            controller.decide(raw[:, number], own)
            for number, (controller, own) in enumerate(zip(self.controllers, given, strict=True))
        ]
        return array_namespace(raw).stack(columns, axis=1)

    def to_frame(self) -> pd.DataFrame:
        """Return the history as a data frame, one row per step and label.

        Returns
        -------
        pandas.DataFrame
            The steps.
        """
        import pandas as pd  # noqa: PLC0415  pandas stays optional

        frames = [controller.to_frame() for controller in self.controllers]
        return pd.concat(dict(enumerate(frames)), names=["label", "step"]).reset_index()

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on later, as plain JSON values.

        Returns
        -------
        dict
            What :meth:`load_state_dict` takes.
        """
        return {"version": 1, "labels": [controller.state_dict() for controller in self.controllers]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state.

        Parameters
        ----------
        state : dict
            From :meth:`state_dict` of a controller with the same settings.

        Raises
        ------
        ValueError
            Where the state is damaged or of other settings.
        """
        labels = state.get("labels") if isinstance(state, dict) else None
        if not isinstance(labels, list) or len(labels) != self.n_labels:
            saved = len(labels) if isinstance(labels, list) else "no"
            raise ValueError(
                f"the state has {saved} labels, this controller {self.n_labels}: make it with the saved costs"
            )
        for controller, own in zip(self.controllers, labels, strict=True):
            controller.load_state_dict(own)

    def __repr__(self) -> str:
        return f"MultiLabelController([{', '.join(map(repr, self.controllers))}])"


def check_columns(name: str, values: Array, count: int) -> None:
    """Raise unless there is one column for each label."""
    if values.ndim != 2 or values.shape[1] != count:
        raise ValueError(f"{name} must have shape (n, {count}), one column for each label, got {tuple(values.shape)}")


def is_several(costs: Any) -> bool:
    """Return whether these are costs of several labels."""
    return isinstance(costs, list | tuple)


def as_controller(costs: Any, settings: dict[str, Any]) -> Any:
    """Return a controller of these costs (of several labels: a list) and settings, or the one that was given."""
    if not isinstance(costs, AdaCSLController | MultiLabelController):
        known = [*inspect.signature(AdaCSLController).parameters][1:]
        if unknown := [name for name in settings if name not in known]:
            raise TypeError(f"a controller has no setting {unknown[0]!r}; it has {', '.join(known)}")
        return MultiLabelController(costs, **settings) if is_several(costs) else AdaCSLController(costs, **settings)
    if settings:
        raise TypeError(f"the controller brings its own settings: {', '.join(settings)} cannot be given too")
    return costs


def callback_controller(given: Any, every: Any, *, optional: bool = True) -> Any:
    """Return the controller of a callback: the one that was given, or one made of costs; None if it is ``optional``.

    Raise where something else was given, or ``every`` is not a number of rounds from 1.
    """
    arrays.check_whole("every", every)
    if isinstance(given, CostMatrix) or (is_several(given) and all(isinstance(c, CostMatrix) for c in given)):
        return as_controller(given, {})
    if isinstance(given, AdaCSLController | MultiLabelController) or (optional and given is None):
        return given
    raise TypeError(
        "controller must be an AdaCSLController or a CostMatrix, such as AdaCSLController(CostMatrix(fp=1, fn=8)), "
        f"got {given!r}"
    )
