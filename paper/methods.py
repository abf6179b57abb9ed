"""The paper's methods and how their networks are trained: as published, and as is usual today."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from torch import Tensor
from torch.nn import functional as F

from adacsl import CostMatrix, CostSensitiveClassifier, Task, method
from adacsl.adaptive import QuantileBins, UniformBins
from adacsl.comparison.protocol import Protocol
from adacsl.neural import NeuralLearner
from adacsl.torch.augmentation import Augment

SECONDS_PER_EPOCH = 1.5 / 15
"""Of an H200 for one epoch of ResNet-18 over 10,000 images of 64 x 64, twelve networks side by side: 15 take 1.5 s."""

Methods = Mapping[str, CostSensitiveClassifier]


# methods


def shifted_loss(logits: Tensor, labels: Tensor, costs: CostMatrix) -> Tensor:
    r"""Return the loss of the paper's threshold adjustment (TA) for each row, as its published notebook has it.

    The probability is shifted so that the Bayes threshold T becomes 0.5, and trained through the shift. The shifted
    probabilities go to a loss that applies a softmax to them again, so it never sees a logit outside [-1, 1]:

    .. math:: p' = \frac{p}{p + \frac{T}{1 - T} (1 - p)}, \qquad
       L = \mathrm{CE}(\mathrm{softmax}(1 - p', p'), y) = \mathrm{BCE}(\sigma(2 p' - 1), y)
    """
    threshold = float(costs.threshold)
    shift = math.log(threshold) - math.log1p(-threshold)
    shifted = 2.0 * torch.sigmoid(logits - shift) - 1.0
    return F.binary_cross_entropy_with_logits(shifted, labels, reduction="none")


_adacsl = functools.partial(method, "adacsl")

PAPER_METHODS: Methods = {
    "net": method("net"),
    "ta": CostSensitiveClassifier(loss=shifted_loss),
    "net-smote": CostSensitiveClassifier(resample="smote", decide="raw"),  # in pixels, batch by batch, decided at 0.5
    "net-weighted": method("net-weighted"),
    "adacsl": method("adacsl"),
}
"""The five methods of Table 2. Networks whose loss weighs or shifts predict at threshold 0.5 of their output."""

_BUILT_IN = ("net-bayes", "net-tuned", "net-calibrated", "net-weighted", "net-weighted-tuned", "net-focal", "adacsl")
MODERN_METHODS: Methods = {
    **{
        name: method(name)
        for name in (
            "net-bayes",
            "net-tuned",
            "net-calibrated",
            "net-weighted",
            "net-weighted-tuned",
            "net-focal",
            "adacsl",
        )
    },
    "adacsl-target-bayes": _adacsl(target_threshold="bayes"),
    "adacsl-target-middle": _adacsl(target_threshold="middle"),
    "net-bayes-last": method("net-bayes", select="last"),
    "net-weighted-last": method("net-weighted", select="last"),
    "adacsl-last": _adacsl(select="last"),
    "net-bayes-cv": method("net-bayes", cv=5),
    "net-tuned-cv": method("net-tuned", cv=5),
    "net-weighted-cv": method("net-weighted", cv=5),
    "adacsl-cv": method("adacsl-cv"),
    "adacsl-cv-target-middle": _adacsl(target_threshold="middle", cv=5),
    "adacsl-cv-target-bayes": _adacsl(target_threshold="bayes", cv=5),
    "adacsl-cv-target-bayes-cautious": _adacsl(
        target_threshold="bayes", cv=5, controller={"n_standard_errors": 2.0, "update": "odds"}
    ),
    "adacsl-cv-last": _adacsl(cv=5, select="last"),
}
"""Strong baselines. Methods that differ only in the decision rule or selection share their networks."""

_LINEAR = GridSearchCV(LogisticRegression(max_iter=1000), {"C": [1e-3, 1e-2, 1e-1]}, scoring="neg_log_loss")
FEATURE_METHODS: Methods = {
    "linear-bayes": CostSensitiveClassifier(learner=_LINEAR),
    "gbm-bayes": method("gbm-bayes"),
    "gbm-tuned": method("gbm-tuned"),
}
"""What needs columns gets the features of the network before any training on these images."""


class Choice(NamedTuple):
    """A method that trains nothing: it takes the one of least validation (held-out) cost."""

    name: str
    among: tuple[str, ...]


CHOICES = (
    Choice("adacsl-auto", ("adacsl", "adacsl-target-middle", "adacsl-target-bayes")),
    Choice("adacsl-cv-auto", ("adacsl-cv", "adacsl-cv-target-middle", "adacsl-cv-target-bayes")),
)
"""``AdaCSLClassifier(target_threshold="auto")``, from networks that are trained anyway. Of equals the first is taken.

As it was when the results were published: not adapting (``net-bayes``) has been a candidate since, and is none here, so
that new rows stay comparable with those."""

ABLATIONS: Mapping[str, Methods] = {
    "target": {"adacsl-target-0.7": _adacsl(target_threshold=0.7)},
    "partition": {
        "adacsl-bins": _adacsl(controller={"partition": UniformBins(10)}),
        "adacsl-quantiles": _adacsl(controller={"partition": QuantileBins(10)}),
    },
    "update": {"adacsl-odds": _adacsl(controller={"update": "odds"})},
    "damping": {"adacsl-damping-0.3": _adacsl(controller={"damping": 0.3})},
    "n_standard_errors": {"adacsl-cautious": _adacsl(controller={"n_standard_errors": 2.0, "update": "odds"})},
    "every": {"adacsl-every-25": _adacsl(learner=NeuralLearner(every=25))},
}
"""Variants of AdaCSL by the question they answer; the reference, other targets and last epochs are in Table 2."""

VALIDATION_SHARES = (0.02, 0.05, 0.10)


def validation_methods(share: float) -> Methods:
    """Return the methods that look at validation data, named after a share of the samples other than 0.15."""
    return {f"{name}-validation-{share:g}": method(name) for name in ("net-bayes", "net-tuned", "adacsl")}


# profiles


@dataclass(frozen=True)
class LeaveOneGroupOut(Protocol):
    """Each split tests on all samples of one group, in the order of their names; the others train and validate."""

    def split(self, task: Task, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return training and test samples: those of the group with the number ``seed`` are tested."""
        groups = np.asarray(task.groups)
        tested = groups == np.unique(groups)[seed]
        return np.flatnonzero(~tested), np.flatnonzero(tested)

    def identity(self) -> dict[str, Any]:
        """Return the settings that results depend on."""
        return super().identity() | {"test": "one group"}


@dataclass(frozen=True)
class Profile:
    """How networks are trained, and which methods are compared.

    Parameters
    ----------
    name : str
    methods : mapping
        Methods by name.
    splits : tuple of str
        "random": images are drawn one by one; "group": images of one lesion, leaf or patient stay together; "patient":
        each split tests on all images of one patient.
    neural : NeuralLearner
        Settings of the networks, without weights and what depends on the data.
    feature_methods : mapping
        Methods for tables, which get features of the images.
    choices : tuple of Choice
        Methods that choose among others.
    """

    name: str
    methods: Methods
    splits: tuple[str, ...]
    neural: NeuralLearner
    feature_methods: Methods
    choices: tuple[Choice, ...]

    @property
    def order(self) -> list[str]:
        """The names of all methods, in order; a choice follows what it chooses among."""
        names = list(self.methods)
        for choice in self.choices:
            names.insert(1 + max(names.index(name) for name in choice.among), choice.name)
        return names + list(self.feature_methods)

    def conditions(self, *, upright: bool, weights: str | None, device: str, split: str = "random") -> Protocol:
        """Return the protocol for one data set: images without up and down are turned too, where any are."""
        turned = {"augment": Augment(rotate=True)} if self.neural.augment and not upright else {}
        kind = LeaveOneGroupOut if split == "patient" else Protocol
        return kind(neural=_changed(self.neural, **turned, weights=weights), device=device)


def _changed(neural: NeuralLearner, **settings: Any) -> NeuralLearner:
    """Return settings of networks, some of which differ."""
    other: NeuralLearner = copy.copy(neural).set_params(**settings)
    return other


_PAPER = Profile(
    "paper",
    PAPER_METHODS,
    ("random", "patient"),
    NeuralLearner(
        epochs=20, batch_size=64, learning_rate=0.01, schedule="constant", augment=False, image_size=50,
        optimizer=functools.partial(torch.optim.SGD, weight_decay=0.01),
    ),
    {},
    (),
)  # fmt: skip
_MODERN = Profile(
    "modern",
    MODERN_METHODS,
    ("random", "group", "patient"),
    NeuralLearner(
        epochs=15, batch_size=128, learning_rate=4e-4, weight_decay=0.05, optimizer="adamw", image_size=64
    ),
    FEATURE_METHODS,
    CHOICES,
)  # fmt: skip
_FOUR_VIEWS = replace(_MODERN, name="four-views", neural=_changed(_MODERN.neural, views=4), feature_methods={})
_ENLARGED = replace(_FOUR_VIEWS, name="enlarged", neural=_changed(_FOUR_VIEWS.neural, image_size=128))
_MODERN_128 = replace(_MODERN, name="modern-128", neural=_changed(_MODERN.neural, image_size=128))
PROFILES = {profile.name: profile for profile in (_PAPER, _MODERN, _MODERN_128, _FOUR_VIEWS, _ENLARGED)}
"""As published; as is usual today, with images of 64 x 64 or of 128 x 128; as modern, and every score is the mean over
the image's four flips; as four-views, with images enlarged, nearer to the size that the backbone was made for."""
DEFAULT_PROFILES = ("paper", "modern")


def all_names() -> set[str]:
    """Return the names of all methods of all parts."""
    tables: list[Methods] = [*ABLATIONS.values(), *map(validation_methods, VALIDATION_SHARES)]
    return {*(name for profile in PROFILES.values() for name in profile.order), *(n for t in tables for n in t)}


def under(made: CostSensitiveClassifier, protocol: Protocol) -> CostSensitiveClassifier:
    """Return a method whose own network, if it has one, is trained by the protocol's settings too."""
    if not isinstance(made.learner, NeuralLearner):
        return made
    fresh: CostSensitiveClassifier = clone(made)
    return fresh.set_params(learner=_changed(protocol.neural, every=made.learner.every))


def with_folds(made: CostSensitiveClassifier, most: int) -> CostSensitiveClassifier:
    """Return a method that is cross-fitted in at most so many folds, if it is cross-fitted at all."""
    fresh: CostSensitiveClassifier = clone(made)
    return fresh.set_params(cv=min(made.cv, most)) if isinstance(made.cv, int) else made


def quick_method(made: CostSensitiveClassifier) -> CostSensitiveClassifier:
    """Return a method with two folds at most, and the weight adapted after every second batch where it is at all."""
    own = {"learner": NeuralLearner(every=2)} if isinstance(made.learner, NeuralLearner) else {}
    fresh: CostSensitiveClassifier = clone(made)
    return fresh.set_params(cv=2 if made.cv else None, **own)


def quick_protocol(protocol: Protocol) -> Protocol:
    """Return conditions with few epochs and pixels, and networks without pretrained weights."""
    few = _changed(protocol.neural, epochs=2, batch_size=32, image_size=16, weights=None)
    return replace(protocol, neural=few)


def protocol_identity(protocol: Protocol) -> dict[str, Any]:
    """Return what results depend on; weights are the same wherever they lie."""
    weights = protocol.neural.weights
    named = _changed(protocol.neural, weights=None if weights is None else Path(weights).name)
    return replace(protocol, neural=named).identity()


def net_seconds(protocol: Protocol, samples: int) -> float:
    """Return how long an H200 with twelve networks side by side takes for one of them."""
    pixels = (protocol.neural.image_size / 64) ** 2
    return float(protocol.neural.epochs * SECONDS_PER_EPOCH * samples / 10_000 * max(1.0, pixels))
