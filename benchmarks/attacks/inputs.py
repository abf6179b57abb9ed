"""Wrong inputs of the Python API: each must be refused at once, in one line that says what to do.

The same table is a test of the package (tests/attacks/test_inputs.py).
"""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from sklearn.linear_model import LogisticRegression

import adacsl
from adacsl import (
    AdaCSLClassifier,
    AdaCSLController,
    CostHistogram,
    CostMatrix,
    CostSensitiveClassifier,
    Decision,
    EnsembleClassifier,
    Policy,
    Task,
    find_threshold,
)
from adacsl.adaptive import QuantileBins, UniformBins
from adacsl.datasets.loading import load_task
from adacsl.integrations.boosting import Feedback
from adacsl.integrations.lightning import AdaCSLCallback
from adacsl.learners import SklearnLearner
from adacsl.neural import NeuralLearner
from adacsl.thresholds import find_multipliers
from adacsl.torch.losses import AdaptiveCrossEntropy, AdaptiveFocalLoss, WeightedCrossEntropy
from benchmarks.attacks.scoreboard import Attack, Attempt
from tests.made import boosting_classifier

Call = Callable[[Path], Any]

LONGEST = 600
"""A message with more characters is no line that somebody reads."""

RAW = re.compile(
    r"zero-size array|has no attribute|not subscriptable|unexpected keyword|positional argument|object is not iterable"
    r"|could not be broadcast|shapes? .* not aligned|out of bounds|index out of range|'NoneType'|unsupported operand"
    r"|not supported between|invalid literal|could not convert|ufunc|dtype\('|truth value|mat1 and mat2|size of tensor"
    r"|unhashable|cannot unpack|values to unpack|Traceback|<class '"
)
"""What Python, numpy, pandas or torch say when nobody has looked at what came in."""

TRAINS = {
    "lightning.pytorch.Trainer.fit": AssertionError("training began"),
    "adacsl.learners.boosting_fit.load_library": lambda _: mock.Mock(
        boost=mock.Mock(side_effect=AssertionError("training began")),
        boost_plainly=mock.Mock(side_effect=AssertionError("training began")),
    ),
}
"""Where training begins, and what happens instead: a wrong input is refused before."""

COSTS = CostMatrix(fp=1, fn=8)
MANY = CostMatrix.from_array([[0, 9, 1], [1, 0, 1], [1, 9, 0]], rows="predicted")
SCORES, LABELS = [0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1]


class Wrong(NamedTuple):
    """An input that makes no sense, and what the answer has to say (a pattern)."""

    name: str
    says: str
    call: Call
    fitted: bool = False  # whether a fitted model is needed


# data that are right, to be spoiled


@cache
def table(rows: int = 60) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Return a small table and its labels."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 3))
    return pd.DataFrame(x, columns=["age", "dose", "length"]), (x[:, 0] + x[:, 1] > 0.5).astype(np.int64)


@cache
def fitted(*, names: bool = True) -> Any:
    """Return a fitted model, the same for all; without ``names``, of an array."""
    rows, labels = table()
    return CostSensitiveClassifier(COSTS, learner=LogisticRegression(), random_state=0).fit(
        rows if names else rows.to_numpy(), labels
    )


def masked(values: Any) -> Any:
    """Return numbers of which the first is masked."""
    array = np.array(values, dtype=float)
    mask = np.zeros(array.shape, dtype=bool)
    mask.flat[0] = True
    return np.ma.masked_array(array, mask)


def fit(X: Any = None, y: Any = None, /, *, model: Any = None, **given: Any) -> Call:
    """Return a fit of spoiled data; what is left out is right."""

    def call(_: Path) -> Any:
        right = table()
        made = (
            CostSensitiveClassifier(COSTS, learner=LogisticRegression(), random_state=0) if model is None else model()
        )
        return made.fit(right[0] if X is None else X, right[1] if y is None else y, **given)

    return call


def net(**settings: Any) -> Call:
    """Return a fit of a neural network with settings."""
    return fit(model=lambda: AdaCSLClassifier(COSTS, random_state=0, **settings))


def booster(**settings: Any) -> Call:
    """Return a fit of boosters with settings."""
    return fit(model=lambda: boosting_classifier(COSTS, random_state=0, **settings))


def of_model(X: Any = None, method: str = "predict", **given: Any) -> Call:
    """Return a call of the fitted model with spoiled rows."""
    return lambda _: getattr(fitted(), method)(table()[0] if X is None else X, **given)


def cost(**costs: Any) -> Call:
    return lambda _: CostMatrix(**costs)


def matrix(cells: Any, **answer: Any) -> Call:
    return lambda _: CostMatrix.from_array(cells, **({"rows": "predicted"} | answer))


def threshold(scores: Any = SCORES, labels: Any = LABELS, costs: Any = COSTS, **more: Any) -> Call:
    return lambda _: find_threshold(scores, labels, costs, **more)


def controller(costs: Any = COSTS, **settings: Any) -> Call:
    return lambda _: AdaCSLController(costs, **settings)


def step(scores: Any = SCORES, labels: Any = LABELS, *, of: CostMatrix = COSTS, **more: Any) -> Call:
    return lambda _: AdaCSLController(of).step(scores, labels, **more)


def loss(logits: Any, targets: Any, weight: Any = None, *, of: CostMatrix = COSTS) -> Call:
    return lambda _: AdaptiveCrossEntropy(of)(logits, targets, weight)


X, Y = table()
WIDE = X.to_numpy()
TEXTS = np.asarray(["a", "b"] * 30, dtype=object)
ROW = torch.zeros(4)

TABLE: tuple[Wrong, ...] = (
    # costs
    Wrong("costs: negative error", "fp must cost more than tn", cost(fp=-1, fn=8)),
    Wrong("costs: free errors", "fn must cost more than tp", cost(fp=1, fn=0)),
    Wrong("costs: NaN", "fn must be finite", cost(fp=1, fn=float("nan"))),
    Wrong("costs: infinite", "fp must be finite", cost(fp=float("inf"), fn=8)),
    Wrong("costs: None", "fn must be a number", cost(fp=1, fn=None)),
    Wrong("costs: complex", "fn must be", cost(fp=1, fn=8j)),
    Wrong("costs: a set", "fn must be", cost(fp=1, fn={8})),
    Wrong("costs: a generator", "fn must be", cost(fp=1, fn=(value for value in [8]))),
    Wrong("costs: a dict", "fn must be", cost(fp=1, fn={"fn": 8})),
    Wrong("costs: masked", "masked", cost(fp=1, fn=masked([8, 9]))),
    Wrong("costs: dates", "fn must be", cost(fp=1, fn=np.asarray(["2020-01-01"], dtype="datetime64[D]"))),
    Wrong("costs: too large to add", "too large", cost(fp=1e308, fn=1e308)),
    Wrong("costs: two lengths", "one length", cost(fp=[1.0, 2.0], fn=[1.0, 2.0, 3.0])),
    Wrong("costs: not square", "actions", matrix([[0, 1, 2], [1, 0, 2]])),
    Wrong("costs: 1 x 1", "class", matrix([[0]])),
    Wrong("costs: one dimension", "must be square", matrix([0, 1])),
    Wrong("costs: unknown rows", "rows must be", matrix([[0, 1], [1, 0]], rows="columns")),
    Wrong("costs: too few names", "classes", matrix([[0, 1], [1, 0]], classes=["a"])),
    Wrong("costs: a name twice", "classes", matrix([[0, 1], [1, 0]], classes=["a", "a"])),
    Wrong("costs: balanced of one class", "both classes", lambda _: CostMatrix.balanced([1, 1])),
    Wrong("costs: balanced of nothing", "empty", lambda _: CostMatrix.balanced([])),
    Wrong("costs: decisions beside labels", "y_pred has 1 entries", lambda _: COSTS.total([0, 1], [1])),
    Wrong("costs: total of nothing", "empty", lambda _: COSTS.total([], [])),
    Wrong("costs: logits for probabilities", "sigmoid", lambda _: COSTS.decide([0.5, 3.0])),
    Wrong("costs: a class too many", "class numbers", lambda _: COSTS.total([0, 2], [0, 1])),
    Wrong("costs: damaged JSON", "JSON", lambda _: CostMatrix.from_json("{")),
    # thresholds
    Wrong("threshold: nothing", "scores is empty", threshold([], [])),
    Wrong("threshold: two lengths", "labels has 1 entries", threshold(labels=[1])),
    Wrong("threshold: NaN", "scores must be finite", threshold([0.1, np.nan, 0.6, 0.8])),
    Wrong("threshold: text", "scores must be numbers", threshold(["a", "b", "c", "d"])),
    Wrong("threshold: complex", "scores must be numbers", threshold(np.asarray(SCORES) * 1j)),
    Wrong("threshold: masked scores", "masked", threshold(masked(SCORES))),
    Wrong("threshold: masked labels", "masked", threshold(labels=masked(LABELS))),
    Wrong("threshold: two columns", r"\[:, 1\]", threshold(np.ones((4, 2)) / 2)),
    Wrong("threshold: labels 1 and 2", "labels must be 0 or 1", threshold(labels=[1, 2, 1, 2])),
    Wrong("threshold: ragged", "scores must be", threshold([[0.1], [0.2, 0.3], [0.4], [0.5]])),
    Wrong("threshold: a set", "scores must be", threshold({0.1, 0.2, 0.3, 0.4})),
    Wrong("threshold: a generator", "scores must be", threshold(value for value in SCORES)),
    Wrong("threshold: costs as a tuple", "costs must be a CostMatrix", threshold(costs=(1, 8))),
    Wrong("threshold: costs as a dict", "CostMatrix", threshold(costs={"fp": 1, "fn": 8})),
    Wrong("threshold: costs of three classes", "two classes", threshold(costs=MANY)),
    Wrong("threshold: target 1", "target_threshold must lie", threshold(target_threshold=1)),
    Wrong("threshold: target NaN", "target_threshold must lie", threshold(target_threshold=float("nan"))),
    Wrong("threshold: target text", "target_threshold must", threshold(target_threshold="half")),
    Wrong("threshold: candidates NaN", "candidates must be finite", threshold(candidates=[0.1, np.nan])),
    Wrong("threshold: no candidates", "candidates is empty", threshold(candidates=[])),
    Wrong("threshold: negative weights", "must not be negative", threshold(sample_weight=[1, 1, 1, -1])),
    Wrong("threshold: weights of zero", "zero everywhere", threshold(sample_weight=[0, 0, 0, 0])),
    Wrong("threshold: n_standard_errors negative", "n_standard_errors must be", threshold(n_standard_errors=-1)),
    Wrong("threshold: n_standard_errors text", "n_standard_errors must be", threshold(n_standard_errors="high")),
    Wrong("threshold: sparse scores", "scores must be", threshold(scipy.sparse.csr_array([SCORES]))),
    Wrong("curve: two lengths", "labels has 1 entries", lambda _: adacsl.cost_curve(SCORES, [1], COSTS)),
    Wrong("multipliers: not probabilities", "sum to 1", lambda _: find_multipliers(np.eye(3) * 0.5, [0, 1, 2], MANY)),
    Wrong("multipliers: wrong width", "shape", lambda _: find_multipliers(np.eye(2), [0, 1], MANY)),
    Wrong("multipliers: weights of zero", "weights", lambda _: find_multipliers(
        np.eye(3), [0, 1, 2], MANY, weights=[0, 1, 1])),
    # the controller
    Wrong("controller: no costs", "costs must be a CostMatrix", controller((1, 8))),
    Wrong("controller: costs of rows", "class-wide costs", controller(CostMatrix(fp=1, fn=[1.0, 2.0]))),
    Wrong("controller: target 0", "target_threshold must lie", controller(target_threshold=0)),
    Wrong("controller: target misspelt", "did you mean 'bayes'|one of 'bayes'", controller(target_threshold="bays")),
    Wrong("controller: target None of a list", "target_threshold must", controller(target_threshold=[0.5])),
    Wrong("controller: damping 0", "damping must be", controller(damping=0)),
    Wrong("controller: damping 10", "damping must be", controller(damping=10)),
    Wrong("controller: damping text", "damping must be", controller(damping="slow")),
    Wrong("controller: damping NaN", "damping must be", controller(damping=float("nan"))),
    Wrong("controller: tolerance None", "tolerance must be", controller(tolerance=None)),
    Wrong("controller: bounds of one", "bounds must", controller(bounds=(1,))),
    Wrong("controller: bounds the wrong way", "bounds must", controller(bounds=(10, 0.1))),
    Wrong("controller: bounds a number", "bounds must", controller(bounds=10)),
    Wrong("controller: bounds text", "bounds must", controller(bounds=("a", "b"))),
    Wrong("controller: partition a number", "partition must be callable", controller(partition=10)),
    Wrong("controller: update misspelt", "update must be", controller(update="linear")),
    Wrong("controller: no bins", "bins", lambda _: UniformBins(0)),
    Wrong("controller: half a bin", "bins", lambda _: QuantileBins(2.5)),
    Wrong("controller: one class", "both classes", step([0.1, 0.2], [0, 0])),
    Wrong("controller: logits", "sigmoid", step([-1.0, 2.0], [0, 1])),
    Wrong("controller: masked scores", "masked", step(masked(SCORES))),
    Wrong("controller: foreign state", "not that of an AdaCSLController",
    lambda _: AdaCSLController(COSTS).load_state_dict(
        {"lambda": 1})),
    Wrong("controller: partition that numbers too few", "numbered", lambda _: AdaCSLController(
        COSTS, partition=lambda scores: scores[:1]).step(SCORES, LABELS)),
    # losses
    Wrong("loss: reduction misspelt", "reduction must be", lambda _: WeightedCrossEntropy(COSTS, reduction="avg")),
    Wrong("loss: no costs", "costs must be a CostMatrix", lambda _: AdaptiveCrossEntropy({"fp": 1, "fn": 8})),
    Wrong("loss: gamma negative", "gamma must not be negative", lambda _: AdaptiveFocalLoss(COSTS, gamma=-1)),
    Wrong("loss: unknown setting", "damp", lambda _: AdaptiveCrossEntropy(COSTS, damp=1)),
    Wrong("loss: one-hot targets", "one-hot", loss(ROW, torch.zeros(4, 2))),
    Wrong("loss: too few targets", "targets must have shape", loss(ROW, torch.zeros(3))),
    Wrong("loss: three logits", "K x K costs", loss(torch.zeros(4, 3), ROW)),
    Wrong("loss: too few classes", r"\(n, 3\)", loss(torch.zeros(4, 2), torch.zeros(4).long(), of=MANY)),
    Wrong("loss: weights of two lengths", "sample_weight must have shape", loss(ROW, ROW, torch.ones(3))),
    Wrong("loss: a class too many", "targets must be", loss(torch.zeros(4, 3), torch.full((4,), 3), of=MANY)),
    Wrong("loss: adapt to NaN", "must be finite", lambda _: AdaptiveCrossEntropy(COSTS).adapt(
        torch.tensor([0.0, float("nan")]), torch.tensor([0, 1]))),
    # callbacks
    Wrong("callback: no controller", "controller must be an AdaCSLController", lambda _: Feedback(5)),
    Wrong("callback: every 0", "every must be", lambda _: AdaCSLCallback(AdaCSLController(COSTS), every=0)),
    Wrong("callback: every 1.5", "every must be", lambda _: Feedback(AdaCSLController(COSTS), every=1.5)),
    Wrong("callback: patience 0", "patience must be", lambda _: Feedback(AdaCSLController(COSTS), patience=0)),
    Wrong("callback: costs a tuple", "costs must be a CostMatrix", lambda _: Feedback(
        AdaCSLController(COSTS), costs=(1, 8))),
    Wrong("callback: labels of another class", "whole numbers 0 to 2", lambda _: Feedback(AdaCSLController(MANY)).start(
        np.asarray([0, 1, 3]))),
    Wrong("callback: one class", "both classes", lambda _: Feedback(AdaCSLController(COSTS)).look(
        np.zeros(4), np.zeros(4))),
    # data of a fit
    Wrong("fit: no labels", "requires y", lambda _: CostSensitiveClassifier(COSTS,
    learner=LogisticRegression()).fit(X)),
    Wrong("fit: y empty", "y is empty|0 sample", fit(None, [])),
    Wrong("fit: nothing at all", "0 sample", fit(np.empty((0, 3)), [])),
    Wrong("fit: no columns", "0 feature", fit(np.empty((60, 0)))),
    Wrong("fit: a frame without columns", "0 feature", fit(pd.DataFrame(index=range(60)))),
    Wrong("fit: X of one dimension", "2D|rows and columns", fit(np.arange(60.0))),
    Wrong("fit: X of three dimensions", "2D|dim|rows and columns", fit(np.zeros((60, 3, 2)))),
    Wrong("fit: two lengths", "inconsistent numbers|one label for each", fit(X.head(50))),
    Wrong("fit: one class", "one class only", fit(None, np.zeros(60))),
    Wrong("fit: y with NaN", "y contains NaN|y holds", fit(None, np.where(Y == 0, np.nan, 1.0))),
    Wrong("fit: y with None", "None|missing|NaN", fit(None, np.where(Y == 0, None, 1))),
    Wrong("fit: y with NA", "no label", fit(None, pd.Series(Y).astype(object).mask(Y == 0, pd.NA))),
    Wrong("fit: y continuous", "continuous|classes", fit(None, np.linspace(0, 1, 60))),
    Wrong("fit: y mixed", "text and numbers|mix", fit(None, np.asarray([1, "a"] * 30, dtype=object))),
    Wrong("fit: y of two columns", "1d|one column", fit(None, np.zeros((60, 2)))),
    Wrong("fit: y masked", "masked", fit(None, masked(Y))),
    Wrong("fit: X masked", "masked", fit(masked(WIDE))),
    Wrong("fit: X complex", "[Cc]omplex", fit(WIDE * 1j)),
    Wrong("fit: X a set", "X must be|table", fit({1, 2, 3})),
    Wrong("fit: X a generator", "X must be|table", fit(row for row in [[1.0], [2.0]])),
    Wrong("fit: X a number", "X must be|table", fit(5)),
    Wrong("fit: X text", "X must be|table|folder", fit("data")),
    Wrong("fit: a column twice", "unique column names", fit(X.set_axis(["age", "age", "length"], axis=1))),
    Wrong("fit: negative weights", "sample_weight must not be negative", fit(sample_weight=-np.ones(60))),
    Wrong("fit: one negative weight", "must not be negative", fit(sample_weight=np.r_[-1.0, np.ones(59)])),
    Wrong("fit: weights with NaN", "sample_weight", fit(sample_weight=np.full(60, np.nan))),
    Wrong("fit: weights of zero", "sample_weight is zero everywhere", fit(sample_weight=np.zeros(60))),
    Wrong("fit: weights of two lengths", "sample_weight", fit(sample_weight=np.ones(59))),
    Wrong("fit: weights masked", "masked", fit(sample_weight=masked(np.ones(60)))),
    Wrong("fit: weights of text", "sample_weight", fit(sample_weight=TEXTS)),
    Wrong("fit: groups of two lengths", "groups|inconsistent", fit(groups=[1, 2])),
    Wrong("fit: costs of two lengths", "60|rows", fit(fn=[1.0, 2.0])),
    Wrong("fit: costs of zero", "there is nothing to learn", fit(fn=np.zeros(60))),
    Wrong("fit: costs of no column", "amount", fit(fn="amount")),
    Wrong("fit: time of two lengths", "one time for each", fit(time=np.arange(5))),
    Wrong("fit: gap without time", "gap and label_delay are for samples with a time", fit(gap=1)),
    # settings of a fit
    Wrong("settings: costs as a tuple", "costs must be a CostMatrix", fit(model=lambda: CostSensitiveClassifier((1,
    8)))),
    Wrong("settings: costs as an array", "from_array", fit(model=lambda: CostSensitiveClassifier(np.eye(2)))),
    Wrong("settings: costs of rows", "one cost per outcome", fit(model=lambda: CostSensitiveClassifier(CostMatrix(fp=1,
    fn=[1.0, 2])))),
    Wrong("settings: costs of three", "2 classes", fit(model=lambda: CostSensitiveClassifier(MANY,
    learner=LogisticRegression()))),
    Wrong("settings: learner misspelt", "learner", fit(model=lambda: CostSensitiveClassifier(COSTS,
    learner="boostng"))),
    Wrong("settings: learner a number", "learner|classifier", fit(model=lambda: CostSensitiveClassifier(COSTS,
    learner=5))),
    Wrong("settings: learner a class", "instance|class", fit(model=lambda: CostSensitiveClassifier(COSTS,
    learner=LogisticRegression))),
    Wrong("settings: decide misspelt", "decide must be one of", net(decide="bays")),
    Wrong("settings: decide None", "decide must be one of", net(decide=None)),
    Wrong("settings: select misspelt", "select must be one of", net(select="worst")),
    Wrong("settings: target 1", "target_threshold must be", net(target_threshold=1)),
    Wrong("settings: target a list", "target_threshold must be", net(target_threshold=[0.5])),
    Wrong("settings: controller a number", "controller must be", net(controller=5)),
    Wrong("settings: controller misspelt", "controller has no setting 'dampng'", net(controller={"dampng": 1})),
    Wrong("settings: controller damping", "damping must be", net(controller={"damping": 100})),
    Wrong("settings: epochs 0", "epochs must be", net(learner=NeuralLearner(epochs=0))),
    Wrong("settings: epochs -1", "epochs must be", net(learner=NeuralLearner(epochs=-1))),
    Wrong("settings: epochs 2.5", "epochs must be", net(learner=NeuralLearner(epochs=2.5))),
    Wrong("settings: epochs text", "epochs must be", net(learner=NeuralLearner(epochs="many"))),
    Wrong("settings: batch of 0", "batch_size must be", net(learner=NeuralLearner(batch_size=0))),
    Wrong("settings: learning rate negative", "learning_rate must be", net(learner=NeuralLearner(learning_rate=-1.0))),
    Wrong("settings: learning rate NaN", "learning_rate must be", net(learner=NeuralLearner(learning_rate=np.nan))),
    Wrong("settings: learning rate text", "learning_rate must be", net(learner=NeuralLearner(learning_rate="fast"))),
    Wrong("settings: weight decay negative", "weight_decay must be", net(learner=NeuralLearner(weight_decay=-1))),
    Wrong("settings: patience 0", "patience must be", net(learner=NeuralLearner(patience=0))),
    Wrong("settings: patience 1.5", "patience must be", net(learner=NeuralLearner(patience=1.5))),
    Wrong("settings: trainer 5", "trainer must be a dict", net(learner=NeuralLearner(trainer=5))),
    Wrong("settings: trainer misspelt", "trainer has no", net(learner=NeuralLearner(trainer={"max_epoch": 1}))),
    Wrong("settings: module a number", "module must be", net(learner=NeuralLearner(module=5))),
    Wrong("settings: module size text", "width must be", net(learner=NeuralLearner(module={"width": "wide"}))),
    Wrong("settings: dropout text", "dropout must be", net(learner=NeuralLearner(module={"dropout": "some"}))),
    Wrong("settings: precision unknown", "precision", net(learner=NeuralLearner(precision="17"))),
    Wrong("settings: schedule unknown", "schedule must be", net(learner=NeuralLearner(schedule="linear"))),
    Wrong("settings: optimizer unknown", "optimizer must be", net(learner=NeuralLearner(optimizer="adamx"))),
    Wrong("settings: optimizer a number", "optimizer must be", net(learner=NeuralLearner(optimizer=5))),
    Wrong("settings: image size text", "image_size must be", net(learner=NeuralLearner(image_size="big"))),
    Wrong("settings: views 3", "views must be", net(learner=NeuralLearner(views=3))),
    Wrong("settings: every 0", "every must be", net(learner=NeuralLearner(every=0))),
    Wrong("settings: device unknown", "device", net(device="gpu7")),
    Wrong("settings: device a number", "device", net(device=7)),
    Wrong("settings: seed text", "random_state must be", fit(model=lambda: AdaCSLClassifier(COSTS, random_state="a"))),
    Wrong("settings: cv 1", "cv must be", net(cv=1)),
    Wrong("settings: cv 2.9", "cv must be", net(cv=2.9)),
    Wrong("settings: cv text", "cv must be", net(cv="five")),
    Wrong("settings: cv too many", "folds", net(cv=10**9)),
    Wrong("settings: cv True", "cv must be", net(cv=True)),
    Wrong("settings: validation 0", "validation must be", net(validation=0.0)),
    Wrong("settings: validation 1.5", "validation must be", net(validation=1.5)),
    Wrong("settings: validation NaN", "validation must be", net(validation=float("nan"))),
    Wrong("settings: validation text", "validation must be", net(validation="some")),
    Wrong("settings: validation of two lengths", "validation", net(validation=(X, Y[:50]))),
    Wrong("settings: validation of other columns", "validation|feature", net(validation=(X[["age"]], Y))),
    Wrong("settings: validation of one class", "both classes", net(validation=(X, np.zeros(60, dtype=int)))),
    Wrong("settings: validation with other labels", "validation labels", net(validation=(X, Y + 5))),
    Wrong("settings: validation empty", "empty|0 sample", net(validation=(X.head(0), []))),
    Wrong("settings: validation masked", "masked", net(validation=(X, masked(Y)))),
    Wrong("settings: validation of three", "pair", net(validation=(X, Y, Y))),
    Wrong("settings: positive unknown", "y has no class", net(pos_label="ill")),
    Wrong("settings: policy a dict", "policy must be", net(policy={"refer": 1})),
    Wrong("settings: resume without seed", "random_state", lambda folder: AdaCSLClassifier(
        COSTS, resume=folder / "run").fit(X, Y)),
    Wrong("settings: resume a file", "folder|director", lambda folder: AdaCSLClassifier(
        COSTS, resume=a_file(folder), random_state=0).fit(X, Y)),
    Wrong("settings: resume a number", "resume", net(resume=5)),
    # boosters, estimators, ensembles
    Wrong("booster: library misspelt", "library must be one of", booster(library="xgbost")),
    Wrong("booster: n_estimators 0", "n_estimators must be", booster(n_estimators=0)),
    Wrong("booster: n_estimators text", "n_estimators must be", booster(n_estimators="many")),
    Wrong("booster: learning rate 0", "learning_rate must be", booster(learning_rate=0)),
    Wrong("booster: patience 0", "patience must be", booster(patience=0)),
    Wrong("booster: params a list", "params must be", booster(params=[1])),
    Wrong("booster: decide unweighted", "undoes the weight", booster(decide="unweighted")),
    Wrong("booster: constant columns", "every column is constant", fit(
        np.ones((60, 3)), model=lambda: CostSensitiveClassifier(COSTS, learner="xgboost"))),
    Wrong("estimator: a number", "estimator", lambda _: AdaCSLClassifier(COSTS, learner=SklearnLearner(5, encode=False),
    decide="bayes").fit(X, Y)),
    Wrong("estimator: a class", "instance", lambda _: AdaCSLClassifier(COSTS, learner=SklearnLearner(LogisticRegression,
    encode=False), decide="bayes").fit(X, Y)),
    Wrong("estimator: max_iter 0", "max_iter must be", lambda _: AdaCSLClassifier(COSTS,
    learner=SklearnLearner(LogisticRegression(), max_iter=0, encode=False), decide="bayes").fit(X, Y)),
    Wrong("estimator: training unknown", "training must be", lambda _: AdaCSLClassifier(COSTS,
    learner=SklearnLearner(LogisticRegression(), training="slow", encode=False), decide="bayes").fit(X, Y)),
    Wrong("ensemble: member misspelt", "xgbost", lambda _: EnsembleClassifier(COSTS, estimators=["xgbost"]).fit(X, Y)),
    Wrong("ensemble: no base estimators", "estimators is empty",
        lambda _: EnsembleClassifier(COSTS, estimators=[]).fit(X, Y),
    ),
    Wrong("ensemble: estimators a number", "estimators must be",
        lambda _: EnsembleClassifier(COSTS, estimators=5).fit(X, Y),
    ),
    Wrong("method: misspelt", "did you mean 'adacsl'", lambda _: adacsl.method("adaclsl")),
    Wrong("method: a number", "there is no method 5", lambda _: adacsl.method(5)),
    # decisions
    Wrong("decision: no costs", "costs must be a CostMatrix", lambda _: Decision((1, 8))),
    Wrong("decision: misspelt", "decide must be one of", lambda _: Decision(COSTS, "bays")),
    Wrong("decision: scores of two columns", "shape", lambda _: Decision(COSTS).fit(np.ones((4, 2)), LABELS)),
    Wrong("decision: two lengths", "labels", lambda _: Decision(COSTS, "tuned").fit(np.asarray(SCORES), [1])),
    Wrong("decision: logits", "probabilities", lambda _: Decision(COSTS).predict(np.asarray([-3.0, 4.0]))),
    Wrong("policy: refer negative", "refer must be", lambda _: Policy(refer=-1)),
    Wrong("policy: refer text", "refer must be", lambda _: Policy(refer="me")),
    Wrong("policy: refer NaN", "refer must be", lambda _: Policy(refer=float("nan"))),
    Wrong("policy: capacity 2.5", "capacity must be", lambda _: Policy(capacity=2.5)),
    Wrong("policy: per year", "per must be one of", lambda _: Policy(capacity=5, per="year")),
    Wrong("policy: prior 2", "prior", lambda _: Policy(prior=2.0)),
    Wrong("policy: actions a dict", "actions", lambda _: Policy(actions={"a": 1})),
    Wrong("histogram: weights without costs", "sample_weight needs costs", lambda _: CostHistogram().update(
        SCORES, LABELS, sample_weight=[1, 1, 1, 1])),
    Wrong("histogram: masked", "masked", lambda _: CostHistogram().update(masked(SCORES), LABELS)),
    Wrong("histogram: nothing counted", "nothing was counted", lambda _: CostHistogram().curve(COSTS)),
    # comparisons, tasks, checks
    Wrong("compare: method misspelt", "did you mean 'net-weighted'", lambda _: adacsl.compare(X, Y, COSTS,
    methods=["net-weightd"])),
    Wrong("compare: no methods", "no methods", lambda _: adacsl.compare(X, Y, COSTS, methods=[])),
    Wrong("compare: methods a number", "method", lambda _: adacsl.compare(X, Y, COSTS, methods=5)),
    Wrong("compare: folds 1", "folds", lambda _: adacsl.compare(X, Y, COSTS, methods=["logistic"], folds=1)),
    Wrong("compare: folds 2.9", "folds", lambda _: adacsl.compare(X, Y, COSTS, methods=["logistic"], folds=2.9)),
    Wrong("compare: repeats 0", "repeats", lambda _: adacsl.compare(X, Y, COSTS, methods=["logistic"], repeats=0)),
    Wrong("compare: ratios of text", "ratio", lambda _: adacsl.compare(X, Y, COSTS, methods=["net-weighted"],
    ratios=["a"])),
    Wrong("compare: ratios negative", "ratio", lambda _: adacsl.compare(X, Y, COSTS, methods=["net-weighted"],
    ratios=[-1])),
    Wrong("compare: unknown option", "epoch", lambda _: adacsl.compare(X, Y, COSTS, methods=["logistic"], epoch=1)),
    Wrong("compare: y empty", "no rows", lambda _: adacsl.compare(X, [], COSTS, methods=["logistic"])),
    Wrong("compare: two lengths", "label|rows", lambda _: adacsl.compare(X, Y[:9], COSTS, methods=["logistic"])),
    Wrong("compare: negative weights", "sample_weight must be finite and not negative", lambda _: adacsl.compare(
        X, Y, COSTS, sample_weight=-np.ones(60), methods=["logistic"])),
    Wrong("task: y empty", "y|label|0 sample", lambda _: Task.from_data(X, [], COSTS)),
    Wrong("task: two lengths", "label|rows", lambda _: Task.from_data(X, Y[:9], COSTS)),
    Wrong("task: one class", "class", lambda _: Task.from_data(X, np.zeros(60), COSTS)),
    Wrong("task: costs as a list", "costs must be a CostMatrix", lambda _: Task.from_data(X, Y, [1, 8])),
    Wrong("task: masked labels", "missing in 1 of 60 rows", lambda _: Task.from_data(X, masked(Y), COSTS)),
    Wrong("task: masked rows", "masked", lambda _: Task.from_data(masked(WIDE), Y, COSTS)),
    Wrong("task: negative weights", "sample_weight must be finite and not negative", lambda _: Task.from_data(
        X, Y, COSTS, sample_weight=-np.ones(60))),
    Wrong("task: weights of zero", "sample_weight", lambda _: Task.from_data(X, Y, COSTS, sample_weight=np.zeros(60))),
    Wrong("task: a missing file", "nowhere", lambda folder: load_task(folder / "nowhere.csv")),
    Wrong("task: not a table", "file", lambda folder: load_task(a_file(folder), target="y")),
    Wrong("task: unknown target", "has no column 'y'", lambda folder: load_task(a_table(folder), target="y")),
    Wrong("check: two lengths", "label|rows", lambda _: adacsl.check(X, Y[:9])),
    Wrong("check: y empty", "y|label|0 sample", lambda _: adacsl.check(X, [])),
    Wrong("check: unknown code", "code|ignore", lambda _: adacsl.check(X, Y, ignore=["no-such-code"])),
    # a fitted model
    Wrong("model: not fitted", "fit", lambda _: CostSensitiveClassifier(COSTS).predict(X)),
    Wrong("model: a column missing", "length", of_model(X[["age", "dose"]]), fitted=True),
    Wrong("model: columns in another order", "order", of_model(X[["length", "dose", "age"]]), fitted=True),
    Wrong("model: a column too many", "feature", of_model(X.assign(more=1.0)), fitted=True),
    Wrong("model: array too narrow", "feature", lambda _: fitted(names=False).predict(WIDE[:, :2]), fitted=True),
    Wrong("model: one row flat", "1D|rows and columns|2D", lambda _: fitted(names=False).predict(WIDE[0]), fitted=True),
    Wrong("model: no rows", "0 sample", of_model(X.head(0)), fitted=True),
    Wrong("model: masked rows", "masked", of_model(masked(WIDE)), fitted=True),
    Wrong("model: text for numbers", "age", of_model(X.assign(age="old")), fitted=True),
    Wrong("model: X None", "X must be|table", lambda _: fitted().predict(None), fitted=True),
    Wrong("model: costs of two lengths", "60", of_model(fn=[1.0, 2.0]), fitted=True),
    Wrong("model: other labels", "not in training", of_model(None, "score", y=np.full(60, 7)), fitted=True),
    Wrong("model: too few labels", "labels|inconsistent|entries", of_model(None, "score", y=Y[:9]), fitted=True),
    Wrong("model: retune with one class", "class", of_model(None, "retune", y=np.zeros(60, dtype=int)), fitted=True),
    Wrong("model: policy a number", "policy", of_model(policy=5), fitted=True),
    Wrong("model: saved as a file", "folder|director", lambda folder: fitted().save(a_file(folder)), fitted=True),
    Wrong("model: saved below a file", "folder|director", lambda folder: fitted().save(
        a_file(folder) / "m"), fitted=True),
    Wrong("model: saved unfitted", "fit", lambda folder: CostSensitiveClassifier(COSTS).save(folder / "m")),
    Wrong("model: loaded from nowhere", "nowhere", lambda folder: adacsl.load(folder / "nowhere")),
    Wrong("model: loaded from a file", "folder|director", lambda folder: adacsl.load(a_file(folder))),
    Wrong("model: loaded from a number", "folder|path", lambda _: adacsl.load(5)),
    Wrong("monitor: not a model", "model", lambda _: adacsl.monitor(5, X)),
    Wrong("monitor: not fitted", "fit", lambda _: adacsl.monitor(CostSensitiveClassifier(COSTS), X)),
    Wrong("monitor: too few labels", "label|inconsistent|entries", lambda _: adacsl.monitor(
        fitted(), X, Y[:9]), fitted=True),
    Wrong("monitor: level 95", "level", lambda _: adacsl.monitor(fitted(), X, Y, level=95), fitted=True),
    Wrong("monitor: no rows", "0 sample|rows", lambda _: adacsl.monitor(fitted(), X.head(0)), fitted=True),
)  # fmt: skip


def a_file(folder: Path) -> Path:
    path = folder / "file"
    path.write_text("no model")
    return path


def a_table(folder: Path) -> Path:
    path = folder / "table.csv"
    table()[0].to_csv(path, index=False)
    return path


# one try


def fault_of(wrong: Wrong, folder: Path) -> str:
    """Return what is wrong with the answer to a wrong input; nothing where it is a good one."""
    with warnings.catch_warnings(record=True) as answer, no_training():
        warnings.simplefilter("always")
        try:
            given = wrong.call(folder)
        except Exception as error:
            return _judged(wrong, error) or (f"it warned: {answer[0].message}" if answer else "")
        return f"taken without a word: {str(given)[:80]!r}"


def _judged(wrong: Wrong, error: Exception) -> str:
    shown = f"{type(error).__name__}: {error}"
    if not isinstance(error, ValueError | TypeError | OSError):
        return f"no ValueError or TypeError, but {shown[:200]!r} from {_where(error)}"
    if "\n" in str(error) or len(str(error)) > LONGEST:
        return f"more than a line: {shown[:200]!r}"
    if RAW.search(str(error)) or not re.search(wrong.says, str(error)):
        return f"says {shown[:200]!r} from {_where(error)}, not {wrong.says!r}"
    return ""


def _where(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


@contextmanager
def no_training() -> Iterator[None]:
    """Make every training fail: what is wrong is found out before."""
    with ExitStack() as stack:
        for place, effect in TRAINS.items():
            stack.enter_context(mock.patch(place, side_effect=effect))
        yield


def run(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    """Try the table: in the short form those that need no fitted model."""
    del seed
    for wrong in TABLE:
        if tries >= len(TABLE) or not wrong.fitted:
            own = folder / f"{hash(wrong.name) & 0xFFFFFFFF:x}"
            own.mkdir()
            yield Attempt(wrong.name, fault_of(wrong, own))


ATTACKS = (
    Attack(
        "inputs",
        "Wrong inputs of the Python API, from masked arrays to misspelt settings: failed is what is taken without a "
        "word, warns, begins to train, or answers in more than a line or in the words of another library",
        run,
        long=len(TABLE),
        short=len(TABLE) - 1,
    ),
)
