"""Costs at other ratios: what a miss is worth in false alarms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adacsl.core import costs as core
from adacsl.core.costs import CostMatrix


def at_ratio(costs: CostMatrix, ratio: float | None, *, own: float | None = None) -> CostMatrix:
    """Return the costs with misses made dearer or cheaper until one is worth ``ratio`` false alarms (in the mean).

    ``own`` is the ratio as it is, where the costs are not all there is to know of it.

    Examples
    --------
    >>> at_ratio(CostMatrix(fp=2, fn=8), 5.0)
    CostMatrix(fp=2, fn=10)
    """
    return costs if ratio is None else scale_misses(costs, ratio / (own or mean_ratio(costs)))


def scale_misses(costs: CostMatrix, factor: float) -> CostMatrix:
    """Return the costs with the price of a miss, above that of a hit, multiplied by ``factor``."""
    close = math.isclose(factor, 1.0, rel_tol=1e-5)  # ratios are written with six digits
    return costs if close else core.scale_misses(costs, factor)


def named_costs(costs: Sequence[CostMatrix], names: Sequence[str]) -> CostMatrix:
    """Return the costs of some splits of the data as one matrix with the names of the classes."""
    tables = [each.to_array() for each in costs]
    table = tables[0] if costs[0].n_instances is None else np.concatenate(tables)
    named = CostMatrix.from_array(table, rows="predicted", classes=names)
    known = [each.deciding for each in costs]
    return named if known[0] is costs[0] else named.decided_by(named_costs(known, names))


def joined_cells(costs: Sequence[CostMatrix]) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return the prices of two classes of some splits of the data together."""
    tn, fn, fp, tp = (
        some[0] if isinstance(some[0], float) else np.concatenate(some)
        for some in ([getattr(each, name) for each in costs] for name in ("tn", "fn", "fp", "tp"))
    )
    return (tn, fn), (fp, tp)


def mean_ratio(costs: CostMatrix) -> float:
    """Return how many false alarms one miss is worth, in the mean over the rows; 1 with more than two classes."""
    return float(costs.averaged().ratio) if costs.n_classes == 2 else 1.0


def choose_ratios(costs: CostMatrix, ratios: Sequence[float | str] | None) -> list[float]:
    """Return cost ratios as numbers of six digits; ``"3x"`` is three times the costs' own.

    More than two classes have no such ratio: their matrix is compared as it is, and its place is called 1.

    Examples
    --------
    >>> choose_ratios(CostMatrix(fp=1, fn=8), ["1x", "2.5x", 4])
    [8.0, 20.0, 4.0]
    """
    own = mean_ratio(costs)
    if costs.n_classes > 2 and ratios is not None:
        raise ValueError(
            f"ratios are prices of a miss in false alarms, for two classes; a matrix of {costs.n_classes} classes is "
            "compared as it is: leave them out, and give another matrix for other prices"
        )
    found = []
    for ratio in [own] if ratios is None else ratios:
        text = str(ratio).strip().lower()
        try:
            value = own * float(text[:-1]) if text.endswith("x") else float(text)
        except ValueError:
            value = float("nan")
        if not 0.0 < value < float("inf"):
            raise ValueError(f"a ratio is a positive number such as 8, or a multiple such as 3x; got {ratio!r}")
        found.append(float(f"{value:.6g}"))
    if not found or len(set(found)) != len(found):
        raise ValueError(f"the ratios must be different numbers, got {ratios!r}")
    return found
