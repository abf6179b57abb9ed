"""Built-in methods by name, and how a selection of methods becomes classifiers."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from adacsl.base.extras import resolve
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.errors import did_you_mean
from adacsl.estimators.classifier import CostSensitiveClassifier
from adacsl.learners.registry import BOOSTING, as_learner
from adacsl.metrics.bins import UniformBins

WEIGHTED = {"loss": "weighted", "target_threshold": 0.5}
# {}: adapted as "auto" does, also on tables of more than two classes, where "auto" does not adapt
ADAPTED: dict[str, Any] = {"loss": "weighted", "controller": {}, "decide": "auto"}
STOPPED = {"select": "log-loss"}
BOOSTED = {**STOPPED, "learner": "boosting"}
ROWS = {"loss": "instance-weighted"}
LAST = {"select": "last"}
FOLDS = {"cv": 5}

METHODS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "always-negative": ("no model: everything is negative", {"learner": "constant", "decide": "negative"}),
    "always-positive": ("no model: everything is positive", {"learner": "constant", "decide": "positive"}),
    "logistic": ("logistic regression, Bayes threshold", {"learner": "logistic"}),
    "logistic-weighted": ("logistic regression weighted by the costs", {**WEIGHTED, "learner": "logistic"}),
    "net-bayes": ("cross-entropy, Bayes threshold", {}),
    "net": ("cross-entropy, threshold 0.5: ignores costs", {"decide": "half"}),
    "net-tuned": ("cross-entropy, threshold tuned on validation data", {"decide": "tuned"}),
    "net-tuned-last": ("cross-entropy, last epoch, tuned threshold", {**LAST, "decide": "tuned"}),
    "net-calibrated": ("cross-entropy, calibrated on validation data, Bayes threshold", {"decide": "calibrated"}),
    "net-calibrated-last": ("cross-entropy, last epoch, calibrated, Bayes threshold", {**LAST, "decide": "calibrated"}),
    "oversample": ("classes balanced by repeating positives, corrected, Bayes threshold", {"resample": "oversample"}),
    "undersample": ("classes balanced by dropping negatives, corrected, Bayes threshold", {"resample": "undersample"}),
    "net-smote": ("classes balanced by SMOTE, corrected, Bayes threshold", {"resample": "smote"}),
    "net-weighted": ("cross-entropy weighted by the costs", WEIGHTED),
    "net-weighted-instance": ("cross-entropy weighted by the cost of each sample", {**WEIGHTED, **ROWS}),
    "net-weighted-tuned": ("weighted cross-entropy, tuned threshold", {**WEIGHTED, "decide": "tuned"}),
    "net-weighted-calibrated-last": (
        "weighted cross-entropy, last epoch, calibrated, Bayes threshold", {**WEIGHTED, **LAST, "decide": "calibrated"}
    ),
    "net-focal": ("weighted focal loss, tuned threshold", {**WEIGHTED, "loss": "focal", "decide": "tuned"}),
    "logit-adjusted": ("logits shifted by the odds of the Bayes threshold", {"loss": "logit-adjusted"}),
    "gbm-bayes": ("gradient boosting, Bayes threshold", BOOSTED),
    "gbm-tuned": ("gradient boosting, tuned threshold", {**BOOSTED, "decide": "tuned"}),
    "gbm-weighted": ("gradient boosting weighted by the costs", {**BOOSTED, **WEIGHTED}),
    "gbm-instance": ("gradient boosting weighted by the cost of each sample", {**BOOSTED, **WEIGHTED, **ROWS}),
    "xgboost": ("XGBoost, Bayes threshold", {**STOPPED, "learner": "xgboost"}),
    "lightgbm": ("LightGBM, Bayes threshold", {**STOPPED, "learner": "lightgbm"}),
    "catboost": ("CatBoost, Bayes threshold", {**STOPPED, "learner": "catboost"}),
    "metacost": ("MetaCost: relabelled by bagged boosting, learned again", {"learner": "metacost", "decide": "half"}),
    "adacsl": ("AdaCSL: the weight adapted to the validation cost", ADAPTED),
    "adacsl-instance": ("AdaCSL, samples weighted by their own costs", {**ADAPTED, **ROWS}),
    "adacsl-bins": ("AdaCSL, ten subgroups", {**ADAPTED, "controller": {"partition": UniformBins(10)}}),
    "net-bayes-cv": ("cross-entropy, five cross-fitted networks, Bayes threshold", FOLDS),
    "net-calibrated-cv": (
        "cross-entropy, five cross-fitted networks, calibrated, Bayes threshold", {**FOLDS, "decide": "calibrated"}
    ),
    "net-weighted-cv": ("cross-entropy weighted by the costs, five cross-fitted networks", {**WEIGHTED, **FOLDS}),
    "gbm-bayes-cv": ("gradient boosting, five cross-fitted boosters, Bayes threshold", {**BOOSTED, **FOLDS}),
    "adacsl-cv": ("AdaCSL, five cross-fitted networks", {**ADAPTED, **FOLDS}),
    "ensemble": ("boosters, neural networks and a linear model, cross-fitted and stacked", FOLDS),
}  # fmt: skip
"""Title and settings of the built-in methods, simplest first: of methods that cannot be distinguished, the
first is recommended. ``net`` needs no less than ``net-bayes``, the same network and a threshold; ignoring costs
is no simplicity. Five models are less simple than one."""

DEFAULT = (
    "always-negative", "always-positive", "logistic", "net-bayes", "net-weighted", "gbm-bayes", "gbm-instance",
    "adacsl",
    "adacsl-instance", "adacsl-cv", "ensemble",
)  # fmt: skip
"""Methods that a comparison runs by default: few that differ, since each more costs power. Those that look at
the per-sample costs take part where samples have some."""

OF_IMAGES = ("net-calibrated",)
"""By default for images too, where networks are overconfident, and nothing but networks takes part."""

WORDS = (
    ("threshold 0.5", "the likeliest class"),
    ("threshold tuned", "decision tuned"),
    ("threshold", "decision"),
    ("repeating positives", "repeating rows"),
    ("dropping negatives", "dropping rows"),
    ("the odds of the Bayes decision", "the costs"),
    ("the weight adapted", "a weight of each class adapted"),
)
"""Of titles, for more than two classes, which have no threshold."""


def method(name: str, costs: CostMatrix | None = None, **settings: Any) -> CostSensitiveClassifier:
    """Return a built-in method by name, unfitted.

    Parameters
    ----------
    name : str
        One of :data:`adacsl.METHODS`: ``"net-bayes"``, ``"net-weighted-tuned"``, ``"gbm-bayes"``, ``"adacsl-cv"``, ...
    costs : CostMatrix, optional
        Costs of the errors. Default: the inverse class frequencies of the training labels.
    **settings : Any
        Further parameters of :class:`~adacsl.CostSensitiveClassifier`, such as ``random_state=0``; they override those
        of the method.

    Returns
    -------
    CostSensitiveClassifier
        Of ``"ensemble"`` an :class:`~adacsl.EnsembleClassifier`.

    Raises
    ------
    ValueError
        Where there is no such method.

    See Also
    --------
    adacsl.compare : Compares methods by name.

    Examples
    --------
    >>> from adacsl import CostMatrix, method
    >>> method("net-weighted-tuned", CostMatrix(fp=1, fn=8)).decide
    'tuned'
    """
    if name not in METHODS:
        raise ValueError(f"there is no method {name!r}{did_you_mean(name, METHODS)} (known: {', '.join(METHODS)})")
    kind = resolve("adacsl.ensemble.classifier:EnsembleClassifier") if name == "ensemble" else CostSensitiveClassifier
    made: CostSensitiveClassifier = kind(costs, **(METHODS[name][1] | settings))
    return made


def choose_methods(
    methods: Iterable[Any] | Mapping[str, Any] | str | None = None, *, images: bool = False, n_classes: int = 2,
    row_costs: bool = False,
) -> dict[str, CostSensitiveClassifier]:  # fmt: skip
    """Return methods by name; None means "default": few that differ and fit the data.

    Parameters
    ----------
    methods : names, (name, method or scikit-learn classifier) pairs, or a mapping
        The selection; the names "default" and "all" stand for many. A classifier decides at the Bayes threshold of
        its probabilities.
    images : bool
        Whether the data are images.
    n_classes : int
        How many classes there are; some methods are for two.
    row_costs : bool
        Whether samples have per-sample costs; where not, methods that look at them are others over again.

    Examples
    --------
    >>> list(choose_methods(["net-weighted", ("mine", CostSensitiveClassifier(decide="tuned"))]))
    ['net-weighted', 'mine']
    """
    methods = "default" if methods is None else methods
    if not isinstance(methods, Iterable):
        raise TypeError(f"methods must be names, or pairs of a name and a classifier, got {methods!r}")
    fit: dict[str, Any] = {"images": images, "n_classes": n_classes}
    chosen: dict[str, CostSensitiveClassifier] = {}
    named: set[str] = set()
    for item in methods.items() if isinstance(methods, Mapping) else [methods] if isinstance(methods, str) else methods:
        if isinstance(item, str) and item in ("default", "all"):
            chosen |= {name: method(name) for name in offered(item, row_costs=row_costs, **fit) if name not in chosen}
            continue
        name, made = (item, method(item)) if isinstance(item, str) else _pair(item)
        if name in named:
            raise ValueError(f"method {name!r} is named twice")
        if why := _unfit(made, **fit):
            raise ValueError(f"method {name!r} is for {why}")
        if missing := _missing(made):
            raise ImportError(f"method {name!r} needs {missing!r}: run  pip install 'adacsl[{missing}]'", name=missing)
        named.add(name)
        chosen[name] = made
    if not chosen:
        raise ValueError("no methods to compare: methods is empty; omit it for the default methods")
    return chosen


def offered(word: str, *, images: bool = False, n_classes: int = 2, row_costs: bool = False) -> Iterator[str]:
    """Yield the names that "default" or "all" stand for on such data, simplest first.

    >>> list(offered("default", images=True, n_classes=3))
    ['net-bayes', 'net-calibrated', 'net-weighted', 'adacsl', 'adacsl-cv', 'ensemble']
    """
    from adacsl.learners.boosting_libraries import installed_library  # noqa: PLC0415  narwhals

    usual = {*DEFAULT, *(OF_IMAGES if images else ())}
    for name in METHODS if word == "all" else [name for name in METHODS if name in usual]:
        made = method(name)
        # the library that gbm-bayes uses would give the same method twice
        again = (made.loss == "instance-weighted" and not row_costs) or name == installed_library()
        if not again and not _missing(made) and not _unfit(made, images=images, n_classes=n_classes):
            yield name


def title_of(name: str, n_classes: int = 2) -> str:
    """Return the title of a built-in method in one line; of another its name.

    >>> title_of("net-bayes"), title_of("net-bayes", n_classes=3)
    ('cross-entropy, Bayes threshold', 'cross-entropy, Bayes decision')
    """
    title = METHODS[name][0] if name in METHODS else name
    for two, more in WORDS if n_classes > 2 else ():
        title = title.replace(two, more)
    return title


def needs_table(made: CostSensitiveClassifier) -> bool:
    """Return whether a method cannot be run on images."""
    return not needs_network(made) and not is_ensemble(made) and made.decide not in ("negative", "positive")


def needs_network(made: CostSensitiveClassifier) -> bool:
    """Return whether a method trains networks."""
    return made.learner == "net" or type(made.learner).__name__ == "NeuralLearner"


def is_ensemble(made: CostSensitiveClassifier) -> bool:
    """Return whether a method is an ensemble, whose base estimators may be networks."""
    return type(made.learner).__name__ == "EnsembleSettings"


def needs_two_classes(made: CostSensitiveClassifier) -> bool:
    """Return whether a method knows two classes only: one is called positive, relabelled to, or cut into subgroups."""
    grouped = isinstance(made.controller, Mapping) and "partition" in made.controller
    return grouped or made.learner == "metacost" or made.decide in ("negative", "positive")


def _unfit(made: CostSensitiveClassifier, *, images: bool, n_classes: int) -> str:
    """Return what data a method is for, where it cannot be run on these."""
    if n_classes > 2 and needs_two_classes(made):
        return f"two classes, but the data have {n_classes}"
    return "tables, but the data are images" if images and needs_table(made) else ""


def _missing(made: CostSensitiveClassifier) -> str:
    """Return the boosting library that a method names and that is not installed."""
    name = made.learner if isinstance(made.learner, str) else getattr(made.learner, "library", "")
    return name if name in BOOSTING and importlib.util.find_spec(name) is None else ""


def _pair(item: Any) -> tuple[str, CostSensitiveClassifier]:
    try:
        name, given = item
    except (TypeError, ValueError):
        name, given = None, None
    if not isinstance(name, str) or given is None:
        raise TypeError(f"a method is a name, or a pair of a name and a classifier; got {item!r}")
    return name, as_method(given, name)


def as_method(given: Any, name: str) -> CostSensitiveClassifier:
    """Return a method as it is; of a scikit-learn classifier one that decides at the Bayes threshold."""
    if isinstance(given, type):
        raise TypeError(f"method {name!r} is a class: give an instance, {given.__name__}(...)")
    try:
        made: CostSensitiveClassifier = (
            given if isinstance(given, CostSensitiveClassifier) else CostSensitiveClassifier(learner=as_learner(given))
        )
    except TypeError as error:
        raise TypeError(f"method {name!r}: {error}") from None
    return made
