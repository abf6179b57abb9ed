"""Check data before anything is learned from them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from adacsl.datasets.checks.codes import Checks
from adacsl.datasets.checks.columns import look_at_columns
from adacsl.datasets.checks.rows import row_findings
from adacsl.datasets.price_checks import PriceWarning
from adacsl.datasets.prices import Costs
from adacsl.datasets.task import Task

CHECKED = "checks"
"""Where a task keeps what was found."""


def check(
    X: Any,  # noqa: N803  scikit-learn's name
    y: Any,
    costs: Costs = None,
    *,
    positive: object = None,
    groups: Any = None,
    time: Any = None,
    ignore: Iterable[str] = (),
) -> Checks:
    """Look for what is wrong with data before anything is learned from them.

    Nothing is changed, and nothing is warned of: what was found is returned. docs/checks.md says of each code what it
    means and what to do.

    Parameters
    ----------
    X, y, costs, positive, groups, time
        As in :func:`adacsl.compare`.
    ignore : codes
        What not to say anything about.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> print(check(X, 1 - y, {"fp": 1, "fn": 8}))
    nothing was found
    >>> check(X.assign(diagnosis=y), 1 - y).codes
    ('column-tells-label', 'costs-not-given')
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriceWarning)
        task = Task.from_data(X, y, costs, positive=positive, groups=groups, time=time)
    return check_task(task, ignore)


def check_task(task: Task, ignore: Iterable[str] = ()) -> Checks:
    """Look for what is wrong with a task, once; ``ignore`` are codes to say nothing about."""
    if CHECKED not in task.worked_out:
        columns = look_at_columns(task)
        task.worked_out[CHECKED] = Checks.of([*row_findings(task, columns.names), *task.findings, *columns.findings])
    found: Checks = task.worked_out[CHECKED]
    return found.without(ignore)
