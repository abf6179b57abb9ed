"""The paper's methods and how their nets are trained: as published, and as one would today.

With ``engine.py`` the only module here that knows how adacsl writes a method down.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from adacsl import RECIPES, EqualWidth, Quantile, Recipe, Whole
from adacsl.experiments.protocol import Protocol

SECONDS_PER_EPOCH = 1.5 / 15
"""Of an H200 for one epoch of ResNet-18 over 10,000 pictures of 64 x 64, twelve nets side by side: 15 take 1.5 s."""


# methods


def _adacsl(name: str, title: str, **settings: Any) -> Recipe:
    usual: dict[str, Any] = {"loss": "weighted", "adapt": Whole()}
    return Recipe(name, title, **(usual | settings))


PAPER_RECIPES = (
    replace(RECIPES["ce"], title="CNN: cross-entropy, decided at 0.5"),
    Recipe("ta", "CNN w/ TA: trained through probabilities shifted by the threshold", loss="shifted"),
    Recipe("smote", "CNN w/ SMOTE: in pixels, batch by batch, decided at 0.5", resample="smote", decide="raw"),
    replace(RECIPES["wce"], title="CNN w/ WCE: cross-entropy weighted by the costs"),
    replace(RECIPES["adacsl"], title="CNN w/ AdaCSL: the weight steered by validation cost"),
)
"""The five methods of Table 2. The nets that weigh or shift are decided at 0.5 of what they were trained for."""

MODERN_RECIPES = (
    *(RECIPES[name] for name in ("ce-bayes", "ce-tuned", "ce-calibrated", "wce", "wce-tuned", "focal", "adacsl")),
    _adacsl("adacsl-target-bayes", "AdaCSL, T' = T", target="bayes"),
    _adacsl("adacsl-target-middle", "AdaCSL, T' in the middle of the odds of T and 0.5", target="middle"),
    Recipe("ce-bayes-last", "cross-entropy, Bayes threshold, last epoch", select="last"),
    Recipe("wce-last", "weighted cross-entropy, last epoch", loss="weighted", select="last"),
    _adacsl("adacsl-last", "AdaCSL, last epoch", select="last"),
    Recipe("ce-bayes-cv", "cross-entropy, Bayes threshold, five cross-fitted nets", crossfit=5),
    Recipe("ce-tuned-cv", "cross-entropy, threshold tuned out of fold, five nets", decide="tuned", crossfit=5),
    Recipe("wce-cv", "weighted cross-entropy, five cross-fitted nets", loss="weighted", crossfit=5),
    RECIPES["adacsl-cv"],
    _adacsl("adacsl-cv-target-middle", "AdaCSL, T' in the middle, five cross-fitted nets", target="middle", crossfit=5),
    _adacsl("adacsl-cv-target-bayes", "AdaCSL, T' = T, five cross-fitted nets", target="bayes", crossfit=5),
    _adacsl(
        "adacsl-cv-target-bayes-cautious",
        "AdaCSL, T' = T, caution 2, five cross-fitted nets",
        target="bayes",
        crossfit=5,
        caution=2.0,
        update="odds",
    ),
    _adacsl("adacsl-cv-last", "AdaCSL, five cross-fitted nets, last epochs", crossfit=5, select="last"),
)
"""Baselines that are no straw men. What differs only in deciding or selecting shares its nets."""

FEATURE_RECIPES = (
    Recipe(
        "linear-bayes", "logistic regression on ImageNet features, Bayes threshold",
        learner=GridSearchCV(LogisticRegression(max_iter=1000), {"C": [1e-3, 1e-2, 1e-1]}, scoring="neg_log_loss"),
    ),
    Recipe("gbm-bayes", "gradient boosting on ImageNet features, Bayes threshold", learner="boosting"),
    Recipe("gbm-tuned", "gradient boosting on ImageNet features, tuned", learner="boosting", decide="tuned"),
)  # fmt: skip
"""What needs columns gets the features of the net before any training on these pictures."""


class Choice(NamedTuple):
    """A method that trains nothing: it takes whichever of some others was cheapest on validation (held-out) rows."""

    name: str
    title: str
    among: tuple[str, ...]


CHOICES = (
    Choice(
        "adacsl-auto",
        "AdaCSL, T' chosen by validation cost",
        ("adacsl", "adacsl-target-middle", "adacsl-target-bayes"),
    ),
    Choice(
        "adacsl-cv-auto",
        "AdaCSL, five cross-fitted nets, T' chosen by out-of-fold cost",
        ("adacsl-cv", "adacsl-cv-target-middle", "adacsl-cv-target-bayes"),
    ),
)
"""``AdaCSLClassifier(target="auto")``, from nets that are trained anyway. Of equals the first is taken."""

ABLATIONS: dict[str, tuple[Recipe, ...]] = {
    "target": (_adacsl("adacsl-target-0.7", "AdaCSL, T' = 0.7", target=0.7),),
    "partition": (
        _adacsl("adacsl-bins", "AdaCSL, ten bins of equal width", adapt=EqualWidth(10)),
        _adacsl("adacsl-quantiles", "AdaCSL, ten bins of equal size", adapt=Quantile(10)),
    ),
    "update": (_adacsl("adacsl-odds", "AdaCSL, exact odds ratio", update="odds"),),
    "damping": (_adacsl("adacsl-damping-0.3", "AdaCSL, damping 0.3", damping=0.3),),
    "caution": (_adacsl("adacsl-cautious", "AdaCSL, caution 2, exact odds ratio", caution=2.0, update="odds"),),
    "every": (_adacsl("adacsl-every-25", "AdaCSL, adapted every 25 batches", every=25),),
}
"""Variants of AdaCSL by the question they answer; the reference, other targets and last epochs are in Table 2."""

VALIDATION_SHARES = (0.02, 0.05, 0.10)


def validation_recipes(share: float) -> tuple[Recipe, ...]:
    """Return the methods that look at validation data, named after a share of the rows other than 0.15."""
    names = ("ce-bayes", "ce-tuned", "adacsl")
    return tuple(replace(RECIPES[name], name=f"{name}-validation-{share:g}") for name in names)


# profiles


@dataclass(frozen=True)
class Profile:
    """How nets are trained, and which methods are compared.

    Parameters
    ----------
    name, title : str
    recipes : tuple of Recipe
    splits : tuple of str
        "random": pictures are drawn one by one; "group": pictures of one lesion, leaf or patient stay together.
    protocol : Protocol
        Without weights, device and what depends on the data.
    feature_recipes : tuple of Recipe
        Methods for tables, which get features of the pictures.
    choices : tuple of Choice
        Methods that choose among others.
    """

    name: str
    title: str
    recipes: tuple[Recipe, ...]
    splits: tuple[str, ...]
    protocol: Protocol
    feature_recipes: tuple[Recipe, ...] = ()
    choices: tuple[Choice, ...] = ()

    @property
    def methods(self) -> list[str]:
        """All methods, in order; a choice follows what it chooses among."""
        names = [recipe.name for recipe in self.recipes]
        for choice in self.choices:
            names.insert(1 + max(names.index(name) for name in choice.among), choice.name)
        return names + [recipe.name for recipe in self.feature_recipes]

    def conditions(self, *, upright: bool, weights: str | None, device: str) -> Protocol:
        """Return the protocol for one data set: pictures without up and down are turned too, where any are."""
        return replace(self.protocol, rotate=self.protocol.augment and not upright, weights=weights, device=device)


_PAPER = Profile(
    "paper",
    "as published: ResNet-18 of ImageNet, 50 x 50, plain SGD, 20 epochs",
    PAPER_RECIPES,
    ("random",),
    Protocol(
        epochs=20, batch_size=64, lr=0.01, weight_decay=0.01, optimizer="plain-sgd", schedule="constant",
        augment=False, image_size=50,
    ),
)  # fmt: skip
_MODERN = Profile(
    "modern",
    "as one would today: 64 x 64, augmentation, AdamW, warm-up and cosine, 15 epochs",
    MODERN_RECIPES,
    ("random", "group"),
    Protocol(
        epochs=15, batch_size=128, lr=4e-4, weight_decay=0.05, optimizer="adamw", schedule="cosine",
        augment=True, image_size=64,
    ),
    FEATURE_RECIPES,
    CHOICES,
)  # fmt: skip
_FOUR_VIEWS = replace(
    _MODERN,
    name="four-views",
    title="as modern, and every score is the mean over the picture's four flips",
    protocol=replace(_MODERN.protocol, views=4),
    feature_recipes=(),
)
_ENLARGED = replace(
    _FOUR_VIEWS,
    name="enlarged",
    title="as four-views, pictures enlarged to 128 x 128, nearer to the size that the backbone was made for",
    protocol=replace(_FOUR_VIEWS.protocol, image_size=128),
)
PROFILES = {profile.name: profile for profile in (_PAPER, _MODERN, _FOUR_VIEWS, _ENLARGED)}
DEFAULT_PROFILES = ("paper", "modern")


def all_recipes() -> list[Recipe]:
    """Return every method of every part."""
    found = [recipe for profile in PROFILES.values() for recipe in (*profile.recipes, *profile.feature_recipes)]
    found += [recipe for recipes in ABLATIONS.values() for recipe in recipes]
    return found + [recipe for share in VALIDATION_SHARES for recipe in validation_recipes(share)]


def quick_recipe(recipe: Recipe) -> Recipe:
    """Return a method with two folds at most, and the weight adapted after every second batch where it is at all."""
    return replace(recipe, crossfit=2 if recipe.crossfit else 0, every=None if recipe.every is None else 2)


def quick_protocol(protocol: Protocol) -> Protocol:
    """Return conditions with few epochs and pixels, and nets that start from nothing."""
    return replace(protocol, epochs=2, batch_size=32, image_size=16, weights=None)


def protocol_identity(protocol: Protocol) -> dict[str, Any]:
    """Return what results depend on; weights are the same wherever they lie."""
    return protocol.identity() | {"weights": None if protocol.weights is None else Path(protocol.weights).name}


def net_seconds(protocol: Protocol, rows: int) -> float:
    """Return how long an H200 with twelve nets side by side takes for one of them."""
    pixels = ((protocol.image_size or 64) / 64) ** 2
    return int(protocol.epochs) * SECONDS_PER_EPOCH * rows / 10_000 * max(1.0, pixels)


__all__ = [
    "ABLATIONS",
    "CHOICES",
    "DEFAULT_PROFILES",
    "FEATURE_RECIPES",
    "MODERN_RECIPES",
    "PAPER_RECIPES",
    "PROFILES",
    "VALIDATION_SHARES",
    "Choice",
    "Profile",
    "Protocol",
    "Recipe",
    "all_recipes",
    "net_seconds",
    "protocol_identity",
    "quick_protocol",
    "quick_recipe",
    "validation_recipes",
]
