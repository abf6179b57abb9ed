"""Scores made elsewhere as a classifier of one column: decided, saved, monitored."""

import numpy as np
import pandas as pd
import pytest

from adacsl import CostMatrix, CostSensitiveClassifier, find_threshold, load, monitor
from adacsl.learners.scores import ScoreClassifier

COSTS = CostMatrix(fp=1, fn=8)
rng = np.random.default_rng(0)
Y = (rng.random(600) < 0.3).astype(int)
TABLE = pd.DataFrame({"score": 1 / (1 + np.exp(-(rng.normal(size=600) + 1.5 * Y - 1.2)))})


def test_the_decision_is_saved_and_monitored(tmp_path):
    model = CostSensitiveClassifier(COSTS, learner=ScoreClassifier(), decide="tuned").fit(TABLE[:300], Y[:300])
    best = find_threshold(TABLE["score"][:300].to_numpy(), Y[:300], COSTS)
    assert COSTS.mean(Y[:300], TABLE["score"][:300].to_numpy() > model.threshold_) == pytest.approx(best.cost)
    again = load(model.save(tmp_path / "model"))
    assert (again.predict(TABLE) == model.predict(TABLE)).all()
    assert (again.predict(TABLE) == (TABLE["score"] > model.threshold_)).all()
    assert monitor(again, TABLE[300:], Y[300:]).recommendation == "keep"
    moved = pd.DataFrame({"score": TABLE["score"][300:] ** 3})
    assert monitor(again, moved, Y[300:]).recommendation == "retune"


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ([[1.5]], "scores must be probabilities from 0 to 1"),
        ([[np.nan]], "none missing"),
        ([["a"]], "scores must be numbers"),
        ([[0.1, 0.2]], r"one column, of shape \(n, 1\)"),
    ],
)
def test_what_is_no_score(rows, match):
    with pytest.raises(ValueError, match=match):
        ScoreClassifier().predict_proba(rows)


def test_two_labels():
    with pytest.raises(ValueError, match="two different ones"):
        _ = ScoreClassifier(("a", "a")).classes_
    assert ScoreClassifier(("a", "b")).predict([[0.2], [0.7]]).tolist() == ["a", "b"]
