"""Prices of rows that look wrong: outlying, negative, or telling the label. Named before they mislead."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.arrays import as_host
from adacsl.core.costs import CostMatrix
from adacsl.datasets.checks import Finding, finding
from adacsl.datasets.errors import DataWarning

FEW = 20
"""Of fewer rows of a class, one is easily dearer than all others, or all cost the same."""
DEAREST = 0.01
"""This share of the rows should not carry more than half of what errors could cost."""
TELLING = 0.999
"""An area under the ROC curve of a price against the label, from which on the price tells the label."""


class PriceWarning(DataWarning):
    """Prices of rows that can be used, but look wrong."""


def warn_of_prices(
    costs: CostMatrix, y: NDArray[np.int64], *, telling: bool = True, stacklevel: int = 3
) -> list[Finding]:
    """Warn of each thing that is strange about prices of rows, as they came: before they were clipped; return them."""
    found = price_findings(costs, y, telling=telling)
    for each in found:
        warnings.warn(each.text, PriceWarning, stacklevel=stacklevel + 1)
    return found


def price_findings(costs: CostMatrix, y: NDArray[np.int64], *, telling: bool = True) -> list[Finding]:
    """Return each thing that is strange about prices of rows; class-wide costs have none.

    ``telling``: also where a price tells the label.

    Examples
    --------
    >>> amounts = np.r_[np.full(99, 10.0), 5000.0]
    >>> price_findings(CostMatrix(fp=1, fn=amounts), np.arange(100) % 2)[0].text
    'row 100 alone carries 91 % of what misses could cost in all (fn = 5000): check this price, or cap it (clip)'
    """
    if not costs.settled or costs.n_instances is None:
        return []
    told = {"price-below-right": _negative(costs), "row-dominates": _outlying(costs.clipped(), y)}
    told |= {"price-tells-label": _telling(costs, y)} if telling else {}
    return [finding(code, text) for code, texts in told.items() for text in texts]


def _cells(costs: CostMatrix) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the name and the prices of each outcome whose prices differ."""
    table, two = costs.to_array(), costs.n_classes == costs.n_actions == 2
    classes = [repr(label) for label in costs.classes or range(costs.n_classes)]
    actions = [repr(label) for label in costs.actions or range(costs.n_actions)]
    for i, action in enumerate(actions):
        for j, label in enumerate(classes):
            name = (("tn", "fn"), ("fp", "tp"))[i][j] if two else f"the cost of {action} when {label} is true"
            if (table[:, i, j] != table[0, i, j]).any():
                yield name, table[:, i, j]


def _negative(costs: CostMatrix) -> Iterator[str]:
    """Yield where an error costs less than being right."""
    table = costs.to_array()
    for i, j in np.argwhere((table < table.diagonal(0, 1, 2)[:, None, :]).any(0)).tolist() if costs.square else ():
        names = costs.classes or range(costs.n_classes)
        name = ("fn", "fp")[i] if costs.n_classes == 2 else f"the cost of {names[i]!r} when {names[j]!r} is true"
        below = table[:, i, j] < table[:, j, j]
        first, n = int(below.argmax()), int(below.sum())
        yield (
            f"{name} is below the price of being right in {n} row{'s' if n > 1 else ''}, first in row {first + 1} "
            f"({table[first, i, j]:g} against {table[first, j, j]:g}): such errors are taken as free"
        )


def _outlying(costs: CostMatrix, y: NDArray[np.int64]) -> Iterator[str]:
    """Yield where one row, or the dearest hundredth, carries more than half of what errors about a class cost."""
    weights, table = np.asarray(as_host(costs.row_weights(y))), costs.to_array()
    for j, label in enumerate(costs.classes or range(costs.n_classes)):
        own = np.flatnonzero(y == j)
        few = int(np.ceil(DEAREST * len(own)))
        dearest = own[np.argsort(-weights[own], kind="stable")][:few]
        shares = weights[dearest] / max(len(own), 1)
        if len(own) < FEW or shares.sum() <= 0.5:
            continue
        row, errors, price = int(dearest[0]) + 1, f"errors about {label!r}", f"up to {table[dearest[0], :, j].max():g}"
        if costs.n_classes == costs.n_actions == 2:
            errors, price = ("false alarms", "misses")[j], f"{('fp', 'fn')[j]} = {table[dearest[0], 1 - j, j]:g}"
        if shares[0] > 0.5:
            who, where = f"row {row} alone carries {100 * shares[0]:.0f} %", price
        else:
            who = f"the dearest {few} of {len(own)} rows carry {100 * shares.sum():.0f} %"
            where = f"dearest: row {row}, {price}"
        yield f"{who} of what {errors} could cost in all ({where}): check this price, or cap it (clip)"


def _telling(costs: CostMatrix, y: NDArray[np.int64]) -> Iterator[str]:
    """Yield prices that are constant for one class only, or sort the rows by their class."""
    present = [j for j in range(costs.n_classes) if (y == j).sum() >= FEW]
    if len(present) < 2:
        return
    for name, prices in _cells(costs):
        how = _constant(prices, y, present) or (_sorting(prices, y) if costs.n_classes == 2 else "")
        if how:
            yield (
                f"{name} tells the label: {how}. A price that is known only afterwards decides nothing about new rows: "
                "leave its column out of the features, and take one price for all, or CostModel to predict it"
            )


def _constant(prices: NDArray[Any], y: NDArray[np.int64], present: list[int]) -> str:
    lone = [j for j in present if (prices[y == j] == prices[y == j][0]).all()]
    for j in lone:
        value, rest = prices[y == j][0], prices[y != j]
        if (rest != value).mean() > 0.5:
            return f"it is {value:g} for all {int((y == j).sum())} rows of class {j}, and differs for most others"
    return ""


def _sorting(prices: NDArray[Any], y: NDArray[np.int64]) -> str:
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415  slow to import, and for prices of rows only

    area = float(roc_auc_score(y, prices))
    return f"its ROC area against it is {max(area, 1 - area):.4f}" if max(area, 1 - area) >= TELLING else ""
