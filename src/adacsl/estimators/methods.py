"""The table of methods: each name builds an estimator that can be fitted, cloned, searched and saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adacsl.core.costs import CostMatrix
from adacsl.core.partitions import EqualWidth
from adacsl.estimators.method import Method

WEIGHTED = {"loss": "weighted", "target": 0.5}
# {}: steered as "auto" would, also where "auto" would rather not, on tables of more than two classes
ADAPTED: dict[str, Any] = {"loss": "weighted", "controller": {}, "decide": "auto"}
BOOSTED = {**WEIGHTED, "learner": "boosting"}
ROWS = {"loss": "row-weighted"}

METHODS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "always-negative": ("no model: call everything negative", {"learner": "constant", "decide": "negative"}),
    "always-positive": ("no model: call everything positive", {"learner": "constant", "decide": "positive"}),
    "ce-bayes": ("cross-entropy, Bayes threshold", {}),
    "ce": ("cross-entropy, decided at 0.5: blind to costs", {"decide": "half"}),
    "ce-tuned": ("cross-entropy, threshold tuned on validation data", {"decide": "tuned"}),
    "ce-calibrated": ("cross-entropy, calibrated on validation data, Bayes threshold", {"decide": "calibrated"}),
    "oversample": ("classes balanced by repeating positives, corrected, Bayes threshold", {"resample": "oversample"}),
    "undersample": ("classes balanced by dropping negatives, corrected, Bayes threshold", {"resample": "undersample"}),
    "smote": ("classes balanced by SMOTE, corrected, Bayes threshold", {"resample": "smote"}),
    "wce": ("cross-entropy weighted by the costs", WEIGHTED),
    "wce-rows": ("cross-entropy weighted by each row's own price", {**WEIGHTED, **ROWS}),
    "wce-tuned": ("weighted cross-entropy, tuned threshold", {**WEIGHTED, "decide": "tuned"}),
    "focal": ("weighted focal loss, tuned threshold", {**WEIGHTED, "loss": "focal", "decide": "tuned"}),
    "logit-adjusted": ("logits shifted by the odds of the Bayes threshold", {"loss": "logit-adjusted"}),
    "gbm-bayes": ("gradient boosting, Bayes threshold", {**BOOSTED, "target": "bayes"}),
    "gbm-tuned": ("gradient boosting, tuned threshold", {**BOOSTED, "target": "bayes", "decide": "tuned"}),
    "gbm-weighted": ("gradient boosting weighted by the costs", BOOSTED),
    "gbm-rows": ("gradient boosting weighted by each row's own price", {**BOOSTED, **ROWS}),
    "metacost": ("MetaCost: relabelled by bagged boosting, learned again", {"learner": "metacost", "decide": "half"}),
    "adacsl": ("AdaCSL: the weight steered by validation cost", ADAPTED),
    "adacsl-rows": ("AdaCSL, rows weighted by their own prices", {**ADAPTED, **ROWS}),
    "adacsl-bins": (
        "AdaCSL, ten subgroups", {"loss": "weighted", "controller": {"partition": EqualWidth(10)}}
    ),
    "adacsl-cv": ("AdaCSL, five cross-fitted nets", {**ADAPTED, "cv": 5}),
    "portfolio": ("boosters, nets and a linear model, cross-fitted and stacked", {"learner": "portfolio", "cv": 5}),
}  # fmt: skip
"""Title and settings of the built-in methods, simplest first: of methods that cannot be told apart, a verdict takes the
first. ``ce`` needs no less than ``ce-bayes``, the same net and a threshold; being blind to costs is no simplicity."""

WORDS = (
    ("decided at 0.5", "the likeliest class"),
    ("threshold tuned", "decision tuned"),
    ("threshold", "decision"),
    ("repeating positives", "repeating rows"),
    ("dropping negatives", "dropping rows"),
    ("the odds of the Bayes decision", "the costs"),
    ("the weight steered", "a weight of each class steered"),
)
"""Of titles, for more than two classes, which have no threshold."""


def method(name: str, costs: CostMatrix | None = None, **settings: Any) -> Method:
    """Return a method by its name, ready to be fitted.

    Parameters
    ----------
    name : str
        One of :data:`METHODS`: ``"ce-bayes"``, ``"wce-tuned"``, ``"gbm-bayes"``, ``"adacsl-cv"``, ...
    costs : CostMatrix, optional
        What the errors cost.
    **settings
        Further settings of :class:`~adacsl.Method`, such as ``random_state=0``; they win over the table's.

    Examples
    --------
    >>> method("wce-tuned", CostMatrix(fp=1, fn=8)).decide
    'tuned'
    """
    if name not in METHODS:
        raise ValueError(f"there is no method {name!r}; known: {', '.join(METHODS)}")
    made: Method = Method(costs, **(METHODS[name][1] | settings))
    return made


def choose_methods(
    methods: Iterable[Any] | Mapping[str, Method] | str | None = None, *, images: bool = False, n_classes: int = 2,
    row_costs: bool = False,
) -> dict[str, Method]:  # fmt: skip
    """Return methods by name; None means all that fit the data.

    Parameters
    ----------
    methods : names, (name, method) pairs, or a mapping
        What to take.
    images : bool
        Whether the data are images.
    n_classes : int
        How many classes there are; some methods are for two.
    row_costs : bool
        Whether rows have prices of their own; where not, methods that look at them are others over again.

    Examples
    --------
    >>> list(choose_methods(["wce", ("mine", Method(decide="tuned"))]))
    ['wce', 'mine']
    """
    if methods is None:
        made = {name: method(name) for name in METHODS}
        made = {name: one for name, one in made.items() if row_costs or one.loss != "row-weighted"}
        return {name: one for name, one in made.items() if not _unfit(one, images=images, n_classes=n_classes)}
    if isinstance(methods, str):
        methods = [methods]
    chosen: dict[str, Method] = {}
    for item in methods.items() if isinstance(methods, Mapping) else methods:
        name, made = (item, method(item)) if isinstance(item, str) else _pair(item)
        if name in chosen:
            raise ValueError(f"method {name!r} is named twice")
        if why := _unfit(made, images=images, n_classes=n_classes):
            raise ValueError(f"method {name!r} is for {why}")
        chosen[name] = made
    if not chosen:
        raise ValueError("no methods to compare; leave methods out to take all")
    return chosen


def title_of(name: str, n_classes: int = 2) -> str:
    """Return one line for people about a method of the table; its name otherwise.

    >>> title_of("ce-bayes"), title_of("ce-bayes", n_classes=3)
    ('cross-entropy, Bayes threshold', 'cross-entropy, Bayes decision')
    """
    title = METHODS[name][0] if name in METHODS else name
    for two, more in WORDS if n_classes > 2 else ():
        title = title.replace(two, more)
    return title


def needs_table(made: Method) -> bool:
    """Tell whether a method cannot be run on images."""
    return not needs_net(made) and not is_portfolio(made) and made.decide not in ("negative", "positive")


def needs_net(made: Method) -> bool:
    """Tell whether a method trains nets."""
    return made.learner == "net" or type(made.learner).__name__ == "Net"


def is_portfolio(made: Method) -> bool:
    """Tell whether a method is a portfolio, whose members may be nets."""
    return made.learner == "portfolio" or type(made.learner).__name__ == "Portfolio"


def needs_two_classes(made: Method) -> bool:
    """Tell whether a method knows two classes only: one is called positive, relabelled to, or cut into subgroups."""
    grouped = isinstance(made.controller, Mapping) and "partition" in made.controller
    return grouped or made.learner == "metacost" or made.decide in ("negative", "positive")


def _unfit(made: Method, *, images: bool, n_classes: int) -> str:
    """Return what else a method is for, where it cannot be run on such data."""
    if n_classes > 2 and needs_two_classes(made):
        return f"two classes, but the data have {n_classes}"
    return "tables, but the data are images" if images and needs_table(made) else ""


def _pair(item: Any) -> tuple[str, Method]:
    try:
        name, made = item
    except (TypeError, ValueError):
        name, made = None, None
    if not isinstance(name, str) or not isinstance(made, Method):
        raise TypeError(f"a method is a name, or a pair of a name and a Method; got {item!r}")
    return name, made
