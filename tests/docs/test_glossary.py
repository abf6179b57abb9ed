"""What the glossary states about the words of the package is so."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from adacsl import AdaCSLClassifier, CostMatrix
from adacsl.decision.rule import DECIDE
from adacsl.learners import BoostingLearner, SklearnLearner
from adacsl.neural import NeuralLearner

TEXT = (Path(__file__).resolve().parents[2] / "docs/glossary.md").read_text(encoding="utf-8")
COSTS = CostMatrix(fp=1, fn=8)


def section(title):
    return re.split(r"^## ", TEXT.split(f"## {title}", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_way_to_decide_is_there():
    rows = [line.split("|")[1] for line in section("`decide`").splitlines() if line.startswith('| `"')]
    assert sorted(re.findall(r'"(\w+)"', " ".join(rows))) == sorted(("auto", *DECIDE))


@pytest.mark.parametrize(
    "clf",
    [
        AdaCSLClassifier(COSTS, learner=NeuralLearner(epochs=2), random_state=0),
        AdaCSLClassifier(
            COSTS,
            learner=BoostingLearner(library="xgboost", n_estimators=3, learning_rate=0.5),
            target_threshold=0.5,
            controller={"n_standard_errors": 0},
            random_state=0,
            decide="bayes",
        ),
        AdaCSLClassifier(
            COSTS,
            learner=SklearnLearner(LogisticRegression(), max_iter=3, encode=False),
            random_state=0,
            decide="bayes",
        ),
    ],
    ids=lambda clf: type(clf).__name__,
)
def test_history_holds_what_was_trained_with(clf):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    history = clf.fit(x, (x[:, 0] + rng.normal(size=300) > 1).astype(int)).history_
    first = history.iloc[0]
    assert {"fold", "target_threshold", "lambda", "weight", "threshold", "val_cost"} < set(history.columns)
    assert first["lambda"] == 1.0
    assert first["weight"] == 0.125
    assert history["lambda"].iloc[1] != 1.0
