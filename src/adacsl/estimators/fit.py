"""Fits classifiers on the same samples; what several of them need is trained once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix
from adacsl.ensemble.classifier import Portfolio, fit_portfolios
from adacsl.execution.threads import MANY_ROWS, limited_for
from adacsl.fitting.candidates import Candidate
from adacsl.fitting.rows import Rows
from adacsl.learners.boosting import Booster, fit_boosters, installed_engine, load_engines
from adacsl.learners.boosting_libraries import ENGINES
from adacsl.learners.constant import Constant, fit_constants
from adacsl.learners.histogram_boosting import HistogramBoosting
from adacsl.learners.metacost import MetaCost
from adacsl.learners.sklearn import Model, fit_models, prefit_parts

if TYPE_CHECKING:
    from adacsl.estimators.classifier import Method

with requires("sklearn"):
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression


def as_learner(learner: Any) -> Any:
    """Return what learns, from its short form: a name, a scikit-learn classifier, or itself."""
    if isinstance(learner, str):
        return _named(learner)
    if isinstance(learner, type):
        raise TypeError(f"learner must be an instance, {learner.__name__}(...), not the class")
    if hasattr(learner, "tables_only"):  # Net, Booster, Model, Portfolio, Constant
        return learner
    if not hasattr(learner, "fit") or not (hasattr(learner, "predict_proba") or hasattr(learner, "decision_function")):
        raise TypeError(f"learner {learner!r} has no predict_proba, which costs need, nor a decision_function")
    picks = any(isinstance(part, ColumnTransformer) for part in getattr(learner, "get_params", dict)().values())
    # what picks columns, and what was fitted before, wants the table as it came
    return Model(learner, encode=not picks and not prefit_parts(learner))


def _named(name: str) -> Any:
    if name == "net":
        with requires("train"):
            from adacsl.neural.learner import Net  # noqa: PLC0415  torch

        return Net()
    if name == "boosting":
        return Booster() if installed_engine() else Model(HistogramBoosting(), encode=False)
    known = {engine: Booster(engine) for engine in ENGINES}
    known |= {"constant": Constant(), "portfolio": Portfolio(), "metacost": Model(MetaCost(), encode=False)}
    known["logistic"] = Model(LogisticRegression(max_iter=1000))
    if name not in known:
        raise ValueError(f"learner must be 'net', 'boosting', {', '.join(map(repr, known))}, got {name!r}")
    return known[name]


def fit_methods(
    methods: Sequence[tuple[Method, CostMatrix | None]],
    rows: Rows,
    *,
    watch: NDArray[np.int64] | None = None,
    parts: Any = None,
) -> Iterator[int]:
    """Fit methods on the same rows, each under its costs; yield the number of each as soon as it is fitted.

    Parameters
    ----------
    methods : sequence of (Method, CostMatrix or None)
        Class-wide costs or those of each row; None: the method's own.
    rows : Rows
        What to learn from.
    watch : array of row numbers, optional
        Keep scores of these rows only, no models of nets.
    parts : Parts, optional
        Where nets of an unfinished cross-fit on images are kept.
    """
    asked = [method.candidates(rows, costs, watch) for method, costs in methods]
    owner = {id(candidate): number for number, own in enumerate(asked) for candidate in own}
    missing = [len(own) for own in asked]
    kinds: dict[Any, list[Candidate]] = {}
    for (method, _), own in zip(methods, asked, strict=True):
        kinds.setdefault(_kind(method.learner_), []).extend(own)
    load_engines(method.learner_ for method, _ in methods)
    with limited_for(MANY_ROWS if rows.images else len(rows.use)):
        for candidate in _fitted(kinds, rows, parts):
            number = owner[id(candidate)]
            missing[number] -= 1
            if not missing[number]:
                methods[number][0].finish(asked[number], rows)
                yield number


def _fitted(kinds: dict[Any, list[Candidate]], rows: Rows, parts: Any) -> Iterator[Candidate]:
    """Yield candidates as soon as they are fitted, by the function that fits them; each knows how long it took."""
    for fit, candidates in kinds.items():
        extra = {"parts": parts} if fit.__name__ == "fit_nets" else {}
        start = time.perf_counter()
        for candidate in fit(candidates, rows, **extra):
            if not candidate.seconds:
                candidate.seconds = time.perf_counter() - start
            yield candidate
            start = time.perf_counter()


def _kind(learner: Any) -> Any:
    """Return the function that fits such learners."""
    if isinstance(learner, Booster):
        return fit_boosters
    if isinstance(learner, Constant):
        return fit_constants
    if isinstance(learner, Model):
        return fit_models
    if isinstance(learner, Portfolio):
        return fit_portfolios
    from adacsl.neural.fit import fit_nets  # noqa: PLC0415  torch

    return fit_nets
