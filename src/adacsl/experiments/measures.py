"""What decisions about test rows cost, and whether a result says so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.arrays import count_outcomes
from adacsl.core.costs import CostMatrix, or_nan
from adacsl.durable import DamagedError
from adacsl.experiments.ratios import scale_misses

if TYPE_CHECKING:
    from adacsl.experiments.cell_documents import StoredSplit
    from adacsl.experiments.cells import CellResult


def measure(decided: NDArray[Any], labels: NDArray[np.int64], costs: CostMatrix) -> dict[str, float]:
    """Return what the decisions about the test rows cost, and, of two classes, the counts behind it."""
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


def check_result(result: CellResult, split: StoredSplit, own_ratio: float) -> None:
    """Raise a DamagedError unless the numbers of a result follow from its decisions about the rows of its split."""
    n, k = len(split.labels), split.costs.n_classes
    decided, classes = result.decisions, 2 if result.scores.ndim == 1 else result.scores.shape[1]
    if (len(decided), classes) != (n, k):
        raise DamagedError(
            f"it decides about {len(decided)} rows and {classes} classes, its split has {n} rows and {k} classes"
        )
    if k > 2 and n and not 0 <= decided.min() <= decided.max() < k:
        raise DamagedError(f"it decides for a class that is none of {k}")
    try:
        costs = scale_misses(split.costs, result.cell.ratio / own_ratio)
    except ValueError:  # all errors on these rows are free: there is nothing to scale
        return
    largest = float(np.abs(costs.to_array()).max())
    slack = {"cost": largest, "total_cost": n * largest}
    for name, value in measure(decided, split.labels, costs).items():
        told = result.metrics.get(name)
        # other machines add up in another order
        if not _agree(told, value, 1e-9 * slack.get(name, 1.0)):
            raise DamagedError(f"its {name} is {str(told)[:20]}, its decisions make {value:g}")


def _agree(told: Any, value: float, slack: float) -> bool:
    if not isinstance(told, int | float):
        return False
    return math.isclose(told, value, rel_tol=1e-6, abs_tol=slack) or (math.isnan(told) and math.isnan(value))
