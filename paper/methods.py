"""The two ways to run the paper's experiments: as published, and as one would today; and the data they run on."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adacsl.core.costs import CostMatrix
from adacsl.core.partitions import EqualWidth, Quantile, Whole
from adacsl.datasets.builtin import DATASETS as ARCHIVES
from adacsl.datasets.builtin import data_folder, load_dataset
from adacsl.datasets.errors import DataError, did_you_mean, listed
from adacsl.datasets.paper import PAPER
from adacsl.datasets.task import Task
from adacsl.experiments.protocol import Protocol
from adacsl.experiments.recipes import RECIPES, Recipe
from adacsl.extras import requires

with requires("compare"):
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

WEIGHTS = "resnet18_imagenet_fp16.safetensors"
"""The file of the pretrained backbone, looked for in the data folder."""


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

    def for_source(self, source: Source, *, weights: str | None, device: str) -> Protocol:
        """Return the protocol for one data set: pictures without up and down are turned too, where any are."""
        rotate = self.protocol.augment and not source.upright
        return replace(self.protocol, rotate=rotate, weights=weights, device=device)


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


# data


@dataclass(frozen=True)
class Source:
    """One of the paper's data sets, and where it may lie in a data folder.

    Parameters
    ----------
    name : str
        As in the paper.
    known : str
        Its key in :data:`adacsl.datasets.paper.PAPER`.
    archive : str, optional
        The built-in data set that holds it in one file.
    folders : tuple of str
        Names of folders with the distributed files.
    upright : bool
        Whether pictures have an up and a down.
    aliases : tuple of str
        Other names for the command line.
    """

    name: str
    known: str
    archive: str | None
    folders: tuple[str, ...]
    upright: bool
    aliases: tuple[str, ...] = ()

    def place(self, folder: Path | None) -> Path | None:
        """Return the file or folder that holds the data, if there is one."""
        if folder is None:
            return None
        file = None if self.archive is None else ARCHIVES[self.archive].file
        places = [folder / name for name in (*((file,) if file else ()), *self.folders)]
        return next((place for place in places if place.exists()), None)

    def load(self, folder: str | os.PathLike[str] | None) -> Task:
        """Read the data as a task called ``name``, with inverse class frequencies as costs."""
        here = data_folder(folder)
        place = self.place(here)
        published, reader = PAPER[self.known]
        if place is None:
            file = "" if self.archive is None else f"the file {ARCHIVES[self.archive].file}, or "
            where = f"there is no {self.name} in {here}" if here else f"{self.name} needs a folder of data, --data DIR"
            raise DataError(
                f"{where}: expected {file}a folder {self.folders[0]} with {published.layout}; get it from "
                f"{published.source}"
            )
        if place.is_file() and self.archive is not None:
            task = load_dataset(self.archive, folder=here)
        else:
            options = {"per_class": 960} if self.known == "rffd" else {}
            task = reader(place, **options)
        return replace(task, name=self.name, costs=CostMatrix.balanced(task.y))


SOURCES = {
    source.name: source
    for source in (
        Source("HAM10K", "ham10k", "ham10000", ("ham10k", "HAM10000", "ham10000"), False, ("ham10000",)),
        Source("IDC", "idc", None, ("idc", "IDC", "IDC_regular_ps50_idx5"), False),
        Source("RFFD", "rffd", None, ("rffd", "RFFD", "real_and_fake_face"), True),
        Source("PV-D", "pv-d", "plantvillage", ("pv-d", "pvd", "PlantVillage"), True, ("pvd", "plantvillage")),
    )
}
WOLF_DOG = Source("wolf-dog", "wolf-dog", None, ("wolf-dog", "wolf_dog"), True)


def find_source(name: str) -> Source:
    """Return a data set of the paper by name; case does not count."""
    for source in SOURCES.values():
        if name.lower() in (source.name.lower(), *source.aliases):
            return source
    known = [source.name.lower() for source in SOURCES.values()]
    raise DataError(f"the paper has no data set {name!r}{did_you_mean(name.lower(), known)} (it has {listed(known)})")


def present_sources(folder: str | os.PathLike[str] | None) -> list[Source]:
    """Return the paper's data sets that are in a folder."""
    here = data_folder(folder)
    return [source for source in SOURCES.values() if source.place(here) is not None]


def find_weights(weights: str | os.PathLike[str] | None, folder: str | os.PathLike[str] | None) -> str | None:
    """Return the file of the pretrained backbone: the one named, or the one in the data folder."""
    if weights is not None:
        if not Path(weights).is_file():
            raise DataError(f"there is no file {weights} of weights: give the ImageNet weights of a ResNet-18")
        return str(weights)
    here = data_folder(folder)
    return str(here / WEIGHTS) if here is not None and (here / WEIGHTS).is_file() else None


# a task small enough for a test


def quick_task(source: Source | None, folder: str | os.PathLike[str] | None, *, rows: int = 120) -> Task:
    """Return a few hundred pictures: a part of a data set, or made-up ones where none is given."""
    if source is None:
        return made_task(rows)
    task = source.load(folder)
    rng = np.random.default_rng(0)
    share = max(rows // 5, round(rows * float(task.y.mean())))  # positives enough for every split
    chosen = [
        rng.permutation(np.flatnonzero(task.y == label))[:count] for label, count in ((0, rows - share), (1, share))
    ]
    kept = np.sort(np.concatenate(chosen))
    groups = None if task.groups is None else task.groups[kept]
    return Task(task.name, task.X[kept], task.y[kept], CostMatrix.balanced(task.y[kept]), groups, task.classes)


def made_task(rows: int = 120, *, side: int = 16) -> Task:
    """Return made-up pictures: noise, with a bright spot in most of the positives and some of the negatives."""
    rng = np.random.default_rng(0)
    y = (np.arange(rows) % 4 == 0).astype(np.int64)
    pixels = rng.normal(90.0, 30.0, (rows, side, side, 3))
    spot = rng.random(rows) < np.where(y == 1, 0.9, 0.15)
    top, left = rng.integers(0, side - 8, (2, rows))
    for row in np.flatnonzero(spot):
        pixels[row, top[row] : top[row] + 8, left[row] : left[row] + 8] += 110.0
    images = pixels.clip(0, 255).astype(np.uint8)
    return Task("made-up", images, y, CostMatrix.balanced(y), groups=np.arange(rows) // 2, source="made up")


__all__ = [
    "ABLATIONS",
    "CHOICES",
    "DEFAULT_PROFILES",
    "FEATURE_RECIPES",
    "MODERN_RECIPES",
    "PAPER_RECIPES",
    "PROFILES",
    "SOURCES",
    "VALIDATION_SHARES",
    "WOLF_DOG",
    "Choice",
    "Profile",
    "Source",
    "find_source",
    "find_weights",
    "made_task",
    "present_sources",
    "quick_task",
    "validation_recipes",
]
