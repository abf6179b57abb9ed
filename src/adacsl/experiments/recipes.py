"""Methods as rows of one table: resample x loss x adapt x decide x cross-fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from adacsl.core.control import Update
from adacsl.core.partitions import EqualWidth, Partition, Whole
from adacsl.core.thresholds import check_caution

Resample = Literal["oversample", "undersample", "smote"]
Loss = Literal["plain", "weighted", "focal", "logit-adjusted", "shifted"]
Decide = Literal["half", "bayes", "tuned", "calibrated", "negative", "positive", "raw"]
Select = Literal["best", "last"]
Target = float | Literal["bayes", "middle"]

LEARNERS = ("net", "boosting", "metacost", "constant")


@dataclass(frozen=True)
class Recipe:
    """A method: what is learned from, with which loss, adapted or not, and how decisions are made in the end.

    Parameters
    ----------
    name : str
        As it appears in tables and file names.
    title : str
        One line for people.
    learner : {"net", "boosting", "metacost", "constant"} or estimator
        The default net for tables or images; scikit-learn's histogram boosting; MetaCost around it; no learning; or any
        scikit-learn classifier with ``predict_proba``, for tables.
    resample : {None, "oversample", "undersample", "smote"}
        Train on balanced classes. The probabilities are corrected for it before anything is decided.
    loss : {"plain", "weighted", "focal", "logit-adjusted", "shifted"}
        Cross-entropy; weighted by the costs; the weighted focal loss; shifted by the odds of the Bayes threshold; or
        the paper's threshold adjustment, which trains through the shifted probabilities
        (:func:`~adacsl.experiments.nets.shifted_loss`). Estimators know "plain" and "weighted" (``sample_weight``).
    adapt : Partition, optional
        AdaCSL: steer the weight by the validation data in these subgroups, e.g. ``Whole()``. Needs ``loss="weighted"``.
    decide : {"half", "bayes", "tuned", "calibrated", "negative", "positive", "raw"}
        At 0.5 whatever the costs; at the Bayes threshold (of each row where rows have costs of their own); at the
        cheapest threshold of the validation data; at the Bayes threshold after calibration on the validation data;
        always the same; or at 0.5 of the net's own output, not corrected for resampling or weights.
    crossfit : int, default 0
        Average this many nets, each adapted and selected on a fold it did not train on.
    target : float, "bayes" or "middle", default 0.5
        T', the threshold that a weighted loss makes right for the net's own output: a number, the Bayes threshold T, or
        the geometric middle of the odds of T and 0.5. Scores are corrected so that T' maps to T.
    select : {"best", "last"}
        The epoch that was cheapest on validation data, or the last one: two uses of the same training.
    update : {"auto", "exponential", "odds"}
        How lambda is stepped (:class:`~adacsl.AdaptiveWeight`); "auto" is the default for that kind of data.
    damping : "auto" or float
        Exponent of lambda's steps.
    caution : float, default 0
        Standard errors by which a threshold must be cheaper before lambda follows it.
    every : int, optional
        Adapt after so many batches instead of once per epoch.

    Examples
    --------
    >>> Recipe("focal-cv", "focal loss, cross-fitted", loss="focal", decide="tuned", crossfit=5).name
    'focal-cv'
    """

    name: str
    title: str = ""
    learner: Any = "net"
    resample: Resample | None = None
    loss: Loss = "plain"
    adapt: Partition | None = None
    decide: Decide = "bayes"
    crossfit: int = 0
    target: Target = 0.5
    select: Select = "best"
    update: Literal["auto"] | Update = "auto"
    damping: Literal["auto"] | float = "auto"
    caution: float = 0.0
    every: int | None = None

    def __post_init__(self) -> None:
        if not self.name or any(c in self.name for c in "\n\r\t,"):
            raise ValueError(f"a recipe needs a name without commas and line breaks, got {self.name!r}")
        for field, known in _CHOICES.items():
            if getattr(self, field) not in known:
                raise ValueError(f"{field} must be one of {', '.join(known)}, got {getattr(self, field)!r}")
        if self.resample not in (None, *get_args(Resample)):
            raise ValueError(f"resample must be None or one of {', '.join(get_args(Resample))}, got {self.resample!r}")
        if isinstance(self.learner, str) and self.learner not in LEARNERS:
            raise ValueError(f"learner must be one of {', '.join(LEARNERS)} or an estimator, got {self.learner!r}")
        if not isinstance(self.learner, str) and not hasattr(self.learner, "predict_proba"):
            raise TypeError(f"recipe {self.name!r}: {self.learner!r} has no predict_proba, which costs need")
        self._check_steering()
        self._check_combination()

    def _check_steering(self) -> None:
        named = self.target in ("bayes", "middle")
        if not named and (isinstance(self.target, str) or not 0.0 < self.target < 1.0):
            raise ValueError(f"target must be 'bayes', 'middle' or a number between 0 and 1, got {self.target!r}")
        if self.damping != "auto" and (isinstance(self.damping, str) or not 0.0 < self.damping < float("inf")):
            raise ValueError(f"damping must be 'auto' or a positive number, got {self.damping!r}")
        if self.every is not None and self.every < 1:
            raise ValueError(f"every must be None or a number of batches from 1, got {self.every!r}")
        if self.target != 0.5 and self.loss not in ("weighted", "focal"):
            raise ValueError(f"recipe {self.name!r}: target is for losses with a weight, 'weighted' and 'focal'")
        check_caution(self.caution)
        steering = (self.update, self.damping, self.caution, self.every) != ("auto", "auto", 0.0, None)
        if steering and self.adapt is None:
            raise ValueError(
                f"recipe {self.name!r}: update, damping, caution and every say how to adapt, but adapt is None"
            )

    def _check_combination(self) -> None:
        if self.adapt is not None and (self.loss != "weighted" or self.resample is not None):
            raise ValueError(
                f"recipe {self.name!r}: adapt steers a weight, so it needs loss='weighted' and no resample"
            )
        if self.resample is not None and self.loss != "plain":
            raise ValueError(f"recipe {self.name!r}: resample={self.resample!r} goes with loss='plain'")
        if self.learner != "net" and (
            self.resample or self.adapt or self.crossfit or self.loss not in ("plain", "weighted")
        ):
            raise ValueError(
                f"recipe {self.name!r}: resample, adapt, crossfit, focal, logit-adjusted and shifted are for "
                "learner='net'; put such steps inside the estimator"
            )
        if self.learner != "net" and (self.target != 0.5 or self.select != "best" or self.decide == "raw"):
            raise ValueError(f"recipe {self.name!r}: target, select and decide='raw' are for learner='net'")
        if self.resample == "smote" and self.crossfit:
            raise ValueError(
                f"recipe {self.name!r}: SMOTE mixes training rows, some of which a cross-fit holds out; "
                "take resample='oversample', or crossfit=0"
            )
        if (self.decide in ("negative", "positive")) != (self.learner == "constant"):
            raise ValueError(f"recipe {self.name!r}: decide='negative' and 'positive' go with learner='constant'")
        if self.crossfit == 1 or self.crossfit < 0:
            raise ValueError(f"recipe {self.name!r}: crossfit must be 0 or at least 2 folds, got {self.crossfit}")

    @property
    def tables_only(self) -> bool:
        """Whether it cannot be run on images."""
        return self.learner not in ("net", "constant")

    @property
    def needs_costs_to_train(self) -> bool:
        """Whether a training serves one cost ratio only."""
        return self.loss != "plain"


_CHOICES = {
    "loss": get_args(Loss),
    "decide": get_args(Decide),
    "select": get_args(Select),
    "update": ("auto", *get_args(Update)),
}


def _table(*recipes: Recipe) -> dict[str, Recipe]:
    return {recipe.name: recipe for recipe in recipes}


RECIPES: Mapping[str, Recipe] = _table(
    Recipe("always-negative", "no model: call everything negative", learner="constant", decide="negative"),
    Recipe("always-positive", "no model: call everything positive", learner="constant", decide="positive"),
    Recipe("ce-bayes", "cross-entropy, Bayes threshold"),
    Recipe("ce", "cross-entropy, decided at 0.5: blind to costs", decide="half"),
    Recipe("ce-tuned", "cross-entropy, threshold tuned on validation data", decide="tuned"),
    Recipe("ce-calibrated", "cross-entropy, calibrated on validation data, Bayes threshold", decide="calibrated"),
    Recipe("oversample", "classes balanced by repeating positives, corrected, Bayes threshold", resample="oversample"),
    Recipe("undersample", "classes balanced by dropping negatives, corrected, Bayes threshold", resample="undersample"),
    Recipe("smote", "classes balanced by SMOTE, corrected, Bayes threshold", resample="smote"),
    Recipe("wce", "cross-entropy weighted by the costs", loss="weighted"),
    Recipe("wce-tuned", "weighted cross-entropy, tuned threshold", loss="weighted", decide="tuned"),
    Recipe("focal", "weighted focal loss, tuned threshold", loss="focal", decide="tuned"),
    Recipe("logit-adjusted", "logits shifted by the odds of the Bayes threshold", loss="logit-adjusted"),
    Recipe("gbm-bayes", "gradient boosting, Bayes threshold", learner="boosting"),
    Recipe("gbm-tuned", "gradient boosting, threshold tuned out of fold", learner="boosting", decide="tuned"),
    Recipe("gbm-weighted", "gradient boosting weighted by the costs", learner="boosting", loss="weighted"),
    Recipe("metacost", "MetaCost: relabelled by bagged boosting, learned again", learner="metacost", decide="half"),
    Recipe("adacsl", "AdaCSL: the weight steered by validation cost", loss="weighted", adapt=Whole()),
    Recipe("adacsl-bins", "AdaCSL, ten subgroups", loss="weighted", adapt=EqualWidth(10)),
    Recipe("adacsl-cv", "AdaCSL, five cross-fitted nets", loss="weighted", adapt=Whole(), crossfit=5),
)  # fmt: skip
"""The built-in methods, simplest first: of methods that cannot be told apart, a verdict takes the first.

``ce`` needs no less than ``ce-bayes``, the same net and a threshold; being blind to costs is no simplicity.
"""


def choose_recipes(methods: Iterable[str | Recipe] | None = None, *, images: bool = False) -> dict[str, Recipe]:
    """Return recipes by name; None means all that fit the data.

    Examples
    --------
    >>> list(choose_recipes(["wce", Recipe("mine", decide="tuned")]))
    ['wce', 'mine']
    """
    if methods is None:
        return {name: recipe for name, recipe in RECIPES.items() if not (images and recipe.tables_only)}
    if isinstance(methods, str):
        methods = [methods]
    chosen: dict[str, Recipe] = {}
    for method in methods:
        recipe = method if isinstance(method, Recipe) else RECIPES.get(method)
        if recipe is None:
            raise ValueError(f"there is no method {method!r}; known: {', '.join(RECIPES)}")
        if recipe.name in chosen:
            raise ValueError(f"method {recipe.name!r} is named twice")
        if images and recipe.tables_only:
            raise ValueError(f"method {recipe.name!r} is for tables, but the data are images")
        chosen[recipe.name] = recipe
    if not chosen:
        raise ValueError("no methods to compare; leave methods out to take all")
    return chosen
