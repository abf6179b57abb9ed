"""One fit of a comparison, its result, and the cost of its decisions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import count_outcomes
from adacsl.costs import matrix as core
from adacsl.costs.matrix import CostMatrix, or_nan
from adacsl.storage.documents import DamagedError

if TYPE_CHECKING:
    from adacsl.comparison.store import StoredSplit


BASELINE = "baseline"
"""The name, in place of a method's, of the current decisions."""


class FitKey(NamedTuple):
    """The name of one fit.

    Attributes
    ----------
    data : str
        The data set.
    ratio : float
        The cost ratio.
    method : str
        The method.
    seed : int
        The split.

    Examples
    --------
    >>> from adacsl.comparison.fits import FitKey
    >>> FitKey("mine", 8.0, "logistic", 0).method
    'logistic'
    """

    data: str
    # how many false positives one false negative is worth (means, where rows have their own costs); 1 with more than
    # two classes, whose costs stay as they are
    ratio: float
    method: str
    seed: int

    def __str__(self) -> str:
        return f"{self.data}, ratio {self.ratio:g}, {self.method}, seed {self.seed}"


class Stopped(NamedTuple):
    """A method that was not run on all folds, because it cost significantly more after some (:mod:`.racing`).

    Attributes
    ----------
    data : str
        The data set.
    ratio : float
        The cost ratio.
    method : str
        The method.
    seeds : tuple of int
        Splits that its results rest on.
    planned : int
        Number of splits that were planned.
    best : str
        The method that cost significantly less on these splits.

    Examples
    --------
    >>> from adacsl.comparison.fits import Stopped
    >>> str(Stopped("mine", 8.0, "net", (0, 1), 5, "adacsl-cv"))
    'net (2 of 5 folds)'
    """

    data: str
    ratio: float
    method: str
    seeds: tuple[int, ...]
    planned: int
    best: str

    def __str__(self) -> str:
        return f"{self.method} ({len(self.seeds)} of {self.planned} folds)"

    def excludes(self, fit: FitKey) -> bool:
        """Return whether a fit is not part of the comparison, run or not."""
        return fit[:3] == self[:3] and fit.seed not in self.seeds


@dataclass(frozen=True)
class FitResult:
    """The result of one fit: scores and decisions on the test samples of its split, with their costs.

    Parameters
    ----------
    fit : FitKey
        The fit.
    metrics : dict
        cost (mean per test sample), total_cost, normalized_cost, savings, accuracy, n_train (samples that were not
        tested), n_test; of two classes tp, fp, fn, tn; where they make sense also validation_cost (of the chosen
        epoch), epoch, lambda, calibration_error.
    scores : array of shape (n,) or (n, K)
        Scores of the test samples.
    decisions : array of shape (n,)
        Decisions, as class numbers.
    threshold : float, optional
        The decision threshold; None where there is not one for all samples.
    history : list of dict, optional
        One entry per epoch or round.
    seconds : float, default 0.0
        Time of the fit.
    provenance : dict, optional
        Versions, device and machine.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.comparison.fits import FitKey, FitResult
    >>> fit = FitKey("mine", 8.0, "logistic", 0)
    >>> scores = np.asarray([0.2, 0.7], dtype=np.float32)
    >>> FitResult(fit, {"cost": 0.5}, scores, np.asarray([0, 1])).metrics["cost"]
    0.5
    """

    fit: FitKey
    metrics: dict[str, float]
    # probability of the positive class for each test sample (n,), or of each class (n, K), corrected for any weighting
    scores: NDArray[np.float32]
    decisions: NDArray[Any]  # whether each test sample is predicted positive, or the number of its class
    threshold: float | None = None  # positive where scores > threshold; None: per-sample thresholds
    # by epoch: epoch, fold, lambda, threshold, val_cost, train_cost
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0  # training and deciding; a training that serves several fits is divided among them
    provenance: dict[str, Any] = field(default_factory=dict)  # versions, device, commit, when


def scale_fn(costs: CostMatrix, factor: float) -> CostMatrix:
    """Return the costs with the cost of a false negative, above that of a true positive, multiplied by ``factor``."""
    close = math.isclose(factor, 1.0, rel_tol=1e-5)  # ratios are written with six digits
    return costs if close else core.scale_fn(costs, factor)


def measure(decided: NDArray[Any], labels: NDArray[np.int64], costs: CostMatrix) -> dict[str, float]:
    """Return the costs of decisions about the test samples, and, of two classes, the counts of outcomes."""
    truth = labels == 1 if costs.n_classes == 2 else labels
    total = costs.total(truth, decided)
    metrics = {
        "cost": total / len(truth),
        "total_cost": total,
        "normalized_cost": or_nan(costs.normalized, truth, decided),
        "savings": or_nan(costs.savings, truth, decided),
        "accuracy": float(np.mean(truth == decided)),
    }
    if costs.n_classes == 2:
        tn, fn, fp, tp = (count for _, _, count in count_outcomes(truth, decided, 2))
        metrics |= {"tp": tp, "fp": fp, "fn": fn, "tn": tn}
    return metrics | {"n_test": len(truth)}


def check_result(result: FitResult, split: StoredSplit, own_ratio: float) -> None:
    """Raise a DamagedError unless the numbers of a result follow from its decisions about the rows of its split."""
    n, k = len(split.labels), split.costs.n_classes
    decided, classes = result.decisions, 2 if result.scores.ndim == 1 else result.scores.shape[1]
    if (len(decided), classes) != (n, k):
        raise DamagedError(
            f"it has decisions about {len(decided)} samples and {classes} classes, its split has {n} samples "
            f"and {k} classes"
        )
    if k > 2 and n and not 0 <= decided.min() <= decided.max() < k:
        raise DamagedError(f"it decides for a class that is none of {k}")
    try:
        costs = scale_fn(split.costs, result.fit.ratio / own_ratio)
    except ValueError:  # all errors on these samples are free: there is nothing to scale
        return
    largest = float(np.abs(costs.to_array()).max())
    slack = {"cost": largest, "total_cost": n * largest}
    for name, value in measure(decided, split.labels, costs).items():
        stored = result.metrics.get(name)
        # other machines add up in another order
        if not _agree(stored, value, 1e-9 * slack.get(name, 1.0)):
            raise DamagedError(f"its {name} is {str(stored)[:20]}, its decisions make {value:g}")


def _agree(stored: Any, value: float, slack: float) -> bool:
    if not isinstance(stored, int | float):
        return False
    return math.isclose(stored, value, rel_tol=1e-6, abs_tol=slack) or (math.isnan(stored) and math.isnan(value))
