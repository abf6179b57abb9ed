"""Base estimators of the ensemble: defaults, names, requirements."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from adacsl.base.extras import requires
from adacsl.datasets.errors import did_you_mean
from adacsl.ensemble.time_plan import Prior
from adacsl.estimators.classifier import CostSensitiveClassifier
from adacsl.estimators.registry import METHODS, method, needs_network
from adacsl.learners.boosting import BoostingLearner
from adacsl.learners.boosting_libraries import LIBRARIES
from adacsl.learners.histogram_boosting import HistogramBoosting
from adacsl.learners.registry import as_learner
from adacsl.learners.sklearn import SklearnLearner

with requires("sklearn"):
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.linear_model import LogisticRegression


BOOSTED = {"n_estimators": 1000, "learning_rate": 0.05}
SLOW = {"n_estimators": 1500, "learning_rate": 0.03}
SOFT = {"num_leaves": 15, "feature_fraction": 0.5, "bagging_fraction": 0.8, "bagging_freq": 1, "lambda_l2": 5.0}
SHALLOW = {"num_leaves": 7, "feature_fraction": 0.7, "bagging_fraction": 0.8, "bagging_freq": 1, "lambda_l2": 1.0}

LIGHT = {"depth": 5, "border_count": 64, "rsm": 0.5, "one_hot_max_size": 64, "max_ctr_complexity": 1}


def _catboost() -> Any:
    return BoostingLearner("catboost", **BOOSTED, patience=25, params={"thread_count": 1, **LIGHT})


def _net(module: Any = None, **settings: Any) -> Any:
    with requires("train"):
        from adacsl.neural.learner import NeuralLearner  # noqa: PLC0415  torch

    return NeuralLearner(module, **settings)


def _logistic() -> Any:
    return SklearnLearner(LogisticRegression(max_iter=1000))


def _shallow() -> Any:
    return BoostingLearner("lightgbm", **BOOSTED, params=SHALLOW)


def _soft() -> Any:
    return BoostingLearner("lightgbm", **SLOW, params=SOFT)


def _histogram() -> Any:
    return SklearnLearner(HistogramBoosting(), encode=False)


def _extra_trees() -> Any:
    return SklearnLearner(ExtraTreesClassifier(200, min_samples_leaf=3))


class KnownEstimator(NamedTuple):
    """A base estimator for tables: the package that it needs, its learner, and what it costs and gains."""

    package: str
    make: Callable[[], Any]
    prior: Prior


BASE_ESTIMATORS: Mapping[str, KnownEstimator] = {
    name: KnownEstimator(package, make, Prior(family, *numbers))
    for name, package, make, family, numbers in (
        ("logistic", "sklearn", _logistic, "linear", (0.02, 0.07, 6e-3)),
        ("lightgbm", "lightgbm", lambda: BoostingLearner("lightgbm", **BOOSTED), "boosting", (0.2, 0.1, 1e-3)),
        ("lightgbm-shallow", "lightgbm", _shallow, "boosting", (0.15, 0.15, 1e-3)),
        ("xgboost", "xgboost", lambda: BoostingLearner("xgboost", **BOOSTED), "boosting", (0.6, 0.15, 1e-3)),
        ("histogram", "sklearn", _histogram, "boosting", (1.0, 0.2, 4e-3)),
        ("catboost", "catboost", _catboost, "boosting", (0.5, 0.3, 1.3e-2)),
        ("net", "torch", lambda: _net(epochs=15), "network", (1.0, 0.25, 1e-3)),
        ("net-bins", "torch", lambda: _net({"bins": 32}, epochs=15), "network", (0.7, 0.4, 1e-3)),
        ("lightgbm-soft", "lightgbm", _soft, "boosting", (0.2, 0.2, 1e-3)),
        ("lightgbm-instance", "lightgbm", _soft, "boosting", (0.2, 0.2, 1e-2)),
        ("lightgbm-shallow-instance", "lightgbm", _shallow, "boosting", (0.15, 0.15, 1e-2)),
        ("xgboost-instance", "xgboost", lambda: BoostingLearner("xgboost", **BOOSTED), "boosting", (0.6, 0.15, 1e-2)),
        ("catboost-instance", "catboost", _catboost, "boosting", (0.5, 0.3, 1e-2)),
        ("histogram-instance", "sklearn", _histogram, "boosting", (1.0, 0.2, 1e-2)),
        ("net-instance", "torch", lambda: _net(epochs=15), "network", (1.0, 0.25, 1e-2)),
        ("adacsl", "torch", lambda: _net(epochs=15), "network", (1.0, 0.25, 1e-3)),
        ("extra-trees", "sklearn", _extra_trees, "forest", (0.5, 0.9, 3e-3)),
        ("realmlp", "torch", lambda: _net("realmlp"), "network", (7.5, 3.0, 1.5e-3)),
        ("tabm", "tabm", lambda: _net("tabm"), "network", (5.0, 5.0, 1.5e-3)),
    )
}
"""Base estimators for tables, in the order in which they start: package, learner, and what to expect (``Prior``).

Seconds and gains are from `benchmarks/quality/base_estimators.py`, and for ``realmlp`` from `networks.py` beside it.
Those of ``tabm`` and of ``-instance``, without which nothing learns from per-sample costs, are assumed. A gain of less
than a thousandth counts as one.

``net-bins`` spread numbers over ramps, so that they can bend at many places, as trees do. Fifteen epochs take a third
of the time of the usual sixty; with the epoch chosen by log loss they lose little, most on tables with jumps.
``catboost`` encodes categories as columns: its usual statistics of categories take six times as long, for a larger log
loss of the stack. ``lightgbm-soft`` and ``lightgbm-instance`` hold the trees back: where samples are weighted by their
costs a few costly ones count for many, and trees that follow them overfit (out of fold they saved .176 of the cost of
TV churn, the others .141).
"""

UNKNOWN = Prior("", 5.0, 5.0, 0.002)
"""Expected seconds and gain of a base estimator that is not in the table."""

TIMED = ("histogram", "extra-trees", "realmlp", "tabm")
"""Base estimators that take part where a time limit leaves room for them, or when named. Without a boosting library
``histogram`` always does."""

BY_NAME = ("adacsl",)
"""Base estimators that take part only when named: in a stack of the others they saved nothing."""

INSTANCE = "-instance"
"""Suffix of base estimators whose loss is weighted by each sample's own cost: used where costs differ between samples,
and of the boosters only the first that is installed."""

BOOSTED_INSTANCE = ("lightgbm-instance", "xgboost-instance", "catboost-instance", "histogram-instance")

ADAPTED = {"loss": "weighted", "controller": "auto"}
IMAGE_ESTIMATORS: Mapping[str, dict[str, Any]] = {
    "net": {},
    "adacsl": ADAPTED,
    "adacsl-middle": {**ADAPTED, "target_threshold": "middle"},
    "adacsl-bayes": {**ADAPTED, "target_threshold": "bayes"},
}
"""Base estimators for images: networks without adaptation, and with each target."""


def default_estimators(
    *, images: bool, neural: Any = None, n_classes: int = 2, row_costs: bool = False, timed: bool = False
) -> dict[str, CostSensitiveClassifier | ImportError]:
    """Return the default base estimators that are installed; ``timed``: and those that need a time limit."""
    if images:
        # of more than two classes "bayes" is what adacsl starts from
        out = {"adacsl-bayes"} if n_classes > 2 else set()
        chosen = {name: own for name, own in IMAGE_ESTIMATORS.items() if name not in out}
        return {
            name: CostSensitiveClassifier(learner=neural or "net", select="log-loss", **own)
            for name, own in chosen.items()
        }
    out = set(BY_NAME) if timed else {*BY_NAME, *TIMED}
    if not any(map(_has, LIBRARIES)):  # scikit-learn's boosting stands in for the libraries that were better
        out.discard("histogram")
    first = next(name for name in BOOSTED_INSTANCE if _has(BASE_ESTIMATORS[name].package))
    kept = {first, "lightgbm-soft", "lightgbm-shallow-instance", "net-instance"} if row_costs else set()
    out |= {name for name in BASE_ESTIMATORS if name.endswith((INSTANCE, "-soft")) and name not in kept}
    return {
        name: _made(name, neural) for name, known in BASE_ESTIMATORS.items() if _has(known.package) and name not in out
    }


def named_estimator(name: str, neural: Any = None) -> CostSensitiveClassifier:
    """Return a base estimator by its name here, or in the table of methods."""
    if name in IMAGE_ESTIMATORS and name not in BASE_ESTIMATORS:
        adapted: CostSensitiveClassifier = CostSensitiveClassifier(
            learner=neural or "net", select="log-loss", **IMAGE_ESTIMATORS[name]
        )
        return adapted
    if name not in BASE_ESTIMATORS:
        if name not in METHODS:
            known = [*BASE_ESTIMATORS, *IMAGE_ESTIMATORS]
            raise ValueError(
                f"there is no base estimator {name!r}{did_you_mean(name, [*known, *METHODS])} "
                f"(known: {', '.join(known)}, and the names in adacsl.METHODS)"
            )
        listed = method(name)
        return listed.set_params(learner=neural) if neural is not None and needs_network(listed) else listed
    learner = BASE_ESTIMATORS[name].make()
    if neural is not None and hasattr(learner, "module"):
        changed = neural.changed()
        if learner.module is not None:  # its own sizes stay
            changed.pop("module", None)
        learner.set_params(**changed)
    settings = ADAPTED if name == "adacsl" else {"loss": "instance-weighted"} if name.endswith(INSTANCE) else {}
    made: CostSensitiveClassifier = CostSensitiveClassifier(learner=learner, select="log-loss", **settings)
    return made


def choose_estimators(
    estimators: Any, *, images: bool, neural: Any = None, n_classes: int = 2, row_costs: bool = False,
    timed: bool = False,
) -> dict[str, CostSensitiveClassifier | ImportError]:  # fmt: skip
    """Return base estimators by name, from names, methods, classifiers, or pairs of a name and one of these.

    One that needs a package which is not installed is represented by its ImportError.
    """
    if isinstance(estimators, str) and estimators == "auto":
        return default_estimators(images=images, neural=neural, n_classes=n_classes, row_costs=row_costs, timed=timed)
    if isinstance(estimators, str | bytes) or not isinstance(estimators, Iterable):
        raise TypeError(f"estimators must be 'auto' or a list of names, methods and classifiers, got {estimators!r}")
    chosen: dict[str, CostSensitiveClassifier | ImportError] = {}
    for item in estimators.items() if isinstance(estimators, Mapping) else estimators:
        name, given = item if isinstance(item, tuple | list) and len(item) == 2 else (None, item)
        if not isinstance(name, str | None):
            raise TypeError(f"the name of a base estimator must be a text, got {name!r}")
        made = _made(given, neural)
        name = name or (given if isinstance(given, str) else _free_name(_name_of(made), chosen))
        if name in chosen:
            raise ValueError(f"base estimator {name!r} is named twice")
        chosen[name] = made
    if not chosen:
        raise ValueError("estimators is empty: give at least one base estimator, or 'auto' for all that are installed")
    return chosen


def _made(given: Any, neural: Any) -> CostSensitiveClassifier | ImportError:
    """Return a base estimator from a name, a method or a classifier."""
    made: CostSensitiveClassifier = given
    if isinstance(given, str):
        try:
            made = named_estimator(given, neural)
        except ImportError as error:
            return error
    elif not isinstance(given, CostSensitiveClassifier):
        if isinstance(given, type) or not (hasattr(given, "tables_only") or hasattr(given, "fit")):
            raise TypeError(
                f"a base estimator must be a name, a method, a classifier, or a pair with a name, got {given!r}"
            )
        as_learner(given)
        made = CostSensitiveClassifier(learner=given, select="log-loss")
    return made


def prior_of(name: str) -> Prior:
    """Return expected seconds and gain of a base estimator."""
    same = "net" if name in IMAGE_ESTIMATORS else name  # the same network, adapted
    return BASE_ESTIMATORS[same].prior if same in BASE_ESTIMATORS else UNKNOWN


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _name_of(made: Any) -> str:
    learner = getattr(made, "learner", made)
    inner = getattr(learner, "estimator", learner)
    return learner if isinstance(learner, str) else type(inner).__name__.lower()


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free
