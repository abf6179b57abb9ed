"""What rows cost to a method: prices said over columns become those of the rows at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from adacsl.core.arrays import refuse_reordered
from adacsl.core.costs import CostMatrix
from adacsl.core.recipes import is_recipe
from adacsl.datasets.price_checks import warn_of_prices
from adacsl.estimators.rows import Rows
from adacsl.extras import requires
from adacsl.integrations.sklearn import row_costs

with requires("sklearn"):
    from sklearn.utils.validation import check_is_fitted


def settle_rows(method: Any, rows: Rows, table: Any) -> Rows:
    """Return training rows with their costs as numbers; the method remembers what they were made of.

    Sets ``said_costs_``: the costs as they were said, in the order of the class numbers, where they depend on columns
    (of ``table``); what is to be predicted is learned.
    """
    said = rows.costs
    if said is not None and said is method.costs:
        said = method.own_costs(rows)  # it may name its classes
    # at other rows, what was given for each of these has its mean
    method.said_costs_ = said.without_samples() if said is not None and not said.settled else None
    if said is None:
        return rows
    raw = said.of(table, clipped=False)
    warn_of_prices(raw, rows.y, telling=not said.learns, stacklevel=4)
    if not said.learns:
        return replace(rows, costs=raw.clipped().checked())
    from adacsl.estimators.pricing import learn_prices  # noqa: PLC0415  regression, for those who predict prices

    seed = method.random_state if isinstance(method.random_state, Integral) else 0
    costs, learned = learn_prices(said, raw, rows, table, int(seed))
    method.said_costs_ = learned.without_samples()
    return replace(rows, costs=costs)


def given_per_sample(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of costs that were given as arrays, and differ between samples."""
    arrays = {
        name: np.asarray(value)
        for name, value in given.items()
        if not (value is None or isinstance(value, str | tuple) or is_recipe(value))
    }
    return tuple(name for name, values in arrays.items() if values.ndim and bool((values != values.flat[0]).any()))


def missing_costs(method: Any, given: Mapping[str, Any]) -> list[str]:
    """Return the costs that a model was fitted with as arrays, one value per sample, and that are not given now."""
    return [name for name in getattr(method, "sample_costs_", ()) if given.get(name) is None]


def prices_of(method: Any, X: Any, **given: Any) -> CostMatrix | None:  # noqa: N803
    """Return the costs of rows to decide about: those given, and else as they were said in training.

    None where all rows cost the same, ``method.costs_``. Costs of each sample that were arrays in training are known of
    no other sample: they have to be given.
    """
    check_is_fitted(method)
    if missing := missing_costs(method, given):
        means = ", ".join(f"{name}={getattr(method.costs_, name):.6g}" for name in missing)
        raise ValueError(
            f"the model was fitted with {' and '.join(missing)} of each sample: pass {' and '.join(missing)} of these "
            f"samples, as in predict(X, {', '.join(f'{name}=...' for name in missing)}), or one cost for all of them, "
            f"such as their mean in training ({means}); costs that are a column of X need no passing if fit is given "
            "its name"
        )
    refuse_reordered(X, **given)
    said = getattr(method, "said_costs_", None)
    costs = row_costs(given, method.costs_ if said is None else said)
    if costs is None or costs.settled:
        return None if costs is None else costs.clipped()
    try:
        return costs.of(X)
    except ValueError as error:
        raise ValueError(
            f"{error}. The model was trained with {said!r}: give it these columns, or the prices of each row, as in "
            "predict(X, fn=prices)"
        ) from error


def stand_in(costs: CostMatrix | None) -> CostMatrix:
    """Return costs to check other settings by: the method's own, or of errors that cost the same, if none are known."""
    if costs is not None and costs.settled:
        return costs
    n = 2 if costs is None else costs.n_classes
    return CostMatrix.from_array(1.0 - np.eye(n), rows="predicted")
