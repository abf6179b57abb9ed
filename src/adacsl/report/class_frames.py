"""The numbers of the pictures about more than two classes, as frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import as_host
from adacsl.extras import requires
from adacsl.report.data import Outcome

with requires("compare"):
    import pandas as pd


def confusion_cells(outcome: Outcome) -> pd.DataFrame:
    """Return the confusion matrix in rows and in money, a row for each pair of classes; of one repeat.

    Columns: actual and decided (class numbers), count, price (the mean), total_cost, share (of all that was paid).
    """
    k = outcome.n_classes
    cell = outcome.decisions * k + outcome.labels
    count = np.bincount(cell, minlength=k * k).reshape(k, k)
    total = outcome.costs.confusion(outcome.labels, outcome.decisions)
    listed = outcome.costs.averaged().to_array()
    price = np.where(count > 0, total / np.maximum(count, 1), listed)
    paid = float(total.sum())
    decided, actual = np.indices((k, k)).reshape(2, -1)
    columns = {"actual": actual, "decided": decided, "count": outcome.per_repeat(count.ravel())}
    columns |= {"price": price.ravel(), "total_cost": outcome.per_repeat(total.ravel())}
    columns["share"] = total.ravel() / paid if paid else np.zeros(k * k)
    return pd.DataFrame(columns).sort_values(["actual", "decided"], ignore_index=True)


def class_costs(outcome: Outcome) -> pd.DataFrame:
    """Return what each class costs, a row for each true class; numbers and totals are of one repeat.

    Columns: class (its number), n, called (how many rows were called it), found (the share of its rows that were),
    cost (per row of it), total_cost, share (of all that was paid), worst (the class its dearest errors go to, -1 where
    there are none), worst_cost.
    """
    k = outcome.n_classes
    table = outcome.costs.reduced().confusion(outcome.labels, outcome.decisions)
    np.fill_diagonal(table, 0.0)
    total = outcome.costs.confusion(outcome.labels, outcome.decisions).sum(axis=0)
    n = np.bincount(outcome.labels, minlength=k)
    right = np.bincount(outcome.labels[outcome.labels == outcome.decisions], minlength=k)
    paid = float(total.sum())
    return pd.DataFrame(
        {
            "class": np.arange(k),
            "n": outcome.per_repeat(n),
            "called": outcome.per_repeat(np.bincount(outcome.decisions, minlength=k)),
            "found": _over(right, n),
            "cost": _over(total, n),
            "total_cost": outcome.per_repeat(total),
            "share": total / paid if paid else np.zeros(k),
            "worst": np.where(table.max(axis=0) > 0, table.argmax(axis=0), -1),
            "worst_cost": outcome.per_repeat(table.max(axis=0)),
        }
    )


def costs_by_method(outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
    """Return the cost per row of each true class, a row for each class and a column for each method."""
    return pd.DataFrame({name: class_costs(outcome)["cost"] for name, outcome in outcomes.items()})


def class_lambdas(
    histories: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]], names: Sequence[str], method: str | None = None
) -> pd.DataFrame:
    """Return the lambda of each class by epoch (geometric means over splits and folds): method, class, epoch, lambda.

    Of the method named, else of the first that has lambdas at all.
    """
    steps = [
        (name, step["epoch"], np.log(step["lambdas"]))
        for (name, _), own in histories.items()
        for step in own
        if "epoch" in step and step.get("lambdas") is not None
    ]
    wanted = method or next((name for name, _, _ in steps), None)
    rows = [(names[j], e, value) for name, e, logs in steps if name == wanted for j, value in enumerate(logs)]
    frame = pd.DataFrame(rows, columns=["class", "epoch", "lambda"]).assign(method=wanted)
    found = frame.groupby(["method", "class", "epoch"], sort=False, dropna=False)["lambda"].mean().reset_index()
    return found.assign(**{"lambda": np.exp(found["lambda"].astype(float))})


def rule_of(outcome: Outcome) -> str:
    """Return by which rule decisions follow from the probabilities, and can be made anew at other prices.

    "likeliest": the likeliest class, blind to prices. "cheapest": the class of least expected cost. "kept": neither.
    """
    if outcome.rule == "half":
        return "likeliest"
    cheapest = as_host(outcome.costs.decide(outcome.scores.astype(np.float64)))
    return "cheapest" if np.array_equal(cheapest, outcome.decisions) else "kept"


def _over(amount: NDArray[Any], n: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.divide(amount, n, out=np.full(len(n), np.nan), where=n > 0))
