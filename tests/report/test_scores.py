"""The report of scores alone: what it states is what the library computes."""

import re

import numpy as np
import pytest

import adacsl
from adacsl import CostMatrix
from adacsl.report.scores import _binary_rules, _read, render_scores
from adacsl.thresholds.uncertainty import tune_threshold

COSTS = CostMatrix(fp=1, fn=8)
rng = np.random.default_rng(0)
Y = (rng.random(400) < 0.3).astype(int)
SCORES = 1 / (1 + np.exp(-(rng.normal(size=400) + 1.5 * Y - 1.2)))


def test_the_page_is_written_and_loads_nothing(tmp_path):
    path = adacsl.report_scores(SCORES, Y, COSTS, tmp_path / "scores.html", unit="EUR", title="A <b>judge</b>")
    text = path.read_text()
    assert "A &lt;b&gt;judge&lt;/b&gt;" in text
    assert "default-src &#39;none&#39;" in text
    assert not re.search(r'(src|href)="https?://', text)
    best = tune_threshold(SCORES, Y, COSTS)
    assert f"{best.best.value:.4f}"[:6] in text
    assert all(words in text for words in ("Bayes threshold", "Errors and thresholds", "Calibration", "always 1"))


def test_costs_of_the_rules_are_those_of_their_decisions():
    rules = _binary_rules(SCORES, Y, COSTS)
    for name, threshold in (("Bayes threshold", COSTS.threshold), ("threshold 0.5", 0.5)):
        paid = np.mean(np.where(Y == 1, 8.0 * (threshold >= SCORES), threshold < SCORES))
        assert rules[name].cost.estimate == pytest.approx(paid)
        assert rules[name].cost.low < paid < rules[name].cost.high
    tuned = tune_threshold(SCORES, Y, COSTS)
    assert rules["cost-optimal threshold"].cost == tuned.cost
    decided = rules["cost-optimal threshold"].outcome.decisions
    assert np.mean(np.where(Y == 1, 8.0 * (1 - decided), decided)) == pytest.approx(tuned.best.cost)


@pytest.mark.parametrize("pos_label", ["bad", "good"])
def test_names_of_the_classes_and_which_is_positive(pos_label):
    labels = np.asarray(["good", "bad"])[Y]
    _, numbers, names = _read(SCORES, labels, COSTS, pos_label)
    assert names[1] == pos_label
    assert (numbers == (labels == pos_label)).all()
    with pytest.raises(ValueError, match="positive"):
        render_scores(SCORES, labels, COSTS)


def test_costs_of_each_sample_and_more_classes():
    own = CostMatrix(fp=1, fn=rng.lognormal(2, 1, 400))
    assert "of each sample" in render_scores(SCORES, Y, own)
    proba = rng.dirichlet([1, 1, 1], 400)
    matrix = CostMatrix.from_array([[0, 1, 4], [1, 0, 1], [2, 1, 0]], rows="predicted", classes=["a", "b", "c"])
    y = np.asarray(["a", "b", "c"])[[int(rng.choice(3, p=row)) for row in proba]]
    text = render_scores(proba, y, matrix)
    assert all(words in text for words in ("least expected cost", "likeliest class", "Errors by class", "always c"))


@pytest.mark.parametrize(
    ("scores", "labels", "costs", "error", "match"),
    [
        (SCORES * 3, Y, COSTS, ValueError, r"needs probabilities, .*1 / \(1 \+ exp\(-score\)\)"),
        (np.full(400, np.nan), Y, COSTS, ValueError, "none missing"),
        (SCORES, Y[:5], COSTS, ValueError, "one for each of 400 scores"),
        (SCORES[:0], Y[:0], COSTS, ValueError, r"scores must have shape \('n',\)"),
        (np.stack((SCORES, SCORES), 1), Y, COSTS, ValueError, "as the costs have"),
        (SCORES, Y, {"fp": 1}, TypeError, "costs must be a CostMatrix of numbers"),
        (SCORES, Y, CostMatrix(fp=1, fn="amount"), TypeError, "costs must be a CostMatrix of numbers"),
        (SCORES, Y, CostMatrix(fp=1, fn=np.ones(7)), ValueError, "got 7 for 400"),
        (np.full((400, 3), 0.5), Y, CostMatrix.from_array(1 - np.eye(3), rows="predicted"), ValueError, "sum to 1"),
    ],
)
def test_wrong_input_is_one_clear_line(scores, labels, costs, error, match):
    with pytest.raises(error, match=match) as caught:
        render_scores(scores, labels, costs)
    assert "\n" not in str(caught.value)


def test_the_page_is_about_the_threshold_that_meets_the_constraints(tmp_path):
    rng = np.random.default_rng(3)
    labels = (rng.random(900) < 0.3).astype(int)
    scores = np.clip(0.25 * labels + 0.7 * rng.random(900), 0, 1)
    costs, limits = CostMatrix(fp=4, fn=1), {"min_recall": 0.9, "confidence": None}
    free, best = (adacsl.find_threshold(scores, labels, costs, **given).value for given in ({}, limits))
    assert best < free
    page = adacsl.report_scores(scores, labels, costs, tmp_path / "page.html", constraints=limits).read_text()
    words = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert f"The cost-optimal threshold under the constraints is {best:.4g}" in words
    assert "is that of the samples that chose it" in words
    three = CostMatrix.from_array(np.ones((3, 3)) - np.eye(3), rows="actual")
    with pytest.raises(ValueError, match="constraints hold for two classes"):
        adacsl.report_scores(np.full((4, 3), 1 / 3), [0, 1, 2, 0], three, tmp_path / "three.html", constraints=limits)
    assert not (tmp_path / "three.html").exists()
